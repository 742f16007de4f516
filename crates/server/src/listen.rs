//! Lets clients in: greeting, their segment, the doorbells of both sides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_link::{Incoming, Listener, ShmLink, Wire};
use forebay_types::call::{Attached, ServerRequest};
use forebay_types::{Code, Error, Result};

use crate::peer::{Peer, lock};
use crate::poller::Entry;
use crate::shared::Shared;

/// Most clients of one server.
const CLIENTS: usize = 1_024;
/// Most greetings at a time.
const GREETINGS: usize = 64;
/// How long a client may take to introduce itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Accepts until the server stops.
pub(crate) fn run(shared: Arc<Shared>, listener: Listener) {
    let greetings = Arc::new(AtomicUsize::new(0));
    while !shared.stopping() {
        match listener.accept(None) {
            // The one that ends the waiting.
            Ok(_) if shared.stopping() => break,
            Ok(Some(incoming)) if greetings.load(Ordering::Relaxed) < GREETINGS => {
                let (shared, greetings) = (shared.clone(), greetings.clone());
                greetings.fetch_add(1, Ordering::Relaxed);
                // A slow or silent client keeps only its own thread waiting.
                let _ = std::thread::Builder::new().name("greeting".into()).spawn(move || {
                    if let Err(e) = greet(&shared, incoming) {
                        *lock(&shared.trouble) = Some(e.within("a client could not be let in"));
                    }
                    greetings.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(_) => {}
            // Refused users, or no descriptors left: try again when there may be some.
            Err(e) => {
                *lock(&shared.trouble) = Some(e);
                shared.nap(Duration::from_millis(50));
            }
        }
    }
}

/// Ends the waiting for clients of a server that stops.
pub(crate) fn wake(shared: &Shared) {
    let _ = std::os::unix::net::UnixStream::connect(&shared.socket);
}

fn greet(shared: &Shared, incoming: Incoming) -> Result<()> {
    let mut wire = incoming.greet("server", PATIENCE)?;
    let message = wire.receive(PATIENCE)?;
    let id = message.id;
    let attached = message.parse().and_then(|request| attach(shared, &mut wire, id, request, message.fds));
    match attached {
        Ok((client, link)) => {
            let (segment, sender, receiver) = link.split();
            let peer = Arc::new(Peer::new(client, segment, sender, wire, shared.budget.clone()));
            peer.beat();
            lock(&shared.peers).push(peer.clone());
            lock(&shared.newcomers).push(Entry { peer, receiver });
            shared.touch();
            Ok(())
        }
        Err(e) => {
            wire.refuse(id, &e)?;
            Err(e)
        }
    }
}

fn attach(
    shared: &Shared,
    wire: &mut Wire,
    id: u64,
    request: ServerRequest,
    fds: Vec<std::os::fd::OwnedFd>,
) -> Result<(u64, ShmLink)> {
    let ServerRequest::Attach { client } = request;
    let mut fds = fds.into_iter();
    let (Some(segment), Some(event)) = (fds.next(), fds.next()) else {
        return Err(Error::new(Code::Corrupt, "a client attached itself without its two descriptors"));
    };
    if lock(&shared.peers).len() >= CLIENTS {
        return Err(Error::new(
            Code::Full,
            format!("server {:?} has {CLIENTS} clients, its limit; start another server", shared.name),
        ));
    }
    let mut link = ShmLink::accept(segment)?;
    link.sender().attach_eventfd(event);
    let attached =
        Attached { incarnation: shared.incarnation, pid: std::process::id(), name: shared.name.clone() };
    let doorbell = shared.doorbell.share()?;
    wire.answer(id, &attached, &[std::os::fd::AsFd::as_fd(&doorbell)])?;
    Ok((client, link))
}
