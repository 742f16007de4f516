//! Steps that are given up on purpose. The policy `drop_oldest`: when the buffers are full the
//! oldest whole step that is not being written goes, of all ranks, and everybody is told. And
//! steps that somebody drops by hand: the row is gone, the file follows.

use super::intake::Intake;
use crate::catalog;
use forebay_types::{Code, Error, Result};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

/// What intake and drain must agree on: a step is either being written or may be dropped.
#[derive(Default)]
pub(super) struct Turn {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Steps of which the drain has begun to write something, until they are listed or discarded.
    begun: HashSet<i64>,
    dropped: HashSet<i64>,
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The drain is about to write something of a step; false when it was dropped.
    pub fn begin(&self, step: i64) -> bool {
        let mut inner = self.lock();
        if inner.dropped.contains(&step) {
            return false;
        }
        inner.begun.insert(step);
        true
    }

    /// Nothing of a step is on the disk after all.
    pub fn rest(&self, step: i64) {
        self.lock().begun.remove(&step);
    }

    /// A step is listed, or the drain has cleared it away.
    pub fn end(&self, step: i64) {
        let mut inner = self.lock();
        inner.begun.remove(&step);
        inner.dropped.remove(&step);
    }

    /// Drops a step; false when it is being written.
    fn give_up(&self, step: i64) -> bool {
        let mut inner = self.lock();
        !inner.begun.contains(&step) && inner.dropped.insert(step)
    }
}

impl Intake {
    /// Drops the oldest step that all ranks have ended, that holds blocks and that is not being
    /// written; its number.
    pub(super) fn drop_oldest(&mut self) -> Option<i64> {
        let mut whole: Vec<_> =
            self.steps.values().filter(|k| k.is_complete() && !k.held.is_empty()).collect();
        whole.sort_by_key(|k| (k.ended_at.is_none(), k.ended_at, k.step));
        let step = whole.into_iter().map(|k| k.step).find(|step| self.turn.give_up(*step))?;
        let text = format!(
            "step {step} is dropped: it was the oldest that waited for the disk when the buffers were full, as the policy \"drop_oldest\" says"
        );
        self.sessions.values().for_each(|s| s.sink.message(s.row.session, 2, step, &text));
        self.give_up(step, Error::new(Code::Full, text), None);
        self.release_rings();
        self.figures.dropped += 1;
        self.figures.discarded -= 1;
        Some(step)
    }

    /// The file of a dropped step goes. One that stays is removed at the next opening.
    pub(super) fn step_dropped(&mut self, file: &str) {
        let _ = self.remove_dropped(file);
    }

    /// Files of steps that were dropped, before any of their numbers is written anew.
    pub(super) fn sweep_dropped(&mut self) -> Result<()> {
        catalog::dropped(self.catalog.conn())?.iter().for_each(|file| self.step_dropped(file));
        Ok(())
    }

    fn remove_dropped(&mut self, file: &str) -> Result<()> {
        let path = self.layout.file(file)?;
        let failed = |e| Error::io(format!("cannot remove {}", path.display()), e);
        self.disk.remove(&path).map_err(failed)?;
        self.disk.sync_dir(&self.layout.steps()).map_err(failed)?;
        self.catalog.transaction(|tx| catalog::forget_dropped(tx, file))
    }
}
