//! Connections and the threads that serve them: a connection of which nothing comes costs no thread.
//!
//! ```text
//!  new --rest--> at rest, in one epoll --something came--> ready --> a thread serves it until nothing is left
//!                      ^                                                      |
//!                      +------------------------------------------------------+
//! ```
//!
//! There are as many threads as requests are under way, and a request may wait as long as it has to: one that finds all
//! threads busy gets another one, and a thread that has had nothing to do for some seconds ends.

use forebay_host::lock;
use forebay_types::{Code, Error, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A thread that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(5);
/// Most threads that are started at once: what is asked is mostly answered in microseconds.
const AT_ONCE: usize = 8;
/// Beyond [`AT_ONCE`] threads another one is started when somebody has waited for so long.
const WAITED: Duration = Duration::from_millis(10);
/// Most connections of which one wait tells.
const EVENTS: usize = 256;
/// The number of what is no connection.
const OTHER: u64 = 0;

/// A connection, at whatever point it is.
pub trait Peer: AsFd + Send + 'static {
    /// Serves it until nothing of it is left; gives it back to rest until more comes, or nothing when it is over.
    fn serve(self) -> Option<Self>
    where
        Self: Sized;
    /// Whether it has gone without a word, so that there is nothing to serve and nothing to tell of.
    fn left(&self) -> bool;
    /// It is over.
    fn end(self, why: Option<&Error>);
}

/// All connections of an owner.
pub struct Peers<P> {
    epoll: OwnedFd,
    /// Ends a wait that does not know of a time yet.
    look: OwnedFd,
    state: Mutex<State<P>>,
    more: Condvar,
}

struct State<P> {
    /// Those of which nothing has come, by number; and when those must have said something that have not yet.
    resting: HashMap<u64, (P, Option<Instant>)>,
    /// When connections at rest must have said something, the first time first; it has times of others, too, which
    /// are not at rest any more.
    due: VecDeque<(Instant, u64)>,
    ready: VecDeque<(Instant, u64, P)>,
    threads: usize,
    /// Threads that have nothing to do.
    idle: usize,
    closed: bool,
}

impl<P: Peer> Peers<P> {
    /// None yet.
    pub fn new() -> Result<Peers<P>> {
        let failed = |e| Error::io("cannot wait for connections", e);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let look = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        // Each write wakes once, and nobody reads it.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &look, EventData::new_u64(OTHER), flags).map_err(failed)?;
        let state = State {
            resting: HashMap::new(),
            due: VecDeque::new(),
            ready: VecDeque::new(),
            threads: 0,
            idle: 0,
            closed: false,
        };
        Ok(Peers { epoll, look, state: Mutex::new(state), more: Condvar::new() })
    }

    /// Another descriptor that [`Peers::wait`] is to wake for.
    pub fn hear(&self, fd: BorrowedFd) -> Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(OTHER), EventFlags::IN)
            .map_err(|e| Error::io("cannot wait for a socket", e))
    }

    /// A connection rests until something comes of it, which has to be within that time if one is given; the time is
    /// the same for all. One that cannot is ended. Its number is its own and not 0.
    pub fn rest(&self, number: u64, peer: P, within: Option<Duration>) {
        let mut state = lock(&self.state);
        if state.closed {
            return end(state, peer, None);
        }
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        let data = EventData::new_u64(number);
        let done = match epoll::modify(&self.epoll, &peer, data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, &peer, data, flags),
            done => done,
        };
        if let Err(e) = done {
            return end(state, peer, Some(&Error::io("cannot wait for a connection", e)));
        }
        let due = within.map(|within| Instant::now() + within);
        state.resting.insert(number, (peer, due));
        if let Some(due) = due {
            state.due.push_back((due, number));
            let _ = rustix::io::write(&self.look, &1u64.to_ne_bytes());
        }
    }

    /// Something of a connection has come already.
    pub fn serve_at_once(self: &Arc<Self>, number: u64, peer: P) {
        let state = lock(&self.state);
        if state.closed {
            return end(state, peer, None);
        }
        self.hand_over(state, Instant::now(), number, peer);
    }

    fn hand_over(self: &Arc<Self>, mut state: MutexGuard<State<P>>, now: Instant, number: u64, peer: P) {
        state.ready.push_back((now, number, peer));
        self.see_to_it(state, now);
    }

    /// Waits until something came, and has that served which came of connections. For one thread.
    pub fn wait(self: &Arc<Self>) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout = self
            .next_look()
            .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot wait for connections", e)),
        }
        let now = Instant::now();
        for number in events.iter().map(|event| event.data.u64()) {
            let mut state = lock(&self.state);
            let Some((peer, _)) = state.resting.remove(&number) else { continue };
            // Who connects and leaves, however often, keeps no thread busy.
            if peer.left() {
                end(state, peer, None);
            } else {
                self.hand_over(state, now, number, peer);
            }
        }
        // Those that were ready before may have waited long enough for a thread of their own.
        self.see_to_it(lock(&self.state), now);
        self.end_silent(now);
        Ok(())
    }

    /// How long it may wait: until somebody has waited too long for a thread, or has been silent for too long.
    fn next_look(&self) -> Option<Duration> {
        let state = lock(&self.state);
        let ready = state.ready.front().map(|(since, ..)| *since + WAITED);
        let due = state.due.front().map(|(due, _)| *due);
        // At least a moment: what is late is not waited for without a pause.
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        ready.into_iter().chain(due).min().map(left)
    }

    /// There is a thread for the connections that are ready.
    fn see_to_it(self: &Arc<Self>, mut state: MutexGuard<State<P>>, now: Instant) {
        if state.ready.is_empty() {
            return;
        }
        if state.ready.len() <= state.idle {
            drop(state);
            return self.more.notify_one();
        }
        let waited = state.ready.front().is_some_and(|(since, ..)| now.duration_since(*since) >= WAITED);
        if state.threads >= AT_ONCE && !waited {
            return;
        }
        state.threads += 1;
        drop(state);
        let theirs = self.clone();
        let spawned = std::thread::Builder::new().name("fb-peer".into()).spawn(move || theirs.serve());
        if spawned.is_err() {
            // Those that there are take it, or one that can be had later.
            lock(&self.state).threads -= 1;
        }
    }

    fn serve(&self) {
        while let Some((number, peer)) = self.next() {
            if let Some(peer) = peer.serve() {
                self.rest(number, peer, None);
            }
        }
    }

    /// The next connection that is ready; none when this thread is not needed.
    fn next(&self) -> Option<(u64, P)> {
        let mut state = lock(&self.state);
        let until = Instant::now() + IDLE;
        loop {
            if let Some((_, number, peer)) = state.ready.pop_front() {
                return Some((number, peer));
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            state = self.more.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
    }

    fn end_silent(&self, now: Instant) {
        let mut silent = Vec::new();
        let mut state = lock(&self.state);
        while let Some((due, number)) = state.due.front().copied().filter(|(due, _)| *due <= now) {
            state.due.pop_front();
            // It may have spoken, and rest again.
            if state.resting.get(&number).is_some_and(|(_, own)| *own == Some(due)) {
                silent.extend(state.resting.remove(&number));
            }
        }
        drop(state);
        let why = Error::new(Code::Timeout, "it said nothing");
        silent.into_iter().for_each(|(peer, _)| peer.end(Some(&why)));
    }

    /// Nothing rests any more: those that do are over, and threads that have nothing to do end.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let resting: Vec<P> = state.resting.drain().map(|(_, (peer, _))| peer).collect();
        drop(state);
        self.more.notify_all();
        resting.into_iter().for_each(|peer| peer.end(None));
    }
}

fn end<P: Peer>(state: MutexGuard<State<P>>, peer: P, why: Option<&Error>) {
    drop(state);
    peer.end(why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{self, Receiver, Sender};

    /// Says what it hears; a `w` is waited at until the other side writes again.
    struct Hears {
        stream: UnixStream,
        says: Sender<String>,
    }

    impl AsFd for Hears {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.stream.as_fd()
        }
    }

    impl Peer for Hears {
        fn left(&self) -> bool {
            false
        }

        fn serve(mut self) -> Option<Self> {
            let mut byte = [0];
            while self.stream.read(&mut byte).unwrap() == 1 {
                self.says.send(char::from(byte[0]).into()).unwrap();
                if byte[0] != b'w' {
                    return Some(self);
                }
            }
            self.end(None);
            None
        }

        fn end(self, why: Option<&Error>) {
            self.says.send(why.map_or("over".into(), |e| e.text().to_owned())).unwrap();
        }
    }

    struct Scene {
        peers: Arc<Peers<Hears>>,
        says: Sender<String>,
        said: Receiver<String>,
    }

    impl Scene {
        fn new() -> Scene {
            let (says, said) = mpsc::channel();
            let peers = Arc::new(Peers::new().unwrap());
            let theirs = peers.clone();
            std::thread::spawn(move || while theirs.wait().is_ok() && !lock(&theirs.state).closed {});
            Scene { peers, says, said }
        }

        fn connect(&self, number: u64, within: Option<Duration>) -> UnixStream {
            let (ours, stream) = UnixStream::pair().unwrap();
            self.peers.rest(number, Hears { stream, says: self.says.clone() }, within);
            ours
        }

        fn hear(&self) -> String {
            self.said.recv_timeout(Duration::from_secs(20)).unwrap()
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            self.peers.close();
        }
    }

    #[test]
    fn many_connections_of_which_nothing_comes_have_no_thread() {
        let scene = Scene::new();
        let mut all: Vec<UnixStream> = (1..=500).map(|n| scene.connect(n, None)).collect();
        for _ in 0..2 {
            for peer in &mut all {
                peer.write_all(b"a").unwrap();
            }
            for _ in 0..500 {
                assert_eq!(scene.hear(), "a");
            }
        }
        assert!(lock(&scene.peers.state).threads < 100);
        drop(all);
        for _ in 0..500 {
            assert_eq!(scene.hear(), "over");
        }
    }

    #[test]
    fn a_request_that_waits_keeps_no_other_one_waiting() {
        let scene = Scene::new();
        let mut waiting: Vec<UnixStream> = (1..=40).map(|n| scene.connect(n, None)).collect();
        for peer in &mut waiting {
            peer.write_all(b"w").unwrap();
        }
        for _ in 0..40 {
            assert_eq!(scene.hear(), "w");
        }
        let mut other = scene.connect(41, None);
        other.write_all(b"a").unwrap();
        assert_eq!(scene.hear(), "a");
        for peer in &mut waiting {
            peer.write_all(b"b").unwrap();
        }
        for _ in 0..40 {
            assert_eq!(scene.hear(), "b");
        }
    }

    #[test]
    fn who_says_nothing_in_his_time_is_shut_out_and_who_has_spoken_may_be_silent() {
        let scene = Scene::new();
        let soon = Some(Duration::from_millis(300));
        let mut speaks = scene.connect(1, soon);
        speaks.write_all(b"a").unwrap();
        assert_eq!(scene.hear(), "a");
        let _silent = scene.connect(2, soon);
        assert_eq!(scene.hear(), "it said nothing");
        speaks.write_all(b"b").unwrap();
        assert_eq!(scene.hear(), "b");
    }

    #[test]
    fn at_the_end_all_are_told() {
        let scene = Scene::new();
        let _peers = [scene.connect(1, None), scene.connect(2, None)];
        scene.peers.close();
        assert_eq!((scene.hear(), scene.hear()), ("over".into(), "over".into()));
        let _late = scene.connect(3, None);
        assert_eq!(scene.hear(), "over");
    }
}
