//! The command line: one file a command, which holds its options and what it does.

mod cp;
mod get;
mod ls;
mod npy;
mod out;
mod pick;
mod print;
mod put;
mod rm;
mod show;
mod table;

use clap::{Parser, Subcommand};
use forebay::Result;
use std::process::ExitCode;

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
    Ls(ls::Ls),
    Show(show::Show),
    Get(get::Get),
    Put(put::Put),
    Cp(cp::Cp),
    Mv(cp::Mv),
    Rm(rm::Rm),
    Table(table::Table),
    Sql(table::Sql),
}

impl Command {
    fn run(&self, out: &out::Out) -> Result<()> {
        match self {
            Command::Ls(c) => c.run(out),
            Command::Show(c) => c.run(out),
            Command::Get(c) => c.run(out),
            Command::Put(c) => c.run(out),
            Command::Cp(c) => c.run(out),
            Command::Mv(c) => c.run(out),
            Command::Rm(c) => c.run(out),
            Command::Table(c) => c.run(out),
            Command::Sql(c) => c.run(out),
        }
    }
}

/// Reads the arguments and runs the command: exit status 0 done, 1 error, 2 usage.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = out::Out { json: cli.json };
    match cli.command.run(&out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out.fail(&error);
            ExitCode::FAILURE
        }
    }
}
