//! What the catalog says, as far as a decision needs it: kept up by what groups did.

use std::collections::BTreeSet;

/// Steps that are listed.
#[derive(Default)]
pub(super) struct Known {
    listed: BTreeSet<i64>,
    damaged: BTreeSet<i64>,
}

impl Known {
    pub fn new(steps: Vec<i64>, damaged: Vec<i64>) -> Known {
        Known { listed: steps.into_iter().collect(), damaged: damaged.into_iter().collect() }
    }

    pub fn is_listed(&self, step: i64) -> bool {
        self.listed.contains(&step)
    }

    pub fn is_damaged(&self, step: i64) -> bool {
        self.damaged.contains(&step)
    }

    pub fn list(&mut self, step: i64) {
        self.listed.insert(step);
        self.damaged.remove(&step);
    }

    pub fn unlist(&mut self, step: i64) {
        self.listed.remove(&step);
        self.damaged.remove(&step);
    }
}
