//! `forebay verify`, `repair`, `compact` and `recover`: care for a run on disk. All are safe at
//! any time: those that write refuse while another process holds the run.

use super::leftover::{Left, Look, kept_aside, leftovers, lines, unread};
use super::out::{Out, Unit, bar, bytes};
use super::partial;
use forebay::{Code, Elsewhere, Error, Result, in_memory, run_dir, runs_in};
use forebay_host::{Process, environment};
use forebay_store as store;
use forebay_types::counted;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Read every byte of a run and compare checksums; changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay verify two_stream")]
pub struct Verify {
    /// The run.
    run: String,
}

/// Save what can be read of a damaged catalog, mark damaged snapshots, and say what is missing.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay repair two_stream")]
pub struct Repair {
    /// The run.
    run: String,
}

/// Drop what nobody needs from a run: unfinished files, gaps in the catalog.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay compact two_stream")]
pub struct Compact {
    /// The run.
    run: String,
}

/// Finish what a killed program or agent left in shared memory.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay recover two_stream")]
pub struct Recover {
    /// The run; by default every run in this directory that nobody holds.
    run: Option<String>,
    /// Give up what lies in memory that is not seen from here: of another host, container or user.
    #[arg(long)]
    abandon: bool,
}

impl Verify {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let dir = run_dir(&self.run)?;
        let (bar, progress) = bar("reading", Unit::Bytes);
        let report = store::verify_with(&dir, &progress).map_err(|e| self.unread(e))?;
        bar.finish_and_clear();
        let left = store::left_in_memory(&dir).unwrap_or_default();
        let lacking: Vec<partial::Lacking> = report.partial.iter().map(Into::into).collect();
        if out.json {
            out.value(&json!({
                "steps": report.steps, "data_sets": report.data_sets, "bytes": report.bytes, "faults": report.faults, "notes": report.notes,
                "marked": report.marked, "foreign": report.foreign, "sessions_in_memory": left.sessions, "copy_of": left.original,
                "unread": unread(&dir),
                "partial_steps": partial::machine(&lacking),
            }))?;
        } else {
            for line in in_memory(&left, &self.run).into_iter().chain(kept_aside(unread(&dir), &self.run)) {
                out.line(line)?;
            }
            for file in &report.foreign {
                out.line(format!("no file of this run, left alone: {file}"))?;
            }
            partial::lines(&lacking).into_iter().try_for_each(|line| out.line(line))?;
            for fault in report.notes.iter().chain(&report.faults) {
                out.line(fault)?;
            }
        }
        if let [step, ..] = report.marked[..]
            && report.marked.len() == report.faults.len()
        {
            return Err(Error::new(
                Code::Corrupt,
                format!(
                    "{}: {} damaged and marked, so that a restart passes them over; the rest is sound. Put the files back from a copy and say `forebay repair {run}`, or give them up: `forebay drop {run} {step}`",
                    dir.display(),
                    report.marked.len(),
                    run = self.run
                ),
            ));
        }
        if let [name, ..] = &report.lost_sets[..]
            && report.lost_sets.len() + report.marked.len() == report.faults.len()
        {
            let lost = counted(report.lost_sets.len(), "data set");
            let steps = match &report.marked[..] {
                [] => String::new(),
                [step, ..] => {
                    format!(" (for damaged snapshots, which are marked: `forebay drop {} {step}`)", self.run)
                }
            };
            return Err(Error::new(
                Code::Corrupt,
                format!(
                    "{}: {lost} lost or damaged, as the lines above name, which no command can mend; put them again, or their files back from a copy, or give them up: `forebay rm {} {name}`{steps}",
                    dir.display(),
                    self.run,
                ),
            ));
        }
        if !report.faults.is_empty() {
            return Err(Error::new(
                Code::Corrupt,
                format!(
                    "{} has {}; run `forebay repair {}`",
                    dir.display(),
                    counted(report.faults.len(), "fault"),
                    self.run
                ),
            ));
        }
        if out.json {
            return Ok(());
        }
        out.line(format!(
            "{}: sound; {}, {}, {}",
            dir.display(),
            counted(report.steps, "snapshot"),
            counted(report.data_sets, "data set"),
            bytes(report.bytes)
        ))
    }
}

impl Verify {
    /// A catalog that cannot be read at all is for `repair`.
    fn unread(&self, e: Error) -> Error {
        match e.code() == Code::Corrupt && !e.text().contains("forebay repair") {
            true => Error::new(Code::Corrupt, format!("{}; run `forebay repair {}`", e.text(), self.run)),
            false => e,
        }
    }
}

/// Most faults of a catalog that are named.
const NAMED: usize = 8;

impl Repair {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let dir = run_dir(&self.run)?;
        let (bar, progress) = bar("repairing", Unit::Files);
        let done = store::repair_with(&dir, &progress).map_err(|e| who_writes(&dir, e))?;
        bar.finish_and_clear();
        match out.json {
            true => out.value(&machine(&done))?,
            false => self.tell(out, &dir, &done)?,
        }
        if done.is_whole() {
            return Ok(());
        }
        if done.lacks_nothing() {
            return Err(Error::new(
                Code::Corrupt,
                format!(
                    "{} was damaged and is mended; it is sound now as far as its files can tell",
                    dir.display()
                ),
            ));
        }
        Err(self.incomplete(&dir, &done))
    }

    /// That not all is well.
    fn incomplete(&self, dir: &Path, done: &store::Repaired) -> Error {
        Error::new(
            Code::Corrupt,
            format!(
                "{} is mended as far as it can be, and what the lines above name was wrong, is missing or damaged; {}",
                dir.display(),
                self.remedies(done)
            ),
        )
    }

    /// What helps against what is still wrong.
    fn remedies(&self, done: &store::Repaired) -> String {
        let run = &self.run;
        let mut ways = Vec::new();
        if let Some((step, _)) = done.damaged.first() {
            ways.push(format!(
                "put the files of damaged snapshots back from a copy and say this again, or give them up: `forebay drop {run} {step}`"
            ));
        }
        if !done.damaged_sets.is_empty() {
            ways.push(format!("put damaged data sets again, or `forebay rm {run} NAME`"));
        }
        if done.lost_catalog || done.older.is_some() || done.saved.iter().any(|s| !s.is_whole()) {
            ways.push("rows of tables that are lost are in a copy, or nowhere".to_owned());
        }
        if !done.unusable.is_empty() {
            ways.push("move files away that cannot be used, or put them back from a copy".to_owned());
        }
        ways.join("; ")
    }

    fn tell(&self, out: &Out, dir: &Path, done: &store::Repaired) -> Result<()> {
        out.line(format!(
            "{}: {} and {}",
            dir.display(),
            counted(done.steps, "sound snapshot"),
            counted(done.data_sets, "large data set")
        ))?;
        if done.lost_catalog {
            out.line(
                "nothing can be read of the catalog: tables, attributes and small data sets, which lay only there, are lost",
            )?;
        }
        if let Some(older) = &done.older {
            out.line(older)?;
        }
        for s in done.saved.iter().filter(|s| !s.is_whole()) {
            let lost = match (s.lost, s.more) {
                (0, false) => "none is lost".to_owned(),
                (n, false) => format!("up to {n} are lost"),
                (0, true) => "others may be lost or changed, which cannot be counted: compare with the catalog that is kept, or with a copy".to_owned(),
                (n, true) => format!("up to {n} are lost, and more that cannot be counted"),
            };
            let displaced = match s.displaced {
                0 => String::new(),
                n => format!(", up to {n} stand under a number or key that is not theirs"),
            };
            let garbled = match s.garbled {
                0 => String::new(),
                n => format!(", {n} had text that was not UTF-8, where the sign U+FFFD stands now"),
            };
            out.line(format!("{}: {} saved, {lost}{displaced}{garbled}", s.name, counted(s.rows, "row")))?;
        }
        for fault in done.faults.iter().take(NAMED) {
            out.line(format!("the catalog was damaged: {fault}"))?;
        }
        if done.faults.len() > NAMED {
            out.line(format!("and {} more like it", done.faults.len() - NAMED))?;
        }
        if let Some(old) = &done.old_catalog {
            out.line(format!("the damaged catalog is kept as {}", old.display()))?;
        }
        if done.left > 0 {
            // What a copy lacks is for the run that it was made of.
            let left = store::left_in_memory(dir).unwrap_or_default();
            let line = in_memory(&left, &self.run).unwrap_or_else(|| {
                let ranks = counted(done.left, "rank");
                format!("{ranks} left something in shared memory; `forebay recover {}` writes it", self.run)
            });
            out.line(line)?;
        }
        if done.unseen > 0 {
            out.line(format!(
                "{} of a program that was killed had data in memory, and they are not here; `forebay recover {}` says where they are, or what is lost",
                counted(done.unseen, "rank"),
                self.run
            ))?;
        }
        if !done.listed.is_empty() {
            let steps: Vec<String> = done.listed.iter().map(i64::to_string).collect();
            out.line(format!("snapshots that the catalog lacked are listed: {}", steps.join(", ")))?;
        }
        for line in &done.mended {
            out.line(format!("the catalog said something else than the file, and is mended: {line}"))?;
        }
        for line in &done.rewritten {
            out.line(format!("the file was written anew: {line}"))?;
        }
        for (step, why) in &done.damaged {
            out.line(format!("snapshot {step} is damaged and passed over from now on: {why}"))?;
        }
        for line in &done.damaged_sets {
            out.line(format!("damaged: {line}"))?;
        }
        for file in &done.foreign {
            out.line(format!("no file of this run, left alone: {file}"))?;
        }
        for file in &done.unusable {
            out.line(format!("cannot be used, left alone: {file}"))?;
        }
        Ok(())
    }
}

/// What `repair` did, in JSON.
fn machine(done: &store::Repaired) -> serde_json::Value {
    let table = |s: &store::Saved| json!({"name": s.name, "rows": s.rows, "lost": s.lost, "more": s.more, "displaced": s.displaced, "garbled": s.garbled});
    let step = |(step, why): &(i64, String)| json!({"step": step, "why": why});
    json!({
        "steps": done.steps, "data_sets": done.data_sets, "whole": done.is_whole(),
        "old_catalog": done.old_catalog, "lost_catalog": done.lost_catalog, "faults": done.faults,
        "saved": done.saved.iter().map(table).collect::<Vec<_>>(),
        "listed": done.listed, "mended": done.mended, "rewritten": done.rewritten,
        "damaged": done.damaged.iter().map(step).collect::<Vec<_>>(),
        "damaged_sets": done.damaged_sets, "older": done.older, "unusable": done.unusable, "foreign": done.foreign, "left": done.left, "unseen": done.unseen,
    })
}

impl Compact {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let dir = run_dir(&self.run)?;
        existing(&dir)?;
        let (bar, progress) = bar("compacting", Unit::Bytes);
        let saved = store::compact_with(&dir, environment::elsewhere()?, &progress)
            .map_err(|e| who_writes(&dir, e))?;
        bar.finish_and_clear();
        out.either(|| json!({"saved_bytes": saved}), || format!("{}: {} saved", dir.display(), bytes(saved)))
    }
}

impl Recover {
    /// Does it, and names what is left of other runs.
    pub fn run(&self, out: &Out) -> Result<()> {
        let done = self.recover(out);
        // What was just refused was said.
        if !out.json && done.is_ok() {
            for line in lines(&leftovers(Look::Here)) {
                eprintln!("forebay: still in shared memory: {line}");
            }
        }
        done
    }

    fn recover(&self, out: &Out) -> Result<()> {
        let elsewhere = if self.abandon { Elsewhere::Abandon } else { environment::elsewhere()? };
        if let Some(run) = self.run.as_deref().filter(|run| run.contains("://")) {
            let count = forebay::recover_remote(run, elsewhere)?;
            return out.either(
                || json!({"run": run, "sessions": count}),
                || match count {
                    0 => format!("{run}: nothing of it was left on this host"),
                    n => format!("{run}: the rest of {} was sent", counted(n, "session")),
                },
            );
        }
        if let Some(run) = &self.run {
            let dir = run_dir(run)?;
            existing(&dir)?;
            return recover(out, &dir, elsewhere);
        }
        let here = std::env::current_dir().map_err(|e| Error::io("cannot find the working directory", e))?;
        let runs = runs_in(&here).map_err(|e| Error::io(format!("cannot read {}", here.display()), e))?;
        if runs.is_empty() {
            return Err(Error::new(
                Code::NotFound,
                format!("{} holds no runs; name one, or go where they are", here.display()),
            ));
        }
        let mut outcome = Ok(());
        for dir in &runs {
            match recover(out, dir, elsewhere) {
                // Data that lie elsewhere are a conflict, too, and nobody holds the run then.
                Err(e) if e.code() == Code::Conflict && is_held(dir) => {
                    out.line(format!("{}: in use, left alone", dir.display()))?
                }
                // The others are recovered all the same.
                done => outcome = outcome.and(done),
            }
        }
        outcome
    }
}

/// Whether somebody writes the run, or may do so at once.
fn is_held(dir: &Path) -> bool {
    store::lock::holder(&dir.join(store::layout::LOCK)).is_some() || store::has_living_ranks(dir)
}

/// A run that nobody has any more is tried again so often.
const AGAIN: u32 = 2;
/// How often it is asked whether the agent is done with a run.
const PAUSE: Duration = Duration::from_millis(20);

/// How long an agent that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is asked at most who is taking a run, or is giving it back.
const PASSING: u32 = 100;

/// Who has a run that is not free.
enum Has {
    /// Nobody any more.
    Nobody,
    /// An agent, and no rank that lives: it lets go of the run when it has settled what the dead have left.
    Agent(u32),
    /// An agent that does not answer: it is just beginning, or ending, or is stopped.
    Silent,
    /// An agent, for ranks that live: their processes.
    Ranks(u32, Vec<u32>),
    /// A program, or somebody who is stopped.
    Others,
}

/// The holder of a run, once that is settled: whoever takes it, or gives it back, has it for an instant without
/// being named.
fn settled(mut holder: impl FnMut() -> Option<store::lock::Holder>) -> Option<store::lock::Holder> {
    let mut found = holder();
    for _ in 0..PASSING {
        if found.as_ref().is_none_or(|holder| holder.pid != 0) {
            break;
        }
        std::thread::sleep(PAUSE);
        found = holder();
    }
    found
}

fn has(dir: &Path) -> Has {
    let agent = match settled(|| store::lock::holder(&dir.join(store::layout::LOCK))) {
        None => return Has::Nobody,
        Some(holder) if holder.is_agent() && !holder.is_stopped() => holder.pid,
        Some(_) => return Has::Others,
    };
    let found = match forebay_agent::owners() {
        Ok(found) if found.answering.iter().any(|s| s.pid == agent) => found.answering,
        _ => return Has::Silent,
    };
    let same = |path: &str| match (Path::new(path).canonicalize(), dir.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let runs = found.iter().filter(|s| s.pid == agent).flat_map(|s| &s.runs).filter(|run| same(&run.path));
    let mut living: Vec<u32> = runs.flat_map(|run| &run.ranks).map(|rank| rank.pid).collect();
    living.retain(|pid| !Process::is_gone(*pid));
    living.sort_unstable();
    living.dedup();
    // One that does not list it any more is about to give it back.
    match living.is_empty() {
        true => Has::Agent(agent),
        false => Has::Ranks(agent, living),
    }
}

/// A refusal because an agent holds the run, in words that say for whom: the agent itself has nothing to do with it.
pub(super) fn who_writes(dir: &Path, e: Error) -> Error {
    match e.code() {
        Code::Conflict => refused(dir, has(dir), e),
        _ => e,
    }
}

fn refused(dir: &Path, by: Has, e: Error) -> Error {
    match by {
        Has::Ranks(agent, programs) => {
            let who = match &programs[..] {
                [one] => format!("process {one}"),
                all => {
                    format!("the processes {}", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
                }
            };
            Error::new(
                Code::Conflict,
                format!(
                    "{dir} is being written by {who}, through the agent (process {agent}); wait for the end of that program, or end it first: `forebay steer {dir} end` has it save and end when it is in its loop; a notebook closes the run itself",
                    dir = dir.display()
                ),
            )
        }
        Has::Agent(agent) => Error::new(
            Code::Conflict,
            format!(
                "{} is held by the agent (process {agent}) alone, which settles what the ranks that died have left and waits for ranks that have not come; try again in some seconds, or end the agent with `forebay down`",
                dir.display()
            ),
        ),
        Has::Nobody | Has::Silent | Has::Others => e,
    }
}

fn recover(out: &Out, dir: &Path, elsewhere: Elsewhere) -> Result<()> {
    if !store::lacks_catalog(dir)? {
        return finish(out, dir, elsewhere);
    }
    // What is in memory needs a catalog to go into.
    eprintln!(
        "forebay: {} has files of a run and no catalog, which is made anew of them first",
        dir.display()
    );
    let repair = Repair { run: dir.display().to_string() };
    let done = store::repair(dir).map_err(|e| who_writes(dir, e))?;
    let lost = match out.json {
        true => Ok(()),
        false => repair.tell(out, dir, &done),
    };
    finish(out, dir, elsewhere).and(lost).and(Err(repair.incomplete(dir, &done)))
}

/// Writes what the dead have left.
fn finish(out: &Out, dir: &Path, elsewhere: Elsewhere) -> Result<()> {
    let (bar, progress) = bar("recovering", Unit::Bytes);
    let shown = bar.clone();
    // On the standard error, so that what a program reads of this command stays as it was.
    let says: store::Says = Arc::new(move |text| shown.suspend(|| eprintln!("forebay: {text}")));
    let (mut waits, mut free, mut silent) = (false, 0, None);
    let last = loop {
        let e = match store::recover_with(dir, elsewhere, &progress, Some(says.clone())) {
            Err(e) if e.code() == Code::Conflict => e,
            done => break done?,
        };
        match has(dir) {
            Has::Agent(pid) => {
                if !std::mem::replace(&mut waits, true) {
                    says(&format!(
                        "{}: the agent (process {pid}) settles what the ranks that died have left, and waits for ranks that have not come; this waits for it",
                        dir.display()
                    ));
                }
                std::thread::sleep(PAUSE);
            }
            // It was let go of meanwhile; or it is refused for another reason than that somebody has it.
            Has::Nobody if free < AGAIN => free += 1,
            Has::Silent if silent.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            by @ (Has::Ranks(..) | Has::Nobody | Has::Silent | Has::Others) => {
                return Err(refused(dir, by, e));
            }
        }
    };
    bar.finish_and_clear();
    let lacking = store::Reader::open(dir)?.partial_steps()?;
    let lacking: Vec<partial::Lacking> = lacking.iter().map(Into::into).collect();
    if !out.json {
        partial::lines(&lacking).iter().for_each(|line| says(&format!("{}: {line}", dir.display())));
    }
    out.either(
        || json!({"run": dir, "last_step": last, "partial_steps": partial::machine(&lacking)}),
        || match last {
            Some(step) => format!("{}: complete up to step {step}", dir.display()),
            None => format!("{}: complete; it has no snapshots", dir.display()),
        },
    )
}

pub(super) fn existing(dir: &Path) -> Result<()> {
    let layout = store::layout::Layout::new(dir);
    let is_nothing = matches!(
        layout.inspect()?,
        store::layout::DirectoryKind::Nothing | store::layout::DirectoryKind::Empty
    );
    if !is_nothing || store::lacks_catalog(dir)? {
        return Ok(());
    }
    let is_of = |left: &Left| matches!(left, Left::OfNone(run) if Path::new(run) == dir);
    let remedy = match leftovers(Look::Here).iter().any(|one| is_of(&one.left)) {
        true => {
            "what it had in shared memory belongs to no run any more, and `forebay doctor --clean` frees it; if it was moved, recover it where it is"
        }
        false => "check the name",
    };
    Err(Error::new(Code::NotFound, format!("there is no run {}; {remedy}", dir.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_just_given_back_or_taken_is_not_held_by_nobody() {
        let named = |pid| {
            let text = serde_json::json!({"pid": pid, "host": "", "boot_id": "", "fence": 1});
            serde_json::from_value::<store::lock::Holder>(text).unwrap()
        };
        let mut given_back = [Some(named(0)), Some(named(0)), None].into_iter();
        assert_eq!(settled(|| given_back.next().unwrap()), None);
        let mut taken = [Some(named(0)), Some(named(7))].into_iter();
        assert_eq!(settled(|| taken.next().unwrap()).map(|h| h.pid), Some(7));
    }
}
