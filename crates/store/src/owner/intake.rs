//! The intake: one thread that reads all sessions' rings, hands blocks to the drain, applies
//! small records to the catalog in groups, and gives ring and blocks back after the commit. It
//! alone writes the catalog. It sleeps on one doorbell; idle it uses no CPU.

use super::absent::Absence;
use super::apply::Item;
use super::down::Downs;
use super::drain::{Event, Job};
use super::dropping::Turn;
use super::figures::Figures;
use super::open::Options;
use super::session::Session;
use super::steps::Step;
use crate::catalog::{self, Catalog};
use crate::disk::Disk;
use crate::layout::Layout;
use forebay_arena::Doorbell;
use forebay_types::control::{Ask, word};
use forebay_types::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Heartbeat of the owner while sessions are open.
const BEAT: Duration = Duration::from_millis(250);

/// A log of more bytes is moved into the catalog's file when nobody needs the intake; SQLite does
/// it in the middle of the work only when it grows large.
const QUIET_LOG: usize = 1 << 20;

/// What other threads ask of the intake.
pub(super) type Command = Box<dyn FnOnce(&mut Intake) + Send>;

/// Somebody who waits until something is durable.
pub(super) struct Waiter {
    pub session: u64,
    pub seq: u64,
    pub what: Wait,
}

pub(super) enum Wait {
    Step(i64),
    /// All steps this session takes part in.
    All,
    Close,
}

/// The intake's ends of the channels to the other threads.
pub(super) struct Ends {
    pub jobs: Sender<Job>,
    pub events: Receiver<Event>,
    pub commands: Receiver<Command>,
    pub doorbell: Doorbell,
    pub abandoned: Arc<AtomicBool>,
    pub turn: Arc<Turn>,
    pub lost: Arc<OnceLock<Error>>,
}

/// The catalog cannot be written at present.
#[derive(Clone, Copy)]
pub(super) struct Ailing {
    /// When it is tried again.
    pub next: Instant,
    /// Since when it fails for another reason than a full disk.
    pub since: Instant,
}

/// A step that was given up.
pub(super) struct GivenUp {
    pub step: i64,
    pub why: Error,
    /// Ranks whose attempt at it that was.
    pub ranks: BTreeSet<u32>,
}

pub(super) struct Intake {
    pub layout: Layout,
    pub disk: Arc<dyn Disk>,
    pub catalog: Catalog,
    pub run_id: String,
    pub sessions: BTreeMap<u64, Session>,
    pub steps: BTreeMap<i64, Step>,
    pub downs: Arc<Downs>,
    pub figures: Figures,
    pub jobs: Sender<Job>,
    pub events: Receiver<Event>,
    pub commands: Receiver<Command>,
    pub doorbell: Doorbell,
    /// Bytes that overflow segments may take.
    pub overflow_limit: u64,
    /// Bytes that may be spilt into files.
    pub spill_limit: u64,
    pub abandoned: Arc<AtomicBool>,
    pub turn: Arc<Turn>,
    pub stopping: bool,
    /// Why nothing more is accepted: the run is another owner's, its disk fails for good, or it was abandoned.
    pub lost: Arc<OnceLock<Error>>,
    pub group: Vec<Item>,
    /// Requests of the session being read that need no catalog.
    pub at_once: Vec<(u64, Ask)>,
    /// Since when nothing gets on for want of room on the disk, and what.
    pub waits: Option<(Instant, Error)>,
    /// How long a closing waits for such a disk.
    pub closing: Duration,
    /// How long a catalog that fails is tried again.
    pub hiccup: Duration,
    /// Set while the group cannot be committed.
    pub ailing: Option<Ailing>,
    /// Number of the last act of steering.
    pub last_act: u64,
    /// Bytes of records committed since the catalog's log was last moved.
    pub logged: usize,
    /// Jobs whose bytes are on their way from another host.
    pub arriving: Vec<Job>,
    pub given_up: VecDeque<GivenUp>,
    /// Why steps that a dead program left are not kept.
    pub not_recovered: Vec<Error>,
    /// Ranks that have left, with how: they closed the run, or are gone.
    pub left: BTreeMap<u32, Absence>,
    /// How long ranks that have not come are waited for, and since when.
    pub late_ranks: Duration,
    pub lacking_since: Option<Instant>,
    /// When notes of refused ranks were last looked for.
    pub sought: Instant,
    /// Whether the ranks that are there were told.
    pub remarked: bool,
    pub flushers: Vec<Sender<()>>,
    pub waiters: Vec<Waiter>,
    /// When the ranks were last looked after.
    pub looked: Instant,
    /// When it was last seen whether the run's directory is there.
    pub seen: Instant,
}

impl Intake {
    pub fn new(
        layout: Layout,
        options: &Options,
        catalog: Catalog,
        downs: Arc<Downs>,
        ends: Ends,
    ) -> Result<Intake> {
        let Ends { jobs, events, commands, doorbell, abandoned, turn, lost } = ends;
        Ok(Intake {
            run_id: catalog.run_id().to_owned(),
            last_act: catalog::last_act(catalog.conn())?,
            ailing: None,
            disk: options.disk.clone(),
            abandoned,
            turn,
            layout,
            catalog,
            sessions: BTreeMap::new(),
            steps: BTreeMap::new(),
            downs,
            figures: Figures::default(),
            jobs,
            events,
            commands,
            doorbell,
            overflow_limit: options.overflow,
            spill_limit: options.spill,
            stopping: false,
            lost,
            group: Vec::new(),
            logged: 0,
            at_once: Vec::new(),
            waits: None,
            closing: options.closing,
            hiccup: options.hiccup,
            arriving: Vec::new(),
            given_up: VecDeque::new(),
            not_recovered: Vec::new(),
            left: BTreeMap::new(),
            late_ranks: options.late_ranks,
            lacking_since: None,
            sought: Instant::now(),
            remarked: false,
            flushers: Vec::new(),
            waiters: Vec::new(),
            looked: Instant::now(),
            seen: Instant::now(),
        })
    }

    /// Runs until told to stop and everything is drained.
    pub fn run(mut self) -> Intake {
        loop {
            let mut busy = self.take_commands();
            busy |= self.take_events();
            busy |= self.read_rings();
            busy |= self.take_arrived();
            busy |= self.wake_deferred();
            busy |= !self.group.is_empty() && self.ailing.is_none();
            self.commit_group();
            self.finish_complete_steps();
            self.answer_waiters();
            self.look_after_ranks();
            self.look_for_directory();
            self.end_sessions();
            self.refuse_closings();
            self.downs.flush();
            self.beat();
            if self.stopping && (self.is_drained() || self.lost.get().is_some()) {
                let _ = self.jobs.send(Job::Stop);
                return self.ended();
            }
            if !busy {
                self.sleep();
            }
        }
    }

    /// Nobody is answered any more: whoever asks, or waits, is to see that, also while nobody has joined
    /// this thread.
    fn ended(mut self) -> Intake {
        self.commands = channel().1;
        self.flushers.clear();
        self
    }

    fn take_commands(&mut self) -> bool {
        let mut any = false;
        while let Ok(command) = self.commands.try_recv() {
            command(self);
            any = true;
        }
        any
    }

    /// A directory that is deleted is never written again: whoever writes hears of it also when there is nothing to
    /// commit, and nobody recovers what is in the segments.
    fn look_for_directory(&mut self) {
        if self.sessions.is_empty() || self.seen.elapsed() < BEAT {
            return;
        }
        self.seen = Instant::now();
        if self.catalog.is_deleted() {
            self.lose(self.catalog.deleted());
        }
    }

    pub(super) fn beat(&self) {
        for s in self.sessions.values() {
            s.segment.word(word::HEARTBEAT).fetch_add(1, Ordering::Relaxed);
            s.segment.word(word::HIDDEN_NS).store(self.figures.hidden.as_nanos() as u64, Ordering::Relaxed);
            s.segment.word(word::WRITTEN_BYTES).store(self.figures.written, Ordering::Relaxed);
        }
    }

    /// Sleeps until a rank rings, a command or an event comes, or the heart has to beat.
    fn sleep(&mut self) {
        let mut pending = false;
        for s in self.sessions.values_mut().filter(|s| s.is_readable()) {
            s.bell.prepare_sleep();
            pending |= s.consumer.pending();
        }
        if !pending {
            let mut fds = [PollFd::new(&self.doorbell, PollFlags::IN)];
            let again = self.ailing.map(|a| a.next.saturating_duration_since(Instant::now()));
            let beat = (!self.sessions.is_empty()).then_some(BEAT);
            let timeout = again.into_iter().chain(beat).min();
            let timeout = timeout.map(|t| Timespec { tv_sec: 0, tv_nsec: t.min(BEAT).subsec_nanos() as _ });
            let idle = poll(&mut fds, timeout.as_ref()) == Ok(0);
            if idle && self.logged > QUIET_LOG {
                // What is not moved now is moved later: nothing is lost.
                let _ = self.catalog.move_log();
                self.logged = 0;
            }
        }
        for s in self.sessions.values() {
            s.bell.cancel_sleep();
        }
        self.doorbell.clear();
    }
}
