//! Bytes of a file that are locked for many at once, against whoever wants them alone.
//!
//! A lock of POSIX belongs to the process, which loses all of a file's as soon as any part of it closes that file; this
//! one belongs to the open file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
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
        set(file.as_raw_fd(), &bytes, libc::F_RDLCK)?;
        Ok(Share { file, bytes })
    }

    /// Gives the lock back and leaves the file open.
    pub fn give_back(&self) {
        // What the system does not unlock it unlocks when the file is closed.
        let _ = set(self.file.as_raw_fd(), &self.bytes, libc::F_UNLCK);
    }
}

fn set(fd: RawFd, bytes: &Range<i64>, kind: libc::c_int) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: bytes.start,
        l_len: bytes.end - bytes.start,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open for as long as this runs, and the system only reads the structure.
    match unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a lock of the kind that belongs to the process would be refused.
    fn is_held(path: &Path, byte: i64) -> bool {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: byte,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the structure is ours.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) }, 0);
        lock.l_type != libc::F_UNLCK as libc::c_short
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
