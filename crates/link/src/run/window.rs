//! How many bytes of blocks are under way at a time. Pure; time is a number of nanoseconds.
//!
//! The window follows the delay: while acknowledgements come hardly later than at an empty line it
//! grows; when all of an interval come later by more than [`QUEUE`], bytes stand in a queue on the
//! way, and it shrinks to what does not. (A single late one says that somebody was not scheduled. Only
//! the first growth, which doubles, ends with the first late one: what it brings is a round trip old.)
//! So the line is kept busy, and what is asked or steered meanwhile waits behind a few hundredths of a
//! second of bulk, not behind megabytes in buffers.

use std::collections::VecDeque;

/// The least bytes under way.
const LEAST: u64 = 32 << 10;
/// The most.
const MOST: u64 = 16 << 20;
/// What the window begins with.
const FIRST: u64 = 128 << 10;
/// So much later than at an empty line may acknowledgements come.
const QUEUE: u64 = 20_000_000;
/// The least delay of so long, and of so many acknowledgements, tells a queue from a late one.
const INTERVAL: u64 = 150_000_000;
const SAMPLES: u32 = 8;
/// The shortest delay is measured anew after so long, since the way may have changed.
const FORGET: u64 = 20_000_000_000;

/// The window of one connection.
#[derive(Debug)]
pub struct Window {
    size: u64,
    sent: u64,
    taken: u64,
    /// Ends of pieces on their way: bytes sent up to there, and when.
    pieces: VecDeque<(u64, u64)>,
    shortest: u64,
    measured: u64,
    /// The interval: its begin, its acknowledgements, the least delay of them.
    began: u64,
    samples: u32,
    least: u64,
    /// What was sent before the last cut says nothing of the new size.
    cut_until: u64,
    slow_start: bool,
}

impl Window {
    /// Nothing is under way.
    pub fn new() -> Window {
        Window {
            size: FIRST,
            sent: 0,
            taken: 0,
            pieces: VecDeque::new(),
            shortest: u64::MAX,
            measured: 0,
            began: 0,
            samples: 0,
            least: u64::MAX,
            cut_until: 0,
            slow_start: true,
        }
    }

    /// How many bytes may be sent now, in a piece that does not hold up others for long.
    pub fn room(&self) -> u64 {
        let piece = (self.size / 4).clamp(16 << 10, 256 << 10);
        let free = self.size.saturating_sub(self.sent - self.taken);
        // Small pieces cost a frame each: wait for a worthwhile one while others are under way.
        if free >= piece || self.sent == self.taken { piece } else { 0 }
    }

    /// A piece is on its way.
    pub fn sent(&mut self, bytes: u64, now: u64) {
        self.sent += bytes;
        self.pieces.push_back((self.sent, now));
    }

    /// The other side has so many bytes.
    pub fn taken(&mut self, bytes: u64, now: u64) {
        let bytes = bytes.min(self.sent);
        if bytes <= self.taken {
            return;
        }
        let was_full = self.sent - self.taken + (self.size / 4) > self.size;
        let mut delay = None;
        while let Some((_, at)) = self.pieces.front().copied().filter(|(end, _)| *end <= bytes) {
            delay = Some(now.saturating_sub(at));
            self.pieces.pop_front();
        }
        let news = bytes - self.taken;
        self.taken = bytes;
        if let Some(delay) = delay {
            self.adapt(delay, news, was_full, now);
        }
    }

    fn adapt(&mut self, delay: u64, news: u64, was_full: bool, now: u64) {
        if now - self.measured > FORGET {
            // Measured anew at an almost empty line, which is soon full again.
            self.shortest = u64::MAX;
            self.size = (self.size / 4).max(LEAST);
        }
        if delay < self.shortest {
            (self.shortest, self.measured) = (delay, now);
        }
        if delay <= self.shortest + QUEUE && was_full {
            let step = if self.slow_start { news } else { news / 4 + 1 };
            self.size = (self.size + step).min(MOST);
        }
        if self.slow_start && delay > self.shortest + QUEUE {
            return self.cut(delay);
        }
        if self.taken < self.cut_until {
            return;
        }
        if self.samples == 0 {
            (self.began, self.least) = (now, u64::MAX);
        }
        self.samples += 1;
        self.least = self.least.min(delay);
        if self.samples < SAMPLES || now - self.began < INTERVAL {
            return;
        }
        self.samples = 0;
        if self.least > self.shortest + QUEUE {
            self.cut(self.least);
        }
    }

    /// Shrinks to what came with that delay and would not have stood in a queue.
    fn cut(&mut self, delay: u64) {
        self.slow_start = false;
        let share = (self.shortest + QUEUE) as f64 / delay as f64;
        self.size = ((self.size as f64 * share.max(0.25)) as u64).max(LEAST);
        (self.cut_until, self.samples) = (self.sent, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of so many bytes a second and so long a way, one piece behind the other; gives bytes
    /// a second reached and the worst delay once it has settled.
    fn drive(rate: f64, way: f64, seconds: f64, late: impl Fn(usize) -> f64) -> (f64, f64) {
        let mut w = Window::new();
        let (mut now, mut free_at) = (0.0f64, 0.0f64);
        let mut acks: VecDeque<(f64, u64, f64)> = VecDeque::new();
        let (mut sent, mut worst, mut done, mut count) = (0u64, 0.0f64, 0u64, 0);
        while now < seconds {
            let room = w.room();
            if room > 0 {
                free_at = free_at.max(now) + room as f64 / rate;
                sent += room;
                count += 1;
                acks.push_back((free_at + way + late(count), sent, now));
                w.sent(room, (now * 1e9) as u64);
                continue;
            }
            let Some((at, bytes, began)) = acks.pop_front() else { break };
            now = now.max(at);
            w.taken(bytes, (now * 1e9) as u64);
            if now > seconds / 2.0 {
                worst = worst.max(now - began);
            }
            done = bytes;
        }
        (done as f64 / now, worst)
    }

    #[test]
    fn a_slow_line_is_kept_busy_with_little_under_way() {
        let (rate, worst) = drive(2.5e6, 0.04, 60.0, |_| 0.0);
        assert!(rate > 0.85 * 2.5e6, "{rate} of 2.5e6 bytes a second");
        assert!(worst < 0.11, "bulk holds up others for {worst} s");
    }

    #[test]
    fn a_fast_line_gets_a_wide_window() {
        let (rate, _) = drive(2e9, 100e-6, 2.0, |_| 0.0);
        assert!(rate > 0.9 * 2e9, "{rate} of 2e9 bytes a second");
        let (remote, _) = drive(1e9, 0.01, 10.0, |_| 0.0);
        assert!(remote > 0.7e9, "{remote} of 1e9 bytes a second over 10 ms");
    }

    #[test]
    fn a_machine_that_is_busy_does_not_pass_for_a_queue() {
        // Every thirtieth acknowledgement comes a tenth of a second late, and those behind it wait.
        let late = |n: usize| if n.is_multiple_of(30) { 0.1 } else { 0.0 };
        let (rate, _) = drive(1e8, 0.001, 20.0, late);
        assert!(rate > 0.2e8, "{rate} of 1e8 bytes a second");
    }
}
