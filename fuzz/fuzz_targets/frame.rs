//! Bytes of nobody in particular as a frame: `cargo +nightly fuzz run frame`.
//!
//! The checksum is mended in every second input, so that what stands behind it is reached.
#![no_main]

use forebay_link::Frame;
use forebay_link::frame::{HEADER_BYTES, Header, SHORT_BYTES, first};
use libfuzzer_sys::fuzz_target;

const LIMIT: u64 = 1 << 20;

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (mend, mut bytes) = input;
    if mend && bytes.len() >= HEADER_BYTES {
        bytes[..6].copy_from_slice(b"FBAY\x01\0");
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    }
    if let Ok(header) = Header::decode(&bytes, LIMIT) {
        assert!(header.frame_bytes().is_some_and(|n| n <= LIMIT));
        // Bytes that mean nothing are not kept, so encoding may mend but never change a meaning.
        assert_eq!(Header::decode(&header.encode(), LIMIT).as_ref(), Ok(&header));
    }
    if let Ok(Some((header, json, body))) = first(&bytes, LIMIT) {
        let total = HEADER_BYTES + json.len() + body.len();
        assert!(header.frame_bytes() == Some(total as u64) && total <= bytes.len());
    }
    let mut frame = Frame { bytes, ..Frame::default() };
    if frame.decode_short_in_place().is_ok() {
        assert_eq!(SHORT_BYTES + frame.body().len(), frame.bytes.len());
    }
});
