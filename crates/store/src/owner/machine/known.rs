//! What the catalog says, as far as a decision needs it: kept up by what groups did.

use crate::stepfile::{Manifest, Partial};
use std::collections::{BTreeMap, BTreeSet};

/// Steps that are listed, and those that lack ranks.
#[derive(Default)]
pub(super) struct Known {
    listed: BTreeSet<i64>,
    damaged: BTreeSet<i64>,
    partial: BTreeMap<i64, Box<Manifest>>,
    /// The highest one that was listed and is older than those that stay.
    outlived: Option<i64>,
}

impl Known {
    pub fn new(steps: Vec<i64>, damaged: Vec<i64>, partial: Vec<Manifest>) -> Known {
        let partial = partial.into_iter().map(|m| (m.step, Box::new(m))).collect();
        Known {
            listed: steps.into_iter().collect(),
            damaged: damaged.into_iter().collect(),
            partial,
            outlived: None,
        }
    }

    /// What is kept of a step that lacks ranks.
    pub fn partial(&self, step: i64) -> Option<&Partial> {
        self.partial.get(&step)?.partial.as_deref()
    }

    /// The manifest of a step that lacks ranks, with its arrays.
    pub fn manifest(&self, step: i64) -> Option<&Manifest> {
        self.partial.get(&step).map(|m| &**m)
    }

    /// Whether that has the part which a rank began by a record of a session, or by a later one.
    pub fn is_given(&self, step: i64, rank: u32, (origin, seq): (u64, u64)) -> bool {
        let given = self.partial(step).and_then(|p| p.given.get(&rank));
        given.is_some_and(|g| g.session == origin && seq <= g.began)
    }

    /// Whether it lacks the part of that session.
    pub fn lacks(&self, step: i64, rank: u32, origin: u64) -> bool {
        self.partial(step).is_some_and(|p| p.missing.get(&rank) == Some(&origin))
    }

    /// Steps that lack a part of that session.
    pub fn lacking(&self, origin: u64) -> Vec<i64> {
        let lacks = |m: &Manifest| m.partial.iter().any(|p| p.missing.values().any(|of| *of == origin));
        self.partial.values().filter(|m| lacks(m)).map(|m| m.step).collect()
    }

    pub fn keep(&mut self, m: Box<Manifest>) {
        self.partial.insert(m.step, m);
    }

    pub fn forsake(&mut self, step: i64) {
        self.partial.remove(&step);
    }

    pub fn is_listed(&self, step: i64) -> bool {
        self.listed.contains(&step)
    }

    /// Whether it was listed as far as anybody can ask for: it is, or went for newer ones.
    pub fn was_listed(&self, step: i64) -> bool {
        self.is_listed(step) || self.outlived.is_some_and(|last| step <= last)
    }

    /// What was listed before the run went back is asked for by nobody.
    pub fn forget_outlived(&mut self) {
        self.outlived = None;
    }

    pub fn outlive(&mut self, step: i64) {
        self.unlist(step);
        self.outlived = self.outlived.max(Some(step));
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
