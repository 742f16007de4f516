//! The monitor: a page in the browser on which people watch a run and steer it.
//!
//! ```text
//!  ranks' triple buffers --Source--> [ Hub: Run, Run, ... ] <--declare, append, state, ack-- owner
//!                                       |            ^
//!              pictures, 2 credits each |            | acts, checked
//!                                       v            |
//!                              /ws/data (binary)   /ws/ctl (JSON)      axum, loopback
//!                                       \            /
//!                                        page (web/, embedded)
//! ```
//!
//! The owner of a run ([`Hub::add`]) tells what happens; the [`Monitor`] shows it. The run never
//! waits: sources are overwritten slots, polled only while somebody looks; a viewer that does
//! not keep up sees fewer pictures and never older ones; what viewers ask for is checked here
//! and handed to [`Steer`]. This crate knows neither brokers nor servers nor the store.
//!
//! ```no_run
//! use std::sync::Arc;
//! use forebay_monitor::{Config, Hub, Monitor, RunInfo, Steer};
//! # struct Mine;
//! # impl Steer for Mine {
//! #     fn act(&self, _: &str, _: &forebay_types::watch::Act) -> forebay_types::Result<u64> { Ok(1) }
//! # }
//! # fn main() -> forebay_types::Result<()> {
//! let hub = Hub::new();
//! let info = RunInfo { id: "ab12".into(), name: "two_stream".into(), ..RunInfo::default() };
//! let run = hub.add(info, Arc::new(Mine), None)?;
//! let monitor = Monitor::start(Config::default(), hub)?;
//! println!("{}", monitor.links("ab12")?.operator);
//! run.message(1, 0, "hello");
//! monitor.stop();
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod assets;
mod credit;
mod ctl;
mod data;
mod frame;
mod guard;
mod history;
mod http;
mod hub;
mod listen;
mod panel;
mod past;
mod peer;
mod pictures;
mod rate;
mod reduce;
mod run;
mod say;
mod secret;
mod server;
mod source;
mod steering;
mod token;
mod viewer;

pub use forebay_types::watch::StateInfo;
pub use hub::Hub;
pub use past::{Past, Rows, StoredPoint};
pub use run::Run;
pub use say::RunInfo;
pub use server::{Config, Monitor};
pub use source::{LocalSlot, Reading, Source};
pub use steering::{Ack, Steer};
pub use token::Role;
