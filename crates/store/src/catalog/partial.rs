//! Steps that lack ranks whose memory is on another host: what is here of them is in a file beside those of the
//! whole steps, and `fb_partial` says which. Such a step is not listed; what comes later makes it whole.

use super::marks::forget_dropped;
use super::{serials, sql_error};
use crate::stepfile::Manifest;
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the steps that lack ranks cannot be read", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_partial(
             step INTEGER PRIMARY KEY, size INTEGER NOT NULL, missing TEXT NOT NULL, file TEXT NOT NULL,
             manifest TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_away(
             session INTEGER PRIMARY KEY, rank INTEGER NOT NULL, life INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_bringing(session INTEGER PRIMARY KEY, origin INTEGER NOT NULL)",
    )
    .map_err(failed)
}

/// A step that lacks ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialRow {
    /// Its number.
    pub step: i64,
    /// Number of ranks.
    pub size: u32,
    /// The ranks that lack, their sessions, and by which program on which host those were.
    pub missing: Vec<(u32, u64, String)>,
    /// The file of what is here, relative to the run.
    pub file: String,
    /// What that file says.
    pub manifest: Manifest,
}

impl PartialRow {
    /// Whether it has the part of a session.
    pub fn has(&self, session: u64) -> bool {
        let given = self.manifest.partial.iter().flat_map(|p| p.given.values());
        given.into_iter().any(|g| g.session == session)
    }
}

/// Keeps a step whose part is durable under its name.
pub fn add_partial(conn: &Connection, file: &str, m: &Manifest) -> Result<()> {
    let partial = m.partial.as_ref().ok_or_else(|| Error::internal("a step that lacks nobody"))?;
    let json = |e: serde_json::Error| Error::internal(e.to_string());
    let missing = serde_json::to_string(&partial.missing).map_err(json)?;
    let manifest = serde_json::to_string(m).map_err(json)?;
    forget_dropped(conn, file)?;
    // Another step has a higher serial: going back to before this one puts it aside.
    serials::learn(conn, m)?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO fb_partial(step, size, missing, file, manifest) VALUES(?1, ?2, ?3, ?4, ?5)",
    )
    .and_then(|mut s| s.execute(params![m.step, partial.size, missing, file, manifest]))
    .map(|_| ())
    .map_err(|e| sql_error(&format!("step {} cannot be kept without the ranks that it lacks", m.step), e))
}

/// What becomes of a file of a step that lacks ranks, and that no row names: it gets its row, if the step is not listed
/// and was not put aside. Says whether the file is needed.
pub fn adopt_partial(conn: &Connection, file: &str, m: &Manifest) -> Result<bool> {
    let known = partial_step(conn, m.step)?.is_some_and(|row| row.serial >= m.serial);
    if known {
        return Ok(true);
    }
    if super::step_row(conn, m.step)?.is_some() || super::is_aside(conn, m)? {
        return Ok(false);
    }
    add_partial(conn, file, m).map(|()| true)
}

/// All steps that lack ranks, in order.
pub fn partial_steps(conn: &Connection) -> Result<Vec<PartialRow>> {
    type Fields = (i64, u32, String, String);
    let read = |r: &Row| -> rusqlite::Result<Fields> { Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)) };
    let rows: Vec<Fields> = conn
        .prepare_cached("SELECT step, size, file, manifest FROM fb_partial ORDER BY step")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(failed)?;
    let row = |(step, size, file, manifest): Fields| {
        let broken = |why: String| {
            let text = format!(
                "what the catalog says of step {step}, which lacks ranks: {why}; run `forebay repair`"
            );
            Error::new(Code::Corrupt, text)
        };
        let manifest: Manifest = serde_json::from_str(&manifest).map_err(|e| broken(e.to_string()))?;
        let partial = manifest.partial.as_ref().ok_or_else(|| broken("it lacks nobody".into()))?;
        let program = |session: u64| -> Result<String> {
            conn.prepare_cached("SELECT program FROM fb_sessions WHERE session = ?1")
                .and_then(|mut s| s.query_row([session as i64], |r| r.get(0)).optional())
                .map(Option::unwrap_or_default)
                .map_err(failed)
        };
        let missing = partial.missing.iter().map(|(rank, session)| Ok((*rank, *session, program(*session)?)));
        Ok(PartialRow { step, size, missing: missing.collect::<Result<_>>()?, file, manifest })
    };
    rows.into_iter().map(row).collect()
}

/// The manifest of a step that lacks ranks; `None` when there is no such step.
pub fn partial_step(conn: &Connection, step: i64) -> Result<Option<Manifest>> {
    let text: Option<String> = conn
        .prepare_cached("SELECT manifest FROM fb_partial WHERE step = ?1")
        .and_then(|mut s| s.query_row([step], |r| r.get(0)).optional())
        .map_err(failed)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Numbers and files of all steps that lack ranks.
pub fn partial_files(conn: &Connection) -> Result<Vec<(i64, String)>> {
    conn.prepare_cached("SELECT step, file FROM fb_partial ORDER BY step")
        .and_then(|mut s| s.query_map((), |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)
}

/// Takes a step off the list of those that lack ranks, because it is whole or is not wanted any more; gives its file,
/// which goes when this is committed.
pub fn forsake_partial(conn: &Connection, step: i64) -> Result<Option<String>> {
    let broken = |e| sql_error(&format!("step {step} cannot be given up"), e);
    let file: Option<String> = conn
        .prepare_cached("DELETE FROM fb_partial WHERE step = ?1 RETURNING file")
        .and_then(|mut s| s.query_row([step], |r| r.get(0)).optional())
        .map_err(broken)?;
    if let Some(file) = &file {
        conn.execute("INSERT OR IGNORE INTO fb_dropped VALUES(?1)", [file]).map_err(broken)?;
    }
    Ok(file)
}

/// Takes all steps behind `last` off the list of those that lack ranks; says whether there were any.
pub(super) fn forsake_behind(conn: &Connection, last: i64) -> Result<bool> {
    let behind: Vec<i64> =
        partial_files(conn)?.into_iter().map(|(step, _)| step).filter(|step| *step > last).collect();
    behind.iter().try_for_each(|step| forsake_partial(conn, *step).map(drop))?;
    Ok(!behind.is_empty())
}

/// The memory of a session on another host may have more than what came; `life` is that of the run which it was of,
/// [`PAST`] if the run has gone back since.
pub fn note_away(conn: &Connection, session: u64, life: u64) -> Result<()> {
    let life = match life {
        PAST => past(gone_back(conn).unwrap_or(0)),
        life => life as i64,
    };
    conn.execute(
        "INSERT OR REPLACE INTO fb_away SELECT session, rank, ?2 FROM fb_sessions WHERE session = ?1",
        params![session as i64, life],
    )
    .map(|_| ())
    .map_err(failed)
}

/// The life of the run of a session from before the run went back.
pub const PAST: u64 = u64::MAX;
/// From which step on things are made again since the run went back in this life.
const GONE_BACK: &str = "gone_back_from";
/// The first sessions of lives of the run.
const LIVES: &str = "lives";
/// What the sessions of ranks are, behind `FROM fb_sessions`: others only bring the rest of one, or are a client's.
pub(super) const RANKS_OWN: &str = "size > 0 AND session NOT IN (SELECT session FROM fb_bringing)";

/// What `life` is in `fb_away` of a session from before the run went back, when from that step on all is made again; -1:
/// also what belongs to no step.
fn past(from: i64) -> i64 {
    -2 - from.clamp(-1, i64::MAX - 2)
}

fn gone_back(conn: &Connection) -> Option<i64> {
    super::fact(conn, GONE_BACK).ok()?.parse().ok()
}

/// The run went back, and all is made again from that step on (-1: also what belongs to no step): what those have of
/// that is of nothing that will ever be.
pub(super) fn forget_memories(conn: &Connection, from: i64) -> Result<()> {
    let sql = "UPDATE fb_away SET life = CASE WHEN life >= 0 THEN ?1 ELSE max(life, ?1) END";
    conn.execute(sql, [past(from)]).map_err(failed)?;
    super::set_fact(conn, GONE_BACK, gone_back(conn).map_or(from, |before| before.min(from)))
}

/// A session was over when the run went back, and is not closed.
pub fn note_past(conn: &Connection, session: u64) -> Result<()> {
    note_away(conn, session, PAST)
}

/// A session is closed whose memory has nothing more.
pub fn forget_away(conn: &Connection, session: u64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_away WHERE session = ?1")
        .and_then(|mut s| s.execute([session as i64]))
        .map(drop)
        .map_err(failed)
}

/// Whether a session was closed with all that the memory of its host had: what comes of it again is none that anybody
/// lacks.
pub fn has_all_of(conn: &Connection, session: u64) -> Result<bool> {
    let sql = "SELECT count(*) > 0 FROM fb_away WHERE session = ?1";
    let is_away: bool = conn
        .prepare_cached(sql)
        .and_then(|mut s| s.query_row([session as i64], |r| r.get(0)))
        .map_err(failed)?;
    Ok(!is_away && super::custody::ended(conn, session)? == Some(super::custody::Ended::Read))
}

/// Another life begins, which has not gone back.
pub(super) fn begin_life(conn: &Connection, life: u64) -> Result<()> {
    super::histories::forget(conn, GONE_BACK)?;
    let mut known = lives(conn)?;
    known.push(life);
    // Of those before the oldest session that is not over nothing comes any more.
    let sql = "SELECT min(session) FROM (SELECT session FROM fb_away UNION SELECT session FROM fb_sessions WHERE closed IS NULL)";
    let oldest: Option<i64> = conn.query_row(sql, (), |r| r.get(0)).map_err(failed)?;
    let first = known.iter().rev().find(|life| oldest.is_none_or(|n| **life <= n as u64)).copied();
    known.retain(|life| first.is_none_or(|first| *life >= first));
    super::histories::keep(conn, LIVES, &known)
}

/// Sessions whose memory on another host may have more: their rank, and the life of the run that they were of.
pub fn away(conn: &Connection) -> Result<Vec<(u64, u32, u64)>> {
    conn.prepare("SELECT session, rank, life FROM fb_away ORDER BY session")
        .and_then(|mut s| {
            let life = |n: i64| u64::try_from(n).unwrap_or(PAST);
            let read = |r: &Row| Ok((r.get::<_, i64>(0)? as u64, r.get(1)?, life(r.get(2)?)));
            s.query_map((), read)?.collect()
        })
        .map_err(failed)
}

/// All of it has come; gives the steps that lack more of it.
pub fn brought(conn: &Connection, session: u64) -> Result<Vec<i64>> {
    conn.execute("DELETE FROM fb_away WHERE session = ?1", [session as i64]).map_err(failed)?;
    let lacks = |row: &PartialRow| row.missing.iter().any(|(_, of, _)| *of == session);
    Ok(partial_steps(conn)?.into_iter().filter(lacks).map(|row| row.step).collect())
}

/// Whose rest a session brings, and what that may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brings {
    /// The session whose memory it is.
    pub origin: u64,
    /// Another life of the run has begun since.
    pub is_earlier: bool,
    /// The run went back since: from that step on all is made again; -1: also what belongs to no step.
    pub gone_from: Option<i64>,
}

impl Brings {
    /// Whether something under that step is made again.
    pub fn is_gone(&self, step: i64) -> bool {
        self.gone_from.is_some_and(|from| step >= from)
    }
}

/// A session that was admitted brings the rest of another one, and is no rank's own.
pub fn note_bringing(conn: &Connection, session: u64, origin: u64) -> Result<()> {
    conn.execute("INSERT OR REPLACE INTO fb_bringing VALUES(?1, ?2)", params![session as i64, origin as i64])
        .map(drop)
        .map_err(failed)
}

/// Whose rest a session brings, if it does.
pub fn brings(conn: &Connection, session: u64) -> Result<Option<Brings>> {
    let life = super::now_fact(conn, "life")?;
    let sql = "SELECT origin, life FROM fb_bringing b LEFT JOIN fb_away a ON a.session = b.origin WHERE b.session = ?1";
    conn.prepare_cached(sql)
        .and_then(|mut s| {
            s.query_row([session as i64], |r| {
                let (origin, of): (i64, Option<i64>) = (r.get(0)?, r.get(1)?);
                let gone_from = of.filter(|of| *of < 0).map(|of| -2 - of);
                Ok(Brings { origin: origin as u64, is_earlier: origin < life, gone_from })
            })
            .optional()
        })
        .map_err(failed)
}

/// The first sessions of lives of the run of which something may come yet.
pub fn lives(conn: &Connection) -> Result<Vec<u64>> {
    Ok(super::histories::kept::<Vec<u64>>(conn, LIVES))
}

/// The first session of this life of the run.
pub fn life(conn: &Connection) -> Result<u64> {
    Ok(super::now_fact(conn, "life")?.max(0) as u64)
}
