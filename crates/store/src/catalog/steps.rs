//! Steps: which are complete, what is in them, where a run goes on after a restart.

use super::data::{check_bytes, meta_of, order_text, shape_text};
use super::marks::{LISTED, damage_of, damaged_behind, forget_aside, forget_dropped, unmark};
use super::{now, serials, sql_error};
use crate::series::Planned;
use crate::stepfile::{Entry, Manifest};
use forebay_types::control::Restarted;
use forebay_types::{Code, Description, Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// A complete step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Its number.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// Its file, relative to the run.
    pub file: String,
    /// Bytes of its data sets.
    pub nbytes: u64,
    /// Values of the parameters when it was taken.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// What a run has at a moment: the steps that are listed later have higher serials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The last complete step.
    pub last: Option<StepRow>,
    /// The highest serial; a run of format 1 has none, and nobody writes it on.
    pub serial: Option<u64>,
}

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the steps in the catalog cannot be read", e)
}

pub(super) fn read(r: &Row) -> rusqlite::Result<StepRow> {
    let parameters: String = r.get(4)?;
    Ok(StepRow {
        step: r.get(0)?,
        time: r.get(1)?,
        file: r.get(2)?,
        nbytes: r.get::<_, i64>(3)? as u64,
        parameters: serde_json::from_str(&parameters).unwrap_or_default(),
    })
}

/// All complete steps, in order, without those that are marked as damaged.
pub fn steps(conn: &Connection) -> Result<Vec<StepRow>> {
    rows(conn, &format!("WHERE {LISTED}"))
}

/// All complete steps, in order, also those that are marked as damaged.
pub fn all_steps(conn: &Connection) -> Result<Vec<StepRow>> {
    rows(conn, "")
}

fn rows(conn: &Connection, condition: &str) -> Result<Vec<StepRow>> {
    let sql = format!("SELECT step, time, file, nbytes, parameters FROM fb_steps {condition} ORDER BY step");
    conn.prepare_cached(&sql).and_then(|mut s| s.query_map((), read)?.collect()).map_err(failed)
}

/// What there is now, by one question however many steps there are.
pub fn moment(conn: &Connection) -> Result<Moment> {
    let serial = match serials::are_kept(conn) {
        true => "(SELECT value FROM fb_run WHERE key = 'serial')",
        false => "NULL",
    };
    let sql = format!(
        "SELECT step, time, file, nbytes, parameters, {serial} FROM fb_steps WHERE {LISTED} ORDER BY step DESC LIMIT 1"
    );
    let row = |r: &Row| Ok((read(r)?, r.get::<_, Option<String>>(5)?));
    let found =
        conn.prepare_cached(&sql).and_then(|mut s| s.query_row((), row).optional()).map_err(failed)?;
    Ok(found.map_or_else(Moment::default, |(last, serial)| Moment {
        last: Some(last),
        serial: serial.and_then(|text| text.parse().ok()),
    }))
}

/// Numbers of the complete steps of a moment, in order.
pub fn numbers_at(conn: &Connection, moment: &Moment) -> Result<Vec<i64>> {
    let Some(last) = &moment.last else { return Ok(Vec::new()) };
    let before = if moment.serial.is_some() { "serial <= ?2" } else { "?2 IS NULL" };
    let sql = format!("SELECT step FROM fb_steps WHERE step <= ?1 AND {before} AND {LISTED} ORDER BY step");
    let until = params![last.step, moment.serial.map(|n| n as i64)];
    conn.prepare_cached(&sql).and_then(|mut s| s.query_map(until, |r| r.get(0))?.collect()).map_err(failed)
}

/// The complete steps next to a number, at most one on each side.
pub fn nearest_steps(conn: &Connection, step: i64) -> Result<Vec<i64>> {
    let sql = format!(
        "SELECT * FROM (SELECT step FROM fb_steps WHERE step < ?1 AND {LISTED} ORDER BY step DESC LIMIT 1)
         UNION ALL SELECT * FROM (SELECT step FROM fb_steps WHERE step > ?1 AND {LISTED} ORDER BY step LIMIT 1)"
    );
    conn.prepare_cached(&sql).and_then(|mut s| s.query_map([step], |r| r.get(0))?.collect()).map_err(failed)
}

/// Numbers of all complete steps, marked or not.
pub fn step_numbers(conn: &Connection) -> Result<Vec<i64>> {
    conn.prepare_cached("SELECT step FROM fb_steps ORDER BY step")
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .map_err(failed)
}

/// Files of all steps, marked or not.
pub fn step_files(conn: &Connection) -> Result<HashSet<String>> {
    conn.prepare_cached("SELECT file FROM fb_steps")
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .map_err(failed)
}

/// One complete step, marked or not.
pub fn step_row(conn: &Connection, step: i64) -> Result<Option<StepRow>> {
    conn.prepare_cached("SELECT step, time, file, nbytes, parameters FROM fb_steps WHERE step = ?1")
        .and_then(|mut s| s.query_row([step], read).optional())
        .map_err(failed)
}

/// The step whose file this is.
pub fn step_of_file(conn: &Connection, file: &str) -> Result<Option<StepRow>> {
    conn.prepare_cached("SELECT step, time, file, nbytes, parameters FROM fb_steps WHERE file = ?1")
        .and_then(|mut s| s.query_row([file], read).optional())
        .map_err(failed)
}

/// The last complete step that is not marked as damaged.
pub fn last_step(conn: &Connection) -> Result<Option<i64>> {
    conn.prepare_cached(&format!("SELECT max(step) FROM fb_steps WHERE {LISTED}"))
        .and_then(|mut s| s.query_row((), |r| r.get(0)))
        .map_err(failed)
}

/// Names of the data sets of a step.
pub fn step_names(conn: &Connection, step: i64) -> Result<Vec<String>> {
    let found: Vec<String> = conn
        .prepare_cached("SELECT name FROM fb_step_data WHERE step = ?1 ORDER BY name")
        .and_then(|mut s| s.query_map([step], |r| r.get(0))?.collect())
        .map_err(failed)?;
    if found.is_empty() { super::packs::packed_names(conn, step) } else { Ok(found) }
}

/// What and where a data set of a step is, and what it says of itself.
pub fn step_entry(conn: &Connection, step: i64, name: &str) -> Result<Option<Entry>> {
    let Some(entry) = single_data(conn, step, name)? else {
        return super::packs::packed_entry(conn, step, name);
    };
    Ok(Some(Entry { about: super::described::description_of(conn, step, name)?, ..entry }))
}

/// What stands of a data set of a step behind its name: dtype, shape, order, unit, offset, pieces, bytes.
type Fields = (String, String, String, String, i64, String, i64);
const FIELDS: &str = "dtype, shape, data_order, unit, file_offset, pieces, fb_step_data.nbytes";

fn fields(r: &Row, at: usize) -> rusqlite::Result<Fields> {
    Ok((
        r.get(at)?,
        r.get(at + 1)?,
        r.get(at + 2)?,
        r.get(at + 3)?,
        r.get(at + 4)?,
        r.get(at + 5)?,
        r.get(at + 6)?,
    ))
}

fn entry(step: i64, name: &str, fields: Fields) -> Result<Entry> {
    let (dtype, shape, order, units, offset, pieces, nbytes) = fields;
    let pieces = serde_json::from_str(&pieces).map_err(|e| {
        Error::new(
            Code::Corrupt,
            format!("the pieces of {name:?} in step {step} of the catalog: {e}; run `forebay repair`"),
        )
    })?;
    let meta = meta_of(&dtype, &shape, &order)?;
    check_bytes(&meta, nbytes).map_err(|e| e.within(format!("{name:?} of step {step}")))?;
    let about = Description::default();
    Ok(Entry { name: name.to_owned(), meta, units, offset: offset as u64, pieces, about })
}

/// What and where a data set of a step is; not what it says of itself, which its bytes do not need.
pub fn step_data(conn: &Connection, step: i64, name: &str) -> Result<Option<Entry>> {
    match single_data(conn, step, name)? {
        None => super::packs::packed_entry(conn, step, name),
        found => Ok(found),
    }
}

fn single_data(conn: &Connection, step: i64, name: &str) -> Result<Option<Entry>> {
    let sql = format!("SELECT {FIELDS} FROM fb_step_data WHERE step = ?1 AND name = ?2");
    let found = conn
        .prepare_cached(&sql)
        .and_then(|mut s| s.query_row(params![step, name], |r| fields(r, 0)).optional())
        .map_err(failed)?;
    found.map(|found| entry(step, name, found)).transpose()
}

/// All arrays of a step that lies in a file of its own.
pub fn single_entries(conn: &Connection, step: i64) -> Result<Vec<Entry>> {
    let sql = format!(
        "SELECT {FIELDS}, fb_step_data.name, description FROM fb_step_data
         LEFT JOIN fb_described ON fb_described.step = fb_step_data.step AND fb_described.name = fb_step_data.name
         WHERE fb_step_data.step = ?1 ORDER BY fb_step_data.name"
    );
    let read = |r: &Row| Ok((fields(r, 0)?, r.get::<_, String>(7)?, r.get::<_, Option<String>>(8)?));
    let mut s = conn.prepare_cached(&sql).map_err(failed)?;
    let rows = s.query_map([step], read).map_err(failed)?;
    rows.map(|row| {
        let (fields, name, about) = row.map_err(failed)?;
        let about = about.map(|text| Description::from_json(&text)).transpose()?.unwrap_or_default();
        Ok(Entry { about, ..entry(step, &name, fields)? })
    })
    .collect()
}

/// Steps with what each has of a name: all that are listed, in order, or those of these numbers, of which one that is
/// not there is given instead.
pub fn plan_of_series(
    conn: &Connection,
    name: &str,
    steps: Option<&[i64]>,
) -> Result<std::result::Result<Vec<Planned>, i64>> {
    let of = |condition: &str| {
        format!(
            "SELECT fb_steps.step, time, file, slot, sums, {FIELDS}
             FROM fb_steps LEFT JOIN fb_step_data ON fb_step_data.step = fb_steps.step AND name = ?1
                 LEFT JOIN fb_packed ON fb_packed.step = fb_steps.step
             WHERE fb_steps.{condition} ORDER BY fb_steps.step"
        )
    };
    type InPack = Option<(u64, Vec<u8>)>;
    let read = |r: &Row| -> rusqlite::Result<(StepRow, InPack, Option<Fields>)> {
        let row = StepRow {
            step: r.get(0)?,
            time: r.get(1)?,
            file: r.get(2)?,
            nbytes: 0,
            parameters: serde_json::Map::new(),
        };
        let is_there = |at| r.get_ref(at).map(|found| found != rusqlite::types::ValueRef::Null);
        if is_there(5)? {
            return Ok((row, None, Some(fields(r, 5)?)));
        }
        let slot = match is_there(3)? {
            true => Some((r.get::<_, i64>(3)? as u64, r.get(4)?)),
            false => None,
        };
        Ok((row, slot, None))
    };
    let mut layouts = super::PackLayouts::default();
    let mut planned = |(row, slot, found): (StepRow, InPack, Option<Fields>)| {
        let entry = match (slot, found) {
            (_, Some(found)) => Some(entry(row.step, name, found)?),
            (Some((slot, sums)), None) => layouts.entry(conn, &row.file, slot, &sums, name)?,
            (None, None) => None,
        };
        Ok(Planned { row, entry })
    };
    let Some(steps) = steps else {
        let mut s = conn.prepare_cached(&of(LISTED)).map_err(failed)?;
        let rows = s.query_map([name], read).map_err(failed)?;
        return rows.map(|row| planned(row.map_err(failed)?)).collect::<Result<_>>().map(Ok);
    };
    let mut s = conn.prepare_cached(&of("step = ?2")).map_err(failed)?;
    let mut found = Vec::with_capacity(steps.len());
    for step in steps {
        match s.query_row(params![name, step], read).optional().map_err(failed)? {
            Some(row) => found.push(planned(row)?),
            None => return Ok(Err(*step)),
        }
    }
    Ok(Ok(found))
}

/// Which attempt at its number a step that is listed is; 0 in format 1, which has no serials.
pub fn serial_of(conn: &Connection, step: i64) -> Result<u64> {
    if !serials::are_kept(conn) {
        return Ok(0);
    }
    conn.prepare_cached("SELECT serial FROM fb_steps WHERE step = ?1")
        .and_then(|mut s| s.query_row([step], |r| r.get::<_, i64>(0)).optional())
        .map(|serial| serial.unwrap_or(0) as u64)
        .map_err(failed)
}

/// All steps whose rows name this file: more than one when the number of one is not its own.
pub fn steps_of_file(conn: &Connection, file: &str) -> Result<Vec<i64>> {
    conn.prepare_cached("SELECT step FROM fb_steps WHERE file = ?1 ORDER BY step")
        .and_then(|mut s| s.query_map([file], |r| r.get(0))?.collect())
        .map_err(failed)
}

/// Lists a step whose file is durable under its name.
pub fn add_step(conn: &Connection, file: &str, m: &Manifest) -> Result<()> {
    let broken = |e| sql_error(&format!("cannot list step {}", m.step), e);
    let parent = last_step(conn)?;
    mark_finished(conn, false)?;
    unmark(conn, m.step)?;
    // Those that a restart has passed over were told of, and the run goes on from before them.
    forget_aside(conn, m.step)?;
    forget_dropped(conn, file)?;
    super::partial::forsake_partial(conn, m.step)?;
    let nbytes: u64 = m.data.iter().map(|e| e.nbytes()).sum();
    let parameters = serde_json::Value::Object(m.parameters.clone()).to_string();
    let row = params![m.step, m.time, file, nbytes as i64, parent, parameters, now(), m.serial as i64];
    conn.prepare_cached("INSERT INTO fb_steps VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
        .and_then(|mut s| s.execute(row))
        .map_err(broken)?;
    add_step_data(conn, m)
}

/// A step that is listed is what its file says. The step before it and the time of its commit, which the
/// file does not know, stay.
pub fn replace_step(conn: &Connection, file: &str, m: &Manifest) -> Result<()> {
    let broken = |e| sql_error(&format!("cannot list step {}", m.step), e);
    let nbytes: u64 = m.data.iter().map(|e| e.nbytes()).sum();
    let parameters = serde_json::Value::Object(m.parameters.clone()).to_string();
    conn.execute(
        "UPDATE fb_steps SET time = ?2, file = ?3, nbytes = ?4, parameters = ?5, serial = ?6 WHERE step = ?1",
        params![m.step, m.time, file, nbytes as i64, parameters, m.serial as i64],
    )
    .map_err(broken)?;
    conn.execute("DELETE FROM fb_step_data WHERE step = ?1", [m.step]).map_err(broken)?;
    super::packs::forget_packed(conn, m.step)?;
    add_step_data(conn, m)
}

/// Takes a row off that is no step's: the file that it names is another one's.
pub fn forget_row(conn: &Connection, step: i64) -> Result<()> {
    let broken = |e| sql_error(&format!("cannot take step {step} off the list"), e);
    conn.execute("DELETE FROM fb_step_data WHERE step = ?1", [step]).map_err(broken)?;
    conn.execute("DELETE FROM fb_steps WHERE step = ?1", [step]).map_err(broken)?;
    super::described::forget_described(conn, step)?;
    super::packs::forget_packed(conn, step)?;
    super::unmark(conn, step)
}

/// Takes off what belongs to no step at all; says how many rows of arrays that were.
pub fn forget_stray_data(conn: &Connection) -> Result<usize> {
    conn.execute("DELETE FROM fb_step_data WHERE step NOT IN (SELECT step FROM fb_steps)", ())
        .map_err(|e| sql_error("cannot take arrays of no step off the list", e))
}

/// Arrays in the list that belong to no step.
pub fn stray_data(conn: &Connection) -> Result<Vec<(i64, String)>> {
    let sql = "SELECT step, name FROM fb_step_data WHERE step NOT IN (SELECT step FROM fb_steps)";
    conn.prepare(sql)
        .and_then(|mut s| s.query_map((), |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)
}

fn add_step_data(conn: &Connection, m: &Manifest) -> Result<()> {
    let broken = |e| sql_error(&format!("cannot list step {}", m.step), e);
    serials::learn(conn, m)?;
    super::together::learn_heads(conn, m)?;
    super::described::describe_step(conn, m)?;
    super::constants::refer(conn, m)?;
    let mut statement = conn
        .prepare_cached("INSERT INTO fb_step_data VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
        .map_err(broken)?;
    for e in &m.data {
        let pieces = serde_json::to_string(&e.pieces).map_err(|e| Error::internal(e.to_string()))?;
        statement
            .execute(params![
                m.step,
                e.name,
                e.meta.dtype.name(),
                shape_text(&e.meta.shape),
                order_text(e.meta.order),
                e.units,
                e.nbytes() as i64,
                e.offset as i64,
                pieces
            ])
            .map_err(broken)?;
    }
    Ok(())
}

/// Goes back to the last complete step: rows of histories and points of diagrams that belong to
/// it or to later steps go (the step is the state *before* its computation), parameters get the
/// values they had. Where its number does not say what is computed again, they go when the loop begins.
pub(super) fn restart(conn: &Connection) -> Result<Option<Restarted>> {
    let Some(back) = newest(conn)? else { return Ok(None) };
    let broken = |e| sql_error("cannot go back to the last step", e);
    for (name, value) in &back.parameters {
        conn.execute(
            "UPDATE fb_parameters SET value = ?2, step = ?3 WHERE name = ?1",
            params![name, value.to_string(), back.step],
        )
        .map_err(broken)?;
    }
    Ok(Some(back))
}

/// The last complete step, with nothing changed.
pub(super) fn newest(conn: &Connection) -> Result<Option<Restarted>> {
    let Some(last) = last_step(conn)? else { return Ok(None) };
    let row = step_row(conn, last)?.ok_or_else(|| Error::internal("the last step has no row"))?;
    let finished = finished(conn)?;
    let passed = damaged_behind(conn, Some(last))?;
    let parameters = super::together::renewed(conn, last).unwrap_or(row.parameters);
    let heads = super::together::heads_of(conn, last)?;
    Ok(Some(Restarted { step: last, time: row.time, parameters, finished, passed, heads }))
}

/// Makes the step of a checkpoint the last one; gives the steps behind it, which are no longer
/// listed.
pub(super) fn go_back_to(conn: &Connection, tag: &str) -> Result<Vec<i64>> {
    let all = checkpoints(conn)?;
    let of_tag = || all.iter().rev().filter(|c| c.tag.as_deref() == Some(tag));
    let Some(found) = of_tag().find(|c| c.kept) else {
        let mut known: Vec<&str> = all.iter().filter(|c| c.kept).filter_map(|c| c.tag.as_deref()).collect();
        let mut seen = HashSet::new();
        known.retain(|tag| seen.insert(*tag));
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        let why = match of_tag().next() {
            Some(c) => match damage_of(conn, c.step)? {
                Some(why) => format!("step {} of the checkpoint {tag:?} is damaged: {why}", c.step),
                None => format!("step {} of the checkpoint {tag:?} is not listed any more", c.step),
            },
            None => format!("there is no checkpoint {tag:?}"),
        };
        return Err(Error::new(Code::NotFound, format!("{why}; the run has {known}")));
    };
    let aside = put_aside(conn, found.step)?;
    // Damaged ones among them are no reason to go back so far: that was wanted.
    forget_aside(conn, found.step)?;
    Ok(aside)
}

/// Steps behind this one are listed no more; gives their numbers.
pub(super) fn put_aside(conn: &Connection, last: i64) -> Result<Vec<i64>> {
    let broken = |e| sql_error("cannot go back to an earlier step", e);
    let steps: Vec<i64> = conn
        .prepare_cached("SELECT step FROM fb_steps WHERE step > ?1 ORDER BY step")
        .and_then(|mut s| s.query_map([last], |r| r.get(0))?.collect())
        .map_err(broken)?;
    conn.execute("DELETE FROM fb_step_data WHERE step > ?1", [last]).map_err(broken)?;
    super::described::forget_described_behind(conn, last)?;
    super::packs::forget_packed_behind(conn, last)?;
    conn.execute("DELETE FROM fb_steps WHERE step > ?1", [last]).map_err(broken)?;
    if super::partial::forsake_behind(conn, last)? || !steps.is_empty() {
        serials::note_back(conn, last)?;
        mark_finished(conn, false)?;
    }
    Ok(steps)
}

/// Whether the run was closed as finished.
pub fn finished(conn: &Connection) -> Result<bool> {
    Ok(super::fact(conn, "finished")? == "1")
}

/// Says at closing whether the run came to its end.
pub fn mark_finished(conn: &Connection, finished: bool) -> Result<()> {
    let value = if finished { "1" } else { "0" };
    conn.prepare_cached("UPDATE fb_run SET value = ?1 WHERE key = 'finished' AND value <> ?1")
        .and_then(|mut s| s.execute([value]))
        .map(|_| ())
        .map_err(|e| sql_error("cannot mark the run", e))
}

/// A step marked as restart point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number.
    pub id: i64,
    /// The step.
    pub step: i64,
    /// Name for people.
    pub tag: Option<String>,
    /// The checkpoint before, on the way the run took.
    pub parent: Option<i64>,
    /// Time of the step, if given.
    pub time: Option<f64>,
    /// Values of the parameters at that step.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// When it was made, in seconds since 1970.
    pub made: f64,
    /// Whether its step is in the run still, so that a restart can go back to it.
    pub kept: bool,
}

/// Marks the last complete step. All ranks may do so: the same mark is made once.
pub fn add_checkpoint(conn: &Connection, tag: Option<&str>) -> Result<i64> {
    let broken = |e| sql_error("cannot mark a checkpoint", e);
    let last = last_step(conn)?.ok_or_else(|| {
        Error::new(
            Code::NotFound,
            "no step is complete yet, so there is nothing to mark; take a snapshot first",
        )
    })?;
    let before: Option<(i64, i64, Option<String>)> = conn
        .prepare_cached(
            "SELECT id, step, tag FROM fb_checkpoints c WHERE EXISTS
                 (SELECT 1 FROM fb_steps s WHERE s.step = c.step AND s.serial = c.serial)
             ORDER BY id DESC LIMIT 1",
        )
        .and_then(|mut s| s.query_row((), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).optional())
        .map_err(failed)?;
    if before.as_ref().is_some_and(|(_, step, known)| *step == last && known.as_deref() == tag) {
        return Ok(last);
    }
    conn.execute(
        "INSERT INTO fb_checkpoints(step, tag, parent, parameters, made, serial) SELECT step, ?2, ?3, parameters, ?4, serial FROM fb_steps WHERE step = ?1",
        params![last, tag, before.map(|b| b.0), now()],
    )
    .map_err(broken)?;
    Ok(last)
}

/// All checkpoints, in the order they were made.
pub fn checkpoints(conn: &Connection) -> Result<Vec<Checkpoint>> {
    let read = |r: &Row| {
        let parameters: String = r.get(4)?;
        Ok(Checkpoint {
            id: r.get(0)?,
            step: r.get(1)?,
            tag: r.get(2)?,
            parent: r.get(3)?,
            time: r.get(6)?,
            parameters: serde_json::from_str(&parameters).unwrap_or_default(),
            made: r.get(5)?,
            kept: r.get(7)?,
        })
    };
    // A step that was written anew since is another one. (Format 1 had the clock only.)
    let same = if serials::are_kept(conn) { "s.serial = c.serial" } else { "s.committed <= c.made" };
    conn.prepare_cached(&format!(
        "SELECT c.id, c.step, c.tag, c.parent, c.parameters, c.made, s.time, s.step IS NOT NULL
         FROM fb_checkpoints c LEFT JOIN fb_steps s ON s.step = c.step AND {same}
              AND s.step NOT IN (SELECT step FROM fb_damaged) ORDER BY c.id"
    ))
    .and_then(|mut s| s.query_map((), read)?.collect())
    .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{add_point, declare, insert, open_table, parameter_values, scratch};
    use forebay_types::codec::Writer;
    use forebay_types::control::Column;
    use forebay_types::record::Cell;
    use forebay_types::watch::{Declare, Parameter};

    fn manifest(step: i64, parameters: serde_json::Value) -> Manifest {
        let parameters = parameters.as_object().unwrap().clone();
        Manifest {
            step,
            serial: step as u64 + 1,
            time: Some(step as f64 / 10.0),
            parameters,
            ..Manifest::default()
        }
    }

    #[test]
    fn the_steps_of_a_moment_are_those_that_were_listed_then() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            assert_eq!(numbers_at(tx, &moment(tx)?)?, [0i64; 0]);
            for step in [0, 10, 20] {
                add_step(tx, "f", &manifest(step, serde_json::json!({})))?;
            }
            let then = moment(tx)?;
            assert_eq!((then.last.as_ref().unwrap().step, then.serial), (20, Some(21)));
            // Later ones, behind the last and before it.
            add_step(tx, "f", &Manifest { serial: 22, ..manifest(30, serde_json::json!({})) })?;
            add_step(tx, "f", &Manifest { serial: 23, ..manifest(5, serde_json::json!({})) })?;
            assert_eq!(numbers_at(tx, &then)?, [0, 10, 20]);
            assert_eq!(numbers_at(tx, &moment(tx)?)?, [0, 5, 10, 20, 30]);
            let near = |step| nearest_steps(tx, step);
            assert_eq!((near(7)?, near(-1)?, near(31)?), (vec![5, 10], vec![0], vec![30]));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_restart_brings_parameters_back_and_leaves_what_came_after_the_last_step() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            assert_eq!(restart(tx)?, None);
            let column =
                Column { name: "t".into(), dtype: "f64".into(), units: "s".into(), ..Default::default() };
            let history = open_table(tx, "history", std::slice::from_ref(&column), true)?;
            let plain = open_table(tx, "plain", &[column], false)?;
            let p = Parameter {
                name: "e0".into(),
                value: 1.0.into(),
                min: None,
                max: None,
                units: String::new(),
                help: String::new(),
                signed: false,
            };
            declare(tx, 1, &Declare::Parameter(p))?;
            for step in 0..30 {
                let mut w = Writer::new();
                Cell::Real(step as f64).encode(&mut w);
                let cells = w.finish();
                insert(tx, history.id, (1, step), 1, &cells)?;
                insert(tx, plain.id, (1, step), 1, &cells)?;
                add_point(tx, 1, (0, 0), step, step as f64, 1.0)?;
                if step % 10 == 0 {
                    add_step(tx, "f", &manifest(step, serde_json::json!({"e0": 1.0 + step as f64})))?;
                }
            }
            let back = restart(tx)?.unwrap();
            assert_eq!((back.step, back.time, back.finished), (20, Some(2.0), false));
            let count = |t: &str| -> i64 {
                tx.query_row(&format!("SELECT count(*) FROM {t}"), (), |r| r.get(0)).unwrap()
            };
            // What is behind it goes when the program makes it again.
            assert_eq!((count("history"), count("plain"), count("fb_points")), (30, 30, 30));
            assert_eq!(parameter_values(tx)?["e0"], 21.0);
            assert_eq!(add_checkpoint(tx, Some("here"))?, 20);
            assert_eq!(add_checkpoint(tx, None)?, 20);
            assert_eq!(checkpoints(tx)?[1].parent, Some(1));
            assert_eq!(add_checkpoint(tx, None)?, 20);
            assert_eq!(checkpoints(tx)?.len(), 2, "the same mark is made once");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_run_goes_back_to_a_checkpoint_and_what_was_behind_it_is_listed_no_more() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            for step in 0..4 {
                add_step(tx, "f", &manifest(step, serde_json::json!({"e0": step})))?;
                add_checkpoint(tx, (step % 2 == 1).then_some(["odd", "three"][step as usize / 2]))?;
            }
            assert!(go_back_to(tx, "nix").unwrap_err().text().contains("odd, three"));
            assert_eq!(go_back_to(tx, "odd")?, [2, 3]);
            assert_eq!(restart(tx)?.unwrap().step, 1);
            assert!(go_back_to(tx, "three").unwrap_err().text().contains("step 3"));
            let anew = Manifest { serial: 5, ..manifest(3, serde_json::json!({"e0": 7})) };
            add_step(tx, "f", &anew)?;
            add_checkpoint(tx, Some("again"))?;
            let all = checkpoints(tx)?;
            let kept: Vec<_> = all.iter().map(|c| (c.id, c.parent, c.kept)).collect();
            let expected = [
                (1, None, true),
                (2, Some(1), true),
                (3, Some(2), false),
                (4, Some(3), false),
                (5, Some(2), true),
            ];
            assert_eq!(kept, expected, "a tree: the new branch begins where the run went back to");
            assert_eq!(all[4].parameters["e0"], 7);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_checkpoint_is_found_by_its_step_whatever_the_clock_says() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            for step in 0..3 {
                add_step(tx, "f", &manifest(step, serde_json::json!({})))?;
                // The step was listed on another host, or the clock is set back before it is marked.
                tx.execute("UPDATE fb_steps SET committed = committed + 30", ()).unwrap();
                add_checkpoint(tx, Some(["a", "b", "c"][step as usize]))?;
            }
            assert!(checkpoints(tx)?.iter().all(|c| c.kept));
            assert_eq!(
                checkpoints(tx)?.iter().map(|c| c.parent).collect::<Vec<_>>(),
                [None, Some(1), Some(2)]
            );
            assert_eq!(go_back_to(tx, "b")?, [2]);
            let anew = Manifest { serial: 9, ..manifest(2, serde_json::json!({})) };
            add_step(tx, "f", &anew)?;
            tx.execute("UPDATE fb_steps SET committed = 0", ()).unwrap();
            assert!(go_back_to(tx, "c").is_err(), "step 2 is another one now");
            assert_eq!(go_back_to(tx, "a")?, [1, 2]);
            Ok(())
        })
        .unwrap();
    }
}
