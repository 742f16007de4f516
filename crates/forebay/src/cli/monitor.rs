//! `forebay monitor`: the page of a run.

use super::out::Out;
use super::remote;
use forebay::{Code, Error, PageLinks, Result, run_dir};
use forebay_link::net::Address;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Print the links of a run's page, which is started when it is not there.
///
/// Who has the operator's link steers. It opens the page once, within five minutes, and is printed to a
/// terminal only, so that it stands in no log of a job; --operator and --json print it wherever they are told to.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay monitor two_stream --open")]
pub struct Monitor {
    /// The run.
    run: String,
    /// Open the operator's link in the browser.
    #[arg(long)]
    open: bool,
    /// Print the operator's link though standard output is no terminal.
    #[arg(long)]
    operator: bool,
    /// Print what a script shows in its header "Authorization: Bearer", the operator's with --operator.
    #[arg(long, conflicts_with = "open")]
    token: bool,
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
/// How long a browser may take to start and to open a link.
const BROWSER: Duration = Duration::from_secs(60);

/// Where a run is.
enum There {
    Here(PathBuf),
    RemoteRun(Address, String),
}

impl There {
    fn links(&self) -> Result<PageLinks> {
        match self {
            There::Here(dir) => forebay_agent::links(dir),
            There::RemoteRun(address, name) => forebay_agent::links_of_remote(address, name),
        }
    }

    fn token(&self, operator: bool) -> Result<String> {
        match self {
            There::Here(dir) => forebay_agent::token(dir, operator),
            There::RemoteRun(address, name) => forebay_agent::token_of_remote(address, name, operator),
        }
    }

    fn opened(&self, link: &str) -> Result<bool> {
        match self {
            There::Here(dir) => forebay_agent::opened(dir, link, BROWSER),
            There::RemoteRun(address, name) => forebay_agent::opened_remote(address, name, link, BROWSER),
        }
    }
}

/// A file that only this user reads and that leads to a link. The link itself would stand in the list of
/// processes, for all users of the host.
struct Letter(PathBuf);

impl Letter {
    fn write(link: &str) -> Result<Letter> {
        let path =
            forebay_host::directories::runtime_dir()?.join(format!("open-{}.html", std::process::id()));
        let fail = |e| Error::io(format!("cannot write {}", path.display()), e);
        // One that a killed command of the same number left is not written into: its mode is unknown.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(fail)?;
        let letter = Letter(path.clone());
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0; url={link}\"><title>Forebay</title>\
             <p><a href=\"{link}\">Open the page of the run</a>\n"
        );
        file.write_all(page.as_bytes()).map_err(fail)?;
        Ok(letter)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Letter {
    fn drop(&mut self) {
        // What stays is of no use: the link was used, or is too old.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Monitor {
    /// Waits for the run to be there.
    fn await_links(&self, there: &There) -> Result<PageLinks> {
        let wait = super::seconds(self.wait)?;
        let began = Instant::now();
        loop {
            match there.links() {
                // Its owner may be just about to listen.
                Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost) && began.elapsed() < wait => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                done => return done,
            }
        }
    }

    fn open(&self, there: &There, link: &str) -> Result<()> {
        let letter = Letter::write(link)?;
        let mut browser = Command::new("xdg-open")
            .arg(letter.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| Error::io("cannot open a browser with xdg-open; open the link yourself", e))?;
        let opened = there.opened(link)?;
        // It may be the browser itself, which stays; nobody waits for it.
        let _ = browser.try_wait();
        if opened {
            return Ok(());
        }
        Err(Error::new(
            Code::Timeout,
            format!("no browser opened the page within {} s; open a link yourself", BROWSER.as_secs()),
        ))
    }

    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let there = match remote(&self.run)? {
            Some((address, name)) => There::RemoteRun(address, name),
            None => There::Here(run_dir(&self.run)?),
        };
        let links = self.await_links(&there)?;
        if self.token {
            let token = there.token(self.operator)?;
            return out.either(|| json!({"token": token}), || token.clone());
        }
        if let (There::RemoteRun(address, _), false) = (&there, out.json) {
            out.line(reach(&links.viewer, &address.host))?;
        }
        let operator = self.operator || std::io::stdout().is_terminal();
        out.either(
            || json!(links),
            || {
                let viewer = format!("viewer   (looks)             {}", links.viewer);
                match operator {
                    true => format!("operator (looks and steers)  {}\n{viewer}", links.operator),
                    false => viewer,
                }
            },
        )?;
        if self.open { self.open(&there, &there.links()?.operator) } else { Ok(()) }
    }
}
