//! Files of arrays: one immutable HDF5 file per step (and per large data set outside steps).
//!
//! The way of the data: [`Writer`] lets HDF5 lay out a data set as soon as its first bytes come,
//! asks where it lies and writes the bytes there itself, past the page cache, straight from the
//! memory they are in. At the end a [`Manifest`] (what, where, checksums) goes into the file,
//! then fsync, rename from `.tmp`, fsync of the directory. [`read_selection`] goes the other way:
//! a contiguous data set needs no library to be read, only its offset. [`Check`] compares what was
//! read with the checksums.

mod anew;
mod boxes;
mod check;
mod chunk_grid;
mod chunked;
mod constants;
mod ffi;
mod foreign;
mod foreign_chunks;
mod gathered;
mod grids;
mod h5md;
mod hdf;
mod inflate;
mod manifest;
mod openpmd;
mod pack;
mod packing;
mod place;
mod read;
mod scales;
mod sorted;
mod view;
mod vtkhdf;
mod vtkhdf_series;
mod write;

pub use anew::write_anew;
pub use boxes::{IndexBox, left_to_each};
pub use check::Check;
pub use chunked::Load;
pub use foreign::{ForeignArray, ForeignFile, is_hdf5, largest_foreign, read_foreign};
pub use gathered::{Gathered, IterationOf};
pub use grids::{Along, Grid, grid as grid_of_mesh};
pub use h5md::{H5md, When};
pub use hdf::{Opened, open_manifest};
pub use inflate::Inflated;
pub use manifest::{
    ALL, Back, Chunks, Entry, Given, Manifest, NOBODY, Partial, Piece, Placed, StoredChunk, Within,
};
pub use pack::{
    PackManifest, PackSlot, Put, Stacked, is_scale, open_pack, read_back, slot_entry, unlike_pack,
    why_not_stacked, write_pack,
};
pub use place::Hyperslab;
use read::read_piece_to;
pub use read::{Source, read_piece, read_selection};
pub use view::{MOST_SOURCES, StepsView, ViewArray, ViewFate, ViewSource, ViewStep};
pub use vtkhdf::{
    Image as VtkImage, frame as vtk_frame, is_extent_of_vtk, is_number_of_vtk, xyz as vtk_axes,
};
pub use vtkhdf_series::{VtkBlock, VtkSeries};
pub(crate) use write::SPARE;
pub use write::{Facts, Writer, seal_all};

/// Name of the data set that holds the manifest.
pub const MANIFEST: &str = "forebay/manifest";
