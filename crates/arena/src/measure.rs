//! What the machine can do at best, measured by the same primitives the product uses, so that
//! benchmarks may state ratios of one run.

use crate::{Bell, Direction, Segment, SegmentSpec, Spin};
use forebay_types::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Figures of the machine, in nanoseconds a round trip (medians). The two sides are bound to
/// different cores where there are two, since a wake-up on the same core costs a tenth.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Two threads that both poll one word each.
    pub spin_ping_pong: f64,
    /// Two threads that both sleep on a futex until the other one wakes them.
    pub futex_round_trip: f64,
    /// Two threads that both sleep on a futex, each round trip after 10 ms in which both slept.
    pub futex_after_silence: f64,
}

/// How the two sides of a measurement behave.
#[derive(Clone, Copy)]
struct Game {
    polls: bool,
    batch: u32,
    silence: Duration,
}

/// Measures the machine for about the given time.
pub fn machine(for_about: Duration) -> Result<Machine> {
    let third = for_about / 3;
    let game = |polls, batch, silence| Game { polls, batch, silence: Duration::from_millis(silence) };
    Ok(Machine {
        spin_ping_pong: apart(third, game(true, 1000, 0))?,
        futex_round_trip: apart(third, game(false, 50, 0))?,
        futex_after_silence: apart(third, game(false, 1, 10))?,
    })
}

/// Plays a game on threads of its own, so that no caller's thread stays bound to a core.
fn apart(for_about: Duration, game: Game) -> Result<f64> {
    std::thread::spawn(move || ping_pong(for_about, game))
        .join()
        .unwrap_or_else(|_| Err(forebay_types::Error::internal("a measurement panicked")))
}

/// Binds this thread to the `n`-th of the cores it may use. Where that is not allowed, the
/// system places it.
fn bind(n: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|c| allowed.is_set(*c)).collect();
    if cores.len() > 1 {
        let mut one = CpuSet::new();
        one.set(cores[n % cores.len()]);
        let _ = sched_setaffinity(None, &one);
    }
}

/// One side of the exchange: waits for its word to reach a number.
fn wait_for(word: &AtomicU64, number: u64, bell: &Bell, polls: bool) {
    if polls {
        while word.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
    } else {
        bell.wait(|| word.load(Ordering::Acquire) >= number, None, &mut Spin::asleep());
    }
}

fn ping_pong(for_about: Duration, game: Game) -> Result<f64> {
    let polls = game.polls;
    let spec =
        SegmentSpec { name: String::new(), kind: 0, up_bytes: 0, down_bytes: 0, block_bytes: 0, blocks: 0 };
    let segment = Segment::create(&spec)?;
    let there = segment.clone();
    const END: u64 = u64::MAX;
    let echo = std::thread::spawn(move || {
        bind(1);
        let (up, down) = (there.bell(Direction::Up), there.bell(Direction::Down));
        for number in 1.. {
            wait_for(there.word(0), number, &up, polls);
            let end = there.word(0).load(Ordering::Acquire) == END;
            there.word(1).store(number, Ordering::Release);
            down.ring();
            if end {
                return;
            }
        }
    });
    let (up, down) = (segment.bell(Direction::Up), segment.bell(Direction::Down));
    bind(0);
    let mut number = 0;
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < for_about || times.len() < 5 {
        if !game.silence.is_zero() {
            std::thread::sleep(game.silence);
        }
        let start = Instant::now();
        for _ in 0..game.batch {
            number += 1;
            segment.word(0).store(number, Ordering::Release);
            up.ring();
            wait_for(segment.word(1), number, &down, polls);
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(game.batch));
    }
    segment.word(0).store(END, Ordering::Release);
    up.ring();
    let _ = echo.join();
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_measured_however_short_the_time() {
        let machine = machine(Duration::from_millis(60)).unwrap();
        assert!(machine.spin_ping_pong > 0.0);
        assert!(machine.futex_round_trip > 0.0 && machine.futex_after_silence > 0.0);
    }
}
