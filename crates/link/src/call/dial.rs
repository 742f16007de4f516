//! How a client comes to a server: by its socket and a segment of this host, or through its door on another one.

use super::{Ends, memory, network, room};
use crate::net::{Address, Key, Keys};
use crate::pool::{Budget, Pool};
use crate::stream::Flusher;
use crate::watch::Watch;
use crate::wire::Wire;
use forebay_arena::{Doorbell, Segment, segments};
use forebay_host::Process;
use forebay_types::call::{Attached, ServerRequest, word};
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a server on another host may take to let a client in; its door is never busy with calls.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts at a server that closed the connection before a word: here, and on another host.
const AGAIN: Duration = Duration::from_millis(10);
const AGAIN_THERE: Duration = Duration::from_millis(20);

/// Where a client goes, and how.
pub struct Target<'a> {
    /// The server, as it was announced.
    pub server: &'a ServerInfo,
    /// The client's own number.
    pub client: u64,
    /// What wakes it.
    pub doorbell: &'a Doorbell,
    /// Whether its socket is one of this host, and is to be used.
    pub by_socket: bool,
    /// Where it listens for other hosts, and what opens that door.
    pub door: Option<(Address, Key)>,
    /// How long it may be silent on another host.
    pub silence: Duration,
    /// Sends behind the client's back.
    pub flusher: &'a Arc<Flusher>,
    /// Asked now and then whether it is worth waiting any longer.
    pub still: &'a dyn Fn(Option<Process>) -> Result<()>,
}

/// Why a client did not get in.
#[derive(Clone, Debug)]
pub struct NotLetIn {
    /// What there is to say of it.
    pub error: Error,
    /// The server has no room for it; another one may have.
    pub is_full: bool,
}

impl From<Error> for NotLetIn {
    fn from(error: Error) -> NotLetIn {
        NotLetIn { error, is_full: false }
    }
}

impl NotLetIn {
    pub(super) fn answered(error: Error) -> NotLetIn {
        NotLetIn { is_full: error.code() == Code::Full, error }
    }
}

/// Attaches a client to a server. `ServerLost` when it is gone, or another one by now.
pub fn dial(to: &Target) -> Result<Ends, NotLetIn> {
    by_either(to, by_socket, by_network)
}

/// Connects by the socket of a server, or by the network where that is not to be had.
pub(super) fn by_either<T>(
    to: &Target,
    by_socket: impl Fn(&Target) -> Result<T, NotLetIn>,
    by_network: impl Fn(&Target, &(Address, Key)) -> Result<T, NotLetIn>,
) -> Result<T, NotLetIn> {
    match &to.door {
        None if to.by_socket => by_socket(to),
        // A socket that is not to be seen from here: in a container, say.
        Some(door) if to.by_socket => by_socket(to).or_else(|e| match e.error.code() {
            Code::NotFound => by_network(to, door),
            _ => Err(e),
        }),
        Some(door) => by_network(to, door),
        None => Err(unreachable(to.server).into()),
    }
}

#[cfg(feature = "socketpair")]
fn by_socket(to: &Target) -> Result<Ends, NotLetIn> {
    let mut wire = greet(to, Path::new(&to.server.socket))?;
    let request = ServerRequest::Attach { client: to.client };
    let (answer, _) =
        wire.ask_while(&request, &[], |process| (to.still)(process)).map_err(NotLetIn::answered)?;
    agree(to.server, answer)?;
    Ok(super::by_socketpair(super::socketpair::ends(wire, &Budget::new(room()), true)?))
}

#[cfg(not(feature = "socketpair"))]
fn by_socket(to: &Target) -> Result<Ends, NotLetIn> {
    let mut wire = greet(to, Path::new(&to.server.socket))?;
    let link = memory::link(to.server.room)?;
    let request = ServerRequest::Attach { client: to.client };
    let shared = to.doorbell.share()?;
    let fds = [link.segment().fd(), shared.as_fd()];
    let (answer, theirs) =
        wire.ask_while(&request, &fds, |process| (to.still)(process)).map_err(NotLetIn::answered)?;
    agree(to.server, answer)?;
    let bell = theirs.into_iter().next();
    let bell = bell.ok_or_else(|| Error::new(Code::Corrupt, "a server has no doorbell"))?;
    link.sender.attach_doorbell(bell)?;
    let heart = Some((link.segment().clone(), word::HEARTBEAT));
    let watch = Watch::new(wire.watch_fd()?, wire.process(), heart);
    Ok(super::by_memory(memory::of_client(link, wire, watch)))
}

fn by_network(to: &Target, (address, key): &(Address, Key)) -> Result<Ends, NotLetIn> {
    let mut wire = greet_there(address, &key.clone().into())?;
    wire.bear(to.silence)?;
    let request = ServerRequest::Attach { client: to.client };
    let (answer, _) = wire.ask_with(&request, &[], PATIENCE).map_err(NotLetIn::answered)?;
    agree(to.server, answer)?;
    let pool = Pool::new(&Budget::new(room()));
    let stream = wire.into_calls()?;
    Ok(super::by_network(network::of_client(stream, pool, to.flusher.clone(), to.silence)))
}

/// Asks a server of this host for the segment in which it holds this client's arrays. One that its maker could cut short
/// is refused, as is any other segment.
pub fn dial_arrays(to: &Target) -> Result<Segment> {
    let mut wire = greet(to, Path::new(&to.server.socket))?;
    let request = ServerRequest::Arrays { client: to.client };
    let (answer, fds) = wire.ask_while(&request, &[], |process| (to.still)(process))?;
    agree(to.server, answer)?;
    let fd = fds.into_iter().next();
    let segment = Segment::from_fd_alone(fd.ok_or_else(|| Error::new(Code::Corrupt, "no segment came"))?)?;
    match segment.kind() {
        segments::kind::ARRAYS => Ok(segment),
        other => Err(Error::new(Code::Corrupt, format!("a segment of kind {other} holds no arrays"))),
    }
}

/// Greets a server. One that closes the connection before a word is at its end, which the next attempt tells, or has
/// more to greet than it can.
pub(super) fn greet(to: &Target, socket: &Path) -> Result<Wire> {
    loop {
        let mut over = false;
        let still = |process| (to.still)(process).inspect_err(|_| over = true);
        match Wire::connect_while(socket, "client", still) {
            Err(e) if e.code() == Code::ServerLost && e.cause().is_none() && !over => {
                (to.still)(None)?;
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

/// Greets one on another host. One that turns a newcomer away before a word has more to greet than it can; that it is
/// dead is known when it refuses the connection, while a host or network that is not there says nothing about it.
pub(super) fn greet_there(address: &Address, keys: &Keys) -> Result<Wire> {
    let since = Instant::now();
    loop {
        match Wire::connect_net(address, "client", keys, PATIENCE) {
            Err(e) if e.code() != Code::ServerLost || e.cause() == Some(ErrorKind::ConnectionRefused) => {
                return Err(e);
            }
            Err(e) if since.elapsed() >= PATIENCE => return Err(Error::new(Code::Timeout, e.text())),
            Err(_) => std::thread::sleep(AGAIN_THERE),
            done => return done,
        }
    }
}

/// The server is the one that was announced.
pub(super) fn agree(server: &ServerInfo, answer: serde_json::Value) -> Result<()> {
    let attached: Attached = serde_json::from_value(answer)
        .map_err(|e| Error::new(Code::Corrupt, format!("a server's answer is not one: {e}")))?;
    match attached.incarnation == server.incarnation {
        true => Ok(()),
        false => Err(Error::new(
            Code::ServerLost,
            format!("server {:?} at {} is another one by now", server.name, server.socket),
        )),
    }
}

/// The error when a server cannot be reached from here at all.
pub(super) fn unreachable(server: &ServerInfo) -> Error {
    Error::new(
        Code::Refused,
        format!(
            "server {:?} is on host {} and listens for its own host only; start the agent there with `forebay up --listen`",
            server.name, server.host
        ),
    )
}
