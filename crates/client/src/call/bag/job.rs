//! A task of a bag with all that belongs to it.

use std::sync::Arc;
use std::time::Instant;

use forebay_types::directory::ServerInfo;
use forebay_types::{Error, Given};

use crate::call::args::Arg;
use crate::call::connection::{Connection, Pending};
use crate::call::files::{Carried, LocalFile};
use crate::call::transfer::OwnCopy;

/// A task with its arguments, until it is over.
pub(super) struct Job {
    pub args: Vec<Arg<'static>>,
    pub kept: Vec<Option<OwnCopy>>,
    pub given: Vec<Given>,
    pub files: Vec<LocalFile>,
    /// Its files at a server that had no room for it when they were there.
    pub ready: Option<Carried>,
    /// Where it was sent; at the end of a bag, to two servers.
    pub flights: [Option<Flight>; 2],
    /// The last server that was lost while it had this task, and how.
    pub lost: Option<(Arc<ServerInfo>, Error)>,
}

/// Where a task was sent, under which number.
pub(super) struct Flight {
    pub id: u64,
    pub connection: Arc<Connection>,
    pub pending: Arc<Pending>,
    pub sent: Option<Instant>,
    /// Where its files are kept.
    pub files: Option<Carried>,
}

impl Job {
    /// The flight of it that is over, if one is.
    pub fn landed(&mut self) -> Option<Flight> {
        let is_over = |flight: &&mut Option<Flight>| flight.as_ref().is_some_and(|f| f.pending.is_done());
        self.flights.iter_mut().find(is_over)?.take()
    }

    /// Nobody waits for it any more.
    pub fn give_up(&mut self) {
        for flight in self.flights.iter_mut().filter_map(Option::take) {
            flight.connection.abandon(flight.id, &flight.pending);
        }
    }
}
