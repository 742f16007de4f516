//! The owner at the rings: it reads them, and looks on for requests where the reading stops.

use super::world::World;
use crate::owner::machine::*;
use forebay_types::record::{Payload, Record, StepBlock};
use forebay_types::{Code, Error};

impl World {
    /// The owner reads some records of a ring.
    pub(super) fn read(&mut self, session: u64, most: u64) {
        for _ in 0..most {
            let reads = self.machine.as_ref().is_some_and(|m| m.reads(session));
            let Some(rank) = self.ranks.get_mut(&session).filter(|_| reads) else {
                return self.look_ahead(session);
            };
            // What is pending in the catalog comes in its order, and may be in the ring as well.
            let next = rank.ring.iter().find(|r| r.0 > rank.read).cloned();
            let comes = |p: &mut (u64, Vec<u8>)| next.as_ref().is_none_or(|next| p.0 <= next.1);
            let (position, bytes, pending) = match (rank.pending.pop_front_if(comes), next) {
                (Some((seq, _)), Some((position, next, bytes))) if seq == next => (position, bytes, true),
                (Some((_, bytes)), _) => (rank.released, bytes, true),
                (None, Some((position, _, bytes))) => (position, bytes, false),
                (None, None) => return self.feed(Event::Empty { session }),
            };
            rank.read = position.max(rank.read);
            let (seq, record) = Record::decode(&bytes).unwrap();
            let payload = match &record {
                Record::Put { payload, .. } | Record::StepBlock(StepBlock { payload, .. }) => Some(*payload),
                _ => None,
            };
            let block = match payload {
                Some(Payload::Block(b)) => {
                    let entry = rank.blocks[b.index as usize];
                    Some(match entry.generation == b.generation && entry.of == Some(seq) {
                        true => Ok(entry.there),
                        false => Err(Error::new(Code::Corrupt, "a record names another use of its block")),
                    })
                }
                _ => None,
            };
            let (record, bytes) = (&record, bytes.as_slice());
            self.feed(Event::Record { session, position, seq, record, bytes, block, pending });
        }
    }

    /// The owner looks at what stands behind what stops its reading.
    fn look_ahead(&mut self, session: u64) {
        while self.machine.as_ref().is_some_and(|m| m.looks_ahead(session))
            && let Some(rank) = self.ranks.get_mut(&session)
            && let Some((position, seq, bytes)) =
                rank.ring.iter().find(|r| r.0 > rank.looked.max(rank.read)).cloned()
        {
            rank.looked = position;
            if let Ok((_, Record::Ask { json })) = Record::decode(&bytes) {
                let ask = serde_json::from_str(json).unwrap();
                self.feed(Event::Ahead { session, position, seq, ask });
            }
        }
    }
}
