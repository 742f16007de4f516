//! Over the network: arguments are written from where they lie, what comes lies in recycled memory, and what shared
//! memory says with a word is a short frame.

use super::{Arrived, Bulk, NotLent, Peek, Room};
use crate::frame::kind::BEAT;
use crate::frame::{Frame, Header};
use crate::lock;
use crate::pool::Pool;
use crate::silence::BULK;
use crate::standing;
use crate::stream::{Flusher, Heard, LargePart, Received, Stream, StreamReceiver, StreamSender};
use crate::watch::{PeerState, hung_up};
use forebay_arena::{Block, copy_of};
use forebay_host::wait::{self, PollFlags};
use forebay_types::call::{BODY_APART, PART_BYTES, RequestId, SLOTS, kind};
use forebay_types::{Error, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Who waits for room looks up so often.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Sender {
    sender: StreamSender,
    /// Memory for large arguments and results.
    pool: Pool,
    flusher: Arc<Flusher>,
    requests: Arc<Requests>,
    /// The client looks after the server.
    hearing: Option<Hearing>,
    beaten: Mutex<Instant>,
    /// Large arguments that are being sent.
    bulk: AtomicU32,
}

pub(super) struct Receiver {
    receiver: StreamReceiver,
    /// Where large arguments and results come.
    pool: Pool,
    requests: Arc<Requests>,
}

/// What the server's receiving end tells the sending one.
#[derive(Default)]
struct Requests {
    /// By slot, the id of the last request that is not wanted any more; made when the first one is.
    cancelled: OnceLock<Box<[AtomicU64]>>,
    /// Those that were taken and not answered.
    open: AtomicU64,
    /// Those that have come and were not taken.
    waiting: AtomicU64,
    /// One has come in part.
    amid: AtomicBool,
}

/// What is known of the server's life.
struct Hearing {
    /// When something came last.
    heard: Arc<Heard>,
    /// How long it may be silent.
    silence: Duration,
    looks: Mutex<Looks>,
}

struct Looks {
    /// Since when it has been silent while somebody listened.
    since: Instant,
    /// When somebody listened last.
    last: Instant,
}

impl Hearing {
    /// How long the server may be silent now.
    fn bears(&self, moves_bulk: bool) -> Duration {
        if moves_bulk { self.silence * BULK } else { self.silence }
    }

    /// Whether it has been silent for too long; what nobody listened to does not count.
    fn is_silent(&self, moves_bulk: bool, now: Instant) -> bool {
        let mut looks = lock(&self.looks);
        if now - looks.last > self.silence / 4 {
            looks.since = now;
        }
        looks.last = now;
        looks.since = looks.since.max(self.heard.last());
        now - looks.since > self.bears(moves_bulk)
    }
}

impl Requests {
    fn cancel(&self, RequestId { id, slot }: RequestId) {
        let none = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        self.cancelled.get_or_init(none)[usize::from(slot)].store(id, Ordering::Relaxed);
    }

    fn is_cancelled(&self, RequestId { id, slot }: RequestId) -> bool {
        let last = self.cancelled.get().map(|all| all[usize::from(slot)].load(Ordering::Relaxed));
        last == Some(id)
    }

    /// Whether the client waits for something.
    fn are_there(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
            || self.waiting.load(Ordering::Relaxed) > 0
            || self.amid.load(Ordering::Relaxed)
    }
}

/// The two ends of the side that connected.
pub(super) fn of_client(
    stream: Stream,
    pool: Pool,
    flusher: Arc<Flusher>,
    silence: Duration,
) -> (Sender, Receiver) {
    let now = Instant::now();
    let looks = Mutex::new(Looks { since: now, last: now });
    over(stream, pool, flusher, |receiver| Some(Hearing { heard: receiver.heard(), silence, looks }))
}

/// Those of the other side.
pub(super) fn of_server(stream: Stream, pool: Pool, flusher: Arc<Flusher>) -> (Sender, Receiver) {
    over(stream, pool, flusher, |_| None)
}

fn over(
    stream: Stream,
    pool: Pool,
    flusher: Arc<Flusher>,
    hearing: impl FnOnce(&StreamReceiver) -> Option<Hearing>,
) -> (Sender, Receiver) {
    let (sender, receiver) = stream.split();
    let (requests, hearing) = (Arc::new(Requests::default()), hearing(&receiver));
    let (beaten, bulk) = (Mutex::new(Instant::now()), AtomicU32::new(0));
    (
        Sender { sender, pool: pool.clone(), flusher, requests: requests.clone(), hearing, beaten, bulk },
        Receiver { receiver, pool, requests },
    )
}

impl Sender {
    #[inline]
    pub fn is_near(&self) -> bool {
        false
    }

    pub fn room(&self) -> Room<'_> {
        Room::Own(&self.pool)
    }

    pub fn lend(&self, _: u64) -> Result<Option<Block>, NotLent> {
        Ok(None)
    }

    pub fn take_back(&self, _: impl IntoIterator<Item = Block>) {}

    pub fn send(
        &self,
        header: &Header,
        body: &[u8],
        bulk: Bulk,
        idle: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let parts = match bulk {
            Bulk::Here(parts) => parts,
            Bulk::Kept(parts) => {
                return match self.sender.post(header, &[body], parts)? {
                    true => self.flusher.add(&self.sender),
                    false => Ok(()),
                };
            }
        };
        let bulk = u32::from(!parts.is_empty());
        self.bulk.fetch_add(bulk, Ordering::Relaxed);
        let sent = self.sender.send(header, &[body], parts, |socket| {
            standing::leave();
            if let Some(socket) = socket {
                let _ = wait::among([(socket, PollFlags::IN | PollFlags::OUT)], Some(LOOK));
            }
            idle()
        });
        self.bulk.fetch_sub(bulk, Ordering::Relaxed);
        sent
    }

    /// What does not go at once is kept for the flusher.
    pub fn post(&self, mut header: Header, body: &[u8], mut parts: Vec<LargePart>) -> Result<usize> {
        let sent = match body.len() > PART_BYTES {
            true => {
                header.flags |= BODY_APART;
                parts.insert(0, Box::new(body.to_vec()));
                self.sender.post(&header, &[], parts)
            }
            false => self.sender.post(&header, &[body], parts),
        };
        self.requests.open.fetch_sub(1, Ordering::Relaxed);
        match sent? {
            true => {
                let _ = self.flusher.add(&self.sender);
                Ok(self.sender.waiting_bytes())
            }
            false => Ok(0),
        }
    }

    /// The flusher may do that, too.
    pub fn flush(&self) -> Result<bool> {
        match self.sender.waits() {
            true => self.sender.flush().map(|gone| !gone),
            false => Ok(false),
        }
    }

    /// What does not go at once leaves behind the caller's back.
    pub fn cancel(&self, request: RequestId) {
        let header = Header::about(kind::CANCEL, request);
        if let Ok(true) = self.sender.post(&header, &[], Vec::new()) {
            let _ = self.flusher.add(&self.sender);
        }
    }

    pub fn wants(&self, request: RequestId) -> bool {
        !self.requests.is_cancelled(request)
    }

    pub fn waiting(&self) -> u64 {
        self.requests.waiting.load(Ordering::Relaxed)
    }

    /// Now and then, while the client waits for something.
    pub fn beat(&self) {
        let mut beaten = lock(&self.beaten);
        if self.requests.are_there() && beaten.elapsed() >= crate::silence::BEAT {
            *beaten = Instant::now();
            // What waits to go is a sign of life itself.
            if !self.sender.waits() {
                let _ = self.sender.try_send(&Header::new(BEAT, 0), &[]);
            }
        }
    }

    /// A hung up socket is a dead server, and so is one that was silent for too long.
    pub fn state(&self) -> PeerState {
        if hung_up(self.sender.as_fd()) {
            return PeerState::Gone;
        }
        let Some(hearing) = &self.hearing else { return PeerState::Alive };
        match hearing.is_silent(self.moves_bulk(), Instant::now()) {
            true => PeerState::Stopped,
            false => PeerState::Alive,
        }
    }

    /// Whether something large is on its way to the other side or from there.
    fn moves_bulk(&self) -> bool {
        self.bulk.load(Ordering::Relaxed) > 0
            || self.sender.waits()
            || self.requests.amid.load(Ordering::Relaxed)
    }

    pub fn why_stopped(&self) -> String {
        let silence = self.hearing.as_ref().map_or(0.0, |h| h.bears(self.moves_bulk()).as_secs_f64());
        format!("said nothing for {silence:.0} s: its host or the network is down, or it is stopped")
    }

    /// Of another host nothing is seen.
    pub fn may_be_there(&self) -> bool {
        true
    }

    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        let events = match self.sender.waits() {
            true => PollFlags::IN | PollFlags::RDHUP | PollFlags::OUT,
            false => PollFlags::IN | PollFlags::RDHUP,
        };
        (self.sender.as_fd(), events)
    }

    pub fn close(&self) {
        self.sender.close();
    }
}

impl Receiver {
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<Arrived>> {
        if self.receiver.waiting() > 1 {
            // Behind what waits there may stand that it is not wanted any more.
            self.read_ahead()?;
        }
        let arrived = self.take(frame);
        self.note();
        arrived
    }

    fn take(&mut self, frame: &mut Frame) -> Result<Option<Arrived>> {
        while let Some(received) = self.receiver.try_recv(&mut self.pool)? {
            let Received { header, body, mut parts, fault, .. } = received;
            match header.kind {
                kind::CANCEL => self.requests.cancel(header.request()),
                kind::REPLY if header.flags & BODY_APART != 0 && !parts.is_empty() => {
                    let (body, no_memory) = match copy_of(parts.remove(0).bytes()) {
                        Ok(body) => (body, None),
                        Err(why) => (Vec::new(), Some(why)),
                    };
                    frame.set(header, body);
                    return Ok(Some(Arrived { parts, fault: fault.or(no_memory) }));
                }
                other => {
                    if other == kind::REQUEST {
                        self.requests.open.fetch_add(1, Ordering::Relaxed);
                    }
                    frame.set(header, body);
                    return Ok(Some(Arrived { parts, fault }));
                }
            }
        }
        Ok(None)
    }

    /// A request that is on its way is a reason to show life.
    fn note(&self) {
        self.requests.waiting.store(self.receiver.waiting() as u64, Ordering::Relaxed);
        self.requests.amid.store(self.receiver.is_amid(), Ordering::Relaxed);
    }

    pub fn pending(&mut self) -> bool {
        let pending = self.receiver.pending(&mut self.pool);
        self.note();
        pending
    }

    pub fn has_more(&mut self) -> bool {
        self.receiver.waiting() > 0
    }

    /// An error shows when all that had come is taken.
    pub fn read_ahead(&mut self) -> Result<()> {
        let read = self.receiver.collect(usize::MAX, &mut self.pool);
        let cancelled = self.receiver.taken_back(kind::CANCEL);
        cancelled.for_each(|header| self.requests.cancel(header.request()));
        self.note();
        read.or_else(|e: Error| if self.receiver.waiting() > 0 { Ok(()) } else { Err(e) })
    }

    pub fn peek(&self) -> Option<Peek> {
        None
    }

    #[inline]
    pub fn arm(&self) {}

    #[inline]
    pub fn disarm(&self) {}

    #[inline]
    pub fn is_armed(&self) -> bool {
        false
    }

    pub fn interest(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_counts_while_somebody_listens_and_may_be_twice_as_long_while_bulk_moves() {
        let now = Instant::now();
        let hearing = Hearing {
            heard: Arc::default(),
            silence: Duration::from_secs(8),
            looks: Mutex::new(Looks { since: now, last: now }),
        };
        let lost_at = |moves_bulk: bool, from: u64| {
            (from..from + 40).find(|s| hearing.is_silent(moves_bulk, now + Duration::from_secs(*s))).unwrap()
        };
        assert_eq!((lost_at(false, 1), hearing.bears(false).as_secs()), (9, 8));
        // Nobody has listened for a while: it may have said what nobody heard.
        assert_eq!((lost_at(true, 100), hearing.bears(true).as_secs()), (117, 16));
        assert_eq!(lost_at(false, 200), 209);
    }
}
