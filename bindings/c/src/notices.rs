//! Functions of the program that are told the ends of calls.
//!
//! ```text
//! fb_notify -> Notice -> the client's watching thread -- the call is complete --> done(future, user), once
//!                             ^ fb_future_free withdraws it, and waits for it where it runs just now
//! ```

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use forebay::call::Watched;
use forebay::{Error, Result};

use crate::fault::{fb_status, status};
use crate::futures::FutureObject;
use crate::handle;
use crate::kinds::fb_future;

/// Hears of the end of a call: `future` is complete, fb_wait for it returns at once.
pub type fb_done_fn = Option<extern "C" fn(future: *mut fb_future, user: *mut c_void)>;

/// Who is told the end of one call.
#[derive(Default)]
pub struct Notices {
    /// There is, or was, somebody.
    any: AtomicBool,
    state: Mutex<Told>,
    /// Nobody is being told any more.
    over: Condvar,
}

#[derive(Default)]
struct Told {
    /// Nobody is to be told any more.
    withdrawn: bool,
    /// The process and thread in which somebody is being told.
    here: Option<(u32, ThreadId)>,
}

fn own() -> (u32, ThreadId) {
    (std::process::id(), std::thread::current().id())
}

impl Notices {
    fn state(&self) -> MutexGuard<'_, Told> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is, or was, somebody.
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Has nobody told any more, and waits for who is being told in another thread of this process.
    pub fn withdraw(&self) {
        if !self.is_any() {
            return;
        }
        let (pid, thread) = own();
        let mut told = self.state();
        told.withdrawn = true;
        while told.here.is_some_and(|here| here.0 == pid && here.1 != thread) {
            told = self.over.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether somebody is to be told; then this thread does it.
    fn begin(&self) -> bool {
        let mut told = self.state();
        if !told.withdrawn {
            told.here = Some(own());
        }
        !told.withdrawn
    }

    fn end(&self) {
        self.state().here = None;
        self.over.notify_all();
    }
}

thread_local! {
    /// This thread tells the end of a call.
    static TELLS: Cell<bool> = const { Cell::new(false) };
    /// What the function that is told said by fb_fail.
    static SAID: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Refuses what would have the thread that tells wait for itself.
pub fn none_here(what: &str) -> Result<()> {
    match TELLS.get() {
        false => Ok(()),
        true => Err(Error::bad(format!(
            "{what} is not possible in a function that is told the end of a call; do it in another thread"
        ))),
    }
}

/// A function of the program has failed.
pub fn say(failure: &Error) {
    if TELLS.get() {
        SAID.replace(Some(failure.clone()));
    }
}

/// A call, and the function that wants to hear of its end.
struct Notice {
    call: Arc<FutureObject>,
    /// The number of its handle.
    handle: usize,
    done: extern "C" fn(*mut fb_future, *mut c_void),
    user: *mut c_void,
}

// SAFETY: `user` is the program's, which said that its function may be called with it in another thread.
unsafe impl Send for Notice {}

impl Watched for Notice {
    fn has_news(&mut self) -> bool {
        self.call.has_news()
    }

    fn advance(&mut self) -> bool {
        if !self.call.done() {
            return false;
        }
        if !self.call.notices.begin() {
            return true;
        }
        SAID.take();
        TELLS.set(true);
        (self.done)(ptr::without_provenance_mut(self.handle), self.user);
        TELLS.set(false);
        if let Some(failure) = SAID.take() {
            self.call.note(&failure);
        }
        self.call.notices.end();
        true
    }
}

/// Has `done` called with the call and `user` when it is complete: once, on a thread of the client, also when it was
/// cancelled or its server is lost. `user` may be NULL.
///
/// In it fb_wait for the call returns at once, as does fb_wait_all, and new calls may be made. A call that is waited for
/// there keeps others from being told meanwhile. A call that is complete already is told soon, never before this
/// returns. fb_disconnect is refused there; fb_future_free is not.
#[unsafe(no_mangle)]
pub extern "C" fn fb_notify(future: *mut fb_future, done: fb_done_fn, user: *mut c_void) -> fb_status {
    status(|| {
        let object = handle::get(future)?;
        let done = done.ok_or_else(|| Error::bad("done is NULL; give the function that is to be told"))?;
        object.notices.any.store(true, Ordering::SeqCst);
        object.client.watch(Box::new(Notice { call: (*object).clone(), handle: future.addr(), done, user }))
    })
}
