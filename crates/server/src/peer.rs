//! One attached client, and the way of replies to it: through the rings of its segment, or over
//! the network.
//!
//! A client that does not read its replies must not hold up the others: what its ring or socket
//! has no room for waits here, in memory of the server, and goes out later. Whoever lets too much
//! wait is cut off.

mod memory;
mod remote;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use std::sync::Arc;

use forebay_arena::Segment;
use forebay_link::net::LargePart;
use forebay_link::pool::{Budget, Pool};
use forebay_types::call::{REPLY_BYTES, RequestId};

use crate::held::Arrays;

pub(crate) use memory::Memory;
pub(crate) use remote::Remote;

/// Most bytes of replies that wait for one client.
const WAITING_BYTES: usize = 2 * REPLY_BYTES;

pub(crate) struct Peer {
    pub client: u64,
    /// What this server holds for it.
    pub arrays: Arrays,
    /// Its requests that wait for their turn at an array.
    pub parked: AtomicU32,
    gone: AtomicBool,
    way: Way,
}

/// How it is reached.
#[expect(clippy::large_enum_variant, reason = "one for each client, which lies in a box of its own")]
pub(crate) enum Way {
    Memory(Memory),
    Network(Remote),
}

/// A mutex whose data stay whole even if a holder panicked: each is changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    pub fn new(client: u64, way: Way, budget: Arc<Budget>) -> Peer {
        let arrays = Arrays::new(budget);
        Peer { client, arrays, parked: AtomicU32::new(0), gone: AtomicBool::new(false), way }
    }

    /// Its segment, where large arguments lie; none over the network.
    pub fn segment(&self) -> Option<&Segment> {
        match &self.way {
            Way::Memory(memory) => Some(&memory.segment),
            Way::Network(_) => None,
        }
    }

    /// Memory for its large arguments and results, over the network.
    pub fn pool(&self) -> Option<&Pool> {
        self.remote().map(|remote| &remote.pool)
    }

    /// What is particular to the network, if it is reached over that.
    pub fn remote(&self) -> Option<&Remote> {
        match &self.way {
            Way::Memory(_) => None,
            Way::Network(remote) => Some(remote),
        }
    }

    /// Whether its connection ended, or it was cut off.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// How many of its requests no worker has taken yet.
    pub fn waiting(&self) -> u64 {
        match &self.way {
            _ if self.is_gone() => 0,
            Way::Memory(memory) => memory.waiting(),
            Way::Network(remote) => remote.waiting(),
        }
    }

    pub fn cut_off(&self) {
        self.gone.store(true, Ordering::Relaxed);
        if let Way::Network(remote) = &self.way {
            remote.close();
        }
    }

    /// Looks whether the client's process hung up, or gave this server up; one system call.
    pub fn look(&self) {
        let gone = match &self.way {
            Way::Memory(memory) => memory.gone(),
            Way::Network(remote) => remote.gone(),
        };
        if gone {
            self.cut_off();
        }
    }

    /// Whether it still wants the result of a request.
    pub fn wants(&self, request: RequestId) -> bool {
        !self.is_gone()
            && match &self.way {
                Way::Memory(memory) => memory.wants(request),
                Way::Network(remote) => remote.wants(request),
            }
    }

    /// Shows that this process lives.
    pub fn beat(&self) {
        match &self.way {
            Way::Memory(memory) => memory.beat(),
            Way::Network(remote) => remote.beat(),
        }
    }

    /// Sends a reply with its large parts, or lets it wait. Returns whether something waits that
    /// [`Peer::flush`] is to send.
    pub fn send(&self, request: u64, body: &[u8], parts: Vec<LargePart>) -> bool {
        let waiting = match &self.way {
            Way::Memory(memory) => memory.send(request, body),
            Way::Network(remote) => remote.send(request, body, parts),
        };
        if waiting > WAITING_BYTES {
            self.cut_off();
        }
        waiting > 0 && self.segment().is_some()
    }

    /// Sends what waits, as far as there is room. Returns whether something still waits.
    pub fn flush(&self) -> bool {
        match &self.way {
            Way::Memory(memory) => !self.is_gone() && memory.flush(),
            // That is the flusher's.
            Way::Network(_) => false,
        }
    }
}
