//! The agent: broker, store and monitor of one node (or of one process) behind a socket.
//!
//! The same code runs as the process `forebay up` and on threads inside a rank (*embedded*).
#![forbid(unsafe_code)]

mod diary;
mod rendezvous;
pub mod steering;
mod stop;
mod words;

pub use rendezvous::Address;
pub use words::{AdminRequest, RankStatus, RunStatus, Status, Steered};
