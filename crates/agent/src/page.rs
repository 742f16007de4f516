//! A run on the monitor's page: what its owner tells is passed on, curves are read from the ranks' segments and
//! histories from the catalog, and acts come back.

use crate::owner::steering::Ack;
use crate::owner::{Page, Run};
use forebay_arena::{Segment, TripleBuffer};
use forebay_monitor::{Hub, Past, Rows, RunInfo, Source, Steer, StoredPoint};
use forebay_types::watch::{Act, Declare, StateInfo};
use forebay_types::{Code, Error, Result, limits};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// A run that is shown.
struct Shown {
    run_id: String,
    hub: Arc<Hub>,
    run: Arc<forebay_monitor::Run>,
}

/// Shows a run. Another one may be shown by that identity, for a copy of a run's directory has the same; then
/// `number` tells them apart.
pub fn show(
    hub: &Arc<Hub>,
    run: &Arc<Run>,
    info: RunInfo,
    number: impl FnOnce() -> u64,
) -> Result<Arc<dyn Page>> {
    let run_id = info.id.clone();
    let id = match hub.get(&run_id) {
        None => run_id.clone(),
        Some(_) => format!("{run_id}-{:x}", number()),
    };
    let past = Arc::new(Catalog(run.path().to_owned()));
    let shown = hub.add(RunInfo { id, ..info }, Arc::new(Wheel(Arc::downgrade(run))), Some(past))?;
    Ok(Arc::new(Shown { run_id, hub: hub.clone(), run: shown }))
}

impl Page for Shown {
    fn id(&self) -> &str {
        &self.run.info().id
    }

    fn run_id(&self) -> &str {
        &self.run_id
    }

    fn watching(&self) -> usize {
        self.run.watching()
    }

    fn hide(&self) {
        self.hub.remove(self.id());
    }

    fn declare(&self, rank: u32, what: &Declare, segment: &Segment) -> Result<()> {
        match what {
            Declare::Slot { diagram, curve, name, block, points } => {
                self.run.slot(rank, *diagram, *curve, name, slot(segment, *block, *points)?)
            }
            other => self.run.declare(rank, other),
        }
    }

    fn append(&self, rank: u32, diagram: u32, row: i64, step: i64, t: f64, values: &[(u32, f64)]) {
        // A point of an undeclared diagram is the program's fault and was said at its declaration.
        let _ = self.run.append(rank, diagram, row, step, t, values);
    }

    fn amend(&self, rank: u32, diagram: u32, curve: u32, row: i64, t: f64, value: f64) {
        let _ = self.run.amend(rank, diagram, curve, row, t, value);
    }

    fn went_back(&self) {
        self.run.went_back();
    }

    fn message(&self, level: u8, step: i64, text: &str) {
        self.run.message(level, step, text);
    }

    fn rank_left(&self, rank: u32) {
        self.run.rank_left(rank);
    }

    fn ack(&self, ack: &Ack) {
        self.run.ack(forebay_monitor::Ack {
            id: ack.id,
            who: ack.who.clone(),
            act: ack.act.clone(),
            phase: ack.phase,
            step: ack.step,
            text: ack.text.clone(),
        });
    }

    fn parameter(&self, name: &str, value: &serde_json::Value) {
        self.run.parameter(name, value);
    }

    fn state(&self, state: StateInfo) {
        self.run.state(state);
    }
}

/// The controller as the page holds it.
struct Wheel(Weak<Run>);

impl Steer for Wheel {
    fn act(&self, who: &str, act: &Act) -> Result<u64> {
        match self.0.upgrade() {
            Some(run) => run.steer(who, act),
            None => Err(Error::new(Code::Closed, "the run has ended; there is nothing to steer")),
        }
    }

    fn glance(&self) -> Option<StateInfo> {
        self.0.upgrade().map(|run| run.controller().glance())
    }
}

/// The histories of a run, as its catalog keeps them. Only the thread of the monitor that shows them opens it.
struct Catalog(PathBuf);

impl Past for Catalog {
    fn open(&self) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Points(forebay_store::Reader::open(&self.0)?)))
    }
}

struct Points(forebay_store::Reader);

impl Rows for Points {
    fn points(&mut self, rows: (i64, i64), of: Option<(u32, u32)>, most: usize) -> Result<Vec<StoredPoint>> {
        let all = self.0.points_between(rows, of, most)?;
        let kept = |p: forebay_store::catalog::Point| StoredPoint {
            row: p.row,
            diagram: p.diagram,
            curve: p.curve,
            t: p.t,
            value: p.value,
        };
        Ok(all.into_iter().map(kept).collect())
    }
}

/// The reading end of a curve in a rank's segment.
fn slot(segment: &Segment, block: u32, points: u32) -> Result<Box<dyn Source>> {
    if points as usize > limits::POINTS {
        return Err(Error::bad(format!(
            "a curve of {points} points is beyond the limit of {}",
            limits::POINTS
        )));
    }
    Ok(Box::new(TripleBuffer::reader(segment.block(block)?, points)?))
}
