//! The process that loads a library and serves its routines. It does nothing else, for the library may end it.

use super::Serve;
use forebay::serve::{Host, Server, Signals};
use forebay::{Error, Result, parse_bytes};
use forebay_foreign::{Loaded, board};
use forebay_host::output::Output;
use forebay_idl::Library;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a routine that runs may take to its end when the server is to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Reads an interface file.
pub fn read(idl: &Path) -> Result<Library> {
    let text = std::fs::read_to_string(idl)
        .map_err(|e| Error::io(format!("cannot read the interface file {}", idl.display()), e))?;
    let name = idl.file_name().unwrap_or(idl.as_os_str()).to_string_lossy();
    Library::parse(&name, &text)
}

/// What is loaded: the library of the command line, or else the one that the file names.
pub fn path_of(options: &Serve, library: &Library, idl: &Path) -> Result<String> {
    let given = options.file.as_ref().map(|file| file.to_string_lossy().into_owned());
    given.or_else(|| library.settings.library.clone()).ok_or_else(|| {
        Error::bad(format!(
            "which library? {} names none; write `set library \"libx.so\"` in it, or give it before --idl",
            idl.display()
        ))
    })
}

/// Loads the library and serves until it is told to stop. The standard input is the board of the supervisor.
pub fn run(options: &Serve, idl: &Path, parent: u32) -> Result<()> {
    forebay_host::parent::stop_with_parent(parent)?;
    let board = std::io::stdin().as_fd().try_clone_to_owned();
    let board = board.map_err(|e| Error::io("cannot keep the board of the supervisor", e))?;
    board::write_to(&File::from(board))?;
    // Before it is loaded, for a library may look whether it prints to a terminal.
    let output = Output::adopt(&options.output)?;
    let library = read(idl)?;
    let path = path_of(options, &library, idl)?;
    let loaded = Loaded::open(&path)?;
    let name = options.name.clone().unwrap_or_else(|| {
        Path::new(&path).file_name().map_or_else(|| path.clone(), |n| n.to_string_lossy().into_owned())
    });
    let mut server = Server::new(&name).supervised().output(output);
    if let Some(workers) = options.workers {
        server = server.workers(workers as usize);
    }
    if let Some(memory) = &options.memory {
        server = server.memory(parse_bytes(memory)?);
    }
    if let Some(listen) = &options.listen {
        server = server.listen(listen)?;
    }
    let host = Arc::new(Host::new(server)?);
    for (signature, body) in loaded.services(&library, &options.withdrawn)? {
        host.add(signature, body)?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Error::io("cannot listen for signals", e))?;
    let stopping = host.clone();
    let listen = move || {
        if signals.forever().next().is_some() {
            stopping.ask_to_stop();
            std::thread::sleep(GRACE);
            std::process::exit(0);
        }
    };
    let thread = std::thread::Builder::new().name("signals".into()).spawn(listen);
    thread.map_err(|e| Error::io("cannot start a thread", e))?;
    host.start(None)?;
    host.incarnation().into_iter().for_each(board::say_ready);
    let routines = forebay_types::counted(library.routines.len() - options.withdrawn.len(), "routine");
    eprintln!("forebay: {routines} of {path} offered by {name} (process {})", std::process::id());
    host.serve(None, &Signals::Check(&|| Ok(())))
}
