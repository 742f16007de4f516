//! The drain: one thread that writes arrays from the ranks' own pages into files, behind their backs. It does
//! one work after the other, as the machine says, and reports what came of it; it decides nothing.

use super::machine::{Done, FileState, Key, Part, Sealed, Ticket};
use crate::disk::Disk;
use crate::layout::Layout;
use crate::stepfile::{Facts, Writer};
use forebay_arena::{Block, Lent};
use forebay_types::{Code, Error, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Bytes on their way.
pub(super) enum Data {
    Kept(Arc<[u8]>),
    Block(Block),
}

impl Data {
    fn bytes(&self) -> Lent<'_> {
        match self {
            Data::Kept(b) => Lent::of(b),
            Data::Block(b) => b.lent(),
        }
    }
}

/// A work with the memory that its parts name.
pub(super) struct Job {
    pub id: u64,
    pub key: Key,
    pub behind: Option<u64>,
    pub file: String,
    pub parts: Vec<(Arc<Part>, Data)>,
    pub facts: Option<Box<Facts>>,
    pub tell_each: bool,
}

pub(super) enum Order {
    Write(Box<Job>),
    /// A file is not needed: what there is of it goes.
    Discard(Key),
    Stop,
}

pub(super) enum Report {
    /// A part is in its file.
    Written {
        id: u64,
        ticket: Ticket,
    },
    Done(Box<Done>),
}

pub(super) struct Drain<F: Fn(Report)> {
    pub layout: Layout,
    pub orders: Receiver<Order>,
    pub disk: Arc<dyn Disk>,
    pub tell: F,
    /// Nobody waits any more: what is not written stays in the segments.
    pub abandoned: Arc<AtomicBool>,
}

impl<F: Fn(Report)> Drain<F> {
    pub fn run(self) {
        let (mut files, mut failed) = (BTreeMap::new(), None);
        while let Ok(order) = self.orders.recv() {
            if self.abandoned.load(Ordering::SeqCst) {
                return;
            }
            match order {
                Order::Write(job) => {
                    let done = match job.behind.is_some() && job.behind == failed {
                        true => Done::not_begun(job.id, Error::internal("the work before it failed")),
                        false => self.work(&mut files, *job),
                    };
                    failed = done.result.is_err().then_some(done.id);
                    (self.tell)(Report::Done(Box::new(done)));
                }
                Order::Discard(key) => drop(files.remove(&key)),
                Order::Stop => return,
            }
        }
    }

    fn work(&self, files: &mut BTreeMap<Key, Writer>, job: Job) -> Done {
        let (start, id, mut written) = (Instant::now(), job.id, 0);
        let result = self.write(files, &job, &mut written);
        let file = match files.get(&job.key) {
            None => FileState::None,
            Some(writer) if writer.is_lost() => FileState::Lost,
            Some(writer) if writer.is_sound() => FileState::Sound,
            Some(_) => FileState::Unsound,
        };
        if matches!(result, Ok(Some(_))) {
            files.remove(&job.key);
        }
        let bytes = job.parts[..written].iter().map(|(part, _)| part.len).sum();
        Done { id, written, result, file, took: start.elapsed(), bytes }
    }

    fn write(
        &self,
        files: &mut BTreeMap<Key, Writer>,
        job: &Job,
        written: &mut usize,
    ) -> Result<Option<Sealed>> {
        let writer = match files.entry(job.key) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(none) => {
                none.insert(Writer::create(self.disk.clone(), &self.layout.file(&job.file)?)?)
            }
        };
        for (part, data) in &job.parts {
            part.write(data, writer)?;
            *written += 1;
            if job.tell_each {
                (self.tell)(Report::Written { id: job.id, ticket: part.ticket });
            }
        }
        let Some(facts) = &job.facts else { return Ok(None) };
        let manifest = writer.finish(facts)?;
        Ok(Some(match job.key {
            Key::Step(_) => Sealed::Step(Box::new(manifest)),
            Key::Put(_) => Sealed::of_put(&job.file, &manifest)?,
        }))
    }
}

impl Part {
    fn write(&self, data: &Data, writer: &mut Writer) -> Result<()> {
        writer.add(&self.name, &self.meta, &self.unit)?;
        let bytes = data.bytes().part(0, self.len as usize).ok_or_else(|| {
            Error::new(Code::Corrupt, format!("{:?} announces more bytes than its block has", self.name))
        })?;
        writer.write(&self.name, self.rank, &self.offset, &self.local, self.from, bytes)
    }
}
