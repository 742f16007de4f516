//! Ranks that are not there, and the steps that lack them.
//!
//! | a rank that has not ended a step | the step |
//! | --- | --- |
//! | lives | waits for it, however long; a rank that closes the run waits only for the time given, and the owner keeps its part |
//! | lives, and has ended a later one | is given up at once: numbers grow, so that rank never takes it |
//! | has closed the run, asks to close it, or is gone | is given up at once |
//! | is on another host, and its line is lost | is kept without it when the others have ended it ([`super::partial`]) |
//! | never opened the run | waits for it for the time given, once in the life of the run |
//!
//! A step that is given up is so as a whole; all ranks that took part hear of it, with what was missing.

use super::event::Action;
use super::item::Item;
use super::session::Session;
use super::steps::Step;
use super::{Machine, PAST};
use forebay_types::{Code, Error};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Most ranks that an error names.
const NAMED: usize = 8;
/// How long ranks that never came are waited for without a word.
const REMARK: Duration = Duration::from_secs(2);

/// Why a rank is absent, and what people may do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Absence {
    /// As it follows "rank 3 of 4": "is gone".
    pub how: String,
    /// What to do.
    pub remedy: String,
}

impl Absence {
    fn left(how: String) -> Absence {
        Absence { how, remedy: "let each rank end the step before it closes the run".into() }
    }

    /// Of a rank that was gone already when the owner came.
    pub fn before() -> Absence {
        Absence::left("has left the run".into())
    }

    fn away() -> Absence {
        Absence {
            how: "is gone, and what it put is in the memory of another host".into(),
            remedy: "`forebay recover` with the address of the run, said on that host, makes the step whole"
                .into(),
        }
    }

    fn passed(later: i64) -> Absence {
        Absence {
            how: format!("has taken step {later} and not this one"),
            remedy: "let every rank take the same snapshots".into(),
        }
    }

    fn never_came(how: String) -> Absence {
        Absence { how, remedy: ALONE.into() }
    }
}

/// For ranks that cannot reach the run's directory as its owner does.
pub const OVER_THE_NETWORK: &str = "ranks on several hosts write one run over the network: `forebay up --listen tcp://0.0.0.0:0 --runs DIRECTORY` on one of them, and the run's address fb://HOST:PORT/NAME in every rank";

/// For runs that fewer ranks write than the launcher has started.
const ALONE: &str = "a step needs every rank: start them all, or, if only one of them writes this run, open it there with rank=0, size=1 (rank and ranks of fb_open_opts)";

/// What a restart waits for ranks for.
const ELSEWHERE: &str = ": the memory of another host may have what makes later steps whole, and a rank that opens the run there brings it";

impl Machine {
    /// Gives up the steps that lack a rank which cannot end them any more.
    pub(super) fn tear_steps(&mut self) {
        if self.steps.is_empty() {
            return;
        }
        let over: BTreeMap<u64, bool> = self.sessions.iter().map(|(n, s)| (*n, s.is_over())).collect();
        self.look_for_late_ranks();
        let fates: Vec<(i64, Fate)> = self
            .steps
            .values()
            .filter(|k| !k.finishing && !k.is_complete())
            .filter_map(|k| Some((k.step, self.fate(k, &over)?)))
            .collect();
        for (step, fate) in fates {
            match fate {
                Fate::Torn(why) => self.tear(step, why),
                Fate::Away { ranks, waits, why } => self.lacks(step, ranks, waits, why),
            }
        }
    }

    /// Whether a step waits for ranks that have not opened the run.
    pub fn lacks_ranks(&self) -> bool {
        self.lacking_since.is_some()
    }

    /// The time for ranks that never came runs from the first step that waits for them.
    fn look_for_late_ranks(&mut self) {
        // This is done in each turn while a step is under way, so ranks are not sought for each of them.
        let came: BTreeSet<u32> =
            self.left.keys().copied().chain(self.sessions.values().map(|s| s.rank)).collect();
        let never_came = |r: &u32| !came.contains(r);
        let awaits = |k: &Step| k.is_awaited() && k.lacking().any(|r| never_came(&r));
        match (self.steps.values().any(awaits), self.lacking_since) {
            (true, None) => {
                self.lacking_since = Some(self.now);
                self.remarked = false;
            }
            (true, Some(since)) if self.now.saturating_sub(since) >= self.remarks_after() => {
                let lacking: BTreeSet<u32> = self.steps.values().flat_map(Step::lacking).collect();
                self.remark_absence(lacking.into_iter().filter(never_came).collect());
            }
            (false, Some(_)) if self.steps.values().all(|k| !k.lacking().any(|r| never_came(&r))) => {
                self.lacking_since = None;
            }
            _ => {}
        }
    }

    /// Tells the ranks that are there, once, whom they wait for.
    fn remark_absence(&mut self, ranks: Vec<u32>) {
        if ranks.is_empty() || std::mem::replace(&mut self.remarked, true) {
            return;
        }
        let size = self.sessions.values().map(|s| s.size).max().unwrap_or_default();
        self.remark(&ranks, size, "a step", &format!("; {ALONE}"));
    }

    /// After this time without a word ranks are told whom they wait for.
    fn remarks_after(&self) -> Duration {
        REMARK.min(self.late_ranks / 2)
    }

    /// Tells the ranks that are there what waits for whom, and what more there is to it.
    fn remark(&mut self, ranks: &[u32], size: u32, what: &str, more: &str) {
        let text = format!(
            "{}: {} of {size} did not open this run yet, and {what} waits for it ({} s at most, FOREBAY_LATE_RANKS){more}",
            self.dir,
            named(ranks),
            self.late_ranks.as_secs_f64()
        );
        for s in self.sessions.values().filter(|s| s.hears() && !s.is_client()) {
            self.out.push(Action::Remark { session: s.number, text: text.clone() });
        }
    }

    /// A rank that closes the run waits for living ones only so long: it is let go with an error, its
    /// part of the steps stays here, and they are listed when the others have ended them.
    pub(super) fn release_leavers(&mut self) {
        let awaited = |n: u64| self.steps.values().find(|k| k.has(n) && !k.is_complete());
        let late = |s: &&Session| {
            s.leaving.is_some_and(|t| self.now.saturating_sub(t) >= self.late_ranks) && s.deferred.is_some()
        };
        let found: Vec<(u64, Error)> = self
            .sessions
            .values()
            .filter(late)
            .filter_map(|s| Some((s.number, self.still_awaited(awaited(s.number)?))))
            .collect();
        for (n, why) in found {
            let close = self.sessions.get_mut(&n).and_then(|s| s.deferred.take());
            if let Some((session, seq)) = close.as_ref().and_then(Item::source) {
                self.answer(session, seq, Err(why));
            }
        }
    }

    /// Whether somebody goes back while the memory of another host may have what makes steps whole, and not all ranks of
    /// this start have come: each brings what is left on its host before it opens the run. Ranks are waited for as by
    /// a step.
    pub(super) fn awaits_memories(&mut self) -> bool {
        let has_more = |s: &Session| self.life_when_over(s).is_some_and(|life| life != PAST);
        let is_away =
            self.away.values().any(|(_, life)| *life != PAST) || self.sessions.values().any(has_more);
        let goes_back = self.sessions.values().find(|s| !s.hung && s.goes_back());
        let Some(s) = goes_back.filter(|_| is_away) else { return false };
        let (life, size) = (self.life_of(s.number), s.size);
        let mates = self.sessions.values().filter(|s| s.after.is_none() && self.life_of(s.number) == life);
        let came: BTreeSet<u32> = mates.map(|s| s.rank).chain(self.left.keys().copied()).collect();
        let lacking: Vec<u32> = (0..size).filter(|rank| !came.contains(rank)).collect();
        let (since, said) = *self.memories_since.get_or_insert((self.now, false));
        let waited = self.now.saturating_sub(since);
        if lacking.is_empty() || waited >= self.late_ranks {
            return false;
        }
        if !said && waited >= self.remarks_after() {
            self.memories_since = Some((since, true));
            self.remark(&lacking, size, "a restart", ELSEWHERE);
        }
        true
    }

    fn still_awaited(&self, k: &Step) -> Error {
        let ranks: Vec<u32> = k.lacking().collect();
        let pids: Vec<String> = self
            .sessions
            .values()
            .filter(|s| ranks.contains(&s.rank))
            .take(NAMED)
            .map(|s| s.pid.to_string())
            .collect();
        Error::new(
            Code::Timeout,
            format!(
                "step {} waits for {} of {} (process {}) since {} s; what this rank put is safe with the owner of the run, which lists the step when they end it and gives it up when they leave",
                k.step,
                named(&ranks),
                k.size,
                pids.join(", "),
                self.late_ranks.as_secs_f64()
            ),
        )
    }

    /// What becomes of a step that cannot be completed now; nothing while it waits for ranks that live.
    fn fate(&self, k: &Step, over: &BTreeMap<u64, bool>) -> Option<Fate> {
        // Sessions of a later life of the program end no steps of this one.
        let mates = k.sessions().iter().filter_map(|n| self.sessions.get(n)?.mates).min().unwrap_or(u64::MAX);
        let mut why: BTreeMap<Absence, Vec<u32>> = BTreeMap::new();
        let (mut ranks, mut waits, mut gone, mut left) = (BTreeMap::new(), false, false, false);
        for rank in k.lacking() {
            let reason = match self.lack(k, rank, mates, over) {
                Lack::Waits => {
                    waits = true;
                    continue;
                }
                Lack::Gone(reason) => {
                    (gone, left) = (true, true);
                    reason
                }
                Lack::Passed(later) => {
                    gone = true;
                    Absence::passed(later)
                }
                Lack::Away(origin) => {
                    ranks.insert(rank, origin);
                    Absence::away()
                }
            };
            why.entry(reason).or_default().push(rank);
        }
        if why.is_empty() {
            return None;
        }
        // Others may come with who brings the rest of a session, which has all here when it asks to close.
        let brings = |n: &u64| self.sessions.get(n).is_some_and(|s| s.after.is_some() && !s.is_over());
        waits |= k.sessions().iter().any(brings);
        // What of an early step is not here is not in the memory of its rank either.
        let is_torn = gone || k.has_early();
        let text = |what: String| {
            let reasons: Vec<String> =
                why.iter().map(|(a, ranks)| format!("{} of {} {}", named(ranks), k.size, a.how)).collect();
            let remedies: BTreeSet<&str> = why.keys().map(|a| a.remedy.as_str()).collect();
            let remedies: Vec<&str> = remedies.into_iter().collect();
            let code = if left || !gone { Code::ServerLost } else { Code::Conflict };
            Error::new(code, format!("{what}: {}; {}", reasons.join(", "), remedies.join("; ")))
        };
        Some(match is_torn {
            true => Fate::Torn(text(format!("step {} is given up", k.step))),
            false => {
                let file = crate::layout::partial_file(k.step);
                let why = text(format!("step {} is not whole, what is here of it is kept in {file}", k.step));
                Fate::Away { ranks, waits, why }
            }
        })
    }

    /// Whether a rank may still end this step. `mates` is the last session of the life of the program that began
    /// the step.
    fn lack(&self, k: &Step, rank: u32, mates: u64, over: &BTreeMap<u64, bool>) -> Lack {
        let is_over = |n: u64| over.get(&n).copied().unwrap_or(true);
        let away = |origin: u64| match self.is_brought(origin) {
            true => Lack::Waits,
            false if self.brought.contains(&origin) => Lack::Gone(Absence::left("has not ended it".into())),
            false => Lack::Away(origin),
        };
        if let Some(origin) = k.missing.get(&rank) {
            return away(*origin);
        }
        // Whoever had left before the first of them came may come again.
        let since = if k.sessions().iter().all(|n| *n >= self.since) { self.since } else { 0 };
        let life = self.life_of_step(k);
        let of_life = || {
            let ranks = self.sessions.values().filter(|s| !s.is_client());
            let all = ranks.filter(|s| (since..=mates).contains(&s.number));
            all.filter(|s| self.life_of(s.number) == life)
        };
        let of_rank = || of_life().filter(|s| s.rank == rank && !s.is_unused());
        let (session, present) = match k.session_of(rank) {
            Some(n) => (self.sessions.get(&n), !is_over(n)),
            None => (of_rank().next_back(), of_rank().any(|s| !is_over(s.number))),
        };
        if present {
            let passed = k.passed.get(&rank).filter(|_| k.session_of(rank).is_none());
            return passed.map_or(Lack::Waits, |later| Lack::Passed(*later));
        }
        if let Some(s) = session {
            // What brings the rest of a session and has nothing more of this step leaves it as it was.
            return match may_come_again(s) || k.lacked {
                true => away(s.origin()),
                false => Lack::Gone(absence_of(s)),
            };
        }
        let left = self.left.get(&rank);
        if let Some(origin) = self.away_of(k, rank).filter(|n| left.is_none_or(|(_, last)| last <= n)) {
            return away(origin);
        }
        if let Some((absence, _)) = left {
            return Lack::Gone(absence.clone());
        }
        // Of a session whose rest is brought it is known who else may have something.
        let is_brought = |n: &u64| self.sessions.get(n).is_some_and(|s| s.after.is_some());
        if k.sessions().iter().all(is_brought) && k.origins().all(|n| self.away.contains_key(&n)) {
            return Lack::Gone(Absence::left("has not ended it".into()));
        }
        // Somebody must be there for whom it is worth waiting.
        let watched = of_life().any(|s| !s.hung) && !self.stopping;
        let over = self.lacking_since.is_some_and(|t| self.now.saturating_sub(t) >= self.late_ranks);
        match watched {
            true if !over => Lack::Waits,
            true => Lack::Gone(Absence::never_came(format!(
                "did not open the run within {} s",
                self.late_ranks.as_secs_f64()
            ))),
            false => Lack::Gone(Absence::never_came("did not open the run".into())),
        }
    }

    /// The last session of a rank whose memory on another host may have its part of a step.
    fn away_of(&self, k: &Step, rank: u32) -> Option<u64> {
        let life = self.life_of_step(k);
        let is = |(n, (of, _)): &(&u64, &(u32, u64))| *of == rank && self.life_of(**n) == life;
        self.away.iter().rev().find(is).map(|(session, _)| *session)
    }

    /// Whether the rest of a session is on its way here.
    fn is_brought(&self, origin: u64) -> bool {
        self.sessions.values().any(|s| s.after == Some(origin) && !s.is_over())
    }

    /// A rank has ended a step: it takes none before it any more, for numbers grow. (One that failed before is free, and
    /// may be taken once more.)
    pub(super) fn passes(&mut self, session: u64, step: i64) {
        let Some(s) = self.sessions.get_mut(&session).filter(|s| s.after.is_none()) else { return };
        s.ended = s.ended.max(Some(step));
        let (rank, times_back) = (s.rank, s.times_back);
        let is_left_out = |k: &&Step| {
            let lacks = !k.finishing && k.session_of(rank).is_none() && !self.failed.has(k.step);
            lacks && k.times_back == times_back && self.life_of_step(k) == self.life_of(session)
        };
        let left_out: Vec<i64> =
            self.steps.range(..step).map(|(_, k)| k).filter(is_left_out).map(|k| k.step).collect();
        for number in left_out {
            self.steps.get_mut(&number).map(|k| k.passed.entry(rank).or_insert(step));
        }
    }

    /// Ranks beside a session that have ended a later step than this one, which it begins only now.
    pub(super) fn who_passed(&self, step: i64, session: u64) -> BTreeMap<u32, i64> {
        let (life, times_back) = (self.life_of(session), self.sessions.get(&session).map(|s| s.times_back));
        let is_beside = |s: &Session| Some(s.times_back) == times_back && self.life_of(s.number) == life;
        let are_on = |s: &&Session| s.after.is_none() && !s.hung && is_beside(s);
        let later = |s: &Session| Some((s.rank, s.ended.filter(|ended| *ended > step)?));
        match self.failed.has(step) {
            true => BTreeMap::new(),
            false => self.sessions.values().filter(are_on).filter_map(later).collect(),
        }
    }

    /// A rank is about to come, and no other one lives: who has left before is awaited as if it had never come.
    pub(super) fn come_again(&mut self, session: u64) {
        self.left.clear();
        (self.since, self.lacking_since, self.remarked) = (session, None, false);
    }

    /// Whether a session of that rank is there that is a rank's own.
    fn holds(&self, rank: u32) -> bool {
        self.sessions.values().any(|s| s.rank == rank && s.after.is_none())
    }

    /// A rank was seen to do something else than to open this run.
    pub(super) fn note_absent(&mut self, rank: u32, absence: Absence) {
        if !self.sessions.values().any(|s| s.rank == rank) {
            self.left.insert(rank, (absence, u64::MAX));
        }
    }

    /// A rank's session has ended: remembered for the steps to come.
    pub(super) fn note_leaving(&mut self, s: &Session) {
        if s.is_client() {
            return;
        }
        // Who brings the rest of a session is none of the ranks.
        if let Some(origin) = s.after {
            if self.are_of_this_life(std::iter::once(origin)) && !self.holds(s.rank) {
                self.left.insert(s.rank, (Absence::left("has not ended it".into()), origin));
            }
            return;
        }
        let of_this_life = s.number >= self.since && (!s.recovered || s.has_living_mates);
        if of_this_life && !s.is_unused() {
            self.left.insert(s.rank, (absence_of(s), s.number));
        }
        // A later session of that rank begins its own attempts.
        if !self.sessions.values().any(|other| other.rank == s.rank) {
            self.pass_attempts(std::iter::once(s.rank));
        }
    }
}

/// What becomes of a step that lacks ranks.
enum Fate {
    Torn(Error),
    /// These ranks have it in the memory of another host; it waits for others, or is kept as it is.
    Away {
        ranks: BTreeMap<u32, u64>,
        waits: bool,
        why: Error,
    },
}

/// What a step lacks a rank for.
enum Lack {
    Waits,
    /// Its rank lives and has ended this later step.
    Passed(i64),
    Gone(Absence),
    /// The memory of this session has it, on another host.
    Away(u64),
}

/// Whether the memory of a session on another host may have what is not here: its line is lost, and not all that it
/// put has come, as far as it has said so.
pub(super) fn may_come_again(s: &Session) -> bool {
    s.remote && s.hung && (!s.clean || s.lacks)
}

fn absence_of(s: &Session) -> Absence {
    match s.leaving.is_some() || s.clean {
        true => Absence::left("closed the run without it".into()),
        false => Absence {
            how: format!("is gone (process {})", s.pid),
            remedy: "start that rank again: it goes on from the last step that all have".into(),
        },
    }
}

/// "rank 3", "ranks 1, 2 and 7".
fn named(ranks: &[u32]) -> String {
    let words: Vec<String> = ranks.iter().take(NAMED).map(u32::to_string).collect();
    match (words.as_slice(), ranks.len() - words.len()) {
        ([one], 0) => format!("rank {one}"),
        ([most @ .., last], 0) => format!("ranks {} and {last}", most.join(", ")),
        (all, more) => format!("ranks {} and {more} more", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::*;
    use super::super::{Adopted, Event};
    use super::*;
    use forebay_types::control::Ask;

    #[test]
    fn ranks_are_named_as_people_do_and_not_by_the_thousand() {
        assert_eq!(named(&[3]), "rank 3");
        assert_eq!(named(&[1, 2, 7]), "ranks 1, 2 and 7");
        let many: Vec<u32> = (0..1000).collect();
        assert!(named(&many).ends_with("6, 7 and 992 more"), "{}", named(&many));
    }

    /// Ends a step of rank 0 that has nothing in it.
    fn ends(scene: &mut Scene, step: i64) {
        scene.begin(1, step);
        scene.end(1, step, 0);
        scene.turn();
    }

    fn remarks(scene: &mut Scene) -> Vec<String> {
        scene.take(|a| if let Action::Remark { text, .. } = a { Some(text.clone()) } else { None })
    }

    #[test]
    fn ranks_that_never_came_are_named_after_a_while_and_waited_for_once() {
        let mut scene = Scene::born(birth());
        scene.enter(session(1, 0, 3));
        scene.enter(session(2, 2, 3));
        ends(&mut scene, 1);
        assert!(scene.m.lacks_ranks() && remarks(&mut scene).is_empty());
        scene.turn_after(REMARK);
        let said = remarks(&mut scene);
        assert!(said.len() == 2 && said[0].contains("rank 1 of 3 did not open this run"), "{said:?}");
        scene.turn_after(LATE_RANKS - REMARK - PAUSE);
        assert!(scene.late().is_empty());
        scene.turn_after(PAUSE);
        let late = scene.late();
        assert!(late.len() == 1 && late[0].1.contains("did not open the run within 10 s"), "{late:?}");
        scene.commit();
        // The time is over for the steps behind it, too.
        scene.begin(1, 2);
        scene.turn();
        scene.end(1, 2, 0);
        scene.turn();
        assert_eq!(scene.late().len(), 1);
        scene.commit();
        scene.begin(1, 3);
        scene.enter(session(3, 1, 3));
        scene.turn();
        assert!(!scene.m.lacks_ranks(), "all are there");
    }

    #[test]
    fn a_step_waits_for_a_rank_that_lives_and_has_not_begun_it_and_not_for_one_that_is_gone() {
        let mut scene = Scene::of(2);
        ends(&mut scene, 1);
        scene.turn_after(LATE_RANKS * 100);
        assert!(scene.late().is_empty());
        scene.hang(2);
        scene.turn();
        let late = scene.late();
        assert!(late.len() == 1 && late[0].1.contains("rank 1 of 2 is gone (process 101)"), "{late:?}");
    }

    #[test]
    fn a_step_that_is_begun_when_another_rank_has_ended_a_later_one_is_given_up_when_it_is_ended() {
        let mut scene = Scene::of(2);
        scene.begin(2, 5);
        scene.end(2, 5, 0);
        ends(&mut scene, 4);
        let late = scene.late();
        assert!(
            late.len() == 1 && late[0].1.contains("rank 1 of 2 has taken step 5 and not this one"),
            "{late:?}"
        );
        // That one goes on waiting, and comes to its end.
        ends(&mut scene, 5);
        scene.settle();
        let asked = scene.ask(2, &Ask::Flush);
        scene.settle();
        assert!(scene.late().is_empty() && scene.answer(2, asked).is_some());
    }

    #[test]
    fn nobody_waits_for_ranks_that_never_came_when_nobody_is_there() {
        let mut scene = Scene::born(birth());
        scene.enter(recovered(1, 0, 2));
        ends(&mut scene, 1);
        scene.settle();
        assert_eq!(scene.closed(), [1]);
    }

    #[test]
    fn an_owner_that_ends_waits_for_no_rank_that_never_came() {
        let mut scene = Scene::born(birth());
        scene.feed(Event::Close { clients_go_on: false });
        // It was on its way already.
        scene.enter(session(1, 0, 2));
        ends(&mut scene, 1);
        let late = scene.late();
        assert!(late.len() == 1 && late[0].1.contains("rank 1 of 2 did not open the run; "), "{late:?}");
    }

    #[test]
    fn a_rank_that_closes_hears_which_step_living_ranks_have_not_ended() {
        let mut scene = Scene::of(2);
        for session in [1, 2] {
            scene.begin(session, 3);
            scene.end(session, 3, 0);
        }
        scene.begin(1, 4);
        scene.begin(2, 4);
        scene.end(1, 4, 0);
        let close = scene.ask(1, &Ask::Close { finished: true });
        scene.turn_after(LATE_RANKS - PAUSE);
        assert!(scene.answer(1, close).is_none());
        scene.turn_after(PAUSE);
        let text = scene.refusal(1, close);
        assert!(text.contains("step 4 waits for rank 1 of 2 (process 101)"), "{text}");
    }

    #[test]
    fn a_rank_that_asked_to_close_the_run_and_still_waits_has_closed_it_for_the_others() {
        let mut scene = Scene::of(2);
        scene.begin(2, 2);
        scene.end(2, 2, 0);
        scene.ask(2, &Ask::Close { finished: true });
        ends(&mut scene, 1);
        let late = scene.late();
        assert!(
            late.iter().any(|l| l.0 == 1 && l.1.contains("rank 1 of 2 closed the run without it")),
            "{late:?}"
        );
    }

    #[test]
    fn ranks_that_left_the_program_before_are_waited_for_in_the_next_one() {
        let mut scene = Scene::of(2);
        for n in [1, 2] {
            scene.ask(n, &Ask::Close { finished: true });
        }
        scene.settle();
        assert_eq!(scene.closed(), [1, 2]);
        scene.feed(Event::Alone { session: 3, life: 3 });
        scene.enter(session(3, 0, 2));
        scene.begin(3, 1);
        scene.end(3, 1, 0);
        scene.turn();
        assert!(scene.late().is_empty());
    }

    #[test]
    fn an_end_that_is_noted_late_is_none_of_the_next_program() {
        let mut scene = Scene::of(2);
        (1..=2).for_each(|n| scene.hang(n));
        scene.turn();
        scene.feed(Event::Alone { session: 3, life: 3 });
        scene.enter(session(3, 0, 2));
        scene.commit();
        assert_eq!(scene.closed(), [1, 2]);
        scene.begin(3, 1);
        scene.end(3, 1, 0);
        scene.turn();
        assert!(scene.late().is_empty());
    }

    /// Whether a step of rank 0 waits for rank 1 when that session of it, and another one of rank 0, are over.
    fn waits_behind(of_rank_1: Session, of_rank_0: Session) -> bool {
        let mut scene = Scene::born(birth());
        let n = of_rank_0.number;
        scene.enter(of_rank_1);
        scene.feed(Event::Seen { session: 2, lives: true, left: true, unsure: false });
        scene.settle();
        assert_eq!(scene.closed(), [2]);
        scene.enter(of_rank_0);
        scene.begin(n, 1);
        scene.end(n, 1, 0);
        scene.turn();
        scene.late().is_empty()
    }

    #[test]
    fn of_those_whom_a_dead_owner_left_only_the_mates_of_living_ranks_have_left_the_run() {
        assert!(waits_behind(recovered(2, 1, 2), session(4, 0, 2)), "it may start anew");
        let mate = Session { has_living_mates: true, ..recovered(2, 1, 2) };
        assert!(!waits_behind(mate, adopted(1, 0, 2, 0)));
        let opens = Adopted { replay_end: 0, waiting: Some(Duration::ZERO) };
        let had_not_begun = Session { adopted: Some(opens), ..session(2, 1, 2) };
        assert!(waits_behind(had_not_begun, adopted(1, 0, 2, 0)), "it opens the run again");
    }
}
