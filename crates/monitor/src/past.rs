//! The past of histories, read where it is kept for good.
//!
//! Points of histories are kept by the owner of the run; here is only what is looked at. A curve that
//! nobody has looked at yet is empty: it is filled when a viewer opens its diagram, from the rows that are
//! kept, by a thread that lives while there is something to read. New points are told meanwhile, and when
//! all rows up to them are read, the curve is *live*: it takes new points as they are told. The same thread
//! reads again what stands in buckets that are wider than a picture can bear ([`crate::history`]). Whoever
//! tells of points never waits for a reader.

use std::collections::BTreeMap;

use forebay_types::watch::Kind;
use forebay_types::{Error, Result};

use crate::history::{Limits, Want};
use crate::panel::Panel;
use crate::reduce::Points;
use crate::run::{Inner, Run};

/// Rows read at a time.
const CHUNK: usize = 16_384;

/// A point of a history as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredPoint {
    /// Number of its row; counts up in the order in which points came.
    pub row: i64,
    /// The diagram, as the program numbers it.
    pub diagram: u32,
    /// The curve.
    pub curve: u32,
    /// Abscissa.
    pub t: f64,
    /// Ordinate.
    pub value: f64,
}

/// Where the points of histories are kept. Points that were told ([`Run::append`]) can be read.
pub trait Past: Send + Sync {
    /// Opens it, on the thread that reads.
    fn open(&self) -> Result<Box<dyn Rows>>;
}

/// The rows of points, open for reading.
pub trait Rows {
    /// Points in rows from the first to the second, both among them, in order, at most `most`; of
    /// one diagram and curve if asked.
    fn points(&mut self, rows: (i64, i64), of: Option<(u32, u32)>, most: usize) -> Result<Vec<StoredPoint>>;
}

/// What is to be read, and who reads.
#[derive(Default)]
pub(crate) struct Reading {
    running: bool,
    /// Reading failed; it is tried again when somebody looks at something else.
    broken: bool,
    /// Counts how often the run went back: what was read before is of another past.
    epoch: u64,
    /// By diagram, curve and bucket.
    wants: BTreeMap<(u32, u32, usize), Want>,
}

enum Job {
    /// The rows behind this one.
    Fill(i64),
    /// The points of a bucket, of a diagram as the program numbers it.
    Open { panel: u32, of: (u32, u32), want: Want },
}

impl Run {
    /// Has read what is missing, if anything is.
    pub(crate) fn read_past(&self, inner: &mut Inner) {
        if !self.has_past() || inner.reading.running || inner.reading.broken || inner.next_job().is_none() {
            return;
        }
        let me = self.me();
        let read = move || {
            forebay_host::threads::work_behind();
            let mut rows = None;
            while me.upgrade().is_some_and(|run| run.read_some(&mut rows)) {}
        };
        // Without a thread it is tried again at the next point or view.
        inner.reading.running = std::thread::Builder::new().name("fb-past".into()).spawn(read).is_ok();
    }

    /// Wanted buckets of a diagram.
    pub(crate) fn want(&self, panel: u32, wants: Vec<(u32, Want)>) {
        if wants.is_empty() || !self.has_past() {
            return;
        }
        let mut inner = self.inner();
        for (curve, want) in wants {
            inner.reading.wants.insert((panel, curve, want.bucket), want);
        }
        self.read_past(&mut inner);
    }

    /// Reads once. False: there is nothing to read.
    fn read_some(&self, rows: &mut Option<Box<dyn Rows>>) -> bool {
        let (job, epoch) = {
            let mut inner = self.inner();
            let job = inner.next_job();
            inner.reading.running = job.is_some();
            let Some(job) = job else { return false };
            if let Job::Open { panel, of, want } = &job {
                inner.reading.wants.remove(&(*panel, of.1, want.bucket));
            }
            (job, inner.reading.epoch)
        };
        let read = self.read(rows, &job);
        let mut inner = self.inner();
        match read {
            Err(e) => inner.reading_failed(&e),
            Ok(_) if inner.reading.epoch != epoch => {}
            Ok(points) => match job {
                Job::Fill(after) => inner.fill(after, &points),
                Job::Open { panel, of, want } => inner.open(panel, of.1, &want, &points),
            },
        }
        true
    }

    fn read(&self, rows: &mut Option<Box<dyn Rows>>, job: &Job) -> Result<Vec<StoredPoint>> {
        let rows = match rows {
            Some(rows) => rows,
            None => rows.insert(self.open_past()?),
        };
        match job {
            Job::Fill(after) => rows.points((after + 1, i64::MAX), None, CHUNK),
            Job::Open { of, want, .. } => rows.points(want.rows, Some(*of), usize::MAX),
        }
    }

    /// The run went back to an earlier step: what is shown of histories is read anew.
    pub fn went_back(&self) {
        if !self.has_past() {
            return;
        }
        let mut inner = self.inner();
        inner.reading.epoch += 1;
        inner.reading.wants.clear();
        inner.panels.values_mut().for_each(Panel::forget);
        self.read_past(&mut inner);
    }
}

impl Inner {
    fn next_job(&self) -> Option<Job> {
        let unfilled = self.panels.values().filter(|p| p.is_watched()).filter_map(Panel::unfilled).min();
        if let Some(after) = unfilled {
            return Some(Job::Fill(after));
        }
        let ((panel, curve, _), want) = self.reading.wants.first_key_value()?;
        let diagram = self.kept_as.iter().find(|(_, shown)| **shown == *panel).map(|(kept, _)| *kept)?;
        Some(Job::Open { panel: *panel, of: (diagram, *curve), want: *want })
    }

    /// Somebody looks at something else: what failed may be tried again, what was too much may fit.
    pub(crate) fn look_anew(&mut self) {
        self.reading.broken = false;
        self.reading.wants.clear();
        self.panels.values_mut().for_each(Panel::look_anew);
    }

    fn fill(&mut self, after: i64, points: &[StoredPoint]) {
        let limits = self.limits();
        for p in points {
            let panel = self.kept_as.get(&p.diagram).and_then(|id| self.panels.get_mut(id));
            if let Some(panel) = panel.filter(|panel| panel.is_watched()) {
                panel.fill(p, limits);
            }
        }
        let last = points.last().map_or(after, |p| p.row);
        for panel in self.panels.values_mut().filter(|p| p.is_watched()) {
            panel.filled(last, points.len() < CHUNK, points.is_empty());
        }
    }

    fn open(&mut self, panel: u32, curve: u32, want: &Want, points: &[StoredPoint]) {
        let limits = self.limits();
        let read =
            Points { x: points.iter().map(|p| p.t).collect(), y: points.iter().map(|p| p.value).collect() };
        if let Some(panel) = self.panels.get_mut(&panel) {
            panel.open(curve, want, &read, limits);
        }
    }

    fn reading_failed(&mut self, error: &Error) {
        self.reading.broken = true;
        self.reading.wants.clear();
        let histories = self.panels.values_mut().filter(|p| p.about.kind == Kind::History);
        histories.filter(|p| p.is_watched()).for_each(Panel::give_up);
        self.message(2, -1, &format!("the past of histories cannot be shown: {}", error.text()));
    }

    /// What each curve of a history may keep.
    pub(crate) fn limits(&self) -> Limits {
        let histories = self.panels.values().filter(|p| p.about.kind == Kind::History);
        Limits::of(histories.map(|p| p.curves.len()).sum())
    }
}

#[cfg(test)]
#[path = "past_tests.rs"]
mod tests;
