//! What the store asks of HDF5: a file's frame, room for data sets, small attributes. Never the
//! bytes of arrays, which go past it. Every call goes through the gate of [`crate::fork`], the making of
//! its error and the end of what it opened too.

use super::grids::{Grid, grids};
use super::{Entry, MANIFEST, Manifest, openpmd, scales, vtkhdf};
use crate::fork::library;
use forebay_types::{ArrayMeta, Code, DType, Error, Order, Result};
use hdf5::types::{CompoundField, CompoundType, FloatSize, IntSize, TypeDescriptor, VarLenUnicode};
use hdf5_metno as hdf5;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A failure with the code of the system's error that lies under it. Without one it is no fault of the
/// disk: the library refuses what it was asked for.
pub(super) fn failed(what: &str, path: &Path, e: hdf5::Error) -> Error {
    let text = format!("{what} {}: {e}", path.display());
    let frames = e.stack();
    let said = frames.iter().flat_map(|s| s.iter()).map(|f| f.desc());
    match said.clone().find_map(errno) {
        Some(number) => crate::disk::failed(text, std::io::Error::from_raw_os_error(number)),
        None if said.into_iter().any(|s| s.contains("alloc")) => Error::new(Code::Io, text),
        None => Error::internal(text),
    }
}

/// A failure of a file that is written beside HDF5.
pub(super) fn failed_io(path: &Path, e: std::io::Error) -> Error {
    crate::disk::failed(format!("cannot write {}", path.display()), e)
}

/// The number in "... errno = 28, error message = ...".
fn errno(said: &str) -> Option<i32> {
    let rest = said.split("errno = ").nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The HDF5 type of an element, and the extents in the order of the file.
pub(super) fn layout_of(meta: &ArrayMeta) -> (TypeDescriptor, Vec<usize>) {
    let mut dims: Vec<usize> = meta.shape.extents().iter().map(|e| *e as usize).collect();
    if meta.order == Order::F {
        dims.reverse();
    }
    let descriptor = match meta.dtype {
        // The last extent counts bytes; it becomes the length of a string.
        DType::Str => TypeDescriptor::FixedUnicode(dims.pop().unwrap_or(1).max(1)),
        dtype => element_of(dtype),
    };
    (descriptor, dims)
}

/// The HDF5 type that stands for what NumPy calls the same.
pub(super) fn element_of(dtype: DType) -> TypeDescriptor {
    use TypeDescriptor as T;
    let (integer, float) = (IntSize::from_int, FloatSize::from_int);
    let known = match (dtype.numpy_kind(), dtype.size()) {
        (b'i', size) => integer(size).map(T::Integer),
        (b'u', size) => integer(size).map(T::Unsigned),
        (b'f', size) => float(size).map(T::Float),
        (b'c', size) => float(size / 2).map(|part| complex(T::Float(part), size / 2)),
        (b'b', _) => Some(T::Boolean),
        _ => None,
    };
    // What HDF5 has nothing for is kept as its bytes.
    let byte = T::Unsigned(IntSize::U1);
    known.unwrap_or_else(|| if dtype.size() == 1 { byte } else { T::FixedArray(byte.into(), dtype.size()) })
}

/// As h5py writes it.
fn complex(part: TypeDescriptor, bytes: usize) -> TypeDescriptor {
    let field = |name: &str, index: usize| CompoundField {
        name: name.to_owned(),
        ty: part.clone(),
        offset: index * bytes,
        index,
    };
    TypeDescriptor::Compound(CompoundType { fields: vec![field("r", 0), field("i", 1)], size: 2 * bytes })
}

/// A new file, open in HDF5 while its data sets are laid out.
pub(super) struct Frame {
    file: OpenFile,
}

/// A file that is open in HDF5.
struct OpenFile(Option<hdf5::File>);

impl OpenFile {
    fn file(&self) -> Result<&hdf5::File> {
        self.0.as_ref().ok_or_else(|| Error::internal("the file is closed"))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let Some(file) = self.0.take() else { return };
        match library() {
            Ok(_gate) => drop(file),
            // Nothing of the library may be touched.
            Err(_) => std::mem::forget(file),
        }
    }
}

impl Frame {
    pub fn create(path: &Path) -> Result<Frame> {
        let _gate = library()?;
        hdf5::File::with_options()
            .with_fapl(|p| {
                p.libver_bounds(hdf5::file::LibraryVersion::V18, hdf5::file::LibraryVersion::V110)
                    .alignment(65536, 4096)
                    .file_locking(false)
            })
            .create(path)
            .map(|file| Frame { file: OpenFile(Some(file)) })
            .map_err(|e| failed("cannot make", path, e))
    }

    /// Lays out a data set and says where its bytes begin.
    pub fn add(&self, path: &Path, name: &str, meta: &ArrayMeta, units: &str) -> Result<u64> {
        let wrong = |e| failed(&format!("cannot lay out {name:?} in"), path, e);
        let (descriptor, dims) = layout_of(meta);
        let _gate = library()?;
        let set = laid_out(self.file.file()?, name, descriptor, dims).map_err(wrong)?;
        describe_array(&set, meta, units).map_err(wrong)?;
        Ok(set.offset().unwrap_or(0))
    }

    /// Describes the whole file; `units` are those that data sets were not laid out with.
    pub fn describe(
        &self,
        path: &Path,
        m: &Manifest,
        grids: &BTreeMap<String, Grid>,
        units: &BTreeMap<String, String>,
    ) -> Result<()> {
        let wrong = |e| failed("cannot describe", path, e);
        let _gate = library()?;
        let file = self.file.file()?;
        let all = || -> hdf5::Result<()> {
            file.new_attr::<u32>().create("forebay_format")?.write_scalar(&m.format)?;
            text(file, "forebay_run", &m.run_id)?;
            if m.set.is_none() {
                file.new_attr::<i64>().create("step")?.write_scalar(&m.step)?;
            }
            if let Some(time) = m.time {
                file.new_attr::<f64>().create("time")?.write_scalar(&time)?;
            }
            for (name, units) in units {
                let set = file.dataset(name)?;
                match set.attr("units") {
                    Ok(there) => there.write_scalar(&variable(units))?,
                    Err(_) => text(&set, "units", units)?,
                }
            }
            match m.data.iter().all(|e| e.about.is_empty()) {
                true => Ok(()),
                false => {
                    scales::describe(file, m)?;
                    vtkhdf::write(file, &openpmd::write(file, m, grids, openpmd::FILES)?)
                }
            }
        };
        all().map_err(wrong)
    }

    /// Has HDF5 do what there is no function for here.
    pub fn with<T>(
        &self,
        path: &Path,
        what: &str,
        act: impl FnOnce(&hdf5::File) -> hdf5::Result<T>,
    ) -> Result<T> {
        let _gate = library()?;
        act(self.file.file()?).map_err(|e| failed(what, path, e))
    }

    /// Writes the frame out.
    pub fn flush(&self, path: &Path) -> Result<()> {
        let _gate = library()?;
        self.file.file()?.flush().map_err(|e| failed("cannot write", path, e))
    }

    /// Closes the flushed frame.
    pub fn close(mut self, path: &Path) -> Result<()> {
        let _gate = library()?;
        let Some(file) = self.file.0.take() else { return Ok(()) };
        file.close().map_err(|e| failed("cannot close", path, e))
    }
}

pub(super) fn text(at: &hdf5::Location, name: &str, value: &str) -> hdf5::Result<()> {
    at.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&variable(value))
}

/// A data set of bytes that lie together in the file, from now on, and that nobody has written.
pub(super) fn laid_out(
    file: &hdf5::File,
    name: &str,
    descriptor: TypeDescriptor,
    dims: Vec<usize>,
) -> hdf5::Result<hdf5::Dataset> {
    file.new_dataset_builder()
        .empty_as(descriptor)
        .shape(dims)
        .create_intermediate_group(true)
        .alloc_time(Some(hdf5::plist::dataset_create::AllocTime::Early))
        .fill_time(hdf5::plist::dataset_create::FillTime::Never)
        .no_chunk()
        .create(name)
}

/// Says the order of the elements of an array, and their unit.
pub(super) fn describe_array(set: &hdf5::Dataset, meta: &ArrayMeta, units: &str) -> hdf5::Result<()> {
    text(set, "dataOrder", order_of(meta))?;
    if units.is_empty() { Ok(()) } else { text(set, "units", units) }
}

fn order_of(meta: &ArrayMeta) -> &'static str {
    if meta.order == Order::F { "F" } else { "C" }
}

/// What a file says in the words of HDF5 and is not what its manifest says.
#[derive(Default)]
pub(super) struct Unlike(pub Vec<String>);

impl Unlike {
    pub fn look(&mut self, what: String, read: hdf5::Result<bool>) {
        match read {
            Ok(true) => {}
            Ok(false) => self.0.push(format!("{what} is not what was written")),
            Err(_) => self.0.push(format!("{what} cannot be read")),
        }
    }

    /// Looks at what the data set of an array is, and at what [`describe_array`] says.
    pub fn look_at(
        &mut self,
        set: &hdf5::Dataset,
        e: &Entry,
        (descriptor, dims): (TypeDescriptor, Vec<usize>),
    ) {
        let name = &e.name;
        self.look(format!("the shape of {name:?}"), Ok(set.shape() == dims));
        let kind = set.dtype().and_then(|kind| kind.to_descriptor());
        self.look(format!("the type of {name:?}"), kind.map(|kind| kind == descriptor));
        // Of a constant the other file says the rest.
        if e.elsewhere().is_some() {
            return;
        }
        let order = has_text(set, "dataOrder", order_of(&e.meta));
        self.look(format!("the attribute \"dataOrder\" of {name:?}"), order);
        if !e.units.is_empty() {
            // Files of before have it under the other name.
            let name_there = if set.attr("units").is_ok() { "units" } else { "unit" };
            let units = has_text(set, name_there, &e.units);
            self.look(format!("the attribute \"units\" of {name:?}"), units);
        }
    }
}

/// A text of any length.
fn variable(value: &str) -> VarLenUnicode {
    VarLenUnicode::from_str(&value.replace('\0', "")).unwrap_or_default()
}

/// A finished file, as HDF5 sees it.
pub struct Opened {
    path: PathBuf,
    file: OpenFile,
}

impl Opened {
    /// Opens a file for reading.
    pub fn open(path: &Path) -> Result<Opened> {
        let _gate = library()?;
        hdf5::File::with_options()
            .with_fapl(|p| p.file_locking(false))
            .open(path)
            .map(|file| Opened { path: path.to_owned(), file: OpenFile(Some(file)) })
            .map_err(|e| Error::new(Code::Corrupt, format!("{} is no HDF5 file: {e}", path.display())))
    }

    /// Where the bytes of a data set begin, and how many they are.
    pub fn locate(&self, name: &str) -> Option<(u64, u64)> {
        let _gate = library().ok()?;
        let set = self.file.file().ok()?.dataset(name).ok()?;
        let bytes = set.storage_size();
        Some((set.offset().unwrap_or(0), bytes))
    }
}

impl Opened {
    /// Asks HDF5 what there is no function for here; nothing where it cannot be asked.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&hdf5::File) -> T) -> Option<T> {
        let _gate = library().ok()?;
        self.file.file().ok().map(question)
    }

    /// What the file says in the words of HDF5, for whoever reads it without Forebay, and is not what its manifest says.
    pub fn unlike(&self, m: &Manifest) -> Vec<String> {
        let grids = grids(&self.path, m).unwrap_or_default();
        let Ok(_gate) = library() else { return Vec::new() };
        let Ok(file) = self.file.file() else { return Vec::new() };
        let mut found = Unlike::default();
        found.look(
            "the attribute \"forebay_format\"".into(),
            scalar::<u32>(file, "forebay_format").map(|n| n == m.format),
        );
        found.look("the attribute \"forebay_run\"".into(), has_text(file, "forebay_run", &m.run_id));
        if m.set.is_none() {
            found.look("the attribute \"step\"".into(), scalar::<i64>(file, "step").map(|n| n == m.step));
        }
        if let Some(time) = m.time {
            let is_same = |t: f64| t.to_bits() == time.to_bits();
            found.look("the attribute \"time\"".into(), scalar::<f64>(file, "time").map(is_same));
        }
        for e in &m.data {
            let name = &e.name;
            let Ok(set) = file.dataset(name) else {
                found.look(format!("the data set {name:?}"), Ok(false));
                continue;
            };
            found.look_at(&set, e, layout_of(&e.meta));
            if e.elsewhere().is_none()
                && let Some((what, read)) = scales::unlike(file, &set, e)
            {
                found.look(what, read);
            }
        }
        for path in openpmd::missing(file, m, &grids) {
            found.look(format!("{path:?}"), Ok(false));
        }
        found.0
    }
}

pub(super) fn scalar<T: hdf5::H5Type>(at: &hdf5::Location, name: &str) -> hdf5::Result<T> {
    at.attr(name)?.read_scalar()
}

pub(super) fn has_text(at: &hdf5::Location, name: &str, value: &str) -> hdf5::Result<bool> {
    Ok(scalar::<VarLenUnicode>(at, name)?.as_bytes() == value.replace('\0', "").as_bytes())
}

/// Reads the manifest of a finished file.
pub fn open_manifest(path: &Path) -> Result<Manifest> {
    read_told(path, Manifest::from_json)
}

/// Reads what a finished file says of itself.
pub(super) fn read_told<T>(path: &Path, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    use std::os::unix::fs::FileExt;
    let broken = |why: String| Error::new(Code::Corrupt, format!("{}: {why}", path.display()));
    let opened = Opened::open(path)?;
    let (at, len) = opened.locate(MANIFEST).ok_or_else(|| broken("it has no manifest".into()))?;
    let file =
        std::fs::File::open(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    let size = file.metadata().map_or(0, |m| m.len());
    if at.checked_add(len).is_none_or(|end| end > size) {
        return Err(broken("its manifest lies beyond its end".into()));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at).map_err(|e| broken(e.to_string()))?;
    read(&bytes).map_err(|e| broken(e.text().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Shape;

    #[test]
    fn every_dtype_has_a_type_of_hdf5_of_its_size() {
        for dtype in DType::all() {
            let (descriptor, dims) = layout_of(&ArrayMeta::new(dtype, Shape::new(&[2, 3]).unwrap()));
            let elements: usize = dims.iter().product();
            assert_eq!(descriptor.size() * elements, 6 * dtype.size(), "{dtype}");
            let is_bytes = matches!(descriptor, TypeDescriptor::Unsigned(IntSize::U1));
            assert_eq!(is_bytes, matches!(dtype, DType::U8 | DType::Bytes), "{dtype}: {descriptor:?}");
        }
        let known = |dtype| layout_of(&ArrayMeta::new(dtype, Shape::new(&[3]).unwrap())).0.to_string();
        assert_eq!((known(DType::F16), known(DType::I64)), ("float16".to_owned(), "int64".to_owned()));
    }
}
