//! A doorbell: what a process sleeps on that waits for many others at once, in `poll` or epoll.
//!
//! It is a pipe of one page. Who rings writes a byte; one that is full is rung already. Neither
//! ringing nor clearing ever waits, whatever a broken peer does with the descriptor it was given:
//! `O_NONBLOCK` belongs to the open file, which a descriptor that was handed over a socket shares
//! with its giver, so each side opens the pipe anew for itself. (An eventfd cannot be opened anew,
//! and a write to it that would wait cannot be told not to.) Opened for reading and writing it has
//! a reader as long as somebody may ring, so nobody gets SIGPIPE.

use forebay_host::rlimits;
use forebay_host::wait::{self, PollFlags};
use forebay_types::{Code, Error, Result};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Rung by anybody it was shared with, cleared by its owner.
#[derive(Debug)]
pub struct Doorbell {
    pipe: OwnedFd,
}

impl Doorbell {
    /// A new one, of this process.
    pub fn new() -> Result<Doorbell> {
        let (pipe, _) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| rlimits::cannot("cannot make a pipe for a doorbell", e))?;
        // A page is enough; where that cannot be had it takes more rings to be full.
        let _ = fcntl_setpipe_size(&pipe, 4096);
        Ok(Doorbell { pipe: open_anew(pipe.as_fd())? })
    }

    /// That of another process, which handed the descriptor over.
    pub fn given(descriptor: OwnedFd) -> Result<Doorbell> {
        let stat = rustix::fs::fstat(&descriptor).map_err(|e| Error::io("cannot look at a doorbell", e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            return Err(Error::new(
                Code::Corrupt,
                "the doorbell that came is no pipe; use one version of Forebay on both sides",
            ));
        }
        Ok(Doorbell { pipe: open_anew(descriptor.as_fd())? })
    }

    /// A descriptor of it to hand to a peer.
    pub fn share(&self) -> Result<OwnedFd> {
        open_anew(self.pipe.as_fd())
    }

    /// Another handle for a thread of this process.
    pub fn again(&self) -> Result<Doorbell> {
        let pipe = self.pipe.try_clone().map_err(|e| rlimits::cannot("cannot copy a descriptor", e))?;
        Ok(Doorbell { pipe })
    }

    /// Wakes who sleeps on it.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.pipe, &[1]);
    }

    /// Whether it was rung since it was cleared.
    pub fn is_rung(&self) -> bool {
        !wait::now(self, PollFlags::IN).is_empty()
    }

    /// Forgets past rings; call it on waking, before looking for news.
    pub fn clear(&self) {
        let mut rings = [0; 256];
        while rustix::io::read(&self.pipe, &mut rings) == Ok(rings.len()) {}
    }

    /// Sleeps until it is rung or the deadline is over, for who waits for nothing else; says whether it was
    /// rung, and clears it.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<bool> {
        let rung = wait::until(self, PollFlags::IN, deadline)?;
        self.clear();
        Ok(rung)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// An open file of its own for the same pipe.
fn open_anew(pipe: BorrowedFd) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| rlimits::cannot("cannot open a doorbell", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(10))
    }

    #[test]
    fn rings_come_across_and_are_forgotten_at_once() {
        let ours = Doorbell::new().unwrap();
        let theirs = Doorbell::given(ours.share().unwrap()).unwrap();
        for _ in 0..3 {
            (0..1000).for_each(|_| theirs.ring());
            assert!(ours.wait(soon()).unwrap());
            assert!(!ours.wait(Some(Instant::now())).unwrap(), "cleared");
        }
    }

    #[test]
    fn neither_side_can_make_the_other_wait() {
        use rustix::fs::fcntl_setfl;
        let ours = Doorbell::new().unwrap();
        let shared = ours.share().unwrap();
        let theirs = Doorbell::given(shared.try_clone().unwrap()).unwrap();
        fcntl_setfl(&shared, OFlags::empty()).unwrap();
        // Rung until it is full, then once more; cleared until it is empty, then once more.
        (0..100_000).for_each(|_| theirs.ring());
        ours.clear();
        ours.clear();
        assert!(!ours.wait(Some(Instant::now())).unwrap());
    }

    #[test]
    fn what_is_no_doorbell_is_refused() {
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Doorbell::given(socket.into()).unwrap_err().text().contains("no pipe"));
    }

    #[test]
    fn who_rings_at_a_process_that_is_gone_is_not_killed() {
        let ours = Doorbell::new().unwrap();
        let theirs = Doorbell::given(ours.share().unwrap()).unwrap();
        drop(ours);
        theirs.ring();
    }
}
