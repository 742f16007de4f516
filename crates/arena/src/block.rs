//! A block: a piece of a segment that one side fills and the other side uses in place.
//!
//! The protocol is that a block belongs to its creator until it is published and to the other
//! side until it is released. A broken peer of the same user may change it at any time: whoever
//! reads it gets some bytes, never a crash, and must not rely on reading the same ones twice.

use crate::copy::copy_streaming;
use crate::map::Map;
use crate::segment::Segment;
use crate::sync::Ordering;
use crate::table::COMING;
use forebay_types::{Error, Result};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Types of which every bit pattern is a value, so that bytes of a block may be seen as them.
///
/// # Safety
/// The type has no padding, no invalid bit patterns and an alignment of at most 16.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: a number: no padding, every bit pattern valid.
        unsafe impl Plain for $t {}
        // SAFETY: two numbers of one type: no padding, every bit pattern valid.
        unsafe impl Plain for [$t; 2] {}
    )* };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// A block of a segment; keeps the segment mapped.
pub struct Block {
    map: Arc<Map>,
    index: u32,
    made: u32,
    offset: u64,
    len: u64,
}

impl Block {
    pub(crate) fn new(map: Arc<Map>, index: u32, made: u32, offset: u64, len: u64) -> Block {
        Block { map, index, made, offset, len }
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
    pub fn made(&self) -> u32 {
        self.made
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
        self.map.atomic_u32(crate::table::state_at(self.index)).load(Ordering::Acquire) != COMING
    }

    /// Whether it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.map.at(self.offset, self.len).as_ptr()
    }

    /// Address of the first byte, for writing.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.map.at(self.offset, self.len).as_ptr()
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
        let len = bytes.len() as u64;
        assert!(at <= self.len && len <= self.len - at, "{}", self.outside(at, len));
        let to = self.map.at(self.offset + at, len).as_ptr();
        // SAFETY: the range lies in the block; the block is this side's to write by the protocol,
        // and `bytes` cannot overlap it unless the caller made it of this very block, which the
        // copying order tolerates.
        unsafe { copy_streaming(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Copies out of the block.
    pub fn read_into(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        if at > self.len || len > self.len - at {
            return Err(self.outside(at, len));
        }
        self.map.load(self.offset + at, out);
        Ok(())
    }

    /// The bytes in place. A broken peer of the same user may change them while they are read.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping, which `self` keeps; by the protocol nobody
        // writes it while this side reads. A peer that breaks the protocol can make this side
        // read wrong numbers, which are never used as lengths or addresses without a check.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len as usize) }
    }

    /// The bytes in place, for filling or for results.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; by the protocol the block is this side's alone.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), self.len as usize) }
    }

    /// The block as numbers; bytes behind the last whole one are left out.
    #[inline]
    pub fn as_slice<T: Plain>(&self) -> &[T] {
        let count = self.len as usize / size_of::<T>();
        // SAFETY: blocks are aligned to 64 bytes, `count` numbers lie in the block, and every
        // bit pattern is a `T`; otherwise as for `bytes`.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), count) }
    }

    /// The block as numbers, for filling or for results.
    #[inline]
    pub fn as_mut_slice<T: Plain>(&mut self) -> &mut [T] {
        let count = self.len as usize / size_of::<T>();
        // SAFETY: as for `as_slice` and `bytes_mut`.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), count) }
    }

    fn part(&self, range: &Range<u64>) -> Result<&[u8]> {
        if range.start > range.end || range.end > self.len {
            return Err(self.outside(range.start, range.end.saturating_sub(range.start)));
        }
        Ok(&self.bytes()[range.start as usize..range.end as usize])
    }

    /// Writes a range of the block to a file at an offset, all of it. With O_DIRECT the caller
    /// sees to the alignment of all three.
    pub fn pwrite_to(&self, file: impl AsFd, file_offset: u64, range: Range<u64>) -> Result<()> {
        let mut rest = self.part(&range)?;
        let mut at = file_offset;
        while !rest.is_empty() {
            match rustix::io::pwrite(&file, rest, at) {
                Ok(0) => return Err(Error::io("cannot write", rustix::io::Errno::NOSPC)),
                Ok(n) => {
                    rest = &rest[n..];
                    at += n as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::io(format!("cannot write {} bytes at {at}", rest.len()), e)),
            }
        }
        Ok(())
    }

    /// Reads from a file at an offset into a range of the block; returns how much the file had.
    pub fn pread_from(&mut self, file: impl AsFd, file_offset: u64, range: Range<u64>) -> Result<u64> {
        self.part(&range)?;
        let part = &mut self.bytes_mut()[range.start as usize..range.end as usize];
        let mut done = 0;
        while done < part.len() {
            match rustix::io::pread(&file, &mut part[done..], file_offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::io(format!("cannot read {} bytes", part.len()), e)),
            }
        }
        Ok(done as u64)
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} at {}, {} bytes)", self.index, self.offset, self.len)
    }
}
