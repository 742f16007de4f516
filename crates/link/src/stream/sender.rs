//! The sending half of a stream of frames.
//!
//! ```text
//!   short frames   ------------------------------\
//!                                                  >-- one piece or frame after the other --> channel
//!   large parts    -- pieces of 256 KiB, in turn --/
//! ```
//!
//! A short frame goes before the next piece of whatever is under way, so 64 MiB delay a void call
//! by one piece, and whoever sends one waits for no more than that. Large parts are written from where
//! they lie: those of a caller who waits ([`StreamSender::send`]), or those that were handed over
//! ([`StreamSender::post`], [`StreamSender::post_block`]) and leave by [`StreamSender::flush`]. Whoever has many short
//! frames has them gathered ([`StreamSender::queue`]), and they leave with the next flush.
//!
//! Of the callers who wait one has its *turn*: it alone writes and waits for the socket, a piece long. The others
//! sleep until it is over, for the socket may take more and be full again before they have looked.

use super::Limits;
use super::channel::Channel;
use crate::fair::Fair;
use crate::frame::{HEADER_BYTES, Header, kind};
use forebay_arena::{Block, Lent};
use forebay_host::wait::{self, PollFlags};
use forebay_types::{Code, Error, Result};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a piece of a large part.
pub const PIECE_BYTES: usize = 256 * 1024;
/// Most large parts of a frame.
pub const PARTS: usize = 255;
/// Short frames that wait are gathered up to so much.
const GATHER: usize = 64 * 1024;
/// A piece whose sender gave up: the frame that it belongs to is void.
pub(super) const VOID: u32 = 1;
/// Short frames that wait, before a sender is asked to wait too.
const WAITING_BYTES: usize = 1 << 20;
/// Who waits for the turn of another one looks after other things so often.
const LOOK: Duration = Duration::from_millis(50);

/// A large part that was handed over.
pub type LargePart = Box<dyn AsRef<[u8]> + Send>;

/// Where a large part lies that was handed over.
enum Part {
    Own(LargePart),
    /// In shared memory, where another process may change it meanwhile.
    Block(Block, Range<u64>),
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Part::Own(bytes) => (**bytes).as_ref().len(),
            Part::Block(_, range) => (range.end - range.start) as usize,
        }
    }

    fn piece(&self, at: usize, bytes: usize) -> Data<'_> {
        match self {
            Part::Own(own) => Data::Own(&(**own).as_ref()[at..at + bytes]),
            Part::Block(block, range) => {
                let (_, rest) = block.lent().split_at(range.start as usize + at);
                Data::Lent(rest.split_at(bytes).0)
            }
        }
    }
}

/// Bytes of a piece.
#[derive(Clone, Copy)]
enum Data<'a> {
    Own(&'a [u8]),
    Lent(Lent<'a>),
}

/// Sends; clones share the connection, and any thread may use them.
#[derive(Clone)]
pub struct StreamSender {
    shared: Arc<Shared>,
    limits: Limits,
}

struct Shared {
    channel: Arc<Channel>,
    out: Fair<Out>,
    /// The turn of a caller is over.
    turn: Condvar,
    /// Something waits to be flushed.
    waits: AtomicBool,
}

#[derive(Default)]
struct Out {
    /// Short frames, the first one perhaps begun.
    short: VecDeque<Short>,
    short_sent: usize,
    short_bytes: usize,
    /// Short frames so far, and how many of them the stream has taken.
    frames: u64,
    frames_taken: u64,
    /// What the stream had taken with the last of them.
    taken: u64,
    /// Frames whose large parts were handed over, the first one perhaps in the middle of a piece.
    large: VecDeque<Large>,
    large_bytes: usize,
    /// A caller has its turn: nobody else writes.
    turn: bool,
    /// Callers who wait for theirs, in the order in which they came.
    line: VecDeque<u64>,
    callers: u64,
    lost: Option<Error>,
}

impl Out {
    /// Whether a short frame may be written at once.
    fn is_idle(&self) -> bool {
        self.short.is_empty() && !self.turn && self.large.front().is_none_or(|l| l.piece.is_none())
    }

    fn usable(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), Err)
    }
}

fn bytes_of(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// What goes before the next piece.
struct Short {
    bytes: Vec<u8>,
    /// How many frames end in it; none does in the rest of a piece whose sender gave up.
    frames: u64,
}

struct Large {
    id: u64,
    parts: Vec<Part>,
    part: usize,
    at: usize,
    piece: Option<Chunk>,
}

/// A piece on its way.
struct Chunk {
    head: [u8; HEADER_BYTES],
    bytes: usize,
    sent: usize,
}

impl Chunk {
    fn new(id: u64, part: usize, left: usize) -> Chunk {
        let bytes = left.min(PIECE_BYTES);
        let header = Header { body: bytes as u64, number: part as u64, ..Header::new(kind::PIECE, id) };
        Chunk { head: header.encode(), bytes, sent: 0 }
    }

    /// Writes what goes now; whether all of it has gone. `data` are the bytes of the piece.
    fn write(&mut self, channel: &Channel, data: Data) -> io::Result<bool> {
        while self.sent < HEADER_BYTES + self.bytes {
            let (head, at) = self.left();
            let written = match data {
                Data::Own(bytes) => channel.write(&[IoSlice::new(head), IoSlice::new(&bytes[at..])]),
                Data::Lent(bytes) => channel.write_lent(&[Lent::of(head), bytes.split_at(at).1]),
            };
            match written {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// What has not gone of the header, and where what has not gone of the data begins.
    fn left(&self) -> (&[u8], usize) {
        (&self.head[self.sent.min(HEADER_BYTES)..], self.sent.saturating_sub(HEADER_BYTES))
    }
}

/// What became of a short frame; the number is its own.
enum Went {
    Yes(u64),
    /// It waits in memory.
    Later(u64),
    /// There is no room.
    No,
}

/// When a short frame may wait in memory.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// While somebody writes who will send it, too.
    Behind,
    /// While not too many do.
    Some,
    /// Always.
    All,
}

/// A caller in the line of those who want to write.
struct Queued<'s> {
    sender: &'s StreamSender,
    number: u64,
}

/// The turn of a caller, until it is dropped.
struct Turn<'s>(&'s StreamSender);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.sender.out().line.retain(|number| *number != self.number);
        self.sender.shared.turn.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut out = self.0.out();
        out.turn = false;
        self.0.note(&out);
        drop(out);
        self.0.shared.turn.notify_all();
    }
}

impl StreamSender {
    pub(super) fn over(channel: Arc<Channel>, limits: Limits) -> StreamSender {
        let shared =
            Shared { channel, out: Fair::default(), turn: Condvar::new(), waits: AtomicBool::new(false) };
        StreamSender { shared: Arc::new(shared), limits }
    }

    /// From now on frames of this length are sent by whoever has this sender.
    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.shared.channel
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.shared.out.lock()
    }

    /// Whether something waits for [`StreamSender::flush`].
    #[inline]
    pub fn waits(&self) -> bool {
        self.shared.waits.load(Ordering::Acquire)
    }

    /// Whether it is the same connection.
    pub fn is_same(&self, other: &StreamSender) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Ends the connection; nothing more is sent or received.
    pub fn close(&self) {
        self.shared.channel.close();
    }

    /// Bytes of short frames that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.out().short_bytes
    }

    /// Bytes of large parts that were handed over and wait.
    pub fn waiting_bulk(&self) -> usize {
        self.out().large_bytes
    }

    /// Puts a frame behind those that wait; it leaves with the next [`StreamSender::flush`].
    pub fn queue(&self, header: Header, json: &[u8], body: &[&[u8]]) -> Result<()> {
        let header =
            self.measured(Header { json: json.len() as u32, ..header }, json.len() + bytes_of(body))?;
        let mut out = self.out();
        out.usable()?;
        let room = header.frame_bytes().unwrap_or(0) as usize;
        let bytes = match out.short.back_mut() {
            Some(last) if last.frames > 0 && last.bytes.len() + room <= GATHER => {
                last.frames += 1;
                &mut last.bytes
            }
            _ => {
                out.short.push_back(Short { bytes: Vec::with_capacity(room.max(1024)), frames: 1 });
                &mut out.short.back_mut().ok_or_else(|| Error::internal("a frame is lost"))?.bytes
            }
        };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(json);
        body.iter().for_each(|part| bytes.extend_from_slice(part));
        out.short_bytes += room;
        out.frames += 1;
        self.shared.waits.store(true, Ordering::Release);
        Ok(())
    }

    /// Begins to write a frame with descriptors beside it, when nothing waits before it; says whether it has begun.
    /// What of it does not go now leaves with the next [`StreamSender::flush`].
    pub fn begin(&self, header: Header, json: &[u8], fds: &[BorrowedFd]) -> Result<bool> {
        let header = Header { json: json.len() as u32, number: fds.len() as u64, ..header };
        let header = self.measured(header, json.len())?;
        if !self.flush()? {
            return Ok(false);
        }
        let mut out = self.out();
        out.usable()?;
        if !out.is_idle() {
            return Ok(false);
        }
        let head = header.encode();
        let sent = match self.shared.channel.write_with(&[IoSlice::new(&head), IoSlice::new(json)], fds) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // The connection may be as good as before: descriptors are refused for other reasons, too.
            Err(e) if !fds.is_empty() => return Err(self.shared.channel.broken(&e)),
            sent => sent.map_err(|e| self.lost(&mut out, &e))?,
        };
        let rest: Vec<u8> = head.iter().chain(json).skip(sent).copied().collect();
        self.keep(&mut out, rest);
        Ok(true)
    }

    /// Does `go` until that says that it is done, and waits between two times for the socket to take more, until the
    /// deadline.
    pub(crate) fn until(&self, deadline: Instant, mut go: impl FnMut() -> Result<bool>) -> Result<()> {
        while !go()? {
            if !wait::until(self.as_fd(), PollFlags::OUT, Some(deadline))? {
                return Err(Error::new(Code::Timeout, "the other side does not read; is it stopped?"));
            }
        }
        Ok(())
    }

    /// Puts what has not gone of a frame behind all that waits; the number of the frame.
    fn keep(&self, out: &mut Out, rest: Vec<u8>) -> u64 {
        out.short_bytes += rest.len();
        out.short.push_back(Short { bytes: rest, frames: 1 });
        out.frames += 1;
        self.shared.waits.store(true, Ordering::Release);
        out.frames
    }

    /// Hands over a range of a block as the large part of a frame.
    pub fn post_block(&self, header: Header, body: &[u8], block: Block, range: Range<u64>) -> Result<()> {
        let part = Part::Block(block, range);
        self.short(&header, &[body], &[part.len() as u64], Wait::All)?;
        self.hand_over(header.id, vec![part]);
        Ok(())
    }

    fn hand_over(&self, id: u64, parts: Vec<Part>) {
        let mut out = self.out();
        out.large_bytes += parts.iter().map(Part::len).sum::<usize>();
        out.large.push_back(Large { id, parts, part: 0, at: 0, piece: None });
        self.note(&out);
    }

    /// The header of a frame with so many bytes behind it, if that is not too long.
    fn measured(&self, header: Header, behind: usize) -> Result<Header> {
        if behind + HEADER_BYTES > self.limits.frame {
            return Err(Error::bad(format!(
                "a frame of {behind} bytes does not go over a connection; {} are the most",
                self.limits.frame - HEADER_BYTES
            )));
        }
        Ok(Header { body: (behind - header.json as usize) as u64, ..header })
    }

    /// Sends a short frame. `Full` when there is no room for it just now.
    #[inline]
    pub fn try_send(&self, header: &Header, body: &[&[u8]]) -> Result<()> {
        match self.short(header, body, &[], Wait::Behind)? {
            Went::No => Err(Error::new(Code::Full, "the other side takes no more just now")),
            _ => Ok(()),
        }
    }

    /// Sends a frame with large parts from where they lie. `wait` is called when nothing goes, with the socket to wait
    /// for, or with nothing before this sleeps until somebody else's turn is over; it had better look after what comes,
    /// and its error ends the sending.
    pub fn send(
        &self,
        header: &Header,
        body: &[&[u8]],
        parts: &[&[u8]],
        mut wait: impl FnMut(Option<BorrowedFd>) -> Result<()>,
    ) -> Result<()> {
        let lengths: Vec<u64> = parts.iter().map(|p| p.len() as u64).collect();
        let frame = loop {
            match self.short(header, body, &lengths, Wait::Some)? {
                Went::Yes(frame) | Went::Later(frame) => break frame,
                Went::No => drop(self.turn_behind_frames(&mut wait)?),
            }
        };
        for (index, part) in parts.iter().enumerate() {
            for at in (0..part.len()).step_by(PIECE_BYTES) {
                let piece = Chunk::new(header.id, index, part.len() - at);
                let data = &part[at..at + piece.bytes];
                if let Err(e) = self.piece(piece, data, &mut wait) {
                    let void = Header { flags: VOID, ..Header::new(kind::PIECE, header.id) };
                    let _ = self.short(&void, &[], &[], Wait::All);
                    return Err(e);
                }
            }
        }
        // Of its pieces, too, TLS may hold the last bytes, and the caller may not come again for long.
        let taken = if parts.is_empty() { 0 } else { self.shared.channel.taken() };
        self.leave((frame, taken), &mut wait)
    }

    /// Waits until a short frame has left, and what the stream had taken by then, with what TLS held of it; what others
    /// have handed over may still wait, and goes by [`StreamSender::flush`].
    fn leave(&self, own: (u64, u64), wait: &mut impl FnMut(Option<BorrowedFd>) -> Result<()>) -> Result<()> {
        let (frame, _) = own;
        if !self.waits() {
            return Ok(());
        }
        // Whoever writes a piece sends it before that.
        let over = |out: &mut Out| Ok(self.has_left(out, own)? || (!out.turn && out.line.is_empty()));
        self.sleep_until(over, wait)?;
        if self.has_left(&mut self.out(), own)? {
            return Ok(());
        }
        let _turn = self.turn(wait)?;
        loop {
            let mut out = self.out();
            if out.frames_taken < frame {
                self.write_short(&mut out).map_err(|e| self.lost(&mut out, &e))?;
            }
            if self.has_left(&mut out, own)? {
                return Ok(());
            }
            drop(out);
            wait(Some(self.as_fd()))?;
        }
    }

    fn has_left(&self, out: &mut Out, (frame, taken): (u64, u64)) -> Result<bool> {
        if out.frames_taken < frame {
            return out.lost.clone().map_or(Ok(false), Err);
        }
        // Taken and lost, it may have arrived: that is for whoever waits for the answer.
        Ok(out.lost.is_some()
            || self.shared.channel.has_left(out.taken.max(taken)).map_err(|e| self.lost(out, &e))?)
    }

    /// Sleeps until `over`, which the end of a turn may change.
    fn sleep_until(
        &self,
        mut over: impl FnMut(&mut Out) -> Result<bool>,
        wait: &mut impl FnMut(Option<BorrowedFd>) -> Result<()>,
    ) -> Result<()> {
        let mut looked = false;
        loop {
            let mut out = self.out();
            if over(&mut out)? {
                return Ok(());
            }
            if !looked {
                drop(out);
                wait(None)?;
                looked = true;
                continue;
            }
            let slept = self.shared.turn.wait_timeout(out, LOOK).unwrap_or_else(PoisonError::into_inner);
            looked = !slept.1.timed_out();
        }
    }

    /// Waits in line for this caller's turn.
    fn turn(&self, wait: &mut impl FnMut(Option<BorrowedFd>) -> Result<()>) -> Result<Turn<'_>> {
        let place = {
            let mut out = self.out();
            out.callers += 1;
            let number = out.callers;
            out.line.push_back(number);
            Queued { sender: self, number }
        };
        let begin = |out: &mut Out| {
            if let Some(e) = &out.lost {
                return Err(e.clone());
            }
            let first = !out.turn && out.line.front() == Some(&place.number);
            out.turn |= first;
            Ok(first)
        };
        self.sleep_until(begin, wait)?;
        Ok(Turn(self))
    }

    /// Waits in line for this caller's turn, and then sends all short frames.
    fn turn_behind_frames(
        &self,
        wait: &mut impl FnMut(Option<BorrowedFd>) -> Result<()>,
    ) -> Result<Turn<'_>> {
        let turn = self.turn(wait)?;
        loop {
            let mut out = self.out();
            match self.write_short(&mut out) {
                Ok(true) => return Ok(turn),
                Ok(false) => drop(out),
                Err(e) => return Err(self.lost(&mut out, &e)),
            }
            wait(Some(self.as_fd()))?;
        }
    }

    /// Sends one piece that lies with the caller.
    fn piece(
        &self,
        mut piece: Chunk,
        data: &[u8],
        wait: &mut impl FnMut(Option<BorrowedFd>) -> Result<()>,
    ) -> Result<()> {
        // Until its end nobody else writes: short frames are put in the queue.
        let _turn = self.turn_behind_frames(wait)?;
        let outcome = loop {
            match piece.write(&self.shared.channel, Data::Own(data)) {
                Ok(true) => break Ok(()),
                Ok(false) => {
                    if let Err(e) = wait(Some(self.as_fd())) {
                        break Err(e);
                    }
                }
                Err(e) => break Err(self.lost(&mut self.out(), &e)),
            }
        };
        if outcome.is_err() && piece.sent > 0 {
            let mut out = self.out();
            if out.lost.is_none() {
                let (head, at) = piece.left();
                let rest = [head, &data[at..]].concat();
                out.short_bytes += rest.len();
                out.short.push_front(Short { bytes: rest, frames: 0 });
            }
        }
        outcome
    }

    /// Sends a frame whose large parts were handed over, as far as it goes now. Returns whether
    /// something waits: then somebody calls [`StreamSender::flush`] by and by.
    pub fn post(&self, header: &Header, body: &[&[u8]], parts: Vec<LargePart>) -> Result<bool> {
        let lengths: Vec<u64> = parts.iter().map(|p| (**p).as_ref().len() as u64).collect();
        self.short(header, body, &lengths, Wait::All)?;
        if !parts.is_empty() {
            self.hand_over(header.id, parts.into_iter().map(Part::Own).collect());
            self.flush()?;
        }
        Ok(self.waits())
    }

    /// Sends what waits, as far as it goes now; whether all has gone.
    pub fn flush(&self) -> Result<bool> {
        loop {
            // Between two pieces whoever has a short frame puts it before the next.
            let mut out = self.out();
            match self
                .flush_short(&mut out)
                .and_then(|gone| if gone { self.flush_piece(&mut out) } else { Ok(false) })
            {
                Ok(true) if out.large.is_empty() => {
                    let flushed = self.shared.channel.flush().map_err(|e| self.lost(&mut out, &e))?;
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
    fn short(&self, header: &Header, body: &[&[u8]], lengths: &[u64], may: Wait) -> Result<Went> {
        let table: Vec<u8> = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
        if lengths.len() > PARTS {
            let text = format!("a frame has {} large parts, {PARTS} are the most", lengths.len());
            return Err(Error::bad(text));
        }
        let bytes = table.len() + bytes_of(body);
        let header = self.measured(Header { number: lengths.len() as u64, json: 0, ..*header }, bytes)?;
        let head = header.encode();
        let mut out = self.out();
        out.usable()?;
        let idle = out.is_idle();
        let mut sent = 0;
        if idle {
            let mut slices = [IoSlice::new(&[]); 6];
            let known = [&head[..], &table].into_iter().chain(body.iter().copied());
            let mut n = 0;
            for (slot, part) in slices.iter_mut().zip(known.filter(|p| !p.is_empty())) {
                *slot = IoSlice::new(part);
                n += 1;
            }
            match self.shared.channel.write(&slices[..n]) {
                Ok(all) if all == HEADER_BYTES + bytes => {
                    out.frames += 1;
                    self.note_taken(&mut out, 1);
                    if self.shared.channel.holds_back() {
                        let flushed = self.shared.channel.flush().map_err(|e| self.lost(&mut out, &e))?;
                        self.shared.waits.store(!flushed || !out.large.is_empty(), Ordering::Release);
                    }
                    return Ok(Went::Yes(out.frames));
                }
                Ok(n) => sent = n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(self.lost(&mut out, &e)),
            }
        }
        let full = match may {
            Wait::Behind => idle || out.short_bytes > WAITING_BYTES,
            Wait::Some => out.short_bytes > WAITING_BYTES,
            Wait::All => false,
        };
        if sent == 0 && full {
            return Ok(Went::No);
        }
        let whole = [&[&head[..], &table][..], body].concat().concat();
        Ok(Went::Later(self.keep(&mut out, whole[sent..].to_vec())))
    }

    /// The channel has taken so many more short frames.
    fn note_taken(&self, out: &mut Out, frames: u64) {
        out.frames_taken += frames;
        out.taken = self.shared.channel.taken();
    }

    /// The piece that has begun, then all short frames, unless somebody has a turn; whether they have gone.
    fn flush_short(&self, out: &mut Out) -> io::Result<bool> {
        if out.turn { Ok(false) } else { self.write_short(out) }
    }

    /// Sends the piece that has begun, then all short frames, for the caller that has the turn; says whether they
    /// have gone.
    fn write_short(&self, out: &mut Out) -> io::Result<bool> {
        if !self.finish_piece(out)? {
            return Ok(false);
        }
        while let Some(Short { bytes, frames }) = out.short.front() {
            let (length, frames) = (bytes.len(), *frames);
            if out.short_sent == length {
                out.short.pop_front();
                out.short_sent = 0;
                if frames > 0 {
                    self.note_taken(out, frames);
                }
                continue;
            }
            match self.shared.channel.write(&[IoSlice::new(&bytes[out.short_sent..])]) {
                Ok(n) => {
                    out.short_sent += n;
                    out.short_bytes -= n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Begins the next piece of what was handed over; whether it has gone, or there is none.
    fn flush_piece(&self, out: &mut Out) -> io::Result<bool> {
        while let Some(mut large) = out.large.pop_front() {
            while large.parts.get(large.part).is_some_and(|p| p.len() == large.at) {
                (large.part, large.at) = (large.part + 1, 0);
            }
            let Some(part) = large.parts.get(large.part) else { continue };
            large.piece = Some(Chunk::new(large.id, large.part, part.len() - large.at));
            out.large.push_front(large);
            return self.finish_piece(out);
        }
        Ok(true)
    }

    fn finish_piece(&self, out: &mut Out) -> io::Result<bool> {
        let Some(Large { parts, part, at, piece, .. }) = out.large.front_mut() else { return Ok(true) };
        let Some(begun) = piece else { return Ok(true) };
        let (data, bytes) = (parts[*part].piece(*at, begun.bytes), begun.bytes);
        if !begun.write(&self.shared.channel, data)? {
            return Ok(false);
        }
        *at += bytes;
        *piece = None;
        out.large_bytes -= bytes;
        // In turn: a large one does not keep others waiting for all of its length.
        out.large.rotate_left(1);
        Ok(true)
    }

    fn note(&self, out: &Out) {
        // What TLS still holds waits too; an error shows at the next use.
        let held = !self.shared.channel.flush().unwrap_or(true);
        let waits = held || !out.short.is_empty() || !out.large.is_empty();
        self.shared.waits.store(waits, Ordering::Release);
    }

    fn lost(&self, out: &mut Out, e: &io::Error) -> Error {
        let error = self.shared.channel.broken(e);
        // What was handed over is given back.
        out.large.clear();
        out.short.clear();
        (out.short_bytes, out.short_sent, out.large_bytes) = (0, 0, 0);
        self.shared.waits.store(false, Ordering::Release);
        let error = out.lost.get_or_insert(error).clone();
        self.shared.turn.notify_all();
        error
    }
}

impl AsFd for StreamSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.channel.as_fd()
    }
}
