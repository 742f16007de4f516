//! Requests and replies of calls: what stands behind the header of a frame.
//!
//! The way of an array: a small one travels *inline*, behind the words of the request, at an
//! offset that is a multiple of 16; a large one lies in a block of the client's segment, where
//! the service works on it in place. Results take the same way back: inline ones in the reply,
//! blocks stay where they are.
//!
//! ```text
//!  request: sent u64 | time left u64 | issue u32 | service str | n u8 | n arguments | pad | inline data
//!  argument: 0 | scalar: dtype u8, bytes          reply: code u32 | running u32 | queued u32
//!            1 | text:   dtype u8, place                 | waited u64 | ran u64 | text str
//!            2 | array:  dtype u8, order u8,             | n u8 | n results | pad | inline data
//!                        shape, place
//!  place:    0 | inline: at u32, bytes u32        result:   as an argument
//!            1 | block:  segment u32, index u32, bytes u64
//!            2 | none:   bytes u64 (the other side makes room)
//!            3 | held:   number u64, bytes u64 (an array that the server holds; with a text, a file)
//! ```
//!
//! Nothing here trusts a length: [`get_call`] and [`get_outcome`] check every place against the array it belongs to and the bytes that are there.

use serde::{Deserialize, Serialize};

use crate::codec::{Reader, Writer};
use crate::directory::Incarnation;
use crate::record::BlockRef;
use crate::{ArrayMeta, Code, DType, Error, Result, Scalar, limits};

/// Kinds of frames between a client and a server.
pub mod kind {
    /// A request; the header carries its [`RequestId`](super::RequestId).
    pub const REQUEST: u16 = 0x10;
    /// A reply, or the last part of one.
    pub const REPLY: u16 = 0x11;
    /// A part of a reply that is larger than a record.
    pub const REPLY_PART: u16 = 0x12;
    /// Over the network: the request of that [`RequestId`](super::RequestId) is not wanted any more.
    pub const CANCEL: u16 = 0x13;
}

/// Arguments up to this many bytes travel inside the request; larger ones in a block.
pub const INLINE_BYTES: usize = 4 * 1024;
/// All inline arguments of one request together.
pub const INLINE_TOTAL: usize = 64 * 1024;
/// Largest arguments of a client under way at one server, all together; the memory of the machine
/// may be less.
pub const ARGUMENT_BYTES: u64 = 64 << 30;
/// Largest text and bytes that a reply may carry all together.
pub const REPLY_BYTES: usize = 64 << 20;
/// Largest part of a reply.
pub const PART_BYTES: usize = 64 * 1024;
/// Inline data begin, and each piece begins, at a multiple of this, counted from the frame's first byte.
pub const ALIGN: usize = 16;

/// Flag of a reply over the network: what stands behind its header comes as its first large part.
pub const BODY_APART: u32 = 1;
/// Flag of a request or reply over the network: the numbers in its arrays are big endian. Whoever
/// receives them makes them right.
pub const BIG_ENDIAN: u32 = 2;

/// The words of the control page of a client's segment. Each has one writer.
pub mod word {
    /// Server: counts up while its heart beats, however busy it is.
    pub const HEARTBEAT: usize = 0;
    /// Client: 1 when it has given the server up; nothing of this segment is executed any more.
    pub const ABANDONED: usize = 1;
    /// Client: 0, or one more than the index of a block of [`SLOTS`](super::SLOTS) words, one for each slot: a request
    /// is not wanted any more if the word of its slot holds its id.
    pub const CANCELLED: usize = 2;
}

/// Most requests of a client that are under way at one server.
pub const SLOTS: usize = 1 << 16;

/// Which request it is. The id is the client's own for ever; the slot is the request's while it is under way, so that
/// one word for each slot says exactly which ones are not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Its number.
    pub id: u64,
    /// Its slot.
    pub slot: u16,
}

impl RequestId {
    /// The flags of its header: the upper half is the slot.
    pub fn flags(self) -> u32 {
        u32::from(self.slot) << 16
    }

    /// From a header.
    pub fn of(id: u64, flags: u32) -> RequestId {
        RequestId { id, slot: (flags >> 16) as u16 }
    }
}

/// What a client says to a server over its socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerRequest {
    /// Take my segment (first descriptor) and ring my doorbell (second), a pipe. Answer: [`Attached`]
    /// with the server's.
    Attach {
        /// Number of the client, unique for its life.
        client: u64,
    },
    /// This connection is for files of my calls ([`crate::file`]). Answer: [`Attached`].
    Files {
        /// Number of the client.
        client: u64,
    },
    /// Give me the segment in which you hold my arrays ([`crate::held`]). Answer: [`Attached`] with it, and this
    /// connection ends.
    Arrays {
        /// Number of the client.
        client: u64,
    },
}

/// What a server says to a client that attached itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attached {
    /// This life of the server.
    pub incarnation: Incarnation,
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Where the bytes of an argument or result are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the frame, `at` bytes from the start of its inline data.
    Inline {
        /// Offset.
        at: u32,
        /// Length.
        bytes: u32,
    },
    /// In a block of the client's segment of that number.
    Block(BlockRef),
    /// Nowhere yet, or in the place that the request named.
    None {
        /// Length.
        bytes: u64,
    },
    /// In an array that the server holds for this client (see [`crate::held`]), or, for a text, in a file that it keeps
    /// for it (see [`crate::file`]).
    Held {
        /// The number that the client gave it.
        number: u64,
        /// Length.
        bytes: u64,
    },
}

impl Location {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Location::Inline { bytes, .. } => (*bytes).into(),
            Location::Block(block) => block.bytes,
            Location::None { bytes } | Location::Held { bytes, .. } => *bytes,
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An argument or a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// A scalar.
    Scalar(Scalar),
    /// Text (`Str`) or bytes (`Bytes`).
    Text(DType, Location),
    /// An array.
    Array(ArrayMeta, Location),
}

/// The words of a request before its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// When it was sent, in nanoseconds of the host's monotonic clock; 0 when nobody wants to know
    /// where the time went.
    pub sent_ns: u64,
    /// How long the client waits, from then; 0 for ever.
    pub allowed_ns: u64,
    /// 0 when it is issued for the first time, 1 when another server was lost with it, and so on.
    pub issue: u32,
    /// Name of the service.
    pub service: &'a str,
}

/// The words of a reply before its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// Code of the error, 0 when done.
    pub code: u32,
    /// Requests that the server works on.
    pub running: u32,
    /// Requests that wait there.
    pub queued: u32,
    /// Nanoseconds between the arrival of the request and its beginning.
    pub waited_ns: u64,
    /// Nanoseconds that the service ran.
    pub ran_ns: u64,
    /// Text of the error, empty when done.
    pub text: &'a str,
}

/// Writes the words of a request; [`put_item`] and [`padding`] follow.
#[inline]
pub fn put_call(w: &mut Writer, call: &Call, arguments: usize) {
    w.u64(call.sent_ns).u64(call.allowed_ns).u32(call.issue).str(call.service).u8(arguments as u8);
}

/// Writes the words of a reply; [`put_item`] and [`padding`] follow.
#[inline]
pub fn put_outcome(w: &mut Writer, outcome: &Outcome, results: usize) {
    w.u32(outcome.code).u32(outcome.running).u32(outcome.queued);
    w.u64(outcome.waited_ns).u64(outcome.ran_ns).str(outcome.text).u8(results as u8);
}

/// Writes an argument or result.
pub fn put_item(w: &mut Writer, item: &Item) {
    match item {
        Item::Scalar(s) => {
            w.u8(0).u8(s.dtype() as u8).raw(s.bytes());
        }
        Item::Text(dtype, place) => {
            w.u8(1).u8(*dtype as u8);
            put_place(w, place);
        }
        Item::Array(meta, place) => {
            w.u8(2).u8(meta.dtype as u8).u8(meta.order as u8).shape(&meta.shape);
            put_place(w, place);
        }
    }
}

fn put_place(w: &mut Writer, place: &Location) {
    match place {
        Location::Inline { at, bytes } => w.u8(0).u32(*at).u32(*bytes),
        Location::Block(b) => w.u8(1).u32(b.segment).u32(b.index).u64(b.bytes),
        Location::None { bytes } => w.u8(2).u64(*bytes),
        Location::Held { number, bytes } => w.u8(3).u64(*number).u64(*bytes),
    };
}

/// Bytes of padding so that what follows `len` bytes begins at a multiple of [`ALIGN`].
pub fn padding(len: usize) -> usize {
    len.next_multiple_of(ALIGN) - len
}

fn corrupt(why: String) -> Error {
    Error::new(Code::Corrupt, why)
}

fn get_place(r: &mut Reader) -> Result<Location> {
    Ok(match r.u8()? {
        0 => Location::Inline { at: r.u32()?, bytes: r.u32()? },
        1 => Location::Block(BlockRef { segment: r.u32()?, index: r.u32()?, bytes: r.u64()? }),
        2 => Location::None { bytes: r.u64()? },
        3 => Location::Held { number: r.u64()?, bytes: r.u64()? },
        other => return Err(corrupt(format!("{other} is no place of an argument"))),
    })
}

fn get_item(r: &mut Reader) -> Result<Item> {
    let (tag, dtype) = (r.u8()?, DType::from_code(r.u8()?).map_err(|e| corrupt(e.text().to_owned()))?);
    Ok(match tag {
        0 => {
            Item::Scalar(Scalar::from_bytes(dtype, r.raw(dtype.size())?).map_err(|e| corrupt(e.to_string()))?)
        }
        1 if dtype.is_text() => Item::Text(dtype, get_place(r)?),
        2 => {
            let order = r.order()?;
            let shape = r.shape().map_err(|e| corrupt(e.to_string()))?;
            let meta = ArrayMeta { dtype, shape, order };
            let place = get_place(r)?;
            let bytes = meta.bytes().map_err(|e| corrupt(e.to_string()))?;
            if place.len() != bytes {
                return Err(corrupt(format!("an array {meta} comes with {} bytes", place.len())));
            }
            Item::Array(meta, place)
        }
        other => return Err(corrupt(format!("{other} is no kind of argument"))),
    })
}

/// Reads the items and returns them with the offset at which the inline data begin.
#[inline]
fn get_items(bytes: &[u8], r: &mut Reader, before: usize, items: &mut Vec<Item>) -> Result<usize> {
    items.clear();
    let n = r.u8()? as usize;
    if n > limits::PARAMETERS {
        return Err(corrupt(format!("{n} arguments are beyond the limit of {}", limits::PARAMETERS)));
    }
    for _ in 0..n {
        items.push(get_item(r)?);
    }
    let words = bytes.len() - r.remaining();
    let data = words + padding(before + words);
    let room = bytes.len().saturating_sub(data) as u64;
    for item in items.iter() {
        let (Item::Text(_, place) | Item::Array(_, place)) = item else { continue };
        if place.len() > ARGUMENT_BYTES {
            return Err(corrupt(format!("an argument of {} bytes is beyond the limit", place.len())));
        }
        if let Location::Inline { at, bytes } = place
            && u64::from(*at) + u64::from(*bytes) > room
        {
            return Err(corrupt(format!("an argument of {bytes} bytes at {at} leaves its frame")));
        }
    }
    Ok(data.min(bytes.len()))
}

/// Reads a request. `before` is how many bytes of the frame stand in front of it; the arguments
/// go into `items`; the result says where in `bytes` the inline data begin.
#[inline]
pub fn get_call<'a>(bytes: &'a [u8], before: usize, items: &mut Vec<Item>) -> Result<(Call<'a>, usize)> {
    let mut r = Reader::new(bytes);
    let (sent_ns, allowed_ns) = (r.u64()?, r.u64()?);
    let (issue, service) = (r.u32()?, r.str()?);
    let data = get_items(bytes, &mut r, before, items)?;
    Ok((Call { sent_ns, allowed_ns, issue, service }, data))
}

/// Reads a reply, as [`get_call`] reads a request.
#[inline]
pub fn get_outcome<'a>(
    bytes: &'a [u8],
    before: usize,
    items: &mut Vec<Item>,
) -> Result<(Outcome<'a>, usize)> {
    let mut r = Reader::new(bytes);
    let (code, running, queued) = (r.u32()?, r.u32()?, r.u32()?);
    let (waited_ns, ran_ns, text) = (r.u64()?, r.u64()?, r.str()?);
    let data = get_items(bytes, &mut r, before, items)?;
    Ok((Outcome { code, running, queued, waited_ns, ran_ns, text }, data))
}

/// Bytes of a reply without text and results.
const BARE_BYTES: usize = 33;

/// Reads a reply of a call that has ended well and gives nothing back; none of another reply.
#[inline]
pub fn get_bare_outcome(bytes: &[u8]) -> Option<Outcome<'static>> {
    let bytes: &[u8; BARE_BYTES] = bytes.try_into().ok()?;
    let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let whole = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
    let is_bare = half(0) == 0 && half(28) == 0 && bytes[32] == 0;
    is_bare.then(|| Outcome {
        code: 0,
        running: half(4),
        queued: half(8),
        waited_ns: whole(12),
        ran_ns: whole(20),
        text: "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, Shape};
    use proptest::prelude::*;

    const CALL: Call = Call { sent_ns: 1, allowed_ns: 2, issue: 3, service: "axpy" };

    fn sample() -> (Vec<Item>, Vec<u8>) {
        let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(&[2, 3]).unwrap(), order: Order::F };
        let block = BlockRef { segment: 1, index: 5, bytes: 48 };
        let items = vec![
            Item::Scalar(Scalar::from(2.5)),
            Item::Text(DType::Str, Location::Inline { at: 0, bytes: 5 }),
            Item::Array(meta, Location::Block(block)),
            Item::Array(meta, Location::None { bytes: 48 }),
            Item::Array(meta, Location::Inline { at: 16, bytes: 48 }),
            Item::Array(meta, Location::Held { number: 9, bytes: 48 }),
        ];
        let mut w = Writer::new();
        put_call(&mut w, &CALL, items.len());
        items.iter().for_each(|i| put_item(&mut w, i));
        let mut bytes = w.finish();
        bytes.resize(bytes.len() + padding(64 + bytes.len()), 0);
        bytes.extend_from_slice(&[9; 64]);
        (items, bytes)
    }

    #[test]
    fn a_request_reads_back_as_it_was_written() {
        let (items, bytes) = sample();
        let mut read = Vec::new();
        let (call, data) = get_call(&bytes, 64, &mut read).unwrap();
        assert_eq!((call, &read, data), (CALL, &items, bytes.len() - 64));
        assert_eq!((64 + data) % ALIGN, 0);
        for cut in 0..bytes.len() {
            assert_eq!(get_call(&bytes[..cut], 64, &mut read).unwrap_err().code(), Code::Corrupt);
        }
    }

    #[test]
    fn a_reply_reads_back_as_it_was_written() {
        let outcome = Outcome { code: 6, running: 1, queued: 2, waited_ns: 3, ran_ns: 4, text: "no" };
        let mut w = Writer::new();
        put_outcome(&mut w, &outcome, 1);
        put_item(&mut w, &Item::Scalar(Scalar::from(true)));
        let bytes = w.finish();
        let mut read = Vec::new();
        assert_eq!(get_outcome(&bytes, 0, &mut read).unwrap().0, outcome);
        assert_eq!(read, [Item::Scalar(Scalar::from(true))]);
    }

    #[test]
    fn a_reply_that_gives_nothing_back_is_read_alike_both_ways_and_no_other_one_is() {
        let put = |outcome: &Outcome, items: &[Item]| {
            let mut w = Writer::new();
            put_outcome(&mut w, outcome, items.len());
            items.iter().for_each(|item| put_item(&mut w, item));
            w.finish()
        };
        let well = Outcome { code: 0, running: 1, queued: 2, waited_ns: 3 << 40, ran_ns: 4 << 40, text: "" };
        let bytes = put(&well, &[]);
        assert_eq!(get_bare_outcome(&bytes), Some(well));
        assert_eq!(get_outcome(&bytes, 0, &mut Vec::new()).unwrap().0, well);
        let others = [
            put(&Outcome { code: 6, ..well }, &[]),
            put(&Outcome { text: "no", ..well }, &[]),
            put(&well, &[Item::Scalar(Scalar::from(true))]),
            bytes[..bytes.len() - 1].to_vec(),
            Vec::new(),
        ];
        assert!(others.iter().all(|bytes| get_bare_outcome(bytes).is_none()));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut items = Vec::new();
            let _ = get_call(&bytes, 64, &mut items);
            let _ = get_outcome(&bytes, 64, &mut items);
        }

        #[test]
        fn a_flipped_bit_never_makes_a_place_leave_the_frame(at in 0usize..300, bit in 0u8..8) {
            let (_, mut bytes) = sample();
            let n = bytes.len();
            bytes[at % n] ^= 1 << bit;
            let mut items = Vec::new();
            if let Ok((_, data)) = get_call(&bytes, 64, &mut items) {
                for item in &items {
                    if let Item::Text(_, Location::Inline { at, bytes: b }) | Item::Array(_, Location::Inline { at, bytes: b }) = item {
                        prop_assert!(data + *at as usize + *b as usize <= n);
                    }
                }
            }
        }
    }
}
