//! Groups: calls that run at the same time.

use std::sync::Arc;
use std::time::Duration;

use forebay::Result;
use forebay::call::{Joined, Printed};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::calls::Client;
use crate::errors;
use crate::future::Future;
use crate::waits::{duration, released};

/// Calls that run at the same time, in groups within groups.
#[pyclass(frozen)]
pub struct Group {
    inner: forebay::call::Group<Call>,
}

/// A call of a group, and of whoever asked for it.
struct Call(Py<Future>);

impl Joined for Call {
    fn join(&self, timeout: Option<Duration>) -> Result<Option<Result<()>>> {
        self.0.get().join(timeout)
    }

    fn cancel(&self) {
        self.0.get().give_up();
    }

    fn printed(&self) -> Option<Printed> {
        Some(self.0.get().printed())
    }
}

#[pymethods]
impl Group {
    #[new]
    fn new() -> Group {
        Group { inner: forebay::call::Group::begin() }
    }

    /// A group within this one.
    fn within(&self, py: Python<'_>) -> PyResult<Group> {
        released(py, || self.inner.begin_within()).map(|inner| Group { inner })
    }

    /// Calls a service and returns at once.
    fn call(
        &self,
        py: Python<'_>,
        client: &Client,
        name: &str,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<Future>> {
        let ticket = released(py, || self.inner.issue())?;
        let future = Py::new(py, client.send(py, name, args, "nowait", "raise")?)?;
        let call = Arc::new(Call(future.clone_ref(py)));
        released(py, || self.inner.add(ticket, name, call))?;
        Ok(future)
    }

    /// Waits for all; raises the first failure, which has its ``index``.
    fn end(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = duration(py, timeout)?;
        let joint = released(py, || self.inner.end(timeout))?;
        let Some((index, error)) = joint.failed else { return Ok(()) };
        let raised = errors::raise_printed(py, &error, &joint.printed.unwrap_or_default());
        raised.value(py).setattr("index", index)?;
        Err(raised)
    }

    /// Gives up what is not complete.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.inner.cancel())
    }

    /// Gives up what is not complete, and ends without a word.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || {
            self.inner.close();
            Ok(())
        })
    }
}
