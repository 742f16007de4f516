//! `forebay monitor`: the page of a run.

use super::out::Out;
use forebay::{Error, Result, run_dir};
use serde_json::json;
use std::process::{Command, Stdio};

/// Print the links of a run's page, which is started when it is not there.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay monitor two_stream --open")]
pub struct Monitor {
    /// The run.
    run: String,
    /// Open the operator's link in the browser.
    #[arg(long)]
    open: bool,
}

impl Monitor {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let links = forebay_agent::links(&run_dir(&self.run)?)?;
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
