//! What services have done: servers count it, the broker adds it up.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_client::call::{Arg, On, wait_all};
use forebay_types::directory::BrokerRequest;
use forebay_types::usage::Usage;
use forebay_types::{ArrayMeta, Code, DType, Shape};
use rustix::process::Signal;

use crate::roles::{World, until};

fn used(world: &World) -> BTreeMap<String, Usage> {
    let mut wire = world.locator().connect("client", Duration::from_secs(20)).unwrap();
    serde_json::from_value(wire.ask(&BrokerRequest::Usage).unwrap()).unwrap()
}

fn calls(world: &World, name: &str) -> u64 {
    used(world).get(name).map_or(0, |usage| usage.calls)
}

#[test]
fn calls_and_failures_are_counted_and_times_read_now_and_then() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    for _ in 0..1_000 {
        client.call("void", vec![], None).unwrap();
    }
    let mut slow: Vec<_> =
        (0..5).map(|_| client.call_async("burn", vec!["".into(), 30i64.into()], None).unwrap()).collect();
    assert!(wait_all(&mut slow.iter_mut().collect::<Vec<_>>(), None));
    for _ in 0..3 {
        assert_eq!(client.call("panics", vec![], None).unwrap_err().code(), Code::RemoteError);
    }
    let all_are_told =
        || calls(&world, "panics") == 3 && calls(&world, "void") == 1_000 && calls(&world, "burn") == 5;
    until("what was done is told", all_are_told);
    let all = used(&world);
    let (void, burn, panics) = (&all["void"], &all["burn"], &all["panics"]);
    assert_eq!((void.failed, burn.failed, panics.failed), (0, 0, 3));
    // A short service is looked at now and then, a long one always.
    assert!(void.is_estimated() && void.clocked >= 1_000 / 16 && void.clocked < 500, "{void:?}");
    assert!(void.quantile(0.5).unwrap() < 1e-3 && void.waiting().is_none());
    assert!(!burn.is_estimated() && burn.mean().unwrap() >= 0.03, "{burn:?}");
    assert!((0.016..0.5).contains(&burn.quantile(0.5).unwrap()), "{burn:?}");
    // Their client said when it sent them; it keeps most of those that one worker cannot begin.
    assert!((0.0..0.9).contains(&burn.waiting().unwrap()), "{burn:?}");
    // What arrays are asked for by the way is no service of anybody's.
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[8]).unwrap());
    client.array(meta, On::Any).unwrap();
    assert!(used(&world).keys().all(|name| !name.starts_with("forebay/")));
    // A server that dies takes nothing away, and another one adds.
    drop(client);
    server.signal(Signal::KILL);
    let _next = world.server("two", 2);
    let client = world.client();
    let (x, mut y) = ([1.0], [0.0]);
    client.call("axpy", vec![1i64.into(), x[..].into(), Arg::from(&mut y[..])], None).unwrap();
    client.call("void", vec![], None).unwrap();
    until("the other one adds", || calls(&world, "axpy") == 1 && calls(&world, "void") == 1_001);
}

#[test]
fn a_broker_that_takes_the_place_of_another_learns_the_sums_of_those_that_live() {
    let mut world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    for _ in 0..40 {
        client.call("void", vec![], None).unwrap();
    }
    until("the broker knows", || calls(&world, "void") == 40);
    world.broker = None;
    world.start_broker();
    until("the broker knows", || calls(&world, "void") == 40);
}
