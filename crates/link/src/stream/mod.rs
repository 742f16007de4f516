//! Streams of frames: the one way in which frames go over a Unix socket, over TCP and over TLS.
//!
//! ```text
//!   StreamSender --> frames, pieces of large parts in between --> channel --> StreamReceiver --> Place
//! ```
//!
//! | what goes over it | frames | large parts |
//! | --- | --- | --- |
//! | a greeting ([`crate::net`]) and a conversation ([`crate::Wire`]) | JSON, descriptors beside it | none |
//! | calls ([`crate::call`]) | requests and replies | arguments and results, into leases of a pool |
//! | files that go with calls ([`crate::call::FileLine`]) | requests and pieces | none |
//! | a run that is written from another host ([`crate::run`]) | records, notices, words | bytes of blocks, into the mirror |
//!
//! A connection begins as a conversation and becomes one of the others when both sides have agreed on it
//! ([`crate::Wire::into_calls`], [`crate::Wire::into_run`]).

mod channel;
mod flusher;
mod receiver;
mod sender;

use crate::frame::Header;
use crate::net::NetSocket;
use crate::pool::{Lease, Pool};
use forebay_arena::Block;
use forebay_host::wait::{self, PollFlags};
use forebay_types::{Code, Error, Result};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use channel::{Channel, DESCRIPTORS};
pub use flusher::Flusher;
pub(crate) use receiver::Heard;
pub use receiver::{Received, StreamReceiver};
pub use sender::{LargePart, PIECE_BYTES, StreamSender};

/// How long frames may be, large parts apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Header included.
    pub frame: usize,
    /// Whether they may have a JSON section.
    pub json: bool,
    /// What is read at once.
    pub buffer: usize,
    /// Whether that room is kept while nothing comes.
    pub keep: bool,
}

/// Before the other side has proved anything.
pub(crate) const STRANGER: Limits = Limits { frame: 4 << 10, json: true, buffer: 4 << 10, keep: false };
/// Of one that greets: who has said nothing of itself yet has no room here for more.
pub(crate) const GREETING: Limits = Limits { frame: 64 << 10, json: true, buffer: 16 << 10, keep: false };
/// Of a conversation.
pub(crate) const CONVERSATION: Limits = Limits { frame: 16 << 20, json: true, buffer: 16 << 10, keep: false };
/// Of calls.
pub(crate) const CALLS: Limits = Limits { frame: 128 << 10, json: false, buffer: 128 << 10, keep: true };
/// Of files that go with calls: a piece, or a request.
pub(crate) const FILES: Limits = Limits { frame: 320 << 10, json: true, buffer: 320 << 10, keep: false };
/// Of a run.
pub(crate) const RUN: Limits = Limits { frame: 16 << 20, json: true, buffer: 128 << 10, keep: true };

/// Says where the large parts of frames go.
pub trait Place {
    /// Asked when the head of a frame with large parts of these lengths is there, and before any of their bytes. An
    /// error ends the connection.
    fn place(&mut self, header: &Header, body: &[u8], lengths: &[u64]) -> Result<Target>;

    /// Bytes of the part of a frame that goes [`Target::Through`], the first of them at that position.
    fn take(&mut self, token: u64, at: u64, bytes: &[u8]);
}

/// Where they go.
#[derive(Debug)]
pub enum Target {
    /// Into memory of their own, one piece a part.
    Leases(Vec<Lease>),
    /// To the place itself, which knows the one part by this number.
    Through(u64),
    /// There is no room: the frame is delivered with the reason, when all of it has come and was dropped.
    Nowhere(Error),
}

impl Place for Pool {
    fn place(&mut self, _: &Header, _: &[u8], lengths: &[u64]) -> Result<Target> {
        let leases: Result<Vec<Lease>> = lengths.iter().map(|bytes| Pool::take(self, *bytes)).collect();
        Ok(leases.map_or_else(Target::Nowhere, Target::Leases))
    }

    fn take(&mut self, _: u64, _: u64, _: &[u8]) {}
}

/// The place where no large parts are expected.
pub struct NoPlace;

impl Place for NoPlace {
    fn place(&mut self, header: &Header, _: &[u8], _: &[u64]) -> Result<Target> {
        Err(Error::new(
            Code::Corrupt,
            format!("a frame of kind {} came with large parts; close the connection", header.kind),
        ))
    }

    fn take(&mut self, _: u64, _: u64, _: &[u8]) {}
}

/// Both halves, for one thread that serves them with others in `poll`.
pub struct Stream {
    sender: StreamSender,
    receiver: StreamReceiver,
}

impl Stream {
    pub(crate) fn over(channel: Channel, limits: Limits) -> Stream {
        let channel = Arc::new(channel);
        Stream {
            sender: StreamSender::over(channel.clone(), limits),
            receiver: StreamReceiver::over(channel, limits),
        }
    }

    /// Of calls over a plain socket whose sides agreed on that in another way: for tests and benchmarks.
    pub fn of_calls(socket: TcpStream) -> Result<Stream> {
        Ok(Stream::over(Channel::Net(NetSocket::over(socket)?), CALLS))
    }

    /// Of a run over a Unix socket, likewise.
    pub fn of_run(socket: UnixStream) -> Stream {
        Stream::over(Channel::Unix(socket), RUN)
    }

    /// How long frames may be from now on.
    pub(crate) fn limit(&mut self, limits: Limits) {
        self.sender.limit(limits);
        self.receiver.limit(limits);
    }

    /// What it becomes when its sides have agreed on that.
    pub(crate) fn with(mut self, limits: Limits) -> Stream {
        self.limit(limits);
        self
    }

    pub(crate) fn channel(&self) -> &Channel {
        self.sender.channel()
    }

    /// The halves, for a sender and a receiver on different threads.
    pub fn split(self) -> (StreamSender, StreamReceiver) {
        (self.sender, self.receiver)
    }

    /// The sending half.
    pub fn sender(&self) -> &StreamSender {
        &self.sender
    }

    /// The receiving half.
    pub fn receiver(&mut self) -> &mut StreamReceiver {
        &mut self.receiver
    }

    /// Queues a frame.
    pub fn push(&self, header: Header, json: &[u8], body: &[&[u8]]) -> Result<()> {
        self.sender.queue(header, json, body)
    }

    /// Queues a frame with a range of a block as its large part.
    pub fn push_block(&self, header: Header, body: &[u8], block: Block, range: Range<u64>) -> Result<()> {
        self.sender.post_block(header, body, block, range)
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.sender.waiting_bytes() + self.sender.waiting_bulk()
    }

    /// Whether nothing has come that was not taken.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.receiver.waiting() == 0 && !self.receiver.is_amid()
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// The next frame that has come.
    pub fn next(&mut self, place: &mut impl Place) -> Result<Option<Received>> {
        self.receiver.try_recv(place)
    }

    /// Sends what goes now; says whether all has gone.
    pub fn flush(&self) -> Result<bool> {
        self.sender.flush()
    }

    /// Sends everything, waiting until the deadline.
    pub fn flush_until(&self, deadline: Instant) -> Result<()> {
        self.sender.until(deadline, || self.flush())
    }

    /// Waits until something has come, or the deadline; says whether something has.
    pub fn wait_until(&mut self, deadline: Instant, place: &mut impl Place) -> Result<bool> {
        while !self.receiver.pending(place) {
            if !wait::until(self.as_fd(), PollFlags::IN, Some(deadline))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_arena::{Segment, SegmentSpec};
    use std::io::Write;
    use std::time::Duration;

    const BLOCK: u16 = 0x41;

    fn pair() -> (Stream, Stream) {
        let (a, b) = UnixStream::pair().unwrap();
        (Stream::of_run(a), Stream::of_run(b))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// Takes what comes itself.
    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Place for Bytes {
        fn place(&mut self, header: &Header, body: &[u8], lengths: &[u64]) -> Result<Target> {
            assert_eq!((header.kind, body, lengths), (BLOCK, &[9; 16][..], &[1 << 20][..]));
            Ok(Target::Through(7))
        }

        fn take(&mut self, token: u64, at: u64, bytes: &[u8]) {
            assert_eq!((token, at), (7, self.0.len() as u64));
            self.0.extend_from_slice(bytes);
        }
    }

    fn next(line: &mut Stream, place: &mut impl Place) -> Result<Received> {
        assert!(line.wait_until(soon(), place)?, "nothing came");
        Ok(line.next(place)?.expect("it is pending"))
    }

    #[test]
    fn short_frames_and_blocks_arrive_whole_and_short_ones_go_first() {
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
        let (a, mut b) = pair();
        a.push(Header::new(3, 1), b"{}", &[b"one", b"two"]).unwrap();
        a.push_block(Header::new(BLOCK, 2), &[9; 16], segment.block(block.index()).unwrap(), 0..1 << 20)
            .unwrap();
        a.push(Header::new(3, 3), b"", &[b"overtakes"]).unwrap();
        assert_eq!(a.sender().waiting_bulk(), 1 << 20);
        let sender = std::thread::spawn(move || a.flush_until(soon()).map(|()| a));
        let mut place = Bytes::default();
        let first = next(&mut b, &mut place).unwrap();
        assert_eq!((first.header.id, &first.json[..], &first.body[..]), (1, &b"{}"[..], &b"onetwo"[..]));
        let second = next(&mut b, &mut place).unwrap();
        assert_eq!((second.header.id, &second.body[..]), (3, &b"overtakes"[..]));
        let third = next(&mut b, &mut place).unwrap();
        assert_eq!((third.header.id, &third.body[..]), (2, &[9; 16][..]));
        assert!(place.0 == bytes);
        let a = sender.join().unwrap().unwrap();
        assert_eq!(a.waiting(), 0);
        drop(a);
        assert_eq!(next(&mut b, &mut place).unwrap_err().code(), Code::ServerLost);
    }

    #[test]
    fn who_waits_for_a_message_and_is_sent_a_block_does_not_wait_for_ever() {
        let (a, mut b) = pair();
        a.push(Header { number: 1, ..Header::new(BLOCK, 1) }, b"", &[&1000u64.to_le_bytes()]).unwrap();
        a.flush().unwrap();
        assert_eq!(next(&mut b, &mut NoPlace).unwrap_err().code(), Code::Corrupt);
    }

    #[test]
    fn a_frame_longer_than_the_room_comes_whole_and_its_room_is_given_back() {
        let (a, mut b) = pair();
        let long: Vec<u8> = (0..3 << 20).map(|i: u32| (i * 11) as u8).collect();
        a.push(Header::new(3, 1), b"", &[&long]).unwrap();
        a.push(Header::new(3, 2), b"", &[]).unwrap();
        let sender = std::thread::spawn(move || a.flush_until(soon()).map(|()| a));
        assert!(next(&mut b, &mut NoPlace).unwrap().body == long);
        assert_eq!(next(&mut b, &mut NoPlace).unwrap().header.id, 2);
        assert!(b.next(&mut NoPlace).unwrap().is_none());
        assert_eq!(b.receiver.room(), RUN.buffer);
        drop(sender.join().unwrap().unwrap());
    }

    #[test]
    fn a_length_that_lies_is_refused_before_anything_is_allocated() {
        let (mut socket, other) = UnixStream::pair().unwrap();
        let mut line = Stream::of_run(other);
        socket.write_all(&Header { body: 1 << 40, ..Header::new(3, 1) }.encode()).unwrap();
        assert_eq!(next(&mut line, &mut NoPlace).unwrap_err().code(), Code::Corrupt);
    }
}
