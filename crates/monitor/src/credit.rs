//! Who gets which picture next: credits and latest-wins, as a pure state machine.
//!
//! A viewer holds a few credits. A message costs one; the page gives it back after it has
//! drawn. Nothing is queued: when a credit is free, the diagram shown longest ago among those
//! with something newer is encoded *then*, as it is then. A slow viewer thus sees fewer
//! pictures, never older ones.

use std::collections::BTreeMap;

/// Messages under way to one viewer.
pub const CREDITS: u32 = 2;
/// Least time between two pictures of one diagram, in milliseconds.
pub const INTERVAL_MS: u64 = 45;

/// What of a diagram a viewer was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    version: (u64, u64),
    at_ms: u64,
}

/// The state of one viewer.
#[derive(Debug)]
pub struct Credits {
    free: u32,
    shown: BTreeMap<u32, Shown>,
}

impl Default for Credits {
    fn default() -> Self {
        Credits { free: CREDITS, shown: BTreeMap::new() }
    }
}

impl Credits {
    /// The page has drawn so many messages. It cannot earn more than it was given.
    pub fn give_back(&mut self, n: u32) {
        self.free = self.free.saturating_add(n).min(CREDITS);
    }

    /// Whether a message may be sent.
    pub fn any(&self) -> bool {
        self.free > 0
    }

    /// The diagram to send now. `open` lists diagrams in sight with the version of their data
    /// and of the view upon them.
    pub fn next(&self, now_ms: u64, open: &[(u32, (u64, u64))]) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        let due = |shown: &Shown, version: &(u64, u64)| {
            shown.version != *version
                && (shown.version.1 != version.1 || now_ms.saturating_sub(shown.at_ms) >= INTERVAL_MS)
        };
        open.iter()
            .filter(|(_, version)| version.0 > 0)
            .filter_map(|(d, version)| match self.shown.get(d) {
                None => Some((0, *d)),
                Some(shown) => due(shown, version).then_some((shown.at_ms + 1, *d)),
            })
            .min()
            .map(|(_, d)| d)
    }

    /// A message with this version of the diagram is on its way.
    pub fn sent(&mut self, now_ms: u64, diagram: u32, version: (u64, u64)) {
        self.free = self.free.saturating_sub(1);
        self.shown.insert(diagram, Shown { version, at_ms: now_ms });
    }

    /// The diagram was closed: when it opens again it is sent at once.
    pub fn forget(&mut self, keep: impl Fn(u32) -> bool) {
        self.shown.retain(|d, _| keep(*d));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_viewer_that_never_draws_gets_two_messages_and_no_more() {
        let mut c = Credits::default();
        let mut sent = 0;
        for now in 0..10_000 {
            let open = [(0, (now + 1, 0)), (1, (now + 1, 0))];
            if let Some(d) = c.next(now, &open) {
                c.sent(now, d, open[d as usize].1);
                sent += 1;
            }
        }
        assert_eq!(sent, CREDITS);
    }

    #[test]
    fn what_was_shown_longest_ago_comes_next() {
        let mut c = Credits::default();
        let open = [(0, (1, 0)), (1, (1, 0))];
        assert_eq!(c.next(0, &open), Some(0));
        c.sent(0, 0, (1, 0));
        assert_eq!(c.next(1, &open), Some(1));
        c.sent(1, 1, (1, 0));
        c.give_back(2);
        assert_eq!(c.next(500, &open), None, "nothing is newer");
        assert_eq!(c.next(500, &[(0, (9, 0)), (1, (9, 0))]), Some(0));
    }

    #[test]
    fn a_new_view_upon_old_data_is_shown_at_once() {
        let mut c = Credits::default();
        c.sent(100, 3, (5, 0));
        assert_eq!(c.next(101, &[(3, (5, 0))]), None);
        assert_eq!(c.next(101, &[(3, (6, 0))]), None, "the interval is not over");
        assert_eq!(c.next(101, &[(3, (5, 1))]), Some(3));
    }

    #[test]
    fn a_diagram_without_data_is_not_sent() {
        assert_eq!(Credits::default().next(0, &[(0, (0, 4))]), None);
    }

    proptest! {
        #[test]
        fn never_more_than_two_are_under_way(acts in prop::collection::vec((0u32..4, 0u32..6), 0..300)) {
            let mut c = Credits::default();
            let mut under_way: u32 = 0;
            for (i, (act, n)) in acts.into_iter().enumerate() {
                let now = i as u64 * 20;
                if act == 0 {
                    c.give_back(n);
                    under_way = under_way.saturating_sub(n);
                } else if let Some(d) = c.next(now, &[(n, (i as u64 + 1, 0))]) {
                    c.sent(now, d, (i as u64 + 1, 0));
                    under_way += 1;
                }
                prop_assert!(under_way <= CREDITS);
            }
        }
    }
}
