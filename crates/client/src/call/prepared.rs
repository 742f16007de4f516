//! What a short call needs that does not change from one to the next: who offers the service, and the words of a request
//! without arguments. It is found without a lock that others wait for and without counting a reference: a thread takes
//! the seat of its number, and works with what lies there as long as it has it.
//!
//! All that the table says is good until the table changes or is to be asked anew; then the next call goes the general
//! way, and leaves here what it has found.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use forebay_arena::{TryLock, TryLockGuard};
use forebay_types::call::{Call, put_call};
use forebay_types::codec::Writer;

use super::table::{Offer, Table};
use super::tied::Tied;

/// So many threads have a seat of their own; more share them.
const SEATS: usize = 8;
/// So many services are kept in each.
const SERVICES: usize = 8;
/// Numbers of calls that a seat takes at a time.
const IDS: u64 = 64;
/// Looks at a seat that somebody has before it is left as it is.
const LOOKS: u32 = 100;

/// The seats of one client.
#[derive(Default)]
pub(super) struct Prepared([TryLock<Seat>; SEATS]);

/// The services that the threads of one seat have called lately.
#[derive(Default)]
pub(super) struct Seat {
    services: Vec<PreparedService>,
    next: usize,
    ids: Range<u64>,
}

/// One of them.
pub(super) struct PreparedService {
    pub offer: Arc<Offer>,
    tied: Option<Arc<Tied>>,
    /// How often the table had changed when it said so.
    changes: u64,
    /// The words of a request, if nothing is passed.
    pub words: Option<Vec<u8>>,
    /// Nothing comes back.
    pub gives_nothing: bool,
}

/// The number of this thread's seat.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SEATS;
    }
    NUMBER.with(|number| *number)
}

impl Prepared {
    /// The seat of this thread, unless another one has it just now.
    #[inline]
    pub fn seat(&self) -> Option<TryLockGuard<'_, Seat>> {
        self.0[number()].take()
    }

    /// Lets go of all that is here. What a thread has just now goes when it calls next.
    pub fn clear(&self) {
        for seat in &self.0 {
            let mut taken = (0..LOOKS).find_map(|look| {
                if look > 0 {
                    std::thread::yield_now();
                }
                seat.take()
            });
            if let Some(seat) = &mut taken {
                seat.services.clear();
            }
        }
    }
}

impl Seat {
    /// The number of the next call, of those of this client: higher than those of all that were sent before and are under
    /// way, if none is.
    #[inline]
    pub fn id(&mut self, next: &AtomicU64) -> u64 {
        self.ids.next().unwrap_or_else(|| {
            let first = next.fetch_add(IDS, Ordering::Relaxed);
            self.ids = first + 1..first + IDS;
            first
        })
    }

    /// What is known of a service, if it holds still.
    #[inline]
    pub fn find(&self, table: &Table, name: &str, tied: Option<&Arc<Tied>>) -> Option<&PreparedService> {
        let found = self.services.iter().find(|service| service.is(name, tied))?;
        table.is_as_it_was(found.changes).then_some(found)
    }

    /// Keeps what the table says of a service, as often as it had changed by then.
    pub fn keep(&mut self, offer: Arc<Offer>, tied: Option<Arc<Tied>>, changes: u64) {
        let signature = &offer.signature;
        let words = signature.passed().next().is_none().then(|| {
            let mut w = Writer::new();
            let service = signature.name().as_str();
            put_call(&mut w, &Call { sent_ns: 0, allowed_ns: 0, issue: 0, service }, 0);
            w.finish()
        });
        let gives_nothing = !signature.params().iter().any(|param| param.way.comes());
        let is_same = |known: &PreparedService| known.is(signature.name().as_str(), tied.as_ref());
        let at = self.services.iter().position(is_same);
        let service = PreparedService { offer, tied, changes, words, gives_nothing };
        match at {
            Some(at) => self.services[at] = service,
            None if self.services.len() < SERVICES => self.services.push(service),
            None => {
                self.services[self.next] = service;
                self.next = (self.next + 1) % SERVICES;
            }
        }
    }
}

impl PreparedService {
    #[inline]
    fn is(&self, name: &str, tied: Option<&Arc<Tied>>) -> bool {
        let is_tied_so = match (&self.tied, tied) {
            (None, None) => true,
            (Some(mine), Some(tied)) => Arc::ptr_eq(mine, tied),
            _ => false,
        };
        is_tied_so && self.offer.signature.name().as_str() == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Signature;
    use forebay_types::directory::ServerInfo;

    #[test]
    fn numbers_differ_over_all_seats_and_grow_in_each() {
        let (next, mut seats) = (AtomicU64::new(1), [Seat::default(), Seat::default()]);
        let mut all: Vec<u64> = Vec::new();
        for _ in 0..3 * IDS {
            all.extend(seats.each_mut().map(|seat| seat.id(&next)));
            all.push(next.fetch_add(1, Ordering::Relaxed));
        }
        assert!(all.chunks(3).is_sorted_by_key(|ids| ids[0]) && all.chunks(3).is_sorted_by_key(|ids| ids[1]));
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]) && all[0] > 0);
    }

    #[test]
    fn a_seat_keeps_the_last_services_and_of_each_what_was_said_last() {
        let mut seat = Seat::default();
        let offer = |text: &str| {
            Arc::new(Offer::of(Signature::parse(text).unwrap(), Arc::new(ServerInfo::default())))
        };
        for changes in 0..2 {
            for n in 0..SERVICES + 3 {
                seat.keep(offer(&format!("s{n}(out x:i64)")), None, changes);
            }
        }
        let known = |seat: &Seat, name: &str| {
            seat.services.iter().filter(|s| s.is(name, None)).map(|s| s.changes).collect::<Vec<_>>()
        };
        assert_eq!(seat.services.len(), SERVICES);
        let last = format!("s{}", SERVICES + 2);
        assert_eq!(known(&seat, &last), [1]);
        seat.keep(offer(&format!("{last}(in x:i64)")), None, 2);
        assert_eq!(known(&seat, &last), [2]);
        let kept = seat.services.iter().find(|s| s.is(&last, None)).unwrap();
        assert!(kept.words.is_none() && kept.gives_nothing);
    }
}
