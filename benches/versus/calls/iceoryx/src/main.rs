//! `void-iceoryx poll|wait NAME SECONDS`: a call without content by iceoryx2's requests and responses between two processes. With `poll` both sides poll
//! without end; with `wait` each sleeps until an event of the other. One call at a time goes by a service of its own, since each receive looks at as
//! many places as calls may be under way.

use std::error::Error;
use std::hint::spin_loop;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::client::Client;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Pending = PendingResponse<ipc::Service, u64, (), u64, ()>;

/// Under way at most: with more of them each call takes longer.
const ONE: usize = 1;
const UNDER_WAY: usize = 16;
/// A request that ends the server.
const OVER: u64 = 1;
const BATCH: usize = 100;

fn main() -> Outcome {
    set_log_level(LogLevel::Error);
    let args: Vec<String> = std::env::args().collect();
    let [_, how, name, seconds, rest @ ..] = &args[..] else {
        return Err("void-iceoryx poll|wait NAME SECONDS".into());
    };
    let waits = how == "wait";
    if let [most, core] = rest {
        on(&[core.parse()?])?;
        return serve(name, most.parse()?, waits);
    }
    let other = half()?;
    let seconds: f64 = seconds.parse()?;
    let call = at_a_server(how, other, &format!("{name}-one"), ONE, |calls| {
        calls.batches(seconds / 10.0)?;
        calls.batches(seconds / 2.0)
    })?;
    let [rate, client] = at_a_server(how, other, &format!("{name}-many"), UNDER_WAY, |calls| {
        let rate = calls.crowds(0.0, seconds / 4.0)?;
        Ok([rate, calls.crowds(3e-6 * UNDER_WAY as f64 * rate, seconds / 2.0)?])
    })?;
    println!(
        "{{\"synchronous\": {call:.4}, \"asynchronous + get\": {call:.4}, \"client part\": {client:.4}, \"under way\": {rate:.4}}}"
    );
    Ok(())
}

/// The server's process; it ends with this.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Service, and the events by which each side wakes the other.
struct Ways {
    service: iceoryx2::service::port_factory::request_response::PortFactory<ipc::Service, u64, (), u64, ()>,
    wakes: Notifier<ipc::Service>,
    hears: Listener<ipc::Service>,
}

impl Ways {
    fn open(node: &Node<ipc::Service>, name: &str, most: usize, serves: bool) -> Outcome<Ways> {
        let service = node
            .service_builder(&name.try_into()?)
            .request_response::<u64, u64>()
            .max_active_requests_per_client(most)
            .max_loaned_requests(2)
            .enable_safe_overflow_for_requests(false)
            .open_or_create()?;
        let event = |side: &str| -> Outcome<_> {
            Ok(node
                .service_builder(&format!("{name}-{side}").as_str().try_into()?)
                .event()
                .open_or_create()?)
        };
        let (asked, answered) = (event("asked")?, event("answered")?);
        let (mine, other) = if serves { (asked, answered) } else { (answered, asked) };
        Ok(Ways {
            service,
            wakes: other.notifier_builder().create()?,
            hears: mine.listener_builder().create()?,
        })
    }
}

/// This process on the first half of its cores; the first of the others, for the server: with one core, where it is.
fn half() -> Outcome<usize> {
    let all = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|c| all.is_set(*c)).collect();
    let (mine, rest) = cores.split_at(cores.len().div_ceil(2));
    on(mine)?;
    Ok(rest.first().copied().unwrap_or(cores[0]))
}

/// This process on these cores.
fn on(cores: &[usize]) -> Outcome {
    let mut mine = CpuSet::new();
    cores.iter().for_each(|c| mine.set(*c));
    Ok(sched_setaffinity(None, &mine)?)
}

fn serve(name: &str, most: usize, waits: bool) -> Outcome {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let ways = Ways::open(&node, name, most, true)?;
    let server = ways.service.server_builder().create()?;
    loop {
        let mut some = false;
        while let Some(request) = server.receive()? {
            if *request == OVER {
                return Ok(());
            }
            request.send_copy(0)?;
            some = true;
        }
        match (waits, some) {
            (true, true) => drop(ways.wakes.notify()?),
            (true, false) => drop(ways.hears.blocking_wait(|_| ())?),
            (false, _) => spin_loop(),
        }
    }
}

/// The client.
struct Calls {
    client: Client<ipc::Service, u64, (), u64, ()>,
    ways: Ways,
    waits: bool,
}

impl Calls {
    fn send(&self, what: u64) -> Outcome<Pending> {
        let pending = self.client.send_copy(what)?;
        if self.waits {
            self.ways.wakes.notify()?;
        }
        Ok(pending)
    }

    fn take(&self, pending: &Pending) -> Outcome {
        while pending.receive()?.is_none() {
            if self.waits {
                self.ways.hears.timed_wait(|_| (), Duration::from_millis(10))?;
            } else {
                spin_loop();
            }
        }
        Ok(())
    }

    /// Microseconds of a call, the median of batches.
    fn batches(&self, seconds: f64) -> Outcome<f64> {
        let (mut times, began) = (Vec::new(), Instant::now());
        while times.len() < 3 || began.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            for _ in 0..BATCH {
                let pending = self.send(0)?;
                self.take(&pending)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
        }
        Ok(median(times))
    }

    /// Microseconds a call with many sent and then taken; a pause between the two does not count.
    fn crowds(&self, pause: f64, seconds: f64) -> Outcome<f64> {
        let (mut times, began) = (Vec::new(), Instant::now());
        while times.len() < 3 || began.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            let sent: Vec<Pending> = (0..UNDER_WAY).map(|_| self.send(0)).collect::<Outcome<_>>()?;
            let sending = start.elapsed();
            if pause > 0.0 {
                std::thread::sleep(Duration::from_secs_f64(pause));
            }
            let again = Instant::now();
            for pending in &sent {
                self.take(pending)?;
            }
            drop(sent);
            times.push((sending + again.elapsed()).as_secs_f64() * 1e6 / UNDER_WAY as f64);
        }
        Ok(median(times))
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// What is measured with a server that is started for it.
fn at_a_server<T>(
    how: &str,
    core: usize,
    name: &str,
    most: usize,
    does: impl FnOnce(&Calls) -> Outcome<T>,
) -> Outcome<T> {
    let server = Command::new(std::env::current_exe()?)
        .args([how, name, "serve", &most.to_string(), &core.to_string()])
        .spawn()?;
    let mut server = Other(server);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let ways = Ways::open(&node, name, most, false)?;
    let calls = Calls { client: ways.service.client_builder().create()?, ways, waits: how == "wait" };
    while calls.ways.service.dynamic_config().number_of_servers() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let found = does(&calls)?;
    calls.send(OVER)?;
    server.0.wait()?;
    Ok(found)
}
