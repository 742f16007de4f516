//! A snapshot being taken.

use std::sync::{Mutex, PoisonError};

use forebay::{
    About, ArrayMeta, ArrayOptions, Compression, Coordinate, DType, Description, Order, Overlap, Place, Shape,
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

/// Where this rank's array lies: nothing given is the whole, `append` is behind lower ranks.
fn place(
    py: Python<'_>,
    append: bool,
    offset: Option<Vec<u64>>,
    global: Option<Vec<u64>>,
    overlap: &str,
) -> PyResult<Place> {
    let shape = |extents: &[u64]| Shape::new(extents).map_err(|e| errors::raise(py, &e));
    let over = Overlap::parse(overlap).map_err(|e| errors::raise(py, &e))?;
    Ok(match (append, offset, global) {
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
    })
}

fn compression(py: Python<'_>, word: &str) -> PyResult<Option<Compression>> {
    Compression::parse(word).map_err(|e| errors::raise(py, &e))
}

/// What an array says of itself, as the other half of the package says it: names of axes and attributes as JSON, and
/// coordinates, each with the name of its axis and its unit.
type Said<'py> = (String, Vec<(String, Bound<'py, PyAny>, String)>);

/// The same for the facade, which borrows all of it.
struct Spoken<'py> {
    description: Description,
    sources: Vec<(String, PutSource<'py>, String)>,
}

impl<'py> Spoken<'py> {
    fn of(py: Python<'py>, said: Option<Said<'py>>) -> PyResult<Option<Spoken<'py>>> {
        let Some((json, coordinates)) = said else { return Ok(None) };
        let description = Description::from_json(&json).map_err(|e| errors::raise(py, &e))?;
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

    #[pyo3(signature = (name, value, units, append, offset, shape, said, overlap, compress))]
    #[expect(clippy::too_many_arguments, reason = "one for each option of `put`")]
    fn put(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        units: &str,
        append: bool,
        offset: Option<Vec<u64>>,
        shape: Option<Vec<u64>>,
        said: Option<Said<'_>>,
        overlap: &str,
        compress: &str,
    ) -> PyResult<()> {
        let source = PutSource::in_c_order(value)?;
        let view = source.view(py)?;
        let spoken = Spoken::of(py, said)?;
        let coordinates = spoken.as_ref().map_or(Ok(Vec::new()), |s| s.views(py))?;
        let about = spoken.as_ref().map(|s| About { description: &s.description, coordinates: &coordinates });
        let place = place(py, append, offset, shape, overlap)?;
        let piece = ArrayOptions { units, place, about, compress: compression(py, compress)? };
        released(py, || self.inner.put(name, view, piece))
    }

    #[pyo3(signature = (name, shape, dtype, fortran, units, append, offset, global_shape, said, overlap, compress))]
    #[expect(clippy::too_many_arguments, reason = "one for each option of `allocate`")]
    fn allocate<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        shape: Vec<u64>,
        dtype: &str,
        fortran: bool,
        units: &str,
        append: bool,
        offset: Option<Vec<u64>>,
        global_shape: Option<Vec<u64>>,
        said: Option<Said<'py>>,
        overlap: &str,
        compress: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let raise = |e| errors::raise(py, &e);
        let dtype = DType::parse(dtype).map_err(raise)?;
        let shape = Shape::new(&shape).map_err(raise)?;
        let order = if fortran { Order::F } else { Order::C };
        let meta = ArrayMeta { dtype, shape, order };
        let spoken = Spoken::of(py, said)?;
        let coordinates = spoken.as_ref().map_or(Ok(Vec::new()), |s| s.views(py))?;
        let about = spoken.as_ref().map(|s| About { description: &s.description, coordinates: &coordinates });
        let place = place(py, append, offset, global_shape, overlap)?;
        let piece = ArrayOptions { units, place, about, compress: compression(py, compress)? };
        let inner = released(py, || self.inner.allocate(name, meta, piece))?;
        let data = inner.as_mut_ptr();
        let owner = Bound::new(py, Room { inner })?;
        debug_assert_eq!(owner.get().inner.len() as u64, meta.bytes().unwrap_or(0));
        let array = ffi::array_over(&meta, data, owner.into_any(), true)?;
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(array.clone().unbind());
        Ok(array)
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
