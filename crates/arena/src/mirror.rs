//! The block table of a segment that mirrors one of another host: each block lies at the index, the
//! offset and the use that it has there, so that records which name it mean the same in both.
//!
//! ```text
//!  EMPTY --announce--> COMING --all bytes came--> LIVE --the other side is done--> RELEASED --reap--> EMPTY
//!                        +------------------ given up before ------------------------^
//! ```
//!
//! Where a block lies was decided by the allocator of the other host; nothing of it is believed: a
//! block that leaves the area or lies over another one is refused.

use crate::block::Block;
use crate::segment::{Inner, Segment};
use forebay_types::{Code, Error, Result};
use std::collections::BTreeMap;

struct LiveBlock {
    generation: u32,
    offset: u64,
    len: u64,
}

/// Takes the place of the allocator; one a segment.
pub struct Mirror {
    segment: Segment,
    live: BTreeMap<u32, LiveBlock>,
    by_offset: BTreeMap<u64, u64>,
    releases_seen: u64,
}

impl Mirror {
    pub(crate) fn new(segment: Segment) -> Mirror {
        Mirror { segment, live: BTreeMap::new(), by_offset: BTreeMap::new(), releases_seen: 0 }
    }

    /// A block whose bytes are to come. `Full` when the system has no pages for it, `Corrupt` when
    /// it cannot be one.
    pub fn announce(&mut self, index: u32, generation: u32, offset: u64, len: u64) -> Result<Block> {
        let layout = *self.segment.layout();
        let corrupt = |why: &str| {
            let text = format!("block {index} of {len} bytes at {offset} cannot be mirrored: {why}");
            Err(Error::new(Code::Corrupt, text))
        };
        let from = offset.checked_sub(layout.blocks_at);
        let end = from.and_then(|from| from.checked_add(len)).filter(|end| *end <= layout.block_bytes);
        let Some(end) = end.filter(|_| offset.is_multiple_of(64)) else {
            return corrupt("it leaves the area of the blocks");
        };
        if index >= layout.blocks || self.live.contains_key(&index) {
            return corrupt("its entry is not free");
        }
        let before = self.by_offset.range(..=offset).next_back().is_some_and(|(at, n)| at + n > offset);
        let behind = self.by_offset.range(offset..).next().is_some_and(|(at, _)| *at < offset + len.max(1));
        if before || behind {
            return corrupt("it lies over another one");
        }
        if !self.segment.inner().take_up_to(end) {
            let text = format!(
                "shared memory has no more room for a buffer; {len} bytes of a block could not be taken, clear it or make it larger"
            );
            return Err(Error::new(Code::Full, text));
        }
        self.live.insert(index, LiveBlock { generation, offset, len });
        self.by_offset.insert(offset, len.max(1));
        self.segment.table().announce(index, generation, offset, len);
        Ok(self.segment.handle(index, offset, len))
    }

    /// The last byte of a block is there. False when it was given up meanwhile.
    pub fn arrived(&self, block: &Block) -> bool {
        self.is_live(block.index(), block.generation()) && self.segment.table().arrived(block.index())
    }

    /// Whether that use of an entry is announced and not taken back.
    pub fn is_live(&self, index: u32, generation: u32) -> bool {
        self.live.get(&index).is_some_and(|held| held.generation == generation)
    }

    /// Index, use and length of every block that is announced and not taken back.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.live.iter().map(|(index, held)| (*index, held.generation, held.len))
    }

    /// How many there are.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Takes back what the other side released: index and use of each.
    pub fn reap(&mut self) -> Vec<(u32, u32)> {
        let back = self.segment.table().reap(&mut self.releases_seen, self.live.keys().copied());
        let taken = back.into_iter().filter_map(|index| {
            let held = self.live.remove(&index)?;
            self.by_offset.remove(&held.offset);
            Some((index, held.generation))
        });
        taken.collect()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        Inner::give_back_allocator(self.segment.inner());
    }
}
