//! Care for a run: finish what a dead owner left, check every byte, make the catalog anew from
//! the files, drop what nobody needs. Each takes the lock first when it writes, so it is safe at
//! any time: a live owner makes it refuse.

use crate::catalog::{self, Catalog, Value};
use crate::disk::{Disk, System};
use crate::layout::{DATA, Layout, STEPS, TMP, with_end};
use crate::lock::Lock;
use crate::owner::{Options, Owner, files, has_end, left_by_the_dead};
use crate::reader::Reader;
use crate::stepfile::{Entry, Manifest, Opened, open_manifest, read_piece};
use forebay_types::control::Mode;
use forebay_types::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Finishes what an owner that died left behind; says which step is the last one now. Refused
/// while another process holds the run.
pub fn recover(dir: &Path) -> Result<Option<i64>> {
    let owner = Owner::open(dir, Options { mode: Mode::ReadWrite, ..Options::default() })?;
    owner.close()?;
    Ok(Reader::open(dir)?.last_step()?.map(|s| s.step))
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
    let reader = Reader::open(dir)?;
    let layout = Layout::new(dir);
    let mut report = Report::default();
    let check = reader.sql("select integrity_check from pragma_integrity_check", &[]);
    match check {
        Ok(rows) if rows.rows.len() == 1 => {}
        Ok(rows) => report.faults.push(format!("catalog.sqlite: {} faults", rows.rows.len())),
        Err(e) => report.faults.push(format!("catalog.sqlite: {e}")),
    }
    for step in reader.steps()? {
        report.steps += 1;
        let entries: Result<Vec<Entry>> =
            reader.step_names(step.step)?.iter().map(|n| reader.step_info(step.step, n)).collect();
        verify_file(&layout, &step.file, &entries?, &mut report);
    }
    for row in reader.list("*", None)? {
        report.data_sets += 1;
        report.bytes += row.nbytes;
        let place = row.file.as_ref().map_or("catalog.sqlite", |f| f.0.as_str()).to_owned();
        match reader.get(&row.name, row.set, &Default::default()) {
            Ok(a) if crc32c::crc32c(&a.bytes) == row.crc => {}
            Ok(_) => report.faults.push(format!("{place}: {:?} has another checksum", row.name)),
            Err(e) => report.faults.push(format!("{place}: {:?}: {e}", row.name)),
        }
    }
    Ok(report)
}

fn verify_file(layout: &Layout, file: &str, entries: &[Entry], report: &mut Report) {
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
            let mut catalog = Catalog::create(&disk, &layout, lock.fence(), &id)?;
            let left = left_by_the_dead(&layout, &id);
            catalog.transaction(|tx| left.iter().try_for_each(|row| catalog::inherit_session(tx, row)))?;
            catalog
        }
    };
    for path in files(&layout.steps()) {
        adopt(&mut catalog, STEPS, &path, &mut done, &add_step)?;
    }
    for path in files(&layout.data()) {
        adopt(&mut catalog, DATA, &path, &mut done, &add_data)?;
    }
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
    let before = size_of(dir);
    let disk: Arc<dyn Disk> = Arc::new(System);
    let layout = Layout::new(dir);
    Owner::open(dir, Options { mode: Mode::ReadWrite, ..Options::default() })?.close()?;
    let lock = Lock::take(&disk, &layout.lock(), catalog::known_fence(&layout.catalog()))?;
    let catalog = Catalog::open(&disk, &layout, lock.fence())?;
    catalog.vacuum()?;
    catalog.settle()?;
    drop(catalog);
    Ok(before.saturating_sub(size_of(dir)))
}

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
