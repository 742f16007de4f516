//! The rank's side of a run: records go up to the owner, notices come down, arrays go through
//! blocks of a segment that outlives the process.
//!
//! | part | what it does |
//! | --- | --- |
//! | `open`, `life` | greeting, segment; a watcher thread that sees the owner die or stop |
//! | `revive` | going on at the successor of an owner that died |
//! | `log` | the custody log: numbered records in the up ring |
//! | `down` | answers, acts of steering and late errors out of the down ring |
//! | `room` | blocks of the arena and of overflow segments |
//! | `step`, `numbers` | taking a snapshot, whole or in pieces; which number it may have |
//! | `constants` | arrays that are put once a run, and that every snapshot has |
//! | `meshes` | meshes and species of particles, as the arrays that they are made of |
//! | `view`, `narrow` | arrays as the program has them; with less precision |
//! | `looping`, `ending` | the loop head; when the run is to end before its last step |
//! | `steer` | parameters and callbacks at the same step in all ranks |
//! | `diagram`, `reduce` | curves through triple buffers, thinned and reduced at the source |
//!
//! The way of an array: the caller's memory -> one copy into a block -> a record that names the
//! block. From then on it is the owner's. This module knows neither the store nor its files.

mod axes;
mod constants;
mod core;
mod diagram;
mod down;
mod ending;
mod life;
mod log;
mod looping;
mod meshes;
mod narrow;
mod numbers;
mod open;
mod patience;
mod reduce;
mod revive;
mod room;
mod session;
mod steer;
mod step;
mod view;

pub use axes::{About, Coordinate};
pub use constants::ConstantOptions;
pub use core::{Check, Warn};
pub use diagram::Diagram;
pub(crate) use down::coded;
pub use ending::{Ending, Until};
pub use looping::{Course, LoopHead};
pub use meshes::{Component, Grid, ParticleRecord};
pub(crate) use open::show;
pub use revive::Successor;
pub use session::{PutOptions, Session};
pub use steer::{Callback, Parameter};
pub use step::{Allocated, ArrayOptions, StepWriter};
pub use view::View;
