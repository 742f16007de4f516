//! The owner has died, and another one goes on with its ranks.
//!
//! A rank that comes forgets what it was sent and had not begun; meanwhile the gates of the dead owner stand. What some
//! have begun is due in the others at the same step, which none of them has passed: gates are set before an act is sent.
//! What nobody has begun is agreed on anew.

use super::super::words::{LeftAct, LeftRank};
use super::*;

impl Steering {
    /// Ranks that another owner steered, which died, are steered from here when all of them have come: until then
    /// their gates stay as they are, and acts wait.
    pub fn take_over(&mut self, size: u32, ranks: &[Seen], out: &mut Vec<Action>) {
        *self = Steering::new(size);
        self.ranks = ranks.iter().map(|s| (s.rank, Rank { step: s.step, ..Rank::default() })).collect();
        self.awaited = self.ranks.keys().copied().collect();
        self.left_over = true;
        self.show(out);
    }

    /// A rank of a dead owner has come.
    pub fn came(&mut self, rank: u32) {
        self.awaited.remove(&rank);
    }

    /// Whether ranks of a dead owner are awaited: what they have declared is not known yet.
    pub fn awaits_ranks(&self) -> bool {
        self.left_over
    }

    /// Whether all ranks of a dead owner have come or are gone, and [`Steering::go_on`] is due.
    pub fn may_go_on(&self) -> bool {
        self.left_over && self.awaited.is_empty() && !self.ranks.is_empty()
    }

    /// Steers the ranks of a dead owner, with all acts of the log that some of them have not carried out. Where they
    /// were told to hold they stay held.
    pub fn go_on(&mut self, ranks: &[LeftRank], acts: Vec<LeftAct>, out: &mut Vec<Action>) {
        self.left_over = false;
        for r in ranks {
            self.ranks.entry(r.seen.rank).and_modify(|rank| {
                (rank.step, rank.over, rank.waits) = (r.seen.step, r.over, r.waits);
                rank.set_gate(r.gate);
            });
        }
        let held = ranks.iter().filter(|r| r.holds).filter_map(|r| r.gate).max();
        // Where all of them come to: one that has reached its gate and does not wait there may have passed it.
        let least = |r: &LeftRank| {
            let step = r.seen.step.filter(|step| r.gate.is_some_and(|gate| gate <= *step))?;
            Some(if r.waits { step } else { step.saturating_add(1) })
        };
        let least = ranks.iter().filter(|r| !r.over).filter_map(least).max().unwrap_or(0);
        self.hold = held.map(|step| Hold { step: step.max(least), by: 0, after: 0 });
        let nearest = ranks.iter().filter_map(|r| r.gate).min();
        for LeftAct { id, who, at, act, step } in acts {
            if self.forming.iter().any(|known| known.id == id) {
                continue; // it came while the ranks were awaited
            }
            let entry = ActUnderWay::new(id, &who, at, act);
            // One that is at it holds there until the others have done it, too.
            let at_it = ranks.iter().filter(|r| r.done >= id).filter_map(|r| r.seen.step).max();
            let have_all = ranks.iter().all(|r| r.over || r.done >= id);
            match step {
                // Behind the gates of all, each of them has done it.
                Some(step) if have_all || nearest.is_none_or(|gate| step < gate) => {}
                Some(step) => self.make_up(ActUnderWay { told: true, ..entry }, step, ranks, out),
                None if at_it.is_some() => self.make_up(entry, at_it.unwrap_or_default(), ranks, out),
                None => self.forming.push(entry),
            }
        }
        self.forming.sort_by_key(|entry| entry.id);
        if self.is_over() {
            self.give_up("the loop ended before it", out);
        } else if !self.forming.is_empty() {
            self.agree(out);
        }
        // The gates of the dead owner were in force until here; none is opened that closes again at once.
        for rank in self.ranks.keys().copied().collect::<Vec<u32>>() {
            let step = self.gate_of(rank);
            self.ranks.entry(rank).and_modify(|r| r.set_gate(step));
            out.push(Action::Gate { rank, step });
        }
        if self.tentative.is_some() {
            out.push(Action::Look);
        }
        self.show(out);
    }

    /// What some ranks of a dead owner have carried out, or are at, is due in the others, at the same step.
    fn make_up(&mut self, mut entry: ActUnderWay, step: i64, ranks: &[LeftRank], out: &mut Vec<Action>) {
        entry.gate = step;
        for r in ranks {
            let Some(rank) = self.ranks.get_mut(&r.seen.rank).filter(|rank| !rank.over) else { continue };
            let has_it = r.done >= entry.id;
            if has_it && entry.told {
                entry.done.insert(r.seen.rank);
                continue;
            }
            rank.pending.push_back(entry.id);
            if !has_it {
                out.push(Action::Post { rank: r.seen.rank, id: entry.id, step, act: entry.act.clone() });
            }
        }
        self.last_gate = self.last_gate.max(step);
        self.takes_effect(entry.id, &entry.act, step);
        self.acts.push_back(entry);
    }
}
