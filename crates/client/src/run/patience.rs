//! Waiting for the owner in the caller's thread: short at first, looking every now and then
//! whether the owner lives and whether the user pressed Ctrl-C.

use std::time::{Duration, Instant};

use forebay_types::{Code, Error, Result};

use super::core::Core;

/// How long a waiting thread goes without looking at the user's check.
pub const SLICE: Duration = Duration::from_millis(100);
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// Turns that only yield: the owner is often about to be done.
const YIELDS: u32 = 64;

/// One wait.
pub struct Patience<'a> {
    core: &'a Core,
    turns: u32,
    nap: Duration,
    looked: Instant,
    began: Instant,
    deadline: Option<Instant>,
}

impl<'a> Patience<'a> {
    /// A wait that begins now.
    pub fn new(core: &'a Core) -> Patience<'a> {
        let now = Instant::now();
        Patience { core, turns: 0, nap: SHORTEST, looked: now, began: now, deadline: None }
    }

    /// Ends with `Timeout` after that time.
    pub fn at_most(mut self, timeout: Option<Duration>) -> Self {
        self.deadline = timeout.and_then(|t| self.began.checked_add(t));
        self
    }

    /// How long it has lasted.
    pub fn so_far(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits a little; `what` names what is waited for.
    pub fn pause(&mut self, what: &str) -> Result<()> {
        self.look(what)?;
        if self.turns < YIELDS {
            self.turns += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(self.nap);
            self.nap = (self.nap * 2).min(LONGEST);
        }
        Ok(())
    }

    /// Looks whether the wait makes sense still.
    pub fn look(&mut self, what: &str) -> Result<()> {
        self.core.living().map_err(|e| self.core.explained(e))?;
        if self.looked.elapsed() >= SLICE {
            self.looked = Instant::now();
            self.core.interrupted()?;
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::new(
                Code::Timeout,
                format!(
                    "waited {:.3} s in vain for {what}; give more time, or look with `forebay status` what the owner does",
                    self.began.elapsed().as_secs_f64()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// How long a sleep may last now.
    pub fn slice(&self) -> Duration {
        match self.deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()).min(SLICE),
            None => SLICE,
        }
    }
}
