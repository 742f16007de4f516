//! Compares what is read with the checksums that were made when it was written.
//!
//! A checksum is that of a whole piece, so a reading is checked as far as it covers whole pieces:
//! all of it for a whole array. The bytes are taken as they come, while they are in the
//! processor's cache.

use super::place::Walk;
use super::{Hyperslab, Piece};
use forebay_types::{ArrayMeta, Result, Shape, Slice};

/// The checksums of the pieces that a reading covers.
#[derive(Default)]
pub struct Check<'a> {
    parts: Vec<PieceRead<'a>>,
    /// The first part that lacks bytes; those before it are done.
    open: usize,
}

/// A piece in what is read.
struct PieceRead<'a> {
    piece: &'a Piece,
    begin: u64,
    bytes: u64,
    run: u64,
    /// The run that comes now, and how much of it has come.
    walk: Walk,
    of_run: u64,
    /// Bytes of the piece that have come, and their checksum.
    done: u64,
    sum: u32,
}

impl<'a> Check<'a> {
    /// For a reading of these slices of an array that was put together from these pieces.
    pub fn new(whole: &ArrayMeta, pieces: &'a [Piece], slices: &[Slice]) -> Result<Check<'a>> {
        let counts: Vec<u64> = slices.iter().map(|s| s.count).collect();
        let read = ArrayMeta { shape: Shape::new(&counts)?, ..*whole };
        let mut parts = Vec::new();
        for piece in pieces {
            let Some(offset) = place(piece, slices) else { continue };
            let slab = Hyperslab::new(&read, &Shape::new(&offset)?, &Shape::new(&piece.shape)?)?;
            let (begin, bytes, run, walk) = (slab.begin(), slab.bytes(), slab.run(), slab.walk());
            parts.push(PieceRead { piece, begin, bytes, run, walk, of_run: 0, done: 0, sum: 0 });
        }
        parts.sort_by_key(|p| p.begin);
        Ok(Check { parts, open: 0 })
    }

    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Takes bytes of what is read, from byte `at` of it on; all of them in their order.
    pub fn feed(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        for part in &mut self.parts[self.open..] {
            if part.begin >= end {
                break;
            }
            part.feed(at, bytes);
        }
        while self.parts.get(self.open).is_some_and(|p| p.done == p.bytes) {
            self.open += 1;
        }
    }

    /// The first piece whose bytes are not those that were written.
    pub fn wrong(&self) -> Option<&'a Piece> {
        self.parts.iter().find(|p| p.sum != p.piece.crc32c).map(|p| p.piece)
    }
}

impl PieceRead<'_> {
    fn feed(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        while self.done < self.bytes {
            let position = self.walk.at() + self.of_run;
            if position >= end {
                return;
            }
            let n = (self.run - self.of_run).min(end - position);
            let from = (position - at) as usize;
            self.sum = forebay_types::crc32c_append(self.sum, &bytes[from..from + n as usize]);
            self.done += n;
            self.of_run += n;
            if self.of_run == self.run {
                self.of_run = 0;
                self.walk.advance();
            }
        }
    }
}

/// Where a piece begins in what is read; `None` when not all of it is read.
fn place(piece: &Piece, slices: &[Slice]) -> Option<Vec<u64>> {
    if piece.offset.len() != slices.len() || piece.shape.len() != slices.len() {
        return None;
    }
    let axes = piece.offset.iter().zip(&piece.shape).zip(slices);
    axes.map(|((offset, extent), s)| {
        let dense = s.step == 1 || s.count == 1;
        let begin = offset.checked_sub(s.start)?;
        let end = begin.checked_add(*extent)?;
        (dense && end <= s.count).then_some(begin)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stepfile::{Source, read_selection};
    use forebay_types::{DType, Order, Selection};
    use proptest::prelude::*;

    /// An array cut into a grid of pieces, each with its checksum.
    fn grid(meta: &ArrayMeta, bytes: &[u8], cuts: &[u64]) -> Vec<Piece> {
        let extents = meta.shape.extents();
        let mut pieces = vec![(Vec::new(), Vec::new())];
        for (extent, cut) in extents.iter().zip(cuts) {
            pieces = pieces
                .into_iter()
                .flat_map(|(offset, shape): (Vec<u64>, Vec<u64>)| {
                    (0..*extent).step_by(*cut as usize).map(move |at| {
                        let n = (*cut).min(extent - at);
                        ([&offset[..], &[at]].concat(), [&shape[..], &[n]].concat())
                    })
                })
                .collect();
        }
        let sum = |offset: &[u64], shape: &[u64]| {
            let slab =
                Hyperslab::new(meta, &Shape::new(offset).unwrap(), &Shape::new(shape).unwrap()).unwrap();
            let mut sum = 0;
            let visit = |_, at: u64, n: u64| {
                sum = forebay_types::crc32c_append(sum, &bytes[at as usize..(at + n) as usize]);
                Ok::<(), ()>(())
            };
            slab.runs(0, slab.bytes(), visit).unwrap();
            sum
        };
        let piece = |(offset, shape): (Vec<u64>, Vec<u64>)| {
            let crc32c = sum(&offset, &shape);
            Piece { rank: 0, offset, shape, crc32c, file: None }
        };
        pieces.into_iter().map(piece).collect()
    }

    proptest! {
        #[test]
        fn a_byte_that_changed_is_seen_by_every_reading_that_covers_its_piece(
            (dims, cuts) in proptest::collection::vec((1u64..9, 1u64..5), 1..4)
                .prop_map(|v| (v.iter().map(|d| d.0).collect::<Vec<_>>(), v.iter().map(|d| d.1).collect::<Vec<_>>())),
            fortran: bool, at: prop::sample::Index, chunk in 1u64..50, from in proptest::collection::vec(0u64..4, 3)
        ) {
            let order = if fortran { Order::F } else { Order::C };
            let meta = ArrayMeta { dtype: DType::I16, shape: Shape::new(&dims).unwrap(), order };
            let mut bytes: Vec<u8> = (0..meta.bytes().unwrap()).map(|i| (i * 7 % 251) as u8).collect();
            let pieces = grid(&meta, &bytes, &cuts);
            let damaged = at.index(bytes.len());
            bytes[damaged] ^= 16;
            let slices: Vec<Slice> = dims.iter().zip(&from)
                .map(|(n, f)| Slice { start: (*f).min(n - 1), count: n - (*f).min(n - 1), step: 1, squeeze: false })
                .collect();
            for slices in [Selection::default().resolve(&meta.shape).unwrap(), slices] {
                let mut check = Check::new(&meta, &pieces, &slices).unwrap();
                let covered = pieces.iter().filter(|p| place(p, &slices).is_some()).count();
                let (_, read) =
                    read_selection(&Source::Memory(&bytes), &meta, &Selection(slices.clone()), &mut Check::default()).unwrap();
                for (i, part) in read.chunks(chunk as usize).enumerate() {
                    check.feed(i as u64 * chunk, part);
                }
                let element = damaged as u64 / 2;
                let strides = meta.shape.strides(order);
                let inside = |p: &&Piece| (0..dims.len()).all(|a| {
                    let i = element / strides[a] % dims[a];
                    p.offset[a] <= i && i < p.offset[a] + p.shape[a]
                });
                let hit = pieces.iter().find(inside).filter(|p| place(p, &slices).is_some());
                prop_assert_eq!(check.wrong(), hit);
                prop_assert_eq!(check.is_empty(), covered == 0);
            }
        }
    }
}
