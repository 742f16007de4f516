//! Columns of tables and histories: NumPy's arrays and Arrow's streams over values that lie together, with no object of
//! Python's for each.

use std::sync::Arc;

use forebay::{Array, ArrayMeta, Cell, Column, ColumnValues, DType, ElementKind, Order, Shape};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString, PyTuple};

use crate::arrays::{self, Given};
use crate::table::{array_from_python, cell_from_python, cell_to_python};
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

/// What a column is given as: its name, and of a list the dtype and the extents that its values are to have.
type GivenColumn<'py> = (String, String, Vec<u64>, Bound<'py, PyAny>);

fn of_python((name, dtype, shape, value): &GivenColumn<'_>) -> PyResult<ColumnValues> {
    let py = value.py();
    if let Ok(list) = value.cast::<PyList>() {
        let (name, dtype, shape) = (name.clone(), dtype.clone(), shape.clone());
        let declared = Column { name, dtype, shape, ..Default::default() };
        let name = &declared.name;
        let meta = declared.meta().map_err(|e| errors::raise(py, &e))?;
        let mut column = ColumnValues::new(name.as_str(), meta);
        for one in list {
            let cell = match declared.is_array() {
                true => array_from_python(&one, "", &declared)?,
                false => cell_from_python(&one, "", name)?,
            };
            forebay::fits(&cell, meta)
                .and_then(|()| column.push(&cell))
                .map_err(|e| errors::raise(py, &e.within(format_args!("column {name:?}"))))?;
        }
        return Ok(column);
    }
    let given = Given::new(value)?;
    let refused = |what: &str| {
        let text = format!(
            "the column {name:?} is {what}; give an array of numbers or truth values whose first axis is that of the rows; complex numbers take two columns"
        );
        errors::bad(py, text)
    };
    let Given::Dense { array, meta } = &given else { return Err(refused("a single text")) };
    let [_, each @ ..] = meta.shape.extents() else { return Err(refused(&meta.to_string())) };
    if meta.dtype.kind() == ElementKind::Complex || meta.dtype.is_text() {
        return Err(refused(&meta.to_string()));
    }
    let each = Shape::new(each).map_err(|e| errors::raise(py, &e))?;
    // An array of no elements has all orders.
    let bytes = ffi::bytes(array, Order::C).ok_or_else(|| refused("an array that changed meanwhile"))?;
    Ok(ColumnValues::of_elements(name.as_str(), ArrayMeta::new(meta.dtype, each), bytes.to_vec()))
}

#[pymethods]
impl Columns {
    /// Columns of arrays, or of lists with the dtype that their values are to have.
    #[staticmethod]
    fn of(given: Vec<GivenColumn<'_>>) -> PyResult<Columns> {
        given.iter().map(of_python).collect::<PyResult<_>>().map(Columns::new)
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

    /// A column as an array, of arrays with an axis more, if every row has a value and these are numbers or truth values.
    /// Arrays of floats that are not there are NaN.
    fn array<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let column = self.column(py, at)?;
        let fills = column.is_array() && column.dtype.kind() == ElementKind::Float;
        if column.dtype.is_text() || (column.valid().is_some() && !fills) {
            return Ok(None);
        }
        let extents = [&[column.len() as u64], column.shape.extents()].concat();
        let shape = Shape::new(&extents).map_err(|e| errors::raise(py, &e))?;
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
            let mut made = ColumnValues::new(column.name.as_str(), column.meta());
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
    if let (true, Cell::Blob(bytes)) = (column.is_array(), column.cell(row)) {
        return arrays::over_own(py, Array { meta: column.meta(), bytes }, true).map(Bound::unbind);
    }
    if !column.dtype.is_text() || !column.has_value(row) {
        return cell_to_python(py, column.cell(row), column.dtype == DType::Bool);
    }
    let text = column.text(row);
    match column.dtype {
        DType::Bytes => PyBytes::new(py, text).into_py_any(py),
        _ => PyString::new(py, &String::from_utf8_lossy(text)).into_py_any(py),
    }
}
