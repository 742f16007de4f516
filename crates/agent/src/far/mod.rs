//! Runs that ranks on other hosts write, and readers on other hosts read.
//!
//! | part | what it does |
//! | --- | --- |
//! | `door` | the first request of a line: a rank, a rank again after a cut, a reader |
//! | `deputy` | stands here for a rank: a mirror of its segment, and a seat in the run |
//! | `mirror` | records and blocks into the mirror, notices and words out of it |
//! | `reading` | answers to readers |
//! | `name` | which directories other hosts may name |

mod deputy;
mod door;
mod mirror;
mod name;
mod reading;

pub use deputy::Deputies;
pub use door::{admin, directory, serve};
