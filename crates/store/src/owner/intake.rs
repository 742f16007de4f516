//! The intake: the thread that drives the machine. It reads the rings of all sessions, runs the groups in the
//! catalog, which it alone writes, hands work to the drain, and carries out what the machine says. It sleeps on
//! one doorbell; idle it uses no CPU.

use super::attached::Attached;
use super::command::Command;
use super::down::Downs;
use super::drain::{Order, Report};
use super::figures::Rooms;
use super::machine::{Absence, Action, Birth, Event, Machine, OVER_THE_NETWORK, Ticket};
use super::open::Options;
use super::packing::{Packing, ToIntake};
use super::recording::Recorder;
use super::rests::Older;
use crate::catalog::{self, Catalog};
use crate::disk::Disk;
use crate::layout::Layout;
use crate::stepfile::{Load, SPARE};
use forebay_arena::Doorbell;
use forebay_host::wait::{self, PollFlags};
use forebay_types::control::word;
use forebay_types::pack::USUAL;
use forebay_types::record::{HeldBlock, Payload, Record, StepBlock};
use forebay_types::{Error, Result};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Heartbeat of the owner while sessions are open.
const BEAT: Duration = Duration::from_millis(250);
/// Between two looks whether the ranks live, and for notes of ranks that were refused.
const LOOK: Duration = Duration::from_millis(200);
/// Most records of one session in a round, so that everybody gets a turn.
const TURN: usize = 1024;
/// Their bytes after which the turn is over.
const TURN_BYTES: usize = 1 << 20;
/// Rounds of reading in which every ring has been read that was full of small records.
const ROUNDS: usize = 1024;
/// What was declared stands in the catalog's own file after this time: who loses the log knows by it what
/// later records mean.
const DECLARED: Duration = Duration::from_millis(20);
/// On a nearly full disk it is moved so much later.
const PUT_OFF: Duration = Duration::from_secs(1);
/// A log of more bytes is moved into the catalog's file when nobody needs the intake; SQLite does
/// it in the middle of the work only when it grows large.
const QUIET_LOG: usize = 1 << 20;

/// The intake's ends of the channels to the other threads.
pub(super) struct Ends {
    pub orders: Sender<Order>,
    pub reports: Receiver<Report>,
    pub commands: Receiver<Command>,
    pub doorbell: Doorbell,
    pub load: Arc<Load>,
    pub abandoned: Arc<AtomicBool>,
    pub is_wiped: Arc<AtomicBool>,
    pub lost: Arc<OnceLock<Error>>,
}

pub(super) struct Intake {
    pub layout: Layout,
    pub disk: Arc<dyn Disk>,
    pub catalog: Catalog,
    pub run_id: String,
    pub machine: Machine,
    pub attached: BTreeMap<u64, Attached>,
    /// Sessions that were admitted and come in a moment, and whether they are ranks'.
    pub admitted: BTreeMap<u64, bool>,
    pub downs: Arc<Downs>,
    pub ends: Ends,
    pub packing: Packing,
    pub to_intake: ToIntake,
    pub packers: Vec<JoinHandle<()>>,
    /// So many small steps of one layout are packed; 0: none are. And how many have come since that was last tried.
    pub pack_every: u64,
    pub unpacked: u64,
    /// Bytes that overflow segments may take, and that may be spilt into files.
    pub overflow_limit: u64,
    pub spill_limit: u64,
    pub rooms: Rooms,
    /// What was there by all that was promised, and is not.
    pub missing: Vec<Error>,
    /// Bytes of records committed since the catalog's log was last moved.
    pub logged: usize,
    /// When what was declared, and is in the catalog's log alone, is to be moved.
    declared: Option<Instant>,
    /// What the catalog lacked when this owner opened it.
    pub older: Older,
    /// Bytes that parts of files name by their record.
    pub kept: HashMap<Ticket, Arc<[u8]>>,
    /// Blocks whose bytes come from another host.
    pub awaited: Vec<(Ticket, HeldBlock)>,
    /// Who waits for a reply.
    pub replies: HashMap<u64, Sender<Result<u64>>>,
    pub asked: u64,
    /// What follows from what was carried out.
    pub follows: VecDeque<Event<'static>>,
    /// Rounds of reading.
    rounds: usize,
    /// Something was done in this round.
    pub busy: bool,
    actions: Vec<Action>,
    recorder: Option<Recorder>,
    began: Instant,
    /// When the ranks were last looked after, when notes of refused ones were last sought, and when it was last
    /// seen whether the run's directory is there.
    looked: Instant,
    sought: Instant,
    seen: Instant,
    /// Since when somebody asks who lives.
    asks: Option<Instant>,
}

impl Intake {
    pub fn new(
        layout: Layout,
        options: &Options,
        catalog: Catalog,
        downs: Arc<Downs>,
        ends: Ends,
        (packing, to_intake): (Packing, ToIntake),
    ) -> Result<Intake> {
        let now = Instant::now();
        let unpacked = catalog::newest_singles(catalog.conn(), USUAL)?.1;
        let birth = Birth {
            run_id: catalog.run_id().to_owned(),
            dir: layout.root().display().to_string(),
            last_act: catalog::last_act(catalog.conn())?,
            listed: (catalog::step_numbers(catalog.conn())?, catalog::damaged_behind(catalog.conn(), None)?),
            keeps: catalog::is_kept_by_rule(catalog.conn())?,
            partial: catalog::partial_steps(catalog.conn())?.into_iter().map(|row| row.manifest).collect(),
            away: catalog::away(catalog.conn())?,
            life: catalog::life(catalog.conn())?,
            lives: catalog::lives(catalog.conn())?,
            failed: catalog::failed_attempts(catalog.conn())?,
            overflow: options.overflow,
            closing: options.closing,
            hiccup: options.hiccup,
            files: options.files,
            late_ranks: options.late_ranks,
            patience: options.disk.patience(),
        };
        let begin = |dir: &PathBuf| Recorder::begin(dir, layout.root(), &birth);
        let recorder = options.record.as_ref().map(begin).transpose()?;
        Ok(Intake {
            run_id: catalog.run_id().to_owned(),
            machine: Machine::new(birth),
            disk: options.disk.clone(),
            layout,
            catalog,
            attached: BTreeMap::new(),
            admitted: BTreeMap::new(),
            downs,
            ends,
            packing,
            to_intake,
            packers: Vec::new(),
            pack_every: USUAL,
            unpacked,
            overflow_limit: options.overflow,
            spill_limit: options.spill,
            rooms: Rooms::default(),
            missing: Vec::new(),
            logged: 0,
            declared: None,
            older: Older::default(),
            kept: HashMap::new(),
            awaited: Vec::new(),
            replies: HashMap::new(),
            asked: 0,
            follows: VecDeque::new(),
            rounds: 0,
            busy: false,
            actions: Vec::new(),
            recorder,
            began: now,
            looked: now,
            sought: now,
            seen: now,
            asks: None,
        })
    }

    /// Runs until told to stop and everything is drained.
    pub fn run(mut self) -> Intake {
        let catalog = self.layout.catalog();
        loop {
            self.busy = false;
            // SQLite reads and writes by its mapping of the catalog, too, anywhere in here.
            self.disk.under_way(&catalog);
            self.take_commands();
            self.take_reports();
            self.read_rings();
            self.take_arrived();
            self.look_after_ranks();
            self.note_load();
            self.feed(Event::Turn);
            self.look_for_directory();
            self.move_declared();
            self.downs.flush();
            self.beat();
            self.disk.over();
            if self.machine.is_over() {
                let _ = self.ends.orders.send(Order::Stop);
                return self.ended();
            }
            if !self.busy {
                self.sleep();
            }
        }
    }

    /// Nobody is answered any more: whoever asks, or waits, is to see that, also while nobody has joined
    /// this thread.
    fn ended(mut self) -> Intake {
        self.ends.commands = channel().1;
        self.end_packing();
        self.replies.clear();
        self
    }

    /// Gives the machine an event, carries out what it says, and what follows from that.
    pub(super) fn feed(&mut self, event: Event) {
        self.feed_with(event, None);
    }

    /// Gives the machine an event and the bytes that its record brings, carries out what it says, and what follows
    /// from that.
    fn feed_with(&mut self, event: Event, bytes: Option<&[u8]>) {
        self.step(event, bytes);
        while let Some(event) = self.follows.pop_front() {
            self.step(event, None);
        }
    }

    /// Something was committed without which later records mean nothing.
    pub(super) fn declared(&mut self) {
        self.declared.get_or_insert_with(|| Instant::now() + DECLARED);
    }

    /// Who compresses makes way for the ranks, and stops where three quarters of their buffers wait for the disk.
    fn note_load(&self) {
        // Clients take no snapshots, and their buffers are no room for those of ranks.
        let ranks = || self.attached.values().filter(|s| s.row.size > 0);
        let room: u64 = ranks().map(|s| s.segment.block_bytes()).sum();
        let here = ranks().filter(|s| !s.is_mirror()).count();
        self.ends.load.note(here, room, room > 0 && self.machine.waiting_bytes() > room / 4 * 3);
    }

    /// On a disk that is nearly full the catalog's own file does not grow: what waits for room has the log.
    fn move_declared(&mut self) {
        if self.declared.is_none_or(|at| Instant::now() < at) {
            return;
        }
        if self.disk.free(self.layout.root()).is_ok_and(|free| free < SPARE) {
            self.declared = Some(Instant::now() + PUT_OFF);
            return;
        }
        self.declared = None;
        self.move_log();
    }

    /// What is not moved now is moved later: nothing is lost.
    pub(super) fn move_log(&mut self) {
        let _ = self.catalog.move_log();
        self.logged = 0;
    }

    fn step(&mut self, event: Event, bytes: Option<&[u8]>) {
        let mut actions = std::mem::take(&mut self.actions);
        let now = self.now();
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &event);
        }
        self.machine.handle(now, event, &mut actions);
        if let Some(recorder) = &mut self.recorder {
            recorder.actions(&actions);
        }
        self.busy |= !actions.is_empty();
        for action in actions.drain(..) {
            self.carry_out(action, bytes);
        }
        self.actions = actions;
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn take_commands(&mut self) {
        while let Ok(command) = self.ends.commands.try_recv() {
            self.busy = true;
            self.obey(command);
        }
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.ends.reports.try_recv() {
            self.busy = true;
            match report {
                Report::Written { id, ticket } => self.feed(Event::Written { id, ticket }),
                Report::Done(all) => {
                    // In a directory that is gone nothing can be written, and that is what is told.
                    if all.iter().any(|done| done.result.is_err()) {
                        self.tell_displaced();
                    }
                    all.into_iter().for_each(|done| self.feed(Event::Done(Box::new(done))));
                }
            }
        }
    }

    /// Has everything read that ranks have written; one that writes all the time is left to the next round.
    pub(super) fn read_up(&mut self) {
        let _ = (0..ROUNDS).find(|_| !self.read_rings());
    }

    fn read_rings(&mut self) -> bool {
        let mut numbers: Vec<u64> = self.attached.keys().copied().collect();
        // Each time another one is the first.
        let first = self.rounds % numbers.len().max(1);
        numbers.rotate_left(first);
        self.rounds = self.rounds.wrapping_add(1);
        let mut buffer = Vec::new();
        let mut any = false;
        for n in numbers {
            any |= self.read_ring(n, &mut buffer);
        }
        any
    }

    fn read_ring(&mut self, n: u64, buffer: &mut Vec<u8>) -> bool {
        let mut bytes = 0;
        for turn in 0..TURN {
            if bytes > TURN_BYTES {
                break;
            }
            let Some(s) = self.attached.get_mut(&n).filter(|_| self.machine.reads(n)) else {
                self.look_ahead(n, buffer);
                return turn > 0;
            };
            let (pending, is_in_ring) = s.next_pending(buffer).unzip();
            if let (Some(bytes), Some(false)) = (&pending, is_in_ring) {
                let released = s.consumer.released();
                self.take_record(n, released, bytes, true);
                continue;
            }
            match s.consumer.next(buffer) {
                Ok(Some(position)) => {
                    self.busy = true;
                    bytes += buffer.len();
                    self.take_record(n, position, buffer, pending.is_some());
                }
                Ok(None) => {
                    if self.machine.session(n).is_some_and(|s| !s.empty) {
                        self.feed(Event::Empty { session: n });
                    }
                    return turn > 0;
                }
                Err(error) => {
                    self.feed(Event::Broken { session: n, error });
                    return true;
                }
            }
        }
        true
    }

    /// Looks for requests behind what stops the reading of a ring, and leaves everything there.
    fn look_ahead(&mut self, n: u64, buffer: &mut Vec<u8>) {
        for _ in 0..TURN {
            let stopped = self.attached.get_mut(&n).filter(|_| self.machine.looks_ahead(n));
            let Some(position) = stopped.and_then(|s| s.look_on(buffer)) else { return };
            if Record::is_ask(buffer)
                && let Ok((seq, Record::Ask { json })) = Record::decode(buffer)
                && let Ok(ask) = serde_json::from_str(json)
            {
                self.feed(Event::Ahead { session: n, position, seq, ask });
            }
        }
        self.busy = true;
    }

    fn take_record(&mut self, session: u64, position: u64, bytes: &[u8], pending: bool) {
        let (seq, record) = match Record::decode(bytes) {
            Ok(decoded) => decoded,
            Err(error) => return self.feed(Event::Unreadable { session, position, error }),
        };
        let payload = match &record {
            Record::Put { payload, .. } | Record::StepBlock(StepBlock { payload, .. }) => Some(payload),
            _ => None,
        };
        let (block, inline) = match payload {
            Some(Payload::Block(b)) => {
                (self.attached.get(&session).map(|s| Ok(s.block(b)?.is_there())), None)
            }
            Some(Payload::Inline(inline)) => (None, Some(*inline)),
            None => (None, None),
        };
        let record = &record;
        self.feed_with(Event::Record { session, position, seq, record, bytes, block, pending }, inline);
    }

    /// Blocks of a mirror, whose bytes come from another host behind the record that names them.
    fn take_arrived(&mut self) {
        let there = |(ticket, block): &mut (Ticket, HeldBlock)| match self.attached.get(&ticket.0) {
            Some(s) => s.block(block).map_or(true, |b| b.is_there()),
            None => true,
        };
        let arrived: Vec<Ticket> = self.awaited.extract_if(.., there).map(|a| a.0).collect();
        arrived.into_iter().for_each(|ticket| self.feed(Event::Arrived(ticket)));
    }

    /// Says which ranks are gone without their connection saying so, and which were refused elsewhere.
    fn look_after_ranks(&mut self) {
        let asked = match self.machine.asks_who_lives() {
            true => Some(*self.asks.get_or_insert_with(Instant::now)),
            false => None,
        };
        self.asks = asked;
        if self.looked.elapsed() >= LOOK || asked.is_some() {
            self.looked = Instant::now();
            let open = |n: u64| self.machine.session(n).is_some_and(|s| !s.hung);
            let look = |(n, s): (&u64, &mut Attached)| {
                let left = s.segment.word(word::LEFT).load(Ordering::SeqCst) != 0;
                let unsure = asked.is_some_and(|since| !s.has_answered(since));
                Event::Seen { session: *n, lives: s.segment.creator_lives(), left, unsure }
            };
            let seen: Vec<Event> = self.attached.iter_mut().filter(|(n, _)| open(**n)).map(look).collect();
            seen.into_iter().for_each(|event| self.feed(event));
        }
        if self.machine.lacks_ranks() && self.sought.elapsed() >= LOOK {
            self.sought = Instant::now();
            for (rank, how) in self.layout.take_absent() {
                self.feed(Event::Absent { rank, absence: Absence { how, remedy: OVER_THE_NETWORK.into() } });
            }
        }
    }

    /// A directory that is deleted is never written again: whoever writes hears of it also when there is nothing to
    /// commit, and nobody recovers what is in the segments. One that is only moved may come back before that matters.
    fn look_for_directory(&mut self) {
        if self.attached.is_empty() || self.seen.elapsed() < BEAT {
            return;
        }
        self.seen = Instant::now();
        if self.catalog.is_deleted() {
            self.tell_displaced();
        }
    }

    /// Has the machine hear that the directory is not where it was, if so.
    fn tell_displaced(&mut self) {
        if let Some(why) = self.catalog.displaced() {
            self.feed(Event::Lose(why));
        }
    }

    pub(super) fn beat(&self) {
        let figures = self.machine.figures();
        for s in self.attached.values() {
            s.segment.word(word::HEARTBEAT).fetch_add(1, Ordering::Relaxed);
            s.segment.word(word::HIDDEN_NS).store(figures.hidden.as_nanos() as u64, Ordering::Relaxed);
            s.segment.word(word::WRITTEN_BYTES).store(figures.written, Ordering::Relaxed);
        }
    }

    /// Sleeps until a rank rings, a command or a report comes, or the heart has to beat.
    fn sleep(&mut self) {
        let mut pending = false;
        for (n, s) in self.attached.iter_mut() {
            let reads = self.machine.reads(*n);
            if reads || self.machine.looks_ahead(*n) {
                s.bell.prepare_sleep();
                pending |= if reads { s.has_next() } else { s.can_look_on() };
            }
        }
        if !pending {
            let again = self.machine.wake().map(|at| at.saturating_sub(self.began.elapsed()));
            let beat = (!self.attached.is_empty()).then_some(BEAT);
            let declared = self.declared.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = again.into_iter().chain(beat).chain(declared).min();
            let doorbell = (self.ends.doorbell.as_fd(), PollFlags::IN);
            let found = wait::among([doorbell], timeout.map(|t| t.min(BEAT)));
            let idle = found.is_ok_and(|[rung]| rung.is_empty());
            if idle && self.logged > QUIET_LOG {
                self.move_log();
            }
        }
        for s in self.attached.values() {
            s.bell.cancel_sleep();
        }
        self.ends.doorbell.clear();
    }
}

/// Steps that are listed, those of them that are damaged, and those that lack ranks.
pub(super) fn listed_steps(catalog: &Catalog) -> Result<Event<'static>> {
    let conn = catalog.conn();
    let partial = catalog::partial_steps(conn)?.into_iter().map(|row| row.manifest).collect();
    Ok(Event::Listed {
        steps: catalog::step_numbers(conn)?,
        damaged: catalog::damaged_behind(conn, None)?,
        partial,
    })
}
