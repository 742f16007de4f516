//! Elements that another program had HDF5 deflate, which ours cannot inflate: HDF5 says where the chunks are, and the rest
//! is done here.

use super::packing::{inflated, unshuffle};
use hdf5::dataset::ChunkInfo;
use hdf5::filters::Filter;
use hdf5::types::TypeDescriptor;
use hdf5::{Dataset, Datatype};
use hdf5_metno as hdf5;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of the checksum behind a chunk.
const SUM: usize = 4;

/// Whether nothing but these filters is between us and the elements.
pub(super) fn is_known(set: &Dataset) -> bool {
    let known = |filter: &Filter| matches!(filter, Filter::Deflate(_) | Filter::Shuffle | Filter::Fletcher32);
    set.is_chunked() && set.filters().iter().all(known)
}

/// Reads all elements; says what is wrong otherwise.
pub(super) fn read(set: &Dataset, kind: &TypeDescriptor, out: &mut [u8]) -> Result<(), String> {
    let said = |e: hdf5::Error| e.to_string();
    let is_native = Datatype::from_descriptor(kind).map_err(said)? == set.dtype().map_err(said)?;
    if !is_native {
        return Err("it is compressed, and its numbers are not little endian".into());
    }
    let (item, extents) = (kind.size(), set.shape());
    let chunk = set.chunk().filter(|chunk| chunk.len() == extents.len() && !chunk.contains(&0));
    let chunk = chunk.ok_or("it is compressed, and has no chunks")?;
    let full = chunk.iter().try_fold(item, |n, extent| n.checked_mul(*extent));
    let full = full.ok_or("its chunks are larger than memory")?;
    let mut along = extents.iter().zip(&chunk).map(|(extent, chunk)| extent.div_ceil(*chunk));
    let wanted = along.try_fold(1usize, |n, m| n.checked_mul(m)).ok_or("it has too many chunks")?;
    let mut chunks: Vec<ChunkInfo> = Vec::new();
    let visited = set.chunks_visit(|info| {
        chunks.push(info.into());
        // One more than there may be is enough.
        i32::from(chunks.len() > wanted)
    });
    visited.map_err(said)?;
    if chunks.len() != wanted {
        return Err(format!("it is compressed, and of its {wanted} chunks {} were written", chunks.len()));
    }
    let file = File::open(set.filename()).map_err(|e| e.to_string())?;
    let size = file.metadata().map_or(0, |m| m.len());
    let filters = set.filters();
    for info in chunks {
        if info.addr.checked_add(info.size).is_none_or(|end| end > size) {
            return Err("a chunk of it lies beyond the end of the file".into());
        }
        let mut bytes = vec![0; info.size as usize];
        file.read_exact_at(&mut bytes, info.addr).map_err(|e| e.to_string())?;
        let bytes = plain(&filters, info.filter_mask, bytes, item, full)?;
        let begin: Vec<usize> = info.offset.iter().map(|n| *n as usize).collect();
        place(&bytes, &begin, &chunk, &extents, item, out).ok_or("a chunk of it lies outside of it")?;
    }
    Ok(())
}

/// What a chunk was before it went through the filters, but for those in the mask.
fn plain(
    filters: &[Filter],
    mask: u32,
    mut bytes: Vec<u8>,
    item: usize,
    full: usize,
) -> Result<Vec<u8>, String> {
    let used = |at: usize| mask & (1 << at) == 0;
    for (at, filter) in filters.iter().enumerate().rev().filter(|(at, _)| used(*at)) {
        bytes = match filter {
            Filter::Deflate(_) => {
                let sums = filters[..at].iter().enumerate();
                let sums = sums.filter(|(at, filter)| used(*at) && **filter == Filter::Fletcher32).count();
                inflated(&bytes, full + SUM * sums).map_err(|e| e.text().to_owned())?
            }
            Filter::Shuffle => {
                let mut out = vec![0; bytes.len()];
                unshuffle(item, &bytes, &mut out);
                out
            }
            _ => {
                let end = bytes.len().checked_sub(SUM).ok_or("a chunk of it has no checksum")?;
                let (data, sum) = bytes.split_at(end);
                if fletcher32(data).to_le_bytes() != sum {
                    return Err("a chunk of it has another checksum".into());
                }
                data.to_vec()
            }
        };
    }
    match bytes.len() == full {
        true => Ok(bytes),
        false => Err("a chunk of it has another length than its shape says".into()),
    }
}

/// Fletcher's checksum as HDF5 has it: of words of 16 bits, the higher byte first.
fn fletcher32(data: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut low, mut high) = (0u32, 0u32);
    for block in data.chunks(720) {
        for word in block.chunks(2) {
            low += (u32::from(word[0]) << 8) | word.get(1).copied().map_or(0, u32::from);
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    (fold(high) << 16) | fold(low)
}

/// Puts a chunk where it belongs; the last ones along an axis reach beyond the array.
fn place(
    bytes: &[u8],
    begin: &[usize],
    chunk: &[usize],
    extents: &[usize],
    item: usize,
    out: &mut [u8],
) -> Option<()> {
    let rank = extents.len();
    if begin.len() != rank {
        return None;
    }
    let mut counts = Vec::new();
    for axis in 0..rank {
        counts.push(chunk[axis].min(extents[axis].checked_sub(begin[axis])?));
    }
    let run = counts.last()? * item;
    let rows: usize = counts[..rank - 1].iter().product();
    for row in 0..rows {
        let (mut left, mut from, mut to) = (row, 0, 0);
        let (mut step_from, mut step_to) = (*chunk.last()?, *extents.last()?);
        to += begin[rank - 1];
        for axis in (0..rank - 1).rev() {
            let index = left % counts[axis];
            left /= counts[axis];
            from += index * step_from;
            to += (begin[axis] + index) * step_to;
            step_from *= chunk[axis];
            step_to *= extents[axis];
        }
        let (from, to) = (from * item, to * item);
        out.get_mut(to..to + run)?.copy_from_slice(bytes.get(from..from + run)?);
    }
    Some(())
}
