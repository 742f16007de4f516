//! A file on its way back. Whoever waits for it may give up for a while: it goes on where it was.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;

use forebay_link::call::{FileFrame, FileLine, Still};
use forebay_link::standing;
use forebay_types::file::{FileRequest, PIECE_BYTES, WrittenFile};
use forebay_types::{Code, Error, Result};

use super::part::{Part, TakenOver};

/// Pieces of a file that are asked for at a time.
const WINDOW: usize = 4;
/// What is copied between two looks whether to go on.
const STRIDE: u64 = 8 << 20;

pub(super) struct Coming {
    part: Part,
    bytes: u64,
    /// So many have come.
    at: u64,
    source: ComesFrom,
}

enum ComesFrom {
    /// It was moved here.
    Moved,
    /// Seen from here: it is copied.
    Seen(File),
    Line(Asked),
}

/// Pieces that are asked for: the ids of the requests, and where each begins.
#[derive(Default)]
struct Asked {
    pieces: VecDeque<(u64, u64)>,
    /// Where the next one begins.
    next: u64,
    /// The id of the next request. When it is another one, somebody else had the connection and passed these over.
    then: u64,
}

/// Brings what a service wrote beside where it is wanted. When the outer error is that of `still`, the rest may come later.
/// Any other outer error is that of the connection.
pub(super) fn come(
    coming: &mut Option<Coming>,
    wanted: &Path,
    line: &mut FileLine,
    number: u64,
    still: Still,
) -> Result<Result<Part>> {
    let begun = match coming.take() {
        Some(begun) => begun,
        None => match begin(wanted, line, number, still)? {
            Ok(begun) => begun,
            Err(e) => return Ok(Err(e)),
        },
    };
    let done = coming.insert(begun).get_on(line, number, still)?;
    let whole = coming.take().ok_or_else(|| Error::internal("a file that came is gone"))?.part;
    Ok(done.and_then(|()| whole.finish()))
}

fn begin(wanted: &Path, line: &mut FileLine, number: u64, still: Still) -> Result<Result<Coming>> {
    let id = line.ask(&FileRequest::Fetch { number }, still)?;
    let answer = line.hear::<WrittenFile>(id, still)?;
    Ok(answer.and_then(|written| {
        let mut part = Part::beside(wanted)?;
        let taken = written.seen.as_ref().map(|seen| part.take_over(seen)).transpose()?;
        let source = match taken {
            Some(TakenOver::Whole) => ComesFrom::Moved,
            Some(TakenOver::Seen(from)) => ComesFrom::Seen(from),
            Some(TakenOver::Nothing) | None => ComesFrom::Line(Asked::default()),
        };
        Ok(Coming { part, bytes: written.bytes, at: 0, source })
    }))
}

impl Coming {
    fn get_on(&mut self, line: &mut FileLine, number: u64, still: Still) -> Result<Result<()>> {
        let _wait = standing::Wait::begin();
        standing::leave();
        let Coming { part, bytes, at, source } = self;
        match source {
            ComesFrom::Moved => Ok(Ok(())),
            ComesFrom::Line(asked) => {
                // What is asked for and does not come any more is asked for again.
                if asked.then != line.next_id() {
                    *asked = Asked { next: *at, ..Asked::default() };
                }
                let done = receive(part, (at, *bytes), asked, line, number, still);
                asked.then = line.next_id();
                done
            }
            ComesFrom::Seen(from) => {
                while at < bytes {
                    match part.copy(from, STRIDE) {
                        Ok(0) => {
                            let text = "what the service has written was cut while it was copied";
                            return Ok(Err(Error::new(Code::Conflict, text)));
                        }
                        Ok(copied) => *at += copied,
                        Err(e) => return Ok(Err(e)),
                    }
                    still()?;
                }
                Ok(Ok(()))
            }
        }
    }
}

/// Asks for piece after piece, a few at a time.
fn receive(
    part: &mut Part,
    (come, bytes): (&mut u64, u64),
    asked: &mut Asked,
    line: &mut FileLine,
    number: u64,
    still: Still,
) -> Result<Result<()>> {
    while *come < bytes {
        while asked.next < bytes && asked.pieces.len() < WINDOW {
            let id = line.ask(&FileRequest::Read { number, at: asked.next }, still)?;
            asked.pieces.push_back((id, asked.next));
            asked.next += PIECE_BYTES as u64;
        }
        match line.next(still)? {
            FileFrame::Piece(of, at, piece) if asked.pieces.front() == Some(&(of, at)) => {
                if piece.len() as u64 != (bytes - at).min(PIECE_BYTES as u64) {
                    return Ok(Err(Error::new(
                        Code::Corrupt,
                        format!("a piece of a file at {at} has {} bytes; the file has {bytes}", piece.len()),
                    )));
                }
                if let Err(e) = part.write(&piece) {
                    return Ok(Err(e));
                }
                asked.pieces.pop_front();
                *come += piece.len() as u64;
            }
            FileFrame::Answer(of, Err(e)) if asked.pieces.iter().any(|(id, _)| *id == of) => {
                return Ok(Err(e));
            }
            // Of what was given up before.
            _ => {}
        }
        still()?;
    }
    Ok(Ok(()))
}
