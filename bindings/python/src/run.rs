//! A run, as the Python class of the same name needs it. Descriptors travel as JSON text.

use forebay::{
    Array, Column, Compression, ConstantOptions, Description, Elsewhere, Keep, LateErrors, Level, Mode,
    OpenOptions, Order, PutOptions, Selection, SeriesOptions, Slice, TableOptions, Target, WhenFull,
};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::arrays::{self, PutSource};
use crate::columns::Columns;
use crate::kept::{Kept, KeptSnapshots};
use crate::snapshot::Snapshot;
use crate::table::{Table, rows_to_python};
use crate::waits::{at_head, keep, keep_of_head, released, released_from, signals};
use crate::watch::{Diagram, Parameter, Steps};
use crate::{errors, json};

/// A data set as Python makes a `DataSet` of it: name, set, dtype, shape, unit, attributes as
/// JSON, names of axes, version, bytes, as JSON the mesh and the species that it is of, and what its values come to.
pub type Described =
    (String, i64, &'static str, Vec<u64>, String, String, Vec<String>, u64, u64, String, Option<String>);
/// A checkpoint as Python makes a `Checkpoint` of it: number, step, tag, parent, time, parameters
/// as JSON, when it was made, whether its step is in the run still.
pub type Marked = (i64, i64, Option<String>, Option<i64>, Option<f64>, String, f64, bool);
/// Where a restart leads: the snapshot, its parameters as JSON, whether the run was finished, which
/// damaged snapshots were passed over.
type RestartParts = (Kept, String, bool, Vec<i64>);
/// How many packs and steps of how many bytes, and which steps stay single and why.
type PackedParts = (u64, u64, u64, Vec<(i64, i64, u64, String)>);
/// One axis of a selection: start, count, step, and whether the axis disappears.
pub type Axis = (u64, u64, u64, bool);

/// An open run.
#[pyclass(frozen)]
pub struct Run {
    inner: forebay::Run,
}

/// A selection from the axes that `forebay._index` worked out.
pub fn selection(axes: Option<Vec<Axis>>) -> Option<Selection> {
    let slice = |(start, count, step, squeeze)| Slice { start, count, step, squeeze };
    axes.map(|axes| Selection(axes.into_iter().map(slice).collect()))
}

/// A data set for Python.
pub fn described(d: forebay::DataSet) -> Described {
    let shape = d.meta.shape.extents().to_vec();
    let of = serde_json::json!([d.mesh, d.species]).to_string();
    let stats = d.stats.and_then(|stats| serde_json::to_string(&stats).ok());
    (
        d.name,
        d.set,
        d.meta.dtype.name(),
        shape,
        d.units,
        Value::Object(d.attrs).to_string(),
        d.dims,
        d.version,
        d.nbytes,
        of,
        stats,
    )
}

fn target(kind: &str, name: &str, set: i64) -> Target {
    match kind {
        "table" => Target::Table { name: name.to_owned() },
        "dataset" => Target::DataSet { name: name.to_owned(), set },
        _ => Target::Run,
    }
}

fn values(args: &[Bound<'_, PyAny>]) -> PyResult<Vec<Value>> {
    args.iter().map(json::scalar_from_python).collect()
}

#[pymethods]
impl Run {
    #[new]
    #[pyo3(signature = (place, mode, buffer, full, late, rank, size, scratch, program, elsewhere, keep, client, pack, compress))]
    #[expect(clippy::too_many_arguments, reason = "one for each option of `open`")]
    fn new(
        py: Python<'_>,
        place: String,
        mode: &str,
        buffer: &str,
        full: &str,
        late: &str,
        rank: Option<u32>,
        size: Option<u32>,
        scratch: bool,
        program: Option<String>,
        elsewhere: Option<&str>,
        keep: Option<&str>,
        client: bool,
        pack: Option<&str>,
        compress: Option<&str>,
    ) -> PyResult<Run> {
        let raise = |e| errors::raise(py, &e);
        let options = OpenOptions {
            buffer: forebay::parse_bytes(buffer).map_err(raise)?,
            full: WhenFull::parse(full).map_err(raise)?,
            late: LateErrors::parse(late).map_err(raise)?,
            rank,
            size,
            scratch,
            program,
            elsewhere: elsewhere.map(Elsewhere::parse).transpose().map_err(raise)?,
            keep: keep.map(Keep::parse).transpose().map_err(raise)?,
            client,
            pack: pack.map(forebay::parse_pack).transpose().map_err(raise)?,
            compress: compress.map(Compression::parse).transpose().map_err(raise)?.flatten(),
        };
        let mode = Mode::parse(mode).map_err(raise)?;
        let late = options.late;
        let (inner, unwritten) = released_from(py, move || {
            let run = forebay::open(&place, mode, options)?;
            let unwritten = run.unwritten();
            Ok((run, unwritten))
        })?;
        unwritten.iter().for_each(|text| errors::say(py, text));
        inner.on_wait(signals);
        inner.on_late(late, Some(std::sync::Arc::new(warned)));
        Ok(Run { inner })
    }

    #[getter]
    fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.inner.rank_and_size().0
    }

    #[getter]
    fn size(&self) -> u32 {
        self.inner.rank_and_size().1
    }

    #[getter]
    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.inner.closed()
    }

    #[getter]
    fn looped(&self) -> bool {
        self.inner.looped()
    }

    #[expect(clippy::too_many_arguments, reason = "one for each option of `put`")]
    fn put(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        set: i64,
        units: &str,
        attrs: Option<&str>,
        if_version: Option<u64>,
    ) -> PyResult<Option<u64>> {
        let source = PutSource::in_c_order(value)?;
        let view = source.view(py)?;
        let attrs = attrs.map(|text| json::object(py, text)).transpose()?;
        let options = PutOptions { set, units, attrs: attrs.as_ref() };
        released(py, || match if_version {
            Some(version) => self.inner.put_if_version(name, view, options, version).map(Some),
            None => self.inner.put(name, view, options).map(|()| None),
        })
    }

    fn constant(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        units: &str,
        said: Option<&str>,
        step: i64,
    ) -> PyResult<()> {
        let source = PutSource::in_c_order(value)?;
        let view = source.view(py)?;
        let said = said.map(Description::from_json).transpose().map_err(|e| errors::raise(py, &e))?;
        let options = ConstantOptions { units, description: said.as_ref(), step };
        released(py, || self.inner.constant(name, view, options))
    }

    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        set: i64,
        axes: Option<Vec<Axis>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let selection = selection(axes);
        let array = released(py, || self.inner.get(name, set, selection.as_ref()))?;
        arrays::to_python(py, array)
    }

    fn map<'py>(&self, py: Python<'py>, name: &str, set: i64) -> PyResult<Bound<'py, PyAny>> {
        let mapped = released(py, || self.inner.map(name, set))?;
        arrays::over_mapping(py, name, mapped)
    }

    fn get_many<'py>(&self, py: Python<'py>, names: Vec<(String, i64)>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let found = released(py, || {
            let names: Vec<(&str, i64)> = names.iter().map(|(name, set)| (name.as_str(), *set)).collect();
            self.inner.get_many(&names)
        })?;
        found.into_iter().map(|array| arrays::to_python(py, array)).collect()
    }

    fn dataset(&self, py: Python<'_>, name: &str, set: i64) -> PyResult<Described> {
        released(py, || self.inner.dataset(name, set)).map(described)
    }

    fn list(&self, py: Python<'_>, pattern: &str, set: Option<i64>) -> PyResult<Vec<Described>> {
        let found = released(py, || self.inner.list(pattern, set))?;
        Ok(found.into_iter().map(described).collect())
    }

    fn delete(&self, py: Python<'_>, pattern: &str, set: Option<i64>) -> PyResult<u64> {
        released(py, || self.inner.delete(pattern, set))
    }

    fn rename(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<u64> {
        released(py, || self.inner.rename(old, new))
    }

    fn copy(&self, py: Python<'_>, original: &str, copy: &str) -> PyResult<u64> {
        released(py, || self.inner.copy(original, copy))
    }

    fn attrs(&self, py: Python<'_>, kind: &str, name: &str, set: i64) -> PyResult<String> {
        let target = target(kind, name, set);
        released(py, || self.inner.attrs(&target)).map(|found| Value::Object(found).to_string())
    }

    fn set_attrs(&self, py: Python<'_>, kind: &str, name: &str, set: i64, attrs: &str) -> PyResult<()> {
        let target = target(kind, name, set);
        let attrs: Map<String, Value> = json::object(py, attrs)?;
        released(py, || self.inner.set_attrs(&target, attrs))
    }

    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        columns: Vec<(String, String, String, Vec<u64>)>,
        history: bool,
    ) -> PyResult<Table> {
        let column = |(name, dtype, units, shape)| Column { name, dtype, units, shape };
        let columns = columns.into_iter().map(column).collect();
        released(py, || self.inner.table(name, TableOptions { columns, history })).map(Table::new)
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        released(py, || self.inner.tables())
    }

    fn sql<'py>(
        &self,
        py: Python<'py>,
        query: &str,
        args: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyAny>)> {
        let args = values(&args)?;
        let rows = released(py, || self.inner.sql(query, &args))?;
        rows_to_python(py, rows)
    }

    fn history(&self, py: Python<'_>, title: &str) -> PyResult<Columns> {
        released(py, || self.inner.history(title)).map(Columns::new)
    }

    fn snapshot(&self, py: Python<'_>, step: i64, time: Option<f64>) -> PyResult<Snapshot> {
        released(py, || self.inner.snapshot(step, time)).map(Snapshot::new)
    }

    fn snapshots(&self, py: Python<'_>) -> PyResult<KeptSnapshots> {
        released(py, || self.inner.snapshots()).map(KeptSnapshots::new)
    }

    /// Shape and order of an array that is alike in these steps.
    fn series_shape(
        &self,
        py: Python<'_>,
        name: &str,
        steps: Option<Vec<i64>>,
        fill: bool,
    ) -> PyResult<Vec<u64>> {
        let options = SeriesOptions { steps, fill, ..SeriesOptions::default() };
        let meta = released(py, || self.inner.series_info(name, &options))?;
        Ok(meta.shape.extents().to_vec())
    }

    /// The arrays as one, and whether steps are along its first axis; else along its last one.
    fn series<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        axes: Option<Vec<Axis>>,
        steps: Option<Vec<i64>>,
        fill: bool,
    ) -> PyResult<(Bound<'py, PyAny>, bool)> {
        let options = SeriesOptions { selection: selection(axes).unwrap_or_default(), steps, fill };
        let found = released(py, || self.inner.series(name, &options))?;
        let meta = found.stacked().map_err(|e| errors::raise(py, &e))?;
        let stacked = arrays::to_python(py, Array { meta, bytes: found.bytes })?;
        Ok((stacked, meta.order == Order::C))
    }

    fn restart(&self, py: Python<'_>, tag: Option<&str>, strict: bool) -> PyResult<Option<RestartParts>> {
        let found = released(py, || match tag {
            Some(tag) => self.inner.restart_from(tag, strict),
            None if strict => self.inner.restart_strict(),
            None => self.inner.restart(),
        })?;
        let parts = |r: forebay::Restart| {
            (Kept::new(r.snapshot), Value::Object(r.parameters).to_string(), r.finished, r.passed)
        };
        Ok(found.map(parts))
    }

    fn drop(&self, py: Python<'_>, step: i64) -> PyResult<bool> {
        released(py, || self.inner.drop_step(step))
    }

    fn pack(&self, py: Python<'_>, first: i64, last: i64) -> PyResult<PackedParts> {
        let done = released(py, || self.inner.pack(first, last))?;
        let single = done.single.into_iter().map(|s| (s.first, s.last, s.steps, s.why)).collect();
        Ok((done.packs, done.steps, done.bytes, single))
    }

    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<Marked>> {
        let marked = |c: forebay::Checkpoint| {
            (c.id, c.step, c.tag, c.parent, c.time, Value::Object(c.parameters).to_string(), c.made, c.kept)
        };
        Ok(released(py, || self.inner.checkpoints())?.into_iter().map(marked).collect())
    }

    fn checkpoint(&self, py: Python<'_>, tag: Option<&str>) -> PyResult<i64> {
        released(py, || self.inner.checkpoint(tag))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.inner.flush())
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        released(py, || self.inner.stats()).map(|figures| Value::Object(figures).to_string())
    }

    fn steps(
        &self,
        py: Python<'_>,
        n: Option<i64>,
        start: Option<(i64, bool)>,
        stride: i64,
        time_limit: Option<&str>,
        sigterm: bool,
    ) -> PyResult<Steps> {
        let time_limit = time_limit.map(forebay::TimeLimit::parse).transpose();
        let time_limit = time_limit.map_err(|e| errors::raise(py, &e))?;
        let start = match start {
            Some((step, true)) => forebay::Start::at_snapshot(step),
            number => number.map(|(step, _)| step).into(),
        };
        let options = forebay::StepsOptions { start, stride, time_limit, sigterm };
        released(py, || self.inner.steps_with(n, options)).map(Steps::new)
    }

    #[getter]
    fn position(&self) -> Option<i64> {
        self.inner.position()
    }

    #[getter]
    fn ended_by(&self) -> Option<String> {
        self.inner.ended_by()
    }

    #[pyo3(signature = (title, kind, x, y, v, xscale, yscale, every, reduce))]
    #[expect(clippy::too_many_arguments, reason = "one for each option of a diagram")]
    fn diagram(
        &self,
        py: Python<'_>,
        title: &str,
        kind: &str,
        x: String,
        y: String,
        v: Option<String>,
        xscale: &str,
        yscale: &str,
        every: u32,
        reduce: Option<&str>,
    ) -> PyResult<Diagram> {
        let raise = |e| errors::raise(py, &e);
        let kind = forebay::Kind::parse(kind).map_err(raise)?;
        let xscale = forebay::Scale::parse(xscale).map_err(raise)?;
        let yscale = forebay::Scale::parse(yscale).map_err(raise)?;
        let reduce = reduce.map(forebay::Reduce::parse).transpose().map_err(raise)?;
        let options = forebay::DiagramOptions { x, y, v, xscale, yscale, every, reduce };
        released(py, || self.inner.diagram(title, kind, options)).map(Diagram::new)
    }

    #[expect(clippy::too_many_arguments, reason = "one for each option of a parameter")]
    fn parameter(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        min: Option<f64>,
        max: Option<f64>,
        units: String,
        help: String,
    ) -> PyResult<Parameter> {
        let value = json::scalar_from_python(value)
            .map_err(|e| errors::bad(py, format!("parameter {name:?}: {}", e.value(py))))?;
        let options = forebay::ParameterOptions { min, max, units, help, signed: false };
        released(py, || self.inner.parameter(name, value, options)).map(Parameter::new)
    }

    fn reach(&self, py: Python<'_>, step: i64) -> PyResult<bool> {
        at_head(py, || self.inner.reach(step))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.inner.finish())
    }

    fn saves(&self, py: Python<'_>, function: Py<PyAny>, every: Option<i64>) -> PyResult<()> {
        let callback = callback(function);
        released(py, || match every {
            Some(every) => self.inner.saves_every(every, callback),
            None => self.inner.saves(callback),
        })
    }

    fn command(&self, py: Python<'_>, name: &str, function: Py<PyAny>) -> PyResult<()> {
        released(py, || self.inner.command(name, callback(function)))
    }

    fn message(&self, py: Python<'_>, text: &str, level: &str) -> PyResult<()> {
        let level = Level::parse(level).map_err(|e| errors::raise(py, &e))?;
        released(py, || self.inner.message(text, level))
    }

    fn monitor(&self, py: Python<'_>) -> PyResult<(String, String)> {
        released(py, || self.inner.monitor()).map(|links| (links.operator, links.viewer))
    }

    #[getter]
    fn interrupted(&self) -> bool {
        self.inner.interrupted()
    }

    /// Gives up a run whose close was interrupted, without waiting.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.inner.abandon());
    }

    /// Drains and closes; `finished` says whether the run came to its end, none that its loop knows.
    fn close(&self, py: Python<'_>, finished: Option<bool>) -> PyResult<()> {
        released(py, || match finished {
            Some(finished) => self.inner.close_as(finished),
            None => self.inner.close(),
        })
    }
}

/// A late error as a warning of Python, at the line of the program; a filter may make it an exception.
fn warned(error: &forebay::Error) -> forebay::Result<()> {
    let raised = Python::try_attach(|py| errors::warn(py, error.text(), 2));
    match raised {
        Some(Err(raised)) => {
            keep(raised);
            Err(error.clone())
        }
        _ => Ok(()),
    }
}

/// A Python function as the facade calls it, in the thread of the loop head. Its exception is told
/// to whoever pressed the button, and the run goes on; only what is not an `Exception`
/// (KeyboardInterrupt, SystemExit) ends the loop.
fn callback(function: Py<PyAny>) -> impl FnMut(i64) -> forebay::Result<()> + Send + 'static {
    move |step| {
        let outcome = Python::try_attach(|py| {
            let Err(raised) = function.call1(py, (step,)) else { return Ok(()) };
            let text = errors::told(py, &raised);
            if raised.is_instance_of::<pyo3::exceptions::PyException>(py) {
                keep_of_head(text.clone(), raised);
            } else {
                keep(raised);
            }
            Err(forebay::Error::new(forebay::Code::RemoteError, text))
        });
        outcome.unwrap_or(Ok(()))
    }
}

/// The glob that matches this name only.
#[pyfunction]
pub fn literal(name: &str) -> String {
    forebay::Name::literal(name)
}
