//! Calls under way that nobody waits for just now. When their server is lost they are issued again at once, not only when
//! somebody comes to wait for them.
//!
//! ```text
//! call_async -> Guard: weak references ... a server hangs up, or is stopped -> tend() of each -> queue -> another server
//! ```
//! One thread of the client sleeps until a server hangs up. It takes no replies and polls nothing, so whoever waits
//! for a call is not disturbed. It lives while calls are under way, and a little longer, and never longer than its client:
//! whoever closes a client has its connections closed.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;

use forebay_arena::Doorbell;
use forebay_host::fork::own_pid;
use forebay_host::wait::{self, PollFlags};
use forebay_types::{Code, Error, Result};

use super::connection::Connection;
use super::lead::LOOK;
use super::{Client, Inner, lock};

/// So often it looks in vain before it ends.
const LOOKS: u32 = 10;
/// So many calls are noted before those that are over are struck out: few, for until then their memory is not used again.
const FEW: usize = 8;

/// A call that is tended while nobody waits for it.
pub trait Guarded: Send + Sync {
    /// Issues the call again if its server is lost, unless somebody has the call just now; says whether that is still
    /// to be done. It waits for nothing.
    fn tend(&self) -> bool;
}

/// The calls of one client that are tended.
#[derive(Default)]
pub(super) struct Guard(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    noted: Vec<Weak<dyn Guarded>>,
    /// As many as are noted before those that are over are struck out.
    most: usize,
    thread: Option<GuardThread>,
}

struct GuardThread {
    /// The process that has it.
    pid: u32,
    thread: JoinHandle<()>,
    /// Wakes it.
    bell: Arc<Doorbell>,
}

impl Client {
    /// Has a call issued again as soon as its server is lost.
    pub fn guard<G: Guarded + 'static>(&self, call: &Arc<G>) {
        let mut calls = lock(&self.inner.guard.0);
        if calls.noted.len() >= calls.most {
            calls.noted.retain(|call| call.strong_count() > 0);
            calls.most = FEW.max(2 * calls.noted.len());
        }
        let call: Weak<dyn Guarded> = Arc::<G>::downgrade(call);
        calls.noted.push(call);
        if calls.thread.is_none() {
            // Without it the call is issued again when somebody waits for it.
            calls.thread = GuardThread::start(Arc::downgrade(&self.inner)).ok();
        }
    }
}

impl GuardThread {
    fn start(inner: Weak<Inner>) -> Result<GuardThread> {
        let bell = Arc::new(Doorbell::new()?);
        let hears = bell.clone();
        let thread = std::thread::Builder::new().name("guard".into()).spawn(move || run(&inner, &hears));
        let thread = thread.map_err(|e| Error::new(Code::Full, format!("no thread can be had: {e}")))?;
        Ok(GuardThread { pid: own_pid(), thread, bell })
    }
}

impl Guard {
    /// Nothing is tended any more.
    pub fn end(&self) {
        // It takes the lock itself.
        let thread = lock(&self.0).thread.take();
        let Some(GuardThread { pid, thread, bell }) = thread else { return };
        if pid != own_pid() {
            // The parent's, in a child of `fork`.
            return std::mem::forget(thread);
        }
        bell.ring();
        // It may be the one that lets the client go.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

impl Guard {
    /// Tends all; says whether something is still to be done.
    fn tend(&self) -> bool {
        let noted: Vec<_> = lock(&self.0).noted.iter().filter_map(Weak::upgrade).collect();
        noted.iter().fold(false, |again, call| call.tend() | again)
    }

    /// Ends, unless a call has come meanwhile; says whether it does.
    fn ends(&self, inner: &Inner) -> bool {
        let mut calls = lock(&self.0);
        let ends = inner.pump.busy().next().is_none();
        if ends {
            calls.thread = None;
        }
        ends
    }
}

fn run(inner: &Weak<Inner>, bell: &Doorbell) {
    let (mut seen, mut again, mut vain) = (0, true, 0);
    loop {
        let Some(client) = inner.upgrade() else { return };
        let busy: Vec<Arc<Connection>> = client.pump.busy().collect();
        vain = if busy.is_empty() && !again { vain + 1 } else { 0 };
        if vain > LOOKS && client.guard.ends(&client) {
            return;
        }
        // A client that is not used any more is to end meanwhile.
        drop(client);
        rest(&busy, bell);
        busy.iter().for_each(|connection| connection.look());
        let Some(client) = inner.upgrade().filter(|client| !client.is_closed()) else { return };
        let changes = client.pump.changes();
        if again || changes != seen || busy.iter().any(|c| c.lost().is_some()) {
            again = client.guard.tend();
            seen = client.pump.changes();
        }
    }
}

/// Sleeps until one of these servers hangs up, the bell rings, or a while.
fn rest(busy: &[Arc<Connection>], bell: &Doorbell) {
    let is_lost = busy.iter().any(|c| c.lost().is_some());
    let (hung_up, long) = match is_lost {
        true => (&[][..], LOOK / 10),
        false => (busy, LOOK),
    };
    let hung_up = hung_up.iter().map(|c| (c.socket().0, PollFlags::RDHUP));
    let bell = std::iter::once((bell.as_fd(), PollFlags::IN));
    if wait::any(bell.chain(hung_up), Some(long)).is_err() {
        std::thread::sleep(LOOK / 10);
    }
}
