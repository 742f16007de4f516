//! Tells the broker that the server is there, and goes on telling: a broker that starts anew,
//! or forgot the server while it was stopped, learns of it again within a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_link::{Locator, Wire};
use forebay_types::directory::{BrokerRequest, HEARTBEAT_MS, REPORTED, ServerInfo};
use forebay_types::usage::Usage;
use forebay_types::{Code, Result};

use crate::shared::Shared;
use forebay_host::lock;
use forebay_host::wait::Backoff;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts while there is no broker: one that comes is told well before it has settled.
const RETRY: Backoff =
    Backoff::new(Duration::from_millis(HEARTBEAT_MS / 20), Duration::from_millis(HEARTBEAT_MS));

/// The connection to the broker, while there is one.
pub(crate) struct Announcer {
    locator: Locator,
    wire: Option<Wire>,
    /// What the broker was told last.
    told: Option<ServerInfo>,
    /// What it was told of services: their calls and failures, and at which beat.
    used: HashMap<String, (u64, u64, u64)>,
    beat: u64,
}

impl Announcer {
    /// Connects to the broker; an agent is started if need be.
    pub fn connect(locator: &Locator) -> Result<Wire> {
        locator.connect_or_start("server", TIMEOUT)
    }

    /// Announces the server for the first time.
    pub fn start(shared: &Shared, locator: Locator, wire: Wire) -> Result<Announcer> {
        let (used, beat) = (HashMap::new(), 0);
        let mut announcer = Announcer { locator, wire: Some(wire), told: None, used, beat };
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
        // It may be another broker.
        self.used.clear();
        Ok(())
    }

    fn heartbeat(&mut self, shared: &Shared) -> Result<()> {
        let beat = BrokerRequest::Heartbeat { incarnation: shared.incarnation, load: shared.load() };
        match self.ask(&beat)? {
            serde_json::Value::Bool(true) => self.report(shared),
            _ => self.announce(shared),
        }
    }

    /// Tells what services have done, where that has changed: of many those first that were told of longest ago.
    fn report(&mut self, shared: &Shared) -> Result<()> {
        self.beat += 1;
        let told = |name: &String| self.used.get(name).copied().unwrap_or_default();
        let is_news = |(name, usage): &(String, Usage)| {
            let (calls, failed, _) = told(name);
            (calls, failed) != (usage.calls, usage.failed)
        };
        let mut services: Vec<(String, Usage)> = shared.usage().into_iter().filter(is_news).collect();
        services.sort_by_cached_key(|(name, _)| told(name).2);
        services.truncate(REPORTED);
        if services.is_empty() {
            return Ok(());
        }
        let now: Vec<_> =
            services.iter().map(|(n, usage)| (n.clone(), (usage.calls, usage.failed, self.beat))).collect();
        let report = BrokerRequest::Used { incarnation: shared.incarnation, services };
        if self.ask(&report)? == serde_json::Value::Bool(true) {
            self.used.extend(now);
        }
        Ok(())
    }

    /// Heartbeats until the server stops, then takes leave.
    pub fn run(mut self, shared: Arc<Shared>) {
        let mut retry = RETRY;
        while !shared.stopping() {
            let changed = self.told.as_ref() != Some(&shared.info());
            let done = if changed { self.announce(&shared) } else { self.heartbeat(&shared) };
            let pause = match done {
                Ok(()) => {
                    *lock(&shared.trouble) = None;
                    retry.reset();
                    Duration::from_millis(HEARTBEAT_MS)
                }
                Err(e) => {
                    self.wire = None;
                    *lock(&shared.trouble) = Some(e.within("cannot announce the server"));
                    retry.pause()
                }
            };
            shared.nap(pause);
        }
        if self.wire.is_some() {
            let _ = self.report(&shared);
            let _ = self.ask(&BrokerRequest::Withdraw { incarnation: shared.incarnation });
        }
    }
}
