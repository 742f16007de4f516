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
//!  a record, padded to a line of 64 bytes:      the next one:
//!  0         4         8                        64
//!  +---------+---------+------------------ - - -+---------+--- - -
//!  | length  | check   | bytes                  | 0: none | ...
//!  +---------+---------+------------------ - - -+---------+--- - -
//!   check = length ^ low word of position ^ SALT
//! ```
//!
//! A record becomes visible by the one release store of its first word, so a producer killed in
//! the middle has published nothing; the first word of the next one has been zeroed before. The
//! reader looks at that word only, so a short record travels between two cores with one line of
//! their caches and nothing else. `tail` tells everybody else how far the ring goes. Reading and
//! releasing are separate: what was read but not released is read again by the next consumer. The
//! consumer trusts nothing: lengths are copied out, then checked.

use crate::sync::{AtomicU64, Ordering};
use forebay_types::{Code, Error, Result, limits};

const HEADER: u64 = 8;
const LINE: u64 = 64;
const SALT: u32 = 0x5eed_f0b1;

/// Where a ring lives. The real one is a part of a segment; the model checker has its own.
pub trait RingMemory {
    /// Bytes published, written by the producer.
    fn tail(&self) -> &AtomicU64;
    /// Bytes released, written by the consumer.
    fn mark(&self) -> &AtomicU64;
    /// Bytes of the ring: a power of two, at least 128.
    fn capacity(&self) -> u64;
    /// The first word of a record, at an offset that is a multiple of 64.
    fn head(&self, at: u64) -> &AtomicU64;
    /// Copies in at an offset; the caller keeps `at + bytes.len()` within the capacity.
    fn store(&self, at: u64, bytes: &[u8]);
    /// Copies out from an offset; the caller keeps `at + out.len()` within the capacity.
    fn load(&self, at: u64, out: &mut [u8]);
    /// Whether the pages of the ring are taken as it is written to for the first time.
    fn grows(&self) -> bool {
        false
    }
    /// Takes the pages of a range; false when there is no memory for them now.
    fn grow(&self, _from: u64, _to: u64) -> bool {
        true
    }
}

/// A ring that grows takes so many bytes at a time.
const STEP: u64 = 32 << 10;

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
pub fn footprint(len: u64) -> u64 {
    (HEADER + len).next_multiple_of(LINE)
}

/// The first word of a record; never zero, for a position is even and the salt is odd.
#[inline]
fn head(len: u32, position: u64) -> u64 {
    u64::from(len) | u64::from(len ^ (position as u32) ^ SALT) << 32
}

/// Where the line of a position lies.
#[inline]
pub(crate) fn line(position: u64, capacity: u64) -> u64 {
    position & (capacity - 1) & !(LINE - 1)
}

/// The first word of the record at a position.
#[inline]
fn word_at<M: RingMemory>(memory: &M, position: u64) -> &AtomicU64 {
    memory.head(line(position, memory.capacity()))
}

/// The length that a first word tells, if it is that of a record at the position.
#[inline]
fn announced(word: u64, position: u64) -> Option<u64> {
    let len = word as u32;
    (word == head(len, position) && len as usize <= limits::RECORD_BYTES).then_some(len.into())
}

/// A position as it stands in shared memory: whatever it is, it is taken for that of a line.
fn told(position: &AtomicU64) -> u64 {
    position.load(Ordering::Acquire) & !(LINE - 1)
}

/// How many records are published and not released, for who holds neither end. Both ends may work
/// meanwhile, so it is what was true at some moment of the counting.
pub fn waiting<M: RingMemory>(memory: &M) -> u64 {
    let (begin, capacity) = (told(memory.mark()), memory.capacity());
    let (mut passed, mut count) = (0, 0);
    while passed < capacity {
        let at = begin.wrapping_add(passed);
        let Some(len) = announced(word_at(memory, at).load(Ordering::Acquire), at) else { break };
        passed += footprint(len);
        count += 1;
    }
    count
}

/// The last line stays free for the zero behind the last record.
fn largest(capacity: u64) -> u64 {
    capacity.saturating_sub(LINE + HEADER).min(limits::RECORD_BYTES as u64)
}

/// The writing end of a ring.
pub struct Producer<M: RingMemory> {
    memory: M,
    tail: u64,
    mark: u64,
    /// Up to this position it can be written.
    taken: u64,
}

impl<M: RingMemory> Producer<M> {
    /// Goes on where the ring ends.
    pub fn new(memory: M) -> Self {
        let (tail, mark) = (told(memory.tail()), told(memory.mark()));
        let taken = if memory.grows() && tail < memory.capacity() { 0 } else { u64::MAX };
        let mut producer = Producer { memory, tail, mark, taken };
        producer.catch_up();
        producer
    }

    /// A producer that was killed may have published a record and not said so in `tail`.
    fn catch_up(&mut self) {
        while self.cached_free() > LINE {
            let word = word_at(&self.memory, self.tail).load(Ordering::Acquire);
            let Some(len) = announced(word, self.tail) else { break };
            self.tail = self.tail.wrapping_add(footprint(len));
        }
        self.memory.tail().store(self.tail, Ordering::Release);
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
        if needed + LINE > self.cached_free() {
            let free = self.free();
            if needed + LINE > free {
                return Err(Full { needed: len, free: free.saturating_sub(LINE), largest });
            }
        }
        let begin = self.tail;
        if begin.saturating_add(needed + LINE) > self.taken && !self.grow(begin + needed + LINE) {
            return Err(Full { needed: len, free: self.taken.saturating_sub(begin), largest });
        }
        self.tail = begin.wrapping_add(needed);
        word_at(&self.memory, self.tail).store(0, Ordering::Relaxed);
        let mut at = begin.wrapping_add(HEADER);
        for part in parts {
            self.store(at, part);
            at = at.wrapping_add(part.len() as u64);
        }
        word_at(&self.memory, begin).store(head(len as u32, begin), Ordering::Release);
        self.memory.tail().store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Takes the pages up to a position on the first way around.
    #[cold]
    fn grow(&mut self, to: u64) -> bool {
        let to = to.next_multiple_of(STEP).min(self.capacity());
        let from = self.taken;
        if from < to && !self.memory.grow(from, to) {
            return false;
        }
        self.taken = if to == self.capacity() { u64::MAX } else { to };
        true
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
}

impl<M: RingMemory> Consumer<M> {
    /// Starts at the release mark: what an earlier consumer read but did not release comes again.
    pub fn new(memory: M) -> Self {
        let mark = told(memory.mark());
        Consumer { memory, cursor: mark, mark }
    }

    /// Copies the next record into `buf`, in place of what it held, and returns the position behind it, for
    /// [`Consumer::release_to`]; `None` when there is none. After `Corrupt` the ring is of no
    /// more use.
    #[inline]
    pub fn next(&mut self, buf: &mut Vec<u8>) -> Result<Option<u64>> {
        let word = word_at(&self.memory, self.cursor).load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        let Some(len) = self.fits(word, self.cursor) else {
            let len = word as u32;
            return Err(self.corrupt(&format!("a record announces {len} bytes by the word {word:#x}")));
        };
        self.cursor = self.copy(self.cursor, len, buf);
        Ok(Some(self.cursor))
    }

    /// Copies the record into `buf` that begins at a position which is not read yet, the cursor or one that this gave
    /// behind it, and returns the position behind it. `None` when there is none, or none that can be read.
    pub fn ahead(&self, position: u64, buf: &mut Vec<u8>) -> Option<u64> {
        let len = self.fits(word_at(&self.memory, position).load(Ordering::Acquire), position)?;
        Some(self.copy(position, len, buf))
    }

    /// Whether there is one.
    pub fn has_ahead(&self, position: u64) -> bool {
        self.fits(word_at(&self.memory, position).load(Ordering::Acquire), position).is_some()
    }

    /// The length of the record of that word, if it can be one that begins there.
    #[inline]
    fn fits(&self, word: u64, position: u64) -> Option<u64> {
        let room = self.memory.capacity().saturating_sub(position.wrapping_sub(self.mark));
        announced(word, position).filter(|len| word != 0 && footprint(*len) <= room)
    }

    #[inline]
    fn copy(&self, position: u64, len: u64, buf: &mut Vec<u8>) -> u64 {
        buf.resize(len as usize, 0); // what it held is overwritten, so it is not cleared first
        self.load(position.wrapping_add(HEADER), buf);
        position.wrapping_add(footprint(len))
    }

    /// The record once more that begins at a position between the release mark and the cursor.
    pub fn again(&self, position: u64) -> Result<Vec<u8>> {
        let word = word_at(&self.memory, position).load(Ordering::Acquire);
        let read = self.cursor.wrapping_sub(position);
        let len = announced(word, position).filter(|len| footprint(*len) <= read && position >= self.mark);
        let Some(len) = len else {
            return Err(self.corrupt(&format!("no record that was read begins at {position}")));
        };
        let mut bytes = vec![0; len as usize];
        self.load(position.wrapping_add(HEADER), &mut bytes);
        Ok(bytes)
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

    /// Whether there is a record to read: one load of shared memory.
    #[inline]
    pub fn pending(&mut self) -> bool {
        word_at(&self.memory, self.cursor).load(Ordering::Acquire) != 0
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A ring of a page that has no memory for now.
    struct Poor {
        cursors: [AtomicU64; 2],
        words: Vec<AtomicU64>,
        is_poor: AtomicBool,
    }

    impl RingMemory for &Poor {
        fn tail(&self) -> &AtomicU64 {
            &self.cursors[0]
        }

        fn mark(&self) -> &AtomicU64 {
            &self.cursors[1]
        }

        fn capacity(&self) -> u64 {
            self.words.len() as u64 * 8
        }

        fn head(&self, at: u64) -> &AtomicU64 {
            &self.words[at as usize / 8]
        }

        fn store(&self, at: u64, bytes: &[u8]) {
            for (n, byte) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..byte.len()].copy_from_slice(byte);
                self.words[at as usize / 8 + n].store(u64::from_le_bytes(word), Ordering::Relaxed);
            }
        }

        fn load(&self, at: u64, out: &mut [u8]) {
            for (n, byte) in out.chunks_mut(8).enumerate() {
                let word = self.words[at as usize / 8 + n].load(Ordering::Relaxed).to_le_bytes();
                byte.copy_from_slice(&word[..byte.len()]);
            }
        }

        fn grows(&self) -> bool {
            true
        }

        fn grow(&self, _from: u64, _to: u64) -> bool {
            !self.is_poor.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_ring_that_there_is_no_memory_for_is_full_until_there_is() {
        let poor = Poor {
            cursors: Default::default(),
            words: (0..512).map(|_| AtomicU64::new(0)).collect(),
            is_poor: AtomicBool::new(true),
        };
        let mut producer = Producer::new(&poor);
        let refused = producer.push(&[b"12345678"]).unwrap_err();
        assert!(!refused.for_ever() && refused.free == 0, "{refused}");
        poor.is_poor.store(false, Ordering::Relaxed);
        producer.push(&[b"12345678"]).unwrap();
        let mut got = Vec::new();
        Consumer::new(&poor).next(&mut got).unwrap().unwrap();
        assert_eq!(got, b"12345678");
    }
}
