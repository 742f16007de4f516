//! Mends a run as far as it can be mended, and says what is missing: the catalog is made anew of what
//! can be read of the old one and of the manifests in the files; steps whose bytes are not those
//! that were written are marked, so that listings and restarts pass them over.

use super::compare::{Listed, differences};
use super::manifests::{mend_manifest, mend_manifest_of_set, mend_words};
use super::salvage::{Saved, salvage};
use super::verify::{
    difference_of_set, fault_of_set, faults_of_step, misplaced, name_of, no_step, set_entry, words_of,
};
use super::{Progress, unheard};
use crate::catalog::{self, BadLog, Catalog, DataRow, Health, LogFault, Old, StepRow};
use crate::disk::{Disk, System};
use crate::layout::{DATA, DirectoryKind, Layout, PARTIAL, STEPS, TMP, put_of, step_file};
use crate::links;
use crate::lock::Lock;
use crate::owner::{
    broken, close_past, earlier as said_of_earlier, files, has_end, id_left, inherit, left_by_the_dead,
    lost_records, older, one_catalog, spare_the_living, tidy,
};
use crate::reader::Reader;
use crate::site::Site;
use crate::stepfile::{Entry, Manifest, open_manifest, open_pack};
use forebay_types::{Code, Error, Result, counted};
use rusqlite::{Connection, Transaction};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `repair` did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// Steps in the catalog now that are sound.
    pub steps: u64,
    /// Large data sets in the catalog now.
    pub data_sets: u64,
    /// Where the damaged catalog was put, if there was one; its log lies beside it.
    pub old_catalog: Option<PathBuf>,
    /// What was wrong with it.
    pub faults: Vec<String>,
    /// What was saved of it, one entry for each table.
    pub saved: Vec<Saved>,
    /// Whether there was a catalog to save anything of; what lay only there is lost otherwise, and nobody
    /// can say what that was.
    pub lost_catalog: bool,
    /// Steps that had no row, and have one now.
    pub listed: Vec<i64>,
    /// Rows that said something else than their files, one line each: they are what the files say now.
    pub mended: Vec<String>,
    /// Files that were written anew, one line each: what they said to programs that read them without Forebay was
    /// damaged, and their arrays were not.
    pub rewritten: Vec<String>,
    /// Steps that are damaged and marked, with what is wrong.
    pub damaged: Vec<(i64, String)>,
    /// Data sets outside steps that are damaged. Nothing can be done for them here.
    pub damaged_sets: Vec<String>,
    /// Files that could not be used and were left alone.
    pub unusable: Vec<String>,
    /// Files that are none of this run, one line each: nobody reads them, and they were left alone.
    pub foreign: Vec<String>,
    /// Of which sessions of dead programs the catalog knows less than it did, its log being lost.
    pub older: Option<String>,
    /// Ranks of dead programs that left something in shared memory; `recover` writes it.
    pub left: u64,
    /// Ranks of dead programs whose memory is not seen here; `recover` says what that means.
    pub unseen: u64,
}

impl Repaired {
    /// Whether nothing was wrong.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty() && self.mended.is_empty() && self.rewritten.is_empty() && self.lacks_nothing()
    }

    /// Whether nothing is missing as far as can be told, though something was mended.
    pub fn lacks_nothing(&self) -> bool {
        !self.lost_catalog
            && self.older.is_none()
            && self.saved.iter().all(Saved::is_whole)
            && self.damaged.is_empty()
            && self.damaged_sets.is_empty()
            && self.unusable.is_empty()
    }
}

/// Makes the catalog anew when it is missing or damaged, from what can be read of it and from the
/// manifests in the files, and marks damaged steps. The damaged catalog is kept with its log. A sound one
/// is left alone but for steps it lacks and for marks. A disk that does not answer says nothing about the
/// catalog: then nothing is changed.
pub fn repair(dir: &Path) -> Result<Repaired> {
    repair_with(dir, &unheard())
}

/// Whether there are files of a run here, or memory that was made for it, and no catalog.
pub fn lacks_catalog(dir: &Path) -> Result<bool> {
    let layout = Layout::new(dir);
    Ok(match layout.inspect()? {
        DirectoryKind::Remains => true,
        DirectoryKind::Empty => id_left(&layout).is_some(),
        DirectoryKind::Nothing | DirectoryKind::Begun | DirectoryKind::Run => false,
    })
}

/// Makes the catalog anew when it is missing or damaged, and marks damaged steps, as [`repair`] does. `progress`
/// hears how many files of all are done. `NotFound` when there is no run.
pub fn repair_with(dir: &Path, progress: &Progress) -> Result<Repaired> {
    let layout = Layout::new(dir);
    let is_there = match layout.inspect()? {
        DirectoryKind::Nothing => false,
        DirectoryKind::Empty => id_left(&layout).is_some(),
        DirectoryKind::Begun | DirectoryKind::Remains | DirectoryKind::Run => true,
    };
    if !is_there {
        return Err(Error::new(
            Code::NotFound,
            format!("there is no run {}: nothing is there to repair; check the name", dir.display()),
        ));
    }
    let disk: Arc<dyn Disk> = Arc::new(System);
    one_catalog(&layout)?;
    layout.create(&*disk)?;
    let lock = Lock::take(&disk, &layout.lock(), catalog::known_fence(&layout.catalog()))?;
    links::part(&*disk, &layout)?;
    // It may be the log that is damaged, and not the catalog.
    let mut log = catalog::part(&*disk, &layout)?;
    spare_the_living(&layout)?;
    catalog::go_on(&*disk, &layout)?;
    let mut done = Repaired::default();
    let health = match layout.catalog().exists() {
        true => catalog::look(&layout.catalog()).map_err(|e| unknown(&layout, e))?,
        false => {
            done.lost_catalog = true;
            Health::Damaged(vec!["catalog.sqlite is not there".into()])
        }
    };
    let (mut catalog, anew) = match health {
        Health::Sound => {
            catalog::keep_broken(&*disk, &layout, log.as_ref())?;
            (Catalog::open(&disk, &layout, lock.fence())?, false)
        }
        Health::Damaged(faults) => {
            done.faults = faults;
            // It is kept with its catalog.
            if let Some(BadLog { fault: LogFault::Broken(found), .. }) = log {
                done.faults.push(format!("its log is {}", broken(&found)));
                log = None;
            }
            (begin_anew(&disk, &layout, &lock, &mut done)?, true)
        }
    };
    let left = left_by_the_dead(&layout, catalog.run_id());
    let earlier = catalog::behind(catalog.conn(), lock.before())?;
    catalog.transaction(|tx| {
        let (mut behind, mut lost, mut here) = (0, 0, Vec::new());
        for row in &left {
            let is_unknown = catalog::session(tx, row.session)?.is_none();
            let (applied, gap) = lost_records(&layout, tx, row)?;
            here.push((row.session, applied));
            let gap = gap.unwrap_or_default();
            if is_unknown || !gap.is_empty() {
                (behind, lost) = (behind + 1, lost + (gap.end - gap.start));
            }
            inherit(tx, row, &gap)?;
            catalog::suppose_site(tx, Some(row.session), &Site::here())?;
        }
        if earlier.is_some() {
            close_past(&layout, tx, lock.before())?;
        }
        let open: Vec<u64> = catalog::open_sessions(tx)?.iter().map(|row| row.session).collect();
        let went_on = earlier.as_ref().is_some_and(|e| e.went_on(&open));
        let missing = earlier.as_ref().map_or(0, |e| e.lost(&here) + lost);
        done.older = match behind {
            _ if missing > 0 || went_on || log.is_some() => {
                Some(said_of_earlier(missing, went_on, log.as_ref()))
            }
            0 => None,
            n => Some(older(n, lost)),
        };
        // From now on `LOCK` names this process.
        match lock.before() {
            Some(before) => catalog::suppose_site(tx, None, &Site::of_holder(before)),
            None => Ok(()),
        }
    })?;
    adopt_files(&disk, &layout, &mut catalog, progress, &mut done)?;
    if earlier.is_some() && done.older.is_none() && !done.listed.is_empty() {
        done.older = Some(said_of_earlier(0, false, None));
    }
    if anew {
        done.old_catalog = catalog::replace(&*disk, &layout, catalog)?;
        // The new one bears the number of this lock already.
        catalog = Catalog::open(&disk, &layout, lock.fence() + 1)?;
    }
    catalog.note_in(lock.note(), done.older.as_deref())?;
    catalog.settle()?;
    let reader = Reader::open(dir)?;
    done.damaged_sets = match reader.list("*", None) {
        Ok(sets) => sets.iter().filter_map(|row| Some(fault_of_set(&layout, &reader, row)?.text)).collect(),
        Err(e) => vec![format!("catalog.sqlite: {}", e.text())],
    };
    let count = |sql: &str| catalog.conn().query_row(sql, (), |r| r.get::<_, i64>(0)).unwrap_or(0) as u64;
    done.steps = catalog::steps(catalog.conn())?.len() as u64;
    done.data_sets = count("SELECT count(*) FROM fb_data WHERE file IS NOT NULL");
    for row in catalog::open_sessions(catalog.conn())? {
        match lost_records(&layout, catalog.conn(), &row)? {
            (_, Some(_)) => done.left += 1,
            (_, None) => done.unseen += 1,
        }
    }
    Ok(done)
}

fn unknown(layout: &Layout, e: Error) -> Error {
    match e.code() {
        Code::VersionMismatch => e,
        code => Error::new(
            code,
            format!(
                "whether {} is sound cannot be said: {}; nothing was changed. Try again, and if it stays so copy the run to another disk and repair it there",
                layout.catalog().display(),
                e.text()
            ),
        ),
    }
}

/// A new catalog under another name, with what can be read of the old one, that goes on from its generation. One that
/// nobody can read any more is not called an older one: that it is lost is said.
fn begin_anew(disk: &Arc<dyn Disk>, layout: &Layout, lock: &Lock, done: &mut Repaired) -> Result<Catalog> {
    let old = if done.lost_catalog { None } else { Old::open(layout)? };
    let id = known_id(layout, old.as_ref())?;
    let mut new = catalog::begin(disk, layout, lock.fence(), &id)?;
    let known = lock.before().map_or(0, |h| h.catalog.generation);
    let Some(old) = old else {
        done.lost_catalog = true;
        catalog::set_generation(new.conn(), known)?;
        return Ok(new);
    };
    if old.is_put_right {
        done.faults.push("its first page was damaged; it was read with that of a sound one".into());
    }
    if !old.listed_wrong.is_empty() {
        let of = old.listed_wrong.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        done.faults
            .push(format!("its list of tables was damaged; what it says of {of} was taken from a sound one"));
    }
    done.saved = new.transaction(|tx| {
        catalog::make_room_for_facts(tx)?;
        let saved = salvage(&old.conn, tx)?;
        catalog::fill_up_facts(tx)?;
        Ok(saved)
    })?;
    done.lost_catalog = done.saved.iter().all(|s| s.rows == 0);
    // Where the header was damaged its number is no witness.
    let read = catalog::generation(&old.conn).ok().filter(|_| !old.is_put_right);
    catalog::set_generation(new.conn(), read.unwrap_or(known))?;
    Ok(new)
}

/// The run's identity as its files know it, or what can be read of its catalog, or what is in memory of it.
fn known_id(layout: &Layout, old: Option<&Old>) -> Result<String> {
    let known =
        files(&layout.steps()).iter().chain(&files(&layout.data())).find_map(|p| open_manifest(p).ok());
    let of_packs = || files(&layout.packs()).iter().find_map(|p| open_pack(p).ok()).map(|m| m.run_id);
    let of_catalog = || old.and_then(Old::run_id);
    let of_memory = || id_left(layout);
    known
        .map(|m| m.run_id)
        .or_else(of_packs)
        .or_else(of_catalog)
        .or_else(of_memory)
        .map_or_else(crate::owner::new_id, Ok)
}

/// Lists what the files say and the catalog lacks, and marks the steps that are damaged.
fn adopt_files(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    catalog: &mut Catalog,
    progress: &Progress,
    done: &mut Repaired,
) -> Result<()> {
    let (steps, mut data) = (files(&layout.steps()), files(&layout.data()));
    // Of two files of one data set the one that was put last counts.
    data.sort_by_key(|path| Reverse(path.to_str().and_then(put_of)));
    let total = (steps.len() + data.len()) as u64;
    let dropped = catalog::dropped(catalog.conn())?;
    for (i, path) in steps.iter().enumerate() {
        progress(i as u64, total);
        let Some(file) = relative(STEPS, path) else {
            done.foreign.extend(no_step(path));
            continue;
        };
        if dropped.contains(&file) {
            continue;
        }
        let told = open_manifest(path);
        if let Ok(m) = &told
            && catalog::serial_in_pack(catalog.conn(), m.step)?.is_some_and(|packed| packed >= m.serial)
        {
            // A pack has it; the next opening removes the file.
            continue;
        }
        let words = told.as_ref().map_or_else(|_| Vec::new(), |m| words_of(layout, &file, m));
        if !mend_manifest(disk, layout, (&file, &told, &words), catalog, done)?
            && let Some(m) = usable(path, &file, told, catalog, done)?
        {
            let (m, _) = mend_words(disk, layout, &file, m, &words, done);
            adopt_step(layout, catalog, &file, &m, done)?;
        }
        if let Some(row) = catalog::step_of_file(catalog.conn(), &file)? {
            mark(layout, catalog, &row, done)?;
        }
    }
    super::packs::adopt_packs(disk, layout, catalog, done)?;
    // The rows are as the files say by now.
    let odd = catalog.lazy_transaction(|tx| catalog::mend_serials(tx, &done.listed), |_| true)?;
    done.mended.extend(odd.iter().map(|fault| format!("catalog.sqlite: {fault}")));
    tidy(catalog, &**disk, layout)?;
    for path in steps.iter().filter(|path| has_end(path, PARTIAL)) {
        let file = format!("{STEPS}/{}", name_of(path));
        if dropped.contains(&file) {
            continue;
        }
        let Some(m) = usable(path, &file, open_manifest(path), catalog, done)? else { continue };
        if !catalog.lazy_transaction(|tx| catalog::adopt_partial(tx, &file, &m), |_| true)? {
            let _ = disk.remove(path);
            continue;
        }
        let faults = faults_of_step(layout, &file, &m.data, &|_| ());
        done.unusable.extend(faults.iter().map(|f| format!("{file}: {f}")));
    }
    let stray = catalog.lazy_transaction(|tx| catalog::forget_stray_data(tx), |_| true)?;
    if stray > 0 {
        let arrays = counted(stray, "array");
        done.mended.push(format!("catalog.sqlite: it listed {arrays} of steps that are not there"));
    }
    // What is put aside is no step any more.
    let listed: Vec<i64> = catalog::all_steps(catalog.conn())?.iter().map(|s| s.step).collect();
    done.damaged.retain(|(step, _)| listed.binary_search(step).is_ok());
    done.listed.retain(|step| listed.binary_search(step).is_ok());
    for row in catalog::all_steps(catalog.conn())? {
        if !layout.file(&row.file).is_ok_and(|path| path.exists()) {
            mark(layout, catalog, &row, done)?;
        }
    }
    let mut made = 0;
    for (i, path) in data.iter().enumerate() {
        progress((steps.len() + i) as u64, total);
        let Some(file) = relative(DATA, path) else { continue };
        let told = open_manifest(path);
        let words = told.as_ref().map_or_else(|_| Vec::new(), |m| words_of(layout, &file, m));
        if mend_manifest_of_set(disk, layout, (&file, &told, &words), catalog, done)? {
            continue;
        }
        if let Some(m) = usable(path, &file, told, catalog, done)? {
            let (m, is_new) = mend_words(disk, layout, &file, m, &words, done);
            for (name, set, _) in catalog::rows_of_file(catalog.conn(), &file)?.iter().filter(|_| is_new) {
                catalog.lazy_transaction(|tx| catalog::mend_data(tx, (name, *set), &file, &m), |_| true)?;
            }
            mend_sets(layout, catalog, &file, &m, done)?;
            let adopted =
                catalog.lazy_transaction(|tx| catalog::adopt_set(tx, layout, &file, &m), |_| true)?;
            made += u64::from(adopted.is_some());
        }
    }
    // Rows that cannot be read and whose data sets have files are not missing.
    for s in done.saved.iter_mut().filter(|s| s.name == "fb_data") {
        s.lost = s.lost.saturating_sub(made);
    }
    done.saved.retain(|s| !FROM_FILES.contains(&s.name.as_str()));
    Ok(())
}

/// Tables that are made of the files.
const FROM_FILES: [&str; 8] = [
    "fb_steps",
    "fb_step_data",
    "fb_described",
    "fb_damaged",
    "fb_packs",
    "fb_packed",
    "fb_layouts",
    "fb_dropped_slots",
];

/// Path in the run of a finished file.
pub(super) fn relative(folder: &str, path: &Path) -> Option<String> {
    let finished = has_end(path, ".h5") && !has_end(path, TMP);
    finished.then(|| format!("{folder}/{}", name_of(path)))
}

/// What a file says about itself, if it is one of this run. Nobody was promised what no row lists; of a catalog that was
/// damaged, or lost its log, nobody knows what it listed.
fn usable(
    path: &Path,
    file: &str,
    told: Result<Manifest>,
    catalog: &Catalog,
    done: &mut Repaired,
) -> Result<Option<Manifest>> {
    let conn = catalog.conn();
    match told {
        Ok(m) if m.run_id == catalog.run_id() => return Ok(Some(m)),
        Ok(m) => done.foreign.push(format!("{file}: belongs to the run {}", m.run_id)),
        Err(e) => {
            let may_be_ours = !done.faults.is_empty()
                || done.older.is_some()
                || has_end(path, PARTIAL)
                || catalog::step_of_file(conn, file)?.is_some()
                || !catalog::rows_of_file(conn, file)?.is_empty();
            match may_be_ours {
                true => done.unusable.push(e.to_string()),
                false => done.foreign.push(format!("{file}: {}", e.text())),
            }
        }
    }
    Ok(None)
}

/// Has the catalog say of a step what its file says.
fn adopt_step(
    layout: &Layout,
    catalog: &mut Catalog,
    file: &str,
    m: &Manifest,
    done: &mut Repaired,
) -> Result<()> {
    if m.set.is_some() || step_file(m.step) != file {
        done.unusable.push(format!("{file}: says that it is step {}; its name is another one's", m.step));
        return Ok(());
    }
    for ghost in catalog::steps_of_file(catalog.conn(), file)?.into_iter().filter(|n| *n != m.step) {
        catalog.lazy_transaction(|tx| catalog::forget_row(tx, ghost), |()| true)?;
        done.mended.push(format!("{file}: was listed as step {ghost} and is step {}", m.step));
    }
    let Some(row) = catalog::step_row(catalog.conn(), m.step)? else {
        done.listed.push(m.step);
        let add = |tx: &Transaction| {
            // Arrays may be listed under a number whose own row has another one.
            catalog::forget_row(tx, m.step)?;
            catalog::add_step(tx, file, m)
        };
        return catalog.lazy_transaction(add, |()| true);
    };
    let serial = catalog::serial_of(catalog.conn(), m.step)?;
    let heads = catalog::kept_heads(catalog.conn(), m.step)?;
    let found = match entries_of(catalog.conn(), m.step) {
        Ok(entries) => {
            let found = differences(&Listed { row: &row, serial, heads, entries: &entries }, m);
            let is_theirs = |entries: &[Entry]| faults_of_step(layout, file, entries, &|_| ()).is_empty();
            if !found.is_empty() && is_theirs(&entries) && !is_theirs(&m.data) {
                // The bytes are as the catalog says: it is the file's own words that are wrong.
                let text =
                    format!("{file}: what it says about itself does not fit its bytes: {}", found.join("; "));
                done.unusable.push(text);
                return Ok(());
            }
            found
        }
        // What cannot be read is made anew.
        Err(e) => vec![e.text().to_owned()],
    };
    if found.is_empty() {
        return Ok(());
    }
    catalog.lazy_transaction(|tx| catalog::replace_step(tx, file, m), |()| true)?;
    done.mended.push(format!("{file}: {}", found.join("; ")));
    Ok(())
}

/// The data sets of a step that is listed.
pub(super) fn entries_of(conn: &Connection, step: i64) -> Result<Vec<Entry>> {
    if let Some(packed) = catalog::packed_entries(conn, step)? {
        return Ok(packed);
    }
    let entry = |name: &String| catalog::step_entry(conn, step, name).transpose();
    catalog::step_names(conn, step)?.iter().filter_map(entry).collect()
}

/// Reads every byte of a step: one that is not what was written is marked, another is not.
pub(super) fn mark(layout: &Layout, catalog: &mut Catalog, row: &StepRow, done: &mut Repaired) -> Result<()> {
    let faults = match entries_of(catalog.conn(), row.step) {
        Ok(entries) => faults_of_step(layout, &row.file, &entries, &|_| ()),
        Err(e) => vec![e.to_string()],
    };
    if faults.is_empty() {
        return catalog.lazy_transaction(|tx| catalog::unmark(tx, row.step), |()| true);
    }
    let why = format!("{}: {}", row.file, faults.join("; "));
    catalog.lazy_transaction(|tx| catalog::mark_damaged(tx, row.step, &why), |()| true)?;
    // The line of the step says it.
    let is_of_another = |line: &String| !line.contains(&row.file);
    done.unusable.retain(is_of_another);
    done.foreign.retain(is_of_another);
    done.damaged.push((row.step, why));
    Ok(())
}

/// A row that names this file and says something else than it goes: the file's own one is made of the file.
fn mend_sets(
    layout: &Layout,
    catalog: &mut Catalog,
    file: &str,
    m: &Manifest,
    done: &mut Repaired,
) -> Result<()> {
    for (name, set, row) in catalog::rows_of_file(catalog.conn(), file)? {
        let why = match row {
            Ok(row) => difference_of_set(&row, m).or_else(|| elsewhere(layout, &row, m)),
            Err(e) => Some(e.text().to_owned()),
        };
        let Some(why) = why.filter(|_| m.set.is_some()) else { continue };
        catalog.lazy_transaction(|tx| catalog::mend_data(tx, (&name, set), file, m), |()| true)?;
        done.mended.push(format!("{file}: {name:?} set {set}: {why}"));
    }
    Ok(())
}

/// What is said of a row whose bytes are not where it says, and are where the file says.
fn elsewhere(layout: &Layout, row: &DataRow, m: &Manifest) -> Option<String> {
    let ((file, _), theirs) = (row.file.as_ref()?, m.data.first()?);
    let is_as = |entry: &Entry| faults_of_step(layout, file, std::slice::from_ref(entry), &|_| ()).is_empty();
    let ours = Entry { name: theirs.name.clone(), ..set_entry(row)? };
    let is_theirs = (ours.offset, ours.pieces[0].crc32c) != (theirs.offset, theirs.pieces.first()?.crc32c)
        && !is_as(&ours)
        && is_as(theirs);
    is_theirs.then(|| misplaced(&ours, theirs))
}
