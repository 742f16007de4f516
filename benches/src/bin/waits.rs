//! Waiting where cores are scarce: each figure beside what it is measured by, in turns, so that both have the same machine.
//!
//! `cargo run --release -p forebay-benches --bin waits -- [--json] [--quick] [PART...]`: all parts, or those of
//! `busy` (eight processes that compute), `ranks` (two ranks on two cores, with and without a call a step), `relay` (three
//! processes that hand a word round), `active` (nothing else runs), `one` (all on one core), `half` (half a core,
//! where control groups may be made).

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_arena::{Direction, Segment, SegmentSpec, Spin};
use forebay_benches::{Report, median_p99};
use forebay_client::call::Client;
use forebay_host::parent;
use forebay_link::Locator;
use forebay_server::Server;
use forebay_tests::broker::Host;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

type Outcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROLE: &str = "FOREBAY_BENCH_ROLE";
const DIR: &str = "FOREBAY_BENCH_DIR";
/// Words of the segment that ranks share.
const ARRIVED: usize = 0;
/// Steps of one round of the ranks.
const STEPS: u64 = 300;
/// Hops of one round of the relay.
const HOPS: u64 = 3_000;

fn main() -> Outcome {
    match std::env::var(ROLE).as_deref() {
        Ok("host") => host(),
        Ok("server") => server(),
        Ok("echo") => echo(),
        Ok("busy") => busy(),
        Ok("rank") => rank(),
        Ok("runner") => runner(),
        _ => measure_all(),
    }
}

fn dir() -> PathBuf {
    std::env::var_os(DIR).unwrap_or_default().into()
}

fn broker() -> Locator {
    Locator::at(Some(&dir().join("agent.sock")))
}

/// This program in another role, told what to do by lines.
struct Other {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, number: usize, dir: &Path) -> Outcome<Other> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(number.to_string())
            .env(ROLE, role)
            .env(DIR, dir)
            .env("FOREBAY_RUNTIME_DIR", dir.join("run"))
            .env("FOREBAY_HOME", dir.join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut other = Other { child, out };
        match other.hear()?.as_str() {
            "ready" => Ok(other),
            other => Err(format!("{role} said {other:?}").into()),
        }
    }

    fn tell(&mut self, what: &str) -> Outcome {
        writeln!(self.child.stdin.as_mut().ok_or("no input")?, "{what}")?;
        Ok(())
    }

    fn hear(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn hear_number(&mut self) -> Outcome<f64> {
        Ok(self.hear()?.parse()?)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready() -> Outcome {
    println!("ready");
    Ok(())
}

/// Ends with who started it.
fn until_told() -> Outcome {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn host() -> Outcome {
    let _host = Host::start(&dir().join("agent.sock"));
    ready()?;
    until_told()
}

fn server() -> Outcome {
    let _running = Server::new("bench").service("void()", |_| Ok(()))?.start(broker())?;
    ready()?;
    until_told()
}

/// What a socket is worth: the same exchange of 8 bytes.
fn echo() -> Outcome {
    let listener = std::os::unix::net::UnixListener::bind(dir().join("echo.sock"))?;
    ready()?;
    let (mut socket, _) = listener.accept()?;
    let mut bytes = [0; 8];
    while socket.read_exact(&mut bytes).is_ok() {
        socket.write_all(&bytes)?;
    }
    Ok(())
}

fn busy() -> Outcome {
    parent::die_with_stdin(|| ())?;
    ready()?;
    loop {
        std::hint::spin_loop();
    }
}

/// The cores that this thread may use.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).ok();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_some_and(|a| a.is_set(*core))).collect()
}

fn bind(pid: Option<u32>, core: usize) {
    let mut one = CpuSet::new();
    one.set(core);
    let threads =
        pid.map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
    let threads: Vec<Option<Pid>> = match threads {
        None => vec![None],
        Some(tasks) => {
            tasks.filter_map(|t| Some(Pid::from_raw(t.file_name().to_str()?.parse().ok()?))).collect()
        }
    };
    for thread in threads {
        let _ = sched_setaffinity(thread, &one);
    }
}

/// Exchanges as many as it can in the time.
fn count(time: Duration, mut exchange: impl FnMut() -> Outcome) -> Outcome<f64> {
    let (begun, mut count) = (Instant::now(), 0u32);
    while begun.elapsed() < time {
        exchange()?;
        count += 1;
    }
    Ok(count.into())
}

/// Counts exchanges when it is told to: `socket MS` or `call MS`.
fn runner() -> Outcome {
    let mut socket = UnixStream::connect(dir().join("echo.sock"))?;
    let client = Client::connect(broker())?;
    client.call("void", vec![], None)?;
    ready()?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let (what, ms) = line.split_once(' ').ok_or("what, and how long?")?;
        let time = Duration::from_millis(ms.parse()?);
        let counted = match what {
            "socket" => count(time, || {
                let mut bytes = [7; 8];
                socket.write_all(&bytes)?;
                Ok(socket.read_exact(&mut bytes)?)
            })?,
            _ => count(time, || Ok(client.call("void", vec![], None).map(drop)?))?,
        };
        println!("{counted}");
    }
    Ok(())
}

/// A rank on a core of its own. `steps CALLS FROM`: computes, calls so often, and spins until the other one has done
/// so, too, as MPI does on one node. `relay FROM`: hands a word round.
fn rank() -> Outcome {
    let number: usize = std::env::args().nth(1).ok_or("which rank?")?.parse()?;
    let shared = Segment::open(&dir().join("ranks"))?;
    let rings: Vec<Segment> =
        (0..3).map(|hop| Segment::open(&dir().join(format!("hop{hop}")))).collect::<Result<_, _>>()?;
    let client = Client::connect(broker())?;
    client.call("void", vec![], None)?;
    let all = cores();
    ready()?;
    let (to, from) = (number % 3, (number + 2) % 3);
    let mut producer = rings[to].producer(Direction::Up);
    let mut consumer = rings[from].consumer(Direction::Up);
    let mut spin = Spin::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let begun = Instant::now();
        match words[..] {
            ["steps", calls, before] => {
                bind(None, all[number % all.len()]);
                let (calls, before): (u32, u64) = (calls.parse()?, before.parse()?);
                for step in 1..=STEPS {
                    let computed = (0..600_000u64).fold(step, |x, i| std::hint::black_box(x ^ i));
                    std::hint::black_box(computed);
                    for _ in 0..calls {
                        client.call("void", vec![], None)?;
                    }
                    shared.word(ARRIVED).fetch_add(1, Ordering::SeqCst);
                    while shared.word(ARRIVED).load(Ordering::SeqCst) < 2 * (before + step) {
                        std::hint::spin_loop();
                    }
                }
                println!("{}", begun.elapsed().as_secs_f64() * 1e3 / STEPS as f64);
            }
            _ => {
                let mut word = Vec::new();
                for hop in 0..HOPS {
                    if number > 0 || hop > 0 {
                        rings[from].bell(Direction::Up).wait(|| consumer.pending(), None, &mut spin);
                        if let Some(position) = consumer.next(&mut word)? {
                            consumer.release_to(position);
                        }
                    }
                    if number < 2 || hop + 1 < HOPS {
                        producer.push(&[b"the word"])?;
                        rings[to].bell(Direction::Up).ring();
                    }
                }
                println!("{}", begun.elapsed().as_secs_f64() * 1e6 / HOPS as f64);
            }
        }
    }
    Ok(())
}

/// Rounds in turns, and how long one is.
#[derive(Clone, Copy)]
struct Rounds {
    number: usize,
    ms: u64,
}

/// The medians of two things measured in turns, and of their ratios.
fn in_turns(rounds: Rounds, mut measure: impl FnMut(bool) -> Outcome<f64>) -> Outcome<(f64, f64, f64)> {
    let (mut ones, mut others, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.number {
        let (one, other) = (measure(false)?, measure(true)?);
        ones.push(one);
        others.push(other);
        ratios.push(other / one);
    }
    let median = |values| median_p99(values).0;
    Ok((median(ones), median(others), median(ratios)))
}

/// Calls and exchanges over a socket, in turns.
fn against_a_socket(report: &mut Report, what: &str, runner: &mut Other, rounds: Rounds) -> Outcome {
    let (sockets, calls, ratio) = in_turns(rounds, |call| {
        runner.tell(&format!("{} {}", if call { "call" } else { "socket" }, rounds.ms))?;
        runner.hear_number()
    })?;
    let us = |count: f64| rounds.ms as f64 * 1e3 / count;
    report.add(&format!("{what}: exchange over a socket"), us(sockets), "us", "");
    let void = format!("{what}: void call");
    // Fewer in the same time: so many times as long.
    report.add_beside((&void, us(calls), "us"), ("exchange over a socket", 1.0 / ratio));
    Ok(())
}

/// A control group that may use so much of a core, if one can be made.
struct Half(PathBuf);

/// Into a file that is there: elsewhere than in a control group it would be a file of ours.
fn put(file: &Path, text: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

impl Half {
    fn new() -> Option<Half> {
        let name = format!("forebay-bench-{}", std::process::id());
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"];
        roots.iter().find_map(|root| {
            let group = Half(Path::new(root).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            let one = |file: &str, text: &str| put(&group.0.join(file), text).is_ok();
            let set = one("cpu.max", "50000 100000")
                || (one("cpu.cfs_period_us", "100000") && one("cpu.cfs_quota_us", "50000"));
            set.then_some(group)
        })
    }

    fn take(&self, pid: u32) -> bool {
        put(&self.0.join("cgroup.procs"), &pid.to_string()).is_ok()
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A segment that the ranks find by its name; the next part may use that again.
struct Named(Segment);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.0.unlink();
    }
}

fn segment(name: &str, dir: &Path) -> Outcome<Named> {
    let spec = SegmentSpec {
        name: name.into(),
        kind: 0,
        up_bytes: 1 << 16,
        down_bytes: 0,
        block_bytes: 0,
        blocks: 0,
    };
    Ok(Named(Segment::create_in(dir, &spec)?))
}

fn measure_all() -> Outcome {
    let folder = tempfile::Builder::new().prefix("fb").tempdir()?;
    let dir = folder.path();
    let quick = std::env::args().any(|a| a == "--quick");
    let rounds = if quick { Rounds { number: 4, ms: 100 } } else { Rounds { number: 10, ms: 300 } };
    let _host = Other::start("host", 0, dir)?;
    let server = Other::start("server", 0, dir)?;
    let parts = ["active", "busy", "ranks", "relay", "one", "half"];
    let named: Vec<String> = std::env::args().filter(|a| parts.contains(&a.as_str())).collect();
    let mut report = Report::default();
    for part in parts.iter().filter(|p| named.is_empty() || named.iter().any(|n| n == *p)) {
        match *part {
            "ranks" | "relay" => ranks(&mut report, part, dir, rounds)?,
            part => {
                let _ = std::fs::remove_file(dir.join("echo.sock"));
                let echo = Other::start("echo", 0, dir)?;
                let mut runner = Other::start("runner", 0, dir)?;
                let pids = [server.child.id(), echo.child.id(), runner.child.id()];
                exchanges(&mut report, part, &pids, &mut runner, (dir, rounds))?;
            }
        }
    }
    report.finish();
    Ok(())
}

fn exchanges(
    report: &mut Report,
    part: &str,
    pids: &[u32],
    runner: &mut Other,
    (dir, rounds): (&Path, Rounds),
) -> Outcome {
    match part {
        "busy" => {
            let _busy: Vec<Other> = (0..8).map(|n| Other::start("busy", n, dir)).collect::<Outcome<_>>()?;
            against_a_socket(report, "eight busy processes", runner, rounds)
        }
        "one" => {
            let all = cores();
            pids.iter().for_each(|pid| bind(Some(*pid), all[0]));
            let outcome = against_a_socket(report, "one core", runner, rounds);
            let mut free = CpuSet::new();
            all.iter().for_each(|core| free.set(*core));
            for task in std::fs::read_dir(format!("/proc/{}/task", pids[0]))?.flatten() {
                let thread = task.file_name().to_str().and_then(|t| Pid::from_raw(t.parse().ok()?));
                let _ = sched_setaffinity(thread, &free);
            }
            outcome
        }
        "half" => match Half::new() {
            Some(half) if pids.iter().all(|pid| half.take(*pid)) => {
                let outcome = against_a_socket(report, "half a core", runner, rounds);
                let root = half.0.parent().map(|root| root.join("cgroup.procs"));
                for pid in pids {
                    let _ = root.as_ref().map(|root| put(root, &pid.to_string()));
                }
                outcome
            }
            _ => {
                eprintln!("waits: no control group can be made here; half a core is not measured");
                Ok(())
            }
        },
        _ => against_a_socket(report, "nothing else", runner, rounds),
    }
}

fn ranks(report: &mut Report, part: &str, dir: &Path, rounds: Rounds) -> Outcome {
    let _shared = segment("ranks", dir)?;
    let _hops: Vec<Named> = (0..3).map(|hop| segment(&format!("hop{hop}"), dir)).collect::<Outcome<_>>()?;
    let number = if part == "ranks" { 2 } else { 3 };
    let mut all: Vec<Other> = (0..number).map(|n| Other::start("rank", n, dir)).collect::<Outcome<_>>()?;
    let mut say = |what: &str| -> Outcome<f64> {
        all.iter_mut().try_for_each(|rank| rank.tell(what))?;
        let heard = all.iter_mut().map(Other::hear_number).collect::<Outcome<Vec<_>>>()?;
        Ok(heard[0])
    };
    if part == "relay" {
        let times = (0..rounds.number).map(|_| say("relay")).collect::<Outcome<Vec<_>>>()?;
        report.add("relay of three processes: a round", median_p99(times).0, "us", "three hand-overs");
        return Ok(());
    }
    let mut before = 0;
    let (without, with, ratio) = in_turns(rounds, |calls| {
        let time = say(&format!("steps {} {before}", u32::from(calls)));
        before += STEPS;
        time
    })?;
    report.add("two ranks on two cores: a step", without, "ms", "computing and a barrier that spins");
    report.add_beside(("two ranks on two cores: a step with a call", with, "ms"), ("a step without", ratio));
    Ok(())
}
