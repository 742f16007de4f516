//! A history as columns: step, t, and one for each curve. Points at one step and t are one row; where a curve has none
//! there it is NaN. The n-th point that a curve has at one step and t stands beside the n-th of the others.

use super::sql_error;
use forebay_types::columns::ColumnValues;
use forebay_types::watch::{Diagram, Kind};
use forebay_types::{Code, DType, Error, Result};
use rusqlite::{Connection, OptionalExtension};
use std::collections::HashMap;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the catalog cannot be read", e)
}

struct Point {
    curve: u32,
    step: i64,
    t: f64,
    value: f64,
}

/// The points of the history of a title, by step, and within a step in the order they came.
pub fn history(conn: &Connection, title: &str) -> Result<Vec<ColumnValues>> {
    let id = number_of(conn, title)?;
    let curves = super::curves(conn, id)?;
    let mut points = points_of(conn, id)?;
    // Ranks give theirs in any order; those of one step stay in theirs.
    points.sort_by_key(|p| p.step);
    let place: HashMap<u32, usize> = curves.iter().enumerate().map(|(at, (curve, _))| (*curve, at)).collect();
    let (mut steps, mut times) = (Vec::new(), Vec::new());
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); curves.len()];
    // Of the step that is looked at: rows by t and which of its rows that is, and how many each curve has there.
    let mut rows: HashMap<(u64, u32), usize> = HashMap::new();
    let mut given: HashMap<(usize, u64), u32> = HashMap::new();
    for p in points {
        let Some(at) = place.get(&p.curve) else { continue };
        if steps.last().is_some_and(|last| *last != p.step) {
            rows.clear();
            given.clear();
        }
        let nth = given.entry((*at, p.t.to_bits())).or_default();
        let row = *rows.entry((p.t.to_bits(), *nth)).or_insert_with(|| {
            steps.push(p.step);
            times.push(p.t);
            values.iter_mut().for_each(|column| column.push(f64::NAN));
            steps.len() - 1
        });
        *nth += 1;
        values[*at][row] = p.value;
    }
    let reals = |values: Vec<f64>| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut columns = vec![
        ColumnValues::of_elements("step", DType::I64, steps.iter().flat_map(|v| v.to_le_bytes()).collect()),
        ColumnValues::of_elements("t", DType::F64, reals(times)),
    ];
    for ((_, name), values) in curves.into_iter().zip(values) {
        let name = unlike(&columns, name);
        columns.push(ColumnValues::of_elements(name, DType::F64, reals(values)));
    }
    Ok(columns)
}

/// A curve called as another column gets a name that is free.
fn unlike(columns: &[ColumnValues], mut name: String) -> String {
    while columns.iter().any(|c| c.name == name) {
        name.push('_');
    }
    name
}

fn points_of(conn: &Connection, id: u32) -> Result<Vec<Point>> {
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    conn.prepare_cached("SELECT curve, step, t, value FROM fb_points WHERE diagram = ?1 ORDER BY rowid")
        .and_then(|mut s| {
            let read = |r: &rusqlite::Row| {
                let (t, value) = (number(r.get(2)?), number(r.get(3)?));
                // Zeros of both signs are one time.
                Ok(Point { curve: r.get(0)?, step: r.get(1)?, t: t + 0.0, value })
            };
            s.query_map([id], read)?.collect()
        })
        .map_err(failed)
}

fn number_of(conn: &Connection, title: &str) -> Result<u32> {
    let found: Option<(u32, String)> = conn
        .query_row(
            "SELECT id, declaration FROM fb_diagrams WHERE title = ?1 ORDER BY id LIMIT 1",
            [title],
            |r| Ok((r.get(0)?, r.get(1)?)),
        )
        .optional()
        .map_err(failed)?;
    let kind = |text: &str| serde_json::from_str::<Diagram>(text).map(|d| d.kind);
    match found {
        Some((id, declaration)) => match kind(&declaration) {
            Ok(other) if other != Kind::History => Err(Error::bad(format!(
                "{title:?} is a diagram of kind {other:?}, which shows what is now; only histories are kept: declare it \
                 as \"history\", or put its arrays into snapshots"
            ))),
            _ => Ok(id),
        },
        None => {
            let all = super::diagrams(conn)?;
            let histories: Vec<String> = all
                .into_iter()
                .filter(|d| d.kind == Kind::History)
                .map(|d| format!("{:?}", d.title))
                .collect();
            let known = if histories.is_empty() { "none".to_owned() } else { histories.join(", ") };
            Err(Error::new(Code::NotFound, format!("there is no history {title:?}; the run has {known}")))
        }
    }
}
