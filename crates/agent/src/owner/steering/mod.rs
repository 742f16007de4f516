//! Run, Step, Stop, Save, Quit, Set and Command over many ranks: a pure state machine.
//!
//! ```text
//!  page, CLI --act--> [ propose n ] --Gate n to every rank, Look--> [ all steps < n ? ]
//!                          ^                                          | no: raise n
//!                          +------------------------------------------+
//!                                                                     | yes: confirmed
//!  ranks  <--Post(act, n)---------------------------------------------+
//!  ranks  --applied(act, n)--> Gate further on, Ack, Log
//! ```
//!
//! A rank stores its step and then loads its gate; the owner stores the gates and then loads the
//! steps (both sequentially consistent). So a rank whose step the owner still sees below `n`
//! will find the gate at `n`; one that was seen at `n` or beyond may have slipped through, and
//! `n` is raised. Once confirmed, `n` stays in the gate of each rank until that rank has carried
//! out everything that belongs to `n`: all ranks act at the same step and none overtakes an act.
//!
//! The machine touches no memory, clock or socket. Its caller feeds it what happened and carries
//! out the [`Action`]s in order.

mod machine;
mod words;

pub use machine::Steering;
pub use words::{Ack, Action, GONE, LeftAct, LeftRank, LogEntry, Seen};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
