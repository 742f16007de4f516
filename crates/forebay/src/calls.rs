//! Services: calling them (`call`), offering them (`serve`), and finding the broker of this node.

use std::path::Path;

use forebay_link::Locator;
use forebay_types::Result;

/// Calling services.
pub mod call {
    pub use forebay_client::call::{
        Arg, Client, Future, On, Reference, Service, Timing, Value, Watched, cancel_all, probe_any, wait_all,
        wait_any,
    };
}

/// Offering services.
pub mod serve {
    pub use crate::host::{Host, Signals};
    pub use forebay_server::{Arg, Body, Call, Running, Server};
    pub use forebay_types::directory::Load;
}

/// Where the broker is: the path given, else `FOREBAY_BROKER`, else the node's agent, which is
/// started when nobody listens.
pub fn locator(broker: Option<&Path>) -> Locator {
    Locator::at(broker).or_start(forebay_agent::start_by_need)
}

/// Connects to the broker; see [`locator`].
pub fn connect(broker: Option<&Path>) -> Result<call::Client> {
    call::Client::connect(locator(broker))
}
