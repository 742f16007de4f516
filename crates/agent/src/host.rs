//! The agent as a process: what `forebay up --by-need` and `forebay up --foreground` do.

use crate::ask;
use crate::diary::Diary;
use crate::network;
use crate::rendezvous::Address;
use crate::service::{Options, Service, Shared};
use crate::start::{Gate, Reign};
use forebay_host::lock;
use forebay_host::{directories, parent, rlimits, sockets, threads};
use forebay_types::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Which agent serves, in the runtime directory: who finds one there that is dead takes its place.
const AGENT: &str = "agent.json";
/// An agent started by need leaves after so long with nothing to do.
const IDLE: Duration = Duration::from_secs(10);

/// How an agent is run.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// It leaves by itself when nothing needs it.
    pub by_need: bool,
    /// It becomes the leader of a session of its own, with nothing inherited.
    pub detach: bool,
    /// Where runs of other hosts are, absolute; none are taken without it.
    pub runs: Option<std::path::PathBuf>,
    /// It listens for other hosts there.
    pub listen: Option<String>,
    /// With TLS over loopback too.
    pub tls: bool,
}

/// Runs an agent in this process until it is told to go, by `forebay down` or a signal, or until
/// nothing needs it. To be called before this process has opened anything.
pub fn host(options: HostOptions) -> Result<()> {
    if options.detach {
        parent::detach_from_parent()?;
    }
    threads::work_behind();
    rlimits::raise_files();
    let dir = directories::runtime_dir()?;
    let _reign = Reign::take(&dir)?;
    let diary = Diary { on: true };
    // Only other hosts need to find it there: on this one there is the socket.
    let rendezvous = directories::rendezvous()
        .map_err(|e| diary.line(format_args!("no other host can find this agent: {}", e.text())))
        .ok();
    // Who leaves takes its address along.
    let own = dir.join(AGENT);
    let before = Address::read(&own);
    let mut service = Service::start(Options {
        role: "agent",
        socket: sockets::agent_socket()?,
        rendezvous: rendezvous.clone(),
        broker: true,
        // One that left in order took its address along, and its servers come here now.
        succeeds: before.is_some() || ask::servers_live(),
        by_need: options.by_need,
        diary,
    })?;
    let shared = service.shared().clone();
    *lock(&shared.remote_runs) = options.runs.clone();
    diary.line(format_args!("agent {} listens at {}", shared.address.pid, shared.address.socket.display()));
    match (&options.listen, &before) {
        (Some(address), _) => drop(network::open(&shared, address, options.tls)?),
        (None, Some(before)) => network::open_again(&shared, before),
        (None, None) => {}
    }
    shared.publish()?;
    shared.address.write(&own)?;
    heed_signals(&shared)?;
    let gate = stay(&service, &shared, &dir)?;
    diary.line("agent drains and leaves");
    let rendezvous = rendezvous.or_else(|| directories::rendezvous().ok());
    leave(&mut service, &shared.address, &[Some(own), rendezvous]);
    drop(gate);
    diary.line("agent has left");
    Ok(())
}

fn leave(service: &mut Service, address: &Address, files: &[Option<PathBuf>]) {
    files.iter().flatten().for_each(|path| address.withdraw(path));
    service.stop();
}

/// Returns when it is time to go; under the gate when nobody told us, so that whoever wants an
/// agent now starts another one.
fn stay(service: &Service, shared: &Arc<Shared>, dir: &Path) -> Result<Option<Gate>> {
    let mut idle_since = Instant::now();
    loop {
        if shared.told_to_leave() {
            return Ok(None);
        }
        if !shared.by_need.load(Ordering::Acquire) {
            shared.wait(None);
            idle_since = Instant::now();
            continue;
        }
        if shared.needed() {
            idle_since = Instant::now();
            shared.wait(Some(Duration::from_secs(1)));
            continue;
        }
        let idle = idle_since.elapsed();
        if idle < IDLE {
            shared.wait(Some(IDLE - idle));
            continue;
        }
        let gate = Gate::open(dir)?;
        if gate.try_take()? {
            service.admit();
            if !shared.needed() {
                shared.diary.line("nothing needs the agent any more");
                return Ok(Some(gate));
            }
        }
        drop(gate);
        idle_since = Instant::now();
    }
}

/// How long ranks may take to end when the agent got SIGTERM, unless it gets another signal.
const ENDING: Duration = Duration::from_secs(60);

/// SIGINT and SIGHUP mean what `forebay down --force` means. SIGTERM comes to all processes of a job: ranks that
/// are connected save and end meanwhile, and then it means the same.
fn heed_signals(shared: &Arc<Shared>) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |e| Error::io("cannot listen for signals", e);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    let (mut term, mut int, mut hup) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).map_err(failed);
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?)
    };
    let shared = shared.clone();
    std::thread::Builder::new()
        .name("fb-signals".into())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = term.recv() => (),
                    _ = int.recv() => return,
                    _ = hup.recv() => return,
                }
                shared.diary.line("told to go by SIGTERM, when the ranks have ended");
                let ranks = async {
                    while shared.runs.live().iter().any(|r| r.has_ranks()) {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                };
                tokio::select! {
                    _ = tokio::time::timeout(ENDING, ranks) => (),
                    _ = term.recv() => (),
                    _ = int.recv() => (),
                    _ = hup.recv() => (),
                }
            });
            shared.diary.line("told to go by a signal");
            shared.ask_to_leave();
        })
        .map(drop)
        .map_err(|e| Error::io("cannot start a thread", e))
}
