//! What the machine hears, and what it wants done. Times count from the owner's beginning; bytes are named
//! and never held.

use super::item::{Effect, Item, Tell};
use crate::stepfile::{Facts, Manifest};
use forebay_types::control::{Ask, Heads};
use forebay_types::record::{HeldBlock, Overlap, Record};
use forebay_types::watch::Act;
use forebay_types::{ArrayMeta, Compression, Error, Result, Shape, SortBy};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;

use super::absent::Absence;
use super::session::Session;

/// A time: how long the owner has been there.
pub(crate) type Now = Duration;

/// A record: its session and its number.
pub(crate) type Ticket = (u64, u64);

/// A file on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Of a step.
    Step(i64),
    /// Of a data set outside steps, by its record.
    Put(Ticket),
    /// Of what is here of a step that lacks ranks.
    Partial(i64),
}

/// Where the bytes of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// In a block of the session's segments.
    Block(HeldBlock),
    /// With the driver, which was told to keep them, by their record.
    Kept,
    /// In the file of what is here of a step that lacked ranks, from this byte on.
    Sealed(u64),
}

/// A part of a piece of a data set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub name: String,
    pub units: String,
    /// The whole data set.
    pub meta: ArrayMeta,
    pub rank: u32,
    pub offset: Shape,
    pub local: Shape,
    pub from: u64,
    pub len: u64,
    pub bytes: Bytes,
    pub ticket: Ticket,
    /// Behind this part the piece is whole, and has this checksum.
    pub sum: Option<u32>,
    /// What holds where pieces of other ranks lie over this one, if they may.
    pub over: Option<Overlap>,
    /// How its chunks are to be compressed.
    pub compress: Option<Compression>,
    /// Of particles that are to lie in an order in the file.
    pub sort: Option<SortBy>,
}

/// Parts that are to be written into a file, in this order.
#[derive(Debug)]
pub(crate) struct Work {
    pub id: u64,
    pub key: Key,
    /// The work of the same file that is done first; if that fails, this one is not done.
    pub behind: Option<u64>,
    /// Its name in the run.
    pub file: String,
    pub parts: Vec<Arc<Part>>,
    /// Then it is complete: it gets its name and is made durable.
    pub facts: Option<Box<Facts>>,
    /// Each part is reported when it is in the file.
    pub tell_each: bool,
    /// The file is small: such works are done together.
    pub small: bool,
}

/// What a file is now, as far as those who write know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FileState {
    /// There is none.
    None,
    /// What failed can be asked for again as if nothing had happened.
    Sound,
    /// It can be gone on with, and is better written anew.
    Unsound,
    /// Nobody knows what of it is on the disk.
    Lost,
}

/// A file that is durable under its name.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Sealed {
    /// With what is to be told of its arrays: pieces that are not what those over them are, though they had to be; and how
    /// particles lie that were to lie in an order.
    Step(Box<Manifest>, Vec<Error>, Vec<String>),
    Put(Stored),
    Partial(Box<Manifest>),
}

/// Where a large data set now lies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub file: String,
    pub offset: u64,
    pub crc: u32,
}

/// How a work ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub id: u64,
    /// So many of its parts are in the file.
    pub written: usize,
    pub result: Result<Option<Sealed>>,
    pub file: FileState,
    pub took: Duration,
    pub bytes: u64,
}

impl Done {
    /// Of a work that was not begun.
    pub fn not_begun(id: u64, why: Error) -> Done {
        Done { id, written: 0, result: Err(why), file: FileState::Sound, took: Duration::ZERO, bytes: 0 }
    }
}

/// What happened.
#[derive(Serialize, Deserialize)]
pub(crate) enum Event<'a> {
    /// A session was admitted while no rank lived.
    Alone {
        session: u64,
        /// The first session of this life of the run.
        life: u64,
    },
    /// A session begins, or one is there that an earlier owner left.
    Enter(Box<Session>),
    /// The rank of an adopted session has come; what it has asked and found no answer to, of what the predecessor has
    /// not done.
    Resumed {
        session: u64,
        #[serde(default)]
        asks: Vec<u64>,
    },
    /// A record was read, from a ring, or one that was `pending` in the catalog (or is in both). If it names a
    /// block: whether that is valid, and whether its bytes are there.
    #[serde(skip)]
    Record {
        session: u64,
        position: u64,
        seq: u64,
        record: &'a Record<'a>,
        bytes: &'a [u8],
        block: Option<Result<bool>>,
        pending: bool,
    },
    /// A request stands in a ring behind what stops the reading of it. It is read all the same when its turn comes.
    Ahead {
        session: u64,
        position: u64,
        seq: u64,
        ask: Ask,
    },
    /// What was read there is no record.
    Unreadable {
        session: u64,
        position: u64,
        error: Error,
    },
    /// A ring is damaged.
    Broken {
        session: u64,
        error: Error,
    },
    /// A ring was found empty.
    Empty {
        session: u64,
    },
    /// Nothing more will come from a rank.
    Hung {
        session: u64,
    },
    /// A look at a rank: whether its process lives, whether it has left, and whether that is not known yet.
    Seen {
        session: u64,
        lives: bool,
        left: bool,
        unsure: bool,
    },
    /// A rank was seen to do something else than to open this run.
    Absent {
        rank: u32,
        absence: Absence,
    },
    /// The bytes of a block are there now.
    Arrived(Ticket),
    /// A part is in its file.
    Written {
        id: u64,
        ticket: Ticket,
    },
    Done(Box<Done>),
    /// All that a step was taken with, or why it cannot be said.
    Described {
        step: i64,
        facts: Result<Box<Facts>>,
    },
    /// A round of reading is over.
    Turn,
    /// The group is in the catalog; what that did.
    Committed {
        group: Vec<Item>,
        effects: Vec<Effect>,
    },
    /// It is not.
    NotCommitted {
        group: Vec<Item>,
        error: Error,
    },
    /// A request that an earlier owner has read and not answered.
    Request {
        session: u64,
        seq: u64,
        ask: Ask,
    },
    /// Somebody asks for an act of steering, or says how one ended that no rank carries out.
    Steer {
        ticket: u64,
        who: String,
        act: Act,
    },
    Steered {
        id: u64,
        step: i64,
        code: u32,
        text: String,
    },
    /// Somebody waits until everything is durable.
    Flush {
        ticket: u64,
    },
    /// Steps that are listed, and those of them that are damaged.
    Listed {
        steps: Vec<i64>,
        damaged: Vec<i64>,
        #[serde(default)]
        partial: Vec<Manifest>,
    },
    /// All sessions end, then the owner; those of clients go on at the next one, if they may.
    Close {
        #[serde(default)]
        clients_go_on: bool,
    },
    /// Nothing more can be written, or is wanted.
    Lose(Error),
}

/// How a group is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    Durable,
    /// Nobody was promised that it is durable before the next flush.
    Lazy,
    /// The ends of sessions whose closing was answered: nobody waits for them.
    Silent,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub(crate) enum Action {
    Work(Box<Work>),
    /// A file is not needed: what there is of it goes.
    Discard(Key),
    Commit {
        group: Vec<Item>,
        how: Commit,
    },
    /// What a step was taken with is asked of the catalog; of one that lacked ranks what it knew then.
    Describe {
        step: i64,
        time: Option<f64>,
        heads: Option<Heads>,
        lacked: bool,
    },
    /// The catalog was ill: its log, which may lack pages, goes into its main file.
    Settle,
    /// How far a session is applied.
    Applied {
        session: u64,
        seq: u64,
    },
    /// A ring is given back up to here.
    Release {
        session: u64,
        position: u64,
    },
    Free {
        session: u64,
        block: HeldBlock,
    },
    /// The bytes of a record are kept: those of a block, or those that came with it.
    Keep {
        ticket: Ticket,
        from: Option<HeldBlock>,
    },
    Forget(Vec<Ticket>),
    /// It is told when the bytes of this block are there.
    Await {
        ticket: Ticket,
        block: HeldBlock,
    },
    Answer {
        session: u64,
        seq: u64,
        result: Result<Json>,
    },
    /// What this session asked up to that number and was not done is not done by a successor either: the rank is told
    /// so in a moment.
    Refuse {
        session: u64,
        seq: u64,
    },
    /// The driver answers these.
    Stats {
        session: u64,
        seq: u64,
    },
    Overflow {
        session: u64,
        seq: u64,
        bytes: u64,
        spill: bool,
        known: u32,
    },
    Pass {
        session: u64,
        seq: u64,
        ask: Ask,
    },
    Reply {
        ticket: u64,
        result: Result<u64>,
    },
    /// Something that was acknowledged is not kept, or not done: the rank hears of it.
    Late {
        session: u64,
        error: Error,
    },
    Remark {
        session: u64,
        text: String,
    },
    /// A message for people.
    Say {
        session: u64,
        level: u8,
        step: i64,
        text: String,
    },
    /// Everything waits for the disk, or goes on again.
    Trouble(String),
    /// What people watch.
    Tell(Tell),
    DeleteFile(String),
    /// These steps are listed no more; their files get other names.
    Aside(Vec<i64>),
    /// The file of a step that was dropped.
    Dropped(String),
    /// A step is listed.
    Durable {
        step: i64,
        time: Option<f64>,
    },
    /// Nothing that a rank publishes from now on is read.
    Fence {
        session: u64,
    },
    /// A session is over: its segments go.
    Leave {
        session: u64,
        clean: bool,
    },
    Lost(Error),
}
