//! A mutex that goes round. Whoever takes an ordinary one again and again, as a thread does that sends or reads one
//! piece after the other, has it back before another one that waits for it is awake.
//!
//! ```text
//! everybody:  gate -> inner -> (gate left) ... (inner left)
//! ```
//! Who waits for `inner` has the gate, so whoever has left `inner` cannot come before it.

use std::sync::{Mutex, MutexGuard};

use crate::lock;

#[derive(Debug, Default)]
pub(crate) struct Fair<T> {
    gate: Mutex<()>,
    inner: Mutex<T>,
}

impl<T> Fair<T> {
    pub fn new(value: T) -> Fair<T> {
        Fair { gate: Mutex::new(()), inner: Mutex::new(value) }
    }

    /// Data stay whole as with [`lock`].
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let _gate = lock(&self.gate);
        lock(&self.inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[test]
    fn who_waits_has_its_turn_before_the_one_who_had_it_comes_again() {
        let fair = Fair::new(());
        let (waits, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let turns = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let first = fair.lock();
            scope.spawn(|| {
                waits.store(true, Ordering::SeqCst);
                let _turn = fair.lock();
                over.store(true, Ordering::SeqCst);
            });
            while !waits.load(Ordering::SeqCst) || fair.gate.try_lock().is_ok() {
                std::thread::yield_now();
            }
            // It stands at the gate, and not awake.
            drop(first);
            while !over.load(Ordering::SeqCst) {
                let _turn = fair.lock();
                turns.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(turns.load(Ordering::SeqCst) <= 1, "{turns:?} turns before the one who waited");
    }
}
