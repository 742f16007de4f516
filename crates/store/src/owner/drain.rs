//! The drain: one thread that writes arrays from the ranks' own pages into files, behind their
//! backs. It knows files and nothing of records; what it did it says in events.
//!
//! So many steps have open files at once; what comes of more waits in its blocks until the step is
//! complete, or until a rank needs the room.
//!
//! | what goes wrong | what becomes of the file | the other files |
//! | --- | --- | --- |
//! | the disk is full | the same bytes are tried again for as long as that lasts | wait: they would take the room it needs |
//! | any other failure of the disk or the system | it is thrown away and written anew after a pause, for minutes | go on |
//! | the same for minutes | it stays in the segments, and the store ends: `recover` writes it | likewise |
//! | what was to be written is damaged | the step is given up, and told | go on |
//!
//! Nothing that was acknowledged is dropped while its bytes are in memory.

use super::draft::{Draft, Remedy, Ticket};
use super::dropping::Turn;
use crate::disk::{Disk, amount};
use crate::layout::Layout;
use crate::stepfile::{Entry, Facts, Manifest};
use forebay_arena::Block;
use forebay_types::{ArrayMeta, Code, Error, Result, Shape};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Most steps whose files are open at once.
const OPEN_FILES: usize = 32;

/// Bytes on their way.
pub(super) enum Data {
    Inline(Vec<u8>),
    Block(Block),
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
    pub ticket: Ticket,
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
    /// A rank needs the room that this step takes: what waits of it is written, and given back.
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
    /// A block of a step that does not wait for the commit is in its file.
    LetGo {
        step: i64,
        ticket: Ticket,
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
    /// The disk is full or fails, or all is well again (`None`).
    Trouble(Option<Error>),
    /// It has failed for so long that nothing more is tried: what is missing stays in the segments.
    Lost(Error),
    /// So long did the last job take.
    Worked(Duration, u64),
}

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Step(i64),
    /// A data set outside steps, by its record.
    Put(Ticket),
}

/// A file that could not be written.
struct Ailing {
    since: Instant,
    /// When it is tried again.
    next: Instant,
    pause: Duration,
}

/// The pause between two attempts grows up to so many times the first one.
const LONGEST: u32 = 100;

pub(super) struct Drain<F: Fn(Event)> {
    layout: Layout,
    jobs: Receiver<Job>,
    disk: Arc<dyn Disk>,
    tell: F,
    /// How long a file is tried again.
    limit: Duration,
    /// Nobody waits any more: what is not written stays in the segments.
    abandoned: Arc<AtomicBool>,
    turn: Arc<Turn>,
    drafts: BTreeMap<Key, Draft>,
    ailing: BTreeMap<Key, Ailing>,
    /// The file for which the disk has no room.
    full: Option<Key>,
    /// What was told of the trouble there is.
    told: Option<Code>,
    /// Steps that were given up here: what still comes of them is passed over until they are discarded,
    /// or half a step would be taken for a whole one.
    failed: HashSet<i64>,
}

/// What the drain needs of others.
pub(super) struct Means<F: Fn(Event)> {
    pub layout: Layout,
    pub jobs: Receiver<Job>,
    pub disk: Arc<dyn Disk>,
    pub tell: F,
    pub limit: Duration,
    pub abandoned: Arc<AtomicBool>,
    pub turn: Arc<Turn>,
}

impl<F: Fn(Event)> Drain<F> {
    pub fn new(means: Means<F>) -> Drain<F> {
        let Means { layout, jobs, disk, tell, limit, abandoned, turn } = means;
        Drain {
            layout,
            jobs,
            disk,
            tell,
            limit,
            abandoned,
            turn,
            drafts: BTreeMap::new(),
            ailing: BTreeMap::new(),
            full: None,
            told: None,
            failed: HashSet::new(),
        }
    }

    pub fn run(mut self) {
        while let Ok(job) = self.next_job() {
            if self.abandoned.load(Ordering::SeqCst) {
                return;
            }
            match job {
                Some(Job::Stop) => return,
                Some(job) => self.take(job),
                None => {}
            }
            self.try_again();
        }
    }

    /// The next job, or none when something is to be tried again before there is one.
    fn next_job(&self) -> Result<Option<Job>, RecvTimeoutError> {
        let tried = self.ailing.iter().filter(|(key, _)| self.full.is_none_or(|full| full == **key));
        let Some(next) = tried.map(|(_, a)| a.next).min() else {
            return self.jobs.recv().map(Some).map_err(|_| RecvTimeoutError::Disconnected);
        };
        match self.jobs.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            other => other.map(Some),
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Write(step, part) => {
                if let Some(draft) = self.draft(step) {
                    draft.push(*part);
                    self.go_on(Key::Step(step));
                }
            }
            Job::Finish(facts) => {
                let step = facts.step;
                if let Some(draft) = self.draft(step) {
                    draft.complete(*facts);
                    self.go_on(Key::Step(step));
                }
            }
            Job::Hurry(step) => {
                let let_go = self.draft(step).map(Draft::hurry).unwrap_or_default();
                let_go.into_iter().for_each(|ticket| self.say(Event::LetGo { step, ticket }));
                self.go_on(Key::Step(step));
            }
            Job::Discard(step) => {
                self.drafts.remove(&Key::Step(step));
                self.failed.remove(&step);
                self.turn.end(step);
                self.is_well(Key::Step(step));
            }
            Job::Put(put) => {
                let key = Key::Put((put.session, put.seq));
                match Draft::of_put(*put) {
                    Ok(draft) => drop(self.drafts.insert(key, draft)),
                    Err(e) => self.give_up(key, e),
                }
                self.go_on(key);
            }
            Job::Stop => {}
        }
    }

    /// The draft of a step that was not given up.
    fn draft(&mut self, step: i64) -> Option<&mut Draft> {
        let goes_on = !self.failed.contains(&step);
        goes_on.then(|| self.drafts.entry(Key::Step(step)).or_insert_with(|| Draft::of_step(step)))
    }

    /// Whether a file may be written on now.
    fn may_go_on(&self, key: Key) -> bool {
        let Some(draft) = self.drafts.get(&key).filter(|d| d.is_due()) else { return false };
        let rests = self.ailing.get(&key).is_some_and(|a| a.next > Instant::now());
        let waits = rests || self.full.is_some_and(|full| full != key);
        let crowded = || self.drafts.values().filter(|d| d.is_open()).count() >= OPEN_FILES;
        !(waits || draft.may_wait() && crowded())
    }

    /// Writes what is there of a file, if it may be written on now.
    fn go_on(&mut self, key: Key) {
        if !self.may_go_on(key) {
            return;
        }
        if let Key::Step(step) = key
            && !self.turn.begin(step)
        {
            return; // dropped; the job that says so is on its way
        }
        let Some(mut draft) = self.drafts.remove(&key) else { return };
        let (start, missing) = (Instant::now(), draft.missing());
        let tell = &self.tell;
        let let_go = |ticket| {
            if let Key::Step(step) = key {
                tell(Event::LetGo { step, ticket });
            }
        };
        let done = draft.write(&self.disk, &self.layout, let_go);
        let bytes = missing.saturating_sub(draft.missing());
        match done {
            Ok(None) => {
                self.drafts.insert(key, draft);
                self.is_well(key);
            }
            Ok(Some(manifest)) => {
                self.is_done(key, draft, manifest);
                self.is_well(key);
            }
            Err(e) => self.is_ill(key, draft, e),
        }
        self.say(Event::Worked(start.elapsed(), bytes));
    }

    /// Tries again what is due.
    fn try_again(&mut self) {
        let due: Vec<Key> = self.ailing.keys().copied().collect();
        due.into_iter().for_each(|key| self.go_on(key));
    }

    /// A file is durable under its name.
    fn is_done(&self, key: Key, draft: Draft, manifest: Manifest) {
        match key {
            Key::Step(_) => self.say(Event::Durable { manifest: Box::new(manifest), file: draft.file }),
            Key::Put((session, seq)) => {
                let stored = |e: &Entry| Stored {
                    file: draft.file,
                    offset: e.offset,
                    crc: e.pieces.first().map_or(0, |p| p.crc32c),
                };
                let none = || Error::internal("a file without its data set");
                let result = manifest.data.first().map(stored).ok_or_else(none);
                self.say(Event::PutDone { session, seq, result });
            }
        }
    }

    /// Nothing is wrong with a file any more, or it is gone.
    fn is_well(&mut self, key: Key) {
        if self.ailing.remove(&key).is_none() {
            return;
        }
        if self.ailing.is_empty() && self.told.take().is_some() {
            self.say(Event::Trouble(None));
        }
        if self.full == Some(key) {
            self.full = None;
            let waiting: Vec<Key> = self.drafts.keys().copied().collect();
            waiting.into_iter().for_each(|key| self.go_on(key));
        }
    }

    /// A file could not be written.
    fn is_ill(&mut self, key: Key, mut draft: Draft, e: Error) {
        let remedy = draft.remedy(&e);
        if remedy == Remedy::None {
            let why = Error::new(e.code(), format!("{}{}", e.text(), draft.why_gone()));
            self.give_up(key, why.within(format!("{} ({})", draft.what, draft.file)));
            return self.is_well(key);
        }
        let (now, first) = (Instant::now(), self.disk.patience());
        let known = self.ailing.entry(key).or_insert(Ailing { since: now, next: now, pause: first });
        known.next = now + known.pause;
        match remedy {
            Remedy::Room => {
                (known.since, self.full) = (now, Some(key));
                self.warn(e.code(), waits_for_room(&draft, &e));
            }
            _ => {
                known.pause = (known.pause * 2).min(first * LONGEST);
                let tried = known.since.elapsed();
                if self.full == Some(key) {
                    self.full = None;
                }
                if let (Key::Step(step), true) = (key, draft.is_blank()) {
                    self.turn.rest(step);
                }
                if tried >= self.limit {
                    self.say(Event::Lost(in_vain(&draft, &e, tried)));
                }
                self.warn(e.code(), kept(&draft, &e));
            }
        }
        self.drafts.insert(key, draft);
    }

    /// What came of a file is of no use.
    fn give_up(&mut self, key: Key, error: Error) {
        match key {
            Key::Step(step) => {
                self.failed.insert(step);
                self.say(Event::Failed { step, error });
            }
            Key::Put((session, seq)) => self.say(Event::PutDone { session, seq, result: Err(error) }),
        }
    }

    /// Says what everybody waits for, once.
    fn warn(&mut self, code: Code, text: String) {
        if self.told.replace(code) != Some(code) {
            self.say(Event::Trouble(Some(Error::new(code, text))));
        }
    }

    fn say(&self, event: Event) {
        (self.tell)(event);
    }
}

fn waits_for_room(draft: &Draft, e: &Error) -> String {
    let needs = match draft.missing() {
        0 => "has all its arrays and is to be finished".to_owned(),
        missing => format!("needs {} more", amount(missing)),
    };
    format!("{} waits for room on the disk: {} {needs}; {}", draft.what, draft.file, e.text())
}

fn kept(draft: &Draft, e: &Error) -> String {
    format!(
        "{} ({}) cannot be written at present; it is kept in memory and tried again: {}",
        draft.what,
        draft.file,
        e.text()
    )
}

fn in_vain(draft: &Draft, e: &Error, tried: Duration) -> Error {
    let text = format!(
        "{} ({}) could not be written for {:.0} s: {}",
        draft.what,
        draft.file,
        tried.as_secs_f64(),
        e.text()
    );
    Error::new(e.code(), text)
}
