//! Files of calls, as the server keeps them: each in a directory of its own, whose last part the service does not see.
//!
//! ```text
//! Send -> the file itself, seen by a link, or room in the scratch space and pieces -> the service reads it -> removed
//! Expect -> a directory -> the service writes it -> its client fetches it -> removed
//! ```
//!
//! What a client has here goes with its connection for files, when no call uses it any more; what a server that was killed
//! has left is swept by the next one.

mod scratch;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use forebay_host::files::identity_of;
use forebay_host::lock;
use forebay_link::QuickMap;
use forebay_link::pool::Budget;
use forebay_types::file::{FILES, FileIdentity, check_file_name};
use forebay_types::{Code, Error, Result, Way};

use scratch::Scratch;

pub(crate) use talk::converse;

/// The files of all clients of a server.
pub(crate) struct Files {
    /// The server's name, for people.
    server: String,
    scratch: Scratch,
    kept: Mutex<QuickMap<(u64, u64), Arc<KeptFile>>>,
    /// One for each client that has sent files.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// One file. Its directory goes with the last who uses it.
pub(crate) struct KeptFile {
    pub way: Way,
    dir: PathBuf,
    path: PathBuf,
    /// All of it is here: of one that goes; of one that comes, what the service has written.
    whole: AtomicBool,
    written: OnceLock<FileIdentity>,
    /// Bytes of the scratch space that are its own.
    room: AtomicU64,
    budget: Arc<Budget>,
}

impl Files {
    /// For a server of that name: in a directory of that one and within so many bytes, or where it is usual.
    pub fn new(server: &str, scratch: Option<(PathBuf, u64)>) -> Result<Files> {
        let scratch = Scratch::new(scratch)?;
        Ok(Files { server: server.to_owned(), scratch, kept: Mutex::default(), threads: Mutex::default() })
    }

    /// A place for a file of that name and, of one that goes, of that length.
    fn make(&self, way: Way, name: &str, bytes: u64) -> Result<KeptFile> {
        check_file_name(name)?;
        if bytes > 0 {
            self.take_room(name, bytes)?;
        }
        let budget = self.scratch.budget.clone();
        let give_back = |e| {
            budget.give(bytes);
            e
        };
        let dir = self.scratch.dir().map_err(give_back)?;
        let (room, path) = (AtomicU64::new(bytes), dir.join(name));
        Ok(KeptFile { way, dir, path, whole: AtomicBool::new(false), written: OnceLock::new(), room, budget })
    }

    fn take_room(&self, name: &str, bytes: u64) -> Result<()> {
        self.would_fit(name, bytes)?;
        let taken = self.scratch.budget.take(bytes);
        taken.map_err(|used| self.full(&format!("the file {name:?} of {bytes} bytes does not fit"), used))
    }

    /// Whether a file has room when there are no others.
    fn would_fit(&self, name: &str, bytes: u64) -> Result<()> {
        let limit = self.scratch.budget.limit();
        match bytes <= limit {
            true => Ok(()),
            false => Err(Error::new(
                Code::Full,
                format!(
                    "the file {name:?} of {bytes} bytes is larger than all the room that server {:?} has for files of calls, \
                     {limit} bytes in {}; start it with more (forebay serve --scratch DIR:SIZE)",
                    self.server,
                    self.scratch.base().display()
                ),
            )),
        }
    }

    /// What is said when other files have the room, so many bytes of it.
    fn full(&self, what: &str, used: u64) -> Error {
        Error::new(
            Code::Full,
            format!(
                "{what}: server {:?} keeps {used} bytes of {} in {} for files of calls; make fewer such calls at a time, or \
                 start it with more room (forebay serve --scratch DIR:SIZE)",
                self.server,
                self.scratch.budget.limit(),
                self.scratch.base().display()
            ),
        )
    }

    /// Whether a call that writes files may begin, with these files of its own: what others keep leaves room. What it
    /// writes is kept then, for it has been done; so there may be more than the limit, by the results of the calls that
    /// run at a time.
    pub fn may_begin<'f>(&self, own: impl Iterator<Item = &'f KeptFile> + Clone) -> Result<()> {
        let (budget, mine) =
            (&self.scratch.budget, own.clone().map(|file| file.room.load(Ordering::Relaxed)));
        let others = budget.used().saturating_sub(mine.sum());
        match others > 0 && others >= budget.limit() && own.into_iter().any(|file| file.way == Way::Out) {
            true => Err(self
                .full("there is no room for the files that this call writes, so it was not begun", others)),
            false => Ok(()),
        }
    }

    /// Keeps a file under a client's number.
    fn keep(&self, client: u64, number: u64, file: KeptFile) -> Result<Arc<KeptFile>> {
        let mut kept = lock(&self.kept);
        if kept.contains_key(&(client, number)) {
            return Err(Error::new(Code::Conflict, format!("the file {number} is there already")));
        }
        if kept.len() >= FILES {
            return Err(Error::new(
                Code::Full,
                format!(
                    "server {:?} keeps {FILES} files, its limit; make fewer calls at a time",
                    self.server
                ),
            ));
        }
        let file = Arc::new(file);
        kept.insert((client, number), file.clone());
        Ok(file)
    }

    fn find(&self, client: u64, number: u64) -> Result<Arc<KeptFile>> {
        lock(&self.kept).get(&(client, number)).cloned().ok_or_else(|| {
            // The connection over which it came was cut, which the client learns by this.
            Error::new(Code::NotFound, format!("the file {number} is not kept here any more; call again"))
        })
    }

    /// A file for a call.
    pub fn of_call(&self, client: u64, number: u64, way: Way) -> Result<Arc<KeptFile>> {
        let file = self.find(client, number)?;
        match file.way == way && (way == Way::Out || file.whole.load(Ordering::Acquire)) {
            true => Ok(file),
            false => Err(Error::new(
                Code::Corrupt,
                format!("the file {number} has not come whole, or goes the other way"),
            )),
        }
    }

    /// It is needed no more.
    pub fn forget(&self, client: u64, number: u64) {
        let file = lock(&self.kept).remove(&(client, number));
        // Outside of the lock, for it may be large.
        drop(file);
    }

    /// What a service has written, which takes room from now on.
    pub fn is_written(&self, file: &KeptFile) -> Result<()> {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        let meta = fs::metadata(&file.path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let text = format!("the service has not written the file {name:?}; have it write to the path that it is given");
                Error::new(Code::RemoteError, text)
            }
            _ => Error::io(format!("cannot look at the file {name:?} of the service"), e),
        })?;
        if !meta.is_file() {
            let text =
                format!("the service made {name:?} something else than a file; have it write one there");
            return Err(Error::new(Code::RemoteError, text));
        }
        self.would_fit(&name, meta.len())?;
        self.scratch.budget.take_anyway(meta.len());
        file.room.fetch_add(meta.len(), Ordering::Relaxed);
        let _ = file.written.set(identity_of(&meta));
        file.whole.store(true, Ordering::Release);
        Ok(())
    }

    /// All clients are gone: so is all that was kept.
    pub fn close(&self) {
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            let _ = thread.join();
        }
        lock(&self.kept).clear();
        self.scratch.close();
    }
}

impl KeptFile {
    /// Where a service finds it, or writes it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
        self.budget.give(self.room.load(Ordering::Relaxed));
    }
}
