//! Asking owners: what the command line does with a socket.

use crate::diary::seconds_now;
use crate::rendezvous::Address;
use crate::start::{running, running_or_silent};
use crate::words::{AdminRequest, Listening, Owners, RunStatus, Silent, Status, Steered, Unlisted};
use forebay_host::{Process, ProcessState, directories, identity};
use forebay_link::Wire;
use forebay_link::net::{Address as NetAddress, Keys};
use forebay_link::silence::GREETING;
use forebay_types::control::PageLinks;
use forebay_types::watch::{Act, State};
use forebay_types::{Code, Error, Result};
use serde::de::DeserializeOwned;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long it may take to reach another host.
const CALLING: Duration = Duration::from_secs(5);
/// How often it is asked whether a program has begun its loop, and looked for the successor of an owner.
const PAUSE: Duration = Duration::from_millis(20);
/// How long an owner may be named in a run that it does not know yet.
const EARLY: Duration = Duration::from_millis(500);
/// How long the successor of an owner that died may take to be there.
const SUCCESSION: Duration = Duration::from_secs(2);
/// How long it may take to answer beyond what is waited for on purpose.
const ANSWER: Duration = Duration::from_secs(10);

fn ask<T: DeserializeOwned>(socket: &Path, request: &AdminRequest, wait: Duration) -> Result<T> {
    ask_over(Wire::connect_as(socket, "cli", GREETING)?, request, wait)
}

fn ask_over<T: DeserializeOwned>(mut wire: Wire, request: &AdminRequest, wait: Duration) -> Result<T> {
    let (answer, _) = wire.ask_with(request, &[], wait + ANSWER)?;
    serde_json::from_value(answer).map_err(not_understood)
}

fn not_understood(e: serde_json::Error) -> Error {
    Error::new(
        Code::VersionMismatch,
        format!("the answer is not understood: {e}; use one version on both sides"),
    )
}

fn agent() -> Result<PathBuf> {
    running()?.ok_or_else(|| {
        Error::new(Code::NoServer, "no agent of this user is up on this host; `forebay up` starts one")
    })
}

/// Every owner of this user on this node: the agent first, then embedded ones.
pub fn owners() -> Result<Owners> {
    let mut found = Owners::default();
    let agent = running_or_silent()?;
    let sockets = sockets("run-")?;
    for (role, socket) in agent.iter().map(|s| ("agent", s)).chain(sockets.iter().map(|s| ("run", s))) {
        match look(role, socket) {
            Look::Answers(status) => found.answering.push(*status),
            Look::Silent(silent) => found.silent.push(silent),
            // Whoever ends while we ask has nothing any more, and one of another version cannot be asked.
            Look::Gone => {}
        }
    }
    found.unlisted = unlisted(&found.answering)?;
    Ok(found)
}

/// The sockets of this user's processes that begin with a role.
fn sockets(role: &str) -> Result<Vec<PathBuf>> {
    let dir = directories::runtime_dir()?;
    let entries =
        std::fs::read_dir(&dir).map_err(|e| Error::io(format!("cannot read {}", dir.display()), e))?;
    let is_of_role = |p: &PathBuf| {
        let name = p.file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| n.starts_with(role) && n.ends_with(".sock"))
    };
    let mut sockets: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(is_of_role).collect();
    sockets.sort();
    Ok(sockets)
}

/// The servers that live and that none of these owners knows.
fn unlisted(owners: &[Status]) -> Result<Vec<Unlisted>> {
    let known: Vec<u32> =
        owners.iter().flat_map(|owner| &owner.directory.servers).map(|server| server.info.pid).collect();
    let lives = |socket: PathBuf| {
        let process = Wire::listening(&socket).filter(Process::alive)?;
        let stopped = process.state() == ProcessState::Stopped;
        Some(Unlisted { pid: process.pid, socket: socket.display().to_string(), stopped })
    };
    let servers = sockets("server-")?.into_iter().filter_map(lives);
    Ok(servers.filter(|server| !known.contains(&server.pid)).collect())
}

/// Whether servers of this user live, whoever knows them: a broker that begins now is to hear of them.
pub fn servers_live() -> bool {
    unlisted(&[]).is_ok_and(|servers| !servers.is_empty())
}

/// What a look at a socket finds.
enum Look {
    Answers(Box<Status>),
    Silent(Silent),
    Gone,
}

/// Asks an owner, but for one that is stopped: it would be waited for in vain.
fn look(role: &str, socket: &Path) -> Look {
    let process = Wire::listening(socket);
    let is_stopped = |p: &Process| p.state() == ProcessState::Stopped;
    if !process.as_ref().is_some_and(is_stopped) {
        match ask(socket, &AdminRequest::Status, Duration::ZERO) {
            Ok(status) => return Look::Answers(Box::new(status)),
            Err(e) if matches!(e.code(), Code::Timeout | Code::ServerLost) => {}
            // It answers, in words of another version.
            Err(_) => return Look::Gone,
        }
    }
    let Some(process) = process.filter(Process::alive) else { return Look::Gone };
    let runs = forebay_store::lock::held_by(process.pid);
    Look::Silent(Silent {
        role: role.to_owned(),
        pid: process.pid,
        socket: socket.display().to_string(),
        stopped: is_stopped(&process),
        runs: runs.iter().map(|run| run.display().to_string()).collect(),
    })
}

/// Tells the agent to stay, and what it is.
pub fn stay() -> Result<Status> {
    let socket = agent()?;
    ask::<()>(&socket, &AdminRequest::Stay, Duration::ZERO)?;
    ask(&socket, &AdminRequest::Status, Duration::ZERO)
}

/// Tells the agent under which directory it takes runs that ranks on other hosts write.
pub fn take_runs(dir: &Path) -> Result<()> {
    ask(&agent()?, &AdminRequest::TakeRuns { dir: dir.to_owned() }, Duration::ZERO)
}

/// The directory of a run that is named by an address of this user's agent, and the agent's process; none when the
/// address leads elsewhere: there is no such agent, or it does not say, or it is in another network name space.
pub fn directory_of(address: &NetAddress, run: &str) -> Result<Option<(PathBuf, u32)>> {
    let agent = running().ok().flatten().and_then(|socket| Wire::connect_as(&socket, "cli", GREETING).ok());
    let Some((wire, pid)) = agent.and_then(|wire| wire.process().map(|p| (wire, p.pid))) else {
        return Ok(None);
    };
    let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    if network("self").is_none_or(|ours| network(&pid.to_string()) != Some(ours)) {
        return Ok(None);
    }
    // A name that nobody knows is told by who calls there.
    let known = (address.host.as_str(), address.port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = known.into_iter().flatten().collect();
    let request = AdminRequest::Directory { addresses, run: run.to_owned() };
    let dir: Option<PathBuf> = ask_over(wire, &request, Duration::ZERO)?;
    Ok(dir.map(|dir| (dir, pid)))
}

/// Has the agent listen for other hosts, with TLS over loopback too if asked.
pub fn listen(address: &str, tls: bool) -> Result<Listening> {
    let request = AdminRequest::Listen { address: address.to_owned(), tls };
    ask(&agent()?, &request, Duration::ZERO)
}

/// Tells the agent to drain and go, and waits until its process has ended. Gives its pid.
pub fn down(force: bool, wait: Duration) -> Result<u32> {
    let socket = agent()?;
    let mut wire = Wire::connect_as(&socket, "cli", GREETING)?;
    let process = wire.process();
    let pid = wire.peer().pid;
    wire.ask_with(&AdminRequest::Down { force }, &[], ANSWER)?;
    let until = Instant::now() + wait;
    // One of another pid name space is not seen; its end closes the connection.
    while process.map_or_else(|| !wire.peer_gone(), |p| p.alive()) {
        if Instant::now() >= until {
            return Err(Error::new(
                Code::Timeout,
                format!(
                    "the agent (pid {pid}) still drains after {} s; look again with `forebay status`",
                    wait.as_secs()
                ),
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(pid)
}

/// The socket of the owner of a run, as the run's `agent.json` names it. Where that one has ended its successor is
/// waited for: the program may be well.
pub fn owner_of(run: &Path) -> Result<PathBuf> {
    let until = Instant::now() + SUCCESSION;
    loop {
        match owner_now(run)? {
            Ok(socket) => return Ok(socket),
            Err(nobody) if Instant::now() >= until => return Err(nobody),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The socket of the owner that a run has now, without waiting for a successor. The inner error says that the last
/// owner has ended.
fn owner_now(run: &Path) -> Result<Result<PathBuf>> {
    let nobody = |why: &str| {
        Error::new(
            Code::NotFound,
            format!("nobody writes the run {} now{why}; start its program first", run.display()),
        )
    };
    if !run.is_dir() {
        return Err(Error::new(Code::NotFound, format!("there is no run {}; check the name", run.display())));
    }
    let named = run.join(forebay_store::layout::AGENT);
    if std::fs::File::open(&named).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied) {
        return Err(Error::new(
            Code::Refused,
            format!(
                "the run {} is another user's: only that user steers it and gives out its links",
                run.display()
            ),
        ));
    }
    let address = Address::read(&named).ok_or_else(|| nobody(""))?;
    if address.host != identity::host() {
        return Err(Error::new(
            Code::NotFound,
            format!("the run {} belongs to a process on host {}; say it there", run.display(), address.host),
        ));
    }
    if !address.alive() {
        return Ok(Err(nobody(&format!(", its last owner (pid {}) has ended", address.pid))));
    }
    Ok(Ok(address.socket))
}

/// The links of a run's page; the page is started when it is not there.
pub fn links(run: &Path) -> Result<PageLinks> {
    ask(&owner_of(run)?, &AdminRequest::Links { run: text(run)? }, Duration::ZERO)
}

/// What a script shows to the page of a run.
pub fn token(run: &Path, operator: bool) -> Result<String> {
    ask(&owner_of(run)?, &AdminRequest::Token { run: text(run)?, operator }, Duration::ZERO)
}

/// Waits, at most so long, until an operator's link of the page was opened. Says whether it was.
pub fn opened(run: &Path, link: &str, wait: Duration) -> Result<bool> {
    let (link, wait_ms) = (link.to_owned(), wait.as_millis() as u64);
    ask(&owner_of(run)?, &AdminRequest::Opened { run: text(run)?, link, wait_ms }, wait)
}

/// Steers a run and waits, at most so long, until every rank has done it. Before its first loop nothing is asked of it
/// until it begins one, which `says` hears: who gives up leaves nothing behind. Without time to wait the act is left
/// there, for the first head.
pub fn steer(run: &Path, who: &str, act: Act, wait: Duration, says: &dyn Fn(&str)) -> Result<Steered> {
    let is_it = |found: &RunStatus| found.path == run.to_string_lossy();
    let (began, asked) = (Instant::now(), seconds_now());
    loop {
        let left = wait.saturating_sub(began.elapsed());
        let wire = Wire::connect_as(&owner_of(run)?, "cli", GREETING);
        let done = wire.and_then(|wire| steer_over(wire, text(run)?, &is_it, (who, act.clone(), left), says));
        let Err(e) = done else { return done };
        // One that follows a dead one may be named before it knows the run: it has not written the act down.
        let is_early =
            e.code() == Code::NotFound && began.elapsed() < EARLY && told_of(&owner_of(run)?, run)?.is_none();
        // The owner died over it. What it had written down its successor carries out; the rest is asked for again.
        if !is_early && (e.code() != Code::ServerLost || began.elapsed() > wait.max(SUCCESSION)) {
            return Err(e);
        }
        if is_early {
            std::thread::sleep(PAUSE);
        }
        // It may have been the last thing that the program did.
        let owner = owner_of(run);
        let left = wait.saturating_sub(began.elapsed());
        if let Some(done) = fate_of(run, owner.as_deref().ok(), (who, &act, asked), left)? {
            return done;
        }
        owner?;
    }
}

/// What an owner says of a run, if it knows it.
fn told_of(owner: &Path, run: &Path) -> Result<Option<RunStatus>> {
    let status: Status = ask(owner, &AdminRequest::Status, Duration::ZERO)?;
    Ok(status.runs.into_iter().find(|found| found.path == run.to_string_lossy()))
}

/// What became of an act that was asked for since a moment, as the log of the run says; none when it is not there, or
/// has no end and nobody owns the run any more.
fn fate_of(
    run: &Path,
    owner: Option<&Path>,
    (who, act, since): (&str, &Act, f64),
    wait: Duration,
) -> Result<Option<Result<Steered>>> {
    let until = Instant::now() + wait;
    let reader = forebay_store::Reader::open(run)?;
    let is_same = |logged: &Act| match (logged, act) {
        // A value is logged as the type of its parameter has it.
        (Act::Set { name, .. }, Act::Set { name: ours, .. }) => name == ours,
        _ => logged == act,
    };
    let is_it = |logged: &forebay_store::catalog::Act| {
        logged.asked >= since
            && logged.who == who
            && serde_json::from_str(&logged.act).is_ok_and(|a: Act| is_same(&a))
    };
    loop {
        let Some(logged) = reader.acts()?.into_iter().rev().find(is_it) else { return Ok(None) };
        let text = logged.text.unwrap_or_default();
        match logged.code {
            Some(code) if code != 0 => {
                let code = Code::from_number(code).unwrap_or(Code::Refused);
                return Ok(Some(Err(Error::new(code, text))));
            }
            None if owner.is_none() => return Ok(None),
            None if Instant::now() < until => std::thread::sleep(PAUSE),
            code => {
                let state = match owner {
                    Some(owner) => told_of(owner, run)?.map_or(State::Lost, |found| found.state),
                    None => State::Ended,
                };
                let text = if code.is_some() { text } else { "waits for its step".to_owned() };
                return Ok(Some(Ok(Steered {
                    id: logged.id,
                    applied: code.is_some(),
                    step: logged.step,
                    text,
                    state,
                })));
            }
        }
    }
}

/// Seconds, for people.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// Whether none of the ranks has come to the head of a loop, and all go on to one as far as is known.
fn is_before_its_loop(found: &RunStatus) -> bool {
    let may_loop = !matches!(found.state, State::Over | State::Quitting | State::Ended | State::Lost);
    may_loop && !found.ranks.is_empty() && found.ranks.iter().all(|rank| rank.step.is_none())
}

fn steer_over(
    mut wire: Wire,
    run: String,
    is_it: &dyn Fn(&RunStatus) -> bool,
    (who, act, wait): (&str, Act, Duration),
    says: &dyn Fn(&str),
) -> Result<Steered> {
    let until = Instant::now() + wait;
    let mut said = wait.is_zero();
    while !wait.is_zero() {
        let (answer, _) = wire.ask_with(&AdminRequest::Status, &[], ANSWER)?;
        let status: Status = serde_json::from_value(answer).map_err(not_understood)?;
        if !status.runs.iter().filter(|found| is_it(found)).any(is_before_its_loop) {
            break;
        }
        if Instant::now() >= until {
            return Err(Error::new(
                Code::Timeout,
                format!(
                    "{run}: the program has begun no loop in {} s, and acts take place at the heads of one: nothing was asked of it; give it longer (--timeout), or leave the act there for the first head (--timeout 0)",
                    rounded(wait)
                ),
            ));
        }
        if !std::mem::replace(&mut said, true) {
            says(&format!(
                "{run}: the program has begun no loop yet, and acts take place at the heads of one: this waits for it, at most {} s; given up before, nothing is asked of the program",
                rounded(wait)
            ));
        }
        std::thread::sleep(PAUSE);
    }
    let left = until.saturating_duration_since(Instant::now());
    let wait_ms = if wait.is_zero() { 0 } else { (left.as_millis() as u64).max(1) };
    ask_over(wire, &AdminRequest::Steer { run, who: who.to_owned(), act, wait_ms }, wait)
}

/// The links of the page of a run on another host, where they are meant.
pub fn links_of_remote(address: &NetAddress, name: &str) -> Result<PageLinks> {
    ask_over(call(address)?, &AdminRequest::Links { run: name.to_owned() }, Duration::ZERO)
}

/// What a script shows to the page of a run on another host.
pub fn token_of_remote(address: &NetAddress, name: &str, operator: bool) -> Result<String> {
    ask_over(call(address)?, &AdminRequest::Token { run: name.to_owned(), operator }, Duration::ZERO)
}

/// Waits until a link of the page of a run on another host was opened.
pub fn opened_remote(address: &NetAddress, name: &str, link: &str, wait: Duration) -> Result<bool> {
    let (run, link, wait_ms) = (name.to_owned(), link.to_owned(), wait.as_millis() as u64);
    ask_over(call(address)?, &AdminRequest::Opened { run, link, wait_ms }, wait)
}

/// Steers a run on another host.
pub fn steer_remote(
    address: &NetAddress,
    name: &str,
    who: &str,
    act: Act,
    wait: Duration,
    says: &dyn Fn(&str),
) -> Result<Steered> {
    let named = |path: &str| path.strip_suffix(".fb").unwrap_or(path).to_owned();
    let end = format!("/{}", named(name));
    let is_it = |found: &RunStatus| named(&found.path).ends_with(&end);
    steer_over(call(address)?, name.to_owned(), &is_it, (who, act, wait), says)
}

fn call(address: &NetAddress) -> Result<Wire> {
    Wire::connect_net(address, "cli", &Keys::of_home()?, CALLING)
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::bad(format!("the path {} is not UTF-8, which requests are; rename it", path.display()))
    })
}
