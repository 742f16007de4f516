//! Questions to tables: parameters bound, one statement, reading only.

use super::tables::{STEP_COLUMN, argument, cell, condition_failed, row_number_of};
use super::{quoted, sql_error, table, tables};
use forebay_types::columns::ColumnValues;
use forebay_types::control::{Column, TableInfo};
use forebay_types::reading::Select;
use forebay_types::record::Cell;
use forebay_types::{ArrayMeta, Code, DType, ElementKind, Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// Walks SQL outside literals and quoted names; refuses comments, semicolons and parentheses that
/// close what was opened outside. What remains, in parentheses, can only be an expression.
pub fn one_expression(text: &str) -> Result<()> {
    let wrong = |why: &str| Error::bad(format!("{text:?} is not one SQL expression: {why}"));
    let mut depth = 0i32;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' | '`' | '[' => {
                let close = if c == '[' { ']' } else { c };
                if !chars.any(|x| x == close) {
                    return Err(wrong("a quote is not closed"));
                }
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' => return Err(wrong("it has a semicolon")),
            '\0' => return Err(wrong("it has a zero byte")),
            '-' if chars.peek() == Some(&'-') => return Err(wrong("it has a comment")),
            '/' if chars.peek() == Some(&'*') => return Err(wrong("it has a comment")),
            _ => {}
        }
        if depth < 0 {
            return Err(wrong("it closes more parentheses than it opens"));
        }
    }
    match depth {
        0 => Ok(()),
        _ => Err(wrong("a parenthesis is not closed")),
    }
}

/// A condition on the rows of a table, in parentheses; none where it is empty. One that names a column of arrays is
/// refused: SQLite compares their bytes, and not what they mean.
pub fn condition_of(conn: &Connection, t: &TableInfo, condition: &str) -> Result<Option<String>> {
    if condition.trim().is_empty() {
        return Ok(None);
    }
    one_expression(condition)?;
    let condition = format!("({condition})");
    if let Some(column) = array_read(conn, t, &condition) {
        return Err(Error::bad(format!(
            "table {:?}, condition {condition}: column {:?} is of arrays, which SQL does not compare; name other columns, \
             or read the rows and compare the arrays",
            t.name, column.name
        )));
    }
    Ok(Some(condition))
}

/// A column of arrays that an expression reads. SQLite finds it, by whatever way it is named: where a second table of the
/// same name has these columns alone, they are the ones that are ambiguous.
fn array_read<'a>(conn: &Connection, t: &'a TableInfo, expression: &str) -> Option<&'a Column> {
    let arrays: Vec<&Column> = t.columns.iter().filter(|c| c.is_array()).collect();
    if arrays.is_empty() {
        return None;
    }
    let (name, row) = (quoted(&t.name), row_number_of(t));
    let twice: Vec<String> = arrays.iter().map(|c| quoted(&c.name)).collect();
    let sql = format!(
        "SELECT 1 FROM (SELECT {row} AS {row}, * FROM {name}) AS {name}, (SELECT {} FROM {name}) AS {name} WHERE {expression}",
        twice.join(", ")
    );
    // What else is wrong with it is told by the query itself.
    let told = conn.prepare(&sql).err()?.to_string();
    let (_, named) = told.split_once("ambiguous column name: ")?;
    let named = named.split(" in SELECT").next().unwrap_or(named);
    let column = named.rsplit_once('.').map_or(named, |(_, column)| column);
    arrays.into_iter().find(|c| c.name.eq_ignore_ascii_case(column))
}

/// The SQL of what is wanted of a table, and what the values of its columns are; the step column of a history stays
/// hidden, unless it is named.
fn sql_of(conn: &Connection, t: &TableInfo, wanted: &Select) -> Result<(String, Vec<(String, ArrayMeta)>)> {
    debug_assert!(t.columns.iter().all(|c| c.name != STEP_COLUMN));
    let of_step = Column { name: STEP_COLUMN.to_owned(), dtype: "i64".to_owned(), ..Default::default() };
    let of_step = t.history.then_some(of_step);
    let known = |name: &String| {
        t.columns.iter().chain(&of_step).find(|c| c.name == *name).ok_or_else(|| {
            let known: Vec<&str> = t.columns.iter().map(|c| c.name.as_str()).collect();
            let text = format!("the table {:?} has no column {name:?}; it has {}", t.name, known.join(", "));
            Error::new(Code::NotFound, text)
        })
    };
    let columns = match wanted.columns.is_empty() {
        true => t.columns.iter().collect(),
        false => wanted.columns.iter().map(known).collect::<Result<Vec<_>>>()?,
    };
    let row = row_number_of(t);
    let mut given: Vec<String> = columns.iter().map(|c| quoted(&c.name)).collect();
    let meta = |c: &&Column| Ok((c.name.clone(), c.meta()?));
    let mut metas = columns.iter().map(meta).collect::<Result<Vec<_>>>()?;
    let mut conditions = Vec::new();
    conditions.extend(condition_of(conn, t, &wanted.condition)?);
    if let Some(after) = wanted.after {
        given.push(row.to_owned());
        metas.push((row.to_owned(), DType::I64.into()));
        conditions.push(format!("{row} > {after}"));
    }
    let mut sql = format!("SELECT {} FROM {}", given.join(", "), quoted(&t.name));
    if !conditions.is_empty() {
        sql.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    let mut order = Vec::new();
    for (name, down) in &wanted.order {
        let by = known(name)?;
        if by.is_array() {
            let text =
                format!("rows are not ordered by {name:?}, a column of arrays; order them by another one");
            return Err(Error::bad(text));
        }
        order.push(format!("{}{}", quoted(&by.name), if *down { " DESC" } else { "" }));
    }
    order.push(row.to_owned());
    sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
    if let Some(limit) = wanted.limit {
        sql.push_str(&format!(" LIMIT {}", i64::try_from(limit).unwrap_or(i64::MAX)));
    }
    Ok((sql, metas))
}

fn named(conn: &Connection, name: &str) -> Result<TableInfo> {
    table(conn, name)?.ok_or_else(|| Error::new(Code::NotFound, format!("there is no table {name:?}")))
}

/// The dtype by which SQLite's value of a column is told; what is stored of an array is what it is.
fn declared(meta: &ArrayMeta) -> Option<DType> {
    (meta.shape.rank() == 0).then_some(meta.dtype)
}

/// Rows of a table.
pub fn select_rows(conn: &Connection, wanted: &Select) -> Result<Rows> {
    let t = named(conn, &wanted.table)?;
    let (sql, columns) = sql_of(conn, &t, wanted)?;
    let dtypes: Vec<Option<DType>> = columns.iter().map(|c| declared(&c.1)).collect();
    ask(conn, &sql, &wanted.args, &dtypes, &|e| condition_failed(&t, &wanted.condition, e))
}

/// The same by columns.
pub fn select_columns(conn: &Connection, wanted: &Select) -> Result<Vec<ColumnValues>> {
    let t = named(conn, &wanted.table)?;
    let (sql, columns) = sql_of(conn, &t, wanted)?;
    let failed = |e| condition_failed(&t, &wanted.condition, e);
    let mut columns: Vec<ColumnValues> =
        columns.into_iter().map(|(name, meta)| ColumnValues::new(name, meta)).collect();
    let mut statement = conn.prepare(&sql).map_err(failed)?;
    let values = wanted.args.iter().map(argument).collect::<Result<Vec<_>>>()?;
    let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        for (at, column) in columns.iter_mut().enumerate() {
            let value = row.get_ref(at).map_err(failed)?;
            match (value, column.dtype.is_text()) {
                (ValueRef::Null, _) => column.push_null(),
                (ValueRef::Blob(v), _) if column.is_array() && v.len() == column.value_size() => {
                    column.push_element(v);
                }
                _ if column.is_array() => return Err(column.foreign()),
                (ValueRef::Integer(v), false) => column.push_integer(v as u64),
                (ValueRef::Real(v), false) if column.dtype.kind() == ElementKind::Float => {
                    column.push_real(v)
                }
                (ValueRef::Text(v) | ValueRef::Blob(v), true) => column.push_text(v),
                (ValueRef::Blob(_), false) => column.push(&cell(value, Some(column.dtype)))?,
                _ => return Err(column.foreign()),
            }
        }
    }
    Ok(columns)
}

/// Any question that only reads.
pub fn read_only(conn: &Connection, sql: &str, args: &[serde_json::Value]) -> Result<Rows> {
    let text = sql.trim().trim_end_matches(';');
    let verb: String = text.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
    if !["select", "with", "values", "explain"].contains(&verb.to_ascii_lowercase().as_str()) {
        return Err(Error::new(
            Code::ReadOnly,
            format!(
                "{verb:?} is not allowed in sql(), which only reads; use select, with, values or explain"
            ),
        ));
    }
    one_expression(text)?;
    ask(conn, text, args, &[], &|e| {
        let e = sql_error(&format!("the question {text:?} failed"), e);
        match e.text().contains("no such table") {
            true => e.with_remedy(tables_there(conn)),
            false => e,
        }
    })
}

/// Which tables there are, for who asked for another one.
fn tables_there(conn: &Connection) -> String {
    let names: Vec<String> = tables(conn).unwrap_or_default().into_iter().map(|t| t.name).collect();
    match names.is_empty() {
        true => "the run has no tables of its own (its catalog has fb_steps, fb_data, fb_points)".into(),
        false => format!("the run has {}", names.join(", ")),
    }
}

/// Asks; `dtypes` are those of the columns, where they are declared.
fn ask(
    conn: &Connection,
    sql: &str,
    args: &[serde_json::Value],
    dtypes: &[Option<DType>],
    failed: &dyn Fn(rusqlite::Error) -> Error,
) -> Result<Rows> {
    let mut statement = conn.prepare(sql).map_err(failed)?;
    if !statement.readonly() {
        return Err(Error::new(Code::ReadOnly, format!("{sql:?} would write, and sql() only reads")));
    }
    let values = args.iter().map(argument).collect::<Result<Vec<_>>>()?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut out = Rows { rows: Vec::new(), columns };
    let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let one = |i| row.get_ref(i).map(|value| cell(value, dtypes.get(i).copied().flatten()));
        let cells = (0..out.columns.len()).map(one).collect::<rusqlite::Result<_>>();
        out.rows.push(cells.map_err(failed)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::scratch;
    use serde_json::json;

    #[test]
    fn sql_answers_questions_and_nothing_else() {
        let (_dir, c) = scratch();
        let rows = read_only(c.conn(), "select ?1 + 1 as n, 'a;b' as s;", &[json!(41)]).unwrap();
        assert_eq!(rows.columns, ["n", "s"]);
        assert_eq!(rows.rows, [[Cell::Int(42), Cell::Text("a;b".into())]]);
        for bad in [
            "delete from fb_run",
            "with x as (select 1) delete from fb_run",
            "attach 'x' as y",
            "pragma user_version = 3",
            "select 1; select 2",
            "vacuum",
        ] {
            assert!(read_only(c.conn(), bad, &[]).is_err(), "{bad}");
        }
        let e = read_only(c.conn(), "select * from particle", &[]).unwrap_err();
        assert!(
            e.text().contains("no such table: particle") && e.text().contains("the run has no tables"),
            "{e}"
        );
    }
}
