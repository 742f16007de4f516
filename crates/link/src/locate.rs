//! Where the agent is: a path or address that was given, the one the environment names, the usual
//! place of this node, or one that is started by need.

use crate::net::{Address, Keys};
use crate::wire::Wire;
use forebay_host::{environment, sockets};
use forebay_types::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Before an agent that died is looked for again.
const PAUSE: Duration = Duration::from_millis(10);

type Start = dyn Fn() -> Result<PathBuf> + Send + Sync;

/// How calls go to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// By shared memory when it is on the same host, else over the network.
    #[default]
    Nearest,
    /// Over the network in any case: to measure it, and to test it.
    Network,
}

/// Finds an agent, again whenever a connection is wanted.
#[derive(Clone, Default)]
pub struct Locator {
    given: Option<PathBuf>,
    start: Option<Arc<Start>>,
    keys: Option<Keys>,
    transport: Transport,
    silence: Option<Duration>,
}

impl Locator {
    /// The agent at that path, or at that address (`fb://host:port`); `None` means the
    /// environment's or the usual one.
    pub fn at(path: Option<&Path>) -> Locator {
        Locator { given: path.map(Path::to_owned).or_else(environment::broker), ..Locator::default() }
    }

    /// Has `start` start an agent when no path was given and nobody listens at the usual place; it says where the
    /// socket of the agent is.
    pub fn or_start(mut self, start: impl Fn() -> Result<PathBuf> + Send + Sync + 'static) -> Locator {
        self.start = Some(Arc::new(start));
        self
    }

    /// Takes these keys and not those of the user's Forebay home.
    pub fn with_keys(mut self, keys: Keys) -> Locator {
        self.keys = Some(keys);
        self
    }

    /// Sends calls over that transport.
    pub fn over(mut self, transport: Transport) -> Locator {
        self.transport = transport;
        self
    }

    /// A server on another host is lost after so long without a word, and not after that of the environment.
    pub fn with_silence(mut self, silence: Duration) -> Locator {
        self.silence = Some(silence);
        self
    }

    /// How long a server on another host may be silent.
    pub fn silence(&self) -> Result<Duration> {
        self.silence.map_or_else(environment::silence, Ok)
    }

    /// How calls go.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What opens the doors of other hosts.
    pub fn keys(&self) -> Result<Keys> {
        self.keys.clone().map_or_else(Keys::of_home, Ok)
    }

    /// Its address, if it is meant to be on the network.
    pub fn address(&self) -> Result<Option<Address>> {
        let text = self.given.as_deref().and_then(Path::to_str).filter(|t| Address::is_meant(t));
        text.map(str::parse).transpose()
    }

    /// The path where it should be, if it is meant to be on this node.
    pub fn path(&self) -> Result<PathBuf> {
        self.given.clone().map_or_else(sockets::agent_socket, Ok)
    }

    /// Connects to one that is there.
    pub fn connect(&self, role: &str, timeout: Duration) -> Result<Wire> {
        match self.address()? {
            Some(address) => Wire::connect_net(&address, role, &self.keys()?, timeout),
            None => Wire::connect_as(&self.path()?, role, timeout),
        }
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

impl Locator {
    /// Connects, starting an agent if need be, and asks what is asked first. One that dies before it answers gives way
    /// to another one: nothing is known of it yet that could be lost.
    pub fn first<T>(
        &self,
        role: &str,
        timeout: Duration,
        mut ask: impl FnMut(&mut Wire) -> Result<T>,
    ) -> Result<(Wire, T)> {
        let mut lost: Option<Instant> = None;
        loop {
            let tried = self.connect_or_start(role, timeout).and_then(|mut wire| {
                let answer = ask(&mut wire)?;
                Ok((wire, answer))
            });
            let again =
                |e: &Error| e.code() == Code::ServerLost || e.code() == Code::NoServer && lost.is_some();
            match tried {
                Err(e) if again(&e) && lost.is_none_or(|since| since.elapsed() < timeout) => {
                    lost.get_or_insert_with(Instant::now);
                    std::thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
    }
}

impl std::fmt::Debug for Locator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Locator({:?}, starts: {})", self.given, self.start.is_some())
    }
}
