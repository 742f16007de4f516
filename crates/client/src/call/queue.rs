//! Calls that no server would begin yet. They wait here, with copies of their arguments, until one has room for them:
//! so a server that is soon idle gets what another one, still busy, would have had behind it.
//!
//! ```text
//! call_async --a server has room--> sent
//!     |                               ^
//!     `---- none has ----> queue -----'  when a call has ended, or a server has come
//! ```
//!
//! Whoever waits for a call sends what can go; while nobody does, the client's watching thread looks after it. Nothing
//! waits for ever: when nothing has moved for a while, a call goes to a server that is full, and after twice as long
//! another one. So a service may wait for what a later call brings.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use forebay_link::QuickMap;
use forebay_types::directory::Incarnation;
use forebay_types::{Error, Given, Signature};

use super::args::Arg;
use super::attach::There;
use super::connection::{Connection, Pending, Told};
use super::estimate::Size;
use super::lead::LOOK;
use super::pace::Ns;
use super::request::Request;
use super::table::{Offer, coarse};
use super::transfer::OwnCopy;
use super::watcher::Watched;
use super::{Asked, Choice, Client, Inner, Sent, late, lock};

/// Most calls that wait, and most bytes of their arguments; more go to servers at once.
const CALLS: usize = 65_536;
const BYTES: u64 = 256 << 20;
/// When nothing has moved for so long, at first, one call more goes to a server that is full.
const PATIENCE: Duration = Duration::from_secs(1);

/// A call that waits, as it is sent.
pub(super) struct WaitingCall {
    pub id: u64,
    /// How often it was issued before.
    pub issue: u32,
    pub signature: Signature,
    pub args: Vec<Arg<'static>>,
    pub kept: Vec<Option<OwnCopy>>,
    pub given: Vec<Given>,
    /// Bytes of its arrays.
    pub bytes: u64,
    pub size: Size,
    /// How long it is of use, from its beginning.
    pub allowed: Option<Duration>,
    pub begun: Option<Instant>,
}

/// Where a call went that has waited.
pub(super) struct Flight {
    pub connection: Arc<Connection>,
    pub pending: Arc<Pending>,
    pub sent: Option<Instant>,
}

/// How its waiting has ended.
pub(super) enum End {
    Went(Flight),
    Failed(Error),
    /// There is no server for it: whoever waits for the call looks for one.
    NoServer,
}

/// A call that waits.
pub(super) struct Queued {
    job: Mutex<Option<WaitingCall>>,
    end: OnceLock<End>,
}

/// The calls of one client that wait.
#[derive(Default)]
pub(super) struct Queue {
    lines: Mutex<Lines>,
    len: AtomicUsize,
    bytes: AtomicU64,
    /// A call has ended, or a server has come, since the last look.
    stirred: AtomicBool,
    /// When it was looked at last, in milliseconds of the coarse clock.
    looked: AtomicU64,
}

#[derive(Default)]
struct Lines {
    by_service: QuickMap<String, Line>,
    /// The watching thread looks after them.
    is_attended: bool,
}

/// The calls of one service, first come, first served.
struct Line {
    calls: VecDeque<Arc<Queued>>,
    /// When one went last, and how long none may go before a server gets one more than it has room for.
    moved: Instant,
    patience: Duration,
    more: u32,
}

impl Queued {
    /// How its waiting has ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.end.get()
    }

    /// Whether there is something to do for whoever waits for its result.
    pub fn has_news(&self) -> bool {
        match self.end.get() {
            None => false,
            Some(End::Went(flight)) => flight.pending.is_done() || flight.connection.lost().is_some(),
            Some(End::Failed(_) | End::NoServer) => true,
        }
    }

    fn ends(&self, end: End) {
        let _ = self.end.set(end);
    }
}

impl Queue {
    /// Something has happened that may make room.
    #[inline]
    pub fn stir(&self) {
        if self.len.load(Ordering::SeqCst) > 0 {
            self.stirred.store(true, Ordering::SeqCst);
        }
    }

    /// Whether [`Queue::drive`] may find something to do.
    #[inline]
    pub fn is_stirred(&self) -> bool {
        self.stirred.load(Ordering::Relaxed)
    }

    /// Whether no call waits, and none is to be looked after.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0 && !self.is_stirred()
    }

    /// Whether calls of that service wait.
    pub fn has(&self, service: &str) -> bool {
        self.len.load(Ordering::Relaxed) > 0 && lock(&self.lines).by_service.contains_key(service)
    }

    /// Has a call wait, unless too many do.
    pub fn add(&self, inner: &Arc<Inner>, job: WaitingCall) -> Option<Arc<Queued>> {
        let bytes = job.bytes;
        if self.len.load(Ordering::Relaxed) >= CALLS
            || self.bytes.load(Ordering::Relaxed).saturating_add(bytes) > BYTES
        {
            return None;
        }
        let name = job.signature.name().as_str().to_owned();
        let queued = Arc::new(Queued { job: Mutex::new(Some(job)), end: OnceLock::new() });
        let mut lines = lock(&self.lines);
        if !lines.is_attended {
            let client = Client::of(inner.clone());
            if client.watch(Box::new(Attendant(inner.clone()))).is_err() {
                return None;
            }
            lines.is_attended = true;
        }
        self.len.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        lines.by_service.entry(name).or_insert_with(Line::new).calls.push_back(queued.clone());
        drop(lines);
        // Room that was made meanwhile was told to nobody.
        self.stir();
        self.drive(inner);
        Some(queued)
    }

    /// It is not wanted any more; false when it does not wait.
    pub fn cancel(&self, queued: &Queued) -> bool {
        let job = lock(&queued.job).take();
        if let Some(job) = &job {
            self.left(job);
        }
        job.is_some()
    }

    fn left(&self, job: &WaitingCall) {
        self.len.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(job.bytes, Ordering::Relaxed);
    }

    /// Sends what can go.
    #[inline]
    pub fn drive(&self, inner: &Arc<Inner>) {
        if self.is_stirred() {
            self.look(inner);
        }
    }

    #[cold]
    fn look(&self, inner: &Arc<Inner>) {
        self.stirred.store(false, Ordering::SeqCst);
        self.looked.store(coarse().as_millis() as u64, Ordering::Relaxed);
        let mut is_news = false;
        lock(&self.lines).by_service.retain(|name, line| {
            is_news |= line.send(self, inner, name);
            !line.calls.is_empty()
        });
        if is_news {
            inner.pump.brought();
        }
    }
}

impl Line {
    fn new() -> Line {
        Line { calls: VecDeque::new(), moved: Instant::now(), patience: PATIENCE, more: 0 }
    }

    /// Sends what can go; says whether one has ended otherwise.
    fn send(&mut self, queue: &Queue, inner: &Arc<Inner>, name: &str) -> bool {
        let mut is_news = false;
        let offer = inner.table.glance(name);
        let mut shunned = Vec::new();
        while let Some(first) = self.calls.front().cloned() {
            let mut job = lock(&first.job);
            if let Some(waits) = &*job {
                let offer =
                    offer.as_ref().filter(|o| o.signature == waits.signature && !o.servers.is_empty());
                let end = match offer {
                    None => Some(End::NoServer),
                    Some(_) if waits.is_over() => Some(End::Failed(waits.too_late())),
                    Some(offer) => self.try_send(inner, offer, waits, &mut shunned),
                };
                let Some(end) = end else { break };
                is_news |= !matches!(end, End::Went(_));
                queue.left(waits);
                first.ends(end);
            }
            *job = None;
            drop(job);
            self.calls.pop_front();
        }
        is_news
    }

    /// How a call ends its waiting, if it does.
    fn try_send(
        &mut self,
        inner: &Arc<Inner>,
        offer: &Arc<Offer>,
        job: &WaitingCall,
        shunned: &mut Vec<Incarnation>,
    ) -> Option<End> {
        loop {
            let asked = Asked {
                given: &job.given,
                size: job.size,
                waiting: self.calls.len(),
                may_wait: true,
                more: self.more,
                is_locked: true,
            };
            let server = match inner.choose(offer, shunned, &asked)? {
                Choice::At(server) => server,
                Choice::Later if self.moved.elapsed() < self.patience => return None,
                Choice::Later => {
                    (self.more, self.moved) = (self.more + 1, Instant::now());
                    self.patience *= 2;
                    continue;
                }
            };
            let info = &offer.servers[server];
            let expected = offer.expected(info.incarnation, job.size);
            let connection = match inner.connection_if_there(info, true) {
                Ok(There::Attached(connection)) => connection,
                Err(Sent::Lost(_)) => {
                    inner.failed_behind(info);
                    shunned.push(info.incarnation);
                    continue;
                }
                Ok(There::Attaching { .. } | There::Nothing) | Err(_) => {
                    shunned.push(info.incarnation);
                    continue;
                }
            };
            offer.knows(server, &connection);
            match job.request(inner, offer, expected).try_send(&connection) {
                Ok(Some((pending, sent))) => {
                    if self.more == 0 {
                        self.patience = PATIENCE;
                    }
                    (self.moved, self.more) = (Instant::now(), 0);
                    return Some(End::Went(Flight { connection, pending, sent }));
                }
                Ok(None) => return None,
                Err(Sent::Not(e)) => return Some(End::Failed(e.within(offer.signature.name()))),
                Err(Sent::Lost(_)) => {
                    inner.failed_behind(info);
                    shunned.push(info.incarnation);
                }
                Err(Sent::Unreached(_) | Sent::NoRoom(_)) => shunned.push(info.incarnation),
            }
        }
    }
}

impl WaitingCall {
    fn request<'r>(&'r self, inner: &'r Inner, offer: &'r Offer, expected: Ns) -> Request<'r, 'static> {
        let waited = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        Request {
            inner,
            id: self.id,
            issue: self.issue,
            allowed: self.allowed.map(|allowed| allowed.saturating_sub(waited)),
            timed: self.begun.is_some(),
            signature: &self.signature,
            args: &self.args,
            kept: &self.kept,
            given: &self.given,
            // One with files does not wait here.
            files: None,
            told: Told { basket: None, learns: Some((&offer.estimates, self.size)), expected },
        }
    }

    fn is_over(&self) -> bool {
        self.allowed.zip(self.begun).is_some_and(|(allowed, begun)| begun.elapsed() >= allowed)
    }

    fn too_late(&self) -> Error {
        let so_far = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        late(self.signature.name(), so_far, "no server has had room for it; allow it more time")
    }
}

/// The client's watching thread looks after the queue while calls are in it.
struct Attendant(Arc<Inner>);

impl Watched for Attendant {
    fn has_news(&mut self) -> bool {
        let queue = &self.0.queue;
        let looked = queue.looked.load(Ordering::Relaxed);
        queue.is_stirred()
            || queue.len.load(Ordering::Relaxed) == 0
            || coarse().as_millis() as u64 >= looked + LOOK.as_millis() as u64
    }

    fn advance(&mut self) -> bool {
        let queue = &self.0.queue;
        queue.look(&self.0);
        let mut lines = lock(&queue.lines);
        lines.is_attended = queue.len.load(Ordering::SeqCst) > 0;
        !lines.is_attended
    }
}
