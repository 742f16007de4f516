//! Giving a call up while another thread waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::Inner;

/// Gives a call up from any thread, also while another one waits for it.
pub struct Canceller {
    pub(super) inner: Arc<Inner>,
    pub(super) given_up: Arc<AtomicBool>,
}

impl Canceller {
    /// Whoever waits for the call cancels it and gets `Cancelled`; if nobody waits, whoever looks at it next.
    pub fn cancel(&self) {
        if self.inner.check_process().is_err() {
            return; // the call is the parent's, and its doorbell, too
        }
        self.given_up.store(true, Ordering::SeqCst);
        self.inner.pump.nudge();
    }

    /// Whether that was asked.
    pub fn is_asked(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }
}
