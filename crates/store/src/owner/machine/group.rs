//! Custody: what was read is committed in groups, then rings and blocks go back to the ranks.

use super::event::{Action, Commit, Now, Stored, Ticket};
use super::item::{Effect, Item};
use super::{Machine, Wait, Waiter};
use crate::fault::Fault;
use forebay_types::control::Ask;
use forebay_types::record::{Payload, Record};
use forebay_types::{Code, Error, Result};
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// The catalog cannot be written at present.
#[derive(Clone, Copy)]
pub(super) struct Ailing {
    /// When it is tried again.
    pub next: Now,
    /// Since when it fails for another reason than a full disk.
    pub since: Now,
}

/// What had waited for the disk does so no longer, and nobody was told that yet.
#[derive(Clone, Copy)]
pub(super) struct Over {
    since: Now,
    was_full: bool,
}

/// Trouble is over when it has not come again for so many pauses of the disk: where a little room comes and goes, one
/// file after another waits for it.
const CALM: u32 = 20;

impl Machine {
    /// Something waits for the disk.
    pub(super) fn trouble(&mut self, e: Error) {
        if self.lost.is_some() {
            return;
        }
        let is_full = Fault::of(&e) == Fault::NoRoom;
        if self.over.take().is_none_or(|over| over.was_full != is_full) {
            self.tell_all(2, e.text().to_owned());
        }
        self.waits = self.waits.take().or(Some((self.now, e)));
    }

    /// The files, or the catalog, wait no longer. All goes on when neither does.
    pub(super) fn trouble_is_over(&mut self) {
        if self.figures.drain_waits || self.figures.catalog_waits {
            return;
        }
        let was_full = self.waits.take().is_none_or(|(_, e)| Fault::of(&e) == Fault::NoRoom);
        self.over = Some(Over { since: self.now, was_full });
        // Who closes the run hears it before that.
        if self.stopping || self.waiters.iter().any(|w| matches!(w.what, Wait::Close)) {
            self.tell_over();
        }
    }

    /// When it is time to tell that trouble is over.
    pub(super) fn calm_at(&self) -> Option<Now> {
        self.over.map(|over| over.since + self.patience * CALM)
    }

    /// Tells that trouble is over, if it is time.
    pub(super) fn tell_calm(&mut self) {
        if self.calm_at().is_some_and(|at| self.now >= at) {
            self.tell_over();
        }
    }

    fn tell_over(&mut self) {
        let Some(over) = self.over.take() else { return };
        let text = match over.was_full {
            true => "there is room on the disk again; everything goes on",
            false => "the disk takes everything again, and everything goes on",
        };
        self.tell_all(1, text.to_owned());
    }

    fn tell_all(&mut self, level: u8, text: String) {
        self.say_to_all(level, -1, &text);
        self.act(Action::Trouble(text));
    }

    pub(super) fn say_to_all(&mut self, level: u8, step: i64, text: &str) {
        for session in self.sessions.keys() {
            self.out.push(Action::Say { session: *session, level, step, text: text.to_owned() });
        }
    }

    /// A block is in a file that is all there will be of it.
    pub(super) fn let_go(&mut self, step: i64, ticket: Ticket) {
        let Some(known) = self.steps.get_mut(&step).filter(|k| k.is_early(ticket.0)) else { return };
        if let Some(h) = known.held.get_mut(&ticket).filter(|h| !h.released) {
            h.released = true;
            self.out.push(Action::Free { session: ticket.0, block: h.block });
            self.release_rings();
        }
    }

    pub(super) fn put_done(&mut self, session: u64, seq: u64, result: Result<Stored>) {
        let Some(s) = self.sessions.get_mut(&session) else { return };
        let Some(Item::Record { bytes, .. }) = s.put.take() else { return };
        self.group.push(match result {
            Ok(stored) => Item::Stored { session, seq, bytes, stored },
            Err(error) => Item::Failed { session, seq, bytes, error },
        });
    }

    /// A step is listed: everything goes back to the ranks.
    fn listed(&mut self, step: i64, time: Option<f64>) {
        self.known.list(step);
        self.known.forsake(step);
        let Some(known) = self.steps.remove(&step) else { return };
        for ((session, _), h) in known.held.into_iter().filter(|(_, h)| !h.released) {
            self.out.push(Action::Free { session, block: h.block });
        }
        self.forget(known.kept);
        self.settle_pending(step, known.pending);
        self.figures.filled += known.filled;
        self.figures.listed(step, known.ended_at.map(|at| self.now.saturating_sub(at)));
        self.release_rings();
        self.act(Action::Durable { step, time });
    }

    pub(super) fn forget(&mut self, kept: Vec<Ticket>) {
        if !kept.is_empty() {
            self.act(Action::Forget(kept));
        }
    }

    /// Has what was read committed. While the disk is full, or fails, the group stays and is tried again
    /// later; everything else goes on meanwhile. Says whether there is something to wait for.
    pub(super) fn commit(&mut self) -> bool {
        if self.lost.is_some() {
            self.group.clear();
            return false;
        }
        if self.committing {
            return true;
        }
        // A catalog that could not be read, or written, is tried with what there is.
        if self.group.is_empty() && self.ailing.is_none() {
            self.settle_marks();
            return false;
        }
        if self.ailing.is_some_and(|a| self.now < a.next) {
            return false;
        }
        let group = std::mem::take(&mut self.group);
        let how = if group.iter().all(|item| self.is_farewell(item)) && !group.is_empty() {
            Commit::Silent
        } else if group.iter().all(Item::may_wait) {
            Commit::Lazy
        } else {
            Commit::Durable
        };
        self.committing = true;
        self.act(Action::Commit { group, how });
        true
    }

    pub(super) fn committed(&mut self, group: Vec<Item>, effects: Vec<Effect>) {
        self.committing = false;
        if self.ailing.take().is_some() {
            self.catalog_waits_for_room(false);
            // When its log could not be made durable the system may have forgotten what was committed
            // there before and not synchronised.
            self.act(Action::Settle);
            self.figures.catalog_waits = false;
            self.trouble_is_over();
        }
        for item in &group {
            if let Some((session, seq)) = item.source()
                && let Some(s) = self.sessions.get_mut(&session)
            {
                s.applied = s.applied.max(seq);
            }
            self.release_put_block(item);
        }
        self.settle_marks();
        effects.into_iter().for_each(|e| self.take_effect(e));
    }

    /// Whether this is the end of a session whose closing was answered.
    fn is_farewell(&self, item: &Item) -> bool {
        let Item::Closed { session, .. } = item else { return false };
        self.sessions.get(session).is_some_and(|s| s.clean)
    }

    pub(super) fn not_committed(&mut self, group: Vec<Item>, e: Error) {
        self.committing = false;
        let later = std::mem::replace(&mut self.group, group);
        self.group.extend(later);
        self.catalog_fails(e);
    }

    /// A full disk is waited for as long as it lasts, a failing one for a time. What the ranks were
    /// promised stays in their segments meanwhile, and afterwards.
    pub(super) fn catalog_fails(&mut self, e: Error) {
        if self.lost.is_some() {
            return;
        }
        let fault = Fault::of(&e);
        let since = self.ailing.map(|a| a.since).filter(|_| fault != Fault::NoRoom).unwrap_or(self.now);
        if fault == Fault::Never || self.now.saturating_sub(since) >= self.hiccup {
            return self.lose(e);
        }
        if self.ailing.is_none() {
            self.figures.catalog_waits = true;
            self.trouble(e.within("the catalog waits"));
        }
        let made_room = self.catalog_waits_for_room(fault == Fault::NoRoom);
        let pause = if made_room { Now::ZERO } else { self.patience };
        self.ailing = Some(Ailing { next: self.now + pause, since });
    }

    /// The block of a large data set is in its file, or never will be.
    fn release_put_block(&mut self, item: &Item) {
        let (Item::Stored { session, bytes, .. } | Item::Failed { session, bytes, .. }) = item else {
            return;
        };
        if let Ok((seq, Record::Put { payload: Payload::Block(block), .. })) = Record::decode(bytes)
            && self.sessions.contains_key(session)
        {
            let free = self.files.free((*session, seq), block);
            self.out.extend(free);
        }
    }

    /// Tells ranks how far they are applied and gives rings back.
    pub(super) fn settle_marks(&mut self) {
        for (n, s) in &mut self.sessions {
            // Nothing read is outstanding now but a large put or a deferred request.
            let held = s.put.as_ref().or(s.deferred.as_ref()).map(|i| i.seq() - 1);
            let seq = held.unwrap_or(s.seen);
            if seq > s.told {
                s.told = seq;
                self.out.push(Action::Applied { session: *n, seq });
            }
        }
        self.release_rings();
    }

    pub(super) fn release_rings(&mut self) {
        if !self.group.is_empty() || self.committing || self.lost.is_some() {
            return; // what is read and not committed stays
        }
        let (steps, files) = (&self.steps, &self.files);
        // A successor that finds what ranks gave of a step in the catalog is to find, too, why it was given up.
        let of_given_up = |item: &Item| match item {
            Item::Settled { step, .. } if !self.known.is_listed(*step) => Some(*step),
            _ => None,
        };
        let unsettled: BTreeSet<i64> = self.settled.iter().filter_map(of_given_up).collect();
        for (n, s) in &mut self.sessions {
            let (owes, hears) = (files.owes(*n), s.hears());
            let keeps = |step, seq| steps.get(&step).is_some_and(|k| k.keeps((*n, seq)));
            let is_reason = |step| hears && unsettled.contains(&step);
            let up_to = s.release(|step, seq| owes || is_reason(step) || keeps(step, seq));
            self.out.extend(up_to.map(|position| Action::Release { session: *n, position }));
        }
    }

    /// The run belongs to somebody else, its disk fails for good, or nobody wants to wait for it: nothing
    /// more is accepted, and whoever waits is told. What is not on disk stays in the segments.
    pub(super) fn lose(&mut self, e: Error) {
        if self.lost.is_some() {
            return;
        }
        let text = format!("the store of the run {} is lost: {}", self.dir, e.text());
        let why = Error::new(Code::ServerLost, text.as_str());
        let deferred = self.sessions.values_mut().filter_map(|s| s.deferred.take());
        let asked = deferred.chain(std::mem::take(&mut self.group)).filter(|i| i.ask().is_some());
        let asked: Vec<Ticket> = asked.filter_map(|i| i.source()).collect();
        let waiters = std::mem::take(&mut self.waiters).into_iter().map(|w| (w.session, w.seq));
        // Before the answers, so that who hears one has heard why.
        for session in self.sessions.keys() {
            self.out.push(Action::Late { session: *session, error: why.clone() });
        }
        for (session, seq) in waiters.chain(asked) {
            self.answer(session, seq, Err(why.clone()));
        }
        for s in self.sessions.values_mut() {
            (s.broken, s.hung) = (true, true);
        }
        self.act(Action::Trouble(text));
        self.act(Action::Lost(e.clone()));
        self.lost = Some(e);
        self.stopping = true;
    }

    pub(super) fn answer(&mut self, session: u64, seq: u64, result: Result<Json>) {
        self.act(Action::Answer { session, seq, result });
    }

    fn take_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Answer { session, seq, result } => self.answer(session, seq, result),
            Effect::Later { session, seq, ask } => self.later(session, seq, ask),
            Effect::Late { session, error, record } => self.not_kept(session, error, record),
            Effect::Version { session, seq, outcome } => {
                if let Some(s) = self.sessions.get_mut(&session) {
                    s.note_version(seq, outcome);
                }
            }
            Effect::DeleteFile(file) => self.act(Action::DeleteFile(file)),
            Effect::Remark { session, text } => self.act(Action::Remark { session, text }),
            Effect::Tell(tell) => self.act(Action::Tell(tell)),
            Effect::Closed { session } => self.remove_session(session),
            Effect::Listed { step, time } => self.listed(step, time),
            Effect::Partial(manifest) => self.kept_partial(manifest),
            Effect::Forsaken { step, file } => {
                self.known.forsake(step);
                self.act(Action::Dropped(file));
            }
            Effect::Unlisted { step, error } => self.spoil(step, error),
            Effect::WentBack { session, aside, is_first } => self.went_back(session, aside, is_first),
            Effect::Followed { session } => self.goes_along(session),
            Effect::Keeps => self.keeps = true,
            Effect::Dropped { step, file } => {
                self.known.unlist(step);
                self.act(Action::Dropped(file));
            }
            Effect::Outlived { step, file } => {
                self.known.outlive(step);
                self.act(Action::Dropped(file));
            }
        }
    }

    /// A rank went back to an earlier step.
    fn went_back(&mut self, session: u64, aside: Vec<i64>, is_first: bool) {
        aside.iter().for_each(|step| self.known.unlist(*step));
        self.known.forget_outlived();
        // Attempts at steps behind it that failed before are forgotten: all ranks begin them anew.
        if is_first {
            let size = self.sessions.values().map(|s| s.size).max().unwrap_or(0);
            self.pass_attempts(0..size);
            self.forget_memories();
            self.times_back += 1;
        }
        self.goes_along(session);
        self.act(Action::Aside(aside));
    }

    /// What a rank ends from here on is behind the step that the run went back to.
    fn goes_along(&mut self, session: u64) {
        if let Some(s) = self.sessions.get_mut(&session) {
            (s.times_back, s.ended) = (self.times_back, None);
        }
    }

    /// A request that the catalog alone cannot answer.
    pub(super) fn later(&mut self, session: u64, seq: u64, ask: Ask) {
        let what = match ask {
            Ask::Flush => Wait::All,
            Ask::WaitStep { step } => Wait::Step(step),
            Ask::Close { .. } => {
                self.tell_over();
                Wait::Close
            }
            Ask::Version { seq: of } => {
                let version = self.sessions.get(&session).map(|s| s.version(of));
                let closed = || Err(Error::new(Code::Closed, "the session is closed"));
                return self.answer(session, seq, version.unwrap_or_else(closed).map(|v| v.into()));
            }
            Ask::DropOldest => {
                let dropped = self.drop_oldest();
                return self.answer(session, seq, Ok(dropped.into()));
            }
            Ask::Stats => return self.act(Action::Stats { session, seq }),
            Ask::Overflow { bytes, spill, known } => {
                return self.act(Action::Overflow { session, seq, bytes, spill, known });
            }
            ask => return self.act(Action::Pass { session, seq, ask }),
        };
        self.waiters.push(Waiter { session, seq, what });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::super::scene::*;
    use super::*;
    use std::time::Duration;

    fn machine() -> Machine {
        Machine::new(birth())
    }

    /// What is told, as long as a time passes and nothing else happens.
    fn told(m: &mut Machine, time: Duration) -> Vec<String> {
        let mut out = std::mem::take(&mut m.out);
        let end = m.now + time;
        m.handle(end, Event::Turn, &mut out);
        let text = |action| if let Action::Trouble(text) = action { Some(text) } else { None };
        out.into_iter().filter_map(text).collect()
    }

    #[test]
    fn room_that_comes_and_goes_is_one_wait_with_one_end() {
        let mut m = machine();
        let full = || Error::new(Code::Full, "step 1 waits for room");
        m.trouble(full());
        assert_eq!(told(&mut m, PAUSE), ["step 1 waits for room"]);
        for _ in 0..5 {
            m.trouble_is_over();
            assert!(told(&mut m, PAUSE * (CALM - 1)).is_empty());
            m.trouble(full());
            assert!(told(&mut m, PAUSE * CALM * 9).is_empty(), "it waits still");
        }
        m.trouble_is_over();
        let end = told(&mut m, PAUSE * CALM);
        assert!(end.len() == 1 && end[0].contains("room on the disk again"), "{end:?}");
        assert!(told(&mut m, PAUSE * CALM).is_empty() && m.wake().is_none());
        m.trouble(full());
        assert_eq!(told(&mut m, PAUSE).len(), 1, "the next one");
    }

    #[test]
    fn a_disk_that_fails_after_it_was_full_is_told() {
        let mut m = machine();
        m.trouble(Error::new(Code::Full, "no room"));
        m.trouble_is_over();
        m.trouble(Error::new(Code::Io, "it fails"));
        assert_eq!(told(&mut m, PAUSE), ["no room", "it fails"]);
    }

    #[test]
    fn a_catalog_that_fails_is_tried_so_long_one_without_room_for_ever_and_one_that_is_damaged_once() {
        let mut scene = Scene::of(1);
        scene.put(1);
        for (pause, is_lost) in [(Duration::ZERO, false), (HICCUP - PAUSE, false), (PAUSE, true)] {
            scene.turn_after(pause);
            scene.commit_fails(Code::Io);
            assert_eq!(scene.is_lost(), is_lost, "at {:?}", scene.now);
        }
        for (code, is_lost) in [(Code::Full, false), (Code::Corrupt, true)] {
            let mut scene = Scene::of(1);
            scene.put(1);
            for pause in [Duration::ZERO, HICCUP * 9] {
                scene.turn_after(pause);
                if !scene.group().is_empty() {
                    scene.commit_fails(code);
                }
            }
            assert_eq!(scene.is_lost(), is_lost, "{code:?}");
        }
    }

    #[test]
    fn a_ring_is_given_back_when_what_was_read_of_it_is_in_the_catalog() {
        let mut scene = Scene::of(1);
        scene.begin(1, 1);
        scene.early(1, 1);
        let blocks = ["x", "y", "z"].map(|name| scene.block(1, 1, name));
        scene.turn();
        let id = scene.work().id;
        let written = |scene: &mut Scene, n: usize| {
            scene.feed(Event::Written { id, ticket: (1, blocks[n]) });
            (scene.freed().len(), scene.released().len())
        };
        scene.released();
        scene.put(1);
        assert_eq!(written(&mut scene, 0), (1, 0), "it is in no group");
        scene.turn();
        assert_eq!(written(&mut scene, 1), (1, 0), "the group is on its way");
        scene.commit();
        assert_eq!(scene.released().len(), 1);
        scene.put(1);
        scene.feed(Event::Lose(Error::new(Code::Io, "it fails")));
        scene.turn();
        assert_eq!(written(&mut scene, 2), (1, 0), "the store is lost");
    }
}
