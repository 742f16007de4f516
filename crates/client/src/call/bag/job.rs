//! A task with its arguments, from its input to its end.

use std::sync::Arc;
use std::time::Instant;

use forebay_types::directory::ServerInfo;
use forebay_types::{Error, Given, Param, Result, Signature};

use crate::call::args::Arg;
use crate::call::connection::{Connection, Pending, Returned};
use crate::call::files::{self, Carried, Fetched, LocalFile};
use crate::call::reply::{self, Printed};
use crate::call::transfer::OwnCopy;

/// A task with its arguments, until it is over.
pub(super) struct Job {
    /// Those that are passed, without bytes but for references.
    pub args: Vec<Arg<'static>>,
    pub kept: Vec<Option<OwnCopy>>,
    pub given: Vec<Given>,
    pub files: Vec<LocalFile>,
    /// Its files at a server that had no room for it when they were there.
    pub ready: Option<Carried>,
    /// Where it was sent; at the end of a bag, to two servers.
    pub flights: [Option<Flight>; 2],
    /// The last server that was lost while it had this task, and how.
    pub lost: Option<(Arc<ServerInfo>, Error)>,
    /// Its reply, while what it wrote is on its way.
    pub returning: Option<Box<Returning>>,
    /// Since when its files have found no room anywhere while nothing of this client's was under way that could make some.
    pub crowded: Option<Instant>,
}

/// Where a task was sent, under which number.
pub(super) struct Flight {
    pub id: u64,
    pub connection: Arc<Connection>,
    pub pending: Arc<Pending>,
    pub sent: Option<Instant>,
    /// Where its files are kept.
    pub files: Option<Carried>,
}

/// A reply whose files are on their way.
pub(super) struct Returning {
    pub connection: Arc<Connection>,
    pub files: Carried,
    pub returned: Returned,
    pub fetched: Fetched,
}

/// How a task ended, before that is the user's.
pub(super) enum End {
    Reply(Arc<Connection>, Returned, Sizes),
    Error(Error),
}

/// What the results of a task are.
pub(super) struct Sizes {
    pub given: Vec<Given>,
    /// The arguments: of those that are references nothing comes back.
    pub args: Vec<Arg<'static>>,
    pub files: Vec<LocalFile>,
}

impl Job {
    /// A task of those arguments, copies of which `copy` makes; and how many bytes it keeps. `all`: they are those that
    /// are passed, not only those that go.
    pub fn of(
        index: u64,
        signature: &Signature,
        mut args: Vec<Arg>,
        all: bool,
        mut copy: impl FnMut(usize, &Arg) -> Result<Option<OwnCopy>>,
    ) -> Result<(Job, u64)> {
        let params = signature.passed().filter(|param| all || param.is_sent());
        for (order, arg) in params.zip(&mut args).filter_map(|(p, arg)| Some((p.order?, arg))) {
            arg.travel_in(order)?;
        }
        args.iter().try_for_each(|arg| arg.check().map_err(|e| e.within(signature.name())))?;
        let mut given: Vec<Given> = args.iter().map(|arg| as_result(arg.given())).collect();
        match all {
            true => signature.check(&mut given)?,
            false => given = signature.complete(&given)?,
        }
        let files = match signature.has_files() {
            true => {
                let whose = format_args!("task {index} of a map of {}", signature.name());
                files::files_of(signature.passed().filter(|param| all || param.is_sent()), &args, &whose)
                    .map_err(|e| e.within(signature.name()))?
            }
            false => Vec::new(),
        };
        let mut args = args.into_iter().enumerate();
        let mut job = Job {
            args: Vec::new(),
            kept: Vec::new(),
            given,
            files,
            ready: None,
            flights: [None, None],
            lost: None,
            returning: None,
            crowded: None,
        };
        let mut bytes = 0;
        for (param, given) in signature.passed().zip(&job.given) {
            let arg = if all || param.is_sent() { args.next() } else { None };
            let (arg, kept) = match arg {
                None if param.is_sent() => return Err(Error::internal("an argument is missing")),
                Some((at, arg)) if param.is_sent() => {
                    bytes += arg.len() as u64;
                    (arg.without_bytes(), copy(at, &arg)?)
                }
                Some((_, arg @ Arg::Ref(..))) => (arg.without_bytes(), None),
                // It has said what it is.
                _ => (nothing(given), None),
            };
            job.args.push(arg);
            job.kept.push(kept);
        }
        Ok((job, bytes))
    }

    /// The flight of it that is over, if one is.
    pub fn landed(&mut self) -> Option<Flight> {
        let is_over = |flight: &&mut Option<Flight>| flight.as_ref().is_some_and(|f| f.pending.is_done());
        self.flights.iter_mut().find(is_over)?.take()
    }

    /// Nobody waits for it any more.
    pub fn give_up(&mut self) {
        for flight in self.flights.iter_mut().filter_map(Option::take) {
            flight.connection.abandon(flight.id, &flight.pending);
        }
        if let Some(returning) = self.returning.take() {
            returning.connection.free(returning.returned.chunks);
        }
    }

    /// How many bytes of results a reply to it keeps.
    pub fn results(&self, returned: &Returned) -> u64 {
        let arrays = self.given.iter().zip(&self.args).filter_map(|(given, arg)| match (given, arg) {
            (_, Arg::Ref(..)) => None,
            (Given::Array { meta, .. }, _) => meta.bytes().ok(),
            _ => None,
        });
        let large: u64 = if returned.chunks.is_empty() { 0 } else { arrays.sum() };
        large + returned.reply.len() as u64
    }
}

impl End {
    /// What the service printed, if it has not ended well.
    pub fn printed(&self, signature: &Signature) -> Option<Printed> {
        match self {
            End::Reply(_, returned, _) => reply::printed(signature, &returned.reply),
            End::Error(_) => None,
        }
    }
}

impl Sizes {
    /// The parameters that are passed, with what each of them is and its argument.
    pub fn passed<'s>(
        &'s self,
        signature: &'s Signature,
    ) -> impl Iterator<Item = (&'s Param, &'s Given, &'s Arg<'static>)> {
        signature.passed().zip(&self.given).zip(&self.args).map(|((param, given), arg)| (param, given, arg))
    }
}

/// What is given for a result is made anew: it may be written.
fn as_result(given: Given) -> Given {
    match given {
        Given::Array { meta, .. } => Given::Array { meta, writable: true },
        other => other,
    }
}

fn nothing(given: &Given) -> Arg<'static> {
    match given {
        Given::Array { meta, .. } => Arg::In(*meta, &[]),
        _ => Arg::Bytes(&[]),
    }
}
