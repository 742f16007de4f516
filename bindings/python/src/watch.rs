//! Diagrams, parameters and the loop head.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use forebay::DType;
use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Given;
use crate::waits::{at_head, released};
use crate::{errors, ffi, json};

/// A diagram.
#[pyclass(frozen)]
pub struct Diagram {
    inner: forebay::Diagram,
}

/// A steerable parameter.
#[pyclass(frozen)]
pub struct Parameter {
    inner: forebay::Parameter,
}

/// The loop head.
#[pyclass(frozen)]
pub struct Steps {
    inner: Mutex<forebay::Steps>,
}

impl Diagram {
    /// Wraps the facade's.
    pub fn new(inner: forebay::Diagram) -> Self {
        Diagram { inner }
    }
}

impl Parameter {
    /// Wraps the facade's.
    pub fn new(inner: forebay::Parameter) -> Self {
        Parameter { inner }
    }
}

impl Steps {
    /// Wraps the facade's.
    pub fn new(inner: forebay::Steps) -> Self {
        Steps { inner: Mutex::new(inner) }
    }
}

#[pymethods]
impl Diagram {
    /// Whether an update would be copied just now.
    fn wants(&self, curve: &str) -> bool {
        self.inner.wants(curve)
    }

    fn update(
        &self,
        py: Python<'_>,
        curve: &str,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (x, y) = (Points::new(x, "x")?, Points::new(y, "y")?);
        let (x, y) = (x.values(py)?, y.values(py)?);
        released(py, || self.inner.update(curve, &x, &y))
    }

    fn append(&self, py: Python<'_>, t: f64, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut named: Vec<(String, f64)> = Vec::with_capacity(values.len());
        for (name, value) in values {
            named.push((name.extract()?, value.extract()?));
        }
        released(py, || {
            let borrowed: Vec<(&str, f64)> = named.iter().map(|(n, v)| (n.as_str(), *v)).collect();
            self.inner.append(t, &borrowed)
        })
    }
}

/// One coordinate of many points.
struct Points<'py> {
    given: Given<'py>,
}

impl<'py> Points<'py> {
    fn new(value: &Bound<'py, PyAny>, which: &str) -> PyResult<Points<'py>> {
        let given = Given::new(value)?;
        match &given {
            Given::Dense { array, meta } if array.ndim() == 1 && meta.dtype == DType::F64 => {
                Ok(Points { given })
            }
            Given::Dense { meta, .. } => {
                let text = format!("{which} is {meta}, and points are one-dimensional arrays of float64");
                Err(errors::bad(value.py(), text))
            }
            _ => Err(errors::bad(value.py(), format!("{which} is not an array of numbers"))),
        }
    }

    fn values(&self, py: Python<'_>) -> PyResult<Cow<'_, [f64]>> {
        if let Given::Dense { array, .. } = &self.given
            && let Some(values) = ffi::reals(array)
        {
            return Ok(Cow::Borrowed(values));
        }
        let view = self.given.view(py)?;
        let bytes = view.bytes();
        let chunks = bytes.chunks_exact(8);
        Ok(Cow::Owned(chunks.map(|c| f64::from_ne_bytes(c.try_into().expect("eight bytes"))).collect()))
    }
}

#[pymethods]
impl Parameter {
    #[getter]
    fn name(&self) -> String {
        self.inner.name().to_owned()
    }

    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json::scalar_to_python(py, &self.inner.value())
    }
}

#[pymethods]
impl Steps {
    fn __iter__(slf: Py<Steps>) -> Py<Steps> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        // What never waits needs no release of the interpreter's lock, which would cost more than
        // the step itself. Another thread that holds the loop may wait for that lock: hence only a try.
        if let Ok(mut steps) = self.inner.try_lock()
            && let Some(step) = steps.at_once()
        {
            return Ok(Some(step));
        }
        at_head(py, || {
            let mut steps = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            steps.next()
        })
    }
}
