//! The drain: one thread that writes arrays from the ranks' own pages into files, behind their backs. It does
//! one work after the other, as the machine says, and reports what came of it; it decides nothing.
//!
//! Small steps that are there to be written become durable together: each file for itself, their directory once
//! ([`seal_all`]), and the machine lists them in one transaction. So the disk is waited for once, not a thousand
//! times.

use super::machine::{Done, FileState, Key, Part, Sealed, TOGETHER, Ticket};
use crate::disk::Disk;
use crate::layout::Layout;
use crate::stepfile::{Facts, Load, Manifest, Writer, seal_all};
use forebay_arena::{Block, Lent};
use forebay_types::{Code, Error, Result};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Bytes on their way.
pub(super) enum Data {
    Kept(Arc<[u8]>),
    Block(Block),
    /// In a file of the run.
    Sealed {
        path: PathBuf,
        at: u64,
        bytes: u64,
    },
}

impl Data {
    fn with<T>(&self, work: impl FnOnce(Lent) -> Result<T>) -> Result<T> {
        match self {
            Data::Kept(b) => work(Lent::of(b)),
            Data::Block(b) => work(b.lent()),
            Data::Sealed { path, at, bytes } => {
                let failed = |e: std::io::Error| match e.kind() {
                    // Trying again gives nothing else.
                    ErrorKind::NotFound | ErrorKind::UnexpectedEof => {
                        Error::new(Code::Corrupt, format!("{} is not whole: {e}", path.display()))
                    }
                    _ => Error::io(format!("cannot read {}", path.display()), e),
                };
                let mut read = vec![0; *bytes as usize];
                std::fs::File::open(path).and_then(|f| f.read_exact_at(&mut read, *at)).map_err(failed)?;
                work(Lent::of(&read))
            }
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
    /// It is done with others that are small.
    pub small: bool,
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
    Done(Vec<Done>),
}

pub(super) struct Drain<F: Fn(Report)> {
    pub layout: Layout,
    pub orders: Receiver<Order>,
    pub disk: Arc<dyn Disk>,
    pub load: Arc<Load>,
    pub tell: F,
    /// Nobody waits any more: what is not written stays in the segments.
    pub abandoned: Arc<AtomicBool>,
}

impl<F: Fn(Report)> Drain<F> {
    pub fn run(self) {
        let (mut files, mut failed, mut next) = (BTreeMap::new(), BTreeMap::new(), None);
        while let Some(order) = next.take().or_else(|| self.orders.recv().ok()) {
            if self.abandoned.load(Ordering::SeqCst) {
                return;
            }
            match order {
                Order::Write(job) => {
                    let jobs;
                    (jobs, next) = self.and_others(*job);
                    let done = self.work(&mut files, &jobs, &mut failed);
                    (self.tell)(Report::Done(done));
                }
                Order::Discard(key) => {
                    files.remove(&key);
                    failed.remove(&key);
                }
                Order::Stop => return,
            }
        }
    }

    /// The works that are done with this one, and the order that came behind them.
    fn and_others(&self, job: Job) -> (Vec<Job>, Option<Order>) {
        let mut jobs = vec![job];
        while jobs.iter().all(|job| job.small) && jobs.len() < TOGETHER {
            match self.orders.try_recv() {
                Ok(Order::Write(job)) if job.small => jobs.push(*job),
                other => return (jobs, other.ok()),
            }
        }
        (jobs, None)
    }

    /// Does works. `failed` has the last work of each file that failed: those behind it are not done.
    fn work(
        &self,
        files: &mut BTreeMap<Key, Writer>,
        jobs: &[Job],
        failed: &mut BTreeMap<Key, u64>,
    ) -> Vec<Done> {
        let start = Instant::now();
        let mut done: Vec<(usize, Result<Option<Manifest>>)> = Vec::new();
        for job in jobs {
            let mut written = 0;
            let result = match job.behind.is_some() && failed.get(&job.key) == job.behind.as_ref() {
                true => Err(Error::internal("the work before it failed")),
                false => self.write(files, job, &mut written),
            };
            note(failed, job, result.is_ok());
            done.push((written, result));
        }
        let complete = jobs.iter().zip(&done).filter(|(_, (_, result))| matches!(result, Ok(Some(_))));
        let complete: BTreeSet<Key> = complete.map(|(job, _)| job.key).collect();
        let (keys, writers): (Vec<Key>, Vec<&mut Writer>) =
            files.iter_mut().filter(|(key, _)| complete.contains(key)).map(|(key, w)| (*key, w)).unzip();
        let mut sealed: BTreeMap<Key, Result<()>> = keys.into_iter().zip(seal_all(writers)).collect();
        let took = start.elapsed() / jobs.len().max(1) as u32;
        let all = jobs.iter().zip(done).map(|(job, (written, result))| {
            let result = match result {
                Ok(Some(manifest)) => {
                    let sealed = sealed.remove(&job.key).unwrap_or(Ok(()));
                    let told =
                        files.get_mut(&job.key).map(|w| (w.unequal(), w.remarks())).unwrap_or_default();
                    sealed.and_then(|()| of(job, manifest, told)).map(Some)
                }
                other => other.map(|_| None),
            };
            note(failed, job, result.is_ok());
            let file = state(files, job.key);
            if matches!(result, Ok(Some(_))) {
                files.remove(&job.key);
            }
            let bytes = job.parts[..written].iter().map(|(part, _)| part.len).sum();
            Done { id: job.id, written, result, file, took, bytes }
        });
        all.collect()
    }

    /// Writes the parts of a work, and completes the file if they are its last ones.
    fn write(
        &self,
        files: &mut BTreeMap<Key, Writer>,
        job: &Job,
        written: &mut usize,
    ) -> Result<Option<Manifest>> {
        let writer = match files.entry(job.key) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(none) => {
                let writer = Writer::create(self.disk.clone(), &self.layout.file(&job.file)?)?;
                none.insert(writer.under(self.load.clone()))
            }
        };
        writer.hurry(job.tell_each);
        for (part, data) in &job.parts {
            part.write(data, writer)?;
            *written += 1;
            if job.tell_each {
                (self.tell)(Report::Written { id: job.id, ticket: part.ticket });
            }
        }
        job.facts.as_ref().map(|facts| writer.complete(facts)).transpose()
    }
}

/// Remembers whether a work failed, for those behind it.
fn note(failed: &mut BTreeMap<Key, u64>, job: &Job, well: bool) {
    match well {
        true => drop(failed.remove(&job.key)),
        false => drop(failed.insert(job.key, job.id)),
    }
}

/// What a file is now.
fn state(files: &BTreeMap<Key, Writer>, key: Key) -> FileState {
    match files.get(&key) {
        None => FileState::None,
        Some(writer) if writer.is_lost() => FileState::Lost,
        Some(writer) if writer.is_sound() => FileState::Sound,
        Some(_) => FileState::Unsound,
    }
}

fn of(job: &Job, manifest: Manifest, (unequal, remarks): (Vec<Error>, Vec<String>)) -> Result<Sealed> {
    match job.key {
        Key::Step(_) => Ok(Sealed::Step(Box::new(manifest), unequal, remarks)),
        Key::Put(_) => Sealed::of_put(&job.file, &manifest),
        Key::Partial(_) => Ok(Sealed::Partial(Box::new(manifest))),
    }
}

impl Part {
    fn write(&self, data: &Data, writer: &mut Writer) -> Result<()> {
        let held = match &self.sort {
            Some(by) => writer.hold(&self.name, &self.meta, &self.units, self.compress, by)?,
            None => false,
        };
        match self.compress.filter(|_| !held) {
            Some(compress) => data.with(|bytes| {
                // What of a piece comes first shows what becomes of it.
                let first = if self.from == 0 { self.len } else { 0 };
                let first = bytes.part(0, first as usize).unwrap_or(bytes);
                writer.add_compressed(&self.name, &self.meta, &self.units, compress, (&self.local, first))
            })?,
            None if held => {}
            None => writer.add(&self.name, &self.meta, &self.units)?,
        }
        if let Some(rule) = self.over {
            writer.lay_over(&self.name, rule);
        }
        data.with(|bytes| {
            let bytes = bytes.part(0, self.len as usize).ok_or_else(|| {
                Error::new(Code::Corrupt, format!("{:?} announces more bytes than its block has", self.name))
            })?;
            writer.write(&self.name, self.rank, &self.offset, &self.local, self.from, bytes)
        })?;
        let sum = self.sum.and_then(|_| writer.sum(&self.name, self.rank, &self.offset, &self.local));
        match sum == self.sum {
            true => Ok(()),
            false => Err(Error::new(
                Code::Corrupt,
                format!("what was kept of {:?} of rank {} has another checksum by now", self.name, self.rank),
            )),
        }
    }
}
