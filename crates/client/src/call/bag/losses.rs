//! What is said of a task whose servers were lost.

use forebay_types::{Code, Error, Signature};

use super::machine::Verdict;
use crate::call::LIVES;

/// Of one that is over with the loss of a server.
pub(super) fn over(service: &str, verdict: Verdict, cause: &Error) -> Error {
    let (code, text) = match verdict {
        Verdict::Unknown => (
            Code::ServerLost,
            format!(
                "{service}: {cause}; the service has effects, so the call was not issued again: find out whether it was done"
            ),
        ),
        Verdict::Bound => (
            Code::ServerLost,
            format!(
                "{service}: {cause}; the arrays it held are lost with it: make them anew on another server"
            ),
        ),
        Verdict::Kills => (
            Code::Poisoned,
            format!(
                "{service}: {LIVES} servers died under this task, the last two while they had nothing else to do, so it is \
             given up: {cause}; look at its input, and at what those servers said"
            ),
        ),
    };
    Error::new(code, text)
}

/// Of one that was running on servers when they died, the last of them like that, and for which no other one has come.
pub(super) fn running_there(deaths: u8, last: &str) -> String {
    let died = if deaths == 1 { "A server".to_owned() } else { format!("{deaths} servers") };
    format!(
        ". {died} died while this task was running there, which may be its doing: {last}; look at its input, and at what \
         that server printed"
    )
}

/// Of those that need an array of a server that offers the service no more.
pub(super) fn withdrawn(service: &str) -> Error {
    Error::bad(format!(
        "{service}: the server that holds an array of this task offers the service no more; put the array on one that does"
    ))
}

/// Of those that need an array of a server that offers another service under that name.
pub(super) fn another(ours: &Signature, theirs: &Signature) -> Error {
    Error::new(
        Code::Conflict,
        format!("the service is {theirs} by now, and this bag of tasks began with {ours}; begin another one"),
    )
}
