//! The owner on threads of the program that writes the run.

use crate::diary::Diary;
use crate::service::{Options, Service};
use forebay_host::sockets;
use forebay_types::Result;
use std::path::{Path, PathBuf};

/// How an owner is embedded. There is nothing to choose at present; the default is right.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {}

/// An owner inside this process: the same code as the agent's, without a broker, at a socket of
/// its own. Dropping it drains and stops it.
pub struct Embedded {
    service: Service,
    socket: PathBuf,
}

impl Embedded {
    /// Starts its threads.
    pub fn start(options: EmbeddedOptions) -> Result<Embedded> {
        let EmbeddedOptions {} = options;
        sockets::at_free_socket("run", |socket| {
            let service = Service::start(Options {
                role: "run",
                socket: socket.to_owned(),
                rendezvous: None,
                broker: false,
                succeeds: false,
                by_need: true,
                diary: Diary { on: false },
            })?;
            Ok(Embedded { service, socket: socket.to_owned() })
        })
    }

    /// Where a session connects.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Stops without draining: what is not on disk stays in shared memory for `forebay recover`.
    pub fn abandon(&self) {
        self.service.abandon();
    }

    /// Drains and stops.
    pub fn stop(mut self) {
        self.service.stop();
    }
}
