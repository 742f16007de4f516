//! Scalars of calls as Python's numbers and back.

use forebay::{Number, Scalar};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyType};

use crate::{arrays, errors};

/// A number or truth value as Python's own.
pub fn to_python(py: Python<'_>, scalar: Scalar) -> PyResult<Bound<'_, PyAny>> {
    match scalar.number() {
        Number::Bool(v) => v.into_bound_py_any(py),
        Number::Real(v) => v.into_bound_py_any(py),
        Number::Complex(re, im) => Ok(PyComplex::from_doubles(py, re, im).into_any()),
        Number::Int(v) => match (i64::try_from(v), u64::try_from(v)) {
            (Ok(v), _) => v.into_bound_py_any(py),
            (_, Ok(v)) => v.into_bound_py_any(py),
            _ => Err(errors::bad(py, format!("the integer {v} is beyond 64 bits"))),
        },
    }
}

/// A number of Python's or NumPy's; none when it is something else. Python's own numbers are
/// `i64` (or `u64`), `f64`, `c128` and `bool`; NumPy's keep their dtype.
pub fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if let Ok(real) = value.cast_exact::<PyFloat>() {
        return Ok(Some(real.extract::<f64>()?.into()));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Some(value.extract::<bool>()?.into()));
    }
    if value.cast_exact::<PyInt>().is_ok() {
        if let Ok(v) = value.extract::<i64>() {
            return Ok(Some(v.into()));
        }
        let big = value.extract::<u64>();
        let refuse = |_| errors::bad(value.py(), format!("{value} is beyond 64 bits"));
        return big.map(|v| Some(v.into())).map_err(refuse);
    }
    if let Ok(complex) = value.cast_exact::<PyComplex>() {
        return Ok(Some(Scalar::c128(complex.real(), complex.imag())));
    }
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return if array.ndim() == 0 { of_zero_rank(array) } else { Ok(None) };
    }
    of_numpy(value)
}

/// NumPy's scalar types, by way of an array without axes.
fn of_numpy(value: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let generic = GENERIC.import(value.py(), "numpy", "generic")?;
    if !value.is_instance(generic)? {
        return Ok(None);
    }
    let array = value.py().import("numpy")?.call_method1("asarray", (value,))?;
    of_zero_rank(array.cast::<PyUntypedArray>()?)
}

fn of_zero_rank(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<Scalar>> {
    if arrays::dtype_of(&array.dtype()).is_none()
        && !matches!(array.dtype().kind(), b'i' | b'u' | b'f' | b'c')
    {
        return Ok(None);
    }
    let given = arrays::Given::new(array.as_any())?;
    let view = given.view(array.py())?;
    Scalar::from_bytes(view.meta().dtype, &view.bytes()).map(Some).map_err(|e| errors::raise(array.py(), &e))
}
