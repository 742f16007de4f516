//! Whether processes that compute want the cores on which this one waits: one judgement for all
//! waits of a process.
//!
//! ```text
//! a yield or a burst of polls took >= 100 us --> a strike: quiet for 64 << strikes waits or 10 ms << strikes
//! then a probe: again so long                --> one more strike, twice as quiet, up to 10 s
//!               eight in a row below 20 us   --> one strike less
//! ```
//! Nothing else is a reason to forget: that an answer comes at once, or that a sleep is short, says nothing
//! of who else wants the core. So a process that computes loses one turn of it in 10 s to those who
//! wait, and a machine that became free is used again within 10 s.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Who was kept from its core for so long gave it to somebody who computes.
pub(crate) const LONG: Duration = Duration::from_micros(100);
/// Who gets it back so soon gave it to somebody who waits, too, or to nobody.
const SHORT: Duration = Duration::from_micros(20);
/// Most strikes that count.
const MOST: u32 = 10;
/// Waits that are quiet after no strike at all, and nanoseconds; each strike doubles both.
const WAITS: u32 = 64;
const TIME: u64 = 10_000_000;
/// So many short probes in a row take one strike off.
const PROBES: u32 = 8;

/// That of this process.
pub(crate) static CROWD: Crowd = Crowd::new();

/// Nanoseconds since some moment of this process.
pub(crate) fn time(at: Instant) -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(at.saturating_duration_since(*ORIGIN.get_or_init(|| at)).as_nanos()).unwrap_or(u64::MAX)
}

/// What is known. Threads that learn something at the same moment may overwrite each other: then it is
/// learnt by the next one.
#[derive(Debug)]
pub(crate) struct Crowd {
    strikes: AtomicU32,
    /// Waits that are still to be quiet; 0: none.
    waits: AtomicU32,
    /// When they are no longer to be, whatever is left.
    until: AtomicU64,
    /// Short probes in a row.
    short: AtomicU32,
}

impl Crowd {
    pub(crate) const fn new() -> Crowd {
        Crowd {
            strikes: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            until: AtomicU64::new(0),
            short: AtomicU32::new(0),
        }
    }

    /// Whether there is any reason to ask [`Crowd::is_there`]; one load.
    #[inline]
    pub(crate) fn may_be_there(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    /// Whether a wait that begins now is to be quiet.
    pub(crate) fn is_there(&self, now: u64) -> bool {
        let waits = self.waits.load(Ordering::Relaxed);
        let quiet = waits > 0 && now < self.until.load(Ordering::Relaxed);
        self.waits.store(if quiet { waits - 1 } else { 0 }, Ordering::Relaxed);
        quiet
    }

    /// A wait was kept from its core for [`LONG`]. What several threads notice in the same period is one strike.
    #[cold]
    pub(crate) fn strike(&self, now: u64) {
        if self.may_be_there() && now < self.until.load(Ordering::Relaxed) {
            return;
        }
        let strikes = (self.strikes.load(Ordering::Relaxed) + 1).min(MOST);
        self.strikes.store(strikes, Ordering::Relaxed);
        self.short.store(0, Ordering::Relaxed);
        self.until.store(now.saturating_add(TIME << strikes), Ordering::Relaxed);
        self.waits.store(WAITS << strikes, Ordering::Relaxed);
    }

    /// A wait polled and yielded as on free cores, and was kept from its core for so long at most.
    pub(crate) fn probe(&self, longest: Duration) {
        let strikes = self.strikes.load(Ordering::Relaxed);
        if strikes == 0 {
            return;
        }
        let short = if longest < SHORT { self.short.load(Ordering::Relaxed) + 1 } else { 0 };
        if short >= PROBES {
            self.strikes.store(strikes - 1, Ordering::Relaxed);
        }
        self.short.store(short % PROBES, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn quiet_waits(crowd: &Crowd, now: u64) -> u32 {
        (0..).take_while(|_| crowd.is_there(now)).count() as u32
    }

    #[test]
    fn a_strike_is_remembered_for_some_waits_or_some_time_whichever_ends_first() {
        let crowd = Crowd::new();
        assert!(!crowd.is_there(0));
        crowd.strike(0);
        assert_eq!(quiet_waits(&crowd, 0), 128);
        crowd.strike(0);
        assert!(crowd.is_there(40 * MS - 1));
        assert!(!crowd.is_there(40 * MS));
        assert!(!crowd.may_be_there());
    }

    #[test]
    fn a_process_that_computes_loses_one_turn_in_ten_seconds_after_some_strikes() {
        let crowd = Crowd::new();
        let mut now = 0;
        for strikes in 1..=15 {
            crowd.strike(now);
            let quiet = (10 * MS) << strikes.min(10);
            assert!(crowd.is_there(now + quiet - 1), "strike {strikes}");
            now += quiet;
            assert!(!crowd.is_there(now), "strike {strikes}");
        }
        crowd.strike(now);
        assert_eq!(quiet_waits(&crowd, now), 65_536);
    }

    #[test]
    fn what_several_threads_notice_at_once_is_one_strike() {
        let crowd = Crowd::new();
        (0..20).for_each(|_| crowd.strike(0));
        assert!(!crowd.is_there(20 * MS));
    }

    #[test]
    fn only_short_probes_in_a_row_take_a_strike_off() {
        let crowd = Crowd::new();
        for now in [0, 20 * MS, 60 * MS] {
            crowd.strike(now);
            crowd.is_there(u64::MAX);
        }
        let probes = |n, us| (0..n).for_each(|_| crowd.probe(Duration::from_micros(us)));
        probes(7, 2);
        probes(1, 50);
        probes(7, 2);
        crowd.strike(1_000 * MS);
        // The fourth one: none was taken off.
        assert_eq!(quiet_waits(&crowd, 1_000 * MS), 64 << 4);
        probes(16, 2);
        crowd.strike(2_000 * MS);
        assert_eq!(quiet_waits(&crowd, 2_000 * MS), 64 << 3);
        probes(1_000, 2);
        crowd.strike(3_000 * MS);
        assert_eq!(quiet_waits(&crowd, 3_000 * MS), 64 << 1);
    }
}
