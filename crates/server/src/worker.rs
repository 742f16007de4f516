//! Workers: leader and followers.
//!
//! The worker that finds a request runs it itself, so a short call pays no hand-over. When the
//! service is known to take long, the leader first wakes a follower, who polls meanwhile; a call
//! that takes long by surprise is noticed by the heart ([`crate::heart`]), which does the same.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

use forebay_link::Frame;
use forebay_link::frame::SHORT_BYTES;
use forebay_link::net::Part;
use forebay_link::pool::Lease;
use forebay_types::call::{self, Item, Outcome};
use forebay_types::codec::Writer;
use forebay_types::{Code, Error, Result};

use crate::call::{Call, Caller};
use crate::decode;
use crate::held::Turn;
use crate::peer::Peer;
use crate::poller::Found;
use crate::service::Service;
use crate::shared::Shared;

/// Longest error text that is sent back.
const TEXT_BYTES: usize = 64 * 1024;

/// Nanoseconds of the host's monotonic clock, which clients of this host share.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct Worker<'s> {
    shared: &'s Shared,
    frame: Frame,
    items: Vec<Item>,
    reply: Vec<u8>,
    /// The service of the last request, and how often the services had changed by then.
    last: Option<(u64, Arc<Service>)>,
}

/// What was found in a request.
struct Request {
    id: u64,
    sent_ns: u64,
    service: Arc<Service>,
    timed: bool,
    data: usize,
    turns: Vec<Turn>,
}

/// Works until the server stops.
pub(crate) fn run(shared: Arc<Shared>) {
    let mut worker =
        Worker { shared: &shared, frame: Frame::default(), items: Vec::new(), reply: Vec::new(), last: None };
    while worker.once() {}
}

impl Worker<'_> {
    /// Leads until one request was served, or waits for its turn to lead. False at the end.
    fn once(&mut self) -> bool {
        let shared = self.shared;
        let mut poller = match shared.poller.try_lock() {
            Ok(poller) => poller,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if shared.stopping() {
                    return false;
                }
                // The heart has it for a moment; then somebody must lead.
                if shared.standby.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                    return true;
                }
                shared.wait_for_promotion();
                return true;
            }
        };
        shared.led.store(true, Ordering::Relaxed);
        let Some(Found { peer, parts, fault }) = poller.next(shared, &mut self.frame) else {
            drop(poller);
            shared.promote_one();
            return false;
        };
        let id = self.frame.header.id;
        let request = match fault {
            None => self.read(&peer, |client, issue| poller.is_new(client, id, issue)),
            Some(fault) => Err(fault),
        };
        shared.led.store(false, Ordering::Relaxed);
        drop(poller);
        shared.running.fetch_add(1, Ordering::Relaxed);
        match request {
            Ok(request) => {
                if request.service.is_long() {
                    shared.promote_one();
                }
                self.serve(&peer, request, parts);
            }
            Err(e) => self.fail(&peer, id, &e, 0, 0),
        }
        shared.running.fetch_sub(1, Ordering::Relaxed);
        shared.served.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Reads the words of the request and refuses what is late, unwanted or was served before.
    fn read(&mut self, peer: &Peer, is_new: impl FnOnce(u64, u32) -> bool) -> Result<Request> {
        let id = self.frame.header.id;
        let (call, data) = call::get_call(self.frame.body(), SHORT_BYTES, &mut self.items)?;
        if !peer.wants(id) {
            return Err(Error::new(Code::Cancelled, "the request was cancelled before it began"));
        }
        // Clocks of two hosts differ: over the network time counts from here on.
        let sent_ns = if call.sent_ns > 0 && peer.remote().is_some() { now_ns() } else { call.sent_ns };
        if call.allowed_ns > 0 && now_ns() > sent_ns.saturating_add(call.allowed_ns) {
            return Err(Error::new(Code::Timeout, "the request's time was over before it began"));
        }
        let service = find(self.shared, &mut self.last, call.service)?;
        if !is_new(peer.client, call.issue) {
            return Err(Error::new(
                Code::Conflict,
                "this server has run the request before; its result went with the lost connection",
            ));
        }
        let turns = decode::turns(&service, &self.items, peer)?;
        let timed = sent_ns > 0 || service.wants_a_clock();
        Ok(Request { id, sent_ns, service, timed, data, turns })
    }

    fn serve(&mut self, peer: &Arc<Peer>, request: Request, parts: Vec<Lease>) {
        let Request { id, sent_ns, service, timed, data, turns } = request;
        if let Err(e) = self.take_turns(peer, id, &turns) {
            drop(turns);
            return self.fail(peer, id, &e, 0, 0);
        }
        let begin = if timed { now_ns() } else { 0 };
        let waited = if sent_ns > 0 { begin.saturating_sub(sent_ns) } else { 0 };
        let data = self.frame.body().get(data..).unwrap_or_default();
        let caller = Caller { peer: peer.clone(), request: id, turns };
        let data = (self.frame.header.flags, data);
        let mut call = match decode::call(&service, &self.items, data, parts, caller) {
            Ok(call) => call,
            Err(e) => return self.fail(peer, id, &e, waited, 0),
        };
        let result = run_body(&service, &mut call);
        let ran = if timed { now_ns().saturating_sub(begin) } else { 0 };
        if timed {
            service.took(ran);
        }
        let outcome = Outcome {
            code: 0,
            running: self.shared.running.load(Ordering::Relaxed),
            queued: self.shared.queued.load(Ordering::Relaxed),
            waited_ns: waited,
            ran_ns: ran,
            text: "",
        };
        let mut parts = Vec::new();
        let reply = result
            .and_then(|()| decode::reply(&mut call, &outcome, std::mem::take(&mut self.reply), &mut parts));
        // Before the client knows: its next call finds the arrays free.
        drop(call);
        match reply {
            Ok(bytes) => {
                self.send(peer, id, &bytes, parts);
                self.reply = bytes;
            }
            Err(e) => self.fail(peer, id, &e, waited, ran),
        }
    }

    /// Waits until the arrays of a call are its own.
    fn take_turns(&self, peer: &Peer, id: u64, turns: &[Turn]) -> Result<()> {
        if turns.iter().all(Turn::has_come) {
            return Ok(());
        }
        // Whoever has the array may need this very client's next request.
        self.shared.promote_one();
        self.shared.held_up.fetch_add(1, Ordering::Relaxed);
        let come = turns.iter().try_for_each(|t| t.wait(|| peer.wants(id)));
        self.shared.held_up.fetch_sub(1, Ordering::Relaxed);
        come
    }

    fn fail(&mut self, peer: &Peer, id: u64, e: &Error, waited_ns: u64, ran_ns: u64) {
        let mut end = e.text().len().min(TEXT_BYTES);
        while !e.text().is_char_boundary(end) {
            end -= 1;
        }
        let (running, queued) = (&self.shared.running, &self.shared.queued);
        let (running, queued) = (running.load(Ordering::Relaxed), queued.load(Ordering::Relaxed));
        let text = &e.text()[..end];
        let outcome = Outcome { code: e.code() as u32, running, queued, waited_ns, ran_ns, text };
        let mut w = Writer::over(std::mem::take(&mut self.reply));
        call::put_outcome(&mut w, &outcome, 0);
        let bytes = w.finish();
        self.send(peer, id, &bytes, Vec::new());
        self.reply = bytes;
    }

    fn send(&self, peer: &Peer, id: u64, bytes: &[u8], parts: Vec<Part>) {
        if peer.send(id, bytes, parts) && !self.shared.waiting.swap(true, Ordering::SeqCst) {
            self.shared.hurry();
        }
    }
}

/// A service by name; the last one is at hand.
fn find(shared: &Shared, last: &mut Option<(u64, Arc<Service>)>, name: &str) -> Result<Arc<Service>> {
    let changes = shared.changes.load(Ordering::Acquire);
    if let Some((then, service)) = last
        && *then == changes
        && service.signature.name().as_str() == name
    {
        return Ok(service.clone());
    }
    let found = shared.service(name)?;
    *last = Some((changes, found.clone()));
    Ok(found)
}

/// Runs the service. Whatever goes wrong inside is the service's: a `RemoteError` with its text.
fn run_body(service: &Service, call: &mut Call) -> Result<()> {
    match catch_unwind(AssertUnwindSafe(|| (service.body)(call))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) if service.is_own() || e.code() == Code::Cancelled => Err(e),
        Ok(Err(e)) => Err(Error::new(Code::RemoteError, e.text())),
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|s| s.to_string())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no text".to_owned());
            Err(Error::new(Code::RemoteError, format!("the service panicked: {text}")))
        }
    }
}
