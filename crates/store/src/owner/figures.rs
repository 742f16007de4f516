//! Figures as people ask for them.

use super::intake::Intake;
use crate::layout::Layout;
use forebay_arena::Segment;
use forebay_types::control::word;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// The store's own buffer: how much of it there is.
#[derive(Default)]
pub(super) struct Rooms {
    pub overflow: u64,
    pub overflow_high: u64,
    pub spilt: u64,
    pub spilt_high: u64,
}

impl Rooms {
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
}

impl Intake {
    /// As `Ask::Stats` answers; what ranks count themselves is summed over them.
    pub(super) fn stats(&self) -> Value {
        let mut ranks = [0; 4];
        for s in self.attached.values() {
            let words = [word::VISIBLE_NS, word::IDEAL_NS, word::OVERFLOW_BYTES, word::HIGH_WATER_BYTES];
            let told = words.map(|w| s.segment.word(w).load(Ordering::Relaxed));
            ranks.iter_mut().zip(told).for_each(|(sum, n): (&mut u64, u64)| *sum = sum.saturating_add(n));
        }
        let [visible_ns, ideal_ns, overflow, high_water] = ranks;
        let (counted, rooms) = (self.machine.figures(), &self.rooms);
        let (visible, hidden) = (visible_ns as f64 * 1e-9, counted.hidden.as_secs_f64());
        let overlap = if visible + hidden > 0.0 { hidden / (visible + hidden) } else { 0.0 };
        json!({
            "visible_s": visible,
            "ideal_s": ideal_ns as f64 * 1e-9,
            "hidden_s": hidden,
            "overlap": overlap,
            "written_bytes": counted.written,
            "steps": counted.steps,
            "discarded_steps": counted.discarded,
            "durable_step": counted.durable_step,
            "lag_s": counted.lag.as_secs_f64(),
            "worst_lag_s": counted.worst_lag.as_secs_f64(),
            "overflow_bytes": overflow,
            "high_water_bytes": high_water,
            "overflow_segment_bytes": rooms.overflow,
            "overflow_high_water_bytes": rooms.overflow_high,
            "spilt_bytes": rooms.spilt,
            "spilt_high_water_bytes": rooms.spilt_high,
            "dropped_steps": counted.dropped,
            "filled_elements": counted.filled,
            "uncompressed_bytes": self.ends.load.uncompressed_bytes(),
            "waiting_for_disk": counted.drain_waits || counted.catalog_waits,
            "waits_for": self.machine.waits_for(),
        })
    }
}
