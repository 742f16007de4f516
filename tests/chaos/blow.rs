//! The blows: who is killed or stopped, and what has to come of it.

use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_host::{Process, process};
use rustix::process::Signal;

use crate::dice::Dice;
use crate::stage::Stage;

/// Who is hurt, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blow {
    Client,
    StopClient,
    Agent,
    StopAgent,
    AgentAndClient,
    AgentAndRank,
    Rank,
    StopRank,
    Server,
    StopServer,
    Recovery,
}

impl Blow {
    /// How many processes it kills, at least.
    pub fn kills(self, ranks: u32) -> u32 {
        match self {
            Blow::StopClient | Blow::StopAgent | Blow::StopRank | Blow::StopServer => 0,
            Blow::Client | Blow::Agent | Blow::Rank | Blow::Server => 1,
            Blow::AgentAndRank => 2,
            Blow::AgentAndClient | Blow::Recovery => 1 + ranks,
        }
    }
}

/// What is to be done after a blow.
#[derive(Clone, Copy, PartialEq)]
pub enum After {
    /// The program has to go on as if nothing had happened.
    GoesOn,
    /// It may be told by an error.
    MayBeTold,
    /// It is started again.
    Restart,
}

fn send(process: Option<Process>, signal: Signal) -> bool {
    process.is_some_and(|p| process::signal(&p, signal).is_ok())
}

/// Stops a process for a while, mostly short, sometimes longer than a heart may be silent.
fn stop(process: Option<Process>, dice: &mut Dice) {
    let pause = match dice.below(10) {
        0 => Duration::from_millis(1_300 + dice.below(600)),
        _ => Duration::from_millis(10 + dice.below(400)),
    };
    send(process, Signal::STOP);
    std::thread::sleep(pause);
    send(process, Signal::CONT);
}

/// Strikes.
pub fn strike(stage: &mut Stage, dice: &mut Dice, blow: Blow) -> Result<After, String> {
    let victim = dice.below(u64::from(stage.size)) as usize;
    let rank = stage.ranks.get(victim).and_then(|c| Process::of_pid(c.id()));
    Ok(match blow {
        Blow::Client | Blow::Rank => {
            send(rank, Signal::KILL);
            std::thread::sleep(Duration::from_micros(dice.below(30_000)));
            After::Restart
        }
        Blow::Agent => {
            send(stage.agent(), Signal::KILL);
            After::GoesOn
        }
        Blow::AgentAndClient | Blow::AgentAndRank => {
            let mut both = [stage.agent(), rank];
            if dice.below(2) == 0 {
                both.reverse();
            }
            for process in both {
                send(process, Signal::KILL);
            }
            if blow == Blow::AgentAndClient {
                stage.kill_ranks();
            }
            std::thread::sleep(Duration::from_micros(dice.below(60_000)));
            After::Restart
        }
        Blow::StopAgent => {
            stop(stage.agent(), dice);
            After::MayBeTold
        }
        Blow::StopClient | Blow::StopRank => {
            stop(rank, dice);
            After::GoesOn
        }
        Blow::Server => {
            let at = dice.below(2) as usize;
            send(Process::of_pid(stage.servers[at].id()), Signal::KILL);
            let _ = stage.servers[at].wait();
            stage.start_server(at)?;
            After::GoesOn
        }
        Blow::StopServer => {
            stop(Process::of_pid(stage.servers[dice.below(2) as usize].id()), dice);
            After::GoesOn
        }
        Blow::Recovery => {
            // In this order: ranks that live would start another agent.
            stage.kill_ranks();
            send(stage.agent(), Signal::KILL);
            for _ in 0..1 + dice.below(3) {
                recovery(stage, Some(Duration::from_micros(dice.below(40_000))))?;
            }
            if dice.below(2) == 0 {
                recovered(stage)?;
            }
            After::Restart
        }
    })
}

/// `forebay recover`, killed after a while or not at all; says what it wrote to its error output.
fn recovery(stage: &Stage, killed_after: Option<Duration>) -> Result<Option<String>, String> {
    let exe = std::env::var("FOREBAY_EXE").unwrap_or_default();
    let mut command = Command::new(exe);
    command.arg("recover").arg(stage.dir.join("chaos.fb")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("forebay recover: {e}"))?;
    if let Some(after) = killed_after {
        std::thread::sleep(after);
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// A recovery that comes to its end: a reader sees all that was acknowledged.
fn recovered(stage: &Stage) -> Result<(), String> {
    let acknowledged = stage.acknowledged();
    let failed = recovery(stage, None)?;
    match failed {
        Some(text) if acknowledged >= 0 => Err(format!("forebay recover failed: {text}")),
        // There was no run yet.
        Some(_) => Ok(()),
        None if stage.listed() <= acknowledged => Err(format!(
            "lost: step {acknowledged} was acknowledged, and after forebay recover there are {} steps",
            stage.listed()
        )),
        None => Ok(()),
    }
}
