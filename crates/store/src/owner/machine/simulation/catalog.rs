//! A model of the catalog: what a group does in it.

use super::rank::RECORD;
use super::world::World;
use crate::catalog::{FailedAttempt, SessionRow};
use crate::owner::machine::*;
use forebay_types::control::Ask;
use forebay_types::record::Record;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// A catalog: what is committed.
#[derive(Clone, Default)]
pub struct Catalog {
    pub sessions: BTreeMap<u64, SessionRow>,
    pub applied: BTreeMap<u64, u64>,
    pub steps: BTreeSet<i64>,
    pub small: BTreeSet<Ticket>,
    pub large: BTreeSet<Ticket>,
    pub answers: BTreeMap<Ticket, Json>,
    /// Records of steps that lack other ranks, with their step.
    pub pending: BTreeMap<Ticket, (i64, Vec<u8>)>,
    pub failed: BTreeMap<u64, FailedAttempt>,
    /// Programs of which a rank went back.
    pub went_back: BTreeSet<u64>,
    pub last_act: u64,
}

impl World {
    /// What a group does in the catalog.
    pub fn commit(&mut self, group: &[Item]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for item in group {
            if let Some((session, seq)) = item.source() {
                let applied = self.catalog.applied.entry(session).or_default();
                law!(
                    self,
                    seq > *applied || matches!(item, Item::Closed { .. }),
                    "record {seq} takes effect twice"
                );
                *applied = seq.max(*applied);
            }
            match item {
                Item::Record { session, seq, bytes } => self.record(*session, *seq, bytes, &mut effects),
                Item::Stored { session, seq, .. } => drop(self.catalog.large.insert((*session, *seq))),
                Item::Failed { session, error, .. } => {
                    effects.push(Effect::Late { session: *session, error: error.clone(), record: None });
                }
                Item::Pending { session, seq, step, at } => {
                    let found = self.ranks[session].ring.iter().find(|r| r.0 == at + RECORD && r.1 == *seq);
                    let Some(found) = found.cloned() else {
                        self.violated(format!("record {seq} of session {session} is not at {at}"));
                    };
                    self.catalog.pending.insert((*session, *seq), (*step, found.2));
                    self.tell(format!(
                        "record {seq} of session {session}, of step {step}, goes into the catalog"
                    ));
                }
                Item::Failing(g) if g.is_over() => drop(self.catalog.failed.remove(&g.id)),
                Item::Failing(g) => drop(self.catalog.failed.insert(g.id, (**g).clone())),
                Item::Settled { session, step, last } => {
                    let goes = |t: &Ticket, of: i64| t.0 == *session && t.1 <= *last && of == *step;
                    self.catalog.pending.retain(|ticket, (of, _)| !goes(ticket, *of));
                }
                Item::Closed { session, .. } => {
                    self.catalog.pending.retain(|(of, _), _| of != session);
                    self.catalog.sessions.remove(session);
                    effects.push(Effect::Closed { session: *session });
                }
                Item::Step { manifest, .. } => {
                    self.list(manifest.step);
                    effects.push(Effect::Listed { step: manifest.step, time: None });
                }
                Item::Asked { id, .. } => self.catalog.last_act = *id,
                Item::Note { .. } | Item::Unread { .. } | Item::Ended { .. } => {}
            }
        }
        effects
    }

    pub fn record(&mut self, session: u64, seq: u64, bytes: &[u8], effects: &mut Vec<Effect>) {
        let Ok((_, record)) = Record::decode(bytes) else { return };
        match record {
            Record::Put { .. } => drop(self.catalog.small.insert((session, seq))),
            Record::Message { level, step, text } => {
                let text = text.to_owned();
                effects.push(Effect::Tell(Tell::Message { session, level, step, text }));
            }
            Record::Ask { json } => match serde_json::from_str(json).unwrap() {
                Ask::Restart { .. } => {
                    let back = self.catalog.steps.last().copied();
                    let life = (session - 1) / u64::from(self.size);
                    let is_first = self.catalog.went_back.insert(life);
                    effects.push(Effect::WentBack { aside: Vec::new(), is_first });
                    self.keep(session, seq, json!({ "step": back }), effects);
                }
                Ask::Checkpoint { .. } => self.keep(session, seq, json!(1), effects),
                ask => effects.push(Effect::Later { session, seq, ask }),
            },
            _ => {}
        }
    }

    pub fn keep(&mut self, session: u64, seq: u64, value: Json, effects: &mut Vec<Effect>) {
        self.catalog.answers.insert((session, seq), value.clone());
        effects.push(Effect::Answer { session, seq, result: Ok(value) });
    }

    /// A step gets its row: it must be whole.
    pub fn list(&mut self, step: i64) {
        let parts = self.named.get(&Key::Step(step)).cloned().unwrap_or_default();
        let mut of: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (session, seq) in parts {
            of.entry(session).or_default().insert(seq);
        }
        law!(
            self,
            of.len() == self.size as usize,
            "step {step} is listed with {} of {} ranks",
            of.len(),
            self.size
        );
        for (session, parts) in of {
            let attempt = &self.ranks[&session].attempts[&step];
            law!(
                self,
                attempt.ended && !attempt.discarded && attempt.blocks == parts,
                "step {step} is listed with {parts:?} of session {session}, which put {:?}",
                attempt.blocks
            );
        }
        self.catalog.steps.insert(step);
        self.tell(format!("step {step} is listed"));
    }
}
