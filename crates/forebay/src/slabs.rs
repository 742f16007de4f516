//! Reading for the tools that take data elsewhere or compare them: in parts, whatever the size.

use forebay_store::SeriesStep;
use forebay_types::reading::Wanted;
use forebay_types::{ArrayMeta, Code, Error, Order, Result, Selection, Strided};

use crate::reads::{Reads, of_set, of_step};
use crate::{Array, Run};

/// An array of a run: a data set by its set number, or an array of a snapshot by its step.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// A data set outside snapshots.
    Set(i64),
    /// An array of a snapshot.
    Step(i64),
}

impl Which {
    fn wanted<'a>(self, name: &'a str, selection: Option<&Selection>) -> Wanted<'a> {
        match self {
            Which::Set(set) => of_set(name, set, selection),
            Which::Step(step) => of_step(name, step, selection),
        }
    }
}

impl Array {
    /// Its elements with the last index running fastest.
    #[doc(hidden)]
    pub fn into_row_major(self) -> Result<Vec<u8>> {
        if self.meta.order == Order::C || self.meta.shape.rank() < 2 {
            return Ok(self.bytes);
        }
        let apart = Strided::dense(&self.meta)?;
        let mut out = forebay_arena::zeros(apart.bytes())?;
        apart.gather(&self.bytes, &mut out);
        Ok(out)
    }
}

impl Run {
    /// A part of an array.
    #[doc(hidden)]
    pub fn part(&self, name: &str, which: Which, selection: &Selection) -> Result<Array> {
        self.settled()?.array(&which.wanted(name, Some(selection)))
    }

    /// Reads what a selection picks of an array in parts of at most `most` bytes, or of one element, in the order of its
    /// elements. The last part comes when all of them are known to be what was written.
    #[doc(hidden)]
    pub fn slabs(
        &self,
        name: &str,
        which: Which,
        meta: &ArrayMeta,
        selection: &Selection,
        most: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let reader = self.settled()?;
        match &*reader {
            Reads::Here(reader) => {
                let found = match which {
                    Which::Set(set) => reader.locate(name, set)?,
                    Which::Step(step) => reader.locate_in_step(step, name)?,
                };
                if found.meta != *meta {
                    let text = format!("{name:?} was put anew while it was read; do it again");
                    return Err(Error::new(Code::Conflict, text));
                }
                found.slabs(selection, most, |bytes, _| take(bytes))
            }
            Reads::There(_) => {
                for slab in selection.slabs(meta, most)? {
                    take(&reader.array(&which.wanted(name, Some(&slab)))?.bytes)?;
                }
                Ok(())
            }
        }
    }

    /// The same of a whole array with the last index running fastest, whatever the order of its elements.
    #[doc(hidden)]
    pub fn slabs_row_major(
        &self,
        name: &str,
        which: Which,
        meta: &ArrayMeta,
        most: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if meta.order == Order::C || meta.shape.rank() < 2 {
            return self.slabs(name, which, meta, &Selection::default(), most, take);
        }
        let parts = Selection::default().slabs(&ArrayMeta { order: Order::C, ..*meta }, most)?;
        if parts.len() > 1 {
            // Parts of another order are not compared with the checksums.
            self.slabs(name, which, meta, &Selection::default(), most, &mut |_| Ok(()))?;
        }
        for part in parts {
            take(&self.part(name, which, &part)?.into_row_major()?)?;
        }
        Ok(())
    }

    /// What an array is at each of some steps; nothing when none of them has it.
    #[doc(hidden)]
    pub fn over_steps(&self, name: &str, steps: &[i64]) -> Result<Vec<SeriesStep>> {
        match self.settled_steps()?.series_steps(name, Some(steps.to_vec())) {
            Err(e) if e.code() == Code::NotFound => Ok(Vec::new()),
            found => found,
        }
    }
}
