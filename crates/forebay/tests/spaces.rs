//! Processes of one user in several pid name spaces, as containers are that share `/tmp` and
//! `/dev/shm`: none of them sees the others' numbers, and some have the same ones. They call each
//! other and keep runs for each other, and none takes another for dead.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Process, Sandbox, check, full_name, sandbox, take, until};
use forebay::call::{Arg, Value};
use forebay::{Mode, OpenOptions, PutOptions, Run, View};
use forebay_arena::segments;
use forebay_host::{Process as Known, directories};
use forebay_link::Locator;
use forebay_server::Server;

const N: usize = 50_000;

/// A pid that no process has here.
fn unused_pid() -> u32 {
    let most: u32 = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    (300..most).rev().find(|pid| Known::of_pid(*pid).is_none()).unwrap()
}

/// The words that start a program in a pid name space of its own, which ends with it; nothing where
/// that is not allowed.
fn way() -> Option<Vec<&'static str>> {
    let own = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let mapped = ["--user", "--map-root-user"];
    let ways = [own.to_vec(), [&own[..], &mapped[..]].concat()];
    let may = |way: &Vec<&str>| {
        let last = "echo 300 > /proc/sys/kernel/ns_last_pid";
        Command::new(way[0])
            .args(&way[1..])
            .args(["sh", "-c", last])
            .output()
            .is_ok_and(|o| o.status.success())
    };
    ways.into_iter().find(may)
}

/// Runs a test in a process of its own; it is skipped, and said so, where no pid name space can be made.
#[track_caller]
fn in_spaces(test: &str, body: impl FnOnce(&Sandbox)) {
    if std::env::var_os("FB_SANDBOX").is_none() && way().is_none() {
        return eprintln!("SKIPPED {test}: no pid name space can be made here, so nothing was tried");
    }
    sandbox(test, body);
}

/// Starts a role of this test in a pid name space of its own, where it has that pid.
fn elsewhere(s: &Sandbox, test: &str, role: &str, pid: u32) -> Process {
    let way = way().unwrap();
    let begin = format!("echo {} > /proc/sys/kernel/ns_last_pid; \"$0\" \"$@\"; exit $?", pid - 1);
    let child = Command::new(way[0])
        .args(&way[1..])
        .args(["sh", "-c", &begin])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &full_name(test), "--nocapture"])
        .env("FB_ROLE", role)
        .env("FB_SANDBOX", &s.dir)
        .spawn()
        .unwrap();
    Process(child)
}

fn small() -> OpenOptions {
    OpenOptions { buffer: 16 << 20, ..Default::default() }
}

fn sockets() -> Vec<PathBuf> {
    let files = std::fs::read_dir(directories::runtime_dir().unwrap()).unwrap().flatten().map(|f| f.path());
    files.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("run-")).collect()
}

/// Writes a run until it is told to end it.
fn write_until_told(s: &Sandbox, name: &str) {
    let run = forebay::open(&s.run(name), Mode::Write, small()).unwrap();
    take(&run, 0, N).unwrap();
    s.tell(&format!("{name}.open"));
    s.hear(&format!("{name}.end"));
    take(&run, 1, N).unwrap();
    run.close().unwrap();
}

fn whole(s: &Sandbox, name: &str) {
    let run = forebay::open(&s.run(name), Mode::Read, small()).unwrap();
    (0..2).for_each(|step| check(&run, step, N));
    run.close().unwrap();
}

#[test]
fn an_agent_that_starts_leaves_the_runs_of_other_name_spaces_alone() {
    const TEST: &str = "an_agent_that_starts_leaves_the_runs_of_other_name_spaces_alone";
    in_spaces(TEST, |s| {
        if s.role == "writer" {
            return write_until_told(s, "hidden");
        }
        let mut writer = elsewhere(s, TEST, "writer", unused_pid());
        s.hear("hidden.open");
        let before = sockets();
        assert_eq!(before.len(), 1, "{before:?}");
        forebay_agent::start_to_stay().unwrap();
        assert_eq!(sockets(), before, "the socket of a living run is there still");
        let dir = s.run("hidden") + ".fb";
        assert_eq!(forebay_agent::owner_of(Path::new(&dir)).unwrap(), before[0], "its owner can be asked");
        assert!(forebay_agent::links(Path::new(&dir)).is_ok(), "and answers");
        let taken = forebay::open(&s.run("hidden"), Mode::Append, small()).err().unwrap();
        assert_eq!(taken.code(), forebay::Code::Conflict, "{taken}");
        s.tell("hidden.end");
        assert!(writer.wait().success());
        whole(s, "hidden");
    });
}

#[test]
fn programs_with_the_same_number_in_two_name_spaces_write_at_the_same_time() {
    const TEST: &str = "programs_with_the_same_number_in_two_name_spaces_write_at_the_same_time";
    in_spaces(TEST, |s| {
        if !s.role.is_empty() {
            return write_until_told(s, &s.role);
        }
        let pid = unused_pid();
        let names = ["one", "other"];
        let mut writers = names.map(|name| elsewhere(s, TEST, name, pid));
        names.iter().for_each(|name| s.hear(&format!("{name}.open")));
        assert_eq!(sockets().len(), 2);
        names.iter().for_each(|name| s.tell(&format!("{name}.end")));
        writers.iter_mut().for_each(|w| assert!(w.wait().success()));
        names.iter().for_each(|name| whole(s, name));
    });
}

fn serve() -> forebay_server::Running {
    let server = Server::new("sums").service("plus(in x:f64[n], out sum:f64)", |call| {
        let [x, mut sum] = call.args()?;
        let total: f64 = x.view::<f64>()?.iter().sum();
        sum.set(total + 7.0)
    });
    server.unwrap().start(Locator::at(None)).unwrap()
}

/// Calls, keeps and takes snapshots, as a program does whose agent is in another name space.
fn use_everything(s: &Sandbox) -> Run {
    let client = forebay::connect(None).unwrap();
    let x = vec![1.0; 100_000];
    let sum = client.call("plus", vec![Arg::from(&x[..])], None).unwrap();
    assert_eq!(sum, [Value::Scalar(100_007.0.into())]);
    let options = OpenOptions { rank: Some(0), size: Some(1), ..small() };
    let run = forebay::open(&s.run("kept"), Mode::Append, options).unwrap();
    run.put("t", View::text("yes"), PutOptions::default()).unwrap();
    run
}

#[test]
fn a_program_calls_and_keeps_through_an_agent_of_another_name_space() {
    const TEST: &str = "a_program_calls_and_keeps_through_an_agent_of_another_name_space";
    in_spaces(TEST, |s| {
        if s.role == "program" {
            let run = use_everything(s);
            (0..2).for_each(|step| drop(take(&run, step, N).unwrap()));
            return run.close().unwrap();
        }
        forebay_agent::start_to_stay().unwrap();
        let server = serve();
        // The number of the agent here: the two are not taken for one process.
        let pid = crate::support::agent_pid();
        assert!(elsewhere(s, TEST, "program", pid).wait().success());
        whole(s, "kept");
        server.stop();
    });
}

#[test]
fn an_agent_and_a_server_in_a_name_space_serve_programs_outside() {
    const TEST: &str = "an_agent_and_a_server_in_a_name_space_serve_programs_outside";
    in_spaces(TEST, |s| {
        if s.role == "agent" {
            forebay_agent::start_to_stay().unwrap();
            let server = serve();
            s.tell("up");
            s.hear("down");
            return server.stop();
        }
        let mut agent = elsewhere(s, TEST, "agent", std::process::id());
        s.hear("up");
        let run = use_everything(s);
        (0..2).for_each(|step| drop(take(&run, step, N).unwrap()));
        run.close().unwrap();
        whole(s, "kept");
        forebay_agent::down(false, crate::support::LATE).unwrap();
        s.tell("down");
        assert!(agent.wait().success());
    });
}

#[test]
fn a_rank_that_is_killed_in_another_name_space_leaves_its_seat_and_loses_nothing() {
    const TEST: &str = "a_rank_that_is_killed_in_another_name_space_leaves_its_seat_and_loses_nothing";
    in_spaces(TEST, |s| {
        if s.role == "rank" {
            let run = use_everything(s);
            (0..2).for_each(|step| drop(take(&run, step, N).unwrap()));
            s.tell("acknowledged");
            s.hear("never");
        }
        forebay_agent::start_to_stay().unwrap();
        let server = serve();
        let mut rank = elsewhere(s, TEST, "rank", unused_pid());
        s.hear("acknowledged");
        let segment = segments::found("run-").remove(0).segment;
        assert_eq!(segment.creator().state(), forebay_host::ProcessState::Hidden);
        assert!(segment.creator_lives());
        rank.kill();
        until("the end of the rank", || !segment.creator_lives());
        let options = OpenOptions { rank: Some(0), size: Some(1), ..small() };
        let again = forebay::open(&s.run("kept"), Mode::Append, options).unwrap();
        (0..2).for_each(|step| check(&again, step, N));
        assert_eq!(again.get("t", 0, None).unwrap().to_text().unwrap(), "yes");
        again.close().unwrap();
        server.stop();
    });
}
