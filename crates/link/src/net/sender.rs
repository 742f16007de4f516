//! The sending half of a call link over the network.
//!
//! ```text
//!   short frames   ------------------------------\
//!                                                  >-- one piece or frame after the other --> socket
//!   large parts    -- pieces of 256 KiB, in turn --/
//! ```
//!
//! A short frame goes before the next piece of whatever is under way, so 64 MiB delay a void call
//! by one piece, and whoever sends one waits for no more than that. Large parts are written from where
//! they lie: those of a caller who waits ([`NetSender::send`]), or those that were handed over
//! ([`NetSender::post`]) and leave by [`NetSender::flush`].

use super::stream::NetStream;
use crate::frame::{HEADER_BYTES, Header, kind};
use crate::lock;
use forebay_types::{Code, Error, Result};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a piece of a large part.
pub const PIECE_BYTES: usize = 256 * 1024;
/// Largest frame without its large parts, header included.
pub const FRAME_BYTES: usize = 128 * 1024;
/// Most large parts of a frame.
pub const PARTS: usize = 255;
/// A piece whose sender gave up: the frame that it belongs to is void.
pub(super) const VOID: u32 = 1;
/// Short frames that wait, before a sender is asked to wait too.
const WAITING_BYTES: usize = 1 << 20;
/// Who waits for its turn looks up so often.
const LOOK: Duration = Duration::from_millis(50);

/// A large part that was handed over.
pub type Part = Box<dyn AsRef<[u8]> + Send>;

/// Sends; clones share the connection, and any thread may use them.
#[derive(Clone)]
pub struct NetSender {
    shared: Arc<Shared>,
}

struct Shared {
    stream: Arc<NetStream>,
    out: Mutex<Out>,
    /// A piece of a waiting caller has left.
    turn: Condvar,
    /// Something waits to be flushed.
    waits: AtomicBool,
}

#[derive(Default)]
struct Out {
    /// Short frames, the first one perhaps begun.
    short: VecDeque<Vec<u8>>,
    short_sent: usize,
    short_bytes: usize,
    /// Frames whose large parts were handed over, the first one perhaps in the middle of a piece.
    large: VecDeque<Large>,
    /// A caller is in the middle of a piece that lies with it.
    elsewhere: bool,
    lost: Option<Error>,
}

struct Large {
    id: u64,
    parts: Vec<Part>,
    part: usize,
    at: usize,
    piece: Option<Piece>,
}

/// A piece on its way.
struct Piece {
    head: [u8; HEADER_BYTES],
    bytes: usize,
    sent: usize,
}

impl Piece {
    fn new(id: u64, part: usize, left: usize) -> Piece {
        let bytes = left.min(PIECE_BYTES);
        let header = Header { body: bytes as u64, number: part as u64, ..Header::new(kind::PIECE, id) };
        Piece { head: header.encode(), bytes, sent: 0 }
    }

    /// Writes what goes now; whether all of it has gone. `data` are the bytes of the piece.
    fn write(&mut self, stream: &NetStream, data: &[u8]) -> io::Result<bool> {
        while self.sent < HEADER_BYTES + self.bytes {
            let head = IoSlice::new(&self.head[self.sent.min(HEADER_BYTES)..]);
            let rest = IoSlice::new(&data[self.sent.saturating_sub(HEADER_BYTES)..]);
            let written = match self.sent < HEADER_BYTES {
                true => stream.try_write(&[head, rest]),
                false => stream.try_write(&[rest]),
            };
            match written {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// What has not gone, as bytes of its own.
    fn rest(&self, data: &[u8]) -> Vec<u8> {
        let head = &self.head[self.sent.min(HEADER_BYTES)..];
        [head, &data[self.sent.saturating_sub(HEADER_BYTES)..]].concat()
    }
}

/// What became of a short frame.
enum Went {
    Yes,
    /// It waits in memory.
    Later,
    /// There is no room.
    No,
}

impl NetSender {
    pub(super) fn over(stream: Arc<NetStream>) -> NetSender {
        let shared =
            Shared { stream, out: Mutex::default(), turn: Condvar::new(), waits: AtomicBool::new(false) };
        NetSender { shared: Arc::new(shared) }
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        lock(&self.shared.out)
    }

    /// Whether something waits for [`NetSender::flush`].
    #[inline]
    pub fn waits(&self) -> bool {
        self.shared.waits.load(Ordering::Acquire)
    }

    /// Whether it is the same connection.
    pub fn is_same(&self, other: &NetSender) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Ends the connection; nothing more is sent or received.
    pub fn close(&self) {
        self.shared.stream.close();
    }

    /// Bytes of short frames that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.out().short_bytes
    }

    /// Sends a short frame. `Full` when there is no room for it just now.
    #[inline]
    pub fn try_send(&self, header: &Header, body: &[&[u8]]) -> Result<()> {
        match self.short(header, body, &[], false)? {
            Went::No => Err(Error::new(Code::Full, "the other side takes no more just now")),
            _ => Ok(()),
        }
    }

    /// Sends a frame with large parts from where they lie. `wait` is called when nothing goes, with
    /// the socket to wait for; it had better look after what comes, and its error ends the sending.
    pub fn send(
        &self,
        header: &Header,
        body: &[&[u8]],
        parts: &[&[u8]],
        mut wait: impl FnMut(BorrowedFd) -> Result<()>,
    ) -> Result<()> {
        let lengths: Vec<u64> = parts.iter().map(|p| p.len() as u64).collect();
        while let Went::No = self.short(header, body, &lengths, false)? {
            wait(self.as_fd())?;
        }
        for (index, part) in parts.iter().enumerate() {
            for at in (0..part.len()).step_by(PIECE_BYTES) {
                let piece = Piece::new(header.id, index, part.len() - at);
                let data = &part[at..at + piece.bytes];
                if let Err(e) = self.piece(piece, data, &mut wait) {
                    let void = Header { flags: VOID, ..Header::new(kind::PIECE, header.id) };
                    let _ = self.short(&void, &[], &[], true);
                    return Err(e);
                }
            }
        }
        while !self.left()? {
            wait(self.as_fd())?;
        }
        Ok(())
    }

    /// Whether all short frames have left, and what TLS holds of them; what others have handed over may still wait, and
    /// goes by [`NetSender::flush`].
    fn left(&self) -> Result<bool> {
        if !self.waits() {
            return Ok(true);
        }
        let mut out = self.out();
        if out.elsewhere && !out.short.is_empty() {
            // Whoever is in the middle of a piece wakes us behind it.
            drop(self.shared.turn.wait_timeout(out, LOOK).unwrap_or_else(PoisonError::into_inner));
            return Ok(false);
        }
        // A piece that others have begun since may be in the way of more, not of what has left.
        let gone = match out.short.is_empty() {
            true => self.shared.stream.try_flush(),
            false => match self.flush_short(&mut out) {
                Ok(true) => self.shared.stream.try_flush(),
                other => other,
            },
        };
        let gone = gone.map_err(|e| self.lost(&mut out, &e))?;
        self.note(&out);
        Ok(gone)
    }

    /// Sends one piece that lies with the caller.
    fn piece(
        &self,
        mut piece: Piece,
        data: &[u8],
        wait: &mut impl FnMut(BorrowedFd) -> Result<()>,
    ) -> Result<()> {
        loop {
            let mut out = self.out();
            if out.elsewhere {
                drop(self.shared.turn.wait_timeout(out, LOOK).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            match self.flush_short(&mut out) {
                Ok(true) => {
                    out.elsewhere = true;
                    break;
                }
                Ok(false) => {
                    drop(out);
                    wait(self.as_fd())?;
                }
                Err(e) => return Err(self.lost(&mut out, &e)),
            }
        }
        // Meanwhile nobody else writes: short frames are put in the queue.
        let outcome = loop {
            match piece.write(&self.shared.stream, data) {
                Ok(true) => break Ok(()),
                Ok(false) => {
                    if let Err(e) = wait(self.as_fd()) {
                        break Err(e);
                    }
                }
                Err(e) => break Err(self.lost(&mut self.out(), &e)),
            }
        };
        let mut out = self.out();
        out.elsewhere = false;
        if outcome.is_err() && piece.sent > 0 && out.lost.is_none() {
            let rest = piece.rest(data);
            out.short_bytes += rest.len();
            out.short.push_front(rest);
        }
        self.note(&out);
        drop(out);
        self.shared.turn.notify_all();
        outcome
    }

    /// Sends a frame whose large parts were handed over, as far as it goes now. Returns whether
    /// something waits: then somebody calls [`NetSender::flush`] by and by.
    pub fn post(&self, header: &Header, body: &[&[u8]], parts: Vec<Part>) -> Result<bool> {
        let lengths: Vec<u64> = parts.iter().map(|p| (**p).as_ref().len() as u64).collect();
        self.short(header, body, &lengths, true)?;
        if !parts.is_empty() {
            let mut out = self.out();
            out.large.push_back(Large { id: header.id, parts, part: 0, at: 0, piece: None });
            self.note(&out);
            drop(out);
            self.flush()?;
        }
        Ok(self.waits())
    }

    /// Sends what waits, as far as it goes now; whether all has gone.
    pub fn flush(&self) -> Result<bool> {
        let mut out = self.out();
        loop {
            match self
                .flush_short(&mut out)
                .and_then(|gone| if gone { self.flush_piece(&mut out) } else { Ok(false) })
            {
                Ok(true) if out.large.is_empty() => {
                    let flushed = self.shared.stream.try_flush().map_err(|e| self.lost(&mut out, &e))?;
                    self.shared.waits.store(!flushed, Ordering::Release);
                    return Ok(flushed);
                }
                Ok(true) => {}
                Ok(false) => {
                    self.note(&out);
                    return Ok(false);
                }
                Err(e) => return Err(self.lost(&mut out, &e)),
            }
        }
    }

    /// A short frame: sent, or put in the queue if it must be or somebody else is writing.
    fn short(&self, header: &Header, body: &[&[u8]], lengths: &[u64], must: bool) -> Result<Went> {
        let table: Vec<u8> = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
        let bytes = table.len() + body.iter().map(|b| b.len()).sum::<usize>();
        if HEADER_BYTES + bytes > FRAME_BYTES || lengths.len() > PARTS {
            return Err(Error::bad(format!(
                "a frame of {bytes} bytes and {} large parts does not go over the network; {FRAME_BYTES} and {PARTS} are the most",
                lengths.len()
            )));
        }
        let header = Header { body: bytes as u64, number: lengths.len() as u64, json: 0, ..*header };
        let head = header.encode();
        let mut out = self.out();
        if let Some(e) = &out.lost {
            return Err(e.clone());
        }
        let idle =
            out.short.is_empty() && !out.elsewhere && out.large.front().is_none_or(|l| l.piece.is_none());
        let mut sent = 0;
        if idle {
            let mut slices = [IoSlice::new(&[]); 6];
            let known = [&head[..], &table].into_iter().chain(body.iter().copied());
            let mut n = 0;
            for (slot, part) in slices.iter_mut().zip(known.filter(|p| !p.is_empty())) {
                *slot = IoSlice::new(part);
                n += 1;
            }
            match self.shared.stream.try_write(&slices[..n]) {
                Ok(all) if all == HEADER_BYTES + bytes => {
                    if self.shared.stream.is_secure() {
                        let flushed = self.shared.stream.try_flush().map_err(|e| self.lost(&mut out, &e))?;
                        self.shared.waits.store(!flushed || !out.large.is_empty(), Ordering::Release);
                    }
                    return Ok(Went::Yes);
                }
                Ok(n) => sent = n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(self.lost(&mut out, &e)),
            }
        }
        if sent == 0 && !must && (idle || out.short_bytes > WAITING_BYTES) {
            return Ok(Went::No);
        }
        let whole = [&[&head[..], &table][..], body].concat().concat();
        out.short_bytes += whole.len() - sent;
        out.short.push_back(whole[sent..].to_vec());
        self.shared.waits.store(true, Ordering::Release);
        Ok(Went::Later)
    }

    /// The piece that has begun, then all short frames; whether they have gone.
    fn flush_short(&self, out: &mut Out) -> io::Result<bool> {
        if out.elsewhere || !self.finish_piece(out)? {
            return Ok(false);
        }
        while let Some(front) = out.short.front() {
            match self.shared.stream.try_write(&[IoSlice::new(&front[out.short_sent..])]) {
                Ok(n) => {
                    out.short_sent += n;
                    out.short_bytes -= n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
            if out.short_sent == front.len() {
                out.short.pop_front();
                out.short_sent = 0;
            }
        }
        Ok(true)
    }

    /// Begins the next piece of what was handed over; whether it has gone, or there is none.
    fn flush_piece(&self, out: &mut Out) -> io::Result<bool> {
        while let Some(mut large) = out.large.pop_front() {
            while large.parts.get(large.part).is_some_and(|p| (**p).as_ref().len() == large.at) {
                (large.part, large.at) = (large.part + 1, 0);
            }
            let Some(part) = large.parts.get(large.part) else { continue };
            large.piece = Some(Piece::new(large.id, large.part, (**part).as_ref().len() - large.at));
            out.large.push_front(large);
            return self.finish_piece(out);
        }
        Ok(true)
    }

    fn finish_piece(&self, out: &mut Out) -> io::Result<bool> {
        let Some(Large { parts, part, at, piece, .. }) = out.large.front_mut() else { return Ok(true) };
        let Some(begun) = piece else { return Ok(true) };
        let data = &(*parts[*part]).as_ref()[*at..*at + begun.bytes];
        if !begun.write(&self.shared.stream, data)? {
            return Ok(false);
        }
        *at += begun.bytes;
        *piece = None;
        // In turn: a large one does not keep others waiting for all of its length.
        out.large.rotate_left(1);
        Ok(true)
    }

    fn note(&self, out: &Out) {
        // What TLS still holds waits too; an error shows at the next use.
        let held = !self.shared.stream.try_flush().unwrap_or(true);
        let waits = held || !out.short.is_empty() || !out.large.is_empty();
        self.shared.waits.store(waits, Ordering::Release);
    }

    fn lost(&self, out: &mut Out, e: &io::Error) -> Error {
        let text = format!("the connection to {} broke: {e}", self.shared.stream.peer());
        let error = Error::new(Code::ServerLost, text);
        // What was handed over is given back.
        out.large.clear();
        out.short.clear();
        (out.short_bytes, out.short_sent) = (0, 0);
        self.shared.waits.store(false, Ordering::Release);
        out.lost.get_or_insert(error).clone()
    }
}

impl AsFd for NetSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.stream.as_fd()
    }
}
