//! Rows of histories and points of diagrams that go when a run goes back, for they are made again: those behind the
//! step, and those of starts that did not go on where the run was. *Stray* are the rows of such a start: it was refused
//! at its first snapshot, or died before it.
//!
//! A start is *whole* when every rank has come. What a rank has made that has not come nobody makes again: it goes
//! when that rank comes. So a start that never becomes whole takes nothing from the ranks that it lacks:
//!
//! ```text
//!  rank 1 goes back to step 3; rank 0 is not there     rows of rank 1 from step 3 on go; points stay, see `points`
//!  rank 0 comes: the start is whole                    rows and points from step 3 on that were made before it go
//! ```
//!
//! What was put under the state itself that a run goes back to stays until the loop comes to it. A rank that adds to a
//! history before makes that one again, and no other: `fb_made_again` knows who has, and what it has made since stays.

use super::partial::RANKS_OWN;
use super::steps::finished;
use super::tables::{SESSION_COLUMN, STEP_COLUMN, ensure_column, row_number_of, tables};
use super::{now_fact, points, quoted, sql_error};
use forebay_types::control::History;
use forebay_types::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the catalog cannot be read", e)
}

/// The fact that says from which step on in this life rows and points of absent ranks are to go when these ranks
/// come.
const OWED: &str = "rows_owed";
/// The fact that says, by number of the diagram, from which step on its points are to go when absent ranks come: of
/// diagrams that are made again before others are.
const OWED_POINTS: &str = "points_owed";
/// Kinds of histories in `fb_made_again`.
const TABLE: &str = "table";
const DIAGRAM: &str = "diagram";
/// The fact that says which sessions were of lives that did not go on where the run was, and came to nothing: from
/// which one to which.
const STRAY: &str = "strays";
/// Facts that named rows by their numbers, before rows knew their session.
const BY_NUMBER: [&str; 2] = ["rows_before", "rows_stray"];
/// The session that strays of then are said to be of.
const UNKNOWN_STRAY: i64 = -1;

pub(super) fn kept<T: DeserializeOwned + Default>(conn: &Connection, key: &str) -> T {
    super::fact(conn, key).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

pub(super) fn keep<T: Serialize>(conn: &Connection, key: &str, value: &T) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))?;
    conn.execute("INSERT OR REPLACE INTO fb_run VALUES(?1, ?2)", (key, text))
        .map(drop)
        .map_err(|e| sql_error("what was there before cannot be noted", e))
}

pub(super) fn forget(conn: &Connection, key: &str) -> Result<()> {
    conn.execute("DELETE FROM fb_run WHERE key = ?1", [key])
        .map(drop)
        .map_err(|e| sql_error("what was there before cannot be forgotten", e))
}

/// Runs that were made before rows and points knew their session get the columns; which of them are strays they knew
/// by the numbers of rows.
pub(super) fn ensure_columns(conn: &Connection) -> Result<()> {
    ensure_column(conn, "fb_points", "session")?;
    let histories: Vec<_> = tables(conn)?.into_iter().filter(|t| t.history).collect();
    histories.iter().try_for_each(|t| ensure_column(conn, &t.name, SESSION_COLUMN))?;
    let by_number: BTreeMap<String, Vec<(i64, i64)>> = kept(conn, BY_NUMBER[1]);
    if by_number.is_empty() {
        return Ok(());
    }
    let named = histories.iter().map(|t| (t.name.as_str(), row_number_of(t), SESSION_COLUMN));
    for (name, number, session) in named.chain([("fb_points", "rowid", "session")]) {
        let sql = format!(
            "UPDATE {} SET {session} = {UNKNOWN_STRAY} WHERE {number} > ?1 AND {number} <= ?2",
            quoted(name)
        );
        for range in by_number.get(name).into_iter().flatten() {
            conn.execute(&sql, *range)
                .map_err(|e| sql_error("rows of an earlier start cannot be noted", e))?;
        }
    }
    keep(conn, STRAY, &[(UNKNOWN_STRAY, UNKNOWN_STRAY)])?;
    BY_NUMBER.iter().try_for_each(|key| forget(conn, key))
}

fn forget_owed(conn: &Connection) -> Result<()> {
    [OWED, OWED_POINTS].iter().try_for_each(|key| forget(conn, key))
}

/// Whether all ranks have come in this life of the run.
fn is_whole(conn: &Connection, life: i64) -> Result<bool> {
    let sql = format!(
        "SELECT count(DISTINCT rank) >= max(size) FROM fb_sessions WHERE session >= ?1 AND {RANKS_OWN}"
    );
    conn.prepare_cached(&sql)
        .and_then(|mut s| s.query_row([life], |r| r.get::<_, Option<bool>>(0)))
        .map(|whole| whole.unwrap_or(true))
        .map_err(failed)
}

/// Which rows go when a run goes back.
#[derive(Clone, Copy)]
enum Which {
    /// Those under this step and later ones.
    From(i64),
    /// Of the program that begins at its beginning: those of all steps, and those that belong to no step, which it
    /// makes again; but not those of no step that it has made in this life already.
    All,
    /// Those that were made before this life, from that step on.
    Owed(i64),
    /// Those of these sessions.
    Of(i64, i64),
}

impl Which {
    /// The SQL condition for points that go. When the run goes back to a step, points of diagrams that a rank makes
    /// again already stay.
    fn of_points(self, life: i64) -> String {
        let condition = self.condition("step", "session", life);
        match self {
            Which::From(_) => format!("{condition} AND {}", points::NOT_MADE_AGAIN),
            _ => condition,
        }
    }

    fn condition(self, step: &str, session: &str, life: i64) -> String {
        match self {
            Which::From(n) => format!("{step} >= {n}"),
            Which::All => format!("({step} >= 0 OR {session} < {life})"),
            Which::Owed(n) => format!("{step} >= {n} AND {session} < {life}"),
            Which::Of(first, last) => format!("{session} BETWEEN {first} AND {last}"),
        }
    }
}

/// Takes back what the ranks have made that are there: all rows, when all ranks are.
fn take(conn: &Connection, which: Which, life: i64, is_whole: bool) -> Result<()> {
    take_rows(conn, &which.condition(STEP_COLUMN, SESSION_COLUMN, life), (life, is_whole), None)?;
    if is_whole {
        points::take(conn, &which.of_points(life))?;
    }
    Ok(())
}

/// Rows of histories, or of one table, of which that is true go; those of ranks that have come, when not all have.
fn take_rows(
    conn: &Connection,
    condition: &str,
    (life, is_whole): (i64, bool),
    only: Option<u32>,
) -> Result<()> {
    let there = match is_whole {
        true => String::new(),
        false => format!(
            " AND {SESSION_COLUMN} IN (SELECT session FROM fb_sessions
                 WHERE rank IN (SELECT rank FROM fb_sessions WHERE session >= {life} AND {RANKS_OWN}))"
        ),
    };
    for t in tables(conn)?.iter().filter(|t| t.history && only.is_none_or(|id| id == t.id)) {
        let sql = format!(
            "DELETE FROM {} WHERE {condition}{there} AND {SESSION_COLUMN} NOT IN
                 (SELECT session FROM fb_made_again WHERE kind = '{TABLE}' AND id = {})",
            quoted(&t.name),
            t.id
        );
        conn.execute(&sql, ()).map_err(|e| sql_error("cannot take rows of histories back", e))?;
    }
    Ok(())
}

/// The run goes back: rows of histories and points of diagrams that belong to a step or to later ones go, those of
/// ranks that have not come when they come.
pub(super) fn take_back(conn: &Connection, step: i64) -> Result<()> {
    go(conn, Which::From(step), step)
}

/// The program begins at its beginning: rows of histories and points of diagrams of all steps go, those of ranks that
/// have not come when they come.
pub(super) fn begin_anew(conn: &Connection) -> Result<()> {
    go(conn, Which::All, i64::MIN)
}

fn go(conn: &Connection, which: Which, step: i64) -> Result<()> {
    let life = now_fact(conn, "life")?;
    let is_whole = is_whole(conn, life)?;
    take(conn, which, life, is_whole)?;
    points::forget_from(conn, step.max(0), life, points::NOT_MADE_AGAIN)?;
    take_strays(conn, life, is_whole)?;
    match is_whole {
        true => forget_owed(conn),
        false => keep(conn, OWED, &Some(owed(conn).map_or(step, |n| n.min(step)))),
    }
}

/// A rank goes back as others did before it: it makes again what it has made, in one table if one is given.
pub(super) fn take_back_of(conn: &Connection, rank: u32, step: i64, only: Option<u32>) -> Result<()> {
    let own = format!(
        "{STEP_COLUMN} >= {step} AND {SESSION_COLUMN} IN (SELECT session FROM fb_sessions WHERE rank = {rank})"
    );
    take_rows(conn, &own, (0, true), only)
}

/// Before any rank has come to its first head, one adds to a history: from that step on it is made again. Says whether
/// it is the first one that does.
pub(super) fn take_back_in(conn: &Connection, session: u64, step: i64, history: History) -> Result<bool> {
    let (kind, id) = named(history);
    let sql = "SELECT count(*) = 0 FROM fb_made_again WHERE kind = ?1 AND id = ?2 AND session <> ?3";
    let is_first: bool =
        conn.query_row(sql, params![kind, id, session as i64], |r| r.get(0)).map_err(failed)?;
    let life = now_fact(conn, "life")?;
    let is_whole = is_whole(conn, life)?;
    match history {
        History::Table(id) => {
            take_rows(conn, &format!("{STEP_COLUMN} >= {step}"), (life, is_whole), Some(id))?;
        }
        History::Diagram(id) if is_first => {
            if is_whole {
                points::take(conn, &format!("step >= {step} AND diagram = {id}"))?;
            } else {
                let mut owed: BTreeMap<u32, i64> = kept(conn, OWED_POINTS);
                owed.entry(id).and_modify(|n| *n = step.min(*n)).or_insert(step);
                keep(conn, OWED_POINTS, &owed)?;
            }
            points::forget_from(conn, step, life, &format!("diagram = {id}"))?;
        }
        // What the others have given since is matched.
        History::Diagram(_) => {}
    }
    Ok(is_first)
}

/// A history as `fb_made_again` names it.
pub(super) fn named(history: History) -> (&'static str, u32) {
    match history {
        History::Table(id) => (TABLE, id),
        History::Diagram(id) => (DIAGRAM, id),
    }
}

/// From which step on rows and points of ranks that have not come are still to go.
pub(super) fn owed(conn: &Connection) -> Option<i64> {
    kept(conn, OWED)
}

/// From which step on points of one diagram that absent ranks have made are still to go.
pub(super) fn owed_in(conn: &Connection, diagram: u32) -> Option<i64> {
    let of_it = kept::<BTreeMap<u32, i64>>(conn, OWED_POINTS).get(&diagram).copied();
    [owed(conn), of_it].into_iter().flatten().min()
}

/// A rank has come: if the run has gone back without it, what it made before goes now. Says whether anything may be
/// gone.
pub fn came(conn: &Connection) -> Result<bool> {
    let (all, in_diagrams) = (owed(conn), kept::<BTreeMap<u32, i64>>(conn, OWED_POINTS));
    let Some(first) = all.into_iter().chain(in_diagrams.values().copied()).min() else { return Ok(false) };
    let life = now_fact(conn, "life")?;
    let is_whole = is_whole(conn, life)?;
    if is_whole {
        forget_owed(conn)?;
        points::renew_standing(conn, first, life)?;
        for (diagram, step) in in_diagrams {
            points::take(conn, &format!("{} AND diagram = {diagram}", Which::Owed(step).of_points(life)))?;
        }
    }
    if let Some(step) = all {
        take(conn, Which::Owed(step), life, is_whole)?;
        take_strays(conn, life, is_whole)?;
    }
    Ok(true)
}

/// Another life begins: nothing is owed to the one before it, whose rows are strays if it did not go on where the run
/// was. `life` is its first session, `next` that of the new one.
pub(super) fn begin_life(conn: &Connection, is_stray: bool, (life, next): (i64, i64)) -> Result<()> {
    forget_owed(conn)?;
    if !is_stray {
        return Ok(());
    }
    let mut strays: Vec<(i64, i64)> = kept(conn, STRAY);
    strays.push((life, next - 1));
    keep(conn, STRAY, &strays)
}

/// Rows and points of starts that did not go on where the run was go when one does.
fn take_strays(conn: &Connection, life: i64, is_whole: bool) -> Result<()> {
    let strays: Vec<(i64, i64)> = kept(conn, STRAY);
    strays.iter().try_for_each(|(first, last)| take(conn, Which::Of(*first, *last), life, is_whole))?;
    if is_whole { forget(conn, STRAY) } else { Ok(()) }
}

/// Which histories have rows of an earlier start from a step on at which the first loop of this life begins: what
/// is to be told of it, once.
pub fn doubled(conn: &Connection, start: i64) -> Result<Option<String>> {
    const TOLD: &str = "rows_told";
    let life = now_fact(conn, "life")?;
    // Those of ranks that have not come go when they come.
    if kept::<Option<i64>>(conn, TOLD) == Some(life) || owed(conn).is_some() {
        return Ok(None);
    }
    keep(conn, TOLD, &life)?;
    let histories = tables(conn)?.into_iter().filter(|t| t.history);
    let named = histories.map(|t| (quoted(&t.name), STEP_COLUMN, SESSION_COLUMN, t.name));
    let points = ("fb_points".to_owned(), "step", "session", "the diagrams".to_owned());
    let mut found = Vec::new();
    for (table, step, session, name) in named.chain([points]) {
        let sql = format!("SELECT 1 FROM {table} WHERE {step} >= ?1 AND {session} < ?2 LIMIT 1");
        let any = conn.query_row(&sql, [start, life], |_| Ok(())).optional().map_err(failed)?;
        found.extend(any.map(|()| name));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{insert, open_session, open_table, scratch};
    use forebay_types::codec::Writer;
    use forebay_types::control::Column;
    use forebay_types::record::Cell;

    #[test]
    fn a_run_whose_rows_do_not_know_their_session_goes_back_as_it_did() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let columns = [Column { name: "n".into(), dtype: "i64".into(), ..Default::default() }];
            let t = open_table(tx, "hist", &columns, true)?;
            let row = |step: i64| {
                let mut w = Writer::new();
                Cell::Int(step).encode(&mut w);
                insert(tx, t.id, (1, step), 1, &w.finish())
            };
            let rows = || -> Vec<i64> {
                let mut found = tx.prepare("SELECT n FROM hist ORDER BY rowid").unwrap();
                found.query_map((), |r| r.get(0)).unwrap().map(std::result::Result::unwrap).collect()
            };
            (0..4).try_for_each(row)?;
            (0..2).try_for_each(row)?;
            points::add_point(tx, 1, (0, 0), 0, 0.0, 1.0)?;
            points::add_point(tx, 1, (0, 0), 0, 0.0, 2.0)?;
            for (table, column) in [("hist", SESSION_COLUMN), ("fb_points", "session")] {
                tx.execute(&format!("ALTER TABLE {table} DROP COLUMN {column}"), ()).unwrap();
            }
            // Two rows and a point of a start that was refused.
            keep(tx, "rows_stray", &BTreeMap::from([("hist", [(4, 6)]), ("fb_points", [(1, 2)])]))?;
            keep(tx, "rows_before", &BTreeMap::from([("hist", 6), ("fb_points", 2)]))?;
            for _ in 0..2 {
                ensure_columns(tx)?;
            }
            for rank in 0..2 {
                open_session(tx, rank, 2, "test", |n| Some(format!("s{n}")))?;
                super::super::set_fact(tx, "life", 1)?;
                came(tx)?;
                if rank == 0 {
                    take_back(tx, 3)?;
                    assert_eq!(rows(), [0, 1, 2, 3, 0, 1], "whose they are nobody knows");
                }
            }
            assert_eq!((rows(), points::points(tx, 0, 0)?.len()), (vec![0, 1, 2], 1));
            assert!(super::super::fact(tx, "rows_before").is_err() && owed(tx).is_none());
            Ok(())
        })
        .unwrap();
    }
}
