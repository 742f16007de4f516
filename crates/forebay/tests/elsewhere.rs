//! Programs that are killed with data in memory, and go on where that memory is not seen: in another mount
//! name space, as another user, with too few descriptors.

use crate::support::{
    Process, Sandbox, check, full_name, mount, sandbox, sandbox_for_all_users, sandbox_with_mounts, take,
    until,
};
use forebay::{Code, Elsewhere, Mode, OpenOptions, PutOptions, View};
use forebay_arena::segments;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const N: usize = 50_000;

fn small() -> OpenOptions {
    OpenOptions { buffer: 16 << 20, ..Default::default() }
}

/// The program: a step on disk, another one and a data set acknowledged; then it waits to be killed.
fn write_and_wait(s: &Sandbox) {
    let run = forebay::open(&s.run("r"), Mode::Append, small()).unwrap();
    take(&run, 0, N).unwrap().wait(None).unwrap();
    take(&run, 1, N).unwrap();
    run.put("t", View::text("kept"), PutOptions::default()).unwrap();
    s.tell("acknowledged");
    s.hear("never");
}

/// Has it do that and kills it.
fn killed(s: &Sandbox) {
    let mut program = s.start("program");
    s.hear("acknowledged");
    program.kill();
}

/// A command in a mount name space of its own, with another `/dev/shm`.
fn in_another_shm(command: &mut Command) -> Output {
    let program = command.get_program().to_owned();
    let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    Command::new("unshare")
        .current_dir(command.get_current_dir().unwrap_or(Path::new(".")))
        .args(["--mount", "sh", "-c", "mount -t tmpfs other /dev/shm && exec \"$0\" \"$@\""])
        .arg(program)
        .args(args)
        .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn forebay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args);
    command
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Everything that was acknowledged is there.
fn whole(s: &Sandbox) {
    let run = forebay::open(&s.run("r"), Mode::Read, small()).unwrap();
    (0..2).for_each(|step| check(&run, step, N));
    assert_eq!(run.get("t", 0, None).unwrap().to_text().unwrap(), "kept");
    run.close().unwrap();
}

fn segments() -> usize {
    segments::found("run-").len()
}

#[test]
fn a_killed_run_is_refused_under_another_dev_shm_and_whole_at_home() {
    sandbox_with_mounts("a_killed_run_is_refused_under_another_dev_shm_and_whole_at_home", |s| {
        if s.role == "program" {
            return write_and_wait(s);
        }
        killed(s);
        let dir = s.run("r") + ".fb";
        let lock = std::fs::read(Path::new(&dir).join("LOCK")).unwrap();
        for command in [&["recover", &dir][..], &["compact", &dir], &["recover"]] {
            let mut command = forebay(command);
            let out = in_another_shm(command.current_dir(&s.dir));
            assert_eq!(out.status.code(), Some(1), "{}", text(&out));
            for word in ["another /dev/shm", "1 session", "step", "--abandon", "FOREBAY_ELSEWHERE"] {
                assert!(text(&out).contains(word), "{word}: {}", text(&out));
            }
        }
        assert_eq!(std::fs::read(Path::new(&dir).join("LOCK")).unwrap(), lock);
        assert_eq!(segments(), 1);
        let run = forebay::open(&s.run("r"), Mode::Append, small()).unwrap();
        run.close().unwrap();
        whole(s);
        assert_eq!(segments(), 0);
    });
}

#[test]
fn a_job_goes_on_elsewhere_by_a_variable_and_says_what_it_gave_up() {
    const TEST: &str = "a_job_goes_on_elsewhere_by_a_variable_and_says_what_it_gave_up";
    sandbox_with_mounts(TEST, |s| {
        match s.role.as_str() {
            "program" => return write_and_wait(s),
            "again" => {
                let run = forebay::open(&s.run("r"), Mode::Append, small()).unwrap();
                run.restart().unwrap();
                take(&run, 7, N).unwrap().wait(None).unwrap();
                return run.close().unwrap();
            }
            _ => {}
        }
        killed(s);
        let name = full_name(TEST);
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", &name, "--nocapture"]).env("FB_ROLE", "again");
        let refused = in_another_shm(&mut again);
        assert!(!refused.status.success() && text(&refused).contains("Conflict"), "{}", text(&refused));
        let went = in_another_shm(again.env("FOREBAY_ELSEWHERE", "abandon"));
        assert!(went.status.success(), "{}", text(&went));
        assert!(String::from_utf8_lossy(&went.stderr).contains("given up"), "{}", text(&went));
        assert_eq!(segments(), 1, "what was given up there is freed here");
        let home = forebay(&["recover", &s.run("r")]).output().unwrap();
        assert!(home.status.success() && text(&home).contains("freed"), "{}", text(&home));
        assert_eq!(segments(), 0);
        let run = forebay::open(&s.run("r"), Mode::Read, small()).unwrap();
        check(&run, 7, N);
        let said = run.sql("select text from fb_messages where level = 2", &[]).unwrap();
        assert!(format!("{said:?}").contains("given up"), "{said:?}");
        run.close().unwrap();
    });
}

#[test]
fn a_mount_name_space_that_shares_dev_shm_is_no_other_place() {
    const TEST: &str = "a_mount_name_space_that_shares_dev_shm_is_no_other_place";
    sandbox_with_mounts(TEST, |s| {
        if s.role == "program" {
            return write_and_wait(s);
        }
        killed(s);
        let out = Command::new("unshare")
            .args(["--mount", env!("CARGO_BIN_EXE_forebay"), "recover", &s.run("r")])
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", text(&out));
        whole(s);
    });
}

#[test]
fn another_directory_for_segments_finds_those_that_were_made_in_the_first_one() {
    const TEST: &str = "another_directory_for_segments_finds_those_that_were_made_in_the_first_one";
    sandbox(TEST, |s| {
        if s.role == "program" {
            return write_and_wait(s);
        }
        killed(s);
        let other = s.dir.join("segments");
        std::fs::create_dir(&other).unwrap();
        let mut command = forebay(&["recover", &s.run("r")]);
        let out = command.env("FOREBAY_SHM_DIR", &other).output().unwrap();
        assert!(out.status.success(), "{}", text(&out));
        whole(s);
        assert_eq!(segments(), 0);
    });
}

#[test]
fn a_session_that_was_closed_holds_nothing_wherever_the_run_goes_on() {
    const TEST: &str = "a_session_that_was_closed_holds_nothing_wherever_the_run_goes_on";
    sandbox_with_mounts(TEST, |s| {
        let run = forebay::open(&s.run("r"), Mode::Append, small()).unwrap();
        take(&run, 0, N).unwrap();
        run.close().unwrap();
        let out = in_another_shm(&mut forebay(&["recover", &s.run("r")]));
        assert!(out.status.success(), "{}", text(&out));
    });
}

#[test]
fn another_user_is_refused_and_nothing_is_closed() {
    const TEST: &str = "another_user_is_refused_and_nothing_is_closed";
    sandbox_for_all_users(TEST, |s| {
        if s.role == "program" {
            return write_and_wait(s);
        }
        let other = |args: &[&str]| {
            Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .args(args)
                .output()
        };
        if !other(&["true"]).is_ok_and(|o| o.status.success()) {
            return eprintln!("SKIPPED {TEST}: this needs root, to be another user");
        }
        killed(s);
        let dir = s.run("r") + ".fb";
        // A group that shares its runs, here all.
        for path in [s.dir.parent().unwrap(), &s.dir] {
            let all = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
            std::fs::set_permissions(path, all).unwrap();
        }
        assert!(Command::new("chmod").args(["-R", "a+rwX", &dir]).status().unwrap().success());
        let theirs = s.dir.join("theirs");
        let made = other(&["mkdir", "-m", "700", theirs.to_str().unwrap()]).unwrap();
        assert!(made.status.success(), "{}", text(&made));
        // The name that it would give its own segments.
        let variable = |name: &str, dir: &str| format!("{name}={}", theirs.join(dir).display());
        let exe = s.dir.join("forebay");
        std::fs::copy(env!("CARGO_BIN_EXE_forebay"), &exe).unwrap();
        let out = other(&[
            "env",
            &variable("FOREBAY_RUNTIME_DIR", "run"),
            &variable("FOREBAY_HOME", "home"),
            exe.to_str().unwrap(),
            "recover",
            &dir,
        ])
        .unwrap();
        assert_eq!(out.status.code(), Some(1), "{}", text(&out));
        assert!(text(&out).contains("of user 0"), "{}", text(&out));
        assert_eq!(segments(), 1);
        // What they touched is theirs; the run is ours.
        assert!(Command::new("chown").args(["-R", "0:0", &dir]).status().unwrap().success());
        let out = forebay(&["recover", &dir]).output().unwrap();
        assert!(out.status.success(), "{}", text(&out));
        whole(s);
    });
}

#[test]
fn too_few_descriptors_close_nothing() {
    const TEST: &str = "too_few_descriptors_close_nothing";
    sandbox(TEST, |s| {
        if s.role == "program" {
            return write_and_wait(s);
        }
        killed(s);
        // The first number that suffices for all but the segment; with more the work begins, and waits.
        let refused = (6..48).find(|files| {
            let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
            let out = Command::new("sh")
                .args(["-c", &limited, env!("CARGO_BIN_EXE_forebay"), "recover", &s.run("r")])
                .output()
                .unwrap();
            assert_eq!(out.status.code(), Some(1), "{files}: {}", text(&out));
            text(&out).contains("is there and cannot be opened")
        });
        assert!(refused.is_some());
        let out = forebay(&["recover", &s.run("r")]).output().unwrap();
        assert!(out.status.success(), "{}", text(&out));
        whole(s);
    });
}

#[test]
fn an_agent_refuses_and_gives_up_as_its_rank_asks() {
    const TEST: &str = "an_agent_refuses_and_gives_up_as_its_rank_asks";
    sandbox_with_mounts(TEST, |s| {
        if s.role == "program" {
            return write_and_wait(s);
        }
        if s.role == "there" {
            mount(Path::new("/dev/shm"), 256);
            forebay_agent::start_to_stay().unwrap();
            let e = forebay::open(&s.run("r"), Mode::Append, small()).err().unwrap();
            assert!(e.code() == Code::Conflict && e.text().contains("another /dev/shm"), "{e}");
            let abandon = OpenOptions { elsewhere: Some(Elsewhere::Abandon), ..small() };
            let run = forebay::open(&s.run("r"), Mode::Append, abandon).unwrap();
            run.restart().unwrap();
            take(&run, 9, N).unwrap();
            run.close().unwrap();
            forebay_agent::down(false, crate::support::LATE).unwrap();
            return;
        }
        killed(s);
        let child = Command::new("unshare")
            .arg("--mount")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &full_name(TEST), "--nocapture"])
            .env("FB_ROLE", "there")
            .spawn()
            .unwrap();
        assert!(Process(child).wait().success());
        let run = forebay::open(&s.run("r"), Mode::Append, small()).unwrap();
        check(&run, 9, N);
        run.close().unwrap();
        until("the memory of what was given up", || segments() == 0);
    });
}
