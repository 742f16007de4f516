//! Points of histories: one point for all ranks that give it.
//!
//! In a run of several ranks the same program appends the same point in each of them. The points of one curve at
//! one (step, t) are matched, the n-th of one rank with the n-th of another, and one of them is kept:
//!
//! ```text
//!  rank gives (diagram, curve, step, t, value)      fb_given   how many it has given there: this is its n-th
//!        |
//!        +-- not reduced: fb_places knows the rank whose value stands; a lower rank's takes its place
//!        +-- reduced:     fb_shares holds each rank's value until all have given theirs; what was reduced
//!                         without some (they had left) is reduced anew when they give theirs after all
//! ```
//!
//! Everything stands in the catalog before a rank's record is released: an owner that dies in between costs
//! nothing. It is forgotten when another life of the run begins: what that one gives is new. A run of one rank
//! needs none of this and writes its points as they come.
//!
//! When the run goes back and not all ranks have come, a point of an earlier life holds what the others gave to it: it
//! *stands*, and what is given anew are shares beside it, until the last rank comes.

use super::{cut, now_fact, set_fact, sql_error};
use forebay_types::Result;
use forebay_types::watch::Reduce;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

fn failed(e: rusqlite::Error) -> forebay_types::Error {
    sql_error("the catalog cannot be read", e)
}

fn broken(e: rusqlite::Error) -> forebay_types::Error {
    sql_error("cannot keep a point", e)
}

/// Runs that were made before there were such tables get them. `t` is the bits of the number: points are
/// matched by them, a NaN with a NaN.
pub(super) fn ensure_tables(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_given(
             session INTEGER NOT NULL, diagram INTEGER NOT NULL, curve INTEGER NOT NULL, step INTEGER NOT NULL,
             t INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(session, diagram, curve, step, t)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS fb_places(
             step INTEGER NOT NULL, diagram INTEGER NOT NULL, curve INTEGER NOT NULL, t INTEGER NOT NULL,
             nth INTEGER NOT NULL, rank INTEGER NOT NULL, given INTEGER NOT NULL, point INTEGER,
             PRIMARY KEY(step, diagram, curve, t, nth)) WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS fb_places_open ON fb_places(step) WHERE point IS NULL;
         CREATE TABLE IF NOT EXISTS fb_shares(
             step INTEGER NOT NULL, diagram INTEGER NOT NULL, curve INTEGER NOT NULL, t INTEGER NOT NULL,
             nth INTEGER NOT NULL, rank INTEGER NOT NULL, value REAL,
             PRIMARY KEY(step, diagram, curve, t, nth, rank)) WITHOUT ROWID;",
    )
    .map_err(|e| sql_error("the tables of histories cannot be made", e))
}

/// Who gives points, and to which history.
#[derive(Clone, Copy, Debug)]
pub struct Giver {
    /// Its session.
    pub session: u64,
    /// Its rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// The diagram, as the run numbers it.
    pub diagram: u32,
    /// What becomes of the ranks' values.
    pub reduce: Option<Reduce>,
}

/// What became of a point that was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It is a new one, in that row.
    New(i64, f64),
    /// The one in that row has another value now.
    Changed(i64, f64),
    /// Nothing is to be seen of it (yet).
    Unseen,
}

/// A point that all who are left have given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completed {
    /// The diagram, as the run numbers it.
    pub diagram: u32,
    /// The curve, as the run numbers it.
    pub curve: u32,
    /// Its row.
    pub row: i64,
    /// The step.
    pub step: i64,
    /// Abscissa.
    pub t: f64,
    /// Ordinate.
    pub value: f64,
}

/// One of the points at one (step, t) of a curve.
#[derive(Clone, Copy)]
struct PointKey {
    step: i64,
    diagram: u32,
    curve: u32,
    /// Bits of the abscissa.
    t: i64,
    nth: i64,
}

impl PointKey {
    fn read(r: &Row) -> rusqlite::Result<PointKey> {
        Ok(PointKey { step: r.get(0)?, diagram: r.get(1)?, curve: r.get(2)?, t: r.get(3)?, nth: r.get(4)? })
    }

    fn abscissa(&self) -> f64 {
        f64::from_bits(self.t as u64)
    }
}

/// Equal numbers have equal bits: one zero, one NaN.
fn bits(t: f64) -> i64 {
    let t = if t.is_nan() { f64::NAN } else { t + 0.0 };
    t.to_bits() as i64
}

/// Writes a point that a session has given, or completed; gives its row.
pub fn add_point(
    conn: &Connection,
    session: u64,
    (diagram, curve): (u32, u32),
    step: i64,
    t: f64,
    value: f64,
) -> Result<i64> {
    let sql = "INSERT INTO fb_points(diagram, curve, step, t, value, session) VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.execute(params![diagram, curve, step, t, value, session as i64]))
        .map(|_| conn.last_insert_rowid())
        .map_err(broken)
}

fn change_point(conn: &Connection, row: i64, value: f64) -> Result<Fate> {
    let before: Option<Option<f64>> = conn
        .prepare_cached("SELECT value FROM fb_points WHERE rowid = ?1")
        .and_then(|mut s| s.query_row([row], |r| r.get(0)).optional())
        .map_err(failed)?;
    match before.map(|v| v.unwrap_or(f64::NAN)) {
        Some(v) if v != value && !(v.is_nan() && value.is_nan()) => {}
        _ => return Ok(Fate::Unseen),
    }
    conn.prepare_cached("UPDATE fb_points SET value = ?2 WHERE rowid = ?1")
        .and_then(|mut s| s.execute(params![row, value]))
        .map_err(broken)?;
    Ok(Fate::Changed(row, value))
}

/// A rank gives a point.
pub fn give_point(conn: &Connection, by: &Giver, curve: u32, step: i64, t: f64, value: f64) -> Result<Fate> {
    if by.size <= 1 {
        return Ok(Fate::New(add_point(conn, by.session, (by.diagram, curve), step, t, value)?, value));
    }
    let nth = count(conn, by, curve, step, bits(t))?;
    let place = PointKey { step, diagram: by.diagram, curve, t: bits(t), nth };
    let known: Option<(u32, u32, Option<i64>)> = conn
        .prepare_cached(
            "SELECT rank, given, point FROM fb_places
             WHERE step = ?1 AND diagram = ?2 AND curve = ?3 AND t = ?4 AND nth = ?5",
        )
        .and_then(|mut s| {
            let key = params![place.step, place.diagram, place.curve, place.t, place.nth];
            s.query_row(key, |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).optional()
        })
        .map_err(failed)?;
    if let Some(row) = standing(conn, &place)? {
        let given = known.map_or(0, |(_, given, _)| given) + put_share(conn, &place, by.rank, value)?;
        put_place(conn, &place, by.rank, given, Some(row))?;
        return Ok(Fate::Unseen);
    }
    match (by.reduce, known) {
        (Some(how), known) => {
            let (given, point) = known.map_or((0, None), |(_, given, point)| (given, point));
            share(conn, by, how, &place, (given, point), value)
        }
        (None, Some((rank, _, Some(row)))) if by.rank <= rank => {
            put_place(conn, &place, by.rank, 1, Some(row))?;
            change_point(conn, row, value)
        }
        (None, Some((_, _, Some(_)))) => Ok(Fate::Unseen),
        (None, _) => {
            let row = add_point(conn, by.session, (by.diagram, curve), step, t, value)?;
            put_place(conn, &place, by.rank, 1, Some(row))?;
            cut::note_lacking(conn, step)?;
            Ok(Fate::New(row, value))
        }
    }
}

/// A point that comes of an earlier life of the run: what that one gave is not matched any more. It is one that is
/// there already, or a new one.
pub fn give_late(conn: &Connection, by: &Giver, curve: u32, step: i64, t: f64, value: f64) -> Result<Fate> {
    let sql =
        "SELECT count(*) > 0 FROM fb_points WHERE diagram = ?1 AND curve = ?2 AND step = ?3 AND t IS ?4";
    let there = conn
        .prepare_cached(sql)
        .and_then(|mut s| s.query_row(params![by.diagram, curve, step, t], |r| r.get(0)))
        .map_err(failed)?;
    match by.size > 1 && (there || by.reduce.is_some()) {
        true => Ok(Fate::Unseen),
        false => Ok(Fate::New(add_point(conn, by.session, (by.diagram, curve), step, t, value)?, value)),
    }
}

/// How many points this session has given there before this one.
fn count(conn: &Connection, by: &Giver, curve: u32, step: i64, t: i64) -> Result<i64> {
    conn.prepare_cached(
        "INSERT INTO fb_given VALUES(?1, ?2, ?3, ?4, ?5, 1)
         ON CONFLICT(session, diagram, curve, step, t) DO UPDATE SET n = n + 1 RETURNING n - 1",
    )
    .and_then(|mut s| s.query_row(params![by.session as i64, by.diagram, curve, step, t], |r| r.get(0)))
    .map_err(broken)
}

fn put_place(conn: &Connection, p: &PointKey, rank: u32, given: u32, point: Option<i64>) -> Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO fb_places VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
        .and_then(|mut s| s.execute(params![p.step, p.diagram, p.curve, p.t, p.nth, rank, given, point]))
        .map(|_| ())
        .map_err(broken)
}

/// A rank's share of a reduced point.
fn share(
    conn: &Connection,
    by: &Giver,
    how: Reduce,
    p: &PointKey,
    (given, point): (u32, Option<i64>),
    value: f64,
) -> Result<Fate> {
    if point.is_some() && given >= by.size {
        return Ok(Fate::Unseen); // all had given it: this rank came back, and gives it again
    }
    let given = given + put_share(conn, p, by.rank, value)?;
    let left = || -> Result<bool> {
        Ok(now_fact(conn, "left")? > 0 && is_complete(conn, p, by.size, &ranks_that_left(conn)?)?)
    };
    let fate = match point {
        Some(row) => change_point(conn, row, reduced(conn, p, how)?)?,
        None if given >= by.size || left()? => {
            let (row, value) = add_reduced(conn, by.session, p, how)?;
            Fate::New(row, value)
        }
        None => Fate::Unseen,
    };
    let row = match fate {
        Fate::New(row, _) => Some(row),
        _ => point,
    };
    put_place(conn, p, by.rank, given, row)?;
    if let Fate::New(..) = fate {
        cut::note_lacking(conn, p.step)?;
    }
    if given >= by.size {
        forget_shares(conn, p)?;
        row.map_or(Ok(()), |row| cut::note_whole(conn, row))?;
    }
    Ok(fate)
}

/// Keeps a rank's share; gives 1 if it had not given one.
fn put_share(conn: &Connection, p: &PointKey, rank: u32, value: f64) -> Result<u32> {
    let key = params![p.step, p.diagram, p.curve, p.t, p.nth, rank, value];
    let added = conn
        .prepare_cached("INSERT OR IGNORE INTO fb_shares VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        .and_then(|mut s| s.execute(key))
        .map_err(broken)?;
    if added == 0 {
        let sql = "INSERT OR REPLACE INTO fb_shares VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        conn.prepare_cached(sql).and_then(|mut s| s.execute(key)).map_err(broken)?;
    }
    Ok(added as u32)
}

fn forget_shares(conn: &Connection, p: &PointKey) -> Result<()> {
    conn.prepare_cached(
        "DELETE FROM fb_shares WHERE step = ?1 AND diagram = ?2 AND curve = ?3 AND t = ?4 AND nth = ?5",
    )
    .and_then(|mut s| s.execute(params![p.step, p.diagram, p.curve, p.t, p.nth]))
    .map(drop)
    .map_err(broken)
}

/// The row of an earlier life's point that stands there until all ranks have come.
fn standing(conn: &Connection, p: &PointKey) -> Result<Option<i64>> {
    if super::histories::owed_in(conn, p.diagram).is_none_or(|from| p.step < from) {
        return Ok(None);
    }
    let life = now_fact(conn, "life")?;
    conn.prepare_cached(
        "SELECT rowid FROM fb_points WHERE step = ?1 AND diagram = ?2 AND curve = ?3 AND t IS ?4 AND session < ?5
         ORDER BY rowid LIMIT 1 OFFSET ?6",
    )
    .and_then(|mut s| {
        let key = params![p.step, p.diagram, p.curve, p.abscissa(), life, p.nth];
        s.query_row(key, |r| r.get(0)).optional()
    })
    .map_err(failed)
}

/// The last rank has come: points that stood from a step on are made of what was given in this life.
pub(super) fn renew_standing(conn: &Connection, step: i64, life: i64) -> Result<()> {
    let sql = "SELECT f.step, f.diagram, f.curve, f.t, f.nth, f.given, p.rowid
               FROM fb_points p JOIN fb_places f ON f.step = p.step AND f.point = p.rowid
               WHERE p.step >= ?1 AND p.session < ?2";
    let stood: Vec<(PointKey, u32, i64)> = conn
        .prepare(sql)
        .and_then(|mut s| {
            s.query_map([step, life], |r| Ok((PointKey::read(r)?, r.get(5)?, r.get(6)?)))?.collect()
        })
        .map_err(failed)?;
    for (p, given, row) in stood {
        let Some(&(lowest, own)) = shares(conn, &p)?.first() else { continue };
        let value = match super::watch::reduce_of(conn, p.diagram)? {
            Some(how) => reduced(conn, &p, how)?,
            None => {
                forget_shares(conn, &p)?;
                own
            }
        };
        put_place(conn, &p, lowest, given, Some(row))?;
        cut::note_whole(conn, row)?;
        conn.prepare_cached("UPDATE fb_points SET value = ?2, session = ?3 WHERE rowid = ?1")
            .and_then(|mut s| s.execute(params![row, value, life]))
            .map_err(broken)?;
    }
    Ok(())
}

/// The shares of a point with their ranks, in the order of ranks: a sum has the same bits each time.
fn shares(conn: &Connection, p: &PointKey) -> Result<Vec<(u32, f64)>> {
    let sql = "SELECT rank, value FROM fb_shares
               WHERE step = ?1 AND diagram = ?2 AND curve = ?3 AND t = ?4 AND nth = ?5 ORDER BY rank";
    let read = |r: &Row| Ok((r.get(0)?, r.get::<_, Option<f64>>(1)?.unwrap_or(f64::NAN)));
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map(params![p.step, p.diagram, p.curve, p.t, p.nth], read)?.collect())
        .map_err(failed)
}

fn reduced(conn: &Connection, p: &PointKey, how: Reduce) -> Result<f64> {
    Ok(how.of(shares(conn, p)?.into_iter().map(|s| s.1)))
}

/// Writes a point of what there is; gives its row and its value.
fn add_reduced(conn: &Connection, session: u64, p: &PointKey, how: Reduce) -> Result<(i64, f64)> {
    let value = reduced(conn, p, how)?;
    Ok((add_point(conn, session, (p.diagram, p.curve), p.step, p.abscissa(), value)?, value))
}

/// Whether every rank has given its share, or has left.
fn is_complete(conn: &Connection, p: &PointKey, size: u32, left: &BTreeSet<u32>) -> Result<bool> {
    let gave: BTreeSet<u32> = shares(conn, p)?.into_iter().map(|s| s.0).collect();
    Ok((0..size).all(|rank| gave.contains(&rank) || left.contains(&rank)))
}

/// Ranks that were there in this life of the run and are not any more.
pub fn ranks_that_left(conn: &Connection) -> Result<BTreeSet<u32>> {
    let life = now_fact(conn, "life")?;
    let own = super::partial::RANKS_OWN;
    conn.prepare_cached(&format!(
        "SELECT rank FROM fb_sessions WHERE session >= ?1 AND {own}
           AND session NOT IN (SELECT session FROM fb_custody WHERE ended = 'unused')
         GROUP BY rank HAVING count(*) = count(closed)",
    ))
    .and_then(|mut s| s.query_map([life], |r| r.get(0))?.collect())
    .map_err(failed)
}

/// Another life of the run begins: what it gives matches nothing of before.
pub(super) fn begin_life(conn: &Connection) -> Result<()> {
    complete(conn, true)?;
    conn.execute_batch("DELETE FROM fb_given; DELETE FROM fb_places; DELETE FROM fb_shares").map_err(broken)
}

/// Says how many ranks are gone now that one has come or left.
pub(super) fn note_left(conn: &Connection) -> Result<()> {
    set_fact(conn, "left", ranks_that_left(conn)?.len() as i64)
}

/// A rank has left: points that lacked only it are reduced without it; all of them when it was the last one.
pub(super) fn rank_leaves(conn: &Connection, session: u64) -> Result<Vec<Completed>> {
    conn.execute("DELETE FROM fb_numbers WHERE session = ?1", [session as i64]).map_err(broken)?;
    note_left(conn)?;
    if let Some(head) = cut::head_of(conn, session)? {
        cut::note_lacking(conn, head)?;
    }
    let open: bool = conn
        .query_row("SELECT count(*) > 0 FROM fb_sessions WHERE closed IS NULL AND size > 0", (), |r| r.get(0))
        .map_err(failed)?;
    complete(conn, !open)
}

/// Writes the open points that nobody who is there lacks, or `all`.
fn complete(conn: &Connection, all: bool) -> Result<Vec<Completed>> {
    let sql = "SELECT step, diagram, curve, t, nth, rank, given FROM fb_places WHERE point IS NULL
               ORDER BY step, diagram, curve, t, nth";
    let open: Vec<(PointKey, u32, u32)> = conn
        .prepare_cached(sql)
        .and_then(|mut s| s.query_map((), |r| Ok((PointKey::read(r)?, r.get(5)?, r.get(6)?)))?.collect())
        .map_err(failed)?;
    let mut done = Vec::new();
    if open.is_empty() {
        return Ok(done);
    }
    let left = ranks_that_left(conn)?;
    let life = now_fact(conn, "life")?;
    let size: u32 = conn
        .query_row("SELECT coalesce(max(size), 1) FROM fb_sessions WHERE session >= ?1", [life], |r| r.get(0))
        .map_err(failed)?;
    for (p, rank, given) in open {
        if !all && !is_complete(conn, &p, size, &left)? {
            continue;
        }
        let Some(how) = super::watch::reduce_of(conn, p.diagram)? else { continue };
        let (row, value) = add_reduced(conn, life as u64, &p, how)?;
        put_place(conn, &p, rank, given, Some(row))?;
        cut::note_lacking(conn, p.step)?;
        let (diagram, curve, step, t) = (p.diagram, p.curve, p.step, p.abscissa());
        done.push(Completed { diagram, curve, row, step, t, value });
    }
    Ok(done)
}

/// Points of which that is true go.
pub(super) fn take(conn: &Connection, condition: &str) -> Result<()> {
    conn.execute(&format!("DELETE FROM fb_points WHERE {condition}"), ()).map_err(broken)?;
    cut::forget_gone(conn)
}

/// Of diagrams that no rank makes again yet.
pub(super) const NOT_MADE_AGAIN: &str =
    "diagram NOT IN (SELECT id FROM fb_made_again WHERE kind = 'diagram')";

/// All that are there go back: what this life has given from a step on, in diagrams of which that is true, is given
/// anew, and matched with nothing.
pub(super) fn forget_from(conn: &Connection, step: i64, life: i64, of: &str) -> Result<()> {
    conn.execute(&format!("DELETE FROM fb_points WHERE step >= ?1 AND session >= ?2 AND {of}"), [step, life])
        .map_err(broken)?;
    cut::forget_gone(conn)?;
    for table in ["fb_given", "fb_places", "fb_shares"] {
        conn.execute(&format!("DELETE FROM {table} WHERE step >= ?1 AND {of}"), [step]).map_err(broken)?;
    }
    Ok(())
}

/// A rank goes back as others did before it: what it gives from that step on, in one diagram if one is given, are the
/// points it gave before; not in diagrams that it makes again already.
pub(super) fn give_again(conn: &Connection, session: u64, step: i64, only: Option<u32>) -> Result<()> {
    conn.execute(
        "DELETE FROM fb_given WHERE session = ?1 AND step >= ?2 AND (?3 IS NULL OR diagram = ?3) AND diagram NOT IN
             (SELECT id FROM fb_made_again WHERE session = ?1 AND kind = 'diagram')",
        params![session as i64, step, only],
    )
    .map(drop)
    .map_err(broken)
}

/// Points of a curve in the order they came: abscissa and value.
pub fn points(conn: &Connection, diagram: u32, curve: u32) -> Result<Vec<(f64, f64)>> {
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    conn.prepare_cached("SELECT t, value FROM fb_points WHERE diagram = ?1 AND curve = ?2 ORDER BY rowid")
        .and_then(|mut s| {
            s.query_map([diagram, curve], |r| Ok((number(r.get(0)?), number(r.get(1)?))))?.collect()
        })
        .map_err(failed)
}

/// A point of a history as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Number of its row: counts up in the order in which points came.
    pub row: i64,
    /// The diagram, as the run numbers it.
    pub diagram: u32,
    /// The curve.
    pub curve: u32,
    /// Abscissa.
    pub t: f64,
    /// Ordinate.
    pub value: f64,
}

/// Points in rows `from` to `to`, in order, at most `most`; of one diagram and curve if asked.
pub fn points_between(
    conn: &Connection,
    (from, to): (i64, i64),
    of: Option<(u32, u32)>,
    most: usize,
) -> Result<Vec<Point>> {
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    let read = |r: &Row| {
        Ok(Point {
            row: r.get(0)?,
            diagram: r.get(1)?,
            curve: r.get(2)?,
            t: number(r.get(3)?),
            value: number(r.get(4)?),
        })
    };
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let begin = "SELECT rowid, diagram, curve, t, value FROM fb_points WHERE rowid BETWEEN ?1 AND ?2";
    match of {
        None => conn
            .prepare_cached(&format!("{begin} ORDER BY rowid LIMIT ?3"))
            .and_then(|mut s| s.query_map(params![from, to, most], read)?.collect()),
        Some((diagram, curve)) => conn
            .prepare_cached(&format!("{begin} AND diagram = ?4 AND curve = ?5 ORDER BY rowid LIMIT ?3"))
            .and_then(|mut s| s.query_map(params![from, to, most, diagram, curve], read)?.collect()),
    }
    .map_err(failed)
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
