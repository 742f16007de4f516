//! Void calls from Rust to the service `nothing` of a broker, measured as all programs of `benches/versus/calls/void.h` do; and the machine's own
//! ping-pong in the same run.
//!
//! `void BROKER SECONDS`: one line of JSON, microseconds.

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_arena::measure;
use forebay_benches::on_half_of_the_cores;
use forebay_client::call::{Client, Future, wait_all};
use forebay_link::Locator;
use forebay_types::{Error, Result};
use serde_json::json;

const BATCH: usize = 100;
const UNDER_WAY: usize = 1000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, broker, seconds] = &args[..] else { return Err(Error::bad("void BROKER SECONDS")) };
    let seconds: f64 =
        seconds.parse().map_err(|_| Error::bad(format!("{seconds} is no number of seconds")))?;
    let ping_pong = measure::machine(Duration::from_secs_f64(seconds / 4.0))?.spin_ping_pong / 1e3;
    on_half_of_the_cores();
    let client = Client::connect(Locator::at(Some(Path::new(broker))))?;
    let call = |client: &Client| client.call("nothing", vec![], None).map(drop);
    let get = |client: &Client| client.call_async("nothing", vec![], None)?.wait(None).map(drop);
    batches(&client, call, seconds / 10.0)?;
    let synchronous = batches(&client, call, seconds / 4.0)?;
    let get = batches(&client, get, seconds / 4.0)?;
    let rate = crowds(&client, 0.0, seconds / 4.0)?;
    let part = crowds(&client, 3e-6 * UNDER_WAY as f64 * rate, seconds / 2.0)?;
    let found = json!({
        "synchronous": synchronous, "asynchronous + get": get, "client part": part, "under way": rate, "ping-pong": ping_pong,
    });
    println!("{found}");
    Ok(())
}

/// Microseconds of a call, the median of batches.
fn batches(client: &Client, call: impl Fn(&Client) -> Result<()>, seconds: f64) -> Result<f64> {
    let (mut times, began) = (Vec::new(), Instant::now());
    while times.len() < 3 || began.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        for _ in 0..BATCH {
            call(client)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    Ok(forebay_benches::median_p99(times).0)
}

/// Microseconds a call with many sent and then taken; a pause between the two, which does not count, leaves the client's own part alone.
fn crowds(client: &Client, pause: f64, seconds: f64) -> Result<f64> {
    let (mut times, began) = (Vec::new(), Instant::now());
    while times.len() < 3 || began.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        let mut sent: Vec<Future> =
            (0..UNDER_WAY).map(|_| client.call_async("nothing", vec![], None)).collect::<Result<_>>()?;
        let sending = start.elapsed();
        if pause > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(pause));
        }
        let again = Instant::now();
        wait_all(&mut sent.iter_mut().collect::<Vec<_>>(), None);
        for mut one in sent {
            one.wait(None)?;
        }
        times.push((sending + again.elapsed()).as_secs_f64() * 1e6 / UNDER_WAY as f64);
    }
    Ok(forebay_benches::median_p99(times).0)
}
