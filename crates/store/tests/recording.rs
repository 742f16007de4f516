//! What owners were told is written down, and a machine that is told it once more gives the same actions.

use crate::common::{Rank, f64s, opening, shape};
use crate::points::{declare, history};
use forebay_store::{Attach, Deaf, Options, Owner, Reader, replay};
use forebay_types::Code;
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Mode, Resume, word};
use forebay_types::record::{Place, Record};
use forebay_types::watch::Act;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The recordings of a directory, or the one that is named.
fn recordings(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut all: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "events"));
    all.sort();
    all
}

/// A rank's part of a step: a piece of an array in blocks, and a small array of rank 0.
fn part(rank: &mut Rank, step: i64) {
    let n = 20_000;
    let place = Place::At { offset: shape(&[u64::from(rank.rank) * n]), global: shape(&[2 * n]) };
    rank.begin(step);
    let mut blocks = rank.array(step, "E", &f64s(n, step as u64), place, 64 << 10);
    if rank.rank == 0 {
        blocks += rank.array(step, "n", &f64s(8, step as u64), Place::Whole, usize::MAX);
    }
    rank.end(step, blocks);
}

/// Two ranks take steps, put, watch and ask. Their owner goes while a step lacks one of them, and its successor
/// adopts both.
fn play(dir: &Path) {
    let run = dir.join("r.fb");
    let options = Options { record: Some(dir.to_owned()), ..Options::default() };
    let owner = Owner::open(&run, options.clone()).unwrap();
    let mut ranks = [0, 1].map(|rank| Rank::open(&owner, rank, 2, 4 << 20));
    let [first, second] = &mut ranks;
    for step in 0..3 {
        part(first, step);
        part(second, step);
    }
    let version = first.put("a", &f64s(3, 0), Some(0));
    assert_eq!(first.ask(&Ask::Version { seq: version }).unwrap(), 1);
    second.put("grid", &f64s(20_000, 2), None);
    declare(first, &history(0, "energy", None));
    for (step, t) in [(0, 0.1), (1, f64::NAN), (2, f64::INFINITY)] {
        let mut w = Writer::new();
        w.u32(0).f64(t);
        first.publish(&Record::Append { diagram: 0, step, t, values: &w.finish() });
    }
    first.begin(7);
    first.publish(&Record::StepDiscard { step: 7 });
    owner.log_steering("somebody", &Act::Stop).unwrap();
    second.ask(&Ask::WaitStep { step: 2 }).unwrap();
    part(first, 3);
    first.settle();
    owner.abandon().unwrap();
    owner.close().unwrap_err();

    // As if it had been killed: it would not have said to anybody that it goes.
    ranks.iter().for_each(|rank| rank.segment.word(word::CLOSED).store(0, Ordering::SeqCst));
    let owner =
        Owner::open(&run, Options { mode: Mode::ReadWrite, adopt: Some(Arc::new(Deaf)), ..options }).unwrap();
    for orphan in owner.orphans().unwrap() {
        let open = opening(&owner, orphan.rank, 2, 4 << 20);
        let (run_id, session) = (owner.run_id().to_owned(), orphan.session);
        let what = Resume { open, run_id, session, asks: Vec::new() };
        owner.resume(what, &Attach { session, segment: orphan.segment }, Arc::new(Deaf)).unwrap();
    }
    let [first, second] = &mut ranks;
    [&first, &second].into_iter().for_each(|r| r.bell.attach_doorbell(owner.doorbell().unwrap()).unwrap());
    part(second, 3);
    second.ask(&Ask::WaitStep { step: 3 }).unwrap();
    [first, second].into_iter().for_each(|r| drop(r.ask(&Ask::Close { finished: true }).unwrap()));
    owner.close().unwrap();
    assert_eq!(Reader::open(&run).unwrap().last_step().unwrap().unwrap().step, 3);
}

#[test]
fn an_owner_and_its_successor_are_replayed_to_the_same_actions() {
    let dir = tempfile::tempdir().unwrap();
    play(dir.path());
    let all = recordings(dir.path());
    assert_eq!(all.len(), 2, "a file for each owner");
    for file in all {
        let replayed = replay(&file).unwrap();
        assert!(replayed.events > 20 && replayed.cut.is_none(), "{replayed:?}");
    }
}

#[test]
fn an_event_that_was_changed_or_left_out_is_noticed_and_named() {
    let dir = tempfile::tempdir().unwrap();
    play(dir.path());
    let file = recordings(dir.path()).remove(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let whole = replay(&file).unwrap().events;
    std::fs::write(&file, text.replacen("\"who\":\"somebody\"", "\"who\":\"nobody\"", 1)).unwrap();
    let e = replay(&file).unwrap_err();
    assert_eq!(e.code(), Code::Conflict);
    let told = text.lines().filter(|line| line.starts_with("{\"Event\"") || line.starts_with("{\"Record\""));
    let changed = 1 + told.into_iter().position(|line| line.contains("\"Steer\"")).unwrap();
    let named = e.text().strip_prefix("event ").and_then(|t| t.split(' ').next()?.parse::<usize>().ok());
    // The name goes into the catalog with the next group, and not before.
    assert!(named.is_some_and(|n| n >= changed) && e.text().contains("who: \"nobody\""), "{changed}: {e}");
    let mut lines: Vec<&str> = text.lines().collect();
    let record = lines.iter().position(|line| line.starts_with("{\"Record\"")).unwrap();
    lines.drain(record..record + 2);
    std::fs::write(&file, lines.join("\n")).unwrap();
    assert_eq!(replay(&file).unwrap_err().code(), Code::Conflict);
    // Of an owner that was killed while it wrote, all before that is replayed.
    std::fs::write(&file, &text[..text.len() - 9]).unwrap();
    assert_eq!(replay(&file).unwrap().events, whole);
}

/// `FOREBAY_REPLAY=FILE`, or a directory of files, tells a machine what owners were told elsewhere.
#[test]
fn recordings_that_are_named_give_the_same_actions() {
    let Some(named) = std::env::var_os("FOREBAY_REPLAY") else { return };
    let wrong: Vec<String> = recordings(Path::new(&named))
        .iter()
        .filter_map(|file| Some(replay(file).err()?.to_string()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
