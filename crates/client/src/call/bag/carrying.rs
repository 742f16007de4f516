//! Files of tasks: they travel in the thread that drives the bag, with its state locked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use forebay_link::call::Still;
use forebay_types::{Code, Error};

use super::driver::{Driver, State};
use super::job::{Job, Returning};
use super::{PATIENCE, closed};
use crate::call::connection::Connection;
use crate::call::files::{self, Carried};
use crate::call::pace::Ns;
use crate::call::{Sent, lock};

/// A server whose scratch space was full is tried again so soon, if nothing ends there before.
const AGAIN: Ns = 100_000_000;

impl Driver {
    /// Moves files of a task. Where they can go on later `may_stop`: when the user's thread wants to go, or to come.
    fn carrying<T>(&self, may_stop: bool, carry: impl FnOnce(Still) -> Result<T, Sent>) -> Result<T, Sent> {
        self.carries.store(true, Ordering::SeqCst);
        let done = carry(&mut || match self.is_closing.load(Ordering::SeqCst) {
            true => Err(closed()),
            false if may_stop && self.is_to_stop() => Err(Error::new(Code::Timeout, "its files come later")),
            false => Ok(()),
        });
        self.carries.store(false, Ordering::SeqCst);
        done
    }

    fn is_to_stop(&self) -> bool {
        match self.is_attended.load(Ordering::SeqCst) {
            true => self.is_visited.load(Ordering::SeqCst),
            false => lock(&self.until).is_some_and(|until| Instant::now() >= until),
        }
    }

    /// Goes on to bring what a task has written.
    pub(super) fn bring(&self, state: &mut State, index: u64, mut job: Job, mut returning: Returning) {
        let Returning { files, fetched, .. } = &mut returning;
        let fetch = |still: Still| files::fetch(&self.inner, files, job.files(), fetched, still);
        match self.carrying(true, fetch) {
            Ok(()) => {
                let Returning { connection, returned, .. } = returning;
                self.replied(state, index, job, (connection, returned));
            }
            Err(Sent::Not(e)) if e.code() == Code::Timeout => {
                job.rare().returning = Some(Box::new(returning));
                state.jobs.insert(index, job);
                state.unfinished.push(index);
                self.basket.rouse();
            }
            Err(why) => {
                let Returning { connection, returned, .. } = returning;
                connection.free(returned.chunks);
                // What a second server has said meanwhile was not looked at.
                if job.flights().any(|flight| flight.pending.is_done()) {
                    state.unfinished.push(index);
                    self.basket.rouse();
                }
                self.not_fetched(state, index, job, (connection, why));
            }
        }
    }

    /// What a task has written did not come: it is done once more when its server is lost, and has failed if not.
    pub(super) fn not_fetched(
        &self,
        state: &mut State,
        index: u64,
        mut job: Job,
        (connection, why): (Arc<Connection>, Sent),
    ) {
        let effects = state.offer.as_ref().is_some_and(|offer| offer.signature.effects());
        let other = state.machine.is_under_way(index);
        match why {
            _ if other => state.jobs.insert(index, job),
            Sent::Lost(cause) | Sent::Unreached(cause) if !effects => {
                job.rare().lost = Some((connection.info.clone(), cause));
                state.jobs.insert(index, job);
                state.machine.again(index);
            }
            Sent::Lost(e) | Sent::Unreached(e) | Sent::Not(e) | Sent::NoRoom(e) => {
                state.fail(index, e.within(&self.name))
            }
        }
    }

    /// The files of a task have found no room at a server, which has it no more and has done nothing of it. It goes once
    /// more when a task has ended there, or in a moment. Files that nobody of this client takes away are waited for as long
    /// as there is patience.
    pub(super) fn find_room_later(&self, state: &mut State, index: u64, connection: &Connection, why: Error) {
        if state.machine.is_under_way(index) {
            return;
        }
        let is_going_on = state.is_any_busy();
        let patience = self.inner.patience_within(None).max(PATIENCE);
        let Some(job) = state.jobs.get_mut(index) else { return };
        let crowded = &mut job.rare().crowded;
        *crowded = crowded.filter(|_| !is_going_on);
        if !is_going_on && crowded.get_or_insert_with(Instant::now).elapsed() >= patience {
            let waited = format!("waited {} s in vain", patience.as_secs_f64());
            return state.fail(index, why.within(waited).within(&self.name));
        }
        state.machine.again(index);
        state.machine.put_off(connection.info.incarnation.0, self.now() + AGAIN);
    }

    /// Brings the files of a task to a server, unless they are there.
    pub(super) fn carry(&self, connection: &Arc<Connection>, job: &mut Job) -> Result<Option<Carried>, Sent> {
        match job.has_rare().and_then(|rare| rare.ready.take()) {
            _ if job.files().is_empty() => Ok(None),
            Some(ready) if ready.is_at(connection) => Ok(Some(ready)),
            _ => self
                .carrying(false, |still| files::carry(&self.inner, connection, job.files(), still))
                .map(Some),
        }
    }
}
