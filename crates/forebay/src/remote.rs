//! Runs on other hosts: `fb://host:port/name`. The rank's side is the same session with the same
//! segment; a relay stands where the owner would, and reads go over a line of their own.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forebay_client::remote::{RemoteReader, RemoteRun};
use forebay_host::environment;
use forebay_link::Wire;
use forebay_link::net::{Address, Keys};
use forebay_types::control::Elsewhere;
use forebay_types::reading::Question;
use forebay_types::{Code, Error, Result};

use crate::run_dir;

/// How long one attempt to reach another host may take.
const CALLING: Duration = Duration::from_secs(3);

/// Where a run is.
pub enum RunPlace {
    /// A directory of this host.
    Here(PathBuf),
    /// Under the directory that an agent on another host gives to such runs.
    There(RemoteRun),
}

impl RunPlace {
    /// Reads `two_stream`, a path, or `fb://host:port/two_stream`. A run that is named by the address of this user's
    /// agent on this very host is one of this host: memory is shared with its owner, and files are read where they are.
    pub fn parse(text: &str) -> Result<RunPlace> {
        if !Address::is_meant(text) {
            return run_dir(text).map(RunPlace::Here);
        }
        let (address, name) = named(text)?;
        match forebay_agent::directory_of(&address, &name)? {
            Some((dir, agent)) if crate::owner::unlike(agent, &dir).is_none() => Ok(RunPlace::Here(dir)),
            _ => remote(address, name).map(RunPlace::There),
        }
    }
}

/// An address that refuses connections has no agent any more, which a line that is cut may still have.
fn nobody(e: Error, at: &Address, name: &str) -> Error {
    match e.cause() {
        Some(ErrorKind::ConnectionRefused) => {
            let text = format!(
                "{}; there, `{}` starts one, where DIRECTORY is that under which {name} lies",
                e.text(),
                at.command()
            );
            Error::new(Code::NoServer, text)
        }
        _ => e,
    }
}

/// Asks the other host for the identity of a run; `None` when there is no run of that name.
fn run_id(remote: &RemoteRun) -> Result<Option<String>> {
    match RemoteReader::open(remote.clone()).and_then(|reader| reader.ask(&Question::RunId)) {
        Ok(run_id) => Ok(Some(run_id)),
        Err(e) if e.code() == Code::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Asks the host in an address, `fb://host:port/name`, for the identity of that run; `None` when there is no run of
/// that name.
pub fn run_id_of(text: &str) -> Result<Option<String>> {
    run_id(&there(text)?)
}

/// A run by its address, whichever host that is.
fn there(text: &str) -> Result<RemoteRun> {
    let (address, name) = named(text)?;
    remote(address, name)
}

fn remote(address: Address, name: String) -> Result<RemoteRun> {
    let (at, run) = (address.clone(), name.clone());
    let dial = move || {
        let wire = Wire::connect_net(&at, "run", &Keys::of_home()?, CALLING);
        wire.map_err(|e| nobody(e, &at, &run))
    };
    Ok(RemoteRun {
        dial: Arc::new(dial),
        url: format!("{address}/{name}"),
        name,
        patience: environment::line_patience()?,
        elsewhere: environment::elsewhere()?,
    })
}

/// Sends what dead programs left on this host of a run on another one. What of it is not taken stays here and is
/// told; it keeps nobody from going on.
pub fn send_rest(remote: &RemoteRun) -> Result<()> {
    if !forebay_client::remote::any_rest() {
        return Ok(());
    }
    let Some(run_id) = run_id(remote)? else { return Ok(()) };
    let sent = forebay_client::remote::send_rests(remote, &run_id)?;
    sent.refused.iter().for_each(|why| eprintln!("forebay: {}", why.text()));
    Ok(())
}

/// Sends to the run at an address, `fb://host:port/name`, what dead programs left of it on this host, and returns of
/// how many sessions that was: what `forebay recover` does. `NotFound` when there is no such run; what is not taken
/// there is an error.
pub fn recover(text: &str, elsewhere: Elsewhere) -> Result<usize> {
    let remote = RemoteRun { elsewhere, ..there(text)? };
    if !forebay_client::remote::any_rest() {
        return Ok(0);
    }
    let run_id = run_id(&remote)?.ok_or_else(|| {
        let text = format!(
            "there is no run at {}; if there was one and it is gone for good, `forebay doctor --clean` \
             frees what its programs left on this host",
            remote.url
        );
        Error::new(Code::NotFound, text)
    })?;
    let sent = forebay_client::remote::send_rests(&remote, &run_id)?;
    sent.refused.into_iter().next().map_or(Ok(sent.sessions), Err)
}

/// Address and name of a run on another host.
pub fn named(text: &str) -> Result<(Address, String)> {
    let (address, name) = Address::split(text)?;
    let name = name
        .ok_or_else(|| Error::bad(format!("{text:?} names a host and no run; write {address}/two_stream")))?;
    Ok((address, name.trim_end_matches('/').to_owned()))
}
