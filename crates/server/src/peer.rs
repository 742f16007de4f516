//! One attached client, and the way of replies to it.
//!
//! A client that does not read its replies must not hold up the others: what its ring or socket
//! has no room for waits here, in memory of the server, and goes out later. Whoever lets too much
//! wait is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use forebay_link::call::{Room, Sender};
use forebay_link::pool::Budget;
use forebay_link::stream::LargePart;
use forebay_link::{Header, PeerState};
use forebay_types::call::{REPLY_BYTES, RequestId, kind};

use crate::files::Files;
use crate::held::Arrays;

/// Most bytes of replies that wait for one client.
const WAITING_BYTES: usize = 2 * REPLY_BYTES;

pub(crate) struct Peer {
    pub client: u64,
    /// What this server holds for it.
    pub arrays: Arrays,
    /// Where files of its calls are kept.
    pub files: Arc<Files>,
    /// Its requests that wait for their turn at an array.
    pub parked: AtomicU32,
    /// Nanoseconds of the workers' time that its requests were expected to take, and what it missed while it asked for
    /// nothing. Only the leader writes it.
    expected: AtomicU64,
    /// How much more they took; how much less, below zero.
    more: AtomicI64,
    gone: AtomicBool,
    sender: Sender,
}

impl Peer {
    pub fn new(client: u64, sender: Sender, (budget, files): (Arc<Budget>, Arc<Files>)) -> Peer {
        let arrays = Arrays::new(budget);
        Peer {
            client,
            arrays,
            files,
            parked: AtomicU32::new(0),
            expected: AtomicU64::new(0),
            more: AtomicI64::new(0),
            gone: AtomicBool::new(false),
            sender,
        }
    }

    /// How much of the workers' time it has had; for the leader. Who asked for nothing meanwhile saves up nothing: it has had
    /// `least`.
    pub fn had(&self, least: u64) -> u64 {
        let (expected, more) = (self.expected.load(Ordering::Relaxed), self.more.load(Ordering::Relaxed));
        let had = expected.saturating_add_signed(more);
        if had < least {
            self.takes(least - had);
        }
        had.max(least)
    }

    /// A request of it is expected to take so long; for the leader.
    pub fn takes(&self, ns: u64) {
        let expected = self.expected.load(Ordering::Relaxed);
        self.expected.store(expected.saturating_add(ns), Ordering::Relaxed);
    }

    /// It took so much longer than was expected; less, if that is below zero.
    pub fn took_more(&self, ns: i64) {
        self.more.fetch_add(ns, Ordering::Relaxed);
    }

    /// Where its large arguments and results lie.
    pub fn room(&self) -> Room<'_> {
        self.sender.room()
    }

    /// Whether it is on this host.
    pub fn is_near(&self) -> bool {
        self.sender.is_near()
    }

    /// Whether its connection ended, or it was cut off.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// How many of its requests no worker has taken yet.
    pub fn waiting(&self) -> u64 {
        if self.is_gone() { 0 } else { self.sender.waiting() }
    }

    pub fn cut_off(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.sender.close();
    }

    /// Looks whether the client's process hung up, or gave this server up; one system call.
    pub fn look(&self) {
        if self.sender.state() == PeerState::Gone {
            self.cut_off();
        }
    }

    /// Whether it still wants the result of a request.
    pub fn wants(&self, request: RequestId) -> bool {
        !self.is_gone() && self.sender.wants(request)
    }

    /// Shows that this process lives.
    pub fn beat(&self) {
        self.sender.beat();
    }

    /// Sends a reply with its large parts, or lets it wait. Returns whether something waits that
    /// [`Peer::flush`] is to send.
    pub fn send(&self, request: u64, body: &[u8], parts: Vec<LargePart>) -> bool {
        // What a service says that has stopped because its client is gone is no answer to a client that only lost the
        // connection: it issues the call again.
        if self.is_gone() {
            return false;
        }
        // A client that is lost is found by its end.
        let waiting = self.sender.post(Header::new(kind::REPLY, request), body, parts).unwrap_or(0);
        if waiting > WAITING_BYTES {
            self.cut_off();
        }
        waiting > 0 && self.is_near()
    }

    /// Sends what waits for room in a ring. Returns whether something still waits.
    pub fn flush(&self) -> bool {
        self.is_near() && !self.is_gone() && self.sender.flush().unwrap_or(false)
    }
}
