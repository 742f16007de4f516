//! The word that ends all threads of an owner: once given, never taken back, and everybody who
//! sleeps on a descriptor wakes by it.

use forebay_host::wait::{self, PollFlags};
use forebay_types::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Shared by all threads of an owner.
#[derive(Clone)]
pub struct Stop {
    event: Arc<OwnedFd>,
    given: Arc<AtomicBool>,
}

impl Stop {
    /// Not given yet.
    pub fn new() -> Result<Stop> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Error::io("cannot make an eventfd", e))?;
        Ok(Stop { event: Arc::new(event), given: Arc::default() })
    }

    /// Gives it.
    pub fn give(&self) {
        self.given.store(true, Ordering::Release);
        // The count is never read, so the descriptor stays ready for ever.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }

    /// Whether it was given.
    pub fn given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Sleeps until `fd` can be read (or has ended), the word is given, or the time is over. Says
    /// whether `fd` is ready.
    pub fn wait(&self, fd: BorrowedFd, timeout: Option<Duration>) -> Result<bool> {
        let fds = [(fd, PollFlags::IN | PollFlags::RDHUP), (self.event.as_fd(), PollFlags::IN)];
        wait::among(fds, timeout).map(|[ready, _]| !ready.is_empty())
    }
}
