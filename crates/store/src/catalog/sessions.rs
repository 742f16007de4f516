//! Sessions: which rank wrote through which segment, and how far its records are applied.

use super::{now, sql_error};
use forebay_types::Result;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A session as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its number.
    pub session: u64,
    /// The rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Name of the rank's segment.
    pub segment: String,
}

/// Records a new session and gives its number.
pub fn open_session(
    conn: &Connection,
    rank: u32,
    size: u32,
    program: &str,
    segment: impl Fn(u64) -> String,
) -> Result<SessionRow> {
    let failed = |e| sql_error("cannot record the session", e);
    let last: i64 = conn
        .query_row("SELECT coalesce(max(session), 0) FROM fb_sessions", (), |r| r.get(0))
        .map_err(failed)?;
    let session = last as u64 + 1;
    let row = SessionRow { session, rank, size, segment: segment(session) };
    conn.execute(
        "INSERT INTO fb_sessions(session, rank, size, program, segment, opened) VALUES(?1,?2,?3,?4,?5,?6)",
        params![session as i64, rank, size, program, row.segment, now()],
    )
    .map_err(failed)?;
    Ok(row)
}

/// Sessions that were not closed.
pub fn open_sessions(conn: &Connection) -> Result<Vec<SessionRow>> {
    let read = |r: &Row| {
        Ok(SessionRow {
            session: r.get::<_, i64>(0)? as u64,
            rank: r.get(1)?,
            size: r.get(2)?,
            segment: r.get(3)?,
        })
    };
    conn.prepare("SELECT session, rank, size, segment FROM fb_sessions WHERE closed IS NULL ORDER BY session")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Marks a session as closed.
pub fn close_session(conn: &Connection, session: u64) -> Result<()> {
    conn.execute("UPDATE fb_sessions SET closed = ?2 WHERE session = ?1", params![session as i64, now()])
        .map(|_| ())
        .map_err(|e| sql_error("cannot close the session", e))
}

/// The sequence number up to which small records of a session are applied.
pub fn applied(conn: &Connection, session: u64) -> Result<u64> {
    conn.prepare_cached("SELECT applied FROM fb_sessions WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], |r| r.get::<_, i64>(0)).optional())
        .map(|n| n.unwrap_or(0) as u64)
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Records how far a session is applied, in the transaction of the effects.
pub fn set_applied(conn: &Connection, session: u64, seq: u64) -> Result<()> {
    conn.prepare_cached("UPDATE fb_sessions SET applied = ?2 WHERE session = ?1")
        .and_then(|mut s| s.execute(params![session as i64, seq as i64]))
        .map(|_| ())
        .map_err(|e| sql_error("cannot record the progress of a session", e))
}
