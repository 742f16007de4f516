//! Servers and brokers that die or stop.

use std::time::{Duration, Instant};

use forebay_client::call::Value;
use forebay_types::directory::{BrokerRequest, Incarnation};
use forebay_types::{Code, Scalar};
use rustix::process::Signal;

use crate::roles::{Serving, World, until};

/// Two seconds are promised, three without a word over the network; a machine busy with other tests is given more.
const LATE: Duration = Duration::from_secs(if crate::OVER_NETWORK { 8 } else { 5 });

fn begun(world: &World, tag: &str) -> Option<i64> {
    let line = world.log().into_iter().find(|l| l.ends_with(&format!(" {tag}")))?;
    line.split(' ').next()?.parse().ok()
}

/// Begins a piece of work and says who has it and who has not.
fn in_work<'s>(world: &World, servers: &'s [Serving; 2], tag: &str) -> (&'s Serving, &'s Serving) {
    until("the work begins", || begun(world, tag).is_some());
    let pid = begun(world, tag).unwrap();
    match servers[0].pid() == pid {
        true => (&servers[0], &servers[1]),
        false => (&servers[1], &servers[0]),
    }
}

#[test]
fn a_call_whose_server_is_killed_is_done_by_the_other_one_and_once_by_each() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut call = client.call_async("work", vec!["hit".into(), 400i64.into()], None).unwrap();
    let (first, second) = in_work(&world, &servers, "hit");
    first.signal(Signal::KILL);
    let values = call.wait(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(values, [Value::Scalar(Scalar::from(second.pid()))]);
    assert_eq!(call.timing().reissued, 1);
    let log = world.log();
    assert_eq!(log.len(), 2, "once by each: {log:?}");
    // The broker knows: the next calls go to the living one only.
    for _ in 0..4 {
        client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    }
    assert_eq!(client.services().unwrap()[0].servers.len(), 1);
}

#[test]
fn late_news_of_a_server_that_died_does_not_touch_the_one_that_was_started_in_its_place() {
    let world = World::new();
    let first = world.server("one", 1);
    let (client, sleeper) = (world.client(), world.client());
    for each in [&client, &sleeper] {
        each.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    }
    let lives = || -> Vec<Incarnation> {
        let services = client.services().unwrap();
        services.first().map(|s| s.servers.iter().map(|s| s.incarnation).collect()).unwrap_or_default()
    };
    let old = lives();
    first.signal(Signal::KILL);
    until("it is gone", || lives().is_empty());
    let _second = world.server("one", 1);
    let new = lives();
    assert_eq!((old.len(), new.len()), (1, 1));
    assert_ne!(old, new);
    // Others tell of the old one only now; one of them finds out by calling it.
    let mut wire = world.locator().connect("client", Duration::from_secs(2)).unwrap();
    let died = BrokerRequest::Died { incarnation: old[0], how: "SIGKILL".into(), withdrawn: Vec::new() };
    for news in [BrokerRequest::Failed { incarnation: old[0] }, died] {
        wire.ask_with(&news, &[], Duration::from_secs(2)).unwrap();
        assert_eq!(lives(), new);
    }
    sleeper.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    assert_eq!(lives(), new);
}

#[test]
fn results_are_whole_when_a_server_dies_between_calls_with_large_arrays() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let x = vec![1.0; 300_000];
    for round in 0..30 {
        if round == 15 {
            servers[0].signal(Signal::KILL);
        }
        let mut y = vec![f64::from(round); 300_000];
        let args = vec![2.0.into(), x[..].into(), y[..].as_mut().into()];
        client.call("axpy", args, Some(Duration::from_secs(10))).unwrap();
        assert!(y.iter().all(|y| *y == f64::from(round) + 2.0));
    }
}

#[test]
fn a_service_with_effects_is_never_run_twice() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut call = client.call_async("order_once", vec!["dear".into(), 60_000i64.into()], None).unwrap();
    let (first, _) = in_work(&world, &servers, "dear");
    first.signal(Signal::KILL);
    let e = call.wait(Some(Duration::from_secs(10))).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost);
    assert!(e.text().contains("has effects") && e.text().contains(&format!("pid {}", first.pid())), "{e}");
    assert_eq!(world.log().len(), 1);
}

#[test]
fn without_another_server_the_loss_is_told_with_its_pid() {
    let world = World::new();
    let server = world.server("only", 1);
    let client = world.client();
    let mut call = client.call_async("work", vec!["lone".into(), 60_000i64.into()], None).unwrap();
    until("the work begins", || begun(&world, "lone").is_some());
    server.signal(Signal::KILL);
    let began = Instant::now();
    let e = call.wait(None).unwrap_err();
    assert!(began.elapsed() < LATE, "told after {:?}", began.elapsed());
    assert_eq!(e.code(), Code::ServerLost);
    assert!(e.text().contains(&format!("server \"only\" (pid {})", server.pid())), "{e}");
}

#[test]
fn a_stopped_server_is_told_from_a_busy_one() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    // Busy for longer than a stopped heart is tolerated: nothing happens to it.
    let busy = client.call("work", vec!["busy".into(), 3_000i64.into()], None).unwrap();
    assert_eq!(world.log().len(), 1, "{busy:?}");
    let mut call = client.call_async("work", vec!["stop".into(), 300i64.into()], None).unwrap();
    let (first, second) = in_work(&world, &servers, "stop");
    first.signal(Signal::STOP);
    let began = Instant::now();
    let values = call.wait(Some(Duration::from_secs(20))).unwrap();
    assert!(began.elapsed() < LATE, "noticed after {:?}", began.elapsed());
    assert_eq!(values, [Value::Scalar(Scalar::from(second.pid()))]);
    // It comes back by itself when it goes on.
    first.signal(Signal::CONT);
    until("the stopped server is offered again", || {
        client
            .services()
            .unwrap()
            .iter()
            .any(|s| s.signature.name().as_str() == "void" && s.servers.len() == 2)
    });
}

#[test]
fn a_broker_that_is_gone_changes_nothing_for_known_names_and_a_new_one_learns_of_all() {
    let mut world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    client.call("void", vec![], None).unwrap();
    drop(world.broker.take());
    let began = Instant::now();
    // Longer than the table counts as fresh.
    while began.elapsed() < Duration::from_millis(2_500) {
        client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    }
    let e = client.call("unheard", vec![], None).unwrap_err();
    assert_eq!(e.code(), Code::NoServer);
    assert!(e.text().contains("no broker answers"), "{e}");
    world.start_broker();
    until("both servers announce themselves to the new broker", || {
        client.services().unwrap().first().is_some_and(|s| s.servers.len() == 2)
    });
}

#[test]
fn without_a_broker_a_client_is_told_what_to_do() {
    let world = World::new();
    let nowhere = forebay_link::Locator::at(Some(&world.dir.path().join("nobody.sock")));
    let e = forebay_client::call::Client::connect(nowhere).map(drop).unwrap_err();
    assert_eq!(e.code(), Code::NoServer);
    assert!(e.text().contains("forebay up"), "{e}");
}
