//! Copies of a run, made while a program writes it or after it was killed: what is in memory is left to the run, and
//! the copy says what it lacks.

use crate::common::{Rank, copy, f64s, wait_for};
use crate::elsewhere::{N, catalog_of, ended, left, messages, recovered, segment, x};
use forebay_store::catalog::Ended;
use forebay_store::{Options, Owner, Reader, recover, repair};
use forebay_types::control::{Ask, Elsewhere, Mode};
use forebay_types::{Code, Selection};
use std::time::Duration;

#[test]
fn a_copy_of_a_run_leaves_what_is_in_memory_to_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let rank = left(&run);
    copy(&run, &other);
    let e = recovered(&other, Elsewhere::Refuse).0.unwrap_err();
    assert_eq!(e.code(), Code::Conflict);
    assert!(e.text().contains(&format!("is a copy of {},", run.display())), "{e}");
    assert!(e.text().contains(&format!("`forebay recover {}`", run.display())), "{e}");
    let (done, said) = recovered(&other, Elsewhere::Abandon);
    assert_eq!(done.unwrap(), Some(0));
    assert!(said.contains("was in memory then is not in the copy") && !said.contains("freed"), "{said}");
    assert_eq!(ended(&other), Some(Ended::Abandoned));
    assert_eq!(x(&other).unwrap_err().code(), Code::NotFound);
    let anew = Options { mode: Mode::Write, ..Options::default() };
    for options in [Options::default(), anew] {
        Owner::open(&other, options).unwrap().close().unwrap();
    }
    assert!(segment(&rank).exists());
    assert_eq!(recovered(&run, Elsewhere::Refuse).0.unwrap(), Some(0));
    assert_eq!(x(&run).unwrap(), f64s(5, 7));
}

#[test]
fn a_copy_that_is_made_anew_or_repaired_leaves_what_is_in_memory_to_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (run, anew, mended) =
        (dir.path().join("r.fb"), dir.path().join("anew.fb"), dir.path().join("mended.fb"));
    let rank = left(&run);
    rank.segment.set_label(&run.to_string_lossy());
    copy(&run, &anew);
    copy(&run, &mended);
    let write = Options { mode: Mode::Write, ..Options::default() };
    Owner::open(&anew, write).unwrap().close().unwrap();
    std::fs::remove_file(catalog_of(&mended)).unwrap();
    assert_eq!(repair(&mended).unwrap().left, 0);
    assert_eq!(recover(&mended).unwrap(), Some(0));
    assert!(segment(&rank).exists());
    recover(&run).unwrap();
    assert_eq!(x(&run).unwrap(), f64s(5, 7));
}

#[test]
fn a_copy_in_the_place_of_a_run_that_was_put_aside_leaves_it_what_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (run, aside) = (dir.path().join("r.fb"), dir.path().join("r.old"));
    let _rank = left(&run);
    std::fs::rename(&run, &aside).unwrap();
    copy(&aside, &run);
    let e = recover(&run).unwrap_err();
    assert!(e.code() == Code::Conflict && e.text().contains(&format!("copy of {}", aside.display())), "{e}");
    recover(&aside).unwrap();
    assert_eq!(x(&aside).unwrap(), f64s(5, 7));
}

#[test]
fn a_run_that_was_moved_finds_what_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (run, there) = (dir.path().join("r.fb"), dir.path().join("there.fb"));
    let _rank = left(&run);
    std::fs::rename(&run, &there).unwrap();
    recover(&there).unwrap();
    assert_eq!(x(&there).unwrap(), f64s(5, 7));
    // To another file system: a copy of which there is no original.
    let run = dir.path().join("s.fb");
    let _rank = left(&run);
    let remote = dir.path().join("far.fb");
    copy(&run, &remote);
    std::fs::remove_dir_all(&run).unwrap();
    recover(&remote).unwrap();
    assert_eq!(x(&remote).unwrap(), f64s(5, 7));
}

#[test]
fn a_copy_of_a_run_that_is_written_says_so_and_one_that_is_all_that_is_left_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let rank = Rank::open(&owner, 0, 1, 1 << 20);
    owner.flush(Duration::from_secs(30)).unwrap();
    copy(&run, &other);
    let e = Owner::open(&other, Options::default()).map(drop).unwrap_err();
    assert!(e.code() == Code::Conflict && e.text().contains("is a copy of"), "{e}");
    drop(rank);
    owner.close().unwrap();
    std::fs::remove_dir_all(&run).unwrap();
    let (done, said) = recovered(&other, Elsewhere::Refuse);
    assert_eq!(done.unwrap(), None);
    assert!(said.contains("it was copied from there, or moved"), "{said}");
}

#[test]
fn a_copy_of_a_run_that_has_everything_on_disk_by_now_is_opened_and_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let _rank = left(&run);
    copy(&run, &other);
    recover(&run).unwrap();
    let (done, said) = recovered(&other, Elsewhere::Refuse);
    let e = done.unwrap_err();
    for word in
        [&format!("a copy of the run {}", run.display()), "records of what a program put", "copy it again"]
    {
        assert!(e.text().contains(word) && said.contains(word), "{word}: {e}; {said}");
    }
    assert_eq!((x(&run).unwrap(), x(&other).unwrap_err().code()), (f64s(5, 7), Code::NotFound));
    assert_eq!(recover(&other).unwrap(), Some(0), "it is told once");
}

#[test]
fn a_copy_that_has_all_that_its_run_has_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    copy(&run, &other);
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let (done, said) = recovered(&other, Elsewhere::Refuse);
    assert_eq!((done.unwrap(), said.as_str()), (Some(0), ""));
    assert_eq!(ended(&other), Some(Ended::Read));
}

#[test]
fn a_copy_that_lacks_only_the_row_of_a_file_that_it_has_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.put("x", &f64s(5, 7), None);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    // Between the file of the second snapshot and its row.
    copy(&run, &other);
    rank.step(1, &f64s(N, 1));
    owner.flush(Duration::from_secs(30)).unwrap();
    let file = forebay_store::layout::step_file(1);
    std::fs::copy(run.join(&file), other.join(&file)).unwrap();
    let records = Reader::open(&run).unwrap().session(1).unwrap().unwrap().2;
    let conn = rusqlite::Connection::open(catalog_of(&other)).unwrap();
    conn.execute("UPDATE fb_sessions SET applied = ?1", [records as i64 + 100]).unwrap();
    drop(conn);
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let (done, said) = recovered(&other, Elsewhere::Refuse);
    assert_eq!((done.unwrap(), said.as_str()), (Some(1), ""));
    assert_eq!(Reader::open(&other).unwrap().last_step().unwrap().unwrap().step, 1);
}

#[test]
fn snapshots_whose_files_did_not_come_along_with_a_copy_are_marked_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    (0..6).for_each(|step| rank.step(step, &f64s(N, 0)));
    owner.flush(Duration::from_secs(30)).unwrap();
    owner.abandon().unwrap();
    drop(owner);
    // The catalog was copied after the files.
    copy(&run, &other);
    let file = |step| other.join(forebay_store::layout::step_file(step));
    let kept: Vec<Vec<u8>> = [4, 5].map(|step| std::fs::read(file(step)).unwrap()).into();
    [4, 5].iter().for_each(|step| std::fs::remove_file(file(*step)).unwrap());
    let e = recover(&other).unwrap_err();
    assert!(e.code() == Code::Conflict && e.text().contains("is complete up to step 3"), "{e}");
    let e = recovered(&other, Elsewhere::Abandon).0.unwrap_err();
    assert!(e.text().contains("the files of the snapshots 4, 5 are not there"), "{e}");
    assert!(messages(&other).iter().any(|m| m.2.contains("snapshots 4, 5")), "{:?}", messages(&other));
    assert_eq!(Reader::open(&other).unwrap().last_step().unwrap().unwrap().step, 3);
    assert_eq!(recover(&other).unwrap(), Some(3), "it is told once");
    // Put back they are listed again.
    for (step, bytes) in [4, 5].into_iter().zip(kept) {
        std::fs::write(file(step), bytes).unwrap();
    }
    repair(&other).unwrap();
    assert_eq!(Reader::open(&other).unwrap().last_step().unwrap().unwrap().step, 5);
    assert_eq!(recover(&run).unwrap(), Some(5), "the run itself lacks nothing");
}

#[test]
fn repair_does_not_promise_what_is_in_memory_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    let done = repair(&run).unwrap();
    assert_eq!((done.left, done.unseen, done.is_whole()), (1, 0, true));
    std::fs::remove_file(segment(&rank)).unwrap();
    let done = repair(&run).unwrap();
    assert_eq!((done.left, done.unseen), (0, 1));
    assert!(recover(&run).is_err(), "it says what is lost");
    assert_eq!(repair(&run).unwrap().unseen, 0);
}

#[test]
fn a_backup_that_takes_the_place_of_a_killed_run_says_that_snapshots_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (run, backup) = (dir.path().join("r.fb"), dir.path().join("backup.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    copy(&run, &backup);
    for step in 1..4 {
        rank.put("x", &f64s(5, step as u64), None);
        rank.step(step, &f64s(N, 0));
    }
    owner.flush(Duration::from_secs(30)).unwrap();
    owner.abandon().unwrap();
    drop(owner);
    std::fs::remove_dir_all(&run).unwrap();
    std::fs::rename(&backup, &run).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_err() && said.contains("snapshot 3 was on disk and is not there"), "{said}");
    assert!(messages(&run).iter().any(|m| m.2.contains("snapshot 3 was on disk")), "{:?}", messages(&run));
    assert_eq!(recover(&run).unwrap(), Some(0), "it is told once");
}

#[test]
fn memory_that_is_gone_beside_an_earlier_catalog_costs_no_file_of_a_data_set() {
    memory_is_gone_beside_an_earlier_catalog(false);
}

#[test]
fn memory_that_is_gone_beside_a_catalog_whose_log_was_moved_since_is_a_fault_of_the_recovery() {
    memory_is_gone_beside_an_earlier_catalog(true);
}

fn memory_is_gone_beside_an_earlier_catalog(log_moves: bool) {
    let dir = tempfile::tempdir().unwrap();
    let (run, old) = (dir.path().join("r.fb"), dir.path().join("old.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.put("x", &f64s(20_000, 1), None);
    owner.flush(Duration::from_secs(30)).unwrap();
    copy(&run, &old);
    let noted = || std::fs::read_to_string(run.join("LOCK")).unwrap();
    let before = noted();
    rank.put("x", &f64s(20_000, 2), None);
    rank.put("y", &f64s(20_000, 3), None);
    owner.flush(Duration::from_secs(30)).unwrap();
    if log_moves {
        wait_for("a move of the log", || {
            // The log begins anew with a write that comes behind the move.
            rank.put("z", &f64s(10, 4), None);
            owner.flush(Duration::from_secs(30)).unwrap();
            (noted() != before).then_some(())
        });
    }
    owner.abandon().unwrap();
    drop(owner);
    std::fs::remove_file(segment(&rank)).unwrap();
    for end in ["", "-wal", "-shm"] {
        let name = format!("catalog.sqlite{end}");
        let _ = std::fs::remove_file(run.join(&name));
        let _ = std::fs::copy(old.join(&name), run.join(&name));
    }
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_err() && said.contains("did not know"), "{said}");
    let get = |name: &str| Reader::open(&run).unwrap().get(name, 0, &Selection::default()).unwrap().bytes;
    assert_eq!((get("x"), get("y")), (f64s(20_000, 2), f64s(20_000, 3)), "{said}");
}

#[test]
fn a_copy_does_not_call_a_snapshot_missing_whose_file_came_along() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other, old) = (dir.path().join("r.fb"), dir.path().join("copy.fb"), dir.path().join("old.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    copy(&run, &old);
    rank.step(1, &f64s(N, 1));
    owner.flush(Duration::from_secs(30)).unwrap();
    owner.abandon().unwrap();
    drop(owner);
    // The catalog was copied before the files.
    copy(&run, &other);
    for end in ["", "-wal", "-shm"] {
        let name = format!("catalog.sqlite{end}");
        let _ = std::fs::remove_file(other.join(&name));
        let _ = std::fs::copy(old.join(&name), other.join(&name));
    }
    std::fs::copy(old.join("LOCK"), other.join("LOCK")).unwrap();
    recover(&run).unwrap();
    let (done, said) = recovered(&other, Elsewhere::Refuse);
    assert!(!said.contains("snapshots 1") || said.contains("which are listed"), "{done:?} {said}");
    assert!(done.as_ref().map_or_else(|e| !e.text().contains("snapshots 1"), |_| true), "{done:?} {said}");
    assert_eq!(Reader::open(&other).unwrap().last_step().unwrap().unwrap().step, 1);
}
