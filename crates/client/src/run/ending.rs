//! When a loop is to end before its last step: SIGTERM came, or the time that the run has is nearly
//! over.
//!
//! The rank that finds it so says its *wish* in a word of its segment, once. The owner, which looks
//! there with every beat of its heart, has all ranks save, mark a checkpoint and end at one step.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_host::signals::Terminations;
use forebay_types::control::word;

use super::core::Core;

/// The least that is left over before the end; 1 % of the whole time more, [`MOST_SPARE`] at most.
const SPARE: Duration = Duration::from_secs(1);
const MOST_SPARE: Duration = Duration::from_secs(30);
/// A slow step of long ago counts less and less.
const FADING: f64 = 0.98;

/// What may end a loop before its last step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    /// SIGTERM, where it would end the process.
    pub sigterm: bool,
    /// The end of its time.
    pub until: Option<Until>,
}

/// A time by which everything is to be on disk.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// The time.
    pub end: Instant,
    /// How long the whole lasts, of which a little is spared.
    pub whole: Duration,
}

/// How much of the time left must not be begun with a step any more: what two steps took, since the
/// ranks may have to go one further to meet, what the last snapshot took until it was on disk, and a
/// little to spare.
#[derive(Debug)]
struct Reserve {
    until: Until,
    /// The loop head before.
    head: Option<Instant>,
    step: f64,
    save: f64,
    /// The last snapshot that was seen, and when its step began, until it is on disk.
    seen: i64,
    waiting: Option<(i64, Instant)>,
}

impl Reserve {
    fn new(until: Until) -> Reserve {
        Reserve { until, head: None, step: 0.0, save: 0.0, seen: i64::MIN, waiting: None }
    }

    /// Takes a step's time and says whether no other one should begin.
    fn is_reached(&mut self, now: Instant, ended: i64, durable: u64) -> bool {
        if let Some(head) = self.head.replace(now) {
            self.step = (now - head).as_secs_f64().max(self.step * FADING);
            if ended != self.seen && self.waiting.is_none() {
                self.seen = ended;
                self.waiting = Some((ended, head));
            }
        } else {
            self.seen = ended;
        }
        if let Some((step, began)) = self.waiting {
            let so_far = (now - began).as_secs_f64();
            if durable > step.max(0) as u64 {
                self.save = so_far.max(self.save * FADING);
                self.waiting = None;
            } else {
                self.save = self.save.max(so_far);
            }
        }
        let spare = SPARE + (self.until.whole / 100).min(MOST_SPARE);
        let need = spare.as_secs_f64() + 2.0 * self.step + 1.5 * self.save;
        self.until.end.saturating_duration_since(now).as_secs_f64() <= need
    }
}

/// The watch of one loop.
pub struct Watch {
    signals: Option<Arc<Terminations>>,
    reserve: Option<Reserve>,
    wished: bool,
}

impl Watch {
    /// Begins with the loop: an earlier wish is over.
    pub fn begin(core: &Core, ending: Ending) -> Watch {
        core.segment.word(word::WISH).store(0, Ordering::SeqCst);
        let mut kept = core.attentive.lock().unwrap_or_else(|e| e.into_inner());
        *kept = None;
        if ending.sigterm {
            *kept = Terminations::listen().map(Arc::new);
        }
        Watch { signals: kept.clone(), reserve: ending.until.map(Reserve::new), wished: false }
    }

    /// Whether there is a wish that was not said yet. Two loads and two branches where no time is set.
    #[inline]
    pub fn is_due(&mut self, core: &Core) -> bool {
        if self.wished {
            return false;
        }
        if self.signals.as_ref().is_some_and(|s| s.came()) {
            return true;
        }
        let Some(reserve) = &mut self.reserve else { return false };
        let durable = core.segment.word(word::DURABLE).load(Ordering::Acquire);
        reserve.is_reached(Instant::now(), core.last_ended.load(Ordering::Relaxed), durable)
    }

    /// Says the wish to the owner.
    pub fn wish(&mut self, core: &Core) {
        self.wished = true;
        let why = if self.signals.as_ref().is_some_and(|s| s.came()) { 1 } else { 2 };
        core.segment.word(word::WISH).store(why, Ordering::SeqCst);
    }

    /// Says it if there is one: for a rank that waits at its gate.
    pub fn heed(&mut self, core: &Core) {
        let over = self.reserve.as_ref().is_some_and(|r| {
            r.until.end.saturating_duration_since(Instant::now()).as_secs_f64() <= r.save * 1.5 + 1.0
        });
        if !self.wished && (over || self.signals.as_ref().is_some_and(|s| s.came())) {
            self.wish(core);
        }
    }

    /// Ends with the loop: from here on the signal does what it did before.
    pub fn end(&mut self, core: &Core) {
        if let Some(signals) = self.signals.take() {
            let mut kept = core.attentive.lock().unwrap_or_else(|e| e.into_inner());
            // Another loop may listen by now.
            if kept.as_ref().is_some_and(|k| Arc::ptr_eq(k, &signals)) {
                *kept = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes steps of so many seconds and takes a snapshot every `every` steps that is on disk `lag`
    /// later; the time at which no other step begins.
    fn ends_at(whole: f64, step: f64, every: i64, lag: f64) -> f64 {
        let begin = Instant::now();
        let at = |s: f64| begin + Duration::from_secs_f64(s);
        let mut reserve = Reserve::new(Until { end: at(whole), whole: Duration::from_secs_f64(whole) });
        let (mut now, mut ended, mut taken) = (0.0, i64::MIN, 0.0);
        for n in 0.. {
            let durable = if ended >= 0 && now >= taken + lag { ended as u64 + 1 } else { 0 };
            if reserve.is_reached(at(now), ended, durable) {
                return now;
            }
            if n % every == 0 {
                (ended, taken) = (n, now);
            }
            now += step;
        }
        now
    }

    #[test]
    fn the_reserve_grows_with_the_steps_and_with_what_a_snapshot_takes() {
        let quick = ends_at(100.0, 0.01, 100, 0.02);
        assert!((97.0..98.0).contains(&quick), "{quick}");
        let slow = ends_at(100.0, 5.0, 1000, 0.1);
        assert!((70.0..=90.0).contains(&slow), "{slow}");
        let costly = ends_at(100.0, 0.1, 50, 4.0);
        assert!((90.0..93.0).contains(&costly), "{costly}");
        assert_eq!(ends_at(1.0, 0.1, 1, 0.0), 0.0, "no time at all");
    }

    #[test]
    fn a_snapshot_that_never_comes_to_disk_is_reckoned_with_as_long_as_it_lasts() {
        let stuck = ends_at(100.0, 0.1, 1000, 1e9);
        assert!((35.0..45.0).contains(&stuck), "{stuck}");
    }
}
