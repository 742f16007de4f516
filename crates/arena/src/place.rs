//! Where things are: the directories and names that all parts of Forebay agree on, and the
//! environment variables that move them. Nothing else reads these variables.
//!
//! | variable | default | holds |
//! | --- | --- | --- |
//! | `FOREBAY_RUNTIME_DIR` | `$XDG_RUNTIME_DIR/forebay`, else `/tmp/forebay-UID` | sockets, locks |
//! | `FOREBAY_HOME` | `~/.forebay` | rendezvous files |
//! | `FOREBAY_SHM_DIR` | `/dev/shm` | named segments |
//! | `FOREBAY_SHM_PREFIX` | `forebay-UID` | first part of their names |
//! | `FOREBAY_BROKER` | none | socket of an agent, or its address `fb://HOST:PORT` |
//! | `FOREBAY_SILENCE` | 10 | seconds without a word after which a process on another host is lost |
//! | `FOREBAY_EXE` | none | the `forebay` program |
//! | `FOREBAY_LATE_RANKS` | 60 | seconds that a snapshot waits for ranks that have not opened the run |
//! | `FOREBAY_ELSEWHERE` | `refuse` | what an opening does about data in memory that it does not reach |

use crate::Segment;
use forebay_types::control::Elsewhere;
use forebay_types::{Code, Error, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of segments.
pub mod kind {
    /// Between a rank and the owner of its run; holds acknowledged data.
    pub const RUN: u32 = 1;
    /// Between a client and a server; nothing in it needs recovery.
    pub const CALL: u32 = 2;
    /// More room for a run, in shared memory or spilt into its directory; holds acknowledged data.
    pub const OVERFLOW: u32 = 3;
}

/// How long a snapshot waits for ranks that have not opened the run.
pub fn late_ranks() -> Result<Duration> {
    seconds("FOREBAY_LATE_RANKS", 60)
}

/// What an opening does about data in memory that it does not reach, if its program does not say.
pub fn elsewhere() -> Result<Elsewhere> {
    let Some(text) = variable("FOREBAY_ELSEWHERE") else { return Ok(Elsewhere::default()) };
    Elsewhere::parse(text.to_string_lossy().trim())
        .map_err(|e| e.within("the environment variable FOREBAY_ELSEWHERE"))
}

/// How long a process on another host may be silent before it is lost. A network that is cut for
/// half of that heals: TCP tries again after 0.2, 0.4, 0.8 and so on seconds.
pub fn silence() -> Result<Duration> {
    let Some(text) = variable("FOREBAY_SILENCE") else { return Ok(Duration::from_secs(10)) };
    let seconds =
        text.to_str().and_then(|t| t.trim().parse::<f64>().ok()).filter(|s| *s >= 1.0 && *s <= 3600.0);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        Error::bad(format!(
            "FOREBAY_SILENCE is {text:?}; give a number of seconds from 1 to 3600, for example 10"
        ))
    })
}

/// How long a cut line to the store of a run is tried again before the session is given up.
pub fn line_patience() -> Result<Duration> {
    seconds("FOREBAY_LINE_PATIENCE", 30)
}

/// The seconds that a variable gives, or so many.
fn seconds(name: &str, usual: u64) -> Result<Duration> {
    let Some(text) = variable(name) else { return Ok(Duration::from_secs(usual)) };
    let seconds = text.to_str().and_then(|t| t.trim().parse::<f64>().ok());
    seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(|| {
        Error::bad(format!("{name} is {text:?}; give a number of seconds, for example {usual}"))
    })
}

/// Where owners of runs write down what they are told, if they shall.
pub fn recordings() -> Option<PathBuf> {
    variable("FOREBAY_RECORD")
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The directory of sockets and locks, made when absent: mode 0700 and owned by this user, or
/// it is refused.
pub fn runtime_dir() -> Result<PathBuf> {
    let dir = variable("FOREBAY_RUNTIME_DIR")
        .or_else(|| variable("XDG_RUNTIME_DIR").filter(|d| d.is_dir()).map(|d| d.join("forebay")))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/forebay-{}", uid())));
    private_dir(&dir).map_err(|e| with_remedy(&e, "FOREBAY_RUNTIME_DIR"))?;
    Ok(dir)
}

/// The directory of rendezvous files, made when absent, private as above.
pub fn home() -> Result<PathBuf> {
    let dir = variable("FOREBAY_HOME").or_else(|| variable("HOME").map(|h| h.join(".forebay"))).ok_or_else(
        || {
            Error::new(
                Code::NotFound,
                "neither FOREBAY_HOME nor HOME is set; set one to a directory of yours",
            )
        },
    )?;
    private_dir(&dir).map_err(|e| with_remedy(&e, "FOREBAY_HOME"))?;
    Ok(dir)
}

/// A directory that cannot be made, with what to do about it.
fn with_remedy(e: &Error, variable: &str) -> Error {
    let text = e.text();
    match text.contains("; ") {
        true => e.clone(),
        false => Error::new(e.code(), format!("{text}; set {variable} to a directory that can be written")),
    }
}

/// Makes a directory with mode 0700, parents too, and checks that it is this user's alone.
pub fn private_dir(dir: &Path) -> Result<()> {
    let shown = dir.display();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::io(format!("cannot make the directory {shown}"), e))?;
    let meta = std::fs::symlink_metadata(dir)
        .map_err(|e| Error::io(format!("cannot look at the directory {shown}"), e))?;
    let what = if meta.file_type().is_symlink() {
        "is a symbolic link".to_owned()
    } else if meta.uid() != uid() {
        format!("belongs to user {}", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        format!("has mode {:o}, so others may enter it", meta.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(Error::new(
        Code::Refused,
        format!(
            "{shown} {what}; make it a directory of yours with mode 700, or set FOREBAY_RUNTIME_DIR (FOREBAY_HOME) to one"
        ),
    ))
}

/// The directory of named segments.
pub fn shm_dir() -> PathBuf {
    variable("FOREBAY_SHM_DIR").unwrap_or_else(|| PathBuf::from("/dev/shm"))
}

/// First part of the names of segments.
pub fn shm_prefix() -> String {
    match std::env::var("FOREBAY_SHM_PREFIX") {
        Ok(prefix) if !prefix.is_empty() => prefix,
        _ => format!("forebay-{}", uid()),
    }
}

/// The name of a segment: the prefix, then the parts.
pub fn segment_name(parts: &[&str]) -> String {
    let mut name = shm_prefix();
    for part in parts {
        name.push('-');
        name.push_str(part);
    }
    name
}

/// The path of a segment of that name.
pub fn segment_path(name: &str) -> PathBuf {
    shm_dir().join(name)
}

/// The socket of an agent that the environment names.
pub fn broker() -> Option<PathBuf> {
    variable("FOREBAY_BROKER")
}

/// The socket of this user's agent on this node.
pub fn agent_socket() -> Result<PathBuf> {
    Ok(runtime_dir()?.join("agent.sock"))
}

/// The `forebay` program, if the environment names it.
pub fn exe() -> Option<PathBuf> {
    variable("FOREBAY_EXE")
}

/// The name of this host.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Which memory this process can share: the boot of its host and the namespaces that divide it.
/// Processes in different namespaces of the network count as different hosts.
pub fn here() -> String {
    let space = |name: &str| {
        let link = std::fs::read_link(format!("/proc/thread-self/ns/{name}")).unwrap_or_default();
        link.to_string_lossy().into_owned()
    };
    format!("{} {} {}", crate::process::boot_id_text(), space("ipc"), space("net"))
}

/// The rendezvous file of this host.
pub fn rendezvous() -> Result<PathBuf> {
    Ok(home()?.join(format!("{}.json", host())))
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

/// A plain file name: no path, nothing hidden, not too long.
pub fn check_file_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::bad(format!(
            "{name:?} is no name for a segment; use up to 200 letters, digits, '-', '_' and '.'"
        )));
    }
    Ok(())
}

/// A segment found in the shared-memory directory.
pub struct FoundSegment {
    /// Where.
    pub path: PathBuf,
    /// The segment, opened.
    pub segment: Segment,
}

/// All segments of this user's prefix whose names go on with `stem`.
pub fn segments(stem: &str) -> Vec<FoundSegment> {
    let stem = segment_name(&[stem]);
    let Ok(dir) = std::fs::read_dir(shm_dir()) else { return Vec::new() };
    dir.flatten()
        .filter(|e| e.file_name().to_str().is_some_and(|n| n.starts_with(&stem)))
        .filter_map(|e| Some(FoundSegment { path: e.path(), segment: Segment::open(&e.path()).ok()? }))
        .collect()
}

/// Removes segments of that kind whose creator is gone and that hold nothing to recover (the
/// caller knows that of the kind); returns how many.
pub fn sweep(kind: u32) -> usize {
    segments("")
        .into_iter()
        .filter(|f| f.segment.kind() == kind && !f.segment.creator_lives())
        .filter(|f| std::fs::remove_file(&f.path).is_ok())
        .count()
}

/// Removes the sockets that killed processes left in a directory: names that carry the pid of a
/// process that is gone (`run-PID-N.sock`, `server-PID-N.sock`) and that nobody hears; returns how many.
pub fn sweep_sockets(dir: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(dir) else { return 0 };
    let orphan = |name: &str| {
        let mut words = name.strip_suffix(".sock")?.split('-');
        let role = words.next()?;
        let pid: u32 = words.next()?.parse().ok()?;
        (["run", "server"].contains(&role) && crate::Process::is_gone(pid)).then_some(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        private_dir(&inner).unwrap();
        assert_eq!(std::fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(private_dir(&inner).unwrap_err().code(), Code::Refused);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("a"), &link).unwrap();
        assert!(private_dir(&link).unwrap_err().text().contains("symbolic link"));
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        assert!(check_file_name("forebay-1000-run-a1b2-3").is_ok());
        for bad in ["", ".hidden", "../up", "a/b", "a b", "\u{e4}"] {
            assert!(check_file_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_socket_path(Path::new(&"x".repeat(108))).is_err());
    }
}
