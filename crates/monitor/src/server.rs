//! Listening, and leaving in good order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use forebay_types::control::PageLinks;
use forebay_types::{Code, Error, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use crate::http;
use crate::hub::Hub;
use crate::listen::Door;
use crate::token::Role;

/// How long pages may take to be told that we leave.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where and for whom to listen.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address; port 0 takes a free one.
    pub bind: SocketAddr,
    /// A Unix socket besides (mode 0600), for `ssh -L PORT:PATH host`.
    pub unix: Option<PathBuf>,
    /// Names under which we may be addressed besides localhost.
    pub host_names: Vec<String>,
    /// Whether an address that other machines reach is wanted. Without TLS in front, tokens then
    /// travel in the clear.
    pub network: bool,
}

impl Default for Config {
    fn default() -> Self {
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Config { bind, unix: None, host_names: Vec::new(), network: false }
    }
}

/// What all requests share.
pub(crate) struct Shared {
    pub hub: Arc<Hub>,
    pub host_names: Vec<String>,
    pub stop: watch::Receiver<bool>,
    /// Held by every socket; when only ours is left, all have gone.
    pub work: Arc<()>,
}

/// A listening monitor. Dropping it stops it.
pub struct Monitor {
    hub: Arc<Hub>,
    address: SocketAddr,
    unix: Option<PathBuf>,
    stop: watch::Sender<bool>,
    gone: Mutex<mpsc::Receiver<()>>,
    own: Option<Runtime>,
}

impl Monitor {
    /// Listens, on a thread of its own.
    pub fn start(config: Config, hub: Arc<Hub>) -> Result<Monitor> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fb-monitor")
            .on_thread_start(forebay_host::threads::work_behind)
            .enable_all()
            .build()
            .map_err(|e| Error::io("cannot start the thread of the monitor", e))?;
        let mut monitor = Monitor::start_on(runtime.handle(), config, hub)?;
        monitor.own = Some(runtime);
        Ok(monitor)
    }

    /// Listens, on a runtime that is there already.
    pub fn start_on(handle: &Handle, config: Config, hub: Arc<Hub>) -> Result<Monitor> {
        if !config.bind.ip().is_loopback() && !config.network {
            return Err(Error::new(
                Code::Refused,
                format!("{} is reached from other machines; use a loopback address and ssh -L", config.bind),
            ));
        }
        let _context = handle.enter();
        let listener = std::net::TcpListener::bind(config.bind)
            .map_err(|e| Error::io(format!("cannot listen on {}", config.bind), e))?;
        let address =
            listener.local_addr().map_err(|e| Error::io("cannot see the monitor's own address", e))?;
        let mut doors = vec![Door::tcp(listener)?];
        if let Some(path) = &config.unix {
            doors.push(Door::unix(path)?);
        }
        let (stop, stopped) = watch::channel(false);
        let (done, gone) = mpsc::channel();
        let shared =
            Shared { hub: hub.clone(), host_names: config.host_names, stop: stopped, work: Arc::new(()) };
        handle.spawn(run(doors, Arc::new(shared), done));
        Ok(Monitor { hub, address, unix: config.unix, stop, gone: Mutex::new(gone), own: None })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The runs it shows.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The links of a run's page: for the person who started the run. The operator's one is new each time and
    /// opens the page once, within minutes.
    pub fn links(&self, run: &str) -> Result<PageLinks> {
        let found = self
            .hub
            .get(run)
            .ok_or_else(|| Error::new(Code::NotFound, format!("run {run} is not shown by this monitor")))?;
        let link =
            |role| found.door.code(role).map(|code| format!("http://{}/{run}/#c={code}", self.address));
        Ok(PageLinks { operator: link(Role::Operator)?, viewer: link(Role::Viewer)? })
    }

    /// Says farewell to all pages and closes; bounded to a few seconds. Not to be called from
    /// within the runtime that it was started on.
    pub fn stop(self) {}
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        // Time over or all gone: either way we close now.
        let _ = gone.recv_timeout(FAREWELL + Duration::from_secs(1));
        drop(gone);
        if let Some(path) = &self.unix {
            let _ = std::fs::remove_file(path);
        }
        if let Some(runtime) = self.own.take() {
            runtime.shutdown_background();
        }
    }
}

async fn run(doors: Vec<Door>, shared: Arc<Shared>, done: mpsc::Sender<()>) {
    let app = http::router(shared.clone());
    let mut serving = Vec::new();
    for door in doors {
        serving.push(tokio::spawn(door.serve(app.clone(), shared.stop.clone())));
    }
    let mut stop = shared.stop.clone();
    let _ = stop.wait_for(|s| *s).await;
    let _ = tokio::time::timeout(FAREWELL, async {
        // One reference is ours; each open socket holds another.
        while Arc::strong_count(&shared.work) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for server in &mut serving {
            let _ = server.await;
        }
    })
    .await;
    serving.iter().for_each(|s| s.abort());
    let _ = done.send(());
}
