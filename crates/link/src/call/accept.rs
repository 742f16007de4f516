//! How a server lets a client in that has introduced itself: with the segment that the client made, or over the
//! connection itself when that came from another host.

use super::{Ends, Flusher, ShmLink, memory, network};
use crate::pool::{Budget, Pool};
use crate::wire::Wire;
use forebay_arena::Doorbell;
use forebay_types::{Code, Error, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A client that may come in.
pub struct Accepted {
    /// Its segment and what is sent back to wake the server; none of a client of another host.
    here: Option<(ShmLink, OwnedFd)>,
}

impl Accepted {
    /// Takes what a client has brought with its request over `wire`.
    pub fn new(wire: &Wire, brought: Vec<OwnedFd>, doorbell: &Doorbell) -> Result<Accepted> {
        if wire.net().is_some() || cfg!(feature = "socketpair") {
            return Ok(Accepted { here: None });
        }
        let mut brought = brought.into_iter();
        let (Some(segment), Some(bell)) = (brought.next(), brought.next()) else {
            return Err(Error::new(Code::Corrupt, "a client attached itself without its two descriptors"));
        };
        let link = ShmLink::accept(segment)?;
        link.sender.attach_doorbell(bell)?;
        Ok(Accepted { here: Some((link, doorbell.share()?)) })
    }

    /// What goes back beside the answer.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.here.iter().map(|(_, bell)| bell.as_fd()).collect()
    }

    /// The link, once the client has its answer. Its large arguments from another host have room within the budget.
    pub fn begin(self, wire: Wire, budget: &Arc<Budget>, flusher: &Arc<Flusher>) -> Result<Ends> {
        let Some((link, _)) = self.here else {
            #[cfg(feature = "socketpair")]
            if wire.net().is_none() {
                return Ok(super::by_socketpair(super::socketpair::ends(wire, budget, false)?));
            }
            let (stream, pool) = (wire.into_calls()?, Pool::new(budget));
            return Ok(super::by_network(network::of_server(stream, pool, flusher.clone())));
        };
        Ok(super::by_memory(memory::of_server(link, wire)))
    }
}
