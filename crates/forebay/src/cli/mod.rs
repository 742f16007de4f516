//! The command line: one file a command, which holds its options and what it does.

mod beside;
mod call;
mod care;
mod cc;
mod choice;
mod cp;
mod diff;
mod doctor;
mod drop;
mod export;
mod get;
mod import;
mod installed;
mod interrupt;
mod keep_output;
mod leftover;
mod ls;
mod making;
mod monitor;
mod npy;
mod out;
mod pack;
mod partial;
mod pick;
mod print;
mod put;
mod rm;
mod run;
mod serve;
mod services;
mod show;
mod status;
mod steer;
mod stubs;
mod table;
mod up;
mod usage;
mod wait;
mod zip;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use forebay::{Error, Result, Scalar};
use forebay_host::environment;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Call services, keep data, take snapshots, watch and steer: the runtime around a simulation.
#[derive(Parser)]
#[command(name = "forebay", version, max_term_width = 100)]
#[command(after_help = "Example:\n  forebay ls two_stream\n\n`forebay COMMAND --help` explains a command.")]
struct Cli {
    /// Answer in JSON, for machines.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Down(up::Down),
    Status(status::Status),
    Run(run::Run),
    Tied(run::Tied),
    Serve(serve::Serve),
    Services(services::Services),
    Call(call::Call),
    Ls(ls::Ls),
    Show(show::Show),
    Get(get::Get),
    Put(put::Put),
    Cp(cp::Cp),
    Mv(cp::Mv),
    Rm(rm::Rm),
    Note(beside::Note),
    Drop(drop::Drop),
    Pack(pack::Pack),
    Export(export::Export),
    Import(import::Import),
    Diff(diff::Diff),
    Table(table::Table),
    Sql(table::Sql),
    Verify(care::Verify),
    Repair(care::Repair),
    Compact(care::Compact),
    Recover(care::Recover),
    Monitor(monitor::Monitor),
    Steer(steer::Steer),
    Doctor(doctor::Doctor),
    Stubs(stubs::Stubs),
    Cc(cc::Cc),
    KeepOutput(keep_output::KeepOutput),
}

impl Command {
    fn run(&self, out: &out::Out) -> Result<()> {
        match self {
            Command::Up(c) => c.run(out),
            Command::Down(c) => c.run(out),
            Command::Status(c) => c.run(out),
            Command::Run(c) => c.run(out),
            Command::Tied(c) => c.run(),
            Command::Serve(c) => c.run(out),
            Command::Services(c) => c.run(out),
            Command::Call(c) => c.run(out),
            Command::Ls(c) => c.run(out),
            Command::Show(c) => c.run(out),
            Command::Get(c) => c.run(out),
            Command::Put(c) => c.run(out),
            Command::Cp(c) => c.run(out),
            Command::Mv(c) => c.run(out),
            Command::Rm(c) => c.run(out),
            Command::Note(c) => c.run(out),
            Command::Drop(c) => c.run(out),
            Command::Pack(c) => c.run(out),
            Command::Export(c) => c.run(out),
            Command::Import(c) => c.run(out),
            Command::Diff(c) => c.run(out),
            Command::Table(c) => c.run(out),
            Command::Sql(c) => c.run(out),
            Command::Verify(c) => c.run(out),
            Command::Repair(c) => c.run(out),
            Command::Compact(c) => c.run(out),
            Command::Recover(c) => c.run(out),
            Command::Monitor(c) => c.run(out),
            Command::Steer(c) => c.run(out),
            Command::Doctor(c) => c.run(out),
            Command::Stubs(c) => c.run(out),
            Command::Cc(c) => c.run(out),
            Command::KeepOutput(c) => c.run(),
        }
    }
}

/// Options for a command that writes so many bytes: it takes no more shared memory than that.
fn room(bytes: u64) -> forebay::OpenOptions {
    forebay::OpenOptions { buffer: bytes.saturating_add(1 << 20), ..Default::default() }
}

/// Address and name of a run on another host; `None` for one that is meant here.
fn remote(run: &str) -> Result<Option<(forebay_link::net::Address, String)>> {
    forebay_link::net::Address::is_meant(run).then(|| forebay::remote_name(run)).transpose()
}

/// A time to wait, as it is given to options.
fn seconds(given: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(given)
        .map_err(|_| Error::bad(format!("{given} is no number of seconds to wait")))
}

/// A number as people write it: an integer of 64 bits, or a float; none when it is something else. What would become
/// another number is refused.
fn number(text: &str) -> Result<Option<Scalar>> {
    if let Ok(v) = text.parse::<i64>() {
        return Ok(Some(v.into()));
    }
    if let Ok(v) = text.parse::<u64>() {
        return Ok(Some(v.into()));
    }
    let Ok(v) = text.parse::<f64>() else { return Ok(None) };
    let digits = text.trim_start_matches(['+', '-']);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Error::bad(format!(
            "{text} is no integer of 64 bits; give one from {} to {}, or a float: {text}.0",
            i64::MIN,
            u64::MAX
        )));
    }
    if v.is_infinite() && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(Error::bad(format!(
            "{text} is beyond the greatest float; give one up to {:e}, or inf",
            f64::MAX
        )));
    }
    Ok(Some(v.into()))
}

/// Runs this command again with another runtime directory, which is read from the environment.
fn again_in(dir: &std::path::Path, option: &str) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let exe = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
    let dir = std::path::absolute(dir).map_err(|e| Error::io(format!("cannot use {}", dir.display()), e))?;
    let mut arguments = Vec::new();
    let mut given = std::env::args_os().skip(1);
    while let Some(a) = given.next() {
        if a == option {
            given.next();
        } else if !a.to_string_lossy().starts_with(&format!("{option}=")) {
            arguments.push(a);
        }
    }
    let failed = std::process::Command::new(exe).args(arguments).env(environment::RUNTIME_DIR, dir).exec();
    Err(Error::io("cannot start this program again", failed))
}

/// Of a word that is no command it is said which ones there are.
fn with_choice(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    // Behind the run of `forebay steer` it counts as one argument too many.
    let wrong = error.get(ContextKind::InvalidSubcommand).or(error.get(ContextKind::InvalidArg));
    let is_word = matches!(wrong, Some(ContextValue::String(word)) if !word.starts_with('-'));
    let all = Cli::command();
    let within = words.iter().fold(&all, |command, word| command.find_subcommand(word).unwrap_or(command));
    let kinds = [ErrorKind::InvalidSubcommand, ErrorKind::UnknownArgument];
    if !is_word || !within.has_subcommands() || !kinds.contains(&error.kind()) {
        return error;
    }
    let names = within.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
    let text = format!("there are {}", names.collect::<Vec<_>>().join(", "));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
    error
}

/// Reads the arguments and runs the command: exit status 0 done, 1 error (of `diff` 2), 2 usage.
pub fn main() -> ExitCode {
    let words = call::with_complex(steer::run_before_verb(std::env::args_os().collect()));
    let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| with_choice(error, &words).exit());
    let out = out::Out { json: cli.json };
    wait::watch();
    match cli.command.run(&out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out.fail(&error);
            // As diff(1): 1 says that there are differences.
            ExitCode::from(if matches!(cli.command, Command::Diff(_)) { 2 } else { 1 })
        }
    }
}
