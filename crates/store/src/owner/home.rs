//! The run's directory as it was opened. A run may be moved while it is open, and another one made under its name:
//! its owner makes, names and removes no file there. The seam to the disk asks before each such call.

use crate::disk::{Disk, Foreign};
use forebay_arena::Lent;
use rustix::fs::{Mode, OFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A disk that knows the run's directory again.
pub(super) struct Homed {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    held: OnceLock<OwnedFd>,
}

impl Homed {
    /// All is let through until the directory is there.
    pub fn new(disk: Arc<dyn Disk>, root: &Path) -> Homed {
        Homed { disk, root: root.to_owned(), held: OnceLock::new() }
    }

    /// The directory is there: from now on it is this one. It is held, so that no other one gets its number.
    pub fn hold(&self) {
        if let Ok(fd) = rustix::fs::open(&self.root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            let _ = self.held.set(fd);
        }
    }

    /// Fails where the path leads into another directory.
    fn look(&self, path: &Path) -> io::Result<()> {
        let Some(held) = self.held.get().filter(|_| path.starts_with(&self.root)) else { return Ok(()) };
        // A file system that does not answer now says nothing.
        let (Ok(now), Ok(ours)) = (self.root.metadata(), rustix::fs::fstat(held)) else { return Ok(()) };
        match (now.dev(), now.ino()) == (ours.st_dev, ours.st_ino) {
            true => Ok(()),
            false => {
                let text =
                    format!("{} is another directory than when the run was opened", self.root.display());
                Err(io::Error::new(io::ErrorKind::NotFound, text))
            }
        }
    }
}

impl Disk for Homed {
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        self.look(path)?;
        self.disk.open(path, how)
    }

    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize> {
        self.disk.write(fd, bytes, at)
    }

    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()> {
        self.disk.reserve(fd, at, len)
    }

    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()> {
        self.disk.cut(fd, len)
    }

    fn sync(&self, fd: BorrowedFd) -> io::Result<()> {
        self.disk.sync(fd)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.look(to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.look(path)?;
        self.disk.remove(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.look(path)?;
        self.disk.make_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.look(dir)?;
        self.disk.sync_dir(dir)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free(dir)
    }

    fn patience(&self) -> Duration {
        self.disk.patience()
    }

    fn before(&self, what: Foreign, path: &Path) -> io::Result<()> {
        // The catalog is written by its descriptor, and looked for after each commit.
        if matches!(what, Foreign::Frame | Foreign::Segment) {
            self.look(path)?;
        }
        self.disk.before(what, path)
    }

    fn after(&self, what: Foreign, path: &Path) {
        self.disk.after(what, path);
    }

    fn under_way(&self, path: &Path) {
        self.disk.under_way(path);
    }

    fn over(&self) {
        self.disk.over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::System;

    #[test]
    fn no_file_is_made_named_or_removed_in_another_directory_of_the_same_name() {
        let place = tempfile::tempdir().unwrap();
        let (root, moved) = (place.path().join("m.fb"), place.path().join("n.fb"));
        let disk = Homed::new(Arc::new(System), &root);
        disk.make_dir(&root.join("steps")).unwrap();
        disk.hold();
        let [old, new] = ["steps/1.h5.tmp", "steps/1.h5"].map(|name| root.join(name));
        let mut make = OpenOptions::new();
        make.write(true).create(true).truncate(false);
        disk.open(&old, &make).unwrap();
        disk.rename(&old, &new).unwrap();
        std::fs::rename(&root, &moved).unwrap();
        std::fs::create_dir_all(root.join("steps")).unwrap();
        std::fs::write(&old, "theirs").unwrap();
        std::fs::write(&new, "theirs").unwrap();
        let refused = [
            disk.open(&old, &make).map(drop),
            disk.rename(&old, &new),
            disk.remove(&new),
            disk.make_dir(&root.join("data")),
            disk.before(Foreign::Frame, &old),
        ];
        for done in refused {
            assert_eq!(done.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        assert_eq!(std::fs::read(&new).unwrap(), b"theirs");
        std::fs::remove_dir_all(&root).unwrap();
        std::fs::rename(&moved, &root).unwrap();
        disk.remove(&new).unwrap();
    }
}
