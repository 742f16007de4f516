//! What is said over a Unix socket between the processes of one user, and the requests that
//! travel through a session's ring: rare, so JSON.

use crate::Keep;
use serde::{Deserialize, Serialize};

/// Version of every byte that two processes exchange. A different one is refused by name.
pub const WIRE_VERSION: u32 = 10;

/// The words of a segment's control page, by index. Each has one writer.
pub mod word {
    /// Owner: counts up while its heart beats.
    pub const HEARTBEAT: usize = 0;
    /// Owner: the session was taken over or ended; the rank writes no more. [`DELETED`] when the run went with it,
    /// [`MOVED`] when its directory went elsewhere, [`ANEW`] when a program begins it anew.
    pub const CLOSED: usize = 1;
    /// What [`CLOSED`] holds when the run's directory was deleted; 1 otherwise.
    pub const DELETED: u64 = 2;
    /// What it holds when the directory was moved.
    pub const MOVED: u64 = 3;
    /// What it holds when the run is wiped, and begun anew by a program that this session is not of.
    pub const ANEW: u64 = 4;
    /// Owner: sequence number up to which small records are committed.
    pub const APPLIED: usize = 2;
    /// Owner: highest durable step plus one; 0 for none.
    pub const DURABLE: usize = 3;
    /// Rank: the step it is about to compute, plus one; 0 before the loop.
    pub const STEP: usize = 4;
    /// Owner: the loop head stops at this step; `u64::MAX` for none.
    pub const GATE: usize = 5;
    /// Owner: counts up when the rank should look into the down ring.
    pub const NOTICE: usize = 6;
    /// Rank: nanoseconds spent visibly in output.
    pub const VISIBLE_NS: usize = 7;
    /// Owner: nanoseconds spent writing behind the run's back.
    pub const HIDDEN_NS: usize = 8;
    /// Owner: bytes made durable.
    pub const WRITTEN_BYTES: usize = 9;
    /// Rank: [`AT_GATE`] while it waits at the gate, [`TOLD_TO_HOLD`] from Stop or Step until it is told to go on,
    /// [`OVER`] behind a loop.
    pub const HELD: usize = 10;
    /// In [`HELD`]: it waits, whatever for.
    pub const AT_GATE: u64 = 1;
    /// In [`HELD`]: the last act that held it or let it go was one that holds; a successor of the owner keeps it held.
    pub const TOLD_TO_HOLD: u64 = 2;
    /// In [`HELD`]: its loop has ended, and no other one has begun.
    pub const OVER: u64 = 4;
    /// Rank: 1 when it has given the session up; a successor of the owner does not wait for it.
    pub const LEFT: usize = 11;
    /// Owner: counts the commits of the catalog, each before anybody is told of it.
    pub const COMMITS: usize = 12;
    /// Owner: counts the gates it has set, each before it looks at the step.
    pub const EPOCH: usize = 13;
    /// Rank's side: [`EPOCH`] of the gate that was in force when [`STEP`] was loaded. Only in the
    /// mirror of a segment of another host, where it is how far the rank has heard.
    pub const ECHO: usize = 14;
    /// Rank's side: 1 in the mirror of a segment of another host.
    pub const MIRROR: usize = 15;
    /// Rank: nanoseconds that copying what it put would have cost at the fastest of its copies; 0 before one.
    pub const IDEAL_NS: usize = 16;
    /// Rank: bytes that did not fit its own buffer.
    pub const OVERFLOW_BYTES: usize = 17;
    /// Rank: most bytes of buffers in use at once.
    pub const HIGH_WATER_BYTES: usize = 18;
    /// Owner: the rank whose segment this is, plus one, so that a catalog made anew can know it; 0 before.
    pub const RANK: usize = 19;
    /// Owner: the number of ranks.
    pub const RANKS: usize = 20;
    /// Rank: why it wants the run to end: 0 it does not, 1 SIGTERM, 2 its time is over.
    pub const WISH: usize = 21;
    /// Owner: where the run went back to in this life, the step plus one; 0 before it did, [`BEGINNING`] when
    /// there was no step. Stored before any rank is answered.
    pub const FROM: usize = 22;
    /// Owner: the inode of the run's directory, which tells the run from a copy in its place; 0: not told.
    pub const HOME: usize = 23;
    /// Owner: the highest number of a record of the session that the catalog has noted as applied, stored behind
    /// that commit: a catalog that knows less is an older one.
    pub const NOTED: usize = 24;
    /// Rank's side: the session whose rest a mirror brings; 0 in every other segment.
    pub const AFTER: usize = 25;
    /// Owner: the highest number of a request that was refused as the disk had no room, stored before the rank is
    /// answered: a successor that finds it in the ring does it not.
    pub const REFUSED: usize = 26;
    /// Rank: the number of the last act that it has begun to carry out.
    pub const DONE: usize = 27;
    /// In [`FROM`]: the run went back to its beginning.
    pub const BEGINNING: u64 = u64::MAX;
}

/// How a run is opened, as in h5py.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// `r`: read only, must exist.
    Read,
    /// `r+`: read and write, must exist.
    ReadWrite,
    /// `a`: read and write, created when absent.
    Append,
    /// `w`: created anew; what was there is deleted.
    Write,
    /// `x`: created; must not exist.
    Create,
}

impl Mode {
    /// Reads `r`, `r+`, `a`, `w` or `x`.
    pub fn parse(text: &str) -> crate::Result<Mode> {
        Ok(match text {
            "r" => Mode::Read,
            "r+" => Mode::ReadWrite,
            "a" => Mode::Append,
            "w" => Mode::Write,
            "x" | "w-" => Mode::Create,
            _ => {
                return Err(crate::Error::bad(format!(
                    "{text:?} is not a mode; use \"r\", \"r+\", \"a\", \"w\" or \"x\""
                )));
            }
        })
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Read => "r",
            Mode::ReadWrite => "r+",
            Mode::Append => "a",
            Mode::Write => "w",
            Mode::Create => "x",
        }
    }

    /// Whether the run may be changed.
    pub fn writes(self) -> bool {
        self != Mode::Read
    }
}

/// What a step does when no buffer has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WhenFull {
    /// Wait for the disk.
    #[default]
    Block,
    /// Give up the oldest step that is not yet being written.
    DropOldest,
    /// Give up the step being taken.
    DropNewest,
    /// Put it into a file beside the run.
    Spill,
}

impl WhenFull {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            WhenFull::Block => "block",
            WhenFull::DropOldest => "drop_oldest",
            WhenFull::DropNewest => "drop_newest",
            WhenFull::Spill => "spill",
        }
    }

    /// Reads `block`, `drop_oldest`, `drop_newest` or `spill`.
    pub fn parse(text: &str) -> crate::Result<WhenFull> {
        Ok(match text {
            "block" => WhenFull::Block,
            "drop_oldest" => WhenFull::DropOldest,
            "drop_newest" => WhenFull::DropNewest,
            "spill" => WhenFull::Spill,
            _ => {
                return Err(crate::Error::bad(format!(
                    "{text:?} is not a policy; use \"block\", \"drop_oldest\", \"drop_newest\" or \"spill\""
                )));
            }
        })
    }
}

/// What becomes of an error that belongs to something acknowledged earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LateErrors {
    /// The next call of the run fails with it, or `flush`, or `close`.
    #[default]
    Raise,
    /// It is a warning, and the call goes on.
    Warn,
    /// It is counted, and shown on the run's page.
    Ignore,
}

impl LateErrors {
    /// Reads `raise`, `warn` or `ignore`.
    pub fn parse(text: &str) -> crate::Result<LateErrors> {
        match text {
            "raise" => Ok(LateErrors::Raise),
            "warn" => Ok(LateErrors::Warn),
            "ignore" => Ok(LateErrors::Ignore),
            _ => Err(crate::Error::bad(format!(
                "{text:?} is not a policy for late errors; use \"raise\", \"warn\" or \"ignore\""
            ))),
        }
    }
}

/// What an opening for writing does when dead programs left data in memory that this process does not
/// reach: on another host, in another `/dev/shm`, of another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Elsewhere {
    /// It fails and names the place: there the data are written, or here given up.
    #[default]
    Refuse,
    /// It gives them up and goes on from the last durable step.
    Abandon,
}

impl Elsewhere {
    /// Reads `refuse` or `abandon`.
    pub fn parse(text: &str) -> crate::Result<Elsewhere> {
        match text {
            "refuse" => Ok(Elsewhere::Refuse),
            "abandon" => Ok(Elsewhere::Abandon),
            _ => Err(crate::Error::bad(format!(
                "{text:?} is not what can be done with data that lie elsewhere; use \"refuse\" or \"abandon\""
            ))),
        }
    }
}

/// What a rank asks over the owner's socket, one connection a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunRequest {
    /// First. Answer: [`RunOpened`].
    OpenRun(OpenRun),
    /// First, in place of `OpenRun`, when the owner has died and this one is its successor: the rank
    /// goes on with its session and its segment. Answer: [`RunOpened`].
    Resume(Resume),
    /// Then, with the descriptor of the segment the rank made. Answer: null, with a doorbell (a pipe) that
    /// the rank rings when the owner sleeps. From then on both sides are silent here; the end of
    /// the connection is the death of the peer.
    Attach,
}

/// What an agent says, unasked, to a rank that waits for the answer to [`RunRequest::OpenRun`] or
/// [`RunRequest::Resume`]: for whoever sits at the rank's terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpeningWaits {
    /// What the opening waits for, with the run's name.
    pub waits: String,
}

/// The number that a client has in the place of a rank's: no rank has it.
pub const NO_RANK: u32 = u32::MAX;

/// How a rank, or a client, asks the owner for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRun {
    /// Absolute path of the run's directory.
    pub path: String,
    /// How.
    pub mode: Mode,
    /// This rank; [`NO_RANK`] of a client.
    pub rank: u32,
    /// Number of ranks; 0 of a client.
    pub size: u32,
    /// What happens when buffers are full.
    pub full: WhenFull,
    /// Whether the run is deleted at the end.
    pub scratch: bool,
    /// Bytes of the rank's arena, for the owner's books.
    pub buffer: u64,
    /// Name of the program, for people.
    pub program: String,
    /// What becomes of data in memory that the owner does not reach.
    #[serde(default)]
    pub elsewhere: Elsewhere,
}

impl OpenRun {
    /// Whether who opens the run is none of its ranks: it puts, inserts and notes beside them, and no step waits for it.
    pub fn is_client(&self) -> bool {
        self.size == 0 && self.rank == NO_RANK
    }
}

/// How a rank goes on with its session at the successor of its owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// As the run was opened; its mode means nothing now, what is there is kept.
    pub open: OpenRun,
    /// Identity of the run.
    pub run_id: String,
    /// The session.
    pub session: u64,
    /// Requests whose answers the rank has not seen: sequence number and the JSON of the [`Ask`].
    pub asks: Vec<(u64, String)>,
}

/// What the owner says to [`OpenRun`] and [`Resume`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOpened {
    /// Identity of the run, in its catalog and in the names of its segments.
    pub run_id: String,
    /// Number of this session, unique in the run.
    pub session: u64,
    /// Name the rank gives its segment.
    pub segment: String,
    /// The owner's pid.
    pub owner_pid: u32,
    /// Whether the run was made by this opening.
    pub created: bool,
    /// Last complete step, if any.
    pub last_step: Option<i64>,
    /// The last complete step that there was when this life of the run began: nothing is written behind it
    /// before the run went back.
    #[serde(default)]
    pub begun: Option<i64>,
    /// Whether an earlier life of the run has not come to its end.
    #[serde(default)]
    pub unfinished: bool,
    /// Whether the owner is on another host: its words come later than what other ranks may say.
    #[serde(default)]
    pub remote: bool,
}

/// A request of a rank to the owner, through the session's ring; answered in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Everything put so far is durable. Answer: null.
    Flush,
    /// The step is durable. Answer: null.
    WaitStep {
        /// The step.
        step: i64,
    },
    /// The rank leaves; everything is drained first. Answer: null.
    Close {
        /// Whether the run came to its end (its loop did, or it had none and nothing failed), so
        /// that a restart can say that there is nothing to go on with.
        #[serde(default)]
        finished: bool,
    },
    /// Delete data sets by glob. Answer: how many.
    Delete {
        /// Glob over names.
        pattern: String,
        /// Set number, or all.
        set: Option<i64>,
    },
    /// Rename a data set, all its sets. Answer: how many.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Copy a data set, all its sets. Answer: how many.
    Copy {
        /// Name of the original.
        from: String,
        /// Name of the copy.
        to: String,
    },
    /// The version a conditional put of that sequence number made. Answer: the version, or `Conflict`.
    Version {
        /// Sequence number of the put.
        seq: u64,
    },
    /// Change attributes: null values delete. Answer: null.
    SetAttrs {
        /// What carries them.
        target: Target,
        /// Name to value.
        attrs: serde_json::Map<String, serde_json::Value>,
    },
    /// Create or open a table. Answer: [`TableInfo`].
    Table {
        /// Its name.
        name: String,
        /// Columns; empty to open an existing one.
        columns: Vec<Column>,
        /// Whether rows belong to steps and go when a restart goes back.
        history: bool,
    },
    /// Have an index of columns of a table, unless there is one. Answer: null.
    Index {
        /// The table.
        table: String,
        /// The columns, that by which rows are looked up first.
        columns: Vec<String>,
    },
    /// Have a file of a data set stay whatever becomes of the set: snapshots refer to it. Answer: null.
    Refer {
        /// The file, relative to the run.
        file: String,
    },
    /// Change rows. Answer: how many.
    Update {
        /// The table.
        table: String,
        /// Column to new value.
        set: serde_json::Map<String, serde_json::Value>,
        /// SQL condition with `?`, or empty for all.
        condition: String,
        /// Values for the `?`.
        args: Vec<serde_json::Value>,
    },
    /// Remove rows. Answer: how many.
    Remove {
        /// The table.
        table: String,
        /// SQL condition with `?`, or empty for all.
        condition: String,
        /// Values for the `?`.
        args: Vec<serde_json::Value>,
    },
    /// Go back to the last complete step, or to that of a checkpoint: later rows of histories are
    /// removed, once for all ranks. Answer: the step with its parameters ([`Restarted`]), or null.
    Restart {
        /// The checkpoint; the last complete step without one.
        #[serde(default)]
        tag: Option<String>,
        /// Whether steps that are marked as damaged are an error, not passed over.
        #[serde(default)]
        strict: bool,
    },
    /// Give a complete step up: it is listed no more, its file goes, its number is free. Answer: null.
    DropStep {
        /// The step.
        step: i64,
    },
    /// Which complete steps stay, as long as this life of the run lasts; whoever says it says the same. Answer: null.
    Keep {
        /// Which.
        keep: Keep,
    },
    /// Save was asked for at a step that is kept already: a restart from there brings back these parameters.
    /// Nobody waits for the answer: null.
    Renew {
        /// The step.
        step: i64,
        /// Values of the parameters at its head.
        parameters: serde_json::Map<String, serde_json::Value>,
    },
    /// Mark the last ended step as a restart point. Answer: its number.
    Checkpoint {
        /// Name for people.
        tag: Option<String>,
    },
    /// Room in the store's own buffer. Answer: path of a segment, or null when there is none.
    Overflow {
        /// Bytes wanted.
        bytes: u64,
        /// Whether it may be a file in the run's directory when memory is used up.
        #[serde(default)]
        spill: bool,
        /// How many the rank has: one beyond, whose path it never learned, is given again.
        known: u32,
    },
    /// Drops the oldest whole step that is not being written. Answer: its number, or null.
    DropOldest,
    /// What a rank is to know that did not go back itself. Answer: [`Followed`].
    Follow {
        /// The step that another one went back to.
        step: Option<i64>,
    },
    /// The run went back, and this rank goes on at that step, and makes again what belongs to it: rows and points from
    /// that step on are removed, once for all ranks. Answer: null.
    GoOn {
        /// Its first head.
        start: i64,
        /// Before that head, of a rank that puts something there: this history alone is made again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<History>,
    },
    /// Figures. Answer: an object of numbers.
    Stats,
    /// The page. Answer: [`PageLinks`].
    Monitor,
}

/// What rows or points are added to that belong to a step; by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum History {
    /// A table whose rows go when the run goes back.
    Table(u32),
    /// A diagram, as the rank numbers it.
    Diagram(u32),
}

/// What carries attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// The run.
    Run,
    /// A data set.
    DataSet {
        /// Its name.
        name: String,
        /// Its set number.
        set: i64,
    },
    /// A table.
    Table {
        /// Its name.
        name: String,
    },
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// A dtype name (`f64`, `i64`, `str`, ...).
    pub dtype: String,
    /// Unit, or empty. Runs of before say `unit`.
    #[serde(default, alias = "unit")]
    pub units: String,
}

/// A table as the owner knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Number for [`crate::record::Record::Insert`].
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Whether rows go when a restart goes back.
    pub history: bool,
}

/// Where a restart goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restarted {
    /// The last complete step.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// Parameter values at that step.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Whether the run had been closed as finished.
    pub finished: bool,
    /// Damaged steps that were passed over.
    #[serde(default)]
    pub passed: Vec<i64>,
    /// Where a loop may go on, if the number of the step does not say it.
    #[serde(default)]
    pub heads: Option<Heads>,
}

/// The heads at which a loop may go on from a snapshot whose number is not that of its state: the head at which it
/// was taken, before or behind what is computed there, up to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heads {
    /// That at which it was taken.
    pub first: i64,
    /// The next one; `i64::MAX`: not known.
    pub last: i64,
}

impl Heads {
    /// In the place of a stride: a loop has ended at the head.
    pub const ENDED: u32 = u32::MAX;

    /// Those of a snapshot that is taken at this head; `None` if its number is that of the state which is there, or
    /// of one that comes of it before the next head. A stride of 0 is not known.
    pub fn of(step: i64, head: i64, stride: u32) -> Option<Heads> {
        let last = match stride {
            0 => i64::MAX,
            Heads::ENDED => head,
            stride => head.saturating_add(i64::from(stride)),
        };
        let is_own = head >= 0 && !(head..=last).contains(&step);
        is_own.then_some(Heads { first: head, last })
    }

    /// Whether a loop may go on there.
    pub fn contains(&self, step: i64) -> bool {
        (self.first..=self.last).contains(&step)
    }
}

/// What a rank is to know when another one has gone back for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// Parameter values of now.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// As in [`Restarted`].
    pub heads: Option<Heads>,
}

/// The links of a run's page.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct PageLinks {
    /// Looks and steers; opens the page once, within some minutes.
    pub operator: String,
    /// Looks.
    pub viewer: String,
}

impl PageLinks {
    /// The link that a program prints by itself: the operator's one on a terminal, where the person
    /// sits who started it, otherwise the viewers', for what it prints may stand in a log that
    /// others read.
    pub fn to_print(&self, on_terminal: bool) -> &str {
        if on_terminal { &self.operator } else { &self.viewer }
    }
}

/// The operator's link is shown by nobody who does not ask for it.
impl std::fmt::Debug for PageLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageLinks").field("viewer", &self.viewer).finish_non_exhaustive()
    }
}
