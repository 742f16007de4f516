//! A loss of power at any time: whatever the disk kept of what was not durable yet, the run is what it
//! was after some act between the last one that was promised to be durable and the last one begun.
//!
//! FOREBAY_POWER_IMAGES says at how many of the images to look, or `all`; FOREBAY_POWER_SEED is another
//! seed of those that are chosen.

use crate::common::faults::{plant, scratch};
use crate::common::power::{Image, Noting};
use crate::common::{Rank, f64s, recover_without_memory};
use forebay_store::{Options, Owner, Reader, verify};
use forebay_types::Selection;
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, TableInfo};
use forebay_types::record::{Cell, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Copy)]
enum Act {
    /// More room, as a file in the run's directory.
    Spill,
    /// A data set: name, number of values (more than 1024 are a file), seed.
    Put(&'static str, u64, u64),
    Copy(&'static str, &'static str),
    Delete(&'static str),
    Row(i64),
    /// Everything before is in the catalog, durable or not.
    Settle,
    Flush,
    /// A step, waited for: number and seed.
    Step(i64, u64),
    /// A checkpoint at the last step.
    Mark(&'static str),
    /// Back to the checkpoint that lies at a step.
    Back(&'static str, i64),
    /// The steps that are there, put together.
    Pack,
}
use Act::*;

/// Large over large, small over large and large over small; steps, and back, and on, and back again.
const SCRIPT: &[Act] = &[
    Spill,
    Put("a", 100, 1),
    Put("b", 9000, 2),
    Row(1),
    Step(0, 10),
    Put("b", 50, 3),
    Settle,
    Row(2),
    Settle,
    Put("a", 9000, 4),
    Copy("a", "c"),
    Put("a", 9500, 5),
    Step(1, 11),
    Mark("one"),
    Put("a", 10, 6),
    Settle,
    Put("c", 10, 7),
    Settle,
    Flush,
    Step(2, 12),
    Step(3, 13),
    Pack,
    Mark("three"),
    Step(4, 14),
    Back("three", 3),
    Step(4, 24),
    Put("b", 9000, 8),
    Delete("b"),
    Back("one", 1),
    Row(3),
    Settle,
    Step(2, 32),
    Step(3, 33),
    Pack,
];

/// What a run holds.
#[derive(Clone, Default, PartialEq)]
struct State {
    sets: BTreeMap<String, Vec<u8>>,
    rows: Vec<i64>,
    steps: BTreeMap<i64, Vec<u8>>,
    marks: BTreeSet<String>,
}

impl State {
    fn after(&self, act: Act) -> State {
        let mut s = self.clone();
        match act {
            Put(name, n, seed) => drop(s.sets.insert(name.into(), f64s(n, seed))),
            Copy(a, b) => drop(s.sets.insert(b.into(), s.sets[a].clone())),
            Delete(name) => drop(s.sets.remove(name)),
            Row(n) => s.rows.push(n),
            Step(step, seed) => drop(s.steps.insert(step, f64s(2000, seed))),
            Mark(tag) => drop(s.marks.insert(tag.into())),
            Back(tag, step) => {
                s.steps.retain(|n, _| *n <= step);
                // In this script a mark that is gone back over lies behind.
                s.marks.retain(|m| m.as_str() <= tag);
            }
            Spill | Settle | Flush | Pack => {}
        }
        s
    }

    fn of(run: &Path) -> State {
        assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
        let spilt = |e: std::fs::DirEntry| e.file_name().to_string_lossy().contains("-over-");
        assert!(!std::fs::read_dir(run).unwrap().any(|e| spilt(e.unwrap())), "a spilt file is left");
        let (reader, all) = (Reader::open(run).unwrap(), Selection::default());
        let mut s = State::default();
        for row in reader.list("*", None).unwrap() {
            s.sets.insert(row.name.clone(), reader.get(&row.name, 0, &all).unwrap().bytes);
        }
        if reader.table("rows").unwrap().is_some() {
            let int = |row: &Vec<Cell>| match row[0] {
                Cell::Int(n) => n,
                _ => panic!("{row:?}"),
            };
            s.rows = reader.select("rows", "", &[]).unwrap().rows.iter().map(int).collect();
        }
        for step in reader.steps().unwrap() {
            s.steps.insert(step.step, reader.step_get(step.step, "x", &all).unwrap().bytes);
        }
        s.marks =
            reader.checkpoints().unwrap().into_iter().filter(|c| c.kept).filter_map(|c| c.tag).collect();
        s
    }

    /// In short, for a message.
    fn told(&self) -> String {
        let sets: Vec<String> = self.sets.iter().map(|(n, b)| format!("{n}[{}]", b.len() / 8)).collect();
        let first = |b: &Vec<u8>| f64::from_le_bytes(b[..8].try_into().unwrap());
        let steps: Vec<String> = self.steps.iter().map(|(n, b)| format!("{n}:{}", first(b))).collect();
        format!("{sets:?} {:?} {steps:?} {:?}", self.rows, self.marks)
    }
}

/// Plays the script; what the disk may keep of it at any time.
fn play() -> Vec<Image> {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let disk = Arc::new(Noting::default());
    let options = Options { disk: disk.clone(), overflow: 0, spill: 64 << 10, ..Options::default() };
    let owner = Owner::open(&run, options).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 2 << 20);
    let columns = vec![Column { name: "n".into(), dtype: "i64".into(), ..Default::default() }];
    let table = rank.ask(&Ask::Table { name: "rows".into(), columns, history: false }).unwrap();
    let table: TableInfo = serde_json::from_value(table).unwrap();
    for (n, act) in SCRIPT.iter().enumerate() {
        disk.tell(0, n + 1);
        let durable = match *act {
            Spill => {
                let path = rank.ask(&Ask::Overflow { bytes: 4096, spill: true, known: 0 }).unwrap();
                disk.look(Path::new(path.as_str().unwrap()));
                false
            }
            Put(name, len, seed) => {
                rank.put(name, &f64s(len, seed), None);
                false
            }
            Row(n) => {
                let mut w = Writer::new();
                Cell::Int(n).encode(&mut w);
                let cells = w.finish();
                rank.publish(&Record::Insert { table: table.id, step: -1, rows: 1, cells: &cells });
                false
            }
            Settle => {
                rank.settle();
                false
            }
            Copy(a, b) => rank.ask(&Ask::Copy { from: a.into(), to: b.into() }).is_ok(),
            Delete(name) => rank.ask(&Ask::Delete { pattern: name.into(), set: None }).is_ok(),
            Flush => rank.ask(&Ask::Flush).is_ok(),
            Pack => rank.ask(&Ask::Pack { first: 0, last: 9 }).unwrap()["packs"] == 1,
            Step(step, seed) => {
                rank.step(step, &f64s(2000, seed));
                rank.ask(&Ask::WaitStep { step }).is_ok()
            }
            Mark(tag) => rank.ask(&Ask::Checkpoint { tag: Some(tag.into()) }).is_ok(),
            Back(tag, step) => {
                let back = rank.ask(&Ask::Restart { tag: Some(tag.into()), strict: false }).unwrap();
                back["step"] == step
            }
        };
        assert!(durable || matches!(act, Spill | Put(..) | Row(_) | Settle), "act {n}");
        if durable {
            disk.tell(n + 1, n + 1);
        }
    }
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    let seed = std::env::var("FOREBAY_POWER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let most = std::env::var("FOREBAY_POWER_IMAGES").unwrap_or_else(|_| "400".into());
    disk.images(dir.path(), seed, most.parse().unwrap_or(usize::MAX / 2))
}

/// What is wrong with an image; nothing when all is well.
fn look(image: &Image, states: &[State]) -> Option<String> {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    plant(&image.tree, dir.path());
    if let Err(e) = recover_without_memory(&run) {
        return (image.durable > 0).then(|| e.to_string());
    }
    let found = State::of(&run);
    let (least, most) = (image.durable, image.begun);
    let fits = states[least..=most].contains(&found);
    (!fits).then(|| {
        let (least, most) = (states[least].told(), states[most].told());
        format!("between {least} and {most}, and it is {}", found.told())
    })
}

#[test]
fn a_loss_of_power_at_any_time_leaves_what_was_promised() {
    let mut images = play();
    let mut seen = BTreeSet::new();
    images.retain(|i| {
        let mut hash = DefaultHasher::new();
        (i.durable, i.begun, &i.tree).hash(&mut hash);
        let there = i.tree.contains_key(Path::new("r.fb/catalog.sqlite")) || i.durable > 0;
        there && seen.insert(hash.finish())
    });
    let mut states = vec![State::default()];
    SCRIPT.iter().for_each(|act| states.push(states.last().unwrap().after(*act)));
    let (next, faults) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let work = || {
        while let Some(image) = images.get(next.fetch_add(1, Ordering::Relaxed)) {
            let wrong = std::panic::catch_unwind(|| look(image, &states));
            let wrong = wrong.unwrap_or_else(|_| Some("the run is not sound".into()));
            faults
                .lock()
                .unwrap()
                .extend(wrong.map(|w| format!("{} ({}..{}): {w}", image.what, image.durable, image.begun)));
        }
    };
    std::thread::scope(|s| {
        s.spawn(work);
        work();
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), images.len(), faults.join("\n"));
    assert!(images.len() > 100);
}
