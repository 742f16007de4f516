//! What a reader is asked, and what it answers: one table for those who ask on this host and those who ask from another
//! one.

use crate::catalog::{Checkpoint, DataRow, Moment, Rows, StepRow};
use crate::located::Located;
use crate::reader::Reader;
use crate::series::SeriesStep;
use crate::stepfile::Entry;
use forebay_types::columns::ColumnValues;
use forebay_types::control::TableInfo;
use forebay_types::reading::{Question, Wanted};
use forebay_types::{Error, Result};
use serde_json::{Map, Value};

macro_rules! answers {
    ($($(#[$what:meta])* $name:ident($answer:ty),)*) => {
        /// The answer to a [`Question`].
        pub enum Answer {
            $($(#[$what])* $name($answer),)*
            /// Rows of a table or of a query.
            Rows(Rows),
        }

        impl Answer {
            /// Its JSON; none of rows, which are drawn otherwise ([`forebay_types::reading`]).
            pub fn json(&self) -> Result<Option<Vec<u8>>> {
                let json = match self {
                    $(Answer::$name(it) => serde_json::to_vec(it),)*
                    Answer::Rows(_) => return Ok(None),
                };
                json.map(Some).map_err(|e| Error::internal(format!("an answer cannot be written as JSON: {e}")))
            }
        }

        answers!(@from $($name($answer),)* Rows(Rows),);
    };
    (@from $($name:ident($answer:ty),)*) => {
        $(impl TryFrom<Answer> for $answer {
            type Error = Error;

            fn try_from(answer: Answer) -> Result<$answer> {
                match answer {
                    Answer::$name(it) => Ok(it),
                    _ => Err(Error::internal("an answer to another question")),
                }
            }
        })*
    };
}

answers! {
    /// A name.
    RunId(String),
    /// A data set.
    Info(DataRow),
    /// Data sets.
    List(Vec<DataRow>),
    /// Attributes.
    Attrs(Map<String, Value>),
    /// Tables.
    Tables(Vec<TableInfo>),
    /// A table, if there is one.
    Table(Option<TableInfo>),
    /// What there is now.
    Moment(Moment),
    /// Numbers of steps.
    Numbers(Vec<i64>),
    /// A step.
    Step(StepRow),
    /// Names of the arrays of a step.
    StepNames(Vec<String>),
    /// An array of a step.
    StepInfo(Entry),
    /// An array at many steps.
    Series(Vec<SeriesStep>),
    /// The checkpoints.
    Checkpoints(Vec<Checkpoint>),
}

impl Reader {
    /// Answers a question.
    pub fn answer(&self, question: &Question) -> Result<Answer> {
        Ok(match question {
            Question::RunId => Answer::RunId(self.run_id()?),
            Question::Info { name, set } => Answer::Info(self.info(name, *set)?),
            Question::List { pattern, set } => Answer::List(self.list(pattern, *set)?),
            Question::Attrs(target) => Answer::Attrs(self.attrs(target)?),
            Question::Tables => Answer::Tables(self.tables()?),
            Question::Table(name) => Answer::Table(self.table(name)?),
            Question::Select(wanted) => Answer::Rows(self.select_with(wanted)?),
            Question::History(title) => Answer::Rows(rows_of(&self.history(title)?)),
            Question::Sql { text, args } => Answer::Rows(self.sql(text, args)?),
            Question::Moment => Answer::Moment(self.moment()?),
            Question::Numbers(moment) => {
                let moment: Moment = serde_json::from_value(moment.clone())
                    .map_err(|e| Error::bad(format!("a moment of a run is not understood: {e}")))?;
                Answer::Numbers(self.numbers_at(&moment)?)
            }
            Question::Step(step) => Answer::Step(self.step(*step)?),
            Question::StepNames(step) => Answer::StepNames(self.step_names(*step)?),
            Question::StepInfo { step, name } => Answer::StepInfo(self.step_described(*step, name)?),
            Question::Series { name, steps } => Answer::Series(self.series_steps(name, steps.as_deref())?),
            Question::Checkpoints => Answer::Checkpoints(self.checkpoints()?),
        })
    }

    /// Where an array lies.
    pub fn find<'a>(&'a self, wanted: &Wanted<'a>) -> Result<Located<'a>> {
        match wanted.of_step {
            true => self.locate_in_step(wanted.number, wanted.name),
            false => self.locate(wanted.name, wanted.number),
        }
    }
}

/// Columns as rows.
fn rows_of(columns: &[ColumnValues]) -> Rows {
    let count = columns.first().map_or(0, ColumnValues::len);
    Rows {
        columns: columns.iter().map(|c| c.name.clone()).collect(),
        rows: (0..count).map(|row| columns.iter().map(|c| c.cell(row)).collect()).collect(),
    }
}
