//! The loop head: stores the step it is about to compute, then looks at the gate. Whoever sets
//! the gate looks at the steps afterwards; both in one total order, so that an act takes place
//! at the same step in all ranks (`agent::steering` is the other half).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_types::control::word;
use forebay_types::watch::Declare;
use forebay_types::{Error, Result};

use super::core::{BEHIND, BODY, Core, LOOPED, LOOPING};
use super::ending::{Ending, Watch};
use super::patience::SLICE;

/// How long an owner may take to see a wish: it looks five times a second.
const ANSWER: Duration = Duration::from_secs(1);
/// How long the loop head sleeps between two looks meanwhile.
const NAP: Duration = Duration::from_millis(20);

/// Yields the steps of a run.
pub struct LoopHead {
    core: Arc<Core>,
    watch: Watch,
    next: i64,
    end: i64,
    ended: bool,
    /// Which loop of the session it is.
    number: u64,
}

impl LoopHead {
    pub(super) fn new(core: &Arc<Core>, n: i64, start: Option<i64>, ending: Ending) -> Result<LoopHead> {
        core.enter()?;
        if start.unwrap_or(0) < 0 || n < 0 || n == i64::MAX {
            let start = start.unwrap_or(0);
            return Err(Error::bad(format!(
                "a loop from {start} to {n} is not possible; steps count from 0"
            )));
        }
        core.follow()?;
        let at = core.place();
        let (start, end) = if core.steer.quitting() {
            // Who was told to end begins nothing more, and holds what it holds.
            let held = at.position.or(start).unwrap_or(0);
            (held, held.min(n))
        } else {
            (core.numbers().begin_loop(start, &at)?, n)
        };
        if start < end {
            core.remark_standing();
        } else if start >= n && at.position == Some(start) && !at.behind {
            core.remark_complete(start, n);
        }
        core.declare(&Declare::Progress { start, end: n.max(start) })?;
        core.looped.store(LOOPING, Ordering::Relaxed);
        core.position.store(start, Ordering::Relaxed);
        core.phase.store(BODY, Ordering::Relaxed);
        let number = core.loops.fetch_add(1, Ordering::Relaxed) + 1;
        let watch = Watch::begin(core, ending);
        Ok(LoopHead { core: core.clone(), watch, next: start, end, ended: false, number })
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
        if step >= self.end || self.watch.is_due(core) {
            return None;
        }
        core.segment.word(word::STEP).store(step as u64 + 1, Ordering::SeqCst);
        let gate = core.segment.word(word::GATE).load(Ordering::SeqCst);
        if (step as u64) < gate && core.life.good() && !core.down.news() {
            core.position.store(step, Ordering::Relaxed);
            self.next = step + 1;
            return Some(step);
        }
        None
    }

    #[cold]
    fn slow(&mut self) -> Result<Option<i64>> {
        if self.ended {
            return Ok(None);
        }
        let step = self.next;
        let last = step >= self.end;
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
        self.core.segment.word(word::HELD).store(0, Ordering::Release);
        if go? && !last {
            self.next = step + 1;
            return Ok(Some(step));
        }
        self.ended = true;
        self.end = step;
        self.watch.end(&self.core);
        self.core.phase.store(BEHIND, Ordering::Relaxed);
        if last && !self.core.steer.quitting() {
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
            core.segment.word(word::HELD).store(1, Ordering::Release);
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
            // Somewhere in the body: whether the step is computed only the program knows.
            if self.core.loops.load(Ordering::Relaxed) == self.number {
                self.core.phase.store(0, Ordering::Relaxed);
            }
            self.core.declare_at_once(&Declare::Over { step: self.next });
        }
    }
}
