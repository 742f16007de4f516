//! A catalog that is made anew beside a damaged one: how the damage is told from a disk that
//! does not answer, and how the new one takes the old one's place.
//!
//! ```text
//!   catalog.sqlite.tmp        being made; worthless until it is whole
//!   catalog.sqlite.repaired   whole; from here on the old pair only has to go
//!   catalog.damaged-1.sqlite  the old one, its log beside it, as it was found
//! ```
//! The old file goes before its log: without its log it might look sound and lack what the log
//! holds. Until the new one has its name there is no `catalog.sqlite`, and every opening refers to
//! `repair`, which goes on from there.

use super::{Catalog, open_read_only, sql_error};
use crate::disk::Disk;
use crate::layout::{Layout, with_end};
use forebay_types::control::Column;
use forebay_types::{Code, Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a look at a catalog found.
#[derive(Debug, PartialEq)]
pub enum Health {
    /// Every page is as SQLite left it.
    Sound,
    /// What is wrong.
    Damaged(Vec<String>),
}

/// Looks at every page of a catalog that nobody writes. An error means that it cannot be said: somebody keeps
/// the file locked, the disk does not answer, the format is newer.
pub fn look(path: &Path) -> Result<Health> {
    health(open_read_only(path).and_then(|conn| {
        let mut found = faults(&conn)?;
        found.extend(super::faults_of_header(path));
        Ok(found)
    }))
}

fn health(found: Result<Vec<String>>) -> Result<Health> {
    match found {
        Ok(none) if none.is_empty() => Ok(Health::Sound),
        Ok(some) => Ok(Health::Damaged(some)),
        Err(e) if matches!(e.code(), Code::Corrupt | Code::BadArgument | Code::NotFound) => {
            Ok(Health::Damaged(vec![e.text().to_owned()]))
        }
        Err(e) => Err(e),
    }
}

/// What SQLite finds wrong with a catalog.
pub fn faults(conn: &Connection) -> Result<Vec<String>> {
    let failed = |e| sql_error("the catalog cannot be checked", e);
    let lines: Vec<String> = conn
        .prepare("SELECT integrity_check FROM pragma_integrity_check")
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .map_err(failed)?;
    let mut faults = if lines == ["ok"] { Vec::new() } else { lines };
    if let Err(e) = super::generation(conn) {
        faults.push(e.text().to_owned());
    }
    faults.extend(super::garbled(conn)?);
    // The list of tables is a table, too, and what stands in it is text: SQLite takes it as it is.
    for (table, columns) in own_tables(is_old(conn)?)? {
        faults.extend(lacks(conn, &table, &columns)?);
    }
    faults.extend(super::list::faults_of_list(conn)?);
    Ok(faults)
}

/// Whether a catalog is of format 1.
pub fn is_old(conn: &Connection) -> Result<bool> {
    Ok(super::now_fact(conn, "format")? < 2)
}

/// The tables of Forebay's own that a catalog of that format has, and their columns.
pub fn own_tables(is_old: bool) -> Result<Vec<(String, Vec<String>)>> {
    let failed = |e| sql_error("the catalog cannot be checked", e);
    let whole = Connection::open_in_memory().map_err(failed)?;
    whole.execute_batch(super::schema::SCHEMA).map_err(failed)?;
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'fb%'";
    let names = names_of(&whole, sql, ()).map_err(failed)?;
    let with_columns = |table: String| {
        let mut columns = columns_of(&whole, &table).map_err(failed)?;
        // Of points those that came first lack the session, until the run is opened for writing.
        columns.retain(|c| !(is_old && c == "serial" || table == "fb_points" && c == "session"));
        Ok((table, columns))
    };
    names.into_iter().filter(|name| !(is_old && name == "fb_backs")).map(with_columns).collect()
}

/// Tables of the user that are not what the list of tables says.
pub fn faults_of_tables(conn: &Connection) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for table in super::tables(conn)? {
        let mut columns: Vec<String> = table.columns.into_iter().map(|c| c.name).collect();
        columns.extend(table.history.then(|| super::tables::STEP_COLUMN.to_owned()));
        faults.extend(lacks(conn, &table.name, &columns)?);
    }
    Ok(faults)
}

/// What a table lacks of these columns.
fn lacks(conn: &Connection, table: &str, columns: &[String]) -> Result<Option<String>> {
    let found = columns_of(conn, table).map_err(|e| sql_error("the catalog cannot be checked", e))?;
    let missing = columns.iter().find(|c| !found.contains(c));
    Ok(match (found.is_empty(), missing) {
        (true, _) => Some(format!("the table {table:?} is not there")),
        (false, Some(column)) => Some(format!("the table {table:?} has no column {column:?}")),
        (false, None) => None,
    })
}

fn columns_of(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    names_of(conn, "SELECT name FROM pragma_table_info(?1)", [table])
}

/// The first column of what is asked for; U+FFFD stands for bytes that are no text.
pub(super) fn names_of(
    conn: &Connection,
    sql: &str,
    args: impl rusqlite::Params,
) -> rusqlite::Result<Vec<String>> {
    let text = |r: &rusqlite::Row| match r.get_ref(0)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        _ => Ok(String::new()),
    };
    conn.prepare(sql)?.query_map(args, text)?.collect()
}

/// Begins a new catalog under the name of an unfinished one.
pub fn begin(disk: &Arc<dyn Disk>, layout: &Layout, fence: u64, run_id: &str) -> Result<Catalog> {
    super::make(&**disk, layout, run_id)?;
    Catalog::open_at(disk, layout.unfinished_catalog(), fence)
}

/// Puts a finished one into the place of the old one, which is kept; gives its new name.
pub fn replace(disk: &dyn Disk, layout: &Layout, mut new: Catalog) -> Result<Option<PathBuf>> {
    let tmp = layout.unfinished_catalog();
    new.settle()?;
    drop(new);
    for end in ["-wal", "-shm"] {
        remove(disk, &with_end(&tmp, end))?;
    }
    rename(disk, &tmp, &layout.repaired_catalog())?;
    sync(disk, layout)?;
    let old = layout.catalog();
    let kept = match old.exists() || with_end(&old, "-wal").exists() {
        true => Some(free_name(layout)?),
        false => None,
    };
    if let Some(kept) = kept.as_ref().filter(|_| old.exists()) {
        rename(disk, &old, kept)?;
        sync(disk, layout)?;
    }
    finish(disk, layout, kept.as_deref())?;
    Ok(kept)
}

/// Finishes, or forgets, what an interrupted [`replace`] left.
pub fn go_on(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let new = layout.repaired_catalog();
    if !new.exists() {
        return Ok(());
    }
    if layout.catalog().exists() {
        // The old one had not gone yet, and may have been written since.
        return remove(disk, &new);
    }
    finish(disk, layout, last_name(layout).as_deref())
}

/// The old file has gone: its log follows, and the new one takes its name.
fn finish(disk: &dyn Disk, layout: &Layout, kept: Option<&Path>) -> Result<()> {
    let path = layout.catalog();
    let log = with_end(&path, "-wal");
    if let Some(kept) = kept.filter(|_| log.exists()) {
        rename(disk, &log, &with_end(kept, "-wal"))?;
        sync(disk, layout)?;
    }
    remove(disk, &with_end(&path, "-shm"))?;
    rename(disk, &layout.repaired_catalog(), &path)?;
    sync(disk, layout)
}

fn rename(disk: &dyn Disk, from: &Path, to: &Path) -> Result<()> {
    disk.rename(from, to).map_err(|e| Error::io(format!("cannot rename {}", from.display()), e))
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.remove(path).map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))
}

fn sync(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let root = layout.root();
    disk.sync_dir(root).map_err(|e| Error::io(format!("cannot make {} durable", root.display()), e))
}

fn names(layout: &Layout) -> impl Iterator<Item = PathBuf> {
    (1u32..).map(|n| layout.damaged_catalog(n))
}

fn free_name(layout: &Layout) -> Result<PathBuf> {
    let free = |p: &PathBuf| !p.exists() && !with_end(p, "-wal").exists();
    names(layout).find(free).ok_or_else(|| Error::internal("no name for the damaged catalog"))
}

fn last_name(layout: &Layout) -> Option<PathBuf> {
    names(layout).take_while(|p| p.exists()).last()
}

/// Tables that are there and not in the list of tables are listed with what can be told of their
/// columns; what is listed and not there is listed no more.
pub fn list_unlisted_tables(conn: &Connection) -> Result<()> {
    let failed = |e| sql_error("the list of tables cannot be mended", e);
    let gone =
        "DELETE FROM fb_tables WHERE name NOT IN (SELECT name FROM sqlite_master WHERE type = 'table')";
    conn.execute(gone, ()).map_err(failed)?;
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'fb\\_%' ESCAPE '\\'
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT IN (SELECT name FROM fb_tables) ORDER BY name";
    let unlisted: Vec<String> =
        conn.prepare(sql).and_then(|mut s| s.query_map((), |r| r.get(0))?.collect()).map_err(failed)?;
    for name in unlisted {
        let described: Vec<(String, String)> = conn
            .prepare("SELECT name, upper(type) FROM pragma_table_info(?1) ORDER BY cid")
            .and_then(|mut s| s.query_map([&name], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
            .map_err(failed)?;
        let history = described.iter().any(|c| c.0 == super::tables::STEP_COLUMN);
        let ours = [super::tables::STEP_COLUMN, super::tables::SESSION_COLUMN];
        let user = described.into_iter().filter(|c| !ours.contains(&c.0.as_str()));
        let columns: Vec<Column> = user
            .map(|(name, kind)| Column { name, dtype: dtype_of(&kind).into(), ..Default::default() })
            .collect();
        let json = serde_json::to_string(&columns).map_err(|e| Error::internal(e.to_string()))?;
        conn.execute(
            "INSERT INTO fb_tables(name, columns, history, attrs) VALUES(?1, ?2, ?3, '{}')",
            (name, json, history),
        )
        .map_err(failed)?;
    }
    Ok(())
}

fn dtype_of(sql_type: &str) -> &'static str {
    match sql_type {
        "INTEGER" => "i64",
        "REAL" => "f64",
        "BLOB" => "bytes",
        _ => "str",
    }
}

/// Facts of the run that the new catalog takes from the old one when that still tells them: they
/// make room before the rows are saved, and are filled up after.
pub fn make_room_for_facts(conn: &Connection) -> Result<()> {
    conn.execute("DELETE FROM fb_run WHERE key IN ('attrs', 'finished', 'made', 'serial')", ())
        .map(|_| ())
        .map_err(|e| sql_error("the facts of the run cannot be saved", e))
}

/// See [`make_room_for_facts`]; gives whether all could be told.
pub fn fill_up_facts(conn: &Connection) -> Result<bool> {
    let failed = |e| sql_error("the facts of the run cannot be saved", e);
    let attrs: Option<String> = conn
        .query_row("SELECT value FROM fb_run WHERE key = 'attrs'", (), |r| r.get(0))
        .optional()
        .map_err(failed)?;
    let made = super::now().to_string();
    // The serials of the steps are those of their files.
    let known = [("attrs", "{}"), ("finished", "0"), ("made", &made), ("serial", "0")];
    for (key, value) in known {
        conn.execute("INSERT OR IGNORE INTO fb_run VALUES(?1, ?2)", (key, value)).map_err(failed)?;
    }
    Ok(attrs.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn only_what_is_wrong_with_the_file_itself_makes_a_catalog_damaged() {
        let after =
            |code| health(Err(sql_error("x", rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))));
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_IOERR, ffi::SQLITE_CANTOPEN, ffi::SQLITE_NOMEM] {
            assert!(after(code).is_err(), "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_ERROR] {
            assert!(matches!(after(code), Ok(Health::Damaged(_))), "{code}");
        }
        assert!(health(Err(Error::new(Code::VersionMismatch, "newer"))).is_err());
        assert_eq!(health(Ok(Vec::new())).unwrap(), Health::Sound);
    }
}
