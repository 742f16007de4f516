//! How the chunks of an array are made smaller in its file.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A way to do it that readers of HDF5 know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Shuffled and deflated: every reader of HDF5 has it.
    Gzip,
    /// Shuffled and packed by Zstandard, with a checksum: faster, and readers need HDF5's filter 32015.
    Zstd,
}

impl Compression {
    /// Arrays of fewer bytes lie in their file as they are.
    pub const LEAST: u64 = 64 << 10;

    /// Its word; none is `none`: the array lies in its file as it is.
    pub fn parse(word: &str) -> Result<Option<Compression>> {
        match word {
            "none" => Ok(None),
            "gzip" => Ok(Some(Compression::Gzip)),
            "zstd" => Ok(Some(Compression::Zstd)),
            other => Err(Error::bad(format!(
                "compress = {other:?} is unknown; give \"gzip\", which every reader of HDF5 knows, \"zstd\", which is faster and asks h5py for the package hdf5plugin, or \"none\""
            ))),
        }
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}
