//! Forebay in one crate: [`open`] a run to keep, snapshot, watch and steer; [`connect`] to call
//! services; `Server` to offer them. All language bindings stand on this.
//!
//! The way of the data: a `put` or a snapshot is copied once, into shared memory that outlives
//! the process, and drained to disk by the owner of the run (the node's agent, or threads of
//! this process when there is none); a read happens in the caller's thread, straight from the
//! files; the loop head reads one word of shared memory.
//!
//! ```no_run
//! use forebay::{Mode, OpenOptions, View};
//! # fn main() -> forebay::Result<()> {
//! let run = forebay::open("two_stream", Mode::Append, OpenOptions::default())?;
//! let field = vec![0.0f64; 64];
//! run.put("E", View::of(&field, &[64])?, Default::default())?;
//! let mut steps = run.steps(600, 0)?;
//! while let Some(step) = steps.next()? {
//!     let snapshot = run.snapshot(step, Some(step as f64 * 0.1))?;
//!     snapshot.put("E", View::of(&field, &[64])?, Default::default())?;
//!     snapshot.end()?;
//! }
//! run.close()
//! # }
//! ```
#![forbid(unsafe_code)]

mod beside;
mod calls;
mod constants;
mod data;
mod host;
mod kept;
pub mod launcher;
mod options;
mod owner;
mod reads;
mod remote;
mod run;
mod series;
mod slabs;
mod steps;
mod table;
mod watch;

pub use calls::{broker_at, call, connect, locator, serve};
pub use data::{Array, DataSet};
pub use forebay_agent::look_in as look_for_command_in;
pub use forebay_arena::zeros;
pub use forebay_client::call::{On, Reference};
pub use forebay_client::run::{
    About, Allocated, ArrayOptions, Component, ConstantOptions, Coordinate, Diagram, Grid, LoopHead as Steps,
    Parameter, ParticleRecord, PutOptions, StepWriter as Snapshot, View, Warn,
};
pub use forebay_store::catalog::{Checkpoint, Rows, fits};
pub use forebay_store::{MappedArray, Series, SeriesOptions};
pub use forebay_types::columns::ColumnValues;
pub use forebay_types::control::{
    Column, Elsewhere, LateErrors, Mode, Packed, PageLinks, Target, Unpacked, WhenFull,
};
pub use forebay_types::pack::parse_pack;
pub use forebay_types::reading::Select;
pub use forebay_types::record::{Cell, Overlap, Place};
pub use forebay_types::watch::{Kind, Reduce, Scale};
pub use forebay_types::{
    ArrayMeta, CODES, Code, Compression, Constant, DType, Description, Element, ElementKind, Error, Keep,
    Mesh, Name, Number, Order, Param, Result, Scalar, Selection, Shape, Signature, Slice, Species, Stats,
    Strided, Way, array_of_attribute, attribute_among, attribute_in, attribute_of_array, attributes,
    check_attribute_array, limits, number_of_attribute, real_attribute, unit_among,
};
pub use kept::{Kept, KeptSnapshots, Members, Restart};
pub use options::{OpenOptions, names_of_runs_in, parse_bytes, parse_scratch, run_dir, runs_in};
pub use remote::{named as remote_name, recover as recover_remote, run_id_of as remote_run_id};
pub use run::{Run, in_memory, open};
#[doc(hidden)]
pub use slabs::Which;
pub use steps::{Start, StepsOptions, TimeLimit};
pub use table::{Table, TableOptions, array_cell};
pub use watch::{DiagramOptions, Level, ParameterOptions};
