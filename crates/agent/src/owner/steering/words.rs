//! What the state machine is told and what it wants done.

use forebay_types::watch::{Act, Phase, State};
use serde_json::Value;

/// Why an act came to nothing when the last rank died.
pub const GONE: &str = "the program is gone, without having closed the run, and has not done it";

/// What the owner read in the words of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The rank.
    pub rank: u32,
    /// The step it is about to compute; `None` before its loop.
    pub step: Option<i64>,
}

/// A rank that an owner steered that died, as it came to its successor: since then it carries nothing out that the
/// dead one had sent.
#[derive(Clone, Copy, Debug)]
pub struct LeftRank {
    /// The rank, and the step it is about to compute.
    pub seen: Seen,
    /// The gate that the dead owner had set.
    pub gate: Option<i64>,
    /// It waits there.
    pub waits: bool,
    /// It was told to hold there.
    pub holds: bool,
    /// Its loop has ended.
    pub over: bool,
    /// The last act that it has begun to carry out.
    pub done: u64,
}

/// An act of a dead owner.
#[derive(Clone, Debug)]
pub struct LeftAct {
    /// Its number.
    pub id: u64,
    /// Who sent it.
    pub who: String,
    /// When it came, in seconds since 1970.
    pub at: f64,
    /// The act.
    pub act: Act,
    /// Where ranks have carried it out; none when none has.
    pub step: Option<i64>,
}

/// An acknowledgement for whoever sent the act.
#[derive(Clone, Debug, PartialEq)]
pub struct Ack {
    /// The act's number.
    pub id: u64,
    /// Who sent it.
    pub who: String,
    /// The act.
    pub act: Act,
    /// How far it has come.
    pub phase: Phase,
    /// Its step, when known.
    pub step: Option<i64>,
    /// What was done, or why not.
    pub text: String,
}

/// A line of the record of who steered what and when.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The act's number.
    pub id: u64,
    /// Who sent it.
    pub who: String,
    /// When it came, in seconds since 1970.
    pub at: f64,
    /// Where it was applied.
    pub step: Option<i64>,
    /// The act.
    pub act: Act,
    /// The value a parameter had before.
    pub old: Option<Value>,
    /// `applied` or `refused`, with the words of the ranks.
    pub result: String,
}

/// What the owner must do, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Store the gate of a rank; `None` opens it.
    Gate {
        /// The rank.
        rank: u32,
        /// The loop head stops at this step.
        step: Option<i64>,
    },
    /// Read the steps of all ranks and call [`super::Steering::looked`].
    Look,
    /// Send an act to a rank.
    Post {
        /// The rank.
        rank: u32,
        /// The act's number.
        id: u64,
        /// The step at which it acts.
        step: i64,
        /// The act.
        act: Act,
    },
    /// Tell a rank that it does otherwise than the others.
    Differs {
        /// The rank.
        rank: u32,
        /// What differs.
        text: String,
    },
    /// Tell whoever sent it.
    Ack(Ack),
    /// Write it down.
    Log(LogEntry),
    /// A parameter has a new value in all ranks.
    Parameter {
        /// Its name.
        name: String,
        /// The value.
        value: Value,
        /// Since this step.
        step: i64,
    },
    /// The state in words has changed.
    State {
        /// The state.
        state: State,
        /// The foremost step, if a loop has begun.
        step: Option<i64>,
    },
}
