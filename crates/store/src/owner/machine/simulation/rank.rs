//! A model of a rank: a ring with a release mark, a few blocks, and a program that puts, takes snapshots and
//! asks. It keeps the promises of a client, and remembers what it was promised.

use super::Rng;
use forebay_types::codec::Writer;
use forebay_types::control::Ask;
use forebay_types::record::{HeldBlock, Payload, Place, Record, StepBlock};
use forebay_types::{ArrayMeta, DType, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Records that a ring holds before its rank has to wait.
pub const RING: usize = 24;
/// Bytes of a record in a ring.
pub const RECORD: u64 = 64;
/// Records that a rank which lags lets the first one be ahead.
pub const LEAD: u64 = 2 * RING as u64;
/// Blocks of a rank.
pub const BLOCKS: usize = 5;
/// Elements of a rank's piece.
pub const PIECE: u64 = 8;

/// One entry of the table of blocks.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub generation: u32,
    /// The record that gave it into custody.
    pub of: Option<u64>,
    pub there: bool,
}

/// What a rank has put of a step.
#[derive(Clone, Default)]
pub struct Attempt {
    pub blocks: BTreeSet<u64>,
    pub ended: bool,
    pub discarded: bool,
    /// It is larger than the buffers: its file is all there is of it.
    pub early: bool,
}

/// What the host of a rank has of it when the line is lost: all that was not given back there.
#[derive(Clone)]
pub struct Memory {
    pub ring: VecDeque<(u64, u64, Vec<u8>)>,
    pub blocks: [Entry; BLOCKS],
    /// Something of it was refused when it was brought.
    pub refused: bool,
}

/// What a rank asked and was not answered.
#[derive(Clone)]
pub struct Asked {
    pub seq: u64,
    pub ask: Ask,
}

pub struct Rank {
    pub session: u64,
    pub rank: u32,
    pub size: u32,
    pub alive: bool,
    /// Its end of the connection is closed.
    pub gone: bool,
    pub clean: bool,
    /// Records from the release mark on: position behind, number, bytes.
    pub ring: VecDeque<(u64, u64, Vec<u8>)>,
    pub published: u64,
    pub released: u64,
    /// Position up to which the owner has read.
    pub read: u64,
    /// Its records that an earlier owner has put into the catalog.
    pub pending: VecDeque<(u64, Vec<u8>)>,
    pub fenced: bool,
    pub broken: bool,
    pub seq: u64,
    /// Position up to which the owner has looked for requests.
    pub looked: u64,
    /// What its segment says of refused requests, and those that were.
    pub refused_up_to: u64,
    pub refused: BTreeSet<u64>,
    pub blocks: [Entry; BLOCKS],
    /// Small puts, by number: their bytes are the number.
    pub small: BTreeSet<u64>,
    pub large: BTreeMap<u64, usize>,
    pub attempts: BTreeMap<i64, Attempt>,
    /// Errors that came late.
    pub late: Vec<String>,
    pub asked: Option<Asked>,
    /// Requests that were answered, and whether they ask for nothing that is kept.
    pub answered: BTreeMap<u64, bool>,
    /// Bytes of its blocks come later than their records.
    pub remote: bool,
    /// It brings the rest of that session.
    pub after: Option<u64>,
    pub memory: Option<Memory>,
    pub drops: bool,
    /// It does nothing until the first rank of its program is far ahead, or waits for an answer or for room in its buffer, or is gone.
    pub lags: bool,
    /// It leaves out steps that other ranks take.
    pub skips: bool,
    /// It goes back to the last step first, as all ranks of its program do or none.
    goes_back: bool,
    open: Option<i64>,
    early: bool,
    next_step: i64,
    last_step: i64,
    began: bool,
}

impl Rank {
    pub fn new(session: u64, rank: u32, size: u32, last_step: i64, goes_back: bool, rng: &mut Rng) -> Rank {
        Rank {
            session,
            rank,
            size,
            alive: true,
            gone: false,
            clean: false,
            ring: VecDeque::new(),
            published: 0,
            released: 0,
            read: 0,
            pending: VecDeque::new(),
            fenced: false,
            broken: false,
            seq: 0,
            looked: 0,
            refused_up_to: 0,
            refused: BTreeSet::new(),
            blocks: [Entry::default(); BLOCKS],
            small: BTreeSet::new(),
            large: BTreeMap::new(),
            attempts: BTreeMap::new(),
            late: Vec::new(),
            asked: None,
            answered: BTreeMap::new(),
            remote: rng.one_in(6),
            after: None,
            memory: None,
            drops: rng.one_in(4),
            goes_back,
            skips: rng.one_in(12),
            lags: rank > 0 && rng.one_in(3),
            open: None,
            early: false,
            next_step: 0,
            last_step,
            began: false,
        }
    }

    fn publish(&mut self, record: &Record) -> u64 {
        self.seq += 1;
        let mut w = Writer::new();
        record.encode(self.seq, &mut w);
        self.published += RECORD;
        self.ring.push_back((self.published, self.seq, w.finish()));
        self.seq
    }

    pub fn ask(&mut self, ask: Ask) {
        let json = serde_json::to_string(&ask).unwrap();
        let seq = self.publish(&Record::Ask { json: &json });
        self.asked = Some(Asked { seq, ask });
    }

    fn block(&mut self, bytes: u64) -> Option<HeldBlock> {
        let index = self.blocks.iter().position(|b| b.of.is_none())?;
        let entry = &mut self.blocks[index];
        entry.generation += 1;
        entry.of = Some(self.seq + 1);
        entry.there = !self.remote;
        Some(HeldBlock { segment: 0, index: index as u32, generation: entry.generation, bytes })
    }

    /// The line to its host is lost, and the last records did not come over it any more.
    pub fn lose_line(&mut self, rng: &mut Rng) {
        let mut blocks = self.blocks;
        blocks.iter_mut().for_each(|b| b.there = b.of.is_some());
        self.memory = Some(Memory { ring: self.ring.clone(), blocks, refused: false });
        if rng.one_in(2) {
            let unread = self.ring.iter().filter(|r| r.0 > self.read).count();
            let lost = rng.below(unread as u64 + 1) as usize;
            self.ring.truncate(self.ring.len() - lost);
            self.published = self.ring.back().map_or(self.released.max(self.read), |r| r.0);
            let last = self.ring.back().map_or(0, |r| r.1);
            if lost > 0 {
                self.blocks.iter_mut().filter(|b| b.of.is_some_and(|of| of > last)).for_each(|b| b.of = None);
            }
        }
    }

    /// Somebody brings what that host has and the catalog lacks, by a session of its own.
    pub fn rest(&self, session: u64, applied: u64, steps: &BTreeSet<i64>, rng: &mut Rng) -> Option<Rank> {
        let memory = self.memory.as_ref()?;
        let mut rest = Rank::new(session, self.rank, self.size, 0, false, rng);
        (rest.remote, rest.drops, rest.lags) = (true, false, false);
        rest.after = Some(self.session);
        (rest.seq, rest.attempts) = (self.seq, self.attempts.clone());
        let mut torn = BTreeSet::new();
        for (_, seq, bytes) in &memory.ring {
            let Ok((_, record)) = Record::decode(bytes) else { continue };
            let (step, block) = match record {
                Record::StepBlock(StepBlock { step, payload: Payload::Block(b), .. }) => {
                    (Some(step), Some(b))
                }
                Record::StepBlock(StepBlock { step, .. })
                | Record::StepBegin { step, .. }
                | Record::StepEnd { step, .. }
                | Record::StepDiscard { step }
                | Record::StepEarly { step } => (Some(step), None),
                Record::Put { payload: Payload::Block(b), .. } => (None, Some(b)),
                Record::Ask { .. } => continue,
                _ => (None, None),
            };
            let has = step.map_or(*seq <= applied, |step| steps.contains(&step) || torn.contains(&step));
            if has {
                continue;
            }
            let mut bytes = bytes.clone();
            if let Some(b) = block {
                let entry = memory.blocks[b.index as usize];
                if entry.generation != b.generation || entry.of != Some(*seq) {
                    let step = step?;
                    torn.insert(step);
                    let mut w = Writer::new();
                    Record::StepDiscard { step }.encode(*seq, &mut w);
                    bytes = w.finish();
                } else {
                    rest.blocks[b.index as usize] = Entry { there: false, ..entry };
                }
            }
            rest.published += RECORD;
            rest.ring.push_back((rest.published, *seq, bytes));
        }
        Some(rest)
    }

    /// Whether it can say anything now.
    pub fn is_free(&self) -> bool {
        self.alive && !self.fenced && self.asked.is_none() && self.ring.len() < RING
    }

    /// A request was refused for want of room: it goes on, and asks again what it cannot do without.
    pub fn is_refused(&mut self, asked: &Asked) {
        self.refused.insert(asked.seq);
        self.began &= !matches!(asked.ask, Ask::Restart { .. });
    }

    /// Whether its buffer is used up.
    pub fn has_no_block(&self) -> bool {
        self.blocks.iter().all(|b| b.of.is_some())
    }

    /// Whether its program is over.
    pub fn is_over(&self) -> bool {
        !self.alive || self.clean || self.fenced
    }

    /// Does the next thing; says what for the story.
    pub fn act(&mut self, rng: &mut Rng) -> String {
        if self.after.is_some() {
            self.ask(Ask::Close { finished: false });
            return "has sent all and asks to close".into();
        }
        if let Some(step) = self.open {
            return self.act_within(step, rng);
        }
        if !self.began {
            self.began = true;
            if self.goes_back {
                self.ask(Ask::Restart { tag: None, strict: false });
                return "asks to go back".into();
            }
        }
        if self.next_step > self.last_step {
            self.ask(Ask::Close { finished: true });
            return "asks to close".into();
        }
        match rng.below(12) {
            0..=3 => self.put_small(),
            4 => self.put_large().unwrap_or_else(|| "has no block".into()),
            5 => {
                self.ask(Ask::Flush);
                "asks to flush".into()
            }
            6 if self.attempts.contains_key(&(self.next_step - 1)) => {
                self.ask(Ask::WaitStep { step: self.next_step - 1 });
                format!("waits for step {}", self.next_step - 1)
            }
            7 if rng.one_in(6) => {
                self.ask(Ask::Checkpoint { tag: None });
                "asks for a checkpoint".into()
            }
            8 if rng.one_in(8) => {
                self.ask(if rng.one_in(2) { Ask::Stats } else { Ask::Version { seq: 1 } });
                "asks for figures".into()
            }
            9 if rng.one_in(12) => {
                self.publish(&Record::Message { level: 1, step: -1, text: "hello" });
                "says hello".into()
            }
            10 if self.skips && self.next_step < self.last_step => {
                self.next_step += 1;
                format!("leaves out step {}", self.next_step - 1)
            }
            _ => self.begin(),
        }
    }

    fn begin(&mut self) -> String {
        let step = self.next_step;
        self.publish(&Record::StepBegin { step, time: f64::NAN, head: -1, stride: 0 });
        self.attempts.insert(step, Attempt::default());
        (self.open, self.early) = (Some(step), false);
        format!("begins step {step}")
    }

    fn act_within(&mut self, step: i64, rng: &mut Rng) -> String {
        let attempt = self.attempts[&step].clone();
        let have = attempt.blocks.len() as u64;
        if have >= 2 {
            if rng.one_in(20) {
                self.publish(&Record::StepDiscard { step });
                self.attempts.get_mut(&step).unwrap().discarded = true;
                (self.open, self.next_step) = (None, step + 1);
                return format!("discards step {step}");
            }
            return self.end(step);
        }
        // One array in two parts, at places in a whole, or behind one another in every third step.
        let half = PIECE / 2;
        let inline = [0u8; PIECE as usize];
        let payload = match rng.one_in(4) {
            true => Payload::Inline(&inline[..half as usize]),
            false => match self.block(half) {
                Some(block) => Payload::Block(block),
                None if !self.early => {
                    self.early = true;
                    self.publish(&Record::StepEarly { step });
                    self.attempts.get_mut(&step).unwrap().early = true;
                    return format!("has no room for step {step}");
                }
                None if self.drops => {
                    self.ask(Ask::DropOldest);
                    return "asks to drop the oldest step".into();
                }
                None => return String::new(),
            },
        };
        self.put_part(step, step % 3 == 2, have * half, payload);
        format!("puts part {have} of step {step}")
    }

    /// Bytes of this rank's piece of a step, from one of them on.
    fn put_part(&mut self, step: i64, appended: bool, part: u64, payload: Payload) {
        let shape = |n: u64| Shape::new(&[n]).unwrap();
        let (at, whole) = (u64::from(self.rank) * PIECE, u64::from(self.size) * PIECE);
        let place = match appended {
            true => Place::Append,
            false => Place::At { offset: shape(at), global: shape(whole) },
        };
        let meta = ArrayMeta::new(DType::U8, shape(PIECE));
        let b = StepBlock { step, name: "x", units: "", meta, place, part, payload };
        let seq = self.publish(&Record::StepBlock(b));
        self.attempts.get_mut(&step).unwrap().blocks.insert(seq);
    }

    fn end(&mut self, step: i64) -> String {
        let blocks = self.attempts[&step].blocks.len() as u32;
        self.publish(&Record::StepEnd { step, blocks });
        self.attempts.get_mut(&step).unwrap().ended = true;
        (self.open, self.next_step) = (None, step + 1);
        format!("ends step {step}")
    }

    /// The next thing of a program without choices: steps of one piece each, then it closes. Says what for the
    /// story; `None`: it is at its end, or has to wait.
    pub fn act_in_order(&mut self) -> Option<String> {
        if !self.is_free() || self.is_over() {
            return None;
        }
        let Some(step) = self.open else {
            if self.next_step <= self.last_step {
                return Some(self.begin());
            }
            self.ask(Ask::Close { finished: true });
            return Some("asks to close".into());
        };
        if !self.attempts[&step].blocks.is_empty() {
            return Some(self.end(step));
        }
        let block = self.block(PIECE)?;
        self.put_part(step, false, 0, Payload::Block(block));
        Some(format!("puts its piece of step {step}"))
    }

    fn put_small(&mut self) -> String {
        let bytes = (self.seq + 1).to_le_bytes();
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[8]).unwrap());
        let (name, units, attrs, payload) = ("s", "", "", Payload::Inline(&bytes));
        let seq = self.publish(&Record::Put { name, set: 0, meta, units, attrs, if_version: None, payload });
        self.small.insert(seq);
        "puts a small one".into()
    }

    fn put_large(&mut self) -> Option<String> {
        let block = self.block(PIECE)?;
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[PIECE]).unwrap());
        let (name, units, attrs, payload) = ("l", "", "", Payload::Block(block));
        let seq = self.publish(&Record::Put { name, set: 0, meta, units, attrs, if_version: None, payload });
        self.large.insert(seq, block.index as usize);
        Some("puts a large one".into())
    }
}
