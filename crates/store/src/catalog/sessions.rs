//! Sessions: which rank wrote through which segment, and how far its records are applied.

use super::custody::{self, Ended};
use super::{now, pending, points, sql_error};
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A session as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its number.
    pub session: u64,
    /// The rank; that of a client is `control::NO_RANK`.
    pub rank: u32,
    /// Number of ranks; 0: it is a client's.
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
    segment: impl Fn(u64) -> Option<String>,
) -> Result<SessionRow> {
    let failed = |e| sql_error("cannot record the session", e);
    let free = (last_session(conn)? + 1..).find_map(|session| Some((session, segment(session)?)));
    let (session, segment) = free.ok_or_else(|| Error::internal("no number is left for a session"))?;
    let row = SessionRow { session, rank, size, segment };
    conn.execute(
        "INSERT INTO fb_sessions(session, rank, size, program, segment, opened) VALUES(?1,?2,?3,?4,?5,?6)",
        params![session as i64, rank, size, program, row.segment, now()],
    )
    .map_err(failed)?;
    points::note_left(conn)?;
    Ok(row)
}

/// Records a session of another catalog whose segment is there still; it is read to its end at the
/// next opening.
pub fn inherit_session(conn: &Connection, row: &SessionRow) -> Result<()> {
    conn.execute(
        "INSERT OR IGNORE INTO fb_sessions(session, rank, size, program, segment, opened) VALUES(?1,?2,?3,'',?4,?5)",
        params![row.session as i64, row.rank, row.size, row.segment, now()],
    )
    .map(|_| ())
    .map_err(|e| sql_error("cannot record the session", e))
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

/// Answers of a session kept for a successor.
const ANSWERS: u32 = 256;

/// Keeps the answer of a request that changed something, in the transaction of the change: a rank whose
/// owner dies before it has the answer gets it from the successor.
pub fn keep_answer(
    conn: &Connection,
    session: u64,
    seq: u64,
    outcome: std::result::Result<String, &Error>,
) -> Result<()> {
    let (code, text) = match &outcome {
        Ok(text) => (0, text.as_str()),
        Err(e) => (e.code() as u32, e.text()),
    };
    let failed = |e| sql_error("cannot record an answer", e);
    conn.prepare_cached("INSERT OR REPLACE INTO fb_answers(session, seq, code, text) VALUES(?1,?2,?3,?4)")
        .and_then(|mut s| s.execute(params![session as i64, seq as i64, code, text]))
        .map_err(failed)?;
    let old = "DELETE FROM fb_answers WHERE session = ?1 AND seq <= \
               (SELECT seq FROM fb_answers WHERE session = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)";
    conn.prepare_cached(old)
        .and_then(|mut s| s.execute(params![session as i64, ANSWERS]))
        .map(|_| ())
        .map_err(failed)
}

/// The last answers of a session: sequence number, and text or error.
pub fn answers(conn: &Connection, session: u64) -> Result<Vec<(u64, Result<String>)>> {
    let read = |r: &Row| {
        let (seq, code, text): (i64, u32, String) = (r.get(0)?, r.get(1)?, r.get(2)?);
        let outcome = match code {
            0 => Ok(text),
            n => Err(Error::new(Code::from_number(n).unwrap_or(Code::Internal), text)),
        };
        Ok((seq as u64, outcome))
    };
    conn.prepare_cached("SELECT seq, code, text FROM fb_answers WHERE session = ?1 ORDER BY seq")
        .and_then(|mut s| s.query_map([session as i64], read)?.collect())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Marks a session as closed whose log was read to its end; gives the points of histories that waited for
/// its rank only.
pub fn close_session(conn: &Connection, session: u64) -> Result<Vec<points::Completed>> {
    end_session(conn, session, Ended::Read)
}

/// Marks a session as closed that has ended as `how` says; gives the points of histories that waited for its rank
/// only.
pub fn end_session(conn: &Connection, session: u64, how: Ended) -> Result<Vec<points::Completed>> {
    custody::set_ended(conn, session, how)?;
    pending::end_pending(conn, session)?;
    conn.execute("DELETE FROM fb_answers WHERE session = ?1", params![session as i64])
        .map_err(|e| sql_error("cannot close the session", e))?;
    conn.execute("UPDATE fb_sessions SET closed = ?2 WHERE session = ?1", params![session as i64, now()])
        .map_err(|e| sql_error("cannot close the session", e))?;
    points::rank_leaves(conn, session)
}

/// The sequence number up to which small records of a session are applied.
pub fn applied(conn: &Connection, session: u64) -> Result<u64> {
    conn.prepare_cached("SELECT applied FROM fb_sessions WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], |r| r.get::<_, i64>(0)).optional())
        .map(|n| n.unwrap_or(0) as u64)
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Rank and size of a session, how far it is applied, and whether it is over; `None`: there was none.
pub fn session(conn: &Connection, session: u64) -> Result<Option<(u32, u32, u64, bool)>> {
    let read = |r: &Row| Ok((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)? as u64, r.get(3)?));
    conn.prepare_cached("SELECT rank, size, applied, closed IS NOT NULL FROM fb_sessions WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], read).optional())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Whether a session is a client's and no rank's.
pub fn is_client(conn: &Connection, session: u64) -> Result<bool> {
    Ok(self::session(conn, session)?.is_some_and(|(_, size, ..)| size == 0))
}

/// The highest number of a session; 0 before the first.
pub fn last_session(conn: &Connection) -> Result<u64> {
    conn.query_row("SELECT coalesce(max(session), 0) FROM fb_sessions", (), |r| r.get::<_, i64>(0))
        .map(|n| n as u64)
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Name of a session's segment; `None`: there was no such session.
pub fn segment_of(conn: &Connection, session: u64) -> Result<Option<String>> {
    conn.query_row("SELECT segment FROM fb_sessions WHERE session = ?1", [session as i64], |r| r.get(0))
        .optional()
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// Records how far the rest of a session is applied, which another one brings under the same numbers.
pub fn raise_applied(conn: &Connection, session: u64, seq: u64) -> Result<()> {
    conn.prepare_cached("UPDATE fb_sessions SET applied = max(applied, ?2) WHERE session = ?1")
        .and_then(|mut s| s.execute(params![session as i64, seq as i64]))
        .map(|_| ())
        .map_err(|e| sql_error("cannot record the progress of a session", e))
}

/// Records how far a session is applied, in the transaction of the effects.
pub fn set_applied(conn: &Connection, session: u64, seq: u64) -> Result<()> {
    conn.prepare_cached("UPDATE fb_sessions SET applied = ?2 WHERE session = ?1")
        .and_then(|mut s| s.execute(params![session as i64, seq as i64]))
        .map(|_| ())
        .map_err(|e| sql_error("cannot record the progress of a session", e))
}
