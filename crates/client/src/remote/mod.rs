//! A run whose store is on another host: the *relay* takes the place of the owner in this
//! process, and hands on over a line what the rank tells it.
//!
//! ```text
//!   rank --up ring, blocks--> relay ==line==> proxy --mirror of the segment--> store
//!        <--down ring, words--           <=======        <------------------------
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | `relay` | the thread: opens the run over there, drives its end of it, connects again |
//! | `reader` | reading a run there, over a line of its own |
//! | `rest` | what a dead program, or a lost store, left here is sent later |
//!
//! What goes up and down between the segment here and its mirror there is [`forebay_link::run`]'s.

mod reader;
mod relay;
mod rest;

pub use reader::{RemoteArray, RemoteReader};
pub use relay::{Dial, RemoteRun, start};
pub use rest::{Sent, any_rest, forget_rests, send_rests};
