//! The call link over the network: both halves, and the thread that sends what had to wait.

use super::receiver::{NetReceiver, Received};
use super::sender::NetSender;
use super::stream::NetStream;
use crate::frame::{Frame, Header};
use crate::link::Link;
use crate::lock;
use crate::pool::Pool;
use crate::wire::poll_for;
use forebay_arena::{Doorbell, Spin};
use forebay_types::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// A call link, one side of it.
pub struct NetLink {
    sender: NetSender,
    receiver: NetReceiver,
    spin: Spin,
}

impl NetLink {
    /// Over a connection whose sides have agreed on it; large parts come into memory of the pool.
    pub(crate) fn over(stream: NetStream, pool: Pool) -> NetLink {
        let stream = Arc::new(stream);
        NetLink {
            sender: NetSender::over(stream.clone()),
            receiver: NetReceiver::over(stream, pool),
            spin: Spin::new(),
        }
    }

    /// Over a plain socket whose sides agreed on it in another way: for tests and benchmarks.
    pub fn over_socket(socket: std::net::TcpStream, pool: Pool) -> Result<NetLink> {
        Ok(NetLink::over(NetStream::over(socket)?, pool))
    }

    /// The halves, for a sender and a receiver on different threads.
    pub fn split(self) -> (NetSender, NetReceiver) {
        (self.sender, self.receiver)
    }

    /// The sending half.
    pub fn sender(&self) -> &NetSender {
        &self.sender
    }

    /// The next frame with its large parts.
    pub fn try_receive(&mut self) -> Result<Option<Received>> {
        self.receiver.try_recv()
    }
}

impl Link for NetLink {
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        if self.sender.waits() {
            self.sender.flush()?;
        }
        self.sender.try_send(header, body)
    }

    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        let Some(received) = self.receiver.try_recv()? else { return Ok(false) };
        frame.set(received.header, received.body);
        Ok(true)
    }

    fn pending(&mut self) -> bool {
        self.receiver.pending()
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            if self.sender.waits() {
                self.sender.flush()?;
            }
            let receiver = &mut self.receiver;
            let Some(since) = self.spin.poll(&mut || receiver.pending()) else { return Ok(true) };
            let flags = if self.sender.waits() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let ready = poll_for(self.receiver.as_fd(), flags, deadline)?;
            self.spin.slept(since.elapsed());
            if !ready {
                return Ok(self.receiver.pending());
            }
        }
    }
}

/// One thread that sends what senders had to keep: it sleeps until their sockets take more.
#[derive(Default)]
pub struct Flusher {
    work: Mutex<Option<Work>>,
}

/// It, from its first work on.
struct Work {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    doorbell: Doorbell,
    newcomers: Mutex<Vec<NetSender>>,
    stop: AtomicBool,
}

impl Flusher {
    /// Sees to it that what waits in a sender goes.
    pub fn add(&self, sender: &NetSender) -> Result<()> {
        let mut work = lock(&self.work);
        if let Some(Work { shared, .. }) = &*work {
            lock(&shared.newcomers).push(sender.clone());
            shared.doorbell.ring();
            return Ok(());
        }
        let newcomers = Mutex::new(vec![sender.clone()]);
        let shared = Arc::new(Shared { doorbell: Doorbell::new()?, newcomers, stop: AtomicBool::new(false) });
        shared.doorbell.ring();
        let there = shared.clone();
        let spawned = std::thread::Builder::new().name("flush".into()).spawn(move || run(&there));
        let thread = spawned.map_err(|e| Error::io("cannot start a thread", e))?;
        *work = Some(Work { shared, thread });
        Ok(())
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        if let Some(Work { shared, thread }) = lock(&self.work).take() {
            shared.stop.store(true, Ordering::SeqCst);
            shared.doorbell.ring();
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut senders: Vec<NetSender> = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let mut fds = vec![PollFd::new(&shared.doorbell, PollFlags::IN)];
        fds.extend(senders.iter().map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::OUT)));
        let _ = poll(&mut fds, None);
        let rung = !fds[0].revents().is_empty();
        let ready: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut turn = ready.into_iter();
        // Gone, or lost: both are done.
        senders.retain(|s| !turn.next().unwrap_or(false) || matches!(s.flush(), Ok(false)));
        if rung {
            shared.doorbell.clear();
            let more = std::mem::take(&mut *lock(&shared.newcomers));
            for sender in more {
                if !senders.iter().any(|s| s.is_same(&sender)) && matches!(sender.flush(), Ok(false)) {
                    senders.push(sender);
                }
            }
        }
    }
}
