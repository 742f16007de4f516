//! Snapshots, the reading side: complete steps, read in the caller's thread.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::reads::{Reads, of_step};
use forebay_store::catalog::{Moment, StepRow};
use forebay_store::stepfile::Entry;
use forebay_types::reading::Question;
use forebay_types::{Code, Error, Result, Selection, axis_path};
use serde_json::{Map, Value};

use crate::{Array, DataSet, MappedArray};

/// The complete snapshots of a run at the moment it was asked. What is asked of them is read then: the last one, and
/// one by its number, at once however many there are; their numbers when they are wanted.
#[derive(Clone)]
pub struct KeptSnapshots {
    reader: Arc<Reads>,
    moment: Moment,
    numbers: OnceLock<Arc<[i64]>>,
}

/// A complete snapshot.
#[derive(Clone)]
pub struct Kept {
    reader: Arc<Reads>,
    row: StepRow,
}

/// Arrays of a snapshot that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members {
    /// What each is called in it, and in the snapshot.
    pub arrays: Vec<(String, String)>,
    /// Records of a species that are one number for all particles.
    pub constants: BTreeMap<String, f64>,
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
        Ok(KeptSnapshots { moment: reader.ask(&Question::Moment)?, reader, numbers: OnceLock::new() })
    }

    /// Their numbers, ascending.
    pub fn numbers(&self) -> Result<&[i64]> {
        if self.numbers.get().is_none() {
            let read = self.reader.numbers_at(&self.moment)?.into();
            return Ok(self.numbers.get_or_init(|| read));
        }
        Ok(self.numbers.get().map_or(&[], |n| n))
    }

    /// How many.
    pub fn len(&self) -> Result<usize> {
        self.numbers().map(<[i64]>::len)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.moment.last.is_none()
    }

    /// The snapshot of a step; `NotFound` names the nearest ones. One that is marked as damaged is not
    /// listed, and found here: what is whole in it can be read.
    pub fn at(&self, step: i64) -> Result<Kept> {
        Kept::at(self.reader.clone(), step)
    }

    /// The i-th, from the end when negative; `NotFound` beyond.
    pub fn nth(&self, index: i64) -> Result<Kept> {
        if let (-1, Some(last)) = (index, self.last()) {
            return Ok(last);
        }
        let numbers = self.numbers()?;
        let at = if index < 0 { index + numbers.len() as i64 } else { index };
        match usize::try_from(at).ok().and_then(|i| numbers.get(i)) {
            Some(step) => self.at(*step),
            None => {
                let text = format!("there is no snapshot [{index}]: the run has {}", numbers.len());
                Err(Error::new(Code::NotFound, text))
            }
        }
    }

    /// The last one, if any.
    pub fn last(&self) -> Option<Kept> {
        self.moment.last.clone().map(|row| Kept { reader: self.reader.clone(), row })
    }
}

impl Kept {
    pub(crate) fn at(reader: Arc<Reads>, step: i64) -> Result<Kept> {
        let row = reader.ask(&Question::Step(step))?;
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
        self.reader.ask(&Question::StepNames(self.row.step))
    }

    /// Describes one array.
    pub fn dataset(&self, name: &str) -> Result<DataSet> {
        let question = Question::StepInfo { step: self.row.step, name: name.to_owned() };
        let entry: Entry = self.reader.ask(&question)?;
        Ok(DataSet {
            name: name.to_owned(),
            set: 0,
            nbytes: entry.meta.bytes()?,
            stats: entry.stats(),
            meta: entry.meta,
            units: entry.units,
            attrs: entry.about.attrs,
            dims: entry.about.dims,
            mesh: entry.about.mesh,
            species: entry.about.species,
            version: 0,
        })
    }

    /// The coordinates of an array: the arrays beside it that are called as its axes, where there are such. Each with
    /// the number of its axis and its name in the snapshot.
    pub fn coordinates(&self, name: &str) -> Result<Vec<(usize, String)>> {
        let dims = self.dataset(name)?.dims;
        if dims.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.names()?;
        let paths = dims.iter().map(|dim| axis_path(name, dim));
        Ok(paths.enumerate().filter(|(_, path)| names.contains(path)).collect())
    }

    /// The arrays that were put together as a mesh, a species of particles or a record of one. Empty: nothing is called so.
    pub fn members(&self, name: &str) -> Result<Members> {
        let (of_mesh, of_group) = (format!("{name}_"), format!("{name}/"));
        let mut found = Members::default();
        for array in self.names()? {
            let rest = array.strip_prefix(&of_mesh).or_else(|| array.strip_prefix(&of_group));
            let Some(rest) = rest else { continue };
            let question = Question::StepInfo { step: self.row.step, name: array.clone() };
            let entry: Entry = self.reader.ask(&question)?;
            let is_component =
                entry.about.mesh.is_some_and(|mesh| mesh.name == name && mesh.component == rest);
            let species =
                entry.about.species.filter(|s| array.starts_with(&of_group) && name.starts_with(&s.name));
            if is_component || species.is_some() {
                found.arrays.push((rest.to_owned(), array.clone()));
            }
            let constants = species.filter(|s| s.name == name).map(|s| s.constants);
            found.constants.extend(constants.into_iter().flatten().map(|(record, c)| (record, c.value)));
        }
        Ok(found)
    }

    /// Reads an array, or with a selection only that part of it.
    pub fn get(&self, name: &str, selection: Option<&Selection>) -> Result<Array> {
        self.reader.array(&of_step(name, self.row.step, selection))
    }

    /// An array as memory that is read when it is touched, as [`crate::Run::map`] gives it.
    pub fn map(&self, name: &str) -> Result<MappedArray> {
        self.reader.mapped(&of_step(name, self.row.step, None))
    }
}
