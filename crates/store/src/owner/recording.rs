//! What the machine of an owner was told, written down as it happens, and told once more to another one.
//!
//! A file holds lines of JSON, so that it can be read and cut by hand:
//!
//! ```text
//!  {"Birth": what the machine is told once}
//!  {"Event": {"at": nanoseconds, "event": ...}}     or {"Record": {..., "bytes": the record as it lay in the ring}}
//!  {"Actions": {"number": 3, "digest": 2868934423}}  what came of the line before
//!  {"Cut": why the rest is not there}
//! ```
//!
//! Bytes of arrays are named by events and not held, but for those that a small record brings. Nothing is kept back
//! in memory: of an owner that is killed, all is there up to the event that it died of.

use super::machine::{Action, Birth, Event, Machine, Now};
use forebay_types::record::Record;
use forebay_types::{Code, Error, Result, crc32c};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes of one file; the beginning is kept, for nothing can be replayed without it.
const MOST: u64 = 256 << 20;

/// A line of the file.
#[derive(Serialize, Deserialize)]
enum Line<B, E> {
    Birth(B),
    Event {
        at: u64,
        event: E,
    },
    Record {
        at: u64,
        session: u64,
        position: u64,
        bytes: Vec<u8>,
        block: Option<Result<bool>>,
        pending: bool,
    },
    Actions {
        number: usize,
        digest: u32,
    },
    Cut(String),
}

type Written<'a, 'e> = Line<&'a Birth, &'a Event<'e>>;
type ReadLine<'a> = Line<Birth, Event<'a>>;

/// Writes down what one machine is told.
pub(super) struct Recorder {
    file: File,
    /// Bytes that may still be written; none once the recording is cut.
    room: u64,
}

impl Recorder {
    /// Begins a file of the run `run` in `dir`.
    pub fn begin(dir: &Path, run: &Path, birth: &Birth) -> Result<Recorder> {
        let failed = |e| Error::io(format!("cannot record what the owner decides in {}", dir.display()), e);
        std::fs::create_dir_all(dir).map_err(failed)?;
        let run = run.file_name().unwrap_or_default().to_string_lossy();
        let mut number = 0;
        let file = loop {
            let name = format!("{run}-{}-{number}.events", std::process::id());
            match File::create_new(dir.join(name)) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                made => break made.map_err(failed)?,
            }
        };
        let mut recorder = Recorder { file, room: MOST };
        recorder.write(|| Line::Birth(birth));
        Ok(recorder)
    }

    /// An event, before the machine takes it.
    pub fn event(&mut self, now: Now, event: &Event) {
        let at = now.as_nanos() as u64;
        self.write(|| match event {
            Event::Record { session, position, bytes, block, pending, .. } => Line::Record {
                at,
                session: *session,
                position: *position,
                bytes: bytes.to_vec(),
                block: block.clone(),
                pending: *pending,
            },
            event => Line::Event { at, event },
        });
    }

    /// What came of it.
    pub fn actions(&mut self, actions: &[Action]) {
        self.write(|| digest(actions));
    }

    /// The line is made only if it is written.
    fn write<'a, 'e: 'a>(&mut self, line: impl FnOnce() -> Written<'a, 'e>) {
        if self.room == 0 {
            return;
        }
        let written = serde_json::to_vec(&line()).map_err(|e| e.to_string()).and_then(|mut text| {
            text.push(b'\n');
            self.room = self.room.checked_sub(text.len() as u64).ok_or("the file is as long as it may be")?;
            self.file.write_all(&text).map_err(|e| e.to_string())
        });
        if let Err(why) = written {
            self.room = 0;
            let cut = serde_json::to_string(&Written::Cut(why)).unwrap_or_default();
            // What cannot be said there is seen: the file ends in the middle of something.
            let _ = writeln!(self.file, "{cut}");
        }
    }
}

fn digest<B, E>(actions: &[Action]) -> Line<B, E> {
    Line::Actions { number: actions.len(), digest: crc32c(format!("{actions:?}").as_bytes()) }
}

/// What was replayed.
#[derive(Debug)]
pub struct Replayed {
    /// How many events there were.
    pub events: usize,
    /// Why the recording ends before its owner did, if it says so.
    pub cut: Option<String>,
}

/// Tells a machine once more what another one was told. Fails at the first event of which other actions come
/// than when it was recorded.
pub fn replay(file: &Path) -> Result<Replayed> {
    let failed = |e| Error::io(format!("cannot read the recording {}", file.display()), e);
    let mut replay = Replay { file: file.to_owned(), machine: None, last: None, events: 0 };
    let mut lines = BufReader::new(File::open(file).map_err(failed)?).split(b'\n').peekable();
    while let Some(line) = lines.next() {
        let line = line.map_err(failed)?;
        match serde_json::from_slice(&line) {
            Ok(Line::Cut(why)) => return Ok(Replayed { events: replay.events, cut: Some(why) }),
            Ok(found) => replay.take(found, &line)?,
            // The owner was killed while it wrote this.
            Err(_) if lines.peek().is_none() => break,
            Err(e) => return Err(replay.unreadable(&e.to_string())),
        }
    }
    Ok(Replayed { events: replay.events, cut: None })
}

struct Replay {
    file: PathBuf,
    machine: Option<Machine>,
    /// The last event as it is written, and what came of it.
    last: Option<(Vec<u8>, Vec<Action>)>,
    events: usize,
}

impl Replay {
    fn take(&mut self, line: ReadLine, text: &[u8]) -> Result<()> {
        match line {
            Line::Birth(birth) => self.machine = Some(Machine::new(birth)),
            Line::Event { at, event } => self.tell(at, event, text)?,
            Line::Record { at, session, position, bytes, block, pending } => {
                let (seq, record) = Record::decode(&bytes)?;
                let (record, bytes) = (&record, &bytes[..]);
                let event = Event::Record { session, position, seq, record, bytes, block, pending };
                self.tell(at, event, text)?;
            }
            Line::Actions { number, digest: recorded } => self.compare(number, recorded)?,
            Line::Cut(_) => {}
        }
        Ok(())
    }

    fn tell(&mut self, at: u64, event: Event, text: &[u8]) -> Result<()> {
        self.events += 1;
        let mut actions = Vec::new();
        let Some(machine) = &mut self.machine else { return Err(self.unreadable("it has no beginning")) };
        machine.handle(Duration::from_nanos(at), event, &mut actions);
        self.last = Some((text.to_owned(), actions));
        Ok(())
    }

    fn compare(&mut self, number: usize, recorded: u32) -> Result<()> {
        let Some((text, actions)) = self.last.take() else {
            return Err(self.unreadable("actions without an event"));
        };
        let now: ReadLine = digest(&actions);
        if matches!(now, Line::Actions { number: n, digest } if (n, digest) == (number, recorded)) {
            return Ok(());
        }
        Err(Error::new(
            Code::Conflict,
            format!(
                "event {} of {} gave {number} actions when it was recorded, and now gives {} others: {actions:?}\nthe event: {}",
                self.events,
                self.file.display(),
                actions.len(),
                String::from_utf8_lossy(&text),
            ),
        ))
    }

    fn unreadable(&self, why: &str) -> Error {
        let (file, events) = (self.file.display(), self.events);
        Error::new(Code::Corrupt, format!("{file} is no recording behind its event {events}: {why}"))
    }
}
