//! A service: a signature, what runs, and how long it usually takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_types::{Result, Signature};

use crate::Call;

/// What a service runs. It may take as long as it likes; heartbeats come from elsewhere.
pub type Body = dyn Fn(&mut Call) -> Result<()> + Send + Sync;

/// Calls that take longer than this hand the polling over to another worker first.
const LONG_NS: u64 = 20_000;

pub(crate) struct Service {
    pub signature: Arc<Signature>,
    pub body: Box<Body>,
    /// Whether it is a service of every server's; its errors keep their codes.
    pub is_own: bool,
    usual_ns: AtomicU64,
}

impl Service {
    pub fn new(signature: Signature, body: Box<Body>) -> Service {
        Service { signature: Arc::new(signature), body, is_own: false, usual_ns: AtomicU64::new(LONG_NS + 1) }
    }

    /// A service of every server's.
    pub fn own(signature: Signature, body: Box<Body>) -> Service {
        Service { is_own: true, ..Service::new(signature, body) }
    }

    /// Whether it pays to wake another worker before running it. Unknown means yes.
    pub fn is_long(&self) -> bool {
        self.usual_ns.load(Ordering::Relaxed) > LONG_NS
    }

    /// Learns: an eighth of the new, seven of the old; a long run counts at once.
    pub fn took(&self, ns: u64) {
        let old = self.usual_ns.load(Ordering::Relaxed);
        let new = if ns > LONG_NS { old.max(ns) } else { old - old / 8 + ns / 8 };
        self.usual_ns.store(new, Ordering::Relaxed);
    }
}
