//! Failures of the disk and of the system, by what can be done about them.

use forebay_types::{Code, Error};
use std::io::ErrorKind;

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk has no room: that lasts until somebody makes room.
    NoRoom,
    /// A disk fails, or the system is short of something: it may pass, and the same bytes are worth another
    /// attempt.
    Again,
    /// It is a fault of what was to be written.
    Never,
}

impl Fault {
    /// Of what kind a failure is.
    pub fn of(e: &Error) -> Fault {
        use Code::*;
        match e.code() {
            Full if e.cause() != Some(ErrorKind::OutOfMemory) => Fault::NoRoom,
            Full | Io | ReadOnly | NotFound | Timeout | ServerLost => Fault::Again,
            _ => Fault::Never,
        }
    }
}

/// A number of bytes as people say it.
pub fn amount(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut n = bytes as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        // What would be printed as 1024.0 is one of the next unit.
        if n < 1023.95 {
            break;
        }
        (n, unit) = (n / 1024.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{n:.1} {unit}") }
}
