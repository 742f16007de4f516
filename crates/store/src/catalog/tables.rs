//! Relational tables of the user: plain SQLite tables under their own names. A *history* has two
//! columns more: `fb_step`, the step being computed when a row was made, so that a restart can take back
//! what came later, and `fb_session`, which session made it, so that it takes back no other rank's.
//!
//! SQLite has one kind of real number and integers with a sign only. What it cannot hold is kept so
//! that order and comparison hold, and read by the dtype of its column:
//!
//! ```text
//!  NaN, in floats         NULL
//!  u64 of 2^63 and more   BLOB of 8 bytes, big-endian: SQLite sorts a BLOB behind every number
//!  an array               BLOB of its elements, row-major and little-endian
//! ```

use super::query::condition_of;
use super::{quoted, sql_error};
use forebay_types::codec::Reader;
use forebay_types::control::{Column, TableInfo};
use forebay_types::record::Cell;
use forebay_types::{ArrayMeta, Code, DType, ElementKind, Error, Name, Result, limits};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

/// The column of a history that holds the step.
pub const STEP_COLUMN: &str = "fb_step";

/// The column of a history that holds the session; 0 in rows that were made before there was such a column.
pub const SESSION_COLUMN: &str = "fb_session";

/// Letters of a value that an error shows.
const SHOWN: usize = 60;

/// What SQLite calls the number of a row, unless a column is called so.
const ROW_NUMBERS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// The name by which the number of a row is known in a table of these columns.
pub fn row_number<'a>(columns: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    let is_taken = |name: &str| columns.clone().any(|c| c.eq_ignore_ascii_case(name));
    ROW_NUMBERS.into_iter().find(|name| !is_taken(name))
}

/// The name by which the number of a row is known in a table that the catalog has.
pub fn row_number_of(t: &TableInfo) -> &'static str {
    row_number(t.columns.iter().map(|c| c.name.as_str())).unwrap_or(ROW_NUMBERS[0])
}

fn check_name(name: &str) -> Result<()> {
    Name::new(name)?;
    let lower = name.to_ascii_lowercase();
    match lower.starts_with("fb_") || lower.starts_with("sqlite_") {
        true => Err(Error::bad(format!("the name {name:?} begins like a system table; choose another one"))),
        false => Ok(()),
    }
}

fn sql_type(column: &Column) -> Result<&'static str> {
    use ElementKind::*;
    let meta = column.meta()?;
    if column.is_array() {
        check_arrays(column, &meta)?;
        return Ok("BLOB");
    }
    Ok(match meta.dtype.kind() {
        Signed | Unsigned | Bool => "INTEGER",
        Float => "REAL",
        Text => "TEXT",
        Bytes => "BLOB",
        Complex => {
            return Err(Error::bad(format!(
                "column {:?} is {}: complex numbers take two columns in a table",
                column.name, column.dtype
            )));
        }
    })
}

/// Refuses arrays that a column cannot hold.
fn check_arrays(column: &Column, meta: &ArrayMeta) -> Result<()> {
    let refused = |why: &str| Err(Error::bad(format!("column {:?} is of arrays {meta}: {why}", column.name)));
    match meta.dtype.kind() {
        ElementKind::Text | ElementKind::Bytes => {
            return refused("texts and bytes take a column each, or a table of their own");
        }
        ElementKind::Complex => return refused("complex numbers take an axis of two more, of floats"),
        _ => {}
    }
    if meta.shape.is_empty() {
        return refused("each extent is at least 1");
    }
    match meta.bytes()? {
        n if n > limits::SMALL_BYTES as u64 => refused(&format!(
            "{n} bytes a row, {} are the most; put large arrays as data sets",
            limits::SMALL_BYTES
        )),
        _ => Ok(()),
    }
}

fn check_columns(name: &str, columns: &[Column]) -> Result<()> {
    if columns.is_empty() {
        return Err(Error::new(
            Code::NotFound,
            format!("there is no table {name:?}; give its columns to create it"),
        ));
    }
    if columns.len() > limits::COLUMNS {
        return Err(Error::bad(format!(
            "table {name:?} has {} columns, the limit is {}",
            columns.len(),
            limits::COLUMNS
        )));
    }
    if row_number(columns.iter().map(|c| c.name.as_str())).is_none() {
        return Err(Error::bad(format!(
            "the columns {} of table {name:?} are all names of a row's number; rename one of them",
            ROW_NUMBERS.join(", ")
        )));
    }
    for (i, c) in columns.iter().enumerate() {
        check_name(&c.name)?;
        if columns[..i].iter().any(|o| o.name.eq_ignore_ascii_case(&c.name)) {
            return Err(Error::bad(format!("table {name:?} has the column {:?} twice", c.name)));
        }
    }
    Ok(())
}

/// Creates a table, or opens it when it is there with the same columns.
pub fn open_table(conn: &Connection, name: &str, columns: &[Column], history: bool) -> Result<TableInfo> {
    check_name(name)?;
    if let Some(t) = table(conn, name)? {
        return match columns.is_empty() || t.columns == columns {
            true if history && !t.history => Err(Error::new(
                Code::Conflict,
                format!("table {name:?} exists and is no history; open it as it is or choose another name"),
            )),
            true => Ok(t),
            false => Err(Error::new(
                Code::Conflict,
                format!(
                    "table {name:?} {}; open it as it is, without columns, or choose another name",
                    difference(&t.columns, columns)
                ),
            )),
        };
    }
    let failed = |e| sql_error(&format!("cannot make table {name:?}"), e);
    let like: Option<String> = conn
        .query_row("SELECT name FROM fb_tables WHERE name = ?1 COLLATE NOCASE", [name], |r| r.get(0))
        .optional()
        .map_err(failed)?;
    if let Some(like) = like {
        return Err(Error::new(
            Code::Conflict,
            format!(
                "there is a table {like:?}, and SQL does not tell upper case from lower case: {name:?} would be the same one; open it as {like:?}, or choose another name"
            ),
        ));
    }
    check_columns(name, columns)?;
    conn.execute(&text_of(name, columns, history)?, ()).map_err(failed)?;
    let json = serde_json::to_string(columns).map_err(|e| Error::internal(e.to_string()))?;
    conn.execute(
        "INSERT INTO fb_tables(name, columns, history, attrs) VALUES(?1, ?2, ?3, '{}')",
        (name, json, history),
    )
    .map_err(failed)?;
    Ok(TableInfo {
        id: conn.last_insert_rowid() as u32,
        name: name.to_owned(),
        columns: columns.to_vec(),
        history,
    })
}

/// The statement that makes a table; it stands in the list of tables.
pub fn text_of(name: &str, columns: &[Column], history: bool) -> Result<String> {
    let mut parts = Vec::new();
    for c in columns {
        parts.push(format!("{} {}", quoted(&c.name), sql_type(c)?));
    }
    if history {
        parts.push(format!("{STEP_COLUMN} INTEGER NOT NULL"));
        parts.push(session_column(SESSION_COLUMN));
    }
    Ok(format!("CREATE TABLE {}({})", quoted(name), parts.join(", ")))
}

/// What the list of tables says of a column that holds the session: the same where it was added later.
pub fn session_column(name: &str) -> String {
    format!("{name} INTEGER NOT NULL DEFAULT 0")
}

/// Histories that were made before they had it get the column of the session.
pub(super) fn ensure_column(conn: &Connection, table: &str, column: &str) -> Result<()> {
    let failed = |e| sql_error(&format!("table {table:?} cannot be brought up to date"), e);
    let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    let has: bool = conn.query_row(sql, [table, column], |r| r.get(0)).map_err(failed)?;
    if has {
        return Ok(());
    }
    let sql = format!("ALTER TABLE {} ADD COLUMN {}", quoted(table), session_column(column));
    conn.execute(&sql, ()).map(drop).map_err(failed)
}

/// In what the columns of a table that is there differ from those that are given.
fn difference(there: &[Column], given: &[Column]) -> String {
    let kind = |c: &Column| (c.name.clone(), c.dtype.clone(), c.shape.clone());
    let shown =
        |c: &Column| if c.units.is_empty() { "no unit".into() } else { format!("the unit {:?}", c.units) };
    let differ = there.iter().zip(given).find(|(t, g)| t.units != g.units);
    match differ.filter(|_| there.iter().map(kind).eq(given.iter().map(kind))) {
        Some((t, g)) => {
            format!("exists, and its column {:?} has {} there and {} here", t.name, shown(t), shown(g))
        }
        None => format!("exists with the columns {}, and is to have {}", words(there), words(given)),
    }
}

fn words(columns: &[Column]) -> String {
    columns.iter().map(Column::words).collect::<Vec<_>>().join(", ")
}

fn read(r: &Row) -> rusqlite::Result<TableInfo> {
    let columns: String = r.get(2)?;
    Ok(TableInfo {
        id: r.get(0)?,
        name: r.get(1)?,
        columns: serde_json::from_str(&columns).unwrap_or_default(),
        history: r.get(3)?,
    })
}

/// A table by name.
pub fn table(conn: &Connection, name: &str) -> Result<Option<TableInfo>> {
    conn.prepare_cached("SELECT id, name, columns, history FROM fb_tables WHERE name = ?1")
        .and_then(|mut s| s.query_row([name], read).optional())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// The table of that number.
pub fn table_of(conn: &Connection, id: u32) -> Result<Option<TableInfo>> {
    conn.prepare_cached("SELECT id, name, columns, history FROM fb_tables WHERE id = ?1")
        .and_then(|mut s| s.query_row([id], read).optional())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

/// All tables, in order of name.
pub fn tables(conn: &Connection) -> Result<Vec<TableInfo>> {
    conn.prepare_cached("SELECT id, name, columns, history FROM fb_tables ORDER BY name")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(|e| sql_error("the catalog cannot be read", e))
}

fn existing(conn: &Connection, name: &str) -> Result<TableInfo> {
    table(conn, name)?.ok_or_else(|| Error::new(Code::NotFound, format!("there is no table {name:?}")))
}

/// Adds rows that a session made in a step; the cells follow each other row by row.
pub fn insert(
    conn: &Connection,
    id: u32,
    (session, step): (u64, i64),
    rows: u32,
    cells: &[u8],
) -> Result<()> {
    let t = table_of(conn, id)?
        .ok_or_else(|| Error::new(Code::NotFound, format!("there is no table of number {id}")))?;
    let metas = t.columns.iter().map(Column::meta).collect::<Result<Vec<_>>>()?;
    let own = t.columns.len();
    let width = if t.history { own + 2 } else { own };
    let marks = vec!["?"; width].join(",");
    let sql = format!("INSERT INTO {} VALUES({marks})", quoted(&t.name));
    let failed = |e| sql_error(&format!("cannot add to table {:?}", t.name), e);
    let mut statement = conn.prepare_cached(&sql).map_err(failed)?;
    let mut reader = Reader::new(cells);
    for _ in 0..rows {
        for (i, (column, meta)) in t.columns.iter().zip(&metas).enumerate() {
            let value = fit(Cell::decode(&mut reader)?, meta)
                .map_err(|e| e.within(format!("table {:?}, column {:?}", t.name, column.name)))?;
            statement.raw_bind_parameter(i + 1, value).map_err(failed)?;
        }
        if t.history {
            statement.raw_bind_parameter(own + 1, step).map_err(failed)?;
            statement.raw_bind_parameter(own + 2, session as i64).map_err(failed)?;
        }
        statement.raw_execute().map_err(failed)?;
    }
    match reader.remaining() {
        0 => Ok(()),
        n => Err(Error::bad(format!("{n} bytes of cells are left after {rows} rows of {:?}", t.name))),
    }
}

/// Whether a column of such values takes the cell as the number it is; the text says why not. Asked before a row is
/// acknowledged: the owner, who only stores, refuses nothing that an earlier version has acknowledged.
pub fn fits(cell: &Cell, each: impl Into<ArrayMeta>) -> Result<()> {
    let meta = each.into();
    let dtype = meta.dtype;
    if is_array(&meta) {
        return match cell {
            Cell::Blob(v) if Ok(v.len() as u64) == meta.bytes() => Ok(()),
            other => fit(other.clone(), &meta).map(drop),
        };
    }
    let integer = match cell {
        Cell::Int(v) => Some(i128::from(*v)),
        Cell::Unsigned(v) => Some(i128::from(*v)),
        _ => None,
    };
    if let (Some(integer), Some(bits)) = (integer, dtype.mantissa())
        && dtype.rounded(integer as f64) as i128 != integer
    {
        return Err(Error::bad(format!(
            "{} is an integer that {dtype} does not hold, beyond 2^{bits} it has only some; declare the column as i64 or u64, or give a float",
            words_of(cell)
        )));
    }
    if let Cell::Real(v) = cell
        && dtype.mantissa().is_some()
        && *v != 0.0
        && dtype.rounded(*v) == 0.0
    {
        return Err(Error::bad(format!(
            "{v:e} would be 0 in a column of {dtype}; declare the column as f64"
        )));
    }
    match cell {
        Cell::Null | Cell::Real(_) if dtype == DType::F64 => Ok(()),
        Cell::Text(_) if dtype == DType::Str => Ok(()),
        Cell::Blob(_) if dtype == DType::Bytes => Ok(()),
        other => fit(other.clone(), &meta).map(drop),
    }
}

fn is_array(meta: &ArrayMeta) -> bool {
    meta.shape.rank() > 0
}

/// A cell as a column of such values stores it, or why it cannot.
fn fit(cell: Cell, meta: &ArrayMeta) -> Result<Value> {
    if is_array(meta) {
        return match cell {
            Cell::Null => Ok(Value::Null),
            Cell::Blob(v) if Ok(v.len() as u64) == meta.bytes() => Ok(Value::Blob(v)),
            other => Err(Error::bad(format!(
                "{} does not go into a column of arrays; give an array {meta}",
                words_of(&other)
            ))),
        };
    }
    let dtype = meta.dtype;
    stored(cell, dtype).map_err(|cell| {
        let words = words_of(&cell);
        Error::bad(format!("{words} does not go into a column of {dtype}; give {}", wanted(dtype)))
    })
}

/// Converts a cell to what a column of that dtype stores; gives the cell back when it does not fit.
fn stored(cell: Cell, dtype: DType) -> std::result::Result<Value, Cell> {
    use ElementKind::*;
    let holds = |v: i128| dtype.range().is_some_and(|range| range.contains(&v));
    Ok(match (cell, dtype.kind()) {
        (Cell::Null, _) => Value::Null,
        (Cell::Int(v), Float) => Value::Real(dtype.rounded(v as f64)),
        (Cell::Int(v), _) if holds(v.into()) => Value::Integer(v),
        (Cell::Unsigned(v), Float) => Value::Real(dtype.rounded(v as f64)),
        (Cell::Unsigned(v), _) if holds(v.into()) => unsigned(v),
        (Cell::Real(v), Float) if !v.is_finite() || dtype.rounded(v).is_finite() => {
            Value::Real(dtype.rounded(v))
        }
        (Cell::Text(v), Text) => Value::Text(v),
        (Cell::Blob(v), Bytes) => Value::Blob(v),
        (other, _) => return Err(other),
    })
}

/// A cell as a user would write it, cut when it is long.
fn words_of(cell: &Cell) -> String {
    let cut = |whole: String| match whole.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &whole[..at]),
        None => whole,
    };
    match cell {
        Cell::Null => "nothing".into(),
        Cell::Int(v) => v.to_string(),
        Cell::Unsigned(v) => v.to_string(),
        Cell::Real(v) => format!("{v:?}"),
        Cell::Text(v) => cut(format!("{v:?}")),
        Cell::Blob(v) => cut(format!("b\"{}\"", v[..v.len().min(SHOWN)].escape_ascii())),
    }
}

/// What a column takes.
fn wanted(dtype: DType) -> String {
    use ElementKind::*;
    match (dtype.kind(), dtype.range(), dtype.largest()) {
        (Bool, ..) => "true or false".into(),
        (Text, ..) => "a text".into(),
        (Bytes, ..) => "bytes".into(),
        (_, Some(range), _) => format!("an integer from {} to {}", range.start(), range.end()),
        (.., Some(largest)) => {
            let wider = DType::all().filter(|d| d.largest().is_some_and(|v| v > largest));
            match wider.map(DType::name).collect::<Vec<_>>().join(" or ") {
                none if none.is_empty() => "a number".into(),
                wider => {
                    // With the digits that an f32 has: fewer stand for the same f16, and may lie beyond it.
                    let shown = format!("{:?}", DType::F32.shortest(largest));
                    format!("a number up to {}, or declare it as {wider}", shown.trim_end_matches(".0"))
                }
            }
        }
        _ => "a number".into(),
    }
}

/// An integer without a sign, as SQLite keeps it.
fn unsigned(v: u64) -> Value {
    i64::try_from(v).map_or_else(|_| Value::Blob(v.to_be_bytes().to_vec()), Value::Integer)
}

/// What SQLite gave, as a cell of a column of that dtype; without one, and of arrays, as what it is.
pub(super) fn cell(value: ValueRef, dtype: Option<DType>) -> Cell {
    match (value, dtype) {
        (ValueRef::Null, Some(dtype)) if dtype.kind() == ElementKind::Float => Cell::Real(f64::NAN),
        (ValueRef::Real(v), Some(dtype)) => Cell::Real(dtype.rounded(v)),
        (ValueRef::Blob(b), Some(DType::U64)) if b.len() == 8 => {
            Cell::unsigned(b.iter().fold(0, |v, byte| v << 8 | u64::from(*byte)))
        }
        (ValueRef::Null, _) => Cell::Null,
        (ValueRef::Integer(v), _) => Cell::Int(v),
        (ValueRef::Real(v), _) => Cell::Real(v),
        (ValueRef::Text(v), _) => Cell::Text(String::from_utf8_lossy(v).into_owned()),
        (ValueRef::Blob(v), _) => Cell::Blob(v.to_owned()),
    }
}

/// A JSON value as a cell.
fn from_json(value: &serde_json::Value) -> Result<Cell> {
    Cell::from_json(value)
        .ok_or_else(|| Error::bad(format!("{value} is no value for SQL; use a number, a text or bytes")))
}

/// A JSON value as an argument of SQL: it is compared with columns of any dtype.
pub fn argument(value: &serde_json::Value) -> Result<Value> {
    Ok(match from_json(value)? {
        Cell::Null => Value::Null,
        Cell::Int(v) => Value::Integer(v),
        Cell::Unsigned(v) => unsigned(v),
        Cell::Real(v) => Value::Real(v),
        Cell::Text(v) => Value::Text(v),
        Cell::Blob(v) => Value::Blob(v),
    })
}

fn filter(conn: &Connection, t: &TableInfo, condition: &str) -> Result<String> {
    Ok(condition_of(conn, t, condition)?.map_or_else(String::new, |c| format!(" WHERE {c}")))
}

/// Makes an index of columns, unless there is one. A catalog that is made anew has none.
pub fn index(conn: &Connection, name: &str, columns: &[String]) -> Result<()> {
    let t = existing(conn, name)?;
    if columns.is_empty() {
        return Err(Error::bad(format!("an index of table {name:?} is of no column; name at least one")));
    }
    let is_column =
        |column: &String| t.columns.iter().any(|c| c.name == *column) || (t.history && column == STEP_COLUMN);
    if let Some(unknown) = columns.iter().find(|column| !is_column(column)) {
        return Err(Error::bad(format!(
            "table {name:?} has no column {unknown:?}; it has {}",
            words(&t.columns)
        )));
    }
    if let Some(of_arrays) = t.columns.iter().find(|c| c.is_array() && columns.contains(&c.name)) {
        return Err(Error::bad(format!(
            "column {:?} of table {name:?} is of arrays, which no condition compares; make the index of other columns",
            of_arrays.name
        )));
    }
    let of = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "CREATE INDEX IF NOT EXISTS {} ON {}({of})",
        quoted(&format!("fb_index of {}({of})", quoted(name))),
        quoted(name)
    );
    let failed = |e| sql_error(&format!("cannot make an index of table {name:?}"), e);
    conn.execute(&sql, ()).map(drop).map_err(failed)
}

type Changes = serde_json::Map<String, serde_json::Value>;

/// Changes rows; says how many.
pub fn update(
    conn: &Connection,
    name: &str,
    set: &Changes,
    condition: &str,
    args: &[serde_json::Value],
) -> Result<usize> {
    let t = existing(conn, name)?;
    if set.is_empty() {
        return Err(Error::bad(format!("an update of table {name:?} changes no column; name at least one")));
    }
    let mut parts = Vec::new();
    let mut values = Vec::new();
    for (column, value) in set {
        let known = t.columns.iter().find(|c| c.name == *column).ok_or_else(|| {
            Error::bad(format!("table {name:?} has no column {column:?}; it has {}", words(&t.columns)))
        })?;
        parts.push(format!("{} = ?", quoted(column)));
        let kept = from_json(value).and_then(|cell| fit(cell, &known.meta()?));
        values.push(kept.map_err(|e| e.within(format!("table {name:?}, column {column:?}")))?);
    }
    for a in args {
        values.push(argument(a)?);
    }
    let sql = format!("UPDATE {} SET {}{}", quoted(name), parts.join(", "), filter(conn, &t, condition)?);
    run(conn, &t, condition, &sql, values)
}

/// Removes rows; says how many.
pub fn remove(conn: &Connection, name: &str, condition: &str, args: &[serde_json::Value]) -> Result<usize> {
    let t = existing(conn, name)?;
    let values = args.iter().map(argument).collect::<Result<Vec<_>>>()?;
    let sql = format!("DELETE FROM {}{}", quoted(name), filter(conn, &t, condition)?);
    run(conn, &t, condition, &sql, values)
}

fn run(conn: &Connection, t: &TableInfo, condition: &str, sql: &str, values: Vec<Value>) -> Result<usize> {
    conn.prepare(sql)
        .and_then(|mut s| s.execute(params_from_iter(values)))
        .map_err(|e| condition_failed(t, condition, e))
}

/// Why rows of a table cannot be found by a condition, or changed.
pub(super) fn condition_failed(t: &TableInfo, condition: &str, e: rusqlite::Error) -> Error {
    let what = match condition.trim() {
        "" => format!("table {:?}", t.name),
        _ => format!("table {:?}, condition {condition:?}", t.name),
    };
    let failed = sql_error(&what, e);
    match failed.code() {
        Code::BadArgument => Error::bad(format!("{}; the table has {}", failed.text(), words(&t.columns))),
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::scratch;
    use forebay_types::codec::Writer;
    use serde_json::json;

    fn column(name: &str, dtype: &str) -> Column {
        Column { name: name.into(), dtype: dtype.into(), ..Default::default() }
    }

    fn cells(rows: &[&[Cell]]) -> Vec<u8> {
        let mut w = Writer::new();
        rows.iter().flat_map(|r| r.iter()).for_each(|c| c.encode(&mut w));
        w.finish()
    }

    #[test]
    fn rows_go_in_change_and_go_out() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let columns = [column("t", "f64"), column("who", "str")];
            let t = open_table(tx, "history", &columns, true)?;
            let rows = cells(&[
                &[Cell::Int(1), Cell::Text("a".into())],
                &[Cell::Real(2.5), Cell::Null],
                &[Cell::Real(3.5), Cell::Text("c".into())],
            ]);
            insert(tx, t.id, (1, 7), 3, &rows)?;
            let set = json!({"who": "b"});
            assert_eq!(
                update(tx, "history", set.as_object().unwrap(), "t > ? and who is null", &[json!(2)])?,
                1
            );
            assert_eq!(remove(tx, "history", "who in ('a', 'b')", &[])?, 2);
            let left: (f64, i64) =
                tx.query_row("SELECT t, fb_step FROM history", (), |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
            assert_eq!(left, (3.5, 7));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_row_that_does_not_fit_its_columns_is_refused() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let t = open_table(tx, "t", &[column("n", "i8"), column("b", "bool")], false)?;
            for bad in [
                [Cell::Int(300), Cell::Int(0)],
                [Cell::Int(3), Cell::Int(2)],
                [Cell::Text("x".into()), Cell::Null],
            ] {
                let e = insert(tx, t.id, (1, 0), 1, &cells(&[&bad])).unwrap_err();
                assert_eq!(e.code(), Code::BadArgument, "{e}");
            }
            assert!(insert(tx, t.id, (1, 0), 2, &cells(&[&[Cell::Null, Cell::Null]])).is_err());
            assert!(insert(tx, 99, (1, 0), 0, &[]).is_err());
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_number_that_would_become_another_one_does_not_fit() {
        let refused = |cell: Cell, dtype| fits(&cell, dtype).unwrap_err().text().to_owned();
        for (cell, dtype, why) in [
            (Cell::Int((1 << 53) + 1), DType::F64, "9007199254740993 is an integer that f64 does not hold"),
            (Cell::Int(i64::MAX), DType::F64, "declare the column as i64"),
            (Cell::Unsigned(u64::MAX), DType::F64, "18446744073709551615"),
            (Cell::Int(-(1 << 24) - 1), DType::F32, "-16777217"),
            (Cell::Real(1e-50), DType::F32, "1e-50 would be 0"),
            (
                Cell::Real(-1e40),
                DType::F32,
                "-1e40 does not go into a column of f32; give a number up to 3.4",
            ),
            (
                Cell::Text("1".into()),
                DType::I8,
                r#""1" does not go into a column of i8; give an integer from -128 to 127"#,
            ),
            (Cell::Blob(vec![97]), DType::Str, r#"b"a" does not go into a column of str; give a text"#),
            (
                Cell::Text("y".repeat(1000)),
                DType::Bytes,
                "yyy... does not go into a column of bytes; give bytes",
            ),
        ] {
            let text = refused(cell, dtype);
            assert!(text.contains(why), "{text}");
        }
        for (cell, dtype) in [
            (Cell::Int(1 << 60), DType::F32),
            (Cell::Int(i64::MIN), DType::F64),
            (Cell::Unsigned(1 << 63), DType::F32),
            (Cell::Real(0.1), DType::F32),
            (Cell::Real(1e-40), DType::F32),
            (Cell::Real(-0.0), DType::F32),
            (Cell::Real(f64::INFINITY), DType::F32),
            (Cell::Null, DType::F32),
        ] {
            fits(&cell, dtype).unwrap();
        }
    }

    #[test]
    fn a_column_of_every_dtype_takes_what_its_elements_hold_and_says_what_it_takes() {
        for dtype in DType::all() {
            let made = sql_type(&column("x", dtype.name()));
            assert_eq!(made.is_ok(), dtype.kind() != ElementKind::Complex, "{dtype}");
            assert!(!wanted(dtype).is_empty());
            let taken = |v: i128| match i64::try_from(v) {
                Ok(v) => fits(&Cell::Int(v), dtype).is_ok(),
                Err(_) => u64::try_from(v).is_ok_and(|v| fits(&Cell::Unsigned(v), dtype).is_ok()),
            };
            if let Some((least, most)) = dtype.range().map(|range| range.into_inner()) {
                assert!(taken(least) && taken(most), "{dtype}");
                assert!(!taken(least - 1) && !taken(most + 1), "{dtype}");
            }
            if let Some(largest) = dtype.largest() {
                assert!(fits(&Cell::Real(largest), dtype).is_ok() && taken(1), "{dtype}");
                assert!(cell(ValueRef::Null, Some(dtype)) != Cell::Null, "{dtype}");
            }
        }
        let says = |name: &str| wanted(DType::parse(name).unwrap());
        assert_eq!(says("u64"), "an integer from 0 to 18446744073709551615");
        assert_eq!(says("f16"), "a number up to 65504, or declare it as f32 or f64");
        assert_eq!(says("f32"), "a number up to 3.4028235e38, or declare it as f64");
        assert_eq!((says("f64"), says("bool")), ("a number".into(), "true or false".into()));
    }

    #[test]
    fn a_column_of_arrays_takes_arrays_of_its_shape_and_no_condition_names_it() {
        let (_dir, mut c) = scratch();
        let of =
            |name: &str, dtype: &str, shape: &[u64]| Column { shape: shape.to_vec(), ..column(name, dtype) };
        c.transaction(|tx| {
            let columns = [column("n", "i64"), of("v", "f64", &[3])];
            let t = open_table(tx, "atoms", &columns, false)?;
            let v: Vec<u8> = [1.0f64, f64::NAN, -0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
            insert(
                tx,
                t.id,
                (1, 0),
                2,
                &cells(&[&[Cell::Int(1), Cell::Blob(v.clone())], &[Cell::Int(2), Cell::Null]]),
            )?;
            let found: Vec<u8> = tx.query_row("SELECT v FROM atoms WHERE n = 1", (), |r| r.get(0)).unwrap();
            assert_eq!(found, v);
            for bad in [Cell::Blob(v[..16].to_vec()), Cell::Real(1.0), Cell::Text("x".into())] {
                let e = insert(tx, t.id, (1, 0), 1, &cells(&[&[Cell::Int(3), bad]])).unwrap_err();
                assert!(e.text().contains("give an array f64(3,)"), "{e}");
            }
            let set = json!({"v": Cell::Blob(vec![0; 24]).json()});
            assert_eq!(update(tx, "atoms", set.as_object().unwrap(), "n = 2", &[])?, 1);
            for bad in ["v > 1", "\"V\" is null", "n = 1 and exists (select atoms.v)"] {
                for e in
                    [remove(tx, "atoms", bad, &[]), update(tx, "atoms", set.as_object().unwrap(), bad, &[])]
                {
                    assert!(e.as_ref().is_err_and(|e| e.text().contains("\"v\"")), "{bad}: {e:?}");
                }
            }
            assert_eq!(remove(tx, "atoms", "n > 1 and 'v' = 'v'", &[])?, 1);
            assert!(index(tx, "atoms", &["v".into()]).unwrap_err().text().contains("\"v\""));
            assert_eq!(open_table(tx, "atoms", &columns, false)?, t);
            let other =
                open_table(tx, "atoms", &[column("n", "i64"), of("v", "f64", &[4])], false).unwrap_err();
            assert!(other.text().contains("v f64(3,), and is to have n i64, v f64(4,)"), "{other}");
            for bad in
                [of("v", "str", &[3]), of("v", "c128", &[3]), of("v", "f64", &[0]), of("v", "f64", &[10_000])]
            {
                let e = open_table(tx, "bad", &[bad], false).unwrap_err();
                assert!(e.code() == Code::BadArgument && e.text().contains("\"v\""), "{e}");
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_condition_cannot_reach_beyond_its_table() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            open_table(tx, "t", &[column("n", "i64")], false)?;
            open_table(tx, "u", &[column("n", "i64")], false)?;
            for bad in ["1); DROP TABLE u; --", "1) OR (1", "1 -- x", "1 /* x", "n = 'x", ";"] {
                assert!(remove(tx, "t", bad, &[]).is_err(), "{bad}");
            }
            assert!(remove(tx, "fb_run", "", &[]).is_err());
            assert!(table(tx, "u")?.is_some());
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_table_opens_again_only_with_its_own_columns() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let made = open_table(tx, "t", &[column("n", "i64")], false)?;
            assert_eq!(open_table(tx, "t", &[], false)?, made);
            assert_eq!(open_table(tx, "t", &[column("n", "f64")], false).unwrap_err().code(), Code::Conflict);
            let like = open_table(tx, "T", &[column("n", "i64")], false).unwrap_err();
            assert!(
                like.code() == Code::Conflict && like.text().contains("there is a table \"t\""),
                "{like}"
            );
            assert_eq!(open_table(tx, "nix", &[], false).unwrap_err().code(), Code::NotFound);
            assert!(open_table(tx, "fb_x", &[column("n", "i64")], false).is_err());
            assert!(open_table(tx, "x", &[column("z", "c128")], false).is_err());
            assert!(open_table(tx, "x", &[column("fb_step", "i64")], false).is_err());
            Ok(())
        })
        .unwrap();
    }
}
