//! What the threads of a server share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use std::thread::JoinHandle;

use forebay_arena::Doorbell;
use forebay_host::fork::own_pid;
use forebay_host::output::Output;
use forebay_host::rlimits;
use forebay_link::QuickMap;
use forebay_link::call::Flusher;
use forebay_link::pool::Budget;
use forebay_types::directory::{Incarnation, Listens, Load, ServerInfo};
use forebay_types::usage::Usage;
use forebay_types::{Code, Error, Result};

use crate::crew::{Crew, SPARES, Spare};
use crate::files::Files;
use crate::parked::Ready;
use crate::peer::Peer;
use crate::poller::{ClientEntry, Poller};
use crate::printing::Printing;
use crate::service::Service;
use crate::worker;
use forebay_host::lock;

/// Into how many parts a limited address space goes: one for each client that may be there at a time.
const SHARES: u64 = 64;

pub(crate) struct Shared {
    /// Somebody watches this process, who tells the broker how it died.
    pub supervised: bool,
    /// What this process prints, if that is kept.
    pub printing: Option<Printing>,
    pub name: String,
    /// The process whose server it is: a child of `fork` has a copy.
    pub pid: u32,
    pub incarnation: Incarnation,
    pub socket: std::path::PathBuf,
    /// Where it listens for other hosts.
    pub listens: OnceLock<Listens>,
    /// Can be read once the server stops.
    pub farewell: Doorbell,
    /// Clients that introduce themselves.
    pub greetings: AtomicUsize,
    /// For the arguments that come over the network.
    pub arguments: Arc<Budget>,
    /// Sends what sockets did not take at once.
    pub flusher: Arc<Flusher>,
    /// Those that were registered, and those of every server.
    pub services: RwLock<QuickMap<String, Arc<Service>>>,
    /// Counts the changes of that, under its lock.
    pub changes: AtomicU64,
    /// Files of calls.
    pub files: Arc<Files>,
    /// For the arrays of all clients.
    pub budget: Arc<Budget>,
    /// The most that one client may have mapped here; 0: no limit.
    room: u64,
    /// The workers; the leader of them holds the poller.
    pub crew: Crew<Poller>,
    /// Workers beyond those that the server was started with.
    pub spares: Mutex<Vec<JoinHandle<()>>>,
    pub doorbell: Doorbell,
    /// Clients came or went: the leader looks.
    pub changed: AtomicBool,
    pub newcomers: Mutex<Vec<ClientEntry>>,
    pub peers: Mutex<Vec<Arc<Peer>>>,
    /// Replies wait in memory: the heart beats faster until they are out.
    pub waiting: AtomicBool,
    /// Calls that were taken out of a ring and have had to wait for their turn at an array.
    pub ready: Ready,
    /// Requests that waited at the last beat of the heart, for replies to tell.
    pub queued: AtomicU32,
    /// Replies of each worker that there ever was.
    pub served: Mutex<Vec<Arc<AtomicU64>>>,
    /// Sleep of the threads that do something now and then.
    ticks: Mutex<()>,
    tick: Condvar,
    /// What went wrong behind the scenes, for who asks.
    pub trouble: Mutex<Option<Error>>,
}

impl Shared {
    pub fn new(
        name: String,
        socket: std::path::PathBuf,
        mut services: QuickMap<String, Arc<Service>>,
        workers: u32,
        (memory, files): (u64, Files),
        (supervised, output): (bool, Option<Arc<Output>>),
    ) -> Result<Shared> {
        let mut number = [0; 8];
        getrandom::fill(&mut number)
            .map_err(|e| Error::new(Code::Io, format!("the system gives no random numbers: {e}")))?;
        services.extend(crate::own::services()?);
        Ok(Shared {
            name,
            pid: own_pid(),
            supervised,
            printing: output.map(Printing::new),
            // Of 53 bits: whoever reads it as a number of JSON has it whole.
            incarnation: Incarnation(u64::from_le_bytes(number) >> 11),
            socket,
            listens: OnceLock::new(),
            farewell: Doorbell::new()?,
            greetings: AtomicUsize::new(0),
            arguments: Budget::new(memory),
            flusher: Arc::default(),
            services: RwLock::new(services),
            changes: AtomicU64::new(0),
            files: Arc::new(files),
            budget: Budget::new(memory),
            room: rlimits::address_space_left().map_or(0, |left| left / SHARES),
            crew: Crew::new(workers, SPARES, Poller::default()),
            spares: Mutex::default(),
            doorbell: Doorbell::new()?,
            changed: AtomicBool::new(false),
            newcomers: Mutex::default(),
            peers: Mutex::default(),
            waiting: AtomicBool::new(false),
            ready: Ready::default(),
            queued: AtomicU32::new(0),
            served: Mutex::default(),
            ticks: Mutex::new(()),
            tick: Condvar::new(),
            trouble: Mutex::new(None),
        })
    }

    pub fn stopping(&self) -> bool {
        self.crew.stopping()
    }

    /// Whether it stops, and nothing is left to be served nor can come from a service of its own.
    pub fn is_over(&self) -> bool {
        self.crew.is_over() && self.ready.is_empty()
    }

    /// No new work; every thread looks.
    pub fn stop(self: &Arc<Shared>) {
        let spare = {
            let _order = lock(&self.ticks);
            self.crew.stop()
        };
        self.start(spare);
        self.tick.notify_all();
        self.farewell.ring();
        self.doorbell.ring();
    }

    /// A body is about to wait for a call of its own. False when nobody serves meanwhile.
    pub fn leave(self: &Arc<Shared>) -> bool {
        self.start(self.crew.leave())
    }

    /// It goes on. Who leads while the server stops may have waited for just that.
    pub fn come_back(&self) {
        self.crew.come_back();
        if self.stopping() {
            self.doorbell.ring();
        }
    }

    /// Starts who is to stand in; false when nobody serves.
    fn start(self: &Arc<Shared>, spare: Spare) -> bool {
        let there = self.clone();
        let run: Box<dyn FnOnce() + Send> = match spare {
            Spare::Nobody => return true,
            Spare::None => return false,
            Spare::Serves => Box::new(move || worker::run(there)),
            Spare::Refuses => Box::new(move || worker::refuse(there)),
        };
        match std::thread::Builder::new().name("spare".into()).spawn(run) {
            Ok(thread) => {
                lock(&self.spares).push(thread);
                true
            }
            Err(e) => {
                let text = format!("cannot start a thread in the place of one that waits (of {SPARES})");
                *lock(&self.trouble) = Some(rlimits::no_thread(&text, e));
                self.crew.gone()
            }
        }
    }

    /// Why a body is not to wait for a call of its own when nobody serves meanwhile.
    #[cold]
    pub fn alone(&self) -> Error {
        let threads = self.crew.running();
        Error::new(
            Code::Full,
            format!(
                "all {threads} threads of server {:?} wait for calls of their own and no more can be had (limit {SPARES} \
                 beside its workers, less if the system starts none): services call each other too deep, for too many \
                 callers at a time; call in smaller numbers, or start another server for the services that are called",
                self.name
            ),
        )
    }

    /// Sleeps for that long, less when the server stops or [`Shared::hurry`] is called.
    pub fn nap(&self, time: std::time::Duration) {
        let guard = lock(&self.ticks);
        if !self.stopping() {
            drop(self.tick.wait_timeout(guard, time));
        }
    }

    /// Whether a client is there, by the link of its calls.
    pub fn has(&self, client: u64) -> bool {
        lock(&self.peers).iter().any(|peer| peer.client == client && !peer.is_gone())
    }

    /// A client that is there, by the link of its calls: the one that came last, if it has come again.
    pub fn peer(&self, client: u64) -> Result<Arc<Peer>> {
        let peers = lock(&self.peers);
        let found = peers.iter().rfind(|peer| peer.client == client && !peer.is_gone());
        found
            .cloned()
            .ok_or_else(|| Error::new(Code::NotFound, format!("no client {client} is attached here")))
    }

    /// Wakes the threads that nap.
    pub fn hurry(&self) {
        let _order = lock(&self.ticks);
        self.tick.notify_all();
    }

    /// Tells the leader that clients came or went.
    pub fn touch(&self) {
        self.changed.store(true, Ordering::SeqCst);
        self.doorbell.ring();
    }

    pub fn service(&self, name: &str) -> Result<Arc<Service>> {
        let services = self.services.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        services.get(name).cloned().ok_or_else(|| {
            let offered = services.iter().filter(|(_, s)| !s.is_own()).map(|(name, _)| name.as_str());
            let mut offered: Vec<&str> = offered.collect();
            offered.sort();
            Error::new(
                Code::NoServer,
                format!("server {:?} offers no {name:?}; it offers {}", self.name, offered.join(", ")),
            )
        })
    }

    pub fn load(&self) -> Load {
        let parked = self.ready.parked();
        let running = self.crew.running();
        let in_rings: u64 = lock(&self.peers).iter().map(|p| p.waiting()).sum();
        let queued = u32::try_from(in_rings).unwrap_or(u32::MAX).saturating_add(parked);
        self.queued.store(queued, Ordering::Relaxed);
        let served = lock(&self.served).iter().map(|replies| replies.load(Ordering::Relaxed)).sum();
        Load { running, queued, served }
    }

    /// What the services that were registered have done, those that were called.
    pub fn usage(&self) -> Vec<(String, Usage)> {
        let services = self.services.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let offered = services.iter().filter(|(_, s)| !s.is_own());
        offered.map(|(name, s)| (name.clone(), s.usage())).filter(|(_, usage)| usage.calls > 0).collect()
    }

    pub fn info(&self) -> ServerInfo {
        let services = self.services.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let offered = services.values().filter(|s| !s.is_own());
        let mut texts: Vec<String> = offered.map(|s| s.signature.to_string()).collect();
        texts.sort();
        ServerInfo {
            name: self.name.clone(),
            incarnation: self.incarnation,
            pid: std::process::id(),
            host: forebay_host::identity::host(),
            socket: self.socket.to_string_lossy().into_owned(),
            services: texts,
            place: forebay_host::identity::here(),
            listens: self.listens.get().cloned(),
            lease_ms: match self.listens.get() {
                Some(_) => forebay_host::environment::silence().map_or(0, |s| 2 * s.as_millis() as u64),
                None => 0,
            },
            room: self.room,
            workers: self.crew.places(),
            supervised: self.supervised,
        }
    }
}
