//! The agent: broker, store and monitor of one node (or of one process) behind a socket.
//!
//! The same code runs as the process `forebay up` and on threads inside a rank (*embedded*).
#![forbid(unsafe_code)]

mod ask;
mod diary;
mod directory;
mod door;
mod embedded;
mod heart;
mod host;
mod network;
mod owner;
mod page;
mod peers;
mod remote;
mod rendezvous;
mod service;
mod start;
mod stop;
mod words;

pub use ask::{
    directory_of, down, links, links_of_remote, listen, opened, opened_remote, owner_of, owners,
    servers_live, stay, steer, steer_remote, take_runs, token, token_of_remote,
};
pub use embedded::{Embedded, EmbeddedOptions};
pub use host::{HostOptions, host};
pub use owner::steering;
pub use rendezvous::Address;
pub use start::{look_in, program, running, start_by_need, start_to_stay};
pub use words::{AdminRequest, Listening, Owners, RankStatus, RunStatus, Silent, Status, Steered, Unlisted};
