//! The call link: frames in the two rings of a segment that the client made.
//!
//! The client creates the segment as a memory file without a name and hands the descriptor over
//! the control socket; requests go up, replies come down, arguments too big for a frame are
//! blocks that the server uses in place. A client waits for its one server by futex; a server
//! waits for all its clients and sockets in `poll` on one [`Doorbell`]. Nothing in the segment
//! needs recovery: when a side dies, the memory goes with the other one.

use crate::frame::{Frame, Header};
use forebay_arena::{Bell, Consumer, Direction, Full, Producer, Segment, SegmentSpec, segments};
use forebay_types::{Error, Result};
use std::os::fd::OwnedFd;

/// Bytes of each ring: room for several of the largest frames.
pub const RING_BYTES: u64 = 1 << 20;

/// The sending half.
pub struct ShmSender {
    producer: Producer,
    bell: Bell,
}

/// The receiving half.
pub struct ShmReceiver {
    consumer: Consumer,
    bell: Bell,
}

/// A call link, one side of it.
pub struct ShmLink {
    segment: Segment,
    sender: ShmSender,
    receiver: ShmReceiver,
}

impl ShmSender {
    /// Publishes one frame and wakes the peer if it sleeps.
    #[inline]
    pub fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<(), Full> {
        self.send_quietly(header, body)?;
        self.bell.ring();
        Ok(())
    }

    /// Publishes one frame without waking anybody; [`ShmSender::ring`] follows, once for many.
    #[inline]
    pub fn send_quietly(&mut self, header: &Header, body: &[&[u8]]) -> Result<(), Full> {
        let head = header.encode_short();
        match body {
            [] => self.producer.push(&[&head]),
            [one] => self.producer.push(&[&head, one]),
            [one, two] => self.producer.push(&[&head, one, two]),
            many => {
                let mut parts = Vec::with_capacity(many.len() + 1);
                parts.push(&head[..]);
                parts.extend_from_slice(many);
                self.producer.push(&parts)
            }
        }
    }

    /// Wakes the peer if it sleeps.
    #[inline]
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// The peer sleeps in `poll`: wake it by this doorbell, which it handed over. Once a link.
    pub fn attach_doorbell(&self, descriptor: OwnedFd) -> Result<()> {
        self.bell.attach_doorbell(descriptor)
    }
}

impl ShmReceiver {
    /// The next frame, if one is there; says whether. The room in the ring is given back at once.
    #[inline]
    pub fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        let Some(position) = self.consumer.next(&mut frame.bytes)? else { return Ok(false) };
        self.consumer.release_to(position);
        frame.decode_short_in_place()?;
        Ok(true)
    }

    /// Position in the ring behind the last frame that was taken.
    #[inline]
    pub fn position(&self) -> u64 {
        self.consumer.position()
    }

    /// Whether a frame is there.
    #[inline]
    pub fn pending(&mut self) -> bool {
        self.consumer.pending()
    }

    /// This side is about to sleep on its doorbell: look at [`ShmReceiver::pending`] once more
    /// after this, of all links, before sleeping.
    #[inline]
    pub fn prepare_sleep(&self) {
        self.bell.prepare_sleep();
    }

    /// This side is awake.
    #[inline]
    pub fn cancel_sleep(&self) {
        self.bell.cancel_sleep();
    }

    /// Whether this side has said that it sleeps, and nobody has woken it since.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.bell.is_asleep()
    }
}

impl ShmLink {
    /// The client's side: a new segment with so much room for big arguments.
    pub fn create(block_bytes: u64, blocks: u32) -> Result<ShmLink> {
        let segment = Segment::create(&SegmentSpec {
            name: String::new(),
            kind: segments::kind::CALL,
            up_bytes: RING_BYTES,
            down_bytes: RING_BYTES,
            block_bytes,
            blocks,
        })?;
        Ok(ShmLink::over(segment, Direction::Up))
    }

    /// The server's side: the segment that a client handed over.
    pub fn accept(fd: OwnedFd) -> Result<ShmLink> {
        let segment = Segment::from_fd_alone(fd)?;
        if segment.kind() != segments::kind::CALL {
            return Err(Error::bad(format!("a segment of kind {} is no call link", segment.kind())));
        }
        Ok(ShmLink::over(segment, Direction::Down))
    }

    fn over(segment: Segment, sends: Direction) -> ShmLink {
        let receives = sends.opposite();
        ShmLink {
            sender: ShmSender { producer: segment.producer(sends), bell: segment.bell(sends) },
            receiver: ShmReceiver { consumer: segment.consumer(receives), bell: segment.bell(receives) },
            segment,
        }
    }

    /// The segment: descriptor, allocator, blocks, control words.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The halves, for a sender and a receiver on different threads.
    pub fn split(self) -> (Segment, ShmSender, ShmReceiver) {
        (self.segment, self.sender, self.receiver)
    }

    /// The sending half.
    pub fn sender(&mut self) -> &mut ShmSender {
        &mut self.sender
    }
}
