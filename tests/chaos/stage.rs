//! The stage of one round: its directories and names, its processes, and what is left of it afterwards.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_agent::Address;
use forebay_host::{Process, directories, process};
use rustix::process::Signal;

use crate::program::{Part, acknowledged, highest, read_log};
use crate::tongues::Tongue;

/// Longer than anything here lasts unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(25);

/// What a round has.
pub struct Stage {
    pub dir: PathBuf,
    pub size: u32,
    pub calls: bool,
    /// In which language each rank is played.
    pub tongues: Vec<Tongue>,
    pub ranks: Vec<Child>,
    pub servers: Vec<Child>,
    /// Steps that were only in segments when everybody was dead, and were there afterwards.
    pub recovered: i64,
    starts: u32,
}

impl Stage {
    pub fn new(dir: &Path, tongues: Vec<Tongue>, calls: bool) -> Stage {
        Stage {
            dir: dir.to_owned(),
            size: tongues.len() as u32,
            calls,
            tongues,
            ranks: Vec::new(),
            servers: Vec::new(),
            recovered: 0,
            starts: 0,
        }
    }

    fn start(&self, tongue: Tongue, role: &str) -> Command {
        let mut command = tongue.command();
        command.env("CHAOS_ROLE", role).env("CHAOS_DIR", &self.dir).env("CHAOS_SIZE", self.size.to_string());
        command.env("CHAOS_CALLS", if self.calls { "1" } else { "" });
        command
    }

    /// The part that rank 0 plays.
    pub fn part(&self) -> Part {
        Part {
            dir: self.dir.clone(),
            rank: 0,
            size: self.size,
            calls: self.calls,
            acknowledged: self.acknowledged(),
            calm: false,
        }
    }

    /// Starts all ranks.
    pub fn start_ranks(&mut self) -> Result<(), String> {
        let acknowledged = self.acknowledged().to_string();
        self.start_all("CHAOS_ACKNOWLEDGED", &acknowledged)
    }

    /// The same, with one more variable for each.
    fn start_all(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.starts += 1;
        for rank in 0..self.size {
            let mut command = self.start(self.tongues[rank as usize], "rank");
            command.env("CHAOS_RANK", rank.to_string()).env("CHAOS_START", self.starts.to_string());
            command.env(name, value).stdin(Stdio::null()).stdout(Stdio::null());
            self.ranks.push(command.spawn().map_err(|e| e.to_string())?);
        }
        Ok(())
    }

    /// Starts a server, in place of one that was killed; ready when this returns.
    pub fn start_server(&mut self, at: usize) -> Result<(), String> {
        let mut command = self.start(Tongue::Rust, "server");
        command.env("CHAOS_RANK", at.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("a server without output")?;
        BufReader::new(output).read_line(&mut line).map_err(|e| e.to_string())?;
        if line.trim() != "serving" {
            return Err(format!("a server did not come up: {line:?}"));
        }
        match self.servers.get_mut(at) {
            Some(old) => *old = child,
            None => self.servers.push(child),
        }
        Ok(())
    }

    /// Kills every rank that is still there, as a launcher does when one of its ranks is gone.
    pub fn kill_ranks(&mut self) {
        for mut child in self.ranks.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Plays the same undisturbed, up to step `last`, in a directory of its own.
    pub fn start_twin(&self, last: i64) -> Result<Stage, String> {
        let dir = self.dir.join("twin");
        let written =
            std::fs::create_dir(&dir).and_then(|()| std::fs::write(dir.join("stop"), last.to_string()));
        written.map_err(|e| e.to_string())?;
        let mut twin = Stage::new(&dir, vec![Tongue::Rust; self.size as usize], self.calls);
        twin.start_all("CHAOS_CALM", "1")?;
        Ok(twin)
    }

    /// The last step that all ranks were told is kept.
    pub fn acknowledged(&self) -> i64 {
        (0..self.size).map(|r| acknowledged(&read_log(&self.dir, r))).min().unwrap_or(-1)
    }

    /// How many steps a reader sees.
    pub fn listed(&self) -> i64 {
        let reader = forebay_store::Reader::open(&self.dir.join("chaos.fb"));
        reader.and_then(|r| r.steps()).map_or(0, |steps| steps.len() as i64)
    }

    /// How far the slowest rank has come.
    pub fn progress(&self) -> i64 {
        (0..self.size).map(|r| highest(&read_log(&self.dir, r), 'E')).min().unwrap_or(-1)
    }

    /// Which step rank 0 went back to, the last time.
    pub fn back(&self) -> i64 {
        let log = read_log(&self.dir, 0);
        log.iter().rev().find(|l| l.0 == 'o').and_then(|l| l.1.parse().ok()).unwrap_or(-1)
    }

    /// Of which kind the last line of rank 0 is.
    pub fn last_kind(&self) -> Option<char> {
        read_log(&self.dir, 0).last().map(|l| l.0)
    }

    /// What the last line of rank 0 says.
    pub fn moment(&self) -> String {
        let log = read_log(&self.dir, 0);
        log.last().map_or("the beginning".into(), |(kind, what)| format!("{kind} {what}"))
    }

    /// The exit status of a rank that has ended.
    pub fn ended(&mut self) -> Option<i32> {
        let statuses = self.ranks.iter_mut().filter_map(|c| c.try_wait().ok().flatten());
        // Worst first: what is lost counts before what was told.
        statuses.map(|s| s.code().unwrap_or(-9)).max()
    }

    /// The agent that lives, if one does.
    pub fn agent(&self) -> Option<Process> {
        let address =
            directories::rendezvous().ok().and_then(|p| Address::read(&p)).filter(Address::alive)?;
        Process::of_pid(address.pid)
    }

    /// Ends what is left; says what should not be there.
    pub fn clear(&mut self) -> Vec<String> {
        self.kill_ranks();
        for child in &mut self.servers {
            drop(child.stdin.take());
            let until = Instant::now() + Duration::from_secs(5);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let mut left = Vec::new();
        let until = Instant::now() + PATIENCE;
        while let Some(agent) = self.agent() {
            let _ = forebay_agent::down(false, Duration::from_secs(5));
            if Instant::now() > until {
                left.push(format!("agent {} does not leave", agent.pid));
                let _ = process::signal(&agent, Signal::KILL);
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        left.extend(leftovers());
        left
    }
}

/// Processes of the round whose names in shared memory begin with `prefix`.
pub fn processes(prefix: &str) -> Vec<Process> {
    let mark = format!("FOREBAY_SHM_PREFIX={prefix}");
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = all.filter(|entry| {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == mark.as_bytes())
    });
    let pids = ours.filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok()));
    pids.filter(|pid| *pid != std::process::id()).filter_map(Process::of_pid).collect()
}

/// Processes, segments and sockets of this round.
fn leftovers() -> Vec<String> {
    let prefix = std::env::var("FOREBAY_SHM_PREFIX").unwrap_or_default();
    let mut left: Vec<String> = processes(&prefix).iter().map(|p| format!("process {}", p.pid)).collect();
    let segments = std::fs::read_dir(directories::shm_dir()).into_iter().flatten().flatten();
    left.extend(
        segments
            .map(|f| f.file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with(&format!("{prefix}-"))),
    );
    let sockets = directories::runtime_dir().ok().and_then(|d| std::fs::read_dir(d).ok());
    for file in sockets.into_iter().flatten().flatten() {
        // Who is killed cannot take its socket away; whoever comes next does.
        if std::os::unix::net::UnixStream::connect(file.path()).is_ok() {
            left.push(file.file_name().to_string_lossy().into_owned());
        }
    }
    left
}
