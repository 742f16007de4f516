//! Arrays that servers hold.

use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Client, On, Reference, Value, wait_all};
use forebay_client::run::View;
use forebay_types::{ArrayMeta, Code, DType, Order, Scalar, Selection, Shape};
use rustix::process::Signal;

use crate::roles::{World, until};

fn put(client: &Client, values: &[f64], on: On) -> Reference {
    client.put(View::of(values, &[values.len() as u64]).unwrap(), on).unwrap()
}

fn values(reference: &Reference, part: &str) -> Vec<f64> {
    let part = Selection::parse(part, &reference.meta().shape).unwrap();
    let (_, bytes) = reference.get(&part).unwrap();
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes_of(n: u64) -> ArrayMeta {
    ArrayMeta::new(DType::U8, Shape::new(&[n]).unwrap())
}

#[test]
fn an_array_on_a_server_is_worked_on_there_and_read_back() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    for n in [0, 1, 100, 200_000] {
        let x = put(&client, &vec![2.0; n], On::Any);
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[n as u64]).unwrap());
        let y = client.array(meta, On::With(&x)).unwrap();
        for a in [1.0, 2.0] {
            client.call("axpy", vec![a.into(), Arg::from(&x), Arg::from(&y)], None).unwrap();
        }
        // Beside arrays of the caller's.
        let mut z = vec![1.0; n];
        client.call("axpy", vec![1.0.into(), Arg::from(&y), Arg::from(&mut z[..])], None).unwrap();
        assert!(z.iter().all(|z| *z == 7.0), "{n} elements");
        assert_eq!(values(&y, ""), vec![6.0; n]);
        y.kill().unwrap();
        assert_eq!(y.kill().unwrap_err().code(), Code::Closed);
        assert_eq!(y.get(&Selection::default()).unwrap_err().code(), Code::Closed);
    }
}

#[test]
fn parts_are_written_and_read_in_either_order() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let grid: Vec<f64> = (0..60).map(f64::from).collect();
    for order in [Order::C, Order::F] {
        let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(&[3, 4, 5]).unwrap(), order };
        let a = client.array(meta, On::Any).unwrap();
        let view = View::of(&grid, &[3, 4, 5]).unwrap();
        a.put(view, &Selection::default()).unwrap();
        let all: Vec<f64> = match order {
            Order::C => grid.clone(),
            Order::F => (0..60).map(|i| grid[i / 12 + i / 3 % 4 * 5 + i % 3 * 20]).collect(),
        };
        assert_eq!(values(&a, ""), all);
        assert_eq!(values(&a, "1,::3,-1"), [24.0, 39.0]);
        let part = Selection::parse("2,1:3,::2", &meta.shape).unwrap();
        a.put(View::of(&[-1.0; 6], &[2, 3]).unwrap(), &part).unwrap();
        assert_eq!(values(&a, "2,:,2"), [42.0, -1.0, -1.0, 57.0]);
        // Data whose first index runs fastest.
        let columns: Vec<f64> = (0..6).map(f64::from).collect();
        a.put(View::of(&columns, &[2, 3]).unwrap().column_major(), &part).unwrap();
        assert_eq!(values(&a, "2,1:3,::2"), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        let e = a.put(View::of(&[0.0; 6], &[6]).unwrap(), &part).unwrap_err();
        assert!(e.text().contains("f64(6,) was given for a part f64(2, 3)"), "{e}");
        let e = a.put(View::of(&[0f32; 6], &[2, 3]).unwrap(), &part).unwrap_err();
        assert_eq!(e.code(), Code::BadArgument);
    }
}

#[test]
fn references_that_do_not_belong_together_are_refused_with_a_remedy() {
    let world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let x = put(&client, &[1.0; 3], On::Server("one"));
    let same = put(&client, &[1.0; 3], On::Any);
    assert_eq!((x.server(), x.server().0), (same.server(), "one"));
    let y = put(&client, &[1.0; 3], On::Server("two"));
    let axpy = |x: &Reference, y: &Reference| {
        client.call("axpy", vec![1.0.into(), Arg::from(x), Arg::from(y)], None).unwrap_err()
    };
    let e = axpy(&x, &y);
    assert_eq!(e.code(), Code::BadArgument);
    assert!(e.text().contains("different servers") && e.text().contains("that holds the other"), "{e}");
    let e = axpy(&x, &x);
    assert_eq!(e.code(), Code::BadArgument);
    assert!(e.text().contains("parameter y") && e.text().contains("give a copy"), "{e}");
    let foreign = put(&world.client(), &[1.0; 3], On::Server("one"));
    assert!(axpy(&x, &foreign).text().contains("another client's"));
    let short = put(&client, &[1.0; 2], On::With(&x));
    assert!(axpy(&x, &short).text().contains("parameter y is f64[n]: got f64(2,)"));
    let e = client.put(View::of(&[1.0], &[1]).unwrap(), On::Server("three")).unwrap_err();
    assert!(e.code() == Code::NoServer && e.text().contains("\"three\""), "{e}");
}

#[test]
fn a_call_with_a_reference_needs_a_holder_that_offers_the_service() {
    let world = World::new();
    let mut servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let x = put(&client, &[1.0; 3], On::Server("one"));
    client.call("affine", vec![2.0.into(), 0.0.into(), Arg::from(&x)], None).unwrap();
    servers[0].tell("remove affine");
    until("it is refused", || {
        let call = client.call("affine", vec![1.0.into(), 0.0.into(), Arg::from(&x)], None);
        call.is_err_and(|e| {
            e.code() == Code::BadArgument && e.text().contains("put the array on one that does: two")
        })
    });
    assert_eq!(values(&x, ""), [2.0; 3]);
}

#[test]
fn a_server_holds_no_more_than_its_limit_and_gives_room_back() {
    let world = World::new();
    let _server = world.server_with("small", 1, 10 << 20);
    let client = world.client();
    let first = client.array(bytes_of(6 << 20), On::Any).unwrap();
    let full = |client: &Client| client.array(bytes_of(6 << 20), On::Any).unwrap_err();
    let e = full(&client);
    assert_eq!(e.code(), Code::Full);
    assert!(e.text().contains("6291456 bytes") && e.text().contains("kill references"), "{e}");
    // The limit is that of all clients.
    let other = world.client();
    assert_eq!(full(&other).code(), Code::Full);
    drop(first);
    // One client's word and another's request come by two ways: nothing orders them.
    let mut second = None;
    until("the room is back", || {
        second = other.array(bytes_of(6 << 20), On::Any).ok();
        second.is_some()
    });
    assert_eq!(full(&client).code(), Code::Full);
}

#[test]
fn the_arrays_of_a_killed_client_go_with_it() {
    let world = World::new();
    let _server = world.server_with("small", 1, 10 << 20);
    let client = world.client();
    let holder = world.holding_client(8 << 20);
    assert_eq!(client.array(bytes_of(8 << 20), On::Any).unwrap_err().code(), Code::Full);
    holder.signal(Signal::KILL);
    let began = Instant::now();
    until("its memory is free", || client.array(bytes_of(8 << 20), On::Any).is_ok());
    assert!(began.elapsed() < Duration::from_secs(5), "after {:?}", began.elapsed());
}

/// Segments that a process has mapped; they have no names and live as long as somebody has them.
fn mapped(pid: i64) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let files: std::collections::BTreeSet<&str> = maps
        .lines()
        .filter(|l| l.contains("memfd:") || l.contains("(deleted)"))
        .filter_map(|l| l.split_ascii_whitespace().nth(4))
        .collect();
    files.len()
}

#[test]
fn what_killed_clients_held_goes_within_two_seconds_while_the_only_worker_computes() {
    let world = World::new();
    let server = world.server_with("busy", 1, 100 << 20);
    let client = world.client();
    client.call("void", vec![], None).unwrap();
    let alone = mapped(server.pid());
    let holders: Vec<_> = (0..4).map(|_| world.holding_client(8 << 20)).collect();
    // Over the network the requests come in a stream, and only the arrays lie in memory.
    let each = if crate::SHARED_MEMORY { 2 } else { 1 };
    assert_eq!(mapped(server.pid()), alone + 4 * each, "a segment of calls and one of arrays for each");
    let mut long = client.call_async("burn", vec!["long".into(), 8_000i64.into()], None).unwrap();
    until("it computes", || !world.log().is_empty());
    holders.iter().for_each(|h| h.signal(Signal::KILL));
    let killed = Instant::now();
    until("their segments are gone", || mapped(server.pid()) == alone);
    assert!(killed.elapsed() < Duration::from_secs(2), "after {:?}", killed.elapsed());
    assert!(!long.done(), "the worker computes still");
    long.cancel();
}

#[test]
fn a_lost_server_takes_its_arrays_along_and_nobody_else_gets_the_call() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let x = put(&client, &[1.0; 1_000], On::Server("one"));
    let args = vec!["lost".into(), 60_000i64.into(), Arg::from(&x)];
    let mut call = client.call_async("look", args, None).unwrap();
    until("it began", || !world.log().is_empty());
    servers[0].signal(Signal::KILL);
    let e = call.wait(Some(Duration::from_secs(10))).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost);
    assert!(e.text().contains("arrays it held are lost"), "{e}");
    assert_eq!((call.timing().reissued, world.log().len()), (0, 1));
    assert_eq!(x.get(&Selection::default()).unwrap_err().code(), Code::ServerLost);
    let e = client.call("affine", vec![1.0.into(), 0.0.into(), Arg::from(&x)], None).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost);
    // The next array finds the other server.
    assert_eq!(put(&client, &[1.0], On::Any).server().0, "two");
}

#[test]
fn calls_on_one_array_run_in_the_order_of_their_sending_however_many_workers_there_are() {
    let world = World::new();
    let _server = world.server("one", 4);
    let client = world.client();
    let x = put(&client, &[0.5; 300], On::Any);
    let step = |i: i32| (f64::from(i % 7) / 4.0, f64::from(i % 3));
    let mut calls: Vec<_> = (0..300)
        .map(|i| {
            let (a, b) = step(i);
            client.call_async("affine", vec![a.into(), b.into(), Arg::from(&x)], None).unwrap()
        })
        .collect();
    assert!(wait_all(&mut calls.iter_mut().collect::<Vec<_>>(), Some(Duration::from_secs(20))));
    calls.iter_mut().for_each(|c| drop(c.wait(None).unwrap()));
    let expected = (0..300).map(step).fold(0.5, |x, (a, b)| a * x + b);
    assert_eq!(values(&x, ""), [expected; 300]);
}

#[test]
fn who_only_reads_an_array_shares_it_and_a_writer_waits() {
    let world = World::new();
    let _server = world.server("one", 4);
    let client = world.client();
    let x = put(&client, &[1.0; 10], On::Any);
    let look =
        |tag| client.call_async("look", vec![Arg::Str(tag), 400i64.into(), Arg::from(&x)], None).unwrap();
    let mut readers = [look("first"), look("second")];
    let mut writer = client.call_async("affine", vec![3.0.into(), 0.0.into(), Arg::from(&x)], None).unwrap();
    let mut last = look("last");
    let limit = Some(Duration::from_secs(10));
    for reader in &mut readers {
        assert_eq!(reader.wait(limit).unwrap(), [Value::Scalar(Scalar::from(10.0))]);
    }
    writer.wait(limit).unwrap();
    assert_eq!(last.wait(limit).unwrap(), [Value::Scalar(Scalar::from(30.0))]);
    let log = world.log();
    let at = |what: &str| log.iter().position(|l| l.ends_with(what)).unwrap();
    assert!(at(" second").max(at(" first")) < at("-done"), "both at once: {log:?}");
    assert!(at(" last") > at("first-done").max(at("second-done")), "{log:?}");
}
