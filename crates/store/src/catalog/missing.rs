//! Rows and points that a restart does not bring back: a snapshot at the bottom of a body stands, and the program
//! ended before it added what goes with it.
//!
//! ```text
//!  head 6: compute, snapshot 7, [SIGKILL] row      the restart goes on at head 7: nobody adds the row of head 6
//! ```
//!
//! Nothing says that a program meant to add it; but who has added one at every tenth head did. That is looked for.

use std::collections::BTreeMap;

use forebay_types::{Error, Result};
use rusqlite::Connection;

use super::partial::away;
use super::tables::{SESSION_COLUMN, STEP_COLUMN, row_number_of, tables};
use super::{quoted, sql_error};

/// So many heads with rows at one distance are a habit.
const HABIT: usize = 3;
/// Not more rows are looked at in a history: one head may have very many.
const LOOKED_AT: u32 = 100_000;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the catalog cannot be read", e)
}

/// The last heads at which there are rows, the last one first, and by their distance the one at which rows are missing
/// when the run goes on from snapshot `n`.
fn missing_head(last: &[i64], n: i64) -> Option<i64> {
    let [last, before, ..] = *last else { return None };
    let distance = last - before;
    let head = last.checked_add(distance)?;
    // The snapshot at the bottom of that body has the number of the head behind it.
    let stride = n.checked_sub(head)?;
    (stride > 0 && stride <= distance && distance % stride == 0).then_some(head)
}

/// The last heads with rows, for each key, of those that come in their order, the last ones first.
fn last_heads<K: Ord>(
    rows: impl Iterator<Item = rusqlite::Result<(K, i64)>>,
) -> Result<BTreeMap<K, Vec<i64>>> {
    let mut heads: BTreeMap<K, Vec<i64>> = BTreeMap::new();
    for row in rows {
        let (key, step) = row.map_err(failed)?;
        let of_it = heads.entry(key).or_default();
        if of_it.len() < HABIT && of_it.last() != Some(&step) {
            of_it.push(step);
        }
    }
    heads.retain(|_, of_it| {
        let distance = of_it[0] - of_it.get(1).unwrap_or(&of_it[0]);
        of_it.len() == HABIT && distance > 0 && of_it.windows(2).all(|w| w[0] - w[1] == distance)
    });
    Ok(heads)
}

/// What is missing when the run goes on from snapshot `n`, by what each rank has added before: a sentence. Nothing is
/// said while the memory of a rank may have more.
pub fn missing(conn: &Connection, n: i64) -> Result<Option<String>> {
    if !away(conn)?.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for t in tables(conn)?.iter().filter(|t| t.history) {
        let sql = format!(
            "SELECT s.rank, h.{STEP_COLUMN} FROM {} h JOIN fb_sessions s ON s.session = h.{SESSION_COLUMN}
             WHERE h.{STEP_COLUMN} < ?1 ORDER BY h.{} DESC LIMIT {LOOKED_AT}",
            quoted(&t.name),
            row_number_of(t)
        );
        let mut rows = conn.prepare(&sql).map_err(failed)?;
        let rows = rows.query_map([n], |r| Ok((r.get::<_, u32>(0)?, r.get(1)?))).map_err(failed)?;
        for (rank, last) in last_heads(rows)? {
            let head = missing_head(&last, n);
            found.extend(head.map(|head| format!("rows of step {head} in table {:?} (rank {rank})", t.name)));
        }
    }
    let sql = format!(
        "SELECT d.title, p.step FROM fb_points p JOIN fb_diagrams d ON d.id = p.diagram
         WHERE p.step < ?1 ORDER BY p.rowid DESC LIMIT {LOOKED_AT}"
    );
    let mut points = conn.prepare(&sql).map_err(failed)?;
    let points = points.query_map([n], |r| Ok((r.get::<_, String>(0)?, r.get(1)?))).map_err(failed)?;
    for (title, last) in last_heads(points)? {
        let head = missing_head(&last, n);
        found.extend(head.map(|head| format!("points of step {head} in diagram {title:?}")));
    }
    if found.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "a restart goes on from step {n}, and these are missing, as it seems: {}; the program ended behind that snapshot and before it added them. What is added at the bottom of the body before the snapshot is never lost so",
        found.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_missing_where_the_next_one_by_habit_is_that_of_the_snapshot() {
        assert_eq!(missing_head(&[5, 4, 3], 7), Some(6));
        assert_eq!(missing_head(&[6, 5, 4], 7), None, "all are there");
        assert_eq!(missing_head(&[5, 4, 3], 8), None, "a table that is added to no more");
        assert_eq!(missing_head(&[20, 10, 0], 31), Some(30));
        assert_eq!(missing_head(&[20, 10, 0], 30), None, "the next one is made there");
        assert_eq!(missing_head(&[20, 10, 0], 35), Some(30), "with a stride of 5");
        assert_eq!(missing_head(&[20, 10, 0], 34), None, "no stride");
        assert_eq!(missing_head(&[i64::MAX, 0, 0], 34), None);
    }

    #[test]
    fn a_habit_is_three_heads_at_one_distance() {
        let of = |steps: &[i64]| {
            let rows = steps.iter().map(|step| Ok((0, *step)));
            last_heads(rows).unwrap().remove(&0)
        };
        assert_eq!(of(&[5, 5, 4, 3, 1]), Some(vec![5, 4, 3]));
        assert_eq!(of(&[5, 4]), None);
        assert_eq!(of(&[5, 4, 2]), None);
        assert_eq!(of(&[5, 7, 9]), None, "heads grow");
    }
}
