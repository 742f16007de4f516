//! Ranks of other hosts whose line is lost: what is in files without them, and what somebody brings of theirs.

use super::rank::{PIECE, RECORD, RING, Rank};
use super::world::{SPREAD, World};
use crate::catalog::SessionRow;
use crate::owner::machine::*;
use crate::stepfile::{Entry, Facts, Manifest, Partial};
use forebay_types::{ArrayMeta, DType, Shape};
use std::collections::BTreeSet;

impl World {
    /// What the host of a rank has is brought, when its session is over.
    pub fn bring(&mut self) {
        let brought: BTreeSet<u64> =
            self.ranks.values().filter(|r| r.alive).filter_map(|r| r.after).collect();
        let is_held = |rank: u32| self.machine.as_ref().is_none_or(|m| m.holder(rank).is_some());
        let may = |r: &&Rank| {
            r.memory.as_ref().is_some_and(|m| !m.refused)
                && !self.catalog.sessions.contains_key(&r.session)
                && !brought.contains(&r.session)
                && self.machine.as_ref().is_some_and(|m| !m.takes_rest_of(r.session))
                && !is_held(r.rank)
        };
        let found: Vec<u64> = self.ranks.values().filter(may).map(|r| r.session).collect();
        let Some(of) = self.rng.one_of(&found) else { return };
        let session = self.sessions + 1;
        let applied = self.catalog.applied.get(&of).copied().unwrap_or(0);
        let mut steps = self.catalog.steps.clone();
        let given = |(step, m): (&i64, &Manifest)| {
            let given = m.partial.iter().flat_map(|p| p.given.values());
            given.into_iter().any(|g| g.session == of).then_some(*step)
        };
        steps.extend(self.catalog.partial.iter().filter_map(given));
        let Some(rest) = self.ranks[&of].rest(session, applied, &steps, &mut self.rng) else { return };
        self.sessions += SPREAD;
        let (rank, size) = (rest.rank, rest.size);
        let row = SessionRow { session, rank, size, segment: String::new() };
        self.catalog.sessions.insert(session, row.clone());
        self.durable.sessions.insert(session, row);
        self.ranks.insert(session, rest);
        self.tell(format!("what session {of} of rank {rank} has is brought by session {session}"));
        let (pid, ring) = (1000 + session as u32, RING as u64 * RECORD);
        let (remote, after, is_past) = (true, Some(of), !self.catalog.away.contains_key(&of));
        let s =
            Session { number: session, rank, size, pid, ring, remote, after, is_past, ..Session::default() };
        self.feed(Event::Enter(Box::new(s)));
    }

    /// What the file says of a step that lacks ranks: each array with a place of its own.
    pub fn sealed(&mut self, step: i64, facts: &Facts, file: &[Ticket]) -> Manifest {
        let mut data = Vec::new();
        for placed in &facts.partial.as_ref().unwrap().places {
            let of = facts.partial.as_ref().unwrap().given[&placed.rank].session;
            let offset = 4096 * (self.lies.len() as u64 + 1);
            let parts = file.iter().copied().filter(|t| self.origin(t.0) == of).collect();
            self.lies.insert(offset, parts);
            let meta = ArrayMeta::new(DType::U8, Shape::new(&[PIECE]).unwrap());
            let name = Partial::name_of(placed.rank, placed.piece, &placed.name);
            let about = forebay_types::Description::default();
            data.push(Entry { name, meta, units: String::new(), offset, pieces: Vec::new(), about });
        }
        Manifest { step, partial: facts.partial.clone(), data, ..Manifest::default() }
    }
}
