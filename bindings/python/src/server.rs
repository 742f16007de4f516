//! Python functions as services.
//!
//! ```text
//! request in the client's segment -> Call -> arguments for Python -> the function -> results into Call
//! ```
//! A large array arrives as a view of the client's segment, and what the function writes is in
//! place; that memory is not used again while the function's friends hold on to the view. A
//! small array lies in a buffer of the call, which ends with it: Python gets a copy and the
//! results are copied back. Whoever returns an array that the caller has made room for, instead of
//! filling it, has it copied there; what is returned and has no place is an error.

use std::any::Any;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::serve::{Arg, Call, Host, Incarnation, Signals, own_pid};
use forebay::{Array, Code, Error, Param, Scalar, Signature, Way};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::waits::{released, released_from, signals};
use crate::{arrays, errors, ffi, scalar};

/// A server: made, then started, then stopped.
#[pyclass(frozen)]
pub struct Server {
    host: Arc<Host>,
}

/// Keeps the memory of arrays over it, as their owner.
#[pyclass(frozen)]
struct Segment {
    // Held for its life only.
    _keeper: Arc<dyn Any + Send + Sync>,
}

/// Where the broker is that a server is announced to.
#[pyfunction]
pub fn broker_at(py: Python<'_>, broker: Option<PathBuf>) -> PyResult<String> {
    forebay::broker_at(broker.as_deref()).map_err(|e| errors::raise(py, &e))
}

/// Has the command `forebay`, which becomes the agent, looked for in these folders too.
#[pyfunction]
pub fn look_for_command_in(folders: Vec<PathBuf>) {
    forebay::look_for_command_in(folders);
}

/// Has the kernel end this process with its parent, which is that one.
#[pyfunction]
pub fn stop_with_parent(py: Python<'_>, parent: u32) -> PyResult<()> {
    forebay::serve::stop_with_parent(parent).map_err(|e| errors::raise(py, &e))
}

/// Seconds to wait before something that has ended so often is started again.
#[pyfunction]
pub fn pause_before(restarts: u32) -> f64 {
    forebay::serve::pause_before(restarts).as_secs_f64()
}

/// Tells clients that ask how that life of a server has ended.
#[pyfunction]
#[pyo3(signature = (broker, life, how))]
pub fn tell_of_death(py: Python<'_>, broker: Option<PathBuf>, life: u64, how: &str) -> PyResult<()> {
    released(py, || {
        forebay::serve::tell_of_death(broker.as_deref(), Incarnation(life), how, Vec::new());
        Ok(())
    })
}

fn signature_of(py: Python<'_>, name: &str, parameters: &str, cost: Option<&str>) -> PyResult<Signature> {
    let signature = Signature::of(name, parameters);
    let signature = signature.and_then(|s| cost.map_or(Ok(s.clone()), |cost| s.with_cost(cost)));
    signature.map_err(|e| errors::raise(py, &e))
}

/// Names of what a signature passes to its function.
#[pyfunction]
#[pyo3(signature = (name, parameters, cost))]
pub fn passed(py: Python<'_>, name: &str, parameters: &str, cost: Option<&str>) -> PyResult<Vec<String>> {
    let signature = signature_of(py, name, parameters, cost)?;
    Ok(signature.passed().map(|param| param.name.clone()).collect())
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (name, workers, memory, scratch, listen, supervised))]
    fn new(
        py: Python<'_>,
        name: &str,
        workers: usize,
        memory: Option<&str>,
        scratch: Option<&str>,
        listen: Option<&str>,
        supervised: bool,
    ) -> PyResult<Server> {
        let raise = |e| errors::raise(py, &e);
        let mut server = forebay::serve::Server::new(name).workers(workers);
        if let Some(memory) = memory {
            server = server.memory(forebay::parse_bytes(memory).map_err(raise)?);
        }
        if let Some(scratch) = scratch {
            let (dir, bytes) = forebay::parse_scratch(scratch).map_err(raise)?;
            server = server.scratch(&dir, bytes);
        }
        if let Some(address) = listen {
            server = server.listen(address).map_err(raise)?;
        }
        if supervised {
            server = server.supervised();
        }
        Ok(Server { host: Arc::new(Host::new(server).map_err(raise)?) })
    }

    /// Offers a function under a signature.
    #[pyo3(signature = (name, parameters, effects, cost, function))]
    fn add(
        &self,
        py: Python<'_>,
        name: &str,
        parameters: &str,
        effects: bool,
        cost: Option<&str>,
        function: Py<PyAny>,
    ) -> PyResult<()> {
        let raise = |e| errors::raise(py, &e);
        let signature = signature_of(py, name, parameters, cost)?.with_effects(effects);
        self.host.add(signature, Box::new(move |call: &mut Call| serve(&function, call))).map_err(raise)
    }

    /// Listens, works and is announced from now on.
    fn start(&self, py: Python<'_>, broker: Option<PathBuf>) -> PyResult<()> {
        released(py, || self.host.start(broker.as_deref()))
    }

    /// Starts it if it does not run, and serves until it is to stop or a handler of a signal raises.
    fn serve(&self, py: Python<'_>, broker: Option<PathBuf>) -> PyResult<()> {
        released(py, || self.host.serve(broker.as_deref(), &Signals::Check(&signals)))
    }

    /// Lets `serve` come to its end; waits for nothing, so that handlers of signals may call it.
    fn ask_to_stop(&self) {
        self.host.ask_to_stop();
    }

    /// Ends what it began and lets go; stopping twice does nothing.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.host.stop())
    }

    /// Ends what the server began and lets go, at the end of the program; a handler of a signal may end the wait.
    fn stop_at_end(&self, py: Python<'_>) -> PyResult<()> {
        let host = self.host.clone();
        released_from(py, move || host.stop())
    }

    /// The number of its life; 0 when it does not run.
    fn life(&self) -> u64 {
        self.host.incarnation().map_or(0, |life| life.0)
    }

    /// Requests running, waiting and served so far.
    fn load(&self, py: Python<'_>) -> (u32, u32, u64) {
        let load = py.detach(|| self.host.load());
        (load.running, load.queued, load.served)
    }

    /// What goes wrong behind the scenes, while it does.
    fn trouble(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.host.trouble()).map(|e| e.text().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its threads may be in Python, and end only when they get the interpreter.
        let _ = Python::try_attach(|py| py.detach(|| self.host.stop()));
    }
}

thread_local! {
    /// The number of the call that this thread serves, or 0.
    static SERVING: Cell<u64> = const { Cell::new(0) };
}

/// The number of the call that this thread serves; 0: none.
#[pyfunction]
pub fn serving() -> u64 {
    SERVING.get()
}

/// One call, on a thread of the server.
fn serve(function: &Py<PyAny>, call: &mut Call) -> forebay::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let outcome = Python::try_attach(|py| {
        ffi::thread::keep_known(py);
        let (before, pid) = (SERVING.replace(number), own_pid());
        let answered = answer(py, function, call);
        if own_pid() != pid {
            end_child(py, answered);
        }
        SERVING.set(before);
        if answered.is_err() || call.has_bad_status() {
            let (stdout, stderr) = printed(py, number);
            call.printed(stdout, stderr);
        }
        answered.map_err(|raised| Error::new(Code::RemoteError, errors::told_with_traceback(py, &raised)))
    });
    outcome.unwrap_or_else(|| Err(Error::new(Code::ServerLost, "the server's interpreter is ending")))
}

/// The end of a child that the function has forked and that comes out of it: the call is its parent's. It ends as a
/// program of its own would, by what it raised, and without the handlers of the parent's program.
fn end_child(py: Python<'_>, answered: PyResult<()>) -> ! {
    let status = answered.map_or_else(|raised| status_of(py, &raised), |()| 0);
    for stream in ["stdout", "stderr"] {
        let _ = py.import("sys").and_then(|sys| sys.getattr(stream)?.call_method0("flush"));
    }
    forebay::serve::end_child(status)
}

/// The status with which a program ends that raises this; what is no `SystemExit` is printed.
fn status_of(py: Python<'_>, raised: &PyErr) -> i32 {
    let code = match raised.is_instance_of::<PySystemExit>(py) {
        true => raised.value(py).getattr("code").ok(),
        false => None,
    };
    match code {
        Some(code) if code.is_none() => 0,
        Some(code) if code.extract::<i32>().is_ok() => code.extract().unwrap_or(1),
        Some(text) => {
            eprintln!("{text}");
            1
        }
        None => {
            raised.print(py);
            1
        }
    }
}

/// What the function has printed, the last lines; nothing, if that cannot be had.
fn printed(py: Python<'_>, number: u64) -> (String, String) {
    let last = py.import("forebay._printed").and_then(|module| module.call_method1("last", (number,)));
    last.and_then(|texts| texts.extract()).unwrap_or_default()
}

fn answer(py: Python<'_>, function: &Py<PyAny>, call: &mut Call) -> PyResult<()> {
    let mut arguments = Vec::with_capacity(call.len());
    let mut copies = Vec::new();
    for (index, arg) in call.all().into_iter().enumerate() {
        if arg.param().is_passed() {
            let (object, copied) = argument(py, arg)?;
            if copied {
                copies.push((index, object.clone()));
            }
            arguments.push(object);
        }
    }
    let lent = arguments.clone();
    let outcome = outcome_of(py, function, call, arguments, copies);
    // The results are the caller's from now on: a function that has kept an array does not change them any more.
    lent.iter().for_each(ffi::make_read_only);
    outcome
}

/// Calls the function and gives the caller what comes of it.
fn outcome_of(
    py: Python<'_>,
    function: &Py<PyAny>,
    call: &mut Call,
    arguments: Vec<Bound<'_, PyAny>>,
    copies: Vec<(usize, Bound<'_, PyAny>)>,
) -> PyResult<()> {
    let result = function.bind(py).call1(PyTuple::new(py, &arguments)?)?;
    let result = take_arrays(py, call, arguments, result)?;
    for (index, object) in copies {
        copy_back(py, call, index, &object)?;
    }
    give_results(py, call, &result)
}

/// A parameter as Python sees it, and whether it is a copy whose content must go back.
fn argument<'py>(py: Python<'py>, mut arg: Arg<'_>) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let raise = |e| errors::raise(py, &e);
    let param = arg.param();
    let comes = param.way.comes();
    if param.extents.is_none() {
        return Ok((value(py, &arg)?, false));
    }
    match arg.keeper() {
        Some(keeper) => {
            let (meta, bytes) = arg.array().map_err(raise)?;
            let owner = Bound::new(py, Segment { _keeper: keeper })?.into_any();
            Ok((ffi::array_over(&meta, bytes.as_ptr(), owner, comes)?, false))
        }
        None => {
            let (meta, bytes) = arg.array().map_err(raise)?;
            let copy = arrays::over_own(py, Array { meta, bytes: bytes.to_vec() }, comes)?;
            Ok((copy, comes))
        }
    }
}

/// A scalar, text or bytes as Python sees it.
fn value<'py>(py: Python<'py>, arg: &Arg<'_>) -> PyResult<Bound<'py, PyAny>> {
    let raise = |e| errors::raise(py, &e);
    match arg.param().dtype {
        forebay::DType::Str if arg.param().is_file => {
            py.import("pathlib")?.call_method1("Path", (arg.str().map_err(raise)?,))
        }
        forebay::DType::Str => Ok(PyString::new(py, arg.str().map_err(raise)?).into_any()),
        forebay::DType::Bytes => Ok(PyBytes::new(py, arg.bytes().map_err(raise)?).into_any()),
        _ => scalar::to_python(py, arg.scalar().map_err(raise)?),
    }
}

fn copy_back(py: Python<'_>, call: &mut Call, index: usize, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let raise = |e| errors::raise(py, &e);
    let array = object.cast::<PyUntypedArray>()?;
    let (meta, bytes) = call.arg(index).and_then(Arg::array).map_err(raise)?;
    let from = ffi::bytes(array, meta.order).filter(|from| from.len() == bytes.len()).ok_or_else(|| {
        errors::bad(py, format!("an array of shape {:?} was reshaped in the service", array.shape()))
    })?;
    bytes.copy_from(from);
    Ok(())
}

/// Arrays that the function returned, into the parameters that they are for; gives what else was returned.
///
/// What may be returned: the values of parameters that have no room (scalars, text), or these and the
/// arrays that only come back, in the order of the signature, or these and those that go and come.
fn take_arrays<'py>(
    py: Python<'py>,
    call: &Call,
    arguments: Vec<Bound<'py, PyAny>>,
    result: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let signature = call.signature();
    // Files are written, not returned.
    let params = || signature.params().iter().filter(|p| !(p.is_file && p.way.comes()));
    let parts: Vec<Bound<'py, PyAny>> = match result.cast::<PyTuple>() {
        Ok(tuple) if params().filter(|p| p.way.comes()).count() > 1 || tuple.len() == 1 => {
            tuple.iter().collect()
        }
        _ => vec![result.clone()],
    };
    let returned = params().filter(|p| p.is_returned()).count();
    if parts.len() == returned || returned == 0 && result.is_none() {
        return Ok(result);
    }
    let mut arguments = arguments.into_iter();
    let all = signature.params().iter();
    let places: Vec<(&Param, Option<Bound<'py, PyAny>>)> =
        all.map(|p| (p, p.is_passed().then(|| arguments.next()).flatten())).collect();
    for wanted in [Way::Out, Way::InOut] {
        let comes = |p: &Param| p.way.comes() && !p.is_file && (wanted == Way::InOut || p.way == Way::Out);
        let asked: Vec<_> = places.iter().filter(|(p, _)| comes(p)).collect();
        if asked.len() != parts.len() {
            continue;
        }
        let mut rest = Vec::new();
        for ((param, room), value) in asked.into_iter().zip(parts) {
            match room {
                Some(array) => arrays::fill(array, &value, &param.name)?,
                None => rest.push(value),
            }
        }
        return Ok(match rest.len() {
            0 => py.None().into_bound(py),
            1 => rest.remove(0),
            _ => PyTuple::new(py, rest)?.into_any(),
        });
    }
    let kind = result.get_type().name()?;
    let what = if parts.len() == 1 { format!("a {kind}") } else { format!("{} values", parts.len()) };
    let text = format!(
        "the function returned {what}, which {signature} has no place for; fill its out arrays in place, or return one value for each out parameter"
    );
    Err(errors::bad(py, text))
}

/// What the function returned, into the parameters that are returned: one value, or a tuple.
fn give_results(py: Python<'_>, call: &mut Call, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let signature = call.signature().clone();
    let wanted = signature.params().iter().filter(|p| p.is_given_back()).count();
    let values: Vec<Bound<'_, PyAny>> = match (wanted, result.cast::<PyTuple>()) {
        (0, _) => return Ok(()),
        (n, Ok(tuple)) if n > 1 => tuple.iter().collect(),
        _ => vec![result.clone()],
    };
    if values.len() != wanted {
        let text = format!("{signature} returns {wanted} values, the function returned {}", values.len());
        return Err(errors::bad(py, text));
    }
    let mut values = values.into_iter();
    for mut arg in call.all().into_iter().filter(|arg| arg.param().is_given_back()) {
        let Some(value) = values.next() else { break };
        give(py, &mut arg, &value)?;
    }
    Ok(())
}

fn give(py: Python<'_>, arg: &mut Arg<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let param = arg.param();
    let wrong = |what: &str| {
        let kind = value.get_type().name().map(|n| n.to_string()).unwrap_or_default();
        errors::bad(py, format!("{} is {what}, the function returned a {kind}", param.name))
    };
    let outcome = match param.dtype {
        forebay::DType::Str => {
            let text = value.cast::<PyString>().map_err(|_| wrong("text"))?;
            arg.set_str(errors::letters(text)?)
        }
        forebay::DType::Bytes => {
            let bytes = value.cast::<PyBytes>().map_err(|_| wrong("bytes"))?;
            arg.set_bytes(bytes.as_bytes())
        }
        _ => {
            let number: Scalar = scalar::from_python(value)?.ok_or_else(|| wrong("a number"))?;
            arg.set(number)
        }
    };
    outcome.map_err(|e| errors::raise(py, &e))
}
