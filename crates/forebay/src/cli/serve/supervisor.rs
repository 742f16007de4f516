//! Who starts the process that loads a library, and starts it again when a routine has ended it.
//!
//! ```text
//! supervisor --- board: which routines run, in shared memory
//!            --- output: what the child prints goes through pipes, and what it left there goes on when it has died
//!            --- child: loads the library, serves; dies with the supervisor
//! ```
//! The supervisor has no library and no client, so nothing of theirs can end it. A routine that has run in three deaths
//! is offered no more; the rest serves on. Of a library with `threads process` there are as many children as there would be
//! workers, each a server with one worker.

use super::{Serve, library};
use forebay::serve::tell_of_death;
use forebay::{Error, Result};
use forebay_foreign::board;
use forebay_host::output::Pipe;
use forebay_host::wait::pause_before;
use forebay_host::{environment, lock};
use forebay_idl::{Library, NATIVE};
use forebay_types::ending;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// After so long a life the waiting begins anew.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// So many deaths, and a routine is withdrawn; so many before anything is served, and all is given up.
const DEATHS: u32 = 3;
/// Most children.
const MOST: u32 = 1_024;
/// How long the child may take to its end.
const GRACE: Duration = Duration::from_secs(15);
/// Bytes of its last lines that the broker is told.
const TOLD: usize = 3 * 1024;
/// Stacks of its threads: automatic arrays of Fortran lie there.
const STACK: &str = "67108864";

enum Heard {
    Ended(ExitStatus),
    Signal,
}

/// What all children have in common.
struct Shared {
    library: Library,
    losses: Mutex<Losses>,
    /// Who starts a child: what that one is handed no other one may get.
    starts: Mutex<()>,
}

#[derive(Default)]
struct Losses {
    withdrawn: Vec<String>,
    /// Deaths in which a routine ran.
    deaths: HashMap<u32, u32>,
}

/// Who watches one child.
struct Supervisor<'a> {
    shared: &'a Shared,
    board: File,
    tell: Sender<Heard>,
    events: Receiver<Heard>,
}

/// Serves until a signal comes; ends with the child's status when it could not begin.
pub fn run(options: &Serve, idl: &Path) -> Result<()> {
    let read = library::read(idl)?;
    library::path_of(options, &read, idl)?;
    let shared = Shared { library: read, losses: Mutex::default(), starts: Mutex::default() };
    let count = if shared.library.has_processes() { options.workers.unwrap_or(1).max(1) } else { 1 };
    if count > MOST {
        return Err(Error::bad(format!("--workers {count} are more than {MOST} processes; give less")));
    }
    let supervisors: Vec<Supervisor> = (0..count).map(|_| Supervisor::new(&shared)).collect::<Result<_>>()?;
    let all: Vec<Sender<Heard>> = supervisors.iter().map(|s| s.tell.clone()).collect();
    // Who does not hear any more has ended.
    let tell_all = move || all.iter().for_each(|tell| drop(tell.send(Heard::Signal)));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Error::io("cannot listen for signals", e))?;
    let heard = tell_all.clone();
    thread("signals", move || signals.forever().for_each(|_| heard()))?;
    if options.stop_with_stdin {
        forebay_host::parent::die_with_stdin({
            move || {
                tell_all();
                std::thread::sleep(GRACE);
            }
        })?;
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = supervisors.into_iter().map(|mut s| scope.spawn(move || s.serve())).collect();
        let gone = |_| Err(Error::internal("a thread that watched a child has panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(gone))
    })
}

impl<'a> Supervisor<'a> {
    fn new(shared: &'a Shared) -> Result<Supervisor<'a>> {
        let board = memfd_create("forebay-board", MemfdFlags::CLOEXEC)
            .and_then(|fd| ftruncate(&fd, board::BYTES).map(|()| File::from(fd)))
            .map_err(|e| Error::io("cannot make the board of the server", e))?;
        let (tell, events) = channel();
        Ok(Supervisor { shared, board, tell, events })
    }

    fn serve(&mut self) -> Result<()> {
        let (mut restarts, mut unready) = (0, 0);
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
            let seen = board::read_from(&self.board)?;
            match status.code() {
                // A routine that ends the process says so by what runs.
                Some(0) if seen.routines.is_empty() => return Ok(()),
                Some(code) if seen.incarnation.is_none() => std::process::exit(code),
                _ => (),
            }
            unready = if seen.incarnation.is_some() { 0 } else { unready + 1 };
            if unready == DEATHS {
                return Err(Error::bad(format!(
                    "the library ended its process {DEATHS} times while it was loaded ({status}); try `forebay serve --check`"
                )));
            }
            restarts = if began.elapsed() > LONG_LIFE { 1 } else { restarts + 1 };
            let waits = pause_before(restarts);
            let withdrawn = self.count(&seen.routines);
            self.tell_of_death(status, &seen, &withdrawn, waits, &last_lines);
            if let Ok(Heard::Signal) | Err(RecvTimeoutError::Disconnected) = self.events.recv_timeout(waits) {
                return Ok(());
            }
        }
    }

    fn start(&self, output: &mut [Pipe; 2]) -> Result<Child> {
        let exe = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
        // A program that was installed anew since this process began goes on as the one that it was.
        let exe = if exe.is_file() { exe } else { PathBuf::from("/proc/self/exe") };
        let board = self.board.try_clone().map_err(|e| Error::io("cannot hand the board over", e))?;
        let mut command = Command::new(exe);
        let _alone = lock(&self.shared.starts);
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
            .envs(self.shared.library.settings.env.iter().map(|(name, value)| (name, value)));
        let withdrawn = &lock(&self.shared.losses).withdrawn;
        if !withdrawn.is_empty() {
            command.args(["--withdrawn", &withdrawn.join(",")]);
        }
        let child = command.spawn().map_err(|e| Error::io("cannot start the process of the library", e));
        handed_over(output, false)?;
        child
    }

    /// Counts a death; gives the routines that have ended too many lives now.
    fn count(&self, routines: &BTreeSet<u32>) -> Vec<String> {
        let mut losses = lock(&self.shared.losses);
        let mut withdrawn = Vec::new();
        for number in routines {
            let deaths = losses.deaths.entry(*number).or_default();
            *deaths += 1;
            if *deaths == DEATHS
                && let Some(routine) = self.shared.library.routines.get(*number as usize)
            {
                withdrawn.push(routine.name.clone());
            }
        }
        losses.withdrawn.extend_from_slice(&withdrawn);
        withdrawn
    }

    /// Says what has happened.
    fn tell_of_death(
        &self,
        status: ExitStatus,
        seen: &board::Seen,
        withdrawn: &[String],
        waits: Duration,
        last_lines: &str,
    ) {
        let name = |number: &u32| self.shared.library.routines.get(*number as usize).map(|r| r.name.clone());
        let names: Vec<String> = seen.routines.iter().filter_map(name).collect();
        let within = if names.is_empty() { String::new() } else { format!(" in {}", names.join(", ")) };
        let how = format!("{}{within}", how_ended(status));
        if let Some(incarnation) = seen.incarnation {
            let said = match ending(last_lines.trim_end(), TOLD) {
                "" => String::new(),
                said => format!("; at last it wrote to standard error:\n{said}"),
            };
            let both = |name: &String| [name.clone(), format!("{NATIVE}{name}")];
            tell_of_death(
                None,
                incarnation,
                &format!("{how}{said}"),
                withdrawn.iter().flat_map(both).collect(),
            );
        }
        eprintln!(
            "forebay serve: the process of the library has died: {how}; it is started again in {:.1} s",
            waits.as_secs_f64()
        );
        for name in withdrawn {
            eprintln!("forebay serve: {name} ran in {DEATHS} deaths and is withdrawn; the rest serves on");
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

/// How a process has ended, for people: a signal, or a call of `exit`, which no routine should make.
pub fn how_ended(status: ExitStatus) -> String {
    let exit = || status.code().map_or_else(|| status.to_string(), |code| format!("exit({code})"));
    status.signal().map_or_else(exit, signal_name)
}

/// The name of a signal, for people.
fn signal_name(number: i32) -> String {
    let name = |s: Signal| match s {
        // What the C library calls otherwise.
        Signal::ABORT => "SIGABRT".to_owned(),
        s => format!("{s:?}").replace("Signal::", "SIG").replace('"', ""),
    };
    Signal::from_named_raw(number).map_or_else(|| format!("signal {number}"), name)
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    thread.map(drop).map_err(|e| Error::io("cannot start a thread", e))
}
