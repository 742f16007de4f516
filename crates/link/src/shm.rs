//! The call link: frames in the two rings of a segment that the client made.
//!
//! The client creates the segment as a memory file without a name and hands the descriptor over
//! the control socket; requests go up, replies come down, arguments too big for a frame are
//! blocks that the server uses in place. A client waits for its one server by futex; a server
//! waits for all its clients and sockets in `poll` on one [`Doorbell`]. Nothing in the segment
//! needs recovery: when a side dies, the memory goes with the other one.

use crate::frame::{Frame, Header};
use crate::link::Link;
use crate::watch::{PeerState, Watch};
use forebay_arena::{Bell, Consumer, Direction, Full, Producer, Segment, SegmentSpec, Spin, segments};
use forebay_types::{Code, Error, Result};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Bytes of each ring: room for several of the largest frames.
pub const RING_BYTES: u64 = 1 << 20;
/// A waiting client looks at its peer so often.
const LOOK: Duration = Duration::from_millis(50);

/// The sending half.
pub struct ShmSender {
    producer: Producer,
    bell: Bell,
}

/// The receiving half.
pub struct ShmReceiver {
    consumer: Consumer,
    bell: Bell,
    spin: Spin,
}

/// A call link, one side of it.
pub struct ShmLink {
    segment: Segment,
    sender: ShmSender,
    receiver: ShmReceiver,
    watch: Option<Watch>,
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

    /// Bytes free in the ring.
    pub fn free(&mut self) -> u64 {
        self.producer.free()
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

    /// Waits for a frame until the deadline, asking `check` now and then whether it is still
    /// worth while; its error ends the waiting.
    #[inline]
    pub fn wait(&mut self, deadline: Option<Instant>, mut check: impl FnMut() -> Result<()>) -> Result<bool> {
        if self.consumer.pending() {
            return Ok(true);
        }
        loop {
            let look = Instant::now() + LOOK;
            let until = deadline.map_or(look, |d| d.min(look));
            let consumer = &mut self.consumer;
            if self.bell.wait(|| consumer.pending(), Some(until), &mut self.spin) {
                return Ok(true);
            }
            check()?;
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(false);
            }
        }
    }

    /// The bell that the peer rings, for a watcher that wants to wake who waits here.
    pub fn bell(&self) -> &Bell {
        &self.bell
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
            receiver: ShmReceiver {
                consumer: segment.consumer(receives),
                bell: segment.bell(receives),
                spin: Spin::new(),
            },
            segment,
            watch: None,
        }
    }

    /// Looks after the peer while waiting.
    pub fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
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

    /// The receiving half.
    pub fn receiver(&mut self) -> &mut ShmReceiver {
        &mut self.receiver
    }
}

impl Link for ShmLink {
    #[inline]
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        Ok(self.sender.send(header, body)?)
    }

    #[inline]
    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        self.receiver.try_recv(frame)
    }

    #[inline]
    fn pending(&mut self) -> bool {
        self.receiver.pending()
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        let watch = &mut self.watch;
        self.receiver.wait(deadline, || watch.as_mut().map_or(Ok(()), ensure_alive))
    }
}

/// `ServerLost` that says what became of the peer.
pub fn ensure_alive(watch: &mut Watch) -> Result<()> {
    let state = watch.check();
    if state == PeerState::Alive {
        return Ok(());
    }
    let pid = watch.process().map_or("unknown".to_owned(), |p| p.pid.to_string());
    Err(Error::new(
        Code::ServerLost,
        match state {
            PeerState::Stopped => format!(
                "the process at the other end (pid {pid}) is stopped; `kill -CONT {pid}` lets it go on"
            ),
            _ => format!("the process at the other end (pid {pid}) has ended"),
        },
    ))
}
