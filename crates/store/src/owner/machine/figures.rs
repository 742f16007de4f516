//! Figures: what was hidden, how much, how far behind.

use std::time::Duration;

/// Counted as it happens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub hidden: Duration,
    pub written: u64,
    pub steps: u64,
    pub discarded: u64,
    pub dropped: u64,
    /// Elements that nobody put, and that have a value all the same.
    pub filled: u64,
    pub durable_step: Option<i64>,
    pub lag: Duration,
    pub worst_lag: Duration,
    /// A file waits for the disk.
    pub drain_waits: bool,
    /// The catalog does.
    pub catalog_waits: bool,
}

impl Figures {
    /// A step is listed, so long after its last rank has ended it.
    pub fn listed(&mut self, step: i64, lag: Option<Duration>) {
        let lag = lag.unwrap_or_default();
        self.steps += 1;
        self.lag = lag;
        self.worst_lag = self.worst_lag.max(lag);
        self.durable_step = self.durable_step.max(Some(step));
    }
}
