//! What servers and clients say to a broker: requests as JSON over its socket, one answer each.
//!
//! A server keeps its connection open: it announces itself, then sends a heartbeat every
//! [`HEARTBEAT_MS`]; the broker takes the closing of the connection as its death, and forgets a
//! server that was silent for [`LEASE_MS`]. Everything a broker knows it knows from servers, so
//! a new broker is complete as soon as they have announced themselves again.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;
use crate::{Code, Error, Result, limits};

/// Time between heartbeats of a server, in milliseconds.
pub const HEARTBEAT_MS: u64 = 1_000;
/// Within that time every server has announced itself to a broker that took the place of another.
pub const SETTLING_MS: u64 = 2 * HEARTBEAT_MS;
/// Silence after which a server is taken for gone, in milliseconds.
pub const LEASE_MS: u64 = 5_000;
/// Longest lease that a server may ask for.
pub const LONGEST_LEASE_MS: u64 = 7_200_000;
/// Most services of one server.
pub const SERVICES: usize = 4_096;
/// Most services of which a server tells at once what they have done.
pub const REPORTED: usize = 64;
/// Most servers that one broker knows.
pub const SERVERS: usize = 4_096;

/// Most deaths of servers that a broker remembers.
pub const DEATHS: usize = 64;
/// For how long it remembers one, in milliseconds.
pub const DEATH_MS: u64 = 600_000;
/// Longest text about a death, in bytes.
pub const DEATH_BYTES: usize = 4_096;

/// One life of one server: a new process, or the same one after a new start, has a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// What a server says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its name for people; several servers may share it.
    pub name: String,
    /// This life of it.
    pub incarnation: Incarnation,
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Absolute path of its Unix socket.
    pub socket: String,
    /// The signatures of its services, in canonical text.
    pub services: Vec<String>,
    /// Which memory it can share: equal for processes of one host, boot and set of namespaces.
    #[serde(default)]
    pub place: String,
    /// Where it listens for other hosts.
    #[serde(default)]
    pub listens: Option<Listens>,
    /// How long its silence means nothing, if longer than [`LEASE_MS`]: a network may be cut for a while.
    #[serde(default)]
    pub lease_ms: u64,
    /// The most bytes of shared memory that one client may ask it to map, where its address space is limited; 0: no
    /// limit.
    #[serde(default)]
    pub room: u64,
    /// How many requests it works on at a time.
    #[serde(default = "one")]
    pub workers: u32,
    /// Somebody watches its process, who tells the broker how it died.
    #[serde(default)]
    pub supervised: bool,
}

fn one() -> u32 {
    1
}

/// Where a server listens on the network. The secret is that of the broker's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listens {
    /// `HOST:PORT`; host `*` is the one at which the asker reaches the broker.
    pub address: String,
    /// SHA-256 of its certificate, in hexadecimal digits; none when it speaks TLS nowhere.
    pub certificate: Option<String>,
}

/// How busy a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Requests being served.
    pub running: u32,
    /// Requests that wait.
    pub queued: u32,
    /// Requests served so far.
    pub served: u64,
}

/// A request to the broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BrokerRequest {
    /// A server is there, or has other services now. Answer: null.
    Announce(ServerInfo),
    /// It still is. Answer: true, or false when the broker does not know it (then it announces itself).
    Heartbeat {
        /// Who.
        incarnation: Incarnation,
        /// How busy.
        load: Load,
    },
    /// What some of its services have done since it began, those of which that has changed. Answer: true, or false as
    /// above.
    Used {
        /// Who.
        incarnation: Incarnation,
        /// Names, and what they have done; at most [`REPORTED`].
        services: Vec<(String, Usage)>,
    },
    /// It leaves. Answer: null.
    Withdraw {
        /// Who.
        incarnation: Incarnation,
    },
    /// A client found a server dead or stopped. Answer: null. A report about an earlier life is ignored.
    Failed {
        /// Who.
        incarnation: Incarnation,
    },
    /// Everything that is offered. Answer: [`Directory`].
    Directory,
    /// What the services have done, those of servers that left in the last ten minutes included. Answer: [`Usage`] by name.
    Usage,
    /// Who watches the process of a server has seen it die. Answer: null.
    Died {
        /// Which life has ended.
        incarnation: Incarnation,
        /// How, in words: the signal, and what it was doing.
        how: String,
        /// Services that are offered no more from now on, because they have ended too many lives.
        #[serde(default)]
        withdrawn: Vec<String>,
    },
    /// Why a service that nobody offers is offered no more. Answer: the words of the death after which it was withdrawn, or null.
    Withdrawn {
        /// Which one.
        service: String,
    },
    /// How a server died. Answer: the words, or null when nobody has told.
    HowDied {
        /// Which life.
        incarnation: Incarnation,
    },
}

/// A server as the broker tells clients of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerEntry {
    /// What it said about itself.
    #[serde(flatten)]
    pub info: ServerInfo,
    /// How busy it was at its last heartbeat.
    pub load: Load,
}

/// The table of services that a client keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    /// Counts the changes; equal numbers of one broker mean equal tables.
    pub version: u64,
    /// Counts the askers, so that clients begin their round of servers at different places.
    pub turn: u64,
    /// The broker has just taken the place of one that died: servers announce themselves to it
    /// within [`SETTLING_MS`], and until then what it lacks may be there all the same.
    #[serde(default)]
    pub settling: bool,
    /// The servers, in the order in which they came.
    pub servers: Vec<ServerEntry>,
}

impl ServerInfo {
    /// Checks what came over a socket: lengths, numbers and signatures.
    pub fn check(&self) -> Result<()> {
        if self.services.len() > SERVICES {
            return Err(Error::new(
                Code::Full,
                format!(
                    "server {:?} offers {} services, more than {SERVICES}; start several servers",
                    self.name,
                    self.services.len()
                ),
            ));
        }
        if self.name.len() > limits::NAME_BYTES
            || self.host.len() > limits::NAME_BYTES
            || self.socket.len() > 107
            || self.place.len() > limits::NAME_BYTES
            || self.listens.as_ref().is_some_and(|l| l.address.len() > limits::NAME_BYTES + 6)
            || self.lease_ms > LONGEST_LEASE_MS
        {
            return Err(Error::bad("the name, host or socket path of a server is too long"));
        }
        for text in &self.services {
            crate::Signature::parse(text).map_err(|e| e.within(format_args!("server {:?}", self.name)))?;
        }
        Ok(())
    }
}
