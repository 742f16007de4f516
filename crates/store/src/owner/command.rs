//! What other threads ask of the intake, by way of the [`super::Owner`].

use super::adopt::{Heirs, Orphan};
use super::intake::Intake;
use super::machine::{Absence, Event, Session};
use super::overflow::mark;
use super::rests::Rests;
use super::sink::Sink;
use super::{Attach, attached::Attached};
use crate::catalog::{self, OpenAct, SessionRow};
use crate::site::Site;
use crate::stepfile::PackManifest;
use forebay_arena::segments;
use forebay_host::Process;
use forebay_types::control::{Elsewhere, Packed, Resume, RunOpened, word};
use forebay_types::counted;
use forebay_types::watch::Act;
use forebay_types::{Code, Error, Result};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// A rank, or a client, that wants to write.
pub(super) struct Admit {
    pub rank: u32,
    pub size: u32,
    pub program: String,
    pub created: bool,
    /// It brings the rest of that session, and begins nothing.
    pub after: Option<u64>,
}

impl Admit {
    /// Whether it is a rank that comes, and no client, nor somebody who brings the rest of a dead session.
    fn is_rank(&self) -> bool {
        self.size > 0 && self.after.is_none()
    }
}

/// What an earlier owner left.
pub(super) struct Inheritance {
    /// Whether ranks of it live.
    pub lives: bool,
    /// Bytes of blocks.
    pub bytes: u64,
    /// What is to be told at once.
    pub told: Vec<String>,
    /// How many of those are faults of this opening.
    pub faults: usize,
}

/// How far the work is that a predecessor left.
pub(super) struct Recovering {
    pub written: u64,
    pub waits_for: Option<String>,
    pub idle: bool,
}

/// Each with the way back to who asks.
pub(super) enum Command {
    Admit(Admit, Sender<Result<RunOpened>>),
    Attach(Attach, Arc<dyn Sink>, Sender<Result<()>>),
    Resume(Resume, Process, Arc<dyn Sink>, Sender<Result<()>>),
    Orphans(Sender<Vec<Orphan>>),
    OpenActs(Option<u64>, Sender<Result<Vec<OpenAct>>>),
    NeverComes(u32, Absence),
    HungUp(u64),
    Steer {
        who: String,
        act: Act,
        reply: Sender<Result<u64>>,
    },
    Steered {
        id: u64,
        step: i64,
        code: u32,
        text: String,
    },
    Flush(Sender<Result<u64>>),
    ReadUp(Sender<()>),
    Stats(Sender<Json>),
    Sessions(Sender<Vec<(u64, u32)>>),
    /// Whether it is known of the others, since then, whether a rank comes alone.
    IsSureFor(u32, u32, Instant, Sender<bool>),
    IsIdle(Sender<bool>),
    /// Takes what earlier owners left.
    TakeOver(Rests, Heirs, Elsewhere, Sender<Result<Inheritance>>),
    Recovering(Sender<Recovering>),
    NotRecovered(Sender<Vec<Error>>),
    /// Files without a row are swept if nothing is being written. What is to be told of it.
    ClearUp(Elsewhere, Sender<Result<Vec<String>>>),
    /// A pack is durable under its name: its steps are to be listed from there. The files that they lay in.
    ListPack(String, Box<PackManifest>, Sender<Result<Vec<String>>>),
    /// Packs of which nothing is listed go.
    SweepPacks(Sender<Result<()>>),
    /// Who asked for packs is told what came of it.
    Packed(Option<(u64, u64)>, Result<Packed>),
    Lose(Error),
    /// Whether clients go on at the next owner.
    Close(bool),
}

impl Intake {
    pub(super) fn obey(&mut self, command: Command) {
        // Who has asked and gone needs no answer.
        match command {
            Command::Admit(who, tell) => drop(tell.send(self.admit(&who))),
            Command::Attach(what, sink, tell) => drop(tell.send(self.attach(what, sink))),
            Command::Resume(what, creator, sink, tell) => drop(tell.send(self.resume(&what, creator, sink))),
            Command::Orphans(tell) => drop(tell.send(self.orphans())),
            Command::OpenActs(behind, tell) => {
                drop(tell.send(catalog::open_acts(self.catalog.conn(), behind)));
            }
            Command::NeverComes(rank, absence) => self.feed(Event::Absent { rank, absence }),
            Command::HungUp(session) => self.hung_up(session),
            Command::Steer { who, act, reply } => {
                let ticket = self.ticket(reply);
                self.feed(Event::Steer { ticket, who, act });
            }
            Command::Steered { id, step, code, text } => self.feed(Event::Steered { id, step, code, text }),
            Command::Flush(reply) => {
                let ticket = self.ticket(reply);
                self.feed(Event::Flush { ticket });
            }
            Command::ReadUp(tell) => {
                self.read_up();
                let _ = tell.send(());
            }
            Command::Stats(tell) => drop(tell.send(self.stats())),
            Command::Sessions(tell) => {
                drop(tell.send(self.machine.sessions().map(|s| (s.number, s.rank)).collect()));
            }
            Command::IsSureFor(rank, size, since, tell) => {
                let _ = tell.send(self.is_sure_for(rank, size, since));
            }
            Command::IsIdle(tell) => drop(tell.send(self.machine.is_drained())),
            Command::TakeOver(rests, hears, elsewhere, tell) => {
                drop(tell.send(self.take_over(rests, &hears, elsewhere)));
            }
            Command::Recovering(tell) => {
                let written = self.machine.figures().written;
                let waits_for = self.machine.waits_for().map(str::to_owned);
                let _ = tell.send(Recovering { written, waits_for, idle: self.machine.is_recovered() });
            }
            Command::NotRecovered(tell) => drop(tell.send(self.not_recovered())),
            Command::ClearUp(elsewhere, tell) => drop(tell.send(self.clear_up(elsewhere))),
            Command::ListPack(file, m, tell) => drop(tell.send(self.list_pack(&file, &m))),
            Command::SweepPacks(tell) => drop(tell.send(self.sweep_packs().map(drop))),
            Command::Packed(asked, done) => match (asked, done) {
                (Some((session, seq)), done) => self.answer(session, seq, done.map(|done| json!(done))),
                (None, Err(e)) => self.not_packed(&e),
                (None, Ok(_)) => {}
            },
            Command::Lose(error) => self.feed(Event::Lose(error)),
            Command::Close(clients_go_on) => self.feed(Event::Close { clients_go_on }),
        }
    }

    /// The number by which the machine says what is to be replied.
    fn ticket(&mut self, reply: Sender<Result<u64>>) -> u64 {
        self.asked += 1;
        self.replies.insert(self.asked, reply);
        self.asked
    }

    fn admit(&mut self, who: &Admit) -> Result<RunOpened> {
        let (rank, size) = (who.rank, who.size);
        let is_rank = who.is_rank();
        let others = self.machine.sessions().filter(|s| size > 0 && !s.is_client() && s.hears() && !s.clean);
        if let Some(other) = others.map(|s| s.size).find(|of| *of != size) {
            let text =
                format!("the run is open with {}, not {size}; close it there first", counted(other, "rank"));
            return Err(Error::new(Code::Conflict, text));
        }
        if let Some(s) = self.machine.holder(rank) {
            return Err(Error::new(
                Code::Conflict,
                format!("rank {rank} of this run is process {}; a rank opens a run once at a time", s.pid),
            ));
        }
        if let Some(session) = who.after.filter(|n| self.machine.takes_rest_of(*n)) {
            let text =
                format!("the rest of session {session} of the run is being taken at this moment; try again");
            return Err(Error::new(Code::Conflict, text));
        }
        let alone = is_rank && !self.has_living_ranks();
        if alone {
            // What the dead have left is part of what this one finds.
            self.read_up();
        }
        let last = catalog::last_step(self.catalog.conn())?.max(self.machine.last_complete());
        let run_id = self.run_id.clone();
        let mark = mark(self.layout.root());
        // A rank that lives may have one of which a catalog that lost its log knows nothing.
        let segment = |n: u64| {
            let name = segments::name(&["run", &run_id, &n.to_string(), &mark]);
            (!segments::path(&name).exists()).then_some(name)
        };
        let (row, is_rid) = self.catalog.transaction(|tx| {
            let row = catalog::open_session(tx, rank, size, &who.program, segment)?;
            catalog::admit(tx, row.session)?;
            if let Some(origin) = who.after {
                catalog::note_bringing(tx, row.session, origin)?;
            }
            if alone {
                catalog::comes(tx, row.session, last)?;
            }
            let is_rid = is_rank && catalog::came(tx)?;
            Ok((row, is_rid))
        })?;
        if is_rid {
            self.tell_went_back();
        }
        let SessionRow { session, segment, .. } = row;
        self.admitted.insert(session, is_rank);
        if alone {
            let life = catalog::life(self.catalog.conn())?;
            self.feed(Event::Alone { session, life });
        }
        Ok(RunOpened {
            session,
            segment,
            owner_pid: std::process::id(),
            created: who.created,
            last_step: catalog::last_step(self.catalog.conn())?,
            begun: catalog::begun_on(self.catalog.conn())?,
            unfinished: catalog::is_unfinished(self.catalog.conn())?,
            remote: false,
            run_id,
        })
    }

    /// Whether a rank writes the run, was admitted and attaches in a moment, or lives and may come to a successor.
    fn has_living_ranks(&self) -> bool {
        // Who brings the rest of a dead session is no rank that goes on, nor is a client.
        let is_rank = |s: &Session| !s.is_client() && s.after.is_none();
        let open = |n: u64| self.machine.session(n).is_some_and(|s| !s.hung && !s.clean && is_rank(s));
        self.admitted.values().any(|is_rank| *is_rank)
            || self.attached.iter().any(|(n, s)| open(*n) && s.segment.creator_lives())
    }

    /// Whether others live is known, or one of them does for certain. A rank on another host whose line is cut may be
    /// dead: whoever comes then is one of its life, or begins another one.
    fn is_sure_for(&mut self, rank: u32, size: u32, since: Instant) -> bool {
        if self.admitted.values().any(|is_rank| *is_rank) {
            return true;
        }
        let mut is_sure = true;
        for (n, s) in &mut self.attached {
            // Of a start of the same size its seat is looked at.
            let is_other = |s: &Session| !s.is_client() && (s.rank != rank || s.size != size);
            let open = |s: &&Session| !s.hung && !s.clean && s.after.is_none() && is_other(s);
            if self.machine.session(*n).filter(open).is_none() || !s.segment.creator_lives() {
                continue;
            }
            if s.has_answered(since) {
                return true;
            }
            is_sure = false;
        }
        is_sure
    }

    /// Tells the ranks where the run went back to.
    pub(super) fn tell_from(&self) {
        for (session, s) in &self.attached {
            // What cannot be read now is told by the answer to whoever asks.
            if let Ok(Some(to)) = catalog::went_back(self.catalog.conn(), *session) {
                let from = to.map_or(word::BEGINNING, |step| (step + 1).max(0) as u64);
                s.segment.word(word::FROM).store(from, Ordering::SeqCst);
            }
        }
    }

    fn attach(&mut self, what: Attach, sink: Arc<dyn Sink>) -> Result<()> {
        self.admitted.remove(&what.session);
        let rows = catalog::open_sessions(self.catalog.conn())?;
        let row = rows.into_iter().find(|r| r.session == what.session);
        let row = row.ok_or_else(|| Error::bad(format!("session {} was not admitted", what.session)))?;
        if self.attached.contains_key(&what.session) {
            return Err(Error::bad(format!("session {} is attached already", what.session)));
        }
        // Who survives the loss of power need not know where memory was.
        let site = Site::of_segment(&what.segment, &row.segment, self.layout.root());
        self.catalog.lazy_transaction(|tx| catalog::set_site(tx, row.session, &site), |_| true)?;
        what.segment.word(word::GATE).store(u64::MAX, Ordering::SeqCst);
        let home = site.run.as_ref().map_or(0, |run| run.inode);
        what.segment.word(word::HOME).store(home, Ordering::SeqCst);
        what.segment.word(word::RANKS).store(row.size.into(), Ordering::SeqCst);
        what.segment.word(word::RANK).store(u64::from(row.rank) + 1, Ordering::SeqCst);
        self.downs.open(what.session, &what.segment);
        self.declared();
        self.enter(Attached::new(row, what.segment, sink, 0), |_| {});
        self.tell_from();
        Ok(())
    }

    fn hung_up(&mut self, session: u64) {
        self.admitted.remove(&session);
        match self.attached.contains_key(&session) {
            true => self.feed(Event::Hung { session }),
            false => {
                // Admitted and never attached.
                let _ = self.catalog.transaction(|tx| catalog::close_session(tx, session));
            }
        }
    }
}
