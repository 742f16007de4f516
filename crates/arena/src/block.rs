//! A block: a piece of a segment that one side fills and the other side uses in place.
//!
//! The protocol is that a block belongs to its creator until it is published and to the other
//! side until it is released. A broken peer of the same user may change it at any time: whoever
//! reads it gets some bytes, never a crash, and must not rely on reading the same ones twice. So
//! there are no references to its bytes, but copies, [views](View) and bytes [lent](Lent) to the
//! system; one side may have any number of handles to a block.

use crate::copy::{copy_shared, copy_streaming, copy_warm};
use crate::layout::{Layout, PAGE};
use crate::lent::Lent;
use crate::map::Map;
use crate::pages::room_for;
use crate::segment::Segment;
use crate::sync::{AtomicU64, Ordering};
use crate::table::{COMING, STATE, state_of};
use crate::view::{View, copy};
use forebay_types::{Error, Result};
use std::sync::Arc;

/// A block of a segment; keeps the segment mapped. Clones are handles to the same one.
#[derive(Clone)]
pub struct Block {
    map: Arc<Map>,
    index: u32,
    generation: u32,
    offset: u64,
    len: u64,
}

impl Block {
    pub(crate) fn new(map: Arc<Map>, index: u32, generation: u32, offset: u64, len: u64) -> Block {
        Block { map, index, generation, offset, len }
    }

    pub(crate) fn belongs_to(&self, segment: &Segment) -> bool {
        Arc::ptr_eq(&self.map, segment.map())
    }

    /// Its number in the table, by which the other side finds it.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// How often its table entry has been used, this time included.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Where it begins in the segment; a multiple of 4096 for blocks of a page and more.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// A handle that keeps the segment mapped, for those who hold a pointer into the block.
    pub fn keeper(&self) -> Arc<dyn std::any::Any + Send + Sync> {
        self.map.clone()
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether all its bytes are there: always, but for a block of a mirror ([`crate::Mirror`]).
    pub fn is_there(&self) -> bool {
        let word = self.map.atomic_u64(Layout::entry(self.index) + STATE);
        state_of(word.load(Ordering::Acquire)) != COMING
    }

    /// Whether it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte, for other languages.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.at(self.offset, self.len).as_ptr()
    }

    /// The bytes in place.
    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: the block lies in the mapping, which `self` keeps; nobody has a reference to its bytes.
        unsafe { View::new(self.map.at(self.offset, self.len), self.len as usize) }
    }

    fn outside(&self, at: u64, len: u64) -> Error {
        Error::bad(format!("bytes {at}..{} leave a block of {} bytes", at.saturating_add(len), self.len))
    }

    /// Copies into the block, past the caches when it is much.
    ///
    /// # Panics
    /// When the bytes leave the block, as an index does that leaves a slice.
    #[inline]
    pub fn write_from(&self, at: u64, bytes: &[u8]) {
        let to = self.range(at, bytes.len() as u64);
        // SAFETY: the range lies in the block; the block is this side's to write by the protocol,
        // and `bytes` cannot overlap it unless the caller made it of this very block, which the
        // copying order tolerates.
        unsafe { copy_streaming(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Copies into a block that is written again and again, past the caches only when it is more than they hold.
    ///
    /// # Panics
    /// As [`Block::write_from`].
    #[inline]
    pub fn write_warm(&self, at: u64, bytes: &[u8]) {
        let to = self.range(at, bytes.len() as u64);
        // SAFETY: as for `write_from`.
        unsafe { copy_warm(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Copies into a block whose lines another core may have: past the caches unless it is little.
    ///
    /// # Panics
    /// As [`Block::write_from`].
    #[inline]
    pub fn write_shared(&self, at: u64, bytes: &[u8]) {
        let to = self.range(at, bytes.len() as u64);
        // SAFETY: as for `write_from`.
        unsafe { copy_shared(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Copies out of a block that is used again and again, past the caches only when it is more than they hold.
    ///
    /// # Panics
    /// As [`Block::write_from`].
    #[inline]
    pub fn read_warm(&self, at: u64, out: &mut [u8]) {
        let from = self.range(at, out.len() as u64);
        // SAFETY: the range lies in the block; `out` is borrowed exclusively, so it is not this memory. What others
        // change meanwhile arrives as some bytes, and the compiler knows nothing of them.
        unsafe { copy_warm(from, out.as_mut_ptr(), out.len()) };
        std::hint::black_box(out.as_mut_ptr());
    }

    /// A copy of a range, in memory of its own. `Full` when there is none.
    ///
    /// # Panics
    /// As [`Block::write_from`].
    pub fn copied(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let from = self.range(at, len as u64);
        let mut out = room_for(len)?;
        // The system clears new pages just before they are written: they are in the caches, however much it is.
        // SAFETY: as for `read_warm`; the vector has room for so many bytes, all of which are written.
        unsafe {
            copy(from, out.as_mut_ptr(), len);
            out.set_len(len);
        }
        Ok(out)
    }

    /// Address of a range, which must lie in the block.
    #[inline]
    fn range(&self, at: u64, len: u64) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "{}", self.outside(at, len));
        self.map.at(self.offset + at, len).as_ptr()
    }

    /// A word of the block that both sides read and write at any time; nothing beyond its end.
    #[inline]
    pub fn word(&self, i: usize) -> Option<&AtomicU64> {
        let at = (i as u64)
            .checked_mul(8)
            .filter(|at| self.offset.is_multiple_of(8) && self.len >= 8 && *at <= self.len - 8)?;
        Some(self.map.atomic_u64(self.offset + at))
    }

    /// Makes the block's pages read-only in this process, or writable again: who writes there then ends by SIGSEGV at
    /// that line. Blocks of less than a page stay as they are, since others share their page.
    pub fn protect(&self, is_read_only: bool) -> Result<()> {
        if !self.offset.is_multiple_of(PAGE) || self.len < PAGE {
            return Ok(());
        }
        let done = self.map.protect(self.offset, self.len.next_multiple_of(PAGE), is_read_only);
        done.map_err(|e| Error::io("cannot protect memory of a snapshot that is over", e))
    }

    /// The bytes for a call of the system that writes or sends them, or for copies of them. By the protocol
    /// nobody writes a block that is published; a broken peer may.
    #[inline]
    pub fn lent(&self) -> Lent<'_> {
        // SAFETY: the block lies in the mapping, which `self` keeps; nobody has a reference to its bytes.
        unsafe { Lent::new(self.map.at(self.offset, self.len), self.len as usize) }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} at {}, {} bytes)", self.index, self.offset, self.len)
    }
}
