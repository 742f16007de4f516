//! Segments as their users see them: two handles to the same memory, as two processes have.

use forebay_arena::{Direction, Doorbell, Lent, Segment, SegmentSpec, Spin, TripleBuffer};
use forebay_types::{Code, limits};
use std::time::{Duration, Instant};

fn spec(name: &str) -> SegmentSpec {
    SegmentSpec {
        name: name.into(),
        kind: 7,
        up_bytes: 8192,
        down_bytes: 4096,
        block_bytes: 16 << 20,
        blocks: 64,
    }
}

fn pair() -> (Segment, Segment) {
    let ours = Segment::create(&spec("")).unwrap();
    let theirs = Segment::from_fd(ours.fd().try_clone_to_owned().unwrap()).unwrap();
    (ours, theirs)
}

#[test]
fn a_named_segment_is_private_exclusive_and_stays_until_unlinked() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let segment = Segment::create_in(dir.path(), &spec("a-b")).unwrap();
    let path = segment.path().unwrap().to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Segment::create_in(dir.path(), &spec("a-b")).err().unwrap().code(), Code::Conflict);
    segment.word(3).store(42, std::sync::atomic::Ordering::SeqCst);
    drop(segment);
    let again = Segment::open(&path).unwrap();
    assert_eq!(again.word(3).load(std::sync::atomic::Ordering::SeqCst), 42);
    assert_eq!(again.creator().pid, std::process::id());
    assert!(again.creator().alive());
    assert_eq!(again.kind(), 7);
    again.unlink().unwrap();
    again.unlink().unwrap();
    assert_eq!(Segment::open(&path).err().unwrap().code(), Code::NotFound);
}

#[test]
fn a_block_goes_to_files_and_sockets_from_where_it_lies_whatever_a_peer_writes_meanwhile() {
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};
    let (ours, theirs) = pair();
    let block = ours.allocator().alloc(100_000).unwrap();
    block.write_from(0, &[1; 100_000]);
    let (read, done) = (theirs.block(block.index()).unwrap(), AtomicBool::new(false));
    let (head, tail) = read.lent().split_at(40_000);
    let mut file = tempfile::tempfile().unwrap();
    let (near, mut remote) = std::os::unix::net::UnixStream::pair().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Ordering::Acquire) {
                block.view().update(|byte| 3 - byte);
            }
        });
        for _ in 0..50 {
            assert_eq!(tail.write_at(&file, 40_000).unwrap(), 60_000);
            assert_eq!(head.write_at(&file, 0).unwrap(), 40_000);
            let sent = Lent::send(&[Lent::of(b"head"), tail.part(5, 1000).unwrap(), head], &near).unwrap();
            assert!(sent > 1004, "{sent} bytes of three parts");
            let mut got = vec![0; sent];
            remote.read_exact(&mut got).unwrap();
            assert_eq!(got[..4], *b"head");
            assert!(got[4..].iter().all(|byte| [1, 2].contains(byte)), "a byte that nobody wrote");
        }
        done.store(true, Ordering::Release);
    });
    let mut kept = Vec::new();
    file.read_to_end(&mut kept).unwrap();
    assert!(kept.len() == 100_000 && kept.iter().all(|byte| [1, 2].contains(byte)));
    drop(remote);
    assert_eq!(Lent::send(&[head], &near).unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert!(head.write_at(&file, u64::MAX).is_err());
}

#[test]
fn records_arrive_whole_and_in_order_around_the_end_of_the_ring() {
    let (ours, theirs) = pair();
    let (mut up, mut out) = (ours.producer(Direction::Up), theirs.consumer(Direction::Up));
    let mut buf = Vec::new();
    for i in 0..5000u32 {
        let body = vec![i as u8; (i * 37 % 3000) as usize];
        up.push(&[&i.to_le_bytes(), &body]).unwrap();
        let position = out.next(&mut buf).unwrap().unwrap();
        assert_eq!(buf[..4], i.to_le_bytes());
        assert_eq!(buf[4..], body[..]);
        out.release_to(position);
    }
    assert_eq!(out.next(&mut buf).unwrap(), None);
    assert!(up.is_drained());
}

#[test]
fn a_full_ring_refuses_until_the_reader_releases() {
    let (ours, theirs) = pair();
    let (mut up, mut out) = (ours.producer(Direction::Up), theirs.consumer(Direction::Up));
    let mut pushed = 0;
    while up.push(&[&[1; 1000]]).is_ok() {
        pushed += 1;
    }
    assert_eq!(pushed, 7, "of 1024 bytes each, and a line stays free");
    let mut buf = Vec::new();
    let position = out.next(&mut buf).unwrap().unwrap();
    assert!(!up.push(&[&[1; 1000]]).unwrap_err().for_ever(), "reading alone frees nothing");
    out.release_to(position);
    up.push(&[&[1; 1000]]).unwrap();
    assert!(up.push(&[&vec![0; limits::RECORD_BYTES + 1]]).unwrap_err().for_ever());
    assert!(up.push(&[&[0; 8121]]).unwrap_err().for_ever());
    assert!(!up.push(&[&[0; 8120]]).unwrap_err().for_ever(), "it fits when all is read");
}

#[test]
fn a_record_that_was_read_is_there_once_more_until_it_is_released() {
    let (ours, theirs) = pair();
    let (mut up, mut out) = (ours.producer(Direction::Up), theirs.consumer(Direction::Up));
    let (mut buf, mut from) = (Vec::new(), 0);
    for i in 0..500u32 {
        up.push(&[&vec![i as u8; (i * 37 % 3000) as usize]]).unwrap();
        let behind = out.next(&mut buf).unwrap().unwrap();
        assert_eq!(out.again(from).unwrap(), buf);
        assert!(out.again(from + 8).is_err(), "no record begins within one");
        out.release_to(behind);
        assert!(out.again(from).is_err());
        from = behind;
    }
    up.push(&[b"next"]).unwrap();
    assert!(out.again(from).is_err(), "it was not read");
}

#[test]
fn what_was_read_but_not_released_is_read_again_by_the_successor() {
    let (ours, theirs) = pair();
    let mut up = ours.producer(Direction::Up);
    for i in 0..3u8 {
        up.push(&[&[i]]).unwrap();
    }
    let mut buf = Vec::new();
    let mut first = theirs.consumer(Direction::Up);
    let released = first.next(&mut buf).unwrap().unwrap();
    first.release_to(released);
    first.next(&mut buf).unwrap().unwrap();
    first.rewind();
    first.next(&mut buf).unwrap().unwrap();
    assert_eq!(buf, [1]);
    drop(first);
    let mut second = theirs.consumer(Direction::Up);
    second.next(&mut buf).unwrap().unwrap();
    assert_eq!(buf, [1]);
    second.release_to(released); // already released: nothing happens
    second.release_to(u64::MAX); // never read: nothing happens
    assert_eq!(second.released(), released);
}

#[test]
fn blocks_are_aligned_found_by_the_other_side_and_reused() {
    let (ours, theirs) = pair();
    let mut allocator = ours.allocator();
    let big = allocator.alloc(3 << 20).unwrap();
    let small = allocator.alloc(100).unwrap();
    assert_eq!(big.offset() % 4096, 0);
    assert_eq!(small.offset() % 64, 0);
    let data: Vec<u8> = (0..3 << 20).map(|i: u32| (i % 251) as u8).collect();
    big.write_from(0, &data);
    let seen = theirs.block(big.index()).unwrap();
    assert!(seen.view().to_vec() == data);
    assert_eq!(seen.offset(), big.offset());
    assert_eq!(seen.view().cast::<f64>().unwrap().len(), (3 << 20) / 8);
    assert_eq!(allocator.reap(), 0);
    theirs.release(big.index()).unwrap();
    theirs.release(big.index()).unwrap();
    assert!(theirs.block(big.index()).is_err(), "a released block is no longer found");
    assert_eq!(allocator.reap(), 1);
    let again = allocator.alloc(3 << 20).unwrap();
    assert_eq!(again.offset(), big.offset(), "the same warm pages are used again");
    allocator.free(again);
    allocator.free(small);
    assert_eq!((allocator.used(), allocator.live()), (0, 0));
    assert_eq!(allocator.largest_free(), 16 << 20);
    assert!(allocator.high_water() >= 3 << 20);
}

#[test]
fn an_exhausted_allocator_says_so_and_recovers() {
    let (ours, theirs) = pair();
    let mut allocator = ours.allocator();
    let mut blocks = Vec::new();
    while let Some(block) = allocator.alloc(1 << 20) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 16);
    assert_eq!(allocator.largest_free(), 0);
    for block in blocks.iter().step_by(2) {
        theirs.release(block.index()).unwrap();
    }
    allocator.reap();
    assert_eq!(allocator.largest_free(), 1 << 20, "what lies between is still in use");
    for block in blocks.iter().skip(1).step_by(2) {
        theirs.release(block.index()).unwrap();
    }
    allocator.reap();
    assert_eq!(allocator.largest_free(), 16 << 20, "neighbours are joined");
    assert!(allocator.alloc(u64::MAX).is_none());
    let few = Segment::create(&SegmentSpec { blocks: 2, ..spec("") }).unwrap();
    let mut allocator = few.allocator();
    let held = [allocator.alloc(1).unwrap(), allocator.alloc(1).unwrap()];
    assert!(allocator.alloc(1).is_none(), "no entry of the table is left");
    drop(held);
}

#[test]
fn prefault_takes_the_pages_asked_for_and_ends_when_the_segment_goes() {
    let (ours, theirs) = pair();
    let done = |segment: &Segment, bytes: u64| segment.prefault(bytes).map(|t| t.join().unwrap());
    done(&theirs, u64::MAX);
    assert_eq!(ours.taken(), 0, "only the creator takes pages");
    done(&ours, 5 << 20);
    let some = ours.taken();
    assert!((5 << 20..16 << 20).contains(&some), "{some}");
    assert!(done(&ours, 5 << 20).is_none(), "they are there");
    done(&ours, u64::MAX);
    done(&theirs, u64::MAX);
    assert_eq!(ours.taken(), 16 << 20);
    assert_eq!(theirs.taken(), 16 << 20);
    let huge = Segment::create(&SegmentSpec { block_bytes: 1 << 30, ..spec("") }).unwrap();
    let thread = huge.prefault(1 << 30).unwrap();
    drop(huge);
    thread.join().unwrap();
}

#[test]
fn a_directory_without_room_is_named_with_the_size_needed() {
    let dir = tempfile::tempdir().unwrap();
    let huge = SegmentSpec { block_bytes: 1 << 46, ..spec("huge") };
    let error = Segment::create_in(dir.path(), &huge).err().unwrap();
    assert_eq!(error.code(), Code::Full);
    assert!(error.text().contains("needs 703687") && error.text().contains("free"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_sleeper_is_woken_by_the_bell_and_by_nothing_else() {
    let (ours, theirs) = pair();
    let sleeper = std::thread::spawn(move || {
        let mut down = theirs.consumer(Direction::Up);
        let bell = theirs.bell(Direction::Up);
        let mut spin = Spin::asleep();
        let early = Instant::now() + Duration::from_millis(20);
        assert!(!bell.wait(|| down.pending(), Some(early), &mut spin), "nothing came before the deadline");
        theirs.word(0).store(1, std::sync::atomic::Ordering::SeqCst);
        let late = Instant::now() + Duration::from_secs(20);
        assert!(bell.wait(|| down.pending(), Some(late), &mut spin));
    });
    while ours.word(0).load(std::sync::atomic::Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    ours.producer(Direction::Up).push(&[b"x"]).unwrap();
    ours.bell(Direction::Up).ring();
    sleeper.join().unwrap();
}

#[test]
fn a_long_wait_in_slices_uses_hardly_any_cpu() {
    let (_ours, theirs) = pair();
    let mut up = theirs.consumer(Direction::Up);
    let (bell, mut spin) = (theirs.bell(Direction::Up), Spin::new());
    for _ in 0..8 {
        let slice = Instant::now() + Duration::from_millis(2);
        assert!(!bell.wait(|| up.pending(), Some(slice), &mut spin));
    }
    assert!(spin.budget() <= Duration::from_micros(1), "still polls for {:?}", spin.budget());
}

#[test]
fn a_doorbell_is_rung_only_when_the_other_side_sleeps_in_epoll() {
    let (ours, theirs) = pair();
    let event = Doorbell::new().unwrap();
    let bell = ours.bell(Direction::Up);
    bell.attach_doorbell(event.share().unwrap()).unwrap();
    let mut rings = [0; 8];
    bell.ring();
    assert!(rustix::io::read(&event, &mut rings).is_err(), "awake: no system call");
    theirs.bell(Direction::Up).prepare_sleep();
    ours.bell(Direction::Up).ring();
    bell.ring();
    assert_eq!(rustix::io::read(&event, &mut rings), Ok(1), "rung twice, woken once");
}

#[test]
fn the_newest_update_of_a_curve_is_read_whole_by_any_number_of_readers() {
    let (ours, theirs) = pair();
    let mut allocator = ours.allocator();
    let block = allocator.alloc(TripleBuffer::bytes_for(1000)).unwrap();
    let index = block.index();
    assert!(TripleBuffer::reader(theirs.block(index).unwrap(), 1000).is_err(), "not made yet");
    let mut writer = TripleBuffer::writer(block, 1000).unwrap();
    assert!(TripleBuffer::reader(theirs.block(index).unwrap(), 999).is_err());
    let mut reader = TripleBuffer::reader(theirs.block(index).unwrap(), 1000).unwrap();
    assert!(reader.latest().is_none());
    assert!(!writer.watched());
    reader.watch(true);
    assert!(writer.watched());
    for i in 1..=7 {
        writer.publish(i, i as f64 * 0.5, 3, |x, y| {
            x.fill(i as f64);
            y.fill(-i as f64);
        });
    }
    let (update, step, time, x, y) = reader.latest().unwrap();
    assert_eq!((update, step, time), (7, 7, 3.5));
    assert_eq!((x, y), (vec![7.0; 3], vec![-7.0; 3]));
    assert!(reader.latest().is_none(), "nothing newer");
    let mut late = TripleBuffer::reader(theirs.block(index).unwrap(), 1000).unwrap();
    assert_eq!(late.latest().unwrap().0, 7);
}

#[test]
fn a_reader_never_sees_half_an_update_of_a_busy_writer() {
    let (ours, theirs) = pair();
    let block = ours.allocator().alloc(TripleBuffer::bytes_for(256)).unwrap();
    let index = block.index();
    let mut writer = TripleBuffer::writer(block, 256).unwrap();
    let mut reader = TripleBuffer::reader(theirs.block(index).unwrap(), 256).unwrap();
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = done.clone();
    let thread = std::thread::spawn(move || {
        let mut i = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            i += 1;
            writer.publish(i, i as f64, 256, |x, y| {
                x.fill(i as f64);
                y.fill(i as f64);
            });
        }
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut seen = 0;
    while seen < 200 {
        assert!(Instant::now() < deadline);
        if let Some((_, step, time, x, y)) = reader.latest() {
            assert_eq!(time, step as f64);
            assert!(x.iter().chain(&y).all(|v| *v == time), "torn update");
            seen += 1;
        }
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn pages_behind_the_last_block_go_back_to_the_system_and_are_taken_again() {
    let (ours, _) = pair();
    let mut allocator = ours.allocator();
    let taken = || rustix::fs::fstat(ours.fd()).unwrap().st_blocks as u64 * 512;
    let first = allocator.alloc(10_000).unwrap();
    first.write_from(0, &[7; 10_000]);
    let large = allocator.alloc(8 << 20).unwrap();
    large.write_from(0, &vec![1; 8 << 20]);
    allocator.trim();
    assert!(taken() >= 8 << 20, "all of it is in use");
    allocator.free(large);
    assert!(allocator.trim() >= 8 << 20 && taken() < 1 << 20);
    assert!(first.view().iter().all(|byte| byte == 7));
    let again = allocator.alloc(8 << 20).unwrap();
    again.write_from(0, &vec![2; 8 << 20]);
    assert!(taken() >= 8 << 20 && again.view().get((8 << 20) - 1) == 2);
}

#[test]
fn the_rings_of_a_memory_file_take_their_pages_as_they_are_written_and_those_of_a_named_segment_at_once() {
    const RING: u64 = 1 << 20;
    let rings =
        SegmentSpec { up_bytes: RING, down_bytes: RING, blocks: 64, block_bytes: 1 << 20, ..spec("") };
    let taken = |s: &Segment| rustix::fs::fstat(s.fd()).unwrap().st_blocks as u64 * 512;
    let ours = Segment::create(&rings).unwrap();
    let theirs = Segment::from_fd(ours.fd().try_clone_to_owned().unwrap()).unwrap();
    assert!(taken(&ours) < RING / 8, "{}", taken(&ours));
    // Both ends write, twice around.
    let mut ends = [
        (ours.producer(Direction::Up), theirs.consumer(Direction::Up)),
        (theirs.producer(Direction::Down), ours.consumer(Direction::Down)),
    ];
    let (mut bytes, mut before) = (Vec::new(), taken(&ours));
    for n in 0..2 * RING / 10_000 {
        for (producer, consumer) in &mut ends {
            producer.push(&[&[n as u8; 9_990]]).unwrap();
            let position = consumer.next(&mut bytes).unwrap().unwrap();
            assert!(bytes.iter().all(|b| *b == n as u8) && bytes.len() == 9_990);
            consumer.release_to(position);
        }
        if n == 0 {
            assert!(taken(&ours) <= before + 2 * (32 << 10), "{} from {before}", taken(&ours));
            before = taken(&ours);
        }
    }
    assert!(taken(&ours) >= 2 * RING);
    // Who takes an end up again goes on there.
    drop(ends);
    let (mut producer, mut consumer) = (ours.producer(Direction::Up), theirs.consumer(Direction::Up));
    producer.push(&[b"again"]).unwrap();
    consumer.next(&mut bytes).unwrap().unwrap();
    assert_eq!(bytes, b"again");
    let dir = tempfile::tempdir().unwrap();
    let named = Segment::create_in(dir.path(), &SegmentSpec { name: "n".into(), ..rings }).unwrap();
    assert!(taken(&named) >= 2 * RING);
}
