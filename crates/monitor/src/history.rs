//! The points of a history, kept in bounded memory: when a curve reaches its limit it is
//! halved so that least and greatest of each stretch stay.

use crate::reduce::{self, Points};

/// Most points of one curve while a run has few.
pub const MOST: usize = 32_768;
/// Fewest points that a curve may keep, however many there are.
pub const LEAST: usize = 2_048;
/// Points that all histories of a run share.
pub const BUDGET: usize = 4_000_000;

/// Points that each of `curves` may keep.
pub fn allowance(curves: usize) -> usize {
    (BUDGET / curves.max(1)).clamp(LEAST, MOST)
}

/// One curve over time.
#[derive(Clone, Debug, Default)]
pub struct History {
    points: Points,
    halved: bool,
}

impl History {
    /// Adds a point. Going back in time (a restart from an earlier step) removes what lies
    /// behind it.
    pub fn append(&mut self, t: f64, value: f64, most: usize) {
        if t.is_nan() {
            return;
        }
        if self.points.x.last().is_some_and(|last| t < *last) {
            let keep = self.points.x.partition_point(|v| *v < t);
            self.points.x.truncate(keep);
            self.points.y.truncate(keep);
        }
        while self.points.len() >= most.max(8) {
            reduce::halve(&mut self.points);
            self.halved = true;
        }
        self.points.x.push(t);
        self.points.y.push(value);
    }

    /// What is kept.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Whether points were left out.
    pub fn halved(&self) -> bool {
        self.halved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_points_stay_within_the_limit_and_keep_the_spike() {
        let mut h = History::default();
        for i in 0..1_000_000 {
            h.append(i as f64, if i == 123_456 { 5.0 } else { 0.0 }, LEAST);
            assert!(h.points().len() <= LEAST);
        }
        assert!(h.halved());
        assert!(h.points().y.contains(&5.0));
        assert_eq!((h.points().x[0], *h.points().x.last().unwrap()), (0.0, 999_999.0));
    }

    #[test]
    fn a_restart_takes_back_what_lies_after_it() {
        let mut h = History::default();
        for i in 0..10 {
            h.append(i as f64, i as f64, MOST);
        }
        h.append(4.0, 44.0, MOST);
        assert_eq!(h.points().x, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(h.points().y[4], 44.0);
    }

    #[test]
    fn many_curves_share_the_memory() {
        assert_eq!(allowance(3), MOST);
        assert_eq!(allowance(4096), LEAST);
    }
}
