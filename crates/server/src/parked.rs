//! Requests that have come for an array that another one works on. They wait as data, not as threads: a worker
//! that finds such a request goes on to the next one.
//!
//! ```text
//! leader: joins the queues of the arrays --a turn has not come--> Parked (held by those queues)
//! the last of its turns comes, in the thread that ends the one before --> Ready --> the next leader
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use forebay_link::Frame;
use forebay_link::pool::Lease;
use forebay_types::call::Item;

use crate::held::{Turn, Waiter};
use crate::peer::Peer;
use crate::shared::Shared;
use crate::worker::Request;
use forebay_host::lock;

/// Most requests of one client that wait so; more stay in its ring.
pub(crate) const PARKED: u32 = 1_024;

/// A request with all that came with it.
pub(crate) struct ParkedRequest {
    pub peer: Arc<Peer>,
    pub request: Request,
    pub frame: Frame,
    pub items: Vec<Item>,
    pub parts: Vec<Lease>,
}

/// One that waits.
pub(crate) struct Parked {
    /// Turns that have not come, and one while that is being found out.
    left: AtomicU32,
    taken: Mutex<Option<ParkedRequest>>,
    shared: Weak<Shared>,
}

/// Those whose turns have come since.
#[derive(Default)]
pub(crate) struct Ready {
    queue: Mutex<VecDeque<ParkedRequest>>,
    /// Length of that.
    ready: AtomicU32,
    /// Those and the ones that wait.
    parked: AtomicU32,
}

impl Parked {
    /// Lets a request wait for its turns; gives it back if they have come meanwhile.
    pub fn wait(shared: &Arc<Shared>, taken: ParkedRequest) -> Option<ParkedRequest> {
        let parked = Arc::new(Parked {
            left: AtomicU32::new(1),
            taken: Mutex::default(),
            shared: Arc::downgrade(shared),
        });
        shared.ready.parked.fetch_add(1, Ordering::SeqCst);
        taken.peer.parked.fetch_add(1, Ordering::Relaxed);
        let waiter: Arc<dyn Waiter> = parked.clone();
        taken.request.turns.iter().for_each(|turn: &Turn| {
            parked.left.fetch_add(1, Ordering::Relaxed);
            if turn.has_come_or_tells(&waiter) {
                parked.left.fetch_sub(1, Ordering::Relaxed);
            }
        });
        *lock(&parked.taken) = Some(taken);
        let taken = parked.is_last().then(|| lock(&parked.taken).take()).flatten();
        taken.inspect(|taken| shared.ready.goes_on(taken))
    }

    fn is_last(&self) -> bool {
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Waiter for Parked {
    fn turn_has_come(&self) {
        if !self.is_last() {
            return;
        }
        if let (Some(shared), Some(taken)) = (self.shared.upgrade(), lock(&self.taken).take()) {
            shared.ready.put(taken);
            // Whoever leads sleeps perhaps, and perhaps nobody does.
            shared.doorbell.ring();
            shared.crew.promote();
        }
    }
}

impl Ready {
    fn put(&self, taken: ParkedRequest) {
        let mut queue = lock(&self.queue);
        queue.push_back(taken);
        self.ready.store(queue.len() as u32, Ordering::SeqCst);
    }

    /// Whether one is ready.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.ready.load(Ordering::SeqCst) > 0
    }

    /// The one that became ready first.
    pub fn take(&self) -> Option<ParkedRequest> {
        let mut queue = lock(&self.queue);
        let taken = queue.pop_front();
        self.ready.store(queue.len() as u32, Ordering::SeqCst);
        taken.inspect(|taken| self.goes_on(taken))
    }

    fn goes_on(&self, taken: &ParkedRequest) {
        self.parked.fetch_sub(1, Ordering::SeqCst);
        taken.peer.parked.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many wait or are ready.
    pub fn parked(&self) -> u32 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.parked.load(Ordering::SeqCst) == 0
    }
}
