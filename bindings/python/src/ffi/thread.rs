//! Threads of ours that call Python again and again.

use std::cell::Cell;

use pyo3::prelude::*;

thread_local! {
    static KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Lets the interpreter keep what it knows of this thread from one attachment to the next. It
/// would otherwise be made and destroyed around every call of a service, which costs several
/// microseconds and makes NumPy look up its settings anew. The interpreter frees it at its end.
pub fn keep_known(_attached: Python<'_>) {
    if KNOWN.replace(true) {
        return;
    }
    // SAFETY: the thread is attached, as the token says. Ensuring once more without a release only
    // keeps the count of attachments from reaching zero, where the state would be destroyed.
    unsafe {
        pyo3::ffi::PyGILState_Ensure();
    }
}
