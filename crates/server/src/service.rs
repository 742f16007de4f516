//! A service: a signature, what runs, and how long it usually takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use forebay_types::held::OWN;
use forebay_types::{Result, Signature};

use crate::Call;

/// What a service runs. It may take as long as it likes; heartbeats come from elsewhere.
pub type Body = dyn Fn(&mut Call) -> Result<()> + Send + Sync;

/// Calls that take longer than this hand the polling over to another worker first.
const LONG_NS: u64 = 20_000;

/// Before any call has told.
const UNKNOWN: u64 = LONG_NS + 1;
/// Calls of a short service without a look at the clock.
const CLOCKLESS: u32 = 15;

pub(crate) struct Service {
    pub signature: Arc<Signature>,
    pub body: Box<Body>,
    usual_ns: AtomicU64,
    /// Calls until the clock is read again for one whose client does not ask for it.
    unread: AtomicU32,
}

impl Service {
    pub fn new(signature: Signature, body: Box<Body>) -> Service {
        Service {
            signature: Arc::new(signature),
            body,
            usual_ns: AtomicU64::new(UNKNOWN),
            unread: AtomicU32::new(0),
        }
    }

    /// Whether it is a service of every server's; its errors keep their codes.
    pub fn is_own(&self) -> bool {
        self.signature.name().as_str().starts_with(OWN)
    }

    /// Whether it pays to wake another worker before running it. Unknown means yes.
    pub fn is_long(&self) -> bool {
        self.usual_ns.load(Ordering::Relaxed) > LONG_NS
    }

    /// How long a call of it usually takes, in nanoseconds; at least 1.
    pub fn usual(&self) -> u64 {
        match self.usual_ns.load(Ordering::Relaxed) {
            UNKNOWN | 0 => 1,
            ns => ns,
        }
    }

    /// Whether the time of a call is to be read although its client does not ask for it: always of a
    /// service that takes long, now and then of a short one, for reading costs as much as it runs.
    pub fn wants_a_clock(&self) -> bool {
        let unread = self.unread.load(Ordering::Relaxed);
        let read = unread == 0 || self.is_long();
        self.unread.store(if read { CLOCKLESS } else { unread - 1 }, Ordering::Relaxed);
        read
    }

    /// Learns: an eighth of the new, seven of the old; a long run counts at once.
    pub fn took(&self, ns: u64) {
        let old = self.usual_ns.load(Ordering::Relaxed);
        let new = if ns > LONG_NS { old.max(ns) } else { old - old / 8 + ns / 8 };
        self.usual_ns.store(new, Ordering::Relaxed);
    }
}
