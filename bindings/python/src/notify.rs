//! Callbacks at the end of calls: `notify=` of `call_async`.

use std::sync::TryLockError;

use forebay::call::Watched;
use pyo3::prelude::*;

use crate::calls::Future;

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
        match self.future.get().state().try_lock() {
            Ok(held) => held.has_news(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().has_news(),
            Err(TryLockError::WouldBlock) => false,
        }
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
