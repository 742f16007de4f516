//! A client on another host. What shared memory says with a word of a page is a short frame here:
//! signs of life one way, requests that are not wanted any more the other way.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use forebay_link::frame::kind::BEAT;
use forebay_link::net::{Flusher, LargePart, NetReceiver, NetSender};
use forebay_link::pool::Pool;
use forebay_link::{Header, watch};
use forebay_types::call::{self, RequestId, SLOTS};

use super::lock;

/// Between two signs of life.
const BEATS: Duration = Duration::from_secs(1);

pub(crate) struct Remote {
    sender: NetSender,
    /// Memory for large arguments and results.
    pub pool: Pool,
    flusher: Arc<Flusher>,
    /// By slot, the id of the last request that is not wanted any more; made when the first one is.
    cancelled: OnceLock<Box<[AtomicU64]>>,
    /// Requests that were taken and not answered.
    open: AtomicU64,
    /// Requests that have come and were not taken.
    waiting: AtomicU64,
    /// A request has come in part.
    amid: AtomicBool,
    beaten: Mutex<Instant>,
}

impl Remote {
    pub fn new(sender: NetSender, pool: Pool, flusher: Arc<Flusher>) -> Remote {
        Remote {
            sender,
            pool,
            flusher,
            cancelled: OnceLock::new(),
            open: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            amid: AtomicBool::new(false),
            beaten: Mutex::new(Instant::now()),
        }
    }

    /// What the reading end has.
    pub fn note(&self, receiver: &NetReceiver) {
        self.waiting.store(receiver.waiting() as u64, Ordering::Relaxed);
        self.amid.store(receiver.is_amid(), Ordering::Relaxed);
    }

    /// A worker takes a request.
    pub fn take(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is not wanted any more.
    pub fn cancel(&self, RequestId { id, slot }: RequestId) {
        let none = || (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        self.cancelled.get_or_init(none)[usize::from(slot)].store(id, Ordering::Relaxed);
    }

    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    pub fn wants(&self, RequestId { id, slot }: RequestId) -> bool {
        let last = self.cancelled.get().map(|all| all[usize::from(slot)].load(Ordering::Relaxed));
        last != Some(id)
    }

    pub fn gone(&self) -> bool {
        watch::hung_up(self.sender.as_fd())
    }

    pub fn close(&self) {
        self.sender.close();
    }

    /// Now and then, while the client waits for something.
    pub fn beat(&self) {
        let busy =
            self.open.load(Ordering::Relaxed) > 0 || self.waiting() > 0 || self.amid.load(Ordering::Relaxed);
        let mut beaten = lock(&self.beaten);
        if busy && beaten.elapsed() >= BEATS {
            *beaten = Instant::now();
            // What waits to go is a sign of life itself.
            if !self.sender.waits() {
                let _ = self.sender.try_send(&Header::new(BEAT, 0), &[]);
            }
        }
    }

    /// Sends a reply; what does not go at once is kept for the flusher. Returns the bytes of short
    /// frames that wait.
    pub fn send(&self, request: u64, body: &[u8], mut parts: Vec<LargePart>) -> usize {
        let mut header = Header::new(call::kind::REPLY, request);
        let sent = match body.len() > call::PART_BYTES {
            true => {
                header.flags = call::BODY_APART;
                parts.insert(0, Box::new(body.to_vec()));
                self.sender.post(&header, &[], parts)
            }
            false => self.sender.post(&header, &[body], parts),
        };
        self.open.fetch_sub(1, Ordering::Relaxed);
        match sent {
            Ok(true) => {
                let _ = self.flusher.add(&self.sender);
                self.sender.waiting_bytes()
            }
            _ => 0,
        }
    }
}
