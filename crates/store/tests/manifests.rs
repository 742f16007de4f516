//! What files and the catalog say of themselves: damaged there, it is verified and made anew, and no array changes.

use crate::care::{all, change, flip, of_two_ranks, part, scratch, step_path, steps};
use crate::common::{Rank, f64s};
use forebay_store::{Options, Owner, Reader, repair, verify};
use forebay_types::control::Ask;
use forebay_types::record::Place;
use std::path::Path;

#[test]
fn what_a_file_says_to_other_programs_is_verified_and_written_anew() {
    let (_keep, run) = scratch();
    of_two_ranks(&run, 1);
    let reader = Reader::open(&run).unwrap();
    let large = run.join(reader.info("large", 0).unwrap().file.unwrap().0);
    let id = reader.run_id().unwrap();
    // Texts of attributes lie in a heap of HDF5, which has no checksum.
    let in_heap = |path: &Path, text: &[u8]| {
        let bytes = std::fs::read(path).unwrap();
        let heap = bytes.windows(4).position(|w| w == b"GCOL").unwrap();
        (heap + bytes[heap..].windows(text.len()).position(|w| w == text).unwrap()) as u64
    };
    for (path, text) in
        [(step_path(&run, 0), id.as_bytes()), (step_path(&run, 1), b"GCOL"), (large, id.as_bytes())]
    {
        flip(&path, in_heap(&path, text));
    }
    let faults = verify(&run).unwrap().faults;
    assert!(faults.iter().all(|f| f.contains("attribute")), "{faults:?}");
    for file in ["0000000000.h5", "0000000001.h5", "data/large"] {
        assert!(faults.iter().any(|f| f.contains(file)), "{file}: {faults:?}");
    }
    let done = repair(&run).unwrap();
    assert!(done.lacks_nothing() && !done.is_whole() && done.rewritten.len() == 3, "{done:?}");
    assert_eq!((steps(&run), verify(&run).unwrap().faults), (vec![0, 1], Vec::<String>::new()));
    for step in [0, 1] {
        let e = [f64s(5000, step), f64s(5000, step)].concat();
        assert_eq!(Reader::open(&run).unwrap().step_get(step as i64, "E", &all()).unwrap().bytes, e);
    }
    assert_eq!(Reader::open(&run).unwrap().get("large", 0, &all()).unwrap().bytes, f64s(20_000, 3));
    assert!(repair(&run).unwrap().is_whole());
}

/// A file as it was before manifests had a checksum: the JSON ends in front of it.
pub fn without_checksum(file: &mut [u8]) {
    let text = b",\"check\":";
    let at = file.windows(text.len()).position(|w| w == text).unwrap();
    let end = at + file[at..].iter().position(|b| *b == b'}').unwrap();
    file[at] = b'}';
    file[at + 1..=end].fill(b' ');
}

#[test]
fn what_a_listed_step_says_of_itself_is_made_anew_of_the_catalog_where_it_is_damaged() {
    let replace = |path: &Path, from: &str, to: &str, is_older: bool| {
        let mut bytes = std::fs::read(path).unwrap();
        let find = |bytes: &[u8], text: &str| {
            let json = bytes.windows(10).position(|w| w == b"{\"format\":").unwrap();
            let at = bytes[json..].windows(text.len()).position(|w| w == text.as_bytes());
            json + at.unwrap_or_else(|| panic!("{text} is not there"))
        };
        assert_eq!(from.len(), to.len());
        let at = find(&bytes, from);
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        if is_older {
            without_checksum(&mut bytes);
        }
        std::fs::write(path, bytes).unwrap();
    };
    // What HDF5 says of the file, too, is told apart without a checksum.
    let shown =
        [("\"dtype\":\"f64\"", "\"dtype\":\"i64\""), ("[10000]", "[90000]"), ("\"step\":1", "\"step\":7")];
    let hidden =
        [("\"serial\":2", "\"serial\":9"), ("\"data\":[", "\"dada\":["), ("\"run_id\"", "\"run_ib\"")];
    let cases = shown.iter().flat_map(|c| [(c, false), (c, true)]).chain(hidden.iter().map(|c| (c, false)));
    for ((from, to), is_older) in cases {
        let (_keep, run) = scratch();
        of_two_ranks(&run, 1);
        replace(&step_path(&run, 1), from, to, is_older);
        let e = [f64s(5000, 1), f64s(5000, 1)].concat();
        let read = || {
            let reader = Reader::open(&run).unwrap();
            let array = reader.step_get(1, "E", &all()).unwrap();
            (array.meta.to_string(), array.bytes, steps(&run))
        };
        let before = read();
        assert_eq!((&before.1, &before.2), (&e, &vec![0, 1]), "{to}");
        assert!(!verify(&run).unwrap().faults.is_empty(), "{to}, older: {is_older}");
        let done = repair(&run).unwrap();
        assert!(done.rewritten.len() == 1 && done.lacks_nothing(), "{to}, older: {is_older}: {done:?}");
        assert!(done.mended.is_empty() && done.foreign.is_empty(), "{to}, older: {is_older}: {done:?}");
        assert_eq!((verify(&run).unwrap().faults, read()), (Vec::<String>::new(), before), "{to}");
        assert!(repair(&run).unwrap().is_whole(), "{to}");
        // And what it says now is enough to make the catalog of.
        std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
        repair(&run).unwrap();
        assert_eq!(read().1, e, "{to}");
    }
}

#[test]
fn what_the_file_of_a_large_data_set_says_of_itself_is_verified_and_made_anew_of_the_catalog() {
    for is_older in [false, true] {
        let (_keep, run) = scratch();
        of_two_ranks(&run, 0);
        let file = run.join(Reader::open(&run).unwrap().info("large", 0).unwrap().file.unwrap().0);
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.windows(6).position(|w| w == b"\"f64\",").unwrap();
        bytes[at + 1] = b'i';
        if is_older {
            without_checksum(&mut bytes);
        }
        std::fs::write(&file, &bytes).unwrap();
        let large = || {
            let large = Reader::open(&run).unwrap().get("large", 0, &all()).unwrap();
            (large.meta.dtype, large.bytes)
        };
        let as_put = (forebay_types::DType::F64, f64s(20_000, 3));
        let faults = verify(&run).unwrap();
        assert!(faults.faults.len() == 1 && faults.lost_sets.is_empty(), "older: {is_older}: {faults:?}");
        assert!(faults.faults[0].contains("\"large\" set 0"), "{faults:?}");
        let done = repair(&run).unwrap();
        assert!(done.rewritten.len() == 1 && done.mended.is_empty(), "older: {is_older}: {done:?}");
        assert!(done.lacks_nothing(), "older: {is_older}: {done:?}");
        assert_eq!((verify(&run).unwrap().faults, large()), (Vec::<String>::new(), as_put), "{is_older}");
        assert!(repair(&run).unwrap().is_whole());
        // And what it says now is enough to make the catalog of.
        std::fs::remove_file(run.join("catalog.sqlite")).unwrap();
        repair(&run).unwrap();
        assert_eq!(large(), (forebay_types::DType::F64, f64s(20_000, 3)));
    }
}

#[test]
fn arrays_that_lie_in_another_order_than_their_names_are_read_as_before_when_their_file_is_made_anew() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    let arrays = [("velocity", 700), ("density", 300), ("b", 20_000), ("a/x", 50), ("A", 1)];
    rank.begin(0);
    let n = arrays.iter().map(|(name, len)| rank.array(0, name, &f64s(*len, *len), Place::Whole, usize::MAX));
    let n = n.sum();
    rank.end(0, n);
    rank.ask(&Ask::WaitStep { step: 0 }).unwrap();
    rank.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let as_put = || {
        let reader = Reader::open(&run).unwrap();
        for (name, len) in arrays {
            let all_of_it = f64s(len, len);
            assert_eq!(reader.step_get(0, name, &all()).unwrap().bytes, all_of_it, "{name}");
            let last = part(len - 1, 1);
            assert_eq!(
                reader.step_get(0, name, &last).unwrap().bytes,
                all_of_it[(len as usize - 1) * 8..],
                "{name}"
            );
        }
    };
    as_put();
    // What it says of itself, and what it says to other programs.
    for text in [&b"\"serial\":"[..], b"GCOL"] {
        let bytes = std::fs::read(step_path(&run, 0)).unwrap();
        let at = bytes.windows(text.len()).position(|w| w == text).unwrap();
        flip(&step_path(&run, 0), at as u64 + 2);
        assert!(!verify(&run).unwrap().faults.is_empty());
        as_put();
        let done = repair(&run).unwrap();
        assert!(done.rewritten.len() == 1 && done.lacks_nothing(), "{done:?}");
        as_put();
        assert_eq!((verify(&run).unwrap().faults, steps(&run)), (Vec::<String>::new(), vec![0]));
        assert!(repair(&run).unwrap().is_whole());
    }
}

#[test]
fn a_damaged_highest_serial_or_going_back_hides_no_step_for_good() {
    let damages = [
        "UPDATE fb_run SET value = '00' WHERE key = 'serial'",
        "UPDATE fb_run SET value = '2' WHERE key = 'serial'",
        "DELETE FROM fb_run WHERE key = 'serial'",
        "INSERT INTO fb_backs VALUES(1, 3)",
    ];
    for (n, sql) in damages.iter().enumerate() {
        let (_keep, run) = scratch();
        of_two_ranks(&run, 3);
        change(&run, sql);
        // A program that goes on gives no step the serial of another.
        if n < 2 {
            let owner = Owner::open(&run, Options::default()).unwrap();
            let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
            rank.begin(4);
            let blocks = rank.array(4, "E", &f64s(10, 4), Place::Whole, usize::MAX);
            rank.end(4, blocks);
            rank.ask(&Ask::WaitStep { step: 4 }).unwrap();
            rank.ask(&Ask::Close { finished: false }).unwrap();
            owner.close().unwrap();
            assert_eq!(steps(&run), [0, 1, 2, 3, 4], "{sql}");
            change(&run, sql);
        }
        let last = if n < 2 { 4 } else { 3 };
        let found = verify(&run).unwrap().faults;
        assert!(found.len() == 1 && found[0].contains("serial"), "{sql}: {found:?}");
        let done = repair(&run).unwrap();
        assert!(done.mended.len() == 1 && done.lacks_nothing() && !done.is_whole(), "{sql}: {done:?}");
        assert_eq!(steps(&run), (0..=last).collect::<Vec<_>>(), "{sql}");
        assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new(), "{sql}");
        assert!(repair(&run).unwrap().is_whole());
    }
}
