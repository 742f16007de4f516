//! A small case in every order: two ranks, two steps of one piece each, one death. Ranks publish their records in
//! every order that there is, somebody dies before or behind each, and the owner works at once or when it must.

use super::super::Event;
use super::rank::Rank;
use super::world::World;
use super::{Count, failure};
use std::time::Duration;

/// What a rank publishes: begin, piece and end of two steps, and that it closes.
const RECORDS: u32 = 7;
/// Rounds after which everything is at rest.
const ROUNDS: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Nobody,
    Owner,
    Rank(u64),
}

/// What the owner does after each record.
#[derive(Clone, Copy, Debug)]
struct Pace {
    commits: bool,
    drains: bool,
}

const PACES: [Pace; 4] = [
    Pace { commits: true, drains: true },
    Pace { commits: true, drains: false },
    Pace { commits: false, drains: true },
    Pace { commits: false, drains: false },
];

/// Which rank publishes next, by the bits from the lowest on: all words with as many ones as zeros.
fn orders() -> impl Iterator<Item = u32> {
    (0..1u32 << (2 * RECORDS)).filter(|word| word.count_ones() == RECORDS)
}

struct Story {
    order: u32,
    pace: Pace,
    who: Who,
    /// Two for each record: before it is published, and before it is read.
    at: u32,
}

impl Story {
    fn play(&self, world: &mut World) {
        world.open();
        world.start(1);
        for rank in world.ranks.values_mut() {
            (rank.remote, rank.drops, rank.lags) = (false, false, false);
        }
        for n in 0..2 * RECORDS {
            let session = 1 + u64::from(self.order >> n & 1);
            self.death(world, 2 * n);
            publish(world, session);
            self.death(world, 2 * n + 1);
            world.read(session, 1);
            if self.pace.commits {
                world.feed(Event::Turn);
            }
            if self.pace.drains {
                drain(world);
            }
        }
        self.death(world, 4 * RECORDS);
        rest(world);
        for step in [0, 1] {
            let is_kept = !world.was_ended_by_all(1, step) || world.catalog.steps.contains(&step);
            law!(world, is_kept, "step {step} was ended by all and is not listed");
        }
        let all = world.catalog.steps.iter().eq(&[0, 1]);
        law!(world, all || matches!(self.who, Who::Rank(_)), "steps are lost though no rank died");
    }

    fn death(&self, world: &mut World, now: u32) {
        match self.who {
            _ if self.at != now => {}
            Who::Nobody => {}
            Who::Rank(session) => world.kill_rank(session),
            Who::Owner => {
                world.kill_owner();
                world.open();
            }
        }
    }
}

fn publish(world: &mut World, session: u64) {
    let Some(rank) = world.ranks.get_mut(&session) else { return };
    let number = rank.rank;
    if let Some(did) = rank.act_in_order() {
        world.tell(format!("rank {number} {did}"));
    }
}

fn drain(world: &mut World) {
    while !world.works.is_empty() {
        world.drain();
    }
}

/// Everybody goes on to the end.
fn rest(world: &mut World) {
    world.tell("all go on".into());
    for _ in 0..ROUNDS {
        for session in [1, 2] {
            publish(world, session);
            world.resume(session);
            world.look(session);
            world.read(session, u64::from(RECORDS));
        }
        world.feed(Event::Turn);
        drain(world);
        let over = world.ranks.values().all(Rank::is_over);
        if over && world.machine.as_ref().is_some_and(|m| m.is_drained()) {
            return world.check_rest();
        }
        world.now += Duration::from_secs(1);
    }
    let state = world.machine.as_ref().map(|m| m.state()).unwrap_or_default();
    world.violated(format!("no rest: {state}"));
}

/// `FOREBAY_SMALL=all` plays each order at each pace; without it half of the orders have one each.
#[test]
fn every_order_of_a_small_case_with_one_death_holds_every_promise() {
    let all = std::env::var("FOREBAY_SMALL").is_ok_and(|v| v == "all");
    let mut count = Count::default();
    for (number, order) in orders().enumerate() {
        let paces = PACES.iter().enumerate().filter(|(n, _)| all || number % (2 * PACES.len()) == *n);
        for (_, pace) in paces {
            let deaths = [Who::Owner, Who::Rank(1), Who::Rank(2)];
            let deaths = deaths.into_iter().flat_map(|who| (0..=4 * RECORDS).map(move |at| (who, at)));
            for (who, at) in deaths.chain([(Who::Nobody, 0)]) {
                let story = Story { order, pace: *pace, who, at };
                let mut world = World::small(u64::from(order));
                if let Some(text) = failure(|| story.play(&mut world)) {
                    panic!("order {order:014b}, {pace:?}, {who:?} dies at {at}: {text}");
                }
                count.add(world.count);
            }
        }
    }
    assert!(count.0["Event::Hung"] > 0 && count.0["Event::Resumed"] > 0, "nobody died");
}
