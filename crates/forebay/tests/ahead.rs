//! A rank that is ahead of the others: it has ended steps that they have not begun, and goes on for as long as it
//! likes. Only its blocks bound it, as the guide says.

use crate::support::{Sandbox, agent_pid, sandbox, signal};
use forebay::{ArrayOptions, Mode, OpenOptions, Place, PutOptions, Run, Shape, View};

/// More than any ring holds.
const SETS: usize = 2000;
const BYTES: usize = 16 << 10;
const STEPS: i64 = 3;

fn open(s: &Sandbox, rank: u32) -> Run {
    let options = OpenOptions { buffer: 8 << 20, rank: Some(rank), size: Some(2), ..Default::default() };
    forebay::open(&s.run("r"), Mode::Append, options).unwrap()
}

/// Its part of a step: a piece in a block, a small one in the record, and one behind the other rank's.
fn part(run: &Run, rank: u32, step: i64) {
    let sh = |v: &[u64]| Shape::new(v).unwrap();
    let snapshot = run.snapshot(step, None).unwrap();
    for (name, n) in [("large", 30_000_u64), ("small", 4)] {
        let values: Vec<f64> = (0..n).map(|i| step as f64 + f64::from(rank) * 1e6 + i as f64).collect();
        let place = Place::At { offset: sh(&[u64::from(rank) * n]), global: sh(&[2 * n]) };
        snapshot
            .put(name, View::of(&values, &[n]).unwrap(), ArrayOptions { place, ..ArrayOptions::default() })
            .unwrap();
    }
    let behind = vec![f64::from(rank); rank as usize + 1];
    let view = View::of(&behind, &[u64::from(rank) + 1]).unwrap();
    snapshot.put("behind", view, ArrayOptions { place: Place::Append, ..ArrayOptions::default() }).unwrap();
    snapshot.end().unwrap();
}

fn first(s: &Sandbox) {
    let run = open(s, 0);
    (0..STEPS).for_each(|step| part(&run, 0, step));
    let bytes = vec![7_u8; BYTES];
    for i in 0..SETS {
        let view = View::of(&bytes, &[BYTES as u64]).unwrap();
        run.put(&format!("behind/{i}"), view, PutOptions::default()).unwrap();
    }
    s.tell("ahead");
    s.hear("followed");
    run.close().unwrap();
}

fn second(s: &Sandbox) {
    let run = open(s, 1);
    // The message of the first rank, as MPI would bring it.
    s.hear("go");
    (0..STEPS).for_each(|step| part(&run, 1, step));
    s.tell("followed");
    run.close().unwrap();
}

fn is_whole(s: &Sandbox) {
    let run = forebay::open(&s.run("r"), Mode::Read, OpenOptions::default()).unwrap();
    assert_eq!(run.snapshots().unwrap().numbers().unwrap(), (0..STEPS).collect::<Vec<i64>>());
    for step in 0..STEPS {
        let snapshot = run.snapshots().unwrap().at(step).unwrap();
        for (name, n) in [("large", 30_000), ("small", 4)] {
            let found = snapshot.get(name, None).unwrap().to_f64().unwrap();
            let due = |i: usize| step as f64 + (i / n) as f64 * 1e6 + (i % n) as f64;
            assert!(found.len() == 2 * n && found.iter().enumerate().all(|(i, v)| *v == due(i)), "{name}");
        }
        assert_eq!(snapshot.get("behind", None).unwrap().to_f64().unwrap(), [0.0, 1.0, 1.0]);
    }
    let all = run.list("behind/*", None).unwrap();
    assert_eq!(all.len(), SETS);
    run.close().unwrap();
}

fn play(test: &str, between: impl Fn(&Sandbox)) {
    sandbox(test, |s| {
        match s.role.as_str() {
            "first" => return first(s),
            "second" => return second(s),
            _ => {}
        }
        forebay_agent::start_to_stay().unwrap();
        let mut ranks = [s.start("first"), s.start("second")];
        s.hear("ahead");
        between(s);
        s.tell("go");
        for rank in &mut ranks {
            assert!(rank.wait().success());
        }
        is_whole(s);
    });
}

#[test]
fn a_rank_puts_behind_its_steps_whatever_it_likes_while_another_waits_for_its_message() {
    play("a_rank_puts_behind_its_steps_whatever_it_likes_while_another_waits_for_its_message", |_| {});
}

#[test]
fn steps_of_a_rank_that_is_ahead_are_whole_when_the_agent_dies_meanwhile() {
    play("steps_of_a_rank_that_is_ahead_are_whole_when_the_agent_dies_meanwhile", |_| {
        signal(agent_pid(), "-KILL");
    });
}
