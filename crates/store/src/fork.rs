//! `fork` while a run is being written: the child has none of the store's threads, but what they held
//! at that moment would stay held in it for ever.
//!
//! libhdf5 has one lock for the whole process, and its waiters stand in a list: a child that inherits
//! the list hands the lock to a thread that it does not have. So the store goes to the library through
//! a gate of its own, which nobody stands behind but those whom the kernel wakes. Who forks takes the
//! gate first and gives it back on both sides: the child finds the library between two calls, its lock
//! free and without waiters, and may open runs of its own. (SQLite is built without the statistics for
//! which it would lock on every allocation; what it still locks, it holds for a microsecond while a
//! file is opened.)

use forebay_host::fork::at_fork;
use forebay_types::{Code, Error, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::time::{Duration, Instant};

/// A call into libhdf5 takes milliseconds; on a disk that hangs it may take for ever, and forking shall not.
const PATIENCE: Duration = Duration::from_secs(2);
/// Who forks looks this often whether the call has ended.
const PAUSE: Duration = Duration::from_micros(50);

static GATE: Mutex<()> = Mutex::new(());
/// Set in a child that was forked in the middle of a call.
static SHUT: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HELD: Cell<Option<MutexGuard<'static, ()>>> = const { Cell::new(None) };
}

/// Admits the caller to libhdf5 for as long as it keeps what this returns; never twice at a time on one
/// thread. Refused in a child that was forked while the library was at work and did not end in time.
pub(crate) fn library() -> Result<MutexGuard<'static, ()>> {
    match SHUT.load(Ordering::Relaxed) {
        true => Err(Error::new(
            Code::Io,
            "this process was forked while a file of the run hung on its disk, so it cannot write files of \
             its own; open runs before the fork only, or start the program anew instead",
        )),
        false => Ok(GATE.lock().unwrap_or_else(|e| e.into_inner())),
    }
}

extern "C" fn hold() {
    let deadline = Instant::now() + PATIENCE;
    let gate = loop {
        match GATE.try_lock() {
            Ok(gate) => break Some(gate),
            Err(TryLockError::Poisoned(e)) => break Some(e.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => break None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    };
    let _ = HELD.try_with(|held| held.set(gate));
}

extern "C" fn release() {
    let _ = HELD.try_with(Cell::take);
}

extern "C" fn release_in_child() {
    let held = HELD.try_with(Cell::take).ok().flatten();
    SHUT.store(held.is_none(), Ordering::Relaxed);
}

/// To be called before the first thread of an owner starts.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| at_fork(hold, release, release_in_child));
}
