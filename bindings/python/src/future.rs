//! Calls under way, used by any thread of the program and by handlers of signals.
//!
//! ```text
//! FutureState: the call  --try_take--> Taken: one thread waits for it --dropped--> FutureState --> the others see its end, or take it
//!                                 ^ cancel() of another thread, or of a handler in this one, tells who waits
//! ```
//! How it ended stays in the slot: whoever waits, and however often, gets the same. An exception is made anew each time,
//! for one that is kept would keep the frames it was raised in, and they this call.
//!
//! The lock of a [`Future`] is held for moments only, never while somebody waits or runs Python: so nothing but
//! `wait` waits.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use forebay::call::{Canceller, Client, Guarded, Printed, Timing, Value, standing};
use forebay::{Code, Error, Param, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::{CopyBack, copy_back, returned, wait_in_slices};
use crate::errors;
use crate::ffi::held::HeldFuture;
use crate::status::{Said, Status};
use crate::waits::{SLICE, duration, released, signals};

/// A call under way.
#[pyclass(frozen)]
pub struct Future {
    slot: Arc<Slot>,
    back: Vec<CopyBack>,
    name: String,
    /// The result that is raised if it is not 0.
    status: Option<Status>,
}

/// Where the call lies while no thread has it.
struct Slot {
    state: Mutex<FutureState>,
    /// The call lies here again.
    freed: Condvar,
    canceller: Canceller,
}

struct FutureState {
    /// None while a thread waits for it.
    call: Option<HeldFuture>,
    taken_by: Option<ThreadId>,
    /// How it ended.
    ended: Option<Result<Vec<Value>>>,
    /// What it returned, when the caller's arrays are filled.
    returned: Option<Py<PyAny>>,
    /// As it lay here last.
    complete: bool,
    timing: Timing,
    printed: Option<Printed>,
    /// A status that is not 0.
    said: Option<Said>,
}

/// A call that one thread has for itself.
struct Taken<'f> {
    slot: &'f Slot,
    call: Option<HeldFuture>,
}

impl Future {
    /// A call that was sent.
    pub fn new(
        client: &Client,
        mut call: HeldFuture,
        back: Vec<CopyBack>,
        name: &str,
        raises: bool,
    ) -> Future {
        let status = Status::of(call.signature(), Param::is_returned).filter(|_| raises);
        let canceller = call.canceller();
        let timing = call.timing().clone();
        let state = FutureState {
            call: Some(call),
            taken_by: None,
            ended: None,
            returned: None,
            complete: false,
            timing,
            printed: None,
            said: None,
        };
        let slot = Arc::new(Slot { state: Mutex::new(state), freed: Condvar::new(), canceller });
        client.guard(&slot);
        Future { slot, back, name: name.to_owned(), status }
    }

    fn slot(&self) -> MutexGuard<'_, FutureState> {
        self.slot.state()
    }

    fn try_take(&self) -> Option<Taken<'_>> {
        self.slot.try_take()
    }

    /// What waiting for it gives, if that is known: the same for everybody.
    fn outcome(&self, py: Python<'_>) -> Option<Result<Py<PyAny>>> {
        let slot = self.slot();
        match (&slot.returned, &slot.ended) {
            (Some(returned), _) => Some(Ok(returned.clone_ref(py))),
            (None, Some(Err(e))) => Some(Err(e.clone())),
            _ => None,
        }
    }

    /// The call, as soon as no other thread has it; none when the time is over.
    fn take(&self, deadline: Option<Instant>) -> Result<Option<Taken<'_>>> {
        let _wait = standing::Wait::begin();
        loop {
            if let Some(taken) = self.try_take() {
                return Ok(Some(taken));
            }
            if !self.rest(deadline) {
                return Ok(None);
            }
            signals()?;
            if let Some(objection) = standing::objection() {
                return Err(objection);
            }
        }
    }

    /// Sleeps a little, less if the call is given back; false when the time is over.
    fn rest(&self, deadline: Option<Instant>) -> bool {
        standing::leave();
        let left = deadline.map_or(SLICE, |d| d.saturating_duration_since(Instant::now()).min(SLICE));
        let slot = self.slot();
        if slot.call.is_none() {
            drop(self.slot.freed.wait_timeout(slot, left));
        }
        deadline.is_none_or(|d| Instant::now() < d)
    }

    /// Whether this very thread waits for it: a handler of a signal that came meanwhile asks.
    fn is_ours(&self) -> bool {
        self.slot().taken_by == Some(std::thread::current().id())
    }

    /// Whether it is complete; one for which another thread waits is when that has it.
    pub fn is_done(&self) -> bool {
        match self.try_take() {
            Some(mut taken) => taken.done(),
            None => self.slot().complete,
        }
    }

    /// Whether there is something to do about it; nothing while another thread waits for it.
    pub fn has_news(&self) -> bool {
        self.slot().call.as_ref().is_some_and(HeldFuture::has_news)
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, FutureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call, unless another thread has it.
    fn try_take(&self) -> Option<Taken<'_>> {
        let mut state = self.state();
        let call = state.call.take()?;
        state.taken_by = Some(std::thread::current().id());
        Some(Taken { slot: self, call: Some(call) })
    }
}

impl Guarded for Slot {
    fn tend(&self) -> bool {
        // Whoever has it sees to it.
        self.try_take().is_some_and(|mut taken| taken.tend())
    }
}

impl Deref for Taken<'_> {
    type Target = HeldFuture;

    fn deref(&self) -> &HeldFuture {
        self.call.as_ref().expect("taken until it is dropped")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut HeldFuture {
        self.call.as_mut().expect("taken until it is dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take() else { return };
        loop {
            let (complete, timing) = (!call.is_under_way(), call.timing().clone());
            let printed = call.printed().cloned();
            let mut slot = self.slot.state();
            // Whoever gives it up asks first and then looks into the slot.
            if complete || !self.slot.canceller.is_asked() {
                (slot.call, slot.taken_by, slot.complete, slot.timing) = (Some(call), None, complete, timing);
                slot.printed = printed;
                break;
            }
            drop(slot);
            call.cancel();
        }
        self.slot.freed.notify_all();
    }
}

#[pymethods]
impl Future {
    /// Waits for the results: arrays are filled, the rest is returned. Raises what the call would have
    /// raised, and ``Timeout`` after ``timeout`` seconds, when it is still under way. Any number of threads may wait,
    /// and any number of times: each gets the same.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let timeout = duration(py, timeout)?;
        if let Some(outcome) = self.outcome(py) {
            return self.give(py, outcome);
        }
        if self.is_ours() {
            let text =
                format!("this thread waits for the call of {} already; wait for it behind that", self.name);
            return Err(errors::bad(py, text));
        }
        // Nobody else fills the arrays, or returns before they are filled.
        let _taken = released(py, || self.end(timeout))?;
        self.fill(py)
    }

    /// Whether it is complete; then `wait` returns at once.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        released(py, || Ok(self.is_done()))
    }

    /// Gives it up: it is not begun any more, and waiting for it raises ``Cancelled``, also in a thread that
    /// waits for it just now. Any thread may do this, and a handler of a signal.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || {
            self.give_up();
            Ok(())
        })
    }

    /// Where its time went, in seconds: ``sending`` here, ``waiting`` and ``running`` at the server, ``total``; and
    /// ``reissued`` (how often a server was lost) and ``server``.
    #[getter]
    fn timing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timing = {
            let slot = self.slot();
            slot.call.as_ref().map_or(&slot.timing, HeldFuture::timing).clone()
        };
        let out = PyDict::new(py);
        for (name, time) in [
            ("sending", timing.sending),
            ("waiting", timing.waiting),
            ("running", timing.running),
            ("total", timing.total),
        ] {
            out.set_item(name, time.as_secs_f64())?;
        }
        out.set_item("reissued", timing.reissued)?;
        out.set_item("server", timing.server.map(|(name, pid)| format!("{name} (pid {pid})")))?;
        Ok(out)
    }

    /// The last lines that the service printed to standard output, if it has failed: 20, or 4,096 bytes. Empty where the
    /// server does not keep them.
    #[getter]
    fn stdout(&self) -> String {
        self.printed().stdout
    }

    /// The same of standard error.
    #[getter]
    fn stderr(&self) -> String {
        self.printed().stderr
    }

    /// How many other calls may have printed some of it, for the descriptors are those of the server's process; 0: all is
    /// this call's.
    #[getter]
    fn output_others(&self) -> u32 {
        self.printed().others
    }

    /// The service that was called.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
}

impl Future {
    /// Waits for it as one of a group, and fills the arrays; none when it is under way after that time, an error when the
    /// wait has ended and not the call.
    pub fn join(&self, timeout: Option<Duration>) -> Result<Option<Result<()>>> {
        if self.is_ours() {
            let text =
                format!("this thread waits for the call of {} already; end the group behind that", self.name);
            return Err(Error::bad(text));
        }
        let ended = self.end(timeout);
        let _taken = match ended {
            Ok(taken) => taken,
            Err(e) if e.code() == Code::Timeout => return Ok(None),
            Err(e) => return Err(e),
        };
        let filled = Python::try_attach(|py| {
            let filled = self.fill(py).map(drop);
            let slot = self.slot();
            filled.map_err(|e| match (&slot.ended, &slot.said) {
                (Some(Err(ended)), _) => ended.clone(),
                (_, Some(said)) => said.error().clone(),
                _ => Error::new(Code::BadArgument, errors::told(py, &e)),
            })
        });
        filled.map(Some).ok_or_else(|| Error::new(Code::Closed, "the interpreter has ended"))
    }

    /// What its service has printed, if it has failed.
    pub fn printed(&self) -> Printed {
        let slot = self.slot();
        slot.call.as_ref().map_or(slot.printed.as_ref(), HeldFuture::printed).cloned().unwrap_or_default()
    }

    /// Gives it up, whoever waits for it.
    pub fn give_up(&self) {
        self.slot.canceller.cancel();
        if let Some(mut taken) = self.try_take() {
            taken.cancel();
        }
    }

    /// Has the results of a call that has ended where they belong, once, for whoever has taken it.
    fn fill<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(outcome) = self.outcome(py) {
            return self.give(py, outcome);
        }
        let ended = self.slot().ended.clone();
        let values = match ended {
            Some(Ok(values)) => values,
            _ => return Err(errors::raise(py, &Error::internal("a call that has ended has no result"))),
        };
        copy_back(py, &self.back)?;
        let said = self.said(&values);
        let values = returned(py, values)?.unbind();
        let mut slot = self.slot();
        (slot.returned, slot.said) = (Some(values.clone_ref(py)), said);
        drop(slot);
        self.give(py, Ok(values))
    }

    /// A status that is not 0, if that is a failure.
    fn said(&self, values: &[Value]) -> Option<Said> {
        self.status.as_ref().and_then(|status| status.said(&self.name, |at| values.get(at)))
    }

    fn give<'py>(&self, py: Python<'py>, outcome: Result<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let returned = outcome.map_err(|e| errors::raise_printed(py, &e, &self.printed()))?.into_bound(py);
        let said = self.slot().said.clone();
        said.map_or(Ok(()), |said| Err(said.raise(&returned, &self.printed())))?;
        Ok(returned)
    }

    /// Waits until it has ended, and has it then.
    fn end(&self, timeout: Option<Duration>) -> Result<Taken<'_>> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let Some(mut taken) = self.take(deadline)? else {
            let text =
                format!("another thread waits for {}, which has no result yet; wait longer", self.name);
            return Err(Error::new(Code::Timeout, text));
        };
        if self.slot().ended.is_none() {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let outcome = wait_in_slices(&mut taken, left);
            if taken.is_under_way() {
                // It was not the call that ended, but this wait.
                return outcome.and(Err(Error::internal("a call under way has a result")));
            }
            if let Some(said) = outcome.as_ref().ok().and_then(|values| self.said(values)) {
                taken.note(said.error());
            }
            let mut slot = self.slot();
            (slot.ended, slot.printed) = (Some(outcome), taken.printed().cloned());
        }
        Ok(taken)
    }
}

/// What is waited for, of several calls.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    All,
    One,
}

/// Waits for all of them, up to a time; says whether all are complete.
#[pyfunction]
#[pyo3(signature = (futures, timeout))]
pub fn wait_all(py: Python<'_>, futures: Vec<Py<Future>>, timeout: Option<f64>) -> PyResult<bool> {
    let timeout = duration(py, timeout)?;
    together(py, &futures, timeout, Until::All).map(|found| found.is_some())
}

/// Waits for one of them, up to a time; its index.
#[pyfunction]
#[pyo3(signature = (futures, timeout))]
pub fn wait_any(py: Python<'_>, futures: Vec<Py<Future>>, timeout: Option<f64>) -> PyResult<Option<usize>> {
    let timeout = duration(py, timeout)?;
    together(py, &futures, timeout, Until::One)
}

/// One of them that is complete; its index.
#[pyfunction]
#[pyo3(signature = (futures))]
pub fn probe_any(py: Python<'_>, futures: Vec<Py<Future>>) -> PyResult<Option<usize>> {
    together(py, &futures, Some(Duration::ZERO), Until::One)
}

/// Waits in slices, so that signals are heard and calls for which another thread waits are looked at again.
fn together(
    py: Python<'_>,
    futures: &[Py<Future>],
    timeout: Option<Duration>,
    until: Until,
) -> PyResult<Option<usize>> {
    let all: Vec<&Future> = futures.iter().map(|f| f.get()).collect();
    for (index, future) in all.iter().enumerate() {
        if all[..index].iter().any(|other| std::ptr::eq(*other, *future)) {
            return Err(errors::bad(py, format!("the call of {} is given twice", future.name)));
        }
    }
    if all.is_empty() {
        return Ok((until == Until::All).then_some(0));
    }
    released(py, || {
        let _wait = standing::Wait::begin();
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let found = attempt(&all, until, left.map_or(SLICE, |l| l.min(SLICE)));
            if found.is_some() || left.is_some_and(|l| l <= SLICE) {
                return Ok(found);
            }
            signals()?;
        }
    })
}

/// One slice: waits for those that no other thread has, and looks at the others.
fn attempt(all: &[&Future], until: Until, slice: Duration) -> Option<usize> {
    let mut taken: Vec<(usize, Taken)> = Vec::with_capacity(all.len());
    let mut others = Vec::new();
    for (index, future) in all.iter().enumerate() {
        match future.try_take() {
            Some(call) => taken.push((index, call)),
            None => others.push(index),
        }
    }
    let complete = |index: &usize| all[*index].slot().complete;
    let mut calls: Vec<&mut HeldFuture> = taken.iter_mut().map(|(_, call)| &mut **call).collect();
    match until {
        Until::One => {
            if let Some(index) = others.iter().copied().find(|index| complete(index)) {
                return Some(index);
            }
            if !calls.is_empty() {
                let place = match slice.is_zero() {
                    true => HeldFuture::probe_any(&mut calls),
                    false => HeldFuture::wait_any(&mut calls, Some(slice)),
                };
                return place.map(|place| taken[place].0);
            }
        }
        Until::All => {
            if !HeldFuture::wait_all(&mut calls, Some(slice)) {
                return None;
            }
            if others.iter().all(complete) {
                return Some(0);
            }
        }
    }
    drop(taken);
    // Nothing but what other threads wait for.
    let other = others.into_iter().find(|index| !complete(index))?;
    all[other].rest(Some(Instant::now() + slice));
    None
}
