//! Snapshots: what a `put` of a large array costs the caller against a warm memory copy of the
//! same bytes, and what the drain reaches against raw direct writes of the same bytes. Both
//! yardsticks are measured in the same run; a table for people, then one line of JSON.
//!
//! `snapshot [DIRECTORY [STEPS]]`: writes 256 MiB a step below the directory (default: the
//! system's temporary one, which may not be a disk) and removes it again.

use forebay::{OpenOptions, Piece, View};
use forebay_arena::{Direction, Segment, SegmentSpec};
use forebay_store::{Attach, Deaf, Options, Owner};
use forebay_types::codec::Writer;
use forebay_types::control::{Mode, OpenRun, WhenFull, word};
use forebay_types::record::{HeldBlock, Payload, Place, Record, StepBlock};
use forebay_types::{ArrayMeta, DType, Result, Shape};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const ARRAY: usize = 64 << 20;
const NAMES: [&str; ARRAYS] = ["a", "b", "c", "d"];
const ARRAYS: usize = 4;
/// Steps before the figures count: the pages of the arena are taken and touched.
const WARM: usize = 3;
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// What a `put` costs the simulation, in seconds.
struct Puts {
    copy: f64,
    alone: f64,
    any: f64,
}

/// Copies by memcpy and puts of the same bytes in turn, so that both meet the same machine: the
/// arrays of snapshots of a run whose owner is on threads of this process (or an agent that
/// runs). The arena has been written before. The first put of a step finds the drain at rest,
/// the others share the memory with it.
fn puts(dir: &Path, source: &[f64], steps: usize) -> Result<Puts> {
    let options = OpenOptions {
        buffer: 2 * (ARRAY * ARRAYS) as u64,
        rank: Some(0),
        size: Some(1),
        scratch: true,
        ..OpenOptions::default()
    };
    let place = dir.join("puts.fb");
    let run = forebay::open(&place.to_string_lossy(), Mode::Append, options)?;
    let mut target = vec![1.0; source.len()];
    let (mut copies, mut alone, mut any) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..steps + WARM {
        run.flush()?;
        for _ in 0..ARRAYS {
            let start = Instant::now();
            target.copy_from_slice(std::hint::black_box(source));
            std::hint::black_box(&target);
            copies.push(start.elapsed().as_secs_f64());
        }
        let snapshot = run.snapshot(step as i64, None)?;
        for (i, name) in NAMES.iter().enumerate() {
            let view = View::of(source, &[source.len() as u64])?;
            let start = Instant::now();
            snapshot.put(name, view, Piece::default())?;
            let seconds = start.elapsed().as_secs_f64();
            if step >= WARM {
                any.push(seconds);
                alone.extend((i == 0).then_some(seconds));
            }
        }
        snapshot.end()?;
    }
    run.close()?;
    Ok(Puts { copy: median(copies), alone: median(alone), any: median(any) })
}

/// Seconds to write the bytes of one step directly from shared pages, and to sync and rename them.
fn raw_from(dir: &Path, blocks: &[forebay_arena::Block], n: usize) -> Result<f64> {
    let failed = |e: std::io::Error| forebay_types::Error::io("the raw write", e);
    let (tmp, path) = (dir.join(format!("raw{n}.tmp")), dir.join(format!("raw{n}")));
    let start = Instant::now();
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create(true).truncate(true);
    let file = open.clone().custom_flags(O_DIRECT).open(&tmp).or_else(|_| open.open(&tmp)).map_err(failed)?;
    let mut at = 0u64;
    for block in blocks {
        for chunk in block.bytes().chunks(8 << 20) {
            std::os::unix::fs::FileExt::write_all_at(&file, chunk, at).map_err(failed)?;
            at += chunk.len() as u64;
        }
    }
    file.sync_all().map_err(failed)?;
    std::fs::rename(&tmp, &path).map_err(failed)?;
    std::fs::File::open(dir).and_then(|d| d.sync_all()).map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(path).map_err(failed)?;
    Ok(seconds)
}

fn main() -> Result<()> {
    let base = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let steps: usize = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(12);
    let failed = |e: std::io::Error| forebay_types::Error::io("the bench's directory", e);
    let dir = tempfile::Builder::new().prefix("forebay-bench").tempdir_in(base).map_err(failed)?;
    let numbers: Vec<f64> = (0..ARRAY / 8).map(|i| (i % 251) as f64).collect();
    let puts = puts(dir.path(), &numbers, steps)?;
    let owner = Owner::open(&dir.path().join("bench.fb"), Options::default())?;
    let opened = owner.admit(&OpenRun {
        path: String::new(),
        mode: Mode::Append,
        rank: 0,
        size: 1,
        full: WhenFull::Block,
        scratch: true,
        buffer: 0,
        program: "bench".into(),
    })?;
    let segment = Segment::create(&SegmentSpec {
        name: opened.segment,
        kind: 1,
        up_bytes: 1 << 20,
        down_bytes: 1 << 16,
        block_bytes: 2 * (ARRAY * ARRAYS) as u64,
        blocks: 64,
    })?;
    let _ = segment.prefault().join();
    let bell = segment.bell(Direction::Up);
    bell.attach_eventfd(owner.doorbell()?);
    let theirs = Segment::from_fd(segment.fd().try_clone_to_owned().map_err(failed)?)?;
    owner.attach(Attach { session: opened.session, segment: theirs }, Arc::new(Deaf))?;
    let mut producer = segment.producer(Direction::Up);
    let mut allocator = segment.allocator();

    let source: &[u8] = bytemuck::cast_slice(&numbers);
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[ARRAY as u64 / 8])?);
    let (mut drains, mut raws) = (Vec::new(), Vec::new());
    let mut seq = 0;
    let mut publish = |record: &Record| {
        seq += 1;
        let mut w = Writer::new();
        record.encode(seq, &mut w);
        let bytes = w.finish();
        while producer.push(&[&bytes]).is_err() {
            std::thread::sleep(Duration::from_micros(100));
        }
        bell.ring();
    };
    for step in 0..steps as i64 {
        // The arrays are copied first and published together, so that the drain is timed alone.
        allocator.reap();
        let mut blocks = Vec::new();
        for _ in 0..ARRAYS {
            let Some(block) = allocator.alloc(ARRAY as u64) else {
                return Err(forebay_types::Error::internal(
                    "the arena has room for two steps and none is free",
                ));
            };
            block.write_from(0, source);
            blocks.push(block);
        }
        let start = Instant::now();
        publish(&Record::StepBegin { step, time: step as f64 });
        for (i, block) in blocks.iter().enumerate() {
            let payload = Payload::Block(HeldBlock {
                segment: 0,
                index: block.index(),
                made: block.made(),
                bytes: ARRAY as u64,
            });
            let name = NAMES[i];
            publish(&Record::StepBlock(StepBlock {
                step,
                name,
                unit: "",
                meta,
                place: Place::Whole,
                part: 0,
                payload,
            }));
        }
        publish(&Record::StepEnd { step, blocks: ARRAYS as u32 });
        while segment.word(word::DURABLE).load(Ordering::Acquire) != step as u64 + 1 {
            std::thread::sleep(Duration::from_micros(100));
        }
        drains.push(start.elapsed().as_secs_f64());
        let _ = std::fs::remove_file(dir.path().join("bench.fb").join(format!("steps/{step:010}.h5")));
        allocator.reap();
        let again: Vec<_> = (0..ARRAYS).filter_map(|_| allocator.alloc(ARRAY as u64)).collect();
        again.iter().for_each(|b| b.write_from(0, &source[..4096]));
        raws.push(raw_from(dir.path(), &again, step as usize)?);
        again.into_iter().for_each(|b| allocator.free(b));
    }
    owner.close()?;
    report(&puts, median(drains), median(raws), steps);
    Ok(())
}

fn report(puts: &Puts, drain: f64, raw: f64, steps: usize) {
    let Puts { copy, alone, any } = *puts;
    let bytes = (ARRAY * ARRAYS) as f64;
    let rows = [
        ("warm memcpy of 64 MiB", copy, ARRAY as f64),
        ("put of 64 MiB, first of its step", alone, ARRAY as f64),
        ("put of 64 MiB, while others are drained", any, ARRAY as f64),
        ("raw direct write of 256 MiB, durable", raw, bytes),
        ("drain of a 256 MiB step, durable", drain, bytes),
    ];
    println!("{:<40} {:>9} {:>8}", format!("{steps} steps, medians"), "ms", "GB/s");
    for (what, seconds, bytes) in rows {
        println!("{what:<40} {:>9.2} {:>8.2}", seconds * 1e3, bytes / seconds * 1e-9);
    }
    println!(
        "put against memcpy {:.2} (wanted 0.85), drain against raw {:.2} (wanted 0.80)",
        copy / alone,
        raw / drain
    );
    let json = serde_json::json!({
        "bench": "snapshot", "steps": steps, "memcpy_ms": copy * 1e3, "put_ms": alone * 1e3, "put_draining_ms": any * 1e3,
        "raw_ms": raw * 1e3, "drain_ms": drain * 1e3, "put_ratio": copy / alone, "put_draining_ratio": copy / any, "drain_ratio": raw / drain,
    });
    println!("{json}");
}
