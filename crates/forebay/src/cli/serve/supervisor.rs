//! Who starts the process that loads a library, and starts it again when a routine has ended it.
//!
//! ```text
//! supervisor --- board: which routines run, in shared memory
//!            --- output: what the child prints goes through pipes, and what it left there goes on when it has died
//!            --- child: loads the library, serves; dies with the supervisor
//! ```
//! The supervisor has no library and no client, so nothing of theirs can end it. A routine that has run in three deaths
//! is offered no more; the rest serves on.

use super::{Serve, library};
use forebay::{Error, Result};
use forebay_foreign::board;
use forebay_host::output::Pipe;
use forebay_host::{directories, environment, sockets, wait::jitter};
use forebay_idl::Library;
use forebay_link::Locator;
use forebay_types::directory::BrokerRequest;
use forebay_types::ending;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Until the first start again; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// After so long a life the waiting begins anew.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// So many deaths, and a routine is withdrawn; so many before anything is served, and all is given up.
const DEATHS: u32 = 3;
/// How long the child may take to its end.
const GRACE: Duration = Duration::from_secs(15);
/// How long the broker may take to hear how the child died.
const TELL: Duration = Duration::from_secs(2);
/// Bytes of its last lines that the broker is told.
const TOLD: usize = 3 * 1024;
/// Stacks of its threads: automatic arrays of Fortran lie there.
const STACK: &str = "67108864";

enum Heard {
    Ended(ExitStatus),
    Signal,
}

struct Supervisor {
    library: Library,
    board: File,
    withdrawn: Vec<String>,
    /// Deaths in which a routine ran.
    deaths: HashMap<u32, u32>,
    tell: Sender<Heard>,
    events: Receiver<Heard>,
}

/// Serves until a signal comes; ends with the child's status when it could not begin.
pub fn run(options: &Serve, idl: &Path) -> Result<()> {
    let read = library::read(idl)?;
    library::path_of(options, &read, idl)?;
    let board = memfd_create("forebay-board", MemfdFlags::CLOEXEC)
        .and_then(|fd| ftruncate(&fd, board::BYTES).map(|()| File::from(fd)))
        .map_err(|e| Error::io("cannot make the board of the server", e))?;
    let (tell, events) = channel();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Error::io("cannot listen for signals", e))?;
    let heard = tell.clone();
    thread("signals", move || {
        signals.forever().take_while(|_| heard.send(Heard::Signal).is_ok()).for_each(drop)
    })?;
    if options.stop_with_stdin {
        forebay_host::parent::die_with_stdin({
            let tell = tell.clone();
            move || {
                let _ = tell.send(Heard::Signal);
                std::thread::sleep(GRACE);
            }
        })?;
    }
    let (withdrawn, deaths) = (Vec::new(), HashMap::new());
    Supervisor { library: read, board, withdrawn, deaths, tell, events }.serve()
}

impl Supervisor {
    fn serve(&mut self) -> Result<()> {
        let (mut wait, mut unready) = (FIRST_WAIT, 0);
        loop {
            board::clear(&self.board)?;
            let mut output = [Pipe::new()?, Pipe::new()?];
            let mut child = self.start(&mut output)?;
            let pid = child.id();
            let (tell, began) = (self.tell.clone(), Instant::now());
            thread("wait", move || {
                if let Ok(status) = child.wait() {
                    // Who does not hear any more has ended.
                    let _ = tell.send(Heard::Ended(status));
                }
            })?;
            let heard = self.events.recv();
            let (status, ended) = match heard {
                Ok(Heard::Ended(status)) => (Some(status), Ok(())),
                Ok(Heard::Signal) | Err(_) => (None, self.end(pid)),
            };
            let [out, err] = output;
            out.end(1);
            let last_lines = err.end(2);
            let Some(status) = status else { return ended };
            // It may have been killed.
            let _ = directories::runtime_dir().map(|dir| sockets::sweep_sockets(&dir));
            let seen = board::read_from(&self.board)?;
            match status.code() {
                Some(0) => return Ok(()),
                Some(code) if seen.incarnation.is_none() => std::process::exit(code),
                _ => (),
            }
            unready = if seen.incarnation.is_some() { 0 } else { unready + 1 };
            if unready == DEATHS {
                return Err(Error::bad(format!(
                    "the library ended its process {DEATHS} times while it was loaded ({status}); try `forebay serve --check`"
                )));
            }
            if began.elapsed() > LONG_LIFE {
                wait = FIRST_WAIT;
            }
            let waits = jitter(wait);
            self.tell_of_death(status, &seen, waits, &last_lines);
            if let Ok(Heard::Signal) | Err(RecvTimeoutError::Disconnected) = self.events.recv_timeout(waits) {
                return Ok(());
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn start(&self, output: &mut [Pipe; 2]) -> Result<Child> {
        let exe = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
        let board = self.board.try_clone().map_err(|e| Error::io("cannot hand the board over", e))?;
        let mut command = Command::new(exe);
        let handed: Vec<String> = handed_over(output, true)?.iter().map(i32::to_string).collect();
        command
            .args(std::env::args_os().skip(1).filter(|word| word != "--stop-with-stdin"))
            .args(["--child-of", &std::process::id().to_string(), "--output", &handed.join(",")])
            .stdin(Stdio::from(board))
            // Stubs of this very library would call themselves.
            .env_remove("LD_PRELOAD")
            .env(environment::STUBS, "off")
            .env("RUST_MIN_STACK", STACK)
            // What Fortran prints goes at once, as what C prints line by line: a crash takes nothing along.
            .env("GFORTRAN_UNBUFFERED_PRECONNECTED", "y")
            .envs(self.library.settings.env.iter().map(|(name, value)| (name, value)));
        if !self.withdrawn.is_empty() {
            command.args(["--withdrawn", &self.withdrawn.join(",")]);
        }
        let child = command.spawn().map_err(|e| Error::io("cannot start the process of the library", e));
        handed_over(output, false)?;
        child
    }

    /// Says what has happened, and withdraws what has ended too many lives.
    fn tell_of_death(&mut self, status: ExitStatus, seen: &board::Seen, waits: Duration, last_lines: &str) {
        let name = |number: &u32| self.library.routines.get(*number as usize).map(|r| r.name.clone());
        let mut numbers = seen.routines.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let names: Vec<String> = numbers.iter().filter_map(name).collect();
        let within = if names.is_empty() { String::new() } else { format!(" in {}", names.join(", ")) };
        let how = status.signal().map_or_else(|| status.to_string(), signal_name);
        let how = format!("{how}{within}");
        if let Some(incarnation) = seen.incarnation {
            let said = match ending(last_lines.trim_end(), TOLD) {
                "" => String::new(),
                said => format!("; at last it wrote to standard error:\n{said}"),
            };
            let died = BrokerRequest::Died { incarnation, how: format!("{how}{said}") };
            // Clients that hear nothing of it say what they know: that it died.
            let _ =
                Locator::at(None).connect("supervisor", TELL).and_then(|mut w| w.ask_with(&died, &[], TELL));
        }
        eprintln!(
            "forebay serve: the process of the library has died: {how}; it is started again in {:.1} s",
            waits.as_secs_f64()
        );
        for number in numbers {
            let deaths = self.deaths.entry(number).or_default();
            *deaths += 1;
            if *deaths == DEATHS
                && let Some(routine) = self.library.routines.get(number as usize)
            {
                eprintln!(
                    "forebay serve: {} ran in {DEATHS} deaths and is withdrawn; the rest serves on",
                    routine.name
                );
                self.withdrawn.push(routine.name.clone());
            }
        }
    }

    /// Ends the child in order, and for good if it takes too long.
    fn end(&self, pid: u32) -> Result<()> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::internal("a child without a number"))?;
        let _ = kill_process(pid, Signal::TERM);
        let until = Instant::now() + GRACE;
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Heard::Ended(_)) => return Ok(()),
                Ok(Heard::Signal) => (),
                Err(_) => {
                    let _ = kill_process(pid, Signal::KILL);
                    return Ok(());
                }
            }
        }
    }
}

/// The numbers of the descriptors that a child is handed, or what is left of them here when it has started.
fn handed_over(output: &mut [Pipe; 2], inherits: bool) -> Result<Vec<i32>> {
    let each = output.iter_mut().map(|pipe| pipe.hand_over(inherits));
    Ok(each.collect::<Result<Vec<_>>>()?.concat())
}

/// The name of a signal, for people.
pub fn signal_name(number: i32) -> String {
    Signal::from_named_raw(number).map_or_else(
        || format!("signal {number}"),
        |s| format!("{s:?}").replace("Signal::", "SIG").replace('"', ""),
    )
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    thread.map(drop).map_err(|e| Error::io("cannot start a thread", e))
}
