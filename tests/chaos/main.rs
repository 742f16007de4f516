//! Chaos: real processes of every role are killed and stopped at random moments, and what was
//! acknowledged is looked for afterwards.
//!
//! ```text
//!  chaos (this program) --> a round in directories of its own (`round`) --> ranks, servers (`program`)
//!        |                          kills, waits, compares                      agent, recovery
//!        +-- a table, exit status 1 for any loss, hang or leftover
//! ```
//!
//! `make chaos SEED=n KILLS=300`; as a test of `make test` it deals a few blows from a new seed, which it
//! prints.

mod blow;
mod check;
mod dice;
mod drive;
mod program;
mod round;
mod stage;
mod tally;
mod tongues;
mod twin;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let dir = PathBuf::from(variable("CHAOS_DIR"));
    let number = |name: &str| variable(name).parse::<u64>().unwrap_or(0);
    let is = |name: &str| !variable(name).is_empty();
    match variable("CHAOS_ROLE").as_str() {
        "rank" => {
            let (rank, size) = (number("CHAOS_RANK") as u32, number("CHAOS_SIZE") as u32);
            let part = program::Part {
                dir,
                rank,
                size,
                acknowledged: variable("CHAOS_ACKNOWLEDGED").parse().unwrap_or(-1),
                calls: is("CHAOS_CALLS"),
                calm: is("CHAOS_CALM"),
            };
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
        _ => drive::drive(),
    }
}

/// A server of the calls; both offer the same. Ends with its standard input.
fn serve(number: &str) -> ExitCode {
    let server = forebay::serve::Server::new(&format!("chaos-{number}"));
    let server = server.service("axpy(in a:f64, in x:f64[n], inout y:f64[n])", |call| {
        let [a, x, y] = call.args()?;
        let (a, x, y) = (a.f64()?, x.view::<f64>()?, y.view::<f64>()?);
        (0..y.len()).for_each(|i| y.set(i, y.get(i) + a * x.get(i)));
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
