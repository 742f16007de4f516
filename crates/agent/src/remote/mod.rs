//! Runs that ranks on other hosts write, and readers on other hosts read.
//!
//! | part | what it does |
//! | --- | --- |
//! | `door` | the first request of a line: a rank, a rank again after a cut, a reader |
//! | `proxy` | stands here for a rank: a seat in the run, and the end of its line ([`forebay_link::run`]) |
//! | `reading` | answers to readers |
//! | `name` | which directories other hosts may name |

mod door;
mod name;
mod proxy;
mod reading;

pub use door::{admin, directory, serve};
pub use proxy::Proxies;
