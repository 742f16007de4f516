//! A socket, plain or with TLS on it, that never blocks: what cannot be done now is `WouldBlock`,
//! and its user waits in `poll`.

use super::address::Address;
use super::key::{BYTES, Bytes, Fingerprint};
use super::tls;
use crate::fair::Fair;
use crate::silence::BULK;
use forebay_arena::Lent;
use forebay_host::{environment, rlimits};
use forebay_types::{Code, Error, Result};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use rustls::Connection;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Most bytes that wait unsent in the system.
const UNSENT: u32 = 256 * 1024;
/// Most bytes that TLS takes before some have left. It encrypts into buffers of its own, a record each. More than
/// glibc's trim threshold of 128 KiB in them, and every flush gives their pages back to the system, for the next write
/// to fault in anew.
const TLS_BUFFER: usize = 64 * 1024;
/// Most bytes that TLS gets a copy of at a time.
const TLS_PIECE: usize = 64 * 1024;

/// A connection to a process on another host. Any thread may use it; one reads at a time, and one
/// writes.
#[derive(Debug)]
pub struct NetSocket {
    socket: TcpStream,
    /// Who reads and who writes one piece after the other take turns.
    tls: OnceLock<Box<Fair<Connection>>>,
    /// How often TLS has taken bytes; it takes none before all that it had are with the system.
    taken: AtomicU64,
    /// What `taken` was when TLS had none left.
    passed: AtomicU64,
    peer: SocketAddr,
}

impl NetSocket {
    /// Connects to the first address of a host that answers.
    pub(crate) fn dial(address: &Address, deadline: Instant) -> Result<NetSocket> {
        let known = (address.host.as_str(), address.port).to_socket_addrs().map_err(|e| {
            Error::new(Code::NotFound, format!("the host of {address} is not known: {e}; check its name"))
        })?;
        let mut why = None;
        for at in known {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&at, left) {
                Ok(socket) => return NetSocket::over(socket),
                Err(e) => why = Some(e),
            }
        }
        let why = why.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
        Err(match why.kind() {
            io::ErrorKind::ConnectionRefused => {
                Error::new(Code::ServerLost, format!("nobody listens at {address}; is the agent still up?"))
                    .caused_by(why.kind())
            }
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Error::new(
                Code::Timeout,
                format!("{address} does not answer; check the address, the network and firewalls"),
            ),
            _ => match rlimits::cannot(format!("cannot connect to {address}"), why) {
                own if own.code() == Code::Full => own,
                e => Error::new(Code::ServerLost, format!("{address} cannot be reached: {e}")),
            },
        })
    }

    /// A socket that is connected, plain for now.
    pub(crate) fn over(socket: TcpStream) -> Result<NetSocket> {
        let failed = |e| Error::io("cannot set up a network connection", e);
        // One that the other side has reset already has no other side.
        let peer = socket.peer_addr().map_err(|e| match e.kind() {
            io::ErrorKind::NotConnected => {
                Error::new(Code::ServerLost, "the other side closed the connection at once; try again")
            }
            _ => failed(e),
        })?;
        socket.set_nonblocking(true).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        // What the system has taken and not sent yet stands before every short frame.
        socket2::SockRef::from(&socket)
            .set_tcp_notsent_lowat(UNSENT)
            .map_err(|e| Error::io("cannot set up a network connection", e))?;
        let socket = NetSocket {
            socket,
            tls: OnceLock::new(),
            taken: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            peer,
        };
        socket.bear(environment::silence()?)?;
        Ok(socket)
    }

    /// A host that vanishes is noticed by the system, too, also by who only listens; who is told how long the other side
    /// may be silent hears of it first, even while bulk moves.
    pub(crate) fn bear(&self, silence: Duration) -> Result<()> {
        let failed = |e| Error::io("cannot set up a network connection", e);
        sockopt::set_socket_keepalive(&self.socket, true).map_err(failed)?;
        let whole = |time: Duration| time.max(Duration::from_secs(1));
        sockopt::set_tcp_keepidle(&self.socket, whole(silence / 2)).map_err(failed)?;
        sockopt::set_tcp_keepintvl(&self.socket, whole(silence / 4)).map_err(failed)?;
        sockopt::set_tcp_keepcnt(&self.socket, 3).map_err(failed)?;
        let given_up = silence * BULK + silence / 2;
        sockopt::set_tcp_user_timeout(&self.socket, given_up.as_millis() as u32).map_err(failed)
    }

    /// From now on TLS is spoken.
    pub(crate) fn secure(&self, mut connection: Connection) {
        connection.set_buffer_limit(Some(TLS_BUFFER));
        let _ = self.tls.set(Box::new(Fair::new(connection)));
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.tls.get().is_some()
    }

    /// Who is at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Which of this host's addresses is this end.
    pub fn local(&self) -> Result<SocketAddr> {
        self.socket.local_addr().map_err(|e| Error::io("cannot learn the address of a socket", e))
    }

    /// Whether both ends are on this host's loopback.
    pub(crate) fn is_loopback(&self) -> bool {
        self.peer.ip().to_canonical().is_loopback()
    }

    /// The first byte that waits to be read, left where it is.
    pub(crate) fn peek(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        match rustix::net::recv(&self.socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0 {
            0 => Ok(None),
            _ => Ok(Some(byte[0])),
        }
    }

    /// Goes on with the TLS handshake; whether it is done.
    pub(crate) fn shake(&self, seen: &OnceLock<Fingerprint>) -> Result<bool> {
        let Some(tls) = self.tls.get() else { return Ok(true) };
        let mut tls = tls.lock();
        let failed = |e: io::Error| match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            Some(fault) => tls::explain(fault, seen.get()),
            None => {
                Error::new(Code::ServerLost, format!("the other side left during the TLS handshake: {e}"))
            }
        };
        while tls.is_handshaking() {
            let outcome = self.flush(&mut tls).and_then(|flushed| match (flushed, tls.is_handshaking()) {
                (_, false) => Ok(true),
                (true, true) => self.fetch(&mut tls),
                (false, true) => Ok(false),
            });
            match outcome {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(e) => {
                    // The alert that says why, as far as it goes.
                    let _ = self.flush(&mut tls);
                    return Err(failed(e));
                }
            }
        }
        self.flush(&mut tls).map_err(failed)
    }

    /// What proofs on this connection are bound to; zero without TLS.
    pub(crate) fn channel(&self) -> Result<Bytes> {
        self.tls.get().map_or(Ok([0; BYTES]), |tls| tls::channel(&tls.lock()))
    }

    /// Reads what is there into the buffers, one after the other; 0 at the end of the connection.
    pub fn try_read(&self, buffers: &mut [IoSliceMut]) -> io::Result<usize> {
        let Some(tls) = self.tls.get() else { return receive(&self.socket, buffers) };
        let mut tls = tls.lock();
        let mut total = 0;
        for buffer in buffers {
            let mut at = 0;
            while at < buffer.len() {
                match tls.reader().read(&mut buffer[at..]) {
                    Ok(0) => return Ok(total),
                    Ok(n) => (at, total) = (at + n, total + n),
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(total),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => match self.fetch(&mut tls) {
                        Ok(true) => {}
                        Ok(false) if total > 0 => return Ok(total),
                        Ok(false) => return Err(io::ErrorKind::WouldBlock.into()),
                        Err(e) => return Err(e),
                    },
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(total)
    }

    /// Writes as much as goes now. What TLS has taken leaves with this or a later
    /// [`NetSocket::try_flush`].
    #[inline]
    pub fn try_write(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        let Some(tls) = self.tls.get() else { return send(&self.socket, buffers) };
        let mut tls = tls.lock();
        if !self.flush(&mut tls)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = tls.writer().write_vectored(buffers)?;
        self.taken.fetch_add(1, Ordering::Release);
        self.flush(&mut tls)?;
        Ok(n)
    }

    /// Writes as much as goes now of bytes that others may change meanwhile. TLS gets a copy of the first 64 KiB at
    /// most.
    pub fn try_send(&self, parts: &[Lent]) -> io::Result<usize> {
        if self.tls.get().is_none() {
            return Lent::send(parts, &self.socket);
        }
        let all: usize = parts.iter().map(Lent::len).sum();
        let mut copy = Vec::with_capacity(all.min(TLS_PIECE));
        for part in parts {
            let some = part.len().min(TLS_PIECE - copy.len());
            part.split_at(some).0.append_to(&mut copy);
        }
        self.try_write(&[IoSlice::new(&copy)])
    }

    /// Ends the connection in one direction or both, for whoever uses it.
    pub fn shut(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Whether everything that was written has gone to the system.
    pub fn try_flush(&self) -> io::Result<bool> {
        self.tls.get().map_or(Ok(true), |tls| self.flush(&mut tls.lock()))
    }

    /// What was written so far, for [`NetSocket::has_left`].
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Whether all that had been written then has gone to the system, whatever was written since.
    pub fn has_left(&self, taken: u64) -> io::Result<bool> {
        Ok(self.passed.load(Ordering::Acquire) >= taken
            || self.try_flush()?
            || self.passed.load(Ordering::Acquire) >= taken)
    }

    fn flush(&self, tls: &mut Connection) -> io::Result<bool> {
        while tls.wants_write() {
            match tls.write_tls(&mut BelowTls(&self.socket)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        self.passed.store(self.taken.load(Ordering::Acquire), Ordering::Release);
        Ok(true)
    }

    /// Takes in what has come; whether something has. The end counts: reading finds it.
    fn fetch(&self, tls: &mut Connection) -> io::Result<bool> {
        match tls.read_tls(&mut BelowTls(&self.socket)) {
            Ok(0) if tls.is_handshaking() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        }
        tls.process_new_packets().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(true)
    }
}

impl AsFd for NetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The socket under TLS.
struct BelowTls<'a>(&'a TcpStream);

impl Read for BelowTls<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.0, &mut [IoSliceMut::new(buffer)])
    }
}

impl Write for BelowTls<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        send(self.0, &[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.0, buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[inline]
fn receive(socket: &TcpStream, buffers: &mut [IoSliceMut]) -> io::Result<usize> {
    loop {
        let got = match &mut *buffers {
            [one] => rustix::net::recv(socket, &mut one[..], RecvFlags::DONTWAIT).map(|(n, _)| n),
            many => rustix::io::readv(socket, many),
        };
        match got {
            Err(rustix::io::Errno::INTR) => {}
            got => return Ok(got?),
        }
    }
}

/// Without SIGPIPE, which would end a program that is not ours.
#[inline]
fn send(socket: &TcpStream, buffers: &[IoSlice]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        let sent = match buffers {
            [one] => rustix::net::send(socket, one, flags),
            many => rustix::net::sendmsg(socket, many, &mut Default::default(), flags),
        };
        match sent {
            Err(rustix::io::Errno::INTR) => {}
            sent => return Ok(sent?),
        }
    }
}

pub(crate) type Seen = Arc<OnceLock<Fingerprint>>;
