//! `forebay serve`: offers services. Those of a Python file are served by Python itself.

use super::out::Out;
use forebay::{Code, Error, Result};
use forebay_host::environment;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Offer the services of a Python file, until Ctrl-C.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay serve poisson1d.py --workers 2")]
pub struct Serve {
    /// The Python file with functions marked @fb.service.
    file: PathBuf,
    /// Threads that compute.
    #[arg(long)]
    workers: Option<u32>,
    /// Name of the server, for people.
    #[arg(long)]
    name: Option<String>,
    /// Memory for arrays that clients refer to, as 4GiB; half of the machine's if not given.
    #[arg(long)]
    memory: Option<String>,
    /// Listen for clients of other hosts: tcp://HOST:PORT of this host, port 0 for any. By default at
    /// any port when the agent listens or is on another host.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// End when standard input is closed, so as not to outlive the program that started it.
    #[arg(long)]
    stop_with_stdin: bool,
}

impl Serve {
    /// Does it: becomes the Python that serves.
    pub fn run(&self, _out: &Out) -> Result<()> {
        if self.file.extension().is_none_or(|e| e != "py") {
            return Err(Error::bad(format!(
                "{} is no Python file; this version serves functions of .py files",
                self.file.display()
            )));
        }
        if !self.file.is_file() {
            return Err(Error::new(
                Code::NotFound,
                format!("there is no file {}; check the name", self.file.display()),
            ));
        }
        let python = python();
        let mut command = Command::new(&python);
        command.args(["-c", SERVE, "serve"]).arg(&self.file);
        if let Some(workers) = self.workers {
            command.arg("--workers").arg(workers.to_string());
        }
        if let Some(name) = &self.name {
            command.arg("--name").arg(name);
        }
        if let Some(memory) = &self.memory {
            command.arg("--memory").arg(memory);
        }
        if let Some(listen) = &self.listen {
            command.arg("--listen").arg(listen);
        }
        if self.stop_with_stdin {
            command.arg("--stop-with-stdin");
        }
        let failed = command.exec();
        Err(Error::io(
            format!(
                "cannot run {}; name a Python that has the package forebay in FOREBAY_PYTHON",
                python.display()
            ),
            failed,
        ))
    }
}

/// What that Python does: it says in our words when it has no such package.
const SERVE: &str = "\
import sys
try:
    from forebay.__main__ import main
except ModuleNotFoundError as e:
    if e.name != 'forebay':
        raise
    sys.exit(f'forebay: {sys.executable} has not the package forebay, which serves functions of Python; name a Python that has it in FOREBAY_PYTHON, or use the command forebay that lies beside it')
sys.exit(main())";

/// The Python that has our package: named by the environment, beside this program, or any.
fn python() -> PathBuf {
    if let Some(python) = environment::path(environment::PYTHON) {
        return python;
    }
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("python"));
    beside.filter(|p| p.is_file()).unwrap_or_else(|| Path::new("python3").to_owned())
}
