//! A file of the caller's: what is looked at before a call is sent, and its way to a server and back.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use forebay_host::files::identity_of;
use forebay_link::call::{FileFrame, FileLine, Still};
use forebay_link::standing;
use forebay_types::file::{
    FileIdentity, FileRequest, KeptFile, PIECE_BYTES, SeenFile, WrittenFile, check_file_name,
};
use forebay_types::{Code, Error, Param, Result, Way};

use super::part::Part;

/// Pieces of a file that are asked for at a time.
const WINDOW: usize = 4;

/// A file that is given for a parameter.
#[derive(Clone)]
pub(crate) struct LocalFile {
    pub way: Way,
    /// As the caller wrote it.
    pub given: String,
    /// From the root on; of one that comes, without symbolic links at its end.
    path: PathBuf,
    name: String,
    /// Of one that goes.
    identity: Option<FileIdentity>,
}

impl LocalFile {
    /// Looks at what a caller gives: an error says what cannot be.
    pub fn look(param: &Param, given: &str) -> Result<LocalFile> {
        let path = std::path::absolute(given)
            .map_err(|e| Error::bad(format!("{given:?} is no path ({e}); give the path of a file")))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("..").to_owned();
        let way = param.way;
        match way {
            Way::In => {
                let (_, identity) = open(&path)?;
                check_file_name(&name)?;
                Ok(LocalFile { way, given: given.to_owned(), path, name, identity: Some(identity) })
            }
            _ => {
                let path = wanted(path)?;
                check_file_name(&name)?;
                Ok(LocalFile { way, given: given.to_owned(), path, name, identity: None })
            }
        }
    }

    /// Two results do not go to one place.
    pub fn differs_from(&self, others: &[LocalFile]) -> Result<()> {
        match others.iter().find(|o| o.way == Way::Out && self.way == Way::Out && o.path == self.path) {
            None => Ok(()),
            Some(_) => Err(Error::bad(format!(
                "{} is given for two files that come back; give each a path of its own",
                self.path.display()
            ))),
        }
    }

    /// Brings it to a server, or has it expect what a service writes. The outer error is that of the connection.
    pub fn go(&self, line: &mut FileLine, number: u64, still: Still) -> Result<Result<()>> {
        let Some(identity) = self.identity else {
            let id = line.ask(&FileRequest::Expect { number, name: self.name.clone() }, still)?;
            return line.hear(id, still);
        };
        let (mut file, found) = match open(&self.path) {
            Ok(opened) => opened,
            Err(e) => return Ok(Err(e)),
        };
        if found != identity {
            return Ok(Err(self.changed()));
        }
        let path = line.is_near().then(|| self.path.to_str()).flatten();
        let seen = path.map(|path| SeenFile { path: path.to_owned(), identity });
        let request = FileRequest::Send { number, name: self.name.clone(), bytes: identity.bytes, seen };
        let id = line.ask(&request, still)?;
        match line.hear(id, still)? {
            Ok(KeptFile::Wanted) => self.send(&mut file, line, (number, id), still),
            Ok(KeptFile::Seen | KeptFile::Whole) => Ok(Ok(())),
            Err(e) => Ok(Err(e)),
        }
    }

    fn send(
        &self,
        file: &mut File,
        line: &mut FileLine,
        (number, id): (u64, u64),
        still: Still,
    ) -> Result<Result<()>> {
        let _wait = standing::Wait::begin();
        standing::leave();
        let bytes = self.identity.map_or(0, |identity| identity.bytes);
        let mut buffer = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < bytes {
            let piece = &mut buffer[..(bytes - at).min(PIECE_BYTES as u64) as usize];
            if let Err(e) = file.read_exact(piece) {
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
                    FileFrame::Answer(of, Ok(_)) if of == id && at == bytes => {
                        return Ok(self.is_unchanged(file));
                    }
                    _ => {}
                }
            }
        }
        Ok(line.hear::<KeptFile>(id, still)?.and_then(|_| self.is_unchanged(file)))
    }

    fn is_unchanged(&self, file: &File) -> Result<()> {
        let now = file.metadata().map(|meta| identity_of(&meta)).ok();
        if now == self.identity { Ok(()) } else { Err(self.changed()) }
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

    /// Brings what a service wrote beside where it is wanted. The outer error is that of the connection.
    pub fn come(&self, line: &mut FileLine, number: u64, still: Still) -> Result<Result<Part>> {
        let id = line.ask(&FileRequest::Fetch { number }, still)?;
        let written: WrittenFile = match line.hear(id, still)? {
            Ok(written) => written,
            Err(e) => return Ok(Err(e)),
        };
        let mut part = Part::beside(&self.path, number);
        if let Some(seen) = &written.seen {
            match part.take_over(seen, still) {
                Ok(true) => return Ok(Ok(part)),
                Ok(false) => {}
                Err(e) => return Ok(Err(e)),
            }
        }
        let mut file = match part.create() {
            Ok(file) => file,
            Err(e) => return Ok(Err(e)),
        };
        if let Err(e) = receive(&mut file, line, (number, written.bytes), &part, still)? {
            return Ok(Err(e));
        }
        Ok(part.is_whole(&file).map(|()| part))
    }
}

/// Asks for piece after piece, a few at a time.
fn receive(
    file: &mut File,
    line: &mut FileLine,
    (number, bytes): (u64, u64),
    part: &Part,
    still: Still,
) -> Result<Result<()>> {
    let _wait = standing::Wait::begin();
    standing::leave();
    let (mut next, mut come) = (0, 0);
    let mut asked: VecDeque<(u64, u64)> = VecDeque::new();
    while come < bytes {
        while next < bytes && asked.len() < WINDOW {
            asked.push_back((line.ask(&FileRequest::Read { number, at: next }, still)?, next));
            next += PIECE_BYTES as u64;
        }
        match line.next(still)? {
            FileFrame::Piece(of, at, piece) if asked.front() == Some(&(of, at)) => {
                if piece.len() as u64 != (bytes - at).min(PIECE_BYTES as u64) {
                    return Ok(Err(Error::new(
                        Code::Corrupt,
                        format!("a piece of a file at {at} has {} bytes; the file has {bytes}", piece.len()),
                    )));
                }
                if let Err(e) = file.write_all(&piece) {
                    return Ok(Err(part.cannot_write(e)));
                }
                asked.pop_front();
                come += piece.len() as u64;
            }
            FileFrame::Answer(of, Err(e)) if asked.iter().any(|(id, _)| *id == of) => return Ok(Err(e)),
            // Of what was given up before.
            _ => {}
        }
        still()?;
    }
    Ok(Ok(()))
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

/// Where a file that comes is to be: looks whether it can be there.
fn wanted(path: PathBuf) -> Result<PathBuf> {
    use rustix::fs::{Access, access};
    // What a symbolic link leads to is written, and the link stays.
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
        Err(_) => path,
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
