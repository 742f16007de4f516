//! Complete snapshots, to be read.

use pyo3::prelude::*;

use crate::arrays;
use crate::run::{Axis, Described, described, selection};
use crate::waits::released;

/// A complete snapshot.
#[pyclass(frozen)]
pub struct Kept {
    inner: forebay::Kept,
}

/// The complete snapshots of a run at the moment it was asked.
#[pyclass(frozen)]
pub struct KeptSnapshots {
    inner: forebay::KeptSnapshots,
}

/// Arrays that belong together, and numbers that go with them.
type Members = (Vec<(String, String)>, Vec<(String, f64)>);

impl Kept {
    /// Wraps the facade's.
    pub fn new(inner: forebay::Kept) -> Self {
        Kept { inner }
    }
}

impl KeptSnapshots {
    /// Wraps the facade's.
    pub fn new(inner: forebay::KeptSnapshots) -> Self {
        KeptSnapshots { inner }
    }
}

#[pymethods]
impl Kept {
    #[getter]
    fn step(&self) -> i64 {
        self.inner.step()
    }

    #[getter]
    fn time(&self) -> Option<f64> {
        self.inner.time()
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        released(py, || self.inner.names())
    }

    fn dataset(&self, py: Python<'_>, name: &str) -> PyResult<Described> {
        released(py, || self.inner.dataset(name)).map(described)
    }

    fn coordinates(&self, py: Python<'_>, name: &str) -> PyResult<Vec<(usize, String)>> {
        released(py, || self.inner.coordinates(name))
    }

    /// What each array of a mesh, a species or a record is called there and in the snapshot, and numbers for all.
    fn members(&self, py: Python<'_>, name: &str) -> PyResult<Members> {
        released(py, || self.inner.members(name))
            .map(|found| (found.arrays, found.constants.into_iter().collect()))
    }

    fn get<'py>(&self, py: Python<'py>, name: &str, axes: Option<Vec<Axis>>) -> PyResult<Bound<'py, PyAny>> {
        let selection = selection(axes);
        let array = released(py, || self.inner.get(name, selection.as_ref()))?;
        arrays::to_python(py, array)
    }

    fn map<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let mapped = released(py, || self.inner.map(name))?;
        arrays::over_mapping(py, name, mapped)
    }
}

#[pymethods]
impl KeptSnapshots {
    fn numbers(&self, py: Python<'_>) -> PyResult<Vec<i64>> {
        released(py, || self.inner.numbers().map(<[i64]>::to_vec))
    }

    fn last(&self) -> Option<Kept> {
        self.inner.last().map(Kept::new)
    }

    fn at(&self, py: Python<'_>, step: i64) -> PyResult<Kept> {
        released(py, || self.inner.at(step)).map(Kept::new)
    }
}
