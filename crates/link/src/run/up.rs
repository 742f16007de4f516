//! What goes to the store: records as soon as the rank has published them, bytes of blocks behind
//! them in pieces, the newest points of curves that somebody looks at.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::frame::Header;
use crate::stream::Stream;
use forebay_arena::{Consumer, Direction, Segment, TripleBuffer, TripleReader, footprint};
use forebay_types::codec::{Reader, Writer};
use forebay_types::control::Ask;
use forebay_types::line::{BlockPlace, Left, OwnerWords, RankWords, RemoteResumed, kind, put_record};
use forebay_types::record::{Payload, Record};
use forebay_types::watch::Declare;
use forebay_types::{Error, Result};

use super::window::Window;
use crate::silence::OF_RANK;

/// Records wait in the ring while so many bytes wait for the line.
const BACKLOG: usize = 256 << 10;
/// Curves and pieces of blocks wait while so many bytes do.
const BULK_BACKLOG: usize = 64 << 10;
/// Bytes of records in one frame.
const FRAME: usize = 64 << 10;
/// The rank's words are told when they have changed, so often.
const WORDS: Duration = Duration::from_millis(50);
/// Points of a watched curve are sent so often.
const CURVES: Duration = Duration::from_millis(100);
/// Points of a curve that nobody watches: who comes late sees something.
const UNWATCHED: Duration = Duration::from_secs(1);

/// A block on its way.
struct Bulk {
    index: u32,
    generation: u32,
    at: u64,
    len: u64,
}

/// A curve's triple buffer in the rank's segment.
struct CurveSource {
    block: u32,
    reader: TripleReader,
    watched: bool,
    sent: Option<Instant>,
}

/// The sending half of a session.
pub struct Up {
    segment: Segment,
    consumer: Consumer,
    buf: Vec<u8>,
    /// What was sent and not released: number, position behind it in the mirror's ring and in ours.
    marks: VecDeque<(u64, u64, u64)>,
    /// Where the mirror's ring ends.
    remote_end: u64,
    /// Last record sent over this or an earlier connection.
    seq: u64,
    bulk: VecDeque<Bulk>,
    /// Pieces of blocks that went over this connection.
    pieces: u64,
    /// Blocks that the mirror holds, or will: use of the entry and number of the record.
    out: BTreeMap<u32, (u32, u64)>,
    window: Window,
    slots: Vec<CurveSource>,
    began: Instant,
    told: RankWords,
    told_at: Option<Instant>,
    /// The rest of a session: what the catalog has of it already.
    left: Option<Left>,
    /// Steps of such a session that lack blocks: what comes of them is passed over.
    torn: HashSet<i64>,
}

impl Up {
    /// Begins where the ring was released.
    pub fn new(segment: &Segment) -> Up {
        Up {
            consumer: segment.consumer(Direction::Up),
            marks: VecDeque::new(),
            remote_end: 0,
            segment: segment.clone(),
            buf: Vec::new(),
            seq: 0,
            bulk: VecDeque::new(),
            pieces: 0,
            out: BTreeMap::new(),
            window: Window::new(),
            slots: Vec::new(),
            began: Instant::now(),
            told: RankWords::default(),
            told_at: None,
            left: None,
            torn: HashSet::new(),
        }
    }

    /// Sends only what is not in the catalog, of a session whose program is gone.
    pub fn lacks(&mut self, left: Left) {
        self.left = Some(left);
    }

    /// Queues a record behind all others, with the next number, which it gives.
    pub fn push_last(&mut self, line: &mut Stream, encode: impl FnOnce(u64, &mut Writer)) -> Result<u64> {
        let (mut record, mut body) = (Writer::new(), Writer::new());
        self.seq += 1;
        encode(self.seq, &mut record);
        put_record(&mut body, &record.finish(), None);
        line.push(Header::new(kind::RECORDS, self.seq), b"", &[&body.finish()])?;
        Ok(self.seq)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Whether the ring has a record that was not read.
    pub fn pending(&mut self) -> bool {
        self.consumer.pending()
    }

    /// Queues what may be sent now; says whether there was anything.
    pub fn pump(&mut self, line: &mut Stream, epoch: u64, heard: u64) -> Result<bool> {
        let mut any = false;
        while line.waiting() < BACKLOG && self.records(line)? {
            any = true;
        }
        any |= self.words(line, epoch, heard)?;
        // One at a time, since pieces of several frames take turns.
        while line.waiting() < BULK_BACKLOG && line.sender().waiting_bulk() == 0 && self.piece(line)? {
            any = true;
            line.flush()?;
        }
        Ok(any | self.curves(line)?)
    }

    /// One frame of records.
    fn records(&mut self, line: &mut Stream) -> Result<bool> {
        let mut body = Writer::new();
        let (mut bytes, mut first) = (0, 0);
        while bytes < FRAME {
            let mut buf = std::mem::take(&mut self.buf);
            let there = self.consumer.next(&mut buf)?;
            if let Some(position) = there {
                let seq = self.record(&buf, position, &mut body)?;
                first = if first == 0 { seq } else { first };
                bytes += buf.len();
            }
            self.buf = buf;
            if there.is_none() {
                break;
            }
        }
        let body = body.finish();
        if !body.is_empty() {
            line.push(Header::new(kind::RECORDS, first), b"", &[&body])?;
        }
        Ok(bytes > 0)
    }

    fn record(&mut self, bytes: &[u8], position: u64, body: &mut Writer) -> Result<u64> {
        let (seq, record) = Record::decode(bytes)?;
        let held = match record {
            Record::Put { payload: Payload::Block(b), .. } => Some(b),
            Record::StepBlock(forebay_types::record::StepBlock { payload: Payload::Block(b), .. }) => Some(b),
            _ => None,
        };
        if seq <= self.seq {
            return Ok(seq); // it arrived before the line was cut
        }
        self.seq = seq;
        if self.left.as_ref().is_some_and(|left| !lacks(left, seq, &record)) {
            // Given back with the next record that is sent, or kept until the segment goes.
            held.iter().for_each(|b| drop(self.segment.release_generation(b.index, b.generation)));
            return Ok(seq);
        }
        if let Some(step) = step_of(&record).filter(|step| self.torn.contains(step)) {
            if !matches!(record, Record::StepBegin { .. }) {
                held.iter().for_each(|b| drop(self.segment.release_generation(b.index, b.generation)));
                return Ok(seq);
            }
            self.torn.remove(&step); // the same number once more
        }
        let mut place = None;
        if let Some(b) = held {
            let Some(block) =
                self.segment.block(b.index).ok().filter(|block| block.generation() == b.generation)
            else {
                return self.tear(seq, &record, position, body);
            };
            self.bulk.push_back(Bulk { index: b.index, generation: b.generation, at: 0, len: block.len() });
            self.out.insert(b.index, (b.generation, seq));
            place = Some(BlockPlace {
                index: b.index,
                generation: b.generation,
                offset: block.offset(),
                len: block.len(),
            });
        } else if let Record::Declare { json } = record
            && let Ok(Declare::Slot { block, points, .. }) = serde_json::from_str(json)
        {
            place = self.slot(block, points);
        }
        self.put(seq, bytes, place.as_ref(), position, body);
        Ok(seq)
    }

    fn put(&mut self, seq: u64, bytes: &[u8], place: Option<&BlockPlace>, position: u64, body: &mut Writer) {
        put_record(body, bytes, place);
        self.remote_end += footprint(bytes.len() as u64);
        self.marks.push_back((seq, self.remote_end, position));
    }

    /// A block of a step is not there any more: the store that died gave it back when the step was discarded, dropped
    /// by its policy, or let go before it was whole. The ring holds such a step while it holds what came before it;
    /// it is no loss, and the store that comes is told to discard what it has of it.
    fn tear(&mut self, seq: u64, record: &Record, position: u64, body: &mut Writer) -> Result<u64> {
        let Some(step) = step_of(record).filter(|_| self.left.is_some()) else {
            return Err(Error::internal(format!("record {seq} names a block that was used again")));
        };
        self.torn.insert(step);
        let mut discard = Writer::new();
        Record::StepDiscard { step }.encode(seq, &mut discard);
        self.put(seq, &discard.finish(), None, position, body);
        Ok(seq)
    }

    /// A curve gets a triple buffer: the mirror needs one of the same size.
    fn slot(&mut self, index: u32, points: u32) -> Option<BlockPlace> {
        let block = self.segment.block(index).ok()?;
        let place =
            BlockPlace { index, generation: block.generation(), offset: block.offset(), len: block.len() };
        let reader = TripleBuffer::reader(block, points).ok()?;
        self.slots.push(CurveSource { block: index, reader, watched: false, sent: None });
        Some(place)
    }

    /// A piece of the first block, if the window has room.
    fn piece(&mut self, line: &mut Stream) -> Result<bool> {
        let room = self.window.room();
        let Some(first) = self.bulk.front_mut().filter(|_| room > 0) else { return Ok(false) };
        let end = (first.at + room).min(first.len);
        let (index, generation, range) = (first.index, first.generation, first.at..end);
        first.at = end;
        if end == first.len {
            self.bulk.pop_front();
        }
        // One that the owner has given up meanwhile is gone.
        let Some(block) = self.segment.block(index).ok().filter(|b| b.generation() == generation) else {
            return Ok(true);
        };
        let mut body = Writer::new();
        body.u32(index).u32(generation).u64(range.start);
        let length = range.end - range.start;
        self.pieces += 1;
        line.push_block(Header::new(kind::BLOCK, self.pieces), &body.finish(), block, range)?;
        let now = self.now();
        self.window.sent(length, now);
        Ok(true)
    }

    /// The rank's words, when they have changed or it is time for a sign of life.
    fn words(&mut self, line: &mut Stream, epoch: u64, heard: u64) -> Result<bool> {
        let quiet = self.told_at.map_or(OF_RANK.says, |at| at.elapsed());
        let urgent = epoch != self.told.epoch || heard != self.told.heard;
        if quiet < WORDS && !urgent {
            return Ok(false);
        }
        let words = RankWords::load(|w| self.segment.word(w).load(Ordering::SeqCst));
        let now = RankWords { epoch, heard, ..words };
        if now == self.told && quiet < OF_RANK.says {
            return Ok(false);
        }
        line.push(Header::new(kind::RANK, 0), b"", &[&now.encode()])?;
        (self.told, self.told_at) = (now, Some(Instant::now()));
        Ok(true)
    }

    fn curves(&mut self, line: &mut Stream) -> Result<bool> {
        let mut any = false;
        for slot in &mut self.slots {
            let pause = if slot.watched { CURVES } else { UNWATCHED };
            if slot.sent.is_some_and(|at| at.elapsed() < pause) || line.waiting() > BULK_BACKLOG {
                continue;
            }
            let Some((_, step, time, x, y)) = slot.reader.latest() else { continue };
            let mut body = Writer::new();
            body.u32(slot.block).u32(x.len() as u32).i64(step).f64(time);
            x.iter().chain(&y).for_each(|v| {
                body.f64(*v);
            });
            line.push(Header::new(kind::CURVE, 0), b"", &[&body.finish()])?;
            slot.sent = Some(Instant::now());
            any = true;
        }
        Ok(any)
    }

    /// When there is something to look at again, if nothing wakes us.
    pub fn pause(&self) -> Duration {
        match self.slots.iter().any(|s| s.watched) {
            true => CURVES,
            false if self.told.step > 0 => WORDS,
            false => OF_RANK.says / 4,
        }
    }

    /// Somebody looks at a curve, or nobody does any more.
    pub fn watch(&mut self, block: u32, watched: bool) {
        for slot in self.slots.iter_mut().filter(|s| s.block == block) {
            slot.watched = watched;
            slot.reader.watch(watched);
        }
    }

    /// How far the other side has the blocks, and the owner is done with the ring.
    pub fn words_of_owner(&mut self, words: &OwnerWords) {
        let now = self.now();
        self.window.taken(words.taken, now);
        self.released_ring(words.released);
    }

    /// The body of a frame that names blocks with which the store is done.
    pub fn released(&mut self, body: &[u8]) -> Result<()> {
        let mut r = Reader::new(body);
        while r.remaining() > 0 {
            self.give_back(r.u32()?, r.u32()?);
        }
        Ok(())
    }

    fn give_back(&mut self, index: u32, generation: u32) {
        if self.out.get(&index).is_some_and(|out| out.0 == generation) {
            self.out.remove(&index);
            self.bulk.retain(|b| b.index != index || b.generation != generation);
            // What is brought stays here until all of it is taken: it may have to be brought again.
            if self.left.is_none() {
                let _ = self.segment.release_generation(index, generation);
            }
        }
    }

    /// The mirror's ring was released up to there.
    fn released_ring(&mut self, remote: u64) {
        let mut ours = None;
        while let Some((_, end, position)) = self.marks.front().copied().filter(|(_, end, _)| *end <= remote)
        {
            debug_assert!(end <= self.remote_end);
            ours = Some(position);
            self.marks.pop_front();
        }
        if let Some(position) = ours.filter(|_| self.left.is_none()) {
            self.consumer.release_to(position);
        }
    }

    /// Another connection to the same mirror, which has this.
    pub fn resume(&mut self, remote: &RemoteResumed) {
        (self.seq, self.remote_end) = (remote.seq, remote.tail);
        self.marks.retain(|(seq, _, _)| *seq <= remote.seq);
        self.consumer.rewind();
        (self.window, self.told_at, self.pieces) = (Window::new(), None, 0);
        let held: HashSet<(u32, u32)> = remote.blocks.iter().map(|b| (b.0, b.1)).collect();
        let gone: Vec<(u32, u32)> = self
            .out
            .iter()
            .filter(|(index, (generation, seq))| {
                *seq <= remote.seq && !held.contains(&(**index, *generation))
            })
            .map(|(index, (generation, _))| (*index, *generation))
            .collect();
        gone.into_iter().for_each(|(index, generation)| self.give_back(index, generation));
        self.bulk.clear();
        let mut coming: Vec<(u64, Bulk)> = Vec::new();
        for (index, generation, at) in &remote.blocks {
            let out = self.out.get(index).filter(|out| out.0 == *generation);
            let len = self.segment.block(*index).map_or(0, |b| b.len());
            if let Some((_, seq)) = out.filter(|_| *at < len) {
                coming.push((*seq, Bulk { index: *index, generation: *generation, at: *at, len }));
            }
        }
        coming.sort_by_key(|(seq, _)| *seq);
        self.bulk.extend(coming.into_iter().map(|(_, bulk)| bulk));
        self.out.retain(|_, (_, seq)| *seq <= remote.seq);
    }
}

/// The step that a record is about.
fn step_of(record: &Record) -> Option<i64> {
    match record {
        Record::StepBegin { step, .. }
        | Record::StepDescribe { step, .. }
        | Record::StepEnd { step, .. }
        | Record::StepDiscard { step }
        | Record::StepEarly { step }
        | Record::StepBlock(forebay_types::record::StepBlock { step, .. }) => Some(*step),
        _ => None,
    }
}

/// Whether the catalog lacks what a record of a session that is over says.
fn lacks(left: &Left, seq: u64, record: &Record) -> bool {
    if let Some(step) = step_of(record) {
        return !left.steps.contains(&step);
    }
    match record {
        // Nobody waits for answers; what changes something is done.
        Record::Ask { json } => {
            let changes = matches!(
                serde_json::from_str(json),
                Ok(Ask::Delete { .. }
                    | Ask::Rename { .. }
                    | Ask::Copy { .. }
                    | Ask::SetAttrs { .. }
                    | Ask::Table { .. }
                    | Ask::Index { .. }
                    | Ask::Refer { .. }
                    | Ask::Update { .. }
                    | Ask::Remove { .. }
                    | Ask::DropStep { .. })
            );
            changes && seq > left.applied
        }
        Record::Declare { .. } => false,
        _ => seq > left.applied,
    }
}
