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

/// A task with its arguments, until it is over. There may be many, so what few have stands elsewhere.
pub(super) struct Job {
    /// Those that are passed, without bytes but for references.
    pub args: Box<[Arg<'static>]>,
    pub kept: Box<[Option<OwnCopy>]>,
    pub given: Box<[Given]>,
    /// Where it was sent.
    flight: Option<Flight>,
    rare: Option<Box<Rare>>,
}

/// What few tasks have.
#[derive(Default)]
pub(super) struct Rare {
    pub files: Vec<LocalFile>,
    /// Its files at a server that had no room for it when they were there.
    pub ready: Option<Carried>,
    /// A second server to which it was sent, at the end of a bag.
    second: Option<Flight>,
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
    pub files: Option<Box<Carried>>,
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
    pub given: Box<[Given]>,
    /// The arguments: of those that are references nothing comes back.
    pub args: Box<[Arg<'static>]>,
    pub files: Box<[LocalFile]>,
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
        let (mut without, mut kept_of) = (Vec::with_capacity(given.len()), Vec::with_capacity(given.len()));
        let mut bytes = 0;
        for (param, given) in signature.passed().zip(&given) {
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
            without.push(arg);
            kept_of.push(kept);
        }
        let rare = (!files.is_empty()).then(|| Box::new(Rare { files, ..Rare::default() }));
        let (args, kept, given) = (without.into(), kept_of.into(), given.into());
        Ok((Job { args, kept, given, flight: None, rare }, bytes))
    }

    /// What few tasks have, if this one has some of it.
    pub fn has_rare(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    /// What few tasks have, and this one has from now on.
    pub fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub fn files(&self) -> &[LocalFile] {
        self.rare.as_ref().map_or(&[], |rare| &rare.files)
    }

    /// The last server that was lost while it had this task, and how.
    pub fn lost(&self) -> Option<&(Arc<ServerInfo>, Error)> {
        self.rare.as_ref()?.lost.as_ref()
    }

    /// It was sent, to one server more.
    pub fn flies(&mut self, flight: Flight) {
        match self.flight {
            None => self.flight = Some(flight),
            Some(_) => self.rare().second = Some(flight),
        }
    }

    /// Where it was sent.
    pub fn flights(&self) -> impl Iterator<Item = &Flight> {
        let second = self.rare.as_ref().and_then(|rare| rare.second.as_ref());
        self.flight.iter().chain(second)
    }

    /// A flight of it, which it has no more.
    pub fn take_flight(&mut self, is_it: impl Fn(&Flight) -> bool) -> Option<Flight> {
        let second = self.rare.as_mut().map(|rare| &mut rare.second);
        [&mut self.flight].into_iter().chain(second).find_map(|flight| flight.take_if(|f| is_it(f)))
    }

    /// The flight of it that is over, if one is.
    pub fn landed(&mut self) -> Option<Flight> {
        self.take_flight(|flight| flight.pending.is_done())
    }

    /// Nobody waits for it any more.
    pub fn give_up(&mut self) {
        while let Some(flight) = self.take_flight(|_| true) {
            flight.connection.abandon(flight.id, &flight.pending);
        }
        if let Some(returning) = self.has_rare().and_then(|rare| rare.returning.take()) {
            returning.connection.free(returning.returned.chunks);
        }
    }

    /// What is needed to read its results.
    pub fn sizes(self) -> Sizes {
        let files = self.rare.map(|rare| rare.files.into()).unwrap_or_default();
        Sizes { given: self.given, args: self.args, files }
    }

    /// How many bytes of results a reply to it keeps.
    pub fn results(&self, returned: &Returned) -> u64 {
        let arrays = self.given.iter().zip(&*self.args).filter_map(|(given, arg)| match (given, arg) {
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
        signature.passed().zip(&*self.given).zip(&*self.args).map(|((param, given), arg)| (param, given, arg))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::bag::tasks::Task;

    #[test]
    fn a_task_that_has_nothing_rare_is_small_wherever_it_is_kept() {
        let sizes = [size_of::<Option<Task>>(), size_of::<Option<Job>>(), size_of::<Option<End>>()];
        assert!(sizes.iter().zip([72, 112, 112]).all(|(size, most)| *size <= most), "{sizes:?}");
    }
}
