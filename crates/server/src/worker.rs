//! Workers: leader and followers.
//!
//! The worker that finds a request runs it itself, so a short call pays no hand-over. When the
//! service is known to take long, the leader first wakes a follower, who polls meanwhile; a call
//! that takes long by surprise is noticed by the heart ([`crate::heart`]), which does the same. Who leads,
//! who rests and who has a place to run something stands in [`crate::crew`].

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_host::fork::{self, own_pid};
use forebay_link::Frame;
use forebay_link::call::Arrived;
use forebay_link::frame::SHORT_BYTES;
use forebay_link::pool::Lease;
use forebay_link::standing::{self, Post};
use forebay_link::stream::LargePart;
use forebay_types::call::{self, Item, Outcome, RequestId};
use forebay_types::{Code, Error, Result, Signature, beginning};

use crate::call::{Call, Caller, Printed};
use crate::crew::SPARES;
use crate::decode;
use crate::held::Turn;
use crate::parked::{Parked, ParkedRequest};
use crate::peer::Peer;
use crate::poller::{FoundRequest, Next};
use crate::service::Service;
use crate::shared::Shared;
use forebay_host::lock;

/// Longest error text that is sent back.
const TEXT_BYTES: usize = 64 * 1024;

/// Nanoseconds of the host's monotonic clock, which clients of this host share.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

thread_local! {
    /// The server of which this thread is a worker.
    static WORKS_FOR: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
}

/// Whether the calling thread is a worker of this server, as that of a service is.
pub(crate) fn works_for(shared: &Arc<Shared>) -> bool {
    WORKS_FOR.get() == Arc::as_ptr(shared)
}

/// The place of a worker among the others.
struct Membership {
    shared: Arc<Shared>,
    /// Whose request it runs.
    serves: RefCell<Option<(Arc<Peer>, RequestId)>>,
}

impl Post for Membership {
    fn leave(&self) -> bool {
        self.shared.leave()
    }

    fn come_back(&self) {
        self.shared.come_back();
    }

    fn objects(&self, alone: bool) -> Option<Error> {
        if alone {
            return Some(self.shared.alone());
        }
        let serves = self.serves.borrow();
        let (peer, id) = serves.as_ref()?;
        let gone =
            || Error::new(Code::Cancelled, "whoever called the service that waits has gone or given up");
        (!peer.wants(*id)).then(gone)
    }
}

struct Worker<'s> {
    shared: &'s Arc<Shared>,
    place: Rc<Membership>,
    frame: Frame,
    items: Vec<Item>,
    reply: Vec<u8>,
    /// The service of the last request.
    last: Option<Found>,
    /// Its replies, which nobody else counts.
    replies: Arc<AtomicU64>,
    /// Requests are answered with an error.
    refuses: bool,
}

/// A service that was asked for. It goes from the worker into the request and back: a reference more would be counted for
/// each request, and again for its end.
struct Found {
    service: Arc<Service>,
    signature: Arc<Signature>,
    /// How often the services had changed by then.
    changes: u64,
}

/// What was found in a request.
pub(crate) struct Request {
    id: RequestId,
    sent_ns: u64,
    found: Found,
    /// For how many calls it stands in what the service has done.
    stands_for: Option<u32>,
    /// Nanoseconds that it is expected to take.
    expected: u64,
    data: usize,
    pub turns: Vec<Turn>,
}

/// Works until the server stops.
pub(crate) fn run(shared: Arc<Shared>) {
    work(&shared, false);
}

/// Answers what still comes to a server that stops while all of its threads wait for each other.
pub(crate) fn refuse(shared: Arc<Shared>) {
    work(&shared, true);
}

fn work(shared: &Arc<Shared>, refuses: bool) {
    WORKS_FOR.set(Arc::as_ptr(shared));
    let place = Rc::new(Membership { shared: shared.clone(), serves: RefCell::default() });
    standing::hold(place.clone());
    let (frame, items, reply) = (Frame::default(), Vec::new(), Vec::new());
    let replies = Arc::new(AtomicU64::new(0));
    lock(&shared.served).push(replies.clone());
    let mut worker = Worker { shared, place, frame, items, reply, last: None, replies, refuses };
    while worker.once() {}
}

impl Worker<'_> {
    /// Leads until one request was served, or waits for its turn to lead. False at the end.
    fn once(&mut self) -> bool {
        let shared = self.shared;
        let Some(mut poller) = shared.crew.lead() else { return shared.crew.rest() };
        match poller.next(shared, &mut self.frame) {
            Next::Found(FoundRequest { peer, arrived: Arrived { parts, fault } }) => {
                let id = self.frame.header.request();
                let request = match fault {
                    None => self.read(&peer, id, |client, issue| poller.is_new(client, id.id, issue)),
                    Some(fault) => Err(fault),
                };
                if let Ok(request) = &request {
                    peer.takes(request.expected);
                }
                drop(poller);
                match request {
                    Ok(request) => self.serve_in_turn(peer, request, parts),
                    Err(e) => self.fail(&peer, id.id, &e, 0),
                }
            }
            Next::Ready(taken) => {
                drop(poller);
                self.go_on(*taken);
            }
            Next::NoPlace => {
                drop(poller);
                return shared.crew.rest();
            }
            Next::Over => {
                drop(poller);
                return !shared.crew.quit();
            }
        }
        shared.crew.end();
        true
    }

    /// Serves a request, now or when the arrays that it refers to are its own.
    fn serve_in_turn(&mut self, peer: Arc<Peer>, request: Request, parts: Vec<Lease>) {
        if request.turns.iter().all(Turn::has_come) {
            return self.serve(peer, request, parts);
        }
        let (frame, items) = (std::mem::take(&mut self.frame), std::mem::take(&mut self.items));
        let taken = ParkedRequest { peer, request, frame, items, parts };
        if let Some(taken) = Parked::wait(self.shared, taken) {
            self.go_on(taken);
        }
    }

    /// Serves a request that has waited for its turn.
    fn go_on(&mut self, taken: ParkedRequest) {
        let ParkedRequest { peer, request, frame, items, parts } = taken;
        (self.frame, self.items) = (frame, items);
        match peer.wants(request.id) {
            true => self.serve(peer, request, parts),
            false => {
                let id = request.id;
                drop(request);
                self.fail(&peer, id.id, &unwanted(), 0);
            }
        }
    }

    /// Reads the words of the request and refuses what is late, unwanted or was served before.
    fn read(&mut self, peer: &Peer, id: RequestId, is_new: impl FnOnce(u64, u32) -> bool) -> Result<Request> {
        let (call, data) = call::get_call(self.frame.body(), SHORT_BYTES, &mut self.items)?;
        if !peer.wants(id) {
            return Err(unwanted());
        }
        if self.refuses {
            let text = format!(
                "server {:?} stops, and all of its threads wait for calls: services call each other more than {SPARES} \
                 deep, or for ever",
                self.shared.name
            );
            return Err(Error::new(Code::Closed, text));
        }
        // Clocks of two hosts differ: over the network time counts from here on.
        let sent_ns = if call.sent_ns > 0 && !peer.is_near() { now_ns() } else { call.sent_ns };
        if call.allowed_ns > 0 && now_ns() > sent_ns.saturating_add(call.allowed_ns) {
            return Err(Error::new(Code::Timeout, "the request's time was over before it began"));
        }
        let found = find(self.shared, &mut self.last, call.service)?;
        if !is_new(peer.client, call.issue) {
            return Err(Error::new(
                Code::Conflict,
                "this server has run the request before; its result went with the lost connection",
            ));
        }
        let turns = decode::turns(&found.service, &self.items, peer)?;
        let (stands_for, expected) = (found.service.stands_for(), found.service.usual());
        Ok(Request { id, sent_ns, found, stands_for, expected, data, turns })
    }

    fn serve(&mut self, peer: Arc<Peer>, request: Request, parts: Vec<Lease>) {
        let Request { id, sent_ns, found, stands_for, expected, data, turns } = request;
        let Found { service, signature, changes } = found;
        let timed = sent_ns > 0 || stands_for.is_some();
        if service.is_long() {
            self.shared.crew.promote();
        }
        let begin = if timed { now_ns() } else { 0 };
        let waited = if sent_ns > 0 { begin.saturating_sub(sent_ns) } else { 0 };
        let data = self.frame.body().get(data..).unwrap_or_default();
        *self.place.serves.borrow_mut() = Some((peer.clone(), id));
        let caller = Caller { peer, request: id, turns };
        let data = (self.frame.header.flags, data);
        let mut call =
            Call { signature, slots: Vec::new(), caller: Some(caller), printed: None, files: Vec::new() };
        if let Err(e) = decode::fill(&mut call, &service, &self.items, data, parts) {
            // One that finds no room comes again.
            if e.code() != Code::Full {
                service.failed();
            }
            let serves = self.place.serves.take();
            drop(call);
            if let Some((peer, _)) = serves {
                self.fail(&peer, id.id, &e, waited);
            }
            return;
        }
        let printing = self.shared.printing.as_ref().filter(|_| !service.is_own());
        let printing = printing.map(|p| (p, p.begin(service.is_told_exactly())));
        let mut result = run_body(&service, &mut call);
        if own_pid() != self.shared.pid {
            leave(&service, result);
        }
        if !call.files.is_empty() {
            let files = call.end_files(result.is_ok());
            result = result.and(files);
        }
        *self.place.serves.borrow_mut() = None;
        call.keep_what_is_looked_at();
        let ran = if timed { now_ns().saturating_sub(begin) } else { 0 };
        if timed {
            service.took(ran);
            if let Some(Caller { peer, .. }) = &call.caller {
                peer.took_more(ran.max(1).cast_signed().saturating_sub_unsigned(expected));
            }
        }
        if let Some(times) = stands_for {
            service.count(times, (sent_ns > 0).then_some(waited), ran);
        }
        let outcome = Outcome {
            code: 0,
            running: self.shared.crew.running(),
            queued: self.shared.queued.load(Ordering::Relaxed),
            waited_ns: waited,
            ran_ns: ran,
            text: "",
        };
        let mut parts = Vec::new();
        let (mut printed, mut printing) = (call.printed.take(), printing);
        if result.is_ok() && call.has_bad_status() {
            let seen = printing.take().and_then(|(printing, begin)| printing.failed(begin));
            printed = printed.or(seen);
        }
        let reply = result.and_then(|()| {
            decode::reply(
                &mut call,
                &outcome,
                printed.as_deref(),
                std::mem::take(&mut self.reply),
                &mut parts,
            )
        });
        // Before the client knows: its next call finds the arrays free.
        let Call { signature, slots, caller, .. } = call;
        drop(slots);
        let Some(Caller { peer, turns, .. }) = caller else { return };
        drop(turns);
        let peer = &peer;
        match reply {
            Ok(bytes) => {
                if let Some((printing, _)) = printing {
                    printing.end(ran);
                }
                if printed.is_some() {
                    service.has_printed();
                }
                self.send(peer, id.id, &bytes, parts);
                self.reply = bytes;
            }
            Err(e) => {
                if e.code() != Code::Cancelled {
                    service.failed();
                }
                let seen = printing.and_then(|(printing, begin)| printing.failed(begin));
                let printed = printed.or(seen);
                if printed.is_some() {
                    service.has_printed();
                }
                // None at all says that it was not begun.
                self.tell(peer, id.id, &e, (waited, ran.max(1)), printed.as_deref());
            }
        }
        self.last = Some(Found { service, signature, changes });
    }

    /// Tells of a call that was not begun.
    fn fail(&mut self, peer: &Peer, id: u64, e: &Error, waited_ns: u64) {
        self.tell(peer, id, e, (waited_ns, 0), None);
    }

    /// Tells that a call has failed, and what it printed.
    fn tell(
        &mut self,
        peer: &Peer,
        id: u64,
        e: &Error,
        (waited_ns, ran_ns): (u64, u64),
        printed: Option<&Printed>,
    ) {
        let (running, queued) = (self.shared.crew.running(), self.shared.queued.load(Ordering::Relaxed));
        let text = beginning(e.text(), TEXT_BYTES);
        let outcome = Outcome { code: e.code() as u32, running, queued, waited_ns, ran_ns, text };
        let bytes = decode::failure(&outcome, printed, std::mem::take(&mut self.reply));
        self.send(peer, id, &bytes, Vec::new());
        self.reply = bytes;
    }

    fn send(&self, peer: &Peer, id: u64, bytes: &[u8], parts: Vec<LargePart>) {
        self.replies.store(self.replies.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if peer.send(id, bytes, parts) && !self.shared.waiting.swap(true, Ordering::SeqCst) {
            self.shared.hurry();
        }
    }
}

fn unwanted() -> Error {
    Error::new(Code::Cancelled, "the request was cancelled before it began")
}

/// A service by name; the last one is at hand, and is taken.
fn find(shared: &Shared, last: &mut Option<Found>, name: &str) -> Result<Found> {
    let changes = shared.changes.load(Ordering::Acquire);
    let is_that = |found: &Found| found.changes == changes && found.signature.name().as_str() == name;
    if let Some(found) = last.take_if(|found| is_that(found)) {
        return Ok(found);
    }
    let service = shared.service(name)?;
    Ok(Found { signature: service.signature.clone(), service, changes })
}

/// The end of a child that the service has forked and that comes out of it: the call is its parent's, and so is the server.
#[cold]
fn leave(service: &Service, result: Result<()>) -> ! {
    if let Err(e) = &result {
        eprintln!("forebay: a child that {} forked ends: {e}", service.signature.name());
    }
    fork::end_child(i32::from(result.is_err()))
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
