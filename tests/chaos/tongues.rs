//! The languages that the program is played in. Rust is this program itself; Python and C are there when
//! the driver was told to use them, with what `scripts/chaos` has built.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Whose program a rank runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tongue {
    Rust,
    Python,
    C,
}

impl Tongue {
    /// How it is called in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Tongue::Rust => "Rust",
            Tongue::Python => "Python",
            Tongue::C => "C",
        }
    }

    /// Whether the driver has made it available.
    pub fn spoken(self) -> bool {
        self == Tongue::Rust || std::env::var_os(self.variable()).is_some()
    }

    fn variable(self) -> &'static str {
        match self {
            Tongue::Rust => "",
            Tongue::Python => "CHAOS_PYTHON",
            Tongue::C => "CHAOS_C",
        }
    }

    /// The command that plays the part.
    pub fn command(self) -> Command {
        let program = std::env::var_os(self.variable()).unwrap_or_default();
        match self {
            Tongue::Rust => Command::new(std::env::current_exe().unwrap_or_default()),
            Tongue::C => Command::new(program),
            Tongue::Python => {
                let mut command = Command::new(program);
                command.arg(here().join("program.py"));
                command
            }
        }
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("chaos")
}

/// What a round is given beside Rust: an interpreter that has the package, and `program.c` compiled into
/// `dir` against the library beside this program.
pub fn prepare(dir: &Path) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let root = here().join("../..");
    let python = root.join(".venv/bin/python");
    let has_package = Command::new(&python).args(["-c", "import forebay"]).status();
    if !has_package.is_ok_and(|s| s.success()) {
        return Err(format!("{} has no package forebay; run scripts/build", python.display()));
    }
    let this = std::env::current_exe().unwrap_or_default();
    let libraries = this.ancestors().nth(2).unwrap_or(Path::new("")).to_owned();
    let (program, library) = (dir.join("program"), libraries.join("libforebay.so"));
    // Under the name by which programs find it when it is installed.
    std::os::unix::fs::symlink(&library, dir.join("libforebay.so.0")).map_err(|e| e.to_string())?;
    let status = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"])
        .arg(here().join("program.c"))
        .arg(format!("-I{}", root.join("bindings/c/include").display()))
        .arg(format!("-L{}", libraries.display()))
        .arg(format!("-Wl,-rpath,{}", dir.display()))
        .args(["-lforebay", "-o"])
        .arg(&program)
        .status();
    match status {
        Ok(s) if s.success() => {
            Ok(vec![(Tongue::Python.variable(), python), (Tongue::C.variable(), program)])
        }
        _ => Err(format!(
            "program.c cannot be built with cc and {}; run cargo build --release -p forebay-c",
            library.display()
        )),
    }
}
