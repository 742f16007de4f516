//! Sleeping until a descriptor is ready: the one place that calls `poll`; and pauses of those who try again.

use forebay_types::{Error, Result};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

pub use rustix::event::PollFlags;

/// The flags that say that a descriptor has come to its end, in whatever way.
pub const ENDS: PollFlags =
    PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR).union(PollFlags::NVAL);

/// The pauses of one who tries again: each twice as long as the one before, up to a limit, and up to a quarter longer or
/// shorter, so that many who were refused at one moment do not try again at one.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u32,
}

impl Backoff {
    /// The first pause, and the longest.
    pub const fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, tries: 0 }
    }

    /// It was in vain once more: how long to wait now.
    pub fn pause(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(2u32.saturating_pow(self.tries)).min(self.longest);
        self.tries = self.tries.saturating_add(1);
        // The keys of a hash are random, and others in each process and each time.
        let share = RandomState::new().hash_one(self.tries) as f64 / u64::MAX as f64;
        doubled.mul_f64(0.75 + 0.5 * share)
    }

    /// It was not in vain: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// How long to wait before something that has ended so often already is started again: 0.1 s at first, then twice as
/// long each time, up to 30 s.
pub fn pause_before(restarts: u32) -> Duration {
    let tries = restarts.saturating_sub(1);
    Backoff { tries, ..Backoff::new(Duration::from_millis(100), Duration::from_secs(30)) }.pause()
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
    fn who_tries_again_waits_twice_as_long_each_time_and_not_as_long_as_the_others() {
        let [first, longest] = [10, 100].map(Duration::from_millis);
        let mut all = vec![Backoff::new(first, longest); 500];
        for expected in [10, 20, 40, 80, 100, 100].map(Duration::from_millis) {
            let mut pauses: Vec<Duration> = all.iter_mut().map(Backoff::pause).collect();
            pauses.sort();
            let (least, most) = (expected.mul_f64(0.75), expected.mul_f64(1.25));
            assert!(pauses.iter().all(|p| (least..=most).contains(p)), "{expected:?}: {pauses:?}");
            // Of five hundred some are near either end.
            assert!(pauses[0] < expected.mul_f64(0.8) && pauses[499] > expected.mul_f64(1.2), "{pauses:?}");
        }
        all[0].reset();
        assert!(all[0].pause() <= first.mul_f64(1.25));
        let after = [0, 1, 2, 9, 40, u32::MAX].map(|n| (pause_before(n).as_secs_f64(), n));
        for (pause, restarts) in after {
            let expected = (0.1 * 2f64.powi(restarts.saturating_sub(1).min(20) as i32)).min(30.0);
            assert!((0.75 * expected..=1.25 * expected).contains(&pause), "{restarts}: {pause}");
        }
    }

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
