//! Both ends of a run that a program writes from another host: a rank's segment here, a mirror of it there. Pure over
//! the words of a segment, frames in and frames out; whoever drives an end opens the run, waits, and opens the line again.
//!
//! ```text
//!   the program's host                                                   the store's host
//!   rank --up ring, blocks--> RankEnd == records, blocks, words, curves ==> StoreEnd --mirror--> owner
//!        <--down ring, words--        <== notices, words, what is released ==
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | `rank` | the end at the program: a turn of it takes what has come and queues what may go |
//! | `up` | records at once, bytes of blocks in pieces as the window allows |
//! | `window` | how many bytes of blocks may be under way, so that requests need not wait behind them |
//! | `down` | notices, words and released blocks into the segment |
//! | `store` | the end at the store: the same for the other side |
//! | `mirror` | records and blocks into the mirror, notices and words out of it |
//!
//! The rank's segment stays the log: ring and blocks are given back only when the store over there has committed
//! them. So a line that is cut, and an agent that dies, cost time and no data. Which words of a segment cross, and who
//! writes them, stands in [`forebay_types::line`].

mod down;
mod mirror;
mod rank;
mod store;
mod up;
mod window;

pub use rank::{RankEnd, Turn};
pub use store::{News, StoreEnd};
pub use up::Up;
