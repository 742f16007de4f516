//! The creating side's allocator of blocks.
//!
//! Everything it decides by is in its own memory; the table in the segment only receives. Free
//! extents are kept by offset (to join neighbours) and by length (to find the best fit, lowest
//! address first, so that the same pages serve every step and stay warm). Blocks of a page or
//! more are page aligned, for direct writes; smaller ones are cut from the end of the smallest
//! extent that fits.

use crate::block::Block;
use crate::layout::SegmentSpec;
use crate::segment::{Inner, Segment};
use forebay_types::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// Hands out blocks; one a segment.
pub struct Allocator {
    segment: Segment,
    by_offset: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    live: BTreeMap<u32, (u64, u64)>,
    indices: Vec<u32>,
    used: u64,
    high_water: u64,
    releases_seen: u64,
    short: bool,
}

impl Allocator {
    pub(crate) fn new(segment: Segment) -> Allocator {
        let layout = *segment.layout();
        let mut allocator = Allocator {
            segment,
            by_offset: BTreeMap::new(),
            by_len: BTreeSet::new(),
            live: BTreeMap::new(),
            indices: (0..layout.blocks).rev().collect(),
            used: 0,
            high_water: 0,
            releases_seen: 0,
            short: false,
        };
        if layout.block_bytes > 0 {
            allocator.insert(layout.blocks_at, layout.block_bytes);
        }
        allocator
    }

    fn insert(&mut self, offset: u64, len: u64) {
        self.by_offset.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove(&mut self, offset: u64, len: u64) {
        self.by_offset.remove(&offset);
        self.by_len.remove(&(len, offset));
    }

    /// A block of that length, or nothing when no free extent, no table entry or no page of the
    /// system is left; look at [`Allocator::largest_free`] and [`Allocator::reap`].
    pub fn alloc(&mut self, bytes: u64) -> Option<Block> {
        let size = bytes.max(1).checked_next_multiple_of(if bytes >= PAGE { PAGE } else { LINE })?;
        let (extent, extent_len, offset) = self.find(size, bytes >= PAGE)?;
        let index = *self.indices.last()?;
        let first = self.segment.layout().blocks_at;
        self.short = !self.segment.inner().take_up_to(offset - first + size);
        if self.short {
            return None;
        }
        self.indices.pop();
        self.remove(extent, extent_len);
        if offset > extent {
            self.insert(extent, offset - extent);
        }
        let end = offset + size;
        if end < extent + extent_len {
            self.insert(end, extent + extent_len - end);
        }
        self.live.insert(index, (offset, size));
        self.used += size;
        self.high_water = self.high_water.max(self.used);
        self.segment.table().publish(index, offset, bytes);
        Some(self.segment.handle(index, offset, bytes))
    }

    /// The best extent and the place in it.
    fn find(&self, size: u64, paged: bool) -> Option<(u64, u64, u64)> {
        self.by_len.range((size, 0)..).find_map(|&(len, extent)| {
            let offset = if paged {
                extent.next_multiple_of(PAGE)
            } else if self.is_last(extent, len) {
                extent // the rest of the area may not be taken yet: begin at its low end
            } else {
                extent + len - size
            };
            (offset + size <= extent + len).then_some((extent, len, offset))
        })
    }

    fn is_last(&self, extent: u64, len: u64) -> bool {
        let layout = self.segment.layout();
        extent + len == layout.blocks_at + layout.block_bytes
    }

    /// Takes back a block that was never published.
    pub fn free(&mut self, block: Block) {
        if block.belongs_to(&self.segment) && self.live.contains_key(&block.index()) {
            self.segment.table().retire(block.index());
            self.take_back(block.index());
        }
    }

    /// Takes back what the other side released; returns how many blocks.
    #[inline]
    pub fn reap(&mut self) -> usize {
        let back = self.segment.table().reap(&mut self.releases_seen, self.live.keys().copied());
        back.iter().for_each(|index| self.take_back(*index));
        back.len()
    }

    fn take_back(&mut self, index: u32) {
        let Some((mut offset, mut len)) = self.live.remove(&index) else { return };
        self.indices.push(index);
        self.used -= len;
        if let Some((&before, &n)) = self.by_offset.range(..offset).next_back()
            && before + n == offset
        {
            self.remove(before, n);
            offset = before;
            len += n;
        }
        if let Some((&after, &n)) = self.by_offset.range(offset + len..).next()
            && offset + len == after
        {
            self.remove(after, n);
            len += n;
        }
        self.insert(offset, len);
    }

    /// Largest block that could be handed out now. While the system has no more pages, only those
    /// that are taken count.
    pub fn largest_free(&self) -> u64 {
        if self.indices.is_empty() {
            return 0;
        }
        let paged = |from: u64, to: u64| to.saturating_sub(from.next_multiple_of(PAGE));
        if self.short {
            let there = self.segment.layout().blocks_at + self.segment.taken();
            let usable =
                self.by_offset.iter().map(|(at, len)| paged(*at, (at + len).min(there)) / PAGE * PAGE);
            return usable.max().unwrap_or(0);
        }
        self.by_len.last().map_or(0, |(len, at)| paged(*at, at + len))
    }

    /// Whether the system had no pages for the last block that was wanted.
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Most bytes that were handed out at a time.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Bytes of the block area.
    pub fn capacity(&self) -> u64 {
        self.segment.layout().block_bytes
    }

    /// Number of blocks handed out.
    pub fn live(&self) -> usize {
        self.live.len()
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        Inner::give_back_allocator(self.segment.inner());
    }
}

/// Memory that is handed out in blocks and used again, of this process alone: a segment that nobody
/// else has ever had. Its blocks are as good as any memory of the process.
pub struct OwnAllocator(Allocator);

/// A block of it.
#[derive(Debug)]
pub struct OwnBlock(Block);

impl OwnAllocator {
    /// Address space for so many bytes in so many blocks; pages are taken as they are used.
    pub fn new(block_bytes: u64, blocks: u32) -> Result<OwnAllocator> {
        let spec =
            SegmentSpec { name: String::new(), kind: 0, up_bytes: 0, down_bytes: 0, block_bytes, blocks };
        Ok(OwnAllocator(Segment::create(&spec)?.allocator()))
    }

    /// A block of that length, with whatever was in it before; nothing when there is no room.
    pub fn alloc(&mut self, bytes: u64) -> Option<OwnBlock> {
        self.0.alloc(bytes).map(OwnBlock)
    }

    /// Takes one back.
    pub fn free(&mut self, block: OwnBlock) {
        self.0.free(block.0);
    }
}

impl OwnBlock {
    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is this process's alone, and who writes it has this handle to itself; the mapping
        // lives as long as the handle.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.len() as usize) }
    }

    /// Its bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is this process's alone, and this the only handle to this part of it; the
        // mapping lives as long as the handle.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), self.0.len() as usize) }
    }

    /// A handle that keeps the memory mapped, for those who hold a pointer into it.
    pub fn keeper(&self) -> Arc<dyn std::any::Any + Send + Sync> {
        self.0.keeper()
    }
}
