//! The owner's heart: beats into the segments of connected ranks, so that they can tell a stopped
//! owner from a busy one; looks after acts under way; tells the broker the time. With nobody
//! connected it sleeps for good.

use crate::service::{Shared, dir_of};
use forebay_host::sockets;
use forebay_link::silence::HEART;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at ranks that are to reach a step.
const LOOK: Duration = Duration::from_millis(20);
/// Looks for sockets of killed processes after the end of a connection.
pub const SWEEPS: u32 = 5;
/// Between two ticks of the broker when no rank is connected.
const TICK: Duration = Duration::from_secs(1);

/// Wakes the heart's thread when its pace may have changed.
#[derive(Default)]
pub struct Heart {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Heart {
    /// Somebody came or went, an act was given, or the owner stops.
    pub fn look_again(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Sleeps for so long, or until woken.
    fn sleep(&self, pause: Option<Duration>) {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken = match pause {
            None => self.bell.wait_while(woken, |w| !*w).unwrap_or_else(PoisonError::into_inner),
            Some(pause) => {
                self.bell.wait_timeout_while(woken, pause, |w| !*w).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *woken = false;
    }
}

/// Removes what a process that was killed has left in the directory of the agent's socket. Its connection ends a little
/// before it is gone for certain, so more than one look is taken.
fn sweep(shared: &Shared) {
    let counted = shared.sweeps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    if counted.is_ok() {
        sockets::sweep_sockets(dir_of(&shared.address.socket));
    }
}

/// Beats until the owner stops.
pub fn beat(shared: &Arc<Shared>) {
    let mut last: Option<Instant> = None;
    let mut patience = LOOK;
    while !shared.stop.given() {
        let now = Instant::now();
        let runs = shared.runs.live();
        let ranks = runs.iter().any(|r| r.has_ranks());
        let motion = runs.iter().any(|r| r.in_motion());
        if motion {
            runs.iter().for_each(|r| r.look());
            // A step may take hours: look less and less often.
            patience = (patience * 5 / 4).min(HEART);
        } else {
            patience = LOOK;
        }
        let broker = shared.broker.as_ref().is_some_and(|b| b.needed());
        // Asked anew each time: ranks that came since the last beat do not wait for a tick.
        let period = if ranks { HEART } else { TICK };
        if last.is_none_or(|last| now >= last + period) {
            runs.iter().for_each(|r| r.beat());
            shared.runs.end_idle();
            if let (true, Some(b)) = (broker, &shared.broker) {
                b.tick();
            }
            sweep(shared);
            last = Some(now);
        }
        let sweeps = shared.sweeps.load(Ordering::Relaxed) > 0;
        let pause = match (motion, ranks || !runs.is_empty(), broker || sweeps) {
            (true, _, _) => Some(patience),
            (false, true, _) => Some(HEART),
            (false, false, true) => Some(TICK),
            (false, false, false) => None,
        };
        drop(runs);
        shared.heart.sleep(pause);
    }
}
