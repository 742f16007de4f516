//! Getting to a server: one attachment for all threads of a client, and what a failure of it says about the server.
//!
//! ```text
//! first caller:  none known -> Attaching, and a thread of its own -> Attached, or none again
//! the others:                 wait for that one, each as long as it likes
//! ```
//! A server that a crowd calls for the first time is busy, not dead: it is waited for while its process lives. Dead is
//! one that refuses connections, whose process has ended or is stopped, or that is another one by now; only that is
//! told to the broker. What this process lacks itself (files, memory, threads) says nothing about any server.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_host::{Process, ProcessState, rlimits};
use forebay_link::call::NotLetIn;
use forebay_link::standing;
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};

use super::connection::{Client, Connection};
use super::{Inner, SLICE, Sent, lock};

/// How long a server whose process is stopped may take to let a client in: it may go on.
const STOPPED: Duration = Duration::from_secs(2);
/// How long one may take whose process lives, or cannot be seen.
const BUSY: Duration = Duration::from_secs(30);

/// What a client has of a server.
pub(super) enum Attachment {
    Attached(Arc<Connection>),
    Attaching(Arc<Attaching>),
}

/// What there is of a connection to a server.
pub(super) enum There {
    Attached(Arc<Connection>),
    /// It is being made, perhaps from now on.
    Attaching {
        begun: bool,
    },
    Nothing,
}

/// An attachment under way.
#[derive(Default)]
pub(super) struct Attaching {
    outcome: Mutex<Option<Result<Arc<Connection>, Sent>>>,
    told: Condvar,
}

/// Tells the outcome also when the attaching thread panics.
struct Teller {
    inner: Arc<Inner>,
    info: Arc<ServerInfo>,
    attaching: Arc<Attaching>,
}

/// A server that is being attached to, as far as its process tells.
pub(super) struct Knock<'a> {
    info: &'a ServerInfo,
    since: Instant,
}

impl Knock<'_> {
    pub fn at(info: &ServerInfo) -> Knock<'_> {
        Knock { info, since: Instant::now() }
    }

    fn is_younger_than(&self, age: Duration) -> bool {
        self.since.elapsed() < age
    }

    /// Whether it is worth waiting any longer.
    pub fn still(&self, process: Option<Process>) -> Result<()> {
        let who = || format!("server {:?} (pid {})", self.info.name, self.info.pid);
        match process.map(|p| p.state()) {
            Some(ProcessState::Gone) => Err(Error::new(Code::ServerLost, format!("{} has ended", who()))),
            Some(ProcessState::Stopped) if !self.is_younger_than(STOPPED) => {
                Err(Error::new(Code::ServerLost, format!("{} is stopped (SIGSTOP or a debugger)", who())))
            }
            _ if !self.is_younger_than(BUSY) => Err(Error::new(
                Code::Timeout,
                format!("{} lives and has let nobody in for {} s", who(), BUSY.as_secs()),
            )),
            _ => Ok(()),
        }
    }
}

/// What a failed attachment says.
pub(super) fn judged(NotLetIn { error: e, is_full }: NotLetIn) -> Sent {
    match e.code() {
        _ if is_full => Sent::Unreached(e),
        Code::ServerLost | Code::NotFound => Sent::Lost(e),
        // It may be well, and another one better.
        Code::Timeout | Code::Corrupt | Code::Closed => Sent::Unreached(e),
        // This side lacks something, or the server is there and says no: others may be no better.
        _ => Sent::Not(e),
    }
}

impl Attaching {
    /// Waits for the outcome until the caller's time is over; `interrupted` is asked now and then.
    fn wait(
        &self,
        info: &ServerInfo,
        until: Option<Instant>,
        interrupted: impl Fn() -> Result<()>,
    ) -> Result<Arc<Connection>, Sent> {
        let _wait = standing::Wait::begin();
        loop {
            {
                let outcome = lock(&self.outcome);
                if let Some(outcome) = &*outcome {
                    return outcome.clone();
                }
                let left = until.map_or(SLICE, |u| u.saturating_duration_since(Instant::now()).min(SLICE));
                let waited = self.told.wait_timeout(outcome, left).unwrap_or_else(PoisonError::into_inner);
                if let Some(outcome) = &*waited.0 {
                    return outcome.clone();
                }
            }
            interrupted().map_err(Sent::Not)?;
            if let Some(objection) = standing::objection() {
                return Err(Sent::Not(objection));
            }
            if until.is_some_and(|u| Instant::now() >= u) {
                let who = format!("server {:?} (pid {})", info.name, info.pid);
                return Err(Sent::Not(Error::new(
                    Code::Timeout,
                    format!("{who} has not let this client in yet"),
                )));
            }
            // It takes long: the server may be the one that this thread serves for.
            standing::leave();
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.tell(Err(Sent::Not(Error::internal("the thread that attaches to a server ended early"))));
    }
}

impl Teller {
    /// Once; what is told later does not count.
    fn tell(&self, mut outcome: Result<Arc<Connection>, Sent>) {
        let mut told = lock(&self.attaching.outcome);
        if told.is_some() {
            return;
        }
        let mut connections = lock(&self.inner.connections);
        // The client looks for connections when it has said that it is closed.
        if self.inner.is_closed()
            && let Ok(made) = &outcome
        {
            made.close();
            outcome = Err(Sent::Not(Inner::was_closed()));
        }
        match &outcome {
            Ok(made) => {
                self.inner.queue.stir();
                self.inner.pump.add(made.clone());
                connections.insert(self.info.incarnation, Attachment::Attached(made.clone()));
            }
            Err(_) => drop(connections.remove(&self.info.incarnation)),
        }
        drop(connections);
        *told = Some(outcome);
        self.attaching.told.notify_all();
    }
}

impl Inner {
    /// The connection to a server, made at the first call.
    pub(super) fn connection(
        self: &Arc<Self>,
        info: &Arc<ServerInfo>,
        until: Option<Instant>,
    ) -> Result<Arc<Connection>, Sent> {
        self.check_open().map_err(Sent::Not)?;
        let (attaching, is_first) = {
            let mut connections = lock(&self.connections);
            match connections.get(&info.incarnation) {
                Some(Attachment::Attached(connection)) => {
                    return match connection.lost() {
                        None => Ok(connection.clone()),
                        Some(e) => Err(Sent::Lost(e.clone())),
                    };
                }
                Some(Attachment::Attaching(attaching)) => (attaching.clone(), false),
                None => {
                    let attaching = Arc::new(Attaching::default());
                    connections.insert(info.incarnation, Attachment::Attaching(attaching.clone()));
                    (attaching, true)
                }
            }
        };
        if is_first {
            self.attach(info, &attaching);
        }
        attaching.wait(info, until, || self.interrupted())
    }

    /// The connection to a server if it is there; if not it is made, if that is wanted.
    pub(super) fn connection_if_there(
        self: &Arc<Self>,
        info: &Arc<ServerInfo>,
        begin: bool,
    ) -> Result<There, Sent> {
        self.check_open().map_err(Sent::Not)?;
        let attaching = {
            let mut connections = lock(&self.connections);
            match connections.get(&info.incarnation) {
                Some(Attachment::Attached(connection)) => {
                    return match connection.lost() {
                        None => Ok(There::Attached(connection.clone())),
                        Some(e) => Err(Sent::Lost(e.clone())),
                    };
                }
                Some(Attachment::Attaching(_)) => return Ok(There::Attaching { begun: false }),
                None if !begin => return Ok(There::Nothing),
                None => {
                    let attaching = Arc::new(Attaching::default());
                    connections.insert(info.incarnation, Attachment::Attaching(attaching.clone()));
                    attaching
                }
            }
        };
        self.attach(info, &attaching);
        Ok(There::Attaching { begun: true })
    }

    /// As [`Inner::failed`], on a thread of its own: the broker may be slow.
    pub(super) fn failed_behind(self: &Arc<Self>, info: &Arc<ServerInfo>) {
        let (inner, info) = (self.clone(), info.clone());
        let tell = move || {
            inner.failed(&info);
        };
        // Without it the server's lease ends by and by.
        let _ = std::thread::Builder::new().name("table".into()).spawn(tell);
    }

    /// Attaches to a server, on a thread of its own: whoever waits for it may give up, and the others still need it.
    fn attach(self: &Arc<Self>, info: &Arc<ServerInfo>, attaching: &Arc<Attaching>) {
        let teller = || Teller { inner: self.clone(), info: info.clone(), attaching: attaching.clone() };
        let (inner, server, told) = (self.clone(), info.clone(), attaching.clone());
        let attach = move || {
            let teller = Teller { inner, info: server, attaching: told };
            let Teller { inner, info, .. } = &teller;
            let reach = inner.table.reach(info).map_err(Sent::Not);
            let made = reach.and_then(|reach| {
                let client = Client {
                    id: inner.id,
                    doorbell: &inner.pump.doorbell,
                    flusher: &inner.flusher,
                    queue: &inner.queue,
                };
                Connection::attach(info.clone(), &client, &reach).map_err(judged)
            });
            if let Err(Sent::Lost(_)) = &made {
                inner.table.failed(info.incarnation);
            }
            teller.tell(made.map(Arc::new));
        };
        if let Err(e) = std::thread::Builder::new().name("attach".into()).spawn(attach) {
            let e = rlimits::no_thread("cannot start the thread that attaches to a server", e);
            teller().tell(Err(Sent::Not(e)));
        }
    }

    /// The connection to a server is lost and goes. The broker is told, once, that the server is lost, too, unless only
    /// the connection was cut: the next attachment finds out. Nothing is done when the connection is a new one by now, or
    /// others have seen to it. Says whether the server may be well.
    pub(super) fn failed(&self, info: &Arc<ServerInfo>) -> bool {
        {
            let mut connections = lock(&self.connections);
            let is_cut = match connections.get(&info.incarnation) {
                Some(Attachment::Attached(connection)) if connection.lost().is_some() => {
                    self.pump.remove(connection);
                    connection.is_cut()
                }
                Some(_) => return true,
                None => return self.table.lists(info.incarnation),
            };
            connections.remove(&info.incarnation);
            if is_cut {
                return true;
            }
        }
        self.table.failed(info.incarnation);
        false
    }
}
