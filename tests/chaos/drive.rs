//! The driver: round after round in processes of their own, each with directories and names of its own,
//! until enough blows are dealt or the time is over.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use forebay_host::process;
use rustix::process::Signal;
use serde_json::Value;

use crate::dice::Dice;
use crate::stage::processes;
use crate::tally::Tally;
use crate::tongues;

/// Blows, and seconds, of the short part in the tests.
const FEW: (u64, u64) = (30, 40);
/// Blows of one round.
const A_ROUND: u64 = 6;
/// No round lasts so long.
const ROUND: Duration = Duration::from_secs(150);
/// Tells a machine of now what owners were told.
const REPLAY: &str = "cargo test --release -p forebay-store --test all recordings_that_are_named";

struct Wishes {
    seed: u64,
    kills: u64,
    seconds: u64,
    json: bool,
}

/// Arguments of its own; those of a test harness (a filter, `--nocapture`) mean nothing here.
fn wishes() -> Wishes {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (kills, seconds) = FEW;
    let mut wishes = Wishes { seed: now.as_nanos() as u64 % 1_000_000, kills, seconds, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().and_then(|v| v.parse().ok());
        match argument.as_str() {
            "--seed" => wishes.seed = value().unwrap_or(wishes.seed),
            "--kills" => (wishes.kills, wishes.seconds) = (value().unwrap_or(wishes.kills), u64::MAX),
            "--seconds" => wishes.seconds = value().unwrap_or(wishes.seconds),
            "--json" => wishes.json = true,
            _ => {}
        }
    }
    wishes
}

/// Plays, and tells at the end.
pub fn drive() -> ExitCode {
    if std::env::args().any(|a| a == "--list") {
        println!("chaos: test");
        return ExitCode::SUCCESS;
    }
    match play(&wishes()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn play(wishes: &Wishes) -> Result<usize, String> {
    if !exe().is_file() {
        return Err(format!("{} is not there; build it with cargo build --release", exe().display()));
    }
    let built = tempfile::Builder::new().prefix("fbc").tempdir().map_err(|e| e.to_string())?;
    let others = match std::env::var_os("CHAOS_LANGUAGES") {
        Some(_) => tongues::prepare(built.path())?,
        None => Vec::new(),
    };
    let began = Instant::now();
    println!("chaos: seed {}, {} blows", wishes.seed, wishes.kills);
    let mut dice = Dice::new(wishes.seed);
    let mut tally = Tally::default();
    let mut dealt = 0;
    while dealt < wishes.kills && began.elapsed().as_secs() < wishes.seconds {
        let (seed, blows) = (dice.next(), A_ROUND.min(wishes.kills - dealt));
        tally.begin();
        let bar = Bar { before: dealt, all: wishes.kills };
        if let Err((kind, e)) = a_round(seed, blows, &others, &mut tally, &bar) {
            tally.fault(kind, format!("round {seed}: {e}"));
        }
        dealt += blows;
    }
    bar_end();
    tally.print(wishes.seed, began.elapsed());
    if wishes.json {
        println!("{}", tally.json(wishes.seed, began.elapsed()));
    }
    Ok(tally.faults())
}

/// How far it is, for a person who waits.
struct Bar {
    before: u64,
    all: u64,
}

impl Bar {
    fn draw(&self, in_round: u64, faults: usize) {
        if std::io::stderr().is_terminal() {
            let done = self.before + in_round;
            let full = (done * 40 / self.all.max(1)) as usize;
            let bar = format!("{}{}", "#".repeat(full), ".".repeat(40 - full.min(40)));
            eprint!("\r[{bar}] {done}/{} blows, {faults} faults ", self.all);
            let _ = std::io::stderr().flush();
        }
    }
}

fn bar_end() {
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
}

/// The command `forebay`: named by the environment, or beside this program.
fn exe() -> PathBuf {
    let named = std::env::var_os("FOREBAY_EXE").map(PathBuf::from);
    let beside = || {
        let this = std::env::current_exe().unwrap_or_default();
        this.ancestors().nth(2).unwrap_or(Path::new("")).join("forebay")
    };
    named.unwrap_or_else(beside)
}

type Broken = (&'static str, String);

fn a_round(
    seed: u64,
    blows: u64,
    others: &[(&'static str, PathBuf)],
    tally: &mut Tally,
    bar: &Bar,
) -> Result<(), Broken> {
    let broken = |e: std::io::Error| ("loss", e.to_string());
    let dir = tempfile::Builder::new().prefix("fbc").tempdir().map_err(broken)?;
    // Apart, for it outlives a round that fails.
    let recordings = tempfile::Builder::new().prefix("fbc-told").tempdir().map_err(broken)?;
    let house = std::env::var("FOREBAY_TEST_PREFIX").unwrap_or_else(|_| "fbc".into());
    let prefix = format!("{house}-{}", dir.path().file_name().unwrap_or_default().to_string_lossy());
    let work = dir.path().join("work");
    std::fs::create_dir(&work).map_err(broken)?;
    let mut child = Command::new(std::env::current_exe().map_err(broken)?)
        .env("CHAOS_ROLE", "round")
        .env("CHAOS_DIR", &work)
        .env("CHAOS_SEED", seed.to_string())
        .env("CHAOS_BLOWS", blows.to_string())
        .envs(others.iter().map(|(name, path)| (name, OsString::from(path))))
        .env("FOREBAY_RUNTIME_DIR", dir.path().join("run"))
        .env("FOREBAY_HOME", dir.path().join("home"))
        .env("FOREBAY_SHM_PREFIX", &prefix)
        .env("FOREBAY_EXE", exe())
        .env("FOREBAY_RECORD", recordings.path())
        .env_remove("FOREBAY_BROKER")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(broken)?;
    let output = child.stdout.take().ok_or(("loss", "a round without output".to_owned()))?;
    let watch = std::thread::spawn(move || end_in_time(child, &prefix));
    let (mut ended, faults, first) = (false, tally.faults(), tally.blows);
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(found) = serde_json::from_str::<Value>(&line) else { continue };
        ended |= tally.take(&found, seed);
        bar.draw(tally.blows - first, tally.faults());
    }
    let in_time = watch.join().unwrap_or(false);
    let told = tally.faults() > faults;
    if !ended || !in_time || told {
        let kept = recordings.keep();
        println!("  what its owners were told: {}; replay it with", kept.display());
        println!("  FOREBAY_REPLAY={} {REPLAY}", kept.display());
        if std::env::var_os("CHAOS_KEEP").is_some() {
            println!("  kept: {}", dir.keep().display());
        }
    }
    match (ended, in_time) {
        (true, true) => Ok(()),
        (_, false) => Err(("hang", "it does not end".into())),
        (false, true) => Err(("loss", "it broke off".into())),
    }
}

/// Waits for a round; one that hangs is killed, with all that it has started.
fn end_in_time(mut child: Child, prefix: &str) -> bool {
    let until = Instant::now() + ROUND;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            for process in processes(prefix) {
                let _ = process::signal(&process, Signal::KILL);
            }
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
