//! Files of `data/` that steps refer to: they stay whatever becomes of the data sets that they were. `fb_run` lists them.

use super::data::used;
use super::sql_error;
use crate::stepfile::Manifest;
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, OptionalExtension};

const KEY: &str = "constants";

/// Those files.
pub(super) fn referred(conn: &Connection) -> Result<Vec<String>> {
    let found: Option<String> = conn
        .prepare_cached("SELECT value FROM fb_run WHERE key = ?1")
        .and_then(|mut s| s.query_row([KEY], |r| r.get(0)).optional())
        .map_err(|e| sql_error("the catalog cannot be read", e))?;
    Ok(found.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// A step is listed, with what it refers to.
pub(super) fn refer(conn: &Connection, m: &Manifest) -> Result<()> {
    let mut files = m.data.iter().filter_map(|e| e.elsewhere()).peekable();
    if files.peek().is_none() {
        return Ok(());
    }
    add(conn, files)
}

/// Steps to come will refer to the file of a data set.
pub fn refer_to(conn: &Connection, file: &str) -> Result<()> {
    if !used(conn, file) {
        let text = format!("the data set in {file} was removed just now; say the constant again");
        return Err(Error::new(Code::NotFound, text));
    }
    add(conn, [file].into_iter())
}

fn add<'a>(conn: &Connection, files: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut known = referred(conn)?;
    let before = known.len();
    for file in files {
        if !known.iter().any(|other| other == file) {
            known.push(file.to_owned());
        }
    }
    if known.len() == before {
        return Ok(());
    }
    conn.prepare_cached("INSERT OR REPLACE INTO fb_run VALUES(?1, ?2)")
        .and_then(|mut s| s.execute((KEY, serde_json::Value::from(known).to_string())))
        .map(drop)
        .map_err(|e| sql_error("the catalog cannot be written", e))
}
