//! A rank without sockets: a segment, records up, notices down. What the client library does,
//! reduced to what the store sees.

pub mod asked;
pub mod faults;
pub mod power;
pub mod script;

use forebay_arena::{Allocator, Bell, Consumer, Direction, Producer, Segment, SegmentSpec};
use forebay_store::{Attach, Deaf, Options, Owner, Reader, Sink};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Mode, OpenRun, Restarted, WhenFull, word};
use forebay_types::record::{HeldBlock, Notice, Payload, Place, Record, StepBlock};
use forebay_types::{ArrayMeta, Code, DType, Error, Result, Shape};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub struct Rank {
    pub rank: u32,
    pub session: u64,
    pub segment: Segment,
    pub producer: Producer,
    pub down: Consumer,
    pub allocator: Allocator,
    pub bell: Bell,
    pub seq: u64,
    pub late: Vec<Error>,
}

pub fn shape(v: &[u64]) -> Shape {
    Shape::new(v).unwrap()
}

/// Copies a run that is kept among the tests.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Opens a run after a loss of power and closes it again. As `recover`, but that the memory is gone is told and no
/// error: a test cannot start the machine anew.
pub fn recover_without_memory(run: &Path) -> Result<Option<i64>> {
    Owner::open(run, Options { mode: Mode::ReadWrite, ..Options::default() })?.close()?;
    Ok(Reader::open(run)?.last_step()?.map(|s| s.step))
}

pub fn f64s(n: u64, seed: u64) -> Vec<u8> {
    (0..n).flat_map(|i| (i as f64 * 0.5 + seed as f64).to_le_bytes()).collect()
}

pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What a rank says that opens a run.
pub fn opening(owner: &Owner, rank: u32, size: u32, buffer: u64) -> OpenRun {
    OpenRun {
        path: owner.dir().to_string_lossy().into_owned(),
        mode: Mode::Append,
        rank,
        size,
        full: WhenFull::Block,
        scratch: false,
        buffer,
        program: "test".into(),
        elsewhere: Default::default(),
    }
}

impl Rank {
    pub fn open(owner: &Owner, rank: u32, size: u32, arena: u64) -> Rank {
        Rank::try_open(owner, rank, size, arena).unwrap()
    }

    pub fn try_open(owner: &Owner, rank: u32, size: u32, arena: u64) -> Result<Rank> {
        Rank::open_with(owner, rank, size, &SegmentSpec { block_bytes: arena, ..Rank::measures() })
    }

    /// Opens a session of a rank; `sink` hears what the owner passes on.
    pub fn open_heard(owner: &Owner, rank: u32, size: u32, arena: u64, sink: Arc<dyn Sink>) -> Rank {
        let spec = SegmentSpec { block_bytes: arena, ..Rank::measures() };
        Rank::attached(owner, rank, size, &spec, sink).unwrap()
    }

    /// Of a segment, but for the bytes of its arena.
    pub fn measures() -> SegmentSpec {
        SegmentSpec {
            name: String::new(),
            kind: 1,
            up_bytes: 1 << 20,
            down_bytes: 64 << 10,
            block_bytes: 0,
            blocks: 1024,
        }
    }

    pub fn open_with(owner: &Owner, rank: u32, size: u32, spec: &SegmentSpec) -> Result<Rank> {
        Rank::attached(owner, rank, size, spec, Arc::new(Deaf))
    }

    /// The mirror of a rank on another host; it may bring what an earlier session of that rank has left there.
    pub fn open_remote(owner: &Owner, rank: u32, size: u32, arena: u64, after: Option<u64>) -> Rank {
        let spec = SegmentSpec { block_bytes: arena, ..Rank::measures() };
        Rank::made(owner, rank, size, &spec, Arc::new(Deaf), Some(after)).unwrap()
    }

    fn attached(
        owner: &Owner,
        rank: u32,
        size: u32,
        spec: &SegmentSpec,
        sink: Arc<dyn Sink>,
    ) -> Result<Rank> {
        Rank::made(owner, rank, size, spec, sink, None)
    }

    fn made(
        owner: &Owner,
        rank: u32,
        size: u32,
        spec: &SegmentSpec,
        sink: Arc<dyn Sink>,
        remote: Option<Option<u64>>,
    ) -> Result<Rank> {
        let opening = opening(owner, rank, size, spec.block_bytes);
        let opened = owner.admit_after(&opening, remote.flatten(), None)?;
        let segment = Segment::create(&SegmentSpec { name: opened.segment, ..spec.clone() })?;
        if let Some(after) = remote {
            segment.word(word::MIRROR).store(1, Ordering::SeqCst);
            segment.word(word::AFTER).store(after.unwrap_or(0), Ordering::SeqCst);
        }
        let bell = segment.bell(Direction::Up);
        bell.attach_doorbell(owner.doorbell().unwrap()).unwrap();
        let theirs = Segment::from_named_fd(segment.fd().try_clone_to_owned().unwrap()).unwrap();
        owner.attach(Attach { session: opened.session, segment: theirs }, sink)?;
        Ok(Rank {
            rank,
            session: opened.session,
            producer: segment.producer(Direction::Up),
            down: segment.consumer(Direction::Down),
            allocator: segment.allocator(),
            bell,
            segment,
            seq: 0,
            late: Vec::new(),
        })
    }

    pub fn publish(&mut self, record: &Record) -> u64 {
        self.seq += 1;
        let mut w = Writer::new();
        record.encode(self.seq, &mut w);
        let bytes = w.finish();
        wait_for("room in the ring", || {
            let pushed = self.producer.push(&[&bytes]).is_ok();
            (pushed || self.is_closed()).then_some(())
        });
        self.bell.ring();
        self.seq
    }

    /// A block with those bytes, waiting for room.
    pub fn block(&mut self, bytes: &[u8]) -> Payload<'static> {
        let block = wait_for("room in the arena", || {
            self.allocator.reap();
            self.allocator.alloc(bytes.len() as u64)
        });
        block.write_from(0, bytes);
        Payload::Block(HeldBlock {
            segment: 0,
            index: block.index(),
            generation: block.generation(),
            bytes: bytes.len() as u64,
        })
    }

    pub fn put<'a>(&mut self, name: &'a str, bytes: &'a [u8], if_version: Option<u64>) -> u64 {
        let meta = ArrayMeta::new(DType::F64, shape(&[bytes.len() as u64 / 8]));
        let payload = if bytes.len() > 8192 { self.block(bytes) } else { Payload::Inline(bytes) };
        self.publish(&Record::Put { name, set: 0, meta, units: "V", attrs: "", if_version, payload })
    }

    pub fn begin(&mut self, step: i64) {
        self.publish(&Record::StepBegin { step, time: step as f64 / 10.0, head: -1, stride: 0 });
    }

    /// An array of a step, in parts of at most `part` bytes.
    pub fn array(&mut self, step: i64, name: &str, bytes: &[u8], place: Place, part: usize) -> u32 {
        let meta = ArrayMeta::new(DType::F64, shape(&[bytes.len() as u64 / 8]));
        let mut n = 0;
        for (i, chunk) in bytes.chunks(part).enumerate() {
            let payload = if chunk.len() > 8192 { self.block(chunk) } else { Payload::Inline(chunk) };
            let part = (i * part) as u64;
            self.publish(&Record::StepBlock(StepBlock {
                step,
                name,
                units: "m",
                meta,
                place,
                part,
                payload,
            }));
            n += 1;
        }
        n
    }

    pub fn end(&mut self, step: i64, blocks: u32) -> u64 {
        self.publish(&Record::StepEnd { step, blocks })
    }

    /// A whole step of one array.
    pub fn step(&mut self, step: i64, bytes: &[u8]) {
        self.begin(step);
        let n = self.array(step, "x", bytes, Place::Whole, usize::MAX);
        self.end(step, n);
    }

    pub fn ask(&mut self, ask: &Ask) -> Result<serde_json::Value> {
        let json = serde_json::to_string(ask).unwrap();
        let seq = self.publish(&Record::Ask { json: &json });
        match ask {
            Ask::Restart { .. } => self.went_back(seq),
            _ => self.answer(seq),
        }
    }

    /// The answer to who asked to go back; it goes on there at once, where the number of the step says where.
    pub fn went_back(&mut self, asked: u64) -> Result<serde_json::Value> {
        let back = self.answer(asked)?;
        let to = serde_json::from_value::<Option<Restarted>>(back.clone()).unwrap();
        if let Some(to) = to.filter(|to| to.heads.is_none()) {
            self.ask(&Ask::GoOn { start: to.step, only: None })?;
        }
        Ok(back)
    }

    pub fn answer(&mut self, wanted: u64) -> Result<serde_json::Value> {
        wait_for("an answer", || {
            let closed = self.is_closed();
            match self.notice(wanted) {
                None if closed => Some(Err(Error::new(Code::Closed, "the owner closed the session"))),
                other => other,
            }
        })
    }

    /// Reads all notices that are there; the answer to `wanted` if it is among them.
    pub fn notice(&mut self, wanted: u64) -> Option<Result<serde_json::Value>> {
        let mut buf = Vec::new();
        let mut found = None;
        while let Some(position) = self.down.next(&mut buf).unwrap() {
            self.down.release_to(position);
            match Notice::decode(&buf).unwrap() {
                Notice::Answer { seq, code: 0, text } if seq == wanted => {
                    found = Some(Ok(serde_json::from_str(text).unwrap()));
                }
                Notice::Answer { seq, code, text } if seq == wanted => {
                    found = Some(Err(Error::new(Code::from_number(code).unwrap(), text)));
                }
                Notice::Late { code, text } => {
                    self.late.push(Error::new(Code::from_number(code).unwrap(), text));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether the owner has put an end to the session.
    pub fn is_closed(&self) -> bool {
        self.segment.word(word::CLOSED).load(Ordering::SeqCst) != 0
    }

    /// Waits until everything small is committed.
    pub fn settle(&self) {
        let seq = self.seq;
        wait_for("the commit", || {
            (self.segment.word(word::APPLIED).load(Ordering::SeqCst) >= seq).then_some(())
        });
    }

    pub fn is_unlinked(&self) -> bool {
        !self.segment.path().unwrap().exists()
    }
}
