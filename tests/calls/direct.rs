//! Calls that are known to be short: their callers look for the replies themselves, until one is not what it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Called, Client, Future, Value};
use forebay_server::Server;
use forebay_types::{Code, Result};
use rustix::process::Signal;

use crate::roles::{Serving, World, until};

/// So many calls make a service known.
const KNOWN: i64 = 200;

fn linger(client: &Client, service: &str, ms: i64) -> Result<i64> {
    match client.call(service, vec![ms.into()], None)?.as_slice() {
        [Value::Scalar(pid)] => Ok(pid.as_i64().unwrap()),
        other => panic!("{other:?}"),
    }
}

fn make_known(client: &Client, service: &str) {
    (0..KNOWN).for_each(|_| assert!(linger(client, service, 0).unwrap() > 0));
}

/// `n`, `k` and what `divide` makes of them.
fn divide(client: &Client, n: i32, k: i64) {
    let found = client.call("divide", vec![n.into(), k.into()], None).unwrap();
    let raw = k.to_le_bytes().to_vec();
    let words = format!("{k} durch {n} macht …");
    let n = i64::from(n);
    let (whole, rest) = (Value::Scalar((k / n).into()), Value::Scalar(((k % n) as i32).into()));
    assert_eq!(found, [whole, rest, Value::Str(words), Value::Bytes(raw)]);
}

#[test]
fn a_short_call_that_takes_long_for_once_or_fails_ends_like_any_other() {
    let world = World::new();
    let mut one = world.server("one", 1);
    let client = world.client();
    make_known(&client, "linger");
    assert_eq!(linger(&client, "linger", 30).unwrap(), one.pid());
    let failed = linger(&client, "linger", -1).unwrap_err();
    assert_eq!(failed.code(), Code::RemoteError);
    assert!(failed.text().contains("a negative time"), "{failed}");
    let kept = client.failed();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].code, kept[0].service.as_str()), (Code::RemoteError, "linger"));
    make_known(&client, "linger");
    // It is known still, and offered by another one only.
    let two = world.server("two", 1);
    one.tell("remove linger");
    until("the service moves", || linger(&client, "linger", 0).is_ok_and(|pid| pid == two.pid()));
}

fn kill_who_lingers(world: &World, servers: &[&Serving], ms: i64) {
    let tag = format!("linger-{ms}");
    let mut found = None;
    until("it begins", || {
        found = world.log().iter().find_map(|line| line.strip_suffix(&tag)?.trim().parse::<i64>().ok());
        found.is_some()
    });
    let server = servers.iter().find(|server| Some(server.pid()) == found).unwrap();
    server.signal(Signal::KILL);
}

#[test]
fn a_short_call_whose_server_dies_in_it_is_issued_again_unless_it_has_effects() {
    let world = World::new();
    let (one, two) = (world.server("one", 1), world.server("two", 1));
    let client = world.client();
    for (service, ms) in [("linger", 3_001), ("linger_once", 60_001)] {
        make_known(&client, service);
        let third = (service == "linger_once").then(|| world.server("three", 1));
        let ended = std::thread::scope(|scope| {
            let call = scope.spawn(|| linger(&client, service, ms));
            let servers: Vec<&Serving> = [&one, &two].into_iter().chain(&third).collect();
            kill_who_lingers(&world, &servers, ms);
            call.join().unwrap()
        });
        let begun = world.log().iter().filter(|line| line.ends_with(&format!("linger-{ms}"))).count();
        match service {
            "linger" => assert!(ended.is_ok() && begun == 2, "{ended:?}, begun {begun} times"),
            _ => assert!(
                ended.as_ref().is_err_and(|e| e.code() == Code::ServerLost) && begun == 1,
                "{ended:?}, begun {begun} times"
            ),
        }
    }
}

#[test]
fn short_calls_of_many_threads_and_calls_under_way_get_each_its_own_results() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    (0..KNOWN).for_each(|k| divide(&client, 7, k));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let mut arrays = [[1.0; 8]; 16];
                let mut calls: Vec<Future> = (0u32..)
                    .zip(&mut arrays)
                    .map(|(i, y)| {
                        let args = vec![2.0.into(), f64::from(i).into(), Arg::from(&mut y[..])];
                        client.call_async("affine", args, None).unwrap()
                    })
                    .collect();
                calls.iter_mut().for_each(|call| assert!(call.wait(None).unwrap().is_empty()));
                drop(calls);
                assert!((0u32..).zip(arrays).all(|(i, y)| y == [2.0 + f64::from(i); 8]));
            }
        });
        let threads: Vec<_> = (1..=4)
            .map(|n| {
                let client = &client;
                scope.spawn(move || (0..3_000).for_each(|k| divide(client, n, k)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        over.store(true, Ordering::Relaxed);
        others.join().unwrap();
    });
}

#[test]
fn a_service_whose_first_call_was_slow_is_known_as_a_short_one_soon() {
    let world = World::new();
    let is_warm = AtomicBool::new(false);
    let warm = move |_: &mut _| {
        let begun = Instant::now();
        while !is_warm.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_micros(12) {
            std::hint::spin_loop();
        }
        is_warm.store(true, Ordering::Relaxed);
        Ok(())
    };
    let _server = Server::new("here").service("warm()", warm).unwrap().start(world.locator()).unwrap();
    let client = world.client();
    let is_over = || match client.call_now("warm", vec![]).unwrap() {
        Called::Over(answer) => answer.values.is_empty(),
        Called::UnderWay(mut call) => !call.wait(None).unwrap().is_empty(),
    };
    // Over the network no caller looks for a reply himself; on a busy machine some do not find it.
    let over = (0..4_000).filter(|_| is_over()).count();
    assert!(over > 0 || !crate::SHARED_MEMORY, "{over}");
}

#[test]
fn more_services_and_threads_than_are_prepared_for_get_each_its_own_results_until_the_client_is_closed() {
    let world = World::new();
    let mut server = Server::new("here");
    for n in 0..12i64 {
        let adds = server.service(&format!("s{n}(in k:i64, out sum:i64)"), move |call| {
            let [k, mut sum] = call.args()?;
            sum.set(k.i64()? + n)
        });
        server = adds.unwrap();
    }
    let _server = server.start(world.locator()).unwrap();
    let client = world.client();
    let tied = client.on(forebay_client::call::Only::Name("here".into()));
    std::thread::scope(|scope| {
        for thread in 0..10i64 {
            let client = if thread % 2 == 0 { &client } else { &tied };
            scope.spawn(move || {
                for k in 0..600 {
                    let n = (k * 5 + thread) % 12;
                    let found = client.call(&format!("s{n}"), vec![k.into()], None).unwrap();
                    assert_eq!(found, [Value::Scalar((k + n).into())]);
                }
            });
        }
    });
    client.close();
    for client in [&client, &tied] {
        assert_eq!(client.call("s1", vec![1i64.into()], None).unwrap_err().code(), Code::Closed);
    }
}
