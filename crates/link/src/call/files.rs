//! The connection over which the files of calls go, beside the link of calls: what is said over it stands in
//! [`forebay_types::file`]. It is a stream of its own, so a file that travels holds up no call; and as whoever receives
//! writes before he reads on, a slow disk holds the sender back.

use super::dial::{PATIENCE, agree, by_either, greet, greet_there};
use super::{NotLetIn, Target};
use crate::frame::{Header, kind};
use crate::stream::{NoPlace, Received, Stream};
use crate::wire::{Failure, Wire};
use forebay_host::Process;
use forebay_host::wait::{self, PollFlags};
use forebay_types::call::ServerRequest;
use forebay_types::file::{self, FileRequest};
use forebay_types::{Code, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Who waits looks so often whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// When nothing has moved for so long, the other side is given up.
const STALLED: Duration = Duration::from_secs(60);

/// One end of it.
pub struct FileLine {
    stream: Stream,
    is_near: bool,
    next: u64,
}

/// What has come.
#[derive(Debug)]
pub enum FileFrame {
    /// A request of that id.
    Ask(u64, FileRequest),
    /// The answer to one.
    Answer(u64, Result<serde_json::Value>),
    /// A piece: the number of its file, or the id of the request that it answers; where it begins; its bytes.
    Piece(u64, u64, Vec<u8>),
}

/// Asked now and then whether to go on; its error ends the waiting.
pub type Still<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Connects to a server for files, as a call would.
pub fn dial_files(to: &Target) -> Result<FileLine, NotLetIn> {
    by_either(to, by_socket, by_network)
}

fn by_socket(to: &Target) -> Result<FileLine, NotLetIn> {
    let mut wire = greet(to, to.server.socket.as_ref())?;
    let request = ServerRequest::Files { client: to.client };
    let still = |process: Option<Process>| (to.still)(process);
    let (answer, _) = wire.ask_while(&request, &[], still).map_err(NotLetIn::answered)?;
    agree(to.server, answer)?;
    Ok(FileLine::over(wire))
}

fn by_network(
    to: &Target,
    (address, key): &(crate::net::Address, crate::net::Key),
) -> Result<FileLine, NotLetIn> {
    let mut wire = greet_there(address, &key.clone().into())?;
    wire.bear(to.silence)?;
    let request = ServerRequest::Files { client: to.client };
    let (answer, _) = wire.ask_with(&request, &[], PATIENCE).map_err(NotLetIn::answered)?;
    agree(to.server, answer)?;
    Ok(FileLine::over(wire))
}

impl FileLine {
    /// What a connection becomes when both sides have agreed on it.
    pub fn over(wire: Wire) -> FileLine {
        let is_near = wire.net().is_none();
        FileLine { stream: wire.into_files(), is_near, next: 1 }
    }

    /// Whether both ends are on one host and of one user.
    pub fn is_near(&self) -> bool {
        self.is_near
    }

    /// The id of the next request: as long as it stays so, nobody has asked for anything.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// Asks; returns the id of the request.
    pub fn ask(&mut self, request: &FileRequest, still: Still) -> Result<u64> {
        let id = self.next;
        self.next += 1;
        self.say(Header::new(kind::ASK, id), request, still)?;
        Ok(id)
    }

    /// Answers a request.
    pub fn answer<T: Serialize>(&mut self, id: u64, answer: &Result<T>, still: Still) -> Result<()> {
        match answer {
            Ok(value) => self.say(Header::new(kind::ANSWER, id), value, still),
            Err(e) => self.say(Header::new(kind::ERROR, id), &Failure::of(e), still),
        }
    }

    fn say<T: Serialize>(&mut self, header: Header, value: &T, still: Still) -> Result<()> {
        let json = serde_json::to_vec(value).map_err(|e| Error::internal(format!("no JSON: {e}")))?;
        self.stream.push(header, &json, &[])?;
        self.flush(still)
    }

    /// Sends a piece; returns when it has left.
    pub fn piece(&mut self, id: u64, at: u64, bytes: &[u8], still: Still) -> Result<()> {
        self.stream.push(Header::new(file::PIECE, id), b"", &[&at.to_le_bytes(), bytes])?;
        self.flush(still)
    }

    fn flush(&mut self, still: Still) -> Result<()> {
        let since = Instant::now();
        while !self.stream.flush()? {
            self.wait(PollFlags::OUT, since, still)?;
        }
        Ok(())
    }

    fn wait(&self, events: PollFlags, since: Instant, still: Still) -> Result<()> {
        if wait::until(self.as_fd(), events, Some(Instant::now() + LOOK))? {
            return Ok(());
        }
        still()?;
        match since.elapsed() < STALLED {
            true => Ok(()),
            false => Err(Error::new(
                Code::ServerLost,
                format!(
                    "nothing of a file has moved for {} s: its host, its disk or the network hangs",
                    STALLED.as_secs()
                ),
            )),
        }
    }

    /// What has come, if something has. `ServerLost` at the end of the connection.
    pub fn try_next(&mut self) -> Result<Option<FileFrame>> {
        self.stream.next(&mut NoPlace)?.map(read).transpose()
    }

    /// What comes next.
    pub fn next(&mut self, still: Still) -> Result<FileFrame> {
        let since = Instant::now();
        loop {
            if let Some(frame) = self.try_next()? {
                return Ok(frame);
            }
            self.wait(PollFlags::IN, since, still)?;
        }
    }

    /// The answer to a request. What comes before it answers requests that were given up. The inner error is the answer,
    /// the outer one says that there is none.
    pub fn hear<T: DeserializeOwned>(&mut self, id: u64, still: Still) -> Result<Result<T>> {
        loop {
            if let FileFrame::Answer(of, answer) = self.next(still)?
                && of == id
            {
                return match answer {
                    Ok(value) => serde_json::from_value(value).map(Ok).map_err(corrupt),
                    Err(e) => Ok(Err(e)),
                };
            }
        }
    }
}

fn corrupt(why: impl std::fmt::Display) -> Error {
    Error::new(Code::Corrupt, format!("what came over a connection for files is no part of it: {why}"))
}

fn read(received: Received) -> Result<FileFrame> {
    let Received { header, json, body, .. } = received;
    let id = header.id;
    Ok(match header.kind {
        kind::ASK => FileFrame::Ask(id, serde_json::from_slice(&json).map_err(corrupt)?),
        kind::ANSWER => FileFrame::Answer(id, Ok(serde_json::from_slice(&json).map_err(corrupt)?)),
        kind::ERROR => {
            let failure: Failure = serde_json::from_slice(&json).map_err(corrupt)?;
            FileFrame::Answer(id, Err(failure.into_error()))
        }
        file::PIECE => {
            let (at, bytes) = file::get_piece(&body)?;
            FileFrame::Piece(id, at, bytes.to_vec())
        }
        other => return Err(corrupt(format!("a frame of kind {other}"))),
    })
}

impl AsFd for FileLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
