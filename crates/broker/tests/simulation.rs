//! Servers, clients and failures in random order against a model of what must hold: the table
//! holds exactly the servers that announced themselves and did not leave, die, fail or fall silent.

use std::collections::BTreeMap;

use forebay_broker::{Action, Broker, Event, Gone, Peer};
use forebay_types::directory::{BrokerRequest, Directory, Incarnation, LEASE_MS, Load, ServerInfo};
use forebay_types::usage::Usage;
use forebay_types::{Code, Error};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const LEASE: u64 = LEASE_MS * 1_000_000;

fn info(id: u64) -> ServerInfo {
    ServerInfo {
        name: format!("server{id}"),
        incarnation: Incarnation(id),
        pid: id as u32,
        host: "here".into(),
        socket: format!("/run/{id}.sock"),
        services: vec!["axpy(in a:f64, in x:f64[n], inout y:f64[n])".into()],
        place: String::new(),
        listens: None,
        lease_ms: 0,
        room: 0,
        workers: 1,
        supervised: false,
    }
}

fn ask(broker: &mut Broker, now: u64, peer: u64, request: BrokerRequest) -> Result<serde_json::Value, Error> {
    let actions = broker.handle(now, Event::Request { peer: Peer(peer), request });
    let answers: Vec<_> = actions
        .into_iter()
        .filter_map(|a| match a {
            Action::Answer { peer: p, answer } if p == Peer(peer) => Some(answer),
            Action::Answer { .. } => panic!("an answer to somebody else"),
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), 1, "each request is answered once");
    answers.into_iter().next().unwrap()
}

fn directory(broker: &mut Broker, now: u64) -> Directory {
    serde_json::from_value(ask(broker, now, 99, BrokerRequest::Directory).unwrap()).unwrap()
}

#[test]
fn a_name_offered_with_another_signature_is_refused_naming_the_other() {
    let mut broker = Broker::new();
    ask(&mut broker, 0, 1, BrokerRequest::Announce(info(1))).unwrap();
    let other = ServerInfo { services: vec!["axpy(in a:f32)".into()], ..info(2) };
    let e = ask(&mut broker, 0, 2, BrokerRequest::Announce(other.clone())).unwrap_err();
    assert_eq!(e.code(), Code::Conflict);
    assert!(e.text().contains("server1") && e.text().contains("axpy(in a:f32)"), "{e}");
    broker.handle(0, Event::Lost { peer: Peer(1) });
    ask(&mut broker, 0, 2, BrokerRequest::Announce(other)).unwrap();
}

#[test]
fn a_faulty_announcement_is_refused() {
    let mut broker = Broker::new();
    let faulty = ServerInfo { services: vec!["axpy(in a:float)".into()], ..info(1) };
    assert_eq!(
        ask(&mut broker, 0, 1, BrokerRequest::Announce(faulty)).unwrap_err().code(),
        Code::BadArgument
    );
    let long = ServerInfo { socket: "x".repeat(200), ..info(1) };
    assert_eq!(ask(&mut broker, 0, 1, BrokerRequest::Announce(long)).unwrap_err().code(), Code::BadArgument);
    assert!(!broker.has_servers());
}

#[test]
fn a_broker_that_was_stopped_does_not_take_its_own_silence_for_a_death() {
    let mut broker = Broker::new();
    ask(&mut broker, 0, 1, BrokerRequest::Announce(info(1))).unwrap();
    assert!(broker.handle(60 * SECOND, Event::Tick).is_empty());
    let mut left = Vec::new();
    for s in 61..70 {
        left.extend(broker.handle(s * SECOND, Event::Tick));
    }
    assert_eq!(
        left,
        [Action::Left { incarnation: Incarnation(1), name: "server1".into(), why: Gone::Expired }]
    );
}

#[test]
fn the_end_of_an_old_connection_does_not_remove_a_server_that_came_back_on_a_new_one() {
    let mut broker = Broker::new();
    ask(&mut broker, 0, 1, BrokerRequest::Announce(info(1))).unwrap();
    ask(&mut broker, 0, 2, BrokerRequest::Announce(info(1))).unwrap();
    broker.handle(0, Event::Lost { peer: Peer(1) });
    assert_eq!(directory(&mut broker, 0).servers.len(), 1);
    let e = ask(&mut broker, 0, 3, BrokerRequest::Withdraw { incarnation: Incarnation(1) }).unwrap_err();
    assert_eq!(e.code(), Code::Refused);
}

#[test]
fn what_comes_late_about_a_server_that_died_does_not_touch_the_one_that_was_started_in_its_place() {
    let mut broker = Broker::new();
    ask(&mut broker, 0, 1, BrokerRequest::Announce(info(1))).unwrap();
    broker.handle(0, Event::Lost { peer: Peer(1) });
    // The same name and pid, the same socket, another life.
    let again = ServerInfo { incarnation: Incarnation(7), ..info(1) };
    ask(&mut broker, 0, 2, BrokerRequest::Announce(again.clone())).unwrap();
    let before = directory(&mut broker, 0);
    let old = Incarnation(1);
    let died = BrokerRequest::Died { incarnation: old, how: "SIGSEGV".into(), withdrawn: Vec::new() };
    for (peer, news) in [(50, BrokerRequest::Failed { incarnation: old }), (51, died)] {
        ask(&mut broker, 0, peer, news).unwrap();
    }
    ask(&mut broker, 0, 1, BrokerRequest::Withdraw { incarnation: old }).unwrap();
    let late = BrokerRequest::Heartbeat { incarnation: old, load: Load::default() };
    assert_eq!(ask(&mut broker, 0, 2, late).unwrap(), false);
    broker.handle(0, Event::Lost { peer: Peer(1) });
    let now = directory(&mut broker, 0);
    assert_eq!((now.servers, now.version), (before.servers, before.version));
    // How the old one died is told of the old one alone.
    let how = |broker: &mut Broker, incarnation| {
        ask(broker, 0, 99, BrokerRequest::HowDied { incarnation }).unwrap()
    };
    assert_eq!(how(&mut broker, old), "SIGSEGV");
    assert_eq!(how(&mut broker, Incarnation(7)), serde_json::Value::Null);
}

#[test]
fn that_a_service_was_withdrawn_once_is_forgotten_when_it_is_offered_again() {
    let mut broker = Broker::new();
    let why = |broker: &mut Broker| {
        ask(broker, 0, 99, BrokerRequest::Withdrawn { service: "axpy".into() }).unwrap()
    };
    let died = |n| BrokerRequest::Died {
        incarnation: Incarnation(n),
        how: "SIGSEGV in axpy".into(),
        withdrawn: vec!["axpy".into(), "other".into()],
    };
    ask(&mut broker, 0, 1, died(1)).unwrap();
    assert_eq!(why(&mut broker), "SIGSEGV in axpy");
    ask(&mut broker, 0, 2, BrokerRequest::Announce(info(2))).unwrap();
    ask(&mut broker, 0, 2, BrokerRequest::Withdraw { incarnation: Incarnation(2) }).unwrap();
    assert_eq!(why(&mut broker), serde_json::Value::Null);
}

#[test]
fn clients_begin_their_rounds_at_different_servers() {
    let mut broker = Broker::new();
    let turns: Vec<u64> = (0..3).map(|_| directory(&mut broker, 0).turn).collect();
    assert_eq!(turns, [1, 2, 3]);
}

#[derive(Clone, Debug)]
enum Step {
    Announce(u64),
    Heartbeat(u64),
    Withdraw(u64),
    Failed(u64),
    Lost(u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 1u64..6;
    prop_oneof![
        3 => id.clone().prop_map(Step::Announce),
        4 => id.clone().prop_map(Step::Heartbeat),
        1 => id.clone().prop_map(Step::Withdraw),
        1 => id.clone().prop_map(Step::Failed),
        1 => id.prop_map(Step::Lost),
        4 => (1u64..2_400).prop_map(|ms| Step::Wait(ms * 1_000_000)),
    ]
}

proptest! {
    #[test]
    fn the_table_is_what_the_events_make_of_it(steps in proptest::collection::vec(step(), 1..200)) {
        let mut broker = Broker::new();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        let mut now = 0u64;
        let mut last_version = 0;
        for step in steps {
            match step {
                Step::Wait(ns) => {
                    now += ns;
                    broker.handle(now, Event::Tick);
                    model.retain(|_, heard| now - *heard <= LEASE);
                }
                Step::Announce(id) => {
                    ask(&mut broker, now, id, BrokerRequest::Announce(info(id))).unwrap();
                    model.insert(id, now);
                }
                Step::Heartbeat(id) => {
                    let load = Load { running: 1, queued: 2, served: now };
                    let request = BrokerRequest::Heartbeat { incarnation: Incarnation(id), load };
                    let known = ask(&mut broker, now, id, request).unwrap();
                    prop_assert_eq!(known, model.contains_key(&id));
                    if let Some(heard) = model.get_mut(&id) {
                        *heard = now;
                    }
                }
                Step::Withdraw(id) => {
                    ask(&mut broker, now, id, BrokerRequest::Withdraw { incarnation: Incarnation(id) }).unwrap();
                    model.remove(&id);
                }
                Step::Failed(id) => {
                    ask(&mut broker, now, 50, BrokerRequest::Failed { incarnation: Incarnation(id) }).unwrap();
                    model.remove(&id);
                }
                Step::Lost(id) => {
                    broker.handle(now, Event::Lost { peer: Peer(id) });
                    model.remove(&id);
                }
            }
            let table = directory(&mut broker, now);
            let mut listed: Vec<u64> = table.servers.iter().map(|s| s.info.incarnation.0).collect();
            listed.sort();
            prop_assert_eq!(listed, model.keys().copied().collect::<Vec<_>>());
            prop_assert!(table.version >= last_version);
            last_version = table.version;
        }
    }
}

#[test]
fn the_successor_of_a_broker_that_died_says_for_two_heartbeats_that_servers_may_be_missing() {
    let mut broker = Broker::succeeding(5 * SECOND);
    ask(&mut broker, 5 * SECOND, 1, BrokerRequest::Announce(info(1))).unwrap();
    assert!(directory(&mut broker, 6 * SECOND).settling);
    assert!(!directory(&mut broker, 7 * SECOND).settling);
    assert!(!directory(&mut Broker::new(), 0).settling);
}

fn usage(calls: u64) -> Usage {
    let mut usage = Usage::default();
    (0..calls).for_each(|_| usage.count(1, None, 1_000));
    usage
}

fn tell(broker: &mut Broker, now: u64, id: u64, calls: u64) -> bool {
    let services = vec![("axpy".to_owned(), usage(calls))];
    ask(broker, now, id, BrokerRequest::Used { incarnation: Incarnation(id), services }).unwrap() == true
}

fn calls(broker: &mut Broker, now: u64) -> u64 {
    let totals = ask(broker, now, 99, BrokerRequest::Usage).unwrap();
    totals["axpy"]["calls"].as_u64().unwrap_or(0)
}

#[test]
fn what_services_have_done_adds_up_over_servers_and_goes_ten_minutes_after_the_last_of_them() {
    let mut broker = Broker::new();
    let mut now = 0;
    for id in [1, 2] {
        ask(&mut broker, now, id, BrokerRequest::Announce(info(id))).unwrap();
        assert!(tell(&mut broker, now, id, 10 * id));
    }
    assert!(!tell(&mut broker, now, 3, 7), "who is not known announces itself first");
    assert_eq!(calls(&mut broker, now), 30);
    // Sums since it began, not what came since the last time; a service that began anew takes nothing away.
    assert!(tell(&mut broker, now, 1, 12) && tell(&mut broker, now, 1, 3));
    assert_eq!(calls(&mut broker, now), 35);
    // A life that is over counts on, and one that was taken for dead by mistake does not count twice.
    broker.handle(now, Event::Lost { peer: Peer(2) });
    ask(&mut broker, now, 50, BrokerRequest::Failed { incarnation: Incarnation(1) }).unwrap();
    assert_eq!(calls(&mut broker, now), 35);
    ask(&mut broker, now, 1, BrokerRequest::Announce(info(1))).unwrap();
    assert!(tell(&mut broker, now, 1, 5));
    assert_eq!(calls(&mut broker, now), 37);
    for _ in 0..599 {
        now += SECOND;
        let beat = BrokerRequest::Heartbeat { incarnation: Incarnation(1), load: Load::default() };
        ask(&mut broker, now, 1, beat).unwrap();
    }
    assert_eq!(calls(&mut broker, now), 37);
    now += SECOND;
    assert_eq!(calls(&mut broker, now), 17);
    // An expired lease and a new announcement may come at once.
    for _ in 0..2 {
        now += LEASE / 2 - 1;
        broker.handle(now, Event::Tick);
    }
    now += SECOND;
    ask(&mut broker, now, 1, BrokerRequest::Announce(info(1))).unwrap();
    for _ in 0..700 {
        now += SECOND;
        let beat = BrokerRequest::Heartbeat { incarnation: Incarnation(1), load: Load::default() };
        ask(&mut broker, now, 1, beat).unwrap();
    }
    assert_eq!(calls(&mut broker, now), 17);
}

#[test]
fn a_server_that_tells_too_much_is_refused_and_what_was_known_stays() {
    let mut broker = Broker::new();
    ask(&mut broker, 0, 1, BrokerRequest::Announce(info(1))).unwrap();
    assert!(tell(&mut broker, 0, 1, 10));
    let too_long = Usage { histogram: vec![0; 41], ..usage(1) };
    for services in [
        vec![("axpy".to_owned(), too_long)],
        vec![("axpy".to_owned(), usage(20)); 65],
        vec![("x".repeat(999), usage(1))],
    ] {
        let told = BrokerRequest::Used { incarnation: Incarnation(1), services };
        assert_eq!(ask(&mut broker, 0, 1, told).unwrap_err().code(), Code::BadArgument);
    }
    assert_eq!(calls(&mut broker, 0), 10);
}
