//! Endings: steps that all ranks have ended, requests that wait for what is durable, sessions
//! whose rank is gone. (Which steps can never be ended says `absent`.)

use super::event::{Action, Key};
use super::item::Item;
use super::session::Session;
use super::steps::Step;
use super::{Machine, Wait, Waiter};
use crate::fault::Fault;
use crate::stepfile::Facts;
use forebay_types::{Code, Error, Result};

impl Machine {
    /// Requests that had to wait for steps before them go into a group when those are done.
    pub(super) fn wake_deferred(&mut self) {
        let going_back = |s: &Session| !s.hung && s.goes_back();
        let goes_back = self.sessions.values().any(going_back);
        let settled = !goes_back || self.dead_are_settled() && !self.awaits_memories();
        if settled {
            self.memories_since = None;
        }
        let is_over = |s: &&Session| s.hung && !s.is_client();
        let sessions: Vec<u64> = self.sessions.values().filter(is_over).map(|s| s.number).collect();
        let mut over = Some(Item::Over { sessions }).filter(|_| settled);
        for (n, s) in self.sessions.iter_mut().filter(|(_, s)| s.deferred.is_some()) {
            // Who died before it heard where to has not gone on there: the run goes back with those who live.
            if s.hung && s.goes_back() {
                s.deferred = None;
                continue;
            }
            // A step that this session itself has not ended would be waited for in vain.
            let mut before = self.steps.values().filter(|k| k.has(*n) && !k.is_open_in(*n)).peekable();
            if before.peek().is_none() {
                if settled || !s.goes_back() {
                    if s.goes_back() {
                        self.group.extend(over.take());
                    }
                    self.group.extend(s.deferred.take());
                }
            } else if s.hung && before.all(|k| !k.is_complete()) {
                // Nobody is there to hear the answer, and the steps may never come to their end.
                s.deferred = None;
            }
        }
    }

    /// Whether a rank goes back to the last complete step, and waits for those before it: then it counts
    /// which ranks live at this moment.
    pub fn asks_who_lives(&self) -> bool {
        self.sessions.values().any(Session::goes_back)
    }

    /// Somebody goes back: ranks count as dead or alive when they have been looked at, those on other hosts when they
    /// have been asked.
    pub(super) fn doubt_ranks(&mut self) {
        let is_ranks = |s: &&mut Session| !s.hung && s.after.is_none() && !s.is_client();
        let ranks = self.sessions.values_mut().filter(is_ranks);
        ranks.for_each(|s| s.unsure = true);
    }

    /// Whether all that dead ranks left is read and what they completed is listed, or given up: who goes
    /// back to the last complete step means theirs, too, and begins the steps behind it anew. Of a rank on another
    /// host it is to be known first whether it is dead.
    fn dead_are_settled(&self) -> bool {
        let brings = |s: &Session| s.after.is_some() && !s.hung && s.leaving.is_none();
        // Whoever goes back itself has just said so.
        let unsure = |s: &Session| s.unsure && !s.goes_back();
        let awaited = |s: &Session| s.hung || s.dead || unsure(s) || brings(s);
        let settled = |s: &Session| s.broken || s.settled || !awaited(s);
        let goes_on = |k: &Step| k.is_complete() || k.sealing.is_some();
        let mut ranks = self.sessions.values().filter(|s| !s.is_client());
        ranks.all(settled) && !self.steps.values().any(goes_on)
    }

    /// A step all ranks have ended goes to the drain with the parameters as they are now: all
    /// small records before its end are committed.
    pub(super) fn finish_complete_steps(&mut self) {
        if !self.group.is_empty() || self.committing || self.ailing.is_some() {
            return;
        }
        let is_due = |k: &&Step| !k.finishing && (k.is_complete() || k.sealing.is_some());
        let due: Vec<i64> = self.steps.values().filter(is_due).map(|k| k.step).collect();
        for step in due.into_iter().filter(|step| !self.is_arriving(*step)).collect::<Vec<_>>() {
            let Some(known) = self.steps.get_mut(&step) else { continue };
            if known.is_complete() && std::mem::take(&mut known.held_back) {
                match known.lay_anew() {
                    Ok(parts) => parts.into_iter().for_each(|part| self.files.push(step, part)),
                    Err(e) => {
                        self.spoil(step, e.within(format!("step {step} is given up")));
                        continue;
                    }
                }
            } else if known.sealing.is_some() {
                // If what it lacks comes before this is done, all of it is written anew.
                known.held_back = true;
                self.discard(Key::Step(step));
            }
            let Some(known) = self.steps.get_mut(&step) else { continue };
            known.finishing = true;
            let (time, heads, lacked) = (known.time(), known.heads(), known.lacked);
            self.act(Action::Describe { step, time, heads, lacked });
        }
    }

    /// A step without what it was taken with would be another one: it is asked again when the disk is well.
    pub(super) fn described(&mut self, step: i64, facts: Result<Box<Facts>>) {
        let Some(known) = self.steps.get_mut(&step) else { return };
        match facts {
            Ok(mut facts) if known.sealing.is_some() => match known.sealed_parts() {
                Ok(parts) => {
                    facts.partial = Some(Box::new(known.partial()));
                    self.files.partial(step, parts, facts);
                }
                Err(e) => self.spoil(step, e),
            },
            Ok(mut facts) => {
                known.ended_at = Some(self.now);
                facts.dt = known.time().and_then(|time| pace(&mut self.before, step, time));
                self.describe_file(step, &mut facts);
                self.files.complete(step, facts);
            }
            Err(e) => {
                known.finishing = false;
                self.catalog_fails(e);
            }
        }
    }

    pub(super) fn answer_waiters(&mut self) {
        let mut still = Vec::new();
        for w in std::mem::take(&mut self.waiters) {
            match self.outcome(&w) {
                Some(result) => {
                    self.answer(w.session, w.seq, result.map(|()| serde_json::Value::Null));
                    if let (Wait::Close, Some(s)) = (&w.what, self.sessions.get_mut(&w.session)) {
                        s.clean = true;
                    }
                }
                None => still.push(w),
            }
        }
        self.waiters = still;
        let idle = self.steps.is_empty() && self.group.is_empty();
        if idle && self.sessions.values().all(|s| s.put.is_none()) {
            let replies = self.flushers.drain(..).map(|ticket| Action::Reply { ticket, result: Ok(0) });
            self.out.extend(replies);
        }
    }

    fn outcome(&self, w: &Waiter) -> Option<Result<()>> {
        match w.what {
            Wait::Step(step) if self.steps.contains_key(&step) => {
                // Another attempt at a step that failed lacks this rank, which does not begin it while it waits.
                let rank = self.sessions.get(&w.session)?.rank;
                let apart = !self.steps.get(&step)?.has(w.session);
                self.failed.why_in(step, rank).filter(|_| apart).map(|why| Err(why.clone()))
            }
            Wait::Step(step) => {
                let given_up = self.failed.why(step).cloned();
                let never = || Error::new(Code::NotFound, format!("step {step} was never begun"));
                Some(match (given_up, self.known.is_listed(step)) {
                    (None, false) if !self.known.was_listed(step) => Err(never()),
                    (Some(why), false) => Err(why),
                    _ => self.disputed.get(&step).map_or(Ok(()), |why| Err(why.clone())),
                })
            }
            // A step that this session itself has not ended would be waited for in vain.
            Wait::All | Wait::Close => {
                let busy = |k: &Step| k.has(w.session) && !k.is_open_in(w.session);
                (!self.steps.values().any(busy)).then_some(Ok(()))
            }
        }
    }

    /// Sessions whose rank is gone and whose ring is read are closed when everything they left is
    /// durable; steps that cannot be completed any more are given up first.
    pub(super) fn end_sessions(&mut self) {
        if self.lost.is_some() {
            return; // what is in the segments is the successor's, also what was not read here
        }
        let newest = self.sessions.keys().next_back().copied();
        for s in self.sessions.values_mut().filter(|s| s.hung && s.mates.is_none()) {
            s.mates = newest;
        }
        self.tear_steps();
        self.release_leavers();
        let over = |s: &Session| (s.hung || s.clean) && s.is_read() && !s.closing;
        let over: Vec<u64> = self.sessions.iter().filter_map(|(n, s)| over(s).then_some(*n)).collect();
        for n in over {
            if let Some(s) = self.sessions.get_mut(&n) {
                s.settled = s.hung;
            }
            if !self.steps.values().any(|k| k.has(n)) && !self.files.owes(n) {
                let Some(s) = self.sessions.get_mut(&n) else { continue };
                s.closing = true;
                let Some(s) = self.sessions.get(&n) else { continue };
                let away = self.life_when_over(s);
                self.group.push(Item::Closed { session: n, seq: s.seen, away });
            }
        }
    }

    pub(super) fn remove_session(&mut self, n: u64) {
        let Some(s) = self.sessions.remove(&n) else { return };
        self.note_leaving(&s);
        self.note_dropped(&s);
        match self.life_when_over(&s) {
            Some(life) => _ = self.away.insert(n, (s.rank, life)),
            None => _ = self.away.remove(&n),
        }
        if let Some(origin) = s.after.filter(|_| s.clean && !s.refused_some && !s.lacks) {
            self.has_brought_all(origin);
        }
        self.waiters.retain(|w| w.session != n);
        self.act(Action::Leave { session: n, clean: s.clean });
    }

    /// Closings that have waited too long for room on the disk fail; nothing is lost by that.
    pub(super) fn refuse_closings(&mut self) {
        let late = self.waits.as_ref().filter(|(since, _)| self.now.saturating_sub(*since) >= self.closing);
        let Some(why) = late.map(|w| w.1.clone()) else { return };
        let dir = &self.dir;
        let text = match Fault::of(&why) == Fault::NoRoom {
            true => format!("{dir} cannot be closed, its disk is full; make room. {}", why.text()),
            false => format!("{dir} cannot be closed, its disk fails; mend that. {}", why.text()),
        };
        // One code for both: the run is as it was, and may be closed again.
        let e = Error::new(Code::Full, text);
        if self.stopping && self.lost.is_none() {
            return self.lose(e.within("what is missing is in shared memory until `forebay recover`"));
        }
        let closes = |i: &mut Item| i.is_closing();
        let deferred = self.sessions.values_mut().filter_map(|s| s.deferred.take_if(closes));
        let refused: Vec<Item> = deferred.chain(self.group.extract_if(.., closes)).collect();
        for (session, seq) in refused.iter().filter_map(Item::source) {
            if let Some(s) = self.sessions.get_mut(&session) {
                s.leaving = None;
            }
            self.refuse_ask(session, seq, e.clone());
        }
        self.refuse_ahead(&e, &why);
        self.waits = Some((self.now, why));
    }

    /// Whether nothing is on its way and no session is open.
    pub fn is_drained(&self) -> bool {
        // What is under way of a client that goes on elsewhere is brought to its end here.
        self.is_done_but_for(|s| s.left_on)
    }

    /// Whether nothing is under way of what dead programs left; clients whose owner died go on.
    pub fn is_recovered(&self) -> bool {
        self.is_done_but_for(|s| s.is_client() && s.adopted.is_some())
    }

    fn is_done_but_for(&self, goes_on: impl Fn(&Session) -> bool) -> bool {
        let rests = |s: &Session| goes_on(s) && s.put.is_none() && !self.files.owes(s.number);
        let is_idle = self.steps.is_empty() && self.group.is_empty() && !self.committing;
        is_idle && self.sessions.values().all(rests)
    }
}

/// The time since the last step that was completed, by as many steps as there are between; this one is the last now.
fn pace(before: &mut Option<(i64, f64)>, step: i64, time: f64) -> Option<f64> {
    let (from, then) = before.replace((step, time)).filter(|(from, _)| *from < step)?;
    let dt = (time - then) / (step as f64 - from as f64);
    dt.is_finite().then_some(dt)
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::super::scene::*;
    use super::*;
    use forebay_types::control::Ask;
    use std::time::Duration;

    fn replies(scene: &mut Scene) -> usize {
        scene.take(|a| matches!(a, Action::Reply { .. }).then_some(())).len()
    }

    #[test]
    fn whoever_waits_for_everything_waits_for_steps_and_for_what_came_meanwhile() {
        let mut scene = Scene::of(1);
        scene.put(1);
        scene.feed(Event::Flush { ticket: 1 });
        scene.turn();
        // The group is on its way, and the next one begins.
        scene.put(1);
        assert_eq!((scene.group().len(), replies(&mut scene)), (1, 0));
        scene.commit_once();
        assert_eq!(replies(&mut scene), 0);
        scene.commit();
        assert_eq!(replies(&mut scene), 1);
        scene.begin(1, 1);
        scene.feed(Event::Flush { ticket: 2 });
        scene.turn();
        assert_eq!(replies(&mut scene), 0);
        scene.end(1, 1, 0);
        scene.settle();
        assert_eq!(replies(&mut scene), 1);
    }

    #[test]
    fn a_flush_waits_for_the_steps_that_its_rank_has_ended_and_for_no_others() {
        let mut scene = Scene::of(2);
        let asks = |scene: &mut Scene, session| {
            let asked = scene.ask(session, &Ask::Flush);
            scene.settle();
            scene.answer(session, asked).is_some()
        };
        scene.begin(1, 1);
        assert!(asks(&mut scene, 1), "it would wait for itself");
        assert!(asks(&mut scene, 2), "it has no part in it");
        scene.end(1, 1, 0);
        assert!(!asks(&mut scene, 1));
        assert!(asks(&mut scene, 2));
    }

    #[test]
    fn a_run_does_not_go_back_with_a_rank_that_died_before_it_heard_where_to() {
        let mut scene = Scene::of(2);
        let goes_back = |scene: &mut Scene| {
            // Nobody says whether the other one lives.
            scene.feed(Event::Turn);
            let goes_back = scene.group().iter().any(Item::is_restart);
            scene.commit();
            goes_back
        };
        let asked = scene.ask(1, &Ask::Restart { tag: None, strict: false });
        assert!(!goes_back(&mut scene));
        scene.feed(Event::Hung { session: 1 });
        assert!(!goes_back(&mut scene));
        assert!(scene.answer(1, asked).is_none());
    }

    #[test]
    fn a_run_that_cannot_be_closed_says_whether_its_disk_is_full_or_fails() {
        for (code, says) in
            [(Code::Full, "its disk is full; make room"), (Code::Io, "its disk fails; mend that")]
        {
            let mut scene = Scene::of(1);
            let close = scene.ask(1, &Ask::Close { finished: true });
            for pause in [Duration::ZERO, CLOSING] {
                scene.turn_after(pause);
                scene.commit_fails(code);
            }
            scene.turn();
            let text = scene.refusal(1, close);
            assert!(text.contains(says), "{text}");
        }
    }
}
