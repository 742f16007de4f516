//! Whether the session lives: is this still the process that opened it, and is the owner there?
//!
//! A watcher thread looks at the owner; every call looks at the one word it keeps. The owner is
//! *dead* when the socket between the two hangs up, *stopped* when its heart does not beat for a
//! second and the kernel says so. A stopped owner that goes on makes the session good again; for a dead one a
//! successor is sought (`revive`). An owner that lives may have *lost* the run, to another one or to a
//! disk that fails for good: it closes the session from its side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_arena::Direction;
use forebay_host::fork::own_pid;
use forebay_host::wait::{self, PollFlags};
use forebay_host::{Process, ProcessState};
use forebay_link::silence::{HEART, STILL};
use forebay_types::control::word;
use forebay_types::{Code, Error, Result};
use rustix::event::{EventfdFlags, eventfd};

use super::core::Core;

const GOOD: u32 = 0;
const STOPPED: u32 = 1;
const DEAD: u32 = 2;
const CLOSED: u32 = 3;
const SEEKING: u32 = 4;
const LOST: u32 = 5;
const DELETED: u32 = 6;
const MOVED: u32 = 7;
const ANEW: u32 = 8;

/// How often the watcher looks at the heart.
const LOOK: Duration = HEART;

/// The owner, and why there is none any more.
struct Owner {
    pid: u32,
    process: Option<Process>,
    why: Option<Error>,
}

/// The state of a session, one atomic word.
pub struct Life {
    pid: u32,
    state: AtomicU32,
    owner: Mutex<Owner>,
    changed: Condvar,
    directory: String,
    /// When the heart last beat, as counted by the watcher.
    beats: AtomicU64,
}

impl Life {
    /// A session that was just opened: what the owner calls itself, and its process as the kernel knows it.
    pub fn new(owner_pid: u32, process: Option<Process>, directory: &str) -> Life {
        let owner = Owner { pid: owner_pid, process, why: None };
        Life {
            pid: std::process::id(),
            state: AtomicU32::new(GOOD),
            owner: Mutex::new(owner),
            changed: Condvar::new(),
            directory: directory.to_owned(),
            beats: AtomicU64::new(0),
        }
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// One load: whether nothing is known to be wrong.
    #[inline]
    pub fn good(&self) -> bool {
        self.state.load(Ordering::Acquire) == GOOD
    }

    /// Fails in a child of the process that opened the session.
    pub fn own(&self) -> Result<()> {
        if self.is_child() { Err(self.forked()) } else { Ok(()) }
    }

    /// Fails when the session is of no use now, and says why.
    pub fn check(&self) -> Result<()> {
        self.own()?;
        match self.state.load(Ordering::Acquire) {
            GOOD => Ok(()),
            state => Err(self.fault(state)),
        }
    }

    /// The owner has put an end to the session from its side, with that in `CLOSED`.
    pub fn taken(&self, closed: u64) -> Error {
        let state = match closed {
            word::DELETED => DELETED,
            word::MOVED => MOVED,
            word::ANEW => ANEW,
            _ => LOST,
        };
        self.set(state);
        self.check().err().unwrap_or_else(|| self.fault(state))
    }

    /// Whether the run was deleted: there is nothing to add to that.
    pub fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Acquire) == DELETED
    }

    /// Whether the run's directory was moved: where it is now the owner has said.
    pub fn is_moved(&self) -> bool {
        self.state.load(Ordering::Acquire) == MOVED
    }

    /// Whether the run is on another host.
    pub fn is_remote(&self) -> bool {
        self.directory.starts_with("fb://")
    }

    /// This side has closed it. Says whether it was open.
    pub fn close(&self) -> bool {
        let was = self.state.swap(CLOSED, Ordering::AcqRel);
        self.changed.notify_all();
        was != CLOSED
    }

    /// Whether this side has closed it.
    pub fn closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Whether this is a child of the process that opened the session.
    pub fn is_child(&self) -> bool {
        own_pid() != self.pid
    }

    /// Whether a successor of the owner is sought. Never in a child, where nobody seeks.
    pub fn seeking(&self) -> bool {
        self.state.load(Ordering::Acquire) == SEEKING && !self.is_child()
    }

    /// Whether the owner's code runs on threads of this very process.
    pub fn owns_itself(&self) -> bool {
        // A pid by itself says nothing: an owner in another pid name space may have the same.
        self.owner().process.is_some_and(|p| p.pid == self.pid)
    }

    /// Waits at most so long for the end of the search.
    pub fn await_change(&self, slice: Duration) {
        let owner = self.owner();
        if self.seeking() {
            drop(self.changed.wait_timeout(owner, slice));
        }
    }

    /// A successor has the session.
    pub fn revived(&self, owner_pid: u32, process: Option<Process>) {
        let mut owner = self.owner();
        *owner = Owner { pid: owner_pid, process, why: None };
        let _ = self.state.compare_exchange(SEEKING, GOOD, Ordering::AcqRel, Ordering::Acquire);
        self.changed.notify_all();
    }

    /// There is no successor.
    fn die(&self, why: Option<Error>) {
        let mut owner = self.owner();
        owner.why = why;
        self.set(DEAD);
        self.changed.notify_all();
    }

    fn set(&self, to: u32) {
        // Closed is the last word; dead and lost are not unsaid by a late look at the heart.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now != CLOSED && (!matches!(now, DEAD | LOST | DELETED | MOVED | ANEW) || to == CLOSED))
                .then_some(to)
        });
    }

    #[cold]
    fn forked(&self) -> Error {
        Error::new(
            Code::Closed,
            format!(
                "process {} opened the run {} and this is its child {}, which cannot share the session; open the run after forking",
                self.pid,
                self.directory,
                std::process::id()
            ),
        )
    }

    #[cold]
    fn fault(&self, state: u32) -> Error {
        let owner = self.owner();
        let (run, pid) = (&self.directory, owner.pid);
        let why = owner.why.as_ref().map(|e| format!(" and nobody could take its place ({})", e.text()));
        let why = why.unwrap_or_default();
        match state {
            CLOSED => Error::new(Code::Closed, format!("the run {run} is closed; open it again")),
            DELETED => Error::new(
                Code::ServerLost,
                format!(
                    "the store of the run {run} is lost: its directory was deleted while the run was open: nothing of the run is left, and nothing more is kept; open it anew"
                ),
            ),
            MOVED => Error::new(
                Code::ServerLost,
                format!(
                    "the store of the run {run} is lost: its directory was moved while the run was open, and nothing more is written; when its programs have ended `forebay recover` with its new path completes it: nothing acknowledged is lost"
                ),
            ),
            ANEW => Error::new(
                Code::Conflict,
                format!(
                    "the run {run} is another one than when it was opened here: a program began it anew, as with mode \"w\", and what was in it is gone; open it again"
                ),
            ),
            _ if state == LOST || self.is_remote() => Error::new(
                Code::ServerLost,
                format!(
                    "the store of the run {run} is lost; open the run again, or use `forebay recover {run}`: nothing acknowledged is lost, unless somebody removed files of the run"
                ),
            ),
            STOPPED => Error::new(
                Code::ServerLost,
                format!(
                    "the owner of the run {run}, process {pid}, is stopped; let it go on with `kill -CONT {pid}`, or kill it and open the run again: nothing acknowledged is lost"
                ),
            ),
            _ => Error::new(
                Code::ServerLost,
                format!(
                    "the owner of the run {run}, process {pid}, is gone{why}; open the run again or use `forebay recover {run}`: nothing acknowledged is lost"
                ),
            ),
        }
    }

    /// Looks at the heart; says whether the owner is dead.
    fn look(&self, heart: u64, silent_since: &mut Instant) -> bool {
        if self.beats.swap(heart, Ordering::Relaxed) != heart {
            *silent_since = Instant::now();
            if self.state.load(Ordering::Acquire) == STOPPED {
                self.set(GOOD);
            }
            return false;
        }
        // Threads of this very process stop only together with it.
        if self.owns_itself() || silent_since.elapsed() < STILL {
            return false;
        }
        let state = self.owner().process.as_ref().map(Process::state);
        if state == Some(ProcessState::Stopped) {
            self.set(STOPPED);
        }
        state == Some(ProcessState::Gone)
    }
}

/// The thread that looks after the owner.
pub struct Watcher {
    thread: Option<JoinHandle<()>>,
    stop: Arc<OwnedFd>,
}

impl Watcher {
    /// Starts it. `socket` is the connection whose end is the owner's death.
    pub fn start(core: Arc<Core>, socket: OwnedFd) -> Result<Watcher> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| Error::io("cannot make an eventfd for the session's watcher", e))?;
        let stop = Arc::new(stop);
        let told = stop.clone();
        let thread = std::thread::Builder::new()
            .name("fb-watcher".into())
            .spawn(move || watch(&core, socket, &told))
            .map_err(|e| Error::io("cannot start the session's watcher thread", e))?;
        Ok(Watcher { thread: Some(thread), stop })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(core: &Arc<Core>, mut socket: OwnedFd, stop: &OwnedFd) {
    let life = &core.life;
    // Wakes a thread of ours that waits for a notice.
    let bell = core.segment.bell(Direction::Down);
    let mut silent_since = Instant::now();
    loop {
        let (hung_up, told) = hear(socket.as_fd(), stop.as_fd());
        if told {
            return;
        }
        let closed = core.segment.word(word::CLOSED).load(Ordering::SeqCst);
        if closed != 0 {
            // What the owner said before is in the ring: whoever waits looks there once more.
            let _ = life.taken(closed);
            bell.wake();
            return;
        }
        let heart = core.segment.word(word::HEARTBEAT).load(Ordering::Relaxed);
        if life.look(heart, &mut silent_since) || hung_up {
            match lose(core) {
                Some(successor) => (socket, silent_since) = (successor, Instant::now()),
                None => {
                    bell.wake();
                    return;
                }
            }
        }
        if !life.good() {
            bell.wake();
        }
    }
}

/// Sleeps a while; says whether the owner's side of the connection is closed, as it is taken to be when
/// the kernel cannot tell, and whether we are to stop.
fn hear(socket: BorrowedFd, stop: BorrowedFd) -> (bool, bool) {
    let fds = [(socket, PollFlags::IN | PollFlags::RDHUP), (stop, PollFlags::IN)];
    match wait::among(fds, Some(LOOK)) {
        Ok([owner, stop]) => (owner.intersects(wait::ENDS), !stop.is_empty()),
        Err(_) => (true, false),
    }
}

/// The owner is dead: the connection to its successor, or none, and the session is lost.
fn lose(core: &Arc<Core>) -> Option<OwnedFd> {
    let mut why = None;
    if core.may_revive() {
        core.life.set(SEEKING);
        match core.revive() {
            Ok(socket) => return Some(socket),
            Err(e) => why = Some(e),
        }
    }
    // A successor that comes later does not wait for this rank.
    core.segment.word(word::LEFT).store(1, Ordering::SeqCst);
    core.life.die(why);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_owner_that_goes_on_makes_the_session_good_again_but_a_dead_one_does_not() {
        let life = Life::new(std::process::id(), Some(Process::current()), "/x.fb");
        let mut since = Instant::now();
        life.set(STOPPED);
        let e = life.check().unwrap_err();
        assert_eq!(e.code(), Code::ServerLost);
        assert!(e.text().contains("kill -CONT"), "{e}");
        life.look(7, &mut since);
        assert!(life.check().is_ok());
        life.die(None);
        life.look(8, &mut since);
        assert!(life.check().unwrap_err().text().contains("forebay recover"));
        assert!(life.close());
        assert_eq!(life.check().unwrap_err().code(), Code::Closed);
        assert!(!life.close());
    }

    #[test]
    fn a_child_of_fork_is_told_to_open_the_run_itself() {
        let parent = Life { pid: std::process::id() ^ 1, ..Life::new(1, None, "/x.fb") };
        assert!(parent.is_child());
        let e = parent.check().unwrap_err();
        assert_eq!(e.code(), Code::Closed);
        assert!(e.text().contains("open the run after forking"), "{e}");
    }
}
