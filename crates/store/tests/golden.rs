//! A run that an earlier build wrote, kept in `golden/`: it must stay readable, sound, and open for
//! going on, as long as its version of the format is promised.
//!
//! `FOREBAY_WRITE_GOLDEN=1 cargo test -p forebay-store --test all golden` writes it anew; do that only for
//! a new version of the format, and keep the old one beside it.

use crate::common::{Rank, copy, f64s};
use forebay_store::layout::FORMAT;
use forebay_store::{Options, Owner, Reader, compact, verify};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, Mode, TableInfo};
use forebay_types::record::{Cell, Record};
use forebay_types::{DType, Selection};
use std::path::{Path, PathBuf};

const STEPS: i64 = 3;

fn kept(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/version-{version}"))
}

fn write(run: &Path) {
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.put("grid", &f64s(10, 5), None);
    rank.put("large", &f64s(9000, 1), None);
    let columns = vec![
        Column { name: "n".into(), dtype: "i64".into(), ..Default::default() },
        Column { name: "energy".into(), dtype: "f64".into(), units: "J".into(), ..Default::default() },
    ];
    let table = rank.ask(&Ask::Table { name: "history".into(), columns, history: true }).unwrap();
    let table: TableInfo = serde_json::from_value(table).unwrap();
    for step in 0..STEPS {
        let mut w = Writer::new();
        Cell::Int(step).encode(&mut w);
        Cell::Real(step as f64 / 4.0).encode(&mut w);
        rank.publish(&Record::Insert { table: table.id, step, rows: 1, cells: &w.finish() });
        rank.step(step, &f64s(100, step as u64));
    }
    rank.ask(&Ask::Checkpoint { tag: Some("last".into()) }).unwrap();
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    compact(run).unwrap();
}

fn is_as_written(run: &Path, steps: i64, rows: i64) {
    assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
    let reader = Reader::open(run).unwrap();
    let all = Selection::default();
    assert_eq!(reader.get("grid", 0, &all).unwrap().bytes, f64s(10, 5));
    assert_eq!(reader.get("large", 0, &all).unwrap().bytes, f64s(9000, 1));
    for row in reader.list("*", None).unwrap() {
        assert_eq!((row.units.as_str(), row.meta.dtype, row.version), ("V", DType::F64, 1), "{}", row.name);
    }
    assert_eq!(reader.steps().unwrap().len() as i64, steps);
    for step in reader.steps().unwrap() {
        assert_eq!(step.time, Some(step.step as f64 / 10.0));
        let x = reader.step_get(step.step, "x", &all).unwrap();
        assert_eq!(x.bytes, f64s(100, step.step as u64));
        assert_eq!(reader.step_info(step.step, "x").unwrap().units, "m");
    }
    let found = reader.select("history", "n > ?", &[serde_json::json!(0)]).unwrap().rows;
    assert_eq!((found.len() as i64, &found[0][..]), (rows, &[Cell::Int(1), Cell::Real(0.25)][..]));
}

#[test]
fn a_run_of_version_1_is_read_and_gone_on_with() {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() {
        let new = kept(FORMAT);
        let _ = std::fs::remove_dir_all(&new);
        write(&new);
        let _ = std::fs::remove_file(new.join("LOCK"));
    }
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("golden.fb");
    copy(&kept(1), &run);
    is_as_written(&run, STEPS, 2);
    let owner = Owner::open(&run, Options { mode: Mode::ReadWrite, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    let last = rank.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
    assert_eq!((&last["step"], &last["finished"]), (&(STEPS - 1).into(), &true.into()));
    // Whether it was taken before its step was computed or behind it only the program knows: a loop says it.
    assert_eq!(last["heads"], serde_json::json!({"first": STEPS - 1, "last": STEPS}));
    rank.ask(&Ask::GoOn { start: STEPS - 1, only: None }).unwrap();
    rank.step(STEPS, &f64s(100, STEPS as u64));
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    // Going on with the last step takes back the row that was put in it.
    is_as_written(&run, STEPS + 1, 1);
}

#[test]
fn the_catalog_of_a_run_of_version_1_is_made_anew_from_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("golden.fb");
    copy(&kept(1), &run);
    std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
    let done = forebay_store::repair(&run).unwrap();
    assert_eq!((done.steps, done.data_sets, done.unusable), (STEPS as u64, 1, Vec::new()));
    let reader = Reader::open(&run).unwrap();
    assert_eq!(reader.get("large", 0, &Selection::default()).unwrap().bytes, f64s(9000, 1));
    assert_eq!(reader.step_get(1, "x", &Selection::default()).unwrap().bytes, f64s(100, 1));
}
