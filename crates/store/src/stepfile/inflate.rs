//! Reading arrays whose pieces lie in chunks: by the places that the manifest tells, without HDF5.

use super::chunk_grid::ChunkGrid;
use super::manifest::Chunks;
use super::packing::unpacked;
use super::{Hyperslab, Piece};
use forebay_types::{ArrayMeta, Code, Error, Result, Shape, crc32c};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Chunks that are kept as they were, so that pieces side by side are not inflated for each line.
const KEPT: usize = 64;

/// A piece that lies in chunks.
pub(super) struct ChunkedPiece<'a> {
    file: &'a File,
    piece: &'a Piece,
    item: u64,
    grid: ChunkGrid,
    chunks: &'a Chunks,
    slab: Hyperslab,
}

impl<'a> ChunkedPiece<'a> {
    /// None of one that lies in its file as it is.
    pub fn of(file: &'a File, meta: &ArrayMeta, piece: &'a Piece) -> Result<Option<ChunkedPiece<'a>>> {
        let Some(chunks) = &piece.chunks else { return Ok(None) };
        let (offset, local) = (Shape::new(&piece.offset)?, Shape::new(&piece.shape)?);
        let slab = Hyperslab::new(meta, &offset, &local)?;
        let item = meta.dtype.size() as u64;
        let grid = ChunkGrid::of(slab.extents(), &chunks.extents, item)?;
        if chunks.stored.len() as u64 != grid.count() {
            return Err(Error::new(
                Code::Corrupt,
                format!("{} has {} of {} chunks", piece.called(), chunks.stored.len(), grid.count()),
            ));
        }
        Ok(Some(ChunkedPiece { file, piece, item, grid, chunks, slab }))
    }

    /// How many chunks it has.
    pub fn count(&self) -> u64 {
        self.grid.count()
    }

    /// The bytes of the piece in a chunk.
    pub fn read(&self, chunk: u64) -> Result<Vec<u8>> {
        let place = self.chunks.stored[chunk as usize];
        let wrong = |why: &str| {
            let (called, at, bytes) = (self.piece.called(), place.offset, place.bytes);
            let text = format!("chunk {chunk} of {called}, {bytes} bytes at byte {at}: {why}");
            Error::new(Code::Corrupt, text)
        };
        // What does not become smaller is stored as it is.
        if place.bytes > self.grid.full() {
            return Err(wrong("it is longer than its shape says"));
        }
        let mut stored = vec![0; place.bytes as usize];
        self.file.read_exact_at(&mut stored, place.offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => wrong("the file ends before it"),
            _ => Error::io(format!("chunk {chunk} cannot be read"), e),
        })?;
        if crc32c(&stored) != place.crc32c {
            return Err(wrong("it holds other bytes than were written"));
        }
        let full = self.grid.full();
        let mut bytes = unpacked(self.chunks.compress, self.item, &stored, place.mask, full)
            .map_err(|e| wrong(e.text()))?;
        bytes.truncate(self.grid.bytes(chunk).1 as usize);
        Ok(bytes)
    }
}

/// An array of such pieces.
pub struct Inflated<'a> {
    item: u64,
    pieces: Vec<ChunkedPiece<'a>>,
    /// Which chunks these are, and their bytes; the last one that was read comes last.
    kept: RefCell<VecDeque<(usize, u64, Vec<u8>)>>,
}

impl<'a> Inflated<'a> {
    pub(super) fn of(file: &'a File, meta: &ArrayMeta, pieces: &'a [Piece]) -> Result<Inflated<'a>> {
        let pieces = pieces.iter().filter_map(|p| ChunkedPiece::of(file, meta, p).transpose());
        let pieces = pieces.collect::<Result<_>>()?;
        Ok(Inflated { item: meta.dtype.size() as u64, pieces, kept: RefCell::default() })
    }

    /// Appends `bytes` bytes from byte `at` of the array on.
    pub(super) fn append(&self, mut at: u64, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let end = out.len() + bytes;
        let mut last = 0;
        while out.len() < end {
            let here = |n: usize| self.pieces.get(n)?.slab.find(at).map(|found| (n, found));
            let found = here(last).or_else(|| (0..self.pieces.len()).find_map(here));
            let Some((n, (within, run))) = found else {
                return Err(Error::new(Code::Corrupt, format!("no piece has element {}", at / self.item)));
            };
            last = n;
            let chunk = self.pieces[n].grid.holding(within);
            let (begin, len) = self.pieces[n].grid.bytes(chunk);
            let from = (within - begin) as usize;
            let part = (run.min(len - (within - begin)) as usize).min(end - out.len());
            self.with(n, chunk, |bytes| out.extend_from_slice(&bytes[from..from + part]))?;
            at += part as u64;
        }
        Ok(())
    }

    fn with(&self, piece: usize, chunk: u64, take: impl FnOnce(&[u8])) -> Result<()> {
        let mut kept = self.kept.borrow_mut();
        match kept.iter().rposition(|(p, c, _)| (*p, *c) == (piece, chunk)) {
            Some(i) if i + 1 == kept.len() => {}
            Some(i) => {
                let found = kept.remove(i);
                kept.extend(found);
            }
            None => {
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back((piece, chunk, self.pieces[piece].read(chunk)?));
            }
        }
        if let Some((_, _, bytes)) = kept.back() {
            take(bytes);
        }
        Ok(())
    }
}
