//! SIGTERM and SIGINT while a server serves: they become a readable event, so that the server can end
//! in order (`forebay::serve::Host`). Signals that the program handles or ignores stay with it.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};

const SIGNALS: [c_int; 2] = [libc::SIGTERM, libc::SIGINT];

/// The event of the signals, for the handler; -1 while nobody listens.
static EVENT: AtomicI32 = AtomicI32::new(-1);
static LISTENING: Mutex<Listening> = Mutex::new(Listening { count: 0, event: None, before: Vec::new() });

struct Listening {
    count: usize,
    /// Made once and kept: a handler may just be using it.
    event: Option<OwnedFd>,
    /// What was set before, for each signal taken.
    before: Vec<(c_int, libc::sigaction)>,
}

fn listening() -> MutexGuard<'static, Listening> {
    LISTENING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new_event() -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|e| Error::io("cannot make an event to wait for", e))
}

/// While it lives, SIGTERM and SIGINT are events instead of the end of the program.
pub struct SignalGuard(());

extern "C" fn note(_signal: c_int) {
    let event = EVENT.load(Ordering::Acquire);
    if event >= 0 {
        // SAFETY: once made, the event is never closed. The call is one system call that does not
        // touch errno, as a handler needs it.
        let event = unsafe { BorrowedFd::borrow_raw(event) };
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

impl SignalGuard {
    /// Takes the signals that would end the program.
    pub fn take() -> Result<SignalGuard> {
        let mut listening = listening();
        if listening.count == 0 {
            if listening.event.is_none() {
                listening.event = Some(new_event()?);
            }
            let event = listening.event.as_ref().map_or(-1, std::os::fd::AsRawFd::as_raw_fd);
            EVENT.store(event, Ordering::Release);
            let before = SIGNALS.iter().filter_map(|signal| Some((*signal, take(*signal)?))).collect();
            listening.before = before;
        }
        listening.count += 1;
        Ok(SignalGuard(()))
    }

    /// Readable when one of them has come.
    pub fn event(&self) -> BorrowedFd<'static> {
        // SAFETY: once made, the event is never closed.
        unsafe { BorrowedFd::borrow_raw(EVENT.load(Ordering::Acquire)) }
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        let mut listening = listening();
        listening.count -= 1;
        if listening.count > 0 {
            return;
        }
        for (signal, before) in listening.before.drain(..) {
            if now(signal).is_some_and(|now| now.sa_sigaction == note as *const () as usize) {
                // SAFETY: what is put back is what the system gave for this signal.
                unsafe { libc::sigaction(signal, &before, ptr::null_mut()) };
            }
        }
        EVENT.store(-1, Ordering::Release);
        if let Some(event) = &listening.event {
            // What came was for those that listened until now.
            let _ = rustix::io::read(event.as_fd(), &mut [0u8; 8]);
        }
    }
}

/// What is set for a signal.
fn now(signal: c_int) -> Option<libc::sigaction> {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only, into memory of the right type; all zero is a value of it.
    unsafe { (libc::sigaction(signal, ptr::null(), now.as_mut_ptr()) == 0).then(|| now.assume_init()) }
}

/// Takes a signal, if nobody else has a word for it; what was set before.
fn take(signal: c_int) -> Option<libc::sigaction> {
    let before = now(signal)?;
    if before.sa_sigaction != libc::SIG_DFL {
        return None;
    }
    let mut ours = before;
    ours.sa_sigaction = note as *const () as usize;
    ours.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing but one system call and keeps errno.
    (unsafe { libc::sigaction(signal, &ours, ptr::null_mut()) } == 0).then_some(before)
}
