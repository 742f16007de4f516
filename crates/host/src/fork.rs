//! What changes in the child of a fork.

use crate::ffi;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of this process, by a system call the first time only. It is kept in a page that
/// the kernel clears in the child of a fork.
#[inline]
pub fn own_pid() -> u32 {
    static KEPT: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(kept) = KEPT.get_or_init(ffi::wiped_on_fork) else { return std::process::id() };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let pid = std::process::id();
            kept.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

/// Ends this process, the child of a fork, with a status. The streams of the C library are flushed; no handler of the
/// parent's program is called.
pub fn end_child(status: i32) -> ! {
    ffi::end_child(status)
}

/// Has `before` called on the thread that forks, just before it does, and just after `parent` on that
/// thread and `child` in the child. What other threads may hold at that moment (a lock of a foreign
/// library) is so held by none, and the child, which has no other threads, finds it free.
pub fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    ffi::at_fork(before, parent, child);
}
