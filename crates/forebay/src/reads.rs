//! Reading a run: in this thread from its files, or over a line from the host where they are.

use forebay_client::remote::{RemoteArray, RemoteReader};
use forebay_store::catalog::{Moment, Rows};
use forebay_store::{Answer, MappedArray, Reader};
use forebay_types::columns::ColumnValues;
use forebay_types::reading::{Question, Wanted};
use forebay_types::{ArrayMeta, Error, Result, Selection};
use serde::de::DeserializeOwned;

use crate::Array;

/// A run, open for reading.
pub enum Reads {
    /// On this host.
    Here(Reader),
    /// On another one.
    There(Box<RemoteReader>),
}

use Reads::{Here, There};

/// An array of a data set.
pub fn of_set<'a>(name: &'a str, set: i64, selection: Option<&Selection>) -> Wanted<'a> {
    Wanted { name, number: set, of_step: false, selection: selection.cloned().unwrap_or_default() }
}

/// An array of a step.
pub fn of_step<'a>(name: &'a str, step: i64, selection: Option<&Selection>) -> Wanted<'a> {
    Wanted { of_step: true, ..of_set(name, step, selection) }
}

impl Reads {
    /// The answer to a question.
    pub fn ask<T: TryFrom<Answer, Error = Error> + DeserializeOwned>(
        &self,
        question: &Question,
    ) -> Result<T> {
        match self {
            Here(reader) => reader.answer(question)?.try_into(),
            There(reader) => reader.ask(question),
        }
    }

    /// The answer to one whose answer is rows.
    pub fn rows(&self, question: &Question) -> Result<Rows> {
        match self {
            Here(reader) => reader.answer(question)?.try_into(),
            There(reader) => reader.rows(question).map(|(columns, rows)| Rows { columns, rows }),
        }
    }

    /// The answer to one whose answer is rows, by columns; `meta_of` says what the values of the one of a name are.
    pub fn columns(
        &self,
        question: &Question,
        meta_of: impl Fn(&str) -> Result<ArrayMeta>,
    ) -> Result<Vec<ColumnValues>> {
        match (self, question) {
            (Here(reader), Question::Select(wanted)) => return reader.columns(wanted),
            (Here(reader), Question::History(title)) => return reader.history(title),
            _ => {}
        }
        let found = self.rows(question)?;
        let column = |name: &String| Ok(ColumnValues::new(name.as_str(), meta_of(name)?));
        let mut columns = found.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        for row in &found.rows {
            columns.iter_mut().zip(row).try_for_each(|(column, cell)| column.push(cell))?;
        }
        Ok(columns)
    }

    /// An array, or the part of it that is wanted.
    pub fn array(&self, wanted: &Wanted) -> Result<Array> {
        match self {
            Here(reader) => reader.find(wanted)?.read(&wanted.selection).map(Array::from),
            There(reader) => reader.array(wanted).map(Array::from),
        }
    }

    /// An array as memory that is read when it is touched.
    pub fn mapped(&self, wanted: &Wanted) -> Result<MappedArray> {
        match self {
            Here(reader) => reader.find(wanted)?.map(),
            There(_) => Err(Error::bad(format!(
                "{:?} lies on another host, whose files cannot be mapped here; read it, or the part that is needed (get)",
                wanted.name
            ))),
        }
    }

    /// Many of them; over a line the questions are under way together.
    pub fn arrays(&self, wanted: &[Wanted]) -> Result<Vec<Array>> {
        match self {
            Here(_) => wanted.iter().map(|one| self.array(one)).collect(),
            There(reader) => reader.arrays(wanted)?.into_iter().map(|one| one.map(Array::from)).collect(),
        }
    }

    /// Numbers of the steps that were there at a moment.
    pub fn numbers_at(&self, moment: &Moment) -> Result<Vec<i64>> {
        let moment = serde_json::to_value(moment).map_err(|e| Error::internal(e.to_string()))?;
        self.ask(&Question::Numbers(moment))
    }
}

impl From<RemoteArray> for Array {
    fn from((meta, _, bytes): RemoteArray) -> Array {
        Array { meta, bytes }
    }
}
