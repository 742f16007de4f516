//! What is said of a task whose servers were lost.

use forebay_types::{Code, Error};

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
