//! Carries out what the machine says.

use super::apply::{Reads, Rings, apply_all};
use super::aside;
use super::drain::{Data, Job, Order};
use super::intake::Intake;
use super::machine::{
    Action, Bytes, Commit, Done, Effect, Event, Item, Key, Part, Sealed, Stored, Tell, Work,
};
use super::open::names;
use crate::care::pack::PackOptions;
use crate::catalog;
use crate::layout::{DATA, data_file, is_pack, partial_file, put_of};
use crate::located::is_read;
use crate::stepfile::{Facts, open_manifest};
use forebay_arena::Direction;
use forebay_types::control::{Ask, Heads, word};
use forebay_types::record::{Notice, Record};
use forebay_types::watch::level::ERROR;
use forebay_types::{Code, Error, Result};
use serde_json::Value as Json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Intake {
    /// `bytes` are those that came with the record being read.
    pub(super) fn carry_out(&mut self, action: Action, bytes: Option<&[u8]>) {
        match action {
            Action::Work(work) => self.work(*work),
            Action::Discard(key) => drop(self.ends.orders.send(Order::Discard(key))),
            Action::Commit { group, how } => self.commit(group, how),
            Action::Describe { step, time, heads, lacked } => {
                let facts = self.describe(step, time, heads, lacked).map(Box::new);
                self.follows.push_back(Event::Described { step, facts });
            }
            Action::Settle => self.move_log(),
            Action::Applied { session, seq } => {
                if let Some(s) = self.attached.get(&session) {
                    // A predecessor may have come further than what its successor has read again.
                    s.segment.word(word::APPLIED).fetch_max(seq, Ordering::SeqCst);
                }
            }
            Action::Release { session, position } => {
                if let Some(s) = self.attached.get_mut(&session) {
                    s.consumer.release_to(position);
                }
            }
            Action::Free { session, block } => {
                if let Some(s) = self.attached.get(&session) {
                    s.free(&block);
                }
            }
            Action::Keep { ticket, from } => {
                let copy = match from {
                    None => bytes.map(Arc::from),
                    Some(b) => {
                        let block = self.attached.get(&ticket.0).and_then(|s| s.block(&b).ok());
                        block.and_then(|block| Some(block.lent().part(0, b.bytes as usize)?.to_vec().into()))
                    }
                };
                self.kept.extend(copy.map(|copy| (ticket, copy)));
            }
            Action::Forget(tickets) => tickets.iter().for_each(|t| drop(self.kept.remove(t))),
            Action::Await { ticket, block } => self.awaited.push((ticket, block)),
            Action::Answer { session, seq, result } => self.answer(session, seq, result),
            Action::Refuse { session, seq } => {
                if let Some(s) = self.attached.get(&session) {
                    s.segment.word(word::REFUSED).fetch_max(seq, Ordering::SeqCst);
                }
            }
            Action::Stats { session, seq } => {
                let figures = self.stats();
                self.answer(session, seq, Ok(figures));
            }
            Action::Overflow { session, seq, bytes, spill, known } => {
                let path = self.overflow(session, bytes, spill, known);
                self.answer(session, seq, Ok(path));
            }
            Action::Pass { session, seq, ask } => self.pass(session, seq, &ask),
            Action::Reply { ticket, result } => {
                if let Some(reply) = self.replies.remove(&ticket) {
                    let _ = reply.send(result);
                }
            }
            Action::Late { session, error } => {
                let late = Notice::Late { code: error.code() as u32, text: error.text() };
                let _ = self.downs.post(session, &late);
            }
            Action::Remark { session, text } => {
                let _ = self.downs.post(session, &Notice::Remark { text: &text });
            }
            Action::Say { session, level, step, text } => {
                if let Some(s) = self.attached.get(&session) {
                    s.sink.message(session, level, step, &text);
                }
            }
            Action::Trouble(text) => {
                if let Some(s) = self.attached.values().next() {
                    s.sink.trouble(&text);
                }
            }
            Action::Tell(tell) => self.tell(tell),
            Action::DeleteFile(file) => {
                // One that stays is swept at the next opening.
                if let Ok(path) = self.layout.file(&file) {
                    let _ = self.disk.remove(&path);
                }
            }
            Action::Aside(steps) => {
                self.put_aside(&steps);
                self.tell_from();
            }
            Action::Dropped(file) => drop(self.remove_dropped(&file)),
            Action::Durable { step, time } => {
                self.pack_behind(step);
                for s in self.attached.values() {
                    let highest = (step + 1).max(0) as u64;
                    s.segment.word(word::DURABLE).fetch_max(highest, Ordering::SeqCst);
                }
                if let Some(s) = self.attached.values().next() {
                    s.sink.durable(step, time);
                }
            }
            Action::Fence { session } => {
                if let Some(s) = self.attached.get(&session) {
                    s.segment.word(word::CLOSED).store(1, Ordering::SeqCst);
                }
            }
            Action::Leave { session, clean } => self.leave(session, clean),
            Action::Lost(error) => self.lose(error),
        }
    }

    /// Hands a work to the drain, with the memory that its parts name.
    fn work(&mut self, work: Work) {
        let Work { id, key, behind, file, parts, facts, tell_each, small } = work;
        let data = |part: Arc<Part>| Ok((part.clone(), self.data(key, &part)?));
        match parts.into_iter().map(data).collect::<Result<Vec<_>>>() {
            Ok(parts) => {
                let job = Job { id, key, behind, file, parts, facts, tell_each, small };
                let _ = self.ends.orders.send(Order::Write(Box::new(job)));
            }
            Err(e) => self.follows.push_back(Event::Done(Box::new(Done::not_begun(id, e)))),
        }
    }

    fn data(&self, key: Key, part: &Part) -> Result<Data> {
        let gone = || Error::new(Code::Corrupt, format!("the bytes of {:?} are not there", part.name));
        match part.bytes {
            Bytes::Sealed(at) => match key {
                Key::Step(step) | Key::Partial(step) => {
                    Ok(Data::Sealed { path: self.layout.file(&partial_file(step))?, at, bytes: part.len })
                }
                Key::Put(_) => Err(gone()),
            },
            Bytes::Kept => self.kept.get(&part.ticket).cloned().map(Data::Kept).ok_or_else(gone),
            Bytes::Block(block) => {
                self.attached.get(&part.ticket.0).ok_or_else(gone)?.block(&block).map(Data::Block)
            }
        }
    }

    fn commit(&mut self, group: Vec<Item>, how: Commit) {
        let group: Vec<Item> = group.into_iter().map(|item| self.found_again(item)).collect();
        let attached = &self.attached;
        let rings = |session: u64, at: u64| {
            let gone = || Error::internal(format!("a record of session {session}, which is over"));
            attached.get(&session).ok_or_else(gone)?.consumer.again(at)
        };
        // Who brings the rest of a session and dies is followed by somebody who begins anew.
        let bringing: Vec<(u64, u64)> = attached.iter().filter_map(|(n, a)| Some((*n, a.after()?))).collect();
        let cut: Vec<(u64, i64)> = group.iter().filter_map(|item| self.cut_off(item)).collect();
        let layout = &self.layout;
        let reads = |file: &str| layout.file(file).is_ok_and(|path| is_read(&path));
        let reads: &Reads = &reads;
        let apply_all = |tx: &rusqlite::Connection, group: &[Item], rings: &Rings| {
            cut.iter().try_for_each(|(session, head)| catalog::note_cut(tx, *session, *head))?;
            let effects = apply_all(tx, group, rings, reads)?;
            for (session, origin) in &bringing {
                let of_it = |(of, seq)| (of == *session).then_some(seq);
                if let Some(last) = group.iter().filter_map(Item::source).filter_map(of_it).max() {
                    catalog::raise_applied(tx, *origin, last)?;
                }
            }
            Ok(effects)
        };
        let committed = match how {
            Commit::Silent => self.catalog.silent_transaction(|tx| apply_all(tx, &group, &rings)),
            // A file goes when the row that replaces it is durable: before that it is the only value.
            Commit::Lazy => self.catalog.lazy_transaction(
                |tx| apply_all(tx, &group, &rings),
                |effects| !effects.iter().any(Effect::frees),
            ),
            Commit::Durable => self.catalog.transaction(|tx| apply_all(tx, &group, &rings)),
        };
        let follows = match committed {
            Ok(effects) => {
                for s in self.attached.values() {
                    s.segment.word(word::COMMITS).fetch_add(1, Ordering::SeqCst);
                }
                for (session, seq) in group.iter().filter_map(Item::source) {
                    if let Some(s) = self.attached.get(&session) {
                        s.segment.word(word::NOTED).fetch_max(seq, Ordering::SeqCst);
                    }
                }
                self.logged += group.iter().map(Item::bytes).sum::<usize>();
                if group.iter().any(Item::declares) {
                    self.declared();
                }
                Event::Committed { group, effects }
            }
            Err(error) => {
                // Nobody waits for a directory that is gone as for a disk that fails.
                self.follows.extend(self.catalog.displaced().map(Event::Lose));
                Event::NotCommitted { group, error }
            }
        };
        self.follows.push_back(follows);
    }

    /// The session that ends with this item without a word of its rank, and the head that it had come to: what is not
    /// noted when it ends, a restart says nothing of.
    fn cut_off(&self, item: &Item) -> Option<(u64, i64)> {
        let Item::Closed { session, .. } = item else { return None };
        let hung = self.machine.session(*session).is_some_and(|s| !s.clean);
        Some((*session, self.attached.get(session).filter(|_| hung)?.head_of_the_dead()?))
    }

    /// A put whose block was given back when it was stored, and whose row was lost with the log of the catalog: its
    /// file has it.
    fn found_again(&self, item: Item) -> Item {
        let Item::Failed { session, seq, bytes, error } = item else { return item };
        match self.file_of_put(session, &bytes) {
            Some(stored) => Item::Stored { session, seq, bytes, stored },
            None => Item::Failed { session, seq, bytes, error },
        }
    }

    /// Its own file; or that of a later put of the same data set, which has replaced it.
    fn file_of_put(&self, session: u64, bytes: &[u8]) -> Option<Stored> {
        let Ok((seq, Record::Put { name, set, meta, .. })) = Record::decode(bytes) else { return None };
        let own = data_file(name, set, session, seq);
        if !self.older.lacks_put(&own) {
            return None;
        }
        let of_set = own.strip_suffix(&format!("{session}-{seq}.h5"))?;
        let named = names(&self.layout.data()).into_iter().map(|file| format!("{DATA}/{file}"));
        let mut puts: Vec<(u64, String)> = named
            .filter(|file| file.starts_with(of_set))
            .filter_map(|file| put_of(&file).filter(|put| put.0 == session).map(|put| (put.1, file)))
            .filter(|(put, _)| *put >= seq)
            .collect();
        puts.sort();
        puts.into_iter().find_map(|(_, file)| {
            let m = open_manifest(&self.layout.file(&file).ok()?).ok()?;
            let is_its_own = m.run_id == self.run_id
                && m.set.is_some_and(|(of, _)| of == set)
                && m.data.first().is_some_and(|e| e.name == name && e.meta == meta);
            match Sealed::of_put(&file, &m) {
                Ok(Sealed::Put(stored)) if is_its_own => Some(stored),
                _ => None,
            }
        })
    }

    /// All that a step was taken with: the parameters are those of now, for all small records before its
    /// end are committed.
    fn describe(
        &mut self,
        step: i64,
        time: Option<f64>,
        heads: Option<Heads>,
        lacked: bool,
    ) -> Result<Facts> {
        let serial = self.catalog.next_serial()?;
        let conn = self.catalog.conn();
        let then = if lacked { catalog::partial_step(conn, step)? } else { None };
        let parameters = then.map_or_else(|| catalog::parameter_values(conn), |m| Ok(m.parameters))?;
        let (run_id, backs) = (self.run_id.clone(), catalog::backs(conn)?);
        Ok(Facts { run_id, step, time, parameters, serial, backs, heads, ..Facts::default() })
    }

    pub(super) fn answer(&self, session: u64, seq: u64, result: Result<Json>) {
        let (code, text) = match &result {
            Ok(value) => (0, value.to_string()),
            Err(e) => (e.code() as u32, e.text().to_owned()),
        };
        let _ = self.downs.post(session, &Notice::Answer { seq, code, text: &text });
    }

    /// A request that the store does not know.
    fn pass(&mut self, session: u64, seq: u64, ask: &Ask) {
        if let Ask::Pack { first, last } = ask {
            let begun = self.begin_packing(Some((session, seq)), PackOptions::between(*first, *last));
            return begun.unwrap_or_else(|e| self.answer(session, seq, Err(e)));
        }
        if let Ask::PackEvery { steps } = ask {
            self.pack_every = *steps;
            return self.answer(session, seq, Ok(Json::Null));
        }
        if let Some(result) = self.attached.get(&session).and_then(|s| s.sink.ask(session, seq, ask)) {
            self.answer(session, seq, result);
        }
    }

    fn tell(&self, tell: Tell) {
        let of = |n: u64| self.attached.get(&n);
        match tell {
            Tell::Declare { session, what } => {
                if let Some(s) = of(session) {
                    s.sink.declare(session, s.row.rank, &what, &s.segment);
                }
            }
            Tell::Append { session, diagram, row, step, t, values } => {
                if let Some(s) = of(session) {
                    s.sink.append(session, diagram, row, step, t, &values);
                }
            }
            Tell::Amend { session, at: (diagram, curve, row), t, value } => {
                if let Some(s) = of(session) {
                    s.sink.amend(session, diagram, curve, row, t, value);
                }
            }
            Tell::Applied { session, id, step, code, text } => {
                if let Some(s) = of(session) {
                    s.sink.applied(session, id, step, code, &text);
                }
            }
            Tell::Message { session, level, step, text } => {
                if let Some(s) = of(session) {
                    s.sink.message(session, level, step, &text);
                }
            }
        }
    }

    /// The files of steps that are listed no more, for a rank went back.
    fn put_aside(&mut self, steps: &[i64]) {
        aside::rename_all(&*self.disk, &self.layout, steps);
        if !steps.is_empty() {
            let last = catalog::last_step(self.catalog.conn()).ok().flatten();
            let highest = last.map_or(0, |step| (step + 1).max(0) as u64);
            for s in self.attached.values() {
                s.segment.word(word::DURABLE).store(highest, Ordering::SeqCst);
            }
        }
        self.tell_went_back();
    }

    /// Points of diagrams are gone. All sessions are of one run, and whoever listens to one listens for the run.
    pub(super) fn tell_went_back(&self) {
        if let Some(s) = self.attached.values().next() {
            s.sink.went_back();
        }
    }

    /// The file of a dropped step goes. One that stays is removed at the next opening.
    fn remove_dropped(&mut self, file: &str) -> Result<()> {
        // Other steps lie in the same pack.
        if is_pack(file) && !catalog::steps_of_file(self.catalog.conn(), file)?.is_empty() {
            let dropped = catalog::dropped_slots(self.catalog.conn(), file)?;
            crate::views::leave_out(&self.layout, |step, of| of == file && dropped.contains(&step));
            return Ok(());
        }
        let path = self.layout.file(file)?;
        crate::views::leave_out(&self.layout, |_, of| of == file);
        let failed = |e| Error::io(format!("cannot remove {}", path.display()), e);
        self.disk.remove(&path).map_err(failed)?;
        self.disk.sync_dir(path.parent().unwrap_or(self.layout.root())).map_err(failed)?;
        self.catalog.transaction(|tx| {
            catalog::forget_pack(tx, file)?;
            catalog::forget_dropped(tx, file)
        })
    }

    /// Files of steps that were dropped, before any of their numbers is written anew.
    pub(super) fn sweep_dropped(&mut self) -> Result<()> {
        catalog::dropped(self.catalog.conn())?.iter().for_each(|file| drop(self.remove_dropped(file)));
        Ok(())
    }

    /// A session is over: nothing in its segments is needed any more.
    fn leave(&mut self, n: u64, clean: bool) {
        let Some(s) = self.attached.remove(&n) else { return };
        let over = if self.ends.is_wiped.load(Ordering::SeqCst) { word::ANEW } else { 1 };
        // It may say more already.
        s.segment.word(word::CLOSED).fetch_max(over, Ordering::SeqCst);
        s.sink.closed(n, clean);
        s.overflow.iter().for_each(|o| self.rooms.give_back(o, &self.layout));
        s.unlink();
        let _ = self.disk.remove(&self.layout.root().join(&s.row.segment));
        self.downs.close(n);
    }

    /// Nothing more is accepted, and whoever waits is told. What is not on disk stays in the segments.
    fn lose(&mut self, e: Error) {
        self.ends.abandoned.store(true, Ordering::SeqCst);
        let (deleted, moved) = (self.catalog.is_deleted(), self.catalog.moved().is_some());
        for (n, s) in &self.attached {
            // Behind what was said: who sees this reads on to the end and waits no more.
            let over = match deleted {
                true => word::DELETED,
                false if moved => word::MOVED,
                false => 1,
            };
            s.segment.word(word::CLOSED).store(over, Ordering::SeqCst);
            s.segment.bell(Direction::Down).wake();
            s.sink.message(*n, ERROR, -1, e.text());
            s.sink.closed(*n, false);
            if deleted {
                // There is no run that they could be recovered for: the memory goes with its ranks.
                s.unlink();
            }
        }
        let _ = self.ends.lost.set(e);
    }
}
