//! What a run costs the simulation: the loop head, an unwatched curve, a small put, a large
//! array of a snapshot against a warm copy of the same bytes. A table, and with `--json` a line.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::Instant;

use forebay_client::run::{ArrayOptions, PutOptions, View};
use forebay_types::control::WhenFull;
use forebay_types::watch::{Diagram, Kind};
use support::Owner;

const MIB: usize = 1 << 20;

/// Nanoseconds of one call: the median of batches.
fn each(batches: usize, calls: usize, mut call: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..batches)
        .map(|_| {
            let began = Instant::now();
            (0..calls).for_each(|_| call());
            began.elapsed().as_nanos() as f64 / calls as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let owner = Owner::start();
    let run = owner.open(512 * MIB as u64, WhenFull::Block);
    let mut figures: Vec<(&str, f64, &str)> = Vec::new();

    let mut steps = run.steps(i64::MAX - 1, None).unwrap();
    figures.push(("loop head", each(50, 10_000, || drop(black_box(steps.next()))), "ns"));
    drop(steps);

    let points: Vec<f64> = (0..2_000_000).map(f64::from).collect();
    let d = run
        .diagram(Diagram {
            id: 0,
            title: "phase space".into(),
            kind: Kind::Scatter,
            x: "x [m]".into(),
            y: "v [m/s]".into(),
            v: None,
            xscale: Default::default(),
            yscale: Default::default(),
            every: 1,
            reduce: None,
        })
        .unwrap();
    d.update("beam", &points, &points).unwrap();
    figures.push((
        "unwatched update",
        each(50, 10_000, || d.update("beam", &points, &points).unwrap()),
        "ns",
    ));

    let small = [0.0f64; 64];
    let put = || run.put("small", View::of(&small, &[64]).unwrap(), PutOptions::default()).unwrap();
    figures.push(("put of 512 bytes", each(20, 500, put), "ns"));

    let large = vec![1.0f64; 64 * MIB / 8];
    let mut warm = vec![0u8; 64 * MIB];
    let bytes = View::of(&large, &[large.len() as u64]).unwrap().bytes();
    let copy = each(9, 1, || black_box(&mut warm).copy_from_slice(black_box(&bytes)));
    let mut times = Vec::new();
    for step in 0..13 {
        let snapshot = run.snapshot(step, None).unwrap();
        let began = Instant::now();
        snapshot.put("x", View::of(&large, &[large.len() as u64]).unwrap(), ArrayOptions::default()).unwrap();
        if step >= 4 {
            // The first ones touch the arena's pages for the first time.
            times.push(began.elapsed().as_nanos() as f64);
        }
        snapshot.end().unwrap();
        run.flush().unwrap();
    }
    times.sort_by(f64::total_cmp);
    let put = times[times.len() / 2];
    figures.push(("warm copy of 64 MiB", copy * 1e-6, "ms"));
    figures.push(("snapshot.put of 64 MiB", put * 1e-6, "ms"));
    figures.push(("of the copy's speed", copy / put, ""));

    for (name, value, unit) in &figures {
        println!("{name:<24} {value:>10.2} {unit}");
    }
    if std::env::args().any(|a| a == "--json") {
        let object: serde_json::Map<String, serde_json::Value> =
            figures.iter().map(|(n, v, _)| (n.replace(' ', "_"), (*v).into())).collect();
        println!("{}", serde_json::Value::Object(object));
    }
    run.close(None).unwrap();
}
