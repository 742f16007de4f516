//! The receiving half of a stream of frames: short frames through a buffer, large parts straight from the channel to
//! where they belong, which a [`Place`] says.
//!
//! Nothing that comes is believed: lengths are held against limits before memory is taken, pieces
//! against what their frame announced. A frame whose parts find no room is delivered with the
//! reason, and its pieces are read and dropped.

use super::channel::{Channel, DESCRIPTORS};
use super::sender::{PARTS, PIECE_BYTES, VOID};
use super::{Limits, Place, Target};
use crate::frame::{HEADER_BYTES, Header, kind};
use crate::hash::QuickMap;
use crate::pool::Lease;
use forebay_types::call::SLOTS;
use forebay_types::{Code, Error, Result};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
#[derive(Debug, Default)]
pub struct Received {
    /// Its header; `json` and `body` are what they hold.
    pub header: Header,
    /// Its JSON section.
    pub json: Vec<u8>,
    /// What stands behind that.
    pub body: Vec<u8>,
    /// Its large parts that came into leases.
    pub parts: Vec<Lease>,
    /// Why they could not be taken in, if so; then there are none.
    pub fault: Option<Error>,
    /// The descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

impl Received {
    fn is_bare(&self) -> bool {
        self.body.is_empty() && self.parts.is_empty()
    }

    fn bytes(&self) -> usize {
        self.json.len() + self.body.len()
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
    target: Target,
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
pub struct StreamReceiver {
    channel: Arc<Channel>,
    limits: Limits,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    piece: Option<Remainder>,
    unfinished: QuickMap<u64, Unfinished>,
    ready: VecDeque<Received>,
    ready_bytes: usize,
    /// How many of the frames in `ready` have a header only.
    bare: usize,
    /// Descriptors that came, and whose frames are to come.
    fds: VecDeque<OwnedFd>,
    /// Bytes on their way to a place that takes them itself.
    aside: Vec<u8>,
    /// Bytes that came so far.
    come: u64,
    heard: Arc<Heard>,
    ended: bool,
    /// What was wrong with what came: from then on nothing is right.
    fault: Option<Error>,
}

fn corrupt(why: impl Into<String>) -> Error {
    Error::new(
        Code::Corrupt,
        format!("the other side breaks the rules of a link: {}; close the connection", why.into()),
    )
}

impl StreamReceiver {
    pub(super) fn over(channel: Arc<Channel>, limits: Limits) -> StreamReceiver {
        StreamReceiver {
            channel,
            limits,
            buffer: Vec::new(),
            from: 0,
            to: 0,
            piece: None,
            unfinished: QuickMap::default(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            bare: 0,
            fds: VecDeque::new(),
            aside: Vec::new(),
            come: 0,
            heard: Arc::default(),
            ended: false,
            fault: None,
        }
    }

    /// From now on frames of this length are taken.
    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.come
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.buffer.len()
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
    pub fn try_recv(&mut self, place: &mut impl Place) -> Result<Option<Received>> {
        if self.ready.is_empty() {
            self.collect(1, place)?;
        }
        let Some(received) = self.ready.pop_front() else { return Ok(None) };
        self.ready_bytes -= received.bytes();
        self.bare -= usize::from(received.is_bare());
        Ok(Some(received))
    }

    /// Whether [`StreamReceiver::try_recv`] finds something, be it the end: it reads what is there.
    #[inline]
    pub fn pending(&mut self, place: &mut impl Place) -> bool {
        !self.ready.is_empty() || self.ended || self.collect(1, place).is_err() || !self.ready.is_empty()
    }

    /// Reads until so many frames are complete or nothing more is there.
    pub fn collect(&mut self, enough: usize, place: &mut impl Place) -> Result<()> {
        if let Some(e) = &self.fault {
            return Err(e.clone());
        }
        let collected = self.gather(enough, place);
        self.fault = collected.as_ref().err().cloned();
        collected
    }

    fn gather(&mut self, enough: usize, place: &mut impl Place) -> Result<()> {
        loop {
            while self.ready.len() < enough && self.parse(place)? {}
            if self.ready.len() >= enough.min(READY_FRAMES) || self.ready_bytes > READY_BYTES {
                return Ok(());
            }
            if self.ended && self.ready.is_empty() {
                return Err(self.end(None));
            }
            if self.ended || !self.read(place)? {
                return Ok(());
            }
        }
    }

    fn end(&mut self, e: Option<&io::Error>) -> Error {
        self.ended = true;
        e.map_or_else(|| self.channel.lost("closed"), |e| self.channel.broken(e))
    }

    /// Reads what is there; whether there was anything. In the middle of a piece it goes where it belongs.
    fn read(&mut self, place: &mut impl Place) -> Result<bool> {
        self.make_room();
        let direct = self.piece.as_ref().and_then(|piece| piece.goes(&mut self.unfinished, &mut self.aside));
        let wanted = direct.as_ref().map_or(0, |d| d.len());
        let got = match direct {
            // Behind the piece no more than the next header: what follows it goes its own way.
            Some(direct) => {
                let head = &mut self.buffer[..HEADER_BYTES];
                self.channel.read(&mut [IoSliceMut::new(direct), IoSliceMut::new(head)], &mut self.fds)
            }
            None => self.channel.read(&mut [IoSliceMut::new(&mut self.buffer[self.to..])], &mut self.fds),
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
                self.come += n as u64;
                if self.fds.len() > 4 * DESCRIPTORS {
                    return Err(corrupt("more descriptors came than any frame announced"));
                }
                let direct = n.min(wanted);
                if direct > 0 {
                    if let Some((token, at)) = self.through() {
                        place.take(token, at, &self.aside[..direct]);
                    }
                    self.advance(direct)?;
                }
                self.to += n - direct;
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if self.from == self.to && !self.limits.keep {
                    self.buffer = Vec::new();
                }
                Ok(false)
            }
            Err(e) => Err(self.end(Some(&e))),
        }
    }

    /// Room behind what waits in the buffer, which is given back when a long frame has gone.
    fn make_room(&mut self) {
        let least = self.limits.buffer;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            if self.buffer.len() != least {
                self.buffer = vec![0; least];
            }
        } else if self.to == self.buffer.len() {
            if self.from > 0 {
                self.buffer.copy_within(self.from..self.to, 0);
                (self.from, self.to) = (0, self.to - self.from);
            } else {
                // A frame that is within the limit and longer.
                self.buffer.resize(2 * self.to, 0);
            }
        }
    }

    /// By which number the place knows the part that it takes itself and the piece belongs to, and where in that its
    /// next bytes begin; none of a piece that goes elsewhere.
    fn through(&self) -> Option<(u64, u64)> {
        let Remainder { id, part, .. } = self.piece.as_ref()?;
        let Unfinished { target: Target::Through(token), lengths, .. } = self.unfinished.get(id)? else {
            return None;
        };
        Some((*token, lengths[*part].1))
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
        self.ready_bytes += frame.bytes();
        self.bare += usize::from(frame.is_bare());
        self.ready.push_back(frame);
    }

    /// Takes one thing out of the buffer; whether it could.
    fn parse(&mut self, place: &mut impl Place) -> Result<bool> {
        if let Some(piece) = &self.piece {
            let n = piece.left.min(self.to - self.from);
            if n == 0 {
                return Ok(false);
            }
            if let Some(place) = piece.leased(&mut self.unfinished) {
                place[..n].copy_from_slice(&self.buffer[self.from..self.from + n]);
            }
            if let Some((token, at)) = self.through() {
                place.take(token, at, &self.buffer[self.from..self.from + n]);
            }
            self.from += n;
            self.advance(n)?;
            return Ok(true);
        }
        let there = &self.buffer[self.from..self.to];
        if there.len() < HEADER_BYTES {
            return Ok(false);
        }
        let header = Header::decode(there, self.limits.frame.max(PIECE_BYTES + HEADER_BYTES) as u64)?;
        if header.kind == kind::PIECE {
            self.begin_piece(&header)?;
            return Ok(true);
        }
        let (json, total) =
            (header.json as usize, HEADER_BYTES + header.json as usize + header.body as usize);
        if total > self.limits.frame || json > 0 && !self.limits.json {
            return Err(corrupt(format!("a frame of {total} bytes with {json} bytes of JSON")));
        }
        if there.len() < total {
            return Ok(false);
        }
        let (json, body) = there[HEADER_BYTES..total].split_at(json);
        let frame = Received { header, json: json.to_vec(), body: body.to_vec(), ..Received::default() };
        self.from += total;
        if header.kind <= kind::PROOF { self.message(frame) } else { self.frame(frame, place) }?;
        Ok(true)
    }

    /// A frame of a conversation, with its descriptors.
    fn message(&mut self, mut frame: Received) -> Result<()> {
        let (announced, came) = (frame.header.number, self.fds.len());
        if announced > came.min(DESCRIPTORS) as u64 {
            return Err(corrupt(format!("a frame announces {announced} descriptors, {came} came")));
        }
        frame.fds = self.fds.drain(..announced as usize).collect();
        self.deliver(frame);
        Ok(())
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
        if header.body == 0 || header.body > (bytes - come).min(PIECE_BYTES as u64) {
            return Err(corrupt(format!("a piece of {} bytes where {} are due", header.body, bytes - come)));
        }
        self.piece = Some(Remainder { id, part: header.number as usize, left: header.body as usize });
        Ok(())
    }

    /// A frame that may have large parts.
    fn frame(&mut self, mut frame: Received, place: &mut impl Place) -> Result<()> {
        let header = frame.header;
        if header.kind == kind::BEAT {
            return Ok(());
        }
        if header.number > PARTS as u64 {
            return Err(corrupt(format!("a frame with {} large parts", header.number)));
        }
        let table = header.number as usize * 8;
        if table > frame.body.len() {
            return Err(corrupt("the table of its parts is cut off"));
        }
        let lengths: Vec<u64> = frame.body[..table]
            .chunks_exact(8)
            .map(|c| c.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)))
            .collect();
        frame.body.drain(..table);
        frame.header.body = frame.body.len() as u64;
        if lengths.is_empty() {
            self.deliver(frame);
            return Ok(());
        }
        let left = lengths.iter().try_fold(0u64, |sum, length| sum.checked_add(*length));
        let left = left.ok_or_else(|| corrupt("its parts are longer than anything"))?;
        if left > 0 && (self.unfinished.len() >= UNFINISHED || self.unfinished.contains_key(&header.id)) {
            return Err(corrupt(format!(
                "frame {} while its parts still come, or too many at a time",
                header.id
            )));
        }
        let target = match place.place(&frame.header, &frame.body, &lengths)? {
            Target::Leases(parts) => {
                frame.parts = parts;
                Target::Leases(Vec::new())
            }
            Target::Nowhere(why) => {
                frame.fault = Some(why.clone());
                Target::Nowhere(why)
            }
            through => through,
        };
        if left == 0 {
            self.deliver(frame);
            return Ok(());
        }
        let lengths = lengths.into_iter().map(|length| (length, 0)).collect();
        self.unfinished.insert(header.id, Unfinished { frame, target, lengths, left });
        Ok(())
    }
}

impl Remainder {
    /// Where the rest of a piece belongs in a lease of its frame.
    fn leased<'u>(&self, unfinished: &'u mut QuickMap<u64, Unfinished>) -> Option<&'u mut [u8]> {
        let Unfinished { frame, lengths, .. } = unfinished.get_mut(&self.id)?;
        let at = lengths.get(self.part)?.1 as usize;
        frame.parts.get_mut(self.part)?.bytes_mut().get_mut(at..at + self.left)
    }

    /// Where the rest of a piece belongs: in a lease of its frame, or in `aside` for a place that takes it itself;
    /// nowhere when the frame found no room.
    fn goes<'u>(
        &self,
        unfinished: &'u mut QuickMap<u64, Unfinished>,
        aside: &'u mut Vec<u8>,
    ) -> Option<&'u mut [u8]> {
        if !matches!(unfinished.get(&self.id)?.target, Target::Through(_)) {
            return self.leased(unfinished);
        }
        aside.resize(PIECE_BYTES, 0);
        aside.get_mut(..self.left)
    }
}

impl AsFd for StreamReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
