//! A server from its making to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use forebay_host::fork::own_pid;
use forebay_host::output::Output;
use forebay_host::{directories, rlimits, sockets};
use forebay_link::net::Address;
use forebay_link::{Listener, Locator, QuickMap};
use forebay_types::directory::{Incarnation, Load, SERVICES};
use forebay_types::held::OWN;
use forebay_types::{Code, Error, Result, Signature};

use crate::announce::Announcer;
use crate::call::Call;
use crate::files::Files;
use crate::service::{Body, Service};
use crate::shared::Shared;
use crate::{heart, listen, network, worker};
use forebay_host::lock;

/// Most workers of one server.
pub const WORKERS: usize = 256;

/// A server that has not started yet: its services, by and by.
pub struct Server {
    name: String,
    workers: usize,
    memory: u64,
    scratch: Option<(PathBuf, u64)>,
    listen: Option<Address>,
    supervised: bool,
    output: Option<Arc<Output>>,
    services: QuickMap<String, Arc<Service>>,
}

/// A server that runs. Dropping it stops it.
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The process that started it.
    pid: u32,
}

impl Server {
    /// A server of that name, for people; it has one worker, so requests are served one after
    /// the other in the order of their coming.
    pub fn new(name: &str) -> Server {
        Server {
            name: name.to_owned(),
            workers: 1,
            memory: half_of_all(),
            scratch: None,
            listen: None,
            supervised: false,
            output: None,
            services: QuickMap::default(),
        }
    }

    /// So many requests may be served at a time.
    pub fn workers(mut self, workers: usize) -> Server {
        self.workers = workers.clamp(1, WORKERS);
        self
    }

    /// Holds arrays of its clients up to so many bytes; half of the machine's memory if this is not
    /// said.
    pub fn memory(mut self, bytes: u64) -> Server {
        self.memory = bytes;
        self
    }

    /// Keeps files of calls in that directory, up to so many bytes; 10 GiB in the system's directory for temporary files if
    /// this is not said. What a server that was killed has left there is removed at the start.
    pub fn scratch(mut self, dir: &Path, bytes: u64) -> Server {
        self.scratch = Some((dir.to_owned(), bytes));
        self
    }

    /// Somebody watches this process, who tells the broker how it died.
    pub fn supervised(mut self) -> Server {
        self.supervised = true;
        self
    }

    /// Calls that fail bring what their process has printed meanwhile: this is its output.
    pub fn output(mut self, output: Arc<Output>) -> Server {
        self.output = Some(output);
        self
    }

    /// Listens for clients of other hosts at that address of this host (`tcp://HOST:PORT`). Without
    /// this it does so when its broker is on another host or its agent listens, at any port.
    pub fn listen(mut self, address: &str) -> Result<Server> {
        self.listen = Some(address.parse()?);
        Ok(self)
    }

    /// Offers a service: its signature and what runs.
    pub fn service(
        mut self,
        signature: &str,
        body: impl Fn(&mut Call) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Server> {
        self.add(Signature::parse(signature)?, Box::new(body))?;
        Ok(self)
    }

    /// Offers a service.
    pub fn add(&mut self, signature: Signature, body: Box<Body>) -> Result<()> {
        insert(&mut self.services, signature, body)
    }

    /// Starts it: from now on it listens, works and is announced. When this returns, clients of
    /// the broker find it.
    pub fn start(self, broker: Locator) -> Result<Running> {
        rlimits::raise_files();
        let files = Files::new(&self.name, self.scratch)?;
        // Servers that were killed where no agent was have left theirs.
        sockets::sweep_sockets(&directories::runtime_dir()?);
        let listener = sockets::at_free_socket("server", Listener::bind)?;
        let socket = listener.path().to_owned();
        let shared = Arc::new(Shared::new(
            self.name,
            socket,
            self.services,
            self.workers as u32,
            (self.memory, files),
            (self.supervised, self.output),
        )?);
        let wire = Announcer::connect(&broker)?;
        let door = network::open(self.listen.as_ref(), &broker, &wire)?;
        let mut running = Running { shared: shared.clone(), threads: Vec::new(), pid: own_pid() };
        let there = shared.clone();
        running.spawn("listen", move || listen::run(there, listener))?;
        let there = shared.clone();
        running.spawn("heart", move || heart::run(there))?;
        for _ in 0..self.workers {
            let there = shared.clone();
            running.spawn("worker", move || worker::run(there))?;
        }
        if let Some((lobby, listens)) = door {
            let _ = shared.listens.set(listens);
            let there = shared.clone();
            running.spawn("network", move || network::run(there, lobby))?;
        }
        // Last, since who is announced may be called at once.
        let announcer = Announcer::start(&shared, broker, wire)?;
        running.spawn("announce", move || announcer.run(shared))?;
        Ok(running)
    }
}

fn insert(
    services: &mut QuickMap<String, Arc<Service>>,
    signature: Signature,
    body: Box<Body>,
) -> Result<()> {
    if services.len() >= SERVICES {
        return Err(Error::new(
            Code::Full,
            format!("a server offers at most {SERVICES} services; start another"),
        ));
    }
    let name = signature.name().as_str().to_owned();
    if name.starts_with(OWN) {
        return Err(Error::bad(format!(
            "{name:?}: names that begin with {OWN:?} are Forebay's; choose another"
        )));
    }
    if services.contains_key(&name) {
        return Err(Error::new(Code::Conflict, format!("{name:?} is offered already; give it another name")));
    }
    services.insert(name, Arc::new(Service::new(signature, body)));
    Ok(())
}

fn half_of_all() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1))) / 2
}

impl Running {
    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(run)
            .map_err(|e| Error::io("cannot start a thread of the server", e))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// This life of it.
    pub fn incarnation(&self) -> Incarnation {
        self.shared.incarnation
    }

    /// Where clients attach themselves.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// Where clients of other hosts attach themselves: `HOST:PORT`, host `*` for that of the broker.
    pub fn listens(&self) -> Option<&str> {
        self.shared.listens.get().map(|l| l.address.as_str())
    }

    /// How busy it is.
    pub fn load(&self) -> Load {
        self.shared.load()
    }

    /// The last trouble behind the scenes (a broker that does not answer), while it lasts.
    pub fn trouble(&self) -> Option<Error> {
        lock(&self.shared.trouble).clone()
    }

    /// Whether the calling thread is one of its own, as that of a service is.
    pub fn runs_this_thread(&self) -> bool {
        worker::works_for(&self.shared)
    }

    /// Offers one more service; the broker learns of it at once.
    pub fn add(&self, signature: Signature, body: Box<Body>) -> Result<()> {
        let mut services = self.shared.services.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        insert(&mut services, signature, body)?;
        self.shared.changes.fetch_add(1, Ordering::SeqCst);
        drop(services);
        self.shared.hurry();
        Ok(())
    }

    /// Offers a service no more.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut services = self.shared.services.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let offered = !name.starts_with(OWN);
        offered
            .then(|| services.remove(name))
            .flatten()
            .ok_or_else(|| Error::new(Code::NotFound, format!("{name:?} is not offered here")))?;
        self.shared.changes.fetch_add(1, Ordering::SeqCst);
        drop(services);
        self.shared.hurry();
        Ok(())
    }

    /// Stops gracefully: leaves the broker, ends what it began and what had come, lets go.
    pub fn stop(mut self) {
        self.end();
    }

    /// Asks it to stop without waiting for that; for signal handlers' threads. Its socket has no name from now on,
    /// so that a process that ends before its threads have leaves none behind.
    pub fn ask_to_stop(&self) {
        if !self.is_child() {
            let first = !self.shared.stopping();
            self.shared.stop();
            if first {
                let _ = std::fs::remove_file(self.socket());
            }
        }
    }

    /// Waits until it was asked to stop and has.
    pub fn wait(mut self) {
        self.join();
    }

    fn end(&mut self) {
        self.ask_to_stop();
        self.join();
    }

    /// After `fork` its threads, doorbells and connections are the parent's.
    fn is_child(&self) -> bool {
        own_pid() != self.pid
    }

    fn join(&mut self) {
        if self.is_child() {
            return self.threads.drain(..).for_each(std::mem::forget);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Each of them may have started the next.
        while let Some(thread) = { lock(&self.shared.spares).pop() } {
            let _ = thread.join();
        }
        self.shared.files.close();
        // Closing the connections tells the clients.
        lock(&self.shared.peers).clear();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
