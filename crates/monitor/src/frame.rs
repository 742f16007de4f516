//! The binary frames of the data socket; `spec/monitor.md` draws them in full.
//!
//! ```text
//!  0      4      5      6      7      8        12       16       24
//!  +------+------+------+------+------+--------+--------+--------+--------+
//!  | MON1 | type | dtype| codec| flags| diagram| curve  | step   | time   |
//!  +------+------+------+------+------+--------+--------+--------+--------+
//!  32     36     40     44     48     52       56       60       64
//!  +------+------+------+------+------+--------+--------+--------+-- - - -
//!  | n0   | n1   | n2   | level| x0   | y0     | lo     | hi     | payload
//!  +------+------+------+------+------+--------+--------+--------+-- - - -
//! ```
//!
//! One message of the socket holds all curves of one diagram, frame behind frame, each a
//! multiple of eight bytes long; the last carries [`LAST`].

use crate::reduce::Points;

/// Flag: fewer points than the curve has.
pub const DECIMATED: u8 = 2;
/// Finer points are being read.
pub const COARSE: u8 = 4;
/// Flag: the last frame of the message.
pub const LAST: u8 = 32;
/// Type: a curve, replacing the one before; f64 abscissae, then f64 ordinates.
pub const CURVE: u8 = 2;
/// Type: points; four f64 (x least, x greatest, y least, y greatest), then u16 pairs.
pub const POINTS: u8 = 3;

const DTYPE_F64: u8 = 1;
const DTYPE_U16Q: u8 = 2;

/// What stands in the header besides the lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// The diagram.
    pub diagram: u32,
    /// The curve.
    pub curve: u32,
    /// The step the points belong to.
    pub step: i64,
    /// Its simulated time; NaN when not known.
    pub time: f64,
    /// Flags.
    pub flags: u8,
}

fn header(out: &mut Vec<u8>, about: &About, kind: u8, dtype: u8, n: usize, range: (f64, f64)) {
    out.extend_from_slice(b"MON1");
    out.extend_from_slice(&[kind, dtype, 0, about.flags]);
    out.extend_from_slice(&about.diagram.to_le_bytes());
    out.extend_from_slice(&about.curve.to_le_bytes());
    out.extend_from_slice(&about.step.to_le_bytes());
    out.extend_from_slice(&about.time.to_le_bytes());
    out.extend_from_slice(&(n as u32).to_le_bytes());
    out.extend_from_slice(&[0; 20]);
    out.extend_from_slice(&(range.0 as f32).to_le_bytes());
    out.extend_from_slice(&(range.1 as f32).to_le_bytes());
}

/// Least and greatest finite value; (0, 0) when there is none.
pub fn bounds(values: &[f64]) -> (f64, f64) {
    let (lo, hi) = values
        .iter()
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
    if lo <= hi { (lo, hi) } else { (0.0, 0.0) }
}

/// Appends a curve.
pub fn curve(out: &mut Vec<u8>, about: &About, points: &Points) {
    header(out, about, CURVE, DTYPE_F64, points.len(), bounds(&points.y));
    for v in points.x.iter().chain(&points.y) {
        out.extend_from_slice(&v.to_le_bytes());
    }
}

/// Appends a cloud of points, each coordinate in 65 536 steps of its range. Points that are not
/// finite are left out.
pub fn points(out: &mut Vec<u8>, about: &About, points: &Points) {
    let finite: Vec<(f64, f64)> = points
        .x
        .iter()
        .copied()
        .zip(points.y.iter().copied())
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    let (x, y) = (bounds(&points.x), bounds(&points.y));
    header(out, about, POINTS, DTYPE_U16Q, finite.len(), y);
    for v in [x.0, x.1, y.0, y.1] {
        out.extend_from_slice(&v.to_le_bytes());
    }
    for (px, py) in finite {
        out.extend_from_slice(&quantise(px, x).to_le_bytes());
        out.extend_from_slice(&quantise(py, y).to_le_bytes());
    }
    while !out.len().is_multiple_of(8) {
        out.push(0);
    }
}

fn quantise(value: f64, (lo, hi): (f64, f64)) -> u16 {
    let span = hi - lo;
    let share = if span > 0.0 && span.is_finite() { (value - lo) / span } else { 0.0 };
    (share * 65535.0).round().clamp(0.0, 65535.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ABOUT: About = About { diagram: 7, curve: 1, step: 1043, time: 2.5, flags: LAST };

    #[test]
    fn a_curve_lies_in_the_bytes_as_drawn() {
        let mut out = Vec::new();
        curve(&mut out, &ABOUT, &Points { x: vec![0.0, 1.0], y: vec![-3.0, 4.0] });
        assert_eq!(&out[..8], &[b'M', b'O', b'N', b'1', 2, 1, 0, 32]);
        assert_eq!(out[8..12], 7u32.to_le_bytes());
        assert_eq!(out[12..16], 1u32.to_le_bytes());
        assert_eq!(out[16..24], 1043u64.to_le_bytes());
        assert_eq!(out[24..32], 2.5f64.to_le_bytes());
        assert_eq!(out[32..36], 2u32.to_le_bytes());
        assert_eq!(out[56..60], (-3f32).to_le_bytes());
        assert_eq!(out[60..64], 4f32.to_le_bytes());
        assert_eq!(out.len(), 64 + 32);
        assert_eq!(out[88..96], 4f64.to_le_bytes());
    }

    #[test]
    fn points_that_are_not_finite_are_left_out() {
        let mut out = Vec::new();
        points(&mut out, &ABOUT, &Points { x: vec![0.0, f64::NAN, 2.0], y: vec![1.0, 1.0, f64::INFINITY] });
        assert_eq!(out[32..36], 1u32.to_le_bytes());
        assert_eq!(out.len() % 8, 0);
    }

    proptest! {
        #[test]
        fn a_quantised_coordinate_is_off_by_at_most_half_a_step(values in prop::collection::vec(-1e9f64..1e9, 1..200)) {
            let range = bounds(&values);
            let step = (range.1 - range.0) / 65535.0;
            for v in &values {
                let back = range.0 + f64::from(quantise(*v, range)) * step;
                prop_assert!((back - v).abs() <= step * 0.5001 + 1e-6);
            }
        }

        #[test]
        fn every_frame_is_a_multiple_of_eight_bytes(x in prop::collection::vec(any::<f64>(), 0..50), y in prop::collection::vec(any::<f64>(), 0..50)) {
            let n = x.len().min(y.len());
            let p = Points { x: x[..n].to_vec(), y: y[..n].to_vec() };
            let mut out = Vec::new();
            points(&mut out, &ABOUT, &p);
            curve(&mut out, &ABOUT, &p);
            prop_assert_eq!(out.len() % 8, 0);
        }
    }
}
