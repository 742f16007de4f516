//! A run whose store is on another host: the *forwarder* takes the place of the owner in this
//! process, and hands on over a line what the rank tells it.
//!
//! ```text
//!   rank --up ring, blocks--> forwarder ==line==> deputy --mirror of the segment--> store
//!        <--down ring, words--           <=======        <------------------------
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | `forwarder` | the thread: opens the run over there, serves segment and line, connects again |
//! | `up` | records at once, bytes of blocks in pieces as the window allows |
//! | `down` | notices, words and released blocks into the segment |
//! | `reader` | reading a run there, over a line of its own |
//! | `rest` | what a dead program, or a lost store, left here is sent later |
//! | `window` | how many bytes of blocks may be under way, so that requests need not wait behind them |
//!
//! The rank's segment stays the log: ring and blocks are given back only when the store over there
//! has committed them. So a line that is cut, and an agent that dies, cost time and no data.

mod down;
mod forwarder;
mod reader;
mod rest;
mod up;
mod window;

pub use forwarder::{Dial, Far, start};
pub use reader::{FarArray, FarReader};
pub use rest::{Sent, any_rest, forget_rests, send_rests};
