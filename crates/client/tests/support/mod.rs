//! An owner of a run for tests of the rank's side: it speaks the real protocol over a real
//! socket and a real segment and keeps a diary instead of a store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_arena::{Consumer, Direction, Producer, Segment};
use forebay_client::run::Session;
use forebay_link::{Listener, Wire};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Mode, OpenRun, RunOpened, RunRequest, WhenFull, word};
use forebay_types::record::{Notice, Payload, Record};
use forebay_types::watch::Act;

/// Name of an array, first byte of a part of it, the part.
type Part = (String, u64, Vec<u8>);

/// What the owner does and has seen.
#[derive(Clone, Default)]
pub struct Script {
    /// Blocks are kept, even of ended steps, while this is set.
    pub hold: Arc<AtomicBool>,
    /// One line a record.
    pub diary: Arc<Mutex<Vec<String>>>,
    /// Bytes of arrays as they came.
    pub arrays: Arc<Mutex<Vec<Part>>>,
    /// The segment, once it is there.
    pub segment: Arc<Mutex<Option<Segment>>>,
    /// Notices to send: id, step, act.
    pub acts: Arc<Mutex<Vec<(u64, i64, Act)>>>,
}

/// An owner on a thread of the test.
pub struct Owner {
    pub script: Script,
    pub socket: PathBuf,
    dir: tempfile::TempDir,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Owner {
    pub fn start() -> Owner {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("o.sock");
        let script = Script::default();
        let listener = Listener::bind(&socket).unwrap();
        let theirs = script.clone();
        std::thread::spawn(move || serve(&listener, &theirs));
        Owner { script, socket, dir }
    }

    pub fn open(&self, buffer: u64, full: WhenFull) -> Session {
        Session::open(Session::greet(&self.socket).unwrap(), &request(self.dir.path(), buffer, full)).unwrap()
    }

    pub fn diary(&self) -> String {
        self.script.diary.lock().unwrap().join("\n")
    }

    pub fn segment(&self) -> Segment {
        self.script.segment.lock().unwrap().clone().unwrap()
    }

    /// The arrays of that name, put together from their parts.
    pub fn array(&self, name: &str) -> Vec<u8> {
        let mut whole = Vec::new();
        for (_, part, bytes) in self.script.arrays.lock().unwrap().iter().filter(|a| a.0 == name) {
            assert_eq!(*part, whole.len() as u64, "parts of {name} come in order");
            whole.extend_from_slice(bytes);
        }
        whole
    }
}

pub fn request(dir: &Path, buffer: u64, full: WhenFull) -> OpenRun {
    OpenRun {
        path: dir.join("x.fb").display().to_string(),
        mode: Mode::Append,
        rank: 0,
        size: 1,
        full,
        scratch: false,
        buffer,
        program: "test".into(),
        elsewhere: Default::default(),
    }
}

/// Waits for a condition, with a deadline that only a broken program meets.
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Serves one session to its end.
pub fn serve(listener: &Listener, script: &Script) {
    let Some((mut wire, attach, segment)) = take_segment(listener, script) else { return };
    wire.answer(attach, &(), &[]).unwrap();
    let mut life = Life {
        up: segment.consumer(Direction::Up),
        down: segment.producer(Direction::Down),
        kept: Vec::new(),
        early: false,
        segment,
        script: script.clone(),
    };
    while !wire.peer_gone() {
        life.turn();
        std::thread::sleep(Duration::from_micros(200));
    }
    life.turn();
}

/// Opens a run for a rank, and takes its segment: what is to be answered to that, if anything.
pub fn take_segment(listener: &Listener, script: &Script) -> Option<(Wire, u64, Segment)> {
    let until = Instant::now() + Duration::from_secs(30);
    let mut wire = listener.accept_wire("agent", Some(until)).ok()??;
    let open = wire.receive(Duration::from_secs(5)).unwrap();
    let RunRequest::OpenRun(_) = open.parse().unwrap() else { panic!("not an opening") };
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let opened = RunOpened {
        begun: None,
        unfinished: false,
        remote: false,
        run_id: "test".into(),
        session: 1,
        segment: format!("forebay-test-{}-{n}", std::process::id()),
        owner_pid: std::process::id(),
        created: true,
        last_step: None,
    };
    wire.answer(open.id, &opened, &[]).unwrap();
    let mut attach = wire.receive(Duration::from_secs(5)).unwrap();
    let segment = Segment::from_named_fd(attach.fds.pop().unwrap()).unwrap();
    *script.segment.lock().unwrap() = Some(segment.clone());
    Some((wire, attach.id, segment))
}

struct Life {
    up: Consumer,
    down: Producer,
    kept: Vec<u32>,
    early: bool,
    segment: Segment,
    script: Script,
}

impl Life {
    fn turn(&mut self) {
        self.segment.word(word::HEARTBEAT).fetch_add(1, Ordering::Relaxed);
        let mut buf = Vec::new();
        while let Some(position) = self.up.next(&mut buf).unwrap() {
            let (seq, record) = Record::decode(&buf).unwrap();
            self.take(seq, &record);
            self.up.release_to(position);
        }
        if self.early && !self.script.hold.load(Ordering::Relaxed) {
            self.release();
        }
        let acts = std::mem::take(&mut *self.script.acts.lock().unwrap());
        for (id, step, act) in acts {
            let json = serde_json::to_string(&act).unwrap();
            self.post(&Notice::Apply { id, step, json: &json });
        }
    }

    fn take(&mut self, seq: u64, record: &Record) {
        let line = match record {
            Record::StepBlock(b) => {
                let bytes = self.bytes(&b.payload);
                self.script.arrays.lock().unwrap().push((b.name.to_owned(), b.part, bytes));
                format!("block {} {} at {}", b.step, b.name, b.part)
            }
            Record::Put { name, payload, .. } => {
                let bytes = self.bytes(payload);
                self.script.arrays.lock().unwrap().push(((*name).to_owned(), 0, bytes));
                self.release();
                format!("put {name}")
            }
            Record::StepEarly { step } => {
                self.early = true;
                format!("early {step}")
            }
            Record::StepEnd { step, .. } | Record::StepDiscard { step } => {
                self.early = true;
                let word = if matches!(record, Record::StepEnd { .. }) { "end" } else { "discard" };
                format!("{word} {step}")
            }
            Record::Ask { json } => {
                let ask: Ask = serde_json::from_str(json).unwrap();
                let text = match ask {
                    Ask::Stats => "{}",
                    Ask::Delete { .. } => "2",
                    _ => "null",
                };
                match &ask {
                    Ask::Rename { .. } => self.post(&Notice::Answer { seq, code: 1, text: "no such name" }),
                    // Never answered: the caller waits.
                    Ask::Checkpoint { .. } => {}
                    _ => self.post(&Notice::Answer { seq, code: 0, text }),
                }
                format!("ask {json}")
            }
            other => format!("{other:?}"),
        };
        self.script.diary.lock().unwrap().push(line);
        self.segment.word(word::APPLIED).store(seq, Ordering::Release);
    }

    fn bytes(&mut self, payload: &Payload) -> Vec<u8> {
        match payload {
            Payload::Inline(b) => b.to_vec(),
            Payload::Block(b) => {
                let block = self.segment.block(b.index).unwrap();
                self.kept.push(b.index);
                block.view().part(0, b.bytes as usize).unwrap().to_vec()
            }
        }
    }

    fn release(&mut self) {
        for index in self.kept.drain(..) {
            self.segment.release(index).unwrap();
        }
    }

    fn post(&mut self, notice: &Notice) {
        let mut w = Writer::new();
        notice.encode(&mut w);
        self.down.push(&[&w.finish()]).unwrap();
        self.segment.word(word::NOTICE).fetch_add(1, Ordering::AcqRel);
        self.segment.bell(Direction::Down).ring();
    }
}
