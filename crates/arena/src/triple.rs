//! The newest points of a curve, in a block: three buffers that the writer fills in turn.
//!
//! ```text
//!      0  magic   8 points a buffer   64 newest: number of the newest update, 0 for none
//!    128  watched: nonzero when somebody looks
//!    192  three stamps of 64 bytes: version, step, time, count
//!    384  three buffers: x then y, 8 bytes a point each
//! ```
//!
//! The version of a stamp is `2 n - 1` while update `n` is written and `2 n` when it is whole.
//! The writer never looks at a reader; a reader copies and then looks whether the version is
//! still the same. As update `n` goes into buffer `n mod 3`, a reader has the time of two whole
//! updates for its copy. Readers leave no trace but `watched`: any number of them may come,
//! stop or die at any instruction.

use crate::sync::{AtomicU64, Ordering, fence};

/// Where a triple buffer lives. The real one is a block; the model checker has its own.
pub trait TripleMemory {
    /// The header word at a byte offset below 384, a multiple of 8.
    fn word(&self, at: usize) -> &AtomicU64;
}

const NEWEST: usize = 64;
#[cfg(not(loom))]
const WATCHED: usize = 128;
const STAMPS: usize = 192;
#[cfg(not(loom))]
const DATA: usize = 384;

fn stamp(update: u64) -> usize {
    STAMPS + (update % 3) as usize * 64
}

/// The writer begins an update; returns its number.
#[inline]
pub(crate) fn begin(m: &impl TripleMemory) -> u64 {
    let update = m.word(NEWEST).load(Ordering::Relaxed).wrapping_add(1);
    m.word(stamp(update)).store(update.wrapping_mul(2).wrapping_sub(1), Ordering::Relaxed);
    fence(Ordering::Release);
    update
}

/// The writer has filled the buffer.
#[inline]
pub(crate) fn commit(m: &impl TripleMemory, update: u64) {
    m.word(stamp(update)).store(update.wrapping_mul(2), Ordering::Release);
    m.word(NEWEST).store(update, Ordering::Release);
}

/// Copies the newest update with `copy` if there is one newer than `seen`; `None` also when the
/// writer overtook every attempt.
pub(crate) fn read<T>(
    m: &impl TripleMemory,
    seen: u64,
    attempts: usize,
    mut copy: impl FnMut(u64) -> Option<T>,
) -> Option<(u64, T)> {
    for _ in 0..attempts {
        let update = m.word(NEWEST).load(Ordering::Acquire);
        if update == 0 || update == seen {
            return None;
        }
        let version = m.word(stamp(update));
        if version.load(Ordering::Acquire) != update.wrapping_mul(2) {
            continue;
        }
        let value = copy(update)?;
        fence(Ordering::Acquire);
        if version.load(Ordering::Relaxed) == update.wrapping_mul(2) {
            return Some((update, value));
        }
    }
    None
}

#[cfg(not(loom))]
pub use real::{TripleBuffer, TripleReader, TripleWriter, Update};

#[cfg(not(loom))]
mod real {
    use super::*;
    use crate::{Block, View};
    use forebay_types::{Code, Error, Result, limits};

    const MAGIC: u64 = u64::from_le_bytes(*b"FBTRIPLE");
    const ATTEMPTS: usize = 8;

    /// Makes the ends of a triple buffer.
    pub struct TripleBuffer;

    /// The simulation's end.
    pub struct TripleWriter {
        memory: Memory,
        /// Where an update is made, before it is copied.
        own: (Vec<f64>, Vec<f64>),
    }

    /// The monitor's end.
    pub struct TripleReader {
        memory: Memory,
        seen: u64,
    }

    /// An update as a reader copied it.
    pub type Update = (u64, i64, f64, Vec<f64>, Vec<f64>);

    struct Memory {
        block: Block,
        points: usize,
    }

    impl TripleMemory for Memory {
        #[inline]
        fn word(&self, at: usize) -> &AtomicU64 {
            assert!(at.is_multiple_of(8) && at < DATA);
            // SAFETY: the block has at least `DATA` bytes (checked when the end was made) and is
            // aligned to 64; these words are used through atomics only.
            unsafe { AtomicU64::from_ptr(self.block.as_ptr().add(at).cast()) }
        }
    }

    impl Memory {
        fn new(block: Block, points: u32) -> Result<Memory> {
            let needed = TripleBuffer::bytes_for(points);
            if points == 0 || points as usize > limits::POINTS || block.len() < needed {
                return Err(Error::new(
                    Code::Corrupt,
                    format!(
                        "a triple buffer of {points} points (1 to {}) needs {needed} bytes and the block has {}",
                        limits::POINTS,
                        block.len()
                    ),
                ));
            }
            Ok(Memory { block, points: points as usize })
        }

        /// The first `n` abscissae and ordinates of the buffer of an update.
        fn buffer(&self, update: u64, n: usize) -> [View<'_, f64>; 2] {
            let at = DATA + (update % 3) as usize * 2 * self.points * 8;
            let bytes = [at, at + self.points * 8].map(|at| self.block.view().part(at, n * 8));
            bytes.map(|b| b.and_then(|b| b.cast()).expect("a block holds three buffers behind its header"))
        }
    }

    impl TripleBuffer {
        /// Bytes of the block for buffers of so many points.
        pub fn bytes_for(points: u32) -> u64 {
            DATA as u64 + points as u64 * 48
        }

        /// The writing end over a block that this side allocated.
        pub fn writer(block: Block, points: u32) -> Result<TripleWriter> {
            let memory = Memory::new(block, points)?;
            for at in (0..DATA).step_by(8) {
                memory.word(at).store(0, Ordering::Relaxed);
            }
            memory.word(8).store(points as u64, Ordering::Relaxed);
            memory.word(0).store(MAGIC, Ordering::Release);
            Ok(TripleWriter { memory, own: Default::default() })
        }

        /// A reading end over a block of the other side, as its declaration describes it.
        pub fn reader(block: Block, points: u32) -> Result<TripleReader> {
            let memory = Memory::new(block, points)?;
            let (magic, seen) =
                (memory.word(0).load(Ordering::Acquire), memory.word(8).load(Ordering::Relaxed));
            if magic != MAGIC || seen != points as u64 {
                return Err(Error::new(
                    Code::Corrupt,
                    format!("the block holds no triple buffer of {points} points"),
                ));
            }
            Ok(TripleReader { memory, seen: 0 })
        }
    }

    impl TripleWriter {
        /// Publishes an update of `n` points (no more than the buffer holds).
        #[inline]
        pub fn publish(&mut self, step: i64, time: f64, n: u32, fill: impl FnOnce(&mut [f64], &mut [f64])) {
            let n = (n as usize).min(self.memory.points);
            let update = begin(&self.memory);
            let (xs, ys) = &mut self.own;
            xs.resize(n, 0.0);
            ys.resize(n, 0.0);
            fill(xs, ys);
            let [x, y] = self.memory.buffer(update, n);
            x.copy_from(xs);
            y.copy_from(ys);
            let stamp = stamp(update);
            self.memory.word(stamp + 8).store(step as u64, Ordering::Relaxed);
            self.memory.word(stamp + 16).store(time.to_bits(), Ordering::Relaxed);
            self.memory.word(stamp + 24).store(n as u64, Ordering::Relaxed);
            commit(&self.memory, update);
        }

        /// Whether somebody looks.
        #[inline]
        pub fn watched(&self) -> bool {
            self.memory.word(WATCHED).load(Ordering::Relaxed) != 0
        }

        /// Points that a buffer holds.
        pub fn points(&self) -> u32 {
            self.memory.points as u32
        }
    }

    impl TripleReader {
        /// The newest update, if it is newer than the last one returned: its number, step, time,
        /// x and y.
        pub fn latest(&mut self) -> Option<Update> {
            let memory = &self.memory;
            let (update, (step, time, x, y)) = read(memory, self.seen, ATTEMPTS, |update| {
                let stamp = stamp(update);
                let n = memory.word(stamp + 24).load(Ordering::Relaxed);
                let n = usize::try_from(n).ok().filter(|n| *n <= memory.points)?;
                let step = memory.word(stamp + 8).load(Ordering::Relaxed) as i64;
                let time = f64::from_bits(memory.word(stamp + 16).load(Ordering::Relaxed));
                // What the writer changes meanwhile is noticed by the version and thrown away.
                let [x, y] = memory.buffer(update, n);
                Some((step, time, x.to_vec(), y.to_vec()))
            })?;
            self.seen = update;
            Some((update, step, time, x, y))
        }

        /// Tells the writer whether somebody looks.
        pub fn watch(&self, watched: bool) {
            self.memory.word(WATCHED).store(u64::from(watched), Ordering::Relaxed);
        }

        /// Number of the newest update, without copying it.
        #[inline]
        pub fn newest(&self) -> u64 {
            self.memory.word(NEWEST).load(Ordering::Acquire)
        }
    }
}
