//! Waiting without keeping other threads from running, and Ctrl-C in every wait.
//!
//! The facade works with the interpreter's lock released. While it waits it asks [`signals`] every
//! 100 ms; a handler that raised (KeyboardInterrupt) leaves its exception here, in the thread it
//! was raised in, and [`released`] raises it when the facade has returned.

use std::cell::RefCell;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use forebay::{Code, Error, Result};
use pyo3::prelude::*;

use crate::errors;

/// Signals are looked at so often.
pub const SLICE: Duration = Duration::from_millis(100);

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// What functions that a head called have raised, with the words in which the facade was told.
    static OF_HEAD: RefCell<Vec<(String, PyErr)>> = const { RefCell::new(Vec::new()) };
}

/// Runs work of the facade with the lock released and gives its error the face of an exception.
pub fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let outcome = py.detach(work);
    if let Some(raised) = RAISED.take() {
        return Err(raised);
    }
    outcome.map_err(|e| errors::raise(py, &e))
}

/// Runs the head of a loop with the lock released; it may call functions of the program. The exception that ends the
/// head is that of the function; others are told to whoever pressed the button, and printed here.
pub fn at_head<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let mut text = None;
    let outcome = released(py, || work().inspect_err(|e| text = Some(e.text().to_owned())));
    let mut own = None;
    for (told, raised) in OF_HEAD.take() {
        if own.is_none() && text.as_ref() == Some(&told) {
            own = Some(raised);
        } else {
            raised.print(py);
        }
    }
    match own {
        Some(raised) => Err(raised),
        None => outcome,
    }
}

/// Keeps what a function that the head called has raised until the head is done.
pub fn keep_of_head(text: String, raised: PyErr) {
    OF_HEAD.with_borrow_mut(|known| known.push((text, raised)));
}

/// Runs work with the lock released that cannot ask for signals itself while it waits: another thread does it, and is
/// left to its end when a handler raises.
pub fn released_from<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    released(py, || {
        let (tell, told) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("fb-work".into())
            .spawn(move || drop(tell.send(work())))
            .map_err(|e| Error::io("cannot start a thread to wait in", e))?;
        loop {
            match told.recv_timeout(SLICE) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) => signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::internal("the thread that waited has ended without a word"));
                }
            }
        }
    })
}

/// Runs the handlers of signals that have come; an error ends the wait it was asked in.
pub fn signals() -> Result<()> {
    let raised = Python::try_attach(|py| py.check_signals());
    match raised {
        Some(Err(raised)) => {
            keep(raised);
            Err(Error::new(Code::Cancelled, "a signal ended the wait"))
        }
        _ => Ok(()),
    }
}

/// Keeps an exception that must reach the user although the facade has no word for it.
pub fn keep(raised: PyErr) {
    RAISED.set(Some(raised));
}

/// Seconds as users give them; none means as long as it takes.
pub fn duration(py: Python<'_>, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Ok(Some(duration)),
        Err(_) if seconds > 0.0 => Ok(None),
        Err(_) => Err(errors::bad(
            py,
            format!("a timeout of {seconds} s is not possible; give a number of at least 0"),
        )),
    }
}
