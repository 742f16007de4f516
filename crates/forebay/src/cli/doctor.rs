//! `forebay doctor`: whether this machine and this account give Forebay what it needs.

use super::leftover::{Left, Look, leftovers, lines};
use super::out::{Out, bytes};
use forebay::{Code, Error, Result};
use forebay_arena::{Segment, SegmentSpec, segments};
use forebay_host::{directories, sockets};
use serde_json::json;

/// Shared memory below this is too small for the usual buffer of one process and a second one.
const SHM_LEAST: u64 = 512 << 20;
/// Descriptors below this are few for many ranks.
const FILES_LEAST: u64 = 1024;

/// Look for what keeps Forebay from working here: shared memory, directories, left-over segments.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay doctor --clean")]
pub struct Doctor {
    /// Free the memory that dead programs have left of runs whose directories are gone.
    #[arg(long)]
    clean: bool,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Good,
    Mind,
    Bad,
}

struct Finding {
    what: &'static str,
    verdict: Verdict,
    text: String,
}

impl Doctor {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let found =
            [shared_memory(), runtime(), home(), left_over(self.clean), descriptors(), agent(), disks()];
        let word = |v| match v {
            Verdict::Good => "good",
            Verdict::Mind => "mind",
            Verdict::Bad => "BAD",
        };
        if out.json {
            let list =
                found.iter().map(|f| json!({"check": f.what, "verdict": word(f.verdict), "text": f.text}));
            out.value(&json!(list.collect::<Vec<_>>()))?;
        } else {
            for f in &found {
                out.line(format!("{:4}  {}: {}", word(f.verdict), f.what, f.text))?;
            }
        }
        match found.iter().filter(|f| f.verdict == Verdict::Bad).count() {
            0 => Ok(()),
            n => Err(Error::new(Code::Io, format!("{n} checks came out badly; mend what is said above"))),
        }
    }
}

fn finding(what: &'static str, verdict: Verdict, text: String) -> Finding {
    Finding { what, verdict, text }
}

fn shared_memory() -> Finding {
    let what = "shared memory";
    let dir = directories::shm_dir();
    let stat = match rustix::fs::statvfs(&dir) {
        Ok(stat) => stat,
        Err(e) => {
            return finding(
                what,
                Verdict::Bad,
                format!("{} cannot be used: {e}; set FOREBAY_SHM_DIR", dir.display()),
            );
        }
    };
    // A mount that is read-only, and a directory of somebody else, have room all the same.
    if let Err(e) = tried() {
        return finding(what, Verdict::Bad, e.text().to_owned());
    }
    let (size, free) = (stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize);
    let text = format!("{} of {} free in {}", bytes(free), bytes(size), dir.display());
    if free < SHM_LEAST {
        let remedy = format!(
            "{text}; a process may take 256 MiB: enlarge it (docker: --shm-size) or open runs with a smaller buffer"
        );
        return finding(what, Verdict::Mind, remedy);
    }
    finding(what, Verdict::Good, text)
}

/// Makes a small segment, and takes it away.
fn tried() -> Result<()> {
    let spec = SegmentSpec {
        name: segments::name(&["doctor", &std::process::id().to_string()]),
        kind: segments::kind::CALL,
        up_bytes: 4096,
        down_bytes: 4096,
        block_bytes: 4096,
        blocks: 1,
    };
    let made = Segment::create(&spec)?;
    let path = segments::path(&spec.name);
    drop(made);
    std::fs::remove_file(&path).map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))
}

fn runtime() -> Finding {
    let what = "runtime directory";
    match directories::runtime_dir() {
        Ok(dir) => match sockets::check_socket_path(&dir.join("server-4194304-4194304.sock")) {
            Ok(()) => finding(what, Verdict::Good, dir.display().to_string()),
            Err(e) => finding(what, Verdict::Bad, e.to_string()),
        },
        Err(e) => finding(what, Verdict::Bad, e.to_string()),
    }
}

fn home() -> Finding {
    match directories::home() {
        Ok(dir) => finding("home", Verdict::Good, dir.display().to_string()),
        Err(e) => finding("home", Verdict::Mind, format!("{}; it is needed for the network only", e.text())),
    }
}

/// Segments whose process has ended: those of runs hold data that somebody was promised, as long as
/// there is the run.
fn left_over(clean: bool) -> Finding {
    let what = "left-over segments";
    let (mut calls, mut freed) = (0, 0);
    let mut found = leftovers(Look::Hosts);
    found.retain(|one| match &one.left {
        Left::Calls => {
            calls += 1;
            false
        }
        Left::OfNone(_) if clean && std::fs::remove_file(&one.path).is_ok() => {
            freed += one.bytes;
            false
        }
        _ => true,
    });
    let said = lines(&found);
    let freed = if freed > 0 { format!("{} freed; ", bytes(freed)) } else { String::new() };
    match said.is_empty() {
        true => finding(what, Verdict::Good, format!("{freed}none that holds data ({calls} of calls)")),
        false => finding(what, Verdict::Mind, format!("{freed}{}", said.join("; "))),
    }
}

fn descriptors() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(n) if n < FILES_LEAST => finding(
            "open files",
            Verdict::Mind,
            format!("{n} are allowed; say `ulimit -n {FILES_LEAST}` or more"),
        ),
        Some(n) => finding("open files", Verdict::Good, format!("{n} are allowed")),
        None => finding("open files", Verdict::Good, "no limit".to_owned()),
    }
}

fn agent() -> Finding {
    match forebay_agent::running() {
        Ok(Some(socket)) => finding("agent", Verdict::Good, format!("answers at {}", socket.display())),
        Ok(None) => {
            finding("agent", Verdict::Good, "none is up; one is started when it is needed".to_owned())
        }
        Err(e) => finding("agent", Verdict::Bad, e.to_string()),
    }
}

/// Whether a run that an agent has waits for its disk.
fn disks() -> Finding {
    let waits = |run: &forebay_agent::RunStatus| {
        let figure = |name| run.figures.get(name);
        let what = figure("waits_for").and_then(serde_json::Value::as_str).unwrap_or("the disk");
        let waits = figure("waiting_for_disk").and_then(serde_json::Value::as_bool)?;
        waits.then(|| format!("{} waits: {what}", run.path))
    };
    let found = forebay_agent::owners().unwrap_or_default();
    let found: Vec<String> = found.answering.iter().flat_map(|s| &s.runs).filter_map(waits).collect();
    match found.is_empty() {
        true => finding("disks", Verdict::Good, "no run of an agent waits for one".to_owned()),
        false => finding("disks", Verdict::Mind, found.join("; ")),
    }
}
