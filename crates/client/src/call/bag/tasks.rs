//! What the machine of a bag knows of one task, and in what order tasks wait.

use std::cmp::Reverse;

use forebay_link::QuickMap;

use super::servers::ServerKey;
use crate::call::estimate::Size;
use crate::call::pace::Ns;

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Waiting,
    At(ServerKey),
    /// It has left its server a moment ago.
    Nowhere,
    Over,
}

/// A task as the machine of a bag knows it.
#[derive(Debug)]
pub(super) struct Task {
    pub place: Place,
    /// A second server that runs it, too.
    pub second: Option<ServerKey>,
    /// When it was sent to the first.
    pub sent: Ns,
    pub bytes: u64,
    pub size: Size,
    /// The one server that can run it, if there is one.
    pub home: Option<ServerKey>,
    /// Servers that died when it had begun there, and when the last one did.
    pub deaths: u8,
    pub last: Ns,
    pub under: Option<ServerKey>,
    /// It met no other one at its server.
    pub alone: bool,
}

impl Task {
    pub fn new(bytes: u64, size: Size, home: Option<ServerKey>) -> Task {
        Task {
            place: Place::Waiting,
            second: None,
            sent: 0,
            bytes,
            size,
            home,
            deaths: 0,
            last: 0,
            under: None,
            alone: false,
        }
    }
}

/// By what those that wait are sorted: their indices, or, when no more come, by what they cost first.
pub(super) fn turn(tasks: &QuickMap<u64, Task>, ended: bool, index: u64) -> (Reverse<Option<u64>>, u64) {
    let cost = tasks.get(&index).filter(|_| ended).and_then(|task| task.size.cost());
    (Reverse(cost), index)
}
