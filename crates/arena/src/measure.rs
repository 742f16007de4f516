//! What the machine can do at best, measured by the same primitives the product uses, so that
//! benchmarks may state ratios of one run.

use crate::{Bell, Direction, Segment, SegmentSpec, Spin};
use forebay_types::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Figures of the machine, in nanoseconds a round trip (medians of batches).
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Two threads that both poll one word each.
    pub spin_ping_pong: f64,
    /// Two threads that both sleep on a futex until the other one wakes them.
    pub futex_round_trip: f64,
}

/// Measures the machine for about the given time.
pub fn machine(for_about: Duration) -> Result<Machine> {
    Ok(Machine {
        spin_ping_pong: ping_pong(for_about / 2, 10_000, true)?,
        futex_round_trip: ping_pong(for_about / 2, 50, false)?,
    })
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

fn ping_pong(for_about: Duration, batch: u64, polls: bool) -> Result<f64> {
    let spec =
        SegmentSpec { name: String::new(), kind: 0, up_bytes: 0, down_bytes: 0, block_bytes: 0, blocks: 0 };
    let segment = Segment::create(&spec)?;
    let there = segment.clone();
    const END: u64 = u64::MAX;
    let echo = std::thread::spawn(move || {
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
    let mut number = 0;
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < for_about || times.len() < 3 {
        let start = Instant::now();
        for _ in 0..batch {
            number += 1;
            segment.word(0).store(number, Ordering::Release);
            up.ring();
            wait_for(segment.word(1), number, &down, polls);
        }
        times.push(start.elapsed().as_nanos() as f64 / batch as f64);
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
    fn polling_beats_sleeping_on_any_machine_with_two_cores() {
        let machine = machine(Duration::from_millis(100)).unwrap();
        assert!(machine.spin_ping_pong > 0.0 && machine.futex_round_trip > 0.0);
    }
}
