//! Runs that a program leaves open when it returns from `main` or says `exit`: it hears at its end that they are not
//! closed, and where what it put is. They are not closed here: `exit` may be said in a handler of a signal, by a thread
//! that has the run in its hands.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};

use forebay::Run;

/// The process that opened a run, and its directory, by the number of its owner.
static OPEN: Mutex<BTreeMap<u64, (u32, String)>> = Mutex::new(BTreeMap::new());
static AT_EXIT: Once = Once::new();

/// A run that can be written is open from now on.
pub fn opened(owner: u64, run: &Run) {
    if run.read_only() {
        return;
    }
    AT_EXIT.call_once(|| {
        // SAFETY: the handler takes nothing, lets no panic through and is there as long as this library is. That it
        // could not be registered costs a line at the end of the program.
        unsafe { libc::atexit(tell) };
    });
    let entry = (std::process::id(), run.path().display().to_string());
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(owner, entry);
}

/// It is closed.
pub fn closed(owner: u64) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&owner);
}

extern "C" fn tell() {
    // Whoever says `exit` in a handler may have interrupted one of those above.
    let Ok(open) = OPEN.try_lock() else { return };
    let own = std::process::id();
    for (_, path) in open.values().filter(|(pid, _)| *pid == own) {
        let _ = writeln!(
            std::io::stderr(),
            "forebay: the program ends and has not closed {path} (fb_run_close): what it put and is not on disk is in memory; its owner writes it, or the next opening of the run, or `forebay recover {path}`"
        );
    }
}
