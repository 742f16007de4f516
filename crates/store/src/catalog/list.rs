//! The list of tables of a catalog (`sqlite_master`) is text, too, which SQLite takes as it is: a byte of it that
//! turned makes a table another one, or none. What stands there of our tables every catalog has the same, and what of
//! the user's follows from `fb_tables`: an entry that is of the same length as one of those, and almost the same, is
//! that one.

use super::{schema, sql_error, tables};
use forebay_types::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

/// How much of an entry may differ from what it is taken for: one byte of so many.
const ALIKE: usize = 8;

/// An entry of the list.
#[derive(Clone, PartialEq)]
struct ListEntry {
    kind: Vec<u8>,
    name: Vec<u8>,
    table: Vec<u8>,
    sql: Vec<u8>,
}

/// An entry that is damaged, and what it was.
pub struct Mend {
    number: i64,
    is: ListEntry,
}

impl Mend {
    /// What it is the entry of.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.is.name).into_owned()
    }
}

fn bytes(row: &Row, at: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    })
}

/// All entries of a list that have a text, as far as they can be read.
fn entries(conn: &Connection) -> rusqlite::Result<Vec<(i64, ListEntry)>> {
    let mut statement = conn.prepare("SELECT rowid, type, name, tbl_name, sql FROM sqlite_master")?;
    let mut rows = statement.query(())?;
    let mut found = Vec::new();
    while let Ok(Some(row)) = rows.next() {
        let entry = ListEntry {
            kind: bytes(row, 1)?,
            name: bytes(row, 2)?,
            table: bytes(row, 3)?,
            sql: bytes(row, 4)?,
        };
        if !entry.sql.is_empty() {
            found.push((row.get(0)?, entry));
        }
    }
    Ok(found)
}

/// What the list of a catalog says of our tables. One of format 1 says something else of two of them, and so does one
/// that was of that format; one that no program of now has written says something else of the points.
fn ours() -> Result<Vec<ListEntry>> {
    let failed_to = |e| sql_error("the tables of a catalog cannot be laid out", e);
    let conn = Connection::open_in_memory().map_err(failed_to)?;
    conn.execute_batch(schema::SCHEMA).map_err(failed_to)?;
    super::ensure_tables(&conn)?;
    let all = entries(&conn).map_err(failed_to)?.into_iter().map(|(_, entry)| entry);
    Ok(all
        .flat_map(|entry| {
            let text = String::from_utf8_lossy(&entry.sql).into_owned();
            let of_format_1 = text.replace(", serial INTEGER NOT NULL)", ")");
            let is_older = of_format_1 != text && entry.name != b"fb_backs";
            let older = ["", ", serial INTEGER NOT NULL DEFAULT 0", ", serial INTEGER NOT NULL DEFAULT -1"]
                .map(|more| format!("{}{more})", of_format_1.trim_end_matches(')')));
            let older = older.into_iter().filter(|_| is_older).chain(without_session(&text, "session"));
            let older = older.map(|sql| ListEntry { sql: sql.into_bytes(), ..entry.clone() });
            older.chain([entry.clone()]).collect::<Vec<_>>()
        })
        .collect())
}

/// The SQL of a table before it had the column of the session; `None` when it has no such column.
fn without_session(text: &str, column: &str) -> Option<String> {
    text.strip_suffix(&format!(", {})", tables::session_column(column))).map(|text| format!("{text})"))
}

/// What the list of a catalog says of the user's tables, or said before they had the column of the session.
fn theirs(conn: &Connection) -> Vec<ListEntry> {
    let of = |t: forebay_types::control::TableInfo| {
        let sql = tables::text_of(&t.name, &t.columns, t.history).ok()?;
        let name = t.name.into_bytes();
        let entry = |sql: String| {
            let sql = sql.into_bytes();
            ListEntry { kind: b"table".to_vec(), table: name.clone(), name: name.clone(), sql }
        };
        let older = without_session(&sql, tables::SESSION_COLUMN);
        Some(older.into_iter().chain([sql]).map(entry).collect::<Vec<_>>())
    };
    // What is not in that list is as it is.
    tables::tables(conn).unwrap_or_default().into_iter().filter_map(of).flatten().collect()
}

/// How many bytes differ, of texts of the same length.
fn differ(a: &[u8], b: &[u8]) -> Option<usize> {
    (a.len() == b.len()).then(|| a.iter().zip(b).filter(|(a, b)| a != b).count())
}

fn damaged_of(found: &[(i64, ListEntry)], known: &[ListEntry]) -> Vec<Mend> {
    let mut mends = Vec::new();
    for (number, entry) in found {
        let near = known.iter().filter_map(|k| Some((differ(&entry.sql, &k.sql)?, k)));
        let Some((n, is)) = near.min_by_key(|(n, _)| *n) else { continue };
        let is_taken = || found.iter().any(|(other, e)| other != number && e == is);
        if entry != is && n <= is.sql.len() / ALIKE && !is_taken() {
            mends.push(Mend { number: *number, is: is.clone() });
        }
    }
    mends
}

/// The entries of a list that are damaged, as far as can be told.
pub fn damaged_entries(conn: &Connection) -> Result<Vec<Mend>> {
    let found = entries(conn).map_err(|e| sql_error("the list of tables cannot be read", e))?;
    let mut mends = damaged_of(&found, &ours()?);
    mends.extend(damaged_of(&found, &theirs(conn)));
    mends.dedup_by_key(|m| m.number);
    Ok(mends)
}

/// Has the list of a catalog that may be written say again what it said; gives the names of the entries. First of our
/// tables, for they tell of the user's.
pub fn mend(open: impl Fn() -> Result<Connection>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for _ in 0..2 {
        let conn = open()?;
        let mends = damaged_entries(&conn)?;
        for m in &mends {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            conn.execute(
                "UPDATE sqlite_master SET type = ?2, name = ?3, tbl_name = ?4, sql = ?5 WHERE rowid = ?1",
                (m.number, text(&m.is.kind), text(&m.is.name), text(&m.is.table), text(&m.is.sql)),
            )
            .map_err(|e| sql_error("the list of tables cannot be mended", e))?;
            names.push(m.name());
        }
    }
    Ok(names)
}

/// Says of damaged entries that they are a fault.
pub fn faults_of_list(conn: &Connection) -> Result<Vec<String>> {
    let mends = damaged_entries(conn)?;
    Ok(mends.iter().map(|m| format!("what the list of tables says of {:?} is damaged", m.name())).collect())
}
