//! The loop head: stores the step it is about to compute, then looks at the gate. Whoever sets
//! the gate looks at the steps afterwards; both in one total order, so that an act takes place
//! at the same step in all ranks (`agent::owner::steering` is the other half).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_types::control::{Heads, word};
use forebay_types::watch::Declare;
use forebay_types::{Code, Error, Result};

use super::core::{BEHIND, BODY, Core, FINISH, LEFT, LOOPED, LOOPING, RECKON};
use super::ending::{Ending, Watch};
use super::numbers::LoopPosition;
use super::patience::SLICE;

/// How long an owner may take to see a wish: it looks five times a second.
const ANSWER: Duration = Duration::from_secs(1);
/// How long the loop head sleeps between two looks meanwhile.
const NAP: Duration = Duration::from_millis(20);

/// How a loop goes.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// The number at which it ends; without one it goes on until somebody ends it.
    pub n: Option<i64>,
    /// Where it begins; 0 if not said.
    pub start: Option<i64>,
    /// Whether that is the number of a snapshot.
    pub is_kept: bool,
    /// From one head to the next.
    pub stride: i64,
    /// What may end it before.
    pub ending: Ending,
}

impl Course {
    fn check(&self) -> Result<()> {
        let (start, stride) = (self.start.unwrap_or(0), self.stride);
        if stride < 1 {
            return Err(Error::bad(format!("a stride of {stride} is not possible; give 1 or more")));
        }
        let Some(n) = self.n else {
            return (start >= 0).then_some(()).ok_or_else(|| {
                Error::bad(format!("a loop from {start} is not possible; steps count from 0"))
            });
        };
        if start < 0 || n < 0 || n == i64::MAX {
            return Err(Error::bad(format!(
                "a loop from {start} to {n} is not possible; steps count from 0"
            )));
        }
        if n > start && (n - start) % stride != 0 {
            return Err(Error::bad(format!(
                "a loop from {start} to {n} with stride {stride} does not meet {n}; let the stride divide {}",
                n - start
            )));
        }
        Ok(())
    }
}

impl Core {
    /// Where a loop begins, and whether the program comes there from a snapshot.
    fn begin_loop(&self, course: &Course, at: &LoopPosition) -> Result<(i64, bool)> {
        let numbers = self.numbers();
        let first = numbers.begin_loop(course.start, course.is_kept, at)?;
        let from_snapshot = numbers.is_back() || at.holds(first);
        match course.n.filter(|n| first > *n && !from_snapshot) {
            Some(n) => Err(Error::bad(format!(
                "a loop from {first} to {n} has no step: {n} is the number at which it ends, and not how many steps it has; give an end of {first} or more"
            ))),
            None => Ok((first, from_snapshot)),
        }
    }
}

/// Yields the steps of a run.
pub struct LoopHead {
    core: Arc<Core>,
    watch: Watch,
    next: i64,
    stride: i64,
    /// `i64::MAX` for a loop without an end.
    end: i64,
    /// Before this one there is nothing to do at a head that nobody asks for.
    quiet: i64,
    ended: bool,
    /// Which loop of the session it is.
    number: u64,
}

impl LoopHead {
    pub(super) fn new(core: &Arc<Core>, course: &Course) -> Result<LoopHead> {
        core.enter()?;
        course.check()?;
        core.follow_surely()?;
        let at = core.place();
        let n = course.n.unwrap_or(i64::MAX);
        let (start, end, from_snapshot) = if core.steer.quitting() {
            // Who was told to end begins nothing more, and holds what it holds.
            let held = at.position.or(course.start).unwrap_or(0);
            (held, held.min(n), at.holds(held))
        } else {
            // One that is refused leaves the run unfinished: it has steps that nobody computes.
            let unfinished = |_: &Error| core.looped.store(LOOPING, Ordering::Relaxed);
            let (first, from_snapshot) = core.begin_loop(course, &at).inspect_err(unfinished)?;
            // A loop that has no step makes nothing again.
            if first < n {
                core.go_on(first)?
            } else {
                core.numbers().begun()
            }
            (first, n, from_snapshot)
        };
        LoopHead::begin(core, course, start, end, from_snapshot)
    }

    /// The head of a program that goes through its steps by itself and calls it with each number.
    pub(super) fn reaching(core: &Arc<Core>, step: i64, ending: Ending) -> Result<LoopHead> {
        let course = Course { n: None, start: Some(step), is_kept: false, stride: 1, ending };
        core.enter()?;
        course.check()?;
        core.follow_surely()?;
        let at = core.place();
        core.numbers().reach(step, &at)?;
        core.go_on(step)?;
        let head = LoopHead::begin(core, &course, step, i64::MAX, false)?;
        // Which number comes next nobody says either.
        core.stride.store(0, Ordering::Relaxed);
        // Where it ends by itself nobody says: to close the run in order is to finish it.
        core.looped.store(0, Ordering::Relaxed);
        Ok(head)
    }

    fn begin(
        core: &Arc<Core>,
        course: &Course,
        start: i64,
        end: i64,
        from_snapshot: bool,
    ) -> Result<LoopHead> {
        let (stride, n) = (course.stride, course.n);
        if start < end {
            core.remark_standing();
        } else if let Some(n) = n.filter(|n| start >= *n && from_snapshot) {
            core.remark_complete(start, n);
        }
        let (number, every) =
            (core.loops.load(Ordering::Relaxed) + 1, core.steer.every.load(Ordering::Relaxed));
        let until = n.map(|n| n.max(start));
        core.declare(&Declare::Progress { start, end: until, stride, number, every })?;
        core.looped.store(LOOPING, Ordering::Relaxed);
        core.position.store(start, Ordering::Relaxed);
        core.stride
            .store(u32::try_from(stride).unwrap_or(Heads::ENDED).min(Heads::ENDED - 1), Ordering::Relaxed);
        core.phase.store(BODY, Ordering::Relaxed);
        core.loops.store(number, Ordering::Relaxed);
        let watch = Watch::begin(core, course.ending);
        let core = core.clone();
        Ok(LoopHead { core, watch, next: start, stride, end, quiet: start, ended: false, number })
    }

    /// Whether it is the last loop that was begun.
    pub(super) fn is_last(&self) -> bool {
        self.core.loops.load(Ordering::Relaxed) == self.number
    }

    /// Whether the run went back while this loop was under way: the state is no more the one that its next step
    /// begins with.
    pub(super) fn went_back(&self) -> bool {
        !self.ended && self.is_last() && self.core.phase.load(Ordering::Relaxed) == 0
    }

    #[cold]
    fn lost_its_place(&self) -> Error {
        let to = match self.core.numbers().last() {
            Some(step) => format!("to step {step}"),
            None => "to its beginning".to_owned(),
        };
        Error::new(
            Code::Conflict,
            format!(
                "the run went back {to} in the body of a loop that comes to step {} now: steps would be left out; leave the loop behind a restart, and begin another one with the snapshot of the restart as its start (fb_steps_from)",
                self.next
            ),
        )
    }

    /// The program has come to a step by itself; says whether it is to go on.
    pub(super) fn reach(&mut self, step: i64) -> Result<bool> {
        let last = self.core.position.load(Ordering::Relaxed);
        if self.ended {
            return Ok(false);
        }
        if step == last && self.next > step {
            return Ok(true); // asked again
        }
        if step < last {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "step {step} is reached behind step {last}; numbers of steps grow, or go back with a restart"
                ),
            ));
        }
        self.next = step;
        Ok(self.next()?.is_some())
    }

    /// The step about to be computed; `None` at the end, or when somebody pressed Quit. Waits
    /// while the run is held.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it can fail, so it is no iterator")]
    pub fn next(&mut self) -> Result<Option<i64>> {
        match self.at_once() {
            Some(step) => Ok(Some(step)),
            None => self.slow(),
        }
    }

    /// The step about to be computed if nobody wants anything of it, else `None`, and
    /// [`LoopHead::next`] says what there is. Never waits.
    #[inline]
    pub fn at_once(&mut self) -> Option<i64> {
        let (core, step) = (&*self.core, self.next);
        if step >= self.quiet || core.heed.load(Ordering::Relaxed) != 0 || self.watch.is_due(core) {
            return None;
        }
        if core.life.is_child() || self.went_back() {
            return None;
        }
        core.segment.word(word::STEP).store(step as u64 + 1, Ordering::SeqCst);
        let gate = core.segment.word(word::GATE).load(Ordering::SeqCst);
        if (step as u64) < gate && core.life.good() && !core.down.news() {
            core.position.store(step, Ordering::Relaxed);
            self.next = step.saturating_add(self.stride);
            return Some(step);
        }
        None
    }

    /// Whether the program has said that the loop ends here.
    fn is_finished(&self) -> bool {
        self.core.heed.load(Ordering::Relaxed) & FINISH != 0
    }

    #[cold]
    fn slow(&mut self) -> Result<Option<i64>> {
        if self.ended {
            return Ok(None);
        }
        self.core.life.own()?;
        if self.went_back() {
            return Err(self.lost_its_place());
        }
        self.core.heed.fetch_and(!RECKON, Ordering::Relaxed);
        let step = self.next;
        let last = step >= self.end || self.is_finished();
        // What is called here finds the state of this head.
        self.core.position.store(step, Ordering::Relaxed);
        if last {
            self.core.segment.word(word::STEP).store(step as u64 + 1, Ordering::SeqCst);
        }
        if !last && self.watch.is_due(&self.core) {
            self.watch.wish(&self.core);
            self.await_gate();
        }
        let go = self.attend(step, !last);
        self.core.segment.word(word::HELD).fetch_and(!word::AT_GATE, Ordering::Release);
        // What was set at this head is in force in what is kept of it.
        if go? && !last && !self.is_finished() {
            self.core.keep_state(step, false)?;
            if !self.is_finished() {
                self.quiet = self.end.min(self.core.steer.next_state(step));
                self.next = step.saturating_add(self.stride);
                return Ok(Some(step));
            }
        }
        self.core.keep_state(step, true)?;
        self.ended = true;
        self.end = step;
        self.core.heed.store(0, Ordering::Relaxed);
        self.watch.end(&self.core);
        self.core.phase.store(BEHIND, Ordering::Relaxed);
        if !self.core.steer.quitting() {
            self.core.looped.store(LOOPED, Ordering::Relaxed);
        }
        self.core.declare(&Declare::Over { step })?;
        Ok(None)
    }

    /// Waits a moment for the gate that the owner sets when it has seen our wish, before this step is
    /// begun: it may take long. Without an answer it is begun, and the gate stops us later.
    fn await_gate(&self) {
        let core = &*self.core;
        let gate = || core.segment.word(word::GATE).load(Ordering::SeqCst);
        let (before, began) = (gate(), Instant::now());
        while gate() == before && core.life.good() && began.elapsed() < ANSWER {
            core.down.wait(NAP, || gate() != before);
        }
    }

    /// Carries out what is due at this step and, if `hold`, waits before the gate. False: quit.
    fn attend(&mut self, step: i64, hold: bool) -> Result<bool> {
        let core = &*self.core;
        if hold {
            core.segment.word(word::STEP).store(step as u64 + 1, Ordering::SeqCst);
        }
        loop {
            core.enter()?;
            let mut quit = core.steer.quitting();
            for due in core.down.due(step) {
                quit |= core.carry_out(due, step)?;
            }
            if quit {
                return Ok(false);
            }
            let gate = || core.segment.word(word::GATE).load(Ordering::SeqCst);
            if !hold || (step as u64) < gate() {
                return Ok(true);
            }
            // It may stay here for a night: what is due is kept before.
            core.keep_state(step, false)?;
            core.segment.word(word::HELD).fetch_or(word::AT_GATE, Ordering::Release);
            core.down.wait(SLICE, || (step as u64) < gate() || !core.life.good());
            core.interrupted()?;
            self.watch.heed(core);
        }
    }
}

impl Drop for LoopHead {
    fn drop(&mut self) {
        self.watch.end(&self.core);
        if !self.ended {
            if self.core.loops.load(Ordering::Relaxed) == self.number {
                // In the body of a step only the program knows whether it is computed.
                let in_body = self.core.position.load(Ordering::Relaxed) != self.next;
                self.core.phase.store(if in_body { LEFT } else { 0 }, Ordering::Relaxed);
                self.core.heed.store(0, Ordering::Relaxed);
            }
            self.core.declare_at_once(&Declare::Over { step: self.next });
        }
    }
}
