//! When to attach to a server again that has let nobody in.

use std::time::{Duration, Instant};

use forebay_host::wait::jitter;

/// Between two attempts to attach to a server that lets nobody in, at first and at most.
const KNOCK: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// How often a server was attached to in vain.
#[derive(Default)]
pub(super) struct Knocks {
    times: u32,
    next: Option<Instant>,
}

impl Knocks {
    /// Whether it is time to try.
    pub fn may_knock(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Whoever tries again waits longer each time, and not as long as everybody else.
    pub fn count(&mut self, begun: bool) {
        if begun {
            let pause = (KNOCK * (1 << self.times.min(10))).min(LONGEST);
            self.next = Some(Instant::now() + jitter(pause));
            self.times += 1;
        }
    }
}
