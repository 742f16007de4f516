//! Relational tables with typed columns and units.

use forebay_types::columns::ColumnValues;
use forebay_types::control::{Column, TableInfo};
use forebay_types::reading::{Question, Select};
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
        self.insert_as(rows, None)
    }

    /// Adds rows of a history that were made in a step.
    #[doc(hidden)]
    pub fn insert_of_step(&self, rows: &[Vec<Cell>], step: i64) -> Result<()> {
        self.insert_as(rows, Some(step))
    }

    fn insert_as(&self, rows: &[Vec<Cell>], step: Option<i64>) -> Result<()> {
        let dtypes: Vec<DType> =
            self.columns().iter().map(|c| DType::parse(&c.dtype)).collect::<Result<_>>()?;
        for row in rows {
            for ((cell, dtype), column) in row.iter().zip(&dtypes).zip(self.columns()) {
                forebay_store::catalog::fits(cell, *dtype).map_err(|e| {
                    e.within(format_args!("table {:?}, column {:?}", self.name(), column.name))
                })?;
            }
        }
        self.run.session()?.insert(&self.info, rows, step)
    }

    /// Adds as many rows as each of these columns has; one of the table's that is not among them has no value in them.
    /// Pipelined; durable at flush.
    pub fn insert_columns(&self, columns: &[ColumnValues]) -> Result<()> {
        let within =
            |e: Error, column: &str| e.within(format_args!("table {:?}, column {column:?}", self.name()));
        let names: Vec<&str> = self.columns().iter().map(|c| c.name.as_str()).collect();
        for (at, column) in columns.iter().enumerate() {
            if !names.contains(&column.name.as_str()) {
                let (name, known) = (&column.name, names.join(", "));
                return Err(Error::bad(format!(
                    "the table {:?} has no column {name:?}; it has {known}",
                    self.name()
                )));
            }
            if columns[..at].iter().any(|c| c.name == column.name) {
                return Err(Error::bad(format!("the column {:?} is given twice", column.name)));
            }
        }
        let rows = columns.first().map_or(0, ColumnValues::len);
        if let Some(other) = columns.iter().find(|c| c.len() != rows) {
            return Err(Error::bad(format!(
                "the column {:?} has {} values and {:?} has {rows}; give columns of one length",
                other.name,
                other.len(),
                columns[0].name
            )));
        }
        let mut given = Vec::with_capacity(names.len());
        for declared in self.columns() {
            let found = columns.iter().find(|c| c.name == declared.name);
            let dtype = DType::parse(&declared.dtype)?;
            // What is of the column's own dtype fits.
            if let Some(column) = found.filter(|c| c.dtype != dtype) {
                let fits = |row| forebay_store::catalog::fits(&column.cell(row), dtype);
                (0..rows).try_for_each(fits).map_err(|e| within(e, &declared.name))?;
            }
            given.push(found);
        }
        let none = Cell::Null;
        self.run.session()?.insert_rows(&self.info, rows, None, |row, w| {
            given.iter().for_each(|column| column.map_or_else(|| none.clone(), |c| c.cell(row)).encode(w));
        })
    }

    /// Reads rows, in the order they came, where an SQL condition with `?` holds (empty: all);
    /// all columns, or those named.
    pub fn select(&self, columns: &[&str], condition: &str, args: &[Value]) -> Result<Rows> {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
        let (table, condition) = (self.name().to_owned(), condition.to_owned());
        let wanted = Select { table, condition, args: args.to_vec(), columns, ..Select::default() };
        self.run.settled()?.rows(&Question::Select(wanted))
    }

    /// Reads rows by columns: those that are wanted, in the order and up to the limit given; `wanted.table` is this one.
    pub fn select_columns(&self, wanted: Select) -> Result<Vec<ColumnValues>> {
        let wanted = Select { table: self.name().to_owned(), ..wanted };
        let dtype_of = |name: &str| {
            let declared = self.columns().iter().find(|c| c.name == name);
            declared.map_or(Ok(DType::I64), |c| DType::parse(&c.dtype))
        };
        self.run.settled()?.columns(&Question::Select(wanted), dtype_of)
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

    /// Makes an index of columns, unless there is one: conditions and orders that begin with the first of them find
    /// their rows without reading all.
    pub fn index(&self, columns: &[&str]) -> Result<()> {
        self.run.session()?.index(self.name(), columns)
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
