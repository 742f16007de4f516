//! What is drawn of a history against all of its points: for any shape, length and pace.

use super::*;
use proptest::prelude::*;

/// A picture of 1000 columns and 1000 rows, two cells a column: which cells have ink.
struct Ink {
    cells: Vec<[u64; ROWS / 64]>,
}

const COLUMNS: usize = 1000;
const CELLS: usize = 2 * COLUMNS;
const ROWS: usize = 1024;

/// Where points lie on the picture.
struct Paper {
    log: bool,
    x: (f64, f64),
    y: (f64, f64),
}

impl Paper {
    fn of(points: &Points, log: bool) -> Paper {
        let mut paper =
            Paper { log, x: (f64::INFINITY, f64::NEG_INFINITY), y: (f64::INFINITY, f64::NEG_INFINITY) };
        for (x, y) in points.x.iter().zip(&points.y) {
            let x = if log { x.ln() } else { *x };
            paper.x = (paper.x.0.min(x), paper.x.1.max(x));
            if y.is_finite() {
                paper.y = (paper.y.0.min(*y), paper.y.1.max(*y));
            }
        }
        paper
    }

    fn place(&self, x: f64, y: f64) -> Point {
        let x = if self.log { x.ln() } else { x };
        let share = |v: f64, (a, b): Point| if b > a { (v - a) / (b - a) } else { 0.5 };
        (share(x, self.x) * CELLS as f64, share(y, self.y) * 1000.0)
    }
}

impl Ink {
    /// A line through the points as the page draws it.
    fn of(points: &Points, paper: &Paper) -> Ink {
        let mut ink = Ink { cells: vec![[0; ROWS / 64]; CELLS + 1] };
        let mut pen: Option<Point> = None;
        for (x, y) in points.x.iter().zip(&points.y) {
            if !y.is_finite() {
                pen = None;
                continue;
            }
            let to = paper.place(*x, *y);
            ink.line(pen.unwrap_or(to), to);
            pen = Some(to);
        }
        ink
    }

    fn line(&mut self, a: Point, b: Point) {
        let (a, b) = if a.0 <= b.0 { (a, b) } else { (b, a) };
        let slope = if b.0 > a.0 { (b.1 - a.1) / (b.0 - a.0) } else { 0.0 };
        let at = |x: f64| a.1 + slope * (x - a.0);
        for cell in a.0 as usize..=(b.0 as usize).min(CELLS) {
            let from = if cell as f64 <= a.0 { a.1 } else { at(cell as f64) };
            let to = if cell as f64 + 1.0 >= b.0 { b.1 } else { at(cell as f64 + 1.0) };
            let (low, high) = (from.min(to).max(0.0) as usize, from.max(to).max(0.0) as usize);
            for row in low..=high.min(ROWS - 1) {
                self.cells[cell][row / 64] |= 1 << (row % 64);
            }
        }
    }

    /// As if drawn by a pen that is 3 cells (1.5 columns) and 1 % of the height wide to each side.
    fn fat(&self) -> Ink {
        const UP: usize = 10 + 1;
        let tall: Vec<_> = self
            .cells
            .iter()
            .map(|cell| {
                let mut out = *cell;
                for _ in 0..UP {
                    let was = out;
                    for word in 0..out.len() {
                        let below = if word > 0 { was[word - 1] >> 63 } else { 0 };
                        let above = was.get(word + 1).map_or(0, |w| w << 63);
                        out[word] |= was[word] << 1 | was[word] >> 1 | below | above;
                    }
                }
                out
            })
            .collect();
        let wide = |i: usize| {
            let mut out = [0; ROWS / 64];
            for near in &tall[i.saturating_sub(3)..(i + 4).min(tall.len())] {
                out.iter_mut().zip(near).for_each(|(a, b)| *a |= b);
            }
            out
        };
        Ink { cells: (0..tall.len()).map(wide).collect() }
    }

    /// A cell of ours that is not among those of the other.
    fn beyond(&self, other: &Ink) -> Option<(usize, usize)> {
        self.cells.iter().zip(&other.cells).enumerate().find_map(|(cell, (ours, theirs))| {
            let word = ours.iter().zip(theirs).position(|(a, b)| a & !b != 0)?;
            Some((cell, 64 * word + (ours[word] & !theirs[word]).trailing_zeros() as usize))
        })
    }
}

fn window(columns: u32) -> Window {
    Window { columns, range: None, log: false }
}

/// Draws as the monitor does: what is wanted is read from all points until nothing is wanted.
fn drawn(history: &mut History, all: &Points, window: &Window, limits: Limits) -> Drawn {
    for _ in 0..20 {
        let drawn = history.draw(window);
        if drawn.wants.is_empty() {
            return drawn;
        }
        for want in &drawn.wants {
            let rows = want.rows.0 as usize..want.rows.1 as usize + 1;
            history.open(want, &Points { x: all.x[rows.clone()].to_vec(), y: all.y[rows].to_vec() }, limits);
        }
    }
    panic!("it wants and wants");
}

fn limits() -> Limits {
    Limits::of(1)
}

fn history_of(all: &Points, limits: Limits) -> History {
    let mut history = History::default();
    for (row, (t, y)) in all.x.iter().zip(&all.y).enumerate() {
        history.append(row as i64, *t, *y, limits);
    }
    history
}

/// Nothing is drawn farther than 1.5 columns and 1 % of the range from the truth, and nothing of the
/// truth is farther than that from what is drawn.
fn is_true(all: &Points, log: bool, limits: Limits) -> Result<(), String> {
    let mut history = history_of(all, limits);
    let window = Window { columns: COLUMNS as u32, range: None, log };
    let drawn = drawn(&mut history, all, &window, limits);
    let paper = Paper::of(all, log);
    let (truth, seen) = (Ink::of(all, &paper), Ink::of(&drawn.points, &paper));
    if let Some(at) = truth.beyond(&seen.fat()) {
        return Err(format!("of {} points, what lies at {at:?} is not drawn", all.len()));
    }
    if let Some(at) = seen.beyond(&truth.fat()) {
        return Err(format!("of {} points, what is drawn at {at:?} is not there", all.len()));
    }
    if drawn.points.len() > 8 * COLUMNS && !history.folded {
        return Err(format!("{} points are sent for {COLUMNS} columns", drawn.points.len()));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    Even,
    Geometric,
    LastHalf,
    Jumping,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Sine,
    Chirp,
    Stairs,
    Spike,
    Noise,
    Decay,
    Bursts,
    Huge,
}

fn random(i: usize) -> f64 {
    let mut v = i as u64 ^ 0x9E37_79B9_7F4A_7C15;
    v = (v ^ (v >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    v = (v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (v ^ (v >> 31)) as f64 / u64::MAX as f64
}

/// A history: the ordinate is a function of the abscissa, but for noise, gaps and the spike.
fn made(n: usize, pace: Pace, shape: Shape) -> Points {
    let mut all = Points::default();
    let mut jumps = 0.0;
    for i in 0..n {
        let u = (i + 1) as f64 / n as f64;
        jumps += 10f64.powf(-6.0 * random(i));
        let t = match pace {
            Pace::Even => u,
            Pace::Geometric => 1e9f64.powf(u) * 1e-3,
            Pace::LastHalf if i + n / 1000 >= n => 0.5 + 0.5 * (i + n / 1000 - n) as f64 / (n / 1000) as f64,
            Pace::LastHalf => 0.5 * u,
            Pace::Jumping => jumps,
        };
        let span = match pace {
            Pace::Geometric => 1e6,
            Pace::Jumping => n as f64 * 0.07,
            _ => 1.0,
        };
        let s = t / span;
        let y = match shape {
            Shape::Sine => (251.0 * s).sin(),
            Shape::Chirp => (400.0 * s * s).sin(),
            Shape::Stairs => (s * 13.0).floor(),
            Shape::Spike => f64::from(i == n / 3),
            Shape::Noise => random(i + 7),
            Shape::Decay => (-20.0 * s).exp(),
            Shape::Bursts if (i / (n / 37 + 1)) % 3 == 1 => f64::NAN,
            Shape::Bursts => (30.0 * s).sin(),
            Shape::Huge => 2f64.powi(60) + 256.0 * (100.0 * s).sin().round() * 1000.0,
        };
        all.push(t, y);
    }
    all
}

fn pace() -> impl Strategy<Value = Pace> {
    prop_oneof![Just(Pace::Even), Just(Pace::Geometric), Just(Pace::LastHalf), Just(Pace::Jumping)]
}

fn shape() -> impl Strategy<Value = Shape> {
    use Shape::{Bursts, Chirp, Decay, Huge, Noise, Sine, Spike, Stairs};
    prop::sample::select(vec![Sine, Chirp, Stairs, Spike, Noise, Decay, Bursts, Huge])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_drawn_is_the_truth_whatever_its_shape_pace_and_length(
        exponent in 3.0f64..5.7, pace in pace(), shape in shape(), log: bool, curves in 1usize..2000,
    ) {
        let all = made(10f64.powf(exponent) as usize, pace, shape);
        prop_assert_eq!(is_true(&all, log, Limits::of(curves)), Ok(()));
    }

    #[test]
    fn a_part_in_sight_is_as_true_as_the_whole(
        exponent in 3.0f64..5.5, pace in pace(), shape in shape(), at in 0.0f64..0.9, width in 1e-5f64..0.1,
    ) {
        let all = made(10f64.powf(exponent) as usize, pace, shape);
        let mut history = history_of(&all, limits());
        let last = all.x[all.len() - 1];
        let (a, b) = (last * at, last * (at + width));
        let drawn = drawn(&mut history, &all, &Window { range: Some((a, b)), ..window(1000) }, limits());
        let inside = |p: &Points, (a, b): (f64, f64)| {
            let seen = p.x.iter().zip(&p.y).filter(|(x, y)| **x >= a && **x <= b && y.is_finite());
            seen.fold((f64::INFINITY, f64::NEG_INFINITY), |r, (_, y)| (r.0.min(*y), r.1.max(*y)))
        };
        // What lies at the edges is drawn within one and a half columns.
        let edge = 1.5 * (b - a) / 1000.0;
        let (least, most) = inside(&drawn.points, (a, b));
        let (wide, narrow) = (inside(&all, (a - edge, b + edge)), inside(&all, (a + edge, b - edge)));
        prop_assert!(wide.0 <= least && least <= narrow.0, "{least} of {wide:?} and {narrow:?}");
        prop_assert!(wide.1 >= most && most >= narrow.1, "{most} of {wide:?} and {narrow:?}");
        prop_assert!(drawn.points.len() <= 8 * 1000);
    }

    #[test]
    fn nothing_that_is_appended_makes_it_fail(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..3000), a: f64, b: f64, log: bool, range: bool,
    ) {
        let few = Limits { buckets: 16, details: 64 };
        let mut all = Points::default();
        let mut history = History::default();
        for (row, (t, y)) in points.iter().enumerate() {
            all.push(*t, *y);
            history.append(row as i64, *t, *y, few);
        }
        let window = Window { columns: 10, range: range.then_some((a, b)), log };
        for _ in 0..3 {
            let drawn = history.draw(&window);
            for want in &drawn.wants {
                let rows = want.rows.0 as usize..want.rows.1 as usize + 1;
                history.open(want, &Points { x: all.x[rows.clone()].to_vec(), y: all.y[rows].to_vec() }, few);
            }
        }
    }
}

#[test]
fn ten_million_points_are_drawn_as_truly_as_a_thousand() {
    for pace in [Pace::Even, Pace::LastHalf] {
        assert_eq!(is_true(&made(10_000_000, pace, Shape::Sine), false, limits()), Ok(()), "{pace:?}");
    }
}

#[test]
fn a_time_step_that_grows_at_the_end_leaves_nothing_out() {
    // 40 periods; the last 2,000 of two million points are half of the time.
    let mut all = Points::default();
    for i in 0..2_000_000 {
        let t =
            if i < 1_998_000 { f64::from(i) / 1_998_000.0 } else { 1.0 + f64::from(i - 1_998_000) / 2000.0 };
        all.push(t, (40.0 * std::f64::consts::PI * t).sin());
    }
    assert_eq!(is_true(&all, false, limits()), Ok(()));
    assert_eq!(is_true(&all, true, limits()), Ok(()));
}

#[test]
fn a_loop_that_is_gone_round_many_times_is_drawn_and_not_cut() {
    let mut all = Points::default();
    for i in 0..300_000 {
        let phase = f64::from(i) * 2.0 * std::f64::consts::PI / 20_000.0;
        all.push(phase.cos() + 2.0, phase.sin() * (1.0 - f64::from(i) / 1e6));
    }
    assert_eq!(is_true(&all, false, limits()), Ok(()));
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let limits = Limits::of(3000);
    let all = made(300_000, Pace::Jumping, Shape::Noise);
    let mut history = history_of(&all, limits);
    drawn(&mut history, &all, &window(4000), limits);
    assert!(history.buckets.len() <= limits.buckets);
    assert!(history.detailed <= limits.details);
    assert_eq!(history.detailed, history.details.values().map(|d| d.points.len()).sum::<usize>());
}

#[test]
fn the_newest_points_are_all_there_without_being_read_again() {
    let all = made(100_000, Pace::Even, Shape::Noise);
    let mut history = history_of(&all, limits());
    history.append(100_000, 5.0, 0.5, limits());
    history.append(100_001, 9.0, 0.25, limits());
    let points = history.draw(&window(1000)).points;
    assert_eq!(&points.x[points.len() - 2..], &[5.0, 9.0]);
    assert_eq!(&points.y[points.len() - 2..], &[0.5, 0.25]);
}

#[test]
fn many_curves_share_the_memory() {
    assert_eq!(Limits::of(3).buckets, BUCKETS.1);
    assert_eq!(Limits::of(4096).buckets, BUCKETS.0);
    assert!(Limits::of(500).buckets * 500 * size_of::<Bucket>() <= BUCKET_BYTES);
    assert!(Limits::of(0).buckets.is_power_of_two());
}

#[test]
fn a_point_that_is_changed_is_drawn_as_it_is_now() {
    let few = Limits { buckets: 8, details: 1 << 15 };
    let n = 100;
    let mut all = Points::default();
    (0..n).for_each(|i| all.push(f64::from(i), f64::from(i % 10)));
    let mut history = history_of(&all, few);
    // One in a closed bucket, its greatest; the last one; and one that stays within the others.
    for (i, y) in [(19, 4.5), (99, -3.0), (45, 5.5), (0, 50.0)] {
        all.y[i] = y;
        history.amend(i as i64, all.x[i], y);
    }
    let drawn = drawn(&mut history, &all, &window(4), few);
    let extremes = |y: &[f64]| y.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    assert_eq!(extremes(&drawn.points.y), extremes(&all.y));
    let rows = history.buckets[1].rows;
    assert_eq!(history.buckets[1].greatest.1, extremes(&all.y[rows.0 as usize..rows.1 as usize + 1]).1);
    assert!(history.buckets.iter().all(|b| !b.stale));
}
