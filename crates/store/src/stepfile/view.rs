//! A file that shows arrays over many steps, each as one virtual data set over the files of the steps: nothing is
//! copied.
//!
//! ```text
//!  /E      (steps, 4, 8)   [0] -> steps/0000000000.h5 /E    [1] -> steps/0000000010.h5 /E   ...   NaN where a file is gone
//!  /step   (steps,)        the numbers, and /time (steps,)
//!  /here   (steps,)        the first letter of each step's manifest: "{", and nothing where its file is gone
//! ```

use super::hdf::{Frame, layout_of};
use super::{MANIFEST, scales};
use forebay_types::{ArrayMeta, DType, Description, Order, Result, native};
use hdf5::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5::{Hyperslab, Selection, SliceOrIndex};
use hdf5_metno as hdf5;
use serde_json::json;
use std::path::Path;

/// Most steps that a view shows. A reader opens all of their files at once, and where it may not open so many what
/// it reads is NaN, without a word.
pub const MOST_SOURCES: usize = 900;

/// A step of a view.
pub struct ViewStep {
    /// Its number.
    pub step: i64,
    /// Its time, or NaN.
    pub time: f64,
    /// Its file, as seen from the directory of the view.
    pub file: String,
    /// In which slot of how many it lies there, if that is a pack.
    pub slot: Option<(u64, u64)>,
}

/// An array of a view.
pub struct ViewArray {
    /// Its name.
    pub name: String,
    /// What it is at each step that has it.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// What it says of itself.
    pub about: Description,
    /// Which of the steps have it.
    pub steps: Vec<bool>,
    /// Whether it is a coordinate of others, which is in a pack once.
    pub is_scale: bool,
}

/// Writes it.
pub fn write_view(path: &Path, steps: &[ViewStep], arrays: &[ViewArray]) -> Result<()> {
    let frame = Frame::create(path)?;
    frame.with(path, "cannot make", |file| {
        for array in arrays {
            show(file, steps, array)?;
        }
        numbers(file, steps)?;
        let all = vec![true; steps.len()];
        let word = TypeDescriptor::FixedUnicode(1);
        virtual_over(file, "here", MANIFEST, &word, &[], steps, &all, false, true)
    })?;
    frame.flush(path)?;
    frame.close(path)
}

fn show(file: &hdf5::File, steps: &[ViewStep], array: &ViewArray) -> hdf5::Result<()> {
    let (descriptor, dims) = layout_of(&array.meta);
    let is_float = matches!(array.meta.dtype, DType::F16 | DType::F32 | DType::F64);
    let (name, once) = (&array.name, array.is_scale);
    virtual_over(file, name, name, &descriptor, &dims, steps, &array.steps, is_float, once)?;
    let set = file.dataset(&array.name)?;
    let order = if array.meta.order == Order::F { "F" } else { "C" };
    let mut said = array.about.attrs.clone();
    said.insert("dataOrder".to_owned(), json!(order));
    if !array.units.is_empty() {
        said.insert("units".to_owned(), json!(array.units));
    }
    if !array.about.dims.is_empty() {
        said.insert("dims".to_owned(), json!([&["step".to_owned()], &array.about.dims[..]].concat()));
    }
    said.iter().try_for_each(|(key, value)| scales::attribute(&set, key, &native(value)))
}

#[expect(clippy::too_many_arguments, reason = "one for each thing that a virtual data set is made of")]
fn virtual_over(
    file: &hdf5::File,
    name: &str,
    source: &str,
    descriptor: &TypeDescriptor,
    dims: &[usize],
    steps: &[ViewStep],
    there: &[bool],
    is_float: bool,
    is_once: bool,
) -> hdf5::Result<()> {
    let whole: Vec<usize> = [&[steps.len()], dims].concat();
    let is_empty = dims.contains(&0);
    let mut builder = file.new_dataset_builder();
    if is_float {
        builder = builder.fill_value(f64::NAN);
    }
    let builder = builder.create_intermediate_group(true).with_dcpl(|plist| {
        for (at, step) in steps.iter().enumerate().filter(|(at, _)| there[*at] && !is_empty) {
            let mut place = vec![SliceOrIndex::Index(at)];
            let along = |n: &usize| SliceOrIndex::SliceTo { start: 0, step: 1, end: *n, block: 1 };
            place.extend(dims.iter().map(along));
            let (extents, from) = match (dims, step.slot.filter(|_| !is_once)) {
                (dims, Some((slot, of))) => {
                    let mut from = place.clone();
                    from[0] = SliceOrIndex::Index(slot as usize);
                    let extents = hdf5::Extents::from([&[of as usize], dims].concat());
                    (extents, Selection::from(Hyperslab::from(from)))
                }
                ([], None) => (hdf5::Extents::Scalar, Selection::All),
                (dims, None) => (hdf5::Extents::from(dims), Selection::All),
            };
            let place = Selection::from(Hyperslab::from(place));
            plist.virtual_map(&step.file, source, extents, from, whole.clone(), place);
        }
        plist
    });
    builder.no_chunk().empty_as(descriptor.clone()).shape(whole).create(name).map(|_| ())
}

fn numbers(file: &hdf5::File, steps: &[ViewStep]) -> hdf5::Result<()> {
    let integer = TypeDescriptor::Integer(IntSize::U8);
    let float = TypeDescriptor::Float(FloatSize::U8);
    if !file.link_exists("step") {
        let set =
            file.new_dataset_builder().empty_as(integer).shape(steps.len()).no_chunk().create("step")?;
        set.write_raw(&steps.iter().map(|s| s.step).collect::<Vec<i64>>())?;
    }
    if !file.link_exists("time") {
        let set = file.new_dataset_builder().empty_as(float).shape(steps.len()).no_chunk().create("time")?;
        set.write_raw(&steps.iter().map(|s| s.time).collect::<Vec<f64>>())?;
    }
    Ok(())
}
