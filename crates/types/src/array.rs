//! Shapes, element order and selections.

use crate::{DType, Error, Result, limits};
use serde::{Deserialize, Serialize};

/// Whether the last index runs fastest (C, NumPy) or the first one (Fortran).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Order {
    /// Row-major, C: the last index runs fastest.
    #[default]
    C = 0,
    /// Column-major, Fortran: the first index runs fastest.
    F = 1,
}

/// The extents of an array, at most eight. A scalar has none.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    rank: u8,
    extents: [u64; limits::RANK],
}

impl Shape {
    /// Checks the rank and that the product of the extents fits 63 bits.
    pub fn new(extents: &[u64]) -> Result<Shape> {
        if extents.len() > limits::RANK {
            return Err(Error::bad(format!(
                "an array of rank {} is beyond the limit of {}; reshape it",
                extents.len(),
                limits::RANK
            )));
        }
        let mut shape = Shape { rank: extents.len() as u8, extents: [0; limits::RANK] };
        shape.extents[..extents.len()].copy_from_slice(extents);
        shape.checked_len().ok_or_else(|| {
            Error::bad(format!("the extents {extents:?} multiply to more than 2^63 elements"))
        })?;
        Ok(shape)
    }

    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// The extents.
    pub fn extents(&self) -> &[u64] {
        &self.extents[..self.rank as usize]
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    fn checked_len(&self) -> Option<u64> {
        let product = self.extents().iter().try_fold(1u64, |a, b| a.checked_mul(*b))?;
        (product < 1 << 63).then_some(product)
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.checked_len().unwrap_or(0)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of such an array; fails beyond 2^63.
    pub fn bytes(&self, dtype: DType) -> Result<u64> {
        self.len().checked_mul(dtype.size() as u64).filter(|n| *n < 1 << 63).ok_or_else(|| {
            Error::bad(format!("an array of shape {self} and dtype {dtype} has more than 2^63 bytes"))
        })
    }

    /// Elements between neighbours along each axis, for a dense array.
    pub fn strides(&self, order: Order) -> [u64; limits::RANK] {
        let mut strides = [0; limits::RANK];
        let mut step = 1;
        let mut visit = |axis: usize| {
            strides[axis] = step;
            step *= self.extents[axis].max(1);
        };
        match order {
            Order::C => (0..self.rank()).rev().for_each(&mut visit),
            Order::F => (0..self.rank()).for_each(&mut visit),
        }
        strides
    }
}

impl std::fmt::Display for Shape {
    /// As Python writes it: `()`, `(3,)`, `(3, 4)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.extents() {
            [one] => write!(f, "({one},)"),
            many => {
                let words: Vec<_> = many.iter().map(|n| n.to_string()).collect();
                write!(f, "({})", words.join(", "))
            }
        }
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What an array is, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PlainMeta", into = "PlainMeta")]
pub struct ArrayMeta {
    /// Type of the elements.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Which index runs fastest.
    pub order: Order,
}

/// The JSON of what an array is.
#[derive(Serialize, Deserialize)]
struct PlainMeta {
    dtype: String,
    shape: Vec<u64>,
    #[serde(default)]
    column_major: bool,
}

impl From<DType> for ArrayMeta {
    /// A single element, or a text.
    fn from(dtype: DType) -> ArrayMeta {
        ArrayMeta::new(dtype, Shape::scalar())
    }
}

impl From<ArrayMeta> for PlainMeta {
    fn from(m: ArrayMeta) -> PlainMeta {
        let shape = m.shape.extents().to_vec();
        PlainMeta { dtype: m.dtype.to_string(), shape, column_major: m.order == Order::F }
    }
}

impl TryFrom<PlainMeta> for ArrayMeta {
    type Error = Error;

    fn try_from(m: PlainMeta) -> Result<ArrayMeta> {
        let order = if m.column_major { Order::F } else { Order::C };
        let meta = ArrayMeta { dtype: DType::parse(&m.dtype)?, shape: Shape::new(&m.shape)?, order };
        meta.bytes().map(|_| meta)
    }
}

impl ArrayMeta {
    /// A row-major array.
    pub fn new(dtype: DType, shape: Shape) -> Self {
        ArrayMeta { dtype, shape, order: Order::C }
    }

    /// Bytes of the array; fails beyond 2^63.
    pub fn bytes(&self) -> Result<u64> {
        self.shape.bytes(self.dtype)
    }
}

impl std::fmt::Display for ArrayMeta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// A part of one axis: `start`, `start + step`, ... , `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First index.
    pub start: u64,
    /// How many.
    pub count: u64,
    /// Distance; at least 1.
    pub step: u64,
    /// Whether the axis disappears from the result (a plain index).
    pub squeeze: bool,
}

/// The error of a part that leaves its array.
fn beyond(slice: &Slice, shape: &Shape, axis: usize) -> Error {
    const NTH: [&str; limits::RANK] =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];
    let Slice { start, count, step, .. } = slice;
    let extent = shape.extents()[axis];
    let elements = if *count == 1 { "element" } else { "elements" };
    let steps = if *step == 1 { String::new() } else { format!(" in steps of {step}") };
    Error::bad(format!(
        "the part begins at index {start} of the {} axis and takes {count} {elements}{steps}, and the array of shape {shape} has {extent} there; take a part that lies within it",
        NTH[axis]
    ))
}

/// A part of an array, one [`Slice`] an axis (missing ones mean the whole axis).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Selection(pub Vec<Slice>);

impl Selection {
    /// Fills missing axes and checks every slice against the shape.
    pub fn resolve(&self, shape: &Shape) -> Result<Vec<Slice>> {
        if self.0.len() > shape.rank() {
            return Err(Error::bad(format!("{} indices for an array of shape {shape}", self.0.len())));
        }
        let mut out = Vec::with_capacity(shape.rank());
        for (axis, extent) in shape.extents().iter().enumerate() {
            let slice = match self.0.get(axis) {
                Some(s) => *s,
                None => Slice { start: 0, count: *extent, step: 1, squeeze: false },
            };
            let last = slice
                .count
                .checked_sub(1)
                .map(|n| n.checked_mul(slice.step).and_then(|n| n.checked_add(slice.start)));
            let inside = match last {
                None => true,
                Some(last) => slice.step > 0 && last.is_some_and(|l| l < *extent),
            };
            if !inside {
                return Err(beyond(&slice, shape, axis));
            }
            out.push(slice);
        }
        Ok(out)
    }

    /// The shape of what a resolved selection picks.
    pub fn shape_of(resolved: &[Slice]) -> Result<Shape> {
        let extents: Vec<u64> = resolved.iter().filter(|s| !s.squeeze).map(|s| s.count).collect();
        Shape::new(&extents)
    }

    /// Parts of at most so many bytes (or of one element) which one behind the other are the whole
    /// selection, in the order of the array's elements.
    pub fn slabs(&self, meta: &ArrayMeta, most: u64) -> Result<Vec<Selection>> {
        let slices = self.resolve(&meta.shape)?;
        let axes: Vec<usize> = match meta.order {
            Order::C => (0..slices.len()).collect(),
            Order::F => (0..slices.len()).rev().collect(),
        };
        let mut slabs = Vec::new();
        cut(&slices, &axes, meta.dtype.size() as u64, most, &mut slabs);
        Ok(slabs)
    }

    /// Reads `0:10,:,3` as NumPy would: `start:stop:step` with negative values counted from the end.
    pub fn parse(text: &str, shape: &Shape) -> Result<Selection> {
        let wrong = |part: &str| {
            Error::bad(format!(
                "{part:?} in the selection {text:?} is not an index or start:stop:step with step > 0"
            ))
        };
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
        if parts.len() > shape.rank() {
            return Err(Error::bad(format!(
                "the selection {text:?} has {} axes, the array has shape {shape}",
                parts.len()
            )));
        }
        let mut slices = Vec::new();
        for (part, extent) in parts.iter().zip(shape.extents()) {
            let extent = *extent as i64;
            let number = |t: &str, default: i64| -> Result<i64> {
                if t.is_empty() {
                    return Ok(default);
                }
                let v: i64 = t.parse().map_err(|_| wrong(part))?;
                Ok(if v < 0 { v + extent } else { v })
            };
            let pieces: Vec<&str> = part.split(':').map(str::trim).collect();
            slices.push(match pieces.as_slice() {
                [index] if !index.is_empty() => {
                    let i = number(index, 0)?;
                    if i < 0 || i >= extent {
                        return Err(Error::bad(format!(
                            "the index {index} in the selection {text:?} is beyond its axis of the shape {shape}; give one below {extent}, or a negative one that counts from the end"
                        )));
                    }
                    Slice { start: i as u64, count: 1, step: 1, squeeze: true }
                }
                [start, stop] | [start, stop, _] => {
                    let step = match pieces.get(2) {
                        Some(s) if !s.is_empty() => {
                            s.parse::<i64>().ok().filter(|s| *s > 0).ok_or_else(|| wrong(part))?
                        }
                        _ => 1,
                    };
                    let start = number(start, 0)?.clamp(0, extent);
                    let stop = number(stop, extent)?.clamp(start, extent);
                    let count = (stop - start + step - 1) / step;
                    Slice { start: start as u64, count: count as u64, step: step as u64, squeeze: false }
                }
                _ => return Err(wrong(part)),
            });
        }
        Ok(Selection(slices))
    }
}

/// Cuts a resolved selection along the outermost of these axes that has more than one index.
fn cut(slices: &[Slice], axes: &[usize], item: u64, most: u64, slabs: &mut Vec<Selection>) {
    let inner = |axes: &[usize]| axes.iter().map(|a| slices[*a].count).product::<u64>() * item;
    let Some((axis, rest)) = axes.split_first() else {
        return slabs.push(Selection(slices.to_vec()));
    };
    if inner(axes) <= most {
        return slabs.push(Selection(slices.to_vec()));
    }
    let s = slices[*axis];
    let each = (most / inner(rest).max(1)).max(1);
    let mut done = 0;
    while done < s.count {
        let count = each.min(s.count - done);
        let mut part = slices.to_vec();
        part[*axis] = Slice { start: s.start + done * s.step, count, ..s };
        cut(&part, rest_of(count, axes, rest), item, most, slabs);
        done += count;
    }
}

/// One index may be too large still; several are cut to size already.
fn rest_of<'a>(count: u64, axes: &'a [usize], rest: &'a [usize]) -> &'a [usize] {
    if count == 1 { rest } else { &axes[..0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_of_a_selection_are_small_and_together_the_whole_in_the_order_of_the_elements() {
        let shape = Shape::new(&[7, 6, 6]).unwrap();
        let step = Slice { start: 1, count: 3, step: 2, squeeze: false };
        let one = Slice { start: 4, count: 1, step: 1, squeeze: true };
        for order in [Order::C, Order::F] {
            let meta = ArrayMeta { order, ..ArrayMeta::new(DType::F64, shape) };
            for sel in [Selection::default(), Selection(vec![step, one]), Selection(vec![step, step, step])] {
                let list = |sel: &Selection| {
                    let s = sel.resolve(&shape).unwrap();
                    let axis =
                        |i: usize| (0..s[i].count).map(|n| s[i].start + n * s[i].step).collect::<Vec<_>>();
                    let (a, b, c) = (axis(0), axis(1), axis(2));
                    let mut all = Vec::new();
                    match order {
                        Order::C => a.iter().for_each(|x| {
                            b.iter().for_each(|y| c.iter().for_each(|z| all.push((*x, *y, *z))))
                        }),
                        Order::F => c.iter().for_each(|z| {
                            b.iter().for_each(|y| a.iter().for_each(|x| all.push((*x, *y, *z))))
                        }),
                    }
                    all
                };
                for most in [1, 8, 40, 100, 300, 10_000] {
                    let slabs = sel.slabs(&meta, most).unwrap();
                    assert!(slabs.iter().all(|s| list(s).len() as u64 * 8 <= most.max(8)), "{most}");
                    let together: Vec<_> = slabs.iter().flat_map(&list).collect();
                    assert_eq!(together, list(&sel), "{order:?} {most}");
                }
            }
        }
    }

    #[test]
    fn a_shape_beyond_the_limits_is_refused() {
        assert!(Shape::new(&[1; 9]).is_err());
        assert!(Shape::new(&[1 << 40, 1 << 40]).is_err());
        assert!(Shape::new(&[1 << 61]).unwrap().bytes(DType::C128).is_err());
    }

    #[test]
    fn a_part_beyond_its_array_is_told_in_the_words_of_who_asked() {
        let shape = Shape::new(&[3, 4]).unwrap();
        let slice = |start, count, step| Slice { start, count, step, squeeze: false };
        let refused =
            |slices: &[Slice]| Selection(slices.to_vec()).resolve(&shape).unwrap_err().text().to_owned();
        let text = refused(&[slice(3, 1, 1), slice(0, 4, 1)]);
        assert!(text.contains("begins at index 3 of the first axis and takes 1 element,"), "{text}");
        assert!(text.contains("the array of shape (3, 4) has 3 there; take a part"), "{text}");
        let text = refused(&[slice(0, 3, 1), slice(1, 3, 2)]);
        assert!(text.contains("index 1 of the second axis and takes 3 elements in steps of 2,"), "{text}");
        let text = Selection::parse("1,-5", &shape).unwrap_err().text().to_owned();
        assert!(
            text.contains(r#"index -5 in the selection "1,-5""#) && text.contains("; give one below 4"),
            "{text}"
        );
    }

    #[test]
    fn strides_follow_the_order() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        assert_eq!(&shape.strides(Order::C)[..3], &[12, 4, 1]);
        assert_eq!(&shape.strides(Order::F)[..3], &[1, 2, 6]);
    }

    #[test]
    fn a_selection_reads_as_numpy_does() {
        let shape = Shape::new(&[10, 20]).unwrap();
        let picked = |t: &str| {
            let s = Selection::parse(t, &shape).unwrap().resolve(&shape).unwrap();
            Selection::shape_of(&s).unwrap().extents().to_vec()
        };
        assert_eq!(picked("0:10,:"), [10, 20]);
        assert_eq!(picked("3"), [20]);
        assert_eq!(picked("-1,::7"), [3]);
        assert_eq!(picked("2:100:3"), [3, 20]);
        assert_eq!(picked("5:2"), [0, 20]);
        assert!(Selection::parse("10", &shape).is_err());
        assert!(Selection::parse("a:b", &shape).is_err());
        assert!(Selection::parse("::0", &shape).is_err());
    }
}
