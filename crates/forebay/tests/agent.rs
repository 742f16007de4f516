//! The agent as a process: it comes once, leaves nothing behind, leaves by itself, and says
//! clearly what it will not do.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::{LATE, agent_pid, sandbox, signal, until};
use forebay::{Mode, OpenOptions};
use forebay_host::{Process as Known, directories, sockets};

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap()
}

fn says(out: &Output) -> String {
    String::from_utf8_lossy(&[out.stdout.as_slice(), out.stderr.as_slice()].concat()).into_owned()
}

fn done(args: &[&str]) -> String {
    let out = forebay(args);
    assert!(out.status.success(), "{args:?}: {}", says(&out));
    says(&out)
}

fn refused(args: &[&str]) -> String {
    let out = forebay(args);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {}", says(&out));
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    text
}

fn gone(pid: u32) -> bool {
    Known::of_pid(pid).is_none()
}

/// Sockets and rendezvous files that are there.
fn traces() -> Vec<String> {
    let names = |dir: &Path| -> Vec<String> {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        files.map(|f| f.file_name().to_string_lossy().into_owned()).collect()
    };
    let mut all = names(&directories::runtime_dir().unwrap());
    all.retain(|n| n.ends_with(".sock"));
    all.extend(names(&directories::home().unwrap()));
    all
}

#[test]
fn ten_processes_that_want_an_agent_at_once_get_one() {
    sandbox("ten_processes_that_want_an_agent_at_once_get_one", |s| {
        if s.role == "starter" {
            let socket = forebay_agent::start_by_need().unwrap();
            let pid = forebay_link::Wire::connect(&socket, Duration::from_secs(2)).unwrap().peer().pid;
            std::fs::write(s.dir.join(format!("{}.agent", std::process::id())), pid.to_string()).unwrap();
            return;
        }
        let mut starters: Vec<_> = (0..10).map(|_| s.start("starter")).collect();
        assert!(starters.iter_mut().all(|p| p.wait().success()));
        let found: Vec<String> = std::fs::read_dir(&s.dir)
            .unwrap()
            .flatten()
            .filter(|f| f.path().extension().is_some_and(|e| e == "agent"))
            .map(|f| std::fs::read_to_string(f.path()).unwrap())
            .collect();
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|pid| *pid == found[0]), "{found:?}");
        assert_eq!(found[0], agent_pid().to_string());
        done(&["down"]);
    });
}

#[test]
fn down_leaves_no_process_no_socket_and_no_rendezvous() {
    sandbox("down_leaves_no_process_no_socket_and_no_rendezvous", |_| {
        done(&["up"]);
        let pid = agent_pid();
        assert_eq!(traces().len(), 2, "{:?}", traces());
        assert!(done(&["up"]).contains(&pid.to_string()), "a second one is the same");
        assert!(done(&["status"]).contains(&format!("pid {pid}")));
        done(&["down"]);
        assert!(gone(pid));
        assert_eq!(traces(), Vec::<String>::new());
        assert!(refused(&["down"]).contains("forebay up"));
        assert!(done(&["status"]).contains("nothing"));
    });
}

#[test]
fn an_agent_ends_in_order_by_a_signal_too() {
    sandbox("an_agent_ends_in_order_by_a_signal_too", |_| {
        for name in ["-TERM", "-INT"] {
            done(&["up"]);
            let pid = agent_pid();
            signal(pid, name);
            until("its end", || gone(pid));
            assert_eq!(traces(), Vec::<String>::new());
        }
    });
}

#[test]
fn an_agent_started_by_need_leaves_by_itself_and_one_that_was_told_to_stay_stays() {
    sandbox("an_agent_started_by_need_leaves_by_itself_and_one_that_was_told_to_stay_stays", |_| {
        forebay_agent::start_by_need().unwrap();
        let pid = agent_pid();
        until("its leaving", || gone(pid));
        assert_eq!(traces(), Vec::<String>::new());
        forebay_agent::start_by_need().unwrap();
        let pid = agent_pid();
        assert!(done(&["up"]).contains(&pid.to_string()));
        let status = forebay_agent::owners().unwrap().answering;
        assert!(!status[0].by_need);
        done(&["down"]);
    });
}

#[test]
fn an_idle_agent_uses_no_cpu() {
    sandbox("an_idle_agent_uses_no_cpu", |_| {
        done(&["up"]);
        let pid = agent_pid();
        let ticks = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let switches = || -> i64 {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            // A thread may end while it is looked at.
            let of = |t: std::fs::DirEntry| std::fs::read_to_string(t.path().join("status")).ok();
            let count = |text: String| -> Option<i64> {
                let line = text.lines().find(|l| l.starts_with("voluntary"))?;
                line.split_whitespace().nth(1)?.parse().ok()
            };
            tasks.filter_map(of).filter_map(count).sum()
        };
        // The connection that asked for the pid is still being put away.
        let mut before = switches();
        until("rest", || {
            std::thread::sleep(Duration::from_millis(300));
            let now = switches();
            std::mem::replace(&mut before, now) == now
        });
        let (cpu, woken) = (ticks(), switches());
        std::thread::sleep(Duration::from_secs(2));
        assert!(ticks() - cpu <= 1 && switches() - woken <= 2, "{} wake-ups", switches() - woken);
        done(&["down"]);
    });
}

#[test]
fn two_agents_live_side_by_side_in_other_runtime_directories() {
    sandbox("two_agents_live_side_by_side_in_other_runtime_directories", |s| {
        done(&["up"]);
        let other = s.dir.join("other");
        let there = |args: &[&str]| {
            let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
                .args(args)
                .env("FOREBAY_RUNTIME_DIR", &other)
                .env("FOREBAY_HOME", other.join("home"))
                .output()
                .unwrap();
            assert!(out.status.success(), "{}", says(&out));
            says(&out)
        };
        let out = there(&["up"]);
        assert!(!out.contains(&format!("pid {}", agent_pid())));
        there(&["down"]);
        assert!(done(&["status"]).contains(&format!("pid {}", agent_pid())));
        done(&["down"]);
    });
}

#[test]
fn a_peer_of_another_version_is_refused_by_name() {
    sandbox("a_peer_of_another_version_is_refused_by_name", |_| {
        done(&["up"]);
        let hello = br#"{"version":99,"role":"run","pid":1,"program":"9.9.9"}"#;
        let header = forebay_link::Header {
            json: hello.len() as u32,
            ..forebay_link::Header::new(forebay_link::frame::kind::HELLO, 0)
        };
        let mut stream = UnixStream::connect(sockets::agent_socket().unwrap()).unwrap();
        stream.write_all(&header.encode()).unwrap();
        stream.write_all(hello).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        let ours = format!("this program version {}", forebay_types::control::WIRE_VERSION);
        assert!(text.contains("version 99") && text.contains(&ours) && text.contains("9.9.9"), "{text}");
        done(&["down"]);
    });
}

#[test]
fn a_stopped_agent_is_named_within_two_seconds() {
    sandbox("a_stopped_agent_is_named_within_two_seconds", |_| {
        done(&["up"]);
        let pid = agent_pid();
        signal(pid, "-STOP");
        let began = Instant::now();
        let text = refused(&["status"]);
        let took = began.elapsed();
        signal(pid, "-CONT");
        assert!(text.contains(&format!("kill -CONT {pid}")), "{text}");
        assert!(took < LATE, "{took:?}");
        until("its answer", || forebay(&["status"]).status.success());
        done(&["down"]);
    });
}

#[test]
fn who_wants_a_run_that_a_program_writes_under_an_agent_hears_of_the_program() {
    sandbox("who_wants_a_run_that_a_program_writes_under_an_agent_hears_of_the_program", |s| {
        done(&["up"]);
        let dir = s.run("kept.fb");
        let run = forebay::open(&dir, Mode::Append, OpenOptions::default()).unwrap();
        run.put("n", forebay::View::text("kept"), Default::default()).unwrap();
        let ours = format!("process {}", std::process::id());
        for words in [&["compact", &dir][..], &["repair", &dir], &["recover", &dir]] {
            let text = refused(words);
            assert!(text.contains(&ours) && !text.contains("forebay down"), "{text}");
            assert!(!text.contains("rank"), "{text}");
        }
        assert!(done(&["rm", &dir, "n"]).contains("1 deleted"), "that is done beside the program");
        run.close().unwrap();
        done(&["compact", &dir]);
        done(&["down"]);
    });
}

#[test]
fn a_stopped_agent_is_named_where_no_file_says_which_process_it_is() {
    sandbox("a_stopped_agent_is_named_where_no_file_says_which_process_it_is", |s| {
        done(&["up"]);
        let pid = agent_pid();
        let run = forebay::open(&s.run("kept.fb"), Mode::Append, OpenOptions::default()).unwrap();
        // Another agent of this user, with another runtime directory, has taken the file's place.
        std::fs::remove_file(forebay_host::directories::rendezvous().unwrap()).unwrap();
        signal(pid, "-STOP");
        let remedy = format!("kill -CONT {pid}");
        let asked = forebay(&["status"]);
        let refusals = ["down", "services"].map(|command| refused(&[command]));
        let held = ["compact", "recover"].map(|command| refused(&[command, &s.run("kept.fb")]));
        let steered = refused(&["steer", &s.run("kept.fb"), "save"]);
        signal(pid, "-CONT");
        let shown = String::from_utf8_lossy(&asked.stdout);
        assert!(!asked.status.success() && shown.contains(&remedy) && shown.contains("kept.fb"), "{asked:?}");
        for text in refusals.iter().chain(&held).chain([&steered]) {
            assert!(text.contains(&remedy) && !text.contains("forebay down"), "{text}");
        }
        until("its answer", || forebay(&["status"]).status.success());
        until("its heart", || run.flush().is_ok());
        run.close().unwrap();
        done(&["down"]);
    });
}

#[test]
fn a_stopped_program_without_an_agent_is_listed_with_its_run_and_how_to_let_it_go_on() {
    sandbox("a_stopped_program_without_an_agent_is_listed_with_its_run_and_how_to_let_it_go_on", |s| {
        if s.role == "program" {
            let run = forebay::open(&s.run("alone.fb"), Mode::Append, OpenOptions::default()).unwrap();
            s.tell("open");
            s.hear("over");
            return run.close().unwrap();
        }
        let mut program = s.start("program");
        s.hear("open");
        let pid = program.pid();
        signal(pid, "-STOP");
        let shown = done(&["status"]);
        let json = done(&["--json", "status"]);
        let refusals =
            ["compact", "recover", "repair"].map(|command| refused(&[command, &s.run("alone.fb")]));
        signal(pid, "-CONT");
        assert!(
            shown.contains("alone.fb: stopped") && shown.contains(&format!("kill -CONT {pid}")),
            "{shown}"
        );
        let found: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(found[0]["pid"] == pid && found[0]["stopped"] == true, "{json}");
        assert!(found[0]["runs"][0]["path"].as_str().unwrap().ends_with("alone.fb"), "{json}");
        for text in &refusals {
            assert!(text.contains(&format!("kill -CONT {pid}")), "{text}");
        }
        s.tell("over");
        assert!(program.wait().success());
    });
}

#[test]
fn an_agent_with_live_programs_goes_only_by_force_and_the_program_is_told() {
    sandbox("an_agent_with_live_programs_goes_only_by_force_and_the_program_is_told", |s| {
        if s.role == "program" {
            let options = OpenOptions { buffer: 4 << 20, ..Default::default() };
            let run = forebay::open(&s.run("kept.fb"), Mode::Append, options).unwrap();
            run.put("n", forebay::View::text("kept"), Default::default()).unwrap();
            s.tell("open");
            until("the loss", || run.flush().is_err());
            let e = run.flush().unwrap_err();
            assert_eq!(e.code(), forebay::Code::ServerLost, "{e}");
            return;
        }
        done(&["up"]);
        let mut program = s.start("program");
        s.hear("open");
        let text = refused(&["down"]);
        assert!(text.contains("kept") && text.contains("--force"), "{text}");
        done(&["down", "--force"]);
        assert!(program.wait().success());
        assert!(done(&["show", &s.run("kept.fb"), "n"]).contains("kept"));
    });
}

#[test]
fn an_agent_killed_without_warning_is_replaced() {
    sandbox("an_agent_killed_without_warning_is_replaced", |_| {
        done(&["up"]);
        let first = agent_pid();
        signal(first, "-KILL");
        until("its end", || gone(first));
        assert!(done(&["status"]).contains("nothing"));
        done(&["up"]);
        assert_ne!(agent_pid(), first);
        done(&["down"]);
    });
}
