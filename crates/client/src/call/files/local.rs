//! A file of the caller's: what is looked at before a call is sent, and its way to a server.

use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use forebay_host::files::identity_of;
use forebay_link::call::{FileFrame, FileLine, Still};
use forebay_link::standing;
use forebay_types::file::{FileIdentity, FileRequest, KeptFile, PIECE_BYTES, SeenFile, check_file_name};
use forebay_types::{Code, Error, Param, Result, Way};

use super::destination::Destination;
use crate::call::Sent;

/// Symbolic links that are followed one after the other, as the system does.
const LINKS: u32 = 40;

/// A file that is given for a parameter.
pub(crate) struct LocalFile {
    pub way: Way,
    /// As the caller wrote it.
    pub given: String,
    name: String,
    travels: Travels,
}

enum Travels {
    /// Of one that goes: its path from the root on, and which file that is.
    Goes(PathBuf, FileIdentity),
    /// Of one that comes.
    Comes(Destination),
}

impl LocalFile {
    /// Looks at what a caller gives: an error says what cannot be. `others` are files of the same call, `whose` says which
    /// call that is.
    pub fn look(param: &Param, given: &str, others: &[LocalFile], whose: &dyn Display) -> Result<LocalFile> {
        let path = std::path::absolute(given)
            .map_err(|e| Error::bad(format!("{given:?} is no path ({e}); give the path of a file")))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("..").to_owned();
        let way = param.way;
        let travels = match way {
            Way::In => Travels::Goes(path.clone(), open(&path)?.1),
            _ => {
                let to = wanted(path)?;
                if others.iter().any(|other| other.wanted() == Some(&to)) {
                    return Err(Error::bad(format!(
                        "{} is given for two files that come back; give each a path of its own",
                        to.display()
                    )));
                }
                Travels::Comes(Destination::take(&to, format!("parameter {} of {whose}", param.name))?)
            }
        };
        check_file_name(&name)?;
        Ok(LocalFile { way, given: given.to_owned(), name, travels })
    }

    /// Where it is to be, if it comes.
    pub fn wanted(&self) -> Option<&Path> {
        match &self.travels {
            Travels::Goes(..) => None,
            Travels::Comes(destination) => Some(destination.path()),
        }
    }

    /// Brings it to a server, or has it expect what a service writes. The outer error is that of the connection.
    pub fn go(&self, line: &mut FileLine, number: u64, still: Still) -> Result<Result<(), Sent>> {
        let name = self.name.clone();
        let Travels::Goes(path, identity) = &self.travels else {
            let id = line.ask(&FileRequest::Expect { number, name }, still)?;
            return Ok(line.hear(id, still)?.map_err(Sent::Not));
        };
        let outgoing = match Outgoing::open(path, *identity) {
            Ok(outgoing) => outgoing,
            Err(e) => return Ok(Err(Sent::Not(e))),
        };
        let seen = line.is_near().then(|| path.to_str()).flatten();
        let seen = seen.map(|path| SeenFile { path: path.to_owned(), identity: *identity });
        let id = line.ask(&FileRequest::Send { number, name, bytes: identity.bytes, seen }, still)?;
        match line.hear(id, still)? {
            Ok(KeptFile::Wanted) => Ok(outgoing.send(line, (number, id), still)?.map_err(Sent::Not)),
            Ok(KeptFile::Seen | KeptFile::Whole) => Ok(Ok(())),
            Ok(KeptFile::NoRoom(why)) => Ok(Err(Sent::NoRoom(Error::new(Code::Full, why)))),
            Err(e) => Ok(Err(Sent::Not(e))),
        }
    }
}

/// A file that goes, open.
struct Outgoing<'f> {
    path: &'f Path,
    identity: FileIdentity,
    file: File,
}

impl Outgoing<'_> {
    fn open(path: &Path, identity: FileIdentity) -> Result<Outgoing<'_>> {
        let (file, found) = open(path)?;
        let outgoing = Outgoing { path, identity, file };
        if found == identity { Ok(outgoing) } else { Err(outgoing.changed()) }
    }

    fn send(mut self, line: &mut FileLine, (number, id): (u64, u64), still: Still) -> Result<Result<()>> {
        let _wait = standing::Wait::begin();
        standing::leave();
        let bytes = self.identity.bytes;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < bytes {
            let piece = &mut buffer[..(bytes - at).min(PIECE_BYTES as u64) as usize];
            if let Err(e) = self.file.read_exact(piece) {
                return Ok(Err(match e.kind() {
                    ErrorKind::UnexpectedEof => self.changed(),
                    _ => Error::io(format!("cannot read {}", self.path.display()), e),
                }));
            }
            line.piece(number, at, piece, still)?;
            at += piece.len() as u64;
            still()?;
            // It may have no more room.
            while let Some(frame) = line.try_next()? {
                match frame {
                    FileFrame::Answer(of, Err(e)) if of == id => return Ok(Err(e)),
                    FileFrame::Answer(of, Ok(_)) if of == id && at == bytes => return Ok(self.is_unchanged()),
                    _ => {}
                }
            }
        }
        Ok(line.hear::<KeptFile>(id, still)?.and_then(|_| self.is_unchanged()))
    }

    fn is_unchanged(&self) -> Result<()> {
        let now = self.file.metadata().map(|meta| identity_of(&meta)).ok();
        if now == Some(self.identity) { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> Error {
        Error::new(
            Code::Conflict,
            format!(
                "{} has been written to since the call was made, so nobody can say what it would be about; leave its files \
                 alone until it is over, and call again",
                self.path.display()
            ),
        )
    }
}

/// Opens a file that goes.
fn open(path: &Path) -> Result<(File, FileIdentity)> {
    let shown = path.display();
    let cannot = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => Error::new(Code::NotFound, format!("there is no {shown}; check the path")),
        ErrorKind::PermissionDenied => Error::new(
            Code::Refused,
            format!("{shown} may not be read by this user; change its mode, or copy it"),
        ),
        _ => forebay_host::rlimits::cannot(format!("cannot open {shown}"), e),
    };
    // Before it is opened, for a pipe would wait for its other end.
    is_regular(path, &fs::metadata(path).map_err(cannot)?)?;
    let file = File::open(path).map_err(cannot)?;
    let identity = identity_of(&file.metadata().map_err(cannot)?);
    Ok((file, identity))
}

fn is_regular(path: &Path, meta: &Metadata) -> Result<()> {
    let what = match (meta.is_dir(), meta.is_file()) {
        (_, true) => return Ok(()),
        (true, _) => "a directory",
        _ => "no regular file",
    };
    Err(Error::bad(format!("{} is {what}; give the path of a file", path.display())))
}

/// Where symbolic links lead in the end.
fn led_to(mut path: PathBuf) -> Result<PathBuf> {
    for _ in 0..LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("/")).join(next);
    }
    Err(Error::bad(format!(
        "{} is a symbolic link, and more than {LINKS} follow one another from there; give the path of the file",
        path.display()
    )))
}

/// Where a file that comes is to be, without symbolic links: looks whether it can be there.
fn wanted(path: PathBuf) -> Result<PathBuf> {
    use rustix::fs::{Access, access};
    // What a symbolic link leads to is written, also if it is not there yet, and the link stays.
    let path = led_to(path)?;
    let path = match fs::metadata(&path) {
        Ok(meta) => {
            is_regular(&path, &meta)?;
            if access(&path, Access::WRITE_OK).is_err() {
                return Err(Error::new(
                    Code::Refused,
                    format!(
                        "{} may not be written by this user; change its mode, or give another path",
                        path.display()
                    ),
                ));
            }
            fs::canonicalize(&path).map_err(|e| Error::io(format!("cannot look at {}", path.display()), e))?
        }
        Err(_) => match path.parent().map(fs::canonicalize) {
            Some(Ok(dir)) => dir.join(path.file_name().unwrap_or_default()),
            _ => path,
        },
    };
    let dir = path.parent().unwrap_or(Path::new("/"));
    let shown = dir.display();
    match fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(Error::bad(format!("{shown} is no directory; give the path of a file in one"))),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(Error::new(Code::NotFound, format!("there is no directory {shown}; make it first")));
        }
        Err(e) => return Err(Error::io(format!("cannot look at the directory {shown}"), e)),
    }
    if access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Err(Error::new(
            Code::Refused,
            format!(
                "this user may not write in the directory {shown}; give a path elsewhere, or change its mode"
            ),
        ));
    }
    Ok(path)
}
