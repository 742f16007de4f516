//! An array of a run as memory: what lies in a file as the pages of that file, which the system reads when they are
//! touched, and what the catalog holds as a copy.

use crate::located::{Located, Storage};
use forebay_arena::FileMap;
use forebay_types::{ArrayMeta, Code, DType, Error, Result, Selection};
use std::sync::Arc;

/// An array as memory. It stays what it was when it was mapped: files of a run are never changed, and one that is
/// removed meanwhile is there as long as it is mapped.
#[derive(Clone, Debug)]
pub struct MappedArray {
    /// Type, shape and element order.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    memory: Arc<Memory>,
}

#[derive(Debug)]
enum Memory {
    File(FileMap),
    /// With room for the bytes, aligned for every dtype.
    Own(Vec<u64>, usize),
}

impl MappedArray {
    /// The first byte, aligned for the dtype; to be read as long as this or a clone of it lives.
    pub fn as_ptr(&self) -> *const u8 {
        match &*self.memory {
            Memory::File(map) => map.as_ptr(),
            Memory::Own(words, _) => words.as_ptr().cast(),
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match &*self.memory {
            Memory::File(map) => map.len(),
            Memory::Own(_, len) => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, from that one on.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        if offset.checked_add(out.len()).is_none_or(|end| end > self.len()) {
            return Err(Error::bad(format!(
                "{} bytes at {offset} leave the array {} of {} bytes",
                out.len(),
                self.meta,
                self.len()
            )));
        }
        match &*self.memory {
            Memory::File(map) => map.load(offset, out),
            Memory::Own(words, _) => {
                out.copy_from_slice(&bytemuck::cast_slice(words)[offset..offset + out.len()]);
            }
        }
        Ok(())
    }
}

impl Located<'_> {
    /// It as memory. What is read of a file is compared with no checksum. What is compressed is refused.
    pub fn map(self) -> Result<MappedArray> {
        self.lies_as_it_is()?;
        let bytes = self.meta.bytes()?;
        let (meta, units) = (self.meta, self.units.clone());
        if let Storage::There(file, offset) = &self.bytes
            && bytes > 0
            && offset.is_multiple_of(alignment(meta.dtype))
        {
            let there =
                file.metadata().map_err(|e| Error::io("cannot look at the file of an array", e))?.len();
            // Who touches what a file does not have is ended.
            if offset.checked_add(bytes).is_none_or(|end| end > there) {
                return Err(self.damaged("ends too early"));
            }
            let file = file.try_clone().map_err(|e| Error::io("cannot map an array", e))?;
            let map = FileMap::new(file, *offset, bytes).map_err(|e| e.within(self.meta))?;
            return Ok(MappedArray { meta, units, memory: Arc::new(Memory::File(map)) });
        }
        let read = self.read(&Selection::default())?.bytes;
        let mut words = words(read.len())?;
        bytemuck::cast_slice_mut(&mut words)[..read.len()].copy_from_slice(&read);
        Ok(MappedArray { meta, units, memory: Arc::new(Memory::Own(words, read.len())) })
    }
}

/// Room for so many bytes, and never none: so it has an address of its own.
fn words(bytes: usize) -> Result<Vec<u64>> {
    let mut words = Vec::new();
    let n = bytes / 8 + 1;
    words.try_reserve_exact(n).map_err(|_| {
        Error::new(Code::Full, format!("there is no memory for {bytes} bytes of an array; read a part of it"))
    })?;
    words.resize(n, 0);
    Ok(words)
}

/// Where elements may begin.
fn alignment(dtype: DType) -> u64 {
    (dtype.size() as u64).clamp(1, 8)
}
