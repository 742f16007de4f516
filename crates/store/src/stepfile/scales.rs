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
    let arrays: Vec<Labelled> =
        m.data.iter().filter(|e| !e.about.dims.is_empty()).map(Labelled::of).collect();
    match arrays.is_empty() {
        true => Ok(()),
        false => label(file, &arrays, |path| m.data.iter().any(|e| e.name == path)),
    }
}

/// An axis of an array.
#[derive(Clone)]
pub(super) struct Axis {
    /// Where its scale lies.
    pub path: String,
    /// How many points it has.
    pub extent: u64,
}

/// An array whose axes have names.
pub(super) struct Labelled {
    pub name: String,
    /// In the order of the file.
    pub axes: Vec<Axis>,
}

impl Labelled {
    pub fn of(e: &Entry) -> Labelled {
        let axis = |(dim, extent): (&String, &u64)| Axis { path: axis_path(&e.name, dim), extent: *extent };
        let mut own: Vec<Axis> = e.about.dims.iter().zip(axes(&e.meta)).map(axis).collect();
        if e.meta.order == Order::F {
            own.reverse();
        }
        Labelled { name: e.name.clone(), axes: own }
    }
}

/// Makes the axes of arrays dimension scales; `is_there` says of which the file has the values.
pub(super) fn label(file: &File, arrays: &[Labelled], is_there: impl Fn(&str) -> bool) -> hdf5::Result<()> {
    text(file, "Conventions", "CF-1.8")?;
    // Each scale once.
    let scales: BTreeMap<&str, u64> =
        arrays.iter().flat_map(|a| &a.axes).map(|axis| (axis.path.as_str(), axis.extent)).collect();
    for (path, extent) in &scales {
        let (set, name) = match is_there(path) {
            true => (file.dataset(path)?, path.rsplit('/').next().unwrap_or(path).to_owned()),
            false => {
                let float = TypeDescriptor::Float(FloatSize::U4);
                let made = file.new_dataset_builder().empty_as(float).shape(*extent as usize).no_chunk();
                let set = made.create_intermediate_group(true).create(*path)?;
                (set, format!("This is a netCDF dimension but not a netCDF variable. {extent:9}"))
            }
        };
        ffi::write_texts(&set, "CLASS", &["DIMENSION_SCALE"], None)?;
        ffi::write_texts(&set, "NAME", &[&name], None)?;
    }
    // A scale has no list itself.
    for array in arrays.iter().filter(|a| !scales.contains_key(a.name.as_str())) {
        let refer = |axis: &Axis| -> hdf5::Result<VarLenArray<ObjectReference1>> {
            Ok(VarLenArray::from_slice(&[ObjectReference1::create(file, &axis.path)?]))
        };
        let list = array.axes.iter().map(refer).collect::<hdf5::Result<Vec<_>>>()?;
        let set = file.dataset(&array.name)?;
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
