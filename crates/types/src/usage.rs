//! What a service has done: how many calls, how long they waited and ran. A server counts, a broker adds.
//!
//! ```text
//! histogram[i]: calls that ran for 2^i to 2^(i+1) ns; the last of 40 has all that ran for longer, 9 minutes and more
//! ```

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Classes of durations: one for each power of two of nanoseconds.
const CLASSES: usize = 40;

/// What a service has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Calls that have begun.
    pub calls: u64,
    /// Those that have failed.
    pub failed: u64,
    /// Those whose time was read. Of short ones that is now and then; the others count as those whose time was.
    pub clocked: u64,
    /// For how many calls `ran_ns` stands.
    pub ran: u64,
    /// How long they ran, in nanoseconds.
    pub ran_ns: u64,
    /// For how many calls `waited_ns` stands: those whose clients said when they sent them.
    pub waited: u64,
    /// How long they waited at the server before they ran, in nanoseconds.
    pub waited_ns: u64,
    /// How many ran for how long; without the zeros at its end.
    pub histogram: Vec<u64>,
}

impl Usage {
    /// Counts a call that stands for `times` calls.
    pub fn count(&mut self, times: u64, waited_ns: Option<u64>, ran_ns: u64) {
        self.calls += times;
        self.clocked += 1;
        self.ran += times;
        self.ran_ns = self.ran_ns.saturating_add(ran_ns.saturating_mul(times));
        if let Some(waited_ns) = waited_ns {
            self.waited += times;
            self.waited_ns = self.waited_ns.saturating_add(waited_ns.saturating_mul(times));
        }
        let class = (ran_ns.max(1).ilog2() as usize).min(CLASSES - 1);
        if self.histogram.len() <= class {
            self.histogram.resize(class + 1, 0);
        }
        self.histogram[class] += times;
    }

    /// Adds what another one has done.
    pub fn add(&mut self, other: &Usage) {
        for (own, theirs) in [
            (&mut self.calls, other.calls),
            (&mut self.failed, other.failed),
            (&mut self.clocked, other.clocked),
            (&mut self.ran, other.ran),
            (&mut self.ran_ns, other.ran_ns),
            (&mut self.waited, other.waited),
            (&mut self.waited_ns, other.waited_ns),
        ] {
            *own = own.saturating_add(theirs);
        }
        let length = self.histogram.len().max(other.histogram.len());
        self.histogram.resize(length, 0);
        for (own, theirs) in self.histogram.iter_mut().zip(&other.histogram) {
            *own = own.saturating_add(*theirs);
        }
    }

    /// Whether times, and the number of calls within a few, are those of some calls, taken for all.
    pub fn is_estimated(&self) -> bool {
        self.clocked < self.calls
    }

    /// How long a call runs on the average, in seconds; none when no time was read.
    pub fn mean(&self) -> Option<f64> {
        (self.ran > 0).then(|| self.ran_ns as f64 / self.ran as f64 * 1e-9)
    }

    /// The duration in seconds that a share of the calls does not exceed, within a class as if they were spread evenly over
    /// its logarithms; none when no time was read.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.histogram.iter().fold(0.0, |sum, n| sum + *n as f64);
        let (wanted, mut below) = (share * total, 0.0);
        for (class, n) in self.histogram.iter().enumerate().filter(|(_, n)| **n > 0) {
            let n = *n as f64;
            if below + n >= wanted {
                return Some((class as f64 + (wanted - below) / n).exp2() * 1e-9);
            }
            below += n;
        }
        None
    }

    /// The share of waiting in the time that a call is at the server; none when nobody said when calls were sent.
    pub fn waiting(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.waited > 0)?;
        let waits = self.waited_ns as f64 / self.waited as f64 * 1e-9;
        (waits + mean > 0.0).then(|| waits / (waits + mean))
    }

    /// Checks what came over a socket.
    pub fn check(&self) -> Result<()> {
        match self.histogram.len() <= CLASSES {
            true => Ok(()),
            false => Err(Error::bad(format!(
                "a histogram of {} durations is too long; it has {CLASSES} at most",
                self.histogram.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_stands_for_others_counts_for_them_and_sums_add_up() {
        let (mut one, mut other) = (Usage::default(), Usage::default());
        one.count(1, Some(3_000_000), 1_000_000);
        assert!(!one.is_estimated());
        assert_eq!((one.mean(), one.waiting()), (Some(1e-3), Some(0.75)));
        other.count(16, None, 500);
        assert!(other.is_estimated() && other.waiting().is_none());
        one.add(&other);
        assert_eq!((one.calls, one.clocked, one.ran, one.ran_ns), (17, 2, 17, 1_008_000));
        assert_eq!((one.histogram[8], one.histogram[19], one.histogram.len()), (16, 1, 20));
        one.count(1, None, u64::MAX);
        assert_eq!((one.histogram[39], one.histogram.len(), one.ran_ns), (1, 40, u64::MAX));
        assert!(one.check().is_ok());
        one.histogram.push(0);
        assert!(one.check().is_err());
    }

    #[test]
    fn quantiles_lie_in_the_class_of_the_call_that_they_name() {
        let mut usage = Usage::default();
        assert_eq!((usage.quantile(0.5), usage.mean(), usage.waiting()), (None, None, None));
        for n in 1..=1000u64 {
            usage.count(1, Some(0), n * 1_000_000);
        }
        for share in [0.01, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let (found, exact) = (usage.quantile(share).unwrap(), share);
            assert!(found >= 0.5 * exact && found <= 2.0 * exact, "{share}: {found} for {exact}");
        }
        assert_eq!(usage.waiting(), Some(0.0));
    }
}
