//! Whether two catalogs of one run hold the same data: how much of each kind there is, and not each value.

use super::{quoted, row_number_of, sql_error, tables};
use forebay_types::Result;
use rusqlite::Connection;
use rusqlite::types::Value;

/// What changes when a program puts, inserts, appends or keeps something, by kind.
const KINDS: [&str; 7] = [
    "SELECT count(*), max(step), total(serial) FROM fb_steps",
    "SELECT count(*), total(version), total(crc32c) FROM fb_data",
    "SELECT count(*), group_concat(attrs), 0 FROM fb_tables",
    "SELECT count(*), max(id), 0 FROM fb_checkpoints",
    "SELECT count(*), group_concat(value), 0 FROM fb_parameters",
    "SELECT max(rowid), 0, 0 FROM fb_points",
    "SELECT value, 0, 0 FROM fb_run WHERE key = 'attrs'",
];

/// Whether no kind of data differs.
pub fn alike(one: &Connection, other: &Connection) -> Result<bool> {
    Ok(contents(one)? == contents(other)?)
}

fn contents(conn: &Connection) -> Result<Vec<[Value; 3]>> {
    let of_tables = tables(conn)?
        .into_iter()
        .map(|t| format!("SELECT max({}), 0, 0 FROM {}", row_number_of(&t), quoted(&t.name)));
    let kinds = KINDS.into_iter().map(str::to_owned).chain(of_tables);
    let read = |sql: String| conn.query_row(&sql, (), |r| Ok([r.get(0)?, r.get(1)?, r.get(2)?]));
    kinds.map(|sql| read(sql).map_err(|e| sql_error("the catalog cannot be read", e))).collect()
}
