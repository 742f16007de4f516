//! `forebay up` and `forebay down`: the node's agent.

use super::out::Out;
use forebay::{Error, Result};
use forebay_agent::{HostOptions, host};
use forebay_host::sockets;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Start the node's agent: it hosts broker, runs and pages, and stays until `forebay down`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay up --listen tcp://0.0.0.0:4567")]
pub struct Up {
    /// Listen for other hosts: tcp://HOST:PORT of this host, port 0 for any, host 0.0.0.0 for all its addresses.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Speak TLS over loopback too; to other hosts it always is.
    #[arg(long, requires = "listen")]
    tls: bool,
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

/// How long an agent that could not listen may take to leave again.
const LEAVING: Duration = Duration::from_secs(10);

impl Up {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        if let Some(address) = &self.listen {
            address.parse::<forebay_link::net::Address>().map_err(|e| e.within("--listen"))?;
        }
        if let Some(dir) = &self.dir {
            return super::again_in(dir, "--dir");
        }
        let runs = match self.listen {
            Some(_) => Some(self.runs_dir()?),
            None => None,
        };
        if self.by_need || self.foreground {
            return host(HostOptions {
                by_need: self.by_need,
                detach: self.by_need || self.detach,
                runs,
                listen: self.listen.clone(),
                tls: self.tls,
            });
        }
        let is_new = sockets::nobody_hears(&sockets::agent_socket()?);
        forebay_agent::start_to_stay()?;
        let s = forebay_agent::stay()?;
        // Whoever finds the door open finds where runs are kept, too.
        runs.map_or(Ok(()), |dir| forebay_agent::take_runs(&dir))?;
        let listens = self.listen.as_ref().map(|at| forebay_agent::listen(at, self.tls)).transpose();
        let address = match listens {
            Ok(listens) => listens.map(|l| l.address),
            Err(e) => {
                // What was started for that alone goes again.
                if is_new {
                    let _ = forebay_agent::down(false, LEAVING);
                }
                return Err(e);
            }
        };
        out.either(
            || json!({"pid": s.pid, "socket": s.socket, "address": address}),
            || {
                let there = address.as_ref().map_or(String::new(), |a| format!(", for other hosts at {a}"));
                format!("the agent is up (pid {}) at {}{there}", s.pid, s.socket)
            },
        )
    }
}

impl Up {
    /// Where runs of other hosts are kept, absolute.
    fn runs_dir(&self) -> Result<PathBuf> {
        let dir = self.runs.clone().unwrap_or_else(|| PathBuf::from("."));
        std::path::absolute(&dir).map_err(|e| Error::io(format!("cannot use {}", dir.display()), e))
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
