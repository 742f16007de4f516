//! Runs of very many steps: whoever opens one looks at each of them once.

use crate::common::faults::{Fault, FaultyDisk};
use crate::common::{Rank, f64s};
use forebay_store::catalog::{self, Catalog};
use forebay_store::disk::{Disk, System};
use forebay_store::layout::{Layout, step_file};
use forebay_store::lock::Lock;
use forebay_store::stepfile::{Facts, Manifest, Writer};
use forebay_store::{Options, Owner, Reader, recover};
use forebay_types::Selection;
use forebay_types::control::{Ask, Mode};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: i64 = 30_000;
/// A look at each step for each step takes a minute for so many.
const ENOUGH: Duration = Duration::from_secs(15);

/// A run with rows and files of steps 0 to `STEPS` - 1; what is in the files does not matter to an opening. Then
/// there are `more` whole files without a row, as an owner leaves them that dies at that moment.
fn run_of_many_steps(dir: &Path, more: i64) {
    Owner::open(dir, Options::default()).unwrap().close().unwrap();
    let layout = Layout::new(dir);
    let disk: Arc<dyn Disk> = Arc::new(System);
    let lock = Lock::take(&disk, &layout.lock(), catalog::known_fence(&layout.catalog())).unwrap();
    let mut catalog = Catalog::open(&disk, &layout, lock.fence()).unwrap();
    let run_id = catalog.run_id().to_owned();
    catalog
        .transaction(|tx| {
            (0..STEPS).try_for_each(|step| {
                std::fs::write(dir.join(step_file(step)), b"").unwrap();
                let m = Manifest { step, serial: step as u64 + 1, ..Manifest::default() };
                catalog::add_step(tx, &step_file(step), &m)
            })
        })
        .unwrap();
    for step in STEPS..STEPS + more {
        let mut w = Writer::create(disk.clone(), &dir.join(step_file(step))).unwrap();
        let (run_id, serial) = (run_id.clone(), step as u64 + 1);
        w.finish(&Facts { run_id, step, serial, ..Facts::default() }).unwrap();
    }
}

#[test]
fn a_run_of_very_many_steps_is_taken_over_gone_on_with_and_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("many.fb");
    run_of_many_steps(&dir, 40);
    let began = Instant::now();
    assert_eq!(recover(&dir).unwrap(), Some(STEPS + 39), "what a dead owner had finished is listed");
    let owner = Owner::open(&dir, Options { mode: Mode::ReadWrite, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    rank.step(STEPS + 40, &f64s(10, 1));
    rank.ask(&Ask::Flush).unwrap();
    owner.close().unwrap();
    let reader = Reader::open(&dir).unwrap();
    for _ in 0..1000 {
        let moment = reader.moment().unwrap();
        assert_eq!(moment.last.unwrap().step, STEPS + 40);
        assert_eq!(reader.step(7).unwrap().step, 7);
        let none = reader.step(STEPS + 41).unwrap_err();
        assert!(none.text().ends_with(&format!("the nearest: {}", STEPS + 40)), "{none}");
    }
    assert_eq!(reader.numbers_at(&reader.moment().unwrap()).unwrap(), Vec::from_iter(0..STEPS + 41));
    let took = began.elapsed();
    assert!(took < ENOUGH, "it took {took:?}");
    assert_eq!(std::fs::read_dir(dir.join("steps")).unwrap().count() as i64, STEPS + 41);
}

#[test]
fn small_steps_that_come_faster_than_the_disk_takes_them_become_durable_together() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(dir.path(), Fault::None, 0);
    let owner =
        Owner::open(&dir.path().join("fast.fb"), Options { disk: disk.clone(), ..Options::default() })
            .unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    rank.ask(&Ask::Flush).unwrap();
    let before = disk.places().len();
    let held = disk.hold();
    (0..300).for_each(|step| rank.step(step, &f64s(10, step as u64)));
    drop(held);
    rank.ask(&Ask::Flush).unwrap();
    let places = disk.places().split_off(before);
    let count = |what: &str| places.iter().filter(|place| place.starts_with(what)).count();
    assert_eq!((count("sync fast.fb/steps"), count("rename fast.fb/steps")), (300, 300), "each for itself");
    let (names, rows) = (count("sync directory"), count("after Commit"));
    assert!(names <= 60 && rows <= 60, "{names} times for names, {rows} times for rows");
    owner.close().unwrap();
    let reader = Reader::open(&dir.path().join("fast.fb")).unwrap();
    assert_eq!(reader.steps().unwrap().len(), 300);
    assert_eq!(reader.step_get(299, "x", &Selection::default()).unwrap().bytes, f64s(10, 299));
}
