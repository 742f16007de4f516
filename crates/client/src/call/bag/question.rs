//! What a rule of placement is asked that may wait: a copy of what the machine of a bag knows, for nothing is locked then.

use std::sync::Arc;

use forebay_types::directory::ServerInfo;

use super::servers::ServerKey;
use crate::call::placement::{self, Choice, Placement, ServerView, TaskView};

/// Where the next task is to go.
pub(super) struct Question {
    pub index: u64,
    pub bytes: u64,
    pub cost: Option<u64>,
    pub waiting: usize,
    /// The servers that may get it.
    pub servers: Vec<(ServerKey, Candidate)>,
}

/// A server as it was when the question was put.
pub(super) struct Candidate {
    info: Arc<ServerInfo>,
    mine: u32,
    window: u32,
    expected: Option<f64>,
    ahead: Option<f64>,
    is_late: bool,
}

impl Candidate {
    pub fn of(info: &Arc<ServerInfo>, view: &ServerView) -> Candidate {
        let ServerView { mine, window, expected, ahead, is_late, .. } = *view;
        Candidate { info: info.clone(), mine, window, expected, ahead, is_late }
    }

    fn view(&self) -> ServerView<'_> {
        ServerView {
            info: &self.info,
            mine: self.mine,
            theirs: 0,
            window: self.window,
            expected: self.expected,
            ahead: self.ahead,
            is_late: self.is_late,
        }
    }
}

impl Question {
    /// The server that the rule names, if it names one.
    pub fn put(&self, rule: &dyn Placement, service: &str) -> Option<ServerKey> {
        let task = TaskView { service, bytes: self.bytes, cost: self.cost, waiting: self.waiting };
        let views: Vec<ServerView> = self.servers.iter().map(|(_, candidate)| candidate.view()).collect();
        let Choice::At(at) = placement::ask(rule, &task, &views) else { return None };
        self.servers.get(at).map(|(key, _)| *key)
    }
}
