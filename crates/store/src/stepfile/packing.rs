//! A chunk made smaller, and back, as HDF5's filters do it: bytes of equal weight side by side (shuffle), then deflated or
//! packed by Zstandard. The bytes are those that the filters of HDF5 write and read, made by a faster library. A frame of
//! Zstandard ends with its checksum, which HDF5's usual filter leaves out: readers without ours would take flipped bytes for
//! numbers.

use forebay_types::{Code, Compression, Error, Result};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use zstd::bulk;

/// The mask of a chunk that went through no filter.
pub(super) const RAW: u32 = 0b11;
/// HDF5's filters.
const SHUFFLE: i32 = 2;
const DEFLATE: i32 = 1;
/// Registered by its makers; not one of HDF5's own.
const ZSTD: i32 = 32015;
/// Of more effort little comes: what makes numbers smaller is the shuffle.
const LEVEL: i32 = 1;

/// The filters of a chunk in their order, each with what HDF5 keeps of its settings.
pub(super) fn filters(compression: Compression, item: u64) -> [(i32, Vec<u32>); 2] {
    let packed = match compression {
        Compression::Gzip => (DEFLATE, vec![LEVEL as u32]),
        Compression::Zstd => (ZSTD, vec![LEVEL as u32]),
    };
    [(SHUFFLE, vec![item as u32]), packed]
}

/// Makes chunks smaller, one after the other.
pub(super) struct Packer {
    item: usize,
    shuffled: Vec<u8>,
    library: Library,
}

enum Library {
    Gzip(Compressor),
    /// None where it cannot be had: then chunks stay as they are.
    Zstd(Option<bulk::Compressor<'static>>),
}

impl Library {
    fn of(compression: Compression) -> Library {
        match compression {
            Compression::Gzip => {
                Library::Gzip(Compressor::new(CompressionLvl::new(LEVEL).unwrap_or_default()))
            }
            Compression::Zstd => Library::Zstd(zstd_with_checksum().ok()),
        }
    }

    /// None of what cannot be packed.
    fn pack(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Library::Gzip(gzip) => {
                let mut out = vec![0; gzip.zlib_compress_bound(bytes.len())];
                let len = gzip.zlib_compress(bytes, &mut out).ok()?;
                out.truncate(len);
                Some(out)
            }
            Library::Zstd(zstd) => zstd.as_mut()?.compress(bytes).ok(),
        }
    }
}

fn zstd_with_checksum() -> std::io::Result<bulk::Compressor<'static>> {
    let mut zstd = bulk::Compressor::new(LEVEL)?;
    zstd.include_checksum(true)?;
    Ok(zstd)
}

/// A chunk as it is stored.
pub(super) struct Packed {
    pub bytes: Vec<u8>,
    /// Filters that it did not go through.
    pub mask: u32,
}

impl Packer {
    pub fn new(compression: Compression, item: u64) -> Packer {
        Packer { item: item as usize, shuffled: Vec::new(), library: Library::of(compression) }
    }

    /// What becomes no smaller stays as it is.
    pub fn pack(&mut self, chunk: &[u8]) -> Packed {
        self.shuffled.resize(chunk.len(), 0);
        shuffle(self.item, chunk, &mut self.shuffled);
        match self.library.pack(&self.shuffled) {
            Some(mut bytes) if bytes.len() < chunk.len() => {
                bytes.shrink_to_fit();
                Packed { bytes, mask: 0 }
            }
            _ => Packed { bytes: chunk.to_vec(), mask: RAW },
        }
    }
}

/// A chunk as it was, of so many bytes.
pub(super) fn unpacked(
    compression: Compression,
    item: u64,
    stored: &[u8],
    mask: u32,
    full: u64,
) -> Result<Vec<u8>> {
    let wrong = |why: &str| Error::new(Code::Corrupt, why.to_owned());
    let full = full as usize;
    let plain = match (compression, mask & 0b10) {
        (Compression::Gzip, 0) => inflated(stored, full)?,
        (Compression::Zstd, 0) => {
            let mut out = vec![0; full];
            match bulk::decompress_to_buffer(stored, &mut out) {
                Ok(len) if len == full => out,
                _ => return Err(wrong("it cannot be unpacked")),
            }
        }
        _ if stored.len() == full => stored.to_vec(),
        _ => return Err(wrong("it has another length than its shape says")),
    };
    if mask & 0b01 != 0 {
        return Ok(plain);
    }
    let mut out = vec![0; full];
    unshuffle(item as usize, &plain, &mut out);
    Ok(out)
}

/// What was deflated, of so many bytes.
pub(super) fn inflated(stored: &[u8], full: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; full];
    match Decompressor::new().zlib_decompress(stored, &mut out) {
        Ok(len) if len == full => Ok(out),
        _ => Err(Error::new(Code::Corrupt, "it cannot be inflated")),
    }
}

/// Elements that are turned round together: they stay in the nearest cache.
const BLOCK: usize = 1024;

/// The first bytes of all elements, then the second ones, and so on; what is no whole element stays at the end.
fn shuffle(item: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / item;
    for begin in (0..count).step_by(BLOCK) {
        let end = (begin + BLOCK).min(count);
        let elements = &from[begin * item..end * item];
        for byte in 0..item {
            let out = &mut to[byte * count + begin..byte * count + end];
            out.iter_mut().zip(elements[byte..].iter().step_by(item)).for_each(|(out, of)| *out = *of);
        }
    }
    to[count * item..].copy_from_slice(&from[count * item..]);
}

pub(super) fn unshuffle(item: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / item;
    for begin in (0..count).step_by(BLOCK) {
        let end = (begin + BLOCK).min(count);
        let elements = &mut to[begin * item..end * item];
        for byte in 0..item {
            let of = &from[byte * count + begin..byte * count + end];
            elements[byte..].iter_mut().step_by(item).zip(of).for_each(|(out, of)| *out = *of);
        }
    }
    to[count * item..].copy_from_slice(&from[count * item..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_comes_back_whatever_its_elements_are_and_one_of_noise_stays_as_it_is() {
        let ways = [Compression::Gzip, Compression::Zstd];
        for (how, item) in ways.into_iter().flat_map(|how| [1u64, 2, 4, 8, 16].map(|item| (how, item))) {
            let smooth: Vec<u8> = (0..30_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
            let packed = Packer::new(how, item).pack(&smooth);
            assert!(packed.mask == 0 && packed.bytes.len() < smooth.len() / 2, "{item}");
            let back = unpacked(how, item, &packed.bytes, 0, smooth.len() as u64);
            assert!(back.unwrap() == smooth, "{item}");
            let mut seed = 1u64;
            let noise: Vec<u8> = (0..5000)
                .map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 56) as u8
                })
                .collect();
            let packed = Packer::new(how, item).pack(&noise);
            assert!(packed.mask == RAW && packed.bytes == noise);
            assert!(unpacked(how, item, &noise, RAW, 5000).unwrap() == noise);
        }
    }

    #[test]
    fn shuffled_bytes_are_those_of_hdf5() {
        let mut out = [0; 7];
        shuffle(3, &[1, 2, 3, 4, 5, 6, 7], &mut out);
        assert_eq!(out, [1, 4, 2, 5, 3, 6, 7]);
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for (stored, mask) in [(&[1u8, 2, 3][..], 0), (&[1, 2, 3], RAW), (&[], 0)] {
            assert!(unpacked(Compression::Gzip, 8, stored, mask, 64).is_err());
            assert!(unpacked(Compression::Zstd, 8, stored, mask, 64).is_err());
        }
    }

    #[test]
    fn a_flipped_bit_of_a_packed_chunk_never_gives_other_numbers() {
        // Noise in the lower bytes, which are packed as they are: there a flip meets nothing but the checksum.
        let mut seed = 1u64;
        let chunk: Vec<u8> = (0..4000u64)
            .flat_map(|i| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (i << 40 | seed >> 40).to_le_bytes()
            })
            .collect();
        for how in [Compression::Gzip, Compression::Zstd] {
            let packed = Packer::new(how, 8).pack(&chunk);
            assert_eq!(packed.mask, 0);
            for at in (0..packed.bytes.len()).step_by(37) {
                let mut bytes = packed.bytes.clone();
                bytes[at] ^= 1 << (at % 8);
                let read = unpacked(how, 8, &bytes, 0, chunk.len() as u64);
                // Bits that mean nothing, as the window's size, may flip.
                assert!(read.is_err() || read.is_ok_and(|read| read == chunk), "{how:?}, byte {at}");
            }
        }
    }
}
