//! Callbacks at the end of calls: `notify=` of `call_async`.

use forebay::call::Watched;
use pyo3::prelude::*;

use crate::future::Future;

/// A call, and the function that wants to hear of its end.
pub struct Notify {
    future: Py<Future>,
    function: Option<Py<PyAny>>,
}

impl Notify {
    /// Calls `function(future)` when the call is complete.
    pub fn new(future: Py<Future>, function: Py<PyAny>) -> Box<Notify> {
        Box::new(Notify { future, function: Some(function) })
    }
}

impl Watched for Notify {
    /// A thread that waits for the call holds it; then there is nothing to do.
    fn has_news(&mut self) -> bool {
        self.future.get().has_news()
    }

    fn advance(&mut self) -> bool {
        if !self.future.get().is_done() {
            return false;
        }
        // Without an interpreter, at the end of the program, nobody is there to be told.
        Python::try_attach(|py| {
            let Some(function) = self.function.take() else { return };
            if let Err(e) = function.call1(py, (self.future.clone_ref(py),)) {
                e.write_unraisable(py, Some(function.bind(py)));
            }
        });
        true
    }
}
