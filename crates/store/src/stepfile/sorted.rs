//! Particles in the order of their ids, whichever rank has them.
//!
//! ```text
//!  parts of ranks  ->  arrays in memory, as they come  ->  all is there: the ids are sorted, each array is written in their order
//!                              |
//!                              +-- more than a quarter of the ranks' buffers: arrays go to the file in the order of ranks,
//!                                  and `SPECIES/order` has the index of the first particle, of the second, and so on
//! ```
//!
//! What lies in order is one piece, of all ranks, with one checksum.

use super::write::{Open, Writer, entry};
use super::{ALL, Entry, Hyperslab, Manifest, Piece, read_piece_to};
use crate::fault::amount;
use forebay_arena::Lent;
use forebay_types::{ArrayMeta, Compression, DType, Error, Order, Result, Shape, SortBy};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many bytes are brought into their order, and written, at once.
const WINDOW: usize = 4 << 20;
/// The attribute of an array whose particles lie in order: the record that they are in the order of.
const SORTED_BY: &str = "sorted_by";
/// The attribute of the index of an array whose particles do not: the record whose order it has.
const SORT_BY: &str = "sort_by";

/// What all files of a run share that are put in order.
#[derive(Debug, Default)]
pub(super) struct Sorting {
    /// Bytes of the ranks' buffers.
    buffers: AtomicU64,
    /// The order that each species had last.
    last: Mutex<BTreeMap<String, Arc<Vec<u32>>>>,
    /// What was said of species once.
    told: Mutex<BTreeSet<(String, &'static str)>>,
}

fn locked<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sorting {
    /// What ranks have in all: of those that have left it counts still, for their steps may be under way.
    pub fn note(&self, buffers: u64) {
        self.buffers.fetch_max(buffers, Ordering::Relaxed);
    }

    /// What a file holds at most. All that is held is in the ranks' buffers, too, but for steps larger than these.
    fn limit(&self) -> u64 {
        self.buffers.load(Ordering::Relaxed) / 4
    }

    /// The order of these ids: as it was, where that is right still.
    fn order(&self, species: &str, ids: &[u64]) -> Arc<Vec<u32>> {
        let known = locked(&self.last).get(species).cloned();
        if let Some(known) = known.filter(|order| is_order(ids, order)) {
            return known;
        }
        let order = Arc::new(order_of::<u32>(ids));
        locked(&self.last).insert(species.to_owned(), order.clone());
        order
    }
}

/// The bytes of an array that is not in the file yet.
pub(super) struct HeldArray {
    bytes: Vec<u8>,
    compress: Option<Compression>,
    species: String,
}

impl HeldArray {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Takes bytes of a piece, from its byte `from` on.
    pub fn take(&mut self, place: &Hyperslab, from: u64, bytes: Lent) -> Result<()> {
        place.runs(from, bytes.len() as u64, |part, at, n| {
            let run = bytes.part(part as usize, n as usize);
            let room = self.bytes.get_mut(at as usize..(at + n) as usize);
            let (Some(run), Some(room)) = (run, room) else {
                return Err(Error::internal("a piece leaves the array that is held"));
            };
            run.copy_to(room);
            Ok(())
        })
    }
}

/// A species that is to be put in order.
struct Sorted {
    by: SortBy,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its arrays are held.
    Held,
    /// They go to the file in order.
    Ordered,
    /// They go to the file as they come, of so many bytes at least.
    AsTheyCome(u64),
    /// And their order beside them, if it can be had.
    Told,
}

/// What of a file is to be put in order.
#[derive(Default)]
pub(super) struct ToSort {
    species: BTreeMap<String, Sorted>,
    /// Arrays that were held and go to the file, in an order or as they are.
    leaving: VecDeque<(Open, Option<Arc<Vec<u32>>>)>,
    remarks: Vec<String>,
}

impl Writer {
    /// Lays out an array of a species that is to be put in order; nothing happens when it is there already. Says whether
    /// it is held: if not it is laid out as others.
    pub fn hold(
        &mut self,
        name: &str,
        meta: &ArrayMeta,
        units: &str,
        compress: Option<Compression>,
        by: &SortBy,
    ) -> Result<bool> {
        self.settle()?;
        if self.has(name) {
            return Ok(true);
        }
        let new = || Sorted { by: by.clone(), state: State::Held };
        let known = self.to_sort.species.entry(by.species.clone()).or_insert_with(new);
        if known.state != State::Held {
            return Ok(false);
        }
        let bytes = meta.bytes()?;
        let counts = meta.shape.extents().first().is_some_and(|n| *n <= u64::from(u32::MAX));
        let held: u64 = self.sets.values().filter_map(|open| open.held.as_ref()).map(HeldArray::len).sum();
        let fits = held.checked_add(bytes).is_some_and(|all| all <= self.load().sorting().limit());
        if !fits || !counts {
            self.let_go(&by.species, bytes)?;
            return Ok(false);
        }
        let species = by.species.clone();
        let held = HeldArray { bytes: vec![0; bytes as usize], compress, species };
        let mut open = Open::new(entry(name, meta, units, 0));
        open.held = Some(held);
        self.sets.insert(name.to_owned(), open);
        Ok(true)
    }

    /// What is to be told of species: each thing once.
    pub fn remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.to_sort.remarks)
    }

    /// The arrays of a species go to the file in the order of ranks.
    fn let_go(&mut self, species: &str, more: u64) -> Result<()> {
        let opens = self.take_held(species);
        let bytes = opens.iter().map(|open| open.entry.nbytes()).sum::<u64>() + more;
        if let Some(known) = self.to_sort.species.get_mut(species) {
            known.state = State::AsTheyCome(bytes);
        }
        self.to_sort.leaving.extend(opens.into_iter().map(|open| (open, None)));
        self.settle()
    }

    /// Writes arrays that were held and are not any more. After a failure the same call may be made again.
    fn settle(&mut self) -> Result<()> {
        while let Some((open, order)) = self.to_sort.leaving.pop_front() {
            let written = match &order {
                Some(order) => self.write_in_order(&open, order),
                None => self.write_as_it_came(&open),
            };
            if let Err(e) = written {
                self.to_sort.leaving.push_front((open, order));
                return Err(e);
            }
        }
        Ok(())
    }

    fn lay(&mut self, open: &Open, compress: Option<Compression>, first: (&Shape, &[u8])) -> Result<()> {
        let Entry { name, meta, units, .. } = &open.entry;
        match compress {
            Some(how) => self.add_compressed(name, meta, units, how, (first.0, Lent::of(first.1))),
            None => self.add(name, meta, units),
        }
    }

    fn write_as_it_came(&mut self, open: &Open) -> Result<()> {
        let Some(held) = &open.held else { return Ok(()) };
        for ((piece, place), done) in open.entry.pieces.iter().zip(&open.places).zip(&open.done) {
            let (offset, local) = (Shape::new(&piece.offset)?, Shape::new(&piece.shape)?);
            let mut from = self.done_of(&open.entry.name, piece.rank, &offset, &local);
            loop {
                let n = (*done - from).min(WINDOW as u64);
                let mut bytes = Vec::with_capacity(n as usize);
                place.runs(from, n, |_, at, n| {
                    let run = held.bytes.get(at as usize..(at + n) as usize);
                    bytes.extend_from_slice(run.ok_or_else(|| Error::internal("what is held is too short"))?);
                    Ok::<(), Error>(())
                })?;
                self.lay(open, held.compress, (&local, &bytes))?;
                self.write(&open.entry.name, piece.rank, &offset, &local, from, Lent::of(&bytes))?;
                from += n;
                if from >= *done {
                    break;
                }
            }
        }
        Ok(())
    }

    fn write_in_order(&mut self, open: &Open, order: &[u32]) -> Result<()> {
        let Some(held) = &open.held else { return Ok(()) };
        let Entry { name, meta, .. } = &open.entry;
        let (begin, whole) = (Shape::new(&vec![0; meta.shape.rank()])?, meta.shape);
        let lines = Lines::of(meta);
        let all = held.bytes.len();
        let mut from = self.done_of(name, ALL, &begin, &whole) as usize;
        loop {
            let bytes = lines.in_order(&held.bytes, order, from, WINDOW.min(all - from));
            self.lay(open, held.compress, (&whole, &bytes))?;
            self.write(name, ALL, &begin, &whole, from as u64, Lent::of(&bytes))?;
            from += bytes.len();
            if from >= all {
                return Ok(());
            }
        }
    }

    /// All parts have come: what is held goes to the file. After a failure the same call may be made again.
    pub(super) fn sort(&mut self, step: i64) -> Result<()> {
        self.settle()?;
        let species: Vec<String> = self.to_sort.species.keys().cloned().collect();
        for name in &species {
            let Some(known) = self.to_sort.species.get(name) else { continue };
            let by = known.by.clone();
            match known.state {
                State::Held => self.sort_held(step, &by)?,
                State::AsTheyCome(bytes) => self.index(step, &by, bytes)?,
                State::Ordered | State::Told => {}
            }
        }
        Ok(())
    }

    fn sort_held(&mut self, step: i64, by: &SortBy) -> Result<()> {
        let opens = self.take_held(&by.species);
        let (state, order) = match ids_of(&opens, by) {
            Ok((ids, keys)) => {
                let order = self.load().sorting().order(&by.species, &keys);
                if let Some(two) = first_doubled(&keys, &order) {
                    let ranks = two.map(|at| ids.rank_of(at as u64));
                    let id = id_of(ids.entry.meta.dtype, keys[two[0]]);
                    self.remark(by, "doubled", doubled(step, by, &id, ranks));
                }
                (State::Ordered, Some(order))
            }
            Err(why) => {
                self.remark(by, "unlike", format!("step {step}: {}", why.text()));
                (State::Told, None)
            }
        };
        self.is_now(by, state);
        self.to_sort.leaving.extend(opens.into_iter().map(|open| (open, order.clone())));
        self.settle()
    }

    /// Says in which order the particles of a species are that lie as they came.
    fn index(&mut self, step: i64, by: &SortBy, bytes: u64) -> Result<()> {
        let name = by.index();
        let found = self.sets.get(&by.array()).filter(|ids| ids.is_complete() && is_ids(&ids.entry.meta));
        if let Some(ids) = found.filter(|_| !self.has(&name)) {
            let compress = ids.chunked.as_ref().map(|set| set.how());
            let (dtype, ids) = (ids.entry.meta.dtype, ids.as_written());
            let keys = self.ids_in_file(&ids)?;
            let (index, first) = match u32::try_from(keys.len()) {
                Ok(_) => indexed::<u32>(&keys),
                Err(_) => indexed::<u64>(&keys),
            };
            let limit = self.load().sorting().limit();
            self.remark(
                by,
                "index",
                format!(
                    "step {step}: the particles of {:?} lie in the order of ranks, for {} of them are already more than a quarter of the buffers, {}; {name:?} has the indices that put them in the order of {:?}; with a larger buffer they lie so",
                    by.species,
                    amount(bytes),
                    amount(limit),
                    by.record
                ),
            );
            if let Some(two) = first {
                let rank = |at: usize| ids.pieces.iter().find(|p| holds(p, at as u64)).map_or(0, |p| p.rank);
                let id = id_of(dtype, keys[two[0]]);
                self.remark(by, "doubled", doubled(step, by, &id, two.map(rank)));
            }
            let wide = keys.len() > u32::MAX as usize;
            let meta = ArrayMeta::new(if wide { DType::U64 } else { DType::U32 }, ids.meta.shape);
            let bytes = HeldArray { bytes: index, compress, species: by.species.clone() };
            self.to_sort.leaving.push_back((Open::held(entry(&name, &meta, "", 0), bytes)?, None));
        }
        self.is_now(by, State::Told);
        self.settle()
    }

    /// The ids that are in the file, as they lie there.
    fn ids_in_file(&self, ids: &Entry) -> Result<Vec<u64>> {
        let unread = |e| Error::io(format!("{:?} cannot be read again", ids.name), e);
        let file = std::fs::File::open(self.tmp()).map_err(unread)?;
        let mut keys = vec![0; ids.meta.shape.len() as usize];
        for piece in ids.pieces.iter().filter(|p| p.shape[0] > 0) {
            let mut bytes = Vec::new();
            read_piece_to(&file, ids, piece, |part| bytes.extend_from_slice(part))?;
            let at = piece.offset[0] as usize;
            keys[at..at + piece.shape[0] as usize].copy_from_slice(&keys_of(ids.meta.dtype, &bytes));
        }
        Ok(keys)
    }

    fn take_held(&mut self, species: &str) -> Vec<Open> {
        let is_theirs = |open: &&Open| open.held.as_ref().is_some_and(|held| held.species == species);
        let names: Vec<String> =
            self.sets.values().filter(is_theirs).map(|open| open.entry.name.clone()).collect();
        names.iter().filter_map(|name| self.sets.remove(name)).collect()
    }

    fn is_now(&mut self, by: &SortBy, state: State) {
        self.to_sort.species.entry(by.species.clone()).and_modify(|known| known.state = state);
    }

    fn remark(&mut self, by: &SortBy, kind: &'static str, text: String) {
        if locked(&self.load().sorting().told).insert((by.species.clone(), kind)) {
            self.to_sort.remarks.push(text);
        }
    }

    /// What the manifest says of arrays in order, and of the index of others.
    pub(super) fn say_sorted(&self, manifest: &mut Manifest) {
        for Sorted { by, state } in self.to_sort.species.values() {
            let ids = manifest.data.iter().find(|e| e.name == by.array());
            let dims = ids.map(|e| e.about.dims.clone()).unwrap_or_default();
            let of_all = |e: &&mut Entry| e.pieces.iter().all(|p| p.rank == ALL);
            for e in manifest.data.iter_mut().filter(of_all) {
                let is_theirs = e.about.species.as_ref().is_some_and(|s| s.name == by.species);
                if *state == State::Ordered && is_theirs {
                    e.about.attrs.insert(SORTED_BY.to_owned(), by.record.clone().into());
                } else if *state == State::Told && e.name == by.index() {
                    e.about.dims.clone_from(&dims);
                    e.about.attrs.insert(SORT_BY.to_owned(), by.record.clone().into());
                }
            }
        }
    }
}

impl Open {
    /// An array of all ranks whose bytes are there.
    fn held(entry: Entry, held: HeldArray) -> Result<Open> {
        let mut open = Open::new(entry);
        let shape = open.entry.meta.shape;
        let offset = Shape::new(&vec![0; shape.rank()])?;
        open.places.push(Hyperslab::new(&open.entry.meta, &offset, &shape)?);
        open.done.push(held.len());
        open.tallies.push(None);
        let (offset, shape) = (offset.extents().to_vec(), shape.extents().to_vec());
        open.entry.pieces.push(Piece { rank: ALL, offset, shape, ..Piece::default() });
        open.held = Some(held);
        Ok(open)
    }

    /// Whose particle that is.
    fn rank_of(&self, at: u64) -> u32 {
        self.entry.pieces.iter().find(|p| holds(p, at)).map_or(0, |p| p.rank)
    }

    /// Which particles it has of which ranks.
    fn particles(&self) -> BTreeSet<(u64, u64, u32)> {
        let pieces = self.entry.pieces.iter().filter(|p| p.shape.first().is_some_and(|n| *n > 0));
        pieces.map(|p| (p.offset[0], p.shape[0], p.rank)).collect()
    }
}

fn holds(piece: &Piece, at: u64) -> bool {
    (piece.offset[0]..piece.offset[0] + piece.shape[0]).contains(&at)
}

/// Whether an array has an integer for each particle.
fn is_ids(meta: &ArrayMeta) -> bool {
    meta.shape.rank() == 1 && meta.dtype.range().is_some() && meta.dtype != DType::Bool
}

/// The ids of the arrays of a species, each of which has all particles of each rank.
fn ids_of<'a>(opens: &'a [Open], by: &SortBy) -> Result<(&'a Open, Vec<u64>)> {
    let none = || {
        Error::bad(format!("{:?} is not put in order: there is no {:?} of integers", by.species, by.array()))
    };
    let ids = opens.iter().find(|open| open.entry.name == by.array() && is_ids(&open.entry.meta));
    let ids = ids.ok_or_else(none)?;
    let held = ids.held.as_ref().ok_or_else(none)?;
    let unlike = opens.iter().find(|open| {
        let count = open.entry.meta.shape.extents().first();
        count != ids.entry.meta.shape.extents().first() || open.particles() != ids.particles()
    });
    match unlike {
        Some(open) => Err(Error::bad(format!(
            "{:?} is not put in order: {:?} has other particles of some rank than {:?}; give all of them in one call in each rank",
            by.species,
            open.entry.name,
            by.array()
        ))),
        None => Ok((ids, keys_of(ids.entry.meta.dtype, &held.bytes))),
    }
}

fn doubled(step: i64, by: &SortBy, id: &str, [one, other]: [u32; 2]) -> String {
    let whose = match one == other {
        true => format!("of rank {one}"),
        false => format!("one of rank {one} and one of rank {other}"),
    };
    format!(
        "step {step}: two particles of {:?} have {:?} = {id}, {whose}; such ones lie in the order of ranks",
        by.species, by.record
    )
}

/// Elements of integers as numbers that are in the same order.
fn keys_of(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    let size = dtype.size();
    let is_signed = dtype.range().is_some_and(|range| *range.start() < 0);
    let key = |element: &[u8]| {
        let mut all = [0; 8];
        all[..size].copy_from_slice(element);
        let number = u64::from_le_bytes(all);
        match is_signed {
            // The least one is 0, whatever its size.
            true => (number ^ (1 << (8 * size - 1))) & (u64::MAX >> (64 - 8 * size)),
            false => number,
        }
    };
    bytes.chunks_exact(size).map(key).collect()
}

/// What the number of such an element is, for people.
fn id_of(dtype: DType, key: u64) -> String {
    let least = dtype.range().map_or(0, |range| *range.start());
    (i128::from(key) + least).to_string()
}

/// A number of an element.
trait Index: Copy + Ord + bytemuck::NoUninit {
    fn of(at: usize) -> Self;
    fn at(self) -> usize;
}

impl Index for u32 {
    fn of(at: usize) -> u32 {
        at as u32
    }
    fn at(self) -> usize {
        self as usize
    }
}

impl Index for u64 {
    fn of(at: usize) -> u64 {
        at as u64
    }
    fn at(self) -> usize {
        self as usize
    }
}

/// The indices that put keys in order; equal ones stay as they are. A digit of eight bits at a time, from the least on,
/// without those in which all keys are equal.
fn order_of<I: Index>(keys: &[u64]) -> Vec<I> {
    let mut order: Vec<I> = (0..keys.len()).map(I::of).collect();
    if keys.is_sorted() {
        return order;
    }
    let mut counts = vec![[0usize; 256]; 8];
    for key in keys {
        for (digit, counts) in counts.iter_mut().enumerate() {
            counts[usize::from((key >> (8 * digit)) as u8)] += 1;
        }
    }
    let all = keys.len();
    let (mut keys, mut behind) = (keys.to_vec(), vec![0; all]);
    let mut next = order.clone();
    for (digit, counts) in counts.iter().enumerate().filter(|(_, counts)| !counts.contains(&all)) {
        let mut begin = 0;
        let mut places = counts.map(|count| {
            begin += count;
            begin - count
        });
        for (key, from) in keys.iter().zip(&order) {
            let place = &mut places[usize::from((key >> (8 * digit)) as u8)];
            (behind[*place], next[*place]) = (*key, *from);
            *place += 1;
        }
        std::mem::swap(&mut keys, &mut behind);
        std::mem::swap(&mut order, &mut next);
    }
    order
}

/// Whether indices, each of which is there once, put keys in order.
fn is_order(keys: &[u64], order: &[u32]) -> bool {
    let place = |at: u32| (keys[at.at()], at);
    keys.len() == order.len() && order.windows(2).all(|two| place(two[0]) < place(two[1]))
}

/// The first two of the same key.
fn first_doubled<I: Index>(keys: &[u64], order: &[I]) -> Option<[usize; 2]> {
    let two = order.windows(2).find(|two| keys[two[0].at()] == keys[two[1].at()])?;
    Some([two[0].at(), two[1].at()])
}

/// The bytes of the indices that put keys in order, and the first two of the same key.
fn indexed<I: Index>(keys: &[u64]) -> (Vec<u8>, Option<[usize; 2]>) {
    let order = order_of::<I>(keys);
    (bytemuck::cast_slice(&order).to_vec(), first_doubled(keys, &order))
}

/// How the elements of particles lie in an array: lines of one after the other.
struct Lines {
    /// Bytes of what lies together of a particle.
    element: usize,
    /// Particles.
    count: usize,
}

impl Lines {
    fn of(meta: &ArrayMeta) -> Lines {
        let extents = meta.shape.extents();
        let inner = match meta.order {
            Order::C => extents.iter().skip(1).product::<u64>(),
            Order::F => 1,
        };
        Lines {
            element: meta.dtype.size() * inner as usize,
            count: extents.first().map_or(0, |n| *n as usize),
        }
    }

    /// Whole elements from byte `from` of the ordered array on, as many as go into so many bytes.
    fn in_order(&self, bytes: &[u8], order: &[u32], from: usize, most: usize) -> Vec<u8> {
        if self.element == 0 || self.count == 0 {
            return Vec::new();
        }
        let first = from / self.element;
        let count = (most / self.element).max(1).min(bytes.len() / self.element - first);
        let mut out = Vec::with_capacity(count * self.element);
        let mut left = count;
        while left > 0 {
            let (line, at) = ((first + count - left) / self.count, (first + count - left) % self.count);
            let here = left.min(self.count - at);
            let line = &bytes[line * self.count * self.element..][..self.count * self.element];
            pick(self.element, line, &order[at..at + here], &mut out);
            left -= here;
        }
        out
    }
}

/// Appends elements of a line.
fn pick(element: usize, line: &[u8], order: &[u32], out: &mut Vec<u8>) {
    fn of<const N: usize>(line: &[u8], order: &[u32], out: &mut Vec<u8>) {
        let elements = line.as_chunks::<N>().0;
        order.iter().for_each(|at| out.extend_from_slice(&elements[at.at()]));
    }
    match element {
        1 => of::<1>(line, order, out),
        2 => of::<2>(line, order, out),
        4 => of::<4>(line, order, out),
        8 => of::<8>(line, order, out),
        12 => of::<12>(line, order, out),
        24 => of::<24>(line, order, out),
        n => order.iter().for_each(|at| out.extend_from_slice(&line[at.at() * n..][..n])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn indices_put_any_keys_in_order_and_leave_equal_ones_as_they_are(
            keys in proptest::collection::vec(prop_oneof![0u64..9, any::<u64>(), Just(u64::MAX)], 0..300)
        ) {
            let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
            expected.sort_by_key(|at| keys[at.at()]);
            let order = order_of::<u32>(&keys);
            prop_assert_eq!(&order, &expected);
            prop_assert!(is_order(&keys, &order));
            let wide = order_of::<u64>(&keys);
            prop_assert!(wide.iter().zip(&order).all(|(wide, at)| wide.at() == at.at()));
            let mut unique = keys.clone();
            unique.sort();
            let repeated = unique.windows(2).find(|two| two[0] == two[1]).map(|two| two[0]);
            let first = first_doubled(&keys, &order);
            prop_assert_eq!(first.map(|two| keys[two[0]]), repeated);
            prop_assert!(first.is_none_or(|two| two[0] < two[1] && keys[two[0]] == keys[two[1]]));
            if order.len() > 1 {
                let mut other = order.clone();
                other.swap(0, 1);
                prop_assert!(!is_order(&keys, &other));
            }
        }
    }

    #[test]
    fn negative_ids_come_before_others_whatever_their_size() {
        let ids = [3i64, -1, i64::MIN, 0, i64::MAX];
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let keys = keys_of(DType::I64, &bytes);
        assert_eq!(order_of::<u32>(&keys), [2, 1, 3, 0, 4]);
        assert_eq!(
            keys.iter().map(|key| id_of(DType::I64, *key)).collect::<Vec<_>>(),
            ids.map(|id| id.to_string())
        );
        let short = keys_of(DType::I8, &[3, 255, 128, 0]);
        assert_eq!(order_of::<u32>(&short), [2, 1, 3, 0]);
        assert_eq!(id_of(DType::I8, short[1]), "-1");
        assert_eq!(id_of(DType::U8, keys_of(DType::U8, &[255])[0]), "255");
    }

    #[test]
    fn an_order_that_is_right_still_is_taken_again() {
        let sorting = Sorting::default();
        let first = sorting.order("e", &[5, 1, 3]);
        assert!(Arc::ptr_eq(&first, &sorting.order("e", &[50, 10, 30])));
        assert_eq!(*sorting.order("e", &[1, 5, 3]), [0, 2, 1]);
        assert_eq!(*sorting.order("e", &[2, 1]), [1, 0], "particles are gone");
    }

    #[test]
    fn lines_are_put_in_order_in_parts_as_at_once() {
        let order = [3u32, 0, 2, 1];
        for (order_of_axes, inner) in [(Order::C, 3u64), (Order::F, 3), (Order::C, 1)] {
            let shape = Shape::new(if inner > 1 { &[4, 3] } else { &[4] }).unwrap();
            let meta = ArrayMeta { dtype: DType::I16, shape, order: order_of_axes };
            let lines = Lines::of(&meta);
            let bytes: Vec<u8> = (0..4 * inner * 2).map(|i| i as u8).collect();
            let whole = lines.in_order(&bytes, &order, 0, bytes.len());
            let value = |bytes: &[u8], particle: u64, component: u64| {
                let at = match order_of_axes {
                    Order::C => particle * inner + component,
                    Order::F => component * 4 + particle,
                };
                bytes[2 * at as usize]
            };
            for (particle, from) in order.iter().enumerate() {
                for component in 0..inner {
                    let (is, was) =
                        (value(&whole, particle as u64, component), value(&bytes, (*from).into(), component));
                    assert_eq!(is, was, "{order_of_axes:?}");
                }
            }
            let mut parts = Vec::new();
            while parts.len() < bytes.len() {
                parts.extend(lines.in_order(&bytes, &order, parts.len(), 7.min(bytes.len() - parts.len())));
            }
            assert_eq!(parts, whole);
        }
    }
}
