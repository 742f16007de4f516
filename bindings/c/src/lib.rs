//! The C library: `forebay.h` over the facade.
//!
//! ```text
//! C's arguments -> given (checked, still in the caller's memory) -> the facade -> results into the caller's memory
//! fb_run *      -> handle (an id of ours, never dereferenced)    -> the object
//! ```
//! Every function returns a status and never lets a panic through (`fault`); results are written
//! only when all went well. The header is made from these modules, in the order of
//! `tests/header.rs`, which also holds it against them.
#![allow(unsafe_code)]
#![expect(non_camel_case_types, reason = "types bear their names of C")]
#![deny(unsafe_op_in_unsafe_fn)]

mod args;
mod arrays;
mod attrs;
mod bag;
mod calls;
mod data;
mod fault;
mod futures;
mod general;
mod given;
mod group;
mod handle;
mod kept;
mod kinds;
mod memory;
mod meshes;
mod notices;
mod parameters;
mod placement;
mod printed;
mod references;
mod requests;
mod rows;
mod run;
mod series;
mod server;
mod signals;
mod snapshot;
mod tables;
mod unclosed;
mod watch;
