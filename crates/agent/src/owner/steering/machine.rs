//! The state machine itself.

use super::words::{Ack, Action, GONE, LogEntry, Seen};
use forebay_types::watch::{Act, Declare, Parameter, Phase, State};
use forebay_types::{Code, Error, Result, limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod successor;

/// Most acts that wait at a time; more are refused.
const WAITING: usize = 256;

/// One rank of the run, as far as steering knows it.
#[derive(Debug, Default)]
struct Rank {
    step: Option<i64>,
    /// Which of its loops it is in; where that began, where it ends by itself, how far its heads are apart.
    number: u64,
    start: i64,
    end: i64,
    stride: i64,
    /// Its heads keep the states whose numbers this divides; 0: none by themselves.
    every: i64,
    /// Its loop has ended: it carries nothing out any more.
    over: bool,
    /// Gate in force; `None` is open. Confirmed, or tentative while acts are forming.
    gate: Option<i64>,
    /// It came from a dead owner, and waits before its step since.
    waits: bool,
    /// Numbers of confirmed acts that it has not carried out, oldest first.
    pending: VecDeque<u64>,
}

impl Rank {
    /// One whose gate is ahead of it again leaves the head where it waits any moment.
    fn set_gate(&mut self, gate: Option<i64>) {
        self.gate = gate;
        self.waits &= gate.is_some_and(|gate| self.step.is_some_and(|at| gate <= at));
    }

    /// In what the loop of a rank differs from that of another one, and what is to be done.
    fn differs(&self, rank: u32, by: u32, other: &Rank) -> Option<String> {
        // An act would take place at another step in each.
        if other.stride != self.stride || (other.start - self.start) % self.stride != 0 {
            return Some(format!(
                "rank {rank} loops from {} with stride {}, and rank {by} from {} with stride {}: their heads never meet; give all ranks the same start and stride",
                self.start, self.stride, other.start, other.stride
            ));
        }
        // One that some ranks keep and others do not would be given up.
        if other.every != self.every {
            let keeps = |every: i64| match every {
                0 => "none by itself".to_owned(),
                every => format!("those that {every} divides"),
            };
            return Some(format!(
                "rank {rank} keeps of the states of its loop {}, and rank {by} {}: a snapshot is complete when all ranks have taken it; say what Save does with the same every in all ranks, before the loop",
                keeps(self.every),
                keeps(other.every)
            ));
        }
        let ends = [self.end, other.end];
        (ends[0] != ends[1] && !ends.contains(&i64::MAX)).then(|| {
            format!(
                "rank {rank} loops to {}, and rank {by} to {}: the states behind the lesser one would never be complete; give all ranks the same number at which the loop ends",
                ends[0], ends[1]
            )
        })
    }
}

/// An act on its way.
#[derive(Debug)]
struct ActUnderWay {
    id: u64,
    who: String,
    at: f64,
    act: Act,
    gate: i64,
    done: BTreeSet<u32>,
    faults: Vec<String>,
    words: String,
    told: bool,
}

impl ActUnderWay {
    fn new(id: u64, who: &str, at: f64, act: Act) -> ActUnderWay {
        ActUnderWay {
            id,
            who: who.to_owned(),
            at,
            act,
            gate: 0,
            done: BTreeSet::new(),
            faults: Vec::new(),
            words: String::new(),
            told: false,
        }
    }

    /// What whoever looks is told of it: the one place where that is said.
    fn ack(&self, phase: Phase, step: Option<i64>, text: String) -> Action {
        Action::Ack(Ack { id: self.id, who: self.who.clone(), act: self.act.clone(), phase, step, text })
    }
}

/// Where the run holds, and which act said so.
#[derive(Clone, Copy, Debug)]
struct Hold {
    step: i64,
    by: u64,
    /// Steps counted from the act; 0 for Stop.
    after: i64,
}

/// The steering of one run.
#[derive(Debug)]
pub struct Steering {
    size: u32,
    ranks: BTreeMap<u32, Rank>,
    left: BTreeSet<u32>,
    parameters: BTreeMap<String, Parameter>,
    commands: BTreeSet<String>,
    forming: Vec<ActUnderWay>,
    tentative: Option<i64>,
    acts: VecDeque<ActUnderWay>,
    last_gate: i64,
    hold: Option<Hold>,
    quit: bool,
    lost: bool,
    /// Ranks of a dead owner are not steered yet; those of them that have not come.
    left_over: bool,
    awaited: BTreeSet<u32>,
    shown: Option<(State, Option<i64>)>,
}

impl Steering {
    /// Steering of a run of `size` ranks, none of which has come.
    pub fn new(size: u32) -> Steering {
        Steering {
            size: size.max(1),
            ranks: BTreeMap::new(),
            left: BTreeSet::new(),
            parameters: BTreeMap::new(),
            commands: BTreeSet::new(),
            forming: Vec::new(),
            tentative: None,
            acts: VecDeque::new(),
            last_gate: 0,
            hold: None,
            quit: false,
            lost: false,
            awaited: BTreeSet::new(),
            left_over: false,
            shown: None,
        }
    }

    /// The declared parameters with the values that all ranks have confirmed.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.values()
    }

    /// Whether something is under way that only the steps of the ranks can tell.
    pub fn in_motion(&self) -> bool {
        matches!(self.state(), State::Holding | State::Stepping | State::Saving)
            || self.tentative.is_some()
            || self.acts.iter().any(|a| !a.told)
    }

    /// Whether the run was told to end, or is about to be.
    pub fn ending(&self) -> bool {
        self.quit || self.forming.iter().any(|a| matches!(a.act, Act::Quit | Act::End { .. }))
    }

    /// A rank has opened the run. The first one begins a new life of the run.
    pub fn join(&mut self, rank: u32, size: u32, out: &mut Vec<Action>) {
        if self.ranks.is_empty() {
            *self = Steering::new(size);
        }
        self.left.remove(&rank);
        let pending: VecDeque<u64> =
            self.acts.iter().filter(|a| !a.done.contains(&rank)).map(|a| a.id).collect();
        for id in &pending {
            if let Some(a) = self.acts.iter().find(|a| a.id == *id) {
                out.push(Action::Post { rank, id: a.id, step: a.gate, act: a.act.clone() });
            }
        }
        self.ranks.insert(rank, Rank { pending, ..Rank::default() });
        let step = self.gate_of(rank);
        self.ranks.entry(rank).and_modify(|r| r.gate = step);
        out.push(Action::Gate { rank, step });
        self.show(out);
    }

    /// A rank has closed the run, or was lost.
    pub fn leave(&mut self, rank: u32, lost: bool, out: &mut Vec<Action>) {
        if self.ranks.remove(&rank).is_none() {
            return;
        }
        self.left.insert(rank);
        self.lost |= lost;
        self.awaited.remove(&rank);
        if self.ranks.is_empty() {
            self.give_up(if lost { GONE } else { "the run ended before it" }, out);
        } else {
            self.settle(out);
        }
        self.show(out);
    }

    /// A rank has declared something. All ranks declare the same; the word of the first one counts.
    pub fn declare(&mut self, rank: u32, declare: &Declare, out: &mut Vec<Action>) {
        let first = self.ranks.keys().next().is_none_or(|r| rank <= *r);
        match declare {
            Declare::Parameter(p) if first || !self.parameters.contains_key(&p.name) => {
                self.parameters.insert(p.name.clone(), p.clone());
            }
            Declare::Command { name } => {
                self.commands.insert(name.clone());
            }
            Declare::Progress { start, end, stride, number, every } => {
                if let Some(state) = self.ranks.get_mut(&rank) {
                    (state.number, state.start, state.every) = (*number, *start, *every);
                    (state.end, state.stride) = (end.unwrap_or(i64::MAX), (*stride).max(1));
                    self.compare(rank, out);
                    self.begin_loop(rank, out);
                }
            }
            Declare::Over { step } => self.end_loop(rank, *step, out),
            _ => {}
        }
    }

    /// A rank that loops otherwise than another one in the same loop is told so at its beginning.
    fn compare(&self, rank: u32, out: &mut Vec<Action>) {
        let Some(one) = self.ranks.get(&rank) else { return };
        let mut others = self.ranks.iter().filter(|(r, other)| **r != rank && other.number == one.number);
        if let Some(text) = others.find_map(|(by, other)| one.differs(rank, *by, other)) {
            out.push(Action::Differs { rank, text });
        }
    }

    /// A rank that came to the end of a loop begins another one.
    fn begin_loop(&mut self, rank: u32, out: &mut Vec<Action>) {
        let Some(state) = self.ranks.get_mut(&rank).filter(|r| r.over) else { return };
        (state.over, state.step) = (false, None);
        for a in self.acts.iter().filter(|a| !a.done.contains(&rank)) {
            state.pending.push_back(a.id);
            out.push(Action::Post { rank, id: a.id, step: a.gate, act: a.act.clone() });
        }
        self.set_gates(out);
        self.show(out);
    }

    /// A rank has come to the end of its loop. What waited for it goes on without it; when all are
    /// there, what was not carried out never will be.
    fn end_loop(&mut self, rank: u32, step: i64, out: &mut Vec<Action>) {
        let Some(state) = self.ranks.get_mut(&rank) else { return };
        (state.over, state.step) = (true, Some(step));
        state.pending.clear();
        if self.is_over() {
            self.give_up("the loop ended before it", out);
        } else {
            self.settle(out);
        }
        self.set_gates(out);
        self.show(out);
    }

    /// Whether every rank has come to the end of its loop.
    pub fn is_over(&self) -> bool {
        !self.ranks.is_empty() && self.ranks.values().all(|r| r.over)
    }

    /// Somebody wants something that [`Steering::check`] lets through. `id` is its number in the
    /// log; no other act has it.
    pub fn act(&mut self, id: u64, who: &str, at: f64, act: Act, out: &mut Vec<Action>) -> Result<()> {
        self.check(&act)?;
        let entry = ActUnderWay::new(id, who, at, act);
        out.push(entry.ack(Phase::Queued, None, String::new()));
        self.forming.push(entry);
        if self.tentative.is_none() && !self.left_over {
            self.agree(out);
            if self.tentative.is_some() {
                self.set_gates(out);
                out.push(Action::Look);
            } else {
                self.show(out);
            }
        }
        Ok(())
    }

    /// Proposes a step for the acts that are forming.
    fn agree(&mut self, out: &mut Vec<Action>) {
        match self.size {
            // One rank alone needs nobody's word: it carries the act out at its next head and says where.
            1 => self.confirm(self.ahead(), out),
            _ => self.tentative = Some(self.ahead()),
        }
    }

    /// The act with its value in the type of the parameter.
    pub fn normal(&self, act: &Act) -> Act {
        match act {
            Act::Set { name, value } => {
                let declared = self.parameters.get(name);
                let value = declared.map_or_else(|| value.clone(), |p| p.of_its_type(value));
                Act::Set { name: name.clone(), value }
            }
            other => other.clone(),
        }
    }

    /// Whether the act can be taken: the run lives, its waiting room has a place, what is set or
    /// called is declared.
    pub fn check(&self, act: &Act) -> Result<()> {
        if self.ranks.is_empty() {
            return Err(Error::new(
                Code::Closed,
                "the run has no live rank to steer: it has ended or not begun; start the program again",
            ));
        }
        if self.is_over() {
            return Err(Error::new(
                Code::Closed,
                "the loop is over and the program works on behind it; acts are taken again when it begins another loop",
            ));
        }
        if self.quit {
            return Err(Error::new(
                Code::Closed,
                "the run was told to quit and takes no further acts; it ends at the next head of its loop",
            ));
        }
        if self.acts.len() + self.forming.len() >= WAITING {
            return Err(Error::new(
                Code::Full,
                format!("{WAITING} acts wait for the next step already; wait until the run reaches it"),
            ));
        }
        match act {
            Act::Set { name, value } => match self.parameters.get(name) {
                Some(p) => p.check(value),
                None => Err(Error::new(
                    Code::NotFound,
                    format!(
                        "the run declares no parameter {name:?}; it declares {}",
                        names(self.parameters.keys())
                    ),
                )),
            },
            Act::Command { name } if !self.commands.contains(name) => Err(Error::new(
                Code::NotFound,
                format!("the run declares no command {name:?}; it declares {}", names(self.commands.iter())),
            )),
            Act::Step { n } if *n == 0 || *n > limits::STEPS => {
                Err(Error::bad(format!("{n} is no number of steps; give one from 1 to {}", limits::STEPS)))
            }
            Act::End { why } if why.is_empty() || why.len() > limits::NAME_BYTES => Err(Error::bad(format!(
                "a reason of {} bytes is not possible; give one of 1 to {}",
                why.len(),
                limits::NAME_BYTES
            ))),
            _ => Ok(()),
        }
    }

    /// The first step ahead of every rank as far as known, and not before an earlier act. A rank whose loop has
    /// ended where the others come still counts, too: none of them is to end, save or change before that.
    fn ahead(&self) -> i64 {
        let end = self.ranks.values().filter(|r| !r.over).map(|r| r.end).max().unwrap_or(0);
        let counts = |r: &Rank| !r.over || r.step.is_some_and(|step| step <= end);
        let passed = self.ranks.iter().filter(|(_, r)| counts(r)).map(|(r, _)| self.passed(*r)).max();
        let passed = passed.unwrap_or(-1);
        passed.saturating_add(1).max(self.last_gate)
    }

    /// The last step whose head this rank may have passed.
    fn passed(&self, rank: u32) -> i64 {
        let Some(state) = self.ranks.get(&rank) else { return -1 };
        let step = state.step.unwrap_or(-1);
        if state.over {
            return step;
        }
        if state.waits {
            return step - 1;
        }
        // A rank may have been beyond the gate of an owner that died.
        if state.pending.is_empty() && self.hold.is_some_and(|hold| hold.by == 0) {
            return step;
        }
        self.confirmed_gate(rank).map_or(step, |gate| step.min(gate - 1))
    }

    /// The steps of all ranks, read after the last gates were stored.
    pub fn looked(&mut self, seen: &[Seen], out: &mut Vec<Action>) {
        for s in seen {
            if let Some(rank) = self.ranks.get_mut(&s.rank) {
                rank.step = s.step;
            }
        }
        if let Some(n) = self.tentative {
            // Ranks may have been beyond it when it came. But it was in force when their steps were read:
            // none of them passes the head of any later step.
            self.confirm(self.ahead().max(n), out);
        }
        self.show(out);
    }

    /// No rank has passed `n`: the acts get it as their step.
    fn confirm(&mut self, n: i64, out: &mut Vec<Action>) {
        self.tentative = None;
        self.last_gate = n;
        let mut posts = Vec::new();
        for mut entry in std::mem::take(&mut self.forming) {
            entry.gate = n;
            self.takes_effect(entry.id, &entry.act, n);
            for (rank, state) in self.ranks.iter_mut().filter(|(_, r)| !r.over) {
                state.pending.push_back(entry.id);
                posts.push(Action::Post { rank: *rank, id: entry.id, step: n, act: entry.act.clone() });
            }
            self.acts.push_back(entry);
        }
        // The gates first: a successor finds in them for which step it was that ranks have heard of.
        self.set_gates(out);
        out.append(&mut posts);
    }

    /// Where ranks hold, and whether they are to end, from an act on.
    fn takes_effect(&mut self, id: u64, act: &Act, n: i64) {
        match act {
            Act::Stop => self.hold = Some(Hold { step: n, by: id, after: 0 }),
            Act::Step { n: k } => {
                let stride = self.ranks.values().map(|r| r.stride).max().unwrap_or(1);
                let after = (*k as i64).saturating_mul(stride.max(1));
                self.hold = Some(Hold { step: n.saturating_add(after), by: id, after });
            }
            Act::Run => self.hold = None,
            Act::Quit | Act::End { .. } => {
                self.hold = None;
                self.quit = true;
            }
            _ => {}
        }
    }

    /// A rank has carried out an act, or could not.
    pub fn applied(
        &mut self,
        rank: u32,
        id: u64,
        step: i64,
        fault: Option<&str>,
        words: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(state) = self.ranks.get_mut(&rank) else { return };
        let Some(at) = state.pending.iter().position(|p| *p == id) else { return };
        state.pending.remove(at);
        state.step = Some(state.step.map_or(step, |s| s.max(step)));
        if let Some(entry) = self.acts.iter_mut().find(|a| a.id == id) {
            // An act that came before the loop takes place at its first step, whatever its number, and one rank alone
            // may have heard of it from an owner that died.
            if step > entry.gate || self.size == 1 {
                entry.gate = step;
                self.last_gate = self.last_gate.max(step);
                if let Some(hold) = self.hold.as_mut().filter(|h| h.by == id) {
                    hold.step = step.saturating_add(hold.after);
                }
            }
            entry.done.insert(rank);
            match fault {
                Some(text) => entry.faults.push(format!("rank {rank}: {text}")),
                None if entry.words.is_empty() => entry.words = words.to_owned(),
                None => {}
            }
        }
        self.set_gates(out);
        self.settle(out);
        self.show(out);
    }

    /// Acknowledges acts that every rank in its loop has carried out, and forgets those that no
    /// rank can still miss.
    fn settle(&mut self, out: &mut Vec<Action>) {
        for i in 0..self.acts.len() {
            let a = &self.acts[i];
            let waits = self.ranks.iter().any(|(r, s)| s.step.is_some() && !s.over && !a.done.contains(r));
            if !a.told && !a.done.is_empty() && !waits {
                self.tell(i, out);
            }
        }
        self.forget();
        if self.acts.is_empty() && self.hold.is_none() {
            self.last_gate = 0;
        }
    }

    /// Forgets what was told and no rank can still miss.
    fn forget(&mut self) {
        let gone = |r: u32| self.left.contains(&r) || self.ranks.get(&r).is_some_and(|s| s.over);
        let size = self.size;
        self.acts.retain(|a| !(a.told && (0..size).all(|r| a.done.contains(&r) || gone(r))));
    }

    fn tell(&mut self, index: usize, out: &mut Vec<Action>) {
        let entry = &mut self.acts[index];
        entry.told = true;
        let step = Some(entry.gate);
        let mut old = None;
        let (phase, text) = if entry.faults.is_empty() {
            if let Act::Set { name, value } = &entry.act {
                if let Some(p) = self.parameters.get_mut(name) {
                    old = Some(std::mem::replace(&mut p.value, value.clone()));
                }
                out.push(Action::Parameter { name: name.clone(), value: value.clone(), step: entry.gate });
            }
            (Phase::Applied, entry.words.clone())
        } else {
            (Phase::Refused, entry.faults.join("; "))
        };
        let result = match (phase, text.is_empty()) {
            (Phase::Applied, true) => "applied".to_owned(),
            (Phase::Applied, false) => format!("applied: {text}"),
            _ => format!("refused: {text}"),
        };
        out.push(entry.ack(phase, step, text));
        out.push(Action::Log(LogEntry {
            id: entry.id,
            who: entry.who.clone(),
            at: entry.at,
            step,
            act: entry.act.clone(),
            old,
            result,
        }));
    }

    /// No rank is in its loop: what none has carried out never will be. What one has is kept for those that
    /// have not come yet: they come to its step as the others did.
    fn give_up(&mut self, why: &str, out: &mut Vec<Action>) {
        for i in 0..self.acts.len() {
            if !self.acts[i].told && !self.acts[i].done.is_empty() {
                self.tell(i, out);
            }
        }
        self.forget();
        let (kept, acts): (VecDeque<ActUnderWay>, VecDeque<ActUnderWay>) =
            std::mem::take(&mut self.acts).into_iter().partition(|a| a.told);
        self.acts = kept;
        for e in acts.into_iter().chain(std::mem::take(&mut self.forming)) {
            if matches!(e.act, Act::Quit | Act::End { .. }) {
                self.quit = false;
            }
            out.push(e.ack(Phase::Refused, None, why.to_owned()));
            out.push(Action::Log(LogEntry {
                id: e.id,
                who: e.who,
                at: e.at,
                step: None,
                act: e.act,
                old: None,
                result: format!("refused: {why}"),
            }));
        }
        self.ranks.values_mut().for_each(|r| r.pending.clear());
        self.tentative = None;
        self.hold = None;
        self.last_gate = 0;
    }

    /// The gate that confirmed acts and the hold put before a rank.
    fn confirmed_gate(&self, rank: u32) -> Option<i64> {
        let first = self.ranks.get(&rank)?.pending.front();
        let act = first.and_then(|id| self.acts.iter().find(|a| a.id == *id));
        act.map(|a| a.gate).or(self.hold.map(|h| h.step))
    }

    /// The gate of a rank, a tentative one included.
    fn gate_of(&self, rank: u32) -> Option<i64> {
        match (self.confirmed_gate(rank), self.tentative) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn set_gates(&mut self, out: &mut Vec<Action>) {
        if self.left_over {
            return; // those of the dead owner are in force
        }
        let gates: Vec<(u32, Option<i64>)> = self.ranks.keys().map(|r| (*r, self.gate_of(*r))).collect();
        for (rank, step) in gates {
            if let Some(state) = self.ranks.get_mut(&rank)
                && state.gate != step
            {
                state.set_gate(step);
                out.push(Action::Gate { rank, step });
            }
        }
    }

    /// The state in one word.
    pub fn state(&self) -> State {
        if self.ranks.is_empty() {
            return match (self.lost, self.left.is_empty()) {
                (true, _) => State::Lost,
                (false, true) => State::Starting,
                (false, false) => State::Ended,
            };
        }
        if self.is_over() {
            return State::Over;
        }
        if self.quit {
            return State::Quitting;
        }
        let arrived =
            |a: &ActUnderWay, r: &u32, s: &Rank| !a.done.contains(r) && s.step.is_some_and(|s| s >= a.gate);
        let saving = |a: &ActUnderWay| a.act == Act::Save && self.ranks.iter().any(|(r, s)| arrived(a, r, s));
        if self.acts.iter().any(saving) {
            return State::Saving;
        }
        if let Some(hold) = self.hold {
            let there =
                self.ranks.values().all(|r| r.pending.is_empty() && r.step.is_none_or(|s| s >= hold.step))
                    && self.ranks.values().any(|r| r.step.is_some());
            return match (there, hold.after) {
                (true, _) => State::Held,
                (false, 0) => State::Holding,
                (false, _) => State::Stepping,
            };
        }
        if self.ranks.values().all(|r| r.step.is_none()) { State::Starting } else { State::Running }
    }

    /// The foremost step of the ranks in their loops.
    pub fn step(&self) -> Option<i64> {
        self.ranks.values().filter_map(|r| r.step).max()
    }

    fn show(&mut self, out: &mut Vec<Action>) {
        let state = self.state();
        // While it runs, the step changes all the time and is read from the words instead.
        let step = self.step();
        let kept = self.shown.map(|(s, n)| (s, if matches!(s, State::Running) { None } else { n }));
        let now = (state, if matches!(state, State::Running) { None } else { step });
        if kept != Some(now) {
            out.push(Action::State { state, step });
        }
        self.shown = Some((state, step));
    }
}

fn names<'a>(of: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<&str> = of.map(String::as_str).collect();
    if list.is_empty() { "none".into() } else { list.join(", ") }
}
