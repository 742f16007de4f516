//! A file that shows arrays over many steps, each as one virtual data set over the files of the steps: nothing is
//! copied.
//!
//! ```text
//!  /E      (steps, 8, 4)   [0] -> steps/0000000000.h5 /E    [1] -> steps/0000000010.h5 /E   ...   NaN where a file is gone
//!                          [2] -> packs/0000000020-0000009990.h5 /E[0]   ...
//!  /x      (8,)            -> the first of these files: a coordinate that is the same everywhere
//!  /step   (steps,)        the numbers, and /time (steps,)
//!  /here   (steps,)        the first letter of each step's manifest: "{", and nothing where its file is gone
//!  /forebay/view           JSON: what is shown, so that the view can be made without a step that was dropped
//! ```
//!
//! Axes are dimension scales, as in the file of a step.

use super::hdf::{Frame, Opened, describe_array, failed_io, layout_of};
use super::{Entry, MANIFEST, Manifest, scales};
use forebay_types::{ArrayMeta, DType, Description, Error, Order, Result, Shape};
use hdf5::types::TypeDescriptor;
use hdf5::{Hyperslab, Selection, SliceOrIndex};
use hdf5_metno as hdf5;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most steps that a view shows. A reader opens all of their files at once, and where it may not open so many what
/// it reads is NaN, without a word.
pub const MOST_SOURCES: usize = 900;
/// The axis of steps.
const STEP: &str = "step";
const TIME: &str = "time";
const HERE: &str = "here";
/// What is shown.
const SHOWN: &str = "forebay/view";

/// What a view shows.
#[derive(Serialize, Deserialize)]
pub struct StepsView {
    /// The steps.
    pub steps: Vec<ViewStep>,
    /// The arrays.
    pub arrays: Vec<ViewArray>,
}

/// A step of a view.
#[derive(Serialize, Deserialize)]
pub struct ViewStep {
    /// Its number.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// Its file, as seen from the directory of the view.
    pub file: String,
    /// In which slot of how many it lies there, if that is a pack.
    #[serde(default)]
    pub slot: Option<(u64, u64)>,
}

/// What becomes of a step of a view.
pub enum ViewFate {
    /// It is where it was.
    Stays,
    /// It is in that slot of so many of a pack, as seen from the directory of the view.
    Moves(String, (u64, u64)),
    /// It is no more.
    Goes,
}

/// An array of a view.
#[derive(Serialize, Deserialize)]
pub struct ViewArray {
    /// Its name in the view.
    pub name: String,
    /// What it is at each step that has it.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// What it says of itself: its axes are those at a step.
    pub about: Description,
    /// Where its elements are.
    pub source: ViewSource,
    /// Whether packs have it once for all their steps, as a coordinate.
    #[serde(default)]
    pub is_once: bool,
}

/// Where the elements of an array of a view are.
#[derive(Serialize, Deserialize)]
pub enum ViewSource {
    /// In the array of that name, in these of the steps.
    Steps(String, Vec<bool>),
    /// The same at all steps, in the array of that name.
    Any(String),
    /// Nowhere: so many, from the first on, as far apart.
    Points(f64, f64),
}

impl ViewStep {
    /// The extents of an array of that shape in its file, and what of it is this step's.
    fn part(&self, dims: &[usize], is_once: bool) -> (hdf5::Extents, Selection) {
        match self.slot.filter(|_| !is_once) {
            Some((slot, of)) => {
                (hdf5::Extents::from([&[of as usize], dims].concat()), at_index(slot as usize, dims))
            }
            None => (extents_of(dims), Selection::All),
        }
    }
}

/// All that lies at an index of the first axis, of arrays of that shape.
fn at_index(at: usize, dims: &[usize]) -> Selection {
    let along = |n: &usize| SliceOrIndex::SliceTo { start: 0, step: 1, end: *n, block: 1 };
    let all = dims.iter().map(along);
    Selection::from(Hyperslab::from([SliceOrIndex::Index(at)].into_iter().chain(all).collect::<Vec<_>>()))
}

impl StepsView {
    /// Why an array cannot be in a view, if it cannot.
    pub fn refuses(name: &str, axes: &[String]) -> Option<&'static str> {
        let own = |name: &str| [HERE, "forebay"].contains(&name.split('/').next().unwrap_or(name));
        (own(name) || axes.iter().any(|dim| own(dim))).then_some("a view has something else of that name")
    }

    /// What a view shows that was written before.
    pub fn read(path: &Path) -> Result<StepsView> {
        let wrong = |why: String| Error::bad(format!("{} is no view that is known: {why}", path.display()));
        let place = Opened::open(path)?.locate(SHOWN);
        let (at, len) = place.ok_or_else(|| wrong(format!("it has no {SHOWN}")))?;
        let file = std::fs::File::open(path).map_err(|e| Error::io("it cannot be opened", e))?;
        if at.checked_add(len).is_none_or(|end| file.metadata().map_or(0, |m| m.len()) < end) {
            return Err(wrong("it is cut off".into()));
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).map_err(|e| wrong(e.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))
    }

    /// Says of each step what becomes of it; whether any does not stay.
    pub fn change(&mut self, mut fate: impl FnMut(&ViewStep) -> ViewFate) -> bool {
        let (mut stays, mut is_changed) = (Vec::new(), false);
        for step in &mut self.steps {
            let fate = fate(step);
            stays.push(!matches!(fate, ViewFate::Goes));
            is_changed |= !matches!(fate, ViewFate::Stays);
            if let ViewFate::Moves(file, slot) = fate {
                (step.file, step.slot) = (file, Some(slot));
            }
        }
        let mut at = stays.iter();
        self.steps.retain(|_| *at.next().unwrap_or(&true));
        for array in &mut self.arrays {
            if let ViewSource::Steps(_, there) = &mut array.source {
                let mut at = stays.iter();
                there.retain(|_| *at.next().unwrap_or(&true));
            }
        }
        self.arrays.retain(|a| !matches!(&a.source, ViewSource::Steps(_, there) if !there.contains(&true)));
        is_changed
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<()> {
        let frame = Frame::create(path)?;
        let described = frame.with(path, "cannot make", |file| {
            let mut entries = self
                .arrays
                .iter()
                .map(|array| self.show(file, array))
                .collect::<hdf5::Result<Vec<Entry>>>()?;
            entries.extend(self.numbers(file)?);
            self.here(file)?;
            scales::describe(file, &Manifest { data: entries, ..Manifest::default() })
        });
        described?;
        let text = serde_json::to_vec(self).map_err(|e| Error::internal(e.to_string()))?;
        let meta = ArrayMeta::new(DType::Str, Shape::new(&[text.len() as u64])?);
        let at = frame.add(path, SHOWN, &meta, "")?;
        frame.flush(path)?;
        frame.close(path)?;
        let file = std::fs::File::options().write(true).open(path).map_err(|e| failed_io(path, e))?;
        file.write_all_at(&text, at).map_err(|e| failed_io(path, e))
    }

    /// Makes an array; how it lies in the file.
    fn show(&self, file: &hdf5::File, array: &ViewArray) -> hdf5::Result<Entry> {
        let (descriptor, dims) = layout_of(&array.meta);
        let mut axes: Vec<String> = array.about.dims.clone();
        if array.meta.order == Order::F {
            axes.reverse();
        }
        let mut whole = dims.clone();
        match &array.source {
            ViewSource::Points(first, apart) => {
                let values: Vec<f64> = (0..dims[0]).map(|n| first + n as f64 * apart).collect();
                let made = file.new_dataset_builder().with_data(&values).no_chunk();
                made.create_intermediate_group(true).create(array.name.as_str())?;
            }
            ViewSource::Any(source) => {
                let first = self.steps.first().filter(|_| !dims.contains(&0));
                let map = |plist: &mut hdf5::plist::DatasetCreateBuilder| {
                    if let Some(first) = first {
                        let (extents, from) = first.part(&dims, array.is_once);
                        plist.virtual_map(
                            &first.file,
                            source,
                            extents,
                            from,
                            extents_of(&dims),
                            Selection::All,
                        );
                    }
                };
                virtual_set(file, array, &descriptor, &dims, map)?;
            }
            ViewSource::Steps(source, there) => {
                whole.insert(0, self.steps.len());
                axes.insert(0, STEP.to_owned());
                let map = |plist: &mut hdf5::plist::DatasetCreateBuilder| {
                    self.map(plist, (source, array.is_once), &dims, there);
                };
                virtual_set(file, array, &descriptor, &whole, map)?;
            }
        }
        let set = file.dataset(&array.name)?;
        describe_array(&set, &array.meta, &array.units)?;
        let about = Description { dims: axes, attrs: array.about.attrs.clone(), ..Description::default() };
        entry(&array.name, array.meta.dtype, &whole, about)
    }

    /// Where the elements at each step are.
    fn map(
        &self,
        plist: &mut hdf5::plist::DatasetCreateBuilder,
        (source, is_once): (&str, bool),
        dims: &[usize],
        there: &[bool],
    ) {
        let whole: Vec<usize> = [&[self.steps.len()], dims].concat();
        let shown = self.steps.iter().enumerate().filter(|(at, _)| there[*at] && !dims.contains(&0));
        for (at, step) in shown {
            let place = at_index(at, dims);
            let (extents, from) = step.part(dims, is_once);
            plist.virtual_map(&step.file, source, extents, from, whole.clone(), place);
        }
    }

    fn here(&self, file: &hdf5::File) -> hdf5::Result<()> {
        let all = vec![true; self.steps.len()];
        let builder = file.new_dataset_builder().with_dcpl(|plist| {
            self.map(plist, (MANIFEST, true), &[], &all);
            plist
        });
        let word = TypeDescriptor::FixedUnicode(1);
        builder.no_chunk().empty_as(word).shape(self.steps.len()).create(HERE).map(|_| ())
    }

    /// The numbers and the times of the steps, in each group that has arrays over them.
    fn numbers(&self, file: &hdf5::File) -> hdf5::Result<Vec<Entry>> {
        let over = self.arrays.iter().filter(|a| matches!(a.source, ViewSource::Steps(..)));
        let mut groups: BTreeSet<&str> =
            over.map(|a| a.name.rfind('/').map_or("", |at| &a.name[..=at])).collect();
        groups.insert("");
        let steps: Vec<i64> = self.steps.iter().map(|s| s.step).collect();
        let times: Vec<f64> = self.steps.iter().map(|s| s.time.unwrap_or(f64::NAN)).collect();
        let mut all = Vec::new();
        for group in groups {
            let (step, time) = (format!("{group}{STEP}"), format!("{group}{TIME}"));
            file.new_dataset_builder().with_data(&steps).no_chunk().create(step.as_str())?;
            file.new_dataset_builder().with_data(&times).no_chunk().create(time.as_str())?;
            for (name, dtype) in [(step, DType::I64), (time, DType::F64)] {
                let about = Description { dims: vec![STEP.to_owned()], ..Description::default() };
                all.push(entry(&name, dtype, &[steps.len()], about)?);
            }
        }
        let about = Description { dims: vec![STEP.to_owned()], ..Description::default() };
        all.push(entry(HERE, DType::U8, &[steps.len()], about)?);
        Ok(all)
    }
}

/// An array of the view, with its extents and axes in the order of the file.
fn entry(name: &str, dtype: DType, extents: &[usize], about: Description) -> hdf5::Result<Entry> {
    // Letters of texts are no axis, and have none here.
    let dtype = if dtype == DType::Str { DType::U8 } else { dtype };
    let extents: Vec<u64> = extents.iter().map(|n| *n as u64).collect();
    let shape = Shape::new(&extents).map_err(|e| hdf5::Error::from(e.text().to_owned()))?;
    let meta = ArrayMeta::new(dtype, shape);
    Ok(Entry { name: name.to_owned(), meta, units: String::new(), offset: 0, pieces: Vec::new(), about })
}

fn extents_of(dims: &[usize]) -> hdf5::Extents {
    match dims {
        [] => hdf5::Extents::Scalar,
        dims => hdf5::Extents::from(dims),
    }
}

fn virtual_set(
    file: &hdf5::File,
    array: &ViewArray,
    descriptor: &TypeDescriptor,
    whole: &[usize],
    map: impl Fn(&mut hdf5::plist::DatasetCreateBuilder),
) -> hdf5::Result<()> {
    let mut builder = file.new_dataset_builder();
    if array.meta.dtype.mantissa().is_some() {
        builder = builder.fill_value(f64::NAN);
    }
    let builder = builder.create_intermediate_group(true).with_dcpl(|plist| {
        map(plist);
        plist
    });
    builder
        .no_chunk()
        .empty_as(descriptor.clone())
        .shape(whole.to_vec())
        .create(array.name.as_str())
        .map(|_| ())
}
