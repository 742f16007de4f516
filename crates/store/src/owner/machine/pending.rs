//! Records of steps that lack other ranks. A ring is given back in its order, and the records of a step stay in it
//! until the step is listed or given up; so a rank that is ahead of the others would come to wait for them as soon as
//! what it puts behind the step fills the ring, and if they wait for a message of it, for ever. Before that its records
//! of such steps go into the catalog, and the ring is free again. A successor reads them there first. (Blocks of the
//! steps are not in the ring, and stay.)

use super::Machine;
use super::event::Ticket;
use super::item::Item;
use super::session::Keep;
use std::collections::BTreeMap;

/// What is pending of a step and a session.
#[derive(Clone, Copy, Default)]
pub(super) struct Pending {
    bytes: u64,
    /// Its first record, by which the rank began the step, and its last one.
    first: Option<u64>,
    last: u64,
}

impl Pending {
    fn add(&mut self, seq: u64, bytes: u64) {
        self.bytes += bytes;
        self.first = self.first.or(Some(seq));
        self.last = self.last.max(seq);
    }

    /// What forgets that the rank began the step, and nothing else.
    pub fn beginning(&self, session: u64, step: i64) -> Item {
        Item::Settled { session, step, last: self.first.unwrap_or(0) }
    }
}

/// Most bytes of records that a session may have there: so far one rank may be ahead of the others.
const MOST: u64 = 64 << 20;

impl Machine {
    /// Moves the records of such steps out of rings that are more than half full.
    pub(super) fn make_room(&mut self) {
        if self.lost.is_some() || self.ailing.is_some() || self.committing {
            return;
        }
        // The blocks of a step go back before what names them.
        if !self.files.owes_any() {
            self.group.append(&mut self.settled);
        }
        for (n, s) in &mut self.sessions {
            // The memory of another host is to have all that is not listed.
            if s.far || s.backlog() <= s.ring / 2 || s.pending >= MOST || self.files.owes(*n) {
                continue;
            }
            let mut from = s.released;
            for (behind, keep) in &mut s.kept {
                let at = std::mem::replace(&mut from, *behind);
                let (step, seq) = match *keep {
                    Keep::Group => continue,
                    Keep::Step(step, seq) => (step, seq),
                    // Until that is done nothing behind it is given back.
                    Keep::Put(_) | Keep::Deferred(_) => break,
                };
                let Some(known) = self.steps.get_mut(&step).filter(|k| k.keeps((*n, seq))) else { continue };
                if known.is_complete() {
                    break; // it waits for the disk only
                }
                self.group.push(Item::Pending { session: *n, seq, step, at });
                *keep = Keep::Group;
                s.pending += *behind - at;
                known.pending.entry(*n).or_default().add(seq, *behind - at);
            }
        }
    }

    /// A record of a step was found in the catalog.
    pub(super) fn note_pending(&mut self, (session, seq): Ticket, step: i64, bytes: u64) {
        let known = self.steps.get_mut(&step).filter(|k| k.has(session));
        if let (Some(known), Some(s)) = (known, self.sessions.get_mut(&session)) {
            known.pending.entry(session).or_default().add(seq, bytes);
            s.pending += bytes;
        }
    }

    /// A step is listed, or given up: what is pending of it goes.
    pub(super) fn settle_pending(&mut self, step: i64, pending: BTreeMap<u64, Pending>) {
        for (session, Pending { bytes, last, .. }) in pending {
            if let Some(s) = self.sessions.get_mut(&session) {
                s.pending = s.pending.saturating_sub(bytes);
            }
            self.settled.push(Item::Settled { session, step, last });
        }
    }
}
