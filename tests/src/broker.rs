//! A broker behind a socket, on threads of a test or benchmark: the smallest host there can be.
//! Whatever fails here fails the test, so it panics.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_broker::{Action, Broker, Event, Peer};
use forebay_link::{Listener, Wire};
use forebay_types::directory::BrokerRequest;

const SLICE: Duration = Duration::from_millis(20);

/// The broker; dropped, it is gone with all its connections.
pub struct Host {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Listens at a path.
    pub fn start(path: &Path) -> Host {
        let listener = Listener::bind(path).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || accept(listener, stopped));
        Host { path: path.to_owned(), stop, thread: Some(thread) }
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

fn accept(listener: Listener, stop: Arc<AtomicBool>) {
    let broker = Arc::new(Mutex::new(Broker::new()));
    let began = Instant::now();
    let mut threads = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        broker.lock().unwrap().handle(began.elapsed().as_nanos() as u64, Event::Tick);
        let Ok(Some(wire)) = listener.accept_wire("agent", Some(Instant::now() + SLICE)) else { continue };
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
