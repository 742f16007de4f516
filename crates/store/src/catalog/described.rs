//! What arrays of steps say of themselves: `fb_described`, a row for each array that says something. The manifest of the
//! step's file is where it comes from.

use super::sql_error;
use crate::stepfile::Manifest;
use forebay_types::{Code, Description, Error, ORIGINAL_DTYPE, Result};
use rusqlite::{Connection, OptionalExtension, params};

fn failed(e: rusqlite::Error) -> Error {
    sql_error("what arrays say of themselves cannot be listed", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_described(
             step INTEGER NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL,
             PRIMARY KEY(step, name)) WITHOUT ROWID;",
    )
    .map_err(failed)
}

/// Lists what the arrays of a step say, in place of what those of another one of its number said.
pub(super) fn describe_step(conn: &Connection, m: &Manifest) -> Result<()> {
    forget_described(conn, m.step)?;
    for e in m.data.iter().filter(|e| !e.about.is_empty()) {
        let json = serde_json::to_string(&e.about).map_err(|e| Error::internal(e.to_string()))?;
        conn.prepare_cached("INSERT INTO fb_described VALUES(?1, ?2, ?3)")
            .and_then(|mut s| s.execute(params![m.step, e.name, json]))
            .map_err(failed)?;
    }
    Ok(())
}

/// A step is not listed any more.
pub(super) fn forget_described(conn: &Connection, step: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_described WHERE step = ?1")
        .and_then(|mut s| s.execute([step]))
        .map(drop)
        .map_err(failed)
}

/// Steps behind this one are not listed any more.
pub(super) fn forget_described_behind(conn: &Connection, last: i64) -> Result<()> {
    conn.execute("DELETE FROM fb_described WHERE step > ?1", [last]).map(drop).map_err(failed)
}

/// The arrays of a step that were kept with less precision, for people; none where there is none.
pub fn reduced_arrays(conn: &Connection, step: i64) -> Result<Option<String>> {
    let all = format!(
        "SELECT name, json_extract(description, '$.attrs.{ORIGINAL_DTYPE}') AS was FROM fb_described
         WHERE step = ?1 AND was IS NOT NULL ORDER BY name"
    );
    let mut found: Vec<(String, String)> = conn
        .prepare_cached(&all)
        .and_then(|mut s| s.query_map([step], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    found.extend(super::packs::packed_reduced(conn, step)?);
    let found: Vec<String> = found.iter().map(|(name, was)| format!("{name:?} ({was})")).collect();
    let (first, more) = found.split_at(found.len().min(5));
    let rest = if more.is_empty() { String::new() } else { format!(" and {} others", more.len()) };
    Ok((!first.is_empty()).then(|| {
        format!(
            "arrays of step {step} are kept with less precision than the program gave them: {}{rest}",
            first.join(", ")
        )
    }))
}

/// What an array of a step says of itself.
pub fn description_of(conn: &Connection, step: i64, name: &str) -> Result<Description> {
    let known = "SELECT 1 FROM sqlite_master WHERE name = 'fb_described'";
    let has_table = |c: &Connection| c.prepare_cached(known)?.query_row((), |_| Ok(())).optional();
    if has_table(conn).map_err(failed)?.is_none() {
        return Ok(Description::default());
    }
    let found: Option<String> = conn
        .prepare_cached("SELECT description FROM fb_described WHERE step = ?1 AND name = ?2")
        .and_then(|mut s| s.query_row(params![step, name], |r| r.get(0)).optional())
        .map_err(failed)?;
    found.map_or(Ok(Description::default()), |text| {
        Description::from_json(&text).map_err(|e| {
            let text = format!("step {step}: {}; run `forebay repair`", e.text());
            Error::new(Code::Corrupt, text)
        })
    })
}
