//! A transport upon the contract alone: frames over a Unix socket. It is slow and simple; that the laws hold for it
//! shows that they ask for nothing that only our own transports have.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;

use forebay_link::frame::{HEADER_BYTES, first};
use forebay_link::{Frame, Header};
use forebay_types::{Code, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frames::Link;
use crate::transports::{Transport, Writes, own_socket};

/// The largest frame, header included.
const LARGEST: u64 = 128 << 10;

pub struct Sockets;

/// One end.
pub struct End {
    socket: UnixStream,
    /// What the system has not taken yet.
    out: Vec<u8>,
    /// What has come and is not a whole frame, or not asked for.
    come: Vec<u8>,
    over: bool,
}

impl End {
    fn new(socket: UnixStream) -> End {
        socket.set_nonblocking(true).unwrap();
        End { socket, out: Vec::new(), come: Vec::new(), over: false }
    }

    /// Whether all has gone.
    fn flush(&mut self) -> Result<bool> {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // What came before is read first.
                Err(_) => {
                    self.out.clear();
                    return Err(gone());
                }
            }
        }
        Ok(true)
    }

    fn read(&mut self) {
        let mut chunk = [0; 64 << 10];
        while !self.over && (self.come.len() as u64) < 4 * LARGEST {
            match self.socket.read(&mut chunk) {
                Ok(0) => self.over = true,
                Ok(n) => self.come.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.over = true,
            }
        }
    }
}

fn gone() -> Error {
    Error::new(Code::ServerLost, "the process at the other end has ended")
}

impl Link for End {
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        let header = Header { body: body.iter().map(|part| part.len() as u64).sum(), ..*header };
        if header.frame_bytes().is_none_or(|n| n > LARGEST) {
            return Err(Error::bad(format!("a frame of {} bytes is too large", header.body)));
        }
        if !self.flush()? {
            return Err(Error::new(Code::Full, "the other side takes no more just now"));
        }
        self.out.extend_from_slice(&header.encode());
        body.iter().for_each(|part| self.out.extend_from_slice(part));
        self.flush().map(drop)
    }

    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        self.read();
        let Some((header, _, body)) = first(&self.come, LARGEST)? else {
            return if self.over { Err(gone()) } else { Ok(false) };
        };
        frame.set(header, body.to_vec());
        self.come.drain(..HEADER_BYTES + body.len());
        Ok(true)
    }

    fn pending(&mut self) -> bool {
        self.read();
        self.over || !matches!(first(&self.come, LARGEST), Ok(None))
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            // Who cannot send any more may have something to read.
            let _ = self.flush();
            if self.pending() {
                return Ok(true);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let flags = if self.out.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            let left: Option<Timespec> = left.map(|left| left.try_into().unwrap());
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)], left.as_ref());
        }
    }
}

impl Transport for Sockets {
    type End = End;
    type Offer = UnixListener;

    fn offer(dir: &Path) -> (UnixListener, String) {
        let path = own_socket(dir);
        (UnixListener::bind(&path).unwrap(), path.display().to_string())
    }

    fn accept(offer: UnixListener) -> End {
        End::new(offer.accept().unwrap().0)
    }

    fn join(words: &str) -> End {
        End::new(UnixStream::connect(words).unwrap())
    }

    fn join_raw(words: &str) -> Writes {
        let mut socket = UnixStream::connect(words).unwrap();
        socket.set_nonblocking(true).unwrap();
        Box::new(move |bytes| {
            let _ = socket.write(bytes);
        })
    }
}
