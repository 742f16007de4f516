//! Descriptors: units and attributes of the run, of data sets and of tables.

use super::sql_error;
use forebay_types::control::Target;
use forebay_types::{Code, Error, Result, limits};
use rusqlite::{Connection, OptionalExtension, params};

type Attrs = serde_json::Map<String, serde_json::Value>;

/// Checks a unit and the JSON of attributes; empty JSON means that none were given.
pub fn unit_and_attrs<'a>(units: &'a str, attrs: &str) -> Result<(&'a str, Option<Attrs>)> {
    if units.len() > limits::UNIT_BYTES {
        return Err(Error::bad(format!("the unit {units:?} is longer than {} bytes", limits::UNIT_BYTES)));
    }
    if attrs.is_empty() {
        return Ok((units, None));
    }
    check_size(attrs.len())?;
    Ok((units, Some(forebay_types::attributes(attrs)?)))
}

fn check_size(bytes: usize) -> Result<()> {
    match bytes > limits::JSON_BYTES {
        true => Err(Error::bad(format!(
            "{bytes} bytes of attributes are beyond the limit of {}; put large values as data sets",
            limits::JSON_BYTES
        ))),
        false => Ok(()),
    }
}

/// The attributes of something.
pub fn attributes(conn: &Connection, target: &Target) -> Result<Attrs> {
    let text: Option<String> = match target {
        Target::Run => conn.query_row("SELECT value FROM fb_run WHERE key = 'attrs'", (), |r| r.get(0)),
        Target::DataSet { name, set } => conn.query_row(
            "SELECT attrs FROM fb_data WHERE name = ?1 AND set_number = ?2",
            params![name, set],
            |r| r.get(0),
        ),
        Target::Table { name } => {
            conn.query_row("SELECT attrs FROM fb_tables WHERE name = ?1", [name], |r| r.get(0))
        }
    }
    .optional()
    .map_err(|e| sql_error("the catalog cannot be read", e))?;
    let text = text.ok_or_else(|| Error::new(Code::NotFound, format!("there is no {}", describe(target))))?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Changes attributes: null values delete.
pub fn set_attributes(conn: &Connection, target: &Target, change: &Attrs) -> Result<()> {
    let mut attrs = attributes(conn, target)?;
    for (key, value) in change {
        match value.is_null() {
            true => attrs.remove(key),
            false => attrs.insert(key.clone(), value.clone()),
        };
    }
    let text = serde_json::Value::Object(attrs).to_string();
    check_size(text.len())?;
    match target {
        Target::Run => conn.execute("UPDATE fb_run SET value = ?1 WHERE key = 'attrs'", [text]),
        Target::DataSet { name, set } => conn.execute(
            "UPDATE fb_data SET attrs = ?1 WHERE name = ?2 AND set_number = ?3",
            params![text, name, set],
        ),
        Target::Table { name } => {
            conn.execute("UPDATE fb_tables SET attrs = ?1 WHERE name = ?2", params![text, name])
        }
    }
    .map(|_| ())
    .map_err(|e| sql_error(&format!("cannot change the attributes of {}", describe(target)), e))
}

fn describe(target: &Target) -> String {
    match target {
        Target::Run => "the run".into(),
        Target::DataSet { name, set } => format!("data set {name:?} set {set}"),
        Target::Table { name } => format!("table {name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::scratch;
    use serde_json::json;

    #[test]
    fn attributes_change_one_by_one_and_null_deletes() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let set = |v: serde_json::Value| set_attributes(tx, &Target::Run, v.as_object().unwrap());
            set(json!({"deck": "es1", "dt": 0.1}))?;
            set(json!({"deck": null, "note": [1, 2]}))?;
            let got = attributes(tx, &Target::Run)?;
            assert_eq!(serde_json::Value::Object(got), json!({"dt": 0.1, "note": [1, 2]}));
            let nobody = Target::DataSet { name: "x".into(), set: 0 };
            assert_eq!(attributes(tx, &nobody).unwrap_err().code(), Code::NotFound);
            Ok(())
        })
        .unwrap();
    }
}
