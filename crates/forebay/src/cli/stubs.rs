//! `forebay stubs`: sources, or a library, that call the routines of an interface file at servers.

use clap::{Args, ValueEnum};
use forebay::call::{Client, Only, Value};
use forebay::{Code, Error, Result};
use forebay_host::environment;
use forebay_idl::{IDL, Library};
use forebay_link::Locator;
use forebay_types::directory::ServerInfo;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{installed, out::Out};

/// How long a server may take to tell its interface file.
const ASKED: Duration = Duration::from_secs(10);

/// Write functions that call the routines of an interface file at a server.
///
/// With --native they have the symbols and calling sequences of the library itself, so that a program that is linked
/// against them, or runs with them in front (LD_PRELOAD), is not changed at all. Without it they are functions of the
/// language with types and errors.
#[derive(Args)]
#[command(after_help = help())]
pub(super) struct Stubs {
    /// The language of the functions.
    #[arg(long, value_enum, default_value_t = Language::C)]
    lang: Language,
    /// Keep the library's own symbols and calling sequences.
    #[arg(long)]
    native: bool,
    /// Build this shared library instead of writing the source; with --native.
    #[arg(long, value_name = "LIBRARY.so", requires = "native")]
    build: Option<PathBuf>,
    /// The compiler of --build.
    #[arg(long, value_name = "COMMAND", default_value = "cc", requires = "build")]
    cc: String,
    /// Further symbols of each routine: "%s" for dgemm beside dgemm_, "%s__" for dgemm__; with --native.
    #[arg(long, value_name = "PATTERN", requires = "native")]
    also: Vec<String>,
    /// The interface file, or a service of a library or the name of its server, which is asked for its file.
    #[arg(value_name = "FILE.fbi|SERVICE")]
    file: String,
}

fn help() -> String {
    format!(
        "Native stubs read {} (remote, auto, off), {} (operations) and {} (a file).\n\n\
         Example:\n  forebay stubs --native --build libforebay_blas.so blas.fbi\n  \
         LD_PRELOAD=./libforebay_blas.so ./program\n  forebay stubs --native --also %s --also %s__ --build libforebay_blas.so blas.fbi\n  \
         forebay stubs --lang python blas.fbi > blas_remote.py\n  forebay stubs --lang python dgemm > blas_remote.py",
        environment::STUBS,
        environment::STUBS_MIN,
        environment::STUBS_REPORT
    )
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    C,
    Fortran,
    Python,
    #[value(name = "c++")]
    Cplusplus,
}

impl Stubs {
    pub(super) fn run(&self, out: &Out) -> Result<()> {
        let (name, text) = match self.file.ends_with(".fbi") || Path::new(&self.file).is_file() {
            true => {
                let read = std::fs::read_to_string(&self.file);
                (self.file.clone(), read.map_err(|e| Error::io(format!("cannot read {}", self.file), e))?)
            }
            false => asked(&self.file)?,
        };
        let library = Library::parse(&name, &text)?;
        let source = self.source(&library, &name)?;
        let Some(target) = &self.build else {
            return out.line(source.trim_end());
        };
        build(&source, target, &self.cc)
    }

    fn source(&self, library: &Library, file: &str) -> Result<String> {
        match (self.lang, self.native) {
            (Language::C, true) => forebay_stubs::native(library, file, &self.also),
            (_, true) => Err(Error::bad(
                "native stubs are one library for every language; write them with --lang c, or leave --native out",
            )),
            (Language::C, false) => Ok(forebay_stubs::c(library, file)),
            (Language::Cplusplus, false) => Ok(forebay_stubs::cplusplus(library, file)),
            (Language::Fortran, false) => forebay_stubs::fortran(library, file),
            (Language::Python, false) => Ok(forebay_stubs::python(library, file)),
        }
    }
}

/// The interface file of a library that is served, asked of a server that offers the service or has the name.
fn asked(service: &str) -> Result<(String, String)> {
    let client = Client::connect(Locator::at(None))?;
    let services = client.services()?;
    let tellers = services.iter().find(|s| s.signature.name().as_str() == IDL);
    let tellers = tellers.map(|s| s.servers.as_slice()).unwrap_or_default();
    let of_service = services.iter().find(|s| s.signature.name().as_str() == service);
    let offering = of_service.map(|s| s.servers.as_slice()).unwrap_or_default();
    let is_it = |server: &&ServerInfo| {
        server.name == service || offering.iter().any(|o| o.incarnation == server.incarnation)
    };
    let server = tellers.iter().find(is_it).ok_or_else(|| {
        Error::new(
            Code::NotFound,
            format!(
                "{service:?} is neither a file, nor a service or the name of a server of a compiled library; \
                 `forebay services` lists what is offered, and an interface file ends in .fbi"
            ),
        )
    })?;
    match client.on(Only::Name(server.name.clone())).call(IDL, Vec::new(), Some(ASKED))?.as_slice() {
        [Value::Str(file), Value::Str(text)] => Ok((file.clone(), text.clone())),
        _ => Err(Error::internal("an interface file is two texts")),
    }
}

/// Compiles a source into a shared library that is linked with the C library of this installation.
fn build(source: &str, target: &Path, compiler: &str) -> Result<()> {
    let dir = tempfile_beside(target)?;
    let file = dir.join("stubs.c");
    std::fs::write(&file, source).map_err(|e| Error::io(format!("cannot write {}", file.display()), e))?;
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O2", "-fno-builtin", "-o"]).arg(target).arg(&file);
    if let Some(beside) = installed::beside_command() {
        command.args(beside.includes()).args(beside.links());
    }
    command.args(["-lforebay", "-ldl", "-lpthread"]);
    let ran = command.status();
    std::fs::remove_dir_all(&dir).map_err(|e| Error::io(format!("cannot remove {}", dir.display()), e))?;
    match ran {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::bad(format!(
            "{compiler} ended with {status}, see above; it finds forebay.h and libforebay.so beside an installed command, \
             else where CPATH and LIBRARY_PATH say"
        ))),
        Err(e) => {
            Err(Error::io(format!("cannot run {compiler:?}; install a C compiler, or name one with --cc"), e))
        }
    }
}

/// A new directory beside a file that is to be made, so that both lie where there is room.
fn tempfile_beside(target: &Path) -> Result<PathBuf> {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let dir = PathBuf::from(name);
    std::fs::create_dir(&dir).map_err(|e| Error::io(format!("cannot make {}", dir.display()), e))?;
    Ok(dir)
}
