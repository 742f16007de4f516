//! Elements of two arrays, or cells of two tables, side by side.

use forebay::{ArrayMeta, Cell, DType, Number, Order, Result, Shape};
use forebay_types::neutral::element;

/// Characters of a text that are shown.
const SHOWN: usize = 40;

/// When two numbers count as equal. Without any of both: when their bits are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In proportion to the second one.
    pub relative: f64,
    /// Whatever their size.
    pub absolute: f64,
}

impl Tolerance {
    fn allows(self, distance: f64, reference: f64) -> bool {
        distance <= self.absolute + self.relative * reference
    }
}

/// How far two numbers are apart.
struct Apart {
    is_close: bool,
    distance: f64,
    relative: Option<f64>,
}

/// Compares as `numpy.isclose(a, b, equal_nan=True)` does.
fn apart(a: Number, b: Number, tolerance: Option<Tolerance>) -> Apart {
    let (is_same, distance, size) = match (a, b) {
        (Number::Int(a), Number::Int(b)) => (a == b, a.abs_diff(b) as f64, b.unsigned_abs() as f64),
        (Number::Real(a), Number::Real(b)) => (a == b || a.is_nan() && b.is_nan(), (a - b).abs(), b.abs()),
        (Number::Complex(a, i), Number::Complex(b, j)) => {
            let is_nan = |re: f64, im: f64| re.is_nan() || im.is_nan();
            let is_same = a == b && i == j || is_nan(a, i) && is_nan(b, j);
            (is_same, (a - b).hypot(i - j), b.hypot(j))
        }
        _ => (false, f64::NAN, f64::NAN),
    };
    let allows =
        |t: Tolerance| is_same || distance.is_finite() && size.is_finite() && t.allows(distance, size);
    Apart {
        is_close: tolerance.is_some_and(allows),
        distance,
        relative: (size > 0.0).then_some(distance / size),
    }
}

/// Where two arrays of one dtype and shape differ.
#[derive(Debug, Default, PartialEq)]
pub struct Differing {
    /// Bytes of what is compared as one: an element, or a whole text.
    pub item: u64,
    /// How many of these differ.
    pub count: u64,
    /// The index of the first one, and both values.
    pub first: Option<(Vec<u64>, String, String)>,
    /// The largest distance.
    pub largest: Option<f64>,
    /// The largest distance in proportion to the second one.
    pub largest_relative: Option<f64>,
}

/// Compares two arrays, or the same box of both, a part at a time.
pub struct Comparison {
    dtype: DType,
    /// Bytes that are compared as one: an element, or a whole text.
    item: usize,
    tolerance: Option<Tolerance>,
    /// Extents in items, in which order they run, and where the box begins.
    shape: Shape,
    order: Order,
    offset: Vec<u64>,
    at: u64,
    /// What was found.
    pub found: Differing,
}

impl Comparison {
    /// Of a box of two such arrays. `texts`: each text comes whole, and its letters lie together.
    pub fn new(
        meta: &ArrayMeta,
        (offset, shape): (Vec<u64>, Shape),
        texts: bool,
        tolerance: Option<Tolerance>,
    ) -> Result<Comparison> {
        let mut comparison = Comparison {
            dtype: meta.dtype,
            item: meta.dtype.size(),
            tolerance,
            shape,
            order: meta.order,
            offset,
            at: 0,
            found: Differing::default(),
        };
        if let (true, Some((width, outer))) = (texts, shape.extents().split_last()) {
            comparison.item = (*width as usize).max(1);
            comparison.shape = Shape::new(outer)?;
            comparison.offset.pop();
        }
        comparison.found.item = comparison.item as u64;
        Ok(comparison)
    }

    /// Compares the parts that come next.
    pub fn part(&mut self, a: &[u8], b: &[u8]) {
        let items = (a.len() / self.item) as u64;
        if a != b {
            for (n, (a, b)) in a.chunks_exact(self.item).zip(b.chunks_exact(self.item)).enumerate() {
                if a != b {
                    self.item(self.at + n as u64, a, b);
                }
            }
        }
        self.at += items;
    }

    fn item(&mut self, at: u64, a: &[u8], b: &[u8]) {
        let is_number = self.item == self.dtype.size() && !self.dtype.is_text();
        if is_number {
            let apart = apart(self.dtype.number(a), self.dtype.number(b), self.tolerance);
            if apart.is_close {
                return;
            }
            let most = |known: Option<f64>, v: f64| {
                if v.is_finite() { Some(known.map_or(v, |k| k.max(v))) } else { known }
            };
            self.found.largest = most(self.found.largest, apart.distance);
            self.found.largest_relative =
                most(self.found.largest_relative, apart.relative.unwrap_or(f64::NAN));
        }
        self.found.count += 1;
        if self.found.first.is_none() {
            let shown = |item: &[u8]| match is_number {
                true => element::text(self.dtype, item),
                false if self.item == 1 => item[0].to_string(),
                false => text(&String::from_utf8_lossy(super::super::npy::unpadded(item))),
            };
            self.found.first = Some((self.index(at), shown(a), shown(b)));
        }
    }

    /// The index of an item of the box, in the array.
    fn index(&self, at: u64) -> Vec<u64> {
        let strides = self.shape.strides(self.order);
        let axis = |(i, extent): (usize, &u64)| at / strides[i] % (*extent).max(1) + self.offset[i];
        self.shape.extents().iter().enumerate().map(axis).collect()
    }
}

/// Whether two cells count as equal.
pub fn is_same_cell(a: &Cell, b: &Cell, tolerance: Option<Tolerance>) -> bool {
    let number = |cell: &Cell| match cell {
        Cell::Int(v) => Some(Number::Int((*v).into())),
        Cell::Unsigned(v) => Some(Number::Int((*v).into())),
        Cell::Real(v) => Some(Number::Real(*v)),
        _ => None,
    };
    match (a, b) {
        (Cell::Real(a), Cell::Real(b)) if a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() => true,
        (Cell::Real(_), Cell::Real(_))
        | (Cell::Int(_) | Cell::Unsigned(_), Cell::Int(_) | Cell::Unsigned(_)) => {
            match (number(a), number(b)) {
                (Some(x), Some(y)) => match tolerance {
                    Some(_) => apart(x, y, tolerance).is_close,
                    None => a == b,
                },
                _ => false,
            }
        }
        _ => a == b,
    }
}

/// A text as it is shown.
pub fn text(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("{shown:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(
        dtype: DType,
        extents: &[u64],
        a: &[u8],
        b: &[u8],
        tolerance: Option<Tolerance>,
    ) -> Differing {
        let meta = ArrayMeta::new(dtype, Shape::new(extents).unwrap());
        let whole = (vec![0; extents.len()], meta.shape);
        let mut comparison = Comparison::new(&meta, whole, dtype == DType::Str, tolerance).unwrap();
        let cut = a.len() / comparison.item / 2 * comparison.item;
        comparison.part(&a[..cut], &b[..cut]);
        comparison.part(&a[cut..], &b[cut..]);
        comparison.found
    }

    fn reals(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_are_equal_by_their_bits_or_as_numpy_says_within_a_tolerance() {
        let odd = f64::from_bits(0x7ff8_0000_0000_0001);
        let a = reals(&[0.0, f64::NAN, f64::INFINITY, 1.0, -4.0, f64::NAN]);
        let b = reals(&[-0.0, odd, f64::INFINITY, 1.25, -4.0, 0.0]);
        let bits = compared(DType::F64, &[2, 3], &a, &b, None);
        assert_eq!((bits.count, bits.largest, bits.largest_relative), (4, Some(0.25), Some(0.2)));
        assert_eq!(bits.first, Some((vec![0, 0], "0.0".into(), "-0.0".into())));
        let within = |relative, absolute| {
            compared(DType::F64, &[2, 3], &a, &b, Some(Tolerance { relative, absolute }))
        };
        assert_eq!(within(0.0, 0.0).first, Some((vec![1, 0], "1.0".into(), "1.25".into())));
        // In proportion to the second one: 0.2 * 1.25 allows it.
        assert_eq!((within(0.2, 0.0).count, within(0.19, 0.0).count, within(0.0, 0.25).count), (1, 2, 1));
        assert_eq!(within(1.0, 1.0).first, Some((vec![1, 2], "nan".into(), "0.0".into())));
        let far = compared(
            DType::F64,
            &[1],
            &reals(&[f64::INFINITY]),
            &reals(&[1.0]),
            Some(Tolerance { relative: 1.0, absolute: 1e300 }),
        );
        assert_eq!((far.count, far.largest), (1, None));
    }

    #[test]
    fn integers_are_compared_to_the_last_one_and_complex_numbers_by_their_distance() {
        let (a, b) = ((u64::MAX - 1).to_le_bytes(), u64::MAX.to_le_bytes());
        let found = compared(DType::U64, &[], &a, &b, None);
        let values = ("18446744073709551614".to_owned(), "18446744073709551615".to_owned());
        assert_eq!(
            (found.count, found.first, found.largest),
            (1, Some((vec![], values.0, values.1)), Some(1.0))
        );
        let found = compared(DType::C128, &[1], &reals(&[3.0, 4.0]), &reals(&[0.0, 0.0]), None);
        assert_eq!((found.largest, found.largest_relative), (Some(5.0), None));
        let loose = Some(Tolerance { relative: 0.0, absolute: 5.0 });
        assert_eq!(compared(DType::C128, &[1], &reals(&[3.0, 4.0]), &reals(&[0.0, 0.0]), loose).count, 0);
    }

    #[test]
    fn texts_are_compared_whole() {
        let found = compared(DType::Str, &[2, 3], b"abca\0\0", b"abcb\0\0", None);
        assert_eq!((found.count, found.first), (1, Some((vec![1], "\"a\"".into(), "\"b\"".into()))));
    }
}
