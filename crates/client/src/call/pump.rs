//! Waiting for replies: what the leader of the waiting threads ([`super::lead`]) looks after. It looks
//! into the rings and sockets of all servers that owe something, hands replies to the calls they belong
//! to, and sleeps on the doorbell and the sockets.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_arena::{Doorbell, Spin};
use forebay_host::wait::{self, PollFlags};
use forebay_link::standing;
use forebay_types::Result;
use std::os::fd::AsFd;

use super::connection::Connection;
use super::lead::{LOOK, Lead, Lookout};
use super::lock;

/// The connections as the leader goes through them.
#[derive(Default)]
pub(super) struct Round {
    connections: Vec<Arc<Connection>>,
    generation: u64,
    spin: Spin,
    /// Since when it polled in vain.
    since: Option<Instant>,
    /// It slept until it was time to look after the servers.
    looks: bool,
}

impl Round {
    fn busy(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.connections.iter().filter(|c| c.is_busy())
    }
}

/// What is looked after.
pub(super) struct Servers {
    pub doorbell: Doorbell,
    connections: Mutex<Vec<Arc<Connection>>>,
    generation: AtomicU64,
}

/// The waiting of one client.
pub(super) struct Pump {
    lead: Lead<Servers>,
}

impl Deref for Pump {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.lead.lookout
    }
}

impl Pump {
    pub fn new() -> Result<Pump> {
        let servers = Servers {
            doorbell: Doorbell::new()?,
            connections: Mutex::default(),
            generation: AtomicU64::new(0),
        };
        Ok(Pump { lead: Lead::new(servers, Round::default()) })
    }

    /// Everybody who waits looks at what they wait for.
    pub fn nudge(&self) {
        self.lead.nudge();
    }

    /// This thread, which only sends, has taken replies or found a server lost: whoever waits for them looks.
    pub fn brought(&self) {
        self.lead.brought();
    }

    /// Waits until `ready` or the deadline; says whether it was ready. An error when this thread serves others and is not
    /// to wait any longer.
    pub fn wait(&self, mut ready: impl FnMut() -> bool, deadline: Option<Instant>) -> Result<bool> {
        let _wait = standing::Wait::begin();
        let mut objection = None;
        let over = || {
            ready() || {
                objection = standing::objection();
                objection.is_some()
            }
        };
        let in_time = self.lead.wait(over, deadline);
        objection.map_or(Ok(in_time), Err)
    }
}

impl Servers {
    pub fn add(&self, connection: Arc<Connection>) {
        lock(&self.connections).push(connection);
        self.generation.fetch_add(1, Ordering::Release);
        self.doorbell.ring();
    }

    /// The connections over which replies are awaited.
    pub fn busy(&self) -> impl Iterator<Item = Arc<Connection>> {
        lock(&self.connections).clone().into_iter().filter(|c| c.is_busy())
    }

    /// How often a connection has come or gone.
    pub fn changes(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn remove(&self, connection: &Arc<Connection>) {
        lock(&self.connections).retain(|c| !Arc::ptr_eq(c, connection));
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Lookout for Servers {
    type Round = Round;

    fn take(&self, round: &mut Round) -> bool {
        if round.generation != self.generation.load(Ordering::Acquire) {
            round.generation = self.generation.load(Ordering::Acquire);
            round.connections = lock(&self.connections).clone();
        }
        let mut any = false;
        for connection in &round.connections {
            any |= connection.is_busy() && connection.drain();
        }
        any
    }

    fn poll(&self, round: &mut Round) -> bool {
        let Round { connections, spin, .. } = round;
        let mut found = || connections.iter().any(|c| c.is_busy() && c.has_reply());
        round.since = spin.poll(&mut found);
        round.since.is_none()
    }

    fn arm(&self, round: &mut Round) {
        round.busy().for_each(|c| c.prepare_sleep());
    }

    fn has_news(&self, round: &mut Round) -> bool {
        round.busy().any(|c| c.has_reply())
    }

    /// Sleeps until the doorbell rings, a server hangs up, or it is time to look after them.
    fn sleep(&self, round: &mut Round, deadline: Option<Instant>) {
        // Who is not to wait looks at once what else there is.
        if standing::objection().is_some() {
            return;
        }
        let left = deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()).min(LOOK));
        let busy: Vec<&Arc<Connection>> = round.busy().collect();
        let bell = std::iter::once((self.doorbell.as_fd(), PollFlags::IN));
        let found = wait::any(bell.chain(busy.iter().map(|c| c.socket())), Some(left)).unwrap_or_default();
        let is_rung = found.first().is_some_and(|rung| !rung.is_empty());
        if is_rung {
            self.doorbell.clear();
        }
        let sockets = found.get(1..).unwrap_or_default();
        let woken = is_rung || sockets.iter().any(|ready| !ready.is_empty());
        let looks = !woken || sockets.iter().any(|ready| ready.intersects(wait::ENDS));
        round.looks = looks;
    }

    fn wake(&self, round: &mut Round) -> bool {
        round.connections.iter().for_each(|c| c.cancel_sleep());
        if let Some(since) = round.since.take()
            && round.busy().any(|c| c.has_reply())
        {
            round.spin.slept(since.elapsed());
        }
        let looks = std::mem::take(&mut round.looks);
        if looks {
            round.busy().for_each(|c| c.look());
        }
        looks
    }

    fn ring(&self) {
        self.doorbell.ring();
    }

    fn rests(&self) {
        standing::leave();
    }
}
