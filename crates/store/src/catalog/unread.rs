//! Records of dead programs that mean nothing to this catalog, as rows of a table that it does not know: `fb_unread`.

use super::sql_error;
use forebay_types::Result;
use rusqlite::{Connection, params};

/// Keeps a record as it came, and why it could not be read.
pub fn put_aside(conn: &Connection, session: u64, seq: u64, record: &[u8], why: &str) -> Result<()> {
    let failed = |e| sql_error("what a dead program left cannot be put aside", e);
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_unread(
             session INTEGER NOT NULL, seq INTEGER NOT NULL, why TEXT NOT NULL, record BLOB NOT NULL,
             PRIMARY KEY(session, seq)) WITHOUT ROWID",
    )
    .map_err(failed)?;
    conn.prepare_cached("INSERT OR REPLACE INTO fb_unread(session, seq, why, record) VALUES(?1, ?2, ?3, ?4)")
        .and_then(|mut s| s.execute(params![session as i64, seq as i64, why, record]))
        .map(|_| ())
        .map_err(failed)
}
