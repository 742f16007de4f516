//! This host and this user: the directories, sockets and environment variables that all parts of Forebay agree on,
//! who a process is and whether it lives, and what a process has from the one that started it. It knows nothing of
//! memory that is shared, of frames or of runs.
//!
//! ```
//! use forebay_host::{Process, ProcessState};
//!
//! let me = Process::current();
//! assert_eq!(me.state(), ProcessState::Running);
//! // Numbers are given again; a process that started at another time is another one.
//! assert!(!Process { start_time: me.start_time + 1, ..me }.alive());
//! ```
#![deny(unsafe_code)]

mod claims;
pub mod directories;
pub mod environment;
mod ffi;
pub mod files;
pub mod fork;
pub mod identity;
mod mutex;
pub mod output;
pub mod parent;
pub mod process;
pub mod rlimits;
mod share;
pub mod signals;
pub mod sockets;
pub mod threads;
pub mod wait;

pub use claims::Claims;
pub use mutex::lock;
pub use process::{Process, ProcessState};
pub use share::Share;
pub use sockets::SocketPeer;
