//! One diagram of a run, with its curves and where their points come from.

use std::sync::Arc;

use forebay_types::watch::{Diagram, Kind};
use forebay_types::{Error, Result, limits};

use crate::frame::{self, About};
use crate::history::{self, History};
use crate::reduce::{self, Points, Window};
use crate::source::{self, Reading, Source};

/// Most points of one cloud on the wire; of more, a fixed subset goes.
pub const CLOUD: usize = 65_536;

/// A part of a curve, overwritten by one rank.
pub(crate) struct Slot {
    rank: u32,
    source: Box<dyn Source>,
    latest: Option<Arc<Reading>>,
}

/// A curve of a diagram.
#[derive(Default)]
pub(crate) struct Curve {
    pub number: u32,
    pub name: String,
    slots: Vec<Slot>,
    history: Arc<History>,
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
}

/// The data of a diagram as they are now, cheap to take under a lock and to encode outside it.
pub(crate) struct Still {
    kind: Kind,
    diagram: u32,
    step: i64,
    time: f64,
    curves: Vec<(u32, Vec<Arc<Reading>>, Arc<History>)>,
}

impl Panel {
    pub fn new(about: Diagram) -> Panel {
        Panel { about, curves: Vec::new(), version: 0, step: -1, time: f64::NAN, watched: false }
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
            Err(at) => curve.slots.insert(at, Slot { rank, source, latest: None }),
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

    /// Adds a point to histories.
    pub fn append(&mut self, step: i64, t: f64, values: &[(u32, f64)], most: usize) -> Result<()> {
        for (number, value) in values {
            let curve = self.curve(*number, None)?;
            // Copied only when a picture being encoded still holds on to the old one.
            Arc::make_mut(&mut curve.history).append(t, *value, most);
        }
        self.news(step, t);
        Ok(())
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
    /// All curves, reduced to the window, as one message.
    pub fn encode(&self, window: &Window) -> Vec<u8> {
        let mut out = Vec::new();
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
                let kept = history.points();
                let (p, reduced) = reduce::m4(&kept.x, &kept.y, window);
                (p, reduced || history.halved())
            } else {
                let all = joined(parts, true);
                reduce::m4(&all.x, &all.y, window)
            };
            about.flags |= if reduced { frame::DECIMATED } else { 0 };
            frame::curve(&mut out, &about, &points);
        }
        out
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

/// Points that each history of a run may keep, given all its diagrams.
pub(crate) fn allowance<'a>(panels: impl Iterator<Item = &'a Panel>) -> usize {
    history::allowance(panels.filter(|p| p.about.kind == Kind::History).map(|p| p.curves.len()).sum())
}
