//! A run on disk: the directory, its catalog, its step files, and the owner that fills them from
//! shared memory behind the simulation's back. A library with no sockets.
//!
//! The way of the data: a rank's records and blocks lie in its segment; the [`Owner`] applies
//! small records to the catalog in groups, writes blocks straight from the segment into the file
//! of their step, and gives ring and blocks back only after the catalog has committed. A
//! [`Reader`] sees what is committed. After a death [`recover`] goes on where the owner stopped:
//! the segments are the log.
#![deny(unsafe_code)]

mod ahead;
mod answer;
mod burst;
mod care;
pub mod catalog;
pub mod disk;
mod fault;
mod fork;
pub mod layout;
mod links;
mod located;
pub mod lock;
mod mapped;
pub mod owner;
mod reader;
mod series;
mod site;
pub mod stepfile;
mod views;

pub use answer::Answer;
pub use care::{
    Doubt, PackOptions, Progress, Repaired, Report, Saved, compact, compact_with, doubt, lacks_catalog,
    pack_with, recover, recover_with, repair, repair_with, verify, verify_with,
};
pub use catalog::{OpenAct, PartialRow};
pub use located::{Array, Located};
pub use mapped::MappedArray;
pub use owner::{
    Absence, Attach, Deaf, InMemory, OVER_THE_NETWORK, Options, Orphan, Owner, Replayed, Says, Sink,
    has_living_ranks, left_in_memory, replay,
};
pub use reader::{Reader, shape_of};
pub use series::{Series, SeriesOptions, SeriesStep, common as common_of_series};
pub use site::Site;
