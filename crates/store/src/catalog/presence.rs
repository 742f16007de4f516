//! Whether the catalog that is open is the one that has its name. Somebody may remove it, or put
//! another one in its place, while its owner lives: SQLite goes on writing into a file that nobody
//! will ever find. So the owner looks after each durable commit, before it tells anybody that
//! something is durable; and since the open file is whole, it is written anew under a name.

use super::{Catalog, sql_error};
use crate::layout::{SAVED, with_end};
use forebay_host::Share;
use forebay_types::{Code, Error, Result};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A removed catalog may be the first that goes of a whole directory: who has written it anew looks for so long
/// whether it stays.
const STAYS: Duration = Duration::from_millis(300);
/// Time between two looks whether a catalog that was written anew stays.
const LOOK: Duration = Duration::from_millis(10);
/// How often a removed catalog is written anew at most.
const ANEW: usize = 8;

/// Device and number of the file and of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Presence([Option<(u64, u64)>; 2]);

enum NameState {
    Same,
    Gone,
    Another,
}

impl Presence {
    pub fn of(path: &Path) -> Presence {
        Presence([id_of(path), id_of(&with_end(path, "-wal"))])
    }

    /// Device and number of the file, without those of its log.
    pub fn file(&self) -> Option<(u64, u64)> {
        self.0[0]
    }

    /// Whether there was no log.
    pub fn is_alone(&self) -> bool {
        self.0[1].is_none()
    }

    /// Whether the log that lies there is still the one of the file that is open.
    fn has_log_at(&self, path: &Path) -> bool {
        self.0[1].is_some() && Presence::of(path).0[1] == self.0[1]
    }

    fn now(&self, path: &Path) -> NameState {
        for (end, known) in ["", "-wal"].iter().zip(self.0) {
            let Some(known) = known else { continue };
            match with_end(path, end).metadata() {
                Ok(m) if (m.dev(), m.ino()) == known => {}
                Ok(_) => return NameState::Another,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return NameState::Gone,
                // A file system that does not answer now says nothing.
                Err(_) => {}
            }
        }
        NameState::Same
    }
}

/// Whoever wants these bytes of a catalog alone is the last one that has it open, as he believes, and removes the log.
const OF_ALL_WHO_HAVE_IT: Range<i64> = 0x4000_0002..0x4000_0200;
/// Whoever wants this byte of the index of the log alone is the first one that opens it, as he believes, and empties it.
const OF_ALL_WHO_HAVE_ITS_INDEX: Range<i64> = 128..129;

/// SQLite's own locks are the process's, and are lost when another SQLite in it, as that of Python, closes the file: the
/// log would be removed under who has it open. These stay. All who have a catalog open in this process have them
/// together: closing a file of theirs takes SQLite's locks away from the others, so the last one closes them.
pub(super) struct OpenLocks {
    of: (u64, u64),
    is_back: AtomicBool,
}

/// What is held of a catalog, by its device and number.
static HELD: Mutex<BTreeMap<(u64, u64), Shares>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Shares {
    users: usize,
    /// The index of the log that SQLite has mapped, for all in this process.
    index: Option<(u64, u64)>,
    held: Vec<Share>,
    /// Given back, and open until SQLite has closed the catalog.
    left: Vec<Share>,
}

fn held() -> MutexGuard<'static, BTreeMap<(u64, u64), Shares>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index_of(path: &Path) -> PathBuf {
    with_end(path, "-shm")
}

impl OpenLocks {
    /// For a catalog that is open. A file system that knows no such locks has SQLite's.
    pub fn of(path: &Path) -> OpenLocks {
        let of = id_of(path).unwrap_or_default();
        let mut all = held();
        let shares = all.entry(of).or_default();
        shares.users += 1;
        let index = id_of(&index_of(path));
        // A new catalog has no log yet: whoever gives it one wants it alone for that.
        if shares.held.is_empty() && index.is_some() {
            let parts = [(path.to_owned(), OF_ALL_WHO_HAVE_IT), (index_of(path), OF_ALL_WHO_HAVE_ITS_INDEX)];
            shares.held.extend(parts.into_iter().filter_map(|(path, bytes)| Share::of(&path, bytes).ok()));
            shares.index = index;
        }
        OpenLocks { of, is_back: AtomicBool::new(false) }
    }

    /// Before a catalog is opened: SQLite has one index of the log for all in this process. When that was taken away
    /// under them, a new log would be read by the index of the old one.
    pub fn check(path: &Path) -> Result<()> {
        let Some(of) = id_of(path) else { return Ok(()) };
        let mapped = held().get(&of).filter(|shares| shares.users > 0).and_then(|shares| shares.index);
        match mapped.is_some() && mapped != id_of(&index_of(path)) {
            true => Err(log_taken(path)),
            false => Ok(()),
        }
    }

    /// Before SQLite closes the catalog, once: whoever closes the last one removes the log.
    pub fn give_back(&self) {
        if self.is_back.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(shares) = held().get_mut(&self.of) {
            shares.users -= 1;
            if shares.users == 0 {
                shares.held.iter().for_each(Share::give_back);
                shares.left.append(&mut shares.held);
                shares.index = None;
            }
        }
    }
}

impl Drop for OpenLocks {
    fn drop(&mut self) {
        self.give_back();
        let mut all = held();
        if all.get(&self.of).is_some_and(|shares| shares.users == 0) {
            all.remove(&self.of);
        }
    }
}

/// What to tell whoever has a catalog open, or opens it, when the log under it is another one.
pub(super) fn log_taken(path: &Path) -> Error {
    let dir = path.parent().unwrap_or(path).display();
    Error::new(
        Code::Conflict,
        format!(
            "the catalog's log of {dir} was replaced by another one while this program had the run open; close the run in all of this program, then open it again"
        ),
    )
}

/// A descriptor that only names a file: closing one of another kind would take SQLite's locks away.
pub(super) fn named(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|m| (m.dev(), m.ino()))
}

/// The run's directory and the catalog in it, held by descriptors that only name them.
pub(super) struct Anchors([OwnedFd; 2]);

impl Anchors {
    pub fn of(path: &Path) -> Option<Anchors> {
        Some(Anchors([named(path.parent()?)?, named(path)?]))
    }

    /// Whether nothing has a name any more: what was only moved has one.
    fn is_deleted(&self, path: &Path) -> bool {
        let [dir, file] = &self.0;
        let nameless = |fd: &OwnedFd| rustix::fs::fstat(fd).is_ok_and(|s| s.st_nlink == 0);
        let missing = || path.parent().is_some_and(|dir| matches!(dir.try_exists(), Ok(false)));
        nameless(dir) || nameless(file) && missing()
    }

    /// Where the directory is, when it is not at its path any more: what it is called now, if the system knows.
    fn moved_from(&self, path: &Path) -> Option<PathBuf> {
        let (held, old) = (&self.0[0], path.parent()?);
        let is = |dir: &Path| {
            let seen = dir.metadata().ok().map(|m| (m.dev(), m.ino()));
            seen.is_some() && seen == rustix::fs::fstat(held).ok().map(|s| (s.st_dev, s.st_ino))
        };
        if is(old) {
            return None;
        }
        let link = format!("/proc/self/fd/{}", held.as_raw_fd());
        std::fs::read_link(link).ok().filter(|new| new != old && is(new))
    }
}

impl Catalog {
    /// Whether somebody has deleted the run's directory while it is open.
    pub fn is_deleted(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_deleted(&self.path))
    }

    /// What to tell of that.
    fn deleted(&self) -> Error {
        let dir = self.path.parent().unwrap_or(Path::new(".")).display();
        Error::new(
            Code::NotFound,
            format!(
                "the directory {dir} was deleted while the run was open: nothing of the run is left, and nothing more is kept; open it anew"
            ),
        )
    }

    /// Where the run's directory is now, when somebody has moved it while it is open.
    pub fn moved(&self) -> Option<PathBuf> {
        self.held.as_ref().filter(|held| !held.is_deleted(&self.path)).and_then(|h| h.moved_from(&self.path))
    }

    /// Why the directory is of no use to its owner any more, if it was deleted or moved: files are made in it by
    /// its path.
    pub fn displaced(&self) -> Option<Error> {
        if self.is_deleted() {
            return Some(self.deleted());
        }
        let (old, new) = (self.path.parent().unwrap_or(Path::new(".")).display(), self.moved()?);
        let new = new.display();
        Some(Error::new(
            Code::NotFound,
            format!(
                "the directory {old} was moved to {new} while the run was open, and nothing more is written; what was acknowledged is there or in shared memory: when its programs have ended `forebay recover {new}` completes it, and the run goes on under its new path"
            ),
        ))
    }

    /// Fails when the file that is open is not the run's catalog any more; from then on always.
    pub(super) fn look_for_file(&mut self) -> Result<()> {
        let seen = self.presence.now(&self.path);
        if matches!(seen, NameState::Same) {
            return Ok(());
        }
        if let Some(e) = self.displaced() {
            self.gone = Some(e.clone());
            return Err(e);
        }
        let path = self.path.display().to_string();
        let what = match seen {
            NameState::Another => {
                format!("{path} (or its log) was replaced by another file while the run was open")
            }
            _ => format!("{path} (or its log) was removed while the run was open"),
        };
        let dir = self.path.parent().unwrap_or(Path::new(".")).display().to_string();
        let rest = format!(
            "what is not in it is in shared memory, `forebay recover {dir}` writes it and names snapshots whose files were removed, too"
        );
        let saved = self.save_to_stay(matches!(seen, NameState::Gone));
        if let Some(e) = self.displaced() {
            self.gone = Some(e.clone());
            return Err(e);
        }
        let then = match saved {
            Ok(to) if to == self.path => format!("what it held is written there anew; {rest}"),
            Ok(to) => {
                let to = to.display();
                format!(
                    "what it held is saved as {to}: decide which one is right, give it the name {path}; {rest}"
                )
            }
            Err(e) => format!("it cannot be written anew ({}), so what only it held is lost", e.text()),
        };
        let e = Error::new(Code::Corrupt, format!("{what}: nothing more is durable; {then}"));
        self.gone = Some(e.clone());
        Err(e)
    }

    /// Writes the open catalog into a file, as [`Catalog::save`] does, again and again until the file stays there:
    /// whoever removes the directory may remove that file too, and then the directory.
    fn save_to_stay(&self, in_place: bool) -> Result<PathBuf> {
        let mut saved = self.save(in_place);
        for _ in 1..ANEW {
            if self.stays(saved.as_deref().ok()) || self.displaced().is_some() {
                break;
            }
            saved = self.save(in_place);
        }
        saved
    }

    /// Whether a file, if it was made, and the directory are there for a while.
    fn stays(&self, file: Option<&Path>) -> bool {
        let known = file.and_then(id_of);
        let until = Instant::now() + STAYS;
        while Instant::now() < until {
            if self.displaced().is_some() || file.is_some_and(|file| known.is_none() || id_of(file) != known)
            {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        file.is_some()
    }

    /// Writes the open catalog into a file, under its own name if that is free.
    fn save(&self, in_place: bool) -> Result<PathBuf> {
        let tmp = with_end(&self.path, ".saved.tmp");
        let failed = |e| Error::io(format!("cannot write {}", tmp.display()), e);
        self.disk.remove(&tmp).map_err(failed)?;
        self.conn
            .execute("VACUUM INTO ?1", [tmp.to_string_lossy()])
            .map_err(|e| sql_error(&format!("cannot write {}", tmp.display()), e))?;
        let file = self.disk.open(&tmp, OpenOptions::new().write(true)).map_err(failed)?;
        self.disk.sync(file.as_fd()).map_err(failed)?;
        let named = |n: u32| with_end(&self.path, &format!("{SAVED}{n}"));
        let saved = (1..).map(named).find(|p| !p.exists());
        let saved = saved.ok_or_else(|| Error::internal("no name for the catalog"))?;
        let sync = || self.disk.sync_dir(saved.parent().unwrap_or(Path::new("."))).map_err(failed);
        self.disk.rename(&tmp, &saved).map_err(failed)?;
        sync()?;
        // Its log belongs to the file that is gone: SQLite leaves it, and would read it into whatever has
        // the catalog's name next.
        if self.presence.has_log_at(&self.path) {
            for end in ["-wal", "-shm"] {
                self.disk.remove(&with_end(&self.path, end)).map_err(failed)?;
            }
        }
        if !in_place {
            return Ok(saved);
        }
        self.disk.rename(&saved, &self.path).map_err(failed)?;
        sync()?;
        Ok(self.path.clone())
    }
}
