//! A damaged run keeps what can be read of it, says what cannot, and goes on: catalogs with broken
//! pages, flipped bits, files that are gone.

use crate::common::{Rank, f64s, recover_without_memory, shape, wait_for};
use forebay_store::{Options, Owner, Progress, Reader, recover, repair, verify, verify_with};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, Mode, Restarted, TableInfo};
use forebay_types::record::{Cell, Place, Record};
use forebay_types::{Code, Selection, Slice};
use rusqlite::Connection;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const PAGE: usize = 16384;

pub fn all() -> Selection {
    Selection::default()
}

pub fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    (dir, run)
}

#[test]
fn what_a_program_puts_again_while_verify_reads_is_no_fault() {
    let (_dir, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.put("x", &f64s(20_000, 1), None);
    owner.flush(Duration::from_secs(30)).unwrap();
    let ((listed, has_listed), (go, goes_on)) = (channel(), channel());
    let goes_on = Mutex::new(goes_on);
    let at_first = AtomicBool::new(true);
    let progress = move |_, _| {
        if at_first.swap(false, Ordering::SeqCst) {
            listed.send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
        }
    };
    let found = std::thread::scope(|s| {
        let looking = s.spawn(|| verify_with(&run, &(Arc::new(progress) as Progress)).unwrap());
        has_listed.recv().unwrap();
        rank.put("x", &f64s(20_000, 2), None);
        owner.flush(Duration::from_secs(30)).unwrap();
        go.send(()).unwrap();
        looking.join().unwrap()
    });
    assert_eq!((found.faults, found.data_sets), (vec![], 1));
}

pub fn table(rank: &mut Rank, name: &str) -> TableInfo {
    let column = |name: &str, dtype: &str| Column {
        name: name.into(),
        dtype: dtype.into(),
        units: "s".into(),
        ..Default::default()
    };
    let columns = vec![column("k", "i64"), column("s", "str")];
    let made = rank.ask(&Ask::Table { name: name.into(), columns, history: false }).unwrap();
    serde_json::from_value(made).unwrap()
}

pub fn insert(rank: &mut Rank, table: &TableInfo, rows: std::ops::Range<i64>) {
    for first in rows.clone().step_by(500) {
        let mut w = Writer::new();
        let last = (first + 500).min(rows.end);
        for k in first..last {
            Cell::Int(k).encode(&mut w);
            Cell::Text(format!("row {k} {}", "y".repeat(50))).encode(&mut w);
        }
        let cells = w.finish();
        rank.publish(&Record::Insert {
            table: table.id,
            step: 0,
            rows: (last - first) as u32,
            cells: &cells,
        });
    }
}

pub fn rows(run: &Path, table: &str) -> Vec<i64> {
    let found = Reader::open(run).unwrap().select(table, "", &[]).unwrap().rows;
    found.iter().map(|r| if let Cell::Int(k) = r[0] { k } else { panic!("{r:?}") }).collect()
}

pub fn steps(run: &Path) -> Vec<i64> {
    Reader::open(run).unwrap().steps().unwrap().iter().map(|s| s.step).collect()
}

pub fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

/// Turns a byte of a file over.
pub fn flip(file: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Overwrites pages of a catalog.
fn break_pages(catalog: &Path, pages: std::ops::Range<u64>) {
    let file = std::fs::OpenOptions::new().write(true).open(catalog).unwrap();
    for page in pages {
        file.write_all_at(&[0xff; PAGE], page * PAGE as u64).unwrap();
    }
}

/// Pages of a catalog that hold a text, counted from 0.
pub fn pages_with(catalog: &Path, text: &str) -> Vec<u64> {
    let bytes = std::fs::read(catalog).unwrap();
    let holds = |page: &[u8]| page.windows(text.len()).any(|w| w == text.as_bytes());
    bytes.chunks(PAGE).enumerate().filter(|(_, page)| holds(page)).map(|(i, _)| i as u64).collect()
}

/// A run with tables, small sets, a large one and steps, as a killed owner leaves it: its log holds
/// the last third of the table.
pub fn crashed(run: &Path) -> PathBuf {
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let t = table(&mut rank, "t");
    insert(&mut rank, &t, 0..20_000);
    for n in 0..50 {
        rank.put(&format!("small/{n}"), &f64s(8, n), None);
    }
    rank.put("large", &f64s(20_000, 1), None);
    for step in 0..3 {
        rank.step(step, &f64s(1000, step as u64));
    }
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    // The log is moved once for the session; what comes then stays in it.
    let main = run.with_file_name("main.sqlite");
    wait_for("the session in the catalog's own file", || {
        std::fs::copy(run.join("catalog.sqlite"), &main).unwrap();
        let conn = Connection::open(&main).unwrap();
        conn.query_row("SELECT 1 FROM fb_sessions WHERE session = 2", (), |_| Ok(())).ok()
    });
    insert(&mut rank, &t, 20_000..30_000);
    rank.ask(&Ask::Flush).unwrap();
    let left = run.with_file_name("killed.fb");
    copy(run, &left);
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    left
}

#[test]
fn a_broken_page_costs_the_rows_in_it_and_nothing_else_and_the_log_moves_along() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let catalog = run.join("catalog.sqlite");
    let of_table = pages_with(&catalog, "row 9000 yyy");
    break_pages(&catalog, of_table[0]..of_table[0] + 1);
    let faults = verify(&run).unwrap().faults;
    assert!(!faults.is_empty() && faults.iter().all(|f| f.starts_with("catalog.sqlite: ")), "{faults:?}");
    let done = repair(&run).unwrap();
    let t = done.saved.iter().find(|s| s.name == "t").unwrap();
    let saved = rows(&run, "t");
    assert!(!done.is_whole() && !done.lost_catalog && !t.more, "{done:?}");
    assert_eq!((t.rows as usize, t.lost), (saved.len(), 30_000 - t.rows));
    assert!((1..400).contains(&t.lost), "{t:?}");
    let gap: Vec<i64> = (0..30_000).filter(|k| saved.binary_search(k).is_err()).collect();
    assert_eq!(gap.len() as i64, gap[gap.len() - 1] - gap[0] + 1, "rows of one page");
    assert!(gap.contains(&9000));
    let others = done.saved.iter().filter(|s| s.name != "t");
    assert!(others.clone().all(|s| s.is_whole()), "{:?}", others.collect::<Vec<_>>());
    let reader = Reader::open(&run).unwrap();
    for n in 0..50 {
        assert_eq!(reader.get(&format!("small/{n}"), 0, &all()).unwrap().bytes, f64s(8, n));
    }
    assert_eq!(reader.get("large", 0, &all()).unwrap().bytes, f64s(20_000, 1));
    assert_eq!((done.steps, steps(&run)), (3, vec![0, 1, 2]));
    let kept = done.old_catalog.unwrap();
    assert_eq!(kept.file_name().unwrap(), "catalog.damaged-1.sqlite");
    assert!(kept.with_file_name("catalog.damaged-1.sqlite-wal").metadata().unwrap().len() > 0);
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    assert!(repair(&run).unwrap().is_whole(), "what is missing is said once");
    // The segment of this rank is gone; the session is over at the next opening.
    recover_without_memory(&run).unwrap();
    assert_eq!(rows(&run, "t").len(), saved.len());
}

#[test]
fn many_broken_pages_and_the_last_one_leave_all_rows_of_the_others() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let catalog = run.join("catalog.sqlite");
    // Without its log the catalog ends with row 19,999.
    std::fs::remove_file(run.join("catalog.sqlite-wal")).unwrap();
    let broken = ["row 0 y", "row 5000 y", "row 5500 y", "row 11000 y", "row 19999 y"];
    for text in broken {
        let page = pages_with(&catalog, text)[0];
        break_pages(&catalog, page..page + 1);
    }
    let done = repair(&run).unwrap();
    let t = done.saved.iter().find(|s| s.name == "t").unwrap();
    assert!(t.more, "how many rows the last page held nobody knows");
    assert!((19_999 - 5 * 350..20_000 - 5 * 100).contains(&(t.rows as i64)), "{t:?}");
    let saved = rows(&run, "t");
    assert_eq!(saved.len(), t.rows as usize);
    for k in [0, 5000, 5500, 11_000, 19_999] {
        assert!(saved.binary_search(&k).is_err(), "{k}");
    }
    assert!(saved.windows(2).all(|w| w[0] < w[1]), "in their order, none twice");
}

#[test]
fn a_single_fault_of_the_catalog_is_found_and_when_no_row_is_hit_none_is_lost() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let catalog = run.join("catalog.sqlite");
    recover_without_memory(&run).unwrap();
    // The count of free pages in the header.
    std::fs::OpenOptions::new().write(true).open(&catalog).unwrap().write_all_at(&[0, 0, 0, 7], 36).unwrap();
    let faults = verify(&run).unwrap().faults;
    assert!(faults.len() == 1 && faults[0].to_lowercase().contains("freelist"), "{faults:?}");
    let done = repair(&run).unwrap();
    assert!(done.lacks_nothing() && done.old_catalog.is_some(), "{done:?}");
    let named = done.faults.iter().any(|f| f.to_lowercase().contains("freelist"));
    assert!(!done.is_whole() && named, "that something was wrong is no secret: {done:?}");
    assert_eq!(rows(&run, "t"), (0..30_000).collect::<Vec<_>>());
    assert_eq!(Reader::open(&run).unwrap().list("small/*", None).unwrap().len(), 50);
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    let t = table(&mut rank, "t");
    insert(&mut rank, &t, 30_000..30_010);
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    assert_eq!(rows(&run, "t").len(), 30_010);
}

#[test]
fn a_catalog_that_cannot_be_looked_at_is_left_alone() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let (catalog, aside) = (run.join("catalog.sqlite"), run.join("catalog.sqlite.elsewhere"));
    let log = std::fs::read(run.join("catalog.sqlite-wal")).unwrap();
    std::fs::rename(&catalog, &aside).unwrap();
    std::fs::create_dir(&catalog).unwrap();
    let e = repair(&run).unwrap_err();
    assert!(e.text().contains("nothing was changed"), "{e}");
    assert!(catalog.is_dir());
    assert_eq!(std::fs::read(run.join("catalog.sqlite-wal")).unwrap(), log);
    std::fs::remove_dir(&catalog).unwrap();
    std::fs::rename(&aside, &catalog).unwrap();
    assert!(repair(&run).unwrap().is_whole());
    assert_eq!(rows(&run, "t").len(), 30_000);
}

#[test]
fn a_lost_catalog_is_said_to_be_lost() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
    assert_eq!(Reader::open(&run).err().unwrap().code(), Code::Corrupt);
    let done = repair(&run).unwrap();
    assert!(done.lost_catalog && !done.is_whole());
    // The log that was left belongs to no catalog; it must not be taken for that of the new one.
    assert!(done.old_catalog.is_some_and(|p| p.with_file_name("catalog.damaged-1.sqlite-wal").exists()));
    assert_eq!(steps(&run), [0, 1, 2]);
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
}

#[test]
fn a_catalog_that_is_cut_to_nothing_or_is_another_data_base_is_made_anew_from_the_files() {
    for cut in [Some(0), Some(100), Some(511), None] {
        let (_keep, run) = scratch();
        let run = crashed(&run);
        recover_without_memory(&run).unwrap();
        let catalog = run.join("catalog.sqlite");
        std::fs::write(&catalog, &std::fs::read(&catalog).unwrap()[..cut.unwrap_or(0)]).unwrap();
        if cut.is_none() {
            Connection::open(&catalog).unwrap().execute_batch("CREATE TABLE else_where(x)").unwrap();
        }
        let done = repair(&run).unwrap();
        assert!(
            done.lost_catalog && done.old_catalog.is_some() && done.listed == [0, 1, 2],
            "{cut:?}: {done:?}"
        );
        assert_eq!(steps(&run), [0, 1, 2]);
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
        assert!(repair(&run).unwrap().is_whole());
        Owner::open(&run, Options::default()).unwrap().close().unwrap();
    }
}

#[test]
fn the_log_of_a_catalog_that_is_gone_is_not_taken_for_that_of_a_new_run() {
    let (_keep, run) = scratch();
    let left = crashed(&run);
    let log = std::fs::read(left.join("catalog.sqlite-wal")).unwrap();
    std::fs::remove_dir_all(&left).unwrap();
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("catalog.sqlite-wal"), log).unwrap();
    let e = Owner::open(&left, Options::default()).err().unwrap();
    assert!(e.code() == Code::Corrupt && e.text().contains("no catalog"), "{e}");
    Owner::open(&left, Options { mode: Mode::Write, ..Options::default() }).unwrap().close().unwrap();
    assert!(Reader::open(&left).unwrap().tables().unwrap().is_empty());
    assert_eq!(verify(&left).unwrap().faults, Vec::<String>::new());
}

#[test]
fn a_repair_that_was_killed_while_it_exchanged_the_catalogs_is_finished_by_the_next_one() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let name = |n: &str| run.join(n);
    let (old, new) = (name("catalog.sqlite"), name("catalog.sqlite.repaired"));
    let log = name("catalog.sqlite-wal");
    // The new one is whole and the old one has not gone: it may have been written since.
    std::fs::write(&new, b"of yesterday").unwrap();
    assert!(repair(&run).unwrap().is_whole());
    assert!(!new.exists());
    assert_eq!(rows(&run, "t").len(), 30_000);
    // The old one has gone, its log has not.
    let good = name("good");
    Connection::open(&old).unwrap().execute("VACUUM INTO ?1", [good.to_str().unwrap()]).unwrap();
    std::fs::rename(&good, &new).unwrap();
    std::fs::rename(&old, name("catalog.damaged-1.sqlite")).unwrap();
    std::fs::write(&log, b"the log of the old one").unwrap();
    for mode in [Mode::Append, Mode::ReadWrite] {
        let e = Owner::open(&run, Options { mode, ..Options::default() }).err().unwrap();
        assert!(e.code() == Code::Corrupt && e.text().contains("forebay repair"), "{e}");
    }
    assert!(repair(&run).unwrap().is_whole());
    assert_eq!(rows(&run, "t").len(), 30_000);
    let kept = std::fs::read(name("catalog.damaged-1.sqlite-wal")).unwrap();
    assert_eq!(kept, b"the log of the old one");
}

#[test]
fn a_damaged_file_of_a_data_set_is_put_aside_and_never_deleted() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let file = std::fs::read_dir(run.join("data")).unwrap().flatten().next().unwrap().path();
    std::fs::write(&file, b"no HDF5").unwrap();
    std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
    assert_eq!(repair(&run).unwrap().unusable.len(), 1);
    recover(&run).unwrap();
    let kept = file.with_file_name(format!("{}.bad", file.file_name().unwrap().to_string_lossy()));
    assert_eq!(std::fs::read(kept).unwrap(), b"no HDF5");
}

/// A run of two ranks whose arrays are put together of two pieces.
pub fn of_two_ranks(run: &Path, last: i64) {
    let owner = Owner::open(run, Options { ..Options::default() }).unwrap();
    let mut ranks: Vec<Rank> = (0..2).map(|r| Rank::open(&owner, r, 2, 8 << 20)).collect();
    for step in 0..=last {
        for r in &mut ranks {
            r.begin(step);
            let place = Place::At { offset: shape(&[u64::from(r.rank) * 5000]), global: shape(&[10_000]) };
            let n = r.array(step, "E", &f64s(5000, step as u64), place, usize::MAX);
            r.end(step, n);
        }
        ranks[0].ask(&Ask::WaitStep { step }).unwrap();
    }
    ranks[0].put("large", &f64s(20_000, 3), None);
    ranks[0].put("small", &f64s(100, 3), None);
    ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::Close { finished: false }).unwrap()));
    owner.close().unwrap();
}

pub fn step_path(run: &Path, step: i64) -> PathBuf {
    run.join(forebay_store::layout::step_file(step))
}

/// Turns a byte of an array of a step over.
fn damage(run: &Path, step: i64, element: u64) {
    let at = Reader::open(run).unwrap().step_info(step, "E").unwrap().offset;
    flip(&step_path(run, step), at + element * 8 + 3);
}

pub fn part(start: u64, count: u64) -> Selection {
    Selection(vec![Slice { start, count, step: 1, squeeze: false }])
}

#[test]
fn a_reading_of_whole_pieces_sees_a_bit_that_flipped_and_says_where_and_what_to_do() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 1);
    damage(&run, 1, 7000);
    let reader = Reader::open(&run).unwrap();
    for sel in [all(), part(5000, 5000), part(4000, 6000)] {
        let e = reader.step_get(1, "E", &sel).unwrap_err();
        assert_eq!(e.code(), Code::Corrupt);
        for word in ["\"E\" of step 1", "0000000001.h5", "rank 1", "forebay repair", "forebay drop"] {
            assert!(e.text().contains(word), "{word}: {e}");
        }
    }
    // What is whole can be read still.
    assert_eq!(reader.step_get(1, "E", &part(0, 5000)).unwrap().bytes, f64s(5000, 1));
    assert_eq!(reader.step_get(1, "E", &part(8000, 10)).unwrap().bytes, f64s(5000, 1)[24_000..24_080]);
    assert!(reader.step_get(0, "E", &all()).is_ok());
    // Data sets outside steps, in files and in the catalog.
    let file = reader.info("large", 0).unwrap().file.unwrap();
    flip(&run.join(&file.0), file.1 + 77);
    let e = reader.get("large", 0, &all()).unwrap_err();
    assert!(
        e.code() == Code::Corrupt && e.text().contains(&file.0) && e.text().contains("forebay rm"),
        "{e}"
    );
    let conn = Connection::open(run.join("catalog.sqlite")).unwrap();
    let other = f64s(100, 4);
    conn.execute("UPDATE fb_data SET value = ?1 WHERE name = 'small'", [other]).unwrap();
    for sel in [all(), part(3, 4)] {
        let e = reader.get("small", 0, &sel).unwrap_err();
        assert!(e.code() == Code::Corrupt && e.text().contains("catalog.sqlite"), "{e}");
    }
    let faults = verify(&run).unwrap().faults;
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn a_file_that_is_cut_off_or_gone_is_damaged_and_no_lost_server() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 1);
    let reader = Reader::open(&run).unwrap();
    let large = run.join(reader.info("large", 0).unwrap().file.unwrap().0);
    for path in [step_path(&run, 1), large.clone()] {
        let length = path.metadata().unwrap().len();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 3).unwrap();
    }
    let read = || [reader.step_get(1, "E", &all()), reader.get("large", 0, &all())];
    for e in read().map(Result::unwrap_err) {
        assert!(
            e.code() == Code::Corrupt && e.text().contains(".h5") && e.text().contains("too early"),
            "{e}"
        );
    }
    std::fs::remove_file(step_path(&run, 1)).unwrap();
    std::fs::remove_file(large).unwrap();
    for e in read().map(Result::unwrap_err) {
        assert!(e.code() == Code::Corrupt && e.text().contains("is not there"), "{e}");
    }
    assert_eq!(verify(&run).unwrap().faults.len(), 2);
}

#[test]
fn repair_marks_damaged_steps_and_listings_and_restarts_pass_them_over() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 4);
    damage(&run, 1, 0);
    damage(&run, 3, 9000);
    std::fs::remove_file(step_path(&run, 4)).unwrap();
    let done = repair(&run).unwrap();
    let marked: Vec<i64> = done.damaged.iter().map(|d| d.0).collect();
    assert_eq!((marked, done.steps, done.is_whole(), done.old_catalog), (vec![1, 3, 4], 2, false, None));
    assert!(done.damaged[1].1.contains("0000000003.h5") && done.damaged[1].1.contains("rank 1"));
    let reader = Reader::open(&run).unwrap();
    assert_eq!((steps(&run), reader.last_step().unwrap().unwrap().step), (vec![0, 2], 2));
    assert_eq!(reader.step_get(3, "E", &part(0, 5000)).unwrap().bytes, f64s(5000, 3), "what is whole");
    assert_eq!(verify(&run).unwrap().faults.len(), 3, "they are damaged still");
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut ranks: Vec<Rank> = (0..2).map(|r| Rank::open(&owner, r, 2, 8 << 20)).collect();
    let e = ranks[0].ask(&Ask::Restart { tag: None, strict: true }).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.text().contains("steps 3, 4 are damaged"), "{e}");
    for r in &mut ranks {
        let back = r.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
        let back: Restarted = serde_json::from_value(back).unwrap();
        assert_eq!((back.step, back.passed), (2, vec![3, 4]), "the same for every rank");
    }
    let said = reader.messages(10).unwrap();
    assert!(said.iter().any(|m| m.2.contains("steps 3, 4 are damaged")), "{said:?}");
    // The steps that were passed over are made again.
    for step in [3, 4] {
        for r in &mut ranks {
            r.begin(step);
            let place = Place::At { offset: shape(&[u64::from(r.rank) * 5000]), global: shape(&[10_000]) };
            let n = r.array(step, "E", &f64s(5000, 30 + step as u64), place, usize::MAX);
            r.end(step, n);
        }
        ranks[0].ask(&Ask::WaitStep { step }).unwrap();
    }
    owner.close().unwrap();
    assert_eq!(steps(&run), [0, 2, 3, 4]);
    let e = reader.step_get(3, "E", &all()).unwrap();
    assert_eq!(e.bytes, [f64s(5000, 33), f64s(5000, 33)].concat());
    assert_eq!(repair(&run).unwrap().damaged.len(), 1, "step 1");
    // A file that comes back from a copy is sound again.
    damage(&run, 1, 0);
    assert!(repair(&run).unwrap().is_whole());
    assert_eq!(steps(&run), [0, 1, 2, 3, 4]);
}

#[test]
fn a_run_whose_steps_are_all_damaged_begins_anew() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 1);
    (0..2).for_each(|step| damage(&run, step, 0));
    repair(&run).unwrap();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    assert!(rank.ask(&Ask::Restart { tag: None, strict: false }).unwrap().is_null());
    rank.step(0, &f64s(10, 0));
    rank.ask(&Ask::WaitStep { step: 0 }).unwrap();
    owner.close().unwrap();
    assert_eq!(steps(&run), [0]);
}

#[test]
fn a_step_that_is_dropped_is_gone_for_good_and_its_number_is_free() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 3);
    damage(&run, 2, 1);
    repair(&run).unwrap();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(2, &f64s(10, 0));
    rank.ask(&Ask::Flush).unwrap();
    assert!(
        rank.late[0].code() == Code::Conflict && rank.late[0].text().contains("damaged"),
        "{:?}",
        rank.late
    );
    for step in [2, 3] {
        assert_eq!(rank.ask(&Ask::DropStep { step }).unwrap(), true);
        assert_eq!(rank.ask(&Ask::DropStep { step }).unwrap(), false, "another rank may ask, too");
        assert!(!step_path(&run, step).exists());
    }
    rank.step(2, &f64s(10, 5));
    // It is dropped when it is complete, not before.
    rank.step(7, &f64s(10, 5));
    assert_eq!(rank.ask(&Ask::DropStep { step: 7 }).unwrap(), true);
    owner.close().unwrap();
    assert_eq!(steps(&run), [0, 1, 2]);
    assert_eq!(Reader::open(&run).unwrap().step_get(2, "x", &all()).unwrap().bytes, f64s(10, 5));
    assert!(repair(&run).unwrap().is_whole());
    // As if the owner had been killed between the end of the row and that of the file.
    let conn = Connection::open(run.join("catalog.sqlite")).unwrap();
    conn.execute_batch(
        "DELETE FROM fb_step_data WHERE step = 1; DELETE FROM fb_steps WHERE step = 1;
         INSERT INTO fb_dropped VALUES('steps/0000000001.h5')",
    )
    .unwrap();
    drop(conn);
    assert!(repair(&run).unwrap().is_whole());
    assert_eq!(steps(&run), [0, 2]);
    recover(&run).unwrap();
    assert_eq!(steps(&run), [0, 2]);
    assert!(!step_path(&run, 1).exists());
}

#[test]
fn a_catalog_that_is_removed_or_replaced_under_its_owner_is_said_and_what_it_held_is_saved() {
    for replaced in [false, true] {
        let (_keep, run) = scratch();
        let owner = Owner::open(&run, Options::default()).unwrap();
        let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
        let t = table(&mut rank, "t");
        insert(&mut rank, &t, 0..1000);
        rank.step(0, &f64s(1000, 0));
        rank.ask(&Ask::WaitStep { step: 0 }).unwrap();
        rank.ask(&Ask::Flush).unwrap();
        let catalog = run.join("catalog.sqlite");
        std::fs::remove_file(&catalog).unwrap();
        if replaced {
            std::fs::write(&catalog, b"another one").unwrap();
        }
        insert(&mut rank, &t, 1000..1500);
        let answered = rank.ask(&Ask::Flush);
        assert!(answered.is_err(), "it is not durable");
        rank.notice(0);
        let told = rank.late.iter().map(|e| e.text().to_owned()).collect::<Vec<_>>().join("\n");
        assert!(told.contains("catalog.sqlite") && told.contains("nothing more is durable"), "{told}");
        let e = owner.close().unwrap_err();
        assert!(e.code() == Code::Corrupt && e.text().contains("forebay recover"), "{e}");
        assert!(!run.join("catalog.sqlite-wal").exists(), "it would be read into another catalog");
        if replaced {
            assert_eq!(std::fs::read(&catalog).unwrap(), b"another one", "it is not ours to overwrite");
            let saved = run.join("catalog.sqlite.saved-1");
            std::fs::copy(&saved, &catalog).unwrap();
            for e in [recover(&run).unwrap_err(), repair(&run).unwrap_err()] {
                assert!(e.code() == Code::Conflict && e.text().contains("saved-1"), "{e}");
            }
            std::fs::rename(saved, &catalog).unwrap();
        }
        recover(&run).unwrap();
        assert_eq!(rows(&run, "t"), (0..1500).collect::<Vec<_>>());
        assert_eq!(steps(&run), [0]);
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    }
}

#[test]
fn a_file_is_found_in_the_catalog_without_a_look_at_every_row() {
    let (_keep, run) = scratch();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1"), &run);
    let plan = |sql: &str| -> String {
        let conn = Connection::open(run.join("catalog.sqlite")).unwrap();
        conn.query_row(&format!("EXPLAIN QUERY PLAN {sql}"), (), |r| r.get(3)).unwrap()
    };
    let questions =
        ["SELECT step FROM fb_steps WHERE file = 'x'", "SELECT 1 FROM fb_data WHERE file = 'x' LIMIT 1"];
    questions.iter().for_each(|q| assert!(plan(q).starts_with("SCAN"), "an older run has no indexes"));
    recover(&run).unwrap();
    questions.iter().for_each(|q| assert!(plan(q).starts_with("SEARCH"), "{}", plan(q)));
}

pub fn change(run: &Path, sql: &str) {
    Connection::open(run.join("catalog.sqlite")).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn a_large_data_set_under_a_number_that_is_not_its_own_gets_its_own_again() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 0);
    let other = "UPDATE fb_data SET set_number = 64 WHERE name = 'large'";
    let shape = "UPDATE fb_data SET shape = '[20004]' WHERE name = 'large'";
    for sql in [other, shape] {
        change(&run, sql);
        assert_eq!(verify(&run).unwrap().faults.len(), 1, "{sql}");
        let done = repair(&run).unwrap();
        assert!(!done.is_whole() && done.lacks_nothing() && done.mended.len() == 1, "{sql}: {done:?}");
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new(), "{sql}");
        assert_eq!(Reader::open(&run).unwrap().get("large", 0, &all()).unwrap().bytes, f64s(20_000, 3));
    }
    let place = "UPDATE fb_data SET file_offset = file_offset + 8 WHERE name = 'large'";
    let sum = "UPDATE fb_data SET crc32c = crc32c + 1 WHERE name = 'large'";
    for sql in [place, sum] {
        change(&run, sql);
        let found = verify(&run).unwrap();
        assert!(found.faults.len() == 1 && found.lost_sets.is_empty(), "{sql}: {found:?}");
        let done = repair(&run).unwrap();
        assert!(done.lacks_nothing() && done.mended.len() == 1, "{sql}: {done:?}");
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new(), "{sql}");
        assert_eq!(
            Reader::open(&run).unwrap().get("large", 0, &part(3, 4)).unwrap().bytes,
            f64s(20_000, 3)[24..56]
        );
    }
    change(&run, shape);
    let e = Reader::open(&run).unwrap().get("large", 0, &part(3, 4)).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.text().contains("forebay repair"), "{e}");
    repair(&run).unwrap();
    // One that has another name since it was put is no second one.
    change(&run, "UPDATE fb_data SET name = 'other' WHERE name = 'large'");
    assert!(repair(&run).unwrap().is_whole());
    assert_eq!(Reader::open(&run).unwrap().list("*", None).unwrap().len(), 2);
}
