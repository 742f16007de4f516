//! Snapshots, the reading side: complete steps, read in the caller's thread.

use forebay_types::{Result, Selection};
use serde_json::{Map, Value};

use crate::snapshot::pending;
use crate::{Array, DataSet};

/// The complete snapshots of a run at the moment it was asked.
#[derive(Clone)]
pub struct KeptSnapshots {
    numbers: Vec<i64>,
}

/// A complete snapshot.
#[derive(Clone)]
pub struct Kept {
    step: i64,
    time: Option<f64>,
}

/// Where a restart goes on.
#[derive(Clone)]
pub struct Restart {
    /// The last complete snapshot.
    pub snapshot: Kept,
    /// Values of the parameters at that step.
    pub parameters: Map<String, Value>,
    /// Whether the run had been closed as finished: nothing is left to do.
    pub finished: bool,
}

impl KeptSnapshots {
    /// Their numbers, ascending.
    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The snapshot of a step; `NotFound` names the nearest ones.
    pub fn at(&self, step: i64) -> Result<Kept> {
        let _ = step;
        pending()
    }

    /// The i-th, from the end when negative; `NotFound` beyond.
    pub fn nth(&self, index: i64) -> Result<Kept> {
        let _ = index;
        pending()
    }

    /// The last one, if any.
    pub fn last(&self) -> Result<Option<Kept>> {
        pending()
    }
}

impl Kept {
    /// Its number.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// Its time, if one was given.
    pub fn time(&self) -> Option<f64> {
        self.time
    }

    /// The names of its arrays.
    pub fn names(&self) -> Result<Vec<String>> {
        pending()
    }

    /// Describes one array.
    pub fn dataset(&self, name: &str) -> Result<DataSet> {
        let _ = name;
        pending()
    }

    /// Reads an array, or with a selection only that part of it.
    pub fn get(&self, name: &str, selection: Option<&Selection>) -> Result<Array> {
        let _ = (name, selection);
        pending()
    }
}
