//! The life of a server, as the bindings hold one: made, given its services, started, serving until it is
//! stopped or a signal comes, stopped. Any thread may use it.
//!
//! ```text
//! Made --start--> Runs --stop, a signal--> Stopped
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_host::fork::own_pid;
use forebay_host::wait::{self, PollFlags};
use forebay_host::{directories, sockets};
use forebay_link::Locator;
use forebay_server::{Body, Running, Server};
use forebay_types::directory::{BrokerRequest, Incarnation, Load};
use forebay_types::{Code, Error, Result, Signature};
use rustix::event::{EventfdFlags, eventfd};

use crate::calls::locator;

/// How often a language is asked whether a signal came.
const SLICE: Duration = Duration::from_millis(100);

/// How long the broker may take to hear how a server died.
const TELL: Duration = Duration::from_secs(2);

/// A server from its making to its end.
pub struct Host {
    state: Mutex<State>,
    /// Readable from the moment it is to stop.
    stopping: OwnedFd,
    /// The process that made it; a child of `fork` has its memory and none of its threads.
    pid: u32,
}

enum State {
    Made(Server),
    Runs(Running),
    Stopped,
}

/// How a language hears of the signals that end a server.
pub enum Signals<'a> {
    /// This becomes readable.
    Event(BorrowedFd<'a>),
    /// This is asked every 100 ms, and whenever a signal has come; its error ends the serving.
    Check(&'a (dyn Fn() -> Result<()> + Sync)),
}

impl Host {
    /// A server that has not started yet.
    pub fn new(server: Server) -> Result<Host> {
        let stopping = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Error::io("cannot make an event to wait for", e))?;
        Ok(Host { state: Mutex::new(State::Made(server)), stopping, pid: own_pid() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers a service, before or after the start.
    pub fn add(&self, signature: Signature, body: Box<Body>) -> Result<()> {
        match &mut *self.lock() {
            State::Made(server) => server.add(signature, body),
            State::Runs(running) => running.add(signature, body),
            State::Stopped => Err(is_stopped()),
        }
    }

    /// Offers a service of a running server no more.
    pub fn remove(&self, name: &str) -> Result<()> {
        match &*self.lock() {
            State::Runs(running) => running.remove(name),
            State::Made(_) => {
                Err(Error::bad(format!("the server does not run yet; do not register {name:?}")))
            }
            State::Stopped => Err(is_stopped()),
        }
    }

    /// Starts it: clients of the broker find its services when this returns.
    pub fn start(&self, broker: Option<&Path>) -> Result<()> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Made(server) => {
                *state = State::Runs(server.start(locator(broker))?);
                Ok(())
            }
            State::Runs(running) => {
                *state = State::Runs(running);
                Err(Error::new(Code::Conflict, "the server runs already"))
            }
            State::Stopped => Err(is_stopped()),
        }
    }

    /// Starts it if it does not run, serves until it is to stop or a signal comes, and stops it.
    pub fn serve(&self, broker: Option<&Path>, signals: &Signals) -> Result<()> {
        if !matches!(*self.lock(), State::Runs(_)) {
            self.start(broker)?;
        }
        let heard = self.wait(signals);
        let stopped = match signals {
            Signals::Check(check) => self.stop_and_look(check),
            Signals::Event(_) => self.stop(),
        };
        heard.and(stopped)
    }

    /// Stops it, which may wait for a service that runs; signals are looked for meanwhile.
    fn stop_and_look(&self, check: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let stopping = std::thread::Builder::new()
                .name("fb-stop".into())
                .spawn_scoped(scope, move || drop(tell.send(self.stop())));
            if stopping.is_err() {
                return self.stop();
            }
            loop {
                match told.recv_timeout(SLICE) {
                    Ok(stopped) => return stopped,
                    // It is stopping already; a handler may end the process.
                    Err(RecvTimeoutError::Timeout) => drop(check()),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::internal(
                            "the thread that stops the server has ended without a word",
                        ));
                    }
                }
            }
        })
    }

    fn wait(&self, signals: &Signals) -> Result<()> {
        let stopping = (self.stopping.as_fd(), PollFlags::IN);
        loop {
            let came = match signals {
                Signals::Event(event) => wait::any([stopping, (event.as_fd(), PollFlags::IN)], None),
                Signals::Check(check) => {
                    check()?;
                    wait::any([stopping], Some(SLICE))
                }
            };
            if came?.iter().any(|ready| !ready.is_empty()) {
                return Ok(());
            }
        }
    }

    /// Lets [`Host::serve`] come to its end, without waiting for that.
    pub fn ask_to_stop(&self) {
        if own_pid() != self.pid {
            return; // the event is the parent's
        }
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.stopping, &1u64.to_ne_bytes());
    }

    /// Stops it: it leaves the broker and ends what it began. Stopping twice does nothing; a service cannot
    /// stop the server that runs it.
    pub fn stop(&self) -> Result<()> {
        if own_pid() != self.pid {
            return Ok(());
        }
        let mut state = self.lock();
        if matches!(&*state, State::Runs(running) if running.runs_this_thread()) {
            return Err(Error::new(
                Code::Conflict,
                "a service cannot stop its own server; let another thread do it",
            ));
        }
        let before = std::mem::replace(&mut *state, State::Stopped);
        drop(state);
        self.ask_to_stop();
        if let State::Runs(running) = before {
            running.stop();
        }
        Ok(())
    }

    /// The number of its life, while it runs.
    pub fn incarnation(&self) -> Option<Incarnation> {
        match &*self.lock() {
            State::Runs(running) => Some(running.incarnation()),
            State::Made(_) | State::Stopped => None,
        }
    }

    /// How busy it is; nothing when it does not run.
    pub fn load(&self) -> Load {
        match &*self.lock() {
            State::Runs(running) => running.load(),
            State::Made(_) | State::Stopped => Load::default(),
        }
    }

    /// The trouble behind the scenes (a broker that does not answer), while it lasts.
    pub fn trouble(&self) -> Option<Error> {
        match &*self.lock() {
            State::Runs(running) => running.trouble(),
            State::Made(_) | State::Stopped => None,
        }
    }
}

/// Tells the broker how a supervised server has died, and which of its services are not offered again, for clients that
/// ask; without it they say what they know.
pub fn tell_of_death(broker: Option<&Path>, life: Incarnation, how: &str, withdrawn: Vec<String>) {
    let died = BrokerRequest::Died { incarnation: life, how: how.to_owned(), withdrawn };
    // A server that was killed has left its sockets.
    let _ = directories::runtime_dir().map(|dir| sockets::sweep_sockets(&dir));
    let _ = Locator::at(broker).connect("supervisor", TELL).and_then(|mut w| w.ask_with(&died, &[], TELL));
}

fn is_stopped() -> Error {
    Error::new(Code::Closed, "the server was stopped; make another")
}
