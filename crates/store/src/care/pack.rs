//! Packs small steps: those of one layout that follow each other go into one file of stacked arrays. Whoever owns the
//! run lists a pack; everything else is done here, beside its work.
//!
//! ```text
//!  steps/N.h5 ... --read, compared--> packs/A-B.h5.tmp --fsync, read back, rename, fsync--> packs/A-B.h5
//!                                      one durable transaction: the rows name the pack; then steps/N.h5 ... go
//! ```

use super::Progress;
use crate::catalog::{self, Single, StepRow};
use crate::disk::{Disk, failed};
use crate::fault::amount;
use crate::layout::{Layout, TMP, is_pack, pack_file, with_end};
use crate::located::Located;
use crate::reader::Reader;
use crate::stepfile::{
    Entry, PackManifest, PackSlot, Put, is_scale, open_pack, read_back, why_not_stacked, write_pack,
};
use forebay_types::control::{Heads, Packed, Unpacked};
use forebay_types::{Code, Error, Result, Selection};
use rusqlite::Connection;
use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A step of which the arrays are larger gains nothing by a pack.
pub const LARGEST: u64 = 64 << 20;
/// Most bytes of a pack.
const MOST_BYTES: u64 = 4 << 30;
/// What is said of a step that has no other beside it.
const ALONE: &str = "no step beside it can be packed with it";
/// Fewer steps make no pack.
const LEAST: usize = 2;

/// What is to be packed.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// From the first to the last step, both among them.
    pub steps: (i64, i64),
    /// Fewer of one layout stay single.
    pub least: usize,
    /// Most steps of a pack.
    pub most: usize,
    /// Steps of more bytes stay single.
    pub largest: u64,
    /// Whether meshes and particles are packed too: programs that read openPMD or VTKHDF find them in single steps only.
    pub meshes: bool,
}

impl PackOptions {
    /// All that can be packed from one step to another.
    pub fn between(first: i64, last: i64) -> PackOptions {
        PackOptions { steps: (first, last), least: LEAST, most: 10_000, largest: LARGEST, meshes: true }
    }
}

/// Has a pack that is durable under its name listed; gives the files that its steps lay in before.
pub(crate) type List<'a> = dyn FnMut(String, PackManifest) -> Result<Vec<String>> + 'a;

/// What a pack is made with.
pub(crate) struct Packer<'a> {
    pub layout: &'a Layout,
    pub disk: &'a dyn Disk,
    pub catalog: &'a dyn Questions,
    pub progress: &'a Progress,
    pub stop: &'a AtomicBool,
}

/// Answers questions to the catalog of a run.
pub(crate) trait Questions {
    /// Has the connection looked at.
    fn ask(&self, question: &mut dyn FnMut(&Connection) -> Result<()>) -> Result<()>;
}

impl Questions for Reader {
    fn ask(&self, question: &mut dyn FnMut(&Connection) -> Result<()>) -> Result<()> {
        self.asked(question)
    }
}

impl Questions for Connection {
    fn ask(&self, question: &mut dyn FnMut(&Connection) -> Result<()>) -> Result<()> {
        question(self)
    }
}

/// A step that is to go into a pack.
struct PackSource {
    row: StepRow,
    serial: u64,
    heads: Option<Heads>,
    entries: Vec<Entry>,
}

/// What steps of one pack have in common: their arrays, without places, and the checksums of coordinates.
#[derive(PartialEq)]
struct Alike {
    arrays: Vec<Entry>,
    coordinates: Vec<(String, Vec<u32>)>,
}

impl Alike {
    fn of(entries: &[Entry]) -> Alike {
        let bare = |e: &Entry| Entry { offset: 0, pieces: Vec::new(), ..e.clone() };
        let is_scale = |e: &&Entry| is_scale(&e.name, entries.iter().map(|e| (e.name.as_str(), &e.about)));
        let sums = |e: &Entry| (e.name.clone(), e.pieces.iter().map(|p| p.crc32c).collect());
        Alike {
            arrays: entries.iter().map(bare).collect(),
            coordinates: entries.iter().filter(is_scale).map(sums).collect(),
        }
    }

    /// How another step is not as this one.
    fn unlike(&self, other: &Alike) -> String {
        let names = |a: &Alike| a.arrays.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
        if names(self) != names(other) {
            return "it has other arrays".into();
        }
        let differs = |(a, b): (&Entry, &Entry)| match () {
            () if a.meta != b.meta => Some(format!("{:?} is {} here and {} there", a.name, a.meta, b.meta)),
            () if a.units != b.units => Some(format!("{:?} has another unit", a.name)),
            () if a.about.dims != b.about.dims => Some(format!("{:?} has other axes", a.name)),
            () if a.about != b.about => Some(format!("{:?} has other attributes", a.name)),
            () => None,
        };
        let found = self.arrays.iter().zip(&other.arrays).find_map(differs);
        let coordinate = || {
            let mut both = self.coordinates.iter().zip(&other.coordinates);
            both.find(|(a, b)| a != b).map(|(a, _)| format!("the coordinate {:?} is another one", a.0))
        };
        found.or_else(coordinate).unwrap_or_else(|| "it is another one".into())
    }
}

/// Steps that stay single, as they are found.
fn note(found: &mut Vec<Unpacked>, step: i64, why: String) {
    match found.last_mut().filter(|last| last.why == why) {
        Some(last) => (last.last, last.steps) = (step, last.steps + 1),
        None => found.push(Unpacked { first: step, last: step, steps: 1, why }),
    }
}

impl Packer<'_> {
    fn asked<T>(&self, question: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let (mut question, mut answer) = (Some(question), None);
        self.catalog.ask(&mut |conn| {
            answer = question.take().map(|question| question(conn)).transpose()?;
            Ok(())
        })?;
        answer.ok_or_else(|| Error::internal("a question without an answer"))
    }

    /// Packs what can be packed.
    pub fn pack(&self, options: &PackOptions, list: &mut List) -> Result<Packed> {
        let singles = self.asked(|conn| catalog::singles(conn, options.steps))?;
        let (run_id, mut done) = (self.asked(|conn| catalog::fact(conn, "run_id"))?, Packed::default());
        let (mut passed, total) = (0, singles.iter().map(|s| s.row.nbytes).sum::<u64>());
        (self.progress)(0, total);
        let (mut group, mut alike): (Vec<PackSource>, Option<Alike>) = (Vec::new(), None);
        // What a single step is told, and how many bytes there are.
        let (mut lone, mut bytes) = (ALONE.to_owned(), 0);
        for Single { row, serial } in singles {
            let step = row.step;
            let read = |conn: &Connection| {
                Ok((catalog::single_entries(conn, step)?, catalog::kept_heads(conn, step)?))
            };
            let (entries, heads) = self.asked(read)?;
            let why = match () {
                () if serial == 0 => Some("it is of an earlier format".to_owned()),
                () if row.nbytes > options.largest => {
                    Some(format!("its arrays have more than {}", amount(options.largest)))
                }
                () if entries.is_empty() => Some("it has no arrays".to_owned()),
                () if !options.meshes && entries.iter().any(is_for_others) => Some(
                    "it has meshes or particles, which others read in a file of their own alone".to_owned(),
                ),
                () => why_not_stacked(&entries),
            };
            let own = why.is_none().then(|| Alike::of(&entries));
            if own.is_none() || own != alike || group.len() >= options.most || bytes + row.nbytes > MOST_BYTES
            {
                let before = group.last().map(|s: &PackSource| s.row.step);
                let unlike = alike.as_ref().zip(own.as_ref()).filter(|(a, b)| a != b);
                if let Some((a, b)) = unlike {
                    lone = format!("step {step} beside it is of another layout: {}", a.unlike(b));
                }
                let next = unlike.zip(before).map(|((a, b), before)| {
                    format!("step {before} beside it is of another layout: {}", b.unlike(a))
                });
                self.write(options, &run_id, std::mem::take(&mut group), &lone, &mut done, list)?;
                (lone, bytes) = (next.unwrap_or_else(|| ALONE.to_owned()), 0);
            }
            passed += row.nbytes;
            match why {
                Some(why) => note(&mut done.single, step, why),
                None => {
                    bytes += row.nbytes;
                    group.push(PackSource { row, serial, heads, entries });
                }
            }
            alike = own;
            (self.progress)(passed, total);
        }
        self.write(options, &run_id, group, &lone, &mut done, list)?;
        Ok(done)
    }

    /// Writes packs that have steps which are listed no more anew, without them; gives how many.
    pub fn compact(&self, list: &mut List) -> Result<u64> {
        let (run_id, mut done) = (self.asked(|conn| catalog::fact(conn, "run_id"))?, Packed::default());
        for (file, listed) in self.asked(catalog::packs)? {
            let Ok(m) = self.layout.file(&file).and_then(|path| open_pack(&path)) else { continue };
            if listed == 0 || listed as usize >= m.steps.len() {
                continue;
            }
            let group = self.asked(|conn| sources_in(conn, &file))?;
            // One that is damaged stays as it is.
            let at = Cell::new(None);
            match self.make(&run_id, &group, &at) {
                Ok((file, m)) => {
                    done.packs += 1;
                    self.listed(list, file, m)?;
                }
                Err(_) if at.get().is_some() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done.packs)
    }

    /// Makes another pack of the steps that are listed in one; nothing where none is.
    pub fn write_anew(&self, file: &str) -> Result<Option<(String, PackManifest)>> {
        let group = self.asked(|conn| sources_in(conn, file))?;
        if group.is_empty() {
            return Ok(None);
        }
        let run_id = self.asked(|conn| catalog::fact(conn, "run_id"))?;
        self.make(&run_id, &group, &Cell::new(None)).map(Some)
    }

    /// Makes a pack of steps of one layout. Those that cannot be read stay single, and part the others.
    fn write(
        &self,
        options: &PackOptions,
        run_id: &str,
        group: Vec<PackSource>,
        unlike: &str,
        done: &mut Packed,
        list: &mut List,
    ) -> Result<()> {
        if group.len() < options.least.max(LEAST) {
            group.iter().for_each(|s| note(&mut done.single, s.row.step, unlike.to_owned()));
            return Ok(());
        }
        let at = Cell::new(None);
        match (self.make(run_id, &group, &at), at.get()) {
            (Ok((file, m)), _) => {
                let before = self.listed(list, file, m)?;
                done.packs += 1;
                done.steps += before.len() as u64;
                done.bytes += group.iter().map(|s| s.row.nbytes).sum::<u64>();
                Ok(())
            }
            (Err(e), Some(bad)) if matches!(e.code(), Code::Corrupt | Code::NotFound) => {
                let mut first = group;
                let rest = first.split_off(bad + 1);
                let bad = first.pop().map_or(0, |s| s.row.step);
                // It may have been dropped, or gone back behind, since its row was read.
                let is_there = self.asked(|conn| catalog::step_row(conn, bad))?.is_some();
                self.write(options, run_id, first, unlike, done, list)?;
                if is_there {
                    note(&mut done.single, bad, e.text().to_owned());
                }
                self.write(options, run_id, rest, unlike, done, list)
            }
            (Err(e), _) => Err(e),
        }
    }

    /// Has a pack listed. When the run was closed first nobody will list it, and it goes.
    fn listed(&self, list: &mut List, file: String, m: PackManifest) -> Result<Vec<String>> {
        let path = self.layout.file(&file)?;
        list(file, m).inspect_err(|e| {
            if e.code() == Code::Closed {
                let _ = self.disk.remove(&path);
            }
        })
    }

    /// Makes a pack, durable under its name; `at` says at the reading of which step it failed.
    fn make(
        &self,
        run_id: &str,
        group: &[PackSource],
        at: &Cell<Option<usize>>,
    ) -> Result<(String, PackManifest)> {
        let (first, last) = (group[0].row.step, group[group.len() - 1].row.step);
        let (disk, packs) = (self.disk, self.layout.packs());
        let wrong = |path: &Path, e| failed(format!("cannot write {}", path.display()), e);
        if !packs.is_dir() {
            disk.make_dir(&packs).map_err(|e| wrong(&packs, e))?;
            disk.sync_dir(self.layout.root()).map_err(|e| wrong(&packs, e))?;
        }
        let free = |file: &String| self.layout.file(file).is_ok_and(|path| !path.exists());
        let mut names = (0..).map(|n| pack_file(first, last, n));
        let file = names.find(free).ok_or_else(|| Error::internal("no name for a pack"))?;
        let path = self.layout.file(&file)?;
        let tmp = with_end(&path, TMP);
        let mut said = None;
        let steps = group.iter().map(|s| slot_of(s, &mut said)).collect();
        let backs = self.asked(catalog::backs)?;
        let told = PackManifest { run_id: run_id.to_owned(), backs, steps, ..PackManifest::default() };
        let mut open: Option<(String, Arc<File>)> = None;
        let mut read = |slot: usize, put: &mut Put| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::new(
                    Code::Cancelled,
                    "the run is being closed; what is not packed is packed next time",
                ));
            }
            let source = &group[slot];
            at.set(Some(slot));
            let file = &source.row.file;
            let opened = match open.take().filter(|(known, _)| known == file) {
                Some((_, opened)) => opened,
                None => {
                    let path = self.layout.file(file)?;
                    let opened = File::open(&path);
                    Arc::new(
                        opened
                            .map_err(|e| failed(format!("cannot read {}", path.display()), e))
                            .map_err(not_there)?,
                    )
                }
            };
            for (i, entry) in source.entries.iter().enumerate() {
                let located =
                    Located::in_file(self.layout, entry.clone(), (source.row.step, file), opened.clone())?;
                let bytes = located.read(&Selection::default())?.bytes;
                at.set(None);
                put(i, &bytes)?;
                at.set(Some(slot));
            }
            at.set(None);
            if is_pack(file) {
                open = Some((file.clone(), opened));
            }
            Ok(())
        };
        let arrays = group[0].entries.clone();
        let written = write_pack(disk, &tmp, (told, arrays), &mut read)
            .and_then(|m| read_back(&tmp, &m).map(|()| m))
            .and_then(|m| {
                disk.rename(&tmp, &path).map_err(|e| wrong(&path, e))?;
                disk.sync_dir(&packs).map_err(|e| wrong(&packs, e)).map(|()| m)
            });
        if written.is_err() {
            let _ = disk.remove(&tmp);
        }
        written.map(|m| (file, m))
    }
}

/// Whether programs that read openPMD or VTKHDF find it in a step.
fn is_for_others(e: &Entry) -> bool {
    e.about.mesh.is_some() || e.about.species.is_some()
}

/// The listed steps of a pack.
fn sources_in(conn: &Connection, file: &str) -> Result<Vec<PackSource>> {
    let steps = catalog::steps_in_pack(conn, file)?;
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let layout = catalog::pack_layout(conn, file)?;
    let source = |(step, slot, sums): (i64, u64, Vec<u8>)| {
        let row = catalog::step_row(conn, step)?.ok_or_else(|| Error::internal("a step without a row"))?;
        let (serial, heads) = (catalog::serial_of(conn, step)?, catalog::kept_heads(conn, step)?);
        Ok(PackSource { row, serial, heads, entries: layout.entries(slot, &sums) })
    };
    steps.into_iter().map(source).collect()
}

/// A step as the manifest has it: its parameters where they are not those of the step before.
fn slot_of<'a>(
    s: &'a PackSource,
    said: &mut Option<&'a serde_json::Map<String, serde_json::Value>>,
) -> PackSlot {
    let is_new = *said != Some(&s.row.parameters);
    *said = Some(&s.row.parameters);
    let parameters = is_new.then(|| s.row.parameters.clone());
    PackSlot { step: s.row.step, time: s.row.time, parameters, serial: s.serial, heads: s.heads }
}

/// A file of a step that is not there is the step's fault, and not the disk's.
fn not_there(e: Error) -> Error {
    match e.cause() {
        Some(std::io::ErrorKind::NotFound) => Error::new(Code::NotFound, e.text().to_owned()),
        _ => e,
    }
}
