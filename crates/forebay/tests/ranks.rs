//! Several ranks, each a process, with an agent that was started by need: their pieces make one
//! whole, what does not fit together is told to all of them, and the run goes on.

use crate::support::{Sandbox, sandbox};
use forebay::{
    ArrayOptions, Code, Error, Kept, Mode, OpenOptions, Place, Run, Selection, Shape, Slice, Snapshot, View,
};

fn open(s: &Sandbox, rank: u32, size: u32) -> Run {
    let options = OpenOptions { buffer: 8 << 20, rank: Some(rank), size: Some(size), ..Default::default() };
    forebay::open(&s.run("ranks"), Mode::Append, options).unwrap()
}

fn reopened(s: &Sandbox) -> Run {
    forebay::open(&s.run("ranks"), Mode::Read, OpenOptions::default()).unwrap()
}

fn sh(v: &[u64]) -> Shape {
    Shape::new(v).unwrap()
}

/// Element `i` of the whole array of a step.
fn value(step: i64, i: u64) -> f64 {
    step as f64 * 1e6 + i as f64
}

/// Plays all ranks, each in a process, and waits for their good end.
fn play(s: &Sandbox, size: u32) {
    let mut ranks: Vec<_> = (0..size).map(|r| s.start(&format!("{r} {size}"))).collect();
    for (r, rank) in ranks.iter_mut().enumerate() {
        assert!(rank.wait().success(), "rank {r} of {size}");
    }
}

/// This process's part, if it plays one.
fn part(s: &Sandbox) -> Option<(u32, u32)> {
    let (rank, size) = s.role.split_once(' ')?;
    Some((rank.parse().unwrap(), size.parse().unwrap()))
}

/// Waits until all ranks have come here.
fn together(s: &Sandbox, what: &str, rank: u32, size: u32) {
    s.tell(&format!("{what}-{rank}"));
    (0..size).for_each(|r| s.hear(&format!("{what}-{r}")));
}

/// Puts the box `local` at `offset` of an array of shape `global`, each element its index.
fn put_box(snapshot: &Snapshot, name: &str, offset: &[u64], local: &[u64], global: &[u64]) {
    let step = snapshot.step();
    let mut values = Vec::new();
    for e in 0..local.iter().product() {
        let (mut rest, mut index, mut stride) = (e, 0, 1);
        for axis in (0..local.len()).rev() {
            index += (offset[axis] + rest % local[axis]) * stride;
            stride *= global[axis];
            rest /= local[axis];
        }
        values.push(value(step, index));
    }
    let place = Place::At { offset: sh(offset), global: sh(global) };
    snapshot
        .put(
            name,
            View::of(&values, local).unwrap(),
            ArrayOptions { units: "V/m", place, about: None, compress: None },
        )
        .unwrap();
}

fn append(snapshot: &Snapshot, name: &str, values: &[f64]) -> Result<(), Error> {
    let piece = ArrayOptions { units: "m", place: Place::Append, about: None, compress: None };
    snapshot.put(name, View::of(values, &[values.len() as u64]).unwrap(), piece)
}

fn whole(kept: &Kept, name: &str, shape: &[u64]) {
    let got = kept.get(name, None).unwrap();
    assert_eq!(got.meta.shape, sh(shape), "{name}");
    let n: u64 = shape.iter().product();
    let wanted: Vec<f64> = (0..n).map(|i| value(kept.step(), i)).collect();
    assert!(got.to_f64().unwrap() == wanted, "{name} of step {}", kept.step());
}

/// The particles of a rank: none at all, few, many, never as many as those of another.
fn particles(rank: u32, step: i64) -> Vec<f64> {
    let n = if (i64::from(rank) + step) % 3 == 1 { 0 } else { 3000 * (u64::from(rank) + 1) };
    (0..n).map(|i| f64::from(rank) * 1e9 + value(step, i)).collect()
}

fn decomposed(s: &Sandbox, rank: u32, size: u32) {
    let run = open(s, rank, size);
    let (r, n) = (u64::from(rank), u64::from(size));
    let mut steps = run.steps(4, 0).unwrap();
    while let Some(step) = steps.next().unwrap() {
        let snapshot = run.snapshot(step, Some(step as f64)).unwrap();
        put_box(&snapshot, "line", &[r * 20_000], &[20_000], &[n * 20_000]);
        // The last axis is divided, so that each piece is many short runs of the file.
        put_box(&snapshot, "plane", &[0, r * 30], &[50, 30], &[50, n * 30]);
        // Two planes of ranks in the first axis, the others in the last one.
        let (i, k) = (r % 2, r / 2);
        let (ni, nk) = (n.min(2), n.div_ceil(2));
        put_box(&snapshot, "space", &[i * 8, 0, k * 5], &[8, 6, 5], &[ni * 8, 6, nk * 5]);
        // Every size-th row belongs to the rank.
        (0..6).for_each(|row| put_box(&snapshot, "rows", &[row * n + r, 0], &[1, 40], &[6 * n, 40]));
        append(&snapshot, "x", &particles(rank, step)).unwrap();
        if rank == size - 1 {
            snapshot
                .put("energy", View::of(&[0.5 * step as f64], &[]).unwrap(), ArrayOptions::default())
                .unwrap();
        }
        snapshot.end().unwrap();
        if step == 3 {
            snapshot.wait(None).unwrap();
        }
    }
    run.close().unwrap();
}

#[test]
fn pieces_of_one_to_four_ranks_make_one_whole_in_one_file() {
    sandbox("pieces_of_one_to_four_ranks_make_one_whole_in_one_file", |s| {
        if let Some((rank, size)) = part(s) {
            return decomposed(s, rank, size);
        }
        for size in [1, 2, 4] {
            play(s, size);
            let run = reopened(s);
            let kept = run.snapshots().unwrap();
            assert_eq!(kept.numbers().unwrap(), [0, 1, 2, 3]);
            let n = u64::from(size);
            for step in 0..4 {
                let k = kept.at(step).unwrap();
                whole(&k, "line", &[n * 20_000]);
                whole(&k, "plane", &[50, n * 30]);
                whole(&k, "space", &[n.min(2) * 8, 6, n.div_ceil(2) * 5]);
                whole(&k, "rows", &[6 * n, 40]);
                let x: Vec<f64> = (0..size).flat_map(|r| particles(r, step)).collect();
                assert!(k.get("x", None).unwrap().to_f64().unwrap() == x);
                assert_eq!(k.get("energy", None).unwrap().to_f64().unwrap(), [0.5 * step as f64]);
            }
            let files = std::fs::read_dir(run.path().join("steps")).unwrap().count();
            assert_eq!(files, 4, "one file a step, whatever the number of ranks");
            drop(kept);
            run.close().unwrap();
            std::fs::remove_dir_all(forebay::run_dir(&s.run("ranks")).unwrap()).unwrap();
        }
    });
}

/// What goes wrong in which step, and what the error must say.
const FAULTS: [(i64, &[&str]); 6] = [
    (1, &["step 1", "\"E\"", "rank 1, (60,) at (40,)", "rank 0, (50,) at (0,)"]),
    (2, &["step 2", "\"E\"", "lacks 10 of its 100", "first at (50,)", "rank 1 put (40,) at (60,)"]),
    (3, &["step 3", "ranks", "both put \"E\" whole"]),
    (4, &["step 4", "\"E\"", "f32", "f64"]),
    (5, &["step 5", "\"x\"", "(3, 2)", "(3,)"]),
    (6, &["step 6", "\"E\"", "(100,)", "(101,)"]),
];

fn faulty(s: &Sandbox, rank: u32) {
    let run = open(s, rank, 2);
    for step in 0..8 {
        let snapshot = run.snapshot(step, None).unwrap();
        let (first, second): (&[u64; 2], &[u64; 2]) = match step {
            1 => (&[0, 50], &[40, 60]),
            2 => (&[0, 50], &[60, 40]),
            _ => (&[0, 50], &[50, 50]),
        };
        let [offset, local] = if rank == 0 { *first } else { *second };
        let values: Vec<f64> = (0..local).map(|i| value(step, offset + i)).collect();
        let view = View::of(&values, &[local]).unwrap();
        let global = if step == 6 { 100 + u64::from(rank) } else { 100 };
        let place = Place::At { offset: sh(&[offset]), global: sh(&[global]) };
        // A fault may be told at any call from here on, since the other rank may have made it.
        let done = match step {
            3 => snapshot.put("E", view, ArrayOptions::default()),
            4 if rank == 1 => {
                let single = vec![0f32; local as usize];
                snapshot.put(
                    "E",
                    View::of(&single, &[local]).unwrap(),
                    ArrayOptions { units: "", place, about: None, compress: None },
                )
            }
            5 if rank == 1 => {
                let flat = View::of(&values[..6], &[3, 2]).unwrap();
                snapshot.put(
                    "x",
                    flat,
                    ArrayOptions { units: "", place: Place::Append, about: None, compress: None },
                )
            }
            5 => append(&snapshot, "x", &values[..3]),
            _ => snapshot.put("E", view, ArrayOptions { units: "", place, about: None, compress: None }),
        };
        let done = done.and_then(|()| snapshot.end()).and_then(|()| snapshot.wait(None));
        together(s, &format!("step{step}"), rank, 2);
        match FAULTS.iter().find(|f| f.0 == step) {
            None => done.unwrap(),
            Some((_, words)) => {
                let e = done.unwrap_err();
                assert_eq!(e.code(), Code::BadArgument, "{e}");
                words.iter().for_each(|w| assert!(e.text().contains(w), "{w:?} in {e}"));
            }
        }
        drop(snapshot);
        run.flush().unwrap_or_else(|e| panic!("step {step}: told twice: {e}"));
    }
    run.close().unwrap();
}

#[test]
fn pieces_that_do_not_fit_together_are_told_to_all_ranks_and_the_run_goes_on() {
    sandbox("pieces_that_do_not_fit_together_are_told_to_all_ranks_and_the_run_goes_on", |s| {
        if let Some((rank, _)) = part(s) {
            return faulty(s, rank);
        }
        play(s, 2);
        let run = reopened(s);
        let kept = run.snapshots().unwrap();
        assert_eq!(kept.numbers().unwrap(), [0, 7], "a step with a fault is given up as a whole");
        whole(&kept.at(7).unwrap(), "E", &[100]);
        assert_eq!(std::fs::read_dir(run.path().join("steps")).unwrap().count(), 2);
    });
}

#[test]
fn a_fault_that_nobody_waits_for_is_told_at_close() {
    sandbox("a_fault_that_nobody_waits_for_is_told_at_close", |s| {
        if let Some((rank, size)) = part(s) {
            let run = open(s, rank, size);
            let snapshot = run.snapshot(3, None).unwrap();
            put_box(&snapshot, "E", &[u64::from(rank) * 2], &[2], &[5]);
            snapshot.end().unwrap();
            together(s, "ended", rank, size);
            let e = run.close().unwrap_err();
            assert!(e.text().contains("lacks 1 of its 5"), "{e}");
            return assert!(run.closed());
        }
        play(s, 2);
        assert!(reopened(s).snapshots().unwrap().is_empty());
    });
}

#[test]
fn a_rank_that_opens_otherwise_is_refused_with_what_differs() {
    sandbox("a_rank_that_opens_otherwise_is_refused_with_what_differs", |s| {
        if s.role == "first" {
            let run = open(s, 0, 2);
            s.tell("open");
            s.hear("tried");
            return run.close().unwrap();
        }
        let mut first = s.start("first");
        s.hear("open");
        let pid = format!("process {}", first.pid());
        let refusal = |mode, rank, size, full| {
            let options = OpenOptions { rank: Some(rank), size: Some(size), full, ..Default::default() };
            let e = forebay::open(&s.run("ranks"), mode, options).err().unwrap();
            assert!(e.text().contains(&pid) || e.code() == Code::BadArgument, "{e}");
            e.text().to_owned()
        };
        use forebay::WhenFull::{Block, DropNewest};
        let size = refusal(Mode::Append, 1, 3, Block);
        assert!(size.contains("one of 3 ranks") && size.contains("held with 2"), "{size}");
        let mode = refusal(Mode::Write, 1, 2, Block);
        assert!(mode.contains("rank 1") && mode.contains("mode \"w\"") && mode.contains("\"a\""), "{mode}");
        assert!(refusal(Mode::Append, 1, 2, DropNewest).contains("\"drop_newest\""));
        assert!(refusal(Mode::Append, 0, 2, Block).contains("as that rank"));
        assert!(refusal(Mode::Append, 2, 2, Block).contains("rank 2 of 2 is not possible"));
        // What was refused has changed nothing: the right one is welcome.
        let run = open(s, 1, 2);
        s.tell("tried");
        run.close().unwrap();
        assert!(first.wait().success());
    });
}

/// The time that ranks which do not come are waited for, for an agent started from here.
const LATE: [(&str, &str); 1] = [("FOREBAY_LATE_RANKS", "0.5")];

#[test]
fn a_rank_that_never_comes_or_never_ends_a_step_holds_nobody_for_ever() {
    sandbox("a_rank_that_never_comes_or_never_ends_a_step_holds_nobody_for_ever", |s| {
        let half = |run: &Run, step, rank: u64| {
            let snapshot = run.snapshot(step, None).unwrap();
            put_box(&snapshot, "E", &[rank * 2], &[2], &[4]);
            snapshot.end().unwrap();
            snapshot
        };
        if s.role == "first" {
            let run = open(s, 0, 2);
            let _ = half(&run, 0, 0);
            let e = run.close().unwrap_err();
            assert!(e.text().contains("rank 1 of 2 did not open the run within 0.5 s"), "{e}");
            assert!(run.closed());
            let run = open(s, 0, 2);
            s.tell("again");
            s.hear("there");
            let _ = half(&run, 1, 0);
            let e = run.close().unwrap_err();
            assert!(e.code() == Code::Timeout && e.text().contains("step 1 waits for rank 1 of 2"), "{e}");
            return assert!(run.closed());
        }
        if s.role == "slow" {
            s.hear("again");
            let run = open(s, 1, 2);
            s.tell("there");
            s.hear("left");
            half(&run, 1, 1).wait(None).unwrap();
            return run.close().unwrap();
        }
        let (mut first, mut slow) = (s.start_with("first", &LATE), s.start_with("slow", &LATE));
        assert!(first.wait().success());
        s.tell("left");
        assert!(slow.wait().success());
        let run = reopened(s);
        let kept = run.snapshots().unwrap();
        assert_eq!(kept.numbers().unwrap(), [1], "the part of the rank that left was kept for the other one");
        whole(&kept.at(1).unwrap(), "E", &[4]);
    });
}

/// Takes three steps, or goes back and finds what other numbers of ranks have left.
fn goes_on(s: &Sandbox, rank: u32, size: u32) {
    let run = open(s, rank, size);
    let (r, n) = (u64::from(rank), u64::from(size));
    let back = match size {
        4 => run.restart_from("early", false).unwrap(),
        _ => run.restart().unwrap(),
    };
    let begin = back.as_ref().map_or(0, |b| b.snapshot.step() + 1);
    assert_eq!(begin, [0, 0, 3, 0, 2][size as usize], "the same step in all ranks");
    if let Some(back) = &back {
        // Blocks are read as the whole array or as any part of it.
        whole(&back.snapshot, "line", &[1200]);
        let (start, count) = (r * 1200 / n, 1200 / n);
        let piece = Selection(vec![Slice { start, count, step: 1, squeeze: false }]);
        let mine = back.snapshot.get("line", Some(&piece)).unwrap().to_f64().unwrap();
        assert_eq!((mine.len() as u64, mine[0]), (count, value(back.snapshot.step(), start)));
    }
    together(s, &format!("back{size}"), rank, size);
    for step in begin..begin + 3 {
        let snapshot = run.snapshot(step, None).unwrap();
        let (a, b) = (r * 1200 / n, (r + 1) * 1200 / n);
        put_box(&snapshot, "line", &[a], &[b - a], &[1200]);
        append(&snapshot, "x", &particles(rank, step)).unwrap();
        snapshot.end().unwrap();
        snapshot.wait(None).unwrap();
        if step == 1 {
            assert_eq!(run.checkpoint(Some("early")).unwrap(), 1);
        }
        together(s, &format!("step{size}-{step}"), rank, size);
    }
    run.close().unwrap();
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks_from_its_last_step_or_a_checkpoint() {
    sandbox("a_run_goes_on_with_another_number_of_ranks_from_its_last_step_or_a_checkpoint", |s| {
        if let Some((rank, size)) = part(s) {
            return goes_on(s, rank, size);
        }
        play(s, 1);
        play(s, 2);
        assert_eq!(reopened(s).snapshots().unwrap().numbers().unwrap(), [0, 1, 2, 3, 4, 5]);
        play(s, 4);
        let run = reopened(s);
        let kept = run.snapshots().unwrap();
        assert_eq!(kept.numbers().unwrap(), [0, 1, 2, 3, 4]);
        for step in 0..5 {
            let k = kept.at(step).unwrap();
            whole(&k, "line", &[1200]);
            let ranks = if step < 2 { 1 } else { 4 };
            let x: Vec<f64> = (0..ranks).flat_map(|r| particles(r, step)).collect();
            assert!(k.get("x", None).unwrap().to_f64().unwrap() == x, "step {step}");
        }
        let marks = run.checkpoints().unwrap();
        assert_eq!(marks.iter().map(|c| (c.step, c.kept)).collect::<Vec<_>>(), [(1, true)]);
    });
}
