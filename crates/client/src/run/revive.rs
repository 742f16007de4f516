//! After the owner's death: the rank finds the successor, which it starts if need be, and goes on there
//! with its session and its segment. The calls of the program wait meanwhile.
//!
//! ```text
//!  GOOD --owner dies--> SEEKING --successor has taken the segment--> GOOD
//!                          +------- there can be none -------------> DEAD, with the reason
//! ```
//!
//! What was published is in the ring, where the successor reads it; what is asked and not answered goes
//! along by number; what was declared is declared again, for the page begins anew.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_arena::Direction;
use forebay_link::Wire;
use forebay_types::control::{Resume, RunRequest, word};
use forebay_types::watch::{Declare, Kind};
use forebay_types::{Code, Error, Result};

use super::core::Core;
use super::open::{ask_for, hand_over};

/// A successor that dies in turn, or a death that is not over yet, is tried again for so long.
const TRYING: Duration = Duration::from_millis(1500);
const PAUSE: Duration = Duration::from_millis(10);

/// Finds the successor of an owner that died, or starts it; gives a connection that is greeted.
pub type Successor = Arc<dyn Fn() -> Result<Wire> + Send + Sync>;

impl Core {
    /// Whether somebody may take the place of the owner: it did not end the session itself.
    pub(super) fn may_revive(&self) -> bool {
        self.successor.is_some()
            && !self.life.owns_itself()
            && self.segment.word(word::CLOSED).load(Ordering::SeqCst) == 0
    }

    /// Goes over to the successor; gives the descriptor whose end is its death.
    pub(super) fn revive(self: &Arc<Self>) -> Result<OwnedFd> {
        let began = Instant::now();
        loop {
            match self.go_over() {
                Err(e) if is_passing(&e) && began.elapsed() < TRYING && !self.life.closed() => {
                    std::thread::sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    fn go_over(self: &Arc<Self>) -> Result<OwnedFd> {
        let find = self.successor.as_ref().ok_or_else(|| Error::internal("nobody finds a successor"))?;
        let mut wire = find()?;
        // What the owner had agreed on is agreed on anew, and sent again.
        self.down.forget_acts();
        let resume = Resume {
            open: self.open.clone(),
            run_id: self.opened.run_id.clone(),
            session: self.opened.session,
            asks: self.down.awaited(),
        };
        let opened = ask_for(&mut wire, &RunRequest::Resume(resume))?;
        hand_over(&mut wire, &self.segment)?;
        let socket = wire.watch_fd()?;
        let process = wire.process();
        *self.wire.lock().unwrap_or_else(|e| e.into_inner()) = Some(wire);
        self.life.revived(opened.owner_pid, process);
        // Rung before the new bell was there, perhaps.
        self.segment.bell(Direction::Up).ring();
        self.declare_again();
        Ok(socket)
    }

    /// In a thread of its own, since it may wait for room in the ring and this one watches the owner.
    fn declare_again(self: &Arc<Self>) {
        let core = self.clone();
        let again = move || {
            let known = core.declared.lock().unwrap_or_else(|e| e.into_inner()).clone();
            // A failure is the next death, and everything is declared again then.
            let _ = known.into_iter().map(|d| core.up_to_date(d)).try_for_each(|d| core.declare(&d));
        };
        drop(std::thread::Builder::new().name("fb-declare".into()).spawn(again));
    }

    /// Of which kind this program has declared a diagram of that title.
    pub(super) fn kind_of_diagram(&self, title: &str) -> Option<Kind> {
        let known = self.declared.lock().unwrap_or_else(|e| e.into_inner());
        known.iter().find_map(|declare| match declare {
            Declare::Diagram(d) if d.title == title => Some(d.kind),
            _ => None,
        })
    }

    /// Keeps a declaration for a successor; a later one of the same thing takes its place.
    pub(super) fn keep_declaration(&self, declare: &Declare) {
        let same = |other: &Declare| match (declare, other) {
            (Declare::Over { .. }, Declare::Over { .. }) => true,
            (Declare::Progress { .. }, Declare::Progress { .. }) => true,
            (Declare::Parameter(a), Declare::Parameter(b)) => a.name == b.name,
            (a, b) => a == b,
        };
        let held = self.segment.word(word::HELD);
        match declare {
            Declare::Over { .. } => {
                held.fetch_or(word::OVER, Ordering::SeqCst);
            }
            Declare::Progress { .. } => {
                held.fetch_and(!word::OVER, Ordering::SeqCst);
            }
            _ => {}
        }
        let mut known = self.declared.lock().unwrap_or_else(|e| e.into_inner());
        if matches!(declare, Declare::Progress { .. }) {
            known.retain(|other| !matches!(other, Declare::Over { .. }));
        }
        match known.iter_mut().find(|other| same(other)) {
            Some(place) => *place = declare.clone(),
            None => known.push(declare.clone()),
        }
    }

    /// Waits while a successor is sought, then says whether the session is good.
    pub(super) fn living(&self) -> Result<()> {
        while self.life.seeking() {
            self.life.await_change(super::patience::SLICE);
            self.interrupted()?;
        }
        self.life.check()
    }
}

/// Whether trying again may help.
fn is_passing(e: &Error) -> bool {
    matches!(e.code(), Code::ServerLost | Code::NoServer | Code::Conflict)
}
