//! How long the calls of a service take, remembered by their size and by server.
//!
//! The size of a call is the bytes of its arrays, in powers of two. Of a size that was never seen the nearest one speaks.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_link::QuickMap;
use forebay_types::Given;
use forebay_types::directory::Incarnation;

use super::lock;
use super::pace::{Ns, Pace, SHORT, SOMETIMES, Speed};

/// The size of a call: the power of two of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(u8);

impl Size {
    pub fn of(bytes: u64) -> Size {
        Size((bytes + 1).ilog2() as u8)
    }
}

/// Bytes of the arrays of a call.
pub(super) fn bytes_of(given: &[Given]) -> u64 {
    let bytes = |given: &Given| match given {
        Given::Array { meta, .. } => meta.bytes().unwrap_or(0),
        _ => 0,
    };
    given.iter().map(bytes).sum()
}

/// What is known of one service.
#[derive(Debug, Default)]
pub(super) struct Estimates {
    known: Mutex<Known>,
    /// How long a call of it took lately, in nanoseconds; 0 before any has.
    usual: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    paces: BTreeMap<Size, Pace>,
    speeds: QuickMap<Incarnation, Speed>,
}

impl Known {
    fn pace(&self, size: Size) -> Pace {
        let below = self.paces.range(..=size).next_back();
        let above = self.paces.range(size..).next();
        let nearest = [below, above].into_iter().flatten().min_by_key(|(s, _)| s.0.abs_diff(size.0));
        nearest.map(|(_, pace)| *pace).unwrap_or_default()
    }
}

impl Estimates {
    /// How long a call took lately.
    #[inline]
    pub fn usual(&self) -> Option<Ns> {
        match self.usual.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(ns),
        }
    }

    /// Whether the time of this call is of use.
    #[inline]
    pub fn wants(&self, id: u64) -> bool {
        self.usual().is_none_or(|ns| ns >= SHORT) || id.is_multiple_of(SOMETIMES)
    }

    /// A call of that size ran so long there, while so many were there, so many of them this client's.
    pub fn learn(&self, server: Incarnation, size: Size, ran: Ns, (there, mine): (u32, u32)) {
        let mut known = lock(&self.known);
        let Known { paces, speeds } = &mut *known;
        let pace = paces.entry(size).or_default();
        let speed = speeds.entry(server).or_default();
        speed.tells(there, mine);
        pace.learn(speed, ran);
        let usual = pace.expected(&Speed::default()).unwrap_or(0.0);
        self.usual.store((usual as Ns).max(1), Ordering::Relaxed);
    }

    /// What is known of calls of that size, and of these servers.
    pub fn look<T>(&self, size: Size, look: impl FnOnce(&Pace, &dyn Fn(Incarnation) -> Speed) -> T) -> T {
        let known = lock(&self.known);
        let pace = known.pace(size);
        look(&pace, &|server| known.speeds.get(&server).copied().unwrap_or_default())
    }

    /// Servers that are gone take no memory.
    pub fn keep(&self, is_here: impl Fn(Incarnation) -> bool) {
        lock(&self.known).speeds.retain(|server, _| is_here(*server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_remembered_by_size_and_the_nearest_speaks_for_others() {
        let estimates = Estimates::default();
        assert!(estimates.usual().is_none() && estimates.wants(3));
        let (small, large) = (Size::of(1_000), Size::of(1 << 20));
        for _ in 0..20 {
            estimates.learn(Incarnation(1), small, 1_000, (1, 1));
            estimates.learn(Incarnation(1), large, 1_000_000, (1, 1));
        }
        let expected = |size| estimates.look(size, |pace, speed| pace.expected(&speed(Incarnation(1))));
        assert!(expected(small).unwrap() < 3_000.0);
        assert!(expected(Size::of(2_000)).unwrap() < 3_000.0);
        assert!(expected(Size::of(1 << 30)).unwrap() > 300_000.0);
    }
}
