//! A snapshot being taken.

use std::sync::{Mutex, PoisonError};

use forebay::{
    About, ArrayMeta, ArrayOptions, Component, Compression, Coordinate, DType, Description, Grid, Order,
    Overlap, ParticleRecord, Place, Shape, View,
};
use pyo3::prelude::*;

use crate::arrays::PutSource;
use crate::waits::{duration, released};
use crate::{errors, ffi};

/// A snapshot being taken.
#[pyclass(frozen)]
pub struct Snapshot {
    inner: forebay::Snapshot,
    /// Arrays over its places, which are the program's until it is over.
    lent: Mutex<Vec<Py<PyAny>>>,
}

/// A place in the arena, as the owner of the array over it.
#[pyclass(frozen)]
struct Room {
    inner: forebay::Allocated,
}

impl Snapshot {
    /// Wraps the facade's.
    pub fn new(inner: forebay::Snapshot) -> Self {
        Snapshot { inner, lent: Mutex::default() }
    }

    /// An array over a place in the buffer; the program may write there until the end.
    fn lend<'py>(&self, py: Python<'py>, inner: forebay::Allocated) -> PyResult<Bound<'py, PyAny>> {
        let (meta, data) = (inner.meta(), inner.as_mut_ptr());
        let owner = Bound::new(py, Room { inner })?;
        debug_assert_eq!(owner.get().inner.len() as u64, meta.bytes().unwrap_or(0));
        let array = ffi::array_over(&meta, data, owner.into_any(), true)?;
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(array.clone().unbind());
        Ok(array)
    }

    /// Makes what `allocate` handed out read-only: the memory is used again, and a write would damage other arrays.
    fn take_back(&self, py: Python<'_>) {
        let lent = std::mem::take(&mut *self.lent.lock().unwrap_or_else(PoisonError::into_inner));
        lent.iter().for_each(|array| ffi::make_read_only(array.bind(py)));
    }
}

/// Here and not in a `__del__`: while Python code runs there, an interrupt that comes is lost.
impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.inner.is_open() {
            let step = self.inner.step();
            let text = format!(
                "the snapshot {step} was let go of before its end and is not in the run: take it in a block, `with run.snapshot({step}) as s:`, or call its end()"
            );
            let _ = Python::try_attach(|py| {
                errors::warn_aside(py, &text);
                self.take_back(py);
            });
        }
    }
}

/// Where this rank's array lies: whether it is behind those of lower ranks; its offset and the extents of the whole; the
/// rule where pieces meet; how it is compressed, if that is said. Nothing given is the whole.
type Where = (bool, Option<Vec<u64>>, Option<Vec<u64>>, String, Option<String>);

/// Where an array lies, and how it is compressed, if that is said.
type Placing = (Place, Option<Option<Compression>>);

fn place(py: Python<'_>, (append, offset, global, overlap, compress): Where) -> PyResult<Placing> {
    let shape = |extents: &[u64]| Shape::new(extents).map_err(|e| errors::raise(py, &e));
    let over = Overlap::parse(&overlap).map_err(|e| errors::raise(py, &e))?;
    let compress = compress.as_deref().map(Compression::parse).transpose();
    let compress = compress.map_err(|e| errors::raise(py, &e))?;
    let place = match (append, offset, global) {
        (_, Some(offset), Some(global)) => {
            let (offset, global) = (shape(&offset)?, shape(&global)?);
            over.map_or(Place::At { offset, global }, |rule| Place::Over { offset, global, rule })
        }
        _ if over.is_some() => {
            return Err(errors::bad(
                py,
                "overlap says what holds where blocks of ranks lie over each other: give offset and shape with it",
            ));
        }
        (true, _, _) => Place::Append,
        (_, None, None) => Place::Whole,
        _ => return Err(errors::bad(py, "offset and shape go together: give both or neither")),
    };
    Ok((place, compress))
}

/// An array of that type and shape.
fn meta(py: Python<'_>, (shape, dtype, fortran): (Vec<u64>, String, bool)) -> PyResult<ArrayMeta> {
    let raise = |e| errors::raise(py, &e);
    let dtype = DType::parse(&dtype).map_err(raise)?;
    let shape = Shape::new(&shape).map_err(raise)?;
    Ok(ArrayMeta { dtype, shape, order: if fortran { Order::F } else { Order::C } })
}

/// What an array says of itself, as the other half of the package says it: names of axes and attributes as JSON;
/// coordinates, each with the name of its axis and its unit; and what stands where no rank puts anything, as JSON.
type Said<'py> = (String, Vec<(String, Bound<'py, PyAny>, String)>, Option<String>);

/// The same for the facade, which borrows all of it.
struct Spoken<'py> {
    description: Description,
    sources: Vec<(String, PutSource<'py>, String)>,
}

impl<'py> Spoken<'py> {
    fn of(py: Python<'py>, said: Option<Said<'py>>, dtype: DType) -> PyResult<Option<Spoken<'py>>> {
        let Some((json, coordinates, fill)) = said else { return Ok(None) };
        let mut description = Description::from_json(&json).map_err(|e| errors::raise(py, &e))?;
        if let Some(fill) = fill {
            let read = serde_json::from_str(&fill).map_err(|e| errors::bad(py, e.to_string()))?;
            description.fill_with(read, dtype).map_err(|e| errors::raise(py, &e))?;
        }
        let source = |(dim, value, units)| Ok((dim, PutSource::in_c_order(&value)?, units));
        let sources = coordinates.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
        Ok(Some(Spoken { description, sources }))
    }

    fn views(&self, py: Python<'py>) -> PyResult<Vec<Coordinate<'_>>> {
        self.sources
            .iter()
            .map(|(dim, source, units)| Ok(Coordinate { dim, view: source.view(py)?, units }))
            .collect()
    }
}

/// What goes with an array, as the facade borrows it.
struct Options<'py> {
    units: String,
    place: Placing,
    spoken: Option<Spoken<'py>>,
}

impl<'py> Options<'py> {
    fn of(
        py: Python<'py>,
        units: String,
        place: Placing,
        said: Option<Said<'py>>,
        dtype: DType,
    ) -> PyResult<Options<'py>> {
        Ok(Options { units, place, spoken: Spoken::of(py, said, dtype)? })
    }

    fn coordinates(&self, py: Python<'py>) -> PyResult<Vec<Coordinate<'_>>> {
        self.spoken.as_ref().map_or(Ok(Vec::new()), |s| s.views(py))
    }

    fn with<'a>(&'a self, coordinates: &'a [Coordinate<'a>]) -> ArrayOptions<'a> {
        let about = self.spoken.as_ref().map(|s| About { description: &s.description, coordinates });
        let (place, compress) = self.place;
        ArrayOptions { units: &self.units, place, about, compress }
    }
}

/// Spacing, origin and position of a mesh; nothing said is empty.
type Points = (Vec<f64>, Vec<f64>, Vec<f64>);

fn grid((spacing, origin, position): &Points) -> Grid<'_> {
    Grid { spacing, origin, position }
}

/// A component of a mesh: its name, values, position and unit, what it says of itself, and the dtype that it is kept as.
type GivenComponent<'py> = (String, Bound<'py, PyAny>, Vec<f64>, String, Said<'py>, Option<String>);

/// A record of particles: its name, its component, values and unit, what it says of itself, and the dtype that it is kept
/// as.
type GivenRecord<'py> = (String, String, Bound<'py, PyAny>, String, Said<'py>, Option<String>);

/// An array of a mesh or a species: what it is called there, its elements, what goes with it, and the dtype that it is kept
/// as.
struct GivenPart<'py, T> {
    called: T,
    source: PutSource<'py>,
    options: Options<'py>,
    as_dtype: Option<String>,
}

/// The facade's view of what is kept as that dtype.
fn reduced<'a>(
    py: Python<'_>,
    source: &'a PutSource<'_>,
    dtype: Option<&str>,
    name: &str,
) -> PyResult<View<'a>> {
    let view = source.view(py)?;
    let Some(dtype) = dtype else { return Ok(view) };
    let kept = DType::parse(dtype).and_then(|dtype| view.reduced(dtype));
    kept.map_err(|e| errors::raise(py, &e.within(format!("{name:?}"))))
}

/// The dtype of what is kept, without a look at its elements.
fn kept_dtype(py: Python<'_>, source: &PutSource<'_>, dtype: Option<&str>) -> PyResult<DType> {
    match dtype {
        Some(dtype) => DType::parse(dtype).map_err(|e| errors::raise(py, &e)),
        None => Ok(source.view(py)?.meta().dtype),
    }
}

#[pymethods]
impl Snapshot {
    #[getter]
    fn step(&self) -> i64 {
        self.inner.step()
    }

    #[getter]
    fn taken(&self) -> bool {
        self.inner.taken()
    }

    #[pyo3(signature = (name, value, units, at, said, as_dtype))]
    #[expect(clippy::too_many_arguments, reason = "one for each thing that is said of the array")]
    fn put(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        units: String,
        at: Where,
        said: Option<Said<'_>>,
        as_dtype: Option<&str>,
    ) -> PyResult<()> {
        let source = PutSource::in_c_order(value)?;
        let view = reduced(py, &source, as_dtype, name)?;
        let options = Options::of(py, units, place(py, at)?, said, view.meta().dtype)?;
        let coordinates = options.coordinates(py)?;
        let piece = options.with(&coordinates);
        released(py, || self.inner.put(name, view, piece))
    }

    fn mesh<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        components: Vec<GivenComponent<'py>>,
        points: Points,
        at: Where,
    ) -> PyResult<()> {
        let place = place(py, at)?;
        let part = |(component, value, position, units, said, as_dtype): GivenComponent<'py>| {
            let source = PutSource::in_c_order(&value)?;
            let dtype = kept_dtype(py, &source, as_dtype.as_deref())?;
            let options = Options::of(py, units, place, Some(said), dtype)?;
            Ok(GivenPart { called: (component, position), source, options, as_dtype })
        };
        let parts: Vec<GivenPart<'py, (String, Vec<f64>)>> =
            components.into_iter().map(part).collect::<PyResult<_>>()?;
        let coordinates = parts.iter().map(|p| p.options.coordinates(py)).collect::<PyResult<Vec<_>>>()?;
        let components = parts.iter().zip(&coordinates).map(|(p, c)| {
            let (component, position) = &p.called;
            let view = reduced(py, &p.source, p.as_dtype.as_deref(), name)?;
            Ok(Component { name: component, view, position, options: p.options.with(c) })
        });
        let components = components.collect::<PyResult<Vec<_>>>()?;
        released(py, || self.inner.mesh(name, &grid(&points), &components))
    }

    fn particles<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        records: Vec<GivenRecord<'py>>,
        at: Where,
        sort_by: Option<&str>,
    ) -> PyResult<()> {
        let place = place(py, at)?;
        let part = |(record, component, value, units, said, as_dtype): GivenRecord<'py>| {
            let source = PutSource::in_c_order(&value)?;
            let dtype = kept_dtype(py, &source, as_dtype.as_deref())?;
            let options = Options::of(py, units, place, Some(said), dtype)?;
            Ok(GivenPart { called: (record, component), source, options, as_dtype })
        };
        let parts: Vec<GivenPart<'py, (String, String)>> =
            records.into_iter().map(part).collect::<PyResult<_>>()?;
        let records = parts.iter().map(|p| {
            let (record, component) = &p.called;
            let view = reduced(py, &p.source, p.as_dtype.as_deref(), record)?;
            Ok(ParticleRecord { name: record, component, view, options: p.options.with(&[]) })
        });
        let records = records.collect::<PyResult<Vec<_>>>()?;
        released(py, || self.inner.particles(name, &records, sort_by))
    }

    #[pyo3(signature = (name, array, units, at, said))]
    fn allocate<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        array: (Vec<u64>, String, bool),
        units: String,
        at: Where,
        said: Option<Said<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let meta = meta(py, array)?;
        let options = Options::of(py, units, place(py, at)?, said, meta.dtype)?;
        let coordinates = options.coordinates(py)?;
        let piece = options.with(&coordinates);
        self.lend(py, released(py, || self.inner.allocate(name, meta, piece))?)
    }

    #[expect(clippy::too_many_arguments, reason = "one for each thing that is said of the mesh")]
    fn allocate_mesh<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        component: &str,
        array: (Vec<u64>, String, bool),
        points: Points,
        units: String,
        at: Where,
        said: Said<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let meta = meta(py, array)?;
        let options = Options::of(py, units, place(py, at)?, Some(said), meta.dtype)?;
        let coordinates = options.coordinates(py)?;
        let piece = options.with(&coordinates);
        let room = released(py, || self.inner.allocate_mesh(name, component, meta, &grid(&points), &piece))?;
        self.lend(py, room)
    }

    #[expect(clippy::too_many_arguments, reason = "one for each thing that is said of the record")]
    fn allocate_particles<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        record: &str,
        component: &str,
        array: (Vec<u64>, String, bool),
        units: String,
        at: Where,
        said: Said<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let meta = meta(py, array)?;
        let options = Options::of(py, units, place(py, at)?, Some(said), meta.dtype)?;
        let piece = options.with(&[]);
        let room = released(py, || self.inner.allocate_particles(name, record, component, meta, &piece))?;
        self.lend(py, room)
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.take_back(py);
        released(py, || self.inner.end())
    }

    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.take_back(py);
        released(py, || self.inner.discard())
    }

    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = duration(py, timeout)?;
        released(py, || self.inner.wait(timeout))
    }
}
