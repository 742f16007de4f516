//! The threads of a server: one of them *leads*, which is looking for requests; whoever finds one runs its
//! body; the others rest until the lead is handed to one of them.
//!
//! ```text
//!            lead --a request, and begin()--> body --end()--> lead or rest
//!              |                               |  ^
//!              | no place for a body           |  | come_back()
//!              v                               v  |
//!            rest                     leave(): away, in a call of its own
//! ```
//! So many bodies run at a time as the server has *places*. A body that waits for a call of its own gives its place
//! away, and a spare thread is made if need be, so that the call may come back to this very server. With one
//! place two bodies never run at once: who comes back waits until the place is free. With several it goes on
//! at once, for a body that waits for a lock of the first one's may have the place.
//!
//! Whoever hands the lead over takes the lock of those who rest, and whoever is about to rest looks under that
//! lock whether there is something to lead for: so one of them sees the other.
//!
//! The locks are handed in ([`super::sync`]): the model checker runs this very file (`tests/leading.rs`).

use super::sync::{
    AtomicBool, AtomicU32, Condvar, Mutex, MutexGuard, Ordering, PoisonError, TryLock, TryLockGuard,
};

/// Most spare threads. One that waits costs some pages of stack.
pub(super) const SPARES: u32 = 1_024;

/// Who is to stand in for a body that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spare {
    /// Somebody is there, or there are too many already.
    Nobody,
    /// A new thread. It is counted.
    Serves,
    /// Nobody can be had, and nobody is left who serves: what this body waits for may never come, if it is to come from
    /// this server. It is not to wait.
    None,
    /// A new thread that answers requests with an error: the server stops, and everybody in it waits.
    Refuses,
}

pub(super) struct Crew<L> {
    /// Who holds it leads.
    lead: TryLock<L>,
    places: u32,
    /// Most threads beyond those.
    spares: u32,
    /// That run.
    bodies: AtomicU32,
    /// That wait for a call of their own.
    away: AtomicU32,
    /// That have waited for it and now wait for the one place.
    back: AtomicU32,
    stop: AtomicBool,
    rest: Mutex<Rest>,
    promoted: Condvar,
    free: Condvar,
}

struct Rest {
    sleeping: u32,
    /// All threads that there are.
    threads: u32,
}

impl<L> Crew<L> {
    /// So many threads, each with a place, and at most so many beside them.
    pub fn new(places: u32, spares: u32, lead: L) -> Crew<L> {
        Crew {
            lead: TryLock::new(lead),
            places,
            spares,
            bodies: AtomicU32::new(0),
            away: AtomicU32::new(0),
            back: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            rest: Mutex::new(Rest { sleeping: 0, threads: places }),
            promoted: Condvar::new(),
            free: Condvar::new(),
        }
    }

    /// Bodies that may run at a time.
    pub fn places(&self) -> u32 {
        self.places
    }

    fn resting(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lead, if nobody has it.
    #[inline]
    pub fn lead(&self) -> Option<TryLockGuard<'_, L>> {
        self.lead.take()
    }

    /// Bodies that have begun and not ended.
    pub fn running(&self) -> u32 {
        self.bodies.load(Ordering::Relaxed) + self.away.load(Ordering::Relaxed)
    }

    fn has_place(&self) -> bool {
        self.back.load(Ordering::SeqCst) == 0 && self.bodies.load(Ordering::SeqCst) < self.places
    }

    /// The leader takes a place for a body; false when there is none: then it rests.
    #[inline]
    pub fn begin(&self) -> bool {
        // Who comes back goes first.
        self.back.load(Ordering::SeqCst) == 0
            && self
                .bodies
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < self.places).then_some(n + 1))
                .is_ok()
    }

    /// A body is over, or none has begun. This thread looks next whether it can lead.
    #[inline]
    pub fn end(&self) {
        self.bodies.fetch_sub(1, Ordering::SeqCst);
        if self.back.load(Ordering::SeqCst) > 0 {
            self.let_back();
        }
    }

    #[cold]
    fn let_back(&self) {
        drop(self.resting());
        self.free.notify_one();
    }

    /// Sleeps until there may be something to lead for. False when this thread is not needed any more: it is not
    /// counted from then on, so that whoever leaves its place just now sees that nobody is there.
    pub fn rest(&self) -> bool {
        let mut rest = self.resting();
        if self.has_place() && self.lead().is_some() {
            return true;
        }
        if self.stopping() {
            rest.threads -= 1;
            return false;
        }
        rest.sleeping += 1;
        rest = self.promoted.wait(rest).unwrap_or_else(PoisonError::into_inner);
        rest.sleeping -= 1;
        true
    }

    /// Nobody leads any more, or soon: wakes one who rests, if there is a place for what it finds.
    pub fn promote(&self) {
        if self.resting().sleeping > 0 && self.has_place() {
            self.promoted.notify_one();
        }
    }

    /// A body is about to sleep until a call of its own is over. Says who is to stand in for it.
    pub fn leave(&self) -> Spare {
        self.away.fetch_add(1, Ordering::SeqCst);
        self.bodies.fetch_sub(1, Ordering::SeqCst);
        let mut rest = self.resting();
        let back = self.back.load(Ordering::SeqCst);
        if back > 0 {
            self.free.notify_one();
        } else if rest.sleeping > 0 {
            self.promoted.notify_one();
        }
        let away = self.away.load(Ordering::SeqCst);
        let here = rest.threads + back - away.min(rest.threads + back);
        if here >= self.places {
            return Spare::Nobody;
        }
        let spare = match rest.threads < self.places + self.spares {
            true => Spare::Serves,
            false => match self.last_one(here) {
                Spare::Nobody if here == 0 => Spare::None,
                spare => spare,
            },
        };
        rest.threads += u32::from(matches!(spare, Spare::Serves | Spare::Refuses));
        spare
    }

    /// The spare threads are used up; who stops does not wait for ever for them to wait for each other.
    fn last_one(&self, here: u32) -> Spare {
        if here == 0 && self.stopping() { Spare::Refuses } else { Spare::Nobody }
    }

    /// A body goes on.
    pub fn come_back(&self) {
        if self.places > 1 {
            self.bodies.fetch_add(1, Ordering::SeqCst);
        } else {
            let mut rest = self.resting();
            self.back.fetch_add(1, Ordering::SeqCst);
            while self.bodies.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                rest = self.free.wait(rest).unwrap_or_else(PoisonError::into_inner);
            }
            self.back.fetch_sub(1, Ordering::SeqCst);
        }
        self.away.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether this thread ends with the server; as with [`Crew::rest`], it is not counted from then on.
    pub fn quit(&self) -> bool {
        let mut rest = self.resting();
        let over = self.is_over();
        rest.threads -= u32::from(over);
        over
    }

    /// A thread that was counted could not be made. Says whether anybody is left who serves.
    pub fn gone(&self) -> bool {
        let mut rest = self.resting();
        rest.threads -= 1;
        rest.threads + self.back.load(Ordering::SeqCst) > self.away.load(Ordering::SeqCst)
    }

    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether the server stops and nobody is left in it who may still send something to it.
    pub fn is_over(&self) -> bool {
        self.stopping() && self.away.load(Ordering::SeqCst) == 0
    }

    /// No new work; every thread looks. Says whether a last one is needed.
    pub fn stop(&self) -> Spare {
        self.stop.store(true, Ordering::SeqCst);
        let mut rest = self.resting();
        self.promoted.notify_all();
        let away = self.away.load(Ordering::SeqCst);
        // As long as there may be more threads nobody is stuck: some have quit already, and what still comes hears
        // that the server is gone; or somebody is on its way to call one in its place.
        let spare = match rest.threads < self.places + self.spares {
            true => Spare::Nobody,
            false => self.last_one(rest.threads - away.min(rest.threads)),
        };
        rest.threads += u32::from(spare != Spare::Nobody);
        spare
    }
}
