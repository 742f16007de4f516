//! Bytes as what a rank that died left to the store of its run: records in the ring of its segment,
//! blocks, and in every second input other bytes anywhere in it.

use forebay_arena::{Direction, Segment, SegmentSpec};
use forebay_store::{Attach, Deaf, Options, Owner, Reader};
use forebay_types::Code;
use forebay_types::codec::Writer;
use forebay_types::control::{Mode, OpenRun, WhenFull};
use std::sync::Arc;

/// `kind u8 | length u16 | body` one behind the other, as records with numbers that count.
fn records(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let [kind, low, high, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (body, tail) = tail.split_at(length);
        let mut w = Writer::new();
        w.u16(u16::from(*kind)).u16(0).u32(0).u64(records.len() as u64 + 1).raw(body);
        records.push(w.finish());
        rest = tail;
    }
    records
}

pub fn recover(data: &[u8]) {
    let Some((how, data)) = data.split_first() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let run = dir.path().join("run.fb");
    let owner = Owner::open(&run, Options::default()).expect("a new run");
    let open = OpenRun {
        path: run.to_string_lossy().into_owned(),
        mode: Mode::Append,
        rank: 0,
        size: 1,
        full: WhenFull::Block,
        scratch: false,
        buffer: 64 << 10,
        program: "fuzz".to_owned(),
        elsewhere: Default::default(),
    };
    let opened = owner.admit(&open, None).expect("a session");
    let segment = Segment::create(&SegmentSpec {
        name: String::new(),
        kind: 1,
        up_bytes: 64 << 10,
        down_bytes: 64 << 10,
        block_bytes: 64 << 10,
        blocks: 8,
    })
    .expect("a memory file");
    let mut producer = segment.producer(Direction::Up);
    let mut allocator = segment.allocator();
    for length in [800, 10_000] {
        allocator.alloc(length).expect("room for a block").write_from(0, &vec![1; length as usize]);
    }
    for record in records(data) {
        if producer.push(&[&record]).is_err() {
            break;
        }
    }
    if how & 1 != 0 {
        super::ring::scribble(&segment, data);
    }
    let copy = segment.fd().try_clone_to_owned().expect("a descriptor");
    if let Ok(theirs) = Segment::from_fd(copy) {
        let attached = owner.attach(Attach { session: opened.session, segment: theirs }, Arc::new(Deaf));
        attached.expect("a session that was admitted");
    }
    sound(owner.hung_up(opened.session));
    sound(owner.close());
    let reader = Reader::open(&run).expect("a run");
    for set in reader.list("*", None).expect("its data sets") {
        std::hint::black_box(format!("{set:?}"));
    }
    sound(Owner::open(&run, Options::default()).and_then(|again| again.close()));
}

/// Whatever is refused, nothing has broken down.
fn sound(outcome: forebay_types::Result<()>) {
    if let Err(e) = outcome {
        assert!(e.code() != Code::Internal, "{e}");
    }
}
