//! Rows of histories and points of diagrams that go when a run goes back, for they are made again: those behind the
//! step, and those of starts that did not go on where the run was. *Stray* are the rows of such a start: it was refused
//! at its first snapshot, or died before it.

use super::steps::finished;
use super::tables::{STEP_COLUMN, row_number_of, tables};
use super::{now_fact, quoted, sql_error};
use forebay_types::{Error, Result};
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the catalog cannot be read", e)
}

/// Rows of histories and points of diagrams that belong to a step or to later ones go.
pub(super) fn take_back(conn: &Connection, step: i64) -> Result<()> {
    let broken = |e| sql_error("cannot go back to the last step", e);
    for t in tables(conn)?.iter().filter(|t| t.history) {
        let sql = format!("DELETE FROM {} WHERE {STEP_COLUMN} >= ?1", quoted(&t.name));
        conn.execute(&sql, [step]).map_err(broken)?;
    }
    super::points::take_back(conn, step)
}

/// The last row of each history, and of the points.
type Rows = BTreeMap<String, i64>;
const POINTS: &str = "fb_points";
/// Rows that were there before this life of the run.
const BEFORE: &str = "rows_before";
/// Rows of lives that did not go on where the run was, and came to nothing: behind which, and up to which.
const STRAY: &str = "rows_stray";

fn kept<T: DeserializeOwned + Default>(conn: &Connection, key: &str) -> T {
    super::fact(conn, key).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn keep<T: Serialize>(conn: &Connection, key: &str, value: &T) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))?;
    conn.execute("INSERT OR REPLACE INTO fb_run VALUES(?1, ?2)", (key, text))
        .map(drop)
        .map_err(|e| sql_error("what was there before cannot be noted", e))
}

fn forget(conn: &Connection, key: &str) -> Result<()> {
    conn.execute("DELETE FROM fb_run WHERE key = ?1", [key])
        .map(drop)
        .map_err(|e| sql_error("what was there before cannot be forgotten", e))
}

/// Histories and the table of points, each with the name that the number of a row has there.
fn numbered(conn: &Connection) -> Result<BTreeMap<String, &'static str>> {
    let histories = tables(conn)?.into_iter().filter(|t| t.history);
    let points = (POINTS.to_owned(), "rowid");
    Ok(histories.map(|t| (t.name.clone(), row_number_of(&t))).chain([points]).collect())
}

fn rows_now(conn: &Connection) -> Result<Rows> {
    let last = |table: &str, number: &str| {
        let sql = format!("SELECT coalesce(max({number}), 0) FROM {}", quoted(table));
        conn.query_row(&sql, (), |r| r.get::<_, i64>(0))
            .map_err(|e| sql_error("what was there before cannot be counted", e))
    };
    let numbered = numbered(conn)?.into_iter();
    numbered.map(|(name, number)| last(&name, number).map(|last| (name, last))).collect()
}

/// Notes how far the rows of histories and the points are that were there before this life of the run. With
/// `stray` those of the life before it are of a start that did not go on where the run was.
pub(super) fn note_rows(conn: &Connection, stray: bool) -> Result<()> {
    let now = rows_now(conn)?;
    if stray {
        let (before, mut strays): (Rows, BTreeMap<String, Vec<(i64, i64)>>) =
            (kept(conn, BEFORE), kept(conn, STRAY));
        for (name, last) in &now {
            let from = before.get(name).copied().unwrap_or(0);
            if from < *last {
                strays.entry(name.clone()).or_default().push((from, *last));
            }
        }
        keep(conn, STRAY, &strays)?;
    }
    keep(conn, BEFORE, &now)
}

/// Rows and points of starts that did not go on where the run was go when one does.
pub(super) fn take_strays(conn: &Connection) -> Result<()> {
    let strays: BTreeMap<String, Vec<(i64, i64)>> = kept(conn, STRAY);
    for (name, number) in numbered(conn)? {
        for range in strays.get(&name).into_iter().flatten() {
            let sql = format!("DELETE FROM {} WHERE {number} > ?1 AND {number} <= ?2", quoted(&name));
            conn.execute(&sql, *range)
                .map_err(|e| sql_error("rows of an earlier start cannot be taken back", e))?;
        }
    }
    forget(conn, STRAY)
}

/// Which histories have rows of an earlier start from a step on at which the first loop of this life begins: what
/// is to be told of it, once.
pub fn doubled(conn: &Connection, start: i64) -> Result<Option<String>> {
    const TOLD: &str = "rows_told";
    let life = now_fact(conn, "life")?;
    if kept::<Option<i64>>(conn, TOLD) == Some(life) {
        return Ok(None);
    }
    keep(conn, TOLD, &life)?;
    let before: Rows = kept(conn, BEFORE);
    let mut found = Vec::new();
    for t in tables(conn)?.into_iter().filter(|t| t.history) {
        let (table, number) = (quoted(&t.name), row_number_of(&t));
        let sql = format!("SELECT 1 FROM {table} WHERE {STEP_COLUMN} >= ?1 AND {number} <= ?2 LIMIT 1");
        let last = before.get(&t.name).copied().unwrap_or(0);
        let any = conn.query_row(&sql, [start, last], |_| Ok(())).optional().map_err(failed)?;
        found.extend(any.map(|()| t.name));
    }
    let points = before.get(POINTS).copied().unwrap_or(0);
    let sql = "SELECT 1 FROM fb_points WHERE step >= ?1 AND rowid <= ?2 LIMIT 1";
    let any = conn.query_row(sql, [start, points], |_| Ok(())).optional().map_err(failed)?;
    found.extend(any.map(|()| "the diagrams".to_owned()));
    if found.is_empty() {
        return Ok(None);
    }
    let remedy = match finished(conn)? {
        true => "begin anew with mode \"w\" or under another name",
        false => "call restart() before the loop, or begin anew with mode \"w\" or under another name",
    };
    Ok(Some(format!(
        "the loop begins at step {start}, and an earlier start has left rows of that step or later ones in {}; this one adds its own to them: {remedy}, if they are the same steps again",
        found.join(", ")
    )))
}

/// The program begins at its beginning: rows and points of all steps go, and those that belong to no step, which
/// it makes again; but not those that it has made in this life already.
pub(super) fn begin_anew(conn: &Connection) -> Result<()> {
    let broken = |e| sql_error("cannot go back to the beginning", e);
    take_back(conn, 0)?;
    let before: Rows = kept(conn, BEFORE);
    for (name, number) in numbered(conn)? {
        let step = if name == POINTS { "step" } else { STEP_COLUMN };
        let Some(last) = before.get(&name) else { continue };
        let sql = format!("DELETE FROM {} WHERE {step} < 0 AND {number} <= ?1", quoted(&name));
        conn.execute(&sql, [last]).map_err(broken)?;
    }
    forget(conn, BEFORE)
}
