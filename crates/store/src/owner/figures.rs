//! Figures of an owner: what was hidden, how much, how far behind.

use crate::layout::Layout;
use forebay_arena::Segment;
use forebay_types::control::word;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::session::Session;

/// Counted by the intake thread.
#[derive(Default)]
pub(super) struct Figures {
    pub hidden: Duration,
    pub written: u64,
    pub steps: u64,
    pub discarded: u64,
    pub durable_step: Option<i64>,
    pub lag: Duration,
    pub worst_lag: Duration,
    pub overflow: u64,
    pub spilt: u64,
    pub spilt_high: u64,
    pub dropped: u64,
    pub overflow_high: u64,
    /// The drain waits for room.
    pub drain_waits: bool,
    /// The catalog waits for room, or for its disk to come back.
    pub catalog_waits: bool,
}

impl Figures {
    /// Counts an overflow segment that is there.
    pub fn take(&mut self, s: &Segment, layout: &Layout) {
        *self.count(s, layout) += s.block_bytes();
    }

    /// Counts one that goes.
    pub fn give_back(&mut self, s: &Segment, layout: &Layout) {
        let count = self.count(s, layout);
        *count = count.saturating_sub(s.block_bytes());
    }

    /// Where a segment counts: one beside the run's files is spilt.
    fn count(&mut self, s: &Segment, layout: &Layout) -> &mut u64 {
        match s.path().is_some_and(|p| p.starts_with(layout.root())) {
            true => &mut self.spilt,
            false => &mut self.overflow,
        }
    }

    /// As `Ask::Stats` answers; what ranks count themselves is summed over them.
    pub fn json<'a>(&self, sessions: impl Iterator<Item = &'a Session>, waits_for: Option<&str>) -> Value {
        let mut ranks = [0; 4];
        for s in sessions {
            let words = [word::VISIBLE_NS, word::IDEAL_NS, word::OVERFLOW_BYTES, word::HIGH_WATER_BYTES];
            let told = words.map(|w| s.segment.word(w).load(Ordering::Relaxed));
            ranks.iter_mut().zip(told).for_each(|(sum, n): (&mut u64, u64)| *sum = sum.saturating_add(n));
        }
        let [visible_ns, ideal_ns, overflow, high_water] = ranks;
        let (visible, hidden) = (visible_ns as f64 * 1e-9, self.hidden.as_secs_f64());
        let overlap = if visible + hidden > 0.0 { hidden / (visible + hidden) } else { 0.0 };
        json!({
            "visible_s": visible,
            "ideal_s": ideal_ns as f64 * 1e-9,
            "hidden_s": hidden,
            "overlap": overlap,
            "written_bytes": self.written,
            "steps": self.steps,
            "discarded_steps": self.discarded,
            "durable_step": self.durable_step,
            "lag_s": self.lag.as_secs_f64(),
            "worst_lag_s": self.worst_lag.as_secs_f64(),
            "overflow_bytes": overflow,
            "high_water_bytes": high_water,
            "overflow_segment_bytes": self.overflow,
            "overflow_high_water_bytes": self.overflow_high,
            "spilt_bytes": self.spilt,
            "spilt_high_water_bytes": self.spilt_high,
            "dropped_steps": self.dropped,
            "waiting_for_disk": self.drain_waits || self.catalog_waits,
            "waits_for": waits_for,
        })
    }
}
