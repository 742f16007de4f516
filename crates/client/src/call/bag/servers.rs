//! What the machine of a bag knows of one server: its tasks, and how fast it is.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_link::QuickMap;
use forebay_types::directory::ServerInfo;

use crate::call::ahead::Ahead;
use crate::call::pace::{Ns, Speed};

/// A server, by the number of its life.
pub(super) type ServerKey = u64;

#[derive(Debug)]
pub(super) struct Server {
    pub key: ServerKey,
    pub info: Arc<ServerInfo>,
    /// Its tasks, in the order in which they were sent.
    pub under_way: VecDeque<u64>,
    /// How long they run, as far as that is known, and how long each of them.
    pub ahead: Ahead,
    expected: QuickMap<u64, Ns>,
    /// It gets no more: it has withdrawn the service.
    pub is_closed: bool,
    /// It gets those tasks only that it alone can run.
    pub is_home_only: bool,
    /// It takes no more until something comes back, or a while is over.
    pub full: Option<Ns>,
    /// When a task ended there last, or came to an idle one.
    pub since: Ns,
    pub speed: Speed,
}

impl Server {
    pub fn new(key: ServerKey, info: Arc<ServerInfo>) -> Server {
        Server {
            key,
            info,
            under_way: VecDeque::new(),
            ahead: Ahead::default(),
            expected: QuickMap::default(),
            is_closed: false,
            is_home_only: false,
            full: None,
            since: 0,
            speed: Speed::default(),
        }
    }

    /// It has one task more.
    pub fn begin(&mut self, index: u64, expected: Option<Ns>, now: Ns) {
        if self.under_way.is_empty() {
            self.since = now;
        }
        self.under_way.push_back(index);
        if let Some(expected) = expected {
            self.ahead.add(expected);
            self.expected.insert(index, expected);
        }
    }

    /// It has that task no more, and takes others; false if it had not.
    pub fn take(&mut self, index: u64) -> bool {
        let Some(at) = self.under_way.iter().position(|task| *task == index) else { return false };
        self.under_way.remove(at);
        if let Some(expected) = self.expected.remove(&index) {
            self.ahead.take(expected);
        }
        self.full = None;
        true
    }

    /// How long it was expected to run that task when it got it; 0 if nobody knew.
    pub fn expected(&self, index: u64) -> Ns {
        self.expected.get(&index).copied().unwrap_or(0)
    }

    pub fn workers(&self) -> u32 {
        self.info.workers.max(1)
    }

    /// Whether it gets tasks that others could run as well.
    pub fn takes_any(&self) -> bool {
        !self.is_closed && !self.is_home_only
    }

    pub fn is_open(&self, now: Ns) -> bool {
        self.full.is_none_or(|until| now >= until)
    }
}
