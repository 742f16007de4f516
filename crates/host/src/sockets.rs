//! Unix sockets: where they lie, whether somebody hears one, and who is at the other end.

use crate::directories::runtime_dir;
use crate::ffi;
use crate::process::Process;
use forebay_types::{Code, Error, Result};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The socket of this user's agent on this node.
pub fn agent_socket() -> Result<PathBuf> {
    Ok(runtime_dir()?.join("agent.sock"))
}

/// A socket's path must fit into its address; sockets in deep directories do not.
pub fn check_socket_path(path: &Path) -> Result<()> {
    let bytes = path.as_os_str().len();
    if bytes > 107 {
        return Err(Error::bad(format!(
            "the socket {} has {bytes} bytes in its name, 107 is the most; set FOREBAY_RUNTIME_DIR to a shorter directory",
            path.display()
        )));
    }
    Ok(())
}

/// Listens, by `listen`, at a socket of this process in the runtime directory, `ROLE-PID-N.sock`. A name
/// that is taken (`Conflict`) is passed over: processes of another pid name space may have the same pid
/// and share the directory.
pub fn at_free_socket<T>(role: &str, mut listen: impl FnMut(&Path) -> Result<T>) -> Result<T> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let dir = runtime_dir()?;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        match listen(&dir.join(format!("{role}-{}-{number}.sock", std::process::id()))) {
            Err(e) if e.code() == Code::Conflict => {}
            done => return done,
        }
    }
}

/// Removes the sockets that killed processes left in a directory: names that carry the pid of a
/// process that is gone (`run-PID-N.sock`, `server-PID-N.sock`) and that nobody hears; returns how many.
pub fn sweep_sockets(dir: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(dir) else { return 0 };
    let orphan = |name: &str| {
        let mut words = name.strip_suffix(".sock")?.split('-');
        let role = words.next()?;
        let pid: u32 = words.next()?.parse().ok()?;
        (["run", "server"].contains(&role) && Process::is_gone(pid)).then_some(())
    };
    files
        .flatten()
        .filter(|f| f.file_name().to_str().and_then(orphan).is_some())
        // Processes of another name space (a container) may share the directory and are not seen.
        .filter(|f| nobody_hears(&f.path()))
        .filter(|f| std::fs::remove_file(f.path()).is_ok())
        .count()
}

/// Whether nobody listens at a socket, for certain. Never waits: one whose process is stopped and whose
/// queue is full is heard by somebody.
pub fn nobody_hears(path: &Path) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let refused = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(connect(&socket, &address) == Err(rustix::io::Errno::CONNREFUSED))
    });
    refused.unwrap_or(false)
}

/// Who is at the other end of a Unix socket, as the kernel knows it.
#[derive(Clone, Copy, Debug)]
pub struct SocketPeer {
    /// Its user.
    pub uid: u32,
    /// The process that connected, or listens; none when it is gone or of a pid name space that
    /// cannot be seen from here.
    pub process: Option<Process>,
    /// Whether it is gone, for certain: then somebody else has the socket open, such as a child that it forked.
    pub is_gone: bool,
}

impl SocketPeer {
    /// Asks the kernel.
    pub fn of(socket: impl AsFd) -> Result<SocketPeer> {
        let (pid, uid) = ffi::peer_of(socket.as_fd())
            .map_err(|e| Error::io("cannot learn who is at the other end of a socket", e))?;
        let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0);
        let process = pid.and_then(Process::of_pid);
        let is_gone = process.is_none() && pid.is_some_and(Process::is_gone);
        Ok(SocketPeer { uid, process, is_gone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_at_the_other_end_of_a_socket_is_told_by_the_kernel() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = SocketPeer::of(&one).unwrap();
        assert_eq!(peer.process, Some(Process::current()));
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert!(SocketPeer::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn a_path_that_no_address_holds_is_refused() {
        assert!(check_socket_path(Path::new(&"x".repeat(108))).is_err());
        assert!(check_socket_path(Path::new(&"x".repeat(107))).is_ok());
    }
}
