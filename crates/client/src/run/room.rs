//! Room for bytes: blocks of the rank's own arena, and of overflow segments that the store gives.
//!
//! What was published belongs to the owner until it releases it, so a wait for room ends only if
//! something published is still out. The books kept here tell that: blocks that stay for ever
//! (diagrams), blocks handed to the user and not yet published, blocks of the step being taken.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use forebay_arena::{Allocator, Block, Segment};
use forebay_host::environment;
use forebay_types::control::{Ask, WhenFull, word};
use forebay_types::record::HeldBlock;
use forebay_types::{Code, Error, Result};

use super::core::{Core, say};

/// A refusal of more room by the store holds for so long.
const REFUSAL: Duration = Duration::from_millis(500);
/// Most overflow segments of a session.
const OVERFLOWS: usize = 64;

/// A block with the room it came from.
#[derive(Debug)]
pub struct Placed {
    /// The block.
    pub block: Block,
    /// 0: the rank's own segment; n: the n-th overflow segment.
    pub segment: u32,
}

impl Placed {
    /// As records name it.
    pub fn reference(&self) -> HeldBlock {
        let block = &self.block;
        HeldBlock {
            segment: self.segment,
            index: block.index(),
            generation: block.generation(),
            bytes: block.len(),
        }
    }
}

/// The allocators of a session and the books over their blocks.
pub struct Rooms {
    own: Allocator,
    overflow: Vec<(Segment, Allocator)>,
    refused: Option<Instant>,
    /// Places of discarded snapshots that the user still holds.
    held: Vec<Arc<Placed>>,
    /// Places of ended snapshots over which the user still has arrays: they are not used again while he has.
    lent: Vec<Arc<Placed>>,
    /// Whether nobody may write into them.
    checks: bool,
    /// Blocks that are never released: triple buffers.
    pub fixed: usize,
    /// Blocks the user fills in place.
    pub unpublished: usize,
    /// Published blocks of the step being taken; the owner keeps them until its end.
    pub of_step: usize,
}

impl Rooms {
    /// The room of that segment.
    pub fn new(segment: &Segment) -> Rooms {
        Rooms {
            own: segment.allocator(),
            overflow: Vec::new(),
            refused: None,
            held: Vec::new(),
            lent: Vec::new(),
            checks: environment::text(environment::CHECK).is_some_and(|value| value == "1"),
            fixed: 0,
            unpublished: 0,
            of_step: 0,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = (u32, &mut Allocator)> {
        let overflow = self.overflow.iter_mut().map(|(_, a)| a);
        std::iter::once(&mut self.own).chain(overflow).enumerate().map(|(i, a)| (i as u32, a))
    }

    /// A block of that length, if there is one.
    pub fn alloc(&mut self, bytes: u64) -> Option<Placed> {
        self.take_back_held();
        self.reap();
        let found = self.all().find_map(|(segment, a)| a.alloc(bytes).map(|block| Placed { block, segment }));
        found.inspect(|placed| self.unprotect(&placed.block))
    }

    fn reap(&mut self) {
        self.lent.retain(|placed| Arc::strong_count(placed) > 1);
        let lent = std::mem::take(&mut self.lent);
        for (segment, a) in self.all() {
            a.reap_but(|index| lent.iter().any(|p| (p.segment, p.block.index()) == (segment, index)));
        }
        self.lent = lent;
    }

    fn unprotect(&self, block: &Block) {
        if self.checks {
            block.protect(false).unwrap_or_else(|e| say(e.text()));
        }
    }

    /// A place is the owner's from here on, which releases it when it is on disk. It is used again when the user has no
    /// array over it any more.
    pub fn publish(&mut self, placed: Arc<Placed>) {
        self.unpublished -= 1;
        if self.checks {
            placed.block.protect(true).unwrap_or_else(|e| say(e.text()));
        }
        if Arc::strong_count(&placed) > 1 {
            self.lent.push(placed);
        }
    }

    /// Blocks that are on disk and stay since the user has arrays over them, and their bytes.
    fn kept_by_user(&mut self) -> (usize, u64) {
        let all = self.all().map(|(_, a)| a.held());
        all.fold((0, 0), |(n, bytes), (more, and)| (n + more, bytes + and))
    }

    /// A block of the rank's own segment, which the monitor can see.
    pub fn alloc_own(&mut self, bytes: u64) -> Option<Block> {
        self.reap();
        let found = self.own.alloc(bytes);
        found.inspect(|block| self.unprotect(block))
    }

    /// The largest block that may be had now.
    pub fn largest(&mut self) -> u64 {
        self.all().map(|(_, a)| a.largest_free()).max().unwrap_or(0)
    }

    /// Takes back a block that was not published, once the user has let go of it.
    pub fn give_back(&mut self, placed: Arc<Placed>) {
        self.held.push(placed);
        self.take_back_held();
    }

    fn take_back_held(&mut self) {
        for placed in std::mem::take(&mut self.held) {
            match Arc::try_unwrap(placed) {
                Ok(Placed { block, segment }) => {
                    if let Some((_, a)) = self.all().find(|(i, _)| *i == segment) {
                        a.free(block);
                    }
                }
                Err(placed) => self.held.push(placed),
            }
        }
    }

    /// Blocks that wait for nobody but this process.
    fn mine(&mut self) -> usize {
        self.fixed + self.unpublished + self.held.len() + self.kept_by_user().0
    }

    fn live(&mut self) -> usize {
        self.all().map(|(_, a)| a.live()).sum()
    }

    /// Whether the owner holds blocks other than those of the step being taken.
    pub fn earlier_out(&mut self) -> bool {
        self.live() > self.mine() + self.of_step
    }

    /// Whether the owner holds any block at all.
    pub fn any_out(&mut self) -> bool {
        self.live() > self.mine()
    }

    /// Bytes of the rank's own arena, and the most that were in use.
    pub fn capacity_and_high_water(&mut self) -> (u64, u64) {
        let high = self.all().map(|(_, a)| a.high_water()).sum();
        (self.own.capacity(), high)
    }
}

impl Core {
    /// The rooms, locked.
    pub fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Asks the store for room of its own; says whether there is some now.
    pub fn overflow(&self, bytes: u64) -> Result<bool> {
        let known = {
            let rooms = self.rooms();
            let refused = rooms.refused.is_some_and(|at| at.elapsed() < REFUSAL);
            // A store on another host has its own buffer, which nobody fills from here.
            if self.life.is_remote() || refused || rooms.overflow.len() >= OVERFLOWS {
                return Ok(false);
            }
            rooms.overflow.len()
        };
        let spill = self.open.full == WhenFull::Spill;
        let path: Option<PathBuf> = self.ask(&Ask::Overflow { bytes, spill, known: known as u32 })?;
        let mut rooms = self.rooms();
        if rooms.overflow.len() > known {
            return Ok(true); // another thread asked at the same time and has it
        }
        let Some(path) = path else {
            rooms.refused = Some(Instant::now());
            return Ok(false);
        };
        let segment = Segment::open(&path)?;
        let allocator = segment.allocator();
        rooms.overflow.push((segment, allocator));
        Ok(true)
    }

    /// A block for a large data set outside steps: waits until there is one.
    pub fn place_put(&self, name: &str, bytes: u64) -> Result<Placed> {
        let mut patience = self.patience();
        loop {
            let found = self.rooms().alloc(bytes);
            if let Some(placed) = found {
                self.note_placed(&placed);
                return Ok(placed);
            }
            if self.overflow(bytes)? {
                continue;
            }
            let mut rooms = self.rooms();
            if !rooms.earlier_out() || bytes > rooms.capacity_and_high_water().0 {
                return Err(self.too_large(&format!("the data set {name:?}"), bytes, &mut rooms));
            }
            drop(rooms);
            patience.pause("room in the buffer")?;
        }
    }

    /// Takes memory in the background for a snapshot of so many bytes that is to come, behind what is in use
    /// now: its copies then meet pages that are there. Never for more than has been snapshot before.
    pub fn expect(&self, bytes: u64) {
        let in_use = self.rooms().own.high_water();
        drop(self.segment.prefault(in_use.saturating_add(bytes)));
    }

    /// Counts what is in use, and what went past the rank's own arena.
    pub fn note_placed(&self, placed: &Placed) {
        if placed.segment != 0 {
            self.counts.overflow_bytes.fetch_add(placed.block.len(), Ordering::Relaxed);
        }
        let (_, high) = self.rooms().capacity_and_high_water();
        self.segment.word(word::HIGH_WATER_BYTES).store(high, Ordering::Relaxed);
    }

    /// The error when waiting cannot help.
    pub fn too_large(&self, what: &str, bytes: u64, rooms: &mut Rooms) -> Error {
        let (capacity, _) = rooms.capacity_and_high_water();
        if rooms.own.is_short() {
            let dir = self
                .segment
                .path()
                .and_then(|p| p.parent())
                .map_or_else(String::new, |d| d.display().to_string());
            return Error::new(
                Code::Full,
                format!(
                    "{what} needs {bytes} bytes in one piece and {dir} has no more room for the buffer of this program: {} of its {capacity} bytes could be taken; clear {dir}, make it larger (`mount -o remount,size=...`, `docker run --shm-size=...`), or open the run with a smaller buffer",
                    self.segment.taken(),
                ),
            );
        }
        if let (1.., kept) = rooms.kept_by_user() {
            return Error::new(
                Code::Full,
                format!(
                    "{what} needs {bytes} bytes in one piece and the buffer of this program has {capacity} bytes, of which the program keeps {kept} by arrays that it allocated in snapshots which are over (allocate); let go of them, or open the run with a larger buffer"
                ),
            );
        }
        Error::new(
            Code::Full,
            format!(
                "{what} needs {bytes} bytes in one piece and the buffer of this program has {capacity} bytes, {} of them free; open the run with a larger buffer, for example of {} MiB",
                rooms.largest(),
                ((bytes.max(capacity) >> 20) + 1) * 2
            ),
        )
    }
}
