//! Ranks that were killed in the body of a step, behind the snapshot at its bottom. What that body adds to histories
//! behind the snapshot is not there, and a restart from it does not make it: the state is that of the next head. Such a
//! restart says so, and takes points away to which one of those ranks had not given its value.
//!
//! ```text
//!  head h --- computes --- snapshot h+1 --- rows of h --- head h+1
//!                                        ^ killed here: fb_cut has (session, h)
//! ```

use super::tables::{SESSION_COLUMN, STEP_COLUMN, tables};
use super::{points, quoted, sql_error};
use forebay_types::Result;
use forebay_types::control::Restarted;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

fn failed(e: rusqlite::Error) -> forebay_types::Error {
    sql_error("where ranks were killed cannot be read", e)
}

/// Runs that were made before there were such tables get them.
pub(super) fn ensure_tables(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_cut(session INTEGER PRIMARY KEY, head INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_short(point INTEGER PRIMARY KEY, step INTEGER NOT NULL)",
    )
    .map_err(failed)
}

/// A rank has ended without a word, and the last head to which it had come was this one.
pub fn note_cut(conn: &Connection, session: u64, head: i64) -> Result<()> {
    conn.execute("INSERT OR REPLACE INTO fb_cut VALUES(?1, ?2)", params![session as i64, head])
        .map(drop)
        .map_err(|e| sql_error("where a rank was killed cannot be noted", e))
}

fn not_noted(e: rusqlite::Error) -> forebay_types::Error {
    sql_error("a point that lacks the value of a rank cannot be noted", e)
}

/// It is whole, or made again.
pub(super) fn note_whole(conn: &Connection, point: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_short WHERE point = ?1")
        .and_then(|mut s| s.execute([point]))
        .map(drop)
        .map_err(not_noted)
}

/// Points are gone: their rows will be other points'.
pub(super) fn forget_gone(conn: &Connection) -> Result<()> {
    conn.execute("DELETE FROM fb_short WHERE point NOT IN (SELECT rowid FROM fb_points)", ())
        .map(drop)
        .map_err(not_noted)
}

/// The last head to which a session came, if its rank was killed.
pub(super) fn head_of(conn: &Connection, session: u64) -> Result<Option<i64>> {
    conn.prepare_cached("SELECT head FROM fb_cut WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], |r| r.get(0)).optional())
        .map_err(failed)
}

/// Notes which points of a step lack the value of a rank that was killed in its body in this life of the run: those that
/// were reduced without its share, and those that are another rank's in a curve to which it gave, or which begins there.
pub(super) fn note_lacking(conn: &Connection, step: i64) -> Result<()> {
    if super::now_fact(conn, "left")? == 0 {
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO fb_short SELECT f.point, f.step
               FROM fb_cut c JOIN fb_sessions s ON s.session = c.session JOIN fb_places f ON f.step = c.head
               JOIN fb_diagrams d ON d.id = f.diagram
               WHERE c.head = ?1 AND c.session >= ?2 AND f.point IS NOT NULL
                   AND CASE WHEN json_extract(d.declaration, '$.reduce') IS NULL
                   THEN f.rank > s.rank AND (EXISTS (SELECT 1 FROM fb_given g
                           WHERE g.session = c.session AND g.diagram = f.diagram AND g.curve = f.curve)
                       OR NOT EXISTS (SELECT 1 FROM fb_points p
                           WHERE p.diagram = f.diagram AND p.curve = f.curve AND p.step < f.step))
                   ELSE f.given < s.size AND NOT EXISTS (SELECT 1 FROM fb_shares h
                       WHERE h.step = f.step AND h.diagram = f.diagram AND h.curve = f.curve AND h.t = f.t
                           AND h.nth = f.nth AND h.rank = s.rank)
                   END";
    let life = super::now_fact(conn, "life")?;
    conn.prepare_cached(sql).and_then(|mut s| s.execute([step, life])).map(drop).map_err(not_noted)
}

/// The ranks that were killed in the body behind which the state of that step is, and the head of that body.
fn cut_before(conn: &Connection, step: i64) -> Result<Option<(i64, BTreeSet<u32>)>> {
    let sql = "SELECT c.head, s.rank FROM fb_cut c JOIN fb_sessions s ON s.session = c.session
               WHERE c.head < ?1 AND NOT EXISTS (SELECT 1 FROM fb_steps WHERE step > c.head AND step < ?1)";
    let found: Vec<(i64, u32)> = conn
        .prepare_cached(sql)
        .and_then(|mut s| s.query_map([step], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    let Some(head) = found.iter().map(|(head, _)| *head).max() else { return Ok(None) };
    let ranks = found.into_iter().filter(|(at, _)| *at == head).map(|(_, rank)| rank).collect();
    Ok(Some((head, ranks)))
}

/// The run goes back to a step behind whose snapshot ranks were killed: what is lacking is named, compared with the body
/// of the snapshot before, or of the step before; points that lack a share go. None where nothing is, and of a number of
/// the program's own, whose heads are its affair.
pub fn cut_behind(conn: &Connection, back: &Restarted) -> Result<Option<String>> {
    let step = back.step;
    if back.heads.is_some() {
        return Ok(None);
    }
    let Some((head, ranks)) = cut_before(conn, step)? else { return Ok(None) };
    let stride = step - head;
    let before: Option<i64> = conn
        .query_row("SELECT max(step) FROM fb_steps WHERE step < ?1", [step], |r| r.get(0))
        .optional()
        .map_err(failed)?
        .flatten();
    let is_first = before.is_none();
    let before = before.unwrap_or(head) - stride;
    let mut lacks = Vec::new();
    // `of` are all of them, of a rank or a diagram.
    let mut compare = |name: String, what: String, of: &str, is_short: bool| -> Result<()> {
        let count = |sql: String| conn.query_row(&sql, (), |r| r.get::<_, i64>(0)).map_err(failed);
        let at = |step: i64| count(format!("SELECT count(*) FROM {of} = {step}"));
        let (now, usual) = (at(head)?, at(before)?);
        if now < usual || is_short {
            lacks.push(format!("{name} has {now} {what} of step {head}, and {usual} of step {before}"));
        } else if is_first && count(format!("SELECT count(*) FROM {of} >= 0"))? == 0 {
            lacks.push(format!("{name} has no {what} yet, and nothing says whether it was to have some"));
        }
        Ok(())
    };
    for t in tables(conn)?.iter().filter(|t| t.history) {
        for rank in &ranks {
            let of = format!(
                "{} WHERE {SESSION_COLUMN} IN (SELECT session FROM fb_sessions WHERE rank = {rank}) AND {STEP_COLUMN}",
                quoted(&t.name)
            );
            compare(format!("{:?}", t.name), format!("rows of rank {rank}"), &of, false)?;
        }
    }
    for (id, title, is_short) in diagrams(conn, head)? {
        let mut name = format!("{title:?}");
        if is_short {
            let short = format!("rowid IN (SELECT point FROM fb_short WHERE step = {head})");
            points::take(conn, &format!("diagram = {id} AND {short}"))?;
            name += ", without points to which a rank had not given its value,";
        }
        let of = format!("fb_points WHERE diagram = {id} AND step");
        compare(name, "points".to_owned(), &of, is_short)?;
    }
    if lacks.is_empty() {
        return Ok(None);
    }
    let who: Vec<String> = ranks.iter().map(u32::to_string).collect();
    Ok(Some(format!(
        "rank {} was killed in the body of step {head}, behind snapshot {step}, and what it had not added there is not made again: {}; insert before the snapshot, or in the function of run.saves (fb_on_save)",
        who.join(", "),
        lacks.join("; ")
    )))
}

/// The diagrams, and whether one has points of that step to which a rank has not given its share.
fn diagrams(conn: &Connection, step: i64) -> Result<Vec<(u32, String, bool)>> {
    let sql = "SELECT d.id, d.title, EXISTS (SELECT 1 FROM fb_short f JOIN fb_points p ON p.rowid = f.point
                   WHERE f.step = ?1 AND p.step = ?1 AND p.diagram = d.id) FROM fb_diagrams d ORDER BY d.id";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map([step], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?.collect())
        .map_err(failed)
}
