//! What a run needs of the process in which it is open, and of whoever shows it.

use super::Run;
use super::steering::Ack;
use crate::diary::Diary;
use forebay_arena::Segment;
use forebay_types::Result;
use forebay_types::control::PageLinks;
use forebay_types::watch::{Declare, StateInfo};
use std::path::Path;
use std::sync::Arc;

/// The process in which runs are open: an agent, or a program with an embedded owner.
pub trait Site: Send + Sync {
    /// Whether ranks whose owner died go on here.
    fn adopts(&self) -> bool;
    /// Its log.
    fn diary(&self) -> Diary;
    /// Writes the file of a run that says where its owner is.
    fn publish(&self, file: &Path) -> Result<()>;
    /// Takes that file away.
    fn withdraw(&self, file: &Path);
    /// Shows a run. A run made anew in the same place is another one, and so is a copy.
    fn show(&self, run: &Arc<Run>, run_id: &str, program: &str) -> Result<Arc<dyn Page>>;
    /// The links of a page, by its [`Page::id`]; the page is served from then on.
    fn links(&self, id: &str) -> Result<PageLinks>;
    /// A rank came or went, so the heart may have to beat at another pace.
    fn look_again(&self);
}

/// Where it is shown what happens in a run. Nothing here waits for whoever looks.
pub trait Page: Send + Sync {
    /// What it is known by.
    fn id(&self) -> &str;
    /// The identity of the run that it shows.
    fn run_id(&self) -> &str;
    /// How many people watch.
    fn watching(&self) -> usize;
    /// Shows the run no longer.
    fn hide(&self);
    /// A rank declares something; a curve is read from its segment.
    fn declare(&self, rank: u32, what: &Declare, segment: &Segment) -> Result<()>;
    /// A point of a history, with its row in the catalog: pairs of curve number and value.
    fn append(&self, rank: u32, diagram: u32, row: i64, step: i64, t: f64, values: &[(u32, f64)]);
    /// A point that was told has another value.
    fn amend(&self, rank: u32, diagram: u32, curve: u32, row: i64, t: f64, value: f64);
    /// What was told may have changed; the catalog has it.
    fn went_back(&self);
    /// A message for people.
    fn message(&self, level: u8, step: i64, text: &str);
    /// A rank has gone.
    fn rank_left(&self, rank: u32);
    /// News of an act, from its being queued on.
    fn ack(&self, ack: &Ack);
    /// A parameter has a new value.
    fn parameter(&self, name: &str, value: &serde_json::Value);
    /// Where the run stands.
    fn state(&self, state: StateInfo);
}
