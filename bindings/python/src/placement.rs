//! A function of the program that decides which server gets a call.
//!
//! It is asked while nothing of the client is locked: whoever waits for the interpreter there keeps nobody from anything.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay::call::{Choice, Placement, ServerView, TaskView};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeWarning};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::waits::keep;

/// The function, and whether it was told that it fails.
pub struct RuleFunction {
    function: Py<PyAny>,
    told: AtomicBool,
}

impl RuleFunction {
    pub fn new(function: Py<PyAny>) -> RuleFunction {
        RuleFunction { function, told: AtomicBool::new(false) }
    }

    fn ask(&self, py: Python<'_>, task: &TaskView, servers: &[ServerView]) -> PyResult<Option<usize>> {
        let rows = servers.iter().map(row).collect::<Vec<_>>();
        let task = (task.service, task.bytes, task.cost, task.waiting);
        self.function.call1(py, (task, PyList::new(py, rows)?))?.extract(py)
    }

    /// What it raised, once; a Ctrl-C is its caller's.
    fn tell(&self, py: Python<'_>, error: PyErr) {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return keep(error);
        }
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!(
            "placement: the function has failed ({error}); \"least\" decides instead, here and whenever it fails again, \
             which is not told"
        );
        let text = std::ffi::CString::new(text.replace('\0', " ")).unwrap_or_default();
        let warned = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1);
        if let Err(raised) = warned {
            raised.write_unraisable(py, Some(self.function.bind(py)));
        }
    }
}

/// Name, pid, host, workers, calls of this client, of others, room for more, seconds that the call and all that is there
/// of this client are expected to run, whether what is there takes too long.
type Row<'s> = (&'s str, u32, &'s str, u32, u32, u32, u32, Option<f64>, Option<f64>, bool);

fn row<'s>(server: &ServerView<'s>) -> Row<'s> {
    let seconds = |ns: Option<f64>| ns.map(|ns| ns / 1e9);
    let info = server.info;
    let room = server.window.saturating_sub(server.mine);
    let (expected, ahead) = (seconds(server.expected), seconds(server.ahead));
    let (mine, theirs) = (server.mine, server.theirs);
    (&info.name, info.pid, &info.host, info.workers, mine, theirs, room, expected, ahead, server.is_late)
}

impl Placement for RuleFunction {
    fn choose(&self, task: &TaskView, servers: &[ServerView]) -> Choice {
        // Without an interpreter, at the end of the program, nobody is there to be asked.
        let asked = Python::try_attach(|py| {
            self.ask(py, task, servers).unwrap_or_else(|e| {
                self.tell(py, e);
                None
            })
        });
        asked.flatten().map_or(Choice::Later, Choice::At)
    }

    fn may_wait(&self) -> bool {
        true
    }
}
