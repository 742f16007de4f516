//! Attempts at steps that failed and that not every rank has made: `fb_failed`.

use super::sql_error;
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// An attempt: its number, the step, why it failed, the number of ranks, those that have made it, and those of them
/// that are yet to hear that it has failed, and by which record of which session they began it.
pub type FailedRow = (u64, i64, Error, u32, (BTreeSet<u32>, BTreeSet<u32>, BTreeMap<u64, u64>));

fn failed(e: rusqlite::Error) -> Error {
    sql_error("a step that was given up cannot be noted", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_failed(
             id INTEGER PRIMARY KEY, step INTEGER NOT NULL, code INTEGER NOT NULL, text TEXT NOT NULL,
             size INTEGER NOT NULL, ranks TEXT NOT NULL)",
    )
    .map_err(failed)
}

/// Keeps an attempt, or the ranks that have made it since.
pub fn keep_failed(conn: &Connection, (id, step, why, size, ranks): &FailedRow) -> Result<()> {
    let sql =
        "INSERT OR REPLACE INTO fb_failed(id, step, code, text, size, ranks) VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
    let ranks = serde_json::to_string(ranks).map_err(|e| Error::internal(e.to_string()))?;
    conn.prepare_cached(sql)
        .and_then(|mut s| s.execute(params![*id as i64, step, why.code() as u32, why.text(), size, ranks]))
        .map(|_| ())
        .map_err(failed)
}

/// Every rank has made an attempt.
pub fn forget_failed(conn: &Connection, id: u64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_failed WHERE id = ?1")
        .and_then(|mut s| s.execute([id as i64]))
        .map(|_| ())
        .map_err(failed)
}

/// All of them, the oldest first.
pub fn failed_attempts(conn: &Connection) -> Result<Vec<FailedRow>> {
    let read = |r: &Row| {
        let code = Code::from_number(r.get(2)?).unwrap_or(Code::Internal);
        let ranks: String = r.get(5)?;
        // Ranks that make no sense have made it, and heard: nobody is refused then.
        let size: u32 = r.get(4)?;
        let ranks = serde_json::from_str(&ranks)
            .unwrap_or_else(|_| ((0..size).collect(), BTreeSet::new(), BTreeMap::new()));
        Ok((r.get::<_, i64>(0)? as u64, r.get(1)?, Error::new(code, r.get::<_, String>(3)?), size, ranks))
    };
    conn.prepare("SELECT id, step, code, text, size, ranks FROM fb_failed ORDER BY id")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(failed)
}
