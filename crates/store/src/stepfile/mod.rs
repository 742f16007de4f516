//! Files of arrays: one immutable HDF5 file per step (and per large data set outside steps).
//!
//! The way of the data: [`Writer`] lets HDF5 lay out a data set as soon as its first bytes come,
//! asks where it lies and writes the bytes there itself, past the page cache, straight from the
//! memory they are in. At the end a [`Manifest`] (what, where, checksums) goes into the file,
//! then fsync, rename from `.tmp`, fsync of the directory. [`read_selection`] goes the other way:
//! a contiguous data set needs no library to be read, only its offset. [`Check`] compares what was
//! read with the checksums.

mod boxes;
mod check;
mod constants;
mod ffi;
mod foreign;
mod gathered;
mod grids;
mod hdf;
mod manifest;
mod openpmd;
mod place;
mod read;
mod scales;
mod view;
mod vtkhdf;
mod write;

pub use boxes::{IndexBox, left_to_each};
pub use check::Check;
pub use foreign::{ForeignArray, ForeignFile, is_hdf5, largest_foreign, read_foreign};
pub use gathered::Gathered;
pub use hdf::{Opened, open_manifest};
pub use manifest::{Back, Entry, Given, Manifest, NOBODY, Partial, Piece, Placed, Within};
pub use place::Hyperslab;
pub use read::{Source, read_piece, read_selection};
pub use view::{MOST_SOURCES, ViewArray, ViewStep, write_view};
pub(crate) use write::SPARE;
pub use write::{Facts, Writer, seal_all, write_anew};

/// Name of the data set that holds the manifest.
pub const MANIFEST: &str = "forebay/manifest";
