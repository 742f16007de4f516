//! Diagrams, the simulation's side: an update is one copy into shared memory, and next to
//! nothing while nobody watches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use forebay_arena::{TripleBuffer, TripleWriter};
use forebay_types::codec::Writer;
use forebay_types::control::History;
use forebay_types::record::Record;
use forebay_types::watch::{Declare, Diagram as Declared, Kind};
use forebay_types::{Code, Error, Name, Result, limits};

use super::core::Core;
use super::reduce;

/// How often an unwatched curve is copied all the same, for those who come late.
const UNWATCHED: Duration = Duration::from_secs(1);
/// Points that buffers hold at least, so that a growing curve keeps its place.
const LEAST: usize = 1024;

struct Curve {
    name: String,
    number: u32,
    slot: Option<TripleWriter>,
    copied: Option<Instant>,
}

struct Inner {
    core: Arc<Core>,
    declared: Declared,
    curves: Mutex<Vec<Curve>>,
    short: AtomicBool,
}

/// A diagram of the run. Cheap to clone.
#[derive(Clone)]
pub struct Diagram {
    inner: Arc<Inner>,
}

impl Diagram {
    pub(super) fn declare(core: &Arc<Core>, declared: Declared) -> Result<Diagram> {
        core.enter()?;
        Name::new(declared.title.as_str())?;
        if !matches!(declared.kind, Kind::Curve | Kind::Scatter | Kind::History) {
            return Err(Error::bad(format!(
                "diagrams of kind {:?} are not drawn by this version; use curve, scatter or history",
                declared.kind
            )));
        }
        if declared.reduce.is_some() && declared.kind != Kind::History {
            return Err(Error::bad(format!(
                "{:?} is no history; only the points of histories are reduced over the ranks",
                declared.title
            )));
        }
        if let Some(kind) = core.kind_of_diagram(&declared.title).filter(|kind| *kind != declared.kind) {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "the diagram {:?} is of kind {kind:?} already, and is declared as {:?}; give this one another title",
                    declared.title, declared.kind
                ),
            ));
        }
        core.declare(&Declare::Diagram(declared.clone()))?;
        Ok(Diagram {
            inner: Arc::new(Inner {
                core: core.clone(),
                declared,
                curves: Mutex::new(Vec::new()),
                short: AtomicBool::new(false),
            }),
        })
    }

    /// What was declared.
    pub fn declaration(&self) -> &Declared {
        &self.inner.declared
    }

    fn curves(&self) -> MutexGuard<'_, Vec<Curve>> {
        self.inner.curves.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether an update of this curve would be copied just now: somebody watches, or the last
    /// copy is a second old. Spares the caller conversions that nobody would see.
    pub fn wants(&self, curve: &str) -> bool {
        self.curves().iter().find(|c| c.name == curve).is_none_or(Curve::wants)
    }

    /// Replaces the points of a curve (`""`: the only one). Thinned while nobody watches.
    pub fn update(&self, curve: &str, x: &[f64], y: &[f64]) -> Result<()> {
        let inner = &*self.inner;
        let mut curves = self.curves();
        if let Some(known) = curves.iter().find(|c| c.name == curve)
            && !known.wants()
            && inner.core.life.good()
        {
            return Ok(());
        }
        inner.core.enter()?;
        if inner.declared.kind == Kind::History {
            return Err(Error::bad(format!(
                "{:?} is a history; append points to it instead of replacing them",
                inner.declared.title
            )));
        }
        if x.len() != y.len() {
            return Err(Error::bad(format!(
                "curve {curve:?} of {:?} has {} abscissae and {} ordinates; give as many of both",
                inner.declared.title,
                x.len(),
                y.len()
            )));
        }
        let at = self.number(&mut curves, curve)?;
        let found = &mut curves[at];
        if found.slot.is_none() {
            found.slot = self.slot(found, x.len())?;
        }
        let Some(slot) = found.slot.as_mut() else { return Ok(()) };
        let kind = inner.declared.kind;
        let n = reduce::remaining(kind, x.len(), slot.points() as usize);
        let step = inner.core.position.load(Ordering::Relaxed);
        let time = f64::from_bits(inner.core.time.load(Ordering::Relaxed));
        slot.publish(step, time, n as u32, |to_x, to_y| reduce::reduce(kind, x, y, to_x, to_y));
        found.copied = Some(Instant::now());
        Ok(())
    }

    /// Adds a point at `t` to each curve named; always recorded. Several ranks that do so at one step and `t` give
    /// one point: it has the value of the lowest rank, or what [`Declared::reduce`] makes of all values.
    pub fn append(&self, t: f64, values: &[(&str, f64)]) -> Result<()> {
        let inner = &*self.inner;
        inner.core.enter()?;
        if inner.declared.kind != Kind::History {
            return Err(Error::bad(format!(
                "{:?} is no history; give it points with update(x, y)",
                inner.declared.title
            )));
        }
        if values.is_empty() {
            return Err(Error::bad(format!(
                "a point of {:?} has no values; give one for each curve, by its name",
                inner.declared.title
            )));
        }
        inner.core.makes_again_in(History::Diagram(inner.declared.id))?;
        let mut curves = self.curves();
        let mut w = Writer::new();
        for (name, value) in values {
            let known = curves.len();
            let at = self.number(&mut curves, name)?;
            if at == known {
                inner.core.declare(&Declare::Curve {
                    diagram: inner.declared.id,
                    curve: at as u32,
                    name: (*name).to_owned(),
                })?;
            }
            w.u32(curves[at].number).f64(*value);
        }
        inner.core.time.store(t.to_bits(), Ordering::Relaxed);
        let step = inner.core.stamp();
        let values = w.finish();
        inner.core.publish(&Record::Append { diagram: inner.declared.id, step, t, values: &values })?;
        Ok(())
    }

    /// Index of a curve, which is its number; a new one is entered.
    fn number(&self, curves: &mut Vec<Curve>, name: &str) -> Result<usize> {
        if let Some(at) = curves.iter().position(|c| c.name == name) {
            return Ok(at);
        }
        if curves.len() >= limits::CURVES {
            return Err(Error::new(
                Code::Full,
                format!(
                    "the diagram {:?} has {} curves already and {name:?} is one more; use a second diagram",
                    self.inner.declared.title,
                    limits::CURVES
                ),
            ));
        }
        if !name.is_empty() {
            Name::new(name)?;
        }
        let number = curves.len() as u32;
        curves.push(Curve { name: name.to_owned(), number, slot: None, copied: None });
        Ok(curves.len() - 1)
    }

    /// Takes a block for the triple buffer and tells the owner of it. `None`: the arena is so
    /// full of snapshots that the picture has to wait.
    fn slot(&self, curve: &Curve, n: usize) -> Result<Option<TripleWriter>> {
        let inner = &*self.inner;
        let mut points = match inner.declared.kind {
            Kind::Curve => n.next_power_of_two().clamp(LEAST, limits::POINTS),
            _ => n.clamp(LEAST, limits::POINTS),
        };
        let mut rooms = inner.core.rooms();
        let (capacity, _) = rooms.capacity_and_high_water();
        // Pictures never take more than a part of the arena from the snapshots.
        while points > 64 && TripleBuffer::bytes_for(points as u32) > capacity / 16 {
            points /= 2;
        }
        let Some(block) = rooms.alloc_own(TripleBuffer::bytes_for(points as u32)) else {
            drop(rooms);
            if !inner.short.swap(true, Ordering::Relaxed) {
                let text = format!(
                    "no room in the buffer for the diagram {:?} now; a larger buffer shows it at once",
                    inner.declared.title
                );
                inner.core.message(2, &text)?;
            }
            return Ok(None);
        };
        rooms.fixed += 1;
        drop(rooms);
        let index = block.index();
        let writer = TripleBuffer::writer(block, points as u32)?;
        inner.core.declare(&Declare::Slot {
            diagram: inner.declared.id,
            curve: curve.number,
            name: curve.name.clone(),
            block: index,
            points: points as u32,
        })?;
        Ok(Some(writer))
    }
}

impl Curve {
    #[inline]
    fn wants(&self) -> bool {
        match (&self.slot, self.copied) {
            (Some(slot), Some(copied)) => slot.watched() || copied.elapsed() >= UNWATCHED,
            _ => true,
        }
    }
}
