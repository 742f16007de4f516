//! What is said of differences: a line for each as it is found, or one value for machines at the end.

use super::super::out::Out;
use super::super::print;
use super::elements::{Differing, text};
use forebay::{Cell, Result};
use forebay_types::counted;
use serde_json::{Value, json};

/// Characters of a value that are shown.
const SHOWN: usize = 80;

/// What differs.
pub enum Of {
    /// The run.
    Run,
    /// A data set outside snapshots.
    DataSet(String, i64),
    /// A snapshot.
    Snapshot(i64),
    /// An array of a snapshot, or of two that have different numbers.
    Array(String, i64, i64),
    /// A table.
    Table(String),
    /// A history.
    History(String),
}

impl Of {
    fn words(&self) -> String {
        match self {
            Of::Run => "the run".to_owned(),
            Of::DataSet(name, 0) => format!("the data set {name:?}"),
            Of::DataSet(name, set) => format!("the data set {name:?} set {set}"),
            Of::Snapshot(step) => format!("snapshot {step}"),
            Of::Array(name, step, other) if step == other => format!("{name:?} of snapshot {step}"),
            Of::Array(name, step, other) => format!("{name:?} of snapshots {step} and {other}"),
            Of::Table(name) => format!("the table {name:?}"),
            Of::History(title) => format!("the history {title:?}"),
        }
    }

    fn machine(&self) -> Value {
        match self {
            Of::Run => json!({"of": "run"}),
            Of::DataSet(name, set) => json!({"of": "data set", "name": name, "set": set}),
            Of::Snapshot(step) => json!({"of": "snapshot", "step": step}),
            Of::Array(name, step, other) => {
                json!({"of": "array", "name": name, "step": step, "other_step": other})
            }
            Of::Table(name) => json!({"of": "table", "name": name}),
            Of::History(title) => json!({"of": "history", "name": title}),
        }
    }
}

/// Collects what is found.
pub struct Findings<'a> {
    out: &'a Out,
    a: &'a str,
    b: &'a str,
    found: Vec<Value>,
    count: u64,
    arrays: u64,
    tables: u64,
    bytes: u64,
    unread: u64,
}

impl<'a> Findings<'a> {
    /// Of these two.
    pub fn new(out: &'a Out, a: &'a str, b: &'a str) -> Findings<'a> {
        Findings { out, a, b, found: Vec::new(), count: 0, arrays: 0, tables: 0, bytes: 0, unread: 0 }
    }

    /// Two arrays were compared.
    pub fn count_array(&mut self) {
        self.arrays += 1;
    }

    /// Two tables or histories were.
    pub fn count_table(&mut self) {
        self.tables += 1;
    }

    /// So many bytes of arrays are compared, and of so many the checksums alone.
    pub fn count_bytes(&mut self, bytes: u64, unread: u64) {
        self.bytes += bytes;
        self.unread += unread;
    }

    /// How many things were compared or found to be in one only.
    pub fn compared(&self) -> u64 {
        self.arrays + self.tables + self.count
    }

    fn say(&mut self, of: &Of, members: Value, line: impl FnOnce() -> String) -> Result<()> {
        self.count += 1;
        if !self.out.json {
            return self.out.line(line());
        }
        let mut value = of.machine();
        if let (Value::Object(into), Value::Object(from)) = (&mut value, members) {
            into.extend(from);
        }
        self.found.push(value);
        Ok(())
    }

    /// It is in one only.
    pub fn only(&mut self, of: &Of, in_a: bool) -> Result<()> {
        let place = if in_a { self.a } else { self.b };
        self.say(of, json!({"differs": "only", "in": place}), || format!("only in {place}: {}", of.words()))
    }

    /// It says different things; null is what is not there.
    pub fn value(&mut self, of: &Of, what: &str, a: &Value, b: &Value) -> Result<()> {
        let shown = |v: &Value| match v {
            Value::Null => "nothing".to_owned(),
            Value::String(text) if what == "dtype and shape" => text.clone(),
            other => {
                let all = other.to_string();
                let shown: String = all.chars().take(SHOWN).collect();
                if shown.len() < all.len() { shown + "..." } else { shown }
            }
        };
        let line = || format!("{}: {what}: {} and {}", of.words(), shown(a), shown(b));
        self.say(of, json!({"differs": what, "a": a, "b": b}), line)
    }

    /// Elements of it differ, if any do.
    pub fn elements(&mut self, of: &Of, found: &Differing, all: u64) -> Result<()> {
        let Some((index, a, b)) = &found.first else { return Ok(()) };
        let members = json!({
            "differs": "elements", "differing": found.count, "elements": all, "first": index, "a": a, "b": b,
            "largest": found.largest, "largest_relative": found.largest_relative,
        });
        let line = || {
            let largest = match (found.largest, found.largest_relative) {
                (Some(v), Some(r)) => format!("; at most by {v:?}, relative {r:?}"),
                (Some(v), None) => format!("; at most by {v:?}"),
                _ => String::new(),
            };
            let what = if found.count == 1 { "elements differs" } else { "elements differ" };
            format!(
                "{}: {} of {all} {what}, the first at {index:?}: {a} and {b}{largest}",
                of.words(),
                found.count
            )
        };
        self.say(of, members, line)
    }

    /// Rows of it differ.
    pub fn rows(&mut self, of: &Of, count: u64, all: u64, first: &(u64, String, Cell, Cell)) -> Result<()> {
        let (row, column, a, b) = first;
        let members = json!({
            "differs": "rows", "differing": count, "rows": all, "first": row, "column": column,
            "a": print::cell(a), "b": print::cell(b),
        });
        let shown = |cell: &Cell| match cell {
            Cell::Null => "nothing".to_owned(),
            Cell::Text(v) => text(v),
            other => print::cell_text(other),
        };
        let line = || {
            let what = if count == 1 { "rows differs" } else { "rows differ" };
            let (a, b) = (shown(a), shown(b));
            format!(
                "{}: {count} of {all} {what}, the first is row {row}, {column:?}: {a} and {b}",
                of.words()
            )
        };
        self.say(of, members, line)
    }

    /// Says the last word; whether they are the same.
    pub fn end(self) -> Result<bool> {
        let is_same = self.count == 0;
        if self.out.json {
            self.out.value(&json!({
                "same": is_same, "a": self.a, "b": self.b, "arrays": self.arrays, "tables": self.tables,
                "bytes": self.bytes, "bytes_by_checksum": self.unread, "differences": self.found,
            }))?;
            return Ok(is_same);
        }
        let what =
            format!("{} and {} compared", counted(self.arrays, "array"), counted(self.tables, "table"));
        self.out.line(match is_same {
            true => format!("the same: {what}"),
            false => format!("{}: {what}", counted(self.count, "difference")),
        })?;
        if is_same && self.unread > 0 {
            self.out.line("arrays whose checksums agree were not read; --read-all reads their bytes")?;
        }
        Ok(is_same)
    }
}
