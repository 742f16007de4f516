//! The process that loads a library and serves its routines. It does nothing else, for the library may end it.

use super::Serve;
use forebay::serve::{Body, Call, Host, Server, Signals};
use forebay::{Error, Result, parse_bytes, parse_scratch};
use forebay_foreign::{Loaded, board};
use forebay_host::output::Output;
use forebay_idl::{IDL, Library};
use forebay_types::Signature;
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
    text(idl).and_then(|(name, text)| Library::parse(&name, &text))
}

/// The name of an interface file, and what stands in it.
fn text(idl: &Path) -> Result<(String, String)> {
    let text = std::fs::read_to_string(idl)
        .map_err(|e| Error::io(format!("cannot read the interface file {}", idl.display()), e))?;
    let name = idl.file_name().unwrap_or(idl.as_os_str()).to_string_lossy();
    Ok((name.into_owned(), text))
}

/// The service that tells of which file the others are.
fn tells(name: String, text: String) -> Result<(Signature, Box<Body>)> {
    let signature = Signature::of(IDL, "out name:str, out text:str")?;
    let body = move |call: &mut Call| {
        call.arg(0)?.set_bytes(name.as_bytes())?;
        call.arg(1)?.set_bytes(text.as_bytes())
    };
    Ok((signature, Box::new(body)))
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
    let (file, text) = text(idl)?;
    let library = Library::parse(&file, &text)?;
    let path = path_of(options, &library, idl)?;
    let loaded = Loaded::open(&path)?;
    let name = options.name.clone().unwrap_or_else(|| {
        Path::new(&path).file_name().map_or_else(|| path.clone(), |n| n.to_string_lossy().into_owned())
    });
    let mut server = Server::new(&name).supervised().output(output.clone());
    // With a process for each worker this one has one.
    if let Some(workers) = if library.has_processes() { Some(1) } else { options.workers } {
        server = server.workers(workers as usize);
    }
    if let Some(memory) = &options.memory {
        server = server.memory(parse_bytes(memory)?);
    }
    if let Some(scratch) = &options.scratch {
        let (dir, bytes) = parse_scratch(scratch)?;
        server = server.scratch(&dir, bytes);
    }
    if let Some(listen) = &options.listen {
        server = server.listen(listen)?;
    }
    let host = Arc::new(Host::new(server)?);
    let services = loaded.services(&library, &options.withdrawn)?;
    for (signature, body) in services.into_iter().chain([tells(file, text)?]) {
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
    // Calls may run already, and this is no word of theirs.
    output.tell(&format!("forebay: {routines} of {path} offered by {name} (process {})", std::process::id()));
    let served = host.serve(None, &Signals::Check(&|| Ok(())));
    loaded.end();
    served
}
