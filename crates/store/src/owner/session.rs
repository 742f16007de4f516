//! One rank's session as the owner sees it: its ring, its blocks, how far it is in custody.

use super::adopt::Adopted;
use super::apply::Item;
use super::sink::Sink;
use crate::catalog::SessionRow;
use forebay_arena::{Bell, Block, Consumer, Direction, Segment, place};
use forebay_types::record::HeldBlock;
use forebay_types::{Code, Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Why a stretch of the ring cannot be given back yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Until the group it is in is committed.
    Group,
    /// Until its step is committed or given up, or the block is written and let go early.
    Step(i64, u64),
    /// Until the large data set is in its file and in the catalog.
    Put(u64),
}

pub(super) struct Session {
    pub row: SessionRow,
    pub segment: Segment,
    pub consumer: Consumer,
    pub bell: Bell,
    pub sink: Arc<dyn Sink>,
    /// Left over by an owner that died, and its rank is gone, too.
    pub recovered: bool,
    /// Left over by an owner that died, and its rank goes on.
    pub adopted: Option<Adopted>,
    /// The record being read may have been read by the predecessor.
    pub replaying: bool,
    /// Small records up to this number are committed.
    pub applied: u64,
    /// Last record read.
    pub seen: u64,
    /// The rank's socket is closed: nothing more will come.
    pub hung: bool,
    /// The last session there was when it hung up: later ones belong to a later life of the program and
    /// do not end its steps.
    pub mates: Option<u64>,
    /// It hung up, is read to its end, and waits at most for steps that living ranks may end.
    pub settled: bool,
    /// Since when the rank has asked to leave: it begins and ends no more steps.
    pub leaving: Option<Instant>,
    /// The rank said good-bye, and was answered.
    pub clean: bool,
    /// Its end is in the group.
    pub closing: bool,
    /// Its ring is damaged; it is read no more.
    pub broken: bool,
    /// Nothing is read until this large data set is stored.
    pub put: Option<Item>,
    /// Nothing is read until the steps before this request are durable.
    pub deferred: Option<Item>,
    /// Stretches of the ring in order: position behind, and what keeps them.
    pub kept: VecDeque<(u64, Keep)>,
    /// Steps this session may not write, with the reason.
    pub refused: HashMap<i64, Error>,
    pub overflow: Vec<Segment>,
    /// What conditional puts did.
    pub versions: VecDeque<(u64, Result<u64>)>,
}

/// Most outcomes of conditional puts kept for `Ask::Version`.
const VERSIONS: usize = 256;

impl Session {
    pub fn new(row: SessionRow, segment: Segment, sink: Arc<dyn Sink>, applied: u64) -> Session {
        Session {
            consumer: segment.consumer(Direction::Up),
            bell: segment.bell(Direction::Up),
            row,
            segment,
            sink,
            recovered: false,
            adopted: None,
            replaying: false,
            applied,
            seen: applied,
            hung: false,
            mates: None,
            settled: false,
            leaving: None,
            clean: false,
            closing: false,
            broken: false,
            put: None,
            deferred: None,
            kept: VecDeque::new(),
            refused: HashMap::new(),
            overflow: Vec::new(),
            versions: VecDeque::new(),
        }
    }

    /// Whether its ring may be read now.
    pub fn is_readable(&self) -> bool {
        self.put.is_none() && self.deferred.is_none() && !self.broken
    }

    /// Whether nothing more of it is to be read.
    pub fn is_read(&mut self) -> bool {
        self.broken || self.is_readable() && !self.consumer.pending()
    }

    /// Whether it can end no step any more.
    pub fn is_over(&mut self) -> bool {
        self.leaving.is_some() || (self.hung || self.clean) && self.is_read()
    }

    /// The segment a block reference means.
    fn segment_of(&self, number: u32) -> Result<&Segment> {
        if number == 0 {
            return Ok(&self.segment);
        }
        self.overflow.get(number as usize - 1).ok_or_else(|| {
            Error::new(
                Code::Corrupt,
                format!(
                    "session {} names overflow segment {number} and has {}",
                    self.row.session,
                    self.overflow.len()
                ),
            )
        })
    }

    /// The block that a record names, checked against its length.
    pub fn block(&self, b: &HeldBlock) -> Result<Block> {
        let block = self.segment_of(b.segment)?.block(b.index)?;
        if block.made() != b.made {
            let text =
                format!("a record names use {} of block {}, this is {}", b.made, b.index, block.made());
            return Err(Error::new(Code::Corrupt, text));
        }
        match block.len() >= b.bytes {
            true => Ok(block),
            false => Err(Error::new(
                Code::Corrupt,
                format!("a record names {} bytes in a block of {}", b.bytes, block.len()),
            )),
        }
    }

    /// Bytes of the blocks that its segments hold.
    pub fn held_bytes(&self) -> u64 {
        let all = std::iter::once(&self.segment).chain(&self.overflow);
        all.flat_map(|s| (0..s.block_count()).filter_map(|i| s.block(i).ok())).map(|b| b.len()).sum()
    }

    /// Gives a block back to the rank.
    pub fn release(&self, b: &HeldBlock) {
        // A reference that means nothing has nothing to give back.
        let _ = self.segment_of(b.segment).and_then(|s| s.release_made(b.index, b.made));
    }

    /// Gives the ring back up to the first stretch that must stay.
    pub fn release_ring(&mut self, stays: impl Fn(i64, u64) -> bool) {
        let putting = self.put.as_ref().map(Item::seq);
        let mut up_to = None;
        while let Some((position, keep)) = self.kept.front() {
            let keeps = match *keep {
                Keep::Group => false,
                Keep::Step(step, ticket) => stays(step, ticket),
                Keep::Put(seq) => putting == Some(seq),
            };
            if keeps {
                break;
            }
            up_to = Some(*position);
            self.kept.pop_front();
        }
        if let Some(position) = up_to {
            self.consumer.release_to(position);
        }
    }

    pub fn note_version(&mut self, seq: u64, outcome: Result<u64>) {
        if self.versions.len() == VERSIONS {
            self.versions.pop_front();
        }
        self.versions.push_back((seq, outcome));
    }

    pub fn version(&self, seq: u64) -> Result<u64> {
        let found = self.versions.iter().find(|v| v.0 == seq).map(|v| v.1.clone());
        found.unwrap_or_else(|| Err(Error::bad(format!("record {seq} was no conditional put, or long ago"))))
    }

    /// Removes the names of its segments: nothing in them is needed any more.
    pub fn unlink(&self) {
        // It came as a descriptor, which knows no name; the catalog does.
        let _ = std::fs::remove_file(place::segment_path(&self.row.segment));
        let _ = self.segment.unlink();
        for s in &self.overflow {
            let _ = s.unlink();
        }
    }
}
