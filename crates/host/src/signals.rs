//! SIGTERM as a word to be looked at, while somebody looks: a batch system sends it some seconds
//! before it kills, and a loop that sees it can end in order.
//!
//! A library must not take a signal away from its program. So it is taken only where it would end
//! the process, only while somebody listens, and put back afterwards. One that comes three seconds
//! after the first ends the process at once, as it would without us; what comes sooner is the same one
//! (a launcher passes on what the whole group got already, Open MPI's after a second). In a child of `fork` it ends the child.

use crate::ffi::{self, OnTerm};
use std::ffi::c_int;
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
        ffi::set_on_term(OnTerm::End);
        if FIRST.load(Ordering::Acquire) != 0 {
            // It came in the very moment: nobody has seen it.
            ffi::raise_term();
        }
    }
}

/// Takes the signal if it would end the process, or is taken still.
fn take() -> Option<()> {
    if !ffi::is_on_term(OnTerm::End)? && !is_ours() {
        return None;
    }
    if ffi::monotonic_ms().saturating_sub(FIRST.load(Ordering::Acquire)) >= ONE_MS {
        FIRST.store(0, Ordering::Release);
    }
    TAKER.store(ffi::getpid(), Ordering::Release);
    ffi::set_on_term(OnTerm::Call(note)).then_some(())
}

fn is_ours() -> bool {
    ffi::is_on_term(OnTerm::Call(note)).unwrap_or(false)
}

/// The handler: it uses nothing but atomics and calls that a handler may make.
extern "C" fn note(_signal: c_int) {
    if ffi::getpid() == TAKER.load(Ordering::Acquire) {
        let now = ffi::monotonic_ms();
        match FIRST.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                CAME.fetch_add(1, Ordering::AcqRel);
                return;
            }
            Err(first) if now.saturating_sub(first) < ONE_MS => return,
            Err(_) => {}
        }
    }
    ffi::set_on_term(OnTerm::End);
    // It is held back until this handler returns.
    ffi::raise_term();
}
