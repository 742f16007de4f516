//! Services of a Python file: Python itself serves them.

use super::Serve;
use forebay::{Code, Error, Result};
use forebay_host::environment;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Becomes the Python that serves.
pub fn serve(options: &Serve, file: &Path) -> Result<()> {
    if !file.is_file() {
        return Err(Error::new(
            Code::NotFound,
            format!("there is no file {}; check the name", file.display()),
        ));
    }
    let python = python();
    let mut command = Command::new(&python);
    command.args(["-c", SERVE, "serve"]).arg(file);
    if let Some(workers) = options.workers {
        command.arg("--workers").arg(workers.to_string());
    }
    if let Some(name) = &options.name {
        command.arg("--name").arg(name);
    }
    if let Some(memory) = &options.memory {
        command.arg("--memory").arg(memory);
    }
    if let Some(scratch) = &options.scratch {
        command.arg("--scratch").arg(scratch);
    }
    if let Some(listen) = &options.listen {
        command.arg("--listen").arg(listen);
    }
    if options.restart {
        command.arg("--restart");
    }
    if options.stop_with_stdin {
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
