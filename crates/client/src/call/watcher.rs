//! Completion callbacks: one thread of a client watches the calls whose end somebody wants to hear
//! of. It waits as everybody does ([`super::pump`]) and lives while there is a call to watch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_host::rlimits;
use forebay_types::Result;

use super::lead::LOOK;
use super::{Client, Future, Inner, Value, lock};

/// A call whose end somebody wants to hear of.
pub trait Watched: Send {
    /// Whether there is something to do about it. Asked often: it must not wait for anything.
    fn has_news(&mut self) -> bool;
    /// Goes on with it, and tells its end; true when that has been told.
    fn advance(&mut self) -> bool;
    /// For how long nothing is to be done about it, whatever comes.
    fn rests(&self) -> Option<Duration> {
        None
    }
}

/// The watching of one client.
#[derive(Default)]
pub(super) struct Watcher {
    state: Mutex<State>,
    /// Calls to watch have come, or it is to end.
    called: AtomicBool,
}

#[derive(Default)]
struct State {
    newcomers: Vec<Box<dyn Watched>>,
    runs: bool,
    ends: bool,
    thread: Option<JoinHandle<()>>,
}

/// A call that belongs to nobody else.
struct Owned<F> {
    future: Future<'static>,
    then: Option<F>,
}

impl<F: FnOnce(Result<Vec<Value>>) + Send> Watched for Owned<F> {
    fn has_news(&mut self) -> bool {
        self.future.has_news()
    }

    fn advance(&mut self) -> bool {
        let done = self.future.done();
        if done && let Some(then) = self.then.take() {
            then(self.future.wait(None));
        }
        done
    }
}

impl Watcher {
    /// Has the thread look at what it watches.
    pub fn wake(&self) {
        if let Some(thread) = &lock(&self.state).thread {
            thread.thread().unpark();
        }
    }
}

impl Client {
    /// Calls `then` with the results of a call when it is complete, on a thread of this client.
    pub fn notify(
        &self,
        future: Future<'static>,
        then: impl FnOnce(Result<Vec<Value>>) + Send + 'static,
    ) -> Result<()> {
        self.watch(Box::new(Owned { future, then: Some(then) }))
    }

    /// Watches a call until it has told its end.
    pub fn watch(&self, call: Box<dyn Watched>) -> Result<()> {
        self.inner.check_open()?;
        let watcher = &self.inner.watcher;
        let mut state = lock(&watcher.state);
        state.newcomers.push(call);
        if !state.runs {
            let inner = self.inner.clone();
            let thread = std::thread::Builder::new().name("watcher".into()).spawn(move || run(&inner));
            state.thread = Some(
                thread.map_err(|e| rlimits::no_thread("cannot start the thread that watches calls", e))?,
            );
            state.runs = true;
        }
        watcher.called.store(true, Ordering::SeqCst);
        drop(state);
        self.inner.pump.nudge();
        watcher.wake();
        Ok(())
    }

    /// What is watched is looked at: it was held by somebody else, who has let it go.
    pub fn rouse(&self) {
        if self.inner.check_process().is_ok() {
            self.inner.pump.nudge();
        }
    }

    /// Watches nothing any more, and waits until nobody is being told anything. For the end of a
    /// program whose callbacks must not outlive it.
    pub fn unwatch(&self) {
        if self.inner.check_process().is_err() {
            return; // the thread is the parent's
        }
        let watcher = &self.inner.watcher;
        let thread = {
            let mut state = lock(&watcher.state);
            state.ends = state.runs;
            watcher.called.store(true, Ordering::SeqCst);
            state.thread.take()
        };
        self.inner.pump.nudge();
        if let Some(thread) = &thread {
            thread.thread().unpark();
        }
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// Watches until there is nothing to watch.
fn run(inner: &Arc<Inner>) {
    let watcher = &inner.watcher;
    let mut watched: Vec<Box<dyn Watched>> = Vec::new();
    loop {
        {
            let mut state = lock(&watcher.state);
            watcher.called.store(false, Ordering::SeqCst);
            watched.append(&mut state.newcomers);
            if watched.is_empty() || state.ends {
                (state.runs, state.ends) = (false, false);
                return;
            }
        }
        let called = || watcher.called.load(Ordering::SeqCst);
        let naps: Option<Vec<Duration>> = watched.iter().map(|w| w.rests()).collect();
        if let Some(nap) = naps.and_then(|naps| naps.into_iter().min()) {
            if !called() {
                std::thread::park_timeout(nap);
            }
            continue;
        }
        // Whoever has come back to what is watched looks after it, and has no use for a thread that looks, too.
        let left = |w: &mut Box<dyn Watched>| w.rests().is_none() && w.has_news();
        let mut ready =
            || called() || watched.iter_mut().any(left) || watched.iter().all(|w| w.rests().is_some());
        let _ = inner.pump.wait(&mut ready, Some(Instant::now() + LOOK));
        watched.retain_mut(|w| !w.has_news() || !w.advance());
    }
}
