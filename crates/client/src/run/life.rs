//! Whether the session lives: is this still the process that opened it, and is the owner there?
//!
//! A watcher thread looks at the owner; every call looks at the one word it keeps. The owner is
//! *dead* when the socket between the two hangs up, *stopped* when its heart does not beat for a
//! second and the kernel says so. A stopped owner that goes on makes the session good again.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_arena::{Bell, Direction, Process, ProcessState, Segment};
use forebay_types::control::word;
use forebay_types::{Code, Error, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

const GOOD: u32 = 0;
const STOPPED: u32 = 1;
const DEAD: u32 = 2;
const CLOSED: u32 = 3;

/// How often the watcher looks at the heart.
const LOOK: Duration = Duration::from_millis(200);
/// A heart that is silent for longer is asked after at the kernel.
const SILENT: Duration = Duration::from_secs(1);

/// The state of a session, one atomic word.
pub struct Life {
    pid: u32,
    state: AtomicU32,
    owner: Option<Process>,
    owner_pid: u32,
    directory: String,
    /// When the heart last beat, as counted by the watcher.
    beats: AtomicU64,
}

impl Life {
    /// A session that was just opened.
    pub fn new(owner_pid: u32, directory: &str) -> Life {
        Life {
            pid: std::process::id(),
            state: AtomicU32::new(GOOD),
            owner: Process::of_pid(owner_pid),
            owner_pid,
            directory: directory.to_owned(),
            beats: AtomicU64::new(0),
        }
    }

    /// One load: whether nothing is known to be wrong.
    #[inline]
    pub fn good(&self) -> bool {
        self.state.load(Ordering::Acquire) == GOOD
    }

    /// Fails when the session is of no use now, and says why.
    pub fn check(&self) -> Result<()> {
        if std::process::id() != self.pid {
            return Err(self.forked());
        }
        match self.state.load(Ordering::Acquire) {
            GOOD => Ok(()),
            state => Err(self.fault(state)),
        }
    }

    /// The owner has put an end to the session from its side.
    pub fn taken(&self) -> Error {
        self.set(DEAD);
        self.check().err().unwrap_or_else(|| self.fault(DEAD))
    }

    /// This side has closed it. Says whether it was open.
    pub fn close(&self) -> bool {
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    /// Whether this side has closed it.
    pub fn closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Whether this is a child of the process that opened the session.
    pub fn is_child(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Whether the owner is gone for good.
    pub fn dead(&self) -> bool {
        self.state.load(Ordering::Acquire) == DEAD
    }

    fn set(&self, to: u32) {
        // Closed is the last word; dead is not unsaid by a late look at the heart.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now != CLOSED && (now != DEAD || to == CLOSED)).then_some(to)
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
        let (run, pid) = (&self.directory, self.owner_pid);
        match state {
            CLOSED => Error::new(Code::Closed, format!("the run {run} is closed; open it again")),
            STOPPED => Error::new(
                Code::ServerLost,
                format!(
                    "the owner of the run {run}, process {pid}, is stopped; let it go on with `kill -CONT {pid}`, or kill it and open the run again: nothing acknowledged is lost"
                ),
            ),
            _ => Error::new(
                Code::ServerLost,
                format!(
                    "the owner of the run {run}, process {pid}, is gone; open the run again or use `forebay recover {run}`: nothing acknowledged is lost"
                ),
            ),
        }
    }

    fn look(&self, heart: u64, silent_since: &mut Instant) {
        if self.beats.swap(heart, Ordering::Relaxed) != heart {
            *silent_since = Instant::now();
            if self.state.load(Ordering::Acquire) == STOPPED {
                self.set(GOOD);
            }
            return;
        }
        // Threads of this very process stop only together with it.
        if self.owner_pid == self.pid || silent_since.elapsed() < SILENT {
            return;
        }
        match self.owner.as_ref().map(Process::state) {
            Some(ProcessState::Stopped) => self.set(STOPPED),
            Some(ProcessState::Gone) => self.set(DEAD),
            _ => {}
        }
    }
}

/// The thread that looks after the owner.
pub struct Watcher {
    thread: Option<JoinHandle<()>>,
    stop: Arc<rustix::fd::OwnedFd>,
}

impl Watcher {
    /// Starts it. `socket` is the connection whose end is the owner's death; `bell` wakes a
    /// thread of ours that waits for a notice.
    pub fn start(life: Arc<Life>, segment: Segment, socket: impl AsFd + Send + 'static) -> Result<Watcher> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| Error::io("cannot make an eventfd for the session's watcher", e))?;
        let stop = Arc::new(stop);
        let told = stop.clone();
        let bell = segment.bell(Direction::Down);
        let thread = std::thread::Builder::new()
            .name("fb-watcher".into())
            .spawn(move || watch(&life, &segment, &bell, &socket, &told))
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

fn watch(life: &Life, segment: &Segment, bell: &Bell, socket: &impl AsFd, stop: &rustix::fd::OwnedFd) {
    let pause = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
    let mut silent_since = Instant::now();
    loop {
        let mut fds =
            [PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut fds, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => life.set(DEAD),
        }
        let (owner, told) = (fds[0].revents(), fds[1].revents());
        if !told.is_empty() {
            return;
        }
        if owner.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            life.set(DEAD);
        }
        life.look(segment.word(word::HEARTBEAT).load(Ordering::Relaxed), &mut silent_since);
        if !life.good() {
            bell.wake();
        }
        if life.dead() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_owner_that_goes_on_makes_the_session_good_again_but_a_dead_one_does_not() {
        let life = Life::new(std::process::id(), "/x.fb");
        let mut since = Instant::now();
        life.set(STOPPED);
        let e = life.check().unwrap_err();
        assert_eq!(e.code(), Code::ServerLost);
        assert!(e.text().contains("kill -CONT"), "{e}");
        life.look(7, &mut since);
        assert!(life.check().is_ok());
        life.set(DEAD);
        life.look(8, &mut since);
        assert!(life.check().unwrap_err().text().contains("forebay recover"));
        assert!(life.close());
        assert_eq!(life.check().unwrap_err().code(), Code::Closed);
        assert!(!life.close());
    }

    #[test]
    fn a_child_of_fork_is_told_to_open_the_run_itself() {
        let parent = Life { pid: std::process::id() ^ 1, ..Life::new(1, "/x.fb") };
        assert!(parent.is_child());
        let e = parent.check().unwrap_err();
        assert_eq!(e.code(), Code::Closed);
        assert!(e.text().contains("open the run after forking"), "{e}");
    }
}
