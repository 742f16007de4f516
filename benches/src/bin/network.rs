//! Calls over TCP on loopback, plain and with TLS, beside raw sockets of the same run; small calls beside large ones.
//!
//! `cargo run --release -p forebay-benches --bin network -- [--json]`

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_benches::{Apart, Other, Report, median_p99};
use forebay_client::call::{Arg, Client};
use forebay_link::net::Key;
use forebay_link::{Locator, Transport};
use forebay_server::Server;
use forebay_tests::broker::Host;
use forebay_types::Result;

type Outcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const LARGE: usize = 64 << 20;
/// Bytes of the request of a void call, and about those of its reply.
const MESSAGE: usize = 104;
const ROUNDS: usize = 200;
const BATCH: usize = 50;
/// Bytes of a large call beside which small ones are measured, and for how long.
const BESIDE: usize = 256 << 20;
const BESIDE_FOR: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

fn main() -> Outcome {
    match (std::env::var("FOREBAY_BENCH_RAW"), std::env::var("FOREBAY_BENCH_BROKER")) {
        (Ok(_), _) => raw_side(),
        (_, Ok(broker)) => serve(&broker),
        _ => measure_all(),
    }
}

fn serve(broker: &str) -> Outcome {
    let running = Server::new("bench")
        .service("void()", |_| Ok(()))?
        .service("take(in x:u8[n])", |_| Ok(()))?
        .service("give(out x:u8[n])", |_| Ok(()))?
        .start(Locator::at(Some(Path::new(broker))))?;
    println!("serving");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    running.stop();
    Ok(())
}

/// The other side of the raw sockets: the first byte of a connection says what it is to do.
fn raw_side() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for socket in listener.incoming() {
        let mut socket = socket?;
        socket.set_nodelay(true)?;
        let mut what = [0];
        socket.read_exact(&mut what)?;
        let mut message = [0; MESSAGE];
        let mut sink = vec![1u8; LARGE];
        socket.set_nonblocking(what[0] == b'p')?;
        // Each connection ends with an error of its socket.
        let _ = match what[0] {
            b's' => (|| loop {
                socket.read_exact(&mut sink)?;
                socket.write_all(b".")?;
            })(),
            _ => (|| -> std::io::Result<()> {
                loop {
                    exactly(&mut socket, &mut message)?;
                    socket.write_all(&message)?;
                }
            })(),
        };
    }
    Ok(())
}

/// Reads a message, polling where the socket does not block.
fn exactly(socket: &mut TcpStream, message: &mut [u8]) -> std::io::Result<()> {
    let mut at = 0;
    while at < message.len() {
        match socket.read(&mut message[at..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => at += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Microseconds of one, from batches.
fn timed(mut once: impl FnMut() -> Outcome) -> Outcome<f64> {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        (0..BATCH).try_for_each(|_| once())?;
        if round >= ROUNDS / 10 {
            times.push(start.elapsed().as_nanos() as f64 / 1e3 / BATCH as f64);
        }
    }
    Ok(median_p99(times).0)
}

/// GB/s of 64 MiB one way; the best of several, for what disturbs only slows.
fn rate(mut once: impl FnMut() -> Outcome) -> Outcome<f64> {
    let mut best = 0.0f64;
    for _ in 0..12 {
        let start = Instant::now();
        once()?;
        best = best.max(LARGE as f64 / start.elapsed().as_nanos() as f64);
    }
    Ok(best)
}

fn raw(address: &str, what: u8) -> Outcome<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.write_all(&[what])?;
    socket.set_nonblocking(what == b'p')?;
    Ok(socket)
}

fn measure_all() -> Outcome {
    let dir = tempfile::Builder::new().prefix("fb").tempdir()?;
    let mut report = Report::default();
    let (other, address) = Other::start("FOREBAY_BENCH_RAW", "1", dir.path())?;
    let mut raws = Vec::new();
    for (what, name) in [(b'b', "blocking"), (b'p', "polling")] {
        let _apart = Apart::from(other.id());
        let mut socket = raw(&address, what)?;
        let mut message = [0; MESSAGE];
        let us = timed(|| {
            socket.write_all(&message)?;
            Ok(exactly(&mut socket, &mut message)?)
        })?;
        report.add(&format!("machine: TCP ping-pong, {name}"), us, "us", "raw sockets, two cores");
        raws.push(us);
    }
    let bytes = vec![7u8; LARGE];
    let mut socket = raw(&address, b's')?;
    let raw_rate = rate(|| {
        socket.write_all(&bytes)?;
        Ok(socket.read_exact(&mut [0])?)
    })?;
    report.add("machine: 64 MiB through a raw socket", raw_rate, "GB/s", "");
    drop((socket, other));
    let ways = [(false, "TCP"), (true, "TLS")];
    for (tls, how) in ways {
        alone(&Served::new(dir.path(), tls)?, how, &raws, raw_rate, &bytes, &mut report)?;
    }
    // A process that has seen its cores crowded waits in another way for a while: these come last.
    for (tls, how) in ways {
        let served = Served::new(dir.path(), tls)?;
        for (service, way) in [("take", "in"), ("give", "out")] {
            let (median, p99) = beside(&served.client, service)?;
            let name = |what| format!("void call over {how} beside calls with 256 MiB {way}, {what}");
            report.add(&name("median"), median, "us", "two threads of one client");
            report.add(&name("99 %"), p99, "us", "");
        }
    }
    report.finish();
    Ok(())
}

/// A server on "another host", and a client of it.
struct Served {
    client: Client,
    server: Other,
    _host: Host,
}

impl Served {
    fn new(dir: &Path, tls: bool) -> Outcome<Served> {
        let host = Host::listen("fb://127.0.0.1:0", Key::new()?, tls);
        let home = dir.join("home");
        forebay_host::directories::private_dir(&home)?;
        let file = serde_json::json!({"network": host.rendezvous()});
        std::fs::write(home.join("bench.json"), file.to_string())?;
        let (address, key) = host.network();
        let (server, said) = Other::start("FOREBAY_BENCH_BROKER", address, dir)?;
        if said != "serving" {
            return Err("the server did not start".into());
        }
        let locator = Locator::at(Some(Path::new(address))).with_keys(key.clone().into());
        let client = Client::connect(locator.over(Transport::Network).with_silence(Duration::from_secs(10)))?;
        Ok(Served { client, server, _host: host })
    }
}

fn alone(
    served: &Served,
    how: &str,
    raws: &[f64],
    raw_rate: f64,
    bytes: &[u8],
    report: &mut Report,
) -> Outcome {
    let client = &served.client;
    {
        let _apart = Apart::from(served.server.id());
        let us = timed(|| Ok(client.call("void", vec![], None).map(drop)?))?;
        let note = format!("{:.2} blocking ping-pongs, {:.2} polling", us / raws[0], us / raws[1]);
        report.add(&format!("void call over {how}, active, median"), us, "us", &note);
    }
    let gb = rate(|| Ok(client.call("take", vec![bytes.into()], None).map(drop)?))?;
    report.add(
        &format!("call with 64 MiB in over {how}"),
        gb,
        "GB/s",
        &format!("{:.2} of raw", gb / raw_rate),
    );
    Ok(())
}

/// Microseconds of void calls while another thread of the same client has large ones: the median, and what 99 %
/// do not exceed. Between two of them is a pause, so that the quick ones do not outnumber those that hang.
fn beside(client: &Client, service: &str) -> Outcome<(f64, f64)> {
    let over = AtomicBool::new(false);
    let large = || -> Result<()> {
        let mut bytes = vec![7u8; BESIDE];
        while !over.load(Ordering::Relaxed) {
            let arg = match service {
                "take" => Arg::from(&bytes[..]),
                _ => Arg::from(&mut bytes[..]),
            };
            client.call(service, vec![arg], None)?;
        }
        Ok(())
    };
    let mut times = Vec::new();
    std::thread::scope(|scope| -> Outcome {
        let large = scope.spawn(large);
        let start = Instant::now();
        while start.elapsed() < BESIDE_FOR {
            std::thread::sleep(PAUSE);
            let begun = Instant::now();
            client.call("void", vec![], None)?;
            times.push(begun.elapsed().as_nanos() as f64 / 1e3);
        }
        over.store(true, Ordering::Relaxed);
        Ok(large.join().map_err(|_| "the thread with large calls panicked")??)
    })?;
    Ok(median_p99(times))
}
