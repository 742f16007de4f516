//! A mutex whose holder cannot leave half of a change behind when it panics, since each change is a single step.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
