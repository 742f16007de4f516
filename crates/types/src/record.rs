//! What the ranks of a run tell the owner of the run, and what it tells them: the custody log.
//!
//! A rank writes records into the *up* ring of its segment, in order. The owner applies them and
//! releases the ring only after the catalog has committed, so the ring **is** the log: whoever
//! owns the run next reads on from the release mark. Each record carries a sequence number that
//! the catalog stores with its effect; a record met twice is applied once.
//!
//! The bytes (little endian), drawn in full in `spec/wire.md`:
//!
//! ```text
//!  0      2      4          8                16
//!  +------+------+----------+-----------------+-----------------
//!  | kind | flags| zero     | sequence number | body by kind ...
//!  +------+------+----------+-----------------+-----------------
//! ```

use crate::codec::{Reader, Writer};
use crate::{ArrayMeta, Code, Error, Result, Shape, limits};
use serde::{Deserialize, Serialize};

/// Bytes before the body.
pub const HEADER: usize = 16;

/// Where the bytes of an array are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload<'a> {
    /// In the record.
    Inline(&'a [u8]),
    /// In a block of an arena.
    Block(HeldBlock),
}

impl Payload<'_> {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Payload::Inline(b) => b.len() as u64,
            Payload::Block(b) => b.bytes,
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A block of an arena, by its index in the arena's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// 0: the segment the record came by; n: the n-th overflow segment of that session.
    pub segment: u32,
    /// Index in the block table of that segment.
    pub index: u32,
    /// Bytes used, from the start of the block.
    pub bytes: u64,
}

/// A block that a rank gives into custody. Its entry in the table is used again and again; `generation` says
/// which use is meant, so that who reads an old record never touches a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBlock {
    /// 0: the segment the record came by; n: the n-th overflow segment of that session.
    pub segment: u32,
    /// Index in the block table of that segment.
    pub index: u32,
    /// How often the entry has been used, this time included.
    pub generation: u32,
    /// Bytes used, from the start of the block.
    pub bytes: u64,
}

/// What holds where pieces of several ranks lie over each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// They have the same bits there.
    Equal,
    /// The piece of the highest rank counts.
    Last,
}

impl Overlap {
    /// Its word; none is `refuse`: that pieces lie over each other is an error.
    pub fn parse(word: &str) -> Result<Option<Overlap>> {
        match word {
            "refuse" => Ok(None),
            "equal" => Ok(Some(Overlap::Equal)),
            "last" => Ok(Some(Overlap::Last)),
            other => Err(Error::bad(format!(
                "overlap = {other:?} is unknown; give \"refuse\", \"equal\" (the same bits where pieces meet) or \"last\" (the highest rank's count)"
            ))),
        }
    }
}

/// Where a rank's piece lies in a global array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The piece is the whole.
    Whole,
    /// At `offset` in an array of shape `global`.
    At {
        /// Index of the first element.
        offset: Shape,
        /// Extents of the whole.
        global: Shape,
    },
    /// At `offset` in an array of shape `global`, and pieces of other ranks may lie over it.
    Over {
        /// Index of the first element.
        offset: Shape,
        /// Extents of the whole.
        global: Shape,
        /// What holds there.
        rule: Overlap,
    },
    /// Behind the pieces of lower ranks along axis 0.
    Append,
    /// The whole, which every rank that says it says alike: a coordinate.
    Alike {
        /// CRC-32C of its bytes.
        sum: u32,
    },
}

impl Place {
    /// Offset and extents of the whole, of a block in a larger array.
    pub fn block(&self) -> Option<(&Shape, &Shape)> {
        match self {
            Place::At { offset, global } | Place::Over { offset, global, .. } => Some((offset, global)),
            Place::Whole | Place::Append | Place::Alike { .. } => None,
        }
    }

    /// What holds where blocks of ranks lie over each other, if they may.
    pub fn overlap(&self) -> Option<Overlap> {
        match self {
            Place::Over { rule, .. } => Some(*rule),
            _ => None,
        }
    }

    /// What the whole array is of which a rank puts one like `local` there, as far as one rank knows.
    pub fn whole(&self, local: &ArrayMeta) -> ArrayMeta {
        self.block().map_or(*local, |(_, global)| ArrayMeta { shape: *global, ..*local })
    }
}

/// One array, or one part of it, of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepBlock<'a> {
    /// The step it belongs to.
    pub step: i64,
    /// Name of the data set.
    pub name: &'a str,
    /// Unit, or empty.
    pub units: &'a str,
    /// The rank's local array.
    pub meta: ArrayMeta,
    /// Where it lies in the whole.
    pub place: Place,
    /// First byte of the local array that this record carries.
    pub part: u64,
    /// The bytes.
    pub payload: Payload<'a>,
}

/// A record from a rank to the owner of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record<'a> {
    /// Store or replace a data set outside steps.
    Put {
        /// Name of the data set.
        name: &'a str,
        /// Set number.
        set: i64,
        /// What it is.
        meta: ArrayMeta,
        /// Unit, or empty.
        units: &'a str,
        /// Attributes as a JSON object, or empty.
        attrs: &'a str,
        /// Only when the stored version is this one (0: must not exist).
        if_version: Option<u64>,
        /// The bytes.
        payload: Payload<'a>,
    },
    /// Rows for a table; the cells follow each other row by row (see [`crate::record::Cell`]).
    Insert {
        /// Table, as numbered by the answer to its opening.
        table: u32,
        /// Step being computed when the row was made; -1 outside the loop.
        step: i64,
        /// Number of rows.
        rows: u32,
        /// Encoded cells.
        cells: &'a [u8],
    },
    /// A snapshot begins.
    StepBegin {
        /// Its number.
        step: i64,
        /// Simulated time; NaN when not given.
        time: f64,
        /// The number of the state that the rank holds; -1: not known.
        head: i64,
        /// How far the next head is; 0: not known.
        stride: u32,
    },
    /// An array of a snapshot.
    StepBlock(StepBlock<'a>),
    /// What an array of a snapshot says of itself, as JSON of [`crate::Description`].
    StepDescribe {
        /// Its number.
        step: i64,
        /// Name of the array.
        name: &'a str,
        /// The JSON.
        json: &'a str,
    },
    /// The snapshot is complete on this rank.
    StepEnd {
        /// Its number.
        step: i64,
        /// Its array records, as a check.
        blocks: u32,
    },
    /// The snapshot is given up.
    StepDiscard {
        /// Its number.
        step: i64,
    },
    /// No room: blocks of this unfinished step may be released when written, before the commit.
    StepEarly {
        /// Its number.
        step: i64,
    },
    /// A point of a history diagram, one value a curve.
    Append {
        /// Diagram, as numbered by its declaration.
        diagram: u32,
        /// Step being computed; -1 outside the loop.
        step: i64,
        /// Abscissa.
        t: f64,
        /// Pairs of curve number and value, encoded as `u32, f64`.
        values: &'a [u8],
    },
    /// An act of steering was carried out (or refused) at a step.
    Applied {
        /// The act.
        id: u64,
        /// Where.
        step: i64,
        /// Code of the error, 0 when done.
        code: u32,
        /// What was done, or the text of the error.
        text: &'a str,
    },
    /// A message for people.
    Message {
        /// 0 debug, 1 info, 2 warning, 3 error.
        level: u8,
        /// Step being computed; -1 outside the loop.
        step: i64,
        /// The message.
        text: &'a str,
    },
    /// A declaration, as JSON of [`crate::watch::Declare`]; no answer.
    Declare {
        /// The JSON.
        json: &'a str,
    },
    /// A request, as JSON of [`crate::control::Ask`]; an [`Notice::Answer`] follows.
    Ask {
        /// The JSON.
        json: &'a str,
    },
}

/// A notice from the owner to a rank, in the *down* ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notice<'a> {
    /// The answer to the record of that number.
    Answer {
        /// Sequence number of the request.
        seq: u64,
        /// Code of the error, 0 when done.
        code: u32,
        /// JSON of the result, or the text of the error.
        text: &'a str,
    },
    /// Carry out an act of steering when the loop head reaches `step`.
    Apply {
        /// The act's number, for [`Record::Applied`].
        id: u64,
        /// The step, the same for all ranks.
        step: i64,
        /// JSON of [`crate::watch::Act`].
        json: &'a str,
    },
    /// Something acknowledged earlier could not be written; reported at the next call.
    Late {
        /// Code of the error.
        code: u32,
        /// Its text, naming step and file.
        text: &'a str,
    },
    /// What people at the program should know now: a line on its standard error.
    Remark {
        /// The line.
        text: &'a str,
    },
}

mod kind {
    pub const PUT: u16 = 1;
    pub const INSERT: u16 = 2;
    pub const STEP_BEGIN: u16 = 3;
    pub const STEP_BLOCK: u16 = 4;
    pub const STEP_END: u16 = 5;
    pub const STEP_DISCARD: u16 = 6;
    pub const STEP_EARLY: u16 = 7;
    pub const APPEND: u16 = 8;
    pub const APPLIED: u16 = 9;
    pub const MESSAGE: u16 = 10;
    pub const DECLARE: u16 = 11;
    pub const ASK: u16 = 12;
    pub const STEP_DESCRIBE: u16 = 13;
    pub const ANSWER: u16 = 64;
    pub const APPLY: u16 = 65;
    pub const LATE: u16 = 66;
    pub const REMARK: u16 = 67;
}

fn head(w: &mut Writer, kind: u16, seq: u64) {
    w.u16(kind).u16(0).u32(0).u64(seq);
}

fn payload(w: &mut Writer, p: &Payload) {
    match p {
        Payload::Inline(b) => w.u8(0).bytes(b),
        Payload::Block(b) => w.u8(1).u32(b.segment).u32(b.index).u32(b.generation).u64(b.bytes),
    };
}

fn read_payload<'a>(r: &mut Reader<'a>) -> Result<Payload<'a>> {
    Ok(match r.u8()? {
        0 => Payload::Inline(r.bytes()?),
        1 => {
            let (segment, index, generation) = (r.u32()?, r.u32()?, r.u32()?);
            Payload::Block(HeldBlock { segment, index, generation, bytes: r.u64()? })
        }
        other => return Err(corrupt(format!("{other} is no kind of payload"))),
    })
}

fn place(w: &mut Writer, p: &Place) {
    match p {
        Place::Whole => w.u8(0),
        Place::At { offset, global } => w.u8(1).shape(offset).shape(global),
        Place::Append => w.u8(2),
        Place::Alike { sum } => w.u8(3).u32(*sum),
        Place::Over { offset, global, rule } => {
            w.u8(if *rule == Overlap::Equal { 4 } else { 5 }).shape(offset).shape(global)
        }
    };
}

fn read_place(r: &mut Reader) -> Result<Place> {
    Ok(match r.u8()? {
        0 => Place::Whole,
        kind @ (1 | 4 | 5) => {
            let (offset, global) = (r.shape()?, r.shape()?);
            if offset.rank() != global.rank() {
                return Err(corrupt(format!("offset {offset} and global shape {global} differ in rank")));
            }
            match kind {
                1 => Place::At { offset, global },
                4 => Place::Over { offset, global, rule: Overlap::Equal },
                _ => Place::Over { offset, global, rule: Overlap::Last },
            }
        }
        2 => Place::Append,
        3 => Place::Alike { sum: r.u32()? },
        other => return Err(corrupt(format!("{other} is no kind of place"))),
    })
}

fn corrupt(text: String) -> Error {
    Error::new(Code::Corrupt, text)
}

impl<'a> Record<'a> {
    /// Whether these bytes begin as a record that adds data and asks for no answer: a put, rows of
    /// a table, points of a history.
    pub fn only_adds(bytes: &[u8]) -> bool {
        matches!(first(bytes), Some(kind::PUT | kind::INSERT | kind::APPEND))
    }

    /// Whether they begin as a request.
    pub fn is_ask(bytes: &[u8]) -> bool {
        first(bytes) == Some(kind::ASK)
    }

    /// Whether they begin as a put.
    pub fn is_put(bytes: &[u8]) -> bool {
        first(bytes) == Some(kind::PUT)
    }

    /// Appends header and body.
    pub fn encode(&self, seq: u64, w: &mut Writer) {
        match self {
            Record::Put { name, set, meta: m, units, attrs, if_version, payload: p } => {
                head(w, kind::PUT, seq);
                w.str(name).i64(*set).str(units).str(attrs);
                match if_version {
                    Some(v) => w.u8(1).u64(*v),
                    None => w.u8(0).u64(0),
                };
                w.meta(m);
                payload(w, p);
            }
            Record::Insert { table, step, rows, cells } => {
                head(w, kind::INSERT, seq);
                w.u32(*table).i64(*step).u32(*rows).bytes(cells);
            }
            Record::StepBegin { step, time, head: at, stride } => {
                head(w, kind::STEP_BEGIN, seq);
                w.i64(*step).f64(*time).i64(*at).u32(*stride);
            }
            Record::StepBlock(b) => {
                head(w, kind::STEP_BLOCK, seq);
                w.i64(b.step).str(b.name).str(b.units).u64(b.part);
                w.meta(&b.meta);
                place(w, &b.place);
                payload(w, &b.payload);
            }
            Record::StepDescribe { step, name, json } => {
                head(w, kind::STEP_DESCRIBE, seq);
                w.i64(*step).str(name).str(json);
            }
            Record::StepEnd { step, blocks } => {
                head(w, kind::STEP_END, seq);
                w.i64(*step).u32(*blocks);
            }
            Record::StepDiscard { step } => {
                head(w, kind::STEP_DISCARD, seq);
                w.i64(*step);
            }
            Record::StepEarly { step } => {
                head(w, kind::STEP_EARLY, seq);
                w.i64(*step);
            }
            Record::Append { diagram, step, t, values } => {
                head(w, kind::APPEND, seq);
                w.u32(*diagram).i64(*step).f64(*t).bytes(values);
            }
            Record::Applied { id, step, code, text } => {
                head(w, kind::APPLIED, seq);
                w.u64(*id).i64(*step).u32(*code).str(text);
            }
            Record::Message { level, step, text } => {
                head(w, kind::MESSAGE, seq);
                w.u8(*level).i64(*step).str(text);
            }
            Record::Declare { json } => {
                head(w, kind::DECLARE, seq);
                w.str(json);
            }
            Record::Ask { json } => {
                head(w, kind::ASK, seq);
                w.str(json);
            }
        }
    }

    /// Reads header and body; bytes behind the body are refused.
    pub fn decode(bytes: &'a [u8]) -> Result<(u64, Record<'a>)> {
        let mut r = Reader::new(bytes);
        let (k, seq) = read_head(&mut r)?;
        let record = match k {
            kind::PUT => {
                let (name, set, units, attrs) = (r.str()?, r.i64()?, r.str()?, r.str()?);
                let (has, version) = (r.u8()?, r.u64()?);
                let m = r.meta()?;
                let p = read_payload(&mut r)?;
                if p.len() != m.bytes()? {
                    return Err(corrupt(format!("{name:?} is {m} but carries {} bytes", p.len())));
                }
                Record::Put {
                    name,
                    set,
                    meta: m,
                    units,
                    attrs,
                    if_version: (has != 0).then_some(version),
                    payload: p,
                }
            }
            kind::INSERT => {
                Record::Insert { table: r.u32()?, step: r.i64()?, rows: r.u32()?, cells: r.bytes()? }
            }
            kind::STEP_BEGIN => {
                let (step, time) = (r.i64()?, r.f64()?);
                // The ring of an earlier build, which is read when its program was killed, says no more.
                let (head, stride) = if r.remaining() == 0 { (-1, 0) } else { (r.i64()?, r.u32()?) };
                Record::StepBegin { step, time, head, stride }
            }
            kind::STEP_BLOCK => {
                let (step, name, units, part) = (r.i64()?, r.str()?, r.str()?, r.u64()?);
                let m = r.meta()?;
                let p = read_place(&mut r)?;
                let data = read_payload(&mut r)?;
                let end = part.checked_add(data.len());
                if end.is_none_or(|end| end > m.bytes().unwrap_or(0)) {
                    return Err(corrupt(format!("a part of {name:?} leaves the array {m}")));
                }
                Record::StepBlock(StepBlock { step, name, units, meta: m, place: p, part, payload: data })
            }
            kind::STEP_DESCRIBE => Record::StepDescribe { step: r.i64()?, name: r.str()?, json: r.str()? },
            kind::STEP_END => Record::StepEnd { step: r.i64()?, blocks: r.u32()? },
            kind::STEP_DISCARD => Record::StepDiscard { step: r.i64()? },
            kind::STEP_EARLY => Record::StepEarly { step: r.i64()? },
            kind::APPEND => {
                Record::Append { diagram: r.u32()?, step: r.i64()?, t: r.f64()?, values: r.bytes()? }
            }
            kind::APPLIED => Record::Applied { id: r.u64()?, step: r.i64()?, code: r.u32()?, text: r.str()? },
            kind::MESSAGE => Record::Message { level: r.u8()?, step: r.i64()?, text: r.str()? },
            kind::DECLARE => Record::Declare { json: r.str()? },
            kind::ASK => Record::Ask { json: r.str()? },
            other => return Err(corrupt(format!("{other} is no kind of record"))),
        };
        finish(&r)?;
        Ok((seq, record))
    }
}

impl<'a> Notice<'a> {
    /// Appends header and body.
    pub fn encode(&self, w: &mut Writer) {
        match self {
            Notice::Answer { seq, code, text } => {
                head(w, kind::ANSWER, *seq);
                w.u32(*code).str(text);
            }
            Notice::Apply { id, step, json } => {
                head(w, kind::APPLY, *id);
                w.i64(*step).str(json);
            }
            Notice::Late { code, text } => {
                head(w, kind::LATE, 0);
                w.u32(*code).str(text);
            }
            Notice::Remark { text } => {
                head(w, kind::REMARK, 0);
                w.str(text);
            }
        }
    }

    /// Reads header and body.
    pub fn decode(bytes: &'a [u8]) -> Result<Notice<'a>> {
        let mut r = Reader::new(bytes);
        let (k, number) = read_head(&mut r)?;
        let notice = match k {
            kind::ANSWER => Notice::Answer { seq: number, code: r.u32()?, text: r.str()? },
            kind::APPLY => Notice::Apply { id: number, step: r.i64()?, json: r.str()? },
            kind::LATE => Notice::Late { code: r.u32()?, text: r.str()? },
            kind::REMARK => Notice::Remark { text: r.str()? },
            other => return Err(corrupt(format!("{other} is no kind of notice"))),
        };
        finish(&r)?;
        Ok(notice)
    }
}

fn first(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.first_chunk()?))
}

fn read_head(r: &mut Reader) -> Result<(u16, u64)> {
    if r.remaining() > limits::RECORD_BYTES {
        return Err(corrupt(format!("a record of {} bytes is beyond the limit", r.remaining())));
    }
    let (k, _flags, _zero, seq) = (r.u16()?, r.u16()?, r.u32()?, r.u64()?);
    Ok((k, seq))
}

fn finish(r: &Reader) -> Result<()> {
    match r.remaining() {
        0 => Ok(()),
        n => Err(corrupt(format!("{n} bytes follow the end of a record"))),
    }
}

/// One cell of a table row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// Integer.
    Int(i64),
    /// An integer of 2^63 or more; made by [`Cell::unsigned`].
    Unsigned(u64),
    /// Double precision.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Cell {
    /// An integer without a sign, as the kind that holds it.
    pub fn unsigned(v: u64) -> Cell {
        i64::try_from(v).map_or(Cell::Unsigned(v), Cell::Int)
    }

    /// Appends a tag and the value.
    pub fn encode(&self, w: &mut Writer) {
        match self {
            Cell::Null => w.u8(0),
            Cell::Int(v) => w.u8(1).i64(*v),
            Cell::Real(v) => w.u8(2).f64(*v),
            Cell::Text(v) => w.u8(3).str(v),
            Cell::Blob(v) => w.u8(4).bytes(v),
            Cell::Unsigned(v) => w.u8(5).u64(*v),
        };
    }

    /// Reads a tag and the value.
    pub fn decode(r: &mut Reader) -> Result<Cell> {
        Ok(match r.u8()? {
            0 => Cell::Null,
            1 => Cell::Int(r.i64()?),
            2 => Cell::Real(r.f64()?),
            3 => Cell::Text(r.str()?.to_owned()),
            4 => Cell::Blob(r.bytes()?.to_owned()),
            5 => Cell::unsigned(r.u64()?),
            other => return Err(corrupt(format!("{other} is no kind of cell"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use proptest::prelude::*;

    fn samples() -> Vec<Record<'static>> {
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[4, 2]).unwrap());
        let block = HeldBlock { segment: 1, index: 7, generation: 3, bytes: 32 };
        vec![
            Record::Put {
                name: "a/b",
                set: -3,
                meta,
                units: "V",
                attrs: "{}",
                if_version: Some(0),
                payload: Payload::Inline(&[9; 64]),
            },
            Record::Insert { table: 2, step: 5, rows: 1, cells: &[0] },
            Record::StepBegin { step: 20, time: 2.0, head: 2000, stride: 100 },
            Record::StepBlock(StepBlock {
                step: 20,
                name: "E",
                units: "",
                meta,
                place: Place::At {
                    offset: Shape::new(&[4, 0]).unwrap(),
                    global: Shape::new(&[8, 2]).unwrap(),
                },
                part: 32,
                payload: Payload::Block(block),
            }),
            Record::StepBlock(StepBlock {
                step: 20,
                name: "x",
                units: "m",
                meta: ArrayMeta::new(DType::U8, Shape::new(&[2]).unwrap()),
                place: Place::Alike { sum: 77 },
                part: 0,
                payload: Payload::Inline(&[1, 2]),
            }),
            Record::StepBlock(StepBlock {
                step: 20,
                name: "T",
                units: "K",
                meta: ArrayMeta::new(DType::U8, Shape::new(&[2]).unwrap()),
                place: Place::Over {
                    offset: Shape::new(&[3]).unwrap(),
                    global: Shape::new(&[9]).unwrap(),
                    rule: Overlap::Last,
                },
                part: 0,
                payload: Payload::Inline(&[1, 2]),
            }),
            Record::StepDescribe { step: 20, name: "E", json: "{}" },
            Record::StepEnd { step: 20, blocks: 1 },
            Record::StepDiscard { step: 20 },
            Record::StepEarly { step: 20 },
            Record::Append { diagram: 1, step: 3, t: 0.3, values: &[1, 2] },
            Record::Applied { id: 9, step: 4, code: 0, text: "held" },
            Record::Message { level: 2, step: -1, text: "CFL 0.93" },
            Record::Declare { json: "{}" },
            Record::Ask { json: "\"Flush\"" },
        ]
    }

    #[test]
    fn every_record_reads_back_as_it_was_written() {
        for (i, record) in samples().into_iter().enumerate() {
            let mut w = Writer::new();
            record.encode(i as u64, &mut w);
            let bytes = w.finish();
            assert_eq!(Record::decode(&bytes).unwrap(), (i as u64, record));
            // The ring of an earlier build has a shorter one.
            let shorter = matches!(record, Record::StepBegin { .. }).then(|| bytes.len() - 12);
            for cut in (0..bytes.len()).filter(|cut| Some(*cut) != shorter) {
                assert!(Record::decode(&bytes[..cut]).is_err());
            }
            if let Some(cut) = shorter {
                let read = Record::decode(&bytes[..cut]).unwrap().1;
                assert_eq!(read, Record::StepBegin { step: 20, time: 2.0, head: -1, stride: 0 });
            }
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::decode(&bytes);
            let _ = Notice::decode(&bytes);
        }

        #[test]
        fn flipped_bits_never_panic(which in 0usize..14, at in 0usize..200, bit in 0u8..8) {
            let mut w = Writer::new();
            samples()[which].encode(1, &mut w);
            let mut bytes = w.finish();
            let n = bytes.len();
            bytes[at % n] ^= 1 << bit;
            let _ = Record::decode(&bytes);
        }
    }
}
