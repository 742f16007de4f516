//! The targets of `fuzz/` on the stable compiler: each gets its seeds, what was once found, and some
//! thousand inputs that were made of them and of chance, the same in every run. It takes libFuzzer to
//! look further; this is to see that the targets compile and that nothing old comes back.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

/// At most so long for one target.
const LONG: Duration = Duration::from_secs(2);
const MOST_BYTES: usize = 2_000;

/// Chance that is the same every time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Another input, made of one that there is.
    fn change(&mut self, from: &[u8]) -> Vec<u8> {
        let mut bytes = from.to_vec();
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len() + 1);
            let byte = [0, 1, 0x7f, 0xff, self.next() as u8][self.below(5)];
            match self.below(5) {
                0 => bytes.insert(at, byte),
                1 => bytes.truncate(at),
                2 => drop(bytes.drain(at..bytes.len().min(at + 1 + at % 9))),
                3 => bytes.extend((0..self.below(100)).map(|_| self.next() as u8).collect::<Vec<u8>>()),
                _ => bytes.get_mut(at).into_iter().for_each(|b| *b = byte),
            }
        }
        bytes.truncate(MOST_BYTES);
        bytes
    }
}

/// The files of a directory of `fuzz/`, in a fixed order.
fn inputs(kind: &str, target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(kind).join(target);
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn drive(name: &str, target: fn(&[u8]), times: usize) {
    let mut pool = vec![vec![0; 200], vec![1; 200]];
    for known in inputs("seeds", name).into_iter().chain(inputs("found", name)) {
        target(&known);
        pool.push(known);
    }
    let begun = Instant::now();
    let mut chance = Chance(0x5eed_f0ba);
    for _ in 0..times {
        let base = chance.below(pool.len());
        let input = chance.change(&pool[base]);
        target(&input);
        if pool.len() < 200 {
            pool.push(input);
        }
        if begun.elapsed() > LONG {
            break;
        }
    }
}

#[test]
fn any_bytes_are_a_program_with_directives_or_are_refused() {
    drive("directives", targets::directives, 5_000);
}

#[test]
fn a_frame_of_any_bytes_is_a_frame_or_an_error() {
    drive("frame", targets::frame, 20_000);
}

#[test]
fn a_peer_that_sends_any_bytes_over_a_call_link_costs_nothing_in_the_end() {
    drive("link", targets::link, 2_000);
}

#[test]
fn a_host_that_sends_any_bytes_over_a_line_is_found_out() {
    drive("line", targets::line, 5_000);
}

#[test]
fn any_bytes_are_an_interface_file_or_an_error() {
    drive("interface", targets::interface, 5_000);
}

#[test]
fn nobody_comes_in_with_any_bytes_nor_takes_in_who_knocks() {
    drive("handshake", targets::handshake, 500);
}

#[test]
fn any_bytes_are_the_text_form_of_a_run_or_an_error() {
    drive("neutral", targets::neutral, 5_000);
}

#[test]
fn a_segment_with_any_bytes_in_it_is_read_within_its_bounds() {
    drive("ring", targets::ring, 2_000);
}

#[test]
fn any_bytes_are_a_record_or_an_error() {
    drive("record", targets::record, 20_000);
}

#[test]
fn any_bytes_are_a_message_or_an_error() {
    drive("text", targets::text, 5_000);
}

#[test]
fn a_store_outlives_whatever_a_dead_rank_has_left() {
    drive("recover", targets::recover, 60);
}
