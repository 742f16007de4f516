//! `forebay up` and `forebay down`: the node's agent.

use super::out::Out;
use forebay::{Code, Error, Result};
use forebay_agent::{HostOptions, host};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Start the node's agent: it hosts broker, runs and pages, and stays until `forebay down`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay up")]
pub struct Up {
    /// An address for other hosts. This version serves its own host only and says so.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Runtime directory: sockets, locks, log. By default as FOREBAY_RUNTIME_DIR says.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where runs of other hosts are kept, with --listen. By default the working directory.
    #[arg(long, value_name = "DIR", requires = "listen")]
    runs: Option<PathBuf>,
    /// Stay in the foreground, with the log on standard error, until Ctrl-C.
    #[arg(long)]
    foreground: bool,
    /// Be the agent, and leave when nothing needs it for 10 s.
    #[arg(long, hide = true)]
    by_need: bool,
    /// Be the agent in a session of its own.
    #[arg(long, hide = true)]
    detach: bool,
}

impl Up {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        if let Some(address) = &self.listen {
            return Err(Error::new(
                Code::Refused,
                format!(
                    "--listen {address}: this version serves processes of its own host only, over Unix sockets; start it without --listen"
                ),
            ));
        }
        if let Some(dir) = &self.dir {
            return super::again_in(dir, "--dir");
        }
        if self.by_need || self.foreground {
            return host(HostOptions {
                by_need: self.by_need,
                detach: self.by_need || self.detach,
                runs: self.runs.clone(),
            });
        }
        forebay_agent::start_to_stay()?;
        let s = forebay_agent::stay()?;
        out.either(
            || json!({"pid": s.pid, "socket": s.socket}),
            || format!("the agent is up (pid {}) at {}", s.pid, s.socket),
        )
    }
}

/// Tell the node's agent to drain everything and go.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay down")]
pub struct Down {
    /// Go even while programs write runs; they fail then, and nothing acknowledged is lost.
    #[arg(long)]
    force: bool,
    /// Seconds to wait for the last byte to reach the disk.
    #[arg(long, default_value_t = 600)]
    timeout: u64,
}

impl Down {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let pid = forebay_agent::down(self.force, Duration::from_secs(self.timeout))?;
        out.either(|| json!({"pid": pid}), || format!("the agent (pid {pid}) has left"))
    }
}
