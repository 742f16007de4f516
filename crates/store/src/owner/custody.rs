//! Custody: what was read is committed in groups, then rings and blocks go back to the ranks.

use super::apply::{Effect, Item, apply};
use super::drain::Event;
use super::intake::{Ailing, Intake, Wait, Waiter};
use crate::catalog;
use crate::disk::{is_full, may_pass};
use forebay_arena::Direction;
use forebay_types::control::{Ask, word};
use forebay_types::record::{Notice, Payload, Record};
use forebay_types::{Code, Error, Result};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The effects of a group; how far each session is applied goes into the same transaction.
fn apply_all(conn: &Connection, group: &[Item]) -> Result<Vec<Effect>> {
    let mut effects = Vec::new();
    let mut applied = BTreeMap::new();
    for item in group {
        apply(conn, item, &mut effects)?;
        if let Some((session, seq)) = item.source() {
            let last: &mut u64 = applied.entry(session).or_default();
            *last = seq.max(*last);
        }
    }
    applied.into_iter().try_for_each(|(session, seq)| catalog::set_applied(conn, session, seq))?;
    Ok(effects)
}

impl Intake {
    pub(super) fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Ok(event) = self.events.try_recv() {
            any = true;
            match event {
                Event::LetGo { step, ticket } => self.let_go(step, ticket),
                Event::Failed { step, error } => self.spoil(step, error, None),
                Event::Durable { manifest, file } => self.group.push(Item::Step { manifest, file }),
                Event::PutDone { session, seq, result } => self.put_done(session, seq, result),
                Event::Trouble(error) => {
                    self.figures.drain_waits = error.is_some();
                    self.trouble(error);
                }
                Event::Lost(error) => self.lose(error),
                Event::Worked(time, bytes) => {
                    self.figures.hidden += time;
                    self.figures.written += bytes;
                }
            }
        }
        any
    }

    /// The figures, and what is waited for if something is.
    pub(super) fn stats(&self) -> serde_json::Value {
        self.figures.json(self.sessions.values(), self.waits.as_ref().map(|(_, e)| e.text()))
    }

    pub(super) fn trouble(&mut self, error: Option<Error>) {
        let was_full = self.waits.as_ref().is_none_or(|(_, e)| is_full(e));
        let (level, text) = match &error {
            Some(e) => (2, e.text()),
            None if was_full => (1, "there is room on the disk again; everything goes on"),
            None => (1, "the disk takes everything again, and everything goes on"),
        };
        self.sessions.values().for_each(|s| s.sink.message(s.row.session, level, -1, text));
        if let Some(s) = self.sessions.values().next() {
            s.sink.trouble(text);
        }
        match error {
            Some(e) => self.waits = self.waits.take().or(Some((Instant::now(), e))),
            None if self.figures.drain_waits || self.figures.catalog_waits => {}
            None => self.waits = None,
        }
    }

    /// A block is in a file that is all there will be of it.
    pub(super) fn let_go(&mut self, step: i64, ticket: (u64, u64)) {
        let Some(known) = self.steps.get_mut(&step).filter(|k| k.is_early(ticket.0)) else { return };
        if let (Some(h), Some(s)) = (known.held.get_mut(&ticket), self.sessions.get(&ticket.0))
            && !h.released
        {
            s.release(&h.block);
            h.released = true;
            self.release_rings();
        }
    }

    pub(super) fn put_done(&mut self, session: u64, seq: u64, result: Result<super::drain::Stored>) {
        let Some(s) = self.sessions.get_mut(&session) else { return };
        let Some(Item::Record { bytes, .. }) = s.put.take() else { return };
        self.group.push(match result {
            Ok(stored) => Item::Stored { session, seq, bytes, stored },
            Err(error) => Item::Failed { session, seq, bytes, error },
        });
    }

    /// A step is listed: everything goes back to the ranks.
    pub(super) fn listed(&mut self, step: i64, time: Option<f64>) {
        self.turn.end(step);
        let Some(known) = self.steps.remove(&step) else { return };
        for ((session, _), h) in known.held.iter().filter(|(_, h)| !h.released) {
            if let Some(s) = self.sessions.get(session) {
                s.release(&h.block);
            }
        }
        let lag = known.ended_at.map_or(Duration::ZERO, |t| t.elapsed());
        self.figures.steps += 1;
        self.figures.lag = lag;
        self.figures.worst_lag = self.figures.worst_lag.max(lag);
        self.figures.durable_step = self.figures.durable_step.max(Some(step));
        self.release_rings();
        for s in self.sessions.values() {
            let highest = (step + 1).max(0) as u64;
            s.segment.word(word::DURABLE).fetch_max(highest, Ordering::SeqCst);
        }
        if let Some(s) = self.sessions.values().next() {
            s.sink.durable(step, time);
        }
    }

    /// Commits what was read. While the disk is full, or fails, the group stays and is tried
    /// again later; everything else goes on meanwhile.
    pub(super) fn commit_group(&mut self) {
        if self.lost.get().is_some() {
            return self.group.clear();
        }
        // One that could not be read, or written, is tried with what there is.
        if self.group.is_empty() && self.ailing.is_none() {
            return self.settle_marks();
        }
        if self.ailing.is_some_and(|a| Instant::now() < a.next) {
            return;
        }
        let group = std::mem::take(&mut self.group);
        let committed = if group.iter().all(|item| self.is_farewell(item)) {
            self.catalog.silent_transaction(|tx| apply_all(tx, &group))
        } else if group.iter().all(Item::may_wait) {
            // A file goes when the row that replaces it is durable: before that it is the only value.
            self.catalog.lazy_transaction(|tx| apply_all(tx, &group), |e| !e.iter().any(Effect::frees))
        } else {
            self.catalog.transaction(|tx| apply_all(tx, &group))
        };
        match committed {
            Ok(effects) => {
                if self.ailing.take().is_some() {
                    // When its log could not be made durable the system may have forgotten what was
                    // committed there before and not synchronised: all of it goes into the main file.
                    let _ = self.catalog.move_log();
                    self.figures.catalog_waits = false;
                    self.trouble(None);
                }
                for item in &group {
                    if let Some((session, seq)) = item.source()
                        && let Some(s) = self.sessions.get_mut(&session)
                    {
                        s.applied = s.applied.max(seq);
                    }
                    self.release_put_block(item);
                }
                for s in self.sessions.values() {
                    s.segment.word(word::COMMITS).fetch_add(1, Ordering::SeqCst);
                }
                self.logged += group.iter().map(Item::bytes).sum::<usize>();
                self.settle_marks();
                effects.into_iter().for_each(|e| self.carry_out(e));
            }
            Err(e) => {
                self.group = group;
                self.not_committed(e);
            }
        }
    }

    /// Whether this is the end of a session whose closing was answered.
    fn is_farewell(&self, item: &Item) -> bool {
        let Item::Closed { session, .. } = item else { return false };
        self.sessions.get(session).is_some_and(|s| s.clean)
    }

    /// A full disk is waited for as long as it lasts, a failing one for a time. What the ranks were
    /// promised stays in their segments meanwhile, and afterwards.
    pub(super) fn not_committed(&mut self, e: Error) {
        let now = Instant::now();
        let since = self.ailing.map(|a| a.since).filter(|_| !is_full(&e)).unwrap_or(now);
        if !may_pass(&e) || since.elapsed() >= self.hiccup {
            return self.lose(e);
        }
        if self.ailing.is_none() {
            self.figures.catalog_waits = true;
            self.trouble(Some(e.within("the catalog waits")));
        }
        self.ailing = Some(Ailing { next: now + self.disk.patience(), since });
    }

    /// The block of a large data set is in its file, or never will be.
    pub(super) fn release_put_block(&mut self, item: &Item) {
        let (Item::Stored { session, bytes, .. } | Item::Failed { session, bytes, .. }) = item else {
            return;
        };
        if let (Ok((_, Record::Put { payload: Payload::Block(b), .. })), Some(s)) =
            (Record::decode(bytes), self.sessions.get(session))
        {
            s.release(&b);
        }
    }

    /// Tells ranks how far they are applied and gives rings back.
    pub(super) fn settle_marks(&mut self) {
        for s in self.sessions.values_mut() {
            // Nothing read is outstanding now but a large put or a deferred request.
            let held = s.put.as_ref().or(s.deferred.as_ref()).map(|i| i.seq() - 1);
            // A predecessor may have come further than what its successor has read again.
            s.segment.word(word::APPLIED).fetch_max(held.unwrap_or(s.seen), Ordering::SeqCst);
        }
        self.release_rings();
    }

    pub(super) fn release_rings(&mut self) {
        if !self.group.is_empty() {
            return; // what is read and not committed stays
        }
        let steps = &self.steps;
        for (n, s) in self.sessions.iter_mut() {
            let deferred = s.deferred.is_some();
            s.release_ring(|step, ticket| {
                steps.get(&step).is_some_and(|k| {
                    k.has(*n) && !(k.is_early(*n) && k.held.get(&(*n, ticket)).is_none_or(|h| h.released))
                })
            });
            debug_assert!(!deferred || !s.is_readable());
        }
    }

    /// The run belongs to somebody else, its disk fails for good, or nobody wants to wait for it: nothing
    /// more is accepted, and whoever waits is told. What is not on disk stays in the segments.
    pub(super) fn lose(&mut self, e: Error) {
        if self.lost.get().is_some() {
            return;
        }
        self.abandoned.store(true, Ordering::SeqCst);
        let dir = self.layout.root().display();
        let deleted = self.catalog.is_deleted();
        let text = format!("the store of the run {dir} is lost: {}", e.text());
        let why = Error::new(Code::ServerLost, text);
        let deferred = self.sessions.values_mut().filter_map(|s| s.deferred.take());
        let asked = deferred.chain(std::mem::take(&mut self.group)).filter(|i| i.ask().is_some());
        let asked: Vec<(u64, u64)> = asked.filter_map(|i| i.source()).collect();
        let waiters = std::mem::take(&mut self.waiters).into_iter().map(|w| (w.session, w.seq));
        for (session, seq) in waiters.chain(asked) {
            self.answer(session, seq, Err(why.clone()));
        }
        for s in self.sessions.values_mut() {
            let late = Notice::Late { code: why.code() as u32, text: why.text() };
            let _ = self.downs.post(s.row.session, &late);
            // Behind what was said: who sees this reads on to the end and waits no more.
            let over = if deleted { word::DELETED } else { 1 };
            s.segment.word(word::CLOSED).store(over, Ordering::SeqCst);
            s.segment.bell(Direction::Down).wake();
            s.broken = true;
            s.hung = true;
            s.sink.message(s.row.session, 3, -1, e.text());
            s.sink.closed(s.row.session, false);
            if deleted {
                // There is no run that they could be recovered for: the memory goes with its ranks.
                s.unlink();
            }
        }
        if let Some(s) = self.sessions.values().next() {
            s.sink.trouble(why.text());
        }
        let _ = self.lost.set(e);
        self.stopping = true;
    }

    pub(super) fn answer(&self, session: u64, seq: u64, result: Result<serde_json::Value>) {
        let (code, text) = match &result {
            Ok(value) => (0, value.to_string()),
            Err(e) => (e.code() as u32, e.text().to_owned()),
        };
        let _ = self.downs.post(session, &Notice::Answer { seq, code, text: &text });
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        let sink = |n: u64| self.sessions.get(&n);
        match effect {
            Effect::Answer { session, seq, result } => self.answer(session, seq, result),
            Effect::Later { session, seq, ask } => self.later(session, seq, ask),
            Effect::Late { session, error } => {
                if let Some(s) = sink(session) {
                    self.late(s, error);
                }
            }
            Effect::Version { session, seq, outcome } => {
                if let Some(s) = self.sessions.get_mut(&session) {
                    s.note_version(seq, outcome);
                }
            }
            Effect::DeleteFile(file) => {
                // One that stays is swept at the next opening.
                if let Ok(path) = self.layout.file(&file) {
                    let _ = self.disk.remove(&path);
                }
            }
            Effect::Declare { session, what } => {
                if let Some(s) = sink(session) {
                    s.sink.declare(session, s.row.rank, &what, &s.segment);
                }
            }
            Effect::Append { session, diagram, row, step, t, values } => {
                if let Some(s) = sink(session) {
                    s.sink.append(session, diagram, row, step, t, &values);
                }
            }
            Effect::Amend { session, at: (diagram, curve, row), t, value } => {
                if let Some(s) = sink(session) {
                    s.sink.amend(session, diagram, curve, row, t, value);
                }
            }
            Effect::Applied { session, id, step, code, text } => {
                if let Some(s) = sink(session) {
                    s.sink.applied(session, id, step, code, &text);
                }
            }
            Effect::Message { session, level, step, text } => {
                if let Some(s) = sink(session) {
                    s.sink.message(session, level, step, &text);
                }
            }
            Effect::Closed { session } => self.remove_session(session),
            Effect::Listed { step, time } => self.listed(step, time),
            Effect::Unlisted { step, error } => self.spoil(step, error, None),
            Effect::WentBack { aside } => self.went_back(&aside),
            Effect::Dropped(file) => self.step_dropped(&file),
        }
    }

    pub(super) fn later(&mut self, session: u64, seq: u64, ask: Ask) {
        let wait = match ask {
            Ask::Flush => Wait::All,
            Ask::WaitStep { step } => Wait::Step(step),
            Ask::Close { .. } => Wait::Close,
            Ask::Version { seq: of } => {
                let version = self.sessions.get(&session).map(|s| s.version(of));
                let result =
                    version.unwrap_or_else(|| Err(Error::new(Code::Closed, "the session is closed")));
                return self.answer(session, seq, result.map(|v| v.into()));
            }
            Ask::Stats => {
                let figures = self.stats();
                return self.answer(session, seq, Ok(figures));
            }
            Ask::Overflow { bytes, spill, known } => {
                let path = self.overflow(session, bytes, spill, known);
                return self.answer(session, seq, Ok(path));
            }
            Ask::DropOldest => {
                let dropped = self.drop_oldest();
                return self.answer(session, seq, Ok(dropped.into()));
            }
            other => {
                let Some(s) = self.sessions.get(&session) else { return };
                if let Some(result) = s.sink.ask(session, seq, &other) {
                    self.answer(session, seq, result);
                }
                return;
            }
        };
        self.waiters.push(Waiter { session, seq, what: wait });
    }
}
