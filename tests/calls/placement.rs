//! Which server gets a call: those that wait for room, rules, clients that are tied to a server, clients that share one.

use std::sync::Mutex;
use std::time::Duration;

use forebay_client::call::{
    Arg, BagOptions, Choice, Client, Future, Named, Next, Only, Placement, ServerView, TaskView, Value,
    wait_all,
};
use forebay_types::Code;
use rustix::process::Signal;

use crate::bags::{run, run_within};
use crate::roles::{World, until};

fn work(client: &Client, tag: &str, ms: i64) -> Future<'static> {
    client.call_async("work", vec![Arg::Str(tag.to_owned().leak()), ms.into()], None).unwrap()
}

fn pid(values: Vec<Value>) -> i64 {
    match values.as_slice() {
        [Value::Scalar(s)] => s.as_i64().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_wait_for_room_at_a_server_and_not_behind_a_long_one() {
    let world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut long = work(&client, "long", 60_000);
    until("it runs", || world.log().iter().any(|l| l.ends_with("long")));
    let mut short: Vec<Future> = (0..20).map(|n| work(&client, &format!("short-{n}"), 3)).collect();
    // A few have gone to the server that is busy before anybody knew how long a call takes.
    until("the other server does what is left", || {
        world.log().iter().filter(|l| l.contains("short-")).count() >= 19
    });
    long.cancel();
    assert!(wait_all(&mut short.iter_mut().collect::<Vec<_>>(), Some(Duration::from_secs(60))));
    assert!(short.iter_mut().all(|f| f.wait(None).is_ok()));
}

#[test]
fn what_waits_goes_to_a_server_that_comes() {
    let world = World::new();
    let one = world.server("one", 1);
    let client = world.client();
    let mut calls: Vec<Future> = (0..8).map(|n| work(&client, &format!("task-{n}"), 700)).collect();
    let two = world.server("two", 1);
    let ran: Vec<i64> = calls.iter_mut().map(|f| pid(f.wait(None).unwrap())).collect();
    let by = |server: i64| ran.iter().filter(|pid| **pid == server).count();
    assert!(by(one.pid()) >= 2 && by(two.pid()) >= 2, "{ran:?}");
}

#[test]
fn a_call_that_waits_and_is_cancelled_is_not_run() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut first = work(&client, "first", 60_000);
    until("it runs", || !world.log().is_empty());
    let mut others: Vec<Future> = (0..50).map(|n| work(&client, &format!("other-{n}"), 0)).collect();
    let mut last = others.pop().unwrap();
    others.iter_mut().for_each(Future::cancel);
    first.cancel();
    assert_eq!(pid(last.wait(Some(Duration::from_secs(60))).unwrap()), _server.pid());
    assert!(others.iter_mut().all(|f| f.wait(None).unwrap_err().code() == Code::Cancelled));
    let ran = world.log();
    assert!(!ran.iter().any(|l| l.contains("other-") && !l.ends_with("other-49")), "{ran:?}");
    drop(others);
    client.call("void", vec![], None).unwrap();
}

#[test]
fn a_call_waits_no_longer_than_its_time() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut first = work(&client, "first", 60_000);
    let _second = work(&client, "second", 60_000);
    let args = || vec!["late".into(), 0i64.into()];
    let mut late = client.call_async("work", args(), Some(Duration::from_millis(50))).unwrap();
    assert_eq!(late.wait(None).unwrap_err().code(), Code::Timeout);
    let e = client.call("work", args(), Some(Duration::from_millis(50))).unwrap_err();
    assert_eq!(e.code(), Code::Timeout);
    first.cancel();
    assert!(!world.log().iter().any(|l| l.ends_with("late")));
}

#[test]
fn calls_that_wait_outlive_the_death_of_every_server_they_might_have_gone_to() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    client.patience(Duration::from_secs(60));
    let mut calls: Vec<Future> = (0..6).map(|n| work(&client, &format!("task-{n}"), 200)).collect();
    until("the first one runs", || !world.log().is_empty());
    server.signal(Signal::KILL);
    let two = world.server("two", 1);
    assert!(calls.iter_mut().all(|f| pid(f.wait(Some(Duration::from_secs(60))).unwrap()) == two.pid()));
}

#[test]
fn calls_that_wait_when_all_servers_are_gone_say_so() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let mut calls: Vec<Future> = (0..6).map(|n| work(&client, &format!("task-{n}"), 60_000)).collect();
    until("the first one runs", || !world.log().is_empty());
    server.signal(Signal::KILL);
    for call in &mut calls {
        let code = call.wait(Some(Duration::from_secs(60))).unwrap_err().code();
        assert!(matches!(code, Code::ServerLost | Code::NoServer), "{code:?}");
    }
}

#[test]
fn arguments_of_calls_that_wait_are_those_they_were_given() {
    let world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut x = vec![0.0; 20_000];
    let arrays: Vec<Vec<f64>> = (0..30).map(|n| vec![f64::from(n); 20_000]).collect();
    let mut sums = Vec::new();
    for (n, array) in arrays.iter().enumerate() {
        let args = vec![Arg::Str(format!("look-{n}").leak()), 5i64.into(), array[..].into()];
        sums.push(client.call_async("look", args, None).unwrap());
    }
    for (n, call) in sums.iter_mut().enumerate() {
        let Value::Scalar(sum) = call.wait(None).unwrap()[0].clone() else { panic!("no number") };
        assert_eq!(sum.as_f64().unwrap(), n as f64 * 20_000.0);
    }
    let mut stirs: Vec<Future> = x
        .chunks_mut(2_000)
        .enumerate()
        .map(|(n, part)| {
            client.call_async("affine", vec![0.0.into(), (n as f64).into(), Arg::from(part)], None).unwrap()
        })
        .collect();
    assert!(wait_all(&mut stirs.iter_mut().collect::<Vec<_>>(), Some(Duration::from_secs(60))));
    drop(stirs);
    assert!(x.iter().enumerate().all(|(i, x)| *x == (i / 2_000) as f64));
}

#[test]
fn a_client_that_is_tied_to_a_server_calls_no_other_one() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1), world.server("two", 1)];
    let client = world.client();
    let pids = |client: &Client| -> Vec<i64> {
        let calls: Vec<Future> = (0..6).map(|n| work(client, &format!("task-{n}"), 2)).collect();
        calls.into_iter().map(|mut f| pid(f.wait(None).unwrap())).collect()
    };
    let one = client.on(Only::Name("one".into()));
    assert!(pids(&one).iter().all(|pid| *pid == servers[0].pid()));
    let two = pids(&client.on(Only::Name("two".into())));
    assert!(two.iter().all(|pid| *pid != servers[0].pid()), "{two:?}");
    let last = client.on(Only::Pid(servers[2].pid() as u32));
    assert!(pids(&last).iter().all(|pid| *pid == servers[2].pid()));
    let mut bag = last.bag("work", BagOptions::default()).unwrap();
    for n in 0..5 {
        bag.add(vec![Arg::Str(format!("bag-{n}").leak()), 2i64.into()]).unwrap();
    }
    bag.end();
    while let Next::Task(task) = bag.next(None).unwrap() {
        task.outcome.unwrap();
    }
    let ran = world.log();
    let prefix = format!("{} bag-", servers[2].pid());
    assert_eq!(ran.iter().filter(|l| l.starts_with(&prefix)).count(), 5, "{ran:?}");
    let e = client.on(Only::Name("three".into())).call("void", vec![], None).unwrap_err();
    assert_eq!(e.code(), Code::NoServer);
    assert!(e.text().contains("no server \"three\" offers void") && e.text().contains("\"one\""), "{e}");
    servers[0].signal(Signal::KILL);
    let e = one.call("void", vec![], None).unwrap_err();
    assert!(matches!(e.code(), Code::NoServer | Code::ServerLost), "{e}");
    // Another server of its name offers the service, and this client may not call it.
    let mut long = work(&last, "long", 60_000);
    until("it began", || world.log().iter().any(|line| line.ends_with(" long")));
    servers[2].signal(Signal::KILL);
    let e = long.wait(Some(Duration::from_secs(20))).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost);
    assert!(e.text().contains("no other server that this client may call offers it"), "{e}");
}

/// Always the server of that name; notes what it was asked.
struct Always(&'static str, std::sync::Arc<Mutex<Vec<usize>>>);

impl Placement for Always {
    fn choose(&self, task: &TaskView, servers: &[ServerView]) -> Choice {
        assert!(!servers.is_empty());
        self.1.lock().unwrap().push(task.waiting);
        servers.iter().position(|s| s.info.name == self.0).map_or(Choice::Later, Choice::At)
    }
}

#[test]
fn the_rule_of_a_client_decides_where_its_calls_and_tasks_go() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let asked = std::sync::Arc::default();
    client.place_by(Always("two", std::sync::Arc::clone(&asked))).unwrap();
    let again = client.place_by(Named::Turns).unwrap_err();
    assert!(again.code() == Code::Conflict && again.text().contains("another client"), "{again}");
    let calls: Vec<Future> = (0..6).map(|n| work(&client, &format!("task-{n}"), 1)).collect();
    for mut call in calls {
        assert_eq!(pid(call.wait(None).unwrap()), servers[1].pid());
    }
    let mut bag = client.bag("void", BagOptions::default()).unwrap();
    (0..20).for_each(|n| assert_eq!(bag.add(vec![]).unwrap(), n));
    bag.end();
    while let Next::Task(task) = bag.next(None).unwrap() {
        task.outcome.unwrap();
    }
    assert!(asked.lock().unwrap().len() >= 26);
}

/// A rule that waits for a lock that the thread which uses the client has now and then, calls a service itself, and
/// looks at a bag.
struct Slow {
    lock: Mutex<usize>,
    client: Client,
    bag: std::sync::OnceLock<forebay_client::call::BagView>,
}

impl Placement for &'static Slow {
    fn choose(&self, task: &TaskView, servers: &[ServerView]) -> Choice {
        let mut asked = self.lock.lock().unwrap();
        *asked += 1;
        let number = *asked;
        drop(asked);
        assert!(task.cost.is_none() && !servers.is_empty());
        // What it calls itself is placed without it.
        self.client.call("void", vec![], None).unwrap();
        if let Some(bag) = self.bag.get() {
            assert!(bag.counts().pulled > 0);
        }
        match number % 4 {
            0 => Choice::Later,
            1 => Choice::At(77),
            _ => servers.iter().position(|s| s.info.name == "two").map_or(Choice::Later, Choice::At),
        }
    }

    fn may_wait(&self) -> bool {
        true
    }
}

#[test]
fn a_rule_that_waits_is_asked_with_nothing_locked_and_what_it_does_not_decide_goes_somewhere() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let (lock, bag) = (Mutex::default(), std::sync::OnceLock::new());
    let slow: &Slow = Box::leak(Box::new(Slow { lock, client: client.clone(), bag }));
    client.place_by(slow).unwrap();
    let calls: Vec<Future> = (0..40).map(|n| work(&client, &format!("task-{n}"), 1)).collect();
    let ran: Vec<i64> =
        calls.into_iter().map(|mut f| pid(f.wait(Some(Duration::from_secs(60))).unwrap())).collect();
    let on_two = ran.iter().filter(|pid| **pid == servers[1].pid()).count();
    assert!((20..40).contains(&on_two), "half of them at least, and not all: {ran:?}");
    assert_eq!(*slow.lock.lock().unwrap(), 40, "each is asked once");
    let mut bag = client.bag("work", BagOptions { ordered: false, ..BagOptions::default() }).unwrap();
    slow.bag.set(bag.view()).ok().unwrap();
    let (mut pulled, mut over) = (0, 0);
    loop {
        // The rule waits for this thread, which waits for the bag.
        let held = slow.lock.lock().unwrap();
        bag.counts();
        drop(held);
        match bag.next(Some(Duration::from_secs(60))).unwrap() {
            Next::Input if pulled < 200 => {
                bag.add(vec!["bag".into(), 1i64.into()]).unwrap();
                pulled += 1;
            }
            Next::Input => bag.end(),
            Next::Task(task) => {
                task.outcome.unwrap();
                over += 1;
            }
            Next::Later => panic!("nothing is over in a minute: {:?}", bag.counts()),
            Next::Over => break,
        }
    }
    assert!(over == 200 && *slow.lock.lock().unwrap() >= 240);
}

/// A rule that maps, groups and calls itself.
struct Within {
    client: Client,
    /// Begun outside of it.
    outer: Mutex<Option<forebay_client::call::Bag>>,
    refused: Mutex<Vec<Code>>,
}

impl Placement for &'static Within {
    fn choose(&self, _: &TaskView, _: &[ServerView]) -> Choice {
        let mut bag = self.client.bag("work", BagOptions::default()).unwrap();
        let mut over = 0;
        let make = |_| vec!["within".into(), 1i64.into()];
        run_within(&mut bag, Duration::from_secs(30), 3, make, |task| {
            task.outcome.unwrap();
            over += 1;
        });
        assert_eq!(over, 3);
        let mut calls = [work(&self.client, "call", 1), work(&self.client, "call", 1)];
        assert!(wait_all(&mut calls.iter_mut().collect::<Vec<_>>(), Some(Duration::from_secs(30))));
        if let Some(outer) = &mut *self.outer.lock().unwrap() {
            let e = outer.next(Some(Duration::from_secs(30))).unwrap_err();
            assert!(e.text().contains("begin a map within"), "{e}");
            self.refused.lock().unwrap().push(e.code());
        }
        Choice::At(0)
    }

    fn may_wait(&self) -> bool {
        true
    }
}

#[test]
fn a_rule_maps_and_calls_with_its_own_client_and_waits_for_no_map_that_it_places() {
    let world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let rule: &Within = Box::leak(Box::new(Within {
        client: client.clone(),
        outer: Mutex::default(),
        refused: Mutex::default(),
    }));
    client.place_by(rule).unwrap();
    client.call("work", vec!["outside".into(), 0i64.into()], None).unwrap();
    let mut bag = client.bag("work", BagOptions::default()).unwrap();
    assert!(matches!(bag.next(None).unwrap(), Next::Input));
    *rule.outer.lock().unwrap() = Some(client.bag("work", BagOptions::default()).unwrap());
    let mut over = 0;
    run(
        &mut bag,
        4,
        |_| vec!["outside".into(), 1i64.into()],
        |task| {
            task.outcome.unwrap();
            over += 1;
        },
    );
    assert_eq!(over, 4);
    let refused = rule.refused.lock().unwrap();
    assert!(refused.len() >= 4 && refused.iter().all(|code| *code == Code::BadArgument), "{refused:?}");
}

#[test]
fn servers_take_turns_if_that_is_the_rule() {
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    client.place_by(Named::parse("turns").unwrap()).unwrap();
    let pids: Vec<i64> =
        (0..6).map(|n| pid(work(&client, &format!("turn-{n}"), 0).wait(None).unwrap())).collect();
    for server in &servers {
        assert_eq!(pids.iter().filter(|p| **p == server.pid()).count(), 3, "{pids:?}");
    }
}

#[test]
fn a_client_of_short_calls_gets_as_much_of_a_server_as_one_of_long_calls() {
    let world = World::new();
    let _server = world.server("one", 1);
    let run = |tag: &str, ms: i64, enough: &dyn Fn() -> bool| {
        let client = world.client();
        let mut bag = client.bag("work", BagOptions { ordered: false, ..BagOptions::default() }).unwrap();
        loop {
            match bag.next(None).unwrap() {
                Next::Input if enough() => return,
                Next::Input => {
                    bag.add(vec![tag.into(), ms.into()]).unwrap();
                }
                Next::Task(task) => drop(task.outcome.unwrap()),
                Next::Later | Next::Over => unreachable!("there is always more"),
            }
        }
    };
    let count = |tag: &str| world.log().iter().filter(|l| l.ends_with(tag)).count();
    // A second of the server's time each, if they share it.
    let enough = || count("short") >= 100;
    std::thread::scope(|scope| {
        scope.spawn(|| run("long", 200, &enough));
        run("short", 10, &enough);
    });
    let (short, long) = (10 * count("short"), 200 * count("long"));
    assert!(long > short / 3 && short > long / 3, "{short} ms and {long} ms");
}
