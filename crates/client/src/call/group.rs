//! Groups: calls that run at the same time and are waited for together, in groups within groups.
//!
//! ```text
//! group 0: call 0, call 1, ...................... call 5, end: waits for 0, 1, 5, and 3, 4 if group 2 is open still
//!   group 1:         call 2, end: waits for 2
//!   group 2:                  call 3, call 4
//! ```
//! One tree holds the calls of a group and of all groups within it, by the order of their issue. The end of a group
//! takes what is open within it along. What a call is, how it is waited for and how it is given up, is the caller's
//! ([`Joined`]): every language has calls of its own, with places for their results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_host::fork::own_pid;
use forebay_types::{Code, Error, Result};

use super::lock;
use super::reply::Printed;

/// Calls of a group and of those within it, at most.
pub const CALLS: usize = 1 << 20;
/// Groups stand within each other, at most.
pub const DEPTH: u32 = 64;

/// The number of a group that stands within no other one.
const OUTERMOST: u64 = 0;

/// A call of a group.
pub trait Joined: Send + Sync {
    /// Waits at most so long, and says how it ended; none: it is under way still. An error: it could not be waited for,
    /// which says nothing of the call.
    fn join(&self, timeout: Option<Duration>) -> Result<Option<Result<()>>>;
    /// Gives it up; for any thread, also while another one waits for it.
    fn cancel(&self);
    /// What its service has printed, if it has failed and somebody is to hear that.
    fn printed(&self) -> Option<Printed> {
        None
    }
}

/// How a group has ended.
#[derive(Debug, PartialEq)]
pub struct Joint {
    /// How many calls it had.
    pub calls: usize,
    /// The first one that failed, in the order of their issue, counted from 0.
    pub failed: Option<(usize, Error)>,
    /// What its service has printed.
    pub printed: Option<Printed>,
}

/// The number of a call before it is sent: the order of its issue.
pub struct Ticket(u64);

/// Calls that run at the same time. Dropped before its end, its calls are given up; those of one that stands within another
/// one are left to that.
pub struct Group<C: Joined> {
    tree: Arc<Tree<C>>,
    number: u64,
}

/// A group and all those within it.
struct Tree<C> {
    pid: u32,
    state: Mutex<State<C>>,
}

struct State<C> {
    /// Of the next call or group.
    next: u64,
    /// Those that are open, by their number: whichever stands in another one has a higher number.
    groups: BTreeMap<u64, Node>,
    calls: BTreeMap<u64, Entry<C>>,
}

struct Node {
    within: Option<u64>,
    depth: u32,
    cancelled: bool,
    /// A thread waits for its end.
    ending: bool,
}

struct Entry<C> {
    group: u64,
    service: Arc<str>,
    call: Arc<C>,
}

fn ended() -> Error {
    Error::new(Code::Closed, "the group has ended, or one around it has; begin another one")
}

fn cancelled() -> Error {
    Error::new(Code::Cancelled, "the group was cancelled; end it, and begin another one")
}

fn busy() -> Error {
    Error::new(Code::Conflict, "another thread ends the group; calls and groups go into it before that")
}

impl<C> State<C> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// An open group that nobody has given up and nobody ends.
    fn open(&self, group: u64) -> Result<&Node> {
        let node = self.groups.get(&group).ok_or_else(ended)?;
        if self.around(group).any(|node| node.cancelled) {
            return Err(cancelled());
        }
        if self.around(group).any(|node| node.ending) {
            return Err(busy());
        }
        Ok(node)
    }

    /// A group and those around it.
    fn around(&self, group: u64) -> impl Iterator<Item = &Node> {
        let node = |number: u64| self.groups.get(&number);
        std::iter::successors(node(group), move |within| within.within.and_then(node))
    }

    /// A group and all that are open within it.
    fn whole(&self, group: u64) -> BTreeSet<u64> {
        let mut whole = BTreeSet::from([group]);
        for (number, node) in self.groups.range(group..) {
            if node.within.is_some_and(|around| whole.contains(&around)) {
                whole.insert(*number);
            }
        }
        whole
    }

    /// Their calls, in the order of their issue.
    fn calls_of(&self, groups: &BTreeSet<u64>) -> Vec<(Arc<str>, Arc<C>)> {
        let theirs = self.calls.values().filter(|entry| groups.contains(&entry.group));
        theirs.map(|entry| (entry.service.clone(), entry.call.clone())).collect()
    }

    fn remove(&mut self, groups: &BTreeSet<u64>) {
        self.groups.retain(|number, _| !groups.contains(number));
        self.calls.retain(|_, entry| !groups.contains(&entry.group));
    }
}

impl<C: Joined> Group<C> {
    /// A group within none.
    pub fn begin() -> Group<C> {
        let node = Node { within: None, depth: 1, cancelled: false, ending: false };
        let state = State { next: 1, groups: BTreeMap::from([(OUTERMOST, node)]), calls: BTreeMap::new() };
        Group { tree: Arc::new(Tree { pid: own_pid(), state: Mutex::new(state) }), number: OUTERMOST }
    }

    /// A group within this one, which ends it if it is open still.
    pub fn begin_within(&self) -> Result<Group<C>> {
        self.check_process()?;
        let mut state = lock(&self.tree.state);
        let depth = state.open(self.number)?.depth + 1;
        if depth > DEPTH {
            return Err(Error::new(
                Code::Full,
                format!(
                    "groups stand within each other {DEPTH} deep at most; end one before the next begins"
                ),
            ));
        }
        let number = state.number();
        let node = Node { within: Some(self.number), depth, cancelled: false, ending: false };
        state.groups.insert(number, node);
        Ok(Group { tree: self.tree.clone(), number })
    }

    /// The number of a call that is sent next.
    pub fn issue(&self) -> Result<Ticket> {
        self.check_process()?;
        let mut state = lock(&self.tree.state);
        state.open(self.number)?;
        if state.calls.len() >= CALLS {
            return Err(Error::new(
                Code::Full,
                format!("a group has at most {CALLS} calls; end it, or call one service by a bag of tasks"),
            ));
        }
        Ok(Ticket(state.number()))
    }

    /// Takes a call that was sent. If the group has ended or was given up meanwhile so is the call.
    pub fn add(&self, ticket: Ticket, service: &str, call: Arc<C>) -> Result<()> {
        let mut state = lock(&self.tree.state);
        let refused = state.open(self.number).err();
        if let Some(refused) = refused {
            drop(state);
            call.cancel();
            return Err(refused);
        }
        state.calls.insert(ticket.0, Entry { group: self.number, service: service.into(), call });
        Ok(())
    }

    /// Waits for all its calls and for those of groups within it that are open, which end with it; others run on when
    /// one fails. An error: it has not ended; `Timeout` when a call is under way after that time.
    pub fn end(&self, timeout: Option<Duration>) -> Result<Joint> {
        self.check_process()?;
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let calls = {
            let mut state = lock(&self.tree.state);
            let whole = state.whole(self.number);
            if !state.groups.contains_key(&self.number) {
                return Err(ended());
            }
            let within = whole.iter().filter_map(|number| state.groups.get(number));
            let around = state.around(self.number);
            if within.chain(around).any(|node| node.ending) {
                return Err(busy());
            }
            state.groups.entry(self.number).and_modify(|node| node.ending = true);
            state.calls_of(&whole)
        };
        let joint = join(&calls, deadline);
        let mut state = lock(&self.tree.state);
        match joint {
            Ok(joint) => {
                let whole = state.whole(self.number);
                state.remove(&whole);
                Ok(joint)
            }
            Err(e) => {
                if let Some(node) = state.groups.get_mut(&self.number) {
                    node.ending = false;
                }
                Err(e)
            }
        }
    }

    /// Gives up what is not complete of its calls, and of those of groups within it; nothing more goes into it. Its end
    /// is still to be waited for, which takes no time.
    pub fn cancel(&self) -> Result<()> {
        self.check_process()?;
        let calls = {
            let mut state = lock(&self.tree.state);
            state.groups.get_mut(&self.number).ok_or_else(ended)?.cancelled = true;
            state.calls_of(&state.whole(self.number))
        };
        calls.iter().for_each(|(_, call)| call.cancel());
        Ok(())
    }

    /// Gives up what is not complete, and ends without a word.
    pub fn close(&self) {
        if self.check_process().is_err() {
            return; // locks may be held by threads that this process does not have
        }
        let calls = {
            let mut state = lock(&self.tree.state);
            let whole = state.whole(self.number);
            let calls = state.calls_of(&whole);
            state.remove(&whole);
            calls
        };
        calls.iter().for_each(|(_, call)| call.cancel());
    }

    fn check_process(&self) -> Result<()> {
        match own_pid() == self.tree.pid {
            true => Ok(()),
            false => Err(Error::new(
                Code::Closed,
                format!(
                    "the group belongs to the parent process {}; begin another one after fork",
                    self.tree.pid
                ),
            )),
        }
    }
}

impl<C: Joined> Drop for Group<C> {
    fn drop(&mut self) {
        if self.number == OUTERMOST {
            self.close();
        }
    }
}

fn join<C: Joined>(calls: &[(Arc<str>, Arc<C>)], deadline: Option<Instant>) -> Result<Joint> {
    let total = calls.len();
    let (mut failed, mut printed) = (None, None);
    for (index, (service, call)) in calls.iter().enumerate() {
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        match call.join(left)? {
            Some(Ok(())) => {}
            Some(Err(e)) if failed.is_none() => {
                failed = Some((index, e.within(format_args!("call {} of {total} ({service})", index + 1))));
                printed = call.printed();
            }
            Some(Err(_)) => {}
            None => {
                return Err(Error::new(
                    Code::Timeout,
                    format!(
                        "call {} of {total} ({service}) of the group is under way; wait longer, or cancel the group",
                        index + 1
                    ),
                ));
            }
        }
    }
    Ok(Joint { calls: total, failed, printed })
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
