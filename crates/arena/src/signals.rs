//! SIGTERM as a word to be looked at, while somebody looks: a batch system sends it some seconds
//! before it kills, and a loop that sees it can end in order.
//!
//! A library must not take a signal away from its program. So it is taken only where it would end
//! the process, only while somebody listens, and put back afterwards. One that comes three seconds
//! after the first ends the process at once, as it would without us; what comes sooner is the same one
//! (a launcher passes on what the whole group got already, Open MPI's after a second). In a child of `fork` it ends the child.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Signals within this many milliseconds are one.
const ONE_MS: u64 = 3000;

/// How many have come, ever.
static CAME: AtomicU64 = AtomicU64::new(0);
/// When the first one came since the signal was taken, in milliseconds of the monotonic clock; 0 for none.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// The process that took it.
static TAKER: AtomicI32 = AtomicI32::new(0);
static LISTENERS: Mutex<usize> = Mutex::new(0);

fn listeners() -> MutexGuard<'static, usize> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, SIGTERM is noted instead of ending the process.
#[derive(Debug)]
pub struct Terminations {
    /// How many had come before.
    before: u64,
}

impl Terminations {
    /// Begins to listen; `None` when the program handles or ignores the signal itself.
    pub fn listen() -> Option<Terminations> {
        let mut count = listeners();
        if *count == 0 {
            take()?;
        }
        *count += 1;
        Some(Terminations { before: CAME.load(Ordering::Acquire) })
    }

    /// Whether one has come since. One load.
    #[inline]
    pub fn came(&self) -> bool {
        CAME.load(Ordering::Acquire) != self.before
    }
}

impl Drop for Terminations {
    fn drop(&mut self) {
        let mut count = listeners();
        *count -= 1;
        // After one has come the handler stays: what still belongs to that one must not end the
        // process while it ends in order. The next one does.
        if *count > 0 || FIRST.load(Ordering::Acquire) != 0 || !is_ours() {
            return;
        }
        set(libc::SIG_DFL);
        if FIRST.load(Ordering::Acquire) != 0 {
            // It came in the very moment: nobody has seen it.
            // SAFETY: sends a signal to this thread.
            unsafe { libc::raise(libc::SIGTERM) };
        }
    }
}

/// Takes the signal if it would end the process, or is taken still.
fn take() -> Option<()> {
    let now = disposition()?;
    if now.sa_sigaction != libc::SIG_DFL && !is_ours() {
        return None;
    }
    if now_ms().saturating_sub(FIRST.load(Ordering::Acquire)) >= ONE_MS {
        FIRST.store(0, Ordering::Release);
    }
    // SAFETY: asks for a number.
    TAKER.store(unsafe { libc::getpid() }, Ordering::Release);
    set(handler()).then_some(())
}

fn handler() -> libc::sighandler_t {
    note as extern "C" fn(c_int) as *const () as libc::sighandler_t
}

fn is_ours() -> bool {
    disposition().is_some_and(|now| now.sa_sigaction == handler())
}

/// What is set for the signal.
fn disposition() -> Option<libc::sigaction> {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only, into memory of the right type; all zero is a value of it.
    unsafe { (libc::sigaction(libc::SIGTERM, ptr::null(), now.as_mut_ptr()) == 0).then(|| now.assume_init()) }
}

/// Sets it; fit for use in a handler.
fn set(to: libc::sighandler_t) -> bool {
    // SAFETY: all zero is a value of the type: no flags, no signals held back.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = to;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the default, or our handler, which uses nothing but atomics and calls that a handler may make.
    unsafe { libc::sigaction(libc::SIGTERM, &action, ptr::null_mut()) == 0 }
}

fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into memory of the right type; a handler may call it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

extern "C" fn note(_signal: c_int) {
    // SAFETY: asks for a number; a handler may.
    let here = unsafe { libc::getpid() };
    if here == TAKER.load(Ordering::Acquire) {
        let now = now_ms();
        match FIRST.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                CAME.fetch_add(1, Ordering::AcqRel);
                return;
            }
            Err(first) if now.saturating_sub(first) < ONE_MS => return,
            Err(_) => {}
        }
    }
    set(libc::SIG_DFL);
    // SAFETY: sends a signal to this thread; it is held back until this handler returns.
    unsafe { libc::raise(libc::SIGTERM) };
}
