//! Acts upon a run: from whoever asks into the log, to the ranks, and what became of them.

use super::Run;
use crate::owner::controller::Outside;
use crate::owner::steering::GONE;
use crate::words::Steered;
use forebay_host::lock;
use forebay_store::Owner;
use forebay_types::watch::{Act, Phase};
use forebay_types::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the ranks of an owner that died may take to come to this one before it is steered.
const RANKS_COME: Duration = Duration::from_secs(3);
/// Between two looks at whether they, or what they have declared, are there.
const PAUSE: Duration = Duration::from_millis(5);

impl Run {
    /// Takes an act: it gets its number in the log, then its step.
    pub fn steer(&self, who: &str, act: &Act) -> Result<u64> {
        let owner = self.opened();
        self.controller.await_ranks(RANKS_COME);
        if let Some(owner) = owner.as_ref().filter(|_| self.controller.is_over()) {
            // The ranks may have begun another loop, and nobody have read of it yet.
            owner.read_up()?;
            self.settle();
        }
        let act = &self.checked(act)?;
        let owner =
            owner.ok_or_else(|| Error::new(Code::Closed, "the run has ended; there is nothing to steer"))?;
        let id = owner.log_steering(who, act)?;
        self.controller.act(self, id, who, act.clone()).inspect_err(|e| self.refused(id, e.text()))?;
        Ok(id)
    }

    /// The store; one that is being opened or closed just now is waited for.
    fn opened(&self) -> Option<Arc<Owner>> {
        let began = Instant::now();
        loop {
            let may_come = self.turn.try_lock().is_err() && began.elapsed() < RANKS_COME;
            let owner = self.owner();
            if owner.is_some() || !may_come {
                return owner;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The act, if it can be taken. What ranks have declared may stand unread in their rings, and that of the ranks of
    /// an owner that died may be on its way here.
    fn checked(&self, act: &Act) -> Result<Act> {
        let mut is_read = false;
        loop {
            let checked = self.controller.check(act);
            let followed = lock(&self.state).life.as_ref().and_then(|life| life.followed);
            let (Err(e), Some(owner)) = (&checked, self.owner()) else { return checked };
            let may_come = followed.is_some_and(|since| since.elapsed() <= RANKS_COME);
            if e.code() == Code::Full || is_read && !may_come {
                return checked;
            }
            if is_read {
                std::thread::sleep(PAUSE);
            }
            owner.read_up()?;
            self.settle();
            is_read = true;
        }
    }

    /// Takes an act and waits until it is carried out.
    pub fn steer_and_wait(&self, who: &str, act: Act, wait: Duration) -> Result<Steered> {
        let id = self.steer(who, &act)?;
        let ends = matches!(act, Act::End { .. });
        let fate = self.controller.fate(id, wait);
        let state = self.controller.glance().state;
        match fate {
            Some(ack) if ack.phase == Phase::Refused => Err(self.not_done(&ack.text, ends)),
            Some(ack) => Ok(Steered { id, applied: true, step: ack.step, text: ack.text, state }),
            None => {
                let text = match self.controller.ranks().iter().all(|rank| rank.step.is_none()) {
                    true => "is left for the first head of a loop, for the program has begun none yet",
                    false => "waits for its step",
                };
                Ok(Steered { id, applied: false, step: None, text: text.into(), state })
            }
        }
    }

    /// Why an act came to nothing, and what helps. One that `ends` the loop has ended it all the same.
    fn not_done(&self, why: &str, ends: bool) -> Error {
        let run = self.path.display();
        if why == GONE {
            let text = format!(
                "{run}: {why}; start it again, and it goes on from what is there, or say `forebay recover {run}`"
            );
            return Error::new(Code::Closed, text);
        }
        match self.controller.ranks().is_empty() {
            true => Error::new(Code::Closed, format!("{run}: {why}; start the program again")),
            false if ends => Error::new(Code::Refused, why),
            false => Error::new(Code::Refused, format!("{why}; the run goes on without it")),
        }
    }

    /// Beats once for all ranks, and looks whether one of them wants the run to end: then all do, at
    /// the same step.
    pub fn beat(self: &Arc<Self>) {
        self.controller.beat();
        let Some((rank, why)) = self.controller.wish() else { return };
        if self.ending.swap(true, Ordering::AcqRel) {
            return;
        }
        let run = self.clone();
        // The log may have to wait for the disk, and the heart must not.
        let ask = move || {
            // Refused, it is asked again at the next beat.
            let _ = run.steer(&format!("rank {rank} ({why})"), &Act::End { why: why.to_owned() });
            run.ending.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("fb-end".into()).spawn(ask).is_err() {
            self.ending.store(false, Ordering::Release);
        }
    }
}
