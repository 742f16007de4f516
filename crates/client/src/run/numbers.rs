//! Which numbers snapshots may have. A snapshot is the state after as many steps as its number says, and
//! that is what the loop head finds before it computes the step of that number:
//!
//! ```text
//!   state 0 --step 0--> state 1 --step 1--> state 2 ...       at head 2 the program holds state 2
//! ```
//!
//! So one state may be kept by the bottom of a body, by Save and by the top of the next body: it is taken once.

use std::collections::HashSet;

use forebay_types::control::Heads;
use forebay_types::{Code, Error, Result};

/// Where a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopPosition {
    /// The number of the state it holds; `None` before anybody has said it.
    pub position: Option<i64>,
    /// How far the next head is; 0: not known, [`Heads::ENDED`]: there is none.
    pub stride: u32,
    /// Whether it is in the body of a loop.
    pub looping: bool,
    /// Whether a loop has ended at the position.
    pub behind: bool,
    /// A loop was left in the body of the step at the position, as by `break`: the number of the state if that step
    /// is computed, which only the program knows.
    pub left: Option<i64>,
}

impl LoopPosition {
    /// Whether a snapshot of that number is one of the state that is there, or of the one that comes of it.
    pub fn means(&self, step: i64) -> bool {
        let next = || self.position.map(|at| at.saturating_add(i64::from(self.stride.max(1))));
        self.position == Some(step) || self.looping && next() == Some(step)
    }

    /// Whether the state of that number is there, and no loop has ended at it.
    pub fn holds(&self, step: i64) -> bool {
        self.position == Some(step) && !self.behind
    }

    /// Where a loop goes on from a snapshot of that number, if the number does not say it.
    pub fn heads(&self, step: i64) -> Option<Heads> {
        self.position.and_then(|head| Heads::of(step, head, self.stride))
    }
}

/// Where a run went back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// The number of the snapshot.
    pub step: i64,
    /// Where a loop may go on, if the number does not say it.
    pub heads: Option<Heads>,
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
    /// The last one whose number is not that of its state.
    own: Option<(i64, Heads)>,
    /// Where it went back to, until a loop begins there.
    back: Option<Back>,
}

impl Numbers {
    /// Whether a snapshot is to be taken. False: it stands already, and there is nothing to do.
    pub fn judge(&self, step: i64, at: &LoopPosition) -> Result<bool> {
        if step < 0 {
            return Err(Error::bad(format!("{step} is no number of a step; they count from 0")));
        }
        let taken = self.taken.contains(&step);
        let at_its_head = |(own, heads): (i64, Heads)| {
            own == step && at.position.is_some_and(|at| at == heads.first || at == heads.last)
        };
        if taken && (at.means(step) || self.own.is_some_and(at_its_head)) {
            return Ok(false);
        }
        if self.free.contains(&step) {
            return Ok(true);
        }
        let refused = |text| Err(Error::new(Code::Conflict, text));
        // Who counts its snapshots counts this one, too.
        let counts = self.own.is_some();
        if let (Some(k), true, false) = (at.position.filter(|k| *k != step), at.behind, counts) {
            return refused(format!(
                "the loop has ended at step {k}, so the state that is there is number {k} and cannot be kept as step {step}; take run.position (fb_position) as the number"
            ));
        }
        if taken || self.standing.contains(&step) {
            // Who counts its snapshots looks for the step.
            let holds = at
                .position
                .filter(|k| *k != step)
                .map_or_else(String::new, |k| format!(", and the program is at step {k}"));
            return refused(format!(
                "step {step} is in the run already{holds}; go on behind the last one after a restart, or open the run with mode \"w\""
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
    pub fn take(&mut self, step: i64, heads: Option<Heads>) {
        self.taken.insert(step);
        self.own = heads.map(|heads| (step, heads)).or(self.own);
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
    pub fn go_back(&mut self, to: Option<Back>) {
        let step = to.map(|back| back.step);
        self.standing.retain(|known| step.is_some_and(|to| *known < to));
        self.taken = step.into_iter().collect();
        self.free.clear();
        self.own = to.and_then(|back| Some((back.step, back.heads?)));
        (self.last, self.back) = (step, to);
    }

    /// The last one, if what is behind it is known by its number.
    pub fn behind(&self) -> Option<i64> {
        self.last.filter(|_| !self.is_back_without_saying_where())
    }

    /// Whether the run went back to a snapshot whose number does not say where a loop goes on, and none has begun.
    pub fn is_back_without_saying_where(&self) -> bool {
        self.back.is_some_and(|back| back.heads.is_some())
    }

    /// A loop has begun.
    pub fn begun(&mut self) {
        self.back = None;
    }

    /// Whether it went back to the state of that number, and no loop has begun since. (A snapshot with a number of its
    /// own was taken at the head that it names first, or behind the step of that head.)
    pub fn is_back_at(&self, step: i64) -> bool {
        self.back.is_some_and(|back| back.heads.map_or(back.step, |heads| heads.first) == step)
    }

    /// Whether the run went back and no loop has begun since.
    pub fn is_back(&self) -> bool {
        self.back.is_some()
    }

    /// A program that goes through its steps by itself comes to its first one.
    pub fn reach(&self, step: i64, at: &LoopPosition) -> Result<()> {
        if let Some(Back { step: back, heads: Some(heads) }) = self.back
            && step < heads.first
        {
            return Err(elsewhere(back, &heads));
        }
        let back = self.back.filter(|back| back.heads.is_none()).map(|back| back.step);
        if let Some(held) = back.max(at.position).filter(|held| step < *held) {
            let text = match at.left {
                Some(next) => format!(
                    "step {step} is reached, and the loop before it was left in the body of step {held}: steps would be computed twice; go on at step {held} if step {held} was not computed, or only in part and the state is put back, at step {next} if it was, or go back with a restart"
                ),
                None => format!(
                    "step {step} is reached, and the program holds the state of step {held}: steps would be computed twice; go on at step {held}, or go back with a restart"
                ),
            };
            return Err(Error::new(Code::Conflict, text));
        }
        Ok(())
    }

    /// A loop begins, there or where the run went back to; gives its first head. A start may be the number of a
    /// snapshot.
    pub fn begin_loop(&self, start: Option<i64>, is_kept: bool, at: &LoopPosition) -> Result<i64> {
        let refused = |text| Err(Error::new(Code::Conflict, text));
        let first = start.unwrap_or(0);
        match self.back {
            Some(Back { step, heads: Some(heads) })
                if is_kept || start.is_none() || !heads.contains(first) =>
            {
                return Err(elsewhere(step, &heads));
            }
            Some(Back { heads: Some(_), .. }) => {}
            Some(Back { step: back, .. }) if first != back => {
                let wrong = if first == back + 1 {
                    format!(
                        "step {back} would be left out. If it was computed when the snapshot was taken, number that one {first}, for so many steps were behind it; else"
                    )
                } else if first > back {
                    format!("{} would be left out;", steps(back, first - 1))
                } else {
                    format!("{} would be computed twice;", steps(first, back - 1))
                };
                return refused(format!(
                    "the run went back to step {back}, the state before step {back} is computed, and a loop from {first} is begun: {wrong} give the snapshot of the restart as its start (fb_steps_from)"
                ));
            }
            _ => {}
        }
        if let Some(position) = at.position.filter(|position| first < *position) {
            return refused(match at.left {
                Some(next) => format!(
                    "a loop from {first} is begun, and the one before it was left in the body of step {position}: numbers of steps grow; give start={position} if step {position} was not computed, or only in part and the state is put back, start={next} if it was, or go back with a restart"
                ),
                None => format!(
                    "a loop from {first} is begun, and the program holds the state of step {position}: numbers of steps grow; give it a start of {position} or more, or go back with a restart"
                ),
            });
        }
        Ok(first)
    }
}

fn steps(first: i64, last: i64) -> String {
    if first == last { format!("step {first}") } else { format!("steps {first} to {last}") }
}

/// The number of the snapshot does not say where a loop goes on.
fn elsewhere(step: i64, heads: &Heads) -> Error {
    let Heads { first, last } = heads;
    let text = if heads.contains(step) {
        format!(
            "snapshot {step} was written before the number of a snapshot had one meaning: say where the loop goes on, start={step} if step {step} is to be computed, start={last} if it was; from now on a snapshot behind the work of a step is numbered step + 1"
        )
    } else if first == last {
        format!(
            "snapshot {step} was taken where a loop had ended at step {first}, and its number is not that of its state: say where the loop goes on, start={first}"
        )
    } else if *last == i64::MAX {
        format!(
            "snapshot {step} was taken at step {first}, and its number is not that of its state: say where the program goes on, at step {first} or behind it"
        )
    } else {
        format!(
            "snapshot {step} was taken at step {first}, and its number is not that of its state: say where the loop goes on, start={first} if step {first} is to be computed, start={last} if it was"
        )
    };
    Error::new(Code::Conflict, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTSIDE: LoopPosition =
        LoopPosition { position: None, stride: 0, looping: false, behind: false, left: None };

    fn body(k: i64) -> LoopPosition {
        LoopPosition { position: Some(k), stride: 1, looping: true, ..OUTSIDE }
    }

    fn behind(k: i64) -> LoopPosition {
        LoopPosition { position: Some(k), stride: Heads::ENDED, behind: true, ..OUTSIDE }
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
        numbers.take(4, None);
        assert!(!numbers.judge(4, &body(4)).unwrap(), "Save took it at this head");
        assert!(numbers.judge(5, &body(4)).unwrap(), "the bottom of the body");
        numbers.take(5, None);
        assert!(!numbers.judge(5, &body(5)).unwrap(), "the top of the next one");
        assert!(!numbers.judge(5, &behind(5)).unwrap(), "the loop's end");
        let text = conflict(numbers.judge(4, &body(6)));
        assert!(text.contains("step 4 is in the run already, and the program is at step 6"), "{text}");
        numbers.lose(5);
        assert!(numbers.judge(5, &body(5)).unwrap());
    }

    #[test]
    fn without_a_loop_a_number_is_taken_once_and_numbers_grow() {
        let mut numbers = Numbers::default();
        numbers.take(7, None);
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
    fn behind_a_loop_that_was_left_in_a_body_the_program_says_whether_that_step_is_computed() {
        let numbers = Numbers::default();
        let at = LoopPosition { position: Some(23), left: Some(28), ..OUTSIDE };
        for text in [conflict(numbers.begin_loop(None, false, &at)), conflict(numbers.reach(22, &at))] {
            assert!(text.contains("left in the body of step 23"), "{text}");
            assert!(
                text.contains("23 if step 23 was not computed") && text.contains("28 if it was"),
                "{text}"
            );
        }
        for start in [23, 28] {
            assert_eq!(numbers.begin_loop(Some(start), false, &at).unwrap(), start);
        }
    }

    #[test]
    fn a_loop_goes_on_where_the_run_went_back_to_and_nowhere_else() {
        let mut numbers = Numbers::default();
        numbers.know([10, 20, 30]);
        assert!(conflict(numbers.judge(20, &body(20))).contains("in the run already"));
        numbers.go_back(Some(Back { step: 20, heads: None }));
        let at = LoopPosition { position: Some(20), ..OUTSIDE };
        assert!(!numbers.judge(20, &at).unwrap() && numbers.judge(30, &at).unwrap());
        assert!(conflict(numbers.judge(10, &at)).contains("in the run already"));
        assert!(conflict(numbers.begin_loop(Some(21), false, &at)).contains("step 20 would be left out"));
        assert!(
            conflict(numbers.begin_loop(None, false, &at)).contains("steps 0 to 19 would be computed twice")
        );
        assert_eq!(numbers.begin_loop(Some(20), false, &at).unwrap(), 20);
        numbers.begun();
        assert!(conflict(numbers.begin_loop(Some(20), false, &behind(40))).contains("start of 40 or more"));
        assert_eq!(numbers.begin_loop(Some(50), false, &behind(40)).unwrap(), 50);
        numbers.go_back(None);
        assert_eq!(numbers.begin_loop(None, false, &OUTSIDE).unwrap(), 0);
        assert!(numbers.judge(20, &body(20)).unwrap(), "nothing is left of it");
    }

    #[test]
    fn where_the_number_of_a_snapshot_is_not_that_of_its_state_the_program_says_where_it_goes_on() {
        let at = |k| LoopPosition { position: Some(k), stride: 100, looping: true, ..OUTSIDE };
        let own = Some(Heads { first: 700, last: 800 });
        assert_eq!(at(700).heads(7), own);
        assert!((700..=800).all(|step| at(700).heads(step).is_none()), "states of this stride");
        assert_eq!(LoopPosition { stride: 0, ..at(700) }.heads(710), None, "nobody knows the next number");
        assert_eq!(OUTSIDE.heads(7), None);

        let mut numbers = Numbers::default();
        numbers.take(7, own);
        assert!(!numbers.judge(7, &at(700)).unwrap() && !numbers.judge(7, &at(800)).unwrap());
        assert!(conflict(numbers.judge(7, &at(900))).contains("in the run already"));

        numbers.go_back(Some(Back { step: 7, heads: own }));
        assert!(numbers.is_back_without_saying_where());
        let wrong = [(Some(7), true), (Some(700), true), (Some(7), false), (None, false), (Some(801), false)];
        for (start, is_kept) in wrong {
            let text = conflict(numbers.begin_loop(start, is_kept, &OUTSIDE));
            assert!(text.contains("taken at step 700") && text.contains("start=800 if it was"), "{text}");
        }
        assert!(conflict(numbers.reach(699, &OUTSIDE)).contains("taken at step 700"));
        assert!(numbers.reach(700, &OUTSIDE).is_ok());
        assert_eq!(numbers.begin_loop(Some(700), false, &OUTSIDE).unwrap(), 700);
        numbers.begun();
        assert!(!numbers.judge(7, &at(700)).unwrap() && numbers.judge(8, &at(800)).unwrap());

        // Of a run that was written when programs counted in two ways.
        numbers.go_back(Some(Back { step: 7, heads: Some(Heads { first: 7, last: 8 }) }));
        assert!(conflict(numbers.begin_loop(Some(7), true, &OUTSIDE)).contains("is numbered step + 1"));
        assert_eq!(numbers.begin_loop(Some(8), false, &OUTSIDE).unwrap(), 8);
    }
}
