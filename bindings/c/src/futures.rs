//! Calls under way.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, TryLockError};

use forebay::call::{Future, Timing, cancel_all, probe_any, wait_all, wait_any};
use forebay::{Code, Error, Result};

use crate::args::Back;
use crate::data::{NAME, letters};
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle::{self, Held};
use crate::kinds::fb_future;
use crate::run::busy;

/// What is behind an `fb_future`.
pub struct FutureObject {
    state: Mutex<State>,
}

struct State {
    // Before `back`: what borrows the copies in it goes first.
    future: Future<'static>,
    back: Back,
    outcome: Option<Result<()>>,
}

impl FutureObject {
    /// A call that was sent.
    pub fn new(future: Future<'static>, back: Back) -> FutureObject {
        FutureObject { state: Mutex::new(State { future, back, outcome: None }) }
    }

    /// Its state; one thread at a time waits for a call.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy("the call")),
        }
    }
}

impl State {
    fn wait(&mut self, timeout: Option<std::time::Duration>) -> Result<()> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = match self.future.wait(timeout) {
            Err(e) if e.code() == Code::Timeout && !self.future.done() => return Err(e),
            Err(e) => Err(e),
            Ok(values) => self.back.fill(&values),
        };
        self.outcome = Some(outcome.clone());
        outcome
    }
}

/// Waits for a call; FB_TIMEOUT after `timeout` seconds (FB_FOREVER: no limit; 0: looks only), when it is
/// still under way and may be waited for again. Results are written when it returns FB_OK. Waiting
/// again for a call that is complete returns the same.
#[unsafe(no_mangle)]
pub extern "C" fn fb_wait(future: *mut fb_future, timeout: f64) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let timeout = given::timeout(timeout)?;
        object.state()?.wait(timeout)
    })
}

fn held(futures: *const *mut fb_future, count: c_int) -> Result<Vec<Held<FutureObject>>> {
    let futures = given::slice(futures, count.into(), "futures")?;
    if (1..futures.len()).any(|at| futures[..at].contains(&futures[at])) {
        return Err(Error::bad("a call stands among the futures twice; give each once"));
    }
    futures.iter().map(|future| handle::get(future.cast_const())).collect()
}

/// Waits for all of `count` calls. FB_TIMEOUT when not all are complete in time; else the status of the
/// first that failed, or FB_OK.
#[unsafe(no_mangle)]
pub extern "C" fn fb_wait_all(futures: *const *mut fb_future, count: c_int, timeout: f64) -> fb_status {
    status(|| {
        let held = held(futures, count)?;
        let timeout = given::timeout(timeout)?;
        let mut states = held.iter().map(|f| f.state()).collect::<Result<Vec<_>>>()?;
        let mut inner: Vec<&mut Future> = states.iter_mut().map(|s| &mut s.future).collect();
        if !wait_all(&mut inner, timeout) {
            return Err(Error::new(
                Code::Timeout,
                format!("not all of {count} calls are complete; wait longer, or cancel them"),
            ));
        }
        let outcomes: Vec<Result<()>> = states.iter_mut().map(|s| s.wait(None)).collect();
        outcomes.into_iter().collect()
    })
}

/// Waits for one of `count` calls to be complete; `index` gets which. Its outcome is what fb_wait says.
#[unsafe(no_mangle)]
pub extern "C" fn fb_wait_any(
    futures: *const *mut fb_future,
    count: c_int,
    timeout: f64,
    index: *mut c_int,
) -> fb_status {
    status(|| {
        let held = held(futures, count)?;
        let out = given::out(index, "index")?;
        let timeout = given::timeout(timeout)?;
        if held.is_empty() {
            return Err(Error::bad("there is no call to wait for"));
        }
        let mut states = held.iter().map(|f| f.state()).collect::<Result<Vec<_>>>()?;
        let mut inner: Vec<&mut Future> = states.iter_mut().map(|s| &mut s.future).collect();
        let found = wait_any(&mut inner, timeout);
        let found = found.ok_or_else(|| {
            Error::new(
                Code::Timeout,
                format!("none of {count} calls is complete; wait longer, or cancel them"),
            )
        })?;
        out.set(found as c_int);
        Ok(())
    })
}

/// Whether a call is complete (1 or 0), without waiting. fb_wait then writes its results.
#[unsafe(no_mangle)]
pub extern "C" fn fb_probe(future: *mut fb_future, done: *mut c_int) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let out = given::out(done, "done")?;
        out.set(object.state()?.future.done().into());
        Ok(())
    })
}

/// Gives a call up: it is not begun any more, and a running service may notice. Waiting for it gives
/// FB_CANCELLED, unless it was complete before.
#[unsafe(no_mangle)]
pub extern "C" fn fb_cancel(future: *mut fb_future) -> fb_status {
    status(|| {
        handle::get(future)?.state()?.future.cancel();
        Ok(())
    })
}

/// Which of `count` calls is complete, without waiting: `index` gets the first one, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn fb_probe_any(futures: *const *mut fb_future, count: c_int, index: *mut c_int) -> fb_status {
    status(|| {
        let held = held(futures, count)?;
        let out = given::out(index, "index")?;
        let mut states = held.iter().map(|f| f.state()).collect::<Result<Vec<_>>>()?;
        let mut inner: Vec<&mut Future> = states.iter_mut().map(|s| &mut s.future).collect();
        out.set(probe_any(&mut inner).map_or(-1, |at| at as c_int));
        Ok(())
    })
}

/// Gives `count` calls up, as fb_cancel does with one.
#[unsafe(no_mangle)]
pub extern "C" fn fb_cancel_all(futures: *const *mut fb_future, count: c_int) -> fb_status {
    status(|| {
        let held = held(futures, count)?;
        let mut states = held.iter().map(|f| f.state()).collect::<Result<Vec<_>>>()?;
        let mut inner: Vec<&mut Future> = states.iter_mut().map(|s| &mut s.future).collect();
        cancel_all(&mut inner);
        Ok(())
    })
}

/// Where the time of a call went.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_timing {
    /// sizeof(fb_timing), set before the call.
    pub size: usize,
    /// Seconds of checking, copying and sending, here.
    pub sending: f64,
    /// Seconds of waiting at the server before it began.
    pub waiting: f64,
    /// Seconds of running at the server.
    pub running: f64,
    /// Seconds from the call to its results.
    pub total: f64,
    /// How often it was issued again because a server was lost.
    pub reissued: u32,
    /// Pid of the server that answered; 0 before.
    pub server_pid: u32,
    /// Name of the server that answered.
    pub server: [c_char; NAME],
}

// SAFETY: numbers and letters, the size first.
unsafe impl Sized0 for fb_timing {}

/// Where the time of a call went; whole when it is complete.
#[unsafe(no_mangle)]
pub extern "C" fn fb_call_timing(future: *mut fb_future, timing: *mut fb_timing) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let state = object.state()?;
        let Timing { sending, waiting, running, total, reissued, server } = state.future.timing();
        let found = fb_timing {
            size: size_of::<fb_timing>(),
            sending: sending.as_secs_f64(),
            waiting: waiting.as_secs_f64(),
            running: running.as_secs_f64(),
            total: total.as_secs_f64(),
            reissued: *reissued,
            server_pid: server.as_ref().map_or(0, |(_, pid)| *pid),
            server: letters(server.as_ref().map_or("", |(name, _)| name)),
        };
        given::fill(timing, found, "fb_timing")
    })
}

/// Frees a call; one that is not complete is cancelled. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_future_free(future: *mut fb_future) -> fb_status {
    status(|| handle::free(future))
}
