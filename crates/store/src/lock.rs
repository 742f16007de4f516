//! `LOCK`: at most one process writes a run.
//!
//! The file is locked with `flock` for as long as the owner lives and says who that is. It also
//! holds the *fencing number*, one more at each opening; the catalog stores it too, and every
//! transaction compares the two, so an owner that lost the run without noticing (a file system
//! that forgot its locks) changes nothing.
//!
//! A child that the owner forked shares the lock and may outlive it. Nobody writes the run then, since a
//! child has none of the owner's threads; who comes next puts a new file in the place of the one that the
//! child keeps locked, under a lock of the directory.

use crate::catalog::Noted;
use crate::disk::{Disk, write_all};
use crate::layout::{LOCK, READ_ONLY};
use forebay_arena::Lent;
use forebay_host::process::go_on_or_end;
use forebay_host::{Process, ProcessState};
use forebay_types::{Code, Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who owns a run; the contents of `LOCK` as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process number; 0 when the run was closed in order.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// Identity of the host's boot, to tell a process from its namesake before a reboot.
    pub boot_id: String,
    /// Fencing number.
    pub fence: u64,
    /// The holder's space of process numbers; in another one nothing can be said of it.
    #[serde(default)]
    pub pid_space: String,
    /// How new the catalog is.
    #[serde(default)]
    pub catalog: Noted,
}

impl Holder {
    /// Whether that is an agent of this host, which owns runs of others.
    pub fn is_agent(&self) -> bool {
        self.is_here() && self.words().split('\0').nth(1) == Some("up")
    }

    /// Whether that is a command of this host that changes a run, as `forebay note` does.
    pub fn is_command(&self) -> bool {
        let words = self.words();
        let program = words.split('\0').next().and_then(|word| Path::new(word).file_name());
        self.is_here() && !self.is_agent() && program.is_some_and(|name| name == "forebay")
    }

    fn words(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default()
    }

    /// Whether this host has not been started anew since, as far as can be told.
    pub fn is_of_this_boot(&self) -> bool {
        self.host == host() && self.boot_id == boot_id()
    }

    /// Whether its process is stopped (SIGSTOP, Ctrl-Z, a debugger).
    pub fn is_stopped(&self) -> bool {
        let state = || Process::of_pid(self.pid).map(|p| p.state());
        self.is_here() && state() == Some(ProcessState::Stopped)
    }

    /// Whether its process is one of this host, and seen from here.
    fn is_here(&self) -> bool {
        self.pid != 0 && self.host == host() && self.pid_space == pid_space()
    }

    fn ourselves(fence: u64, catalog: Noted) -> Holder {
        let (pid, host, boot_id, pid_space) = (std::process::id(), host(), boot_id(), pid_space());
        Holder { pid, host, boot_id, fence, pid_space, catalog }
    }
}

/// The held lock; given back when dropped.
pub struct Lock {
    held: Note,
    before: Option<Holder>,
    unused: bool,
}

/// What the holder of a lock writes into it.
#[derive(Clone)]
pub struct Note {
    disk: Arc<dyn Disk>,
    file: Arc<File>,
    holder: Arc<Mutex<Holder>>,
}

impl Note {
    fn holder(&self) -> MutexGuard<'_, Holder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the catalog.
    pub fn known(&self) -> Noted {
        self.holder().catalog.clone()
    }

    /// Notes how new the catalog is. Nobody waits for that to be durable: what is not noted is not found out, and
    /// nothing else.
    pub fn write(&self, known: &Noted) {
        let mut holder = self.holder();
        if holder.pid != 0 {
            holder.catalog = known.clone();
            let _ = self.put(&holder);
        }
    }

    fn put(&self, holder: &Holder) -> std::io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        let fd = self.file.as_fd();
        write_all(&*self.disk, fd, Lent::of(&text), 0)?;
        self.disk.cut(fd, text.len() as u64)
    }

    fn put_durably(&self, holder: &Holder) -> std::io::Result<()> {
        self.put(holder)?;
        self.disk.sync(self.file.as_fd())
    }
}

/// How long who is about to leave a run may take to say so on disk.
const LEAVING: Duration = Duration::from_secs(2);

impl Lock {
    /// Takes the run, or says who has it. `least` is the fencing number the catalog knows.
    pub fn take(disk: &Arc<dyn Disk>, path: &Path, least: u64) -> Result<Lock> {
        let since = Instant::now();
        let mut file = loop {
            let mut file = open(disk, path)?;
            let before = read(&mut file);
            match patiently(&file) {
                // Somebody may have put another file in its place before it was ours.
                Ok(()) if is_at(&file, path) => break file,
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if before.as_ref().is_some_and(is_orphaned) => {
                    if let Some(file) = replace(disk, path)? {
                        break file;
                    }
                }
                // Who is about to leave has said so and waits for the disk, and who has just come has not said it yet.
                Err(Errno::WOULDBLOCK)
                    if before.as_ref().is_some_and(|h| h.pid == 0) && since.elapsed() < LEAVING => {}
                Err(Errno::WOULDBLOCK) => return Err(held(path, before.as_ref())),
                Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {
                    without_flock(path, before.as_ref())?;
                    break file;
                }
                Err(e) => return Err(Error::io(format!("cannot lock {}", path.display()), e)),
            }
        };
        if file.metadata().is_ok_and(|m| m.nlink() > 1) {
            file = parted(disk, path, &mut file)?;
        }
        let before = read(&mut file);
        let fence = before.as_ref().map_or(0, |h| h.fence).max(least) + 1;
        let catalog = before.as_ref().map(|h| h.catalog.clone()).unwrap_or_default();
        let holder = Arc::new(Mutex::new(Holder::ourselves(fence, catalog)));
        let held = Note { disk: disk.clone(), file: Arc::new(file), holder };
        let lock = Lock { held, before, unused: false };
        let written = lock.held.put_durably(&lock.held.holder());
        written.map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
        Ok(lock)
    }

    /// The fencing number of this ownership.
    pub fn fence(&self) -> u64 {
        self.held.holder().fence
    }

    /// For what is noted of the catalog while the lock is held.
    pub fn note(&self) -> Note {
        self.held.clone()
    }

    /// Who had it last, if that is known.
    pub fn before(&self) -> Option<&Holder> {
        self.before.as_ref()
    }

    /// Gives it back as it was found: nothing was done with it.
    pub fn untouched(mut self) {
        self.unused = true;
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let held = &self.held;
        let mut holder = held.holder();
        match (self.unused, self.before.take()) {
            (false, _) => {
                holder.pid = 0;
                let _ = held.put_durably(&holder);
            }
            (true, Some(before)) => {
                let _ = held.put_durably(&before);
                holder.pid = 0;
            }
            (true, None) => {
                let _ = held.disk.cut(held.file.as_fd(), 0);
                holder.pid = 0;
            }
        }
        let _ = flock(&held.file, FlockOperation::Unlock);
    }
}

fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = disk.open(path, &how).map_err(|e| {
        let is_read_only = e.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
        let e = Error::io(format!("cannot open {} for writing", path.display()), e);
        if is_read_only { e.with_remedy(READ_ONLY) } else { e }
    })?;
    close_to_readers(&file, path);
    Ok(file)
}

/// Whoever may read a file may lock it, and so shut the owner out: only those get it who may write in the
/// run's directory, and could put another file in its place.
fn close_to_readers(file: &File, path: &Path) {
    let (Ok(ours), Some(Ok(dir))) = (file.metadata(), path.parent().map(std::fs::metadata)) else { return };
    let writers = dir.mode() & 0o022;
    let mode = 0o600 | writers | writers << 1;
    if ours.mode() & 0o777 != mode {
        // That of another user is left as it is.
        let _ = file.set_permissions(Permissions::from_mode(mode));
    }
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    file.metadata().is_ok_and(|ours| std::fs::metadata(path).is_ok_and(|there| same(&ours, &there)))
}

/// Whether the holder has certainly ended, so that only children of it can keep the lock.
fn is_orphaned(holder: &Holder) -> bool {
    holder.pid != 0
        && holder.is_of_this_boot()
        && holder.pid_space == pid_space()
        && Process::is_gone(holder.pid)
}

/// Puts another file, locked by us, in the place of one that children of a dead holder keep locked;
/// `None` when somebody else was faster, or the last child has just ended.
fn replace(disk: &Arc<dyn Disk>, path: &Path) -> Result<Option<File>> {
    let failed = |e: std::io::Error| Error::io(format!("cannot replace {}", path.display()), e);
    let directory = File::open(path.parent().unwrap_or(path)).map_err(failed)?;
    flock(&directory, FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
    let mut old = open(disk, path)?;
    // Also the time for who has just taken it to write its name.
    let free = patiently(&old).is_ok();
    let Some(before) = read(&mut old).filter(|h| !free && is_orphaned(h)) else { return Ok(None) };
    let ours = Holder::ourselves(before.fence, before.catalog);
    put_in_place(disk, path, Some(&ours)).map(Some).map_err(failed)
}

/// A file of its own, locked by us, in the place of one that a copy made of hard links shares, which is locked.
fn parted(disk: &Arc<dyn Disk>, path: &Path, shared: &mut File) -> Result<File> {
    let before = read(shared);
    put_in_place(disk, path, before.as_ref())
        .map_err(|e| Error::io(format!("cannot part {} from the copy that shares it", path.display()), e))
}

/// Puts another file, locked by us, in the place of one.
fn put_in_place(disk: &Arc<dyn Disk>, path: &Path, says: Option<&Holder>) -> std::io::Result<File> {
    let new = path.with_extension("new");
    disk.remove(&new)?;
    let file = open(disk, &new).map_err(std::io::Error::other)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let text = says.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    write_all(&**disk, file.as_fd(), Lent::of(&text), 0)?;
    disk.rename(&new, path)?;
    Ok(file)
}

fn pid_space() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Who holds the run at this path, if anybody does. Looks without taking.
pub fn holder(path: &Path) -> Option<Holder> {
    let mut file = File::open(path).ok()?;
    let found = read(&mut file)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(found).filter(|h| !is_orphaned(h)),
        _ => None,
    }
}

/// The directories of the runs that a process of this host holds, by the files that it has open: it need not
/// answer. One that was moved meanwhile is named as it is called now.
pub fn held_by(pid: u32) -> Vec<PathBuf> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let locks = open
        .filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .filter(|file| file.file_name().is_some_and(|name| name == LOCK) && holder(file).is_some());
    let mut runs: Vec<PathBuf> = locks.filter_map(|file| Some(file.parent()?.to_owned())).collect();
    runs.sort();
    runs.dedup();
    runs
}

/// What stands in it, whoever that is about.
pub(crate) fn read_holder(path: &Path) -> Option<Holder> {
    read(&mut File::open(path).ok()?)
}

/// Somebody who only looks holds the lock for an instant, so one refusal is not the last word.
fn patiently(file: &File) -> Result<(), Errno> {
    for _ in 0..5 {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn held(path: &Path, by: Option<&Holder>) -> Error {
    let run = path.parent().unwrap_or(path).display();
    let here = by.filter(|h| h.is_here());
    if here.is_some_and(|h| h.pid == std::process::id()) {
        return Error::new(
            Code::Conflict,
            format!("this process has {run} open already; go on with that run, or close it first"),
        );
    }
    if let Some(h) = here.filter(|h| h.is_stopped()) {
        let (pid, who) = (h.pid, if h.is_agent() { "the agent" } else { "a program" });
        return Error::new(
            Code::Conflict,
            format!(
                "{run} is held by {who} (process {pid}), which is stopped; {}, or open the run with mode \"r\" meanwhile",
                go_on_or_end(pid)
            ),
        );
    }
    if let Some(h) = here.filter(|h| h.is_agent()) {
        return Error::new(
            Code::Conflict,
            format!(
                "{run} is held by the agent (process {}), which goes on with it until its ranks have closed it, those that died are settled and late ones have come or are given up: `forebay status` shows who they are; end them or wait for them, or open it with mode \"r\" meanwhile",
                h.pid
            ),
        );
    }
    let who = by.filter(|h| h.pid != 0).map_or_else(
        || format!("a process that does not say which; `fuser {}` may", path.display()),
        |h| format!("process {} on host {}", h.pid, h.host),
    );
    Error::new(Code::Conflict, format!("{run} is held by {who}; close it there, or open it with mode \"r\""))
}

/// A file system without locks: go by what the file says, and never take a run from another host.
fn without_flock(path: &Path, by: Option<&Holder>) -> Result<()> {
    let Some(h) = by.filter(|h| h.pid != 0) else { return Ok(()) };
    let here = h.is_of_this_boot();
    let alive = here && Path::new("/proc").join(h.pid.to_string()).exists();
    let gone = here && !alive || (h.host == host() && h.boot_id != boot_id());
    match gone {
        true => Ok(()),
        false => Err(held(path, by)),
    }
}

/// The name of this host.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The identity of this boot.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::System;

    fn take(path: &Path, least: u64) -> Result<Lock> {
        let disk: Arc<dyn Disk> = Arc::new(System);
        Lock::take(&disk, path, least)
    }

    #[test]
    fn a_second_owner_is_refused_by_pid_and_host() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let first = take(&path, 0).unwrap();
        let e = take(&path, 0).err().unwrap();
        assert_eq!(e.code(), Code::Conflict);
        assert!(e.text().contains("this process has") && e.text().contains("open already"), "{e}");
        let ours = holder(&path).unwrap();
        assert_eq!(ours.fence, first.fence());
        let theirs = Holder { pid: ours.pid + 1, ..ours };
        let e = held(&path, Some(&theirs));
        assert!(e.text().contains(&theirs.pid.to_string()) && e.text().contains(&host()), "{e}");
        drop(first);
        assert!(holder(&path).is_none());
    }

    #[test]
    fn who_may_only_read_the_run_cannot_lock_its_owner_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        let allow = |mode| std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        for (of_dir, of_lock) in [(0o755, 0o600), (0o775, 0o660), (0o777, 0o666), (0o700, 0o600)] {
            allow(of_dir);
            drop(take(&path, 0).unwrap());
            assert_eq!(mode(), of_lock);
        }
        // As earlier versions made it.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(take(&path, 0).unwrap());
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_holder_that_does_not_say_who_it_is_is_not_called_process_0() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        drop(take(&path, 0).unwrap());
        let neighbour = File::open(&path).unwrap();
        flock(&neighbour, FlockOperation::LockShared).unwrap();
        let e = take(&path, 0).err().unwrap();
        assert_eq!(e.code(), Code::Conflict);
        assert!(
            e.text().contains("a process that does not say which") && !e.text().contains("process 0"),
            "{e}"
        );
    }

    #[test]
    fn a_holder_that_is_about_to_leave_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        drop(take(&path, 0).unwrap());
        let leaving = File::open(&path).unwrap();
        flock(&leaving, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let comes = scope.spawn(|| take(&path, 0).map(drop));
            // Longer than for somebody who only looks.
            std::thread::sleep(Duration::from_millis(200));
            flock(&leaving, FlockOperation::Unlock).unwrap();
            comes.join().unwrap().unwrap();
        });
    }

    #[test]
    fn the_fencing_number_only_grows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let a = take(&path, 0).unwrap().fence();
        let b = take(&path, 0).unwrap().fence();
        let c = take(&path, 40).unwrap().fence();
        assert!(a < b && c == 41);
    }
}
