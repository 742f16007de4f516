//! Death: a process that owns and writes a run is killed at random moments; what it had
//! acknowledged is all there afterwards, and nothing half.

use crate::common::asked::{Asked, Call};
use crate::common::{Rank, f64s, wait_for};
use forebay_arena::segments;
use forebay_store::disk::Foreign;
use forebay_store::{Options, Owner, Reader, catalog, compact, recover, repair, verify};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, TableInfo, word};
use forebay_types::record::{Cell, Place, Record};
use forebay_types::{Code, Selection};
use rustix::io::Errno;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const RUN: &str = "FOREBAY_TEST_RUN";
const LOG: &str = "FOREBAY_TEST_LOG";
/// Nothing of the log is moved into the catalog, however long the owner is idle.
const LOG_STAYS: &str = "stays";

/// The child: writes steps and rows as fast as it can and says what is acknowledged. As a test of
/// its own it does nothing.
#[test]
fn a_writer_that_waits_to_be_killed() {
    let Ok(run) = std::env::var(RUN) else { return };
    let log_stays = std::env::var(LOG).is_ok_and(|log| log == LOG_STAYS);
    let disk =
        Arc::new(Asked(move |call, _: &Path| match call == Call::Foreign(Foreign::Move) && log_stays {
            true => Err(Errno::BUSY.into()),
            false => Ok(()),
        }));
    let owner = Owner::open(Path::new(&run), Options { disk, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let columns = vec![Column { name: "t".into(), dtype: "i64".into(), ..Default::default() }];
    let t = rank.ask(&Ask::Table { name: "history".into(), columns, history: true }).unwrap();
    let t: TableInfo = serde_json::from_value(t).unwrap();
    let back = rank.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
    let start = back["step"].as_i64().map_or(0, |s| s + 1);
    let mut out = std::io::stdout();
    for step in start.. {
        rank.begin(step);
        let n = rank.array(step, "x", &f64s(60_000, step as u64), Place::Whole, 200_000)
            + rank.array(step, "E", &f64s(64, step as u64), Place::Whole, usize::MAX);
        rank.end(step, n);
        let mut w = Writer::new();
        Cell::Int(step).encode(&mut w);
        let cells = w.finish();
        rank.publish(&Record::Insert { table: t.id, step, rows: 1, cells: &cells });
        rank.put("count", &f64s(1, step as u64), None);
        // Buffered: the records are in the ring.
        writeln!(out, "\nacknowledged {step}").unwrap();
        out.flush().unwrap();
    }
}

fn child(run: &Path, log: &str) -> Child {
    child_that(run, log, "death::a_writer_that_waits_to_be_killed")
}

fn child_that(run: &Path, log: &str, writes: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", writes, "--nocapture", "--test-threads=1"])
        .env(RUN, run)
        .env(LOG, log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn killed_at_random_moments_the_run_keeps_every_acknowledged_step_and_nothing_half() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("killed.fb");
    let mut acknowledged = -1;
    for round in 0..8u64 {
        let mut c = child(&run, "");
        let mut lines = BufReader::new(c.stdout.take().unwrap()).lines();
        let seed = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos() as u64;
        let enough = round * 3 + seed % 7;
        let mut seen = 0;
        while seen <= enough {
            let line = lines.next().unwrap().unwrap();
            if let Some(n) = line.strip_prefix("acknowledged ") {
                acknowledged = acknowledged.max(n.parse::<i64>().unwrap());
                seen += 1;
            }
        }
        std::thread::sleep(Duration::from_micros(seed % 3000));
        c.kill().unwrap();
        c.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some(n) = line.strip_prefix("acknowledged ") {
                acknowledged = acknowledged.max(n.parse::<i64>().unwrap());
            }
        }
        let last = recover(&run).unwrap().unwrap();
        assert!(
            last >= acknowledged,
            "round {round}: step {acknowledged} was acknowledged, {last} is the last"
        );
        check(&run, acknowledged, last);
    }
    assert!(compact(&run).is_ok());
    check(&run, acknowledged, Reader::open(&run).unwrap().last_step().unwrap().unwrap().step);
}

fn check(run: &Path, acknowledged: i64, last: i64) {
    let reader = Reader::open(run).unwrap();
    let numbers: Vec<i64> = reader.steps().unwrap().iter().map(|s| s.step).collect();
    assert_eq!(numbers, (0..=last).collect::<Vec<_>>());
    for step in numbers {
        let x = reader.step_get(step, "x", &Selection::default()).unwrap();
        assert!(x.bytes == f64s(60_000, step as u64), "step {step}");
        assert_eq!(reader.step_get(step, "E", &Selection::default()).unwrap().bytes, f64s(64, step as u64));
    }
    let rows = reader.select("history", "", &[]).unwrap().rows;
    let numbers: Vec<_> = rows.iter().map(|r| r[0].clone()).collect();
    // A restart takes back the row of the step it goes on from, and the child begins behind it.
    assert!(numbers.windows(2).all(|w| w[0] != w[1]), "no row twice");
    assert!(numbers.last().is_some_and(|n| matches!(n, Cell::Int(n) if *n >= acknowledged)), "{numbers:?}");
    let report = verify(run).unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
    let left: Vec<_> =
        std::fs::read_dir(run.join("steps")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len() as i64, last + 1, "{left:?}");
}

#[test]
fn a_catalog_whose_log_was_removed_learns_from_memory_what_is_there_and_says_what_may_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("log.fb");
    let mut c = child(&run, LOG_STAYS);
    let mut lines = BufReader::new(c.stdout.take().unwrap()).lines();
    let acknowledged = "acknowledged 5";
    wait_for(acknowledged, || (lines.next().unwrap().unwrap() == acknowledged).then_some(()));
    wait_for("a step in the log", || Reader::open(&run).unwrap().last_step().unwrap());
    c.kill().unwrap();
    c.wait().unwrap();
    std::fs::remove_file(run.join("catalog.sqlite-wal")).unwrap();
    let e = recover(&run).unwrap_err();
    assert!(e.text().contains("catalog.sqlite-wal"), "{e}");
    let reader = Reader::open(&run).unwrap();
    for step in 0..=5 {
        let x = reader.step_get(step, "x", &Selection::default()).unwrap();
        assert!(x.bytes == f64s(60_000, step as u64), "step {step}");
    }
    drop(reader);
    // Nothing of that session stands in the way of the next one, and it is told once.
    assert!(recover(&run).is_ok());
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
}

/// Another child: it puts a data set again and again within a snapshot, so that its ring keeps what is stored already.
#[test]
fn a_writer_of_data_sets_that_waits_to_be_killed() {
    let Ok(run) = std::env::var(RUN) else { return };
    let run = Path::new(&run);
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let columns = vec![Column { name: "t".into(), dtype: "i64".into(), ..Default::default() }];
    rank.ask(&Ask::Table { name: "t".into(), columns, history: false }).unwrap();
    let main = run.with_file_name("main.sqlite");
    wait_for("the table in the catalog's own file", || {
        std::fs::copy(run.join("catalog.sqlite"), &main).unwrap();
        let conn = rusqlite::Connection::open(&main).unwrap();
        conn.query_row("SELECT 1 FROM fb_tables", (), |_| Ok(())).ok()
    });
    rank.begin(0);
    for n in 0..8 {
        rank.put("d", &f64s(20_000, n), None);
        rank.settle();
    }
    println!("\nacknowledged");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_data_set_that_lies_whole_in_its_file_outlives_the_loss_of_the_log_of_the_catalog() {
    for cut in [None, Some(2), Some(3), Some(5)] {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("sets.fb");
        let mut c = child_that(&run, "", "death::a_writer_of_data_sets_that_waits_to_be_killed");
        let mut lines = BufReader::new(c.stdout.take().unwrap()).lines();
        wait_for("the puts", || (lines.next().unwrap().unwrap() == "acknowledged").then_some(()));
        c.kill().unwrap();
        c.wait().unwrap();
        let log = run.join("catalog.sqlite-wal");
        match cut {
            None => std::fs::remove_file(&log).unwrap(),
            Some(part) => {
                let log = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
                log.set_len(log.metadata().unwrap().len() / part).unwrap();
            }
        }
        let done = recover(&run);
        let found = Reader::open(&run).unwrap().get("d", 0, &Selection::default());
        assert!(found.is_ok_and(|d| d.bytes == f64s(20_000, 7)), "{cut:?}: {done:?}");
        assert!(done.is_ok(), "{cut:?}: all of it is there: {done:?}");
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new(), "{cut:?}");
    }
}

#[test]
fn a_damaged_byte_is_found_and_a_lost_catalog_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    for step in 0..3 {
        rank.step(step, &f64s(50_000, step as u64));
    }
    rank.put("grid", &f64s(20_000, 1), None);
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    assert!(verify(&run).unwrap().faults.is_empty());
    std::fs::write(run.join("catalog.sqlite"), vec![3u8; 9000]).unwrap();
    assert_eq!(Owner::open(&run, Options::default()).err().unwrap().code(), Code::Corrupt);
    let done = repair(&run).unwrap();
    assert_eq!((done.steps, done.data_sets, done.unusable.len()), (3, 1, 0));
    assert!(done.old_catalog.unwrap().exists());
    let reader = Reader::open(&run).unwrap();
    assert_eq!(reader.step_get(2, "x", &Selection::default()).unwrap().bytes, f64s(50_000, 2));
    assert_eq!(reader.get("grid", 0, &Selection::default()).unwrap().bytes, f64s(20_000, 1));
    let entry = reader.step_info(1, "x").unwrap();
    let path = run.join("steps/0000000001.h5");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[entry.offset as usize + 7777] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let faults = verify(&run).unwrap().faults;
    assert!(
        faults.len() == 1 && faults[0].contains("0000000001.h5") && faults[0].contains("checksum"),
        "{faults:?}"
    );
}

/// Needs root, for a file system of a known size.
#[test]
fn on_a_full_disk_the_owner_waits_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mount =
        |args: &[&str]| Command::new("mount").args(args).arg(dir.path()).status().is_ok_and(|s| s.success());
    if !mount(&["-t", "tmpfs", "-o", "size=24m", "forebay-test"]) {
        eprintln!(
            "SKIPPED: a small tmpfs cannot be mounted here (not root), so nothing was tried on a full disk"
        );
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let run = dir.path().join("full.fb");
        let ballast = dir.path().join("ballast");
        std::fs::write(&ballast, vec![1u8; 14 << 20]).unwrap();
        let owner = Owner::open(&run, Options::default()).unwrap();
        let mut rank = Rank::open(&owner, 0, 1, 32 << 20);
        for step in 0..4 {
            rank.step(step, &f64s(400_000, step as u64));
        }
        wait_for("the warning", || {
            owner.stats().unwrap()["waiting_for_disk"].as_bool().unwrap().then_some(())
        });
        std::fs::remove_file(&ballast).unwrap();
        rank.ask(&Ask::WaitStep { step: 3 }).unwrap();
        owner.close().unwrap();
        let reader = Reader::open(&run).unwrap();
        for step in 0..4 {
            assert!(
                reader.step_get(step, "x", &Selection::default()).unwrap().bytes
                    == f64s(400_000, step as u64)
            );
        }
        assert!(verify(&run).unwrap().faults.is_empty());
    });
    let _ = Command::new("umount").arg("-l").arg(dir.path()).status();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_segment_whose_session_is_over_goes_at_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("left.fb");
    let owner = Owner::open(&run, Options::default()).unwrap();
    drop(Rank::open(&owner, 0, 1, 8 << 20));
    let id = owner.run_id().to_owned();
    owner.close().unwrap();
    // As if the owner had died between the end of the session in the catalog and that of its names.
    let conn = catalog::open_read_only(&run.join("catalog.sqlite")).unwrap();
    let own = catalog::segment_of(&conn, 1).unwrap().unwrap();
    let over = own.replace(&format!("-run-{id}-"), &format!("-over-{id}-"));
    let left = [own, format!("{over}-1"), format!("{over}-2")].map(|name| segments::path(&name));
    for path in &left {
        std::fs::write(path, b"left").unwrap();
    }
    recover(&run).unwrap();
    assert!(left.iter().all(|path| !path.exists()), "they hold nothing that is needed");
}

/// The child: attaches to a run and leaves it at once, as a rank does whose owner died before it answered. As a test of
/// its own it does nothing.
#[test]
fn a_rank_that_leaves_what_it_made_and_lives() {
    let Ok(run) = std::env::var(RUN) else { return };
    let owner = Owner::open(Path::new(&run), Options::default()).unwrap();
    let rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.segment.word(word::LEFT).store(1, Ordering::SeqCst);
    owner.abandon().unwrap();
    drop(owner);
    println!("\nleft {}", rank.segment.path().unwrap().display());
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_segment_that_a_living_rank_has_left_unused_goes_at_the_next_opening_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("left.fb");
    let mut child = child_that(&run, "", "death::a_rank_that_leaves_what_it_made_and_lives");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let left = lines.map(Result::unwrap).find_map(|l| l.strip_prefix("left ").map(PathBuf::from)).unwrap();
    assert!(left.exists());
    let owner = Owner::open(&run, Options::default()).unwrap();
    assert!(!left.exists());
    owner.close().unwrap();
    let told = Reader::open(&run).unwrap().sql("select text from fb_messages", &[]).unwrap().rows;
    assert_eq!(told, Vec::<Vec<Cell>>::new());
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
}
