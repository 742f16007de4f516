//! `forebay status`: processes, runs, services, buffers.

use super::leftover::{Look, leftovers, lines};
use super::out::{Out, bytes};
use super::{partial, usage};
use forebay::{Code, Error, Result};
use forebay_agent::{Owners, RunStatus, Silent, Status as Of, Unlisted};
use forebay_host::process::go_on_or_end;
use forebay_host::{Process, ProcessState};
use forebay_types::counted;
use serde_json::{Value, json};
use std::path::Path;

/// What owns a run without an agent.
const EMBEDDED: &str = "embedded in a program";

/// Show what runs on this node: agent, runs with their ranks and buffers, servers.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay status --json\n  forebay status --services")]
pub struct Status {
    /// Show what each service has done: calls, failures, mean, median and 99th percentile of their time, and which share
    /// of it they waited. Services of servers that left in the last ten minutes count.
    #[arg(long)]
    services: bool,
}

impl Status {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        if self.services {
            return usage::show(out);
        }
        let asked = forebay_agent::owners();
        if out.json {
            let found = asked?;
            let all = found.answering.iter().map(|s| json!(s)).chain(found.silent.iter().map(machine));
            let unlisted = |s: &Unlisted| json!({"role": "server", "pid": s.pid, "socket": s.socket, "stopped": s.stopped, "runs": []});
            out.value(&all.chain(found.unlisted.iter().map(unlisted)).collect())?;
            return answers(&found);
        }
        // What the dead have left is seen without the agent, too.
        let shown = asked.and_then(|found| show_all(out, &found).and_then(|()| answers(&found)));
        lines(&leftovers(Look::Here))
            .into_iter()
            .try_for_each(|line| out.line(format!("left by the dead: {line}")))?;
        shown
    }
}

/// An agent that does not answer is an error: whoever needs one is refused. A program that does not is its own.
fn answers(found: &Owners) -> Result<()> {
    match found.silent.iter().find(|s| s.role == "agent") {
        Some(agent) => Err(Error::new(Code::ServerLost, format!("the agent {}", state(agent)))),
        None => Ok(()),
    }
}

fn show_all(out: &Out, found: &Owners) -> Result<()> {
    if found.answering.is_empty() && found.silent.is_empty() && found.unlisted.is_empty() {
        out.line("nothing of Forebay runs here; `forebay up` starts an agent")?;
    }
    found.answering.iter().try_for_each(|s| owner(out, s))?;
    found.silent.iter().try_for_each(|s| silent(out, s))?;
    let has_agent = found
        .answering
        .iter()
        .map(|s| &s.role)
        .chain(found.silent.iter().map(|s| &s.role))
        .any(|r| r == "agent");
    found.unlisted.iter().try_for_each(|s| out.line(format!("server: {}", unlisted(s, has_agent))))
}

/// Why no agent lists a server, and what helps.
fn unlisted(s: &Unlisted, has_agent: bool) -> String {
    let pid = s.pid;
    match (s.stopped, has_agent) {
        (true, _) => format!("(pid {pid}) is stopped; {}", go_on_or_end(pid)),
        (_, true) => {
            format!("pid {pid}, which the agent does not know; it announces itself in a moment, or ends")
        }
        (_, false) => format!(
            "pid {pid}, and no agent is up that knows it; it announces itself to the next one (`forebay up`)"
        ),
    }
}

/// One that does not answer, in JSON; its runs as those of the others.
fn machine(s: &Silent) -> Value {
    let runs: Vec<Value> = s.runs.iter().map(|run| json!({"path": run})).collect();
    json!({"role": s.role, "pid": s.pid, "socket": s.socket, "stopped": s.stopped, "runs": runs})
}

/// What is known of one that does not answer.
fn silent(out: &Out, s: &Silent) -> Result<()> {
    let kind = if s.role == "agent" { "agent" } else { EMBEDDED };
    out.line(format!("{kind}: {}", state(s)))?;
    let state = if s.stopped { "stopped" } else { "its owner does not answer" };
    s.runs.iter().try_for_each(|run| out.line(format!("  run {run}: {state}")))
}

/// What it does, and what helps.
fn state(s: &Silent) -> String {
    let pid = s.pid;
    match s.stopped {
        true => format!("(pid {pid}) is stopped; {}", go_on_or_end(pid)),
        false => format!(
            "(pid {pid}) runs and does not answer, for it is busy or hangs; look again later, or end it with `kill -KILL {pid}`"
        ),
    }
}

/// A rank whose process is stopped keeps the others waiting.
fn stopped(pid: u32) -> String {
    match Process::of_pid(pid).map(|p| p.state()) {
        Some(ProcessState::Stopped) => format!(", stopped: `kill -CONT {pid}` lets it go on"),
        _ => String::new(),
    }
}

fn owner(out: &Out, s: &Of) -> Result<()> {
    let kind = match (s.role.as_str(), s.by_need) {
        ("agent", true) => "agent, leaves when nothing needs it",
        ("agent", false) => "agent",
        _ => EMBEDDED,
    };
    let page = s.page.as_ref().map_or(String::new(), |p| format!(", page at http://{p}/"));
    out.line(format!(
        "{kind}: pid {}, up {}, {}{page}",
        s.pid,
        duration(s.up_s),
        counted(s.connections, "connection")
    ))?;
    if let Some(there) = &s.listens {
        out.line(format!("  for other hosts at {}", there.address))?;
    }
    for run in &s.runs {
        show(out, run)?;
    }
    for server in &s.directory.servers {
        let (i, load) = (&server.info, &server.load);
        out.line(format!(
            "  server {} (pid {}): offers {}; {} running, {} queued, {} served",
            i.name,
            i.pid,
            offers(&i.services),
            load.running,
            load.queued,
            load.served
        ))?;
    }
    Ok(())
}

/// The names of a few services, and how many more there are.
fn offers(signatures: &[String]) -> String {
    let names: Vec<&str> = signatures.iter().filter_map(|s| s.split('(').next()).take(5).collect();
    match signatures.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn show(out: &Out, run: &RunStatus) -> Result<()> {
    let state = json!(run.state);
    let step = run.step.map_or(String::new(), |s| format!(" at step {s}"));
    let watch = if run.viewers > 0 { format!(", {} watching", run.viewers) } else { String::new() };
    let gone = if Path::new(&run.path).is_dir() { "" } else { "; its directory was deleted" };
    out.line(format!("  run {}: {}{step}{watch}{gone}", run.path, state.as_str().unwrap_or("")))?;
    for rank in &run.ranks {
        let held = if rank.held { ", held" } else { "" };
        let (pid, buffer) = (rank.pid, bytes(rank.buffer));
        out.line(format!("    rank {}: pid {pid}, buffer {buffer}{held}{}", rank.rank, stopped(pid)))?;
    }
    if run.clients > 0 {
        out.line(format!("    {} beside them", counted(run.clients, "client")))?;
    }
    // What the catalog does not tell at once is shown by `ls`.
    let lacking = forebay_store::Reader::open(run.path.as_ref()).and_then(|reader| reader.partial_steps());
    let lacking: Vec<partial::Lacking> = lacking.iter().flatten().map(Into::into).collect();
    partial::lines(&lacking).into_iter().try_for_each(|line| out.line(format!("    {line}")))?;
    let figure = |name: &str| run.figures.get(name).and_then(Value::as_f64);
    if let (Some(written), Some(lag)) = (figure("written_bytes"), figure("lag_s")) {
        let overlap = figure("overlap").unwrap_or(0.0) * 100.0;
        out.line(format!("    {} written, {overlap:.0} % hidden, {lag:.2} s behind", bytes(written as u64)))?;
        let size = |name: &str| bytes(figure(name).unwrap_or(0.0) as u64);
        let ideal = match figure("ideal_s") {
            Some(s) if s > 0.0 => format!(" (copying alone {})", short(s)),
            _ => String::new(),
        };
        let visible = short(figure("visible_s").unwrap_or(0.0));
        let (most, over) = (size("high_water_bytes"), size("overflow_bytes"));
        out.line(format!("    output cost {visible}{ideal}; at most {most} in buffers, {over} overflow"))?;
    }
    if run.figures.get("waiting_for_disk") == Some(&Value::Bool(true)) {
        let what = run.figures.get("waits_for").and_then(Value::as_str).unwrap_or("the disk");
        out.line(format!("    WAITS: {what}"))?;
    }
    Ok(())
}

fn short(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

fn duration(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}
