//! Records of steps that lack other ranks. A ring is given back in its order, and the records of a step stay in it
//! until the step is listed or given up; so a rank that is ahead of the others would come to wait for them as soon as
//! what it puts behind the step fills the ring, and if they wait for a message of it, for ever. Before that its records
//! of such steps go into the catalog, and the ring is free again. A successor reads them there first. (Blocks of the
//! steps are not in the ring, and stay.)

use super::Machine;
use super::event::Ticket;
use super::item::Item;
use super::session::Keep;
use std::collections::BTreeMap;

/// What is pending of a step and a session.
#[derive(Clone, Copy, Default)]
pub(super) struct Pending {
    bytes: u64,
    /// Its first record, by which the rank began the step, and its last one.
    first: Option<u64>,
    last: u64,
}

impl Pending {
    fn add(&mut self, seq: u64, bytes: u64) {
        self.bytes += bytes;
        self.first = self.first.or(Some(seq));
        self.last = self.last.max(seq);
    }

    /// What forgets that the rank began the step, and nothing else.
    pub fn beginning(&self, session: u64, step: i64) -> Item {
        Item::Settled { session, step, last: self.first.unwrap_or(0) }
    }
}

/// Most bytes of records that a session may have there: so far one rank may be ahead of the others.
const MOST: u64 = 64 << 20;

impl Machine {
    /// Moves the records of such steps out of rings that are more than half full.
    pub(super) fn make_room(&mut self) {
        // The blocks of a step go back before what names them.
        if !self.files.owes_any() {
            self.group.append(&mut self.settled);
        }
        for (n, s) in &mut self.sessions {
            // The memory of another host is to have all that is not listed.
            if s.remote || s.backlog() <= s.ring / 2 || s.pending >= MOST || self.files.owes(*n) {
                continue;
            }
            let mut from = s.released;
            for (behind, keep) in &mut s.kept {
                let at = std::mem::replace(&mut from, *behind);
                let (step, seq) = match *keep {
                    Keep::Group => continue,
                    Keep::Step(step, seq) => (step, seq),
                    // Until that is done nothing behind it is given back.
                    Keep::Put(_) | Keep::Deferred(_) => break,
                };
                let Some(known) = self.steps.get_mut(&step).filter(|k| k.keeps((*n, seq))) else { continue };
                if known.is_complete() {
                    break; // it waits for the disk only
                }
                self.group.push(Item::Pending { session: *n, seq, step, at });
                *keep = Keep::Group;
                s.pending += *behind - at;
                known.pending.entry(*n).or_default().add(seq, *behind - at);
            }
        }
    }

    /// A record of a step was found in the catalog.
    pub(super) fn note_pending(&mut self, (session, seq): Ticket, step: i64, bytes: u64) {
        let known = self.steps.get_mut(&step).filter(|k| k.has(session));
        if let (Some(known), Some(s)) = (known, self.sessions.get_mut(&session)) {
            known.pending.entry(session).or_default().add(seq, bytes);
            s.pending += bytes;
        }
    }

    /// A step is listed, or given up: what is pending of it goes.
    pub(super) fn settle_pending(&mut self, step: i64, pending: BTreeMap<u64, Pending>) {
        for (session, Pending { bytes, last, .. }) in pending {
            if let Some(s) = self.sessions.get_mut(&session) {
                s.pending = s.pending.saturating_sub(bytes);
            }
            self.settled.push(Item::Settled { session, step, last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Session;
    use super::super::scene::*;
    use super::*;

    /// Whether the first record of a step of session 1 goes from its ring into the catalog in this turn.
    fn moves(scene: &mut Scene, step: i64) -> bool {
        scene.turn();
        let goes = |item: &Item| matches!(item, Item::Pending { session: 1, step: of, .. } if *of == step);
        let moves = scene.group().iter().any(goes);
        scene.commit();
        moves
    }

    #[test]
    fn a_rank_is_so_far_ahead_and_no_further_and_again_when_the_others_have_come() {
        let mut scene = Scene::of(2);
        for step in 1..=3 {
            scene.begin_over(1, step, MOST / 2 - 1);
            assert!(moves(&mut scene, step), "step {step}");
        }
        scene.begin_over(1, 4, MOST / 2 - 1);
        assert!(!moves(&mut scene, 4), "so much is in the catalog already");
        scene.end(1, 1, 0);
        scene.begin(2, 1);
        scene.end(2, 1, 0);
        scene.settle();
        let goes = |item: &Item| matches!(item, Item::Pending { step: 4, .. });
        assert!(scene.catalog.iter().any(goes), "one of them is listed");
        scene.begin_over(1, 5, MOST / 2 - 1);
        assert!(!moves(&mut scene, 5), "the others are not");
    }

    #[test]
    fn a_ring_with_room_and_one_of_another_host_keep_the_records_of_steps_that_lack_others() {
        let mut scene = Scene::of(3);
        scene.begin_over(1, 1, RING / 2);
        assert!(!moves(&mut scene, 1));
        scene.begin_over(1, 2, 1);
        assert!(moves(&mut scene, 1));
        scene.enter(Session { remote: true, ..session(4, 2, 3) });
        scene.begin_over(4, 1, RING);
        scene.turn();
        assert!(scene.group().is_empty());
    }

    #[test]
    fn records_stay_in_their_ring_while_blocks_before_them_are_read() {
        let mut scene = Scene::of(2);
        scene.begin(1, 1);
        scene.block(1, 1, "x");
        scene.turn();
        let work = scene.work();
        scene.begin(2, 1);
        scene.discard(2, 1);
        scene.begin_over(1, 2, RING);
        assert!(!moves(&mut scene, 2));
        scene.done(&work);
        assert!(moves(&mut scene, 2));
    }

    #[test]
    fn why_a_step_was_given_up_stays_in_its_ring_while_what_others_gave_of_it_is_in_the_catalog() {
        let mut scene = Scene::born(birth());
        (1..=2).for_each(|n| scene.enter(adopted(n, n as u32 - 1, 2, 100)));
        let first = scene.begin_pending(1, 1);
        scene.block(1, 1, "x");
        scene.turn();
        let work = scene.work();
        scene.released();
        scene.begin(2, 1);
        scene.discard(2, 1);
        scene.turn();
        scene.commit();
        assert!(!scene.released().contains(&2), "the file is being written, and what names its blocks stays");
        scene.done(&work);
        scene.turn();
        scene.commit();
        assert!(
            scene
                .catalog
                .iter()
                .any(|item| matches!(item, Item::Settled { step: 1, last, .. } if *last == first))
        );
        assert!(scene.released().contains(&2));
    }

    #[test]
    fn what_a_predecessor_had_moved_is_forgotten_when_the_step_is_listed() {
        let mut scene = Scene::born(birth());
        (1..=2).for_each(|n| scene.enter(adopted(n, n as u32 - 1, 2, 100)));
        let first = scene.begin_pending(1, 1);
        scene.end(1, 1, 0);
        scene.begin(2, 1);
        scene.end(2, 1, 0);
        scene.settle();
        // What is settled goes with the next group.
        scene.put(2);
        scene.settle();
        let forgets =
            |item: &Item| matches!(item, Item::Settled { session: 1, step: 1, last } if *last == first);
        assert!(scene.catalog.iter().any(forgets));
    }
}
