//! What goes into the catalog with the next group, and what comes of it.

use super::event::Stored;
use super::exact;
use crate::catalog::FailedAttempt;
use crate::stepfile::Manifest;
use forebay_types::control::Ask;
use forebay_types::record::Record;
use forebay_types::watch::{Act, Declare};
use forebay_types::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A record that waits for its group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Item {
    /// As it came.
    Record { session: u64, seq: u64, bytes: Vec<u8> },
    /// A put whose bytes are in a file now, with the record it came by.
    Stored { session: u64, seq: u64, bytes: Vec<u8>, stored: Stored },
    /// A put whose file could not be written.
    Failed { session: u64, seq: u64, bytes: Vec<u8>, error: Error },
    /// The session is over; if its memory on another host may have more, the life of the run that it was of.
    Closed { session: u64, seq: u64, away: Option<u64> },
    /// The file of a step is durable under its name.
    Step { manifest: Box<Manifest>, file: String },
    /// What is here of a step that lacks ranks is durable under its name.
    Partial { manifest: Box<Manifest>, file: String },
    /// Sessions that are over when ranks go back: what is behind the step that the run goes back to is none of theirs.
    Over { sessions: Vec<u64> },
    /// All is here now that the memory of this session on another host had: steps that lack more of it do so for ever.
    Brought { session: u64 },
    /// A record of a step that lacks other ranks goes from its ring into the catalog; it begins at `at` in the ring.
    Pending { session: u64, seq: u64, step: i64, at: u64 },
    /// The disk has no room for so many steps that are coming: what does not stay beside them goes now.
    MakeRoom { coming: u64 },
    /// Records of a step up to that number are needed there no more.
    Settled { session: u64, step: i64, last: u64 },
    /// An attempt at a step has failed, or another rank has made it since.
    Failing(Box<FailedAttempt>),
    /// Every rank has made an attempt, and nothing of it is in a ring any more.
    Forgotten { attempt: u64 },
    /// A record that a dead program left means nothing to this catalog.
    Unread { session: u64, seq: u64, bytes: Vec<u8>, why: String },
    /// What became of something that was acknowledged, for the log of the run.
    Note { session: u64, step: i64, level: u8, text: String },
    /// Somebody asked for an act of steering.
    Asked { id: u64, who: String, act: Act },
    /// An act that no rank carries out came to its end.
    Ended { id: u64, step: i64, code: u32, text: String },
}

impl Item {
    /// The session and the number of its record, if it came from one.
    pub fn source(&self) -> Option<(u64, u64)> {
        match self {
            Item::Record { session, seq, .. }
            | Item::Stored { session, seq, .. }
            | Item::Failed { session, seq, .. }
            | Item::Closed { session, seq, .. } => Some((*session, *seq)),
            Item::Pending { .. }
            | Item::Unread { .. }
            | Item::Settled { .. }
            | Item::Failing(_)
            | Item::Forgotten { .. }
            | Item::Step { .. }
            | Item::Partial { .. }
            | Item::Brought { .. }
            | Item::MakeRoom { .. }
            | Item::Over { .. }
            | Item::Note { .. }
            | Item::Asked { .. }
            | Item::Ended { .. } => None,
        }
    }

    /// What a rank asks by it.
    pub fn ask(&self) -> Option<Ask> {
        let Item::Record { bytes, .. } = self else { return None };
        match Record::decode(bytes) {
            Ok((_, Record::Ask { json })) => serde_json::from_str(json).ok(),
            _ => None,
        }
    }

    /// Whether somebody asks to go back to the last complete step.
    pub fn is_restart(&self) -> bool {
        matches!(self.ask(), Some(Ask::Restart { .. }))
    }

    /// Whether somebody asks to close the session.
    pub fn is_closing(&self) -> bool {
        matches!(self.ask(), Some(Ask::Close { .. }))
    }

    /// Bytes of the record.
    pub fn bytes(&self) -> usize {
        match self {
            Item::Record { bytes, .. } | Item::Stored { bytes, .. } | Item::Failed { bytes, .. } => {
                bytes.len()
            }
            _ => 0,
        }
    }

    /// Whether it is a put: one statement of SQL.
    pub fn is_put(&self) -> bool {
        match self {
            Item::Record { bytes, .. } => Record::is_put(bytes),
            Item::Stored { .. } => true,
            _ => false,
        }
    }

    /// Whether nobody was promised that it is durable before the next flush.
    pub fn may_wait(&self) -> bool {
        match self {
            Item::Record { bytes, .. } => Record::only_adds(bytes),
            Item::Failing(_) | Item::Forgotten { .. } | Item::Settled { .. } => true,
            _ => false,
        }
    }

    /// Whether later records mean nothing without what it makes: a table, a diagram, a parameter.
    pub fn declares(&self) -> bool {
        match self {
            Item::Record { bytes, .. } if !Record::only_adds(bytes) => {
                matches!(Record::decode(bytes), Ok((_, Record::Declare { .. })))
                    || matches!(self.ask(), Some(Ask::Table { .. }))
            }
            _ => false,
        }
    }

    /// Number of its record; 0 without one.
    pub fn seq(&self) -> u64 {
        self.source().map_or(0, |s| s.1)
    }
}

/// What a group did, once it is committed.
#[derive(Serialize, Deserialize)]
pub(crate) enum Effect {
    Answer {
        session: u64,
        seq: u64,
        result: Result<Json>,
    },
    /// From here on some steps go when others come.
    Keeps,
    /// The request waits for files, or asks for something beyond the catalog.
    Later {
        session: u64,
        seq: u64,
        ask: Ask,
    },
    /// Something acknowledged could not be done; the number of its record, and the record as it came, if it is
    /// a small one.
    Late {
        session: u64,
        error: Error,
        record: Option<(u64, Vec<u8>)>,
    },
    Version {
        session: u64,
        seq: u64,
        outcome: Result<u64>,
    },
    DeleteFile(String),
    Tell(Tell),
    /// What whoever sits before the rank should know.
    Remark {
        session: u64,
        text: String,
    },
    Closed {
        session: u64,
    },
    /// A rank went back, the first one of all that do so together or another one; these steps are listed no more.
    WentBack {
        session: u64,
        aside: Vec<i64>,
        is_first: bool,
    },
    /// A rank goes where another one went back to.
    Followed {
        session: u64,
    },
    /// A step was dropped; this is its file.
    Dropped {
        step: i64,
        file: String,
    },
    /// A step is older than those that stay; this is its file.
    Outlived {
        step: i64,
        file: String,
    },
    /// A step is listed.
    Listed {
        step: i64,
        #[serde(with = "exact")]
        time: Option<f64>,
    },
    /// What is here of a step that lacks ranks is kept.
    Partial(Box<Manifest>),
    /// A step that lacked ranks is whole, or is not wanted any more; this is the file of what was here of it.
    Forsaken {
        step: i64,
        file: String,
    },
    /// A step whose file is there could not be listed.
    Unlisted {
        step: i64,
        error: Error,
    },
}

/// What people watch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Tell {
    Declare {
        session: u64,
        what: Declare,
    },
    Append {
        session: u64,
        diagram: u32,
        /// Number of the first value's row in the catalog; the others follow.
        row: i64,
        step: i64,
        #[serde(with = "exact")]
        t: f64,
        #[serde(with = "exact")]
        values: Vec<(u32, f64)>,
    },
    /// A point that was told has another value.
    Amend {
        session: u64,
        /// Diagram, curve and row.
        at: (u32, u32, i64),
        #[serde(with = "exact")]
        t: f64,
        #[serde(with = "exact")]
        value: f64,
    },
    Applied {
        session: u64,
        id: u64,
        step: i64,
        code: u32,
        text: String,
    },
    Message {
        session: u64,
        level: u8,
        step: i64,
        text: String,
    },
}

impl Effect {
    /// Whether a file goes that the row before pointed to.
    pub fn frees(&self) -> bool {
        matches!(self, Effect::DeleteFile(_))
    }
}
