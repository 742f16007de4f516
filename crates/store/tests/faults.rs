//! Every place at which the store asks something of a file system goes wrong, one after the
//! other: an error, no room, half a write, the death of the process, a loss of power. What was
//! acknowledged is there afterwards, nothing half is listed, and errors name what they cost.

use crate::common::faults::{Fault, FaultyDisk, KINDS, plant, scratch};
use crate::common::recover_without_memory;
use crate::common::script::{Act, Driver, Model, check, read};
use forebay_store::{Options, Owner, recover};
use forebay_types::Error;
use forebay_types::control::Mode;
use rustix::io::Errno;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn script() -> Vec<Act> {
    use Act::*;
    vec![
        Put(1, 100, 1),
        Put(2, 9_000, 2),
        Row(1),
        Step(10, 6_000, 3),
        Flush,
        Put(2, 12_000, 4),
        Copy(2, 3),
        Row(2),
        Step(20, 300, 5),
        Step(21, 2_000, 6),
        Discard(25),
        Put(2, 50, 7),
        Delete(3),
        Rename(1, 4),
        Row(3),
        Step(30, 6_000, 8),
        Flush,
        Put(5, 9_000, 9),
        Row(4),
    ]
}

fn options(disk: &Arc<FaultyDisk>, mode: Mode) -> Options {
    Options { disk: disk.clone(), mode, ..Options::default() }
}

/// Runs the script with a fault; gives what was told, and the places that were passed.
fn hurt(run: &Path, fault: Fault, at: usize) -> (Vec<String>, Vec<String>) {
    let disk = FaultyDisk::new(run.parent().unwrap(), fault, at);
    let mut told = Vec::new();
    match Owner::open(run, options(&disk, Mode::Append)) {
        Err(e) => told.push(format!("open: {e}")),
        Ok(owner) => {
            match Driver::open(&owner) {
                Err(e) => told.push(format!("session: {e}")),
                Ok(mut driver) => {
                    let errors = driver.run(&script(), &|_, _| {});
                    told.extend(errors.iter().chain(&driver.close()).map(|e| e.to_string()));
                }
            }
            told.extend(owner.close().err().map(|e| format!("close: {e}")));
        }
    }
    (told, disk.places())
}

fn places() -> Vec<String> {
    let dir = scratch();
    let (told, places) = hurt(&dir.path().join("r.fb"), Fault::None, 0);
    assert_eq!(told, Vec::<String>::new());
    places
}

/// So many at a time.
const THREADS: usize = 5;

/// Does something for all numbers, on a few threads: most of the time one waits for a disk that fails.
fn for_all(n: usize, work: impl Fn(usize) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let one = || {
        while let Some(k) = Some(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).filter(|k| *k < n) {
            work(k);
        }
    };
    std::thread::scope(|s| (0..THREADS).for_each(|_| drop(s.spawn(one))));
}

/// Errors at each place in turn, of all kinds: each place gets one that the seed deals, or all of them
/// where there is time.
fn for_errors(n: usize, work: impl Fn(usize, Errno, &str) + Sync) {
    let seed = std::env::var("FOREBAY_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().subsec_micros() as usize);
    let all = std::env::var_os("FOREBAY_TEST_ALL_ERRORS").is_some();
    let each = if all { KINDS.len() } else { 1 };
    for_all(n * each, |i| {
        let (place, kind) = (i / each, KINDS[(i / each + i % each + seed) % KINDS.len()]);
        work(place, kind, &format!("FOREBAY_TEST_SEED={seed}, {kind:?} at place {place}"));
    });
}

/// A disk that answers with errors from a place on for so many calls, and what is there afterwards.
fn survives(times: usize) {
    let n = places().len();
    let whole = Model::after(&script());
    for_errors(n, |k, kind, what| {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let (told, places) = hurt(&run, Fault::Error(kind, times), k);
        let what = format!("{what} ({}), told {told:?}", places.get(k).cloned().unwrap_or_default());
        // A run cannot be opened on such a disk; what it can be asked for once more is the opening.
        match told.iter().any(|t| t.starts_with("open: ") || t.starts_with("session: ")) {
            true => drop(hurt(&run, Fault::None, 0)),
            false => assert_eq!(told, Vec::<String>::new(), "{what}"),
        }
        // What could not be removed is swept at the next opening.
        recover(&run).unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = std::panic::catch_unwind(|| read(&run)).unwrap_or_else(|_| panic!("{what}"));
        assert_eq!(found, whole, "{what}");
    });
    println!("{n} places, {times} errors from each on");
}

#[test]
fn one_error_of_any_kind_at_any_place_loses_nothing_and_is_told_to_nobody() {
    survives(1);
}

#[test]
fn errors_for_a_while_from_any_place_on_lose_nothing_and_are_told_to_nobody() {
    survives(40);
}

/// How many acts were acknowledged, how many begun, what was told, and how long it took to end.
fn hurt_for_good(run: &Path, disk: &Arc<FaultyDisk>) -> (usize, usize, Vec<String>, Duration) {
    let short = Duration::from_millis(30);
    let options = Options { hiccup: short, files: short, closing: short, ..options(disk, Mode::Append) };
    let (mut acknowledged, mut begun, mut told) = (0, 0, Vec::new());
    let start = Instant::now();
    match Owner::open(run, options) {
        Err(e) => told.push(e.to_string()),
        Ok(owner) => {
            match Driver::open(&owner) {
                Err(e) => told.push(e.to_string()),
                Ok(mut driver) => {
                    for (i, act) in script().iter().enumerate() {
                        begun = i + 1;
                        let errors = driver.run(std::slice::from_ref(act), &|_, _| {});
                        told.extend(errors.iter().map(Error::to_string));
                        if !errors.is_empty() || driver.is_closed() {
                            break;
                        }
                        acknowledged = begun;
                    }
                    told.extend(driver.close().iter().map(Error::to_string));
                }
            }
            told.extend(owner.close().err().map(|e| e.to_string()));
        }
    }
    (acknowledged, begun, told, start.elapsed())
}

#[test]
fn a_disk_that_fails_for_good_from_any_place_on_is_told_in_time_and_what_was_acknowledged_is_recovered() {
    let all = std::env::var_os("FOREBAY_TEST_ALL_ERRORS").is_some();
    let n = places().len();
    for_errors(if all { n } else { n / 3 }, |i, kind, what| {
        let k = if all { i } else { 3 * i + kind.raw_os_error() as usize % 3 };
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let disk = FaultyDisk::new(dir.path(), Fault::Error(kind, usize::MAX), k);
        // Whoever waits for room does so until there is some.
        if kind == Errno::NOSPC {
            return;
        }
        let (acknowledged, begun, told, took) = hurt_for_good(&run, &disk);
        let place = disk.places().get(k).cloned().unwrap_or_default();
        let what = format!("{what} ({place}), told {told:?}");
        assert!(took < Duration::from_secs(20), "{what}: it took {took:?}");
        // Only what may be tried again at the next opening can fail and be told to nobody.
        assert!(!told.is_empty() || acknowledged == script().len(), "{what}");
        if acknowledged == 0 {
            // Nothing was promised; what lies in shared memory goes with the next opening all the same.
            let _ = recover(&run);
            return;
        }
        recover(&run).unwrap_or_else(|e| panic!("{what}: {e}"));
        check(&run, &script(), acknowledged, begun, &what);
    });
}

#[test]
fn half_a_write_at_any_place_is_completed() {
    let writes: Vec<usize> =
        places().iter().enumerate().filter(|(_, p)| p.starts_with("write")).map(|(k, _)| k).collect();
    let whole = Model::after(&script());
    for_all(writes.len(), |i| {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        assert_eq!(hurt(&run, Fault::Short, writes[i]).0, Vec::<String>::new());
        assert_eq!(read(&run), whole, "place {}", writes[i]);
    });
    println!("{} writes, half of each", writes.len());
}

#[test]
fn power_lost_at_any_place_leaves_what_was_acknowledged_as_durable() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let disk = FaultyDisk::new(dir.path(), Fault::Power, 0);
    let owner = Owner::open(&run, options(&disk, Mode::Append)).unwrap();
    let mut driver = Driver::open(&owner).unwrap();
    let acts = script();
    assert!(driver.run(&acts, &|durable, begun| disk.acknowledge(durable, begun)).is_empty());
    assert!(driver.close().is_empty());
    disk.acknowledge(acts.len(), acts.len());
    owner.close().unwrap();
    let left = disk.left();
    for_all(left.len(), |i| {
        let l = &left[i];
        let what = format!("place {}, {} ", l.place, l.what);
        let dir = scratch();
        let run = dir.path().join("r.fb");
        plant(&l.tree, dir.path());
        if !run.join("catalog.sqlite").exists() && l.acknowledged == 0 {
            return; // there is no run yet
        }
        match recover_without_memory(&run) {
            Ok(_) => check(&run, &acts, l.acknowledged, l.begun, &what),
            // A catalog that was being made when nothing was promised yet.
            Err(e) if l.begun == 0 => {
                Owner::open(&run, Options { mode: Mode::Write, ..Options::default() })
                    .unwrap_or_else(|again| panic!("{what}: {e}, then {again}"));
            }
            Err(e) => panic!("{what}: {e}"),
        }
    });
    println!("{} places, {} different remains", disk.places().len(), left.len());
}

const RUN: &str = "FOREBAY_TEST_FAULT_RUN";
const PLACE: &str = "FOREBAY_TEST_FAULT_PLACE";

/// The child that is killed at a place. As a test of its own it does nothing.
#[test]
fn a_writer_that_is_killed_at_a_place() {
    let (Ok(run), Ok(place)) = (std::env::var(RUN), std::env::var(PLACE)) else { return };
    let run = PathBuf::from(run);
    let disk = FaultyDisk::new(run.parent().unwrap(), Fault::Kill, place.parse().unwrap());
    let owner = Owner::open(&run, options(&disk, Mode::Append)).unwrap();
    let mut driver = Driver::open(&owner).unwrap();
    let mut log = std::fs::File::create(run.parent().unwrap().join("log")).unwrap();
    let acts = script();
    for (i, act) in acts.iter().enumerate() {
        log.write_all(format!("begun {}\n", i + 1).as_bytes()).unwrap();
        driver.run(std::slice::from_ref(act), &|_, _| {});
        log.write_all(format!("buffered {}\n", i + 1).as_bytes()).unwrap();
    }
    driver.close();
    owner.close().unwrap();
}

#[test]
fn killed_at_any_place_the_run_keeps_everything_that_was_buffered() {
    let places = places();
    let acts = script();
    for_all(places.len(), |k| {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let what = format!("place {k} ({})", places[k]);
        let _ = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::a_writer_that_is_killed_at_a_place", "--test-threads=1"])
            .env(RUN, &run)
            .env(PLACE, k.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        let last = |word: &str| -> usize {
            let found = log.lines().filter_map(|l| l.strip_prefix(word)).next_back();
            found.map_or(0, |n| n.trim().parse().unwrap())
        };
        let (buffered, begun) = (last("buffered"), last("begun"));
        if begun > 0 {
            recover(&run).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(&run, &acts, buffered, begun, &what);
        } else if let Err(e) = recover(&run) {
            let anew = Owner::open(&run, Options { mode: Mode::Write, ..Options::default() });
            anew.unwrap_or_else(|again| panic!("{what}: {e}, then {again}"));
        }
    });
    println!("{} places, killed at each", places.len());
}
