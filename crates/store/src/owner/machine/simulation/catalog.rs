//! A model of the catalog: what a group does in it.

use super::rank::RECORD;
use super::world::{SPREAD, World};
use crate::catalog::{FailedAttempt, SessionRow};
use crate::layout::partial_file;
use crate::owner::machine::*;
use crate::stepfile::Manifest;
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
    /// Steps that lack ranks.
    pub partial: BTreeMap<i64, Manifest>,
    pub small: BTreeSet<Ticket>,
    pub large: BTreeSet<Ticket>,
    pub answers: BTreeMap<Ticket, Json>,
    /// Sessions whose memory on another host may have more: rank and life.
    pub away: BTreeMap<u64, (u32, u64)>,
    pub life: u64,
    pub lives: Vec<u64>,
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
        let mut over = &[][..];
        for item in group {
            if let Item::Over { sessions } = item {
                over = sessions;
            }
            if let Some((session, seq)) = item.source() {
                let applied = self.catalog.applied.entry(session).or_default();
                law!(
                    self,
                    seq > *applied || matches!(item, Item::Closed { .. }),
                    "record {seq} takes effect twice"
                );
                *applied = seq.max(*applied);
                if let Some(of) = self.ranks.get(&session).and_then(|r| r.after) {
                    let applied = self.catalog.applied.entry(of).or_default();
                    *applied = seq.max(*applied);
                }
            }
            match item {
                Item::Record { session, seq, bytes } => {
                    self.record((*session, *seq), bytes, over, &mut effects)
                }
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
                Item::Failing(g) => drop(self.catalog.failed.insert(g.id, (**g).clone())),
                Item::Forgotten { attempt } => drop(self.catalog.failed.remove(attempt)),
                Item::Settled { session, step, last } => {
                    let goes = |t: &Ticket, of: i64| t.0 == *session && t.1 <= *last && of == *step;
                    self.catalog.pending.retain(|ticket, (of, _)| !goes(ticket, *of));
                }
                Item::Closed { session, away, .. } => {
                    match away {
                        Some(life) => {
                            _ = self.catalog.away.insert(*session, (self.ranks[session].rank, *life))
                        }
                        None => _ = self.catalog.away.remove(session),
                    }
                    self.catalog.pending.retain(|(of, _), _| of != session);
                    self.catalog.sessions.remove(session);
                    effects.push(Effect::Closed { session: *session });
                }
                Item::Partial { manifest, .. } => {
                    self.keep_partial(manifest);
                    effects.push(Effect::Partial(manifest.clone()));
                }
                Item::Brought { session } => {
                    self.catalog.away.remove(session);
                    let lacks = |m: &&Manifest| {
                        m.partial.as_ref().is_some_and(|p| p.missing.values().any(|of| of == session))
                    };
                    let steps: Vec<i64> =
                        self.catalog.partial.values().filter(lacks).map(|m| m.step).collect();
                    steps.into_iter().for_each(|step| self.forsake(step, &mut effects));
                }
                Item::Step { manifest, .. } => {
                    self.forsake(manifest.step, &mut effects);
                    self.list(manifest.step);
                    effects.push(Effect::Listed { step: manifest.step, time: None });
                }
                Item::Asked { id, .. } => self.catalog.last_act = *id,
                Item::Note { .. }
                | Item::Over { .. }
                | Item::Unread { .. }
                | Item::Ended { .. }
                | Item::MakeRoom { .. } => {}
            }
        }
        effects
    }

    pub fn record(&mut self, (session, seq): Ticket, bytes: &[u8], over: &[u64], effects: &mut Vec<Effect>) {
        let Ok((_, record)) = Record::decode(bytes) else { return };
        match record {
            Record::Put { .. } => {
                let of = self.origin(session);
                let by = |n: &u64| self.origin(*n) == of && self.catalog.small.contains(&(*n, seq));
                let twice = self.ranks.keys().any(by);
                law!(self, !twice, "record {seq} of session {of} takes effect twice, by session {session}");
                self.catalog.small.insert((session, seq));
            }
            Record::Message { level, step, text } => {
                let text = text.to_owned();
                effects.push(Effect::Tell(Tell::Message { session, level, step, text }));
            }
            Record::Ask { json } => match self.not_refused(session, seq, serde_json::from_str(json).unwrap())
            {
                Ask::Restart { .. } => {
                    let back = self.catalog.steps.last().copied();
                    let life = (session - 1) / SPREAD;
                    let is_first = self.catalog.went_back.insert(life);
                    effects.push(Effect::WentBack { session, aside: Vec::new(), is_first });
                    if is_first {
                        self.catalog.away.values_mut().for_each(|(_, life)| *life = u64::MAX);
                        for n in over {
                            self.catalog.away.insert(*n, (self.ranks[n].rank, u64::MAX));
                        }
                        let behind: Vec<i64> = self
                            .catalog
                            .partial
                            .keys()
                            .copied()
                            .filter(|s| back.is_none_or(|b| *s > b))
                            .collect();
                        behind.into_iter().for_each(|step| self.forsake(step, effects));
                    }
                    self.keep(session, seq, json!({ "step": back }), effects);
                }
                Ask::Checkpoint { .. } => self.keep(session, seq, json!(1), effects),
                ask => effects.push(Effect::Later { session, seq, ask }),
            },
            _ => {}
        }
    }

    /// What was refused is not done; a dead rank's request to close may be.
    fn not_refused(&self, session: u64, seq: u64, ask: Ask) -> Ask {
        let rank = &self.ranks[&session];
        let may = !rank.alive && matches!(ask, Ask::Close { .. }) || !rank.refused.contains(&seq);
        law!(self, may, "request {seq} of session {session} is done, and was refused: {ask:?}");
        ask
    }

    pub fn keep(&mut self, session: u64, seq: u64, value: Json, effects: &mut Vec<Effect>) {
        self.catalog.answers.insert((session, seq), value.clone());
        effects.push(Effect::Answer { session, seq, result: Ok(value) });
    }

    fn forsake(&mut self, step: i64, effects: &mut Vec<Effect>) {
        if self.catalog.partial.remove(&step).is_some() {
            self.tell(format!("what was kept of step {step} is not needed any more"));
            effects.push(Effect::Forsaken { step, file: partial_file(step) });
        }
    }

    /// What is here of a step gets its row: the parts in it must be whole.
    fn keep_partial(&mut self, m: &Manifest) {
        let (step, partial) = (m.step, m.partial.as_ref().unwrap());
        let of = self.parts_of(Key::Partial(step));
        law!(self, !partial.missing.is_empty() && !of.is_empty(), "step {step} lacks nobody, or has nothing");
        let given: BTreeSet<u64> = partial.given.values().map(|g| g.session).collect();
        let has: BTreeSet<u64> = of.keys().copied().collect();
        law!(self, given == has, "step {step} is kept with parts of {has:?}, and names {given:?}");
        self.check_parts(step, of);
        self.catalog.partial.insert(step, m.clone());
        self.tell(format!("step {step} is kept with parts of {given:?}, it lacks {:?}", partial.missing));
    }

    /// What is in a file, by the session in whose memory it was.
    fn parts_of(&self, key: Key) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut of: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (session, seq) in self.named.get(&key).cloned().unwrap_or_default() {
            of.entry(self.origin(session)).or_default().insert(seq);
        }
        of
    }

    fn check_parts(&self, step: i64, of: BTreeMap<u64, BTreeSet<u64>>) {
        for (session, parts) in of {
            let attempt = &self.ranks[&session].attempts[&step];
            law!(
                self,
                attempt.ended && !attempt.discarded && attempt.blocks == parts,
                "step {step} is listed with {parts:?} of session {session}, which put {:?}",
                attempt.blocks
            );
        }
    }

    /// A step gets its row: it must be whole.
    pub fn list(&mut self, step: i64) {
        let of = self.parts_of(Key::Step(step));
        let size = of.keys().map(|n| self.ranks[n].size).max().unwrap_or(0);
        law!(self, of.len() == size as usize, "step {step} is listed with {} of {size} ranks", of.len());
        let lives: BTreeSet<u64> = of.keys().filter_map(|n| Some(self.life_of(*n).next()?.session)).collect();
        law!(
            self,
            lives.len() == 1,
            "step {step} is listed with parts of several starts, of sessions {:?}",
            of.keys()
        );
        self.check_parts(step, of);
        self.catalog.partial.remove(&step);
        self.catalog.steps.insert(step);
        self.tell(format!("step {step} is listed"));
    }
}
