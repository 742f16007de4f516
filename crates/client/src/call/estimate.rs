//! How long the calls of a service take, remembered by their size and by server.
//!
//! The size of a call is what it costs, where its service says that, else the bytes of its arrays; in powers of two. Of a
//! size that was never seen the nearest one speaks, and where sizes are costs, in proportion.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_link::QuickMap;
use forebay_types::directory::Incarnation;
use forebay_types::{Given, Signature};

use super::lock;
use super::pace::{Ns, Pace, SHORT, SOMETIMES, Speed};

/// A call that takes longer, in nanoseconds, is not looked for by its caller, and its time is always of use where sizes are no
/// costs. One with a few small arrays that goes the other way takes some 3 us.
pub(super) const SHORTEST: Ns = 5_000;

/// The size of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Size {
    /// The power of two of its cost, or of its bytes.
    class: u8,
    /// What it costs, if its service says that.
    cost: Option<u64>,
}

impl Size {
    /// Of a call that was given this.
    pub fn of(signature: &Signature, given: &[Given]) -> Size {
        match signature.cost_of(given) {
            Some(cost) => Size::of_cost(cost),
            None => Size { class: (bytes_of(given) + 1).ilog2() as u8, cost: None },
        }
    }

    pub fn of_cost(cost: u64) -> Size {
        Size { class: cost.max(1).ilog2() as u8, cost: Some(cost.max(1)) }
    }

    /// What it costs, if its service says that.
    pub fn cost(self) -> Option<u64> {
        self.cost
    }

    /// How many times longer it takes than the shortest of a class.
    fn beside(self, class: u8) -> f64 {
        self.cost.map_or(1.0, |cost| cost as f64 / f64::from(class).exp2())
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

/// How long calls of one service take, by the class of their size; of costs, the shortest of each class.
#[derive(Debug, Default)]
pub(super) struct Paces(BTreeMap<u8, Pace>);

impl Paces {
    /// A call ran so long at a server of that speed.
    pub fn learn(&mut self, size: Size, speed: &mut Speed, ran: Ns) {
        let shortest = ran as f64 / size.beside(size.class);
        self.0.entry(size.class).or_default().learn(speed, shortest as Ns);
    }

    /// How long a call is expected to run at a server of that speed, in nanoseconds; none before any has.
    pub fn expected(&self, size: Size, speed: &Speed) -> Option<f64> {
        let below = self.0.range(..=size.class).next_back();
        let above = self.0.range(size.class..).next();
        let nearest = [below, above].into_iter().flatten().min_by_key(|(c, _)| c.abs_diff(size.class));
        let (class, pace) = nearest?;
        pace.expected(speed).map(|ns| (ns * size.beside(*class)).max(1.0))
    }

    /// Whether a call of about that size has run.
    pub fn knows(&self, size: Size) -> bool {
        self.0.contains_key(&size.class)
    }
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
    paces: Paces,
    speeds: QuickMap<Incarnation, Speed>,
}

impl Known {
    /// How long a call of that size takes where it takes as long as usual.
    fn usual(&self, size: Size) -> f64 {
        self.paces.expected(size, &Speed::default()).unwrap_or(0.0)
    }
}

impl Estimates {
    /// How long a call took lately.
    #[inline]
    fn usual(&self) -> Option<Ns> {
        match self.usual.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(ns),
        }
    }

    /// Whether the time of this call is of use.
    #[inline]
    pub fn wants(&self, id: u64, size: Size) -> bool {
        if id.is_multiple_of(SOMETIMES) {
            return true;
        }
        match size.cost {
            None => self.usual().is_none_or(|ns| ns >= SHORTEST),
            Some(_) => {
                let known = lock(&self.known);
                !known.paces.knows(size) || known.usual(size) >= SHORT as f64
            }
        }
    }

    /// Whether such a call is known to take less than so long.
    #[inline]
    pub fn is_below(&self, size: Size, ns: Ns) -> bool {
        match size.cost {
            None => self.usual().is_some_and(|usual| usual < ns),
            Some(_) => {
                let known = lock(&self.known);
                known.paces.knows(size) && known.usual(size) < ns as f64
            }
        }
    }

    /// A call of that size ran so long there, while so many were there, so many of them this client's.
    pub fn learn(&self, server: Incarnation, size: Size, ran: Ns, (there, mine): (u32, u32)) {
        let mut known = lock(&self.known);
        let Known { paces, speeds } = &mut *known;
        let speed = speeds.entry(server).or_default();
        speed.tells(there, mine);
        paces.learn(size, speed, ran);
        let usual = known.usual(size);
        self.usual.store((usual as Ns).max(1), Ordering::Relaxed);
    }

    /// What is known of servers, and how long a call of that size is expected to run there.
    pub fn look<T>(
        &self,
        size: Size,
        look: impl FnOnce(&dyn Fn(Incarnation) -> (Option<f64>, Speed)) -> T,
    ) -> T {
        let known = lock(&self.known);
        look(&|server| {
            let speed = known.speeds.get(&server).copied().unwrap_or_default();
            (known.paces.expected(size, &speed), speed)
        })
    }

    /// How long a call of that size is expected to run there, in whole nanoseconds; 0 before any has.
    pub fn expected(&self, server: Incarnation, size: Size) -> Ns {
        self.look(size, |known| known(server).0).map_or(0, |ns| (ns as Ns).max(1))
    }

    /// Servers that are gone take no memory.
    pub fn keep(&self, is_here: impl Fn(Incarnation) -> bool) {
        lock(&self.known).speeds.retain(|server, _| is_here(*server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{ArrayMeta, DType, Shape};

    fn of_bytes(bytes: u64) -> Size {
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[bytes]).unwrap());
        Size::of(&Signature::parse("f(in x:u8[n])").unwrap(), &[Given::Array { meta, writable: false }])
    }

    fn expected(estimates: &Estimates, size: Size) -> f64 {
        estimates.expected(Incarnation(1), size) as f64
    }

    #[test]
    fn times_are_remembered_by_size_and_the_nearest_speaks_for_others() {
        let estimates = Estimates::default();
        let (small, large) = (of_bytes(1_000), of_bytes(1 << 20));
        assert!(estimates.wants(3, small) && !estimates.is_below(small, 50_000));
        for _ in 0..20 {
            estimates.learn(Incarnation(1), small, 1_000, (1, 1));
            estimates.learn(Incarnation(1), large, 1_000_000, (1, 1));
        }
        assert!(expected(&estimates, small) < 3_000.0);
        assert!(expected(&estimates, of_bytes(2_000)) < 3_000.0);
        assert!(expected(&estimates, of_bytes(1 << 30)) > 300_000.0);
    }

    #[test]
    fn a_call_that_costs_more_is_expected_to_take_longer_after_thousands_of_short_ones() {
        let estimates = Estimates::default();
        let (short, long) = (Size::of_cost(10), Size::of_cost(10_000_000));
        assert_eq!(expected(&estimates, short), 0.0);
        for _ in 0..2_000 {
            estimates.learn(Incarnation(1), short, 2_000, (1, 1));
        }
        assert!(!estimates.wants(3, short) && estimates.is_below(short, 50_000));
        assert!(estimates.wants(3, long) && !estimates.is_below(long, 50_000));
        let first = expected(&estimates, long);
        assert!((1.9e9..2.1e9).contains(&first), "in proportion: {first}");
        estimates.learn(Incarnation(1), long, 5_000_000_000, (1, 1));
        let learned = expected(&estimates, long);
        assert!(learned > 3e9, "what it took counts: {learned}");
        assert!((1_900.0..2_100.0).contains(&expected(&estimates, short)));
    }

    #[test]
    fn calls_of_one_class_of_costs_are_told_apart() {
        let estimates = Estimates::default();
        for cost in [64, 96, 120, 64, 100, 127].repeat(5) {
            estimates.learn(Incarnation(1), Size::of_cost(cost), cost * 1_000, (1, 1));
        }
        for cost in [64, 90, 127] {
            let there = expected(&estimates, Size::of_cost(cost));
            assert!((there / (cost as f64 * 1_000.0) - 1.0).abs() < 0.01, "{cost}: {there}");
        }
    }
}
