//! The keeper of a server's output: passes on what the server had written when it died.

use forebay::{Error, Result};
use forebay_host::{output, parent};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Pass on what a process left in its pipes when it died.
#[derive(clap::Args)]
#[command(hide = true, after_help = "Example:\n  forebay keep-output 5 6 7")]
pub struct KeepOutput {
    /// Descriptors that were left open: the process, then pipes and where they lead.
    #[arg(required = true)]
    descriptors: Vec<i32>,
    /// Stay; otherwise a process is started that does.
    #[arg(long)]
    stay: bool,
}

impl KeepOutput {
    /// Does it.
    pub fn run(&self) -> Result<()> {
        if !self.stay {
            return self.start();
        }
        // What ends the server in order does not end it.
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::default())
                .map_err(|e| Error::io("cannot be deaf to signals", e))?;
        }
        output::keep_until_the_end(&self.descriptors)
    }

    /// Has it done by a process that nobody waits for, in a session of its own.
    fn start(&self) -> Result<()> {
        let session = rustix::process::setsid();
        session.map_err(|e| Error::io("cannot begin a session of its own", e))?;
        parent::close_inherited_but(&self.descriptors)?;
        let exe = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
        let mut command = Command::new(exe);
        command.arg("keep-output").arg("--stay").args(self.descriptors.iter().map(i32::to_string));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(drop).map_err(|e| Error::io("cannot start the keeper", e))
    }
}
