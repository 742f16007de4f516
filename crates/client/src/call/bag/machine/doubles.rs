//! Tasks that a second server runs, too, at the end of a bag.

use crate::call::bag::servers::{Server, ServerKey};
use crate::call::bag::tail::Running;
use crate::call::bag::tasks::Task;
use crate::call::estimate::Size;
use crate::call::pace::{Ns, Speed};

use super::Machine;

/// One task of so many may be given to a second server, and one in any case.
const MOST_DOUBLED: u64 = 10;
/// As so many nanoseconds counts the length of a task that took as long as was expected of its cost.
const EXPECTED: f64 = 1_000_000.0;

impl Machine {
    /// Whether a second server may run a task, too: all input was taken, and nothing waits.
    pub fn may_double(&self) -> bool {
        self.rules.tail && !self.rules.effects && self.ended && !self.is_waiting()
    }

    /// A task that a second server is to run, too, and which; it is there from now on.
    pub fn double(&mut self, now: Ns) -> Option<(u64, ServerKey)> {
        if !self.may_double() || self.doubled > self.counts.pulled / MOST_DOUBLED {
            return None;
        }
        let idle = self.servers.iter().filter(|s| {
            let is_free = s.under_way.len() < s.workers() as usize;
            is_free
                && s.takes_any()
                && s.is_open(now)
                && !s.under_way.iter().any(|task| self.is_suspect(*task))
        });
        let found =
            idle.flat_map(|other| self.gains(other, now).map(move |(gain, index)| (gain, index, other.key)));
        let (_, index, key) = found.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let at = self.servers.iter().position(|s| s.key == key)?;
        let expected = self.expects(index, at);
        self.servers[at].begin(index, expected, now);
        self.tasks.get_mut(index)?.rare().second = Some(key);
        self.doubled += 1;
        self.sent += 1;
        Some((index, key))
    }

    /// The tasks that pay to be begun anew by that server, and by how much they are over sooner.
    fn gains<'s>(&'s self, other: &'s Server, now: Ns) -> impl Iterator<Item = (f64, u64)> + 's {
        let under_way = self.servers.iter().filter(|s| s.key != other.key).flat_map(|server| {
            server.under_way.iter().enumerate().map(move |(place, index)| (server, place as u32, *index))
        });
        under_way.filter_map(move |(server, place, index)| {
            let is_lone = |t: &&Task| t.second().is_none() && t.deaths() == 0 && t.home().is_none();
            let task = self.tasks.get(index).filter(is_lone)?;
            let begun = if server.workers() == 1 { task.sent.max(server.since) } else { task.sent };
            let age = (place < server.workers()).then(|| now.saturating_sub(begun));
            let unit = self.unit(task.size)?;
            let running = Running { speed: &server.speed, age, before: place / server.workers(), unit };
            let gain = self.lengths.gain(&running, &other.speed, other.speed.beside())?;
            Some((gain, index))
        })
    }

    /// In what the length of a task of that size is measured: where it is known what tasks cost, in a part of what is
    /// expected of it.
    pub(super) fn unit(&self, size: Size) -> Option<f64> {
        match size.cost() {
            None => Some(1.0),
            Some(_) => self.paces.expected(size, &Speed::default()).map(|ns| ns / EXPECTED),
        }
    }
}
