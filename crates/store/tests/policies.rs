//! What happens when the buffers are full, and when nobody wants to wait for the disk any more.

use crate::common::asked::{Asked, Call};
use crate::common::{Rank, f64s, shape, wait_for};
use forebay_arena::{Segment, segments};
use forebay_store::disk::{Disk, Foreign};
use forebay_store::{Options, Owner, Reader, recover, repair, verify};
use forebay_types::control::{Ask, Mode};
use forebay_types::record::{HeldBlock, Payload, Place, Record, StepBlock};
use forebay_types::{ArrayMeta, Code, DType, Selection};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A disk that is full for arrays until it is told otherwise, and for the catalog when it is told so.
#[derive(Default)]
struct FullDisk {
    room: AtomicBool,
    no_commits: AtomicBool,
}

impl FullDisk {
    /// The disk that does so.
    fn disk(self: &Arc<FullDisk>) -> Arc<dyn Disk> {
        let me = self.clone();
        Arc::new(Asked(move |call, _: &Path| {
            let refused = match call {
                Call::Reserve | Call::Free => !me.room.load(Ordering::SeqCst),
                Call::Foreign(Foreign::Commit | Foreign::LazyCommit) => me.no_commits.load(Ordering::SeqCst),
                _ => false,
            };
            if refused { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }))
    }
}

fn scratch() -> (tempfile::TempDir, PathBuf, Arc<FullDisk>) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("full.fb");
    (dir, run, Arc::default())
}

fn waits(owner: &Owner) {
    let waiting = || owner.stats().unwrap()["waiting_for_disk"].as_bool().unwrap().then_some(());
    wait_for("the drain to wait for room", waiting);
}

fn steps(run: &Path) -> Vec<i64> {
    assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
    let reader = Reader::open(run).unwrap();
    let found = reader.steps().unwrap();
    for s in &found {
        let x = reader.step_get(s.step, "x", &Selection::default()).unwrap();
        assert!(x.bytes == f64s(20_000, s.step as u64), "step {}", s.step);
    }
    found.iter().map(|s| s.step).collect()
}

#[test]
fn drop_oldest_drops_whole_steps_that_are_not_being_written_and_tells_so() {
    let (_keep, run, disk) = scratch();
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.step(0, &f64s(20_000, 0));
    waits(&owner);
    for step in 1..6 {
        rank.step(step, &f64s(20_000, step as u64));
    }
    assert_eq!(rank.ask(&Ask::DropOldest).unwrap(), 1);
    assert_eq!(rank.ask(&Ask::DropOldest).unwrap(), 2);
    let e = rank.ask(&Ask::WaitStep { step: 1 }).unwrap_err();
    assert!(e.code() == Code::Full && e.text().contains("drop_oldest"), "{e}");
    wait_for("the blocks of the dropped steps", || {
        rank.allocator.reap();
        (rank.allocator.live() == 4).then_some(())
    });
    disk.room.store(true, Ordering::SeqCst);
    rank.ask(&Ask::Flush).unwrap();
    assert_eq!(rank.ask(&Ask::DropOldest).unwrap(), serde_json::Value::Null, "nothing waits any more");
    assert_eq!(owner.stats().unwrap()["dropped_steps"], 2);
    owner.close().unwrap();
    assert_eq!(steps(&run), [0, 3, 4, 5]);
}

#[test]
fn a_step_that_is_on_disk_and_waits_for_the_catalog_only_is_not_dropped() {
    let (_keep, run, disk) = scratch();
    disk.room.store(true, Ordering::SeqCst);
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.settle();
    disk.no_commits.store(true, Ordering::SeqCst);
    rank.step(0, &f64s(20_000, 0));
    wait_for("the file", || run.join("steps/0000000000.h5").exists().then_some(()));
    waits(&owner);
    rank.step(1, &f64s(20_000, 1));
    // Answered though nothing can be committed.
    assert_eq!(rank.ask(&Ask::Stats).unwrap()["waiting_for_disk"], true);
    let dropped = rank.ask(&Ask::DropOldest).unwrap();
    assert!(dropped.is_null() || dropped == 1, "{dropped}");
    assert!(rank.ask(&Ask::DropOldest).unwrap().is_null());
    disk.no_commits.store(false, Ordering::SeqCst);
    rank.ask(&Ask::Flush).unwrap();
    owner.close().unwrap();
    assert_eq!(steps(&run), if dropped.is_null() { vec![0, 1] } else { vec![0] });
}

#[test]
fn a_step_taken_again_while_the_first_one_waits_is_refused_and_harms_nothing() {
    let (_keep, run, disk) = scratch();
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.step(0, &f64s(20_000, 0));
    rank.step(0, &f64s(10_000, 7));
    rank.begin(0);
    rank.publish(&Record::StepDiscard { step: 0 });
    disk.room.store(true, Ordering::SeqCst);
    rank.ask(&Ask::WaitStep { step: 0 }).unwrap();
    assert_eq!(rank.late.iter().map(|e| e.code()).collect::<Vec<_>>(), [Code::Conflict]);
    drop(rank);
    owner.close().unwrap();
    assert_eq!(steps(&run), [0]);
}

#[test]
fn room_whose_address_was_never_learned_is_given_again() {
    let (_keep, run, disk) = scratch();
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    let ask = |known| Ask::Overflow { bytes: 1 << 20, spill: false, known };
    let first = rank.ask(&ask(0)).unwrap();
    assert_eq!(rank.ask(&ask(0)).unwrap(), first);
    assert_ne!(rank.ask(&ask(1)).unwrap(), first);
    drop(rank);
    owner.close().unwrap();
}

#[test]
fn a_closing_on_a_disk_that_stays_full_fails_and_may_be_tried_again() {
    let (_keep, run, disk) = scratch();
    let closing = Duration::from_millis(50);
    let owner = Owner::open(&run, Options { disk: disk.disk(), closing, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.step(0, &f64s(20_000, 0));
    for _ in 0..2 {
        let e = rank.ask(&Ask::Close { finished: true }).unwrap_err();
        assert!(e.code() == Code::Full && e.text().contains("cannot be closed"), "{e}");
    }
    rank.step(1, &f64s(20_000, 1));
    disk.room.store(true, Ordering::SeqCst);
    rank.ask(&Ask::WaitStep { step: 1 }).unwrap();
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    assert_eq!(steps(&run), [0, 1]);
}

#[test]
fn an_owner_that_is_to_end_on_a_disk_that_stays_full_leaves_the_rest_for_recovery() {
    let (_keep, run, disk) = scratch();
    let closing = Duration::from_millis(50);
    let owner = Owner::open(&run, Options { disk: disk.disk(), closing, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    (0..3).for_each(|step| rank.step(step, &f64s(20_000, step as u64)));
    waits(&owner);
    let e = owner.close().unwrap_err();
    assert!(e.code() == Code::Full && e.text().contains("forebay recover"), "{e}");
    assert_eq!(recover(&run).unwrap(), Some(2));
    assert_eq!(steps(&run), [0, 1, 2]);
    assert!(rank.is_unlinked());
}

/// Puts a step into an overflow segment, as a client does.
fn step_over(rank: &mut Rank, over: &Segment, step: i64, bytes: &[u8], place: Place) {
    let mut room = over.allocator();
    let block = room.alloc(bytes.len() as u64).unwrap();
    block.write_from(0, bytes);
    let held = HeldBlock {
        segment: 1,
        index: block.index(),
        generation: block.generation(),
        bytes: bytes.len() as u64,
    };
    let meta = ArrayMeta::new(DType::F64, shape(&[bytes.len() as u64 / 8]));
    let payload = Payload::Block(held);
    rank.begin(step);
    rank.publish(&Record::StepBlock(StepBlock {
        step,
        name: "x",
        units: "m",
        meta,
        place,
        part: 0,
        payload,
    }));
    rank.end(step, 1);
}

#[test]
fn what_is_spilt_into_the_runs_directory_is_drained_in_order_and_found_after_a_death() {
    let (_keep, run, disk) = scratch();
    let options = Options { disk: disk.disk(), overflow: 0, spill: 64 << 20, ..Options::default() };
    let owner = Owner::open(&run, options).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 2 << 20);
    let ask = |spill, known| Ask::Overflow { bytes: 1 << 20, spill, known };
    assert!(rank.ask(&ask(false, 0)).unwrap().is_null());
    let path = PathBuf::from(rank.ask(&ask(true, 0)).unwrap().as_str().unwrap());
    assert_eq!(path.parent(), Some(run.as_path()));
    assert!(rank.ask(&ask(true, 1)).unwrap().is_null(), "the limit is used up");
    assert_eq!(owner.stats().unwrap()["spilt_bytes"], 64 << 20);
    rank.step(0, &f64s(20_000, 0));
    step_over(&mut rank, &Segment::open(&path).unwrap(), 1, &f64s(20_000, 1), Place::Whole);
    rank.step(2, &f64s(20_000, 2));
    waits(&owner);
    owner.abandon().unwrap();
    assert_eq!(owner.close().unwrap_err().code(), Code::Cancelled);
    assert!(steps(&run).is_empty() && path.exists());
    assert_eq!(recover(&run).unwrap(), Some(2));
    assert_eq!(steps(&run), [0, 1, 2]);
    assert!(!path.exists() && rank.is_unlinked());
}

#[test]
fn overflow_of_several_ranks_is_found_after_a_death() {
    let (_keep, run, disk) = scratch();
    let options = Options { disk: disk.disk(), ..Options::default() };
    let owner = Owner::open(&run, options).unwrap();
    let mut ranks = [0, 1].map(|r| Rank::open(&owner, r, 2, 1 << 20));
    let mut paths = Vec::new();
    for (i, r) in ranks.iter_mut().enumerate() {
        let path = r.ask(&Ask::Overflow { bytes: 1 << 20, spill: false, known: 0 }).unwrap();
        let over = Segment::open(Path::new(path.as_str().unwrap())).unwrap();
        assert_eq!(over.kind(), forebay_arena::segments::kind::OVERFLOW);
        let place = Place::At { offset: shape(&[i as u64 * 10_000]), global: shape(&[20_000]) };
        step_over(r, &over, 4, &f64s(10_000, i as u64 * 10_000), place);
        paths.push(PathBuf::from(path.as_str().unwrap()));
    }
    waits(&owner);
    owner.abandon().unwrap();
    assert_eq!(owner.close().unwrap_err().code(), Code::Cancelled);
    assert_eq!(recover(&run).unwrap(), Some(4));
    let x = Reader::open(&run).unwrap().step_get(4, "x", &Selection::default()).unwrap();
    let whole = [f64s(10_000, 0), f64s(10_000, 10_000)].concat();
    assert!(x.bytes == whole);
    assert!(paths.iter().all(|p| !p.exists()));
}

/// A run whose writer was given up with steps in its segment, and whose catalog is damaged then.
fn damaged(run: &Path, disk: &Arc<FullDisk>, ranks: u32) -> Vec<Rank> {
    let options = Options { disk: disk.disk(), closing: Duration::ZERO, ..Options::default() };
    let owner = Owner::open(run, options).unwrap();
    disk.room.store(true, Ordering::SeqCst);
    let mut all: Vec<Rank> = (0..ranks).map(|r| Rank::open(&owner, r, ranks, 4 << 20)).collect();
    all.iter_mut().for_each(|rank| step_of_all(rank, 0, ranks));
    all[0].ask(&Ask::WaitStep { step: 0 }).unwrap();
    disk.room.store(false, Ordering::SeqCst);
    for step in 1..4 {
        all.iter_mut().for_each(|rank| step_of_all(rank, step, ranks));
    }
    waits(&owner);
    assert_eq!(owner.close().unwrap_err().code(), Code::Full);
    std::fs::write(run.join("catalog.sqlite"), vec![7; 50_000]).unwrap();
    all
}

/// A rank's share of [`steps`].
fn step_of_all(rank: &mut Rank, step: i64, ranks: u32) {
    let all = f64s(20_000, step as u64);
    let share = all.len() / ranks as usize;
    rank.begin(step);
    let n = rank.array(step, "x", &all[share * rank.rank as usize..][..share], Place::Append, usize::MAX);
    rank.end(step, n);
}

#[test]
fn what_lay_in_shared_memory_is_written_after_the_catalog_was_made_anew() {
    for ranks in [1, 2] {
        let (_keep, run, disk) = scratch();
        let left = damaged(&run, &disk, ranks);
        assert_eq!(recover(&run).unwrap_err().code(), Code::Corrupt);
        let done = repair(&run).unwrap();
        assert_eq!((done.steps, done.left), (1, ranks.into()));
        assert_eq!(recover(&run).unwrap(), Some(3));
        assert_eq!(steps(&run), [0, 1, 2, 3]);
        assert!(left.iter().all(Rank::is_unlinked));
    }
}

#[test]
fn a_copy_that_is_opened_leaves_the_segments_of_the_run_alone() {
    let (keep, run, disk) = scratch();
    disk.room.store(true, Ordering::SeqCst);
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.step(0, &f64s(20_000, 0));
    assert!(rank.ask(&Ask::Close { finished: false }).is_ok());
    owner.close().unwrap();
    let copy = keep.path().join("copy.fb");
    assert!(std::process::Command::new("cp").arg("-r").args([&run, &copy]).status().unwrap().success());
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let rank = Rank::open(&owner, 0, 1, 4 << 20);
    let over = segments::path(&segments::name(&["over", owner.run_id(), "2-1"]));
    std::fs::write(&over, b"of the run's second session").unwrap();
    recover(&copy).unwrap();
    assert_eq!(steps(&copy), [0]);
    Owner::open(&copy, Options { mode: Mode::Write, ..Options::default() }).unwrap().close().unwrap();
    assert!(!rank.is_unlinked() && over.exists());
    std::fs::remove_file(&over).unwrap();
    owner.close().unwrap();
    assert_eq!((steps(&run), steps(&copy)), (vec![0], vec![]));
}

#[test]
fn a_large_data_set_whose_file_cannot_be_made_is_kept_until_it_can() {
    let (_keep, run, disk) = scratch();
    disk.room.store(true, Ordering::SeqCst);
    let owner = Owner::open(&run, Options { disk: disk.disk(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    // Where its file would begin lies a folder.
    let file = forebay_store::layout::data_file("big", 0, rank.session, 1);
    let in_the_way = run.join(format!("{file}.tmp"));
    std::fs::create_dir(&in_the_way).unwrap();
    let seq = rank.put("big", &f64s(20_000, 1), Some(0));
    assert_eq!(seq, 1);
    waits(&owner);
    assert_eq!(rank.allocator.live(), 1);
    std::fs::remove_dir(in_the_way).unwrap();
    assert_eq!(rank.ask(&Ask::Version { seq }).unwrap(), 1);
    wait_for("the block", || {
        rank.allocator.reap();
        (rank.allocator.live() == 0).then_some(())
    });
    owner.close().unwrap();
    let big = Reader::open(&run).unwrap().get("big", 0, &Selection::default()).unwrap();
    assert!(big.bytes == f64s(20_000, 1));
}
