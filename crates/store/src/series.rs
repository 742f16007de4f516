//! One array over many steps: the catalog is asked once for all of them, and what a selection picks is read from
//! their files by a few threads. HDF5 is not needed for it: the catalog knows where the bytes lie.
//!
//! ```text
//!  catalog: step, time, file, dtype, shape, offset, pieces   -> one row a step, in order
//!  threads: open file | pread the runs of the selection      -> its place in the result, step after step
//! ```

use crate::catalog::{StepRow, plan_of_series};
use crate::layout::{Layout, is_pack};
use crate::located::Located;
use crate::reader::Reader;
use crate::stepfile::Entry;
use forebay_types::{ArrayMeta, Code, Error, Order, Result, Selection, Shape};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::sync::Arc;
use std::thread;

/// More threads than this gain nothing: what is left is one system call after the other.
const THREADS: usize = 4;
/// Steps for which a thread more is worth its start.
const STEPS_A_THREAD: usize = 64;
/// Steps without the array that an error names.
const NAMED: usize = 10;

/// A step of a series: its array is not there where it has none of that name.
pub struct Planned {
    /// The step.
    pub row: StepRow,
    /// Its array.
    pub entry: Option<Entry>,
}

/// What is wanted of a series.
#[derive(Clone, Debug, Default)]
pub struct SeriesOptions {
    /// The part of each array.
    pub selection: Selection,
    /// These steps, in this order; none: all complete ones.
    pub steps: Option<Vec<i64>>,
    /// NaN stands for the array of a step that has none; otherwise that is an error.
    pub fill: bool,
}

/// One array, or the same part of it, at each of some steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is at one step; the order is that of its elements.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// The steps.
    pub steps: Vec<i64>,
    /// Time of each, if it was given.
    pub times: Vec<Option<f64>>,
    /// The bytes of all, one step behind the other.
    pub bytes: Vec<u8>,
}

impl Series {
    /// Its arrays as one, steps along an axis more: the first one where elements lie in C order, else the last one.
    pub fn stacked(&self) -> Result<ArrayMeta> {
        let mut extents = self.meta.shape.extents().to_vec();
        match self.meta.order {
            Order::C => extents.insert(0, self.steps.len() as u64),
            Order::F => extents.push(self.steps.len() as u64),
        }
        Ok(ArrayMeta { shape: Shape::new(&extents)?, ..self.meta })
    }
}

/// What all arrays of a series are. `Conflict` names the first step whose array is another one, `NotFound` those that
/// have none.
pub fn common(
    name: &str,
    steps: impl Iterator<Item = (i64, Option<ArrayMeta>)> + Clone,
    fill: bool,
) -> Result<ArrayMeta> {
    let there = || steps.clone().filter_map(|(step, meta)| meta.map(|meta| (step, meta)));
    let Some((first, meta)) = there().next() else {
        return Err(Error::new(Code::NotFound, format!("no step has a data set {name:?}")));
    };
    if let Some((step, other)) = there().find(|(_, other)| *other != meta) {
        return Err(Error::new(
            Code::Conflict,
            format!(
                "{name:?} is {meta} at step {first} and {other} at step {step}: arrays that differ do not stack; \
                 name steps whose arrays are alike, or read each by itself (in Python with ragged=True)"
            ),
        ));
    }
    let lacking: Vec<i64> = steps.clone().filter(|(_, meta)| meta.is_none()).map(|(step, _)| step).collect();
    match (lacking.is_empty(), fill, meta.dtype.nan()) {
        (true, ..) | (false, true, Some(_)) => Ok(meta),
        (false, true, None) => Err(Error::bad(format!(
            "{name:?} is {}, which has no NaN to stand for the {} steps without it; name steps that have it",
            meta.dtype,
            lacking.len()
        ))),
        (false, false, _) => Err(Error::new(Code::NotFound, lacks(name, &lacking, steps.count()))),
    }
}

/// Which steps have no array of that name, and what can be done.
fn lacks(name: &str, lacking: &[i64], of: usize) -> String {
    let shown: Vec<String> = lacking.iter().take(NAMED).map(i64::to_string).collect();
    let more = match lacking.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "{} of {of} steps have no data set {name:?}: {}{more}; have NaN stand for them (in Python missing=\"nan\"), or \
         name steps that have it",
        lacking.len(),
        shown.join(", ")
    )
}

/// What an array is at a step, if the step has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesStep {
    /// The step.
    pub step: i64,
    /// Its time, if it was given.
    pub time: Option<f64>,
    /// The array.
    pub meta: Option<ArrayMeta>,
    /// Its unit, or empty.
    pub units: String,
}

impl Reader {
    /// What an array is at each of some steps, or of all complete ones.
    pub fn series_steps(&self, name: &str, steps: Option<&[i64]>) -> Result<Vec<SeriesStep>> {
        let planned = self.plan_of_series(name, steps)?;
        let step = |Planned { row, entry }| {
            let (meta, units) = entry.map_or((None, String::new()), |e: Entry| (Some(e.meta), e.units));
            SeriesStep { step: row.step, time: row.time, meta, units }
        };
        Ok(planned.into_iter().map(step).collect())
    }

    /// The steps; at least one of them has the array.
    fn plan_of_series(&self, name: &str, steps: Option<&[i64]>) -> Result<Vec<Planned>> {
        let planned = match self.asked(|conn| plan_of_series(conn, name, steps))? {
            Ok(planned) => planned,
            // Its error names the nearest ones.
            Err(absent) => {
                self.step(absent)?;
                return self.plan_of_series(name, steps);
            }
        };
        match planned.last() {
            None => Err(Error::new(
                Code::NotFound,
                format!("the run has no complete snapshot, and so no {name:?} over steps"),
            )),
            // The error of one step names what it has instead.
            Some(last) if planned.iter().all(|p| p.entry.is_none()) => {
                self.step_info(last.row.step, name)?;
                self.plan_of_series(name, steps)
            }
            Some(_) => Ok(planned),
        }
    }

    /// One array over many steps, or a part of each.
    pub fn series(&self, name: &str, wanted: &SeriesOptions) -> Result<Series> {
        // A step may be made anew, or dropped, between the look into the catalog and the opening of its file.
        self.twice(|| {
            let planned = self.plan_of_series(name, wanted.steps.as_deref())?;
            let metas = planned.iter().map(|p| (p.row.step, p.entry.as_ref().map(|e| e.meta)));
            let whole = common(name, metas, wanted.fill)?;
            let shape = Selection::shape_of(&wanted.selection.resolve(&whole.shape)?)?;
            let meta = ArrayMeta { shape, ..whole };
            let units = planned.iter().find_map(|p| p.entry.as_ref()).map_or("", |e| &e.units).to_owned();
            let steps = planned.iter().map(|p| p.row.step).collect();
            let times = planned.iter().map(|p| p.row.time).collect();
            let bytes = read_all(self.layout(), planned, &meta, &wanted.selection)?;
            Ok(Series { meta, units, steps, times, bytes })
        })
    }
}

/// Reads the part of every array into its place.
fn read_all(layout: &Layout, planned: Vec<Planned>, meta: &ArrayMeta, sel: &Selection) -> Result<Vec<u8>> {
    let each = meta.bytes()? as usize;
    let mut bytes = forebay_arena::zeros(each.checked_mul(planned.len()).ok_or_else(|| {
        Error::new(
            Code::Full,
            format!("{} times {meta} is more than memory holds; read fewer steps", planned.len()),
        )
    })?)?;
    if each == 0 {
        return Ok(bytes);
    }
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let threads = THREADS.min(cores).min(planned.len().div_ceil(STEPS_A_THREAD));
    let share = planned.len().div_ceil(threads);
    let mut planned = planned.into_iter();
    thread::scope(|scope| {
        let mut rest = &mut bytes[..];
        let mut running = Vec::new();
        for n in 1..=threads {
            let mine: Vec<Planned> = planned.by_ref().take(share).collect();
            let (here, behind) = rest.split_at_mut(each * mine.len());
            rest = behind;
            match n == threads {
                false => running.push(scope.spawn(move || read_some(layout, mine, meta, sel, here))),
                true => read_some(layout, mine, meta, sel, here)?,
            }
        }
        let panicked = |_| Err(Error::internal("a thread that reads steps has panicked"));
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })?;
    Ok(bytes)
}

fn read_some(
    layout: &Layout,
    planned: Vec<Planned>,
    meta: &ArrayMeta,
    sel: &Selection,
    out: &mut [u8],
) -> Result<()> {
    let nan = meta.dtype.nan().unwrap_or_default();
    // Steps of one pack lie in one file.
    let mut pack: Option<(String, Arc<File>)> = None;
    for (Planned { row, entry }, place) in
        planned.into_iter().zip(out.chunks_exact_mut(meta.bytes()? as usize))
    {
        match entry {
            Some(entry) => {
                let open = pack.as_ref().filter(|(file, _)| *file == row.file);
                let located = match open {
                    Some((file, opened)) => {
                        Located::in_file(layout, entry, (row.step, file), opened.clone())?
                    }
                    None => {
                        let file = is_pack(&row.file).then(|| row.file.clone());
                        let located = Located::in_step(layout, entry, row)?;
                        pack = file.zip(located.file().cloned());
                        located
                    }
                };
                place.copy_from_slice(&located.read(sel)?.bytes);
            }
            None => place.chunks_exact_mut(nan.len()).for_each(|element| element.copy_from_slice(&nan)),
        }
    }
    Ok(())
}
