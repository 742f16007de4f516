//! A command that ends with this process: a signal that would end this one goes to all that the command has started, and
//! this one ends by it when it has tidied up.

use forebay::{Error, Result};
use forebay_host::lock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};

/// From its beginning on signals that would end this process are kept.
pub(super) struct Signals(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    came: Option<i32>,
    /// The process group of the command while it runs.
    group: Option<Pid>,
}

impl State {
    fn pass_on(&self, signal: i32) {
        if let (Some(group), Some(signal)) = (self.group, Signal::from_named_raw(signal)) {
            // All of it may have ended just now.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Signals that whoever started this process had it ignore, as nohup does: a bit for each, that of 1 the lowest.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

impl Signals {
    pub fn catch() -> Result<Signals> {
        let failed = |e| Error::io("cannot set up the handling of signals", e);
        let state: Arc<Mutex<State>> = Arc::default();
        let ignored = ignored();
        let heeded =
            [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut all = signal_hook::iterator::Signals::new(heeded).map_err(failed)?;
        let heard = state.clone();
        let hear = move || {
            for signal in all.forever() {
                let mut state = lock(&heard);
                state.came.get_or_insert(signal);
                state.pass_on(signal);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(hear).map_err(failed)?;
        Ok(Signals(state))
    }

    /// Runs a command to its end.
    pub fn run(&self, command: &mut Command) -> io::Result<ExitStatus> {
        let (mut child, group) = {
            let mut state = lock(&self.0);
            let child = command.process_group(0).spawn()?;
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            state.group = group;
            // One that came before there was a child to hear it.
            state.came.iter().for_each(|signal| state.pass_on(*signal));
            (child, group)
        };
        // It is looked at before its number is given to somebody else, who is sent nothing then.
        while let Some(pid) = group
            && let Err(Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {
        }
        lock(&self.0).group = None;
        child.wait()
    }

    /// Ends this process by the signal that came, if one did.
    pub fn obey(&self) {
        if let Some(signal) = lock(&self.0).came {
            let _ = emulate_default_handler(signal);
        }
    }
}
