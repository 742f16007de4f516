//! A part on its way: ties itself to the master's life, then becomes its command.

use forebay::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Become a command that gets SIGTERM when its parent dies.
#[derive(clap::Args)]
#[command(hide = true, after_help = "Example:\n  forebay tied $PPID sleep 10")]
pub struct Tied {
    /// The parent's process number.
    parent: u32,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Tied {
    /// Does it.
    pub fn run(&self) -> Result<()> {
        forebay_host::parent::stop_with_parent(self.parent)?;
        let failed = Command::new(&self.command[0]).args(&self.command[1..]).exec();
        eprintln!(
            "{}",
            Error::io(format!("cannot run {:?}; check the name", self.command[0]), failed).text()
        );
        std::process::exit(127)
    }
}
