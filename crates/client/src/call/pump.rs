//! Waiting for replies. Whoever waits first *leads*: it looks into the rings of all servers that
//! owe something, hands replies to the calls they belong to, and sleeps when there are none; the
//! others sleep until their reply was handed over or the leader leaves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_arena::Spin;
use forebay_link::Doorbell;
use forebay_types::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Connection;
use super::lock;

/// A sleeping leader looks after its servers so often.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Turn {
    led: bool,
    followers: u32,
}

/// The connections as the leader goes through them.
#[derive(Default)]
struct Round {
    connections: Vec<Arc<Connection>>,
    generation: u64,
    spin: Spin,
}

/// The waiting of one client.
pub(super) struct Pump {
    pub doorbell: Doorbell,
    turn: Mutex<Turn>,
    arrived: Condvar,
    round: Mutex<Round>,
    connections: Mutex<Vec<Arc<Connection>>>,
    generation: AtomicU64,
}

impl Pump {
    pub fn new() -> Result<Pump> {
        Ok(Pump {
            doorbell: Doorbell::new()?,
            turn: Mutex::default(),
            arrived: Condvar::new(),
            round: Mutex::default(),
            connections: Mutex::default(),
            generation: AtomicU64::new(0),
        })
    }

    pub fn add(&self, connection: Arc<Connection>) {
        lock(&self.connections).push(connection);
        self.generation.fetch_add(1, Ordering::Release);
        self.doorbell.ring();
    }

    pub fn remove(&self, connection: &Arc<Connection>) {
        lock(&self.connections).retain(|c| !Arc::ptr_eq(c, connection));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Waits until `ready` or the deadline; says whether it was ready.
    pub fn wait(&self, mut ready: impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
        loop {
            if ready() {
                return true;
            }
            let mut turn = lock(&self.turn);
            if !turn.led {
                turn.led = true;
                drop(turn);
                let done = self.lead(&mut ready, deadline);
                self.abdicate();
                return done;
            }
            // Looked at under the lock that the leader takes to announce: no reply is missed.
            if ready() {
                return true;
            }
            turn.followers += 1;
            let left = deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()).min(LOOK));
            let (mut turn, _) = self.arrived.wait_timeout(turn, left).unwrap_or_else(PoisonError::into_inner);
            turn.followers -= 1;
            drop(turn);
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return ready();
            }
        }
    }

    fn abdicate(&self) {
        let mut turn = lock(&self.turn);
        turn.led = false;
        if turn.followers > 0 {
            self.arrived.notify_all();
        }
    }

    fn announce(&self) {
        if lock(&self.turn).followers > 0 {
            self.arrived.notify_all();
        }
    }

    fn lead(&self, ready: &mut impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
        let mut round = lock(&self.round);
        loop {
            if round.generation != self.generation.load(Ordering::Acquire) {
                round.generation = self.generation.load(Ordering::Acquire);
                round.connections = lock(&self.connections).clone();
            }
            let mut any = false;
            for connection in &round.connections {
                any |= connection.is_busy() && connection.drain();
            }
            if ready() {
                return true;
            }
            if any {
                self.announce();
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return false;
            }
            let Round { connections, spin, .. } = &mut *round;
            if self.pause(connections, spin, deadline) {
                self.announce();
            }
        }
    }

    /// Polls a little, then sleeps. Returns whether the servers were looked after, so that
    /// somebody else's may be lost.
    fn pause(&self, connections: &[Arc<Connection>], spin: &mut Spin, deadline: Option<Instant>) -> bool {
        let busy = || connections.iter().filter(|c| c.is_busy());
        let mut found = || busy().any(|c| c.has_reply());
        let start = Instant::now();
        if spin.poll(&mut found, start) {
            spin.paid();
            return false;
        }
        busy().for_each(|c| c.prepare_sleep());
        let mut slept = false;
        if !busy().any(|c| c.has_reply()) {
            slept = self.sleep(connections, deadline);
        }
        connections.iter().for_each(|c| c.cancel_sleep());
        if busy().any(|c| c.has_reply()) {
            spin.slept(start.elapsed());
        }
        if slept {
            busy().for_each(|c| c.look());
        }
        slept
    }

    /// Sleeps until the doorbell rings, a server hangs up, or it is time to look after them.
    /// Returns whether it is time for that.
    fn sleep(&self, connections: &[Arc<Connection>], deadline: Option<Instant>) -> bool {
        let left = deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()).min(LOOK));
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let busy: Vec<&Arc<Connection>> = connections.iter().filter(|c| c.is_busy()).collect();
        let mut fds = vec![PollFd::new(&self.doorbell, PollFlags::IN)];
        fds.extend(busy.iter().map(|c| PollFd::from_borrowed_fd(c.socket(), PollFlags::RDHUP)));
        let rung = match poll(&mut fds, Some(&timeout)) {
            Ok(_) => !fds[0].revents().is_empty(),
            Err(_) => false,
        };
        if rung {
            self.doorbell.clear();
        }
        !rung || fds[1..].iter().any(|fd| !fd.revents().is_empty())
    }
}
