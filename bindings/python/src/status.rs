//! A result that tells whether a service ended well, as `info` of LAPACK does.

use forebay::call::{Printed, Value};
use forebay::{Code, Error, Param, Signature};
use pyo3::prelude::*;

use crate::errors;

/// Which of the results of a service it is.
pub struct Status {
    at: usize,
    name: String,
}

/// What a service has said that did not end well.
#[derive(Clone)]
pub struct Said {
    info: i64,
    error: Error,
}

/// Whether a status that is not 0 is to be raised, as the keyword `info` says.
pub fn is_raised(py: Python<'_>, info: &str) -> PyResult<bool> {
    match info {
        "raise" => Ok(true),
        "return" => Ok(false),
        _ => Err(errors::bad(py, format!("info={info:?} is not known; use 'raise' or 'return'"))),
    }
}

impl Status {
    /// Of the results that count; none where no parameter is a status.
    pub fn of(signature: &Signature, counts: impl Fn(&Param) -> bool) -> Option<Status> {
        let mut results = signature.params().iter().filter(|param| counts(param)).enumerate();
        let (at, param) = results.find(|(_, param)| param.is_status)?;
        Some(Status { at, name: param.name.clone() })
    }

    /// What the results say, unless the service ended well.
    pub fn said<'v>(&self, service: &str, value: impl FnOnce(usize) -> Option<&'v Value>) -> Option<Said> {
        let Some(Value::Scalar(scalar)) = value(self.at) else { return None };
        let info = scalar.as_i64().filter(|info| *info != 0)?;
        let text = format!("{service}: its status {} is {info}", self.name);
        Some(Said { info, error: Error::new(Code::RemoteError, text) })
    }
}

impl Said {
    /// As an error of the call.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The exception, which has the status, all results, and what the service has printed.
    pub fn raise(&self, results: &Bound<'_, PyAny>, printed: &Printed) -> PyErr {
        let raised = errors::raise_printed(results.py(), &self.error, printed);
        let value = raised.value(results.py());
        let told = value.setattr("info", self.info).and_then(|()| value.setattr("results", results));
        told.err().unwrap_or(raised)
    }
}
