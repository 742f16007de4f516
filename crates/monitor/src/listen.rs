//! The doors: a loopback port and a Unix socket. Who comes in has a place, and a few seconds to say what it wants.
//!
//! ```text
//!  accept --whose is it?--> a place of its own kind --> headers within 5 s --> the router
//!                             none left: closed at once
//! ```
//!
//! Other users of the host reach a loopback port, too. They have places of their own, so that nothing they do
//! takes one from who owns the run.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use forebay_types::{Error, Result};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

use crate::peer::{Peer, Peers};

/// Most connections of this user and root.
const OWN: usize = 512;
/// Most connections of each other user, and of all of them.
const EACH_OTHER: usize = 32;
const ALL_OTHERS: usize = 128;
/// Most connections of which the kernel does not say whose they are.
const UNKNOWN: usize = 256;
/// How long a peer may take from one request to the headers of the next.
const HEADERS: Duration = Duration::from_secs(5);

/// Something that is knocked at.
pub enum Door {
    Tcp(TcpListener, Peers),
    Unix(UnixListener),
}

impl Door {
    /// A TCP port.
    pub fn tcp(listener: std::net::TcpListener) -> Result<Door> {
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        listener
            .map(|l| Door::Tcp(l, Peers::new()))
            .map_err(|e| Error::io("cannot use the monitor's port", e))
    }

    /// A Unix socket for this user alone; the directory it lies in is this user's alone, too.
    pub fn unix(path: &Path) -> Result<Door> {
        let fail = |e| Error::io(format!("cannot listen on {}", path.display()), e);
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(fail)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
        Ok(Door::Unix(listener))
    }

    async fn open(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Door::Tcp(l, peers) => {
                let (stream, address) = l.accept().await?;
                // Acknowledgements of steering are small and must not wait for more.
                stream.set_nodelay(true)?;
                let peer = peers.of(address, stream.local_addr()?);
                Ok((Stream::Tcp(stream), peer))
            }
            Door::Unix(l) => Ok((Stream::Unix(l.accept().await?.0), Peer::Own)),
        }
    }

    /// Serves who comes until told to stop.
    pub async fn serve(self, app: Router, mut stop: watch::Receiver<bool>) {
        let places = Arc::new(Places::default());
        loop {
            let opened = tokio::select! {
                opened = self.open() => opened,
                _ = stop.wait_for(|s| *s) => return,
            };
            match opened {
                Ok((stream, peer)) => {
                    // Without a place it is closed here, and without a word: whoever holds all places of its
                    // kind does not read.
                    if let Some(place) = Places::take(&places, peer) {
                        tokio::spawn(serve(stream, place, app.clone(), stop.clone()));
                    }
                }
                // Out of descriptors, or the peer left at once: neither is a reason to stop.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn serve(stream: Stream, place: Admission, app: Router, mut stop: watch::Receiver<bool>) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(Connection { stream, _place: place }), TowerToHyperService::new(app))
        .with_upgrades();
    tokio::pin!(connection);
    // How it ends is the peer's affair: it left, said nonsense, or nothing for too long.
    let stopped = async {
        drop(stop.wait_for(|s| *s).await);
    };
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Who is inside.
#[derive(Default)]
struct Places {
    inside: Mutex<BTreeMap<PeerKind, usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PeerKind {
    Own,
    Other(u32),
    Unknown,
}

impl Places {
    fn inside(&self) -> MutexGuard<'_, BTreeMap<PeerKind, usize>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(all: &Arc<Places>, peer: Peer) -> Option<Admission> {
        let (kind, most) = match peer {
            Peer::Own => (PeerKind::Own, OWN),
            Peer::Other(uid) => (PeerKind::Other(uid), EACH_OTHER),
            Peer::Unknown => (PeerKind::Unknown, UNKNOWN),
        };
        let mut inside = all.inside();
        let others: usize =
            inside.iter().filter(|(k, _)| matches!(k, PeerKind::Other(_))).map(|(_, n)| *n).sum();
        let taken = inside.get(&kind).copied().unwrap_or(0);
        if taken >= most || (matches!(kind, PeerKind::Other(_)) && others >= ALL_OTHERS) {
            return None;
        }
        inside.insert(kind, taken + 1);
        Some(Admission { all: all.clone(), kind })
    }
}

/// A place inside; given back when it is dropped.
struct Admission {
    all: Arc<Places>,
    kind: PeerKind,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut inside = self.all.inside();
        match inside.get_mut(&self.kind) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(inside.remove(&self.kind)),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection and its place.
struct Connection {
    stream: Stream,
    _place: Admission,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Unix(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Unix(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(s) => Pin::new(s).poll_flush(cx),
            Stream::Unix(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Unix(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_take_no_place_from_the_owner_and_none_takes_all() {
        let all = Arc::new(Places::default());
        let take = |peer| Places::take(&all, peer);
        let some: Vec<Admission> = std::iter::from_fn(|| take(Peer::Other(7))).collect();
        assert_eq!(some.len(), EACH_OTHER);
        let more: Vec<Admission> = (8..1000).filter_map(|uid| take(Peer::Other(uid))).collect();
        assert_eq!(some.len() + more.len(), ALL_OTHERS);
        let own: Vec<Admission> = std::iter::from_fn(|| take(Peer::Own)).collect();
        let unknown: Vec<Admission> = std::iter::from_fn(|| take(Peer::Unknown)).collect();
        assert_eq!((own.len(), unknown.len()), (OWN, UNKNOWN));
        drop(some);
        assert!(take(Peer::Other(7)).is_some());
        drop((more, own, unknown));
        assert!(all.inside().is_empty());
    }
}
