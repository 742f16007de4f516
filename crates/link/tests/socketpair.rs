//! A way of calls that lives in the tests, upon the contract alone: whole frames, with all that belongs to them, over the
//! Unix socket by which the client came. It is slow and simple; that the suites of calls run over it shows that nobody
//! else knows which way they go.
//!
//! ```text
//!   header, 64 bytes, number = n | n x u64: bytes of each part | body | parts
//! ```

use super::{Arrived, Bulk, NotLent, Peek, Room};
use crate::frame::{Frame, HEADER_BYTES, Header};
use crate::lock;
use crate::pool::{Budget, Pool};
use crate::stream::LargePart;
use crate::watch::{PeerState, Watch, hung_up};
use crate::wire::Wire;
use forebay_arena::Block;
use forebay_host::{ProcessState, rlimits};
use forebay_types::call::{RequestId, SLOTS, kind};
use forebay_types::{Code, Error, Result};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

pub struct Sender {
    wire: Wire,
    socket: Arc<UnixStream>,
    pool: Pool,
    /// To the thread that writes, with the bytes of their bodies.
    out: Mutex<mpsc::Sender<(Vec<u8>, usize)>>,
    put: AtomicU64,
    written: Arc<AtomicU64>,
    bodies: Arc<AtomicUsize>,
    known: Arc<Known>,
    watch: Option<Mutex<Watch>>,
}

pub struct Receiver {
    socket: Arc<UnixStream>,
    pool: Pool,
    come: Vec<u8>,
    ready: VecDeque<(Header, Vec<u8>, Arrived)>,
    over: bool,
    known: Arc<Known>,
}

/// What the receiving end tells the sending one.
struct Known {
    /// By slot, the last request that is not wanted any more.
    cancelled: Vec<AtomicU64>,
    waiting: AtomicU64,
}

/// The two ends of one side; the client looks after the server.
pub fn ends(wire: Wire, budget: &Arc<Budget>, is_client: bool) -> Result<(Sender, Receiver)> {
    let socket =
        wire.as_fd().try_clone_to_owned().map_err(|e| rlimits::cannot("cannot copy a descriptor", e))?;
    let (socket, pool) = (Arc::new(UnixStream::from(socket)), Pool::new(budget));
    let known =
        Known { cancelled: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), waiting: AtomicU64::new(0) };
    let known = Arc::new(known);
    let watch =
        is_client.then(|| Ok::<_, Error>(Mutex::new(Watch::new(wire.watch_fd()?, wire.process(), None))));
    let (out, frames) = mpsc::channel::<(Vec<u8>, usize)>();
    let (written, bodies) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let (to, count, left) = (socket.clone(), written.clone(), bodies.clone());
    let writing = std::thread::Builder::new().name("writes".into()).spawn(move || {
        for (frame, body) in frames {
            write(&to, &frame);
            left.fetch_sub(body, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    writing.map_err(|e| rlimits::no_thread("cannot start a thread", e))?;
    let receiver = Receiver {
        socket: socket.clone(),
        pool: pool.clone(),
        come: Vec::new(),
        ready: VecDeque::new(),
        over: false,
        known: known.clone(),
    };
    let (out, put, watch) = (Mutex::new(out), AtomicU64::new(0), watch.transpose()?);
    Ok((Sender { wire, socket, pool, out, put, written, bodies, known, watch }, receiver))
}

/// One that cannot be written any more is found by its end.
fn write(to: &UnixStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match send(to, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

impl Sender {
    /// Gives a frame to the thread that writes; its number.
    fn put(&self, header: &Header, body: &[u8], parts: &[&[u8]]) -> u64 {
        let lengths = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes());
        let rest: Vec<u8> = lengths.chain(body.iter().copied()).collect();
        let all = rest.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        let header = Header { json: 0, body: all as u64, number: parts.len() as u64, ..*header };
        let frame = [&[&header.encode()[..], &rest], parts].concat().concat();
        self.bodies.fetch_add(body.len(), Ordering::SeqCst);
        let out = lock(&self.out);
        let _ = out.send((frame, body.len()));
        self.put.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn is_near(&self) -> bool {
        false
    }

    pub fn lend(&self, _: u64) -> Result<Option<Block>, NotLent> {
        Ok(None)
    }

    pub fn take_back(&self, _: impl IntoIterator<Item = Block>) {}

    pub fn room(&self) -> Room<'_> {
        Room::Own(&self.pool)
    }

    pub fn send(
        &self,
        header: &Header,
        body: &[u8],
        bulk: Bulk,
        idle: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mine = match bulk {
            Bulk::Kept(parts) => return self.post(*header, body, parts).map(drop),
            Bulk::Here(parts) => self.put(header, body, parts),
        };
        while self.written.load(Ordering::SeqCst) < mine {
            idle()?;
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    pub fn post(&self, header: Header, body: &[u8], parts: Vec<LargePart>) -> Result<usize> {
        let parts: Vec<&[u8]> = parts.iter().map(|part| (**part).as_ref()).collect();
        self.put(&header, body, &parts);
        Ok(self.bodies.load(Ordering::SeqCst))
    }

    pub fn flush(&self) -> Result<bool> {
        Ok(false)
    }

    pub fn cancel(&self, request: RequestId) {
        self.put(&Header::about(kind::CANCEL, request), &[], &[]);
    }

    pub fn wants(&self, RequestId { id, slot }: RequestId) -> bool {
        self.known.cancelled[usize::from(slot)].load(Ordering::SeqCst) != id
    }

    pub fn waiting(&self) -> u64 {
        self.known.waiting.load(Ordering::SeqCst)
    }

    pub fn beat(&self) {}

    pub fn state(&self) -> PeerState {
        match &self.watch {
            Some(watch) => lock(watch).check(),
            None if hung_up(self.socket.as_fd()) => PeerState::Gone,
            None => PeerState::Alive,
        }
    }

    pub fn why_stopped(&self) -> String {
        "is stopped (SIGSTOP or a debugger)".into()
    }

    pub fn may_be_there(&self) -> bool {
        self.wire.process().is_none_or(|process| process.state() != ProcessState::Gone)
    }

    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.socket.as_fd(), PollFlags::IN | PollFlags::RDHUP)
    }

    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Receiver {
    fn read(&mut self) -> Result<()> {
        let mut chunk = vec![0; 256 << 10];
        while !self.over {
            match recv(&*self.socket, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => self.over = true,
                Ok((_, n)) => self.come.extend_from_slice(&chunk[..n]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => self.over = true,
            }
        }
        let mut at = 0;
        while self.come.len() - at >= HEADER_BYTES {
            let header = Header::decode(&self.come[at..], 1 << 40)?;
            let end = at + HEADER_BYTES + header.body as usize;
            let Some(bytes) = self.come.get(at + HEADER_BYTES..end) else { break };
            at = end;
            let frame = take(&self.pool, header, bytes)?;
            match header.kind {
                kind::CANCEL => {
                    let RequestId { id, slot } = header.request();
                    self.known.cancelled[usize::from(slot)].store(id, Ordering::SeqCst);
                }
                _ => self.ready.push_back(frame),
            }
        }
        self.come.drain(..at);
        self.known.waiting.store(self.ready.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<Arrived>> {
        self.read()?;
        let Some((header, body, arrived)) = self.ready.pop_front() else {
            let gone = || Error::new(Code::ServerLost, "the process at the other end has ended");
            return if self.over { Err(gone()) } else { Ok(None) };
        };
        self.known.waiting.store(self.ready.len() as u64, Ordering::SeqCst);
        frame.set(header, body);
        Ok(Some(arrived))
    }

    pub fn pending(&mut self) -> bool {
        self.read().is_err() || self.over || !self.ready.is_empty()
    }

    pub fn has_more(&mut self) -> bool {
        !self.ready.is_empty()
    }

    pub fn read_ahead(&mut self) -> Result<()> {
        self.read()
    }

    pub fn peek(&self) -> Option<Peek> {
        None
    }

    pub fn arm(&self) {}

    pub fn disarm(&self) {}

    pub fn is_armed(&self) -> bool {
        false
    }

    pub fn interest(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Cuts what follows a header into parts and body.
fn take(pool: &Pool, header: Header, bytes: &[u8]) -> Result<(Header, Vec<u8>, Arrived)> {
    let broken = || Error::new(Code::Corrupt, "a frame is shorter than its parts");
    let (table, rest) = bytes.split_at_checked(header.number as usize * 8).ok_or_else(broken)?;
    let lengths =
        table.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().unwrap_or_default()) as usize);
    let all: usize = lengths.clone().sum();
    let (body, mut rest) = rest.split_at_checked(rest.len().wrapping_sub(all)).ok_or_else(broken)?;
    let mut arrived = Arrived::default();
    for length in lengths {
        let (part, behind) = rest.split_at(length);
        rest = behind;
        match pool.take(length as u64) {
            Ok(mut lease) => {
                lease.bytes_mut().copy_from_slice(part);
                arrived.parts.push(lease);
            }
            Err(e) => arrived.fault = Some(e),
        }
    }
    if arrived.fault.is_some() {
        arrived.parts.clear();
    }
    Ok((Header { body: body.len() as u64, ..header }, body.to_vec(), arrived))
}
