//! How a piece is cut into chunks: each is a run of the piece's bytes. Pure.
//!
//! ```text
//!  piece (4, 7, 5), chunk (1, 3, 5):   rows 0-2 | 3-5 | 6   of index 0,   0-2 | 3-5 | 6   of index 1, ...
//! ```
//!
//! Axes before the one that is cut are single in a chunk, those behind it are whole. The last chunk of a row of chunks may
//! hold fewer bytes; HDF5 stores it as long as the others.

use forebay_types::{Code, Error, Result};

/// Bytes that a chunk has at most, where an element is not larger.
pub(super) const CHUNK: u64 = 1 << 20;
/// What no chunk reaches that is to be read: it is held in memory.
const LARGEST: u64 = 64 << 20;

/// The chunks of a piece, axes as in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkGrid {
    extents: Vec<u64>,
    chunk: Vec<u64>,
    /// The axis that is cut.
    axis: usize,
    /// Bytes of everything behind it.
    inner: u64,
    /// Chunks along it.
    along: u64,
}

impl ChunkGrid {
    /// Chunks of about a megabyte, all of nearly the same length; a piece has elements, and at least one axis.
    pub fn new(extents: &[u64], item: u64) -> Result<ChunkGrid> {
        let mut chunk = vec![1; extents.len()];
        let mut inner = item;
        for axis in (0..extents.len()).rev() {
            if inner.saturating_mul(extents[axis]) > CHUNK {
                let most = (CHUNK / inner).max(1);
                chunk[axis] = extents[axis].div_ceil(extents[axis].div_ceil(most));
                break;
            }
            chunk[axis] = extents[axis];
            inner *= extents[axis];
        }
        ChunkGrid::of(extents, &chunk, item)
    }

    /// As a file has it.
    pub fn of(extents: &[u64], chunk: &[u64], item: u64) -> Result<ChunkGrid> {
        let wrong = || Error::new(Code::Corrupt, format!("chunks of {chunk:?} do not cut {extents:?}"));
        let axis =
            (0..extents.len()).rev().find(|i| extents[*i] != *chunk.get(*i).unwrap_or(&0)).unwrap_or(0);
        let fits = !extents.is_empty()
            && extents.len() == chunk.len()
            && extents.iter().zip(chunk).all(|(extent, cut)| (1..=*extent).contains(cut))
            && chunk[..axis].iter().all(|cut| *cut == 1);
        if !fits {
            return Err(wrong());
        }
        let product = |of: &[u64]| of.iter().try_fold(item, |all, n| all.checked_mul(*n));
        let inner = product(&extents[axis + 1..]).ok_or_else(wrong)?;
        product(extents).ok_or_else(wrong)?;
        if inner.saturating_mul(chunk[axis]) > LARGEST {
            return Err(wrong());
        }
        let along = extents[axis].div_ceil(chunk[axis]);
        Ok(ChunkGrid { extents: extents.to_vec(), chunk: chunk.to_vec(), axis, inner, along })
    }

    /// Extents of a chunk.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.extents[..self.axis].iter().product::<u64>() * self.along
    }

    /// Bytes of a whole one.
    pub fn full(&self) -> u64 {
        self.chunk[self.axis] * self.inner
    }

    /// The bytes of the piece in a chunk: where they begin, and how many.
    pub fn bytes(&self, chunk: u64) -> (u64, u64) {
        let (outer, at) = (chunk / self.along, chunk % self.along * self.chunk[self.axis]);
        let rows = self.chunk[self.axis].min(self.extents[self.axis] - at);
        ((outer * self.extents[self.axis] + at) * self.inner, rows * self.inner)
    }

    /// The chunk that has a byte of the piece.
    pub fn holding(&self, byte: u64) -> u64 {
        let row = byte / self.inner;
        let (outer, at) = (row / self.extents[self.axis], row % self.extents[self.axis]);
        outer * self.along + at / self.chunk[self.axis]
    }

    /// Index of the first element of a chunk.
    pub fn offset(&self, chunk: u64) -> Vec<u64> {
        let mut offset = vec![0; self.extents.len()];
        offset[self.axis] = chunk % self.along * self.chunk[self.axis];
        let mut outer = chunk / self.along;
        for axis in (0..self.axis).rev() {
            offset[axis] = outer % self.extents[axis];
            outer /= self.extents[axis];
        }
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_follow_each_other_and_have_every_byte_of_the_piece_once(
            extents in proptest::collection::vec(1u64..6, 1..4), at: prop::sample::Index, cut in 1u64..6
        ) {
            let axis = at.index(extents.len());
            let mut chunk = vec![1; extents.len()];
            chunk[axis + 1..].copy_from_slice(&extents[axis + 1..]);
            chunk[axis] = cut.min(extents[axis]);
            let grid = ChunkGrid::of(&extents, &chunk, 2).unwrap();
            let mut next = 0;
            for n in 0..grid.count() {
                let (begin, bytes) = grid.bytes(n);
                prop_assert!(begin == next && bytes > 0 && bytes <= grid.full());
                prop_assert!((begin..begin + bytes).all(|byte| grid.holding(byte) == n));
                let flat = grid.offset(n).iter().zip(&extents).fold(0, |all, (i, extent)| all * extent + i);
                prop_assert_eq!(flat * 2, begin);
                next = begin + bytes;
            }
            prop_assert_eq!(next, 2 * extents.iter().product::<u64>());
        }
    }

    #[test]
    fn a_chunk_is_about_a_megabyte_and_no_other_shape_is_taken_for_one() {
        for (extents, item, chunk) in [
            (&[512u64, 512, 512][..], 8u64, &[1u64, 256, 512][..]),
            (&[1_000_000], 8, &[125_000]),
            (&[3, 3], 8, &[3, 3]),
            (&[10, 150_000], 8, &[1, 75_000]),
        ] {
            assert_eq!(ChunkGrid::new(extents, item).unwrap().chunk(), chunk);
        }
        for (extents, chunk) in
            [(&[4u64, 4][..], &[2u64, 2][..]), (&[4], &[5]), (&[4], &[0]), (&[4, 4], &[4]), (&[], &[])]
        {
            assert!(ChunkGrid::of(extents, chunk, 8).is_err(), "{extents:?} {chunk:?}");
        }
        assert!(ChunkGrid::of(&[1 << 40], &[1 << 40], 8).is_err(), "it would not fit into memory");
    }
}
