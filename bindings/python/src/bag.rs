//! Many calls of one service, fed and emptied by one thread of Python's at a time.

use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use forebay::Array;
use forebay::call::{BagOptions, BagView, Next, Task, TaskFate, TaskState, TaskValue, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::calls::{Arguments, Client, no_path, value};
use crate::status::{Status, is_raised};
use crate::waits::{SLICE, released, signals};
use crate::{arrays, errors};

/// Many calls of one service.
#[pyclass(frozen)]
pub struct Bag {
    inner: Mutex<forebay::call::Bag>,
    /// What any thread may ask while one takes results.
    view: BagView,
    name: String,
    /// A status that is not 0 is the task's failure.
    raises: bool,
    /// Which of the results it is, once the service is known.
    status: OnceLock<Option<Status>>,
}

impl Bag {
    fn bag(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, forebay::call::Bag>> {
        match self.inner.try_lock() {
            Ok(bag) => Ok(bag),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "another thread takes results of the map of {} just now; take them in one thread",
                    self.name
                );
                Err(errors::bad(py, text))
            }
        }
    }
}

/// A result that is no array.
fn single(values: &[TaskValue], at: usize) -> Option<&Value> {
    match values.get(at) {
        Some(TaskValue::Value(value)) => Some(value),
        _ => None,
    }
}

/// What a task gave: nothing, the one result, or a tuple.
fn given(py: Python<'_>, values: Vec<TaskValue>) -> PyResult<Bound<'_, PyAny>> {
    let mut objects = Vec::with_capacity(values.len());
    for result in values {
        objects.push(match result {
            TaskValue::Value(v) => value(py, v)?,
            TaskValue::Array(meta, bytes) => arrays::to_python(py, Array { meta, bytes })?,
        });
    }
    match objects.len() {
        0 => Ok(py.None().into_bound(py)),
        1 => Ok(objects.remove(0)),
        _ => Ok(PyTuple::new(py, objects)?.into_any()),
    }
}

#[pymethods]
impl Bag {
    #[new]
    fn new(
        py: Python<'_>,
        client: &Client,
        name: &str,
        how: (bool, Option<u32>, Option<u64>, bool),
        info: &str,
    ) -> PyResult<Bag> {
        let raises = is_raised(py, info)?;
        let (ordered, window, bytes, tail) = how;
        let options = BagOptions { ordered, window, bytes, tail, status_fails: raises };
        let inner = released(py, || client.inner().bag(name, options))?;
        let view = inner.view();
        let (inner, name, status) = (Mutex::new(inner), name.to_owned(), OnceLock::new());
        Ok(Bag { inner, view, name, raises, status })
    }

    /// Finds the service; its signature, and how many arguments a task has.
    fn begin(&self, py: Python<'_>) -> PyResult<(String, usize)> {
        let bag = self.bag(py)?;
        let bag = &*bag;
        let signature = released(py, move || {
            let signature = bag.signature()?;
            signature.check_result_sizes()?;
            Ok(signature)
        })?;
        let status = Status::of(&signature, |param| param.way.comes());
        let _ = self.status.set(status.filter(|_| self.raises));
        Ok((signature.to_string(), signature.sent().count()))
    }

    /// One more task; its index. What is wrong with its arguments is its outcome.
    fn add(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<u64> {
        let mut bag = self.bag(py)?;
        let held = match Arguments::of_task(args) {
            Ok(held) => held,
            // What cannot be an argument is the outcome of its task; what else an object raises is the caller's.
            Err(e) if errors::is_bad(py, &e) => {
                let bag = &mut *bag;
                let signature = released(py, || bag.signature())?;
                let mut why = forebay::Error::bad(e.value(py).to_string());
                for (param, value) in signature.sent().zip(args.iter()) {
                    if let Some(no_path) = no_path(signature.name().as_str(), param, &value)? {
                        why = no_path;
                    }
                }
                return released(py, move || bag.add_failed(why));
            }
            Err(e) => return Err(e),
        };
        let bag = &mut *bag;
        released(py, move || held.add_to(bag))
    }

    /// There are no more.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.bag(py)?.end();
        Ok(())
    }

    /// What is to be done next: True: add a task; False: nothing after a tenth of a second; None: all is over; else a
    /// task that is over: its index, whether it has failed, and its result or exception.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut bag = self.bag(py)?;
        let bag = &mut *bag;
        let next = released(py, move || bag.next(Some(SLICE)))?;
        match next {
            Next::Input => true.into_bound_py_any(py),
            Next::Later => {
                released(py, signals)?;
                false.into_bound_py_any(py)
            }
            Next::Over => Ok(py.None().into_bound(py)),
            Next::Task(Task { index, outcome, printed }) => {
                let printed = printed.unwrap_or_default();
                let (failed, what) = match outcome {
                    Ok(values) => {
                        let status = self.status.get().and_then(Option::as_ref);
                        let said =
                            status.and_then(|status| status.said(&self.name, |at| single(&values, at)));
                        let results = given(py, values)?;
                        match said {
                            None => (false, results),
                            Some(said) => {
                                (true, said.raise(&results, &printed).into_value(py).into_bound_py_any(py)?)
                            }
                        }
                    }
                    Err(e) => {
                        (true, errors::raise_printed(py, &e, &printed).into_value(py).into_bound_py_any(py)?)
                    }
                };
                (index, failed, what).into_bound_py_any(py)
            }
        }
    }

    /// Gives a task up; True if it was not over.
    fn cancel(&self, py: Python<'_>, index: u64) -> PyResult<bool> {
        released(py, || Ok(self.view.cancel(index)))
    }

    /// Where a task is: open, done, failed or cancelled; None if there is none of that index.
    fn state<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Option<Bound<'py, PyString>>> {
        let state = released(py, || Ok(self.view.state(index)))?;
        Ok(state.map(|state| {
            PyString::new(
                py,
                match state {
                    TaskState::Open => "open",
                    TaskState::Over(TaskFate::Done) => "done",
                    TaskState::Over(TaskFate::Failed) => "failed",
                    TaskState::Over(TaskFate::Cancelled) => "cancelled",
                },
            )
        }))
    }

    /// Tasks that were pulled, are at servers, are done, have failed, were cancelled.
    fn counts(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64, u64)> {
        let counts = released(py, || Ok(self.view.counts()))?;
        Ok((counts.pulled, counts.under_way, counts.done, counts.failed, counts.cancelled))
    }

    /// Gives all tasks up that are not over.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || {
            self.view.close();
            Ok(())
        })
    }
}
