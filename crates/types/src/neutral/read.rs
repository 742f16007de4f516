//! Reading the text form: whatever the bytes are, what is no such text is refused with the number of its line, and no
//! more memory is taken than what has been read asks for.

use super::{
    ArrayHead, BEFORE, END, FIRST, LAST, RunHead, SnapshotHead, TableHead, element, has_whole_texts,
};
use crate::record::Cell;
use crate::{ArrayMeta, ElementKind, Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::BufRead;

/// What a section is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// The run.
    Run(RunHead),
    /// A data set outside snapshots; its elements follow.
    DataSet(ArrayHead),
    /// A table; its rows follow.
    Table(TableHead),
    /// A history, as a table with the columns `step`, `t` and one for each curve; its rows follow.
    History(TableHead),
    /// A snapshot; its arrays follow.
    Snapshot(SnapshotHead),
    /// An array of the snapshot; its elements follow.
    Array(ArrayHead),
}

/// A text that is read part by part.
pub struct SectionReader<R> {
    from: R,
    line: String,
    number: u64,
}

impl<R: BufRead> SectionReader<R> {
    /// Begins to read. `BadArgument` of what does not begin as such a text.
    pub fn new(from: R) -> Result<SectionReader<R>> {
        let mut reader = SectionReader { from, line: String::new(), number: 0 };
        reader.next_line()?;
        match [FIRST, BEFORE].contains(&reader.line.as_str()) {
            true => Ok(reader),
            false => Err(reader.wrong(format_args!(
                "the text does not begin with the line {FIRST:?}, nor with that of version 1"
            ))),
        }
    }

    /// An error at the line that was read last.
    fn wrong(&self, why: impl std::fmt::Display) -> Error {
        Error::bad(format!("line {}: {why}; write it with `forebay export --to text`", self.number))
    }

    fn next_line(&mut self) -> Result<()> {
        self.line.clear();
        self.number += 1;
        match self.from.read_line(&mut self.line) {
            Ok(0) => Err(self.wrong(format_args!("the text is cut off: it has no line {LAST:?}"))),
            Ok(_) => {
                if self.line.ends_with('\n') {
                    self.line.pop();
                }
                if self.line.ends_with('\r') {
                    self.line.pop();
                }
                Ok(())
            }
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Err(self.wrong("the text is not UTF-8")),
            Err(e) => Err(Error::io("cannot read the text", e)),
        }
    }

    /// The next part, or none at the end.
    pub fn section(&mut self) -> Result<Option<Section>> {
        self.next_line()?;
        if self.line == LAST {
            return Ok(None);
        }
        let (word, json) = self.line.split_once(' ').unwrap_or((&self.line, ""));
        Ok(Some(match word {
            "run" => Section::Run(self.head(json)?),
            "dataset" => Section::DataSet(self.head(json)?),
            "table" => Section::Table(self.head(json)?),
            "history" => Section::History(self.head(json)?),
            "snapshot" => Section::Snapshot(self.head(json)?),
            "array" => Section::Array(self.head(json)?),
            other => {
                let shown: String = other.chars().take(40).collect();
                return Err(self.wrong(format_args!(
                    "{shown:?} begins no section; there are run, dataset, table, history, snapshot and array"
                )));
            }
        }))
    }

    fn head<T: DeserializeOwned>(&self, json: &str) -> Result<T> {
        serde_json::from_str(json).map_err(|e| self.wrong(format_args!("its JSON is not understood: {e}")))
    }

    /// The elements of the array whose head was read last, in the order in which they lie.
    pub fn elements(&mut self, meta: &ArrayMeta) -> Result<Vec<u8>> {
        let bytes = meta.bytes()?;
        let mut out = Vec::new();
        loop {
            self.next_line()?;
            if self.line == END {
                break;
            }
            match (meta.dtype.is_text(), self.line.as_bytes().first()) {
                (true, Some(b'x')) => self.take_bytes(&mut out)?,
                (true, Some(b'"')) if has_whole_texts(meta) => self.take_text(meta, &mut out)?,
                (true, _) => return Err(self.wrong("this is neither a text in quotes nor bytes behind an x")),
                (false, _) => {
                    for word in self.line.split_ascii_whitespace() {
                        element::take(meta.dtype, word, &mut out).map_err(|e| self.wrong(e.text()))?;
                    }
                }
            }
            if out.len() as u64 > bytes {
                return Err(self.wrong(format_args!("the array has more elements than {meta} has")));
            }
        }
        match out.len() as u64 == bytes {
            true => Ok(out),
            false => {
                Err(self.wrong(format_args!("the array ends after {} of {bytes} bytes of {meta}", out.len())))
            }
        }
    }

    fn take_bytes(&self, out: &mut Vec<u8>) -> Result<()> {
        let digits = &self.line.as_bytes()[1..];
        let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
        for pair in digits.chunks(2) {
            let byte =
                byte(pair).ok_or_else(|| self.wrong("the bytes are no pairs of hexadecimal digits"))?;
            out.push(byte);
        }
        Ok(())
    }

    fn take_text(&self, meta: &ArrayMeta, out: &mut Vec<u8>) -> Result<()> {
        let text: String = self.head(&self.line)?;
        let width = meta.shape.extents().last().copied().unwrap_or(0);
        let length = text.len() as u64;
        let is_one = meta.shape.rank() == 1;
        if width == 0 || length > width || is_one && length < width {
            return Err(self.wrong(format_args!("a text of {length} bytes does not go into one of {width}")));
        }
        if out.len() as u64 + width > meta.bytes()? {
            return Err(self.wrong(format_args!("the array has more texts than {meta} has")));
        }
        out.extend_from_slice(text.as_bytes());
        // Narrow, where it is not one text alone.
        out.resize(out.len() + (width - length) as usize, 0);
        Ok(())
    }

    /// The next row of the table whose head was read last, of columns of these values; none behind the last one.
    pub fn row(&mut self, columns: &[ArrayMeta]) -> Result<Option<Vec<Cell>>> {
        self.next_line()?;
        if self.line == END {
            return Ok(None);
        }
        let values: Vec<Value> = self.head(&self.line)?;
        if values.len() != columns.len() {
            return Err(self.wrong(format_args!(
                "the row has {} values, and the table {} columns",
                values.len(),
                columns.len()
            )));
        }
        let cells = values.iter().zip(columns).map(|(value, meta)| {
            cell(value, meta).ok_or_else(|| {
                let of = if meta.shape.rank() > 0 { meta.to_string() } else { meta.dtype.to_string() };
                self.wrong(format_args!("{value} is no value of a column of {of}"))
            })
        });
        cells.collect::<Result<_>>().map(Some)
    }
}

fn cell(value: &Value, meta: &ArrayMeta) -> Option<Cell> {
    use ElementKind::*;
    if value.is_boolean() {
        return None;
    }
    Some(match (Cell::from_json(value)?, meta.dtype.kind()) {
        (Cell::Null, _) => Cell::Null,
        (Cell::Blob(v), _) if meta.shape.rank() > 0 => {
            return (Some(v.len() as u64) == meta.bytes().ok()).then_some(Cell::Blob(v));
        }
        _ if meta.shape.rank() > 0 => return None,
        (Cell::Text(v), Text) => Cell::Text(v),
        (Cell::Blob(v), Bytes) => Cell::Blob(v),
        (Cell::Int(v), Float) => Cell::Real(v as f64),
        (Cell::Unsigned(v), Float) => Cell::Real(v as f64),
        (Cell::Real(v), Float) => Cell::Real(v),
        (cell @ (Cell::Int(_) | Cell::Unsigned(_)), Signed | Unsigned | Bool) => cell,
        _ => return None,
    })
}
