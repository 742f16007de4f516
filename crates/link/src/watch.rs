//! Whether the process at the other end lives.
//!
//! Three signs: the socket hangs up when it ends in any way; the heartbeat word in the shared
//! segment stands still when it is stopped, or starved; `/proc` tells these two apart. Busy is
//! not dead: a heart beats on its own thread, however long a service computes.

use crate::silence::STILL;
pub use crate::wire::hung_up;
use forebay_arena::Segment;
use forebay_host::{Process, ProcessState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What the other process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It lives, or nothing says otherwise.
    Alive,
    /// It is stopped (SIGSTOP, a debugger) and its heart stands still.
    Stopped,
    /// It has ended or closed the connection.
    Gone,
}

/// Watches one peer.
pub struct Watch {
    socket: OwnedFd,
    process: Option<Process>,
    heart: Option<(Segment, usize)>,
    last_beat: u64,
    since: Instant,
}

impl Watch {
    /// Watches by a descriptor of the control socket, the process behind it, and the control
    /// word that it ticks.
    pub fn new(socket: OwnedFd, process: Option<Process>, heart: Option<(Segment, usize)>) -> Watch {
        Watch { socket, process, heart, last_beat: 0, since: Instant::now() }
    }

    /// What the peer does now: one system call, and a look into `/proc` only when its heart
    /// stands still.
    pub fn check(&mut self) -> PeerState {
        if hung_up(self.socket.as_fd()) {
            return PeerState::Gone;
        }
        if self.beats() || self.since.elapsed() < STILL {
            return PeerState::Alive;
        }
        match self.process.map(|p| p.state()) {
            Some(ProcessState::Stopped) => PeerState::Stopped,
            Some(ProcessState::Gone) => PeerState::Gone,
            _ => PeerState::Alive,
        }
    }

    fn beats(&mut self) -> bool {
        let Some((segment, word)) = &self.heart else { return false };
        let beat = segment.word(*word).load(Ordering::Relaxed);
        let moved = beat != self.last_beat;
        if moved {
            self.last_beat = beat;
            self.since = Instant::now();
        }
        moved
    }

    /// The process that is watched.
    pub fn process(&self) -> Option<Process> {
        self.process
    }
}
