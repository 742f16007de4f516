//! The bytes under a stream of frames: a Unix socket, which carries descriptors too, or a connection over the network.
//! None of it blocks: what cannot be done now is `WouldBlock`.

use crate::net::NetSocket;
use forebay_arena::Lent;
use forebay_host::rlimits;
use forebay_types::{Code, Error};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Most descriptors beside one frame.
pub const DESCRIPTORS: usize = 8;

#[derive(Debug)]
pub(crate) enum Channel {
    Unix(UnixStream),
    Net(NetSocket),
}

impl Channel {
    /// The connection over the network, if it is one.
    pub fn net(&self) -> Option<&NetSocket> {
        match self {
            Channel::Unix(_) => None,
            Channel::Net(socket) => Some(socket),
        }
    }

    /// Writes what goes now.
    #[inline]
    pub fn write(&self, parts: &[IoSlice]) -> io::Result<usize> {
        match self {
            Channel::Unix(_) => self.write_with(parts, &[]),
            Channel::Net(socket) => socket.try_write(parts),
        }
    }

    /// Writes what goes now, with descriptors beside its first byte; `Unsupported` when there are any and it goes
    /// over the network.
    pub fn write_with(&self, parts: &[IoSlice], fds: &[BorrowedFd]) -> io::Result<usize> {
        let socket = match self {
            Channel::Net(socket) if fds.is_empty() => return socket.try_write(parts),
            Channel::Net(_) => return Err(ErrorKind::Unsupported.into()),
            Channel::Unix(socket) => socket,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(fds));
        }
        loop {
            match sendmsg(socket, parts, &mut beside, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Writes bytes of which others may change some meanwhile.
    pub fn write_lent(&self, parts: &[Lent]) -> io::Result<usize> {
        match self {
            Channel::Unix(socket) => Lent::send(parts, socket),
            Channel::Net(socket) => socket.try_send(parts),
        }
    }

    /// Whether all that was written has gone to the system.
    pub fn flush(&self) -> io::Result<bool> {
        self.net().map_or(Ok(true), NetSocket::try_flush)
    }

    /// What was written so far, for [`Channel::has_left`].
    pub fn taken(&self) -> u64 {
        self.net().map_or(0, NetSocket::taken)
    }

    /// Whether all that had been written then has gone to the system, whatever was written since.
    pub fn has_left(&self, taken: u64) -> io::Result<bool> {
        self.net().map_or(Ok(true), |socket| socket.has_left(taken))
    }

    /// Whether what was written may not have gone to the system.
    pub fn holds_back(&self) -> bool {
        self.net().is_some_and(NetSocket::is_secure)
    }

    /// Reads what is there into the buffers, one after the other, and the descriptors with it; 0 at the end.
    pub fn read(&self, buffers: &mut [IoSliceMut], fds: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
        let socket = match self {
            Channel::Net(socket) => return socket.try_read(buffers),
            Channel::Unix(socket) => socket,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = loop {
            match recvmsg(socket, buffers, &mut beside, flags) {
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

    /// Ends it both ways, for whoever uses it.
    pub fn close(&self) {
        self.shut(Shutdown::Both);
    }

    /// Ends it in one direction or both; whether it could.
    pub fn shut(&self, how: Shutdown) -> bool {
        match self {
            Channel::Unix(socket) => socket.shutdown(how).is_ok(),
            Channel::Net(socket) => socket.shut(how).is_ok(),
        }
    }

    /// The error when reading or writing failed.
    pub fn broken(&self, e: &io::Error) -> Error {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
        match (self, e.kind()) {
            (
                Channel::Unix(_),
                BrokenPipe | ConnectionReset | NotConnected | ConnectionAborted | TimedOut,
            )
            | (Channel::Net(_), _) => self.lost(&format!("broke: {e}")),
            (Channel::Unix(_), _) => {
                let e = e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
                rlimits::cannot("a connection failed", e)
            }
        }
    }

    /// The error when the other side has ended it.
    pub fn lost(&self, how: &str) -> Error {
        let to = self.net().map_or("another process".to_owned(), |socket| socket.peer().to_string());
        Error::new(Code::ServerLost, format!("the connection to {to} {how}"))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Channel::Unix(socket) => socket.as_fd(),
            Channel::Net(socket) => socket.as_fd(),
        }
    }
}
