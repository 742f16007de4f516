//! Attempts at steps that failed. A step that is given up is so for all ranks: one that comes to it later
//! makes the same attempt, and is refused; a rank that has made it and begins the step once more begins another
//! one. So an attempt is remembered until every rank has made it, also by the owner's successor.

use super::Machine;
use super::event::Ticket;
use super::item::Item;
use super::session::Refusal;
use crate::catalog::FailedAttempt;
use forebay_types::Error;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most attempts that are remembered, also to tell who waits for such a step.
const MOST: usize = 256;

/// All that are remembered.
pub(super) struct Failed {
    all: VecDeque<FailedAttempt>,
    last: u64,
}

impl Failed {
    pub fn new(known: Vec<FailedAttempt>) -> Failed {
        Failed { last: known.iter().map(|g| g.id).max().unwrap_or(0), all: known.into() }
    }

    pub fn has(&self, step: i64) -> bool {
        self.all.iter().any(|g| g.step == step)
    }

    /// Why an attempt failed that a rank has begun since, and not ended.
    pub fn unheard(&self, step: i64, rank: u32) -> Option<&Error> {
        self.all.iter().find(|g| g.step == step && g.unheard.contains(&rank)).map(|g| &g.why)
    }

    /// Why the last attempt at a step failed.
    pub fn why(&self, step: i64) -> Option<&Error> {
        self.all.iter().rev().find(|g| g.step == step).map(|g| &g.why)
    }

    /// The same, of the attempts that a rank has made.
    pub fn why_in(&self, step: i64, rank: u32) -> Option<&Error> {
        self.all.iter().rev().find(|g| g.step == step && g.ranks.contains(&rank)).map(|g| &g.why)
    }
}

impl Machine {
    pub(super) fn remember_given_up(
        &mut self,
        step: i64,
        why: Error,
        (ranks, begun): (BTreeSet<u32>, BTreeMap<u64, u64>),
        unheard: BTreeSet<u32>,
        size: u32,
    ) {
        self.failed.last += 1;
        let id = self.failed.last;
        // Ranks of a later life of the run make attempts of their own.
        let is_past = begun.keys().next_back().is_some_and(|last| *last < self.life);
        let ranks = if is_past { (0..size).collect() } else { ranks };
        let attempt = FailedAttempt { id, step, why, size, ranks, unheard, begun };
        if !attempt.is_over() {
            self.group.push(Item::Failing(Box::new(attempt.clone())));
        }
        self.failed.all.push_back(attempt);
        if self.failed.all.len() > MOST
            && let Some(mut oldest) = self.failed.all.pop_front()
            && !oldest.is_over()
        {
            oldest.ranks.extend(0..oldest.size);
            oldest.unheard.clear();
            self.group.push(Item::Failing(Box::new(oldest)));
        }
    }

    /// A rank begins a step. If an attempt at it has failed meanwhile that this rank has not made, it makes
    /// that one, and hears why it failed.
    pub(super) fn makes_failed_attempt(&mut self, (n, seq): Ticket, step: i64, rank: u32) -> Option<Refusal> {
        let again = |g: &&FailedAttempt| g.step == step && g.begun.get(&n).is_some_and(|last| *last >= seq);
        if let Some(attempt) = self.failed.all.iter().find(again) {
            // A predecessor has read it, and told the rank if that had ended it.
            return Some(match attempt.unheard.contains(&rank) {
                true => Refusal::Because(attempt.why.clone()),
                false => Refusal::Told,
            });
        }
        let attempt = self.failed.all.iter_mut().find(|g| g.step == step && !g.ranks.contains(&rank))?;
        attempt.ranks.insert(rank);
        attempt.unheard.insert(rank);
        attempt.begun.insert(n, seq);
        self.group.push(Item::Failing(Box::new(attempt.clone())));
        Some(Refusal::Because(attempt.why.clone()))
    }

    /// A rank ends a step that it began when an attempt at it had failed, or discards it.
    pub(super) fn hears_of_attempt(&mut self, step: i64, rank: u32) {
        let unheard = |g: &&mut FailedAttempt| g.step == step && g.unheard.contains(&rank);
        if let Some(attempt) = self.failed.all.iter_mut().find(unheard) {
            attempt.unheard.remove(&rank);
            self.group.push(Item::Failing(Box::new(attempt.clone())));
        }
    }

    /// These ranks make none of the attempts any more that they have not made.
    pub(super) fn pass_attempts(&mut self, ranks: impl Iterator<Item = u32> + Clone) {
        for attempt in &mut self.failed.all {
            if !attempt.is_over() && ranks.clone().any(|rank| attempt.concerns(rank)) {
                let size = attempt.size;
                attempt.ranks.extend(ranks.clone().filter(|rank| *rank < size));
                attempt.unheard.retain(|rank| !ranks.clone().any(|r| r == *rank));
                self.group.push(Item::Failing(Box::new(attempt.clone())));
            }
        }
    }
}
