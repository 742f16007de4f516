//! The files of a call: they travel in the thread that sends it, or takes its result.

use std::sync::Arc;
use std::time::Instant;

use forebay_types::{Code, Error, Result};

use super::Future;
use crate::call::connection::{Connection, Returned};
use crate::call::files::{self, Carried};
use crate::call::{Sent, reply};

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
        let mut still = || match until {
            Some(until) if Instant::now() >= until => {
                Err(Error::new(Code::Timeout, "its files are still on their way"))
            }
            _ => self.is_wanted(),
        };
        files::carry(&self.inner, connection, &self.files, &mut still).map(Some)
    }

    fn is_wanted(&self) -> Result<()> {
        match self.is_given_up() {
            true => Err(self.cancelled()),
            false => Ok(()),
        }
    }

    /// Brings the files that it wrote, if it went well.
    pub(super) fn fetch(&self, returned: &Returned) -> Result<(), Sent> {
        match &self.carried {
            Some(carried) if !reply::has_failed(&returned.reply) => {
                files::fetch(&self.inner, carried, &self.files, &mut || self.is_wanted())
            }
            _ => Ok(()),
        }
    }
}
