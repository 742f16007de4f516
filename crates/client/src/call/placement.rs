//! Which server gets a call: one rule that can be exchanged, over plain views of servers.
//!
//! A server's *window* is how many calls of this client it may have: enough to keep its workers busy while a reply goes
//! and the next request comes. Of long calls that is one a worker, so that none waits behind another while a server
//! idles; the others wait here ([`super::queue`], [`super::bag`]) until one has room.
//! At a server that others call, too, one more waits, or a client of short calls would never be there when its turn comes.
//! Where calls are of unlike length and it is known what they cost, the window is one of time: a long call fills a worker,
//! whatever waits behind it.

use std::cell::Cell;

use forebay_types::directory::ServerInfo;
use forebay_types::{Error, Result};

use super::ahead::Ahead;
use super::pace::Speed;

/// What it takes to wake a process, in nanoseconds.
const WAKING: f64 = 20_000.0;
/// A worker may idle for so much of its time between two calls.
const IDLE: f64 = 0.01;
/// Servers where a call is over so many times later than at the best one are as good: estimates are no better.
const ALIKE: f64 = 1.2;
/// Most calls at one server.
const MOST: u32 = 4_096;

/// A call that is to go somewhere.
#[derive(Clone, Copy, Debug)]
pub struct TaskView<'a> {
    /// What is called.
    pub service: &'a str,
    /// Bytes of its arrays.
    pub bytes: u64,
    /// What it costs, if its service says that.
    pub cost: Option<u64>,
    /// How many calls of this service wait, this one among them.
    pub waiting: usize,
}

/// A server that could get it.
#[derive(Clone, Copy, Debug)]
pub struct ServerView<'a> {
    /// Who it is.
    pub info: &'a ServerInfo,
    /// Calls of this client that are there.
    pub mine: u32,
    /// Calls of others that were there when the broker was last asked.
    pub theirs: u32,
    /// How many calls of this client it may have.
    pub window: u32,
    /// How long the call is expected to run there, in nanoseconds; none before any has.
    pub expected: Option<f64>,
    /// How long what this client has there is expected to run altogether, in nanoseconds; none if the service does not say
    /// what its calls cost.
    pub ahead: Option<f64>,
    /// What is there takes much longer than it should.
    pub is_late: bool,
}

/// What a rule answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// At this one of the servers.
    At(usize),
    /// At none of them yet: it is asked again when a call has ended or a server has come.
    Later,
}

/// A rule. It is asked by many threads.
pub trait Placement: Send + Sync {
    /// Where the call goes; `servers` are as they are now, the one first whose turn it is, and there is at least one.
    fn choose(&self, task: &TaskView, servers: &[ServerView]) -> Choice;

    /// Whether it may wait for something while it is asked, as a function of another language does for its interpreter.
    /// Then it is asked while nothing of the client is locked: of a call in the thread that makes it, of a task by one thread
    /// at a time, the one that asks for results or one of the client's. What it puts off ([`Choice::Later`]), or has no
    /// answer to, is decided by [`Named::Least`], and so are calls that were put off by that.
    fn may_wait(&self) -> bool {
        false
    }
}

thread_local! {
    /// This thread asks a rule just now, which may call services itself.
    static ASKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread asks a rule that may wait: what that calls is placed without it.
pub(super) fn is_asking() -> bool {
    ASKS.get()
}

/// Asks a rule that may wait.
pub(super) fn ask(rule: &dyn Placement, task: &TaskView, servers: &[ServerView]) -> Choice {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            ASKS.set(false);
        }
    }
    ASKS.set(true);
    let _asks = Asks;
    rule.choose(task, servers)
}

/// The rules that have a name.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// Where the call is over first, by what is known of its servers.
    Least,
    /// Each server in turn, at once.
    Turns,
}

impl Named {
    /// Reads `least` or `turns`.
    pub fn parse(text: &str) -> Result<Named> {
        match text {
            "least" => Ok(Named::Least),
            "turns" => Ok(Named::Turns),
            _ => Err(Error::bad(format!(
                "{text:?} is no rule of placement; use \"least\" (where a call is over first) or \"turns\""
            ))),
        }
    }
}

impl Placement for Named {
    fn choose(&self, task: &TaskView, servers: &[ServerView]) -> Choice {
        match self {
            Named::Least => least(task, servers),
            Named::Turns => Choice::At(0),
        }
    }
}

impl ServerView<'_> {
    pub(super) fn has_room(&self) -> bool {
        self.mine < self.window
    }

    /// When the call is over there, in nanoseconds from now, if so many go there before it.
    pub(super) fn until(&self, before: usize) -> f64 {
        let runs = self.expected.unwrap_or(1.0);
        let (workers, others) = (self.info.workers.max(1) as usize, self.theirs as usize + before);
        let there = self.mine as usize + others;
        match self.ahead {
            Some(ahead) if there >= workers => (ahead + runs * others as f64) / workers as f64 + runs,
            _ => runs * ((there / workers) as f64) + runs,
        }
    }
}

/// The server where the call is over first, or one that is about as good and comes before it; unless it is over earlier
/// still on one that is busy now.
fn least(task: &TaskView, servers: &[ServerView]) -> Choice {
    let open = || servers.iter().enumerate().filter(|(_, s)| s.has_room());
    let best = open().map(|(_, s)| s.until(0)).fold(f64::INFINITY, f64::min);
    let Some((index, chosen)) = open().find(|(_, s)| s.until(0) <= ALIKE * best) else {
        return Choice::Later;
    };
    let here = chosen.until(0);
    let sooner = |s: &ServerView| !s.has_room() && !s.is_late && s.until(task.waiting) < here;
    match servers.iter().any(sooner) {
        true => Choice::Later,
        false => Choice::At(index),
    }
}

/// The server where the call is over first, room or not.
pub(super) fn soonest(servers: &[ServerView]) -> Option<usize> {
    let all = servers.iter().enumerate();
    all.min_by(|(_, a), (_, b)| a.until(0).total_cmp(&b.until(0))).map(|(index, _)| index)
}

/// How many calls a server may have that is expected to run them so long.
pub(super) fn window(workers: u32, expected: Option<f64>, speed: &Speed) -> u32 {
    let Some(runs) = expected else { return workers };
    let idle = (speed.beside() + WAKING) / runs;
    let more = if idle > IDLE { (f64::from(workers) * idle).ceil() as u32 } else { 0 };
    (workers + more.max(speed.is_shared().into())).min(MOST)
}

/// How many calls a server may have, if that many of this client are there, and how long all of those run. Calls of
/// which it is not known how long they run are as long as this one.
pub(super) fn window_of_time(
    workers: u32,
    mine: u32,
    ahead: &Ahead,
    expected: Option<f64>,
    speed: &Speed,
) -> (u32, f64) {
    let usual = window(workers, expected, speed);
    let runs = expected.unwrap_or(1.0);
    let others = f64::from(mine.saturating_sub(ahead.calls())) * runs;
    // A long call fills one worker.
    let room = runs * f64::from(usual);
    let filled = ahead.ns_at_most(room / f64::from(workers)) + others;
    let more = match ((room - filled) / runs + IDLE).floor() as u32 {
        0 if mine < workers => 1,
        more => more,
    };
    (mine.saturating_add(more).min(MOST), ahead.ns() + others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(workers: u32) -> ServerInfo {
        ServerInfo { workers, ..ServerInfo::default() }
    }

    fn at(info: &ServerInfo, mine: u32, window: u32, expected: f64) -> ServerView<'_> {
        ServerView { info, mine, theirs: 0, window, expected: Some(expected), ahead: None, is_late: false }
    }

    const ONE: TaskView = TaskView { service: "f", bytes: 0, cost: None, waiting: 1 };

    /// How many more calls of that length a server takes that has these, in microseconds.
    fn room(workers: u32, there: &[u64], us: u64) -> u32 {
        let mut ahead = Ahead::default();
        there.iter().for_each(|us| ahead.add(us * 1_000));
        let (mine, expected) = (there.len() as u32, Some(us as f64 * 1e3));
        window_of_time(workers, mine, &ahead, expected, &Speed::default()).0 - mine
    }

    #[test]
    fn a_long_call_fills_a_worker_and_short_ones_fill_a_while() {
        assert_eq!(room(1, &[], 1), window(1, Some(1e3), &Speed::default()));
        assert_eq!(room(1, &[1; 10], 1), room(1, &[], 1) - 10, "as many as if they were counted");
        assert_eq!(room(1, &[10_000], 1), 0, "nothing waits behind a long one");
        assert_eq!(room(1, &[10_000], 10_000), 0);
        assert_eq!(room(1, &[10_000], 11_000), 0, "however well its length is known");
        assert_eq!(room(1, &[1; 20], 10_000), 1, "a long one goes behind what is over in a moment");
        assert_eq!(room(4, &[10_000; 3], 10_000), 1);
        let beside = room(4, &[10_000, 10_000, 10_000, 1], 1);
        assert!(beside + 1 == room(1, &[], 1), "one worker of four is left for short ones: {beside}");
        assert_eq!(room(2, &[], 10_000), 2);
    }

    #[test]
    fn what_is_ahead_of_a_call_counts_by_its_length() {
        let one = info(1);
        let after = |ahead| ServerView { ahead: Some(ahead), ..at(&one, 2, 9, 1.0) };
        assert_eq!(least(&ONE, &[after(1_000.0), after(5.0)]), Choice::At(1));
        assert_eq!(soonest(&[after(1_000.0), after(5.0)]), Some(1));
        assert_eq!(soonest(&[after(1_000.0), at(&one, 20, 9, 1.0)]), Some(1));
    }

    #[test]
    fn a_call_goes_where_it_is_over_first_and_waits_for_a_busy_server_that_is_sooner() {
        let one = info(1);
        let slow = at(&one, 0, 1, 10.0);
        assert_eq!(least(&ONE, &[slow, at(&one, 0, 1, 1.0)]), Choice::At(1));
        assert_eq!(least(&ONE, &[slow, at(&one, 1, 1, 1.0)]), Choice::Later);
        assert_eq!(least(&TaskView { waiting: 40, ..ONE }, &[slow, at(&one, 1, 1, 1.0)]), Choice::At(0));
        assert_eq!(least(&ONE, &[slow, ServerView { is_late: true, ..at(&one, 1, 1, 1.0) }]), Choice::At(0));
        assert_eq!(least(&ONE, &[at(&one, 1, 1, 1.0), at(&one, 2, 2, 1.0)]), Choice::Later);
    }

    #[test]
    fn calls_of_others_count_and_workers_share_them() {
        let (one, four) = (info(1), info(4));
        let busy = ServerView { theirs: 2, ..at(&one, 0, 1, 1.0) };
        assert_eq!(least(&ONE, &[busy, at(&four, 3, 4, 1.0)]), Choice::At(1));
        assert_eq!(least(&ONE, &[busy]), Choice::At(0));
    }

    #[test]
    fn turns_ask_for_no_room() {
        let rule = Named::parse("turns").unwrap();
        let one = info(1);
        let servers = [at(&one, 9, 1, 1.0), at(&one, 0, 1, 1.0)];
        assert_eq!(rule.choose(&ONE, &servers), Choice::At(0));
        assert!(Named::parse("luck").unwrap_err().text().contains("\"luck\""));
    }
}
