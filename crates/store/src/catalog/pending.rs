//! Records of steps that lack other ranks, which had to leave their ring: `fb_pending`.

use super::sql_error;
use forebay_types::{Error, Result};
use rusqlite::{Connection, params};
use std::collections::VecDeque;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("records of a step that lacks other ranks cannot be kept", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_pending(
             session INTEGER NOT NULL, seq INTEGER NOT NULL, step INTEGER NOT NULL, record BLOB NOT NULL,
             PRIMARY KEY(session, seq)) WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS fb_pending_by_step ON fb_pending(step, session);",
    )
    .map_err(failed)
}

/// Keeps a record of a step.
pub fn keep_pending(conn: &Connection, session: u64, seq: u64, step: i64, record: &[u8]) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO fb_pending(session, seq, step, record) VALUES(?1, ?2, ?3, ?4)";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.execute(params![session as i64, seq as i64, step, record]))
        .map(|_| ())
        .map_err(failed)
}

/// What was kept of a step up to that record is not needed any more.
pub fn settle_pending(conn: &Connection, session: u64, step: i64, last: u64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_pending WHERE step = ?2 AND session = ?1 AND seq <= ?3")
        .and_then(|mut s| s.execute(params![session as i64, step, last as i64]))
        .map(|_| ())
        .map_err(failed)
}

/// A session is over.
pub(super) fn end_pending(conn: &Connection, session: u64) -> Result<()> {
    conn.execute("DELETE FROM fb_pending WHERE session = ?1", [session as i64]).map(|_| ()).map_err(failed)
}

/// What is kept of a session, the oldest first: number and record.
pub fn pending(conn: &Connection, session: u64) -> Result<VecDeque<(u64, Vec<u8>)>> {
    conn.prepare("SELECT seq, record FROM fb_pending WHERE session = ?1 ORDER BY seq")
        .and_then(|mut s| {
            s.query_map([session as i64], |r| Ok((r.get::<_, i64>(0)? as u64, r.get(1)?)))?.collect()
        })
        .map_err(failed)
}
