//! Arrays of an HDF5 file that another program wrote. Whatever is in it, what is not understood is named and passed
//! over.

use super::hdf::{element_of, failed};
use super::openpmd::SOFTWARE;
use super::{MANIFEST, ffi, foreign_chunks};
use crate::fork::library;
use forebay_types::{ArrayMeta, DType, Error, Name, Order, Result, Shape, real_attribute};
use hdf5::filters::Filter;
use hdf5::types::{FixedAscii, FloatSize, TypeDescriptor, VarLenAscii, VarLenUnicode};
use hdf5::{Attribute, Dataset, Group};
use hdf5_metno as hdf5;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Most objects of a file that are looked at: links may go round in circles.
const MOST: usize = 100_000;
/// What a file of a step has in groups of these names are its arrays again, and its manifest.
const AGAIN: [&str; 3] = ["forebay", "data", "VTKHDF"];
/// How netCDF begins the `NAME` of an axis that has no values.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";
/// Attributes that say how the file is made.
const OF_THE_FILE: [&str; 9] = [
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_NCProperties",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "dataOrder",
    "DIMENSION_LABELS",
];

/// An array of such a file.
#[derive(Debug)]
pub struct ForeignArray {
    /// Its path in the file, without the slash in front.
    pub name: String,
    /// What it is.
    pub meta: ArrayMeta,
    /// Its attribute `units`, if that is a text.
    pub units: String,
    /// Its other attributes.
    pub attrs: Map<String, Value>,
    /// Its elements.
    pub bytes: Vec<u8>,
}

/// What is found in a file, beside its arrays.
#[derive(Debug, Default)]
pub struct ForeignFile {
    /// What was passed over, and why.
    pub passed_over: Vec<String>,
    seen: usize,
}

/// Reads all arrays of a file, one after the other.
pub fn read_foreign(path: &Path, take: &mut dyn FnMut(ForeignArray) -> Result<()>) -> Result<ForeignFile> {
    visit(path, &mut array, take)
}

/// Bytes of the largest array of a file.
pub fn largest_foreign(path: &Path) -> Result<u64> {
    let mut largest = 0u64;
    let mut look = |set: &Dataset, _: &str| {
        let size = set.dtype().map_or(0, |kind| kind.size());
        largest = largest.max((size as u64).saturating_mul(set.size() as u64));
        Ok(None)
    };
    visit(path, &mut look, &mut |_| Ok(()))?;
    Ok(largest)
}

/// What is found of an array of that name; why it is passed over.
type Look<'a> = dyn FnMut(&Dataset, &str) -> std::result::Result<Option<ForeignArray>, String> + 'a;

fn visit(
    path: &Path,
    look: &mut Look,
    take: &mut dyn FnMut(ForeignArray) -> Result<()>,
) -> Result<ForeignFile> {
    let mut found = ForeignFile::default();
    let file = {
        let _gate = library()?;
        hdf5::File::with_options()
            .with_fapl(|p| p.file_locking(false))
            .open(path)
            .map_err(|e| Error::bad(format!("{} is no HDF5 file: {e}; give one", path.display())))?
    };
    let is_step = {
        let _gate = library()?;
        file.attr("forebay_format").is_ok() || is_exported(&file)
    };
    let skipped = if is_step { &AGAIN[..] } else { &[] };
    let done = walk(&file, ("", path), skipped, &mut found, look, take);
    let _gate = library()?;
    drop(file);
    done.map(|()| found)
}

fn walk(
    group: &Group,
    (above, path): (&str, &Path),
    skipped: &[&str],
    found: &mut ForeignFile,
    look: &mut Look,
    take: &mut dyn FnMut(ForeignArray) -> Result<()>,
) -> Result<()> {
    let wrong = |e| failed("cannot read", path, e);
    let names = {
        let _gate = library()?;
        group.member_names().map_err(wrong)?
    };
    for name in names.into_iter().filter(|name| !skipped.contains(&name.as_str())) {
        found.seen += 1;
        if found.seen > MOST {
            return Err(Error::bad(format!(
                "{} has more than {MOST} objects, or links that go round in circles; give a part of it",
                path.display()
            )));
        }
        let whole = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
        if let Err(e) = Name::new(whole.as_str()) {
            found.passed_over.push(format!("{whole:?}: {}", e.text()));
            continue;
        }
        let gate = library()?;
        if let Ok(set) = group.dataset(&name) {
            let read = if whole == MANIFEST || has_no_values(&set) { Ok(None) } else { look(&set, &whole) };
            drop(set);
            drop(gate);
            match read {
                Ok(Some(array)) => take(array)?,
                Ok(None) => {}
                Err(why) => found.passed_over.push(format!("{whole:?}: {why}")),
            }
        } else if let Ok(inner) = group.group(&name) {
            drop(gate);
            walk(&inner, (&whole, path), &[], found, look, take)?;
            let _gate = library()?;
            drop(inner);
        } else {
            drop(gate);
            found
                .passed_over
                .push(format!("{whole:?}: it is neither an array nor a group that can be opened"));
        }
    }
    Ok(())
}

/// Whether it is what was exported of a step to openPMD.
fn is_exported(file: &Group) -> bool {
    let software = file.attr("software").and_then(|attr| attr.read_scalar::<FixedAscii<64>>());
    software.is_ok_and(|text| text.as_str() == SOFTWARE)
}

/// Whether it only stands for the length of an axis.
fn has_no_values(set: &Dataset) -> bool {
    matches!(attribute(set, "NAME"), Some(Value::String(name)) if name.starts_with(NO_VARIABLE))
}

/// The dtype whose elements HDF5 gives as that type.
fn dtype_of(kind: &TypeDescriptor) -> Option<DType> {
    DType::all().find(|dtype| !dtype.is_text() && element_of(*dtype) == *kind)
}

/// A filter of HDF5, for people: its name, its number, and for one that is not HDF5's own the package that has it.
fn filter_called(id: i32) -> String {
    let (name, is_own) = match id {
        1 => ("gzip", true),
        4 => ("szip", true),
        307 => ("bzip2", false),
        32000 => ("lzf", false),
        32001 => ("blosc", false),
        32004 => ("lz4", false),
        32008 => ("bitshuffle", false),
        32013 => ("zfp", false),
        32015 => ("zstd", false),
        32026 => ("blosc2", false),
        _ => return id.to_string(),
    };
    let package = if is_own { "" } else { ", in Python's package hdf5plugin" };
    format!("{name} ({id}{package})")
}

fn array(set: &Dataset, name: &str) -> std::result::Result<Option<ForeignArray>, String> {
    let said = |e: hdf5::Error| e.to_string();
    let absent = set.filters().into_iter().find(|filter| !filter.is_available());
    if let Some(absent) = absent.filter(|_| !foreign_chunks::is_known(set)) {
        return Err(format!(
            "it is compressed by HDF5's filter {}, which is not here; write it without, for example by h5repack -f NONE",
            filter_called(absent.id())
        ));
    }
    let kind = set.dtype().and_then(|t| t.to_descriptor()).map_err(said)?;
    let mut extents: Vec<u64> = set.shape().iter().map(|n| *n as u64).collect();
    let is_f = attribute(set, "dataOrder") == Some(json!("F"));
    let (dtype, bytes) = match &kind {
        TypeDescriptor::FixedAscii(width) | TypeDescriptor::FixedUnicode(width) => {
            extents.push(*width as u64);
            (DType::Str, read(set, &kind, &extents, DType::Str)?)
        }
        TypeDescriptor::VarLenAscii | TypeDescriptor::VarLenUnicode => {
            let texts: Vec<Vec<u8>> = match kind {
                TypeDescriptor::VarLenAscii => {
                    let all = set.read_raw::<VarLenAscii>().map_err(said)?;
                    all.iter().map(|t| t.as_bytes().to_vec()).collect()
                }
                _ => {
                    let all = set.read_raw::<VarLenUnicode>().map_err(said)?;
                    all.iter().map(|t| t.as_bytes().to_vec()).collect()
                }
            };
            let width = texts.iter().map(Vec::len).max().unwrap_or(0);
            extents.push(width as u64);
            let padded = |mut text: Vec<u8>| {
                text.resize(width, 0);
                text
            };
            (DType::Str, texts.into_iter().flat_map(padded).collect())
        }
        other => {
            let dtype = dtype_of(other).ok_or_else(|| format!("elements of type {other} are not kept"))?;
            (dtype, read(set, &kind, &extents, dtype)?)
        }
    };
    let order = if is_f && dtype != DType::Str { Order::F } else { Order::C };
    if order == Order::F {
        extents.reverse();
    }
    let shape = Shape::new(&extents).map_err(|e| e.text().to_owned())?;
    let (mut units, mut attrs) = (String::new(), Map::new());
    for key in set.attr_names().map_err(said)? {
        if OF_THE_FILE.contains(&key.as_str()) {
            continue;
        }
        match attribute(set, &key) {
            Some(Value::String(text)) if key == "units" || key == "unit" => units = text,
            Some(value) => drop(attrs.insert(key, value)),
            None => {}
        }
    }
    let meta = ArrayMeta { dtype, shape, order };
    Ok(Some(ForeignArray { name: name.to_owned(), meta, units, attrs, bytes }))
}

/// Reads all elements, little endian.
fn read(
    set: &Dataset,
    kind: &TypeDescriptor,
    extents: &[u64],
    dtype: DType,
) -> std::result::Result<Vec<u8>, String> {
    let bytes = Shape::new(extents).and_then(|shape| shape.bytes(dtype)).map_err(|e| e.text().to_owned())?;
    let mut out = Vec::new();
    let room = usize::try_from(bytes).ok().filter(|n| out.try_reserve_exact(*n).is_ok());
    let room = room.ok_or_else(|| format!("its {bytes} bytes are more than memory holds"))?;
    out.resize(room, 0);
    match set.filters().iter().all(Filter::is_available) {
        _ if room == 0 => {}
        true => ffi::read(set, kind, &mut out).map_err(|e| match e.to_string() {
            // So HDF5 says that it looked for a filter and found none, of a data set that is made of others.
            said if said.contains("can't open directory") => {
                "data sets that it is made of are compressed by a filter of HDF5 which is not here; write it without, for example by h5repack -f NONE".to_owned()
            }
            said => said,
        })?,
        false => foreign_chunks::read(set, kind, &mut out)?,
    }
    Ok(out)
}

/// An attribute as JSON: a number, a truth value, a text, or a list of one of these.
fn attribute(set: &Dataset, key: &str) -> Option<Value> {
    let attribute = set.attr(key).ok()?;
    let kind = attribute.dtype().ok()?.to_descriptor().ok()?;
    let shape = attribute.shape();
    if shape.len() > 1 {
        return None;
    }
    let values = values(&attribute, &kind)?;
    match shape.is_empty() {
        true => values.into_iter().next(),
        false => Some(Value::Array(values)),
    }
}

fn values(attribute: &Attribute, kind: &TypeDescriptor) -> Option<Vec<Value>> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        json!(String::from_utf8_lossy(&bytes[..end]))
    };
    Some(match kind {
        TypeDescriptor::Integer(_) => attribute.read_raw::<i64>().ok()?.iter().map(|v| json!(v)).collect(),
        TypeDescriptor::Unsigned(_) => attribute.read_raw::<u64>().ok()?.iter().map(|v| json!(v)).collect(),
        TypeDescriptor::Float(FloatSize::U2 | FloatSize::U4 | FloatSize::U8) => {
            attribute.read_raw::<f64>().ok()?.iter().map(|v| real_attribute(*v)).collect()
        }
        TypeDescriptor::Boolean => attribute.read_raw::<bool>().ok()?.iter().map(|v| json!(v)).collect(),
        TypeDescriptor::VarLenUnicode => {
            attribute.read_raw::<VarLenUnicode>().ok()?.iter().map(|v| json!(v.as_str())).collect()
        }
        TypeDescriptor::VarLenAscii => {
            attribute.read_raw::<VarLenAscii>().ok()?.iter().map(|v| json!(v.as_str())).collect()
        }
        TypeDescriptor::FixedAscii(width) | TypeDescriptor::FixedUnicode(width) => {
            let mut out = vec![0; width.checked_mul(attribute.size())?];
            ffi::read_attribute(attribute, kind, &mut out).ok()?;
            out.chunks((*width).max(1)).map(text).collect()
        }
        _ => return None,
    })
}

/// Whether a file begins as HDF5 does.
pub fn is_hdf5(first: &[u8]) -> bool {
    first.starts_with(b"\x89HDF\r\n\x1a\n")
}
