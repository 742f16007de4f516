//! Where the segments of each session lie, and how the session ended: `fb_custody`. A segment may be
//! removed when its log was read to its end, or when it was given up; not because somebody who did
//! not see it has closed the session.

use super::sql_error;
use crate::site::Site;
use forebay_types::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its log was read to its end.
    Read,
    /// Its segments were gone.
    Gone,
    /// What lay elsewhere was given up.
    Abandoned,
    /// Its rank had published nothing when its owner died: it opens the run again, and has not left it.
    Unused,
}

impl Ended {
    fn name(self) -> &'static str {
        match self {
            Ended::Read => "read",
            Ended::Gone => "gone",
            Ended::Abandoned => "abandoned",
            Ended::Unused => "unused",
        }
    }
}

fn failed(e: rusqlite::Error) -> Error {
    sql_error("where the segments of the run lie cannot be noted", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_custody(session INTEGER PRIMARY KEY, site TEXT, ended TEXT)",
    )
    .map_err(failed)
}

fn is_there(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM sqlite_master WHERE name = 'fb_custody'";
    conn.query_row(sql, (), |_| Ok(())).optional().map(|found| found.is_some()).map_err(failed)
}

/// A session is admitted: until its segment is in custody, and its site noted, nothing of it is acknowledged.
pub fn admit(conn: &Connection, session: u64) -> Result<()> {
    conn.execute("INSERT OR IGNORE INTO fb_custody(session) VALUES(?1)", [session as i64])
        .map(|_| ())
        .map_err(failed)
}

/// Notes where the segments of a session lie.
pub fn set_site(conn: &Connection, session: u64, site: &Site) -> Result<()> {
    let text = serde_json::to_string(site).map_err(|e| Error::internal(e.to_string()))?;
    let sql = "INSERT INTO fb_custody(session, site) VALUES(?1, ?2)
               ON CONFLICT(session) DO UPDATE SET site = excluded.site";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.execute(params![session as i64, text]))
        .map(|_| ())
        .map_err(failed)
}

/// Notes where the segments lie of one session, or of all, that were not closed and of which nothing was noted
/// before.
pub fn suppose_site(conn: &Connection, session: Option<u64>, site: &Site) -> Result<()> {
    let sql = "SELECT session FROM fb_sessions WHERE closed IS NULL AND (?1 IS NULL OR session = ?1)
               AND session NOT IN (SELECT session FROM fb_custody)";
    let unknown: Vec<i64> = conn
        .prepare(sql)
        .and_then(|mut s| s.query_map([session.map(|n| n as i64)], |r| r.get(0))?.collect())
        .map_err(failed)?;
    unknown.into_iter().try_for_each(|n| set_site(conn, n as u64, site))
}

/// Where the segments of the sessions lie that were not closed, as far as that was noted; `None`: the session
/// was admitted, and its segment never came into custody.
pub fn sites(conn: &Connection) -> Result<BTreeMap<u64, Option<Site>>> {
    if !is_there(conn)? {
        return Ok(BTreeMap::new());
    }
    let sql = "SELECT session, site FROM fb_custody JOIN fb_sessions USING(session)
               WHERE closed IS NULL";
    let rows: Vec<(i64, Option<String>)> = conn
        .prepare(sql)
        .and_then(|mut s| s.query_map((), |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    // One that makes no sense says nothing.
    let site = |text: Option<String>| text.map(|t| serde_json::from_str(&t)).transpose().ok();
    Ok(rows.into_iter().filter_map(|(n, text)| Some((n as u64, site(text)?))).collect())
}

/// Where the segments of one session lie, whether it is closed or not; `None` when that was not noted.
pub fn site(conn: &Connection, session: u64) -> Result<Option<Site>> {
    let text: Option<Option<String>> = conn
        .prepare_cached("SELECT site FROM fb_custody WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], |r| r.get(0)).optional())
        .map_err(failed)?;
    Ok(text.flatten().and_then(|text| serde_json::from_str(&text).ok()))
}

/// Notes how a session ended, in the transaction that closes it.
pub(super) fn set_ended(conn: &Connection, session: u64, how: Ended) -> Result<()> {
    let sql = "INSERT INTO fb_custody(session, ended) VALUES(?1, ?2)
               ON CONFLICT(session) DO UPDATE SET ended = excluded.ended";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.execute(params![session as i64, how.name()]))
        .map(|_| ())
        .map_err(failed)
}

/// How a session ended; `None`: it did not, or was closed by a version that did not say how.
pub fn ended(conn: &Connection, session: u64) -> Result<Option<Ended>> {
    let text: Option<Option<String>> = conn
        .prepare_cached("SELECT ended FROM fb_custody WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], |r| r.get(0)).optional())
        .map_err(failed)?;
    let known = [Ended::Read, Ended::Gone, Ended::Abandoned, Ended::Unused];
    Ok(text.flatten().and_then(|text| known.into_iter().find(|e| e.name() == text)))
}
