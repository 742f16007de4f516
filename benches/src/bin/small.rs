//! Small data sets, one by one: `small RUN COUNT` puts COUNT sets of 1..1000 32-bit integers,
//! flushes, and gets them again. One line of JSON: microseconds per set.

use forebay::{OpenOptions, PutOptions, View};
use forebay_types::Result;
use forebay_types::control::Mode;
use std::time::Instant;

fn length(i: usize) -> usize {
    1 + i * 7919 % 1000
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let count: usize = arguments.get(2).and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let mode = if arguments.len() > 3 { Mode::Read } else { Mode::Write };
    let options = OpenOptions { rank: Some(0), size: Some(1), ..OpenOptions::default() };
    let run = forebay::open(&arguments[1], mode, options)?;
    let values: Vec<i32> = (0..2000).collect();
    let each = |start: Instant| start.elapsed().as_secs_f64() * 1e6 / count as f64;
    let names: Vec<String> = (0..count).map(|i| format!("set/{i:05}")).collect();
    let start = Instant::now();
    let (mut put, mut durable) = (0.0, 0.0);
    if mode.writes() {
        for (i, name) in names.iter().enumerate() {
            let n = length(i);
            run.put(name, View::of(&values[i % 1000..][..n], &[n as u64])?, PutOptions::default())?;
        }
        put = each(start);
        run.flush()?;
        durable = each(start);
    }
    let start = Instant::now();
    let mut wrong = 0;
    for (i, name) in names.iter().enumerate() {
        let array = run.get(name, 0, None)?;
        let first = i32::from_le_bytes([array.bytes[0], array.bytes[1], array.bytes[2], array.bytes[3]]);
        wrong += usize::from(array.bytes.len() != 4 * length(i) || first != (i % 1000) as i32);
    }
    let get = each(start);
    let start = Instant::now();
    run.close()?;
    let close = each(start);
    assert_eq!(wrong, 0);
    println!(
        "{{\"put_us\": {put:.3}, \"durable_us\": {durable:.3}, \"get_us\": {get:.3}, \"close_us\": {close:.3}}}"
    );
    Ok(())
}
