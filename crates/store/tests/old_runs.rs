//! A run with everything in it whose machine stopped in the middle, as an earlier build left it,
//! kept in `golden/version-1-stopped`: every kind of data, steps put aside, rows in the catalog's log,
//! a finished step without a row, an unfinished one, a spilt segment. It is read as it is, gone on
//! with, gone back in, and made anew from its files.
//!
//! `FOREBAY_WRITE_GOLDEN=1 cargo test -p forebay-store --test all old_runs` writes that of the format of
//! this build; do that once for a version of the format, and keep the old ones beside it.

use crate::common::asked::{Asked, Call};
use crate::common::{Rank, copy, f64s, shape, wait_for};
use forebay_arena::segments;
use forebay_store::disk::Disk;
use forebay_store::layout::FORMAT;
use forebay_store::{Options, Owner, Reader, catalog, compact, recover, repair, verify};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, Mode, TableInfo, Target};
use forebay_types::record::{Cell, Payload, Place, Record, StepBlock};
use forebay_types::watch::{Act, Declare, Diagram, Kind, Parameter, Scale};
use forebay_types::{ArrayMeta, DType, Order, Selection};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

fn kept(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/version-{version}-stopped"))
}

/// Stops the world before the directory of a finished step is made durable, until it may go on.
#[derive(Default)]
struct Halting {
    armed: AtomicBool,
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Halting {
    fn wait(&self, ready: impl Fn(&(bool, bool)) -> bool) {
        let guard = self.state.lock().unwrap();
        drop(self.changed.wait_while(guard, |s| !ready(s)).unwrap());
    }

    fn set(&self, change: impl FnOnce(&mut (bool, bool))) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

/// The disk that does so.
fn disk_of(halting: &Arc<Halting>) -> Arc<dyn Disk> {
    let halting = halting.clone();
    Arc::new(Asked(move |call, _: &Path| {
        if call == Call::SyncDir && halting.armed.load(Ordering::SeqCst) {
            halting.set(|s| s.0 = true);
            halting.wait(|s| s.1);
        }
        Ok(())
    }))
}

fn cells(of: &[Cell]) -> Vec<u8> {
    let mut w = Writer::new();
    of.iter().for_each(|c| c.encode(&mut w));
    w.finish()
}

fn table(rank: &mut Rank, name: &str, columns: &[(&str, &str, &str)], history: bool) -> u32 {
    let column = |c: &(&str, &str, &str)| Column {
        name: c.0.into(),
        dtype: c.1.into(),
        units: c.2.into(),
        ..Default::default()
    };
    let columns = columns.iter().map(column).collect();
    let made = rank.ask(&Ask::Table { name: name.into(), columns, history }).unwrap();
    serde_json::from_value::<TableInfo>(made).unwrap().id
}

/// The values of a step: two pieces of `E`, two appended ones of `p`, a column-major complex array of
/// rank 0 and a text of rank 1.
fn take(ranks: &mut [Rank; 2], step: i64, seed: u64) {
    for (i, r) in ranks.iter_mut().enumerate() {
        let half = f64s(1500, seed + 1500 * i as u64);
        r.begin(step);
        let place = Place::At { offset: shape(&[1500 * i as u64]), global: shape(&[3000]) };
        let mut n = r.array(step, "field/E", &half, place, 8000);
        n += r.array(step, "p", &half[..80 * (i + 1)], Place::Append, usize::MAX);
        let (name, meta, bytes) = match i {
            0 => (
                "z",
                ArrayMeta { dtype: DType::C128, shape: shape(&[2, 3]), order: Order::F },
                half[..96].to_vec(),
            ),
            _ => ("note", ArrayMeta::new(DType::Str, shape(&[5])), "grün".as_bytes().to_vec()),
        };
        let payload = Payload::Inline(&bytes);
        let block = StepBlock { step, name, units: "", meta, place: Place::Whole, part: 0, payload };
        r.publish(&Record::StepBlock(block));
        r.end(step, n + 1);
    }
}

fn write(run: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("stopped.fb");
    let owner = Owner::open(&work, Options { ..Options::default() }).unwrap();
    first_life(&owner);
    owner.close().unwrap();
    compact(&work).unwrap();
    let disk = Arc::new(Halting::default());
    let options = Options { overflow: 0, spill: 128 << 10, disk: disk_of(&disk), ..Options::default() };
    let owner = Owner::open(&work, options).unwrap();
    let ranks = second_life(&owner, &disk);
    let _ = std::fs::remove_dir_all(run);
    copy(&work, run);
    for name in ["LOCK", "catalog.sqlite-shm"] {
        let _ = std::fs::remove_file(run.join(name));
    }
    disk.set(|s| s.1 = true);
    drop(ranks);
    owner.close().unwrap();
}

/// Everything a run can hold, and steps put aside by going back.
fn first_life(owner: &Owner) {
    let mut ranks = [0, 1].map(|r| Rank::open(owner, r, 2, 1 << 20));
    let [a, _] = &mut ranks;
    a.put("grid/x", &f64s(10, 5), None);
    a.put("large", &f64s(3000, 1), None);
    a.put("large", &f64s(2500, 2), None);
    a.ask(&Ask::Copy { from: "large".into(), to: "copied".into() }).unwrap();
    a.ask(&Ask::Rename { from: "grid/x".into(), to: "grid/y".into() }).unwrap();
    a.put("gone", &f64s(2000, 9), None);
    a.ask(&Ask::Delete { pattern: "gone".into(), set: None }).unwrap();
    let object = |v: serde_json::Value| v.as_object().unwrap().clone();
    for (target, attrs) in [
        (Target::Run, json!({"author": "Ada", "beta": 0.25, "tags": ["a", "b"]})),
        (Target::DataSet { name: "large".into(), set: 0 }, json!({"n": 3})),
    ] {
        a.ask(&Ask::SetAttrs { target, attrs: object(attrs) }).unwrap();
    }
    let kinds =
        [("i", "i64", ""), ("x", "f64", "m"), ("s", "str", ""), ("b", "bytes", ""), ("t", "bool", "")];
    let plain = table(a, "plain", &kinds, false);
    let row =
        [Cell::Int(-3), Cell::Real(0.5), Cell::Text("ä".into()), Cell::Blob(vec![0, 255]), Cell::Int(1)];
    a.publish(&Record::Insert { table: plain, step: -1, rows: 1, cells: &cells(&row) });
    let history = table(a, "energies", &[("w", "f64", "J")], true);
    let declare = |r: &mut Rank, d: &Declare| {
        let json = serde_json::to_string(d).unwrap();
        r.publish(&Record::Declare { json: &json });
    };
    let diagram = Diagram {
        id: 0,
        title: "energy".into(),
        kind: Kind::History,
        x: "t".into(),
        y: "W".into(),
        v: None,
        xscale: Scale::default(),
        yscale: Scale::default(),
        every: 1,
        reduce: None,
    };
    declare(a, &Declare::Diagram(diagram));
    declare(a, &Declare::Curve { diagram: 0, curve: 0, name: "total".into() });
    let (name, units, help) = ("nu".into(), "m^2/s".into(), "viscosity".into());
    let p = Parameter { name, value: json!(0.5), min: Some(0.0), max: Some(9.0), units, help, signed: false };
    declare(a, &Declare::Parameter(p));
    for step in 0..4i64 {
        let [a, _] = &mut ranks;
        a.publish(&Record::Insert {
            table: history,
            step,
            rows: 1,
            cells: &cells(&[Cell::Real(step as f64)]),
        });
        let mut w = Writer::new();
        w.u32(0).f64(step as f64 * 2.0);
        a.publish(&Record::Append { diagram: 0, step, t: step as f64, values: &w.finish() });
        if step == 1 {
            let act = Act::Set { name: "nu".into(), value: json!(1.5) };
            let id = owner.log_steering("ada@n1", &act).unwrap();
            a.publish(&Record::Applied { id, step, code: 0, text: "nu = 1.5" });
            a.publish(&Record::Message { level: 2, step, text: "the time step is large" });
            a.settle();
        }
        take(&mut ranks, step, step as u64);
        ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::WaitStep { step }).unwrap()));
        if step == 1 || step == 3 {
            let tag = Some(["", "one", "", "three"][step as usize].into());
            ranks[0].ask(&Ask::Checkpoint { tag }).unwrap();
        }
    }
    for r in &mut ranks {
        assert_eq!(r.ask(&Ask::Restart { tag: Some("one".into()), strict: false }).unwrap()["step"], 1);
    }
    take(&mut ranks, 2, 102);
    ranks[0].ask(&Ask::Checkpoint { tag: Some("branch".into()) }).unwrap();
    ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::Close { finished: false }).unwrap()));
}

/// More of it, up to the moment at which everything stops.
fn second_life(owner: &Owner, disk: &Halting) -> [Rank; 2] {
    let mut ranks = [0, 1].map(|r| Rank::open(owner, r, 2, 1 << 20));
    let [a, b] = &mut ranks;
    let path = b.ask(&Ask::Overflow { bytes: 64 << 10, spill: true, known: 0 }).unwrap();
    assert!(path.as_str().unwrap().starts_with(owner.dir().to_str().unwrap()), "{path}");
    let history = table(a, "energies", &[], true);
    a.publish(&Record::Insert { table: history, step: 2, rows: 1, cells: &cells(&[Cell::Real(2.5)]) });
    a.put("in the log", &f64s(3, 7), None);
    a.put("copied", &f64s(4, 8), None);
    a.settle();
    b.begin(9);
    let place = Place::At { offset: shape(&[1500]), global: shape(&[3000]) };
    b.array(9, "field/E", &f64s(1500, 9), place, usize::MAX);
    let unfinished = owner.dir().join("steps/0000000009.h5.tmp");
    wait_for("the unfinished file", || unfinished.exists().then_some(()));
    disk.armed.store(true, Ordering::SeqCst);
    take(&mut ranks, 3, 103);
    disk.wait(|s| s.0);
    ranks
}

/// A copy of the run, opened by whoever asks for it.
fn planted(version: u32) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("stopped.fb");
    copy(&kept(version), &run);
    // Whoever runs this may have another beginning of the names of segments.
    let name = spilt(&run).expect("a spilt segment");
    let (_, own) = name.split_once("-over-").unwrap();
    std::fs::rename(run.join(&name), run.join(segments::name(&["over", own]))).unwrap();
    (dir, run)
}

/// The name of a spilt segment in the run's directory.
fn spilt(run: &Path) -> Option<String> {
    ending(run, "", "").into_iter().find(|n| n.contains("-over-"))
}

fn text(reader: &Reader, step: i64, name: &str) -> Vec<u8> {
    reader.step_get(step, name, &Selection::default()).unwrap().bytes
}

fn has_step(reader: &Reader, step: i64, seed: u64) {
    let both = |a, b| [f64s(a, seed), f64s(b, seed + 1500)].concat();
    assert!(text(reader, step, "field/E") == both(1500, 1500), "step {step}");
    assert!(text(reader, step, "p") == both(10, 20), "step {step}");
    assert_eq!(text(reader, step, "z"), f64s(12, seed), "step {step}");
    assert_eq!(text(reader, step, "note"), "grün".as_bytes());
    assert_eq!(reader.step_info(step, "z").unwrap().meta.order, Order::F);
    assert_eq!(reader.step_info(step, "field/E").unwrap().units, "m");
}

/// Everything but the steps.
fn has_the_rest(reader: &Reader) {
    let all = Selection::default();
    let names: Vec<String> = reader.list("*", None).unwrap().into_iter().map(|r| r.name).collect();
    assert_eq!(names, ["copied", "grid/y", "in the log", "large"]);
    for (name, n, seed) in [("copied", 4, 8), ("grid/y", 10, 5), ("in the log", 3, 7), ("large", 2500, 2)] {
        assert_eq!(reader.get(name, 0, &all).unwrap().bytes, f64s(n, seed), "{name}");
    }
    let attrs = reader.attrs(&Target::Run).unwrap();
    assert_eq!(json!(attrs), json!({"author": "Ada", "beta": 0.25, "tags": ["a", "b"]}));
    let row = reader.select("plain", "", &[]).unwrap().rows.remove(0);
    let blob = Cell::Blob(vec![0, 255]);
    assert_eq!(row, [Cell::Int(-3), Cell::Real(0.5), Cell::Text("ä".into()), blob, Cell::Int(1)]);
    assert_eq!(reader.parameters().unwrap()[0].units, "m^2/s");
    assert_eq!(reader.diagrams().unwrap()[0].title, "energy");
    assert_eq!(reader.curves(0).unwrap(), [(0, "total".to_owned())]);
    let acts = reader.acts().unwrap();
    assert_eq!((acts[0].who.as_str(), acts[0].step), ("ada@n1", Some(1)));
    assert!(reader.messages(9).unwrap().contains(&(1, 2, "the time step is large".into())));
}

fn energies(reader: &Reader) -> Vec<f64> {
    let real = |row: &Vec<Cell>| match row[0] {
        Cell::Real(w) => w,
        _ => panic!("{row:?}"),
    };
    reader.select("energies", "", &[]).unwrap().rows.iter().map(real).collect()
}

fn numbers(reader: &Reader) -> Vec<i64> {
    reader.steps().unwrap().iter().map(|s| s.step).collect()
}

fn marks(reader: &Reader) -> Vec<(Option<String>, i64, bool)> {
    reader.checkpoints().unwrap().into_iter().map(|c| (c.tag, c.step, c.kept)).collect()
}

fn tag(name: &str, step: i64, kept: bool) -> (Option<String>, i64, bool) {
    (Some(name.to_owned()), step, kept)
}

/// Names of files in a folder of the run that end so.
fn ending(run: &Path, folder: &str, end: &str) -> Vec<String> {
    let names = std::fs::read_dir(run.join(folder)).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> =
        names.map(|n| n.into_string().unwrap()).filter(|n| n.ends_with(end)).collect();
    names.sort();
    names
}

/// All versions of the format that are kept here.
fn versions() -> Vec<u32> {
    (1..=FORMAT).filter(|v| kept(*v).exists()).collect()
}

#[test]
fn a_stopped_run_of_an_earlier_build_is_read_as_it_lies_there() {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() {
        write(&kept(FORMAT));
    }
    assert!(versions().contains(&1));
    for version in versions() {
        let (_dir, run) = planted(version);
        let reader = Reader::open(&run).unwrap();
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
        assert_eq!(numbers(&reader), [0, 1, 2]);
        [(0, 0), (1, 1), (2, 102)].iter().for_each(|(step, seed)| has_step(&reader, *step, *seed));
        assert_eq!(marks(&reader), [tag("one", 1, true), tag("three", 3, false), tag("branch", 2, true)]);
        assert_eq!(energies(&reader), [0.0, 2.5]);
        has_the_rest(&reader);
        assert_eq!(ending(&run, "steps", ".tmp"), ["0000000009.h5.tmp"], "reading changes nothing");
    }
}

#[test]
fn a_stopped_run_of_an_earlier_build_is_recovered_and_gone_on_with() {
    for version in versions() {
        let (_dir, run) = planted(version);
        assert_eq!(recover(&run).unwrap(), Some(3), "the finished step without a row is listed");
        assert_eq!((ending(&run, "steps", ".tmp"), spilt(&run)), (Vec::new(), None));
        let options = Options { mode: Mode::ReadWrite, ..Options::default() };
        let owner = Owner::open(&run, options).unwrap();
        let mut ranks = [0, 1].map(|r| Rank::open(&owner, r, 2, 1 << 20));
        for r in &mut ranks {
            let back = r.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
            assert_eq!((&back["step"], &back["parameters"]["nu"]), (&json!(3), &json!(1.5)));
        }
        take(&mut ranks, 4, 104);
        ranks[0].put("large", &f64s(5, 3), None);
        ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::Close { finished: true }).unwrap()));
        owner.close().unwrap();
        let reader = Reader::open(&run).unwrap();
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
        assert_eq!(numbers(&reader), [0, 1, 2, 3, 4]);
        (2..5).for_each(|step| has_step(&reader, step, 100 + step as u64));
        assert_eq!(reader.get("large", 0, &Selection::default()).unwrap().bytes, f64s(5, 3));
        assert_eq!(ending(&run, "data", ""), Vec::<String>::new(), "no file that nobody needs is left");
        assert!(reader.finished().unwrap());
    }
}

#[test]
fn a_run_of_an_earlier_build_goes_back_to_its_checkpoints() {
    for version in versions() {
        let (_dir, run) = planted(version);
        let options = || Options { mode: Mode::ReadWrite, ..Options::default() };
        let owner = Owner::open(&run, options()).unwrap();
        let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
        let e = rank.ask(&Ask::Restart { tag: Some("three".into()), strict: false }).unwrap_err();
        assert!(e.text().contains("one, branch"), "step 3 of that checkpoint went aside: {e}");
        for (name, step, left) in [("branch", 2, vec![0, 1, 2]), ("one", 1, vec![0, 1])] {
            let back = rank.ask(&Ask::Restart { tag: Some(name.into()), strict: false }).unwrap();
            assert_eq!(back["step"], step);
            assert_eq!(numbers(&Reader::open(&run).unwrap()), left);
        }
        rank.ask(&Ask::Close { finished: false }).unwrap();
        owner.close().unwrap();
        assert_eq!(recover(&run).unwrap(), Some(1));
        assert_eq!(ending(&run, "steps", ".h5"), ["0000000000.h5", "0000000001.h5"]);
    }
}

#[test]
fn the_catalog_of_an_earlier_build_is_made_anew_from_the_files() {
    for version in versions() {
        let (_dir, run) = planted(version);
        for end in ["", "-wal"] {
            std::fs::remove_file(run.join(format!("catalog.sqlite{end}"))).unwrap();
        }
        repair(&run).unwrap();
        let reader = Reader::open(&run).unwrap();
        assert_eq!(numbers(&reader), [0, 1, 2, 3], "steps that were put aside stay aside");
        has_step(&reader, 2, 102);
        assert_eq!(reader.get("large", 0, &Selection::default()).unwrap().bytes, f64s(2500, 2));
        catalog::check_format(&run.join("catalog.sqlite")).unwrap();
    }
}
