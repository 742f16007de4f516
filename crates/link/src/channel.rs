//! The bytes under a [`crate::Wire`]: a Unix socket, which carries descriptors too, or a
//! connection over the network.

use crate::net::NetStream;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::wire::DESCRIPTORS;

#[derive(Debug)]
pub(crate) enum Channel {
    Unix(UnixStream),
    Net(Box<NetStream>),
}

impl Channel {
    /// Sends what goes now, the descriptors beside the first byte of it.
    pub fn send(&self, parts: &[IoSlice], fds: &[BorrowedFd]) -> io::Result<usize> {
        let stream = match self {
            Channel::Net(stream) => return stream.try_write(parts),
            Channel::Unix(stream) => stream,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(fds));
        }
        loop {
            match sendmsg(stream, parts, &mut beside, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Whether all that was sent has gone to the system.
    pub fn flush(&self) -> io::Result<bool> {
        match self {
            Channel::Unix(_) => Ok(true),
            Channel::Net(stream) => stream.try_flush(),
        }
    }

    /// Receives what is there, and the descriptors with it; 0 at the end.
    pub fn receive(&self, chunk: &mut [u8], fds: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
        let stream = match self {
            Channel::Net(stream) => return stream.try_read(&mut [IoSliceMut::new(chunk)]),
            Channel::Unix(stream) => stream,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = loop {
            match recvmsg(stream, &mut [IoSliceMut::new(chunk)], &mut beside, flags) {
                Err(Errno::INTR) => {}
                got => break got?,
            }
        };
        // They come to a process that may open no more files, and are gone.
        let cut = got.flags.contains(ReturnFlags::CTRUNC);
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        match cut {
            true => Err(Errno::MFILE.into()),
            false => Ok(got.bytes),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Channel::Unix(stream) => stream.as_fd(),
            Channel::Net(stream) => stream.as_fd(),
        }
    }
}
