//! Bytes anywhere in a segment that another process shares: header, words, block table, rings.

use forebay_arena::{Direction, Segment, SegmentSpec};

const BLOCKS: u32 = 8;

fn segment() -> Segment {
    let spec = SegmentSpec {
        name: String::new(),
        kind: 2,
        up_bytes: 4096,
        down_bytes: 4096,
        block_bytes: 16 << 10,
        blocks: BLOCKS,
    };
    Segment::create(&spec).expect("a memory file")
}

/// Eight bytes at a time: where in two bytes, which six of them, what in the rest. Header, words and
/// cursors, table and rings are 28 KiB, in steps of four bytes.
pub(super) fn scribble(segment: &Segment, data: &[u8]) {
    for chunk in data.chunks_exact(8) {
        let at = u64::from(u16::from_le_bytes([chunk[0], chunk[1]])) * 4 % (28 << 10);
        let bytes = &chunk[2..2 + 1 + usize::from(chunk[7] % 6)];
        rustix::io::pwrite(segment.fd(), bytes, at).expect("a memory file");
    }
}

pub fn ring(data: &[u8]) {
    let Some((how, data)) = data.split_first() else { return };
    let ours = segment();
    let mut producer = ours.producer(Direction::Up);
    let mut allocator = ours.allocator();
    for length in [1, 100, 1000] {
        let _ = producer.push(&[&vec![7; length]]);
        allocator.alloc(length as u64);
    }
    // What the other side may change before or after it is opened here.
    if how & 1 == 0 {
        scribble(&ours, data);
    }
    let copy = ours.fd().try_clone_to_owned().expect("a descriptor");
    let Ok(theirs) = Segment::from_fd(copy) else { return };
    let mut consumer = theirs.consumer(Direction::Up);
    if how & 1 != 0 {
        scribble(&ours, data);
    }
    let mut record = Vec::new();
    for _ in 0..200 {
        let Ok(Some(position)) = consumer.next(&mut record) else { break };
        consumer.release_to(position);
    }
    let (used, fresh) = (theirs.waiting(Direction::Up), theirs.published(Direction::Down));
    assert!(used <= 64, "{used} records in 4096 bytes, {fresh}");
    for index in 0..BLOCKS + 2 {
        if let Ok(block) = theirs.block(index) {
            assert!(block.len() <= 16 << 10);
            std::hint::black_box(block.view().iter().fold(0u8, |sum, b| sum.wrapping_add(b)));
        }
        let _ = theirs.release_generation(index, 1);
        let _ = theirs.release(index);
    }
    allocator.reap();
    for length in [1, 5000] {
        allocator.alloc(length);
        let _ = producer.push(&[&[1; 500]]);
    }
    let _ = theirs.producer(Direction::Down).push(&[b"after all"]);
}
