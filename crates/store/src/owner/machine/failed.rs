//! Attempts at steps that failed. A step that is given up is so for all ranks: one that comes to it later
//! makes the same attempt, and is refused; a rank that has made it and begins the step once more begins another
//! one. So an attempt is remembered until every rank has made it, and until nothing of it is in a ring any more: the
//! owner's successor reads that again, and must not take it for another attempt.

use super::Machine;
use super::event::Ticket;
use super::item::Item;
use super::session::{Refusal, Session};
use crate::catalog::FailedAttempt;
use forebay_types::Error;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most attempts that are remembered, also to tell who waits for such a step.
const MOST: usize = 256;

/// All that are remembered.
pub(super) struct Failed {
    all: VecDeque<FailedAttempt>,
    last: u64,
    /// Attempts that all ranks have made, with the rings that may hold something of them; up to where, as far as that
    /// is known.
    held: BTreeMap<u64, BTreeMap<u64, Option<u64>>>,
}

impl Failed {
    pub fn new(known: Vec<FailedAttempt>) -> Failed {
        let rings = |g: &FailedAttempt| g.begun.keys().map(|session| (*session, None)).collect();
        let held = known.iter().filter(|g| g.is_over()).map(|g| (g.id, rings(g))).collect();
        Failed { last: known.iter().map(|g| g.id).max().unwrap_or(0), held, all: known.into() }
    }

    pub fn has(&self, step: i64) -> bool {
        self.all.iter().any(|g| g.step == step)
    }

    /// The last session that has begun an attempt at a step which failed and which not every rank has made.
    pub fn last_begun(&self, step: i64) -> Option<u64> {
        let attempt = self.all.iter().rev().find(|g| g.step == step && !g.is_over())?;
        attempt.begun.keys().next_back().copied()
    }

    /// Why an attempt failed that a rank has begun since, and not ended.
    pub fn unheard(&self, step: i64, rank: u32) -> Option<&Error> {
        self.all.iter().find(|g| g.step == step && g.unheard.contains(&rank)).map(|g| &g.why)
    }

    /// Why the last attempt at a step failed.
    pub fn why(&self, step: i64) -> Option<&Error> {
        self.all.iter().rev().find(|g| g.step == step).map(|g| &g.why)
    }

    /// Why the last attempt at a step failed that a rank has made.
    pub fn why_in(&self, step: i64, rank: u32) -> Option<&Error> {
        self.all.iter().rev().find(|g| g.step == step && g.ranks.contains(&rank)).map(|g| &g.why)
    }
}

impl Machine {
    pub(super) fn refuse(&mut self, n: u64, step: i64, why: Refusal) {
        if let Some(s) = self.sessions.get_mut(&n) {
            s.refused.insert(step, why);
        }
    }

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
        let is_past = !begun.is_empty() && !self.are_of_this_life(begun.keys().copied());
        let ranks = if is_past { (0..size).collect() } else { ranks };
        let attempt = FailedAttempt { id, step, why, size, ranks, unheard, begun };
        self.note_attempt(attempt.clone());
        self.failed.all.push_back(attempt);
        if self.failed.all.len() > MOST
            && let Some(oldest) = self.failed.all.pop_front()
            && (!oldest.is_over() || self.failed.held.remove(&oldest.id).is_some())
        {
            self.group.push(Item::Forgotten { attempt: oldest.id });
        }
    }

    /// The catalog is to know an attempt as it is now.
    fn note_attempt(&mut self, attempt: FailedAttempt) {
        if attempt.is_over() {
            let read = |n: &u64| Some((*n, Some(self.sessions.get(n)?.read_up_to())));
            self.failed.held.insert(attempt.id, attempt.begun.keys().filter_map(read).collect());
        }
        self.group.push(Item::Failing(Box::new(attempt)));
    }

    /// Attempts that all ranks have made are forgotten when no ring holds anything of them.
    pub(super) fn forget_attempts(&mut self) {
        let sessions = &self.sessions;
        self.failed.held.retain(|id, rings| {
            rings.retain(|n, up_to| {
                let holds =
                    |s: &Session| s.recovered || s.released < *up_to.get_or_insert_with(|| s.read_up_to());
                sessions.get(n).is_some_and(holds)
            });
            if rings.is_empty() {
                self.group.push(Item::Forgotten { attempt: *id });
            }
            !rings.is_empty()
        });
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
        let attempt = self.failed.all.iter_mut().find(|g| g.step == step && g.is_yet_made_by(rank))?;
        attempt.ranks.insert(rank);
        attempt.unheard.insert(rank);
        attempt.begun.insert(n, seq);
        let attempt = attempt.clone();
        let why = attempt.why.clone();
        self.note_attempt(attempt);
        Some(Refusal::Because(why))
    }

    /// A rank ends a step that it began when an attempt at it had failed, or discards it.
    pub(super) fn hears_of_attempt(&mut self, step: i64, rank: u32) {
        let unheard = |g: &&mut FailedAttempt| g.step == step && g.unheard.contains(&rank);
        if let Some(attempt) = self.failed.all.iter_mut().find(unheard) {
            attempt.unheard.remove(&rank);
            let attempt = attempt.clone();
            self.note_attempt(attempt);
        }
    }

    /// These ranks make none of the attempts any more that they have not made.
    pub(super) fn pass_attempts(&mut self, ranks: impl Iterator<Item = u32> + Clone) {
        let mut passed = Vec::new();
        for attempt in &mut self.failed.all {
            let size = attempt.size;
            let ranks = ranks.clone().filter(|rank| *rank < size);
            if ranks.clone().any(|rank| attempt.concerns(rank)) {
                attempt.ranks.extend(ranks.clone());
                attempt.unheard.retain(|rank| !ranks.clone().any(|r| r == *rank));
                passed.push(attempt.clone());
            }
        }
        passed.into_iter().for_each(|attempt| self.note_attempt(attempt));
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::*;
    use super::*;
    use forebay_types::control::Ask;

    #[test]
    fn a_step_that_died_with_its_owner_is_one_failed_attempt_whoever_comes_to_it() {
        let mut scene = Scene::born(birth());
        (1..=3).for_each(|n| scene.enter(adopted(n, n as u32 - 1, 3, 1000)));
        scene.end(1, 5, 1);
        let late = scene.late();
        assert!(late.len() == 1 && late[0].0 == 1 && late[0].1.contains("step 5 is lost"), "{late:?}");
        scene.end(2, 5, 1);
        scene.late();
        for is_refused in [true, false] {
            scene.begin(3, 5);
            scene.end(3, 5, 0);
            assert_eq!(!scene.late().is_empty(), is_refused, "it is refused once");
        }
    }

    #[test]
    fn each_rank_that_ends_a_step_which_died_with_its_owner_hears_of_it_then_and_once() {
        let mut scene = Scene::born(birth());
        (1..=3).for_each(|n| scene.enter(adopted(n, n as u32 - 1, 3, 1000)));
        for n in 1..=3 {
            if n == 3 {
                scene.block(3, 5, "x");
                scene.late();
            }
            for is_told in [true, false] {
                scene.end(n, 5, 1);
                let late = scene.late();
                let told =
                    late.iter().filter(|(of, text)| *of == n && text.contains("step 5 is lost")).count();
                assert_eq!((told, late.len()), (usize::from(is_told), told), "session {n}");
            }
        }
        // All have made that attempt: the next one is another.
        (1..=3).for_each(|n| _ = scene.begin(n, 5));
        (1..=3).for_each(|n| _ = scene.end(n, 5, 0));
        scene.settle();
        assert!(scene.late().is_empty() && scene.catalog.iter().any(|i| matches!(i, Item::Step { .. })));
    }

    #[test]
    fn whoever_waits_for_a_step_that_was_given_up_hears_why_that_one_was() {
        let mut scene = Scene::of(1);
        scene.begin(1, 1);
        scene.end(1, 1, 3);
        scene.begin(1, 2);
        scene.discard(1, 2);
        for (step, why) in [(1, "0 of its 3 blocks"), (2, "discarded by rank 0"), (3, "never begun")] {
            let asked = scene.ask(1, &Ask::WaitStep { step });
            scene.settle();
            let text = scene.refusal(1, asked);
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_rank_that_hears_of_one_failed_attempt_has_not_heard_of_the_others() {
        let mut scene = Scene::of(2);
        for step in [5, 6] {
            scene.begin(1, step);
            scene.begin(2, step);
            scene.discard(2, step);
        }
        scene.end(1, 6, 0);
        assert_eq!(scene.late().len(), 1);
        scene.settle();
        let mut known = BTreeMap::new();
        for item in &scene.catalog {
            if let Item::Failing(attempt) = item {
                known.insert(attempt.id, (**attempt).clone());
            }
        }
        // A successor has it from there.
        let failed = known.into_values().filter(|attempt| !attempt.is_over()).collect();
        let mut successor = Scene::born(super::super::Birth { failed, ..birth() });
        successor.enter(adopted(1, 0, 2, 1000));
        for (step, hears) in [(6, false), (5, true)] {
            let told = {
                successor.end(1, step, 0);
                successor.late()
            };
            let is_told = told.iter().any(|(_, text)| text.contains("discarded by rank 1"));
            assert_eq!(is_told, hears, "step {step}: {told:?}");
        }
    }

    #[test]
    fn an_attempt_that_all_have_made_is_not_begun_again_by_who_reads_a_ring_once_more() {
        let mut scene = Scene::of(2);
        scene.whole(1, 5);
        scene.turn();
        let reading = scene.work();
        scene.begin(2, 5);
        scene.discard(2, 5);
        scene.settle();
        assert_eq!((scene.late().len(), scene.released()), (1, vec![2]), "a block of rank 0 is being read");
        let is_over = |item: &Item| match item {
            Item::Failing(attempt) if attempt.is_over() => Some((**attempt).clone()),
            _ => None,
        };
        let failed: Vec<FailedAttempt> = scene.catalog.iter().filter_map(is_over).collect();
        let mut successor = Scene::born(super::super::Birth { failed, ..birth() });
        successor.enter(adopted(1, 0, 2, 30));
        successor.enter(adopted(2, 1, 2, 0));
        successor.whole(1, 5);
        let asked = successor.ask(2, &Ask::WaitStep { step: 5 });
        successor.settle();
        assert!(successor.refusal(2, asked).contains("discarded by rank 1"));
        for scene in [&mut scene, &mut successor] {
            scene.done(&reading);
            (0..2).for_each(|_| scene.settle());
            assert!(scene.catalog.iter().any(|item| matches!(item, Item::Forgotten { .. })));
            assert!(scene.late().is_empty());
        }
    }

    #[test]
    fn a_later_start_of_more_ranks_makes_no_attempt_of_the_one_before() {
        let mut scene = Scene::of(2);
        scene.begin(1, 5);
        scene.end(1, 5, 0);
        scene.hang(2);
        scene.settle();
        assert_eq!(scene.late().len(), 1);
        scene.hang(1);
        scene.settle();
        (3..6).for_each(|n| scene.enter(session(n, n as u32 - 3, 3)));
        for n in 3..6 {
            scene.begin(n, 5);
            scene.end(n, 5, 0);
        }
        scene.settle();
        assert!(scene.late().is_empty() && scene.catalog.iter().any(|i| matches!(i, Item::Step { .. })));
    }

    #[test]
    fn the_next_program_of_a_rank_makes_none_of_the_attempts_of_the_one_before() {
        let mut scene = Scene::of(2);
        scene.begin(1, 5);
        scene.discard(1, 5);
        scene.hang(2);
        scene.settle();
        scene.enter(session(3, 1, 2));
        scene.begin(3, 5);
        scene.end(3, 5, 0);
        assert!(scene.late().is_empty());
    }
}
