//! Care for a run: finish what a dead owner left, check every byte, make the catalog anew from
//! the files, drop what nobody needs. Each takes the lock first when it writes, so it is safe at
//! any time: a live owner makes it refuse.

use crate::catalog::{self, Catalog, Value};
use crate::disk::{Disk, System};
use crate::layout::{DATA, Layout, STEPS, TMP, with_end};
use crate::lock::Lock;
use crate::owner::{Options, Owner, Says, files, has_end, left_by_the_dead, tidy};
use crate::reader::Reader;
use crate::stepfile::{Entry, Manifest, Opened, open_manifest, read_piece};
use forebay_types::control::Mode;
use forebay_types::{Code, Error, Result};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Hears how far a long work has come: so much of so much, in the unit that the work names.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

fn unheard() -> Progress {
    Arc::new(|_, _| {})
}

/// Finishes what an owner that died left behind; says which step is the last one now. Refused
/// while another process holds the run.
pub fn recover(dir: &Path) -> Result<Option<i64>> {
    recover_with(dir, &unheard(), None)
}

/// The same; what lay in shared memory is counted in bytes, and `says` hears what this waits for. A step
/// that was there and could not be kept is an error; everything else is recovered then all the same.
pub fn recover_with(dir: &Path, progress: &Progress, says: Option<Says>) -> Result<Option<i64>> {
    let progress = Some(progress.clone());
    let owner = Owner::open(dir, Options { mode: Mode::ReadWrite, progress, says, ..Options::default() })?;
    let not_recovered = owner.not_recovered()?;
    owner.close()?;
    match not_recovered.first() {
        None => Ok(Reader::open(dir)?.last_step()?.map(|s| s.step)),
        Some(e) => {
            let text = format!(
                "{}: {} of the steps that were left could not be kept, everything else is recovered: {}",
                dir.display(),
                not_recovered.len(),
                e.text()
            );
            Err(Error::new(e.code(), text))
        }
    }
}

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Complete steps that were read.
    pub steps: u64,
    /// Data sets that were read, in steps and outside.
    pub data_sets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, one line each; names the file.
    pub faults: Vec<String>,
}

/// Reads everything and compares checksums. Changes nothing; may run beside an owner.
pub fn verify(dir: &Path) -> Result<Report> {
    verify_with(dir, &unheard())
}

/// The same, counted in bytes.
pub fn verify_with(dir: &Path, progress: &Progress) -> Result<Report> {
    let reader = Reader::open(dir)?;
    let (steps, rows) = (reader.steps()?, reader.list("*", None)?);
    let total = steps.iter().map(|s| s.nbytes).chain(rows.iter().map(|r| r.nbytes)).sum();
    let read = Cell::new(0);
    let passed = |bytes: u64| {
        read.set(read.get() + bytes);
        progress(read.get(), total);
    };
    passed(0);
    let layout = Layout::new(dir);
    let mut report = Report::default();
    let check = reader.sql("select integrity_check from pragma_integrity_check", &[]);
    match check {
        Ok(rows) if rows.rows.len() == 1 => {}
        Ok(rows) => report.faults.push(format!("catalog.sqlite: {} faults", rows.rows.len())),
        Err(e) => report.faults.push(format!("catalog.sqlite: {e}")),
    }
    for step in steps {
        report.steps += 1;
        let entries: Result<Vec<Entry>> =
            reader.step_names(step.step)?.iter().map(|n| reader.step_info(step.step, n)).collect();
        verify_file(&layout, &step.file, &entries?, &mut report, &passed);
    }
    for row in rows {
        report.data_sets += 1;
        report.bytes += row.nbytes;
        let place = row.file.as_ref().map_or("catalog.sqlite", |f| f.0.as_str()).to_owned();
        match reader.get(&row.name, row.set, &Default::default()) {
            Ok(a) if crc32c::crc32c(&a.bytes) == row.crc => {}
            Ok(_) => report.faults.push(format!("{place}: {:?} has another checksum", row.name)),
            Err(e) => report.faults.push(format!("{place}: {:?}: {e}", row.name)),
        }
        passed(row.nbytes);
    }
    Ok(report)
}

fn verify_file(layout: &Layout, file: &str, entries: &[Entry], report: &mut Report, passed: &dyn Fn(u64)) {
    let mut fault = |text: String| report.faults.push(format!("{file}: {text}"));
    let path = match layout.file(file) {
        Ok(path) => path,
        Err(e) => return fault(e.to_string()),
    };
    let (opened, plain) = match (Opened::open(&path), std::fs::File::open(&path)) {
        (Ok(o), Ok(f)) => (o, f),
        (Err(e), _) => return fault(e.to_string()),
        (_, Err(e)) => return fault(e.to_string()),
    };
    for e in entries {
        let placed = opened.locate(&e.name).map(|p| p.0);
        if e.nbytes() > 0 && placed != Some(e.offset) {
            fault(format!("{:?} is not where the catalog says", e.name));
        }
        for p in &e.pieces {
            match read_piece(&plain, e, p) {
                Ok(sum) if sum == p.crc32c => {}
                Ok(_) => fault(format!("{:?}, piece of rank {}, has another checksum", e.name, p.rank)),
                Err(error) => fault(format!("{:?}: {error}", e.name)),
            }
        }
        passed(e.nbytes());
    }
    report.data_sets += entries.len() as u64;
    report.bytes += entries.iter().map(Entry::nbytes).sum::<u64>();
}

/// What `repair` did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// Steps in the catalog now.
    pub steps: u64,
    /// Large data sets in the catalog now.
    pub data_sets: u64,
    /// Where the damaged catalog was put, if there was one.
    pub old_catalog: Option<PathBuf>,
    /// Files that could not be used and were left alone.
    pub unusable: Vec<String>,
    /// Ranks of dead programs that left something in shared memory; `recover` writes it.
    pub left: u64,
}

/// Makes the catalog anew from the manifests in the files when it is missing or cannot be read;
/// a sound one is left alone but for steps it lacks. Tables and small data sets live in the
/// catalog only: the damaged file is kept beside it.
pub fn repair(dir: &Path) -> Result<Repaired> {
    repair_with(dir, &unheard())
}

/// The same, counted in files.
pub fn repair_with(dir: &Path, progress: &Progress) -> Result<Repaired> {
    let layout = Layout::new(dir);
    if !layout.root().is_dir() {
        return Err(Error::new(Code::NotFound, format!("there is no run {}", dir.display())));
    }
    let disk: Arc<dyn Disk> = Arc::new(System);
    layout.create(&*disk)?;
    let sound = Reader::open(dir).and_then(|r| {
        let rows = r.sql("select integrity_check from pragma_integrity_check", &[])?;
        Ok(rows.rows == [[forebay_types::record::Cell::Text("ok".into())]])
    });
    if let Err(e) = &sound
        && e.code() == Code::VersionMismatch
    {
        return Err(e.clone());
    }
    let mut done = Repaired::default();
    let lock = Lock::take(&disk, &layout.lock(), catalog::known_fence(&layout.catalog()))?;
    let mut catalog = match sound {
        Ok(true) => Catalog::open(&disk, &layout, lock.fence())?,
        _ => {
            let id = known_id(&layout)?;
            done.old_catalog = put_aside(&layout)?;
            Catalog::create(&disk, &layout, lock.fence(), &id)?
        }
    };
    let left = left_by_the_dead(&layout, catalog.run_id());
    catalog.transaction(|tx| left.iter().try_for_each(|row| catalog::inherit_session(tx, row)))?;
    let (steps, data) = (files(&layout.steps()), files(&layout.data()));
    let total = (steps.len() + data.len()) as u64;
    let all = steps.iter().map(|path| (STEPS, path, &add_step as &Add));
    let all = all.chain(data.iter().map(|path| (DATA, path, &add_data as &Add)));
    for (done_before, (folder, path, add)) in all.enumerate() {
        progress(done_before as u64, total);
        adopt(&mut catalog, folder, path, &mut done, add)?;
    }
    tidy(&mut catalog, &*disk, &layout)?;
    catalog.settle()?;
    let count = |sql: &str| catalog.conn().query_row(sql, (), |r| r.get::<_, i64>(0)).unwrap_or(0) as u64;
    done.steps = count("SELECT count(*) FROM fb_steps");
    done.data_sets = count("SELECT count(*) FROM fb_data WHERE file IS NOT NULL");
    done.left = count("SELECT count(*) FROM fb_sessions WHERE closed IS NULL");
    Ok(done)
}

fn put_aside(layout: &Layout) -> Result<Option<PathBuf>> {
    let old = layout.catalog();
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(with_end(&old, end));
    }
    if !old.exists() {
        return Ok(None);
    }
    let kept = (1..).map(|n| layout.root().join(format!("catalog.damaged-{n}.sqlite"))).find(|p| !p.exists());
    let kept = kept.ok_or_else(|| Error::internal("no name for the damaged catalog"))?;
    std::fs::rename(&old, &kept).map_err(|e| Error::io(format!("cannot rename {}", old.display()), e))?;
    Ok(Some(kept))
}

/// The run's identity as its files know it, or what can be read of its catalog.
fn known_id(layout: &Layout) -> Result<String> {
    let known =
        files(&layout.steps()).iter().chain(&files(&layout.data())).find_map(|p| open_manifest(p).ok());
    let of_catalog = || catalog::fact(&catalog::open_read_only(&layout.catalog()).ok()?, "run_id").ok();
    known.map(|m| m.run_id).or_else(of_catalog).map_or_else(crate::owner::new_id, Ok)
}

type Add = dyn Fn(&rusqlite::Connection, &str, &Manifest) -> Result<()>;

fn adopt(catalog: &mut Catalog, folder: &str, path: &Path, done: &mut Repaired, add: &Add) -> Result<()> {
    let file = format!("{folder}/{}", path.file_name().unwrap_or_default().to_string_lossy());
    if has_end(path, TMP) || !has_end(path, ".h5") {
        return Ok(());
    }
    match open_manifest(path) {
        Ok(m) if m.run_id == catalog.run_id() => catalog.transaction(|tx| add(tx, &file, &m)),
        Ok(m) => {
            done.unusable.push(format!("{file}: belongs to the run {}", m.run_id));
            Ok(())
        }
        Err(e) => {
            done.unusable.push(e.to_string());
            Ok(())
        }
    }
}

fn add_step(conn: &rusqlite::Connection, file: &str, m: &Manifest) -> Result<()> {
    match catalog::step_row(conn, m.step)? {
        Some(_) => Ok(()),
        None => catalog::add_step(conn, file, m),
    }
}

fn add_data(conn: &rusqlite::Connection, file: &str, m: &Manifest) -> Result<()> {
    let (Some((set, _)), Some(e)) = (m.set, m.data.first()) else { return Ok(()) };
    if catalog::data_row(conn, &e.name, set)?.is_some() {
        return Ok(());
    }
    let crc = e.pieces.first().map_or(0, |p| p.crc32c);
    let p = catalog::Put { name: &e.name, set, meta: &e.meta, unit: &e.unit, attrs: "", if_version: None };
    catalog::put(conn, &p, Value::File { file, offset: e.offset, crc }).map(|_| ())
}

/// Drops unfinished and unreferenced files and the gaps in the catalog; says how many bytes that
/// saved. Refused while another process holds the run.
pub fn compact(dir: &Path) -> Result<u64> {
    compact_with(dir, &unheard())
}

/// The same; what a dead program left, and then the catalog that is written anew, are counted in bytes.
pub fn compact_with(dir: &Path, progress: &Progress) -> Result<u64> {
    let before = size_of(dir);
    let disk: Arc<dyn Disk> = Arc::new(System);
    let layout = Layout::new(dir);
    let heard = Some(progress.clone());
    Owner::open(dir, Options { mode: Mode::ReadWrite, progress: heard, ..Options::default() })?.close()?;
    let lock = Lock::take(&disk, &layout.lock(), catalog::known_fence(&layout.catalog()))?;
    let catalog = Catalog::open(&disk, &layout, lock.fence())?;
    let size = |path: PathBuf| path.metadata().map_or(0, |m| m.len());
    let total = size(layout.catalog());
    let over = AtomicBool::new(false);
    // SQLite says nothing until it is done, but its log grows by what it has written.
    std::thread::scope(|s| {
        let looking = s.spawn(|| {
            while !over.load(Ordering::Acquire) {
                progress(size(with_end(&layout.catalog(), "-wal")).min(total), total);
                std::thread::park_timeout(LOOK);
            }
        });
        let done = catalog.vacuum().and_then(|()| catalog.settle());
        over.store(true, Ordering::Release);
        looking.thread().unpark();
        done
    })?;
    drop(catalog);
    Ok(before.saturating_sub(size_of(dir)))
}

/// Between two looks at how far SQLite is.
const LOOK: Duration = Duration::from_millis(50);

fn size_of(dir: &Path) -> u64 {
    let layout = Layout::new(dir);
    [layout.root().to_owned(), layout.steps(), layout.data()]
        .iter()
        .flat_map(|d| files(d))
        .filter_map(|p| p.metadata().ok())
        .filter(|m| m.is_file())
        .map(|m| m.len())
        .sum()
}
