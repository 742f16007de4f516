//! The rank's side of a run against an owner that keeps a diary.

mod support;

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_client::run::{ArrayOptions, PutOptions, Session, View};
use forebay_link::Listener;
use forebay_types::control::{WhenFull, word};
use forebay_types::watch::{Act, Diagram, Kind, Parameter};
use forebay_types::{ArrayMeta, Code, DType, Shape};
use serde_json::json;
use support::{Owner, Script, request, until};

/// Two seconds are promised; a machine busy with other tests is given five.
const LATE: Duration = Duration::from_secs(5);

const MIB: usize = 1 << 20;

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64).collect()
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn puts_and_snapshots_arrive_whole_and_in_order() {
    let owner = Owner::start();
    let run = owner.open(16 << 20, WhenFull::Block);
    let (small, large) = (numbers(10), numbers(MIB / 4));
    run.put("a", View::of(&small, &[10]).unwrap(), PutOptions { units: "V", ..Default::default() }).unwrap();
    let snapshot = run.snapshot(20, Some(2.0)).unwrap();
    snapshot.put("E", View::of(&small, &[10]).unwrap(), ArrayOptions::default()).unwrap();
    snapshot.put("x", View::of(&large, &[large.len() as u64]).unwrap(), ArrayOptions::default()).unwrap();
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[4]).unwrap());
    let place = snapshot.allocate("rho", meta, ArrayOptions::default()).unwrap();
    place.write_at(8, &bytes(&[7.0])).unwrap();
    assert!(place.write_at(32, &[1]).is_err());
    let twice = snapshot.put("E", View::of(&small, &[10]).unwrap(), ArrayOptions::default()).unwrap_err();
    assert_eq!(twice.code(), Code::BadArgument);
    assert_eq!(run.snapshot(21, None).err().unwrap().code(), Code::Conflict);
    snapshot.end().unwrap();
    assert_eq!(
        place.write_at(8, &bytes(&[8.0])).unwrap_err().code(),
        Code::Closed,
        "its memory is used again"
    );
    snapshot.wait(None).unwrap();
    run.settle().unwrap();
    assert_eq!(owner.array("a"), bytes(&small));
    assert_eq!(owner.array("x"), bytes(&large));
    assert_eq!(owner.array("rho")[8..16], bytes(&[7.0]));
    assert_eq!(run.delete("a*", None).unwrap(), 2);
    assert_eq!(run.rename("a", "b").unwrap_err().code(), Code::NotFound);
    let stats = run.stats().unwrap();
    assert_eq!(stats["steps"], 1);
    run.close(None).unwrap();
    run.close(None).unwrap();
    assert_eq!(run.put("a", View::raw(b"x"), PutOptions::default()).unwrap_err().code(), Code::Closed);
    assert!(owner.diary().ends_with(r#"ask {"Close":{"finished":true}}"#));
}

#[test]
fn a_snapshot_larger_than_the_arena_goes_in_pieces_and_is_written_early() {
    let owner = Owner::start();
    let run = owner.open(4 << 20, WhenFull::Block);
    let large = numbers(2 * MIB); // 16 MiB
    let snapshot = run.snapshot(0, None).unwrap();
    snapshot.put("x", View::of(&large, &[large.len() as u64]).unwrap(), ArrayOptions::default()).unwrap();
    snapshot.end().unwrap();
    assert!(owner.array("x") == bytes(&large));
    let diary = owner.diary();
    assert!(diary.contains("early 0") && diary.contains(r#"ask {"WaitStep":{"step":0}}"#), "{diary}");
}

#[test]
fn what_can_never_fit_is_refused_with_the_sizes() {
    let owner = Owner::start();
    let run = owner.open(2 << 20, WhenFull::Block);
    let large = numbers(MIB);
    let e =
        run.put("x", View::of(&large, &[large.len() as u64]).unwrap(), PutOptions::default()).unwrap_err();
    assert_eq!(e.code(), Code::Full);
    assert!(e.text().contains("8388608") && e.text().contains("larger buffer"), "{e}");
    let snapshot = run.snapshot(0, None).unwrap();
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[MIB as u64]).unwrap());
    assert_eq!(snapshot.allocate("x", meta, ArrayOptions::default()).err().unwrap().code(), Code::Full);
}

#[test]
fn with_drop_newest_a_step_without_room_is_given_up_as_a_whole() {
    let owner = Owner::start();
    owner.script.hold.store(true, Ordering::Relaxed);
    let run = owner.open(4 << 20, WhenFull::DropNewest);
    let half = numbers(MIB / 4); // 2 MiB
    let view = || View::of(&half, &[half.len() as u64]).unwrap();
    for step in 0..3 {
        let snapshot = run.snapshot(step, None).unwrap();
        snapshot.put("x", view(), ArrayOptions::default()).unwrap();
        snapshot.put("t", View::of(&half[..4], &[4]).unwrap(), ArrayOptions::default()).unwrap();
        snapshot.end().unwrap();
        if step == 2 {
            let e = snapshot.wait(None).unwrap_err();
            assert!(e.code() == Code::Full && e.text().contains("drop_newest"), "{e}");
        }
    }
    run.settle().unwrap();
    let stats = run.stats().unwrap();
    assert_eq!((&stats["steps"], &stats["dropped_steps"]), (&json!(2), &json!(1)));
    assert!(owner.diary().contains("discard 2") && !owner.diary().contains("end 2"));
    owner.script.hold.store(false, Ordering::Relaxed);
    until("room", || {
        let snapshot = run.snapshot(3, None).unwrap();
        snapshot.put("x", view(), ArrayOptions::default()).unwrap();
        snapshot.end().unwrap();
        snapshot.wait(None).is_ok()
    });
}

#[test]
fn with_block_a_step_waits_until_an_earlier_one_is_written() {
    let owner = Owner::start();
    owner.script.hold.store(true, Ordering::Relaxed);
    let run = owner.open(4 << 20, WhenFull::Block);
    let half = numbers(3 * MIB / 8); // 3 MiB
    let put = |step| {
        let snapshot = run.snapshot(step, None).unwrap();
        snapshot.put("x", View::of(&half, &[half.len() as u64]).unwrap(), ArrayOptions::default()).unwrap();
        snapshot.end().unwrap();
    };
    put(0);
    let hold = owner.script.hold.clone();
    let helper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        hold.store(false, Ordering::Relaxed);
    });
    put(1);
    helper.join().unwrap();
    assert!(!owner.diary().contains("early"), "an earlier step made the room");
}

#[test]
fn a_discarded_snapshot_leaves_nothing_and_a_dropped_one_discards_itself() {
    let owner = Owner::start();
    let run = owner.open(4 << 20, WhenFull::Block);
    let place = {
        let snapshot = run.snapshot(5, None).unwrap();
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[3 << 20]).unwrap());
        snapshot.allocate("x", meta, ArrayOptions::default()).unwrap()
    };
    run.settle().unwrap();
    until("the diary", || owner.diary().contains("discard 5"));
    drop(place);
    let snapshot = run.snapshot(5, None).unwrap();
    let meta = ArrayMeta::new(DType::U8, Shape::new(&[3 << 20]).unwrap());
    snapshot.allocate("x", meta, ArrayOptions::default()).expect("the room came back");
}

#[test]
fn the_loop_head_carries_out_acts_at_their_step_and_holds_at_the_gate() {
    let owner = Owner::start();
    let run = owner.open(4 << 20, WhenFull::Block);
    let p = run
        .parameter(Parameter {
            name: "e0".into(),
            value: json!(0.5),
            min: Some(0.0),
            max: Some(2.0),
            units: "V/m".into(),
            help: String::new(),
            signed: false,
        })
        .unwrap();
    let saved = Arc::new(AtomicI64::new(-1));
    let seen = saved.clone();
    run.saves(
        Box::new(move |step| {
            seen.store(step, Ordering::Relaxed);
            Ok(())
        }),
        None,
    )
    .unwrap();
    let (gate, held, diary) = (owner.segment(), owner.segment(), owner.script.diary.clone());
    gate.word(word::GATE).store(3, Ordering::SeqCst);
    *owner.script.acts.lock().unwrap() = vec![
        (1, 3, Act::Set { name: "e0".into(), value: json!(1) }),
        (2, 3, Act::Set { name: "e0".into(), value: json!(9) }),
        (3, 3, Act::Save),
        (4, 3, Act::Stop),
    ];
    let helper = std::thread::spawn(move || {
        let applied = || diary.lock().unwrap().iter().any(|l| l.starts_with("Applied { id: 4"));
        until("the hold", || applied() && held.word(word::HELD).load(Ordering::Acquire) & word::AT_GATE != 0);
        held.word(word::GATE).store(u64::MAX, Ordering::SeqCst);
    });
    let mut steps = run.steps(6, None).unwrap();
    let mut passed = Vec::new();
    while let Some(step) = steps.next().unwrap() {
        assert_eq!(p.number(), if step < 3 { 0.5 } else { 1.0 });
        passed.push(step);
        if step == 0 {
            until("the acts", || owner.script.acts.lock().unwrap().is_empty());
        }
    }
    helper.join().unwrap();
    assert_eq!(passed, [0, 1, 2, 3, 4, 5]);
    assert_eq!(steps.next().unwrap(), None);
    assert_eq!((saved.load(Ordering::Relaxed), p.value()), (3, json!(1.0)));
    run.settle().unwrap();
    run.flush().unwrap();
    let diary = owner.diary();
    assert!(diary.contains(r#"Applied { id: 1, step: 3, code: 0, text: "e0 = 1.0" }"#), "{diary}");
    assert!(diary.contains("Applied { id: 2, step: 3, code: 3") && diary.contains("greatest value 2"));
    assert!(diary.contains(r#"Applied { id: 4, step: 3, code: 0, text: "held before step 3" }"#));
}

#[test]
fn quit_ends_the_loop_and_the_run_is_not_finished() {
    let owner = Owner::start();
    let run = owner.open(4 << 20, WhenFull::Block);
    owner.segment().word(word::GATE).store(1, Ordering::SeqCst);
    *owner.script.acts.lock().unwrap() = vec![(1, 1, Act::Quit)];
    let mut steps = run.steps(10, None).unwrap();
    assert_eq!(steps.next().unwrap(), Some(0));
    assert_eq!(steps.next().unwrap(), None);
    run.close(None).unwrap();
    assert!(owner.diary().contains(r#"{"Close":{"finished":false}}"#));
}

#[test]
fn a_held_loop_looks_at_the_users_check() {
    let owner = Owner::start();
    let run = owner.open(4 << 20, WhenFull::Block);
    owner.segment().word(word::GATE).store(0, Ordering::SeqCst);
    run.on_wait(|| Err(forebay_types::Error::new(Code::Cancelled, "Ctrl-C")));
    let mut steps = run.steps(10, None).unwrap();
    assert_eq!(steps.next().unwrap_err().code(), Code::Cancelled);
    assert_eq!(run.checkpoint(None).unwrap_err().text(), "Ctrl-C");
    owner.segment().word(word::GATE).store(u64::MAX, Ordering::SeqCst);
    assert_eq!(steps.next().unwrap(), Some(0));
}

#[test]
fn many_threads_may_ask_at_once() {
    let owner = Owner::start();
    let run = Arc::new(owner.open(4 << 20, WhenFull::Block));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let run = run.clone();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    assert_eq!(run.delete("*", None).unwrap(), 2);
                    assert_eq!(run.rename("a", "b").unwrap_err().code(), Code::NotFound);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn curves_are_reduced_at_the_source_and_thinned_while_nobody_watches() {
    let owner = Owner::start();
    let run = owner.open(32 << 20, WhenFull::Block);
    let declared = Diagram {
        id: 99,
        title: "phase space".into(),
        kind: Kind::Scatter,
        x: "x [m]".into(),
        y: "v [m/s]".into(),
        v: None,
        xscale: Default::default(),
        yscale: Default::default(),
        every: 1,
        reduce: None,
    };
    let d = run.diagram(declared.clone()).unwrap();
    let many = numbers(100_000);
    assert!(d.wants("beam"));
    d.update("beam", &many, &many).unwrap();
    assert!(!d.wants("beam"), "copied just now, and nobody watches");
    assert!(d.update("beam", &many, &many[1..]).is_ok(), "not looked at, so not checked");
    run.settle().unwrap();
    run.flush().unwrap();
    let diary = owner.diary();
    let slot = diary.lines().find(|l| l.contains("Slot")).unwrap();
    let json: serde_json::Value = serde_json::from_str(
        &slot[slot.find('"').unwrap() + 1..slot.rfind('"').unwrap()].replace("\\\"", "\""),
    )
    .unwrap();
    let (block, points) = (json["Slot"]["block"].as_u64().unwrap(), json["Slot"]["points"].as_u64().unwrap());
    let block = owner.segment().block(block as u32).unwrap();
    let mut reader = forebay_arena::TripleBuffer::reader(block, points as u32).unwrap();
    let (seq, step, _, x, y) = reader.latest().unwrap();
    assert_eq!((seq, step), (1, -1));
    assert!(x.len() > 8000 && x.len() <= 16_384 && x == y);
    reader.watch(true);
    assert!(d.wants("beam"));
    assert!(d.update("beam", &many, &many[1..]).is_err());
    d.update("beam", &many[..3], &many[..3]).unwrap();
    assert_eq!(reader.latest().unwrap().3, [0.0, 1.0, 2.0]);
    assert!(d.append(0.0, &[("w", 1.0)]).is_err(), "a scatter is no history");
    let h = run.diagram(Diagram { kind: Kind::History, title: "energies".into(), ..declared }).unwrap();
    h.append(0.1, &[("field", 1.0), ("kinetic", 2.0)]).unwrap();
    run.settle().unwrap();
    assert_eq!(owner.diary().matches("Curve").count(), 2);
}

/// Not a test by itself: the owner in a process of its own, for those that kill it.
#[test]
fn owner_process() {
    let Ok(socket) = std::env::var("FB_TEST_OWNER") else { return };
    let listener = Listener::bind(socket.as_ref()).unwrap();
    support::serve(&listener, &Script::default());
}

struct Process(std::process::Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

fn owner_in_another_process(dir: &std::path::Path) -> (Process, Session) {
    let socket = dir.join("o.sock");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_process"])
        .env("FB_TEST_OWNER", &socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = Process(child);
    // The socket is there a moment before somebody listens.
    let mut line = None;
    until("the owner to listen", || {
        line = Session::greet(&socket).ok();
        line.is_some()
    });
    let run = Session::open(line.unwrap(), &request(dir, 4 << 20, WhenFull::Block)).unwrap();
    (process, run)
}

/// Removes the segment that a killed owner leaves for its successor.
struct Swept(std::path::PathBuf);

impl Drop for Swept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn swept(run: &Session) -> Swept {
    Swept(forebay_arena::segments::path(&run.opened().segment))
}

#[test]
fn a_killed_owner_is_told_at_once_to_who_waits_and_to_who_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, run) = owner_in_another_process(dir.path());
    let segment = swept(&run);
    let run = Arc::new(run);
    let (waiting, when) = (run.clone(), Arc::new(Mutex::new(None)));
    let told = when.clone();
    let waiter = std::thread::spawn(move || {
        let e = waiting.checkpoint(None).unwrap_err();
        *told.lock().unwrap() = Some(Instant::now());
        e
    });
    run.flush().unwrap();
    let killed = Instant::now();
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let e = waiter.join().unwrap();
    assert_eq!(e.code(), Code::ServerLost);
    assert!(when.lock().unwrap().unwrap() - killed < LATE);
    let e = run.put("a", View::raw(b"x"), PutOptions::default()).unwrap_err();
    assert!(e.text().contains("forebay recover"), "{e}");
    let mut steps_failed = run.steps(3, None).is_err();
    steps_failed &= run.snapshot(0, None).is_err();
    assert!(steps_failed);
    assert!(run.close(None).is_err());
    assert!(segment.0.exists(), "what was acknowledged stays for the successor");
}

#[test]
fn a_stopped_owner_is_told_within_two_seconds_and_may_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (process, run) = owner_in_another_process(dir.path());
    let _segment = swept(&run);
    process.signal("-STOP");
    let owner = forebay_host::Process::of_pid(process.0.id()).unwrap();
    until("the stop", || owner.state() == forebay_host::ProcessState::Stopped);
    let stopped = Instant::now();
    let e = run.flush().unwrap_err();
    assert_eq!(e.code(), Code::ServerLost);
    assert!(stopped.elapsed() < LATE, "{:?}", stopped.elapsed());
    assert!(e.text().contains("kill -CONT"), "{e}");
    process.signal("-CONT");
    until("the owner's return", || run.flush().is_ok());
    run.close(None).unwrap();
}

#[test]
fn an_owner_that_dies_while_a_rank_hands_over_its_segment_leaves_it_to_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("o.sock");
    let listener = Listener::bind(&socket).unwrap();
    let script = Script::default();
    let theirs = script.clone();
    let owner = std::thread::spawn(move || drop(support::take_segment(&listener, &theirs)));
    let wire = Session::greet(&socket).unwrap();
    let e = Session::open(wire, &request(dir.path(), 4 << 20, WhenFull::Block)).err().unwrap();
    owner.join().unwrap();
    assert_eq!(e.code(), Code::ServerLost, "{e}");
    // It may have been noted by the one that died. That is no loss, and said by the segment itself.
    let segment = script.segment.lock().unwrap().clone().unwrap();
    let file = std::fs::File::from(segment.fd().try_clone_to_owned().unwrap());
    let inode = file.metadata().unwrap().ino();
    let mut names =
        std::fs::read_dir(forebay_host::directories::shm_dir()).unwrap().map(|e| e.unwrap().path());
    let path = names.find(|p| p.metadata().is_ok_and(|m| m.ino() == inode)).expect("it has its name");
    assert_eq!(segment.word(word::LEFT).load(Ordering::SeqCst), 1);
    std::fs::remove_file(path).unwrap();
}
