//! Who of the threads that wait looks for replies. Whoever comes first *leads*: it takes what has come for
//! all, polls, and sleeps; the others sleep until what they wait for was handed over or the leader leaves.
//!
//! ```text
//! leader:    take -> ready? -> poll -> asleep := true -> arm what is under way -> ready? nothing came? -> sleep
//! follower:  send -> sleepers := sleepers + 1 -> not ready, and somebody leads? -> is he asleep? ring -> sleep
//! ```
//! A sleeping leader hears only what was under way when it went to sleep, so whoever sent something
//! after that wakes it. The leader says that it sleeps before it looks what is under way; the follower
//! sends before it looks whether the leader sleeps: one of them sees the other.
//!
//! A thread that sends takes what has come, too, lest it and the server wait for each other: it says so, and wakes
//! a leader that sleeps. The leader looks whether it is ready when it has said that it sleeps.
//!
//! What the leader looks after is handed in, and so are the locks ([`super::sync`]): the model checker runs
//! this very file (`tests/waiting.rs`).

use std::time::{Duration, Instant};

use super::sync::{
    AtomicBool, AtomicU32, Condvar, Mutex, MutexGuard, Ordering, PoisonError, TryLockError, fence,
};

/// Who sleeps looks after the others so often: whether servers live, and whether somebody leads.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// What a leader looks after.
pub(super) trait Lookout {
    /// What only the leader has.
    type Round;
    /// Takes what has come; says whether anything had.
    fn take(&self, round: &mut Self::Round) -> bool;
    /// Looks for more as long as that pays; says whether there is some.
    fn poll(&self, round: &mut Self::Round) -> bool;
    /// From now on whoever brings something for what is under way rings.
    fn arm(&self, round: &mut Self::Round);
    /// Whether something has come for what is under way.
    fn has_news(&self, round: &mut Self::Round) -> bool;
    /// Sleeps until it rings or the time is over.
    fn sleep(&self, round: &mut Self::Round, deadline: Option<Instant>);
    /// Nobody rings any more. Returns whether others may have lost something meanwhile.
    fn wake(&self, round: &mut Self::Round) -> bool;
    /// Wakes who sleeps.
    fn ring(&self);
    /// This thread is about to sleep, leading or not.
    fn rests(&self);
}

/// The waiting of all threads of one client.
pub(super) struct Lead<L: Lookout> {
    pub lookout: L,
    /// Who holds it leads.
    round: Mutex<L::Round>,
    /// The leader sleeps, or is about to.
    asleep: AtomicBool,
    /// Sleeping, or about to: counted up before looking for the last time.
    followers: AtomicU32,
    turn: Mutex<()>,
    arrived: Condvar,
}

impl<L: Lookout> Lead<L> {
    pub fn new(lookout: L, round: L::Round) -> Lead<L> {
        Lead {
            lookout,
            round: Mutex::new(round),
            asleep: AtomicBool::new(false),
            followers: AtomicU32::new(0),
            turn: Mutex::new(()),
            arrived: Condvar::new(),
        }
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

    /// Everybody who waits looks at what they wait for.
    pub fn nudge(&self) {
        self.lookout.ring();
        self.announce();
    }

    /// Another thread than the leader has handed something over.
    pub fn brought(&self) {
        // The other half of this fence is in `pause`: either the leader is found asleep, or it finds what was brought.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.lookout.ring();
        }
        self.announce();
    }

    /// The lead, if nobody has it.
    fn round(&self) -> Option<MutexGuard<'_, L::Round>> {
        match self.round.try_lock() {
            Ok(round) => Some(round),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sleeps until the leader has news or leaves; false when the time is over.
    fn follow(&self, ready: &mut impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
        self.lookout.rests();
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.followers.fetch_add(1, Ordering::Relaxed);
        // The other half of this fence is in `announce`: either the leader sees this follower, or
        // this look sees what the leader did. The leader takes the lock before it calls, so its
        // call comes after the sleep has begun. The same fence stands between what this thread
        // sent and its look whether the leader sleeps; the other half of that is in `pause`.
        fence(Ordering::SeqCst);
        if !ready() && self.round().is_none() {
            if self.asleep.load(Ordering::Relaxed) {
                self.lookout.ring();
            }
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
            drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
            self.arrived.notify_all();
        }
    }

    fn lead(
        &self,
        round: &mut L::Round,
        ready: &mut impl FnMut() -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        loop {
            let any = self.lookout.take(round);
            if ready() {
                return true;
            }
            if any {
                self.announce();
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return false;
            }
            if !self.lookout.poll(round) && self.pause(round, ready, deadline) {
                self.announce();
            }
        }
    }

    /// Sleeps. Returns whether somebody else's may be lost.
    fn pause(
        &self,
        round: &mut L::Round,
        ready: &mut impl FnMut() -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        self.lookout.rests();
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.lookout.arm(round);
        if !ready() && !self.lookout.has_news(round) {
            self.lookout.sleep(round, deadline);
        }
        self.asleep.store(false, Ordering::Relaxed);
        self.lookout.wake(round)
    }
}
