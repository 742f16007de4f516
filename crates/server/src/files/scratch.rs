//! The scratch space of a server: a directory of its own, with a lock that says that it lives.
//!
//! ```text
//! BASE/forebay-<number of the server's life>/lock     held while the server lives
//!                                            1/mesh   each file in a directory of its own
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay_host::{directories, lock};
use forebay_link::pool::Budget;
use forebay_types::file::SCRATCH_BYTES;
use forebay_types::{Code, Error, Result};
use rustix::fs::{FlockOperation, flock};

/// How the names of servers' directories begin.
const PREFIX: &str = "forebay-";
/// The file in it whose lock is held.
const LOCK: &str = "lock";

pub(super) struct Scratch {
    base: PathBuf,
    pub budget: Arc<Budget>,
    own: Mutex<Option<Own>>,
    next: AtomicU64,
}

/// The directory of this server, made with its first file.
struct Own {
    dir: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Sweeps what servers that were killed have left there.
    pub fn new(asked: Option<(PathBuf, u64)>) -> Result<Scratch> {
        let is_asked = asked.is_some();
        let (base, bytes) = asked.unwrap_or_else(|| (directories::scratch(), SCRATCH_BYTES));
        let base = std::path::absolute(&base).map_err(|e| cannot("use", &base, e))?;
        // One that somebody has chosen had better be told at once to be of no use.
        if is_asked {
            fs::create_dir_all(&base).map_err(|e| cannot("make", &base, e))?;
            drop(door(&base)?);
        }
        if base.is_dir() {
            sweep(&base);
        }
        Ok(Scratch { base, budget: Budget::new(bytes), own: Mutex::default(), next: AtomicU64::new(1) })
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    /// A new directory for one file.
    pub fn dir(&self) -> Result<PathBuf> {
        let mut own = lock(&self.own);
        let root = match &*own {
            Some(own) => &own.dir,
            None => &own.insert(make(&self.base)?).dir,
        };
        let dir = root.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        private(&dir)?;
        Ok(dir)
    }

    /// Removes all of it.
    pub fn close(&self) {
        if let Some(own) = lock(&self.own).take() {
            let _ = fs::remove_dir_all(&own.dir);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.close();
    }
}

fn cannot(what: &str, dir: &Path, e: std::io::Error) -> Error {
    Error::io(format!("cannot {what} the scratch directory {}", dir.display()), e)
        .with_remedy("give another one (forebay serve --scratch DIR:SIZE)")
}

fn private(dir: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(dir).map_err(|e| cannot("make", dir, e))
}

/// Keeps other servers of this user from making and sweeping meanwhile.
fn door(base: &Path) -> Result<File> {
    // Each user has a lock of his own: that of another one may not be opened.
    let path = base.join(format!(".{PREFIX}{}.lock", rustix::process::geteuid().as_raw()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(|e| cannot("use", base, e))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|e| cannot("lock", base, e.into()))?;
    Ok(file)
}

fn make(base: &Path) -> Result<Own> {
    if base == directories::scratch() {
        directories::private_dir(base)?;
    }
    let _door = door(base)?;
    let mut number = [0; 8];
    getrandom::fill(&mut number)
        .map_err(|e| Error::new(Code::Io, format!("the system gives no random numbers: {e}")))?;
    let dir = base.join(format!("{PREFIX}{:016x}", u64::from_le_bytes(number)));
    private(&dir)?;
    let lock = File::create(dir.join(LOCK)).map_err(|e| cannot("use", &dir, e))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|e| cannot("lock", &dir, e.into()))?;
    Ok(Own { dir, _lock: lock })
}

/// Removes the directories of servers of this user that do not live any more.
fn sweep(base: &Path) {
    let Ok(_door) = door(base) else { return };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_ours = entry
            .metadata()
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw());
        if !is_one || !is_ours {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK));
        let is_dead =
            lock.map_or(true, |lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_dead {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lives_with_its_server_and_is_swept_by_the_next_one() {
        let base = tempfile::tempdir().unwrap();
        let new = || Scratch::new(Some((base.path().to_owned(), 100))).unwrap();
        let (a, b) = (new(), new());
        let (one, other) = (a.dir().unwrap(), b.dir().unwrap());
        fs::write(one.join("mesh"), "x").unwrap();
        // As when its server is killed: the lock goes, the directory stays.
        std::mem::forget(std::mem::replace(&mut *lock(&a.own), None).map(|own| own.dir));
        let c = new();
        assert!(!one.exists() && other.exists());
        let third = c.dir().unwrap();
        assert_eq!(fs::metadata(&third).unwrap().mode() & 0o777, 0o700);
        drop((b, c));
        assert!(!other.exists() && !third.exists());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_told_at_once() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let e = Scratch::new(Some((file.join("in"), 1))).err().unwrap();
        assert!(e.text().contains("--scratch"), "{e}");
    }
}
