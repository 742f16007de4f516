//! Which numbers snapshots may have. A snapshot is the state after as many steps as its number says, and
//! that is what the loop head finds before it computes the step of that number:
//!
//! ```text
//!   state 0 --step 0--> state 1 --step 1--> state 2 ...       at head 2 the program holds state 2
//! ```
//!
//! So one state may be kept by the bottom of a body, by Save and by the top of the next body: it is taken once.

use std::collections::HashSet;

use forebay_types::{Code, Error, Result};

/// Where a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The number of the state it holds; `None` before anybody has said it.
    pub position: Option<i64>,
    /// The next head, while a loop is under way.
    pub next: Option<i64>,
    /// Whether a loop has ended at the position.
    pub behind: bool,
}

impl Place {
    /// Whether a snapshot of that number is one of the state that is there, or of the one that comes of it.
    fn means(&self, step: i64) -> bool {
        self.position == Some(step) || self.next == Some(step)
    }
}

/// The numbers of a session's snapshots.
#[derive(Default)]
pub struct Numbers {
    /// Those that were there when it was opened.
    standing: HashSet<i64>,
    /// Those that it has ended since it went back, and the one that it went back to.
    taken: HashSet<i64>,
    last: Option<i64>,
    /// Those that it gave up: they are free.
    free: HashSet<i64>,
    /// Where it went back to, until a loop begins there.
    back: Option<i64>,
}

impl Numbers {
    /// Whether a snapshot is to be taken. False: it stands already, and there is nothing to do.
    pub fn judge(&self, step: i64, at: &Place) -> Result<bool> {
        if step < 0 {
            return Err(Error::bad(format!("{step} is no number of a step; they count from 0")));
        }
        let taken = self.taken.contains(&step);
        if taken && at.means(step) {
            return Ok(false);
        }
        if self.free.contains(&step) {
            return Ok(true);
        }
        let refused = |text| Err(Error::new(Code::Conflict, text));
        if let (Some(k), true) = (at.position.filter(|k| *k != step), at.behind) {
            return refused(format!(
                "the loop has ended at step {k}, so the state that is there is number {k} and cannot be kept as step {step}; take run.position (fb_position) as the number"
            ));
        }
        if taken || self.standing.contains(&step) {
            return refused(format!(
                "step {step} is in the run already; go on behind the last one after a restart, or open the run with mode \"w\""
            ));
        }
        match self.last.filter(|last| step < *last) {
            Some(last) => refused(format!(
                "step {last} is kept, and numbers of snapshots grow: step {step} would be one that a restart never goes back to; go back with a restart, or choose a number above {last}"
            )),
            None => Ok(true),
        }
    }

    /// Steps that are in the run.
    pub fn know(&mut self, steps: impl IntoIterator<Item = i64>) {
        self.standing.extend(steps);
    }

    /// A snapshot was ended.
    pub fn take(&mut self, step: i64) {
        self.taken.insert(step);
        self.free.remove(&step);
        self.last = self.last.max(Some(step));
    }

    /// One that was ended is not kept.
    pub fn lose(&mut self, step: i64) {
        self.taken.remove(&step);
        self.last = self.taken.iter().max().copied();
    }

    /// A complete step was given up.
    pub fn free(&mut self, step: i64) {
        self.lose(step);
        self.standing.remove(&step);
        self.free.insert(step);
    }

    /// Whether it was ended in this session, or is the one that the run went back to.
    pub fn is_taken(&self, step: i64) -> bool {
        self.taken.contains(&step)
    }

    /// The last one.
    pub fn last(&self) -> Option<i64> {
        self.last
    }

    /// The run went back to a step, or to its beginning.
    pub fn go_back(&mut self, to: Option<i64>) {
        self.standing.retain(|step| to.is_some_and(|to| *step < to));
        self.taken = to.into_iter().collect();
        self.free.clear();
        (self.last, self.back) = (to, to);
    }

    /// Whether the run went back and no loop has begun since.
    pub fn is_back(&self) -> bool {
        self.back.is_some()
    }

    /// A program that goes through its steps by itself comes to its first one.
    pub fn reach(&mut self, step: i64, at: &Place) -> Result<()> {
        if let Some(held) = self.back.max(at.position).filter(|held| step < *held) {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "step {step} is reached, and the program holds the state of step {held}: steps would be computed twice; go on at step {held}, or go back with a restart"
                ),
            ));
        }
        self.back = None;
        Ok(())
    }

    /// A loop begins, there or where the run went back to; gives its first head.
    pub fn begin_loop(&mut self, start: Option<i64>, at: &Place) -> Result<i64> {
        let refused = |text| Err(Error::new(Code::Conflict, text));
        let first = start.unwrap_or(0);
        // Farther on there may be a number that only the program knows: its snapshot 7 may be of step 700.
        if let Some(back) = self.back.filter(|back| first < *back || first == *back + 1) {
            let wrong = if first > back {
                format!("step {back} would be left out")
            } else {
                format!("steps {first} to {} would be computed twice", back - 1)
            };
            return refused(format!(
                "the run went back to step {back}, the state before step {back} is computed, and a loop from {first} is begun: {wrong}; give the snapshot of the restart as its start (fb_steps_from)"
            ));
        }
        if let Some(position) = at.position.filter(|position| first < *position) {
            return refused(format!(
                "a loop from {first} is begun, and the program holds the state of step {position}: numbers of steps grow; give it a start of {position} or more, or go back with a restart"
            ));
        }
        self.back = None;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTSIDE: Place = Place { position: None, next: None, behind: false };

    fn body(k: i64) -> Place {
        Place { position: Some(k), next: Some(k + 1), behind: false }
    }

    fn behind(k: i64) -> Place {
        Place { position: Some(k), next: None, behind: true }
    }

    fn conflict<T: std::fmt::Debug>(outcome: Result<T>) -> String {
        let e = outcome.unwrap_err();
        assert_eq!(e.code(), Code::Conflict);
        e.text().to_owned()
    }

    #[test]
    fn a_state_that_is_kept_is_not_taken_again_where_the_program_holds_it() {
        let mut numbers = Numbers::default();
        assert!(numbers.judge(4, &body(4)).unwrap());
        numbers.take(4);
        assert!(!numbers.judge(4, &body(4)).unwrap(), "Save took it at this head");
        assert!(numbers.judge(5, &body(4)).unwrap(), "the bottom of the body");
        numbers.take(5);
        assert!(!numbers.judge(5, &body(5)).unwrap(), "the top of the next one");
        assert!(!numbers.judge(5, &behind(5)).unwrap(), "the loop's end");
        assert!(conflict(numbers.judge(4, &body(6))).contains("step 4 is in the run already"));
        numbers.lose(5);
        assert!(numbers.judge(5, &body(5)).unwrap());
    }

    #[test]
    fn without_a_loop_a_number_is_taken_once_and_numbers_grow() {
        let mut numbers = Numbers::default();
        numbers.take(7);
        assert!(conflict(numbers.judge(7, &OUTSIDE)).contains("step 7 is in the run already"));
        assert!(conflict(numbers.judge(6, &OUTSIDE)).contains("a number above 7"));
        numbers.free(7);
        assert!(numbers.judge(7, &OUTSIDE).unwrap() && numbers.judge(6, &OUTSIDE).unwrap());
    }

    #[test]
    fn behind_a_loop_that_was_ended_early_a_state_keeps_its_number() {
        let numbers = Numbers::default();
        assert!(conflict(numbers.judge(100, &behind(40))).contains("ended at step 40"));
        assert!(numbers.judge(40, &behind(40)).unwrap());
    }

    #[test]
    fn a_loop_goes_on_where_the_run_went_back_to_and_nowhere_else() {
        let mut numbers = Numbers::default();
        numbers.know([10, 20, 30]);
        assert!(conflict(numbers.judge(20, &body(20))).contains("in the run already"));
        numbers.go_back(Some(20));
        let at = Place { position: Some(20), ..OUTSIDE };
        assert!(!numbers.judge(20, &at).unwrap() && numbers.judge(30, &at).unwrap());
        assert!(conflict(numbers.judge(10, &at)).contains("in the run already"));
        assert!(conflict(numbers.begin_loop(Some(21), &at)).contains("step 20 would be left out"));
        assert!(conflict(numbers.begin_loop(None, &at)).contains("steps 0 to 19 would be computed twice"));
        assert_eq!(numbers.begin_loop(Some(20), &at).unwrap(), 20);
        numbers.go_back(Some(7));
        let at = Place { position: Some(7), ..OUTSIDE };
        assert_eq!(numbers.begin_loop(Some(700), &at).unwrap(), 700, "snapshots are counted by themselves");
        assert!(conflict(numbers.begin_loop(Some(20), &behind(40))).contains("start of 40 or more"));
        assert_eq!(numbers.begin_loop(Some(50), &behind(40)).unwrap(), 50);
        numbers.go_back(None);
        assert_eq!(numbers.begin_loop(None, &OUTSIDE).unwrap(), 0);
        assert!(numbers.judge(20, &body(20)).unwrap(), "nothing is left of it");
    }
}
