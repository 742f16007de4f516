//! The catalog: `catalog.sqlite`, everything of a run that is not a large array.
//!
//! Only the holder of `LOCK` opens it for writing. Every transaction first compares the fencing
//! number with its own; effects of a group of records are committed together, with the sequence
//! number they end at. Readers of any process open it read-only (write-ahead log: they see the
//! last commit and wait for nobody). System tables begin with `fb_`; the user's tables are plain
//! tables under their own names.

mod alike;
mod anew;
mod constants;
mod custody;
mod cut;
mod damaged;
mod data;
mod described;
mod descriptors;
mod failed;
mod generation;
mod histories;
mod history_columns;
mod keep;
mod list;
mod log;
mod marks;
mod packs;
mod partial;
mod pending;
mod points;
mod presence;
mod query;
mod reading;
mod schema;
mod serials;
mod sessions;
mod steps;
mod tables;
mod together;
mod unread;
mod watch;

pub use alike::alike;
pub(crate) use anew::{
    Health, begin, faults, faults_of_tables, fill_up_facts, go_on, is_old, list_unlisted_tables, look,
    make_room_for_facts, own_tables, replace,
};
pub use constants::refer_to;
pub use custody::{Ended, admit, ended, set_site, site, sites, suppose_site};
pub use cut::{cut_behind, note_cut};
pub(crate) use damaged::{Old, faults_of_header, garbled};
pub use data::{
    Bytes, DataRow, Put, PutOutcome, StoredSet, Value, copy_data, data_names, data_row, data_rows,
    data_sets_of, find, put, remove_data, rename_data,
};
pub(crate) use data::{adopt_set, data_files, mend_data, rows_of_file, used};
pub use described::reduced_arrays;
pub use descriptors::{attributes, set_attributes, unit_and_attrs};
pub use failed::{FailedAttempt, failed_attempts, forget_attempt, note_attempt};
pub use generation::Noted;
pub(crate) use generation::{
    BadLog, LogFault, bad_log, behind, generation, is_log_gone, keep_broken, part, set_generation,
};
pub use histories::{came, doubled};
pub use history_columns::history;
pub use keep::{is_kept_by_rule, outlived, set_keep};
pub(crate) use log::Break;
pub use marks::{damage_of, damaged_behind, drop_step, dropped, forget_dropped, mark_damaged, unmark};
pub use packs::{
    PackLayouts, Single, adopt_slot, dropped_slots, forget_pack, list_pack, newest_singles, note_pack,
    pack_layout, packed_entries, packs, serial_in_pack, singles, steps_in_pack,
};
pub use partial::{
    Brings, PAST, PartialRow, add_partial, adopt_partial, away, brings, brought, forget_away,
    forsake_partial, has_all_of, life, lives, note_away, note_bringing, note_past, partial_files,
    partial_step, partial_steps,
};
pub use pending::{keep_pending, pending, settle_pending};
pub use points::{
    Completed, Fate, Giver, Point, add_point, give_late, give_point, points, points_between, ranks_that_left,
};
pub use query::{Rows, read_only, select_columns, select_rows};
pub use reading::Opened;
pub use serials::{backs, faults_of_serials, is_aside, mend_serials, set_aside};
pub use sessions::{
    SessionRow, answers, applied, close_session, end_session, inherit_session, is_client, keep_answer,
    last_session, open_session, open_sessions, raise_applied, segment_of, session, set_applied,
};
pub use steps::{
    Checkpoint, Moment, StepRow, add_checkpoint, add_step, all_steps, checkpoints, finished, forget_row,
    forget_stray_data, last_step, mark_finished, moment, nearest_steps, numbers_at, plan_of_series,
    replace_step, serial_of, single_entries, step_data, step_entry, step_files, step_names, step_numbers,
    step_of_file, step_row, steps, steps_of_file, stray_data,
};
pub use tables::{
    fits, index, insert, open_table, remove, row_number, row_number_of, table, table_of, tables, update,
};
pub(crate) use together::steps_are;
pub use together::{
    begun_on, close_as, comes, go_back, go_on_at, heads_of, is_unfinished, kept_heads, makes_again, renew,
    went_back,
};
pub use unread::put_aside;
pub use watch::{
    Act, OpenAct, acts, curves, declare, diagrams, giver, kept_curve, last_act, log_act, log_applied,
    message, messages, open_acts, parameter_values, parameters,
};

use crate::disk::{Disk, Foreign, foreign};
use crate::layout::{FORMAT, Layout, with_end};
use forebay_host::rlimits;
use forebay_types::{Code, Error, Result};
use presence::{Anchors, OpenLocks, Presence};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a page.
pub(crate) const PAGE: usize = 16384;
/// How long another writer of the catalog is waited for.
const BUSY: std::time::Duration = std::time::Duration::from_secs(5);
/// A catalog that is replaced while it is opened for reading is opened again, so often.
const TRIES: u32 = 10;

/// The catalog, open for writing by the owner of the run.
pub struct Catalog {
    conn: Connection,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    fence: u64,
    run_id: String,
    /// Whether commits are not synchronised with the disk now.
    lazy: bool,
    /// The file that is open.
    presence: Presence,
    /// It, and the run's directory, to see when they are deleted.
    held: Option<Anchors>,
    /// What keeps others from taking it for closed. Dropped behind the connection.
    kept: Option<OpenLocks>,
    /// Set when it is the run's catalog no more.
    gone: Option<Error>,
    /// The highest number that a step was given.
    serial: u64,
    /// What is noted of it outside.
    noting: Option<generation::Noting>,
}

/// Catalogs that were made before there were all tables of ours get them, and what else newer ones have.
fn ensure_tables(conn: &Connection) -> Result<()> {
    together::ensure_table(conn)?;
    custody::ensure_table(conn)?;
    pending::ensure_table(conn)?;
    failed::ensure_table(conn)?;
    partial::ensure_table(conn)?;
    serials::upgrade(conn)?;
    marks::ensure_tables(conn)?;
    points::ensure_tables(conn)?;
    histories::ensure_columns(conn)?;
    cut::ensure_tables(conn)?;
    described::ensure_table(conn)?;
    packs::ensure_tables(conn)?;
    watch::ensure_table(conn)
}

impl Drop for Catalog {
    /// The connection is closed behind this: whoever closes the last one removes the log.
    fn drop(&mut self) {
        self.kept.iter().for_each(OpenLocks::give_back);
    }
}

impl Catalog {
    /// Makes the catalog of a new run, under another name until it is whole.
    pub fn create(disk: &Arc<dyn Disk>, layout: &Layout, fence: u64, run_id: &str) -> Result<Catalog> {
        make(&**disk, layout, run_id)?;
        let path = layout.catalog();
        let failed = |e| io_error(&path, e);
        // The log of a catalog that is gone would be taken for this one's.
        for left in ["-wal", "-shm"].map(|end| with_end(&path, end)).iter().filter(|p| p.exists()) {
            disk.remove(left).map_err(failed)?;
        }
        disk.rename(&layout.unfinished_catalog(), &path).map_err(failed)?;
        disk.sync_dir(layout.root()).map_err(failed)?;
        Catalog::open(disk, layout, fence)
    }

    /// Opens the catalog of an existing run and raises its fencing number.
    pub fn open(disk: &Arc<dyn Disk>, layout: &Layout, fence: u64) -> Result<Catalog> {
        Catalog::open_at(disk, layout.catalog(), fence)
    }

    fn open_at(disk: &Arc<dyn Disk>, path: PathBuf, fence: u64) -> Result<Catalog> {
        OpenLocks::check(&path)?;
        check_format(&path)?;
        let conn = writable(&path)?;
        let run_id = fact(&conn, "run_id")?;
        let (disk, presence) = (disk.clone(), Presence::default());
        Catalog {
            conn,
            disk,
            path,
            fence,
            run_id,
            lazy: false,
            presence,
            held: None,
            kept: None,
            gone: None,
            serial: 0,
            noting: None,
        }
        .fenced()
    }

    fn fenced(mut self) -> Result<Catalog> {
        let known = fact(&self.conn, "fence")?.parse::<u64>().unwrap_or(u64::MAX);
        if known >= self.fence {
            return Err(lost(known, self.fence));
        }
        self.guarded(|| {
            let failed = |e| sql_error("cannot claim the catalog", e);
            let tx = self.conn.unchecked_transaction().map_err(failed)?;
            ensure_tables(&tx)?;
            tx.execute("UPDATE fb_run SET value = ?1 WHERE key = 'fence'", [self.fence.to_string()])
                .map_err(failed)?;
            tx.commit().map_err(failed)
        })?;
        self.presence = Presence::of(&self.path);
        self.held = Anchors::of(&self.path);
        self.kept = Some(OpenLocks::of(&self.path));
        shut_index(&self.path);
        Ok(self)
    }

    /// Asks the seam to the disk before SQLite writes, and tells it after.
    fn guarded<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        foreign(&*self.disk, Foreign::Commit, &self.path, write)
    }

    /// The run's identity.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The number for a step whose file is about to be finished: higher than all before.
    pub fn next_serial(&mut self) -> Result<u64> {
        if self.serial == 0 {
            // What is noted may be damaged, and no step may get the serial of another.
            self.serial = serials::listed(&self.conn)?;
        }
        self.serial = self.serial.max(serials::last(&self.conn)?) + 1;
        Ok(self.serial)
    }

    /// For reading within the owner.
    pub fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Does all of `work` or nothing; durable when it returns.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        let (value, committed) = self.attempt(false, work, |_| true)?;
        if committed {
            self.look_for_file()?;
            self.move_long_log();
        }
        Ok(value)
    }

    /// Does all of `work` or nothing, durable when it returns, for work that is reported to nobody. It does not save
    /// a catalog whose file was removed: who deleted the run after the last report shall not find a catalog there
    /// again.
    pub fn silent_transaction<T>(&mut self, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        Ok(self.attempt(false, work, |_| true)?.0)
    }

    /// Does all of `work` or nothing, and is durable later: the work survives the death of this process when this
    /// returns, and that of the machine from the next transaction on that is not lazy. Work for which `may_be_lazy`
    /// is false is undone and done again, durable when this returns.
    pub fn lazy_transaction<T>(
        &mut self,
        work: impl Fn(&Transaction) -> Result<T>,
        may_be_lazy: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        match self.attempt(true, &work, may_be_lazy)? {
            (value, true) => {
                self.move_long_log();
                Ok(value)
            }
            (_, false) => self.transaction(work),
        }
    }

    /// Does the work, and commits if that is wanted; says whether.
    fn attempt<T>(
        &mut self,
        lazy: bool,
        work: impl FnOnce(&Transaction) -> Result<T>,
        wanted: impl FnOnce(&T) -> bool,
    ) -> Result<(T, bool)> {
        let failed = |e| sql_error("the catalog cannot be written", e);
        if let Some(e) = &self.gone {
            return Err(e.clone());
        }
        if lazy != self.lazy {
            self.conn
                .execute_batch(if lazy { "PRAGMA synchronous = NORMAL" } else { "PRAGMA synchronous = FULL" })
                .map_err(failed)?;
            self.lazy = lazy;
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let known = fact(&tx, "fence")?;
        if known != self.fence.to_string() {
            return Err(lost(known.parse().unwrap_or(0), self.fence));
        }
        let value = work(&tx)?;
        let commit = wanted(&value);
        if commit {
            let what = if lazy { Foreign::LazyCommit } else { Foreign::Commit };
            foreign(&*self.disk, what, &self.path, || tx.commit().map_err(failed))?;
        }
        Ok((value, commit))
    }

    /// Moves the write-ahead log into the main file, so that the file stands alone.
    pub fn settle(&mut self) -> Result<()> {
        self.noted(true, |c| c.guarded(|| c.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)")))
    }

    /// Moves what readers allow of the write-ahead log into the main file, waiting for nobody.
    pub fn move_log(&mut self) -> Result<()> {
        self.noted(false, |c| {
            foreign(&*c.disk, Foreign::Move, &c.path, || c.checkpoint("PRAGMA wal_checkpoint(PASSIVE)"))
        })
    }

    /// Whether all of the log was moved.
    fn checkpoint(&self, how: &str) -> Result<bool> {
        let all =
            |r: &rusqlite::Row| Ok(r.get::<_, i64>(0)? == 0 && r.get::<_, i64>(1)? == r.get::<_, i64>(2)?);
        self.conn.query_row(how, (), all).map_err(|e| sql_error("the catalog's log cannot be moved", e))
    }

    /// Rewrites the file without its gaps.
    pub fn vacuum(&self) -> Result<()> {
        self.guarded(|| {
            self.conn.execute_batch("VACUUM").map_err(|e| sql_error("the catalog cannot be compacted", e))
        })
    }
}

fn io_error(path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{} cannot be written", path.display()), e)
}

fn lost(known: u64, mine: u64) -> Error {
    Error::new(
        Code::Conflict,
        format!(
            "the catalog bears fencing number {known}, this owner has {mine}: another process took the run; open it again"
        ),
    )
}

/// Makes the catalog of a run under the name of an unfinished one.
fn make(disk: &dyn Disk, layout: &Layout, run_id: &str) -> Result<()> {
    let tmp = layout.unfinished_catalog();
    for end in ["", "-journal", "-wal", "-shm"] {
        disk.remove(&with_end(&tmp, end)).map_err(|e| io_error(&tmp, e))?;
    }
    foreign(disk, Foreign::Commit, &tmp, || {
        fill(&tmp, run_id).map_err(|e| sql_error(&format!("cannot make {}", layout.catalog().display()), e))
    })
}

/// What a catalog holds from the beginning.
fn fill(path: &Path, run_id: &str) -> rusqlite::Result<()> {
    let conn = Connection::open(path)?;
    conn.execute_batch(&format!("PRAGMA page_size = {PAGE}; PRAGMA synchronous = FULL; BEGIN IMMEDIATE"))?;
    conn.execute_batch(schema::SCHEMA)?;
    let made = now().to_string();
    for (key, value) in [("format", FORMAT.to_string()), ("run_id", run_id.to_owned()), ("made", made)] {
        conn.execute("INSERT INTO fb_run VALUES(?1, ?2)", (key, value))?;
    }
    conn.execute(
        "INSERT INTO fb_run VALUES('attrs', '{}'), ('fence', '0'), ('finished', '0'), ('serial', '0')",
        (),
    )?;
    conn.execute_batch("COMMIT")?;
    conn.close().map_err(|(_, e)| e)
}

fn writable(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |e| sql_error(&format!("cannot open {}", path.display()), e);
    damaged::spare_log(path)?;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY).map_err(failed)?;
    conn.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;
         PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = {}",
        generation::MOVED_FROM
    ))
    .map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(conn)
}

/// Opens a catalog for reading; the format is checked.
pub fn open_read_only(path: &Path) -> Result<Connection> {
    open_to_read(path).map(|(conn, _)| conn)
}

/// Opens a catalog for reading, and says whether it is read as a file that nobody writes; the format is checked.
fn open_to_read(path: &Path) -> Result<(Connection, bool)> {
    let identity = || path.metadata().map(|m| (m.dev(), m.ino()));
    for _ in 0..TRIES {
        let before = match identity() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => break,
            other => other.ok(),
        };
        let opened = match generation::is_mixed(path) {
            true => Err(generation::mixed(path)),
            false => open_either(path),
        };
        // A run that is begun anew while we look: the log that was found beside the file may be another's.
        if identity().ok() == before {
            return opened;
        }
    }
    Err(being_made(path))
}

fn being_made(path: &Path) -> Error {
    let text = format!("there is no {}, or it is just being made; try again", path.display());
    Error::new(Code::NotFound, text)
}

fn open_at_once(path: &Path) -> Result<Connection> {
    open_either(path).map(|(conn, _)| conn)
}

fn open_either(path: &Path) -> Result<(Connection, bool)> {
    let failed = |e| sql_error(&format!("cannot open {}", path.display()), e);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    damaged::spare_log(path)?;
    let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY).map_err(failed)?;
    // A directory that cannot be written has no room for the log's index; nobody writes there.
    let mut is_fixed = false;
    if let Err(e) = conn.query_row("SELECT count(*) FROM sqlite_master", (), |_| Ok(())) {
        if !settled(path) {
            return Err(unsettled(path, e));
        }
        let uri = format!("file:{}?immutable=1", escape(path));
        conn = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(failed)?;
        is_fixed = true;
    }
    format_of(&conn, path)?;
    marks::ensure_readable(&conn).map_err(failed)?;
    // Pages of a small cache stay in the processor's: a larger one takes fresh memory for each page read.
    conn.execute_batch("PRAGMA cache_size = -4096").map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok((conn, is_fixed))
}

/// What a catalog says of its run to somebody who must not write beside it, nor wait for a disk that is frozen: the
/// run's identity, and each session's segment with whether it was closed. What stands in the log alone is not seen.
pub fn glance(path: &Path) -> Result<(String, Vec<(String, Standing)>)> {
    let failed = |e| sql_error(&format!("cannot read {}", path.display()), e);
    let conn = file_alone(path)?;
    let sessions = conn
        .prepare("SELECT segment, closed IS NOT NULL FROM fb_sessions")
        .and_then(|mut s| {
            s.query_map((), |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(failed)?;
    // A run of an early version does not say how its sessions ended.
    let read: HashSet<String> = conn
        .prepare(
            "SELECT segment FROM fb_sessions s JOIN fb_custody c ON c.session = s.session
             WHERE c.ended IN ('read', 'unused', 'abandoned')",
        )
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .unwrap_or_default();
    let standing = |(segment, closed): (String, bool)| {
        let standing = match closed {
            false => Standing::Open,
            true if read.contains(&segment) => Standing::Settled,
            true => Standing::Unseen,
        };
        (segment, standing)
    };
    Ok((fact(&conn, "run_id")?, sessions.into_iter().map(standing).collect()))
}

/// How a session stands by its catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has closed it.
    Open,
    /// It was read to its end, or given up: its memory goes at the next opening.
    Settled,
    /// It was closed by somebody who did not see its memory.
    Unseen,
}

/// The file without its log, and without a lock.
fn file_alone(path: &Path) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    damaged::spare_log(path)?;
    let uri = format!("file:{}?immutable=1", escape(path));
    Connection::open_with_flags(uri, flags)
        .map_err(|e| sql_error(&format!("cannot read {}", path.display()), e))
}

/// Keeps others from the index of the log: who may read that file may lock it, for as long as he likes, and nothing
/// is committed meanwhile. Who may write the catalog, a group perhaps, may.
fn shut_index(path: &Path) {
    let index = with_end(path, "-shm");
    if let (Ok(catalog), Ok(known)) = (path.metadata(), index.metadata()) {
        let group = if catalog.mode() & 0o020 != 0 { 0o060 } else { 0 };
        let mode = known.mode() & (0o600 | group);
        // It is another user's, or the file system knows no modes: then there is nothing to be done.
        let _ = std::fs::set_permissions(&index, std::fs::Permissions::from_mode(mode));
    }
}

/// The catalog cannot be read, and has a log.
fn unsettled(path: &Path, e: rusqlite::Error) -> Error {
    let place = path.display();
    match e.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) if lacks_descriptors().is_some() => {
            sql_error(&format!("cannot read {place}"), e)
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => Error::new(
            Code::ReadOnly,
            format!(
                "{place} is being written, or was not closed in order: its last part is in {place}-wal, which can be read only by whoever may write there; copy the run to a directory of your own and open the copy"
            ),
        ),
        _ => sql_error(&format!("cannot read {place}"), e),
    }
}

fn settled(path: &Path) -> bool {
    std::fs::metadata(with_end(path, "-wal")).map_or(true, |m| m.len() == 0)
}

fn escape(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// A catalog is made in one transaction: until its commit there is nothing in the file.
fn is_blank(conn: &Connection) -> bool {
    conn.query_row("SELECT count(*) FROM sqlite_master", (), |r| r.get::<_, i64>(0)).is_ok_and(|n| n == 0)
}

/// Refuses what is no catalog and what a newer version wrote, before anything is changed. A log that does not fit is
/// put aside later: the file alone is looked at.
pub fn check_format(path: &Path) -> Result<()> {
    match open_read_only(path) {
        Err(e) if e.code() == Code::Corrupt => match bad_log(path) {
            Some(LogFault::Later | LogFault::Overtaken) => format_of(&file_alone(path)?, path),
            Some(LogFault::Broken(_)) | None => Err(e),
        },
        other => other.map(|_| ()),
    }
}

fn format_of(conn: &Connection, path: &Path) -> Result<()> {
    let known: u32 = conn
        .query_row("SELECT value FROM fb_run WHERE key = 'format'", (), |r| r.get::<_, String>(0))
        .map_err(|e| match e.sqlite_error_code() {
            Some(ErrorCode::Unknown) if is_blank(conn) => Error::new(
                Code::NotFound,
                format!("{} is just being made, or its making was interrupted; try again", path.display()),
            ),
            Some(ErrorCode::Unknown) => Error::bad(format!(
                "{} is not the catalog of a run: {e}; choose another name",
                path.display()
            )),
            _ => sql_error(&format!("cannot read {}", path.display()), e),
        })?
        .parse()
        .unwrap_or(u32::MAX);
    match known > FORMAT {
        true => Err(Error::new(
            Code::VersionMismatch,
            format!(
                "{} has format {known}, this version knows formats up to {FORMAT}; use the newer version of Forebay that wrote it",
                path.display()
            ),
        )),
        false => Ok(()),
    }
}

/// The fencing number a catalog knows; 0 without one.
pub fn known_fence(path: &Path) -> u64 {
    let read = || -> Option<u64> { fact(&open_read_only(path).ok()?, "fence").ok()?.parse().ok() };
    read().unwrap_or(0)
}

/// A fact about the run.
pub fn fact(conn: &Connection, key: &str) -> Result<String> {
    conn.prepare_cached("SELECT value FROM fb_run WHERE key = ?1")
        .and_then(|mut s| s.query_row([key], |r| r.get(0)).optional())
        .map_err(|e| sql_error("the catalog cannot be read", e))?
        .ok_or_else(|| Error::new(Code::Corrupt, format!("the catalog lacks {key:?}; run `forebay repair`")))
}

/// A number among the facts that change while the run is written; 0 before it was told.
fn now_fact(conn: &Connection, key: &str) -> Result<i64> {
    conn.prepare_cached("SELECT value FROM fb_run WHERE key = ?1")
        .and_then(|mut s| s.query_row([key], |r| r.get::<_, String>(0)).optional())
        .map(|text| text.and_then(|t| t.parse().ok()).unwrap_or(0))
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

fn set_fact(conn: &Connection, key: &str, value: i64) -> Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO fb_run VALUES(?1, ?2)")
        .and_then(|mut s| s.execute((key, value.to_string())))
        .map(|_| ())
        .map_err(|e| sql_error("the catalog cannot be written", e))
}

/// Seconds since 1970, for people; order goes by counters.
pub fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// A name in double quotes, for SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What SQLite says, with one of our codes.
pub fn sql_error(what: &str, e: rusqlite::Error) -> Error {
    // Of a file SQLite says that the disk is full, of the index of the log that it could not be enlarged.
    if e.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
        return Error::new(Code::Full, format!("{what}: the disk is full"));
    }
    // Nor why it cannot open a file.
    if e.sqlite_error_code() == Some(ErrorCode::CannotOpen)
        && let Some(e) = lacks_descriptors()
    {
        return short_of_descriptors(what, e);
    }
    let code = match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Code::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Code::ReadOnly,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Code::Corrupt,
        Some(ErrorCode::CannotOpen) => Code::ReadOnly,
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::DatabaseBusy) => Code::Io,
        None if is_garbled(&e) => Code::Corrupt,
        _ => Code::BadArgument,
    };
    match e {
        // What was asked is in `what`, if the user wrote it.
        rusqlite::Error::SqlInputError { msg, .. } => Error::new(code, format!("{what}: {msg}")),
        e => Error::new(code, format!("{what}: {e}")),
    }
}

/// A file that could not be opened for want of descriptors. Its code is that of a full disk, which it is not: it is
/// marked as want of memory is, so that nobody waits until there is room on the disk.
fn short_of_descriptors(what: &str, e: std::io::Error) -> Error {
    rlimits::cannot(what, e).caused_by(std::io::ErrorKind::OutOfMemory)
}

/// Why this process, or this machine, can open no file now, if that is so.
fn lacks_descriptors() -> Option<std::io::Error> {
    let e = std::fs::File::open("/").err()?;
    matches!(Errno::from_io_error(&e), Some(Errno::MFILE | Errno::NFILE)).then_some(e)
}

/// Whether a value was read that nobody has written: text that is none, or a value of another type.
fn is_garbled(e: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, InvalidColumnType, Utf8Error};
    matches!(e, Utf8Error(..) | FromSqlConversionFailure(..) | InvalidColumnType(..))
}

#[cfg(test)]
fn system() -> Arc<dyn Disk> {
    Arc::new(crate::disk::System)
}

#[cfg(test)]
pub(crate) fn scratch() -> (tempfile::TempDir, Catalog) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    let catalog = Catalog::create(&system(), &layout, 1, "0123456789abcdef").unwrap();
    (dir, catalog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    #[test]
    fn who_may_open_no_more_files_does_not_wait_for_room_on_the_disk() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            let e = short_of_descriptors("cannot open the catalog", errno.into());
            assert_eq!((e.code(), Fault::of(&e)), (Code::Full, Fault::Again), "{e}");
        }
    }

    #[test]
    fn others_cannot_lock_the_index_of_the_log_though_they_may_read_the_run() {
        let (dir, catalog) = scratch();
        let mode = |name: &str| dir.path().join(name).metadata().unwrap().mode() & 0o777;
        let set = |mode| {
            let path = dir.path().join("catalog.sqlite");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        drop(catalog);
        for (of_catalog, of_index) in [(0o644, 0o600), (0o664, 0o660)] {
            set(of_catalog);
            let fence = u64::from(of_catalog);
            let _open = Catalog::open(&system(), &Layout::new(dir.path()), fence).unwrap();
            assert_eq!(mode("catalog.sqlite-shm"), of_index, "{of_catalog:o}");
        }
    }

    #[test]
    fn an_owner_that_was_replaced_can_write_nothing_more() {
        let (dir, mut old) = scratch();
        let layout = Layout::new(dir.path());
        let mut new = Catalog::open(&system(), &layout, 2).unwrap();
        let e = old.transaction(|_| Ok(())).unwrap_err();
        assert_eq!(e.code(), Code::Conflict);
        new.transaction(|_| Ok(())).unwrap();
        assert!(Catalog::open(&system(), &layout, 2).is_err());
    }

    #[test]
    fn a_newer_format_and_a_foreign_file_are_refused_by_name() {
        let (dir, catalog) = scratch();
        catalog.conn().execute("UPDATE fb_run SET value = '99' WHERE key = 'format'", ()).unwrap();
        let e = Catalog::open(&system(), &Layout::new(dir.path()), 5).err().unwrap();
        assert_eq!(e.code(), Code::VersionMismatch);
        assert!(e.text().contains("99"));
        let other = dir.path().join("other.sqlite");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
        assert_eq!(open_read_only(&other).err().unwrap().code(), Code::BadArgument);
        std::fs::write(&other, vec![7u8; 5000]).unwrap();
        assert_eq!(open_read_only(&other).err().unwrap().code(), Code::Corrupt);
    }

    #[test]
    fn a_catalog_that_is_just_being_made_is_not_there_yet() {
        let (dir, _catalog) = scratch();
        let path = dir.path().join("young.sqlite");
        std::fs::write(&path, b"").unwrap();
        let maker = writable(&path).unwrap();
        assert_eq!(open_read_only(&path).err().unwrap().code(), Code::NotFound);
        maker.execute_batch("BEGIN IMMEDIATE; CREATE TABLE fb_run(key, value)").unwrap();
        let e = open_read_only(&path).err().unwrap();
        assert_eq!(e.code(), Code::NotFound);
        assert!(e.text().contains("just being made"), "{e}");
    }
}
