//! Opening a run for writing: what is there, the lock, the threads, and the work that a
//! predecessor left undone.

use super::adopt::{Heirs, spare_the_living};
use super::aside;
use super::attached::Attached;
use super::command::{Command, Inheritance};
use super::drain::Drain;
use super::home::Homed;
use super::intake::{Ends, Intake, listed_steps};
use super::overflow;
use super::packing::{Packing, ToIntake};
use super::rests::{self, Rests};
use super::silence::{Watch, Watched};
use super::{Downs, Owner, Threads};
use crate::care::Progress;
use crate::catalog::{self, Catalog};
use crate::disk::{Disk, System};
use crate::fault::Fault;
use crate::layout::{DirectoryKind, Layout, PARTIAL, TMP, begun, put_of, with_end};
use crate::links;
use crate::lock::Lock;
use crate::owner::Sink;
use crate::stepfile::{Load, Manifest, open_manifest};
use forebay_arena::Doorbell;
use forebay_host::{environment, threads};
use forebay_types::control::{Elsewhere, Mode};
use forebay_types::watch::level::ERROR;
use forebay_types::{Code, Error, Result};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How a run is opened for writing.
#[derive(Clone)]
pub struct Options {
    /// As in h5py; `r` is refused here, a reader needs no owner.
    pub mode: Mode,
    /// Whether the run is deleted at closing.
    pub scratch: bool,
    /// Bytes of the store's own buffer, for what does not fit the ranks' arenas.
    pub overflow: u64,
    /// Bytes it may put into files in the run's directory for sessions that spill.
    pub spill: u64,
    /// How long a closing waits for a disk that has no room before it fails.
    pub closing: Duration,
    /// How long a catalog that cannot be written, for another reason than want of room, is tried again before the
    /// store is given up: what is missing stays in shared memory then.
    pub hiccup: Duration,
    /// How long a file of arrays that cannot be written, for another reason than want of room, is tried again before
    /// it fails.
    pub files: Duration,
    /// Who hears the sessions of living ranks whose owner died: they go on. Without one they are
    /// ended, and the ranks are told.
    pub adopt: Option<Arc<dyn Sink>>,
    /// Only those of clients go on, which find whoever owns the run; ranks that live are spared, and it is not opened.
    pub clients_alone: bool,
    /// How long a step waits for ranks that have not opened the run yet.
    pub late_ranks: Duration,
    /// The disk; tests put their own one here.
    pub disk: Arc<dyn Disk>,
    /// Hears how many of the bytes that a predecessor left in shared memory are written.
    pub progress: Option<Progress>,
    /// After this time of a call of the disk it is said that it does not answer.
    pub silence: Duration,
    /// What becomes of data in memory that this process does not reach.
    pub elsewhere: Elsewhere,
    /// Hears what this waits for while it is written, and what of it cannot be kept.
    pub says: Option<Says>,
    /// Where it is written down what the owner's machine is told, for [`super::replay`].
    pub record: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Append,
            scratch: false,
            overflow: 256 << 20,
            spill: 4 << 30,
            closing: Duration::from_secs(5),
            hiccup: Duration::from_secs(45),
            files: Duration::from_secs(300),
            adopt: None,
            clients_alone: false,
            late_ranks: Duration::from_secs(60),
            disk: Arc::new(System),
            progress: None,
            silence: Duration::from_secs(10),
            elsewhere: Elsewhere::Refuse,
            says: None,
            record: environment::recordings(),
        }
    }
}

/// Tries again while the disk is full, if somebody hears that this waits.
pub(super) fn while_full<T>(
    dir: &Path,
    patience: Duration,
    says: Option<&Says>,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    let (began, mut waits) = (Instant::now(), Waits::default());
    loop {
        let (e, says) = match (work(), says) {
            (Err(e), Some(says)) if Fault::of(&e) == Fault::NoRoom && began.elapsed() < RECOVERY => (e, says),
            (done, _) => return done,
        };
        let full = "the opening waits for room on the disk, which is full; make room";
        waits.say(says, dir, &format!("{full}: {}", e.text()));
        std::thread::sleep(patience);
    }
}

/// An opening that waits while the disk is full, and says so when it does not answer.
struct Begun<'a> {
    layout: &'a Layout,
    disk: &'a Watched,
    says: Option<Says>,
}

impl Begun<'_> {
    fn patiently<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let of = self.layout.catalog();
        while_full(self.layout.root(), self.disk.patience(), self.says.as_ref(), || {
            self.disk.using(&of, &mut work)
        })
    }
}

/// What an opening waits for is said at once, and again now and then.
#[derive(Default)]
struct Waits(Option<Instant>);

impl Waits {
    fn say(&mut self, says: &Says, dir: &Path, text: &str) {
        if self.0.is_none_or(|at| at.elapsed() >= SAID) {
            self.0 = Some(Instant::now());
            says(&format!("{}: {text}", dir.display()));
        }
    }
}

/// Hears what somebody at a terminal should know.
pub type Says = Arc<dyn Fn(&str) + Send + Sync>;

/// A call of the disk that takes longer is one that somebody who asks is told of.
const NOTICED: Duration = Duration::from_secs(1);

/// Most snapshots that a message names.
const NAMED: usize = 8;

/// An opening that waits says so again after this time.
const SAID: Duration = Duration::from_secs(10);

/// How long an opening waits for the left-over work of a predecessor before it goes on beside it.
const RECOVERY: Duration = Duration::from_secs(600);

impl Owner {
    /// Opens a run for writing and finishes what an owner that died left behind.
    ///
    /// Refused: a run that another live process holds (named by pid and host), a directory that
    /// is no run or cannot be written, a newer format.
    pub fn open(dir: &Path, options: Options) -> Result<Owner> {
        Owner::begin(dir, options).map_err(|e| Layout::new(dir).of_catalog(e))
    }

    fn begin(dir: &Path, mut options: Options) -> Result<Owner> {
        if !options.mode.writes() {
            return Err(Error::bad("a run opened with mode \"r\" has no owner; use a reader"));
        }
        crate::fork::prepare();
        let layout = Layout::new(std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
        let home = Arc::new(Homed::new(options.disk, layout.root()));
        let disk = Arc::new(Watched::new(home.clone()));
        options.disk = disk.clone();
        let (says, of) = (options.says.clone(), layout.root().display().to_string());
        let watch = Watch::start(disk.clone(), options.silence, move |text| {
            if let Some(says) = &says {
                says(&format!("{of}: {text}"));
            }
        })?;
        let file = layout.catalog();
        let begun = Begun { layout: &layout, disk: &disk, says: options.says.clone() };
        let fresh = begun.patiently(|| admits(&layout, options.mode))?;
        begun.patiently(|| layout.create(&*options.disk))?;
        home.hold();
        let take = || Lock::take(&options.disk, &layout.lock(), catalog::known_fence(&file));
        let lock = begun.patiently(take)?;
        begun.patiently(|| links::part(&*options.disk, &layout))?;
        let log = disk.using(&file, || catalog::part(&*options.disk, &layout))?;
        if options.adopt.is_none() || options.clients_alone {
            disk.using(&file, || spare_the_living(&layout))?;
        }
        // Somebody may have made or changed it before the lock was ours.
        let fresh = fresh && (options.mode == Mode::Write || !layout.catalog().exists());
        let rests = match fresh {
            true => Rests::default(),
            false => match disk
                .using(&file, || rests::look(&layout, lock.before(), log.as_ref(), options.elsewhere))
            {
                Ok(rests) => rests,
                Err(e) => {
                    // It tells the next one where those are of which the catalog does not.
                    lock.untouched();
                    return Err(e);
                }
            },
        };
        begun.patiently(|| catalog::keep_broken(&*options.disk, &layout, log.as_ref().filter(|_| !fresh)))?;
        // Those are of an earlier life.
        drop(layout.take_absent());
        let mut catalog = match fresh {
            true => {
                wipe(&*options.disk, &layout)?;
                let id = new_id()?;
                begun.patiently(|| Catalog::create(&options.disk, &layout, lock.fence(), &id))?
            }
            false => begun.patiently(|| Catalog::open(&options.disk, &layout, lock.fence()))?,
        };
        begun.patiently(|| catalog.note_in(lock.note(), rests.earlier.as_ref().map(|e| e.text.as_str())))?;
        let owner = start(layout, catalog, lock, &options, fresh, (disk, watch))?;
        if !fresh && let Err(e) = owner.take_over(rests, &options) {
            // What the threads died of says more than that they are gone.
            return Err(owner.close().err().unwrap_or(e));
        }
        Ok(owner)
    }

    /// Goes on where the last owner stopped: segments that are still there are read to their end,
    /// or on if their rank lives; finished step files without a row are listed, unfinished files go.
    fn take_over(&self, rests: Rests, options: &Options) -> Result<()> {
        let elsewhere = options.elsewhere;
        let say = |lines: Vec<String>| {
            let Some(says) = &options.says else { return };
            lines.iter().for_each(|line| says(&format!("{}: {line}", self.dir().display())));
        };
        let heirs = Heirs { hears: options.adopt.clone(), of_ranks: !options.clients_alone };
        let Inheritance { lives, bytes: total, told, faults: known } =
            self.ask(|tell| Command::TakeOver(rests, heirs, elsewhere, tell))??;
        say(told);
        if lives {
            return Ok(());
        }
        let deadline = Instant::now() + RECOVERY;
        let mut waits = Waits::default();
        loop {
            let now = self.ask(Command::Recovering)?;
            if now.idle || Instant::now() >= deadline {
                break;
            }
            if let (Some(says), Some(text)) = (&options.says, &now.waits_for) {
                waits.say(says, self.dir(), text);
            }
            if let Some(progress) = &options.progress {
                progress(now.written.min(total), total);
            }
            // The intake answers after each round of work; a short rest keeps this from being a spin.
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(says) = &options.says {
            self.not_recovered()?.iter().skip(known).for_each(|e| says(e.text()));
        }
        say(self.ask(|tell| Command::ClearUp(elsewhere, tell))??);
        Ok(())
    }

    /// Why steps that a dead program left could not be kept.
    pub fn not_recovered(&self) -> Result<Vec<Error>> {
        self.ask(Command::NotRecovered)
    }
}

impl Intake {
    /// Takes what earlier owners left. What was there by all that was promised, and is not, is a fault of
    /// this opening, too.
    pub(super) fn take_over(
        &mut self,
        rests: Rests,
        heirs: &Heirs,
        elsewhere: Elsewhere,
    ) -> Result<Inheritance> {
        self.older = rests.older;
        self.sweep_unfinished();
        self.sweep_dropped()?;
        let lost = self.inherit(rests.all, rests.earlier.as_ref().is_some_and(|e| e.is_older), heirs)?;
        let without = self.older.last_gone.map(|step| {
            format!(
                "snapshot {step} was on disk and is not there, as in a back-up that was put in the place of the run: the snapshots since that back-up are missing"
            )
        });
        if let Some(text) = &without {
            self.catalog.transaction(|tx| catalog::message(tx, 0, -1, ERROR, text))?;
        }
        let earlier = rests.earlier.as_ref().filter(|e| e.is_fault).map(|e| &e.text);
        let faults = lost.iter().filter(|t| t.is_fault).map(|t| &t.text).chain(earlier).chain(&without);
        self.missing.extend(faults.map(|text| Error::new(Code::NotFound, text.clone())));
        let told =
            rests.earlier.into_iter().map(|e| e.text).chain(lost.into_iter().map(|t| t.text)).chain(without);
        let mut told: Vec<String> = told.collect();
        let lives = self.machine.sessions().any(|s| s.adopted.is_some() && !s.is_client());
        if lives {
            // Before anything is read: later there are files that the drain is writing.
            told.extend(self.sweep(elsewhere)?);
        }
        let bytes = self.attached.values().map(Attached::held_bytes).sum();
        Ok(Inheritance { lives, bytes, told, faults: self.missing.len() })
    }

    /// What a predecessor left is settled, as far as that could be waited for.
    pub(super) fn clear_up(&mut self, elsewhere: Elsewhere) -> Result<Vec<String>> {
        match self.machine.is_recovered() {
            true => {
                let mut told = self.sweep(elsewhere)?;
                told.extend(self.sweep_partial()?);
                Ok(told)
            }
            // A file without a row is one that is being written.
            false => Ok(Vec::new()),
        }
    }

    /// Why not all that dead programs left is kept.
    pub(super) fn not_recovered(&self) -> Vec<Error> {
        self.missing.iter().chain(self.machine.not_recovered()).cloned().collect()
    }

    /// Unfinished files of an owner that is dead, before anything is written again.
    fn sweep_unfinished(&self) {
        for dir in [self.layout.steps(), self.layout.packs(), self.layout.data()] {
            for name in names(&dir).iter().filter(|name| name.ends_with(TMP)) {
                let _ = self.disk.remove(&dir.join(name));
            }
        }
    }

    /// Files without a row: finished steps are listed, data sets that nobody needs go, what is neither is
    /// put aside. Gives what is to be told of it: a catalog that is older than the files beside it lacks
    /// snapshots, and data sets that were put since.
    fn sweep(&mut self, elsewhere: Elsewhere) -> Result<Vec<String>> {
        let mut told = self.sweep_segments(elsewhere)?;
        let of_packs = self.sweep_packs()?;
        // A run may have a hundred thousand files, and all have their rows: the catalog is asked once.
        let mut listed = catalog::step_files(self.catalog.conn())?;
        listed.extend(catalog::dropped(self.catalog.conn())?);
        let mut found = Vec::new();
        for (path, file) in unlisted(&self.layout.steps(), crate::layout::STEPS, &listed) {
            match open_manifest(&path).ok().filter(|m| m.run_id == self.run_id && m.set.is_none()) {
                Some(m) if crate::layout::step_file(m.step) == file => found.push((path, file, m)),
                _ => drop(self.disk.rename(&path, &with_end(&path, ".bad"))),
            }
        }
        told.extend(self.mark_missing(&listed)?);
        let mut lacks: Vec<String> = Intake::of_packs(&of_packs).into_iter().collect();
        if !found.is_empty() {
            let listed = self.list(&found)?;
            lacks.extend(
                (!listed.is_empty() && self.older.lacks_steps)
                    .then(|| format!("{}, which are listed", snapshots(&listed))),
            );
        }
        let used = catalog::data_files(self.catalog.conn())?;
        let mut sets = unlisted(&self.layout.data(), crate::layout::DATA, &used);
        // Of two files of one data set the one that was put last counts.
        sets.sort_by_key(|(_, file)| Reverse(put_of(file)));
        for (path, file) in sets {
            // One that is whole was replaced or deleted; what else it is may be worth a look.
            match open_manifest(&path).ok().filter(|m| m.run_id == self.run_id && m.set.is_some()) {
                Some(m) if self.older.lacks_put(&file) => lacks.push(self.take_set(&path, &file, &m)?),
                Some(_) => drop(self.disk.remove(&path)),
                None => drop(self.disk.rename(&path, &with_end(&path, ".bad"))),
            }
        }
        if !lacks.is_empty() {
            let lacks = lacks.join(", ");
            let text = match self.older.lacks_steps {
                true => format!(
                    "the catalog is older than the files beside it, as one that was copied back, and did not know {lacks}; rows of tables and points of histories that were made since then are not there"
                ),
                false => format!("files were there of which the catalog did not know: {lacks}"),
            };
            self.catalog.transaction(|tx| catalog::message(tx, 0, -1, ERROR, &text))?;
            told.push(text);
        }
        Ok(told)
    }

    /// What is kept of steps that lack ranks: files and rows are brought together. All that the dead left is read by
    /// now, so a file that no row names is one whose row was in a later catalog.
    fn sweep_partial(&mut self) -> Result<Vec<String>> {
        let (mut told, mut gone) = (Vec::new(), Vec::new());
        // A version that knows nothing of them may have written their steps, or gone back to before them.
        self.catalog.transaction(|tx| {
            for row in catalog::partial_steps(tx)? {
                if catalog::step_row(tx, row.step)?.is_some() || catalog::is_aside(tx, &row.manifest)? {
                    catalog::forsake_partial(tx, row.step)?;
                }
            }
            Ok(())
        })?;
        self.sweep_dropped()?;
        for (step, file) in catalog::partial_files(self.catalog.conn())? {
            if !self.layout.file(&file)?.exists() {
                gone.push(step);
            }
        }
        if !gone.is_empty() {
            let text =
                format!("what was kept of {}, which lack ranks, is not there any more", snapshots(&gone));
            self.catalog.transaction(|tx| {
                gone.iter().try_for_each(|step| catalog::forsake_partial(tx, *step).map(drop))?;
                catalog::message(tx, 0, -1, ERROR, &text)
            })?;
            self.missing.push(Error::new(Code::NotFound, text.clone()));
            told.push(text);
        }
        let run_id = self.run_id.clone();
        for name in names(&self.layout.steps()).into_iter().filter(|name| name.ends_with(PARTIAL)) {
            let (path, file) = (self.layout.steps().join(&name), format!("{}/{name}", crate::layout::STEPS));
            let read = open_manifest(&path).ok().filter(|m| m.run_id == run_id && m.partial.is_some());
            match read.filter(|m| crate::layout::partial_file(m.step) == file) {
                None => drop(self.disk.rename(&path, &with_end(&path, ".bad"))),
                Some(m) => {
                    if !self.catalog.transaction(|tx| catalog::adopt_partial(tx, &file, &m))? {
                        let _ = self.disk.remove(&path);
                    }
                }
            }
        }
        self.sweep_dropped()?;
        let listed = listed_steps(&self.catalog)?;
        self.feed(listed);
        Ok(told)
    }

    /// Marks snapshots of which the files are gone, as in a copy that was made while the run was written: a restart
    /// goes to one that is there. Gives what is to be told of it, which is a fault of this opening.
    fn mark_missing(&mut self, listed: &HashSet<String>) -> Result<Option<String>> {
        let there: HashSet<String> = names(&self.layout.steps()).into_iter().collect();
        let is_named = |file: &str| file.rsplit('/').next().is_some_and(|name| there.contains(name));
        let mut gone = Vec::new();
        for file in listed.iter().filter(|file| !is_named(file)) {
            let conn = self.catalog.conn();
            let looked = std::fs::symlink_metadata(self.layout.file(file)?);
            if !looked.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
                continue;
            }
            for step in catalog::steps_of_file(conn, file)? {
                if catalog::damage_of(conn, step)?.is_none() {
                    gone.push(step);
                }
            }
        }
        if gone.is_empty() {
            return Ok(None);
        }
        gone.sort_unstable();
        let text = format!(
            "the files of {} are not there, as in a copy that was made while a program wrote the run; they are marked as damaged and not listed: put the files back from a copy and say `forebay repair`, or go on without them",
            snapshots(&gone)
        );
        self.catalog.transaction(|tx| {
            gone.iter().try_for_each(|step| catalog::mark_damaged(tx, *step, "the file is not there"))?;
            catalog::message(tx, 0, -1, ERROR, &text)
        })?;
        let listed = listed_steps(&self.catalog)?;
        self.feed(listed);
        self.missing.push(Error::new(Code::NotFound, text.clone()));
        Ok(Some(text))
    }

    /// A data set that was put into a later catalog: it is listed where this one has nothing under its name.
    fn take_set(&mut self, path: &Path, file: &str, m: &Manifest) -> Result<String> {
        let layout = &self.layout;
        match self.catalog.transaction(|tx| catalog::adopt_set(tx, layout, file, m))? {
            Some(name) => {
                Ok(format!("the data set {name:?} as it is in {}, which is listed", path.display()))
            }
            None => {
                let _ = aside::rename(&*self.disk, path);
                Ok(format!("the data set in {}, which is put aside", path.display()))
            }
        }
    }

    /// Lists finished steps, but those that were put aside: their files go out of the way. Gives the numbers.
    fn list(&mut self, found: &[(PathBuf, String, Manifest)]) -> Result<Vec<i64>> {
        let (aside, needless, new) = self.catalog.transaction(|tx| {
            let (mut aside, mut needless, mut new) = (Vec::new(), Vec::new(), Vec::new());
            for (path, file, m) in found {
                match catalog::is_aside(tx, m)? {
                    true => aside.push(path),
                    false => {
                        match catalog::serial_in_pack(tx, m.step)? {
                            Some(packed) if packed >= m.serial => {
                                needless.push(path);
                                continue;
                            }
                            Some(_) => catalog::forget_row(tx, m.step)?,
                            None => {}
                        }
                        catalog::add_step(tx, file, m)?;
                        new.push(m.step);
                    }
                }
            }
            Ok((aside, needless, new))
        })?;
        aside.into_iter().for_each(|path| drop(aside::rename(&*self.disk, path)));
        needless.into_iter().for_each(|path| drop(self.disk.remove(path)));
        let listed = listed_steps(&self.catalog)?;
        self.feed(listed);
        Ok(new)
    }
}

/// Snapshots by their numbers, as a message names them.
pub(super) fn snapshots(steps: &[i64]) -> String {
    let named: Vec<String> = steps.iter().take(NAMED).map(i64::to_string).collect();
    let more = match steps.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("the snapshots {}{more}", named.join(", "))
}

/// The finished files of a directory that are not among these, in order: each with its name in the run.
fn unlisted(dir: &Path, name: &str, listed: &HashSet<String>) -> Vec<(PathBuf, String)> {
    let finished = names(dir).into_iter().filter(|name| name.ends_with(".h5"));
    let named = finished.map(|file| (dir.join(&file), format!("{name}/{file}")));
    let mut found: Vec<(PathBuf, String)> = named.filter(|(_, file)| !listed.contains(file)).collect();
    found.sort();
    found
}

/// What is in a directory, in no order.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).map(|d| d.flatten().map(|e| e.path()).collect()).unwrap_or_default();
    // By bytes: paths compare part by part, which takes long in a large directory.
    all.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    all
}

pub(crate) fn has_end(path: &Path, end: &str) -> bool {
    path.as_os_str().to_string_lossy().ends_with(end)
}

/// Whether the mode fits what is there; says whether a new run is to be made.
fn admits(layout: &Layout, mode: Mode) -> Result<bool> {
    let dir = layout.root().display();
    Ok(match (layout.inspect()?, mode) {
        (DirectoryKind::Nothing | DirectoryKind::Empty, Mode::ReadWrite) => {
            return Err(Error::new(Code::NotFound, format!("there is no run {dir}; mode \"a\" creates one")));
        }
        (DirectoryKind::Nothing | DirectoryKind::Empty, _) => true,
        (DirectoryKind::Begun, _) => return Err(Error::new(Code::Conflict, begun(layout))),
        (DirectoryKind::Run | DirectoryKind::Remains, Mode::Create) => {
            return Err(Error::new(
                Code::Conflict,
                format!("the run {dir} exists; use mode \"a\" to go on with it or \"w\" to begin anew"),
            ));
        }
        (DirectoryKind::Run, Mode::Write) => {
            catalog::check_format(&layout.catalog())?;
            true
        }
        (DirectoryKind::Remains, Mode::Write) => true,
        (DirectoryKind::Run, _) => {
            catalog::check_format(&layout.catalog())?;
            one_catalog(layout)?;
            false
        }
        (DirectoryKind::Remains, _) => {
            return Err(Error::new(
                Code::Corrupt,
                format!("{dir} has files of a run and no catalog; run `forebay repair {dir}`"),
            ));
        }
    })
}

/// Refuses a run of which somebody has to say which catalog is the right one.
pub(crate) fn one_catalog(layout: &Layout) -> Result<()> {
    let Some(saved) = layout.saved_catalogs().pop() else { return Ok(()) };
    let (saved, path) = (saved.display(), layout.catalog().display().to_string());
    Err(Error::new(
        Code::Conflict,
        format!(
            "the run {} has two catalogs: {path} took the place of another one while a program wrote the run, and {saved} has what that program wrote; keep the right one: `mv {saved} {path}`, or `rm {saved}`, and open the run again",
            layout.root().display()
        ),
    ))
}

/// Removes what an earlier run left in the directory, its segments too.
fn wipe(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let dirs = [layout.steps(), layout.packs(), layout.data()];
    let old: Vec<PathBuf> = dirs.iter().flat_map(|dir| files(dir)).collect();
    if !layout.catalog().exists() && old.is_empty() {
        return Ok(());
    }
    if layout.catalog().exists() {
        let old = catalog::open_read_only(&layout.catalog())
            .and_then(|conn| Ok((catalog::fact(&conn, "run_id")?, overflow::own_sessions(layout, &conn)?)));
        if let Ok((run_id, sessions)) = old {
            // Those of a copy of this run that is open are not ours.
            for path in overflow::remains(layout, &run_id, &sessions) {
                let _ = disk.remove(&path);
            }
        }
    }
    let catalogs = ["", "-wal", "-shm"].map(|end| with_end(&layout.catalog(), end));
    for path in layout.saved_catalogs().into_iter().chain(catalogs) {
        disk.remove(&path).map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))?;
    }
    for path in old {
        disk.remove(&path).map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))?;
    }
    // After a loss of power nothing of it may be there again, beside what is made now.
    let there = dirs.iter().filter(|dir| dir.is_dir());
    [layout.root().to_owned()].iter().chain(there).try_for_each(|dir| {
        disk.sync_dir(dir).map_err(|e| Error::io(format!("cannot make {} durable", dir.display()), e))
    })
}

/// A new run's identity: 16 hexadecimal digits.
pub(crate) fn new_id() -> Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|e| Error::internal(format!("no random numbers: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

fn start(
    layout: Layout,
    catalog: Catalog,
    lock: Lock,
    options: &Options,
    created: bool,
    (watched, watch): (Arc<Watched>, Watch),
) -> Result<Owner> {
    let doorbell = Doorbell::new()?;
    let (give, orders) = channel();
    let (tell, reports) = channel();
    let (command, commands) = channel();
    let downs = Arc::new(Downs::default());
    let run_id = catalog.run_id().to_owned();
    let ring = doorbell.again()?;
    let abandoned = Arc::new(AtomicBool::new(false));
    let load = Arc::<Load>::default();
    let drain = Drain {
        layout: layout.clone(),
        orders,
        disk: options.disk.clone(),
        load: load.clone(),
        tell: move |report| {
            let _ = tell.send(report);
            ring.ring();
        },
        abandoned: abandoned.clone(),
    };
    let lost = Arc::<OnceLock<Error>>::default();
    let bell = doorbell.again()?;
    let packing = Packing::default();
    let to_intake = ToIntake { commands: command.clone(), doorbell: doorbell.again()? };
    let is_wiped = Arc::<AtomicBool>::default();
    let ends = Ends {
        orders: give,
        reports,
        commands,
        doorbell: bell,
        load,
        abandoned,
        is_wiped: is_wiped.clone(),
        lost: lost.clone(),
    };
    let intake =
        Intake::new(layout.clone(), options, catalog, downs.clone(), ends, (packing.clone(), to_intake))?;
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let unable = |e| Error::io("a thread of the store cannot be started", e);
    let threads = Threads {
        drain: thread("fb-drain")
            .spawn(move || {
                threads::work_behind();
                drain.run();
            })
            .map_err(unable)?,
        intake: thread("fb-intake")
            .spawn(move || {
                threads::work_behind();
                intake.run()
            })
            .map_err(unable)?,
        lock,
    };
    Ok(Owner {
        layout,
        run_id,
        created,
        scratch: options.scratch.into(),
        commands: Mutex::new(command),
        doorbell,
        downs,
        lost,
        is_wiped,
        disk: watched,
        packing,
        watch,
        patience: options.silence.min(NOTICED),
        threads: Mutex::new(Some(threads)),
    })
}
