//! Servers that are killed, stopped and continued at random moments while calls run: the moments
//! come from a seed, which is printed; `FOREBAY_SEED` repeats one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Client, Future, Guarded, Value};
use forebay_types::Code;
use rustix::process::Signal;

use crate::roles::{Serving, World, stir, until};

/// Acts of violence of one test; more, if none of them hit a call.
const ACTS: usize = 10;
/// Long enough for a stopped server to be found on any machine; calls do not wait for more.
const PATIENCE: Duration = Duration::from_secs(20);

/// Numbers from a seed (xorshift).
pub struct Dice(u64);

impl Dice {
    pub fn from_seed() -> Dice {
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|s| s.parse().ok());
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1;
        let seed = given.unwrap_or_else(clock);
        println!("FOREBAY_SEED={seed}");
        Dice(seed)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The servers of the test. One that is neither killed nor stopped is always among them.
pub struct Herd<'w> {
    world: &'w World,
    living: Vec<Serving>,
    stopped: Vec<Serving>,
    born: usize,
}

impl<'w> Herd<'w> {
    pub fn new(world: &'w World) -> Herd<'w> {
        Herd { world, living: Vec::new(), stopped: Vec::new(), born: 0 }
    }

    pub fn grow(&mut self) {
        self.born += 1;
        self.living.push(self.world.server(&format!("s{}", self.born), 2));
    }

    /// Hurts one of them, and makes up for it.
    pub fn act(&mut self, dice: &mut Dice) {
        let victim = self.living.swap_remove(dice.below(self.living.len() as u64) as usize);
        match dice.below(3) {
            // Over the network each would cost the seconds of its silence.
            0 if !crate::OVER_NETWORK => {
                victim.signal(Signal::STOP);
                self.stopped.push(victim);
            }
            _ => victim.signal(Signal::KILL),
        }
        match self.stopped.is_empty() || dice.below(3) > 0 {
            true => self.grow(),
            false => {
                let back = self.stopped.remove(0);
                back.signal(Signal::CONT);
                self.living.push(back);
            }
        }
    }
}

/// What the calls of a test are to give, and gave.
struct Chain {
    number: i64,
    length: i64,
    expected: Vec<f64>,
    values: Vec<f64>,
    reissued: HashMap<i64, u32>,
}

impl Chain {
    fn new(number: i64, elements: usize) -> Chain {
        let values: Vec<f64> = (0..elements).map(|i| i as f64 / 7.0).collect();
        Chain { number, length: 0, expected: values.clone(), values, reissued: HashMap::new() }
    }

    /// Sends the next call of it; every call has a number of its own.
    fn send<'a>(client: &Client, id: i64, values: &'a mut [f64], ms: i64) -> Future<'a> {
        client.call_async("stir", vec![id.into(), ms.into(), Arg::from(values)], None).unwrap()
    }

    fn next_id(&mut self) -> i64 {
        self.length += 1;
        let id = self.number << 32 | self.length;
        stir(id, &mut self.expected);
        id
    }

    fn compare(&self) {
        let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&self.expected) == bits(&self.values), "chain {} has another result", self.number);
    }
}

/// Every call was executed at most once by each server, and by as many as it was sent to.
fn each_at_most_once(world: &World, chains: &[Chain]) {
    let mut executions: HashMap<String, u32> = HashMap::new();
    let mut by_each: HashMap<String, u32> = HashMap::new();
    for line in world.log() {
        let (_, id) = line.split_once(' ').unwrap();
        *executions.entry(id.to_owned()).or_default() += 1;
        *by_each.entry(line).or_default() += 1;
    }
    assert!(by_each.values().all(|n| *n == 1), "a server executed a call twice: {by_each:?}");
    for chain in chains {
        for n in 1..=chain.length {
            let id = chain.number << 32 | n;
            let (times, again) = (executions[&format!("stir-{id}")], chain.reissued[&id]);
            assert!(
                times <= 1 + again,
                "call {id} was executed {times} times and issued {again} times again"
            );
        }
    }
}

#[test]
fn servers_hurt_at_random_moments_change_no_bit_and_none_runs_a_call_twice() {
    let world = World::new();
    let mut dice = Dice::from_seed();
    let mut herd = Herd::new(&world);
    (0..3).for_each(|_| herd.grow());
    // One goes in a frame, the others in blocks of the segment.
    let mut chains = [Chain::new(1, 100), Chain::new(2, 3_000), Chain::new(3, 50_000)];
    let client = world.client();
    let (over, hit) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut pace = Dice(dice.below(u64::MAX) | 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for act in 0.. {
                if act >= ACTS && (hit.load(Ordering::SeqCst) || act >= 10 * ACTS) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(dice.below(250)));
                herd.act(&mut dice);
            }
            over.store(true, Ordering::SeqCst);
        });
        while !over.load(Ordering::SeqCst) {
            let ids: Vec<i64> = chains.iter_mut().map(Chain::next_id).collect();
            let under_way = chains.iter_mut().zip(&ids);
            let mut calls: Vec<Future> = under_way
                .map(|(c, id)| Chain::send(&client, *id, &mut c.values, pace.below(12) as i64))
                .collect();
            for call in &mut calls {
                call.wait(Some(PATIENCE)).unwrap();
            }
            let again: Vec<u32> = calls.iter().map(|c| c.timing().reissued).collect();
            drop(calls);
            for ((chain, id), again) in chains.iter_mut().zip(ids).zip(again) {
                chain.reissued.insert(id, again);
                hit.fetch_or(again > 0, Ordering::SeqCst);
            }
        }
    });
    chains.iter().for_each(Chain::compare);
    each_at_most_once(&world, &chains);
    assert!(hit.into_inner(), "no call was hit");
}

#[test]
fn who_wants_to_be_told_the_end_of_a_call_is_told_that_of_the_second_server() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let (tell, told) = std::sync::mpsc::channel();
    for tag in ["x", "y"] {
        let tell = tell.clone();
        let call = client.call_async("work", vec![tag.into(), 300i64.into()], None).unwrap();
        client.notify(call, move |values| tell.send(values.unwrap()).unwrap()).unwrap();
    }
    until("both begin", || world.log().len() == 2);
    servers[0].signal(Signal::KILL);
    let second = [Value::Scalar(servers[1].pid().into())];
    assert!((0..2).all(|_| told.recv_timeout(PATIENCE).unwrap() == second));
    // The thread that told has nothing to do and is gone; another one comes.
    let call = client.call_async("pid", vec![], None).unwrap();
    client.notify(call, move |values| tell.send(values.unwrap()).unwrap()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), second);
    client.unwatch();
}

#[test]
fn what_a_stopped_server_does_when_it_goes_on_changes_nothing_any_more() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut values = vec![0.5; 10_000];
    let mut expected = values.clone();
    stir(7, &mut expected);
    let begun = || world.log().into_iter().find(|l| l.ends_with(" stir-7"));
    let mut call = Chain::send(&client, 7, &mut values, 300);
    until("the call begins", || begun().is_some());
    let first = servers.iter().find(|s| begun().unwrap().starts_with(&format!("{} ", s.pid()))).unwrap();
    first.signal(Signal::STOP);
    call.wait(Some(PATIENCE)).unwrap();
    assert_eq!(call.timing().reissued, 1);
    drop(call);
    assert!(values == expected);
    // It ends what it had begun, into memory that nobody looks at, and is a server as before.
    first.signal(Signal::CONT);
    until("it works again", || {
        let fresh = world.client();
        let served = (0..2).map(|_| fresh.call("pid", vec![], None).unwrap());
        served.into_iter().any(|values| values[0] == Value::Scalar(first.pid().into()))
    });
    assert!(values == expected);
    assert_eq!(world.log().len(), 2, "{:?}", world.log());
}

#[test]
fn a_server_that_computes_on_every_core_for_seconds_is_not_taken_for_dead() {
    let world = World::new();
    let _servers = [world.server("one", 4), world.server("two", 1)];
    let client = world.client();
    let began = Instant::now();
    let mut calls: Vec<Future> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|tag| client.call_async("burn", vec![tag.into(), 2_500i64.into()], None).unwrap())
        .collect();
    calls.iter_mut().for_each(|c| drop(c.wait(Some(PATIENCE)).unwrap()));
    assert!(began.elapsed() >= Duration::from_millis(2_500));
    assert!(calls.iter().all(|c| c.timing().reissued == 0));
    assert_eq!(world.log().len(), 4, "{:?}", world.log());
}

/// A call that a binding holds: nobody waits for it.
struct Unattended(Mutex<Future<'static>>);

impl Guarded for Unattended {
    fn tend(&self) -> bool {
        self.0.try_lock().is_ok_and(|mut call| call.tend())
    }
}

#[test]
fn a_call_that_nobody_waits_for_is_issued_again_at_once_when_its_server_dies() {
    let world = World::new();
    let mut servers = vec![world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let call = client.call_async("work", vec!["x".into(), 2_000i64.into()], None).unwrap();
    let call = Arc::new(Unattended(Mutex::new(call)));
    client.guard(&call);
    until("it begins", || world.log().len() == 1);
    let first = world.log()[0].split(' ').next().unwrap().parse::<i64>().unwrap();
    let at = servers.iter().position(|s| s.pid() == first).unwrap();
    servers.remove(at).signal(Signal::KILL);
    until("it begins elsewhere", || world.log().len() == 2);
    // One that comes when all have gone gets it, too.
    servers.remove(0).signal(Signal::KILL);
    let third = world.server("three", 1);
    until("it begins at the new one", || world.log().len() == 3);
    let mut call = call.0.lock().unwrap();
    assert_eq!(call.wait(Some(PATIENCE)).unwrap(), [Value::Scalar(third.pid().into())]);
    assert_eq!(call.timing().reissued, 2);
}

#[test]
fn a_call_under_which_three_servers_died_is_given_up_by_name_and_the_others_are_done() {
    const CALLS: i64 = 12;
    let world = World::new();
    let mut servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    client.patience(PATIENCE);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Whoever dies is started again.
        scope.spawn(|| {
            let mut dead = 0;
            while !over.load(Ordering::SeqCst) {
                for server in servers.iter_mut() {
                    if server.has_ended() {
                        dead += 1;
                        *server = world.server(&format!("again-{dead}"), 1);
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut calls: Vec<Future> = (0..CALLS)
            .map(|n| client.call_async("falter", vec![n.into(), 5i64.into()], None).unwrap())
            .collect();
        let outcomes: Vec<_> = calls.iter_mut().map(|call| call.wait(Some(PATIENCE))).collect();
        over.store(true, Ordering::SeqCst);
        for (n, outcome) in outcomes.iter().enumerate() {
            match (n, outcome) {
                (5, Err(e)) => {
                    assert_eq!(e.code(), Code::Poisoned, "{e}");
                    assert!(e.text().contains("falter: 3 servers died"), "{e}");
                }
                (5, Ok(_)) => panic!("the deadly one is done"),
                (_, outcome) => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
            }
        }
    });
}
