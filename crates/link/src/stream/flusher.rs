//! The thread that sends what senders had to keep.

use super::sender::StreamSender;
use crate::lock;
use forebay_arena::Doorbell;
use forebay_host::rlimits;
use forebay_host::wait::{self, PollFlags};
use forebay_types::Result;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

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
    newcomers: Mutex<Vec<StreamSender>>,
    stop: AtomicBool,
}

impl Flusher {
    /// Sees to it that what waits in a sender goes.
    pub fn add(&self, sender: &StreamSender) -> Result<()> {
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
        let thread =
            spawned.map_err(|e| rlimits::no_thread("cannot start the thread that sends what waits", e))?;
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
    let mut senders: Vec<StreamSender> = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let bell = std::iter::once((shared.doorbell.as_fd(), PollFlags::IN));
        let found = wait::any(bell.chain(senders.iter().map(|s| (s.as_fd(), PollFlags::OUT))), None);
        let mut turn = found.unwrap_or_default().into_iter().map(|ready| !ready.is_empty());
        let rung = turn.next().unwrap_or(false);
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
