//! From arguments to the bytes of a request: small ones inline, large ones copied once, into a
//! block of the segment where the service will work on them.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use forebay_arena::Block;
use forebay_link::frame::SHORT_BYTES;
use forebay_types::call::{self, Call, INLINE_BYTES, INLINE_TOTAL, Item, Place};
use forebay_types::codec::Writer;
use forebay_types::record::BlockRef;
use forebay_types::{Code, DType, Error, Given, Param, Signature};

use super::args::Arg;
use super::connection::{Connection, Pending, breathe};
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
    pub given: &'r [Given],
}

/// What of a request lies where.
struct Placed<'r> {
    items: Vec<Item>,
    inline: Vec<Cow<'r, [u8]>>,
    at: usize,
    blocks: Vec<(usize, Block)>,
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
    pub fn send(
        &self,
        connection: &Connection,
        until: Option<Instant>,
    ) -> Result<(Arc<Pending>, Option<Instant>), Sent> {
        let mut placed = Placed {
            items: Vec::with_capacity(self.args.len()),
            inline: Vec::new(),
            at: 0,
            blocks: Vec::new(),
        };
        for (index, param) in self.signature.passed().enumerate() {
            if let Err(e) = self.place(connection, index, param, &mut placed) {
                connection.free(placed.blocks.into_iter().map(|(_, block)| block));
                return Err(Sent::Not(e));
            }
        }
        let (sent, sent_ns) = self.timed.then(now).unzip();
        let body = self.encode(&placed, sent_ns.unwrap_or(0));
        let done = self.push(connection, until, &body, placed.blocks);
        spare::keep_buffer(body);
        done.map(|pending| (pending, sent))
    }

    /// Waits for room in the ring while the server lives and time is left.
    fn push(
        &self,
        connection: &Connection,
        until: Option<Instant>,
        body: &[u8],
        mut blocks: Vec<(usize, Block)>,
    ) -> Result<Arc<Pending>, Sent> {
        let mut since = None;
        let mut looked = None;
        loop {
            let (why, back) = match connection.send(self.id, body, blocks) {
                Ok(pending) => return Ok(pending),
                Err(refused) => refused,
            };
            blocks = back;
            let since = *since.get_or_insert_with(Instant::now);
            let looked = looked.get_or_insert(since);
            let mut interrupted = Ok(());
            let late = until.is_some_and(|u| Instant::now() >= u);
            if looked.elapsed() > Duration::from_millis(50) {
                connection.look();
                *looked = Instant::now();
                interrupted = self.inner.interrupted();
            }
            let fault = match (why.or(interrupted.err()), connection.lost()) {
                (Some(e), _) => Some(Sent::Not(e)),
                (None, Some(e)) => Some(Sent::Lost(e.clone())),
                (None, None) if late => Some(Sent::Not(Error::new(
                    Code::Timeout,
                    "the server takes no more requests just now and the time is over",
                ))),
                (None, None) => None,
            };
            if let Some(fault) = fault {
                connection.free(blocks.into_iter().map(|(_, block)| block));
                return Err(fault);
            }
            connection.drain();
            breathe(since);
        }
    }

    fn place(
        &self,
        connection: &Connection,
        index: usize,
        param: &Param,
        placed: &mut Placed<'r>,
    ) -> Result<(), Error> {
        let arg = &self.args[index];
        let item = match (&self.given[index], arg) {
            (Given::Scalar(scalar), _) => Item::Scalar(*scalar),
            (Given::Array { meta, .. }, Arg::Ref(_, reference)) => {
                Item::Array(*meta, Place::Held { number: reference.number(), bytes: meta.bytes()? })
            }
            (Given::Array { meta, .. }, _) => Item::Array(*meta, placed.put(connection, index, param, arg)?),
            (Given::Str, _) => Item::Text(DType::Str, placed.put(connection, index, param, arg)?),
            (_, _) => Item::Text(DType::Bytes, placed.put(connection, index, param, arg)?),
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

impl<'r> Placed<'r> {
    /// Decides where the bytes of an argument go, and copies large ones there.
    fn put(
        &mut self,
        connection: &Connection,
        index: usize,
        param: &Param,
        arg: &'r Arg,
    ) -> Result<Place, Error> {
        let bytes = arg.len();
        let len = bytes as u64;
        let goes = param.way.goes();
        if bytes <= INLINE_BYTES && self.at + bytes <= INLINE_TOTAL {
            if !goes {
                return Ok(Place::None { bytes: len });
            }
            let at = self.at;
            self.inline.push(arg.bytes());
            self.at = (at + bytes).next_multiple_of(call::ALIGN);
            return Ok(Place::Inline { at: at as u32, bytes: len as u32 });
        }
        let mut block = connection.block(len)?;
        if goes {
            arg.fill(&mut block);
        }
        let place = Place::Block(BlockRef { segment: 0, index: block.index(), bytes: len });
        self.blocks.push((index, block));
        Ok(place)
    }
}
