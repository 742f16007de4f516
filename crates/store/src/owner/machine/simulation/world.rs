//! A model of everything around the machine: rings, catalog, files, clock, deaths. After each action the
//! promises are held against it.

use super::catalog::Catalog;
use super::rank::{LEAD, PIECE, RECORD, RING, Rank};
use super::{Count, Rng};
use crate::catalog::SessionRow;
use crate::owner::machine::event::Stored;
use crate::owner::machine::*;
use crate::stepfile::{Facts, Manifest};
use forebay_types::control::Ask;
use forebay_types::record::HeldBlock;
use forebay_types::watch::Act;
use forebay_types::{Code, Error, Result};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// What the disk does at present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disk {
    Well,
    Full,
    Fails,
}

/// What the drain is to do, one after the other.
pub enum Order {
    Write(Work),
    Discard(Key),
}

/// Most ranks of a program; each one has so many numbers of sessions.
pub const SPREAD: u64 = 3;

pub struct World {
    pub rng: Rng,
    pub story: Vec<String>,
    pub count: Count,
    pub now: Duration,
    pub machine: Option<Machine>,
    pub ranks: BTreeMap<u64, Rank>,
    pub catalog: Catalog,
    /// What of it survives the loss of power.
    pub durable: Catalog,
    /// Files in the making, and those under their names: the parts in them, in order.
    pub open: BTreeMap<Key, Vec<Ticket>>,
    pub named: BTreeMap<Key, Vec<Ticket>>,
    pub works: VecDeque<Order>,
    /// The last work of each file that failed.
    pub failed: BTreeMap<Key, u64>,
    pub kept: BTreeSet<Ticket>,
    pub awaited: Vec<(Ticket, HeldBlock)>,
    pub disk: Disk,
    /// Parts that fit on the disk in files that are not complete.
    pub room: usize,
    pub trouble: bool,
    /// How long who closes waits for the disk.
    pub closing: Duration,
    /// Ranks of most programs.
    pub size: u32,
    pub sessions: u64,
    /// The first session of the last program that was started.
    pub last_life: u64,
    /// What lies where in files of steps that lack ranks.
    pub lies: BTreeMap<u64, Vec<Ticket>>,
    pub resumes: Vec<u64>,
    /// How far each session was applied when this owner came: what is behind that is in its ring.
    pub births: BTreeMap<u64, u64>,
    pub replies: BTreeSet<u64>,
    pub asked: u64,
    /// No more faults: everything has to come to its end.
    pub calm: bool,
}

fn fails(what: &str, disk: Disk) -> Error {
    match disk {
        Disk::Full => Error::new(Code::Full, format!("{what}: no room")),
        _ => Error::new(Code::Io, format!("{what}: it fails")),
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng(seed);
        let size = 1 + rng.below(SPREAD) as u32;
        let mut world = World {
            rng,
            story: Vec::new(),
            count: Count::default(),
            now: Duration::from_secs(1),
            machine: None,
            ranks: BTreeMap::new(),
            catalog: Catalog::default(),
            durable: Catalog::default(),
            open: BTreeMap::new(),
            named: BTreeMap::new(),
            works: VecDeque::new(),
            failed: BTreeMap::new(),
            kept: BTreeSet::new(),
            awaited: Vec::new(),
            disk: Disk::Well,
            room: usize::MAX,
            trouble: false,
            closing: Duration::from_secs(3600),
            size,
            sessions: 0,
            last_life: 0,
            lies: BTreeMap::new(),
            resumes: Vec::new(),
            births: BTreeMap::new(),
            replies: BTreeSet::new(),
            asked: 0,
            calm: false,
        };
        world.trouble = world.rng.one_in(2);
        if seed.is_multiple_of(2) {
            world.closing = Duration::from_millis(500);
        }
        if world.rng.one_in(4) {
            world.room = 8 + world.rng.below(8) as usize;
        }
        world
    }

    /// Two ranks without troubles: what they do is said from outside.
    pub fn small(seed: u64) -> World {
        World { size: 2, trouble: false, room: usize::MAX, ..World::new(seed) }
    }

    pub fn violated(&self, what: String) -> ! {
        let most = std::env::var("FOREBAY_STORY").ok().and_then(|n| n.parse().ok()).unwrap_or(120);
        let story: Vec<&str> = self.story.iter().rev().take(most).rev().map(String::as_str).collect();
        panic!("{}\n{what}", story.join("\n"));
    }

    pub fn tell(&mut self, what: String) {
        if !what.is_empty() {
            self.story.push(format!("{:9.3} {what}", self.now.as_secs_f64()));
        }
    }

    /// An owner begins: the first one, or the successor of one that died.
    pub(super) fn open(&mut self) {
        let birth = Birth {
            run_id: "r".into(),
            dir: "r.fb".into(),
            last_act: self.catalog.last_act,
            listed: (self.catalog.steps.iter().copied().collect(), Vec::new()),
            keeps: false,
            partial: self.catalog.partial.values().cloned().collect(),
            away: self.catalog.away.iter().map(|(session, (rank, life))| (*session, *rank, *life)).collect(),
            life: self.catalog.life,
            lives: self.catalog.lives.clone(),
            failed: self.catalog.failed.values().cloned().collect(),
            overflow: 16,
            closing: self.closing,
            hiccup: Duration::from_secs(3600),
            files: Duration::from_secs(3600),
            late_ranks: Duration::from_secs(60),
            patience: Duration::from_millis(100),
        };
        self.tell("an owner opens the run".into());
        self.machine = Some(Machine::new(birth));
        // Files that are whole and have no row are listed; those of data sets go.
        let whole: Vec<Key> = self.named.keys().copied().collect();
        for key in whole {
            match key {
                Key::Step(step) if !self.catalog.steps.contains(&step) => self.list(step),
                Key::Partial(step) if !self.catalog.partial.contains_key(&step) => {
                    self.named.remove(&key);
                }
                _ => {}
            }
        }
        self.durable = self.catalog.clone();
        let (steps, damaged) = (self.catalog.steps.iter().copied().collect(), Vec::new());
        let partial = self.catalog.partial.values().cloned().collect();
        self.feed(Event::Listed { steps, damaged, partial });
        for row in self.catalog.sessions.clone().into_values() {
            let Some(rank) = self.ranks.get_mut(&row.session) else { continue };
            (rank.read, rank.looked) = (rank.released, 0);
            let applied = self.catalog.applied.get(&row.session).copied().unwrap_or(0);
            self.births.insert(row.session, applied);
            let mut s = Session {
                number: row.session,
                rank: row.rank,
                size: row.size,
                pid: 1000 + row.session as u32,
                applied,
                seen: applied,
                ring: RING as u64 * RECORD,
                released: rank.released,
                remote: rank.remote,
                after: rank.after,
                is_past: rank.after.is_some_and(|of| !self.catalog.away.contains_key(&of)),
                refused_ask: rank.refused_up_to,
                ..Session::default()
            };
            rank.pending = self
                .catalog
                .pending
                .range((row.session, 0)..=(row.session, u64::MAX))
                .map(|((_, seq), (_, bytes))| (*seq, bytes.clone()))
                .collect();
            match rank.alive && !rank.fenced {
                true => {
                    let replay_end = rank.published;
                    s.adopted = Some(Adopted { replay_end, waiting: Some(self.now) });
                    self.resumes.push(row.session);
                }
                false => {
                    rank.fenced = true;
                    (s.recovered, s.hung) = (true, true);
                }
            }
            self.feed(Event::Enter(Box::new(s)));
        }
    }

    /// A program starts: all its ranks.
    pub(super) fn start(&mut self, last_step: i64) {
        let goes_back = self.rng.one_in(2);
        self.last_life = self.sessions + 1;
        // A rank on another host that has just died may have been taken for a living one: then these are of its life.
        let may_live = |s: &Session| s.remote && !s.hung && !s.clean && s.after.is_none();
        let joins = goes_back && self.machine.as_ref().is_some_and(|m| m.sessions().any(may_live));
        if !joins || self.rng.one_in(2) {
            self.catalog.life = self.last_life;
            self.catalog.lives.push(self.last_life);
            self.feed(Event::Alone { session: self.last_life, life: self.last_life });
        }
        // Each start may be of another number of ranks.
        let size = match self.sessions == 0 || self.rng.one_in(2) {
            true => self.size,
            false => 1 + self.rng.below(SPREAD) as u32,
        };
        self.sessions += SPREAD;
        for rank in 0..size {
            let session = self.last_life + u64::from(rank);
            let row = SessionRow { session, rank, size, segment: String::new() };
            self.catalog.sessions.insert(session, row.clone());
            self.durable.sessions.insert(session, row);
            let model = Rank::new(session, rank, size, last_step, goes_back, &mut self.rng);
            self.ranks.insert(session, model);
            let pid = 1000 + session as u32;
            let ring = RING as u64 * RECORD;
            let remote = self.ranks[&session].remote;
            let s = Session { number: session, rank, size, pid, ring, remote, ..Session::default() };
            self.feed(Event::Enter(Box::new(s)));
        }
        self.tell(format!("a program of {size} ranks starts"));
    }

    pub(super) fn kill_owner(&mut self) {
        self.tell("the owner dies".into());
        self.machine = None;
        // What the drain was doing is done, or not: of small files that become durable together, any of them.
        let mut together = true;
        while let Some(Order::Write(work)) = self.works.pop_front().filter(|_| together) {
            together = work.small;
            if !self.is_behind_a_failure(&work) && self.rng.one_in(2) {
                work.parts.iter().for_each(|part| self.write(work.key, part));
                drop(self.seal(&work));
            } else {
                self.failed.insert(work.key, work.id);
            }
        }
        // Proxies die with it, and so do the lines to who brings something.
        let cut = self.rng.one_in(2);
        let lines = self.ranks.values().filter(|r| r.alive && r.remote && (cut || r.after.is_some()));
        let lines: Vec<u64> = lines.map(|r| r.session).collect();
        lines.into_iter().for_each(|session| self.kill_rank(session));
        self.works.clear();
        self.open.clear();
        self.kept.clear();
        self.awaited.clear();
        self.resumes.clear();
        self.replies.clear();
        self.failed.clear();
    }

    pub(super) fn kill_rank(&mut self, session: u64) {
        let Some(rank) = self.ranks.get_mut(&session).filter(|r| r.alive) else { return };
        rank.alive = false;
        if rank.remote && rank.after.is_none() {
            rank.lose_line(&mut self.rng);
        }
        let number = rank.rank;
        self.tell(format!("rank {number} (session {session}) dies"));
    }

    /// Gives the machine an event and carries out what it says.
    pub(super) fn feed(&mut self, event: Event) {
        let mut follows: VecDeque<Event> = VecDeque::new();
        self.step(event, &mut follows);
        while let Some(event) = follows.pop_front() {
            self.step(event, &mut follows);
        }
    }

    fn step(&mut self, event: Event, follows: &mut VecDeque<Event<'static>>) {
        let Some(mut machine) = self.machine.take() else { return };
        self.count.event(&event);
        let mut actions = Vec::new();
        machine.handle(self.now, event, &mut actions);
        self.machine = Some(machine);
        for action in actions {
            self.count.action(&action);
            self.carry_out(action, follows);
        }
    }

    fn carry_out(&mut self, action: Action, follows: &mut VecDeque<Event<'static>>) {
        match action {
            Action::Work(work) => {
                for part in &work.parts {
                    self.check_there(part);
                }
                self.works.push_back(Order::Write(*work));
            }
            Action::Discard(key) => self.works.push_back(Order::Discard(key)),
            Action::Commit { group, how } => {
                let is_full = self.room_left() == 0;
                let ill = self.disk != Disk::Well && !self.rng.one_in(4) || is_full;
                let disk = if is_full { Disk::Full } else { self.disk };
                follows.push_back(match ill {
                    true => Event::NotCommitted { group, error: fails("the catalog", disk) },
                    false => {
                        let effects = self.commit(&group);
                        if how == Commit::Durable {
                            self.durable = self.catalog.clone();
                        }
                        Event::Committed { group, effects }
                    }
                });
            }
            Action::Describe { step, .. } => {
                let ill = self.disk == Disk::Fails && self.rng.one_in(4);
                let facts = match ill {
                    true => Err(fails("the catalog", self.disk)),
                    false => Ok(Box::new(Facts { step, ..Facts::default() })),
                };
                follows.push_back(Event::Described { step, facts });
            }
            Action::Release { session, position } => self.release(session, position),
            Action::Free { session, block } => self.free(session, block),
            Action::Keep { ticket, from } => {
                if let Some(block) = from {
                    self.check_block(ticket, &block);
                }
                law!(self, self.kept.insert(ticket), "the bytes of {ticket:?} are kept twice");
            }
            Action::Forget(tickets) => {
                for ticket in tickets {
                    law!(self, self.kept.remove(&ticket), "the bytes of {ticket:?} are forgotten twice");
                }
            }
            Action::Await { ticket, block } => self.awaited.push((ticket, block)),
            Action::Answer { session, seq, result } => self.answer(session, seq, result),
            Action::Refuse { session, seq } => {
                if let Some(rank) = self.ranks.get_mut(&session) {
                    rank.refused_up_to = rank.refused_up_to.max(seq);
                }
            }
            Action::Stats { session, seq } | Action::Overflow { session, seq, .. } => {
                self.answer(session, seq, Ok(json!(null)));
            }
            Action::Pass { session, seq, .. } => self.answer(session, seq, Err(Error::bad("nobody knows"))),
            Action::Reply { ticket, .. } => {
                law!(self, self.replies.remove(&ticket), "request {ticket} is replied to twice");
            }
            Action::Late { session, error } => {
                self.count.refusal(&error);
                if let Some(rank) = self.ranks.get_mut(&session) {
                    rank.late.push(error.text().to_owned());
                    let text = format!("rank {} (session {session}) hears: {}", rank.rank, error.text());
                    self.tell(text);
                }
            }
            Action::Fence { session } => {
                if let Some(rank) = self.ranks.get_mut(&session) {
                    rank.fenced = true;
                }
            }
            Action::Leave { session, .. } => {
                let rank = self.ranks.get_mut(&session);
                if let Some(rank) = rank {
                    rank.fenced = true;
                    let left = rank.ring.iter().filter(|r| r.0 > rank.released).count();
                    // What is behind a put whose bytes have not come is brought again.
                    let broken = rank.broken || rank.remote && !rank.alive;
                    law!(self, left == 0 || broken, "session {session} ends with {left} records in its ring");
                }
                self.tell(format!("session {session} is over"));
            }
            Action::Lost(error) => self.violated(format!("the store is lost: {error}")),
            Action::Durable { step, .. } => {
                law!(self, self.durable.steps.contains(&step), "step {step} is called durable and is not");
            }
            Action::Trouble(text) if text.contains("everything goes on") => {
                let waits = self.machine.as_ref().and_then(Machine::waits_for);
                law!(self, waits.is_none(), "{text:?} is said, and something waits: {waits:?}");
            }
            Action::Trouble(_) => {}
            Action::Aside(steps) => {
                steps.iter().for_each(|step| drop(self.named.remove(&Key::Step(*step))));
            }
            Action::Dropped(file) => {
                let is = |key: &Key| matches!(key, Key::Partial(step) if crate::layout::partial_file(*step) == file);
                self.named.retain(|key, _| !is(key));
            }
            Action::Settle
            | Action::Applied { .. }
            | Action::Remark { .. }
            | Action::Say { .. }
            | Action::Tell(_)
            | Action::DeleteFile(_) => {}
        }
    }

    fn answer(&mut self, session: u64, seq: u64, result: Result<serde_json::Value>) {
        let Some(rank) = self.ranks.get_mut(&session) else { return };
        if !rank.alive {
            return;
        }
        let asked = rank.asked.take_if(|a| a.seq == seq);
        let number = rank.rank;
        // A successor that reads a question again answers it again; the client has heard the first answer.
        let again =
            rank.answered.get(&seq).is_some_and(|at_once| *at_once) && self.births.contains_key(&session);
        if let Some(asked) = &asked {
            rank.answered.insert(seq, matches!(asked.ask, Ask::Stats | Ask::DropOldest));
        }
        law!(self, again || asked.is_some(), "request {seq} of session {session} is answered twice");
        let Some(asked) = asked else { return };
        if let Err(error) = &result {
            self.count.refusal(error);
        }
        if result.as_ref().is_err_and(|e| e.code() == Code::Full) && seq <= rank.refused_up_to {
            rank.is_refused(&asked);
        }
        self.tell(format!("rank {number} (session {session}) is answered {:?}: {result:?}", asked.ask));
        match (&asked.ask, &result) {
            (Ask::WaitStep { step }, Ok(_)) => {
                law!(
                    self,
                    self.durable.steps.contains(step),
                    "step {step} was waited for and is not durable"
                );
            }
            (Ask::Flush, Ok(_)) => {
                let rank = &self.ranks[&session];
                let missing =
                    rank.small.iter().find(|n| **n < seq && !self.durable.small.contains(&(session, **n)));
                law!(self, missing.is_none(), "record {missing:?} was flushed and is not durable");
            }
            (Ask::Close { .. }, Ok(_)) => {
                let rank = self.ranks.get_mut(&session).unwrap();
                (rank.clean, rank.gone, rank.alive) = (true, true, false);
                let refused = rank.late.clone();
                let of = rank.after.and_then(|of| self.ranks.get_mut(&of));
                if let Some(memory) = of.map(|of| &mut of.memory) {
                    match (refused.is_empty(), memory.as_mut()) {
                        (false, Some(memory)) => memory.refused = true,
                        _ => *memory = None,
                    }
                }
                self.feed(Event::Hung { session });
            }
            _ => {}
        }
    }

    /// Writes a part; those of a rank must come in order.
    fn write(&mut self, key: Key, part: &Part) {
        // (What is kept by a record was handed over with the work.)
        if let (Bytes::Block(block), true) = (part.bytes, self.machine.is_some()) {
            self.check_block(part.ticket, &block);
        }
        if let Key::Step(_) = key {
            // What lies in a file already is of the session that put it.
            let of = match part.bytes {
                Bytes::Sealed(at) => self.lies[&at][0].0,
                _ => part.ticket.0,
            };
            let (at, whole) = (u64::from(part.rank) * PIECE, u64::from(self.ranks[&of].size) * PIECE);
            let fits = part.offset.extents() == [at] && part.meta.shape.extents() == [whole];
            law!(
                self,
                fits,
                "{:?} of {key:?} is written at {} of {}",
                part.ticket,
                part.offset,
                part.meta.shape
            );
        }
        if let Bytes::Sealed(at) = part.bytes {
            let lies = self.lies.get(&at).cloned().unwrap_or_default();
            self.open.entry(key).or_default().extend(lies);
            return;
        }
        let file = self.open.get(&key).cloned().unwrap_or_default();
        law!(self, !file.contains(&part.ticket), "{:?} is written twice into {key:?}", part.ticket);
        let before = file.iter().filter(|t| t.0 == part.ticket.0).count() as u64;
        let due = matches!(key, Key::Put(_)) || before * 4 == part.from;
        law!(self, due, "part {} of rank {} of {key:?} comes out of order", part.from, part.rank);
        self.open.entry(key).or_default().push(part.ticket);
    }

    fn is_behind_a_failure(&self, work: &Work) -> bool {
        work.behind.is_some() && self.failed.get(&work.key) == work.behind.as_ref()
    }

    fn seal(&mut self, work: &Work) -> Option<Sealed> {
        let facts = work.facts.as_ref()?;
        let file = self.open.remove(&work.key).unwrap_or_default();
        self.named.insert(work.key, file.clone());
        Some(match work.key {
            Key::Step(step) => {
                Sealed::Step(Box::new(Manifest { step, ..Manifest::default() }), Vec::new(), Vec::new())
            }
            Key::Partial(step) => Sealed::Partial(Box::new(self.sealed(step, facts, &file))),
            Key::Put(_) => Sealed::Put(Stored { file: work.file.clone(), offset: 0, crc: 0 }),
        })
    }

    /// Parts for which the disk has room. There is always enough for steps that give their blocks back as they are
    /// written: nothing else could be thrown away for them.
    fn room_left(&self) -> usize {
        let early = |key: &Key| match key {
            Key::Step(step) => self.ranks.values().any(|r| r.attempts.get(step).is_some_and(|a| a.early)),
            Key::Put(_) | Key::Partial(_) => false,
        };
        let held: usize = self.open.iter().filter(|(key, _)| !early(key)).map(|(_, parts)| parts.len()).sum();
        self.room.saturating_sub(held)
    }

    /// The drain does its next work, or fails at it.
    pub(super) fn drain(&mut self) {
        let work = match self.works.pop_front() {
            Some(Order::Write(work)) => work,
            Some(Order::Discard(key)) => {
                self.failed.remove(&key);
                return drop(self.open.remove(&key));
            }
            None => return,
        };
        let id = work.id;
        let took = Duration::from_millis(1);
        if self.is_behind_a_failure(&work) {
            self.failed.insert(work.key, id);
            let result = Err(Error::internal("the work before it failed"));
            let done = Done { id, written: 0, result, file: FileState::Sound, took, bytes: 0 };
            return self.feed(Event::Done(Box::new(done)));
        }
        let (key, tell_each) = (work.key, work.tell_each);
        let mut ill = self.disk != Disk::Well && !self.rng.one_in(4);
        let mut most = match ill {
            true => self.rng.below(work.parts.len() as u64 + 1) as usize,
            false => work.parts.len(),
        };
        let room = self.room_left();
        let is_full = most > room && !tell_each;
        if is_full {
            (ill, most) = (true, room);
        }
        let parts = work.parts.clone();
        for part in parts.iter().filter(|p| matches!(p.bytes, Bytes::Sealed(_))) {
            self.check_there(part);
        }
        // It stays the first until it is done: its blocks must not come back before.
        self.works.push_front(Order::Write(work));
        for part in parts.iter().take(most) {
            self.write(key, part);
            if tell_each {
                self.feed(Event::Written { id, ticket: part.ticket });
            }
        }
        let Some(Order::Write(work)) = self.works.pop_front() else { return };
        match ill {
            true => drop(self.failed.insert(work.key, id)),
            false => drop(self.failed.remove(&work.key)),
        }
        let (result, file) = match ill {
            true => {
                let lost = self.rng.one_in(4);
                let state = match (self.open.contains_key(&work.key), lost) {
                    (false, _) => FileState::None,
                    (true, true) if self.disk == Disk::Fails => FileState::Unsound,
                    _ => FileState::Sound,
                };
                let disk = if is_full { Disk::Full } else { self.disk };
                (Err(fails("the disk", disk)), state)
            }
            false => (Ok(self.seal(&work)), FileState::Sound),
        };
        self.feed(Event::Done(Box::new(Done { id, written: most, result, file, took, bytes: 0 })));
    }

    /// One thing happens.
    fn tick(&mut self) {
        self.now += Duration::from_millis(self.rng.below(20));
        let sessions: Vec<u64> = self.ranks.keys().copied().collect();
        let Some(session) = self.rng.one_of(&sessions) else { return };
        match self.rng.below(100) {
            0..=34 => {
                if self.is_held_up(session) {
                    return;
                }
                if let Some(rank) = self.ranks.get_mut(&session).filter(|r| r.is_free() && !r.is_over()) {
                    let did = rank.act(&mut self.rng);
                    let number = rank.rank;
                    if !did.is_empty() {
                        self.tell(format!("rank {number} (session {session}) {did}"));
                    }
                }
            }
            35..=59 => {
                let most = 1 + self.rng.below(8);
                self.read(session, most);
            }
            60..=74 => self.feed(Event::Turn),
            75..=89 => self.drain(),
            90..=91 => self.look(session),
            92 => self.arrive(),
            93 => self.now += Duration::from_millis(self.rng.below(400)),
            94 => self.ask_around(),
            95 => self.resume(session),
            _ if self.calm => self.feed(Event::Turn),
            99 if self.rng.one_in(4) => self.bring(),
            96 if self.trouble => {
                self.disk = self.rng.one_of(&[Disk::Well, Disk::Full, Disk::Fails, Disk::Well]).unwrap();
            }
            97 if self.rng.one_in(12) => self.kill_rank(session),
            98 if self.rng.one_in(12) => {
                self.kill_owner();
                self.open();
            }
            _ => {}
        }
    }

    /// Whether a rank waits for a message of the first one of its program, which sends it far ahead.
    fn is_held_up(&self, session: u64) -> bool {
        let Some(rank) = self.ranks.get(&session).filter(|r| r.lags) else { return false };
        // On another host it waits for room in its ring, too.
        let ahead = |first: &Rank| {
            first.remote
                || first.is_over()
                || first.asked.is_some()
                || first.has_no_block()
                || first.seq >= rank.seq + LEAD
        };
        !self.life_of(session).next().is_some_and(ahead)
    }

    /// A look at a rank; the closed connection of a dead one.
    pub(super) fn look(&mut self, session: u64) {
        let Some(rank) = self.ranks.get_mut(&session) else { return };
        if !rank.alive && !rank.gone && self.rng.one_in(2) {
            rank.gone = true;
            return self.feed(Event::Hung { session });
        }
        // Of a rank on another host its connection says that it is dead, and before that it does not answer.
        let (lives, left, unsure) = (rank.alive || rank.remote, false, rank.remote && !rank.alive);
        self.feed(Event::Seen { session, lives, left, unsure });
    }

    fn arrive(&mut self) {
        let ranks = &mut self.ranks;
        for rank in ranks.values_mut().filter(|r| r.alive) {
            rank.blocks.iter_mut().for_each(|b| b.there |= b.of.is_some());
        }
        let there = |(ticket, b): &mut (Ticket, HeldBlock)| {
            ranks.get(&ticket.0).is_none_or(|r| {
                let entry = r.blocks[b.index as usize];
                entry.generation != b.generation || entry.of.is_none() || entry.there
            })
        };
        let arrived: Vec<Ticket> = self.awaited.extract_if(.., there).map(|a| a.0).collect();
        arrived.into_iter().for_each(|ticket| self.feed(Event::Arrived(ticket)));
    }

    /// Others ask the owner.
    fn ask_around(&mut self) {
        self.asked += 1;
        let ticket = self.asked;
        self.replies.insert(ticket);
        match self.rng.one_in(2) {
            true => self.feed(Event::Flush { ticket }),
            false => {
                self.feed(Event::Steer { ticket, who: "me".into(), act: Act::Run });
                self.feed(Event::Steered { id: ticket, step: 0, code: 0, text: String::new() });
            }
        }
    }

    /// The rank of an adopted session comes, with what it has asked.
    pub(super) fn resume(&mut self, session: u64) {
        if self.resumes.extract_if(.., |n| *n == session).count() == 0 {
            return;
        }
        let Some(rank) = self.ranks.get(&session).filter(|r| r.alive && !r.fenced) else { return };
        let asked = rank.asked.clone();
        let awaited = |s: &&Session| !s.hung && s.adopted.as_ref().is_some_and(|a| a.waiting.is_some());
        if self.machine.as_ref().and_then(|m| m.session(session)).filter(awaited).is_none() {
            return;
        }
        let applied = self.births.get(&session).copied().unwrap_or(0);
        let asks = asked.iter().map(|a| a.seq).filter(|seq| *seq > applied).collect();
        self.feed(Event::Resumed { session, asks });
        let Some(asked) = asked.filter(|a| a.seq <= applied) else { return };
        match self.catalog.answers.get(&(session, asked.seq)).cloned() {
            Some(kept) => self.answer(session, asked.seq, Ok(kept)),
            None => self.feed(Event::Request { session, seq: asked.seq, ask: asked.ask }),
        }
    }

    /// A whole story.
    pub fn run(&mut self) {
        self.open();
        let lives = 1 + self.rng.below(3) as i64;
        for life in 1..=lives {
            let last_step = life * 3 + self.rng.below(6) as i64;
            self.start(last_step);
            for _ in 0..1500 {
                self.tick();
            }
            // The rest of a program goes when one of its ranks has gone.
            if life < lives || self.ranks.values().any(|r| !r.alive) {
                let alive: Vec<u64> =
                    self.ranks.values().filter(|r| !r.is_over()).map(|r| r.session).collect();
                alive.into_iter().for_each(|session| self.kill_rank(session));
            }
        }
        self.come_to_rest();
    }

    /// The faults stop: all is drained and everybody answered.
    fn come_to_rest(&mut self) {
        (self.calm, self.disk) = (true, Disk::Well);
        self.tell("the faults stop".into());
        for round in 0..20_000 {
            self.tick();
            if round % 50 == 0 {
                self.now += Duration::from_secs(1);
                let sessions: Vec<u64> = self.ranks.keys().copied().collect();
                for session in sessions {
                    self.look(session);
                    self.resume(session);
                }
                self.bring();
                let left = |r: &Rank| r.memory.as_ref().is_some_and(|m| !m.refused);
                let over = self.ranks.values().all(|r| r.is_over() && !left(r));
                if over && self.machine.as_ref().is_some_and(Machine::is_drained) && self.works.is_empty() {
                    return self.check_rest();
                }
            }
        }
        let stuck: Vec<String> = self
            .ranks
            .values()
            .filter(|r| !r.is_over())
            .map(|r| {
                format!(
                    "session {} has {} of {RING} records and asks {:?}",
                    r.session,
                    r.ring.len(),
                    r.asked.as_ref().map(|a| &a.ask)
                )
            })
            .collect();
        let machine = self.machine.as_ref().map(Machine::state).unwrap_or_default();
        self.violated(format!("no rest: {stuck:?}, {} works; {machine}", self.works.len()));
    }

    pub(super) fn check_rest(&mut self) {
        self.feed(Event::Turn);
        self.check_promised();
        law!(self, self.kept.is_empty(), "bytes are kept for ever: {:?}", self.kept);
        law!(self, self.open.is_empty(), "files stay open: {:?}", self.open.keys());
        law!(self, self.replies.is_empty(), "nobody replied to {:?}", self.replies);
        for rank in self.ranks.values().filter(|r| r.clean) {
            let held = rank.blocks.iter().filter(|b| b.of.is_some()).count();
            law!(self, held == 0, "session {} holds {held} blocks for ever", rank.session);
        }
    }
}
