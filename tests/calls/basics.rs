//! What goes through, and what is refused before it is sent.

use std::time::Duration;

use forebay_client::call::{Arg, Called, Client, Future, Value, wait_all, wait_any};
use forebay_server::Server;
use forebay_types::call::INLINE_BYTES;
use forebay_types::{ArrayMeta, Code, DType, Error, Order, Scalar, Shape};

use crate::roles::{World, until};

fn pid_of(values: Vec<Value>) -> i64 {
    match values.as_slice() {
        [Value::Scalar(s)] => s.as_i64().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arrays_of_every_size_go_there_and_back() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let around = INLINE_BYTES / 8;
    for n in [0, 1, 7, around - 1, around, around + 1, 5_000, 1 << 20, 40 << 17] {
        let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let mut y = vec![1.0; n];
        let none = client.call("axpy", vec![2i64.into(), x[..].into(), Arg::from(&mut y[..])], None).unwrap();
        assert!(none.is_empty());
        assert!(y.iter().enumerate().all(|(i, y)| *y == 1.0 + 2.0 * i as f64), "{n} elements");
    }
}

#[test]
fn scalars_text_and_bytes_are_returned_in_the_order_of_the_signature() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let values = client.call("divide", vec![7.into(), 45i64.into()], None).unwrap();
    assert_eq!(
        values,
        [
            Value::Scalar(Scalar::from(6i64)),
            Value::Scalar(Scalar::from(3i32)),
            Value::Str("45 durch 7 macht …".into()),
            Value::Bytes(45i64.to_le_bytes().to_vec()),
        ]
    );
}

#[test]
fn complex_arrays_and_column_major_order_go_through_unchanged() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let z: Vec<[f64; 2]> = (0..600).map(|i| [i as f64, 0.5 * i as f64]).collect();
    let mut w = vec![[0.0; 2]; 600];
    let shape = [20, 30];
    let args = vec![Arg::array(&z, &shape).unwrap(), Arg::array_mut(&mut w, &shape).unwrap()];
    client.call("conjugate", args, None).unwrap();
    assert!(z.iter().zip(&w).all(|(z, w)| w[0] == z[0] && w[1] == -z[1]));
    let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(&[2, 3]).unwrap(), order: Order::F };
    let first = client.call("order", vec![Arg::In(meta, &[0; 48])], None).unwrap();
    assert_eq!(first, [Value::Scalar(Scalar::from(1i32))]);
}

#[test]
fn bytes_larger_than_any_ring_come_back_whole() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    for n in [0, 10, 70_000, 5 << 20] {
        let text: Vec<u8> = (0..n).map(|i: usize| (i * 7 % 251) as u8).collect();
        let back = client.call("reverse", vec![Arg::Bytes(&text)], None).unwrap();
        let expected: Vec<u8> = text.iter().rev().copied().collect();
        assert!(back == [Value::Bytes(expected)], "{n} bytes");
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_sent() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut y = [0.0; 3];
    let e = client.call("axpy", vec![1.0.into(), [1.0f32; 3][..].into(), Arg::from(&mut y[..])], None);
    let e = e.unwrap_err();
    assert_eq!(e.code(), Code::BadArgument);
    assert_eq!(e.text(), "axpy: parameter x is f64[n]: got f32(3,); convert its elements to f64");
    let e = client.call("axpy", vec![1.0.into(), [1.0; 4][..].into(), Arg::from(&mut y[..])], None);
    assert!(e.unwrap_err().text().contains("parameter y is f64[n]: got f64(3,)"));
    let e = client.call("work", vec!["a".into(), 2.5.into()], None).unwrap_err();
    assert!(e.text().contains("parameter ms is i64: 2.5 of dtype f64"), "{e}");
    let e = client.call("void", vec![1.into()], None).unwrap_err();
    assert!(e.text().contains("takes 0 arguments and got 1"), "{e}");
    assert!(world.log().is_empty());
}

#[test]
fn a_name_that_nobody_offers_is_answered_at_once_with_what_is_offered() {
    let world = World::new();
    let client = world.client();
    let began = std::time::Instant::now();
    let e = client.call("axpi", vec![], None).unwrap_err();
    assert_eq!(e.code(), Code::NoServer);
    assert!(e.text().contains("nothing is offered at all"), "{e}");
    let _server = world.server("one", 1);
    let e = client.call("axpi", vec![], None).unwrap_err();
    assert!(e.text().contains("\"axpi\"") && e.text().contains("axpy, burn, conjugate"), "{e}");
    client.call("void", vec![], None).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_remote_failure_brings_its_text_and_the_server_goes_on() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let e = client.call("divide", vec![0.into(), 45i64.into()], None).unwrap_err();
    assert_eq!(e.code(), Code::RemoteError);
    assert_eq!(
        e.text(),
        format!("divide on server \"one\" (pid {}): division by 0\n  at line 7", server.pid())
    );
    let e = client.call("panics", vec![], None).unwrap_err();
    assert_eq!(e.code(), Code::RemoteError);
    assert!(e.text().contains("the service panicked: out of its mind"), "{e}");
    client.call("void", vec![], None).unwrap();
}

#[test]
fn many_calls_may_be_under_way_and_every_one_can_be_waited_for() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let x = [1.0; 100];
    let mut ys = vec![[0.0; 100]; 3_000];
    let mut futures: Vec<_> = ys
        .iter_mut()
        .enumerate()
        .map(|(i, y)| {
            let args = vec![(i as i64).into(), x[..].into(), Arg::from(&mut y[..])];
            client.call_async("axpy", args, None).unwrap()
        })
        .collect();
    let mut all: Vec<_> = futures.iter_mut().collect();
    assert!(wait_all(&mut all, Some(Duration::from_secs(20))));
    drop(futures);
    assert!(ys.iter().enumerate().all(|(i, y)| y[99] == i as f64));
}

#[test]
fn the_first_of_several_calls_is_found_and_a_cancelled_one_is_told_so() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    let work = |tag, ms: i64| client.call_async("work", vec![Arg::Str(tag), ms.into()], None).unwrap();
    let (mut long, mut short) = (work("long", 60_000), work("short", 1));
    assert_eq!(wait_any(&mut [&mut long, &mut short], Some(Duration::from_secs(10))), Some(1));
    short.wait(None).unwrap();
    assert!(!long.done());
    assert_eq!(long.wait(Some(Duration::from_millis(5))).unwrap_err().code(), Code::Timeout);
    long.cancel();
    assert_eq!(long.wait(None).unwrap_err().code(), Code::Cancelled);
    until("the service notices", || world.log().iter().any(|l| l.ends_with("long-cancelled")));
    let timing = short.timing();
    assert!(timing.running >= Duration::from_millis(1) && timing.total >= timing.running);
}

#[test]
fn of_many_calls_that_are_cancelled_before_they_begin_none_is_run() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let work = |tag, ms: i64| client.call_async("work", vec![Arg::Str(tag), ms.into()], None).unwrap();
    for round in 0..2 {
        let mut first = work("first", 60_000);
        until("it began", || world.log().iter().filter(|l| l.ends_with("first")).count() > round);
        let mut queued: Vec<Future> = (0..6_000).map(|_| work("queued", 0)).collect();
        queued.iter_mut().for_each(Future::cancel);
        first.cancel();
        assert!(queued.iter_mut().all(|f| f.wait(None).unwrap_err().code() == Code::Cancelled));
        client.call("work", vec!["last".into(), 0i64.into()], None).unwrap();
        assert!(!world.log().iter().any(|line| line.ends_with("queued")), "round {round}");
    }
}

#[test]
fn calls_that_are_complete_hold_up_no_others_whoever_has_their_results_to_take() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let x = vec![1.0; 1_000];
    let mut ys = vec![vec![0.0; 1_000]; 10_000];
    let mut all = vec![client.call_async("work", vec!["long".into(), 300i64.into()], None).unwrap()];
    for (i, y) in ys.iter_mut().enumerate() {
        y[999] = i as f64;
        let args = vec![2i64.into(), x[..].into(), Arg::from(&mut y[..])];
        // While the server is busy with the first one, no more are under way than there is room for.
        all.push(client.call_async("axpy", args, None).unwrap());
    }
    all.iter_mut().for_each(|f| drop(f.wait(None).unwrap()));
    drop(all);
    assert!(ys.iter().enumerate().all(|(i, y)| y[0] == 2.0 && y[999] == 2.0 + i as f64));
}

#[test]
fn a_timeout_ends_the_waiting_and_the_work() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let limit = Some(Duration::from_millis(50));
    let e = client.call("work", vec!["late".into(), 60_000i64.into()], limit).unwrap_err();
    assert_eq!(e.code(), Code::Timeout);
    until("the work stops", || world.log().iter().any(|l| l.ends_with("late-cancelled")));
    client.call("void", vec![], None).unwrap();
}

#[test]
fn threads_share_a_client() {
    let world = World::new();
    let _servers = [world.server("one", 2), world.server("two", 1)];
    let client = world.client();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let client = client.clone();
            scope.spawn(move || {
                for i in 0..500 {
                    let n = 1 + (t * 997 + i * 31) % 2_000;
                    let (x, mut y) = (vec![1.0; n], vec![t as f64; n]);
                    let args = vec![3.0.into(), x[..].into(), Arg::from(&mut y[..])];
                    client.call("axpy", args, Some(Duration::from_secs(20))).unwrap();
                    assert!(y.iter().all(|y| *y == t as f64 + 3.0));
                }
            });
        }
    });
}

#[test]
fn a_long_call_keeps_no_short_one_waiting_when_there_are_two_workers() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    let mut long = client.call_async("work", vec!["long".into(), 20_000i64.into()], None).unwrap();
    until("it began", || !world.log().is_empty());
    for _ in 0..100 {
        client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    }
    long.cancel();
}

#[test]
fn services_come_and_go_while_a_server_runs() {
    let world = World::new();
    let mut servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let offering = |name: &str| {
        let services = client.services().unwrap();
        services.iter().find(|s| s.signature.name().as_str() == name).map_or(0, |s| s.servers.len())
    };
    servers[0].tell("add late(in x:f64)");
    until("the new service is offered", || offering("late") == 1);
    client.call("late", vec![1.0.into()], None).unwrap();
    assert_eq!(offering("void"), 2);
    servers[1].tell("remove void");
    until("the old one is not", || offering("void") == 1);
    for _ in 0..4 {
        client.call("void", vec![], None).unwrap();
    }
}

#[test]
fn a_service_that_is_added_right_after_the_start_of_its_server_is_offered() {
    let world = World::new();
    let servers: Vec<_> = (0..5).map(|i| world.server(&format!("server-{i}"), 1)).collect();
    let client = world.client();
    let offering = || {
        let services = client.services().unwrap();
        services.iter().find(|s| s.signature.name().as_str() == "early").map_or(0, |s| s.servers.len())
    };
    until("all of them offer it", || offering() == servers.len());
}

#[test]
fn a_call_to_a_server_that_has_just_withdrawn_the_service_goes_to_another() {
    let world = World::new();
    let mut servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    client.call("void", vec![], None).unwrap();
    servers[0].tell("remove void");
    // The client's table may still hold it; no call fails in any case.
    for _ in 0..1_000 {
        client.call("void", vec![], None).unwrap();
    }
    servers[1].tell("remove void");
    until("nobody offers it", || client.call("void", vec![], None).is_err());
    assert_eq!(client.call("void", vec![], None).unwrap_err().code(), Code::NoServer);
}

#[test]
fn a_server_that_stops_ends_what_it_began() {
    let world = World::new();
    let mut servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut call = client.call_async("work", vec!["last".into(), 300i64.into()], None).unwrap();
    until("it began", || !world.log().is_empty());
    let first = usize::from(!world.log()[0].starts_with(&servers[0].pid().to_string()));
    servers[first].tell("stop");
    assert_eq!(pid_of(call.wait(Some(Duration::from_secs(10))).unwrap()), servers[first].pid());
    assert_eq!(call.timing().reissued, 0);
    assert!(servers[first].end());
    assert_eq!(std::fs::read_dir(world.dir.path().join("run")).unwrap().count(), 1, "its socket is gone");
    for _ in 0..4 {
        client.call("void", vec![], None).unwrap();
    }
}

#[test]
fn a_server_tells_how_many_requests_it_runs_and_how_many_wait() {
    let world = World::new();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let server = Server::new("here")
        .service("pass()", move |_| {
            let passed = gate.lock().unwrap().recv();
            passed.map_err(|_| Error::bad("the gate is closed for ever"))
        })
        .unwrap()
        .start(world.locator())
        .unwrap();
    let clients = [world.client(), world.client()];
    let sent = |client: &Client| (0..3).map(|_| client.call_async("pass", vec![], None).unwrap()).collect();
    let [mut ours, mut others]: [Vec<Future>; 2] = [sent(&clients[0]), sent(&clients[1])];
    let figures = || (server.load().running, server.load().queued, server.load().served);
    until("one runs and five wait", || figures() == (1, 5, 0));
    open.send(()).unwrap();
    until("one of the five has its turn", || figures() == (1, 4, 1));
    (0..5).for_each(|_| open.send(()).unwrap());
    ours.iter_mut()
        .chain(&mut others)
        .for_each(|call| drop(call.wait(Some(Duration::from_secs(10))).unwrap()));
    until("nothing is left to do", || figures() == (0, 0, 6));
}

#[test]
fn the_record_of_a_call_tells_where_its_time_went_on_both_sides() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let ms = Duration::from_millis;
    let mut calls: Vec<Future> = [("first", 150), ("second", 50)]
        .map(|(tag, ms)| client.call_async("work", vec![tag.into(), ms.into()], None).unwrap())
        .into();
    assert!(calls.iter().all(|c| c.timing().sending > Duration::ZERO && c.timing().total.is_zero()));
    assert!(wait_all(&mut calls.iter_mut().collect::<Vec<_>>(), None));
    let [first, second] = [&calls[0], &calls[1]].map(|c| c.timing().clone());
    assert!(first.running >= ms(150) && second.running >= ms(50), "{first:?} {second:?}");
    // It came while the first one ran, or before.
    assert!(second.waiting > Duration::ZERO, "{second:?}");
    for timing in [first, second] {
        assert!(timing.total >= timing.waiting + timing.running, "{timing:?}");
        let (name, pid) = timing.server.clone().unwrap();
        assert_eq!((&*name, i64::from(pid), timing.reissued), ("one", server.pid(), 0));
    }
    // Who does not ask pays for no clock, and gets no record. A service that is not known yet is no short one.
    let Called::UnderWay(mut untimed) = client.call_now("void", vec![]).unwrap() else {
        panic!("it is over")
    };
    untimed.wait(None).unwrap();
    assert_eq!(*untimed.timing(), Default::default());
    // It is known soon, and its caller looks for the reply himself; on a busy machine not for each.
    let over = || match client.call_now("void", vec![]).unwrap() {
        Called::Over(answer) => answer.values.is_empty(),
        Called::UnderWay(mut call) => !call.wait(None).unwrap().is_empty(),
    };
    assert_eq!(crate::SHARED_MEMORY, (0..10_000).any(|_| over()));
}
