//! One rank's session as the machine knows it: how far it is in custody.

use super::event::Now;
use super::item::Item;
use forebay_types::control::Heads;
use forebay_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why a stretch of the ring cannot be given back yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Keep {
    /// Until the group it is in is committed.
    Group,
    /// Until its step is committed or given up, or the block is written and let go early.
    Step(i64, u64),
    /// Until the large data set is in its file and in the catalog.
    Put(u64),
    /// Until the request goes into a group: a successor finds it nowhere else.
    Deferred(u64),
}

/// What an adopted session has beside an ordinary one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Adopted {
    /// Up to this position of the ring the predecessor may have read.
    pub replay_end: u64,
    /// Since when its rank is waited for; `None` once it has come.
    pub waiting: Option<Now>,
}

/// See the head of the file.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Session {
    pub number: u64,
    pub rank: u32,
    /// Number of ranks; 0 of a client.
    pub size: u32,
    /// The rank's process.
    pub pid: u32,
    /// Left over by an owner that died, and its rank is gone, too.
    pub recovered: bool,
    /// Its rank is on another host, whose memory has what is not listed yet, and does not forget it when this one ends.
    pub remote: bool,
    /// It brings the rest of that session, under the same numbers.
    pub after: Option<u64>,
    /// The line was lost before all was here that it put.
    pub lacks: bool,
    /// The run went back when it was over; or all that it brings was here already.
    pub is_past: bool,
    /// Nobody knows at this moment whether its rank lives: it is on another host, and has not answered yet.
    #[serde(default)]
    pub unsure: bool,
    /// Steps of what it brought that are not taken, as the run has gone on without them.
    #[serde(default)]
    pub dropped: BTreeSet<i64>,
    /// The large data set whose bytes have not come: a successor is not to read what is behind it either.
    pub stuck: Option<u64>,
    /// Something of what it brought was refused.
    pub refused_some: bool,
    /// Of those who were left over with it some go on: it is one rank of theirs that is gone.
    pub has_living_mates: bool,
    /// Left over by an owner that died, and its rank goes on.
    pub adopted: Option<Adopted>,
    /// The record being read may have been read by the predecessor.
    pub replaying: bool,
    /// Small records up to this number are committed.
    pub applied: u64,
    /// Last record read.
    pub seen: u64,
    /// What the rank was told to be applied.
    pub told: u64,
    /// Nothing was in its ring when that was looked at last.
    pub empty: bool,
    /// Its process was gone when that was looked at last.
    pub dead: bool,
    /// The rank's socket is closed: nothing more will come.
    pub hung: bool,
    /// Its owner died while its rank opened the run, and the rank has left it to open the run again.
    pub left_early: bool,
    /// The last session there was when it hung up: later ones belong to a later life of the program and
    /// do not end its steps.
    pub mates: Option<u64>,
    /// It hung up, is read to its end, and waits at most for steps that living ranks may end.
    pub settled: bool,
    /// Since when the rank has asked to leave: it begins and ends no more steps.
    pub leaving: Option<Now>,
    /// The rank said good-bye, and was answered.
    pub clean: bool,
    /// Its end is in the group.
    pub closing: bool,
    /// Its ring is damaged; it is read no more.
    pub broken: bool,
    /// A client's, left to the next owner as this one ends: what is not read of its ring is read there.
    #[serde(default)]
    pub left_on: bool,
    /// The last request that was looked at ahead of what is read, and those that wait there: number, and whether it is
    /// one to close.
    #[serde(default)]
    pub looked: u64,
    #[serde(default)]
    pub ahead: Vec<(u64, bool)>,
    /// The last request that was refused as the disk had no room, by a predecessor, too.
    #[serde(default)]
    pub refused_ask: u64,
    /// The last act of steering that its rank had begun to carry out when its owner died, logged or not.
    #[serde(default)]
    pub last_act: u64,
    /// The last one that a predecessor refused.
    #[serde(default)]
    pub refused_before: u64,
    /// Nothing is read until this large data set is stored.
    pub put: Option<Item>,
    /// Nothing is read until the steps before this request are durable.
    pub deferred: Option<Item>,
    /// Nothing is read until the step that it begins by this record is kept without it, or until it is known what an
    /// earlier life has of it.
    pub joins: Option<Joins>,
    /// Bytes of its ring, and up to where that was given back.
    pub ring: u64,
    pub released: u64,
    /// Stretches of the ring in order: position behind, and what keeps them.
    pub kept: VecDeque<(u64, Keep)>,
    /// Bytes of its records that are pending in the catalog.
    pub pending: u64,
    /// How often the run had gone back when this rank went along last.
    pub times_back: u64,
    /// The last step that its rank has ended since.
    #[serde(default)]
    pub ended: Option<i64>,
    /// Steps this session may not write.
    pub refused: BTreeMap<i64, Refusal>,
    /// What conditional puts did.
    pub versions: VecDeque<(u64, Result<u64>)>,
}

/// A rank begins a step and has to wait.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Joins {
    pub step: i64,
    pub seq: u64,
    #[serde(with = "super::exact")]
    pub time: f64,
    pub heads: Option<Heads>,
}

/// What a rank hears when it ends a step that it may not write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// Why it may not.
    Because(Error),
    /// Nothing: a predecessor has told it.
    Told,
}

/// Why something is not done that a client asks for: its own side has refused that, or is of another program.
pub fn not_a_clients(what: &str) -> Error {
    Error::bad(format!("a client {what}, which is the ranks' alone; open the run as a rank for that"))
}

/// Most outcomes of conditional puts kept for `Ask::Version`.
const VERSIONS: usize = 256;

impl Session {
    /// Whether its ring may be read now.
    pub fn is_readable(&self) -> bool {
        let waits = self.put.is_some() || self.deferred.is_some() || self.joins.is_some();
        !waits && !self.broken && !self.left_on
    }

    /// Whether nothing more of it is to be read.
    pub fn is_read(&self) -> bool {
        self.broken || self.is_readable() && self.empty
    }

    /// Whether its rank had only begun to open the run: it comes again, and has not left.
    pub fn is_unused(&self) -> bool {
        self.left_early && self.seen == 0 && self.is_read()
    }

    /// The session whose memory has its part of a step.
    pub fn origin(&self) -> u64 {
        self.after.unwrap_or(self.number)
    }

    /// Whether its rank waits to be told where the run goes back to.
    pub fn goes_back(&self) -> bool {
        self.deferred.as_ref().is_some_and(Item::is_restart)
    }

    /// Whether it can end no step any more.
    pub fn is_over(&self) -> bool {
        self.leaving.is_some() || (self.hung || self.clean) && self.is_read()
    }

    /// Whether it is a client's, for whom nothing waits.
    pub fn is_client(&self) -> bool {
        self.size == 0
    }

    /// Whether somebody is there who hears.
    pub fn hears(&self) -> bool {
        !self.recovered && !self.hung
    }

    /// How far the ring can be given back now, if further than before.
    pub fn release(&mut self, stays: impl Fn(i64, u64) -> bool) -> Option<u64> {
        let putting = self.put.as_ref().map(Item::seq);
        let deferred = self.deferred.as_ref().map(Item::seq);
        let joins = self.joins.map(|j| j.seq);
        let mut up_to = None;
        while let Some((position, keep)) = self.kept.front() {
            let keeps = match *keep {
                Keep::Group => false,
                Keep::Step(step, seq) => joins == Some(seq) || stays(step, seq),
                Keep::Put(seq) => putting == Some(seq) || self.stuck == Some(seq),
                Keep::Deferred(seq) => deferred == Some(seq),
            };
            if keeps {
                break;
            }
            up_to = Some(*position);
            self.kept.pop_front();
        }
        self.released = up_to.unwrap_or(self.released);
        up_to
    }

    /// Up to where its ring was read, by a predecessor, too.
    pub fn read_up_to(&self) -> u64 {
        let replayed = self.adopted.as_ref().map_or(0, |a| a.replay_end);
        self.kept.back().map_or(self.released, |(position, _)| *position).max(replayed)
    }

    /// Bytes of the ring that are read and not given back.
    pub fn backlog(&self) -> u64 {
        self.kept.back().map_or(0, |(position, _)| position.saturating_sub(self.released))
    }

    pub fn note_version(&mut self, seq: u64, outcome: Result<u64>) {
        if self.versions.len() == VERSIONS {
            self.versions.pop_front();
        }
        self.versions.push_back((seq, outcome));
    }

    pub fn version(&self, seq: u64) -> Result<u64> {
        let found = self.versions.iter().find(|v| v.0 == seq).map(|v| v.1.clone());
        found.unwrap_or_else(|| Err(Error::bad(format!("record {seq} was no conditional put, or long ago"))))
    }
}
