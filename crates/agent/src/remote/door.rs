//! The first request of a line says what it is for.

use super::proxy::Proxy;
use super::{name, reading};
use crate::owner::{Opener, Session};
use crate::service::Shared;
use crate::words::AdminRequest;
use forebay_host::lock;
use forebay_link::Wire;
use forebay_store::{Reader, Says};
use forebay_types::control::{OpenRun, OpeningWaits};
use forebay_types::line::{After, Launched, Left, LineRequest, RemoteOpened};
use forebay_types::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How long a session whose rest is sent may take to be settled: its proxy is kept for a while.
const SETTLING: Duration = Duration::from_secs(75);
/// How long an old proxy of a rank that is opened anew may take to give up its seat.
const VACATING: Duration = Duration::from_secs(15);
/// Between two attempts of a rank whose seat, or whose rest, is somebody's still.
const AGAIN: Duration = Duration::from_millis(10);
/// How long a rank may take from opening a run to sending the sizes of its segment.
const ATTACHING: Duration = Duration::from_secs(30);

/// Serves a line whose first request, of that id, has come. Returns when it is over.
pub fn serve(shared: &Arc<Shared>, mut line: Wire, id: u64, request: LineRequest) {
    let done = match request {
        LineRequest::OpenRemote { open, host, pid, launched, after } => {
            rank(shared, line, id, &Asked { open, host, pid, launched, after })
        }
        LineRequest::ResumeRemote { key, heard } => match shared.proxies.resume(&key, (line, id, heard)) {
            Ok(()) => Ok(()),
            Err(back) => {
                let ((mut line, _, _), e) = *back;
                line.refuse(id, &e)
            }
        },
        LineRequest::ReadRemote { path } => reader(shared, line, id, &path),
        LineRequest::AttachRemote(_) => {
            line.refuse(id, &Error::bad("a line begins with OpenRemote, ResumeRemote or ReadRemote"))
        }
    };
    if let Err(e) = done {
        shared.diary.line(format_args!("a line from another host failed: {e}"));
    }
}

/// What a rank wants to open.
struct Asked {
    open: OpenRun,
    host: String,
    pid: u32,
    launched: Option<Launched>,
    after: Option<After>,
}

fn rank(shared: &Arc<Shared>, mut line: Wire, id: u64, asked: &Asked) -> Result<()> {
    let (session, opened) = match open_saying(shared, &mut line, asked) {
        Ok(both) => both,
        Err(e) => return line.refuse(id, &e),
    };
    if let Some(proxy) = attach(shared, &mut line, id, session, opened)? {
        proxy.serve(line.into_run());
    }
    Ok(())
}

fn attach<'a>(
    shared: &'a Arc<Shared>,
    line: &mut Wire,
    id: u64,
    session: Session,
    opened: RemoteOpened,
) -> Result<Option<Proxy<'a>>> {
    let asked = line.answer(id, &opened, &[]).and_then(|()| line.receive(ATTACHING));
    let measures = asked.and_then(|message| match message.parse() {
        Ok(LineRequest::AttachRemote(measures)) => Ok((message.id, measures)),
        _ => Err(Error::new(Code::Corrupt, "a rank did not send the sizes of its segment")),
    });
    let (id, measures) = match measures {
        Ok(both) => both,
        Err(e) => {
            session.end();
            return Err(e);
        }
    };
    match Proxy::attach(shared, session, &opened.opened, &measures) {
        // Who does not hear by what key it may come again cannot come again: its seat is free.
        Ok(proxy) => match line.answer(id, &proxy.attached(), &[]) {
            Ok(()) => Ok(Some(proxy)),
            Err(e) => {
                proxy.end();
                Err(e)
            }
        },
        Err(e) => line.refuse(id, &e).map(|()| None),
    }
}

/// As the run itself spells it.
fn plain(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// Opens it in a thread of its own, and passes on over the line what that waits for.
fn open_saying(shared: &Arc<Shared>, line: &mut Wire, asked: &Asked) -> Result<(Session, RemoteOpened)> {
    let (says, said) = mpsc::channel();
    let says = Mutex::new(says);
    let hears: Says = Arc::new(move |text: &str| {
        // Nobody may be here any more to pass it on.
        let _ = lock(&says).send(OpeningWaits { waits: text.to_owned() });
    });
    std::thread::scope(|scope| {
        let opening = scope.spawn(move || open_here(shared, asked, &hears));
        for waits in said {
            // A line that was cut meanwhile is noticed when the answer goes over it.
            let _ = line.send(&waits, &[]);
        }
        opening.join().unwrap_or_else(|_| Err(Error::internal("the thread that opened the run panicked")))
    })
}

fn open_here(shared: &Arc<Shared>, asked: &Asked, hears: &Says) -> Result<(Session, RemoteOpened)> {
    let dir = directory(shared, &asked.open.path)?;
    let path = dir.to_str().ok_or_else(|| Error::bad("the directory of runs is not UTF-8"))?.to_owned();
    let host: String = asked.host.chars().filter(|c| !c.is_control()).take(64).collect();
    let program = format!("{} on {host} (process {})", asked.open.program, asked.pid);
    let mut open = OpenRun { path, program, ..asked.open.clone() };
    if let Some(old) = &asked.after {
        (open.rank, open.size) = seat_of(&Reader::open(&dir)?, old)?;
    }
    let after = asked.after.as_ref().map(|old| old.session);
    let who = Opener::remote(asked.pid, host, asked.launched.clone()).bringing(after);
    let until = Instant::now() + VACATING;
    let (session, opened) = loop {
        let going = shared.proxies.evict(&plain(&dir), open.rank, after);
        match shared.runs.open(&open, &who, Some(hears.clone())) {
            Err(e) if e.code() == Code::Conflict && (going || after.is_some()) && Instant::now() < until => {
                std::thread::sleep(AGAIN);
            }
            done => break done?,
        }
    };
    let left = asked.after.as_ref().map(|old| settled(&dir, old.session)).transpose();
    match left {
        Ok(left) => Ok((session, RemoteOpened { opened, left })),
        Err(e) => {
            session.end();
            Err(e)
        }
    }
}

fn seat_of(reader: &Reader, After { session, own }: &After) -> Result<(u32, u32)> {
    let session = *session;
    if reader.segment_of(session)?.is_some_and(|name| !name.ends_with(&format!("-{own}"))) {
        let text =
            format!("session {session} is another one in a copy of the run; send its rest to that copy");
        return Err(Error::new(Code::Refused, text));
    }
    let row = reader.session(session)?.ok_or_else(|| {
        Error::new(Code::NotFound, format!("the run had no session {session}; it was made anew meanwhile"))
    })?;
    Ok((row.0, row.1))
}

/// What the catalog has of a session, once everything that came of it is applied or given up.
fn settled(dir: &Path, session: u64) -> Result<Left> {
    let reader = Reader::open(dir)?;
    let until = Instant::now() + SETTLING;
    loop {
        if let Some((_, _, applied, true)) = reader.session(session)? {
            let mut steps: Vec<i64> = reader.steps()?.iter().map(|s| s.step).collect();
            let given = reader.partial_steps()?.into_iter().filter(|row| row.has(session));
            steps.extend(given.map(|row| row.step));
            return Ok(Left { applied, steps });
        }
        if Instant::now() >= until {
            let text = format!("session {session} of the run is still in use; end its program first");
            return Err(Error::new(Code::Conflict, text));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn reader(shared: &Arc<Shared>, mut line: Wire, id: u64, path: &str) -> Result<()> {
    match directory(shared, path).and_then(|dir| Reader::open(&dir)) {
        Ok(reader) => {
            line.answer(id, &serde_json::Value::Null, &[])?;
            match reading::serve(shared, line.into_run(), reader) {
                // It has left.
                Err(e) if e.code() == Code::ServerLost => Ok(()),
                other => other,
            }
        }
        Err(e) => line.refuse(id, &e),
    }
}

/// The directory of a run by its name from afar.
pub fn directory(shared: &Shared, name: &str) -> Result<PathBuf> {
    let base = lock(&shared.remote_runs).clone();
    let at = lock(&shared.network).as_ref().map(|open| open.asked().clone());
    name::directory(base.as_deref(), name, at.as_ref())
}

/// A request of a person on another host: a run is named there as it is opened from there.
pub fn admin(shared: &Shared, request: AdminRequest) -> Result<AdminRequest> {
    let here = |name: &str| {
        let dir = directory(shared, name)?;
        dir.to_str().map(str::to_owned).ok_or_else(|| Error::bad("the directory of runs is not UTF-8"))
    };
    Ok(match request {
        AdminRequest::Links { run } => AdminRequest::Links { run: here(&run)? },
        AdminRequest::Token { run, operator } => AdminRequest::Token { run: here(&run)?, operator },
        AdminRequest::Opened { run, link, wait_ms } => {
            AdminRequest::Opened { run: here(&run)?, link, wait_ms }
        }
        AdminRequest::Steer { run, who, act, wait_ms } => {
            AdminRequest::Steer { run: here(&run)?, who, act, wait_ms }
        }
        AdminRequest::TakeRuns { .. } | AdminRequest::Directory { .. } => {
            return Err(Error::new(Code::Refused, "where an agent keeps runs is said on its own host"));
        }
        other => other,
    })
}
