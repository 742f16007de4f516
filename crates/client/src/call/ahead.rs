//! What one server has to do for this client, where it is known what calls cost: how many calls, and how long they are
//! expected to run, by the power of two of that.

use std::collections::BTreeMap;

use super::pace::Ns;

/// Calls with the time that they are expected to run.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    classes: BTreeMap<u32, (u32, Ns)>,
    calls: u32,
    ns: Ns,
}

fn class(ns: Ns) -> u32 {
    ns.max(1).ilog2()
}

impl Ahead {
    /// One more, expected to run so long.
    pub fn add(&mut self, ns: Ns) {
        let (calls, sum) = self.classes.entry(class(ns)).or_default();
        *calls += 1;
        *sum = sum.saturating_add(ns);
        self.calls += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    /// One that was added is over.
    pub fn take(&mut self, ns: Ns) {
        let Some((calls, sum)) = self.classes.get_mut(&class(ns)) else { return };
        (*calls, *sum) = (*calls - 1, sum.saturating_sub(ns));
        if *calls == 0 {
            self.classes.remove(&class(ns));
        }
        self.calls -= 1;
        self.ns = self.ns.saturating_sub(ns);
    }

    /// How many they are.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// How long all of them run, one after the other.
    pub fn ns(&self) -> f64 {
        self.ns as f64
    }

    /// How long they run if none counts for more than that.
    pub fn ns_at_most(&self, most: f64) -> f64 {
        let sum = |(calls, ns): &(u32, Ns)| {
            let calls = f64::from(*calls);
            calls * (*ns as f64 / calls).min(most)
        };
        self.classes.values().map(sum).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_and_is_over_leaves_nothing() {
        let mut ahead = Ahead::default();
        let all = [1, 3, 1_000, 1_001, 5_000_000, 0, Ns::MAX / 4];
        all.iter().for_each(|ns| ahead.add(*ns));
        assert_eq!(ahead.calls(), 7);
        assert!((ahead.ns_at_most(1_000.0) - (4.0 + 1_000.0 * 4.0)).abs() < 2.0);
        all.iter().for_each(|ns| ahead.take(*ns));
        ahead.take(1_000);
        assert_eq!((ahead.calls(), ahead.ns(), ahead.ns_at_most(1e9)), (0, 0.0, 0.0));
        assert!(ahead.classes.is_empty());
    }
}
