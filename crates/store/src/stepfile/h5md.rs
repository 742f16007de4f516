//! A file of H5MD 1.1, written once: particles and observables over steps.
//!
//! ```text
//!  /h5md                                version = [1, 1]   author/   creator/   modules/units/
//!  /particles/atoms/box                 dimension, boundary   edges: step, time, value
//!  /particles/atoms/position            step, time, value (steps, N, D)
//!  /observables/energy/kinetic          step, time, value (steps,)
//! ```
//!
//! Elements of a group that come at the same steps have one `step` and one `time`, under several names.

use super::ffi;
use super::gathered::Gathered;
use super::hdf::text;
use super::vtkhdf::integers;
use forebay_types::{ArrayMeta, DType, Description, Result, Shape};
use serde_json::Map;
use std::path::{Path, PathBuf};

/// A file in the making.
pub struct H5md {
    path: PathBuf,
    file: Gathered,
}

impl H5md {
    /// Begins it. Who made the data is not known to us but by name.
    pub fn create(path: &Path, author: &str) -> Result<H5md> {
        let file = Gathered::create(path)?;
        file.frame().with(path, "cannot make", |file| {
            let root = file.create_group("h5md")?;
            integers(&root, "version", Some(2), &[1, 1])?;
            let said = [
                ("author", &[("name", author)][..]),
                ("creator", &[("name", "Forebay"), ("version", env!("CARGO_PKG_VERSION"))][..]),
                ("modules/units", &[("system", "SI")][..]),
            ];
            for (group, attributes) in said {
                let made = file.create_group(&format!("h5md/{group}"))?;
                for (key, text) in attributes {
                    ffi::write_texts(&made, key, &[text], None)?;
                }
            }
            integers(&file.group("h5md/modules/units")?, "version", Some(2), &[1, 0])
        })?;
        Ok(H5md { path: path.to_owned(), file })
    }

    /// Makes a group of particles, in a box of so many dimensions with these boundaries.
    pub fn particles(&mut self, name: &str, boundary: &[String]) -> Result<()> {
        let at = format!("particles/{name}/box");
        self.file.frame().with(&self.path, "cannot make", |file| {
            let made = file.create_group(&at)?;
            integers(&made, "dimension", None, &[boundary.len() as i64])?;
            let texts: Vec<&str> = boundary.iter().map(String::as_str).collect();
            ffi::write_texts(&made, "boundary", &texts, Some(texts.len() as u64))
        })
    }

    /// Makes room for what is the same at all steps.
    pub fn fixed(&mut self, at: &str, dtype: DType, extents: &[u64], unit: Option<&str>) -> Result<usize> {
        let set =
            self.file.add(at, &ArrayMeta::new(dtype, Shape::new(extents)?), "", Description::default())?;
        if let Some(unit) = unit {
            self.file.frame().with(&self.path, "cannot describe", |file| {
                // Its readers take no text of a fixed length for a unit.
                text(&*file.dataset(at)?, "unit", unit)
            })?;
        }
        Ok(set)
    }

    /// Makes room for an element over steps: `extents` are those at one of them. Steps and times are those of the element
    /// `like`, or are written with it.
    pub fn element(
        &mut self,
        at: &str,
        when: When,
        (dtype, extents): (DType, &[u64]),
        unit: Option<&str>,
    ) -> Result<usize> {
        let steps = match when {
            When::Like(other, steps) => {
                self.file.frame().with(&self.path, "cannot describe", |file| {
                    file.create_group(at)?;
                    ["step", "time"].iter().try_for_each(|what| {
                        file.link_hard(&format!("/{other}/{what}"), &format!("/{at}/{what}"))
                    })
                })?;
                steps
            }
            When::At(steps, times) => {
                let n = [steps.len() as u64];
                let set = self.fixed(&format!("{at}/step"), DType::I64, &n, None)?;
                let bytes: Vec<u8> = steps.iter().flat_map(|v| v.to_le_bytes()).collect();
                self.file.write(set, 0, &bytes)?;
                let set = self.fixed(&format!("{at}/time"), DType::F64, &n, None)?;
                let bytes: Vec<u8> = times.iter().flat_map(|v| v.to_le_bytes()).collect();
                self.file.write(set, 0, &bytes)?;
                steps.len() as u64
            }
        };
        self.fixed(&format!("{at}/value"), dtype, &[&[steps], extents].concat(), unit)
    }

    /// Writes bytes of an array, from byte `at` of it on.
    pub fn write(&self, set: usize, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write(set, at, bytes)
    }

    /// Completes it.
    pub fn finish(self) -> Result<()> {
        self.file.finish(&Map::new())
    }
}

/// When an element was written.
pub enum When<'a> {
    /// At these steps and times.
    At(&'a [i64], &'a [f64]),
    /// When another one was, at so many steps.
    Like(&'a str, u64),
}
