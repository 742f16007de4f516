//! Relational tables with typed columns and units.

use forebay_types::control::{Column, TableInfo};
use forebay_types::reading::Question;
use forebay_types::record::Cell;
use forebay_types::{Code, DType, Error, Result};
use serde_json::{Map, Value};

use crate::{Rows, Run};

/// How a table is made.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Its columns; empty to open an existing table.
    pub columns: Vec<Column>,
    /// Whether rows belong to the step they were made in and go when a restart goes back.
    pub history: bool,
}

/// A table of a run. Cheap to clone.
#[derive(Clone)]
pub struct Table {
    run: Run,
    info: TableInfo,
}

impl Table {
    pub(crate) fn open(run: &Run, name: &str, options: TableOptions) -> Result<Table> {
        let info = if run.read_only() {
            let question = Question::Table(name.to_owned());
            run.reader()?.ask::<Option<TableInfo>>(&question)?.ok_or_else(|| absent(run, name))?
        } else {
            run.session()?.table(name, options.columns, options.history)?
        };
        Ok(Table { run: run.clone(), info })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.info.columns
    }

    /// Whether rows go when a restart goes back.
    pub fn history(&self) -> bool {
        self.info.history
    }

    /// Adds rows, each with a cell for every column in their order. Pipelined; durable at flush.
    pub fn insert(&self, rows: &[Vec<Cell>]) -> Result<()> {
        let dtypes: Vec<DType> =
            self.columns().iter().map(|c| DType::parse(&c.dtype)).collect::<Result<_>>()?;
        for row in rows {
            for ((cell, dtype), column) in row.iter().zip(&dtypes).zip(self.columns()) {
                forebay_store::catalog::fits(cell, *dtype).map_err(|e| {
                    e.within(format_args!("table {:?}, column {:?}", self.name(), column.name))
                })?;
            }
        }
        self.run.session()?.insert(&self.info, rows)
    }

    /// Reads rows, in the order they came, where an SQL condition with `?` holds (empty: all);
    /// all columns, or those named.
    pub fn select(&self, columns: &[&str], condition: &str, args: &[Value]) -> Result<Rows> {
        let (table, condition) = (self.name().to_owned(), condition.to_owned());
        let question = Question::Select { table, condition, args: args.to_vec() };
        let rows = self.run.settled()?.rows(&question)?;
        if columns.is_empty() {
            return Ok(rows);
        }
        let wanted: Vec<usize> = columns
            .iter()
            .map(|c| {
                let at = rows.columns.iter().position(|known| known == c);
                at.ok_or_else(|| {
                    let known = rows.columns.join(", ");
                    Error::new(
                        Code::NotFound,
                        format!("the table {:?} has no column {c:?}; it has {known}", self.name()),
                    )
                })
            })
            .collect::<Result<_>>()?;
        Ok(Rows {
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: rows.rows.iter().map(|row| wanted.iter().map(|i| row[*i].clone()).collect()).collect(),
        })
    }

    /// Changes rows where the condition holds: each column named gets one value; returns how many.
    pub fn update(&self, set: Vec<(String, Cell)>, condition: &str, args: &[Value]) -> Result<u64> {
        let changed = |(name, cell): (String, Cell)| {
            let within = |e: Error| e.within(format_args!("table {:?}, column {name:?}", self.name()));
            if let Some(column) = self.columns().iter().find(|c| c.name == name) {
                forebay_store::catalog::fits(&cell, DType::parse(&column.dtype)?).map_err(within)?;
            }
            let value = json(cell).map_err(within)?;
            Ok((name, value))
        };
        let set = set.into_iter().map(changed).collect::<Result<Map<_, _>>>()?;
        self.run.session()?.update(self.name(), set, condition, args)
    }

    /// Removes rows where the condition holds; returns how many.
    pub fn delete(&self, condition: &str, args: &[Value]) -> Result<u64> {
        self.run.session()?.remove(self.name(), condition, args)
    }

    /// Number of rows.
    pub fn len(&self) -> Result<u64> {
        let query = format!("select count(*) from \"{}\"", self.name().replace('"', "\"\""));
        match self.run.sql(&query, &[])?.rows.first().and_then(|row| row.first()) {
            Some(Cell::Int(n)) => Ok(*n as u64),
            other => Err(Error::internal(format!("{query} gave {other:?}"))),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A cell as an update carries it; a NaN is what has no value.
fn json(cell: Cell) -> Result<Value> {
    Ok(match cell {
        Cell::Null => Value::Null,
        Cell::Int(v) => v.into(),
        Cell::Unsigned(v) => v.into(),
        Cell::Real(v) if v.is_nan() => Value::Null,
        Cell::Real(v) if v.is_finite() => v.into(),
        Cell::Real(v) => return Err(Error::bad(format!("{v} cannot be set; insert it in a new row"))),
        Cell::Text(v) => v.into(),
        Cell::Blob(_) => return Err(Error::bad("bytes cannot be set; insert them in a new row")),
    })
}

fn absent(run: &Run, name: &str) -> Error {
    let known = match run.tables().unwrap_or_default() {
        none if none.is_empty() => "no tables".to_owned(),
        known => known.join(", "),
    };
    Error::new(Code::NotFound, format!("there is no table {name:?}; the run has {known}"))
}
