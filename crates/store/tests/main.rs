//! What the store does with runs in files, as one program.

mod ailing;
mod aside;
mod backlog;
mod care;
mod catalogs;
mod common;
mod compare;
mod copies;
mod death;
mod elsewhere;
mod faults;
mod golden;
mod histories;
mod lives;
mod manifests;
mod many;
mod model;
mod old_runs;
mod owner;
mod partial;
mod points;
mod policies;
mod power;
mod recording;
