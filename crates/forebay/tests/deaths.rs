//! Processes hurt on purpose: what was acknowledged is there afterwards, what was torn is not,
//! and nobody waits in vain.

use std::time::{Duration, Instant};

use crate::support::{LATE, agent_pid, check, sandbox, signal, take};
use forebay::{ArrayOptions, Code, Mode, OpenOptions, PutOptions, View};

const N: usize = 200_000;

fn small() -> OpenOptions {
    OpenOptions { buffer: 16 << 20, ..Default::default() }
}

/// Two steps complete, the third one begun; then it waits to be killed.
fn write_and_wait(s: &crate::support::Sandbox, durable: bool) -> ! {
    let run = forebay::open(&s.run("torn"), Mode::Append, small()).unwrap();
    run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
    for step in 0..2 {
        let taken = take(&run, step, N).unwrap();
        if durable {
            taken.wait(None).unwrap();
        }
    }
    let third = run.snapshot(2, Some(0.2)).unwrap();
    let values = crate::support::field(2, N);
    third.put("E", View::of(&values, &[N as u64]).unwrap(), ArrayOptions::default()).unwrap();
    s.tell("between");
    loop {
        std::thread::park();
    }
}

fn all_but_the_torn_step(s: &crate::support::Sandbox) {
    let run = forebay::open(&s.run("torn"), Mode::ReadWrite, small()).unwrap();
    assert_eq!(run.snapshots().unwrap().numbers().unwrap(), [0, 1]);
    check(&run, 0, N);
    check(&run, 1, N);
    assert_eq!(run.get("kept", 0, None).unwrap().to_text().unwrap(), "yes");
    assert_eq!(run.restart().unwrap().unwrap().snapshot.step(), 1);
    take(&run, 2, N).unwrap();
    check(&run, 2, N);
    run.close().unwrap();
}

#[test]
fn a_program_killed_between_two_puts_loses_that_step_only() {
    sandbox("a_program_killed_between_two_puts_loses_that_step_only", |s| {
        if s.role == "writer" {
            write_and_wait(s, false);
        }
        let mut writer = s.start("writer");
        s.hear("between");
        writer.kill();
        all_but_the_torn_step(s);
    });
}

#[test]
fn a_rank_killed_under_an_agent_loses_that_step_only() {
    sandbox("a_rank_killed_under_an_agent_loses_that_step_only", |s| {
        if s.role == "writer" {
            write_and_wait(s, false);
        }
        forebay_agent::start_to_stay().unwrap();
        let mut writer = s.start("writer");
        s.hear("between");
        writer.kill();
        all_but_the_torn_step(s);
    });
}

/// An agent that nobody can start again: the program it was started from goes as soon as it is up.
fn an_agent_without_a_successor(s: &crate::support::Sandbox) -> u32 {
    let exe = s.dir.join("forebay");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_forebay"), &exe).unwrap();
    forebay_agent::start_to_stay().unwrap();
    std::fs::remove_file(&exe).unwrap();
    agent_pid()
}

#[test]
fn without_a_successor_a_killed_agent_is_told_within_two_seconds_and_nothing_acknowledged_is_lost() {
    let test =
        "without_a_successor_a_killed_agent_is_told_within_two_seconds_and_nothing_acknowledged_is_lost";
    sandbox(test, |s| {
        if s.role == "rank" {
            let agent = an_agent_without_a_successor(s);
            let run = forebay::open(&s.run("killed"), Mode::Append, small()).unwrap();
            run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
            for step in 0..3 {
                take(&run, step, N).unwrap();
            }
            signal(agent, "-KILL");
            let killed = Instant::now();
            let e = loop {
                if let Err(e) = run.flush() {
                    break e;
                }
            };
            assert_eq!(e.code(), Code::ServerLost);
            assert!(e.text().contains("nobody could take its place"), "{e}");
            assert!(killed.elapsed() < Duration::from_secs(2), "{:?}: {e}", killed.elapsed());
            assert!(run.steps(10, 0).is_err() && run.snapshot(9, None).is_err());
            assert_eq!(run.close().unwrap_err().code(), Code::ServerLost);
            return;
        }
        let exe = s.dir.join("forebay").display().to_string();
        assert!(s.start_with("rank", &[("FOREBAY_EXE", &exe)]).wait().success());
        let again = forebay::open(&s.run("killed"), Mode::Append, small()).unwrap();
        assert_eq!(again.snapshots().unwrap().numbers().unwrap(), [0, 1, 2]);
        (0..3).for_each(|step| check(&again, step, N));
        assert_eq!(again.get("kept", 0, None).unwrap().to_text().unwrap(), "yes");
        again.close().unwrap();
    });
}

#[test]
fn a_stopped_agent_is_told_within_two_seconds_and_the_run_goes_on_with_it() {
    sandbox("a_stopped_agent_is_told_within_two_seconds_and_the_run_goes_on_with_it", |s| {
        forebay_agent::start_to_stay().unwrap();
        let run = forebay::open(&s.run("stopped"), Mode::Append, small()).unwrap();
        take(&run, 0, N).unwrap();
        let pid = agent_pid();
        let agent = forebay_host::Process::of_pid(pid).unwrap();
        signal(pid, "-STOP");
        crate::support::until("the stop", || agent.state() == forebay_host::ProcessState::Stopped);
        let stopped = Instant::now();
        let e = run.flush().unwrap_err();
        assert_eq!(e.code(), Code::ServerLost);
        assert!(stopped.elapsed() < LATE, "{:?}", stopped.elapsed());
        assert!(e.text().contains(&format!("kill -CONT {pid}")), "{e}");
        let asked = Instant::now();
        let other = forebay::open(&s.run("other"), Mode::Append, small()).err().unwrap();
        assert_eq!(other.code(), Code::ServerLost, "{other}");
        assert!(asked.elapsed() < LATE, "{:?}", asked.elapsed());
        signal(pid, "-CONT");
        crate::support::until("the agent's return", || run.flush().is_ok());
        take(&run, 1, N).unwrap();
        check(&run, 0, N);
        check(&run, 1, N);
        run.close().unwrap();
    });
}

#[test]
fn when_both_die_the_next_open_brings_every_acknowledged_snapshot() {
    sandbox("when_both_die_the_next_open_brings_every_acknowledged_snapshot", |s| {
        if s.role == "writer" {
            write_and_wait(s, false);
        }
        forebay_agent::start_to_stay().unwrap();
        let mut writer = s.start("writer");
        s.hear("between");
        signal(agent_pid(), "-KILL");
        writer.kill();
        all_but_the_torn_step(s);
    });
}

/// Segments of this test in shared memory.
fn segments() -> usize {
    let stem = format!("{}-", std::env::var("FOREBAY_SHM_PREFIX").unwrap());
    let files = std::fs::read_dir(forebay_host::directories::shm_dir()).unwrap().flatten();
    files.filter(|f| f.file_name().to_string_lossy().starts_with(&stem)).count()
}

#[test]
fn segments_of_many_killed_clients_go_when_what_they_buffered_is_written() {
    const WRITERS: usize = 6;
    sandbox("segments_of_many_killed_clients_go_when_what_they_buffered_is_written", |s| {
        if let Some(number) = s.role.strip_prefix("writer ") {
            let run = forebay::open(&s.run(&format!("run{number}")), Mode::Append, small()).unwrap();
            for step in 0.. {
                let taken = take(&run, step, N).unwrap();
                if step == 2 {
                    s.tell(&s.role);
                }
                if step > 2 {
                    // Not more than the disk takes, so that little is to be drained at the end.
                    taken.wait(None).unwrap();
                }
            }
        }
        forebay_agent::start_to_stay().unwrap();
        let mut writers: Vec<_> = (0..WRITERS).map(|n| s.start(&format!("writer {n}"))).collect();
        (0..WRITERS).for_each(|n| s.hear(&format!("writer {n}")));
        assert!(segments() >= WRITERS);
        writers.iter_mut().for_each(crate::support::Process::kill);
        let killed = Instant::now();
        crate::support::until("the end of their segments", || segments() == 0);
        assert!(killed.elapsed() < Duration::from_secs(10), "after {:?}", killed.elapsed());
        for n in 0..WRITERS {
            let run = forebay::open(&s.run(&format!("run{n}")), Mode::Read, small()).unwrap();
            let kept = run.snapshots().unwrap();
            let steps = kept.numbers().unwrap();
            assert!(steps.len() >= 3 && steps == (0..steps.len() as i64).collect::<Vec<_>>(), "{steps:?}");
            check(&run, steps.len() as i64 - 1, N);
        }
    });
}
