//! One server, as a client is attached to it: what is under way there, and whether the server still lives.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::Duration;

use forebay_arena::{Block, Doorbell, zeros};
use forebay_host::identity;
use forebay_link::call::{self, Arrived, Bulk, Flusher, NotLent, NotLetIn, Peek, Receiver, Sender, Target};
use forebay_link::net::{Address, Fingerprint, Key};
use forebay_link::pool::Lease;
use forebay_link::{Frame, Header, PeerState, QuickMap, Transport};
use forebay_types::call::{BIG_ENDIAN, Outcome, RequestId, kind, put_outcome};
use forebay_types::codec::Writer;
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};
use rustix::event::PollFlags;

use super::ahead::Ahead;
use super::attach::Knock;
use super::estimate::{Estimates, Size};
use super::files::{FileSide, Route};
use super::near::{CallUse, HeldSegment};
use super::pace::Ns;
use super::queue::Queue;
use super::transfer::Large;
use super::{lock, reply, spare};

/// Complete calls that are noted before those that were taken are struck out: more than there are blocks.
const COMPLETE: usize = 2 * call::BLOCKS as usize;
/// The slot of a request whose caller looks for its reply himself.
const LOOKED_FOR: u16 = u16::MAX;

/// What a client needs to reach servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    /// What opens the doors of servers on other hosts.
    pub key: Option<Key>,
    /// The host at which the broker was asked.
    pub host: Option<String>,
    pub transport: Transport,
    /// How long a server on another host may be silent.
    pub silence: Duration,
}

/// Who attaches to servers.
pub(super) struct Client<'a> {
    pub id: u64,
    /// What wakes it.
    pub doorbell: &'a Doorbell,
    /// Sends behind its back.
    pub flusher: &'a Arc<Flusher>,
    /// Its calls that wait for room at a server.
    pub queue: &'a Arc<Queue>,
}

/// Where the ends of many calls are told, for whoever waits for any of them.
#[derive(Default)]
pub(super) struct Basket {
    any: AtomicBool,
    came: Mutex<Vec<u64>>,
}

impl Basket {
    /// Whether there are some.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes all that are there.
    pub fn take(&self, into: &mut Vec<u64>) {
        let mut came = lock(&self.came);
        self.any.store(false, Ordering::Release);
        into.append(&mut came);
    }

    /// Whoever waits has a look.
    pub fn rouse(&self) {
        self.any.store(true, Ordering::Release);
    }

    fn put(&self, number: u64) {
        let mut came = lock(&self.came);
        came.push(number);
        self.any.store(true, Ordering::Release);
    }
}

/// A call that was sent. The reply is put here by whoever finds it.
#[derive(Default)]
pub(super) struct Pending {
    done: AtomicBool,
    /// Its slot while it is under way.
    slot: AtomicU16,
    /// How long it is expected to run, in nanoseconds; 0 if that is not known.
    expected: AtomicU64,
    state: Mutex<PendingState>,
}

#[derive(Default)]
struct PendingState {
    reply: Option<Vec<u8>>,
    chunks: Vec<(usize, Chunk)>,
    /// The numbers in the reply's arrays are of the other byte order.
    turned: bool,
    /// Nobody waits any more: the blocks go back when the reply comes.
    abandoned: bool,
    /// Who is told that it is complete, with its number.
    told: Option<(Arc<Basket>, u64)>,
    /// What learns how long a call of that size ran.
    learns: Option<(Arc<Estimates>, Size)>,
}

/// Where a large argument or result lies.
pub(super) enum Chunk {
    /// In the segment, by argument, and whether a result comes in it.
    Block(Block, bool),
    /// A result that has made room in the segment for other arguments.
    Copied(Vec<u8>),
    /// Where it came from the network, by its number in the reply.
    Lease(Lease),
    /// In an array that the server holds: it is used until the reply is there.
    Held { _use: CallUse },
}

/// Who is told of the end of a call, beside whoever waits for it.
#[derive(Clone, Copy, Default)]
pub(super) struct Told<'a> {
    /// A basket, with the call's number there.
    pub basket: Option<(&'a Arc<Basket>, u64)>,
    /// What learns how long a call of that size ran.
    pub learns: Option<(&'a Arc<Estimates>, Size)>,
    /// How long it is expected to run, in nanoseconds, if its service says what calls cost; else 0.
    pub expected: Ns,
}

/// Why a request did not go (nothing: no room just now), and its chunks.
pub(super) type Unsent = (Option<Error>, Vec<(usize, Chunk)>);

/// What has become of a request whose caller looks for its reply himself.
pub(super) enum Exchanged<T> {
    /// It was not sent.
    Not,
    /// Its reply was read.
    Answered(T),
    /// It is under way, or its reply has come and is none that could be read.
    UnderWay(Arc<Pending>),
}

/// What came back: the reply's bytes and the chunks of the call.
pub(super) struct Returned {
    pub reply: Vec<u8>,
    pub chunks: Vec<(usize, Chunk)>,
    /// The numbers in its arrays are of the other byte order.
    pub turned: bool,
}

impl Pending {
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Makes it again what it was before it was sent.
    pub fn reset(&mut self) {
        *self.done.get_mut() = false;
        *self.state.get_mut().unwrap_or_else(PoisonError::into_inner) = PendingState::default();
    }

    pub fn take(&self) -> Option<Returned> {
        let mut state = lock(&self.state);
        let reply = state.reply.take()?;
        Some(Returned { reply, chunks: std::mem::take(&mut state.chunks), turned: state.turned })
    }
}

/// The connection.
pub(super) struct Connection {
    pub info: Arc<ServerInfo>,
    /// The server's name, for the records of many calls.
    pub name: Arc<str>,
    sender: Sender,
    receiving: Mutex<Receiving>,
    /// A look for replies without that lock, where there is one.
    peek: Option<Peek>,
    under_way: Mutex<UnderWay>,
    count: AtomicU32,
    /// The request whose caller looks for its reply himself; 0 without one.
    looked_for: AtomicU64,
    /// Is told when one of them has ended.
    queue: Arc<Queue>,
    /// Calls that are complete and whose results may lie in the segment still.
    complete: Mutex<Vec<Weak<Pending>>>,
    /// Where files of calls go.
    pub files: FileSide,
    /// Where arrays lie that the server holds.
    pub held: HeldSegment,
    lost: OnceLock<Lost>,
}

/// Requests that were sent and not answered, by id, each with a slot of its own.
#[derive(Default)]
struct UnderWay {
    requests: QuickMap<u64, Arc<Pending>>,
    /// Slots that were used before and are free; all from `next` on are, too.
    free: Vec<u16>,
    next: u32,
    /// How long they run, as far as that is known.
    ahead: Ahead,
}

impl UnderWay {
    fn insert(&mut self, id: u64, pending: &Arc<Pending>, expected: Ns) -> Option<RequestId> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u16::try_from(self.next).ok().filter(|slot| *slot != LOOKED_FOR)?;
                self.next += 1;
                slot
            }
        };
        self.insert_at(RequestId { id, slot }, pending, expected);
        Some(RequestId { id, slot })
    }

    fn insert_at(&mut self, RequestId { id, slot }: RequestId, pending: &Arc<Pending>, expected: Ns) {
        pending.slot.store(slot, Ordering::Relaxed);
        pending.expected.store(expected, Ordering::Relaxed);
        if expected > 0 {
            self.ahead.add(expected);
        }
        self.requests.insert(id, pending.clone());
    }

    /// Those that were sent first.
    fn oldest(&self, most: usize) -> Vec<u64> {
        let mut ids: Vec<u64> = self.requests.keys().copied().collect();
        ids.sort_unstable();
        ids.truncate(most);
        ids
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Pending>> {
        let pending = self.requests.remove(&id)?;
        let slot = pending.slot.load(Ordering::Relaxed);
        if slot != LOOKED_FOR {
            self.free.push(slot);
        }
        let expected = pending.expected.load(Ordering::Relaxed);
        if expected > 0 {
            self.ahead.take(expected);
        }
        Some(pending)
    }
}

struct Receiving {
    receiver: Receiver,
    frame: Frame,
}

/// Why a connection is of no more use.
struct Lost {
    error: Error,
    /// It was closed or reset: by the end of its server, or by something between here and there.
    is_closed: bool,
    /// The requests that had begun there, as far as the order tells in which they were sent.
    begun: Vec<u64>,
}

/// Where a server of another host is, and what opens its door.
fn door(info: &ServerInfo, reach: &Reach) -> Result<Option<(Address, Key)>> {
    let (Some(listens), Some(key)) = (&info.listens, &reach.key) else { return Ok(None) };
    let mut address: Address = listens.address.parse()?;
    if address.host == "*" {
        address.host = reach.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
    }
    let certificate = listens.certificate.as_deref().map(Fingerprint::parse).transpose()?;
    Ok(Some((address, key.behind(certificate))))
}

impl Connection {
    /// Attaches to a server.
    pub fn attach(info: Arc<ServerInfo>, client: &Client, reach: &Reach) -> Result<Connection, NotLetIn> {
        let is_near = info.place.is_empty() || info.place == identity::here();
        let knock = Knock::at(&info);
        let by_socket = is_near && reach.transport == Transport::Nearest;
        let door = door(&info, reach)?;
        let (sender, receiver) = call::dial(&Target {
            server: &info,
            client: client.id,
            doorbell: client.doorbell,
            by_socket,
            door: door.clone(),
            silence: reach.silence,
            flusher: client.flusher,
            still: &|process| knock.still(process),
        })?;
        Ok(Connection {
            name: info.name.as_str().into(),
            info,
            peek: receiver.peek(),
            sender,
            receiving: Mutex::new(Receiving { receiver, frame: Frame::default() }),
            under_way: Mutex::default(),
            count: AtomicU32::new(0),
            looked_for: AtomicU64::new(0),
            queue: client.queue.clone(),
            complete: Mutex::default(),
            files: FileSide::new(Route { client: client.id, by_socket, door, silence: reach.silence }),
            held: HeldSegment::default(),
            lost: OnceLock::new(),
        })
    }

    /// Its socket, whose end is the server's, and what wakes who waits for a reply.
    pub fn socket(&self) -> (BorrowedFd<'_>, PollFlags) {
        self.sender.interest()
    }

    /// Why it is of no more use, if so.
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get().map(|lost| &lost.error)
    }

    /// Whether it was lost, and nothing says that its server is: who connects anew may find it well.
    pub fn is_cut(&self) -> bool {
        self.lost.get().is_some_and(|lost| lost.is_closed) && self.sender.may_be_there()
    }

    /// Whether the server had begun a call when it was lost.
    pub fn had_begun(&self, id: u64) -> bool {
        self.lost.get().is_some_and(|lost| lost.begun.contains(&id))
    }

    /// Looks whether a connection to another host was cut while nobody asked for anything: what is sent then may be
    /// lost, and nobody could say whether it was done.
    pub fn look_if_idle(&self) {
        if !self.sender.is_near() && !self.is_busy() {
            self.look();
        }
    }

    /// Whether its server is on this host, and its memory may be seen.
    pub fn is_near(&self) -> bool {
        self.sender.is_near()
    }

    /// Whether a reply is awaited.
    pub fn is_busy(&self) -> bool {
        self.calls() > 0
    }

    /// How many replies are awaited.
    #[inline]
    pub fn calls(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// How long what is there runs, as far as that is known.
    pub fn with_ahead<T>(&self, look: impl FnOnce(&Ahead) -> T) -> T {
        look(&lock(&self.under_way).ahead)
    }

    /// Gives the connection up: nothing that was sent and not begun is to be run any more.
    fn give_up(&self, why: String) {
        self.lose(why, false);
    }

    /// Its client ends.
    pub fn close(&self) {
        self.give_up("was left: its client is closed".into());
    }

    /// Gives the connection up because it has ended: the server has, or something between has cut it.
    fn is_closed(&self) {
        self.lose("died or closed the connection".into(), true);
    }

    fn lose(&self, why: String, is_closed: bool) {
        self.sender.close();
        let who = format!("server {:?} (pid {})", self.info.name, self.info.pid);
        let error = Error::new(Code::ServerLost, format!("{who} {why}"));
        self.lost.get_or_init(|| {
            let mut begun = lock(&self.under_way).oldest(self.info.workers.max(1) as usize);
            begun.push(self.looked_for.load(Ordering::Acquire));
            Lost { error, is_closed, begun }
        });
        self.held.let_go();
        self.queue.stir();
    }

    /// Looks whether the server lives: one system call.
    pub fn look(&self) {
        match self.sender.state() {
            PeerState::Alive => {}
            PeerState::Stopped => self.give_up(self.sender.why_stopped()),
            PeerState::Gone => {
                // What it sent before its end counts.
                while self.drain() {}
                self.is_closed();
            }
        }
    }

    /// A block for an argument; none over the network, where it is sent from where it lies.
    pub fn block(&self, bytes: u64) -> Result<Option<Block>, NotLent> {
        match self.sender.lend(bytes) {
            Err(e) if e.may_come && self.make_room() => self.sender.lend(bytes),
            found => found,
        }
    }

    /// Results that nobody has taken yet leave the segment; says whether there were any.
    fn make_room(&self) -> bool {
        while self.drain() {}
        let complete = std::mem::take(&mut *lock(&self.complete));
        let mut blocks = Vec::new();
        for pending in complete.iter().filter_map(Weak::upgrade) {
            for (_, chunk) in &mut lock(&pending.state).chunks {
                let Chunk::Block(block, _) = chunk else { continue };
                // Without memory for it here it stays there.
                let Ok(mut own) = zeros(block.view().len()) else { continue };
                block.view().copy_to(&mut own);
                let copy = Chunk::Copied(own);
                if let Chunk::Block(block, _) = std::mem::replace(chunk, copy) {
                    blocks.push(block);
                }
            }
        }
        let any = !blocks.is_empty();
        self.sender.take_back(blocks);
        any
    }

    /// Gives chunks back that no call uses.
    pub fn free(&self, chunks: Vec<(usize, Chunk)>) {
        self.sender.take_back(chunks.into_iter().filter_map(|(_, chunk)| match chunk {
            Chunk::Block(block, _) => Some(block),
            Chunk::Copied(_) | Chunk::Lease(_) | Chunk::Held { .. } => None,
        }));
    }

    /// Sends a request whose large arguments lie in blocks or are `large`. On failure the chunks come
    /// back; without an error too many are under way just now. `wait` is called while it does not go.
    pub fn send(
        &self,
        id: u64,
        told: Told,
        body: &[u8],
        chunks: Vec<(usize, Chunk)>,
        large: Large,
        mut wait: impl FnMut() -> Result<()>,
    ) -> Result<Arc<Pending>, Unsent> {
        let pending = spare::pending();
        if !chunks.is_empty() || told.basket.is_some() || told.learns.is_some() {
            let mut state = lock(&pending.state);
            state.chunks = chunks;
            state.told = told.basket.map(|(basket, number)| (basket.clone(), number));
            state.learns = told.learns.map(|(estimates, size)| (estimates.clone(), size));
        }
        let request =
            self.counted(Ordering::Relaxed, |under_way| under_way.insert(id, &pending, told.expected));
        let Some(request) = request else {
            return Err((None, std::mem::take(&mut lock(&pending.state).chunks)));
        };
        let header = Header::about(kind::REQUEST, request);
        match self.sender.send(&header, body, large.bulk(), &mut wait) {
            Ok(()) => Ok(pending),
            Err(why) => {
                self.forget(id);
                if why.code() == Code::ServerLost {
                    // Whoever else waits for this server must know; what it sent before counts.
                    while self.drain() {}
                    self.is_closed();
                }
                Err((Some(why), std::mem::take(&mut lock(&pending.state).chunks)))
            }
        }
    }

    /// Sends a short request whose caller has nothing else to wait for, and looks for its reply for a moment. `read` reads
    /// the words of the reply, if that is what it was looked for; `learns` is told of a later one how long it ran.
    pub fn exchange<T>(
        &self,
        id: u64,
        body: &[u8],
        learns: (&Arc<Estimates>, Size),
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Exchanged<T> {
        if self.peek.is_none() || self.is_busy() {
            return Exchanged::Not;
        }
        // Whoever has it takes every reply that comes.
        let Ok(mut receiving) = self.receiving.try_lock() else { return Exchanged::Not };
        let Receiving { receiver, frame } = &mut *receiving;
        let request = RequestId { id, slot: LOOKED_FOR };
        self.looked_for.store(id, Ordering::Release);
        let full = &mut || Err(Error::new(Code::Full, "there is no room"));
        if self.sender.send(&Header::about(kind::REQUEST, request), body, Bulk::Here(&[]), full).is_err() {
            self.looked_for.store(0, Ordering::Release);
            return Exchanged::Not;
        }
        let came = forebay_arena::glance(|| receiver.pending()).then(|| receiver.next(frame)).transpose();
        let came = came.map(Option::flatten);
        let is_answer = frame.header.kind == kind::REPLY && frame.header.id == id;
        if matches!(came, Ok(Some(_)))
            && is_answer
            && let Some(read) = read(frame.body())
        {
            self.looked_for.store(0, Ordering::Release);
            return Exchanged::Answered(read);
        }
        // From here on it is a call like others.
        let pending = spare::pending();
        lock(&pending.state).learns = Some((learns.0.clone(), learns.1));
        self.counted(Ordering::Relaxed, |under_way| under_way.insert_at(request, &pending, 0));
        self.looked_for.store(0, Ordering::Release);
        let taken = came.and_then(|came| came.map_or(Ok(()), |arrived| self.take(frame, arrived)));
        drop(receiving);
        if let Err(e) = taken {
            self.lose_by(&e);
        }
        Exchanged::UnderWay(pending)
    }

    fn forget(&self, id: u64) -> Option<Arc<Pending>> {
        // Before whoever waits for room is woken.
        let pending = self.counted(Ordering::SeqCst, |under_way| under_way.remove(id));
        self.queue.stir();
        pending
    }

    /// Changes what is under way, and notes how much that is now.
    fn counted<T>(&self, order: Ordering, change: impl FnOnce(&mut UnderWay) -> T) -> T {
        let mut under_way = lock(&self.under_way);
        let changed = change(&mut under_way);
        self.count.store(under_way.requests.len() as u32, order);
        changed
    }

    /// Nobody waits for a call any more. If it has not begun it will not be run. Over the network that is so from the
    /// moment at which the server hears it.
    pub fn abandon(&self, id: u64, pending: &Pending) {
        {
            // Its slot is nobody else's meanwhile.
            let under_way = lock(&self.under_way);
            if under_way.requests.contains_key(&id) {
                let request = RequestId { id, slot: pending.slot.load(Ordering::Relaxed) };
                self.sender.cancel(request);
            }
        }
        self.forsake(pending);
    }

    /// Nobody waits for a call any more; it is to be run.
    pub fn forsake(&self, pending: &Pending) {
        let chunks = {
            let mut state = lock(&pending.state);
            state.abandoned = true;
            match state.reply.take() {
                Some(_) => std::mem::take(&mut state.chunks),
                None => Vec::new(),
            }
        };
        self.free(chunks);
    }

    /// Takes replies that are there; false when there are no more. Something else than a reply makes the server lost.
    pub fn drain(&self) -> bool {
        let drained = match self.lost.get() {
            Some(_) => Ok(false),
            None => self.take_replies(),
        };
        drained.unwrap_or_else(|e| {
            self.lose_by(&e);
            true
        })
    }

    /// What was received makes the server lost.
    #[cold]
    fn lose_by(&self, e: &Error) {
        match e.code() {
            Code::ServerLost => self.is_closed(),
            _ => self.give_up(format!("sent what is no reply: {e}")),
        }
    }

    /// More may be there: whoever waits for these has them before a long one is read.
    fn take_replies(&self) -> Result<bool> {
        if !self.sender.is_near() {
            self.sender.flush()?;
        }
        let Some(mut receiving) = self.receiving() else { return Ok(false) };
        let Receiving { receiver, frame } = &mut *receiving;
        let mut any = false;
        while let Some(arrived) = receiver.next(frame)? {
            any = true;
            self.take(frame, arrived)?;
            // Where the next reply will be lies with the other core: without one under way it is not fetched.
            if !self.is_busy() || !receiver.has_more() {
                break;
            }
        }
        Ok(any)
    }

    /// The receiving end, when there is something to take. Whoever has it over the network reads for all.
    fn receiving(&self) -> Option<MutexGuard<'_, Receiving>> {
        match &self.peek {
            Some(peek) => peek.pending().then(|| lock(&self.receiving)),
            None => match self.receiving.try_lock() {
                Ok(receiving) => Some(receiving),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            },
        }
    }

    fn take(&self, frame: &mut Frame, arrived: Arrived) -> Result<()> {
        let Header { kind, id, flags, .. } = frame.header;
        if kind != kind::REPLY {
            return Err(Error::new(Code::Corrupt, format!("a frame of kind {kind}")));
        }
        let unasked = || Error::new(Code::Corrupt, format!("a reply to {id}, which was not asked"));
        let pending = self.forget(id).ok_or_else(unasked)?;
        let reply = match arrived.fault {
            // No room for the results here: the call has failed, the server has not.
            Some(fault) => failed(&fault),
            None => frame.take_body(spare::buffer()),
        };
        let chunks = arrived.parts.into_iter().map(Chunk::Lease).enumerate().collect();
        self.deliver(&pending, reply, chunks, flags & BIG_ENDIAN != 0);
        Ok(())
    }

    fn deliver(&self, pending: &Arc<Pending>, reply: Vec<u8>, came: Vec<(usize, Chunk)>, turned: bool) {
        let mut state = lock(&pending.state);
        if state.abandoned {
            let chunks = std::mem::take(&mut state.chunks);
            drop(state);
            self.free(chunks);
            return;
        }
        // What only went there is needed no more, whenever its results are taken.
        if !state.chunks.is_empty() {
            let went =
                |chunk: &mut (usize, Chunk)| matches!(chunk.1, Chunk::Block(_, false) | Chunk::Held { .. });
            self.free(state.chunks.extract_if(.., went).collect());
            if !state.chunks.is_empty() {
                self.note_complete(pending);
            }
        }
        state.chunks.extend(came);
        state.turned = turned;
        let told = state.told.take();
        if let Some((estimates, size)) = state.learns.take()
            && let Some(head) = reply::head(&reply).filter(|head| head.code == 0 && head.ran_ns > 0)
        {
            let others = (head.there, self.calls() + 1);
            estimates.learn(self.info.incarnation, size, head.ran_ns, others);
        }
        state.reply = Some(reply);
        drop(state);
        pending.done.store(true, Ordering::Release);
        if let Some((basket, number)) = told {
            basket.put(number);
        }
    }

    /// Results that lie in the segment may have to leave it before they are taken.
    fn note_complete(&self, pending: &Arc<Pending>) {
        let mut complete = lock(&self.complete);
        if complete.len() == COMPLETE {
            complete.retain(|pending| pending.strong_count() > 0);
        }
        complete.push(Arc::downgrade(pending));
    }

    /// Whether a reply is there, without waiting for anything.
    #[inline]
    pub fn has_reply(&self) -> bool {
        match &self.peek {
            Some(peek) => peek.pending(),
            None => self.receiving.try_lock().is_ok_and(|mut receiving| receiving.receiver.pending()),
        }
    }

    /// This client is about to sleep; look for replies once more after this.
    pub fn prepare_sleep(&self) {
        if self.sender.is_near() {
            lock(&self.receiving).receiver.arm();
        }
    }

    /// It is awake.
    pub fn cancel_sleep(&self) {
        if self.sender.is_near() {
            lock(&self.receiving).receiver.disarm();
        }
    }
}

/// A reply that says so.
fn failed(why: &Error) -> Vec<u8> {
    let outcome =
        Outcome { code: why.code() as u32, running: 0, queued: 0, waited_ns: 0, ran_ns: 0, text: why.text() };
    let mut w = Writer::new();
    put_outcome(&mut w, &outcome, 0);
    w.finish()
}
