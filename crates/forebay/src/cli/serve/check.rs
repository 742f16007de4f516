//! `forebay serve --check`: whether an interface file can be true. Whatever the library does, it does in processes that are
//! thrown away.

use super::{Serve, library, supervisor};
use crate::cli::out::Out;
use forebay::{Code, Error, Result};
use forebay_foreign::check;
use forebay_host::process::signal;
use forebay_host::{Process, environment};
use forebay_idl::{Library, Routine};
use rustix::process::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How a trial of one routine begins in the command line.
const TRIAL: &str = "--trial";
/// What it may do besides.
const SLACK: &str = "--slack";
/// The last line of a process that was not ended by the library.
const DONE: &str = "done .";
/// How long all trials of a routine may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What asks for the symbols alone.
const SYMBOLS: &str = "";

/// Checks a file, and with `--call` calls its routines with small arguments.
pub fn run(options: &Serve, idl: &Path, out: &Out) -> Result<()> {
    let read = library::read(idl)?;
    let path = library::path_of(options, &read, idl)?;
    if let Some(name) = &options.trial {
        return in_child(&read, &path, name, options.slack);
    }
    let file = idl.display();
    if read.routines.is_empty() {
        return Err(Error::bad(format!(
            "{file} has no routine, so there is nothing to check; write a line for each, such as `scale(n:i32, inout x:f64[n])`"
        )));
    }
    let symbols = trial(&read, None, false)?;
    if let Some(why) = symbols.absent {
        return Err(Error::new(Code::NotFound, why));
    }
    let faults = symbols.lines;
    let (mut wrong, mut doubted) = (faults.len(), 0);
    for fault in &faults {
        out.either(|| json!({"fault": fault}), || fault.clone())?;
    }
    if let Some(name) = options.call.as_ref().filter(|_| wrong == 0) {
        let chosen: Vec<&Routine> =
            read.routines.iter().filter(|r| name.is_empty() || r.name == *name).collect();
        if chosen.is_empty() {
            return Err(Error::bad(format!(
                "{file} has no routine {name:?}; `--call` alone calls all of them"
            )));
        }
        for routine in chosen {
            let mut tried = trial(&read, Some(routine), false)?;
            if tried.near {
                let again = trial(&read, Some(routine), true)?;
                if again.lines.is_empty() {
                    let seen: Vec<&str> = tried.lines.iter().filter_map(|l| l.split(';').next()).collect();
                    let note =
                        format!("{}; it reads a little behind an array: {}", again.note, seen.join(", "));
                    tried = Tried { note, ..again };
                }
            }
            wrong += usize::from(!tried.lines.is_empty());
            doubted += usize::from(!tried.doubts.is_empty());
            tell(routine, &tried, out)?;
        }
    }
    if wrong > 0 {
        return Err(Error::bad(format!("{file}: {}; see above", forebay_types::counted(wrong, "fault"))));
    }
    let routines = forebay_types::counted(read.routines.len(), "routine");
    let seen = match doubted {
        0 => "nothing is wrong that could be seen".to_owned(),
        1 => "nothing is proven wrong; a doubt stands above".into(),
        n => format!("nothing is proven wrong; doubts of {n} routines stand above"),
    };
    out.either(
        || json!({"routines": read.routines.len(), "library": path, "doubted": doubted}),
        || format!("{file}: {routines} of {path}, {seen}"),
    )
}

/// The lines of one routine: its faults, and what may be wrong.
fn tell(routine: &Routine, tried: &Tried, out: &Out) -> Result<()> {
    let (name, note) = (&routine.name, &tried.note);
    let line = || {
        let verdict = match (tried.lines.is_empty(), tried.doubts.is_empty()) {
            (false, _) => tried.lines.join("; "),
            (true, true) => "well".to_owned(),
            (true, false) => "in doubt".to_owned(),
        };
        let doubts = tried.doubts.iter().map(|doubt| format!("\n{name}: doubt: {doubt}"));
        format!("{name}: {verdict} ({note}){}", doubts.collect::<String>())
    };
    out.either(|| json!({"routine": name, "faults": tried.lines, "doubts": tried.doubts, "note": note}), line)
}

/// What a trial has found.
struct Tried {
    /// Faults, one a line.
    lines: Vec<String>,
    /// What may be wrong.
    doubts: Vec<String>,
    note: String,
    /// Why there is no library.
    absent: Option<String>,
    /// It ended its process by touching the first bytes behind an array.
    near: bool,
}

/// Runs this command again for one routine, or for the symbols, in an environment as that of the server.
fn trial(library: &Library, routine: Option<&Routine>, slack: bool) -> Result<Tried> {
    let exe = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
    let mut command = Command::new(exe);
    command
        .args(std::env::args_os().skip(1))
        .arg(format!("{TRIAL}={}", routine.map_or(SYMBOLS, |r| &r.name)))
        .args(slack.then_some(SLACK))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .env_remove("LD_PRELOAD")
        .env(environment::STUBS, "off")
        .envs(library.settings.env.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(|e| Error::io("cannot start a process for the library", e))?;
    let (mut lines, mut note, mut last, mut ended) = (Vec::new(), String::new(), String::new(), false);
    let (mut near, mut is_done, mut absent, mut doubts) = (false, false, None, Vec::new());
    for line in child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let line = line.map_err(|e| Error::io("cannot hear the process of the library", e))?;
        match line.split_once(' ') {
            Some(("trial", words)) => last = words.to_owned(),
            Some(("wrong", words)) => lines.push(words.to_owned()),
            Some(("absent", words)) => absent = Some(words.to_owned()),
            Some(("done", _)) => is_done = true,
            Some(("doubt", words)) => doubts.push(words.to_owned()),
            Some(("note", words)) => note = words.to_owned(),
            Some(("fault", _)) => {
                let words = routine.map(|r| check::fault_in_words(r, &line)).unwrap_or_default();
                lines.push(format!("{words}, called with {last}"));
                (ended, near) = (true, check::was_near(&line));
            }
            Some(("late", words)) => {
                lines.push(format!("{words}, called with {last}"));
                ended = true;
            }
            // What the library itself prints.
            _ => (),
        }
    }
    let status = child.wait().map_err(|e| Error::io("cannot wait for the process of the library", e))?;
    if !is_done && !ended {
        let how = match (status.success(), supervisor::how_ended(status)) {
            (true, how) => format!("it ends its process by {how}, which would end the server; leave it out"),
            (false, how) => format!("its process ended ({how})"),
        };
        let when = if last.is_empty() { "while it was loaded".into() } else { format!("called with {last}") };
        lines.push(format!("{how}, {when}"));
    }
    if !is_done {
        note = "it ended its process".into();
    }
    Ok(Tried { lines, doubts, note, absent, near })
}

/// Ends this process when its trials take too long, whoever still waits for it: a routine may never return.
fn end_if_late() {
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        println!("late it has not returned after {} s", PATIENCE.as_secs());
        let _ = signal(&Process::current(), Signal::KILL);
    });
}

/// In that process: what is found goes to standard output, line by line.
fn in_child(library: &Library, path: &str, name: &str, slack: bool) -> Result<()> {
    if name == SYMBOLS {
        match check::symbols(path, library) {
            Ok(faults) => faults.iter().for_each(|fault| println!("wrong {fault}")),
            Err(why) => println!("absent {}", why.text()),
        }
        println!("{DONE}");
        return Ok(());
    }
    let routine = library.routines.iter().find(|r| r.name == name);
    let routine = routine.ok_or_else(|| Error::internal("a routine is missing"))?;
    end_if_late();
    let verdict = check::calls(path, routine, slack, &mut std::io::stdout())?;
    verdict.faults.iter().for_each(|fault| println!("wrong {fault}"));
    // What is wrong is put right first; a doubt may follow from it.
    let doubts = verdict.doubts.iter().filter(|_| verdict.faults.is_empty());
    doubts.for_each(|doubt| println!("doubt {doubt}"));
    let (refused, said) = &verdict.refused;
    let calls = forebay_types::counted(verdict.trials, "call");
    match *refused {
        0 => println!("note {calls}"),
        n if n == verdict.trials => println!("wrong {said}, in every call"),
        n => println!("note {calls}, of which it refused {n}"),
    }
    println!("{DONE}");
    Ok(())
}
