//! The block table: which blocks are handed out, for both sides to see.
//!
//! ```text
//!  an entry:  0 offset in the segment (8)   8 length (8)   16 state (4)   20 generation (4)   24 zero (8)
//! ```
//!
//! The creating side writes offset, length and generation, then the state `LIVE` with release
//! order; the other side turns `LIVE` into `RELEASED` by one atomic exchange, and only the
//! creating side turns that into `EMPTY`. In the mirror of a segment of another host a block is
//! `COMING` until its last byte is there. What the creator needs to know it keeps to itself, so
//! a table scribbled over by a broken peer harms no other block.

use crate::layout::{Cursor, ENTRY_BYTES, Layout, TABLE_AT};
use crate::map::Map;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use forebay_types::{Code, Error, Result};

const EMPTY: u32 = 0;
pub(crate) const LIVE: u32 = 1;
pub(crate) const RELEASED: u32 = 2;
pub(crate) const COMING: u32 = 3;

/// Where an entry lies in the segment.
fn entry(index: u32) -> u64 {
    TABLE_AT + index as u64 * ENTRY_BYTES
}

/// Where its state lies.
pub(crate) fn state_at(index: u32) -> u64 {
    entry(index) + 16
}

/// The table of one segment.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub map: &'a Map,
    pub layout: &'a Layout,
}

impl<'a> Table<'a> {
    pub fn state(&self, index: u32) -> &'a AtomicU32 {
        self.map.atomic_u32(state_at(index))
    }

    /// Count of releases; tells the allocator whether a look at the states is worth while.
    pub fn releases(&self) -> &'a AtomicU64 {
        self.map.atomic_u64(Layout::cursor(Cursor::Released))
    }

    /// Bytes of the block area whose pages are taken.
    pub fn taken(&self) -> &'a AtomicU64 {
        self.map.atomic_u64(Layout::cursor(Cursor::Taken))
    }

    /// Which use of its entry a block is.
    pub fn made(&self, index: u32) -> u32 {
        self.uses(index).load(Ordering::Acquire)
    }

    fn uses(&self, index: u32) -> &'a AtomicU32 {
        self.map.atomic_u32(entry(index) + 20)
    }

    /// Publishes a block.
    pub fn publish(&self, index: u32, offset: u64, len: u64) {
        self.uses(index).fetch_add(1, Ordering::Relaxed);
        self.write(index, offset, len, LIVE);
    }

    /// Publishes a block of a mirrored segment whose bytes are to come.
    pub fn announce(&self, index: u32, made: u32, offset: u64, len: u64) {
        self.uses(index).store(made, Ordering::Relaxed);
        self.write(index, offset, len, COMING);
    }

    fn write(&self, index: u32, offset: u64, len: u64, state: u32) {
        let at = entry(index);
        self.map.atomic_u64(at).store(offset, Ordering::Relaxed);
        self.map.atomic_u64(at + 8).store(len, Ordering::Relaxed);
        self.state(index).store(state, Ordering::Release);
    }

    /// The creating side takes a released entry back.
    pub fn retire(&self, index: u32) {
        self.state(index).store(EMPTY, Ordering::Release);
    }

    /// The last byte of a block is there; false when the other side has let go of it meanwhile.
    pub fn arrived(&self, index: u32) -> bool {
        self.state(index).compare_exchange(COMING, LIVE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn check(&self, index: u32) -> Result<()> {
        if index >= self.layout.blocks {
            return Err(corrupt(format!("block {index} is beyond the {} of the table", self.layout.blocks)));
        }
        Ok(())
    }

    /// Offset and length of a block that is live or coming, copied out and checked.
    pub fn look_up(&self, index: u32) -> Result<(u64, u64)> {
        self.check(index)?;
        if !matches!(self.state(index).load(Ordering::Acquire), LIVE | COMING) {
            return Err(corrupt(format!("block {index} is not handed out")));
        }
        let at = entry(index);
        let offset = self.map.atomic_u64(at).load(Ordering::Relaxed);
        let len = self.map.atomic_u64(at + 8).load(Ordering::Relaxed);
        let first = self.layout.blocks_at;
        let taken = self.taken().load(Ordering::Acquire).min(self.layout.block_bytes);
        let inside = offset >= first && offset - first <= taken && len <= taken - (offset - first);
        if !inside || !offset.is_multiple_of(64) {
            return Err(corrupt(format!("block {index} announces {len} bytes at {offset}")));
        }
        Ok((offset, len))
    }

    /// The same for that use of the entry only.
    pub fn release_made(&self, index: u32, made: u32) -> Result<()> {
        self.check(index)?;
        // No race: an entry gets a new use only after this side has released the old one.
        if self.made(index) == made { self.release(index) } else { Ok(()) }
    }

    /// The other side is done with a block. Once or twice is the same.
    pub fn release(&self, index: u32) -> Result<()> {
        self.check(index)?;
        let free = |from| {
            self.state(index).compare_exchange(from, RELEASED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        // In this order: one that is coming may become live, and never the other way round.
        if free(COMING) || free(LIVE) {
            self.releases().fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

fn corrupt(what: String) -> Error {
    Error::new(Code::Corrupt, format!("a block table in shared memory is damaged: {what}"))
}
