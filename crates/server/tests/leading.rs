//! The threads of a server, explored by a model checker that runs the real file with locks of its own: a hand-over
//! that is missed, or a place that nobody gets, is a thread that sleeps for ever, and that is found.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;

use shuttle::sync::atomic::{AtomicBool as Flag, AtomicU32 as Count};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread::{self, JoinHandle};

use crew::{Crew, Spare};

mod sync {
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use std::sync::PoisonError;

    pub use shuttle::sync::MutexGuard as TryLockGuard;

    /// As the real one, which nobody waits for.
    pub struct TryLock<T>(Mutex<T>);

    impl<T> TryLock<T> {
        pub fn new(value: T) -> TryLock<T> {
            TryLock(Mutex::new(value))
        }

        pub fn take(&self) -> Option<TryLockGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

#[path = "../src/crew.rs"]
#[allow(dead_code)]
mod crew;

/// Schedules of each kind that are tried.
const SCHEDULES: usize = 2_500;

/// Tries schedules in which every next step is anybody's, and such in which some threads go far while others stand.
fn explore(program: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(program, SCHEDULES);
    shuttle::check_pct(program, SCHEDULES, 3);
}

#[derive(Clone, Copy, PartialEq)]
enum Request {
    /// Is over at once.
    Quick,
    /// Known to take long: is over when that many quick ones are.
    Long(u32),
    /// Calls its own server so often, one within the other.
    Nested(u32),
}

/// A server.
struct World {
    crew: Crew<()>,
    ring: Mutex<VecDeque<(Request, Arc<Flag>)>>,
    /// Rung when something is put into the ring, or the leader is to look.
    bell: Condvar,
    /// Rung when an answer is there.
    answered: Condvar,
    quick: Count,
    at_once: Count,
    most: Count,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// More services may call each other than there are threads.
    is_stuck: bool,
}

enum Next {
    Found(Request, Arc<Flag>),
    NoPlace,
    Over,
}

impl World {
    fn new(places: u32, spares: u32) -> Arc<World> {
        let world = Arc::new(World {
            crew: Crew::new(places, spares, ()),
            ring: Mutex::default(),
            bell: Condvar::new(),
            answered: Condvar::new(),
            quick: Count::new(0),
            at_once: Count::new(0),
            most: Count::new(0),
            is_stuck: spares < 64,
            threads: Mutex::default(),
        });
        (0..places).for_each(|_| world.start());
        world
    }

    fn start(self: &Arc<World>) {
        let world = self.clone();
        let thread = thread::spawn(move || world.work());
        self.threads.lock().unwrap().push(thread);
    }

    fn spare(self: &Arc<World>, spare: Spare) {
        if matches!(spare, Spare::Serves | Spare::Refuses) {
            self.start();
        }
    }

    fn work(self: &Arc<World>) {
        loop {
            let Some(lead) = self.crew.lead() else {
                if self.crew.rest() {
                    continue;
                }
                break;
            };
            match self.next() {
                Next::Found(request, done) => {
                    drop(lead);
                    if !matches!(request, Request::Quick) {
                        self.crew.promote();
                    }
                    self.run(request);
                    // Looked for under the lock.
                    let _order = self.ring.lock().unwrap();
                    done.store(true, SeqCst);
                    self.answered.notify_all();
                    self.crew.end();
                }
                Next::NoPlace => {
                    drop(lead);
                    if !self.crew.rest() {
                        break;
                    }
                }
                Next::Over => {
                    drop(lead);
                    if self.crew.quit() {
                        break;
                    }
                }
            }
        }
    }

    fn next(&self) -> Next {
        let mut ring = self.ring.lock().unwrap();
        loop {
            if !ring.is_empty() {
                if !self.crew.begin() {
                    return Next::NoPlace;
                }
                let (request, done) = ring.pop_front().unwrap();
                return Next::Found(request, done);
            }
            if self.crew.is_over() {
                return Next::Over;
            }
            ring = self.bell.wait(ring).unwrap();
        }
    }

    fn run(self: &Arc<World>, request: Request) {
        self.enter();
        match request {
            Request::Quick => {
                self.quick.fetch_add(1, SeqCst);
            }
            Request::Long(quick) => {
                while self.quick.load(SeqCst) < quick {
                    thread::yield_now();
                }
            }
            Request::Nested(0) => {}
            Request::Nested(depth) => {
                let done = self.send(Request::Nested(depth - 1));
                self.at_once.fetch_sub(1, SeqCst);
                let spare = self.crew.leave();
                self.spare(spare);
                // Who is refused does not wait; what it asked for is done by whoever has time.
                if spare != Spare::None {
                    self.wait(&done);
                }
                self.crew.come_back();
                if self.crew.stopping() {
                    self.look();
                }
                self.enter();
            }
        }
        self.at_once.fetch_sub(1, SeqCst);
    }

    fn enter(&self) {
        let now = self.at_once.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
    }

    fn send(&self, request: Request) -> Arc<Flag> {
        let done = Arc::new(Flag::new(false));
        self.ring.lock().unwrap().push_back((request, done.clone()));
        self.bell.notify_one();
        done
    }

    fn wait(&self, done: &Flag) {
        let mut ring = self.ring.lock().unwrap();
        while !done.load(SeqCst) {
            ring = self.answered.wait(ring).unwrap();
        }
    }

    /// The leader looks.
    fn look(&self) {
        let _order = self.ring.lock().unwrap();
        self.bell.notify_one();
    }

    fn stop(self: &Arc<World>) {
        let spare = self.crew.stop();
        assert!(spare != Spare::Refuses || self.is_stuck, "what still comes is refused, though nobody waits");
        self.spare(spare);
        self.look();
        loop {
            let Some(thread) = self.threads.lock().unwrap().pop() else { return };
            thread.join().unwrap();
        }
    }
}

fn serve(places: u32, requests: &'static [Request], stop_first: bool) {
    serve_with(places, 64, requests, stop_first);
}

fn serve_with(places: u32, spares: u32, requests: &'static [Request], stop_first: bool) {
    explore(move || {
        let world = World::new(places, spares);
        let sent: Vec<_> = requests.iter().map(|r| world.send(*r)).collect();
        if !stop_first {
            sent.iter().for_each(|done| world.wait(done));
        }
        world.stop();
        assert!(sent.iter().all(|done| done.load(SeqCst)), "what had come is served before the end");
        assert!(places > 1 || world.most.load(SeqCst) <= 1, "two bodies ran at once on one place");
    });
}

#[test]
fn while_one_worker_computes_the_other_one_leads() {
    serve(2, &[Request::Long(2), Request::Quick, Request::Quick], false);
}

#[test]
fn the_lead_is_handed_over_however_the_hand_over_meets_who_goes_to_rest() {
    serve(2, &[Request::Quick, Request::Long(2), Request::Quick, Request::Long(2)], false);
}

#[test]
fn a_service_of_one_worker_calls_its_own_server_in_turn_with_others() {
    serve(1, &[Request::Nested(2), Request::Quick, Request::Nested(1)], false);
}

#[test]
fn services_of_two_workers_that_both_wait_are_stood_in_for() {
    serve(2, &[Request::Nested(1), Request::Nested(1), Request::Nested(1)], false);
}

#[test]
fn a_server_that_stops_serves_what_its_own_services_still_ask_of_it() {
    serve(1, &[Request::Nested(2), Request::Nested(1)], true);
    serve(2, &[Request::Nested(1), Request::Nested(2)], true);
}

#[test]
fn services_that_call_each_other_deeper_than_there_are_threads_are_refused_and_end() {
    serve_with(1, 1, &[Request::Nested(3), Request::Nested(2)], false);
    serve_with(2, 1, &[Request::Nested(2), Request::Nested(2), Request::Nested(2)], false);
}
