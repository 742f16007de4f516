//! What is decided about a bag of tasks: which goes where, what becomes of it when a server is lost, when more input is
//! wanted, what is handed out next. Nothing here knows a clock, a socket or an argument; `bag::driver` does what this
//! says, and tells it what has happened.
//!
//! ```text
//!            pulled              place              came, over            deliver
//!  input -----------> waiting ----------> at a server ---------> over ------------> gone
//!                        ^                     |
//!                        |---- lost, refused --|   lost under it three times: over, it kills servers
//! ```
//!
//! Two windows bound what is under way. A server has as many tasks as keep its workers busy while a reply goes and the
//! next request comes ([`Machine::window`]); of long tasks that is one a worker, so that none waits behind another.
//! And so many are pulled ahead as servers may take before the user's thread comes by again ([`Machine::wants_input`]).
//! Where the service says what its calls cost, a window is one of time, and what waits at the end goes the longest first.
//!
//! A task that needs what one server holds is *bound* to it: it waits for that one alone, and is over when it is lost.
//!
//! A task under which a server died is a *suspect*: it goes on alone on its next server, so that the next death tells
//! whether it was this one. It is cleared when the server turns out to live: only the connection was cut.
//!
//! When all input was taken and nothing waits, a task whose server takes too long is given to a second one ([`super::tail`]).
//! The first of the two that has something to say is the task's end; the other one is given up.

mod doubles;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use forebay_types::directory::ServerInfo;

use super::Space;
use super::fates::{Fates, TaskFate};
use super::question::{Candidate, Question};
use super::servers::{Server, ServerKey};
use super::slab::Slab;
use super::tail::Lengths;
use super::tasks::{Place, Task, turn};
use crate::call::LIVES;
use crate::call::estimate::{Paces, Size};
use crate::call::pace::{Ns, SHORT, SOMETIMES};
use crate::call::placement::{Choice, Placement, ServerView, TaskView, window, window_of_time};

/// Servers that are lost so soon one after the other were lost together: a host, and no task. A suspect waits as long.
const TOGETHER: Ns = 100_000_000;
/// A server that has no room is tried again so soon.
const MOMENT: Ns = 1_000_000;
/// Tasks that may be handed out late because earlier ones are, at least.
const SPAN: u64 = 1_024;
/// Most tasks that are pulled ahead.
const AHEAD: f64 = 65_536.0;
/// So many for each worker before it is known how often the user's thread comes by.
const BEFORE: f64 = 16.0;

/// What a bag is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Results are handed out in the order of the input.
    pub ordered: bool,
    /// Tasks at all servers together, if not learned.
    pub window: Option<u32>,
    /// Most bytes of arguments and results.
    pub bytes: u64,
    /// Running a task twice is not the same as running it once.
    pub effects: bool,
    /// At the end a second server may run a task, too.
    pub tail: bool,
}

/// Times of a task, from its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub ran: Ns,
    pub waited: Ns,
    /// From its sending to its reply.
    pub total: Ns,
    /// Calls that were at the server, this one among them.
    pub there: u32,
}

/// Why a task is over that was at a server which was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It may have been done, and doing it twice matters.
    Unknown,
    /// Servers have died under it again and again.
    Kills,
    /// What it needs is lost with that server.
    Bound,
}

/// How many tasks are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pulled so far.
    pub pulled: u64,
    /// At servers.
    pub under_way: u64,
    /// Ended with results.
    pub done: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Given up.
    pub cancelled: u64,
}

/// The decisions about one bag.
pub(super) struct Machine {
    service: String,
    rules: Rules,
    tasks: Slab<Task>,
    waiting: VecDeque<u64>,
    suspects: VecDeque<u64>,
    /// Those that wait for one server, in their order.
    bound: BTreeMap<ServerKey, VecDeque<u64>>,
    /// A server that is kept free of others, for a suspect.
    reserved: Option<ServerKey>,
    servers: Vec<Server>,
    fates: Fates,
    counts: Counts,
    /// Over and not handed out: the next one by index, or by their ends.
    next: u64,
    ready: VecDeque<u64>,
    ended: bool,
    bytes: u64,
    /// Of these, those of tasks that are over.
    kept: u64,
    result_bytes: f64,
    paces: Paces,
    /// Time between two visits of the user's thread, when the last one began, and tasks that end in a nanosecond.
    gap: f64,
    visited: Option<Ns>,
    rate: f64,
    rated: (Ns, u64),
    sent: u64,
    lengths: Lengths,
    /// Tasks that were given to a second server.
    doubled: u64,
}

impl Machine {
    pub fn new(service: &str, rules: Rules) -> Machine {
        Machine {
            service: service.to_owned(),
            rules,
            tasks: Slab::default(),
            waiting: VecDeque::new(),
            suspects: VecDeque::new(),
            bound: BTreeMap::new(),
            reserved: None,
            servers: Vec::new(),
            fates: Fates::default(),
            counts: Counts::default(),
            next: 0,
            ready: VecDeque::new(),
            ended: false,
            bytes: 0,
            kept: 0,
            result_bytes: 0.0,
            paces: Paces::default(),
            gap: 0.0,
            visited: None,
            rate: 0.0,
            rated: (0, 0),
            sent: 0,
            lengths: Lengths::default(),
            doubled: 0,
        }
    }

    /// Whether running a task twice is not the same as running it once.
    pub fn set_effects(&mut self, effects: bool) {
        self.rules.effects = effects;
    }

    /// The user's thread is here.
    pub fn visit(&mut self, now: Ns) {
        if let Some(before) = self.visited.replace(now) {
            self.gap += (now.saturating_sub(before) as f64 - self.gap) / 8.0;
        }
        let (since, ended) = self.rated;
        let all = self.counts.done + self.counts.failed;
        let passed = now.saturating_sub(since);
        if passed > TOGETHER {
            self.rate = (all - ended) as f64 / passed as f64;
            self.rated = (now, all);
        }
    }

    /// A task more, and its size; its index. It waits.
    pub fn pulled(&mut self, bytes: u64, size: Size) -> u64 {
        let index = self.add(bytes + self.result_bytes as u64, size, None);
        self.waiting.push_back(index);
        index
    }

    /// A task more that one server alone can run, which is here.
    pub fn pulled_for(&mut self, home: ServerKey, bytes: u64, size: Size) -> u64 {
        let index = self.add(bytes + self.result_bytes as u64, size, Some(home));
        self.bound.entry(home).or_default().push_back(index);
        index
    }

    /// A task more whose input is wrong; its index.
    pub fn pulled_wrong(&mut self) -> u64 {
        let index = self.add(0, Size::default(), None);
        self.over(index, TaskFate::Failed, 0);
        index
    }

    fn add(&mut self, bytes: u64, size: Size, home: Option<ServerKey>) -> u64 {
        let index = self.counts.pulled;
        self.counts.pulled += 1;
        self.bytes += bytes;
        self.tasks.insert(index, Task::new(bytes, size, home));
        index
    }

    /// There is no more input.
    pub fn end(&mut self) {
        self.ended = true;
        let tasks = &self.tasks;
        self.waiting.make_contiguous().sort_unstable_by_key(|index| turn(tasks, true, *index));
    }

    /// Whether that was said.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether one more task is of use now.
    pub fn wants_input(&self) -> bool {
        if self.ended {
            return false;
        }
        // The oldest one is never waited for in vain: a task larger than the bound runs alone.
        if self.tasks.is_empty() {
            return true;
        }
        let all: u64 = self.servers.iter().map(|s| u64::from(self.window(s))).sum();
        let oldest =
            if self.rules.ordered { self.counts.pulled - self.next } else { self.tasks.len() as u64 };
        self.bytes < self.rules.bytes
            && oldest < (4 * all).max(SPAN)
            && (self.waiting_anywhere() as f64)
                < (1.5 * self.gap * self.rate).ceil().clamp(BEFORE * self.workers(), AHEAD)
    }

    /// What one more task finds, whether it is of use or not.
    pub fn space(&self) -> Space {
        let has_place = (self.tasks.len() as f64) < AHEAD;
        if self.tasks.is_empty() || has_place && self.bytes < self.rules.bytes {
            return Space::Free;
        }
        let Counts { pulled, done, failed, cancelled, .. } = self.counts;
        let open = pulled - done - failed - cancelled;
        let then = self.kept as f64 + open as f64 * self.result_bytes;
        match has_place && open > 0 && then < self.rules.bytes as f64 {
            true => Space::Later,
            false => Space::Taken,
        }
    }

    /// Whether there is nothing to wait for without input.
    pub fn is_idle(&self) -> bool {
        !self.ended && self.tasks.is_empty()
    }

    fn workers(&self) -> f64 {
        self.servers.iter().map(|s| f64::from(s.workers())).sum::<f64>().max(1.0)
    }

    /// A server offers the service.
    pub fn offered(&mut self, info: &Arc<ServerInfo>) {
        let key = info.incarnation.0;
        match self.servers.iter_mut().find(|s| s.key == key) {
            Some(server) => (server.is_closed, server.is_home_only) = (false, false),
            None => self.begin_server(key, info.clone()),
        }
    }

    /// A server offers the service, and only those tasks are for it that are bound to it.
    pub fn offered_to_bound(&mut self, info: &Arc<ServerInfo>) {
        let key = info.incarnation.0;
        if self.servers.iter().all(|s| s.key != key) {
            self.begin_server(key, info.clone());
            if let Some(server) = self.servers.last_mut() {
                server.is_home_only = true;
            }
        }
    }

    fn begin_server(&mut self, key: ServerKey, info: Arc<ServerInfo>) {
        self.servers.push(Server::new(key, info));
        self.clear_suspects_of(key);
    }

    /// A server was lost and lives: nothing has died of its tasks.
    fn clear_suspects_of(&mut self, key: ServerKey) {
        let mut cleared = Vec::new();
        for (index, task) in self.tasks.iter_mut() {
            if task.clear_of(key) && task.place == Place::Waiting {
                cleared.push(index);
            }
        }
        for index in cleared {
            self.suspects.retain(|suspect| *suspect != index);
            self.wait_in_turn(index);
        }
    }

    /// A task comes among those that wait when its turn is.
    fn wait_in_turn(&mut self, index: u64) {
        let (tasks, ended) = (&self.tasks, self.ended);
        let own = turn(tasks, ended, index);
        let at = self.waiting.partition_point(|other| turn(tasks, ended, *other) < own);
        self.waiting.insert(at, index);
    }

    /// A server offers the service no more; what is there may still end. Tells of tasks that nobody else can run: they are
    /// to be over.
    pub fn withdrawn(&mut self, key: ServerKey) -> VecDeque<u64> {
        if let Some(server) = self.servers.iter_mut().find(|s| s.key == key) {
            server.is_closed = true;
        }
        self.servers.retain(|s| !s.is_closed || !s.under_way.is_empty());
        self.bound.remove(&key).unwrap_or_default()
    }

    /// Servers that died when a task had begun there.
    pub fn deaths(&self, index: u64) -> u8 {
        self.tasks.get(index).map_or(0, Task::deaths)
    }

    /// Whether a task waits and no server would take it, however long.
    pub fn is_starved(&self) -> bool {
        let waits = !self.waiting.is_empty() || !self.suspects.is_empty();
        waits && self.servers.iter().all(|s| !s.takes_any())
    }

    /// Whether tasks wait for their servers.
    pub fn is_waiting(&self) -> bool {
        self.waiting_anywhere() > 0 || !self.suspects.is_empty()
    }

    fn waiting_anywhere(&self) -> usize {
        self.waiting.len() + self.bound.values().map(VecDeque::len).sum::<usize>()
    }

    /// Whether one server alone can run that task.
    pub fn is_bound(&self, index: u64) -> bool {
        self.tasks.get(index).is_some_and(|task| task.home().is_some())
    }

    /// How many tasks a server may have.
    fn window(&self, server: &Server) -> u32 {
        if let Some(all) = self.rules.window {
            let share = f64::from(all) * f64::from(server.workers()) / self.workers();
            return (share.ceil() as u32).max(1);
        }
        window(server.workers(), self.expected(self.next_size(), server), &server.speed)
    }

    /// The size of the task that is to be placed next.
    fn next_size(&self) -> Size {
        self.waiting
            .front()
            .and_then(|index| self.tasks.get(*index))
            .map(|task| task.size)
            .unwrap_or_default()
    }

    /// How long a task of that size is expected to run there.
    fn expected(&self, size: Size, server: &Server) -> Option<f64> {
        self.paces.expected(size, &server.speed)
    }

    /// The next task to send, and where to; it is there from now on. Without a rule only what no rule decides.
    pub fn place(&mut self, rule: Option<&dyn Placement>, now: Ns) -> Option<(u64, ServerKey)> {
        self.reserved = match self.place_suspect(now) {
            Ok(placed) => return Some(placed),
            Err(reserved) => reserved,
        };
        if let Some(placed) = self.place_bound(now) {
            return Some(placed);
        }
        let index = *self.waiting.front()?;
        let server = self.choose(rule?, now)?;
        self.waiting.pop_front();
        self.put(index, server, now);
        Some((index, self.servers[server].key))
    }

    /// What a rule is asked that may wait, of the next task, if a server has room for it.
    pub fn question(&self, now: Ns) -> Option<Question> {
        let index = *self.waiting.front()?;
        let views = self.candidates(now);
        let has_room = views.iter().any(|(_, view)| view.has_room());
        let TaskView { bytes, cost, waiting, .. } = self.next_task();
        let servers = views.iter().map(|(s, view)| (s.key, Candidate::of(&s.info, view))).collect();
        has_room.then_some(Question { index, bytes, cost, waiting, servers })
    }

    /// A task goes to the server that a rule has named, if it still waits and that still has room.
    pub fn place_at(&mut self, index: u64, key: ServerKey, now: Ns) -> Option<(u64, ServerKey)> {
        let at = self.waiting.iter().position(|waits| *waits == index)?;
        let is_fit = self.candidates(now).iter().any(|(s, view)| s.key == key && view.has_room());
        let server = self.servers.iter().position(|s| s.key == key).filter(|_| is_fit)?;
        self.waiting.remove(at);
        self.put(index, server, now);
        Some((index, key))
    }

    /// A task goes to the one server that can run it, if that has room.
    fn place_bound(&mut self, now: Ns) -> Option<(u64, ServerKey)> {
        let (key, index, server) = self.bound.iter().find_map(|(key, queue)| {
            let index = *queue.front()?;
            let server = self.servers.iter().position(|s| s.key == *key)?;
            let (there, size) = (&self.servers[server], self.tasks.get(index)?.size);
            let takes = Some(*key) != self.reserved && !there.is_closed && !self.has_suspect(there);
            (takes && self.view(there, size, now).has_room()).then_some((*key, index, server))
        })?;
        if let Some(queue) = self.bound.get_mut(&key) {
            queue.pop_front();
            if queue.is_empty() {
                self.bound.remove(&key);
            }
        }
        self.put(index, server, now);
        Some((index, key))
    }

    /// A suspect goes to a server that has nothing else; while there is none, one is kept free of others.
    fn place_suspect(&mut self, now: Ns) -> Result<(u64, ServerKey), Option<ServerKey>> {
        let waits = |index: &u64| self.tasks.get(*index).is_some_and(|task| now < task.last() + TOGETHER);
        let Some(at) = self.suspects.iter().position(|index| !waits(index)) else { return Err(None) };
        let index = self.suspects[at];
        let open = self.servers.iter().enumerate().filter(|(_, s)| s.takes_any() && s.is_open(now));
        let Some((server, _)) = open.min_by_key(|(_, s)| s.under_way.len()) else { return Err(None) };
        if !self.servers[server].under_way.is_empty() {
            return Err(Some(self.servers[server].key));
        }
        self.suspects.remove(at);
        self.put(index, server, now);
        Ok((index, self.servers[server].key))
    }

    fn put(&mut self, index: u64, server: usize, now: Ns) {
        let expected = self.expects(index, server);
        let server = &mut self.servers[server];
        let alone = server.under_way.is_empty();
        server.begin(index, expected, now);
        if let Some(task) = self.tasks.get_mut(index) {
            (task.place, task.alone, task.sent) = (Place::At(server.key), alone, now);
        }
        self.counts.under_way += 1;
        self.sent += 1;
    }

    /// How long a task is expected to run at a server, if its service says what calls cost.
    fn expects(&self, index: u64, server: usize) -> Option<Ns> {
        let size = self.tasks.get(index)?.size;
        size.cost()?;
        self.expected(size, &self.servers[server]).map(|ns| (ns as Ns).max(1))
    }

    /// How long a task that is at a server was expected to run there when it went; 0 if nobody knew.
    pub fn expected_at(&self, index: u64, key: ServerKey) -> Ns {
        self.servers.iter().find(|s| s.key == key).map_or(0, |server| server.expected(index))
    }

    /// The server that the rule names, if it has room.
    fn choose(&self, rule: &dyn Placement, now: Ns) -> Option<usize> {
        let (servers, views): (Vec<&Server>, Vec<ServerView>) = self.candidates(now).into_iter().unzip();
        if views.is_empty() {
            return None;
        }
        let Choice::At(at) = rule.choose(&self.next_task(), &views) else { return None };
        let (chosen, _) = servers.get(at).zip(views.get(at)).filter(|(_, view)| view.has_room())?;
        self.servers.iter().position(|s| s.key == chosen.key)
    }

    /// The servers that may get the next task, the one first whose turn it is.
    fn candidates(&self, now: Ns) -> Vec<(&Server, ServerView<'_>)> {
        let takes = |s: &&Server| Some(s.key) != self.reserved && s.takes_any() && !self.has_suspect(s);
        let turn = self.sent as usize % self.servers.len().max(1);
        let (before, from) = self.servers.split_at(turn.min(self.servers.len()));
        let size = self.next_size();
        from.iter().chain(before).filter(takes).map(|s| (s, self.view(s, size, now))).collect()
    }

    /// The next task, as a rule sees it.
    fn next_task(&self) -> TaskView<'_> {
        let bytes =
            self.waiting.front().and_then(|index| self.tasks.get(*index)).map_or(0, |task| task.bytes);
        let cost = self.next_size().cost();
        TaskView { service: &self.service, bytes, cost, waiting: self.waiting.len() }
    }

    fn view<'s>(&self, server: &'s Server, size: Size, now: Ns) -> ServerView<'s> {
        let mine = server.under_way.len() as u32;
        let expected = self.expected(size, server);
        let (workers, speed) = (server.workers(), &server.speed);
        let of_time = size.cost().map(|_| window_of_time(workers, mine, &server.ahead, expected, speed));
        let (of_time, ahead) = of_time.unzip();
        let window = match of_time {
            _ if !server.is_open(now) => mine,
            Some(window) if self.rules.window.is_none() => window,
            _ => self.window(server),
        };
        let mut view =
            ServerView { info: &server.info, mine, theirs: 0, window, expected, ahead, is_late: false };
        // One that takes much longer than it should is waited for no more.
        view.is_late = now.saturating_sub(server.since) as f64 > 2.0 * view.until(0);
        view
    }

    /// Whether it is kept for a task that others are not to meet.
    fn has_suspect(&self, server: &Server) -> bool {
        server.under_way.front().is_some_and(|task| self.is_suspect(*task))
    }

    fn is_suspect(&self, index: u64) -> bool {
        self.tasks.get(index).is_some_and(|task| task.deaths() > 0)
    }

    /// Whether the times of a task are to be taken.
    pub fn is_timed(&self, index: u64) -> bool {
        let size = self.tasks.get(index).map(|task| task.size).unwrap_or_default();
        let is_short = |s: &Server| self.expected(size, s).is_some_and(|t| t < SHORT as f64);
        let short = self.servers.iter().all(is_short) && (size.cost().is_none() || self.paces.knows(size));
        !short || self.sent.is_multiple_of(SOMETIMES)
    }

    /// A task did not go there, for want of room; it waits again, and the server gets nothing for a while.
    pub fn refused(&mut self, index: u64, key: ServerKey, now: Ns) {
        if !self.take_from_server(index, key) {
            return;
        }
        self.wait_again(index);
        self.put_off(key, now + MOMENT);
    }

    /// A server gets nothing until then, unless a task ends there before.
    pub fn put_off(&mut self, key: ServerKey, until: Ns) {
        if let Some(server) = self.servers.iter_mut().find(|s| s.key == key) {
            server.full = Some(until);
        }
    }

    /// Whether something can be sent in a moment that cannot now.
    pub fn waits_a_moment(&self, now: Ns) -> bool {
        let is_soon = |until: Ns| until <= now + MOMENT;
        !self.suspects.is_empty() || self.servers.iter().any(|s| s.full.is_some_and(is_soon))
    }

    /// A task is at that server no more; false if it was not.
    fn take_from_server(&mut self, index: u64, key: ServerKey) -> bool {
        let taken = self.servers.iter_mut().find(|s| s.key == key).is_some_and(|s| s.take(index));
        if taken {
            self.left(index, key);
        }
        taken
    }

    /// A task is at no server any more.
    fn take_from_all(&mut self, index: u64) {
        while let Some(Task { place: Place::At(key), .. }) = self.tasks.get(index) {
            let key = *key;
            if !self.take_from_server(index, key) {
                break;
            }
        }
    }

    /// A task has left that server: it is the second one's, if there is one.
    fn left(&mut self, index: u64, key: ServerKey) {
        let Some(task) = self.tasks.get_mut(index) else { return };
        match task.take_second() {
            Some(second) if second != key => task.place = Place::At(second),
            Some(_) => {}
            None => {
                task.place = Place::Nowhere;
                self.counts.under_way -= 1;
            }
        }
    }

    /// Whether a server has that task.
    pub fn is_under_way(&self, index: u64) -> bool {
        self.tasks.get(index).is_some_and(|task| matches!(task.place, Place::At(_)))
    }

    /// A task waits for a server, unless one has it still.
    fn wait_again(&mut self, index: u64) {
        let Some(task) = self.tasks.get_mut(index) else { return };
        if matches!(task.place, Place::At(_)) {
            return;
        }
        task.place = Place::Waiting;
        let queue = match task.home() {
            Some(home) => self.bound.entry(home).or_default(),
            None if task.deaths() > 0 => &mut self.suspects,
            None => return self.wait_in_turn(index),
        };
        let at = queue.partition_point(|other| *other < index);
        queue.insert(at, index);
    }

    /// A reply to a task has come: that server has it no more. What it says follows.
    pub fn came(&mut self, index: u64, key: ServerKey, times: Option<Times>, now: Ns) {
        if !self.take_from_server(index, key) {
            return;
        }
        let size = self.tasks.get(index).map(|task| task.size).unwrap_or_default();
        // As it was expected before this one told.
        let unit = self.unit(size);
        if let Some(server) = self.servers.iter_mut().find(|s| s.key == key) {
            server.since = now;
            if let Some(Times { ran, waited, total, there }) = times {
                server.speed.tells(there, server.under_way.len() as u32 + 1);
                self.paces.learn(size, &mut server.speed, ran);
                if let Some(unit) = unit {
                    self.lengths.learn(&server.speed, ran, unit);
                }
                if self.tasks.get(index).is_some_and(|task| task.alone) {
                    server.speed.took_beside(total.saturating_sub(ran).saturating_sub(waited));
                }
            }
        }
        self.servers.retain(|s| !s.is_closed || !s.under_way.is_empty());
    }

    /// The server that had it did nothing: it goes to another one, unless a second one has it.
    pub fn again(&mut self, index: u64) {
        self.wait_again(index);
    }

    /// A task has ended, with so many bytes of results.
    pub fn over(&mut self, index: u64, fate: TaskFate, results: u64) {
        let Some(task) = self.tasks.get(index) else { return };
        if task.place == Place::Over {
            return;
        }
        self.take_from_all(index);
        let Some(task) = self.tasks.get_mut(index) else { return };
        task.place = Place::Over;
        self.bytes = self.bytes - task.bytes + results;
        self.kept += results;
        task.bytes = results;
        self.fates.set(index, fate);
        *match fate {
            TaskFate::Done => &mut self.counts.done,
            TaskFate::Failed => &mut self.counts.failed,
            TaskFate::Cancelled => &mut self.counts.cancelled,
        } += 1;
        if fate == TaskFate::Done {
            self.result_bytes += (results as f64 - self.result_bytes) / 16.0;
        }
        if !self.rules.ordered {
            self.ready.push_back(index);
        }
    }

    /// A server is lost. Tells of tasks that are not to be tried again; the others wait.
    pub fn lost(&mut self, key: ServerKey, now: Ns) -> Vec<(u64, Verdict)> {
        let Some(at) = self.servers.iter().position(|s| s.key == key) else { return Vec::new() };
        let server = self.servers.remove(at);
        let bound = self.bound.remove(&key).unwrap_or_default();
        let mut over: Vec<_> = bound.into_iter().map(|index| (index, Verdict::Bound)).collect();
        let workers = server.workers() as usize;
        for (place, index) in server.under_way.into_iter().enumerate() {
            self.left(index, key);
            if self.is_bound(index) {
                over.push((index, Verdict::Bound));
                continue;
            }
            if self.rules.effects {
                over.push((index, Verdict::Unknown));
                continue;
            }
            let Some(task) = self.tasks.get_mut(index) else { continue };
            // Those that had not begun have done nothing.
            let had_begun = place < workers;
            if had_begun {
                task.died_at(key, now);
            }
            match task.deaths() >= LIVES && task.place == Place::Nowhere {
                true => over.push((index, Verdict::Kills)),
                false => self.wait_again(index),
            }
        }
        over
    }

    /// All that wait, for want of servers: they are to be over.
    pub fn give_up(&mut self) -> Vec<u64> {
        self.suspects.drain(..).chain(self.waiting.drain(..)).collect()
    }

    /// A task is not wanted any more. False when it is over already.
    pub fn cancel(&mut self, index: u64) -> bool {
        let Some(task) = self.tasks.get(index) else { return false };
        match task.place {
            Place::Over => return false,
            Place::Waiting => {
                self.waiting.retain(|other| *other != index);
                self.suspects.retain(|other| *other != index);
                self.bound.values_mut().for_each(|queue| queue.retain(|other| *other != index));
            }
            Place::At(_) | Place::Nowhere => {}
        }
        self.over(index, TaskFate::Cancelled, 0);
        true
    }

    /// Whether [`Machine::deliver`] has something.
    pub fn has_ready(&self) -> bool {
        match self.rules.ordered {
            true => self.tasks.get(self.next).is_some_and(|task| task.place == Place::Over),
            false => !self.ready.is_empty(),
        }
    }

    /// The next task that is over, which is the user's from now on.
    pub fn deliver(&mut self) -> Option<u64> {
        if !self.has_ready() {
            return None;
        }
        let index = match self.rules.ordered {
            true => self.next,
            false => self.ready.pop_front()?,
        };
        self.next += 1;
        let task = self.tasks.remove(index)?;
        self.bytes -= task.bytes;
        self.kept -= task.bytes;
        Some(index)
    }

    /// Whether all input was pulled and everything was handed out.
    pub fn is_over(&self) -> bool {
        self.ended && self.tasks.is_empty()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How a task has ended, if it has.
    pub fn fate(&self, index: u64) -> Option<TaskFate> {
        self.fates.get(index)
    }

    /// Tasks that were pulled and not handed out.
    pub fn open(&self) -> impl Iterator<Item = u64> {
        self.tasks.iter().map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests;
