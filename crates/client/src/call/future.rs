//! A call under way, from its sending to its results.
//!
//! The arguments stay the caller's: they are read when the call is sent (again, if its server is
//! lost) and results are written into them when it is complete, in the thread that waits.

mod again;
mod canceller;
mod carrying;
mod checked;
mod lateness;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_link::standing;
use forebay_types::call::Outcome;
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Given, Param, Result, Signature};

use super::args::{Arg, Value};
use super::connection::{Connection, Pending, Returned, Told};
use super::estimate::{Size, bytes_of};
use super::files::{self, Carried, LocalFile};
use super::queue::{self, End, Queued, WaitingCall};
use super::reference::Reference;
use super::reply::Printed;
use super::request;
use super::table::Offer;
use super::tied::Tied;
use super::transfer::{OwnCopy, Transfer};
use super::{Asked, Choice, Client, Inner, Sent, reply, spare};
use again::Tries;
use carrying::Returning;
use lateness::GIVEN_UP;

pub use canceller::Canceller;
pub(super) use checked::Checked;
pub use together::{cancel_all, probe_any, wait_all, wait_any};

/// The connection to a server may be cut so often under one call: before anything of it was sent, and after.
const CUTS: usize = 2;

/// Where the time of a call went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    /// Checking, copying and sending, here.
    pub sending: Duration,
    /// Waiting at the server before it began.
    pub waiting: Duration,
    /// Running at the server.
    pub running: Duration,
    /// From the call to its results.
    pub total: Duration,
    /// How often it was issued again because a server was lost.
    pub reissued: u32,
    /// The server that answered: its name and pid.
    pub server: Option<(Arc<str>, u32)>,
}

enum State {
    /// No server has had room for it yet.
    Queued(Arc<Queued>),
    Sent {
        connection: Arc<Connection>,
        pending: Arc<Pending>,
    },
    Done(Result<Vec<Value>>),
    Taken,
}

/// How a call is made.
pub(super) struct How {
    /// How long it is of use.
    pub allowed: Option<Duration>,
    /// Whether its time is taken.
    pub timed: bool,
    /// How its arguments are handed over.
    pub transfer: Transfer,
    /// Which servers may get it, if not all.
    pub tied: Option<Arc<Tied>>,
}

/// A call under way. Dropped before its end, it is cancelled.
pub struct Future<'a> {
    inner: Arc<Inner>,
    offer: Arc<Offer>,
    args: Vec<Arg<'a>>,
    /// Copies of them that are sent in their place, or none.
    kept: Vec<Option<OwnCopy>>,
    given: Vec<Given>,
    /// Its files, and where they are kept just now.
    files: Vec<LocalFile>,
    carried: Option<Carried>,
    /// Its reply, while what it wrote is on its way.
    returning: Option<Box<Returning>>,
    transfer: Transfer,
    id: u64,
    issue: u32,
    /// What came of sending it before, if it did not simply go: most calls do.
    tries: Option<Box<Tries>>,
    /// The caller's time, counted from here; for the server, which may spare itself the work.
    allowed: Option<Duration>,
    /// None when nobody wants to know where the time goes.
    begun: Option<Instant>,
    timing: Timing,
    state: State,
    /// Only this server can do it: it holds what the call refers to.
    bound: Option<Arc<Connection>>,
    /// Only these servers are to do it.
    tied: Option<Arc<Tied>>,
    /// Set by another thread that gives it up.
    given_up: Option<Arc<AtomicBool>>,
    /// What the service printed, if it has failed.
    printed: Option<Box<Printed>>,
    /// The server that has answered, of a service that has a status.
    answered: Option<Arc<ServerInfo>>,
}

impl<'a> Future<'a> {
    pub(super) fn send(inner: &Arc<Inner>, name: &str, args: Vec<Arg<'a>>, how: How) -> Result<Future<'a>> {
        Future::send_checked(inner, name, how, |how| Checked::with(inner, name, how, args))
    }

    /// Sends a call whose arguments are made of the signature.
    pub(super) fn send_with(
        inner: &Arc<Inner>,
        name: &str,
        how: How,
        held: &[Arc<Reference>],
        make: impl FnOnce(&Signature) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Future<'a>> {
        Future::send_checked(inner, name, how, |how| Checked::made(inner, name, how, held, make))
    }

    /// Sends a call. One that does not go has failed.
    fn send_checked(
        inner: &Arc<Inner>,
        name: &str,
        how: How,
        check: impl FnOnce(&How) -> Result<Checked<'a>>,
    ) -> Result<Future<'a>> {
        inner.check_open()?;
        let begun = how.timed.then(Instant::now);
        // A call is large: it is made where the caller has it, and not moved.
        let sent = match check(&how) {
            Ok(call) => Future::begin(inner.clone(), call, how, begun),
            Err(e) => Err(e),
        };
        if let Err(e) = &sent {
            inner.failures.note(name, e, None);
        }
        sent
    }

    /// Sends a call of a server's own services.
    pub(super) fn send_to(
        inner: &Arc<Inner>,
        server: &Arc<Connection>,
        signature: &Signature,
        args: Vec<Arg<'a>>,
    ) -> Result<Future<'a>> {
        inner.check_open()?;
        let offer = Arc::new(Offer::of(signature.clone(), server.info.clone()));
        let mut call = Checked::of(inner, offer, args)?;
        call.bound = Some(server.clone());
        let how = How { allowed: None, timed: false, transfer: Transfer::Nowait, tied: None };
        Future::begin(inner.clone(), call, how, None)
    }

    /// Sends a call.
    pub(super) fn begin(
        inner: Arc<Inner>,
        call: Checked<'a>,
        how: How,
        begun: Option<Instant>,
    ) -> Result<Future<'a>> {
        let kept = match how.transfer {
            Transfer::Copy => copies(&inner, &call.offer.signature, &call.args)?,
            _ => Vec::new(),
        };
        let files = match call.offer.signature.has_files() {
            true => {
                let name = call.offer.signature.name();
                files::files_of(call.offer.signature.passed(), &call.args, &format_args!("a call of {name}"))
                    .map_err(|e| e.within(name))?
            }
            false => Vec::new(),
        };
        // Where calls are of unlike length, the time of each tells.
        let begun = begun.or_else(|| call.offer.signature.cost().map(|_| Instant::now()));
        let mut sent = Ok(Future::new(inner, call, how, State::Taken));
        if let Ok(future) = &mut sent {
            (future.kept, future.files, future.begun) = (kept, files, begun);
            if let Err(e) = future.set_out() {
                sent = Err(e);
            }
        }
        sent
    }

    /// A call that is at a server already.
    pub(super) fn under_way(
        inner: Arc<Inner>,
        call: Checked<'a>,
        how: How,
        (connection, pending): (Arc<Connection>, Arc<Pending>),
    ) -> Future<'a> {
        Future::new(inner, call, how, State::Sent { connection, pending })
    }

    #[inline]
    fn new(inner: Arc<Inner>, call: Checked<'a>, how: How, state: State) -> Future<'a> {
        let Checked { id, offer, args, given, bound } = call;
        let How { allowed, transfer, tied, .. } = how;
        Future {
            inner,
            offer,
            args,
            kept: Vec::new(),
            given,
            files: Vec::new(),
            carried: None,
            returning: None,
            transfer,
            id,
            issue: 0,
            tries: None,
            allowed,
            begun: None,
            timing: Timing::default(),
            state,
            bound,
            tied,
            given_up: None,
            printed: None,
            answered: None,
        }
    }

    /// Sends it for the first time.
    fn set_out(&mut self) -> Result<()> {
        self.issue_somewhere(None)?;
        if self.transfer != Transfer::Nowait {
            let params = self.offer.signature.passed();
            self.args.iter_mut().zip(params).filter(|(_, p)| !p.way.comes()).for_each(|(a, _)| a.let_go());
        }
        Ok(())
    }

    /// The server that gets it, of those that were not tried yet.
    fn choose(&self, size: Size, may_wait: bool) -> Option<Choice> {
        if self.bound.is_some() {
            return self.tried().is_empty().then_some(Choice::At(0));
        }
        // First come, first served.
        if may_wait
            && self.inner.waiting_rule().is_none()
            && self.inner.queue.has(self.offer.signature.name().as_str())
        {
            return Some(Choice::Later);
        }
        let asked = Asked { given: &self.given, size, waiting: 1, may_wait, more: 0, is_locked: false };
        self.inner.choose(&self.offer, self.tried(), &asked)
    }

    /// Has it wait for room at a server; false when it cannot.
    fn wait_in_queue(&mut self) -> Result<bool> {
        if self.kept.is_empty() {
            self.kept = copies(&self.inner, &self.offer.signature, &self.args)?;
        }
        let job = WaitingCall {
            id: self.id,
            issue: self.issue,
            signature: self.offer.signature.clone(),
            args: self.args.iter().map(Arg::without_bytes).collect(),
            kept: self.kept.clone(),
            given: self.given.clone(),
            bytes: bytes_of(&self.given),
            size: Size::of(&self.offer.signature, &self.given),
            allowed: self.allowed,
            begun: self.begun,
        };
        let queued = self.inner.queue.add(&self.inner, job);
        let waits = queued.is_some();
        if let Some(queued) = queued {
            self.timing.sending = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            self.state = State::Queued(queued);
        }
        Ok(waits)
    }

    /// Sends it to the next server that was not tried yet. `cause` is how the last one was lost.
    fn issue_somewhere(&mut self, mut cause: Option<Error>) -> Result<()> {
        // A thread that serves others waits for no room that those may need.
        let mut may_wait = self.issue == 0
            && cause.is_none()
            && self.transfer != Transfer::Wait
            && self.tied.is_none()
            && self.files.is_empty()
            && !matches!(self.state, State::Queued(_))
            && !standing::serves();
        let size = Size::of(&self.offer.signature, &self.given);
        loop {
            self.inner.queue.drive(&self.inner);
            let server = match self.choose(size, may_wait) {
                Some(Choice::Later) if self.wait_in_queue()? => return Ok(()),
                Some(Choice::Later) => {
                    may_wait = false;
                    continue;
                }
                Some(Choice::At(server)) => Some(server),
                None => None,
            };
            let Some(server) = server else {
                if self.await_another()? {
                    continue;
                }
                return Err(self.nobody(cause));
            };
            let until = self.allowed.zip(self.begun).map(|(allowed, begun)| begun + allowed);
            let connection = match &self.bound {
                Some(holder) => {
                    holder.lost().map_or_else(|| Ok(holder.clone()), |e| Err(Sent::Lost(e.clone())))
                }
                None => self.offer.connection(server, |info| self.inner.connection(info, until)),
            };
            let files = connection.and_then(|c| Ok((self.carry(&c, until)?, c)));
            let sent = files.and_then(|(files, connection)| {
                let request = self.request(&connection, size, files.as_ref());
                Ok((request.send(&connection, until)?, files, connection))
            });
            match sent {
                Ok(((pending, sent), files, connection)) => {
                    self.carried = files;
                    self.went(connection, pending, sent);
                    return Ok(());
                }
                Err(Sent::Not(e)) if e.code() == Code::Timeout => return Err(self.too_late(&e)),
                Err(Sent::Not(e)) => return Err(e.within(self.offer.signature.name())),
                Err(Sent::NoRoom(e)) if self.bound.is_some() => {
                    return Err(e.within(self.offer.signature.name()));
                }
                Err(Sent::Unreached(e) | Sent::NoRoom(e)) => {
                    let refused = self.offer.servers[server].incarnation;
                    self.tries().without.push(refused);
                    self.renew_offer();
                    cause = Some(e);
                }
                Err(Sent::Lost(e)) => {
                    let info = self.bound.as_ref().map_or(&self.offer.servers[server], |holder| &holder.info);
                    let info = info.clone();
                    // How it was lost says more than that it cannot be reached any more.
                    let was_cut = self.tries().cut.contains(&info.incarnation);
                    self.failed(&info);
                    self.renew_offer();
                    cause = cause.filter(|_| was_cut).or(Some(e));
                }
            }
        }
    }

    fn request<'r>(
        &'r self,
        to: &Connection,
        size: Size,
        files: Option<&'r Carried>,
    ) -> request::Request<'r, 'a> {
        let Future { offer, given, .. } = self;
        let learns = offer.estimates.wants(self.id, size).then_some((&offer.estimates, size));
        request::Request {
            inner: &self.inner,
            id: self.id,
            issue: self.issue,
            allowed: self.allowed,
            timed: self.begun.is_some(),
            signature: &offer.signature,
            args: &self.args,
            kept: &self.kept,
            given,
            files,
            told: Told { basket: None, learns, expected: offer.expected(to.info.incarnation, size) },
        }
    }

    /// It is at a server.
    fn went(&mut self, connection: Arc<Connection>, pending: Arc<Pending>, sent: Option<Instant>) {
        if let (Some(sent), Some(begun)) = (sent, self.begun) {
            self.timing.sending = sent.saturating_duration_since(begun);
        }
        if let Some(tries) = &mut self.tries {
            tries.died.retain(|incarnation| *incarnation != connection.info.incarnation);
        }
        self.state = State::Sent { connection, pending };
    }

    /// Waits for a server that was not tried yet, one that is started anew, as long as the client has patience.
    fn await_another(&mut self) -> Result<bool> {
        let patience =
            if self.bound.is_some() { Duration::ZERO } else { self.inner.patience_within(self.allowed) };
        let began = *self.tries().waits.get_or_insert_with(Instant::now);
        let mut again = super::LOOK_AGAIN;
        while began.elapsed() < patience {
            self.inner.interrupted()?;
            std::thread::sleep(again.pause());
            self.inner.refresh();
            // One that was lost and is offered still, or again, may be well by now.
            self.tries().without.clear();
            self.renew_offer();
            if !self.offer.servers.is_empty() {
                return Ok(true);
            }
            // None will come that offers it.
            if self.inner.table.why_withdrawn(self.offer.signature.name().as_str()).is_some() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn renew_offer(&mut self) {
        if self.bound.is_some() {
            return;
        }
        let name = self.offer.signature.name().as_str();
        if let Ok(offer) = self.inner.find(name, self.tied.as_deref(), Some(Duration::ZERO))
            && offer.signature == self.offer.signature
        {
            self.offer = offer;
        }
    }

    /// Goes on until it is complete or the deadline is over; says whether it is complete. What its service wrote is
    /// fetched no longer than until `fetched`.
    fn advance(&mut self, deadline: Option<Instant>, fetched: Option<Instant>) -> bool {
        self.disown();
        // Whoever serves others takes its place again when the call is over or given up: the place may be that call's.
        let _wait = standing::Wait::begin();
        loop {
            self.inner.queue.drive(&self.inner);
            if let Some(outcome) = self.leave_queue() {
                if let Err(e) = outcome {
                    self.fail(e);
                }
                continue;
            }
            if let State::Done(_) | State::Taken = &self.state {
                return true;
            }
            let ready = || self.is_ready() || self.inner.queue.is_stirred();
            let in_time = self.inner.pump.wait(ready, deadline);
            let State::Sent { connection, pending } = &self.state else {
                match in_time {
                    _ if self.is_given_up() => self.give_up(),
                    Err(objection) => self.end_with(objection.within(self.offer.signature.name())),
                    Ok(true) => {}
                    Ok(false) => return false,
                }
                continue;
            };
            let outcome = match pending.take() {
                Some(returned)
                    if self.bound.is_none()
                        && (reply::is_not_offered(&returned.reply) || self.found_no_room(&returned)) =>
                {
                    let connection = connection.clone();
                    self.go_elsewhere(&connection, returned)
                }
                Some(returned) if self.carried.is_none() || reply::has_failed(&returned.reply) => {
                    return self.end(returned);
                }
                Some(returned) => {
                    self.returning = Some(Box::new(Returning::of(returned)));
                    Ok(())
                }
                None if self.is_given_up() => {
                    self.give_up();
                    return true;
                }
                None if self.returning.is_some() => {
                    let connection = connection.clone();
                    match self.fetch(&connection, fetched) {
                        Ok(Some(returned)) => return self.end(returned),
                        Ok(None) => return false,
                        Err(Sent::Lost(cause) | Sent::Unreached(cause)) => {
                            self.reissue(cause, connection.info.clone())
                        }
                        Err(Sent::Not(e) | Sent::NoRoom(e)) => Err(e),
                    }
                }
                None => match (connection.lost(), in_time) {
                    (Some(cause), _) => self.reissue(cause.clone(), connection.info.clone()),
                    (None, Err(objection)) => {
                        self.end_with(objection.within(self.offer.signature.name()));
                        return true;
                    }
                    (None, Ok(true)) => Ok(()),
                    (None, Ok(false)) => return false,
                },
            };
            if let Err(e) = outcome {
                self.fail(e);
                return true;
            }
        }
    }

    /// A call that has waited for room and does no more: it was sent, or it is not to be.
    fn leave_queue(&mut self) -> Option<Result<()>> {
        let State::Queued(queued) = &self.state else { return None };
        match queued.end()? {
            End::Went(queue::Flight { connection, pending, sent }) => {
                let (connection, pending, sent) = (connection.clone(), pending.clone(), *sent);
                self.went(connection, pending, sent);
                Some(Ok(()))
            }
            End::Failed(e) => Some(Err(e.clone())),
            End::NoServer => {
                self.renew_offer();
                let (cause, info) = self.tries().lost.take().unzip();
                let done = self.issue_somewhere(cause);
                Some(match info {
                    Some(info) => self.with_obituary(done, &info),
                    None => done,
                })
            }
        }
    }

    /// Whether there is something to do about it.
    fn is_ready(&self) -> bool {
        self.is_given_up()
            || match &self.state {
                State::Queued(queued) => queued.has_news(),
                State::Sent { connection, pending } => pending.is_done() || connection.lost().is_some(),
                State::Done(_) | State::Taken => true,
            }
    }

    /// It is complete: takes in what came back.
    fn end(&mut self, returned: Returned) -> bool {
        if let State::Sent { connection, pending } = std::mem::replace(&mut self.state, State::Taken) {
            let finished = self.finish(&connection, returned);
            self.needs_no_more();
            if let Err(e) = &finished {
                self.inner.failures.note(self.offer.signature.name().as_str(), e, Some(&connection.info));
            }
            if self.offer.signature.params().iter().any(|param| param.is_status) {
                self.answered = Some(connection.info.clone());
            }
            self.state = State::Done(finished);
            spare::keep_pending(pending);
        }
        true
    }

    /// The server has withdrawn the service since the table was made, or has no room for files: it goes to another one.
    fn go_elsewhere(&mut self, connection: &Connection, returned: Returned) -> Result<()> {
        let name = self.offer.signature.name().as_str();
        let cause = reply::why_failed(name, &connection.info, &returned.reply);
        connection.free(returned.chunks);
        self.is_still_there(&cause)?;
        // The same one may get it again, when there is room.
        (self.id, self.carried) = (self.inner.next_id(), None);
        self.tries().without.push(connection.info.incarnation);
        self.inner.refresh();
        self.renew_offer();
        self.issue_somewhere(None).map_err(|e| if e.code() == Code::NoServer { cause } else { e })
    }

    /// Reads the reply and copies results into the caller's arrays.
    fn finish(&mut self, connection: &Connection, returned: Returned) -> Result<Vec<Value>> {
        self.printed = reply::printed(&self.offer.signature, &returned.reply).map(Box::new);
        let Future { offer, args, timing, begun, .. } = self;
        let note = |outcome: &Outcome| {
            let Some(begun) = begun else { return };
            timing.waiting = Duration::from_nanos(outcome.waited_ns);
            timing.running = Duration::from_nanos(outcome.ran_ns);
            timing.total = begun.elapsed();
            timing.server = Some((connection.name.clone(), connection.info.pid));
        };
        match reply::take(&offer.signature, connection, returned, args, note) {
            // Of its server, for a service's own failures are RemoteErrors.
            Err(e) if e.code() == Code::Timeout => {
                Err(self.late(None, "its server had not begun it in time; allow it more time"))
            }
            Ok(mut values) => {
                files::name_results(&self.offer.signature, &self.files, &mut values);
                Ok(values)
            }
            failed => failed,
        }
    }

    /// Waits for the end and takes the returned results: scalars, text and bytes that come back,
    /// in the order of the signature; arrays are filled in place. After `Timeout` the call is
    /// still under way and may be waited for again. The result is the caller's then: who waits once more gets `Closed`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Value>> {
        let deadline = end_of(timeout);
        if !self.advance(deadline, deadline) {
            return Err(self.late(timeout, "it is under way; wait longer, or cancel it"));
        }
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Done(result) => result,
            _ => Err(Error::new(
                Code::Closed,
                format!(
                    "the result of {} has been taken already, by the first wait; keep what that gives",
                    self.offer.signature.name()
                ),
            )),
        }
    }

    /// What was called.
    pub fn signature(&self) -> &Signature {
        &self.offer.signature
    }

    /// Whether it is complete. Results are in the arrays when it is.
    pub fn done(&mut self) -> bool {
        self.advance(Some(Instant::now()), None)
    }

    /// Whether it has not been found complete: what came meanwhile is looked at by [`Future::done`].
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::Sent { .. } | State::Queued(_))
    }

    /// Gives it up: it is not begun any more, and a running service may notice. Waiting for it
    /// gives `Cancelled`, unless it was complete before.
    pub fn cancel(&mut self) {
        // One that is freed is cancelled, and has mostly been waited for: it needs no look.
        if !self.is_under_way() || self.done() {
            return;
        }
        self.give_up();
    }

    fn give_up(&mut self) {
        self.end_with(self.cancelled());
    }

    fn cancelled(&self) -> Error {
        if self.inner.is_closed() {
            return Inner::was_closed().within(self.offer.signature.name());
        }
        Error::new(Code::Cancelled, format!("{} was cancelled", self.offer.signature.name()))
    }

    /// Ends it before it is complete: if it has not begun it will not be run.
    fn end_with(&mut self, why: Error) {
        self.abandon();
        self.fail(why);
    }

    /// It has ended, without a reply.
    fn fail(&mut self, why: Error) {
        self.needs_no_more();
        self.note(&why);
        self.state = State::Done(Err(why));
    }

    /// It is not sent again: what was kept for that goes, however long the call itself stays.
    fn needs_no_more(&mut self) {
        self.carried = None;
        self.kept = Vec::new();
        self.files = Vec::new();
    }

    /// Keeps among the calls that have failed what went wrong with it.
    pub fn note(&self, why: &Error) {
        let server = match &self.state {
            State::Sent { connection, .. } => Some(&*connection.info),
            _ => self.answered.as_deref(),
        };
        self.inner.failures.note(self.offer.signature.name().as_str(), why, server);
    }

    /// The client that calls.
    pub fn client(&self) -> Client {
        Client::of(self.inner.clone())
    }

    /// What gives it up while another thread waits for it.
    pub fn canceller(&mut self) -> Canceller {
        let given_up = self.given_up.get_or_insert_default().clone();
        Canceller { inner: self.inner.clone(), given_up }
    }

    fn is_given_up(&self) -> bool {
        self.inner.is_closed() || self.given_up.as_ref().is_some_and(|asked| asked.load(Ordering::SeqCst))
    }

    /// In a child of `fork` a call under way is the parent's: here it has ended with `Closed`. Nothing of it
    /// is touched, its memory neither, for locks may be held by threads that this process does not have.
    fn disown(&mut self) {
        if !self.is_under_way() {
            return;
        }
        if let Err(e) = self.inner.check_process() {
            std::mem::forget(std::mem::replace(&mut self.state, State::Done(Err(e))));
            std::mem::forget((std::mem::take(&mut self.kept), self.bound.take(), self.inner.clone()));
            std::mem::forget((self.carried.take(), self.returning.take()));
        }
    }

    /// Lets it be run without anybody waiting for it.
    pub(super) fn forsake(mut self) {
        self.disown();
        // One that refers to an array never waits for room: it goes to that array's server.
        if let State::Sent { connection, pending } = &self.state {
            connection.forsake(pending);
            if let Some(returning) = self.returning.take() {
                connection.free(returning.chunks());
            }
            self.state = State::Taken;
        }
    }

    fn abandon(&mut self) {
        match &self.state {
            State::Queued(queued) if self.inner.queue.cancel(queued) => {}
            State::Queued(queued) => {
                if let Some(End::Went(flight)) = queued.end() {
                    flight.connection.abandon(self.id, &flight.pending);
                }
            }
            State::Sent { connection, pending } => {
                connection.abandon(self.id, pending);
                if let Some(returning) = self.returning.take() {
                    connection.free(returning.chunks());
                }
            }
            State::Done(_) | State::Taken => {}
        }
    }

    /// What the service printed, if it has failed and its server tells.
    pub fn printed(&self) -> Option<&Printed> {
        self.printed.as_deref()
    }

    /// Where the time went; whole when the call is complete.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Whether a reply is there or its server is lost, or it is complete; without doing anything about it.
    pub fn has_news(&self) -> bool {
        self.is_ready() || self.inner.queue.is_stirred() || self.inner.check_process().is_err()
    }
}

impl Drop for Future<'_> {
    fn drop(&mut self) {
        self.disown();
        self.abandon();
        if self.is_under_way()
            && let (Some(allowed), Some(begun)) = (self.allowed, self.begun)
            && begun.elapsed() >= allowed
        {
            self.note(&self.late(Some(allowed), GIVEN_UP));
        }
    }
}

/// When a wait of that length is over; never, if it is longer than any clock goes.
fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|t| Instant::now().checked_add(t))
}

/// Copies of the bytes that go, by argument.
fn copies(inner: &Inner, signature: &Signature, args: &[Arg]) -> Result<Vec<Option<OwnCopy>>> {
    let copy = |(arg, param): (&Arg, &Param)| match arg {
        Arg::Scalar(_) | Arg::Ref(..) => Ok(None),
        _ if !param.way.goes() => Ok(None),
        _ => arg.copied(inner.copies.pool()).map(Some),
    };
    args.iter().zip(signature.passed()).map(copy).collect()
}
