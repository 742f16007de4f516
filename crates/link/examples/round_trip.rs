//! Times frames between two processes over a call link beside the machine's own figures:
//! `cargo run --release -p forebay-link --example round_trip`.

use forebay_link::{Frame, Header, Listener, Wire};
use std::time::{Duration, Instant};

#[path = "../tests/frames/mod.rs"]
mod frames;

use frames::{Link, Memory};

const LONG: Duration = Duration::from_secs(20);

fn echo(socket: &std::path::Path) -> forebay_types::Result<()> {
    let mut wire = Wire::connect_as(socket, "server", LONG)?;
    let request = wire.receive(LONG)?;
    let fd = request.fds.into_iter().next().expect("a segment comes with the request");
    let mut link = Memory::accept(fd)?;
    wire.answer(request.id, &true, &[])?;
    let mut frame = Frame::default();
    while !wire.peer_gone() {
        while link.wait(Some(Instant::now() + Duration::from_millis(200)))? {
            link.try_recv(&mut frame)?;
            link.send(&Header::new(17, frame.header.id), &[frame.body()])?;
        }
    }
    Ok(())
}

/// Median of single round trips in microseconds, with a silence before each.
fn round_trips(link: &mut Memory, n: usize, body: &[u8], silence: Duration) -> forebay_types::Result<f64> {
    let mut frame = Frame::default();
    let mut times = Vec::with_capacity(n);
    for id in 0..n {
        if !silence.is_zero() {
            std::thread::sleep(silence);
        }
        let start = Instant::now();
        link.send(&Header::new(16, id as u64), &[body])?;
        link.wait(None)?;
        link.try_recv(&mut frame)?;
        times.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[n / 2])
}

fn main() -> forebay_types::Result<()> {
    if let Some(socket) = std::env::args_os().nth(1) {
        return echo(socket.as_ref());
    }
    let dir = std::env::temp_dir().join(format!("forebay-round-trip-{}", std::process::id()));
    forebay_host::directories::private_dir(&dir)?;
    let listener = Listener::bind(&dir.join("s"))?;
    let io = |e| forebay_types::Error::io("cannot start the other process", e);
    let mut child = std::process::Command::new(std::env::current_exe().map_err(io)?)
        .arg(listener.path())
        .spawn()
        .map_err(io)?;
    let accepted = listener.accept(Some(Instant::now() + LONG))?;
    let mut wire = accepted.expect("the other process connects").greet("client", LONG)?;
    let mut link = Memory::create(0, 0)?;
    wire.ask_with(&"attach", &[link.segment.fd()], LONG)?;
    round_trips(&mut link, 100_000, b"", Duration::ZERO)?;
    for (what, n, bytes, silence) in [
        ("64-byte frames, both active", 1_000_000, 0, 0),
        ("4 KiB bodies, both active", 200_000, 4096, 0),
        ("64 KiB bodies, both active", 50_000, 65536, 0),
        ("64-byte frames after 10 ms of silence", 200, 0, 10),
    ] {
        let median = round_trips(&mut link, n, &vec![1; bytes], Duration::from_millis(silence))?;
        println!("{what:40} {median:9.3} us");
    }
    drop(wire);
    child.wait().map_err(io)?;
    drop(listener);
    let _ = std::fs::remove_dir(&dir);
    let machine = forebay_arena::measure::machine(Duration::from_secs(2))?;
    println!("{:40} {:9.3} us", "machine: spin ping-pong", machine.spin_ping_pong / 1000.0);
    println!("{:40} {:9.3} us", "machine: futex round trip", machine.futex_round_trip / 1000.0);
    println!(
        "{:40} {:9.3} us",
        "machine: the same after 10 ms of silence",
        machine.futex_after_silence / 1000.0
    );
    Ok(())
}
