//! The machine in a simulated world: programs of ranks, a catalog, a disk and deaths, in an order that a seed
//! decides. After each action every promise is held against the model, and when the faults stop everything must
//! come to rest. A seed that fails prints its story.
//!
//! `FOREBAY_SEEDS=FIRST-LAST` chooses the seeds, `FOREBAY_STORY=LINES` how much of a story that fails is printed.

/// A promise; a story in which it does not hold ends here.
macro_rules! law {
    ($world:expr, $holds:expr, $($text:tt)*) => {
        if !$holds { $world.violated(format!($($text)*)); }
    };
}

mod catalog;
mod laws;
mod rank;
mod reading;
mod rests;
mod small;
mod world;

use super::{Action, Event};
use forebay_types::Error;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers from a seed (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len() as u64) as usize])
    }
}

/// How often each event, each action and each refusal occurred: a simulation in which nothing happens finds nothing.
#[derive(Default)]
pub struct Count(BTreeMap<&'static str, u64>);

macro_rules! named {
    ($value:expr, $kind:ident: $($name:ident),* $(,)?) => {
        match $value { $($kind::$name { .. } => concat!(stringify!($kind), "::", stringify!($name)),)* }
    };
}

impl Count {
    fn event(&mut self, event: &Event) {
        let name = named!(event, Event: Alone, Enter, Resumed, Record, Ahead, Unreadable, Broken, Empty, Hung, Seen, Absent,
            Arrived, Written, Done, Described, Turn, Committed, NotCommitted, Request, Steer, Steered, Flush,
            Listed, Close, Lose);
        *self.0.entry(name).or_default() += 1;
    }

    fn action(&mut self, action: &Action) {
        let name = named!(action, Action: Work, Discard, Commit, Describe, Settle, Applied, Release, Free, Keep,
            Forget, Await, Answer, Refuse, Stats, Overflow, Pass, Reply, Late, Remark, Say, Trouble, Tell, DeleteFile,
            Aside, Dropped, Durable, Fence, Leave, Lost);
        *self.0.entry(name).or_default() += 1;
    }

    /// A rank hears that something was not done, or is lost.
    fn refusal(&mut self, error: &Error) {
        *self.0.entry(error.code().name()).or_default() += 1;
    }

    fn add(&mut self, other: Count) {
        other.0.into_iter().for_each(|(name, n)| *self.0.entry(name).or_default() += n);
    }
}

/// Those that this world does not bring about.
const ELSEWHERE: [&str; 9] = [
    "Event::Unreadable",
    "Event::Broken",
    "Event::Absent",
    "Event::Close",
    "Event::Lose",
    "Action::Overflow",
    "Action::Pass",
    "Action::DeleteFile",
    "Action::Lost",
];

const ALL: [&str; 44] = [
    "Event::Alone",
    "Event::Enter",
    "Event::Resumed",
    "Event::Record",
    "Event::Ahead",
    "Event::Empty",
    "Event::Hung",
    "Event::Seen",
    "Event::Arrived",
    "Event::Written",
    "Event::Done",
    "Event::Described",
    "Event::Turn",
    "Event::Committed",
    "Event::NotCommitted",
    "Event::Request",
    "Event::Steer",
    "Event::Steered",
    "Event::Flush",
    "Event::Listed",
    "Action::Work",
    "Action::Discard",
    "Action::Commit",
    "Action::Describe",
    "Action::Settle",
    "Action::Applied",
    "Action::Release",
    "Action::Free",
    "Action::Keep",
    "Action::Forget",
    "Action::Await",
    "Action::Answer",
    "Action::Refuse",
    "Action::Stats",
    "Action::Reply",
    "Action::Late",
    "Action::Say",
    "Action::Trouble",
    "Action::Tell",
    "Action::Aside",
    "Action::Dropped",
    "Action::Durable",
    "Action::Fence",
    "Action::Leave",
];

/// What ranks hear that ask in vain or lose something, and what only one in a hundred of them hears.
const REFUSALS: [&str; 5] = ["BadArgument", "Cancelled", "Conflict", "Corrupt", "ServerLost"];
const RARE: [&str; 2] = ["Full", "NotFound"];

/// What a story ends with that does not come to its end.
fn failure(story: impl FnOnce()) -> Option<String> {
    let ended = catch_unwind(AssertUnwindSafe(story)).err()?;
    Some(ended.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into()))
}

#[test]
fn every_promise_holds_in_every_order_of_events() {
    let chosen = std::env::var("FOREBAY_SEEDS").unwrap_or_else(|_| "0-999".into());
    let (first, last) = chosen.split_once('-').unwrap_or((&chosen, &chosen));
    let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
    let mut count = Count::default();
    for seed in first..=last {
        let mut world = world::World::new(seed);
        if let Some(text) = failure(|| world.run()) {
            panic!("seed {seed}: {text}");
        }
        count.add(world.count);
    }
    let rare = if last - first < 5000 { &[][..] } else { &RARE };
    let all = ALL.iter().chain(&REFUSALS).chain(rare);
    let never: Vec<&&str> = all.filter(|name| !count.0.contains_key(**name)).collect();
    let few = last - first < 500;
    assert!(few || never.is_empty(), "nothing of this ever happened: {never:?}");
    assert!(
        ELSEWHERE.iter().all(|name| !count.0.contains_key(name)),
        "the list of what does not happen is old"
    );
}
