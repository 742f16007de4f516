//! What the threads of a server share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};

use forebay_link::net::Flusher;
use forebay_link::pool::Budget;
use forebay_link::{Doorbell, QuickMap};
use forebay_types::directory::{Incarnation, Listens, Load, ServerInfo};
use forebay_types::{Code, Error, Result};

use crate::peer::{Peer, lock};
use crate::poller::{Entry, Poller};
use crate::service::Service;

pub(crate) struct Shared {
    pub name: String,
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
    /// Somebody without work of his own reads from the network meanwhile.
    pub standby: AtomicBool,
    /// Those that were registered, and those of every server.
    pub services: RwLock<QuickMap<String, Arc<Service>>>,
    /// Counts the changes of that, under its lock.
    pub changes: AtomicU64,
    /// For the arrays of all clients.
    pub budget: Arc<Budget>,
    /// The leader holds it.
    pub poller: Mutex<Poller>,
    /// Whether somebody does.
    pub led: AtomicBool,
    pub doorbell: Doorbell,
    /// Clients came or went: the leader looks.
    pub changed: AtomicBool,
    pub newcomers: Mutex<Vec<Entry>>,
    pub peers: Mutex<Vec<Arc<Peer>>>,
    /// Replies wait in memory: the heart beats faster until they are out.
    pub waiting: AtomicBool,
    pub running: AtomicU32,
    /// Calls that were taken out of a ring and wait for their turn at an array.
    pub held_up: AtomicU32,
    /// Requests that waited at the last beat of the heart, for replies to tell.
    pub queued: AtomicU32,
    pub served: AtomicU64,
    stop: AtomicBool,
    /// Workers that sleep until the polling is handed to one of them.
    idle: Mutex<u32>,
    promote: Condvar,
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
        memory: u64,
    ) -> Result<Shared> {
        let mut number = [0; 8];
        getrandom::fill(&mut number)
            .map_err(|e| Error::new(Code::Io, format!("the system gives no random numbers: {e}")))?;
        services.extend(crate::own::services()?);
        Ok(Shared {
            name,
            incarnation: Incarnation(u64::from_le_bytes(number)),
            socket,
            listens: OnceLock::new(),
            farewell: Doorbell::new()?,
            greetings: AtomicUsize::new(0),
            arguments: Budget::new(memory),
            flusher: Arc::new(Flusher::new()?),
            standby: AtomicBool::new(false),
            services: RwLock::new(services),
            changes: AtomicU64::new(0),
            budget: Budget::new(memory),
            poller: Mutex::default(),
            led: AtomicBool::new(false),
            doorbell: Doorbell::new()?,
            changed: AtomicBool::new(false),
            newcomers: Mutex::default(),
            peers: Mutex::default(),
            waiting: AtomicBool::new(false),
            running: AtomicU32::new(0),
            held_up: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            served: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            idle: Mutex::new(0),
            promote: Condvar::new(),
            ticks: Mutex::new(()),
            tick: Condvar::new(),
            trouble: Mutex::new(None),
        })
    }

    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// No new work; every thread looks.
    pub fn stop(&self) {
        {
            let _order = lock(&self.ticks);
            self.stop.store(true, Ordering::SeqCst);
        }
        self.tick.notify_all();
        self.farewell.ring();
        self.doorbell.ring();
        let _order = lock(&self.idle);
        self.promote.notify_all();
    }

    /// Sleeps for that long, less when the server stops or [`Shared::hurry`] is called.
    pub fn nap(&self, time: std::time::Duration) {
        let guard = lock(&self.ticks);
        if !self.stopping() {
            drop(self.tick.wait_timeout(guard, time));
        }
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

    /// A worker that found the poller taken sleeps until somebody hands it over.
    pub fn wait_for_promotion(&self) {
        let mut idle = lock(&self.idle);
        if self.stopping() {
            return;
        }
        *idle += 1;
        // Woken for nothing, it tries to lead, fails, and comes back here.
        idle = self.promote.wait(idle).unwrap_or_else(std::sync::PoisonError::into_inner);
        *idle = idle.saturating_sub(1);
    }

    /// Hands the polling to a sleeping worker, if there is one.
    pub fn promote_one(&self) {
        if *lock(&self.idle) > 0 {
            self.promote.notify_one();
        }
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
        let held_up = self.held_up.load(Ordering::Relaxed);
        let running = self.running.load(Ordering::Relaxed).saturating_sub(held_up);
        let in_rings: u64 = lock(&self.peers).iter().map(|p| p.waiting()).sum();
        let queued = u32::try_from(in_rings).unwrap_or(u32::MAX).saturating_add(held_up);
        self.queued.store(queued, Ordering::Relaxed);
        Load { running, queued, served: self.served.load(Ordering::Relaxed) }
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
            host: forebay_arena::place::host(),
            socket: self.socket.to_string_lossy().into_owned(),
            services: texts,
            place: forebay_arena::place::here(),
            listens: self.listens.get().cloned(),
            lease_ms: match self.listens.get() {
                Some(_) => forebay_arena::place::silence().map_or(0, |s| 2 * s.as_millis() as u64),
                None => 0,
            },
        }
    }
}
