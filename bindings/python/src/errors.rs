//! The exceptions: one class for each code of `spec/errors.toml`, all under `forebay.Error`.
//!
//! ```text
//! Exception <- Error <- NotFound, Conflict, BadArgument, ...
//! ```
//! Where Python has a class of the same meaning, ours is one of these too: `except TimeoutError`
//! and `except ValueError` do what people expect.

use forebay::call::Printed;
use forebay::{CODES, Code};
use pyo3::exceptions::{PyException, PyLookupError, PyRuntimeWarning, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

static CLASSES: PyOnceLock<Vec<(Code, Py<PyType>)>> = PyOnceLock::new();

/// Makes the classes and puts them into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = class(
        py,
        "Error",
        &[py.get_type::<PyException>()],
        "Whatever Forebay refuses or cannot do. The text says what happened, the value, and what to do.",
    )?;
    base.setattr("code", "Error")?;
    base.setattr("number", 0)?;
    base.setattr("remedy", "Do what the text says.")?;
    base.setattr("stdout", "")?;
    base.setattr("stderr", "")?;
    base.setattr("output_others", 0)?;
    module.add("Error", &base)?;
    let mut classes = Vec::new();
    for info in CODES {
        let mut bases = vec![base.clone()];
        match info.code {
            Code::NotFound => bases.push(py.get_type::<PyLookupError>()),
            Code::BadArgument => bases.push(py.get_type::<PyValueError>()),
            Code::Timeout => bases.push(py.get_type::<PyTimeoutError>()),
            _ => {}
        }
        let made = class(py, info.name, &bases, info.meaning)?;
        made.setattr("code", info.name)?;
        made.setattr("number", info.code as u32)?;
        made.setattr("remedy", info.remedy)?;
        if info.code == Code::RemoteError {
            made.setattr("info", py.None())?;
            made.setattr("results", py.None())?;
        }
        module.add(info.name, &made)?;
        classes.push((info.code, made.unbind()));
    }
    // A second import of the module in one interpreter keeps the first classes.
    let _ = CLASSES.set(py, classes);
    Ok(())
}

fn class<'py>(
    py: Python<'py>,
    name: &str,
    bases: &[Bound<'py, PyType>],
    doc: &str,
) -> PyResult<Bound<'py, PyType>> {
    let members = PyDict::new(py);
    members.set_item("__module__", "forebay")?;
    members.set_item("__doc__", doc)?;
    let made = py.get_type::<PyType>().call1((name, PyTuple::new(py, bases)?, members))?;
    Ok(made.cast_into::<PyType>()?)
}

/// The exception of an error.
pub fn raise(py: Python<'_>, error: &forebay::Error) -> PyErr {
    let found = CLASSES.get(py).and_then(|all| all.iter().find(|c| c.0 == error.code()));
    match found {
        Some((_, class)) => PyErr::from_type(class.bind(py).clone(), error.text().to_owned()),
        None => PyException::new_err(error.text().to_owned()),
    }
}

/// The exception of a call's error, with what the service has printed.
pub fn raise_printed(py: Python<'_>, error: &forebay::Error, printed: &Printed) -> PyErr {
    let raised = raise(py, error);
    if *printed != Printed::default() {
        let value = raised.value(py);
        let told = value
            .setattr("stdout", &printed.stdout)
            .and_then(|()| value.setattr("stderr", &printed.stderr))
            .and_then(|()| value.setattr("output_others", printed.others));
        if let Err(e) = told {
            return e;
        }
    }
    raised
}

/// The error that an exception tells of: `BadArgument` where it is one of Python itself. An interrupt is none.
pub fn read(py: Python<'_>, raised: &PyErr) -> Option<forebay::Error> {
    if !raised.is_instance_of::<PyException>(py) {
        return None;
    }
    let ours = CLASSES.get(py).and_then(|all| all.iter().find(|c| raised.is_instance(py, c.1.bind(py))));
    Some(match ours {
        Some((code, _)) => {
            let text = raised.value(py).str().map(|text| text.to_string());
            forebay::Error::new(*code, text.unwrap_or_default())
        }
        None => forebay::Error::bad(told(py, raised)),
    })
}

/// `BadArgument` with its text, as an exception.
pub fn bad(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, &forebay::Error::bad(text))
}

/// The same exception, which says of what it speaks if it is a `BadArgument`; another one stays as it is.
pub fn within(py: Python<'_>, error: PyErr, of: impl std::fmt::Display) -> PyErr {
    match read(py, &error) {
        Some(why) if is_bad(py, &error) => raise(py, &why.within(of)),
        _ => error,
    }
}

/// Whether it is a `BadArgument`.
pub fn is_bad(py: Python<'_>, error: &PyErr) -> bool {
    let found = CLASSES.get(py).and_then(|all| all.iter().find(|c| c.0 == Code::BadArgument));
    found.is_some_and(|(_, class)| error.is_instance(py, class.bind(py)))
}

/// The letters of a text; `BadArgument` when it has half a character, as JSON of other programs may bring it.
pub fn letters<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    text.to_str().map_err(|e| {
        let shown = text.repr().map(|shown| shown.to_string()).unwrap_or_default();
        let shown: String = shown.chars().take(80).collect();
        let remedy = "text.encode('utf-8', 'replace').decode() puts ? there";
        bad(
            text.py(),
            format!(
                "the text {shown} is not kept, for UTF-8 cannot write it ({}); {remedy}",
                e.value(text.py())
            ),
        )
    })
}

/// A warning of Python, at the line of the program that stands so many calls above; a filter may make it an exception.
pub fn warn(py: Python<'_>, text: &str, above: i32) -> PyResult<()> {
    let text = std::ffi::CString::new(text.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, above)
}

/// Gives a warning where nobody can take an exception, and where another one may be on its way: that one stays, and
/// one that the warning raises is printed.
pub fn warn_aside(py: Python<'_>, text: &str) {
    let on_its_way = PyErr::take(py);
    if let Err(raised) = warn(py, text, 1) {
        raised.write_unraisable(py, None);
    }
    if let Some(error) = on_its_way {
        error.restore(py);
    }
}

/// A line on Python's standard error, if there is one.
pub fn say(py: Python<'_>, text: &str) {
    let write = |py: Python<'_>| {
        let err = py.import("sys")?.getattr("stderr")?;
        if !err.is_none() {
            err.call_method1("write", (format!("{text}\n"),))?;
        }
        Ok::<(), PyErr>(())
    };
    if let Err(raised) = write(py) {
        raised.write_unraisable(py, None);
    }
}

/// What a Python exception says, for those who only understand our errors: its class and text.
pub fn told(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).str().map(|s| s.to_string()).unwrap_or_default();
    let name = error.get_type(py).name().map(|n| n.to_string()).unwrap_or_else(|_| "Exception".into());
    if text.is_empty() { name } else { format!("{name}: {text}") }
}

/// What a Python exception says, for callers in other processes: its class and text, and the traceback below.
pub fn told_with_traceback(py: Python<'_>, error: &PyErr) -> String {
    let trace = error.traceback(py).and_then(|t| t.format().ok());
    match trace {
        Some(trace) => format!("{}\n{}", told(py, error), trace.trim_end()),
        None => told(py, error),
    }
}
