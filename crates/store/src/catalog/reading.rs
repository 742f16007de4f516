//! A catalog that is open for reading for a long time, while its run goes on in other hands. The run may be begun anew,
//! repaired, put back from a copy: another file has the catalog's name then, and SQLite would read the old one, which
//! has none, for ever. So before each question it is looked whether the open files lost a name, which costs two small
//! system calls, and now and then whether they are those at the path: of a directory that was moved the files keep
//! their names.

use super::presence::{OpenLocks, Presence, log_taken, named};
use super::{TRIES, being_made, fact, open_to_read};
use crate::layout::with_end;
use forebay_types::{Code, Error, Result};
use rusqlite::Connection;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two tries to open one that is just being replaced.
const PAUSE: Duration = Duration::from_millis(1);
/// After this time the path is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The catalog of one run, open for reading.
pub struct Opened {
    path: PathBuf,
    run_id: String,
    /// None while the one that lies there now cannot be opened.
    file: Option<OpenFile>,
}

struct OpenFile {
    conn: Connection,
    presence: Presence,
    /// What tells whether a file was written that is read as one that nobody writes: SQLite does not look.
    stamp: Option<Stamp>,
    /// The file and its log, by descriptors that only name them.
    named: [Option<OwnedFd>; 2],
    /// When the path was looked at.
    looked: Instant,
    /// Dropped behind the connection.
    kept: OpenLocks,
}

/// Length, and seconds and nanoseconds of the last change.
#[derive(PartialEq)]
struct Stamp(u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        path.metadata().ok().map(|m| Stamp(m.size(), m.mtime(), m.mtime_nsec()))
    }
}

/// What has become of the file that is open.
#[derive(Clone, Copy, PartialEq)]
enum FileState {
    Same,
    /// Nothing has the name.
    Gone,
    Another,
    /// The file is the same, and has another log.
    OtherLog,
}

impl OpenFile {
    /// One that is replaced while it is opened is opened again: what is noted of it is to be of the file that is open.
    /// So is one whose log is another one: while a run is begun anew, the log of the old one is about to go.
    fn open(path: &Path) -> Result<OpenFile> {
        let mut why = None;
        for _ in 0..TRIES {
            match OpenFile::open_once(path) {
                Ok((file, before)) if before == file.presence.file() => return Ok(file),
                Ok(_) => why = None,
                Err(e) if e.code() == Code::Conflict => why = Some(e),
                Err(e) => return Err(e),
            }
            std::thread::sleep(PAUSE);
        }
        Err(why.unwrap_or_else(|| being_made(path)))
    }

    /// And which file had the name before it was opened.
    fn open_once(path: &Path) -> Result<(OpenFile, Option<(u64, u64)>)> {
        OpenLocks::check(path)?;
        let (before, stamp) = (Presence::of(path).file(), Stamp::of(path));
        let (conn, is_fixed) = open_to_read(path)?;
        let kept = OpenLocks::of(path);
        let named = [named(path), named(&with_end(path, "-wal"))];
        let (presence, stamp) = (Presence::of(path), stamp.filter(|_| is_fixed));
        Ok((OpenFile { conn, presence, stamp, named, looked: Instant::now(), kept }, before))
    }

    /// Whether it is the same for all that can be told without the path.
    fn is_untouched(&self) -> bool {
        let has_name = |fd: &OwnedFd| rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_nlink > 0);
        self.stamp.is_none() && self.looked.elapsed() < LOOK && self.named.iter().flatten().all(has_name)
    }

    fn look(&self, path: &Path) -> FileState {
        let (now, known) = (Presence::of(path), self.presence);
        match (now.file(), known.file()) {
            (None, _) => FileState::Gone,
            (now, known) if now != known => FileState::Another,
            _ if self.stamp.is_some() && (now != known || Stamp::of(path) != self.stamp) => {
                FileState::Another
            }
            // A new catalog was just given its log.
            _ if now != known && known.is_alone() => FileState::Another,
            _ if now != known => FileState::OtherLog,
            _ => FileState::Same,
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.kept.give_back();
    }
}

impl Opened {
    /// Opens it; the format is checked.
    pub fn open(path: &Path) -> Result<Opened> {
        let file = OpenFile::open(path)?;
        let run_id = fact(&file.conn, "run_id")?;
        Ok(Opened { path: path.to_owned(), run_id, file: Some(file) })
    }

    /// The connection, when there is one.
    pub fn conn(&self) -> Option<&Connection> {
        self.file.as_ref().map(|file| &file.conn)
    }

    /// Goes on with the file that has the name now, when it is of the same run. Not within a transaction.
    pub fn follow(&mut self) -> Result<()> {
        match self.file.as_ref().is_some_and(OpenFile::is_untouched) {
            true => Ok(()),
            false => self.follow_path(),
        }
    }

    /// Looks which file has the name now, and goes on with it when it is of the same run: for callers that did not
    /// find what the catalog says. Not within a transaction.
    pub fn follow_path(&mut self) -> Result<()> {
        let seen = self.file.as_ref().map_or(FileState::Another, |file| file.look(&self.path));
        match seen {
            FileState::Same => {
                if let Some(file) = &mut self.file {
                    file.looked = Instant::now();
                }
                return Ok(());
            }
            FileState::Gone => return Err(self.gone()),
            FileState::Another => {}
            // Others in this process may have it open: SQLite would read the new log by the index that they have.
            FileState::OtherLog => return Err(log_taken(&self.path)),
        }
        self.file = None;
        let file = OpenFile::open(&self.path)?;
        match fact(&file.conn, "run_id")? == self.run_id {
            true => self.file = Some(file),
            false => return Err(self.anew()),
        }
        Ok(())
    }

    fn dir(&self) -> std::path::Display<'_> {
        self.path.parent().unwrap_or(&self.path).display()
    }

    fn gone(&self) -> Error {
        let dir = self.dir();
        Error::new(
            Code::NotFound,
            format!(
                "the run {dir} is not there any more: it was moved or deleted since it was opened here, or is just being made anew; open it again where it is"
            ),
        )
    }

    fn anew(&self) -> Error {
        let dir = self.dir();
        Error::new(
            Code::Conflict,
            format!(
                "{dir} holds another run than when it was opened here: it was begun anew, as with mode \"w\"; open it again"
            ),
        )
    }
}
