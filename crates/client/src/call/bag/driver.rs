//! Does what the machine of a bag decides: sends tasks, takes replies, looks after servers.
//!
//! Whoever holds the state drives: the user's thread while it asks for results, the client's watching thread while the
//! user does something else. So a loop with a short body costs no hand-over, and one with a long body lets no server idle.

mod sending;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use forebay_link::QuickMap;
use forebay_link::call::room;
use forebay_types::directory::Incarnation;
use forebay_types::{Code, Error, Result};

use super::fates::TaskFate;
use super::job::{End, Flight, Job, Returning};
use super::knocks::Knocks;
use super::losses;
use super::machine::{Machine, Rules, Times};
use super::results::results;
use super::slab::Slab;
use super::{Asks, BagOptions, PATIENCE, Space, Task, closed};
use crate::call::args::{Arg, Value};
use crate::call::attach::There;
use crate::call::connection::{Basket, Connection, Returned};
use crate::call::estimate::Size;
use crate::call::files::Fetched;
use crate::call::pace::Ns;
use crate::call::reference;
use crate::call::table::{Offer, coarse};
use crate::call::tied::Tied;
use crate::call::transfer::OwnCopy;
use crate::call::watcher::Watched;
use crate::call::{Client, Inner, Sent, lock, placement, reply, spare};

/// Servers are looked after so often.
const LOOK: Duration = Duration::from_millis(100);
/// A thread that was here so lately comes by again on its own.
const SOON: Duration = Duration::from_millis(1);
/// What is kept of arguments and results, at most and at least.
const MOST_BYTES: u64 = 256 << 20;
const LEAST_BYTES: u64 = 1 << 20;

/// A task that is handed out.
pub(super) struct Ended {
    index: u64,
    end: End,
}

/// What a visit finds.
pub(super) enum Held {
    Input,
    Task(Ended),
    Over,
    Nothing,
}

pub(super) struct State {
    pub machine: Machine,
    pub jobs: Slab<Job>,
    /// The service, once there was input.
    pub offer: Option<Arc<Offer>>,
    ends: Slab<End>,
    /// The servers as the machine knows them.
    seats: Vec<Arc<Connection>>,
    /// Servers of the offer are being attached to.
    attaching: bool,
    /// How often each has been attached to in vain.
    knocks: QuickMap<Incarnation, Knocks>,
    looked: Option<Duration>,
    starved: Option<Instant>,
    came: Vec<u64>,
    /// Tasks whose files are on their way back, and nobody has waited for them to the end.
    pub unfinished: Vec<u64>,
    /// A thread asks a rule where the next task goes.
    is_asked: bool,
    /// Copies of the last task's arguments: the next one's may be the same.
    last: Vec<Option<(usize, OwnCopy)>>,
    /// Arguments of tasks that are over without a reply. They may be the last that know of an array at a server, which is
    /// let go when nothing is locked.
    spent: Vec<Arg<'static>>,
    is_closed: bool,
}

pub(super) struct Driver {
    pub inner: Arc<Inner>,
    /// Which servers get tasks, if not all.
    tied: Option<Arc<Tied>>,
    /// It was begun by a rule of placement that was asked: its tasks are placed without that.
    is_within_rule: bool,
    pub name: String,
    /// A status that is not 0 is a failure.
    status_fails: bool,
    pub state: Mutex<State>,
    pub basket: Arc<Basket>,
    began: Duration,
    /// The user's thread is here, and until when it waits.
    pub is_visited: AtomicBool,
    pub until: Mutex<Option<Instant>>,
    /// The watching thread is, with the state locked.
    pub is_attended: AtomicBool,
    /// When it left, in nanoseconds since it began.
    left: AtomicU64,
    /// Files travel, with the state locked.
    pub carries: AtomicBool,
    /// It is about to be closed.
    pub is_closing: AtomicBool,
    /// The watching thread waits for this bag.
    is_watched: AtomicBool,
    is_watching: AtomicBool,
}

/// The user's thread, while it is here.
pub(super) struct Visit<'d>(&'d Arc<Driver>);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.left.store(self.0.now(), Ordering::Relaxed);
        self.0.is_visited.store(false, Ordering::SeqCst);
        self.0.let_go();
    }
}

impl Driver {
    pub fn new(client: Client, name: &str, options: BagOptions) -> Driver {
        let rules = Rules {
            ordered: options.ordered,
            window: options.window,
            bytes: options.bytes.unwrap_or((room() / 8).min(MOST_BYTES)).max(LEAST_BYTES),
            effects: false,
            tail: options.tail,
        };
        Driver {
            inner: client.inner,
            tied: client.tied,
            is_within_rule: placement::is_asking(),
            name: name.to_owned(),
            status_fails: options.status_fails,
            state: Mutex::new(State {
                machine: Machine::new(name, rules),
                jobs: Slab::default(),
                offer: None,
                ends: Slab::default(),
                seats: Vec::new(),
                attaching: false,
                knocks: QuickMap::default(),
                looked: None,
                starved: None,
                came: Vec::new(),
                unfinished: Vec::new(),
                is_asked: false,
                last: Vec::new(),
                spent: Vec::new(),
                is_closed: false,
            }),
            basket: Arc::default(),
            began: coarse(),
            is_visited: AtomicBool::new(false),
            until: Mutex::default(),
            is_attended: AtomicBool::new(false),
            left: AtomicU64::new(0),
            carries: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            is_watching: AtomicBool::new(false),
        }
    }

    pub fn now(&self) -> Ns {
        // Never 0: what was never is long ago.
        coarse().saturating_sub(self.began).as_nanos() as Ns + 1_000_000_000
    }

    pub fn check(&self) -> Result<()> {
        self.inner.check_process()
    }

    pub fn check_open(&self) -> Result<()> {
        self.inner.check_open()
    }

    /// The service, found at the first input.
    pub fn offer(&self) -> Result<Arc<Offer>> {
        if let Some(offer) = &lock(&self.state).offer {
            return Ok(offer.clone());
        }
        let found = self.inner.find(&self.name, self.tied.as_deref(), None)?;
        let mut state = lock(&self.state);
        state.machine.set_effects(found.signature.effects());
        state.offer = Some(found.clone());
        Ok(found)
    }

    /// The user's thread is here.
    pub fn visit(self: &Arc<Self>, until: Option<Instant>) -> Result<Visit<'_>> {
        if placement::is_asking() && !self.is_within_rule {
            return Err(Error::bad(format!(
                "{}: a function of placement waits for a map that was begun outside of it, whose tasks it may have to place \
                 itself; begin a map within the function, or give that one another client",
                self.name
            )));
        }
        *lock(&self.until) = until;
        self.is_visited.store(true, Ordering::SeqCst);
        if self.is_watching.load(Ordering::SeqCst) {
            self.inner.pump.nudge();
        }
        let visit = Visit(self);
        let mut state = self.open()?;
        state.machine.visit(self.now());
        Ok(visit)
    }

    /// Takes a task: its arguments are copied, and it goes at once if there is room. `all`: they are those that are passed,
    /// not only those that go. The inner error is what is wrong with them.
    pub fn add(self: &Arc<Self>, offer: &Offer, args: Vec<Arg>, all: bool) -> Result<Result<u64>> {
        if !self.is_watched.swap(true, Ordering::SeqCst) {
            Client::of(self.inner.clone()).watch(Box::new(Attended(self.clone())))?;
        }
        // What it refers to is looked at before anything is locked: the broker may be asked.
        let home = match self.home(offer, &args) {
            Ok(home) => home,
            Err(e) => return Ok(Err(e)),
        };
        let mut state = self.taking()?;
        let index = state.machine.counts().pulled;
        let made = Job::of(index, &offer.signature, args, all, |at, arg| state.copied(&self.inner, at, arg));
        match made {
            Ok((job, bytes)) => {
                // Tasks of which nobody says what they cost are taken to be alike.
                let cost = offer.signature.cost_of(&job.given);
                let size = cost.map(Size::of_cost).unwrap_or_default();
                let index = match home {
                    None => state.machine.pulled(bytes, size),
                    Some(home) => state.pulled_for(home, bytes, size),
                };
                state.jobs.insert(index, job);
                drop(self.drive_and_ask(state));
                Ok(Ok(index))
            }
            Err(e) if e.code() == Code::Full => Err(e),
            Err(e) => Ok(Err(e)),
        }
    }

    /// The server that holds what a task refers to, if it refers to anything.
    fn home(&self, offer: &Offer, args: &[Arg]) -> Result<Option<Arc<Connection>>> {
        let Some(first) = reference::first(&self.inner, &self.name, || reference::references(args))? else {
            return Ok(None);
        };
        let mut all = self.inner.find(&self.name, None, None)?;
        let home = reference::holder(&self.inner, &mut all, &first)?;
        match all.signature == offer.signature {
            true => Ok(Some(home)),
            false => Err(losses::another(&offer.signature, &all.signature)),
        }
    }

    pub fn add_failed(&self, why: Error) -> Result<u64> {
        Ok(self.taking()?.wrong(why))
    }

    /// To take a task.
    fn taking(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.open()?;
        match state.machine.has_ended() {
            true => Err(Error::new(
                Code::Conflict,
                format!(
                    "{}: the input of this bag of tasks has ended; begin another one for more",
                    self.name
                ),
            )),
            false => Ok(state),
        }
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        // A file that travels on the watching thread may take long: whoever interrupts the user's is heard.
        while self.carries.load(Ordering::SeqCst) && self.state.try_lock().is_err() {
            self.inner.interrupted()?;
            std::thread::sleep(SOON);
        }
        let state = lock(&self.state);
        match state.is_closed {
            true => Err(closed()),
            false => Ok(state),
        }
    }

    /// Takes what has come, looks after servers, sends what goes.
    fn drive(&self, state: &mut State) {
        self.take_replies(state);
        if state.is_closed {
            return;
        }
        self.look_at_servers(state);
        self.send(state);
    }

    fn take_replies(&self, state: &mut State) {
        if !self.basket.is_any() {
            return;
        }
        let mut came = std::mem::take(&mut state.came);
        self.basket.take(&mut came);
        came.append(&mut state.unfinished);
        for index in came.drain(..) {
            let Some(mut job) = state.jobs.remove(index) else { continue };
            match job.has_rare().and_then(|rare| rare.returning.take()) {
                Some(returning) => self.bring(state, index, job, *returning),
                None => self.take_reply(state, index, job),
            }
        }
        state.came = came;
    }

    fn take_reply(&self, state: &mut State, index: u64, mut job: Job) {
        // What a server still says that was lost is no answer to what was sent after that.
        let Some(flight) = job.landed() else {
            state.jobs.insert(index, job);
            return;
        };
        let Flight { connection, pending, sent, files, .. } = flight;
        let Some(returned) = pending.take() else { return };
        spare::keep_pending(pending);
        let head = reply::head(&returned.reply);
        let timed = sent.zip(head.as_ref()).filter(|(_, head)| head.ran_ns > 0);
        let times = timed.map(|(sent, head)| Times {
            ran: head.ran_ns,
            waited: head.waited_ns,
            total: sent.elapsed().as_nanos() as Ns,
            there: head.there,
        });
        state.machine.came(index, connection.info.incarnation.0, times, self.now());
        if reply::is_not_offered(&returned.reply) && !state.machine.is_bound(index) {
            connection.free(returned.chunks);
            self.withdraw(state, connection.info.incarnation);
            state.seats.retain(|c| !Arc::ptr_eq(c, &connection));
            state.looked = None;
            state.jobs.insert(index, job);
            return state.machine.again(index);
        }
        match files {
            Some(files) if reply::found_no_room(&returned.reply) => {
                job.rare().ready = Some(*files);
                let why = reply::why_failed(&self.name, &connection.info, &returned.reply);
                connection.free(returned.chunks);
                state.jobs.insert(index, job);
                self.find_room_later(state, index, &connection, why);
            }
            Some(files) if !reply::has_failed(&returned.reply) => {
                let fetched = Fetched::default();
                self.bring(state, index, job, Returning { connection, files: *files, returned, fetched });
            }
            _ => self.replied(state, index, job, (connection, returned)),
        }
    }

    /// All that a reply to a task brings is here.
    pub fn replied(
        &self,
        state: &mut State,
        index: u64,
        mut job: Job,
        (connection, returned): (Arc<Connection>, Returned),
    ) {
        let code = reply::head(&returned.reply).map_or(u32::MAX, |head| head.code);
        let is_an_end = code == 0 || code == Code::RemoteError as u32;
        if !is_an_end && state.machine.is_under_way(index) {
            // The other server may do better.
            connection.free(returned.chunks);
            state.jobs.insert(index, job);
            return;
        }
        let offer = state.offer.as_ref().filter(|_| self.status_fails);
        let is_bad = offer.is_some_and(|offer| reply::ended_badly(&offer.signature, &returned.reply));
        let fate = if code == 0 && !is_bad { TaskFate::Done } else { TaskFate::Failed };
        job.give_up();
        state.machine.over(index, fate, job.results(&returned));
        let end = End::Reply(
            connection,
            Returned { reply: spare::compact(returned.reply), ..returned },
            job.sizes(),
        );
        state.ends.insert(index, end);
    }

    fn look_at_servers(&self, state: &mut State) {
        let is_due = state.is_due();
        if state.seats.iter().any(|c| c.lost().is_some()) {
            self.take_losses(state);
        } else if !is_due && !state.attaching {
            return;
        }
        let Some(known) = state.offer.clone() else { return };
        let offer = match is_due {
            true => self.glance(),
            false => Some(known.clone()),
        };
        if is_due {
            state.looked = Some(coarse());
        }
        // One of another signature is another service.
        let offer = offer.filter(|offer| offer.signature == known.signature);
        let servers = offer.as_ref().map_or(&[][..], |offer| &offer.servers[..]);
        // Arrays may lie at servers to which this client is not tied.
        let all = self.tied.as_ref().and_then(|_| self.inner.table.glance(&self.name));
        let all = all.filter(|all| all.signature == known.signature);
        let offered = servers.iter().chain(all.as_ref().map_or(&[][..], |all| &all.servers[..]));
        let gone: Vec<Incarnation> = state
            .seats
            .iter()
            .map(|c| c.info.incarnation)
            .filter(|i| is_due && !offered.clone().any(|s| s.incarnation == *i))
            .collect();
        for incarnation in gone {
            self.withdraw(state, incarnation);
            state.seats.retain(|c| c.info.incarnation != incarnation || c.is_busy());
        }
        state.attaching = false;
        for info in servers {
            if state.seats.iter().any(|c| c.info.incarnation == info.incarnation) {
                state.machine.offered(info);
                continue;
            }
            let knocks = state.knocks.entry(info.incarnation).or_default();
            match self.inner.connection_if_there(info, knocks.may_knock()) {
                Ok(There::Attached(connection)) => {
                    *knocks = Knocks::default();
                    state.machine.offered(info);
                    state.seats.push(connection);
                }
                Ok(There::Attaching { begun }) => {
                    knocks.count(begun);
                    state.attaching = true;
                }
                Ok(There::Nothing) => {}
                Err(Sent::Lost(_)) => self.inner.failed_behind(info),
                Err(_) => {}
            }
        }
        if let Some(offer) = offer {
            state.offer = Some(offer);
        }
        self.starve(state);
    }

    /// A server offers the service no more: tasks that need what it holds are over.
    fn withdraw(&self, state: &mut State, server: Incarnation) {
        for index in state.machine.withdrawn(server.0) {
            state.fail(index, losses::withdrawn(&self.name));
        }
    }

    fn glance(&self) -> Option<Arc<Offer>> {
        let offer = self.inner.table.glance(&self.name)?;
        match &self.tied {
            None => Some(offer),
            Some(tied) => tied.within(offer).ok(),
        }
    }

    /// Tasks fail that have waited for servers as long as there is patience.
    fn starve(&self, state: &mut State) {
        if !state.machine.is_starved() {
            state.starved = None;
            return;
        }
        let since = *state.starved.get_or_insert_with(Instant::now);
        let patience = self.inner.patience_within(None).max(PATIENCE);
        if state.attaching || since.elapsed() < patience {
            return;
        }
        let text = format!(
            "{}: all servers are gone, and none has come in {} s; start one with `forebay serve`",
            self.name,
            patience.as_secs_f64()
        );
        let mut told = None;
        for index in state.machine.give_up() {
            let deaths = self.deaths_of(state, index, &mut told);
            state.fail(index, Error::new(Code::NoServer, format!("{text}{deaths}")));
        }
    }

    /// What is to be said of the servers that died while a task ran there. `told` is the last of them of which somebody
    /// has told how it died.
    fn deaths_of(&self, state: &State, index: u64, told: &mut Option<(Incarnation, String)>) -> String {
        let deaths = state.machine.deaths(index);
        let Some((info, cause)) = state.jobs.get(index).and_then(Job::lost) else {
            return String::new();
        };
        if deaths == 0 {
            return String::new();
        }
        let how = match told {
            Some((incarnation, how)) if *incarnation == info.incarnation => how.clone(),
            _ => self.inner.with_obituary(cause.clone(), info).text().to_owned(),
        };
        *told = Some((info.incarnation, how.clone()));
        losses::running_there(deaths, &how)
    }

    fn take_losses(&self, state: &mut State) {
        let lost: Vec<Arc<Connection>> = state.seats.extract_if(.., |c| c.lost().is_some()).collect();
        for connection in lost {
            // What it answered before its end counts.
            while connection.drain() {}
            self.take_replies(state);
            self.lose(state, &connection);
        }
    }

    fn lose(&self, state: &mut State, connection: &Arc<Connection>) {
        let key = connection.info.incarnation.0;
        let cause =
            connection.lost().cloned().unwrap_or_else(|| Error::internal("a server is lost and is not"));
        self.inner.failed_behind(&connection.info);
        state.looked = None;
        let over = state.machine.lost(key, self.now());
        for (_, job) in state.jobs.iter_mut() {
            if job.take_flight(|flight| Arc::ptr_eq(&flight.connection, connection)).is_some() {
                job.rare().lost = Some((connection.info.clone(), cause.clone()));
            }
        }
        let cause = if over.is_empty() { cause } else { self.inner.with_obituary(cause, &connection.info) };
        for (index, verdict) in over {
            state.fail(index, losses::over(&self.name, verdict, &cause));
        }
    }

    /// Whether there is something to do.
    fn has_news(&self, seats: &[Arc<Connection>]) -> bool {
        self.basket.is_any() || seats.iter().any(|c| c.lost().is_some())
    }

    /// The results of a task in memory of their own.
    pub fn outcome(&self, Ended { index, end }: Ended) -> Task {
        let offer = lock(&self.state).offer.clone();
        let printed = offer.as_ref().and_then(|offer| end.printed(&offer.signature));
        let outcome = match (end, offer) {
            (End::Error(e), _) => Err(e),
            (End::Reply(..), None) => Err(Error::internal("a task has a reply and no service")),
            (End::Reply(connection, returned, sizes), Some(offer)) => {
                results(&offer.signature, &connection, returned, &sizes)
            }
        };
        Task { index, outcome, printed }
    }

    /// Its arrays where they are to be, and its values.
    pub fn outcome_into<'a>(
        &self,
        Ended { index, end }: Ended,
        places: impl FnOnce(u64) -> Result<Vec<Arg<'a>>>,
    ) -> Task<Value> {
        let (places, offer) = (places(index), lock(&self.state).offer.clone());
        let printed = offer.as_ref().and_then(|offer| end.printed(&offer.signature));
        let outcome = match (end, offer) {
            (End::Error(e), _) => Err(e),
            (End::Reply(..), None) => Err(Error::internal("a task has a reply and no service")),
            (End::Reply(connection, returned, sizes), Some(offer)) => {
                let passed = offer.signature.passed().count();
                let fit = |args: Vec<Arg<'a>>| match args.len() == passed {
                    true => Ok(args),
                    false => Err(Error::internal("the places of results are not as many as what was passed")),
                };
                match places.and_then(fit) {
                    Ok(mut args) => {
                        for (place, arg) in args.iter_mut().zip(&*sizes.args) {
                            if let Arg::Ref(..) = arg {
                                *place = arg.without_bytes();
                            }
                        }
                        reply::take(&offer.signature, &connection, returned, &mut args, |_| {})
                    }
                    Err(e) => {
                        connection.free(returned.chunks);
                        Err(e)
                    }
                }
            }
        };
        Task { index, outcome, printed }
    }

    pub fn cancel(&self, index: u64) -> bool {
        let mut state = lock(&self.state);
        let was_open = state.machine.cancel(index);
        if was_open {
            self.abandon(&mut state, index);
            let text = format!("{}: task {index} was cancelled", self.name);
            state.ends.insert(index, End::Error(Error::new(Code::Cancelled, text)));
            drop(state);
            // Another thread may wait for just that one.
            self.basket.rouse();
            self.inner.pump.nudge();
        }
        was_open
    }

    /// Lets references go that no task needs any more.
    fn let_go(&self) {
        let spent = std::mem::take(&mut lock(&self.state).spent);
        drop(spent);
    }

    fn abandon(&self, state: &mut State, index: u64) {
        if let Some(mut job) = state.jobs.remove(index) {
            job.give_up();
            state.spend(job.args);
        }
    }

    /// Nothing more is sent, and nobody waits for what was.
    pub fn close(&self) {
        // In a child of `fork` the tasks are the parent's, and locks may be held by threads that are not here.
        if self.inner.check_process().is_err() {
            return;
        }
        self.is_closing.store(true, Ordering::SeqCst);
        let mut state = lock(&self.state);
        if state.is_closed {
            return;
        }
        state.is_closed = true;
        let open: Vec<u64> = state.machine.open().collect();
        for index in open {
            state.machine.cancel(index);
            self.abandon(&mut state, index);
        }
        for end in std::mem::take(&mut state.ends).into_entries() {
            if let End::Reply(connection, returned, sizes) = end {
                connection.free(returned.chunks);
                state.spend(sizes.args);
            }
        }
        drop(state);
        self.let_go();
        if self.is_watched.load(Ordering::SeqCst) {
            self.inner.pump.nudge();
            self.inner.watcher.wake();
        }
    }
}

impl State {
    /// Whether it is time to look after the servers.
    fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| coarse().saturating_sub(looked) >= LOOK)
    }

    /// Whether calls of this client are under way at its servers.
    pub fn is_any_busy(&self) -> bool {
        self.seats.iter().any(|connection| connection.is_busy())
    }

    fn wrong(&mut self, why: Error) -> u64 {
        let index = self.machine.pulled_wrong();
        self.ends.insert(index, End::Error(why));
        index
    }

    /// A task more that needs what a server holds.
    fn pulled_for(&mut self, home: Arc<Connection>, bytes: u64, size: Size) -> u64 {
        let key = home.info.incarnation.0;
        if !self.seats.iter().any(|c| Arc::ptr_eq(c, &home)) {
            self.machine.offered_to_bound(&home.info);
            self.seats.push(home);
        }
        self.machine.pulled_for(key, bytes, size)
    }

    /// References are let go later.
    fn spend(&mut self, args: Box<[Arg<'static>]>) {
        self.spent.extend(args.into_iter().filter(|arg| matches!(arg, Arg::Ref(..))));
    }

    pub fn fail(&mut self, index: u64, why: Error) {
        if let Some(job) = self.jobs.remove(index) {
            self.spend(job.args);
        }
        self.machine.over(index, TaskFate::Failed, 0);
        self.ends.insert(index, End::Error(why));
    }

    /// A copy of an argument; the last one, if that has the same bytes from the same place.
    fn copied(&mut self, inner: &Inner, at: usize, arg: &Arg) -> Result<Option<OwnCopy>> {
        if matches!(arg, Arg::Scalar(_) | Arg::Ref(..)) {
            return Ok(None);
        }
        if self.last.len() <= at {
            self.last.resize_with(at + 1, || None);
        }
        let from = arg.origin();
        if let Some((before, kept)) = &self.last[at]
            && *before == from
            && kept.bytes() == &arg.bytes()?[..]
        {
            return Ok(Some(kept.clone()));
        }
        let kept = arg.copied(inner.copies.pool())?;
        self.last[at] = Some((from, kept.clone()));
        Ok(Some(kept))
    }
}

impl Visit<'_> {
    /// What there is to do.
    pub fn step(&self, asks: Asks) -> Result<Held> {
        let mut state = self.0.drive_and_ask(self.0.open()?);
        if state.is_closed {
            return Err(closed());
        }
        let is_ready = state.machine.has_ready();
        let wants_input = match asks {
            Asks::Early => state.machine.wants_input(),
            Asks::Soon => !is_ready && state.machine.wants_input(),
            Asks::Last => state.machine.is_idle(),
        };
        if wants_input {
            return Ok(Held::Input);
        }
        if let Some(index) = state.machine.deliver() {
            let end =
                state.ends.remove(index).ok_or_else(|| Error::internal("a task is over without an end"))?;
            return Ok(Held::Task(Ended { index, end }));
        }
        Ok(match state.machine.is_over() {
            true => Held::Over,
            false => Held::Nothing,
        })
    }

    /// What one more task finds now.
    pub fn space(&self) -> Result<Space> {
        Ok(self.0.drive_and_ask(self.0.open()?).machine.space())
    }

    /// Waits until there is something to do, at most until then.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        let (seats, soon) = {
            let state = lock(&self.0.state);
            let is_soon = state.attaching || state.machine.waits_a_moment(self.0.now());
            let soon = if is_soon { SOON } else { LOOK };
            (state.seats.clone(), soon)
        };
        let until = deadline.into_iter().chain(Instant::now().checked_add(soon)).min();
        self.0.inner.pump.wait(|| self.0.has_news(&seats), until).map(drop)
    }
}

/// The client's watching thread works on a bag while its user does something else.
struct Attended(Arc<Driver>);

impl Watched for Attended {
    fn has_news(&mut self) -> bool {
        let driver = &self.0;
        if driver.is_visited.load(Ordering::SeqCst) {
            return false;
        }
        let Ok(state) = driver.state.try_lock() else { return false };
        state.is_closed || state.is_due() || driver.has_news(&state.seats)
    }

    fn advance(&mut self) -> bool {
        let state = lock(&self.0.state);
        self.0.is_attended.store(true, Ordering::SeqCst);
        let state = self.0.drive_and_ask(state);
        self.0.is_attended.store(false, Ordering::SeqCst);
        let is_over = state.is_closed || state.machine.is_over();
        drop(state);
        self.0.let_go();
        is_over
    }

    fn rests(&self) -> Option<Duration> {
        let driver = &self.0;
        if driver.state.try_lock().is_ok_and(|state| state.is_closed) {
            return None;
        }
        let gone = Duration::from_nanos(driver.now().saturating_sub(driver.left.load(Ordering::Relaxed)));
        let rests = driver.is_visited.load(Ordering::SeqCst) || gone < SOON;
        driver.is_watching.store(!rests, Ordering::SeqCst);
        rests.then_some(SOON)
    }
}
