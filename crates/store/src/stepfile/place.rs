//! Where the bytes of a piece lie in the whole: the arithmetic of boxes. Pure.
//!
//! A file knows row-major only. A column-major array is a row-major one with its axes in reverse,
//! so its axes are reversed here, once, and no element ever moves.

use forebay_types::{ArrayMeta, Error, Order, Result, Shape, limits};

/// A box in a global array, axes in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperslab {
    rank: usize,
    item: u64,
    global: [u64; limits::RANK],
    offset: [u64; limits::RANK],
    local: [u64; limits::RANK],
}

impl Hyperslab {
    /// The box of shape `local` at `offset` in an array `global`; must lie inside.
    pub fn new(global: &ArrayMeta, offset: &Shape, local: &Shape) -> Result<Hyperslab> {
        let rank = global.shape.rank();
        let fits = offset.rank() == rank
            && local.rank() == rank
            && (0..rank).all(|i| {
                let end = offset.extents()[i].checked_add(local.extents()[i]);
                end.is_some_and(|e| e <= global.shape.extents()[i])
            });
        if !fits {
            return Err(Error::bad(format!(
                "a piece of shape {local} at {offset} leaves the array of shape {}",
                global.shape
            )));
        }
        let turned = |s: &Shape| {
            let mut out = [0; limits::RANK];
            out[..rank].copy_from_slice(s.extents());
            if global.order == Order::F {
                out[..rank].reverse();
            }
            out
        };
        Ok(Hyperslab {
            rank,
            item: global.dtype.size() as u64,
            global: turned(&global.shape),
            offset: turned(offset),
            local: turned(local),
        })
    }

    /// Bytes of the box.
    pub fn bytes(&self) -> u64 {
        self.local[..self.rank].iter().product::<u64>() * self.item
    }

    /// Index of its first element, axes in the order of the file.
    pub fn offset(&self) -> &[u64] {
        &self.offset[..self.rank]
    }

    /// Its extents, axes in the order of the file.
    pub fn extents(&self) -> &[u64] {
        &self.local[..self.rank]
    }

    /// Where a byte of the whole lies in the box, if it does, and how many bytes follow it contiguously in both.
    pub fn find(&self, at: u64) -> Option<(u64, u64)> {
        let (mut element, within) = (at / self.item, at % self.item);
        let (mut position, mut stride) = (0, 1);
        for axis in (0..self.rank).rev() {
            let index = (element % self.global[axis]).checked_sub(self.offset[axis])?;
            element /= self.global[axis];
            if index >= self.local[axis] {
                return None;
            }
            position += index * stride;
            stride *= self.local[axis];
        }
        let (byte, run) = (position * self.item + within, self.run());
        Some((byte, run - byte % run))
    }

    /// Whether two boxes of one array share an element.
    pub fn overlaps(&self, other: &Hyperslab) -> bool {
        let apart = |i: usize| {
            self.offset[i] + self.local[i] <= other.offset[i]
                || other.offset[i] + other.local[i] <= self.offset[i]
        };
        self.bytes() > 0 && other.bytes() > 0 && !(0..self.rank).any(apart)
    }

    /// Bytes of the longest pieces that are contiguous both in the box and in the whole.
    pub fn run(&self) -> u64 {
        let mut run = self.item;
        for axis in (0..self.rank).rev() {
            run *= self.local[axis];
            if self.local[axis] != self.global[axis] {
                break;
            }
        }
        run
    }

    /// Where the box begins in the whole.
    pub fn begin(&self) -> u64 {
        let place = |(at, stride): (u64, u64), axis: usize| {
            (at + self.offset[axis] * stride, stride * self.global[axis])
        };
        (0..self.rank).rev().fold((0, self.item), place).0
    }

    /// A walk over its runs, from the first one on.
    pub fn walk(&self) -> Walk {
        let mut strides = [self.item; limits::RANK];
        let mut axes = self.rank;
        for axis in (1..self.rank).rev() {
            strides[axis - 1] = strides[axis] * self.global[axis];
        }
        while axes > 0 && (axes == self.rank || self.local[axes] == self.global[axes]) {
            axes -= 1;
        }
        Walk { at: self.begin(), axes, strides, local: self.local, index: [0; limits::RANK] }
    }

    /// Where byte `at` of the box lies in the whole, and how many bytes follow it contiguously.
    fn locate(&self, at: u64, run: u64) -> (u64, u64) {
        let within = at % run;
        let mut element = (at - within) / self.item;
        let (mut position, mut stride) = (0, 1);
        for axis in (0..self.rank).rev() {
            let index = element % self.local[axis];
            element /= self.local[axis];
            position += (self.offset[axis] + index) * stride;
            stride *= self.global[axis];
        }
        (position * self.item + within, run - within)
    }

    /// Calls `visit(in the part, in the whole, bytes)` for each contiguous run of the part of the
    /// box that begins at byte `from` and has `len` bytes.
    pub fn runs<E>(
        &self,
        from: u64,
        len: u64,
        mut visit: impl FnMut(u64, u64, u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let run = self.run();
        let mut done = 0;
        while done < len {
            let (position, left) = self.locate(from + done, run);
            let n = left.min(len - done);
            visit(done, position, n)?;
            done += n;
        }
        Ok(())
    }
}

/// Goes from one contiguous run of a box to the next, in the order of its bytes.
#[derive(Clone, Debug)]
pub struct Walk {
    at: u64,
    /// Axes before this one are walked; the others lie in the runs.
    axes: usize,
    strides: [u64; limits::RANK],
    local: [u64; limits::RANK],
    index: [u64; limits::RANK],
}

impl Walk {
    /// Where the run begins in the whole.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Goes to the next one; behind the last one to the first.
    pub fn advance(&mut self) {
        for axis in (0..self.axes).rev() {
            self.index[axis] += 1;
            self.at += self.strides[axis];
            if self.index[axis] < self.local[axis] {
                return;
            }
            self.index[axis] = 0;
            self.at -= self.local[axis] * self.strides[axis];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::DType;
    use proptest::prelude::*;

    fn shape(v: &[u64]) -> Shape {
        Shape::new(v).unwrap()
    }

    proptest! {
        #[test]
        fn each_byte_of_a_box_lands_on_its_own_element(
            dims in proptest::collection::vec((1u64..5, 0u64..3, 0u64..3), 0..4), fortran: bool, cut in 1u64..40
        ) {
            let local = shape(&dims.iter().map(|d| d.0).collect::<Vec<_>>());
            let offset = shape(&dims.iter().map(|d| d.1).collect::<Vec<_>>());
            let global = shape(&dims.iter().map(|d| d.0 + d.1 + d.2).collect::<Vec<_>>());
            let order = if fortran { Order::F } else { Order::C };
            let meta = ArrayMeta { dtype: DType::I16, shape: global, order };
            let b = Hyperslab::new(&meta, &offset, &local).unwrap();
            let mut placed = vec![u64::MAX; b.bytes() as usize];
            let mut from = 0;
            while from < b.bytes() {
                let n = cut.min(b.bytes() - from);
                b.runs(from, n, |part, position, n| {
                    for i in 0..n {
                        placed[(from + part + i) as usize] = position + i;
                    }
                    Ok::<(), ()>(())
                }).unwrap();
                from += n;
            }
            for at in 0..meta.bytes().unwrap() {
                let found = placed.iter().position(|place| *place == at).map(|byte| byte as u64);
                prop_assert_eq!(b.find(at).map(|f| f.0), found);
                if let Some((byte, left)) = b.find(at) {
                    prop_assert!((0..left).all(|i| placed[(byte + i) as usize] == at + i));
                }
            }
            let (mut walk, run) = (b.walk(), b.run());
            for from in (0..b.bytes()).step_by(run as usize) {
                prop_assert_eq!(walk.at(), placed[from as usize]);
                walk.advance();
            }
            let (ls, gs) = (local.strides(order), global.strides(order));
            for e in 0..local.len() {
                let mut want = 0;
                for axis in 0..local.rank() {
                    let index = e / ls[axis] % local.extents()[axis];
                    want += (index + offset.extents()[axis]) * gs[axis];
                }
                prop_assert_eq!(placed[(2 * e) as usize], 2 * want);
                prop_assert_eq!(placed[(2 * e + 1) as usize], 2 * want + 1);
            }
        }
    }

    #[test]
    fn a_piece_outside_the_whole_and_pieces_over_each_other_are_seen() {
        let meta = ArrayMeta::new(DType::F64, shape(&[8, 4]));
        assert!(Hyperslab::new(&meta, &shape(&[5, 0]), &shape(&[4, 4])).is_err());
        assert!(Hyperslab::new(&meta, &shape(&[u64::MAX >> 8, 0]), &shape(&[4, 4])).is_err());
        let a = Hyperslab::new(&meta, &shape(&[0, 0]), &shape(&[4, 4])).unwrap();
        let b = Hyperslab::new(&meta, &shape(&[4, 0]), &shape(&[4, 4])).unwrap();
        let c = Hyperslab::new(&meta, &shape(&[3, 2]), &shape(&[2, 2])).unwrap();
        assert!(!a.overlaps(&b) && a.overlaps(&c) && b.overlaps(&c));
        assert_eq!(a.run(), 4 * 4 * 8);
        assert_eq!(c.run(), 16);
        let whole = Hyperslab::new(&meta, &shape(&[0, 0]), &meta.shape).unwrap();
        assert_eq!(whole.run(), meta.bytes().unwrap());
    }
}
