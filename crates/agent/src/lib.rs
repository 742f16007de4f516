//! The agent: broker, store and monitor of one node (or of one process) behind sockets.
//!
//! The same code runs as the process `forebay up` and on threads inside a rank (*embedded*).
#![forbid(unsafe_code)]

pub mod steering;
