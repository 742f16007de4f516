//! What an agent and an embedded owner share: the socket, the runs, the page, the heart, and for
//! an agent the broker; and the order in which they begin and end.

use crate::diary::{Diary, Seldom};
use crate::directory::Host;
use crate::door;
use crate::heart::{self, Heart};
use crate::network;
use crate::owner::{Page, Run, Runs, Site};
use crate::page;
use crate::peers::Peers;
use crate::remote::{self, Proxies};
use crate::rendezvous::Address;
use crate::stop::Stop;
use crate::words::{AdminRequest, Status};
use forebay_arena::segments;
use forebay_host::lock;
use forebay_host::{directories, sockets};
use forebay_link::Listener;
use forebay_link::net::{Key, Network};
use forebay_monitor::{Config, Hub, Monitor, Role, RunInfo};
use forebay_types::control::PageLinks;
use forebay_types::{Code, Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long connections may take to end when the owner stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a program that has just ended may take to be noticed by who asks for the owner's end.
const ENDING: Duration = Duration::from_millis(500);

/// What all threads of an owner share.
pub struct Shared {
    /// `agent` or `run`.
    pub role: &'static str,
    /// Where it is.
    pub address: Address,
    pub broker: Option<Host>,
    pub runs: Runs,
    pub hub: Arc<Hub>,
    pub heart: Heart,
    pub stop: Stop,
    pub diary: Diary,
    pub numbers: AtomicU64,
    pub connections: AtomicUsize,
    pub peers: Arc<Peers<door::Caller>>,
    /// Looks that the heart is still to take for sockets that killed processes have left.
    pub sweeps: AtomicU32,
    /// Lines of connections that were refused.
    pub refused: Seldom,
    pub by_need: AtomicBool,
    /// Where runs of other hosts are; none are taken without it.
    pub remote_runs: Mutex<Option<PathBuf>>,
    pub proxies: Proxies,
    /// The door to other hosts, once somebody asked for one.
    pub network: Mutex<Option<network::Open>>,
    /// What opened the door of an agent that died here.
    pub inherited: Option<Key>,
    rendezvous: Option<PathBuf>,
    page: Mutex<Option<Monitor>>,
    began: Instant,
    leaving: Mutex<bool>,
    changed: Condvar,
}

impl Shared {
    /// A connection has ended.
    pub fn leave_connection(&self) {
        self.connections.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_all();
        self.heart.look_again();
    }

    /// Somebody told us to go.
    pub fn ask_to_leave(&self) {
        *lock(&self.leaving) = true;
        self.changed.notify_all();
    }

    /// Whether somebody told us to go.
    pub fn told_to_leave(&self) -> bool {
        *lock(&self.leaving)
    }

    /// Waits until told to leave or the time is over; wakes also when connections end.
    pub fn wait(&self, pause: Option<Duration>) {
        let leaving = lock(&self.leaving);
        if *leaving {
            return;
        }
        match pause {
            Some(pause) => drop(self.changed.wait_timeout(leaving, pause)),
            None => drop(self.changed.wait(leaving)),
        }
    }

    /// Whether a client, server, viewer or undrained run still counts on us.
    pub fn needed(&self) -> bool {
        self.connections.load(Ordering::Acquire) > 0
            || self.broker.as_ref().is_some_and(|b| b.needed())
            || !self.runs.live().is_empty()
            || self.hub.watching() > 0
    }

    /// Says in the rendezvous file where this owner is. Who listens for other hosts must be able to; for
    /// this one nobody looks there. The file has room for one agent of a user and host: another one that lives stays
    /// in it, unless this one alone listens.
    pub fn publish(&self) -> Result<()> {
        // One at a time: the door to other hosts may be opened while the agent still comes up.
        let network = lock(&self.network);
        let path = match &self.rendezvous {
            Some(path) => path.clone(),
            // There was no place for it when this agent came; there may be one now.
            None if network.is_some() => directories::rendezvous()?,
            None => return Ok(()),
        };
        let path = &path;
        match &*network {
            Some(_) => self.address.check_room(path)?,
            None if self.address.another_at(path).is_some() => return Ok(()),
            None => {}
        }
        match self.address.publish(path, network.as_ref().map(|open| &open.network)) {
            Err(e) if network.is_none() => {
                self.diary.line(format_args!("no other host can find this agent: {}", e.text()));
                Ok(())
            }
            done => done,
        }
    }

    /// Carries out what a person asks.
    pub fn admin(self: &Arc<Self>, request: AdminRequest) -> Result<Value> {
        let value = match request {
            AdminRequest::Status => serde_json::to_value(self.status()),
            AdminRequest::Stay => {
                self.by_need.store(false, Ordering::Release);
                Ok(Value::Null)
            }
            AdminRequest::TakeRuns { dir } => {
                *lock(&self.remote_runs) = Some(dir);
                Ok(Value::Null)
            }
            AdminRequest::Directory { addresses, run } => {
                let own = lock(&self.network).as_ref().is_some_and(|open| open.is_at(&addresses));
                let dir = own.then(|| remote::directory(self, &run)).transpose()?;
                serde_json::to_value(dir)
            }
            AdminRequest::Listen { address, tls } => {
                serde_json::to_value(network::open(self, &address, tls)?)
            }
            AdminRequest::Down { force } => return self.may_go(force).map(|()| Value::Null),
            AdminRequest::Links { run } => {
                let run = self.runs.find(Path::new(&run))?;
                serde_json::to_value(self.links(&run.id())?)
            }
            AdminRequest::Token { run, operator } => {
                let role = if operator { Role::Operator } else { Role::Viewer };
                serde_json::to_value(self.page_of(&run)?.token(role))
            }
            AdminRequest::Opened { run, link, wait_ms } => {
                let wait = Duration::from_millis(wait_ms.min(3_600_000));
                serde_json::to_value(self.page_of(&run)?.await_use(&link, wait))
            }
            AdminRequest::Steer { run, who, act, wait_ms } => {
                let run = self.runs.find(Path::new(&run))?;
                let wait = Duration::from_millis(wait_ms.min(3_600_000));
                serde_json::to_value(run.steer_and_wait(&who, act, wait)?)
            }
        };
        value.map_err(|e| Error::internal(format!("an answer cannot be written as JSON: {e}")))
    }

    fn page_of(&self, run: &str) -> Result<Arc<forebay_monitor::Run>> {
        let id = self.runs.find(Path::new(run))?.id();
        self.hub
            .get(&id)
            .ok_or_else(|| Error::new(Code::NotFound, format!("the run {run} was never opened here")))
    }

    fn may_go(&self, force: bool) -> Result<()> {
        if self.role != "agent" {
            return Err(Error::bad("this owner is part of a program and ends with it; end the program"));
        }
        if force {
            return Ok(());
        }
        let until = Instant::now() + ENDING;
        let live = self.runs.live();
        let writing = live.iter().filter(|r| r.keeps_ranks(until));
        let names: Vec<String> = writing.map(|r| r.name().to_owned()).collect();
        if !names.is_empty() {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "programs still write the runs {}; end them first, or say --force: they fail then, and nothing acknowledged is lost",
                    names.join(", ")
                ),
            ));
        }
        Ok(())
    }

    fn status(&self) -> Status {
        Status {
            role: self.role.to_owned(),
            pid: self.address.pid,
            host: self.address.host.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            socket: self.address.socket.display().to_string(),
            up_s: self.began.elapsed().as_secs_f64(),
            by_need: self.by_need.load(Ordering::Acquire),
            connections: self.connections.load(Ordering::Acquire).saturating_sub(1),
            page: lock(&self.page).as_ref().map(|m| m.address().to_string()),
            listens: lock(&self.network).as_ref().map(|open| open.answer().clone()),
            runs: self.runs.shown().iter().map(|r| r.status()).collect(),
            directory: self.broker.as_ref().map(|b| b.directory()).unwrap_or_default(),
        }
    }
}

impl Site for Shared {
    fn adopts(&self) -> bool {
        self.role == "agent"
    }

    fn diary(&self) -> Diary {
        self.diary
    }

    fn publish(&self, file: &Path) -> Result<()> {
        self.address.write(file)
    }

    fn withdraw(&self, file: &Path) {
        self.address.withdraw(file);
    }

    fn show(&self, run: &Arc<Run>, run_id: &str, program: &str) -> Result<Arc<dyn Page>> {
        let info = RunInfo {
            id: run_id.to_owned(),
            name: run.name().to_owned(),
            program: program.to_owned(),
            host: self.address.host.clone(),
        };
        page::show(&self.hub, run, info, || self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// The page is started when it is not there.
    fn links(&self, id: &str) -> Result<PageLinks> {
        let mut page = lock(&self.page);
        if page.is_none() {
            let monitor = Monitor::start(Config::default(), self.hub.clone())?;
            self.diary.line(format_args!("the page listens at {}", monitor.address()));
            *page = Some(monitor);
        }
        page.as_ref().map_or_else(|| Err(Error::internal("no page")), |m| m.links(id))
    }

    fn look_again(&self) {
        self.heart.look_again();
    }
}

/// What kind of owner.
pub struct Options {
    /// `agent` or `run`.
    pub role: &'static str,
    /// Where it listens.
    pub socket: PathBuf,
    /// The rendezvous file that says so.
    pub rendezvous: Option<PathBuf>,
    /// Whether it hosts a broker.
    pub broker: bool,
    /// Whether it takes the place of one that died.
    pub succeeds: bool,
    /// Whether it leaves when nothing needs it.
    pub by_need: bool,
    /// Its log.
    pub diary: Diary,
}

/// Where sockets lie beside that one.
pub fn dir_of(socket: &Path) -> &Path {
    socket.parent().unwrap_or(Path::new("."))
}

/// A running owner. Dropping it drains and stops it.
pub struct Service {
    shared: Arc<Shared>,
    listener: Option<Arc<Listener>>,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    /// Listens and serves.
    pub fn start(options: Options) -> Result<Service> {
        // What a dead process left of call links holds nothing that anybody misses.
        segments::sweep(segments::kind::CALL);
        sockets::sweep_sockets(dir_of(&options.socket));
        let listener = Arc::new(Listener::bind(&options.socket)?);
        let inherited = options.rendezvous.as_deref().and_then(Network::read).and_then(|n| n.key().ok());
        let stop = Stop::new()?;
        let peers = Arc::new(Peers::new()?);
        let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared {
            role: options.role,
            address: Address::ours(&options.socket),
            broker: options.broker.then(|| Host::new(options.diary, options.succeeds)),
            runs: Runs::new(me.clone()),
            hub: Hub::new(),
            heart: Heart::default(),
            sweeps: AtomicU32::new(0),
            stop,
            diary: options.diary,
            numbers: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
            peers,
            refused: Seldom::default(),
            by_need: AtomicBool::new(options.by_need),
            remote_runs: Mutex::default(),
            proxies: Proxies::default(),
            network: Mutex::new(None),
            inherited,
            rendezvous: options.rendezvous,
            page: Mutex::new(None),
            began: Instant::now(),
            leaving: Mutex::new(false),
            changed: Condvar::new(),
        });
        let mut service = Service { shared, listener: Some(listener.clone()), threads: Vec::new() };
        let theirs = service.shared.clone();
        service.spawn("fb-listen", move || door::listen(&theirs, &listener))?;
        let theirs = service.shared.clone();
        service.spawn("fb-heart", move || heart::beat(&theirs))?;
        Ok(service)
    }

    fn spawn(&mut self, name: &str, f: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(f)
            .map_err(|e| Error::io(format!("cannot start the thread {name}"), e))?;
        self.threads.push(thread);
        Ok(())
    }

    /// What its threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Serves those who have connected and were not seen yet; for who is about to leave.
    pub fn admit(&self) {
        if let Some(listener) = &self.listener {
            door::admit(&self.shared, listener);
        }
    }

    /// Gives up all runs as they are.
    pub fn abandon(&self) {
        self.shared.runs.all().iter().for_each(|run| run.abandon());
    }

    /// Drains every run and ends all threads. Nobody new is served from here on.
    pub fn stop(&mut self) {
        if self.shared.stop.given() {
            return;
        }
        self.shared.runs.end_all();
        self.shared.stop.give();
        self.shared.heart.look_again();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(open) = lock(&self.shared.network).take() {
            open.end();
        }
        // The socket's name goes with its listener.
        self.listener = None;
        drop(lock(&self.shared.page).take());
        let until = Instant::now() + FAREWELL;
        while self.shared.connections.load(Ordering::Acquire) > 0 && Instant::now() < until {
            self.shared.wait_connections(until);
        }
    }
}

impl Shared {
    fn wait_connections(&self, until: Instant) {
        let guard = lock(&self.leaving);
        let left = until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
        drop(self.changed.wait_timeout(guard, left));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rendezvous_file_is_written_by_several_threads_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let rendezvous = dir.path().join("host.json");
        let mut service = Service::start(Options {
            role: "agent",
            socket: dir.path().join("agent.sock"),
            rendezvous: Some(rendezvous.clone()),
            broker: false,
            succeeds: false,
            by_need: false,
            diary: Diary { on: false },
        })
        .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| service.shared().publish().unwrap()));
            }
        });
        assert_eq!(Address::read(&rendezvous).unwrap(), service.shared().address);
        service.stop();
    }
}
