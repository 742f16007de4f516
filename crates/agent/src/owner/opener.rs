//! Who opens a run, as far as this host can see.

use super::seats::Opener;
use forebay_host::{fork, identity, process};
use forebay_types::line::Launched;

impl Opener {
    /// A program of this host.
    pub fn local(pid: u32) -> Opener {
        Opener { here: pid, pid, host: identity::host(), launched: process::launched(pid), after: None }
    }

    /// A program of another host.
    pub fn remote(pid: u32, host: String, launched: Option<Launched>) -> Opener {
        Opener { here: fork::own_pid(), pid, host, launched, after: None }
    }

    /// One that brings the rest of an earlier session, if it does.
    pub fn bringing(self, after: Option<u64>) -> Opener {
        Opener { after, ..self }
    }
}
