//! The program that is hurt: a small simulation of one rank. It writes down what it begins (small
//! letters) and what has been acknowledged (capitals), a line at a time, into a log that outlives it; at
//! each beginning it holds what it finds against that log.
//!
//! ```text
//!  o STEP  opened, last complete step     b/E STEP  snapshot begun / ended     F STEP  flushed
//!  p/P N   small data set 'small/RANK'    g/G N     large one 'large/RANK'     r/R STEP  row of the history
//!  C STEP  a call, its result right       X TEXT    an error                   D        closed
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay::{Cell, Code, Column, DiagramOptions, Error, Kind, Mode, OpenOptions, Piece, Place, PutOptions};
use forebay::{Result, Run, Shape, TableOptions, View};

/// Numbers of a rank's piece of an array.
pub const PIECE: usize = 3_000;
const LARGE: usize = 20_000;
/// Steps that a rank may be ahead of the slowest one.
const AHEAD: i64 = 2;

/// How a rank ends.
pub const DONE: i32 = 0;
/// It got an error from a call.
pub const TOLD: i32 = 3;
/// It found something lost or wrong.
pub const LOST: i32 = 4;

/// Which rank of what.
pub struct Part {
    pub dir: PathBuf,
    pub rank: u32,
    pub size: u32,
    pub calls: bool,
}

/// The numbers of a step, different for each step, rank and place.
pub fn field(step: i64, rank: u32, n: usize) -> Vec<f64> {
    (0..n).map(|i| step as f64 * 1e6 + f64::from(rank) * 1e5 + i as f64 * 0.25).collect()
}

/// The lines a rank has written.
pub fn read_log(dir: &Path, rank: u32) -> Vec<(char, String)> {
    let text = std::fs::read_to_string(dir.join(format!("log.{rank}"))).unwrap_or_default();
    let line = |l: &str| Some((l.chars().next()?, l.get(2..).unwrap_or("").to_owned()));
    text.lines().filter_map(line).collect()
}

/// The highest number of a kind of line; -1 for none.
pub fn highest(log: &[(char, String)], kind: char) -> i64 {
    log.iter().filter(|l| l.0 == kind).filter_map(|l| l.1.parse().ok()).max().unwrap_or(-1)
}

struct Log(std::fs::File);

impl Log {
    fn line(&mut self, kind: char, what: impl std::fmt::Display) {
        // One write: a process killed here has written the line or nothing.
        let _ = self.0.write_all(format!("{kind} {what}\n").as_bytes());
    }
}

/// Plays the part until the file `stop` names its last step; the exit status says how it went.
pub fn play(part: &Part) -> i32 {
    let path = part.dir.join(format!("log.{}", part.rank));
    let Ok(file) = std::fs::OpenOptions::new().create(true).append(true).open(path) else { return LOST };
    let mut log = Log(file);
    match simulate(part, &mut log) {
        Ok(()) => DONE,
        Err(e) if e.code() == Code::Internal => {
            log.line('!', e.text());
            LOST
        }
        Err(e) => {
            log.line('X', format!("{:?}: {}", e.code(), e.text()));
            TOLD
        }
    }
}

fn lost(what: String) -> Error {
    Error::internal(what)
}

fn simulate(part: &Part, log: &mut Log) -> Result<()> {
    let before = read_log(&part.dir, part.rank);
    let run = open(part)?;
    let back = run.restart()?.map_or(-1, |r| r.snapshot.step());
    let columns = vec![
        Column { name: "at".into(), dtype: "i64".into(), unit: String::new() },
        Column { name: "value".into(), dtype: "f64".into(), unit: "J".into() },
    ];
    let table = run.table("history", TableOptions { columns, history: true })?;
    if part.rank == 0 {
        // A restart takes the step's rows away: the loop begins with it once more.
        check(part, &run, &before, back, back - 1)?;
    }
    log.line('o', back);
    let diagram = run.diagram("Energy", Kind::History, DiagramOptions::default())?;
    let client = part.calls.then(|| forebay::connect(None)).transpose()?;
    meet(part, &format!("{back}"))?;
    let mut steps = run.steps(1 << 40, back.max(0))?;
    while let Some(step) = steps.next()? {
        if last_step(part).is_some_and(|last| step > last) {
            break;
        }
        keep_together(part, step)?;
        // Before there is a step to go back to, a restart takes nothing away.
        if part.rank == 0 && step > 0 {
            log.line('r', step);
            table.insert(&[vec![Cell::Int(step), Cell::Real(step as f64 * 0.5)]])?;
            diagram.append(step as f64, &[("E", step as f64 * 0.5)])?;
            log.line('R', step);
        }
        if step > back {
            log.line('b', step);
            take(part, &run, step)?;
            log.line('E', step);
        }
        put_all(part, &run, step, log)?;
        if let Some(client) = &client {
            called(client, step)?;
            log.line('C', step);
        }
        if step % 5 == 4 {
            run.flush()?;
            log.line('F', step);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    run.close_as(true)?;
    log.line('D', "");
    Ok(())
}

fn open(part: &Part) -> Result<Run> {
    let place = part.dir.join("chaos").display().to_string();
    let began = Instant::now();
    loop {
        let (rank, size) = (Some(part.rank), Some(part.size));
        let options = OpenOptions { buffer: 8 << 20, rank, size, ..OpenOptions::default() };
        match forebay::open(&place, Mode::Append, options) {
            // A rank of before that is about to be noticed, or an owner that is stopped just now.
            Err(e) if is_passing(&e) && began.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn is_passing(e: &Error) -> bool {
    matches!(e.code(), Code::Conflict | Code::ServerLost | Code::Timeout | Code::NoServer)
}

/// The last step, once the driver has named it.
fn last_step(part: &Part) -> Option<i64> {
    std::fs::read_to_string(part.dir.join("stop")).ok()?.trim().parse().ok()
}

/// All ranks of this start have opened the run and see the same last step: nobody takes away what
/// another has begun.
fn meet(part: &Part, what: &str) -> Result<()> {
    let name = |rank| part.dir.join(format!("here.{rank}"));
    let started = std::env::var("CHAOS_START").unwrap_or_default();
    let mine = format!("{started} {what}");
    std::fs::write(name(part.rank), &mine).map_err(|e| Error::io("cannot say that I am here", e))?;
    for rank in 0..part.size {
        loop {
            let other = std::fs::read_to_string(name(rank)).unwrap_or_default();
            if other == mine {
                break;
            }
            if other.starts_with(&format!("{started} ")) {
                return Err(lost(format!("rank {rank} goes on behind {other:?}, I behind {mine:?}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// As an exchange with neighbours would: no rank is far ahead of another.
fn keep_together(part: &Part, step: i64) -> Result<()> {
    let name = |rank| part.dir.join(format!("at.{rank}"));
    let started = std::env::var("CHAOS_START").unwrap_or_default();
    std::fs::write(name(part.rank), format!("{started} {step}"))
        .map_err(|e| Error::io("cannot say where I am", e))?;
    for rank in (0..part.size).filter(|r| *r != part.rank) {
        let there = || -> Option<i64> {
            let text = std::fs::read_to_string(name(rank)).ok()?;
            text.strip_prefix(&format!("{started} "))?.parse().ok()
        };
        while there().is_none_or(|s| s < step - AHEAD) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn take(part: &Part, run: &Run, step: i64) -> Result<()> {
    let (rank, n) = (part.rank, PIECE as u64);
    let values = field(step, rank, PIECE);
    let snapshot = run.snapshot(step, Some(step as f64 * 0.1))?;
    let place = Place::At {
        offset: Shape::new(&[u64::from(rank) * n])?,
        global: Shape::new(&[u64::from(part.size) * n])?,
    };
    snapshot.put("electrons/x", View::of(&values, &[n])?, Piece { unit: "m", place })?;
    let few = 10 + u64::from(rank);
    let some = View::of(&values[..few as usize], &[few])?;
    snapshot.put("behind", some, Piece { unit: "", place: Place::Append })?;
    if rank == 0 {
        snapshot.put("E", View::of(&values[..64], &[64])?, Piece::default())?;
    }
    snapshot.end()?;
    if step == 0 { snapshot.wait(Some(Duration::from_secs(20))) } else { Ok(()) }
}

fn put_all(part: &Part, run: &Run, step: i64, log: &mut Log) -> Result<()> {
    let rank = part.rank;
    log.line('p', step);
    run.put(&format!("small/{rank}"), View::of(&[step], &[1])?, PutOptions::default())?;
    log.line('P', step);
    if step % 4 == 1 {
        log.line('g', step);
        let values = field(step, rank, LARGE);
        run.put(&format!("large/{rank}"), View::of(&values, &[LARGE as u64])?, PutOptions::default())?;
        log.line('G', step);
    }
    Ok(())
}

fn called(client: &forebay::call::Client, step: i64) -> Result<()> {
    let x = field(step, 0, 500);
    let mut y = field(step + 1, 0, 500);
    let args = vec![2.0.into(), x[..].into(), forebay::call::Arg::from(&mut y[..])];
    client.call("axpy", args, Some(Duration::from_secs(15)))?;
    let right = field(step + 1, 0, 500).iter().zip(&x).map(|(y, x)| y + 2.0 * x).collect::<Vec<f64>>();
    match y == right {
        true => Ok(()),
        false => Err(lost(format!("the call of step {step} gave wrong numbers"))),
    }
}

/// What this rank finds, against what was acknowledged before.
fn check(part: &Part, run: &Run, before: &[(char, String)], back: i64, rows: i64) -> Result<()> {
    let logs: Vec<_> = (0..part.size).map(|r| read_log(&part.dir, r)).collect();
    let acknowledged = logs.iter().map(|l| highest(l, 'E')).min().unwrap_or(-1);
    let begun = logs.iter().map(|l| highest(l, 'b')).min().unwrap_or(-1);
    if back < acknowledged {
        return Err(lost(format!("step {acknowledged} was acknowledged and the last one is {back}")));
    }
    if back > begun {
        return Err(lost(format!("step {back} is listed and not all ranks began it")));
    }
    let listed = run.snapshots()?.numbers().to_vec();
    if listed != (0..=back).collect::<Vec<i64>>() {
        return Err(lost(format!("steps up to {back} are listed as {listed:?}")));
    }
    check_history(run, rows)?;
    for (rank, log) in logs.iter().enumerate() {
        let log = if rank == 0 { before } else { log };
        check_puts(run, rank as u32, log)?;
    }
    check_step(run, part.size, back)
}

/// Every step up to the last one has its row and its point, once.
fn check_history(run: &Run, last: i64) -> Result<()> {
    for (what, query) in [
        ("rows", "SELECT at FROM history ORDER BY at"),
        ("points", "SELECT step FROM fb_points ORDER BY step"),
    ] {
        let found = match run.sql(query, &[]) {
            Ok(rows) => {
                rows.rows.iter().map(|r| if let Cell::Int(n) = r[0] { n } else { -9 }).collect::<Vec<_>>()
            }
            Err(e) => return Err(e),
        };
        if found != (1..=last).collect::<Vec<i64>>() {
            return Err(lost(format!("{what} of the history up to step {last}: {found:?}")));
        }
    }
    Ok(())
}

fn check_puts(run: &Run, rank: u32, log: &[(char, String)]) -> Result<()> {
    for (name, tried, done) in [(format!("small/{rank}"), 'p', 'P'), (format!("large/{rank}"), 'g', 'G')] {
        let least = highest(log, done);
        let most = highest(log, tried);
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
        if step < least || step > most {
            return Err(lost(format!("{name} is of step {step}, acknowledged {least}, tried {most}")));
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
    let run =
        forebay::open(&part.dir.join("chaos").display().to_string(), Mode::Read, OpenOptions::default())?;
    let log: Vec<_> = (0..part.size).map(|r| read_log(&part.dir, r)).collect();
    let last = run.snapshots()?.numbers().last().copied().unwrap_or(-1);
    check(part, &run, &log[0], last, last)?;
    (0..=last).try_for_each(|step| check_step(&run, part.size, step))?;
    let report = forebay_store::verify(run.path())?;
    match report.faults.is_empty() && report.steps as i64 == last + 1 {
        true => Ok(last),
        false => Err(lost(format!("verify: {:?}", report.faults))),
    }
}
