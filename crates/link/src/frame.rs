//! The bytes of a frame: a header of 64 bytes, then a JSON section, then a body.
//!
//! ```text
//!   0         4         6         8                16
//!   +---------+---------+---------+----------------+
//!   | "FBAY"  | version | kind    | request id     |
//!   +---------+---------+---------+----------------+
//!   | flags   | JSON bytes        | body bytes     |   16, 20, 24
//!   +---------+-------------------+----------------+
//!   | number: meaning by kind     | zero           |   32, 40
//!   +-----------------------------+------+---------+
//!   | zero                               | crc32c  |   48, 60: of bytes 0 to 59
//!   +------------------------------------+---------+
//! ```
//!
//! In a ring the record says the length already, the attachment has agreed on the version, and the
//! memory of one machine needs no checksum of ours; a frame then has the [`SHORT_BYTES`] that are
//! left, so that a void call is one line of the caches:
//!
//! ```text
//!   0         2         4         8                16
//!   +---------+---------+---------+----------------+
//!   | kind    | zero    | flags   | request id     | body ...
//!   +---------+---------+---------+----------------+
//! ```
//!
//! Magic, version and checksum keep their places in all versions, so that a peer of another
//! version is told by name. Decoding never panics and believes a length only within the limit
//! that the transport gives.

use forebay_types::call::RequestId;
use forebay_types::codec::Reader;
use forebay_types::control::WIRE_VERSION;
use forebay_types::{Code, Error, Result};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"FBAY";
const CHECKED: usize = 60;
/// Bytes of a header in a ring.
pub const SHORT_BYTES: usize = 16;

/// The kinds of frames on a control connection. Kinds from 16 on belong to calls
/// ([`forebay_types::call::kind`]), from 64 on to runs on other hosts ([`forebay_types::line::kind`]).
pub mod kind {
    /// The first frame of who connects.
    pub const HELLO: u16 = 1;
    /// The answer to it.
    pub const WELCOME: u16 = 2;
    /// A request; an answer of the same id follows.
    pub const ASK: u16 = 3;
    /// The answer, JSON of the result.
    pub const ANSWER: u16 = 4;
    /// The answer, JSON of code and text.
    pub const ERROR: u16 = 5;
    /// A message that nobody answers.
    pub const NOTE: u16 = 6;
    /// On the network, the answer to a hello: prove who you are.
    pub const CHALLENGE: u16 = 7;
    /// The answer to that; a welcome or an error follows.
    pub const PROOF: u16 = 8;
    /// On a call link over the network: a sign of life.
    pub const BEAT: u16 = 14;
    /// A piece of a large part of an earlier frame.
    pub const PIECE: u16 = 15;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: u16,
    /// Properties by kind.
    pub flags: u32,
    /// Which request it belongs to.
    pub id: u64,
    /// Bytes of the JSON section.
    pub json: u32,
    /// Bytes of the body.
    pub body: u64,
    /// A number by kind: how many descriptors come with a message, how many large parts with another frame.
    pub number: u64,
}

/// A frame of a call link that was received.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Its header.
    pub header: Header,
    /// What came, kept from frame to frame: of a ring all of it, header included.
    pub bytes: Vec<u8>,
    /// Where its body begins.
    head: usize,
}

impl Header {
    /// A header without sections.
    pub fn new(kind: u16, id: u64) -> Header {
        Header { kind, id, ..Header::default() }
    }

    /// The header of a frame about a request.
    pub fn about(kind: u16, request: RequestId) -> Header {
        Header { flags: request.flags(), ..Header::new(kind, request.id) }
    }

    /// The request that such a frame is about.
    pub fn request(&self) -> RequestId {
        RequestId::of(self.id, self.flags)
    }

    /// The bytes of the header.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        b[..4].copy_from_slice(&MAGIC);
        b[4..6].copy_from_slice(&(WIRE_VERSION as u16).to_le_bytes());
        b[6..8].copy_from_slice(&self.kind.to_le_bytes());
        b[8..16].copy_from_slice(&self.id.to_le_bytes());
        b[16..20].copy_from_slice(&self.flags.to_le_bytes());
        b[20..24].copy_from_slice(&self.json.to_le_bytes());
        b[24..32].copy_from_slice(&self.body.to_le_bytes());
        b[32..40].copy_from_slice(&self.number.to_le_bytes());
        let sum = forebay_types::crc32c(&b[..CHECKED]);
        b[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        b
    }

    /// The bytes of the header in a ring; there it has neither JSON nor a number.
    #[inline]
    pub fn encode_short(&self) -> [u8; SHORT_BYTES] {
        let mut b = [0; SHORT_BYTES];
        b[..2].copy_from_slice(&self.kind.to_le_bytes());
        b[4..8].copy_from_slice(&self.flags.to_le_bytes());
        b[8..].copy_from_slice(&self.id.to_le_bytes());
        b
    }

    /// Reads a header; `limit` is the largest frame, header included, that the transport takes.
    #[inline]
    pub fn decode(bytes: &[u8], limit: u64) -> Result<Header> {
        let mut r = Reader::new(bytes);
        let magic = r.raw(4)?;
        if magic != MAGIC {
            return Err(corrupt(format!("it begins with {magic:?} instead of \"FBAY\"")));
        }
        let head = bytes.get(..HEADER_BYTES).ok_or_else(|| corrupt("its header is cut off".into()))?;
        let version = u32::from(r.u16()?);
        let seen = u32::from_le_bytes([head[60], head[61], head[62], head[63]]);
        if seen != forebay_types::crc32c(&head[..CHECKED]) {
            return Err(corrupt("the checksum of its header is wrong".into()));
        }
        if version != WIRE_VERSION {
            return Err(Error::new(
                Code::VersionMismatch,
                format!(
                    "the other side speaks version {version} of the wire, this program version {WIRE_VERSION}; \
                     use the same version of Forebay on both sides"
                ),
            ));
        }
        let kind = r.u16()?;
        let id = r.u64()?;
        let (flags, json, body, number) = (r.u32()?, r.u32()?, r.u64()?, r.u64()?);
        let header = Header { kind, flags, id, json, body, number };
        match header.frame_bytes() {
            Some(n) if n <= limit => Ok(header),
            _ => Err(corrupt(format!("it announces {json} + {body} bytes, the limit is {limit}"))),
        }
    }

    /// Bytes of the whole frame; `None` beyond 2^64.
    #[inline]
    pub fn frame_bytes(&self) -> Option<u64> {
        (HEADER_BYTES as u64 + u64::from(self.json)).checked_add(self.body)
    }
}

/// The sections of a frame that stands in a buffer: header, JSON, body.
pub type Sections<'a> = (Header, &'a [u8], &'a [u8]);

/// The frame that the bytes of a stream begin with, once all of it has come. `limit` is the
/// largest that the transport takes.
pub fn first(bytes: &[u8], limit: u64) -> Result<Option<Sections<'_>>> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let header = Header::decode(bytes, limit)?;
    let total = header.frame_bytes().and_then(|n| usize::try_from(n).ok());
    let sections = total.and_then(|n| bytes.get(HEADER_BYTES..n));
    Ok(sections.map(|sections| {
        let (json, body) = sections.split_at(header.json as usize);
        (header, json, body)
    }))
}

impl Frame {
    /// Reads a frame out of `self.bytes`, a record of a ring.
    #[inline]
    pub fn decode_short_in_place(&mut self) -> Result<()> {
        let mut r = Reader::new(&self.bytes);
        let (kind, zero, flags, id) = (r.u16()?, r.u16()?, r.u32()?, r.u64()?);
        if zero != 0 {
            return Err(corrupt(format!("{zero} stands where a zero should in a header of a ring")));
        }
        let body = r.remaining() as u64;
        self.header = Header { kind, flags, id, json: 0, body, number: 0 };
        self.head = SHORT_BYTES;
        Ok(())
    }

    /// A frame that came as header and body.
    pub fn set(&mut self, header: Header, body: Vec<u8>) {
        *self = Frame { header, bytes: body, head: 0 };
    }

    /// The body as bytes of its own, in this buffer unless they stand in one already.
    #[inline]
    pub fn take_body(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        if self.head == 0 {
            return std::mem::take(&mut self.bytes);
        }
        buffer.extend_from_slice(self.body());
        buffer
    }

    /// The body.
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }
}

fn corrupt(what: String) -> Error {
    Error::new(Code::Corrupt, format!("not a frame of Forebay: {what}; close the connection"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_a_header_stay_as_they_are_for_ever() {
        let header = Header { kind: 3, flags: 4, id: 5, json: 6, body: 7, number: 8 };
        let mut expected = Vec::from(*b"FBAY\x0a\x00\x03\x00");
        for word in [5u64, 4 | 6 << 32, 7, 8, 0, 0] {
            expected.extend(word.to_le_bytes());
        }
        expected.extend(0u32.to_le_bytes());
        expected.extend(0x7717_64f4_u32.to_le_bytes());
        assert_eq!(header.encode()[..60], expected[..60]);
        assert_eq!(header.encode()[60..], expected[60..], "{:02x?}", &header.encode()[60..]);
    }

    #[test]
    fn a_peer_of_another_version_is_told_both_versions() {
        let mut bytes = Header::new(kind::HELLO, 0).encode();
        bytes[4] = 99;
        let sum = forebay_types::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        let error = Header::decode(&bytes, 1 << 20).unwrap_err();
        assert_eq!(error.code(), Code::VersionMismatch);
        assert!(error.text().contains("version 99"), "{error}");
        assert!(error.text().contains(&format!("program version {WIRE_VERSION}")), "{error}");
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            kind: u16, flags: u32, id: u64, number: u64,
            json in proptest::collection::vec(any::<u8>(), 0..200),
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let header = Header { kind, flags, id, number, json: json.len() as u32, body: body.len() as u64 };
            let bytes = [&header.encode()[..], &json, &body, b"what follows"].concat();
            let frame = bytes.len() - b"what follows".len();
            for n in [frame, bytes.len()] {
                let (found, text, rest) = first(&bytes[..n], frame as u64).unwrap().unwrap();
                prop_assert_eq!(text, &json[..]);
                prop_assert_eq!(rest, &body[..]);
                prop_assert_eq!(found, header);
            }
            prop_assert_eq!(first(&bytes[..frame - 1], frame as u64).unwrap(), None);
            prop_assert!(first(&bytes, frame as u64 - 1).is_err());
        }

        #[test]
        fn hostile_bytes_are_refused_and_never_believed(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200), mend: bool, limit in 0u64..1000,
        ) {
            if mend && bytes.len() >= HEADER_BYTES {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4..6].copy_from_slice(&(WIRE_VERSION as u16).to_le_bytes());
                let sum = forebay_types::crc32c(&bytes[..60]);
                bytes[60..64].copy_from_slice(&sum.to_le_bytes());
            }
            if let Ok(header) = Header::decode(&bytes, limit) {
                prop_assert!(header.frame_bytes().unwrap() <= limit);
            }
            if let Ok(Some((header, json, body))) = first(&bytes, limit) {
                let total = HEADER_BYTES + json.len() + body.len();
                prop_assert!(header.frame_bytes() == Some(total as u64) && total <= bytes.len());
            }
        }

        #[test]
        fn a_flipped_bit_in_a_header_is_noticed(id: u64, body in 0u64..1000, bit in 0usize..512) {
            let mut bytes = Header { kind: 16, id, body, ..Header::default() }.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&bytes, u64::MAX).is_err());
        }
    }
}
