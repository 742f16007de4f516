//! `forebay run`: one command starts everything, watches over it and clears all away at the end.
//!
//! ```text
//!  forebay run --- agent                started by need, and told to go at the end if it was
//!              --- server, server, ...  started again when they die, ended last
//!              --- program              or its ranks; its end is the end of all, its status ours
//! ```
//!
//! Two kinds of events come through one channel: a part has ended, a signal has come.

mod crew;
mod tied;

use super::out::Out;
use crew::{Crew, Event, Role, is_in_the_foreground, status_of};
use forebay::call::Client;
use forebay::{Code, Error, Result};
use forebay_host::environment;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

pub use tied::Tied;

/// A server that has offered nothing by then is named.
const QUIET: Duration = Duration::from_secs(2);
/// Between two looks whether a server has announced itself.
const LOOK: Duration = Duration::from_millis(50);
/// How long ranks may take to end in order when one of them has failed, and servers at the end.
const GRACE: Duration = Duration::from_secs(10);
/// How long calls of the program wait for a server that is started again, in seconds.
const PATIENCE: &str = "30";

/// Run a program with its servers, and clear all away at the end.
#[derive(clap::Args)]
#[command(
    after_help = "Its exit status is that of the program. Signals are passed on to the program. When this command is\nkilled itself, its servers and the program get SIGTERM.\n\nExample:\n  forebay run --server 'forebay serve poisson1d.py' -- python two_stream.py\n  forebay run -- mpiexec -n 4 ./two_stream"
)]
pub struct Run {
    /// A simple command that offers services, for the shell; again for more servers.
    #[arg(long = "server", value_name = "COMMAND")]
    servers: Vec<String>,
    /// Start the program so many times, as ranks of one run that know number and size.
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N")]
    ranks: u32,
    /// How often a server that dies is started again.
    #[arg(long, default_value_t = 3, value_name = "N")]
    restarts: u32,
    /// Seconds that a server may take until it offers something.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    wait: f64,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

impl Run {
    /// Does it; ends this process with the program's status.
    pub fn run(&self, out: &Out) -> Result<()> {
        if self.ranks == 0 || self.ranks as usize > forebay::limits::RANKS {
            return Err(Error::bad(format!("{} ranks are not possible; give 1 or more", self.ranks)));
        }
        let wait = super::seconds(self.wait)?;
        let began = Instant::now();
        let was_up = forebay_agent::running()?.is_some();
        // Our own connection keeps an agent that was started by need.
        let client = forebay::connect(None)?;
        let mut crew = Crew::new()?;
        let ended = self.everything(&mut crew, &client, wait, out);
        crew.end_servers(GRACE);
        drop(client);
        if !was_up {
            // Whoever else uses it by now keeps it.
            let _ = forebay_agent::down(false, Duration::from_secs(600));
        }
        let status = ended?;
        if out.json {
            out.value(&summary(&crew, status, began.elapsed()))?;
        }
        std::process::exit(status)
    }

    fn everything(&self, crew: &mut Crew, client: &Client, wait: Duration, out: &Out) -> Result<i32> {
        for (number, command) in self.servers.iter().enumerate() {
            crew.start(Role::Server(number), &shell(command), &[])?;
        }
        if let Some(signal) = self.await_servers(crew, client, wait, out)? {
            return Ok(128 + signal);
        }
        for rank in 0..self.ranks {
            crew.start(Role::Rank(rank), &self.program, &self.variables(rank))?;
        }
        self.watch(crew, out)
    }

    /// What a rank finds in its environment.
    fn variables(&self, rank: u32) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        if self.ranks > 1 {
            variables.push((environment::RANK, rank.to_string()));
            variables.push((environment::RANKS, self.ranks.to_string()));
        }
        if !self.servers.is_empty() && !environment::is_set(environment::PATIENCE) {
            variables.push((environment::PATIENCE, PATIENCE.to_owned()));
        }
        if let (false, Ok(exe)) = (environment::is_set(environment::EXE), std::env::current_exe()) {
            variables.push((environment::EXE, exe.display().to_string()));
        }
        variables
    }

    /// Waits until each server offers something; a signal ends the waiting.
    fn await_servers(
        &self,
        crew: &mut Crew,
        client: &Client,
        wait: Duration,
        out: &Out,
    ) -> Result<Option<i32>> {
        let (began, mut said) = (Instant::now(), out.json);
        loop {
            let offered = client.services()?;
            let ready = |group: u32| offered.iter().flat_map(|o| &o.servers).any(|s| is_of(s.pid, group));
            let Some(late) = (0..self.servers.len()).find(|n| {
                let group = crew.pid(Role::Server(*n));
                group.is_none_or(|g| !ready(g))
            }) else {
                return Ok(None);
            };
            let command = &self.servers[late];
            if began.elapsed() > QUIET && !std::mem::replace(&mut said, true) {
                eprintln!(
                    "forebay run: waits for the server {command:?} to offer something, at most {} s",
                    self.wait
                );
            }
            if began.elapsed() > wait {
                return Err(Error::new(
                    Code::Timeout,
                    format!(
                        "the server {command:?} offers nothing after {} s; try it by itself, or give it longer with --wait",
                        self.wait
                    ),
                ));
            }
            match crew.events.recv_timeout(LOOK) {
                Ok(Event::Ended(Role::Server(n), status)) => {
                    crew.ended(Role::Server(n), status);
                    return Err(Error::new(
                        Code::NoServer,
                        format!(
                            "the server {:?} ended before it offered anything ({status}); try it by itself",
                            self.servers[n]
                        ),
                    ));
                }
                Ok(Event::Signal(signal)) if is_end(signal) => return Ok(Some(signal)),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("nobody tells of ends")),
            }
        }
    }

    /// Watches over all until the program has ended; its status.
    fn watch(&self, crew: &mut Crew, out: &Out) -> Result<i32> {
        let say = |text: String| {
            if !out.json {
                eprintln!("forebay run: {text}");
            }
        };
        let (mut first, mut deadline): (Option<i32>, Option<Instant>) = (None, None);
        while crew.live_ranks().next().is_some() {
            let event = match deadline {
                None => crew.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(d) => crew.events.recv_timeout(d.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Ended(part @ Role::Rank(rank), status)) => {
                    crew.ended(part, status);
                    if status_of(status) != 0 && first.is_none() {
                        first = Some(status_of(status));
                        let others = crew.live_ranks().count();
                        if others > 0 {
                            say(format!(
                                "rank {rank} has failed ({status}); the other {others} are told to end"
                            ));
                            crew.signal_ranks(SIGTERM);
                            deadline = Some(Instant::now() + GRACE);
                        }
                    }
                }
                Ok(Event::Ended(part @ Role::Server(number), status)) => {
                    let restarts = crew.ended(part, status);
                    let command = &self.servers[number];
                    if restarts < self.restarts {
                        say(format!("the server {command:?} has ended ({status}) and is started again"));
                        crew.start(part, &shell(command), &[])?;
                    } else {
                        say(format!(
                            "the server {command:?} has ended ({status}) and is not started again, after {restarts} times"
                        ));
                    }
                }
                // A terminal has sent it to the program, too.
                Ok(Event::Signal(SIGINT)) if is_in_the_foreground() => {}
                Ok(Event::Signal(signal)) => crew.signal_ranks(signal),
                Err(RecvTimeoutError::Timeout) => {
                    crew.signal_ranks(SIGKILL);
                    deadline = None;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("nobody tells of ends")),
            }
        }
        Ok(first.unwrap_or(0))
    }
}

/// A command of the user's shell, which becomes that command.
fn shell(command: &str) -> Vec<String> {
    vec!["/bin/sh".into(), "-c".into(), format!("exec {command}")]
}

/// Whether a process belongs to the group that a part leads.
fn is_of(pid: u32, group: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.and_then(|p| rustix::process::getpgid(Some(p)).ok())
        .is_some_and(|g| g.as_raw_nonzero().get() as u32 == group)
}

/// Whether a signal asks for an end.
fn is_end(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGTERM].contains(&signal)
}

fn summary(crew: &Crew, status: i32, took: Duration) -> Value {
    let how = |s: Option<ExitStatus>| s.map(status_of);
    let part = |p: &crew::Started| match p.part {
        Role::Rank(rank) => json!({"rank": rank, "pid": p.pid, "status": how(p.status)}),
        Role::Server(n) => {
            json!({"server": n, "pid": p.pid, "status": how(p.status), "restarts": p.restarts})
        }
    };
    json!({"status": status, "seconds": took.as_secs_f64(), "parts": crew.parts().map(part).collect::<Vec<_>>()})
}
