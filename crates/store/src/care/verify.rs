//! Reads every byte of a run and compares checksums. Changes nothing; may run beside an owner.

use super::compare::{Listed, differences};
use super::doubt::{Doubt, doubt};
use super::repair::relative;
use super::{Progress, unheard};
use crate::catalog::{self, DataRow, PartialRow, StepRow};
use crate::layout::{Layout, PACKS, PARTIAL, STEPS, is_pack, step_of};
use crate::lock;
use crate::owner::{files, has_end};
use crate::reader::Reader;
use crate::stepfile::{
    Entry, Manifest, Opened, PackManifest, Piece, open_manifest, open_pack, read_piece, unlike_pack,
};
use forebay_types::Result;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Complete steps that were read.
    pub steps: u64,
    /// Data sets that were read, in steps and outside.
    pub data_sets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files among those of the steps that are none of this run, one line each: nobody reads them.
    pub foreign: Vec<String>,
    /// Steps that lack ranks whose memory is on another host: what is here of them was read, too.
    pub partial: Vec<PartialRow>,
    /// What is wrong, one line each; names the file.
    pub faults: Vec<String>,
    /// What is no fault, and worth knowing, one line each.
    pub notes: Vec<String>,
    /// Names of data sets outside snapshots among them whose bytes are lost: nothing can be repaired of those.
    pub lost_sets: Vec<String>,
    /// Steps among them that are marked as damaged already: there is nothing more to repair.
    pub marked: Vec<i64>,
}

/// Reads everything and compares checksums. Changes nothing; may run beside an owner.
pub fn verify(dir: &Path) -> Result<Report> {
    verify_with(dir, &unheard())
}

/// Reads everything and compares checksums; `progress` hears how many bytes of all are read. Changes nothing; may run
/// beside an owner.
pub fn verify_with(dir: &Path, progress: &Progress) -> Result<Report> {
    let (reader, layout) = (Reader::open(dir)?, Layout::new(dir));
    let mut report = Report::default();
    match doubt(dir) {
        Some(Doubt { text, is_fault: true }) => report.faults.push(format!("catalog.sqlite: {text}")),
        Some(Doubt { text, .. }) => report.notes.push(format!("catalog.sqlite: {text}")),
        None => {}
    }
    let mut of_catalog = reader.asked(catalog::faults).unwrap_or_else(|e| vec![e.to_string()]);
    for more in [catalog::faults_of_tables, catalog::faults_of_serials] {
        match reader.asked(more) {
            Ok(more) => of_catalog.extend(more),
            // What was found already may be why.
            Err(e) if of_catalog.is_empty() => of_catalog.push(e.to_string()),
            Err(_) => {}
        }
    }
    let is_free = lock::holder(&layout.lock()).is_none();
    of_catalog.extend(is_free.then(|| catalog::faults_of_header(&layout.catalog())).flatten());
    report.faults.extend(of_catalog.iter().map(|f| format!("catalog.sqlite: {f}")));
    // Before the rows are read: a step that is finished meanwhile has its row then.
    let found = files(&layout.steps());
    let (steps, sets) = match (reader.asked(catalog::all_steps), reader.list("*", None)) {
        (Ok(steps), Ok(sets)) => (steps, sets),
        (Err(e), _) | (_, Err(e)) => {
            // What a damaged catalog does not list cannot be read.
            report.faults.push(format!("catalog.sqlite: {e}"));
            return Ok(report);
        }
    };
    let total = steps.iter().map(|s| s.nbytes).chain(sets.iter().map(|r| r.nbytes)).sum();
    let read = Cell::new(0);
    let passed = |bytes: u64| {
        read.set(read.get() + bytes);
        progress(read.get(), total);
    };
    passed(0);
    let (mut linked, mut packs) = (BTreeMap::new(), Packs::default());
    let mut steps = steps;
    let mut at = 0;
    while at < steps.len() {
        let step = steps[at].clone();
        let step = &step;
        at += 1;
        let of_catalog = entries(&reader, step.step).and_then(|entries| {
            let of_step =
                |conn: &_| Ok((catalog::serial_of(conn, step.step)?, catalog::kept_heads(conn, step.step)?));
            let (serial, heads) = reader.asked(of_step)?;
            Ok((entries, serial, heads))
        });
        let found = of_catalog.map(|(entries, serial, heads)| {
            report.steps += 1;
            report.data_sets += entries.len() as u64;
            report.bytes += entries.iter().map(Entry::nbytes).sum::<u64>();
            let mut found = faults_of_step(&layout, &step.file, &entries, &passed);
            found.extend(entries.iter().filter_map(|e| fault_of_linked(&layout, e, &mut linked)));
            let listed = Listed { row: step, serial, heads, entries: &entries };
            found.extend(match is_pack(&step.file) {
                true => packs.faults_of_row(&layout, &listed),
                false => faults_of_row(&layout, &listed, found.is_empty()),
            });
            found
        });
        let found = found.unwrap_or_else(|e| vec![e.to_string()]);
        // A program beside this one may have put it aside, or dropped it, since the rows were read.
        if !found.is_empty()
            && let now = reader.asked(|conn| catalog::step_row(conn, step.step))?
            && now.as_ref() != Some(step)
        {
            // Or packed it: it is looked at where it lies now.
            if let Some(now) = now {
                at -= 1;
                steps[at] = now;
            }
            continue;
        }
        if !found.is_empty() && reader.asked(|conn| catalog::damage_of(conn, step.step))?.is_some() {
            report.marked.push(step.step);
            let found = found.join("; ");
            report.faults.push(format!("{}: damaged, and marked as such: {found}", step.file));
            continue;
        }
        report.faults.extend(found.iter().map(|f| format!("{}: {f}", step.file)));
    }
    report.faults.extend(packs.faults(&layout));
    let partial = reader.partial_steps().unwrap_or_else(|e| {
        report.faults.push(format!("catalog.sqlite: {e}"));
        Vec::new()
    });
    for row in partial {
        let found = faults_of_step(&layout, &row.file, &row.manifest.data, &|_| ());
        // Its rest may have come meanwhile.
        let is_kept = || reader.asked(|conn| catalog::partial_step(conn, row.step)).map(|now| now.is_some());
        if !found.is_empty() && !is_kept()? {
            continue;
        }
        report.data_sets += row.manifest.data.len() as u64;
        report.bytes += row.manifest.data.iter().map(Entry::nbytes).sum::<u64>();
        report.faults.extend(found.iter().map(|f| format!("{}: {f}", row.file)));
        report.partial.push(row);
    }
    faults_of_list(&reader, &layout, &steps, &found, &mut report)?;
    for row in &sets {
        report.data_sets += 1;
        report.bytes += row.nbytes;
        if let Some(SetFault { text, is_lost }) = fault_of_set_now(&layout, &reader, row)? {
            report.faults.push(text);
            report.lost_sets.extend(is_lost.then(|| row.name.clone()));
        }
        passed(row.nbytes);
    }
    Ok(report)
}

/// What packs say of themselves, read once for all their steps.
#[derive(Default)]
pub(super) struct Packs(BTreeMap<String, Result<PackManifest>>);

impl Packs {
    pub fn of(&mut self, layout: &Layout, file: &str) -> &Result<PackManifest> {
        let read = || layout.file(file).and_then(|path| open_pack(&path));
        self.0.entry(file.to_owned()).or_insert_with(read)
    }

    /// Where the row of a step and its pack disagree.
    fn faults_of_row(&mut self, layout: &Layout, listed: &Listed) -> Vec<String> {
        // What is wrong with the pack itself is said once.
        let Ok(m) = self.of(layout, &listed.row.file) else { return Vec::new() };
        match m.slot_of(listed.row.step) {
            Some(slot) => differences(listed, &m.manifest_of(slot)),
            None => vec![format!("it does not hold step {}", listed.row.step)],
        }
    }

    /// What is wrong with what they say of themselves.
    fn faults(&self, layout: &Layout) -> Vec<String> {
        let faults = |(file, m): (&String, &Result<PackManifest>)| {
            let found = match (m, layout.file(file)) {
                // That it is not there was said of each step.
                (_, Ok(path)) if !path.exists() => Vec::new(),
                (Ok(m), Ok(path)) => unlike_pack(&path, m),
                (Err(e), _) => vec![e.text().to_owned()],
                (_, Err(e)) => vec![e.text().to_owned()],
            };
            found.into_iter().map(|f| format!("{file}: {f}")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(faults).collect()
    }
}

/// Where the row of a step and its file disagree; that a file says nothing of itself only if nothing is said of it.
fn faults_of_row(layout: &Layout, listed: &Listed, sound: bool) -> Vec<String> {
    match layout.file(&listed.row.file).map(|path| (path.exists(), open_manifest(&path))) {
        // That it is not there was said.
        Ok((false, _)) | Err(_) => Vec::new(),
        Ok((true, Ok(m))) => {
            let mut found = differences(listed, &m);
            // Of a file whose bytes are damaged that is enough.
            found.extend(sound.then(|| words_of(layout, &listed.row.file, &m)).into_iter().flatten());
            found
        }
        Ok((true, Err(_))) if !sound => Vec::new(),
        Ok((true, Err(e))) => vec![e.text().to_owned()],
    }
}

/// What is wrong with the list of steps as a whole: arrays without a step, and steps that no row lists. And the files
/// that are no steps of this run.
fn faults_of_list(
    reader: &Reader,
    layout: &Layout,
    steps: &[StepRow],
    found: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    let stray = reader.asked(catalog::stray_data)?;
    report.faults.extend(
        stray.iter().map(|(step, name)| {
            format!("catalog.sqlite: {name:?} belongs to step {step}, which is not listed")
        }),
    );
    // The owner of an open run may list one in a moment.
    if lock::holder(&layout.lock()).is_some() {
        return Ok(());
    }
    let undone = !reader.asked(catalog::open_sessions)?.is_empty();
    let listed: BTreeSet<&str> = steps.iter().map(|s| s.file.as_str()).collect();
    let (run_id, dropped) = (reader.run_id()?, reader.asked(catalog::dropped)?);
    for path in files(&layout.packs()) {
        let Some(file) = relative(PACKS, &path).filter(|file| !listed.contains(file.as_str())) else {
            continue;
        };
        if !dropped.contains(&file) {
            let dir = layout.root().display();
            report
                .notes
                .push(format!("{file}: no step is listed in it; `forebay recover {dir}` settles that"));
        }
    }
    let partial = reader.asked(catalog::partial_files)?;
    for path in found.iter().filter(|path| has_end(path, PARTIAL)) {
        let file = format!("{STEPS}/{}", name_of(path));
        if !dropped.contains(&file) && !partial.iter().any(|(_, named)| *named == file) {
            let dir = layout.root().display();
            let line =
                format!("{file}: no row of the catalog names it; `forebay recover {dir}` settles that");
            // A program that was killed left it, and so promised nothing of it.
            if undone { &mut report.notes } else { &mut report.faults }.push(line);
        }
    }
    for path in found {
        let Some(file) = relative(STEPS, path) else {
            report.foreign.extend(no_step(path));
            continue;
        };
        if listed.contains(file.as_str()) || dropped.contains(&file) {
            continue;
        }
        match open_manifest(path) {
            Ok(m) if m.run_id != run_id => {
                report.foreign.push(format!("{file}: belongs to the run {}", m.run_id));
            }
            Ok(m) if reader.asked(|conn| catalog::is_aside(conn, &m))? => {}
            // Whoever packed it was killed; the next opening removes it.
            Ok(m) if reader.asked(|conn| catalog::serial_in_pack(conn, m.step))? == Some(m.serial) => {}
            // A program that was killed left it; the next opening lists it.
            Ok(m) if undone => report.notes.push(format!(
                "{file}: holds step {}, which is not listed yet: `forebay recover {}` lists it",
                m.step,
                layout.root().display()
            )),
            Ok(m) => report.faults.push(format!(
                "{file}: holds step {}, and no row of the catalog lists it; `forebay repair` does",
                m.step
            )),
            // Nobody was promised what no row lists.
            Err(e) => report.foreign.push(format!("{file}: {}", e.text())),
        }
    }
    Ok(())
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What is said of a file that is no finished step, unless an owner made it: one that is being written, or was put aside.
pub(super) fn no_step(path: &Path) -> Option<String> {
    let name = name_of(path);
    let stem = name.find(".h5").map(|at| &name[..at + 3]);
    let is_of_steps = stem.is_some_and(|stem| step_of(stem).is_some());
    (!is_of_steps).then(|| format!("{STEPS}/{name}: is no step"))
}

/// The data sets of a step.
pub(super) fn entries(reader: &Reader, step: i64) -> Result<Vec<Entry>> {
    if let Some(packed) = reader.asked(|conn| catalog::packed_entries(conn, step))? {
        return Ok(packed);
    }
    reader.step_names(step)?.iter().map(|n| reader.step_info(step, n)).collect()
}

/// What is wrong with the file of a step, its bytes included; empty when it is sound.
pub(super) fn faults_of_step(
    layout: &Layout,
    file: &str,
    entries: &[Entry],
    passed: &dyn Fn(u64),
) -> Vec<String> {
    let path = match layout.file(file) {
        Ok(path) => path,
        Err(e) => return vec![e.to_string()],
    };
    if !path.exists() {
        return vec!["the file is not there".into()];
    }
    if is_pack(file) {
        // Where its arrays lie is looked at once for all steps.
        let Ok(plain) = File::open(&path) else { return vec!["the file cannot be opened".into()] };
        let of = |e: &Entry| {
            let found: Vec<String> = e.pieces.iter().filter_map(|p| fault_of_piece(&plain, e, p)).collect();
            passed(e.nbytes());
            found
        };
        return entries.iter().flat_map(of).collect();
    }
    let (opened, plain) = match (Opened::open(&path), File::open(&path)) {
        (Ok(o), Ok(f)) => (o, f),
        (Err(e), _) => return vec![e.to_string()],
        (_, Err(e)) => return vec![e.to_string()],
    };
    let mut faults = Vec::new();
    for e in entries {
        let placed = opened.locate(&e.name).map(|p| p.0);
        if e.nbytes() > 0 && placed != Some(e.offset) {
            faults.push(format!("{:?} is not where the catalog says", e.name));
        }
        // The bytes of a constant are looked at in their own file.
        let here = e.pieces.iter().filter(|p| p.file.is_none());
        faults.extend(here.filter_map(|p| fault_of_piece(&plain, e, p)));
        passed(e.nbytes());
    }
    faults
}

/// What a file says to whoever reads it without Forebay, and is not so.
pub(super) fn words_of(layout: &Layout, file: &str, m: &Manifest) -> Vec<String> {
    match layout.file(file).and_then(|path| Opened::open(&path)) {
        Ok(opened) => opened.unlike(m),
        Err(e) => vec![e.to_string()],
    }
}

/// What is wrong with the bytes of a constant, which lie in a file that many steps refer to: it is read once.
fn fault_of_linked(
    layout: &Layout,
    e: &Entry,
    known: &mut BTreeMap<String, Option<String>>,
) -> Option<String> {
    let (file, piece) = (e.elsewhere()?, e.pieces.first()?);
    let looked = || match layout.file(file).map(File::open) {
        Ok(Ok(opened)) => fault_of_piece(&opened, e, piece),
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let fault = known.entry(file.to_owned()).or_insert_with(looked);
    fault.as_ref().map(|fault| format!("{:?} lies in {file}: {fault}", e.name))
}

fn fault_of_piece(file: &File, e: &Entry, p: &Piece) -> Option<String> {
    match read_piece(file, e, p) {
        Ok(sum) if sum == p.crc32c => None,
        Ok(_) => Some(format!("{:?}, {}, has another checksum", e.name, p.called())),
        Err(error) => Some(format!("{:?}, {}: {error}", e.name, p.called())),
    }
}

/// What is wrong with a data set outside steps as it is now: a program beside this one may have put it again, and
/// its file of before is gone then.
fn fault_of_set_now(layout: &Layout, reader: &Reader, row: &DataRow) -> Result<Option<SetFault>> {
    let mut row = Some(row.clone());
    loop {
        let Some(seen) = row else { return Ok(None) };
        let Some(fault) = fault_of_set(layout, reader, &seen) else { return Ok(None) };
        row = reader.asked(|conn| catalog::data_row(conn, &seen.name, seen.set))?;
        if row.as_ref() == Some(&seen) {
            return Ok(Some(fault));
        }
    }
}

/// What is wrong with a data set outside steps.
pub(super) struct SetFault {
    pub text: String,
    /// Its bytes are gone, or are not those that were put.
    is_lost: bool,
}

impl SetFault {
    fn lost(text: String) -> SetFault {
        SetFault { text, is_lost: true }
    }
}

/// What a large data set outside steps is in its file, as the catalog has it.
pub(super) fn set_entry(row: &DataRow) -> Option<Entry> {
    let (_, offset) = row.file.as_ref()?;
    let extents = row.meta.shape.extents();
    let piece = Piece {
        offset: vec![0; extents.len()],
        shape: extents.to_vec(),
        crc32c: row.crc,
        ..Piece::default()
    };
    let (name, units) = (row.name.clone(), row.units.clone());
    let about = forebay_types::Description::default();
    Some(Entry { name, meta: row.meta, units, offset: *offset, pieces: vec![piece], about })
}

/// Looks for it.
pub(super) fn fault_of_set(layout: &Layout, reader: &Reader, row: &DataRow) -> Option<SetFault> {
    let what = format!("{:?} set {}", row.name, row.set);
    let (Some((file, _)), Some(entry)) = (&row.file, set_entry(row)) else {
        let read = reader.get(&row.name, row.set, &Default::default());
        return read.err().map(|e| SetFault::lost(format!("catalog.sqlite: {what}: {e}")));
    };
    let opened = layout.file(file).and_then(|path| {
        File::open(&path).map_err(|e| forebay_types::Error::io("the file cannot be opened", e))
    });
    match opened.and_then(|f| read_piece(&f, &entry, &entry.pieces[0])) {
        Ok(sum) if sum == row.crc => {
            let why = match layout.file(file).and_then(|path| open_manifest(&path)) {
                Err(e) => e.text().to_owned(),
                Ok(m) => difference_of_set(row, &m).or_else(|| {
                    let words = words_of(layout, file, &m);
                    (!words.is_empty()).then(|| words.join("; "))
                })?,
            };
            Some(SetFault { text: format!("{file}: {what}: {why}"), is_lost: false })
        }
        read => Some(match place_of_set(layout, row) {
            Some(e) => {
                SetFault { text: format!("{file}: {what}: {}", misplaced(&entry, &e)), is_lost: false }
            }
            None => match read {
                Ok(_) => SetFault::lost(format!("{file}: {what} has another checksum")),
                Err(e) => SetFault::lost(format!("{file}: {what}: {e}")),
            },
        }),
    }
}

/// How the catalog is wrong about the place or the checksum of a data set that its file tells.
pub(super) fn misplaced(catalog: &Entry, file: &Entry) -> String {
    match catalog.offset == file.offset {
        true => {
            "the catalog has another checksum of it than its file, whose bytes are as the file says".into()
        }
        false => format!(
            "the catalog has it at byte {} of its file, and it lies at byte {}",
            catalog.offset, file.offset
        ),
    }
}

/// Where a data set whose bytes are not as the catalog says lies as its file says, if it lies there whole.
fn place_of_set(layout: &Layout, row: &DataRow) -> Option<Entry> {
    let (file, _) = row.file.as_ref()?;
    let m = layout.file(file).and_then(|path| open_manifest(&path)).ok()?;
    m.set.filter(|(set, _)| *set == row.set)?;
    let is_there = faults_of_step(layout, file, &m.data, &|_| ()).is_empty();
    m.data.into_iter().next().filter(|e| is_there && e.meta == row.meta)
}

/// Where a data set outside steps and its file disagree. Its name may be another one since it was put, its
/// number stays.
pub(super) fn difference_of_set(row: &DataRow, m: &Manifest) -> Option<String> {
    let (Some((set, _)), Some(e)) = (m.set, m.data.first()) else {
        return Some("its file is not that of a data set outside steps".into());
    };
    let same = set == row.set && e.meta == row.meta && e.nbytes() == row.nbytes;
    (!same).then(|| {
        let (ours, theirs) = (row.meta, e.meta);
        format!(
            "the catalog has it as set {}, {}{}, its file as set {set}, {}{}",
            row.set,
            ours.dtype.name(),
            ours.shape,
            theirs.dtype.name(),
            theirs.shape
        )
    })
}
