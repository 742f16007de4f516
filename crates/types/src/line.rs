//! What goes over a line: between a rank on one host and the store of its run on another.
//!
//! The rank's segment stays the custody log. The other host keeps a *mirror* of it, with the same
//! rings and the same blocks at the same places, so records travel as they are. Frames are those of
//! `link::frame`; requests and answers are JSON, the rest is drawn here.
//!
//! | kind | name | from | body |
//! | --- | --- | --- | --- |
//! | 0x40 | records | rank | each: length `u32` (bit 31: a block follows), record, then if so index `u32`, generation `u32`, offset `u64`, length `u64` |
//! | 0x41 | block | rank | index `u32`, generation `u32`, first byte `u64`; its large part: the bytes |
//! | 0x42 | rank | rank | [`RankWords`] |
//! | 0x43 | curve | rank | block `u32`, points `u32`, step `i64`, time `f64`, abscissae, ordinates |
//! | 0x50 | notice | owner | the notice; the frame's id counts them from 1 |
//! | 0x51 | owner | owner | [`OwnerWords`] |
//! | 0x52 | released | owner | index `u32`, generation `u32` of each block |
//! | 0x53 | watched | owner | block `u32`, 0 or 1 `u32` of each curve |
//! | 0x60 | read | reader | [`crate::reading`] |
//! | 0x61 | data | owner | [`crate::reading`]; flag 1: more follows |

use crate::Result;
use crate::codec::{Reader, Writer};
use crate::control::{OpenRun, RunOpened, word};
use serde::{Deserialize, Serialize};

/// Kinds of frames on a line.
pub mod kind {
    /// Records of the log.
    pub const RECORDS: u16 = 0x40;
    /// Bytes of a block.
    pub const BLOCK: u16 = 0x41;
    /// The rank's control words.
    pub const RANK: u16 = 0x42;
    /// The newest points of a curve.
    pub const CURVE: u16 = 0x43;
    /// A notice to the rank.
    pub const NOTICE: u16 = 0x50;
    /// The owner's control words.
    pub const OWNER: u16 = 0x51;
    /// Blocks that the owner is done with.
    pub const RELEASED: u16 = 0x52;
    /// Curves that somebody looks at, or not any more.
    pub const WATCHED: u16 = 0x53;
    /// A question of a reader.
    pub const READ: u16 = 0x60;
    /// An answer to it.
    pub const DATA: u16 = 0x61;
}

/// Set in the length of a record that is followed by the place of its block.
pub const WITH_BLOCK: u32 = 1 << 31;

/// The first request of a line, and those that follow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LineRequest {
    /// A rank opens a run; `path` is its name under the directory that the agent gives to runs of
    /// other hosts. Answer: [`RunOpened`].
    OpenRemote {
        /// As on one host.
        open: OpenRun,
        /// Who writes it.
        host: String,
        /// Its process there.
        pid: u32,
        /// How that came to be; an older peer, or one that cannot see its parent, does not say.
        #[serde(default)]
        launched: Option<Launched>,
        /// Goes on with what an earlier session left: only what the catalog lacks is sent again.
        after: Option<After>,
    },
    /// Then: the sizes of the rank's segment. Answer: [`RemoteAttached`].
    AttachRemote(Measures),
    /// First, after the line was cut. Answer: [`RemoteResumed`], or `NotFound`: nobody keeps that
    /// session any more.
    ResumeRemote {
        /// As [`RemoteAttached`] gave it.
        key: String,
        /// Notices that arrived.
        heard: u64,
    },
    /// First: this line reads a run. Answer: null.
    ReadRemote {
        /// The run's name, as in `OpenRemote`.
        path: String,
    },
}

/// How a process came to be. Two with one launcher and different programs are two programs of one job, whose ranks
/// are numbered as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// The process that started it, in words that no two processes share on any host at any time: boot of the host,
    /// name space of the pid, pid, and time of its start.
    pub by: String,
    /// Checksum of its program and arguments.
    pub program: u32,
}

/// An earlier session whose rest is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// Its number.
    pub session: u64,
    /// How the names of its segments end. `Refused`: a copy of the run has that session, with other segments.
    pub own: String,
}

/// Sizes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measures {
    /// Bytes of the up ring.
    pub up: u64,
    /// Bytes of the down ring.
    pub down: u64,
    /// Bytes of all blocks.
    pub block_bytes: u64,
    /// Entries of the block table.
    pub blocks: u32,
}

/// Answer to [`LineRequest::OpenRemote`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteOpened {
    /// As on one host; the segment's name is that of the mirror.
    pub opened: RunOpened,
    /// What the catalog has of the session named by `after`.
    pub left: Option<Left>,
}

/// What is in the catalog of a session that is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// Small records up to this number took effect.
    pub applied: u64,
    /// Complete steps, and those that lack other ranks only.
    pub steps: Vec<i64>,
}

/// Answer to [`LineRequest::AttachRemote`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteAttached {
    /// Opens the session again after a cut; known to nobody else.
    pub key: String,
}

/// Answer to [`LineRequest::ResumeRemote`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoteResumed {
    /// Last record that arrived.
    pub seq: u64,
    /// Where the mirror's up ring ends.
    pub tail: u64,
    /// Blocks that the owner holds: index, generation, bytes that arrived.
    pub blocks: Vec<(u32, u32, u64)>,
}

/// Which control words one side writes and the other side's copy of the segment follows, in the order of their frame;
/// a field without a word is a number that belongs to the frame.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident $(= $word:ident)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of_field])* pub $field: u64,)*
        }

        impl $name {
            /// Reads the words; the other fields are 0.
            pub fn load(read: impl Fn(usize) -> u64) -> Self {
                $name { $($field: words!(@of read $($word)?),)* }
            }

            /// Gives each word with its value.
            pub fn each(&self, mut store: impl FnMut(usize, u64)) {
                $($(store(word::$word, self.$field);)?)*
            }

            /// The bytes.
            pub fn encode(&self) -> Vec<u8> {
                let mut w = Writer::new();
                $(w.u64(self.$field);)*
                w.finish()
            }

            /// Reads them.
            pub fn decode(bytes: &[u8]) -> Result<Self> {
                let mut r = Reader::new(bytes);
                Ok($name { $($field: r.u64()?,)* })
            }
        }
    };
    (@of $read:ident $word:ident) => { $read(word::$word) };
    (@of $read:ident) => { 0 };
}

words! {
    /// The control words of the owner, as its host has them.
    OwnerWords {
        /// The session is over.
        closed = CLOSED,
        /// Small records that are committed.
        applied = APPLIED,
        /// The last durable step.
        durable = DURABLE,
        /// The loop head stops there.
        gate = GATE,
        /// How often the gate was set; the rank's side sends it back. Loaded before the gate.
        epoch = EPOCH,
        /// Nanoseconds of hidden output.
        hidden = HIDDEN_NS,
        /// Bytes made durable.
        written = WRITTEN_BYTES,
        /// Commits of the catalog.
        commits = COMMITS,
        /// Where the run went back to.
        from = FROM,
        /// Position in the mirror's up ring up to which it was released.
        released,
        /// Bytes of blocks that came over this connection.
        taken,
    }
}

words! {
    /// The control words of the rank, as its host has them.
    RankWords {
        /// The step that is computed, loaded after the gate of `epoch` was stored.
        step = STEP,
        /// Whether it is held.
        held = HELD,
        /// Nanoseconds of visible output.
        visible = VISIBLE_NS,
        /// The owner's gate that is in force.
        epoch,
        /// Notices that arrived.
        heard,
        /// Why it wants the run to end.
        wish = WISH,
        /// Nanoseconds that the fastest copies would have cost.
        ideal = IDEAL_NS,
        /// Bytes that did not fit its buffer.
        overflow = OVERFLOW_BYTES,
        /// Most bytes of buffers in use.
        high_water = HIGH_WATER_BYTES,
    }
}

/// Where a block lies, behind the record that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Index in the table.
    pub index: u32,
    /// Which use of the entry.
    pub generation: u32,
    /// Offset in the segment.
    pub offset: u64,
    /// Length.
    pub len: u64,
}

/// Writes a record into the body of a records frame.
pub fn put_record(w: &mut Writer, record: &[u8], block: Option<&BlockPlace>) {
    let flag = if block.is_some() { WITH_BLOCK } else { 0 };
    w.u32(record.len() as u32 | flag).raw(record);
    if let Some(b) = block {
        w.u32(b.index).u32(b.generation).u64(b.offset).u64(b.len);
    }
}

/// Reads the next record of a records frame.
pub fn take_record<'a>(r: &mut Reader<'a>) -> Result<(&'a [u8], Option<BlockPlace>)> {
    let word = r.u32()?;
    let record = r.raw((word & !WITH_BLOCK) as usize)?;
    let block = match word & WITH_BLOCK {
        0 => None,
        _ => Some(BlockPlace { index: r.u32()?, generation: r.u32()?, offset: r.u64()?, len: r.u64()? }),
    };
    Ok((record, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_of_an_older_peer_that_does_not_say_how_it_was_launched_is_read() {
        let open = r#"{"path":"x","mode":"Append","rank":0,"size":2,"full":"Block","scratch":false,"buffer":1,"program":"p"}"#;
        let text = format!(r#"{{"OpenRemote":{{"open":{open},"host":"h","pid":7,"after":null}}}}"#);
        let LineRequest::OpenRemote { pid, launched, .. } = serde_json::from_str(&text).unwrap() else {
            panic!("{text}")
        };
        assert_eq!((pid, launched), (7, None));
    }

    #[test]
    fn records_and_words_come_back_as_they_were_and_short_ones_are_refused() {
        let mut w = Writer::new();
        let place = BlockPlace { index: 3, generation: 9, offset: 8192, len: 77 };
        put_record(&mut w, b"one", None);
        put_record(&mut w, b"two", Some(&place));
        let bytes = w.finish();
        let mut r = Reader::new(&bytes);
        assert_eq!(take_record(&mut r).unwrap(), (&b"one"[..], None));
        assert_eq!(take_record(&mut r).unwrap(), (&b"two"[..], Some(place)));
        assert_eq!(r.remaining(), 0);
        for n in 0..bytes.len() {
            let mut r = Reader::new(&bytes[..n]);
            assert!(take_record(&mut r).and_then(|_| take_record(&mut r)).is_err(), "{n} bytes");
        }
        let words = OwnerWords { gate: u64::MAX, taken: 5, ..OwnerWords::default() };
        assert_eq!(OwnerWords::decode(&words.encode()).unwrap(), words);
        assert!(RankWords::decode(&[0; 71]).is_err());
    }
}
