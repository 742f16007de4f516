//! What dead programs left in memory that this process does not reach, or that is gone: nothing is closed as if
//! it had been empty.

use crate::common::{Rank, copy, f64s, wait_for};
use forebay_store::catalog::Ended;
use forebay_store::{Options, Owner, Reader, Site, catalog, lock, recover, recover_with, repair};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, Elsewhere, Mode, TableInfo};
use forebay_types::record::Record;
use forebay_types::{Code, Error, Selection};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const N: u64 = 4000;

/// A run with a step on disk, given up by its owner with something in memory. The rank keeps the segment mapped.
pub fn left(run: &Path) -> Rank {
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    owner.abandon().unwrap();
    assert_eq!(owner.close().unwrap_err().code(), Code::Cancelled);
    // Acknowledged: it is in the log, and nobody reads it.
    rank.put("x", &f64s(5, 7), None);
    rank
}

pub fn segment(rank: &Rank) -> PathBuf {
    rank.segment.path().unwrap().to_owned()
}

pub fn catalog_of(run: &Path) -> PathBuf {
    run.join("catalog.sqlite")
}

/// Has the catalog say that the segments were made at another place.
fn moved(run: &Path, change: impl Fn(&mut Site)) {
    let conn = Connection::open(catalog_of(run)).unwrap();
    let mut site = Site::here();
    change(&mut site);
    catalog::set_site(&conn, 1, &site).unwrap();
}

fn to_another_host(site: &mut Site) {
    (site.host, site.boot_id, site.machine) = ("n17".into(), "theirs".into(), Some("1".into()));
}

/// A recovery, with what it said.
pub fn recovered(run: &Path, elsewhere: Elsewhere) -> (Result<Option<i64>, Error>, String) {
    let said = Arc::new(Mutex::new(String::new()));
    let hear = said.clone();
    let says = move |text: &str| hear.lock().unwrap().push_str(&format!("{text}\n"));
    let progress: forebay_store::Progress = Arc::new(|_, _| {});
    let done = recover_with(run, elsewhere, &progress, Some(Arc::new(says)));
    let said = said.lock().unwrap().clone();
    (done, said)
}

pub fn messages(run: &Path) -> Vec<(i64, u8, String)> {
    catalog::messages(&catalog::open_read_only(&catalog_of(run)).unwrap(), 100).unwrap()
}

pub fn ended(run: &Path) -> Option<Ended> {
    catalog::ended(&catalog::open_read_only(&catalog_of(run)).unwrap(), 1).unwrap()
}

pub fn x(run: &Path) -> Result<Vec<u8>, Error> {
    Reader::open(run)?.get("x", 0, &Selection::default()).map(|v| v.bytes)
}

#[test]
fn data_left_on_another_host_are_refused_with_where_they_lie_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    moved(&run, to_another_host);
    std::fs::remove_file(segment(&rank)).unwrap();
    let before = std::fs::read(run.join("LOCK")).unwrap();
    let e = recover(&run).unwrap_err();
    assert_eq!(e.code(), Code::Conflict);
    for word in [
        "host n17",
        "user",
        "/dev/shm",
        "1 session",
        "up to step 0",
        "abandon",
        "FOREBAY_ELSEWHERE",
        "forebay recover",
    ] {
        assert!(e.text().contains(word), "{word}: {e}");
    }
    assert_eq!(
        Owner::open(&run, Options::default()).err().unwrap().code(),
        Code::Conflict,
        "again and again"
    );
    assert_eq!(std::fs::read(run.join("LOCK")).unwrap(), before, "whose it was stands there still");
    assert_eq!(ended(&run), None, "the session is open");
    assert_eq!(messages(&run), []);
    assert!(repair(&run).unwrap().is_whole());
    assert_eq!(ended(&run), None, "a repair closes nothing");
    assert_eq!(x(&run).unwrap_err().code(), Code::NotFound);
}

#[test]
fn data_given_up_stand_in_the_log_of_the_run_and_their_memory_is_freed_at_home() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    moved(&run, to_another_host);
    let (home, away) = (segment(&rank), dir.path().join("away"));
    std::fs::copy(&home, &away).unwrap();
    std::fs::remove_file(&home).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Abandon);
    assert_eq!(done.unwrap(), Some(0));
    assert!(said.contains("given up: 1 session") && said.contains("n17"), "{said}");
    let (_, level, text) = messages(&run).pop().unwrap();
    assert!(level == 2 && text.contains("given up") && text.contains("n17"), "{level}: {text}");
    assert_eq!(ended(&run), Some(Ended::Abandoned));
    // Home again.
    std::fs::rename(&away, &home).or_else(|_| std::fs::copy(&away, &home).map(drop)).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert_eq!(done.unwrap(), Some(0));
    assert!(said.contains("freed") && said.contains("session 1"), "{said}");
    assert!(!home.exists());
    assert_eq!(x(&run).unwrap_err().code(), Code::NotFound, "what was given up does not come back");
}

#[test]
fn data_of_an_earlier_boot_of_this_host_are_gone_and_that_is_said_and_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    moved(&run, |site| site.boot_id = "before".into());
    std::fs::remove_file(segment(&rank)).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert_eq!(done.unwrap(), Some(0));
    assert!(said.contains("started anew") && said.contains("lost"), "{said}");
    let (step, level, text) = messages(&run).pop().unwrap();
    assert!((step, level) == (0, 3) && text.contains("started anew"), "{text}");
    assert_eq!(ended(&run), Some(Ended::Gone));
    assert_eq!(recovered(&run, Elsewhere::Refuse).1, "", "once");
}

#[test]
fn data_that_are_not_in_the_directory_where_they_were_made_are_a_fault_of_the_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    std::fs::remove_file(segment(&rank)).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    let e = done.unwrap_err();
    assert!(e.text().contains("somebody has emptied it"), "{e}");
    assert!(said.contains("emptied"), "{said}");
    assert!(messages(&run).pop().unwrap().2.contains("emptied"));
    assert_eq!(
        recovered(&run, Elsewhere::Refuse).0.unwrap(),
        Some(0),
        "all else is there, and it is said once"
    );
}

#[test]
fn data_that_are_there_and_cannot_be_opened_close_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    let (home, away) = (segment(&rank), segment(&rank).with_extension("away"));
    std::fs::rename(&home, &away).unwrap();
    // Neither absent nor a file that can be opened.
    std::os::unix::fs::symlink(&away, &home).unwrap();
    for elsewhere in [Elsewhere::Refuse, Elsewhere::Abandon] {
        let (done, _) = recovered(&run, elsewhere);
        let e = done.unwrap_err();
        assert!(e.text().contains("cannot be opened") && e.text().contains("nothing is changed"), "{e}");
        assert_eq!(ended(&run), None);
    }
    std::fs::rename(&away, &home).unwrap();
    assert_eq!(recovered(&run, Elsewhere::Refuse).0.unwrap(), Some(0));
    assert_eq!(x(&run).unwrap(), f64s(5, 7));
    assert_eq!((home.exists(), ended(&run)), (false, Some(Ended::Read)));
}

#[test]
fn a_segment_of_another_version_is_refused_and_may_be_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    let home = segment(&rank);
    use std::os::unix::fs::FileExt;
    std::fs::OpenOptions::new().write(true).open(&home).unwrap().write_all_at(&[99], 8).unwrap();
    let e = recovered(&run, Elsewhere::Refuse).0.unwrap_err();
    assert!(e.code() == Code::Conflict && e.text().contains("cannot read"), "{e}");
    assert!(home.exists());
    assert_eq!(recovered(&run, Elsewhere::Abandon).0.unwrap(), Some(0));
    assert!(!home.exists(), "given up and here: freed at once");
}

#[test]
fn a_segment_that_nobody_finished_making_held_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    let home = segment(&rank);
    std::fs::write(&home, [0; 8192]).unwrap();
    let conn = Connection::open(catalog_of(&run)).unwrap();
    conn.execute("UPDATE fb_custody SET site = NULL", ()).unwrap();
    drop(conn);
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert_eq!((done.unwrap(), said.as_str()), (Some(0), ""));
    assert!(!home.exists());
}

#[test]
fn a_segment_that_was_cut_short_is_a_loss_that_is_told_whatever_is_left_of_it() {
    for bytes in [0, 1, 100, 5000] {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("r.fb");
        let rank = left(&run);
        let home = segment(&rank);
        // Another file under its name: this process has the old one mapped.
        let kept = std::fs::read(&home).unwrap();
        std::fs::remove_file(&home).unwrap();
        std::fs::write(&home, &kept[..bytes]).unwrap();
        let (done, said) = recovered(&run, Elsewhere::Refuse);
        let e = done.unwrap_err();
        assert!(e.text().contains("cannot be read any more"), "{bytes}: {e}");
        assert!(said.contains("is lost"), "{bytes}: {said}");
        assert!(messages(&run).iter().any(|m| m.1 == 3 && m.2.contains("is lost")), "{bytes}");
        assert_eq!(ended(&run), Some(Ended::Gone), "{bytes}");
        assert_eq!(recovered(&run, Elsewhere::Refuse).0.unwrap(), Some(0), "{bytes}: it is said once");
    }
}

#[test]
fn a_session_that_died_before_its_segment_came_into_custody_held_nothing_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    std::fs::remove_file(segment(&rank)).unwrap();
    let conn = Connection::open(catalog_of(&run)).unwrap();
    conn.execute("UPDATE fb_custody SET site = NULL", ()).unwrap();
    drop(conn);
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert_eq!((done.unwrap(), said.as_str()), (Some(0), ""));
    assert_eq!((messages(&run), ended(&run)), (vec![], Some(Ended::Unused)));
}

#[test]
fn a_segment_whose_session_was_closed_unseen_stays_until_it_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    let home = segment(&rank);
    // As earlier versions did where they did not see it.
    let conn = Connection::open(catalog_of(&run)).unwrap();
    conn.execute_batch("UPDATE fb_sessions SET closed = 1.0; DELETE FROM fb_custody").unwrap();
    drop(conn);
    assert_eq!(recovered(&run, Elsewhere::Refuse).0.unwrap(), Some(0));
    assert!(home.exists(), "nobody has read it");
    let (done, said) = recovered(&run, Elsewhere::Abandon);
    assert_eq!(done.unwrap(), Some(0));
    assert!(!home.exists() && said.contains("freed"), "{said}");
}

#[test]
fn the_rest_of_a_copy_of_a_run_is_not_swept_by_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (run, other) = (dir.path().join("r.fb"), dir.path().join("copy.fb"));
    let owner = Owner::open(&run, Options::default()).unwrap();
    owner.close().unwrap();
    copy(&run, &other);
    let rank = left(&other);
    // The session of that number is over here.
    let owner = Owner::open(&run, Options::default()).unwrap();
    drop(Rank::open(&owner, 0, 1, 1 << 20));
    owner.close().unwrap();
    recover(&run).unwrap();
    assert!(segment(&rank).exists());
    recover(&other).unwrap();
    assert_eq!(x(&other).unwrap(), f64s(5, 7));
}

/// A run of format 1 with two sessions that were not closed, last owned as `LOCK` says.
fn of_format_1(dir: &Path, host: &str, boot_id: &str) -> PathBuf {
    let run = dir.join("old.fb");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1-stopped"), &run);
    let holder = format!("{{\"pid\": 4711, \"host\": {host:?}, \"boot_id\": {boot_id:?}, \"fence\": 3}}");
    std::fs::write(run.join("LOCK"), holder).unwrap();
    run
}

#[test]
fn sessions_of_a_run_of_format_1_are_gone_only_when_its_host_was_started_anew() {
    let dir = tempfile::tempdir().unwrap();
    let run = of_format_1(dir.path(), &lock::host(), "before");
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_ok() && said.contains("started anew"), "{said}");
    for (name, host, boot) in [("far", "n17", "theirs".to_owned()), ("near", &*lock::host(), lock::boot_id())]
    {
        let dir = dir.path().join(name);
        let run = of_format_1(&dir, host, &boot);
        for _ in 0..2 {
            let e = recovered(&run, Elsewhere::Refuse).0.unwrap_err();
            assert!(e.code() == Code::Conflict && e.text().contains("2 sessions"), "{name}: {e}");
        }
        drop(repair(&run).unwrap());
        let e = recovered(&run, Elsewhere::Refuse).0.unwrap_err();
        assert!(name != "far" || e.text().contains("n17"), "a repair does not make it forget: {e}");
        let (done, said) = recovered(&run, Elsewhere::Abandon);
        assert!(done.is_ok() && said.contains("given up"), "{name}: {said}");
    }
}

#[test]
fn a_run_begun_anew_asks_nobody_about_what_the_old_one_left() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let rank = left(&run);
    moved(&run, to_another_host);
    Owner::open(&run, Options { mode: Mode::Write, ..Options::default() }).unwrap().close().unwrap();
    assert!(!segment(&rank).exists(), "it is seen here, so it goes with the run");
}

/// A run that was closed in order, with a step.
fn closed(run: &Path) {
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    drop(rank);
    owner.close().unwrap();
}

#[test]
fn a_backup_in_the_place_of_a_run_that_was_killed_leaves_it_what_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let [run, backup, aside] = ["r.fb", "backup.fb", "r.bad"].map(|name| dir.path().join(name));
    closed(&run);
    copy(&run, &backup);
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    owner.abandon().unwrap();
    owner.close().unwrap_err();
    rank.put("x", &f64s(5, 7), None);
    std::fs::rename(&run, &aside).unwrap();
    copy(&backup, &run);
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert_eq!((done.unwrap(), said.as_str()), (Some(0), ""));
    assert_eq!(x(&run).unwrap_err().code(), Code::NotFound);
    assert!(segment(&rank).exists());
    recover(&aside).unwrap();
    assert_eq!(x(&aside).unwrap(), f64s(5, 7));
}

#[test]
fn a_catalog_that_is_older_than_the_files_beside_it_says_what_it_did_not_know_and_no_file_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (run, old) = (dir.path().join("r.fb"), dir.path().join("old.sqlite"));
    closed(&run);
    std::fs::copy(catalog_of(&run), &old).unwrap();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.ask(&forebay_types::control::Ask::Restart { tag: None, strict: false }).unwrap();
    for step in 1..4 {
        rank.step(step, &f64s(N, step as u64));
    }
    rank.put("x", &f64s(20_000, 7), None);
    owner.flush(Duration::from_secs(30)).unwrap();
    drop(rank);
    owner.close().unwrap();
    std::fs::copy(&old, catalog_of(&run)).unwrap();
    let files = || std::fs::read_dir(run.join("data")).unwrap().count();
    let before = files();
    assert!(before > 0);
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.unwrap_err().text().contains("is older than what programs had written"), "{said}");
    assert!(
        said.contains("older than the files") && said.contains("snapshots 1, 2, 3, which are listed"),
        "{said}"
    );
    assert!(said.contains("the data set \"x\" as it is in ") && files() == before, "{said}");
    assert_eq!(x(&run).unwrap(), f64s(20_000, 7));
    assert!(messages(&run).iter().any(|(_, level, text)| *level == 3 && said.contains(text)));
    assert_eq!(recovered(&run, Elsewhere::Refuse).1, "", "it is said once");
}

/// A table of one column; gives its number.
fn table(rank: &mut Rank, name: &str) -> u32 {
    let columns = vec![Column { name: "a".into(), dtype: "f64".into(), ..Default::default() }];
    let made = rank.ask(&Ask::Table { name: name.into(), columns, history: false }).unwrap();
    serde_json::from_value::<TableInfo>(made).unwrap().id
}

fn row(rank: &mut Rank, table: u32, value: f64) {
    let mut cells = Writer::new();
    cells.u8(1).f64(value);
    let cells = cells.finish();
    rank.publish(&Record::Insert { table, step: 0, rows: 1, cells: &cells });
}

fn rows_of(run: &Path, table: &str) -> usize {
    Reader::open(run).unwrap().select(table, "", &[]).unwrap().rows.len()
}

/// A run whose owner died behind rows 0 to 9; rows 10 to 14 are in memory. `copy` is made before and after the table.
fn with_rows(run: &Path, copy: impl Fn(&str)) -> Rank {
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.step(0, &f64s(N, 0));
    owner.flush(Duration::from_secs(30)).unwrap();
    copy("before");
    let number = table(&mut rank, "t");
    copy("declared");
    for n in 0..10 {
        row(&mut rank, number, n as f64);
    }
    rank.put("y", &f64s(20_000, 9), None);
    owner.flush(Duration::from_secs(30)).unwrap();
    rank.settle();
    owner.abandon().unwrap();
    owner.close().unwrap_err();
    for n in 10..15 {
        row(&mut rank, number, n as f64);
    }
    rank
}

#[test]
fn a_catalog_that_is_older_than_what_is_in_memory_says_how_much_may_be_lost() {
    for repaired in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (run, old) = (dir.path().join("r.fb"), dir.path().join("old.sqlite"));
        let copy = |when: &str| {
            if when == "declared" {
                Connection::open(catalog_of(&run))
                    .unwrap()
                    .execute("VACUUM INTO ?1", [old.to_str().unwrap()])
                    .unwrap();
            }
        };
        let rank = with_rows(&run, copy);
        for end in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(run.join(format!("catalog.sqlite{end}")));
        }
        std::fs::copy(&old, catalog_of(&run)).unwrap();
        if repaired {
            let done = repair(&run).unwrap();
            assert!(
                !done.lacks_nothing() && done.older.is_some_and(|text| text.contains("up to 11 records"))
            );
        }
        let (done, said) = recovered(&run, Elsewhere::Refuse);
        match repaired {
            true => assert_eq!((done.unwrap(), said.as_str()), (Some(0), ""), "repair has said it"),
            false => {
                let text = done.unwrap_err().text().to_owned();
                assert!(text.contains("older") && text.contains("up to 11 records"), "{text}");
                assert!(said.contains("the data set \"y\" as it is in "), "{said}");
            }
        }
        assert!(
            messages(&run).iter().any(|(_, level, text)| *level == 3 && text.contains("up to 11 records"))
        );
        assert_eq!(rows_of(&run, "t"), 5, "those in memory");
        assert!(rank.is_unlinked());
        assert_eq!(recovered(&run, Elsewhere::Refuse).1, "", "it is said once");
    }
}

#[test]
fn rows_in_memory_whose_table_the_catalog_has_lost_are_put_aside_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let (run, old) = (dir.path().join("r.fb"), dir.path().join("old.sqlite"));
    let copy = |when: &str| {
        if when == "before" {
            Connection::open(catalog_of(&run))
                .unwrap()
                .execute("VACUUM INTO ?1", [old.to_str().unwrap()])
                .unwrap();
        }
    };
    with_rows(&run, copy);
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(run.join(format!("catalog.sqlite{end}")));
    }
    std::fs::copy(&old, catalog_of(&run)).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_err() && said.contains("fb_unread: there is no table of number 1"), "{done:?} {said}");
    let conn = catalog::open_read_only(&catalog_of(&run)).unwrap();
    let aside: (i64, String) = conn
        .query_row("SELECT count(*), max(why) FROM fb_unread", (), |r| Ok((r.get(0)?, r.get(1)?)))
        .unwrap();
    assert!(aside.0 == 5 && aside.1.contains("number 1"), "{aside:?}");
    let told: Vec<_> = messages(&run).into_iter().filter(|m| m.2.contains("number 1")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn what_was_declared_is_in_the_file_of_the_catalog_soon_and_survives_the_loss_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let number = table(&mut rank, "t");
    let main = dir.path().join("main.sqlite");
    wait_for("the table in the catalog's own file", || {
        std::fs::copy(catalog_of(&run), &main).unwrap();
        let conn = Connection::open(&main).unwrap();
        conn.query_row("SELECT 1 FROM fb_tables", (), |_| Ok(())).ok()
    });
    owner.abandon().unwrap();
    owner.close().unwrap_err();
    row(&mut rank, number, 1.0);
    let _ = std::fs::remove_file(run.join("catalog.sqlite-wal"));
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(done.is_ok(), "{done:?} {said}");
    assert_eq!(rows_of(&run, "t"), 1);
}

/// The catalog as it is now, in a file of its own.
fn snapshot_of(run: &Path, to: &Path) {
    let conn = Connection::open(catalog_of(run)).unwrap();
    conn.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
}

#[test]
fn an_earlier_catalog_of_a_run_that_was_recovered_is_told_with_what_it_lacks_and_no_data_set_goes() {
    for repaired in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (run, old) = (dir.path().join("r.fb"), dir.path().join("old.sqlite"));
        let copy = |when: &str| {
            if when == "declared" {
                snapshot_of(&run, &old);
            }
        };
        let rank = with_rows(&run, copy);
        recover(&run).unwrap();
        assert!(rank.is_unlinked());
        assert_eq!(rows_of(&run, "t"), 15);
        std::fs::copy(&old, catalog_of(&run)).unwrap();
        if repaired {
            let done = repair(&run).unwrap();
            assert!(!done.lacks_nothing());
            let text = done.older.unwrap();
            assert!(
                text.contains("is older than what programs had written") && text.contains("up to 16 records"),
                "{text}"
            );
        }
        let (done, said) = recovered(&run, Elsewhere::Refuse);
        match repaired {
            true => assert_eq!((done.unwrap(), said.as_str()), (Some(0), ""), "repair has said it"),
            false => {
                let text = done.unwrap_err().text().to_owned();
                assert!(
                    text.contains("is older than what programs had written")
                        && text.contains("up to 16 records"),
                    "{text}"
                );
                assert!(!said.contains("emptied"), "{said}");
            }
        }
        let y = Reader::open(&run).unwrap().get("y", 0, &Selection::default()).unwrap();
        assert_eq!(y.bytes, f64s(20_000, 9), "its file was there");
        let told = messages(&run);
        assert!(told.iter().any(|(_, level, text)| *level == 3 && text.contains("up to 16 records")));
        assert!(!told.iter().any(|(_, _, text)| text.contains("emptied")), "{told:?}");
        assert_eq!(recovered(&run, Elsewhere::Refuse).1, "", "it is said once");
    }
}

/// Waits until a table is declared in the catalog's own file, and gives a copy of that file.
fn moved_with(run: &Path, table: &str, copy: &Path) {
    wait_for("the table in the catalog's own file", || {
        std::fs::copy(catalog_of(run), copy).unwrap();
        let conn = Connection::open(copy).unwrap();
        // The log may be on its way into the file while it is copied.
        let whole = conn.query_row("SELECT integrity_check FROM pragma_integrity_check", (), |r| r.get(0));
        whole.ok().filter(|text: &String| text == "ok")?;
        conn.prepare(&format!("SELECT count(*) FROM {table:?}")).ok()?;
        conn.query_row("SELECT 1 FROM fb_tables WHERE name = ?1", [table], |_| Ok(())).ok()
    });
}

#[test]
fn the_log_of_a_later_catalog_is_not_read_into_an_earlier_one() {
    for repaired in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("r.fb");
        let [old, newer, log] = ["old.sqlite", "newer.sqlite", "log"].map(|name| dir.path().join(name));
        let log_of_run = run.join("catalog.sqlite-wal");
        let owner = Owner::open(&run, Options::default()).unwrap();
        let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
        rank.step(0, &f64s(N, 0));
        let first = table(&mut rank, "first");
        moved_with(&run, "first", &old);
        (0..10).for_each(|n| row(&mut rank, first, n as f64));
        rank.settle();
        table(&mut rank, "second");
        moved_with(&run, "second", &newer);
        // The log begins anew.
        (10..15).for_each(|n| row(&mut rank, first, n as f64));
        rank.settle();
        std::fs::copy(&log_of_run, &log).unwrap();
        owner.abandon().unwrap();
        owner.close().unwrap_err();
        std::fs::copy(&old, catalog_of(&run)).unwrap();
        std::fs::copy(&log, &log_of_run).unwrap();
        let e = Reader::open(&run).err().unwrap();
        assert!(e.code() == Code::Corrupt && e.text().contains("is older than the log"), "{e}");
        if repaired {
            let text = repair(&run).unwrap().older.unwrap();
            assert!(text.contains("is kept as") && text.contains("up to "), "{text}");
        }
        let (done, said) = recovered(&run, Elsewhere::Refuse);
        if !repaired {
            let text = done.unwrap_err().text().to_owned();
            assert!(text.contains("is kept as") && text.contains("up to "), "{text} {said}");
        }
        assert_eq!(std::fs::read(with_aside(&log_of_run)).unwrap(), std::fs::read(&log).unwrap());
        assert_eq!(rows_of(&run, "first"), 0);
        assert!(forebay_store::verify(&run).unwrap().faults.is_empty());
        assert_eq!(recovered(&run, Elsewhere::Refuse).1, "", "it is said once");
    }
}

fn with_aside(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.aside1", path.display()))
}

#[test]
fn a_catalog_that_was_put_back_with_its_own_log_is_read_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let [file, log] = ["file", "log"].map(|name| dir.path().join(name));
    let log_of_run = run.join("catalog.sqlite-wal");
    let begin = || {
        let owner = Owner::open(&run, Options::default()).unwrap();
        let rank = Rank::open(&owner, 0, 1, 8 << 20);
        (owner, rank)
    };
    let (owner, mut rank) = begin();
    let number = table(&mut rank, "t");
    moved_with(&run, "t", &file);
    (0..10).for_each(|n| row(&mut rank, number, n as f64));
    rank.settle();
    std::fs::copy(&log_of_run, &log).unwrap();
    drop(rank);
    owner.close().unwrap();
    // Another life goes on.
    let (owner, mut rank) = begin();
    rank.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
    let number = table(&mut rank, "t");
    (10..15).for_each(|n| row(&mut rank, number, n as f64));
    rank.settle();
    drop(rank);
    owner.close().unwrap();
    std::fs::copy(&file, catalog_of(&run)).unwrap();
    std::fs::copy(&log, &log_of_run).unwrap();
    let (done, said) = recovered(&run, Elsewhere::Refuse);
    assert!(
        done.unwrap_err().text().contains("is older than what programs had written")
            && !said.contains("is kept as"),
        "{said}"
    );
    assert_eq!(rows_of(&run, "t"), 10);
}
