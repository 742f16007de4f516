//! The promises: what holds when bytes are named, when a block or a ring is given back, when a step is listed.

use super::rank::{Attempt, Rank};
use super::world::{Order, SPREAD, World};
use crate::owner::machine::*;
use forebay_types::record::{HeldBlock, Payload, Record, StepBlock};
use std::collections::BTreeSet;

impl World {
    /// The bytes of a part are where it says.
    pub fn check_there(&self, part: &Part) {
        match part.bytes {
            Bytes::Sealed(at) => {
                let lies = self.lies.contains_key(&at);
                law!(self, lies, "nothing that was kept of a step lies at {at}");
            }
            Bytes::Kept => law!(self, self.kept.contains(&part.ticket), "nobody keeps {:?}", part.ticket),
            Bytes::Block(block) => self.check_block(part.ticket, &block),
        }
    }

    pub fn check_block(&self, ticket: Ticket, block: &HeldBlock) {
        let Some(rank) = self.ranks.get(&ticket.0) else { return };
        let entry = rank.blocks[block.index as usize];
        law!(
            self,
            entry.generation == block.generation && entry.of == Some(ticket.1) && entry.there,
            "{ticket:?} names a block that was given back, or has not come"
        );
    }

    pub fn free(&mut self, session: u64, block: HeldBlock) {
        for order in &self.works {
            let Order::Write(work) = order else { continue };
            let named = |p: &std::sync::Arc<Part>| p.ticket.0 == session && p.bytes == Bytes::Block(block);
            let done = self.open.get(&work.key).cloned().unwrap_or_default();
            let reads = work.parts.iter().any(|p| named(p) && !done.contains(&p.ticket));
            law!(self, !reads, "a block of session {session} is given back while {:?} needs it", work.key);
        }
        let Some(rank) = self.ranks.get_mut(&session) else { return };
        let entry = &mut rank.blocks[block.index as usize];
        if entry.generation == block.generation {
            // A successor gives back again what its predecessor had given back.
            entry.of = None;
        }
    }

    /// A ring is given back: what was promised of these records holds without it.
    pub fn release(&mut self, session: u64, position: u64) {
        let Some(rank) = self.ranks.get(&session) else { return };
        law!(self, position <= rank.read, "a ring is given back that was not read");
        let applied = self.catalog.applied.get(&session).copied().unwrap_or(0);
        for (at, seq, bytes) in rank.ring.iter().filter(|r| r.0 <= position) {
            let Ok((_, record)) = Record::decode(bytes) else { continue };
            let ticket = (session, *seq);
            let holds = match record {
                Record::Put { payload: Payload::Inline(_), .. } => self.catalog.small.contains(&ticket),
                Record::Put { .. } => {
                    let remote = rank.remote && !rank.alive;
                    remote
                        || self.catalog.large.contains(&ticket)
                        || rank.late.iter().any(|t| t.contains("\"l\""))
                }
                Record::StepBlock(StepBlock { step, .. }) | Record::StepEnd { step, .. } => {
                    let pending = self.durable.pending.contains_key(&ticket);
                    pending || self.is_settled(session, step, *seq)
                }
                Record::Ask { .. } => {
                    *seq <= applied || rank.asked.as_ref().is_none_or(|a| a.seq != *seq) || !rank.alive
                }
                _ => true,
            };
            law!(self, holds, "session {session} loses record {seq} at {at}: {record:?}");
        }
        if let Some(rank) = self.ranks.get_mut(&session) {
            rank.released = position;
            while rank.ring.front().is_some_and(|r| r.0 <= position) {
                rank.ring.pop_front();
            }
        }
    }

    /// Whether a record of a step is not needed any more: the step is listed or was given up and told, or
    /// the part is in a file that is all there will be of it.
    pub fn is_settled(&self, session: u64, step: i64, seq: u64) -> bool {
        let Some(rank) = self.ranks.get(&session) else { return true };
        // Until its session is answered the other host has all that it brings.
        if rank.after.is_some_and(|of| self.ranks.get(&of).is_some_and(|r| r.memory.is_some())) {
            return true;
        }
        if self.may_come_back(session, step) {
            let origin = self.origin(session);
            let given = self.catalog.partial.get(&step).and_then(|m| m.partial.as_ref());
            let given = given.is_some_and(|p| p.given.values().any(|g| g.session == origin));
            let own = self.ranks.get(&origin).is_some_and(|r| r.memory.is_some());
            return self.catalog.steps.contains(&step) || given || own;
        }
        // A dead rank hears nothing; then those hear that live.
        let hears = |r: &&Rank| r.session == session || !rank.alive;
        let named = format!("step {step} ");
        let told = self.life_of(session).filter(hears).any(|r| r.late.iter().any(|t| t.contains(&named)));
        let written = self.open.get(&Key::Step(step)).is_some_and(|f| f.contains(&(session, seq)));
        let kept = self.kept.contains(&(session, seq));
        let discarded = rank.attempts.get(&step).is_some_and(|a| a.discarded);
        let dropped = self.ranks.values().any(|r| r.drops);
        // What did not arrive is in a rank's own segment, on its host.
        let remote = self.life_of(session).any(|r| r.remote && !r.alive);
        let alone = remote || !self.was_ended_by_all(session, step);
        let early = self.life_of(session).any(|r| r.attempts.get(&step).is_some_and(|a| a.early));
        // It hears when it ends the step that this attempt of all ranks has failed.
        let session = self.machine.as_ref().and_then(|m| m.session(session));
        let refused = session.is_some_and(|s| s.refused.contains_key(&step) || s.recovered);
        self.catalog.steps.contains(&step)
            || early
            || refused
            || told
            || written
            || kept
            || discarded
            || dropped
            || alone && !rank.alive
    }

    /// Whether a step that all ranks of the last program have ended lacks what only another host has.
    fn may_come_back(&self, session: u64, step: i64) -> bool {
        let of_step = |r: &Rank| {
            let ring = r.memory.as_ref().filter(|m| !m.refused).map(|m| &m.ring);
            let ends = |bytes: &[u8]| matches!(Record::decode(bytes), Ok((_, Record::StepEnd { step: of, .. })) if of == step);
            ring.is_some_and(|ring| ring.iter().any(|(_, _, bytes)| ends(bytes)))
        };
        self.is_of_last_life(session) && self.is_promised(session, step) && self.life_of(session).any(of_step)
    }

    pub fn is_of_last_life(&self, session: u64) -> bool {
        self.life_of(session).next().is_some_and(|r| r.session == self.last_life)
    }

    /// Whether all ranks of a program have ended a step, and nothing was done that may cost one.
    pub fn is_promised(&self, session: u64, step: i64) -> bool {
        let sound = |a: &Attempt| a.ended && !a.discarded && !a.early;
        let drops = self.life_of(session).any(|r| r.drops);
        // A program may begin while steps of the one before it are under way, and its ranks then begin those.
        let first = self.life_of(session).next().map_or(0, |r| r.session);
        let mixed = self.ranks.range(..first).any(|(_, r)| r.attempts.contains_key(&step));
        !drops && !mixed && self.life_of(session).all(|r| r.attempts.get(&step).is_some_and(sound))
    }

    /// Each step of the last program that all its ranks have ended is listed, once what other hosts have is brought.
    pub fn check_promised(&self) {
        let has = |all: &BTreeSet<Ticket>, of: u64, seq: u64| {
            all.contains(&(of, seq))
                || self.ranks.keys().any(|n| self.origin(*n) == of && all.contains(&(*n, seq)))
        };
        for rank in self.ranks.values().filter(|r| r.after.is_none()) {
            let refused = rank.memory.is_some() || rank.late.iter().any(|t| t.contains("\"l\""));
            for seq in rank.small.iter().chain(rank.large.keys()).filter(|_| !refused) {
                let kept = has(&self.catalog.small, rank.session, *seq)
                    || has(&self.catalog.large, rank.session, *seq);
                law!(self, kept, "what session {} put by record {seq} is lost", rank.session);
            }
        }
        let Some(first) = self.ranks.get(&self.last_life) else { return };
        for step in first.attempts.keys().filter(|step| self.is_promised(first.session, **step)) {
            law!(
                self,
                self.catalog.steps.contains(step),
                "step {step} was ended by all ranks and is not listed"
            );
        }
    }

    /// The session whose memory another one brings.
    pub fn origin(&self, session: u64) -> u64 {
        self.ranks.get(&session).and_then(|r| r.after).unwrap_or(session)
    }

    /// The ranks of the program that a session is of.
    pub fn life_of(&self, session: u64) -> impl Iterator<Item = &Rank> {
        let session = self.origin(session);
        let first = (session - 1) / SPREAD * SPREAD + 1;
        self.ranks.range(first..first + SPREAD).map(|(_, r)| r)
    }

    /// Whether all ranks of a program have ended a step.
    pub fn was_ended_by_all(&self, session: u64, step: i64) -> bool {
        self.life_of(session).all(|r| r.attempts.get(&step).is_some_and(|a| a.ended))
    }
}
