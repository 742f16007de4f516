//! Arrays that servers hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_client::call::{
    Arg, Bag, BagOptions, Client, Next, On, Reference, Task, TaskValue, Value, wait_all,
};
use forebay_client::run::View;
use forebay_types::{ArrayMeta, Code, DType, Order, Result, Scalar, Selection, Shape, Signature};
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
fn an_array_is_held_where_most_of_the_services_that_are_named_are_offered() {
    let world = World::new();
    let (one, mut two) = (world.server("one", 1), world.server("two", 1));
    two.tell("add special(inout x:f64[n])");
    let client = world.client();
    until("it is offered", || client.call("special", vec![vec![0.0].as_mut_slice().into()], None).is_ok());
    let (one, two) = (one.pid() as u32, two.pid() as u32);
    let at = |on| client.array(bytes_of(8), on).unwrap().server().1;
    for services in [&["special"][..], &["special", "void"], &["nobody", "void", "special"]] {
        // The newest one is where none of them may be.
        let newest = client.array(bytes_of(8), On::Server("one")).unwrap();
        assert_eq!((newest.server().1, at(On::Offering(services))), (one, two), "{services:?}");
    }
    // Where it makes no difference it is beside the newest one.
    for (name, pid) in [("one", one), ("two", two)] {
        for services in [&["void"][..], &["nobody"], &[]] {
            let newest = client.array(bytes_of(8), On::Server(name)).unwrap();
            assert_eq!((newest.server().1, at(On::Offering(services))), (pid, pid), "{services:?}");
        }
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
    let each = mapped(server.pid()) - alone;
    assert_eq!(
        each,
        4 * 2,
        "for each a segment of calls, or memory of what comes over the network, and one of arrays"
    );
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
fn a_call_on_a_lost_array_says_that_it_is_lost_whoever_offers_the_service() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let arrays: Vec<Reference> = (0..2).map(|_| put(&client, &[1.0; 10], On::Any)).collect();
    let call = |x: &Reference, timeout| {
        client.call("affine", vec![1.0.into(), 0.0.into(), Arg::from(x)], timeout).unwrap_err()
    };
    server.signal(Signal::KILL);
    until("nobody offers anything", || client.services().unwrap().is_empty());
    // No server that comes has it.
    client.patience(Duration::from_secs(600));
    for (x, timeout) in arrays.iter().zip([None, Some(Duration::from_secs(5))]) {
        let e = call(x, timeout);
        assert_eq!(e.code(), Code::ServerLost, "{e}");
        assert!(e.text().contains("is lost") && e.text().contains("make it anew"), "{e}");
    }
    // So it is where the arguments are made of the signature, which nobody knows any more.
    let held = [Arc::new(arrays[0].clone())];
    let unknown = |_: &Signature| -> Result<Vec<Arg>> { unreachable!("nobody offers it") };
    let sent = client.call_async_with("affine", None, &held, unknown).map(drop);
    let called = client.call_now_with("affine", &held, unknown).map(drop);
    for e in [sent.unwrap_err(), called.unwrap_err()] {
        assert!(e.code() == Code::ServerLost && e.text().contains("make it anew"), "{e}");
    }
    client.patience(Duration::ZERO);
    assert_eq!(client.call("void", vec![], None).unwrap_err().code(), Code::NoServer);
    let failed = client.failed();
    assert!(failed.len() == 5 && failed[..4].iter().all(|f| f.code == Code::ServerLost), "{failed:?}");
    assert_eq!(failed[4].code, Code::NoServer);
}

#[test]
fn a_call_on_a_lost_array_says_so_too_when_another_server_has_come() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let x = put(&client, &[1.0; 10], On::Any);
    server.signal(Signal::KILL);
    until("nobody offers anything", || client.services().unwrap().is_empty());
    let _next = world.server("one", 1);
    until("there is another one", || !client.services().unwrap().is_empty());
    let e = client.call("affine", vec![1.0.into(), 0.0.into(), Arg::from(&x)], None).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost, "{e}");
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

/// Takes what a bag has to give; `make` makes its input.
fn all<'a>(bag: &mut Bag, mut make: impl FnMut(u64) -> Option<Vec<Arg<'a>>>) -> Vec<Task> {
    let (mut tasks, mut next) = (Vec::new(), 0);
    loop {
        match bag.next(Some(Duration::from_secs(60))).unwrap() {
            Next::Input => match make(next) {
                Some(args) => next = bag.add(args).unwrap() + 1,
                None => bag.end(),
            },
            Next::Task(task) => tasks.push(task),
            Next::Later => panic!("nothing is over in a minute: {:?}", bag.counts()),
            Next::Over => return tasks,
        }
    }
}

#[test]
fn tasks_of_a_bag_run_where_their_arrays_are_in_the_order_of_the_input() {
    let world = World::new();
    let servers = [world.server("one", 2), world.server("two", 1)];
    let client = world.client();
    let held =
        [put(&client, &[0.5; 3_000], On::Server("one")), put(&client, &[0.5; 3_000], On::Server("two"))];
    let step = |n: u64| (f64::from(n as u32 % 7) / 4.0, f64::from(n as u32 % 3));
    // Tied to one server, too: arrays go with their holders.
    for client in [client.clone(), client.on(forebay_client::call::Only::Name("one".into()))] {
        held.iter()
            .for_each(|x| x.put(View::of(&[0.5; 3_000], &[3_000]).unwrap(), &Selection::default()).unwrap());
        let mut bag = client.bag("affine", BagOptions::default()).unwrap();
        let mut own = vec![1.0; 3_000];
        let tasks = all(&mut bag, |n| {
            let (a, b) = step(n / 3);
            let x = held.get(n as usize % 3).map_or_else(|| Arg::from(&own[..]), Arg::from);
            (n < 1_500).then(|| vec![a.into(), b.into(), x])
        });
        assert_eq!((tasks.len(), bag.counts().failed), (1_500, 0));
        for task in &tasks {
            let (a, b) = step(task.index / 3);
            match (task.index % 3, &task.outcome.as_ref().unwrap()[..]) {
                (2, [TaskValue::Array(_, bytes)]) => {
                    assert_eq!(bytes[..8], (a + b).to_le_bytes());
                }
                (_, []) => {}
                (_, other) => panic!("an array that stays is no result: {other:?}"),
            }
        }
        own.clear();
        let expected = (0..500).map(step).fold(0.5, |x, (a, b)| a * x + b);
        assert_eq!(
            [values(&held[0], ""), values(&held[1], "")],
            [vec![expected; 3_000], vec![expected; 3_000]]
        );
    }
    // Only the holder ran them.
    let mut bag = client.bag("look", BagOptions::default()).unwrap();
    let tasks = all(&mut bag, |n| (n < 100).then(|| vec!["look".into(), 0i64.into(), Arg::from(&held[1])]));
    assert!(tasks.iter().all(|task| task.outcome.is_ok()));
    assert!(world.log().iter().all(|line| line.starts_with(&servers[1].pid().to_string())));
}

#[test]
fn a_task_that_nobody_can_run_for_its_arrays_fails_alone() {
    let world = World::new();
    let mut servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let x = put(&client, &[1.0; 3], On::Server("one"));
    let y = put(&client, &[1.0; 3], On::Server("two"));
    let killed = put(&client, &[1.0; 3], On::Server("two"));
    killed.kill().unwrap();
    let mut bag = client.bag("axpy", BagOptions::default()).unwrap();
    let tasks = all(&mut bag, |n| {
        let pair = [[&x, &y], [&y, &y], [&killed, &y], [&y, &y]].get(n as usize).copied();
        let own = [2.0; 3];
        pair.map(|[x, y]| match n {
            3 => vec![2.0.into(), Arg::from(own.to_vec().leak() as &[f64]), Arg::from(y)],
            _ => vec![2.0.into(), Arg::from(x), Arg::from(y)],
        })
    });
    let errors: Vec<_> = tasks.iter().map(|task| task.outcome.as_ref().err()).collect();
    let Some(two) = errors[0] else { panic!("{errors:?}") };
    assert_eq!(two.code(), Code::BadArgument);
    assert!(two.text().contains(&format!("{x} and {y} are held by different servers")), "{two}");
    assert!(errors[1].unwrap().text().contains("give a copy"), "{errors:?}");
    assert_eq!(errors[2].unwrap().code(), Code::Closed);
    assert!(errors[3].is_none() && values(&y, "") == [5.0; 3]);
    assert_eq!((bag.counts().failed, bag.counts().done), (3, 1));

    // The holder stops offering the service.
    servers[0].tell("remove look");
    let mut bag = client.bag("look", BagOptions::default()).unwrap();
    until("it is refused", || {
        client.call("look", vec!["no".into(), 0i64.into(), Arg::from(&x)], None).is_err()
    });
    let tasks = all(&mut bag, |n| {
        let array = if n % 2 == 0 { &x } else { &y };
        (n < 20).then(|| vec!["look".into(), 0i64.into(), Arg::from(array)])
    });
    for task in tasks {
        match task.outcome {
            Ok(_) => assert_eq!(task.index % 2, 1),
            // Its server says so, or the table did.
            Err(e) => {
                assert!(matches!(e.code(), Code::BadArgument | Code::NoServer) && task.index % 2 == 0, "{e}");
            }
        }
    }
}

#[test]
fn tasks_whose_array_was_killed_while_they_waited_are_told_so_like_all_others() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let x = put(&client, &[1.0; 3], On::Any);
    let mut bag = client.bag("look", BagOptions { window: Some(1), ..BagOptions::default() }).unwrap();
    let mut is_killed = false;
    let tasks = all(&mut bag, |n| {
        if n == 2 {
            until("the first one runs", || !world.log().is_empty());
            x.kill().unwrap();
            is_killed = true;
        }
        let ms: i64 = if n == 0 { 500 } else { 0 };
        (n < 4).then(|| vec!["look".into(), ms.into(), Arg::from(&x)])
    });
    let codes: Vec<_> = tasks.iter().map(|task| task.outcome.as_ref().err().map(|e| e.code())).collect();
    assert_eq!(codes, [None, Some(Code::Closed), Some(Code::Closed), Some(Code::Closed)]);
    let told = tasks[1].outcome.as_ref().unwrap_err();
    assert!(is_killed && told.text().contains("was killed by its client while"), "{told}");
}

#[test]
fn tasks_whose_arrays_died_with_their_server_fail_and_the_others_go_on() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let lost = put(&client, &[1.0; 2_000], On::Server("one"));
    let kept = put(&client, &[1.0; 2_000], On::Server("two"));
    let own = vec![1.0; 2_000];
    let mut bag = client.bag("look", BagOptions { ordered: false, ..BagOptions::default() }).unwrap();
    let mut is_dead = false;
    let tasks = all(&mut bag, |n| {
        if n == 150 && !is_dead {
            is_dead = true;
            until("tasks run on it", || {
                world.log().iter().any(|l| l.starts_with(&servers[0].pid().to_string()))
            });
            servers[0].signal(Signal::KILL);
        }
        let array = [Arg::from(&lost), Arg::from(&kept), Arg::from(&own[..])].into_iter().nth(n as usize % 3);
        (n < 300).then(|| vec!["task".into(), 1i64.into(), array.unwrap()])
    });
    assert_eq!(tasks.len(), 300);
    let mut failed = 0;
    for task in &tasks {
        let Err(e) = &task.outcome else { continue };
        assert_eq!((e.code(), task.index % 3), (Code::ServerLost, 0), "{e}");
        assert!(e.text().contains("anew on another server"), "{e}");
        failed += 1;
    }
    assert!(failed >= 50, "{failed}");
    let plain = client.call("look", vec!["no".into(), 0i64.into(), Arg::from(&lost)], None).unwrap_err();
    assert_eq!(plain.code(), Code::ServerLost);
}

#[test]
fn an_array_lives_as_long_as_a_task_of_a_bag_needs_it_and_no_longer() {
    let world = World::new();
    let _server = world.server_with("small", 1, 10 << 20);
    let client = world.client();
    let mut bag = client.bag("look", BagOptions::default()).unwrap();
    let large = ArrayMeta::new(DType::F64, Shape::new(&[1 << 20]).unwrap());
    let mut big = Some(client.array(large, On::Any).unwrap());
    let tasks = all(&mut bag, |_| {
        let array = big.take()?;
        Some(vec!["task".into(), 20i64.into(), Arg::Ref(*array.meta(), std::borrow::Cow::Owned(array))])
    });
    assert!(tasks.len() == 1 && tasks[0].outcome.is_ok(), "{tasks:?}");
    until("its memory is free", || client.array(bytes_of(8 << 20), On::Any).is_ok());
    // A bag that is closed lets go, too.
    let held = client.array(large, On::Any).unwrap();
    let mut bag = client.bag("look", BagOptions::default()).unwrap();
    bag.add(vec!["closed".into(), 200i64.into(), Arg::from(&held)]).unwrap();
    bag.add(vec!["closed".into(), 200i64.into(), Arg::from(&held)]).unwrap();
    drop(held);
    bag.close();
    until("its memory is free again", || client.array(bytes_of(8 << 20), On::Any).is_ok());
}
