//! Tables: rows as tuples of plain Python values.

use forebay::{Cell, Column, Order, Rows, Select};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::arrays::Given;
use crate::columns::Columns;
use crate::waits::released;
use crate::{errors, ffi, json};

/// A table of a run.
#[pyclass(frozen)]
pub struct Table {
    inner: forebay::Table,
}

impl Table {
    /// Wraps the facade's.
    pub fn new(inner: forebay::Table) -> Self {
        Table { inner }
    }

    /// A cell of a column; of one that is not there for the facade to refuse.
    fn cell(&self, value: &Bound<'_, PyAny>, column: Option<&Column>) -> PyResult<Cell> {
        match column {
            Some(column) if column.is_array() => array_from_python(value, self.inner.name(), column),
            other => cell_from_python(value, self.inner.name(), other.map_or("", |c| &c.name)),
        }
    }
}

/// Column names and a list of tuples.
pub fn rows_to_python<'py>(py: Python<'py>, rows: Rows) -> PyResult<(Vec<String>, Bound<'py, PyAny>)> {
    let list = PyList::empty(py);
    for row in rows.rows {
        let cells: PyResult<Vec<_>> = row.into_iter().map(|cell| cell_to_python(py, cell, false)).collect();
        list.append(PyTuple::new(py, cells?)?)?;
    }
    Ok((rows.columns, list.into_any()))
}

pub fn cell_to_python(py: Python<'_>, cell: Cell, truth: bool) -> PyResult<Py<PyAny>> {
    match cell {
        Cell::Null => Ok(py.None()),
        Cell::Int(v) if truth => (v != 0).into_py_any(py),
        Cell::Int(v) => v.into_py_any(py),
        Cell::Unsigned(v) => v.into_py_any(py),
        Cell::Real(v) => v.into_py_any(py),
        Cell::Text(v) => v.into_py_any(py),
        Cell::Blob(v) => Ok(PyBytes::new(py, &v).into_any().unbind()),
    }
}

/// A cell of a column of arrays, from an array in C order.
pub fn array_from_python(value: &Bound<'_, PyAny>, table: &str, column: &Column) -> PyResult<Cell> {
    if value.is_none() {
        return Ok(Cell::Null);
    }
    let py = value.py();
    let within = |e: forebay::Error| {
        let column = &column.name;
        errors::raise(py, &e.within(format_args!("table {table:?}, column {column:?}")))
    };
    let Given::Dense { array, meta } = Given::new(value)? else {
        let text = format!("{value} is no array {}", column.meta().map_err(within)?);
        return Err(within(forebay::Error::bad(text)));
    };
    let bytes = ffi::bytes(&array, Order::C)
        .ok_or_else(|| errors::bad(py, "the array has changed its layout meanwhile"))?;
    forebay::array_cell(column, &meta, bytes).map_err(within)
}

/// A cell of the column of that name.
pub fn cell_from_python(value: &Bound<'_, PyAny>, table: &str, column: &str) -> PyResult<Cell> {
    let py = value.py();
    let refused = |why: String| errors::bad(py, format!("table {table:?}, column {column:?}: {why}"));
    if let Ok(real) = value.cast::<PyFloat>() {
        return Ok(Cell::Real(real.extract()?));
    }
    if value.is_none() {
        return Ok(Cell::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Cell::Int(value.extract::<bool>()? as i64));
    }
    if value.is_instance_of::<PyInt>() {
        let signed = value.extract().map(Cell::Int);
        return signed
            .or_else(|_| value.extract().map(Cell::unsigned))
            .map_err(|_| refused(format!("{value} is beyond 64 bits; a table keeps integers of 64 bits")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Cell::Text(errors::letters(text)?.to_owned()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Cell::Blob(bytes.as_bytes().to_vec()));
    }
    let kind = value.get_type().name()?.to_string();
    let many = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if let (true, Ok(n)) = (many, value.len()) {
        return Err(refused(format!(
            "a {kind} of {n} values is no cell, a row has one value for each column; insert columns as rows: t.insert(list(zip(*columns.values()))), in the order of the table's"
        )));
    }
    Err(refused(format!("a value of type {kind} does not go into a table; use numbers, str, bytes or None")))
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> String {
        self.inner.name().to_owned()
    }

    /// Name, dtype, unit and extents of each column.
    #[getter]
    fn columns(&self) -> Vec<(String, String, String, Vec<u64>)> {
        let columns = self.inner.columns().iter();
        columns.map(|c| (c.name.clone(), c.dtype.clone(), c.units.clone(), c.shape.clone())).collect()
    }

    #[getter]
    fn history(&self) -> bool {
        self.inner.history()
    }

    fn insert(&self, py: Python<'_>, rows: Vec<Vec<Bound<'_, PyAny>>>) -> PyResult<()> {
        let columns = self.inner.columns();
        let row = |row: &Vec<Bound<'_, PyAny>>| -> PyResult<Vec<Cell>> {
            row.iter().enumerate().map(|(at, v)| self.cell(v, columns.get(at))).collect()
        };
        let cells = rows.iter().map(row).collect::<PyResult<Vec<_>>>()?;
        released(py, || self.inner.insert(&cells))
    }

    fn insert_columns(&self, py: Python<'_>, columns: &Columns) -> PyResult<()> {
        released(py, || self.inner.insert_columns(columns.values()))
    }

    /// Columns; of rows behind the one of number `after`, if that is given, and then the number of the last one.
    #[expect(clippy::too_many_arguments, reason = "one for each option of `select`")]
    fn select(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        condition: String,
        args: Vec<Bound<'_, PyAny>>,
        order: Vec<(String, bool)>,
        limit: Option<u64>,
        after: Option<i64>,
    ) -> PyResult<(Columns, Option<i64>)> {
        let args = args.iter().map(json::scalar_from_python).collect::<PyResult<_>>()?;
        let wanted = Select { table: String::new(), condition, args, columns, order, limit, after };
        let mut found = released(py, || self.inner.select_columns(wanted))?;
        let numbers = if after.is_some() { found.pop() } else { None };
        let last = numbers.filter(|n| !n.is_empty()).map(|n| n.cell(n.len() - 1));
        let last = last.and_then(|cell| if let Cell::Int(number) = cell { Some(number) } else { None });
        Ok((Columns::new(found), last))
    }

    fn update(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        values: Vec<Bound<'_, PyAny>>,
        condition: &str,
        args: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let mut set = Vec::with_capacity(names.len());
        for (name, value) in names.into_iter().zip(&values) {
            let column = self.inner.columns().iter().find(|c| c.name == name);
            let cell = match column {
                Some(_) => self.cell(value, column)?,
                None => cell_from_python(value, self.inner.name(), &name)?,
            };
            set.push((name, cell));
        }
        let args: Vec<_> = args.iter().map(json::scalar_from_python).collect::<PyResult<_>>()?;
        released(py, || self.inner.update(set, condition, &args))
    }

    fn index(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<()> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        released(py, || self.inner.index(&columns))
    }

    fn delete(&self, py: Python<'_>, condition: &str, args: Vec<Bound<'_, PyAny>>) -> PyResult<u64> {
        let args: Vec<_> = args.iter().map(json::scalar_from_python).collect::<PyResult<_>>()?;
        released(py, || self.inner.delete(condition, &args))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        released(py, || self.inner.len()).map(|n| n as usize)
    }
}
