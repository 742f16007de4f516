//! The client's side of Forebay: calls to services, and the rank's side of a run.
#![forbid(unsafe_code)]

pub mod call;
pub mod remote;
pub mod run;
