//! The socket of an owner: who connects is greeted and served on a thread of its own, which
//! sleeps in `poll` until something comes.
//!
//! ```text
//!  connect -> greet (version, user) -> requests: RunRequest    a rank; the end of the connection
//!                                                              is the end of its session
//!                                                BrokerRequest a server or a client
//!                                                AdminRequest  a person
//! ```

use crate::lock::lock;
use crate::owner::{Opener, Session};
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
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most connections at a time; more are closed at once.
const CONNECTIONS: usize = 8192;
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

/// Takes what has arrived. Returns when the owner stops.
pub fn listen(shared: &Arc<Shared>, listener: &Listener) {
    while !shared.stop.given() {
        match shared.stop.wait(listener.as_fd(), None) {
            Ok(_) => admit(shared, listener),
            Err(e) => return shared.diary.line(format_args!("stops listening: {e}")),
        }
    }
}

/// Serves every connection that waits; says whether there was one.
pub fn admit(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        match listener.accept(Some(std::time::Instant::now())) {
            Ok(Some(incoming)) => admit_one(shared, incoming),
            Ok(None) => return,
            Err(e) => {
                shared.diary.line(format_args!("a connection was not taken: {e}"));
                // Out of descriptors, say: the connection still waits, and so do we.
                if e.code() != Code::Refused {
                    std::thread::sleep(Duration::from_millis(50));
                    return;
                }
            }
        }
    }
}

fn admit_one(shared: &Arc<Shared>, incoming: Incoming) {
    admit_by(shared, move |role| incoming.greet(role, GREETING));
}

/// Serves a connection from another host, which was greeted in the lobby.
pub fn admit_greeted(shared: &Arc<Shared>, wire: Wire) {
    admit_by(shared, move |_| Ok(wire));
}

fn admit_by(shared: &Arc<Shared>, greet: impl FnOnce(&'static str) -> Result<Wire> + Send + 'static) {
    let number = shared.numbers.fetch_add(1, Ordering::Relaxed);
    if shared.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS {
        shared.leave_connection();
        return shared.diary.line(format_args!("{CONNECTIONS} connections are open; one more was closed"));
    }
    let theirs = shared.clone();
    let spawned = std::thread::Builder::new().name("fb-peer".into()).spawn(move || {
        match greet(theirs.role) {
            Ok(wire) => {
                Connection { shared: &theirs, wire, number, opened: None, session: None, line: None }.serve()
            }
            Err(e) => theirs.diary.line(format_args!("a connection was not greeted: {e}")),
        }
        theirs.leave_connection();
    });
    if let Err(e) = spawned {
        shared.leave_connection();
        shared.diary.line(format_args!("a connection was not served: {e}"));
    }
}

struct Connection<'a> {
    shared: &'a Arc<Shared>,
    wire: Wire,
    number: u64,
    opened: Option<(Session, RunOpened)>,
    session: Option<Session>,
    /// It goes on as a line to another host: the id of the request that said so, and what for.
    line: Option<(u64, LineRequest)>,
}

impl Connection<'_> {
    fn serve(mut self) {
        while self.line.is_none() {
            match self.wire.try_receive() {
                Ok(Some(message)) => {
                    if let Err(e) = self.handle(message) {
                        self.shared.diary.line(format_args!("a connection failed: {e}"));
                        break;
                    }
                }
                Ok(None) if self.shared.stop.given() => break,
                Ok(None) => {
                    if let Err(e) = self.shared.stop.wait(self.wire.as_fd(), None) {
                        self.shared.diary.line(format_args!("a connection failed: {e}"));
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        if let Some(broker) = &self.shared.broker {
            broker.lost(self.number);
        }
        // A rank that asked to open and went before it attached leaves its seat, too.
        if let Some((session, _)) = self.opened.take() {
            session.end();
        }
        if let Some(session) = self.session.take() {
            session.end();
        }
        if let Some((id, request)) = self.line.take() {
            match self.wire.into_stream() {
                Ok(stream) => crate::far::serve(self.shared, stream, id, request),
                Err(e) => self.shared.diary.line(format_args!("a line failed: {e}")),
            }
        }
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
                return self.shared.admin(crate::far::admin(self.shared, request)?);
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
        let hand = Mutex::new(self.wire.second_hand().ok().filter(|_| self.shared.role == "agent")?);
        Some(Arc::new(move |text: &str| {
            // One that went meanwhile is noticed when it is answered.
            let _ = lock(&hand).send(&OpeningWaits { waits: text.to_owned() }, &[]);
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
        let (session, opened) = way(self.shared, pid)?;
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
