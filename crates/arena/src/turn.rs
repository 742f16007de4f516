//! A lock that nobody sleeps on: a thread takes what is under it unless another one has it just now.
//!
//! A lock that threads sleep on has to find out at its release whether one does, by an operation that waits until all
//! that was written before is written. Here the release is a plain store.

use crate::sync::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// Takes it; false when somebody has it.
#[inline]
pub(crate) fn take(state: &AtomicU32) -> bool {
    state.load(Ordering::Relaxed) == FREE
        && state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Gives it back; only for who has it.
#[inline]
pub(crate) fn give(state: &AtomicU32) {
    state.store(FREE, Ordering::Release);
}

#[cfg(not(loom))]
pub use real::{TryLock, TryLockGuard};

#[cfg(not(loom))]
mod real {
    use super::*;
    use std::cell::UnsafeCell;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};

    /// Such a lock. One thread's does not share a line of the caches with another one's.
    #[derive(Default)]
    #[repr(align(64))]
    pub struct TryLock<T> {
        state: AtomicU32,
        value: UnsafeCell<T>,
    }

    // SAFETY: one thread at a time has the value, and what it wrote is seen by the next one.
    unsafe impl<T: Send> Sync for TryLock<T> {}

    /// It is taken until this is dropped.
    pub struct TryLockGuard<'l, T> {
        lock: &'l TryLock<T>,
        /// Shared between threads as the value may be.
        _value: PhantomData<&'l mut T>,
    }

    impl<T> TryLock<T> {
        /// A free one.
        pub const fn new(value: T) -> TryLock<T> {
            TryLock { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
        }

        /// Takes it, if nobody has it just now.
        #[inline]
        pub fn take(&self) -> Option<TryLockGuard<'_, T>> {
            take(&self.state).then(|| TryLockGuard { lock: self, _value: PhantomData })
        }
    }

    impl<T> Deref for TryLockGuard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: who has the guard has the value alone.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for TryLockGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for TryLockGuard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            give(&self.lock.state);
        }
    }
}
