//! One rank's session as the driver sees it: its segments, its ring and who listens.

use super::sink::Sink;
use crate::catalog::SessionRow;
use forebay_arena::{Bell, Block, Consumer, Direction, Segment, segments};
use forebay_types::control::word;
use forebay_types::record::{HeldBlock, Record};
use forebay_types::{Code, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) struct Attached {
    pub row: SessionRow,
    pub segment: Segment,
    pub consumer: Consumer,
    pub bell: Bell,
    pub sink: Arc<dyn Sink>,
    pub overflow: Vec<Segment>,
    /// Up to there of its ring requests were looked for, which may be ahead of what is read.
    looked: u64,
    /// When its rank, on another host, was asked last whether it lives, and the word that answers that.
    asked: Option<(Instant, u64)>,
    /// Records up to this number took effect under an earlier owner.
    pub applied: u64,
    /// Its records of steps that an earlier owner has put into the catalog, the oldest first: number and bytes.
    pub pending: VecDeque<(u64, Vec<u8>)>,
}

impl Attached {
    pub fn new(row: SessionRow, segment: Segment, sink: Arc<dyn Sink>, applied: u64) -> Attached {
        Attached {
            consumer: segment.consumer(Direction::Up),
            bell: segment.bell(Direction::Up),
            row,
            segment,
            sink,
            overflow: Vec::new(),
            looked: 0,
            asked: None,
            applied,
            pending: VecDeque::new(),
        }
    }

    /// Whether it is the mirror of the segment of a rank on another host, which is what that host has should this one be
    /// gone: nothing may leave it that is not listed.
    pub fn is_mirror(&self) -> bool {
        self.segment.word(word::MIRROR).load(Ordering::SeqCst) != 0
    }

    /// The head to which a rank came last whose loop has not ended. Of one on another host that is not known here.
    pub fn head_of_the_dead(&self) -> Option<i64> {
        let word = |w| self.segment.word(w).load(Ordering::SeqCst);
        let in_loop = !self.is_mirror() && word(word::HELD) & word::OVER == 0;
        (word(word::STEP) as i64).checked_sub(1).filter(|head| in_loop && *head >= 0)
    }

    /// Whether a rank on another host has said since then that it lives; it is asked, if it was not yet. A line that is
    /// cut, or still brings what a dead rank sent, says nothing of that. Ranks of this host are looked at.
    pub fn has_answered(&mut self, since: Instant) -> bool {
        if !self.is_mirror() || self.after().is_some() {
            return true;
        }
        let (_, number) = match self.asked.filter(|(at, _)| *at >= since) {
            Some(asked) => asked,
            None => {
                // A gate that is as it was: the other side sends its number back at once.
                let number = self.segment.word(word::EPOCH).fetch_add(1, Ordering::SeqCst) + 1;
                self.segment.bell(Direction::Down).ring();
                *self.asked.insert((Instant::now(), number))
            }
        };
        self.segment.word(word::ECHO).load(Ordering::SeqCst) >= number
    }

    /// The next record, if an earlier owner has put it into the catalog, and whether it is in the ring as well. What is
    /// only in the ring comes before what was written behind it.
    pub fn next_pending(&mut self, buffer: &mut Vec<u8>) -> Option<(Vec<u8>, bool)> {
        let (seq, _) = self.pending.front()?;
        let next = self.consumer.ahead(self.consumer.position(), buffer);
        let next = next.and_then(|_| Record::decode(buffer).ok()).map(|(seq, _)| seq);
        let is_in_ring = match next {
            Some(next) if next < *seq => return None,
            next => next == Some(*seq),
        };
        let (_, bytes) = self.pending.pop_front()?;
        Some((bytes, is_in_ring))
    }

    /// Whether there is something to read.
    pub fn has_next(&mut self) -> bool {
        !self.pending.is_empty() || self.consumer.pending()
    }

    /// The next record that is not read and was not looked at, and the position behind it; it stays to be read.
    pub fn look_on(&mut self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.looked = self.consumer.ahead(self.looked.max(self.consumer.position()), buffer)?;
        Some(self.looked)
    }

    /// Whether there is one.
    pub fn can_look_on(&self) -> bool {
        self.consumer.has_ahead(self.looked.max(self.consumer.position()))
    }

    /// Up to which of its requests a predecessor has refused some.
    pub fn refused(&self) -> u64 {
        self.segment.word(word::REFUSED).load(Ordering::SeqCst)
    }

    /// The session whose rest it brings.
    pub fn after(&self) -> Option<u64> {
        Some(self.segment.word(word::AFTER).load(Ordering::SeqCst)).filter(|n| *n != 0)
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
        if block.generation() != b.generation {
            let text = format!(
                "a record names use {} of block {}, this is {}",
                b.generation,
                b.index,
                block.generation()
            );
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
    pub fn free(&self, b: &HeldBlock) {
        // A reference that means nothing has nothing to give back.
        let _ = self.segment_of(b.segment).and_then(|s| s.release_generation(b.index, b.generation));
    }

    /// Removes the names of its segments: nothing in them is needed any more.
    pub fn unlink(&self) {
        // It came as a descriptor, which knows no name; the catalog does.
        let _ = std::fs::remove_file(segments::path(&self.row.segment));
        let _ = self.segment.unlink();
        for s in &self.overflow {
            let _ = s.unlink();
        }
    }
}
