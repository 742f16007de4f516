//! Waiting for replies. Whoever waits first *leads*: it looks into the rings of all servers that
//! owe something, hands replies to the calls they belong to, and sleeps when there are none; the
//! others sleep until their reply was handed over or the leader leaves.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use forebay_arena::Spin;
use forebay_link::Doorbell;
use forebay_types::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Connection;
use super::lock;

/// A sleeping leader looks after its servers so often.
const LOOK: Duration = Duration::from_millis(100);

/// The connections as the leader goes through them. Who holds it leads.
#[derive(Default)]
struct Round {
    connections: Vec<Arc<Connection>>,
    generation: u64,
    spin: Spin,
}

/// The waiting of one client.
pub(super) struct Pump {
    pub doorbell: Doorbell,
    /// Sleeping, or about to: counted up before looking for the last time.
    followers: AtomicU32,
    turn: Mutex<()>,
    arrived: Condvar,
    round: Mutex<Round>,
    connections: Mutex<Vec<Arc<Connection>>>,
    generation: AtomicU64,
}

impl Pump {
    pub fn new() -> Result<Pump> {
        Ok(Pump {
            doorbell: Doorbell::new()?,
            followers: AtomicU32::new(0),
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

    /// Everybody who waits looks at what they wait for.
    pub fn nudge(&self) {
        self.doorbell.ring();
        self.announce();
    }

    /// Waits until `ready` or the deadline; says whether it was ready.
    pub fn wait(&self, mut ready: impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
        loop {
            if ready() {
                return true;
            }
            if let Some(mut round) = self.round() {
                let done = self.lead(&mut round, &mut ready, deadline);
                drop(round);
                self.announce();
                return done;
            }
            if !self.follow(&mut ready, deadline) {
                return ready();
            }
        }
    }

    /// The lead, if nobody has it.
    fn round(&self) -> Option<MutexGuard<'_, Round>> {
        match self.round.try_lock() {
            Ok(round) => Some(round),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sleeps until the leader has news or leaves; false when the time is over.
    fn follow(&self, ready: &mut impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
        let turn = lock(&self.turn);
        self.followers.fetch_add(1, Ordering::Relaxed);
        // The other half of this fence is in `announce`: either the leader sees this follower, or
        // this look sees what the leader did. The leader takes the lock before it calls, so its
        // call comes after the sleep has begun.
        fence(Ordering::SeqCst);
        if !ready() && self.round().is_none() {
            let left = deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()).min(LOOK));
            drop(self.arrived.wait_timeout(turn, left).unwrap_or_else(PoisonError::into_inner));
        }
        self.followers.fetch_sub(1, Ordering::Relaxed);
        deadline.is_none_or(|d| Instant::now() < d)
    }

    /// Tells followers that there are replies, or that nobody leads.
    #[inline]
    fn announce(&self) {
        fence(Ordering::SeqCst);
        if self.followers.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.turn));
            self.arrived.notify_all();
        }
    }

    fn lead(&self, round: &mut Round, ready: &mut impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
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
            let Round { connections, spin, .. } = round;
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
        let Some(start) = spin.poll(&mut found) else { return false };
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
        fds.extend(busy.iter().map(|c| c.socket()).map(|(fd, events)| PollFd::from_borrowed_fd(fd, events)));
        let woken = poll(&mut fds, Some(&timeout)).unwrap_or(0) > 0;
        if !fds[0].revents().is_empty() {
            self.doorbell.clear();
        }
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        !woken || fds[1..].iter().any(|fd| fd.revents().intersects(ends))
    }
}
