//! JSON values of the facade as Python objects and back, for parameters; whole descriptors travel
//! as text between the two halves of the package.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use serde_json::{Map, Number, Value};

use crate::errors;

/// Makes a Python object of a number, truth value or text.
pub fn scalar_to_python(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Bool(v) => v.into_py_any(py),
        Value::Number(v) => match (v.as_i64(), v.as_u64()) {
            (Some(i), _) => i.into_py_any(py),
            (_, Some(u)) => u.into_py_any(py),
            _ => v.as_f64().unwrap_or(f64::NAN).into_py_any(py),
        },
        Value::String(v) => v.into_py_any(py),
        Value::Null => Ok(py.None()),
        other => other.to_string().into_py_any(py),
    }
}

/// Makes a number, truth value or text of a Python object: `bool`, `int`, `float`, `str` (the other half has made
/// plain objects of NumPy's scalars).
pub fn scalar_from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = value.py();
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        if let Ok(integer) = value.extract::<i64>() {
            return Ok(Value::Number(integer.into()));
        }
        let integer: u64 = value.extract().map_err(|_| {
            errors::bad(py, format!("{value} is no integer of 64 bits; give one from -2**63 to 2**64 - 1"))
        })?;
        return Ok(Value::Number(integer.into()));
    }
    if value.is_instance_of::<PyFloat>() {
        let real: f64 = value.extract()?;
        return Number::from_f64(real)
            .map(Value::Number)
            .ok_or_else(|| errors::bad(py, format!("{real} is not a finite number")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(errors::letters(text)?.to_owned()));
    }
    let kind = value.get_type().name()?.to_string();
    Err(errors::bad(py, format!("a value of type {kind} is not a number, truth value or text")))
}

/// Attributes from their text.
pub fn object(py: Python<'_>, text: &str) -> PyResult<Map<String, Value>> {
    forebay::attributes(text).map_err(|e| errors::bad(py, e.text()))
}
