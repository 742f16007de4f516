//! Damage to a catalog that SQLite reads without a word, or not at all: pages that hide rows, the first page, a log
//! that is broken, text that is none.

use crate::care::{PAGE, copy, crashed, flip, insert, pages_with, rows, scratch, steps, table};
use crate::common::{Rank, f64s, recover_without_memory, wait_for};
use crate::elsewhere::{left, recovered};
use forebay_store::{Options, Owner, Reader, doubt, lacks_catalog, recover, repair, verify};
use forebay_types::control::{Ask, Elsewhere};
use forebay_types::{Code, Error};
use rusqlite::Connection;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// In the second frame of a log.
const SECOND: u64 = 32 + 24 + PAGE as u64 + 100;

fn write(file: &Path, bytes: &[u8], at: u64) {
    std::fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, at).unwrap();
}

/// A run of 30,000 rows that nobody has open, and that needs no log.
fn settled() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (keep, run) = scratch();
    let run = crashed(&run);
    recover_without_memory(&run).unwrap();
    let catalog = run.join("catalog.sqlite");
    (keep, run, catalog)
}

/// What lies there while a program has the catalog open and has done this to it, as one that was killed leaves it.
fn killed(run: &Path, with: &str) -> PathBuf {
    let left = run.with_file_name("left.fb");
    let conn = Connection::open(run.join("catalog.sqlite")).unwrap();
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA page_size = 16384").unwrap();
    conn.execute_batch(with).unwrap();
    copy(run, &left);
    left
}

#[test]
fn rows_that_a_damaged_page_hides_without_an_error_are_said_not_to_be_counted() {
    // Where a page of rows has its count of rows, where its first row lies, and where its rows begin.
    for (what, at, bytes) in [
        ("half its rows", 3, [0u8, 40]),
        ("a row's place", 8, [0x21, 0x21]),
        ("another row's place", 12, [0, 1]),
    ] {
        let (_keep, run, catalog) = settled();
        let page = pages_with(&catalog, "row 9000 yyy")[0] * PAGE as u64;
        write(&catalog, &bytes, page + at);
        assert!(!verify(&run).unwrap().faults.is_empty(), "{what}");
        let done = repair(&run).unwrap();
        let t = done.saved.iter().find(|s| s.name == "t").unwrap();
        assert!(t.more && !done.lacks_nothing(), "{what}: {t:?}");
        assert!(
            done.saved.iter().filter(|s| s.name != "t").all(|s| s.is_whole()),
            "{what}: {:?}",
            done.saved
        );
        let saved = Reader::open(&run).unwrap().select("t", "", &[]).unwrap().rows.len();
        assert!((29_000..=30_000).contains(&saved), "{what}: {saved}");
        assert!(repair(&run).unwrap().is_whole(), "{what}: it is said once");
    }
}

#[test]
fn a_damaged_list_of_tables_is_never_called_sound_when_tables_are_gone() {
    let mut gone = 0;
    for at in (100..PAGE as u64).step_by(PAGE / 16) {
        let (_keep, run, catalog) = settled();
        let end = (at + PAGE as u64 / 16).min(PAGE as u64);
        write(&catalog, &vec![0; (end - at) as usize], at);
        let done = repair(&run).unwrap();
        let rows = Reader::open(&run).unwrap().select("t", "", &[]).map_or(0, |found| found.rows.len());
        assert!(
            rows == 30_000 || !done.lacks_nothing(),
            "{rows} rows with bytes from {at} on gone: {done:?}"
        );
        gone += usize::from(rows == 0);
    }
    assert!(gone > 0, "no damage has cost the table");
}

#[test]
fn whoever_meets_a_damaged_catalog_hears_of_which_run_and_of_the_way_out() {
    let (_keep, run, catalog) = settled();
    let whole = std::fs::read(&catalog).unwrap();
    let mut met = 0;
    let pages = whole.len().div_ceil(PAGE);
    for page in (1..pages).step_by(pages / 16) {
        write(&catalog, &[0xa5; PAGE], (page * PAGE) as u64);
        let read = Reader::open(&run).and_then(|reader| {
            reader.steps()?;
            reader.list("*", None)?;
            reader.checkpoints()?;
            reader.select("t", "", &[]).map(drop)
        });
        let written = recover(&run).map(drop);
        for e in [read, written].into_iter().filter_map(Result::err) {
            let text = e.text();
            assert!(text.contains(&format!("{}", run.display())), "page {page}: {text}");
            assert!(text.contains("`forebay repair "), "page {page}: {text}");
            met += 1;
        }
        let _ = std::fs::remove_file(run.join("catalog.sqlite-wal"));
        let _ = std::fs::remove_file(run.join("catalog.sqlite-shm"));
        std::fs::write(&catalog, &whole).unwrap();
    }
    assert!(met > 3, "{met}");
}

#[test]
fn a_damaged_first_page_costs_nothing_that_stands_on_others() {
    let single = (0..24u64).chain(44..60).chain([100]).map(|at| (at, 1));
    for (at, n) in single.chain([(0, 16), (16, 16), (0, 60), (32, 68)]) {
        let (_keep, run, catalog) = settled();
        let mut bytes = vec![0; n];
        std::fs::File::open(&catalog).unwrap().read_exact_at(&mut bytes, at).unwrap();
        bytes.iter_mut().for_each(|b| *b ^= 0xa5);
        write(&catalog, &bytes, at);
        let is_seen = verify(&run).map_or(true, |r| !r.faults.is_empty());
        let done = repair(&run).unwrap_or_else(|e| panic!("{n} bytes at {at}: {e}"));
        assert!(!done.lost_catalog && done.older.is_none(), "{n} bytes at {at}: {done:?}");
        assert_eq!(rows(&run, "t").len(), 30_000, "{n} bytes at {at}");
        assert!(!is_seen || !done.is_whole(), "{n} bytes at {at}: {done:?}");
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new(), "{n} bytes at {at}");
        Owner::open(&run, Options::default()).unwrap().close().unwrap();
    }
}

#[test]
fn a_byte_of_the_list_of_tables_that_turned_costs_no_row() {
    let (_keep, run, catalog) = settled();
    let bytes = std::fs::read(&catalog).unwrap();
    let at = |text: &str| bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
    let other = run.with_file_name("other.fb");
    let texts =
        ["CREATE TABLE fb_sessions", "CREATE TABLE fb_data", "CREATE TABLE fb_tables", "CREATE TABLE \"t\""];
    for text in texts {
        let begin = at(text);
        let end = begin + bytes[begin..].iter().position(|b| *b == 0 || *b > 126).unwrap_or(0).min(120);
        // The name that stands before it, and places in it.
        for byte in [begin - 3].into_iter().chain((begin..end.max(begin + 20)).step_by(11)) {
            for turned in [205, 1] {
                copy(&run, &other);
                write(&other.join("catalog.sqlite"), &[bytes[byte] ^ turned], byte as u64);
                let what = format!("{text:?} byte {} ^ {turned}", byte as i64 - begin as i64);
                let is_seen = verify(&other).map_or(true, |found| !found.faults.is_empty());
                let done = repair(&other).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(is_seen && !done.is_whole() && !done.lost_catalog, "{what}: {done:?}");
                assert_eq!(rows(&other, "t").len(), 30_000, "{what}: {done:?}");
                let reader = Reader::open(&other).unwrap();
                assert_eq!(reader.list("small/*", None).unwrap().len(), 50, "{what}");
                assert_eq!(steps(&other), [0, 1, 2], "{what}");
                assert!(done.lacks_nothing(), "{what}: {done:?}");
                assert_eq!(verify(&other).unwrap().faults, Vec::<String>::new(), "{what}");
                std::fs::remove_dir_all(&other).unwrap();
            }
        }
    }
}

#[test]
fn a_generation_that_no_catalog_has_is_a_fault_that_is_mended() {
    let (_keep, run, catalog) = settled();
    write(&catalog, &[0xff; 4], 60);
    let faults = verify(&run).unwrap().faults;
    assert!(faults.iter().any(|f| f.contains("its generation is -1")), "{faults:?}");
    let e = Owner::open(&run, Options::default()).err().unwrap();
    assert!(e.code() == Code::Corrupt && e.text().contains("forebay repair"), "{e}");
    let done = repair(&run).unwrap();
    assert!(done.lacks_nothing() && !done.is_whole(), "{done:?}");
    assert_eq!((rows(&run, "t").len(), verify(&run).unwrap().faults), (30_000, Vec::new()));
    Owner::open(&run, Options::default()).unwrap().close().unwrap();
}

#[test]
fn text_that_is_none_is_found_and_mended_and_the_rest_of_its_row_is_kept() {
    let (_keep, run, catalog) = settled();
    let broken = "UPDATE t SET s = CAST(x'726f77ff21' AS TEXT) WHERE k = 77;
                  UPDATE fb_data SET unit = CAST(x'6dff' AS TEXT) WHERE name = 'small/7'";
    Connection::open(&catalog).unwrap().execute_batch(broken).unwrap();
    let e = Reader::open(&run).unwrap().list("*", None).unwrap_err();
    assert_eq!(e.code(), Code::Corrupt, "{e}");
    let faults = verify(&run).unwrap().faults;
    for table in ["t", "fb_data"] {
        let line = format!("1 row of the table {table:?}");
        assert!(faults.iter().any(|f| f.contains(&line)), "{faults:?}");
    }
    let done = repair(&run).unwrap();
    let t = done.saved.iter().find(|s| s.name == "t").unwrap();
    assert!(!done.is_whole() && t.garbled == 1 && t.lost == 0, "{done:?}");
    let found = Reader::open(&run).unwrap().select("t", "k = 77", &[]).unwrap().rows;
    assert!(format!("{found:?}").contains("row\u{fffd}!"), "{found:?}");
    assert_eq!((rows(&run, "t").len(), verify(&run).unwrap().faults), (30_000, Vec::new()));
}

#[test]
fn a_log_that_is_broken_in_its_middle_is_named_and_kept() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    let log = run.join("catalog.sqlite-wal");
    assert_eq!(doubt(&run), None, "a log that a killed program left is whole");
    flip(&log, SECOND);
    let bytes = std::fs::read(&log).unwrap();
    let faults = verify(&run).unwrap().faults;
    assert!(faults.len() == 1 && faults[0].contains("that cannot be read"), "{faults:?}");
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(said.contains("catalog.sqlite-wal.aside1"), "{said}");
    // It lacks what the log held, and what is in the memory of the run of which it is a copy.
    assert!(done.as_ref().is_err_and(|e| e.text().contains("and more")), "{done:?} {said}");
    assert_eq!(std::fs::read(run.join("catalog.sqlite-wal.aside1")).unwrap(), bytes);
    let saved = rows(&run, "t");
    assert!((20_000..30_000).contains(&saved.len()), "{}", saved.len());
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    assert!(recover(&run).is_ok(), "it is said once");
    assert!(!run.join("catalog.sqlite-wal.aside2").exists());
}

#[test]
fn a_log_that_is_gone_is_named_by_who_only_reads() {
    let (_keep, run) = scratch();
    let run = crashed(&run);
    std::fs::remove_file(run.join("catalog.sqlite-wal")).unwrap();
    let found = verify(&run).unwrap();
    assert!(found.faults.is_empty() && found.notes.iter().any(|n| n.contains("is not there")), "{found:?}");
}

#[test]
fn a_broken_log_that_was_moved_already_takes_nothing_of_the_newer_file_away() {
    for repaired in [false, true] {
        let (_keep, run, _) = settled();
        let old: i64 = Connection::open(run.join("catalog.sqlite"))
            .unwrap()
            .query_row("PRAGMA user_version", (), |r| r.get(0))
            .unwrap();
        let more = "INSERT INTO t SELECT k + 30000, s FROM t WHERE k < 200";
        let first = "UPDATE fb_run SET value = 'x' WHERE key = 'attrs'; UPDATE fb_run SET value = '{}' WHERE key = 'attrs'";
        let raise =
            format!("{first}; {more}; PRAGMA user_version = {}; PRAGMA wal_checkpoint(PASSIVE)", old + 1);
        let run = killed(&run, &raise);
        let log = run.join("catalog.sqlite-wal");
        flip(&log, SECOND);
        assert!(verify(&run).map_or(true, |found| !found.faults.is_empty()));
        match repaired {
            true => assert!(repair(&run).unwrap().older.unwrap().contains("gone on with alone")),
            false => {
                let (done, said) = recovered(&run, Elsewhere::Refuse);
                let is_told = done.as_ref().is_err_and(|e| e.text().contains("gone on with alone"));
                assert!(is_told, "{done:?} {said}");
            }
        }
        assert_eq!(rows(&run, "t").len(), 30_200);
        assert!(run.join("catalog.sqlite-wal.aside1").exists());
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    }
}

#[test]
fn an_emptied_catalog_gives_what_its_log_holds() {
    let (_keep, run, _) = settled();
    let run = killed(&run, "VACUUM");
    std::fs::OpenOptions::new().write(true).open(run.join("catalog.sqlite")).unwrap().set_len(0).unwrap();
    let log = run.join("catalog.sqlite-wal");
    let before = log.metadata().unwrap().len();
    for _ in 0..2 {
        let looked = [Reader::open(&run).err(), Owner::open(&run, Options::default()).err()];
        assert!(looked.iter().flatten().all(|e| e.text().contains("forebay repair")), "{looked:?}");
        assert!(log.metadata().is_ok_and(|m| m.len() == before), "whoever looks takes nothing away");
    }
    let done = repair(&run).unwrap();
    assert!(!done.lost_catalog && done.saved.iter().all(|s| s.is_whole()), "{done:?}");
    assert_eq!((rows(&run, "t").len(), steps(&run)), (30_000, vec![0, 1, 2]));
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
}

#[test]
fn an_emptied_catalog_beside_what_a_killed_program_left_in_memory_is_repaired_and_then_recovered() {
    let (_keep, run) = scratch();
    let rank = left(&run);
    let catalog = run.join("catalog.sqlite");
    std::fs::OpenOptions::new().write(true).open(&catalog).unwrap().set_len(0).unwrap();
    let e = recover(&run).unwrap_err();
    assert!(e.text().contains("forebay repair"), "{e}");
    let done = repair(&run).unwrap();
    assert!(!done.is_whole(), "{done:?}");
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_ok(), "{done:?} {said}");
    assert!(rank.is_unlinked());
    assert_eq!(Reader::open(&run).unwrap().list("x", None).unwrap().len(), 1);
    assert_eq!(steps(&run), [0]);
}

/// A run that is written, its log removed as by the first act of somebody who removes the directory; then its ranks
/// insert more, and `remove` goes on as soon as the catalog is written anew.
fn removed_on(remove: impl FnOnce(&Path) + Send) -> (tempfile::TempDir, PathBuf, Rank, Error) {
    let (keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let t = table(&mut rank, "t");
    insert(&mut rank, &t, 0..100);
    rank.step(0, &f64s(1000, 0));
    rank.ask(&Ask::Flush).unwrap();
    let catalog = run.join("catalog.sqlite");
    let number = || catalog.metadata().ok().map(|m| m.ino());
    let before = number();
    std::fs::remove_file(run.join("catalog.sqlite-wal")).unwrap();
    insert(&mut rank, &t, 100..150);
    std::thread::scope(|s| {
        s.spawn(|| {
            wait_for("the catalog that is written anew", || {
                (number().is_some() && number() != before).then_some(())
            });
            remove(&run);
        });
        assert!(rank.ask(&Ask::Flush).is_err(), "it is not durable");
    });
    let told = owner.close().unwrap_err();
    (keep, run, rank, told)
}

#[test]
fn a_catalog_that_is_removed_again_when_it_was_written_anew_is_there_in_the_end() {
    let again = |run: &Path| {
        std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
        std::fs::remove_file(run.join("steps/0000000000.h5")).unwrap();
    };
    let (_keep, run, _rank, told) = removed_on(again);
    assert!(told.text().contains("is written there anew"), "{told}");
    let e = recover(&run).unwrap_err();
    assert!(e.text().contains("the snapshots 0 are not there"), "what was removed is named: {e}");
    assert_eq!(rows(&run, "t"), (0..150).collect::<Vec<_>>());
    recover(&run).unwrap();
}

#[test]
fn a_removal_of_the_directory_that_begins_with_its_catalog_is_told_as_that_and_frees_the_memory() {
    // As `rm -r` given twice, for a file may be made in it meanwhile.
    let (_keep, run, rank, told) = removed_on(|run| {
        wait_for("the removal", || std::fs::remove_dir_all(run).ok());
    });
    assert!(told.text().contains("was deleted while the run was open"), "{told}");
    assert!(rank.is_unlinked() && !run.exists());
}

#[test]
fn a_directory_that_lost_all_but_its_lock_gets_what_a_killed_program_left_in_memory() {
    let (_keep, run) = scratch();
    let rank = left(&run);
    for file in ["catalog.sqlite", "catalog.sqlite-wal", "steps/0000000000.h5"] {
        let _ = std::fs::remove_file(run.join(file));
    }
    assert!(lacks_catalog(&run).unwrap());
    assert!(repair(&run).unwrap().lost_catalog);
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_ok(), "{done:?} {said}");
    assert!(rank.is_unlinked());
    assert_eq!(Reader::open(&run).unwrap().list("x", None).unwrap().len(), 1);
}

#[test]
fn an_empty_directory_is_no_run_to_repair_and_stays_empty() {
    let (_keep, run) = scratch();
    for made in [false, true] {
        let _ = made.then(|| std::fs::create_dir(&run).unwrap());
        let e = repair(&run).unwrap_err();
        assert!(e.code() == Code::NotFound && e.text().contains("there is no run"), "{e}");
    }
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 0);
}

#[test]
fn a_data_set_whose_file_is_lost_is_told_as_such_until_it_is_given_up() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.put("grid", &f64s(50_000, 1), None);
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    let file = std::fs::read_dir(run.join("data")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(file).unwrap();
    for _ in 0..2 {
        let found = verify(&run).unwrap();
        assert_eq!((found.lost_sets, found.faults.len()), (vec!["grid".to_owned()], 1));
        assert_eq!(repair(&run).unwrap().damaged_sets.len(), 1);
    }
}
