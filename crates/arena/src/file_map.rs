//! A part of a file that is written no more, as memory: the system reads a page when it is touched, and gives it up
//! again when it needs the room.

use forebay_types::{Error, Result};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::ptr::NonNull;

/// Such a part. Whoever cuts the file short while it is mapped has the process that touches what is gone ended by SIGBUS,
/// as with every mapped file.
#[derive(Debug)]
pub struct FileMap {
    /// The page in which the part begins.
    start: NonNull<u8>,
    /// Bytes from there to the end of the part.
    mapped: usize,
    /// Of these, before the part.
    skipped: usize,
    /// Kept open: whoever removes files looks whether they are read.
    _file: File,
}

// SAFETY: the mapping lives as long as the value and is never written by this process.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps `len` bytes, at least one, at an offset, for reading.
    pub fn new(file: File, offset: u64, len: u64) -> Result<FileMap> {
        let skipped = offset % rustix::param::page_size() as u64;
        let none = || Error::bad(format!("{len} bytes do not fit in memory"));
        let mapped = len.checked_add(skipped).and_then(|n| usize::try_from(n).ok()).ok_or_else(none)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ,
                MapFlags::SHARED,
                &file,
                offset - skipped,
            )
        };
        let start = start
            .map_err(|e| Error::io(format!("cannot map {len} bytes of a file"), std::io::Error::from(e)))?;
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::internal("mmap gave a null pointer"))?;
        Ok(FileMap { start, mapped, skipped: skipped as usize, _file: file })
    }

    /// The first byte. Good for reading as long as this lives.
    pub fn as_ptr(&self) -> *const u8 {
        // SAFETY: the part begins within the mapping.
        unsafe { self.start.add(self.skipped) }.as_ptr()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.mapped - self.skipped
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, from that offset on; they must lie within it.
    pub fn load(&self, offset: usize, out: &mut [u8]) {
        assert!(offset <= self.len() && out.len() <= self.len() - offset, "a range leaves its mapping");
        // SAFETY: the range lies in the mapping, and `out` is memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(self.as_ptr().add(offset), out.as_mut_ptr(), out.len()) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and nobody has a reference into it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_part_of_a_file_is_memory_wherever_it_begins() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        for (offset, len) in [(0, 1), (0, 20_000), (4095, 2), (4096, 4096), (8200, 11_800)] {
            let map = FileMap::new(file.try_clone().unwrap(), offset, len).unwrap();
            let mut out = vec![0; len as usize];
            map.load(0, &mut out);
            assert_eq!(out, bytes[offset as usize..(offset + len) as usize]);
            assert_eq!(map.len() as u64, len);
        }
        assert!(FileMap::new(file, 0, u64::MAX).is_err());
    }
}
