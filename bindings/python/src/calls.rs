//! Calls to services.
//!
//! ```text
//! Python's arguments -> PendingArguments (views of the caller's arrays) -> the facade -> results in place, the rest returned
//! ```
//! Only what cannot be used where it lies takes the longer way over the signature: lists, other byte
//! orders, arrays that share memory. Such an argument is copied, and copied back if it is a result.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use forebay::call::{Named, Only, Transfer, Value, standing};
use forebay::{Code, Error, Param, Result, Way};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::arrays::{Given, dtype_of, shape_of};
use crate::ffi::held::{HeldCall, HeldFuture, PendingArguments};
use crate::future::Future;
use crate::notify::Notify;
use crate::placement::RuleFunction;
use crate::reference::Reference;
use crate::status::{Status, is_raised};
use crate::waits::{SLICE, duration, released, released_from, signals};
use crate::{errors, ffi, scalar};

/// A server as Python sees it: name, pid, host.
type Offering = (String, u32, String);
/// A call that has failed as Python sees it: service, code, text, seconds since 1970, name and pid of the server.
type Failure = (String, &'static str, String, f64, Option<(String, u32)>);

/// A client of the services that a broker knows.
#[pyclass(frozen, subclass)]
pub struct Client {
    inner: forebay::call::Client,
}

/// A result that was filled in a copy, and the caller's array it belongs in.
pub struct CopyBack {
    original: Py<PyAny>,
    copy: Py<PyAny>,
}

/// The arguments of a call.
pub struct Arguments {
    held: PendingArguments,
    back: Vec<CopyBack>,
}

impl Client {
    /// The facade's.
    pub fn inner(&self) -> &forebay::call::Client {
        &self.inner
    }

    /// The arguments; a call that cannot have them has failed.
    fn arguments(&self, py: Python<'_>, name: &str, args: &Bound<'_, PyTuple>) -> PyResult<Arguments> {
        self.made_of(name, args).inspect_err(|raised| {
            if let Some(why) = errors::read(py, raised) {
                self.inner.note(name, &why);
            }
        })
    }

    fn made_of(&self, name: &str, args: &Bound<'_, PyTuple>) -> PyResult<Arguments> {
        let mut out = Arguments { held: PendingArguments::default(), back: Vec::new() };
        for (at, value) in args.iter().enumerate() {
            let of = |e| errors::within(args.py(), e, format_args!("{name}: argument {}", at + 1));
            if !out.take(&value).map_err(of)? {
                return self.arguments_by_signature(name, args);
            }
        }
        Ok(out)
    }

    /// The arguments when one cannot be used where it lies, or shares memory with another: what is only read
    /// is copied, what is a result is filled in place or copied back.
    fn arguments_by_signature(&self, name: &str, args: &Bound<'_, PyTuple>) -> PyResult<Arguments> {
        let py = args.py();
        let signature = released(py, || self.inner.signature(name))?;
        let params: Vec<&Param> = signature.passed().collect();
        if params.len() != args.len() {
            let (takes, got) = (params.len(), args.len());
            let text = format!("{name} takes {takes} arguments and got {got}; its signature is {signature}");
            return Err(errors::bad(py, text));
        }
        let mut out = Arguments { held: PendingArguments::default(), back: Vec::new() };
        for (param, value) in params.into_iter().zip(args.iter()) {
            if let Some(why) = no_path(name, param, &value)? {
                return Err(errors::raise(py, &why));
            }
            let is_result = param.way.comes() && param.extents.is_some();
            let of = |e| errors::within(py, e, format_args!("{name}: parameter {}", param.name));
            match scalar::from_python(&value).map_err(of)? {
                Some(scalar) => out.held.push_scalar(scalar),
                None if is_result => {
                    if !out.take(&value).map_err(of)? {
                        out.take_result(name, param, &value)?;
                    }
                }
                None if value.is_instance_of::<Reference>() => drop(out.take(&value).map_err(of)?),
                None => out.take_copy(&value).map_err(of)?,
            }
        }
        Ok(out)
    }
}

/// Why a value is no path where one is wanted, if it is nothing that an argument can be.
pub fn no_path(name: &str, param: &Param, value: &Bound<'_, PyAny>) -> PyResult<Option<Error>> {
    if !param.is_file || scalar::from_python(value)?.is_some() || Given::as_it_is(value)?.is_some() {
        return Ok(None);
    }
    let what = match param.way {
        Way::In => "the file",
        _ => "the file that is to be written",
    };
    let (param, kind) = (&param.name, value.get_type());
    let text = format!(
        "{name}: parameter {param} is file: got a value of type {}; give the path of {what}",
        kind.name()?
    );
    Ok(Some(Error::bad(text)))
}

impl Arguments {
    /// The arguments of a task, of which none is written to: what cannot be used where it lies is copied.
    pub fn of_task(args: &Bound<'_, PyTuple>) -> PyResult<PendingArguments> {
        let mut out = Arguments { held: PendingArguments::default(), back: Vec::new() };
        for (at, value) in args.iter().enumerate() {
            let of = |e| errors::within(args.py(), e, format_args!("argument {}", at + 1));
            if let Some(scalar) = scalar::from_python(&value).map_err(of)? {
                out.held.push_scalar(scalar);
            } else if value.is_instance_of::<Reference>() {
                out.take(&value).map_err(of)?;
            } else {
                out.take_read(&value).map_err(of)?;
            }
        }
        Ok(out.held)
    }

    /// Takes an argument that is only read.
    fn take_read(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match Given::as_it_is(value)? {
            Some(Given::Text(text)) => self.held.push_text(&text),
            Some(Given::Bytes(bytes)) => {
                self.held.push_bytes(&bytes);
                Ok(())
            }
            Some(Given::Dense { array, meta }) if self.held.push_array(&array, meta, false) => Ok(()),
            _ => self.take_copy(value),
        }
    }

    /// Takes an argument as it lies; false when that is not possible.
    fn take(&mut self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(scalar) = scalar::from_python(value)? {
            self.held.push_scalar(scalar);
            return Ok(true);
        }
        if let Ok(reference) = value.cast::<Reference>() {
            self.held.push_reference(reference);
            return Ok(true);
        }
        Ok(match Given::as_it_is(value)? {
            Some(Given::Text(text)) => self.held.push_text(&text).map(|()| true)?,
            Some(Given::Bytes(bytes)) => {
                self.held.push_bytes(&bytes);
                true
            }
            Some(Given::Dense { array, meta }) => self.held.push_array(&array, meta, true),
            None => self.take_apart(value),
        })
    }

    /// Takes an array whose elements lie apart; false when it is none, or not possible.
    fn take_apart(&mut self, value: &Bound<'_, PyAny>) -> bool {
        let Ok(array) = value.cast::<PyUntypedArray>() else { return false };
        let (Some(dtype), Ok(shape)) = (dtype_of(&array.dtype()), shape_of(array)) else { return false };
        self.held.push_apart(array, dtype, shape)
    }

    /// Takes a copy of an argument that is only read.
    fn take_copy(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match Given::copy(value)? {
            Given::Text(text) => self.held.push_text(&text)?,
            Given::Bytes(bytes) => self.held.push_bytes(&bytes),
            Given::Dense { array, meta } => {
                self.held.push_array(&array, meta, false);
            }
        }
        Ok(())
    }

    /// Takes a copy of an array that is to be filled, and remembers to copy it back.
    fn take_result(&mut self, name: &str, param: &Param, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let refuse = |why: &str| {
            let text = format!("{name}: parameter {} is filled by the service; {why}", param.name);
            Err(errors::bad(py, text))
        };
        let Ok(original) = value.cast::<PyUntypedArray>() else {
            let kind = value.get_type().name()?;
            return refuse(&format!("a {kind} cannot be filled, pass a NumPy array"));
        };
        if !ffi::writable(original) {
            return refuse("the array given is read-only");
        }
        if let Some(Given::Dense { .. }) = Given::as_it_is(value)? {
            return refuse("the array given shares memory with another one that is filled, pass two arrays");
        }
        let Given::Dense { array, meta } = Given::copy(value)? else {
            return refuse("pass an array of numbers");
        };
        self.held.push_array(&array, meta, true);
        self.back.push(CopyBack { original: value.clone().unbind(), copy: array.into_any().unbind() });
        Ok(())
    }
}

/// Puts results that were filled in copies where they belong.
pub fn copy_back(py: Python<'_>, back: &[CopyBack]) -> PyResult<()> {
    for pair in back {
        let numpy = py.import("numpy")?;
        numpy.call_method1("copyto", (pair.original.bind(py), pair.copy.bind(py)))?;
    }
    Ok(())
}

/// Waits in slices, so that signals are heard.
pub fn wait_in_slices(future: &mut HeldFuture, timeout: Option<Duration>) -> Result<Vec<Value>> {
    // One wait, although it is made of slices: whoever stands in for this thread does so until its end.
    let _wait = standing::Wait::begin();
    let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
    loop {
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let last = left.is_some_and(|l| l <= SLICE);
        match future.wait(Some(left.map_or(SLICE, |l| l.min(SLICE)))) {
            // The call itself may have ended for want of time.
            Err(e) if e.code() == Code::Timeout && !last && future.is_under_way() => signals()?,
            outcome => return outcome,
        }
    }
}

/// A result that is no array.
pub fn value(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Scalar(s) => scalar::to_python(py, s)?,
        Value::Str(text) => {
            PyString::from_bytes(py, text.as_bytes()).map_err(|e| no_memory(py, e, text.len()))?.into_any()
        }
        Value::Bytes(bytes) => PyBytes::new_with(py, bytes.len(), |own| {
            own.copy_from_slice(&bytes);
            Ok(())
        })
        .map_err(|e| no_memory(py, e, bytes.len()))?
        .into_any(),
    })
}

/// Where Python has no memory for a result of that length.
fn no_memory(py: Python<'_>, e: PyErr, bytes: usize) -> PyErr {
    let text = format!("Python has no memory for {bytes} bytes of a result; free some, or raise `ulimit -v`");
    match e.is_instance_of::<PyMemoryError>(py) {
        true => errors::raise(py, &Error::new(Code::Full, text)),
        false => e,
    }
}

/// What a call returns: nothing, the one value, or a tuple.
pub fn returned(py: Python<'_>, values: Vec<Value>) -> PyResult<Bound<'_, PyAny>> {
    if values.is_empty() {
        return Ok(py.None().into_bound(py));
    }
    let mut objects = Vec::with_capacity(values.len());
    for value in values {
        objects.push(self::value(py, value)?);
    }
    match objects.len() {
        1 => Ok(objects.remove(0)),
        _ => Ok(PyTuple::new(py, objects)?.into_any()),
    }
}

/// Servers by their name, or one by its pid.
#[derive(FromPyObject)]
enum Servers {
    Name(String),
    Pid(u32),
}

#[pymethods]
impl Client {
    /// Connects, or is one like `of` whose calls go to certain servers: those of a name, or the one of a pid.
    #[new]
    #[pyo3(signature = (broker=None, *, of=None, on=None))]
    fn new(
        py: Python<'_>,
        broker: Option<PathBuf>,
        of: Option<&Bound<'_, Client>>,
        on: Option<Servers>,
    ) -> PyResult<Client> {
        if let (Some(of), Some(on)) = (of, on) {
            let only = match on {
                Servers::Name(name) => Only::Name(name),
                Servers::Pid(pid) => Only::Pid(pid),
            };
            return Ok(Client { inner: of.get().inner.on(only) });
        }
        let inner = released_from(py, move || forebay::connect(broker.as_deref()))?;
        inner.on_wait(signals);
        Ok(Client { inner })
    }

    /// Which server gets a call is decided by that rule: ``least`` or ``turns``.
    fn place_by(&self, py: Python<'_>, rule: &str) -> PyResult<()> {
        let raise = |e| errors::raise(py, &e);
        self.inner.place_by(Named::parse(rule).map_err(raise)?).map_err(raise)
    }

    /// Which server gets a call is decided by a function: it is given the task and a list of servers, as tuples, and
    /// returns an index of the list, or None, which leaves it to ``least``.
    fn place_with(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
        self.inner.place_by(RuleFunction::new(function)).map_err(|e| errors::raise(py, &e))
    }

    /// For how long calls wait for a server that is not there yet, in seconds.
    fn patience(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        self.inner.patience(duration(py, Some(seconds))?.unwrap_or(Duration::MAX));
        Ok(())
    }

    /// For how many seconds a server on another host may say nothing before it is lost.
    fn silence(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        self.inner.silence(seconds).map_err(|e| errors::raise(py, &e))
    }

    /// Calls a service by name and waits for its results: ``y`` and other arrays that come back are
    /// filled in place, results that are no arrays are returned.
    ///
    /// Raises ``NoServer`` (nobody offers it), ``BadArgument`` (found before anything is sent),
    /// ``RemoteError`` (the service raised; the text and traceback are the remote ones), ``Timeout``
    /// (after ``timeout`` seconds), ``ServerLost`` (and no other server could take over). A service whose signature has a
    /// ``status`` raises ``RemoteError`` when that is not 0, with it as ``info`` and what is returned as ``results``; with
    /// ``info="return"`` it is returned. All arrays are filled either way.
    #[pyo3(signature = (name, *args, timeout=None, info="raise"))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        args: &Bound<'py, PyTuple>,
        timeout: Option<f64>,
        info: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (timeout, raises) = (duration(py, timeout)?, is_raised(py, info)?);
        let Arguments { held, back } = self.arguments(py, name, args)?;
        // Outlives the wait: references to the arrays are given back with the interpreter's lock held.
        let mut call: Option<HeldCall> = None;
        let waited = released(py, || {
            let sent = match timeout {
                None => held.call_now(&self.inner, name)?,
                limit => held.send(&self.inner, name, limit)?.into(),
            };
            Ok(match call.insert(sent) {
                HeldCall::Over { answer, .. } => Ok(std::mem::take(&mut answer.values)),
                HeldCall::UnderWay(future) => match (wait_in_slices(future, timeout), timeout) {
                    (Err(e), Some(limit)) if e.code() == Code::Timeout && future.is_under_way() => {
                        Err(future.give_up_late(limit))
                    }
                    (outcome, _) => outcome,
                },
            })
        })?;
        let printed = || call.as_ref().and_then(HeldCall::printed).cloned().unwrap_or_default();
        let values = waited.map_err(|e| errors::raise_printed(py, &e, &printed()))?;
        copy_back(py, &back)?;
        let status = call.as_ref().and_then(|call| Status::of(call.signature(), Param::is_returned));
        let said = status.filter(|_| raises).and_then(|status| status.said(name, |at| values.get(at)));
        let results = returned(py, values)?;
        let Some(said) = said else { return Ok(results) };
        if let Some(call) = &call {
            released(py, || {
                call.note(&self.inner, said.error());
                Ok(())
            })?;
        }
        Err(said.raise(&results, &printed()))
    }

    /// Calls a service and returns at once. The arrays given belong to the call until it was waited for.
    pub fn send(
        &self,
        py: Python<'_>,
        name: &str,
        args: &Bound<'_, PyTuple>,
        transfer: &str,
        info: &str,
    ) -> PyResult<Future> {
        let raises = is_raised(py, info)?;
        let transfer = Transfer::parse(transfer).map_err(|e| errors::raise(py, &e))?;
        let Arguments { held, back } = self.arguments(py, name, args)?;
        let future = released(py, || held.send(&self.inner.handing_over(transfer), name, None))?;
        Ok(Future::new(&self.inner, future, back, name, raises))
    }

    /// The calls that have failed, the oldest first: service, code, text, when, server and its pid.
    fn failures(&self, py: Python<'_>) -> PyResult<Vec<Failure>> {
        let failed = released(py, || Ok(self.inner.failed()))?.into_iter();
        Ok(failed
            .map(|one| {
                let when = one.when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                let server = one.server.map(|(name, pid)| (name.to_string(), pid));
                (one.service, one.code.name(), one.text, when, server)
            })
            .collect())
    }

    /// Has a function called with the call, on a thread of this client, when it is complete.
    fn notify(&self, py: Python<'_>, future: Py<Future>, function: Py<PyAny>) -> PyResult<()> {
        released(py, || self.inner.watch(Notify::new(future, function)))
    }

    /// Has no function called any more, and waits for one that is.
    fn unnotify(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || {
            self.inner.unwatch();
            Ok(())
        })
    }

    /// Ends what is this client's.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || {
            self.inner.close();
            Ok(())
        })
    }

    /// Signature and servers (name, pid, host) of everything that is offered.
    fn offers(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<Offering>)>> {
        let services = released(py, || self.inner.services())?.into_iter();
        Ok(services
            .map(|service| {
                let servers = service.servers.into_iter().map(|s| (s.name, s.pid, s.host)).collect();
                (service.signature.to_string(), servers)
            })
            .collect())
    }

    /// The signature of a service.
    fn signature(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        released(py, || self.inner.signature(name)).map(|s| s.to_string())
    }
}
