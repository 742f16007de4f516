//! The environment variables of Forebay, all of them. Nothing else reads them, and `tests/tidy` compares the names
//! with the table in CONTRIBUTING.md, which says what each is for.

use forebay_types::control::Elsewhere;
use forebay_types::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Directory of sockets and locks.
pub const RUNTIME_DIR: &str = "FOREBAY_RUNTIME_DIR";
/// Directory of rendezvous files.
pub const HOME: &str = "FOREBAY_HOME";
/// Directory of named segments.
pub const SHM_DIR: &str = "FOREBAY_SHM_DIR";
/// First part of their names.
pub const SHM_PREFIX: &str = "FOREBAY_SHM_PREFIX";
/// Socket of an agent, or its address `fb://HOST:PORT`.
pub const BROKER: &str = "FOREBAY_BROKER";
/// The `forebay` program.
pub const EXE: &str = "FOREBAY_EXE";
/// Seconds that calls wait for a server that is not there yet.
pub const PATIENCE: &str = "FOREBAY_PATIENCE";
/// When a run is to be over, if its program does not say.
pub const TIME_LIMIT: &str = "FOREBAY_TIME_LIMIT";
/// Buffer of a process that opens a run without saying its size.
pub const BUFFER: &str = "FOREBAY_BUFFER";
/// 1: who writes into an array of a snapshot that is over is stopped there.
pub const CHECK: &str = "FOREBAY_CHECK";
/// Seconds that a snapshot waits for ranks that have not opened the run.
pub const LATE_RANKS: &str = "FOREBAY_LATE_RANKS";
/// What an opening does about data in memory that it does not reach.
pub const ELSEWHERE: &str = "FOREBAY_ELSEWHERE";
/// Seconds without a word after which a process on another host is lost.
pub const SILENCE: &str = "FOREBAY_SILENCE";
/// Seconds for which a cut line to the store of a run is tried again.
pub const LINE_PATIENCE: &str = "FOREBAY_LINE_PATIENCE";
/// The rank of a process, as `forebay run` tells it.
pub const RANK: &str = "FOREBAY_RANK";
/// The number of ranks, as `forebay run` tells it.
pub const RANKS: &str = "FOREBAY_RANKS";
/// Directory into which owners of runs write what they are told.
pub const RECORD: &str = "FOREBAY_RECORD";
/// `off`: stubs of remote routines call the local ones.
pub const STUBS: &str = "FOREBAY_STUBS";
/// Operations below which stubs call the local routine.
pub const STUBS_MIN: &str = "FOREBAY_STUBS_MIN";
/// File into which stubs write how many calls went out.
pub const STUBS_REPORT: &str = "FOREBAY_STUBS_REPORT";
/// The Python that `forebay serve` runs.
pub const PYTHON: &str = "FOREBAY_PYTHON";

/// A variable that is text, as it is set.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A variable that names a file; an empty one names none.
pub fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The agent that the environment names: a socket, or an address.
pub fn broker() -> Option<PathBuf> {
    path(BROKER)
}

/// The `forebay` program, if the environment names it.
pub fn exe() -> Option<PathBuf> {
    path(EXE)
}

/// Where owners of runs write down what they are told, if they shall.
pub fn recordings() -> Option<PathBuf> {
    path(RECORD)
}

/// Whether a variable is set at all.
pub fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// How long a snapshot waits for ranks that have not opened the run.
pub fn late_ranks() -> Result<Duration> {
    seconds(LATE_RANKS, 60)
}

/// What an opening does about data in memory that it does not reach, if its program does not say.
pub fn elsewhere() -> Result<Elsewhere> {
    let Some(text) = path(ELSEWHERE) else { return Ok(Elsewhere::default()) };
    Elsewhere::parse(text.to_string_lossy().trim())
        .map_err(|e| e.within(format_args!("the environment variable {ELSEWHERE}")))
}

/// How long a process on another host may be silent before it is lost. A network that is cut for
/// half of that heals: TCP tries again after 0.2, 0.4, 0.8 and so on seconds.
pub fn silence() -> Result<Duration> {
    let Some(text) = path(SILENCE) else { return Ok(Duration::from_secs(10)) };
    let seconds = text.to_str().and_then(|t| t.trim().parse::<f64>().ok());
    silence_of(seconds.unwrap_or(f64::NAN)).map_err(|_| {
        Error::bad(format!("{SILENCE} is {text:?}; give a number of seconds from 1 to 3600, for example 10"))
    })
}

/// A silence of so many seconds: from 1 to 3600.
pub fn silence_of(seconds: f64) -> Result<Duration> {
    match (1.0..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(Error::bad(format!(
            "a silence of {seconds} s; give a number of seconds from 1 to 3600, for example 10"
        ))),
    }
}

/// How long a cut line to the store of a run is tried again before the session is given up.
pub fn line_patience() -> Result<Duration> {
    seconds(LINE_PATIENCE, 30)
}

/// The seconds that a variable gives, or so many.
fn seconds(name: &str, usual: u64) -> Result<Duration> {
    let Some(text) = path(name) else { return Ok(Duration::from_secs(usual)) };
    let seconds = text.to_str().and_then(|t| t.trim().parse::<f64>().ok());
    seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(|| {
        Error::bad(format!("{name} is {text:?}; give a number of seconds, for example {usual}"))
    })
}
