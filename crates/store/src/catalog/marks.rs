//! Steps that are not what they were: marked as damaged by `repair`, or dropped by hand.
//!
//! A damaged step keeps its row, so that what is whole in it can be read by its number, and is listed
//! no more. A step that is dropped loses its row and then its file; until that is gone for good
//! `fb_dropped` keeps the file from being taken for a step that only lacks its row.

use super::steps::step_row;
use super::{now, sql_error};
use forebay_types::{Error, Result};
use rusqlite::{Connection, params};

/// What steps that are listed are not, behind `FROM fb_steps`.
pub(super) const LISTED: &str = "step NOT IN (SELECT step FROM fb_damaged)";

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS fb_damaged(step INTEGER PRIMARY KEY, why TEXT NOT NULL, found REAL NOT NULL);
CREATE TABLE IF NOT EXISTS fb_dropped(file TEXT PRIMARY KEY) WITHOUT ROWID;
";

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the marks of steps cannot be read", e)
}

/// Runs that were made before there were such tables get them.
pub(super) fn ensure_tables(conn: &Connection) -> Result<()> {
    conn.execute_batch(TABLES).map_err(|e| sql_error("the catalog cannot be brought up to date", e))
}

/// A reader of a run that no owner has opened since finds the tables, too: empty.
pub(super) fn ensure_readable(conn: &Connection) -> rusqlite::Result<()> {
    let tables = [
        ("fb_damaged", "step INTEGER PRIMARY KEY, why TEXT, found REAL"),
        ("fb_dropped", "file TEXT PRIMARY KEY"),
        ("fb_partial", "step INTEGER PRIMARY KEY, size INTEGER, missing TEXT, file TEXT, manifest TEXT"),
        ("fb_heads", "step INTEGER PRIMARY KEY, serial INTEGER, first INTEGER, last INTEGER"),
    ];
    for (name, columns) in tables.into_iter().chain(super::packs::tables()) {
        match conn.query_row("SELECT 1 FROM sqlite_master WHERE name = ?1", [name], |_| Ok(())) {
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                conn.execute_batch(&format!("CREATE TEMP TABLE {name}({columns})"))?;
            }
            other => other?,
        }
    }
    Ok(())
}

/// Marks a step as damaged.
pub fn mark_damaged(conn: &Connection, step: i64, why: &str) -> Result<()> {
    conn.execute("INSERT OR REPLACE INTO fb_damaged VALUES(?1, ?2, ?3)", params![step, why, now()])
        .map(|_| ())
        .map_err(|e| sql_error(&format!("step {step} cannot be marked"), e))
}

/// A step is whole, or its number is written anew.
pub fn unmark(conn: &Connection, step: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_damaged WHERE step = ?1")
        .and_then(|mut s| s.execute([step]))
        .map(|_| ())
        .map_err(|e| sql_error(&format!("the mark of step {step} cannot be taken away"), e))
}

/// Why a step is marked.
pub fn damage_of(conn: &Connection, step: i64) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached("SELECT why FROM fb_damaged WHERE step = ?1").map_err(failed)?;
    let mut rows = statement.query([step]).map_err(failed)?;
    let row = rows.next().map_err(failed)?;
    row.map(|r| r.get(0)).transpose().map_err(failed)
}

/// Damaged steps behind a step, all of them without one.
pub fn damaged_behind(conn: &Connection, step: Option<i64>) -> Result<Vec<i64>> {
    conn.prepare_cached("SELECT step FROM fb_damaged WHERE ?1 IS NULL OR step > ?1 ORDER BY step")
        .and_then(|mut s| s.query_map([step], |r| r.get(0))?.collect())
        .map_err(failed)
}

/// Forgets the damage of steps behind this one that are not listed: the run has gone back before them, and they do
/// not matter any more.
pub(super) fn forget_aside(conn: &Connection, step: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_damaged WHERE step > ?1 AND step NOT IN (SELECT step FROM fb_steps)")
        .and_then(|mut s| s.execute([step]))
        .map(|_| ())
        .map_err(|e| sql_error("marks of damaged steps cannot be taken off", e))
}

/// Drops a step; gives its file, which is to go now if no other step lies in it. `None`: there is no such step.
pub fn drop_step(conn: &Connection, step: i64) -> Result<Option<String>> {
    let Some(row) = step_row(conn, step)? else { return Ok(None) };
    let broken = |e| sql_error(&format!("step {step} cannot be dropped"), e);
    conn.execute("DELETE FROM fb_step_data WHERE step = ?1", [step]).map_err(broken)?;
    conn.execute("DELETE FROM fb_steps WHERE step = ?1", [step]).map_err(broken)?;
    super::described::forget_described(conn, step)?;
    if super::packs::drop_packed(conn, step, &row.file)? {
        conn.execute("INSERT OR IGNORE INTO fb_dropped VALUES(?1)", [&row.file]).map_err(broken)?;
    }
    unmark(conn, step)?;
    Ok(Some(row.file))
}

/// Files of dropped steps that may be there still.
pub fn dropped(conn: &Connection) -> Result<Vec<String>> {
    conn.prepare("SELECT file FROM fb_dropped ORDER BY file")
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .map_err(failed)
}

/// The file of a dropped step is gone, or another step has its name.
pub fn forget_dropped(conn: &Connection, file: &str) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_dropped WHERE file = ?1")
        .and_then(|mut s| s.execute([file]))
        .map(|_| ())
        .map_err(|e| sql_error(&format!("{file} cannot be forgotten"), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{add_checkpoint, add_step, checkpoints, last_step, scratch, steps};
    use crate::stepfile::Manifest;

    fn add(conn: &Connection, step: i64) {
        add_step(conn, &format!("steps/{step}.h5"), &Manifest { step, ..Manifest::default() }).unwrap();
    }

    #[test]
    fn a_damaged_step_is_listed_no_more_until_its_number_is_written_anew() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            (1..4).for_each(|n| add(tx, n));
            mark_damaged(tx, 3, "x")?;
            let listed = || Ok::<Vec<i64>, Error>(steps(tx)?.iter().map(|s| s.step).collect());
            assert_eq!((listed()?, last_step(tx)?), (vec![1, 2], Some(2)));
            assert_eq!((damaged_behind(tx, None)?, damaged_behind(tx, Some(3))?), (vec![3], vec![]));
            assert!(step_row(tx, 3)?.is_some(), "it can be read by its number");
            assert_eq!(drop_step(tx, 3)?.as_deref(), Some("steps/3.h5"));
            assert_eq!(drop_step(tx, 3)?, None);
            assert_eq!((damage_of(tx, 3)?, dropped(tx)?), (None, vec!["steps/3.h5".to_owned()]));
            add(tx, 3);
            assert_eq!((listed()?, dropped(tx)?), (vec![1, 2, 3], vec![]));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_checkpoint_of_a_damaged_or_dropped_step_is_not_kept() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            for n in 1..4 {
                add(tx, n);
                add_checkpoint(tx, None)?;
            }
            mark_damaged(tx, 1, "x")?;
            drop_step(tx, 2)?;
            let kept: Vec<bool> = checkpoints(tx)?.iter().map(|c| c.kept).collect();
            assert_eq!(kept, [false, false, true]);
            Ok(())
        })
        .unwrap();
    }
}
