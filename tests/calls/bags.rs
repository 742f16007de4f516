//! Bags: many calls of one service.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Bag, BagOptions, Next, Task, TaskFate, TaskState, TaskValue, Value};
use forebay_types::{ArrayMeta, Code, DType, Scalar, Shape};
use rustix::process::Signal;

use forebay_tests::broker::Host;

use crate::deaths::{Dice, Herd};
use crate::roles::{World, stir, until};

const UNORDERED: BagOptions =
    BagOptions { ordered: false, window: None, bytes: None, tail: true, status_fails: false };

/// Takes one task after the other, its input made when the bag asks for it.
pub fn run<'a>(bag: &mut Bag, tasks: u64, make: impl Fn(u64) -> Vec<Arg<'a>>, take: impl FnMut(Task)) {
    run_within(bag, Duration::from_secs(60), tasks, make, take);
}

/// The same; something is over in each such time.
pub fn run_within<'a>(
    bag: &mut Bag,
    patience: Duration,
    tasks: u64,
    make: impl Fn(u64) -> Vec<Arg<'a>>,
    mut take: impl FnMut(Task),
) {
    let mut input = 0..tasks;
    loop {
        match bag.next(Some(patience)).unwrap() {
            Next::Input => match input.next() {
                Some(n) => assert_eq!(bag.add(make(n)).unwrap(), n),
                None => bag.end(),
            },
            Next::Task(task) => take(task),
            Next::Later => panic!("nothing is over in {patience:?}: {:?}", bag.counts()),
            Next::Over => break,
        }
    }
}

/// Of no length that fits in a frame, of one that does, of several blocks.
fn elements(n: u64) -> usize {
    [7, 100, 3_000, 20_000][n as usize % 4]
}

fn values(n: u64) -> Vec<f64> {
    (0..elements(n)).map(|i| (i as f64 + n as f64) / 7.0).collect()
}

fn array(x: &[f64]) -> TaskValue {
    let shape = Shape::new(&[x.len() as u64]).unwrap();
    TaskValue::Array(ArrayMeta::new(DType::F64, shape), x.iter().flat_map(|x| x.to_ne_bytes()).collect())
}

#[test]
fn results_are_those_of_single_calls_and_inputs_stay_as_they_are() {
    let world = World::new();
    let _servers = [world.server("one", 2), world.server("two", 1)];
    let client = world.client();
    let all: Vec<Vec<f64>> = (0..200).map(values).collect();
    for options in [BagOptions::default(), UNORDERED] {
        let mut bag = client.bag("affine", options).unwrap();
        let mut seen = Vec::new();
        run(
            &mut bag,
            200,
            |n| vec![(n as f64).into(), 1.0.into(), Arg::from(&all[n as usize][..])],
            |task| {
                let x = &all[task.index as usize];
                let expected: Vec<f64> = x.iter().map(|x| task.index as f64 * x + 1.0).collect();
                assert_eq!(task.outcome.unwrap(), [array(&expected)]);
                seen.push(task.index);
            },
        );
        if !options.ordered {
            seen.sort();
        }
        assert!(seen.into_iter().eq(0..200));
        assert_eq!((bag.counts().done, bag.counts().pulled, bag.counts().under_way), (200, 200, 0));
        assert!((0..200).all(|n| bag.state(n) == Some(TaskState::Over(TaskFate::Done))));
    }
}

#[test]
fn a_task_whose_input_is_wrong_or_whose_service_fails_is_told_in_its_place() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut bag = client.bag("divide", BagOptions::default()).unwrap();
    let mut ends = Vec::new();
    run(
        &mut bag,
        5,
        |n| match n {
            3 => vec!["three".into(), 4i64.into()],
            n => vec![(n as i64 - 1).into(), 7i64.into()],
        },
        |task| ends.push(task.outcome),
    );
    let codes: Vec<Option<Code>> = ends.iter().map(|e| e.as_ref().err().map(|e| e.code())).collect();
    assert_eq!(codes, [None, Some(Code::RemoteError), None, Some(Code::BadArgument), None]);
    let text = ends[3].as_ref().unwrap_err().text();
    assert!(text.contains("parameter n is i32: got text"), "{text}");
    let last = ends.pop().unwrap().unwrap();
    assert_eq!(last[0], TaskValue::Value(Value::Scalar(Scalar::from(2i64))), "{last:?}");
    assert_eq!((bag.counts().done, bag.counts().failed), (3, 2));
}

#[test]
fn a_bag_of_a_service_that_nobody_offers_says_so_at_its_first_input() {
    let world = World::new();
    let client = world.client();
    let mut bag = client.bag("nobody", BagOptions::default()).unwrap();
    assert!(matches!(bag.next(None).unwrap(), Next::Input));
    assert_eq!(bag.add(vec![1.0.into()]).unwrap_err().code(), Code::NoServer);
    let mut empty = client.bag("nobody", BagOptions::default()).unwrap();
    empty.end();
    assert!(matches!(empty.next(None).unwrap(), Next::Over));
}

#[test]
fn tasks_go_on_while_their_user_does_something_else() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut bag = client.bag("work", BagOptions { window: Some(1), ..BagOptions::default() }).unwrap();
    for n in 0..10 {
        assert!(matches!(bag.next(None).unwrap(), Next::Input));
        bag.add(vec![format!("task-{n}").as_str().into(), 5i64.into()]).unwrap();
    }
    until("all have run", || world.log().iter().filter(|line| line.contains("task-")).count() >= 10);
}

#[test]
fn what_is_given_up_ends_in_its_place_and_what_has_not_begun_is_not_run() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut bag = client.bag("work", BagOptions { window: Some(4), ..BagOptions::default() }).unwrap();
    for n in 0..8 {
        bag.add(vec![format!("task-{n}").as_str().into(), 300i64.into()]).unwrap();
    }
    until("the first one runs", || !world.log().is_empty());
    assert!(bag.cancel(2) && bag.cancel(6) && !bag.cancel(2) && !bag.cancel(99));
    assert_eq!(bag.state(6), Some(TaskState::Over(TaskFate::Cancelled)));
    assert_eq!((bag.state(7), bag.state(99)), (Some(TaskState::Open), None));
    bag.end();
    let mut ends = Vec::new();
    run(&mut bag, 0, |_| Vec::new(), |task| ends.push(task.outcome.err().map(|e| e.code())));
    let cancelled = Some(Code::Cancelled);
    assert_eq!(ends, [None, None, cancelled, None, None, None, cancelled, None]);
    assert!(!world.log().iter().any(|line| line.ends_with("task-2") || line.ends_with("task-6")));
    let mut bag = client.bag("work", BagOptions { window: Some(4), ..BagOptions::default() }).unwrap();
    for n in 10..20 {
        bag.add(vec![format!("task-{n}").as_str().into(), 300i64.into()]).unwrap();
    }
    until("the next one runs", || world.log().iter().any(|line| line.ends_with("task-10")));
    bag.close();
    assert_eq!(bag.next(None).unwrap_err().code(), Code::Closed);
    assert_eq!(bag.add(vec!["late".into(), 1i64.into()]).unwrap_err().code(), Code::Closed);
    client.call("work", vec!["behind".into(), 0i64.into()], None).unwrap();
    let begun = world.log().iter().filter(|line| line.contains("task-1")).count();
    assert!(begun <= 3, "of a closed bag, after task-1: {:?}", world.log());
}

#[test]
fn servers_and_brokers_that_come_and_go_change_no_result_and_none_runs_a_task_twice() {
    let mut world = World::new();
    let mut dice = Dice::from_seed();
    let over = AtomicBool::new(false);
    let client = world.client();
    let mut executions: HashMap<String, u32> = HashMap::new();
    let tasks = if crate::OVER_NETWORK { 1_000 } else { 3_000 };
    // Over the network the next broker would have another address.
    let mut broker = if crate::OVER_NETWORK { None } else { world.broker.take() };
    let socket = world.dir.path().join("agent.sock");
    {
        let mut herd = Herd::new(&world);
        (0..3).for_each(|_| herd.grow());
        let mut bag = client.bag("stir", UNORDERED).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(dice.below(300)));
                    herd.act(&mut dice);
                    if dice.below(3) == 0 && broker.take().is_some() {
                        std::thread::sleep(Duration::from_millis(dice.below(100)));
                        broker = Some(Host::start(&socket));
                    }
                }
            });
            let inputs: Vec<Vec<f64>> = (0..4).map(values).collect();
            let mut seen = 0;
            run(
                &mut bag,
                tasks,
                |n| vec![(n as i64).into(), 1i64.into(), Arg::from(&inputs[n as usize % 4][..])],
                |task| {
                    let mut expected = inputs[task.index as usize % 4].clone();
                    stir(task.index as i64, &mut expected);
                    let got = task.outcome.unwrap_or_else(|e| panic!("task {}: {e}", task.index));
                    assert!(got == [array(&expected)], "task {} has another result", task.index);
                    seen += 1;
                },
            );
            over.store(true, Ordering::SeqCst);
            assert_eq!(seen, tasks);
        });
    }
    for line in world.log() {
        *executions.entry(line).or_default() += 1;
    }
    let twice: Vec<&String> = executions.iter().filter(|(_, n)| **n > 1).map(|(line, _)| line).collect();
    assert!(twice.is_empty(), "a server ran a task twice: {twice:?}");
}

#[test]
fn a_task_under_which_servers_die_is_given_up_and_the_others_are_done() {
    let world = World::new();
    let mut servers = vec![world.server("one", 2), world.server("two", 2)];
    let client = world.client();
    let mut bag = client.bag("falter", UNORDERED).unwrap();
    let (mut done, mut failed) = (0, Vec::new());
    let mut input = 0..40i64;
    let mut dead = 0;
    loop {
        match bag.next(Some(Duration::from_millis(20))).unwrap() {
            Next::Input => match input.next() {
                Some(n) => drop(bag.add(vec![n.into(), 7i64.into()]).unwrap()),
                None => bag.end(),
            },
            Next::Task(task) => match task.outcome {
                Ok(_) => done += 1,
                Err(e) => failed.push((task.index, e)),
            },
            Next::Later => {}
            Next::Over => break,
        }
        // Whoever dies is started again.
        for server in &mut servers {
            if server.has_ended() {
                dead += 1;
                *server = world.server(&format!("again-{dead}"), 2);
            }
        }
    }
    assert_eq!((done, failed.len()), (39, 1));
    let (index, e) = failed.remove(0);
    assert_eq!((index, e.code()), (7, Code::Poisoned));
    assert!(e.text().contains("3 servers died under this task"), "{e}");
    assert!((2..=3).contains(&dead), "{dead} were started again");
}

#[test]
fn a_task_with_effects_is_not_done_again() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let mut bag = client.bag("order_once", BagOptions::default()).unwrap();
    bag.add(vec!["only".into(), 5_000i64.into()]).unwrap();
    bag.end();
    until("it runs", || !world.log().is_empty());
    let _other = world.server("two", 1);
    server.signal(Signal::KILL);
    let mut ends = Vec::new();
    run(&mut bag, 0, |_| Vec::new(), |task| ends.push(task.outcome.unwrap_err()));
    assert_eq!(ends[0].code(), Code::ServerLost);
    assert!(ends[0].text().contains("has effects"), "{}", ends[0]);
    assert_eq!(world.log().len(), 1);
}

#[test]
fn a_new_server_gets_tasks_of_a_bag_that_has_begun() {
    let world = World::new();
    let first = world.server("one", 1);
    let client = world.client();
    let mut bag = client.bag("work", UNORDERED).unwrap();
    let mut second = None;
    let mut by = HashMap::new();
    run(
        &mut bag,
        300,
        |_| vec!["task".into(), 20i64.into()],
        |task| {
            second.get_or_insert_with(|| world.server("two", 1));
            *by.entry(format!("{:?}", task.outcome.unwrap())).or_insert(0) += 1;
        },
    );
    assert_eq!(by.len(), 2, "{by:?}");
    drop(first);
}

#[test]
fn two_bags_of_one_client_and_calls_beside_them_are_all_done() {
    let world = World::new();
    let _servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    std::thread::scope(|scope| {
        for options in [BagOptions::default(), UNORDERED] {
            let client = &client;
            scope.spawn(move || {
                let x = values(3);
                let mut bag = client.bag("affine", options).unwrap();
                let mut done = 0;
                run(
                    &mut bag,
                    300,
                    |_| vec![2.0.into(), 0.0.into(), Arg::from(&x[..])],
                    |task| done += usize::from(task.outcome.is_ok()),
                );
                assert_eq!(done, 300);
            });
        }
        for _ in 0..300 {
            client.call("void", vec![], None).unwrap();
        }
    });
}

#[test]
fn a_last_task_that_stalls_at_its_server_is_done_by_another_one_and_given_up_there() {
    const TASKS: i64 = 40;
    let world = World::new();
    let servers = [world.server("one", 1), world.server("two", 1)];
    let client = world.client();
    let mut bag = client.bag("stall", UNORDERED).unwrap();
    let mut pids = Vec::new();
    let began = Instant::now();
    let input = |n: u64| vec![(n as i64).into(), (TASKS - 1).into()];
    run(&mut bag, TASKS as u64, input, |task| pids.push((task.index, task.outcome.unwrap())));
    assert!(began.elapsed() < Duration::from_secs(30), "it waited for the one that stalls");
    assert_eq!(pids.len(), TASKS as usize);
    let stalled = format!("stall-{}", TASKS - 1);
    let begun: Vec<String> = world.log().into_iter().filter(|line| line.ends_with(&stalled)).collect();
    assert_eq!(begun.len(), 2, "{begun:?}");
    assert!(servers.iter().all(|s| begun.iter().any(|line| line.starts_with(&s.pid().to_string()))));
    until("the first one hears of it", || world.log().iter().any(|line| line.ends_with("given-up")));

    // Not if it is not to be.
    std::fs::remove_file(world.dir.path().join("stalled")).unwrap();
    let mut bag = client.bag("stall", BagOptions { tail: false, ..UNORDERED }).unwrap();
    for n in 0..TASKS {
        bag.add(input(n as u64)).unwrap();
    }
    bag.end();
    let mut over = 0;
    while over < TASKS - 1 {
        match bag.next(Some(Duration::from_secs(60))).unwrap() {
            Next::Task(task) => over += i64::from(task.outcome.is_ok()),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(bag.next(Some(Duration::from_secs(1))).unwrap(), Next::Later));
    assert_eq!(world.log().into_iter().filter(|line| line.ends_with(&stalled)).count(), 3);
}
