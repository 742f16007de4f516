//! A ring of records with one producer and one consumer, in memory that they share.
//!
//! Positions count bytes since the ring was made and never wrap (2^64 bytes); a record lies at
//! its position modulo the capacity, a power of two. Three cursors, each with one writer:
//!
//! ```text
//!      released            read and kept            published        free
//!  ...............[mark]=====================[cursor]==========[tail].........
//!                 shared, of the consumer    private           shared, of the producer
//!
//!  a record, padded to 8 bytes:
//!  0         4         8
//!  +---------+---------+------------------ - -+
//!  | length  | check   | bytes                |      check = length ^ low word of position ^ SALT
//!  +---------+---------+------------------ - -+
//! ```
//!
//! A record becomes visible by the one release store of `tail`, so a producer killed in the
//! middle has published nothing. Reading and releasing are separate: what was read but not
//! released is read again by the next consumer. The consumer trusts nothing: lengths are
//! copied out, then checked.

use crate::sync::{AtomicU64, Ordering};
use forebay_types::{Code, Error, Result, limits};

const HEADER: u64 = 8;
const SALT: u32 = 0x5eed_f0b1;

/// Where a ring lives. The real one is a part of a segment; the model checker has its own.
pub trait RingMemory {
    /// Bytes published, written by the producer.
    fn tail(&self) -> &AtomicU64;
    /// Bytes released, written by the consumer.
    fn mark(&self) -> &AtomicU64;
    /// Bytes of the ring: a power of two, at least 16.
    fn capacity(&self) -> u64;
    /// Copies in at an offset; the caller keeps `at + bytes.len()` within the capacity.
    fn store(&self, at: u64, bytes: &[u8]);
    /// Copies out from an offset; the caller keeps `at + out.len()` within the capacity.
    fn load(&self, at: u64, out: &mut [u8]);
}

/// The ring has no room for a record now, or never has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes the record takes.
    pub needed: u64,
    /// Bytes free now.
    pub free: u64,
    /// Largest record this ring takes.
    pub largest: u64,
}

impl Full {
    /// Whether waiting cannot help.
    pub fn for_ever(&self) -> bool {
        self.needed > self.largest
    }
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.for_ever() {
            write!(f, "a record of {} bytes is larger than the {} that fit", self.needed, self.largest)
        } else {
            write!(
                f,
                "a ring has {} bytes free and {} are needed; wait for the reader",
                self.free, self.needed
            )
        }
    }
}

impl std::error::Error for Full {}

impl From<Full> for Error {
    fn from(full: Full) -> Error {
        Error::new(if full.for_ever() { Code::BadArgument } else { Code::Full }, full.to_string())
    }
}

/// Bytes a record of that length takes in a ring.
#[inline]
fn footprint(len: u64) -> u64 {
    HEADER + len.next_multiple_of(8)
}

#[inline]
fn check(len: u32, position: u64) -> u32 {
    len ^ (position as u32) ^ SALT
}

fn largest(capacity: u64) -> u64 {
    capacity.saturating_sub(HEADER).min(limits::RECORD_BYTES as u64)
}

/// The writing end of a ring.
pub struct Producer<M: RingMemory> {
    memory: M,
    tail: u64,
    mark: u64,
}

impl<M: RingMemory> Producer<M> {
    /// Goes on where the ring ends.
    pub fn new(memory: M) -> Self {
        let tail = memory.tail().load(Ordering::Acquire);
        let mark = memory.mark().load(Ordering::Acquire);
        Producer { memory, tail, mark }
    }

    /// Publishes one record, made of the parts one behind the other: whole or not at all.
    #[inline]
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), Full> {
        let len: u64 = parts.iter().map(|p| p.len() as u64).sum();
        let largest = largest(self.capacity());
        if len > largest {
            return Err(Full { needed: len, free: self.free(), largest });
        }
        let needed = footprint(len);
        if needed > self.cached_free() {
            let free = self.free();
            if needed > free {
                return Err(Full { needed, free, largest: largest + HEADER });
            }
        }
        let mut at = self.tail;
        let mut header = [0; HEADER as usize];
        header[..4].copy_from_slice(&(len as u32).to_le_bytes());
        header[4..].copy_from_slice(&check(len as u32, at).to_le_bytes());
        for part in std::iter::once(&header[..]).chain(parts.iter().copied()) {
            self.store(at, part);
            at += part.len() as u64;
        }
        self.tail += needed;
        self.memory.tail().store(self.tail, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn store(&self, position: u64, bytes: &[u8]) {
        let capacity = self.memory.capacity();
        let at = position & (capacity - 1);
        let first = bytes.len().min((capacity - at) as usize);
        self.memory.store(at, &bytes[..first]);
        if first < bytes.len() {
            self.memory.store(0, &bytes[first..]);
        }
    }

    #[inline]
    fn cached_free(&self) -> u64 {
        // A mark beyond the tail, or too far behind, comes from a broken reader: no room then.
        match self.tail.checked_sub(self.mark) {
            Some(used) if used <= self.capacity() => self.capacity() - used,
            _ => 0,
        }
    }

    /// Bytes free now.
    #[inline]
    pub fn free(&mut self) -> u64 {
        self.mark = self.memory.mark().load(Ordering::Acquire);
        self.cached_free()
    }

    /// Bytes of the ring.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.memory.capacity()
    }

    /// Position behind the last published record.
    #[inline]
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Whether the other side has released everything that was published.
    pub fn is_drained(&mut self) -> bool {
        self.free() == self.capacity()
    }
}

/// The reading end of a ring.
pub struct Consumer<M: RingMemory> {
    memory: M,
    cursor: u64,
    mark: u64,
    tail: u64,
}

impl<M: RingMemory> Consumer<M> {
    /// Starts at the release mark: what an earlier consumer read but did not release comes again.
    pub fn new(memory: M) -> Self {
        let mark = memory.mark().load(Ordering::Acquire);
        Consumer { memory, cursor: mark, mark, tail: mark }
    }

    /// Copies the next record into `buf`, in place of what it held, and returns the position behind it, for
    /// [`Consumer::release_to`]; `None` when there is none. After `Corrupt` the ring is of no
    /// more use.
    #[inline]
    pub fn next(&mut self, buf: &mut Vec<u8>) -> Result<Option<u64>> {
        if !self.pending() {
            return Ok(None);
        }
        let available = match self.tail.checked_sub(self.cursor) {
            Some(n) if self.tail - self.mark <= self.memory.capacity() => n,
            _ => return Err(self.corrupt("its end leaves the ring")),
        };
        if available < HEADER {
            return Err(self.corrupt("half a header is published"));
        }
        let mut header = [0; HEADER as usize];
        self.load(self.cursor, &mut header);
        let [a, b, c, d, e, f, g, h] = header;
        let (len, seen) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let needed = footprint(len as u64);
        if len as usize > limits::RECORD_BYTES || needed > available || seen != check(len, self.cursor) {
            return Err(self.corrupt(&format!("a record announces {len} bytes, {available} are published")));
        }
        buf.resize(len as usize, 0); // what it held is overwritten, so it is not cleared first
        self.load(self.cursor + HEADER, buf);
        self.cursor += needed;
        Ok(Some(self.cursor))
    }

    #[cold]
    fn corrupt(&self, what: &str) -> Error {
        Error::new(
            Code::Corrupt,
            format!("a ring in shared memory is damaged at {}: {what}; end the session", self.cursor),
        )
    }

    #[inline]
    fn load(&self, position: u64, out: &mut [u8]) {
        let capacity = self.memory.capacity();
        let at = position & (capacity - 1);
        let first = out.len().min((capacity - at) as usize);
        self.memory.load(at, &mut out[..first]);
        if first < out.len() {
            self.memory.load(0, &mut out[first..]);
        }
    }

    /// Whether there is a record to read (one load of shared memory at most).
    #[inline]
    pub fn pending(&mut self) -> bool {
        if self.tail == self.cursor {
            self.tail = self.memory.tail().load(Ordering::Acquire);
        }
        self.tail != self.cursor
    }

    /// Gives the producer the room up to a position that [`Consumer::next`] returned. Positions
    /// already released, and positions not yet read, change nothing.
    #[inline]
    pub fn release_to(&mut self, position: u64) {
        if position > self.mark && position <= self.cursor {
            self.mark = position;
            self.memory.mark().store(position, Ordering::Release);
        }
    }

    /// Goes back to the release mark.
    pub fn rewind(&mut self) {
        self.cursor = self.mark;
        self.tail = self.mark;
    }

    /// Position behind the last record read.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// Position up to which the producer has its room back.
    #[inline]
    pub fn released(&self) -> u64 {
        self.mark
    }

    /// Bytes of the ring.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.memory.capacity()
    }

    /// Bytes published and not yet released; what a full ring is measured by.
    pub fn backlog(&self) -> u64 {
        self.memory.tail().load(Ordering::Acquire).saturating_sub(self.mark)
    }
}
