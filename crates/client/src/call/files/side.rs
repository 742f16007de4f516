//! A connection's other half: the one over which its files go, made with the first of them.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use forebay_arena::Segment;
use forebay_host::fork::own_pid;
use forebay_link::call::{self, FileLine, Still, Target};
use forebay_link::net::{Address, Key};
use forebay_types::file::FileRequest;
use forebay_types::{Code, Error, Result};

use crate::call::attach::{Knock, judged};
use crate::call::connection::Connection;
use crate::call::{Inner, Sent, lock};

/// Who waits for another file of the same connection looks so often.
const LOOK: Duration = Duration::from_millis(10);
/// Numbers that are forgotten by one request.
const AT_ONCE: usize = 1_000;

/// How to come to a server once more.
pub(crate) struct Route {
    pub client: u64,
    pub by_socket: bool,
    pub door: Option<(Address, Key)>,
    pub silence: Duration,
}

/// The half for files.
pub(crate) struct FileSide {
    route: Route,
    /// The process that made it.
    pid: u32,
    line: Mutex<Option<FileLine>>,
    /// What the server need not keep any longer.
    forgotten: Mutex<Vec<u64>>,
}

impl FileSide {
    pub fn new(route: Route) -> FileSide {
        FileSide { route, pid: own_pid(), line: Mutex::default(), forgotten: Mutex::default() }
    }

    /// Does something over the connection for files. The error says that it could not be tried, or that the server is lost.
    pub fn with<T>(
        &self,
        inner: &Inner,
        connection: &Arc<Connection>,
        still: Still,
        what: impl FnOnce(&mut FileLine, Still) -> Result<T>,
    ) -> Result<T, Sent> {
        let stopped = OnceCell::new();
        let mut still = || still().inspect_err(|e| drop(stopped.set(e.clone())));
        let done = self.in_turn(&mut still).map_err(Sent::Not).and_then(|mut line| {
            if line.is_none() {
                *line = Some(self.dial(inner, connection)?);
            }
            let Some(open) = &mut *line else {
                return Err(Sent::Not(Error::internal("no connection for files")));
            };
            let done = self.tell_forgotten(open, &mut still).and_then(|()| what(open, &mut still));
            done.map_err(|e| {
                // What was asked and not heard is passed over by whoever comes next.
                if stopped.get().is_none() {
                    *line = None;
                }
                Sent::Lost(e)
            })
        });
        match (done, stopped.into_inner(), connection.lost()) {
            (Err(_), _, Some(lost)) => Err(Sent::Lost(lost.clone())),
            (Err(_), Some(e), None) => Err(Sent::Not(e)),
            (Err(Sent::Lost(e)), None, None) => {
                let who = format!("server {:?} (pid {})", connection.info.name, connection.info.pid);
                let text = format!("{who}, while a file was on its way: {e}");
                Err(Sent::Lost(Error::new(Code::ServerLost, text)))
            }
            (done, ..) => done,
        }
    }

    /// One file at a time.
    fn in_turn(&self, still: Still) -> Result<MutexGuard<'_, Option<FileLine>>> {
        loop {
            match self.line.try_lock() {
                Ok(line) => return Ok(line),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
            still()?;
        }
    }

    fn dial(&self, inner: &Inner, connection: &Connection) -> Result<FileLine, Sent> {
        self.to(inner, connection, |target| call::dial_files(target).map_err(judged))
    }

    /// The segment of the arrays that the server holds for this client.
    pub fn dial_arrays(&self, inner: &Inner, connection: &Connection) -> Result<Segment> {
        self.to(inner, connection, call::dial_arrays)
    }

    /// Comes to the server once more.
    fn to<T>(&self, inner: &Inner, connection: &Connection, dial: impl FnOnce(&Target) -> T) -> T {
        let Route { client, by_socket, door, silence } = &self.route;
        let knock = Knock::at(&connection.info);
        let target = Target {
            server: &connection.info,
            client: *client,
            doorbell: &inner.pump.doorbell,
            by_socket: *by_socket,
            door: door.clone(),
            silence: *silence,
            flusher: &inner.flusher,
            still: &|process| knock.still(process),
        };
        dial(&target)
    }

    /// The server need not keep these any longer.
    pub fn forget(&self, numbers: Vec<u64>) {
        // In a child of `fork` they are the parent's, and locks may be held by threads that are not here.
        if numbers.is_empty() || own_pid() != self.pid {
            return;
        }
        lock(&self.forgotten).extend(numbers);
        // Whoever has the connection tells it when he comes next.
        if let Ok(mut line) = self.line.try_lock()
            && let Some(open) = &mut *line
        {
            // What does not go at once goes with the next request.
            let mut never = || Err(Error::new(Code::Timeout, "later"));
            let _ = self.tell_forgotten(open, &mut never);
        }
    }

    fn tell_forgotten(&self, line: &mut FileLine, still: Still) -> Result<()> {
        let numbers = std::mem::take(&mut *lock(&self.forgotten));
        numbers.chunks(AT_ONCE).try_for_each(|some| {
            line.ask(&FileRequest::Forget { numbers: some.to_vec() }, &mut *still).map(drop)
        })
    }
}
