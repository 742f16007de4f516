//! The command `forebay`. Each subcommand is a file of `cli/`; this only hands over.
#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
