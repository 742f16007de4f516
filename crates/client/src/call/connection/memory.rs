//! A server on the same host: the segment that this client made for it.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use forebay_arena::{Allocator, Block, Direction, Doorbell, ProcessState, Segment};
use forebay_link::frame::Header;
use forebay_link::idle::{LARGE, Trims, trim_when_idle};
use forebay_link::{Frame, PeerState, ShmLink, ShmReceiver, ShmSender, Watch, Wire};
use forebay_types::call::{RequestId, SLOTS, ServerRequest, kind, word};
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};

use super::super::attach::Knock;
use super::super::lock;
use super::{FULL_ROOM, LEAST_ROOM, agree, room};

/// Most large arguments under way at a time.
pub(super) const BLOCKS: u32 = 4_096;

/// Between two attempts at a server that closed the connection before a word.
const AGAIN: Duration = Duration::from_millis(10);

pub(in crate::call) struct Memory {
    segment: Segment,
    wire: Wire,
    watch: Mutex<Watch>,
    sending: Arc<Sends>,
    receiving: Mutex<Receiving>,
    /// Position in the ring of replies up to which they were taken.
    taken: AtomicU64,
}

struct Sends {
    state: Mutex<Sending>,
    watched: AtomicBool,
}

struct Sending {
    sender: ShmSender,
    allocator: Allocator,
    /// When the last large block was wanted.
    large: Instant,
    /// By slot, the requests that are not wanted any more; made when the first one is.
    cancelled: Option<Block>,
    /// Those that the server cannot be told of yet, for want of memory.
    untold: Vec<RequestId>,
}

struct Receiving {
    receiver: ShmReceiver,
    frame: Frame,
}

impl Sends {
    fn new(sender: ShmSender, allocator: Allocator) -> Sends {
        let large = Instant::now();
        let state = Mutex::new(Sending { sender, allocator, large, cancelled: None, untold: Vec::new() });
        Sends { state, watched: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Sending> {
        lock(&self.state)
    }
}

impl Trims for Sends {
    fn watched(&self) -> &AtomicBool {
        &self.watched
    }

    fn idle(&self) -> Duration {
        self.lock().large.elapsed()
    }

    fn trim(&self) -> bool {
        let allocator = &mut self.lock().allocator;
        allocator.reap();
        allocator.trim();
        allocator.used() < LARGE
    }
}

impl Sending {
    /// How many large arguments are under way.
    fn arguments(&self) -> usize {
        self.allocator.live() - usize::from(self.cancelled.is_some())
    }
}

/// Room for large arguments at a server, which may be able to map but little for each client.
fn room_at(server: &ServerInfo) -> u64 {
    match server.room {
        0 => room(),
        most => room().min(most).max(LEAST_ROOM),
    }
}

/// A segment with so much room, or with as much of it as this process can map.
fn segment(room: u64) -> Result<ShmLink> {
    match ShmLink::create(room, BLOCKS) {
        Err(e) if e.code() == Code::Full && room / 2 >= LEAST_ROOM => segment(room / 2),
        Err(e) if e.cause() == Some(ErrorKind::OutOfMemory) => Err(Error::new(
            Code::Full,
            format!("{e}; this process may take no more address space: raise `ulimit -v`, or free memory"),
        )),
        done => done,
    }
}

/// Greets a server. One that closes the connection before a word is at its end, which the next attempt tells, or has
/// more to greet than it can.
fn connect(knock: &Knock, socket: &Path) -> Result<Wire> {
    loop {
        let mut over = false;
        let still = |process| knock.still(process).inspect_err(|_| over = true);
        match Wire::connect_while(socket, "client", still) {
            Err(e) if e.code() == Code::ServerLost && e.cause().is_none() && !over => {
                knock.still(None)?;
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

impl Memory {
    pub fn attach(info: &ServerInfo, client: u64, doorbell: &Doorbell) -> Result<Memory> {
        let knock = Knock::at(info);
        let mut wire = connect(&knock, Path::new(&info.socket))?;
        let link = segment(room_at(info))?;
        let request = ServerRequest::Attach { client };
        let shared = doorbell.share()?;
        let fds = [link.segment().fd(), shared.as_fd()];
        let (answer, theirs) = wire.ask_while(&request, &fds, |process| knock.still(process))?;
        agree(info, answer)?;
        let (segment, sender, receiver) = link.split();
        let bell = theirs.into_iter().next();
        sender.attach_doorbell(bell.ok_or_else(|| Error::new(Code::Corrupt, "a server has no doorbell"))?)?;
        let heart = Some((segment.clone(), word::HEARTBEAT));
        let watch = Watch::new(wire.watch_fd()?, wire.process(), heart);
        let allocator = segment.allocator();
        Ok(Memory {
            segment,
            wire,
            watch: Mutex::new(watch),
            sending: Arc::new(Sends::new(sender, allocator)),
            receiving: Mutex::new(Receiving { receiver, frame: Frame::default() }),
            taken: AtomicU64::new(0),
        })
    }

    /// Its socket, whose end is the server's.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    pub fn state(&self) -> PeerState {
        lock(&self.watch).check()
    }

    /// Whether the server's process has not ended, as far as can be seen.
    pub fn is_there(&self) -> bool {
        let process = lock(&self.watch).process();
        process.is_none_or(|process| process.state() != ProcessState::Gone)
    }

    /// Nothing that was sent and not begun is to be run any more.
    pub fn give_up(&self) {
        self.segment.word(word::ABANDONED).store(1, Ordering::SeqCst);
    }

    /// A block for an argument.
    pub fn block(&self, bytes: u64) -> Result<Block> {
        let found = {
            let mut sending = self.sending.lock();
            // What a service has kept longer than its call.
            sending.allocator.reap();
            if bytes >= LARGE {
                sending.large = Instant::now();
            }
            sending.allocator.alloc(bytes)
        };
        if bytes >= LARGE {
            trim_when_idle(&self.sending);
        }
        found.ok_or_else(|| self.no_room(bytes))
    }

    #[cold]
    fn no_room(&self, bytes: u64) -> Error {
        let sending = self.sending.lock();
        let (room, used, live) =
            (sending.allocator.capacity(), sending.allocator.used(), sending.arguments());
        let remedy = match room < bytes {
            true if room < FULL_ROOM => {
                "the address space of this process or of the server is limited: raise `ulimit -v` there, or pass it in pieces"
            }
            true => "pass it in pieces",
            false => "wait for calls, pass it in pieces, or free memory",
        };
        Error::new(
            Code::Full,
            format!(
                "an argument of {bytes} bytes finds no shared memory: {used} bytes of {room} are used by {live} \
                 arguments under way; {remedy}"
            ),
        )
    }

    /// Gives blocks back that no call uses.
    pub fn free(&self, blocks: impl IntoIterator<Item = Block>) {
        let mut blocks = blocks.into_iter().peekable();
        if blocks.peek().is_some() {
            let mut sending = self.sending.lock();
            blocks.for_each(|b| sending.allocator.free(b));
            self.tell_cancelled(&mut sending);
        }
    }

    /// Sends a request. Without an error there is only no room in the ring just now.
    pub fn send(&self, request: RequestId, body: &[u8]) -> Result<(), Option<Error>> {
        let header = Header::about(kind::REQUEST, request);
        let sent = self.sending.lock().sender.send(&header, &[body]);
        sent.map_err(|full| full.for_ever().then(|| full.into()))
    }

    /// A request under way is not wanted any more.
    pub fn cancel(&self, request: RequestId) {
        let mut sending = self.sending.lock();
        sending.untold.push(request);
        self.tell_cancelled(&mut sending);
    }

    fn tell_cancelled(&self, sending: &mut Sending) {
        let Sending { allocator, cancelled, untold, .. } = sending;
        if untold.is_empty() {
            return;
        }
        if cancelled.is_none() {
            let Some(block) = allocator.alloc(8 * SLOTS as u64) else { return };
            (0..SLOTS).filter_map(|slot| block.word(slot)).for_each(|word| word.store(0, Ordering::Relaxed));
            self.segment.word(word::CANCELLED).store(u64::from(block.index()) + 1, Ordering::Release);
            *cancelled = Some(block);
        }
        for RequestId { id, slot } in untold.drain(..) {
            if let Some(word) = cancelled.as_ref().and_then(|block| block.word(slot.into())) {
                word.store(id, Ordering::SeqCst);
            }
        }
    }

    /// Takes the replies that are there, while `each` wants more; says what is wrong with one.
    pub fn drain(&self, mut each: impl FnMut(&Frame) -> Result<()>) -> Result<bool> {
        if !self.has_reply() {
            return Ok(false);
        }
        let mut receiving = lock(&self.receiving);
        let Receiving { receiver, frame } = &mut *receiving;
        let mut any = false;
        while receiver.pending() {
            any = true;
            if !receiver.try_recv(frame)? {
                break;
            }
            self.taken.store(receiver.position(), Ordering::Release);
            each(frame)?;
        }
        Ok(any)
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
