//! A disk that asks a test before each call: the test lets it pass, refuses it, or lets it wait.

use super::faults::path_of;
use forebay_arena::Lent;
use forebay_store::disk::{Disk, Foreign, System};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

/// What the store is about to ask of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Open,
    Write,
    Reserve,
    Cut,
    Sync,
    Rename,
    Remove,
    MakeDir,
    SyncDir,
    Free,
    Foreign(Foreign),
}

/// The disk, with the question.
pub struct Asked<F>(pub F);

impl<F: Fn(Call, &Path) -> io::Result<()> + Send + Sync> Disk for Asked<F> {
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        (self.0)(Call::Open, path)?;
        System.open(path, how)
    }
    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize> {
        (self.0)(Call::Write, &path_of(fd))?;
        System.write(fd, bytes, at)
    }
    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()> {
        (self.0)(Call::Reserve, &path_of(fd))?;
        System.reserve(fd, at, len)
    }
    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()> {
        (self.0)(Call::Cut, &path_of(fd))?;
        System.cut(fd, len)
    }
    fn sync(&self, fd: BorrowedFd) -> io::Result<()> {
        (self.0)(Call::Sync, &path_of(fd))?;
        System.sync(fd)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.0)(Call::Rename, to)?;
        System.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.0)(Call::Remove, path)?;
        System.remove(path)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        (self.0)(Call::MakeDir, path)?;
        System.make_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.0)(Call::SyncDir, dir)?;
        System.sync_dir(dir)
    }
    fn free(&self, dir: &Path) -> io::Result<u64> {
        // A disk without room is asked how much it has, and says none.
        match (self.0)(Call::Free, dir) {
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Ok(0),
            other => other.and_then(|()| System.free(dir)),
        }
    }
    fn patience(&self) -> Duration {
        Duration::from_millis(1)
    }
    fn before(&self, what: Foreign, path: &Path) -> io::Result<()> {
        (self.0)(Call::Foreign(what), path)
    }
}
