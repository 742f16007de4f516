//! A service: a signature, what runs, how long it usually takes, and what it has done.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay_host::lock;
use forebay_types::held::OWN;
use forebay_types::usage::Usage;
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
    /// Calls since the last one that stood for others. Workers of one service may lose some of them to each other.
    passed: AtomicU32,
    usage: Mutex<Usage>,
    /// A call of it that failed had printed something.
    prints: AtomicBool,
}

impl Service {
    pub fn new(signature: Signature, body: Box<Body>) -> Service {
        Service {
            signature: Arc::new(signature),
            body,
            usual_ns: AtomicU64::new(UNKNOWN),
            passed: AtomicU32::new(0),
            usage: Mutex::default(),
            prints: AtomicBool::new(false),
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

    /// Whether what a call of it prints is to be told exactly: looking costs little of what it takes.
    pub fn is_told_exactly(&self) -> bool {
        self.is_long() || self.prints.load(Ordering::Relaxed)
    }

    /// A call of it that failed has printed something.
    #[cold]
    pub fn has_printed(&self) {
        self.prints.store(true, Ordering::Relaxed);
    }

    /// How long a call of it usually takes, in nanoseconds; at least 1.
    pub fn usual(&self) -> u64 {
        match self.usual_ns.load(Ordering::Relaxed) {
            UNKNOWN | 0 => 1,
            ns => ns,
        }
    }

    /// For how many calls this one stands, those before it that stood for none and itself: then its time is read, although
    /// its client may not ask for it. Always one of a service that takes long, now and then one of a short service, for
    /// reading a clock and counting cost as much as it runs.
    pub fn stands_for(&self) -> Option<u32> {
        let passed = self.passed.load(Ordering::Relaxed);
        let stands = passed >= CLOCKLESS || self.is_long();
        self.passed.store(if stands { 0 } else { passed + 1 }, Ordering::Relaxed);
        stands.then_some(passed + 1)
    }

    /// Counts a call that stands for so many, how long it waited, if that is known, and how long it ran.
    pub fn count(&self, times: u32, waited_ns: Option<u64>, ran_ns: u64) {
        lock(&self.usage).count(times.into(), waited_ns, ran_ns);
    }

    /// Counts a failure.
    #[cold]
    pub fn failed(&self) {
        lock(&self.usage).failed += 1;
    }

    /// What it has done.
    pub fn usage(&self) -> Usage {
        let mut usage = lock(&self.usage).clone();
        usage.calls += u64::from(self.passed.load(Ordering::Relaxed));
        usage
    }

    /// Learns: an eighth of the new, seven of the old; a long run counts at once.
    pub fn took(&self, ns: u64) {
        let old = self.usual_ns.load(Ordering::Relaxed);
        let new = if ns > LONG_NS { old.max(ns) } else { old - old / 8 + ns / 8 };
        self.usual_ns.store(new, Ordering::Relaxed);
    }
}
