//! What a reader on another host asks, and how it is answered.
//!
//! A question is one frame; its answer is a stream of bytes in frames of the same id, all but the
//! last with the flag [`MORE`]. Answers come in the order of the questions, many of which may be
//! under way.
//!
//! ```text
//!  question:  JSON of [`Question`], or a body:  1 u8 | name str | set i64 | selection        a data set
//!                                               2 u8 | name str | step i64 | selection       of a step
//!  selection: count u8 (255: the whole), each: start u64 | count u64 | step u64 | squeeze u8
//!  answer:    JSON, or an array:  dtype u8 | order u8 | shape | units str | bytes
//!                      or rows:   columns u32, each str | rows u32, each as many cells
//!  error:     a frame of kind `error`, in place of what would follow
//! ```

use crate::codec::{Reader, Writer};
use crate::control::Target;
use crate::record::Cell;
use crate::{ArrayMeta, Code, Error, Result, Selection, Slice, limits};
use serde::{Deserialize, Serialize};

/// More of the same answer follows.
pub const MORE: u32 = 1;
/// Bytes of an answer in one frame.
pub const FRAME: usize = 256 << 10;

const DATA_SET: u8 = 1;
const OF_STEP: u8 = 2;
const WHOLE: u8 = 255;

/// A question whose answer is JSON, or rows for the two that say so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// The run's identity.
    RunId,
    /// One data set outside steps.
    Info {
        /// Its name.
        name: String,
        /// Its set number.
        set: i64,
    },
    /// Those that match a glob.
    List {
        /// The glob.
        pattern: String,
        /// One set, or all.
        set: Option<i64>,
    },
    /// Attributes.
    Attrs(Target),
    /// All tables.
    Tables,
    /// One table, or null.
    Table(String),
    /// Rows of a table. Answer: rows.
    Select(Select),
    /// The points of a history. Answer: rows.
    History(String),
    /// Any SQL that only reads. Answer: rows.
    Sql {
        /// The query.
        text: String,
        /// Values for the `?`.
        args: Vec<serde_json::Value>,
    },
    /// What there is now: the last complete step, and the highest serial.
    Moment,
    /// Numbers of the complete steps that were there at a moment, as `Moment` gave it.
    Numbers(serde_json::Value),
    /// One of them.
    Step(i64),
    /// Names of the data sets of a step.
    StepNames(i64),
    /// One data set of a step.
    StepInfo {
        /// The step.
        step: i64,
        /// The name.
        name: String,
    },
    /// What a data set is at each of some steps, or of all complete ones.
    Series {
        /// Its name.
        name: String,
        /// The steps, in this order.
        steps: Option<Vec<i64>>,
    },
    /// The checkpoints.
    Checkpoints,
}

/// Which rows of a table are wanted, and what of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Select {
    /// The table.
    pub table: String,
    /// SQL with `?`, or empty.
    pub condition: String,
    /// Values for the `?`.
    pub args: Vec<serde_json::Value>,
    /// These columns; none: all.
    pub columns: Vec<String>,
    /// By which columns rows are sorted, and whether downwards; none: in the order they came.
    pub order: Vec<(String, bool)>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Only rows behind the one of this number. A column more, the last one, has the rows' numbers then.
    pub after: Option<i64>,
}

/// Which array is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Set number, or step.
    pub number: i64,
    /// Whether the number is that of a step.
    pub of_step: bool,
    /// The part that is wanted.
    pub selection: Selection,
}

impl<'a> Wanted<'a> {
    /// The bytes.
    pub fn encode(&self, w: &mut Writer) {
        w.u8(if self.of_step { OF_STEP } else { DATA_SET }).str(self.name).i64(self.number);
        w.u8(if self.selection.0.is_empty() { WHOLE } else { self.selection.0.len() as u8 });
        for s in &self.selection.0 {
            w.u64(s.start).u64(s.count).u64(s.step).u8(s.squeeze.into());
        }
    }

    /// Reads them.
    pub fn decode(bytes: &'a [u8]) -> Result<Wanted<'a>> {
        let mut r = Reader::new(bytes);
        let of_step = match r.u8()? {
            DATA_SET => false,
            OF_STEP => true,
            other => return Err(corrupt(format!("{other} is no kind of question"))),
        };
        let (name, number) = (r.str()?, r.i64()?);
        let count = match r.u8()? {
            WHOLE => 0,
            n if n as usize <= limits::RANK => n,
            n => return Err(corrupt(format!("a selection of {n} axes"))),
        };
        let slice = |r: &mut Reader| {
            let (start, count, step) = (r.u64()?, r.u64()?, r.u64()?);
            Ok(Slice { start, count, step, squeeze: r.u8()? != 0 })
        };
        let slices: Vec<Slice> = (0..count).map(|_| slice(&mut r)).collect::<Result<_>>()?;
        Ok(Wanted { name, number, of_step, selection: Selection(slices) })
    }
}

/// What stands before the bytes of an array.
pub fn put_array(w: &mut Writer, meta: &ArrayMeta, units: &str) {
    w.meta(meta).str(units);
}

/// Reads it.
pub fn take_array(r: &mut Reader) -> Result<(ArrayMeta, String)> {
    Ok((r.meta()?, r.str()?.to_owned()))
}

/// Rows with the names of their columns.
pub fn put_rows(w: &mut Writer, columns: &[String], rows: &[Vec<Cell>]) {
    w.u32(columns.len() as u32);
    for name in columns {
        w.str(name);
    }
    w.u32(rows.len() as u32);
    rows.iter().flatten().for_each(|cell| cell.encode(w));
}

/// Reads them.
pub fn take_rows(bytes: &[u8]) -> Result<(Vec<String>, Vec<Vec<Cell>>)> {
    let mut r = Reader::new(bytes);
    let columns = r.u32()?;
    let columns: Vec<String> = (0..columns).map(|_| r.str().map(str::to_owned)).collect::<Result<_>>()?;
    let count = r.u32()?;
    if columns.is_empty() && count > 0 {
        return Err(corrupt(format!("{count} rows without columns")));
    }
    let row = |r: &mut Reader| columns.iter().map(|_| Cell::decode(r)).collect::<Result<Vec<Cell>>>();
    let rows = (0..count).map(|_| row(&mut r)).collect::<Result<_>>()?;
    Ok((columns, rows))
}

fn corrupt(text: String) -> Error {
    Error::new(Code::Corrupt, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Order, Shape};

    #[test]
    fn questions_and_answers_come_back_as_they_were() {
        let part = Slice { start: 3, count: 4, step: 2, squeeze: false };
        for selection in [Selection::default(), Selection(vec![part, Slice { squeeze: true, ..part }])] {
            let wanted = Wanted { name: "E/x", number: -7, of_step: true, selection };
            let mut w = Writer::new();
            wanted.encode(&mut w);
            let bytes = w.finish();
            assert_eq!(Wanted::decode(&bytes).unwrap(), wanted);
            assert!((0..bytes.len()).all(|n| Wanted::decode(&bytes[..n]).is_err()));
        }
        let meta = ArrayMeta { order: Order::F, ..ArrayMeta::new(DType::F32, Shape::new(&[2, 3]).unwrap()) };
        let mut w = Writer::new();
        put_array(&mut w, &meta, "V/m");
        assert_eq!(take_array(&mut Reader::new(&w.finish())).unwrap(), (meta, "V/m".to_owned()));
        let columns = vec!["a".to_owned(), "b".to_owned()];
        let rows = vec![vec![Cell::Int(1), Cell::Text("x".into())], vec![Cell::Null, Cell::Real(0.5)]];
        let mut w = Writer::new();
        put_rows(&mut w, &columns, &rows);
        assert_eq!(take_rows(&w.finish()).unwrap(), (columns, rows));
        let many_rows_of_nothing = [0, 0, 0, 0, 255, 255, 255, 255];
        assert_eq!(take_rows(&many_rows_of_nothing).unwrap_err().code(), Code::Corrupt);
    }
}
