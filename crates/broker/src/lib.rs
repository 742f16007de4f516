//! The directory of services: which server offers what, and which still lives.
//!
//! A **pure state machine**: events go in, actions come out, time is a number in an event. It
//! knows no sockets, clocks, files or threads; whoever hosts it numbers the connections, feeds
//! what comes over them and carries out the answers.
//!
//! ```text
//! server --Announce--> connected, listed --Heartbeat--> lease goes on
//!                          |  connection lost, lease over, Failed, Withdraw
//!                          v
//!                       forgotten (a heartbeat is then answered "false": announce again)
//! ```
//!
//! All of it is soft state: a broker that starts anew is complete once the servers have
//! announced themselves again, and clients go on from their own copy of the table meanwhile.
//!
//! ```
//! use forebay_broker::{Action, Broker, Event, Peer};
//! use forebay_types::directory::BrokerRequest;
//! let mut broker = Broker::new();
//! let actions = broker.handle(0, Event::Request { peer: Peer(1), request: BrokerRequest::Directory });
//! let Action::Answer { peer, answer } = &actions[0] else { panic!() };
//! assert_eq!(*peer, Peer(1));
//! assert_eq!(answer.as_ref().unwrap()["servers"], serde_json::json!([]));
//! ```
#![forbid(unsafe_code)]

mod books;
mod deaths;
mod table;

use forebay_types::directory::{BrokerRequest, Directory, Incarnation, LEASE_MS, SETTLING_MS};
use forebay_types::{Error, Result};
use serde_json::{Value, json};

use books::Books;
use deaths::Deaths;
use table::Table;

/// A connection, numbered by the host of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u64);

/// What happens to a broker.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and none is kept")]
pub enum Event {
    /// A request came over a connection.
    Request {
        /// The connection.
        peer: Peer,
        /// The request.
        request: BrokerRequest,
    },
    /// A connection ended.
    Lost {
        /// The connection.
        peer: Peer,
    },
    /// Time goes on; send one about every second.
    Tick,
}

/// Why a server left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It said so.
    Withdrawn,
    /// Its connection ended.
    Disconnected,
    /// It was silent for too long.
    Expired,
    /// A client found it dead or stopped.
    Failed,
}

/// What the host of a broker does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answer the request of a connection.
    Answer {
        /// The connection.
        peer: Peer,
        /// The answer.
        answer: Result<Value>,
    },
    /// A server came; for the log.
    Joined {
        /// Which.
        incarnation: Incarnation,
        /// Its name.
        name: String,
    },
    /// A server left; for the log.
    Left {
        /// Which.
        incarnation: Incarnation,
        /// Its name.
        name: String,
        /// Why.
        why: Gone,
    },
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Broker {
    table: Table,
    books: Books,
    now_ns: u64,
    /// Until then servers of a broker that died announce themselves.
    settles_ns: u64,
    deaths: Deaths,
}

const LEASE_NS: u64 = LEASE_MS * 1_000_000;

impl Broker {
    /// A broker that knows nobody.
    pub fn new() -> Broker {
        Broker::default()
    }

    /// A broker that takes, at `now_ns`, the place of one that died.
    pub fn succeeding(now_ns: u64) -> Broker {
        Broker { settles_ns: now_ns + SETTLING_MS * 1_000_000, ..Broker::default() }
    }

    /// Whether some server is listed: then the broker is needed.
    pub fn has_servers(&self) -> bool {
        !self.table.is_empty()
    }

    /// The table as clients get it, without counting the asker; for `forebay status`.
    pub fn directory(&self) -> Directory {
        self.table.directory()
    }

    /// Takes one event at a time (nanoseconds of any clock that only goes forward).
    pub fn handle(&mut self, now_ns: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.pass_time(now_ns, &mut actions);
        match event {
            Event::Tick => {}
            Event::Lost { peer } => self.table.disconnect(peer, &mut actions),
            Event::Request { peer, request } => {
                let answer = self.answer(peer, request, &mut actions);
                actions.push(Action::Answer { peer, answer });
            }
        }
        for action in &actions {
            if let Action::Left { incarnation, .. } = action
                && !self.table.has(*incarnation)
            {
                self.books.mark(*incarnation, Some(self.now_ns));
            }
        }
        actions
    }

    /// Ends leases. A broker that was itself stopped must not take the silence it could not
    /// hear for the death of all servers, so a long gap in its own time counts for nobody.
    fn pass_time(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        let gap = now_ns.saturating_sub(self.now_ns);
        self.now_ns = self.now_ns.max(now_ns);
        if gap > LEASE_NS / 2 {
            self.table.forgive(gap);
        }
        self.table.expire(self.now_ns, LEASE_NS, actions);
        self.books.forget(self.now_ns);
    }

    fn answer(&mut self, peer: Peer, request: BrokerRequest, actions: &mut Vec<Action>) -> Result<Value> {
        match request {
            BrokerRequest::Announce(info) => {
                let (incarnation, services) = (info.incarnation, info.services.clone());
                self.table.announce(peer, info, self.now_ns, actions)?;
                self.deaths.offered(&services);
                self.books.mark(incarnation, None);
                Ok(Value::Null)
            }
            BrokerRequest::Used { incarnation, services } => {
                let is_known = self.table.is_known(peer, incarnation);
                if is_known {
                    self.books.enter(incarnation, services)?;
                }
                Ok(json!(is_known))
            }
            BrokerRequest::Usage => Ok(json!(self.books.totals())),
            BrokerRequest::Heartbeat { incarnation, load } => {
                Ok(json!(self.table.heartbeat(peer, incarnation, load, self.now_ns)))
            }
            BrokerRequest::Withdraw { incarnation } => {
                self.table.withdraw(peer, incarnation, actions)?;
                Ok(Value::Null)
            }
            BrokerRequest::Failed { incarnation } => {
                self.table.remove(incarnation, Gone::Failed, actions);
                Ok(Value::Null)
            }
            BrokerRequest::Died { incarnation, how, withdrawn } => {
                self.deaths.withdraw(withdrawn, &how)?;
                self.deaths.note(incarnation, how, self.now_ns)?;
                self.table.remove(incarnation, Gone::Failed, actions);
                Ok(Value::Null)
            }
            BrokerRequest::HowDied { incarnation } => Ok(json!(self.deaths.of(incarnation, self.now_ns))),
            BrokerRequest::Withdrawn { service } => Ok(json!(self.deaths.why_withdrawn(&service))),
            BrokerRequest::Directory => {
                let settling = self.now_ns < self.settles_ns;
                let directory = Directory { settling, ..self.table.ask() };
                serde_json::to_value(&directory)
                    .map_err(|e| Error::internal(format!("the table cannot be written as JSON: {e}")))
            }
        }
    }
}
