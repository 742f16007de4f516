//! The promises: what holds when bytes are named, when a block or a ring is given back, when a step is listed.

use super::rank::Rank;
use super::world::{Order, World};
use crate::owner::machine::*;
use forebay_types::record::{HeldBlock, Payload, Record, StepBlock};

impl World {
    /// The bytes of a part are where it says.
    pub fn check_there(&self, part: &Part) {
        match part.bytes {
            Bytes::Kept => law!(self, self.kept.contains(&part.ticket), "nobody keeps {:?}", part.ticket),
            Bytes::Block(block) => self.check_block(part.ticket, &block),
        }
    }

    pub fn check_block(&self, ticket: Ticket, block: &HeldBlock) {
        let Some(rank) = self.ranks.get(&ticket.0) else { return };
        let entry = rank.blocks[block.index as usize];
        law!(
            self,
            entry.made == block.made && entry.of == Some(ticket.1) && entry.there,
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
        if entry.made == block.made {
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
                    let far = rank.far && !rank.alive;
                    far || self.catalog.large.contains(&ticket)
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
        // A dead rank hears nothing; then those hear that live.
        let hears = |r: &&Rank| r.session == session || !rank.alive;
        let named = format!("step {step} ");
        let told = self.life_of(session).filter(hears).any(|r| r.late.iter().any(|t| t.contains(&named)));
        let written = self.open.get(&Key::Step(step)).is_some_and(|f| f.contains(&(session, seq)));
        let kept = self.kept.contains(&(session, seq));
        let discarded = rank.attempts.get(&step).is_some_and(|a| a.discarded);
        let dropped = self.ranks.values().any(|r| r.drops);
        // What did not arrive is in a rank's own segment, on its host.
        let far = self.life_of(session).any(|r| r.far && !r.alive);
        let alone = far || !self.was_ended_by_all(session, step);
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

    /// The ranks of the program that a session is of.
    pub fn life_of(&self, session: u64) -> impl Iterator<Item = &Rank> {
        let first = (session - 1) / u64::from(self.size) * u64::from(self.size) + 1;
        self.ranks.range(first..first + u64::from(self.size)).map(|(_, r)| r)
    }

    /// Whether all ranks of a program have ended a step.
    pub fn was_ended_by_all(&self, session: u64, step: i64) -> bool {
        self.life_of(session).all(|r| r.attempts.get(&step).is_some_and(|a| a.ended))
    }
}
