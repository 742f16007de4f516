//! A file on its way to where it is wanted: beside that place, under another name. It gets its own name when it is whole
//! and on the disk; dropped before that, it is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_host::files::{identity_of, is_full};
use forebay_link::call::Still;
use forebay_types::file::SeenFile;
use forebay_types::{Code, Error, Result};

/// What is copied between two looks whether to go on.
const STRIDE: u64 = 8 << 20;

pub(crate) struct Part {
    path: PathBuf,
    wanted: PathBuf,
    is_there: bool,
}

impl Part {
    pub fn beside(wanted: &Path, number: u64) -> Part {
        // Not made of the file's name, which may have no room for more letters.
        let name = format!(".forebay-{}-{number}.part", std::process::id());
        Part { path: wanted.with_file_name(name), wanted: wanted.to_owned(), is_there: false }
    }

    /// Makes it, empty.
    pub fn create(&mut self) -> Result<File> {
        let made = OpenOptions::new().write(true).create_new(true).open(&self.path);
        let made = match made {
            // Of a process of the same number that was killed.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let _ = fs::remove_file(&self.path);
                OpenOptions::new().write(true).create_new(true).open(&self.path)
            }
            made => made,
        };
        let file = made.map_err(|e| self.cannot_write(e))?;
        self.is_there = true;
        Ok(file)
    }

    /// Takes over the file that a server of this host has, moved if it is on the same disk, copied if not. False when it
    /// cannot be seen from here.
    pub fn take_over(&mut self, seen: &SeenFile, still: Still) -> Result<bool> {
        let Ok(mut from) = File::open(&seen.path) else { return Ok(false) };
        let Ok(meta) = from.metadata() else { return Ok(false) };
        if identity_of(&meta) != seen.identity {
            return Ok(false);
        }
        let is_its_own = fs::symlink_metadata(&seen.path).is_ok_and(|own| own.is_file() && own.nlink() == 1);
        let mut into = self.create()?;
        // Whoever could not read a file that is made here does not read this one.
        let mode = into.metadata().map_err(|e| self.cannot_write(e))?.permissions();
        if is_its_own
            && fs::set_permissions(&seen.path, mode).is_ok()
            && fs::rename(&seen.path, &self.path).is_ok()
        {
            return self.is_whole(&from).map(|()| true);
        }
        let mut left = meta.len();
        while left > 0 {
            let copied = io::copy(&mut Read::by_ref(&mut from).take(STRIDE), &mut into)
                .map_err(|e| self.cannot_write(e))?;
            if copied == 0 {
                return Err(Error::new(Code::Conflict, format!("{} was cut while it was copied", seen.path)));
            }
            left = left.saturating_sub(copied);
            still()?;
        }
        self.is_whole(&into).map(|()| true)
    }

    /// All of it was written.
    pub fn is_whole(&self, file: &File) -> Result<()> {
        file.sync_all().map_err(|e| self.cannot_write(e))
    }

    /// Gives it its own name; a file of that name is replaced, and its mode stays.
    pub fn put(mut self) -> Result<()> {
        if let Ok(before) = fs::metadata(&self.wanted) {
            fs::set_permissions(&self.path, before.permissions()).map_err(|e| self.cannot_write(e))?;
        }
        fs::rename(&self.path, &self.wanted).map_err(|e| self.cannot_write(e))?;
        self.is_there = false;
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
        if self.is_there {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_appears_whole_or_not_at_all_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("log");
        fs::write(&wanted, "old").unwrap();
        let mut part = Part::beside(&wanted, 7);
        part.create().unwrap().write_all(b"half").unwrap();
        drop(part);
        assert_eq!(fs::read(&wanted).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let mut part = Part::beside(&wanted, 7);
        part.create().unwrap().write_all(b"whole").unwrap();
        part.put().unwrap();
        assert_eq!(fs::read(&wanted).unwrap(), b"whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_the_server_is_taken_over_only_if_it_is_the_one_that_was_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let (from, wanted) = (dir.path().join("from"), dir.path().join("log"));
        fs::write(&from, "result").unwrap();
        let identity = identity_of(&fs::metadata(&from).unwrap());
        let path = from.to_str().unwrap().to_owned();
        let mut other = SeenFile { path: path.clone(), identity };
        other.identity.bytes += 1;
        let mut part = Part::beside(&wanted, 1);
        assert!(!part.take_over(&other, &mut || Ok(())).unwrap());
        assert!(part.take_over(&SeenFile { path, identity }, &mut || Ok(())).unwrap());
        part.put().unwrap();
        assert_eq!(fs::read(&wanted).unwrap(), b"result");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
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
            let identity = identity_of(&fs::metadata(&from).unwrap());
            let seen = SeenFile { path: from.to_str().unwrap().to_owned(), identity };
            let mut part = Part::beside(&wanted, 1);
            assert!(part.take_over(&seen, &mut || Ok(())).unwrap());
            part.put().unwrap();
            assert_eq!((mode(&wanted), from.exists()), (after, false));
        }
    }
}
