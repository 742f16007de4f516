//! The creating side's allocator of blocks: its [books](Books) over the table of a segment.

use crate::block::Block;
use crate::books::Books;
use crate::layout::SegmentSpec;
use crate::segment::{Inner, Segment};
use forebay_types::Result;

/// Hands out blocks; one a segment.
pub struct Allocator {
    segment: Segment,
    books: Books,
}

impl Allocator {
    pub(crate) fn new(segment: Segment) -> Allocator {
        let books = Books::new(&segment.table());
        Allocator { segment, books }
    }

    /// A block of that length, or nothing when no free extent, no table entry or no page of the
    /// system is left; look at [`Allocator::largest_free`] and [`Allocator::reap`].
    pub fn alloc(&mut self, bytes: u64) -> Option<Block> {
        let inner = self.segment.inner();
        let take = |bytes| inner.take_up_to(bytes);
        let (index, offset) = self.books.alloc(&self.segment.table(), bytes, take)?;
        Some(self.segment.handle(index, offset, bytes))
    }

    /// Takes back a block that was never published, or only lent: one that the other side keeps comes back when it
    /// releases it.
    pub fn free(&mut self, block: Block) {
        if block.belongs_to(&self.segment) {
            self.books.free(&self.segment.table(), block.index());
        }
    }

    /// Takes back a block whatever the other side has made of its entry: for memory that is this side's own, and that
    /// the other one may only look at.
    pub fn reclaim(&mut self, block: &Block) {
        if block.belongs_to(&self.segment) {
            self.books.reclaim(&self.segment.table(), block.index());
        }
    }

    /// Takes back what the other side released; returns how many blocks.
    #[inline]
    pub fn reap(&mut self) -> usize {
        self.reap_but(|_| false)
    }

    /// Takes back what the other side released, except blocks whose numbers `holds` names: this side holds them, and
    /// they come back when it holds them no more. Returns how many blocks.
    #[inline]
    pub fn reap_but(&mut self, holds: impl Fn(u32) -> bool) -> usize {
        self.books.reap(&self.segment.table(), holds)
    }

    /// How many blocks the other side has released and this one holds, and how many bytes.
    pub fn held(&self) -> (usize, u64) {
        self.books.held()
    }

    /// Gives the pages behind the last block back to the system; how many bytes. They are taken again when needed.
    pub fn trim(&mut self) -> u64 {
        self.segment.inner().give_back_behind(self.books.end())
    }

    /// Largest block that could be handed out now. While the system has no more pages, only those
    /// that are taken count.
    pub fn largest_free(&self) -> u64 {
        self.books.largest_free(&self.segment.table())
    }

    /// Whether the system had no pages for the last block that was wanted.
    pub fn is_short(&self) -> bool {
        self.books.is_short()
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.books.used()
    }

    /// Most bytes that were handed out at a time.
    pub fn high_water(&self) -> u64 {
        self.books.high_water()
    }

    /// Bytes of the block area.
    pub fn capacity(&self) -> u64 {
        self.segment.block_bytes()
    }

    /// Number of blocks handed out.
    pub fn live(&self) -> usize {
        self.books.live()
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

    /// Gives the pages behind the last block back to the system; how many bytes.
    pub fn trim(&mut self) -> u64 {
        self.0.trim()
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.0.used()
    }

    /// Whether it has handed out as many blocks as it can, whatever their length.
    pub fn is_out_of_blocks(&self) -> bool {
        self.0.live() as u64 >= u64::from(self.0.segment.blocks())
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
}
