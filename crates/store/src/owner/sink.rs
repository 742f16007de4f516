//! What the owner passes on to whoever composes it with a monitor and sockets.

use forebay_arena::Segment;
use forebay_types::control::Ask;
use forebay_types::watch::Declare;
use forebay_types::{Error, Result};

/// Receives what people watch. Called by the intake thread after the commit: it puts what it hears into a queue of
/// its own, and never waits. Every method has a default that does nothing.
pub trait Sink: Send + Sync {
    /// A rank declared something; blocks of slots lie in its segment. Diagrams and curves have the numbers by
    /// which the run knows them, here and in what follows.
    fn declare(&self, session: u64, rank: u32, what: &Declare, segment: &Segment) {
        let _ = (session, rank, what, segment);
    }
    /// A point of a history: curve numbers and values. They can be read already, in rows of the
    /// catalog that count up from `row` (see [`crate::Reader::points_between`]).
    fn append(&self, session: u64, diagram: u32, row: i64, step: i64, t: f64, values: &[(u32, f64)]) {
        let _ = (session, diagram, row, step, t, values);
    }
    /// A point that was told before, or can be read in that row, has another value: that of a lower rank, or of
    /// one rank more.
    fn amend(&self, session: u64, diagram: u32, curve: u32, row: i64, t: f64, value: f64) {
        let _ = (session, diagram, curve, row, t, value);
    }
    /// The run went back to an earlier step: points of histories that were told are gone.
    fn went_back(&self) {}
    /// An act of steering was carried out (code 0) or refused.
    fn applied(&self, session: u64, id: u64, step: i64, code: u32, text: &str) {
        let _ = (session, id, step, code, text);
    }
    /// A message for people.
    fn message(&self, session: u64, level: u8, step: i64, text: &str) {
        let _ = (session, level, step, text);
    }
    /// Everything waits for the disk (the text says why), or goes on again: for whoever sits at the
    /// terminal.
    fn trouble(&self, text: &str) {
        let _ = text;
    }
    /// A request the store does not know. `None`: the sink answers itself, by `Owner::post`.
    fn ask(&self, session: u64, seq: u64, ask: &Ask) -> Option<Result<serde_json::Value>> {
        let _ = (session, seq);
        Some(Err(Error::bad(format!("nobody here answers {ask:?}"))))
    }
    /// A step is durable.
    fn durable(&self, step: i64, time: Option<f64>) {
        let _ = (step, time);
    }
    /// The session is over: everything it left is applied. `clean` when the rank said good-bye.
    fn closed(&self, session: u64, clean: bool) {
        let _ = (session, clean);
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaf;

impl Sink for Deaf {}
