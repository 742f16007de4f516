//! Records of the ranks: blocks of steps go to their files, small records into the group, large data sets
//! hold their session until they are stored.

use super::Machine;
use super::event::{Action, Bytes, Key, Part, Ticket};
use super::item::Item;
use super::pending::Pending;
use super::session::{Joins, Keep, Refusal, Session};
use super::steps::{LentBlock, Step};
use crate::stepfile::Facts;
use forebay_types::control::{Ask, Heads};
use forebay_types::record::{Payload, Record, StepBlock};
use forebay_types::watch::level::ERROR;
use forebay_types::{Code, Error, Result, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// A record that was read.
pub(super) struct Read<'a> {
    pub session: u64,
    pub position: u64,
    pub seq: u64,
    pub record: &'a Record<'a>,
    pub bytes: &'a [u8],
    /// Of the block that it names: whether its bytes are there.
    pub block: Option<Result<bool>>,
    /// It is in the catalog, whether or not it is in the ring as well.
    pub pending: bool,
}

/// What is to be written, and waits for its bytes.
pub(super) enum Arriving {
    Part(i64, Part),
    Put(Part, i64, Box<Facts>),
}

impl Arriving {
    fn ticket(&self) -> Ticket {
        match self {
            Arriving::Part(_, part) | Arriving::Put(part, ..) => part.ticket,
        }
    }

    pub fn is_part_of(&self, step: i64, session: u64) -> bool {
        matches!(self, Arriving::Part(of, part) if *of == step && part.ticket.0 == session)
    }

    pub fn is_of(&self, step: i64) -> bool {
        matches!(self, Arriving::Part(of, _) if *of == step)
    }

    /// Whether it is of the same piece as a part that came after it.
    fn is_before(&self, step: i64, part: &Part) -> bool {
        matches!(self, Arriving::Part(of, p) if *of == step && p.rank == part.rank && p.name == part.name)
    }
}

impl Machine {
    pub(super) fn take_record(&mut self, r: Read) {
        let Some(s) = self.sessions.get_mut(&r.session) else { return };
        let (n, seq) = (r.session, r.seq);
        s.empty = false;
        s.seen = s.seen.max(seq);
        s.ahead.retain(|(ahead, _)| *ahead > seq);
        s.replaying = s.recovered || s.adopted.as_ref().is_some_and(|a| r.position <= a.replay_end);
        let mut keep = match *r.record {
            Record::StepBegin { .. }
            | Record::StepBlock(_)
            | Record::StepDescribe { .. }
            | Record::StepEnd { .. }
            | Record::StepDiscard { .. }
            | Record::StepEarly { .. } => self.take_step_record(n, seq, *r.record, r.block),
            Record::Put { payload: Payload::Block(block), .. } if seq <= s.applied => {
                self.act(Action::Free { session: n, block });
                Keep::Group
            }
            _ if seq <= s.applied => Keep::Group,
            Record::Ask { .. } if s.was_refused(seq, When::of(r.record).leaves()) => Keep::Group,
            Record::Put { payload: Payload::Block(_), .. } => {
                self.take_large_put(&r);
                Keep::Put(seq)
            }
            _ => {
                let item = Item::Record { session: n, seq, bytes: r.bytes.to_vec() };
                let mut keep = Keep::Group;
                match When::of(r.record) {
                    When::Group => self.group.push(item),
                    When::AfterSteps { leaves } => {
                        s.leaving = leaves.then_some(self.now).or(s.leaving);
                        let goes_back = item.is_restart();
                        s.deferred = Some(item);
                        keep = Keep::Deferred(seq);
                        if goes_back {
                            self.doubt_ranks();
                        }
                    }
                    When::AtOnce(_) if s.recovered || seq <= s.looked => {}
                    When::AtOnce(ask) => {
                        let replaying = s.replaying;
                        self.do_at_once(n, seq, ask, replaying);
                    }
                }
                keep
            }
        };
        if let (true, Keep::Step(step, _)) = (r.pending, keep) {
            keep = Keep::Group;
            self.note_pending((n, seq), step, r.bytes.len() as u64);
        }
        if let Some(s) = self.sessions.get_mut(&n) {
            s.kept.push_back((r.position, keep));
        }
    }

    pub(super) fn unreadable(&mut self, n: u64, position: u64, error: Error) {
        if let Some(s) = self.sessions.get_mut(&n) {
            s.empty = false;
            s.kept.push_back((position, Keep::Group));
            self.not_kept(n, error, None);
        }
    }

    /// A large data set outside steps: its session waits until it is stored.
    fn take_large_put(&mut self, r: &Read) {
        let Record::Put { payload: Payload::Block(block), name, set, meta, units, .. } = *r.record else {
            return;
        };
        let (ticket, bytes) = ((r.session, r.seq), r.bytes.to_vec());
        let made = meta.bytes().and_then(|len| Ok((len, Shape::new(&vec![0; meta.shape.rank()])?)));
        let there = r.block.clone().unwrap_or_else(|| Err(Error::internal("a block nobody looked at")));
        let (there, (len, offset)) = match there.and_then(|there| Ok((there, made?))) {
            Ok(found) => found,
            Err(error) => {
                return self.group.push(Item::Failed { session: r.session, seq: r.seq, bytes, error });
            }
        };
        if let Some(s) = self.sessions.get_mut(&r.session) {
            s.put = Some(Item::Record { session: r.session, seq: r.seq, bytes });
        }
        let facts = Facts { run_id: self.run_id.clone(), set: Some((set, 0)), ..Facts::default() };
        let part = Part {
            name: name.to_owned(),
            units: units.to_owned(),
            meta,
            rank: 0,
            offset,
            local: meta.shape,
            from: 0,
            len,
            bytes: Bytes::Block(block),
            ticket,
            sum: None,
            over: None,
            compress: None,
            sort: None,
        };
        if there {
            return self.files.put(part, set, Box::new(facts));
        }
        self.comes.insert(ticket);
        self.act(Action::Await { ticket, block });
        self.arriving.push(Arriving::Put(part, set, Box::new(facts)));
    }

    fn take_step_record(&mut self, n: u64, seq: u64, record: Record, block: Option<Result<bool>>) -> Keep {
        let replaying = self.sessions.get(&n).is_some_and(|s| s.replaying);
        // A predecessor gives blocks back when a step is discarded or dropped, and such a step is read again
        // while the ring holds what came before it: that it lacks them is no loss.
        let known = replaying && matches!(record, Record::StepBlock(_));
        let (step, outcome) = match record {
            Record::StepBegin { step, time, head, stride } => {
                (step, self.begin_step((n, seq), step, time, Heads::of(step, head, stride)))
            }
            Record::StepBlock(b) => (b.step, self.take_block((n, seq), &b, block)),
            Record::StepDescribe { step, name, json } => {
                (step, self.take_description((n, seq), step, name, json))
            }
            Record::StepEnd { step, blocks } => (step, self.end_step((n, seq), step, blocks)),
            Record::StepDiscard { step } => {
                self.discard_step((n, seq), step);
                (step, Ok(()))
            }
            Record::StepEarly { step } => (step, self.let_go_early(n, step)),
            _ => (0, Ok(())),
        };
        if let Err(e) = outcome {
            let e = e.within(format!("step {step} is given up"));
            match self.steps.contains_key(&step) {
                true if known => self.tear(step, e),
                true => self.spoil(step, e),
                false => self.late(n, e),
            }
        }
        Keep::Step(step, seq)
    }

    /// Why a step was refused that a rank ends or discards.
    fn refused(&mut self, n: u64, step: i64) -> Option<Refusal> {
        let s = self.sessions.get_mut(&n)?;
        let (rank, why) = (s.rank, s.refused.remove(&step)?);
        self.hears_of_attempt(step, rank);
        Some(why)
    }

    fn discard_step(&mut self, ticket: Ticket, step: i64) {
        let n = ticket.0;
        let rank = self.sessions.get(&n).map_or(0, |s| s.rank);
        let why = || Error::new(Code::Cancelled, format!("step {step} was discarded by rank {rank}"));
        if !self.steps.get(&step).is_some_and(|k| k.has(n)) {
            self.miss(ticket, step, Some(why()));
        }
        let mine = self.refused(n, step).is_none();
        // A part of what was left of a rank is gone; the others are not.
        if self.steps.get(&step).is_some_and(|k| k.lacked && k.has(n)) && self.lose_part(step, n) {
            return;
        }
        if mine && self.steps.get(&step).is_some_and(|k| k.has(n)) {
            let why = why();
            // Who has ended it counts on it; who has begun it hears of it when he ends it.
            let known = self.steps.get(&step);
            let ended: BTreeSet<u64> = known.into_iter().flat_map(|k| &k.ends).map(|end| end.0).collect();
            let others =
                known.map(Step::sessions).unwrap_or_default().into_iter().filter(|other| *other != n);
            let mut unheard = BTreeSet::new();
            for session in others {
                let Some(s) = self.sessions.get(&session) else { continue };
                if !ended.contains(&session) {
                    unheard.insert(s.rank);
                    self.refuse(session, step, Refusal::Because(why.clone()));
                } else if s.hears() {
                    self.late(session, why.clone());
                }
            }
            self.give_up_unheard(step, why, unheard);
        }
    }

    pub(super) fn begin_step(
        &mut self,
        ticket: Ticket,
        step: i64,
        time: f64,
        heads: Option<Heads>,
    ) -> Result<()> {
        let n = ticket.0;
        let Some(s) = self.sessions.get_mut(&n) else { return Ok(()) };
        let (rank, size, origin, is_rest) = (s.rank, s.size, s.origin(), s.after.is_some());
        let times_back = s.times_back;
        // It is just being kept without this rank: that has to be done first.
        if let Some(known) = self.steps.get(&step)
            && known.finishing
            && known.missing.get(&rank) == Some(&origin)
        {
            s.joins = Some(Joins { step, seq: ticket.1, time, heads });
            return Ok(());
        }
        match self.joins(ticket, step) {
            None => {}
            Some(Err(e)) | Some(Ok(Some(Refusal::Because(e)))) => {
                self.refuse(n, step, Refusal::Because(e));
                return Ok(());
            }
            Some(Ok(Some(told))) => {
                self.refuse(n, step, told);
                return Ok(());
            }
            Some(Ok(None)) => {
                let known = self.steps.get_mut(&step);
                return known.map_or(Ok(()), |k| k.begin(rank, ticket, origin, time, heads));
            }
        }
        if self.gives_way(ticket, step, time, heads) {
            return Ok(());
        }
        let again = self.steps.get(&step).is_some_and(|k| k.finishing || k.is_complete() || k.has(n));
        if self.known.is_listed(step) || again {
            let text = match self.known.is_damaged(step) {
                true => format!(
                    "step {step} exists and is damaged; go back with a restart, or drop the step, and its number is free"
                ),
                false => format!("step {step} exists already; a step is written once, choose another number"),
            };
            self.refuse(n, step, Refusal::Because(Error::new(Code::Conflict, text)));
            return Ok(());
        }
        // Another rank's attempt at this step has failed meanwhile: this is the same attempt.
        if let Some(why) = self.makes_failed_attempt(ticket, step, rank) {
            // A step that another rank has discarded is nothing that somebody lacks.
            let is_discarded = matches!(&why, Refusal::Because(e) if e.code() == Code::Cancelled);
            self.refuse(n, step, if is_rest && is_discarded { Refusal::Told } else { why });
            return Ok(());
        }
        if !self.steps.contains_key(&step) {
            let passed = self.who_passed(step, n);
            let begun = self.steps.entry(step).or_insert_with(|| Step::new(step, size));
            (begun.times_back, begun.passed) = (times_back, passed);
        }
        let Some(known) = self.steps.get_mut(&step) else { return Ok(()) };
        if let Err(e) = known.begin(rank, ticket, origin, time, heads) {
            self.refuse(n, step, Refusal::Because(e));
        }
        Ok(())
    }

    /// A rank ends a step. One that was refused is not the one of that number that is on its way.
    fn end_step(&mut self, ticket: Ticket, step: i64, blocks: u32) -> Result<()> {
        let n = ticket.0;
        let Some((rank, replaying)) = self.sessions.get(&n).map(|s| (s.rank, s.replaying)) else {
            return Ok(());
        };
        if !self.steps.get(&step).is_some_and(|k| k.has(n)) {
            self.miss(ticket, step, None);
        }
        if let Some(refusal) = self.refused(n, step) {
            // A step that the predecessor has listed is nobody's error.
            let listed = replaying && self.known.is_listed(step);
            if let Refusal::Because(e) = refusal
                && !listed
            {
                self.late(n, e);
            }
            return Ok(());
        }
        if let Some(known) = self.steps.get_mut(&step).filter(|k| k.has(n)) {
            let parts = known.end(rank, blocks)?;
            known.ends.insert(ticket);
            self.write(step, parts);
            self.passes(n, step);
        }
        Ok(())
    }

    fn take_block(&mut self, ticket: Ticket, b: &StepBlock, block: Option<Result<bool>>) -> Result<()> {
        let n = ticket.0;
        let Some(s) = self.sessions.get(&n) else { return Ok(()) };
        let (rank, refused) = (s.rank, s.refused.contains_key(&b.step));
        let mine = !refused && self.steps.get(&b.step).is_some_and(|k| k.has(n));
        if !mine {
            // The step was refused or given up: its blocks go back at once.
            self.miss(ticket, b.step, None);
            if let Payload::Block(block) = b.payload {
                self.act(Action::Free { session: n, block });
            }
            return Ok(());
        }
        let bytes = match b.payload {
            Payload::Inline(_) => Bytes::Kept,
            Payload::Block(r) => {
                match block {
                    Some(Ok(true)) | None => {}
                    Some(Ok(false)) => {
                        self.comes.insert(ticket);
                        self.act(Action::Await { ticket, block: r });
                    }
                    // A predecessor gave it back when it was not to come any more.
                    Some(Err(_)) if self.is_away(n) && self.lose_part(b.step, n) => return Ok(()),
                    Some(Err(e)) => return Err(e),
                }
                Bytes::Block(r)
            }
        };
        let Some(step) = self.steps.get_mut(&b.step) else { return Ok(()) };
        match bytes {
            Bytes::Block(block) => drop(step.held.insert(ticket, LentBlock { block, released: false })),
            Bytes::Kept => {
                step.kept.push(ticket);
                self.out.push(Action::Keep { ticket, from: None });
            }
            Bytes::Sealed(_) => {}
        }
        let parts = step.block(rank, b, bytes, ticket)?;
        self.write(b.step, parts);
        Ok(())
    }

    /// Parts of a step go to its file as soon as their bytes are there, and those of a piece in their order.
    fn write(&mut self, step: i64, parts: Vec<Part>) {
        let held_back = self.steps.get(&step).is_some_and(|k| k.held_back);
        for part in parts {
            let waits = matches!(part.bytes, Bytes::Block(_)) && self.comes.contains(&part.ticket);
            match waits || self.arriving.iter().any(|a| a.is_before(step, &part)) {
                true => self.arriving.push(Arriving::Part(step, part)),
                false if held_back => {}
                false => self.files.push(step, part),
            }
        }
    }

    /// The bytes of a block are there.
    pub(super) fn arrived(&mut self, ticket: Ticket) {
        if !self.comes.remove(&ticket) {
            return;
        }
        for part in std::mem::take(&mut self.arriving) {
            match part {
                part if self.comes.contains(&part.ticket()) => self.arriving.push(part),
                Arriving::Part(step, part) => self.write(step, vec![part]),
                Arriving::Put(part, set, facts) => self.files.put(part, set, facts),
            }
        }
    }

    /// Whether bytes of a step are still on their way.
    pub(super) fn is_arriving(&self, step: i64) -> bool {
        let is_awaited = |k: &Step| k.held.keys().any(|ticket| self.comes.contains(ticket));
        self.arriving.iter().any(|a| a.is_of(step))
            || !self.comes.is_empty() && self.steps.get(&step).is_some_and(is_awaited)
    }

    /// Whether nothing more comes of a session whose memory is on another host.
    fn is_away(&self, n: u64) -> bool {
        self.sessions.get(&n).is_some_and(|s| s.remote && s.hung)
    }

    /// What waits for bytes that will never come is given up.
    pub(super) fn lose_arriving(&mut self) {
        if self.comes.is_empty() {
            return;
        }
        // What a rank on another host says behind a part may make it another one: its ring is read first.
        let is_read = |s: &Session| s.is_read() || s.deferred.is_some();
        let is_away = |n: u64| self.is_away(n) && self.sessions.get(&n).is_some_and(is_read);
        let away = self.steps.values().flat_map(|k| k.held.keys().map(|ticket| (k.step, *ticket)));
        let away = away.filter(|(_, ticket)| self.comes.contains(ticket) && is_away(ticket.0));
        let away: BTreeSet<(i64, u64)> = away.map(|(step, ticket)| (step, ticket.0)).collect();
        // Its memory on the other host has it.
        away.into_iter().for_each(|(step, session)| _ = self.lose_part(step, session));
        let gone = |a: &Arriving| {
            let is_put = matches!(a, Arriving::Put(..));
            let s = self.sessions.get(&a.ticket().0);
            s.is_none_or(|s| s.hung && (is_put || !s.remote || is_read(s)))
        };
        let lost: Vec<Arriving> = self.arriving.extract_if(.., |a| gone(a)).collect();
        for part in lost {
            self.comes.remove(&part.ticket());
            let text = "the bytes of it did not arrive: the rank on another host, or the line to it, is gone";
            match part {
                Arriving::Part(step, _) => {
                    let text = format!("step {step} is given up: {text}");
                    self.spoil(step, Error::new(Code::ServerLost, text));
                }
                // So does what is behind it in the ring: all of that is brought again.
                Arriving::Put(part, ..) if self.is_away(part.ticket.0) => {
                    let (session, seq) = part.ticket;
                    if let Some(s) = self.sessions.get_mut(&session) {
                        (s.put, s.broken, s.lacks) = (None, true, true);
                        (s.seen, s.stuck) = (seq - 1, Some(seq));
                    }
                }
                Arriving::Put(part, ..) => {
                    let why = Error::new(Code::ServerLost, format!("the data set {:?}: {text}", part.name));
                    self.put_done(part.ticket.0, part.ticket.1, Err(why));
                }
            }
        }
    }

    /// A record of a step whose beginning is not in the ring any more: blocks of it were let go before
    /// it was complete, and the owner that had written them is dead. Its rank may have `discarded` it.
    pub(super) fn miss(&mut self, ticket: Ticket, step: i64, discarded: Option<Error>) {
        let n = ticket.0;
        let Some(s) = self.sessions.get(&n) else { return };
        // Its beginning may have been read by a predecessor, whatever of it comes now.
        let inherited = s.recovered || s.adopted.is_some();
        if let Some(why) = self.failed.unheard(step, s.rank).filter(|_| inherited) {
            let why = why.clone();
            return self.refuse(n, step, Refusal::Because(why));
        }
        let told = self.failed.why_in(step, s.rank).is_some() || s.refused.contains_key(&step);
        // What is not here of it is in the memory of its host.
        if s.remote && s.hung {
            return;
        }
        let given = self.known.partial(step).and_then(|p| p.given.get(&s.rank));
        if given.is_some_and(|g| g.session == s.origin()) && !told {
            return self.refuse(n, step, Refusal::Told);
        }
        if inherited && !told && !self.known.is_listed(step) {
            let (rank, size, hears) = (s.rank, s.size, s.hears() && discarded.is_none());
            // Another rank has come to it before.
            if let Some(why) = self.makes_failed_attempt(ticket, step, rank) {
                return self.refuse(n, step, why);
            }
            let text = format!(
                "step {step} is lost: it was larger than the buffers, or given up, and the owner died before it was on disk; take it again, or open the run with a larger buffer"
            );
            let why = discarded.unwrap_or_else(|| Error::new(Code::ServerLost, text));
            self.tear(step, why.clone());
            if self.failed.why_in(step, rank).is_none() {
                let made = ([rank].into(), BTreeMap::new());
                self.remember_given_up(step, why.clone(), made, BTreeSet::new(), size);
            }
            if hears {
                self.late(n, why);
            }
        }
    }

    fn let_go_early(&mut self, n: u64, step: i64) -> Result<()> {
        if self.sessions.get(&n).is_none_or(|s| s.refused.contains_key(&step)) {
            return Ok(());
        }
        let Some(known) = self.steps.get_mut(&step) else { return Ok(()) };
        if known.held_back {
            // What brings the rest of a session has all blocks that there are.
            let is_rest = self.sessions.get(&n).is_some_and(|s| s.after.is_some());
            let text =
                "it lacks ranks whose memory is on another host, and is larger than the buffers of this one";
            return if is_rest { Ok(()) } else { Err(Error::new(Code::ServerLost, text)) };
        }
        // From here on a successor cannot put it together: it must not find its beginning.
        let beginning = known.pending.get(&n).map(|pending| pending.beginning(n, step));
        let (parts, copied) = known.early(n, self.overflow, |ticket| self.comes.contains(&ticket))?;
        for (ticket, block) in copied {
            self.out.push(Action::Keep { ticket, from: Some(block) });
            if let Some(h) = known.held.get_mut(&ticket).filter(|h| !h.released) {
                h.released = true;
                self.out.push(Action::Free { session: n, block });
            }
        }
        self.group.extend(beginning);
        self.write(step, parts);
        for ticket in self.files.hurry(step) {
            self.let_go(step, ticket);
        }
        Ok(())
    }

    /// Gives a step up for a fault in it. That stays in the log of the run, and what a dead program left
    /// is not recovered then.
    pub(super) fn spoil(&mut self, step: i64, why: Error) {
        let Some(known) = self.steps.get(&step) else { return };
        let sessions = known.sessions();
        if sessions.iter().any(|n| self.sessions.get(n).is_some_and(|s| s.recovered)) {
            self.not_recovered.push(why.clone());
        }
        if let Some(session) = sessions.first() {
            let text = why.text().to_owned();
            self.group.push(Item::Note { session: *session, step, level: ERROR, text });
        }
        self.tear(step, why);
    }

    /// Gives a step up: all ranks that take part hear of it at their next call.
    pub(super) fn tear(&mut self, step: i64, why: Error) {
        let Some(known) = self.steps.get(&step) else { return };
        self.tell_ranks(&known.sessions(), &why, ERROR);
        self.give_up(step, why);
    }

    /// Ranks that took part in a step hear what became of it.
    pub(super) fn tell_ranks(&mut self, sessions: &[u64], why: &Error, level: u8) {
        let mut said = false;
        for session in sessions.iter().copied() {
            let Some(s) = self.sessions.get_mut(&session).filter(|s| s.hears()) else { continue };
            // Who brings the rest of a session brings steps, too, that others have never ended.
            if s.after.is_some() && why.code() == Code::ServerLost {
                continue;
            }
            s.refused_some = true;
            if !std::mem::replace(&mut said, true) {
                self.out.push(Action::Say { session, level, step: -1, text: why.text().to_owned() });
            }
            self.out.push(Action::Late { session, error: why.clone() });
        }
    }

    /// Gives a step up: its blocks go back, its file goes, whoever waits is told why.
    pub(super) fn give_up(&mut self, step: i64, why: Error) {
        self.give_up_unheard(step, why, BTreeSet::new());
    }

    /// Gives a step up: its blocks go back, its file goes, the ranks in `unheard` are told why when they end it.
    fn give_up_unheard(&mut self, step: i64, why: Error, unheard: BTreeSet<u32>) {
        let Some(known) = self.steps.remove(&step) else { return };
        self.arriving.retain(|a| !a.is_of(step));
        let (ranks, size) = (known.begun(), known.size);
        self.give_back(step, known.held, known.kept, known.pending);
        self.discard(Key::Partial(step));
        self.figures.discarded += 1;
        // What there was of it before is kept, and may be brought again.
        if !known.lacked {
            self.remember_given_up(step, why, ranks, unheard, size);
        }
    }

    /// What ranks gave of a step goes back to them, and what is written of it is thrown away.
    pub(super) fn give_back(
        &mut self,
        step: i64,
        held: impl IntoIterator<Item = (Ticket, LentBlock)>,
        kept: Vec<Ticket>,
        pending: BTreeMap<u64, Pending>,
    ) {
        for (ticket, h) in held.into_iter().filter(|(_, h)| !h.released) {
            self.comes.remove(&ticket);
            let free = self.files.free(ticket, h.block);
            self.out.extend(free);
        }
        self.forget(kept);
        self.settle_pending(step, pending);
        self.discard(Key::Step(step));
    }

    /// A record has no effect. Nobody can do again what a dead program left: that is put aside as it came.
    pub(super) fn not_kept(&mut self, session: u64, error: Error, record: Option<(u64, Vec<u8>)>) {
        if !self.sessions.get(&session).is_some_and(|s| s.recovered) {
            return self.late(session, error);
        }
        let why = error.text().to_owned();
        let error = match record.is_some() {
            true => error.within(
                "what a dead program left means nothing here, and is put aside in the table fb_unread",
            ),
            false => error,
        };
        if !self.not_recovered.contains(&error) {
            self.group.push(Item::Note { session, step: -1, level: ERROR, text: error.text().to_owned() });
            self.not_recovered.push(error);
        }
        self.group.extend(record.map(|(seq, bytes)| Item::Unread { session, seq, bytes, why }));
    }

    /// Something acknowledged is not kept, or not done.
    pub(super) fn late(&mut self, session: u64, error: Error) {
        if let Some(s) = self.sessions.get_mut(&session) {
            s.refused_some = true;
        }
        self.act(Action::Say { session, level: ERROR, step: -1, text: error.text().to_owned() });
        self.act(Action::Late { session, error });
    }
}

/// When a small record takes effect.
pub(super) enum When {
    /// With its group, in the catalog.
    Group,
    /// Its answer depends on the steps before it; at closing the mark "finished" must come after the
    /// steps, each of which takes it away.
    AfterSteps { leaves: bool },
    /// It has nothing to do with the catalog, and must not wait for a disk that is full.
    AtOnce(Ask),
}

impl When {
    fn of(record: &Record) -> When {
        let Record::Ask { json } = record else { return When::Group };
        serde_json::from_str(json).map_or(When::Group, When::of_ask)
    }

    pub fn of_ask(ask: Ask) -> When {
        match ask {
            Ask::Restart { .. } | Ask::Checkpoint { .. } | Ask::DropStep { .. } | Ask::Renew { .. } => {
                When::AfterSteps { leaves: false }
            }
            Ask::Close { .. } => When::AfterSteps { leaves: true },
            Ask::Overflow { .. } | Ask::DropOldest | Ask::Stats => When::AtOnce(ask),
            _ => When::Group,
        }
    }

    pub fn leaves(&self) -> bool {
        matches!(self, When::AfterSteps { leaves: true })
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::*;
    use super::super::{Birth, Event};
    use super::*;

    /// Of a run with step 1.
    fn with_a_step(session: Session) -> Scene {
        let mut scene = Scene::born(Birth { listed: (vec![1], Vec::new()), ..birth() });
        scene.enter(session);
        scene
    }

    #[test]
    fn a_rank_discards_a_step_for_all_though_a_predecessor_has_read_that_it_began_it() {
        for others_first in [true, false] {
            let mut scene = Scene::born(birth());
            (1..=2).for_each(|n| scene.enter(adopted(n, n as u32 - 1, 2, 10_000)));
            if others_first {
                scene.whole(1, 1);
            }
            scene.discard(2, 1);
            if !others_first {
                scene.whole(1, 1);
            }
            scene.settle();
            assert_eq!(scene.late(), [(1, "step 1 was discarded by rank 1".to_owned())], "{others_first}");
        }
    }

    #[test]
    fn a_request_to_drop_a_step_that_a_predecessor_may_have_read_drops_no_second_one() {
        let mut scene = Scene::born(birth());
        scene.enter(adopted(1, 0, 1, 10_000));
        (1..=3).for_each(|step| scene.whole(1, step));
        scene.turn();
        scene.describe();
        let dropped = |scene: &mut Scene, stretch| {
            let asked = scene.ask_over(1, &Ask::DropOldest, stretch);
            scene.answer(1, asked).unwrap().unwrap().as_i64()
        };
        assert_eq!(dropped(&mut scene, 10), None);
        assert_eq!(dropped(&mut scene, 10_000), Some(3));
    }

    #[test]
    fn a_listed_step_that_is_read_once_more_is_nobodys_error() {
        let mut scene = with_a_step(recovered(1, 0, 1));
        scene.whole(1, 1);
        assert!(scene.late().is_empty() && scene.m.not_recovered().is_empty());
        let mut scene = with_a_step(session(1, 0, 1));
        scene.whole(1, 1);
        assert!(scene.late()[0].1.contains("step 1 exists already"));
    }

    #[test]
    fn blocks_that_a_predecessor_gave_back_are_no_fault_and_others_stand_in_the_log_of_the_run() {
        for (session, is_fault) in [(recovered(1, 0, 1), false), (session(1, 0, 1), true)] {
            let mut scene = Scene::born(birth());
            scene.enter(session);
            scene.begin(1, 1);
            scene.block_that(1, 1, "x", Err(fault(Code::Corrupt)));
            scene.settle();
            assert_eq!(!scene.notes().is_empty(), is_fault);
        }
        // Of the same dead program a step that never was whole is a fault.
        let mut scene = Scene::born(birth());
        scene.enter(recovered(1, 0, 1));
        scene.begin(1, 1);
        scene.end(1, 1, 2);
        scene.settle();
        assert_eq!((scene.notes().len(), scene.m.not_recovered().len()), (1, 1));
    }

    #[test]
    fn only_a_step_that_an_earlier_owner_had_and_did_not_list_is_lost_with_it_and_that_is_told_once() {
        for (session, step, lost) in
            [(session(1, 0, 1), 5, 0), (adopted(1, 0, 1, 0), 1, 0), (adopted(1, 0, 1, 0), 5, 1)]
        {
            let mut scene = with_a_step(session);
            scene.end(1, step, 1);
            scene.end(1, step, 1);
            assert_eq!(scene.late().len(), lost, "step {step}");
        }
    }

    #[test]
    fn what_became_of_a_step_is_said_once_and_each_of_its_ranks_hears_of_it() {
        let mut scene = Scene::of(4);
        for n in 1..=3 {
            scene.begin(n, 1);
            scene.end(n, 1, 0);
        }
        scene.hang(4);
        scene.turn();
        let said = scene.take(|a| if let Action::Say { text, .. } = a { Some(text.clone()) } else { None });
        assert!(said.len() == 1 && said[0].contains("rank 3 of 4"), "{said:?}");
        let heard: Vec<u64> = scene.late().iter().map(|late| late.0).collect();
        assert_eq!(heard, [1, 2, 3]);
    }

    #[test]
    fn what_of_a_dead_program_cannot_be_kept_stands_in_the_log_once() {
        let mut scene = Scene::born(birth());
        scene.enter(recovered(1, 0, 1));
        for position in [10, 20] {
            scene.feed(Event::Unreadable { session: 1, position, error: fault(Code::Corrupt) });
        }
        scene.settle();
        assert_eq!((scene.notes(), scene.m.not_recovered().len()), (vec!["it fails"], 1));
    }

    #[test]
    fn going_back_marking_and_dropping_wait_for_the_steps_before_them() {
        let (tag, parameters) = (None, serde_json::Map::new());
        let asks = [
            Ask::Restart { tag: tag.clone(), strict: false },
            Ask::Checkpoint { tag },
            Ask::DropStep { step: 0 },
            Ask::Renew { step: 0, parameters },
        ];
        for ask in asks {
            let mut scene = Scene::of(1);
            scene.whole(1, 1);
            let asked = scene.ask(1, &ask);
            scene.turn();
            scene.commit();
            scene.describe();
            assert!(scene.answer(1, asked).is_none(), "{ask:?}");
            scene.settle();
            assert!(scene.answer(1, asked).is_some(), "{ask:?}");
        }
    }
}
