//! Relational tables with typed columns and units.

use forebay_types::columns::ColumnValues;
use forebay_types::control::{Column, TableInfo};
use forebay_types::reading::{Question, Select};
use forebay_types::record::Cell;
use forebay_types::{ArrayMeta, Code, DType, ElementKind, Error, Result};
use serde_json::{Map, Value};
use std::borrow::Cow;

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
        let metas: Vec<ArrayMeta> = self.columns().iter().map(Column::meta).collect::<Result<_>>()?;
        for row in rows {
            for ((cell, meta), column) in row.iter().zip(&metas).zip(self.columns()) {
                forebay_store::catalog::fits(cell, *meta).map_err(|e| {
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
            let fitting = found.map(|column| fitting(column, declared)).transpose();
            given.push(fitting.map_err(|e| within(e, &declared.name))?);
        }
        let none = Cell::Null;
        self.run.session()?.insert_rows(&self.info, rows, None, |row, w| {
            let cell = |column: &Option<Cow<ColumnValues>>| column.as_ref().map(|c| c.cell(row));
            given.iter().for_each(|column| cell(column).unwrap_or_else(|| none.clone()).encode(w));
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
        let meta_of = |name: &str| {
            let declared = self.columns().iter().find(|c| c.name == name);
            declared.map_or(Ok(DType::I64.into()), Column::meta)
        };
        self.run.settled()?.columns(&Question::Select(wanted), meta_of)
    }

    /// Changes rows where the condition holds: each column named gets one value; returns how many.
    pub fn update(&self, set: Vec<(String, Cell)>, condition: &str, args: &[Value]) -> Result<u64> {
        let changed = |(name, cell): (String, Cell)| {
            let within = |e: Error| e.within(format_args!("table {:?}, column {name:?}", self.name()));
            if let Some(column) = self.columns().iter().find(|c| c.name == name) {
                forebay_store::catalog::fits(&cell, column.meta()?).map_err(within)?;
            }
            Ok((name, cell.json()))
        };
        let set = set.into_iter().map(changed).collect::<Result<Map<_, _>>>()?;
        self.run.session()?.update(&self.info, set, condition, args)
    }

    /// Makes an index of columns, unless there is one: conditions and orders that begin with the first of them find
    /// their rows without reading all.
    pub fn index(&self, columns: &[&str]) -> Result<()> {
        self.run.session()?.index(self.name(), columns)
    }

    /// Removes rows where the condition holds; returns how many.
    pub fn delete(&self, condition: &str, args: &[Value]) -> Result<u64> {
        self.run.session()?.remove(&self.info, condition, args)
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

/// Values as a column takes them: those of arrays with the elements of its dtype; `BadArgument` when one does not fit.
fn fitting<'a>(given: &'a ColumnValues, declared: &Column) -> Result<Cow<'a, ColumnValues>> {
    let meta = declared.meta()?;
    if given.shape != meta.shape {
        let (a, b) = (each(&given.meta()), each(&meta));
        return Err(Error::bad(format!(
            "{a} is given for each row, and a row has {b}; reshape what is given"
        )));
    }
    // What is of the column's own dtype fits.
    if given.dtype == meta.dtype {
        return Ok(Cow::Borrowed(given));
    }
    let fits = |cell: &Cell| forebay_store::catalog::fits(cell, meta.dtype);
    if !given.is_array() {
        (0..given.len()).try_for_each(|row| fits(&given.cell(row)))?;
        return Ok(Cow::Borrowed(given));
    }
    let elements = given.flat();
    let mut made = ColumnValues::new(declared.name.as_str(), meta.dtype);
    for at in 0..elements.len() {
        let cell = elements.cell(at);
        fits(&cell).and_then(|()| made.push(&cell))?;
    }
    Ok(Cow::Owned(made.in_rows_of(given)))
}

/// What a row has in a column.
fn each(meta: &ArrayMeta) -> String {
    match meta.shape.rank() {
        0 => format!("one {}", meta.dtype),
        _ => format!("an array {meta}"),
    }
}

/// An array, row-major, as the cell of a column of arrays.
pub fn array_cell(column: &Column, meta: &ArrayMeta, bytes: &[u8]) -> Result<Cell> {
    if meta.dtype.is_text() || meta.dtype.kind() == ElementKind::Complex {
        let wanted = column.meta()?;
        return Err(Error::bad(format!("{meta} is given, and a row has an array {wanted}; give numbers")));
    }
    let given = ColumnValues::of_elements(column.name.as_str(), *meta, bytes.to_vec());
    fitting(&given, column).map(|made| made.cell(0))
}

fn absent(run: &Run, name: &str) -> Error {
    let known = match run.tables().unwrap_or_default() {
        none if none.is_empty() => "no tables".to_owned(),
        known => known.join(", "),
    };
    Error::new(Code::NotFound, format!("there is no table {name:?}; the run has {known}"))
}
