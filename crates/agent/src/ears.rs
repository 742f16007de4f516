//! What the store passes on while it applies records: to the page and to the helm.

use crate::run::Run;
use crate::service::Shared;
use forebay_arena::{Segment, TripleBuffer};
use forebay_monitor::{Kept, Past, Reading, Rows, Source};
use forebay_store::Sink;
use forebay_types::control::Ask;
use forebay_types::watch::Declare;
use forebay_types::{Error, Result, limits};
use std::path::PathBuf;
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
        run.helm().declare(&*run, rank, what);
        let Some(shown) = run.page() else { return };
        let told = match what {
            Declare::Slot { diagram, curve, name, block, points } => {
                slot(segment, *block, *points).and_then(|s| shown.slot(rank, *diagram, *curve, name, s))
            }
            other => shown.declare(rank, other),
        };
        if let Err(e) = told {
            shown.message(2, -1, &format!("rank {rank}: a declaration cannot be shown: {e}"));
        }
    }

    fn append(&self, session: u64, diagram: u32, row: i64, step: i64, t: f64, values: &[(u32, f64)]) {
        let Some(run) = self.run() else { return };
        if let (Some(shown), Some(rank)) = (run.page(), run.rank_of(session)) {
            // A point of an undeclared diagram is the program's fault and was said at its declaration.
            let _ = shown.append(rank, diagram, row, step, t, values);
        }
    }

    fn amend(&self, session: u64, diagram: u32, curve: u32, row: i64, t: f64, value: f64) {
        let Some(run) = self.run() else { return };
        if let (Some(shown), Some(rank)) = (run.page(), run.rank_of(session)) {
            let _ = shown.amend(rank, diagram, curve, row, t, value);
        }
    }

    fn went_back(&self) {
        if let Some(shown) = self.run().and_then(|r| r.page()) {
            shown.went_back();
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
            run.remark(text);
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

/// The histories of a run, as its catalog keeps them. Only the thread of the monitor that shows them opens it.
pub struct Catalog(pub PathBuf);

impl Past for Catalog {
    fn open(&self) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Points(forebay_store::Reader::open(&self.0)?)))
    }
}

struct Points(forebay_store::Reader);

impl Rows for Points {
    fn points(&mut self, rows: (i64, i64), of: Option<(u32, u32)>, most: usize) -> Result<Vec<Kept>> {
        let all = self.0.points_between(rows, of, most)?;
        let kept = |p: forebay_store::catalog::Point| Kept {
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
