//! Chaos: real processes of every role are killed and stopped at random moments, and what was
//! acknowledged is looked for afterwards.
//!
//! ```text
//!  chaos (this program) --> a round in directories of its own (`round`) --> ranks, servers (`program`)
//!        |                          kills, waits, compares                      agent, recovery
//!        +-- a line a blow, a table, exit status 1 for any loss
//! ```
//!
//! `make chaos SEED=n KILLS=300`; as a test of `make test` it deals a few blows from a new seed, which it
//! prints.

mod dice;
mod program;
mod round;
mod stage;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Blows of the short part in the tests.
const FEW: u64 = 30;
/// Blows of one round.
const A_ROUND: u64 = 6;
/// No round lasts so long.
const ROUND: Duration = Duration::from_secs(150);

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let dir = PathBuf::from(variable("CHAOS_DIR"));
    let number = |name: &str| variable(name).parse::<u64>().unwrap_or(0);
    match variable("CHAOS_ROLE").as_str() {
        "rank" => {
            let (rank, size) = (number("CHAOS_RANK") as u32, number("CHAOS_SIZE") as u32);
            let part = program::Part { dir, rank, size, calls: !variable("CHAOS_CALLS").is_empty() };
            ExitCode::from(program::play(&part) as u8)
        }
        "server" => serve(&variable("CHAOS_RANK")),
        "round" => match round::play(&dir, number("CHAOS_SEED"), number("CHAOS_BLOWS") as u32) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::FAILURE
            }
        },
        _ => drive(),
    }
}

/// A server of the calls; both offer the same. Ends with its standard input.
fn serve(number: &str) -> ExitCode {
    let server = forebay::serve::Server::new(&format!("chaos-{number}"));
    let server = server.service("axpy(in a:f64, in x:f64[n], inout y:f64[n])", |call| {
        let [a, x, y] = call.args()?;
        let (a, x, y) = (a.f64()?, x.slice::<f64>()?, y.slice::<f64>()?);
        y.iter_mut().zip(x).for_each(|(y, x)| *y += a * *x);
        Ok(())
    });
    let running = server.and_then(|s| s.start(forebay::locator(None)));
    let running = match running {
        Ok(running) => running,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    println!("serving");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    running.stop();
    ExitCode::SUCCESS
}

struct Wishes {
    seed: u64,
    kills: u64,
    json: bool,
}

/// Arguments of its own; those of a test harness (a filter, `--nocapture`) mean nothing here.
fn wishes() -> Wishes {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut wishes = Wishes { seed: now.as_nanos() as u64 % 1_000_000, kills: FEW, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().and_then(|v| v.parse().ok());
        match argument.as_str() {
            "--seed" => wishes.seed = value().unwrap_or(wishes.seed),
            "--kills" => wishes.kills = value().unwrap_or(wishes.kills),
            "--json" => wishes.json = true,
            _ => {}
        }
    }
    wishes
}

/// What was found, by scene and blow.
#[derive(Default)]
struct Tally {
    rows: BTreeMap<(String, String), BTreeMap<String, u64>>,
    blows: Vec<Value>,
    faults: Vec<String>,
}

fn drive() -> ExitCode {
    if std::env::args().any(|a| a == "--list") {
        println!("chaos: test");
        return ExitCode::SUCCESS;
    }
    let wishes = wishes();
    let began = Instant::now();
    println!("chaos: seed {}, {} kills", wishes.seed, wishes.kills);
    let mut dice = dice::Dice::new(wishes.seed);
    let mut tally = Tally::default();
    let mut dealt = 0;
    while dealt < wishes.kills {
        let blows = A_ROUND.min(wishes.kills - dealt);
        if let Err(e) = a_round(dice.next(), blows, dealt, &mut tally) {
            tally.faults.push(e);
        }
        dealt += blows;
    }
    summary(&tally, began.elapsed());
    if wishes.json {
        let all = json!({"seed": wishes.seed, "kills": tally.blows, "faults": tally.faults});
        println!("{all}");
    }
    if tally.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

fn a_round(seed: u64, blows: u64, before: u64, tally: &mut Tally) -> Result<(), String> {
    let dir = tempfile::Builder::new().prefix("fbc").tempdir().map_err(|e| e.to_string())?;
    let prefix = dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).map_err(|e| e.to_string())?;
    let mut child = Command::new(std::env::current_exe().map_err(|e| e.to_string())?)
        .env("CHAOS_ROLE", "round")
        .env("CHAOS_DIR", &work)
        .env("CHAOS_SEED", seed.to_string())
        .env("CHAOS_BLOWS", blows.to_string())
        .env("FOREBAY_RUNTIME_DIR", dir.path().join("run"))
        .env("FOREBAY_HOME", dir.path().join("home"))
        .env("FOREBAY_SHM_PREFIX", &prefix)
        .env("FOREBAY_EXE", exe())
        .env_remove("FOREBAY_BROKER")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let output = child.stdout.take().ok_or("a round without output")?;
    let watch = std::thread::spawn(move || end_in_time(child));
    let mut ended = false;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(found) = serde_json::from_str::<Value>(&line) else { continue };
        ended |= tally.take(&found, before, seed);
    }
    let in_time = watch.join().unwrap_or(false);
    let told = tally.faults.iter().any(|f| f.contains(&seed.to_string()));
    if (!ended || !in_time || told) && std::env::var_os("CHAOS_KEEP").is_some() {
        println!("  kept: {}", dir.keep().display());
    }
    match (ended, in_time) {
        (true, true) => Ok(()),
        (_, false) => Err(format!("round {seed}: it hangs")),
        (false, true) => Err(format!("round {seed}: it broke off")),
    }
}

/// Waits for a round; one that hangs is killed.
fn end_in_time(mut child: Child) -> bool {
    let until = Instant::now() + ROUND;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

impl Tally {
    /// Takes a line of a round; says whether it was the last one.
    fn take(&mut self, found: &Value, before: u64, seed: u64) -> bool {
        let text = |name: &str| found[name].as_str().unwrap_or("").to_owned();
        if found.get("blow").is_some() {
            let row = self.rows.entry((text("scene"), text("blow"))).or_default();
            *row.entry(text("found")).or_default() += 1;
            self.blows.push(found.clone());
            println!(
                "{:>5}  {:<9} {:<15} at {:<14} {} in {} ms",
                self.blows.len(),
                text("scene"),
                text("blow"),
                text("moment"),
                text("found"),
                found["ms"]
            );
            return false;
        }
        let left = found["left"].as_array().cloned().unwrap_or_default();
        let fault = found["fault"].as_str().map(str::to_owned);
        let left = (!left.is_empty()).then(|| format!("left behind: {left:?}"));
        for what in fault.into_iter().chain(left) {
            let fault = format!("round {seed} ({}), after kill {before}: {what}", text("scene"));
            println!("  FAULT {fault}");
            self.faults.push(fault);
        }
        true
    }
}

fn summary(tally: &Tally, time: Duration) {
    println!(
        "\n{:<10} {:<15} {:>6} {:>8} {:>10} {:>6}",
        "scene", "hurt", "kills", "went on", "restarted", "told"
    );
    for ((scene, blow), found) in &tally.rows {
        let count = |name: &str| found.get(name).copied().unwrap_or(0);
        let all: u64 = found.values().sum();
        let (on, again, told) = (count("went on"), count("restarted"), count("told"));
        println!("{scene:<10} {blow:<15} {all:>6} {on:>8} {again:>10} {told:>6}");
    }
    let faults = tally.faults.len();
    println!("{} kills in {:.0} s, {faults} faults", tally.blows.len(), time.as_secs_f64());
}
