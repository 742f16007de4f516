//! Finds the next request. One worker at a time is the *leader* and holds the poller: it looks
//! into the rings and sockets of all clients in turn, polls a little, then sleeps on the server's
//! doorbell and those sockets.
//!
//! Of a crowd of clients those that ask for nothing cost nothing: they are told that nobody looks into
//! their rings, and ring the doorbell before they are looked at again.
//!
//! Of clients whose requests wait the one is served whose requests have had least of the workers' time: who asks for long
//! ones gets no more of a server than who asks for short ones. Who asked for nothing meanwhile saves up nothing.
//!
//! ```text
//! looked at --asked for nothing in many looks--> told so, and looked at once more --> resting
//!     ^------------------------ its word says that it has rung ------------------------|
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_arena::Spin;
use forebay_host::wait::{self, PollFlags};
use forebay_link::call::{Arrived, Receiver};
use forebay_link::{Frame, QuickMap};
use forebay_types::call::kind;
use std::os::fd::AsFd;

use crate::parked::{PARKED, ParkedRequest};
use crate::peer::Peer;
use crate::shared::Shared;

/// Request ids kept of each client, against doing anything twice.
const REMEMBERED: usize = 4_096;
/// Clients whose ids are kept after they left.
const CLIENTS: usize = 256;
/// So few clients are all looked at.
const FEW: usize = 8;
/// A client rests that has asked for nothing in so many looks.
const LOOKS: u32 = 1_000;
/// The doorbell is looked at after so many requests, and at most a tick of the coarse clock after the last look.
const REQUESTS: u32 = 16;
/// Clients that have had so much more of the workers' time, in nanoseconds, have had as much.
const ALIKE_NS: u64 = 1_000_000;
/// While nothing comes it is looked at so often: once in so many looks into rings.
const POLLS: u32 = 64;

/// The requests of one client that ran here: a ring of ids.
#[derive(Default)]
pub(crate) struct Served {
    ids: Vec<u64>,
    next: usize,
}

impl Served {
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

pub(crate) struct ClientEntry {
    peer: Arc<Peer>,
    receiver: Receiver,
    /// Looks since it asked for something.
    looks: u32,
}

/// A request that was found; its words are in the frame.
pub(crate) struct FoundRequest {
    pub peer: Arc<Peer>,
    /// What came with it.
    pub arrived: Arrived,
}

/// What comes next.
pub(crate) enum Next {
    /// A request, which has its place.
    Found(FoundRequest),
    /// One that waited for its turn, which has its place.
    Ready(Box<ParkedRequest>),
    /// There is something, and no place to run it.
    NoPlace,
    /// The server stops, and nothing is left.
    Over,
}

/// What the leader holds.
#[derive(Default)]
pub(crate) struct Poller {
    /// Clients that are looked at, and those that rest.
    entries: Vec<ClientEntry>,
    resting: Vec<ClientEntry>,
    /// The doorbell was rung, by one of those perhaps.
    rung: bool,
    /// Nobody is kept waiting: it has just slept.
    slept: bool,
    requests: u32,
    /// Tick of the coarse clock at the last look at the doorbell.
    tick: i64,
    turn: usize,
    /// No client that waits has had less of the workers' time.
    clock: u64,
    spin: Spin,
    seen: QuickMap<u64, Served>,
}

impl ClientEntry {
    pub fn new(peer: Arc<Peer>, receiver: Receiver) -> ClientEntry {
        ClientEntry { peer, receiver, looks: 0 }
    }

    /// Whether it rests now: from then on it rings the doorbell.
    fn rests(&mut self) -> bool {
        // Its socket is slept on.
        if self.receiver.interest().is_some() {
            return false;
        }
        self.receiver.arm();
        let rests = !self.receiver.pending();
        if !rests {
            self.receiver.disarm();
        }
        rests
    }

    /// Whether one that rests has rung.
    fn has_rung(&self) -> bool {
        !self.receiver.is_armed()
    }

    /// Whether there is something to take.
    fn pending(&mut self) -> bool {
        let parked = self.peer.parked.load(Ordering::Relaxed);
        !self.peer.is_gone() && parked < PARKED && self.receiver.pending()
    }

    /// Takes one frame that is there; anything but a request or the taking back of one cuts the client off.
    fn take(&mut self, frame: &mut Frame) -> Option<FoundRequest> {
        match self.receiver.next(frame) {
            Ok(Some(arrived)) if frame.header.kind == kind::REQUEST => {
                return Some(FoundRequest { peer: self.peer.clone(), arrived });
            }
            Ok(None) => {}
            _ => self.peer.cut_off(),
        }
        None
    }

    /// Reads what has come while nobody has time for it.
    fn collect(&mut self) {
        if self.receiver.read_ahead().is_err() {
            self.peer.cut_off();
        }
    }
}

impl Poller {
    /// The next request, its words into `frame`.
    pub fn next(&mut self, shared: &Shared, frame: &mut Frame) -> Next {
        loop {
            self.renew(shared);
            if self.entries.len() > FEW || !self.resting.is_empty() {
                self.look_at_doorbell(shared);
            }
            if let Some(next) = self.ready(shared).or_else(|| self.scan(shared, frame)) {
                return next;
            }
            if shared.is_over() {
                return Next::Over;
            }
            match self.rung {
                true => self.wake_resting(),
                false => self.wait(shared),
            }
        }
    }

    /// Those that rest are not kept waiting by those that are looked at.
    fn look_at_doorbell(&mut self, shared: &Shared) {
        self.requests = self.requests.wrapping_add(1);
        if self.requests.is_multiple_of(LOOKS) {
            self.let_rest();
        }
        // What has woken it comes first.
        if std::mem::take(&mut self.slept) || self.resting.is_empty() {
            return;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        let tick = now.tv_sec * 1_000 + now.tv_nsec / 1_000_000;
        if self.requests.is_multiple_of(REQUESTS) || tick != self.tick {
            self.tick = tick;
            if self.rung || shared.doorbell.is_rung() {
                shared.doorbell.clear();
                self.wake_resting();
            }
        }
    }

    /// Of a crowd, clients that have asked for nothing in many looks are looked at no more.
    fn let_rest(&mut self) {
        if self.entries.len() <= FEW {
            return;
        }
        for i in (0..self.entries.len()).rev() {
            if self.entries[i].looks >= LOOKS && self.entries[i].rests() {
                self.resting.push(self.entries.swap_remove(i));
            }
        }
    }

    /// Whoever has rung is looked at again.
    fn wake_resting(&mut self) {
        self.rung = false;
        for i in (0..self.resting.len()).rev() {
            if self.resting[i].has_rung() {
                let mut entry = self.resting.swap_remove(i);
                entry.looks = 0;
                self.entries.push(entry);
            }
        }
    }

    /// A request whose turn has come.
    fn ready(&self, shared: &Shared) -> Option<Next> {
        if !shared.ready.is_any() {
            return None;
        }
        if !shared.crew.begin() {
            return Some(Next::NoPlace);
        }
        let taken = shared.ready.take();
        if taken.is_none() {
            shared.crew.end();
        }
        taken.map(|taken| Next::Ready(Box::new(taken)))
    }

    /// Whether this request has not been served before.
    pub fn is_new(&mut self, client: u64, request: u64, issue: u32) -> bool {
        self.seen.entry(client).or_default().is_new(request, issue)
    }

    /// Reads what has come over the network, for workers that all have something to do.
    pub fn stand_by(&mut self, shared: &Shared) {
        self.renew(shared);
        self.entries.iter_mut().filter(|e| !e.peer.is_gone()).for_each(ClientEntry::collect);
    }

    /// Lets new clients in and lost ones go, with all that is held for them.
    fn renew(&mut self, shared: &Shared) {
        if !shared.changed.load(Ordering::Acquire) {
            return;
        }
        shared.changed.store(false, Ordering::Release);
        self.entries.append(&mut forebay_host::lock(&shared.newcomers));
        self.entries.retain(|e| !e.peer.is_gone());
        self.resting.retain(|e| !e.peer.is_gone());
        if self.seen.len() > CLIENTS {
            let all = self.entries.iter().chain(&self.resting);
            let here: Vec<u64> = all.map(|e| e.peer.client).collect();
            self.seen.retain(|client, _| here.contains(client));
        }
    }

    /// Takes one request of the next client that has one.
    fn scan(&mut self, shared: &Shared, frame: &mut Frame) -> Option<Next> {
        let mut has_place = false;
        while let Some(next) = self.next_entry() {
            let entry = &mut self.entries[next];
            has_place = has_place || shared.crew.begin();
            if !has_place {
                return Some(Next::NoPlace);
            }
            if let Some(found) = entry.take(frame) {
                return Some(Next::Found(found));
            }
        }
        if has_place {
            shared.crew.end();
        }
        None
    }

    /// Of those that have something, the next one in turn that has had about as little of the workers' time as any.
    fn next_entry(&mut self) -> Option<usize> {
        let (n, first) = (self.entries.len(), self.turn + 1);
        let mut best: Option<(u64, usize)> = None;
        for i in 0..n {
            let at = (first + i) % n;
            let entry = &mut self.entries[at];
            if !entry.pending() {
                entry.looks = entry.looks.saturating_add(1);
                continue;
            }
            entry.looks = 0;
            let had = entry.peer.had(self.clock);
            if had <= self.clock + ALIKE_NS {
                self.turn = at;
                return Some(at);
            }
            if best.is_none_or(|(least, _)| had < least) {
                best = Some((had, at));
            }
        }
        let (had, at) = best?;
        (self.turn, self.clock) = (at, had);
        Some(at)
    }

    fn wait(&mut self, shared: &Shared) {
        self.let_rest();
        let entries = &mut self.entries;
        let mut ready = || {
            shared.changed.load(Ordering::Acquire)
                || shared.is_over()
                || shared.ready.is_any()
                || entries.iter_mut().any(ClientEntry::pending)
        };
        let waited = match self.resting.is_empty() {
            true => self.spin.poll(&mut ready),
            false => {
                let mut polls = 0u32;
                let waited = self.spin.poll(&mut || {
                    polls = polls.wrapping_add(1);
                    self.rung = polls.is_multiple_of(POLLS) && shared.doorbell.is_rung();
                    self.rung || ready()
                });
                if self.rung {
                    shared.doorbell.clear();
                }
                waited
            }
        };
        let Some(start) = waited else { return };
        self.prepare_sleep(true);
        let work = shared.changed.load(Ordering::SeqCst)
            || shared.is_over()
            || shared.ready.is_any()
            || self.entries.iter_mut().any(ClientEntry::pending);
        if !work && !self.rung {
            self.rung = self.sleep(shared);
            self.slept = true;
        }
        self.prepare_sleep(false);
        self.spin.slept(start.elapsed());
    }

    fn prepare_sleep(&self, sleeps: bool) {
        for ClientEntry { receiver, .. } in &self.entries {
            match sleeps {
                true => receiver.arm(),
                false => receiver.disarm(),
            }
        }
    }

    /// Sleeps until the doorbell rings or something comes over the network; says whether it has rung.
    fn sleep(&self, shared: &Shared) -> bool {
        let bell = std::iter::once(shared.doorbell.as_fd());
        let sockets = self.entries.iter().filter(|e| !e.peer.is_gone()).filter_map(|e| e.receiver.interest());
        let found = wait::any(bell.chain(sockets).map(|fd| (fd, PollFlags::IN)), None);
        let rung = found.is_ok_and(|ready| !ready[0].is_empty());
        if rung {
            shared.doorbell.clear();
        }
        rung
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_again_is_recognised() {
        let mut seen = Served::default();
        for id in 0..3 * REMEMBERED as u64 {
            assert!(seen.is_new(id, 0));
        }
        assert!(!seen.is_new(2 * REMEMBERED as u64 + 5, 1));
        assert!(seen.is_new(3 * REMEMBERED as u64, 1));
        assert!(!seen.is_new(3 * REMEMBERED as u64, 2));
    }
}
