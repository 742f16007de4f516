//! `forebay doctor`: whether this machine and this account give Forebay what it needs.

use super::out::{Out, bytes};
use forebay::{Code, Error, Result};
use forebay_arena::place::{self, Found};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
        let found = [shared_memory(), runtime(), home(), leftovers(self.clean), descriptors(), agent()];
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
    let dir = place::shm_dir();
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

fn runtime() -> Finding {
    let what = "runtime directory";
    match place::runtime_dir() {
        Ok(dir) => match place::check_socket_path(&dir.join("server-4194304-4194304.sock")) {
            Ok(()) => finding(what, Verdict::Good, dir.display().to_string()),
            Err(e) => finding(what, Verdict::Bad, e.to_string()),
        },
        Err(e) => finding(what, Verdict::Bad, e.to_string()),
    }
}

fn home() -> Finding {
    match place::home() {
        Ok(dir) => finding("home", Verdict::Good, dir.display().to_string()),
        Err(e) => finding("home", Verdict::Mind, format!("{}; it is needed for the network only", e.text())),
    }
}

/// The runs of other hosts that were asked for their numbers: each once, though many segments may be of it. An
/// error says nothing of the run.
type Asked = BTreeMap<String, Result<Option<String>>>;

/// What is known of a segment that a dead process has left.
enum Left {
    /// Of calls: the next agent clears it away.
    Calls,
    /// Somebody works on it: the agent, or who recovers the run.
    InUse,
    /// Of a run that is there.
    Of(String),
    /// Of a run whose directory is gone, or is another run's by now.
    OfNone(String),
    /// Of a run on another host that cannot be asked, and why.
    Unasked(String, String),
    /// Nothing says of which run.
    Unknown,
}

fn what_is_left(found: &Found, asked: &mut Asked) -> Left {
    if found.segment.kind() == place::kind::CALL {
        return Left::Calls;
    }
    if is_mapped(&found.path) {
        return Left::InUse;
    }
    let Some(run) = found.segment.label() else { return Left::Unknown };
    let name = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_of = |id: &str| name.contains(&format!("-{id}-"));
    let dir = Path::new(&run);
    if !dir.is_absolute() {
        let there = asked.entry(run.clone()).or_insert_with(|| forebay::far_run_id(&run));
        return match there {
            Ok(Some(id)) if is_of(id) => Left::Of(run),
            Ok(_) => Left::OfNone(run),
            Err(e) => Left::Unasked(run, e.to_string()),
        };
    }
    // What cannot be looked at may be there.
    let gone = std::fs::symlink_metadata(dir).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    let another = || {
        let there = forebay_store::Reader::open(dir).and_then(|reader| reader.run_id());
        there.is_ok_and(|id| !is_of(&id))
    };
    if gone || another() { Left::OfNone(run) } else { Left::Of(run) }
}

/// Whether a living process has the file in its memory.
fn is_mapped(path: &Path) -> bool {
    let Some(path) = path.to_str() else { return true };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|p| {
            p.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n != std::process::id()))
        })
        .any(|p| std::fs::read_to_string(p.path().join("maps")).is_ok_and(|maps| maps.contains(path)))
}

/// Segments whose process has ended: those of runs hold data that somebody was promised, as long as
/// there is the run.
fn leftovers(clean: bool) -> Finding {
    let what = "left-over segments";
    let (mut calls, mut freed, mut said) = (0, 0, Vec::new());
    let mut asked = Asked::new();
    for found in place::segments("") {
        if found.segment.creator_lives() {
            continue;
        }
        let size = std::fs::metadata(&found.path).map_or(0, |m| m.blocks() * 512);
        let room = bytes(size);
        match what_is_left(&found, &mut asked) {
            Left::Calls => calls += 1,
            Left::InUse => {}
            Left::Of(run) => said.push(format!("{room} of the run {run}, which `forebay recover {run}` or its next opening brings to disk")),
            Left::OfNone(_) if clean && std::fs::remove_file(&found.path).is_ok() => freed += size,
            Left::OfNone(run) => said.push(format!("{room} of the run {run}, which is no more there: `forebay doctor --clean` frees it; if it was moved, recover it first where it is")),
            Left::Unasked(run, why) => said.push(format!("{room} of the run {run}, whose host cannot be asked for it: {why}")),
            Left::Unknown => said.push(format!("{room} in {}, of a run that it does not name", found.path.display())),
        }
    }
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
