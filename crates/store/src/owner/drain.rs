//! The drain: one thread that writes arrays from the ranks' own pages into files, behind their
//! backs. It knows files and nothing of records; what it did it says in events.
//!
//! So many steps have open files at once; what comes of more waits in its blocks until the step is
//! complete, or until a rank needs the room.
//!
//! A full disk is waited for, with a warning, and the same bytes are tried again: nothing that
//! was acknowledged is dropped. Any other failure costs the step, and is told.

use super::dropping::Turn;
use crate::disk::Disk;
use crate::layout::{Layout, data_file, step_file};
use crate::stepfile::{Facts, Manifest, Writer};
use forebay_arena::Block;
use forebay_types::{ArrayMeta, Code, Error, Result, Shape};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Most steps whose files are open at once.
const OPEN_FILES: usize = 32;

/// Bytes on their way.
pub(super) enum Data {
    Inline(Vec<u8>),
    Block(Block),
}

impl Data {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Data::Inline(b) => b,
            Data::Block(b) => b.bytes(),
        }
    }
}

/// A part of a piece of a data set of a step.
pub(super) struct Part {
    pub name: String,
    pub unit: String,
    /// The whole data set.
    pub meta: ArrayMeta,
    pub rank: u32,
    pub offset: Shape,
    pub local: Shape,
    pub from: u64,
    pub len: u64,
    pub data: Data,
    /// Session and number of the record.
    pub ticket: (u64, u64),
}

/// A large data set outside steps.
pub(super) struct LargePut {
    pub session: u64,
    pub seq: u64,
    pub name: String,
    pub set: i64,
    pub unit: String,
    pub meta: ArrayMeta,
    pub data: Data,
    pub run_id: String,
}

pub(super) enum Job {
    Write(i64, Box<Part>),
    Finish(Box<Facts>),
    Discard(i64),
    /// A rank needs the room that this step takes: what waits of it is written.
    Hurry(i64),
    Put(Box<LargePut>),
    Stop,
}

/// Where a large data set now lies.
pub(super) struct Stored {
    pub file: String,
    pub offset: u64,
    pub crc: u32,
}

pub(super) enum Event {
    Written {
        step: i64,
        ticket: (u64, u64),
    },
    Failed {
        step: i64,
        error: Error,
    },
    Durable {
        manifest: Box<Manifest>,
        file: String,
    },
    PutDone {
        session: u64,
        seq: u64,
        result: Result<Stored>,
    },
    /// The disk is full, or has room again (`None`).
    Trouble(Option<Error>),
    /// So long did the last job take.
    Worked(Duration, u64),
}

pub(super) struct Drain<F: Fn(Event)> {
    pub layout: Layout,
    pub jobs: Receiver<Job>,
    pub patient: Patient<F>,
    pub files: HashMap<i64, Writer>,
    /// What waits of steps that have no open file.
    pub waiting: HashMap<i64, Vec<Part>>,
    /// Steps whose room a rank needs: they do not wait.
    pub hurried: HashSet<i64>,
    pub turn: Arc<Turn>,
    /// Steps of which something could not be written: what still comes of them is passed over
    /// until they are discarded, or half a step would be taken for a whole one.
    pub failed: HashSet<i64>,
}

impl<F: Fn(Event)> Drain<F> {
    pub fn run(mut self) {
        while let Ok(job) = self.jobs.recv() {
            let start = Instant::now();
            let mut bytes = 0;
            match job {
                Job::Write(step, part) if self.must_wait(step) => {
                    self.waiting.entry(step).or_default().push(*part);
                }
                Job::Write(step, _) if !self.goes_on(step) => {}
                Job::Finish(facts) if !self.goes_on(facts.step) => {}
                Job::Write(step, part) => {
                    bytes = part.len;
                    self.write(step, &part);
                }
                Job::Hurry(step) => {
                    self.hurried.insert(step);
                    bytes = self.write_waiting(step);
                }
                Job::Finish(facts) => {
                    bytes = self.write_waiting(facts.step);
                    if self.goes_on(facts.step) {
                        self.finish(&facts);
                    }
                }
                Job::Discard(step) => {
                    self.files.remove(&step);
                    self.waiting.remove(&step);
                    self.hurried.remove(&step);
                    self.failed.remove(&step);
                    self.turn.end(step);
                }
                Job::Put(put) => {
                    bytes = put.data.bytes().len() as u64;
                    let result = self.put(&put);
                    if result.is_ok() || !self.patient.is_abandoned() {
                        self.tell(Event::PutDone { session: put.session, seq: put.seq, result });
                    }
                }
                Job::Stop => break,
            }
            self.tell(Event::Worked(start.elapsed(), bytes));
        }
    }

    fn must_wait(&self, step: i64) -> bool {
        self.files.len() >= OPEN_FILES && !self.files.contains_key(&step) && !self.hurried.contains(&step)
    }

    /// Writes what waits of a step; its bytes.
    fn write_waiting(&mut self, step: i64) -> u64 {
        let parts = self.waiting.remove(&step).unwrap_or_default();
        for part in &parts {
            if self.goes_on(step) {
                self.write(step, part);
            }
        }
        parts.iter().map(|p| p.len).sum()
    }

    fn write(&mut self, step: i64, part: &Part) {
        let done = self.patient.insist(&format!("step {step}"), || {
            let writer = match self.files.entry(step) {
                std::collections::hash_map::Entry::Occupied(o) => o.into_mut(),
                std::collections::hash_map::Entry::Vacant(v) => {
                    let path = self.layout.file(&step_file(step))?;
                    v.insert(Writer::create(self.patient.disk.clone(), &path)?)
                }
            };
            writer.add(&part.name, &part.meta, &part.unit)?;
            let bytes = part.data.bytes().get(..part.len as usize).ok_or_else(|| {
                Error::new(Code::Corrupt, format!("{:?} announces more bytes than its block has", part.name))
            })?;
            writer.write(&part.name, part.rank, &part.offset, &part.local, part.from, bytes)
        });
        match done {
            Ok(()) => self.tell(Event::Written { step, ticket: part.ticket }),
            Err(error) => self.fail(step, error),
        }
    }

    /// Whether a step has neither failed nor been dropped.
    fn goes_on(&self, step: i64) -> bool {
        !self.failed.contains(&step) && self.turn.begin(step)
    }

    fn tell(&self, event: Event) {
        (self.patient.tell)(event);
    }

    fn fail(&mut self, step: i64, error: Error) {
        self.files.remove(&step);
        self.failed.insert(step);
        if self.patient.is_abandoned() {
            return; // its blocks are not given back, so a successor writes it
        }
        self.tell(Event::Failed { step, error: error.within(format!("step {step} ({})", step_file(step))) });
    }

    fn finish(&mut self, facts: &Facts) {
        let file = step_file(facts.step);
        let done = self.patient.insist(&format!("step {}", facts.step), || {
            let writer = match self.files.entry(facts.step) {
                std::collections::hash_map::Entry::Occupied(o) => o.into_mut(),
                std::collections::hash_map::Entry::Vacant(v) => {
                    v.insert(Writer::create(self.patient.disk.clone(), &self.layout.file(&file)?)?)
                }
            };
            writer.finish(facts)
        });
        match done {
            Ok(manifest) => {
                self.files.remove(&facts.step);
                self.hurried.remove(&facts.step);
                self.tell(Event::Durable { manifest: Box::new(manifest), file });
            }
            Err(error) => self.fail(facts.step, error),
        }
    }

    fn put(&mut self, put: &LargePut) -> Result<Stored> {
        let file = data_file(&put.name, put.set, put.session, put.seq);
        let path = self.layout.file(&file)?;
        let facts = Facts { run_id: put.run_id.clone(), set: Some((put.set, 0)), ..Facts::default() };
        let bytes = put.meta.bytes()?;
        let data = put.data.bytes().get(..bytes as usize).ok_or_else(|| {
            Error::new(Code::Corrupt, format!("{:?} announces more bytes than its block has", put.name))
        })?;
        let zero = Shape::new(&vec![0; put.meta.shape.rank()])?;
        let mut writer: Option<Writer> = None;
        let mut written = false;
        let manifest = self
            .patient
            .insist(&format!("the data set {:?} ({file})", put.name), || {
                let w = match &mut writer {
                    Some(w) => w,
                    none => none.insert(Writer::create(self.patient.disk.clone(), &path)?),
                };
                w.add(&put.name, &put.meta, &put.unit)?;
                if !written {
                    w.write(&put.name, 0, &zero, &put.meta.shape, 0, data)?;
                    written = true;
                }
                w.finish(&facts)
            })
            .map_err(|e| e.within(format!("the data set {:?} ({file})", put.name)))?;
        let entry = manifest.data.first().ok_or_else(|| Error::internal("a file without its data set"))?;
        let crc = entry.pieces.first().map_or(0, |p| p.crc32c);
        Ok(Stored { file, offset: entry.offset, crc })
    }
}

/// What the drain tells, and how long it tries.
pub(super) struct Patient<F: Fn(Event)> {
    pub disk: Arc<dyn Disk>,
    pub tell: F,
    /// Nobody waits any more: what is not written stays in the segments.
    pub abandoned: Arc<AtomicBool>,
}

impl<F: Fn(Event)> Patient<F> {
    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Tries again for as long as the disk is full and somebody waits.
    fn insist<T>(&self, what: &str, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut told = false;
        loop {
            let done = attempt();
            let full = matches!(&done, Err(e) if e.code() == Code::Full) && !self.is_abandoned();
            if !full {
                if told {
                    (self.tell)(Event::Trouble(None));
                }
                return done;
            }
            if let (Err(e), false) = (&done, told) {
                let text = format!("{what} waits for room on the disk: {}", e.text());
                (self.tell)(Event::Trouble(Some(Error::new(Code::Full, text))));
                told = true;
            }
            std::thread::sleep(self.disk.patience());
        }
    }
}
