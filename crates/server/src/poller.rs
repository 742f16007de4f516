//! Finds the next request. One worker at a time is the *leader* and holds the poller: it looks
//! into the rings of all clients in turn, polls a little, then sleeps on the server's doorbell.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_arena::Spin;
use forebay_link::{Frame, QuickMap, ShmReceiver};
use forebay_types::call::kind;

use crate::peer::Peer;
use crate::shared::Shared;

/// Request ids kept of each client, against doing anything twice.
const REMEMBERED: usize = 4_096;
/// Clients whose ids are kept after they left.
const CLIENTS: usize = 256;

/// The requests of one client that ran here: a ring of ids.
#[derive(Default)]
pub(crate) struct Seen {
    ids: Vec<u64>,
    next: usize,
}

impl Seen {
    /// Notes a request. A first issue is new by itself; a repeated one is looked for.
    pub fn is_new(&mut self, request: u64, issue: u32) -> bool {
        if issue > 0 && self.ids.contains(&request) {
            return false;
        }
        if self.ids.len() < REMEMBERED {
            self.ids.push(request);
        } else {
            self.ids[self.next] = request;
            self.next = (self.next + 1) % REMEMBERED;
        }
        true
    }
}

pub(crate) struct Entry {
    pub peer: Arc<Peer>,
    pub receiver: ShmReceiver,
}

/// What the leader holds.
#[derive(Default)]
pub(crate) struct Poller {
    entries: Vec<Entry>,
    turn: usize,
    spin: Spin,
    seen: QuickMap<u64, Seen>,
}

impl Poller {
    /// The next request, into `frame`; `None` when the server stops and nothing is left.
    pub fn next(&mut self, shared: &Shared, frame: &mut Frame) -> Option<Arc<Peer>> {
        loop {
            self.renew(shared);
            if let Some(peer) = self.scan(frame) {
                return Some(peer);
            }
            if shared.stopping() {
                return None;
            }
            self.wait(shared);
        }
    }

    /// Whether this request has not been served before.
    pub fn is_new(&mut self, client: u64, request: u64, issue: u32) -> bool {
        self.seen.entry(client).or_default().is_new(request, issue)
    }

    /// Lets new clients in and lost ones go.
    fn renew(&mut self, shared: &Shared) {
        if !shared.changed.load(Ordering::Acquire) {
            return;
        }
        shared.changed.store(false, Ordering::Release);
        self.entries.retain(|e| !e.peer.is_gone());
        self.entries.append(&mut crate::peer::lock(&shared.newcomers));
        if self.seen.len() > CLIENTS {
            let here: Vec<u64> = self.entries.iter().map(|e| e.peer.client).collect();
            self.seen.retain(|client, _| here.contains(client));
        }
    }

    /// Takes one request of the next client that has one. A client that sends anything else than
    /// requests is cut off.
    fn scan(&mut self, frame: &mut Frame) -> Option<Arc<Peer>> {
        for _ in 0..self.entries.len() {
            self.turn = (self.turn + 1) % self.entries.len();
            let entry = &mut self.entries[self.turn];
            if entry.peer.is_gone() || !entry.receiver.pending() {
                continue;
            }
            match entry.receiver.try_recv(frame) {
                Ok(true) if frame.header.kind == kind::REQUEST => return Some(entry.peer.clone()),
                Ok(false) => {}
                _ => entry.peer.cut_off(),
            }
        }
        None
    }

    fn wait(&mut self, shared: &Shared) {
        let entries = &mut self.entries;
        let mut ready = || {
            shared.changed.load(Ordering::Acquire)
                || shared.stopping()
                || entries.iter_mut().any(|e| !e.peer.is_gone() && e.receiver.pending())
        };
        let Some(start) = self.spin.poll(&mut ready) else { return };
        self.entries.iter().for_each(|e| e.receiver.prepare_sleep());
        let entries = &mut self.entries;
        let work = shared.changed.load(Ordering::SeqCst)
            || shared.stopping()
            || entries.iter_mut().any(|e| !e.peer.is_gone() && e.receiver.pending());
        if !work {
            let _ = shared.doorbell.wait(None);
        }
        self.entries.iter().for_each(|e| e.receiver.cancel_sleep());
        self.spin.slept(start.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_again_is_recognised() {
        let mut seen = Seen::default();
        for id in 0..3 * REMEMBERED as u64 {
            assert!(seen.is_new(id, 0));
        }
        assert!(!seen.is_new(2 * REMEMBERED as u64 + 5, 1));
        assert!(seen.is_new(3 * REMEMBERED as u64, 1));
        assert!(!seen.is_new(3 * REMEMBERED as u64, 2));
    }
}
