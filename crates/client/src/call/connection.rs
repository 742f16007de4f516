//! One server, as a client is attached to it: what is under way, whether the server still lives,
//! and the way to it, which is shared memory or the network.

mod memory;
mod remote;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use forebay_arena::{Block, Doorbell, limits, place};
use forebay_link::net::{Address, Fingerprint, Key, Received};
use forebay_link::pool::Lease;
use forebay_link::{Frame, PeerState, QuickMap, Transport, standing};
use forebay_types::call::{
    ARGUMENT_BYTES, Attached, BIG_ENDIAN, BODY_APART, Outcome, REPLY_BYTES, RequestId, kind, put_outcome,
};
use forebay_types::codec::Writer;
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};
use rustix::event::PollFlags;

use super::transfer::{Copies, Large};
use super::{lock, spare};
use memory::Memory;
use remote::Remote;

/// How long a server on another host may take to let a client in; its door is never busy with calls.
const PATIENCE: Duration = Duration::from_secs(2);
/// Less room for large arguments is of no use.
const LEAST_ROOM: u64 = 16 << 20;
/// Less there is only where address space is limited.
const FULL_ROOM: u64 = 1 << 30;

/// Complete calls that are noted before those that were taken are struck out: more than there are blocks.
const COMPLETE: usize = 2 * memory::BLOCKS as usize;

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

/// A call that was sent. The reply is put here by whoever finds it.
#[derive(Default)]
pub(super) struct Pending {
    done: AtomicBool,
    /// Its slot while it is under way.
    slot: AtomicU16,
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
}

/// Where a large argument or result lies.
pub(super) enum Chunk {
    /// In the segment, by argument, and whether a result comes in it.
    Block(Block, bool),
    /// A result that has made room in the segment for other arguments.
    Copied(Vec<u8>),
    /// Where it came from the network, by its number in the reply.
    Lease(Lease),
}

/// Why a request did not go (nothing: no room just now), and its chunks.
pub(super) type Unsent = (Option<Error>, Vec<(usize, Chunk)>);

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

    /// As it was before it was sent.
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
    way: Way,
    /// Parts of replies whose end has not come.
    parts: Mutex<QuickMap<u64, Vec<u8>>>,
    under_way: Mutex<UnderWay>,
    count: AtomicUsize,
    /// Calls that are complete and whose results may lie in the segment still.
    complete: Mutex<Vec<Weak<Pending>>>,
    lost: OnceLock<Lost>,
}

/// Requests that were sent and not answered, by id, each with a slot of its own.
#[derive(Default)]
struct UnderWay {
    requests: QuickMap<u64, Arc<Pending>>,
    /// Slots that were used before and are free; all from `next` on are, too.
    free: Vec<u16>,
    next: u32,
}

impl UnderWay {
    fn insert(&mut self, id: u64, pending: &Arc<Pending>) -> Option<RequestId> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u16::try_from(self.next).ok()?;
                self.next += 1;
                slot
            }
        };
        pending.slot.store(slot, Ordering::Relaxed);
        self.requests.insert(id, pending.clone());
        Some(RequestId { id, slot })
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Pending>> {
        let pending = self.requests.remove(&id)?;
        self.free.push(pending.slot.load(Ordering::Relaxed));
        Some(pending)
    }
}

/// Why a connection is of no more use.
struct Lost {
    error: Error,
    /// It was closed or reset: by the end of its server, or by something between here and there.
    is_closed: bool,
}

enum Way {
    Memory(Box<Memory>),
    Network(Box<Remote>),
}

/// Room for large arguments: as much as the machine has memory, within the limit. It is address
/// space only; pages are taken when used. Where that is limited, too, each server gets a part of it.
pub(super) fn room() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    let machine = machine.clamp(FULL_ROOM, ARGUMENT_BYTES);
    limits::address_space_left().map_or(machine, |left| machine.min(left / 4).max(LEAST_ROOM))
}

/// The server is the one that was announced.
fn agree(info: &ServerInfo, answer: serde_json::Value) -> Result<()> {
    let attached: Attached = serde_json::from_value(answer)
        .map_err(|e| Error::new(Code::Corrupt, format!("a server's answer is not one: {e}")))?;
    if attached.incarnation != info.incarnation {
        return Err(Error::new(
            Code::ServerLost,
            format!("server {:?} at {} is another one by now", info.name, info.socket),
        ));
    }
    Ok(())
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

impl Way {
    fn find(info: &ServerInfo, client: u64, doorbell: &Doorbell, reach: &Reach) -> Result<Way> {
        let door = door(info, reach)?;
        let near = info.place.is_empty() || info.place == place::here();
        let memory = || Memory::attach(info, client, doorbell).map(|m| Way::Memory(Box::new(m)));
        let network = |(address, key)| {
            Remote::attach(info, client, &address, key, reach.silence).map(|r| Way::Network(Box::new(r)))
        };
        match (near && reach.transport == Transport::Nearest, door) {
            (true, None) => memory(),
            // A socket that is not to be seen from here: in a container, say.
            (true, Some(door)) => memory().or_else(|e| match e.code() {
                Code::NotFound => network(door),
                _ => Err(e),
            }),
            (false, Some(door)) => network(door),
            (false, None) => Err(remote::unreachable(info)),
        }
    }
}

impl Connection {
    /// Attaches to a server.
    pub fn attach(
        info: Arc<ServerInfo>,
        client: u64,
        doorbell: &Doorbell,
        reach: &Reach,
    ) -> Result<Connection> {
        let way = Way::find(&info, client, doorbell, reach)?;
        Ok(Connection {
            name: info.name.as_str().into(),
            info,
            way,
            parts: Mutex::default(),
            under_way: Mutex::default(),
            count: AtomicUsize::new(0),
            complete: Mutex::default(),
            lost: OnceLock::new(),
        })
    }

    /// Its socket, whose end is the server's, and what wakes who waits for a reply.
    pub fn socket(&self) -> (BorrowedFd<'_>, PollFlags) {
        match &self.way {
            Way::Memory(memory) => (memory.socket(), PollFlags::RDHUP),
            Way::Network(remote) => (remote.socket(), remote.events()),
        }
    }

    /// Why it is of no more use, if so.
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get().map(|lost| &lost.error)
    }

    /// Whether it was lost, and nothing says that its server is: who connects anew may find it well.
    pub fn is_cut(&self) -> bool {
        let is_closed = self.lost.get().is_some_and(|lost| lost.is_closed);
        is_closed
            && match &self.way {
                Way::Memory(memory) => memory.is_there(),
                Way::Network(_) => true,
            }
    }

    /// Looks whether a connection to another host was cut while nobody asked for anything: what is sent then may be
    /// lost, and nobody could say whether it was done.
    pub fn look_if_idle(&self) {
        if matches!(self.way, Way::Network(_)) && !self.is_busy() {
            self.look();
        }
    }

    /// Whether a reply is awaited.
    pub fn is_busy(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Gives it up: nothing that was sent and not begun is to be run any more.
    fn give_up(&self, why: String) {
        self.lose(why, false);
    }

    /// The same when its end came: by the server's, or by something between.
    fn is_closed(&self) {
        self.lose("died or closed the connection".into(), true);
    }

    fn lose(&self, why: String, is_closed: bool) {
        match &self.way {
            Way::Memory(memory) => memory.give_up(),
            Way::Network(remote) => remote.give_up(),
        }
        let who = format!("server {:?} (pid {})", self.info.name, self.info.pid);
        let error = Error::new(Code::ServerLost, format!("{who} {why}"));
        let _ = self.lost.set(Lost { error, is_closed });
    }

    /// Looks whether the server lives: one system call.
    pub fn look(&self) {
        let state = match &self.way {
            Way::Memory(memory) => memory.state(),
            Way::Network(remote) => remote.state(),
        };
        match (state, &self.way) {
            (PeerState::Alive, _) => {}
            (PeerState::Stopped, Way::Memory(_)) => self.give_up("is stopped (SIGSTOP or a debugger)".into()),
            (PeerState::Stopped, Way::Network(remote)) => self.give_up(remote::silent(remote.silence())),
            (PeerState::Gone, _) => {
                // What it sent before its end counts.
                while self.drain() {}
                self.is_closed();
            }
        }
    }

    /// A block for an argument; none over the network, where it is sent from where it lies.
    pub fn block(&self, bytes: u64) -> Result<Option<Block>> {
        match &self.way {
            Way::Memory(memory) => match memory.block(bytes) {
                Err(e) if e.code() == Code::Full && self.make_room() => memory.block(bytes).map(Some),
                found => found.map(Some),
            },
            Way::Network(_) => Ok(None),
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
                let copy = Chunk::Copied(block.view().to_vec());
                if let Chunk::Block(block, _) = std::mem::replace(chunk, copy) {
                    blocks.push(block);
                }
            }
        }
        let any = !blocks.is_empty();
        if let Way::Memory(memory) = &self.way {
            memory.free(blocks);
        }
        any
    }

    /// Gives chunks back that no call uses.
    pub fn free(&self, chunks: Vec<(usize, Chunk)>) {
        if let Way::Memory(memory) = &self.way {
            memory.free(chunks.into_iter().filter_map(|(_, chunk)| match chunk {
                Chunk::Block(block, _) => Some(block),
                Chunk::Copied(_) | Chunk::Lease(_) => None,
            }));
        }
    }

    /// Sends a request whose large arguments lie in blocks or are `large`. On failure the chunks come
    /// back; without an error there is only no room just now. `wait` is called while parts do not go.
    pub fn send(
        &self,
        id: u64,
        body: &[u8],
        chunks: Vec<(usize, Chunk)>,
        large: Large,
        wait: impl FnMut() -> Result<()>,
    ) -> Result<Arc<Pending>, Unsent> {
        let pending = spare::pending();
        if !chunks.is_empty() {
            lock(&pending.state).chunks = chunks;
        }
        let request = {
            let mut under_way = lock(&self.under_way);
            let request = under_way.insert(id, &pending);
            self.count.store(under_way.requests.len(), Ordering::Relaxed);
            request
        };
        let Some(request) = request else {
            return Err((None, std::mem::take(&mut lock(&pending.state).chunks)));
        };
        let sent = match &self.way {
            Way::Memory(memory) => memory.send(request, body),
            Way::Network(remote) => remote.send(request, body, large, wait).map_err(Some),
        };
        match sent {
            Ok(()) => Ok(pending),
            Err(why) => {
                self.forget(id);
                if why.as_ref().is_some_and(|e| e.code() == Code::ServerLost) {
                    // Whoever else waits for this server must know; what it sent before counts.
                    while self.drain() {}
                    self.is_closed();
                }
                Err((why, std::mem::take(&mut lock(&pending.state).chunks)))
            }
        }
    }

    fn forget(&self, id: u64) -> Option<Arc<Pending>> {
        let mut under_way = lock(&self.under_way);
        let pending = under_way.remove(id);
        self.count.store(under_way.requests.len(), Ordering::Relaxed);
        pending
    }

    /// Nobody waits for a call any more. If it has not begun it will not be run. Over the network that is so from the
    /// moment at which the server hears it.
    pub fn abandon(&self, id: u64, pending: &Pending, copies: &Copies) {
        {
            // Its slot is nobody else's meanwhile.
            let under_way = lock(&self.under_way);
            if under_way.requests.contains_key(&id) {
                let request = RequestId { id, slot: pending.slot.load(Ordering::Relaxed) };
                match &self.way {
                    Way::Memory(memory) => memory.cancel(request),
                    Way::Network(remote) => remote.cancel(request, copies),
                }
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
        let drained = match &self.way {
            _ if self.lost.get().is_some() => Ok(false),
            Way::Memory(memory) => memory.drain(|frame| self.take_frame(frame)),
            Way::Network(remote) => remote.drain(|received| self.take_received(received)),
        };
        drained.unwrap_or_else(|e| {
            match e.code() {
                Code::ServerLost => self.is_closed(),
                _ => self.give_up(format!("sent what is no reply: {e}")),
            }
            true
        })
    }

    fn take_frame(&self, frame: &Frame) -> Result<()> {
        let id = frame.header.id;
        match frame.header.kind {
            kind::REPLY_PART => self.take_part(id, frame.body()),
            kind::REPLY => {
                let pending = self.forget(id).ok_or_else(|| unasked(id))?;
                let mut reply = self.beginning(id).unwrap_or_else(spare::buffer);
                reply.extend_from_slice(frame.body());
                self.deliver(&pending, reply, Vec::new());
                Ok(())
            }
            other => Err(Error::new(Code::Corrupt, format!("a frame of kind {other}"))),
        }
    }

    fn take_received(&self, received: Received) -> Result<()> {
        let Received { header, mut body, mut parts, fault } = received;
        if header.kind != kind::REPLY {
            return Err(Error::new(Code::Corrupt, format!("a frame of kind {}", header.kind)));
        }
        let pending = self.forget(header.id).ok_or_else(|| unasked(header.id))?;
        if let Some(fault) = fault {
            // No room for the results here: the call has failed, the server has not.
            body = failed(&fault);
        } else if header.flags & BODY_APART != 0 && !parts.is_empty() {
            body = parts.remove(0).bytes().to_vec();
        }
        let chunks = parts.into_iter().map(Chunk::Lease).enumerate().collect();
        lock(&pending.state).turned = header.flags & BIG_ENDIAN != 0;
        self.deliver(&pending, body, chunks);
        Ok(())
    }

    fn take_part(&self, id: u64, body: &[u8]) -> Result<()> {
        if !lock(&self.under_way).requests.contains_key(&id) {
            return Err(unasked(id));
        }
        let mut parts = lock(&self.parts);
        let whole = parts.entry(id).or_default();
        if whole.len() + body.len() > 2 * REPLY_BYTES {
            return Err(Error::new(Code::Corrupt, "a reply has no end"));
        }
        whole.extend_from_slice(body);
        Ok(())
    }

    /// What has come of a reply that came in parts.
    fn beginning(&self, id: u64) -> Option<Vec<u8>> {
        let mut parts = lock(&self.parts);
        match parts.is_empty() {
            true => None,
            false => parts.remove(&id),
        }
    }

    fn deliver(&self, pending: &Arc<Pending>, reply: Vec<u8>, came: Vec<(usize, Chunk)>) {
        let mut state = lock(&pending.state);
        if state.abandoned {
            let chunks = std::mem::take(&mut state.chunks);
            drop(state);
            self.free(chunks);
            return;
        }
        // What only went there is needed no more, whenever its results are taken.
        if !state.chunks.is_empty() {
            let went = |chunk: &mut (usize, Chunk)| matches!(chunk.1, Chunk::Block(_, false));
            self.free(state.chunks.extract_if(.., went).collect());
            if !state.chunks.is_empty() {
                self.note_complete(pending);
            }
        }
        state.chunks.extend(came);
        state.reply = Some(reply);
        drop(state);
        pending.done.store(true, Ordering::Release);
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
        match &self.way {
            Way::Memory(memory) => memory.has_reply(),
            Way::Network(remote) => remote.has_reply(),
        }
    }

    /// This client is about to sleep; look for replies once more after this.
    pub fn prepare_sleep(&self) {
        if let Way::Memory(memory) = &self.way {
            memory.prepare_sleep();
        }
    }

    /// It is awake.
    pub fn cancel_sleep(&self) {
        if let Way::Memory(memory) = &self.way {
            memory.cancel_sleep();
        }
    }
}

fn unasked(id: u64) -> Error {
    Error::new(Code::Corrupt, format!("a reply to {id}, which was not asked"))
}

/// A reply that says so.
fn failed(why: &Error) -> Vec<u8> {
    let outcome =
        Outcome { code: why.code() as u32, running: 0, queued: 0, waited_ns: 0, ran_ns: 0, text: why.text() };
    let mut w = Writer::new();
    put_outcome(&mut w, &outcome, 0);
    w.finish()
}

/// Waits a little for room in a ring: yields first, then sleeps.
pub(super) fn breathe(since: Instant) {
    match since.elapsed() {
        t if t < Duration::from_micros(200) => std::thread::yield_now(),
        _ => {
            // The server may be the one that this thread serves for.
            standing::leave();
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
