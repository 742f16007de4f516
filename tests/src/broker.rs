//! A broker behind a socket, on threads of a test or benchmark: the smallest host there can be.
//! Whatever fails here fails the test, so it panics.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_broker::{Action, Broker, Event, Peer};
use forebay_link::net::{Key, Listen, Lobby, Network};
use forebay_link::{Listener, Wire};
use forebay_types::directory::BrokerRequest;

const SLICE: Duration = Duration::from_millis(20);

/// The broker; dropped, it is gone with all its connections.
pub struct Host {
    path: PathBuf,
    network: Option<(String, Key)>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Where connections come from.
trait Doors: Send {
    fn next(&mut self) -> Option<Wire>;
}

impl Doors for Listener {
    fn next(&mut self) -> Option<Wire> {
        self.accept_wire("agent", Some(Instant::now() + SLICE)).ok().flatten()
    }
}

impl Doors for Lobby {
    fn next(&mut self) -> Option<Wire> {
        self.accept(None, Some(Instant::now() + SLICE)).ok().flatten()
    }
}

impl Host {
    /// Listens at a path.
    pub fn start(path: &Path) -> Host {
        Host::behind(Listener::bind(path).unwrap(), path, None)
    }

    /// Listens on the network and not at a path; the port of `address` may be 0.
    pub fn listen(address: &str, key: Key, tls: bool) -> Host {
        let listen =
            Listen { address: address.parse().unwrap(), key, tls_on_loopback: tls, role: "agent".to_owned() };
        let lobby = Lobby::bind(listen).unwrap();
        let address = format!("fb://{}", lobby.local());
        let network = Some((address, lobby.key().clone()));
        Host::behind(lobby, Path::new(""), network)
    }

    fn behind(doors: impl Doors + 'static, path: &Path, network: Option<(String, Key)>) -> Host {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || accept(doors, stopped));
        Host { path: path.to_owned(), network, stop, thread: Some(thread) }
    }

    /// Its address on the network, and what opens its door.
    pub fn network(&self) -> &(String, Key) {
        self.network.as_ref().unwrap()
    }

    /// What its rendezvous file says of the network.
    pub fn rendezvous(&self) -> Network {
        let (address, key) = self.network();
        key.network(address.strip_prefix("fb://").unwrap())
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn accept(mut doors: impl Doors, stop: Arc<AtomicBool>) {
    let broker = Arc::new(Mutex::new(Broker::new()));
    let began = Instant::now();
    let mut threads = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        broker.lock().unwrap().handle(began.elapsed().as_nanos() as u64, Event::Tick);
        let Some(wire) = doors.next() else { continue };
        number += 1;
        let (peer, broker, stop) = (Peer(number), broker.clone(), stop.clone());
        threads.push(std::thread::spawn(move || serve(wire, peer, broker, stop, began)));
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
}

fn serve(mut wire: Wire, peer: Peer, broker: Arc<Mutex<Broker>>, stop: Arc<AtomicBool>, began: Instant) {
    let now = || began.elapsed().as_nanos() as u64;
    while !stop.load(Ordering::SeqCst) {
        let message = match wire.receive(SLICE) {
            Ok(message) => message,
            Err(e) if e.code() == forebay_types::Code::Timeout => continue,
            Err(_) => break,
        };
        let request: BrokerRequest = message.parse().unwrap();
        let actions = broker.lock().unwrap().handle(now(), Event::Request { peer, request });
        for action in actions {
            if let Action::Answer { answer, .. } = action {
                let _ = wire.reply(message.id, &answer);
            }
        }
    }
    broker.lock().unwrap().handle(now(), Event::Lost { peer });
}
