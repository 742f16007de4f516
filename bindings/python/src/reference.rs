//! References: arrays that servers hold.

use std::sync::Arc;

use forebay::{ArrayMeta, DType, On, Order, Shape};
use pyo3::prelude::*;

use crate::arrays::{PutSource, to_python};
use crate::calls::Client;
use crate::errors;
use crate::run::{Axis, selection};
use crate::waits::released;

/// An array that a server holds.
#[pyclass(frozen, subclass)]
pub struct Reference {
    inner: Arc<forebay::Reference>,
}

/// Where an array is to be: a server's name, beside another array, or where services are offered.
#[derive(FromPyObject)]
enum Where<'py> {
    With(PyRef<'py, Reference>),
    Named(String),
    Offering(Vec<String>),
}

impl Reference {
    /// The facade's.
    pub fn inner(&self) -> &Arc<forebay::Reference> {
        &self.inner
    }
}

#[pymethods]
impl Reference {
    /// Zeros of that shape, or a copy of `value`.
    #[new]
    #[pyo3(signature = (client, value, shape, dtype, fortran, on))]
    fn new(
        py: Python<'_>,
        client: &Bound<'_, Client>,
        value: Option<&Bound<'_, PyAny>>,
        shape: Vec<u64>,
        dtype: &str,
        fortran: bool,
        on: Option<Where<'_>>,
    ) -> PyResult<Reference> {
        let raise = |e| errors::raise(py, &e);
        let client = client.get().inner();
        let services: Vec<&str> = match &on {
            Some(Where::Offering(names)) => names.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let on = match &on {
            Some(Where::Named(name)) => On::Server(name),
            Some(Where::With(other)) => On::With(&other.inner),
            Some(Where::Offering(_)) => On::Offering(&services),
            None => On::Any,
        };
        let inner = match value {
            Some(value) => {
                let source = PutSource::new(value)?;
                let view = source.view(py)?;
                released(py, || client.put(view, on))?
            }
            None => {
                let dtype = DType::parse(dtype).map_err(raise)?;
                let order = if fortran { Order::F } else { Order::C };
                let meta = ArrayMeta { dtype, shape: Shape::new(&shape).map_err(raise)?, order };
                released(py, || client.array(meta, on))?
            }
        };
        Ok(Reference { inner: Arc::new(inner) })
    }

    /// Its extents.
    fn extents(&self) -> Vec<u64> {
        self.inner.meta().shape.extents().to_vec()
    }

    /// Short name of its dtype.
    fn kind(&self) -> &'static str {
        self.inner.meta().dtype.name()
    }

    /// Name of the server that holds it.
    fn holder(&self) -> &str {
        self.inner.server().0
    }

    /// Writes a part of it.
    #[pyo3(signature = (value, axes))]
    fn write(&self, py: Python<'_>, value: &Bound<'_, PyAny>, axes: Option<Vec<Axis>>) -> PyResult<()> {
        let source = PutSource::new(value)?;
        let view = source.view(py)?;
        let part = selection(axes).unwrap_or_default();
        released(py, || self.inner.put(view, &part))
    }

    /// Reads a part of it.
    #[pyo3(signature = (axes))]
    fn read<'py>(&self, py: Python<'py>, axes: Option<Vec<Axis>>) -> PyResult<Bound<'py, PyAny>> {
        let part = selection(axes).unwrap_or_default();
        let (meta, bytes) = released(py, || self.inner.get(&part))?;
        to_python(py, forebay::Array { meta, bytes })
    }

    /// Frees it.
    fn kill(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.inner.kill())
    }
}
