//! The block table: which blocks are handed out, for both sides to see.
//!
//! ```text
//!  an entry:  0 offset in the segment (8)   8 length (8)   16 state (4), use (4): one word   24 zero (8)
//! ```
//!
//! The creating side writes offset and length, then the state `LIVE` with the count of the entry's uses in
//! one store with release order; the other side turns `LIVE` into `RELEASED` by one atomic exchange of
//! the word, so that no release meets another use than it was meant for, and only the creating side
//! turns that into `EMPTY`. A block that the other side only borrowed, and somebody there still looks at, it marks
//! `HELD` before it says that it is done: the creating side then waits for the release. In the mirror of a segment of another host a block is
//! `COMING` until its last byte is there. What the creator needs to know it keeps to itself, so
//! a table scribbled over by a broken peer harms no other block.

use crate::sync::{AtomicU64, Ordering};
use forebay_types::{Code, Error, Result};

/// Where the word of state and use stands in an entry.
pub(crate) const STATE: u64 = 16;
const EMPTY: u32 = 0;
const LIVE: u32 = 1;
const RELEASED: u32 = 2;
pub(crate) const COMING: u32 = 3;
const HELD: u32 = 4;

/// Where a table lives. The real one is a part of a segment; the model checker has its own.
pub(crate) trait TableMemory {
    /// Entries.
    fn blocks(&self) -> u32;
    /// First byte of the blocks in the segment, and how many bytes they have.
    fn area(&self) -> (u64, u64);
    /// A word of an entry, at a multiple of 8.
    fn word(&self, index: u32, at: u64) -> &AtomicU64;
    /// Count of releases; tells the creator whether a look at the states is worth while.
    fn releases(&self) -> &AtomicU64;
    /// Bytes of the block area whose pages are taken.
    fn taken(&self) -> &AtomicU64;
}

/// The table of one segment.
#[derive(Clone, Copy)]
pub(crate) struct Table<M>(pub M);

impl<M: TableMemory> Table<M> {
    fn state(&self, index: u32) -> &AtomicU64 {
        self.0.word(index, STATE)
    }

    /// Bytes of the block area whose pages are taken.
    pub fn taken(&self) -> &AtomicU64 {
        self.0.taken()
    }

    /// What the other side released of these: taken back. `seen` is the count of releases at the last look.
    #[inline]
    pub fn reap(&self, seen: &mut u64, live: impl Iterator<Item = u32>) -> Vec<u32> {
        let releases = self.0.releases().load(Ordering::Acquire);
        if releases == *seen {
            return Vec::new();
        }
        *seen = releases;
        let back = live.filter(|index| state_of(self.state(*index).load(Ordering::Acquire)) == RELEASED);
        let back: Vec<u32> = back.collect();
        back.iter().for_each(|index| self.retire(*index));
        back
    }

    /// Which use of its entry a block is.
    pub fn generation(&self, index: u32) -> u32 {
        generation_of(self.state(index).load(Ordering::Acquire))
    }

    /// Publishes a block.
    pub fn publish(&self, index: u32, offset: u64, len: u64) {
        self.write(index, offset, len, packed(LIVE, self.generation(index).wrapping_add(1)));
    }

    /// Publishes a block of a mirrored segment whose bytes are to come.
    pub fn announce(&self, index: u32, generation: u32, offset: u64, len: u64) {
        self.write(index, offset, len, packed(COMING, generation));
    }

    fn write(&self, index: u32, offset: u64, len: u64, word: u64) {
        self.0.word(index, 0).store(offset, Ordering::Relaxed);
        self.0.word(index, 8).store(len, Ordering::Relaxed);
        self.state(index).store(word, Ordering::Release);
    }

    /// The creating side takes an entry back: one that was released, or never published.
    pub fn retire(&self, index: u32) {
        self.state(index).store(packed(EMPTY, self.generation(index)), Ordering::Release);
    }

    /// The other side keeps a live block beyond what it was given for; says whether it does.
    pub fn hold(&self, index: u32, generation: u32) -> Result<bool> {
        self.check(index)?;
        let (live, held) = (packed(LIVE, generation), packed(HELD, generation));
        Ok(self.state(index).compare_exchange(live, held, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Whether the other side keeps it so.
    pub fn is_held(&self, index: u32) -> bool {
        state_of(self.state(index).load(Ordering::Acquire)) == HELD
    }

    /// The last byte of a block is there; false when the other side has let go of it meanwhile.
    pub fn arrived(&self, index: u32) -> bool {
        let word = self.state(index).load(Ordering::Relaxed);
        let whole = packed(LIVE, generation_of(word));
        state_of(word) == COMING
            && self.state(index).compare_exchange(word, whole, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn check(&self, index: u32) -> Result<()> {
        if index >= self.0.blocks() {
            return Err(corrupt(format!("block {index} is beyond the {} of the table", self.0.blocks())));
        }
        Ok(())
    }

    /// Offset and length of a block that is live or coming, copied out and checked.
    pub fn look_up(&self, index: u32) -> Result<(u64, u64)> {
        self.check(index)?;
        if !is_out(self.state(index).load(Ordering::Acquire)) {
            return Err(corrupt(format!("block {index} is not handed out")));
        }
        let offset = self.0.word(index, 0).load(Ordering::Relaxed);
        let len = self.0.word(index, 8).load(Ordering::Relaxed);
        let (first, bytes) = self.0.area();
        let taken = self.taken().load(Ordering::Acquire).min(bytes);
        let inside = offset >= first && offset - first <= taken && len <= taken - (offset - first);
        if !inside || !offset.is_multiple_of(64) {
            return Err(corrupt(format!("block {index} announces {len} bytes at {offset}")));
        }
        Ok((offset, len))
    }

    /// Releases a block for the other side, if its entry still is of that generation. A second call changes nothing.
    pub fn release_generation(&self, index: u32, generation: u32) -> Result<()> {
        self.release_if(index, |word| generation_of(word) == generation)
    }

    /// Releases a block for the other side, of whatever generation. A second call changes nothing.
    pub fn release(&self, index: u32) -> Result<()> {
        self.release_if(index, |_| true)
    }

    fn release_if(&self, index: u32, meant: impl Fn(u64) -> bool) -> Result<()> {
        self.check(index)?;
        // Two attempts are enough for any use: one that is coming may become live, and nothing else.
        let released = |word| (is_out(word) && meant(word)).then(|| packed(RELEASED, generation_of(word)));
        if self.state(index).fetch_update(Ordering::AcqRel, Ordering::Acquire, released).is_ok() {
            self.0.releases().fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

/// State and use as one word: the state in its lower half.
fn packed(state: u32, generation: u32) -> u64 {
    u64::from(state) | u64::from(generation) << 32
}

pub(crate) fn state_of(word: u64) -> u32 {
    word as u32
}

fn generation_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Whether a block is the other side's.
fn is_out(word: u64) -> bool {
    matches!(state_of(word), LIVE | COMING | HELD)
}

fn corrupt(what: String) -> Error {
    Error::new(Code::Corrupt, format!("a block table in shared memory is damaged: {what}"))
}
