//! Where strangers wait until they have proved themselves: one thread and one `poll` for all of
//! them, so that a thousand that say nothing keep nobody waiting.

use super::address::Address;
use super::handshake::{Door, Handshake, Step};
use super::key::Key;
use super::socket::NetSocket;
use super::tls::Identity;
use crate::wire::Wire;
use forebay_host::wait::{self, PollFlags};
use forebay_types::{Code, Error, Result};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most that wait at a time; then the one that has waited longest goes.
const WAITING: usize = 1_024;
/// How long one may take from its connection to its proof.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to listen.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where; port 0 takes any, host `*` or `0.0.0.0` all addresses of this host.
    pub address: Address,
    /// What opens the door; its certificate is made anew.
    pub key: Key,
    /// TLS also for who comes over loopback.
    pub tls_on_loopback: bool,
    /// What this process is: `agent`, `server`.
    pub role: String,
}

/// A listening socket, and all who have not proved themselves yet.
pub struct Lobby {
    listener: TcpListener,
    local: SocketAddr,
    door: Arc<Door>,
    waiting: VecDeque<Stranger>,
}

struct Stranger {
    handshake: Handshake,
    since: Instant,
    wants: PollFlags,
}

impl Lobby {
    /// Listens. `Conflict` when the port is taken.
    pub fn bind(listen: Listen) -> Result<Lobby> {
        let Listen { address, key, tls_on_loopback, role } = listen;
        let host = if address.host == "*" { "0.0.0.0" } else { &address.host };
        let at =
            (host, address.port).to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(|| {
                Error::bad(format!("the host of {address} is not known here; give an address of this host"))
            })?;
        let listener = TcpListener::bind(at).map_err(|e| match e.kind() {
            std::io::ErrorKind::AddrInUse => Error::new(
                Code::Conflict,
                format!("another process listens at {address} already; choose another port, or 0 for any"),
            ),
            std::io::ErrorKind::AddrNotAvailable => {
                Error::bad(format!("{address} is no address of this host; `ip address` shows them"))
            }
            _ => Error::io(format!("cannot listen at {address}"), e),
        })?;
        let failed = |e| Error::io(format!("cannot listen at {address}"), e);
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let identity = match tls_on_loopback || !local.ip().is_loopback() {
            true => Some(Identity::new()?),
            false => None,
        };
        let key = key.behind(identity.as_ref().map(|i| i.fingerprint));
        let door = Arc::new(Door { key, identity, tls_on_loopback, role });
        Ok(Lobby { listener, local, door, waiting: VecDeque::new() })
    }

    /// Where it listens, with the port that it got.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What opens it, with the certificate that it shows.
    pub fn key(&self) -> &Key {
        &self.door.key
    }

    /// The next connection that has proved itself, until the deadline or until `stop` can be
    /// read; then none. One that was refused is an error, after which this goes on.
    pub fn accept(&mut self, stop: Option<BorrowedFd>, deadline: Option<Instant>) -> Result<Option<Wire>> {
        loop {
            let now = Instant::now();
            // A connection that says nothing is no news: it goes without a word.
            self.waiting.retain(|s| now - s.since < PATIENCE);
            let oldest = self.waiting.front().map(|s| s.since + PATIENCE);
            let (stopped, newcomer, ready) =
                self.sleep(stop, [deadline, oldest].into_iter().flatten().min())?;
            for index in ready.into_iter().rev() {
                if let Some(wire) = self.step(index)? {
                    return Ok(Some(wire));
                }
            }
            if newcomer {
                self.let_in()?;
            }
            if stopped || deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(None);
            }
        }
    }

    /// Waits; whether to stop, whether somebody knocks, and who goes on.
    fn sleep(&self, stop: Option<BorrowedFd>, until: Option<Instant>) -> Result<(bool, bool, Vec<usize>)> {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        let strangers = self.waiting.iter().map(|s| (s.handshake.as_fd(), s.wants));
        let all = std::iter::once((self.listener.as_fd(), PollFlags::IN))
            .chain(strangers)
            .chain(stop.map(|fd| (fd, PollFlags::IN)));
        let found = wait::any(all, left)?;
        let is = |i: usize| !found[i].is_empty();
        let ready = (0..self.waiting.len()).filter(|i| is(i + 1)).collect();
        Ok((stop.is_some() && is(found.len() - 1), is(0), ready))
    }

    /// Goes on with one of them; it leaves when it is through, or refused.
    fn step(&mut self, index: usize) -> Result<Option<Wire>> {
        let stranger = &mut self.waiting[index];
        match stranger.handshake.step() {
            Ok(Step::Wait(flags)) => {
                stranger.wants = flags;
                Ok(None)
            }
            outcome => {
                let Some(stranger) = self.waiting.remove(index) else { return Ok(None) };
                let who = stranger.handshake.peer();
                let done = outcome.and_then(|_| stranger.handshake.finish());
                let (stream, peer) = done.map_err(|e| e.within(format_args!("from {who}")))?;
                Ok(Some(Wire::greeted(stream, peer)))
            }
        }
    }

    fn let_in(&mut self) -> Result<()> {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                // No descriptors left: the one that has waited longest gives its back.
                Err(e) => match self.waiting.pop_front() {
                    Some(_) => continue,
                    None => return Err(Error::io("cannot accept a connection", e)),
                },
            };
            if self.waiting.len() >= WAITING {
                self.waiting.pop_front();
            }
            // A connection that has broken already is no news either.
            let Ok(stream) = NetSocket::over(socket) else { continue };
            let handshake = Handshake::accepting(stream, self.door.clone())?;
            self.waiting.push_back(Stranger { handshake, since: Instant::now(), wants: PollFlags::IN });
        }
    }
}
