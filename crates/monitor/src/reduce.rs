//! Reduction to what a screen can show, without losing a spike.
//!
//! *M4*: of the points that fall into one column of pixels, the first, the least, the greatest
//! and the last are kept; a line through them covers the same pixels as a line through all.
//! *Halving* thins a stored history the same way: of each group the least and the greatest stay,
//! so extremes survive any number of halvings.

/// The points of a curve that lie in sight, reduced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Abscissae.
    pub x: Vec<f64>,
    /// Ordinates.
    pub y: Vec<f64>,
}

impl Points {
    fn push(&mut self, x: f64, y: f64) {
        self.x.push(x);
        self.y.push(y);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.x.len()
    }
}

/// What part of a curve is wanted, and how finely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Columns of pixels.
    pub columns: u32,
    /// The abscissae in sight; everything when absent.
    pub range: Option<(f64, f64)>,
    /// Whether columns are equal in the logarithm of the abscissa.
    pub log: bool,
}

/// Whether the abscissae never go back (and are numbers).
pub fn is_sorted(x: &[f64]) -> bool {
    x.iter().all(|v| !v.is_nan()) && x.windows(2).all(|w| w[0] <= w[1])
}

/// M4 of a curve with sorted abscissae. One point beyond each edge stays, so that lines run
/// out of the picture. A curve whose abscissae go back is returned as it is.
pub fn m4(x: &[f64], y: &[f64], window: &Window) -> (Points, bool) {
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &y[..n]);
    let whole = || (Points { x: x.to_vec(), y: y.to_vec() }, false);
    if n == 0 || !is_sorted(x) {
        return whole();
    }
    let (from, to) = visible(x, window.range);
    let (x, y) = (&x[from..to], &y[from..to]);
    let columns = window.columns.max(1) as usize;
    if x.len() <= 4 * columns {
        return (Points { x: x.to_vec(), y: y.to_vec() }, false);
    }
    let column = column_of(x, columns, window.log);
    let mut out = Points::default();
    let mut start = 0;
    while start < x.len() {
        let c = column(x[start]);
        let mut end = start + 1;
        while end < x.len() && column(x[end]) == c {
            end += 1;
        }
        keep_four(&x[start..end], &y[start..end], &mut out);
        start = end;
    }
    (out, true)
}

/// Indices of the points in sight, with one more at each side.
fn visible(x: &[f64], range: Option<(f64, f64)>) -> (usize, usize) {
    match range {
        Some((a, b)) if a <= b => {
            let from = x.partition_point(|v| *v < a).saturating_sub(1);
            let to = (x.partition_point(|v| *v <= b) + 1).min(x.len());
            (from, to)
        }
        _ => (0, x.len()),
    }
}

fn column_of(x: &[f64], columns: usize, log: bool) -> impl Fn(f64) -> usize {
    let floor = x.iter().copied().find(|v| *v > 0.0).unwrap_or(1.0);
    let place = move |v: f64| if log { v.max(floor).ln() } else { v };
    let (a, b) = (place(x[0]), place(x[x.len() - 1]));
    let span = b - a;
    move |v| {
        let share = if span > 0.0 && span.is_finite() { (place(v) - a) / span } else { 0.0 };
        ((share * columns as f64) as usize).min(columns - 1)
    }
}

/// First, least, greatest and last, in their order, each once. A gap (NaN) inside stays a gap.
fn keep_four(x: &[f64], y: &[f64], out: &mut Points) {
    let last = x.len() - 1;
    let mut picks = [0, extreme(y, |a, b| a < b), extreme(y, |a, b| a > b), last];
    picks.sort_unstable();
    let mut before = usize::MAX;
    for i in picks {
        if i != before {
            out.push(x[i], y[i]);
            before = i;
        }
    }
    if !y[last].is_nan() && y.iter().any(|v| v.is_nan()) {
        out.push(x[last], f64::NAN);
    }
}

fn extreme(y: &[f64], better: impl Fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (i, v) in y.iter().enumerate() {
        if better(*v, y[best]) || (y[best].is_nan() && !v.is_nan()) {
            best = i;
        }
    }
    best
}

/// Halves a sorted history in place: the first point stays, of each four that follow the least
/// and the greatest.
pub fn halve(points: &mut Points) {
    let n = points.len();
    if n < 6 {
        return;
    }
    let mut out = Points { x: Vec::with_capacity(n / 2 + 2), y: Vec::with_capacity(n / 2 + 2) };
    out.push(points.x[0], points.y[0]);
    let mut start = 1;
    while start < n {
        let end = (start + 4).min(n);
        let group = &points.y[start..end];
        let mut picks = [start + extreme(group, |a, b| a < b), start + extreme(group, |a, b| a > b)];
        picks.sort_unstable();
        out.push(points.x[picks[0]], points.y[picks[0]]);
        if picks[1] != picks[0] {
            out.push(points.x[picks[1]], points.y[picks[1]]);
        }
        start = end;
    }
    *points = out;
}

/// Every n-th point, so that at most `most` remain: the same ones each time, so that a cloud
/// of points moves and does not flicker.
pub fn stride(x: &[f64], y: &[f64], most: usize) -> Points {
    let n = x.len().min(y.len());
    let every = n.div_ceil(most.max(1)).max(1);
    Points {
        x: x[..n].iter().step_by(every).copied().collect(),
        y: y[..n].iter().step_by(every).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(columns: u32) -> Window {
        Window { columns, range: None, log: false }
    }

    #[test]
    fn one_spike_among_a_million_points_is_kept() {
        let n = 1_000_000;
        let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let mut y = vec![0.0; n];
        y[777_777] = 1e9;
        let (p, reduced) = m4(&x, &y, &whole(500));
        assert!(reduced && p.len() <= 2000, "{}", p.len());
        let at = p.y.iter().position(|v| *v == 1e9).expect("the spike is there");
        assert_eq!(p.x[at], 777_777.0);
    }

    #[test]
    fn a_range_in_sight_is_shown_more_finely() {
        let x: Vec<f64> = (0..100_000).map(|i| i as f64).collect();
        let (p, reduced) = m4(&x, &x, &Window { columns: 500, range: Some((100.0, 200.0)), log: false });
        assert!(!reduced);
        assert_eq!((p.x[0], *p.x.last().unwrap()), (99.0, 201.0));
    }

    #[test]
    fn a_curve_that_turns_back_is_left_as_it_is() {
        let x = [0.0, 1.0, 0.5];
        assert_eq!(m4(&x, &x, &whole(1)).0.x, x);
    }

    proptest! {
        #[test]
        fn least_and_greatest_survive_m4(y in prop::collection::vec(-1e6f64..1e6, 1..5000), columns in 1u32..300, log: bool) {
            let x: Vec<f64> = (0..y.len()).map(|i| i as f64).collect();
            let (p, _) = m4(&x, &y, &Window { columns, range: None, log });
            let fold = |v: &[f64]| v.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(*b), a.1.max(*b)));
            prop_assert_eq!(fold(&p.y), fold(&y));
            prop_assert!(p.len() <= 4 * columns as usize);
            prop_assert!(is_sorted(&p.x));
            prop_assert_eq!((p.x[0], p.x[p.len() - 1]), (x[0], x[x.len() - 1]));
        }

        #[test]
        fn least_and_greatest_survive_halving(y in prop::collection::vec(-1e6f64..1e6, 1..3000), times in 1usize..6) {
            let mut p = Points { x: (0..y.len()).map(|i| i as f64).collect(), y: y.clone() };
            for _ in 0..times {
                let before = p.len();
                halve(&mut p);
                prop_assert!(p.len() <= before && (before < 20 || p.len() <= before / 2 + 3));
            }
            let fold = |v: &[f64]| v.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(*b), a.1.max(*b)));
            prop_assert_eq!(fold(&p.y), fold(&y));
            prop_assert!(is_sorted(&p.x));
        }

        #[test]
        fn nothing_in_a_curve_makes_the_reduction_fail(x in prop::collection::vec(any::<f64>(), 0..200), y in prop::collection::vec(any::<f64>(), 0..200), columns in 0u32..50, a: f64, b: f64, log: bool) {
            let _ = m4(&x, &y, &Window { columns, range: Some((a, b)), log });
            let mut sorted = x.clone();
            sorted.retain(|v| !v.is_nan());
            sorted.sort_by(f64::total_cmp);
            let _ = m4(&sorted, &y, &Window { columns, range: Some((a, b)), log });
        }
    }
}
