//! A reading connection that keeps its view of the catalog through a burst of questions.
//!
//! Beginning and ending a read transaction costs SQLite system calls, as much time again as a
//! small question. Who knows when the catalog has changed (a rank does: its owner counts commits
//! in shared memory) asks within one transaction until the count changes. A view that is kept
//! hinders the owner from starting its write-ahead log anew, so a thread lets go of it when no
//! question came for a while; without a view it sleeps.

use crate::catalog::{Opened, sql_error};
use forebay_types::{Error, Result};
use rusqlite::Connection;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A view without questions for so long is let go, after twice that at the latest.
const IDLE: Duration = Duration::from_millis(20);

/// The connection with its view.
pub(crate) struct Burst {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    catalog: Opened,
    /// The count of commits at which the view was taken.
    view: Option<u64>,
    asked: bool,
    keeper: bool,
    over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Lets go of views that nobody asks any more.
    fn keep(&self) {
        let mut state = self.lock();
        while !state.over {
            if state.view.is_none() {
                state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            state = self.changed.wait_timeout(state, IDLE).unwrap_or_else(|e| e.into_inner()).0;
            if !std::mem::take(&mut state.asked) {
                state.let_go();
            }
        }
    }
}

impl State {
    fn let_go(&mut self) {
        if self.view.take().is_some() {
            // Nothing was written, so nothing is lost if it fails; the next question tells.
            let conn = self.catalog.conn().into_iter();
            conn.for_each(|conn| drop(conn.prepare_cached("COMMIT").and_then(|mut s| s.execute(()))));
        }
    }
}

/// The connection, locked.
pub(crate) struct Asking<'a>(MutexGuard<'a, State>);

impl Asking<'_> {
    pub fn conn(&self) -> Result<&Connection> {
        self.0.catalog.conn().ok_or_else(|| Error::internal("a catalog is asked that is not open"))
    }
}

impl Burst {
    pub fn new(catalog: Opened) -> Burst {
        let state = State { catalog, view: None, asked: false, keeper: false, over: false };
        Burst { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// Takes the connection for a question about what is committed now.
    pub fn now(&self) -> Result<Asking<'_>> {
        let mut state = self.shared.lock();
        state.let_go();
        state.catalog.follow()?;
        Ok(Asking(state))
    }

    /// Takes the connection for callers that did not find what the catalog says: it looks which file has the
    /// catalog's name now.
    pub fn again(&self) -> Result<Asking<'_>> {
        let mut state = self.shared.lock();
        state.let_go();
        state.catalog.follow_path()?;
        Ok(Asking(state))
    }

    /// Takes the connection for a question about what was committed when there were `commits`, or later.
    pub fn at(&self, commits: u64) -> Result<Asking<'_>> {
        let mut state = self.shared.lock();
        state.asked = true;
        if state.view == Some(commits) {
            return Ok(Asking(state));
        }
        let sleeps = state.view.is_none();
        state.let_go();
        state.catalog.follow()?;
        // Without the thread no view is kept: each question takes its own.
        if self.has_keeper(&mut state) {
            let asking = Asking(state);
            asking
                .conn()?
                .prepare_cached("BEGIN")
                .and_then(|mut s| s.execute(()))
                .map_err(|e| sql_error("the catalog cannot be read", e))?;
            state = asking.0;
            state.view = Some(commits);
            if sleeps {
                self.shared.changed.notify_one();
            }
        }
        Ok(Asking(state))
    }

    /// Whether the thread that lets go of views is there; starts it when it is not.
    fn has_keeper(&self, state: &mut State) -> bool {
        if !state.keeper {
            let shared = self.shared.clone();
            let keep = std::thread::Builder::new().name("fb-view".into());
            state.keeper = keep.spawn(move || shared.keep()).is_ok();
        }
        state.keeper
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.over = true;
        state.let_go();
        drop(state);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::scratch;
    use std::time::Instant;

    /// A catalog with a counter, a writer, and a burst that reads it.
    fn pair() -> (tempfile::TempDir, Connection, Burst) {
        let (dir, catalog) = scratch();
        drop(catalog);
        let path = dir.path().join("catalog.sqlite");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(0)").unwrap();
        let burst = Burst::new(Opened::open(&path).unwrap());
        (dir, writer, burst)
    }

    fn x(conn: &Connection) -> i64 {
        conn.query_row("SELECT x FROM t", (), |r| r.get(0)).unwrap()
    }

    #[test]
    fn a_burst_sees_what_is_committed_when_the_count_grows() {
        let (_dir, writer, burst) = pair();
        for count in 1..200u64 {
            writer.execute("UPDATE t SET x = ?1", [count as i64]).unwrap();
            assert_eq!(x(burst.at(count).unwrap().conn().unwrap()), count as i64);
            assert_eq!(x(burst.at(count).unwrap().conn().unwrap()), count as i64);
            if count % 7 == 0 {
                writer.execute("UPDATE t SET x = -1", ()).unwrap();
                assert_eq!(
                    x(burst.now().unwrap().conn().unwrap()),
                    -1,
                    "a question outside the burst sees the last commit"
                );
            }
        }
    }

    #[test]
    fn a_view_that_nobody_asks_is_let_go() {
        let (_dir, writer, burst) = pair();
        assert_eq!(x(burst.at(1).unwrap().conn().unwrap()), 0);
        writer.execute("UPDATE t SET x = 1", ()).unwrap();
        let busy =
            || -> i64 { writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |r| r.get(0)).unwrap() };
        let deadline = Instant::now() + Duration::from_secs(30);
        while busy() != 0 {
            assert!(Instant::now() < deadline, "the view is kept for ever");
        }
    }
}
