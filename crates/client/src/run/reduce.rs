//! Fewer points where more cannot be seen: what leaves the simulation is bounded.

use forebay_types::watch::Kind;

/// Number of points that remain of `n` when `most` are wanted.
pub fn remaining(kind: Kind, n: usize, most: usize) -> usize {
    if n <= most {
        return n;
    }
    match kind {
        Kind::Curve => most / 2 * 2,
        _ => n.div_ceil(stride(n, most)),
    }
}

fn stride(n: usize, most: usize) -> usize {
    n.div_ceil(most.max(1))
}

/// Copies the points, or fewer of them, into buffers of [`remaining`] length.
///
/// Points of a cloud are thinned by a constant stride, so that the same particles are seen at
/// every update and move smoothly. A curve keeps the least and the greatest value of each bin
/// in the order in which they come, so that no peak is lost.
pub fn reduce(kind: Kind, x: &[f64], y: &[f64], to_x: &mut [f64], to_y: &mut [f64]) {
    let (n, kept) = (x.len().min(y.len()), to_x.len());
    if n <= kept {
        to_x[..n].copy_from_slice(&x[..n]);
        to_y[..n].copy_from_slice(&y[..n]);
    } else if kind == Kind::Curve {
        extremes(x, y, to_x, to_y);
    } else {
        let stride = stride(n, kept);
        for (i, j) in (0..n).step_by(stride).take(kept).enumerate() {
            (to_x[i], to_y[i]) = (x[j], y[j]);
        }
    }
}

fn extremes(x: &[f64], y: &[f64], to_x: &mut [f64], to_y: &mut [f64]) {
    let bins = to_x.len() / 2;
    for bin in 0..bins {
        let (from, to) = (bin * x.len() / bins, (bin + 1) * x.len() / bins);
        let (mut least, mut most) = (from, from);
        for i in from..to {
            if y[i] < y[least] {
                least = i;
            }
            if y[i] > y[most] {
                most = i;
            }
        }
        let (a, b) = (least.min(most), least.max(most));
        (to_x[2 * bin], to_y[2 * bin]) = (x[a], y[a]);
        (to_x[2 * bin + 1], to_y[2 * bin + 1]) = (x[b], y[b]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(kind: Kind, x: &[f64], y: &[f64], most: usize) -> (Vec<f64>, Vec<f64>) {
        let n = remaining(kind, x.len(), most);
        let (mut a, mut b) = (vec![0.0; n], vec![0.0; n]);
        reduce(kind, x, y, &mut a, &mut b);
        (a, b)
    }

    #[test]
    fn a_curve_keeps_its_peaks_and_stays_ordered() {
        let x: Vec<f64> = (0..10_000).map(f64::from).collect();
        let mut y = vec![0.0; 10_000];
        (y[1234], y[7777]) = (5.0, -3.0);
        let (a, b) = reduced(Kind::Curve, &x, &y, 100);
        assert_eq!(a.len(), 100);
        assert!(b.contains(&5.0) && b.contains(&-3.0));
        assert!(a.is_sorted());
    }

    #[test]
    fn a_cloud_keeps_the_same_particles_at_every_update() {
        let x: Vec<f64> = (0..1000).map(f64::from).collect();
        let (first, _) = reduced(Kind::Scatter, &x, &x, 64);
        let moved: Vec<f64> = x.iter().map(|v| v + 0.5).collect();
        let (second, _) = reduced(Kind::Scatter, &moved, &x, 64);
        assert!(first.len() <= 64 && first.len() > 32);
        assert!(first.iter().zip(&second).all(|(a, b)| b - a == 0.5));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let (a, b) = reduced(Kind::Curve, &[1.0, 2.0], &[3.0, f64::NAN], 100);
        assert_eq!(a, [1.0, 2.0]);
        assert!(b[0] == 3.0 && b[1].is_nan());
    }
}
