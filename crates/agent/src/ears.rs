//! What the store passes on while it applies records: to the page and to the helm.

use crate::run::Run;
use crate::service::Shared;
use forebay_arena::{Segment, TripleBuffer};
use forebay_monitor::{Reading, Source};
use forebay_store::Sink;
use forebay_types::control::Ask;
use forebay_types::watch::Declare;
use forebay_types::{Error, Result, limits};
use std::sync::{Arc, Weak};

/// Listens for one run.
pub struct Ears {
    /// The run.
    pub run: Weak<Run>,
    /// The owner.
    pub shared: Weak<Shared>,
}

impl Ears {
    fn run(&self) -> Option<Arc<Run>> {
        self.run.upgrade()
    }
}

impl Sink for Ears {
    fn declare(&self, _session: u64, rank: u32, what: &Declare, segment: &Segment) {
        let Some(run) = self.run() else { return };
        run.helm().declare(rank, what);
        let Some(shown) = run.page() else { return };
        let told = match what {
            Declare::Slot { diagram, curve, name, block, points } => {
                slot(segment, *block, *points).and_then(|s| shown.slot(rank, *diagram, *curve, name, s))
            }
            other => shown.declare(rank, other),
        };
        let told = told.and_then(|()| match what {
            Declare::Curve { diagram, curve, .. } if rank == 0 => replay(&run, &shown, *diagram, *curve),
            _ => Ok(()),
        });
        if let Err(e) = told {
            shown.message(2, -1, &format!("rank {rank}: a declaration cannot be shown: {e}"));
        }
    }

    fn append(&self, session: u64, diagram: u32, step: i64, t: f64, values: &[(u32, f64)]) {
        let Some(run) = self.run() else { return };
        if let (Some(shown), Some(rank)) = (run.page(), run.rank_of(session)) {
            // A point of an undeclared diagram is the program's fault and was said at its declaration.
            let _ = shown.append(rank, diagram, step, t, values);
        }
    }

    fn applied(&self, session: u64, id: u64, step: i64, code: u32, text: &str) {
        let Some(run) = self.run() else { return };
        if let Some(rank) = run.rank_of(session) {
            run.helm().applied(&*run, rank, id, step, code, text);
        }
    }

    fn message(&self, _session: u64, level: u8, step: i64, text: &str) {
        if let Some(shown) = self.run().and_then(|r| r.page()) {
            shown.message(level, step, text);
        }
    }

    fn trouble(&self, text: &str) {
        if let (Some(shared), Some(run)) = (self.shared.upgrade(), self.run()) {
            shared.diary.warn(format_args!("{}: {text}", run.name()));
        }
    }

    fn ask(&self, _session: u64, _seq: u64, ask: &Ask) -> Option<Result<serde_json::Value>> {
        Some(match (ask, self.shared.upgrade(), self.run()) {
            (Ask::Monitor, Some(shared), Some(run)) => shared
                .links(&run.id())
                .and_then(|links| serde_json::to_value(links).map_err(|e| Error::internal(e.to_string()))),
            _ => {
                Err(Error::bad(format!("this owner does not answer {ask:?}; use one version on both sides")))
            }
        })
    }

    fn closed(&self, session: u64, clean: bool) {
        if let Some(run) = self.run() {
            run.closed(session, clean);
        }
    }
}

/// Points of a history that an earlier life of the run left in the catalog go on the page first:
/// a run that is continued shows its whole past. Points that are there already are replaced.
fn replay(run: &Run, page: &forebay_monitor::Run, diagram: u32, curve: u32) -> Result<()> {
    for (t, value) in forebay_store::Reader::open(run.path())?.points(diagram, curve)? {
        page.append(0, diagram, -1, t, &[(curve, value)])?;
    }
    Ok(())
}

/// The reading end of a curve in a rank's segment.
struct Slot {
    reader: forebay_arena::TripleReader,
}

fn slot(segment: &Segment, block: u32, points: u32) -> Result<Box<dyn Source>> {
    if points as usize > limits::POINTS {
        return Err(Error::bad(format!(
            "a curve of {points} points is beyond the limit of {}",
            limits::POINTS
        )));
    }
    Ok(Box::new(Slot { reader: TripleBuffer::reader(segment.block(block)?, points)? }))
}

impl Source for Slot {
    fn latest(&mut self) -> Result<Option<Reading>> {
        Ok(self.reader.latest().map(|(_, step, time, x, y)| Reading { step, time, x, y }))
    }

    fn watch(&mut self, watched: bool) {
        self.reader.watch(watched);
    }
}
