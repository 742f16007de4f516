//! Drifting ranks, some of them on other hosts, and a slow owner in every interleaving that a seed
//! gives: each act is carried out by all ranks at the same step, and no rank passes a confirmed gate.

use super::*;
use forebay_types::watch::{Act, Declare, Phase};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Where a rank stands in its loop head; each state is left by one access to shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GatePlace {
    Computing,
    StepStored,
    AtGate,
    Done,
}

/// What the owner has of a rank on another host, and what is on the way.
#[derive(Default)]
struct Mirror {
    gate: Option<i64>,
    epoch: u64,
    /// The gate that the relay has stored, with its number, before it loaded the rank's step.
    stored: u64,
    word: Option<i64>,
    echo: u64,
}

struct Rank {
    remote: Option<Mirror>,
    at: GatePlace,
    next: i64,
    step: i64,
    word: Option<i64>,
    gate: Option<i64>,
    mail: VecDeque<(u64, i64, Act)>,
    applied: BTreeMap<u64, i64>,
    /// The last act that held it or let it go held it.
    holds: bool,
    /// Its owner has died, and it has not come to the successor.
    orphan: bool,
    quit: bool,
}

impl Rank {
    /// Its step, as the owner sees it.
    fn as_seen(&self) -> Option<i64> {
        self.remote.as_ref().map_or(self.word, |m| m.word)
    }
}

struct World {
    steering: Steering,
    ranks: Vec<Rank>,
    /// Rank, act and step; act 0 says that the loop of the rank is over.
    records: VecDeque<(u32, u64, i64)>,
    /// Actions the owner has still to carry out, one shared-memory access at a time.
    ahead: VecDeque<Action>,
    /// A look under way: what was read so far.
    look: Option<Vec<Seen>>,
    look_due: bool,
    confirmed: BTreeMap<u64, i64>,
    acks: BTreeMap<u64, i64>,
    /// Each act, and where it was carried out as far as the log knows.
    log: BTreeMap<u64, (Act, Option<i64>)>,
    last: i64,
    last_id: u64,
}

impl World {
    fn new(size: usize, starts: i64, last: i64, with_remote: bool) -> World {
        let rank = |n: usize| Rank {
            remote: (with_remote && n % 2 == 1).then(Mirror::default),
            at: GatePlace::Computing,
            next: starts,
            step: -1,
            word: None,
            gate: None,
            mail: VecDeque::new(),
            applied: BTreeMap::new(),
            holds: false,
            orphan: false,
            quit: false,
        };
        let mut world = World {
            steering: Steering::new(size as u32),
            ranks: (0..size).map(rank).collect(),
            records: VecDeque::new(),
            ahead: VecDeque::new(),
            look: None,
            look_due: true,
            confirmed: BTreeMap::new(),
            acks: BTreeMap::new(),
            log: BTreeMap::new(),
            last,
            last_id: 0,
        };
        for r in 0..size {
            world.tell(|s, out| s.join(r as u32, size as u32, out));
        }
        world
    }

    fn tell<T>(&mut self, f: impl FnOnce(&mut Steering, &mut Vec<Action>) -> T) -> T {
        let mut out = Vec::new();
        let result = f(&mut self.steering, &mut out);
        // What a look brings about comes before what was still to be done after it.
        for action in out.into_iter().rev() {
            self.ahead.push_front(action);
        }
        result
    }

    fn act(&mut self, act: Act) -> forebay_types::Result<()> {
        self.last_id += 1;
        let id = self.last_id;
        self.tell(|s, out| s.act(id, "somebody", 0.0, act.clone(), out))?;
        self.log.insert(id, (act, None));
        Ok(())
    }

    /// The owner dies, and another one begins, which has read what the ranks recorded.
    fn die(&mut self) {
        (self.look, self.look_due) = (None, true);
        self.ahead.clear();
        let records: Vec<(u32, u64, i64)> = self.records.drain(..).collect();
        for (_, id, step) in records.iter().filter(|(_, id, _)| *id != 0) {
            self.note(*id, *step);
        }
        let seen = |(n, r): (usize, &Rank)| Seen { rank: n as u32, step: r.word };
        let seen: Vec<Seen> = self.ranks.iter().enumerate().map(seen).collect();
        self.tell(|s, out| s.take_over(seen.len() as u32, &seen, out));
        self.ranks.iter_mut().for_each(|rank| rank.orphan = true);
    }

    /// A rank comes to the successor of its owner: from now on it carries nothing out that the dead one has sent.
    fn come(&mut self, r: usize) {
        let rank = &mut self.ranks[r];
        if !std::mem::take(&mut rank.orphan) {
            return;
        }
        rank.mail.clear();
        // What it declared it declares again.
        if rank.at == GatePlace::Done {
            self.records.push_back((r as u32, 0, rank.next));
        }
        self.steering.came(r as u32);
        if !self.steering.may_go_on() {
            return;
        }
        let left = |(n, r): (usize, &Rank)| LeftRank {
            seen: Seen { rank: n as u32, step: r.word },
            gate: r.gate,
            waits: r.at == GatePlace::AtGate,
            holds: r.holds,
            over: r.at == GatePlace::Done,
            done: r.applied.keys().last().copied().unwrap_or(0),
        };
        let ranks: Vec<LeftRank> = self.ranks.iter().enumerate().map(left).collect();
        let act = |(id, (act, step)): (&u64, &(Act, Option<i64>))| LeftAct {
            id: *id,
            who: String::new(),
            at: 0.0,
            act: act.clone(),
            step: *step,
        };
        let acts = self.log.iter().map(act).collect();
        // What nobody has begun to do is agreed on anew.
        self.confirmed.clear();
        // Whoever waited for what is done asks the log.
        self.acks.extend(self.log.iter().filter_map(|(id, (_, step))| Some((*id, (*step)?))));
        self.tell(|s, out| s.go_on(&ranks, acts, out));
    }

    fn note(&mut self, id: u64, step: i64) {
        if let Some((_, done)) = self.log.get_mut(&id) {
            *done = Some(step);
        }
    }

    /// One access by the owner.
    fn owner(&mut self, act: Option<Act>) {
        if let Some(mut seen) = self.look.take() {
            let rank = seen.len();
            seen.push(Seen { rank: rank as u32, step: self.ranks[rank].as_seen() });
            if seen.len() == self.ranks.len() {
                self.tell(|s, out| s.looked(&seen, out));
            } else {
                self.look = Some(seen);
            }
            return;
        }
        match self.ahead.pop_front() {
            Some(Action::Gate { rank, step }) => match &mut self.ranks[rank as usize].remote {
                Some(remote) => (remote.gate, remote.epoch) = (step, remote.epoch + 1),
                None => self.ranks[rank as usize].gate = step,
            },
            Some(Action::Look) if self.has_heard() => self.look = Some(Vec::new()),
            Some(Action::Post { rank, id, step, act }) => {
                self.confirmed.insert(id, step);
                let to = &mut self.ranks[rank as usize];
                assert!(
                    !to.applied.contains_key(&id),
                    "act {id} is sent again to rank {rank}, which has done it"
                );
                to.mail.push_back((id, step, act));
            }
            Some(Action::Ack(ack)) if ack.phase == Phase::Applied => {
                self.acks.insert(ack.id, ack.step.unwrap());
            }
            Some(_) => {}
            // The heart looks again when the words of all gates have come.
            None if self.steering.in_motion() && self.has_heard() && self.look_due => {
                self.look_due = false;
                self.look = Some(Vec::new());
            }
            None => {
                self.look_due = true;
                if let Some((rank, 0, step)) = self.records.front().copied() {
                    self.records.pop_front();
                    self.tell(|s, out| s.declare(rank, &Declare::Over { step }, out));
                } else if let Some((rank, id, step)) = self.records.pop_front() {
                    self.note(id, step);
                    self.tell(|s, out| s.applied(rank, id, step, None, "", out));
                } else if let Some(act) = act {
                    let _ = self.act(act);
                }
            }
        }
    }

    /// Whether every mirror has echoed the number of its gate.
    fn has_heard(&self) -> bool {
        self.ranks.iter().all(|r| r.remote.as_ref().is_none_or(|m| m.echo == m.epoch))
    }

    /// One access by the relay of a rank on another host, or by what it sends; or a rank comes to a successor.
    fn line(&mut self, r: usize) {
        // The successor takes one event after the other.
        if self.ahead.is_empty() && self.look.is_none() {
            self.come(r);
        }
        let rank = &mut self.ranks[r];
        let Some(remote) = &mut rank.remote else { return };
        if remote.stored == remote.epoch {
            // The step is loaded after the gate was stored, and both arrive together.
            (remote.word, remote.echo) = (rank.word, remote.stored);
        } else {
            (rank.gate, remote.stored) = (remote.gate, remote.epoch);
        }
    }

    /// One access by a rank.
    fn rank(&mut self, r: usize) {
        let last = self.last;
        let rank = &mut self.ranks[r];
        match rank.at {
            GatePlace::Computing if rank.next >= last || rank.quit => {
                rank.at = GatePlace::Done;
                self.records.push_back((r as u32, 0, rank.next));
            }
            GatePlace::Computing => {
                rank.step = rank.next;
                rank.word = Some(rank.step);
                rank.at = GatePlace::StepStored;
            }
            GatePlace::StepStored => match rank.gate {
                Some(g) if rank.step >= g => rank.at = GatePlace::AtGate,
                _ => self.pass(r),
            },
            GatePlace::AtGate => {
                if let Some(i) = rank.mail.iter().position(|(_, n, _)| *n <= rank.step) {
                    let (id, _, act) = rank.mail.remove(i).unwrap();
                    rank.applied.insert(id, rank.step);
                    rank.quit |= act == Act::Quit;
                    match act {
                        Act::Stop | Act::Step { .. } => rank.holds = true,
                        Act::Run | Act::Quit => rank.holds = false,
                        _ => {}
                    }
                    self.records.push_back((r as u32, id, rank.step));
                } else if rank.quit || rank.gate.is_none_or(|g| rank.step < g) {
                    self.pass(r);
                }
            }
            GatePlace::Done => {}
        }
    }

    fn pass(&mut self, r: usize) {
        // One alone is not held to a step: it carries an act out at the first head where it hears of it.
        let alone = self.ranks.len() == 1;
        let rank = &mut self.ranks[r];
        for (id, n) in &self.confirmed {
            assert!(
                alone || *n > rank.step || rank.applied.contains_key(id) || rank.quit,
                "rank {r} passes step {} over act {id}, confirmed for {n}",
                rank.step
            );
        }
        rank.next = rank.step + 1;
        rank.at = GatePlace::Computing;
    }

    fn settle(&mut self) {
        for _ in 0..200_000 {
            self.owner(None);
            for r in 0..self.ranks.len() {
                self.rank(r);
                self.line(r);
            }
            let has_come = self.ranks.iter().all(|r| !r.orphan);
            let quiet = has_come && self.ahead.is_empty() && self.look.is_none() && self.records.is_empty();
            if quiet && self.has_heard() {
                let seen: Vec<Seen> = self
                    .ranks
                    .iter()
                    .enumerate()
                    .map(|(r, k)| Seen { rank: r as u32, step: k.as_seen() })
                    .collect();
                if self
                    .ranks
                    .iter()
                    .all(|r| r.at == GatePlace::Done || (r.at == GatePlace::AtGate && r.mail.is_empty()))
                {
                    self.tell(|s, out| s.looked(&seen, out));
                    // It may confirm what the heart had not looked for yet.
                    if self.ahead.is_empty() {
                        return;
                    }
                }
            }
        }
        panic!("the ranks come to no rest");
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Run),
        Just(Act::Stop),
        (1u64..4).prop_map(|n| Act::Step { n }),
        Just(Act::Save),
        Just(Act::Run),
    ]
}

#[derive(Clone, Debug)]
enum Move {
    Rank(usize),
    Line(usize),
    Owner,
    Act(Act),
    Die,
}

fn moves(size: usize) -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        8 => (0..size).prop_map(Move::Rank),
        4 => (0..size).prop_map(Move::Line),
        8 => Just(Move::Owner),
        1 => act().prop_map(Move::Act),
        1 => Just(Move::Die),
    ];
    prop::collection::vec(one, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_rank_applies_each_act_at_the_same_step(
        (size, start, play, quits, dies) in (1usize..5, 0i64..3, any::<bool>(), any::<bool>())
            .prop_flat_map(|(n, s, q, d)| (Just(n), Just(s * 50), moves(n), Just(q), Just(d)))
    ) {
        // An owner's death ends the sessions of ranks on other hosts.
        let mut world = World::new(size, start, start + 60, !dies);
        for m in play {
            match m {
                Move::Rank(r) => world.rank(r % size),
                Move::Line(r) => world.line(r % size),
                Move::Owner => world.owner(None),
                Move::Act(act) => world.owner(Some(act)),
                Move::Die if dies => world.die(),
                Move::Die => {}
            }
        }
        world.settle();
        let holds = |(act, _): &&(Act, Option<i64>)| matches!(act, Act::Run | Act::Stop | Act::Step { .. });
        let is_held = world.log.values().rev().find(holds).is_some_and(|(act, _)| *act != Act::Run);
        for rank in &world.ranks {
            prop_assert!(rank.at == GatePlace::Done || is_held, "a rank waits though nobody holds it");
        }
        let end = if quits { Act::Quit } else { Act::Run };
        let over = world.steering.is_over();
        prop_assert_eq!(world.act(end).is_err(), over, "behind the loop nothing is taken");
        world.settle();
        for rank in &world.ranks {
            prop_assert!(rank.at == GatePlace::Done || quits && rank.quit, "a rank is left at its gate: {:?}", rank.at);
        }
        let ids: Vec<u64> = world.ranks.iter().flat_map(|r| r.applied.keys().copied()).collect();
        for id in ids {
            // Ranks whose loops were over carry nothing out.
            let steps: Vec<&i64> = world.ranks.iter().filter_map(|r| r.applied.get(&id)).collect();
            let on = world.ranks.iter().all(|r| r.at == GatePlace::Done || r.applied.contains_key(&id));
            prop_assert!(on && steps.windows(2).all(|w| w[0] == w[1]), "act {id} at steps {steps:?}");
            prop_assert_eq!(world.acks.get(&id), Some(steps[0]), "act {} is acknowledged for its step", id);
        }
    }
}
