//! Who owns the run: the node's agent if it is there, an agent started by need for several
//! ranks, or threads of this process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_agent::{Embedded, EmbeddedOptions};
use forebay_client::remote::Far;
use forebay_client::run::Session;
use forebay_link::Wire;
use forebay_types::control::{Mode, OpenRun};
use forebay_types::{Code, Error, Result};

use crate::OpenOptions;

/// An agent that leaves just now is asked again, or another one started, for so long.
const RETRY: Duration = Duration::from_secs(5);

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
    let path = dir.to_str().ok_or_else(|| {
        Error::bad(format!("the path {} is not UTF-8; choose another name for the run", dir.display()))
    })?;
    let request = request(path, mode, options, (rank, size));
    let agent = forebay_agent::running()?;
    if let Some(wire) = agent.map(|socket| greeted(&socket)).transpose()?.flatten() {
        return Ok((with_successor(Session::open(wire, &request)?), None));
    }
    if size == 1 {
        let embedded = Embedded::start(EmbeddedOptions::default())?;
        let session = Session::open(Session::greet(embedded.socket())?, &request)?;
        let owner = Owner { embedded: Some(embedded), pid: std::process::id() };
        return Ok((session, Some(owner)));
    }
    let began = Instant::now();
    loop {
        let socket = forebay_agent::start_by_need()?;
        match greeted(&socket)? {
            Some(wire) => return Ok((with_successor(Session::open(wire, &request)?), None)),
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

/// Opens the session of a rank whose run is on another host.
pub fn session_from_afar(
    far: &Far,
    mode: Mode,
    options: &OpenOptions,
    rank_and_size: (u32, u32),
) -> Result<Session> {
    if !matches!(mode, Mode::Write | Mode::Create) {
        crate::far::send_rest(far)?;
    }
    let wire = forebay_client::remote::start(far.clone())?;
    let session = Session::open(wire, &request(&far.url, mode, options, rank_and_size))?;
    if mode == Mode::Write {
        forebay_client::remote::forget_rests(&far.url, &session.opened().run_id);
    }
    Ok(session)
}

fn request(path: &str, mode: Mode, options: &OpenOptions, (rank, size): (u32, u32)) -> OpenRun {
    OpenRun {
        path: path.to_owned(),
        mode,
        rank,
        size,
        full: options.full,
        scratch: options.scratch,
        buffer: options.buffer,
        program: options.program.clone().unwrap_or_else(program),
    }
}

/// A session at an agent goes on at another one when the agent dies. All ranks start it through the same
/// lock, so they find the same one.
fn with_successor(session: Session) -> Session {
    session.on_loss(std::sync::Arc::new(|| {
        let socket = forebay_agent::start_by_need()?;
        greeted(&socket)?.ok_or_else(|| {
            Error::new(Code::ServerLost, format!("the agent at {} has left", socket.display()))
        })
    }));
    session
}

/// A connection to the agent, or `None` when there is none.
fn greeted(socket: &Path) -> Result<Option<Wire>> {
    match Session::greet(socket) {
        Ok(wire) => Ok(Some(wire)),
        Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) => Ok(None),
        Err(e) if e.code() == Code::Timeout => Err(Error::new(
            Code::ServerLost,
            format!(
                "the agent at {} does not answer; if it is stopped, let it go on with `kill -CONT`, or end it",
                socket.display()
            ),
        )),
        Err(e) => Err(e),
    }
}

fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|| "program".into())
}
