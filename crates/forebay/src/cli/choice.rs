//! What of a run is meant where many things may be: names or globs, and snapshots. Rows, a part at a time.

use super::pick;
use forebay::{ArrayMeta, Cell, ColumnValues, Error, Name, Order, Result, Run, Select, Table};
use forebay_types::Code;
use std::collections::BTreeSet;

/// Rows that are read at a time.
const ROWS: u64 = 4096;

/// What a name may be of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ChoiceKind {
    /// An array of snapshots.
    Array,
    /// A data set outside snapshots.
    DataSet,
    /// A table, or a history.
    Table,
}

impl ChoiceKind {
    /// Everything that has a name.
    pub const ALL: [ChoiceKind; 3] = [ChoiceKind::Array, ChoiceKind::DataSet, ChoiceKind::Table];

    fn words(self) -> &'static str {
        match self {
            ChoiceKind::Array => "an array of snapshots",
            ChoiceKind::DataSet => "a data set outside snapshots",
            ChoiceKind::Table => "a table",
        }
    }
}

/// The options that name what is meant.
#[derive(Clone, clap::Args)]
pub struct Choice {
    /// Only what has these names, or matches these globs; of a mesh with components or of particles all arrays.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only these snapshots: a number, or FIRST..LAST, several with commas between; nothing outside snapshots then.
    #[arg(long, value_name = "STEP", value_delimiter = ',', allow_hyphen_values = true)]
    pub steps: Vec<String>,
}

impl Choice {
    /// Whether a name is among what is meant.
    pub fn takes(&self, name: &str) -> bool {
        let matches = |pattern: &String| match Name::new(name) {
            Ok(name) => name.matches(pattern),
            // The title of a history need not be a name.
            Err(_) => name == pattern,
        };
        self.names.is_empty() || self.names.iter().any(|pattern| name == pattern || matches(pattern))
    }

    /// The same, with the arrays of meshes and particles in place of their names. `NotFound` where one of the names is of
    /// nothing in any of the runs; `BadArgument` where it is only of what is not `wanted`, with the reason `why`.
    pub fn within(&self, runs: &[&Run], place: &str, wanted: &[ChoiceKind], why: &str) -> Result<Choice> {
        let mut found = self.clone();
        if self.names.is_empty() {
            return Ok(found);
        }
        let mut there: Vec<(String, ChoiceKind)> = Vec::new();
        for run in runs {
            there.extend(names_in_snapshots(run)?.into_iter().map(|name| (name, ChoiceKind::Array)));
            there.extend(run.list("*", None)?.into_iter().map(|d| (d.name, ChoiceKind::DataSet)));
            there.extend(
                run.tables()?.into_iter().chain(histories(run)?).map(|name| (name, ChoiceKind::Table)),
            );
        }
        let is_wanted =
            |kind: &ChoiceKind| wanted.contains(kind) && (self.outside() || *kind == ChoiceKind::Array);
        for name in &self.names {
            let one = Choice { names: vec![name.clone()], steps: Vec::new() };
            let kinds: Vec<ChoiceKind> =
                there.iter().filter(|(n, _)| one.takes(n)).map(|(_, kind)| *kind).collect();
            if kinds.iter().any(is_wanted) {
                continue;
            }
            let mut members = BTreeSet::new();
            if kinds.is_empty() {
                for run in runs {
                    members.extend(members_of(run, name)?);
                }
            }
            match kinds.first() {
                None if members.is_empty() => return Err(one.nothing(place)),
                None if is_wanted(&ChoiceKind::Array) => found.names.extend(members),
                kind => {
                    let kind = kind.copied().unwrap_or(ChoiceKind::Array);
                    let why = match wanted.contains(&kind) {
                        true => "--steps chooses within snapshots only; leave it out",
                        false => why,
                    };
                    return Err(Error::bad(format!("{name:?} is {}, and {why}", kind.words())));
                }
            }
        }
        Ok(found)
    }

    /// Whether what is outside snapshots is meant, too.
    pub fn outside(&self) -> bool {
        self.steps.is_empty()
    }

    /// Numbers of the snapshots that are meant, of those that there are, in order.
    pub fn among(&self, there: &[i64]) -> Result<Vec<i64>> {
        if self.steps.is_empty() {
            return Ok(there.to_vec());
        }
        let mut chosen = Vec::new();
        for text in &self.steps {
            let (first, last) = pick::range(text)?;
            chosen.extend(there.iter().filter(|step| (first..=last).contains(*step)));
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }

    /// Numbers of the snapshots of a run that are meant, in order. `NotFound` where some are named and there is none.
    pub fn steps(&self, run: &Run, place: &str) -> Result<Vec<i64>> {
        let snapshots = run.snapshots()?;
        let chosen = self.among(snapshots.numbers()?)?;
        match chosen.is_empty() && !self.steps.is_empty() {
            false => Ok(chosen),
            true => Err(Error::new(
                Code::NotFound,
                format!(
                    "there is no snapshot {}; `forebay ls {place} --steps` lists them",
                    self.steps.join(", ")
                ),
            )),
        }
    }

    /// The error of names among which there is nothing.
    pub fn nothing(&self, place: &str) -> Error {
        let text = match self.names.is_empty() {
            true => format!("{place} holds nothing of that kind; `forebay ls RUN` lists what a run holds"),
            false => format!(
                "nothing there is called {}; `forebay ls RUN` lists what a run holds, and with --step the arrays of a snapshot",
                self.names.join(", ")
            ),
        };
        Error::new(Code::NotFound, text)
    }
}

/// Titles of the histories of a run.
pub fn histories(run: &Run) -> Result<Vec<String>> {
    const TITLES: &str = "SELECT title FROM fb_diagrams d WHERE EXISTS (SELECT 1 FROM fb_points p WHERE p.diagram = d.id) ORDER BY title";
    let title = |row: Vec<Cell>| match row.into_iter().next() {
        Some(Cell::Text(title)) => Some(title),
        _ => None,
    };
    Ok(run.sql(TITLES, &[])?.rows.into_iter().filter_map(title).collect())
}

/// Names of all arrays of complete snapshots.
pub fn names_in_snapshots(run: &Run) -> Result<Vec<String>> {
    let name = |row: Vec<Cell>| match row.into_iter().next() {
        Some(Cell::Text(name)) => Some(name),
        _ => None,
    };
    // Of steps in packs their layout says once what they have.
    const NAMES: &str = "SELECT name FROM fb_step_data UNION
        SELECT a.value ->> 'name' AS name FROM fb_layouts l, json_each(l.json) a
        WHERE EXISTS (SELECT 1 FROM fb_packs k JOIN fb_steps s ON s.file = k.file WHERE k.layout = l.id) ORDER BY name";
    let rows = run.sql(NAMES, &[])?.rows;
    Ok(rows.into_iter().filter_map(name).collect())
}

/// The arrays that are components of a mesh of that name, or records of a species of particles, or components of a record.
fn members_of(run: &Run, name: &str) -> Result<Vec<String>> {
    let (of_mesh, of_group) = (format!("{name}_"), format!("{name}/"));
    let snapshots = run.snapshots()?;
    let mut found = Vec::new();
    for array in names_in_snapshots(run)? {
        if !array.starts_with(&of_mesh) && !array.starts_with(&of_group) {
            continue;
        }
        const LAST: &str = "SELECT max(step) FROM (SELECT step FROM fb_step_data WHERE name = ?1 UNION ALL
            SELECT s.step FROM fb_steps s JOIN fb_packs k ON k.file = s.file WHERE k.layout IN
                (SELECT l.id FROM fb_layouts l, json_each(l.json) a WHERE a.value ->> 'name' = ?1))";
        let last = run.sql(LAST, &[array.as_str().into()])?.rows;
        let Some([Cell::Int(step)]) = last.first().map(|row| &row[..]) else { continue };
        let of = snapshots.at(*step)?.dataset(&array)?;
        let is_component = of.mesh.is_some_and(|m| m.name == name && m.array() == array);
        let is_record = of.species.is_some_and(|s| {
            array.starts_with(&of_group) && (s.name == name || name.starts_with(&format!("{}/", s.name)))
        });
        if is_component || is_record {
            found.push(array);
        }
    }
    Ok(found)
}

/// The column of a history that holds the step of each row.
pub const STEP_COLUMN: &str = "fb_step";

/// A table whose arrays are taken apart, for what has single values in a row only.
pub struct Spread {
    /// Names of the columns: one for each element of an array.
    pub names: Vec<String>,
    metas: Vec<ArrayMeta>,
}

impl Spread {
    /// Of a table; `element` makes the name of an element from that of its column and its indices.
    pub fn new(table: &Table, element: impl Fn(&str, &[u64]) -> String) -> Result<Spread> {
        let mut spread = Spread { names: Vec::new(), metas: Vec::new() };
        for column in table.columns() {
            let meta = column.meta()?;
            if column.is_array() {
                let strides = meta.shape.strides(Order::C);
                let indices = |at: u64| -> Vec<u64> {
                    meta.shape.extents().iter().zip(strides).map(|(n, stride)| at / stride % n).collect()
                };
                spread.names.extend((0..meta.shape.len()).map(|at| element(&column.name, &indices(at))));
            } else {
                spread.names.push(column.name.clone());
            }
            spread.metas.push(meta);
        }
        Ok(spread)
    }

    /// The cells of a row; what is behind the columns of the table stays.
    pub fn cells(&self, row: Vec<Cell>) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.names.len() + 1);
        for (at, cell) in row.into_iter().enumerate() {
            match (cell, self.metas.get(at).filter(|meta| meta.shape.rank() > 0)) {
                (Cell::Blob(bytes), Some(meta)) => {
                    let elements = ColumnValues::of_elements("", meta.dtype, bytes);
                    cells.extend((0..elements.len()).map(|element| elements.cell(element)));
                }
                (none, Some(meta)) => cells.extend((0..meta.shape.len()).map(|_| none.clone())),
                (cell, None) => cells.push(cell),
            }
        }
        cells
    }
}

/// The rows of a table, in the order they came.
pub struct RowsOf<'a> {
    table: &'a Table,
    columns: Vec<String>,
    part: Vec<ColumnValues>,
    at: usize,
    after: i64,
    is_over: bool,
}

impl<'a> RowsOf<'a> {
    /// Begins with the first one.
    pub fn new(table: &'a Table) -> RowsOf<'a> {
        RowsOf { table, columns: Vec::new(), part: Vec::new(), at: 0, after: i64::MIN, is_over: false }
    }

    /// The same of a history, with the step of each row behind its values.
    pub fn with_steps(table: &'a Table) -> RowsOf<'a> {
        let names = table.columns().iter().map(|c| c.name.clone());
        RowsOf { columns: names.chain([STEP_COLUMN.to_owned()]).collect(), ..RowsOf::new(table) }
    }

    /// The next one.
    pub fn next(&mut self) -> Result<Option<Vec<Cell>>> {
        if self.at == self.part.first().map_or(0, ColumnValues::len) {
            if self.is_over {
                return Ok(None);
            }
            let columns = self.columns.clone();
            let wanted = Select { columns, limit: Some(ROWS), after: Some(self.after), ..Select::default() };
            self.part = self.table.select_columns(wanted)?;
            let numbers = self.part.pop();
            let rows = numbers.as_ref().map_or(0, ColumnValues::len);
            self.is_over = (rows as u64) < ROWS;
            self.at = 0;
            if rows == 0 {
                self.part.clear();
                return Ok(None);
            }
            if let Some(Cell::Int(last)) = numbers.map(|n| n.cell(rows - 1)) {
                self.after = last;
            }
        }
        let row = self.part.iter().map(|column| column.cell(self.at)).collect();
        self.at += 1;
        Ok(Some(row))
    }
}
