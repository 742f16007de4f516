//! One file of arrays for readers of netCDF-4 and HDF5, written once. As in a file of a step HDF5 makes the frame, and
//! the bytes of arrays go past it to where it has made room.

use super::grids::grids;
use super::hdf::{Frame, failed_io};
use super::{Entry, Manifest, openpmd, scales, vtkhdf};
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

/// Which step a file of openPMD has.
pub struct IterationOf {
    /// Its number, not below zero.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// The time since the step before, by as many steps as there are between.
    pub dt: Option<f64>,
    /// What the files of the series are called, with `%010T` for the number.
    pub files: String,
}

impl Gathered {
    /// Begins it; what is there is replaced.
    pub fn create(path: &Path) -> Result<Gathered> {
        let frame = Frame::create(path)?;
        let file = File::options().write(true).open(path).map_err(|e| failed_io(path, e))?;
        Ok(Gathered { path: path.to_owned(), frame, file, sets: Vec::new() })
    }

    /// What HDF5 has of it.
    pub(super) fn frame(&self) -> &Frame {
        &self.frame
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

    /// Completes the file as one of a series of openPMD, for VTK too: with the meshes and particles that are in it, of that
    /// step. Gives the names of those that have no place in it: whose points are not equally far apart, or that have no
    /// position.
    pub fn finish_step(self, of: &IterationOf) -> Result<Vec<String>> {
        let IterationOf { step, time, dt, ref files } = *of;
        let manifest = Manifest { step, time, dt, data: self.sets, ..Manifest::default() };
        let grids = grids(&self.path, &manifest)?;
        let mut left_out = Vec::new();
        self.frame.with(&self.path, "cannot describe", |file| {
            scales::describe(file, &manifest)?;
            let aliases = openpmd::write(file, &manifest, &grids, files)?;
            let declared = |e: &&Entry| e.about.mesh.is_some() || e.about.species.is_some();
            let left = manifest.data.iter().filter(declared).filter(|e| !aliases.has(e));
            left_out = left.map(|e| e.name.clone()).collect();
            vtkhdf::write(file, &aliases)
        })?;
        self.frame.flush(&self.path)?;
        self.frame.close(&self.path).map(|()| left_out)
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
