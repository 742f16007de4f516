//! One array over many steps.

use forebay_store::{Series, SeriesOptions, SeriesStep, common_of_series};
use forebay_types::reading::{Question, Wanted};
use forebay_types::{ArrayMeta, Code, Error, Result, Selection};

use crate::reads::{Reads, of_step};
use crate::{Array, Run};

impl Run {
    /// One array over many steps, or the same part of it at each: of all complete ones, or of those that
    /// `options.steps` names, in that order. On this host it is read from the files by a few threads; of a run on
    /// another one each step is a question, and many are under way together.
    ///
    /// Fails with `Conflict`, which names the first step whose array has another dtype or shape, and with `NotFound` when
    /// a step has no such array and `options.fill` is not set.
    pub fn series(&self, name: &str, options: &SeriesOptions) -> Result<Series> {
        self.settled_steps()?.series(name, options)
    }

    /// What the arrays are that [`Run::series`] would give, without reading them.
    pub fn series_info(&self, name: &str, options: &SeriesOptions) -> Result<ArrayMeta> {
        common(name, &self.settled_steps()?.series_steps(name, options.steps.clone())?, options.fill)
    }
}

fn common(name: &str, steps: &[SeriesStep], fill: bool) -> Result<ArrayMeta> {
    common_of_series(name, steps.iter().map(|s| (s.step, s.meta)), fill)
}

impl Reads {
    pub(crate) fn series_steps(&self, name: &str, steps: Option<Vec<i64>>) -> Result<Vec<SeriesStep>> {
        self.ask(&Question::Series { name: name.to_owned(), steps })
    }

    fn series(&self, name: &str, options: &SeriesOptions) -> Result<Series> {
        if let Reads::Here(reader) = self {
            return reader.series(name, options);
        }
        let steps = self.series_steps(name, options.steps.clone())?;
        let whole = common(name, &steps, options.fill)?;
        let there = |s: &&SeriesStep| s.meta.is_some();
        let wanted: Vec<Wanted> =
            steps.iter().filter(there).map(|s| of_step(name, s.step, Some(&options.selection))).collect();
        let arrays = self.arrays(&wanted)?;
        let shape = Selection::shape_of(&options.selection.resolve(&whole.shape)?)?;
        let meta = ArrayMeta { shape, ..whole };
        let (each, nan) = (meta.bytes()? as usize, meta.dtype.nan().unwrap_or_default());
        let mut bytes = Vec::new();
        let room = each.checked_mul(steps.len()).filter(|room| bytes.try_reserve_exact(*room).is_ok());
        room.ok_or_else(|| {
            let text = format!("{} times {meta} is more than memory holds; read fewer steps", steps.len());
            Error::new(Code::Full, text)
        })?;
        let mut arrays = arrays.into_iter();
        for step in &steps {
            match step.meta {
                None => (0..meta.shape.len()).for_each(|_| bytes.extend_from_slice(&nan)),
                Some(_) => bytes.extend_from_slice(&same(arrays.next(), name, step.step, &meta)?.bytes),
            }
        }
        let units = steps.iter().find(there).map_or(String::new(), |s| s.units.clone());
        let (steps, times) = steps.into_iter().map(|s| (s.step, s.time)).unzip();
        Ok(Series { meta, units, steps, times, bytes })
    }
}

/// The array of a step, which may have been made anew since it was asked what it is.
fn same(array: Option<Array>, name: &str, step: i64, meta: &ArrayMeta) -> Result<Array> {
    let array = array.filter(|array| array.meta == *meta);
    array.ok_or_else(|| {
        let text = format!("{name:?} of step {step} was made anew while it was read; read it again");
        Error::new(Code::Conflict, text)
    })
}
