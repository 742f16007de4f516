//! What people watch and steer, kept: declarations, acts, messages. (Points of histories: `points`.)

use super::points::Giver;
use super::{now, sql_error};
use forebay_types::watch::{Declare, Diagram, Parameter, Reduce};
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};

type Values = serde_json::Map<String, serde_json::Value>;

fn failed(e: rusqlite::Error) -> Error {
    sql_error("the catalog cannot be read", e)
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))
}

/// Runs that were made before there was such a table get it: by which numbers a session calls diagrams and
/// curves. Each rank counts its own; the run knows a diagram by its title, a curve by its name.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_numbers(
             session INTEGER NOT NULL, diagram INTEGER NOT NULL, curve INTEGER NOT NULL,
             kept_diagram INTEGER NOT NULL, kept_curve INTEGER NOT NULL, reduce TEXT NOT NULL,
             PRIMARY KEY(session, diagram, curve)) WITHOUT ROWID",
    )
    .map_err(|e| sql_error("the table of diagrams cannot be made", e))
}

/// Stands for the diagram itself among its curves.
const ITSELF: i64 = -1;

fn note_number(
    conn: &Connection,
    session: u64,
    own: (u32, i64),
    kept: (u32, i64),
    reduce: &str,
) -> Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO fb_numbers VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
        .and_then(|mut s| s.execute(params![session as i64, own.0, own.1, kept.0, kept.1, reduce]))
        .map(|_| ())
        .map_err(|e| sql_error("cannot keep a declaration", e))
}

type Number = (u32, i64, String);

fn number_of(conn: &Connection, session: u64, own: (u32, i64)) -> Result<Option<Number>> {
    let sql = "SELECT kept_diagram, kept_curve, reduce FROM fb_numbers WHERE session = ?1 AND diagram = ?2 AND curve = ?3";
    conn.prepare_cached(sql)
        .and_then(|mut s| {
            let read = |r: &Row| Ok((r.get(0)?, r.get(1)?, r.get(2)?));
            s.query_row(params![session as i64, own.0, own.1], read).optional()
        })
        .map_err(failed)
}

/// Who gives points to a history, by the number that the session has for it.
pub fn giver(conn: &Connection, session: u64, diagram: u32) -> Result<Giver> {
    let (rank, size) = conn
        .prepare_cached("SELECT rank, size FROM fb_sessions WHERE session = ?1")
        .and_then(|mut s| s.query_row([session as i64], |r| Ok((r.get(0)?, r.get(1)?))))
        .map_err(failed)?;
    // A session that an owner of an earlier version began has the numbers that are kept.
    let known = number_of(conn, session, (diagram, ITSELF))?;
    let (diagram, reduce) = known.map_or((diagram, None), |(kept, _, how)| (kept, Reduce::parse(&how).ok()));
    Ok(Giver { session, rank, size, diagram, reduce })
}

/// A curve of a session as the run numbers it.
pub fn kept_curve(conn: &Connection, session: u64, diagram: u32, curve: u32) -> Result<u32> {
    Ok(number_of(conn, session, (diagram, curve.into()))?.map_or(curve, |(_, kept, _)| kept as u32))
}

/// Keeps a declaration, and gives it with the numbers that the run has for diagram and curve. A parameter
/// declared again has the value it is declared with: after a restart the rank declares it with the restored one.
pub fn declare(conn: &Connection, session: u64, what: &Declare) -> Result<Declare> {
    let broken = |e| sql_error("cannot keep a declaration", e);
    Ok(match what {
        Declare::Diagram(d) => Declare::Diagram(declare_diagram(conn, session, d)?),
        Declare::Parameter(p) => {
            conn.execute(
                "INSERT INTO fb_parameters VALUES(?1, ?2, ?3, -1) ON CONFLICT(name) DO UPDATE SET declaration = ?2, value = ?3, step = -1",
                params![p.name, json(p)?, p.value.to_string()],
            )
            .map_err(broken)?;
            what.clone()
        }
        Declare::Curve { diagram, curve, name } => {
            let (diagram, curve) = declare_curve(conn, session, (*diagram, *curve), name)?;
            Declare::Curve { diagram, curve, name: name.clone() }
        }
        Declare::Slot { diagram, curve, name, block, points } => {
            let (diagram, curve) = declare_curve(conn, session, (*diagram, *curve), name)?;
            Declare::Slot { diagram, curve, name: name.clone(), block: *block, points: *points }
        }
        Declare::Command { .. } | Declare::Progress { .. } | Declare::Over { .. } => what.clone(),
    })
}

fn declare_diagram(conn: &Connection, session: u64, d: &Diagram) -> Result<Diagram> {
    let broken = |e| sql_error("cannot keep a declaration", e);
    let reduce = d.reduce.map_or("", Reduce::name);
    let sql = "SELECT id, declaration FROM fb_diagrams WHERE title = ?1 ORDER BY id LIMIT 1";
    let known: Option<(u32, String)> =
        conn.query_row(sql, [&d.title], |r| Ok((r.get(0)?, r.get(1)?))).optional().map_err(failed)?;
    let id = match known {
        Some((id, declaration)) => {
            check_kind(conn, session, d, id, &declaration)?;
            id
        }
        None => conn
            .query_row(
                "SELECT CASE WHEN EXISTS (SELECT 1 FROM fb_diagrams WHERE id = ?1)
                 THEN (SELECT max(id) + 1 FROM fb_diagrams) ELSE ?1 END",
                [d.id],
                |r| r.get(0),
            )
            .map_err(failed)?,
    };
    let other: Option<String> = conn
        .query_row(
            "SELECT reduce FROM fb_numbers WHERE kept_diagram = ?1 AND curve = ?2 AND session <> ?3 AND reduce <> ?4",
            params![id, ITSELF, session as i64, reduce],
            |r| r.get(0),
        )
        .optional()
        .map_err(failed)?;
    if let Some(other) = other {
        let say =
            |how: &str| if how.is_empty() { "without reduce".into() } else { format!("with reduce={how:?}") };
        return Err(Error::new(
            Code::Conflict,
            format!(
                "the history {:?} is declared {} here and {} by another rank; declare it alike in all ranks",
                d.title,
                say(reduce),
                say(&other)
            ),
        ));
    }
    let kept = Diagram { id, ..d.clone() };
    conn.execute("INSERT OR REPLACE INTO fb_diagrams VALUES(?1, ?2, ?3)", params![id, d.title, json(&kept)?])
        .map_err(broken)?;
    note_number(conn, session, (d.id, ITSELF), (id, ITSELF), reduce)?;
    Ok(kept)
}

/// A diagram keeps its kind as long as there is something of it: the points of a history, or another rank that has
/// declared it.
fn check_kind(conn: &Connection, session: u64, d: &Diagram, id: u32, declaration: &str) -> Result<()> {
    let Ok(kept) = serde_json::from_str::<Diagram>(declaration) else { return Ok(()) };
    if kept.kind == d.kind {
        return Ok(());
    }
    let is_there = |sql: &str| {
        let own = params![id, session as i64];
        conn.query_row(sql, own, |r| r.get::<_, bool>(0)).map_err(failed)
    };
    let text = if is_there(
        "SELECT EXISTS (SELECT 1 FROM fb_numbers WHERE kept_diagram = ?1 AND session <> ?2)",
    )? {
        format!(
            "the diagram {:?} is declared as {:?} here and as {:?} by another rank; declare it alike in all ranks",
            d.title, d.kind, kept.kind
        )
    } else if is_there("SELECT EXISTS (SELECT 1 FROM fb_points WHERE diagram = ?1 AND ?2 IS NOT NULL)")? {
        format!(
            "the diagram {:?} is of kind {:?} in this run, with points of an earlier start, and is declared as {:?}; give it another title, or begin anew with mode \"w\"",
            d.title, kept.kind, d.kind
        )
    } else {
        return Ok(());
    };
    Err(Error::new(Code::Conflict, text))
}

fn declare_curve(conn: &Connection, session: u64, own: (u32, u32), name: &str) -> Result<(u32, u32)> {
    let diagram = number_of(conn, session, (own.0, ITSELF))?.map_or(own.0, |(kept, ..)| kept);
    let curve: u32 = conn
        .query_row(
            "SELECT coalesce(
                 (SELECT curve FROM fb_curves WHERE diagram = ?1 AND name = ?3 ORDER BY curve LIMIT 1),
                 CASE WHEN EXISTS (SELECT 1 FROM fb_curves WHERE diagram = ?1 AND curve = ?2)
                 THEN (SELECT max(curve) + 1 FROM fb_curves WHERE diagram = ?1) ELSE ?2 END)",
            params![diagram, own.1, name],
            |r| r.get(0),
        )
        .map_err(failed)?;
    conn.execute("INSERT OR REPLACE INTO fb_curves VALUES(?1, ?2, ?3)", params![diagram, curve, name])
        .map_err(|e| sql_error("cannot keep a declaration", e))?;
    note_number(conn, session, (own.0, own.1.into()), (diagram, curve.into()), "")?;
    Ok((diagram, curve))
}

/// What becomes of the ranks' values in a history, as the run numbers it.
pub(super) fn reduce_of(conn: &Connection, diagram: u32) -> Result<Option<Reduce>> {
    let text: Option<String> = conn
        .prepare_cached("SELECT declaration FROM fb_diagrams WHERE id = ?1")
        .and_then(|mut s| s.query_row([diagram], |r| r.get(0)).optional())
        .map_err(failed)?;
    Ok(text.and_then(|t| serde_json::from_str::<Diagram>(&t).ok()).and_then(|d| d.reduce))
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
    /// When, in seconds since 1970.
    pub asked: f64,
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
            asked: r.get(6)?,
        })
    };
    conn.prepare_cached("SELECT id, who, act, step, code, text, asked FROM fb_steering ORDER BY id")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(failed)
}

/// An act that a rank may still have to carry out.
pub struct OpenAct {
    /// Its number.
    pub id: u64,
    /// Who asked.
    pub who: String,
    /// When, in seconds since 1970.
    pub asked: f64,
    /// What, unless this version does not know it.
    pub act: Option<forebay_types::watch::Act>,
    /// Where other ranks have carried it out; none when none has.
    pub step: Option<i64>,
}

/// The acts without an end, and those behind that number if one is given, in order.
pub fn open_acts(conn: &Connection, behind: Option<u64>) -> Result<Vec<OpenAct>> {
    let read = |r: &Row| {
        let act: String = r.get(3)?;
        let (id, who, asked) = (r.get::<_, i64>(0)? as u64, r.get(1)?, r.get(2)?);
        Ok(OpenAct { id, who, asked, act: serde_json::from_str(&act).ok(), step: r.get(4)? })
    };
    let sql = "SELECT id, who, asked, act, step FROM fb_steering WHERE code IS NULL OR id > ?1 ORDER BY id";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_map([behind.map(|id| id as i64)], read)?.collect())
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
                units: "V/m".into(),
                help: String::new(),
                signed: false,
            };
            declare(tx, 1, &Declare::Parameter(p.clone()))?;
            let set = |v: f64| Verb::Set { name: "e0".into(), value: json!(v) };
            let (good, bad) = (1, 2);
            log_act(tx, good, "anna", &set(0.5))?;
            assert_eq!(parameter_values(tx)?["e0"], 0.0);
            log_applied(tx, good, 12, 0, "set")?;
            log_act(tx, bad, "anna", &set(9.0))?;
            assert_eq!(last_act(tx)?, bad);
            log_applied(tx, bad, 13, 3, "too large")?;
            assert_eq!(parameter_values(tx)?["e0"], 0.5);
            declare(tx, 1, &Declare::Parameter(p))?;
            assert_eq!(parameter_values(tx)?["e0"], 0.0);
            let log = acts(tx)?;
            assert_eq!((log[0].step, log[1].code), (Some(12), Some(3)));
            Ok(())
        })
        .unwrap();
    }
}
