//! What this program does with bytes that another process wrote, as functions of those bytes:
//! each is a target of libFuzzer, and `tests/fuzz` feeds all of them in every run of the tests.
//!
//! | target | what the bytes are |
//! | --- | --- |
//! | `directives` | a program with directives, as somebody writes it |
//! | `frame` | one frame, as a control socket or a ring holds it |
//! | `link` | what a peer sends over a call link of the network |
//! | `line` | what the other host sends over a line of a run |
//! | `handshake` | what a stranger says to an open door, and what a false door says to who knocks |
//! | `interface` | an interface file of a library |
//! | `neutral` | the text form of a run, as a file that is imported |
//! | `ring` | what the other side leaves anywhere in a segment of shared memory |
//! | `record` | records, notices, requests, replies, questions and answers |
//! | `text` | JSON of every kind, signatures, addresses |
//! | `recover` | what a rank that died left to the store of its run |

mod directives;
mod frame;
mod handshake;
mod interface;
mod line;
mod link;
mod neutral;
mod record;
#[cfg(feature = "store")]
mod recover;
mod ring;
mod text;

pub use directives::directives;
pub use frame::frame;
pub use handshake::handshake;
pub use interface::interface;
pub use line::line;
pub use link::link;
pub use neutral::neutral;
pub use record::record;
#[cfg(feature = "store")]
pub use recover::recover;
pub use ring::ring;
pub use text::text;

use forebay_link::frame::HEADER_BYTES;
use forebay_types::control::WIRE_VERSION;

/// Gives a header the magic, the version and the checksum without which nobody looks any further.
fn mend(head: &mut [u8]) {
    head[..4].copy_from_slice(b"FBAY");
    head[4..6].copy_from_slice(&(WIRE_VERSION as u16).to_le_bytes());
    let sum = forebay_types::crc32c(&head[..HEADER_BYTES - 4]);
    head[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// The same for every header of a stream; lengths become such that others follow.
fn mend_all(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = bytes.get_mut(at..at + HEADER_BYTES) {
        head[26..32].fill(0);
        head[22..24].fill(0);
        mend(head);
        let json = usize::from(u16::from_le_bytes([head[20], head[21]]));
        let body = usize::from(u16::from_le_bytes([head[24], head[25]]));
        at += HEADER_BYTES + json + body;
    }
}
