//! Where the points of a curve come from: something that always has the newest state and
//! never keeps its writer waiting.
//!
//! The hub polls a source only while somebody has the diagram open, and tells it so: the
//! simulation reads one word and copies nothing when nobody looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_arena::TripleReader;
use forebay_types::{Error, Result, limits};

/// The points of one curve at one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The step they belong to.
    pub step: i64,
    /// Its simulated time; NaN when not known.
    pub time: f64,
    /// Abscissae.
    pub x: Vec<f64>,
    /// Ordinates, as many.
    pub y: Vec<f64>,
}

/// The reading end of a slot that is overwritten by each update.
pub trait Source: Send {
    /// The newest points, if newer than those returned last.
    fn latest(&mut self) -> Result<Option<Reading>>;

    /// Tells the writer whether somebody looks.
    fn watch(&mut self, watched: bool);
}

/// The slot of another process: a triple buffer in a block of its segment.
impl Source for TripleReader {
    fn latest(&mut self) -> Result<Option<Reading>> {
        Ok(TripleReader::latest(self).map(|(_update, step, time, x, y)| Reading { step, time, x, y }))
    }

    fn watch(&mut self, watched: bool) {
        TripleReader::watch(self, watched);
    }
}

/// The writing end of a slot inside one process.
#[derive(Clone)]
pub struct LocalSlot {
    shared: Arc<LocalShared>,
}

struct LocalShared {
    newest: Mutex<Option<Reading>>,
    watched: AtomicBool,
}

struct LocalSource {
    shared: Arc<LocalShared>,
}

impl LocalSlot {
    /// A slot and its reading end.
    pub fn new() -> (LocalSlot, Box<dyn Source>) {
        let shared = Arc::new(LocalShared { newest: Mutex::new(None), watched: AtomicBool::new(false) });
        (LocalSlot { shared: shared.clone() }, Box::new(LocalSource { shared }))
    }

    /// Whether somebody looks.
    pub fn watched(&self) -> bool {
        self.shared.watched.load(Ordering::Relaxed)
    }

    /// Overwrites what was there. A reader in the middle of taking the points is not waited for:
    /// then this update is the one that nobody sees.
    pub fn publish(&self, reading: Reading) -> Result<()> {
        check(&reading)?;
        if let Ok(mut newest) = self.shared.newest.try_lock() {
            *newest = Some(reading);
        }
        Ok(())
    }
}

impl Source for LocalSource {
    fn latest(&mut self) -> Result<Option<Reading>> {
        Ok(self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    fn watch(&mut self, watched: bool) {
        self.shared.watched.store(watched, Ordering::Relaxed);
    }
}

/// Refuses what could not be drawn.
pub(crate) fn check(reading: &Reading) -> Result<()> {
    let (nx, ny) = (reading.x.len(), reading.y.len());
    if nx != ny {
        return Err(Error::bad(format!(
            "a curve has {nx} abscissae and {ny} ordinates; give as many of each"
        )));
    }
    if nx > limits::POINTS {
        return Err(Error::bad(format!(
            "a curve of {nx} points is beyond the limit of {}; reduce it before it is published",
            limits::POINTS
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_points_win_and_are_given_once() {
        let (slot, mut source) = LocalSlot::new();
        assert_eq!(source.latest().unwrap(), None);
        for step in 0..3 {
            let r = Reading { step, time: 0.1 * step as f64, x: vec![0.0], y: vec![step as f64] };
            slot.publish(r).unwrap();
        }
        assert_eq!(source.latest().unwrap().unwrap().step, 2);
        assert_eq!(source.latest().unwrap(), None);
    }

    #[test]
    fn the_writer_learns_whether_somebody_looks() {
        let (slot, mut source) = LocalSlot::new();
        assert!(!slot.watched());
        source.watch(true);
        assert!(slot.watched());
    }

    #[test]
    fn unequal_and_endless_curves_are_refused() {
        let (slot, _source) = LocalSlot::new();
        let uneven = Reading { x: vec![0.0], ..Reading::default() };
        assert!(slot.publish(uneven).unwrap_err().text().contains("1 abscissae and 0 ordinates"));
        let n = limits::POINTS + 1;
        let long = Reading { x: vec![0.0; n], y: vec![0.0; n], ..Reading::default() };
        assert!(slot.publish(long).is_err());
    }
}
