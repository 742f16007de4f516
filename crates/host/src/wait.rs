//! Sleeping until a descriptor is ready: the one place that calls `poll`; and pauses of those who try again.

use forebay_types::{Error, Result};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

pub use rustix::event::PollFlags;

/// The flags that say that a descriptor has come to its end, in whatever way.
pub const ENDS: PollFlags =
    PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR).union(PollFlags::NVAL);

/// A pause up to a quarter longer or shorter, so that many who were refused at one moment do not try again at one.
pub fn jitter(pause: Duration) -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let share = (now.tv_nsec / 1_000 % 1_000) as f64 / 1_000.0;
    pause.mul_f64(0.75 + 0.5 * share)
}

/// How long to wait before something that has ended so often already is started again: 0.1 s at first, then twice as
/// long each time, up to 30 s.
pub fn pause_before(restarts: u32) -> Duration {
    let doubled = Duration::from_millis(100) * 2u32.pow(restarts.saturating_sub(1).min(16));
    jitter(doubled.min(Duration::from_secs(30)))
}

/// What each of some descriptors is ready for, once one is or the time is over; a signal may end it before. Without a
/// time it waits for ever.
pub fn any<'a>(
    of: impl IntoIterator<Item = (BorrowedFd<'a>, PollFlags)>,
    most: Option<Duration>,
) -> Result<Vec<PollFlags>> {
    let mut fds: Vec<PollFd> =
        of.into_iter().map(|(fd, events)| PollFd::from_borrowed_fd(fd, events)).collect();
    look(&mut fds, most)?;
    Ok(fds.iter().map(PollFd::revents).collect())
}

/// What each of `N` descriptors is ready for, once one is or the time is over, without a list; a signal may end it
/// before. Without a time it waits for ever.
pub fn among<const N: usize>(
    of: [(BorrowedFd, PollFlags); N],
    most: Option<Duration>,
) -> Result<[PollFlags; N]> {
    let mut fds = of.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events));
    look(&mut fds, most)?;
    Ok(std::array::from_fn(|i| fds[i].revents()))
}

/// Waits until a descriptor is ready, whatever signals come, or the deadline is over; says which. Its end counts as
/// ready.
pub fn until(fd: impl AsFd, events: PollFlags, deadline: Option<Instant>) -> Result<bool> {
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let [ready] = among([(fd.as_fd(), events)], left)?;
        if !ready.is_empty() {
            return Ok(true);
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return Ok(false);
        }
    }
}

/// What a descriptor is ready for now; nothing when that cannot be told.
pub fn now(fd: impl AsFd, events: PollFlags) -> PollFlags {
    among([(fd.as_fd(), events)], Some(Duration::ZERO)).map_or(PollFlags::empty(), |[ready]| ready)
}

fn look(fds: &mut [PollFd], most: Option<Duration>) -> Result<()> {
    let most = most.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    match poll(fds, most.as_ref()) {
        Ok(_) => Ok(()),
        // A signal: nothing was found.
        Err(Errno::INTR) => {
            fds.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(e) => Err(Error::io("cannot wait for a descriptor", e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_waits_is_told_what_is_ready_what_has_ended_and_that_the_time_is_over() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(20));
        assert!(!until(&other, PollFlags::IN, soon()).unwrap());
        assert_eq!(now(&other, PollFlags::IN), PollFlags::empty());
        let both = || [(one.as_fd(), PollFlags::OUT), (other.as_fd(), PollFlags::IN)];
        assert_eq!(among(both(), None).unwrap(), [PollFlags::OUT, PollFlags::empty()]);
        assert_eq!(any(both(), None).unwrap(), [PollFlags::OUT, PollFlags::empty()]);
        one.write_all(b"x").unwrap();
        assert!(until(&other, PollFlags::IN, None).unwrap());
        drop(one);
        assert!(now(&other, PollFlags::RDHUP).intersects(ENDS));
        assert!(until(&other, PollFlags::RDHUP, None).unwrap());
    }
}
