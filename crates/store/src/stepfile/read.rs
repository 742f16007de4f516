//! Reading parts of arrays: from a file at an offset or in chunks, or from bytes in memory.

use super::inflate::{ChunkedPiece, Inflated};
use super::place::Hyperslab;
use super::{Check, Entry, Piece};
use forebay_arena::{fill_behind, room_for};
use forebay_types::{ArrayMeta, Code, Error, Order, Result, Selection, Shape, Slice};
use rustix::io::{Errno, pread};
use std::fs::File;

/// Where the bytes of a whole array are.
pub enum Source<'a> {
    /// In a file, from an offset on.
    File(&'a File, u64),
    /// In a file, in chunks.
    Chunks(Box<Inflated<'a>>),
    /// In memory.
    Memory(&'a [u8]),
}

impl<'a> Source<'a> {
    /// Where the bytes of an array of a file are.
    pub fn of(file: &'a File, meta: &ArrayMeta, pieces: &'a [Piece], offset: u64) -> Result<Source<'a>> {
        match pieces.iter().any(|p| p.chunks.is_some()) {
            true => Ok(Source::Chunks(Box::new(Inflated::of(file, meta, pieces)?))),
            false => Ok(Source::File(file, offset)),
        }
    }

    /// Appends `bytes` bytes from byte `at` of the array on, and says which they are.
    pub(super) fn append<'b>(&self, at: u64, bytes: usize, out: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let begin = out.len();
        out.reserve(bytes);
        match self {
            Source::File(file, base) => {
                while out.len() < begin + bytes {
                    let done = out.len() - begin;
                    let from = base + at + done as u64;
                    let read =
                        fill_behind(out, bytes - done, |room| pread(file, room, from).map(|(read, _)| read));
                    match read {
                        Ok([]) => return Err(Error::new(Code::Corrupt, "it ends too early")),
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(e) => return Err(Error::io("it cannot be read", e)),
                    }
                }
            }
            Source::Chunks(inflated) => inflated.append(at, bytes, out)?,
            Source::Memory(all) => {
                let end = (at as usize).checked_add(bytes);
                let part = end.and_then(|end| all.get(at as usize..end));
                let short = || Error::new(Code::Corrupt, "it has fewer bytes than its shape says");
                out.extend_from_slice(part.ok_or_else(short)?);
            }
        }
        Ok(&out[begin..])
    }
}

/// Parts smaller than this and scattered are picked from one read of the whole.
const WHOLE: u64 = 4 << 20;
/// So many bytes are read, and then checked before they leave the processor's cache.
const CACHED: usize = 256 << 10;

/// Reads a selection; gives the shape of the result and its bytes, in the element order of the array.
/// What the check is made for is compared on the way.
pub fn read_selection(
    source: &Source,
    meta: &ArrayMeta,
    sel: &Selection,
    check: &mut Check,
) -> Result<(Shape, Vec<u8>)> {
    let slices = sel.resolve(&meta.shape)?;
    let shape = Selection::shape_of(&slices)?;
    let mut out = room_for(shape.bytes(meta.dtype)? as usize)?;
    if shape.is_empty() {
        return Ok((shape, out));
    }
    let pick = Pick::new(meta, slices);
    if pick.is_scattered() && meta.bytes()? <= WHOLE {
        let mut whole = Vec::new();
        source.append(0, meta.bytes()? as usize, &mut whole)?;
        pick.read(&Source::Memory(&whole), &mut out, check)?;
    } else {
        pick.read(source, &mut out, check)?;
    }
    Ok((shape, out))
}

/// Appends `bytes` bytes from byte `at` of the array on, and checks them.
fn read_run(source: &Source, at: u64, bytes: usize, out: &mut Vec<u8>, check: &mut Check) -> Result<()> {
    let part = if check.is_empty() { bytes } else { CACHED };
    for from in (0..bytes).step_by(part.max(1)) {
        let here = out.len() as u64;
        let read = source.append(at + from as u64, part.min(bytes - from), out)?;
        check.feed(here, read);
    }
    Ok(())
}

/// A selection with its axes in the order of the file.
struct Pick {
    item: u64,
    extents: Vec<u64>,
    slices: Vec<Slice>,
    /// Axes from here on are read by one span.
    inner: usize,
}

impl Pick {
    fn new(meta: &ArrayMeta, mut slices: Vec<Slice>) -> Pick {
        let mut extents = meta.shape.extents().to_vec();
        if meta.order == Order::F {
            slices.reverse();
            extents.reverse();
        }
        let full = |i: usize| slices[i].step == 1 && slices[i].count == extents[i];
        let mut inner = slices.len();
        while inner > 0 && (inner == slices.len() || full(inner)) {
            inner -= 1;
        }
        Pick { item: meta.dtype.size() as u64, extents, slices, inner }
    }

    /// Whether it takes more than one reading; one element, or one line, of a large array does not.
    fn is_scattered(&self) -> bool {
        self.runs() > 1
    }

    /// Spans that are read by themselves.
    fn runs(&self) -> u64 {
        self.slices[..self.inner].iter().map(|s| s.count).product()
    }

    /// Bytes of everything behind an axis.
    fn stride(&self, axis: usize) -> u64 {
        self.extents[axis + 1..].iter().product::<u64>() * self.item
    }

    fn read(&self, source: &Source, out: &mut Vec<u8>, check: &mut Check) -> Result<()> {
        let Some(last) = self.slices.get(self.inner) else {
            return read_run(source, 0, self.item as usize, out, check);
        };
        let unit = self.stride(self.inner);
        let run = (last.count * unit) as usize;
        let mut span = Vec::new();
        for n in 0..self.runs() {
            let at = self.outer(n) + last.start * unit;
            if last.step == 1 {
                read_run(source, at, run, out, check)?;
                continue;
            }
            span.clear();
            let bytes = ((last.count - 1) * last.step * unit + unit) as usize;
            let here = out.len();
            for element in source.append(at, bytes, &mut span)?.chunks((last.step * unit) as usize) {
                out.extend_from_slice(&element[..unit as usize]);
            }
            check.feed(here as u64, &out[here..]);
        }
        Ok(())
    }

    /// Where the `n`-th run begins, without the innermost axis.
    fn outer(&self, mut n: u64) -> u64 {
        let mut at = 0;
        for axis in (0..self.inner).rev() {
            let s = self.slices[axis];
            at += (s.start + n % s.count * s.step) * self.stride(axis);
            n /= s.count;
        }
        at
    }
}

/// The checksum of a piece as it now stands in the file.
pub fn read_piece(file: &File, entry: &Entry, piece: &Piece) -> Result<u32> {
    read_piece_to(file, entry, piece, |_| ())
}

/// The same; `take` gets the bytes of the piece in their order.
pub(super) fn read_piece_to(
    file: &File,
    entry: &Entry,
    piece: &Piece,
    mut take: impl FnMut(&[u8]),
) -> Result<u32> {
    let mut sum = 0;
    if let Some(chunked) = ChunkedPiece::of(file, &entry.meta, piece)? {
        for chunk in 0..chunked.count() {
            let bytes = chunked.read(chunk)?;
            sum = forebay_types::crc32c_append(sum, &bytes);
            take(&bytes);
        }
        return Ok(sum);
    }
    let (offset, local) = (Shape::new(&piece.offset)?, Shape::new(&piece.shape)?);
    let place = Hyperslab::new(&entry.meta, &offset, &local)?;
    let mut buffer = Vec::with_capacity(place.bytes().min(CACHED as u64) as usize);
    place.runs(0, place.bytes(), |_, mut at, mut n| {
        while n > 0 {
            let now = n.min(CACHED as u64);
            buffer.clear();
            let read = Source::File(file, entry.offset).append(at, now as usize, &mut buffer)?;
            sum = forebay_types::crc32c_append(sum, read);
            take(read);
            at += now;
            n -= now;
        }
        Ok::<(), Error>(())
    })?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::DType;
    use proptest::prelude::*;

    fn slice(extent: u64) -> impl Strategy<Value = Slice> {
        (0..extent, 1u64..4, any::<bool>()).prop_flat_map(move |(start, step, squeeze)| {
            let most = (extent - start).div_ceil(step);
            (1..=most).prop_map(move |count| {
                let count = if squeeze { 1 } else { count };
                Slice { start, count, step, squeeze }
            })
        })
    }

    proptest! {
        #[test]
        fn a_selection_picks_what_a_walk_over_the_indices_picks(
            (dims, slices) in proptest::collection::vec(1u64..6, 1..4).prop_flat_map(|d| {
                let s: Vec<_> = d.iter().map(|e| slice(*e)).collect();
                (Just(d), s)
            }), fortran: bool
        ) {
            let order = if fortran { Order::F } else { Order::C };
            let meta = ArrayMeta { dtype: DType::U8, shape: Shape::new(&dims).unwrap(), order };
            let bytes: Vec<u8> = (0..meta.shape.len()).map(|i| i as u8).collect();
            let (shape, got) =
                read_selection(&Source::Memory(&bytes), &meta, &Selection(slices.clone()), &mut Check::default()).unwrap();
            let picked = Shape::new(&slices.iter().map(|s| s.count).collect::<Vec<_>>()).unwrap();
            prop_assert_eq!(shape.len(), picked.len());
            let (ps, gs) = (picked.strides(order), meta.shape.strides(order));
            for e in 0..picked.len() {
                let from: u64 = (0..dims.len())
                    .map(|a| (slices[a].start + e / ps[a] % picked.extents()[a] * slices[a].step) * gs[a])
                    .sum();
                prop_assert_eq!(got[e as usize], bytes[from as usize]);
            }
        }
    }
}
