//! The waiting of a client's threads, explored by a model checker that runs the real file with locks of its
//! own: its sleeps have no time limit, so whoever is woken by nothing but the clock sleeps for ever, and that is found.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use shuttle::sync::atomic::AtomicBool as Flag;
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

use lead::{Lead, Lookout};

mod sync {
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use std::sync::{PoisonError, TryLockError};
}

#[path = "../src/call/lead.rs"]
#[allow(dead_code)]
mod lead;

const SERVERS: usize = 2;
/// Schedules of each kind that are tried.
const SCHEDULES: usize = 2_500;

/// Tries schedules in which every next step is anybody's, and such in which some threads go far while others stand.
fn explore(program: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(program, SCHEDULES);
    shuttle::check_pct(program, SCHEDULES, 3);
}

/// A server, as a client sees it.
#[derive(Default)]
struct Server {
    /// A call is under way.
    busy: Flag,
    /// It rings when it has answered.
    armed: Flag,
    /// Its answer, where it puts it.
    answered: Flag,
    /// Its answer, as the leader handed it over.
    arrived: Flag,
}

#[derive(Default)]
struct Servers {
    all: [Server; SERVERS],
    /// Who holds it reads what has come; nobody waits for it.
    reading: Mutex<()>,
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Servers {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.bell.notify_one();
    }

    fn answer(&self, server: usize) {
        self.all[server].answered.store(true, SeqCst);
        if self.all[server].armed.load(SeqCst) {
            self.ring();
        }
    }

    /// Hands over what has come, unless somebody else does.
    fn drain(&self) -> bool {
        let Ok(_reading) = self.reading.try_lock() else { return false };
        let mut any = false;
        for server in self.busy().filter(|s| s.answered.load(SeqCst)) {
            server.busy.store(false, SeqCst);
            server.arrived.store(true, SeqCst);
            any = true;
        }
        any
    }

    fn busy(&self) -> impl Iterator<Item = &Server> {
        self.all.iter().filter(|s| s.busy.load(SeqCst))
    }
}

/// What the leader looks after.
#[derive(Clone, Default)]
struct Shared(Arc<Servers>);

impl std::ops::Deref for Shared {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.0
    }
}

impl Lookout for Shared {
    type Round = ();

    fn take(&self, _: &mut ()) -> bool {
        self.drain()
    }

    fn poll(&self, round: &mut ()) -> bool {
        self.has_news(round)
    }

    fn arm(&self, _: &mut ()) {
        self.busy().for_each(|s| s.armed.store(true, SeqCst));
    }

    fn has_news(&self, _: &mut ()) -> bool {
        let Ok(_reading) = self.reading.try_lock() else { return false };
        self.busy().any(|s| s.answered.load(SeqCst))
    }

    fn sleep(&self, _: &mut (), _: Option<Instant>) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.bell.wait(rung).unwrap();
        }
        *rung = false;
    }

    fn wake(&self, _: &mut ()) -> bool {
        self.all.iter().for_each(|s| s.armed.store(false, SeqCst));
        false
    }

    fn ring(&self) {
        Servers::ring(self);
    }

    fn rests(&self) {}
}

/// Calls a server, which answers in its time, and waits.
fn call(lead: &Lead<Shared>, server: usize) {
    lead.lookout.all[server].busy.store(true, SeqCst);
    lead.wait(|| lead.lookout.all[server].arrived.load(SeqCst), None);
}

/// A server that answers when it was called, and the other one has been waited for if that is asked.
fn serve(servers: &Shared, server: usize, after: Option<usize>) -> thread::JoinHandle<()> {
    let servers = servers.clone();
    thread::spawn(move || {
        let called = || servers.all[server].busy.load(SeqCst);
        let waited_for = || after.is_none_or(|other| servers.all[other].arrived.load(SeqCst));
        while !called() || !waited_for() {
            thread::yield_now();
        }
        servers.answer(server);
    })
}

#[test]
fn a_call_is_heard_of_while_another_thread_sleeps_for_another_server() {
    explore(|| {
        let servers = Shared::default();
        // The slow one answers when the quick one's answer has arrived, however long that takes.
        let threads = [serve(&servers, 0, Some(1)), serve(&servers, 1, None)];
        let lead = Arc::new(Lead::new(servers, ()));
        let other = lead.clone();
        let slow = thread::spawn(move || call(&other, 0));
        call(&lead, 1);
        slow.join().unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn the_last_one_to_wait_leads_when_the_leader_has_what_it_waited_for() {
    explore(|| {
        let servers = Shared::default();
        let threads = [serve(&servers, 0, None), serve(&servers, 1, Some(0))];
        let lead = Arc::new(Lead::new(servers, ()));
        let waiting: Vec<_> = [0, 1, 1]
            .map(|server| {
                let lead = lead.clone();
                thread::spawn(move || call(&lead, server))
            })
            .into();
        waiting.into_iter().chain(threads).for_each(|t| t.join().unwrap());
    });
}

#[test]
fn a_reply_that_a_thread_takes_while_it_sends_wakes_who_waits_for_it() {
    explore(|| {
        let servers = Shared::default();
        let threads = [serve(&servers, 0, None), serve(&servers, 1, None)];
        let lead = Arc::new(Lead::new(servers.clone(), ()));
        let waiting: Vec<_> = [0, 1]
            .map(|server| {
                let lead = lead.clone();
                thread::spawn(move || call(&lead, server))
            })
            .into();
        // It waits for room, and so looks now and then what has come.
        for _ in 0..4 {
            while servers.drain() {
                lead.brought();
            }
            thread::yield_now();
        }
        waiting.into_iter().chain(threads).for_each(|t| t.join().unwrap());
    });
}
