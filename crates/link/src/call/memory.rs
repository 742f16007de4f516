//! Through shared memory: a segment that the client made, with a ring each way, requests up and replies down, and blocks
//! for what is large, which the server uses in place. What is not worth a frame is a word in it.
//!
//! It is a memory file without a name; its descriptor goes over the control socket. Who waits sleeps in `poll`, on a
//! doorbell of its own for all its links and on their sockets. Nothing in the segment needs recovery: when a side dies,
//! the memory goes with the other one.

use super::{Arrived, Bulk, Room};
use crate::frame::{Frame, Header};
use crate::idle::{LARGE, Trims, trim_when_idle};
use crate::lock;
use crate::standing;
use crate::stream::LargePart;
use crate::watch::{PeerState, Watch};
use crate::wire::Wire;
use forebay_arena::{
    Allocator, Bell, Block, Consumer, Direction, Full, Producer, Segment, SegmentSpec, append, copy_of,
    segments,
};
use forebay_host::{ProcessState, rlimits};
use forebay_types::call::{ARGUMENT_BYTES, PART_BYTES, REPLY_BYTES, RequestId, SLOTS, kind, word};
use forebay_types::{Code, Error, Result};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Bytes of each ring: room for several of the largest frames.
const RING_BYTES: u64 = 1 << 20;
/// Most blocks that are lent at a time.
pub const BLOCKS: u32 = 4_096;
/// Less room for large arguments is of no use.
const LEAST_ROOM: u64 = 16 << 20;
/// Less there is only where address space is limited.
const FULL_ROOM: u64 = 1 << 30;
/// Who waits for room in a ring yields for so long, and then sleeps for so long between two looks.
const BREATH: Duration = Duration::from_micros(200);

/// Room for large arguments: as much as the machine has memory, within the limit. It is address
/// space only; pages are taken when used. Where that is limited, too, each server gets a part of it.
pub fn room() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    let machine = machine.clamp(FULL_ROOM, ARGUMENT_BYTES);
    rlimits::address_space_left().map_or(machine, |left| machine.min(left / 4).max(LEAST_ROOM))
}

/// A link with room for large arguments: as much as the server maps for each client (0: no limit), and as this process
/// can.
pub(super) fn link(most: u64) -> Result<ShmLink> {
    create(match most {
        0 => room(),
        most => room().min(most).max(LEAST_ROOM),
    })
}

fn create(room: u64) -> Result<ShmLink> {
    match ShmLink::create(room, BLOCKS) {
        Err(e) if e.code() == Code::Full && room / 2 >= LEAST_ROOM => create(room / 2),
        Err(e) if e.cause() == Some(ErrorKind::OutOfMemory) => Err(Error::new(
            Code::Full,
            format!("{e}; this process may take no more address space: raise `ulimit -v`, or free memory"),
        )),
        done => done,
    }
}

/// Why nothing was lent.
#[derive(Clone, Debug)]
pub struct NotLent {
    /// What there is to say of it.
    pub error: Error,
    /// Others have the room; what they give back may do.
    pub may_come: bool,
}

impl From<Error> for NotLent {
    fn from(error: Error) -> NotLent {
        NotLent { error, may_come: false }
    }
}

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
    pub(super) sender: ShmSender,
    receiver: ShmReceiver,
}

impl ShmSender {
    /// Publishes one frame and wakes the peer if it sleeps.
    #[inline]
    pub fn send(&mut self, header: &Header, body: &[u8]) -> Result<(), Full> {
        self.send_quietly(header, body)?;
        self.bell.ring();
        Ok(())
    }

    /// Publishes one frame without waking anybody; [`ShmSender::ring`] follows, once for many.
    #[inline]
    pub fn send_quietly(&mut self, header: &Header, body: &[u8]) -> Result<(), Full> {
        self.producer.push(&[&header.encode_short(), body])
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
}

pub(super) struct Sender {
    segment: Segment,
    wire: Wire,
    outgoing: Arc<Outgoing>,
    /// The client looks after the server.
    watch: Option<Mutex<Watch>>,
    /// At the server: by slot, the requests that are not wanted any more; `None`: the client said something else.
    cancelled: OnceLock<Option<Box<Block>>>,
}

struct Outgoing {
    out: Mutex<OutRing>,
    watched: AtomicBool,
}

struct OutRing {
    ring: ShmSender,
    /// What the ring had no room for.
    waiting: VecDeque<(Header, Vec<u8>)>,
    bytes: usize,
    /// The client lends blocks.
    lent: Option<Lent>,
}

struct Lent {
    allocator: Allocator,
    /// When the last large block was wanted.
    large: Instant,
    /// By slot, the requests that are not wanted any more; made when the first one is.
    cancelled: Option<Block>,
    /// Those that the server cannot be told of yet, for want of memory.
    untold: Vec<RequestId>,
}

pub(super) struct Receiver {
    ring: ShmReceiver,
    /// The client's: replies may come in parts, and many threads look for them.
    replies: Option<Replies>,
}

struct Replies {
    segment: Segment,
    taken: Arc<AtomicU64>,
    /// Parts of a reply whose end has not come, and which one it is.
    part: Option<(u64, Result<Vec<u8>>)>,
}

/// A look at the ring of replies, without a lock.
pub struct Peek {
    segment: Segment,
    /// Position in the ring up to which they were taken.
    taken: Arc<AtomicU64>,
}

impl Peek {
    /// Whether a reply is there.
    #[inline]
    pub fn pending(&self) -> bool {
        self.segment.has_record(Direction::Down, self.taken.load(Ordering::Acquire))
    }
}

impl Outgoing {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, OutRing> {
        lock(&self.out)
    }
}

impl Trims for Outgoing {
    fn watched(&self) -> &AtomicBool {
        &self.watched
    }

    fn idle(&self) -> Duration {
        self.lock().lent.as_ref().map_or(Duration::MAX, |lent| lent.large.elapsed())
    }

    fn trim(&self) -> bool {
        let mut out = self.lock();
        let Some(Lent { allocator, .. }) = &mut out.lent else { return true };
        allocator.reap();
        allocator.trim();
        allocator.used() < LARGE
    }
}

impl OutRing {
    #[inline]
    fn put(&mut self, header: Header, body: &[u8]) {
        if self.waiting.is_empty() && self.ring.send_quietly(&header, body).is_ok() {
            return;
        }
        self.bytes += body.len();
        self.waiting.push_back((header, body.to_vec()));
    }
}

impl Lent {
    fn over(allocator: Allocator) -> Lent {
        Lent { allocator, large: Instant::now(), cancelled: None, untold: Vec::new() }
    }

    /// How many large arguments are under way.
    fn arguments(&self) -> usize {
        self.allocator.live() - usize::from(self.cancelled.is_some())
    }

    fn tell_cancelled(&mut self, segment: &Segment) {
        if self.untold.is_empty() {
            return;
        }
        if self.cancelled.is_none() {
            let Some(block) = self.allocator.alloc(8 * SLOTS as u64) else { return };
            (0..SLOTS).filter_map(|slot| block.word(slot)).for_each(|word| word.store(0, Ordering::Relaxed));
            segment.word(word::CANCELLED).store(u64::from(block.index()) + 1, Ordering::Release);
            self.cancelled = Some(block);
        }
        for RequestId { id, slot } in self.untold.drain(..) {
            if let Some(word) = self.cancelled.as_ref().and_then(|block| block.word(slot.into())) {
                word.store(id, Ordering::SeqCst);
            }
        }
    }

    #[cold]
    fn no_room(&self, bytes: u64) -> NotLent {
        let (room, used, live) = (self.allocator.capacity(), self.allocator.used(), self.arguments());
        let remedy = match room < bytes {
            true if room < FULL_ROOM => {
                "the address space of this process or of the server is limited: raise `ulimit -v` there, or pass it in pieces"
            }
            true => "pass it in pieces",
            false => "wait for calls, pass it in pieces, or free memory",
        };
        let error = Error::new(
            Code::Full,
            format!(
                "an argument of {bytes} bytes finds no shared memory: {used} bytes of {room} are used by {live} \
                 arguments under way; {remedy}"
            ),
        );
        NotLent { error, may_come: bytes <= room }
    }
}

/// The two ends of the side that made the segment.
pub(super) fn of_client(link: ShmLink, wire: Wire, watch: Watch) -> (Sender, Receiver) {
    let (segment, ring, replies) = link.split();
    let taken = Arc::new(AtomicU64::new(0));
    let receiver =
        Receiver { ring: replies, replies: Some(Replies { segment: segment.clone(), taken, part: None }) };
    let lent = Some(Lent::over(segment.allocator()));
    (Sender::over(segment, wire, ring, lent, Some(watch)), receiver)
}

/// Those of the other side.
pub(super) fn of_server(link: ShmLink, wire: Wire) -> (Sender, Receiver) {
    let (segment, ring, requests) = link.split();
    (Sender::over(segment, wire, ring, None, None), Receiver { ring: requests, replies: None })
}

impl Sender {
    fn over(
        segment: Segment,
        wire: Wire,
        ring: ShmSender,
        lent: Option<Lent>,
        watch: Option<Watch>,
    ) -> Sender {
        let out = Mutex::new(OutRing { ring, waiting: VecDeque::new(), bytes: 0, lent });
        let outgoing = Arc::new(Outgoing { out, watched: AtomicBool::new(false) });
        Sender { segment, wire, outgoing, watch: watch.map(Mutex::new), cancelled: OnceLock::new() }
    }

    #[inline]
    pub fn is_near(&self) -> bool {
        true
    }

    pub fn room(&self) -> Room<'_> {
        Room::Lent(&self.segment)
    }

    pub fn lend(&self, bytes: u64) -> Result<Option<Block>, NotLent> {
        let found = {
            let mut out = self.outgoing.lock();
            let lent = out.lent.as_mut().ok_or_else(|| Error::internal("a server lends nothing"))?;
            // What a service has kept longer than its call.
            lent.allocator.reap();
            // Many small ones together are as much.
            let much = bytes.saturating_add(lent.allocator.used()) >= LARGE;
            if much {
                lent.large = Instant::now();
            }
            lent.allocator.alloc(bytes).map(|block| (block, much)).ok_or_else(|| lent.no_room(bytes))
        };
        let (block, much) = found?;
        if much {
            trim_when_idle(&self.outgoing);
        }
        Ok(Some(block))
    }

    pub fn take_back(&self, blocks: impl IntoIterator<Item = Block>) {
        let mut blocks = blocks.into_iter().peekable();
        if blocks.peek().is_none() {
            return;
        }
        if let Some(lent) = &mut self.outgoing.lock().lent {
            blocks.for_each(|b| lent.allocator.free(b));
            lent.tell_cancelled(&self.segment);
        }
    }

    #[inline]
    pub fn send(
        &self,
        header: &Header,
        body: &[u8],
        _: Bulk,
        idle: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut since = None;
        loop {
            match self.outgoing.lock().ring.send(header, body) {
                Ok(()) => return Ok(()),
                Err(full) if full.for_ever() => return Err(full.into()),
                Err(_) => {}
            }
            idle()?;
            breathe(*since.get_or_insert_with(Instant::now));
        }
    }

    /// Counts one byte more when something waits that has none.
    #[inline]
    pub fn post(&self, header: Header, body: &[u8], _: Vec<LargePart>) -> Result<usize> {
        let mut out = self.outgoing.lock();
        let (parts, last) = body.split_at(last_part(body.len()));
        for part in parts.chunks(PART_BYTES) {
            out.put(Header { kind: kind::REPLY_PART, ..header }, part);
        }
        out.put(header, last);
        out.ring.ring();
        Ok(out.bytes + usize::from(!out.waiting.is_empty()))
    }

    pub fn flush(&self) -> Result<bool> {
        let mut out = self.outgoing.lock();
        if out.waiting.is_empty() {
            return Ok(false);
        }
        while let Some((header, body)) = out.waiting.pop_front() {
            if out.ring.send_quietly(&header, &body).is_err() {
                out.waiting.push_front((header, body));
                break;
            }
            out.bytes -= body.len();
        }
        out.ring.ring();
        Ok(!out.waiting.is_empty())
    }

    pub fn cancel(&self, request: RequestId) {
        if let Some(lent) = &mut self.outgoing.lock().lent {
            lent.untold.push(request);
            lent.tell_cancelled(&self.segment);
        }
    }

    #[inline]
    pub fn wants(&self, request: RequestId) -> bool {
        !self.is_given_up() && !self.is_cancelled(request)
    }

    #[inline]
    fn is_given_up(&self) -> bool {
        self.segment.word(word::ABANDONED).load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn is_cancelled(&self, RequestId { id, slot }: RequestId) -> bool {
        let Some(index) = self.segment.word(word::CANCELLED).load(Ordering::Acquire).checked_sub(1) else {
            return false;
        };
        let found = || self.segment.block(u32::try_from(index).ok()?).ok().map(Box::new);
        let word = self.cancelled.get_or_init(found).as_ref().and_then(|block| block.word(slot.into()));
        word.is_some_and(|word| word.load(Ordering::SeqCst) == id)
    }

    pub fn waiting(&self) -> u64 {
        self.segment.waiting(Direction::Up)
    }

    pub fn beat(&self) {
        let heart = self.segment.word(word::HEARTBEAT);
        heart.store(heart.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub fn state(&self) -> PeerState {
        match &self.watch {
            Some(watch) => lock(watch).check(),
            None if self.is_given_up() || self.wire.peer_gone() => PeerState::Gone,
            None => PeerState::Alive,
        }
    }

    pub fn why_stopped(&self) -> String {
        "is stopped (SIGSTOP or a debugger)".into()
    }

    pub fn may_be_there(&self) -> bool {
        let process = self.watch.as_ref().and_then(|watch| lock(watch).process());
        process.is_none_or(|process| process.state() != ProcessState::Gone)
    }

    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.wire.as_fd(), PollFlags::RDHUP)
    }

    pub fn close(&self) {
        // A client that is cut off finds its server silent; only the client's word ends what it has sent.
        if self.watch.is_some() {
            self.segment.word(word::ABANDONED).store(1, Ordering::SeqCst);
        }
    }
}

impl Receiver {
    #[inline]
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<Arrived>> {
        while self.ring.try_recv(frame)? {
            let Some(replies) = &mut self.replies else { return Ok(Some(Arrived::default())) };
            replies.taken.store(self.ring.position(), Ordering::Release);
            if let Some(arrived) = replies.whole(frame)? {
                return Ok(Some(arrived));
            }
        }
        Ok(None)
    }

    #[inline]
    pub fn pending(&mut self) -> bool {
        self.ring.pending()
    }

    #[inline]
    pub fn has_more(&mut self) -> bool {
        self.ring.pending()
    }

    pub fn read_ahead(&mut self) -> Result<()> {
        Ok(())
    }

    pub fn interest(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    pub fn peek(&self) -> Option<Peek> {
        let Replies { segment, taken, .. } = self.replies.as_ref()?;
        Some(Peek { segment: segment.clone(), taken: taken.clone() })
    }

    #[inline]
    pub fn arm(&self) {
        self.ring.prepare_sleep();
    }

    #[inline]
    pub fn disarm(&self) {
        self.ring.cancel_sleep();
    }

    #[inline]
    pub fn is_armed(&self) -> bool {
        self.ring.is_asleep()
    }
}

impl Replies {
    /// Puts a reply together that comes in parts, one behind the other; tells when one is whole. For which there is no
    /// memory, that is its fault, and its parts are read all the same.
    #[inline]
    fn whole(&mut self, frame: &mut Frame) -> Result<Option<Arrived>> {
        let id = frame.header.id;
        match (&mut self.part, frame.header.kind) {
            (None, kind::REPLY_PART) => self.part = Some((id, copy_of(frame.body()))),
            (None, _) => return Ok(Some(Arrived::default())),
            (Some((of, so_far)), kind::REPLY_PART | kind::REPLY) if *of == id => {
                if let Ok(bytes) = so_far {
                    if bytes.len() + frame.body().len() > 2 * REPLY_BYTES {
                        return Err(Error::new(Code::Corrupt, "a reply has no end"));
                    }
                    if let Err(why) = append(bytes, frame.body()) {
                        *so_far = Err(why);
                    }
                }
                if frame.header.kind == kind::REPLY {
                    let (whole, fault) = match std::mem::replace(so_far, Ok(Vec::new())) {
                        Ok(whole) => (whole, None),
                        Err(why) => (Vec::new(), Some(why)),
                    };
                    self.part = None;
                    frame.set(frame.header, whole);
                    return Ok(Some(Arrived { fault, ..Arrived::default() }));
                }
            }
            (Some((of, _)), other) => {
                let text = format!("a frame of kind {other} about {id} amid the reply to {of}");
                return Err(Error::new(Code::Corrupt, text));
            }
        }
        Ok(None)
    }
}

/// Waits a little for room: yields first, then sleeps.
pub fn breathe(since: Instant) {
    match since.elapsed() < BREATH {
        true => std::thread::yield_now(),
        false => {
            // The server may be the one that this thread serves for.
            standing::leave();
            std::thread::sleep(BREATH);
        }
    }
}

/// Where the last part of a reply begins; the parts before it are whole.
#[inline]
fn last_part(len: usize) -> usize {
    len.saturating_sub(1) / PART_BYTES * PART_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_never_empty_unless_all_is() {
        let part = PART_BYTES;
        assert_eq!([0, 1, part, part + 1, 2 * part].map(last_part), [0, 0, 0, part, part]);
    }
}
