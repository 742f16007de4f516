//! Reading a run: in this thread from its files, or over a line from the host where they are.

use forebay_client::remote::{FarArray, FarReader};
use forebay_store::Reader;
use forebay_store::catalog::{Checkpoint, DataRow, Moment, Rows, StepRow};
use forebay_store::stepfile::Entry;
use forebay_types::control::{TableInfo, Target};
use forebay_types::reading::{Question, Wanted};
use forebay_types::{Code, Error, Result, Selection};
use serde_json::{Map, Value};

use crate::Array;

/// A run, open for reading.
pub enum Reads {
    /// On this host.
    Here(Reader),
    /// On another one.
    There(Box<FarReader>),
}

use Reads::{Here, There};

impl Reads {
    pub fn list(&self, pattern: &str, set: Option<i64>) -> Result<Vec<DataRow>> {
        match self {
            Here(r) => r.list(pattern, set),
            There(r) => r.ask(&Question::List { pattern: pattern.to_owned(), set }),
        }
    }

    pub fn info(&self, name: &str, set: i64) -> Result<DataRow> {
        match self {
            Here(r) => r.info(name, set),
            There(r) => r.ask(&Question::Info { name: name.to_owned(), set }),
        }
    }

    pub fn get(&self, name: &str, set: i64, selection: &Selection) -> Result<Array> {
        match self {
            Here(r) => r.get(name, set, selection).map(Array::from),
            There(r) => r.array(&wanted(name, set, false, selection)).map(Array::from),
        }
    }

    /// Many data sets whole; over a line the questions are under way together.
    pub fn get_many(&self, names: &[(&str, i64)]) -> Result<Vec<Array>> {
        match self {
            Here(r) => {
                let whole = Selection::default();
                names.iter().map(|(name, set)| r.get(name, *set, &whole).map(Array::from)).collect()
            }
            There(r) => {
                let whole = Selection::default();
                let all: Vec<Wanted> =
                    names.iter().map(|(name, set)| wanted(name, *set, false, &whole)).collect();
                r.arrays(&all)?.into_iter().map(|one| one.map(Array::from)).collect()
            }
        }
    }

    pub fn attrs(&self, target: &Target) -> Result<Map<String, Value>> {
        match self {
            Here(r) => r.attrs(target),
            There(r) => r.ask(&Question::Attrs(target.clone())),
        }
    }

    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        match self {
            Here(r) => r.tables(),
            There(r) => r.ask(&Question::Tables),
        }
    }

    pub fn table(&self, name: &str) -> Result<Option<TableInfo>> {
        match self {
            Here(r) => r.table(name),
            There(r) => r.ask(&Question::Table(name.to_owned())),
        }
    }

    pub fn select(&self, table: &str, condition: &str, args: &[Value]) -> Result<Rows> {
        match self {
            Here(r) => r.select(table, condition, args),
            There(r) => {
                let (table, condition) = (table.to_owned(), condition.to_owned());
                r.rows(&Question::Select { table, condition, args: args.to_vec() }).map(rows)
            }
        }
    }

    pub fn sql(&self, text: &str, args: &[Value]) -> Result<Rows> {
        match self {
            Here(r) => r.sql(text, args),
            There(r) => r.rows(&Question::Sql { text: text.to_owned(), args: args.to_vec() }).map(rows),
        }
    }

    pub fn moment(&self) -> Result<Moment> {
        match self {
            Here(r) => r.moment(),
            There(r) => match r.ask(&Question::Moment) {
                // An older agent tells all steps, or nothing.
                Err(e) if e.code() == Code::VersionMismatch => {
                    let last = r.ask::<Vec<StepRow>>(&Question::Steps)?.pop();
                    Ok(Moment { last, serial: None })
                }
                answer => answer,
            },
        }
    }

    pub fn numbers_at(&self, moment: &Moment) -> Result<Vec<i64>> {
        match self {
            Here(r) => r.numbers_at(moment),
            There(r) => match r.ask(&Question::Numbers(json(moment)?)) {
                Err(e) if e.code() == Code::VersionMismatch => {
                    let steps = r.ask::<Vec<StepRow>>(&Question::Steps)?.into_iter().map(|s| s.step);
                    Ok(steps.filter(|n| moment.last.as_ref().is_some_and(|l| *n <= l.step)).collect())
                }
                answer => answer,
            },
        }
    }

    pub fn step(&self, step: i64) -> Result<StepRow> {
        match self {
            Here(r) => r.step(step),
            There(r) => r.ask(&Question::Step(step)),
        }
    }

    pub fn step_names(&self, step: i64) -> Result<Vec<String>> {
        match self {
            Here(r) => r.step_names(step),
            There(r) => r.ask(&Question::StepNames(step)),
        }
    }

    pub fn step_info(&self, step: i64, name: &str) -> Result<Entry> {
        match self {
            Here(r) => r.step_info(step, name),
            There(r) => r.ask(&Question::StepInfo { step, name: name.to_owned() }),
        }
    }

    pub fn step_get(&self, step: i64, name: &str, selection: &Selection) -> Result<Array> {
        match self {
            Here(r) => r.step_get(step, name, selection).map(Array::from),
            There(r) => r.array(&wanted(name, step, true, selection)).map(Array::from),
        }
    }

    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        match self {
            Here(r) => r.checkpoints(),
            There(r) => r.ask(&Question::Checkpoints),
        }
    }
}

fn json(moment: &Moment) -> Result<Value> {
    serde_json::to_value(moment).map_err(|e| Error::internal(e.to_string()))
}

fn wanted<'a>(name: &'a str, number: i64, of_step: bool, selection: &Selection) -> Wanted<'a> {
    Wanted { name, number, of_step, selection: selection.clone() }
}

fn rows((columns, rows): (Vec<String>, Vec<Vec<forebay_types::record::Cell>>)) -> Rows {
    Rows { columns, rows }
}

impl From<FarArray> for Array {
    fn from((meta, _, bytes): FarArray) -> Array {
        Array { meta, bytes }
    }
}
