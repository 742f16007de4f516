//! A catalog that is damaged, opened to read what can be read. Where its list of tables cannot be read, a copy is
//! read whose first page says again what that of every catalog says: which bytes those are, SQLite's file format
//! defines. The pages that stand in the log are taken from there, so that a catalog that was cut to nothing gives
//! what its log holds.
//!
//! ```text
//!   0  "SQLite format 3" and a zero    44  format of the list of tables: 4
//!  16  bytes of a page                 52  no automatic vacuum: 0
//!  18  with a log: 2, 2                56  UTF-8: 1
//!  20  no reserved bytes: 0            60  the generation, left as it is
//!  21  64, 32, 32                      64  0 up to 92
//!  28  pages of the file               92  the number at 24: what stands at 28 counts
//!  32  no free pages: 0, 0            100  the kind of the list's first page
//! ```

use super::anew::names_of;
use super::{PAGE, fact, list, quoted, sql_error};
use crate::layout::{Layout, TMP, with_end};
use crate::lock::holder;
use forebay_types::{Code, Error, Result, counted};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What every header has: where, and what.
const CONSTANT: [(usize, &[u8]); 4] =
    [(16, &(PAGE as u16).to_be_bytes()), (20, &[0, 64, 32, 32]), (44, &[0, 0, 0, 4]), (56, &[0, 0, 0, 1])];
/// What the first page of the list of tables may be: a page of rows, or one that leads to such.
const KINDS: [u8; 2] = [13, 5];
/// What the name of the copy ends in.
const COPY: &str = ".read";
/// What the name of a copy ends in whose list of tables was mended.
const LISTED: &str = ".listed";

/// A damaged catalog, open for reading.
pub struct Old {
    pub conn: Connection,
    /// Whether its first page had to be put right.
    pub is_put_right: bool,
    /// Tables of which its list of tables says something else than they are: they are read as what they are.
    pub listed_wrong: Vec<String>,
    _copy: Option<Copy>,
}

/// The copy goes when it was read.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(with_end(&self.0, end));
        }
    }
}

impl Old {
    /// Opens a damaged catalog, or a copy of it, changing nothing; `None` when nothing can be read of it.
    pub fn open(layout: &Layout) -> Result<Option<Old>> {
        let path = layout.catalog();
        let Some(old) = Old::as_it_is(&path)? else { return Ok(None) };
        Ok(Some(old.with_its_list(&path)))
    }

    /// Goes on with a copy whose list of tables is mended, if one byte or another of the list has turned. What cannot
    /// be mended is read as it is.
    fn with_its_list(self, path: &Path) -> Old {
        if list::damaged_entries(&self.conn).is_ok_and(|none| none.is_empty()) {
            return self;
        }
        let copy = Copy(with_end(&with_end(path, LISTED), TMP));
        let of = self._copy.as_ref().map_or(path, |copy| &copy.0);
        let mended = copy_with_log(of, &copy.0)
            .map_err(|e| Error::io(format!("{} cannot be copied", path.display()), e))
            .and_then(|()| list::mend(|| open_to_mend(&copy.0)))
            .and_then(|names| Ok((listing(&copy.0)?, names)));
        match mended {
            Ok((Some(conn), listed_wrong)) if !listed_wrong.is_empty() => {
                Old { conn, is_put_right: self.is_put_right, listed_wrong, _copy: Some(copy) }
            }
            _ => self,
        }
    }

    fn as_it_is(path: &Path) -> Result<Option<Old>> {
        let found = |conn: Connection, copy: Option<Copy>| {
            Some(Old { conn, is_put_right: copy.is_some(), listed_wrong: Vec::new(), _copy: copy })
        };
        if let Some(conn) = listing(path)? {
            return Ok(found(conn, None));
        }
        let copy = Copy(with_end(&with_end(path, COPY), TMP));
        for kind in [None, Some(KINDS[0]), Some(KINDS[1])] {
            put_right(path, &copy.0, kind)
                .map_err(|e| Error::io(format!("{} cannot be copied", path.display()), e))?;
            if let Some(conn) = listing(&copy.0)? {
                return Ok(found(conn, Some(copy)));
            }
        }
        // Some of the list may be there all the same.
        match open(path) {
            Ok(conn) => Ok(found(conn, None)),
            Err(e) if is_of_file(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The identity that it still tells.
    pub fn run_id(&self) -> Option<String> {
        fact(&self.conn, "run_id").ok()
    }
}

/// Whether it is the file that cannot be opened, and not the disk that fails.
fn is_of_file(e: &Error) -> bool {
    matches!(e.code(), Code::Corrupt | Code::BadArgument)
}

/// Opens it with its log, when the list of tables can be read.
fn listing(path: &Path) -> Result<Option<Connection>> {
    let conn = match open(path) {
        Err(e) if is_of_file(&e) => return Ok(None),
        other => other?,
    };
    let list = "SELECT count(sql), total(name = 'fb_run') FROM sqlite_master";
    let found = conn.query_row(list, (), |r| r.get::<_, f64>(1));
    Ok(found.is_ok_and(|n| n > 0.0).then_some(conn))
}

/// Opens it with its log, changing nothing.
fn open(path: &Path) -> Result<Connection> {
    spare_log(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(super::BUSY)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // A list of tables with one entry that makes no sense is read all the same.
        conn.execute_batch("PRAGMA writable_schema = ON; PRAGMA cache_size = -16384")?;
        Ok(conn)
    };
    open().map_err(|e| sql_error(&format!("cannot open {}", path.display()), e))
}

/// SQLite removes a log when its file is empty: such a pair is not opened, nor a file that was emptied.
pub fn spare_log(path: &Path) -> Result<()> {
    if !path.metadata().is_ok_and(|m| m.len() == 0) {
        return Ok(());
    }
    let lock = path.parent().map(|dir| Layout::new(dir).lock());
    let is_left = lock.is_some_and(|lock| lock.exists() && holder(&lock).is_none());
    match is_left || with_end(path, "-wal").metadata().is_ok_and(|m| m.len() > 0) {
        false => Ok(()),
        true => Err(Error::new(
            Code::Corrupt,
            format!(
                "{} is empty; run `forebay repair`, which makes it anew of what its log and the files of the run hold",
                path.display()
            ),
        )),
    }
}

/// What is wrong with the header of a catalog that nobody has open, as far as every catalog has the same: SQLite
/// takes some of it for a file that it may only read, or for one of another version.
pub fn faults_of_header(path: &Path) -> Option<String> {
    let mut first = [0; 100];
    File::open(path).and_then(|file| file.read_exact_at(&mut first, 0)).ok()?;
    let same = |(at, bytes): &(usize, &[u8])| first[*at..].starts_with(bytes);
    let is_sound = same(&(0, MAGIC)) && CONSTANT.iter().all(same);
    // A catalog that was just made has no log yet.
    let journal = [[1, 1], [2, 2]].iter().any(|kind| same(&(18, kind)));
    (!is_sound || !journal).then(|| "its header is damaged".to_owned())
}

/// Copies a catalog and its log, with a first page that says what that of every catalog says.
fn put_right(path: &Path, to: &Path, kind: Option<u8>) -> std::io::Result<()> {
    copy_with_log(path, to)?;
    let file = OpenOptions::new().read(true).write(true).open(to)?;
    let pages = file.metadata()?.len().div_ceil(PAGE as u64).max(1);
    file.set_len(pages * PAGE as u64)?;
    let mut first = [0; 112];
    file.read_exact_at(&mut first, 0)?;
    let mut put = |at: usize, bytes: &[u8]| first[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, MAGIC);
    CONSTANT.iter().for_each(|(at, bytes)| put(*at, bytes));
    put(18, &[2, 2]);
    put(28, &(pages as u32).to_be_bytes());
    put(32, &[0; 8]);
    put(52, &[0; 4]);
    put(64, &[0; 28]);
    if let Some(kind) = kind {
        put(100, &[kind]);
    }
    first.copy_within(24..28, 92);
    file.write_all_at(&first, 0)
}

fn copy_with_log(path: &Path, to: &Path) -> std::io::Result<()> {
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(with_end(to, end));
    }
    std::fs::copy(path, to)?;
    let log = with_end(path, "-wal");
    if log.exists() {
        std::fs::copy(log, with_end(to, "-wal"))?;
    }
    Ok(())
}

/// Opens a copy so that its list of tables can be written.
fn open_to_mend(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.execute_batch("PRAGMA writable_schema = ON; PRAGMA synchronous = OFF")?;
        Ok(conn)
    };
    open().map_err(|e| sql_error(&format!("cannot open {}", path.display()), e))
}

/// Columns of a table that hold text.
fn text_columns(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM pragma_table_info(?1) WHERE upper(type) = 'TEXT' ORDER BY cid";
    names_of(conn, sql, [table])
}

/// Tables with texts that are not UTF-8, one line each: nobody has put such a text.
pub fn garbled(conn: &Connection) -> Result<Vec<String>> {
    let sql =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let tables = names_of(conn, sql, ()).map_err(|e| sql_error("the catalog cannot be checked", e))?;
    let mut lines = Vec::new();
    for table in tables {
        // What of a table cannot be read is another fault.
        let n = garbled_rows(conn, &table).unwrap_or(0);
        let line = format!("{} of the table {table:?} with text that is not UTF-8", counted(n, "row"));
        lines.extend((n > 0).then_some(line));
    }
    Ok(lines)
}

fn garbled_rows(conn: &Connection, table: &str) -> rusqlite::Result<u64> {
    let columns: Vec<String> = text_columns(conn, table)?.iter().map(|c| quoted(c)).collect();
    if columns.is_empty() {
        return Ok(0);
    }
    let mut statement = conn.prepare(&format!("SELECT {} FROM {}", columns.join(", "), quoted(table)))?;
    let mut rows = statement.query(())?;
    let mut found = 0;
    let is_garbled = |row: &Row, i: usize| match row.get_ref(i) {
        Ok(ValueRef::Text(text)) => std::str::from_utf8(text).is_err(),
        _ => false,
    };
    while let Some(row) = rows.next()? {
        found += u64::from((0..columns.len()).any(|i| is_garbled(row, i)));
    }
    Ok(found)
}
