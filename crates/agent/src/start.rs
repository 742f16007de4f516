//! Starting the node's agent, once, however many want it at the same moment.
//!
//! Start, leave and take-over go through one lock file that is never removed, so all who wait
//! for it wait for the same file. Its holder looks first whether an agent answers, and starts one
//! only if none does; whoever comes second finds the first one's agent. An agent that leaves
//! takes the same lock and looks once more for connections under it.

use crate::rendezvous::Address;
use forebay_host::process::go_on_or_end;
use forebay_host::{Process, ProcessState, directories, environment, sockets};
use forebay_link::silence::GREETING;
use forebay_link::{Wire, net};
use forebay_types::{Code, Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::RwLock;
use std::time::{Duration, Instant};

/// How long a new agent may take to answer, and how long to wait for somebody else's start.
const STARTING: Duration = Duration::from_secs(20);
/// Time between two looks while an agent starts.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock through which agents come and go.
pub struct Gate {
    file: File,
}

impl Gate {
    /// Opens it in the runtime directory.
    pub fn open(dir: &Path) -> Result<Gate> {
        Ok(Gate { file: lock_file(&dir.join("agent.lock"))? })
    }

    /// Takes it if nobody has it.
    pub fn try_take(&self) -> Result<bool> {
        try_lock(&self.file)
    }

    /// Takes it, waiting for whoever starts an agent now.
    fn take(&self, until: Instant) -> Result<()> {
        while !self.try_take()? {
            if Instant::now() >= until {
                return Err(Error::new(
                    Code::Timeout,
                    "another process has been starting an agent for too long; look at agent.log in the runtime directory, or set FOREBAY_RUNTIME_DIR",
                ));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// The lock that an agent holds for as long as it lives.
pub struct Reign {
    _file: File,
}

impl Reign {
    /// Takes it; `Conflict` when an agent lives.
    pub fn take(dir: &Path) -> Result<Reign> {
        let path = dir.join("agent.reign");
        let file = lock_file(&path)?;
        if !try_lock(&file)? {
            return Err(Error::new(
                Code::Conflict,
                format!("an agent of this user is up already ({}); `forebay status` shows it", dir.display()),
            ));
        }
        Ok(Reign { _file: file })
    }

    /// Whether an agent holds it.
    fn held(dir: &Path) -> bool {
        lock_file(&dir.join("agent.reign")).and_then(|f| try_lock(&f)).is_ok_and(|free| !free)
    }
}

fn lock_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::io(format!("cannot open {}", path.display()), e))
}

fn try_lock(file: &File) -> Result<bool> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot lock a file of the runtime directory", e)),
        }
    }
}

/// The socket of the agent that lives, if one does: from `FOREBAY_BROKER`, the runtime directory
/// or the rendezvous file. An agent that is stopped is an error that names it.
pub fn running() -> Result<Option<PathBuf>> {
    // An address of another host is no agent of this node.
    let local = |given: &PathBuf| given.to_str().is_none_or(|text| !net::Address::is_meant(text));
    if let Some(socket) = environment::broker().filter(local) {
        return match answers(&socket)? {
            true => Ok(Some(socket)),
            false => Err(Error::new(
                Code::NoServer,
                format!(
                    "no agent answers at {}, which FOREBAY_BROKER names; start one there or unset it",
                    socket.display()
                ),
            )),
        };
    }
    let ours = sockets::agent_socket()?;
    if answers(&ours)? {
        return Ok(Some(ours));
    }
    Ok(None)
}

/// The socket of the agent that lives, if one does, also of one that does not answer.
pub(crate) fn running_or_silent() -> Result<Option<PathBuf>> {
    running().or_else(|e| {
        // One of another version answers, and is none that can be asked.
        if !matches!(e.code(), Code::Timeout | Code::ServerLost) {
            return Err(e);
        }
        let named = environment::broker().filter(|given| given.exists());
        let socket = named.map_or_else(sockets::agent_socket, Ok)?;
        Wire::listening(&socket).map(|_| Some(socket)).ok_or(e)
    })
}

/// Whether an agent answers at the socket.
fn answers(socket: &Path) -> Result<bool> {
    if !socket.exists() {
        return Ok(false);
    }
    match Wire::connect_as(socket, "client", GREETING) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) => Ok(false),
        Err(e) if e.code() == Code::Timeout => Err(silent(socket, e)),
        Err(e) => Err(e),
    }
}

/// Why an agent does not greet. For who needs one, one that is stopped is as good as lost.
fn silent(socket: &Path, error: Error) -> Error {
    let known =
        || directories::rendezvous().ok().and_then(|p| Address::read(&p)).filter(|a| a.socket == socket);
    let state = |p: Process| (p.pid, p.state());
    match Wire::listening(socket).map(state).or_else(|| known().map(|a| (a.pid, a.state()))) {
        Some((pid, ProcessState::Stopped)) => {
            Error::new(Code::ServerLost, format!("the agent (pid {pid}) is stopped; {}", go_on_or_end(pid)))
        }
        _ => error.within("the agent does not answer"),
    }
}

/// The socket of the node's agent, which is started when there is none. It leaves by itself when
/// nothing needs it.
pub fn start_by_need() -> Result<PathBuf> {
    start(&["up", "--by-need"])
}

/// Like [`start_by_need`], but the agent stays until it is told to go.
pub fn start_to_stay() -> Result<PathBuf> {
    start(&["up", "--foreground", "--detach"])
}

fn start(arguments: &[&str]) -> Result<PathBuf> {
    if let Some(socket) = running()? {
        return Ok(socket);
    }
    let dir = directories::runtime_dir()?;
    let until = Instant::now() + STARTING;
    let gate = Gate::open(&dir)?;
    gate.take(until)?;
    loop {
        if let Some(socket) = running()? {
            return Ok(socket);
        }
        // One that holds its reign and does not listen is on its way in or out.
        if !Reign::held(&dir) {
            break;
        }
        if Instant::now() >= until {
            return Err(Error::new(
                Code::Timeout,
                format!("an agent lives and does not listen; look at {}", dir.join("agent.log").display()),
            ));
        }
        std::thread::sleep(PAUSE);
    }
    let child = spawn(arguments, &dir)?;
    await_answer(child, &dir, until)
}

fn spawn(arguments: &[&str], dir: &Path) -> Result<Child> {
    let exe = program()?;
    let path = dir.join("agent.log");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Error::io(format!("cannot open {}", path.display()), e))?;
    let also = log.try_clone().map_err(|e| Error::io("cannot copy a descriptor", e))?;
    Command::new(&exe)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(also)
        .stderr(log)
        .spawn()
        .map_err(|e| Error::io(format!("cannot start the agent {}", exe.display()), e))
}

fn await_answer(mut child: Child, dir: &Path, until: Instant) -> Result<PathBuf> {
    let log = dir.join("agent.log");
    let socket = sockets::agent_socket()?;
    loop {
        if answers(&socket)? {
            reap(child);
            return Ok(socket);
        }
        if let Ok(Some(status)) = child.try_wait() {
            let said = last_line(&log);
            return Err(Error::new(
                Code::NoServer,
                format!("the agent ended at once ({status}): {said}; its log is {}", log.display()),
            ));
        }
        if Instant::now() >= until {
            return Err(Error::new(
                Code::Timeout,
                format!("the agent (pid {}) does not answer; its log is {}", child.id(), log.display()),
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits for the agent's end, so that no dead process of it stays behind while we live.
fn reap(mut child: Child) {
    let _ =
        std::thread::Builder::new().name("fb-reap".into()).stack_size(64 * 1024).spawn(move || child.wait());
}

fn last_line(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

/// Folders that may hold the `forebay` program, as the language knows that this code is in.
static FOLDERS: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// Has the `forebay` program looked for in these folders too, before the path.
pub fn look_in(folders: Vec<PathBuf>) {
    *FOLDERS.write().unwrap_or_else(|e| e.into_inner()) = folders;
}

/// The `forebay` program: named by the environment, this one, of the installation that the library
/// comes from (`lib/libforebay.so`, or the module in Python's `lib/python3/site-packages/forebay`, and
/// `bin/forebay`), in a folder that the language named, beside this one, or on the path.
pub fn program() -> Result<PathBuf> {
    if let Some(exe) = environment::exe() {
        return Ok(exe);
    }
    let this = std::env::current_exe().ok();
    if let Some(this) = this.as_ref().filter(|p| p.file_name().is_some_and(|n| n == "forebay")) {
        return Ok(this.clone());
    }
    let library = library();
    let above = library.iter().flat_map(|lib| lib.ancestors()).skip(1).map(|dir| dir.join("bin/forebay"));
    let beside = this.iter().map(|exe| exe.with_file_name("forebay"));
    let told = FOLDERS.read().unwrap_or_else(|e| e.into_inner()).clone();
    let told = told.into_iter().map(|dir| dir.join("forebay"));
    if let Some(installed) = above.chain(told).chain(beside).find(|p| p.is_file()) {
        return Ok(installed);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|d| d.join("forebay")).find(|p| p.is_file()).ok_or_else(|| {
        Error::new(
            Code::NotFound,
            "the program `forebay` is neither beside this program or its library nor on the PATH; install it, or name it in FOREBAY_EXE",
        )
    })
}

/// The file that this code was loaded from: the program itself, or the library in it.
fn library() -> Option<PathBuf> {
    let here = library as fn() -> Option<PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    // 7f0000000000-7f0000001000 r-xp 00000000 08:01 42    /usr/lib/libforebay.so.0.1.0
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let within = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
        let file = &rest[rest.find('/')?..];
        within.contains(&here).then(|| PathBuf::from(file))
    })
}
