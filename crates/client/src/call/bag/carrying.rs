//! Files of tasks: they travel in the thread that drives the bag, with its state locked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_link::call::Still;

use super::closed;
use super::driver::{Driver, State};
use super::job::Job;
use crate::call::Sent;
use crate::call::connection::Connection;
use crate::call::files::{self, Carried};

impl Driver {
    /// Moves files of a task.
    pub(super) fn carrying<T>(&self, carry: impl FnOnce(Still) -> Result<T, Sent>) -> Result<T, Sent> {
        self.carries.store(true, Ordering::SeqCst);
        let done = carry(&mut || match self.is_closing.load(Ordering::SeqCst) {
            true => Err(closed()),
            false => Ok(()),
        });
        self.carries.store(false, Ordering::SeqCst);
        done
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
            _ if other => drop(state.jobs.insert(index, job)),
            Sent::Lost(cause) | Sent::Unreached(cause) if !effects => {
                job.lost = Some((connection.info.clone(), cause));
                state.jobs.insert(index, job);
                state.machine.again(index);
            }
            Sent::Lost(e) | Sent::Unreached(e) | Sent::Not(e) => state.fail(index, e.within(&self.name)),
        }
    }

    /// Brings the files of a task to a server, unless they are there.
    pub(super) fn carry(&self, connection: &Arc<Connection>, job: &mut Job) -> Result<Option<Carried>, Sent> {
        match job.ready.take() {
            _ if job.files.is_empty() => Ok(None),
            Some(ready) if ready.is_at(connection) => Ok(Some(ready)),
            _ => self.carrying(|still| files::carry(&self.inner, connection, &job.files, still)).map(Some),
        }
    }
}
