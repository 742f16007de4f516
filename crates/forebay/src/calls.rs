//! Services: calling them (`call`), offering them (`serve`), and finding the broker of this node.

use std::path::Path;
use std::time::Duration;

use forebay_host::environment;
use forebay_link::Locator;
use forebay_types::{Error, Result};

/// Calling services.
pub mod call {
    pub use forebay_client::call::{
        Answer, Arg, Bag, BagOptions, BagView, Called, Canceller, Choice, Client, Counts, FailedCall, Future,
        Group, Guarded, Joined, Joint, Named, Next, On, Only, Placement, Printed, Reference, ServerView,
        Service, Space, Task, TaskFate, TaskState, TaskValue, TaskView, Ticket, Timing, Transfer, Value,
        Watched, cancel_all, probe_any, wait_all, wait_any,
    };
    pub use forebay_link::standing;
}

/// Offering services.
pub mod serve {
    pub use crate::host::{Host, Signals, tell_of_death};
    pub use forebay_host::fork::{end_child, own_pid};
    pub use forebay_host::parent::stop_with_parent;
    pub use forebay_host::wait::pause_before;
    pub use forebay_server::{Arg, Body, Call, Running, Server};
    pub use forebay_types::directory::{Incarnation, Load};

    use forebay_host::output::Output;
    use forebay_types::Result;
    use std::sync::Arc;

    /// Keeps what this process writes to its standard output and standard error on its way there, for
    /// [`Server::output`]: until what is returned has gone, both are pipes. A program `forebay` passes on what is left in
    /// them should this process be killed; fails when there is none.
    pub fn keep_output() -> Result<Arc<Output>> {
        Output::keep(&forebay_agent::program()?)
    }
}

/// Where the broker is: the path given, else `FOREBAY_BROKER`, else the node's agent, which is
/// started when nobody listens.
pub fn locator(broker: Option<&Path>) -> Locator {
    Locator::at(broker).or_start(forebay_agent::start_by_need)
}

/// Where that broker is: its socket, or its address on another host.
pub fn broker_at(broker: Option<&Path>) -> Result<String> {
    locator(broker).path().map(|path| path.display().to_string())
}

/// Connects to the broker; see [`locator`]. The client waits for servers that are not there yet for as many
/// seconds as `FOREBAY_PATIENCE` says.
pub fn connect(broker: Option<&Path>) -> Result<call::Client> {
    let patience = patience(environment::text(environment::PATIENCE).as_deref())?;
    let client = call::Client::connect(locator(broker))?;
    client.patience(patience);
    Ok(client)
}

fn patience(told: Option<&str>) -> Result<Duration> {
    let Some(text) = told.map(str::trim).filter(|t| !t.is_empty()) else { return Ok(Duration::ZERO) };
    text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(|| {
        Error::bad(format!(
            "FOREBAY_PATIENCE={text:?} is no time to wait for servers; give seconds, for example 30"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_read_in_seconds() {
        assert_eq!(patience(None).unwrap(), Duration::ZERO);
        assert_eq!(patience(Some("1.5")).unwrap(), Duration::from_millis(1500));
        assert!(patience(Some("-1")).is_err() && patience(Some("long")).is_err());
    }
}
