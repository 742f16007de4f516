//! How long to poll before sleeping.
//!
//! A poll that pays answers in a tenth of a microsecond, a sleep costs twenty; but a poll that
//! does not pay takes the core from somebody who computes. So polling goes on for up to
//! [`USUAL`], yields the core every [`BURST`] polls, and its length follows what recent waits
//! were worth: it doubles when the answer came within reach, up to [`LONGEST`] where a sleep was
//! seen to be that short, and halves when it did not.
//!
//! A yield is worth it between processes that wait for each other: three of them hand two cores on
//! in some microseconds. Beside a process that computes it costs milliseconds, and the answer is
//! there long before the core is back. Which of the two it is the whole process learns together and
//! does not forget soon: see [`crate::crowd`].

use std::time::{Duration, Instant};

use crate::crowd::{self, CROWD, Crowd};

/// The longest polling of who has not seen that more would pay.
pub const USUAL: Duration = Duration::from_micros(50);
/// The longest polling before a sleep.
const LONGEST: Duration = WITHIN_REACH;
/// Shortest polling: one burst still catches an answer that is on its way.
const SHORTEST: Duration = Duration::from_micros(1);
/// The longest polling on crowded cores: it catches what is all but there.
const QUIET: Duration = Duration::from_micros(2);
/// A wait shorter than this would have been better spent polling next time.
const WITHIN_REACH: Duration = Duration::from_micros(150);
/// Polls between two yields.
const BURST: u32 = 64;
/// Looks without a pause between them, for what is all but there.
const EAGER: u32 = 256;
/// Polls before a yield while the one who answers seems to need this very core, and between two
/// looks at the clock on crowded cores.
const SHORT_BURST: u32 = 4;
/// So many waits in a row take that for granted before one looks again.
const TRUST: u32 = 64;
/// A burst that took so many times as long as the shortest one was interrupted.
const INTERRUPTED: u32 = 4;

/// What one waiter learnt from its waits. Keep one a waiter and peer.
#[derive(Clone, Debug)]
pub struct Spin {
    budget: Duration,
    /// Waits left that poll in short bursts: the last answer came with a yield, so that whoever
    /// answers shares this core, and polling only keeps it from doing so.
    shared: u32,
    /// The shortest burst. Whoever looks at many peers takes long for one without being interrupted.
    pace: Duration,
    /// Does not poll at all.
    asleep: bool,
}

impl Default for Spin {
    fn default() -> Self {
        Spin { budget: USUAL, shared: 0, pace: Duration::MAX, asleep: false }
    }
}

impl Spin {
    /// A waiter without experience: polls for the usual time.
    pub fn new() -> Self {
        Spin::default()
    }

    /// A waiter that does not poll at all, for measuring what sleeping costs.
    pub fn asleep() -> Self {
        Spin { asleep: true, ..Spin::default() }
    }

    /// Polls until `ready`, or in vain until it no longer pays: then it says since when. The first
    /// burst, in which most answers come that come at all, reads no clock.
    #[inline]
    pub fn poll(&mut self, ready: &mut impl FnMut() -> bool) -> Option<Instant> {
        self.poll_in(&CROWD, ready)
    }

    #[inline]
    fn poll_in(&mut self, crowd: &Crowd, ready: &mut impl FnMut() -> bool) -> Option<Instant> {
        if self.asleep {
            return Some(Instant::now());
        }
        if crowd.may_be_there() {
            let start = Instant::now();
            if crowd.is_there(crowd::time(start)) {
                return poll_quietly(start, ready);
            }
        }
        // What is all but there is found sooner without a pause, which takes as long as several looks.
        if self.shared == 0 && (0..BURST).any(|_| ready()) {
            self.paid();
            return None;
        }
        let burst = if self.shared == 0 { BURST } else { SHORT_BURST };
        for _ in 0..burst {
            if ready() {
                self.paid();
                return None;
            }
            std::hint::spin_loop();
        }
        self.poll_on(crowd, ready)
    }

    fn poll_on(&mut self, crowd: &Crowd, ready: &mut impl FnMut() -> bool) -> Option<Instant> {
        let start = Instant::now();
        let mut before = start;
        let mut longest = Duration::ZERO;
        loop {
            rustix::thread::sched_yield();
            let yielded = Instant::now();
            let found = (0..BURST).find(|_| {
                let ready = ready();
                if !ready {
                    std::hint::spin_loop();
                }
                ready
            });
            let now = Instant::now();
            longest = longest.max(yielded - before).max(self.interruption(now - yielded, found.is_none()));
            if longest >= crowd::LONG {
                crowd.strike(crowd::time(now));
            }
            if let Some(polls) = found {
                self.shared = match polls {
                    0 if self.shared == 0 => TRUST,
                    0 => self.shared - 1,
                    _ => 0,
                };
                self.paid();
            }
            let over = longest >= crowd::LONG || now - start >= self.budget;
            if found.is_some() || over {
                crowd.probe(longest);
                return found.is_none().then_some(start);
            }
            before = now;
        }
    }

    /// How long a burst was kept from its core, if it was.
    fn interruption(&mut self, took: Duration, whole: bool) -> Duration {
        let usual = self.pace.saturating_mul(INTERRUPTED);
        if whole {
            self.pace = self.pace.min(took);
        }
        if took > usual { took } else { Duration::ZERO }
    }

    /// Learns from a wait that polled in vain and then took so long.
    pub fn slept(&mut self, waited: Duration) {
        if waited < WITHIN_REACH {
            self.budget = (self.budget * 2).clamp(SHORTEST, LONGEST);
        } else {
            self.budget = (self.budget / 2).max(SHORTEST);
        }
    }

    /// Learns from a wait that polling ended.
    #[inline]
    fn paid(&mut self) {
        if self.budget < USUAL {
            self.budget = (self.budget * 2).clamp(SHORTEST, USUAL);
        }
    }

    /// How long the next wait polls at most, on cores that are free.
    pub fn budget(&self) -> Duration {
        self.budget
    }
}

/// Polls for one burst, in which most answers come that come at all; says whether it was ready. No clock is read, and the
/// first looks come one upon the other: a pause would cost as much as what is waited for.
#[inline]
pub fn glance(mut ready: impl FnMut() -> bool) -> bool {
    (0..EAGER).any(|_| ready())
        || (0..BURST).any(|_| {
            std::hint::spin_loop();
            ready()
        })
}

/// Polls for a moment and leaves the core to those who compute.
#[cold]
fn poll_quietly(start: Instant, ready: &mut impl FnMut() -> bool) -> Option<Instant> {
    loop {
        for _ in 0..SHORT_BURST {
            if ready() {
                return None;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= QUIET {
            return Some(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn polling_shrinks_with_long_waits_and_grows_back_with_short_ones() {
        let mut spin = Spin::new();
        for _ in 0..10 {
            spin.slept(Duration::from_millis(10));
        }
        assert_eq!(spin.budget(), SHORTEST);
        for _ in 0..10 {
            spin.slept(Duration::from_micros(60));
        }
        assert_eq!(spin.budget(), LONGEST);
    }

    #[test]
    fn polling_is_longer_than_usual_only_where_a_sleep_was_seen_to_be_short() {
        let mut spin = Spin::new();
        spin.slept(Duration::from_micros(110));
        assert_eq!(spin.budget(), 2 * USUAL);
        spin.slept(Duration::from_millis(10));
        spin.slept(Duration::from_millis(10));
        for _ in 0..10 {
            assert!(spin.poll_in(&Crowd::new(), &mut || true).is_none());
        }
        assert_eq!(spin.budget(), USUAL);
    }

    #[test]
    fn a_waiter_told_to_sleep_does_not_poll() {
        let mut polls = 0;
        let since = Spin::asleep().poll(&mut || {
            polls += 1;
            false
        });
        assert!(since.is_some());
        assert_eq!(polls, 0);
    }

    #[test]
    fn beside_more_busy_threads_than_cores_all_waits_of_a_process_leave_their_cores_alone() {
        let over = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
        let busy: Vec<_> = (0..4 * cores)
            .map(|_| {
                let over = over.clone();
                std::thread::spawn(move || while !over.load(Ordering::Relaxed) {})
            })
            .collect();
        let crowd = Crowd::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut one = Spin::new();
        while !crowd.may_be_there() && Instant::now() < deadline {
            one.poll_in(&crowd, &mut || false);
        }
        let noticed = crowd.may_be_there();
        over.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(noticed, "yields to threads that compute were not noticed");
        // An answer that comes at once is no reason to forget, and another waiter knows, too. What was noticed holds for
        // longer than this test can be kept from its core.
        let now = crowd::time(Instant::now());
        crowd.strike(crowd::time(Instant::now() + Duration::from_secs(60)));
        assert!(one.poll_in(&crowd, &mut || true).is_none());
        one.slept(Duration::from_micros(10));
        assert!(crowd.is_there(now));
        let mut polls = 0;
        let mut two = Spin::new();
        if crowd.is_there(now) {
            two.poll_in(&crowd, &mut || {
                polls += 1;
                polls >= 1
            });
        }
        assert_eq!(polls, 1);
    }

    #[test]
    fn whoever_looks_at_many_peers_is_not_taken_for_interrupted() {
        let mut spin = Spin::new();
        let took = Duration::from_millis(2);
        assert_eq!([0; 3].map(|_| spin.interruption(took, true)), [Duration::ZERO; 3]);
        assert_eq!(spin.interruption(5 * took, true), 5 * took);
    }
}
