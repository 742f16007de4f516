//! Where control connections arrive: a Unix socket of this user alone.

use crate::greeting;
use crate::wire::{Wire, check_user};
use forebay_host::sockets;
use forebay_host::wait::{self, PollFlags};
use forebay_types::{Code, Error, Result};
use rustix::io::Errno;
use std::fs::File;
use std::io::ErrorKind::WouldBlock;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A listening socket; its name goes with it.
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    inode: (u64, u64),
    /// Given up to take a connection when the process has no other descriptor left, so that it can be refused.
    spare: Mutex<Option<File>>,
}

/// A connection that was accepted and not yet greeted.
pub struct Incoming {
    stream: UnixStream,
}

impl Listener {
    /// Listens at a path with mode 0600. A socket that a dead process left there is replaced; a
    /// living one gives `Conflict`.
    pub fn bind(path: &Path) -> Result<Listener> {
        sockets::check_socket_path(path)?;
        let shown = path.display();
        let cannot = |e| Error::io(format!("cannot listen at {shown}"), e);
        let socket = match UnixListener::bind(path) {
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
                if !sockets::nobody_hears(path) {
                    return Err(Error::new(
                        Code::Conflict,
                        format!("another process listens at {shown} already"),
                    ));
                }
                std::fs::remove_file(path).map_err(cannot)?;
                UnixListener::bind(path).map_err(cannot)?
            }
            done => done.map_err(cannot)?,
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let meta = std::fs::metadata(path).map_err(cannot)?;
        let spare = Mutex::new(spare());
        Ok(Listener { socket, path: path.to_owned(), inode: (meta.dev(), meta.ino()), spare })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection, waiting until the deadline; `None` when there was none. Connections
    /// of other users are closed and give `Refused`, and so do those for which the process lacks descriptors: they are
    /// told so.
    pub fn accept(&self, deadline: Option<Instant>) -> Result<Option<Incoming>> {
        loop {
            match self.socket.accept() {
                Ok((stream, _)) => {
                    check_user(&stream)?;
                    return Ok(Some(Incoming { stream }));
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    if !wait::until(self.socket.as_fd(), PollFlags::IN, deadline)? {
                        return Ok(None);
                    }
                }
                // The connecting side gave up, or a signal came.
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => {
                    let is_full = matches!(Errno::from_io_error(&e), Some(Errno::MFILE | Errno::NFILE));
                    match is_full.then(|| self.refuse_one()).flatten() {
                        Some(Ok(refused)) => return Err(refused),
                        // The system says so even where nobody waits.
                        Some(Err(WouldBlock)) => {
                            if !wait::until(self.socket.as_fd(), PollFlags::IN, deadline)? {
                                return Ok(None);
                            }
                        }
                        _ => return Err(Error::io(format!("cannot accept at {}", self.path.display()), e)),
                    }
                }
            }
        }
    }

    /// Takes the connection that waits longest and refuses it, by the spare descriptor: gives what it was told. None
    /// if there is no spare one.
    fn refuse_one(&self) -> Option<Result<Error, std::io::ErrorKind>> {
        let mut kept = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        drop(kept.take()?);
        let refused = self.socket.accept().map_err(|e| e.kind()).map(|(stream, _)| {
            let text = format!(
                "process {} at {} has no file descriptor left for one more connection; raise `ulimit -n` where it is started, or end programs that are connected to it",
                std::process::id(),
                self.path.display()
            );
            Incoming { stream }.refuse(&Error::new(Code::Full, text.as_str()));
            Error::new(Code::Refused, text)
        });
        *kept = spare();
        Some(refused)
    }

    /// Accepts and greets in one, for who serves one connection at a time.
    pub fn accept_wire(&self, role: &str, deadline: Option<Instant>) -> Result<Option<Wire>> {
        match self.accept(deadline)? {
            Some(incoming) => incoming.greet(role, Duration::from_secs(2)).map(Some),
            None => Ok(None),
        }
    }
}

impl Incoming {
    /// Whether the other side has gone and sent nothing before.
    pub fn left(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let mut byte = [0u8; 1];
        matches!(recv(&self.stream, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((0, _)))
    }

    /// Tells the other side why it is not taken. Its hello is not waited for.
    pub fn refuse(self, why: &Error) {
        if let Ok(mut wire) = Wire::over(self.stream) {
            // Who has gone need not know.
            let _ = wire.refuse(0, why);
        }
    }

    /// Hears hello and says welcome. May wait for a slow peer, so not in the accepting loop of a
    /// server with many.
    pub fn greet(self, role: &str, timeout: Duration) -> Result<Wire> {
        let mut wire = Wire::over(self.stream)?;
        let peer = greeting::welcome(&mut wire, role, Instant::now() + timeout)?;
        wire.met(peer);
        Ok(wire)
    }
}

/// A descriptor that can be given up.
fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl AsFd for Incoming {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Only our own name: another process may have taken it over meanwhile.
        if let Ok(meta) = std::fs::metadata(&self.path)
            && (meta.dev(), meta.ino()) == self.inode
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
