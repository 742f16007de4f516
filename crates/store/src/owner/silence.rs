//! A disk that does not answer: neither an error nor an end of a call, as a file system that is frozen, or a
//! server of files that is gone. Intake and drain wait in such a call, so another thread says so.

use super::sink::Sink;
use crate::disk::{Disk, Foreign};
use forebay_arena::Lent;
use forebay_types::watch::level::WARNING;
use forebay_types::{Error, Result};
use rustix::process::Pid;
use rustix::thread::gettid;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at what is under way.
const LOOK: Duration = Duration::from_secs(1);

enum At {
    Path(PathBuf),
    File(RawFd),
}

/// A call of the disk that is under way.
struct Call {
    what: &'static str,
    at: At,
    since: Instant,
    told: bool,
}

impl Call {
    fn text(&self) -> String {
        let file = match &self.at {
            At::Path(path) => path.clone(),
            At::File(fd) => std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default(),
        };
        let (seconds, file) = (self.since.elapsed().as_secs(), file.display());
        format!(
            "the disk has not answered for {seconds} s ({} {file}); what is taken waits in memory",
            self.what
        )
    }
}

/// The disk, with a note of what each thread asks of it just now.
pub(super) struct Watched {
    disk: Arc<dyn Disk>,
    /// By the number of the thread; one may lie within another.
    calls: Mutex<HashMap<Pid, Vec<Call>>>,
}

impl Watched {
    pub fn new(disk: Arc<dyn Disk>) -> Watched {
        Watched { disk, calls: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, Vec<Call>>> {
        self.calls.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn begin(&self, what: &'static str, at: At) {
        let call = Call { what, at, since: Instant::now(), told: false };
        self.lock().entry(gettid()).or_default().push(call);
    }

    fn end(&self) {
        let mut calls = self.lock();
        if let Some(of_thread) = calls.get_mut(&gettid()) {
            of_thread.pop();
        }
    }

    fn during<T>(&self, what: &'static str, at: At, call: impl FnOnce(&dyn Disk) -> T) -> T {
        self.begin(what, at);
        let done = call(&*self.disk);
        self.end();
        done
    }

    /// Work with a file that SQLite does.
    pub fn using<T>(&self, file: &Path, work: impl FnOnce() -> T) -> T {
        self.during("use", At::Path(file.to_owned()), |_| work())
    }

    /// Of a call that has taken that long by now.
    pub fn waits_for(&self, long: Duration) -> Option<String> {
        let calls = self.lock();
        let mut last = calls.iter().map(|(thread, of_thread)| (*thread, of_thread.last()));
        last.find(|(thread, call)| waits(*thread, *call, long)).and_then(|(_, call)| call.map(Call::text))
    }

    /// Of a call that takes that long and of which nothing was said yet; whether any is left of which was.
    fn unsaid(&self, long: Duration) -> (Option<String>, bool) {
        let mut calls = self.lock();
        let text = calls
            .iter_mut()
            .filter(|(thread, of_thread)| waits(**thread, of_thread.last(), long))
            .filter_map(|(_, of_thread)| of_thread.last_mut())
            .find(|call| !call.told)
            .map(|call| {
                call.told = true;
                call.text()
            });
        (text, calls.values().flatten().any(|call| call.told))
    }
}

impl Disk for Watched {
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        self.during("open", At::Path(path.to_owned()), |disk| disk.open(path, how))
    }
    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize> {
        self.during("write", At::File(fd.as_raw_fd()), |disk| disk.write(fd, bytes, at))
    }
    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()> {
        self.during("reserve room for", At::File(fd.as_raw_fd()), |disk| disk.reserve(fd, at, len))
    }
    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()> {
        self.during("cut", At::File(fd.as_raw_fd()), |disk| disk.cut(fd, len))
    }
    fn sync(&self, fd: BorrowedFd) -> io::Result<()> {
        self.during("make durable", At::File(fd.as_raw_fd()), |disk| disk.sync(fd))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.during("rename", At::Path(from.to_owned()), |disk| disk.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.during("remove", At::Path(path.to_owned()), |disk| disk.remove(path))
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.during("make", At::Path(path.to_owned()), |disk| disk.make_dir(path))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.during("make durable", At::Path(dir.to_owned()), |disk| disk.sync_dir(dir))
    }
    fn free(&self, dir: &Path) -> io::Result<u64> {
        self.during("look for room in", At::Path(dir.to_owned()), |disk| disk.free(dir))
    }
    fn patience(&self) -> Duration {
        self.disk.patience()
    }
    fn before(&self, what: Foreign, path: &Path) -> io::Result<()> {
        self.disk.before(what, path)
    }
    fn after(&self, what: Foreign, path: &Path) {
        self.disk.after(what, path);
    }
    fn under_way(&self, path: &Path) {
        self.begin("use", At::Path(path.to_owned()));
    }
    fn over(&self) {
        self.end();
    }
}

/// Whether a thread waits in a call that has taken that long: one that works on something large does not.
fn waits(thread: Pid, call: Option<&Call>, long: Duration) -> bool {
    let works = || {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero()));
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R')))
    };
    call.is_some_and(|call| call.since.elapsed() >= long) && !works()
}

/// Whoever is to hear of it: the opening, then the sessions.
type Says = Box<dyn Fn(&str) + Send>;
type Hears = Arc<Mutex<Says>>;

/// The thread that looks.
pub(super) struct Watch {
    hears: Hears,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Says what takes longer than `patience`, and when it has come to its end.
    pub fn start(
        disk: Arc<Watched>,
        patience: Duration,
        says: impl Fn(&str) + Send + 'static,
    ) -> Result<Watch> {
        let (stop, stopped) = channel();
        let hears: Hears = Arc::new(Mutex::new(Box::new(says)));
        let there = hears.clone();
        let thread = std::thread::Builder::new()
            .name("fb-watch".into())
            .spawn(move || look(&disk, patience, &there, &stopped))
            .map_err(|e| Error::io("a thread of the store cannot be started", e))?;
        Ok(Watch { hears, stop: Some(stop), thread: Some(thread) })
    }

    /// From now on those who listen to the run hear it.
    pub fn tell(&self, sink: Arc<dyn Sink>) {
        *lock(&self.hears) = Box::new(move |text| {
            sink.message(0, WARNING, -1, text);
            sink.trouble(text);
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(hears: &Hears) -> MutexGuard<'_, Says> {
    hears.lock().unwrap_or_else(|e| e.into_inner())
}

fn look(disk: &Watched, patience: Duration, hears: &Hears, stopped: &Receiver<()>) {
    let mut waits = false;
    while stopped.recv_timeout(patience.min(LOOK)) == Err(RecvTimeoutError::Timeout) {
        let (text, still) = disk.unsaid(patience);
        if let Some(text) = text.filter(|_| !waits) {
            lock(hears)(&text);
        }
        if waits && !still {
            lock(hears)("the disk answers again");
        }
        waits = still;
    }
}
