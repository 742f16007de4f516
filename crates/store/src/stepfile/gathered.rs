//! One file of arrays for readers of netCDF-4 and HDF5, written once. As in a file of a step HDF5 makes the frame, and
//! the bytes of arrays go past it to where it has made room.

use super::hdf::{Frame, failed_io};
use super::scales;
use super::{Entry, Manifest};
use forebay_types::{ArrayMeta, Description, Error, Result};
use serde_json::{Map, Value};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file in the making.
pub struct Gathered {
    path: PathBuf,
    frame: Frame,
    file: File,
    sets: Vec<Entry>,
}

impl Gathered {
    /// Begins it; what is there is replaced.
    pub fn create(path: &Path) -> Result<Gathered> {
        let frame = Frame::create(path)?;
        let file = File::options().write(true).open(path).map_err(|e| failed_io(path, e))?;
        Ok(Gathered { path: path.to_owned(), frame, file, sets: Vec::new() })
    }

    /// Makes room for an array, and gives its number here. Each axis that `about` names is a dimension, which has the
    /// array of that name in the same group as its coordinate, if there is one.
    pub fn add(&mut self, name: &str, meta: &ArrayMeta, units: &str, about: Description) -> Result<usize> {
        let offset = self.frame.add(&self.path, name, meta, units)?;
        let (name, units) = (name.to_owned(), units.to_owned());
        self.sets.push(Entry { name, meta: *meta, units, offset, pieces: Vec::new(), about });
        Ok(self.sets.len() - 1)
    }

    /// Writes bytes of an array, from byte `at` of it on.
    pub fn write(&self, set: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let set = &self.sets[set];
        if at + bytes.len() as u64 > set.nbytes() {
            return Err(Error::internal(format!("{:?} has no byte {at} and following", set.name)));
        }
        self.file.write_all_at(bytes, set.offset + at).map_err(|e| failed_io(&self.path, e))
    }

    /// Completes the file, which has these attributes.
    pub fn finish(self, attrs: &Map<String, Value>) -> Result<()> {
        let manifest = Manifest { data: self.sets, ..Manifest::default() };
        self.frame.with(&self.path, "cannot describe", |file| {
            for (key, value) in attrs {
                scales::attribute(file, key, &forebay_types::native(value))?;
            }
            scales::describe(file, &manifest)
        })?;
        self.frame.flush(&self.path)?;
        self.frame.close(&self.path)
    }
}
