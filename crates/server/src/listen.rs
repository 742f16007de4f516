//! Lets clients in: greeting, their segment, the doorbells of both sides.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_host::wait::{self, PollFlags};
use forebay_link::call::{Accepted, FileLine};
use forebay_link::wire::FIRST_ASK;
use forebay_link::{Listener, Wire};
use forebay_types::call::{Attached, ServerRequest};
use forebay_types::{Code, Error, Result};

use crate::files;
use crate::peer::Peer;
use crate::poller::ClientEntry;
use crate::shared::Shared;
use forebay_host::lock;

/// Most clients of one server.
const CLIENTS: usize = 4_096;
/// Most greetings at a time; who comes then waits in the queue of the socket.
const GREETINGS: usize = 256;
/// How long a client may take to introduce itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Accepts until the server stops.
pub(crate) fn run(shared: Arc<Shared>, listener: Listener) {
    while somebody_comes(&shared, &listener) {
        match listener.accept(Some(Instant::now())) {
            Ok(Some(incoming)) => admit(&shared, move || incoming.greet("server", PATIENCE)),
            Ok(None) => {}
            // Refused users, or no descriptors left: try again when there may be some.
            Err(e) => {
                *lock(&shared.trouble) = Some(e);
                shared.nap(Duration::from_millis(50));
            }
        }
    }
}

/// Waits for a client; says whether the server goes on.
fn somebody_comes(shared: &Shared, listener: &Listener) -> bool {
    let fds = [(listener.as_fd(), PollFlags::IN), (shared.farewell.as_fd(), PollFlags::IN)];
    while !shared.stopping() {
        match wait::among(fds, None) {
            Ok([a, b]) if a.is_empty() && b.is_empty() => {}
            Ok(_) => return !shared.stopping(),
            Err(e) => {
                *lock(&shared.trouble) = Some(e);
                shared.nap(Duration::from_millis(50));
            }
        }
    }
    false
}

/// Lets one client in; a slow or silent one keeps only its own thread waiting. When there are too many of them, this
/// waits until one is through: nobody is turned away for coming with many others.
pub(crate) fn admit(shared: &Arc<Shared>, greet: impl FnOnce() -> Result<Wire> + Send + 'static) {
    while shared.greetings.load(Ordering::Relaxed) >= GREETINGS && !shared.stopping() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let there = shared.clone();
    shared.greetings.fetch_add(1, Ordering::Relaxed);
    let spawned = std::thread::Builder::new().name("greeting".into()).spawn(move || {
        // One that has gone is no trouble: it may only have looked whether somebody listens.
        if let Err(e) = greet().and_then(|wire| attach_one(&there, wire))
            && e.code() != Code::ServerLost
        {
            *lock(&there.trouble) = Some(e.within("a client could not be let in"));
        }
        there.greetings.fetch_sub(1, Ordering::Relaxed);
    });
    if spawned.is_err() {
        shared.greetings.fetch_sub(1, Ordering::Relaxed);
    }
}

fn attach_one(shared: &Arc<Shared>, mut wire: Wire) -> Result<()> {
    let message = match wire.receive(PATIENCE) {
        // Its descriptors could not be taken: it is told, lest it take this server for dead.
        Err(e) if e.code() == Code::Full => {
            let e = own_limit(shared, e);
            wire.refuse(FIRST_ASK, &e)?;
            return Err(e);
        }
        message => message?,
    };
    let id = message.id;
    let request = message.parse();
    if let Ok(ServerRequest::Files { client }) = request {
        wire.answer(id, &attached(shared), &[])?;
        return files::converse(shared, client, FileLine::over(wire));
    }
    if let Ok(ServerRequest::Arrays { client }) = request {
        return hand_arrays_over(shared, &mut wire, id, client);
    }
    let (client, accepted) = match request.and_then(|r| attach(shared, &mut wire, id, r, message.fds)) {
        Ok(accepted) => accepted,
        Err(e) => {
            wire.refuse(id, &e)?;
            return Err(e);
        }
    };
    let (sender, receiver) = accepted.begin(wire, &shared.arguments, &shared.flusher)?;
    let peer = Arc::new(Peer::new(client, sender, (shared.budget.clone(), shared.files.clone())));
    peer.beat();
    lock(&shared.peers).push(peer.clone());
    lock(&shared.newcomers).push(ClientEntry::new(peer, receiver));
    shared.touch();
    Ok(())
}

fn attached(shared: &Shared) -> Attached {
    Attached { incarnation: shared.incarnation, pid: std::process::id(), name: shared.name.clone() }
}

/// Gives a client of this host the segment of its arrays.
fn hand_arrays_over(shared: &Shared, wire: &mut Wire, id: u64, client: u64) -> Result<()> {
    let segment = match wire.net() {
        None => shared.peer(client).and_then(|peer| peer.arrays.segment()),
        Some(_) => Err(Error::bad("arrays are seen by clients of their own host only")),
    };
    match segment {
        Ok(segment) => wire.answer(id, &attached(shared), &[segment.fd()]),
        Err(e) => wire.refuse(id, &e),
    }
}

/// Agrees with a client on the link.
fn attach(
    shared: &Shared,
    wire: &mut Wire,
    id: u64,
    request: ServerRequest,
    fds: Vec<std::os::fd::OwnedFd>,
) -> Result<(u64, Accepted)> {
    let ServerRequest::Attach { client } = request else {
        return Err(Error::internal("a connection for files or arrays is no link of calls"));
    };
    if lock(&shared.peers).len() >= CLIENTS {
        return Err(Error::new(
            Code::Full,
            format!("server {:?} has {CLIENTS} clients, its limit; start another server", shared.name),
        ));
    }
    let accepted = Accepted::new(wire, fds, &shared.doorbell).map_err(|e| own_limit(shared, e))?;
    wire.answer(id, &attached(shared), &accepted.descriptors())?;
    Ok((client, accepted))
}

/// What this process lacks, said so that the client does not look for it on its own side.
fn own_limit(shared: &Shared, e: Error) -> Error {
    if e.code() != Code::Full {
        return e;
    }
    Error::new(
        Code::Full,
        format!(
            "server {:?} (pid {}) cannot let this client in, {e}; that is a limit of the server's process: start it with \
             more (`ulimit -v` for memory, `ulimit -n` for files)",
            shared.name,
            std::process::id()
        ),
    )
}
