//! Frames to one peer and back, waited for: what tests and benchmarks of single transports stand on. Who calls and who is
//! called have no use for it, since they wait for many.

#![allow(dead_code, reason = "each program uses a part of it")]

use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use forebay_arena::{Bell, Direction, Segment, Spin};
use forebay_host::wait::{self, PollFlags};
use forebay_link::call::{ShmLink, ShmReceiver, ShmSender};
use forebay_link::pool::Pool;
use forebay_link::stream::{Received, Stream, StreamReceiver, StreamSender};
use forebay_link::{Frame, Header, PeerState, Watch};
use forebay_types::{Code, Error, Result};

/// A way for frames to one peer and back, in order. One thread uses it at a time.
pub trait Link: Send {
    /// Sends one frame (kind, flags and id of the header) whose body is the parts one behind the other. `Full` when the
    /// peer has not yet made room for it (try again after a [`Link::try_recv`]), `BadArgument` when it never fits.
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()>;

    /// Puts the next frame into `frame`, if one is there; says whether.
    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool>;

    /// Whether [`Link::try_recv`] would find a frame, without taking it.
    fn pending(&mut self) -> bool;

    /// Waits for a frame until the deadline; says whether there is one. `ServerLost` when the peer is gone or stopped.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool>;
}

/// One end in a segment.
pub struct Memory {
    pub segment: Segment,
    pub sender: ShmSender,
    pub receiver: ShmReceiver,
    bell: Bell,
    spin: Spin,
    watch: Option<Watch>,
}

impl Memory {
    /// The client's side: a new segment with so much room for big arguments.
    pub fn create(block_bytes: u64, blocks: u32) -> Result<Memory> {
        Ok(Memory::over(ShmLink::create(block_bytes, blocks)?, Direction::Down))
    }

    /// The server's side: the segment that a client handed over.
    pub fn accept(fd: OwnedFd) -> Result<Memory> {
        Ok(Memory::over(ShmLink::accept(fd)?, Direction::Up))
    }

    fn over(link: ShmLink, receives: Direction) -> Memory {
        let (segment, sender, receiver) = link.split();
        Memory { bell: segment.bell(receives), segment, sender, receiver, spin: Spin::new(), watch: None }
    }

    /// Looks after the peer while waiting.
    pub fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }
}

impl Link for Memory {
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        Ok(match body {
            [one] => self.sender.send(header, one),
            many => self.sender.send(header, &many.concat()),
        }?)
    }

    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        self.receiver.try_recv(frame)
    }

    fn pending(&mut self) -> bool {
        self.receiver.pending()
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        if self.receiver.pending() {
            return Ok(true);
        }
        loop {
            let look = Instant::now() + Duration::from_millis(50);
            let (receiver, until) = (&mut self.receiver, deadline.map_or(look, |d| d.min(look)));
            if self.bell.wait(|| receiver.pending(), Some(until), &mut self.spin) {
                return Ok(true);
            }
            match self.watch.as_mut().map_or(PeerState::Alive, Watch::check) {
                PeerState::Alive => {}
                PeerState::Stopped => {
                    return Err(Error::new(Code::ServerLost, "the other process is stopped"));
                }
                PeerState::Gone => return Err(Error::new(Code::ServerLost, "the other process has ended")),
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(false);
            }
        }
    }
}

/// One end of a stream of calls whose large parts come into memory of a pool.
pub struct Pooled {
    stream: Stream,
    pool: Pool,
    spin: Spin,
}

impl Pooled {
    pub fn new(stream: Stream, pool: Pool) -> Pooled {
        Pooled { stream, pool, spin: Spin::new() }
    }

    pub fn over_socket(socket: TcpStream, pool: Pool) -> Result<Pooled> {
        Ok(Pooled::new(Stream::of_calls(socket)?, pool))
    }

    pub fn sender(&self) -> &StreamSender {
        self.stream.sender()
    }

    /// The halves, and where large parts go.
    pub fn split(self) -> (StreamSender, StreamReceiver, Pool) {
        let (sender, receiver) = self.stream.split();
        (sender, receiver, self.pool)
    }

    /// The next frame with its large parts.
    pub fn try_receive(&mut self) -> Result<Option<Received>> {
        self.stream.next(&mut self.pool)
    }
}

impl Link for Pooled {
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        let sender = self.sender();
        if sender.waits() {
            sender.flush()?;
        }
        sender.try_send(header, body)
    }

    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        let Some(received) = self.try_receive()? else { return Ok(false) };
        frame.set(received.header, received.body);
        Ok(true)
    }

    fn pending(&mut self) -> bool {
        self.stream.receiver().pending(&mut self.pool)
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            if self.sender().waits() {
                self.sender().flush()?;
            }
            let (receiver, pool) = (self.stream.receiver(), &mut self.pool);
            let Some(since) = self.spin.poll(&mut || receiver.pending(pool)) else { return Ok(true) };
            let flags = if self.sender().waits() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let ready = wait::until(self.stream.as_fd(), flags, deadline)?;
            self.spin.slept(since.elapsed());
            if !ready {
                return Ok(self.pending());
            }
        }
    }
}
