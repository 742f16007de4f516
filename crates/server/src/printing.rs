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
use crate::shared::Shared;

/// A call that took longer leaves empty buffers.
const LONG_NS: u64 = 1_000_000;

pub(crate) struct Printing {
    output: Arc<Output>,
    /// Calls that had ended when the buffers were empty last.
    clean: AtomicU64,
}

/// The begin of a call.
pub(crate) struct Begin {
    at: [u64; 2],
    /// Calls that had ended when the last one ended whose output may come after this.
    ended: u64,
}

impl Printing {
    pub fn new(output: Arc<Output>) -> Printing {
        Printing { output, clean: AtomicU64::new(0) }
    }

    /// A call begins, with empty buffers if it is to be told `exactly`.
    #[inline]
    pub fn begin(&self, shared: &Shared, exactly: bool) -> Begin {
        if exactly && let (at, true) = self.output.written() {
            return Begin { at, ended: shared.served.load(Ordering::Relaxed) };
        }
        Begin { at: self.output.passed(), ended: self.clean.load(Ordering::Relaxed) }
    }

    /// A call has ended well.
    #[inline]
    pub fn end(&self, shared: &Shared, ran_ns: u64) {
        if ran_ns > LONG_NS {
            self.note_clean(shared, self.output.written().1);
        }
    }

    /// A call has failed: what it printed, if anything.
    #[cold]
    pub fn failed(&self, shared: &Shared, begin: Begin) -> Option<Box<Printed>> {
        let (_, flushed) = self.output.written();
        // Those that ended meanwhile, and those that run beside it.
        let ended = shared.served.load(Ordering::Relaxed).saturating_sub(begin.ended);
        let others = ended + u64::from(shared.crew.running().saturating_sub(1));
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        self.note_clean(shared, flushed);
        Printed::new(self.output.since(begin.at), others)
    }

    fn note_clean(&self, shared: &Shared, flushed: bool) {
        if flushed {
            // This call has not been counted yet.
            self.clean.store(shared.served.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}
