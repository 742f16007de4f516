//! What owns runs: who sits in them, their stores, and their steering. It knows nothing of sockets, of the broker,
//! of the network and of the page: the process around it is a [`Site`], and whoever looks at a run is behind a
//! [`Page`].
//!
//! ```text
//!  door, far --open, resume--> runs --> run --> store (a thread of its own)
//!                                        |        |
//!                             seats, controller (steering) <-- news <-- what the store tells
//!                                        |                |
//!                                       Site, Page <------+
//! ```

mod controller;
mod news;
mod opener;
mod run;
mod runs;
mod seats;
mod session;
mod site;
pub mod steering;

pub use run::Run;
pub use runs::Runs;
pub use seats::Opener;
pub use session::Session;
pub use site::{Page, Site};
