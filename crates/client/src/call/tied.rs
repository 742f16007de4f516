//! Clients whose calls go to certain servers only.

use std::fmt;
use std::sync::{Arc, Mutex};

use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};

use super::lock;
use super::table::Offer;

/// Which servers get the calls of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// Those of that name, also when they were started anew.
    Name(String),
    /// The one of that process.
    Pid(u32),
}

impl Only {
    fn is(&self, server: &ServerInfo) -> bool {
        match self {
            Only::Name(name) => server.name == *name,
            Only::Pid(pid) => server.pid == *pid,
        }
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Only::Name(name) => write!(f, "server {name:?}"),
            Only::Pid(pid) => write!(f, "server with pid {pid}"),
        }
    }
}

/// What a client is tied to.
pub(super) struct Tied {
    only: Only,
    /// The last offer, and what of it lies at these servers.
    last: Mutex<Option<(Arc<Offer>, Arc<Offer>)>>,
}

impl Tied {
    pub fn to(only: Only) -> Tied {
        Tied { only, last: Mutex::default() }
    }

    /// What of an offer lies at these servers.
    pub fn within(&self, offer: Arc<Offer>) -> Result<Arc<Offer>> {
        let mut last = lock(&self.last);
        if let Some((whole, part)) = &*last
            && Arc::ptr_eq(whole, &offer)
        {
            return Ok(part.clone());
        }
        let part = offer.part(|server| self.only.is(server)).ok_or_else(|| self.nobody(&offer))?;
        let part = Arc::new(part);
        *last = Some((offer, part.clone()));
        Ok(part)
    }

    fn nobody(&self, offer: &Offer) -> Error {
        let named = |s: &Arc<ServerInfo>| format!("{:?} (pid {})", s.name, s.pid);
        let there: Vec<String> = offer.servers.iter().take(20).map(named).collect();
        let name = offer.signature.name();
        Error::new(
            Code::NoServer,
            format!("no {} offers {name}; it is offered by {}", self.only, there.join(", ")),
        )
    }
}
