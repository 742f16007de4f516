//! The books of an allocator: which extents are free, which entries of the table, and how many pages
//! are there.
//!
//! Everything it decides by is in memory of its own; the table in the segment only receives. Free
//! extents are kept by offset (to join neighbours) and by length (to find the best fit, lowest
//! address first, so that the same pages serve every step and stay warm). Blocks of a page or
//! more are page aligned, for direct writes; smaller ones are cut from the end of the smallest
//! extent that fits.

use crate::sync::{Mutex, Ordering};
use crate::table::{Table, TableMemory};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// What one allocator knows.
pub(crate) struct Books {
    /// First byte of the block area in the segment, and its length.
    area: (u64, u64),
    by_offset: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    live: BTreeMap<u32, (u64, u64)>,
    /// Those of them that the other side has released and this one holds.
    held: Vec<u32>,
    indices: Vec<u32>,
    used: u64,
    high_water: u64,
    releases_seen: u64,
    short: bool,
}

impl Books {
    /// Of a table of which nothing is handed out.
    pub fn new<M: TableMemory>(table: &Table<M>) -> Books {
        let mut books = Books {
            area: table.0.area(),
            by_offset: BTreeMap::new(),
            by_len: BTreeSet::new(),
            live: BTreeMap::new(),
            held: Vec::new(),
            indices: (0..table.0.blocks()).rev().collect(),
            used: 0,
            high_water: 0,
            releases_seen: 0,
            short: false,
        };
        if books.area.1 > 0 {
            books.insert(books.area.0, books.area.1);
        }
        books
    }

    fn insert(&mut self, offset: u64, len: u64) {
        self.by_offset.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove(&mut self, offset: u64, len: u64) {
        self.by_offset.remove(&offset);
        self.by_len.remove(&(len, offset));
    }

    /// Entry and offset of a block of that length; nothing when no extent or entry is free, or when `take`
    /// does not see to it that so many bytes of the area have pages.
    pub fn alloc<M: TableMemory>(
        &mut self,
        table: &Table<M>,
        bytes: u64,
        take: impl FnOnce(u64) -> bool,
    ) -> Option<(u32, u64)> {
        let size = bytes.max(1).checked_next_multiple_of(if bytes >= PAGE { PAGE } else { LINE })?;
        let (extent, extent_len, offset) = self.find(size, bytes >= PAGE)?;
        let index = *self.indices.last()?;
        self.short = !take(offset - self.area.0 + size);
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
        table.publish(index, offset, bytes);
        Some((index, offset))
    }

    /// The best extent and the place in it.
    fn find(&self, size: u64, paged: bool) -> Option<(u64, u64, u64)> {
        self.by_len.range((size, 0)..).find_map(|&(len, extent)| {
            let offset = if paged {
                extent.next_multiple_of(PAGE)
            } else if extent + len == self.area.0 + self.area.1 {
                extent // the rest of the area may not be taken yet: begin at its low end
            } else {
                extent + len - size
            };
            (offset + size <= extent + len).then_some((extent, len, offset))
        })
    }

    /// Takes back a block that was never published, or only lent: one that the other side keeps comes back when it
    /// releases it.
    pub fn free<M: TableMemory>(&mut self, table: &Table<M>, index: u32) {
        if self.live.contains_key(&index) && !table.is_held(index) {
            table.retire(index);
            self.take_back(index);
        }
    }

    /// Takes back a block whatever the other side says of it.
    pub fn reclaim<M: TableMemory>(&mut self, table: &Table<M>, index: u32) {
        if self.live.contains_key(&index) {
            table.retire(index);
            self.take_back(index);
        }
    }

    /// Takes back what the other side released, but for blocks that this side holds: those follow when it holds them
    /// no more. Returns how many came back.
    #[inline]
    pub fn reap<M: TableMemory>(&mut self, table: &Table<M>, holds: impl Fn(u32) -> bool) -> usize {
        let released = table.reap(&mut self.releases_seen, self.live.keys().copied());
        self.held.extend(released);
        let back: Vec<u32> = self.held.extract_if(.., |index| !holds(*index)).collect();
        back.iter().for_each(|index| self.take_back(*index));
        back.len()
    }

    /// How many blocks this side alone holds, and how many bytes.
    pub fn held(&self) -> (usize, u64) {
        let bytes = self.held.iter().filter_map(|index| self.live.get(index)).map(|(_, len)| len).sum();
        (self.held.len(), bytes)
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
    pub fn largest_free<M: TableMemory>(&self, table: &Table<M>) -> u64 {
        if self.indices.is_empty() {
            return 0;
        }
        let paged = |from: u64, to: u64| to.saturating_sub(from.next_multiple_of(PAGE));
        if self.short {
            let there = self.area.0 + table.taken().load(Ordering::Acquire);
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

    /// Bytes of the area up to the end of the last block.
    pub fn end(&self) -> u64 {
        let end = self.live.values().map(|(offset, len)| offset + len).max();
        end.map_or(0, |end| end - self.area.0)
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Most bytes that were handed out at a time.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Number of blocks handed out.
    pub fn live(&self) -> usize {
        self.live.len()
    }
}

/// Pages of the block area are taken from the system by whoever needs them first: the allocator, or the
/// thread that takes them ahead. One at a time does it; the mark of what is taken grows, but where pages
/// behind all blocks are given back.
pub(crate) struct Growth {
    one: Mutex<()>,
    piece: u64,
}

impl Growth {
    /// In pieces of so many bytes.
    pub fn by(piece: u64) -> Growth {
        Growth { one: Mutex::new(()), piece }
    }

    /// Gives back what is taken behind the first `bytes` of the block area, by `give` with a range of the area; no
    /// block may lie there. Says how much that was.
    pub fn give_back<M: TableMemory>(
        &self,
        table: &Table<M>,
        bytes: u64,
        give: impl FnOnce(u64, u64) -> bool,
    ) -> u64 {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let (keeps, taken) = (bytes.next_multiple_of(PAGE), table.taken().load(Ordering::Acquire));
        if keeps >= taken {
            return 0;
        }
        // In this order: what counts as taken has pages.
        table.taken().store(keeps, Ordering::Release);
        if give(keeps, taken - keeps) {
            return taken - keeps;
        }
        table.taken().store(taken, Ordering::Release);
        0
    }

    /// Sees to it that the first `bytes` of the block area are taken, by `take` with a range of the area; says
    /// whether they are.
    pub fn take_up_to<M: TableMemory>(
        &self,
        table: &Table<M>,
        bytes: u64,
        mut take: impl FnMut(u64, u64) -> bool,
    ) -> bool {
        if bytes <= table.taken().load(Ordering::Acquire) {
            return true;
        }
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = table.taken().load(Ordering::Acquire);
        if bytes <= taken {
            return true;
        }
        let (_, most) = table.0.area();
        if bytes > most {
            return false;
        }
        // A whole piece when there is room for it, else just what is wanted.
        let piece = bytes.next_multiple_of(self.piece).min(most);
        [piece, bytes].into_iter().any(|end| {
            let done = take(taken, end - taken);
            if done {
                table.taken().fetch_max(end, Ordering::AcqRel);
            }
            done
        })
    }
}
