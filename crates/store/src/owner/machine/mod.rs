//! The owner of a run as a machine: events in, actions out. It decides everything there is to decide about
//! sessions, steps, files, groups and whoever waits, and it touches nothing: no file, no clock, no memory of
//! a rank, no catalog. So what it does can be tried over any order of events.
//!
//! ```text
//!   Record, Done, Committed, ... --> handle(now, event) --> Work, Commit, Free, Answer, ...
//!        ^                                                          |
//!        +------- driver: rings, catalog, files, clock <------------+
//! ```
//!
//! - an item that a rank was promised stays in its ring until [`Action::Release`], which follows its commit;
//! - a block goes back by [`Action::Free`] only when no work names it;
//! - each request is answered once.

mod absent;
mod ahead;
#[cfg(test)]
mod clients;
mod describing;
mod dropping;
mod endings;
mod event;
mod exact;
mod failed;
mod figures;
mod files;
mod group;
mod item;
mod known;
mod named;
mod partial;
mod pending;
mod pieces;
mod records;
#[cfg(test)]
mod scene;
mod session;
#[cfg(test)]
mod simulation;
mod steps;

pub use absent::{Absence, OVER_THE_NETWORK};
pub(super) use event::{
    Action, Bytes, Commit, Done, Event, FileState, Key, Now, Part, Sealed, Stored, Ticket, Work,
};
pub(super) use figures::Figures;
pub(super) use files::TOGETHER;
pub(super) use item::{Effect, Item, Tell};
pub(super) use session::{Adopted, Session, not_a_clients};

use crate::catalog::{FailedAttempt, PAST};
use crate::stepfile::Manifest;
use failed::Failed;
use files::Files;
use forebay_types::{Code, Error};
use group::{Ailing, Over};
use known::Known;
use records::{Arriving, Read};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use steps::Step;

/// Most acts of steering that wait for a full disk, with everything else in their group.
const ACTS: usize = 100_000;
/// No run has more ranks.
const MOST_RANKS: u32 = forebay_types::limits::RANKS as u32;
/// How long a living rank may take to come to the successor of a dead owner.
const COMING: Duration = Duration::from_secs(30);

/// Somebody who waits until something is durable.
struct Waiter {
    session: u64,
    seq: u64,
    what: Wait,
}

enum Wait {
    Step(i64),
    /// All steps this session takes part in.
    All,
    Close,
}

/// What a machine is told once.
#[derive(Serialize, Deserialize)]
pub(super) struct Birth {
    pub run_id: String,
    /// The run's directory, for people.
    pub dir: String,
    /// Number of the last act of steering.
    pub last_act: u64,
    /// Steps that are listed, and those of them that are damaged.
    pub listed: (Vec<i64>, Vec<i64>),
    /// Whether somebody has said which steps stay.
    #[serde(default)]
    pub keeps: bool,
    /// Steps that lack ranks, with what is kept of them.
    #[serde(default)]
    pub partial: Vec<Manifest>,
    /// Sessions whose memory on another host may have more: their rank, and the life of the run that they were of.
    #[serde(default)]
    pub away: Vec<(u64, u32, u64)>,
    /// The first session of this life of the run.
    #[serde(default)]
    pub life: u64,
    /// Those of earlier lives, as far as anything of them may come.
    #[serde(default)]
    pub lives: Vec<u64>,
    /// Attempts at steps that failed and that not every rank has made.
    pub failed: Vec<FailedAttempt>,
    /// Bytes of the store's own buffer.
    pub overflow: u64,
    /// How long a closing waits for a disk that has no room.
    pub closing: Duration,
    /// How long a catalog that fails is tried again.
    pub hiccup: Duration,
    /// How long a file is.
    pub files: Duration,
    /// How long ranks that have not come are waited for.
    pub late_ranks: Duration,
    /// The pause before a disk is tried again.
    pub patience: Duration,
}

/// See the head of the file.
pub(super) struct Machine {
    run_id: String,
    dir: String,
    last_act: u64,
    overflow: u64,
    /// Some steps go when others come.
    keeps: bool,
    closing: Duration,
    hiccup: Duration,
    files_limit: Duration,
    late_ranks: Duration,
    patience: Duration,
    sessions: BTreeMap<u64, Session>,
    steps: BTreeMap<i64, Step>,
    files: Files,
    known: Known,
    /// What is read and goes into the catalog next.
    group: Vec<Item>,
    /// The group before it is on its way there.
    committing: bool,
    /// Set while a group cannot be committed.
    ailing: Option<Ailing>,
    /// Since when nothing gets on for want of room on the disk, and what.
    waits: Option<(Now, Error)>,
    /// Set while that has ended and was not told yet.
    over: Option<Over>,
    /// What is to be written and waits for its bytes, and the records whose bytes have not come.
    arriving: Vec<Arriving>,
    comes: BTreeSet<Ticket>,
    failed: Failed,
    /// Steps that are kept though their ranks differ in what they say, or give.
    disputed: BTreeMap<i64, Error>,
    /// Why steps that a dead program left are not kept.
    not_recovered: Vec<Error>,
    /// What is pending in the catalog and is not needed there any more.
    settled: Vec<Item>,
    /// Ranks that have left, with how: they closed the run, or are gone; and their last session.
    left: BTreeMap<u32, (Absence, u64)>,
    /// Sessions whose memory on another host may have more, with their rank and the life of the run that they were of;
    /// and those of which all has come that there is.
    away: BTreeMap<u64, (u32, u64)>,
    brought: BTreeSet<u64>,
    /// The first session of this life of the run, and those of all lives that are known.
    life: u64,
    lives: BTreeSet<u64>,
    lacking_since: Option<Now>,
    /// Since when who goes back waits for ranks whose hosts may have more, and whether that was said.
    memories_since: Option<(Now, bool)>,
    /// How often the run went back.
    times_back: u64,
    /// The last step that was completed, with its time if it had one.
    before: Option<(i64, f64)>,
    /// The first session that came when nobody else was there: whoever had left before may come again.
    since: u64,
    /// Whether the ranks that are there were told whom they wait for.
    remarked: bool,
    flushers: Vec<u64>,
    waiters: Vec<Waiter>,
    stopping: bool,
    /// Why nothing more is accepted: the run is another owner's, its disk fails for good, or it was abandoned.
    lost: Option<Error>,
    figures: Figures,
    now: Now,
    out: Vec<Action>,
}

impl Machine {
    pub fn new(birth: Birth) -> Machine {
        let Birth { run_id, dir, last_act, listed: (steps, damaged), overflow, .. } = birth;
        let of_away = birth.away.iter().map(|(_, _, life)| *life).filter(|life| *life != PAST);
        let lives = birth.lives.iter().copied().chain(of_away).chain([birth.life]).collect();
        Machine {
            run_id,
            dir,
            last_act,
            overflow,
            keeps: birth.keeps,
            closing: birth.closing,
            hiccup: birth.hiccup,
            files_limit: birth.files,
            late_ranks: birth.late_ranks,
            patience: birth.patience,
            sessions: BTreeMap::new(),
            steps: BTreeMap::new(),
            files: Files::default(),
            known: Known::new(steps, damaged, birth.partial),
            group: Vec::new(),
            committing: false,
            ailing: None,
            waits: None,
            over: None,
            arriving: Vec::new(),
            comes: BTreeSet::new(),
            failed: Failed::new(birth.failed),
            disputed: BTreeMap::new(),
            not_recovered: Vec::new(),
            settled: Vec::new(),
            left: BTreeMap::new(),
            away: birth.away.into_iter().map(|(session, rank, life)| (session, (rank, life))).collect(),
            brought: BTreeSet::new(),
            life: birth.life,
            lives,
            lacking_since: None,
            memories_since: None,
            times_back: 0,
            before: None,
            since: 0,
            remarked: false,
            flushers: Vec::new(),
            waiters: Vec::new(),
            stopping: false,
            lost: None,
            figures: Figures::default(),
            now: Now::ZERO,
            out: Vec::new(),
        }
    }

    /// Takes one event; what is to be done goes behind what is in `out`, in its order.
    pub fn handle(&mut self, now: Now, event: Event, out: &mut Vec<Action>) {
        self.now = now;
        std::mem::swap(&mut self.out, out);
        self.take(event);
        std::mem::swap(&mut self.out, out);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Record { session, position, seq, record, bytes, block, pending } => {
                self.take_record(Read { session, position, seq, record, bytes, block, pending });
            }
            Event::Unreadable { session, position, error } => self.unreadable(session, position, error),
            Event::Turn => self.turn(),
            Event::Committed { group, effects } => {
                self.committed(group, effects);
                self.get_on();
            }
            Event::NotCommitted { group, error } => self.not_committed(group, error),
            Event::Written { id, ticket } => self.written(id, ticket),
            Event::Done(done) => {
                self.work_done(*done);
                self.write_on();
            }
            Event::Described { step, facts } => {
                self.described(step, facts);
                self.write_on();
            }
            Event::Arrived(ticket) => self.arrived(ticket),
            Event::Alone { session, life } => {
                if std::mem::replace(&mut self.life, life) != life {
                    // Nobody makes the attempts of the one before, whose ranks may not be known to be gone yet.
                    self.pass_attempts(0..MOST_RANKS);
                    self.lives.insert(life);
                }
                self.come_again(session);
            }
            Event::Enter(session) => self.enter(*session),
            Event::Resumed { session, asks } => self.resumed(session, &asks),
            Event::Ahead { session, position, seq, ask } => self.look_at_ask(session, position, seq, ask),
            Event::Broken { session, error } => self.is_broken(session, error),
            Event::Empty { session } => {
                if let Some(s) = self.sessions.get_mut(&session) {
                    s.empty = true;
                }
            }
            Event::Hung { session } => self.hang(session),
            Event::Seen { session, lives, left, unsure } => {
                if let Some(s) = self.sessions.get_mut(&session) {
                    s.unsure = unsure;
                }
                self.look_at(session, lives, left);
            }
            Event::Absent { rank, absence } => self.note_absent(rank, absence),
            Event::Request { session, seq, ask } => self.later(session, seq, ask),
            Event::Steer { ticket, who, act } => self.steer(ticket, who, act),
            Event::Steered { id, step, code, text } => self.group.push(Item::Ended { id, step, code, text }),
            Event::Flush { ticket } => self.flushers.push(ticket),
            Event::Listed { steps, damaged, partial } => {
                self.known = Known::new(steps, damaged, partial);
            }
            Event::Close { clients_go_on } => {
                self.stopping = true;
                let goes_on = |s: &Session| clients_go_on && s.is_client() && s.hears() && !s.clean;
                for s in self.sessions.values_mut().filter(|s| goes_on(s)) {
                    s.left_on = true;
                }
                let others = self.sessions.values().filter(|s| !s.left_on).map(|s| s.number);
                let others: Vec<u64> = others.collect();
                others.into_iter().for_each(|session| self.hang(session));
            }
            Event::Lose(error) => self.lose(error),
        }
    }

    fn act(&mut self, action: Action) {
        self.out.push(action);
    }

    /// A round of reading is over.
    fn turn(&mut self) {
        self.tell_calm();
        self.lose_arriving();
        self.wake_joining();
        self.wake_deferred();
        self.make_room();
        self.forget_attempts();
        if !self.commit() {
            self.get_on();
        }
    }

    /// What follows when nothing is on its way into the catalog.
    fn get_on(&mut self) {
        self.finish_complete_steps();
        self.answer_waiters();
        self.end_sessions();
        self.refuse_closings();
        self.commit();
        self.write_on();
    }

    fn enter(&mut self, mut session: Session) {
        // What a predecessor saw lost of it is not in its ring any more.
        session.lacks |= session.remote && session.recovered;
        session.is_past |= self.away.get(&session.number).is_some_and(|(_, life)| *life == PAST);
        let is_new = !session.recovered && session.adopted.is_none() && !session.is_client();
        if is_new && !self.sessions.values().any(|s| s.hears() && !s.is_client()) {
            // The first rank of another life of the run: nobody makes the attempts of the one before.
            self.pass_attempts(0..MOST_RANKS);
        } else if is_new && self.sessions.values().any(|s| s.rank == session.rank) {
            self.pass_attempts(std::iter::once(session.rank));
        }
        session.times_back = self.times_back;
        session.refused_before = session.refused_ask;
        self.last_act = self.last_act.max(session.last_act);
        self.sessions.insert(session.number, session);
    }

    /// A ring is damaged: what is behind it cannot be read.
    fn is_broken(&mut self, session: u64, error: Error) {
        if let Some(s) = self.sessions.get_mut(&session) {
            (s.broken, s.hung) = (true, true);
            self.not_kept(session, error, None);
        }
    }

    /// Nothing more will come from a rank; what it has published is yet to be read.
    fn hang(&mut self, session: u64) {
        if let Some(s) = self.sessions.get_mut(&session).filter(|s| !s.hung) {
            (s.hung, s.empty) = (true, false);
            s.ahead.clear();
        }
    }

    /// Ends a session whose rank is gone without its connection saying so: it never came after the owner's
    /// death, or a child of it keeps the connection open.
    fn look_at(&mut self, session: u64, lives: bool, left: bool) {
        let Some(s) = self.sessions.get_mut(&session).filter(|s| !s.hung) else { return };
        s.dead = !lives;
        let waited = s.adopted.as_ref().and_then(|a| a.waiting);
        let late = waited.is_some_and(|since| self.now.saturating_sub(since) > COMING);
        if late || waited.is_some() && left || !lives {
            s.left_early = waited.is_some() && left && lives;
            // In this order: what the rank publishes and finds open will be read.
            self.act(Action::Fence { session });
            self.hang(session);
        }
    }

    fn steer(&mut self, ticket: u64, who: String, act: forebay_types::watch::Act) {
        let result = match self.group.len() > ACTS && self.ailing.is_some() {
            true => Err(Error::new(
                Code::Full,
                "the disk of the run is full and too many acts wait for it; make room",
            )),
            false => {
                self.last_act += 1;
                self.group.push(Item::Asked { id: self.last_act, who, act });
                Ok(self.last_act)
            }
        };
        self.act(Action::Reply { ticket, result });
    }
}

#[cfg(test)]
impl Machine {
    /// What there is, for a story that fails.
    fn state(&self) -> String {
        let session = |s: &Session| {
            let Session { number, hung, empty, settled, closing, .. } = s;
            let held = (s.put.is_some(), s.deferred.is_some(), s.mates);
            format!(
                "session {number}: hung {hung}, empty {empty}, settled {settled}, closing {closing}, {held:?}"
            )
        };
        let step = |k: &Step| {
            let lacking: Vec<u32> = k.lacking().collect();
            format!("step {}: of {:?}, lacks {lacking:?}, finishing {}", k.step, k.sessions(), k.finishing)
        };
        let sessions: Vec<String> = self.sessions.values().map(session).collect();
        let steps: Vec<String> = self.steps.values().map(step).collect();
        let (group, arriving) = (self.group.len(), self.arriving.len());
        let ailing = (self.ailing.is_some(), self.committing);
        format!(
            "{sessions:?} {steps:?}; group of {group}, {ailing:?}, {arriving} arrive; {}",
            self.files.state()
        )
    }
}

/// What the driver may ask.
impl Machine {
    /// Whether a session's ring is to be read now.
    pub fn reads(&self, session: u64) -> bool {
        self.sessions.get(&session).is_some_and(Session::is_readable)
    }

    /// Whether requests are to be looked for behind what stops the reading of a ring: a disk without room may stop it
    /// for ever.
    pub fn looks_ahead(&self, session: u64) -> bool {
        self.sessions.get(&session).is_some_and(|s| s.hears() && !s.broken && !s.is_readable())
    }

    /// A session.
    pub fn session(&self, session: u64) -> Option<&Session> {
        self.sessions.get(&session)
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    /// The session by which a rank writes the run now.
    pub fn holder(&self, rank: u32) -> Option<&Session> {
        self.sessions.values().find(|s| s.rank == rank && !s.is_client() && !s.hung && !s.clean)
    }

    /// Whether the rest of a session is being brought, or what came of it is not applied yet.
    pub fn takes_rest_of(&self, session: u64) -> bool {
        self.sessions.values().any(|s| s.after == Some(session))
    }

    /// The last step that all ranks have ended and that is on its way to the disk.
    pub fn last_complete(&self) -> Option<i64> {
        self.steps.values().filter(|k| k.is_complete()).map(|k| k.step).max()
    }

    /// Whether nothing more is to be done.
    pub fn is_over(&self) -> bool {
        self.stopping && (self.is_drained() || self.lost.is_some())
    }

    /// When something is to be tried again, if nothing happens before.
    pub fn wake(&self) -> Option<Now> {
        self.ailing.map(|a| a.next).into_iter().chain(self.files.wake()).chain(self.calm_at()).min()
    }

    /// What everything waits for.
    pub fn waits_for(&self) -> Option<&str> {
        self.waits.as_ref().map(|(_, e)| e.text())
    }

    /// Why steps that a dead program left are not kept.
    pub fn not_recovered(&self) -> &[Error] {
        &self.not_recovered
    }

    /// The figures.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }
}
