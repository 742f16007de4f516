//! Bytes as one frame. The header is mended in every second input, so that what stands behind it is reached.

use forebay_link::Frame;
use forebay_link::frame::{HEADER_BYTES, Header, SHORT_BYTES, first};

const LIMIT: u64 = 1 << 20;

pub fn frame(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if how & 1 == 0 && bytes.len() >= HEADER_BYTES {
        super::mend(&mut bytes);
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
    let mut frame = Frame::default();
    frame.bytes.extend_from_slice(&bytes);
    if frame.decode_short_in_place().is_ok() {
        assert_eq!(SHORT_BYTES + frame.body().len(), frame.bytes.len());
    }
}
