//! The program that is hurt: a small simulation of one rank. It writes down what it begins (small
//! letters) and what has been acknowledged (capitals), a line at a time, into a log that outlives it; at
//! each beginning it holds what it finds against that log.
//!
//! ```text
//!  o STEP  opened, last complete step     b/E STEP  snapshot begun / ended     F STEP  flushed
//!  p/P N   small data set 'small/RANK'    g/G N     large one 'large/RANK'     r/R STEP  row of the history
//!  C STEP N  a call done, issued again N times           X TEXT   an error        D     closed
//! ```
//!
//! Each rank carries a state from step to step, by a call where there are servers, which goes into every
//! snapshot and comes back from there: what is lost anywhere shows at the end. `program.py` and
//! `program.c` play the same part.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay::call::{Arg, Client};
use forebay::{
    ArrayOptions, Cell, Code, Column, DiagramOptions, Error, Kind, Mode, OpenOptions, Place, PutOptions,
};
use forebay::{Result, Run, Shape, TableOptions, View};

use crate::check::check;

/// Numbers of a rank's piece of an array.
pub const PIECE: usize = 3_000;
pub const LARGE: usize = 20_000;
/// Numbers of a rank's state.
pub const STATE: usize = 500;
/// Steps that a rank may be ahead of the slowest one.
const AHEAD: i64 = 2;

/// No number that a computer has exactly: what is rounded otherwise shows.
pub const THIRD: f64 = 1.0 / 3.0;

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
    /// The last step that all ranks were told is kept, when this one was started.
    pub acknowledged: i64,
    /// Nobody hurts it: it need not flush, nor take its time.
    pub calm: bool,
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

/// The last step that a rank was told is kept. A rank that went back counts from there: what it had ended
/// and others had not is no step.
pub fn acknowledged(log: &[(char, String)]) -> i64 {
    let told = |l: &&(char, String)| matches!(l.0, 'E' | 'o');
    log.iter().rev().find(told).and_then(|l| l.1.parse().ok()).unwrap_or(-1)
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

pub fn lost(what: String) -> Error {
    Error::internal(what)
}

fn simulate(part: &Part, log: &mut Log) -> Result<()> {
    let before = read_log(&part.dir, part.rank);
    let run = open(part)?;
    let kept = run.restart()?.map(|r| r.snapshot);
    let back = kept.as_ref().map_or(-1, |s| s.step());
    let mut state = match &kept {
        Some(snapshot) => mine(part, &snapshot.get("state", None)?.to_f64()?)?,
        None => vec![0.0; STATE],
    };
    drop(kept);
    let columns = vec![
        Column { name: "at".into(), dtype: "i64".into(), ..Default::default() },
        Column { name: "value".into(), dtype: "f64".into(), units: "J".into(), ..Default::default() },
    ];
    let table = run.table("history", TableOptions { columns, history: true })?;
    if part.rank == 0 {
        // The step's row goes when the loop begins with it once more.
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
            take(part, &run, step, &state)?;
            log.line('E', step);
        }
        put_all(part, &run, step, log)?;
        let reissued = advance(part, client.as_ref(), step, &mut state)?;
        if part.calls {
            log.line('C', format!("{step} {reissued}"));
        }
        if step % 5 == 4 && !part.calm {
            run.flush()?;
            log.line('F', step);
        }
        if !part.calm {
            std::thread::sleep(Duration::from_millis(1));
        }
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

fn take(part: &Part, run: &Run, step: i64, state: &[f64]) -> Result<()> {
    let (rank, n) = (part.rank, PIECE as u64);
    let values = field(step, rank, PIECE);
    let snapshot = run.snapshot(step, Some(step as f64 * 0.1))?;
    let block = |n: u64| -> Result<Place> {
        let (rank, size) = (u64::from(rank), u64::from(part.size));
        Ok(Place::At { offset: Shape::new(&[rank * n])?, global: Shape::new(&[size * n])? })
    };
    snapshot.put(
        "electrons/x",
        View::of(&values, &[n])?,
        ArrayOptions { units: "m", place: block(n)?, about: None, compress: None },
    )?;
    let n = STATE as u64;
    snapshot.put(
        "state",
        View::of(state, &[n])?,
        ArrayOptions { units: "", place: block(n)?, about: None, compress: None },
    )?;
    let few = 10 + u64::from(rank);
    let some = View::of(&values[..few as usize], &[few])?;
    snapshot.put(
        "behind",
        some,
        ArrayOptions { units: "", place: Place::Append, about: None, compress: None },
    )?;
    if rank == 0 {
        snapshot.put("E", View::of(&values[..64], &[64])?, ArrayOptions::default())?;
    }
    snapshot.end()?;
    if step == 0 && !part.calm { snapshot.wait(Some(Duration::from_secs(20))) } else { Ok(()) }
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

/// This rank's state out of that of all.
fn mine(part: &Part, all: &[f64]) -> Result<Vec<f64>> {
    let from = part.rank as usize * STATE;
    let mine = all.get(from..from + STATE);
    mine.map(<[f64]>::to_vec).ok_or_else(|| lost(format!("a state of {} numbers", all.len())))
}

/// The state of the next step; says how often the call was issued again.
fn advance(part: &Part, client: Option<&Client>, step: i64, state: &mut [f64]) -> Result<u32> {
    let x = field(step, part.rank, STATE);
    let right: Vec<f64> = state.iter().zip(&x).map(|(y, x)| y + THIRD * x).collect();
    let Some(client) = client else {
        state.copy_from_slice(&right);
        return Ok(0);
    };
    let args = vec![THIRD.into(), x[..].into(), Arg::from(&mut state[..])];
    let mut call = client.call_async("axpy", args, None)?;
    call.wait(Some(Duration::from_secs(15)))?;
    let reissued = call.timing().reissued;
    drop(call);
    match state == right {
        true => Ok(reissued),
        false => Err(lost(format!("the call of step {step} gave wrong numbers"))),
    }
}
