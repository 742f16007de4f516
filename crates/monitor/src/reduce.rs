//! Reduction to what a screen can show, without losing a spike.
//!
//! *M4*: of the points that fall into one column of pixels, the first, the least, the greatest
//! and the last are kept; a line through them covers the same pixels as a line through all.

/// The points of a curve that lie in sight, reduced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Abscissae.
    pub x: Vec<f64>,
    /// Ordinates.
    pub y: Vec<f64>,
}

impl Points {
    /// Adds a point.
    pub fn push(&mut self, x: f64, y: f64) {
        self.x.push(x);
        self.y.push(y);
    }

    /// The number of points.
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

/// Where abscissae lie on their axis, and in which column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    log: bool,
    /// What is not positive lies, on a logarithmic axis, where the least positive abscissa lies.
    floor: f64,
    from: f64,
    /// Width of a column; 0 when all abscissae are one.
    pub column: f64,
}

impl Axis {
    /// The axis of a window upon abscissae from `least` to `greatest`, the least positive one being `floor`.
    pub fn of(window: &Window, least: f64, greatest: f64, floor: f64) -> Axis {
        let mut axis = Axis { log: window.log, floor, from: 0.0, column: 0.0 };
        let (a, b) = window.range.unwrap_or((least, greatest));
        axis.from = axis.place(a);
        // Halves first: the difference of two doubles may be beyond the greatest one.
        let half = axis.place(b) / 2.0 - axis.from / 2.0;
        let column = 2.0 * (half / f64::from(window.columns.max(1)));
        if column > 0.0 && column.is_finite() {
            axis.column = column;
        }
        axis
    }

    /// The place of an abscissa, linear in pixels.
    pub fn place(&self, x: f64) -> f64 {
        if self.log { x.max(self.floor).ln() } else { x }
    }

    /// Number of the column of an abscissa; what lies beyond an edge has a column of its own.
    pub fn number(&self, x: f64) -> i64 {
        self.cell(x, self.column)
    }

    /// Number of the column of an abscissa, for columns of `width`; what lies beyond an edge has a column of its own.
    pub fn cell(&self, x: f64, width: f64) -> i64 {
        if width > 0.0 { ((self.place(x) - self.from) / width).floor() as i64 } else { 0 }
    }

    /// Whether it is logarithmic.
    pub fn is_log(&self) -> bool {
        self.log
    }
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
    let whole = |x: &[f64], y: &[f64]| (Points { x: x.to_vec(), y: y.to_vec() }, false);
    if n == 0 || !is_sorted(x) {
        return whole(x, y);
    }
    let (from, to) = visible(x, window.range);
    let (x, y) = (&x[from..to], &y[from..to]);
    if x.len() <= 4 * window.columns.max(1) as usize {
        return whole(x, y);
    }
    let floor = x.iter().copied().find(|v| *v > 0.0).unwrap_or(1.0);
    let axis = Axis::of(window, x[0], x[x.len() - 1], floor);
    let mut out = Points::default();
    thin(x, y, |v| axis.number(v), &mut out);
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

/// Of the points that follow each other in one column, the first, least, greatest and last, in
/// their order; a gap (no number, or infinite) stays a gap. Abscissae may go back.
pub fn thin(x: &[f64], y: &[f64], column: impl Fn(f64) -> i64, out: &mut Points) {
    let mut start = 0;
    while start < x.len() {
        let c = column(x[start]);
        let mut end = start + 1;
        while end < x.len() && column(x[end]) == c {
            end += 1;
        }
        keep(&x[start..end], &y[start..end], out);
        start = end;
    }
}

/// Most gaps that are kept within one column; where there are more, the rest is one line.
const GAPS: usize = 8;

fn keep(x: &[f64], y: &[f64], out: &mut Points) {
    let mut start = 0;
    for _ in 0..GAPS {
        let Some(run) = y[start..].iter().position(|v| !v.is_finite()) else { break };
        keep_four(&x[start..start + run], &y[start..start + run], out);
        start += run;
        out.push(x[start], f64::NAN);
        start = y[start..].iter().position(|v| v.is_finite()).map_or(y.len(), |n| start + n);
    }
    keep_four(&x[start..], &y[start..], out);
}

/// First, least, greatest and last, in their order, each once.
fn keep_four(x: &[f64], y: &[f64], out: &mut Points) {
    let mut finite = (0..y.len()).filter(|i| y[*i].is_finite());
    let Some(first) = finite.next() else { return };
    let mut picks = [first; 4];
    for i in finite {
        picks[1] = if y[i] < y[picks[1]] { i } else { picks[1] };
        picks[2] = if y[i] > y[picks[2]] { i } else { picks[2] };
        picks[3] = i;
    }
    picks.sort_unstable();
    let mut before = usize::MAX;
    for i in picks {
        if i != before {
            out.push(x[i], y[i]);
            before = i;
        }
    }
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
        assert!(reduced && p.len() <= 2004, "{}", p.len());
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
    fn a_point_far_beyond_the_edge_takes_no_column_from_what_is_in_sight() {
        let mut x: Vec<f64> = (0..1000).map(|i| i as f64).collect();
        x.push(1e9);
        let y: Vec<f64> = x.iter().map(|v| v % 7.0).collect();
        let (p, _) = m4(&x, &y, &Window { columns: 100, range: Some((0.0, 1000.0)), log: false });
        assert!(p.len() > 300, "{} points for a hundred columns", p.len());
    }

    #[test]
    fn gaps_of_a_column_stay_gaps() {
        let x: Vec<f64> = (0..1000).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|v| v / 1000.0).collect();
        y[500] = f64::NAN;
        y[501] = f64::INFINITY;
        let (p, _) = m4(&x, &y, &whole(10));
        let at = p.y.iter().position(|v| v.is_nan()).expect("a gap");
        assert_eq!((p.x[at - 1], p.x[at], p.x[at + 1]), (499.0, 500.0, 502.0));
        assert_eq!(p.y.iter().filter(|v| !v.is_finite()).count(), 1);
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
            // The greatest abscissa begins a column of its own.
            prop_assert!(p.len() <= 4 * (columns as usize + 1));
            prop_assert!(is_sorted(&p.x));
            prop_assert_eq!((p.x[0], p.x[p.len() - 1]), (x[0], x[x.len() - 1]));
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
