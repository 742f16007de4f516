//! The agent dies while ranks run: a successor takes the runs over and the simulation goes on.

mod support;

use std::time::Duration;

use forebay::{Cell, Column, Mode, OpenOptions, PutOptions, Run, Table, TableOptions, View};
use support::{agent_pid, check, sandbox, signal, take, until};

const N: usize = 200_000;

fn open(s: &support::Sandbox, name: &str, rank: u32, size: u32) -> Run {
    let options = OpenOptions { buffer: 16 << 20, rank: Some(rank), size: Some(size), ..Default::default() };
    forebay::open(&s.run(name), Mode::Append, options).unwrap()
}

fn history(run: &Run) -> Table {
    let columns = vec![Column { name: "t".into(), dtype: "f64".into(), unit: String::new() }];
    run.table("history", TableOptions { columns, history: true }).unwrap()
}

/// Kills the agent and says which it was.
fn kill_agent() -> u32 {
    let pid = agent_pid();
    signal(pid, "-KILL");
    pid
}

fn another_agent(old: u32) {
    let socket = forebay_arena::place::agent_socket().unwrap();
    until("the successor", || {
        forebay_link::Wire::connect(&socket, Duration::from_secs(2)).is_ok_and(|w| w.peer().pid != old)
    });
}

fn sound(s: &support::Sandbox, name: &str) {
    let path = format!("{}.fb", s.run(name));
    let report = forebay_store::verify(std::path::Path::new(&path)).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

#[test]
fn a_simulation_goes_on_when_its_agent_is_killed_again_and_again() {
    sandbox("a_simulation_goes_on_when_its_agent_is_killed_again_and_again", |s| {
        forebay_agent::start_to_stay().unwrap();
        let run = open(s, "on", 0, 1);
        let table = history(&run);
        let mut head = run.steps(12, 0).unwrap();
        let mut version = 0;
        while let Some(step) = head.next().unwrap() {
            if step % 3 == 1 {
                let old = kill_agent();
                // Mostly the calls find out by themselves, under way or at their beginning.
                if step == 7 {
                    another_agent(old);
                }
            }
            take(&run, step, N).unwrap();
            let one = [step as f64];
            run.put(&format!("data/{step}"), View::of(&one, &[1]).unwrap(), PutOptions::default()).unwrap();
            let big = support::field(step, 40_000);
            let set = PutOptions { set: step, ..Default::default() };
            run.put("big", View::of(&big, &[40_000]).unwrap(), set).unwrap();
            version = run.put_if_version("counted", View::text("x"), PutOptions::default(), version).unwrap();
            table.insert(&[vec![Cell::Real(step as f64)]]).unwrap();
        }
        run.flush().unwrap();
        assert_eq!(version, 12);
        assert_eq!(run.snapshots().unwrap().numbers(), (0..12).collect::<Vec<i64>>());
        for step in 0..12 {
            check(&run, step, N);
            let one = run.get(&format!("data/{step}"), 0, None).unwrap();
            assert_eq!(one.to_f64().unwrap(), [step as f64]);
            assert!(run.get("big", step, None).unwrap().to_f64().unwrap() == support::field(step, 40_000));
        }
        assert_eq!(table.len().unwrap(), 12, "each row once");
        run.close().unwrap();
        sound(s, "on");
    });
}
