//! The seam to the disk: everything the store asks of a file system goes through [`Disk`], so a
//! test can count it, make any of it fail, or stop the world there.
//!
//! Two libraries write in the store's name and know no seam: HDF5 the frame of a file, SQLite
//! the catalog. The seam is asked before each of these acts and told after it ([`Foreign`]).

use forebay_arena::Lent;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Alignment of offsets, lengths and addresses in direct writes.
pub const PAGE: u64 = 4096;

/// What another library writes for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// HDF5: the frame of a file of arrays, laid out or written.
    Frame,
    /// SQLite: a transaction, durable when it is done, with all before it.
    Commit,
    /// SQLite: a transaction that is durable with the next [`Foreign::Commit`] only.
    LazyCommit,
    /// SQLite: its log, moved into the file; both are durable when it is done.
    Move,
    /// The arena: a segment with a name, in shared memory or in the run's directory.
    Segment,
}

/// What a file system does for the store.
pub trait Disk: Send + Sync {
    /// Opens a file, making it if the options say so.
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File>;
    /// Writes some of `bytes` at an offset and says how many.
    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize>;
    /// Reserves room, so that the lack of it shows before anything is written.
    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()>;
    /// Cuts a file off at a length.
    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()>;
    /// Makes a file durable.
    fn sync(&self, fd: BorrowedFd) -> io::Result<()>;
    /// Gives a finished file its name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; one that is not there is no error.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory, parents too; one that is there is no error.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that can still be written where `dir` lies.
    fn free(&self, dir: &Path) -> io::Result<u64>;
    /// For how long a disk that is full or ailing is left alone between two attempts.
    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }
    /// Another library is about to write.
    fn before(&self, what: Foreign, path: &Path) -> io::Result<()> {
        let _ = (what, path);
        Ok(())
    }
    /// It has written.
    fn after(&self, what: Foreign, path: &Path) {
        let _ = (what, path);
    }
    /// Another library is in a file from now on, until it is over.
    fn under_way(&self, path: &Path) {
        let _ = path;
    }
    /// What was under way is over, well or not.
    fn over(&self) {}
}

/// Has another library write; the seam to the disk is asked before and told after.
pub fn foreign<T>(
    disk: &dyn Disk,
    what: Foreign,
    path: &Path,
    act: impl FnOnce() -> forebay_types::Result<T>,
) -> forebay_types::Result<T> {
    disk.under_way(path);
    let done = disk
        .before(what, path)
        .map_err(|e| failed(format!("{} cannot be written", path.display()), e))
        .and_then(|()| act())
        .inspect(|_| disk.after(what, path));
    disk.over();
    done
}

/// A failed call, with the kind of failure that the system told.
pub fn failed(what: impl std::fmt::Display, e: io::Error) -> forebay_types::Error {
    let kind = e.kind();
    forebay_types::Error::io(what, e).caused_by(kind)
}

/// The operating system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Disk for System {
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        how.open(path)
    }

    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize> {
        bytes.write_at(fd, at)
    }

    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()> {
        use rustix::io::Errno;
        match rustix::fs::fallocate(fd, rustix::fs::FallocateFlags::empty(), at, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(fd, len)?)
    }

    fn sync(&self, fd: BorrowedFd) -> io::Result<()> {
        Ok(rustix::fs::fsync(fd)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let s = rustix::fs::statvfs(dir)?;
        Ok(s.f_bavail.saturating_mul(s.f_frsize))
    }
}

/// Writes all of `bytes` through the page cache.
pub fn write_all(disk: &dyn Disk, fd: BorrowedFd, mut bytes: Lent, mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match disk.write(fd, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = bytes.split_at(n).1;
                at += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A file opened twice: once past the page cache where the file system can do that, once
/// through it. **No page is ever written both ways**: direct writes cover the whole pages inside
/// one contiguous run, everything else goes through the cache.
pub struct DualFile {
    plain: File,
    direct: Option<File>,
    bounce: Vec<u8>,
}

/// Runs shorter than this are not worth a direct write.
const DIRECT_MIN: usize = 64 * 1024;
/// Longest single write, so that a stop or an error shows soon.
const CHUNK: usize = 8 << 20;
/// Bounce buffer for memory that does not lie as the file does.
const BOUNCE: usize = 4 << 20;

impl DualFile {
    /// Opens an existing file for writing.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<DualFile> {
        let plain = disk.open(path, OpenOptions::new().write(true))?;
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let direct = disk.open(path, OpenOptions::new().write(true).custom_flags(flags)).ok();
        Ok(DualFile { plain, direct, bounce: Vec::new() })
    }

    /// Whether writes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The descriptor through the page cache.
    pub fn plain(&self) -> BorrowedFd<'_> {
        self.plain.as_fd()
    }

    /// Writes a contiguous run.
    pub fn write(&mut self, disk: &dyn Disk, bytes: Lent, at: u64) -> io::Result<()> {
        let first = at.next_multiple_of(PAGE);
        let last = (at + bytes.len() as u64) / PAGE * PAGE;
        if bytes.len() < DIRECT_MIN || self.direct.is_none() || first >= last {
            return write_all(disk, self.plain.as_fd(), bytes, at);
        }
        let (head, rest) = bytes.split_at((first - at) as usize);
        let (middle, tail) = rest.split_at((last - first) as usize);
        write_all(disk, self.plain.as_fd(), head, at)?;
        match self.write_pages(disk, middle, first) {
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                self.direct = None;
                write_all(disk, self.plain.as_fd(), middle, first)?;
            }
            other => other?,
        }
        write_all(disk, self.plain.as_fd(), tail, last)
    }

    fn write_pages(&mut self, disk: &dyn Disk, pages: Lent, at: u64) -> io::Result<()> {
        let Some(direct) = &self.direct else { return Ok(()) };
        if pages.is_aligned_to(PAGE as usize) {
            for (i, chunk) in pages.chunks(CHUNK).enumerate() {
                write_all(disk, direct.as_fd(), chunk, at + (i * CHUNK) as u64)?;
            }
            return Ok(());
        }
        if self.bounce.is_empty() {
            self.bounce = vec![0; BOUNCE + PAGE as usize];
        }
        let skip = self.bounce.as_ptr().align_offset(PAGE as usize);
        for (i, chunk) in pages.chunks(BOUNCE).enumerate() {
            let room = &mut self.bounce[skip..skip + chunk.len()];
            chunk.copy_to(room);
            write_all(disk, direct.as_fd(), Lent::of(room), at + (i * BOUNCE) as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn runs_at_any_offset_and_address_end_up_where_they_belong(
            cuts in proptest::collection::vec(1usize..200_000, 1..6), shift in 0usize..5000, base in 0u64..9000
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f");
            std::fs::write(&path, b"").unwrap();
            let mut file = DualFile::open(&System, &path).unwrap();
            let total: usize = cuts.iter().sum();
            let memory: Vec<u8> = (0..total + shift).map(|i| (i * 31 % 251) as u8).collect();
            let bytes = &memory[shift..];
            let mut done = 0;
            for n in cuts {
                file.write(&System, Lent::of(&bytes[done..done + n]), base + done as u64).unwrap();
                done += n;
            }
            let back = std::fs::read(&path).unwrap();
            prop_assert!(back[base as usize..] == bytes[..total]);
        }
    }
}
