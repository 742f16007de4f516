//! The receiving half of a call link over the network: short frames through a buffer, large parts
//! straight from the socket into recycled memory.
//!
//! Nothing that comes is believed: lengths are held against limits before memory is taken, pieces
//! against what their frame announced. A frame whose parts find no room is delivered with the
//! reason, and its pieces are read and dropped.

use super::sender::{FRAME_BYTES, PARTS, PIECE_BYTES, VOID};
use super::stream::NetStream;
use crate::frame::{HEADER_BYTES, Header, kind};
use crate::hash::QuickMap;
use crate::pool::{Lease, Pool};
use forebay_types::call::SLOTS;
use forebay_types::{Code, Error, Result};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most frames whose parts have not all come: the heads of all that a client may have under way go before their parts.
const UNFINISHED: usize = SLOTS;
/// What has come and was not taken, before no more is read: all that a client may have under way, and that it does not
/// want it any more.
const READY_FRAMES: usize = 2 * SLOTS;
const READY_BYTES: usize = 64 << 20;

/// A frame that has come, with its large parts.
#[derive(Debug)]
pub struct Received {
    /// Its header; `body` is what `body` holds.
    pub header: Header,
    /// What stands behind the header.
    pub body: Vec<u8>,
    /// Its large parts.
    pub parts: Vec<Lease>,
    /// Why they could not be taken in, if so; then there are none.
    pub fault: Option<Error>,
}

impl Received {
    fn is_bare(&self) -> bool {
        self.body.is_empty() && self.parts.is_empty()
    }
}

/// When something came last over a connection, for whoever does not read it.
#[derive(Debug)]
pub(crate) struct Heard {
    began: Instant,
    /// Nanoseconds since.
    last: AtomicU64,
}

impl Default for Heard {
    fn default() -> Heard {
        Heard { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Heard {
    fn note(&self) {
        self.last.store(self.began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// When that was.
    pub fn last(&self) -> Instant {
        self.began + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}

/// A frame whose parts have not all come.
struct Unfinished {
    frame: Received,
    /// Bytes that each part has, and how many of them have come.
    lengths: Vec<(u64, u64)>,
    left: u64,
}

/// Where the rest of a piece goes.
struct Remainder {
    id: u64,
    part: usize,
    left: usize,
}

/// Receives; one thread at a time.
pub struct NetReceiver {
    stream: Arc<NetStream>,
    pool: Pool,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    piece: Option<Remainder>,
    unfinished: QuickMap<u64, Unfinished>,
    ready: VecDeque<Received>,
    ready_bytes: usize,
    /// Those of them that have a header only.
    bare: usize,
    heard: Arc<Heard>,
    ended: bool,
}

fn corrupt(why: impl Into<String>) -> Error {
    Error::new(
        Code::Corrupt,
        format!("the other side breaks the rules of a link: {}; close the connection", why.into()),
    )
}

impl NetReceiver {
    pub(super) fn over(stream: Arc<NetStream>, pool: Pool) -> NetReceiver {
        NetReceiver {
            stream,
            pool,
            buffer: vec![0; FRAME_BYTES],
            from: 0,
            to: 0,
            piece: None,
            unfinished: QuickMap::default(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            bare: 0,
            heard: Arc::default(),
            ended: false,
        }
    }

    /// When something came last.
    pub(crate) fn heard(&self) -> Arc<Heard> {
        self.heard.clone()
    }

    /// Whether a frame has come in part.
    pub fn is_amid(&self) -> bool {
        !self.unfinished.is_empty() || self.from < self.to
    }

    /// How many frames wait to be taken.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Takes the frames of that kind, which have a header only, out of those that wait.
    pub fn taken_back(&mut self, kind: u16) -> impl Iterator<Item = Header> {
        let mut headers = Vec::new();
        if self.bare > 0 {
            self.ready.retain(|r| {
                let keep = r.header.kind != kind || !r.is_bare();
                if !keep {
                    headers.push(r.header);
                }
                keep
            });
            self.bare -= headers.len();
        }
        headers.into_iter()
    }

    /// The next frame that is there, in the order in which they were complete. `ServerLost` at the
    /// end of the connection, once all that had come is taken.
    pub fn try_recv(&mut self) -> Result<Option<Received>> {
        if self.ready.is_empty() {
            self.collect(1)?;
        }
        let Some(received) = self.ready.pop_front() else { return Ok(None) };
        self.ready_bytes -= received.body.len();
        self.bare -= usize::from(received.is_bare());
        Ok(Some(received))
    }

    /// Whether [`NetReceiver::try_recv`] finds something, be it the end: it reads what is there.
    #[inline]
    pub fn pending(&mut self) -> bool {
        !self.ready.is_empty() || self.ended || self.collect(1).is_err() || !self.ready.is_empty()
    }

    /// Reads until so many frames are complete or nothing more is there.
    pub fn collect(&mut self, enough: usize) -> Result<()> {
        loop {
            while self.ready.len() < enough && self.parse()? {}
            if self.ready.len() >= enough.min(READY_FRAMES) || self.ready_bytes > READY_BYTES {
                return Ok(());
            }
            if self.ended && self.ready.is_empty() {
                return Err(self.end(None));
            }
            if self.ended || !self.read()? {
                return Ok(());
            }
        }
    }

    fn end(&mut self, e: Option<&io::Error>) -> Error {
        self.ended = true;
        let why = e.map_or("closed".to_owned(), |e| format!("broke: {e}"));
        Error::new(Code::ServerLost, format!("the connection to {} {why}", self.stream.peer()))
    }

    /// Reads what is there; whether there was anything. In the middle of a piece it goes where it belongs.
    fn read(&mut self) -> Result<bool> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.from > 0 && self.to == self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let direct = self.piece.as_ref().and_then(|piece| piece.place(&mut self.unfinished));
        let wanted = direct.as_ref().map_or(0, |d| d.len());
        let got = match direct {
            // Behind the piece no more than the next header: what follows it goes its own way.
            Some(direct) => {
                let head = &mut self.buffer[..HEADER_BYTES];
                self.stream.try_read(&mut [IoSliceMut::new(direct), IoSliceMut::new(head)])
            }
            None => self.stream.try_read(&mut [IoSliceMut::new(&mut self.buffer[self.to..])]),
        };
        match got {
            Ok(0) => {
                self.ended = true;
                if self.is_amid() || self.piece.is_some() {
                    return Err(self.end(None));
                }
                Ok(true)
            }
            Ok(n) => {
                self.heard.note();
                self.advance(n.min(wanted))?;
                self.to += n - n.min(wanted);
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(self.end(Some(&e))),
        }
    }

    /// So many bytes of the piece are where they belong.
    fn advance(&mut self, bytes: usize) -> Result<()> {
        let Some(piece) = &mut self.piece else { return Ok(()) };
        piece.left -= bytes;
        let (id, part, done) = (piece.id, piece.part, piece.left == 0);
        if done {
            self.piece = None;
        }
        let Some(unfinished) = self.unfinished.get_mut(&id) else {
            return Err(corrupt("a piece of nothing"));
        };
        unfinished.lengths[part].1 += bytes as u64;
        unfinished.left -= bytes as u64;
        if done
            && unfinished.left == 0
            && let Some(complete) = self.unfinished.remove(&id)
        {
            self.deliver(complete.frame);
        }
        Ok(())
    }

    fn deliver(&mut self, frame: Received) {
        self.ready_bytes += frame.body.len();
        self.bare += usize::from(frame.is_bare());
        self.ready.push_back(frame);
    }

    /// Takes one thing out of the buffer; whether it could.
    fn parse(&mut self) -> Result<bool> {
        if let Some(piece) = &self.piece {
            let n = piece.left.min(self.to - self.from);
            if n == 0 {
                return Ok(false);
            }
            if let Some(place) = piece.place(&mut self.unfinished) {
                place[..n].copy_from_slice(&self.buffer[self.from..self.from + n]);
            }
            self.from += n;
            self.advance(n)?;
            return Ok(true);
        }
        let there = &self.buffer[self.from..self.to];
        if there.len() < HEADER_BYTES {
            return Ok(false);
        }
        let header = Header::decode(there, (PIECE_BYTES + HEADER_BYTES) as u64)?;
        match header.kind {
            kind::PIECE => self.begin_piece(&header)?,
            _ => {
                let total = HEADER_BYTES + header.json as usize + header.body as usize;
                if total > FRAME_BYTES || header.json > 0 || header.number > PARTS as u64 {
                    return Err(corrupt(format!(
                        "a frame of {total} bytes and {} large parts",
                        header.number
                    )));
                }
                if there.len() < total {
                    return Ok(false);
                }
                let body = there[HEADER_BYTES..total].to_vec();
                self.from += total;
                self.frame(header, body)?;
            }
        }
        Ok(true)
    }

    fn begin_piece(&mut self, header: &Header) -> Result<()> {
        self.from += HEADER_BYTES;
        let id = header.id;
        if header.flags & VOID != 0 {
            // Its sender gave up; so does who waited for it.
            return self.unfinished.remove(&id).map(drop).ok_or_else(|| corrupt("nothing to give up"));
        }
        let unfinished = self.unfinished.get(&id).ok_or_else(|| corrupt("a piece of no frame"))?;
        let length = usize::try_from(header.number).ok().and_then(|part| unfinished.lengths.get(part));
        let (bytes, come) = length.ok_or_else(|| corrupt("a piece of no part"))?;
        if header.body == 0 || header.body > bytes - come {
            return Err(corrupt(format!("a piece of {} bytes where {} are due", header.body, bytes - come)));
        }
        self.piece = Some(Remainder { id, part: header.number as usize, left: header.body as usize });
        Ok(())
    }

    fn frame(&mut self, header: Header, mut body: Vec<u8>) -> Result<()> {
        if header.kind == kind::BEAT {
            return Ok(());
        }
        let table = header.number as usize * 8;
        if table > body.len() {
            return Err(corrupt("the table of its parts is cut off"));
        }
        let lengths: Vec<(u64, u64)> = body[..table]
            .chunks_exact(8)
            .map(|c| (c.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)), 0))
            .collect();
        body.drain(..table);
        let header = Header { body: body.len() as u64, ..header };
        let mut frame = Received { header, body, parts: Vec::new(), fault: None };
        let left = lengths.iter().try_fold(0u64, |sum, l| sum.checked_add(l.0));
        let left = left.ok_or_else(|| corrupt("its parts are longer than anything"))?;
        if left > 0 {
            if self.unfinished.len() >= UNFINISHED || self.unfinished.contains_key(&header.id) {
                return Err(corrupt(format!(
                    "frame {} while its parts still come, or too many at a time",
                    header.id
                )));
            }
            match lengths.iter().map(|l| self.pool.take(l.0)).collect() {
                Ok(parts) => frame.parts = parts,
                Err(e) => frame.fault = Some(e),
            }
            self.unfinished.insert(header.id, Unfinished { frame, lengths, left });
            return Ok(());
        }
        frame.parts = lengths.iter().map(|_| self.pool.take(0)).collect::<Result<_>>()?;
        self.deliver(frame);
        Ok(())
    }
}

impl Remainder {
    /// Where its rest belongs; nowhere when its frame found no room.
    fn place<'u>(&self, unfinished: &'u mut QuickMap<u64, Unfinished>) -> Option<&'u mut [u8]> {
        let Unfinished { frame, lengths, .. } = unfinished.get_mut(&self.id)?;
        let at = lengths.get(self.part)?.1 as usize;
        frame.parts.get_mut(self.part)?.bytes_mut().get_mut(at..at + self.left)
    }
}

impl AsFd for NetReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
