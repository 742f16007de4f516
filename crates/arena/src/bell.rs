//! A doorbell: wakes one sleeper in another process, and costs no system call while it is awake.
//!
//! The word in shared memory says how the waiter sleeps: [`AWAKE`], [`FUTEX`] or [`EVENT`].
//! Waiter: store the flag, full fence, look once more, sleep. Ringer: publish, full fence, look
//! at the flag, wake if set. The two fences are what makes one of them see the other: either
//! the waiter sees what was published or the ringer sees the flag.
//!
//! One waiter a bell; a second one of the same side needs another bell or a turn of its own.

use crate::sync::{AtomicU32, Ordering, fence};

pub(crate) const AWAKE: u32 = 0;
pub(crate) const FUTEX: u32 = 1;
#[cfg(not(loom))]
pub(crate) const EVENT: u32 = 2;

/// The waiter is about to sleep; it must look once more after this.
#[inline]
pub(crate) fn announce(flag: &AtomicU32, how: u32) {
    // An exchange, not a store: it orders this announcement after a claim of an earlier one.
    flag.swap(how, Ordering::AcqRel);
    fence(Ordering::SeqCst);
}

/// The ringer has published; says how the waiter sleeps and claims the waking of it.
#[inline]
pub(crate) fn claim(flag: &AtomicU32) -> u32 {
    fence(Ordering::SeqCst);
    if flag.load(Ordering::Relaxed) == AWAKE {
        return AWAKE;
    }
    flag.swap(AWAKE, Ordering::AcqRel)
}

/// The waiter sleeps no more.
#[inline]
pub(crate) fn withdraw(flag: &AtomicU32) {
    flag.store(AWAKE, Ordering::Relaxed);
}

#[cfg(not(loom))]
pub use real::Bell;
#[cfg(not(loom))]
pub(crate) use real::Event;

#[cfg(not(loom))]
mod real {
    use super::*;
    use crate::layout::{Cursor, Direction, Layout};
    use crate::map::Map;
    use crate::{Doorbell, Spin};
    use forebay_types::Result;
    use rustix::thread::futex;
    use std::os::fd::OwnedFd;
    use std::sync::{Arc, PoisonError, RwLock};
    use std::time::{Duration, Instant};

    /// A doorbell of a segment: rung by the producer of a ring, waited for by its consumer.
    #[derive(Clone)]
    pub struct Bell {
        map: Arc<Map>,
        flag: u64,
        event: Arc<Event>,
    }

    /// The doorbell of the waiter, if it sleeps in epoll; another one when another process waits.
    pub(crate) type Event = RwLock<Option<Doorbell>>;

    impl Bell {
        pub(crate) fn new(map: Arc<Map>, which: Direction, event: Arc<Event>) -> Bell {
            Bell { map, flag: Layout::cursor(Cursor::sleep(which)), event }
        }

        #[inline]
        fn flag(&self) -> &AtomicU32 {
            self.map.atomic_u32(self.flag)
        }

        /// Wakes the waiter if it sleeps; call it after publishing.
        #[inline]
        pub fn ring(&self) {
            let how = claim(self.flag());
            if how != AWAKE {
                self.wake_from(how);
            }
        }

        #[cold]
        fn wake_from(&self, how: u32) {
            match &*self.event.read().unwrap_or_else(PoisonError::into_inner) {
                Some(event) if how == EVENT => event.ring(),
                _ => {
                    let _ = futex::wake(self.flag(), futex::Flags::empty(), i32::MAX as u32);
                }
            }
        }

        /// Wakes a waiter of this process that waits in [`Bell::wait`], whatever the flag says;
        /// for a watcher that saw the peer die.
        pub fn wake(&self) {
            withdraw(self.flag());
            let _ = futex::wake(self.flag(), futex::Flags::empty(), i32::MAX as u32);
        }

        /// The ringing side rings this doorbell, which was handed over, when the waiter sleeps in epoll;
        /// the last one attached counts, for a waiter that took the place of one that died.
        pub fn attach_doorbell(&self, descriptor: OwnedFd) -> Result<()> {
            let event = Doorbell::given(descriptor)?;
            *self.event.write().unwrap_or_else(PoisonError::into_inner) = Some(event);
            Ok(())
        }

        /// Waits until `ready` or until the deadline; says whether it was ready. Polls as long as
        /// it pays, then sleeps without using the CPU.
        #[inline]
        pub fn wait(
            &self,
            mut ready: impl FnMut() -> bool,
            deadline: Option<Instant>,
            spin: &mut Spin,
        ) -> bool {
            if ready() {
                return true;
            }
            let Some(start) = spin.poll(&mut ready) else { return true };
            let found = self.sleep(&mut ready, deadline);
            spin.slept(start.elapsed()); // in vain or not: so long a wait was not worth polling
            found
        }

        fn sleep(&self, ready: &mut impl FnMut() -> bool, deadline: Option<Instant>) -> bool {
            loop {
                announce(self.flag(), FUTEX);
                if ready() {
                    withdraw(self.flag());
                    return true;
                }
                let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                if left == Some(Duration::ZERO) {
                    withdraw(self.flag());
                    return false;
                }
                let timeout = left.map(|t| rustix::thread::Timespec {
                    tv_sec: t.as_secs() as i64,
                    tv_nsec: t.subsec_nanos() as _,
                });
                // Woken, timed out, interrupted or never asleep: the loop looks again.
                let _ = futex::wait(self.flag(), futex::Flags::empty(), FUTEX, timeout.as_ref());
            }
        }

        /// Says that this side is about to sleep in epoll on its doorbell. Look for work once more
        /// after this, then sleep; call [`Bell::cancel_sleep`] on waking.
        #[inline]
        pub fn prepare_sleep(&self) {
            announce(self.flag(), EVENT);
        }

        /// This side is awake.
        #[inline]
        pub fn cancel_sleep(&self) {
            withdraw(self.flag());
        }

        /// Whether this side has said that it sleeps, and nobody has woken it since.
        #[inline]
        pub fn is_asleep(&self) -> bool {
            self.flag().load(Ordering::Acquire) != AWAKE
        }
    }
}
