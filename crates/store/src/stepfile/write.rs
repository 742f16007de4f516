//! Writing a file of arrays as its pieces come.

use super::chunked::{ChunkedSet, Load, PieceAt};
use super::constants;
use super::grids::grids;
use super::hdf::Frame;
use super::place::Hyperslab;
use super::sorted::{HeldArray, ToSort};
use super::{
    Back, Entry, IndexBox, MANIFEST, Manifest, NOBODY, Partial, Piece, left_to_each, read_piece,
    read_piece_to,
};
use crate::disk::{Disk, DualFile, Foreign, failed, foreign};
use crate::fault::amount;
use crate::layout::{FORMAT, TMP, with_end};
use forebay_arena::Lent;
use forebay_types::control::Heads;
use forebay_types::record::Overlap;
use forebay_types::{ArrayMeta, Code, DType, Description, Error, Result, Shape, Tally};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Metadata may need this much of a disk that is otherwise full.
pub(crate) const SPARE: u64 = 2 << 20;
/// Threads that wait for the disk when many files become durable together.
const SYNCING: usize = 4;
/// What stands where nobody put anything is written in parts of about so many bytes.
const FILLING: usize = 1 << 20;
/// From here on the checksum is taken by a second thread while the disk works.
pub(super) const BESIDE: usize = 4 << 20;

/// What a file is about, beside its data sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Identity of the run.
    pub run_id: String,
    /// The step.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// Values of the parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Its number among all steps of the run.
    pub serial: u64,
    /// The times that the run went back.
    pub backs: Vec<Back>,
    /// Where a loop may go on from this step, if its number does not say it.
    pub heads: Option<Heads>,
    /// For a data set outside steps: set number and version.
    pub set: Option<(i64, u64)>,
    /// For what is here of a step that lacks ranks.
    #[serde(default)]
    pub partial: Option<Box<Partial>>,
    /// The time since the step before, by as many steps as there are between.
    #[serde(default)]
    pub dt: Option<f64>,
    /// What its arrays say of themselves, by their names.
    #[serde(default)]
    pub said: BTreeMap<String, Description>,
    /// Units of arrays whose pieces came with others, or with none.
    #[serde(default)]
    pub units: BTreeMap<String, String>,
}

pub(super) struct Open {
    pub entry: Entry,
    pub places: Vec<Hyperslab>,
    /// Bytes of each piece already written, in order, and what they come to.
    pub done: Vec<u64>,
    pub tallies: Vec<Option<Tally>>,
    /// Where it goes to the file in chunks.
    pub chunked: Option<ChunkedSet>,
    /// Its bytes, of one that is to be put in order first.
    pub held: Option<HeldArray>,
    /// What holds where pieces of ranks lie over each other, if they may; and then what is left of each.
    over: Option<Overlap>,
    apart: Option<Vec<Piece>>,
}

pub(super) fn entry(name: &str, meta: &ArrayMeta, units: &str, offset: u64) -> Entry {
    let (name, units) = (name.to_owned(), units.to_owned());
    Entry { name, meta: *meta, units, offset, pieces: Vec::new(), about: Description::default() }
}

/// A file of arrays in the making, under its name with `.tmp`.
pub struct Writer {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    tmp: PathBuf,
    frame: Option<Frame>,
    file: DualFile,
    pub(super) sets: BTreeMap<String, Open>,
    pub(super) to_sort: ToSort,
    described: bool,
    closed: bool,
    synced: bool,
    /// It has its final name, which is not durable yet.
    named: bool,
    finished: bool,
    /// Neither HDF5 nor an fsync has failed on it.
    sound: bool,
    /// What is on the disk is not known any more.
    lost: bool,
    /// Pieces that are not what those over them are, though they had to be.
    unequal: Vec<Error>,
    load: Arc<Load>,
    /// A rank waits for room.
    hurried: bool,
}

impl Writer {
    /// Begins the file that will have the name `path`.
    pub fn create(disk: Arc<dyn Disk>, path: &Path) -> Result<Writer> {
        let dir = path.parent().unwrap_or(path);
        spare(&*disk, dir)?;
        let tmp = with_end(path, TMP);
        let frame = foreign(&*disk, Foreign::Frame, &tmp, || Frame::create(&tmp))?;
        let file = DualFile::open(&*disk, &tmp);
        let path = path.to_owned();
        Ok(Writer {
            file: file.map_err(|e| {
                let _ = disk.remove(&tmp);
                failed(format!("cannot write {}", tmp.display()), e)
            })?,
            disk,
            path,
            tmp,
            frame: Some(frame),
            sets: BTreeMap::new(),
            to_sort: ToSort::default(),
            described: false,
            closed: false,
            synced: false,
            named: false,
            finished: false,
            sound: true,
            lost: false,
            unequal: Vec::new(),
            load: Arc::default(),
            hurried: false,
        })
    }

    /// What is compressed makes way for a run of that load.
    pub fn under(mut self, load: Arc<Load>) -> Writer {
        self.load = load;
        self
    }

    /// Whether a rank waits for room: nothing is compressed then.
    pub fn hurry(&mut self, hurried: bool) {
        self.hurried = hurried;
    }

    pub(super) fn load(&self) -> Arc<Load> {
        self.load.clone()
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.hurried
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn tmp(&self) -> &Path {
        &self.tmp
    }

    pub(super) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Whether a data set is laid out.
    pub(super) fn has(&self, name: &str) -> bool {
        self.sets.contains_key(name)
    }

    /// Whether only calls failed on it, if any, that can be made again as if nothing had happened.
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// Whether nobody knows what of it is on the disk: an fsync failed, after which the system may have
    /// forgotten pages, and would say of another fsync that all is well.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether bytes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Lays out a data set; nothing happens when it is there already.
    pub fn add(&mut self, name: &str, meta: &ArrayMeta, units: &str) -> Result<()> {
        if self.has(name) {
            return Ok(());
        }
        spare(self.disk(), self.dir())?;
        let offset = self.framed(|frame, tmp| frame.add(tmp, name, meta, units))?;
        let entry = entry(name, meta, units, offset);
        if entry.nbytes() > 1 << 20 {
            self.reserve(offset, entry.nbytes())?;
        }
        self.sets.insert(name.to_owned(), Open::new(entry));
        Ok(())
    }

    /// Lays out a data set in chunks: HDF5 hears of each piece when it comes.
    pub(super) fn lay_chunked(
        &mut self,
        name: &str,
        meta: &ArrayMeta,
        units: &str,
        set: ChunkedSet,
    ) -> Result<()> {
        spare(self.disk(), self.dir())?;
        let open = Open { chunked: Some(set), ..Open::new(entry(name, meta, units, 0)) };
        self.sets.insert(name.to_owned(), open);
        Ok(())
    }

    /// Pieces of other ranks may lie over those of a data set; they are written in the order of ranks.
    pub fn lay_over(&mut self, name: &str, rule: Overlap) {
        if let Some(set) = self.sets.get_mut(name) {
            set.over = Some(rule);
        }
    }

    /// Takes what is to be told: pieces that are not what those over them are.
    pub fn unequal(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.unequal)
    }

    /// Room that cannot be had now is asked for again when the bytes are written.
    fn reserve(&self, offset: u64, bytes: u64) -> Result<()> {
        match self.disk.reserve(self.file.plain(), offset, bytes) {
            Err(e) if e.kind() != std::io::ErrorKind::StorageFull => {
                Err(failed(format!("cannot reserve room in {}", self.tmp.display()), e))
            }
            _ => Ok(()),
        }
    }

    /// Writes bytes of the piece of a rank, from byte `from` of the piece on. Parts of a piece
    /// come in order. After an error the same call may be made again.
    pub fn write(
        &mut self,
        name: &str,
        rank: u32,
        offset: &Shape,
        local: &Shape,
        from: u64,
        bytes: Lent,
    ) -> Result<()> {
        let set =
            self.sets.get_mut(name).ok_or_else(|| Error::internal(format!("{name:?} is not laid out")))?;
        let i = match set.entry.pieces.iter().position(|p| p.is(rank, offset, local)) {
            Some(i) => i,
            None => {
                let place = Hyperslab::new(&set.entry.meta, offset, local)
                    .map_err(|e| e.within(format!("{name:?} of rank {rank}")))?;
                if set.over.is_none() {
                    check_apart(name, rank, &place, set)?;
                }
                set.places.push(place);
                set.done.push(0);
                set.tallies.push(Tally::new(set.entry.meta.dtype));
                let (offset, shape) = (offset.extents().to_vec(), local.extents().to_vec());
                set.entry.pieces.push(Piece { rank, offset, shape, ..Piece::default() });
                set.places.len() - 1
            }
        };
        let (base, place, before) = (set.entry.offset, &set.places[i], set.sums(i));
        if from != set.done[i] || from + bytes.len() as u64 > place.bytes() {
            return Err(Error::bad(format!(
                "bytes {from} and following of {name:?} came when those from {} on were due",
                set.done[i]
            )));
        }
        if let Some(held) = &mut set.held {
            held.take(place, from, bytes)?;
            set.wrote(i, bytes.len() as u64, before.behind(bytes));
            return Ok(());
        }
        if let Some(mut chunked) = set.chunked.take() {
            let (name, units, local) = (set.entry.name.clone(), set.entry.units.clone(), *local);
            let (meta, slab) = (set.entry.meta, place.clone());
            let sums = before.behind(bytes);
            let at = PieceAt { name: &name, units: &units, meta, number: i, local, slab: &slab };
            let written = self.write_chunks(&mut chunked, &at, from, bytes);
            return self.sets.get_mut(&name).map_or(Ok(()), |set| {
                set.chunked = Some(chunked);
                written.map(|()| set.wrote(i, bytes.len() as u64, sums))
            });
        }
        let (disk, file) = (&*self.disk, &mut self.file);
        let mut write = || {
            place.runs(from, bytes.len() as u64, |part, at, n| {
                let run = bytes.part(part as usize, n as usize).ok_or(std::io::ErrorKind::InvalidInput)?;
                file.write(disk, run, base + at)
            })
        };
        let (written, sums) = match bytes.len() >= BESIDE {
            true => std::thread::scope(|s| {
                let sums = s.spawn(|| before.clone().behind(bytes));
                let written = write();
                (written, sums.join().unwrap_or_else(|_| before.clone().behind(bytes)))
            }),
            false => (write(), before.clone().behind(bytes)),
        };
        written.map_err(|e| failed(format!("cannot write {name:?} to {}", self.tmp.display()), e))?;
        set.wrote(i, bytes.len() as u64, sums);
        Ok(())
    }

    /// The checksum of what was written of a piece.
    pub fn sum(&self, name: &str, rank: u32, offset: &Shape, local: &Shape) -> Option<u32> {
        let pieces = &self.sets.get(name)?.entry.pieces;
        Some(pieces.iter().find(|p| p.is(rank, offset, local))?.crc32c)
    }

    /// Bytes already written of a piece.
    pub(super) fn done_of(&self, name: &str, rank: u32, offset: &Shape, local: &Shape) -> u64 {
        let Some(set) = self.sets.get(name) else { return 0 };
        set.entry.pieces.iter().position(|p| p.is(rank, offset, local)).map_or(0, |i| set.done[i])
    }

    /// Completes the file and gives it its name; durable when it returns. After a failure it may be
    /// called again, unless the file is lost.
    pub fn finish(&mut self, facts: &Facts) -> Result<Manifest> {
        let manifest = self.complete(facts)?;
        seal_all(vec![self]).pop().unwrap_or(Ok(())).map(|()| manifest)
    }

    /// Completes what is in the file; it is yet to be sealed. After a failure it may be called again,
    /// unless the file is lost.
    pub fn complete(&mut self, facts: &Facts) -> Result<Manifest> {
        self.sort(facts.step)?;
        self.fill_holes(facts)?;
        // A manifest that is not complete is one whose writing is tried again.
        let broken = |s: &&Open| !s.is_complete() && s.entry.name != MANIFEST;
        let broken: Vec<_> = self.sets.values().filter(broken).map(|s| &s.entry.name).collect();
        if !broken.is_empty() {
            return Err(Error::bad(format!("{broken:?} are not complete; the step cannot be kept")));
        }
        self.part_pieces()?;
        let mut manifest = Manifest {
            format: FORMAT,
            run_id: facts.run_id.clone(),
            step: facts.step,
            time: facts.time,
            parameters: facts.parameters.clone(),
            serial: facts.serial,
            backs: facts.backs.clone(),
            heads: facts.heads,
            dt: facts.dt.filter(|_| facts.said.values().any(|d| d.mesh.is_some() || d.species.is_some())),
            set: facts.set,
            partial: facts.partial.clone(),
            data: self.sets.values().map(Open::as_written).collect(),
        };
        manifest.data.retain(|e| e.name != MANIFEST);
        let others = facts.said.iter().filter(|(name, _)| !self.sets.contains_key(*name));
        manifest.data.extend(others.filter_map(|(name, about)| Entry::of_constant(name, about)));
        for e in &mut manifest.data {
            if let Some(said) = facts.said.get(&e.name).filter(|_| e.elsewhere().is_none()) {
                e.about.clone_from(said);
            }
            if let Some(units) = facts.units.get(&e.name) {
                e.units.clone_from(units);
            }
        }
        self.say_sorted(&mut manifest);
        if self.frame.is_some() {
            self.write_manifest(&manifest, &facts.units)?;
        }
        if self.frame.is_some() {
            spare(&*self.disk, self.path.parent().unwrap_or(&self.path))?;
            self.framed(|frame, tmp| frame.flush(tmp))?;
            // Asked for while there is still a frame to try again with.
            let asked = self.disk.before(Foreign::Frame, &self.tmp);
            asked.map_err(|e| self.wrong("write", e))?;
        }
        if let Some(frame) = self.frame.take() {
            self.doubtful(|w| frame.close(&w.tmp))?;
            self.disk.after(Foreign::Frame, &self.tmp);
            self.closed = true;
        }
        if !self.closed || self.lost {
            return Err(Error::new(Code::Io, format!("{} was not written to its end", self.tmp.display())));
        }
        Ok(manifest)
    }

    /// Writes what stands where nobody put anything, as pieces of nobody.
    fn fill_holes(&mut self, facts: &Facts) -> Result<()> {
        let filled = facts.said.iter().filter(|(_, about)| about.filled.is_some_and(|n| n > 0));
        for (name, about) in filled {
            let Some(set) = self.sets.get(name) else { continue };
            let Some(element) = about.fill(set.entry.meta.dtype)? else { continue };
            let many = element.repeat((FILLING / element.len()).max(1));
            for hole in set.holes()? {
                let (offset, shape) = (Shape::new(&hole.offset())?, Shape::new(&hole.extents())?);
                let all = shape.len() * element.len() as u64;
                let mut from = self.done_of(name, NOBODY, &offset, &shape);
                while from < all {
                    let n = (all - from).min(many.len() as u64);
                    self.write(name, NOBODY, &offset, &shape, from, Lent::of(&many[..n as usize]))?;
                    from += n;
                }
            }
        }
        Ok(())
    }

    /// Pieces over which others lie are listed as what is left of them, with the checksums of that; where all are to
    /// have the same bits the whole piece is compared with what was put.
    fn part_pieces(&mut self) -> Result<()> {
        let tmp = &self.tmp;
        let unread = |e| failed(format!("cannot read {}", tmp.display()), e);
        for set in self.sets.values_mut().filter(|s| s.apart.is_none()) {
            let Some(rule) = set.over else { continue };
            let file = std::fs::File::open(tmp).map_err(unread)?;
            let (apart, unequal) = set.parted(rule, &file)?;
            set.apart = Some(apart);
            self.unequal.extend(unequal);
        }
        Ok(())
    }

    /// What is in the file is durable.
    fn sync(&mut self) -> Result<()> {
        if !self.synced {
            self.doubtful(|w| w.disk.sync(w.file.plain()).map_err(|e| w.wrong("make durable", e)))?;
            self.synced = true;
        }
        Ok(())
    }

    /// It has its final name.
    fn name(&mut self) -> Result<()> {
        if !self.named {
            self.disk.rename(&self.tmp, &self.path).map_err(|e| self.wrong("rename", e))?;
            self.named = true;
        }
        Ok(())
    }

    fn wrong(&self, what: &str, e: std::io::Error) -> Error {
        failed(format!("cannot {what} {}", self.tmp.display()), e)
    }

    /// Does what leaves the file in an unknown state when it fails.
    fn doubtful<T>(&mut self, act: impl FnOnce(&Writer) -> Result<T>) -> Result<T> {
        act(self).inspect_err(|_| (self.sound, self.lost) = (false, true))
    }

    /// Has HDF5 write on its own.
    pub(super) fn framed<T>(&mut self, act: impl FnOnce(&Frame, &Path) -> Result<T>) -> Result<T> {
        let frame = self.frame.as_ref().ok_or_else(|| Error::internal("the file is finished"))?;
        let done = foreign(&*self.disk, Foreign::Frame, &self.tmp, || act(frame, &self.tmp));
        self.sound &= done.is_ok();
        done
    }

    /// What lies in several chunked data sets becomes one.
    fn join_pieces(&mut self) -> Result<()> {
        let sets = std::mem::take(&mut self.sets);
        let joined = sets.iter().try_for_each(|(name, set)| {
            let parts = set.chunked.as_ref().map_or(Vec::new(), |chunked| chunked.parts(name, &set.places));
            match parts.is_empty() {
                true => Ok(()),
                false => {
                    let (meta, units) = (&set.entry.meta, &set.entry.units);
                    self.framed(|frame, tmp| frame.join(tmp, name, meta, units, &parts))
                }
            }
        });
        self.sets = sets;
        joined
    }

    fn write_manifest(&mut self, manifest: &Manifest, units: &BTreeMap<String, String>) -> Result<()> {
        let json = manifest.to_json()?;
        let shape = Shape::new(&[json.len() as u64])?;
        let zero = Shape::new(&[0])?;
        if !self.described {
            self.join_pieces()?;
            let (here, linked) = constants::parted(manifest);
            let grids = grids(&self.tmp, &here)?;
            self.framed(|frame, tmp| {
                frame.describe(tmp, &here, &grids, units)?;
                constants::link(frame, tmp, &linked)
            })?;
            self.described = true;
        }
        self.add(MANIFEST, &ArrayMeta::new(DType::Str, shape), "")?;
        let again = self.sets.get(MANIFEST).is_some_and(|s| s.is_complete());
        match again {
            true => Ok(()),
            false => self.write(MANIFEST, 0, &zero, &shape, 0, Lent::of(&json)),
        }
    }
}

/// Makes files that are complete durable under their names: each for itself, their directory once for all. So
/// many small files cost little more than one. After a failure one may be sealed again, unless it is lost.
pub fn seal_all(mut files: Vec<&mut Writer>) -> Vec<Result<()>> {
    let synced = sync_all(&mut files);
    let named = files.iter_mut().zip(synced).map(|(w, synced)| synced.and_then(|()| w.name()));
    let mut sealed: Vec<Result<()>> = named.collect();
    let mut dirs: BTreeMap<PathBuf, std::io::Result<()>> = BTreeMap::new();
    for (w, sealed) in files.iter_mut().zip(&mut sealed).filter(|(_, sealed)| sealed.is_ok()) {
        let dir = w.path.parent().unwrap_or(&w.path).to_owned();
        // One that failed is not asked for again: the system would say that all is well.
        let synced = dirs.entry(dir.clone()).or_insert_with(|| w.disk.sync_dir(&dir));
        let failure = synced.as_ref().err().map(same);
        *sealed = w.doubtful(|w| failure.map_or(Ok(()), |e| Err(w.wrong("make durable", e))));
        w.finished = sealed.is_ok();
    }
    sealed
}

/// What is in the files is durable. All of them are with the system by now, which takes them to the disk together,
/// and several threads wait for that at the same time.
fn sync_all(files: &mut [&mut Writer]) -> Vec<Result<()>> {
    let sync = |w: &mut &mut Writer| w.sync();
    let each = files.len().div_ceil(SYNCING);
    if each <= 1 {
        return files.iter_mut().map(sync).collect();
    }
    let died = |n: usize| (0..n).map(|_| Err(Error::internal("a thread that syncs files died"))).collect();
    std::thread::scope(|scope| {
        let parts = files.chunks_mut(each);
        let threads: Vec<_> = parts
            .map(|part| (part.len(), scope.spawn(move || part.iter_mut().map(sync).collect::<Vec<_>>())))
            .collect();
        threads.into_iter().flat_map(|(n, thread)| thread.join().unwrap_or_else(|_| died(n))).collect()
    })
}

/// Makes a second error of the same cause, for another file.
fn same(e: &std::io::Error) -> std::io::Error {
    e.raw_os_error().map_or_else(|| e.kind().into(), std::io::Error::from_raw_os_error)
}

impl Open {
    pub fn new(entry: Entry) -> Open {
        let (places, done, tallies) = (Vec::new(), Vec::new(), Vec::new());
        Open { entry, places, done, tallies, chunked: None, held: None, over: None, apart: None }
    }

    /// Checksum and values of what was written of a piece.
    fn sums(&self, piece: usize) -> Sums {
        Sums { crc32c: self.entry.pieces[piece].crc32c, tally: self.tallies[piece].clone() }
    }

    /// So many bytes more of a piece are in the file.
    fn wrote(&mut self, piece: usize, bytes: u64, sums: Sums) {
        self.entry.pieces[piece].crc32c = sums.crc32c;
        self.tallies[piece] = sums.tally;
        self.done[piece] += bytes;
    }

    pub fn is_complete(&self) -> bool {
        self.places.iter().zip(&self.done).all(|(p, done)| p.bytes() == *done)
            && (!self.places.is_empty() || self.entry.nbytes() == 0)
    }

    /// What no rank put of it.
    fn holes(&self) -> Result<Vec<IndexBox>> {
        let extents = self.entry.meta.shape.extents();
        let whole = IndexBox::new(&vec![0; extents.len()], extents)?;
        let of = |p: &Piece| IndexBox::new(&p.offset, &p.shape);
        let put =
            self.entry.pieces.iter().filter(|p| p.rank != NOBODY).map(of).collect::<Result<Vec<_>>>()?;
        Ok(whole.without(put.iter()).into_iter().filter(|hole| !hole.is_empty()).collect())
    }

    /// As the manifest lists it.
    pub fn as_written(&self) -> Entry {
        let whole = self.entry.pieces.iter().zip(&self.tallies).enumerate().map(|(i, (piece, tally))| {
            let stats = tally.as_ref().filter(|_| !piece.shape.contains(&0)).map(Tally::stats);
            let chunks = self.chunked.as_ref().and_then(|set| set.chunks(i));
            Piece { stats, chunks, ..piece.clone() }
        });
        let pieces = self.apart.clone().unwrap_or_else(|| whole.collect());
        Entry { pieces, ..self.entry.clone() }
    }

    /// What is left of each piece, and which ones are not what those over them are.
    fn parted(&self, rule: Overlap, file: &std::fs::File) -> Result<(Vec<Piece>, Vec<Error>)> {
        let entry = &self.entry;
        let of = |p: &Piece| Ok((p.rank, IndexBox::new(&p.offset, &p.shape)?));
        let boxes = entry.pieces.iter().map(of).collect::<Result<Vec<_>>>()?;
        let (mut apart, mut unequal) = (Vec::new(), Vec::new());
        let whole = self.as_written().pieces;
        for ((whole, left), (_, own)) in whole.into_iter().zip(left_to_each(&boxes)).zip(&boxes) {
            let piece = &whole;
            if left == [*own] {
                apart.push(whole);
                continue;
            }
            if rule == Overlap::Equal && read_piece(file, entry, piece)? != piece.crc32c {
                let over = boxes.iter().filter(|(rank, b)| *rank > piece.rank && b.meets(own));
                let ranks: Vec<String> = over.map(|(rank, _)| rank.to_string()).collect();
                unequal.push(Error::new(
                    Code::Conflict,
                    format!(
                        "{:?}: the piece of rank {}, {:?} at {:?}, does not have the bits of those over it, of rank {}, which are kept; make them equal, or say overlap = \"last\"",
                        entry.name,
                        piece.rank,
                        piece.shape,
                        piece.offset,
                        ranks.join(", ")
                    ),
                ));
            }
            for part in left {
                let (offset, shape) = (part.offset(), part.extents());
                let part = Piece { rank: piece.rank, offset, shape, ..Piece::default() };
                let mut tally = Tally::new(entry.meta.dtype);
                let crc32c =
                    read_piece_to(file, entry, &part, |bytes| tally.iter_mut().for_each(|t| t.take(bytes)))?;
                apart.push(Piece { crc32c, stats: tally.map(|t| t.stats()), ..part });
            }
        }
        Ok((apart, unequal))
    }
}

/// What is known of the bytes of a piece so far.
#[derive(Clone)]
struct Sums {
    crc32c: u32,
    tally: Option<Tally>,
}

impl Sums {
    /// Goes on over bytes that may change meanwhile: copies are looked at, in pieces that stay in the nearest cache.
    fn behind(mut self, bytes: Lent) -> Sums {
        let mut piece = [0; 16 << 10];
        for part in bytes.chunks(piece.len()) {
            let copy = &mut piece[..part.len()];
            part.copy_to(copy);
            self.crc32c = forebay_types::crc32c_append(self.crc32c, copy);
            self.tally.iter_mut().for_each(|tally| tally.take(copy));
        }
        self
    }
}

fn check_apart(name: &str, rank: u32, place: &Hyperslab, set: &Open) -> Result<()> {
    match set.places.iter().position(|p| p.overlaps(place)) {
        None => Ok(()),
        Some(i) => Err(Error::bad(format!(
            "{name:?}: the piece of rank {rank} lies over that of rank {}; give each rank its own offset",
            set.entry.pieces[i].rank
        ))),
    }
}

pub(super) fn spare(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.free(dir) {
        Ok(free) if free < SPARE => Err(Error::new(
            Code::Full,
            format!(
                "the disk of {} is full: {} are left, and {} are held back for what describes the arrays and for the catalog; make room",
                dir.display(),
                amount(free),
                amount(SPARE)
            ),
        )),
        _ => Ok(()),
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            self.frame = None;
            // Under its final name it would be taken for a step by the next opening.
            let _ = self.disk.remove(if self.named { &self.path } else { &self.tmp });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::System;
    use crate::stepfile::{Check, Source, open_manifest, read_piece, read_selection};
    use forebay_types::{Order, Selection};

    fn sh(v: &[u64]) -> Shape {
        Shape::new(v).unwrap()
    }

    fn facts() -> Facts {
        Facts { run_id: "r".into(), step: 7, time: Some(0.7), ..Facts::default() }
    }

    #[test]
    fn pieces_of_ranks_of_any_dtype_read_back_and_carry_their_checksums() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0000000007.h5");
        let mut w = Writer::create(Arc::new(System), &path).unwrap();
        let big = ArrayMeta::new(DType::F64, sh(&[300, 1000]));
        let fortran = ArrayMeta { dtype: DType::C128, shape: sh(&[40, 50]), order: Order::F };
        let text = ArrayMeta::new(DType::Str, sh(&[5]));
        let none = ArrayMeta::new(DType::I32, sh(&[0, 3]));
        w.add("fields/E", &big, "V/m").unwrap();
        w.add("z", &fortran, "").unwrap();
        w.add("note", &text, "").unwrap();
        w.add("none", &none, "").unwrap();
        let bytes: Vec<u8> = (0..300 * 1000 * 8).map(|i: u32| (i % 253) as u8).collect();
        let (a, b) = bytes.split_at(100 * 8000);
        w.write("fields/E", 0, &sh(&[0, 0]), &sh(&[100, 1000]), 0, Lent::of(&a[..333_333])).unwrap();
        w.write("fields/E", 1, &sh(&[100, 0]), &sh(&[200, 1000]), 0, Lent::of(b)).unwrap();
        w.write("fields/E", 0, &sh(&[0, 0]), &sh(&[100, 1000]), 333_333, Lent::of(&a[333_333..])).unwrap();
        let half = vec![7u8; 20 * 50 * 16];
        w.write("z", 0, &sh(&[0, 0]), &sh(&[20, 50]), 0, Lent::of(&half)).unwrap();
        w.write("z", 1, &sh(&[20, 0]), &sh(&[20, 50]), 0, Lent::of(&half)).unwrap();
        w.write("note", 0, &sh(&[0]), &sh(&[5]), 0, Lent::of("gr\u{fc}n".as_bytes())).unwrap();
        let m = w.finish(&facts()).unwrap();
        drop(w);
        assert_eq!(open_manifest(&path).unwrap(), m);
        assert_eq!(m.data.len(), 4);
        let file = std::fs::File::open(&path).unwrap();
        let opened = super::super::Opened::open(&path).unwrap();
        for e in &m.data {
            assert_eq!(opened.locate(&e.name).unwrap(), (e.offset, e.nbytes()), "{}", e.name);
            for p in &e.pieces {
                assert_eq!(read_piece(&file, e, p).unwrap(), p.crc32c, "{}", e.name);
            }
        }
        let e = m.data.iter().find(|e| e.name == "fields/E").unwrap();
        let slices = Selection::default().resolve(&e.meta.shape).unwrap();
        let mut check = Check::new(&e.meta, &e.pieces, &slices).unwrap();
        let (_, back) =
            read_selection(&Source::File(&file, e.offset), &e.meta, &Selection::default(), &mut check)
                .unwrap();
        assert!(back == bytes && !check.is_empty() && check.wrong().is_none());
        assert!(e.offset.is_multiple_of(4096));
    }

    #[test]
    fn a_piece_without_elements_may_begin_where_another_one_of_its_rank_does_and_a_unit_may_be_settled_late()
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.h5");
        let mut w = Writer::create(Arc::new(System), &path).unwrap();
        w.add("a", &ArrayMeta::new(DType::U8, sh(&[4, 3])), "K").unwrap();
        w.add("b", &ArrayMeta::new(DType::U8, sh(&[0])), "").unwrap();
        let (none, whole) = (sh(&[0, 0]), sh(&[4, 3]));
        for (local, bytes) in [(sh(&[0, 3]), &[][..]), (whole, &[1; 12]), (sh(&[4, 0]), &[])] {
            w.write("a", 0, &none, &local, 0, Lent::of(bytes)).unwrap();
        }
        let units = ["a", "b"].map(|name| (name.to_owned(), "degC".to_owned())).into();
        let m = w.finish(&Facts { units, ..facts() }).unwrap();
        assert!(m.data.iter().all(|e| e.units == "degC"));
        let opened = super::super::Opened::open(&path).unwrap();
        assert_eq!(opened.unlike(&m), Vec::<String>::new());
    }

    #[test]
    fn pieces_over_each_other_and_pieces_missing_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.h5");
        let mut w = Writer::create(Arc::new(System), &path).unwrap();
        w.add("a", &ArrayMeta::new(DType::U8, sh(&[10])), "").unwrap();
        w.write("a", 0, &sh(&[0]), &sh(&[6]), 0, Lent::of(&[1; 5])).unwrap();
        assert!(
            w.write("a", 1, &sh(&[5]), &sh(&[5]), 0, Lent::of(&[2; 5]))
                .unwrap_err()
                .text()
                .contains("rank 0")
        );
        assert!(w.finish(&facts()).is_err());
        drop(w);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
