//! Calls of a client that have failed: the last ones, for whoever asks later.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use forebay_types::directory::ServerInfo;
use forebay_types::held::OWN;
use forebay_types::{Code, Error, beginning};

use super::{Client, lock};

/// So many are kept, the newest.
const KEPT: usize = 1000;
/// Bytes that are kept of a text.
const TEXT: usize = 4096;

/// A call that has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedCall {
    /// The service that was called.
    pub service: String,
    /// What kind of failure it is.
    pub code: Code,
    /// The first 4,096 bytes of its text.
    pub text: String,
    /// When it was known.
    pub when: SystemTime,
    /// The server, its name and pid; none where the call has reached none.
    pub server: Option<(Arc<str>, u32)>,
}

/// Those of one client.
#[derive(Default)]
pub(super) struct Failures {
    last: Mutex<VecDeque<FailedCall>>,
}

impl Failures {
    /// Keeps one. A call that its caller has given up has not failed, and what is asked about an array is no call of a
    /// service.
    #[cold]
    pub fn note(&self, service: &str, error: &Error, server: Option<&ServerInfo>) {
        if error.code() == Code::Cancelled || service.starts_with(OWN) {
            return;
        }
        let failed = FailedCall {
            service: service.to_owned(),
            code: error.code(),
            text: beginning(error.text(), TEXT).to_owned(),
            when: SystemTime::now(),
            server: server.map(|info| (info.name.as_str().into(), info.pid)),
        };
        let mut last = lock(&self.last);
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(failed);
    }
}

impl Client {
    /// Keeps a call of which nothing was made, among those that have failed: for languages that make the arguments before.
    pub fn note(&self, service: &str, why: &Error) {
        if self.inner.check_open().is_ok() {
            self.inner.failures.note(service, why, None);
        }
    }

    /// The last 1,000 calls of this client that have failed, the oldest first. Calls that were given up are not among
    /// them, nor are tasks of a bag, which tells of its own.
    pub fn failed(&self) -> Vec<FailedCall> {
        match self.inner.check_process() {
            Ok(()) => lock(&self.inner.failures.last).iter().cloned().collect(),
            Err(_) => Vec::new(), // of the parent, whose locks may be held
        }
    }

    /// One of them, counted from the newest, which is 0.
    pub fn failed_before(&self, index: usize) -> Option<FailedCall> {
        self.inner.check_process().ok()?;
        lock(&self.inner.failures.last).iter().rev().nth(index).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_are_kept_and_long_texts_are_cut_between_letters() {
        let failures = Failures::default();
        for n in 0..KEPT + 5 {
            failures.note(&format!("s{n}"), &Error::new(Code::RemoteError, "é".repeat(TEXT)), None);
        }
        failures.note("given_up", &Error::new(Code::Cancelled, "given up"), None);
        let last = lock(&failures.last);
        assert_eq!((last.len(), last[0].service.as_str()), (KEPT, "s5"));
        assert!(last.iter().all(|failed| failed.text == "é".repeat(TEXT / 2)));
    }
}
