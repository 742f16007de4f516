//! The policy `drop_oldest`: when the buffers are full the oldest whole step of which nothing is on the disk
//! goes, of all ranks, and everybody is told.

use super::Machine;
use super::item::Item;
use super::steps::Step;
use forebay_types::watch::level::WARNING;
use forebay_types::{Code, Error};

impl Machine {
    /// Drops the oldest step that all ranks have ended, that holds blocks and that is not being
    /// written; its number.
    pub(super) fn drop_oldest(&mut self) -> Option<i64> {
        let may_go = |k: &&Step| !k.sealed && !self.files.has_begun(k.step);
        let whole = self.steps.values().filter(|k| k.is_complete() && !k.held.is_empty()).filter(may_go);
        let step = whole.min_by_key(|k| (k.ended_at.is_none(), k.ended_at, k.step))?.step;
        let text = format!(
            "step {step} is dropped: it was the oldest that waited for the disk when the buffers were full, as the policy \"drop_oldest\" says"
        );
        self.say_to_all(WARNING, step, &text);
        let session = self.steps.get(&step).and_then(|k| k.sessions().first().copied()).unwrap_or(0);
        self.group.push(Item::Note { session, step, level: WARNING, text: text.clone() });
        self.give_up(step, Error::new(Code::Full, text));
        self.release_rings();
        self.figures.dropped += 1;
        self.figures.discarded -= 1;
        Some(step)
    }
}
