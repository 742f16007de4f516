//! Recycled memory for what comes over the network: pages are taken from the system once and used
//! again for what comes next, as in the segments of a host.

use crate::idle::{LARGE, Trims, trim_when_idle};
use crate::lock;
use forebay_arena::{OwnAllocator, OwnBlock};
use forebay_host::rlimits;
use forebay_types::{Code, Error, Result};
use std::any::Any;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Most pieces of a pool that are used again; more of them are ordinary memory.
const BLOCKS: u32 = 4_096;
const PAGE: u64 = 4_096;
/// Less address space than this is of no use.
const LEAST: u64 = 1 << 20;

/// A limit that pools share.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

/// Memory of one connection; clones share it. It returns to the system with the last use.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    budget: Arc<Budget>,
    /// Made when it is first needed: address space only, pages come by and by.
    memory: OnceLock<PoolMemory>,
    /// When the last large piece was wanted.
    large: Mutex<Instant>,
    watched: AtomicBool,
}

struct PoolMemory {
    allocator: Mutex<OwnAllocator>,
}

/// A piece of a pool; dropped, it is used again, when nobody else [keeps](Lease::keeper) it.
pub struct Lease {
    piece: Option<Buffer>,
    home: Arc<Home>,
}

/// Memory, aligned for every type of element.
enum Buffer {
    Block(OwnBlock),
    Ordinary(Vec<u128>),
}

/// Where a piece goes back to at the end of its lease and of all that keep it.
struct Home {
    pool: Arc<Inner>,
    bytes: u64,
    back: Mutex<Option<Buffer>>,
}

impl Budget {
    /// So many bytes for all pools together.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicU64::new(0) })
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes so many bytes; when they do not fit, says how many are in use.
    pub fn take(&self, bytes: u64) -> Result<(), u64> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.limit)
        });
        taken.map(drop)
    }

    /// Takes so many bytes of what is there already, within the limit or not.
    pub fn take_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives them back.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl PoolMemory {
    fn new(limit: u64) -> Result<PoolMemory> {
        // Each large piece begins at a page.
        let bytes = limit.next_multiple_of(PAGE).saturating_add(u64::from(BLOCKS) * PAGE);
        match OwnAllocator::new(bytes, BLOCKS) {
            Ok(allocator) => Ok(PoolMemory { allocator: Mutex::new(allocator) }),
            // Half of it may do.
            Err(e) if e.cause() == Some(ErrorKind::OutOfMemory) && limit >= 2 * LEAST => {
                PoolMemory::new(limit / 2)
            }
            Err(e) if e.cause() == Some(ErrorKind::OutOfMemory) => Err(Error::new(
                Code::Full,
                format!(
                    "{e}; this process may take no more address space: raise `ulimit -v`, or free memory"
                ),
            )),
            Err(e) => Err(e),
        }
    }
}

impl Pool {
    /// A pool within a budget.
    pub fn new(budget: &Arc<Budget>) -> Pool {
        let (budget, memory, large) = (budget.clone(), OnceLock::new(), Mutex::new(Instant::now()));
        Pool { inner: Arc::new(Inner { budget, memory, large, watched: AtomicBool::new(false) }) }
    }

    /// So many bytes, with whatever was in them before.
    pub fn take(&self, bytes: u64) -> Result<Lease> {
        let Inner { budget, memory, large, .. } = &*self.inner;
        // Many small ones together are as much.
        if bytes.saturating_add(budget.used()) >= LARGE {
            *lock(large) = Instant::now();
            trim_when_idle(&self.inner);
        }
        budget.take(bytes).map_err(|used| {
            let limit = budget.limit;
            let more = match rlimits::address_space_left() {
                Some(_) => ", or raise `ulimit -v`, which limits that",
                None => "",
            };
            Error::new(
                Code::Full,
                format!(
                    "{bytes} bytes of an array find no room: {used} of {limit} are under way; wait for \
                     calls, or pass it in pieces{more}"
                ),
            )
        })?;
        // From here on the lease gives the budget back.
        let home = Home { pool: self.inner.clone(), bytes, back: Mutex::default() };
        let mut lease = Lease { piece: None, home: Arc::new(home) };
        let memory = match memory.get() {
            Some(memory) => memory,
            None => {
                let made = PoolMemory::new(budget.limit)?;
                memory.get_or_init(|| made)
            }
        };
        let mut allocator = lock(&memory.allocator);
        lease.piece = allocator.alloc(bytes).map(Buffer::Block).or_else(|| {
            let words = || {
                let (mut words, n) = (Vec::new(), usize::try_from(bytes).ok()?.div_ceil(16));
                words.try_reserve_exact(n).ok()?;
                words.resize(n, 0);
                Some(words)
            };
            allocator.is_out_of_blocks().then(words).flatten().map(Buffer::Ordinary)
        });
        match lease.piece {
            Some(_) => Ok(lease),
            None => Err(Error::new(
                Code::Full,
                format!(
                    "the system has no memory for {bytes} bytes of an array; free some, wait for calls, or raise `ulimit -v`"
                ),
            )),
        }
    }
}

impl Trims for Inner {
    fn watched(&self) -> &AtomicBool {
        &self.watched
    }

    fn idle(&self) -> Duration {
        lock(&self.large).elapsed()
    }

    fn trim(&self) -> bool {
        let Some(memory) = self.memory.get() else { return true };
        let mut allocator = lock(&memory.allocator);
        allocator.trim();
        allocator.used() < LARGE
    }
}

impl Lease {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.home.bytes as usize;
        match &self.piece {
            Some(Buffer::Block(block)) => &block.bytes()[..bytes],
            Some(Buffer::Ordinary(words)) => &bytemuck::cast_slice(words)[..bytes],
            None => &[],
        }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.home.bytes as usize;
        match &mut self.piece {
            Some(Buffer::Block(block)) => &mut block.bytes_mut()[..bytes],
            Some(Buffer::Ordinary(words)) => &mut bytemuck::cast_slice_mut(words)[..bytes],
            None => &mut [],
        }
    }

    /// What keeps its memory beyond the lease: it is not used again before this is dropped.
    pub fn keeper(&self) -> Arc<dyn Any + Send + Sync> {
        self.home.clone()
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *lock(&self.home.back) = self.piece.take();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let (Some(Buffer::Block(block)), Some(memory)) = (lock(&self.back).take(), self.pool.memory.get())
        {
            lock(&memory.allocator).free(block);
        }
        self.pool.budget.give(self.bytes);
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lease({} bytes)", self.home.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_limited_for_all_pools_together() {
        let budget = Budget::new(100_000);
        let (one, other) = (Pool::new(&budget), Pool::new(&budget));
        let mut lease = one.take(60_000).unwrap();
        lease.bytes_mut().fill(7);
        let at = lease.bytes().as_ptr();
        let e = other.take(60_000).unwrap_err();
        assert!(e.code() == Code::Full && e.text().contains("60000 of 100000"), "{e}");
        drop(lease);
        assert_eq!(one.take(50_000).unwrap().bytes().as_ptr(), at);
        assert_eq!(budget.used(), 0);
        assert!(other.take(0).unwrap().bytes().is_empty());
        assert!(one.take(u64::MAX).is_err());
    }

    #[test]
    fn there_may_be_more_pieces_than_are_used_again() {
        let pool = Pool::new(&Budget::new(1 << 30));
        let mut all: Vec<Lease> = (0..2 * BLOCKS).map(|_| pool.take(100).unwrap()).collect();
        for (i, lease) in all.iter_mut().enumerate() {
            lease.bytes_mut().fill(i as u8);
        }
        assert!(all.iter().enumerate().all(|(i, lease)| *lease.bytes() == [i as u8; 100]));
    }
}
