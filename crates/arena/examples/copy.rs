//! How fast a snapshot gets into shared memory: a copy of 256 MiB into a fresh block, and into
//! the same pages again, beside `memcpy`: `cargo run --release -p forebay-arena --example copy`.

use forebay_arena::{Segment, SegmentSpec};
use std::time::Instant;

const BYTES: usize = 256 << 20;

/// Median time of copies, in milliseconds.
fn median(mut copy: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            copy();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn show(what: &str, ms: f64) {
    println!("{what:44} {ms:8.2} ms {:8.2} GB/s", BYTES as f64 / ms / 1e6);
}

fn main() -> forebay_types::Result<()> {
    let source: Vec<u8> = (0..BYTES).map(|i| i as u8).collect();
    let spec = SegmentSpec {
        name: String::new(),
        kind: 0,
        up_bytes: 0,
        down_bytes: 0,
        block_bytes: 2 * BYTES as u64,
        blocks: 4,
    };
    let segment = Segment::create(&spec)?;
    let mut allocator = segment.allocator();
    let full = || forebay_types::Error::new(forebay_types::Code::Full, "no room for the block");
    let start = Instant::now();
    let cold = allocator.alloc(BYTES as u64).ok_or_else(full)?;
    cold.write_from(0, &source);
    show("first touch, nothing taken before", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let _ = segment.prefault(2 * BYTES as u64).map(|thread| thread.join());
    show("prefault of 512 MiB in the background", start.elapsed().as_secs_f64() * 1e3 / 2.0);
    let warm = allocator.alloc(BYTES as u64).ok_or_else(full)?;
    show("write_from, warm", median(|| warm.write_from(0, &source)));
    show("memcpy, warm", median(|| warm.view().copy_from(&source)));
    Ok(())
}
