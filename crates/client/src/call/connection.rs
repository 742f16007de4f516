//! One server, as a client is attached to it: its own segment, what is under way, and whether
//! the server still lives.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use forebay_arena::{Allocator, Block, Direction, Segment};
use forebay_link::frame::Header;
use forebay_link::{Doorbell, Frame, PeerState, QuickMap, ShmLink, ShmReceiver, ShmSender, Watch, Wire};
use forebay_types::call::{ARGUMENT_BYTES, Attached, REPLY_BYTES, ServerRequest, kind, word};
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};

use super::{lock, spare};

/// How long a server may take to let a client in; its listener is never busy with calls.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most large arguments under way at a time.
const BLOCKS: u32 = 4_096;
/// Most calls under way at a time.
const UNDER_WAY: usize = 65_536;

/// A call that was sent. The reply is put here by whoever finds it.
#[derive(Default)]
pub(super) struct Pending {
    done: AtomicBool,
    state: Mutex<PendingState>,
}

#[derive(Default)]
struct PendingState {
    reply: Option<Vec<u8>>,
    blocks: Vec<(usize, Block)>,
    /// Nobody waits any more: the blocks go back when the reply comes.
    abandoned: bool,
}

/// Why a request did not go (nothing: no room in the ring just now), and its blocks.
pub(super) type Unsent = (Option<Error>, Vec<(usize, Block)>);

/// What came back: the reply's bytes and the blocks of the call, by argument.
pub(super) struct Returned {
    pub reply: Vec<u8>,
    pub blocks: Vec<(usize, Block)>,
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
        Some(Returned { reply, blocks: std::mem::take(&mut state.blocks) })
    }
}

struct Sending {
    sender: ShmSender,
    allocator: Allocator,
}

struct Receiving {
    receiver: ShmReceiver,
    frame: Frame,
    parts: QuickMap<u64, Vec<u8>>,
}

/// The connection.
pub(super) struct Connection {
    pub info: Arc<ServerInfo>,
    /// The server's name, for the records of many calls.
    pub name: Arc<str>,
    segment: Segment,
    wire: Wire,
    watch: Mutex<Watch>,
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
    /// Position in the ring of replies up to which they were taken.
    taken: AtomicU64,
    under_way: Mutex<QuickMap<u64, Arc<Pending>>>,
    count: AtomicUsize,
    lost: OnceLock<Error>,
}

/// Room for large arguments: as much as the machine has memory, within the limit. It is address
/// space only; pages are taken when used.
fn room() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1))).clamp(1 << 30, ARGUMENT_BYTES)
}

impl Connection {
    /// Attaches to a server.
    pub fn attach(info: Arc<ServerInfo>, client: u64, doorbell: &Doorbell) -> Result<Connection> {
        let mut wire = Wire::connect_as(Path::new(&info.socket), "client", PATIENCE)?;
        let link = ShmLink::create(room(), BLOCKS)?;
        let request = ServerRequest::Attach { client };
        let fds = [link.segment().fd(), doorbell.as_fd()];
        let (answer, theirs) = wire.ask_with(&request, &fds, PATIENCE)?;
        let attached: Attached = serde_json::from_value(answer)
            .map_err(|e| Error::new(Code::Corrupt, format!("a server's answer is not one: {e}")))?;
        if attached.incarnation != info.incarnation {
            return Err(Error::new(
                Code::ServerLost,
                format!("server {:?} at {} is another one by now", info.name, info.socket),
            ));
        }
        let (segment, sender, receiver) = link.split();
        let bell = theirs.into_iter().next();
        sender.attach_eventfd(bell.ok_or_else(|| Error::new(Code::Corrupt, "a server has no doorbell"))?);
        let heart = Some((segment.clone(), word::HEARTBEAT));
        let watch = Watch::new(wire.watch_fd()?, wire.process(), heart);
        let allocator = segment.allocator();
        Ok(Connection {
            name: info.name.as_str().into(),
            info,
            segment,
            watch: Mutex::new(watch),
            wire,
            sending: Mutex::new(Sending { sender, allocator }),
            receiving: Mutex::new(Receiving {
                receiver,
                frame: Frame::default(),
                parts: QuickMap::default(),
            }),
            taken: AtomicU64::new(0),
            under_way: Mutex::default(),
            count: AtomicUsize::new(0),
            lost: OnceLock::new(),
        })
    }

    /// Its socket, whose end is the server's.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    /// Why it is of no more use, if so.
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Whether a reply is awaited.
    pub fn is_busy(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Gives it up: nothing that was sent and not begun is to be run any more.
    fn give_up(&self, why: String) {
        self.segment.word(word::ABANDONED).store(1, Ordering::SeqCst);
        let who = format!("server {:?} (pid {})", self.info.name, self.info.pid);
        let _ = self.lost.set(Error::new(Code::ServerLost, format!("{who} {why}")));
    }

    /// Looks whether the server lives: one system call.
    pub fn look(&self) {
        match lock(&self.watch).check() {
            PeerState::Alive => {}
            PeerState::Stopped => self.give_up("is stopped (SIGSTOP or a debugger)".into()),
            PeerState::Gone => {
                // What it sent before its end counts.
                self.drain();
                self.give_up("died or closed the connection".into());
            }
        }
    }

    /// A block for an argument.
    pub fn block(&self, bytes: u64) -> Result<Block> {
        let found = lock(&self.sending).allocator.alloc(bytes);
        found.ok_or_else(|| self.no_room(bytes))
    }

    #[cold]
    fn no_room(&self, bytes: u64) -> Error {
        let sending = lock(&self.sending);
        let (room, used, live) =
            (sending.allocator.capacity(), sending.allocator.used(), sending.allocator.live());
        Error::new(
            Code::Full,
            format!(
                "an argument of {bytes} bytes finds no shared memory: {used} bytes of {room} are used by {live} \
                 arguments under way; wait for calls, pass it in pieces, or free memory"
            ),
        )
    }

    /// Gives blocks back that no call uses.
    pub fn free(&self, blocks: impl IntoIterator<Item = Block>) {
        let mut blocks = blocks.into_iter().peekable();
        if blocks.peek().is_some() {
            let mut sending = lock(&self.sending);
            blocks.for_each(|b| sending.allocator.free(b));
        }
    }

    /// Sends a request. On failure the blocks come back; without an error there is only no room
    /// in the ring just now.
    pub fn send(&self, id: u64, body: &[u8], blocks: Vec<(usize, Block)>) -> Result<Arc<Pending>, Unsent> {
        let pending = spare::pending();
        if !blocks.is_empty() {
            lock(&pending.state).blocks = blocks;
        }
        {
            let mut under_way = lock(&self.under_way);
            if under_way.len() < UNDER_WAY {
                under_way.insert(id, pending.clone());
                self.count.store(under_way.len(), Ordering::Relaxed);
            } else {
                return Err((None, std::mem::take(&mut lock(&pending.state).blocks)));
            }
        }
        let sent = lock(&self.sending).sender.send(&Header::new(kind::REQUEST, id), &[body]);
        match sent {
            Ok(()) => Ok(pending),
            Err(full) => {
                self.forget(id);
                let why = full.for_ever().then(|| full.into());
                Err((why, std::mem::take(&mut lock(&pending.state).blocks)))
            }
        }
    }

    fn forget(&self, id: u64) -> Option<Arc<Pending>> {
        let mut under_way = lock(&self.under_way);
        let pending = under_way.remove(&id);
        self.count.store(under_way.len(), Ordering::Relaxed);
        pending
    }

    /// Nobody waits for a call any more. If it has not begun it will not be run.
    pub fn abandon(&self, id: u64, pending: &Pending) {
        let cancel = self.segment.word(word::CANCEL + (id % word::CANCELS as u64) as usize);
        cancel.store(id, Ordering::SeqCst);
        self.forsake(pending);
    }

    /// Nobody waits for a call any more; it is to be run.
    pub fn forsake(&self, pending: &Pending) {
        let blocks = {
            let mut state = lock(&pending.state);
            state.abandoned = true;
            match state.reply.take() {
                Some(_) => std::mem::take(&mut state.blocks),
                None => Vec::new(),
            }
        };
        self.free(blocks.into_iter().map(|(_, block)| block));
    }

    /// Takes all replies that are there; returns whether there was one. A ring that holds
    /// something else makes the server lost.
    pub fn drain(&self) -> bool {
        if !self.has_reply() {
            return false;
        }
        let mut receiving = lock(&self.receiving);
        let mut any = false;
        while self.lost.get().is_none() && receiving.receiver.pending() {
            any = true;
            if let Err(e) = self.take_one(&mut receiving) {
                self.give_up(format!("sent what is no reply: {e}"));
            }
        }
        any
    }

    fn take_one(&self, receiving: &mut Receiving) -> Result<()> {
        let Receiving { receiver, frame, parts } = receiving;
        if !receiver.try_recv(frame)? {
            return Ok(());
        }
        self.taken.store(receiver.position(), Ordering::Release);
        let id = frame.header.id;
        let known = || Error::new(Code::Corrupt, format!("a reply to {id}, which was not asked"));
        match frame.header.kind {
            kind::REPLY_PART => {
                if !lock(&self.under_way).contains_key(&id) {
                    return Err(known());
                }
                let whole = parts.entry(id).or_default();
                if whole.len() + frame.body().len() > 2 * REPLY_BYTES {
                    return Err(Error::new(Code::Corrupt, "a reply has no end"));
                }
                whole.extend_from_slice(frame.body());
                Ok(())
            }
            kind::REPLY => {
                let pending = self.forget(id).ok_or_else(known)?;
                let mut reply = match parts.is_empty() {
                    true => None,
                    false => parts.remove(&id),
                }
                .unwrap_or_else(spare::buffer);
                reply.extend_from_slice(frame.body());
                self.deliver(&pending, reply);
                Ok(())
            }
            other => Err(Error::new(Code::Corrupt, format!("a frame of kind {other}"))),
        }
    }

    fn deliver(&self, pending: &Pending, reply: Vec<u8>) {
        let mut state = lock(&pending.state);
        if state.abandoned {
            let blocks = std::mem::take(&mut state.blocks);
            drop(state);
            self.free(blocks.into_iter().map(|(_, block)| block));
            return;
        }
        state.reply = Some(reply);
        drop(state);
        pending.done.store(true, Ordering::Release);
    }

    /// Whether a reply is there: one look at the ring, without a lock.
    #[inline]
    pub fn has_reply(&self) -> bool {
        self.segment.has_record(Direction::Down, self.taken.load(Ordering::Acquire))
    }

    /// This client is about to sleep; look for replies once more after this.
    pub fn prepare_sleep(&self) {
        lock(&self.receiving).receiver.prepare_sleep();
    }

    /// It is awake.
    pub fn cancel_sleep(&self) {
        lock(&self.receiving).receiver.cancel_sleep();
    }
}

/// Waits a little for room in a ring: yields first, then sleeps.
pub(super) fn breathe(since: Instant) {
    match since.elapsed() {
        t if t < Duration::from_micros(200) => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(200)),
    }
}
