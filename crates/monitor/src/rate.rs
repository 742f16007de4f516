//! How often somebody may act, and how fast a run goes: small pure clocks.

use std::collections::VecDeque;

/// Acts a second that one viewer may ask for.
pub const ACTS_PER_SECOND: f64 = 10.0;

/// A bucket that fills at a steady rate and is emptied by acts.
#[derive(Debug)]
pub struct Bucket {
    level: f64,
    last_ms: u64,
}

impl Bucket {
    /// A full one.
    pub fn new(now_ms: u64) -> Bucket {
        Bucket { level: ACTS_PER_SECOND, last_ms: now_ms }
    }

    /// Takes one act out, if there is one.
    pub fn take(&mut self, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.last_ms) as f64 / 1000.0;
        self.last_ms = self.last_ms.max(now_ms);
        self.level = (self.level + passed * ACTS_PER_SECOND).min(ACTS_PER_SECOND);
        if self.level < 1.0 {
            return false;
        }
        self.level -= 1.0;
        true
    }
}

/// Span over which the pace of the run is measured.
const SPAN_MS: u64 = 4_000;

/// Steps a second, over the last few seconds in which the run went.
#[derive(Debug, Default)]
pub struct Pace {
    seen: VecDeque<(u64, i64)>,
}

impl Pace {
    /// The run is at this step.
    pub fn at(&mut self, now_ms: u64, step: i64, going: bool) {
        if !going || self.seen.back().is_some_and(|(_, last)| step < *last) {
            self.seen.clear();
        }
        if self.seen.back().is_some_and(|(last, _)| now_ms.saturating_sub(*last) < 100) {
            return;
        }
        self.seen.push_back((now_ms, step));
        while self.seen.len() > 2
            && self.seen.front().is_some_and(|(t, _)| now_ms.saturating_sub(*t) > SPAN_MS)
        {
            self.seen.pop_front();
        }
    }

    /// Steps a second; `None` until two steps have been seen.
    pub fn rate(&self) -> Option<f64> {
        let (t0, s0) = *self.seen.front()?;
        let (t1, s1) = *self.seen.back()?;
        (t1 > t0 && s1 > s0).then(|| (s1 - s0) as f64 * 1000.0 / (t1 - t0) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eleven_acts_at_once_are_one_too_many() {
        let mut b = Bucket::new(0);
        assert_eq!((0..11).filter(|_| b.take(0)).count(), 10);
        assert!(!b.take(50));
        assert!(b.take(150));
    }

    #[test]
    fn the_pace_is_that_of_the_last_seconds() {
        let mut p = Pace::default();
        assert_eq!(p.rate(), None);
        for i in 0..100 {
            p.at(i * 200, (i * 10) as i64, true);
        }
        assert!((p.rate().unwrap() - 50.0).abs() < 1e-9);
        p.at(30_000, 990, false);
        assert_eq!(p.rate(), None);
    }
}
