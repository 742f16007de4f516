//! Arrays whose elements lie apart: a part of a larger array, every other column, a transposed
//! view. Copied into dense bytes (*gathered*) to travel, and back (*scattered*).
//!
//! ```
//! use forebay_types::{Shape, Strided};
//! // The second column of a 3 x 2 array of bytes.
//! let column = Strided::new(1, 1, Shape::new(&[3]).unwrap(), &[2], 6).unwrap();
//! let mut out = [0; 3];
//! column.gather(&[1, 2, 3, 4, 5, 6], &mut out);
//! assert_eq!(out, [2, 4, 6]);
//! ```

use std::ops::Range;

use crate::array::Slice;
use crate::{ArrayMeta, DType, Error, Order, Result, Shape, limits};

/// Where the elements of an array lie in some bytes: `strides` bytes apart along each axis, the
/// first one at `offset`. On the dense side the last index runs fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    item: usize,
    offset: usize,
    shape: Shape,
    strides: [isize; limits::RANK],
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How the elements are visited: runs of bytes that lie together, and the axes that lead from run to run, the
/// innermost one first.
struct Walk {
    run: usize,
    axes: Vec<(usize, isize)>,
}

impl Strided {
    /// Elements of `item` bytes; fails when one of them leaves `room` bytes.
    pub fn new(item: usize, offset: u64, shape: Shape, strides: &[i64], room: u64) -> Result<Strided> {
        let wrong =
            |why: String| Error::bad(format!("strides {strides:?} for an array of shape {shape}: {why}"));
        if strides.len() != shape.rank() {
            return Err(wrong(format!("there are {}; give one for each axis", strides.len())));
        }
        // From the first byte of the lowest element to the last one of the highest.
        let (mut low, mut high) = (i128::from(offset), i128::from(offset) + item as i128);
        for (extent, stride) in shape.extents().iter().zip(strides) {
            let reach = i128::from(extent.saturating_sub(1)) * i128::from(*stride);
            low += reach.min(0);
            high += reach.max(0);
        }
        if !shape.is_empty() && (low < 0 || high > i128::from(room)) {
            return Err(wrong(format!("elements lie at bytes {low} to {high} of {room}")));
        }
        let mut out = Strided { item, offset: offset as usize, shape, strides: [0; limits::RANK] };
        out.strides.iter_mut().zip(strides).for_each(|(to, from)| *to = *from as isize);
        Ok(out)
    }

    /// A resolved selection of a dense array.
    pub fn part(meta: &ArrayMeta, resolved: &[Slice]) -> Result<Strided> {
        let steps = meta.shape.strides(meta.order);
        let item = meta.dtype.size() as u64;
        let (mut offset, mut strides) = (0u64, Vec::with_capacity(resolved.len()));
        for (slice, step) in resolved.iter().zip(steps) {
            offset += if slice.count == 0 { 0 } else { slice.start * step * item };
            if !slice.squeeze {
                strides.push((slice.step * step * item) as i64);
            }
        }
        let shape = crate::Selection::shape_of(resolved)?;
        Strided::new(item as usize, offset, shape, &strides, meta.bytes()?)
    }

    /// A dense array; what its order is matters to the other side only.
    pub fn dense(meta: &ArrayMeta) -> Result<Strided> {
        let item = meta.dtype.size() as i64;
        let strides = meta.shape.strides(meta.order).map(|n| n as i64 * item);
        Strided::new(item as usize, 0, meta.shape, &strides[..meta.shape.rank()], meta.bytes()?)
    }

    /// The order in which the elements lie: of the first index that runs fastest, or else of the last one.
    pub fn order(&self) -> Order {
        let axes = self.shape.extents().iter().zip(&self.strides);
        let steps: Vec<usize> = axes.filter(|(n, _)| **n > 1).map(|(_, step)| step.unsigned_abs()).collect();
        match steps.len() > 1 && steps[0] > 0 && steps.is_sorted_by(|a, b| a < b) {
            true => Order::F,
            false => Order::C,
        }
    }

    /// Describes the elements as an array of that dtype, and says where they lie when the dense side is in `order`.
    pub fn as_array(&self, dtype: DType, order: Order) -> (ArrayMeta, Strided) {
        let mut dense = *self;
        if order == Order::F {
            let rank = self.shape.rank();
            dense.shape = Shape::new(&self.shape.extents().iter().rev().copied().collect::<Vec<_>>())
                .unwrap_or(self.shape);
            dense.strides[..rank].reverse();
        }
        (ArrayMeta { dtype, shape: self.shape, order }, dense)
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes of an element.
    pub fn item(&self) -> usize {
        self.item
    }

    /// Where the first element lies.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// Bytes from neighbour to neighbour along each axis.
    pub fn strides(&self) -> Vec<i64> {
        self.strides[..self.shape.rank()].iter().map(|n| *n as i64).collect()
    }

    /// Bytes of all elements together.
    pub fn bytes(&self) -> usize {
        self.shape.len() as usize * self.item
    }

    /// Whether every element has bytes of its own. Each axis must step over all that the closer ones span, as in every
    /// part of a dense array, whichever way its axes are turned.
    pub fn is_disjoint(&self) -> bool {
        let axes = self.shape.extents().iter().zip(&self.strides);
        let mut axes: Vec<(u128, u128)> = axes
            .filter(|(n, _)| **n > 1)
            .map(|(n, step)| (step.unsigned_abs() as u128, *n as u128))
            .collect();
        axes.sort_unstable();
        let mut span = self.item as u128;
        self.shape.is_empty()
            || axes.iter().all(|(step, n)| {
                let over = *step >= span;
                span += step * (n - 1);
                over
            })
    }

    /// Whether an element may have a byte in common with one of another array, if this one's memory begins at address
    /// `here` and the other one's at `there`. All elements of both lie a multiple of one number of bytes apart: of
    /// members of structures and of columns of a matrix it tells that they are apart, however they are mixed.
    pub fn may_meet(&self, here: usize, other: &Strided, there: usize) -> bool {
        if self.shape.is_empty() || other.shape.is_empty() {
            return false;
        }
        let steps = |s: &Strided| {
            let axes = s.shape.extents().iter().zip(s.strides);
            axes.filter(|(n, _)| **n > 1).fold(0, |all, (_, step)| gcd(all, step.unsigned_abs()))
        };
        let between = gcd(steps(self), steps(other));
        let (mine, theirs) = (here.wrapping_add(self.offset), there.wrapping_add(other.offset));
        let ahead = |from: usize, to: usize| match between {
            0 if to >= from => to - from,
            0 => usize::MAX,
            n => ((to as i128 - from as i128).rem_euclid(n as i128)) as usize,
        };
        ahead(mine, theirs) < self.item || ahead(theirs, mine) < other.item
    }

    /// Whether the elements lie together and in the order given.
    pub fn is_dense(&self, order: Order) -> bool {
        let dense = self.shape.strides(order);
        let extents = self.shape.extents().iter();
        self.shape.is_empty()
            || extents
                .zip(dense.iter().zip(&self.strides))
                .all(|(n, (dense, stride))| *n == 1 || *dense as i128 * self.item as i128 == *stride as i128)
    }

    fn walk(&self) -> Walk {
        let mut walk = Walk { run: self.item, axes: Vec::with_capacity(limits::RANK) };
        for (extent, stride) in self.shape.extents().iter().zip(self.strides).rev() {
            let n = *extent as usize;
            match walk.axes.last_mut() {
                _ if n == 1 => {}
                None if stride == walk.run as isize => walk.run *= n,
                Some((count, inner)) if stride == *inner * *count as isize => *count *= n,
                _ => walk.axes.push((n, stride)),
            }
        }
        walk
    }

    /// Copies the elements out of `from`, one behind the other.
    ///
    /// # Panics
    /// When `from` has less room than was said, or `out` not exactly [`Strided::bytes`].
    pub fn gather(&self, from: &[u8], out: &mut [u8]) {
        assert_eq!(out.len(), self.bytes(), "bytes of the dense side");
        self.gather_part(from, 0, out);
    }

    /// Copies a part of the elements out of `from`: as many bytes as `out` has, from byte `begin` of the dense side
    /// on.
    ///
    /// # Panics
    /// When `from` has less room than was said, or the part leaves the dense side.
    pub fn gather_part(&self, from: &[u8], begin: usize, out: &mut [u8]) {
        assert!(out.len() <= self.bytes() && begin <= self.bytes() - out.len(), "a part of the dense side");
        self.each_row(begin..begin + out.len(), |at, stride, count, run, dense| {
            let row = &mut out[dense..dense + count * run];
            rows(run, row, |i, piece| {
                let at = (at + i as isize * stride) as usize;
                piece.copy_from_slice(&from[at..at + piece.len()]);
            });
        });
    }

    /// Copies dense elements to where they belong.
    ///
    /// # Panics
    /// When `into` has less room than was said, or `from` not exactly [`Strided::bytes`].
    pub fn scatter(&self, from: &[u8], into: &mut [u8]) {
        assert_eq!(from.len(), self.bytes(), "bytes of the dense side");
        self.each_row(0..from.len(), |at, stride, count, run, dense| {
            for i in 0..count {
                let at = (at + i as isize * stride) as usize;
                let piece = &from[dense + i * run..dense + (i + 1) * run];
                // Elements are short: a known length is copied without a call.
                match run {
                    8 => into[at..at + 8].copy_from_slice(&piece[..8]),
                    4 => into[at..at + 4].copy_from_slice(&piece[..4]),
                    _ => into[at..at + run].copy_from_slice(piece),
                }
            }
        });
    }

    /// Calls `row` for the rows of a part of the dense side, with first byte, stride, count, bytes of a run,
    /// and the first byte on the dense side, counted from the part's own. Rows and runs at the ends of the
    /// part are cut.
    pub fn each_row(&self, part: Range<usize>, mut row: impl FnMut(isize, isize, usize, usize, usize)) {
        if part.is_empty() {
            return;
        }
        let Walk { run, axes } = self.walk();
        let (inner, outer) = match axes.split_first() {
            Some((inner, outer)) => (*inner, outer),
            None => ((1, 0), &[][..]),
        };
        let mut index = [0usize; limits::RANK];
        let (mut at, length) = (self.offset as isize, inner.0 * run);
        let mut number = part.start / length;
        for ((count, stride), index) in outer.iter().zip(&mut index) {
            *index = number % count;
            number /= count;
            at += *index as isize * stride;
        }
        let mut dense = part.start / length * length;
        loop {
            let (begin, end) = (part.start.max(dense) - dense, part.end.min(dense + length) - dense);
            let to = dense + begin - part.start;
            let (first, last) = (begin.div_ceil(run), end / run);
            let place = |i: usize| at + i as isize * inner.1;
            if first > last {
                row(place(last) + (begin % run) as isize, 0, 1, end - begin, to);
            } else {
                let (head, tail) = (first * run - begin, end - last * run);
                if head > 0 {
                    row(place(first - 1) + (run - head) as isize, 0, 1, head, to);
                }
                row(place(first), inner.1, last - first, run, to + head);
                if tail > 0 {
                    row(place(last), 0, 1, tail, to + end - begin - tail);
                }
            }
            dense += length;
            if dense >= part.end {
                return;
            }
            let mut axis = 0;
            loop {
                let Some((count, stride)) = outer.get(axis) else { return };
                index[axis] += 1;
                at += stride;
                if index[axis] < *count {
                    break;
                }
                at -= stride * *count as isize;
                index[axis] = 0;
                axis += 1;
            }
        }
    }
}

/// Goes through a dense row piece by piece; the usual lengths are known to the compiler.
#[inline]
fn rows(run: usize, row: &mut [u8], mut copy: impl FnMut(usize, &mut [u8])) {
    match run {
        8 => row.chunks_exact_mut(8).enumerate().for_each(|(i, p)| copy(i, &mut p[..8])),
        16 => row.chunks_exact_mut(16).enumerate().for_each(|(i, p)| copy(i, &mut p[..16])),
        2 => row.chunks_exact_mut(2).enumerate().for_each(|(i, p)| copy(i, &mut p[..2])),
        1 => row.chunks_exact_mut(1).enumerate().for_each(|(i, p)| copy(i, &mut p[..1])),
        4 => row.chunks_exact_mut(4).enumerate().for_each(|(i, p)| copy(i, &mut p[..4])),
        _ => row.chunks_exact_mut(run).enumerate().for_each(|(i, p)| copy(i, p)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Selection};
    use proptest::prelude::*;

    /// What a strided array holds, element by element, by the definition.
    fn by_hand(s: &Strided, from: &[u8]) -> Vec<u8> {
        let extents: Vec<usize> = s.shape().extents().iter().map(|n| *n as usize).collect();
        let mut out = Vec::new();
        for flat in 0..extents.iter().product::<usize>() {
            let (mut rest, mut at) = (flat, s.offset() as i64);
            for (extent, stride) in extents.iter().zip(s.strides()).rev() {
                at += (rest % extent) as i64 * stride;
                rest /= extent;
            }
            out.extend_from_slice(&from[at as usize..at as usize + s.item]);
        }
        out
    }

    #[test]
    fn an_array_travels_in_the_order_in_which_it_lies_or_in_the_other_one() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let from: Vec<u8> = (0..6).collect();
        let dense = |lies: &Strided, order| {
            let mut out = [0; 6];
            let (meta, lies) = lies.as_array(DType::U8, order);
            lies.gather(&from, &mut out);
            assert_eq!((meta.shape, meta.order), (shape, order));
            out
        };
        let rows = Strided::new(1, 0, shape, &[3, 1], 6).unwrap();
        let columns = Strided::new(1, 0, shape, &[1, 2], 6).unwrap();
        assert_eq!((rows.order(), columns.order()), (Order::C, Order::F));
        assert_eq!(
            (dense(&rows, Order::C), dense(&rows, Order::F)),
            ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
        );
        assert_eq!(
            (dense(&columns, Order::C), dense(&columns, Order::F)),
            ([0, 2, 4, 1, 3, 5], [0, 1, 2, 3, 4, 5])
        );
        let of = |extents: &[u64], strides: &[i64]| {
            Strided::new(1, 5, Shape::new(extents).unwrap(), strides, 100).unwrap().order()
        };
        assert_eq!(of(&[2, 3], &[-1, 2]), Order::F, "backwards");
        assert_eq!(
            (of(&[2, 3], &[0, 1]), of(&[1, 3], &[1, 2]), of(&[7], &[2])),
            (Order::C, Order::C, Order::C)
        );
        assert_eq!((of(&[2, 1, 3], &[1, 90, 2]), of(&[2, 3, 2], &[1, 8, 2])), (Order::F, Order::C));
    }

    #[test]
    fn members_of_structures_and_columns_of_a_matrix_do_not_meet_and_what_has_a_byte_in_common_does() {
        let line = |n: u64, step: i64, item: usize| {
            Strided::new(item, 0, Shape::new(&[n]).unwrap(), &[step], u64::MAX / 2).unwrap()
        };
        let (x, weight) = (line(9, 24, 8), line(9, 24, 4));
        assert!(!x.may_meet(0, &x, 8) && !x.may_meet(8, &x, 0) && !x.may_meet(0, &weight, 16));
        assert!(x.may_meet(0, &x, 24) && x.may_meet(0, &x, 4) && x.may_meet(0, &weight, 4));
        assert!(weight.may_meet(4, &x, 0) && !weight.may_meet(20, &x, 0) && weight.may_meet(22, &x, 0));
        // One element each, and what lies together.
        assert!(
            !line(1, 8, 8).may_meet(0, &line(1, 8, 8), 8) && line(1, 8, 8).may_meet(4, &line(1, 8, 8), 8)
        );
        assert!(line(4, 8, 8).may_meet(0, &line(4, 8, 8), 24) && line(4, 8, 8).may_meet(0, &x, 8));
        assert!(!line(0, 8, 8).may_meet(0, &x, 0));
    }

    proptest! {
        #[test]
        fn parts_are_gathered_and_scattered_as_the_definition_says(
            extents in proptest::collection::vec(0u64..5, 0..4),
            picks in proptest::collection::vec((0u64..5, 0u64..5, 1u64..3, any::<bool>()), 4),
            item in 0usize..3, column_major: bool, begin: usize, end: usize,
        ) {
            let dtype = [DType::U8, DType::F64, DType::C128][item];
            let order = if column_major { Order::F } else { Order::C };
            let meta = ArrayMeta { dtype, shape: Shape::new(&extents).unwrap(), order };
            let slices: Vec<Slice> = extents.iter().zip(&picks).map(|(n, (start, count, step, index))| {
                let start = start % n.max(&1);
                let most = if *n == 0 { 0 } else { (n - start).div_ceil(*step) };
                let squeeze = *index && most > 0;
                Slice { start, count: if squeeze { 1 } else { *count.min(&most) }, step: *step, squeeze }
            }).collect();
            let resolved = Selection(slices).resolve(&meta.shape).unwrap();
            let part = Strided::part(&meta, &resolved).unwrap();
            let bytes: Vec<u8> = (0..meta.bytes().unwrap()).map(|i| i as u8).collect();
            let mut out = vec![0; part.bytes()];
            part.gather(&bytes, &mut out);
            prop_assert_eq!(&out, &by_hand(&part, &bytes));
            let (begin, end) = (begin % (out.len() + 1), end % (out.len() + 1));
            let (begin, end) = (begin.min(end), begin.max(end));
            let mut piece = vec![0; end - begin];
            part.gather_part(&bytes, begin, &mut piece);
            prop_assert_eq!(&piece, &out[begin..end]);
            let mut back = vec![0xee; bytes.len()];
            part.scatter(&out, &mut back);
            prop_assert_eq!(by_hand(&part, &back), out);
            let touched = bytes.iter().zip(&back).all(|(a, b)| a == b || *b == 0xee);
            prop_assert!(touched);
        }

        #[test]
        fn strides_that_leave_the_bytes_are_refused_and_others_never_panic(
            offset in 0u64..40, extents in proptest::collection::vec(0u64..5, 0..3),
            strides in proptest::collection::vec(-20i64..20, 0..3), room in 0u64..60,
        ) {
            let shape = Shape::new(&extents).unwrap();
            if let Ok(s) = Strided::new(4, offset, shape, &strides, room) {
                let bytes: Vec<u8> = (0..room as u8).collect();
                let mut out = vec![0; s.bytes()];
                s.gather(&bytes, &mut out);
                prop_assert_eq!(&out, &by_hand(&s, &bytes));
                if s.is_disjoint() {
                    let mut back = vec![0; bytes.len()];
                    s.scatter(&out, &mut back);
                    prop_assert_eq!(by_hand(&s, &back), out);
                }
            }
        }
    }

    #[test]
    fn elements_that_share_bytes_are_known() {
        let disjoint = |extents: &[u64], strides: &[i64]| {
            Strided::new(4, 400, Shape::new(extents).unwrap(), strides, 800).unwrap().is_disjoint()
        };
        for strides in [[12, 4], [4, 8], [-40, 8], [8, -24]] {
            assert!(disjoint(&[2, 3], &strides), "{strides:?}");
        }
        for strides in [[0, 4], [4, 4], [8, 4], [12, 3], [4, -4]] {
            assert!(!disjoint(&[2, 3], &strides), "{strides:?}");
        }
        assert!(disjoint(&[0, 3], &[0, 0]) && disjoint(&[1, 3], &[0, 4]) && disjoint(&[], &[]));
    }

    #[test]
    fn what_lies_together_is_known_to_be_dense() {
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[3, 4]).unwrap());
        let all = Strided::dense(&meta).unwrap();
        assert!(all.is_dense(Order::C) && !all.is_dense(Order::F));
        assert_eq!(all.walk().run, 96);
        let e = Strided::new(8, 0, meta.shape, &[64, 16], 96).unwrap_err();
        assert!(e.text().contains("bytes 0 to 184 of 96"), "{e}");
        assert!(Strided::new(8, 0, meta.shape, &[i64::MAX, i64::MIN], 96).is_err());
    }
}
