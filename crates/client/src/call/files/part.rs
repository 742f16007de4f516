//! A file on its way to where it is wanted: beside that place, under another name. It gets its own name when it is whole
//! and on the disk; dropped before that, it is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use forebay_host::files::{identity_of, is_full};
use forebay_types::file::SeenFile;
use forebay_types::{Code, Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// How the names of such files begin and end.
const PREFIX: &str = ".forebay-";
const SUFFIX: &str = ".part";

/// So often one is made that others remove.
const TRIES: u32 = 16;

pub(crate) struct Part {
    path: PathBuf,
    wanted: PathBuf,
    /// What is there, until it has its own name. It is locked: one that is not, nobody writes any more.
    file: Option<File>,
}

/// What of a server's file could be taken over.
pub(crate) enum TakenOver {
    /// All of it: it was moved.
    Whole,
    /// It is here and is to be copied.
    Seen(File),
    /// It cannot be seen from here.
    Nothing,
}

impl Part {
    /// Makes it, empty.
    pub fn beside(wanted: &Path) -> Result<Part> {
        let mut part = Part { path: PathBuf::new(), wanted: wanted.to_owned(), file: None };
        for _ in 0..TRIES {
            let mut number = [0; 8];
            getrandom::fill(&mut number)
                .map_err(|e| Error::new(Code::Io, format!("the system gives no random numbers: {e}")))?;
            // Not made of the file's name, which may have no room for more letters.
            part.path = wanted.with_file_name(format!("{PREFIX}{:016x}{SUFFIX}", u64::from_le_bytes(number)));
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&part.path);
            let file = file.map_err(|e| part.cannot_write(e))?;
            // One that was swept before it was locked is made once more.
            if is_ours(&file) && part.path.exists() {
                part.file = Some(file);
                return Ok(part);
            }
        }
        let text =
            format!("what is written beside {} is removed by others again and again", wanted.display());
        Err(Error::new(Code::Io, text))
    }

    fn file(&mut self) -> Result<&mut File> {
        self.file.as_mut().ok_or_else(|| Error::internal("a file that comes is not there"))
    }

    /// Takes over the file that a server of this host has, moved if it is on the same disk.
    pub fn take_over(&mut self, seen: &SeenFile) -> Result<TakenOver> {
        let Ok(from) = File::open(&seen.path) else { return Ok(TakenOver::Nothing) };
        let Ok(meta) = from.metadata() else { return Ok(TakenOver::Nothing) };
        if identity_of(&meta) != seen.identity {
            return Ok(TakenOver::Nothing);
        }
        // Whoever could not read a file that is made here does not read this one.
        let mode = self.file()?.metadata().map_err(|e| self.cannot_write(e))?.permissions();
        let is_its_own = fs::symlink_metadata(&seen.path).is_ok_and(|own| own.is_file() && own.nlink() == 1);
        if is_its_own && fs::set_permissions(&seen.path, mode).is_ok() {
            let moved = OpenOptions::new().read(true).write(true).open(&seen.path);
            if let Some(moved) = moved.ok().filter(is_ours)
                && fs::rename(&seen.path, &self.path).is_ok()
            {
                self.file = Some(moved);
                return Ok(TakenOver::Whole);
            }
        }
        Ok(TakenOver::Seen(from))
    }

    /// What comes next of it.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.file()?.write_all(piece).map_err(|e| self.cannot_write(e))
    }

    /// Copies so many bytes at most; how many there were.
    pub fn copy(&mut self, from: &mut File, most: u64) -> Result<u64> {
        io::copy(&mut Read::by_ref(from).take(most), self.file()?).map_err(|e| self.cannot_write(e))
    }

    /// All of it was written.
    pub fn finish(mut self) -> Result<Part> {
        self.file()?.sync_all().map_err(|e| self.cannot_write(e))?;
        Ok(self)
    }

    /// Gives it its own name; a file of that name is replaced, and its mode stays.
    pub fn put(mut self) -> Result<()> {
        if let Ok(before) = fs::metadata(&self.wanted) {
            fs::set_permissions(&self.path, before.permissions()).map_err(|e| self.cannot_write(e))?;
        }
        fs::rename(&self.path, &self.wanted).map_err(|e| self.cannot_write(e))?;
        self.file = None;
        if let Some(dir) = self.wanted.parent() {
            // Some file systems cannot do that, and need it not.
            let _ = File::open(dir).and_then(|dir| dir.sync_all());
        }
        Ok(())
    }

    /// Why it cannot be written.
    pub fn cannot_write(&self, e: io::Error) -> Error {
        let shown = self.wanted.display();
        match is_full(&e) {
            true => Error::new(
                Code::Full,
                format!("there is no room for {shown} ({e}); free some, or give a path on another disk"),
            ),
            false => Error::io(format!("cannot write {shown}"), e),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks a file for as long as it is open. A file system without locks lets nobody have one: nobody sweeps there either.
fn is_ours(file: &File) -> bool {
    !matches!(flock(file, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK))
}

/// Removes what clients of this user that were killed have left in a directory.
pub(super) fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            continue;
        }
        let is_ours =
            |meta: fs::Metadata| meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw();
        if !entry.metadata().is_ok_and(is_ours) {
            continue;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(entry.path());
        if file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is beside that file.
    fn beside(wanted: &Path) -> usize {
        fs::read_dir(wanted.parent().unwrap()).unwrap().count() - usize::from(wanted.exists())
    }

    /// A file of the server's, as it tells of it.
    fn seen(path: &Path) -> SeenFile {
        let identity = identity_of(&fs::metadata(path).unwrap());
        SeenFile { path: path.to_str().unwrap().to_owned(), identity }
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("log");
        fs::write(&wanted, "old").unwrap();
        let mut part = Part::beside(&wanted).unwrap();
        part.write(b"half").unwrap();
        drop(part);
        assert_eq!(fs::read(&wanted).unwrap(), b"old");
        assert_eq!(beside(&wanted), 0);
        let mut part = Part::beside(&wanted).unwrap();
        part.write(b"whole").unwrap();
        part.put().unwrap();
        assert_eq!(fs::read(&wanted).unwrap(), b"whole");
        assert_eq!(beside(&wanted), 0);
    }

    #[test]
    fn a_file_of_the_server_is_taken_over_only_if_it_is_the_one_that_was_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let (from, wanted) = (dir.path().join("from"), dir.path().join("log"));
        fs::write(&from, "result").unwrap();
        let mut other = seen(&from);
        other.identity.bytes += 1;
        let mut part = Part::beside(&wanted).unwrap();
        assert!(matches!(part.take_over(&other).unwrap(), TakenOver::Nothing));
        assert!(matches!(part.take_over(&seen(&from)).unwrap(), TakenOver::Whole));
        part.put().unwrap();
        assert_eq!(fs::read(&wanted).unwrap(), b"result");
        assert_eq!(beside(&wanted), 0);
    }

    #[test]
    fn a_file_has_the_mode_of_the_one_that_it_replaces_or_that_of_a_new_one() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let [from, wanted, usual] = ["from", "log", "usual"].map(|name| dir.path().join(name));
        fs::write(&usual, "").unwrap();
        for (before, after) in [(None, mode(&usual)), (Some(0o640), 0o640), (Some(0o755), 0o755)] {
            if let Some(before) = before {
                set(&wanted, before);
            }
            fs::write(&from, "result").unwrap();
            set(&from, 0o666);
            let mut part = Part::beside(&wanted).unwrap();
            assert!(matches!(part.take_over(&seen(&from)).unwrap(), TakenOver::Whole));
            part.put().unwrap();
            assert_eq!((mode(&wanted), from.exists()), (after, false));
        }
    }

    #[test]
    fn what_nobody_writes_any_more_is_swept_and_what_somebody_writes_or_is_no_such_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (from, wanted) = (dir.path().join("from"), dir.path().join("log"));
        let left = dir.path().join(format!("{PREFIX}0123456789abcdef{SUFFIX}"));
        let link = dir.path().join(format!("{PREFIX}link{SUFFIX}"));
        std::os::unix::fs::symlink(&wanted, &link).unwrap();
        fs::write(&left, "half").unwrap();
        fs::write(&from, "result").unwrap();
        let mut written = Part::beside(&wanted).unwrap();
        written.write(b"whole").unwrap();
        let mut moved = Part::beside(&dir.path().join("other")).unwrap();
        assert!(matches!(moved.take_over(&seen(&from)).unwrap(), TakenOver::Whole));
        sweep(dir.path());
        assert!(!left.exists());
        assert!(fs::symlink_metadata(&link).is_ok());
        written.put().unwrap();
        moved.put().unwrap();
        assert_eq!(fs::read(&wanted).unwrap(), b"whole");
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"result");
    }
}
