//! Where the agent of this node is: a path that was given, the one the environment names, the
//! usual place, or one that is started by need.

use crate::wire::Wire;
use forebay_arena::place;
use forebay_types::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

type Start = dyn Fn() -> Result<PathBuf> + Send + Sync;

/// Finds the socket of an agent, again whenever a connection is wanted.
#[derive(Clone, Default)]
pub struct Locator {
    given: Option<PathBuf>,
    start: Option<Arc<Start>>,
}

impl Locator {
    /// The agent at that path; `None` means the environment's or the usual one.
    pub fn at(path: Option<&Path>) -> Locator {
        Locator { given: path.map(Path::to_owned).or_else(place::broker), start: None }
    }

    /// The same; when no path was given and nobody listens at the usual place, `start` starts an
    /// agent and says where its socket is.
    pub fn or_start(mut self, start: impl Fn() -> Result<PathBuf> + Send + Sync + 'static) -> Locator {
        self.start = Some(Arc::new(start));
        self
    }

    /// Where it should be.
    pub fn path(&self) -> Result<PathBuf> {
        self.given.clone().map_or_else(place::agent_socket, Ok)
    }

    /// Connects to one that is there.
    pub fn connect(&self, role: &str, timeout: Duration) -> Result<Wire> {
        Wire::connect_as(&self.path()?, role, timeout)
    }

    /// Connects, starting an agent if need be.
    pub fn connect_or_start(&self, role: &str, timeout: Duration) -> Result<Wire> {
        let failed = match self.connect(role, timeout) {
            Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) => e,
            done => return done,
        };
        match &self.start {
            Some(start) if self.given.is_none() => Wire::connect_as(&start()?, role, timeout),
            _ => Err(Error::new(
                Code::NoServer,
                format!("no agent answers ({failed}); start one with `forebay up`, or check FOREBAY_BROKER"),
            )),
        }
    }
}

impl std::fmt::Debug for Locator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Locator({:?}, starts: {})", self.given, self.start.is_some())
    }
}
