//! Which of several attempts at a step is meant. Each step gets a *serial* when its file is finished:
//! one more than all before, kept in the catalog and in the file's manifest. A step and its serial
//! are one piece of data, whatever the clock says, and a checkpoint names both.
//!
//! Going back to step `s` when the highest serial is `n` puts aside every step behind `s` of a serial
//! up to `n`. That is a row of `fb_backs`, in the transaction that takes the steps off the list; later
//! manifests bear these rows, so a catalog that is made anew from the files knows it, too. Renaming
//! the files is tidying: whoever opens the run does what is left of it.

use super::{fact, sql_error};
use crate::stepfile::{Back, Manifest};
use forebay_types::Result;
use rusqlite::{Connection, params};

fn failed(e: rusqlite::Error) -> forebay_types::Error {
    sql_error("the steps that were put aside cannot be noted", e)
}

/// Whether the catalog is of format 2 or newer: a reader takes it as it is.
pub(super) fn are_kept(conn: &Connection) -> bool {
    let sql = "SELECT 1 FROM pragma_table_info('fb_steps') WHERE name = 'serial'";
    conn.prepare_cached(sql).and_then(|mut s| s.query_row((), |_| Ok(()))).is_ok()
}

/// Makes the catalog of a run of format 1 one of format 2, when it is opened for writing. Its steps
/// have the serial 0; -1 is that of a checkpoint whose step was put aside.
pub(super) fn upgrade(conn: &Connection) -> Result<()> {
    if are_kept(conn) {
        return Ok(());
    }
    conn.execute_batch(
        "ALTER TABLE fb_steps ADD COLUMN serial INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE fb_checkpoints ADD COLUMN serial INTEGER NOT NULL DEFAULT -1;
         UPDATE fb_checkpoints SET serial = 0 WHERE EXISTS (SELECT 1 FROM fb_steps s
             WHERE s.step = fb_checkpoints.step AND s.committed <= fb_checkpoints.made);
         CREATE TABLE fb_backs(step INTEGER PRIMARY KEY, serial INTEGER NOT NULL);
         CREATE INDEX fb_steps_by_file ON fb_steps(file);
         CREATE INDEX fb_data_by_file ON fb_data(file) WHERE file IS NOT NULL;
         INSERT INTO fb_run VALUES('serial', '0');
         UPDATE fb_run SET value = '2' WHERE key = 'format'",
    )
    .map_err(failed)
}

/// The highest serial of a step that was ever listed.
pub(super) fn last(conn: &Connection) -> Result<u64> {
    Ok(fact(conn, "serial")?.parse().unwrap_or(0))
}

/// The highest serial of a step that is listed now; it looks at every row.
pub(super) fn listed(conn: &Connection) -> Result<u64> {
    let sql = "SELECT ifnull(max(serial), 0) FROM fb_steps";
    Ok(conn.query_row(sql, (), |r| r.get::<_, i64>(0)).map_err(failed)? as u64)
}

/// Rows of steps that are listed and of which a going back says that they were put aside: each is written in one
/// transaction with the end of the other. Without those that are listed only since their files were read, as `?1` says.
const AT_ODDS: &str = "SELECT 1 FROM fb_steps s WHERE s.step > fb_backs.step AND s.serial <= fb_backs.serial
    AND s.step NOT IN (SELECT value FROM json_each(?1))";

/// Where what the catalog says of serials cannot be: a damaged one hides steps, or takes them off the list.
pub fn faults_of_serials(conn: &Connection) -> Result<Vec<String>> {
    faults_but_of(conn, "[]")
}

fn faults_but_of(conn: &Connection, new: &str) -> Result<Vec<String>> {
    if !are_kept(conn) {
        return Ok(Vec::new());
    }
    let (noted, found) = (last(conn).unwrap_or(0), listed(conn)?);
    let mut faults = Vec::new();
    if found > noted {
        faults.push(format!(
            "it says that the highest serial of a step is {noted}, and has steps up to {found}, which are not listed"
        ));
    }
    let sql = format!("SELECT step, serial FROM fb_backs WHERE EXISTS ({AT_ODDS}) ORDER BY step");
    let odd: Vec<(i64, i64)> = conn
        .prepare(&sql)
        .and_then(|mut s| s.query_map([new], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    faults.extend(odd.iter().map(|(step, serial)| {
        format!(
            "it says that the run went back to step {step} at serial {serial}, and has steps that this put aside"
        )
    }));
    Ok(faults)
}

/// Mends them by the rows of the steps, which their files confirm, but for those that are `new`: they were listed before
/// it was known that they are put aside. Gives what was wrong.
pub fn mend_serials(conn: &Connection, new: &[i64]) -> Result<Vec<String>> {
    let new = format!("{new:?}");
    let faults = faults_but_of(conn, &new)?;
    if !faults.is_empty() {
        let highest = last(conn).unwrap_or(0).max(listed(conn)?);
        conn.execute(
            "INSERT INTO fb_run VALUES('serial', ?1) ON CONFLICT(key) DO UPDATE SET value = ?1",
            [highest.to_string()],
        )
        .map_err(failed)?;
        conn.execute(&format!("DELETE FROM fb_backs WHERE EXISTS ({AT_ODDS})"), [&new]).map_err(failed)?;
    }
    Ok(faults)
}

/// The times that the run went back to a checkpoint, as far as they still put something aside.
pub fn backs(conn: &Connection) -> Result<Vec<Back>> {
    if !are_kept(conn) {
        return Ok(Vec::new());
    }
    conn.prepare_cached("SELECT step, serial FROM fb_backs ORDER BY step")
        .and_then(|mut s| {
            s.query_map((), |r| Ok(Back { step: r.get(0)?, serial: r.get::<_, i64>(1)? as u64 }))?.collect()
        })
        .map_err(failed)
}

/// Whether the step of a file was put aside.
pub fn is_aside(conn: &Connection, m: &Manifest) -> Result<bool> {
    Ok(backs(conn)?.iter().any(|b| m.step > b.step && m.serial <= b.serial))
}

/// The run goes back to a step: all that are behind it now are put aside.
pub(super) fn note_back(conn: &Connection, step: i64) -> Result<()> {
    // What an earlier going back to here or further on put aside, this one does too.
    conn.execute("DELETE FROM fb_backs WHERE step >= ?1", [step]).map_err(failed)?;
    conn.execute("INSERT INTO fb_backs VALUES(?1, ?2)", params![step, last(conn)? as i64])
        .map(|_| ())
        .map_err(failed)
}

/// Takes over what the manifest of a step that is listed says.
pub(super) fn learn(conn: &Connection, m: &Manifest) -> Result<()> {
    if m.serial > last(conn)? {
        conn.prepare_cached("UPDATE fb_run SET value = ?1 WHERE key = 'serial'")
            .and_then(|mut s| s.execute([m.serial.to_string()]))
            .map_err(failed)?;
    }
    let sql = "INSERT INTO fb_backs VALUES(?1, ?2) ON CONFLICT(step) DO UPDATE SET serial = max(serial, ?2)";
    for b in &m.backs {
        conn.prepare_cached(sql)
            .and_then(|mut s| s.execute(params![b.step, b.serial as i64]))
            .map_err(failed)?;
    }
    Ok(())
}

/// Takes off the list what was put aside and was listed before that was known, as happens when files
/// are read in the order of their names. Gives the steps.
pub fn set_aside(conn: &Connection) -> Result<Vec<i64>> {
    let behind =
        "step IN (SELECT s.step FROM fb_steps s JOIN fb_backs b ON s.step > b.step AND s.serial <= b.serial)";
    let sql = format!("SELECT step FROM fb_steps WHERE {behind} ORDER BY step");
    let steps: Vec<i64> =
        conn.prepare(&sql).and_then(|mut s| s.query_map((), |r| r.get(0))?.collect()).map_err(failed)?;
    for table in ["fb_described", "fb_packed", "fb_step_data", "fb_steps"] {
        conn.execute(&format!("DELETE FROM {table} WHERE {behind}"), ()).map_err(failed)?;
    }
    Ok(steps)
}
