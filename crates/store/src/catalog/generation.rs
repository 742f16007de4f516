//! How new a catalog is. Somebody may put an older `catalog.sqlite` in the place of a later one, beside the log of
//! the later one or without a log: SQLite takes whatever pages lie there. So the catalog has a *generation*, the
//! number in the header of its file (`user_version`), which grows when the run is opened, when it is closed, and
//! before each move of the log into the file. `LOCK` notes what it has reached:
//!
//! ```text
//!   generation with the log   <  the one that LOCK knows of the catalog    an earlier catalog
//!   generation of the file    <  the one that LOCK knows of the file,
//!   and the log is the one that LOCK knows                                 an older file beside a later log
//! ```
//! The log begins anew only after a move of all of it, and each of those is noted before the next commit: a file
//! that has the noted generation, and the log beside it, are one catalog.

use super::log::{Break, broken};
use super::{Catalog, faults, sql_error};
use crate::disk::{Disk, Foreign, foreign};
use crate::layout::{Layout, with_end};
use crate::links;
use crate::lock::{Holder, Note, read_holder};
use forebay_types::watch::level::ERROR;
use forebay_types::{Code, Error, Result};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Pages in the log from which on it is moved.
pub(super) const MOVED_FROM: u32 = 1024;
/// When readers keep a part of the log, it is tried again after so many more.
const AGAIN: u32 = 1024;
/// Where the header of a log has what tells it from others.
const OF_LOG: u64 = 16;
/// A log that begins anew counts on by one; others may move it, too, with a tool of their own.
const SAME_LOG: u32 = 64;

/// What `LOCK` knows of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The generation that it has with its log.
    pub generation: u32,
    /// The generation that its file has without the log.
    pub in_file: u32,
    /// The log, when there was one.
    pub log: Option<u32>,
    /// How many records of all sessions it had then.
    pub records: u64,
    /// The sessions that were open then, and how many records of each it had.
    #[serde(default)]
    pub open: BTreeMap<u64, u64>,
}

/// What an older catalog lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    known: Noted,
    /// How many records of all sessions it has.
    records: u64,
}

impl Behind {
    /// How many records it is known to lack, but for those of sessions whose segments are there and say so
    /// themselves: those are given, with what it has of each.
    pub fn lost(&self, here: &[(u64, u64)]) -> u64 {
        let of_session =
            |(session, has): &(u64, u64)| self.known.open.get(session).map_or(0, |n| n.saturating_sub(*has));
        let of_those: u64 = here.iter().map(of_session).sum();
        self.known.records.saturating_sub(self.records + of_those)
    }

    /// Whether a session went on of which nobody knows how far, but for those that are told by themselves.
    pub fn went_on(&self, told: &[u64]) -> bool {
        self.known.open.keys().any(|session| !told.contains(session))
    }
}

fn log_of(path: &Path) -> Option<u32> {
    let mut bytes = [0; 4];
    File::open(with_end(path, "-wal")).ok()?.read_exact_at(&mut bytes, OF_LOG).ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// That of the file alone. By way of SQLite: who closes a file himself takes all locks away that this process has
/// on it.
fn in_file(path: &Path) -> Result<u32> {
    super::file_alone(path).and_then(|conn| generation(&conn))
}

/// The generation of a catalog. It counts upwards from 0.
pub fn generation(conn: &Connection) -> Result<u32> {
    let number: i64 = conn
        .query_row("PRAGMA user_version", (), |r| r.get(0))
        .map_err(|e| sql_error("the catalog cannot be read", e))?;
    number.try_into().map_err(|_| {
        let text =
            format!("the header of the catalog is damaged: its generation is {number}; run `forebay repair`");
        Error::new(Code::Corrupt, text)
    })
}

/// Records that are applied of all sessions.
fn records(conn: &Connection) -> Result<u64> {
    conn.query_row("SELECT coalesce(sum(applied), 0) FROM fb_sessions", (), |r| r.get::<_, i64>(0))
        .map(|n| n as u64)
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// The sessions that are open, and how many records of each are applied.
fn open(conn: &Connection) -> Result<BTreeMap<u64, u64>> {
    let read = |r: &Row| Ok((r.get::<_, i64>(0)? as u64, r.get::<_, i64>(1)? as u64));
    conn.prepare_cached("SELECT session, applied FROM fb_sessions WHERE closed IS NULL")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Whether the catalog is older than the one that `LOCK` knows.
pub fn behind(conn: &Connection, before: Option<&Holder>) -> Result<Option<Behind>> {
    let Some(known) = before.map(|h| &h.catalog).filter(|k| k.generation != 0) else { return Ok(None) };
    match generation(conn)? < known.generation {
        true => Ok(Some(Behind { known: known.clone(), records: records(conn)? })),
        false => Ok(None),
    }
}

/// Whether the file is older than the log beside it.
pub fn is_mixed(path: &Path) -> bool {
    // `LOCK` first: it is written after the file.
    let Some(known) = path.parent().and_then(|dir| read_holder(&Layout::new(dir).lock())) else {
        return false;
    };
    let known = known.catalog;
    let same = |log: u32| known.log.is_some_and(|of| log.wrapping_sub(of) < SAME_LOG);
    known.in_file != 0
        && path.file_name() == Layout::new("").catalog().file_name()
        && log_of(path).is_some_and(same)
        && in_file(path).is_ok_and(|n| n < known.in_file)
}

/// What to tell somebody who wants to read such a pair.
pub(super) fn mixed(path: &Path) -> Error {
    let (file, dir) = (path.display(), path.parent().unwrap_or(path).display());
    Error::new(
        Code::Corrupt,
        format!(
            "the catalog {file} is older than the log that lies beside it ({file}-wal), as one that was copied back: together they are no catalog; put that back which was there, or say `forebay recover {dir}`, which goes on with the older one and keeps the log"
        ),
    )
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// It is that of a later file.
    Later,
    /// It is broken, and the file alone is newer than what can be read with it.
    Overtaken,
    /// It is broken, and what stands before that is read.
    Broken(Break),
}

/// A log that was found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLog {
    /// What is wrong.
    pub fault: LogFault,
    /// Where it is kept.
    pub kept: PathBuf,
}

/// What is wrong with the log of a catalog that nobody writes.
pub fn bad_log(path: &Path) -> Option<LogFault> {
    if is_mixed(path) {
        return Some(LogFault::Later);
    }
    let found = broken(&with_end(path, "-wal"))?;
    let looked = |conn: Result<Connection>| conn.and_then(|conn| Ok((generation(&conn)?, faults(&conn)?)));
    let is_overtaken = match looked(super::file_alone(path)) {
        Ok((alone, none)) if none.is_empty() => {
            looked(super::open_at_once(path)).map_or(true, |(both, some)| alone > both || !some.is_empty())
        }
        _ => false,
    };
    Some(if is_overtaken { LogFault::Overtaken } else { LogFault::Broken(found) })
}

/// Whether the log is not there that the last owner had when it ended, and it did not end in order.
pub fn is_log_gone(path: &Path, before: &Holder) -> bool {
    before.pid != 0 && before.catalog.log.is_some() && log_of(path).is_none()
}

/// Looks at the log of a run that is about to be opened. One that does not fit the file is put aside; of one
/// that is broken [`keep_broken`] makes a copy.
pub fn part(disk: &dyn Disk, layout: &Layout) -> Result<Option<BadLog>> {
    let path = layout.catalog();
    let Some(fault) = bad_log(&path) else { return Ok(None) };
    let log = with_end(&path, "-wal");
    let name = |n: u32| with_end(&log, &format!(".aside{n}"));
    let kept = (1..).map(name).find(|p| !p.exists()).ok_or_else(|| Error::internal("no name for the log"))?;
    if !matches!(fault, LogFault::Broken(_)) {
        disk.rename(&log, &kept).map_err(|e| not_kept(&log, e))?;
        disk.remove(&with_end(&path, "-shm")).map_err(|e| not_kept(&log, e))?;
        disk.sync_dir(layout.root()).map_err(|e| not_kept(&log, e))?;
    }
    Ok(Some(BadLog { fault, kept }))
}

/// Keeps a copy of a broken log, and moves what can be read of it into the file: what is written from now on begins
/// a new one.
pub fn keep_broken(disk: &dyn Disk, layout: &Layout, found: Option<&BadLog>) -> Result<()> {
    let Some(BadLog { fault: LogFault::Broken(_), kept }) = found else { return Ok(()) };
    let path = layout.catalog();
    let log = with_end(&path, "-wal");
    links::copy(disk, &log, kept).map_err(|e| not_kept(&log, e))?;
    disk.sync_dir(layout.root()).map_err(|e| not_kept(&log, e))?;
    foreign(disk, Foreign::Move, &path, || {
        let conn = super::writable(&path)?;
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
            .map_err(|e| sql_error("the catalog's log cannot be moved", e))
    })
}

fn not_kept(log: &Path, e: std::io::Error) -> Error {
    Error::io(format!("cannot put {} aside", log.display()), e)
}

/// The number of pages in the log, as SQLite tells it after each commit; it moves nothing by itself then.
pub(super) fn count_pages(conn: &mut Connection) -> Result<Arc<AtomicU32>> {
    let pages = Arc::new(AtomicU32::new(0));
    let seen = pages.clone();
    let count = move |_: &mut Wal, n: i32| {
        seen.store(n.max(0) as u32, Ordering::Relaxed);
        Ok(())
    };
    conn.wal_hook(Some(count)).map_err(|e| sql_error("the catalog's log cannot be watched", e))?;
    Ok(pages)
}

/// What the owner of a run notes of its catalog.
pub(super) struct Noting {
    note: Note,
    known: Noted,
    pages: Arc<AtomicU32>,
    move_from: u32,
}

impl Catalog {
    /// From now on `LOCK` knows how new this catalog is. `said` is told in the run: the catalog is an older one.
    pub fn note_in(&mut self, note: Note, said: Option<&str>) -> Result<()> {
        let before = note.known();
        let next = before.generation.max(before.in_file).max(generation(&self.conn)?) + 1;
        self.transaction(|tx| {
            if let Some(text) = said {
                super::message(tx, 0, -1, ERROR, text)?;
            }
            set_generation(tx, next)
        })?;
        let known = Noted {
            generation: next,
            // A predecessor that was killed while it moved the log leaves a file that is nothing without it.
            in_file: in_file(&self.path).unwrap_or(before.in_file),
            log: log_of(&self.path),
            records: records(&self.conn)?,
            open: open(&self.conn)?,
        };
        note.write(&known);
        let pages = count_pages(&mut self.conn)?;
        self.noting = Some(Noting { note, known, pages, move_from: MOVED_FROM });
        Ok(())
    }

    /// Moves the log when it is long.
    pub(super) fn move_long_log(&mut self) {
        if self.noting.as_ref().is_some_and(|n| n.pages.load(Ordering::Relaxed) >= n.move_from) {
            // What is not moved now is moved later.
            let _ = self.move_log();
        }
    }

    /// A move of the log by `work`, which says whether all of it was moved.
    pub(super) fn noted(&mut self, closes: bool, work: impl FnOnce(&Catalog) -> Result<bool>) -> Result<()> {
        if let Some(n) = self.noting.as_ref() {
            let next = n.known.generation + 1;
            match closes {
                true => self.silent_transaction(|tx| set_generation(tx, next))?,
                false => self.attempt(true, |tx| set_generation(tx, next), |()| true)?.0,
            }
        }
        let all = work(self)?;
        let now = all.then(|| Ok::<_, Error>((records(&self.conn)?, open(&self.conn)?))).transpose()?;
        let Some(n) = self.noting.as_mut() else { return Ok(()) };
        n.known.generation += 1;
        n.move_from = if all { MOVED_FROM } else { n.pages.load(Ordering::Relaxed) + AGAIN };
        if let Some((records, open)) = now {
            (n.known.in_file, n.known.log) = (n.known.generation, log_of(&self.path));
            (n.known.records, n.known.open) = (records, open);
            // What was moved is durable, log and file.
            n.note.write(&n.known);
        }
        Ok(())
    }
}

/// Gives a catalog its generation.
pub fn set_generation(conn: &Connection, to: u32) -> Result<()> {
    conn.pragma_update(None, "user_version", to).map_err(|e| sql_error("the catalog cannot be written", e))
}
