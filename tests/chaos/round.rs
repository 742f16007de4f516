//! One round: a scene is set, its processes are killed or stopped at random moments, and after each blow
//! the program must go on, or be told and be started again. At the end everything is read, and compared
//! with an undisturbed run of the same length.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::blow::{After, Blow, strike};
use crate::check::check_all;
use crate::dice::Dice;
use crate::program::{LOST, Part, TOLD, read_log};
use crate::stage::{PATIENCE, Stage};
use crate::tongues::Tongue;
use crate::twin::compare;

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

impl Scene {
    fn blows(self) -> &'static [Blow] {
        use Blow::{Agent, AgentAndClient, AgentAndRank, Client, Rank, Recovery, Server};
        use Blow::{StopAgent, StopClient, StopRank, StopServer};
        match self {
            Scene::Embedded => &[Client, Client, StopClient, Recovery, Recovery],
            Scene::Agent => &[Client, Agent, Agent, AgentAndClient, StopAgent, StopClient, Recovery],
            Scene::Ranks => {
                &[Rank, Agent, Agent, AgentAndRank, AgentAndClient, StopAgent, StopRank, Recovery]
            }
            Scene::Servers => &[Server, Server, StopServer, Agent, Client],
        }
    }

    /// Who plays: often this program itself, which holds more against its log.
    fn tongues(self, dice: &mut Dice) -> Vec<Tongue> {
        let spoken = |t: Tongue| if t.spoken() { t } else { Tongue::Rust };
        let mixed = [Tongue::Rust, Tongue::C, Tongue::Python, Tongue::C];
        match (self, dice.below(4)) {
            (Scene::Ranks, 0 | 1) => mixed.map(spoken).to_vec(),
            (Scene::Ranks, _) => vec![Tongue::Rust; 4],
            (_, 0) => vec![spoken(Tongue::Python)],
            (_, 1) => vec![spoken(Tongue::C)],
            _ => vec![Tongue::Rust],
        }
    }
}

/// Plays a round with so many blows; each is printed as a line of JSON, the last line is the end.
pub fn play(dir: &Path, seed: u64, blows: u32) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let scene = [Scene::Embedded, Scene::Agent, Scene::Ranks, Scene::Servers][dice.below(4) as usize];
    let tongues = scene.tongues(&mut dice);
    let mut stage = Stage::new(dir, tongues, scene == Scene::Servers);
    let done = hurt(&mut stage, &mut dice, scene, blows).and_then(|last| whole(&stage, last));
    let (steps, fault) = match done {
        Ok(steps) => (steps, None),
        Err(e) => (0, Some(format!("{e}\n{}", tails(&stage)))),
    };
    let left = stage.clear();
    let reissued: i64 = reissued(&stage);
    let end = json!({
        "scene": format!("{scene:?}"), "steps": steps, "recovered": stage.recovered, "reissued": reissued,
        "fault": fault, "left": left,
    });
    println!("{end}");
    Ok(())
}

/// Reads all that is there, and compares it with the twin; says how many steps that were.
fn whole(stage: &Stage, last: i64) -> Result<usize, String> {
    let text = |e: forebay::Error| e.text().to_owned();
    let part = stage.part();
    let found = check_all(&part).map_err(text)?;
    if found != last {
        return Err(format!("the last step is {found}, not {last}"));
    }
    let mut twin = stage.start_twin(last)?;
    let ended = await_end(&mut twin);
    let calm = Part { calm: true, ..twin.part() };
    twin.kill_ranks();
    ended.map_err(|e| format!("undisturbed: {e}"))?;
    compare(&part, &calm).map_err(text)
}

/// Calls that were issued again.
fn reissued(stage: &Stage) -> i64 {
    let log = read_log(&stage.dir, 0);
    let calls = log.iter().filter(|l| l.0 == 'C').filter_map(|l| l.1.split(' ').nth(1)?.parse::<i64>().ok());
    calls.sum()
}

/// Lines of each rank that are shown of a round that went wrong.
const TAIL: usize = 30;

fn tails(stage: &Stage) -> String {
    let tail = |rank| {
        let log = read_log(&stage.dir, rank);
        let lines =
            log.iter().skip(log.len().saturating_sub(TAIL)).map(|(k, w)| format!("    {rank}: {k} {w}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    (0..stage.size).map(tail).collect::<Vec<_>>().join("\n")
}

fn hurt(stage: &mut Stage, dice: &mut Dice, scene: Scene, blows: u32) -> Result<i64, String> {
    if scene != Scene::Embedded {
        forebay_agent::start_to_stay().map_err(|e| e.to_string())?;
    }
    if stage.calls {
        stage.start_server(0)?;
        stage.start_server(1)?;
    }
    stage.start_ranks()?;
    for _ in 0..blows {
        await_moment(stage, dice);
        let moment = stage.moment();
        let blow = scene.blows()[dice.below(scene.blows().len() as u64) as usize];
        let began = Instant::now();
        let how = strike(stage, dice, blow)?;
        let went = go_on(stage, blow, how)?;
        let tongues: Vec<&str> = stage.tongues.iter().map(|t| t.name()).collect();
        let line = json!({
            "scene": format!("{scene:?}"), "blow": format!("{blow:?}"), "moment": moment, "found": went,
            "ms": began.elapsed().as_millis() as u64, "kills": blow.kills(stage.size), "in": tongues.join(" "),
        });
        println!("{line}");
    }
    finish(stage)
}

/// Half of the blows fall anywhere, in time; the others right behind a kind of line of the log, since the
/// program spends most of its time in few places.
fn await_moment(stage: &Stage, dice: &mut Dice) {
    if dice.below(2) == 0 {
        return std::thread::sleep(Duration::from_micros(dice.below(150_000)));
    }
    let lines = ['o', 'r', 'R', 'b', 'E', 'p', 'P', 'g', 'G', 'C'];
    let kind = lines[dice.below(lines.len() as u64) as usize];
    let until = Instant::now() + Duration::from_millis(200);
    while stage.last_kind() != Some(kind) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(50));
    }
    let until = Instant::now() + Duration::from_micros(dice.below(2_000));
    while Instant::now() < until {
        std::thread::yield_now();
    }
}

/// Waits until every rank has taken two more steps; starts the program again where it may end.
fn go_on(stage: &mut Stage, blow: Blow, after: After) -> Result<&'static str, String> {
    let mut found = "went on";
    let again = after == After::Restart;
    if again {
        stage.kill_ranks();
    }
    let (listed, mut acknowledged) = (stage.listed(), stage.acknowledged());
    if again {
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
                acknowledged = stage.acknowledged();
                stage.start_ranks()?;
                found = "told";
            }
            Some(status) => return Err(format!("a rank ended with {status} after {blow:?}")),
            None => {}
        }
        if Instant::now() > until {
            return Err(format!("hangs: nothing goes on after {blow:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if found != "went on" && stage.back() < acknowledged {
        return Err(format!("step {acknowledged} was acknowledged, and it went back to {}", stage.back()));
    }
    if again {
        stage.recovered += (stage.back() + 1 - listed).max(0);
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
    await_end(stage)?;
    Ok(last)
}

fn await_end(stage: &mut Stage) -> Result<(), String> {
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
            return Err("hangs: the end does not come".into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
