//! One error for all crates: a code of `spec/errors.toml` and a text that says what happened,
//! the value, and what to do.

use serde::{Deserialize, Serialize};
use std::io::ErrorKind;

include!(concat!(env!("OUT_DIR"), "/codes.rs"));

/// A code with its words.
#[derive(Debug)]
pub struct CodeInfo {
    /// The code itself.
    pub code: Code,
    /// Its name, as users of every language see it.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do when the text of the error names nothing better.
    pub remedy: &'static str,
}

impl Code {
    /// The code of a number, as it came over a wire.
    pub fn from_number(number: u32) -> Option<Code> {
        CODES.iter().map(|c| c.code).find(|c| *c as u32 == number)
    }

    /// Name, meaning and remedy.
    pub fn info(self) -> &'static CodeInfo {
        CODES.iter().find(|c| c.code == self).expect("the table holds every code")
    }

    /// The name, as users see it.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}

/// A failure: what kind, and a text of the form *what happened: the value; what to do*.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenError", into = "WrittenError")]
pub struct Error {
    code: Code,
    text: String,
    cause: Option<ErrorKind>,
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with its text.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Error { code, text: text.into(), cause: None }
    }

    /// A failed system call: `what` says what was tried on what.
    pub fn io(what: impl std::fmt::Display, cause: impl Into<std::io::Error>) -> Self {
        use ErrorKind as K;
        let cause = cause.into();
        let code = match cause.kind() {
            K::NotFound => Code::NotFound,
            K::PermissionDenied | K::ReadOnlyFilesystem => Code::ReadOnly,
            K::StorageFull | K::QuotaExceeded | K::OutOfMemory => Code::Full,
            K::TimedOut => Code::Timeout,
            K::BrokenPipe | K::ConnectionReset | K::ConnectionAborted | K::UnexpectedEof => Code::ServerLost,
            _ => Code::Io,
        };
        Error::new(code, format!("{what}: {cause}"))
    }

    /// `BadArgument` with its text.
    pub fn bad(text: impl Into<String>) -> Self {
        Error::new(Code::BadArgument, text)
    }

    /// `Internal` with its text: a promise to ourselves was broken.
    pub fn internal(text: impl Into<String>) -> Self {
        Error::new(Code::Internal, text)
    }

    /// What kind of failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The text: what happened, the value, what to do.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds the kind of failure that the system reported, for callers that decide by it.
    pub fn caused_by(mut self, cause: ErrorKind) -> Self {
        self.cause = Some(cause);
        self
    }

    /// The kind of failure that the system reported, where it is kept; it is not sent to other processes.
    pub fn cause(&self) -> Option<ErrorKind> {
        self.cause
    }

    /// Puts a place in front of the text, which says where the error happened.
    pub fn within(mut self, place: impl std::fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }

    /// Puts a remedy behind the text, which says what to do about the error.
    pub fn with_remedy(mut self, remedy: impl std::fmt::Display) -> Self {
        self.text = format!("{}; {remedy}", self.text);
        self
    }
}

/// An error as it is written down, with its cause.
#[derive(Serialize, Deserialize)]
struct WrittenError {
    code: u32,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl From<Error> for WrittenError {
    fn from(e: Error) -> WrittenError {
        WrittenError { code: e.code as u32, text: e.text, cause: e.cause.map(|kind| format!("{kind:?}")) }
    }
}

impl TryFrom<WrittenError> for Error {
    type Error = Error;

    fn try_from(p: WrittenError) -> Result<Error> {
        let code = Code::from_number(p.code)
            .ok_or_else(|| Error::new(Code::Corrupt, format!("{} is the number of no error", p.code)))?;
        let cause = p.cause.as_deref().map(kind_named).transpose()?;
        Ok(Error { code, text: p.text, cause })
    }
}

/// The kind of failure of that name, of those that a system call or a reader of bytes can tell.
fn kind_named(name: &str) -> Result<ErrorKind> {
    let read = [ErrorKind::UnexpectedEof, ErrorKind::WriteZero, ErrorKind::InvalidData, ErrorKind::Other];
    let told = (1..LAST_ERRNO).map(|number| std::io::Error::from_raw_os_error(number).kind());
    let found = told.chain(read).find(|kind| format!("{kind:?}") == name);
    found.ok_or_else(|| Error::new(Code::Corrupt, format!("{name:?} is no kind of failure")))
}

/// Behind the numbers by which a system call says why it failed.
const LAST_ERRNO: i32 = 134;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_again_by_its_number() {
        for info in CODES {
            assert_eq!(Code::from_number(info.code as u32), Some(info.code));
            assert!(!info.remedy.is_empty() && info.meaning.ends_with('.'), "{}", info.name);
        }
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(u32::MAX), None);
    }

    #[test]
    fn a_system_error_keeps_its_kind_and_its_words() {
        let cause = std::io::Error::from_raw_os_error(28);
        let e = Error::io("cannot write steps/0000000100.h5", cause);
        assert_eq!(e.code(), Code::Full);
        assert!(e.text().starts_with("cannot write steps/0000000100.h5: "));
    }

    #[test]
    fn an_error_that_was_written_down_reads_back_with_its_cause() {
        let full = Error::io("cannot write", std::io::Error::from_raw_os_error(28));
        for e in [full.clone(), full.clone().caused_by(ErrorKind::StorageFull), Error::bad("nonsense")] {
            let text = serde_json::to_string(&e).unwrap();
            assert_eq!(serde_json::from_str::<Error>(&text).unwrap(), e, "{text}");
        }
        assert!(serde_json::from_str::<Error>(r#"{"code": 9999, "text": ""}"#).is_err());
        assert!(serde_json::from_str::<Error>(r#"{"code": 1, "text": "", "cause": "Rain"}"#).is_err());
    }
}
