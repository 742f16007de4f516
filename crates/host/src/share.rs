//! Bytes of a file that are locked for many at once, against whoever wants them alone.
//!
//! A lock of POSIX belongs to the process, which loses all of a file's as soon as any part of it closes that file; this
//! one belongs to the open file.

use crate::ffi::{self, Lock};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;

/// A lock that lasts until it is given back, or the file is closed: by dropping this, and in children that were forked.
pub struct Share {
    file: File,
    bytes: Range<i64>,
}

impl Share {
    /// Locks bytes of a file; never waits. Refused: somebody has one of them alone, a file system that knows no such locks.
    pub fn of(path: &Path, bytes: Range<i64>) -> io::Result<Share> {
        let file = File::open(path)?;
        ffi::lock(file.as_fd(), &bytes, Lock::Shared)?;
        Ok(Share { file, bytes })
    }

    /// Gives the lock back and leaves the file open.
    pub fn give_back(&self) {
        // What the system does not unlock it unlocks when the file is closed.
        let _ = ffi::lock(self.file.as_fd(), &self.bytes, Lock::None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a lock of the kind that belongs to the process would be refused.
    fn is_held(path: &Path, byte: i64) -> bool {
        let file = File::options().read(true).write(true).open(path).unwrap();
        ffi::who_locks(file.as_fd(), byte).unwrap().is_some()
    }

    #[test]
    fn a_share_outlives_another_closing_of_the_file_and_ends_when_it_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let share = Share::of(&path, 10..12).unwrap();
        let other = Share::of(&path, 11..20).unwrap();
        drop(File::open(&path).unwrap());
        assert!(is_held(&path, 10) && is_held(&path, 19) && !is_held(&path, 9));
        share.give_back();
        assert!(!is_held(&path, 10) && is_held(&path, 11));
        drop(other);
        assert!(!is_held(&path, 11));
    }
}
