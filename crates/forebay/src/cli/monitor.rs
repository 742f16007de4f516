//! `forebay monitor`: the page of a run.

use super::far;
use super::out::Out;
use forebay::{Code, Error, PageLinks, Result, run_dir};
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Print the links of a run's page, which is started when it is not there.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay monitor two_stream --open")]
pub struct Monitor {
    /// The run.
    run: String,
    /// Open the operator's link in the browser.
    #[arg(long)]
    open: bool,
    /// Seconds to wait for a program that does not write the run yet.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    wait: f64,
}

/// How a page that is bound to another host's loopback is reached.
fn reach(link: &str, host: &str) -> String {
    let port = link.split("://").nth(1).and_then(|rest| rest.split('/').next()?.rsplit(':').next());
    let port = port.unwrap_or("PORT");
    format!(
        "the page is served on {host} for itself only; before you open a link here: ssh -N -L {port}:127.0.0.1:{port} {host}"
    )
}

/// Between two looks whether the run is there.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Monitor {
    fn links(&self) -> Result<PageLinks> {
        let dir = run_dir(&self.run)?;
        let wait = super::seconds(self.wait)?;
        let began = Instant::now();
        loop {
            match forebay_agent::links(&dir) {
                // Its owner may be just about to listen.
                Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) && began.elapsed() < wait => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                done => return done,
            }
        }
    }

    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let there = far(&self.run)?;
        let links = match &there {
            Some((address, name)) => forebay_agent::links_of_far(address, name)?,
            None => self.links()?,
        };
        if let (Some((address, _)), false) = (&there, out.json) {
            out.line(reach(&links.operator, &address.host))?;
        }
        out.either(
            || json!(links),
            || {
                format!(
                    "operator (looks and steers)  {}\nviewer   (looks)             {}",
                    links.operator, links.viewer
                )
            },
        )?;
        if self.open {
            Command::new("xdg-open")
                .arg(&links.operator)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|e| Error::io("cannot open a browser with xdg-open; open the link yourself", e))?;
        }
        Ok(())
    }
}
