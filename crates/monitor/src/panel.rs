//! One diagram of a run, with its curves and where their points come from.

use std::sync::Arc;

use forebay_types::watch::{Diagram, Kind};
use forebay_types::{Error, Result, limits};

use crate::frame::{self, About};
use crate::history::{History, Limits, Want};
use crate::past::StoredPoint;
use crate::reduce::{self, Points, Window};
use crate::source::{self, Reading, Source};

/// Most points of one cloud on the wire; of more, a fixed subset goes.
pub const CLOUD: usize = 65_536;

/// A part of a curve, overwritten by one rank.
pub(crate) struct RankCurve {
    rank: u32,
    source: Box<dyn Source>,
    latest: Option<Arc<Reading>>,
}

/// A curve of a diagram.
#[derive(Default)]
pub(crate) struct Curve {
    pub number: u32,
    pub name: String,
    slots: Vec<RankCurve>,
    history: Arc<History>,
    fill: Fill,
}

/// How much of a history is here, where its past is kept ([`crate::past`]).
#[derive(Default)]
struct Fill {
    /// New points are taken as they are told.
    live: bool,
    /// The last row that is here.
    filled: i64,
    /// The last row that was told.
    told: i64,
    /// What was before could not be read.
    holed: bool,
}

#[cfg(test)]
impl Curve {
    /// Points of its history.
    pub fn count(&self) -> u64 {
        self.history.count()
    }
}

/// A diagram and its data.
pub(crate) struct Panel {
    pub about: Diagram,
    pub curves: Vec<Curve>,
    /// Counts up when data come; 0 before.
    pub version: u64,
    pub step: i64,
    pub time: f64,
    watched: bool,
    /// Points of its history are kept elsewhere and can be read again.
    kept: bool,
}

/// The data of a diagram as they are now, cheap to take under a lock and to encode outside it.
pub(crate) struct Still {
    kind: Kind,
    diagram: u32,
    step: i64,
    time: f64,
    kept: bool,
    pub(crate) curves: Vec<(u32, Vec<Arc<Reading>>, Arc<History>)>,
}

impl Panel {
    pub fn new(about: Diagram, kept: bool) -> Panel {
        Panel { about, curves: Vec::new(), version: 0, step: -1, time: f64::NAN, watched: false, kept }
    }

    /// Finds a curve or makes it.
    pub fn curve(&mut self, number: u32, name: Option<&str>) -> Result<&mut Curve> {
        let at = match self.curves.binary_search_by_key(&number, |c| c.number) {
            Ok(at) => at,
            Err(at) => {
                if self.curves.len() == limits::CURVES {
                    return Err(Error::bad(format!(
                        "diagram {:?} has {} curves already, the most there may be",
                        self.about.title,
                        limits::CURVES
                    )));
                }
                let name = format!("curve {}", number + 1);
                self.curves.insert(at, Curve { number, name, ..Curve::default() });
                at
            }
        };
        if let Some(name) = name {
            self.curves[at].name = name.to_owned();
        }
        Ok(&mut self.curves[at])
    }

    /// A rank overwrites its part of this curve from now on through `source`.
    pub fn slot(&mut self, rank: u32, number: u32, name: &str, mut source: Box<dyn Source>) -> Result<()> {
        source.watch(self.watched);
        let curve = self.curve(number, Some(name))?;
        match curve.slots.binary_search_by_key(&rank, |s| s.rank) {
            Ok(at) => curve.slots[at].source = source,
            Err(at) => curve.slots.insert(at, RankCurve { rank, source, latest: None }),
        }
        Ok(())
    }

    /// The sources of a rank that went: their last points stay, nobody polls them any more.
    pub fn rank_left(&mut self, rank: u32) {
        for curve in &mut self.curves {
            for slot in curve.slots.iter_mut().filter(|s| s.rank == rank) {
                slot.source = Box::new(Gone);
            }
        }
    }

    /// Adds a point to histories; its first value is kept in that row, the others follow.
    pub fn append(
        &mut self,
        row: i64,
        step: i64,
        t: f64,
        values: &[(u32, f64)],
        limits: Limits,
    ) -> Result<()> {
        let kept = self.kept;
        for ((number, value), row) in values.iter().zip(row..) {
            let curve = self.curve(*number, None)?;
            if kept && !(curve.fill.live && row > curve.fill.filled) {
                curve.fill.told = curve.fill.told.max(row);
                continue;
            }
            curve.fill.filled = row;
            // Copied only when a picture being encoded still holds on to the old one.
            Arc::make_mut(&mut curve.history).append(row, t, *value, limits);
        }
        self.news(step, t);
        Ok(())
    }

    /// A point of a history has another value. What is not here yet is read as it is then.
    pub fn amend(&mut self, number: u32, row: i64, t: f64, value: f64) {
        let Ok(at) = self.curves.binary_search_by_key(&number, |c| c.number) else { return };
        let curve = &mut self.curves[at];
        if !self.kept || row <= curve.fill.filled {
            Arc::make_mut(&mut curve.history).amend(row, t, value);
            self.version += 1;
        }
    }

    /// The row behind which rows are to be read for a curve of this history.
    pub fn unfilled(&self) -> Option<i64> {
        let missing = self.curves.iter().filter(|c| self.kept && !c.fill.live).map(|c| c.fill.filled);
        missing.min().filter(|_| self.about.kind == Kind::History)
    }

    /// A point that was read.
    pub fn fill(&mut self, p: &StoredPoint, limits: Limits) {
        let Ok(at) = self.curves.binary_search_by_key(&p.curve, |c| c.number) else { return };
        let curve = &mut self.curves[at];
        if !curve.fill.live && p.row > curve.fill.filled {
            curve.fill.filled = p.row;
            Arc::make_mut(&mut curve.history).append(p.row, p.t, p.value, limits);
        }
    }

    /// All rows up to this one were read; `end`: there were no more, `none`: there was none at all.
    pub fn filled(&mut self, row: i64, end: bool, none: bool) {
        if self.about.kind != Kind::History {
            return;
        }
        for curve in self.curves.iter_mut().filter(|c| !c.fill.live) {
            curve.fill.filled = curve.fill.filled.max(row);
            curve.fill.live = end && (curve.fill.told <= row || none);
            self.version += 1;
        }
    }

    /// The past cannot be read: what comes from now on is shown.
    pub fn give_up(&mut self) {
        for curve in self.curves.iter_mut().filter(|c| !c.fill.live) {
            curve.fill = Fill { live: true, filled: curve.fill.told, holed: true, ..Fill::default() };
        }
    }

    /// The points of a bucket were read.
    pub fn open(&mut self, curve: u32, want: &Want, points: &Points, limits: Limits) {
        if let Ok(at) = self.curves.binary_search_by_key(&curve, |c| c.number) {
            Arc::make_mut(&mut self.curves[at].history).open(want, points, limits);
            self.version += 1;
        }
    }

    /// What is here of its history is of another past.
    pub fn forget(&mut self) {
        self.forget_curves(|_| true);
    }

    fn forget_curves(&mut self, which: impl Fn(&Fill) -> bool) {
        for curve in self.curves.iter_mut().filter(|c| which(&c.fill)) {
            curve.history = Arc::default();
            curve.fill = Fill::default();
            // 0 stands for no data at all, which is nothing to send.
            self.version += u64::from(self.version > 0);
        }
    }

    /// Somebody looks at something else.
    pub fn look_anew(&mut self) {
        self.forget_curves(|fill| fill.holed);
        for curve in self.curves.iter_mut().filter(|c| c.history.is_crowded()) {
            Arc::make_mut(&mut curve.history).look_anew();
            self.version += 1;
        }
    }

    /// Whether somebody looks.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Tells the writers whether somebody looks.
    pub fn watch(&mut self, watched: bool) {
        self.watched = watched;
        for slot in self.curves.iter_mut().flat_map(|c| &mut c.slots) {
            slot.source.watch(watched);
        }
    }

    /// Takes what is new. A source that fails is not asked again; its error is for the messages.
    pub fn poll(&mut self) -> Option<Error> {
        let mut failed = None;
        let mut newest = None;
        for slot in self.curves.iter_mut().flat_map(|c| &mut c.slots) {
            let news = slot.source.latest().and_then(|r| {
                r.as_ref().map_or(Ok(()), source::check)?;
                Ok(r)
            });
            match news {
                Ok(Some(reading)) => {
                    newest = Some((reading.step, reading.time));
                    slot.latest = Some(Arc::new(reading));
                }
                Ok(None) => {}
                Err(e) => {
                    slot.source = Box::new(Gone);
                    failed = Some(e.within(format!("diagram {:?} is not drawn further", self.about.title)));
                }
            }
        }
        if let Some((step, time)) = newest {
            self.news(step, time);
        }
        failed
    }

    fn news(&mut self, step: i64, time: f64) {
        self.version += 1;
        self.step = step;
        self.time = time;
    }

    pub fn still(&self) -> Still {
        let parts = |c: &Curve| c.slots.iter().filter_map(|s| s.latest.clone()).collect();
        Still {
            kind: self.about.kind,
            diagram: self.about.id,
            step: self.step,
            time: self.time,
            kept: self.kept,
            curves: self.curves.iter().map(|c| (c.number, parts(c), c.history.clone())).collect(),
        }
    }
}

/// A source whose writer is no more.
struct Gone;

impl Source for Gone {
    fn latest(&mut self) -> Result<Option<Reading>> {
        Ok(None)
    }
    fn watch(&mut self, _watched: bool) {}
}

impl Still {
    /// All curves, reduced to the window, as one message; and the buckets that should be opened, by curve.
    pub fn encode(&self, window: &Window) -> (Vec<u8>, Vec<(u32, Want)>) {
        let (mut out, mut wants) = (Vec::new(), Vec::new());
        for (i, (curve, parts, history)) in self.curves.iter().enumerate() {
            let last = if i + 1 == self.curves.len() { frame::LAST } else { 0 };
            let mut about =
                About { diagram: self.diagram, curve: *curve, step: self.step, time: self.time, flags: last };
            if self.kind == Kind::Scatter {
                let all = joined(parts, false);
                let cloud = reduce::stride(&all.x, &all.y, CLOUD);
                about.flags |= if cloud.len() < all.len() { frame::DECIMATED } else { 0 };
                frame::points(&mut out, &about, &cloud);
                continue;
            }
            let (points, reduced) = if self.kind == Kind::History {
                let drawn = history.draw(window);
                if self.kept && !drawn.wants.is_empty() {
                    about.flags |= frame::COARSE;
                    wants.extend(drawn.wants.iter().map(|w| (*curve, *w)));
                }
                (drawn.points, drawn.reduced)
            } else {
                let all = joined(parts, true);
                reduce::m4(&all.x, &all.y, window)
            };
            about.flags |= if reduced { frame::DECIMATED } else { 0 };
            frame::curve(&mut out, &about, &points);
        }
        (out, wants)
    }
}

/// The parts of all ranks, in the order of ranks; a line is not drawn across a gap between them.
fn joined(parts: &[Arc<Reading>], line: bool) -> Points {
    let mut all = Points::default();
    for part in parts {
        if line && all.x.last().zip(part.x.first()).is_some_and(|(a, b)| b < a) {
            all.x.push(part.x[0]);
            all.y.push(f64::NAN);
        }
        all.x.extend_from_slice(&part.x);
        all.y.extend_from_slice(&part.y);
    }
    all
}
