//! Steering carried out: the state machine decides, this reads and writes the words of the
//! ranks' segments, sends notices, and tells page and log.

use super::steering::{Ack, Action, LeftAct, LeftRank, Seen, Steering};
use crate::diary::seconds_now;
use forebay_arena::{Bell, Direction, Segment};
use forebay_host::lock;
use forebay_store::{OpenAct, Orphan};
use forebay_types::Result;
use forebay_types::control::word;
use forebay_types::watch::{Act, Declare, Phase, StateInfo};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Acts whose fate is remembered for whoever waits for it.
const REMEMBERED: usize = 1024;
/// How often one looks whether the ranks of a dead owner have come.
const LOOK: Duration = Duration::from_millis(5);

/// Where news of steering goes: the page, and the ranks' down rings.
pub trait Outside: Send + Sync {
    /// Sends an act to a session.
    fn post(&self, session: u64, id: u64, step: i64, act: &Act) -> Result<()>;
    /// Tells a session that its rank does otherwise than the others.
    fn differs(&self, session: u64, text: &str);
    /// Tells whoever looks.
    fn ack(&self, ack: &Ack);
    /// A parameter has a new value.
    fn parameter(&self, name: &str, value: &serde_json::Value);
    /// The state has changed.
    fn state(&self, state: StateInfo);
    /// An act came to nothing; the log says so. (What ranks carried out is logged with their record.)
    fn refused(&self, id: u64, text: &str);
}

struct Rank {
    session: u64,
    segment: Segment,
    bell: Bell,
}

impl Rank {
    /// Whether its words are as fresh as its gate: those of a rank on another host come later.
    fn has_heard(&self) -> bool {
        let word = |w| self.segment.word(w).load(Ordering::SeqCst);
        word(word::MIRROR) == 0 || word(word::ECHO) == word(word::EPOCH)
    }

    fn step(&self) -> Option<i64> {
        (self.segment.word(word::STEP).load(Ordering::SeqCst) as i64).checked_sub(1).filter(|s| *s >= 0)
    }
}

struct Inner {
    machine: Steering,
    ranks: BTreeMap<u32, Rank>,
    /// The foremost step when a rank left: when all have, the last one.
    last: Option<i64>,
    fates: VecDeque<Ack>,
}

/// The controller of one run.
pub struct Controller {
    inner: Mutex<Inner>,
    told: Condvar,
}

/// A rank as the controller sees it.
pub struct RankView {
    /// Its number.
    pub rank: u32,
    /// The step it is about to compute.
    pub step: Option<i64>,
    /// Whether it waits at its gate.
    pub held: bool,
    /// Bytes of its arena.
    pub buffer: u64,
}

impl Controller {
    /// Nobody is there yet.
    pub fn new() -> Controller {
        let (machine, fates) = (Steering::new(1), VecDeque::new());
        let state = Inner { machine, ranks: BTreeMap::new(), last: None, fates };
        Controller { inner: Mutex::new(state), told: Condvar::new() }
    }

    /// A rank has attached.
    pub fn join(&self, out: &dyn Outside, rank: u32, size: u32, session: u64, segment: &Segment) {
        let mut inner = lock(&self.inner);
        let bell = segment.bell(Direction::Down);
        if inner.ranks.is_empty() {
            inner.last = None;
        }
        inner.ranks.insert(rank, Rank { session, segment: segment.clone(), bell });
        self.drive(&mut inner, out, |m, actions| m.join(rank, size, actions));
    }

    /// Ranks of an owner that died go on here.
    pub fn take_over(&self, out: &dyn Outside, size: u32, orphans: &[Orphan]) {
        let mut inner = lock(&self.inner);
        for o in orphans {
            let (segment, bell) = (o.segment.clone(), o.segment.bell(Direction::Down));
            inner.ranks.insert(o.rank, Rank { session: o.session, segment, bell });
        }
        let seen = now(&inner.ranks);
        self.drive(&mut inner, out, |m, actions| m.take_over(size, &seen, actions));
    }

    /// One of them has come.
    pub fn came(&self, rank: u32) {
        lock(&self.inner).machine.came(rank);
    }

    /// When all of them have come or are gone: the least number of an act that all have carried out.
    pub fn may_go_on(&self) -> Option<u64> {
        let inner = lock(&self.inner);
        let done = |r: &Rank| r.segment.word(word::DONE).load(Ordering::SeqCst);
        inner.machine.may_go_on().then(|| inner.ranks.values().map(done).min().unwrap_or(0))
    }

    /// Steers them from now on, with the acts that some of them have not carried out.
    pub fn go_on(&self, out: &dyn Outside, acts: Vec<OpenAct>) {
        let mut inner = lock(&self.inner);
        if !inner.machine.may_go_on() {
            return;
        }
        let left = |(rank, r): (&u32, &Rank)| {
            let word = |w| r.segment.word(w).load(Ordering::SeqCst);
            LeftRank {
                seen: Seen { rank: *rank, step: r.step() },
                gate: Some(word(word::GATE)).filter(|g| *g != u64::MAX).map(|g| g as i64),
                waits: word(word::HELD) & word::AT_GATE != 0,
                holds: word(word::HELD) & word::TOLD_TO_HOLD != 0,
                over: word(word::HELD) & word::OVER != 0,
                done: word(word::DONE),
            }
        };
        let ranks: Vec<LeftRank> = inner.ranks.iter().map(left).collect();
        let act = |a: OpenAct| Some(LeftAct { id: a.id, who: a.who, at: a.asked, act: a.act?, step: a.step });
        let acts = acts.into_iter().filter_map(act).collect();
        self.drive(&mut inner, out, |m, actions| m.go_on(&ranks, acts, actions));
    }

    /// A session has ended. A later session of the same rank is not meant.
    pub fn leave(&self, out: &dyn Outside, rank: u32, session: u64, lost: bool) {
        let mut inner = lock(&self.inner);
        if inner.ranks.get(&rank).is_some_and(|r| r.session == session) {
            inner.last = foremost(&inner.ranks).max(inner.last);
            inner.ranks.remove(&rank);
            self.drive(&mut inner, out, |m, actions| m.leave(rank, lost, actions));
        }
    }

    /// The simulation declares something.
    pub fn declare(&self, out: &dyn Outside, rank: u32, what: &Declare) {
        self.drive(&mut lock(&self.inner), out, |m, actions| m.declare(rank, what, actions));
    }

    /// The act as it would be taken, or why it would not.
    pub fn check(&self, act: &Act) -> Result<Act> {
        let inner = lock(&self.inner);
        inner.machine.check(act)?;
        Ok(inner.machine.normal(act))
    }

    /// Whether every rank has come to the end of its loop.
    pub fn is_over(&self) -> bool {
        lock(&self.inner).machine.is_over()
    }

    /// A rank that wants the run to end, and why; none when it is told to end already.
    pub fn wish(&self) -> Option<(u32, &'static str)> {
        let inner = lock(&self.inner);
        let why = |r: &Rank| why(r.segment.word(word::WISH).load(Ordering::SeqCst));
        let wished = inner.ranks.iter().find_map(|(rank, r)| Some((*rank, why(r)?)));
        wished.filter(|_| !inner.machine.ending() && !inner.machine.is_over())
    }

    /// Takes an act that has its number in the log.
    pub fn act(&self, out: &dyn Outside, id: u64, who: &str, act: Act) -> Result<()> {
        let mut inner = lock(&self.inner);
        // A run that was made anew counts its acts from one again.
        inner.fates.retain(|ack| ack.id != id);
        self.drive(&mut inner, out, |m, actions| m.act(id, who, seconds_now(), act, actions))
    }

    /// A rank has carried out an act, or could not.
    pub fn applied(&self, out: &dyn Outside, rank: u32, id: u64, step: i64, code: u32, text: &str) {
        let mut inner = lock(&self.inner);
        let (fault, words) = if code == 0 { (None, text) } else { (Some(text), "") };
        self.drive(&mut inner, out, |m, actions| m.applied(rank, id, step, fault, words, actions));
    }

    /// Reads the steps of all ranks.
    pub fn look(&self, out: &dyn Outside) {
        let mut inner = lock(&self.inner);
        if let Some(seen) = steps(&inner.ranks) {
            self.drive(&mut inner, out, |m, actions| m.looked(&seen, actions));
        }
    }

    /// Whether ranks are on their way to a step where something is to happen.
    pub fn in_motion(&self) -> bool {
        lock(&self.inner).machine.in_motion()
    }

    /// State and foremost step as they are now.
    pub fn glance(&self) -> StateInfo {
        let mut inner = lock(&self.inner);
        // What a look brings about is carried out by the heart; here only the words count.
        if !inner.machine.in_motion()
            && let Some(seen) = steps(&inner.ranks)
        {
            inner.machine.looked(&seen, &mut Vec::new());
        }
        info(&inner)
    }

    /// The ranks, for people.
    pub fn ranks(&self) -> Vec<RankView> {
        let view = |(rank, r): (&u32, &Rank)| RankView {
            rank: *rank,
            step: r.step(),
            held: r.segment.word(word::HELD).load(Ordering::Relaxed) & word::AT_GATE != 0,
            buffer: r.segment.block_bytes(),
        };
        lock(&self.inner).ranks.iter().map(view).collect()
    }

    /// Beats once into every rank's segment.
    pub fn beat(&self) {
        for rank in lock(&self.inner).ranks.values() {
            rank.segment.word(word::HEARTBEAT).fetch_add(1, Ordering::Release);
        }
    }

    /// Waits, at most so long, until the ranks of a dead owner have come to this one.
    pub fn await_ranks(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        while lock(&self.inner).machine.awaits_ranks() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until an act is applied or refused; `None` when the time is over.
    pub fn fate(&self, id: u64, wait: Duration) -> Option<Ack> {
        let until = Instant::now() + wait;
        let mut inner = lock(&self.inner);
        loop {
            if let Some(ack) = inner.fates.iter().find(|a| a.id == id) {
                return Some(ack.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            inner = self.told.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn drive<T>(
        &self,
        inner: &mut Inner,
        out: &dyn Outside,
        f: impl FnOnce(&mut Steering, &mut Vec<Action>) -> T,
    ) -> T {
        let mut actions = Vec::new();
        let result = f(&mut inner.machine, &mut actions);
        let mut queue: VecDeque<Action> = actions.into();
        while let Some(action) = queue.pop_front() {
            let mut more = Vec::new();
            self.carry_out(inner, out, action, &mut more);
            // What a look brings about comes before what was still to be done.
            for action in more.into_iter().rev() {
                queue.push_front(action);
            }
        }
        result
    }

    fn carry_out(&self, inner: &mut Inner, out: &dyn Outside, action: Action, more: &mut Vec<Action>) {
        match action {
            Action::Gate { rank, step } => {
                if let Some(r) = inner.ranks.get(&rank) {
                    let gate = step.map_or(u64::MAX, |s| s.max(0) as u64);
                    r.segment.word(word::GATE).store(gate, Ordering::SeqCst);
                    r.segment.word(word::EPOCH).fetch_add(1, Ordering::SeqCst);
                    r.bell.ring();
                }
            }
            Action::Look => {
                // Otherwise the heart looks again when the word has come.
                if let Some(seen) = steps(&inner.ranks) {
                    inner.machine.looked(&seen, more);
                }
            }
            Action::Post { rank, id, step, act } => {
                let Some(session) = inner.ranks.get(&rank).map(|r| r.session) else { return };
                if let Err(e) = out.post(session, id, step, &act) {
                    // A rank that cannot be told must not wait for ever for what it cannot hear of.
                    let fault = format!("the act did not reach the rank: {e}");
                    inner.machine.applied(rank, id, step, Some(&fault), "", more);
                }
            }
            Action::Differs { rank, text } => {
                if let Some(r) = inner.ranks.get(&rank) {
                    out.differs(r.session, &text);
                }
            }
            Action::Ack(ack) => {
                out.ack(&ack);
                if ack.phase != Phase::Queued {
                    if inner.fates.len() == REMEMBERED {
                        inner.fates.pop_front();
                    }
                    inner.fates.push_back(ack);
                    self.told.notify_all();
                }
            }
            Action::Log(entry) if entry.step.is_none() => out.refused(entry.id, &entry.result),
            Action::Log(_) => {}
            Action::Parameter { name, value, .. } => out.parameter(&name, &value),
            Action::State { .. } => out.state(info(inner)),
        }
    }
}

/// What a rank's wish is, in the words that stand in the log and name the checkpoint.
fn why(wish: u64) -> Option<&'static str> {
    match wish {
        1 => Some("SIGTERM"),
        2 => Some("time limit"),
        _ => None,
    }
}

/// The steps of all ranks, read after every one of them has its gate; `None` while one on another
/// host has not said so.
fn steps(ranks: &BTreeMap<u32, Rank>) -> Option<Vec<Seen>> {
    ranks.values().all(Rank::has_heard).then(|| now(ranks))
}

fn now(ranks: &BTreeMap<u32, Rank>) -> Vec<Seen> {
    ranks.iter().map(|(rank, r)| Seen { rank: *rank, step: r.step() }).collect()
}

/// The foremost step of the ranks in their loops.
fn foremost(ranks: &BTreeMap<u32, Rank>) -> Option<i64> {
    ranks.values().filter_map(Rank::step).max()
}

fn info(inner: &Inner) -> StateInfo {
    let step = foremost(&inner.ranks).or(inner.machine.step()).or(inner.last);
    StateInfo {
        state: inner.machine.state(),
        step: step.unwrap_or(-1),
        time: None,
        ranks: inner.ranks.len() as u32,
    }
}
