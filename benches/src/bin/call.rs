//! Calls between two processes: latency while active and after silence, large arguments, and
//! what both sides cost when idle; beside them what the machine can do, measured in this run.
//!
//! `cargo run --release -p forebay-benches --bin call -- [--json] [PART...]`: all parts, or
//! those of `active`, `library`, `silence`, `small`, `large`, `idle`.

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_arena::measure::{self, Machine};
use forebay_arena::{Segment, SegmentSpec};
use forebay_benches::{Apart, Other, Report, cpu_time, median_p99};
use forebay_client::call::{Arg, BagOptions, Client, Next, wait_all};
use forebay_foreign::Loaded;
use forebay_host::parent;
use forebay_idl::Library;
use forebay_link::Locator;
use forebay_server::Server;
use forebay_tests::broker::Host;
use forebay_types::{Error, Result};

type Outcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const LARGE: usize = 64 << 20;

fn main() -> Outcome {
    let role = |name| std::env::var_os(name).map(std::path::PathBuf::from);
    match (role("FOREBAY_BENCH_SERVER"), role("FOREBAY_BENCH_BROKER")) {
        (Some(broker), _) => serve(&broker),
        (_, Some(socket)) => host(&socket),
        _ => measure_all(),
    }
}

/// This program as the broker.
fn host(socket: &Path) -> Outcome {
    let _host = Host::start(socket);
    println!("serving");
    // Ends with the one who started it.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// This program as the server.
fn serve(broker: &Path) -> Outcome {
    parent::die_with_stdin(|| ())?;
    let mut server = Server::new("bench");
    let interface =
        Library::parse("libm.fbi", "fbi 1\nset convention c; set threads safe\ncos(x:f64) -> f64")?;
    for (signature, body) in Loaded::open("libm.so.6")?.services(&interface, &[])? {
        server.add(signature, body)?;
    }
    let running = server
        .service("cosine(in x:f64, out result:f64)", |call| {
            let [x, mut result] = call.args()?;
            result.set(x.f64()?.cos())
        })?
        .service("void()", |_| Ok(()))?
        .service("take(in x:u8[n])", |_| Ok(()))?
        .service("axpy(in a:f64, in x:f64[n], inout y:f64[n])", |call| {
            let [a, x, y] = call.args()?;
            let (a, x, y) = (a.f64()?, x.view::<f64>()?, y.view::<f64>()?);
            (0..y.len()).for_each(|i| y.set(i, y.get(i) + a * x.get(i)));
            Ok(())
        })?
        .start(Locator::at(Some(broker)))?;
    println!("serving");
    running.wait();
    Ok(())
}

/// Starts this program in another role.
fn start(role: &str, dir: &Path, broker: &Path) -> Outcome<Other> {
    match Other::start(role, broker, dir)? {
        (other, said) if said == "serving" => Ok(other),
        _ => Err(format!("{role} did not start").into()),
    }
}

fn measure_all() -> Outcome {
    let dir = tempfile::Builder::new().prefix("fb").tempdir()?;
    let socket = dir.path().join("agent.sock");
    let _broker = start("FOREBAY_BENCH_BROKER", dir.path(), &socket)?;
    let server = start("FOREBAY_BENCH_SERVER", dir.path(), &socket)?;
    let client = Client::connect(Locator::at(Some(&socket)))?;
    let mut report = Report::default();
    let machine = measure::machine(Duration::from_secs(1))?;
    let futex = machine.futex_round_trip / 1e3;
    report.add("machine: spin ping-pong", machine.spin_ping_pong / 1e3, "us", "shared memory, two cores");
    report.add("machine: futex round trip", futex, "us", "");
    let rested = machine.futex_after_silence / 1e3;
    report.add("machine: futex round trip after 10 ms of silence", rested, "us", "");
    let parts = ["active", "library", "silence", "small", "large", "idle"];
    let named: Vec<String> = std::env::args().filter(|a| parts.contains(&a.as_str())).collect();
    for part in parts.iter().filter(|p| named.is_empty() || named.iter().any(|n| n == *p)) {
        match *part {
            "active" => {
                let _apart = Apart::from(server.id());
                active(&client, &mut report, machine.spin_ping_pong / 1e3)?;
            }
            "library" => {
                let _apart = Apart::from(server.id());
                library(&client, &mut report)?;
            }
            "silence" => after_silence(&client, &mut report, &machine)?,
            "small" => small_arrays(&client, &mut report)?,
            "large" => large(&client, &mut report)?,
            _ => idle(server.id(), &mut report),
        }
    }
    report.finish();
    Ok(())
}

/// Void calls back to back, and many under way; each side on cores of its own, as in the machine's ping-pong.
fn active(client: &Client, report: &mut Report, ping_pong: f64) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..10_000 {
        let start = Instant::now();
        for _ in 0..100 {
            client.call("void", vec![], None)?;
        }
        if round >= 200 {
            times.push(start.elapsed().as_nanos() as f64 / 1e5);
        }
    }
    let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let (median, p99) = median_p99(times);
    let note = format!("of batches of 100; {:.1} ping-pongs", median / ping_pong);
    report.add("void call, active, median", median, "us", &note);
    report.add("void call, active, fastest", fastest, "us", "batch: undisturbed by others");
    report.add("void call, active, p99", p99, "us", "of batches of 100");
    let mut rates = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        let mut calls = Vec::with_capacity(1_000);
        for _ in 0..1_000 {
            calls.push(client.call_async("void", vec![], None)?);
        }
        wait_all(&mut calls.iter_mut().collect::<Vec<_>>(), None);
        rates.push(1e6 / start.elapsed().as_nanos() as f64);
    }
    let by_hand = median_p99(rates).0;
    report.add("void calls under way", by_hand, "M/s", "1000 sent, then waited for");
    let mut rates = Vec::new();
    for _ in 0..5 {
        rates.push(void_tasks(client)?);
    }
    let rate = median_p99(rates).0;
    let note = format!("100,000 in a bag; {:.2} of the time by hand", by_hand / rate);
    report.add("void tasks of a bag", rate, "M/s", &note);
    Ok(())
}

/// A function of the mathematical library that is called by its interface file, beside the same one around which there is code.
fn library(client: &Client, report: &mut Report) -> Result<()> {
    let names = ["cosine", "cos"];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..4_000 {
        for (name, times) in names.iter().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..100 {
                client.call(name, vec![Arg::Scalar(0.5.into())], None)?;
            }
            if round >= 200 {
                times.push(start.elapsed().as_nanos() as f64 / 100.0);
            }
        }
    }
    // Undisturbed by others.
    let [by_hand, by_line] = times.map(|mut t| {
        t.sort_by(f64::total_cmp);
        t[t.len() / 20]
    });
    report.add(
        "call with a number to a service with code",
        by_hand / 1e3,
        "us",
        "in turns with the next one",
    );
    report.add(
        "the same to a routine of a library",
        by_line / 1e3,
        "us",
        &format!("{:.0} ns more", by_line - by_hand),
    );
    Ok(())
}

/// Millions of void tasks in a second, of a bag.
fn void_tasks(client: &Client) -> Result<f64> {
    let mut bag = client.bag("void", BagOptions::default())?;
    let start = Instant::now();
    let (mut left, mut over) = (100_000, 0);
    loop {
        match bag.next(None)? {
            Next::Input if left > 0 => {
                bag.add(vec![])?;
                left -= 1;
            }
            Next::Input => bag.end(),
            Next::Task(task) => {
                task.outcome?;
                over += 1;
            }
            Next::Later => {}
            Next::Over => break,
        }
    }
    Ok(f64::from(over) * 1e3 / start.elapsed().as_nanos() as f64)
}

fn after_silence(client: &Client, report: &mut Report, machine: &Machine) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..300 {
        std::thread::sleep(Duration::from_millis(10));
        let start = Instant::now();
        client.call("void", vec![], None)?;
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    let (median, p99) = median_p99(times);
    let (futex, rested) = (machine.futex_round_trip / 1e3, machine.futex_after_silence / 1e3);
    let note =
        format!("{:.2} futex round trips; {:.2} after as long a silence", median / futex, median / rested);
    report.add("void call after 10 ms of silence, median", median, "us", &note);
    report.add("void call after 10 ms of silence, p99", p99, "us", "");
    Ok(())
}

/// Around the size from which arguments travel in blocks instead of inline.
fn small_arrays(client: &Client, report: &mut Report) -> Result<()> {
    for n in [1, 30, 128, 512, 513, 2_048, 16_384] {
        let (x, mut y) = (vec![1.0; n], vec![0.0; n]);
        let mut times = Vec::new();
        for round in 0..60 {
            let start = Instant::now();
            for _ in 0..200 {
                let args = vec![2.0.into(), x[..].into(), Arg::from(&mut y[..])];
                client.call("axpy", args, None)?;
            }
            if round >= 10 {
                times.push(start.elapsed().as_nanos() as f64 / 2e5);
            }
        }
        let name = format!("axpy of {} B arrays", 8 * n);
        report.add(&name, median_p99(times).0, "us", "two in, one out");
    }
    Ok(())
}

/// 64 MiB one way, beside a warm copy of the same bytes.
fn large(client: &Client, report: &mut Report) -> Result<()> {
    let from = vec![7u8; LARGE];
    let mut to = vec![0u8; LARGE];
    let spec = SegmentSpec {
        name: String::new(),
        kind: 0,
        up_bytes: 0,
        down_bytes: 0,
        block_bytes: LARGE as u64,
        blocks: 1,
    };
    let shared = Segment::create(&spec)?;
    let block =
        shared.allocator().alloc(LARGE as u64).ok_or_else(|| Error::bad("no 64 MiB of shared memory"))?;
    let rate = |start: Instant| LARGE as f64 / start.elapsed().as_nanos() as f64;
    let (mut copies, mut streams, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..24 {
        let start = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        copies.push(rate(start));
        let start = Instant::now();
        block.write_from(0, &from);
        streams.push(rate(start));
        let start = Instant::now();
        client.call("take", vec![from[..].into()], None)?;
        if round >= 4 {
            calls.push(rate(start));
        }
    }
    let (copy, stream, call) = (median_p99(copies).0, median_p99(streams).0, median_p99(calls).0);
    report.add("machine: memcpy of 64 MiB, warm", copy, "GB/s", "");
    report.add("machine: the same into shared memory, past the caches", stream, "GB/s", "");
    let note = format!("{:.2} of memcpy", call / copy);
    report.add("call with 64 MiB in", call, "GB/s", &note);
    Ok(())
}

fn idle(server: u32, report: &mut Report) {
    let ours = std::process::id();
    let before = [cpu_time(ours), cpu_time(server)];
    std::thread::sleep(Duration::from_secs(10));
    let used = |pid, before| (cpu_time(pid).saturating_sub(before)).as_nanos() as f64 / 1e6;
    report.add("idle for 10 s: server", used(server, before[1]), "ms", "of CPU");
    report.add("idle for 10 s: client", used(ours, before[0]), "ms", "of CPU");
}
