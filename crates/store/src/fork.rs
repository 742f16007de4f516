//! `fork` while a run is being written: the child has none of the store's threads, but what they held
//! at that moment would stay held in it for ever.
//!
//! libhdf5 has one lock for the whole process. Who forks takes it first and gives it back on both
//! sides, so the child finds the library between two calls and may open runs of its own. (SQLite is
//! built without the statistics for which it would lock on every allocation; what it still
//! locks, it holds for a microsecond while a file is opened.)

use forebay_arena::process::at_fork;
use std::any::Any;
use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

/// A call into libhdf5 takes milliseconds; on a disk that hangs it may take for ever, and forking shall not.
const PATIENCE: Duration = Duration::from_secs(2);

thread_local! {
    static HELD: Cell<Option<Box<dyn Any>>> = const { Cell::new(None) };
}

extern "C" fn hold() {
    let lock = hdf5_metno_sys::LOCK.try_lock_for(PATIENCE);
    let _ = HELD.try_with(|held| held.set(lock.map(|l| Box::new(l) as Box<dyn Any>)));
}

extern "C" fn release() {
    let _ = HELD.try_with(Cell::take);
}

/// To be called before the first thread of an owner starts.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| at_fork(hold, release));
}
