//! The command line as people and scripts meet it: what it answers, how it fails, and that every
//! command explains itself with an example.

use std::process::{Command, Output};

use crate::support::{Sandbox, sandbox, take};
use forebay::{Mode, OpenOptions};
use serde_json::{Value, json};

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap()
}

fn done(args: &[&str]) -> String {
    let out = forebay(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn ask(args: &[&str]) -> Value {
    serde_json::from_str(&done(&[args, &["--json"]].concat())).unwrap()
}

fn refused(args: &[&str]) -> String {
    let out = forebay(args);
    assert_eq!(out.status.code(), Some(1), "{args:?}");
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.starts_with("forebay: ") && text.contains("; "), "what, value; remedy: {text}");
    text
}

/// A run with a table and three snapshots.
fn example(s: &Sandbox) -> String {
    let place = s.run("example.fb");
    let options = OpenOptions { buffer: 4 << 20, ..Default::default() };
    let run = forebay::open(&place, Mode::Write, options).unwrap();
    let column = |name: &str, dtype: &str| forebay::Column {
        name: name.into(),
        dtype: dtype.into(),
        ..Default::default()
    };
    let columns = vec![column("step", "i64"), column("energy", "f64")];
    let table = run.table("history", forebay::TableOptions { columns, history: false }).unwrap();
    for step in 0..3 {
        table.insert(&[vec![forebay::Cell::Int(step), forebay::Cell::Real(0.5 * step as f64)]]).unwrap();
        take(&run, step, 1000).unwrap();
    }
    run.close().unwrap();
    place
}

#[test]
fn what_a_run_holds_is_listed_shown_and_queried() {
    sandbox("what_a_run_holds_is_listed_shown_and_queried", |s| {
        let run = example(s);
        let all = ask(&["ls", &run]);
        assert_eq!((&all["tables"], &all["steps"]), (&json!(["history"]), &json!([0, 1, 2])));
        assert!(done(&["ls", &run]).contains("snapshots: 3, from step 0 to step 2"));
        let of_step = ask(&["ls", &run, "electrons/*", "--step", "-1"]);
        assert_eq!((&of_step[0]["name"], &of_step[0]["shape"]), (&json!("electrons/x"), &json!([1000])));
        assert_eq!(ask(&["ls", &run, "--steps"])[1], json!({"step": 1, "time": 0.1}));

        let shown = ask(&["show", &run, "E", "--step", "2", "--sel", "1:3"]);
        assert_eq!((&shown["values"], &shown["units"]), (&json!([2e6 + 1.0, 2e6 + 2.0]), &json!("V/m")));
        assert!(done(&["show", &run, "electrons/x", "--step", "0"]).contains("f64(1000,)"));
        let text = done(&["table", &run, "history", "--where", "energy > 0.4"]);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(ask(&["sql", &run, "select max(energy) as top from history"]), json!({"top": 1.0}));
        assert!(refused(&["sql", &run, "delete from history"]).contains("read"));
    });
}

#[test]
fn data_sets_are_put_copied_renamed_got_and_removed() {
    sandbox("data_sets_are_put_copied_renamed_got_and_removed", |s| {
        let run = s.run("kept.fb");
        done(&["put", &run, "a/pi", "3.25", "--units", "rad", "--attr", "by=\"hand\""]);
        done(&["put", &run, "a/title", "two streams", "--text"]);
        let pi = ask(&["show", &run, "a/pi"]);
        assert_eq!(
            (&pi["values"], &pi["units"], &pi["attrs"]["by"]),
            (&json!(3.25), &json!("rad"), &json!("hand"))
        );
        assert_eq!(ask(&["show", &run, "a/title"])["values"], "two streams");
        done(&["cp", &run, "a/pi", "b/pi"]);
        done(&["mv", &run, "b/pi", "b/tau"]);
        let file = s.run("pi.npy");
        done(&["get", &run, "b/tau", "-o", &file]);
        done(&["put", &run, "c", &file]);
        assert_eq!(ask(&["show", &run, "c"])["values"], json!(3.25));
        assert_eq!(ask(&["rm", &run, "*/*"])["deleted"], 3);
        assert!(refused(&["rm", &run, "*/*"]).contains("matches no data set"));
        assert!(refused(&["mv", &run, "gone", "x"]).contains("\"gone\""));
    });
}

#[test]
fn a_run_is_cared_for_from_the_shell() {
    sandbox("a_run_is_cared_for_from_the_shell", |s| {
        let run = example(s);
        let report = ask(&["verify", &run]);
        assert_eq!((&report["steps"], &report["faults"]), (&json!(3), &json!([])));
        assert_eq!(ask(&["recover", &run])["last_step"], 2);
        assert!(ask(&["compact", &run])["saved_bytes"].is_u64());
        assert_eq!(ask(&["repair", &run])["steps"], 3);
        // What somebody has put there is named, and no fault.
        let notes = std::path::Path::new(&run).join("steps/notes.h5");
        std::fs::write(&notes, "mine").unwrap();
        assert!(done(&["repair", &run]).contains("no file of this run, left alone: steps/notes.h5: "));
        assert_eq!(ask(&["repair", &run])["foreign"].as_array().map(Vec::len), Some(1));
        std::fs::remove_file(&notes).unwrap();
        // A byte of an array is turned over.
        let file = std::path::Path::new(&run).join("steps/0000000001.h5");
        let mut bytes = std::fs::read(&file).unwrap();
        let value = (1e6f64 + 7.0).to_le_bytes();
        let at = bytes.windows(8).position(|w| w == value).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let out = forebay(&["verify", &run]);
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stdout).contains("0000000001.h5"));
    });
}

#[test]
fn what_is_not_where_it_is_looked_for_is_named_with_where_it_is() {
    sandbox("what_is_not_where_it_is_looked_for_is_named_with_where_it_is", |s| {
        let run = example(s);
        let text = refused(&["show", &run, "E"]);
        assert!(text.contains("snapshot 2 has an array of that name; --step 2 takes it"), "{text}");
        assert!(refused(&["get", &run, "E", "-o", &s.run("e.npy")]).contains("--step 2"));
        assert!(refused(&["show", &run, "B"]).contains("there is no data set \"B\" set 0"));
        assert!(refused(&["table", &run, "other"]).contains("\"other\"; the run has history"));
        let bare = s.run("bare.fb");
        done(&["put", &bare, "x", "1"]);
        assert!(refused(&["table", &bare, "other"]).contains("\"other\"; the run has no tables"));
        for (words, known) in [
            (["steer", &run, "frob"].as_slice(), "there are run, stop, step, save, quit, end, set, command"),
            (&["frob"], "there are up, down, status,"),
        ] {
            let text = String::from_utf8(forebay(words).stderr).unwrap();
            assert!(text.contains("'frob'") && text.contains(known), "{text}");
        }
    });
}

#[test]
fn a_directory_that_is_no_run_is_listed_by_the_runs_in_it() {
    sandbox("a_directory_that_is_no_run_is_listed_by_the_runs_in_it", |s| {
        let run = example(s);
        done(&["put", &s.run("bare.fb"), "x", "1"]);
        let inside = |dir: &std::path::Path, args: &[&str]| {
            Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).current_dir(dir).output().unwrap()
        };
        let said = |out: Output| String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert_eq!(said(inside(&s.dir, &["ls", "."])), "bare\nexample\n");
        assert_eq!(ask(&["ls", s.dir.to_str().unwrap()]), json!({"runs": ["bare", "example"]}));
        assert!(said(inside(run.as_ref(), &["ls", "."])).contains("snapshots: 3"));
        let text = said(inside(&s.dir, &["show", ".", "x"]));
        assert!(text.contains("\".\" is no run; give one of those in it: bare, example"), "{text}");
        let text = said(inside(&s.dir.join("example.fb/steps"), &["ls", "."]));
        assert!(text.contains("\".\" is no run, and there is none in it; give the name"), "{text}");
    });
}

#[test]
fn status_tells_what_output_costs() {
    sandbox("status_tells_what_output_costs", |s| {
        let options = OpenOptions { buffer: 16 << 20, ..Default::default() };
        let run = forebay::open(&s.run("costs.fb"), Mode::Write, options).unwrap();
        take(&run, 0, 400_000).unwrap();
        run.flush().unwrap();
        let text = done(&["status"]);
        let line = text.lines().find(|l| l.contains("output cost")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("(copying alone ") && line.contains("at most 3.1 MiB in buffers"), "{line}");
        let figures = &ask(&["status"])[0]["runs"][0]["figures"];
        let figure = |name: &str| figures[name].as_f64().unwrap();
        assert!(0.0 < figure("ideal_s") && figure("ideal_s") <= figure("visible_s"), "{figures}");
        assert_eq!(figures["waiting_for_disk"], false);
        run.close().unwrap();
    });
}

#[test]
fn a_failure_is_one_line_and_its_status_says_whose_fault_it_is() {
    sandbox("a_failure_is_one_line_and_its_status_says_whose_fault_it_is", |s| {
        let run = s.run("nothing.fb");
        for args in [
            ["ls", &run].as_slice(),
            &["show", &run, "E"],
            &["verify", &run],
            &["recover", &run],
            &["compact", &run],
        ] {
            assert!(refused(args).contains("nothing.fb"), "{args:?}");
        }
        assert!(refused(&["steer", &run, "stop"]).contains("nothing.fb"));
        assert!(refused(&["monitor", &run]).contains("nothing.fb"));
        assert!(refused(&["call", "poisson1d"]).contains("nothing is offered"));
        done(&["down"]);
        assert!(refused(&["serve", "poisson1d.so"]).contains("--idl FILE"));
        assert!(refused(&["up", "--listen", "tcp://0.0.0.0"]).contains("it has no port"));
        let out = forebay(&["ls", &run, "--json"]);
        let error: Value = serde_json::from_slice(&out.stderr).unwrap();
        assert_eq!(error["error"], "NotFound");
        for usage in
            [["frobnicate"].as_slice(), &["ls"], &["steer", &run, "jump"], &["ls", &run, "--set", "x"]]
        {
            assert_eq!(forebay(usage).status.code(), Some(2), "{usage:?}");
        }
        assert_eq!(ask(&["services"]), json!([]));
    });
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let help = done(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|l| !l.starts_with("Commands:"))
        .skip(1)
        .take_while(|l| l.starts_with("  "))
        .filter(|l| !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .filter(|c| *c != "help")
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    let explains = |args: &[&str]| {
        let text = done(args);
        let last = text.trim_end().lines().last().unwrap().to_owned();
        assert!(text.contains("Example:") && last.starts_with("  forebay "), "{args:?}: {last}");
    };
    for command in commands {
        explains(&[command, "--help"]);
    }
    for verb in ["run", "stop", "step", "save", "quit", "set", "command"] {
        explains(&["steer", "x", verb, "--help"]);
    }
}

#[test]
fn the_doctor_finds_what_a_killed_program_left() {
    sandbox("the_doctor_finds_what_a_killed_program_left", |s| {
        let run = s.run("torn.fb");
        if s.role == "program" {
            let options = OpenOptions { buffer: 4 << 20, ..Default::default() };
            let run = forebay::open(&run, Mode::Append, options).unwrap();
            run.put("n", forebay::View::text("kept"), Default::default()).unwrap();
            s.tell("put");
            loop {
                std::thread::park();
            }
        }
        let verdict = |name: &str| -> Value {
            let found = ask(&["doctor"]);
            found.as_array().unwrap().iter().find(|f| f["check"] == name).unwrap()["verdict"].clone()
        };
        assert_eq!(verdict("left-over segments"), "good");
        let mut program = s.start("program");
        s.hear("put");
        assert_eq!(verdict("left-over segments"), "good");
        program.kill();
        assert_eq!(verdict("left-over segments"), "mind");
        done(&["recover", &run]);
        assert_eq!(verdict("left-over segments"), "good");
        assert_eq!(ask(&["show", &run, "n"])["values"], "kept");
    });
}
