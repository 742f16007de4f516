//! What the catalog says of snapshots and rows is compared with their files and with itself: a row that is not the
//! one that was written is found, named and mended.

use crate::care::{all, change, copy, insert, part, rows, scratch, step_path, steps, table};
use crate::common::{Rank, f64s, shape};
use forebay_store::{Options, Owner, Reader, repair, verify};
use forebay_types::control::Ask;
use forebay_types::record::{Payload, Record};
use forebay_types::{ArrayMeta, Code, DType};
use std::path::Path;

/// Turns one bit of the first place of a catalog where these bytes stand, so far behind their beginning: of
/// rows in one page that is the last one.
fn flip_at(run: &Path, text: &[u8], behind: usize, bit: u8) {
    let catalog = run.join("catalog.sqlite");
    let mut bytes = std::fs::read(&catalog).unwrap();
    let at = bytes.windows(text.len()).position(|w| w == text).unwrap();
    bytes[at + behind] ^= bit;
    std::fs::write(&catalog, bytes).unwrap();
}

/// A closed run of one rank: steps with an array of 105 numbers.
fn of_one_rank(run: &Path, steps: std::ops::Range<i64>) {
    let owner = Owner::open(run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    for step in steps {
        rank.step(step, &f64s(105, step as u64));
    }
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
}

#[test]
fn a_bit_that_flipped_in_the_shape_of_an_array_gives_no_foreign_bytes_and_is_found_and_mended() {
    let (_keep, run) = scratch();
    of_one_rank(&run, 0..3);
    flip_at(&run, b"xf64[105]", 6, 4);
    let reader = Reader::open(&run).unwrap();
    for sel in [all(), part(100, 30), part(0, 3)] {
        let e = reader.step_get(2, "x", &sel).unwrap_err();
        assert_eq!(e.code(), Code::Corrupt, "{e}");
        for word in ["\"x\" of step 2", "catalog.sqlite", "forebay repair"] {
            assert!(e.text().contains(word), "{word}: {e}");
        }
    }
    drop(reader);
    let faults = verify(&run).unwrap().faults;
    assert!(!faults.is_empty() && faults.iter().all(|f| f.contains("0000000002.h5")), "{faults:?}");
    let done = repair(&run).unwrap();
    assert!(!done.is_whole() && done.lacks_nothing() && done.mended.len() == 1, "{done:?}");
    assert_eq!(Reader::open(&run).unwrap().step_get(2, "x", &all()).unwrap().bytes, f64s(105, 2));
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    assert!(repair(&run).unwrap().is_whole());
}

#[test]
fn a_file_among_the_steps_that_is_none_of_the_run_is_named_and_no_fault() {
    let (_keep, run) = scratch();
    of_one_rank(&run, 0..2);
    for name in ["notes.txt", "0000000099.h5", "0000000098.h5.tmp"] {
        std::fs::write(run.join("steps").join(name), "nothing of ours").unwrap();
    }
    let found = verify(&run).unwrap();
    assert_eq!(found.faults, Vec::<String>::new());
    let names = |name: &str| found.foreign.iter().any(|line| line.starts_with(&format!("steps/{name}: ")));
    assert!(found.foreign.len() == 2 && names("notes.txt") && names("0000000099.h5"), "{:?}", found.foreign);
    let done = repair(&run).unwrap();
    assert!(done.is_whole() && done.foreign == found.foreign, "{done:?}");
    // A step of another run is as foreign; where the catalog lists one it is the step that is damaged.
    let (_keep, other) = scratch();
    of_one_rank(&other, 0..1);
    let theirs = other.join("steps/0000000000.h5");
    std::fs::copy(&theirs, run.join("steps/0000000099.h5")).unwrap();
    let done = repair(&run).unwrap();
    assert!(
        done.is_whole() && done.foreign.iter().any(|line| line.contains("belongs to the run")),
        "{done:?}"
    );
    std::fs::copy(&theirs, run.join("steps/0000000001.h5")).unwrap();
    let done = repair(&run).unwrap();
    assert!(!done.lacks_nothing() && done.damaged.len() == 1 && done.foreign.len() == 2, "{done:?}");
}

#[test]
fn a_row_of_a_step_that_says_something_else_than_its_file_is_named_and_mended() {
    let changes = [
        ("UPDATE fb_steps SET time = 0.425 WHERE step = 1", "the time is 0.425"),
        ("UPDATE fb_steps SET nbytes = 841 WHERE step = 1", "the number of bytes is 841"),
        ("UPDATE fb_steps SET serial = 9 WHERE step = 1", "the serial is 9"),
        ("UPDATE fb_steps SET parameters = '{\"a\":1}' WHERE step = 1", "the list of parameters"),
        ("UPDATE fb_step_data SET unit = 'k' WHERE step = 1", "the unit of \"x\" is \"k\""),
        ("UPDATE fb_step_data SET dtype = 'i64' WHERE step = 1", "the dtype of \"x\" is I64"),
        ("UPDATE fb_step_data SET data_order = 'F' WHERE step = 1", "the order of \"x\""),
        ("UPDATE fb_step_data SET data_order = 'G' WHERE step = 1", "forebay repair"),
        (
            "UPDATE fb_step_data SET shape = '[104]', nbytes = 832 WHERE step = 1",
            "the shape of \"x\" is [104]",
        ),
        ("UPDATE fb_step_data SET name = 'y' WHERE step = 1", "\"x\" is in the file and not in the catalog"),
        (
            "UPDATE fb_step_data SET pieces = replace(pieces, '\"rank\":0', '\"rank\":2') WHERE step = 1",
            "a piece",
        ),
        ("UPDATE fb_step_data SET pieces = replace(pieces, '105', '101') WHERE step = 1", "a piece"),
        ("UPDATE fb_step_data SET pieces = 'x' || pieces WHERE step = 1", "the pieces of \"x\""),
        ("DELETE FROM fb_step_data WHERE step = 1", "\"x\" is in the file and not in the catalog"),
    ];
    let (_keep, sound) = scratch();
    of_one_rank(&sound, 0..3);
    for (sql, word) in changes {
        let run = sound.with_file_name("changed.fb");
        copy(&sound, &run);
        change(&run, sql);
        let faults = verify(&run).unwrap().faults;
        assert!(faults.iter().any(|f| f.contains("0000000001.h5") && f.contains(word)), "{sql}: {faults:?}");
        let done = repair(&run).unwrap();
        assert!(!done.is_whole() && done.lacks_nothing() && done.steps == 3, "{sql}: {done:?}");
        assert!(done.mended.len() == 1 && done.mended[0].contains(word), "{sql}: {done:?}");
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new(), "{sql}");
        let reader = Reader::open(&run).unwrap();
        assert_eq!(reader.step_get(1, "x", &all()).unwrap().bytes, f64s(105, 1));
        assert_eq!(reader.step(1).unwrap().time, Some(0.1));
        drop(reader);
        std::fs::remove_dir_all(&run).unwrap();
    }
}

#[test]
fn a_number_of_a_step_that_flipped_gives_no_step_that_never_was() {
    let (_keep, run) = scratch();
    of_one_rank(&run, 0..3);
    change(&run, "PRAGMA foreign_keys = OFF; UPDATE fb_steps SET step = 6 WHERE step = 2");
    assert_eq!(steps(&run), [0, 1, 6]);
    let faults = verify(&run).unwrap().faults;
    assert!(faults.iter().any(|f| f.contains("the number is 6")), "{faults:?}");
    let done = repair(&run).unwrap();
    assert!(!done.is_whole() && done.lacks_nothing(), "{done:?}");
    assert!(done.mended.iter().any(|l| l.contains("was listed as step 6 and is step 2")), "{done:?}");
    assert_eq!((steps(&run), done.listed), (vec![0, 1, 2], vec![2]));
    assert_eq!(Reader::open(&run).unwrap().step_get(2, "x", &all()).unwrap().bytes, f64s(105, 2));
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    assert!(repair(&run).unwrap().is_whole());
}

#[test]
fn files_that_say_of_themselves_what_their_bytes_are_not_change_no_row() {
    for is_older in [false, true] {
        let (_keep, run) = scratch();
        of_one_rank(&run, 0..2);
        let path = step_path(&run, 1);
        let mut bytes = std::fs::read(&path).unwrap();
        let text = b"\"crc32c\":";
        let at = bytes.windows(text.len()).rposition(|w| w == text).unwrap() + text.len();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        if is_older {
            crate::manifests::without_checksum(&mut bytes);
        }
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(verify(&run).unwrap().faults.len(), 1);
        let done = repair(&run).unwrap();
        assert!(done.mended.is_empty() && done.damaged.is_empty(), "{done:?}");
        if is_older {
            assert!(done.unusable.len() == 1 && done.rewritten.is_empty(), "{done:?}");
            assert!(done.unusable[0].contains("does not fit its bytes"), "{done:?}");
        } else {
            assert!(done.lacks_nothing() && done.rewritten.len() == 1, "{done:?}");
            assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
        }
        assert_eq!(Reader::open(&run).unwrap().step_get(1, "x", &all()).unwrap().bytes, f64s(105, 1));
    }
}

#[test]
fn an_older_catalog_that_was_put_back_lacks_steps_and_verify_names_them() {
    let (_keep, run) = scratch();
    of_one_rank(&run, 0..2);
    let old = run.with_file_name("old.sqlite");
    std::fs::copy(run.join("catalog.sqlite"), &old).unwrap();
    of_one_rank(&run, 2..4);
    std::fs::copy(&old, run.join("catalog.sqlite")).unwrap();
    let faults = verify(&run).unwrap().faults;
    assert!(faults.len() == 3 && faults[0].contains("the catalog is older"), "{faults:?}");
    for (fault, name) in faults[1..].iter().zip(["0000000002.h5", "0000000003.h5"]) {
        assert!(fault.contains(name) && fault.contains("forebay repair"), "{fault}");
    }
    let done = repair(&run).unwrap();
    assert_eq!((done.listed, steps(&run)), (vec![2, 3], vec![0, 1, 2, 3]));
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
}

#[test]
fn rows_that_were_dropped_or_stand_under_a_number_that_is_not_theirs_are_counted() {
    let (_keep, sound) = scratch();
    let owner = Owner::open(&sound, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let t = table(&mut rank, "t");
    insert(&mut rank, &t, 0..25);
    for set in 100_000..100_020 {
        let meta = ArrayMeta::new(DType::F64, shape(&[2]));
        let bytes = f64s(2, set as u64);
        let (payload, name) = (Payload::Inline(&bytes), "small");
        rank.publish(&Record::Put { name, set, meta, units: "", attrs: "", if_version: None, payload });
    }
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let run = sound.with_file_name("changed.fb");
    let bytes = std::fs::read(sound.join("catalog.sqlite")).unwrap();
    let flipped = |at: usize, bit: u8, table: &str| {
        let _ = std::fs::remove_dir_all(&run);
        copy(&sound, &run);
        let mut bytes = bytes.clone();
        bytes[at] ^= bit;
        std::fs::write(run.join("catalog.sqlite"), bytes).unwrap();
        assert!(!verify(&run).unwrap().faults.is_empty());
        let done = repair(&run).unwrap();
        assert!(!done.is_whole(), "{done:?}");
        let saved = done.saved.into_iter().find(|s| s.name == table).unwrap();
        (saved.rows, saved.lost, saved.displaced)
    };
    let find = |text: &[u8]| bytes.windows(text.len()).position(|w| w == text).unwrap();
    // The number of row 8 (its key is 7) stands one byte before the header of the row.
    let at = find(b"row 7 y");
    let number = (1..12).map(|n| at - n).find(|i| bytes[*i] == 8 && bytes[*i + 1] < 8).unwrap();
    assert_eq!(flipped(number, 4, "t"), (24, 1, 1), "another row has that number");
    assert_eq!(flipped(number, 64, "t"), (25, 0, 1));
    // Only the row ends with the name of the dtype; the index knows the set under its own number.
    let set = find(b"small\x01\x86\xa3f64") + 5;
    assert_eq!(flipped(set, 64, "fb_data"), (20, 0, 1));
}

#[test]
fn a_name_that_flipped_in_the_list_of_tables_is_found_and_said() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let t = table(&mut rank, "t");
    insert(&mut rank, &t, 0..10);
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let text = b"UNIQUE, columns TEXT";
    flip_at(&run, text, 10, 4);
    let faults = verify(&run).unwrap().faults;
    assert!(faults.iter().any(|f| f.contains("fb_tables") && f.contains("columns")), "{faults:?}");
    let done = repair(&run).unwrap();
    assert!(!done.is_whole() && done.old_catalog.is_some(), "{done:?}");
    assert_eq!(rows(&run, "t"), (0..10).collect::<Vec<_>>());
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
}
