//! Full disks and small shared memory: the program is told and goes on when there is room again,
//! nothing acknowledged is lost, and nobody waits without end.

use std::io::BufRead;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::network::done;
use crate::support::{Sandbox, agent_pid, check, fill, mount, sandbox_with_mounts, signal, take, until};
use forebay::{
    ArrayOptions, Cell, Code, Column, Mode, OpenOptions, Place, PutOptions, Run, Shape, TableOptions, Target,
    View, WhenFull,
};
use forebay_arena::{Segment, SegmentSpec};

/// Values of an array: 3.2 MB.
const N: usize = 400_000;

fn open(at: &Path, mib: u64, full: WhenFull) -> forebay::Result<Run> {
    let options = OpenOptions { buffer: mib << 20, full, ..Default::default() };
    forebay::open(at.to_str().unwrap(), Mode::Append, options)
}

/// A run on a disk of 24 MiB that is used up, but for `left` bytes, while the run is open.
fn on_a_full_disk(s: &Sandbox, full: WhenFull, mib: u64, left: u64) -> (Run, PathBuf) {
    let disk = s.dir.join("disk");
    mount(&disk, 24);
    let run = open(&disk.join("full"), mib, full).unwrap();
    run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
    take(&run, 0, N).unwrap().wait(None).unwrap();
    (run, fill(&disk, left))
}

fn waits(run: &Run) -> bool {
    run.stats().unwrap()["waiting_for_disk"] == true
}

/// Only these steps are there, and each as it was taken.
fn is_whole(run: &Run, steps: &[i64]) {
    assert_eq!(run.snapshots().unwrap().numbers().unwrap(), steps);
    steps.iter().for_each(|step| check(run, *step, N));
    assert_eq!(run.get("kept", 0, None).unwrap().to_text().unwrap(), "yes");
}

/// With nothing left the catalog cannot be written either.
fn waits_and_goes_on(s: &Sandbox, left: u64) {
    let (run, ballast) = on_a_full_disk(s, WhenFull::Block, 32, left);
    let taken: Vec<_> = (1..4).map(|step| take(&run, step, N).unwrap()).collect();
    until("the store's wait", || waits(&run));
    let e = taken[0].wait(Some(Duration::from_millis(100))).unwrap_err();
    assert_eq!(e.code(), Code::Timeout, "{e}");
    for i in 0..200 {
        run.put(&format!("small/{i}"), View::raw(&[3; 1000]), PutOptions::default()).unwrap();
    }
    std::fs::remove_file(ballast).unwrap();
    run.flush().unwrap();
    is_whole(&run, &[0, 1, 2, 3]);
    assert!(!waits(&run));
    run.close().unwrap();
    let found = forebay_store::verify(&s.dir.join("disk/full.fb")).unwrap();
    assert_eq!((found.steps, found.faults), (4, Vec::new()));
}

#[test]
fn a_disk_that_fills_in_the_middle_of_a_step_delays_it_and_loses_nothing() {
    sandbox_with_mounts("a_disk_that_fills_in_the_middle_of_a_step_delays_it_and_loses_nothing", |s| {
        waits_and_goes_on(s, 1 << 20);
    });
}

#[test]
fn a_full_disk_under_an_agent_delays_and_loses_nothing_and_stands_in_its_log() {
    sandbox_with_mounts("a_full_disk_under_an_agent_delays_and_loses_nothing_and_stands_in_its_log", |s| {
        forebay_agent::start_to_stay().unwrap();
        waits_and_goes_on(s, 0);
        let log = forebay_host::directories::runtime_dir().unwrap().join("agent.log");
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("waits for room on the disk") && log.contains("there is room"), "{log}");
    });
}

/// A closing that fails in time, whoever owns the run.
fn closing_fails(run: &Run) {
    let asked = Instant::now();
    let e = run.close().unwrap_err();
    assert_eq!(e.code(), Code::Full, "{e}");
    assert!(e.text().contains("full.fb") && e.text().contains("forebay recover"), "{e}");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
}

#[test]
fn closing_on_a_full_disk_fails_in_time_and_what_is_missing_is_recovered() {
    let test = "closing_on_a_full_disk_fails_in_time_and_what_is_missing_is_recovered";
    sandbox_with_mounts(test, |s| {
        let dir = s.dir.join("disk/full.fb");
        if s.role == "writer" {
            let run = open(&dir, 32, WhenFull::Block).unwrap();
            run.restart().unwrap();
            fill(&s.dir.join("disk"), 1 << 20);
            (1..4).for_each(|step| drop(take(&run, step, N).unwrap()));
            return closing_fails(&run);
        }
        mount(&s.dir.join("disk"), 24);
        let run = open(&dir, 32, WhenFull::Block).unwrap();
        run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
        take(&run, 0, N).unwrap();
        run.close().unwrap();
        assert!(s.start("writer").wait().success());
        assert!(forebay_store::verify(&dir).unwrap().faults.is_empty());
        std::fs::remove_file(s.dir.join("disk/ballast")).unwrap();
        assert_eq!(forebay_store::recover(&dir).unwrap(), Some(3));
        let run = open(&dir, 32, WhenFull::Block).unwrap();
        is_whole(&run, &[0, 1, 2, 3]);
        run.close().unwrap();
    });
}

/// Another thread makes a call: one that hangs is to fail here and not to hang.
fn begun<T: Send + 'static>(run: &Arc<Run>, call: impl FnOnce(&Run) -> T + Send + 'static) -> Receiver<T> {
    let (run, (tell, told)) = (run.clone(), channel());
    std::thread::spawn(move || drop(tell.send(call(&run))));
    told
}

fn ended<T>(call: &Receiver<T>) -> T {
    call.recv_timeout(Duration::from_secs(20)).expect("the call ends in time")
}

fn in_time<T: Send + 'static>(run: &Arc<Run>, call: impl FnOnce(&Run) -> T + Send + 'static) -> T {
    ended(&begun(run, call))
}

/// A large data set waits for the disk, and things that were put behind it wait for that.
fn behind_a_large_put(run: &Run) -> forebay::Snapshot {
    run.put("large", View::of(&vec![2.5; N], &[N as u64]).unwrap(), PutOptions::default()).unwrap();
    run.put("small", View::of(&[7.0], &[1]).unwrap(), PutOptions::default()).unwrap();
    take(run, 1, N).unwrap()
}

fn has_what_was_put(run: &Run) {
    is_whole(run, &[0, 1]);
    assert_eq!(run.get("large", 0, None).unwrap().to_f64().unwrap(), vec![2.5; N]);
    assert_eq!(run.get("small", 0, None).unwrap().to_f64().unwrap(), [7.0]);
}

/// Whoever asks behind it is told why that cannot be; when there is room all is kept that was put.
fn who_asks_behind_a_large_put_is_told(s: &Sandbox) {
    let (run, ballast) = on_a_full_disk(s, WhenFull::Block, 32, 1 << 20);
    let run = Arc::new(run);
    let columns = vec![Column { name: "n".into(), dtype: "i64".into(), ..Default::default() }];
    let table = run.table("rows", TableOptions { columns, history: false }).unwrap();
    let taken = behind_a_large_put(&run);
    table.insert(&[vec![Cell::Int(1)]]).unwrap();
    assert!(in_time(&run, |run| run.stats().is_ok()), "figures need no disk");
    until("the store's wait", || in_time(&run, waits));
    let attrs = serde_json::Map::from_iter([("code".to_owned(), "ES1".into())]);
    let set = move |run: &Run| run.set_attrs(&Target::Run, attrs);
    let asks = [
        begun(&run, set),
        begun(&run, Run::flush),
        begun(&run, move |_| taken.wait(None)),
        begun(&run, |run| run.checkpoint(None).map(drop)),
    ];
    for told in asks.iter().map(ended) {
        let e = told.unwrap_err();
        assert_eq!(e.code(), Code::Full, "{e}");
        assert!(e.text().contains("full.fb") && e.text().contains("the data set \"large\""), "{e}");
    }
    in_time(&run, closing_fails);
    std::fs::remove_file(ballast).unwrap();
    run.flush().unwrap();
    has_what_was_put(&run);
    assert_eq!(run.sql("SELECT n FROM rows", &[]).unwrap().rows.len(), 1);
    assert!(run.attrs(&Target::Run).unwrap().is_empty(), "that was refused");
    run.close().unwrap();
}

#[test]
fn who_asks_behind_a_large_put_on_a_full_disk_is_told_in_time() {
    let test = "who_asks_behind_a_large_put_on_a_full_disk_is_told_in_time";
    sandbox_with_mounts(test, who_asks_behind_a_large_put_is_told);
}

#[test]
fn an_agent_tells_in_time_who_asks_behind_a_large_put_on_a_full_disk() {
    let test = "an_agent_tells_in_time_who_asks_behind_a_large_put_on_a_full_disk";
    sandbox_with_mounts(test, |s| {
        forebay_agent::start_to_stay().unwrap();
        who_asks_behind_a_large_put_is_told(s);
    });
}

#[test]
fn the_next_agent_does_not_close_what_one_before_it_refused_to_close() {
    sandbox_with_mounts("the_next_agent_does_not_close_what_one_before_it_refused_to_close", |s| {
        forebay_agent::start_to_stay().unwrap();
        let (run, ballast) = on_a_full_disk(s, WhenFull::Block, 32, 1 << 20);
        let run = Arc::new(run);
        behind_a_large_put(&run);
        in_time(&run, closing_fails);
        signal(agent_pid(), "-KILL");
        std::fs::remove_file(ballast).unwrap();
        in_time(&run, Run::flush).unwrap();
        run.put("later", View::of(&[8.0], &[1]).unwrap(), PutOptions::default()).unwrap();
        in_time(&run, Run::flush).unwrap();
        has_what_was_put(&run);
        assert_eq!(run.get("later", 0, None).unwrap().to_f64().unwrap(), [8.0]);
        in_time(&run, Run::close).unwrap();
    });
}

#[test]
fn an_agent_goes_on_with_what_a_closing_on_a_full_disk_left() {
    sandbox_with_mounts("an_agent_goes_on_with_what_a_closing_on_a_full_disk_left", |s| {
        forebay_agent::start_to_stay().unwrap();
        let (run, ballast) = on_a_full_disk(s, WhenFull::Block, 32, 0);
        (1..4).for_each(|step| drop(take(&run, step, N).unwrap()));
        closing_fails(&run);
        drop(run);
        std::fs::remove_file(ballast).unwrap();
        let again = open(&s.dir.join("disk/full"), 32, WhenFull::Block).unwrap();
        until("the last step", || again.snapshots().unwrap().numbers().unwrap() == [0, 1, 2, 3]);
        is_whole(&again, &[0, 1, 2, 3]);
        again.close().unwrap();
    });
}

/// One of two ranks: its half of a step, as large as in all others.
fn half(run: &Run, rank: u32, step: i64) {
    let (n, shape) = (N as u64, |v: u64| Shape::new(&[v]).unwrap());
    let values: Vec<f64> = (0..N).map(|i| step as f64 + f64::from(rank) + i as f64).collect();
    let snapshot = run.snapshot(step, None).unwrap();
    let place = Place::At { offset: shape(u64::from(rank) * n), global: shape(2 * n) };
    snapshot
        .put("x", View::of(&values, &[n]).unwrap(), ArrayOptions { place, ..ArrayOptions::default() })
        .unwrap();
    snapshot.end().unwrap();
}

#[test]
fn half_written_steps_make_room_on_a_full_disk_for_those_that_can_be_finished() {
    let test = "half_written_steps_make_room_on_a_full_disk_for_those_that_can_be_finished";
    // Halves of so many steps are more than the disk holds; two whole ones fit on it.
    const STEPS: i64 = 8;
    sandbox_with_mounts(test, |s| {
        let disk = s.dir.join("disk");
        let open = |rank| {
            let options =
                OpenOptions { buffer: 64 << 20, rank: Some(rank), size: Some(2), ..Default::default() };
            forebay::open(disk.join("r").to_str().unwrap(), Mode::Append, options).unwrap()
        };
        if s.role == "second" {
            let run = open(1);
            s.hear("go");
            (0..STEPS).for_each(|step| half(&run, 1, step));
            s.tell("ended");
            s.hear("room");
            return run.close().unwrap();
        }
        mount(&disk, 20);
        forebay_agent::start_to_stay().unwrap();
        let run = open(0);
        let mut second = s.start("second");
        (0..STEPS).for_each(|step| half(&run, 0, step));
        until("the full disk", || waits(&run));
        s.tell("go");
        s.hear("ended");
        until("two steps on the full disk", || run.snapshots().unwrap().numbers().unwrap().len() == 2);
        assert_eq!(run.snapshots().unwrap().numbers().unwrap(), [0, 1], "the oldest first");
        let larger = Command::new("mount").args(["-o", "remount,size=80m"]).arg(&disk).status();
        assert!(larger.unwrap().success());
        run.flush().unwrap();
        assert_eq!(run.snapshots().unwrap().numbers().unwrap(), (0..STEPS).collect::<Vec<i64>>());
        for step in 0..STEPS {
            let read = run.snapshots().unwrap().at(step).unwrap().get("x", None).unwrap().to_f64().unwrap();
            let due = |i: usize| step as f64 + (i / N + i % N) as f64;
            assert!(read.len() == 2 * N && read.iter().enumerate().all(|(i, v)| *v == due(i)));
        }
        s.tell("room");
        run.close().unwrap();
        assert!(second.wait().success());
    });
}

/// Who takes a run back that a full disk left unfinished.
#[derive(Clone, Copy, PartialEq)]
enum Taker {
    Agent,
    AgentOfAnotherHost,
    Program,
    Recover,
}

/// The opener is a process of its own, as its terminal is looked at.
fn an_opener_hears_what_it_waits_for(s: &Sandbox, taker: Taker) {
    let disk = s.dir.join("disk");
    let address = s.dir.join("address");
    if s.role == "opener" {
        let place = std::fs::read_to_string(&address).unwrap();
        if taker == Taker::Recover {
            let status = Command::new(env!("CARGO_BIN_EXE_forebay")).args(["recover", &place]).status();
            return assert!(status.unwrap().success());
        }
        let run = open(Path::new(&place), 32, WhenFull::Block).unwrap();
        assert_eq!(run.snapshots().unwrap().numbers().unwrap(), [0, 1, 2, 3]);
        return run.close().unwrap();
    }
    if s.role == "writer" {
        let run = open(&disk.join("full"), 32, WhenFull::Block).unwrap();
        run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
        take(&run, 0, N).unwrap().wait(None).unwrap();
        fill(&disk, 1 << 20);
        (1..4).for_each(|step| drop(take(&run, step, N).unwrap()));
        s.tell("taken");
        loop {
            std::thread::park();
        }
    }
    mount(&disk, 24);
    forebay_agent::start_to_stay().unwrap();
    let mut writer = s.start("writer");
    s.hear("taken");
    // The agent is stopped first, so that it gives nothing up for the death of the rank.
    let agent = agent_pid();
    signal(agent, "-STOP");
    writer.kill();
    signal(agent, "-KILL");
    let runs = disk.to_str().unwrap();
    let place = match taker {
        Taker::AgentOfAnotherHost => {
            let up = done(&["up", "--listen", "tcp://127.0.0.1:0", "--runs", runs]);
            format!("{}/full", up["address"].as_str().unwrap())
        }
        _ => format!("{runs}/full"),
    };
    if taker == Taker::Agent {
        forebay_agent::start_to_stay().unwrap();
    }
    std::fs::write(&address, place).unwrap();
    let ballast = disk.join("ballast");
    let (said, mut opener) = s.start_heard("opener");
    let line = said.lines().map(Result::unwrap).find(|l| l.contains("waits for room on the disk"));
    let line = line.expect("the opener says what it waits for");
    assert!(line.starts_with("forebay: ") && line.contains("full.fb"), "{line}");
    std::fs::remove_file(ballast).unwrap();
    assert!(opener.wait().success());
    let run = open(&disk.join("full"), 32, WhenFull::Block).unwrap();
    is_whole(&run, &[0, 1, 2, 3]);
    run.close().unwrap();
}

#[test]
fn who_opens_a_run_under_an_agent_hears_what_the_opening_waits_for() {
    let test = "who_opens_a_run_under_an_agent_hears_what_the_opening_waits_for";
    sandbox_with_mounts(test, |s| an_opener_hears_what_it_waits_for(s, Taker::Agent));
}

#[test]
fn who_opens_a_run_of_another_host_hears_what_the_opening_waits_for() {
    let test = "who_opens_a_run_of_another_host_hears_what_the_opening_waits_for";
    sandbox_with_mounts(test, |s| an_opener_hears_what_it_waits_for(s, Taker::AgentOfAnotherHost));
}

#[test]
fn who_opens_a_run_alone_hears_what_the_opening_waits_for() {
    let test = "who_opens_a_run_alone_hears_what_the_opening_waits_for";
    sandbox_with_mounts(test, |s| an_opener_hears_what_it_waits_for(s, Taker::Program));
}

#[test]
fn who_recovers_a_run_hears_what_that_waits_for() {
    let test = "who_recovers_a_run_hears_what_that_waits_for";
    sandbox_with_mounts(test, |s| an_opener_hears_what_it_waits_for(s, Taker::Recover));
}

#[test]
fn with_drop_oldest_a_full_disk_holds_up_nobody_and_leaves_whole_steps() {
    sandbox_with_mounts("with_drop_oldest_a_full_disk_holds_up_nobody_and_leaves_whole_steps", |s| {
        // So that there is no room for overflow either.
        mount(Path::new("/dev/shm"), 24);
        let (run, ballast) = on_a_full_disk(s, WhenFull::DropOldest, 16, 0);
        for step in 1..20 {
            take(&run, step, N).unwrap();
            run.put("last", View::of(&[step], &[1]).unwrap(), PutOptions::default()).unwrap();
        }
        let dropped = run.stats().unwrap()["dropped_steps"].as_u64().unwrap();
        assert!(dropped > 10, "{dropped}");
        std::fs::remove_file(ballast).unwrap();
        run.flush().unwrap();
        let kept = run.snapshots().unwrap().numbers().unwrap().to_vec();
        assert_eq!(kept.len() as u64 + dropped, 20, "{kept:?}");
        assert_eq!((kept[0], kept[kept.len() - 1]), (0, 19), "{kept:?}");
        is_whole(&run, &kept);
        run.close().unwrap();
    });
}

#[test]
fn a_small_shared_memory_sends_the_buffer_into_the_runs_directory() {
    sandbox_with_mounts("a_small_shared_memory_sends_the_buffer_into_the_runs_directory", |s| {
        mount(Path::new("/dev/shm"), 8);
        let dir = s.dir.join("small.fb");
        let run = open(&dir, 32, WhenFull::Block).unwrap();
        let stem = format!("{}-run", forebay_host::directories::shm_prefix());
        let segments = |dir: &Path| {
            let names = std::fs::read_dir(dir).unwrap().flatten().map(|f| f.file_name());
            names.filter(|n| n.to_string_lossy().starts_with(&stem)).count()
        };
        assert_eq!((segments(Path::new("/dev/shm")), segments(&dir)), (0, 1));
        run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
        (0..8).for_each(|step| drop(take(&run, step, N).unwrap()));
        run.flush().unwrap();
        is_whole(&run, &(0..8).collect::<Vec<_>>());
        let said = run.sql("SELECT text FROM fb_messages", &[]).unwrap();
        let said = format!("{:?}", said.rows);
        assert!(
            said.contains("/dev/shm has no room for the buffer of") && said.contains("remount"),
            "{said}"
        );
        run.close().unwrap();
        assert_eq!(segments(&dir), 0);
    });
}

#[test]
fn with_no_room_for_the_buffer_anywhere_opening_says_size_need_and_remedy() {
    sandbox_with_mounts("with_no_room_for_the_buffer_anywhere_opening_says_size_need_and_remedy", |s| {
        mount(Path::new("/dev/shm"), 8);
        mount(&s.dir.join("disk"), 8);
        let e = open(&s.dir.join("disk/small"), 32, WhenFull::Block).err().unwrap();
        assert_eq!(e.code(), Code::Full);
        for word in ["/dev/shm", "bytes free", "needs 3", "remount,size", "smaller buffer"] {
            assert!(e.text().contains(word), "{word}: {e}");
        }
        let run = open(&s.dir.join("disk/small"), 1, WhenFull::Block).unwrap();
        take(&run, 0, 10_000).unwrap();
        run.close().unwrap();
    });
}

#[test]
fn shared_memory_that_others_fill_up_slows_a_run_and_never_ends_in_a_signal() {
    sandbox_with_mounts("shared_memory_that_others_fill_up_slows_a_run_and_never_ends_in_a_signal", |s| {
        let shm = Path::new("/dev/shm");
        mount(shm, 40);
        let run = open(&s.dir.join("filled"), 24, WhenFull::Block).unwrap();
        let taken = || std::fs::read_dir(shm).unwrap().map(|f| f.unwrap().metadata().unwrap().blocks() * 512);
        // Pages are taken when a step comes, and not before.
        drop(take(&run, 0, N).unwrap());
        until("the first pages of the buffer", || taken().sum::<u64>() > 3 << 20);
        fill(shm, 0);
        run.put("kept", View::text("yes"), PutOptions::default()).unwrap();
        (1..6).for_each(|step| drop(take(&run, step, N).unwrap()));
        run.flush().unwrap();
        is_whole(&run, &[0, 1, 2, 3, 4, 5]);
        run.close().unwrap();
    });
}

#[test]
fn a_segment_gives_out_what_is_taken_while_the_system_has_no_more_pages() {
    sandbox_with_mounts("a_segment_gives_out_what_is_taken_while_the_system_has_no_more_pages", |_| {
        let shm = Path::new("/dev/shm");
        mount(shm, 64);
        let spec = SegmentSpec {
            name: forebay_arena::segments::name(&["short"]),
            kind: forebay_arena::segments::kind::CALL,
            up_bytes: 4096,
            down_bytes: 4096,
            block_bytes: 48 << 20,
            blocks: 64,
        };
        let segment = Segment::create(&spec).unwrap();
        let mut room = segment.allocator();
        let first = room.alloc(1 << 20).unwrap();
        assert_eq!(room.largest_free(), 47 << 20);
        let ballast = fill(shm, 0);
        assert!(room.alloc(47 << 20).is_none() && room.is_short());
        let there = room.largest_free();
        assert!(there == segment.taken() - (1 << 20) && there < 47 << 20, "{there}");
        if there > 0 {
            room.alloc(there).unwrap().write_from(0, &vec![1; there as usize]);
        }
        assert!(room.alloc(4096).is_none() && room.largest_free() == 0);
        room.free(first);
        assert_eq!(room.largest_free(), 1 << 20);
        std::fs::remove_file(ballast).unwrap();
        assert!(room.alloc(20 << 20).is_some() && !room.is_short());
        segment.unlink().unwrap();
    });
}
