//! Reading the rings: blocks of steps go to the drain, small records into the group, large data
//! sets hold their session until they are stored.

use super::apply::Item;
use super::drain::{Data, Job, LargePut};
use super::intake::{GivenUp, Intake};
use super::session::{Keep, Session};
use super::steps::{Held, Step};
use crate::catalog;
use forebay_types::control::Ask;
use forebay_types::record::{Notice, Payload, Record, StepBlock};
use forebay_types::{Code, Error, Result};
use std::collections::BTreeSet;
use std::time::Instant;

/// Most records of one session in a group, so that everybody gets a turn.
const TURN: usize = 1024;
/// Errors of given-up steps kept for `Ask::WaitStep`.
const GIVEN_UP: usize = 256;

impl Intake {
    pub(super) fn read_rings(&mut self) -> bool {
        let numbers: Vec<u64> = self.sessions.keys().copied().collect();
        let mut any = false;
        for n in numbers {
            if let Some(mut session) = self.sessions.remove(&n) {
                any |= self.read_ring(&mut session);
                self.sessions.insert(n, session);
                for (seq, ask) in std::mem::take(&mut self.at_once) {
                    self.later(n, seq, ask);
                }
            }
        }
        any
    }

    pub(super) fn read_ring(&mut self, s: &mut Session) -> bool {
        let mut buf = Vec::new();
        let mut any = false;
        for _ in 0..TURN {
            if !s.is_readable() {
                break;
            }
            match s.consumer.next(&mut buf) {
                Ok(Some(position)) => {
                    any = true;
                    self.take_record(s, position, &buf);
                }
                Ok(None) => break,
                Err(e) => {
                    s.broken = true;
                    s.hung = true;
                    self.late(s, e);
                }
            }
        }
        any
    }

    pub(super) fn take_record(&mut self, s: &mut Session, position: u64, bytes: &[u8]) {
        let (seq, record) = match Record::decode(bytes) {
            Ok(r) => r,
            Err(e) => {
                s.kept.push_back((position, Keep::Group));
                return self.late(s, e);
            }
        };
        s.seen = s.seen.max(seq);
        s.replaying = s.recovered || s.adopted.as_ref().is_some_and(|a| position <= a.replay_end);
        let keep = match record {
            Record::StepBegin { .. }
            | Record::StepBlock(_)
            | Record::StepEnd { .. }
            | Record::StepDiscard { .. }
            | Record::StepEarly { .. } => self.take_step_record(s, seq, record),
            Record::Put { payload: Payload::Block(b), .. } if seq <= s.applied => {
                s.release(&b);
                Keep::Group
            }
            _ if seq <= s.applied => Keep::Group,
            Record::Put { payload: Payload::Block(b), name, set, meta, unit, .. } => {
                let (session, bytes) = (s.row.session, bytes.to_vec());
                match s.block(&b) {
                    Ok(block) => {
                        s.put = Some(Item::Record { session, seq, bytes });
                        let put = LargePut {
                            session,
                            seq,
                            name: name.to_owned(),
                            set,
                            unit: unit.to_owned(),
                            meta,
                            data: Data::Block(block),
                            run_id: self.run_id.clone(),
                        };
                        self.send_job(Job::Put(Box::new(put)));
                    }
                    Err(error) => self.group.push(Item::Failed { session, seq, bytes, error }),
                }
                Keep::Put(seq)
            }
            _ => {
                let item = Item::Record { session: s.row.session, seq, bytes: bytes.to_vec() };
                match When::of(&record) {
                    When::Group => self.group.push(item),
                    When::AfterSteps { leaves } => {
                        s.leaving = leaves.then(Instant::now).or(s.leaving);
                        s.deferred = Some(item);
                    }
                    When::AtOnce(_) if s.recovered => {}
                    // A predecessor has dropped one; the rank asks again if that was not enough.
                    When::AtOnce(Ask::DropOldest) if s.replaying => {
                        self.answer(s.row.session, seq, Ok(serde_json::Value::Null));
                    }
                    When::AtOnce(ask) => self.at_once.push((seq, ask)),
                }
                Keep::Group
            }
        };
        s.kept.push_back((position, keep));
    }

    pub(super) fn take_step_record(&mut self, s: &mut Session, seq: u64, record: Record) -> Keep {
        // A predecessor gives blocks back when a step is discarded or dropped, and such a step is read again
        // while the ring holds what came before it: that it lacks them is no loss.
        let known = s.replaying && matches!(record, Record::StepBlock(_));
        let (step, outcome) = match record {
            Record::StepBegin { step, time } => (step, self.begin_step(s, step, time)),
            Record::StepBlock(b) => (b.step, self.take_block(s, seq, &b)),
            Record::StepEnd { step, blocks } => (step, self.end_step(s, step, blocks)),
            Record::StepDiscard { step } => {
                let mine = s.refused.remove(&step).is_none();
                if mine && self.steps.get(&step).is_some_and(|k| k.has(s.row.session)) {
                    let e = Error::new(
                        Code::Cancelled,
                        format!("step {step} was discarded by rank {}", s.row.rank),
                    );
                    self.give_up(step, e, Some(s));
                }
                (step, Ok(()))
            }
            Record::StepEarly { step } if s.refused.contains_key(&step) => (step, Ok(())),
            Record::StepEarly { step } => (step, self.let_go_early(s, step)),
            _ => (0, Ok(())),
        };
        if let Err(e) = outcome {
            let e = e.within(format!("step {step} is given up"));
            match self.steps.contains_key(&step) {
                true if known => self.tear(step, e, Some(s)),
                true => self.spoil(step, e, Some(s)),
                false => self.late(s, e),
            }
        }
        Keep::Step(step, seq)
    }

    pub(super) fn begin_step(&mut self, s: &mut Session, step: i64, time: f64) -> Result<()> {
        let exists = catalog::step_row(self.catalog.conn(), step)?.is_some();
        let again = self.steps.get(&step).is_some_and(|k| k.finishing || k.has(s.row.session));
        if exists || again {
            let text = match catalog::damage_of(self.catalog.conn(), step)? {
                Some(_) => format!(
                    "step {step} exists and is damaged; go back with a restart, or drop the step, and its number is free"
                ),
                None => format!("step {step} exists already; a step is written once, choose another number"),
            };
            s.refused.insert(step, Error::new(Code::Conflict, text));
            return Ok(());
        }
        // Another rank's attempt at this step has failed meanwhile: this is the same attempt.
        let failed = self.given_up.iter_mut().find(|g| g.step == step && !g.ranks.contains(&s.row.rank));
        if let Some(g) = failed {
            g.ranks.insert(s.row.rank);
            s.refused.insert(step, g.why.clone());
            return Ok(());
        }
        let size = s.row.size;
        let known = self.steps.entry(step).or_insert_with(|| Step::new(step, time, size));
        let begun = known.begin(s.row.rank, s.row.session);
        if let Err(e) = begun {
            s.refused.insert(step, e);
        }
        Ok(())
    }

    /// A rank ends a step. One that was refused is not the one of that number that is on its way.
    fn end_step(&mut self, s: &mut Session, step: i64, blocks: u32) -> Result<()> {
        if let Some(e) = s.refused.remove(&step) {
            // What a rank discarded on purpose is nobody's error.
            if !s.replaying && e.code() != Code::Cancelled {
                self.late(s, e);
            }
            return Ok(());
        }
        match self.steps.get_mut(&step) {
            Some(known) if known.has(s.row.session) => {
                let jobs = known.end(s.row.rank, blocks)?;
                self.send(jobs);
            }
            _ => self.miss(s, step),
        }
        Ok(())
    }

    pub(super) fn take_block(&mut self, s: &mut Session, seq: u64, b: &StepBlock) -> Result<()> {
        let session = s.row.session;
        let mine =
            !s.refused.contains_key(&b.step) && self.steps.get(&b.step).is_some_and(|k| k.has(session));
        if !mine {
            // The step was refused or given up: its blocks go back at once.
            self.miss(s, b.step);
            if let Payload::Block(r) = b.payload {
                s.release(&r);
            }
            return Ok(());
        }
        let data = match b.payload {
            Payload::Inline(bytes) => Data::Inline(bytes.to_vec()),
            Payload::Block(r) => Data::Block(s.block(&r)?),
        };
        let Some(step) = self.steps.get_mut(&b.step) else { return Ok(()) };
        if let Payload::Block(r) = b.payload {
            let held = Held { block: r, released: false };
            step.held.insert((session, seq), held);
        }
        let jobs = step.block(s.row.rank, b, data, (session, seq))?;
        self.send(jobs);
        Ok(())
    }

    /// A record of a step whose beginning is not in the ring any more: blocks of it were let go before
    /// it was complete, and the owner that had written them is dead.
    fn miss(&mut self, s: &Session, step: i64) {
        let told = self.given_up.iter().any(|g| g.step == step) || s.refused.contains_key(&step);
        let listed = || matches!(catalog::step_row(self.catalog.conn(), step), Ok(Some(_)));
        if s.replaying && !told && !listed() {
            let text = format!(
                "step {step} is lost: it was larger than the buffers and the owner died before it was on disk; take it again, or open the run with a larger buffer"
            );
            let why = Error::new(Code::ServerLost, text);
            self.give_up(step, why.clone(), Some(s));
            if !self.given_up.iter().any(|g| g.step == step) {
                self.remember_given_up(step, why, [s.row.rank].into());
            }
        }
    }

    pub(super) fn let_go_early(&mut self, s: &mut Session, step: i64) -> Result<()> {
        let Some(known) = self.steps.get_mut(&step) else { return Ok(()) };
        let session = s.row.session;
        // What the drain has it lets go itself, behind whatever it is doing.
        for ticket in known.early(session, self.overflow_limit)? {
            if let Some(h) = known.held.get_mut(&ticket).filter(|h| !h.released) {
                s.release(&h.block);
                h.released = true;
            }
        }
        self.send(vec![Job::Hurry(step)]);
        Ok(())
    }

    pub(super) fn send(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            self.send_job(job);
        }
    }

    /// Gives a step up for a fault in it. That stays in the log of the run, and what a dead program left
    /// is not recovered then.
    pub(super) fn spoil(&mut self, step: i64, why: Error, current: Option<&Session>) {
        let Some(known) = self.steps.get(&step) else { return };
        let sessions = known.sessions();
        let recovered = |n: &u64| {
            let s = current.filter(|s| s.row.session == *n).or_else(|| self.sessions.get(n));
            s.is_some_and(|s| s.recovered)
        };
        if sessions.iter().any(recovered) {
            self.not_recovered.push(why.clone());
        }
        if let Some(session) = sessions.first() {
            let text = why.text().to_owned();
            self.group.push(Item::GivenUp { session: *session, step, text });
        }
        self.tear(step, why, current);
    }

    /// Gives a step up: all ranks that take part hear of it at their next call.
    pub(super) fn tear(&mut self, step: i64, why: Error, current: Option<&Session>) {
        let Some(known) = self.steps.get(&step) else { return };
        let mut said = false;
        for n in known.sessions() {
            let s = current.filter(|s| s.row.session == n).or_else(|| self.sessions.get(&n));
            let Some(s) = s.filter(|s| !s.recovered && !s.hung) else { continue };
            if !said {
                s.sink.message(n, 3, -1, why.text());
                said = true;
            }
            self.tell(s, &why);
        }
        self.give_up(step, why, current);
    }

    /// Gives a step up: its blocks go back, its file goes, whoever waits is told why.
    pub(super) fn give_up(&mut self, step: i64, why: Error, current: Option<&Session>) {
        let Some(known) = self.steps.remove(&step) else { return };
        self.forget_arriving(step);
        for ((session, _), h) in known.held.iter().filter(|(_, h)| !h.released) {
            let s = current.filter(|s| s.row.session == *session).or_else(|| self.sessions.get(session));
            if let Some(s) = s {
                s.release(&h.block);
            }
        }
        let _ = self.jobs.send(Job::Discard(step));
        self.figures.discarded += 1;
        self.remember_given_up(step, why, known.begun());
    }

    fn remember_given_up(&mut self, step: i64, why: Error, ranks: BTreeSet<u32>) {
        if self.given_up.len() == GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(GivenUp { step, why, ranks });
    }

    pub(super) fn late(&self, s: &Session, e: Error) {
        s.sink.message(s.row.session, 3, -1, e.text());
        self.tell(s, &e);
    }

    fn tell(&self, s: &Session, e: &Error) {
        let _ = self.downs.post(s.row.session, &Notice::Late { code: e.code() as u32, text: e.text() });
    }
}

/// When a small record takes effect.
enum When {
    /// With its group, in the catalog.
    Group,
    /// Its answer depends on the steps before it; at closing the mark "finished" must come after the
    /// steps, each of which takes it away.
    AfterSteps { leaves: bool },
    /// It has nothing to do with the catalog, and must not wait for a disk that is full.
    AtOnce(Ask),
}

impl When {
    fn of(record: &Record) -> When {
        let Record::Ask { json } = record else { return When::Group };
        match serde_json::from_str(json) {
            Ok(Ask::Restart { .. } | Ask::Checkpoint { .. } | Ask::DropStep { .. }) => {
                When::AfterSteps { leaves: false }
            }
            Ok(Ask::Close { .. }) => When::AfterSteps { leaves: true },
            Ok(ask @ (Ask::Overflow { .. } | Ask::DropOldest | Ask::Stats)) => When::AtOnce(ask),
            _ => When::Group,
        }
    }
}
