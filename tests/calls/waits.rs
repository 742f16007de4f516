//! Services that call others, and what must not wait meanwhile.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Client, On, Value};
use forebay_client::run::View;
use forebay_types::{ArrayMeta, Code, DType, Shape};
use rustix::net::RecvFlags;

use crate::roles::{World, until};

fn number(values: &[Value]) -> i64 {
    match values {
        [Value::Scalar(s)] => s.as_i64().unwrap(),
        other => panic!("{other:?}"),
    }
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_service_of_a_server_with_one_worker_calls_its_own_server() {
    let world = World::new();
    let mut server = world.server("one", 1);
    let client = world.client();
    for depth in [1, 12, 3] {
        let sum = client.call("nested", vec![depth.into()], Some(LONG)).unwrap();
        assert_eq!(number(&sum), (depth + 1) * server.pid());
    }
    let mut calls: Vec<_> =
        (0..4i64).map(|depth| client.call_async("nested", vec![depth.into()], None).unwrap()).collect();
    for (depth, call) in calls.iter_mut().enumerate() {
        assert_eq!(number(&call.wait(Some(LONG)).unwrap()), (depth as i64 + 1) * server.pid());
    }
    server.tell("stop");
    assert!(server.end());
}

#[test]
fn a_call_goes_from_one_server_to_another_and_back() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    for _ in 0..5 {
        let sum = number(&client.call("nested", vec![9.into()], Some(LONG)).unwrap());
        let shares = (0..=10).map(|n| n * servers[0].pid() + (10 - n) * servers[1].pid());
        assert!(shares.into_iter().any(|share| share == sum), "ten calls, each on one of the two");
    }
    // Both have taken part.
    for server in &servers {
        let line = format!("{} nested", server.pid());
        assert!(world.log().contains(&line), "{line}");
    }
}

#[test]
fn services_that_call_each_other_for_ever_are_refused_and_the_server_goes_on() {
    let world = World::new();
    let mut server = world.server("one", 1);
    let client = world.client();
    // A thousand threads are started for it, on a machine that may have two cores and much else to do.
    let e = client.call("nested", vec![1_000_000.into()], Some(6 * LONG)).unwrap_err();
    assert_eq!(e.code(), Code::RemoteError, "{e}");
    for says in ["all 1025 threads of server", "limit 1024", "start another server"] {
        assert!(e.text().contains(says), "{e}");
    }
    assert_eq!(number(&client.call("nested", vec![3.into()], Some(LONG)).unwrap()), 4 * server.pid());
    server.tell("stop");
    assert!(server.end());
}

#[test]
fn many_callers_of_services_that_call_each_other_wedge_no_server() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let mut calls: Vec<_> =
        (0..16).map(|_| client.call_async("nested", vec![19.into()], None).unwrap()).collect();
    for call in &mut calls {
        assert_eq!(number(&call.wait(Some(LONG)).unwrap()), 20 * server.pid());
    }
    // More than it has threads for.
    let mut calls: Vec<_> =
        (0..150).map(|_| client.call_async("nested", vec![19.into()], None).unwrap()).collect();
    for call in &mut calls {
        match call.wait(Some(LONG)) {
            Ok(sum) => assert_eq!(number(&sum), 20 * server.pid()),
            Err(e) => assert!(e.code() == Code::RemoteError && e.text().contains("limit 1024"), "{e}"),
        }
    }
    // What nobody waits for any more ends a moment later.
    until("its threads are free again", || {
        client.call("nested", vec![19.into()], Some(LONG)).is_ok_and(|sum| number(&sum) == 20 * server.pid())
    });
}

#[test]
fn a_service_stops_waiting_for_calls_of_its_own_when_nobody_wants_its_result_any_more() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let has = |line: &str| world.log().iter().any(|l| l.ends_with(line));
    let given_up = client.call_async("relay", vec!["first".into(), 60_000.into()], None).unwrap();
    until("its call runs", || has(" first"));
    drop(given_up);
    until("it ends its wait", || has("first-relay-Cancelled") && has("first-cancelled"));
    // Its worker is free again.
    client.call("void", vec![], Some(LONG)).unwrap();
}

/// Calls, one after the other, until `over`: how many began after that moment and were answered before then.
fn calls_meanwhile(client: &Client, begins: &AtomicBool, over: &AtomicBool) -> u32 {
    let mut calls = 0;
    while !over.load(Ordering::SeqCst) {
        let counts = begins.load(Ordering::SeqCst);
        client.call("void", vec![], None).unwrap();
        calls += u32::from(counts && !over.load(Ordering::SeqCst));
    }
    calls
}

#[test]
fn others_are_served_while_a_large_array_is_made() {
    let world = World::new();
    let _server = world.server("one", 1);
    let (client, other) = (world.client(), world.client());
    other.call("void", vec![], None).unwrap();
    // The first thread that stands in for another one is made.
    let meta = |bytes| ArrayMeta::new(DType::U8, Shape::new(&[bytes]).unwrap());
    client.array(meta(1 << 20), On::Any).unwrap();
    let (begins, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let calls = std::thread::scope(|scope| {
        let calls = scope.spawn(|| calls_meanwhile(&other, &begins, &over));
        begins.store(true, Ordering::SeqCst);
        let made = client.array(meta(600 << 20), On::Any);
        over.store(true, Ordering::SeqCst);
        made.unwrap();
        calls.join().unwrap()
    });
    // One may be answered before the other call comes, and one behind it.
    assert!(calls > 5, "{calls} calls");
}

#[test]
fn calls_that_wait_for_one_array_keep_no_workers() {
    let world = World::new();
    let _server = world.server("one", 2);
    let (client, other) = (world.client(), world.client());
    other.call("void", vec![], None).unwrap();
    let mut expected = vec![1.0; 1_000];
    let array = client.put(View::of(&expected, &[1_000]).unwrap(), On::Any).unwrap();
    let mut calls: Vec<_> = (0..4i64)
        .map(|id| client.call_async("stir", vec![id.into(), 400.into(), Arg::from(&array)], None).unwrap())
        .collect();
    until("the first one runs", || !world.log().is_empty());
    other.call("void", vec![], None).unwrap();
    client.call("void", vec![], None).unwrap();
    assert_eq!(world.log().len(), 1, "the first one still runs, and no other one has begun");
    // One that waits is given up, the others are run in their order.
    calls[2].cancel();
    for (id, call) in calls.iter_mut().enumerate() {
        match id {
            2 => assert_eq!(call.wait(Some(LONG)).unwrap_err().code(), Code::Cancelled),
            id => {
                call.wait(Some(LONG)).unwrap();
                crate::roles::stir(id as i64, &mut expected);
            }
        }
    }
    let (_, bytes) = array.get(&Default::default()).unwrap();
    assert_eq!(bytes, expected.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>());
}

#[test]
fn a_server_that_stops_serves_what_waits_for_an_array() {
    let world = World::new();
    let mut server = world.server("one", 2);
    let client = world.client();
    let array = client.put(View::of(&[1.0; 10], &[10]).unwrap(), On::Any).unwrap();
    let mut calls: Vec<_> = (0..3i64)
        .map(|id| client.call_async("stir", vec![id.into(), 100.into(), Arg::from(&array)], None).unwrap())
        .collect();
    until("the first one runs", || !world.log().is_empty());
    client.call("void", vec![], None).unwrap();
    server.tell("stop");
    calls.iter_mut().for_each(|call| drop(call.wait(Some(LONG)).unwrap()));
    assert!(server.end());
}

#[test]
fn a_call_given_up_by_another_thread_ends_the_wait_for_it() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut call = client.call_async("work", vec!["long".into(), 60_000.into()], None).unwrap();
    let canceller = call.canceller();
    until("it runs", || !world.log().is_empty());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| call.wait(None).unwrap_err().code());
        canceller.cancel();
        assert_eq!(waits.join().unwrap(), Code::Cancelled);
    });
    until("the service hears of it", || world.log().iter().any(|line| line.ends_with("long-cancelled")));
    assert!(call.done());
}

#[test]
fn calls_do_not_wait_for_a_broker_that_does_not_answer() {
    let mut world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    client.call("void", vec![], None).unwrap();
    let socket = world.dir.path().join("agent.sock");
    let address = crate::OVER_NETWORK.then(|| world.broker.as_ref().unwrap().network().0.clone());
    world.broker = None;
    // The one who asks is to find somebody who hears and says nothing.
    let accept: Box<dyn Fn() -> Option<OwnedFd>> = match address {
        Some(address) => {
            let mute = std::net::TcpListener::bind(address.trim_start_matches("fb://")).unwrap();
            mute.set_nonblocking(true).unwrap();
            Box::new(move || mute.accept().ok().map(|(asks, _)| asks.into()))
        }
        None => {
            let _ = std::fs::remove_file(&socket);
            let mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            mute.set_nonblocking(true).unwrap();
            Box::new(move || mute.accept().ok().map(|(asks, _)| asks.into()))
        }
    };
    // Each time the table is old, one of these asks; it must not be the one that waits for the answer.
    let asked_behind = || {
        client.call("void", vec![], None).unwrap();
        let Some(asks) = accept() else { return false };
        // Its greeting is there, or will be; its end is not.
        let mut greeting = [0; 4096];
        let open = |got: rustix::io::Result<(usize, usize)>| got.map_or(true, |(n, _)| n > 0);
        (0..2).all(|_| open(rustix::net::recv(&asks, &mut greeting[..], RecvFlags::DONTWAIT)))
    };
    let deadline = Instant::now() + LONG;
    while !asked_behind() {
        assert!(Instant::now() < deadline, "whoever asked had waited for it");
        std::thread::sleep(Duration::from_millis(1));
    }
}
