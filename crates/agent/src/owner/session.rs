//! One rank's session at this owner, from `OpenRun` to the end of its connection.

use super::Run;
use forebay_arena::Segment;
use forebay_types::Result;
use forebay_types::control::Resume;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A seat in a run.
pub struct Session {
    /// The run.
    pub run: Arc<Run>,
    /// Number of the session, unique in the run.
    pub number: u64,
    /// The rank that sits there.
    pub rank: u32,
    /// The session whose rest it brings.
    pub after: Option<u64>,
    /// It was opened at an owner that died.
    pub resumed: Option<Resume>,
}

impl Session {
    /// Takes the descriptor of the rank's segment; from now on its records are read. Gives the doorbell that the rank
    /// rings when the owner sleeps.
    pub fn attach(&self, segment: OwnedFd) -> Result<OwnedFd> {
        self.attach_segment(Segment::from_named_fd(segment)?)
    }

    /// Takes the rank's segment when this process has made it, as the mirror of one on another host; from now on its
    /// records are read. Gives the doorbell that the rank rings when the owner sleeps.
    pub fn attach_segment(&self, segment: Segment) -> Result<OwnedFd> {
        self.run.attach(self, segment)
    }

    /// The connection has ended: what the rank published is applied, then its seat is free.
    pub fn end(&self) {
        self.run.vacate(self.number, self.rank);
    }
}
