//! A peer that writes what it likes into the shared memory: errors, never a crash.

use forebay_arena::{Direction, Segment, SegmentSpec, TripleBuffer};
use forebay_types::Code;
use proptest::prelude::*;
use rustix::io::pwrite;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

fn spec() -> SegmentSpec {
    SegmentSpec {
        name: String::new(),
        kind: 1,
        up_bytes: 4096,
        down_bytes: 4096,
        block_bytes: 1 << 16,
        blocks: 8,
    }
}

fn other(segment: &Segment) -> Segment {
    Segment::from_fd(segment.fd().try_clone_to_owned().unwrap()).unwrap()
}

/// Scribbles over the memory, past all rules.
fn scribble(segment: &Segment, at: u64, bytes: &[u8]) {
    pwrite(segment.fd(), bytes, at).unwrap();
}

/// Everything a reading side does, with whatever comes of it.
fn use_all(segment: &Segment) {
    let mut up = segment.consumer(Direction::Up);
    let mut buf = Vec::new();
    for _ in 0..100 {
        match up.next(&mut buf) {
            Ok(Some(position)) => up.release_to(position),
            Ok(None) => break,
            Err(e) => {
                assert_eq!(e.code(), Code::Corrupt);
                break;
            }
        }
    }
    let _ = up.backlog();
    let mut down = segment.producer(Direction::Down);
    for _ in 0..100 {
        if down.push(&[&[0; 100]]).is_err() {
            break;
        }
    }
    for index in 0..10 {
        if let Ok(block) = segment.block(index) {
            assert!(block.view().len() as u64 <= segment.block_bytes());
            std::hint::black_box(block.view().iter().map(u64::from).sum::<u64>());
            if let Ok(mut reader) = TripleBuffer::reader(block, 16) {
                let _ = reader.latest();
            }
        }
        let _ = segment.release(index);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_scribbled_header_is_refused_or_harmless(at in 0u64..120, bytes in proptest::collection::vec(any::<u8>(), 1..16)) {
        let ours = Segment::create(&spec()).unwrap();
        scribble(&ours, at, &bytes);
        match Segment::from_fd(ours.fd().try_clone_to_owned().unwrap()) {
            Ok(theirs) => use_all(&theirs),
            Err(e) => prop_assert!(matches!(e.code(), Code::Corrupt | Code::VersionMismatch | Code::BadArgument), "{e}"),
        }
    }

    #[test]
    fn scribbled_cursors_tables_and_rings_are_refused_or_harmless(
        writes in proptest::collection::vec((8192u64..24_000, proptest::collection::vec(any::<u8>(), 1..24)), 1..12),
    ) {
        let ours = Segment::create(&spec()).unwrap();
        let mut allocator = ours.allocator();
        let block = allocator.alloc(5000).unwrap();
        ours.producer(Direction::Up).push(&[&block.index().to_le_bytes()]).unwrap();
        let theirs = other(&ours);
        for (at, bytes) in &writes {
            scribble(&ours, *at, bytes);
        }
        use_all(&theirs);
        // The allocator believes its own books only.
        allocator.reap();
        let mut held = Vec::new();
        while let Some(b) = allocator.alloc(4096) {
            held.push(b);
        }
        prop_assert!(held.len() <= 8);
        let mut places: Vec<u64> = held.iter().map(|b| b.offset()).collect();
        places.sort();
        prop_assert!(places.windows(2).all(|p| p[1] - p[0] >= 4096), "two blocks in one place");
        prop_assert!(ours.producer(Direction::Up).free() <= 4096);
    }
}

#[test]
fn a_file_cut_short_or_of_another_kind_is_refused() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let whole = Segment::create(&spec()).unwrap();
    let mut head = vec![0; 8192];
    rustix::io::pread(whole.fd(), &mut head, 0).unwrap();
    let sealed = |bytes: &[u8]| {
        let file = memfd_create("short", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        pwrite(&file, bytes, 0).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        file
    };
    assert_eq!(Segment::from_fd(sealed(&head)).err().unwrap().code(), Code::Corrupt);
    assert_eq!(Segment::from_fd(sealed(&[])).err().unwrap().code(), Code::Corrupt);
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    assert_eq!(Segment::from_named_fd(pipe).err().unwrap().code(), Code::Corrupt);
    // A peer cannot cut the memory off while it is used.
    assert!(ftruncate(whole.fd(), 0).is_err());
}

#[test]
fn a_segment_that_its_maker_could_cut_short_is_refused() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let whole = Segment::create(&spec()).unwrap();
    let mut bytes = vec![0; rustix::fs::fstat(whole.fd()).unwrap().st_size as usize];
    let n = rustix::io::pread(whole.fd(), &mut bytes, 0).unwrap();
    let copy = |seals| {
        let file = memfd_create("copy", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        pwrite(&file, &bytes[..n], 0).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        Segment::from_fd(file)
    };
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SEAL] {
        let e = copy(seals).err().unwrap();
        assert!(e.code() == Code::Refused && e.text().contains("F_SEAL_SHRINK"), "{e}");
    }
    let dir = tempfile::tempdir().unwrap();
    let named = Segment::create_in(dir.path(), &SegmentSpec { name: "named".into(), ..spec() }).unwrap();
    let handed = || named.fd().try_clone_to_owned().unwrap();
    assert_eq!(Segment::from_fd(handed()).err().unwrap().code(), Code::Refused);
    assert!(Segment::from_named_fd(handed()).is_ok());
    copy(SealFlags::SHRINK).unwrap();
}

#[test]
fn a_segment_of_another_layout_is_refused_by_version() {
    let ours = Segment::create(&spec()).unwrap();
    scribble(&ours, 8, &9u32.to_le_bytes());
    let error = Segment::from_fd(ours.fd().as_fd().try_clone_to_owned().unwrap()).err().unwrap();
    assert_eq!(error.code(), Code::VersionMismatch);
    assert!(error.text().contains("layout 9"), "{error}");
}

#[test]
fn a_reader_that_runs_ahead_of_the_writer_gets_no_room() {
    let ours = Segment::create(&spec()).unwrap();
    let mut up = ours.producer(Direction::Up);
    // The mark of the up ring, far beyond its end.
    scribble(&ours, 8192 + 128, &u64::MAX.to_le_bytes());
    assert_eq!(up.free(), 0);
    ours.word(0).store(0, Ordering::Relaxed);
}
