//! Calls under way.

use std::ffi::{c_char, c_int};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use forebay::call::{Client, Future, Guarded, Joined, Timing, standing, wait_all, wait_any};
use forebay::{Code, Error, Result};

use crate::args::ResultPlaces;
use crate::data::{NAME, letters};
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle::{self, InUse};
use crate::kinds::fb_future;
use crate::notices::Notices;
use crate::printed;
use crate::run::busy;

/// A thread that waits for a call looks so often whether another one gave the call up.
const LOOK: Duration = Duration::from_millis(50);

/// What is behind an `fb_future`.
pub struct FutureObject {
    state: Mutex<State>,
    /// A thread waits for it, and has the state meanwhile; who only looks has it for a moment.
    waited: AtomicBool,
    /// To be given up by whoever has the state just now.
    given_up: AtomicBool,
    /// Somebody has seen that it is complete.
    complete: AtomicBool,
    /// Who calls.
    pub client: Client,
    /// Who is told of its end.
    pub notices: Notices,
    /// It is a call of a group, which waits for it although its handle is freed.
    of_group: bool,
}

struct State {
    // Before `back`: what borrows the copies in it goes first.
    future: Future<'static>,
    back: ResultPlaces,
    outcome: Option<Result<()>>,
}

/// The state of a call, for one thread.
struct Claimed<'a> {
    object: &'a FutureObject,
    state: Option<MutexGuard<'a, State>>,
    waits: bool,
}

impl FutureObject {
    /// A call that was sent.
    fn new(future: Future<'static>, back: ResultPlaces, of_group: bool) -> FutureObject {
        let [waited, given_up, complete] = [const { AtomicBool::new(false) }; 3];
        let (client, notices) = (future.client(), Notices::default());
        let state = Mutex::new(State { future, back, outcome: None });
        FutureObject { state, waited, given_up, complete, client, notices, of_group }
    }

    /// A call that was sent, and is issued again also while nobody waits for it.
    pub fn guarded(future: Future<'static>, back: ResultPlaces, of_group: bool) -> Arc<FutureObject> {
        let object = Arc::new(FutureObject::new(future, back, of_group));
        object.client.guard(&object);
        object
    }

    /// Its state, to wait for it or for a moment only: one thread at a time waits for a call that is not complete.
    fn take(&self, waits: bool) -> Result<Claimed<'_>> {
        while waits && self.waited.swap(true, Ordering::SeqCst) {
            if !self.complete.load(Ordering::SeqCst) {
                return Err(busy("the call"));
            }
            std::thread::yield_now();
        }
        loop {
            let state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock)
                    if !waits
                        && self.waited.load(Ordering::SeqCst)
                        && !self.complete.load(Ordering::SeqCst) =>
                {
                    return Err(busy("the call"));
                }
                Err(TryLockError::WouldBlock) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            return Ok(Claimed { object: self, state: Some(state), waits });
        }
    }

    /// Gives it up; whoever has it just now does that in a moment.
    fn cancel(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        self.settle();
        // Who issues it again just now reads the caller's arrays.
        drop(self.take(false));
    }

    /// Gives it up if that was said, unless somebody has it who does the same behind.
    fn settle(&self) {
        while self.given_up.load(Ordering::SeqCst) {
            match self.state.try_lock() {
                Ok(mut state) => self.heed(&mut state),
                Err(TryLockError::Poisoned(poisoned)) => self.heed(&mut poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => return,
            }
        }
    }

    /// Does what was said by [`FutureObject::cancel`] meanwhile.
    fn heed(&self, state: &mut State) {
        if self.given_up.swap(false, Ordering::SeqCst) {
            state.future.cancel();
            self.rouse();
        }
    }

    /// Waits until it is complete, and keeps what has become of it; none when it is not in time.
    fn wait(&self, timeout: Option<Duration>) -> Result<Option<Result<()>>> {
        let mut state = self.take(true)?;
        let outcome = in_slices(timeout, |slice| {
            self.heed(&mut state);
            let _ = state.look(slice);
            state.outcome.clone()
        });
        self.complete.fetch_or(outcome.is_some(), Ordering::SeqCst);
        Ok(outcome)
    }

    /// Who is to be told of its end looks at it: it is complete, and lies where it is found.
    fn rouse(&self) {
        if self.notices.is_any() {
            self.client.rouse();
        }
    }

    /// Whether there is something to do about it; nothing while another thread has it.
    pub fn has_news(&self) -> bool {
        match self.state.try_lock() {
            Ok(state) => state.future.has_news(),
            Err(TryLockError::Poisoned(_)) => true,
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Keeps among the calls that have failed what went wrong with it.
    pub fn note(&self, why: &Error) {
        if let Ok(state) = self.take(false) {
            state.future.note(why);
        }
    }

    /// Whether it is complete; one that another thread waits for just now is under way.
    pub fn done(&self) -> bool {
        if let Ok(mut state) = self.take(false) {
            self.complete.fetch_or(state.future.done(), Ordering::SeqCst);
        }
        self.complete.load(Ordering::SeqCst)
    }
}

impl Guarded for FutureObject {
    fn tend(&self) -> bool {
        match self.state.try_lock() {
            Ok(state) => Claimed { object: self, state: Some(state), waits: false }.future.tend(),
            // Whoever has it sees to it.
            Err(_) => false,
        }
    }
}

impl Joined for FutureObject {
    fn join(&self, timeout: Option<Duration>) -> Result<Option<Result<()>>> {
        self.wait(timeout)
    }

    fn cancel(&self) {
        FutureObject::cancel(self);
    }
}

impl Deref for Claimed<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Claimed<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let is_over = self.state.take().is_some_and(|state| !state.future.is_under_way());
        if is_over {
            self.object.rouse();
        }
        if self.waits {
            self.object.waited.store(false, Ordering::SeqCst);
        }
        self.object.settle();
    }
}

/// Looks in slices of time until it finds something or the time is over.
fn in_slices<T>(timeout: Option<Duration>, mut look: impl FnMut(Option<Duration>) -> Option<T>) -> Option<T> {
    // One wait, although it is made of slices.
    let _wait = standing::Wait::begin();
    let end = timeout.and_then(|t| Instant::now().checked_add(t));
    loop {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        let found = look(Some(left.min(LOOK)));
        if found.is_some() || left <= LOOK {
            return found;
        }
    }
}

impl State {
    /// Waits so long, and keeps the outcome when there is one.
    fn look(&mut self, timeout: Option<Duration>) -> Result<()> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = match self.future.wait(timeout) {
            // Not what the call has ended with, although it may have ended since.
            Err(e) if e.code() == Code::Timeout && self.future.is_under_way() => return Err(e),
            Err(e) => Err(e),
            Ok(values) => self.back.fill(values),
        };
        self.outcome = Some(outcome.clone());
        outcome
    }
}

/// Waits for a call; FB_TIMEOUT after `timeout` seconds (FB_FOREVER: no limit; 0: looks only), when it is
/// still under way and may be waited for again. Results are written when it returns FB_OK. Waiting
/// again for a call that is complete returns the same, in any thread. One thread at a time waits for a call:
/// another one gets FB_CONFLICT meanwhile, and may look at the call with fb_probe and give it up with fb_cancel.
#[unsafe(no_mangle)]
pub extern "C" fn fb_wait(future: *mut fb_future, timeout: f64) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let timeout = given::timeout(timeout)?;
        match object.wait(timeout)? {
            Some(outcome) => outcome,
            None => object.take(true)?.look(Some(Duration::ZERO)),
        }
    })
}

type Held = InUse<Arc<FutureObject>>;

fn held(futures: *const *mut fb_future, count: c_int) -> Result<Vec<Held>> {
    let futures = given::slice(futures, count.into(), "futures")?;
    if (1..futures.len()).any(|at| futures[..at].contains(&futures[at])) {
        return Err(Error::bad("a call stands among the futures twice; give each once"));
    }
    futures.iter().map(|future| handle::get(future.cast_const())).collect()
}

fn heed(held: &[Held], states: &mut [Claimed<'_>]) {
    held.iter().zip(states).for_each(|(future, state)| future.heed(state));
}

fn inner<'s>(states: &'s mut [Claimed<'_>]) -> Vec<&'s mut Future<'static>> {
    states.iter_mut().map(|s| &mut s.future).collect()
}

/// Waits for all of `count` calls. FB_TIMEOUT when not all are complete in time; else the status of the
/// first that failed, or FB_OK.
#[unsafe(no_mangle)]
pub extern "C" fn fb_wait_all(futures: *const *mut fb_future, count: c_int, timeout: f64) -> fb_status {
    status(|| {
        let held = held(futures, count)?;
        let timeout = given::timeout(timeout)?;
        let mut states = held.iter().map(|f| f.take(true)).collect::<Result<Vec<_>>>()?;
        let all = in_slices(timeout, |slice| {
            heed(&held, &mut states);
            wait_all(&mut inner(&mut states), slice).then_some(())
        });
        if all.is_none() {
            return Err(Error::new(
                Code::Timeout,
                format!("not all of {count} calls are complete; wait longer, or cancel them"),
            ));
        }
        let outcomes: Vec<Result<()>> = states.iter_mut().map(|s| s.look(None)).collect();
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
        let mut states = held.iter().map(|f| f.take(true)).collect::<Result<Vec<_>>>()?;
        let found = in_slices(timeout, |slice| {
            heed(&held, &mut states);
            wait_any(&mut inner(&mut states), slice)
        });
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

/// Whether a call is complete (1 or 0), without waiting, in any thread. fb_wait then writes its results.
#[unsafe(no_mangle)]
pub extern "C" fn fb_probe(future: *mut fb_future, done: *mut c_int) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let out = given::out(done, "done")?;
        out.set(object.done().into());
        Ok(())
    })
}

/// Gives a call up: it is not begun any more, and a running service may notice. Waiting for it gives
/// FB_CANCELLED, unless it was complete before; a thread that waits just now is told soon.
#[unsafe(no_mangle)]
pub extern "C" fn fb_cancel(future: *mut fb_future) -> fb_status {
    status(|| {
        handle::get(future)?.cancel();
        Ok(())
    })
}

/// Which of `count` calls is complete, without waiting: `index` gets the first one, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn fb_probe_any(futures: *const *mut fb_future, count: c_int, index: *mut c_int) -> fb_status {
    status(|| {
        let held = held(futures, count)?;
        let out = given::out(index, "index")?;
        out.set(held.iter().position(|f| f.done()).map_or(-1, |at| at as c_int));
        Ok(())
    })
}

/// Gives `count` calls up, as fb_cancel does with one.
#[unsafe(no_mangle)]
pub extern "C" fn fb_cancel_all(futures: *const *mut fb_future, count: c_int) -> fb_status {
    status(|| {
        held(futures, count)?.iter().for_each(|future| future.cancel());
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
        let state = object.take(false)?;
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

/// What the service of a call that has failed, or whose status is not 0, printed to `stream`, FB_STDOUT or FB_STDERR: the
/// last 20 lines, of 4,096 bytes at most. `words` gets them, or an empty text; free it with fb_free.
///
/// Servers in Python bring them, those of `forebay serve --idl`, and those made with `output` in fb_server_opts. What is
/// printed belongs to the server's process: `others` gets how many other calls may have printed some of it, 0 if all is
/// this call's. `others` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_call_output(
    future: *mut fb_future,
    stream: c_int,
    words: *mut *mut c_char,
    others: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let printed = object.take(false)?.future.printed().cloned();
        printed::give(printed.as_ref(), stream, words, others)
    })
}

/// Frees a call; one that is not complete is cancelled, but for one of a group, which is the group's. A function that is
/// told of its end just now is waited for, unless it is its own thread that frees; none is told any more. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_future_free(future: *mut fb_future) -> fb_status {
    status(|| {
        if future.is_null() {
            return Ok(());
        }
        let object = handle::get(future)?;
        object.notices.withdraw();
        if !object.of_group {
            object.cancel();
        }
        handle::free(future)
    })
}
