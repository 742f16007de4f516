//! `forebay status`: processes, runs, services, buffers.

use super::leftover::{Look, leftovers, lines};
use super::out::{Out, bytes};
use forebay::Result;
use forebay_agent::{RunStatus, Status as Of};
use serde_json::{Value, json};

/// Show what runs on this node: agent, runs with their ranks and buffers, servers.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay status --json")]
pub struct Status {}

impl Status {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let asked = forebay_agent::status();
        if out.json {
            return out.value(&json!(asked?));
        }
        // What the dead have left is seen without the agent, too.
        let shown = asked.and_then(|found| show_all(out, &found));
        lines(&leftovers(Look::Here))
            .into_iter()
            .try_for_each(|line| out.line(format!("left by the dead: {line}")))?;
        shown
    }
}

fn show_all(out: &Out, found: &[Of]) -> Result<()> {
    if found.is_empty() {
        out.line("nothing of Forebay runs here; `forebay up` starts an agent")?;
    }
    found.iter().try_for_each(|s| owner(out, s))
}

fn owner(out: &Out, s: &Of) -> Result<()> {
    let kind = match (s.role.as_str(), s.by_need) {
        ("agent", true) => "agent, leaves when nothing needs it",
        ("agent", false) => "agent",
        _ => "embedded in a program",
    };
    let page = s.page.as_ref().map_or(String::new(), |p| format!(", page at http://{p}/"));
    out.line(format!("{kind}: pid {}, up {}, {} connections{page}", s.pid, duration(s.up_s), s.connections))?;
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
    out.line(format!("  run {}: {}{step}{watch}", run.path, state.as_str().unwrap_or("")))?;
    for rank in &run.ranks {
        let held = if rank.held { ", held" } else { "" };
        out.line(format!("    rank {}: pid {}, buffer {}{held}", rank.rank, rank.pid, bytes(rank.buffer)))?;
    }
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
