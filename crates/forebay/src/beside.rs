//! Who is none of the ranks and writes beside them: whom it asks. An owner on threads of a program is asked as an agent
//! is; a client itself never owns a run, for ranks that come then would depend on it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_agent::Address;
use forebay_client::remote::RemoteRun;
use forebay_client::run::Session;
use forebay_host::identity;
use forebay_link::Wire;
use forebay_store::{layout, lock};
use forebay_types::control::{Mode, NO_RANK};
use forebay_types::{Code, Error, Result};

use crate::OpenOptions;
use crate::owner::{greeted, request, shared};

/// How long an owner that comes or goes just now is asked again.
const RETRY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the session of a client.
pub fn session(dir: &Path, mode: Mode, options: &OpenOptions) -> Result<Session> {
    check(mode, options)?;
    if !dir.join(layout::CATALOG).exists() {
        return Err(Error::new(
            Code::NotFound,
            format!(
                "there is no run {}; a client opens one that is there, start its program first",
                dir.display()
            ),
        ));
    }
    let path = dir.to_str().ok_or_else(|| crate::owner::not_utf8(dir))?;
    let request = request(path, mode, options, (NO_RANK, 0))?;
    let began = Instant::now();
    loop {
        let run = dir.to_owned();
        let successor = Arc::new(move || owner_of(&run));
        let tried = owner_of(dir).and_then(|wire| Session::open_with(wire, &request, Some(successor)));
        match tried {
            Err(e) if is_passing(&e) && began.elapsed() < RETRY => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// The same of a run on another host: its agent there is asked, which stands for the client as for a rank.
pub fn session_from_afar(remote: &RemoteRun, mode: Mode, options: &OpenOptions) -> Result<Session> {
    check(mode, options)?;
    crate::owner::session_from_afar(remote, mode, options, (NO_RANK, 0))
}

/// What goes with a client and what does not.
fn check(mode: Mode, options: &OpenOptions) -> Result<()> {
    if mode != Mode::ReadWrite {
        return Err(Error::bad(format!(
            "a client opens a run that is there, with mode \"r+\", and not with {:?}; leave client out to make a run, or to read one",
            mode.name()
        )));
    }
    let given = [
        ("rank", options.rank.is_some()),
        ("size", options.size.is_some()),
        ("scratch", options.scratch),
        ("keep", options.keep.is_some()),
        ("pack", options.pack.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Error::bad(format!(
            "a client is none of the ranks, and {name} is theirs to say; leave it out"
        )));
    }
    Ok(())
}

/// A connection to whoever owns a run: who holds it says in the run's directory where it is asked. When nobody does,
/// it is the node's agent, which is started by need.
fn owner_of(dir: &Path) -> Result<Wire> {
    let wire = match lock::holder(&dir.join(layout::LOCK)) {
        Some(holder) => {
            let at = Address::read(&dir.join(layout::AGENT))
                .filter(|at| at.alive() && at.host == identity::host());
            let socket = at.map(|at| at.socket).ok_or_else(|| unreachable(dir, &holder))?;
            greeted(&socket)?
        }
        None => greeted(&forebay_agent::start_by_need()?)?,
    };
    let wire = wire.ok_or_else(|| {
        Error::new(Code::ServerLost, format!("the owner of the run {} has just left", dir.display()))
    })?;
    shared(&wire, dir)?;
    Ok(wire)
}

/// Why who holds a run cannot be asked.
fn unreachable(dir: &Path, holder: &lock::Holder) -> Error {
    let (run, pid, host) = (dir.display(), holder.pid, &holder.host);
    let text = match *host == identity::host() {
        true => {
            format!("the run {run} is held by process {pid}, which comes or leaves just now; open it again")
        }
        false => format!(
            "the run {run} is held by process {pid} on host {host}, where nobody listens for other hosts; start the client there"
        ),
    };
    Error::new(Code::Conflict, text)
}

/// Whether an owner comes or goes.
fn is_passing(e: &Error) -> bool {
    matches!(e.code(), Code::ServerLost | Code::Conflict | Code::NoServer | Code::Closed)
}
