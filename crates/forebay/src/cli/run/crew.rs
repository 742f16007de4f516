//! The parts that a master has started, and what it hears of them.
//!
//! Servers lead process groups of their own, so that Ctrl-C of a terminal does not reach them; the
//! program stays in the master's, so that it does. All are started by the main thread: the kernel
//! ties their lives to the thread that started them.

use forebay::{Error, Result};
use forebay_host::{Process, directories, process, sockets};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What a process is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server of that number.
    Server(usize),
    /// The program, or this rank of it.
    Rank(u32),
}

/// What the master hears.
pub enum Event {
    /// A part has ended.
    Ended(Role, ExitStatus),
    /// A signal has come to the master.
    Signal(i32),
}

/// A part that was started.
pub struct Started {
    /// What it is.
    pub part: Role,
    /// Its process number, also that of a server's group.
    pub pid: u32,
    /// How it ended, if it has.
    pub status: Option<ExitStatus>,
    /// How often it was started again.
    pub restarts: u32,
    process: Option<Process>,
    /// Closed at its end: servers may end with their standard input.
    stdin: Option<ChildStdin>,
}

/// All parts.
pub struct Crew {
    /// What is heard.
    pub events: Receiver<Event>,
    tell: Sender<Event>,
    parts: Vec<Started>,
}

impl Crew {
    /// Nobody yet; signals are heard from here on.
    pub fn new() -> Result<Crew> {
        let (tell, events) = channel();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
            .map_err(|e| Error::io("cannot listen for signals", e))?;
        let heard = tell.clone();
        let listen = move || {
            for signal in signals.forever() {
                if heard.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        };
        thread("signals", listen)?;
        Ok(Crew { events, tell, parts: Vec::new() })
    }

    /// Starts a part, or starts it again.
    pub fn start(&mut self, part: Role, words: &[String], variables: &[(&str, String)]) -> Result<()> {
        let exe = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
        let mut command = Command::new(exe);
        command.arg("tied").arg(std::process::id().to_string()).args(words);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        match part {
            // What a server says is news, not the program's output.
            Role::Server(_) => {
                command.process_group(0).stdin(Stdio::piped()).stdout(std::io::stderr());
            }
            Role::Rank(0) => {}
            Role::Rank(_) => {
                command.stdin(Stdio::null());
            }
        }
        let mut child =
            command.spawn().map_err(|e| Error::io(format!("cannot start {}", words.join(" ")), e))?;
        let (pid, stdin) = (child.id(), child.stdin.take());
        let process = Process::of_pid(pid);
        let tell = self.tell.clone();
        thread("wait", move || {
            if let Ok(status) = child.wait() {
                // A master that does not hear any more has ended.
                let _ = tell.send(Event::Ended(part, status));
            }
        })?;
        match self.parts.iter_mut().find(|p| p.part == part) {
            Some(again) => {
                let restarts = again.restarts + 1;
                *again = Started { part, pid, status: None, restarts, process, stdin };
            }
            None => self.parts.push(Started { part, pid, status: None, restarts: 0, process, stdin }),
        }
        Ok(())
    }

    /// Notes the end of a part; how often it was started again.
    pub fn ended(&mut self, part: Role, status: ExitStatus) -> u32 {
        let Some(known) = self.parts.iter_mut().find(|p| p.part == part) else { return 0 };
        known.status = Some(status);
        if let Role::Server(_) = part {
            // It may have been killed.
            let _ = directories::runtime_dir().map(|dir| sockets::sweep_sockets(&dir));
        }
        known.restarts
    }

    /// Everything that was started.
    pub fn parts(&self) -> impl Iterator<Item = &Started> {
        self.parts.iter()
    }

    /// The process of a part that has not ended.
    pub fn pid(&self, part: Role) -> Option<u32> {
        self.parts.iter().find(|p| p.part == part && p.status.is_none()).map(|p| p.pid)
    }

    /// Ranks that have not ended.
    pub fn live_ranks(&self) -> impl Iterator<Item = &Started> {
        self.parts.iter().filter(|p| matches!(p.part, Role::Rank(_)) && p.status.is_none())
    }

    /// Passes a signal on to the program.
    pub fn signal_ranks(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        for known in self.live_ranks() {
            // One that ends this moment needs none.
            let _ = known.process.as_ref().map(|p| process::signal(p, signal));
        }
    }

    /// Ends the servers: in order, and after `grace` for good.
    pub fn end_servers(&mut self, grace: Duration) {
        self.signal_servers(Signal::TERM);
        let until = Instant::now() + grace;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !self.parts.iter().any(is_live_server) {
                break;
            }
            match self.events.recv_timeout(left) {
                Ok(Event::Ended(part, status)) => drop(self.ended(part, status)),
                Ok(Event::Signal(_)) => {}
                Err(_) => break,
            }
        }
        // What a server started belongs to its group.
        self.signal_servers(Signal::KILL);
    }

    fn signal_servers(&mut self, signal: Signal) {
        for known in self.parts.iter_mut().filter(|p| matches!(p.part, Role::Server(_))) {
            known.stdin = None;
            let group = i32::try_from(known.pid).ok().and_then(Pid::from_raw);
            // The group of one that has ended may be empty.
            let _ = group.map(|g| kill_process_group(g, signal));
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.signal_ranks(Signal::TERM.as_raw());
        self.end_servers(Duration::from_secs(1));
        self.signal_ranks(Signal::KILL.as_raw());
    }
}

fn is_live_server(known: &Started) -> bool {
    matches!(known.part, Role::Server(_)) && known.status.is_none()
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    thread.map(drop).map_err(|e| Error::io("cannot start a thread", e))
}

/// The status as a shell would give it: 128 and the signal for who was ended by one.
pub fn status_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Whether the master is of the group that gets what is typed, as Ctrl-C.
pub fn is_in_the_foreground() -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/self/stat") else { return false };
    // After the name in brackets: state, parent, group, session, terminal, the terminal's group.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let words: Vec<&str> = after.split_ascii_whitespace().collect();
    words.len() > 5 && words[4] != "0" && words[2] == words[5]
}
