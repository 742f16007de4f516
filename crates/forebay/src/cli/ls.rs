//! `forebay ls`: what a run holds.

use super::leftover::{doubt, kept_aside, unread};
use super::out::{Out, bytes};
use super::{partial, pick, print};
use forebay::{Cell, DataSet, Error, Mode, Result, in_memory, names_of_runs_in, run_dir};
use serde_json::json;
use std::path::Path;

/// List data sets, tables and snapshots of a run, or the runs of a directory.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay ls two_stream 'electrons/*' --step 600")]
pub struct Ls {
    /// The run: a name such as two_stream, or its directory; or a directory with runs in it.
    run: String,
    /// Glob over the names.
    #[arg(default_value = "*")]
    pattern: String,
    /// Only this set number.
    #[arg(long, allow_negative_numbers = true)]
    set: Option<i64>,
    /// Data sets of this snapshot; -1 is the last one.
    #[arg(long, allow_negative_numbers = true)]
    step: Option<i64>,
    /// List the snapshots.
    #[arg(long, conflicts_with_all = ["set", "step"])]
    steps: bool,
    /// List the checkpoints: the steps marked as restart points.
    #[arg(long, conflicts_with_all = ["set", "step", "steps"])]
    checkpoints: bool,
}

/// What to do with a file, which is no run.
fn another(file: &str) -> String {
    let within = Path::new(file).ancestors().find(|dir| dir.extension().is_some_and(|end| end == "fb"));
    let remedy = match (within, Path::new(file).extension().and_then(|end| end.to_str())) {
        (Some(run), _) => format!("it is part of a run: `forebay ls {}`", run.display()),
        (None, Some("py")) => format!("`forebay serve {file}` offers the services in it"),
        (None, Some("fbi")) => format!("`forebay serve --idl {file}` offers the library that it describes"),
        _ => "`forebay import` brings what a file holds into a run".to_owned(),
    };
    format!("{file} is a file, and a run is a directory NAME.fb; {remedy}")
}

impl Ls {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        if let Some(runs) = self.runs() {
            return match out.json {
                true => out.value(&json!({ "runs": runs })),
                false => runs.iter().try_for_each(|name| out.line(name)),
            };
        }
        if Path::new(&self.run).is_file() && !run_dir(&self.run).is_ok_and(|run| run.is_dir()) {
            return Err(Error::bad(another(&self.run)));
        }
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        doubt(&run);
        if self.steps {
            return self.steps_of(&run, out);
        }
        if self.checkpoints {
            return checkpoints_of(&run, out);
        }
        if let Some(step) = self.step {
            let kept = pick::snapshot(&run, step)?;
            let mut list = Vec::new();
            for name in kept.names()? {
                if forebay::Name::new(name.as_str()).is_ok_and(|n| n.matches(&self.pattern)) {
                    list.push(kept.dataset(&name)?);
                }
            }
            return data_sets(out, &list);
        }
        let list = run.list(&self.pattern, self.set)?;
        let (tables, snapshots, damaged) = (run.tables()?, run.snapshots()?, damaged(&run)?);
        let lacking = partial::of_run(&run)?;
        let left = forebay_store::left_in_memory(run.path()).unwrap_or_default();
        if out.json {
            return out.value(&json!({
                "run": run.path(),
                "data_sets": list.iter().map(print::describe).collect::<Vec<_>>(),
                "tables": tables,
                "steps": snapshots.numbers()?,
                "damaged_steps": damaged,
                "partial_steps": partial::machine(&lacking),
                "sessions_in_memory": left.sessions,
                "unread": unread(run.path()),
                "copy_of": left.original,
            }));
        }
        data_sets(out, &list)?;
        if self.pattern == "*" {
            if list.is_empty() && tables.is_empty() && snapshots.is_empty() {
                empty(&run);
            }
            if !tables.is_empty() {
                out.line(format!("tables: {}", tables.join(", ")))?;
            }
            if let [first, .., last] = snapshots.numbers()? {
                out.line(format!("snapshots: {}, from step {first} to step {last}", snapshots.len()?))?;
            } else if let [one] = snapshots.numbers()? {
                out.line(format!("snapshots: 1, of step {one}"))?;
            }
            if let Some(last) = snapshots.numbers()?.last() {
                let names = snapshots.at(*last)?.names()?;
                out.line(match names.is_empty() {
                    true => format!("  in step {last}: nothing"),
                    false => format!("  in step {last}: {} (--step {last} shows them)", names.join(", ")),
                })?;
            }
            if !damaged.is_empty() {
                let list = damaged.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
                out.line(format!("damaged snapshots, passed over: {list}"))?;
            }
            partial::lines(&lacking).into_iter().try_for_each(|line| out.line(line))?;
            for line in
                in_memory(&left, &self.run).into_iter().chain(kept_aside(unread(run.path()), &self.run))
            {
                out.line(line)?;
            }
        }
        Ok(())
    }

    /// The runs in a directory that is none itself, and none is meant by its name.
    fn runs(&self) -> Option<Vec<String>> {
        let dir = Path::new(&self.run);
        let is_run = run_dir(&self.run).is_ok_and(|run| run.is_dir());
        Some(names_of_runs_in(dir)).filter(|runs| !is_run && !runs.is_empty())
    }

    fn steps_of(&self, run: &forebay::Run, out: &Out) -> Result<()> {
        let snapshots = run.snapshots()?;
        let mut rows = Vec::new();
        for step in snapshots.numbers()? {
            let kept = snapshots.at(*step)?;
            rows.push((*step, kept.time()));
        }
        if out.json {
            return out
                .value(&json!(rows.iter().map(|(s, t)| json!({"step": s, "time": t})).collect::<Vec<_>>()));
        }
        let time = |t: &Option<f64>| t.map_or(String::new(), |t| t.to_string());
        let rows: Vec<Vec<String>> = rows.iter().map(|(s, t)| vec![s.to_string(), time(t)]).collect();
        out.table(&["step", "time"], &rows)
    }
}

/// Says on the standard error that there is nothing to list, and where what somebody has just put is.
fn empty(run: &forebay::Run) {
    let holder = forebay_store::lock::holder(&run.path().join(forebay_store::layout::LOCK));
    let rest = match holder.filter(|holder| holder.pid != 0) {
        Some(holder) => format!(
            "; process {} on host {} is writing the run, and has what was put and is not on disk yet: look again",
            holder.pid, holder.host
        ),
        None => String::new(),
    };
    eprintln!("forebay: {}: there are no data sets, tables and snapshots{rest}", run.path().display());
}

/// Snapshots that are marked and not listed.
fn damaged(run: &forebay::Run) -> Result<Vec<i64>> {
    let marked = "select step from fb_damaged where step in (select step from fb_steps) order by step";
    let rows = run.sql(marked, &[])?.rows;
    Ok(rows.iter().filter_map(|r| if let Some(Cell::Int(n)) = r.first() { Some(*n) } else { None }).collect())
}

fn checkpoints_of(run: &forebay::Run, out: &Out) -> Result<()> {
    let all = run.checkpoints()?;
    if out.json {
        let one = |c: &forebay::Checkpoint| {
            json!({
                "number": c.id, "step": c.step, "tag": c.tag, "parent": c.parent, "time": c.time,
                "parameters": c.parameters, "made": c.made, "kept": c.kept,
            })
        };
        return out.value(&json!(all.iter().map(one).collect::<Vec<_>>()));
    }
    let row = |c: &forebay::Checkpoint| {
        let step = if c.kept { c.step.to_string() } else { format!("{} (not listed any more)", c.step) };
        vec![
            c.id.to_string(),
            step,
            c.time.map_or(String::new(), |t| t.to_string()),
            c.tag.clone().unwrap_or_default(),
            c.parent.map_or(String::new(), |p| p.to_string()),
            serde_json::Value::Object(c.parameters.clone()).to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    out.table(&["checkpoint", "step", "time", "tag", "after", "parameters"], &rows)
}

fn data_sets(out: &Out, list: &[DataSet]) -> Result<()> {
    if out.json {
        return out.value(&json!(list.iter().map(print::describe).collect::<Vec<_>>()));
    }
    if list.is_empty() {
        return Ok(());
    }
    let row = |d: &DataSet| {
        vec![
            d.name.clone(),
            d.set.to_string(),
            d.meta.dtype.to_string(),
            d.meta.shape.to_string(),
            d.units.clone(),
            bytes(d.nbytes),
        ]
    };
    let rows: Vec<Vec<String>> = list.iter().map(row).collect();
    out.table(&["name", "set", "dtype", "shape", "units", "size"], &rows)
}
