//! The files of a call: they travel in the thread that sends it, or takes its result.

use std::sync::Arc;
use std::time::Instant;

use forebay_types::{Code, Error, Result};

use super::Future;
use crate::call::connection::{Chunk, Connection, Returned};
use crate::call::files::{self, Carried, Fetched};
use crate::call::{Sent, reply};

/// A reply whose files are on their way.
pub(super) struct Returning {
    returned: Returned,
    fetched: Fetched,
}

impl Returning {
    pub fn of(returned: Returned) -> Returning {
        Returning { returned, fetched: Fetched::default() }
    }

    pub fn chunks(self) -> Vec<(usize, Chunk)> {
        self.returned.chunks
    }
}

impl Future<'_> {
    /// Brings its files to the server that gets it.
    pub(super) fn carry(
        &self,
        connection: &Arc<Connection>,
        until: Option<Instant>,
    ) -> Result<Option<Carried>, Sent> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let mut still = || self.is_wanted(until);
        files::carry(&self.inner, connection, &self.files, &mut still).map(Some)
    }

    fn is_wanted(&self, until: Option<Instant>) -> Result<()> {
        match until {
            _ if self.is_given_up() => Err(self.cancelled()),
            Some(until) if Instant::now() >= until => {
                Err(Error::new(Code::Timeout, "its files are still on their way"))
            }
            _ => Ok(()),
        }
    }

    /// Whether its server has not begun it, for want of room for its files.
    pub(super) fn found_no_room(&self, returned: &Returned) -> bool {
        self.carried.is_some() && reply::found_no_room(&returned.reply)
    }

    /// Goes on to bring what it wrote, at most until then: its reply, if all of that is here.
    pub(super) fn fetch(
        &mut self,
        connection: &Connection,
        until: Option<Instant>,
    ) -> Result<Option<Returned>, Sent> {
        let (Some(mut returning), Some(carried)) = (self.returning.take(), &self.carried) else {
            return Err(Sent::Not(Error::internal("files come of a call that has none")));
        };
        let over = self.allowed.zip(self.begun).and_then(|(allowed, begun)| begun.checked_add(allowed));
        let first = until.into_iter().chain(over).min();
        let mut still = || self.is_wanted(first);
        let fetched = &mut returning.fetched;
        let done = files::fetch(&self.inner, carried, &self.files, fetched, &mut still);
        let is_late = matches!(&done, Err(Sent::Not(e)) if e.code() == Code::Timeout);
        match done {
            Ok(()) => Ok(Some(returning.returned)),
            Err(_) if is_late && over.is_none_or(|over| Instant::now() < over) => {
                self.returning = Some(returning);
                Ok(None)
            }
            Err(why) => {
                connection.free(returning.chunks());
                Err(match why {
                    Sent::Not(e) if is_late => Sent::Not(self.too_late(&e)),
                    Sent::Not(e) => Sent::Not(e.within(self.offer.signature.name())),
                    lost => lost,
                })
            }
        }
    }
}
