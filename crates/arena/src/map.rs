//! A file mapped into memory, shared: the one place that owns the address range.
//!
//! Offsets are checked against the length on every access, so the rest of the crate computes
//! with offsets and never with addresses.

use crate::sync::{AtomicU32, AtomicU64};
use forebay_types::{Error, Result};
use rustix::fs::FallocateFlags;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

pub(crate) struct Map {
    start: NonNull<u8>,
    len: u64,
    /// Nothing, where nobody needs it any more.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping lives as long as the value, and everything in it is reached through
// atomics or through copies whose order the rings and the block table establish.
unsafe impl Send for Map {}
// SAFETY: as above; no method hands out a reference to plain memory by itself.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of a file for reading and writing.
    pub fn new(file: OwnedFd, len: u64) -> Result<Map> {
        let size =
            usize::try_from(len).map_err(|_| Error::bad(format!("{len} bytes do not fit in memory")))?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .map_err(|e| {
            let e = std::io::Error::from(e);
            let kind = e.kind();
            Error::io(format!("cannot map a segment of {len} bytes"), e).caused_by(kind)
        })?;
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::internal("mmap gave a null pointer"))?;
        Ok(Map { start, len, file: Some(file) })
    }

    /// Closes the descriptor and keeps the memory mapped, for whoever neither takes pages nor hands it on.
    pub fn without_file(mut self) -> Map {
        self.file = None;
        self
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Address of a range; the range must lie in the mapping.
    #[inline]
    pub fn at(&self, offset: u64, len: u64) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset, "a range leaves its segment");
        // SAFETY: the range was just checked to lie in the mapping.
        unsafe { self.start.add(offset as usize) }
    }

    #[cfg(not(loom))]
    #[inline]
    pub fn atomic_u64(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: aligned and in the mapping, which lives as long as `self`; all processes use
        // this word through atomics only.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).as_ptr().cast()) }
    }

    #[cfg(not(loom))]
    #[inline]
    pub fn atomic_u32(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: as for `atomic_u64`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).as_ptr().cast()) }
    }

    /// Copies into the mapping.
    #[inline]
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len() as u64);
        // SAFETY: the range lies in the mapping and no Rust reference covers it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Copies out of the mapping.
    #[inline]
    pub fn load(&self, offset: u64, out: &mut [u8]) {
        let from = self.at(offset, out.len() as u64);
        // SAFETY: the range lies in the mapping; bytes that a broken peer changes meanwhile give
        // a wrong copy, which is checked after the copying.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) }
    }

    /// Takes pages from the system, so that touching them cannot fail later.
    pub fn take(&self, offset: u64, len: u64) -> rustix::io::Result<()> {
        loop {
            let file = self.fd().ok_or(rustix::io::Errno::BADF)?;
            match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::OPNOTSUPP) => return self.take_by_writing(offset, len),
                done => return done,
            }
        }
    }

    /// Gives pages back to the system: what was in them is gone, and who touches them takes them again.
    pub fn give_back(&self, offset: u64, len: u64) -> rustix::io::Result<()> {
        let file = self.fd().ok_or(rustix::io::Errno::BADF)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, flags, offset, len)
    }

    /// For file systems without `fallocate`; used on pages that hold nothing yet.
    fn take_by_writing(&self, offset: u64, len: u64) -> rustix::io::Result<()> {
        let zeros = vec![0; 1 << 20];
        let mut done = 0;
        while done < len {
            let n = (len - done).min(zeros.len() as u64);
            let file = self.fd().ok_or(rustix::io::Errno::BADF)?;
            match rustix::io::pwrite(file, &zeros[..n as usize], offset + done) {
                Ok(0) => return Err(rustix::io::Errno::NOSPC),
                Ok(written) => done += written as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Makes pages read-only in this process, or writable again.
    pub fn protect(&self, offset: u64, len: u64, is_read_only: bool) -> rustix::io::Result<()> {
        let from = self.at(offset, len).as_ptr();
        let flags =
            if is_read_only { MprotectFlags::READ } else { MprotectFlags::READ | MprotectFlags::WRITE };
        // SAFETY: the range is a part of the mapping, which stays mapped; no reference to its bytes exists, and who
        // writes through a pointer into what is over is meant to be stopped.
        unsafe { rustix::mm::mprotect(from.cast(), len as usize, flags) }
    }

    /// Enters pages into this process's page table, so that first touch is fast, and takes those that nobody has taken.
    /// Kernels before 5.14 leave it to the first touch. False when there is no memory for them.
    pub fn populate(&self, offset: u64, len: u64) -> bool {
        use rustix::io::Errno;
        let from = self.at(offset, len).as_ptr();
        loop {
            // SAFETY: the range is a part of the mapping and populating changes no contents.
            match unsafe { rustix::mm::madvise(from.cast(), len as usize, Advice::LinuxPopulateWrite) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return matches!(done, Ok(()) | Err(Errno::INVAL)),
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and everything that points into it holds the
        // `Arc` this value lives in.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len as usize) };
    }
}
