//! What people watch and steer, kept: declarations, points of histories, acts, messages.

use super::{now, sql_error};
use forebay_types::watch::{Declare, Diagram, Parameter};
use forebay_types::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};

type Values = serde_json::Map<String, serde_json::Value>;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the catalog cannot be read", e)
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))
}

/// Keeps a declaration. A parameter declared again has the value it is declared with: after a
/// restart the rank declares it with the restored one.
pub fn declare(conn: &Connection, what: &Declare) -> Result<()> {
    match what {
        Declare::Diagram(d) => conn.execute(
            "INSERT OR REPLACE INTO fb_diagrams VALUES(?1, ?2, ?3)",
            params![d.id, d.title, json(d)?],
        ),
        Declare::Parameter(p) => conn.execute(
            "INSERT INTO fb_parameters VALUES(?1, ?2, ?3, -1) ON CONFLICT(name) DO UPDATE SET declaration = ?2, value = ?3, step = -1",
            params![p.name, json(p)?, p.value.to_string()],
        ),
        Declare::Curve { diagram, curve, name } | Declare::Slot { diagram, curve, name, .. } => conn
            .execute("INSERT OR REPLACE INTO fb_curves VALUES(?1, ?2, ?3)", params![diagram, curve, name]),
        Declare::Command { .. } | Declare::Progress { .. } | Declare::Over { .. } => Ok(0),
    }
    .map(|_| ())
    .map_err(|e| sql_error("cannot keep a declaration", e))
}

/// Keeps a point of a history.
pub fn add_point(conn: &Connection, diagram: u32, curve: u32, step: i64, t: f64, value: f64) -> Result<()> {
    conn.prepare_cached("INSERT INTO fb_points VALUES(?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut s| s.execute(params![diagram, curve, step, t, value]))
        .map(|_| ())
        .map_err(|e| sql_error("cannot keep a point", e))
}

/// Rows of a step that are looked at for a point: more than ranks append to it that differ.
const ALIKE: u32 = 256;

/// Whether a point of a history is there, among the newest of its step.
pub fn has_point(conn: &Connection, diagram: u32, curve: u32, step: i64, t: f64, value: f64) -> Result<bool> {
    let newest =
        "SELECT diagram, curve, t, value FROM fb_points WHERE step = ?1 ORDER BY rowid DESC LIMIT ?2";
    conn.prepare_cached(&format!(
        "SELECT 1 FROM ({newest}) WHERE diagram = ?3 AND curve = ?4 AND t IS ?5 AND value IS ?6"
    ))
    .and_then(|mut s| s.exists(params![step, ALIKE, diagram, curve, t, value]))
    .map_err(|e| sql_error("cannot look for a point", e))
}

/// Diagrams in order of number.
pub fn diagrams(conn: &Connection) -> Result<Vec<Diagram>> {
    let texts: Vec<String> = conn
        .prepare_cached("SELECT declaration FROM fb_diagrams ORDER BY id")
        .and_then(|mut s| s.query_map((), |r| r.get(0))?.collect())
        .map_err(failed)?;
    Ok(texts.iter().filter_map(|t| serde_json::from_str(t).ok()).collect())
}

/// Curves of a diagram: number and name.
pub fn curves(conn: &Connection, diagram: u32) -> Result<Vec<(u32, String)>> {
    conn.prepare_cached("SELECT curve, name FROM fb_curves WHERE diagram = ?1 ORDER BY curve")
        .and_then(|mut s| s.query_map([diagram], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)
}

/// Points of a curve in the order they came: abscissa and value.
pub fn points(conn: &Connection, diagram: u32, curve: u32) -> Result<Vec<(f64, f64)>> {
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    conn.prepare_cached("SELECT t, value FROM fb_points WHERE diagram = ?1 AND curve = ?2 ORDER BY rowid")
        .and_then(|mut s| {
            s.query_map([diagram, curve], |r| Ok((number(r.get(0)?), number(r.get(1)?))))?.collect()
        })
        .map_err(failed)
}

/// A point of a history as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Number of its row: counts up in the order in which points came.
    pub row: i64,
    /// The diagram, as the program numbers it.
    pub diagram: u32,
    /// The curve.
    pub curve: u32,
    /// Abscissa.
    pub t: f64,
    /// Ordinate.
    pub value: f64,
}

/// Points in rows `from` to `to`, in order, at most `most`; of one diagram and curve if asked.
pub fn points_between(
    conn: &Connection,
    (from, to): (i64, i64),
    of: Option<(u32, u32)>,
    most: usize,
) -> Result<Vec<Point>> {
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    let read = |r: &Row| {
        Ok(Point {
            row: r.get(0)?,
            diagram: r.get(1)?,
            curve: r.get(2)?,
            t: number(r.get(3)?),
            value: number(r.get(4)?),
        })
    };
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let begin = "SELECT rowid, diagram, curve, t, value FROM fb_points WHERE rowid BETWEEN ?1 AND ?2";
    match of {
        None => conn
            .prepare_cached(&format!("{begin} ORDER BY rowid LIMIT ?3"))
            .and_then(|mut s| s.query_map(params![from, to, most], read)?.collect()),
        Some((diagram, curve)) => conn
            .prepare_cached(&format!("{begin} AND diagram = ?4 AND curve = ?5 ORDER BY rowid LIMIT ?3"))
            .and_then(|mut s| s.query_map(params![from, to, most, diagram, curve], read)?.collect()),
    }
    .map_err(failed)
}

/// Declared parameters with the values they have now.
pub fn parameters(conn: &Connection) -> Result<Vec<Parameter>> {
    let rows: Vec<(String, String)> = conn
        .prepare_cached("SELECT declaration, value FROM fb_parameters ORDER BY name")
        .and_then(|mut s| s.query_map((), |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    let with_value = |(declaration, value): &(String, String)| {
        let p: Parameter = serde_json::from_str(declaration).ok()?;
        Some(Parameter { value: serde_json::from_str(value).ok()?, ..p })
    };
    Ok(rows.iter().filter_map(with_value).collect())
}

/// Values of all parameters by name.
pub fn parameter_values(conn: &Connection) -> Result<Values> {
    Ok(parameters(conn)?.into_iter().map(|p| (p.name, p.value)).collect())
}

/// Records that somebody asked for an act; gives its number.
pub fn log_act(conn: &Connection, id: u64, who: &str, act: &forebay_types::watch::Act) -> Result<()> {
    conn.execute(
        "INSERT INTO fb_steering(id, who, act, asked) VALUES(?1, ?2, ?3, ?4)",
        params![id as i64, who, json(act)?, now()],
    )
    .map(|_| ())
    .map_err(|e| sql_error("cannot log an act", e))
}

/// The number of the last act in the log.
pub fn last_act(conn: &Connection) -> Result<u64> {
    conn.query_row("SELECT coalesce(max(id), 0) FROM fb_steering", (), |r| r.get::<_, i64>(0))
        .map(|n| n as u64)
        .map_err(|e| sql_error("the log of acts cannot be read", e))
}

/// Records that an act was carried out or refused. A parameter takes its new value.
pub fn log_applied(conn: &Connection, id: u64, step: i64, code: u32, text: &str) -> Result<()> {
    let broken = |e| sql_error("cannot log an act", e);
    conn.execute(
        "UPDATE fb_steering SET step = ?2, done = ?3, code = max(coalesce(code, 0), ?4), text = ?5 WHERE id = ?1",
        params![id as i64, step, now(), code, text],
    )
    .map_err(broken)?;
    let act: Option<String> = conn
        .query_row("SELECT act FROM fb_steering WHERE id = ?1", [id as i64], |r| r.get(0))
        .optional()
        .map_err(broken)?;
    let act = act.and_then(|a| serde_json::from_str(&a).ok());
    if let (Some(forebay_types::watch::Act::Set { name, value }), 0) = (act, code) {
        conn.execute(
            "UPDATE fb_parameters SET value = ?2, step = ?3 WHERE name = ?1",
            params![name, value.to_string(), step],
        )
        .map_err(broken)?;
    }
    Ok(())
}

/// An act as it was logged.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// Its number.
    pub id: u64,
    /// Who asked.
    pub who: String,
    /// What, as JSON.
    pub act: String,
    /// Where it was carried out.
    pub step: Option<i64>,
    /// Code of the error, 0 when done, nothing when still open.
    pub code: Option<u32>,
    /// What was done, or the text of the error.
    pub text: Option<String>,
}

/// The log of steering, in order.
pub fn acts(conn: &Connection) -> Result<Vec<Act>> {
    let read = |r: &Row| {
        Ok(Act {
            id: r.get::<_, i64>(0)? as u64,
            who: r.get(1)?,
            act: r.get(2)?,
            step: r.get(3)?,
            code: r.get(4)?,
            text: r.get(5)?,
        })
    };
    conn.prepare_cached("SELECT id, who, act, step, code, text FROM fb_steering ORDER BY id")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(failed)
}

/// Keeps a message; the oldest go beyond the limit.
pub fn message(conn: &Connection, session: u64, step: i64, level: u8, text: &str) -> Result<()> {
    let broken = |e| sql_error("cannot keep a message", e);
    conn.prepare_cached(
        "INSERT INTO fb_messages(session, step, level, text, made) VALUES(?1, ?2, ?3, ?4, ?5)",
    )
    .and_then(|mut s| s.execute(params![session as i64, step, level, text, now()]))
    .map_err(broken)?;
    let id = conn.last_insert_rowid();
    if id % 256 == 0 {
        conn.execute("DELETE FROM fb_messages WHERE id <= ?1", [id - super::schema::MESSAGES])
            .map_err(broken)?;
    }
    Ok(())
}

/// The last messages: step, level and text, oldest first.
pub fn messages(conn: &Connection, last: u32) -> Result<Vec<(i64, u8, String)>> {
    let sql =
        "SELECT step, level, text FROM (SELECT * FROM fb_messages ORDER BY id DESC LIMIT ?1) ORDER BY id";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map([last], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?.collect())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::scratch;
    use forebay_types::watch::Act as Verb;
    use serde_json::json;

    #[test]
    fn a_parameter_changes_when_the_act_was_carried_out_and_not_before() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let p = Parameter {
                name: "e0".into(),
                value: json!(0.0),
                min: None,
                max: None,
                unit: "V/m".into(),
                help: String::new(),
            };
            declare(tx, &Declare::Parameter(p.clone()))?;
            let set = |v: f64| Verb::Set { name: "e0".into(), value: json!(v) };
            let (good, bad) = (1, 2);
            log_act(tx, good, "anna", &set(0.5))?;
            assert_eq!(parameter_values(tx)?["e0"], 0.0);
            log_applied(tx, good, 12, 0, "set")?;
            log_act(tx, bad, "anna", &set(9.0))?;
            assert_eq!(last_act(tx)?, bad);
            log_applied(tx, bad, 13, 3, "too large")?;
            assert_eq!(parameter_values(tx)?["e0"], 0.5);
            declare(tx, &Declare::Parameter(p))?;
            assert_eq!(parameter_values(tx)?["e0"], 0.0);
            let log = acts(tx)?;
            assert_eq!((log[0].step, log[1].code), (Some(12), Some(3)));
            Ok(())
        })
        .unwrap();
    }
}
