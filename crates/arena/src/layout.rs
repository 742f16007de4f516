//! The bytes of a segment's first pages.
//!
//! ```text
//!      0  header page     magic, version, sizes, creator; written once, the magic last
//!   4096  control page    64 words, each on its own cache line
//!   8192  cursor page     tail, mark, sleeping flag of both rings, watermark, release count
//!  12288  block table     32 bytes an entry
//!      .  up ring         from the creator to the other side
//!      .  down ring       from the other side to the creator
//!      .  blocks          page aligned, taken from the system on demand
//!
//!  header, little endian:
//!      0  magic (8)   8 version (4)  12 kind (4)  16 total bytes
//!     24  up ring: at, bytes    40 down ring: at, bytes
//!     56  table at   64 entries (4), zero (4)   72 blocks: at, bytes
//!     88  creator: pid (4), its name space (4), start time (8), boot id (16)
//!    128  label: length (4), text; for people
//! ```

use forebay_host::Process;
use forebay_types::codec::{Reader, Writer};
use forebay_types::limits::BUFFER_BYTES;
use forebay_types::{Code, Error, Result};

/// Number of words in the control page.
pub const WORDS: usize = 64;
pub(crate) const PAGE: u64 = 4096;
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"FBSEGMNT");
pub(crate) const HEADER_BYTES: usize = 120;
const TABLE_AT: u64 = 3 * PAGE;
const ENTRY_BYTES: u64 = 32;
pub(crate) const LABEL_AT: u64 = 128;
pub(crate) const LABEL_MOST: u64 = PAGE - LABEL_AT - 4;
const CONTROL_AT: u64 = PAGE;
const CURSORS_AT: u64 = 2 * PAGE;
const VERSION: u32 = 1;
const RING_MIN: u64 = PAGE;
const RING_MAX: u64 = 1 << 30;
const BLOCKS_MAX: u32 = 1 << 20;

/// What a new segment is made of. Rings are rounded up to powers of two, blocks to pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSpec {
    /// File name in the shared-memory directory; empty for a memory file without a name.
    pub name: String,
    /// What it is for, checked by whoever opens it.
    pub kind: u32,
    /// Bytes of the ring from the creator to the other side.
    pub up_bytes: u64,
    /// Bytes of the ring from the other side to the creator.
    pub down_bytes: u64,
    /// Bytes of all blocks together.
    pub block_bytes: u64,
    /// Most blocks at a time.
    pub blocks: u32,
}

/// Which of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the creator of the segment to the other side.
    Up,
    /// From the other side to the creator.
    Down,
}

impl Direction {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// Where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub kind: u32,
    pub total: u64,
    pub rings: [(u64, u64); 2],
    pub blocks: u32,
    pub blocks_at: u64,
    pub block_bytes: u64,
    pub creator: Process,
}

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

impl Layout {
    /// Lays a segment out; refuses what is beyond the limits.
    pub fn of(spec: &SegmentSpec, creator: Process) -> Result<Layout> {
        for (bytes, what) in [(spec.up_bytes, "up"), (spec.down_bytes, "down")] {
            if bytes > RING_MAX {
                return Err(Error::bad(format!("the {what} ring of {bytes} bytes exceeds {RING_MAX}")));
            }
        }
        if spec.blocks > BLOCKS_MAX || spec.block_bytes > BUFFER_BYTES {
            return Err(Error::bad(format!(
                "{} blocks in {} bytes exceed {BLOCKS_MAX} blocks in {BUFFER_BYTES} bytes",
                spec.blocks, spec.block_bytes
            )));
        }
        let [up, down] = [spec.up_bytes, spec.down_bytes].map(|n| n.max(RING_MIN).next_power_of_two());
        let block_bytes = pages(spec.block_bytes);
        let up_at = TABLE_AT + pages(spec.blocks as u64 * ENTRY_BYTES);
        let down_at = up_at + up;
        let blocks_at = down_at + down;
        Ok(Layout {
            kind: spec.kind,
            total: blocks_at + block_bytes,
            rings: [(up_at, up), (down_at, down)],
            blocks: spec.blocks,
            blocks_at,
            block_bytes,
            creator,
        })
    }

    /// The header; the magic stands apart since it is written last.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u64(MAGIC).u32(VERSION).u32(self.kind).u64(self.total);
        for (at, bytes) in self.rings {
            w.u64(at).u64(bytes);
        }
        w.u64(TABLE_AT).u32(self.blocks).u32(0).u64(self.blocks_at).u64(self.block_bytes);
        w.u32(self.creator.pid)
            .u32(self.creator.space)
            .u64(self.creator.start_time)
            .raw(&self.creator.boot_id);
        w.finish()
    }

    /// Reads a header that was copied out, and believes it only when the layout it describes is
    /// the one this version would make and the file is as long as that.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Layout> {
        let corrupt = |what: String| Error::new(Code::Corrupt, format!("not a segment of Forebay: {what}"));
        let mut r = Reader::new(bytes);
        if r.u64()? != MAGIC {
            return Err(corrupt("it does not start with FBSEGMNT".into()));
        }
        let version = r.u32()?;
        if version != VERSION {
            return Err(Error::new(
                Code::VersionMismatch,
                format!(
                    "the segment has layout {version}, this program knows {VERSION}; use one version on both sides"
                ),
            ));
        }
        let (kind, total) = (r.u32()?, r.u64()?);
        let rings = [(r.u64()?, r.u64()?), (r.u64()?, r.u64()?)];
        let (table_at, blocks, _) = (r.u64()?, r.u32()?, r.u32()?);
        let (blocks_at, block_bytes) = (r.u64()?, r.u64()?);
        let (pid, space, start_time) = (r.u32()?, r.u32()?, r.u64()?);
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(r.raw(16)?);
        let creator = Process { pid, space, start_time, boot_id };
        let seen = Layout { kind, total, rings, blocks, blocks_at, block_bytes, creator };
        let spec = SegmentSpec {
            name: String::new(),
            kind,
            up_bytes: rings[0].1,
            down_bytes: rings[1].1,
            block_bytes,
            blocks,
        };
        if Layout::of(&spec, creator)? != seen || table_at != TABLE_AT {
            return Err(corrupt("its parts do not follow each other".into()));
        }
        if file_bytes < total {
            return Err(corrupt(format!("it announces {total} bytes, the file has {file_bytes}")));
        }
        Ok(seen)
    }

    /// Offset of an entry of the block table.
    #[inline]
    pub fn entry(index: u32) -> u64 {
        TABLE_AT + index as u64 * ENTRY_BYTES
    }

    /// Offset of a control word.
    #[inline]
    pub fn word(i: usize) -> u64 {
        CONTROL_AT + i as u64 * 64
    }

    /// Offset of a shared cursor; two cache lines apart, as neighbours are fetched in pairs.
    #[inline]
    pub fn cursor(which: Cursor) -> u64 {
        CURSORS_AT + which as u64 * 128
    }
}

/// The shared cursors.
#[derive(Clone, Copy)]
pub(crate) enum Cursor {
    UpTail,
    UpMark,
    UpSleep,
    DownTail,
    DownMark,
    DownSleep,
    Taken,
    Released,
}

impl Cursor {
    #[inline]
    pub fn tail(d: Direction) -> Cursor {
        if d == Direction::Up { Cursor::UpTail } else { Cursor::DownTail }
    }

    #[inline]
    pub fn mark(d: Direction) -> Cursor {
        if d == Direction::Up { Cursor::UpMark } else { Cursor::DownMark }
    }

    #[inline]
    pub fn sleep(d: Direction) -> Cursor {
        if d == Direction::Up { Cursor::UpSleep } else { Cursor::DownSleep }
    }
}
