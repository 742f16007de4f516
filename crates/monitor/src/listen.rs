//! The doors: a loopback port and a Unix socket, with a bound on the connections inside.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use forebay_types::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most connections of one door at a time; further ones wait.
const CONNECTIONS: usize = 256;

/// Something that is knocked at.
pub enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    /// A TCP port.
    pub fn tcp(listener: std::net::TcpListener) -> Result<Door> {
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        listener.map(Door::Tcp).map_err(|e| Error::io("cannot use the monitor's port", e))
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

    async fn open(&mut self) -> io::Result<Stream> {
        match self {
            Door::Tcp(l) => {
                let (stream, _) = TcpListener::accept(l).await?;
                // Acknowledgements of steering are small and must not wait for more.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Door::Unix(l) => Ok(Stream::Unix(UnixListener::accept(l).await?.0)),
        }
    }
}

/// A door through which only so many may be inside.
pub struct Bounded {
    door: Door,
    places: Arc<Semaphore>,
}

impl Bounded {
    /// Of this door.
    pub fn new(door: Door) -> Bounded {
        Bounded { door, places: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = Option<SocketAddr>;

    async fn accept(&mut self) -> (Connection, Option<SocketAddr>) {
        loop {
            let place = self.places.clone().acquire_owned().await.ok();
            match self.door.open().await {
                Ok(stream) => return (Connection { stream, _place: place }, None),
                // Out of descriptors, or the peer left at once: neither is a reason to stop.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        match &self.door {
            Door::Tcp(l) => l.local_addr().map(Some),
            Door::Unix(_) => Ok(None),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection and its place among those allowed.
pub struct Connection {
    stream: Stream,
    _place: Option<OwnedSemaphorePermit>,
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
