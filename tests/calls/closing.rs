//! A client that is closed: what is under way ends, and nothing of it stays.

use std::time::{Duration, Instant};

use forebay_client::call::{Arg, BagOptions, On};
use forebay_types::{ArrayMeta, Code, DType, Shape};

use crate::roles::{World, until};

/// Less than what the calls of these tests would take, and more than any machine needs.
const SOON: Duration = Duration::from_secs(20);
const MINUTE: i64 = 60_000;

#[test]
fn calls_that_are_under_way_end_when_their_client_is_closed_whoever_waits_for_them() {
    let world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let began = Instant::now();
    let mut left = client.call_async("work", vec!["left".into(), MINUTE.into()], None).unwrap();
    let mut bag = client.bag("work", BagOptions::default()).unwrap();
    let codes = std::thread::scope(|scope| {
        let waits = scope.spawn(|| client.call("work", vec!["waited".into(), MINUTE.into()], None));
        let takes = scope.spawn(|| {
            bag.add(vec!["task".into(), MINUTE.into()]).unwrap();
            bag.end();
            bag.next(None).map(drop)
        });
        until("two are begun", || world.log().len() == 2);
        client.close();
        [waits.join().unwrap().map(drop), takes.join().unwrap(), left.wait(None).map(drop)]
    });
    assert!(codes.iter().all(|ended| ended.as_ref().is_err_and(|e| e.code() == Code::Closed)), "{codes:?}");
    assert!(began.elapsed() < SOON);
    assert_eq!(client.call("void", vec![], None).unwrap_err().code(), Code::Closed);
    assert_eq!(bag.add(vec!["task".into(), 0i64.into()]).unwrap_err().code(), Code::Closed);
    // Its servers are told, and are well for others.
    until("the services are told", || {
        world.log().iter().filter(|line| line.ends_with("-cancelled")).count() == 2
    });
    let other = world.client();
    assert_eq!(
        other
            .services()
            .unwrap()
            .iter()
            .find(|s| s.signature.name().as_str() == "work")
            .unwrap()
            .servers
            .len(),
        2
    );
    other.call("void", vec![], None).unwrap();
}

#[test]
fn arrays_that_a_server_holds_go_with_the_client_that_is_closed() {
    let world = World::new();
    let _server = world.server_with("one", 1, 1 << 20);
    let meta = ArrayMeta::new(DType::U8, Shape::new(&[3 << 18]).unwrap());
    for _ in 0..3 {
        let client = world.client();
        let other = world.client();
        let mut held = None;
        until("there is room", || {
            held = client.array(meta, On::Any).ok();
            held.is_some()
        });
        let held = held.unwrap();
        assert_eq!(other.array(meta, On::Any).unwrap_err().code(), Code::Full);
        client.close();
        let mut out = vec![0; 3 << 18];
        assert_eq!(held.read(&Default::default(), &meta, None, &mut out).unwrap_err().code(), Code::Closed);
        let call = client.call("axpy", vec![1.0.into(), Arg::from(&held), Arg::from(&held)], None);
        assert_eq!(call.unwrap_err().code(), Code::Closed);
        held.kill().unwrap();
        drop(held);
    }
}

#[test]
fn a_client_that_is_tied_to_a_server_ends_with_the_one_that_it_was_made_of_and_not_the_other_way() {
    let world = World::new();
    let one = world.server("one", 1);
    let client = world.client();
    let tied = client.on(forebay_client::call::Only::Name("one".into()));
    let pid = |client: &forebay_client::call::Client| {
        client.call("pid", vec![], None).map(|found| format!("{found:?}"))
    };
    tied.close();
    assert!(pid(&client).unwrap().contains(&one.pid().to_string()));
    client.close();
    assert_eq!(pid(&tied).unwrap_err().code(), Code::Closed);
}
