//! Calls whose time is over.

use std::time::Duration;

use forebay_types::{Code, Error, Result};

use super::Future;
use crate::call::args::Value;
use crate::call::late;

/// Why the result of a call comes no more.
pub(super) const GIVEN_UP: &str = "it was under way and was given up; allow it more time";

impl Future<'_> {
    /// Waits as [`Future::wait`] does, and gives the call up when the time is over.
    pub fn wait_within(&mut self, timeout: Duration) -> Result<Vec<Value>> {
        match self.wait(Some(timeout)) {
            Err(e) if e.code() == Code::Timeout && self.is_under_way() => Err(self.give_up_late(timeout)),
            done => done,
        }
    }

    /// Gives it up after that time, for nobody waits for it any longer: what the caller is told.
    pub fn give_up_late(&mut self, waited: Duration) -> Error {
        let why = self.late(Some(waited), GIVEN_UP);
        self.end_with(why.clone());
        why
    }

    pub(super) fn late(&self, waited: Option<Duration>, why: &str) -> Error {
        let so_far = self.begun.map(|b| b.elapsed()).or(waited).unwrap_or_default();
        late(self.offer.signature.name(), so_far, why)
    }

    /// It has ended so, for want of time.
    pub(super) fn too_late(&self, why: &Error) -> Error {
        self.late(None, &format!("{}; allow it more time", why.text()))
    }
}
