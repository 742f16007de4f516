//! The socket of an owner: who connects is greeted, and served when something comes.
//!
//! ```text
//!  connect -> greet (version, user) -> requests: RunRequest    a rank; the end of the connection
//!                                                              is the end of its session
//!                                                BrokerRequest a server or a client
//!                                                AdminRequest  a person
//! ```

use crate::heart::SWEEPS;
use crate::owner::{Opener, Session};
use crate::peers::Peer;
use crate::service::Shared;
use crate::words::AdminRequest;
use forebay_link::{Incoming, Listener, Message, Wire};
use forebay_store::Says;
use forebay_types::control::{OpeningWaits, RunOpened, RunRequest};
use forebay_types::directory::BrokerRequest;
use forebay_types::line::LineRequest;
use forebay_types::{Code, Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most connections at a time; who comes then is refused.
const CONNECTIONS: usize = 8192;
/// Most connections that are taken before others are looked at.
const AT_ONCE: usize = 256;
/// How long a peer may take to greet.
const GREETING: Duration = Duration::from_secs(5);

/// Anything that may be asked here.
#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    Run(RunRequest),
    Broker(BrokerRequest),
    Admin(AdminRequest),
    Line(LineRequest),
}

/// Takes what has arrived, and has served who says something. Returns when the owner stops.
pub fn listen(shared: &Arc<Shared>, listener: &Listener) {
    let peers = &shared.peers;
    let mut done = peers.hear(listener.as_fd()).and_then(|()| peers.hear(shared.stop.as_fd()));
    while done.is_ok() && !shared.stop.given() {
        admit(shared, listener);
        done = peers.wait();
    }
    if let Err(e) = done {
        shared.diary.line(format_args!("stops listening: {e}"));
    }
    peers.close();
}

/// Takes the connections that wait: not more than some at once, or who connects all the time would keep the others from
/// being served.
pub fn admit(shared: &Arc<Shared>, listener: &Listener) {
    for _ in 0..AT_ONCE {
        match listener.accept(Some(std::time::Instant::now())) {
            Ok(Some(incoming)) => match number(shared) {
                Ok(number) => {
                    shared.peers.rest(number, Caller::New(shared.clone(), number, incoming), Some(GREETING));
                }
                Err(e) => incoming.refuse(&e),
            },
            Ok(None) => return,
            Err(e) => {
                shared.refused.line(shared.diary, format_args!("a connection was not taken: {e}"));
                // The connection still waits, and so do we.
                if e.code() != Code::Refused {
                    std::thread::sleep(Duration::from_millis(50));
                    return;
                }
            }
        }
    }
}

/// Serves a connection from another host, which was greeted in the lobby and may have brought more with that.
pub fn admit_greeted(shared: &Arc<Shared>, wire: Wire) {
    if let Ok(number) = number(shared) {
        let connection = Connection::new(shared, number, wire);
        shared.peers.serve_at_once(number, Caller::Greeted(Box::new(connection)));
    }
}

/// The number of one more connection, if there may be one more.
fn number(shared: &Shared) -> Result<u64> {
    if shared.connections.fetch_add(1, Ordering::AcqRel) < CONNECTIONS {
        return Ok(shared.numbers.fetch_add(1, Ordering::Relaxed));
    }
    shared.leave_connection();
    let full = Error::new(
        Code::Full,
        format!(
            "{CONNECTIONS} connections are open to the {} (pid {}), which is the limit; end programs that are connected to it, or give this one an agent of its own by FOREBAY_RUNTIME_DIR",
            shared.role,
            std::process::id()
        ),
    );
    shared.refused.line(shared.diary, format_args!("a connection was refused: {full}"));
    Err(full)
}

/// Who has connected.
pub enum Caller {
    /// It has to greet.
    New(Arc<Shared>, u64, Incoming),
    /// It is served.
    Greeted(Box<Connection>),
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Caller::New(.., incoming) => incoming.as_fd(),
            Caller::Greeted(connection) => connection.wire.as_fd(),
        }
    }
}

impl Peer for Caller {
    fn serve(self) -> Option<Caller> {
        let mut connection = match self {
            Caller::Greeted(connection) => connection,
            Caller::New(shared, number, incoming) => match incoming.greet(shared.role, GREETING) {
                Ok(wire) => Box::new(Connection::new(&shared, number, wire)),
                Err(e) => {
                    not_greeted(&shared, &e);
                    return None;
                }
            },
        };
        if connection.serve() {
            return Some(Caller::Greeted(connection));
        }
        connection.end();
        None
    }

    fn left(&self) -> bool {
        matches!(self, Caller::New(.., incoming) if incoming.left())
    }

    fn end(self, why: Option<&Error>) {
        match self {
            Caller::Greeted(connection) => {
                why.into_iter().for_each(|e| connection.failed(e));
                connection.end();
            }
            Caller::New(shared, ..) => match why {
                Some(e) => not_greeted(&shared, e),
                None => shared.leave_connection(),
            },
        }
    }
}

fn not_greeted(shared: &Shared, e: &Error) {
    shared.diary.line(format_args!("a connection was not greeted: {e}"));
    shared.leave_connection();
}

/// A connection that is served, and what it has here.
pub struct Connection {
    shared: Arc<Shared>,
    wire: Wire,
    number: u64,
    opened: Option<(Session, RunOpened)>,
    session: Option<Session>,
    /// It goes on as a line to another host: the id of the request that said so, and what for.
    line: Option<(u64, LineRequest)>,
}

impl Connection {
    fn new(shared: &Arc<Shared>, number: u64, wire: Wire) -> Connection {
        Connection { shared: shared.clone(), wire, number, opened: None, session: None, line: None }
    }

    /// Carries out what has come; says whether more may come.
    fn serve(&mut self) -> bool {
        while self.line.is_none() {
            match self.wire.try_receive() {
                Ok(Some(message)) => {
                    if let Err(e) = self.handle(message) {
                        self.failed(&e);
                        return false;
                    }
                }
                Ok(None) => return !self.shared.stop.given(),
                Err(_) => return false,
            }
        }
        false
    }

    fn failed(&self, e: &Error) {
        self.shared.diary.line(format_args!("a connection failed: {e}"));
    }

    /// What it has here is over; as a line it goes on.
    fn end(mut self) {
        if let Some(broker) = &self.shared.broker {
            // It may have been a server that was killed.
            if broker.needed() {
                self.shared.sweeps.store(SWEEPS, Ordering::Relaxed);
            }
            broker.lost(self.number);
        }
        // A rank that asked to open and went before it attached leaves its seat, too.
        if let Some((session, _)) = self.opened.take() {
            session.end();
        }
        if let Some(session) = self.session.take() {
            session.end();
        }
        let Connection { shared, wire, line, .. } = self;
        if let Some((id, request)) = line {
            crate::remote::serve(&shared, wire, id, request);
        } else {
            // The other side hears of its end before anybody counts on that.
            drop(wire);
        }
        shared.leave_connection();
    }

    fn handle(&mut self, mut message: Message) -> Result<()> {
        if !message.is_ask() {
            return Ok(());
        }
        let fds = std::mem::take(&mut message.fds);
        match message.parse::<Request>() {
            Ok(Request::Run(RunRequest::Attach)) => self.attach(message.id, fds),
            Ok(Request::Line(request)) => {
                self.line = Some((message.id, request));
                Ok(())
            }
            Ok(request) => {
                let last = matches!(request, Request::Admin(AdminRequest::Down { .. }));
                let answer = self.answer(request);
                let done = self.wire.reply(message.id, &answer);
                if last && answer.is_ok() {
                    self.shared.ask_to_leave();
                }
                done
            }
            Err(_) => {
                let text = String::from_utf8_lossy(&message.json);
                let short: String = text.chars().take(80).collect();
                let error = Error::bad(format!(
                    "the {} (Forebay {}) knows no request {short}; use one version on both sides",
                    self.shared.role,
                    env!("CARGO_PKG_VERSION")
                ));
                self.wire.refuse(message.id, &error)
            }
        }
    }

    fn answer(&mut self, request: Request) -> Result<Value> {
        let value = match request {
            Request::Admin(request) if self.wire.net().is_some() => {
                return self.shared.admin(crate::remote::admin(&self.shared, request)?);
            }
            Request::Admin(request) => return self.shared.admin(request),
            Request::Broker(request) => {
                return match &self.shared.broker {
                    Some(broker) => {
                        broker.request(self.number, request).inspect(|_| self.shared.heart.look_again())
                    }
                    None => Err(Error::new(
                        Code::NoServer,
                        "this is a run embedded in a program, it hosts no broker; start one with `forebay up`",
                    )),
                };
            }
            Request::Run(_) if self.wire.net().is_some() => {
                return Err(Error::new(
                    Code::Refused,
                    "this agent keeps runs of programs on its own host only; open the run there",
                ));
            }
            Request::Run(RunRequest::OpenRun(open)) => {
                let hears = self.hears();
                serde_json::to_value(self.seat(|s, pid| s.runs.open(&open, &Opener::local(pid), hears))?)
            }
            Request::Run(RunRequest::Resume(what)) => {
                let hears = self.hears();
                serde_json::to_value(self.seat(|s, pid| s.runs.resume(what, pid, hears))?)
            }
            Request::Run(RunRequest::Attach) | Request::Line(_) => Ok(Value::Null),
        };
        value.map_err(|e| Error::internal(format!("an answer cannot be written as JSON: {e}")))
    }

    /// Who asks to open a run hears what the opening waits for. An embedded owner says it itself.
    fn hears(&self) -> Option<Says> {
        let notes = (self.shared.role == "agent").then(|| self.wire.notes())?;
        Some(Arc::new(move |text: &str| {
            // One that went meanwhile is noticed when it is answered.
            let _ = notes.send(&OpeningWaits { waits: text.to_owned() });
        }))
    }

    /// Gives this connection its session, the only one.
    fn seat(
        &mut self,
        way: impl FnOnce(&Arc<Shared>, u32) -> Result<(Session, RunOpened)>,
    ) -> Result<RunOpened> {
        if self.opened.is_some() || self.session.is_some() {
            return Err(Error::bad("this connection has a session already; make another connection"));
        }
        let pid = self.wire.process().map_or(0, |p| p.pid);
        let (session, opened) = way(&self.shared, pid)?;
        self.opened = Some((session, opened.clone()));
        Ok(opened)
    }

    /// The rank hands over its segment and gets the doorbell of the owner.
    fn attach(&mut self, id: u64, mut fds: Vec<OwnedFd>) -> Result<()> {
        let attached = match (self.opened.take(), fds.pop()) {
            (Some((session, _)), Some(fd)) => match session.attach(fd) {
                Ok(bell) => {
                    self.session = Some(session);
                    Ok(bell)
                }
                Err(e) => {
                    session.end();
                    Err(e)
                }
            },
            _ => {
                Err(Error::bad("a session is attached once, after OpenRun and with the segment's descriptor"))
            }
        };
        match attached {
            Ok(bell) => self.wire.answer(id, &Value::Null, &[bell.as_fd()]),
            Err(e) => self.wire.refuse(id, &e),
        }
    }
}
