//! A line: frames over a byte stream that never blocks, for one thread that serves it with others
//! in `poll`. Small frames are copied together; the bytes of blocks go by one call of the system straight from the
//! segment, and come straight into it.
//!
//! ```text
//!  frame:  header of 64 bytes | JSON | body
//!  bulk:   header of 64 bytes | 32 bytes that say where | as many bytes of a block as the rest of the body
//! ```
//!
//! What is sent first goes first; who wants to be overtaken gives its bytes in pieces.

use crate::frame::{HEADER_BYTES, Header, kind};
use crate::net::NetStream;
use crate::wire::{Failure, Message, poll_for};
use forebay_arena::{Block, Lent, PARTS};
use forebay_types::{Code, Error, Result};
use rustix::event::PollFlags;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// A stream to another process that is read and written without blocking (`WouldBlock`).
pub trait Duplex: Read + Write + AsFd + Send {
    /// Writes some of what lies here and there, in order; how many bytes.
    fn send(&mut self, parts: &[Lent]) -> io::Result<usize> {
        Lent::send(parts, &*self)
    }
}

impl Duplex for UnixStream {}
impl Duplex for NetStream {
    fn send(&mut self, parts: &[Lent]) -> io::Result<usize> {
        self.try_send(parts)
    }
}
impl Duplex for TcpStream {}

/// Bytes before those of the block in the body of a bulk frame.
pub const BULK_PREFIX: usize = 32;
/// Largest frame, bulk apart.
const FRAME: u64 = 16 << 20;
/// Largest bulk frame.
const BULK: u64 = 4 << 20;
/// Read at once.
const CHUNK: usize = 64 << 10;
/// Small frames are gathered up to so much.
const GATHER: usize = 64 << 10;

enum Outgoing {
    Bytes(Vec<u8>, usize),
    Block(Block, Range<u64>),
}

impl Outgoing {
    fn rest(&self) -> Lent<'_> {
        match self {
            Outgoing::Bytes(bytes, at) => Lent::of(&bytes[*at..]),
            Outgoing::Block(block, range) => {
                block.lent().split_at(range.end as usize).0.split_at(range.start as usize).1
            }
        }
    }

    fn pass(&mut self, n: usize) {
        match self {
            Outgoing::Bytes(_, at) => *at += n,
            Outgoing::Block(_, range) => range.start += n as u64,
        }
    }
}

/// A frame as it lies in the buffer of a [`Line`], until the next one is asked for.
#[derive(Clone, Debug)]
pub struct LineFrame {
    /// Its header.
    pub header: Header,
    json: Range<usize>,
    body: Range<usize>,
}

/// Frames over a stream.
pub struct Line {
    stream: Box<dyn Duplex>,
    inbox: Vec<u8>,
    filled: usize,
    taken: usize,
    /// Bytes of a bulk frame that are to come.
    bulk: u64,
    bulk_kind: u16,
    outbox: VecDeque<Outgoing>,
    waiting: usize,
    received: u64,
}

impl Line {
    /// Over a stream that does not block. Frames of `bulk_kind` carry bytes of blocks.
    pub fn over(stream: Box<dyn Duplex>, bulk_kind: u16) -> Line {
        Line {
            stream,
            inbox: vec![0; 2 * CHUNK],
            filled: 0,
            taken: 0,
            bulk: 0,
            bulk_kind,
            outbox: VecDeque::new(),
            waiting: 0,
            received: 0,
        }
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Queues a frame.
    pub fn push(&mut self, header: Header, json: &[u8], body: &[&[u8]]) {
        let length: usize = body.iter().map(|b| b.len()).sum();
        let header = Header { json: json.len() as u32, body: length as u64, ..header };
        let head = header.encode();
        let total = head.len() + json.len() + length;
        let bytes = match self.outbox.back_mut() {
            Some(Outgoing::Bytes(bytes, _)) if bytes.len() + total <= GATHER => bytes,
            _ => {
                self.outbox.push_back(Outgoing::Bytes(Vec::with_capacity(total.max(1024)), 0));
                match self.outbox.back_mut() {
                    Some(Outgoing::Bytes(bytes, _)) => bytes,
                    _ => return,
                }
            }
        };
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(json);
        body.iter().for_each(|part| bytes.extend_from_slice(part));
        self.waiting += total;
    }

    /// Queues a request.
    pub fn ask<T: Serialize + ?Sized>(&mut self, id: u64, request: &T) -> Result<()> {
        self.say(Header::new(kind::ASK, id), request)
    }

    /// Queues the answer to a request.
    pub fn answer<T: Serialize + ?Sized>(&mut self, id: u64, value: &T) -> Result<()> {
        self.say(Header::new(kind::ANSWER, id), value)
    }

    /// Queues an error as the answer to a request.
    pub fn refuse(&mut self, id: u64, error: &Error) -> Result<()> {
        self.say(Header::new(kind::ERROR, id), &Failure::of(error))
    }

    /// Queues a note: a message that nobody answers.
    pub fn note<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.say(Header::new(kind::NOTE, 0), value)
    }

    fn say<T: Serialize + ?Sized>(&mut self, header: Header, value: &T) -> Result<()> {
        let json = serde_json::to_vec(value)
            .map_err(|e| Error::internal(format!("a message cannot be written as JSON: {e}")))?;
        self.push(header, &json, &[]);
        Ok(())
    }

    /// Queues a range of a block behind its prefix.
    pub fn push_block(
        &mut self,
        header: Header,
        prefix: &[u8; BULK_PREFIX],
        block: Block,
        range: Range<u64>,
    ) {
        let length = (range.end - range.start) as usize;
        let header = Header { json: 0, body: (BULK_PREFIX + length) as u64, ..header };
        let mut head = header.encode().to_vec();
        head.extend_from_slice(prefix);
        self.waiting += head.len() + length;
        self.outbox.push_back(Outgoing::Bytes(head, 0));
        if length > 0 {
            self.outbox.push_back(Outgoing::Block(block, range));
        }
    }

    /// Sends what can be sent now; says whether all has gone.
    pub fn flush(&mut self) -> Result<bool> {
        while !self.outbox.is_empty() {
            let parts: Vec<Lent> = self.outbox.iter().take(PARTS).map(Outgoing::rest).collect();
            match self.stream.send(&parts) {
                Ok(0) => return Err(lost("it takes no more bytes")),
                Ok(n) => self.sent(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(&e.to_string())),
            }
        }
        match self.stream.flush() {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(lost(&e.to_string())),
        }
    }

    fn sent(&mut self, mut n: usize) {
        self.waiting -= n;
        while let Some(first) = self.outbox.front_mut() {
            let length = first.rest().len();
            if n < length {
                first.pass(n);
                return;
            }
            n -= length;
            self.outbox.pop_front();
        }
    }

    /// Sends everything, waiting until the deadline.
    pub fn flush_until(&mut self, deadline: Instant) -> Result<()> {
        while !self.flush()? {
            if !poll_for(self.stream.as_fd(), PollFlags::OUT, Some(deadline))? {
                return Err(Error::new(Code::Timeout, "the other side does not read; is it stopped?"));
            }
        }
        Ok(())
    }

    /// Takes what has come; says whether something did. `ServerLost` at the end.
    pub fn fill(&mut self) -> Result<bool> {
        if self.bulk > 0 && self.taken == self.filled {
            return Ok(false); // it goes straight to its block
        }
        if self.taken > 0 {
            self.inbox.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.inbox.len() - self.filled < CHUNK {
            self.inbox.resize(self.filled + CHUNK, 0);
        }
        let n = read(&mut *self.stream, &mut self.inbox[self.filled..])?;
        self.filled += n;
        self.received += n as u64;
        Ok(n > 0)
    }

    /// The next whole frame that has come; of a bulk frame the prefix, and then
    /// [`Line::take_bulk`] until [`Line::bulk`] is 0.
    pub fn next_frame(&mut self) -> Result<Option<LineFrame>> {
        let there = self.filled - self.taken;
        if self.bulk > 0 || there < HEADER_BYTES {
            return Ok(None);
        }
        let header = Header::decode(&self.inbox[self.taken..self.filled], FRAME)?;
        let total = header.frame_bytes().unwrap_or(u64::MAX);
        let from = self.taken + HEADER_BYTES;
        if header.kind == self.bulk_kind {
            if header.json != 0 || header.body < BULK_PREFIX as u64 || header.body > BULK {
                let text = format!("a bulk frame of {} bytes came on a line", header.body);
                return Err(Error::new(Code::Corrupt, text));
            }
            if there < HEADER_BYTES + BULK_PREFIX {
                return Ok(None);
            }
            self.bulk = header.body - BULK_PREFIX as u64;
            self.taken = from + BULK_PREFIX;
            return Ok(Some(LineFrame { header, json: from..from, body: from..from + BULK_PREFIX }));
        }
        if (there as u64) < total {
            return Ok(None);
        }
        let split = from + header.json as usize;
        self.taken += total as usize;
        Ok(Some(LineFrame { header, json: from..split, body: split..self.taken }))
    }

    /// The JSON of the frame that came last.
    pub fn json(&self, of: &LineFrame) -> &[u8] {
        &self.inbox[of.json.clone()]
    }

    /// The body of the frame that came last.
    pub fn body(&self, of: &LineFrame) -> &[u8] {
        &self.inbox[of.body.clone()]
    }

    /// The frame that came last as a message: an answer, or the error in its place.
    pub fn message(&self, of: &LineFrame) -> Message {
        let Header { kind, id, flags, .. } = of.header;
        Message { kind, id, flags, json: self.json(of).to_vec(), fds: Vec::new() }
    }

    /// Bytes of a block that are to come before the next frame.
    pub fn bulk(&self) -> u64 {
        self.bulk
    }

    /// Puts what has come of a bulk frame into `out`, no more than it holds; how much.
    pub fn take_bulk(&mut self, out: &mut [u8]) -> Result<usize> {
        let wanted = out.len().min(usize::try_from(self.bulk).unwrap_or(usize::MAX));
        let out = &mut out[..wanted];
        let there = (self.filled - self.taken).min(wanted);
        let n = if there > 0 || wanted == 0 {
            out[..there].copy_from_slice(&self.inbox[self.taken..self.taken + there]);
            self.taken += there;
            there
        } else {
            let n = read(&mut *self.stream, out)?;
            self.received += n as u64;
            n
        };
        self.bulk -= n as u64;
        Ok(n)
    }

    /// Waits until something has come, or the deadline; says whether something has. `Corrupt` while
    /// bytes of a block are due: who waits here for messages would never take them.
    pub fn wait(&mut self, deadline: Instant) -> Result<bool> {
        if self.bulk > 0 {
            let text = format!("{} bytes of a block came on a line where a message was due", self.bulk);
            return Err(Error::new(Code::Corrupt, text));
        }
        loop {
            if self.fill()? {
                return Ok(true);
            }
            if !poll_for(self.stream.as_fd(), PollFlags::IN, Some(deadline))? {
                return Ok(false);
            }
        }
    }

    /// Waits for a whole frame until the deadline.
    pub fn receive(&mut self, deadline: Instant) -> Result<Option<LineFrame>> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(Some(frame));
            }
            if !self.wait(deadline)? {
                return Ok(None);
            }
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn read(stream: &mut dyn Duplex, out: &mut [u8]) -> Result<usize> {
    loop {
        match stream.read(out) {
            Ok(0) if !out.is_empty() => return Err(lost("the other side closed it or died")),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(lost(&e.to_string())),
        }
    }
}

fn lost(why: &str) -> Error {
    Error::new(Code::ServerLost, format!("the connection is lost: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_arena::{Segment, SegmentSpec};
    use std::time::Duration;

    const BLOCK: u16 = 0x41;

    fn pair() -> (Line, Line) {
        let (a, b) = UnixStream::pair().unwrap();
        [&a, &b].into_iter().for_each(|s| s.set_nonblocking(true).unwrap());
        (Line::over(Box::new(a), BLOCK), Line::over(Box::new(b), BLOCK))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn small_frames_and_blocks_arrive_in_order_however_they_are_cut() {
        let spec = SegmentSpec {
            name: String::new(),
            kind: 1,
            up_bytes: 4096,
            down_bytes: 4096,
            block_bytes: 2 << 20,
            blocks: 4,
        };
        let segment = Segment::create(&spec).unwrap();
        let block = segment.allocator().alloc(1 << 20).unwrap();
        let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i * 7) as u8).collect();
        block.write_from(0, &bytes);
        let (mut a, mut b) = pair();
        a.push(Header::new(3, 1), b"{}", &[b"one", b"two"]);
        a.push_block(Header::new(BLOCK, 2), &[9; 32], segment.block(block.index()).unwrap(), 0..1 << 20);
        a.push(Header::new(3, 3), b"", &[b"behind"]);
        let sender = std::thread::spawn(move || a.flush_until(soon()).map(|()| a));
        let first = b.receive(soon()).unwrap().unwrap();
        assert_eq!((first.header.id, b.json(&first), b.body(&first)), (1, &b"{}"[..], &b"onetwo"[..]));
        let second = b.receive(soon()).unwrap().unwrap();
        assert_eq!(b.body(&second), [9; 32]);
        let (mut got, mut at) = (vec![0; 1 << 20], 0);
        while b.bulk() > 0 {
            let end = (at + 100_003).min(got.len());
            at += b.take_bulk(&mut got[at..end]).unwrap();
        }
        assert_eq!(got, bytes);
        let third = b.receive(soon()).unwrap().unwrap();
        assert_eq!((third.header.id, b.body(&third)), (3, &b"behind"[..]));
        drop(sender.join().unwrap().unwrap());
        assert_eq!(b.receive(soon()).unwrap_err().code(), Code::ServerLost);
    }

    #[test]
    fn who_waits_for_a_message_and_is_sent_a_block_does_not_wait_for_ever() {
        let (mut a, mut b) = pair();
        let header = Header { body: BULK_PREFIX as u64 + 1000, ..Header::new(BLOCK, 1) };
        a.outbox.push_back(Outgoing::Bytes([&header.encode()[..], &[0; BULK_PREFIX + 1000]].concat(), 0));
        a.waiting += HEADER_BYTES + BULK_PREFIX + 1000;
        a.flush().unwrap();
        assert_eq!(b.receive(soon()).unwrap().unwrap().header.id, 1);
        assert_eq!(b.receive(soon()).unwrap_err().code(), Code::Corrupt);
    }

    #[test]
    fn a_length_that_lies_is_refused_before_anything_is_allocated() {
        let (mut a, mut b) = pair();
        let huge = Header { body: 1 << 40, ..Header::new(3, 1) };
        a.outbox.push_back(Outgoing::Bytes(huge.encode().to_vec(), 0));
        a.waiting += HEADER_BYTES;
        a.flush().unwrap();
        assert_eq!(b.receive(soon()).unwrap_err().code(), Code::Corrupt);
    }
}
