//! Steering real loops from the command line and over the page's address: all verbs, in one
//! process with the owner inside it and in several under an agent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::{Process, Sandbox, sandbox, signal, until};
use forebay::{Mode, OpenOptions, ParameterOptions};
use serde_json::{Value, json};

/// Runs the command line.
fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap()
}

/// The JSON that a command answers.
fn ask(args: &[&str]) -> Value {
    let out = forebay(&[args, &["--json"]].concat());
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// What a command that fails says.
fn refusal(args: &[&str]) -> String {
    let out = forebay(args);
    assert_eq!(out.status.code(), Some(1), "{args:?} succeeded");
    String::from_utf8(out.stderr).unwrap()
}

fn state(run: &str) -> (String, i64) {
    let all = ask(&["status"]);
    let mut runs = all.as_array().unwrap().iter().flat_map(|o| o["runs"].as_array().unwrap());
    let it = runs.rfind(|r| r["path"] == run).cloned().unwrap_or_default();
    (it["state"].as_str().unwrap_or("").to_owned(), it["step"].as_i64().unwrap_or(-1))
}

fn await_state(run: &str, word: &str) -> i64 {
    let mut step = -1;
    until(word, || {
        let now = state(run);
        step = now.1;
        now.0 == word
    });
    step
}

/// A simulation whose steps take about a millisecond. It writes down where its parameter changed.
fn simulate(s: &Sandbox, rank: u32, size: u32) {
    let options = OpenOptions { buffer: 4 << 20, rank: Some(rank), size: Some(size), ..Default::default() };
    let run = forebay::open(&s.run("loop.fb"), Mode::Append, options).unwrap();
    let limits =
        ParameterOptions { min: Some(-1.0), max: Some(1.0), units: "V/m".into(), ..Default::default() };
    let e0 = run.parameter("e0", json!(0.0), limits).unwrap();
    let mark = |word: &'static str| {
        let dir = s.dir.clone();
        move |step: i64| {
            std::fs::write(dir.join(format!("{word}-{step}")), b"").unwrap();
            Ok(())
        }
    };
    run.saves(mark("saved")).unwrap();
    run.command("dump", mark("dumped")).unwrap();
    let mut steps = run.steps(1 << 40, 0).unwrap();
    let (mut expected, mut last, mut changes) = (0, json!(0.0), String::new());
    while let Some(step) = steps.next().unwrap() {
        assert_eq!(step, expected, "no step is left out or repeated");
        expected += 1;
        let now = e0.value();
        if now != last {
            changes += &format!("{step} {now}\n");
            last = now;
        }
        if step == 3 {
            s.tell(&format!("looping-{rank}"));
        }
        std::thread::sleep(Duration::from_micros(500 + 300 * u64::from(rank)));
    }
    std::fs::write(s.dir.join(format!("changes-{rank}")), changes).unwrap();
    run.close().unwrap();
}

fn every_verb(s: &Sandbox) {
    let run = s.run("loop.fb");
    let mut program = s.start("rank 0");
    s.hear("looping-0");
    assert_eq!(state(&run).0, "RUNNING");

    let stopped = ask(&["steer", &run, "stop"]);
    assert_eq!((&stopped["applied"], &stopped["state"]), (&json!(true), &json!("HELD")));
    let at = stopped["step"].as_i64().unwrap();
    assert_eq!(state(&run), ("HELD".into(), at));

    let set = ask(&["steer", &run, "set", "e0", "0.5"]);
    assert_eq!(set["step"].as_i64(), Some(at));
    assert!(refusal(&["steer", &run, "set", "e0", "9"]).contains("above the greatest value 1 V/m"));
    assert!(refusal(&["steer", &run, "set", "e1", "0"]).contains("declares e0"));
    assert!(refusal(&["steer", &run, "command", "explode"]).contains("dump"));

    ask(&["steer", &run, "step", "3"]);
    assert_eq!(await_state(&run, "HELD"), at + 3);
    ask(&["steer", &run, "save"]);
    assert!(s.dir.join(format!("saved-{}", at + 3)).exists());
    ask(&["steer", &run, "command", "dump"]);
    assert!(s.dir.join(format!("dumped-{}", at + 3)).exists());

    let gone = ask(&["steer", &run, "run"]);
    assert_eq!(gone["state"], "RUNNING");
    until("progress", || state(&run).1 > at + 10);
    let quit = ask(&["steer", &run, "quit"]);
    assert_eq!(quit["applied"], true);
    assert!(program.wait().success());
    assert_eq!(std::fs::read_to_string(s.dir.join("changes-0")).unwrap(), format!("{at} 0.5\n"));
    // Refused in any case; that the program is gone is seen a moment later.
    until("the end of the run", || refusal(&["steer", &run, "stop"]).contains("start"));

    let log = forebay(&["sql", &run, "select who, act, step, code from fb_steering order by id", "--json"]);
    let log = String::from_utf8(log.stdout).unwrap();
    let lines: Vec<Value> = log.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let verbs: Vec<String> = lines
        .iter()
        .map(|l| {
            serde_json::from_str::<Value>(l["act"].as_str().unwrap()).unwrap()["verb"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(verbs, ["stop", "set", "step", "save", "command", "run", "quit"]);
    assert!(lines.iter().all(|l| l["code"] == 0 && l["step"].as_i64().unwrap() >= at), "{log}");
    assert!(lines[0]["who"].as_str().unwrap().contains("command line"));
}

#[test]
fn every_verb_acts_upon_a_program_that_owns_its_run() {
    sandbox("every_verb_acts_upon_a_program_that_owns_its_run", |s| match s.role.as_str() {
        "" => every_verb(s),
        _ => simulate(s, 0, 1),
    });
}

#[test]
fn every_verb_acts_upon_a_program_under_an_agent() {
    sandbox("every_verb_acts_upon_a_program_under_an_agent", |s| match s.role.as_str() {
        "" => {
            ask(&["up"]);
            every_verb(s);
            ask(&["down"]);
        }
        _ => simulate(s, 0, 1),
    });
}

#[test]
fn ranks_that_drift_apart_act_at_the_same_step() {
    sandbox("ranks_that_drift_apart_act_at_the_same_step", |s| {
        if let Some(rank) = s.role.strip_prefix("rank ") {
            return simulate(s, rank.parse().unwrap(), 3);
        }
        let run = s.run("loop.fb");
        ask(&["up"]);
        let mut ranks: Vec<_> = (0..3).map(|r| s.start(&format!("rank {r}"))).collect();
        (0..3).for_each(|r| s.hear(&format!("looping-{r}")));
        for value in ["0.25", "-0.5", "1"] {
            ask(&["steer", &run, "set", "e0", value]);
        }
        let at = ask(&["steer", &run, "stop"])["step"].as_i64().unwrap();
        assert_eq!(await_state(&run, "HELD"), at);
        let status = ask(&["status"]);
        let held = status[0]["runs"][0]["ranks"].as_array().unwrap().clone();
        assert!(held.len() == 3 && held.iter().all(|r| r["step"] == at && r["held"] == true), "{held:?}");
        ask(&["steer", &run, "set", "e0", "0.75"]);
        ask(&["steer", &run, "quit"]);
        assert!(ranks.iter_mut().all(|r| r.wait().success()));
        let changes = |r: u32| std::fs::read_to_string(s.dir.join(format!("changes-{r}"))).unwrap();
        assert!(changes(0).lines().count() >= 3, "{}", changes(0));
        assert_eq!((changes(1), changes(2)), (changes(0), changes(0)));
        ask(&["down"]);
    });
}

/// One POST to the page's address.
fn post(link: &str, token: &Value, act: &Value) -> (u16, String) {
    let place = link.trim_start_matches("http://").split_once("/#c=").unwrap().0;
    let token = token["token"].as_str().unwrap();
    let (host, run) = place.split_once('/').unwrap();
    let body = act.to_string();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /{run}/act HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nX-Forebay: 1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn a_viewer_who_presses_quit_is_refused_and_an_operator_is_not() {
    sandbox("a_viewer_who_presses_quit_is_refused_and_an_operator_is_not", |s| {
        if s.role == "rank 0" {
            return simulate(s, 0, 1);
        }
        let run = s.run("loop.fb");
        let mut program = s.start("rank 0");
        s.hear("looping-0");
        let links = ask(&["monitor", &run]);
        let link = links["viewer"].as_str().unwrap();
        let viewer = ask(&["monitor", &run, "--token"]);
        let operator = ask(&["monitor", &run, "--token", "--operator"]);
        let quit = json!({"verb": "quit"});
        let (status, text) = post(link, &viewer, &quit);
        assert_eq!(status, 403, "{text}");
        assert!(text.contains("viewer"), "{text}");
        let before = state(&run);
        assert_eq!(before.0, "RUNNING");
        let (status, text) = post(link, &operator, &quit);
        assert!(status < 300, "{text}");
        assert!(program.wait().success());
    });
}

/// A program in its loop, under an agent that stays.
fn under_an_agent(s: &Sandbox) -> (String, Process) {
    ask(&["up"]);
    let program = s.start("rank 0");
    s.hear("looping-0");
    (s.run("loop.fb"), program)
}

#[test]
fn a_run_that_is_killed_while_it_is_held_leaves_the_agent_in_order() {
    sandbox("a_run_that_is_killed_while_it_is_held_leaves_the_agent_in_order", |s| {
        if s.role == "rank 0" {
            return simulate(s, 0, 1);
        }
        let (run, mut program) = under_an_agent(s);
        ask(&["steer", &run, "stop"]);
        program.kill();
        await_state(&run, "LOST");
        assert!(refusal(&["steer", &run, "run"]).contains("start"));
        let mut program = s.start("rank 0");
        until("a new life", || state(&run).0 == "RUNNING");
        ask(&["steer", &run, "quit"]);
        assert!(program.wait().success());
        ask(&["down"]);
    });
}

#[test]
fn who_steers_a_program_that_is_killed_hears_that_it_is_gone_and_what_to_do() {
    sandbox("who_steers_a_program_that_is_killed_hears_that_it_is_gone_and_what_to_do", |s| {
        if s.role == "rank 0" {
            return simulate(s, 0, 1);
        }
        let (run, mut program) = under_an_agent(s);
        signal(program.pid(), "-STOP");
        let steer = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["steer", &run, "save", "--timeout", "60"])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        until("the act in the log", || {
            forebay_store::Reader::open(std::path::Path::new(&run)).unwrap().acts().unwrap().len() == 1
        });
        program.kill();
        let out = steer.wait_with_output().unwrap();
        let text = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{text}");
        assert!(text.contains("the program is gone") && text.contains("start it again"), "{text}");
        assert!(text.contains(&format!("forebay recover {run}")) && !text.contains("link"), "{text}");
        ask(&["down"]);
    });
}
