//! What of a run is meant where many things may be: names or globs, and snapshots. Rows, a part at a time.

use super::pick;
use forebay::{Cell, ColumnValues, Error, Name, Result, Run, Select, Table};
use forebay_types::Code;

/// Rows that are read at a time.
const ROWS: u64 = 4096;

/// The options that name what is meant.
#[derive(clap::Args)]
pub struct Choice {
    /// Only what has these names, or matches these globs.
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
            true => format!("{place} holds nothing of that kind; `forebay ls {place}` lists what it holds"),
            false => format!(
                "nothing there is called {}; `forebay ls {place}` lists what {place} holds",
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
    let rows = run.sql("SELECT DISTINCT name FROM fb_step_data ORDER BY name", &[])?.rows;
    Ok(rows.into_iter().filter_map(name).collect())
}

/// The rows of a table, in the order they came.
pub struct RowsOf<'a> {
    table: &'a Table,
    part: Vec<ColumnValues>,
    at: usize,
    after: i64,
    is_over: bool,
}

impl<'a> RowsOf<'a> {
    /// Begins with the first one.
    pub fn new(table: &'a Table) -> RowsOf<'a> {
        RowsOf { table, part: Vec::new(), at: 0, after: i64::MIN, is_over: false }
    }

    /// The next one.
    pub fn next(&mut self) -> Result<Option<Vec<Cell>>> {
        if self.at == self.part.first().map_or(0, ColumnValues::len) {
            if self.is_over {
                return Ok(None);
            }
            let wanted = Select { limit: Some(ROWS), after: Some(self.after), ..Select::default() };
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
