//! Going back to a checkpoint is one act: steps behind it are aside from the commit on, whatever
//! becomes of the names of their files, and of the catalog.

use crate::common::power::Noting;
use crate::common::{Rank, f64s};
use forebay_store::{Options, Owner, Reader, recover, repair, verify};
use forebay_types::Selection;
use forebay_types::control::{Ask, Mode};
use std::path::Path;
use std::sync::Arc;

/// A disk on which no file can be given the name of one that was put aside.
fn stubborn() -> Arc<Noting> {
    Arc::new(Noting::refusing(".aside"))
}

fn take(rank: &mut Rank, steps: std::ops::Range<i64>, seed: u64) {
    for step in steps {
        rank.step(step, &f64s(50, seed + step as u64));
        rank.ask(&Ask::WaitStep { step }).unwrap();
    }
}

/// A run on a disk that renames nothing, with a checkpoint "two" at step 2 and steps up to `to` behind it.
fn marked(run: &Path, to: i64) -> (Owner, Rank) {
    let owner = Owner::open(run, Options { disk: stubborn(), ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    take(&mut rank, 1..3, 0);
    mark(&mut rank, "two");
    take(&mut rank, 3..to, 0);
    (owner, rank)
}

fn mark(rank: &mut Rank, tag: &str) {
    rank.ask(&Ask::Checkpoint { tag: Some(tag.into()) }).unwrap();
}

fn back(rank: &mut Rank, tag: &str) -> i64 {
    rank.ask(&Ask::Restart { tag: Some(tag.into()), strict: false }).unwrap()["step"].as_i64().unwrap()
}

/// The steps that are listed, each with the seed of its values.
fn listed(run: &Path) -> Vec<(i64, u64)> {
    assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
    let reader = Reader::open(run).unwrap();
    let first = |step: i64| {
        let x = reader.step_get(step, "x", &Selection::default()).unwrap().bytes;
        f64::from_le_bytes(x[..8].try_into().unwrap()) as u64 - step as u64
    };
    reader.steps().unwrap().iter().map(|s| (s.step, first(s.step))).collect()
}

fn names(run: &Path) -> Vec<String> {
    let all = std::fs::read_dir(run.join("steps")).unwrap();
    let mut names: Vec<String> = all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.iter().map(|n| n.trim_start_matches('0').to_owned()).collect()
}

#[test]
fn an_owner_that_dies_before_the_files_are_renamed_leaves_the_steps_aside() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let (owner, mut rank) = marked(&run, 6);
    assert_eq!(back(&mut rank, "two"), 2);
    owner.abandon().unwrap();
    owner.close().unwrap_err();
    drop((owner, rank));
    assert_eq!(names(&run), ["1.h5", "2.h5", "3.h5", "4.h5", "5.h5"], "none has its new name");
    assert_eq!(recover(&run).unwrap(), Some(2));
    assert_eq!(listed(&run), [(1, 0), (2, 0)]);
    assert_eq!(names(&run), ["1.h5", "2.h5", "3.h5.aside1", "4.h5.aside1", "5.h5.aside1"]);
    assert_eq!(recover(&run).unwrap(), Some(2), "for ever");
}

#[test]
fn steps_aside_stay_so_when_the_catalog_is_made_anew_from_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let (owner, mut rank) = marked(&run, 9);
    back(&mut rank, "two");
    take(&mut rank, 3..5, 100);
    mark(&mut rank, "four");
    take(&mut rank, 5..7, 100);
    back(&mut rank, "four");
    take(&mut rank, 5..6, 200);
    let expected = [(1, 0), (2, 0), (3, 100), (4, 100), (5, 200)];
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    assert_eq!(listed(&run), expected);
    assert_eq!(names(&run).len(), 8, "steps 6, 7 and 8 lie there under their names");
    std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
    assert_eq!(repair(&run).unwrap().steps, 5);
    assert_eq!(listed(&run), expected);
    assert_eq!(names(&run)[5..], ["6.h5.aside1", "7.h5.aside1", "8.h5.aside1"]);
    // The new catalog knows what the old one did.
    let owner = Owner::open(&run, Options { mode: Mode::ReadWrite, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    take(&mut rank, 6..8, 200);
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    assert_eq!(recover(&run).unwrap(), Some(7));
    assert_eq!(listed(&run).len(), 7);
}
