//! What was acknowledged, against what is there.

use forebay::{Cell, Code, Result, Run};

use crate::program::{LARGE, PIECE, Part, field, highest, lost, read_log};
use crate::twin::read;

/// What this rank finds, against what was acknowledged before.
pub fn check(part: &Part, run: &Run, before: &[(char, String)], back: i64, rows: i64) -> Result<()> {
    let logs: Vec<_> = (0..part.size).map(|r| read_log(&part.dir, r)).collect();
    let acknowledged = part.acknowledged;
    let begun = logs.iter().map(|l| highest(l, 'b')).min().unwrap_or(-1);
    if back < acknowledged {
        return Err(lost(format!("step {acknowledged} was acknowledged and the last one is {back}")));
    }
    if back > begun {
        return Err(lost(format!("step {back} is listed and not all ranks began it")));
    }
    let listed = run.snapshots()?.numbers().unwrap().to_vec();
    if listed != (0..=back).collect::<Vec<i64>>() {
        return Err(lost(format!("steps up to {back} are listed as {listed:?}")));
    }
    check_history(run, rows, back)?;
    for (rank, log) in logs.iter().enumerate() {
        let log = if rank == 0 { before } else { log };
        check_puts(run, rank as u32, log)?;
    }
    check_step(run, part.size, back)
}

/// Every step up to the last one has its row and its point, once. The row of the step that the run went back to stands
/// until the program comes there, and points behind it, which more ranks than one may have made, until all ranks have.
fn check_history(run: &Run, last: i64, back: i64) -> Result<()> {
    for (what, query) in [
        ("rows", "SELECT at FROM history ORDER BY at"),
        ("points", "SELECT step FROM fb_points ORDER BY step"),
    ] {
        let mut found = match run.sql(query, &[]) {
            Ok(rows) => {
                rows.rows.iter().map(|r| if let Cell::Int(n) = r[0] { n } else { -9 }).collect::<Vec<_>>()
            }
            Err(e) => return Err(e),
        };
        if what == "points" && last < back {
            found.truncate(found.partition_point(|step| *step <= last));
        }
        if what == "rows" && last < back {
            found.pop_if(|step| *step == back);
        }
        if found != (1..=last).collect::<Vec<i64>>() {
            return Err(lost(format!("{what} of the history up to step {last}: {found:?}")));
        }
    }
    Ok(())
}

/// What a data set may be of: the put that was acknowledged last, or one that was tried behind it. A program that
/// went back puts smaller numbers over larger ones.
fn possible(log: &[(char, String)], tried: char, done: char) -> Vec<i64> {
    let mut steps = vec![-1];
    for (kind, what) in log {
        let Ok(step) = what.parse() else { continue };
        if *kind == done {
            steps = vec![step];
        } else if *kind == tried {
            steps.push(step);
        }
    }
    steps
}

fn check_puts(run: &Run, rank: u32, log: &[(char, String)]) -> Result<()> {
    for (name, tried, done) in [(format!("small/{rank}"), 'p', 'P'), (format!("large/{rank}"), 'g', 'G')] {
        let possible = possible(log, tried, done);
        let step = match run.get(&name, 0, None) {
            Ok(found) if done == 'P' => found.to_i64()?[0],
            Ok(found) => {
                let numbers = found.to_f64()?;
                let step = ((numbers[0] - f64::from(rank) * 1e5) / 1e6) as i64;
                if numbers != field(step, rank, LARGE) {
                    return Err(lost(format!("{name} has wrong numbers")));
                }
                step
            }
            Err(e) if e.code() == Code::NotFound => -1,
            Err(e) => return Err(e),
        };
        if !possible.contains(&step) {
            let text = format!(
                "{name} is of step {step}; the last one acknowledged and those tried since are {possible:?}"
            );
            return Err(lost(text));
        }
    }
    Ok(())
}

/// Every number of a step.
pub fn check_step(run: &Run, size: u32, step: i64) -> Result<()> {
    if step < 0 {
        return Ok(());
    }
    let kept = run.snapshots()?.at(step)?;
    let whole: Vec<f64> = (0..size).flat_map(|r| field(step, r, PIECE)).collect();
    let behind: Vec<f64> = (0..size).flat_map(|r| field(step, r, 10 + r as usize)).collect();
    for (name, right) in [("electrons/x", whole), ("behind", behind), ("E", field(step, 0, 64))] {
        let found = kept.get(name, None)?.to_f64()?;
        if found != right {
            let at = found.iter().zip(&right).position(|(a, b)| a != b);
            return Err(lost(format!("step {step}: {name} of {} numbers differs at {at:?}", found.len())));
        }
    }
    match kept.time() == Some(step as f64 * 0.1) {
        true => Ok(()),
        false => Err(lost(format!("step {step} has the time {:?}", kept.time()))),
    }
}

/// The whole run, after it was closed.
pub fn check_all(part: &Part) -> Result<i64> {
    let run = read(part)?;
    let log: Vec<_> = (0..part.size).map(|r| read_log(&part.dir, r)).collect();
    let last = run.snapshots()?.numbers().unwrap().last().copied().unwrap_or(-1);
    check(part, &run, &log[0], last, last)?;
    (0..=last).try_for_each(|step| check_step(&run, part.size, step))?;
    let report = forebay_store::verify(run.path())?;
    match report.faults.is_empty() && report.steps as i64 == last + 1 {
        true => Ok(last),
        false => Err(lost(format!("verify: {:?}", report.faults))),
    }
}
