//! Steps that lie in packs. Their rows in `fb_steps` name the pack as their file; what stands of arrays elsewhere stands
//! here once for all steps of a pack: their layout, and where they begin.
//!
//! ```text
//!  fb_steps   step, file = packs/...   fb_packed  step -> slot, a checksum for each array
//!  fb_packs   file -> layout, places   fb_layouts id -> the arrays, without places
//! ```

use super::marks::LISTED;
use super::steps::{StepRow, step_row};
use super::{serials, sql_error};
use crate::layout::is_pack;
use crate::stepfile::{Entry, Manifest, PackManifest, Stacked, slot_entry};
use forebay_types::{Code, Error, ORIGINAL_DTYPE, Result};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::sync::Arc;

/// The tables, and their columns.
const TABLES: [(&str, &str); 4] = [
    ("fb_layouts", "id INTEGER PRIMARY KEY, json TEXT NOT NULL"),
    ("fb_packs", "file TEXT PRIMARY KEY, layout INTEGER NOT NULL, places TEXT NOT NULL"),
    ("fb_packed", "step INTEGER PRIMARY KEY, slot INTEGER NOT NULL, sums BLOB NOT NULL"),
    ("fb_dropped_slots", "file TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY(file, step)"),
];

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the packs in the catalog cannot be read", e)
}

fn unwritten(e: rusqlite::Error) -> Error {
    sql_error("the packs cannot be listed", e)
}

/// Runs that were made before there were such tables get them.
pub(super) fn ensure_tables(conn: &Connection) -> Result<()> {
    TABLES
        .iter()
        .try_for_each(|(name, columns)| {
            conn.execute_batch(&format!("CREATE TABLE IF NOT EXISTS {name}({columns})"))
        })
        .map_err(|e| sql_error("the catalog cannot be brought up to date", e))
}

/// What a reader of a run finds that no owner has opened since: the tables, and their columns.
pub(super) fn tables() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.into_iter()
}

/// What the arrays of a pack are and where they begin.
pub struct PackLayout {
    /// Each at the first step, with the bytes from one step to the next, by name.
    arrays: Vec<(Entry, u64)>,
}

impl PackLayout {
    /// The arrays of a step, by its slot and the checksums.
    pub fn entries(&self, slot: u64, sums: &[u8]) -> Vec<Entry> {
        (0..self.arrays.len()).map(|i| self.entry(i, slot, sums)).collect()
    }

    fn entry(&self, i: usize, slot: u64, sums: &[u8]) -> Entry {
        let (array, stride) = &self.arrays[i];
        let sum = sums.chunks_exact(4).nth(i).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
        slot_entry(array, *stride, slot, sum)
    }

    /// The number of an array.
    fn of(&self, name: &str) -> Option<usize> {
        self.arrays.binary_search_by(|(e, _)| e.name.as_str().cmp(name)).ok()
    }
}

/// The layout of a pack.
pub fn pack_layout(conn: &Connection, file: &str) -> Result<PackLayout> {
    let sql =
        "SELECT l.json, k.places FROM fb_packs k JOIN fb_layouts l ON l.id = k.layout WHERE k.file = ?1";
    let found: Option<(String, String)> = conn
        .prepare_cached(sql)
        .and_then(|mut s| s.query_row([file], |r| Ok((r.get(0)?, r.get(1)?))).optional())
        .map_err(failed)?;
    let broken = |why: &str| {
        Error::new(
            Code::Corrupt,
            format!("what {file} holds cannot be read in the catalog: {why}; run `forebay repair`"),
        )
    };
    let (json, places) = found.ok_or_else(|| broken("it is not there"))?;
    let arrays: Vec<Entry> = serde_json::from_str(&json).map_err(|e| broken(&e.to_string()))?;
    let places: Vec<(u64, u64)> = serde_json::from_str(&places).map_err(|e| broken(&e.to_string()))?;
    if arrays.len() != places.len() || !arrays.is_sorted_by(|a, b| a.name < b.name) {
        return Err(broken("arrays and places do not fit"));
    }
    let placed = |(e, (offset, stride))| (Entry { offset, ..e }, stride);
    Ok(PackLayout { arrays: arrays.into_iter().zip(places).map(placed).collect() })
}

/// Layouts of packs that are asked for again and again.
#[derive(Default)]
pub struct PackLayouts(HashMap<String, Arc<PackLayout>>);

impl PackLayouts {
    /// That of one.
    fn of(&mut self, conn: &Connection, file: &str) -> Result<Arc<PackLayout>> {
        if let Some(known) = self.0.get(file) {
            return Ok(known.clone());
        }
        let read = Arc::new(pack_layout(conn, file)?);
        self.0.insert(file.to_owned(), read.clone());
        Ok(read)
    }

    /// An array of a step that lies there, if it has one of that name.
    pub fn entry(
        &mut self,
        conn: &Connection,
        file: &str,
        slot: u64,
        sums: &[u8],
        name: &str,
    ) -> Result<Option<Entry>> {
        let layout = self.of(conn, file)?;
        Ok(layout.of(name).map(|i| layout.entry(i, slot, sums)))
    }
}

/// Where a step lies: file, slot and checksums; nothing when it lies in no pack.
fn place_of(conn: &Connection, step: i64) -> Result<Option<(String, u64, Vec<u8>)>> {
    let sql =
        "SELECT s.file, p.slot, p.sums FROM fb_packed p JOIN fb_steps s ON s.step = p.step WHERE p.step = ?1";
    conn.prepare_cached(sql)
        .and_then(|mut s| {
            s.query_row([step], |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as u64, r.get(2)?))).optional()
        })
        .map_err(failed)
}

/// An array of a packed step.
pub(super) fn packed_entry(conn: &Connection, step: i64, name: &str) -> Result<Option<Entry>> {
    let Some((file, slot, sums)) = place_of(conn, step)? else { return Ok(None) };
    PackLayouts::default().entry(conn, &file, slot, &sums, name)
}

/// All arrays of a packed step; nothing of another one.
pub fn packed_entries(conn: &Connection, step: i64) -> Result<Option<Vec<Entry>>> {
    let Some((file, slot, sums)) = place_of(conn, step)? else { return Ok(None) };
    Ok(Some(pack_layout(conn, &file)?.entries(slot, &sums)))
}

/// Names of the arrays of a packed step.
pub(super) fn packed_names(conn: &Connection, step: i64) -> Result<Vec<String>> {
    let found = packed_entries(conn, step)?.unwrap_or_default();
    Ok(found.into_iter().map(|e| e.name).collect())
}

/// The arrays of a packed step that were kept with less precision, with the dtype that was given.
pub(super) fn packed_reduced(conn: &Connection, step: i64) -> Result<Vec<(String, String)>> {
    let was = |e: Entry| Some((e.about.attrs.get(ORIGINAL_DTYPE)?.as_str()?.to_owned(), e.name));
    let found = packed_entries(conn, step)?.unwrap_or_default();
    Ok(found.into_iter().filter_map(was).map(|(dtype, name)| (name, dtype)).collect())
}

/// A listed step that lies in no pack.
pub struct Single {
    /// Its row.
    pub row: StepRow,
    /// Its number among all steps of the run, in the order they were finished.
    pub serial: u64,
}

/// The listed steps of a range that lie in no pack, in order, behind a step if one is given.
pub fn singles(conn: &Connection, (first, last): (i64, i64)) -> Result<Vec<Single>> {
    if !serials::are_kept(conn) {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT step, time, file, nbytes, parameters, serial FROM fb_steps
         WHERE step BETWEEN ?1 AND ?2 AND step NOT IN (SELECT step FROM fb_packed) AND {LISTED} ORDER BY step"
    );
    let single =
        |r: &rusqlite::Row| Ok(Single { row: super::steps::read(r)?, serial: r.get::<_, i64>(5)? as u64 });
    conn.prepare_cached(&sql).and_then(|mut s| s.query_map([first, last], single)?.collect()).map_err(failed)
}

/// The serial of a step that lies in a pack.
pub fn serial_in_pack(conn: &Connection, step: i64) -> Result<Option<u64>> {
    // A run of before, which is read as it lies there.
    if !serials::are_kept(conn) {
        return Ok(None);
    }
    let sql = "SELECT s.serial FROM fb_packed p JOIN fb_steps s ON s.step = p.step WHERE p.step = ?1";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_row([step], |r| r.get::<_, i64>(0)).optional())
        .map(|serial| serial.map(|n| n as u64))
        .map_err(failed)
}

/// Of the newest so many steps the first one, if there is one, and how many lie in no pack.
pub fn newest_singles(conn: &Connection, newest: u64) -> Result<(Option<i64>, u64)> {
    let sql = "SELECT min(step), count(*) FILTER (WHERE step NOT IN (SELECT step FROM fb_packed))
        FROM (SELECT step FROM fb_steps ORDER BY step DESC LIMIT ?1)";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_row([newest as i64], |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as u64))))
        .map_err(failed)
}

/// Files of packs that the catalog knows, with the number of listed steps in each.
pub fn packs(conn: &Connection) -> Result<Vec<(String, u64)>> {
    let sql =
        "SELECT file, (SELECT count(*) FROM fb_steps s WHERE s.file = k.file) FROM fb_packs k ORDER BY file";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map((), |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as u64)))?.collect())
        .map_err(failed)
}

/// The steps that lie in a pack: number, slot and checksums.
pub fn steps_in_pack(conn: &Connection, file: &str) -> Result<Vec<(i64, u64, Vec<u8>)>> {
    let sql = "SELECT p.step, p.slot, p.sums FROM fb_steps s JOIN fb_packed p ON p.step = s.step WHERE s.file = ?1 ORDER BY p.step";
    conn.prepare_cached(sql)
        .and_then(|mut s| {
            s.query_map([file], |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as u64, r.get(2)?)))?.collect()
        })
        .map_err(failed)
}

/// Lists a pack that is durable: the rows of its steps name it from now on. Gives the files that they named before. A
/// step that was dropped, or is another one by now, stays what it is.
pub fn list_pack(conn: &Connection, file: &str, m: &PackManifest) -> Result<Vec<String>> {
    note_pack(conn, file, m)?;
    let mut before = Vec::new();
    for (slot, of) in m.steps.iter().enumerate() {
        let row: Option<(String, i64)> = conn
            .prepare_cached("SELECT file, serial FROM fb_steps WHERE step = ?1")
            .and_then(|mut s| s.query_row([of.step], |r| Ok((r.get(0)?, r.get(1)?))).optional())
            .map_err(failed)?;
        match row {
            Some((named, serial)) if serial as u64 == of.serial => {
                put_into(conn, file, m, slot)?;
                before.push(named);
            }
            Some(_) => {}
            None if serials::is_aside(conn, &m.manifest_of(slot))? => {}
            None => drop_slot(conn, file, of.step)?,
        }
    }
    before.sort();
    before.dedup();
    Ok(before)
}

/// Lists a pack, and none of its steps yet.
pub fn note_pack(conn: &Connection, file: &str, m: &PackManifest) -> Result<()> {
    super::marks::forget_dropped(conn, file)?;
    let mut arrays: Vec<&Stacked> = m.arrays.iter().collect();
    arrays.sort_by(|a, b| a.array.name.cmp(&b.array.name));
    let json = |value: serde_json::Result<String>| value.map_err(|e| Error::internal(e.to_string()));
    let layout: Vec<Entry> = arrays.iter().map(|a| Entry { offset: 0, ..a.array.clone() }).collect();
    let places: Vec<(u64, u64)> = arrays.iter().map(|a| (a.array.offset, a.stride)).collect();
    let (layout, places) = (json(serde_json::to_string(&layout))?, json(serde_json::to_string(&places))?);
    let known: Option<i64> = conn
        .query_row("SELECT id FROM fb_layouts WHERE json = ?1", [&layout], |r| r.get(0))
        .optional()
        .map_err(failed)?;
    let id = match known {
        Some(id) => id,
        None => {
            conn.execute("INSERT INTO fb_layouts(json) VALUES(?1)", [&layout]).map_err(unwritten)?;
            conn.last_insert_rowid()
        }
    };
    conn.execute("INSERT OR REPLACE INTO fb_packs VALUES(?1, ?2, ?3)", params![file, id, places])
        .map(drop)
        .map_err(unwritten)
}

/// A listed step lies in that pack from now on.
fn put_into(conn: &Connection, file: &str, m: &PackManifest, slot: usize) -> Result<()> {
    let mut arrays: Vec<(&str, u32)> =
        m.arrays.iter().map(|a| (a.array.name.as_str(), a.crc32c[slot])).collect();
    arrays.sort_unstable();
    let sums: Vec<u8> = arrays.iter().flat_map(|(_, sum)| sum.to_le_bytes()).collect();
    let step = m.steps[slot].step;
    let run = |sql: &str, args: &[&dyn rusqlite::ToSql]| {
        conn.prepare_cached(sql).and_then(|mut s| s.execute(args)).map(drop).map_err(unwritten)
    };
    run("UPDATE fb_steps SET file = ?2 WHERE step = ?1", &[&step, &file])?;
    run("DELETE FROM fb_step_data WHERE step = ?1", &[&step])?;
    super::described::forget_described(conn, step)?;
    run("INSERT OR REPLACE INTO fb_packed VALUES(?1, ?2, ?3)", &[&step, &(slot as i64), &sums])
}

/// A step of a pack is not to be listed again from its file.
fn drop_slot(conn: &Connection, file: &str, step: i64) -> Result<()> {
    conn.prepare_cached("INSERT OR IGNORE INTO fb_dropped_slots VALUES(?1, ?2)")
        .and_then(|mut s| s.execute(params![file, step]))
        .map(drop)
        .map_err(unwritten)
}

/// Steps of a pack that were dropped.
pub fn dropped_slots(conn: &Connection, file: &str) -> Result<Vec<i64>> {
    conn.prepare_cached("SELECT step FROM fb_dropped_slots WHERE file = ?1")
        .and_then(|mut s| s.query_map([file], |r| r.get(0))?.collect())
        .map_err(failed)
}

/// Lists a step of a pack that the catalog lacks, or has otherwise.
pub fn adopt_slot(conn: &Connection, file: &str, m: &PackManifest, slot: usize) -> Result<()> {
    let of: Manifest = m.manifest_of(slot);
    match step_row(conn, of.step)? {
        Some(_) => super::steps::replace_step(conn, file, &of)?,
        None => super::steps::add_step(conn, file, &of)?,
    }
    put_into(conn, file, m, slot)
}

/// The row of a packed step goes, because it was dropped; gives whether its file goes with it.
pub(super) fn drop_packed(conn: &Connection, step: i64, file: &str) -> Result<bool> {
    if !is_pack(file) {
        return Ok(true);
    }
    forget_packed(conn, step)?;
    drop_slot(conn, file, step)?;
    let others = super::steps::steps_of_file(conn, file)?;
    Ok(others.is_empty())
}

/// A step is not listed any more, or lies in no pack.
pub(super) fn forget_packed(conn: &Connection, step: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fb_packed WHERE step = ?1")
        .and_then(|mut s| s.execute([step]))
        .map(drop)
        .map_err(unwritten)
}

/// Steps behind this one are not listed any more.
pub(super) fn forget_packed_behind(conn: &Connection, last: i64) -> Result<()> {
    conn.execute("DELETE FROM fb_packed WHERE step > ?1", [last]).map(drop).map_err(unwritten)
}

/// A pack is gone, and with it what is said of it.
pub fn forget_pack(conn: &Connection, file: &str) -> Result<()> {
    let all = [
        "DELETE FROM fb_dropped_slots WHERE file = ?1",
        "DELETE FROM fb_packs WHERE file = ?1",
        "DELETE FROM fb_layouts WHERE ?1 IS NOT NULL AND id NOT IN (SELECT layout FROM fb_packs)",
    ];
    all.iter().try_for_each(|sql| conn.execute(sql, [file]).map(drop)).map_err(unwritten)
}
