//! Data sets outside steps: small ones are blobs in the catalog, large ones files it points to.

use super::constants::referred;
use super::sql_error;
use crate::layout::Layout;
use crate::stepfile::Manifest;
use forebay_types::{ArrayMeta, Code, DType, Error, Name, Order, Result, Shape};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// A data set as the catalog knows it, without its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataRow {
    /// Hierarchical name.
    pub name: String,
    /// Set number.
    pub set: i64,
    /// Type, shape and element order.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// Attributes.
    pub attrs: serde_json::Map<String, serde_json::Value>,
    /// One more at each put.
    pub version: u64,
    /// Bytes.
    pub nbytes: u64,
    /// Checksum of the bytes.
    pub crc: u32,
    /// Where a large one lies: a file of the run and an offset in it.
    pub file: Option<(String, u64)>,
}

/// The bytes of a put.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Into the catalog.
    Small(&'a [u8]),
    /// Already in a file of the run, at an offset.
    File {
        /// Path relative to the run.
        file: &'a str,
        /// Offset.
        offset: u64,
        /// Checksum.
        crc: u32,
    },
}

/// What a put did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOutcome {
    /// The version now stored; known when the put was conditional.
    pub version: Option<u64>,
    /// The file of the version before, to be deleted after the commit.
    pub replaced: Option<String>,
}

const COLUMNS: &str =
    "name, set_number, dtype, shape, data_order, unit, attrs, version, nbytes, crc32c, file, file_offset";

pub(super) fn shape_text(shape: &Shape) -> String {
    serde_json::to_string(shape.extents()).unwrap_or_default()
}

pub(super) fn order_text(order: Order) -> &'static str {
    match order {
        Order::C => "C",
        Order::F => "F",
    }
}

/// Dtype, shape and order as three texts, checked.
pub(super) fn meta_of(dtype: &str, shape: &str, order: &str) -> Result<ArrayMeta> {
    let corrupt = || {
        Error::new(Code::Corrupt, format!("the catalog holds {dtype}{shape}{order}; run `forebay repair`"))
    };
    let extents: Vec<u64> = serde_json::from_str(shape).map_err(|_| corrupt())?;
    let order = match order {
        "F" => Order::F,
        "C" => Order::C,
        _ => return Err(corrupt()),
    };
    let dtype = DType::parse(dtype).map_err(|_| corrupt())?;
    Ok(ArrayMeta { dtype, shape: Shape::new(&extents).map_err(|_| corrupt())?, order })
}

/// Type and shape say how many bytes there are, and so does the row: of two that disagree one is wrong, and
/// whoever believed the shape would read what is another's.
pub(super) fn check_bytes(meta: &ArrayMeta, nbytes: i64) -> Result<()> {
    match meta.bytes() {
        Ok(bytes) if bytes == nbytes as u64 => Ok(()),
        _ => {
            let what = format!("{}{} and {nbytes} bytes", meta.dtype.name(), meta.shape);
            let text = format!("catalog.sqlite holds {what}, which do not fit; run `forebay repair`");
            Err(Error::new(Code::Corrupt, text))
        }
    }
}

fn read(r: &Row) -> rusqlite::Result<Result<DataRow>> {
    let texts: [String; 3] = [r.get(2)?, r.get(3)?, r.get(4)?];
    let file: Option<String> = r.get(10)?;
    let offset: Option<i64> = r.get(11)?;
    let attrs: String = r.get(6)?;
    let row = DataRow {
        name: r.get(0)?,
        set: r.get(1)?,
        meta: ArrayMeta::new(DType::U8, Shape::scalar()),
        units: r.get(5)?,
        attrs: serde_json::from_str(&attrs).unwrap_or_default(),
        version: r.get::<_, i64>(7)? as u64,
        nbytes: r.get::<_, i64>(8)? as u64,
        crc: r.get::<_, i64>(9)? as u32,
        file: file.zip(offset).map(|(f, o)| (f, o as u64)),
    };
    Ok(meta_of(&texts[0], &texts[1], &texts[2]).map(|meta| DataRow { meta, ..row }))
}

/// One data set.
pub fn data_row(conn: &Connection, name: &str, set: i64) -> Result<Option<DataRow>> {
    let sql = format!("SELECT {COLUMNS} FROM fb_data WHERE name = ?1 AND set_number = ?2");
    conn.prepare_cached(&sql)
        .and_then(|mut s| s.query_row(params![name, set], read).optional())
        .map_err(|e| sql_error("the catalog cannot be read", e))?
        .transpose()
}

/// A data set as its reader needs it.
pub struct StoredSet {
    /// Type, shape and element order.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// Checksum of its bytes.
    pub crc: u32,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Where the bytes of a data set are.
pub enum Bytes {
    /// In the catalog.
    Small(Vec<u8>),
    /// In a file of the run, from an offset on.
    File(String, u64),
}

/// One data set with its bytes, or with the place where they are.
pub fn find(conn: &Connection, name: &str, set: i64) -> Result<Option<StoredSet>> {
    let failed = |e| sql_error("the catalog cannot be read", e);
    let sql = "SELECT dtype, shape, data_order, unit, file, file_offset, value, crc32c, nbytes FROM fb_data WHERE name = ?1 AND set_number = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(params![name, set]).map_err(failed)?;
    let Some(r) = rows.next().map_err(failed)? else { return Ok(None) };
    let text = |i| r.get_ref(i).map_err(failed)?.as_str().map_err(|e| failed(e.into()));
    let meta = meta_of(text(0)?, text(1)?, text(2)?)?;
    check_bytes(&meta, r.get(8).map_err(failed)?).map_err(|e| e.within(format!("{name:?} set {set}")))?;
    let bytes = match r.get_ref(6).map_err(failed)?.as_blob_or_null().map_err(|e| failed(e.into()))? {
        Some(blob) => Bytes::Small(blob.to_vec()),
        None => Bytes::File(text(4)?.to_owned(), r.get::<_, i64>(5).map_err(failed)? as u64),
    };
    let crc = r.get::<_, i64>(7).map_err(failed)? as u32;
    Ok(Some(StoredSet { meta, units: text(3)?.to_owned(), crc, bytes }))
}

/// Most names that are looked through for one that may have been meant.
const NAMES: u32 = 10_000;

/// Names of data sets outside steps, of many the first.
pub fn data_names(conn: &Connection) -> Result<Vec<String>> {
    let failed = |e| sql_error("the catalog cannot be read", e);
    let mut statement = conn.prepare_cached("SELECT DISTINCT name FROM fb_data LIMIT ?1").map_err(failed)?;
    let names = statement.query_map([NAMES], |row| row.get(0)).map_err(failed)?;
    names.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Numbers of the sets of a name.
pub fn data_sets_of(conn: &Connection, name: &str) -> Result<Vec<i64>> {
    let failed = |e| sql_error("the catalog cannot be read", e);
    let sql = "SELECT set_number FROM fb_data WHERE name = ?1 ORDER BY set_number";
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let sets = statement.query_map([name], |row| row.get(0)).map_err(failed)?;
    sets.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// All data sets whose name matches a glob, in order of name and set. Only names that begin as the glob does
/// are looked at: of a million data sets one is found as fast as of ten.
pub fn data_rows(conn: &Connection, pattern: &str, set: Option<i64>) -> Result<Vec<DataRow>> {
    let begins = literal(pattern);
    if let (true, Some(set)) = (begins == pattern, set) {
        return Ok(data_row(conn, pattern, set)?.into_iter().collect());
    }
    let failed = |e| sql_error("the catalog cannot be read", e);
    let sql = format!("SELECT {COLUMNS} FROM fb_data WHERE name >= ?1 ORDER BY name, set_number");
    let mut statement = conn.prepare_cached(&sql).map_err(failed)?;
    let mut rows = statement.query([begins]).map_err(failed)?;
    let mut out = Vec::new();
    while let Some(r) = rows.next().map_err(failed)? {
        let name = r.get_ref(0).and_then(|v| Ok(v.as_str()?)).map_err(failed)?;
        // Names are ordered by their bytes, so those that begin alike follow each other.
        if !name.starts_with(begins) || begins == pattern && name != pattern {
            break;
        }
        let fits = Name::new(name).is_ok_and(|n| n.matches(pattern));
        if fits && set.is_none_or(|s| r.get(1) == Ok(s)) {
            out.push(read(r).map_err(failed)??);
        }
    }
    Ok(out)
}

/// How every name begins that matches a glob.
fn literal(pattern: &str) -> &str {
    pattern.split(['*', '?', '[']).next().unwrap_or_default()
}

/// The data sets that lie in a file, each with its name and number, also when the rest of its row makes no
/// sense.
pub(crate) fn rows_of_file(conn: &Connection, file: &str) -> Result<Vec<(String, i64, Result<DataRow>)>> {
    let sql = format!("SELECT {COLUMNS} FROM fb_data WHERE file = ?1 ORDER BY name, set_number");
    conn.prepare_cached(&sql)
        .and_then(|mut s| s.query_map([file], |r| Ok((r.get(0)?, r.get(1)?, read(r)?)))?.collect())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// What a put stores.
pub struct Put<'a> {
    /// Name.
    pub name: &'a str,
    /// Set number.
    pub set: i64,
    /// Type, shape, order.
    pub meta: &'a ArrayMeta,
    /// Unit, or empty.
    pub units: &'a str,
    /// Attributes as JSON, or empty to keep what is there.
    pub attrs: &'a str,
    /// Only when the stored version is this one; 0: must not exist.
    pub if_version: Option<u64>,
}

/// One statement for all puts: it undoes itself when it fails. A row that points to a file is
/// replaced only when told so (`?13`), since somebody has to learn which file is free then.
const PUT: &str = "INSERT INTO fb_data(name, set_number, dtype, shape, data_order, unit, attrs, version, nbytes, crc32c, file, file_offset, value)
    VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT(name, set_number) DO UPDATE SET dtype = ?3, shape = ?4, data_order = ?5, unit = ?6, attrs = ?7,
    version = version + 1, nbytes = ?8, crc32c = ?9, file = ?10, file_offset = ?11, value = ?12 WHERE ?13 OR file IS NULL";

/// Stores or replaces a data set, with its unit and its attributes.
pub fn put(conn: &Connection, p: &Put, value: Value) -> Result<PutOutcome> {
    Name::new(p.name)?;
    let (units, attrs) = super::unit_and_attrs(p.units, p.attrs)?;
    let attrs = serde_json::Value::Object(attrs.unwrap_or_default()).to_string();
    let (blob, file, offset, crc) = match value {
        Value::Small(bytes) => (Some(bytes), None, None, forebay_types::crc32c(bytes)),
        Value::File { file, offset, crc } => (None, Some(file), Some(offset as i64), crc),
    };
    let (shape, nbytes) = (shape_text(&p.meta.shape), p.meta.bytes().unwrap_or(0) as i64);
    let (dtype, order) = (p.meta.dtype.name(), order_text(p.meta.order));
    let store = |over_files: bool| {
        conn.prepare_cached(PUT)
            .and_then(|mut s| {
                s.execute(params![
                    p.name, p.set, dtype, shape, order, units, attrs, nbytes, crc, file, offset, blob,
                    over_files
                ])
            })
            .map_err(|e| sql_error(&format!("cannot store {:?}", p.name), e))
    };
    if p.if_version.is_none() && file.is_none() && store(false)? == 1 {
        return Ok(PutOutcome { version: None, replaced: None });
    }
    let (stored, replaced) = version_and_file(conn, p.name, p.set)?;
    if let Some(expected) = p.if_version.filter(|v| *v != stored) {
        return Err(Error::new(
            Code::Conflict,
            format!(
                "{:?} set {} has version {stored}, not {expected}: somebody was faster; read it again and decide anew",
                p.name, p.set
            ),
        ));
    }
    store(true)?;
    Ok(PutOutcome { version: p.if_version.map(|_| stored + 1), replaced })
}

/// The version that is stored, 0 for none, and the file it lies in.
fn version_and_file(conn: &Connection, name: &str, set: i64) -> Result<(u64, Option<String>)> {
    let known = conn
        .prepare_cached("SELECT version, file FROM fb_data WHERE name = ?1 AND set_number = ?2")
        .and_then(|mut s| {
            s.query_row(params![name, set], |r| Ok((r.get::<_, i64>(0)? as u64, r.get(1)?))).optional()
        })
        .map_err(|e| sql_error("the catalog cannot be read", e))?;
    Ok(known.unwrap_or_default())
}

/// Removes data sets by glob; says how many, and which files nobody needs any more.
pub fn remove_data(conn: &Connection, pattern: &str, set: Option<i64>) -> Result<(usize, Vec<String>)> {
    let rows = data_rows(conn, pattern, set)?;
    let mut files = Vec::new();
    for row in &rows {
        conn.prepare_cached("DELETE FROM fb_data WHERE name = ?1 AND set_number = ?2")
            .and_then(|mut s| s.execute(params![row.name, row.set]))
            .map_err(|e| sql_error(&format!("cannot delete {:?}", row.name), e))?;
        if let Some((file, _)) = row.file.as_ref().filter(|f| !used(conn, &f.0)) {
            files.push(file.clone());
        }
    }
    Ok((rows.len(), files))
}

/// The files of all data sets that have one, and those that steps refer to.
pub(crate) fn data_files(conn: &Connection) -> Result<HashSet<String>> {
    let mut files: HashSet<String> = conn
        .prepare("SELECT file FROM fb_data WHERE file IS NOT NULL")
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .map_err(|e| sql_error("the catalog cannot be read", e))?;
    files.extend(referred(conn)?);
    Ok(files)
}

/// Whether a row points to a file.
fn is_listed(conn: &Connection, file: &str) -> bool {
    conn.query_row("SELECT 1 FROM fb_data WHERE file = ?1 LIMIT 1", [file], |_| Ok(())).is_ok()
}

/// Whether a row still points to a file, for copies share theirs, or a step refers to it.
pub(crate) fn used(conn: &Connection, file: &str) -> bool {
    is_listed(conn, file) || referred(conn).is_ok_and(|files| files.iter().any(|other| other == file))
}

/// Gives a data set the number, type and place that its file says; one that stands under that number already
/// is the right one, and this one goes.
pub(crate) fn mend_data(
    conn: &Connection,
    (name, known): (&str, i64),
    file: &str,
    m: &Manifest,
) -> Result<()> {
    let (Some((set, _)), Some(e)) = (m.set, m.data.first()) else { return Ok(()) };
    let broken = |e| sql_error(&format!("cannot mend {name:?}"), e);
    if set != known && data_row(conn, name, set)?.is_some() {
        return conn
            .execute("DELETE FROM fb_data WHERE name = ?1 AND set_number = ?2", params![name, known])
            .map(|_| ())
            .map_err(broken);
    }
    let crc = e.pieces.first().map_or(0, |p| p.crc32c);
    conn.execute(
        "UPDATE fb_data SET set_number = ?3, dtype = ?4, shape = ?5, data_order = ?6, nbytes = ?7, crc32c = ?8, file_offset = ?9
         WHERE name = ?1 AND set_number = ?2 AND file = ?10",
        params![
            name,
            known,
            set,
            e.meta.dtype.name(),
            shape_text(&e.meta.shape),
            order_text(e.meta.order),
            e.nbytes() as i64,
            crc,
            e.offset as i64,
            file
        ],
    )
    .map(|_| ())
    .map_err(broken)
}

/// Renames all sets of a data set. The new name must be free.
pub fn rename_data(conn: &Connection, from: &str, to: &str) -> Result<usize> {
    transfer(conn, from, to, "UPDATE fb_data SET name = ?2 WHERE name = ?1")
}

/// Copies all sets of a data set; a copy shares the file of a large one. The new name must be free.
pub fn copy_data(conn: &Connection, from: &str, to: &str) -> Result<usize> {
    let sql = "INSERT INTO fb_data SELECT NULL, ?2, set_number, dtype, shape, data_order, unit, attrs, 1, nbytes, crc32c, file, file_offset, value FROM fb_data WHERE name = ?1";
    transfer(conn, from, to, sql)
}

fn transfer(conn: &Connection, from: &str, to: &str, sql: &str) -> Result<usize> {
    Name::new(to)?;
    let taken = conn.query_row("SELECT 1 FROM fb_data WHERE name = ?1 LIMIT 1", [to], |_| Ok(())).is_ok();
    if taken {
        return Err(Error::new(
            Code::Conflict,
            format!("{to:?} exists already; delete it first or choose another name"),
        ));
    }
    let n = conn.execute(sql, [from, to]).map_err(|e| sql_error(&format!("cannot make {to:?}"), e))?;
    match n {
        0 => {
            let names = data_names(conn)?;
            let instead = match forebay_types::alike(from, &names).first() {
                Some(near) => format!("did you mean {near:?}?"),
                None => "`ls` shows what is there".to_owned(),
            };
            Err(Error::new(Code::NotFound, format!("there is no data set {from:?}; {instead}")))
        }
        n => Ok(n),
    }
}

/// Lists a data set as its file says, where nothing is listed under its name, or only what is not there any more;
/// gives the name.
pub fn adopt_set(conn: &Connection, layout: &Layout, file: &str, m: &Manifest) -> Result<Option<String>> {
    let (Some((set, _)), Some(e)) = (m.set, m.data.first()) else { return Ok(None) };
    // One that was renamed since it was put has its row under the other name.
    if is_listed(conn, file) {
        return Ok(None);
    }
    let is_there = |file: &String| layout.file(file).is_ok_and(|path| path.exists());
    if data_row(conn, &e.name, set)?
        .is_some_and(|row| row.file.as_ref().is_none_or(|(file, _)| is_there(file)))
    {
        return Ok(None);
    }
    let crc = e.pieces.first().map_or(0, |p| p.crc32c);
    let put_of = Put { name: &e.name, set, meta: &e.meta, units: &e.units, attrs: "", if_version: None };
    put(conn, &put_of, Value::File { file, offset: e.offset, crc })?;
    Ok(Some(e.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::scratch;

    fn small(conn: &Connection, name: &str, if_version: Option<u64>) -> Result<PutOutcome> {
        let meta = ArrayMeta::new(DType::I32, Shape::new(&[2]).unwrap());
        put(
            conn,
            &Put { name, set: 0, meta: &meta, units: "V", attrs: "", if_version },
            Value::Small(&[1, 0, 0, 0, 2, 0, 0, 0]),
        )
    }

    #[test]
    fn a_conditional_put_fails_when_somebody_was_faster() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            assert_eq!(small(tx, "a", Some(0))?.version, Some(1));
            assert_eq!(small(tx, "a", None)?.version, None);
            assert_eq!(small(tx, "a", Some(1)).unwrap_err().code(), Code::Conflict);
            assert_eq!(small(tx, "a", Some(2))?.version, Some(3));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn of_very_many_data_sets_one_is_listed_and_deleted_without_a_look_at_the_others() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let names: Vec<String> = (0..100_000).map(|i| format!("set/{i:06}")).collect();
            names.iter().try_for_each(|name| small(tx, name, None).map(drop))?;
            let began = std::time::Instant::now();
            for name in names.iter().step_by(100) {
                assert_eq!(data_rows(tx, name, None)?.len(), 1);
                assert_eq!(data_rows(tx, &format!("{}?", &name[..9]), None)?.len(), 10);
                assert_eq!(remove_data(tx, name, Some(0))?.0, 1);
            }
            // A look at all of them, a thousand times, takes minutes.
            let took = began.elapsed();
            assert!(took < std::time::Duration::from_secs(15), "it took {took:?}");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn data_sets_are_listed_renamed_copied_and_deleted_by_glob() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            for name in ["beam1/x", "beam1/v", "E"] {
                small(tx, name, None)?;
            }
            assert_eq!(rename_data(tx, "E", "field")?, 1);
            assert_eq!(copy_data(tx, "field", "field2")?, 1);
            assert_eq!(rename_data(tx, "field", "field2").unwrap_err().code(), Code::Conflict);
            assert_eq!(copy_data(tx, "nix", "other").unwrap_err().code(), Code::NotFound);
            let names: Vec<_> = data_rows(tx, "*", None)?.into_iter().map(|r| r.name).collect();
            assert_eq!(names, ["beam1/v", "beam1/x", "field", "field2"]);
            let matching = |pattern: &str, set| -> Result<Vec<String>> {
                Ok(data_rows(tx, pattern, set)?.into_iter().map(|r| r.name).collect())
            };
            assert_eq!(matching("field", None)?, ["field"]);
            assert_eq!(matching("field?", None)?, ["field2"]);
            assert_eq!(matching("field*", Some(0))?, ["field", "field2"]);
            assert_eq!(matching("field", Some(0))?, ["field"]);
            assert_eq!(matching("field", Some(1))?, [""; 0]);
            assert_eq!(matching("[bf]*[x2]", None)?, ["beam1/x", "field2"]);
            assert_eq!(remove_data(tx, "field2", None)?.0, 1);
            assert_eq!(matching("f*", None)?, ["field"]);
            assert_eq!(remove_data(tx, "beam1/*", None)?.0, 2);
            assert_eq!(data_rows(tx, "*", Some(3))?.len(), 0);
            Ok(())
        })
        .unwrap();
    }
}
