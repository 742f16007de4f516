//! Compiled libraries as services: what an interface file ([`forebay_idl`]) says is called through libffi.
//!
//! A library is loaded once ([`Loaded`]), each routine gets a call interface that is prepared once (`prepared`), and two
//! services: one for people, one for stubs. The way of a call (`call`):
//!
//! ```text
//! scalars -> values -> extents, checked against the arrays that came -> addresses -> the symbol -> scalars that come back
//!                                                  |                        ^
//!                                                  +-- laid out again: increments, alignment, work arrays
//! ```
//!
//! Arrays are used where they lie. Nothing is touched before everything was checked; what the interface file says of the
//! library is believed, which is why [`check`] exists, and why the process that loads it does nothing else.
#![deny(unsafe_code)]

pub mod board;
mod call;
mod chain;
pub mod check;
mod elf;
mod ffi;
mod layout;
mod loaded;
mod prepared;

pub use loaded::Loaded;
