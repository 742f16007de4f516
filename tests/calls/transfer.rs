//! When the memory of arguments is the caller's again, and what becomes of a call then.

use std::time::Duration;

use forebay_client::call::{Client, Future, Transfer, Value};
use forebay_types::Code;
use rustix::process::Signal;

use crate::roles::{Serving, World, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// A call that sums up `x` for so long, once a server has begun it; the place of that one.
fn begun<'x>(
    (world, servers): (&World, &[Serving]),
    client: &Client,
    tag: &'x str,
    ms: i64,
    x: &'x [f64],
) -> (Future<'x>, usize) {
    let call = client.call_async("look", vec![tag.into(), ms.into(), x.into()], None).unwrap();
    let by = || world.log().iter().find_map(|l| l.strip_suffix(tag)?.trim().parse::<i64>().ok());
    until("a server began the call", || by().is_some());
    let place = servers.iter().position(|s| Some(s.pid()) == by()).unwrap();
    (call, place)
}

#[test]
fn a_call_whose_arguments_were_copied_is_issued_again() {
    let world = World::new();
    let servers = ["one", "two", "three"].map(|name| world.server(name, 1));
    let client = world.client().handing_over(Transfer::Copy);
    // A small argument, and one that lies apart from the request.
    for (tag, n) in [("small", 10), ("large", 100_000)] {
        let x: Vec<f64> = (0..n).map(f64::from).collect();
        let (mut call, place) = begun((&world, &servers), &client, tag, 300, &x);
        servers[place].signal(Signal::KILL);
        let values = call.wait(Some(PATIENCE)).unwrap();
        assert_eq!(values, [Value::Scalar(x.iter().sum::<f64>().into())]);
        assert_eq!(call.timing().reissued, 1);
    }
}

#[test]
fn a_call_whose_arguments_were_handed_over_with_wait_ends_with_its_server() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let x = vec![1.0; 100_000];
    let waiting = client.handing_over(Transfer::Wait);
    let (mut call, place) = begun((&world, &servers), &waiting, "look", 10_000, &x);
    servers[place].signal(Signal::KILL);
    let e = call.wait(Some(PATIENCE)).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost);
    assert!(e.text().contains("\"wait\"") && e.text().contains("call again"), "{e}");
    assert_eq!(world.log().len(), 1, "{:?}", world.log());
    let again = waiting.call_async("look", vec!["again".into(), 0i64.into(), x[..].into()], None);
    assert_eq!(again.unwrap().wait(Some(PATIENCE)).unwrap(), [Value::Scalar(100_000f64.into())]);
}

#[test]
fn nobody_waits_for_copies_to_leave() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    client.call("void", vec![], None).unwrap();
    // It takes nothing now: what a connection holds is full long before all of this has left.
    server.signal(Signal::STOP);
    let x: Vec<f64> = (0..4 << 20).map(|i| f64::from(i & 1023)).collect();
    let copying = client.handing_over(Transfer::Copy);
    let calls =
        [(); 2].map(|()| copying.call_async("look", vec!["x".into(), 0i64.into(), x[..].into()], None));
    server.signal(Signal::CONT);
    for call in calls {
        let values = call.unwrap().wait(Some(PATIENCE)).unwrap();
        assert_eq!(values, [Value::Scalar(x.iter().sum::<f64>().into())]);
    }
    // And one that nobody wants any more, while it leaves.
    copying.call_async("look", vec!["x".into(), 0i64.into(), x[..].into()], None).unwrap().cancel();
    client.call("void", vec![], Some(PATIENCE)).unwrap();
}
