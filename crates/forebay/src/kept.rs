//! Snapshots, the reading side: complete steps, read in the caller's thread.

use std::sync::Arc;

use crate::reads::Reads;
use forebay_store::catalog::StepRow;
use forebay_types::{Code, Error, Result, Selection};
use serde_json::{Map, Value};

use crate::{Array, DataSet};

/// The complete snapshots of a run at the moment it was asked.
#[derive(Clone)]
pub struct KeptSnapshots {
    reader: Arc<Reads>,
    rows: Arc<[StepRow]>,
    numbers: Arc<[i64]>,
}

/// A complete snapshot.
#[derive(Clone)]
pub struct Kept {
    reader: Arc<Reads>,
    row: StepRow,
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
    /// Numbers of the damaged snapshots that were passed over.
    pub passed: Vec<i64>,
}

impl KeptSnapshots {
    pub(crate) fn of(reader: Arc<Reads>) -> Result<KeptSnapshots> {
        let rows: Arc<[StepRow]> = reader.steps()?.into();
        let numbers = rows.iter().map(|r| r.step).collect();
        Ok(KeptSnapshots { reader, rows, numbers })
    }

    /// Their numbers, ascending.
    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn kept(&self, row: &StepRow) -> Kept {
        Kept { reader: self.reader.clone(), row: row.clone() }
    }

    /// The snapshot of a step; `NotFound` names the nearest ones. One that is marked as damaged is not
    /// listed, and found here: what is whole in it can be read.
    pub fn at(&self, step: i64) -> Result<Kept> {
        match self.numbers.binary_search(&step) {
            Ok(i) => Ok(self.kept(&self.rows[i])),
            Err(i) => {
                if let Ok(marked) = Kept::at(self.reader.clone(), step) {
                    return Ok(marked);
                }
                let near = [i.checked_sub(1), Some(i)].into_iter().flatten();
                let near: Vec<String> =
                    near.filter_map(|i| self.numbers.get(i)).map(i64::to_string).collect();
                let known = if near.is_empty() { "there is none".into() } else { near.join(" and ") };
                Err(Error::new(
                    Code::NotFound,
                    format!("there is no complete snapshot of step {step}; the nearest: {known}"),
                ))
            }
        }
    }

    /// The i-th, from the end when negative; `NotFound` beyond.
    pub fn nth(&self, index: i64) -> Result<Kept> {
        let at = if index < 0 { index + self.len() as i64 } else { index };
        let row = usize::try_from(at).ok().and_then(|i| self.rows.get(i));
        row.map(|row| self.kept(row)).ok_or_else(|| {
            Error::new(Code::NotFound, format!("there is no snapshot [{index}]: the run has {}", self.len()))
        })
    }

    /// The last one, if any.
    pub fn last(&self) -> Result<Option<Kept>> {
        Ok(self.rows.last().map(|row| self.kept(row)))
    }
}

impl Kept {
    pub(crate) fn at(reader: Arc<Reads>, step: i64) -> Result<Kept> {
        let row = reader.step(step)?;
        Ok(Kept { reader, row })
    }

    /// Its number.
    pub fn step(&self) -> i64 {
        self.row.step
    }

    /// Its time, if one was given.
    pub fn time(&self) -> Option<f64> {
        self.row.time
    }

    /// Bytes of its arrays.
    pub fn nbytes(&self) -> u64 {
        self.row.nbytes
    }

    /// Values of the parameters when it was taken.
    pub fn parameters(&self) -> &Map<String, Value> {
        &self.row.parameters
    }

    /// The names of its arrays.
    pub fn names(&self) -> Result<Vec<String>> {
        self.reader.step_names(self.row.step)
    }

    /// Describes one array.
    pub fn dataset(&self, name: &str) -> Result<DataSet> {
        let entry = self.reader.step_info(self.row.step, name)?;
        Ok(DataSet {
            name: name.to_owned(),
            set: 0,
            nbytes: entry.meta.bytes()?,
            meta: entry.meta,
            unit: entry.unit,
            attrs: Map::new(),
            version: 0,
        })
    }

    /// Reads an array, or with a selection only that part of it.
    pub fn get(&self, name: &str, selection: Option<&Selection>) -> Result<Array> {
        let whole = Selection::default();
        self.reader.step_get(self.row.step, name, selection.unwrap_or(&whole))
    }
}
