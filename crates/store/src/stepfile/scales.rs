//! What arrays say of themselves, in the words of HDF5: attributes, and axes as dimension scales, as netCDF-4 has them.
//!
//! ```text
//!  /x   CLASS = "DIMENSION_SCALE"  NAME = "x"           the coordinate, an array of the step
//!  /y   CLASS = "DIMENSION_SCALE"  NAME = "This is a netCDF dimension but not a netCDF variable.         7"
//!  /T   DIMENSION_LIST = [-> /x] [-> /y]                an axis without a coordinate has a scale without values
//! ```
//!
//! A scale lies beside its array or above it, for only there readers look for it. The scales keep no list of their
//! arrays: no reader asks for it, and attaching one more would write it anew each time.

use super::hdf::{element_of, text};
use super::{Entry, Manifest, ffi};
use forebay_types::{Native, Order, axes, axis_path, native};
use hdf5::types::{FloatSize, TypeDescriptor, VarLenArray};
use hdf5::{File, Group, Location, ObjectReference, ObjectReference1};
use hdf5_metno as hdf5;
use std::collections::BTreeMap;

/// Writes all that the arrays of a file say of themselves.
pub(super) fn describe(file: &File, m: &Manifest) -> hdf5::Result<()> {
    for e in &m.data {
        let set = match e.about.attrs.is_empty() {
            true => continue,
            false => file.dataset(&e.name)?,
        };
        e.about.attrs.iter().try_for_each(|(key, value)| attribute(&set, key, &native(value)))?;
    }
    let with_axes = || m.data.iter().filter(|e| !e.about.dims.is_empty());
    if with_axes().next().is_none() {
        return Ok(());
    }
    text(file, "Conventions", "CF-1.8")?;
    // Each scale once, and whether its values are there.
    let mut scales: BTreeMap<String, (&str, u64)> = BTreeMap::new();
    for e in with_axes() {
        for (dim, extent) in e.about.dims.iter().zip(axes(&e.meta)) {
            scales.insert(axis_path(&e.name, dim), (dim.rsplit('/').next().unwrap_or(dim), *extent));
        }
    }
    for (path, (dim, extent)) in &scales {
        let there = m.data.iter().any(|e| e.name == *path);
        let (set, name) = match there {
            true => (file.dataset(path)?, (*dim).to_owned()),
            false => {
                let float = TypeDescriptor::Float(FloatSize::U4);
                let made = file.new_dataset_builder().empty_as(float).shape(*extent as usize).no_chunk();
                let set = made.create(path.as_str())?;
                (set, format!("This is a netCDF dimension but not a netCDF variable. {extent:9}"))
            }
        };
        ffi::write_texts(&set, "CLASS", &["DIMENSION_SCALE"], None)?;
        ffi::write_texts(&set, "NAME", &[&name], None)?;
    }
    for e in with_axes() {
        let mut paths: Vec<String> = e.about.dims.iter().map(|dim| axis_path(&e.name, dim)).collect();
        // A scale has none itself.
        if scales.contains_key(&e.name) {
            continue;
        }
        if e.meta.order == Order::F {
            paths.reverse();
        }
        let refer = |path: &String| -> hdf5::Result<VarLenArray<ObjectReference1>> {
            Ok(VarLenArray::from_slice(&[ObjectReference1::create(file, path)?]))
        };
        let list = paths.iter().map(refer).collect::<hdf5::Result<Vec<_>>>()?;
        let set = file.dataset(&e.name)?;
        let attribute = set.new_attr::<VarLenArray<ObjectReference1>>().shape(list.len());
        attribute.create("DIMENSION_LIST")?.write_raw(&list)?;
    }
    Ok(())
}

/// Writes one.
pub(super) fn attribute(at: &Location, key: &str, value: &Native) -> hdf5::Result<()> {
    match value {
        Native::Text(one) => text(at, key, one),
        Native::Texts(all) => {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            ffi::write_texts(at, key, &all, Some(all.len() as u64))
        }
        Native::Numbers { dtype, shape, bytes } => {
            let extents = (shape.rank() > 0).then_some(shape.extents());
            ffi::write_numbers(at, key, &element_of(*dtype), extents, bytes)
        }
    }
}

/// What an array of a file lacks of what it is to say of itself, to those who read it without us.
pub(super) fn unlike(file: &Group, set: &Location, e: &Entry) -> Option<(String, hdf5::Result<bool>)> {
    let name = &e.name;
    if let Some(key) = e.about.attrs.keys().find(|key| set.attr(key).is_err()) {
        return Some((format!("the attribute {key:?} of {name:?}"), Ok(false)));
    }
    let is_scale = e.about.dims.len() == 1 && axis_path(name, &e.about.dims[0]) == *name;
    if e.about.dims.is_empty() || is_scale {
        return None;
    }
    let lists = |set: &Location| -> hdf5::Result<bool> {
        let list: Vec<VarLenArray<ObjectReference1>> = set.attr("DIMENSION_LIST")?.read_raw()?;
        let mut dims: Vec<&String> = e.about.dims.iter().collect();
        if e.meta.order == Order::F {
            dims.reverse();
        }
        let is_that = |list: &VarLenArray<ObjectReference1>, dim: &String| {
            let named = list.first().and_then(|r| match r.dereference(file).ok()? {
                hdf5::ReferencedObject::Dataset(scale) => Some(scale.name()),
                _ => None,
            });
            named == Some(format!("/{}", axis_path(name, dim)))
        };
        Ok(list.len() == dims.len() && list.iter().zip(dims).all(|(list, dim)| is_that(list, dim)))
    };
    Some((format!("the attribute \"DIMENSION_LIST\" of {name:?}"), lists(set)))
}
