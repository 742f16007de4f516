//! Several ranks, each a process, with an agent that was started by need.

mod support;

use forebay::{Mode, OpenOptions, Piece, Place, Shape, View};
use support::sandbox;

const N: u64 = 40_000;
const RANKS: u32 = 3;

fn options(rank: u32) -> OpenOptions {
    OpenOptions { buffer: 8 << 20, rank: Some(rank), size: Some(RANKS), ..Default::default() }
}

fn part(rank: u32, step: i64, n: u64) -> Vec<f64> {
    (0..n).map(|i| f64::from(rank) * 1e9 + step as f64 * 1e6 + i as f64).collect()
}

fn one_rank(s: &support::Sandbox, rank: u32) {
    let run = forebay::open(&s.run("ranks"), Mode::Append, options(rank)).unwrap();
    let mut steps = run.steps(4, 0).unwrap();
    while let Some(step) = steps.next().unwrap() {
        let values = part(rank, step, N);
        let snapshot = run.snapshot(step, Some(step as f64)).unwrap();
        let place = Place::At {
            offset: Shape::new(&[u64::from(rank) * N]).unwrap(),
            global: Shape::new(&[u64::from(RANKS) * N]).unwrap(),
        };
        snapshot.put("E", View::of(&values, &[N]).unwrap(), Piece { unit: "V/m", place }).unwrap();
        let n = N / u64::from(rank + 1);
        let some = View::of(&values[..n as usize], &[n]).unwrap();
        snapshot.put("x", some, Piece { unit: "m", place: Place::Append }).unwrap();
        snapshot.end().unwrap();
        if step == 3 {
            snapshot.wait(None).unwrap();
        }
    }
    run.close().unwrap();
}

#[test]
fn ranks_put_their_pieces_and_the_whole_appears() {
    sandbox("ranks_put_their_pieces_and_the_whole_appears", |s| {
        if let Ok(rank) = s.role.parse() {
            return one_rank(s, rank);
        }
        let mut ranks: Vec<_> = (0..RANKS).map(|r| s.start(&r.to_string())).collect();
        for rank in &mut ranks {
            assert!(rank.wait().success());
        }
        let run = forebay::open(&s.run("ranks"), Mode::Read, OpenOptions::default()).unwrap();
        let kept = run.snapshots().unwrap();
        assert_eq!(kept.numbers(), [0, 1, 2, 3]);
        for step in 0..4 {
            let snapshot = kept.at(step).unwrap();
            let whole: Vec<f64> = (0..RANKS).flat_map(|r| part(r, step, N)).collect();
            assert!(snapshot.get("E", None).unwrap().to_f64().unwrap() == whole);
            let appended: Vec<f64> = (0..RANKS).flat_map(|r| part(r, step, N / u64::from(r + 1))).collect();
            assert!(snapshot.get("x", None).unwrap().to_f64().unwrap() == appended);
        }
    });
}
