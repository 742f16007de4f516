//! What a call has printed, where the output of the process is kept ([`forebay_host::output`]).
//!
//! The descriptors belong to the process, so what comes between the begin and the end of a call is its own only if no
//! other call ran meanwhile, and if what was printed before had left the buffers of the languages. A call of a service that
//! takes long, or that is known to print, begins with them empty. One of a short service pays a few instructions, and
//! is said to share with those that came since they were empty last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_host::output::Output;

use crate::call::Printed;

/// A call that took longer leaves empty buffers.
const LONG_NS: u64 = 1_000_000;

pub(crate) struct Printing {
    output: Arc<Output>,
    /// Calls that run, and those that have ended. Both are told before the caller hears of the end, so that his next call
    /// shares with no earlier one of his.
    running: AtomicU64,
    ended: AtomicU64,
    /// Calls that had ended when the buffers were empty last.
    clean: AtomicU64,
}

/// The begin of a call.
pub(crate) struct Begin {
    at: [u64; 2],
    /// Calls that had ended when the last one ended whose output comes before this.
    ended: u64,
}

impl Printing {
    pub fn new(output: Arc<Output>) -> Printing {
        let [running, ended, clean] = [const { AtomicU64::new(0) }; 3];
        Printing { output, running, ended, clean }
    }

    /// A call begins, with empty buffers if it is to be told `exactly`.
    #[inline]
    pub fn begin(&self, exactly: bool) -> Begin {
        self.running.fetch_add(1, Ordering::SeqCst);
        if exactly {
            // Before the look: who ends meanwhile counts.
            let ended = self.ended.load(Ordering::SeqCst);
            if let (at, true) = self.output.written() {
                return Begin { at, ended };
            }
        }
        Begin { at: self.output.passed(), ended: self.clean.load(Ordering::Relaxed) }
    }

    /// A call has ended well.
    #[inline]
    pub fn end(&self, ran_ns: u64) {
        let is_due = ran_ns > LONG_NS || self.output.is_held_back();
        let is_clean = is_due && self.output.written().1;
        self.leave(is_clean);
    }

    /// A call has failed: what it printed, if anything.
    #[cold]
    pub fn failed(&self, begin: Begin) -> Option<Box<Printed>> {
        let (_, is_clean) = self.output.written();
        // Those that run beside it, and those that ended meanwhile: in this order none is in neither.
        let beside = self.running.load(Ordering::SeqCst).saturating_sub(1);
        let others = beside + self.ended.load(Ordering::SeqCst).saturating_sub(begin.ended);
        self.leave(is_clean);
        Printed::new(self.output.since(begin.at), u32::try_from(others).unwrap_or(u32::MAX))
    }

    /// A call is over; nothing of it is in the buffers if they are `clean`.
    fn leave(&self, is_clean: bool) {
        let ended = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
        if is_clean {
            self.clean.store(ended, Ordering::Relaxed);
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}
