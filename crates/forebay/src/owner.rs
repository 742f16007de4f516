//! Who owns the run: the node's agent if it is there, an agent started by need for several
//! ranks, or threads of this process.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_agent::{Embedded, EmbeddedOptions};
use forebay_client::remote::RemoteRun;
use forebay_client::run::{Session, Successor};
use forebay_host::wait::Backoff;
use forebay_host::{directories, environment};
use forebay_link::Wire;
use forebay_store::layout;
use forebay_types::control::{Mode, OpenRun};
use forebay_types::{Code, Error, Result};

use crate::OpenOptions;

/// How long an agent that leaves just now is asked again, or another one is started.
const RETRY: Duration = Duration::from_secs(5);
/// Time between two attempts to open a run on this host.
const PAUSE: Duration = Duration::from_millis(10);
/// Between two attempts to open a run on another host.
const CALL_AGAIN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(500));

/// The owner's code on threads of this process.
pub struct Owner {
    embedded: Option<Embedded>,
    pid: u32,
}

impl Owner {
    /// Has the owner stop without draining when it goes.
    pub fn abandon(&self) {
        if let Some(embedded) = self.embedded.as_ref().filter(|_| std::process::id() == self.pid) {
            embedded.abandon();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // A child of fork has none of the threads, so there is nothing to wait for.
            std::mem::forget(self.embedded.take());
        }
    }
}

/// Opens the session of a rank, with whoever is to own the run.
pub fn session(
    dir: &Path,
    mode: Mode,
    options: &OpenOptions,
    (rank, size): (u32, u32),
) -> Result<(Session, Option<Owner>)> {
    let path = dir.to_str().ok_or_else(|| not_utf8(dir))?;
    let mut request = request(path, mode, options, (rank, size))?;
    let new = mode == Mode::Create && !dir.join(layout::CATALOG).exists();
    let mut lost: Option<Instant> = None;
    loop {
        let open = |found: Option<Wire>| match found {
            Some(wire) => {
                Session::open_with(wire, &request, Some(successor())).map(|session| (session, None))
            }
            None => embedded(&request).map_err(|e| after_an_agent(dir, e)),
        };
        let tried = match agent_of(size, dir, lost.unwrap_or_else(Instant::now)) {
            Err(e) if lost.is_none() => return Err(e),
            found => found.and_then(open),
        };
        match tried {
            Err(e) if is_lost(&e, lost.is_some()) && lost.is_none_or(|since| since.elapsed() < RETRY) => {
                lost.get_or_insert_with(Instant::now);
                // What the one that died has begun of a new run is this rank's own.
                if new {
                    request.mode = Mode::Append;
                }
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

pub fn not_utf8(dir: &Path) -> Error {
    Error::bad(format!("the path {} is not UTF-8; choose another name for the run", dir.display()))
}

/// Whether an opening on another host is asked again. What is not there at the first try is not waited for.
fn is_cut(e: &Error, before: bool) -> bool {
    is_lost(e, before) || (before && e.code() == Code::Timeout)
}

/// Whether an opening is asked again: whom it was asked of died before it answered, or has not let go of
/// the run yet.
fn is_lost(e: &Error, before: bool) -> bool {
    match e.code() {
        Code::ServerLost => true,
        Code::Conflict | Code::NoServer => before,
        _ => false,
    }
}

/// A connection to the agent that is to own the run, `None` when it is to be this process.
fn agent_of(size: u32, dir: &Path, began: Instant) -> Result<Option<Wire>> {
    let agent = forebay_agent::running()?;
    if let Some(wire) = agent.map(|socket| greeted(&socket)).transpose()?.flatten() {
        let pid = wire.process().map(|p| p.pid);
        return match (pid.and_then(|pid| Some((unlike(pid, dir)?, pid))), size) {
            (None, _) => Ok(Some(wire)),
            // It cannot serve this process, which needs none.
            (Some(_), 1) => Ok(None),
            (Some((what, pid)), _) => Err(Error::new(
                Code::Conflict,
                format!(
                    "the agent (process {pid}) sees another {} than this process, as in a container or mount namespace of its own, and cannot write the run for it; give the ranks an agent of their own by FOREBAY_RUNTIME_DIR, or end that one with `forebay down`",
                    what.display()
                ),
            )),
        };
    }
    if size == 1 {
        return Ok(None);
    }
    loop {
        let socket = forebay_agent::start_by_need()?;
        match greeted(&socket)? {
            Some(wire) => return Ok(Some(wire)),
            // It left between its start and our connection: once more.
            None if began.elapsed() < RETRY => {}
            None => {
                return Err(Error::new(
                    Code::ServerLost,
                    format!(
                        "an agent was started at {} and left again; look at agent.log beside it",
                        socket.display()
                    ),
                ));
            }
        }
    }
}

/// An agent took the run just now, as clients go on at one that they start: it is asked.
fn after_an_agent(dir: &Path, e: Error) -> Error {
    let holder = forebay_store::lock::holder(&dir.join(layout::LOCK));
    match e.code() == Code::Conflict && holder.is_some_and(|h| h.is_agent()) {
        true => Error::new(Code::ServerLost, e.text()),
        false => e,
    }
}

/// Fails when whoever owns the run, at the other end, cannot see what this process does.
pub fn shared(wire: &Wire, dir: &Path) -> Result<()> {
    let Some(pid) = wire.process().map(|p| p.pid) else { return Ok(()) };
    match unlike(pid, dir) {
        None => Ok(()),
        Some(what) => Err(Error::new(
            Code::Refused,
            format!(
                "the owner of the run (process {pid}) sees another {} than this process, as in a container or mount namespace of its own; start the client where the owner is",
                what.display()
            ),
        )),
    }
}

/// What the agent and this process must share and do not: shared memory, or where the run lies.
/// What cannot be seen from here is taken as shared.
pub fn unlike(pid: u32, dir: &Path) -> Option<PathBuf> {
    let home = dir.ancestors().find(|dir| dir.is_dir()).and_then(|dir| dir.canonicalize().ok());
    [Some(directories::shm_dir()), home].into_iter().flatten().find(|path| differs(pid, path))
}

/// Whether a path leads a process elsewhere than this one. A process that has ended leads nowhere: that is
/// no difference, and who asks it hears that it is gone.
fn differs(pid: u32, path: &Path) -> bool {
    let seen = |path: &Path| path.metadata().map(|m| (m.dev(), m.ino()));
    let root = Path::new("/proc").join(pid.to_string()).join("root");
    let Ok(inside) = path.strip_prefix("/") else { return false };
    match (seen(path), seen(&root.join(inside))) {
        (Ok(here), Ok(there)) => here != there,
        (Ok(_), Err(e)) => e.kind() == std::io::ErrorKind::NotFound && root.metadata().is_ok(),
        _ => false,
    }
}

/// The owner's code in this process.
fn embedded(request: &OpenRun) -> Result<(Session, Option<Owner>)> {
    let embedded = Embedded::start(EmbeddedOptions::default())?;
    let session = Session::open(Session::greet(embedded.socket())?, request)?;
    Ok((session, Some(Owner { embedded: Some(embedded), pid: std::process::id() })))
}

/// Opens the session of a rank whose run is on another host.
pub fn session_from_afar(
    remote: &RemoteRun,
    mode: Mode,
    options: &OpenOptions,
    rank_and_size: (u32, u32),
) -> Result<Session> {
    let request = request(&remote.url, mode, options, rank_and_size)?;
    let remote = &RemoteRun { elsewhere: request.elsewhere, ..remote.clone() };
    if !matches!(mode, Mode::Write | Mode::Create) {
        crate::remote::send_rest(remote)?;
    }
    let (mut lost, mut again): (Option<Instant>, _) = (None, CALL_AGAIN);
    let session = loop {
        let tried = match forebay_client::remote::start(remote.clone()) {
            // Nobody is there in the first place.
            Err(e) if lost.is_none() => return Err(e),
            wire => wire.and_then(|wire| Session::open(wire, &request)),
        };
        let patience = |e: &Error| if e.code() == Code::NoServer { RETRY } else { remote.patience };
        match tried {
            // The line broke, or the agent there died, before the answer came. Whether a run that is there
            // then is the one that was to be made cannot be told from here.
            Err(e)
                if mode != Mode::Create
                    && is_cut(&e, lost.is_some())
                    && lost.is_none_or(|since| since.elapsed() < patience(&e)) =>
            {
                lost.get_or_insert_with(Instant::now);
                std::thread::sleep(again.pause());
            }
            done => break done?,
        }
    };
    if mode == Mode::Write {
        forebay_client::remote::forget_rests(&remote.url, &session.opened().run_id);
    }
    Ok(session)
}

pub fn request(path: &str, mode: Mode, options: &OpenOptions, (rank, size): (u32, u32)) -> Result<OpenRun> {
    Ok(OpenRun {
        path: path.to_owned(),
        mode,
        rank,
        size,
        full: options.full,
        scratch: options.scratch,
        buffer: options.buffer,
        program: options.program.clone().unwrap_or_else(program),
        elsewhere: options.elsewhere.map_or_else(environment::elsewhere, Ok)?,
    })
}

/// A session at an agent goes on at another one when the agent dies. All ranks start it through the same
/// lock, so they find the same one.
fn successor() -> Successor {
    Arc::new(|| {
        let socket = forebay_agent::start_by_need()?;
        greeted(&socket)?.ok_or_else(|| {
            Error::new(Code::ServerLost, format!("the agent at {} has left", socket.display()))
        })
    })
}

/// A connection to the agent, or `None` when there is none.
pub fn greeted(socket: &Path) -> Result<Option<Wire>> {
    match Session::greet(socket) {
        Ok(wire) => Ok(Some(wire)),
        Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) => Ok(None),
        // It answered a moment ago.
        Err(e) if e.code() == Code::Timeout => {
            Err(Error::new(Code::ServerLost, format!("the agent does not answer: {}", e.text())))
        }
        Err(e) => Err(e),
    }
}

fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|| "program".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    #[test]
    fn a_process_that_has_ended_is_not_one_that_sees_other_directories() {
        let shm = directories::shm_dir();
        assert!(!differs(std::process::id(), &shm));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // It has ended and is still a process: what it saw cannot be looked up any more.
        let id = Pid::from_child(&child);
        waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(!differs(child.id(), &shm));
        child.wait().unwrap();
        assert!(!differs(child.id(), &shm));
    }
}
