//! When to attach to a server again that has let nobody in.

use std::time::{Duration, Instant};

use forebay_host::wait::Backoff;

/// Between two attempts to attach to a server that lets nobody in, at first and at most.
const KNOCK: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// When a server that was attached to in vain is attached to again.
pub(super) struct Knocks {
    backoff: Backoff,
    next: Option<Instant>,
}

impl Default for Knocks {
    fn default() -> Knocks {
        Knocks { backoff: Backoff::new(KNOCK, LONGEST), next: None }
    }
}

impl Knocks {
    /// Whether it is time to try.
    pub fn may_knock(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Whoever tries again waits longer each time, and not as long as everybody else.
    pub fn count(&mut self, begun: bool) {
        if begun {
            self.next = Some(Instant::now() + self.backoff.pause());
        }
    }
}
