//! Files as arguments: how they come to the server that gets a call, and what it wrote back to where the caller wants it.
//!
//! ```text
//! paths -> LocalFile: looked at, before anything is sent
//!       -> carry: the server sees the file itself, or gets it in pieces    (Carried: so many numbers, kept there)
//!       -> the request names the numbers
//!       -> fetch: what the service wrote, beside the wanted place, then renamed
//! Carried is dropped -> the server forgets the files
//! the call has ended -> its destinations are free for others
//! ```
//!
//! All of it happens in the thread that sends, or that takes the result. A call whose server is lost does it again from the
//! beginning, at another one.

mod coming;
mod destination;
mod local;
mod part;
mod side;

use std::fmt::Display;
use std::sync::Arc;

use forebay_link::call::Still;
use forebay_link::standing;
use forebay_types::{Param, Result, Signature, Way};

use super::args::{Arg, Value};
use super::connection::Connection;
use super::{Inner, Sent};
use coming::{Coming, come};
use part::Part;

pub(super) use local::LocalFile;
pub(super) use side::{FileSide, Route};

/// Files that a server keeps for a call. Dropped, it forgets them.
pub(super) struct Carried {
    connection: Arc<Connection>,
    numbers: Vec<u64>,
}

impl Carried {
    /// The number of a file there, by its place among those of the call.
    pub fn number(&self, at: usize) -> u64 {
        self.numbers.get(at).copied().unwrap_or(0)
    }

    /// Whether it is that server that keeps them.
    pub fn is_at(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.connection, connection)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.connection.files.forget(std::mem::take(&mut self.numbers));
    }
}

/// The files of a call, looked at: those among the arguments for these parameters. `whose` says which call it is.
pub(super) fn files_of<'p>(
    params: impl Iterator<Item = &'p Param>,
    args: &[Arg],
    whose: &dyn Display,
) -> Result<Vec<LocalFile>> {
    let mut files: Vec<LocalFile> = Vec::new();
    for (param, arg) in params.zip(args).filter(|(param, _)| param.is_file) {
        let Arg::Str(path) = arg else { continue };
        let looked = LocalFile::look(param, path, &files, whose);
        files.push(looked.map_err(|e| e.within(format_args!("parameter {}", param.name)))?);
    }
    Ok(files)
}

/// Brings files to a server.
pub(super) fn carry(
    inner: &Inner,
    connection: &Arc<Connection>,
    files: &[LocalFile],
    still: Still,
) -> Result<Carried, Sent> {
    let mut carried = Carried { connection: connection.clone(), numbers: Vec::new() };
    let mut still = || going_on(inner, connection, &mut *still);
    for file in files {
        let number = inner.next_id();
        carried.numbers.push(number);
        let line = |line: &mut _, still: Still| file.go(line, number, still);
        connection.files.with(inner, connection, &mut still, line)??;
    }
    Ok(carried)
}

/// What has come of the files of a call.
#[derive(Default)]
pub(super) struct Fetched {
    parts: Vec<Part>,
    coming: Option<Coming>,
}

/// Brings what a service has written to where it is wanted: all of it, or nothing. After an error of `still` it may go on.
pub(super) fn fetch(
    inner: &Inner,
    carried: &Carried,
    files: &[LocalFile],
    fetched: &mut Fetched,
    still: Still,
) -> Result<(), Sent> {
    let connection = &carried.connection;
    let mut still = || going_on(inner, connection, &mut *still);
    let wanted =
        files.iter().zip(&carried.numbers).filter_map(|(file, number)| Some((file.wanted()?, *number)));
    for (wanted, number) in wanted.skip(fetched.parts.len()) {
        let line = |line: &mut _, still: Still| come(&mut fetched.coming, wanted, line, number, still);
        let part = connection.files.with(inner, connection, &mut still, line)?.map_err(Sent::Not)?;
        fetched.parts.push(part);
    }
    fetched.parts.drain(..).try_for_each(Part::put).map_err(Sent::Not)
}

/// Whether the thread that carries files is to go on.
fn going_on(inner: &Inner, connection: &Connection, still: Still) -> Result<()> {
    connection.look();
    connection.lost().map_or(Ok(()), |lost| Err(lost.clone()))?;
    inner.interrupted()?;
    standing::objection().map_or(Ok(()), Err)?;
    still()
}

/// Gives the results that are files their paths.
pub(super) fn name_results(signature: &Signature, files: &[LocalFile], values: &mut [Value]) {
    let returned = signature.params().iter().filter(|p| p.is_returned()).zip(values);
    let places = returned.filter(|(param, _)| param.is_file).map(|(_, value)| value);
    for (value, file) in places.zip(files.iter().filter(|file| file.way == Way::Out)) {
        *value = Value::Str(file.given.clone());
    }
}
