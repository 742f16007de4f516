//! What the machine of a bag knows of one task, and in what order tasks wait.

use std::cmp::Reverse;

use super::servers::ServerKey;
use super::slab::Slab;
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

/// A task as the machine of a bag knows it. There may be many, so what few have stands elsewhere.
#[derive(Debug)]
pub(super) struct Task {
    pub place: Place,
    /// When it was sent to the first.
    pub sent: Ns,
    pub bytes: u64,
    pub size: Size,
    /// It met no other one at its server.
    pub alone: bool,
    rare: Option<Box<Rare>>,
}

/// What is known of few tasks.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// A second server that runs it, too.
    pub second: Option<ServerKey>,
    /// The one server that can run it, if there is one.
    home: Option<ServerKey>,
    /// Servers that died when it had begun there, and when the last one did.
    deaths: u8,
    last: Ns,
    under: Option<ServerKey>,
}

impl Task {
    pub fn new(bytes: u64, size: Size, home: Option<ServerKey>) -> Task {
        let rare = home.map(|_| Box::new(Rare { home, ..Rare::default() }));
        Task { place: Place::Waiting, sent: 0, bytes, size, alone: false, rare }
    }

    pub fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// A second server that runs it, too.
    pub fn second(&self) -> Option<ServerKey> {
        self.rare.as_ref()?.second
    }

    pub fn take_second(&mut self) -> Option<ServerKey> {
        self.rare.as_mut()?.second.take()
    }

    /// The one server that can run it, if there is one.
    pub fn home(&self) -> Option<ServerKey> {
        self.rare.as_ref()?.home
    }

    /// Servers that died when it had begun there.
    pub fn deaths(&self) -> u8 {
        self.rare.as_ref().map_or(0, |rare| rare.deaths)
    }

    /// When the last one did.
    pub fn last(&self) -> Ns {
        self.rare.as_ref().map_or(0, |rare| rare.last)
    }

    /// A server has died when it had begun there.
    pub fn died_at(&mut self, key: ServerKey, now: Ns) {
        let rare = self.rare();
        (rare.deaths, rare.last, rare.under) = (rare.deaths + 1, now, Some(key));
    }

    /// That server lives: it has not died of this task. Says whether none has, then, that was thought to have.
    pub fn clear_of(&mut self, key: ServerKey) -> bool {
        let Some(rare) = self.rare.as_mut().filter(|rare| rare.under == Some(key)) else { return false };
        rare.under = None;
        rare.deaths -= 1;
        rare.deaths == 0
    }
}

/// By what those that wait are sorted: their indices, or, when no more come, by what they cost first.
pub(super) fn turn(tasks: &Slab<Task>, ended: bool, index: u64) -> (Reverse<Option<u64>>, u64) {
    let cost = tasks.get(index).filter(|_| ended).and_then(|task| task.size.cost());
    (Reverse(cost), index)
}
