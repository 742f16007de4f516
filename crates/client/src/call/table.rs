//! The client's copy of the broker's table. A call looks here only; the broker is asked when a
//! name is missing, when a server failed, and once in a while, then behind the caller's back: the
//! server that it is connected to vouches for what is known. A broker that is gone, stopped or slow
//! changes nothing for names that are known.
//!
//! ```text
//! find: known and fresh, or a server of it lives --> the offer (and a thread asks, if it is not fresh)
//!       else                                     --> ask, then look again
//! ```
//! Whoever asks holds the way to the broker, never the table: others go on with what is known.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use forebay_host::directories;
use forebay_host::wait::Backoff;
use forebay_link::net::{Key, Network};
use forebay_link::{Locator, QuickMap, Wire};
use forebay_types::directory::{BrokerRequest, Directory, Incarnation, ServerEntry, ServerInfo};
use forebay_types::{Code, Error, Result, Signature, alike};

use super::connection::{Connection, Reach};
use super::estimate::{Estimates, Size};
use super::lock;
use super::pace::Ns;
use super::placement::{ServerView, window, window_of_time};
use super::prepared::Prepared;
use super::tied::{Only, Tied};

/// How old the table may be at a call.
const FRESH: Duration = Duration::from_secs(2);
/// How old it may be where new servers are of use at once.
const GLANCE: Duration = Duration::from_millis(300);
/// Between two attempts behind the callers' backs while no broker answers.
const RETRY: Backoff = Backoff::new(GLANCE, Duration::from_secs(16));
/// How long a broker may take for what one can do without.
const SHORT: Duration = Duration::from_millis(200);
/// How long who watches a server may take to tell how it died.
const OBITUARY: Duration = Duration::from_secs(1);
/// How long it waits when it cannot.
const LONG: Duration = Duration::from_secs(2);

/// A clock that is off by a few milliseconds and costs a fifth of the exact one.
pub(super) fn coarse() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A service and the servers that offer it.
pub(crate) struct Offer {
    pub signature: Signature,
    pub servers: Vec<Arc<ServerInfo>>,
    /// How long its calls take.
    pub estimates: Arc<Estimates>,
    /// What is known of each of them.
    seats: Vec<Seat>,
    /// When the broker told it.
    told: Duration,
    next: AtomicUsize,
}

/// A server with the calls that it has.
type Loaded = (Arc<ServerInfo>, u32);

/// A server of an offer.
#[derive(Default)]
struct Seat {
    /// The connection, once an offer has led to it.
    connection: OnceLock<Arc<Connection>>,
    /// Calls of all clients that it had, and those of this one.
    load: u32,
    mine: u32,
}

impl Offer {
    /// What one server has, announced or not.
    pub fn of(signature: Signature, server: Arc<ServerInfo>) -> Offer {
        Offer::new(signature, vec![(server, 0)], 0, None)
    }

    /// Servers with their loads; what an older offer knows of them is known of this one.
    fn new(signature: Signature, servers: Vec<Loaded>, next: usize, older: Option<&Offer>) -> Offer {
        let older = older.filter(|older| older.signature == signature);
        let seat = |(server, load): &Loaded| {
            let place =
                older.and_then(|o| o.servers.iter().position(|s| s.incarnation == server.incarnation));
            let known = place.zip(older).and_then(|(place, older)| older.seats[place].connection.get());
            let known = known.filter(|known| known.lost().is_none());
            let connection = known.cloned().map(OnceLock::from).unwrap_or_default();
            Seat { connection, load: *load, mine: known.map_or(0, |c| c.calls()) }
        };
        let seats = servers.iter().map(seat).collect();
        let estimates = older.map(|older| older.estimates.clone()).unwrap_or_default();
        let servers: Vec<Arc<ServerInfo>> = servers.into_iter().map(|(server, _)| server).collect();
        Offer { signature, servers, estimates, seats, told: coarse(), next: AtomicUsize::new(next) }
    }

    /// What of it lies at some of its servers; none if none does.
    pub fn part(&self, is_wanted: impl Fn(&ServerInfo) -> bool) -> Option<Offer> {
        let servers = self.only(is_wanted);
        (!servers.is_empty()).then(|| Offer::new(self.signature.clone(), servers, 0, Some(self)))
    }

    /// Those of its servers, with their loads.
    fn only(&self, is_wanted: impl Fn(&ServerInfo) -> bool) -> Vec<Loaded> {
        let all = self.servers.iter().zip(&self.seats);
        all.filter(|(s, _)| is_wanted(s)).map(|(s, seat)| (s.clone(), seat.load)).collect()
    }

    /// Whose turn it is, among equals.
    pub fn turn(&self) -> usize {
        match self.servers.len() {
            0 | 1 => 0,
            n => self.next.fetch_add(1, Ordering::Relaxed) % n,
        }
    }

    /// The index of the server that has fewest calls of this client for each of its workers, in turn among equals, and is
    /// not among those.
    pub fn least_busy(&self, without: &[Incarnation]) -> Option<usize> {
        if self.servers.len() == 1 && without.is_empty() {
            return Some(0);
        }
        let (n, turn) = (self.servers.len(), self.turn());
        let open = (0..n).map(|i| (turn + i) % n);
        let open = open.filter(|i| !without.contains(&self.servers[*i].incarnation));
        open.min_by_key(|i| 1_024 * self.seats[*i].calls() / self.servers[*i].workers.max(1))
    }

    /// How long a call of that size is expected to run at a server, if its service says what calls cost; else 0.
    pub fn expected(&self, server: Incarnation, size: Size) -> Ns {
        match size.cost() {
            None => 0,
            Some(_) => self.estimates.expected(server, size),
        }
    }

    /// Views of those servers for a call of that size; they may have so many more than usual.
    pub fn views(&self, order: &[usize], size: Size, more: u32) -> Vec<ServerView<'_>> {
        let halves = (coarse().saturating_sub(self.told).as_secs() / FRESH.as_secs()).min(31);
        self.estimates.look(size, |known| {
            let view = |i: &usize| {
                let (info, seat) = (&*self.servers[*i], &self.seats[*i]);
                let (expected, speed) = known(info.incarnation);
                let (workers, mine) = (info.workers.max(1), seat.calls());
                let connection = seat.connection.get().filter(|_| size.cost().is_some());
                let of_time = connection
                    .map(|c| c.with_ahead(|ahead| window_of_time(workers, mine, ahead, expected, &speed)));
                let (window, ahead) = of_time.unzip();
                ServerView {
                    info,
                    mine,
                    // Old news counts less.
                    theirs: seat.load.saturating_sub(seat.mine) >> halves,
                    window: window
                        .unwrap_or_else(|| self::window(workers, expected, &speed))
                        .saturating_add(more),
                    expected,
                    ahead,
                    is_late: false,
                }
            };
            order.iter().map(view).collect()
        })
    }

    /// Whether no call of this client is at that server.
    pub fn is_free(&self, server: usize) -> bool {
        self.seats[server].calls() == 0
    }

    /// The connection to a server of it, if one is known here that lives.
    pub fn known(&self, server: usize) -> Option<Arc<Connection>> {
        self.known_here(server).cloned()
    }

    /// That connection itself.
    #[inline]
    pub fn known_here(&self, server: usize) -> Option<&Arc<Connection>> {
        self.seats[server].connection.get().filter(|c| c.lost().is_none())
    }

    /// Notes the connection to a server of it.
    pub fn knows(&self, server: usize, connection: &Arc<Connection>) {
        let _ = self.seats[server].connection.set(connection.clone());
    }

    /// The connection to a server of it: the one known here, or what `find` finds.
    #[inline]
    pub fn connection<E>(
        &self,
        server: usize,
        find: impl FnOnce(&Arc<ServerInfo>) -> Result<Arc<Connection>, E>,
    ) -> Result<Arc<Connection>, E> {
        if let Some(connection) = self.known(server) {
            return Ok(connection);
        }
        let found = find(&self.servers[server])?;
        let _ = self.seats[server].connection.set(found.clone());
        Ok(found)
    }

    /// Whether a server of it is connected and alive: one system call each.
    fn is_alive(&self) -> bool {
        let connected = self.seats.iter().filter_map(|seat| seat.connection.get());
        connected.filter(|c| c.lost().is_none()).any(|c| {
            c.look();
            c.lost().is_none()
        })
    }
}

impl Seat {
    /// Calls of this client that are there.
    fn calls(&self) -> u32 {
        self.connection.get().map_or(0, |connection| connection.calls())
    }
}

/// The table and the way to the broker.
pub(super) struct Table {
    locator: Locator,
    /// Whoever asks holds it.
    wire: Mutex<Option<Wire>>,
    known: Mutex<BrokerView>,
    /// How long servers on other hosts may be silent, if this client says.
    silence: Mutex<Option<Duration>>,
    /// A thread asks behind the callers' backs.
    asks: AtomicBool,
    /// How often what is known has changed, and until when nobody need be asked, in nanoseconds of [`coarse`]; both are
    /// written under its lock.
    changes: AtomicU64,
    fresh_until: AtomicU64,
    /// What calls have found here lately.
    pub prepared: Prepared,
}

/// What the broker said.
struct BrokerView {
    /// What opened the door of a broker on another host.
    key: Option<Key>,
    offers: QuickMap<String, Arc<Offer>>,
    /// When it was asked last, by [`coarse`].
    asked: Duration,
    /// How long nobody asks after that, while no broker answers.
    rests: Duration,
    retry: Backoff,
    turn: usize,
    /// The broker follows one that died, and not all servers have come to it yet.
    settling: bool,
}

impl Default for BrokerView {
    fn default() -> BrokerView {
        BrokerView {
            key: None,
            offers: QuickMap::default(),
            asked: Duration::ZERO,
            rests: Duration::ZERO,
            retry: RETRY,
            turn: 0,
            settling: false,
        }
    }
}

impl BrokerView {
    /// Whether what is known is younger than that, or nobody would answer.
    fn is_fresh(&self, age: Duration, now: Duration) -> bool {
        now < self.asked + age.max(self.rests)
    }

    /// No broker has answered: the next time it is asked later.
    fn missed(&mut self) {
        self.rests = self.retry.pause();
    }

    /// What the broker answered.
    fn take(&mut self, answer: serde_json::Value) -> Result<()> {
        let directory: Directory = serde_json::from_value(answer)
            .map_err(|e| Error::new(Code::Corrupt, format!("the broker's table is not one: {e}")))?;
        self.retry.reset();
        (self.asked, self.rests) = (coarse(), Duration::ZERO);
        self.turn = self.turn.max(directory.turn as usize);
        self.settling = directory.settling;
        let now = offers(directory, &self.offers);
        let before = std::mem::replace(&mut self.offers, now);
        if self.settling {
            self.keep(before);
        }
        Ok(())
    }

    /// What a new broker lacks of the earlier table is taken to be there still.
    fn keep(&mut self, before: QuickMap<String, Arc<Offer>>) {
        for (name, old) in before {
            let Some(offer) = self.offers.get_mut(&name) else {
                self.offers.insert(name, old);
                continue;
            };
            let listed = |s: &ServerInfo| offer.servers.iter().any(|o| o.incarnation == s.incarnation);
            let lacks = old.only(|s| !listed(s));
            if offer.signature == old.signature && !lacks.is_empty() {
                let servers = offer.only(|_| true).into_iter().chain(lacks).collect();
                let next = offer.next.load(Ordering::Relaxed);
                *offer = Arc::new(Offer::new(offer.signature.clone(), servers, next, Some(&old)));
            }
        }
    }

    /// Whether one of the offers names that server.
    fn lists(&self, incarnation: Incarnation) -> bool {
        self.offers.values().any(|o| o.servers.iter().any(|s| s.incarnation == incarnation))
    }

    fn forget(&mut self, incarnation: Incarnation) {
        for offer in self.offers.values_mut() {
            let servers = offer.only(|s| s.incarnation != incarnation);
            let next = offer.next.load(Ordering::Relaxed);
            *offer = Arc::new(Offer::new(offer.signature.clone(), servers, next, Some(offer)));
        }
        self.offers.retain(|_, offer| !offer.servers.is_empty());
    }

    fn find(&self, name: &str) -> Result<Arc<Offer>> {
        self.offers.get(name).cloned().ok_or_else(|| self.nobody(name))
    }

    fn nobody(&self, name: &str) -> Error {
        let mut names: Vec<String> = self.offers.keys().cloned().collect();
        names.sort();
        let offered = match names.as_slice() {
            [] => "nothing is offered at all".to_owned(),
            few if few.len() <= 20 => format!("offered are {}", few.join(", ")),
            many => format!("offered are {} and {} more", many[..20].join(", "), many.len() - 20),
        };
        let remedy = match alike(name, &names).first() {
            // Of programs that are written in capitals.
            Some(meant) if meant.eq_ignore_ascii_case(name) => {
                format!("did you mean {meant:?}? Small letters and capitals are told apart")
            }
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "start one with `forebay serve`, or check the name".to_owned(),
        };
        Error::new(Code::NoServer, format!("no server offers {name:?}; {offered}; {remedy}"))
    }

    /// The next server in turn, of those only if some are named.
    fn server(
        &mut self,
        only: Option<&Only>,
        among: &[Incarnation],
        without: &[Incarnation],
    ) -> Option<Arc<ServerInfo>> {
        let mut servers: Vec<&Arc<ServerInfo>> = self.offers.values().flat_map(|o| &o.servers).collect();
        servers.sort_by_key(|s| s.incarnation);
        servers.dedup_by_key(|s| s.incarnation);
        let is_among = |s: &ServerInfo| among.is_empty() || among.contains(&s.incarnation);
        servers.retain(|s| {
            only.is_none_or(|only| only.is(s)) && is_among(s) && !without.contains(&s.incarnation)
        });
        let found = (*servers.get(self.turn % servers.len().max(1))?).clone();
        self.turn = self.turn.wrapping_add(1);
        Some(found)
    }
}

impl Table {
    /// Connects to the broker, starting an agent if need be, and fetches the table.
    pub fn fetch(locator: Locator) -> Result<Table> {
        let ask =
            |wire: &mut Wire| wire.ask_with(&BrokerRequest::Directory, &[], LONG).map(|(value, _)| value);
        let (wire, answer) = locator.first("client", LONG, ask)?;
        let mut known = BrokerView { key: wire.key().cloned(), ..BrokerView::default() };
        known.take(answer)?;
        let table = Table {
            locator,
            wire: Mutex::new(Some(wire)),
            known: Mutex::new(known),
            silence: Mutex::default(),
            asks: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            fresh_until: AtomicU64::new(0),
            prepared: Prepared::default(),
        };
        table.change(|_| ());
        Ok(table)
    }

    /// Changes what is known: what calls have found here holds no more.
    fn change<T>(&self, change: impl FnOnce(&mut BrokerView) -> T) -> T {
        let changed = {
            let mut known = lock(&self.known);
            let changed = change(&mut known);
            let until = known.asked + FRESH.max(known.rests);
            self.fresh_until.store(until.as_nanos() as u64, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Release);
            changed
        };
        self.prepared.clear();
        changed
    }

    /// Whether what was known after so many changes is all that there is to know.
    #[inline]
    pub fn is_as_it_was(&self, changes: u64) -> bool {
        changes == self.changes.load(Ordering::Acquire)
            && (coarse().as_nanos() as u64) < self.fresh_until.load(Ordering::Relaxed)
    }

    /// Prepares calls of a service by this thread, if it may be called at once.
    pub fn prepare(&self, name: &str, tied: Option<&Arc<Tied>>) {
        let (offer, changes) = {
            let known = lock(&self.known);
            (known.offers.get(name).cloned(), self.changes.load(Ordering::Relaxed))
        };
        let may_be = |offer: &Arc<Offer>| offer.signature.cost().is_none() && !offer.signature.has_files();
        let Some(offer) = offer.filter(may_be) else { return };
        let offer = match tied {
            None => Ok(offer),
            Some(tied) => tied.within(offer),
        };
        if let (Ok(offer), Some(mut seat)) = (offer, self.prepared.seat()) {
            seat.keep(offer, tied.cloned(), changes);
        }
    }

    fn ask(
        &self,
        way: &mut Option<Wire>,
        request: &BrokerRequest,
        timeout: Duration,
    ) -> Result<serde_json::Value> {
        if way.is_none() {
            let wire = self.locator.connect("client", timeout)?;
            lock(&self.known).key = wire.key().cloned();
            *way = Some(wire);
        }
        let wire = way.as_mut().expect("connected just now");
        let answer = wire.ask_with(request, &[], timeout).map(|(value, _)| value);
        if answer.is_err() {
            *way = None;
        }
        answer
    }

    fn refresh(&self, timeout: Duration) -> Result<()> {
        self.change(|known| known.asked = coarse());
        let mut way = lock(&self.wire);
        // A connection that broke since the last time is worth one more try at once.
        if way.as_ref().is_some_and(Wire::peer_gone) {
            *way = None;
        }
        let answer = self.ask(&mut way, &BrokerRequest::Directory, timeout);
        self.change(|known| match answer {
            Ok(answer) => known.take(answer),
            Err(e) => {
                known.missed();
                Err(e)
            }
        })
    }

    /// Asks the agent for the servers and starts an agent when there is none, for callers that lack a server: servers
    /// whose agent died announce themselves to the next one, which nobody else may start.
    fn refresh_or_start(&self, timeout: Duration) -> Result<()> {
        match self.refresh(timeout) {
            Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) => {
                let wire = self.locator.connect_or_start("client", timeout)?;
                lock(&self.known).key = wire.key().cloned();
                *lock(&self.wire) = Some(wire);
                self.refresh(timeout)
            }
            done => done,
        }
    }

    /// Asks the agent for the servers on a thread of its own, unless such a thread is at work.
    fn refresh_behind(self: &Arc<Self>) {
        self.change(|known| known.asked = coarse());
        if self.asks.swap(true, Ordering::AcqRel) {
            return;
        }
        let table = self.clone();
        let asks = move || {
            let _ = table.refresh(SHORT);
            table.asks.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("table".into()).spawn(asks).is_err() {
            self.asks.store(false, Ordering::Release);
        }
    }

    /// What is needed to reach a server of another host: the key of the broker's agent, which its
    /// servers share.
    pub fn reach(&self, server: &ServerInfo) -> Result<Reach> {
        let asked = self.locator.address()?.map(|address| address.host);
        let local = || directories::rendezvous().ok().and_then(|path| Network::read(&path)).map(|n| n.key());
        let known = lock(&self.known).key.clone();
        let key = match known {
            // It opens nothing of a server that listens for its own host only.
            None if asked.is_none() && server.listens.is_some() => local().transpose()?,
            known => known,
        };
        let said = *lock(&self.silence);
        let silence = said.map_or_else(|| self.locator.silence(), Ok)?;
        Ok(Reach { key, host: asked, transport: self.locator.transport(), silence })
    }

    /// How long servers on other hosts may be silent, of those that are reached from now on.
    pub fn allow_silence(&self, silence: Duration) {
        *lock(&self.silence) = Some(silence);
    }

    /// Whether servers that are not in the table may come to it in a moment.
    pub fn is_settling(&self) -> bool {
        lock(&self.known).settling
    }

    /// The offer of a service. `NoServer` names what is offered instead.
    pub fn find(self: &Arc<Self>, name: &str) -> Result<Arc<Offer>> {
        let (offer, is_fresh) = {
            let known = lock(&self.known);
            (known.offers.get(name).cloned(), known.is_fresh(FRESH, coarse()))
        };
        match offer {
            Some(offer) if is_fresh => Ok(offer),
            offer => self.find_anew(name, offer),
        }
    }

    /// The offer of a service as it is known, without waiting for anybody; the broker is asked behind the caller's back.
    pub fn glance(self: &Arc<Self>, name: &str) -> Option<Arc<Offer>> {
        let (offer, is_fresh) = {
            let known = lock(&self.known);
            let is_fresh = known.is_fresh(GLANCE, coarse());
            (known.offers.get(name).cloned(), is_fresh)
        };
        if !is_fresh {
            self.refresh_behind();
        }
        offer
    }

    #[cold]
    fn find_anew(self: &Arc<Self>, name: &str, offer: Option<Arc<Offer>>) -> Result<Arc<Offer>> {
        match offer {
            Some(offer) if offer.is_alive() => {
                self.refresh_behind();
                Ok(offer)
            }
            // Nobody vouches for it: it may be another one by now.
            Some(offer) => match self.refresh(SHORT) {
                Ok(()) => lock(&self.known).find(name),
                Err(_) => Ok(offer),
            },
            None => {
                self.refresh_or_start(LONG).map_err(|e| {
                    // What this process lacks itself says nothing about brokers and servers.
                    if e.code() == Code::Full {
                        return e;
                    }
                    let text = format!("nothing is known of {name:?} and no broker answers: {e}");
                    Error::new(Code::NoServer, text)
                })?;
                lock(&self.known).find(name)
            }
        }
    }

    /// The next server in turn, of those only if some are named; looks anew when there is none.
    pub fn server(
        &self,
        only: Option<&Only>,
        among: &[Incarnation],
        without: &[Incarnation],
    ) -> Result<Arc<ServerInfo>> {
        let mut found = lock(&self.known).server(only, among, without);
        if found.is_none() {
            self.refresh(LONG)?;
            found = lock(&self.known).server(only, among, without);
        }
        found.ok_or_else(|| {
            let text = match only {
                Some(only) => {
                    format!("there is no {only} to hold an array; `forebay services` lists servers")
                }
                None => "there is no server to hold an array; start one with `forebay serve`".to_owned(),
            };
            Error::new(Code::NoServer, text)
        })
    }

    /// Everything that is offered, fresh if the broker answers.
    pub fn all(&self) -> Vec<Arc<Offer>> {
        let _ = self.refresh(SHORT);
        let mut offers: Vec<_> = lock(&self.known).offers.values().cloned().collect();
        offers.sort_by(|a, b| a.signature.name().cmp(b.signature.name()));
        offers
    }

    /// Whether it is known as one that offers something.
    pub fn lists(&self, incarnation: Incarnation) -> bool {
        lock(&self.known).lists(incarnation)
    }

    /// How a server died, if who watches its process tells that in time.
    pub fn how_died(&self, incarnation: Incarnation) -> Option<String> {
        let until = Instant::now() + OBITUARY;
        loop {
            let asked = self.ask(&mut lock(&self.wire), &BrokerRequest::HowDied { incarnation }, SHORT);
            match asked.ok()? {
                serde_json::Value::String(how) => return Some(how),
                _ if Instant::now() > until => return None,
                _ => std::thread::sleep(OBITUARY / 50),
            }
        }
    }

    /// After which death a service that nobody offers was withdrawn.
    pub fn why_withdrawn(&self, service: &str) -> Option<String> {
        let asked = BrokerRequest::Withdrawn { service: service.to_owned() };
        serde_json::from_value(self.ask(&mut lock(&self.wire), &asked, SHORT).ok()?).ok()?
    }

    /// A server was found dead or stopped: out of the table, and the broker is told. What the
    /// broker says of it from now on counts again.
    pub fn failed(&self, incarnation: Incarnation) {
        if !self.lists(incarnation) {
            return;
        }
        self.change(|known| known.forget(incarnation));
        let _ = self.ask(&mut lock(&self.wire), &BrokerRequest::Failed { incarnation }, SHORT);
        let is_fresh = self.refresh(SHORT).is_ok();
        if !is_fresh || self.is_settling() {
            self.change(|known| known.forget(incarnation));
        }
    }
}

fn offers(directory: Directory, before: &QuickMap<String, Arc<Offer>>) -> QuickMap<String, Arc<Offer>> {
    let mut offers: QuickMap<String, (Signature, Vec<Loaded>)> = QuickMap::default();
    for ServerEntry { info, load } in directory.servers {
        let (info, load) = (Arc::new(info), load.running.saturating_add(load.queued));
        for text in &info.services {
            // The broker has checked it; what this version cannot read it does not call.
            let Ok(signature) = Signature::parse(text) else { continue };
            let name = signature.name().as_str().to_owned();
            offers.entry(name).or_insert((signature, Vec::new())).1.push((info.clone(), load));
        }
    }
    let next = directory.turn as usize;
    let offer = |(name, (signature, servers)): (String, (Signature, Vec<_>))| {
        let older = before.get(&name).map(|older| &**older);
        let offer = Offer::new(signature, servers, next, older);
        offer.estimates.keep(|server| offer.servers.iter().any(|s| s.incarnation == server));
        (name, Arc::new(offer))
    };
    offers.into_iter().map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_does_not_answer_is_asked_less_and_less_often_and_as_before_once_it_does() {
        let mut known = BrokerView { asked: FRESH, ..BrokerView::default() };
        let rest = |known: &BrokerView, age| {
            let is_over = |ms: &u64| !known.is_fresh(age, FRESH + Duration::from_millis(*ms));
            (0..100_000u64).step_by(10).find(is_over).unwrap()
        };
        assert_eq!((rest(&known, FRESH), rest(&known, GLANCE)), (2_000, 300));
        for expected in [300, 600, 1_200, 2_400, 4_800, 9_600, 16_000, 16_000] {
            known.missed();
            let ms = rest(&known, GLANCE);
            assert!(
                (expected * 3 / 4..=expected * 5 / 4 + 10).contains(&ms),
                "{ms} ms, not about {expected}"
            );
            assert_eq!(rest(&known, FRESH), ms.max(2_000));
        }
        known.take(serde_json::to_value(Directory::default()).unwrap()).unwrap();
        known.asked = FRESH;
        assert_eq!((rest(&known, FRESH), rest(&known, GLANCE)), (2_000, 300));
        known.missed();
        assert!(rest(&known, GLANCE) <= 385);
    }

    #[test]
    fn a_name_in_capitals_is_told_the_one_that_is_offered() {
        let mut known = BrokerView::default();
        let info = ServerInfo { services: vec!["dscal(n:i32)".into()], ..ServerInfo::default() };
        let servers = vec![ServerEntry { info, load: Default::default() }];
        known.take(serde_json::to_value(Directory { servers, ..Directory::default() }).unwrap()).unwrap();
        let text = |name| known.find(name).err().unwrap().text().to_owned();
        assert!(
            text("DSCAL").contains("did you mean \"dscal\"? Small letters and capitals"),
            "{}",
            text("DSCAL")
        );
        assert!(
            text("other").ends_with("offered are dscal; start one with `forebay serve`, or check the name")
        );
    }

    #[test]
    fn servers_take_turns_and_those_that_were_tried_are_left_out() {
        let server = |n: u64| {
            (Arc::new(ServerInfo { incarnation: Incarnation(n), workers: 1, ..ServerInfo::default() }), 0)
        };
        let servers = vec![server(1), server(2), server(3)];
        let offer = Offer::new(Signature::parse("f()").unwrap(), servers, 7, None);
        let picked: Vec<usize> = (0..4).map(|_| offer.least_busy(&[]).unwrap()).collect();
        assert_eq!(picked, [1, 2, 0, 1]);
        let tried = [Incarnation(1), Incarnation(3)];
        assert!((0..4).all(|_| offer.least_busy(&tried).unwrap() == 1));
        assert!(offer.least_busy(&[Incarnation(1), Incarnation(2), Incarnation(3)]).is_none());
    }
}
