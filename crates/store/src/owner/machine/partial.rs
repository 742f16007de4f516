//! Steps that lack ranks whose memory is on another host. The line to such a rank is lost, and what it put stays
//! there until somebody brings it. The parts that are here were acknowledged: they are not thrown away, nor do they
//! fill memory until then.
//!
//! ```text
//!   line lost --> the rank's part goes from the step --> all others have ended it --> what is here goes into a file
//!                      |                                                                 |  of its own, blocks go back
//!                      +-- its rest is brought: the step goes on <-----------------------+
//! ```
//!
//! Only the rest of the very session that a step lacks makes it whole. It is written anew then, from that file and
//! from what came, and listed; the file goes when that is durable.
//!
//! A step is of one *life* of the run, and so is a session: what is brought of an earlier life joins no step that a
//! later one has begun, and one that a later life begins is begun anew, whatever had come of that number.

use super::Machine;
use super::absent::may_come_again;
use super::event::{Action, Ticket};
use super::item::Item;
use super::session::{Joins, Refusal, Session, not_a_clients};
use super::steps::Step;
use crate::catalog::PAST;
use crate::stepfile::Manifest;
use forebay_types::control::Heads;
use forebay_types::watch::level::WARNING;
use forebay_types::{Code, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

impl Machine {
    /// The life of the run that a session was of whose memory may have more.
    pub(super) fn life_when_over(&self, s: &Session) -> Option<u64> {
        let life = match s.is_past {
            true => PAST,
            false if s.number >= self.life => self.life,
            false => 0,
        };
        (may_come_again(s) && s.after.is_none()).then_some(life)
    }

    /// The run went back: steps that ranks who are gone have in the memory of other hosts are behind it.
    pub(super) fn forget_memories(&mut self) {
        self.away.values_mut().for_each(|(_, life)| *life = PAST);
        self.sessions.values_mut().for_each(|s| s.is_past |= s.hung);
    }

    /// The session whose memory has what comes by this one.
    fn origin_of(&self, session: u64) -> u64 {
        self.sessions.get(&session).map_or(session, Session::origin)
    }

    /// The life of the run that a session was of, or that whose memory it brings: a later one is the greater number.
    pub(super) fn life_of(&self, session: u64) -> u64 {
        let origin = self.origin_of(session);
        let is_past = [session, origin].iter().filter_map(|n| self.sessions.get(n)).any(|s| s.is_past)
            || self.away.get(&origin).is_some_and(|(_, life)| *life == PAST);
        match is_past {
            true => 0,
            false => self.lives.range(..=origin).next_back().map_or(1, |life| life + 1),
        }
    }

    /// The latest life of the run that a session with a part of a step was of; 0 when the run has gone back behind
    /// all.
    pub(super) fn life_of_step(&self, k: &Step) -> u64 {
        k.origins().map(|n| self.life_of(n)).max().unwrap_or(0)
    }

    /// Whether sessions are of this life of the run, and not of what it has gone back behind.
    pub(super) fn are_of_this_life(&self, mut sessions: impl Iterator<Item = u64>) -> bool {
        sessions.any(|n| self.life_of(n) > self.life)
    }

    /// A session begins a step of a number under which something of another life is on its way: the later life has
    /// it. `Some`: what this session hears, if that is not the later one.
    pub(super) fn yields(&mut self, n: u64, step: i64) -> Option<Refusal> {
        let mine = self.life_of(n);
        if let Some(k) = self.steps.get(&step) {
            let theirs = self.life_of_step(k);
            if theirs > mine {
                return Some(Refusal::Told);
            }
            if theirs < mine && !k.finishing && !k.is_complete() {
                self.withdraw(step);
            }
        }
        // An attempt of a later life is none of an earlier one.
        let begun = self.failed.last_begun(step).filter(|_| mine <= self.life)?;
        (self.life_of(begun) > mine).then_some(Refusal::Told)
    }

    /// Whether it is not known yet what an earlier life has of a step that this session begins: dead ranks may have
    /// ended it in what is not read of them, behind something that waits for the disk, or it is just being kept.
    fn comes_first(&self, n: u64, step: i64) -> bool {
        let mine = self.life_of(n);
        // Of a rank on another host that may be alive, that host has it.
        let is_unread =
            |s: &Session| (s.hung || !s.remote) && !s.settled && !s.clean && !s.broken && s.after.is_none();
        let is_sealed = |k: &Step| k.finishing && k.sealing.is_some() && self.life_of_step(k) < mine;
        // This is asked at each beginning of each rank: of those that are no earlier by their number the life is not
        // looked for.
        let may_be_earlier = |s: &Session| !s.is_client() && (s.is_past || s.number + 1 < mine);
        let mut earlier = self.sessions.values().filter(|s| may_be_earlier(s) && is_unread(s));
        earlier.any(|s| self.life_of(s.number) < mine) || self.steps.get(&step).is_some_and(is_sealed)
    }

    /// A session that begins a step yields to a later life, or waits until it is known what an earlier one has, and a
    /// client is refused. Says whether one of these is so.
    pub(super) fn gives_way(&mut self, (n, seq): Ticket, step: i64, time: f64, heads: Option<Heads>) -> bool {
        if self.sessions.get(&n).is_some_and(Session::is_client) {
            self.refuse(n, step, Refusal::Because(not_a_clients("takes no snapshots")));
            return true;
        }
        let waits = self.comes_first(n, step);
        let told = if waits { None } else { self.yields(n, step) };
        let Some(s) = self.sessions.get_mut(&n) else { return true };
        if waits {
            s.joins = Some(Joins { step, seq, time, heads });
        }
        if told.is_some() && s.after.is_some() {
            s.dropped.insert(step);
        }
        let is_told = told.is_some();
        told.into_iter().for_each(|why| self.refuse(n, step, why));
        waits || is_told
    }

    /// What was brought and is not taken is told in the log of the run.
    pub(super) fn note_dropped(&mut self, s: &Session) {
        let (Some(first), Some(last)) = (s.dropped.first(), s.dropped.last()) else { return };
        let steps = match s.dropped.len() {
            1 => format!("step {first}"),
            n => format!("{n} steps from {first} to {last}"),
        };
        let text = format!(
            "{steps} of rank {}, which were in the memory of another host, are given up: the run has gone on without them since",
            s.rank
        );
        self.group.push(Item::Note { session: s.number, step: -1, level: WARNING, text });
    }

    /// A step lacks ranks whose memory is on another host. It is kept without them when it waits for nobody else.
    pub(super) fn lacks(&mut self, step: i64, ranks: BTreeMap<u32, u64>, waits: bool, why: Error) {
        for (rank, origin) in &ranks {
            let Some(known) = self.steps.get(&step) else { return };
            if let Some(session) = known.session_of(*rank) {
                self.lose_part(step, session);
            } else if !waits && let Some(known) = self.steps.get_mut(&step) {
                known.missing.insert(*rank, *origin);
            }
        }
        let Some(known) = self.steps.get_mut(&step).filter(|_| !waits) else { return };
        match known.has_ended_ranks() {
            true => known.sealing = Some(why),
            // Nothing is here that is not elsewhere, or in a file already.
            false => self.withdraw(step),
        }
    }

    /// The part of a rank is not here as a whole, and its memory on another host has it: it goes from the step, so
    /// that its session can end. Says whether that is so.
    pub(super) fn lose_part(&mut self, step: i64, session: u64) -> bool {
        let Some(s) = self.sessions.get_mut(&session).filter(|s| s.remote) else { return false };
        let (rank, origin) = (s.rank, s.origin());
        let Some(known) = self.steps.get_mut(&step).filter(|k| !k.has_early() && !k.finishing) else {
            return false;
        };
        // It may have lacked more than one of its blocks.
        let Some(lost) = known.lose(session) else { return true };
        known.missing.insert(rank, origin);
        if let Some(s) = self.sessions.get_mut(&session) {
            // One that closes the run and has not ended it had no more of it.
            s.lacks |= lost.ended || s.leaving.is_none();
        }
        (known.held_back, known.sealing) = (true, None);
        self.arriving.retain(|a| !a.is_part_of(step, session));
        // What is written of the step has that part.
        self.give_back(step, lost.held, lost.kept, lost.pending.into_iter().collect());
        if self.steps.get(&step).is_some_and(|k| k.sessions().is_empty()) {
            self.withdraw(step);
            return true;
        }
        let laid = self.steps.get_mut(&step).map_or(Ok(Vec::new()), Step::lay_anew);
        if let Err(e) = laid {
            self.spoil(step, e);
        }
        true
    }

    /// A step of which nothing is to be kept here goes without a word: whoever has it brings it.
    fn withdraw(&mut self, step: i64) {
        let Some(known) = self.steps.remove(&step) else { return };
        self.arriving.retain(|a| !a.is_of(step));
        self.give_back(step, known.held, known.kept, known.pending);
    }

    /// What is here of a step is kept: everything goes back to the ranks that are here, and they hear of it.
    pub(super) fn kept_partial(&mut self, manifest: Box<Manifest>) {
        let step = manifest.step;
        self.known.keep(manifest);
        let Some(mut known) = self.steps.remove(&step) else { return };
        for ((session, _), h) in std::mem::take(&mut known.held).into_iter().filter(|(_, h)| !h.released) {
            self.out.push(Action::Free { session, block: h.block });
        }
        self.forget(std::mem::take(&mut known.kept));
        self.settle_pending(step, std::mem::take(&mut known.pending));
        if let Some(why) = known.sealing.take().filter(|_| !known.lacked) {
            self.tell_ranks(&known.sessions(), &why, WARNING);
            self.figures.discarded += 1;
            self.remember_given_up(step, why, known.begun(), BTreeSet::new(), known.size);
        }
        self.release_rings();
    }

    /// Ranks that began a step while it was kept without them go on when that is done.
    pub(super) fn wake_joining(&mut self) {
        let ready: Vec<u64> = self
            .sessions
            .values()
            .filter(|s| s.joins.is_some_and(|j| !self.steps.get(&j.step).is_some_and(|k| k.finishing)))
            .map(|s| s.number)
            .collect();
        for n in ready {
            let joins = self.sessions.get_mut(&n).and_then(|s| s.joins.take());
            if let Some(j) = joins
                && let Err(e) = self.begin_step((n, j.seq), j.step, j.time, j.heads)
            {
                self.refuse(n, j.step, Refusal::Because(e));
            }
        }
    }

    /// A session brings its part of a step that lacks it, or of one that has it. `None`: it is an ordinary beginning.
    pub(super) fn joins(&mut self, ticket: Ticket, step: i64) -> Option<Result<Option<Refusal>>> {
        let s = self.sessions.get(&ticket.0)?;
        let (rank, origin, is_rest) = (s.rank, s.origin(), s.after.is_some());
        let under_way = self.steps.get(&step);
        if under_way.is_some_and(|k| k.missing.get(&rank) == Some(&origin)) {
            return Some(Ok(None));
        }
        if self.known.is_given(step, rank, (origin, ticket.1)) {
            return Some(Ok(Some(Refusal::Told)));
        }
        let has = under_way.and_then(|k| k.given(rank));
        if is_rest && has == Some(origin) {
            return Some(Ok(Some(Refusal::Told)));
        }
        if self.known.lacks(step, rank, origin) {
            if under_way.is_some() {
                let text = format!(
                    "step {step} is being written anew by a later start of the program; what is left of rank {rank} is not taken, and is kept where it is"
                );
                return Some(Ok(Some(Refusal::Because(Error::new(Code::Conflict, text)))));
            }
            return Some(self.known.manifest(step).map_or(Ok(None), |m| {
                Step::of_partial(m).map(|k| {
                    self.steps.insert(step, k);
                    None
                })
            }));
        }
        // The run has gone back since: that is a step of nobody. Or its number is another attempt's by now, and what
        // it brings belongs to none.
        let is_nobodys = is_rest && (self.life_of(ticket.0) == 0 || self.known.is_listed(step));
        if is_nobodys && let Some(s) = self.sessions.get_mut(&ticket.0) {
            s.dropped.insert(step);
        }
        is_nobodys.then_some(Ok(Some(Refusal::Told)))
    }

    /// All of what was left of a session has come: steps that lack more of it lack it for ever.
    pub(super) fn has_brought_all(&mut self, origin: u64) {
        self.brought.insert(origin);
        self.away.remove(&origin);
        self.group.push(Item::Brought { session: origin });
        for step in self.known.lacking(origin) {
            let text = format!("step {step} is given up: a rank that it lacked had not ended it");
            self.group.push(Item::Note { session: origin, step, level: WARNING, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::*;
    use super::super::{Event, Item, Session};

    #[test]
    fn a_step_that_all_ranks_had_ended_behind_a_put_that_waits_is_kept_from_the_next_program() {
        let mut scene = Scene::of(2);
        scene.whole(1, 0);
        scene.large_put(2);
        scene.turn();
        let put = scene.works();
        // The disk takes nothing, both ranks die, and the program is begun again, not gone on with.
        scene.hang(1);
        scene.turn();
        scene.feed(Event::Alone { session: 3, life: 3 });
        (3..=4).for_each(|n| scene.enter(session(n, n as u32 - 3, 2)));
        scene.begin(3, 0);
        scene.turn();
        assert!(!scene.m.reads(3), "rank 1 may have ended the step, too");
        scene.hang(2);
        put.iter().for_each(|work| scene.done(work));
        scene.commit();
        scene.begin(2, 0);
        scene.end(2, 0, 0);
        scene.settle();
        assert!(scene.catalog.iter().any(|i| matches!(i, Item::Step { manifest, .. } if manifest.step == 0)));
        scene.end(3, 0, 0);
        let late = scene.late();
        assert!(late.iter().any(|(n, text)| *n == 3 && text.contains("step 0 exists already")), "{late:?}");
        assert_eq!(late.len(), 1);
    }
    #[test]
    fn what_was_here_already_and_is_brought_again_joins_no_later_step_of_its_number() {
        let mut scene = Scene::born(birth());
        scene.enter(session(3, 0, 2));
        scene.whole(3, 8);
        scene.enter(Session { remote: true, after: Some(2), is_past: true, ..session(4, 1, 2) });
        scene.begin(4, 8);
        scene.end(4, 8, 0);
        scene.settle();
        let lists = |item: &Item| matches!(item, Item::Step { .. });
        assert!(scene.late().is_empty() && !scene.catalog.iter().any(lists));
        scene.enter(session(5, 1, 2));
        scene.begin(5, 8);
        scene.end(5, 8, 0);
        scene.settle();
        assert!(scene.catalog.iter().any(lists));
    }
}
