//! A run: the object that programs hold.

use std::path::Path;
use std::sync::Arc;

use forebay_types::control::{Mode, PageLinks, Target};
use forebay_types::watch::Kind;
use forebay_types::{Result, Selection};
use serde_json::{Map, Value};

use crate::snapshot::pending;
use crate::{
    Array, DataSet, Diagram, DiagramOptions, Kept, KeptSnapshots, Level, OpenOptions, Parameter,
    ParameterOptions, Restart, Rows, Snapshot, Steps, Table, TableOptions, View,
};

/// What may go with a [`Run::put`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions<'a> {
    /// Set number; 0 by default.
    pub set: i64,
    /// Unit, or empty.
    pub unit: &'a str,
    /// Attributes that replace those of an earlier version; none by default.
    pub attrs: Option<&'a Map<String, Value>>,
}

/// An open run. Cheap to clone, usable from every thread; the last clone that goes closes it.
#[derive(Clone)]
pub struct Run {
    _inner: Arc<()>,
}

/// Opens a run: `two_stream` means the directory `two_stream.fb`. With mode `r` nothing is
/// started and nobody is asked. Otherwise the node's agent is used when there is one; when there
/// is none a single process embeds the owner and several ranks start an agent.
///
/// Fails with `NotFound` (mode `r`, `r+`), `Conflict` (mode `x`, or another process writes the
/// run: the text names pid and host), `VersionMismatch` (a newer format), `ReadOnly`.
pub fn open(place: &str, mode: Mode, options: OpenOptions) -> Result<Run> {
    let _ = (place, mode, options);
    pending()
}

impl Run {
    /// Its directory, absolute.
    pub fn path(&self) -> &Path {
        Path::new("")
    }

    /// This rank and the number of ranks.
    pub fn rank_and_size(&self) -> (u32, u32) {
        (0, 1)
    }

    /// Whether it was opened for reading only.
    pub fn read_only(&self) -> bool {
        false
    }

    /// Whether it has been closed.
    pub fn closed(&self) -> bool {
        false
    }

    // --- data sets ---------------------------------------------------------------------------

    /// Stores or replaces a data set. The bytes are copied when it returns; durable at
    /// [`Run::flush`].
    pub fn put(&self, name: &str, view: View, options: PutOptions) -> Result<()> {
        let _ = (name, view, options);
        pending()
    }

    /// Stores only if the stored version is still `version` (0: must not exist) and returns the
    /// new one; else `Conflict`.
    pub fn put_if_version(&self, name: &str, view: View, options: PutOptions, version: u64) -> Result<u64> {
        let _ = (name, view, options, version);
        pending()
    }

    /// Reads a data set, or with a selection only that part of it.
    pub fn get(&self, name: &str, set: i64, selection: Option<&Selection>) -> Result<Array> {
        let _ = (name, set, selection);
        pending()
    }

    /// Describes one data set; `NotFound` if there is none.
    pub fn dataset(&self, name: &str, set: i64) -> Result<DataSet> {
        let _ = (name, set);
        pending()
    }

    /// Describes the data sets whose names match a glob, of one set or all, by name and set.
    pub fn list(&self, pattern: &str, set: Option<i64>) -> Result<Vec<DataSet>> {
        let _ = (pattern, set);
        pending()
    }

    /// Deletes data sets by glob, of one set or all; returns how many.
    pub fn delete(&self, pattern: &str, set: Option<i64>) -> Result<u64> {
        let _ = (pattern, set);
        pending()
    }

    /// Renames a data set with all its sets; returns how many.
    pub fn rename(&self, from: &str, to: &str) -> Result<u64> {
        let _ = (from, to);
        pending()
    }

    /// Copies a data set with all its sets; returns how many.
    pub fn copy(&self, from: &str, to: &str) -> Result<u64> {
        let _ = (from, to);
        pending()
    }

    /// The attributes of the run, a data set or a table.
    pub fn attrs(&self, target: &Target) -> Result<Map<String, Value>> {
        let _ = target;
        pending()
    }

    /// Changes attributes; null values delete, what is not named stays.
    pub fn set_attrs(&self, target: &Target, attrs: Map<String, Value>) -> Result<()> {
        let _ = (target, attrs);
        pending()
    }

    // --- tables ------------------------------------------------------------------------------

    /// Creates a table, or opens it when `options.columns` is empty or says the same.
    pub fn table(&self, name: &str, options: TableOptions) -> Result<Table> {
        let _ = (name, options);
        pending()
    }

    /// Names of the tables.
    pub fn tables(&self) -> Result<Vec<String>> {
        pending()
    }

    /// Reads with SQL; writing statements are refused.
    pub fn sql(&self, query: &str, args: &[Value]) -> Result<Rows> {
        let _ = (query, args);
        pending()
    }

    // --- snapshots ---------------------------------------------------------------------------

    /// Begins a snapshot. `Conflict` if the step exists, or while another snapshot of this rank
    /// is not yet ended.
    pub fn snapshot(&self, step: i64, time: Option<f64>) -> Result<Snapshot> {
        let _ = (step, time);
        pending()
    }

    /// The complete snapshots. A single rank sees those that it ended (this waits for the disk);
    /// of several ranks, what is durable.
    pub fn snapshots(&self) -> Result<KeptSnapshots> {
        pending()
    }

    /// Goes back to the last complete step: parameters take their values of that step, later rows
    /// of histories are removed. `None` when there is no step: begin at 0.
    pub fn restart(&self) -> Result<Option<Restart>> {
        pending()
    }

    /// Marks the last ended step as a restart point; returns its number.
    pub fn checkpoint(&self, tag: Option<&str>) -> Result<i64> {
        let _ = tag;
        pending()
    }

    /// Waits until everything put so far is durable; reports what could not be written.
    pub fn flush(&self) -> Result<()> {
        pending()
    }

    /// Figures: `visible_s, hidden_s, overlap, overflow_bytes, high_water_bytes, lag_s,
    /// durable_step, written_bytes, dropped_steps, ...`.
    pub fn stats(&self) -> Result<Map<String, Value>> {
        pending()
    }

    // --- watch and steer ---------------------------------------------------------------------

    /// The loop head: yields `start .. n`, and is where Run, Step, Stop, Save, Quit and changed
    /// parameters act.
    pub fn steps(&self, n: i64, start: i64) -> Result<Steps> {
        let _ = (n, start);
        pending()
    }

    /// Declares a diagram.
    pub fn diagram(&self, title: &str, kind: Kind, options: DiagramOptions) -> Result<Diagram> {
        let _ = (title, kind, options);
        pending()
    }

    /// Declares a steerable parameter; after [`Run::restart`] it has its value of that step.
    pub fn parameter(&self, name: &str, value: Value, options: ParameterOptions) -> Result<Parameter> {
        let _ = (name, value, options);
        pending()
    }

    /// What Save does. Called in the thread of the loop head with the step; an error is shown to
    /// whoever pressed the button, the run goes on.
    pub fn saves(&self, callback: impl FnMut(i64) -> Result<()> + Send + 'static) -> Result<()> {
        let _ = callback;
        pending()
    }

    /// A button of the program's own; called as [`Run::saves`] says.
    pub fn command(
        &self,
        name: &str,
        callback: impl FnMut(i64) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let _ = (name, callback);
        pending()
    }

    /// A message for people.
    pub fn message(&self, text: &str, level: Level) -> Result<()> {
        let _ = (text, level);
        pending()
    }

    /// Starts the page if it is not there; its links.
    pub fn monitor(&self) -> Result<PageLinks> {
        pending()
    }

    // --- life --------------------------------------------------------------------------------

    /// A check that waiting calls make every 100 ms in the waiting thread, for example for
    /// Ctrl-C; its error ends the wait and is returned from the call.
    pub fn on_wait(&self, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        let _ = check;
    }

    /// Drains and closes; later calls fail with `Closed`. Closing twice does nothing. The run is
    /// marked finished when its loop came to the end (or there was none).
    pub fn close(&self) -> Result<()> {
        pending()
    }

    /// The last complete snapshot, if any: short for `snapshots().last()`.
    pub fn last_snapshot(&self) -> Result<Option<Kept>> {
        pending()
    }
}
