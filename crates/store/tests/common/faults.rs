//! A disk that counts what the store asks of it, fails at a chosen place, kills the process
//! there, or remembers what would be left there after a loss of power.

use forebay_arena::Lent;
use forebay_store::disk::{Disk, Foreign, System};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Every kind of error that a disk, or a system short of something, answers with.
pub const KINDS: [Errno; 7] =
    [Errno::IO, Errno::NOSPC, Errno::ROFS, Errno::STALE, Errno::MFILE, Errno::NOMEM, Errno::AGAIN];

/// What happens at the chosen place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing; places are counted only.
    None,
    /// An error there and at so many places in all.
    Error(Errno, usize),
    /// A write writes half of what it should.
    Short,
    /// This process is killed.
    Kill,
    /// What a loss of power would leave is remembered at every place.
    Power,
}

type Bytes = Arc<Vec<u8>>;
/// A directory tree: paths relative to its root; `None` is a directory.
pub type Tree = BTreeMap<PathBuf, Option<Bytes>>;

/// What is left of the run at one place, and how much was acknowledged as durable by then.
pub struct Left {
    pub place: usize,
    pub what: &'static str,
    pub acknowledged: usize,
    pub begun: usize,
    pub tree: Tree,
}

#[derive(Default)]
struct State {
    places: Vec<String>,
    acknowledged: usize,
    begun: usize,
    /// Contents of files as they were last made durable, by number of the file.
    contents: HashMap<u64, Bytes>,
    /// Names as they were last made durable; `None` is a directory.
    names: BTreeMap<PathBuf, Option<u64>>,
    left: Vec<Left>,
}

/// The disk.
pub struct FaultyDisk {
    root: PathBuf,
    fault: Fault,
    at: usize,
    state: Mutex<State>,
}

impl FaultyDisk {
    /// Fails at the place with that number (from 0) under a directory.
    pub fn new(root: &Path, fault: Fault, at: usize) -> Arc<FaultyDisk> {
        Arc::new(FaultyDisk { root: root.to_owned(), fault, at, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// While this is held nothing is done on the disk.
    pub fn hold(&self) -> impl Drop + '_ {
        self.lock()
    }

    /// The places passed so far, one line each.
    pub fn places(&self) -> Vec<String> {
        self.lock().places.clone()
    }

    /// What was left at each place.
    pub fn left(&self) -> Vec<Left> {
        let mut state = self.lock();
        self.remember(&mut state);
        std::mem::take(&mut state.left)
    }

    /// So many acts of the script are durable, so many were begun.
    pub fn acknowledge(&self, durable: usize, begun: usize) {
        let mut state = self.lock();
        state.acknowledged = state.acknowledged.max(durable);
        state.begun = state.begun.max(begun);
    }

    /// Passes a place; the guard keeps the world still until the act is done.
    fn pass(&self, what: &str, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if self.fault == Fault::Power {
            self.remember(&mut state);
        }
        let place = state.places.len();
        state.places.push(format!("{what} {}", path.strip_prefix(&self.root).unwrap_or(path).display()));
        match self.fault {
            Fault::Error(kind, times) if place >= self.at && place - self.at < times => {
                return Err(kind.into());
            }
            Fault::Kill if place == self.at => {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
            _ => {}
        }
        Ok(state)
    }

    /// Notes what is left here: names and contents as made durable; names as they are now with
    /// contents as made durable; everything as it is now.
    fn remember(&self, state: &mut State) {
        let now = self.walk();
        let contents = |ino: &Option<u64>| ino.map(|i| state.contents.get(&i).cloned().unwrap_or_default());
        let durable: Tree = state.names.iter().map(|(path, ino)| (path.clone(), contents(ino))).collect();
        let eager: Tree = now.iter().map(|(path, ino)| (path.clone(), contents(ino))).collect();
        let read = |path: &PathBuf| Arc::new(std::fs::read(self.root.join(path)).unwrap_or_default());
        let all: Tree = now.iter().map(|(path, ino)| (path.clone(), ino.map(|_| read(path)))).collect();
        for (what, tree) in [("durable", durable), ("eager", eager), ("all", all)] {
            let (place, acknowledged, begun) = (state.places.len(), state.acknowledged, state.begun);
            let same = state.left.iter_mut().rev().find(|l| l.what == what).filter(|l| l.tree == tree);
            match same {
                Some(l) => (l.acknowledged, l.begun) = (acknowledged, begun),
                None => state.left.push(Left { place, what, acknowledged, begun, tree }),
            }
        }
    }

    /// All names under the root, with the numbers of the files.
    fn walk(&self) -> BTreeMap<PathBuf, Option<u64>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.root.clone()];
        while let Some(dir) = open.pop() {
            for e in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let Ok(meta) = e.metadata() else { continue };
                let path = e.path();
                found.insert(self.relative(&path), meta.is_file().then(|| meta.ino()));
                if meta.is_dir() {
                    open.push(path);
                }
            }
        }
        found
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    /// A file is durable as it is now.
    fn keep(&self, state: &mut State, path: &Path) {
        if let (Ok(meta), Ok(bytes)) = (path.metadata(), std::fs::read(path)) {
            state.contents.insert(meta.ino(), Arc::new(bytes));
        }
    }

    /// What a system does when it cannot make a file durable: it forgets what it could not write. The
    /// next attempt finds nothing left to do and succeeds.
    fn lose(&self, state: &State, path: &Path) {
        let Ok(meta) = path.metadata() else { return };
        let kept = state.contents.get(&meta.ino()).cloned().unwrap_or_default();
        let mut bytes = vec![0; meta.len() as usize];
        let known = kept.len().min(bytes.len());
        bytes[..known].copy_from_slice(&kept[..known]);
        std::fs::write(path, bytes).unwrap();
    }

    /// The names in a directory are durable as they are now.
    fn keep_names(&self, state: &mut State, dir: &Path) {
        let dir = self.relative(dir);
        let above = |path: &PathBuf| path.parent() == Some(&dir);
        state.names.retain(|path, _| !above(path));
        state.names.extend(self.walk().into_iter().filter(|(path, _)| above(path)));
    }
}

/// A file system in memory when there is one: nothing here needs a real disk.
pub fn scratch() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

/// Puts a tree into a directory.
pub fn plant(tree: &Tree, root: &Path) {
    for (path, bytes) in tree {
        let path = root.join(path);
        // A name whose directory was lost is lost with it.
        match bytes {
            None if path.parent().is_some_and(|p| p.is_dir()) => std::fs::create_dir_all(&path).unwrap(),
            Some(bytes) if path.parent().is_some_and(|p| p.is_dir()) => {
                std::fs::write(&path, &**bytes).unwrap()
            }
            _ => {}
        }
    }
}

/// The file behind a descriptor.
pub fn path_of(fd: BorrowedFd) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        let _still = self.pass("open", path)?;
        System.open(path, how)
    }

    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize> {
        let state = self.pass("write", &path_of(fd))?;
        let short = self.fault == Fault::Short && state.places.len() == self.at + 1;
        // Past the page cache only whole pages are written.
        let some =
            if short { (bytes.len() / 2).next_multiple_of(4096).min(bytes.len()) } else { bytes.len() };
        System.write(fd, bytes.split_at(some).0, at)
    }

    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()> {
        let _still = self.pass("reserve", &path_of(fd))?;
        System.reserve(fd, at, len)
    }

    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()> {
        let _still = self.pass("cut", &path_of(fd))?;
        System.cut(fd, len)
    }

    fn sync(&self, fd: BorrowedFd) -> io::Result<()> {
        let path = path_of(fd);
        let passed = self.pass("sync", &path);
        let mut state = passed.inspect_err(|_| self.lose(&self.lock(), &path))?;
        self.keep(&mut state, &path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _still = self.pass("rename", to)?;
        System.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _still = self.pass("remove", path)?;
        System.remove(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        let _still = self.pass("make directory", path)?;
        System.make_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.pass("sync directory", dir)?;
        if self.fault == Fault::Power {
            self.keep_names(&mut state, dir);
        }
        Ok(())
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        System.free(dir)
    }

    fn patience(&self) -> Duration {
        Duration::from_micros(200)
    }

    fn before(&self, what: Foreign, path: &Path) -> io::Result<()> {
        self.pass(&format!("before {what:?}"), path).map(|_| ())
    }

    fn after(&self, what: Foreign, path: &Path) {
        let Ok(mut state) = self.pass(&format!("after {what:?}"), path) else { return };
        if self.fault != Fault::Power || what != Foreign::Commit {
            return;
        }
        // SQLite has made its files and their names durable; the index is made anew from them.
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        for file in [path.to_owned(), PathBuf::from(log)] {
            self.keep(&mut state, &file);
            let ino = file.metadata().ok().map(|m| m.ino());
            match ino {
                Some(_) => state.names.insert(self.relative(&file), ino),
                None => state.names.remove(&self.relative(&file)),
            };
        }
    }
}
