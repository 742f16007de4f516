//! Writing an array in chunks that are compressed on their way to the disk, by threads that give way to everybody else.
//!
//! ```text
//!  bytes of a piece, in parts  ->  chunks, each a run of them  ->  threads: shuffle, deflate  ->  HDF5 writes the chunk as it is
//! ```
//!
//! An array of one piece is one chunked data set. Of several pieces each is one, `forebay/pieces/NAME/0` and following, and
//! the array is a virtual data set over them: pieces come before it is known how all of them lie.

use super::chunk_grid::ChunkGrid;
use super::hdf::{Frame, describe_array, layout_of};
use super::packing::{Packed, Packer, RAW, filters};
use super::sorted::Sorting;
use super::write::{Writer, spare};
use super::{Chunks, Hyperslab, StoredChunk, ffi};
use forebay_arena::Lent;
use forebay_types::{ArrayMeta, Compression, Error, Order, Result, Shape, crc32c};
use hdf5::{Selection, SliceOrIndex};
use hdf5_metno as hdf5;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// So many chunks are tried before an array is compressed.
const TRIED: u64 = 4;
/// Most threads that compress.
const THREADS: usize = 4;
/// The priority of these threads.
const NICE: i32 = 19;

/// What those who compress, and those who put particles in order, are to know of the run: they take what its ranks leave.
#[derive(Debug, Default)]
pub struct Load {
    ranks: AtomicUsize,
    full: AtomicBool,
    uncompressed: AtomicU64,
    sorting: Sorting,
}

impl Load {
    /// Ranks on this host, the bytes of the buffers of all, and whether these are nearly full.
    pub fn note(&self, ranks: usize, buffers: u64, is_full: bool) {
        self.sorting.note(buffers);
        self.ranks.store(ranks, Ordering::Relaxed);
        self.full.store(is_full, Ordering::Relaxed);
    }

    /// Bytes that were to be compressed and went out as they were, for the buffers were nearly full.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.uncompressed.load(Ordering::Relaxed)
    }

    pub(super) fn sorting(&self) -> &Sorting {
        &self.sorting
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        cores.saturating_sub(self.ranks.load(Ordering::Relaxed)).clamp(1, THREADS)
    }
}

/// A data set in chunks, in the making.
pub(super) struct ChunkedSet {
    compress: Compression,
    /// In the order in which they came; none of one without elements.
    pieces: Vec<Option<ChunkedWrite>>,
    /// Chunks of the first piece that were tried.
    tried: BTreeMap<u64, Packed>,
}

/// A piece in chunks, in the making.
struct ChunkedWrite {
    /// The data set of the file that it is.
    name: String,
    grid: ChunkGrid,
    stored: Vec<Option<StoredChunk>>,
    /// Bytes of a chunk whose rest has not come.
    cut: Vec<u8>,
}

impl ChunkedSet {
    /// How it is compressed.
    pub fn how(&self) -> Compression {
        self.compress
    }

    /// One of which nothing was tried.
    pub fn new(compress: Compression) -> ChunkedSet {
        ChunkedSet { compress, pieces: Vec::new(), tried: BTreeMap::new() }
    }

    /// The data sets that its pieces are, if it is not one itself: their names, and where they lie in it.
    pub fn parts<'a>(&'a self, name: &str, slabs: &'a [Hyperslab]) -> Vec<(&'a str, &'a Hyperslab)> {
        let pieces = self.pieces.iter().zip(slabs).filter_map(|(piece, slab)| Some((piece.as_ref()?, slab)));
        pieces.map(|(piece, slab)| (piece.name.as_str(), slab)).filter(|(own, _)| *own != name).collect()
    }

    /// Where the chunks of a piece lie, when all of it is written.
    pub fn chunks(&self, piece: usize) -> Option<Chunks> {
        let written = self.pieces.get(piece)?.as_ref()?;
        let stored = written.stored.iter().map(|chunk| chunk.unwrap_or_default()).collect();
        Some(Chunks { compress: self.compress, extents: written.grid.chunk().to_vec(), stored })
    }
}

/// Where the bytes that are written belong.
pub(super) struct PieceAt<'a> {
    /// Of the data set.
    pub name: &'a str,
    pub units: &'a str,
    pub meta: ArrayMeta,
    /// Of the piece: its number in the order in which they came, its shape, and where it lies.
    pub number: usize,
    pub local: Shape,
    pub slab: &'a Hyperslab,
}

/// A chunk to be packed: bytes that came before, and those behind them.
struct RawChunk<'a> {
    chunk: u64,
    before: &'a [u8],
    rest: Lent<'a>,
}

/// How chunks are packed.
struct Packing<'a> {
    compress: Compression,
    item: u64,
    /// Bytes of a whole chunk.
    full: u64,
    load: &'a Load,
    /// A rank waits for room.
    hurried: bool,
}

impl Writer {
    /// Lays out a data set whose chunks are compressed, if that makes it smaller: of its first piece the shape is told, and
    /// bytes that it begins with. Nothing happens when it is there already.
    pub fn add_compressed(
        &mut self,
        name: &str,
        meta: &ArrayMeta,
        units: &str,
        compress: Compression,
        (local, first): (&Shape, Lent),
    ) -> Result<()> {
        if self.has(name) {
            return Ok(());
        }
        let load = self.load();
        let hurried = self.is_hurried();
        if meta.dtype.is_text() || meta.bytes()? < Compression::LEAST {
            return self.add(name, meta, units);
        }
        if hurried || load.is_full() {
            load.uncompressed.fetch_add(meta.bytes()?, Ordering::Relaxed);
            return self.add(name, meta, units);
        }
        let mut set = ChunkedSet::new(compress);
        let piece = ArrayMeta { shape: *local, ..*meta };
        if piece.bytes()? >= Compression::LEAST {
            let item = meta.dtype.size() as u64;
            let grid = ChunkGrid::new(&in_file_order(&piece), item)?;
            let jobs = jobs_of(&grid, 0, first, &[], |chunk| chunk < TRIED)?;
            let packing = Packing { compress, item, full: grid.full(), load: &load, hurried };
            pack_all(&packing, &jobs, |chunk, packed| {
                set.tried.insert(chunk, packed);
                Ok(())
            })?;
            let stored: u64 = set.tried.values().map(|p| p.bytes.len() as u64).sum();
            // Less than a twentieth is not worth the time of those who read it.
            if !jobs.is_empty() && jobs.len() as u64 * grid.full() * 20 < stored * 21 {
                return self.add(name, meta, units);
            }
        }
        self.lay_chunked(name, meta, units, set)
    }

    /// Writes bytes of a piece from its byte `from` on. After an error the same call may be made again.
    pub(super) fn write_chunks(
        &mut self,
        set: &mut ChunkedSet,
        at: &PieceAt,
        from: u64,
        bytes: Lent,
    ) -> Result<()> {
        set.pieces.resize_with(set.pieces.len().max(at.number + 1), || None);
        if at.slab.bytes() == 0 {
            return Ok(());
        }
        let (compress, item) = (set.compress, at.meta.dtype.size() as u64);
        if set.pieces[at.number].is_none() {
            set.pieces[at.number] = Some(self.begin_piece(compress, at)?);
        }
        let Some(ChunkedWrite { name, grid, stored, cut }) = set.pieces[at.number].as_mut() else {
            return Ok(());
        };
        // What was written before a call failed is not written again.
        let jobs = jobs_of(grid, from, bytes, cut, |chunk| stored[chunk as usize].is_none())?;
        let (load, hurried) = (self.load(), self.is_hurried());
        let packing = Packing { compress, item, full: grid.full(), load: &load, hurried };
        let mut put = |chunk: u64, packed: Packed| -> Result<()> {
            spare(self.disk(), self.dir())?;
            let (mask, offset) = (packed.mask, grid.offset(chunk));
            let written =
                self.framed(|frame, tmp| frame.write_chunk(tmp, name, mask, &offset, &packed.bytes))?;
            let (offset, bytes) = written;
            stored[chunk as usize] = Some(StoredChunk { offset, bytes, mask, crc32c: crc32c(&packed.bytes) });
            Ok(())
        };
        let mut tried = if at.number == 0 { std::mem::take(&mut set.tried) } else { BTreeMap::new() };
        let mut left = Vec::new();
        for job in jobs {
            match tried.remove(&job.chunk) {
                Some(packed) => put(job.chunk, packed)?,
                None => left.push(job),
            }
        }
        pack_all(&packing, &left, put)?;
        drop(left);
        let end = from + bytes.len() as u64;
        // The chunk that is cut, if one is.
        let begin = if end < at.slab.bytes() { grid.bytes(grid.holding(end)).0 } else { end };
        if begin >= from {
            cut.clear();
        }
        let behind = begin.max(from);
        if let Some(rest) = bytes.part((behind - from) as usize, (end - behind) as usize) {
            rest.append_to(cut);
        }
        Ok(())
    }

    fn begin_piece(&mut self, compress: Compression, at: &PieceAt) -> Result<ChunkedWrite> {
        let grid = ChunkGrid::new(at.slab.extents(), at.meta.dtype.size() as u64)?;
        let meta = ArrayMeta { shape: at.local, ..at.meta };
        let is_whole = meta.shape == at.meta.shape;
        let name = match is_whole {
            true => at.name.to_owned(),
            false => format!("forebay/pieces/{}/{}", at.name, at.number),
        };
        let units = is_whole.then_some(at.units);
        self.framed(|frame, tmp| frame.add_chunked(tmp, &name, &meta, units, (compress, grid.chunk())))?;
        let stored = vec![None; grid.count() as usize];
        Ok(ChunkedWrite { name, grid, stored, cut: Vec::new() })
    }
}

/// The chunks that become whole by bytes of a piece from its byte `from` on; `cut` are those of the first one that came
/// before.
fn jobs_of<'a>(
    grid: &ChunkGrid,
    from: u64,
    bytes: Lent<'a>,
    cut: &'a [u8],
    is_wanted: impl Fn(u64) -> bool,
) -> Result<Vec<RawChunk<'a>>> {
    let end = from + bytes.len() as u64;
    let mut jobs = Vec::new();
    for chunk in grid.holding(from)..grid.count() {
        let (begin, len) = grid.bytes(chunk);
        if begin + len > end {
            break;
        }
        let before = if begin < from { cut } else { &[] };
        let rest =
            bytes.part(begin.saturating_sub(from) as usize, len as usize - before.len().min(len as usize));
        let rest = rest.ok_or_else(|| Error::internal("a chunk leaves the bytes that it is of"))?;
        if is_wanted(chunk) {
            jobs.push(RawChunk { chunk, before, rest });
        }
    }
    Ok(jobs)
}

/// Packs chunks, and gives each to `put` as it is ready. Threads do it that run when nobody else wants the processor; each
/// has one chunk in hand and one that waits.
fn pack_all(
    packing: &Packing,
    jobs: &[RawChunk],
    mut put: impl FnMut(u64, Packed) -> Result<()>,
) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let threads = packing.load.threads().min(jobs.len());
    let next = AtomicUsize::new(0);
    let (give, take) = sync_channel(threads);
    thread::scope(|scope| {
        let start = |_| {
            let (give, next) = (give.clone(), &next);
            scope.spawn(move || {
                // Where that is not allowed it is done all the same.
                let _ = rustix::process::nice(NICE);
                pack_some(packing, jobs, next, |chunk, packed| give.send((chunk, packed)).is_ok());
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        drop(give);
        for (chunk, packed) in take {
            put(chunk, packed)?;
        }
        match running.into_iter().all(|thread| thread.join().is_ok()) {
            true => Ok(()),
            false => Err(Error::internal("a thread that compresses has panicked")),
        }
    })
}

fn pack_some(
    packing: &Packing,
    jobs: &[RawChunk],
    next: &AtomicUsize,
    mut give: impl FnMut(u64, Packed) -> bool,
) {
    let mut packer = Packer::new(packing.compress, packing.item);
    let mut chunk = vec![0; packing.full as usize];
    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
        let (before, rest) = chunk.split_at_mut(job.before.len());
        let (rest, beyond) = rest.split_at_mut(job.rest.len());
        before.copy_from_slice(job.before);
        job.rest.copy_to(rest);
        beyond.fill(0);
        let packed = match packing.hurried || packing.load.is_full() {
            true => {
                let bytes = (job.before.len() + job.rest.len()) as u64;
                packing.load.uncompressed.fetch_add(bytes, Ordering::Relaxed);
                Packed { bytes: chunk.clone(), mask: RAW }
            }
            false => packer.pack(&chunk),
        };
        if !give(job.chunk, packed) {
            return;
        }
    }
}

/// The extents of an array, axes as in the file.
fn in_file_order(meta: &ArrayMeta) -> Vec<u64> {
    let mut extents = meta.shape.extents().to_vec();
    if meta.order == Order::F {
        extents.reverse();
    }
    extents
}

impl Frame {
    /// Lays out a data set whose chunks are written as they are, and have gone through filters.
    pub fn add_chunked(
        &self,
        path: &Path,
        name: &str,
        meta: &ArrayMeta,
        units: Option<&str>,
        (compress, chunk): (Compression, &[u64]),
    ) -> Result<()> {
        let (descriptor, dims) = layout_of(meta);
        let chunk: Vec<usize> = chunk.iter().map(|n| *n as usize).collect();
        self.with(path, "cannot lay out an array in", |file| {
            let plist = ffi::filtered(&filters(compress, meta.dtype.size() as u64))?;
            let set = file
                .new_dataset_builder()
                .empty_as(descriptor)
                .shape(dims)
                .set_create_plist(&plist)
                .create_intermediate_group(true)
                .fill_time(hdf5::plist::dataset_create::FillTime::Never)
                .chunk(chunk)
                .create(name)?;
            units.map_or(Ok(()), |units| describe_array(&set, meta, units))
        })
    }

    /// Writes a chunk as it is, and says where it lies.
    pub fn write_chunk(
        &self,
        path: &Path,
        name: &str,
        mask: u32,
        offset: &[u64],
        bytes: &[u8],
    ) -> Result<(u64, u64)> {
        self.with(path, "cannot write a chunk to", |file| {
            ffi::write_chunk(&file.dataset(name)?, mask, offset, bytes)
        })
    }

    /// Makes one data set of others in this file.
    pub fn join(
        &self,
        path: &Path,
        name: &str,
        meta: &ArrayMeta,
        units: &str,
        parts: &[(&str, &Hyperslab)],
    ) -> Result<()> {
        let (descriptor, dims) = layout_of(meta);
        self.with(path, "cannot lay out an array in", |file| {
            let builder = file.new_dataset_builder().create_intermediate_group(true).with_dcpl(|plist| {
                for (part, slab) in parts {
                    let along = |(at, n): (&u64, &u64)| SliceOrIndex::SliceTo {
                        start: *at as usize,
                        step: 1,
                        end: (*at + *n) as usize,
                        block: 1,
                    };
                    let place: Vec<SliceOrIndex> =
                        slab.offset().iter().zip(slab.extents()).map(along).collect();
                    let extents: Vec<usize> = slab.extents().iter().map(|n| *n as usize).collect();
                    let place = Selection::from(hdf5::Hyperslab::from(place));
                    plist.virtual_map(".", format!("/{part}"), extents, Selection::All, dims.clone(), place);
                }
                plist
            });
            let set = builder.no_chunk().empty_as(descriptor.clone()).shape(dims.clone()).create(name)?;
            describe_array(&set, meta, units)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::System;
    use crate::stepfile::{
        Check, Facts, Manifest, Source, open_manifest, read_piece, read_selection, write_anew,
    };
    use forebay_types::{DType, Selection, Slice};
    use std::fs::File;
    use std::sync::Arc;

    fn sh(v: &[u64]) -> Shape {
        Shape::new(v).unwrap()
    }

    /// Numbers that follow each other slowly.
    fn rows(count: u64) -> Vec<u8> {
        (0..count).flat_map(|i| ((i / 50) as f64).to_le_bytes()).collect()
    }

    #[test]
    fn pieces_that_come_in_parts_are_read_back_and_written_anew_chunk_by_chunk() {
        for order in [Order::C, Order::F] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f.h5");
            let meta = ArrayMeta { dtype: DType::F64, shape: sh(&[900, 700]), order };
            let all = rows(900 * 700);
            let mut w = Writer::create(Arc::new(System), &path).unwrap();
            // Two pieces, and one of all of it.
            for (at, lines) in [(0u64, 400u64), (400, 500)] {
                let (offset, local) = match order {
                    Order::C => (sh(&[at, 0]), sh(&[lines, 700])),
                    Order::F => (sh(&[0, at]), sh(&[900, lines.min(700 - at)])),
                };
                let bytes = match order {
                    Order::C => &all[(at * 700 * 8) as usize..((at + lines) * 700 * 8) as usize],
                    Order::F => &all[(at * 900 * 8) as usize..((at + lines).min(700) * 900 * 8) as usize],
                };
                w.add_compressed("T", &meta, "K", Compression::Gzip, (&local, Lent::of(bytes))).unwrap();
                let mut from = 0;
                for part in bytes.chunks(1_000_003) {
                    w.write("T", at as u32, &offset, &local, from, Lent::of(part)).unwrap();
                    from += part.len() as u64;
                }
            }
            w.add_compressed("one", &meta, "", Compression::Gzip, (&meta.shape, Lent::of(&all))).unwrap();
            w.write("one", 0, &sh(&[0, 0]), &meta.shape, 0, Lent::of(&all)).unwrap();
            let facts = Facts { run_id: "r".into(), serial: 1, ..Facts::default() };
            let m = w.finish(&facts).unwrap();
            drop(w);
            assert_eq!(open_manifest(&path).unwrap(), m);
            compare(&path, &m, &all);
            let disk: Arc<dyn crate::disk::Disk> = Arc::new(System);
            compare(&path, &write_anew(&disk, &path, &m).unwrap(), &all);
        }
    }

    fn compare(path: &Path, m: &Manifest, all: &[u8]) {
        let file = File::open(path).unwrap();
        for e in &m.data {
            assert_eq!(e.compressed(), Some(Compression::Gzip), "{}", e.name);
            let chunks = e.pieces.iter().flat_map(|p| &p.chunks.as_ref().unwrap().stored);
            assert!(chunks.map(|c| c.bytes).sum::<u64>() < all.len() as u64 / 10);
            let source = Source::of(&file, &e.meta, &e.pieces, e.offset).unwrap();
            let slices = Selection::default().resolve(&e.meta.shape).unwrap();
            let mut check = Check::new(&e.meta, &e.pieces, &slices).unwrap();
            let read = |source: &Source, sel: &Selection, check: &mut Check| {
                read_selection(source, &e.meta, sel, check).unwrap().1
            };
            assert!(read(&source, &Selection::default(), &mut check) == all && check.wrong().is_none());
            let part = |start, count, step| Slice { start, count, step, squeeze: false };
            let some = Selection(vec![part(350, 20, 5), part(3, 2, 300)]);
            let picked = read(&source, &some, &mut Check::default());
            assert!(picked == read(&Source::Memory(all), &some, &mut Check::default()), "{}", e.name);
        }
    }

    #[test]
    fn a_chunk_whose_bytes_changed_is_named_by_whoever_reads_any_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.h5");
        let meta = ArrayMeta::new(DType::F64, sh(&[500_000]));
        let all = rows(500_000);
        let mut w = Writer::create(Arc::new(System), &path).unwrap();
        w.add_compressed("T", &meta, "", Compression::Gzip, (&meta.shape, Lent::of(&all))).unwrap();
        w.write("T", 0, &sh(&[0]), &meta.shape, 0, Lent::of(&all)).unwrap();
        let m = w.finish(&Facts::default()).unwrap();
        let e = &m.data[0];
        let chunk = e.pieces[0].chunks.as_ref().unwrap().stored[2];
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[(chunk.offset + chunk.bytes / 2) as usize] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        let said = read_piece(&file, e, &e.pieces[0]).unwrap_err();
        assert!(said.text().contains("chunk 2 of the piece of rank 0"), "{said}");
        let source = Source::of(&file, &e.meta, &e.pieces, e.offset).unwrap();
        let at = |start| Selection(vec![Slice { start, count: 1, step: 1, squeeze: true }]);
        assert!(read_selection(&source, &meta, &at(0), &mut Check::default()).is_ok());
        assert!(read_selection(&source, &meta, &at(300_000), &mut Check::default()).is_err());
    }
}
