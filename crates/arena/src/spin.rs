//! How long to poll before sleeping.
//!
//! A poll that pays answers in a tenth of a microsecond, a sleep costs twenty; but a poll that
//! does not pay takes the core from somebody who computes. So polling goes on for up to
//! [`LONGEST`], yields the core every [`BURST`] polls, and its length follows what recent waits
//! were worth: it doubles when the answer came within reach, halves when it did not, and stops
//! for a while when a yield showed that somebody else needs the core.

use std::time::{Duration, Instant};

/// The longest polling before a sleep.
pub const LONGEST: Duration = Duration::from_micros(50);
/// Shortest polling: one burst still catches an answer that is on its way.
const SHORTEST: Duration = Duration::from_micros(1);
/// A wait shorter than this would have been better spent polling next time.
const WITHIN_REACH: Duration = Duration::from_micros(150);
/// A yield that takes longer gave the core to a process that computes.
const CROWDED: Duration = Duration::from_micros(500);
/// Polls between two yields.
const BURST: u32 = 64;
/// Polls before a yield while the one who answers seems to need this very core.
const SHORT_BURST: u32 = 4;
/// So many waits in a row take that for granted before one looks again.
const TRUST: u32 = 64;
/// Waits that sleep at once after a crowded one, at most.
const PENANCE: u32 = 256;

/// What one waiter learnt from its waits. Keep one a waiter and peer.
#[derive(Clone, Debug)]
pub struct Spin {
    budget: Duration,
    penance: u32,
    skip: u32,
    /// Waits left that poll in short bursts: the last answer came with a yield, so that whoever
    /// answers shares this core, and polling only keeps it from doing so.
    shared: u32,
}

impl Default for Spin {
    fn default() -> Self {
        Spin { budget: LONGEST, penance: 0, skip: 0, shared: 0 }
    }
}

impl Spin {
    /// A waiter without experience: polls for the longest time.
    pub fn new() -> Self {
        Spin::default()
    }

    /// A waiter that does not poll at all, for measuring what sleeping costs.
    pub fn asleep() -> Self {
        Spin { budget: Duration::ZERO, penance: 0, skip: u32::MAX, shared: 0 }
    }

    /// Polls until `ready`, or in vain until it no longer pays: then it says since when. The first
    /// burst, in which most answers come that come at all, reads no clock.
    #[inline]
    pub fn poll(&mut self, ready: &mut impl FnMut() -> bool) -> Option<Instant> {
        if self.skip == u32::MAX {
            return Some(Instant::now());
        }
        let burst = if self.shared == 0 { BURST } else { SHORT_BURST };
        for _ in 0..burst {
            if ready() {
                self.paid();
                return None;
            }
            std::hint::spin_loop();
        }
        self.poll_on(ready)
    }

    fn poll_on(&mut self, ready: &mut impl FnMut() -> bool) -> Option<Instant> {
        let start = Instant::now();
        if self.skip > 0 {
            self.skip -= 1;
            return Some(start);
        }
        let mut before = start;
        loop {
            rustix::thread::sched_yield();
            for i in 0..BURST {
                if ready() {
                    self.shared = match i {
                        0 if self.shared == 0 => TRUST,
                        0 => self.shared - 1,
                        _ => 0,
                    };
                    self.paid();
                    return None;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now - before > CROWDED {
                self.penance = (self.penance * 2).clamp(1, PENANCE);
                self.skip = self.penance;
                return Some(start);
            }
            if now - start >= self.budget {
                return Some(start);
            }
            before = now;
        }
    }

    /// Learns from a wait that polled in vain and then took so long.
    pub fn slept(&mut self, waited: Duration) {
        if waited < WITHIN_REACH {
            self.budget = (self.budget * 2).clamp(SHORTEST, LONGEST);
            self.penance /= 2;
        } else {
            self.budget = (self.budget / 2).max(SHORTEST);
        }
    }

    /// Learns from a wait that polling ended.
    #[inline]
    fn paid(&mut self) {
        if self.budget < LONGEST {
            self.budget = (self.budget * 2).clamp(SHORTEST, LONGEST);
        }
        self.penance = 0;
    }

    /// How long the next wait polls at most.
    pub fn budget(&self) -> Duration {
        if self.skip > 0 { Duration::ZERO } else { self.budget }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_waiter_told_to_sleep_does_not_poll() {
        let mut polls = 0;
        let since = Spin::asleep().poll(&mut || {
            polls += 1;
            false
        });
        assert!(since.is_some());
        assert_eq!(polls, 0);
    }
}
