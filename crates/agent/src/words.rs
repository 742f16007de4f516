//! What the command line and other tools say to an owner of runs over its socket: requests in
//! JSON, one answer each. Ranks speak [`forebay_types::control::RunRequest`] there, servers and
//! clients [`forebay_types::directory::BrokerRequest`].

use forebay_types::directory::Directory;
use forebay_types::watch::{Act, State};
use serde::{Deserialize, Serialize};

/// A request of a person or a script. Whoever may open the socket may steer: it is this user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AdminRequest {
    /// What is going on. Answer: [`Status`].
    Status,
    /// An agent started by need stays until it is told to go. Answer: null.
    Stay,
    /// Take runs that ranks on other hosts write. Answer: null.
    TakeRuns {
        /// The directory, absolute, under which they are.
        dir: std::path::PathBuf,
    },
    /// Where a run is that other hosts name so. Answer: its directory; null when the address is not this agent's.
    Directory {
        /// What the address means where the program is that asks.
        addresses: Vec<std::net::SocketAddr>,
        /// The name of the run behind it.
        run: String,
    },
    /// Listen for other hosts. Answer: [`Listening`].
    Listen {
        /// Where: `tcp://HOST:PORT`; port 0 takes any.
        address: String,
        /// TLS over loopback too.
        tls: bool,
    },
    /// Drain everything and go. Answer: null, before it goes; `Conflict` while programs write runs.
    Down {
        /// Go nevertheless.
        force: bool,
    },
    /// The page of a run. Answer: [`forebay_types::control::PageLinks`].
    Links {
        /// Absolute path of the run's directory.
        run: String,
    },
    /// What a script shows to the page of a run. Answer: the token.
    Token {
        /// Absolute path of the run's directory.
        run: String,
        /// Whether it is to steer.
        operator: bool,
    },
    /// Waits until an operator's link of [`AdminRequest::Links`] was opened. Answer: whether it was.
    Opened {
        /// Absolute path of the run's directory.
        run: String,
        /// The link.
        link: String,
        /// How long to wait, in milliseconds.
        wait_ms: u64,
    },
    /// An act upon a run. Answer: [`Steered`], when it was applied or the time is over.
    Steer {
        /// Absolute path of the run's directory.
        run: String,
        /// Who asks, for the log.
        who: String,
        /// The act.
        act: Act,
        /// How long to wait until it is applied, in milliseconds.
        wait_ms: u64,
    },
}

/// Where an agent listens for other hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listening {
    /// The address: `fb://HOST:PORT`.
    pub address: String,
    /// SHA-256 of its certificate; none when it speaks TLS nowhere.
    pub certificate: Option<String>,
}

/// What became of an act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steered {
    /// Its number in the log.
    pub id: u64,
    /// Whether every rank has carried it out; otherwise it still waits for its step.
    pub applied: bool,
    /// Its step, when known.
    pub step: Option<i64>,
    /// What was done.
    pub text: String,
    /// The state of the run now.
    pub state: State,
}

/// What an owner of runs is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `agent`, or `run` when it is embedded in a program.
    pub role: String,
    /// Its pid.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Version of its Forebay.
    pub program: String,
    /// Its socket.
    pub socket: String,
    /// Seconds since it began.
    pub up_s: f64,
    /// Whether it leaves by itself when nothing needs it.
    pub by_need: bool,
    /// Connections besides the one that asks.
    pub connections: usize,
    /// Address of the page, once somebody wanted one.
    pub page: Option<String>,
    /// Where it listens for other hosts.
    #[serde(default)]
    pub listens: Option<Listening>,
    /// The runs it owns or still shows.
    pub runs: Vec<RunStatus>,
    /// The servers it knows; always empty when embedded.
    pub directory: Directory,
}

/// The owners of a user on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// Those that answer.
    pub answering: Vec<Status>,
    /// Those that live and do not.
    pub silent: Vec<Silent>,
    /// Servers of which none of these knows, for the agent that did is gone.
    pub unlisted: Vec<Unlisted>,
}

/// A server that no owner knows of. It announces itself to the next agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// Its pid.
    pub pid: u32,
    /// Its socket.
    pub socket: String,
    /// It was stopped, by SIGSTOP or a debugger.
    pub stopped: bool,
}

/// An owner that lives and does not answer: it is stopped, or very busy. What is known of it the system says.
#[derive(Clone, Debug, PartialEq)]
pub struct Silent {
    /// `agent`, or `run` when it is embedded in a program.
    pub role: String,
    /// Its pid.
    pub pid: u32,
    /// Its socket.
    pub socket: String,
    /// Whether its process is stopped.
    pub stopped: bool,
    /// The directories of the runs that it holds.
    pub runs: Vec<String>,
}

/// A run, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Identity.
    pub id: String,
    /// Its directory.
    pub path: String,
    /// Its state in a word.
    pub state: State,
    /// The foremost step, once a loop has begun.
    pub step: Option<i64>,
    /// Its ranks.
    pub ranks: Vec<RankStatus>,
    /// Clients beside them.
    #[serde(default)]
    pub clients: usize,
    /// People who watch.
    pub viewers: usize,
    /// The store's figures, while it is open.
    pub figures: serde_json::Value,
}

/// A rank of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankStatus {
    /// Its number.
    pub rank: u32,
    /// Its pid.
    pub pid: u32,
    /// The step it is about to compute; `None` before its loop.
    pub step: Option<i64>,
    /// Whether it waits at its gate.
    pub held: bool,
    /// Bytes of its arena.
    pub buffer: u64,
}
