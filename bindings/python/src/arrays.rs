//! What a user gives as an array, and what a user gets as one.
//!
//! ```text
//! ndarray of a known dtype, dense (C or Fortran)  -> its own bytes, no copy; what is stored is written in C order
//! ndarray of a known dtype, of any other layout   -> the bytes around its elements, no copy
//! str, bytes                                      -> their own bytes, no copy
//! anything else: lists, scalars, other byte orders, arrays of strings
//!     -> forebay._arrays.dense (one copy) -> as above
//! ```

use forebay::{Array, ArrayMeta, DType, MappedArray, Order, Result, Shape, View, limits};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

use crate::{errors, ffi};

/// An argument that is an array, text or bytes; keeps the object alive whose bytes it shows.
pub enum Given<'py> {
    /// An array, dense in the order of `meta`.
    Dense {
        /// The object.
        array: Bound<'py, PyUntypedArray>,
        /// What it is.
        meta: ArrayMeta,
    },
    /// Text.
    Text(Bound<'py, PyString>),
    /// Bytes.
    Bytes(Bound<'py, PyBytes>),
}

impl<'py> Given<'py> {
    /// Looks at an argument; copies only what is not dense.
    pub fn new(value: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        if let Some(given) = Given::as_it_is(value)? {
            return Ok(given);
        }
        Given::copy(value)
    }

    /// A dense copy of an argument; text and bytes, which nobody fills, as they are.
    pub fn copy(value: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        if let Some(given @ (Given::Text(_) | Given::Bytes(_))) = Given::as_it_is(value)? {
            return Ok(given);
        }
        let (array, dtype): (Bound<'py, PyAny>, Option<String>) =
            helper(value.py(), "dense")?.call1((value,))?.extract()?;
        let found = Given::as_it_is(&array)?;
        let Some(mut given) = found else {
            return Err(errors::bad(value.py(), format!("{} is not an array", value.get_type().name()?)));
        };
        if let (Given::Dense { meta, .. }, Some(dtype)) = (&mut given, dtype) {
            meta.dtype = DType::parse(&dtype).map_err(|e| errors::raise(value.py(), &e))?;
        }
        Ok(given)
    }

    /// The argument without a copy, if it is what can be used without one.
    pub fn as_it_is(value: &Bound<'py, PyAny>) -> PyResult<Option<Given<'py>>> {
        if let Ok(array) = value.cast::<PyUntypedArray>() {
            if !value.is_exact_instance_of::<PyUntypedArray>() {
                helper(value.py(), "whole")?.call1((array,))?;
            }
            let Some(dtype) = dtype_of(&array.dtype()) else { return Ok(None) };
            let order = match (array.is_c_contiguous(), array.is_fortran_contiguous()) {
                (true, _) => Order::C,
                (_, true) => Order::F,
                _ => return Ok(None),
            };
            let shape = shape_of(array).map_err(|e| errors::raise(value.py(), &e))?;
            let meta = ArrayMeta { dtype, shape, order };
            return Ok(Some(Given::Dense { array: array.clone(), meta }));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Some(Given::Text(text.clone())));
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Some(Given::Bytes(bytes.clone())));
        }
        // A path, of whatever kind, is its text.
        if value.hasattr("__fspath__")?
            && let Ok(text) = value.call_method0("__fspath__")?.cast_into::<PyString>()
        {
            return Ok(Some(Given::Text(text)));
        }
        Ok(None)
    }

    /// The facade's view of it.
    pub fn view(&self, py: Python<'_>) -> PyResult<View<'_>> {
        match self {
            Given::Dense { array, meta } => {
                let bytes = ffi::bytes(array, meta.order)
                    .ok_or_else(|| errors::bad(py, "the array has changed its layout meanwhile"))?;
                View::new(*meta, bytes).map_err(|e| errors::raise(py, &e))
            }
            Given::Text(text) => Ok(View::text(errors::letters(text)?)),
            Given::Bytes(bytes) => Ok(View::raw(bytes.as_bytes())),
        }
    }
}

/// What is to be stored: read where it lies, whatever its layout, if its elements can be.
pub enum PutSource<'py> {
    /// Dense, or copied to be so.
    Given(Given<'py>),
    /// An array whose elements lie apart.
    Apart {
        /// The object.
        array: Bound<'py, PyUntypedArray>,
        /// Type of its elements.
        dtype: DType,
    },
}

impl<'py> PutSource<'py> {
    /// Looks at an argument.
    pub fn new(value: &Bound<'py, PyAny>) -> PyResult<PutSource<'py>> {
        if let Some(given) = Given::as_it_is(value)? {
            return Ok(PutSource::Given(given));
        }
        if let Ok(array) = value.cast::<PyUntypedArray>()
            && let Some(dtype) = dtype_of(&array.dtype())
        {
            return Ok(PutSource::Apart { array: array.clone(), dtype });
        }
        Given::copy(value).map(PutSource::Given)
    }

    /// Looks at an argument that others may read without us: it is given in C order, whatever its own is, so that
    /// h5py and h5dump see the shape and the indices that the program has.
    pub fn in_c_order(value: &Bound<'py, PyAny>) -> PyResult<PutSource<'py>> {
        Ok(match PutSource::new(value)? {
            PutSource::Given(Given::Dense { array, meta }) if meta.order == Order::F => {
                PutSource::Apart { array, dtype: meta.dtype }
            }
            other => other,
        })
    }

    /// The facade's view of it.
    pub fn view(&self, py: Python<'_>) -> PyResult<View<'_>> {
        let raise = |e| errors::raise(py, &e);
        match self {
            PutSource::Given(given) => given.view(py),
            PutSource::Apart { array, dtype } => {
                let shape = shape_of(array).map_err(raise)?;
                let (bytes, offset) = ffi::around(array).ok_or_else(|| {
                    errors::bad(py, "the array's elements lie beyond what can be addressed")
                })?;
                let strides: Vec<i64> = array.strides().iter().map(|n| *n as i64).collect();
                View::strided(*dtype, shape, &strides, offset, bytes).map_err(raise)
            }
        }
    }
}

/// The shape; on the stack as long as it is one of ours, for this is done for every array of a call.
pub fn shape_of(array: &Bound<'_, PyUntypedArray>) -> Result<Shape> {
    let given = array.shape();
    let mut few = [0; limits::RANK];
    match few.get_mut(..given.len()) {
        Some(few) => {
            few.iter_mut().zip(given).for_each(|(ours, theirs)| *ours = *theirs as u64);
            Shape::new(few)
        }
        None => Shape::new(&given.iter().map(|n| *n as u64).collect::<Vec<u64>>()),
    }
}

/// Our dtype of NumPy's, if its elements can be used as they lie: known, native byte order.
pub fn dtype_of(descr: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    if descr.is_native_byteorder() == Some(false) {
        return None;
    }
    DType::of_numpy(descr.kind(), descr.itemsize())
}

/// What the other half of the package knows of dtypes: short name and NumPy's type string of each, those of one kind
/// together, the shorter first; texts and bytes, which are `uint8` in arrays, last.
pub fn known() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<DType> = DType::all().collect();
    all.sort_by_key(|d| (d.kind(), d.size()));
    all.into_iter().map(|d| (d.name(), if d.is_text() { DType::U8.numpy() } else { d.numpy() })).collect()
}

/// Memory that was read into, as the owner of the array over it.
#[pyclass(frozen)]
struct Memory {
    // Read through the array that stands over it.
    _bytes: Vec<u8>,
}

/// An array that was read, as users expect it: `ndarray`, or `str` and `bytes` for single texts.
pub fn to_python<'py>(py: Python<'py>, array: Array) -> PyResult<Bound<'py, PyAny>> {
    let meta = array.meta;
    match (meta.dtype, meta.shape.rank()) {
        (DType::Str, 0 | 1) => {
            let text = array.to_text().map_err(|e| errors::raise(py, &e))?;
            Ok(PyString::new(py, &text).into_any())
        }
        (DType::Bytes, 0 | 1) => Ok(PyBytes::new(py, &array.bytes).into_any()),
        (dtype, _) => {
            let over = over_own(py, array, true)?;
            match dtype.is_text() {
                true => helper(py, "strings")?.call1((over, dtype.name())),
                false => Ok(over),
            }
        }
    }
}

/// An array over memory that becomes the array's own.
pub fn over_own(py: Python<'_>, array: Array, writable: bool) -> PyResult<Bound<'_, PyAny>> {
    let mut bytes = array.bytes;
    // The allocation does not move with the vector that owns it.
    let data = bytes.as_mut_ptr();
    let owner = Bound::new(py, Memory { _bytes: bytes })?.into_any();
    ffi::array_over(&array.meta, data, owner, writable)
}

/// Copies what a function returned into the array that it is for.
pub fn fill(array: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    helper(array.py(), "fill")?.call1((array, value, name)).map(drop)
}

/// A function of the package's own module for the less common cases.
fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("forebay._arrays").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// A mapped array, as the owner of the NumPy array over it.
#[pyclass(frozen)]
struct Mapping {
    inner: MappedArray,
}

/// A NumPy array over an array that is mapped, for reading.
pub fn over_mapping<'py>(py: Python<'py>, name: &str, mapped: MappedArray) -> PyResult<Bound<'py, PyAny>> {
    let meta = mapped.meta;
    if meta.dtype.is_text() {
        return Err(errors::bad(
            py,
            format!("{name:?} is {}, which is no array of numbers; get it", meta.dtype),
        ));
    }
    let data = mapped.as_ptr().cast_mut();
    let owner = Bound::new(py, Mapping { inner: mapped })?;
    debug_assert_eq!(owner.get().inner.len() as u64, meta.bytes().unwrap_or(0));
    ffi::array_over(&meta, data, owner.into_any(), false)
}
