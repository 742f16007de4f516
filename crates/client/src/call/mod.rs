//! Calls: a client of the services that the broker knows.
//!
//! ```no_run
//! use forebay_client::call::{Arg, Client};
//! use forebay_link::Locator;
//! let client = Client::connect(Locator::at(None))?;
//! let (x, mut y) = ([1.0, 2.0], [0.5, 0.5]);
//! client.call("axpy", vec![2.0.into(), x[..].into(), Arg::from(&mut y[..])], None)?;
//! assert_eq!(y, [2.5, 4.5]);
//! # Ok::<(), forebay_types::Error>(())
//! ```
//!
//! The way of a call: the table says which servers offer the name; the arguments are checked
//! against the signature; small ones go into the request, large ones are copied once into the
//! client's segment; the request goes into the ring of that server. Whoever waits takes the
//! replies out of the rings (`pump`), and results are copied into the caller's arrays at the
//! end. When a server is lost the call is issued again, from the caller's arrays, to another.

mod ahead;
mod args;
mod attach;
mod bag;
mod connection;
mod direct;
mod estimate;
mod failed;
mod files;
mod future;
mod group;
mod guard;
mod lead;
mod near;
mod pace;
mod placement;
mod prepared;
mod pump;
mod queue;
mod reference;
mod reply;
mod request;
mod spare;
mod table;
mod tied;
mod transfer;
mod watcher;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use forebay_host::environment;
use forebay_host::fork::own_pid;
use forebay_host::lock;
use forebay_host::wait::Backoff;
use forebay_link::call::Flusher;
use forebay_link::{Locator, QuickMap};
use forebay_types::directory::{Incarnation, SETTLING_MS, ServerInfo};
use forebay_types::{Code, Error, Given, Name, Result, Signature};

pub use args::{Arg, Value};
pub use bag::{Bag, BagOptions, BagView, Counts, Next, Space, Task, TaskFate, TaskState, TaskValue};
pub use direct::{Answer, Called};
pub use failed::FailedCall;
pub use future::{Canceller, Future, Timing, cancel_all, probe_any, wait_all, wait_any};
pub use group::{Group, Joined, Joint, Ticket};
pub use guard::Guarded;
pub use placement::{Choice, Named, Placement, ServerView, TaskView};
pub use reference::{On, Reference};
pub use reply::Printed;
pub use tied::Only;
pub use transfer::Transfer;
pub use watcher::Watched;

use future::How;

use estimate::{Size, bytes_of};
use placement::soonest;
use pump::Pump;
use queue::Queue;
use table::{Offer, Table};
use tied::Tied;

/// What threads wait with; the model of the waiting has its own.
mod sync {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
    pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
}

/// How long servers may take to come to a broker that took the place of a dead one, and a moment of grace.
const SETTLING: Duration = Duration::from_millis(SETTLING_MS + 500);
/// Between two looks whether the servers have come.
const LOOK_AGAIN: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));

/// Whoever may interrupt a wait is asked so often.
const SLICE: Duration = Duration::from_millis(100);

/// Why a request did not go.
#[derive(Clone, Debug)]
enum Sent {
    /// It cannot go anywhere.
    Not(Error),
    /// Files of others have the room that its files need at this server.
    NoRoom(Error),
    /// It cannot go to this server, of which nobody knows whether it lives.
    Unreached(Error),
    /// It cannot go to this server, which is dead, stopped or another one by now.
    Lost(Error),
}

struct Inner {
    id: u64,
    pid: u32,
    next: AtomicU64,
    table: Arc<Table>,
    connections: Mutex<QuickMap<Incarnation, attach::Attachment>>,
    pump: Pump,
    newest: Mutex<reference::Newest>,
    check: OnceLock<Check>,
    /// How long a server that nobody sees yet is waited for, in milliseconds.
    patience: AtomicU64,
    watcher: watcher::Watcher,
    guard: guard::Guard,
    failures: failed::Failures,
    copies: transfer::Copies,
    /// Calls that no server has room for yet.
    queue: Arc<Queue>,
    /// Which server gets a call, if not that where it is over first.
    rule: OnceLock<Box<dyn Placement>>,
    /// Sends behind the callers' backs.
    flusher: Arc<Flusher>,
    /// Its user has closed it.
    closed: AtomicBool,
}

/// A call of which it is asked where it goes.
struct Asked<'g> {
    /// Its arguments, and its size by them.
    given: &'g [Given],
    size: Size,
    /// How many calls of this service wait, this one among them.
    waiting: usize,
    /// Whether it may wait, too.
    may_wait: bool,
    /// How many calls more than usual a server may have.
    more: u32,
    /// Something of the client is locked: no rule is asked that may wait.
    is_locked: bool,
}

/// Servers that may die under one call; then it is given up.
const LIVES: u8 = 3;

/// A service whose calls run shorter has them sent at once, to whoever has fewest.
const QUICK: u64 = 50_000;

/// What the user wants to be asked now and then while a call is waited for.
type Check = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A client; clones share everything, and any thread may use them.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    transfer: Transfer,
    tied: Option<Arc<Tied>>,
}

/// A service as it is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// What it takes and gives.
    pub signature: Signature,
    /// The servers that offer it.
    pub servers: Vec<ServerInfo>,
}

impl Client {
    /// Connects to the broker and takes its table.
    pub fn connect(broker: Locator) -> Result<Client> {
        let mut number = [0; 8];
        getrandom::fill(&mut number)
            .map_err(|e| Error::new(Code::Io, format!("the system gives no random numbers: {e}")))?;
        let inner = Inner {
            id: u64::from_le_bytes(number),
            pid: own_pid(),
            next: AtomicU64::new(1),
            table: Arc::new(Table::fetch(broker)?),
            connections: Mutex::default(),
            pump: Pump::new()?,
            newest: Mutex::default(),
            check: OnceLock::new(),
            patience: AtomicU64::new(0),
            watcher: watcher::Watcher::default(),
            guard: guard::Guard::default(),
            failures: failed::Failures::default(),
            copies: transfer::Copies::default(),
            queue: Arc::default(),
            rule: OnceLock::new(),
            flusher: Arc::default(),
            closed: AtomicBool::new(false),
        };
        Ok(Client::of(Arc::new(inner)))
    }

    fn of(inner: Arc<Inner>) -> Client {
        Client { inner, transfer: Transfer::default(), tied: None }
    }

    /// Closes the client for all who have it: calls under way end with `Closed`, whoever waits for them, and nothing is
    /// called any more; the arrays that servers hold for it are freed. One that is tied to servers ends by itself only.
    pub fn close(&self) {
        let inner = &self.inner;
        if self.tied.is_some() || inner.check_process().is_err() || inner.closed.swap(true, Ordering::SeqCst)
        {
            return;
        }
        // Not known any more when they end: nobody is to take the servers for lost.
        let connections = std::mem::take(&mut *lock(&inner.connections));
        for attachment in connections.into_values() {
            if let attach::Attachment::Attached(connection) = attachment {
                inner.pump.remove(&connection);
                connection.close();
            }
        }
        inner.table.prepared.clear();
        inner.queue.stir();
        inner.pump.nudge();
        inner.watcher.wake();
        inner.guard.end();
    }

    /// Which server gets a call is decided by that rule from now on. Once a client: `Conflict` after that.
    pub fn place_by(&self, rule: impl Placement + 'static) -> Result<()> {
        self.inner.rule.set(Box::new(rule)).map_err(|_| {
            let text = "this client has a rule of placement already; connect another client for another rule";
            Error::new(Code::Conflict, text)
        })
    }

    /// Calls a service and waits for its results: arrays that come back are filled in place, the
    /// rest is returned in the order of the signature. Arguments are all parameters but results
    /// that are no arrays. With a timeout the call is cancelled when it is over.
    pub fn call(&self, name: &str, args: Vec<Arg>, timeout: Option<Duration>) -> Result<Vec<Value>> {
        let Some(allowed) = timeout else { return self.call_and_wait(name, args) };
        let mut future = Future::send(&self.inner, name, args, self.how(timeout, true, Transfer::Nowait))?;
        let left = allowed.saturating_sub(future.timing().sending);
        future.wait_within(left)
    }

    /// Returns a client whose asynchronous calls hand their arguments over as `transfer` says. It shares its
    /// connections with this one.
    pub fn handing_over(&self, transfer: Transfer) -> Client {
        Client { transfer, ..self.clone() }
    }

    /// Returns a client whose calls go to those servers only. It shares its connections with this one.
    pub fn on(&self, only: Only) -> Client {
        Client { tied: Some(Arc::new(Tied::to(only))), ..self.clone() }
    }

    fn how(&self, allowed: Option<Duration>, timed: bool, transfer: Transfer) -> How {
        How { allowed, timed, transfer, tied: self.tied.clone() }
    }

    /// Calls a service and returns at once. `allowed` is how long the result is of any use; a
    /// server does not begin a call later than that.
    pub fn call_async<'a>(
        &self,
        name: &str,
        args: Vec<Arg<'a>>,
        allowed: Option<Duration>,
    ) -> Result<Future<'a>> {
        Future::send(&self.inner, name, args, self.how(allowed, true, self.transfer))
    }

    /// Calls a service and returns at once; `make` makes the arguments from the signature of the service, and `held`
    /// are the arrays among them that servers hold: that one is lost is told whether or not somebody offers the service. It is
    /// for languages that have results among the arguments. `allowed` is how long the result is of any use.
    pub fn call_async_with<'a>(
        &self,
        name: &str,
        allowed: Option<Duration>,
        held: &[Arc<Reference>],
        make: impl FnOnce(&Signature) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Future<'a>> {
        Future::send_with(&self.inner, name, self.how(allowed, true, self.transfer), held, make)
    }

    /// While a call waits for a server to let the client in or to take a request, and while arrays of
    /// references are moved, `check` is asked every 100 ms; its error ends the waiting. For Ctrl-C.
    /// Once a client.
    pub fn on_wait(&self, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        let _ = self.inner.check.set(Box::new(check));
    }

    /// For how long a call waits for a service that nobody offers yet, and an array for a server to hold it: for
    /// programs that are started before their servers. A call's own timeout, if shorter, counts. At first: not at all.
    pub fn patience(&self, wait: Duration) {
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.inner.patience.store(ms, Ordering::Relaxed);
    }

    /// For how many seconds, from 1 to 3600, a server on another host may say nothing before it is lost; of the servers
    /// that are reached from now on.
    pub fn silence(&self, seconds: f64) -> Result<()> {
        self.inner.table.allow_silence(environment::silence_of(seconds)?);
        Ok(())
    }

    /// What is offered, by name.
    pub fn services(&self) -> Result<Vec<Service>> {
        self.inner.check_open()?;
        let offers = self.inner.table.all();
        let service = |o: &Arc<Offer>| Service {
            signature: o.signature.clone(),
            servers: o.servers.iter().map(|s| ServerInfo::clone(s)).collect(),
        };
        Ok(offers.iter().map(service).collect())
    }

    /// The signature of a service.
    pub fn signature(&self, name: &str) -> Result<Signature> {
        Ok(self.inner.find(name, self.tied.as_deref(), None)?.signature.clone())
    }
}

/// What is said of a call whose time is over, wherever it is then; `why` tells what is to be done.
fn late(service: &Name, after: Duration, why: &str) -> Error {
    let after = after.as_secs_f64();
    Error::new(Code::Timeout, format!("{service} has no result after {after:.3} s: {why}"))
}

impl Inner {
    fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The offer of a service. One that is missing at a broker that has just taken the place of a
    /// dead one is waited for, and any other one as long as this client has patience, at most `allowed`.
    fn find(&self, name: &str, tied: Option<&Tied>, allowed: Option<Duration>) -> Result<Arc<Offer>> {
        let found = self.seek(allowed, |table| match tied {
            None => table.find(name),
            Some(tied) => table.find(name).and_then(|offer| tied.within(offer)),
        });
        found.map_err(|e| if e.code() == Code::NoServer { self.withdrawn_or(e, name) } else { e })
    }

    /// Why nobody offers a service any more, if it has ended too many lives of its server.
    #[cold]
    fn withdrawn_or(&self, missing: Error, name: &str) -> Error {
        let Some(how) = self.table.why_withdrawn(name) else { return missing };
        let text = format!(
            "{name:?} is offered no more: it ran when the process of its server died again and again, the last time of {how}. \
             Find out why (`forebay serve --check FILE --call` calls it with small arguments), correct the routine or its line, \
             and start the server anew"
        );
        Error::new(Code::NoServer, text)
    }

    /// How long a call that may take so long waits for a server.
    fn patience_within(&self, allowed: Option<Duration>) -> Duration {
        let patience = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        allowed.map_or(patience, |allowed| patience.min(allowed))
    }

    /// What the table knows, now or in a while.
    fn seek<T>(&self, allowed: Option<Duration>, look: impl Fn(&Arc<Table>) -> Result<T>) -> Result<T> {
        self.check_open()?;
        let found = look(&self.table);
        match found {
            Err(e) if e.code() == Code::NoServer => self.seek_later(allowed, look, e),
            found => found,
        }
    }

    #[cold]
    fn seek_later<T>(
        &self,
        allowed: Option<Duration>,
        look: impl Fn(&Arc<Table>) -> Result<T>,
        missing: Error,
    ) -> Result<T> {
        let began = Instant::now();
        let patience = self.patience_within(allowed);
        let (mut outcome, mut again) = (Err(missing), LOOK_AGAIN);
        loop {
            let settling = self.table.is_settling() && began.elapsed() < SETTLING;
            if !settling && began.elapsed() >= patience {
                return match outcome {
                    Err(e) if !patience.is_zero() => {
                        Err(e.within(format!("waited {} s in vain", patience.as_secs_f64())))
                    }
                    outcome => outcome,
                };
            }
            self.interrupted()?;
            std::thread::sleep(again.pause());
            outcome = look(&self.table);
            if !outcome.as_ref().is_err_and(|e| e.code() == Code::NoServer) {
                return outcome;
            }
        }
    }

    /// Asks the broker anew, if it answers.
    fn refresh(&self) {
        let _ = self.table.all();
    }

    /// The rule to be asked while something of the client is locked; none if it may wait.
    fn rule(&self) -> Option<&dyn Placement> {
        let rule: &dyn Placement = self.rule.get().map_or(&Named::Least, |rule| &**rule);
        Some(rule).filter(|rule| !rule.may_wait())
    }

    /// The rule to be asked while nothing is, if it may wait.
    fn waiting_rule(&self) -> Option<&dyn Placement> {
        self.rule.get().map(|rule| &**rule).filter(|rule| rule.may_wait() && !placement::is_asking())
    }

    /// The server of an offer that is to get a call, without those; none when there is no other one.
    fn choose(&self, offer: &Offer, without: &[Incarnation], asked: &Asked) -> Option<Choice> {
        let size = asked.size;
        let waiting_rule = self.waiting_rule().filter(|_| !asked.is_locked);
        let is_ruled = waiting_rule.is_some() || self.rule.get().is_some_and(|rule| !rule.may_wait());
        if !is_ruled && (offer.estimates.is_below(size, QUICK) || !asked.may_wait && size.cost().is_none()) {
            let at = offer.least_busy(without)?;
            // Behind calls that cost more a short one would wait.
            if size.cost().is_none() || offer.is_free(at) {
                return Some(Choice::At(at));
            }
        }
        let turn = offer.turn();
        let servers = offer.servers.len();
        let order = (0..servers).map(|i| (turn + i) % servers.max(1));
        let order: Vec<usize> = order.filter(|i| !without.contains(&offer.servers[*i].incarnation)).collect();
        if order.is_empty() {
            return None;
        }
        let views = offer.views(&order, size, asked.more);
        let (bytes, cost) = (bytes_of(asked.given), size.cost());
        let task = TaskView { service: offer.signature.name().as_str(), bytes, cost, waiting: asked.waiting };
        let choice = waiting_rule.map(|rule| placement::ask(rule, &task, &views));
        let choice = choice.filter(|choice| matches!(choice, Choice::At(at) if *at < order.len()));
        match choice.unwrap_or_else(|| self.rule().unwrap_or(&Named::Least).choose(&task, &views)) {
            Choice::At(at) if at < order.len() => Some(Choice::At(order[at])),
            Choice::Later if asked.may_wait => Some(Choice::Later),
            Choice::Later if cost.is_some() => soonest(&views).map(|at| Choice::At(order[at])),
            // A rule that has no answer of use.
            _ => offer.least_busy(without).map(Choice::At),
        }
    }

    /// Adds how the server died, if somebody tells.
    #[cold]
    fn with_obituary(&self, lost: Error, server: &ServerInfo) -> Error {
        if !server.supervised {
            return lost;
        }
        match self.table.how_died(server.incarnation) {
            Some(how) => Error::new(lost.code(), format!("{lost}. Its process died: {how}")),
            None => lost,
        }
    }

    fn interrupted(&self) -> Result<()> {
        self.check.get().map_or(Ok(()), |check| check())
    }

    /// Whether its user has closed it.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// What says so.
    fn was_closed() -> Error {
        Error::new(Code::Closed, "this client was closed; connect another one")
    }

    /// Whether it is of any use here.
    fn check_open(&self) -> Result<()> {
        match self.is_closed() {
            true => Err(Inner::was_closed()),
            false => self.check_process(),
        }
    }

    /// After `fork` the rings are the parent's.
    fn check_process(&self) -> Result<()> {
        if own_pid() == self.pid {
            return Ok(());
        }
        Err(Error::new(
            Code::Closed,
            format!("this client belongs to the parent process {}; connect again after fork", self.pid),
        ))
    }
}
