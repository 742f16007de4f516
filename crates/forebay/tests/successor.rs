//! The agent dies while ranks run: a successor takes the runs over and the simulation goes on.

use std::path::Path;
use std::time::Duration;

use crate::support::{agent_pid, check, sandbox, signal, take, until};
use forebay::{
    ArrayOptions, Cell, Column, Mode, OpenOptions, Place, PutOptions, Run, Shape, Table, TableOptions, View,
};
use forebay_arena::{Segment, SegmentSpec};
use forebay_link::Wire;
use forebay_types::control::{OpenRun, RunOpened, RunRequest, WhenFull, word};

const N: usize = 200_000;

fn open(s: &crate::support::Sandbox, name: &str, rank: u32, size: u32) -> Run {
    let options = OpenOptions { buffer: 16 << 20, rank: Some(rank), size: Some(size), ..Default::default() };
    forebay::open(&s.run(name), Mode::Append, options).unwrap()
}

fn history(run: &Run) -> Table {
    let columns = vec![Column { name: "t".into(), dtype: "f64".into(), ..Default::default() }];
    run.table("history", TableOptions { columns, history: true }).unwrap()
}

/// Kills the agent and says which it was.
fn kill_agent() -> u32 {
    let pid = agent_pid();
    signal(pid, "-KILL");
    pid
}

fn another_agent(old: u32) {
    let socket = forebay_host::sockets::agent_socket().unwrap();
    until("the successor", || {
        forebay_link::Wire::connect(&socket, Duration::from_secs(2)).is_ok_and(|w| w.peer().pid != old)
    });
}

fn sound(s: &crate::support::Sandbox, name: &str) {
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
            let big = crate::support::field(step, 40_000);
            let set = PutOptions { set: step, ..Default::default() };
            run.put("big", View::of(&big, &[40_000]).unwrap(), set).unwrap();
            version = run.put_if_version("counted", View::text("x"), PutOptions::default(), version).unwrap();
            table.insert(&[vec![Cell::Real(step as f64)]]).unwrap();
        }
        run.flush().unwrap();
        assert_eq!(version, 12);
        assert_eq!(run.snapshots().unwrap().numbers().unwrap(), (0..12).collect::<Vec<i64>>());
        for step in 0..12 {
            check(&run, step, N);
            let one = run.get(&format!("data/{step}"), 0, None).unwrap();
            assert_eq!(one.to_f64().unwrap(), [step as f64]);
            assert!(
                run.get("big", step, None).unwrap().to_f64().unwrap() == crate::support::field(step, 40_000)
            );
        }
        assert_eq!(table.len().unwrap(), 12, "each row once");
        run.close().unwrap();
        sound(s, "on");
    });
}

fn offer_until_told(s: &crate::support::Sandbox) {
    let server = forebay::serve::Server::new("one");
    let server = server
        .service("twice(inout x:f64[n])", |call| {
            let [x] = call.args()?;
            x.view::<f64>()?.update(|x| x * 2.0);
            Ok(())
        })
        .unwrap();
    let running = server.start(forebay::locator(None)).unwrap();
    s.tell("offered");
    s.hear("over");
    running.stop();
}

#[test]
fn who_comes_right_after_the_agents_death_finds_the_servers_of_before() {
    sandbox("who_comes_right_after_the_agents_death_finds_the_servers_of_before", |s| {
        if s.role == "server" {
            return offer_until_told(s);
        }
        forebay_agent::start_to_stay().unwrap();
        let mut server = s.start("server");
        s.hear("offered");
        for round in 0..3 {
            kill_agent();
            let client = forebay::connect(None).unwrap();
            let mut x = [f64::from(round), 1.0];
            client.call("twice", vec![(&mut x[..]).into()], Some(Duration::from_secs(20))).unwrap();
            assert_eq!(x, [2.0 * f64::from(round), 2.0]);
        }
        s.tell("over");
        assert!(server.wait().success());
    });
}

/// Writes steps until it is killed, and says how many it has ended.
fn write_steps(s: &crate::support::Sandbox, rank: u32) -> ! {
    let run = open(s, "again", rank, 2);
    for step in 0.. {
        let snapshot = run.snapshot(step, None).unwrap();
        let values = vec![step as f64; 100_000];
        let place = Place::At {
            offset: Shape::new(&[u64::from(rank) * 100_000]).unwrap(),
            global: Shape::new(&[200_000]).unwrap(),
        };
        snapshot
            .put(
                "x",
                View::of(&values, &[100_000]).unwrap(),
                ArrayOptions { units: "", place, about: None, compress: None },
            )
            .unwrap();
        snapshot.end().unwrap();
        std::fs::write(s.dir.join(format!("ended-{rank}-{step}")), b"").unwrap();
        while !s.dir.join(format!("ended-{}-{}", 1 - rank, step - 3)).exists() && step > 2 {
            std::thread::yield_now();
        }
    }
    unreachable!()
}

#[test]
fn a_program_that_is_started_again_while_a_successor_drains_goes_back_to_the_last_acknowledged_step() {
    let name =
        "a_program_that_is_started_again_while_a_successor_drains_goes_back_to_the_last_acknowledged_step";
    sandbox(name, |s| {
        if let Some(rank) = s.role.strip_prefix("rank") {
            write_steps(s, rank.parse().unwrap());
        }
        forebay_agent::start_to_stay().unwrap();
        let acknowledged = |step: i64| (0..2).all(|r| s.dir.join(format!("ended-{r}-{step}")).exists());
        let mut ranks = [s.start("rank0"), s.start("rank1")];
        until("ten steps", || acknowledged(9));
        let old = kill_agent();
        ranks[0].kill();
        another_agent(old);
        ranks[1].kill();
        let last = (9..).take_while(|step| acknowledged(*step)).last().unwrap();
        let runs = [open(s, "again", 0, 2), open(s, "again", 1, 2)];
        for run in &runs {
            let back = run.restart().unwrap().unwrap().snapshot.step();
            assert!(back >= last, "step {last} was acknowledged, and it went back to {back}");
        }
        runs.into_iter().for_each(|run| run.close().unwrap());
        sound(s, "again");
    });
}

#[test]
fn a_segment_that_is_cut_short_costs_an_agent_and_what_was_in_it_and_no_other_run() {
    sandbox("a_segment_that_is_cut_short_costs_an_agent_and_what_was_in_it_and_no_other_run", |s| {
        if s.role == "victim" {
            let run = open(s, "cut", 0, 1);
            take(&run, 0, N).unwrap().wait(None).unwrap();
            s.tell("open");
            return s.hear("never");
        }
        forebay_agent::start_to_stay().unwrap();
        let mut victim = s.start("victim");
        s.hear("open");
        let (run, old) = (open(s, "other", 0, 1), agent_pid());
        take(&run, 0, N).unwrap();
        let of_victim = forebay_arena::segments::found("run-");
        let cut = of_victim.iter().find(|f| f.segment.creator().pid == victim.pid()).unwrap();
        std::fs::OpenOptions::new().write(true).open(&cut.path).unwrap().set_len(4096).unwrap();
        another_agent(old);
        for step in 1..4 {
            take(&run, step, N).unwrap();
        }
        run.close().unwrap();
        sound(s, "other");
        assert!(!victim.wait().success(), "who looks at memory that is gone is ended by the system");
        let again = open(s, "cut", 0, 1);
        check(&again, 0, N);
        again.close().unwrap();
    });
}

#[test]
fn care_for_a_run_whose_owner_is_dead_leaves_it_to_its_living_ranks() {
    sandbox("care_for_a_run_whose_owner_is_dead_leaves_it_to_its_living_ranks", |s| {
        if s.role == "rank" {
            let run = open(s, "spared", 0, 1);
            take(&run, 0, N).unwrap().wait(None).unwrap();
            s.tell("open");
            s.hear("go");
            take(&run, 1, N).unwrap();
            return run.close().unwrap();
        }
        forebay_agent::start_to_stay().unwrap();
        let mut rank = s.start("rank");
        s.hear("open");
        // Stopped, it has not found a successor when somebody else comes.
        signal(rank.pid(), "-STOP");
        let agent = kill_agent();
        until("the agent's end", || !std::path::Path::new(&format!("/proc/{agent}/exe")).exists());
        let path = format!("{}.fb", s.run("spared"));
        let path = std::path::Path::new(&path);
        let care = [
            forebay_store::recover(path).err(),
            forebay_store::compact(path).err(),
            forebay_store::repair(path).err(),
            // An opening by a program that would be the owner itself, as `forebay drop` is.
            forebay::open(&s.run("spared"), Mode::ReadWrite, OpenOptions::default()).err(),
        ];
        for e in care.map(Option::unwrap) {
            assert_eq!(e.code(), forebay::Code::Conflict, "{e}");
            assert!(e.text().contains(&rank.pid().to_string()) && e.text().contains("themselves"), "{e}");
        }
        signal(rank.pid(), "-CONT");
        s.tell("go");
        assert!(rank.wait().success(), "it goes on with the next agent");
        let run = open(s, "spared", 0, 1);
        [0, 1].iter().for_each(|step| check(&run, *step, N));
        run.close().unwrap();
        sound(s, "spared");
    });
}

/// Begins to open a run as rank 0 of 2, and comes so far: admitted, with a segment of its own, or with one that it
/// gave up when it heard of the agent's death.
fn begin_to_open(path: &str, remote: usize) -> (Wire, Option<Segment>) {
    let socket = forebay_host::sockets::agent_socket().unwrap();
    let mut wire = Wire::connect_as(&socket, "run", Duration::from_secs(5)).unwrap();
    let open = OpenRun {
        path: path.to_owned(),
        mode: Mode::Append,
        rank: 0,
        size: 2,
        full: WhenFull::Block,
        scratch: false,
        buffer: 1 << 20,
        program: "test".into(),
        elsewhere: Default::default(),
    };
    let opened: RunOpened = serde_json::from_value(wire.ask(&RunRequest::OpenRun(open)).unwrap()).unwrap();
    let segment = (remote > 0).then(|| {
        let spec = SegmentSpec {
            name: opened.segment,
            kind: forebay_arena::segments::kind::RUN,
            up_bytes: 1 << 20,
            down_bytes: 64 << 10,
            block_bytes: 1 << 20,
            blocks: 64,
        };
        let segment = Segment::create(&spec).unwrap();
        segment.word(word::LEFT).store(u64::from(remote > 1), std::sync::atomic::Ordering::SeqCst);
        segment
    });
    (wire, segment)
}

#[test]
fn a_rank_that_was_just_opening_the_run_when_the_agent_died_ends_the_steps_of_the_others() {
    let name = "a_rank_that_was_just_opening_the_run_when_the_agent_died_ends_the_steps_of_the_others";
    sandbox(name, |s| {
        if let Some(remote) = s.role.strip_prefix("other") {
            let run = open(s, &format!("joined{remote}"), 1, 2);
            run.snapshot(0, None).unwrap().end().unwrap();
            s.tell(&format!("ended{remote}"));
            return run.close().unwrap();
        }
        forebay_agent::start_to_stay().unwrap();
        for remote in 0..3 {
            let (name, path) =
                (format!("joined{remote}"), format!("{}.fb", s.run(&format!("joined{remote}"))));
            let (wire, segment) = begin_to_open(&path, remote);
            let mut other = s.start(&format!("other{remote}"));
            s.hear(&format!("ended{remote}"));
            kill_agent();
            drop(wire);
            let run = open(s, &name, 0, 2);
            segment.iter().for_each(|segment| segment.unlink().unwrap());
            run.snapshot(0, None).unwrap().end().unwrap();
            run.close().unwrap();
            assert!(other.wait().success(), "its step was given up");
            let kept = forebay_store::Reader::open(Path::new(&path)).unwrap().steps().unwrap();
            assert_eq!(kept.len(), 1, "the step of both");
            sound(s, &name);
        }
    });
}
