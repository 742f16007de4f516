//! Processes: who they are, and whether they live.
//!
//! A pid alone says nothing, since pids are given again and every pid name space (a container,
//! mostly) counts for itself: a process is its pid, the name space that counts it, the time it
//! started (in clock ticks since boot) and the boot it started in. What processes of other name
//! spaces do cannot be seen from here; whether they live is told by what they hold: a connection,
//! or the lock of a segment they made.

use crate::fork::own_pid;
use crate::identity::{boot_id, boot_id_text};
use forebay_types::line::Launched;
use forebay_types::{Code, Error, Result, crc32c};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The identity of a process on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The pid name space that counts it so, by its number in the kernel; 0 stands for the own one.
    pub space: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Which boot of the host.
    pub boot_id: [u8; 16],
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs, or could.
    Running,
    /// It is stopped (SIGSTOP, a debugger) and does nothing.
    Stopped,
    /// It has ended, or was never of this boot.
    Gone,
    /// It is of another pid name space, whose processes cannot be seen from here.
    Hidden,
}

/// What helps with a process that is stopped, for people.
pub fn go_on_or_end(pid: u32) -> String {
    format!("let it go on with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`")
}

/// What this process knows of pid name spaces.
struct Sight {
    /// The number of its own in the kernel; 0 when it cannot be told.
    space: u32,
    /// Whether `/proc` counts processes as this one does. Where it was mounted for another name space,
    /// the numbers in it are not ours, and nobody is seen.
    sees: bool,
}

impl Sight {
    /// Looked up once a process: the child of a fork may be of another name space.
    fn own() -> Sight {
        static KEPT: AtomicU64 = AtomicU64::new(0); // pid << 33 | sees << 32 | space
        let (pid, kept) = (own_pid(), KEPT.load(Ordering::Relaxed));
        if kept >> 33 == u64::from(pid) {
            return Sight { space: kept as u32, sees: kept >> 32 & 1 == 1 };
        }
        let sees = std::fs::read_link("/proc/self").is_ok_and(|p| p.as_os_str() == pid.to_string().as_str());
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        // pid:[4026531836]
        let number = link.to_str().and_then(|t| t.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
        let space = number.unwrap_or(0);
        KEPT.store(u64::from(pid) << 33 | u64::from(sees) << 32 | u64::from(space), Ordering::Relaxed);
        Sight { space, sees }
    }

    /// Whether processes of that name space are seen.
    fn reaches(&self, space: u32) -> bool {
        self.sees && (space == 0 || space == self.space)
    }
}

impl Process {
    /// This process.
    pub fn current() -> Process {
        let pid = std::process::id();
        let start_time = stat("self").ok().flatten().map_or(0, |(_, t)| t);
        Process { pid, space: Sight::own().space, start_time, boot_id: boot_id() }
    }

    /// The process that has that number now, if any.
    pub fn of_pid(pid: u32) -> Option<Process> {
        let sight = Sight::own();
        let (state, start_time) = stat(&pid.to_string()).ok()?.filter(|_| sight.sees)?;
        (state != ProcessState::Gone).then(|| Process {
            pid,
            space: sight.space,
            start_time,
            boot_id: boot_id(),
        })
    }

    /// Whether no process of this name space has that number, for certain.
    pub fn is_gone(pid: u32) -> bool {
        let seen = stat(&pid.to_string());
        Sight::own().sees && seen.is_ok_and(|seen| seen.is_none_or(|(state, _)| state == ProcessState::Gone))
    }

    /// What it does now.
    pub fn state(&self) -> ProcessState {
        if self.boot_id != boot_id() {
            return ProcessState::Gone;
        }
        if !Sight::own().reaches(self.space) {
            return ProcessState::Hidden;
        }
        match stat(&self.pid.to_string()) {
            Ok(Some((state, start_time))) if start_time == self.start_time => state,
            Ok(_) => ProcessState::Gone,
            // Whoever may open no more files sees nobody, and nobody has died of that.
            Err(_) => ProcessState::Hidden,
        }
    }

    /// Whether it has not ended, as far as can be seen; a stopped process lives, and a hidden one may.
    pub fn alive(&self) -> bool {
        self.state() != ProcessState::Gone
    }
}

/// How a process came to be, if it and its parent live and that is not the first of all: what a launcher has
/// started on a host has one parent.
pub fn launched(pid: u32) -> Option<Launched> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let parent: u32 = text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let by = Process::of_pid(parent).filter(|p| p.pid > 1)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|line| !line.is_empty())?;
    Some(Launched {
        by: format!("{}:{}:{}:{}", boot_id_text(), by.space, by.pid, by.start_time),
        program: crc32c(&line),
    })
}

/// State and start time out of `/proc/PID/stat`, or that there is no such process; the name in it may hold spaces
/// and brackets.
fn stat(pid: &str) -> io::Result<Option<(ProcessState, u64)>> {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(text) => Ok(parse_stat(&String::from_utf8_lossy(&text))),
        // It may end between the opening and the reading, too.
        Err(e) if e.kind() == io::ErrorKind::NotFound || Errno::from_io_error(&e) == Some(Errno::SRCH) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn parse_stat(text: &str) -> Option<(ProcessState, u64)> {
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = match words.next()? {
        "T" | "t" => ProcessState::Stopped,
        "Z" | "X" | "x" => ProcessState::Gone,
        _ => ProcessState::Running,
    };
    Some((state, words.nth(18)?.parse().ok()?))
}

/// How long ago this process began.
pub fn age() -> std::time::Duration {
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let begun = Process::current().start_time as f64 / ticks as f64;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9;
    std::time::Duration::try_from_secs_f64(now - begun).unwrap_or_default()
}

/// Sends a signal to a process if it still is the one meant.
pub fn signal(process: &Process, signal: Signal) -> Result<()> {
    if !process.alive() {
        return Err(Error::new(Code::NotFound, format!("process {} has ended already", process.pid)));
    }
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::bad(format!("{} is no process number", process.pid)))?;
    rustix::process::kill_process(pid, signal)
        .map_err(|e| Error::io(format!("cannot signal process {}", process.pid), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_a_namesake_of_another_time_does_not() {
        let me = Process::current();
        assert!(me.start_time > 0);
        assert_eq!(me.state(), ProcessState::Running);
        assert_eq!(Process::of_pid(me.pid), Some(me));
        assert!(!Process { start_time: me.start_time + 1, ..me }.alive());
        assert!(!Process { boot_id: [0; 16], ..me }.alive());
        let elsewhere = Process { space: me.space + 1, ..me };
        assert_eq!(elsewhere.state(), ProcessState::Hidden, "its number says nothing here");
    }

    #[test]
    fn a_stat_line_with_brackets_in_the_name_is_read() {
        let line = "7 (a) b) T 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1000";
        assert_eq!(parse_stat(line), Some((ProcessState::Stopped, 4242)));
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_stopped_child_is_told_from_a_dead_one() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of_pid(child.id()).unwrap();
        let until = |state| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while process.state() != state {
                assert!(std::time::Instant::now() < deadline, "never became {state:?}");
                std::thread::yield_now();
            }
        };
        signal(&process, Signal::STOP).unwrap();
        until(ProcessState::Stopped);
        signal(&process, Signal::KILL).unwrap();
        until(ProcessState::Gone);
        child.wait().unwrap();
        assert!(signal(&process, Signal::KILL).is_err());
    }
}
