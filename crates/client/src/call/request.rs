//! From arguments to the bytes of a request: small ones inline, large ones copied once, into a
//! block of the segment where the service will work on them.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use forebay_arena::Block;
use forebay_link::call::{NotLent, breathe};
use forebay_link::frame::SHORT_BYTES;
use forebay_link::standing;
use forebay_types::call::{self, Call, INLINE_BYTES, INLINE_TOTAL, Item, Location};
use forebay_types::codec::Writer;
use forebay_types::record::BlockRef;
use forebay_types::{Code, DType, Error, Given, Param, Signature};

use super::args::Arg;
use super::connection::{Chunk, Connection, Pending, Told};
use super::files::Carried;
use super::transfer::{Large, OwnCopy};
use super::{Inner, Sent, spare};

pub(super) struct Request<'r, 'a> {
    pub inner: &'r Inner,
    pub id: u64,
    pub issue: u32,
    pub allowed: Option<Duration>,
    /// Whether somebody wants to know where the time goes.
    pub timed: bool,
    pub signature: &'r Signature,
    pub args: &'r [Arg<'a>],
    /// Copies of them, or none.
    pub kept: &'r [Option<OwnCopy>],
    pub given: &'r [Given],
    /// Where its files are kept.
    pub files: Option<&'r Carried>,
    /// Who is told of its end, beside whoever waits for it.
    pub told: Told<'r>,
}

/// A request that has gone, and when, if somebody wants to know.
type Issued = (Arc<Pending>, Option<Instant>);

/// Where the bytes of an argument are taken from.
#[derive(Clone, Copy)]
struct From<'r, 'a> {
    arg: &'r Arg<'a>,
    kept: Option<&'r OwnCopy>,
}

impl<'r> From<'r, '_> {
    fn len(&self) -> usize {
        self.kept.map_or_else(|| self.arg.len(), |kept| kept.bytes().len())
    }

    fn bytes(&self) -> Result<Cow<'r, [u8]>, Error> {
        self.kept.map_or_else(|| self.arg.bytes(), |kept| Ok(Cow::Borrowed(kept.bytes())))
    }

    fn fill(&self, block: &mut Block) -> Result<(), Error> {
        match self.kept {
            Some(kept) => block.write_shared(0, kept.bytes()),
            None => return self.arg.fill(block),
        }
        Ok(())
    }
}

/// What of a request lies where.
struct Placed<'r> {
    items: Vec<Item>,
    inline: Vec<Cow<'r, [u8]>>,
    at: usize,
    /// Files, so far.
    files: usize,
    chunks: Vec<(usize, Chunk)>,
    /// Large arguments that go over the network from where they lie.
    parts: Vec<Cow<'r, [u8]>>,
    /// Copies that do.
    kept: Vec<OwnCopy>,
}

/// Now, for this process and in nanoseconds of the host's monotonic clock. One reading serves for
/// both: they are the same clock, which `Instant` does not tell.
fn now() -> (Instant, u64) {
    static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();
    let (instant, ns) = ORIGIN.get_or_init(|| {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (Instant::now(), now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    });
    let now = Instant::now();
    (now, ns + now.duration_since(*instant).as_nanos() as u64)
}

impl<'r> Request<'r, '_> {
    /// Copies and sends it, and says when it was sent.
    pub fn send(&self, connection: &Connection, until: Option<Instant>) -> Result<Issued, Sent> {
        connection.look_if_idle();
        if let Some(lost) = connection.lost() {
            return Err(Sent::Lost(lost.clone()));
        }
        let placed = self.place_all(connection, until)?;
        let (sent, sent_ns) = self.timed.then(now).unzip();
        let body = self.encode(&placed, sent_ns.unwrap_or(0));
        let parts: Vec<&[u8]> = placed.parts.iter().map(|p| &p[..]).collect();
        let large = match self.kept {
            [] => Large::Here(&parts),
            _ => Large::Kept(&placed.kept),
        };
        let done = self.push(connection, until, &body, placed.chunks, large);
        spare::keep_buffer(body);
        done.map(|pending| (pending, sent))
    }

    /// The words of one whose arguments and results are small: all of them travel inside it.
    pub fn words(&self, connection: &Connection) -> Option<Vec<u8>> {
        let room = |given: &Given, arg: &Arg| match given {
            Given::Array { meta, .. } => meta.bytes().unwrap_or(u64::MAX),
            _ => arg.len() as u64,
        };
        let bytes: u64 = self.given.iter().zip(self.args).map(|(given, arg)| room(given, arg)).sum();
        let is_small = bytes <= INLINE_BYTES as u64;
        is_small.then(|| self.try_place(connection).ok()).flatten().map(|placed| self.encode(&placed, 0))
    }

    /// Copies and sends it if it goes at once, and says when it was sent; nothing when there is no room just now.
    pub fn try_send(&self, connection: &Connection) -> Result<Option<Issued>, Sent> {
        if let Some(lost) = connection.lost() {
            return Err(Sent::Lost(lost.clone()));
        }
        let placed = match self.try_place(connection) {
            Ok(placed) => placed,
            Err(e) if e.may_come => return Ok(None),
            Err(e) => return Err(Sent::Not(e.error)),
        };
        let (sent, sent_ns) = self.timed.then(now).unzip();
        let body = self.encode(&placed, sent_ns.unwrap_or(0));
        let large = match self.kept {
            [] => Large::Here(&[]),
            _ => Large::Kept(&placed.kept),
        };
        let mut is_full = false;
        let full = || {
            is_full = true;
            Err(Error::new(Code::Full, "the server takes no more requests just now"))
        };
        let done = connection.send(self.id, self.told, &body, placed.chunks, large, full);
        spare::keep_buffer(body);
        match done {
            Ok(pending) => Ok(Some((pending, sent))),
            Err((why, chunks)) => {
                connection.free(chunks);
                match why {
                    Some(e) if !is_full => Err(self.unsent(connection, e)),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Places all arguments, or none.
    fn try_place(&self, connection: &Connection) -> Result<Placed<'r>, NotLent> {
        let mut placed = Placed {
            items: Vec::with_capacity(self.args.len()),
            inline: Vec::new(),
            at: 0,
            files: 0,
            chunks: Vec::new(),
            parts: Vec::new(),
            kept: Vec::new(),
        };
        let mut params = self.signature.passed().enumerate();
        match params.try_for_each(|(i, param)| self.place(connection, i, param, &mut placed)) {
            Ok(()) => Ok(placed),
            Err(e) => {
                connection.free(placed.chunks);
                Err(e)
            }
        }
    }

    /// Places all arguments. While others that are under way have taken the room it is waited for.
    fn place_all(&self, connection: &Connection, until: Option<Instant>) -> Result<Placed<'r>, Sent> {
        let mut wait = Waiting { request: self, connection, until, since: None, looked: None };
        loop {
            let e = match self.try_place(connection) {
                Ok(placed) => return Ok(placed),
                Err(e) => e,
            };
            if !e.may_come || !connection.is_busy() {
                return Err(Sent::Not(e.error));
            }
            let _wait = standing::Wait::begin();
            if let Err(e) = wait.once() {
                return Err(self.unsent(connection, e));
            }
            breathe(wait.since());
        }
    }

    /// What it says of the server that a request did not go. Replies may have been taken meanwhile.
    fn unsent(&self, connection: &Connection, e: Error) -> Sent {
        self.inner.pump.brought();
        match connection.lost() {
            Some(lost) => Sent::Lost(lost.clone()),
            None if e.code() == Code::ServerLost => Sent::Lost(e),
            None => Sent::Not(e),
        }
    }

    /// Waits for room while the server lives and time is left.
    fn push(
        &self,
        connection: &Connection,
        until: Option<Instant>,
        body: &[u8],
        mut chunks: Vec<(usize, Chunk)>,
        large: Large,
    ) -> Result<Arc<Pending>, Sent> {
        let _wait = standing::Wait::begin();
        let mut wait = Waiting { request: self, connection, until, since: None, looked: None };
        loop {
            let (why, back) = match connection.send(self.id, self.told, body, chunks, large, || wait.once()) {
                Ok(pending) => return Ok(pending),
                Err(refused) => refused,
            };
            chunks = back;
            let fault = why.or_else(|| wait.once().err());
            if let Some(e) = fault {
                connection.free(chunks);
                return Err(self.unsent(connection, e));
            }
            breathe(wait.since());
        }
    }

    fn place(
        &self,
        connection: &Connection,
        index: usize,
        param: &Param,
        placed: &mut Placed<'r>,
    ) -> Result<(), NotLent> {
        let arg = &self.args[index];
        let from = From { arg, kept: self.kept.get(index).and_then(Option::as_ref) };
        let item = match (&self.given[index], arg) {
            (Given::Str, _) if param.is_file => {
                let number = self.files.map_or(0, |files| files.number(placed.files));
                placed.files += 1;
                Item::Text(DType::Str, Location::Held { number, bytes: 0 })
            }
            (Given::Scalar(scalar), _) => Item::Scalar(*scalar),
            (Given::Array { meta, .. }, Arg::Ref(_, reference)) => {
                if let Some(uses) = reference.uses() {
                    placed.chunks.push((index, Chunk::Held { _use: uses.call(param.way.comes()) }));
                }
                Item::Array(*meta, Location::Held { number: reference.number(), bytes: meta.bytes()? })
            }
            (Given::Array { meta, .. }, _) => {
                // A result that is made anew has no memory here.
                let bytes = meta.bytes()? as usize;
                Item::Array(*meta, placed.put(connection, index, param, bytes, from)?)
            }
            (Given::Str, _) => {
                Item::Text(DType::Str, placed.put(connection, index, param, from.len(), from)?)
            }
            (_, _) => Item::Text(DType::Bytes, placed.put(connection, index, param, from.len(), from)?),
        };
        placed.items.push(item);
        Ok(())
    }

    fn encode(&self, placed: &Placed, sent_ns: u64) -> Vec<u8> {
        let mut w = Writer::over(spare::buffer());
        let call = Call {
            sent_ns,
            allowed_ns: self.allowed.map_or(0, |a| u64::try_from(a.as_nanos()).unwrap_or(0)),
            issue: self.issue,
            service: self.signature.name().as_str(),
        };
        call::put_call(&mut w, &call, placed.items.len());
        placed.items.iter().for_each(|item| call::put_item(&mut w, item));
        let mut bytes = w.finish();
        if placed.at > 0 {
            bytes.resize(bytes.len() + call::padding(SHORT_BYTES + bytes.len()), 0);
            for piece in &placed.inline {
                bytes.extend_from_slice(piece);
                bytes.resize(bytes.len() + call::padding(SHORT_BYTES + bytes.len()), 0);
            }
        }
        bytes
    }
}

/// Waiting for room.
struct Waiting<'w, 'r, 'a> {
    request: &'w Request<'r, 'a>,
    connection: &'w Connection,
    until: Option<Instant>,
    since: Option<Instant>,
    looked: Option<Instant>,
}

impl Waiting<'_, '_, '_> {
    fn since(&mut self) -> Instant {
        *self.since.get_or_insert_with(Instant::now)
    }

    /// Takes replies, which may make room, and looks whether waiting still makes sense.
    fn once(&mut self) -> Result<(), Error> {
        let since = self.since();
        let looked = self.looked.get_or_insert(since);
        if looked.elapsed() > Duration::from_millis(50) {
            *looked = Instant::now();
            self.connection.look();
            self.request.inner.interrupted()?;
        }
        if let Some(objection) = standing::objection() {
            return Err(objection);
        }
        while self.connection.drain() {
            self.request.inner.pump.brought();
        }
        if let Some(e) = self.connection.lost() {
            return Err(e.clone());
        }
        if self.until.is_some_and(|u| Instant::now() >= u) {
            return Err(Error::new(Code::Timeout, "the server takes no more requests just now"));
        }
        Ok(())
    }
}

impl<'r> Placed<'r> {
    /// Decides where the bytes of an argument go, and copies large ones there.
    fn put(
        &mut self,
        connection: &Connection,
        index: usize,
        param: &Param,
        bytes: usize,
        from: From<'r, '_>,
    ) -> Result<Location, NotLent> {
        let len = bytes as u64;
        let goes = param.way.goes();
        if bytes <= INLINE_BYTES && self.at + bytes <= INLINE_TOTAL {
            if !goes {
                return Ok(Location::None { bytes: len });
            }
            let at = self.at;
            self.inline.push(from.bytes()?);
            self.at = (at + bytes).next_multiple_of(call::ALIGN);
            return Ok(Location::Inline { at: at as u32, bytes: len as u32 });
        }
        let index = match connection.block(len)? {
            Some(mut block) => {
                let (number, filled) = (block.index(), if goes { from.fill(&mut block) } else { Ok(()) });
                self.chunks.push((index, Chunk::Block(block, param.way.comes())));
                filled?;
                number
            }
            None if !goes => return Ok(Location::None { bytes: len }),
            None => match from.kept {
                Some(kept) => {
                    self.kept.push(kept.clone());
                    self.kept.len() as u32 - 1
                }
                None => {
                    self.parts.push(from.bytes()?);
                    self.parts.len() as u32 - 1
                }
            },
        };
        Ok(Location::Block(BlockRef { segment: 0, index, bytes: len }))
    }
}
