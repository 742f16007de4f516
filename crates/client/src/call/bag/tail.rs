//! The last tasks of a bag: which of them a second server is to run, too, because the one that has it takes too long.
//!
//! The lengths of tasks are kept by quarters of their binary logarithms, as they would be on a server of usual speed. From
//! them comes how long a task may be expected to be that is not over after so long. A second server pays when it is
//! faster by enough to make up for beginning anew, or when the first one is *late*: with a task four times as long as
//! all but one in a hundred, something else is wrong than the task. Of servers that are alike none is late and none
//! faster, so long tasks are not run twice there. Of tasks of unlike cost each is measured by what is expected of it.

use crate::call::pace::{Ns, Speed};

/// Quarters of binary logarithms, from a nanosecond on.
const CLASSES: usize = 256;
/// Fewer lengths than this tell nothing.
const FEW: u32 = 8;
/// What a second server must save at least: it may be wrong about the length.
const SAVES: f64 = 0.8;
/// So many times the length of nearly all, and the server is late.
const LATE: f64 = 4.0;

/// How long tasks were, as on a server of usual speed.
#[derive(Debug)]
pub(super) struct Lengths {
    counts: Box<[u32; CLASSES]>,
    all: u32,
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths { counts: Box::new([0; CLASSES]), all: 0 }
    }
}

/// A task at a server.
pub(super) struct Running<'s> {
    pub speed: &'s Speed,
    /// How long it has run there; nothing if it waits behind others.
    pub age: Option<Ns>,
    /// Those that are before it there.
    pub before: u32,
    /// In what its length is measured, in nanoseconds: 1, or a part of what is expected of it where tasks differ.
    pub unit: f64,
}

impl Lengths {
    /// A task ran so long on a server of that speed; its length is measured in that unit.
    pub fn learn(&mut self, speed: &Speed, ran: Ns, unit: f64) {
        let class = (4.0 * (usual(speed, ran as f64) / unit).max(1.0).log2()) as usize;
        let count = &mut self.counts[class.min(CLASSES - 1)];
        *count = count.saturating_add(1);
        self.all = self.all.saturating_add(1);
    }

    /// The mean of those that are longer; a quarter longer than all that were seen, if none is.
    fn beyond(&self, length: f64) -> f64 {
        let longer = self.counts.iter().enumerate().map(|(class, n)| (middle(class), f64::from(*n)));
        let (sum, n) = longer
            .filter(|(middle, _)| *middle > length)
            .fold((0.0, 0.0), |(sum, all), (middle, n)| (sum + middle * n, all + n));
        if n > 0.0 { sum / n } else { 1.25 * length }
    }

    /// What all but one in a hundred are shorter than.
    fn nearly_all(&self) -> f64 {
        let mut left = self.all / 100;
        for (class, n) in self.counts.iter().enumerate().rev() {
            if *n > left {
                return middle(class);
            }
            left -= n;
        }
        0.0
    }

    /// How many nanoseconds sooner a task is over if another server, which is idle, begins it now; nothing if that does
    /// not pay. `beside` is what a task takes there beside its running.
    pub fn gain(&self, task: &Running, other: &Speed, beside: f64) -> Option<f64> {
        if self.all < FEW {
            return None;
        }
        let there = |length: f64| length * other.factor() + beside;
        let here = task.speed.factor();
        let mean = self.beyond(0.0) * task.unit;
        let Some(age) = task.age.map(|age| age as f64) else {
            let left = mean * here * f64::from(task.before + 1);
            return gained(left, there(mean));
        };
        let longest = self.nearly_all() * task.unit;
        if age > LATE * longest * here {
            return gained(age / 2.0, there(longest));
        }
        let length = self.beyond(age / here / task.unit) * task.unit;
        gained(length * here - age, there(length))
    }
}

fn gained(left: f64, anew: f64) -> Option<f64> {
    (anew < SAVES * left).then_some(left - anew)
}

fn usual(speed: &Speed, ran: f64) -> f64 {
    ran / speed.factor()
}

/// The length in the middle of a class.
fn middle(class: usize) -> f64 {
    ((class as f64 + 0.5) / 4.0).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::pace::Pace;

    const MS: Ns = 1_000_000;

    /// Servers that are so many times slower than usual, and lengths of tasks in milliseconds.
    fn known(slowness: [f64; 2], lengths: &[Ns]) -> (Lengths, [Speed; 2]) {
        let (mut pace, mut all) = (Pace::default(), Lengths::default());
        let mut speeds = [Speed::default(); 2];
        for round in 0..40 {
            for (speed, slow) in speeds.iter_mut().zip(slowness) {
                let ran = (lengths[round % lengths.len()] as f64 * MS as f64 * slow) as Ns;
                pace.learn(speed, ran);
                all.learn(speed, ran, 1.0);
            }
        }
        (all, speeds)
    }

    fn gain(known: &(Lengths, [Speed; 2]), from: usize, age: Option<Ns>) -> bool {
        let (lengths, speeds) = known;
        let task = Running { speed: &speeds[from], age, before: 1, unit: 1.0 };
        lengths.gain(&task, &speeds[1 - from], 0.0).is_some()
    }

    #[test]
    fn of_servers_that_are_alike_none_runs_a_task_twice_however_long_it_is_within_reason() {
        let alike = known([1.0, 1.0], &[10, 20, 10, 400]);
        for age in [0, 5, 15, 100, 300, 600, 1_000] {
            assert!(!gain(&alike, 0, Some(age * MS)), "{age}");
        }
        assert!(gain(&alike, 0, Some(2_500 * MS)), "that server is late");
        assert!(gain(&alike, 0, None), "it waits behind another one");
    }

    #[test]
    fn a_faster_server_runs_what_a_slow_one_has_just_begun_and_not_what_is_nearly_over() {
        let unlike = known([1.0, 4.0], &[100]);
        assert!(gain(&unlike, 1, Some(20 * MS)));
        assert!(!gain(&unlike, 1, Some(330 * MS)));
        assert!((0..100).all(|age| !gain(&unlike, 0, Some(age * MS))), "never the other way round");
    }

    #[test]
    fn nothing_is_told_of_few_lengths() {
        let nothing = (Lengths::default(), [Speed::default(); 2]);
        assert!(!gain(&nothing, 0, Some(1_000_000 * MS)));
    }
}
