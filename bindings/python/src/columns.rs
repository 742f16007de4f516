//! Columns of tables and histories: NumPy's arrays and Arrow's streams over values that lie together, with no object of
//! Python's for each.

use std::sync::Arc;

use forebay::{Array, ArrayMeta, ColumnValues, DType, ElementKind, Shape};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString, PyTuple};

use crate::arrays::{self, Given};
use crate::table::{cell_from_python, cell_to_python};
use crate::{errors, ffi};

/// Columns of one length.
#[pyclass(frozen)]
pub struct Columns {
    columns: Arc<Vec<ColumnValues>>,
}

impl Columns {
    /// Wraps the facade's.
    pub fn new(columns: Vec<ColumnValues>) -> Columns {
        Columns { columns: Arc::new(columns) }
    }

    /// What the facade takes.
    pub fn values(&self) -> &[ColumnValues] {
        &self.columns
    }

    fn column(&self, py: Python<'_>, at: usize) -> PyResult<&ColumnValues> {
        self.columns.get(at).ok_or_else(|| errors::bad(py, format!("there is no column {at}")))
    }
}

fn of_python(name: &str, dtype: &str, value: &Bound<'_, PyAny>) -> PyResult<ColumnValues> {
    let py = value.py();
    if let Ok(list) = value.cast::<PyList>() {
        let dtype = DType::parse(dtype).map_err(|e| errors::raise(py, &e))?;
        let mut column = ColumnValues::new(name, dtype);
        for one in list {
            let cell = cell_from_python(&one, "", name)?;
            forebay::fits(&cell, dtype)
                .and_then(|()| column.push(&cell))
                .map_err(|e| errors::raise(py, &e.within(format_args!("column {name:?}"))))?;
        }
        return Ok(column);
    }
    let given = Given::new(value)?;
    let refused = |what: &str| {
        let text = format!(
            "the column {name:?} is {what}; give an array of one axis, of numbers or truth values; complex numbers take two columns"
        );
        errors::bad(py, text)
    };
    let Given::Dense { array, meta } = &given else { return Err(refused("a single text")) };
    if meta.shape.rank() != 1 || meta.dtype.kind() == ElementKind::Complex || meta.dtype.is_text() {
        return Err(refused(&meta.to_string()));
    }
    let bytes = ffi::bytes(array, meta.order).ok_or_else(|| refused("an array that changed meanwhile"))?;
    Ok(ColumnValues::of_elements(name, meta.dtype, bytes.to_vec()))
}

#[pymethods]
impl Columns {
    /// Columns of arrays, or of lists with the dtype that their values are to have.
    #[staticmethod]
    fn of(given: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Columns> {
        let made = given.iter().map(|(name, dtype, value)| of_python(name, dtype, value));
        made.collect::<PyResult<_>>().map(Columns::new)
    }

    /// Columns of whatever gives an Arrow stream.
    #[staticmethod]
    fn from_arrow(value: &Bound<'_, PyAny>) -> PyResult<Columns> {
        let capsule = value.call_method0("__arrow_c_stream__")?;
        ffi::arrow::take(capsule.cast::<PyCapsule>()?).map(Columns::new)
    }

    fn __arrow_c_stream__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ffi::arrow::give(py, self.columns.clone())
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.columns.iter().map(|c| c.name.clone()).collect()
    }

    #[getter]
    fn dtypes(&self) -> Vec<&'static str> {
        self.columns.iter().map(|c| c.dtype.name()).collect()
    }

    fn __len__(&self) -> usize {
        self.columns.first().map_or(0, ColumnValues::len)
    }

    /// A column as an array, if every row has a value and these are numbers or truth values.
    fn array<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let column = self.column(py, at)?;
        if column.dtype.is_text() || column.valid().is_some() {
            return Ok(None);
        }
        let shape = Shape::new(&[column.len() as u64]).map_err(|e| errors::raise(py, &e))?;
        let meta = ArrayMeta::new(column.dtype, shape);
        arrays::over_own(py, Array { meta, bytes: column.bytes().to_vec() }, true).map(Some)
    }

    /// A column as Python's own values.
    fn list<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyList>> {
        let column = self.column(py, at)?;
        let values = (0..column.len()).map(|row| value(py, column, row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, values)
    }

    /// Some of the rows.
    fn pick(&self, py: Python<'_>, rows: Vec<usize>) -> PyResult<Columns> {
        let picked = |column: &ColumnValues| {
            let mut made = ColumnValues::new(column.name.as_str(), column.dtype);
            rows.iter()
                .filter(|row| **row < column.len())
                .try_for_each(|row| made.push(&column.cell(*row)))?;
            Ok(made)
        };
        let picked: forebay::Result<Vec<_>> = self.columns.iter().map(picked).collect();
        picked.map(Columns::new).map_err(|e| errors::raise(py, &e))
    }

    /// All rows as tuples.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in 0..self.__len__() {
            let cells: PyResult<Vec<_>> = self.columns.iter().map(|column| value(py, column, row)).collect();
            list.append(PyTuple::new(py, cells?)?)?;
        }
        Ok(list)
    }
}

fn value(py: Python<'_>, column: &ColumnValues, row: usize) -> PyResult<Py<PyAny>> {
    if !column.dtype.is_text() || !column.has_value(row) {
        return cell_to_python(py, column.cell(row), column.dtype == DType::Bool);
    }
    let text = column.text(row);
    match column.dtype {
        DType::Bytes => PyBytes::new(py, text).into_py_any(py),
        _ => PyString::new(py, &String::from_utf8_lossy(text)).into_py_any(py),
    }
}
