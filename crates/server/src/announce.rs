//! Tells the broker that the server is there, and goes on telling: a broker that starts anew,
//! or forgot the server while it was stopped, learns of it again within a second.

use std::sync::Arc;
use std::time::Duration;

use forebay_link::{Locator, Wire};
use forebay_types::directory::{BrokerRequest, HEARTBEAT_MS, ServerInfo};
use forebay_types::{Code, Result};

use crate::shared::Shared;
use forebay_host::lock;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts while there is no broker: one that comes is told well before it has settled.
const RETRY: Duration = Duration::from_millis(HEARTBEAT_MS / 5);

/// The connection to the broker, while there is one.
pub(crate) struct Announcer {
    locator: Locator,
    wire: Option<Wire>,
    /// What the broker was told last.
    told: Option<ServerInfo>,
}

impl Announcer {
    /// Connects to the broker; an agent is started if need be.
    pub fn connect(locator: &Locator) -> Result<Wire> {
        locator.connect_or_start("server", TIMEOUT)
    }

    /// Announces the server for the first time.
    pub fn start(shared: &Shared, locator: Locator, wire: Wire) -> Result<Announcer> {
        let mut announcer = Announcer { locator, wire: Some(wire), told: None };
        match announcer.announce(shared) {
            Err(e) if e.code() == Code::ServerLost => {
                let info = shared.info();
                let announce = BrokerRequest::Announce(info.clone());
                let ask = |wire: &mut Wire| wire.ask_with(&announce, &[], TIMEOUT).map(drop);
                let (wire, ()) = announcer.locator.first("server", TIMEOUT, ask)?;
                (announcer.wire, announcer.told) = (Some(wire), Some(info));
            }
            told => told?,
        }
        Ok(announcer)
    }

    fn ask(&mut self, request: &BrokerRequest) -> Result<serde_json::Value> {
        if self.wire.is_none() {
            self.wire = Some(self.locator.connect("server", TIMEOUT)?);
        }
        let wire = self.wire.as_mut().expect("connected just now");
        wire.ask_with(request, &[], TIMEOUT).map(|(value, _)| value)
    }

    fn announce(&mut self, shared: &Shared) -> Result<()> {
        let info = shared.info();
        self.ask(&BrokerRequest::Announce(info.clone()))?;
        self.told = Some(info);
        Ok(())
    }

    fn heartbeat(&mut self, shared: &Shared) -> Result<()> {
        let beat = BrokerRequest::Heartbeat { incarnation: shared.incarnation, load: shared.load() };
        match self.ask(&beat)? {
            serde_json::Value::Bool(true) => Ok(()),
            _ => self.announce(shared),
        }
    }

    /// Heartbeats until the server stops, then takes leave.
    pub fn run(mut self, shared: Arc<Shared>) {
        while !shared.stopping() {
            let changed = self.told.as_ref() != Some(&shared.info());
            let done = if changed { self.announce(&shared) } else { self.heartbeat(&shared) };
            let pause = match done {
                Ok(()) => {
                    *lock(&shared.trouble) = None;
                    Duration::from_millis(HEARTBEAT_MS)
                }
                Err(e) => {
                    self.wire = None;
                    *lock(&shared.trouble) = Some(e.within("cannot announce the server"));
                    RETRY
                }
            };
            shared.nap(pause);
        }
        if self.wire.is_some() {
            let _ = self.ask(&BrokerRequest::Withdraw { incarnation: shared.incarnation });
        }
    }
}
