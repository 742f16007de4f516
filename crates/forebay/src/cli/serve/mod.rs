//! `forebay serve`: offers services, those of a Python file or the routines of a compiled library.

mod check;
mod library;
mod python;
mod supervisor;

use super::out::Out;
use forebay::{Error, Result};
use std::path::PathBuf;

/// Offer services, until Ctrl-C: those of a Python file, or the routines of a compiled library.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  forebay serve poisson1d.py --workers 2\n  forebay serve poisson1d.py --restart\n  forebay serve solver.py --scratch /scratch/me:50GiB\n  forebay serve libopenblas.so.0 --idl blas.fbi\n  forebay serve --check blas.fbi"
)]
pub struct Serve {
    /// The Python file with functions marked @fb.service; with --idl the library, unless the interface file names it.
    #[arg(required_unless_present_any = ["idl", "check"])]
    file: Option<PathBuf>,
    /// The interface file of a compiled library: what its routines take and give.
    #[arg(long, value_name = "FILE")]
    idl: Option<PathBuf>,
    /// Look whether an interface file can be true: whether it can be read, and the library has its symbols.
    #[arg(long, value_name = "FILE", conflicts_with = "idl")]
    check: Option<PathBuf>,
    /// With --check: call its routines with small arguments, all or the one that is named, and see whether they keep to
    /// their arrays.
    #[arg(long, value_name = "ROUTINE", num_args = 0..=1, default_missing_value = "", requires = "check")]
    call: Option<String>,
    /// The one routine that this process tries.
    #[arg(long, hide = true)]
    trial: Option<String>,
    /// It may read a little behind its arrays.
    #[arg(long, hide = true)]
    slack: bool,
    /// Threads that compute.
    #[arg(long)]
    workers: Option<u32>,
    /// Name of the server, for people.
    #[arg(long)]
    name: Option<String>,
    /// Memory for arrays that clients refer to, as 4GiB; half of the machine's if not given.
    #[arg(long)]
    memory: Option<String>,
    /// Where files of calls are kept while they are needed, and how much of them: DIR:SIZE, as /scratch/me:50GiB. 10 GiB in
    /// the directory for temporary files if not given.
    #[arg(long, value_name = "DIR:SIZE")]
    scratch: Option<String>,
    /// Listen for clients of other hosts: tcp://HOST:PORT of this host, port 0 for any. By default at
    /// any port when the agent listens or is on another host.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Start the services again when something has ended their process, after 0.1 s to 30 s. That of a library always is.
    #[arg(long)]
    restart: bool,
    /// End when standard input is closed, so as not to outlive the program that started it.
    #[arg(long)]
    stop_with_stdin: bool,
    /// The process of the supervisor: this one loads the library.
    #[arg(long, hide = true, value_name = "PID")]
    child_of: Option<u32>,
    /// Descriptors of the supervisor's for what it prints.
    #[arg(long, hide = true, value_delimiter = ',')]
    output: Vec<i32>,
    /// Routines that are offered no more.
    #[arg(long, hide = true, value_delimiter = ',')]
    withdrawn: Vec<String>,
}

impl Serve {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        if let Some(file) = &self.check {
            return check::run(self, file, out);
        }
        match (&self.idl, self.child_of) {
            (Some(idl), None) => supervisor::run(self, idl),
            (Some(idl), Some(parent)) => library::run(self, idl, parent),
            (None, _) => self.python(),
        }
    }

    fn python(&self) -> Result<()> {
        let Some(file) = &self.file else { return Err(Error::bad("give a file to serve")) };
        if file.extension().is_some_and(|e| e == "py") {
            return python::serve(self, file);
        }
        let shown = file.display();
        let known = |ending: &str| file.extension().is_some_and(|e| e == ending);
        Err(Error::bad(match known("fbi") {
            true => format!("{shown} is an interface file; write forebay serve --idl {shown}"),
            false => format!(
                "{shown} is no Python file; give a file of Python with functions marked @fb.service, or of a compiled \
                 library its interface file, too: forebay serve LIBRARY.so --idl FILE.fbi"
            ),
        }))
    }
}
