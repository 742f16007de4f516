//! Reading a run: what is committed, from any process of the host, waiting for nobody.
//!
//! The catalog is opened read-only; arrays are read from their files at the offsets the catalog
//! knows, only the part that is asked for. A reader may be shared by threads.

use crate::ahead::{self, Ahead};
use crate::burst::{Asking, Burst};
use crate::catalog::{self, Checkpoint, DataRow, Moment, Opened, PartialRow, Rows, StepRow};
use crate::layout::{DirectoryKind, Layout, begun, is_pack};
use crate::located::{Array, Located};
use crate::stepfile::Entry;
use forebay_types::columns::ColumnValues;
use forebay_types::control::{TableInfo, Target};
use forebay_types::reading::Select;
use forebay_types::watch::{Diagram, Parameter};
use forebay_types::{ArrayMeta, Code, Error, Result, Selection, Shape, Tally};
use std::path::Path;

/// A run, open for reading.
pub struct Reader {
    layout: Layout,
    burst: Burst,
    commits: Option<Commits>,
    ahead: Ahead,
}

/// Counts the commits of the catalog.
type Commits = Box<dyn Fn() -> u64 + Send + Sync>;

type Attrs = serde_json::Map<String, serde_json::Value>;

impl Reader {
    /// Opens the run in a directory. Refused: no such run, not a run, a newer format.
    pub fn open(dir: &Path) -> Result<Reader> {
        let layout = Layout::new(dir);
        match layout.inspect()? {
            DirectoryKind::Run => {}
            DirectoryKind::Remains => {
                return Err(Error::new(
                    Code::Corrupt,
                    format!("{} has files of a run and no catalog; run `forebay repair {0}`", dir.display()),
                ));
            }
            DirectoryKind::Begun => return Err(Error::new(Code::NotFound, begun(&layout))),
            DirectoryKind::Nothing | DirectoryKind::Empty => {
                return Err(Error::new(
                    Code::NotFound,
                    format!(
                        "there is no run {}; give the path of its directory, with or without .fb",
                        dir.display()
                    ),
                ));
            }
        }
        let catalog = Opened::open(&layout.catalog()).map_err(|e| layout.of_catalog(e))?;
        Ok(Reader { layout, burst: Burst::new(catalog), commits: None, ahead: Ahead::default() })
    }

    /// Makes bursts of questions cheaper where commits can be counted: nothing is committed while
    /// the count stays. It may grow only after the commit is visible, and before anybody is told
    /// of it.
    pub fn following(mut self, commits: impl Fn() -> u64 + Send + Sync + 'static) -> Reader {
        self.commits = Some(Box::new(commits));
        self
    }

    /// The run's directory.
    pub fn dir(&self) -> &Path {
        self.layout.root()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Asks the catalog a question for which there is no function here.
    pub(crate) fn asked<T>(&self, question: impl FnOnce(&rusqlite::Connection) -> Result<T>) -> Result<T> {
        question(self.burst.now()?.conn()?)
    }

    /// Asks the catalog a question; the error of a damaged catalog says how it is repaired.
    fn ask<T>(&self, question: impl FnOnce(&rusqlite::Connection) -> Result<T>) -> Result<T> {
        self.asked(question).map_err(|e| self.layout.of_catalog(e))
    }

    /// Takes the connection to the catalog for one of many small questions, which share one look at it while nothing
    /// is committed.
    fn conn_of_burst(&self) -> Result<Asking<'_>> {
        match &self.commits {
            Some(count) => self.burst.at(count()),
            None => self.burst.now(),
        }
    }

    /// Looks once more for what is not as the catalog said: the file of it may have been replaced, dropped or put
    /// aside since, or the run be another one.
    pub(crate) fn twice<T>(&self, look: impl Fn() -> Result<T>) -> Result<T> {
        match look() {
            Err(e) if e.code() == Code::Corrupt => self.burst.again().map(drop).and_then(|()| look()),
            other => other,
        }
    }

    /// The run's identity.
    pub fn run_id(&self) -> Result<String> {
        self.ask(|conn| catalog::fact(conn, "run_id"))
    }

    /// Data sets outside steps whose name matches a glob.
    pub fn list(&self, pattern: &str, set: Option<i64>) -> Result<Vec<DataRow>> {
        self.ask(|conn| catalog::data_rows(conn, pattern, set))
    }

    /// A data set without its bytes.
    pub fn info(&self, name: &str, set: i64) -> Result<DataRow> {
        let found = self.ask(|conn| catalog::data_row(conn, name, set)?.ok_or_else(|| absent(name, set)));
        found.map_err(|e| self.with_names(name, set, e))
    }

    /// A data set, or the part of it that a selection picks.
    pub fn get(&self, name: &str, set: i64, sel: &Selection) -> Result<Array> {
        self.locate(name, set)?.read(sel)
    }

    /// A data set, to be read at once or in slabs.
    pub fn locate<'a>(&'a self, name: &'a str, set: i64) -> Result<Located<'a>> {
        // A file that was replaced between the look into the catalog and its opening is looked
        // for once more.
        match self.locate_by(self.conn_of_burst()?, (name, set), false) {
            Err(e) if e.code() == Code::NotFound => self
                .locate_by(self.burst.again()?, (name, set), true)
                .map_err(|e| self.with_names(name, set, e)),
            other => other,
        }
    }

    /// What there is instead of a data set that is not there.
    #[cold]
    fn with_names(&self, name: &str, set: i64, absent: Error) -> Error {
        if absent.code() != Code::NotFound {
            return absent;
        }
        let sets = self.ask(|conn| catalog::data_sets_of(conn, name)).unwrap_or_default();
        let names = self.ask(catalog::data_names).unwrap_or_default();
        let instead = match (sets.is_empty(), forebay_types::alike(name, &names).first()) {
            (false, _) => format!("it has {}", listed(&sets, "the set", "the sets")),
            (true, Some(near)) => format!("did you mean {near:?}?"),
            (true, None) => return absent,
        };
        Error::new(Code::NotFound, format!("there is no data set {name:?} set {set}; {instead}"))
    }

    fn locate_by<'a>(&'a self, conn: Asking, which: (&'a str, i64), last: bool) -> Result<Located<'a>> {
        let (name, set) = which;
        let found = catalog::find(conn.conn()?, name, set).map_err(|e| self.layout.of_catalog(e))?;
        drop(conn);
        Located::outside(&self.layout, found.ok_or_else(|| absent(name, set))?, which, last)
    }

    /// Attributes of the run, of a data set or of a table.
    pub fn attrs(&self, target: &Target) -> Result<Attrs> {
        self.ask(|conn| catalog::attributes(conn, target))
    }

    /// All tables.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.ask(catalog::tables)
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Result<Option<TableInfo>> {
        self.ask(|conn| catalog::table(conn, name))
    }

    /// Rows of a table by condition with `?`; all for an empty one.
    pub fn select(&self, table: &str, condition: &str, args: &[serde_json::Value]) -> Result<Rows> {
        let (table, condition) = (table.to_owned(), condition.to_owned());
        self.select_with(&Select { table, condition, args: args.to_vec(), ..Select::default() })
    }

    /// Rows of a table, as they are wanted.
    pub fn select_with(&self, wanted: &Select) -> Result<Rows> {
        self.ask(|conn| catalog::select_rows(conn, wanted))
    }

    /// The same by columns.
    pub fn columns(&self, wanted: &Select) -> Result<Vec<ColumnValues>> {
        self.ask(|conn| catalog::select_columns(conn, wanted))
    }

    /// The points of a history: the columns step and t, and one for each curve.
    pub fn history(&self, title: &str) -> Result<Vec<ColumnValues>> {
        self.ask(|conn| catalog::history(conn, title))
    }

    /// Any SQL that only reads.
    pub fn sql(&self, text: &str, args: &[serde_json::Value]) -> Result<Rows> {
        self.ask(|conn| catalog::read_only(conn, text, args))
    }

    /// Steps that lack ranks whose memory is on another host, in order.
    pub fn partial_steps(&self) -> Result<Vec<PartialRow>> {
        self.ask(catalog::partial_steps)
    }

    /// All complete steps, in order.
    pub fn steps(&self) -> Result<Vec<StepRow>> {
        self.ask(catalog::steps)
    }

    /// One complete step.
    pub fn step(&self, step: i64) -> Result<StepRow> {
        let found = self.ask(|conn| catalog::step_row(conn, step))?;
        found.ok_or_else(|| self.no_step(step))
    }

    fn no_step(&self, step: i64) -> Error {
        let near = self.ask(|conn| catalog::nearest_steps(conn, step)).unwrap_or_default();
        let near: Vec<String> = near.iter().map(i64::to_string).collect();
        let known = if near.is_empty() { "there is none".into() } else { near.join(" and ") };
        Error::new(
            Code::NotFound,
            format!("there is no complete snapshot of step {step}; the nearest: {known}"),
        )
    }

    /// What there is now.
    pub fn moment(&self) -> Result<Moment> {
        self.ask(catalog::moment)
    }

    /// Numbers of the complete steps of a moment, in order.
    pub fn numbers_at(&self, moment: &Moment) -> Result<Vec<i64>> {
        self.ask(|conn| catalog::numbers_at(conn, moment))
    }

    /// The last complete step.
    pub fn last_step(&self) -> Result<Option<StepRow>> {
        let last = self.ask(catalog::last_step)?;
        last.map(|step| self.step(step)).transpose()
    }

    /// Names of the data sets of a step.
    pub fn step_names(&self, step: i64) -> Result<Vec<String>> {
        self.ask(|conn| catalog::step_names(conn, step))
    }

    /// What a data set of a step is, where it lies, which pieces it was made of and what it says of itself.
    pub fn step_info(&self, step: i64, name: &str) -> Result<Entry> {
        self.step_entry(step, name, catalog::step_entry)
    }

    /// The same, with what its values come to also where that is not kept.
    pub fn step_described(&self, step: i64, name: &str) -> Result<Entry> {
        let mut entry = self.step_info(step, name)?;
        let whole = entry.pieces.first().filter(|p| entry.pieces.len() == 1 && p.stats.is_none());
        if whole.is_some()
            && is_pack(&self.step(step)?.file)
            && let Some(mut tally) = Tally::new(entry.meta.dtype)
        {
            // What is damaged is told when it is read.
            if let Ok(read) = self.step_get(step, name, &Selection::default()) {
                tally.take(&read.bytes);
                entry.pieces[0].stats = Some(tally.stats());
            }
        }
        Ok(entry)
    }

    fn step_entry(
        &self,
        step: i64,
        name: &str,
        read: impl Fn(&rusqlite::Connection, i64, &str) -> Result<Option<Entry>>,
    ) -> Result<Entry> {
        let found = self.ask(|conn| read(conn, step, name))?;
        match found {
            Some(entry) => Ok(entry),
            None => {
                self.step(step)?;
                let names = self.step_names(step)?;
                let instead = match forebay_types::alike(name, &names).first() {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("it has {}", listed(&names, "", "")),
                };
                Err(Error::new(Code::NotFound, format!("step {step} has no data set {name:?}; {instead}")))
            }
        }
    }

    /// A data set of a step, or the part of it that a selection picks.
    pub fn step_get(&self, step: i64, name: &str, sel: &Selection) -> Result<Array> {
        self.locate_in_step(step, name)?.read(sel)
    }

    /// A data set of a step, to be read once or in slabs.
    pub fn locate_in_step(&self, step: i64, name: &str) -> Result<Located<'_>> {
        let located = self.twice(|| self.open_in_step(step, name))?;
        if let Some(before) = self.ahead.note(name, step, located.meta.bytes()?) {
            // What cannot be fetched now is told when it is read.
            drop(self.fetch_onwards(step, before, name));
        }
        Ok(located)
    }

    fn open_in_step(&self, step: i64, name: &str) -> Result<Located<'_>> {
        Located::in_step(&self.layout, self.step_entry(step, name, catalog::step_data)?, self.step(step)?)
    }

    /// Has the array of the step behind this one read, as it goes on from the one before.
    fn fetch_onwards(&self, step: i64, before: i64, name: &str) -> Result<()> {
        let neighbours = self.ask(|conn| catalog::nearest_steps(conn, step))?;
        if let Some(next) = ahead::onwards(step, before, &neighbours) {
            self.open_in_step(next, name)?.fetch();
        }
        Ok(())
    }

    /// Rank and size of a session, how far its small records are applied, and whether it is over.
    pub fn session(&self, number: u64) -> Result<Option<(u32, u32, u64, bool)>> {
        self.ask(|conn| catalog::session(conn, number))
    }

    /// Name of the segment that a session's rank has on the store's host.
    pub fn segment_of(&self, session: u64) -> Result<Option<String>> {
        self.ask(|conn| catalog::segment_of(conn, session))
    }

    /// Checkpoints, in order.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.ask(catalog::checkpoints)
    }

    /// Whether the run was closed as finished.
    pub fn finished(&self) -> Result<bool> {
        self.ask(catalog::finished)
    }

    /// Declared parameters with their values.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        self.ask(catalog::parameters)
    }

    /// Declared diagrams.
    pub fn diagrams(&self) -> Result<Vec<Diagram>> {
        self.ask(catalog::diagrams)
    }

    /// Curves of a diagram: number and name.
    pub fn curves(&self, diagram: u32) -> Result<Vec<(u32, String)>> {
        self.ask(|conn| catalog::curves(conn, diagram))
    }

    /// Recorded points of a curve.
    pub fn points(&self, diagram: u32, curve: u32) -> Result<Vec<(f64, f64)>> {
        self.ask(|conn| catalog::points(conn, diagram, curve))
    }

    /// Recorded points in rows `from` to `to`, both among them, in order, at most `most`; of one
    /// diagram and curve if asked.
    pub fn points_between(
        &self,
        rows: (i64, i64),
        of: Option<(u32, u32)>,
        most: usize,
    ) -> Result<Vec<catalog::Point>> {
        self.ask(|conn| catalog::points_between(conn, rows, of, most))
    }

    /// The last messages: step, level and text.
    pub fn messages(&self, last: u32) -> Result<Vec<(i64, u8, String)>> {
        self.ask(|conn| catalog::messages(conn, last))
    }

    /// The log of steering.
    pub fn acts(&self) -> Result<Vec<catalog::Act>> {
        self.ask(catalog::acts)
    }
}

/// The shape a selection gives, without reading.
pub fn shape_of(meta: &ArrayMeta, sel: &Selection) -> Result<Shape> {
    Selection::shape_of(&sel.resolve(&meta.shape)?)
}

/// The first of many, for people.
fn listed<T: std::fmt::Display>(all: &[T], one: &str, several: &str) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = all.iter().take(SHOWN).map(T::to_string).collect();
    let more = match all.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let what = if all.len() == 1 { one } else { several };
    match shown.is_empty() {
        true => "none".to_owned(),
        false => format!("{what} {}{more}", shown.join(", ")).trim_start().to_owned(),
    }
}

fn absent(name: &str, set: i64) -> Error {
    Error::new(Code::NotFound, format!("there is no data set {name:?} set {set}; `ls` shows what is there"))
}
