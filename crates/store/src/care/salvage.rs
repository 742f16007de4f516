//! Saves what can be read of a damaged catalog, row by row, into a new one.
//!
//! SQLite stops with an error wherever it meets a damaged page. So the rows of a table are read from
//! both ends towards the damage, and the gap between is halved until what is left are the numbers
//! of the rows that lay in the damaged pages:
//!
//! ```text
//!   1 ........ 9600 |########| 10001 ....... 30000
//!   read upwards ->   the gap  <- read downwards
//! ```

use crate::catalog::{self, quoted, sql_error};
use forebay_types::{Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Row, ToSql};
use std::borrow::Cow;
use std::collections::VecDeque;

/// What was saved of a table, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The table, or another thing that the catalog knows by name.
    pub name: String,
    /// Rows that are in the new catalog.
    pub rows: u64,
    /// Numbers of rows that cannot be read: as many rows are lost at most.
    pub lost: u64,
    /// Whether more are lost than can be counted.
    pub more: bool,
    /// Rows whose number or key is not what it was, as far as other things tell: they are saved under what
    /// was read.
    pub displaced: u64,
    /// Rows with text that was not UTF-8: U+FFFD stands for the bytes that were none.
    pub garbled: u64,
}

impl Saved {
    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.lost == 0 && !self.more && self.displaced == 0 && self.garbled == 0
    }
}

/// Gaps of one table that are looked into; what is left then counts as lost.
const LOOKS: u32 = 200_000;
/// What SQLite's check says of pages that it cannot read, and of indexes.
const COUNTED: [&str; 6] = [
    "unable to get the page",
    "btreeInitPage() returns error",
    "database disk image is malformed",
    "missing from index",
    "wrong # of entries in index",
    "non-unique entry in index",
];
/// Lines after which SQLite ends a check.
const CHECKED: usize = 100;
/// The table of facts of the run.
const FACTS: &str = "fb_run";
/// The column that came with format 2.
const SERIAL: &str = "\"serial\"";
/// So far from the last row that was read rows are looked for when the table's end cannot be read.
const REACH: u32 = 62;

/// Saves all tables of `from` in `to`, which has the tables of a new catalog; gives one line for
/// each.
pub(super) fn salvage(from: &Connection, to: &Connection) -> Result<Vec<Saved>> {
    let (things, whole) = things(from)?;
    let mut all = Vec::new();
    if !whole {
        all.push(Saved { name: "the list of tables".into(), more: true, ..Saved::default() });
    }
    // Indexes, views and triggers after the rows: they are made of them, or would act on them.
    for thing in things.iter().filter(|t| t.kind == "table") {
        let mut saved = save_table(from, to, thing)?;
        saved.displaced += displaced(from, &thing.name)?;
        saved.more |= hides_rows(from, &thing.name)?;
        all.push(saved);
    }
    // What the list of tables has lost: nobody knows what stood in them, nor which tables they named.
    let own = catalog::own_tables(catalog::is_old(from).unwrap_or(false))?;
    for (name, _) in own.into_iter().filter(|(name, _)| !exists(from, name)) {
        all.push(Saved { name, more: true, ..Saved::default() });
    }
    for thing in things.iter().filter(|t| t.kind != "table" && !exists(to, &t.name)) {
        if to.execute(&thing.sql, ()).is_err() {
            let name = format!("{} {:?}", thing.kind, thing.name);
            all.push(Saved { name, lost: 1, ..Saved::default() });
        }
    }
    for table in catalog::tables(to)?.into_iter().filter(|t| !exists(to, &t.name)) {
        all.push(Saved { name: table.name, more: true, ..Saved::default() });
    }
    catalog::list_unlisted_tables(to)?;
    Ok(all)
}

/// What a catalog knows by name.
struct Thing {
    kind: String,
    name: String,
    sql: String,
}

/// All of them that can be read, and whether these are all.
fn things(from: &Connection) -> Result<(Vec<Thing>, bool)> {
    let failed = |e| sql_error("the damaged catalog cannot be read", e);
    let sql = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut found = Vec::new();
    let mut statement = match from.prepare(sql) {
        Err(e) if is_damage(&e) => return Ok((found, false)),
        other => other.map_err(failed)?,
    };
    let mut rows = statement.query(()).map_err(failed)?;
    loop {
        // One entry that is no text says nothing of the others.
        let text = |r: &Row, at: usize| match r.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            _ => Ok::<_, rusqlite::Error>(String::new()),
        };
        let read = |r: &Row| {
            Ok::<_, rusqlite::Error>(Thing { kind: text(r, 0)?, name: text(r, 1)?, sql: text(r, 2)? })
        };
        match rows.next().and_then(|row| row.map(read).transpose()) {
            Ok(Some(thing)) => found.push(thing),
            Ok(None) => return Ok((found, true)),
            Err(e) if is_damage(&e) => return Ok((found, false)),
            Err(e) => return Err(failed(e)),
        }
    }
}

/// Rows of a table that an index knows under another key than they have now. What of an index cannot be read
/// says nothing about the rows.
fn displaced(from: &Connection, table: &str) -> Result<u64> {
    match unlike_their_index(from, table) {
        Ok(n) => Ok(n),
        Err(e) if is_damage(&e) => Ok(0),
        Err(e) => Err(sql_error("the damaged catalog cannot be read", e)),
    }
}

fn unlike_their_index(from: &Connection, table: &str) -> rusqlite::Result<u64> {
    let texts = |sql: &str, of: &str| -> rusqlite::Result<Vec<String>> {
        from.prepare(sql)?.query_map([of], |r| r.get(0))?.collect()
    };
    let mut most = 0;
    // The others are the table itself, or hold some of its rows only.
    for index in texts("SELECT name FROM pragma_index_list(?1) WHERE origin <> 'pk' AND partial = 0", table)?
    {
        let columns =
            texts("SELECT name FROM pragma_index_info(?1) WHERE name IS NOT NULL ORDER BY seqno", &index)?;
        let columns: Vec<String> = columns.iter().map(|c| quoted(c)).collect();
        let same: Vec<String> = columns.iter().map(|c| format!("t.{c} IS i.{c}")).collect();
        let table = quoted(table);
        let sql = format!(
            "SELECT count(*) FROM (SELECT {}, rowid AS n FROM {table} INDEXED BY {}) i
             LEFT JOIN {table} t NOT INDEXED ON t.rowid = i.n WHERE NOT coalesce({}, 0)",
            columns.join(", "),
            quoted(&index),
            same.join(" AND ")
        );
        let found = from.query_row(&sql, (), |r| r.get::<_, i64>(0));
        most = most.max(found.unwrap_or(0) as u64);
    }
    Ok(most)
}

/// Whether pages of a table can be read and are not as SQLite left them: rows in them may be seen no more, or as
/// others than they were, and no reading tells. Of a page that cannot be read the rows are counted, and indexes are
/// made anew.
fn hides_rows(from: &Connection, table: &str) -> Result<bool> {
    let mut found = Vec::<String>::new();
    let mut check = || -> rusqlite::Result<()> {
        let mut statement = from.prepare(&format!("PRAGMA integrity_check({})", quoted(table)))?;
        let mut lines = statement.query(())?;
        while let Some(line) = lines.next()? {
            found.push(line.get(0)?);
        }
        Ok(())
    };
    match check() {
        // Pages come first, and then it reads the rows.
        Err(e) if is_damage(&e) && found.is_empty() => return Ok(true),
        Err(e) if !is_damage(&e) => return Err(sql_error("the damaged catalog cannot be read", e)),
        _ => {}
    }
    let is_known =
        |line: &str| line == "ok" || line.starts_with("***") || COUNTED.iter().any(|why| line.contains(why));
    // A check that is cut off says nothing of the rest.
    Ok(found.len() >= CHECKED || !found.iter().flat_map(|lines| lines.lines()).all(is_known))
}

fn exists(conn: &Connection, name: &str) -> bool {
    conn.query_row("SELECT 1 FROM sqlite_master WHERE name = ?1", [name], |_| Ok(())).is_ok()
}

/// Whether it is the file's fault. Anything else (a disk that does not answer, no memory) says
/// nothing about what can be saved.
fn is_damage(e: &rusqlite::Error) -> bool {
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig) => true,
        Some(ErrorCode::Unknown) => true,
        Some(_) => false,
        // A value of another type than its column has.
        None => true,
    }
}

fn save_table(from: &Connection, to: &Connection, thing: &Thing) -> Result<Saved> {
    let mut saved = Saved { name: thing.name.clone(), ..Saved::default() };
    if !exists(to, &thing.name) && to.execute(&thing.sql, ()).is_err() {
        saved.more = true;
        return Ok(saved);
    }
    let shape = |conn| Shape::of(conn, &thing.name);
    let (Some(old), Some(new)) = (shape(from)?, shape(to)?) else {
        saved.more = true;
        return Ok(saved);
    };
    let columns: Vec<String> = old.columns.iter().filter(|c| new.columns.contains(c)).cloned().collect();
    let key = old.key.filter(|_| old.number);
    // Steps and checkpoints of format 1 have none: they count as 0.
    let serial = !columns.iter().any(|c| c == SERIAL) && new.columns.iter().any(|c| c == SERIAL);
    let unique = old.unique;
    let mut copy = Copy { from, to, table: &thing.name, columns, serial, key, unique, looks: 0, saved };
    match copy.key {
        Some(_) => copy.by_number()?,
        None => copy.by_key(old.order.as_deref())?,
    }
    Ok(copy.saved)
}

/// How the rows of a table are named.
struct Shape {
    columns: Vec<String>,
    /// The number of a row, or the first part of its key.
    key: Option<String>,
    number: bool,
    unique: bool,
    /// The key of a table whose rows have no numbers.
    order: Option<String>,
}

impl Shape {
    /// `None` when it cannot be told.
    fn of(conn: &Connection, table: &str) -> Result<Option<Shape>> {
        type Column = (String, String, i64);
        let ask = || -> rusqlite::Result<(Vec<Column>, bool)> {
            let mut statement =
                conn.prepare("SELECT name, upper(type), pk FROM pragma_table_info(?1) ORDER BY cid")?;
            let columns = statement.query_map([table], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
            let columns = columns.collect::<rusqlite::Result<Vec<Column>>>()?;
            let list = "SELECT wr FROM pragma_table_list(?1) WHERE schema = 'main'";
            Ok((columns, conn.query_row(list, [table], |r| r.get(0)).optional()?.unwrap_or(false)))
        };
        let (described, without_rowid) = match ask() {
            Ok(found) if !found.0.is_empty() => found,
            Err(e) if !is_damage(&e) => return Err(sql_error("the damaged catalog cannot be read", e)),
            _ => return Ok(None),
        };
        let mut keys: Vec<&Column> = described.iter().filter(|c| c.2 > 0).collect();
        keys.sort_by_key(|c| c.2);
        let mut columns: Vec<String> = described.iter().map(|c| quoted(&c.0)).collect();
        let alone = keys.len() == 1;
        Ok(Some(match keys.first() {
            Some(first) if without_rowid || (alone && first.1 == "INTEGER") => {
                let key = quoted(&first.0);
                Shape {
                    columns,
                    number: first.1 == "INTEGER",
                    unique: alone,
                    order: Some(key.clone()),
                    key: Some(key),
                }
            }
            _ => {
                let key = catalog::row_number(described.iter().map(|c| c.0.as_str())).map(str::to_owned);
                columns.extend(key.clone());
                Shape { columns, number: key.is_some(), unique: true, key, order: None }
            }
        }))
    }
}

/// One table on its way.
struct Copy<'a> {
    from: &'a Connection,
    to: &'a Connection,
    table: &'a str,
    columns: Vec<String>,
    /// Whether the new table has a column for serials and the old one has none.
    serial: bool,
    key: Option<String>,
    /// Whether a key has one row.
    unique: bool,
    looks: u32,
    saved: Saved,
}

/// How far a reading came.
struct Pass {
    first: Option<i64>,
    last: Option<i64>,
    whole: bool,
}

impl Copy<'_> {
    /// Saves what has numbers.
    fn by_number(&mut self) -> Result<()> {
        let up = self.pass(i64::MIN, i64::MAX, false)?;
        if up.whole {
            return Ok(());
        }
        let low = up.last.map_or(i64::MIN, |n| self.behind(n));
        let down = self.pass(low, i64::MAX, true)?;
        if down.whole {
            return Ok(());
        }
        // Numbers begin at 0 or 1; below zero are steps only, and those have files.
        let low = if up.last.is_none() { 0 } else { low };
        let mut gaps = VecDeque::new();
        match down.last {
            Some(n) => gaps.push_back((low, self.before(n))),
            None => self.look_beyond(low, &mut gaps)?,
        }
        while let Some((low, high)) = gaps.pop_front() {
            if low <= high {
                self.look_into(low, high, &mut gaps)?;
            }
        }
        Ok(())
    }

    fn behind(&self, n: i64) -> i64 {
        n.saturating_add(self.unique.into())
    }

    fn before(&self, n: i64) -> i64 {
        n.saturating_sub(self.unique.into())
    }

    /// The end of the table cannot be read: rows are looked for farther and farther away.
    fn look_beyond(&mut self, mut low: i64, gaps: &mut VecDeque<(i64, i64)>) -> Result<()> {
        let mut power = 0;
        while power < REACH {
            let up = self.pass(low.saturating_add(1 << power), i64::MAX, false)?;
            power += 1;
            if let (Some(first), Some(last)) = (up.first, up.last) {
                gaps.push_back((low, self.before(first)));
                (low, power) = (self.behind(last), 0);
            }
            if up.whole {
                return Ok(());
            }
        }
        self.saved.more = true;
        Ok(())
    }

    /// Saves what can be read of a gap; what remains of it is halved.
    fn look_into(&mut self, low: i64, high: i64, gaps: &mut VecDeque<(i64, i64)>) -> Result<()> {
        self.looks += 1;
        if self.looks > LOOKS {
            self.saved.lost = self.saved.lost.saturating_add(low.abs_diff(high).saturating_add(1));
            return Ok(());
        }
        let up = self.pass(low, high, false)?;
        if up.whole {
            return Ok(());
        }
        let low = up.last.map_or(low, |n| self.behind(n));
        let down = self.pass(low, high, true)?;
        if down.whole {
            return Ok(());
        }
        let high = down.last.map_or(high, |n| self.before(n));
        if low == high {
            self.saved.lost += 1;
        } else if low < high {
            let middle = low.midpoint(high);
            gaps.extend([(low, middle), (middle + 1, high)]);
        }
        Ok(())
    }

    /// Saves what has other keys: from both ends, and whatever lies between is not counted.
    fn by_key(&mut self, order: Option<&str>) -> Result<()> {
        let tails = match order {
            Some(key) => vec![format!(" ORDER BY {key}"), format!(" ORDER BY {key} DESC")],
            None => vec![String::new()],
        };
        for tail in tails {
            if self.read(&tail, &[], None)?.whole {
                return Ok(());
            }
        }
        self.saved.more = true;
        Ok(())
    }

    /// Whether a row that could not be put is there already just as it is: of the facts of the run a new
    /// catalog has its own.
    fn is_saved(&self, row: &Row) -> Result<bool> {
        if self.table == FACTS {
            return Ok(true);
        }
        let same: Vec<String> =
            self.columns.iter().enumerate().map(|(i, c)| format!("{c} IS ?{}", i + 1)).collect();
        let sql = format!("SELECT 1 FROM {} WHERE {}", quoted(self.table), same.join(" AND "));
        let look = || -> rusqlite::Result<bool> {
            let mut statement = self.to.prepare_cached(&sql)?;
            for i in 0..self.columns.len() {
                let value = ToSqlOutput::Borrowed(row.get_ref(i + 1)?);
                statement.raw_bind_parameter(i + 1, &value as &dyn ToSql)?;
            }
            Ok(statement.raw_query().next()?.is_some())
        };
        look().map_err(|e| broken(self.table, e))
    }

    fn pass(&mut self, low: i64, high: i64, down: bool) -> Result<Pass> {
        let key = self.key.clone().unwrap_or_default();
        let order = if down { "DESC" } else { "ASC" };
        let tail = format!(" WHERE {key} BETWEEN ?1 AND ?2 ORDER BY {key} {order}");
        self.read(&tail, &[low, high], Some(down))
    }

    /// Reads rows until there are no more, or until one cannot be read.
    fn read(&mut self, tail: &str, range: &[i64], down: Option<bool>) -> Result<Pass> {
        let names = self.columns.join(", ");
        let key = self.key.clone().unwrap_or_else(|| "NULL".into());
        let select = format!("SELECT {key}, {names} FROM {}{tail}", quoted(self.table));
        let marks = vec!["?"; self.columns.len()].join(",");
        let (column, value) = if self.serial { (format!(", {SERIAL}"), ", 0") } else { (String::new(), "") };
        let insert = format!("INSERT INTO {}({names}{column}) VALUES({marks}{value})", quoted(self.table));
        let failed = |e| sql_error("the damaged catalog cannot be read", e);
        let mut pass = Pass { first: None, last: None, whole: false };
        let mut put = self.to.prepare_cached(&insert).map_err(|e| broken(self.table, e))?;
        let mut statement = match self.from.prepare_cached(&select) {
            Err(e) if is_damage(&e) => return Ok(pass),
            other => other.map_err(failed)?,
        };
        let mut rows = statement.query(rusqlite::params_from_iter(range)).map_err(failed)?;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(e) if is_damage(&e) => return Ok(pass),
                Err(e) => return Err(failed(e)),
            };
            let number: Option<i64> = row.get(0).unwrap_or_default();
            match carry(row, &mut put, self.columns.len()) {
                Ok(Carried::New { garbled }) => {
                    self.saved.rows += 1;
                    self.saved.garbled += u64::from(garbled);
                }
                Ok(Carried::There) if self.is_saved(row)? => {}
                Ok(Carried::There) => self.saved.lost += 1,
                Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    self.saved.lost += 1
                }
                Err(e) => return Err(broken(self.table, e)),
            }
            // Numbers rise: before one that does not there is one that is another row's.
            let astray =
                down.zip(pass.last).zip(number).is_some_and(|((down, a), b)| (b > a) == down && a != b);
            self.saved.displaced += u64::from(astray);
            pass.first = pass.first.or(number);
            pass.last = number.or(pass.last);
        }
        pass.whole = true;
        Ok(pass)
    }
}

fn broken(table: &str, e: rusqlite::Error) -> Error {
    sql_error(&format!("the rows of {table:?} cannot be saved"), e)
}

/// What became of a row.
enum Carried {
    New {
        garbled: bool,
    },
    /// One of its key is there already.
    There,
}

/// Puts a row as it is, whatever its values are; but text that is none cannot be read by anybody.
fn carry(row: &Row, put: &mut CachedStatement, columns: usize) -> rusqlite::Result<Carried> {
    let mut garbled = false;
    for i in 0..columns {
        let text;
        let value = match row.get_ref(i + 1)? {
            ValueRef::Text(bytes) => {
                text = String::from_utf8_lossy(bytes);
                garbled |= matches!(text, Cow::Owned(_));
                ValueRef::Text(text.as_bytes())
            }
            other => other,
        };
        let value = ToSqlOutput::Borrowed(value);
        put.raw_bind_parameter(i + 1, &value as &dyn ToSql)?;
    }
    match put.raw_execute() {
        Ok(_) => Ok(Carried::New { garbled }),
        Err(e) if is_there(&e) => Ok(Carried::There),
        Err(e) => Err(e),
    }
}

/// Whether a row of that key is in the new table: a damaged table may show one twice.
fn is_there(e: &rusqlite::Error) -> bool {
    use rusqlite::ffi;
    let known =
        [ffi::SQLITE_CONSTRAINT_PRIMARYKEY, ffi::SQLITE_CONSTRAINT_ROWID, ffi::SQLITE_CONSTRAINT_UNIQUE];
    matches!(e, rusqlite::Error::SqliteFailure(e, _) if known.contains(&e.extended_code))
}
