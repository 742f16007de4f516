//! Memory that was needed for large arrays and is not any more goes back to the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Arrays from this size on are large.
pub const LARGE: u64 = 1 << 20;
/// After this time without a large array.
const IDLE: Duration = Duration::from_secs(5);

/// Who keeps memory for what comes next.
pub trait Trims: Send + Sync {
    /// Whether somebody watches it already.
    fn watched(&self) -> &AtomicBool;
    /// How long it has had nothing to do with large arrays.
    fn idle(&self) -> Duration;
    /// Gives back what nobody uses; false while something large is in use.
    fn trim(&self) -> bool;
}

/// Somebody has just taken a large piece: what is not used any more some seconds after the last one goes back. A thread
/// watches until then, and no longer.
pub fn trim_when_idle(owner: &Arc<impl Trims + 'static>) {
    if owner.watched().swap(true, Ordering::AcqRel) {
        return;
    }
    let watched = Arc::downgrade(owner);
    let watch = move || {
        loop {
            std::thread::sleep(IDLE / 2);
            let Some(owner) = watched.upgrade() else { return };
            if owner.idle() >= IDLE && owner.trim() {
                return owner.watched().store(false, Ordering::Release);
            }
        }
    };
    if std::thread::Builder::new().name("fb-trim".into()).stack_size(64 * 1024).spawn(watch).is_err() {
        // The next large piece tries again.
        owner.watched().store(false, Ordering::Release);
    }
}
