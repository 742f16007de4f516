//! One round: a scene is set, its processes are killed or stopped at random moments, and after each kill
//! the program must go on, or be told and be started again. At the end everything is read and compared.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_arena::{Process, process};
use rustix::process::Signal;
use serde_json::json;

use crate::dice::Dice;
use crate::program::{LOST, Part, TOLD, check_all, read_log};
use crate::stage::{PATIENCE, Stage};

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scene {
    /// One rank that owns its run itself.
    Embedded,
    /// One rank and an agent.
    Agent,
    /// Four ranks and an agent.
    Ranks,
    /// One rank, an agent, two servers.
    Servers,
}

/// Who is hurt, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    Client,
    StopClient,
    Agent,
    StopAgent,
    AgentAndClient,
    AgentAndRank,
    Rank,
    Server,
    StopServer,
    Recovery,
}

impl Scene {
    fn blows(self) -> &'static [Blow] {
        use Blow::{Agent, AgentAndClient, AgentAndRank, Client, Rank, Recovery, Server};
        use Blow::{StopAgent, StopClient, StopServer};
        match self {
            Scene::Embedded => &[Client, Client, StopClient, Recovery, Recovery],
            Scene::Agent => &[Client, Agent, Agent, AgentAndClient, StopAgent, StopClient, Recovery],
            Scene::Ranks => &[Rank, Agent, Agent, AgentAndRank, AgentAndClient, StopAgent],
            Scene::Servers => &[Server, Server, StopServer, Agent, Client],
        }
    }
}

/// Plays a round with so many blows; each is printed as a line of JSON, the last line is the end.
pub fn play(dir: &Path, seed: u64, blows: u32) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let scene = [Scene::Embedded, Scene::Agent, Scene::Ranks, Scene::Servers][dice.below(4) as usize];
    let mut stage = Stage::new(dir, if scene == Scene::Ranks { 4 } else { 1 }, scene == Scene::Servers);
    let done = scenes(&mut stage, &mut dice, scene, blows);
    let logs = if done.is_err() { tails(&stage) } else { String::new() };
    let left = stage.clear();
    let fault = match done {
        Ok(last) => {
            let part = Part { dir: dir.to_owned(), rank: 0, size: stage.size, calls: false };
            match check_all(&part) {
                Ok(found) if found == last => None,
                Ok(found) => Some(format!("the last step is {found}, not {last}")),
                Err(e) => Some(e.text().to_owned()),
            }
        }
        Err(e) => Some(format!("{e}\n{logs}")),
    };
    let end = json!({"scene": format!("{scene:?}"), "fault": fault, "left": left});
    println!("{end}");
    Ok(())
}

fn tails(stage: &Stage) -> String {
    let tail = |rank| {
        let log = read_log(&stage.dir, rank);
        let lines = log.iter().skip(log.len().saturating_sub(6)).map(|(k, w)| format!("    {rank}: {k} {w}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    (0..stage.size).map(tail).collect::<Vec<_>>().join("\n")
}

fn scenes(stage: &mut Stage, dice: &mut Dice, scene: Scene, blows: u32) -> Result<i64, String> {
    if scene != Scene::Embedded {
        forebay_agent::start_to_stay().map_err(|e| e.to_string())?;
    }
    if stage.calls {
        stage.start_server(0)?;
        stage.start_server(1)?;
    }
    stage.start_ranks()?;
    for _ in 0..blows {
        // A moment of the beginning, of the first steps, or later.
        std::thread::sleep(Duration::from_micros(dice.below(150_000)));
        let moment = stage.moment();
        let blow = scene.blows()[dice.below(scene.blows().len() as u64) as usize];
        let began = Instant::now();
        let how = strike(stage, dice, blow)?;
        let went = go_on(stage, blow, how)?;
        let line = json!({
            "scene": format!("{scene:?}"), "blow": format!("{blow:?}"), "moment": moment, "found": went,
            "ms": began.elapsed().as_millis() as u64,
        });
        println!("{line}");
    }
    finish(stage)
}

/// What is to be done after a blow.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// The program has to go on as if nothing had happened.
    GoesOn,
    /// It may be told by an error.
    MayBeTold,
    /// It is started again.
    Restart,
}

fn kill(process: Option<Process>, signal: Signal) -> bool {
    process.is_some_and(|p| process::signal(&p, signal).is_ok())
}

fn strike(stage: &mut Stage, dice: &mut Dice, blow: Blow) -> Result<After, String> {
    let victim = dice.below(u64::from(stage.size)) as usize;
    let rank = |stage: &Stage| stage.ranks.get(victim).and_then(|c| Process::of_pid(c.id()));
    let pause = match dice.below(10) {
        0 => Duration::from_millis(1_300 + dice.below(600)),
        _ => Duration::from_millis(10 + dice.below(400)),
    };
    Ok(match blow {
        Blow::Client | Blow::Rank => {
            kill(rank(stage), Signal::KILL);
            std::thread::sleep(Duration::from_micros(dice.below(30_000)));
            After::Restart
        }
        Blow::Agent => {
            kill(stage.agent(), Signal::KILL);
            After::GoesOn
        }
        Blow::AgentAndClient | Blow::AgentAndRank => {
            let agent = stage.agent();
            if dice.below(2) == 0 {
                kill(agent, Signal::KILL);
                kill(rank(stage), Signal::KILL);
            } else {
                kill(rank(stage), Signal::KILL);
                kill(agent, Signal::KILL);
            }
            if blow == Blow::AgentAndClient {
                stage.kill_ranks();
            }
            std::thread::sleep(Duration::from_micros(dice.below(60_000)));
            After::Restart
        }
        Blow::StopAgent | Blow::StopClient => {
            let process = if blow == Blow::StopAgent { stage.agent() } else { rank(stage) };
            kill(process, Signal::STOP);
            std::thread::sleep(pause);
            kill(process, Signal::CONT);
            if blow == Blow::StopAgent { After::MayBeTold } else { After::GoesOn }
        }
        Blow::Server => {
            let at = dice.below(2) as usize;
            kill(Process::of_pid(stage.servers[at].id()), Signal::KILL);
            let _ = stage.servers[at].wait();
            stage.start_server(at)?;
            After::GoesOn
        }
        Blow::StopServer => {
            let server = Process::of_pid(stage.servers[dice.below(2) as usize].id());
            kill(server, Signal::STOP);
            std::thread::sleep(pause);
            kill(server, Signal::CONT);
            After::GoesOn
        }
        Blow::Recovery => {
            if let Some(agent) = stage.agent() {
                kill(Some(agent), Signal::KILL);
            }
            stage.kill_ranks();
            for _ in 0..1 + dice.below(3) {
                killed_recovery(stage, Duration::from_micros(dice.below(40_000)))?;
            }
            After::Restart
        }
    })
}

/// `forebay recover`, killed after a while.
fn killed_recovery(stage: &Stage, after: Duration) -> Result<(), String> {
    let exe = std::env::var("FOREBAY_EXE").unwrap_or_default();
    let mut command = Command::new(exe);
    command.arg("recover").arg(stage.dir.join("chaos.fb")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("forebay recover: {e}"))?;
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().map(drop).map_err(|e| e.to_string())
}

/// Waits until every rank has taken two more steps; starts the program again where it may end.
fn go_on(stage: &mut Stage, blow: Blow, after: After) -> Result<&'static str, String> {
    let mut found = "went on";
    if after == After::Restart {
        stage.kill_ranks();
        stage.start_ranks()?;
        found = "restarted";
    }
    let goal = stage.progress() + 2;
    let until = Instant::now() + PATIENCE;
    while stage.progress() < goal {
        match stage.ended() {
            Some(LOST) => return Err(format!("lost after {blow:?}")),
            Some(TOLD) if after == After::MayBeTold => {
                stage.kill_ranks();
                stage.start_ranks()?;
                found = "told";
            }
            Some(status) => return Err(format!("a rank ended with {status} after {blow:?}")),
            None => {}
        }
        if Instant::now() > until {
            return Err(format!("nothing goes on after {blow:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(found)
}

/// Lets the program come to its end; says which step is the last one.
fn finish(stage: &mut Stage) -> Result<i64, String> {
    let last = stage.progress() + 6;
    // By rename, so that no rank reads half of it.
    let (new, stop) = (stage.dir.join("stop.new"), stage.dir.join("stop"));
    std::fs::write(&new, last.to_string())
        .and_then(|()| std::fs::rename(&new, &stop))
        .map_err(|e| e.to_string())?;
    let until = Instant::now() + PATIENCE;
    let mut running = std::mem::take(&mut stage.ranks);
    while !running.is_empty() {
        let mut still = Vec::new();
        for mut child in running {
            match child.try_wait().map_err(|e| e.to_string())? {
                None => still.push(child),
                Some(status) if status.success() => {}
                Some(status) => {
                    stage.ranks = still;
                    return Err(format!("a rank ended with {status} at the end"));
                }
            }
        }
        running = still;
        if Instant::now() > until {
            stage.ranks = running;
            return Err("the end does not come".into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(last)
}
