//! Adoption: an owner that died had sessions whose ranks live on. Its successor keeps them: it
//! reads their rings on from the release mark, and each rank comes with its descriptor and the
//! requests whose answers it has not seen.
//!
//! ```text
//!  owner dies --> successor opens the run --> session adopted, ring read --> rank resumes
//!                                                   |
//!                                                   +-- rank dead, or given up, or too late: ended
//! ```
//!
//! What the ring says again is done once: small records by their number, steps that are in the
//! catalog by theirs, blocks by the use of their entry. A step whose blocks had to be let go before it was
//! complete cannot be put together any more and is given up with a clear error.

use super::attached::Attached;
use super::command::Command;
use super::intake::Intake;
use super::machine::{Absence, Adopted, Event, Session};
use super::overflow::{find, is_used, own_sessions};
use super::rests::{self, Fate, Rest};
use super::sink::Sink;
use super::{Attach, Owner};
use crate::catalog::{self, OpenAct, SessionRow};
use forebay_arena::Segment;
use forebay_host::Process;
use forebay_types::control::{Ask, Resume, word};
use forebay_types::record::Notice;
use forebay_types::{Code, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most processes that an error names.
const NAMED: usize = 8;

/// A session that was adopted, for whoever has the sockets.
pub struct Orphan {
    /// Its number.
    pub session: u64,
    /// Its rank; that of a client is `control::NO_RANK`.
    pub rank: u32,
    /// The rank's process.
    pub process: Process,
    /// The rank's segment.
    pub segment: Segment,
}

/// Who goes on with the sessions of those who live though their owner died.
#[derive(Clone, Default)]
pub(super) struct Heirs {
    /// Who hears them.
    pub hears: Option<Arc<dyn Sink>>,
    /// Whether those of ranks go on, and not of clients alone.
    pub of_ranks: bool,
}

/// Whether the rank of a segment goes on writing to it.
fn lives(segment: &Segment) -> bool {
    let word = |w| segment.word(w).load(Ordering::SeqCst);
    word(word::LEFT) == 0 && word(word::CLOSED) == 0 && segment.creator_lives()
}

/// Whether a rank other than this process's goes on writing the run in `dir`, though its owner is dead.
pub fn has_living_ranks(dir: &std::path::Path) -> bool {
    !living_ranks(&crate::layout::Layout::new(dir.to_owned())).is_empty()
}

/// The processes of those ranks.
fn living_ranks(layout: &crate::layout::Layout) -> Vec<u32> {
    let rows = catalog::open_read_only(&layout.catalog()).and_then(|conn| own_sessions(layout, &conn));
    let is_rank = |row: &&SessionRow| row.size > 0;
    let of = |row: &SessionRow| find(layout, &row.segment).ok().filter(|s| lives(s) && is_used(s));
    let pids: BTreeSet<u32> =
        rows.unwrap_or_default().iter().filter(is_rank).filter_map(of).map(|s| s.creator().pid).collect();
    pids.into_iter().collect()
}

/// Refuses to end the sessions of ranks that live, for somebody with whom they cannot go on.
pub(crate) fn spare_the_living(layout: &crate::layout::Layout) -> Result<()> {
    let pids = living_ranks(layout);
    if pids.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = pids.iter().take(NAMED).map(u32::to_string).collect();
    let more = if pids.len() > NAMED { ", ..." } else { "" };
    Err(Error::new(
        Code::Conflict,
        format!(
            "programs write the run {} still (process {}{more}): their owner is dead, and they bring what they have to the next agent themselves, or LOCK was removed under it; wait for them, or end them first",
            layout.root().display(),
            named.join(", ")
        ),
    ))
}

impl Intake {
    /// A session goes to the machine, which learns more of it by `with`.
    pub(super) fn enter(&mut self, s: Attached, with: impl FnOnce(&mut Session)) {
        let mut session = Session {
            number: s.row.session,
            rank: s.row.rank,
            size: s.row.size,
            pid: s.segment.creator().pid,
            applied: s.applied,
            seen: s.applied,
            remote: s.is_mirror(),
            after: s.after(),
            refused_ask: s.refused(),
            last_act: s.segment.word(word::DONE).load(Ordering::SeqCst),
            ring: s.consumer.capacity(),
            released: s.consumer.released(),
            ..Session::default()
        };
        // What cannot be read now is asked of the catalog again by each record that it brings.
        let is_here = |origin: u64| catalog::has_all_of(self.catalog.conn(), origin).unwrap_or_default();
        session.is_past = session.after.is_some_and(is_here);
        with(&mut session);
        self.attached.insert(s.row.session, s);
        self.feed(Event::Enter(Box::new(session)));
    }

    /// Takes what an earlier owner left: sessions of living ranks go on if there is somebody to hear
    /// them, others are fenced and read to their end. What is lost is closed with a message, and told.
    pub(super) fn inherit(
        &mut self,
        rests: Vec<Rest>,
        is_earlier: bool,
        heirs: &Heirs,
    ) -> Result<Vec<rests::Told>> {
        let lost = rests.iter().any(|r| r.is_behind() || !matches!(r.fate, Fate::Here { .. }));
        let told = match lost {
            true => {
                let layout = &self.layout;
                self.catalog.transaction(|tx| rests::close_lost(layout, tx, &rests, is_earlier))?
            }
            false => Vec::new(),
        };
        // Looked at once: a rank that dies meanwhile is one that did not come.
        let may = |rest: &Rest| heirs.hears.is_some() && (heirs.of_ranks || rest.row.size == 0);
        let goes_on =
            |rest: &&Rest| matches!(&rest.fate, Fate::Here { segment, .. } if may(rest) && lives(segment));
        let going_on: Vec<&SessionRow> = rests.iter().filter(goes_on).map(|rest| &rest.row).collect();
        let clients: BTreeSet<u64> =
            going_on.iter().filter(|row| row.size == 0).map(|row| row.session).collect();
        let ranks = going_on.iter().filter(|row| row.size > 0);
        let living: BTreeMap<u64, u32> = ranks.map(|row| (row.session, row.rank)).collect();
        for Rest { row, fate, .. } in rests {
            let Fate::Here { segment, overflow } = fate else { continue };
            overflow.iter().for_each(|s| self.rooms.take(s, &self.layout));
            let applied = catalog::applied(self.catalog.conn(), row.session)?;
            let goes_on = living.contains_key(&row.session) || clients.contains(&row.session);
            match heirs.hears.as_ref().filter(|_| goes_on) {
                Some(sink) => self.adopt(row, (segment, overflow), sink.clone(), applied)?,
                None => {
                    segment.word(word::CLOSED).store(1, Ordering::SeqCst);
                    let mut s = Attached::new(row, segment, Arc::new(super::Deaf), applied);
                    s.pending = catalog::pending(self.catalog.conn(), s.row.session)?;
                    s.consumer.rewind();
                    s.overflow = overflow;
                    self.enter(s, |session| {
                        (session.recovered, session.hung) = (true, true);
                        session.has_living_mates = !living.is_empty();
                    });
                }
            }
        }
        if !living.is_empty() {
            // Ranks that had left before their owner died: nobody else knows of them.
            let left = catalog::ranks_that_left(self.catalog.conn())?;
            for rank in left.into_iter().filter(|rank| !living.values().any(|living| living == rank)) {
                self.feed(Event::Absent { rank, absence: Absence::before() });
            }
        }
        Ok(told)
    }

    fn adopt(
        &mut self,
        row: SessionRow,
        (segment, overflow): (Segment, Vec<Segment>),
        sink: Arc<dyn Sink>,
        applied: u64,
    ) -> Result<()> {
        self.downs.open(row.session, &segment);
        let replay_end = segment.published(forebay_arena::Direction::Up);
        let answers = catalog::answers(self.catalog.conn(), row.session)?;
        let mut s = Attached::new(row, segment, sink, applied);
        s.pending = catalog::pending(self.catalog.conn(), s.row.session)?;
        s.consumer.rewind();
        s.overflow = overflow;
        let waiting = Some(self.now());
        self.enter(s, |session| {
            session.adopted = Some(Adopted { replay_end, waiting });
            for (seq, outcome) in answers {
                session.note_version(seq, outcome.map(|text| text.parse().unwrap_or(0)));
            }
        });
        Ok(())
    }

    /// The rank of an adopted session has come.
    pub(super) fn resume(&mut self, what: &Resume, creator: Process, sink: Arc<dyn Sink>) -> Result<()> {
        let n = what.session;
        let known = self.attached.get(&n).map(|s| s.segment.creator());
        if known.is_some_and(|k| k != creator) {
            return Err(Error::bad(format!("session {n} is another process's")));
        }
        let over = || {
            let text =
                format!("session {n} of the run is over; open the run again: nothing acknowledged is lost");
            Error::new(Code::Closed, text)
        };
        self.machine.session(n).filter(|s| !s.clean && is_awaited(s)).ok_or_else(over)?;
        let s = self.attached.get_mut(&n).ok_or_else(over)?;
        s.sink = sink;
        let applied = s.applied;
        // What came after that number is in the ring, and answered as it is read.
        let asks = what.asks.iter().map(|ask| ask.0).filter(|seq| *seq > applied).collect();
        self.feed(Event::Resumed { session: n, asks });
        for (seq, json) in what.asks.iter().filter(|(seq, _)| *seq <= applied) {
            self.answer_again(n, *seq, json)?;
        }
        Ok(())
    }

    /// Answers a request that took effect before the death: from the catalog if it changed
    /// something, else by doing it again.
    fn answer_again(&mut self, session: u64, seq: u64, json: &str) -> Result<()> {
        let kept = catalog::answers(self.catalog.conn(), session)?.into_iter().find(|a| a.0 == seq);
        if let Some((_, outcome)) = kept {
            let (code, text) = match &outcome {
                Ok(text) => (0, text.as_str()),
                Err(e) => (e.code() as u32, e.text()),
            };
            return self.downs.post(session, &Notice::Answer { seq, code, text });
        }
        match serde_json::from_str::<Ask>(json) {
            Ok(ask) => self.feed(Event::Request { session, seq, ask }),
            Err(e) => self.answer(session, seq, Err(Error::bad(format!("a request cannot be read: {e}")))),
        }
        Ok(())
    }

    /// The sessions that were adopted and whose ranks have not come yet.
    pub(super) fn orphans(&self) -> Vec<Orphan> {
        let orphan = |session: &Session| {
            let s = self.attached.get(&session.number)?;
            let (process, segment) = (s.segment.creator(), s.segment.clone());
            Some(Orphan { session: session.number, rank: session.rank, process, segment })
        };
        self.machine.sessions().filter(|s| is_awaited(s)).filter_map(orphan).collect()
    }
}

/// Whether a session was adopted and its rank has not come.
fn is_awaited(s: &Session) -> bool {
    !s.hung && s.adopted.as_ref().is_some_and(|a| a.waiting.is_some())
}

impl Owner {
    /// The sessions that were adopted and whose ranks have not come yet.
    pub fn orphans(&self) -> Result<Vec<Orphan>> {
        self.ask(Command::Orphans)
    }

    /// The acts of steering without an end in the log, and those behind that number if one is given, in order.
    pub fn open_acts(&self, behind: Option<u64>) -> Result<Vec<OpenAct>> {
        self.ask(|tell| Command::OpenActs(behind, tell))?
    }

    /// The rank of an adopted session has come, with its descriptor as a proof that it is the one.
    pub fn resume(&self, what: Resume, attach: &Attach, sink: Arc<dyn Sink>) -> Result<()> {
        let creator = attach.segment.creator();
        self.ask(|tell| Command::Resume(what, creator, sink, tell))?
    }
}
