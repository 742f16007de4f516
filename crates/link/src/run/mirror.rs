//! The mirror of a rank's segment: what the line brings goes in as if the rank wrote it here, what
//! the owner says comes out for the line. No sockets here, and no threads.

use forebay_arena::{
    Bell, Block, Consumer, Direction, Mirror as Blocks, Producer, Segment, TripleBuffer, TripleWriter,
};
use forebay_types::codec::Reader;
use forebay_types::control::word;
use forebay_types::line::{OwnerWords, RankWords, RemoteResumed, take_record};
use forebay_types::record::Record;
use forebay_types::watch::Declare;
use forebay_types::{Code, Error, Result, limits};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

/// A block that comes in pieces.
struct Coming {
    block: Block,
    at: u64,
}

/// A curve's triple buffer in the mirror.
struct CurveMirror {
    writer: TripleWriter,
    watched: bool,
}

/// The mirror.
pub struct Mirror {
    segment: Segment,
    up: Producer,
    bell: Bell,
    down: Consumer,
    blocks: Blocks,
    coming: BTreeMap<u32, Coming>,
    slots: BTreeMap<u32, CurveMirror>,
    /// Last record that came.
    seq: u64,
    /// Notices given out, and where each ends in the ring.
    given: u64,
    unheard: VecDeque<(u64, u64)>,
    buf: Vec<u8>,
}

impl Mirror {
    /// Of a segment that was just made.
    pub fn new(segment: &Segment) -> Mirror {
        Mirror {
            up: segment.producer(Direction::Up),
            bell: segment.bell(Direction::Up),
            down: segment.consumer(Direction::Down),
            blocks: segment.mirror(),
            segment: segment.clone(),
            coming: BTreeMap::new(),
            slots: BTreeMap::new(),
            seq: 0,
            given: 0,
            unheard: VecDeque::new(),
            buf: Vec::new(),
        }
    }

    /// The body of a frame of records.
    pub fn records(&mut self, body: &[u8]) -> Result<()> {
        let mut r = Reader::new(body);
        while r.remaining() > 0 {
            let (bytes, place) = take_record(&mut r)?;
            let (seq, record) = Record::decode(bytes)?;
            if seq <= self.seq {
                continue;
            }
            if let Some(p) = place {
                let block = self.blocks.announce(p.index, p.generation, p.offset, p.len)?;
                match record {
                    Record::Declare { json } => self.slot(block, json)?,
                    _ => drop(self.coming.insert(p.index, Coming { block, at: 0 })),
                }
            }
            self.up.push(&[bytes]).map_err(|full| {
                Error::new(Code::Corrupt, format!("record {seq} does not fit where it fitted there: {full}"))
            })?;
            self.seq = seq;
        }
        self.bell.ring();
        Ok(())
    }

    fn slot(&mut self, block: Block, json: &str) -> Result<()> {
        let wrong = || Error::new(Code::Corrupt, "a block came with a declaration of no curve");
        let Ok(Declare::Slot { points, .. }) = serde_json::from_str(json) else { return Err(wrong()) };
        if points as usize > limits::POINTS {
            return Err(wrong());
        }
        let index = block.index();
        self.blocks.arrived(&block);
        self.slots
            .insert(index, CurveMirror { writer: TripleBuffer::writer(block, points)?, watched: false });
        Ok(())
    }

    /// Which use of a block the bytes belong to that come next, so many of them, for [`Mirror::fill`].
    pub fn place(&mut self, body: &[u8], length: u64) -> Result<u64> {
        let mut r = Reader::new(body);
        let (index, generation, at) = (r.u32()?, r.u32()?, r.u64()?);
        let due = self.coming.get(&index).filter(|c| c.block.generation() == generation);
        if let Some(Coming { block, at: due }) = due
            && (at != *due || length > block.len() - at)
        {
            let text = format!("{length} bytes at {at} of a block of {} came, {due} were due", block.len());
            return Err(Error::new(Code::Corrupt, text));
        }
        Ok(u64::from(index) << 32 | u64::from(generation))
    }

    /// Bytes of a block came and go where they belong; those of one that was given up meanwhile are passed over. Says
    /// whether it is whole and the owner has to look.
    pub fn fill(&mut self, index_and_generation: u64, bytes: &[u8]) -> bool {
        let (index, generation) = ((index_and_generation >> 32) as u32, index_and_generation as u32);
        let Some(Coming { block, at }) =
            self.coming.get_mut(&index).filter(|c| c.block.generation() == generation)
        else {
            return false;
        };
        if bytes.len() as u64 > block.len() - *at {
            return false;
        }
        block.write_from(*at, bytes);
        *at += bytes.len() as u64;
        if *at < block.len() {
            return false;
        }
        let whole = self.coming.remove(&index);
        whole.is_some_and(|c| self.blocks.arrived(&c.block))
    }

    /// Newest points of a curve.
    pub fn curve(&mut self, body: &[u8]) -> Result<()> {
        let mut r = Reader::new(body);
        let (index, n, step, time) = (r.u32()?, r.u32()?, r.i64()?, r.f64()?);
        let (x, y) = (r.raw(n as usize * 8)?, r.raw(n as usize * 8)?);
        let Some(slot) = self.slots.get_mut(&index) else { return Ok(()) };
        let numbers = |from: &[u8], to: &mut [f64]| {
            for (to, from) in to.iter_mut().zip(from.chunks_exact(8)) {
                *to = f64::from_le_bytes(from.try_into().unwrap_or_default());
            }
        };
        slot.writer.publish(step, time, n.min(slot.writer.points()), |xs, ys| {
            numbers(x, xs);
            numbers(y, ys);
        });
        Ok(())
    }

    /// The rank's words; says whether the controller waits for this.
    pub fn rank(&mut self, words: &RankWords) -> bool {
        words.each(|w, value| self.segment.word(w).store(value, Ordering::SeqCst));
        let before = self.segment.word(word::ECHO).swap(words.epoch, Ordering::SeqCst);
        self.heard(words.heard);
        before != words.epoch
    }

    /// Notices up to that number are in the rank's ring.
    fn heard(&mut self, number: u64) {
        while let Some((_, end)) = self.unheard.front().copied().filter(|(n, _)| *n <= number) {
            self.down.release_to(end);
            self.unheard.pop_front();
        }
    }

    /// The next notice for the rank, with its number.
    pub fn notice(&mut self) -> Result<Option<(u64, &[u8])>> {
        let Some(end) = self.down.next(&mut self.buf)? else { return Ok(None) };
        self.given += 1;
        self.unheard.push_back((self.given, end));
        Ok(Some((self.given, &self.buf)))
    }

    /// Whether a notice waits that was not given out.
    pub fn has_notice(&mut self) -> bool {
        self.down.pending()
    }

    /// The owner's words as they are now; to be read before the notices are.
    pub fn owner(&self, taken: u64) -> OwnerWords {
        let load = |w: usize| self.segment.word(w).load(Ordering::SeqCst);
        // The epoch first: a gate is stored before it is counted, so the gate is no older.
        let epoch = load(word::EPOCH);
        OwnerWords { epoch, released: self.released(), taken, ..OwnerWords::load(load) }
    }

    fn released(&self) -> u64 {
        self.segment.released(Direction::Up)
    }

    /// Whether the owner has something of the rank that it will give back.
    pub fn is_busy(&self) -> bool {
        self.released() != self.up.position() || self.blocks.live() > self.slots.len()
    }

    /// Blocks that the owner is done with.
    pub fn reap(&mut self) -> Vec<(u32, u32)> {
        let back = self.blocks.reap();
        for (index, _) in &back {
            self.coming.remove(index);
            self.slots.remove(index);
        }
        back
    }

    /// Curves of which it has changed whether somebody looks; all of them when `again`.
    pub fn watched(&mut self, again: bool) -> Vec<(u32, bool)> {
        let mut changed = Vec::new();
        for (index, slot) in &mut self.slots {
            let now = slot.writer.watched();
            if now != slot.watched || again && now {
                slot.watched = now;
                changed.push((*index, now));
            }
        }
        changed
    }

    /// The rank's side is here again and has heard so many notices: what it has not is given again.
    pub fn resume(&mut self, heard: u64) -> RemoteResumed {
        self.heard(heard);
        self.down.rewind();
        self.given = heard;
        self.unheard.clear();
        let at = |index: &u32| self.coming.get(index).map(|c| c.at);
        let blocks =
            self.blocks.all().map(|(index, generation, len)| (index, generation, at(&index).unwrap_or(len)));
        RemoteResumed { seq: self.seq, tail: self.up.position(), blocks: blocks.collect() }
    }
}
