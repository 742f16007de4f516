//! The custody log, writing side: records go into the up ring with a sequence number each, and
//! belong to the owner from the moment they are published.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use forebay_arena::{Bell, Direction, Full, Producer, Segment};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, word};
use forebay_types::record::Record;
use forebay_types::{Code, Error, Result};
use serde_json::Value;

use super::core::Core;
use super::step::STUCK;

/// How long a reader waits for the owner before it asks what that waits for.
const ASKS: Duration = Duration::from_secs(1);

struct State {
    producer: Producer,
    last: u64,
    last_kept: u64,
    is_at_work: bool,
    puts: Puts,
    buf: Vec<u8>,
}

/// The last record of each data set put, as long as the owner may not have committed it.
struct Puts {
    segment: Segment,
    of: HashMap<u64, u64>,
    sweep_at: usize,
}

/// How many records are kept before it is looked which are committed.
const SWEEP: usize = 4096;

impl Puts {
    fn new(segment: &Segment) -> Puts {
        Puts { segment: segment.clone(), of: HashMap::new(), sweep_at: SWEEP }
    }

    /// Two data sets with one key are waited for together.
    fn key(&self, name: &str, set: i64) -> u64 {
        self.of.hasher().hash_one((name, set))
    }

    fn note(&mut self, name: &str, set: i64, seq: u64) {
        if self.of.len() >= self.sweep_at {
            let applied = self.segment.word(word::APPLIED).load(Ordering::Acquire);
            self.of.retain(|_, seq| *seq > applied);
            // What is left is in the ring, which bounds it.
            self.sweep_at = SWEEP.max(2 * self.of.len());
        }
        self.of.insert(self.key(name, set), seq);
    }
}

/// The log of one session.
pub struct Log {
    state: Mutex<State>,
    bell: Bell,
}

impl Log {
    /// The log in the up ring of that segment.
    pub fn new(segment: &Segment) -> Log {
        let state = State {
            producer: segment.producer(Direction::Up),
            last: 0,
            last_kept: 0,
            is_at_work: false,
            puts: Puts::new(segment),
            buf: Vec::new(),
        };
        Log { state: Mutex::new(state), bell: segment.bell(Direction::Up) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether the run went back, or a step, a row or a point was made.
    pub fn is_at_work(&self) -> bool {
        self.lock().is_at_work
    }

    /// The run goes back, which is to go on with it.
    pub fn begin_work(&self) {
        self.lock().is_at_work = true;
    }

    /// Number of the last record whose effect a reader can see only after it is applied.
    pub fn last_kept(&self) -> u64 {
        self.lock().last_kept
    }

    /// Number of the last put of a data set that the owner may not have committed yet.
    pub fn last_put(&self, name: &str, set: i64) -> Option<u64> {
        let state = self.lock();
        if state.puts.segment.word(word::APPLIED).load(Ordering::SeqCst) >= state.last_kept {
            return None;
        }
        state.puts.of.get(&state.puts.key(name, set)).copied()
    }

    /// Publishes a record if the ring has room; its number.
    pub(super) fn try_push(&self, record: &Record, before: &mut dyn FnMut(u64)) -> Result<u64, Full> {
        let mut state = self.lock();
        let seq = state.last + 1;
        let mut w = Writer::over(std::mem::take(&mut state.buf));
        record.encode(seq, &mut w);
        state.buf = w.finish();
        let State { producer, buf, .. } = &mut *state;
        let (needed, free, largest) = (buf.len() as u64 + 16, producer.free(), producer.capacity());
        if needed <= largest && free < needed + leaves(record).min(largest - needed) {
            return Err(Full { needed, free, largest });
        }
        before(seq);
        producer.push(&[buf])?;
        state.last = seq;
        state.is_at_work |=
            matches!(record, Record::StepEnd { .. } | Record::Insert { .. } | Record::Append { .. });
        if matches!(record, Record::Put { .. } | Record::Insert { .. } | Record::Append { .. }) {
            state.last_kept = seq;
        }
        if let Record::Put { name, set, .. } = record {
            state.puts.note(name, *set, seq);
        }
        drop(state);
        self.bell.ring();
        Ok(seq)
    }
}

/// Bytes that a record leaves free in the ring. What follows the beginning of a step stays there until the
/// step is ended, given up or let go of: these three always find room, and its own blocks longer than others.
fn leaves(record: &Record) -> u64 {
    match record {
        Record::StepEnd { .. } | Record::StepDiscard { .. } | Record::StepEarly { .. } => 0,
        Record::Ask { .. } => 1 << 10,
        Record::StepBegin { .. } | Record::StepBlock(_) | Record::StepDescribe { .. } => 4 << 10,
        _ => 32 << 10,
    }
}

impl Core {
    /// Lets the owner let go of the step being taken as soon as it is written: the ring is full of what came
    /// behind its beginning. Only the disk can vouch for it then.
    fn let_step_go(&self) {
        let Ok(mut open) = self.open_step.try_lock() else { return };
        if let Some(open) = open.as_mut().filter(|open| !open.early) {
            open.early = self.log.try_push(&Record::StepEarly { step: open.step }, &mut |_| {}).is_ok();
        }
    }

    /// Publishes a record, waiting for room in the ring if need be, and returns its number.
    pub fn publish(&self, record: &Record) -> Result<u64> {
        self.publish_after(record, &mut |_| {})
    }

    /// Publishes a record, waiting for room in the ring if need be, and returns its number. `before` gets the number
    /// before the owner can see the record.
    pub fn publish_after(&self, record: &Record, before: &mut dyn FnMut(u64)) -> Result<u64> {
        self.living().map_err(|e| self.explained(e))?;
        let mut patience = self.patience();
        loop {
            match self.log.try_push(record, before) {
                Ok(seq) => {
                    // The owner takes a session over by closing it first and reading the ring
                    // then: what is published and finds it open will be read.
                    std::sync::atomic::fence(Ordering::SeqCst);
                    let closed = self.segment.word(word::CLOSED).load(Ordering::SeqCst);
                    if closed != 0 {
                        return Err(self.explained(self.life.taken(closed)));
                    }
                    // What comes behind the request to close may not be read any more.
                    let closing = self.closing.load(Ordering::Relaxed);
                    if closing != 0 && closing < seq {
                        return Err(self.is_closing());
                    }
                    return Ok(seq);
                }
                Err(full) if full.for_ever() => return Err(Error::from(full)),
                Err(_) => {
                    if patience.so_far() > STUCK {
                        self.let_step_go();
                    }
                    patience.pause("room in the ring to the owner")?;
                }
            }
        }
    }

    /// Waits until the owner has committed up to that record, so that a reader sees its effect.
    pub fn settle(&self, seq: u64) -> Result<()> {
        let mut patience = self.patience();
        let mut asked = Duration::ZERO;
        while self.segment.word(word::APPLIED).load(Ordering::SeqCst) < seq {
            // An owner that waits for room on the disk tells who asks it something, and a reader asks nothing. Any question
            // would do, and this one costs it least: it is answered from memory, as `BadArgument` where the record is no
            // conditional put. So an answer says that the owner goes on, and `Full` that it does not.
            if patience.so_far() > asked + ASKS {
                asked = patience.so_far();
                match self.ask::<Value>(&Ask::Version { seq }) {
                    Err(e) if e.code() == Code::Full => return Err(e),
                    // Whatever else it answers, `APPLIED` alone tells what is committed.
                    _ => continue,
                }
            }
            patience.pause("the owner to commit")?;
        }
        Ok(())
    }
}
