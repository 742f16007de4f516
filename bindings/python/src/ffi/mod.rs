//! The one place with `unsafe`: memory of NumPy's seen as bytes, memory of ours seen as an
//! array of NumPy's, and threads of ours that Python knows.

#![allow(unsafe_code)]

pub mod arrow;
pub mod held;
pub mod thread;

use std::ffi::{c_int, c_void};

use forebay::{ArrayMeta, DType, Order};
use numpy::npyffi::{self, NPY_ARRAY_F_CONTIGUOUS, NPY_ARRAY_WRITEABLE, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The bytes of an array that is dense in the order given; none when it is not dense.
pub fn bytes<'a>(array: &'a Bound<'_, PyUntypedArray>, order: Order) -> Option<&'a [u8]> {
    let dense = match order {
        Order::C => array.is_c_contiguous(),
        Order::F => array.is_fortran_contiguous(),
    };
    if !dense {
        return None;
    }
    let length = array.len().checked_mul(array.dtype().itemsize())?;
    if length == 0 {
        return Some(&[]);
    }
    // SAFETY: a dense array of NumPy's has `len * itemsize` bytes at its data pointer, and the
    // borrow keeps the array alive. Another thread of the program may write to them meanwhile, as
    // with every extension that releases the lock; any bytes are valid `u8`s, and only copies
    // are made of them.
    unsafe {
        let data = (*array.as_array_ptr()).data as *const u8;
        Some(std::slice::from_raw_parts(data, length))
    }
}

/// The bytes around the elements of an array of any layout, and where the one of index 0 lies in them; none
/// when there are more than can be addressed.
pub fn around<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Option<(&'a [u8], u64)> {
    if array.len() == 0 {
        return Some((&[], 0));
    }
    let (mut low, mut high) = (0isize, isize::try_from(array.dtype().itemsize()).ok()?);
    for (extent, stride) in array.shape().iter().zip(array.strides()) {
        let reach = isize::try_from(extent - 1).ok()?.checked_mul(*stride)?;
        low = low.checked_add(reach.min(0))?;
        high = high.checked_add(reach.max(0))?;
    }
    let length = usize::try_from(high.checked_sub(low)?).ok()?;
    // SAFETY: the elements of an array of NumPy's lie in the memory of its base, of which these are the bytes
    // from the lowest to the end of the highest; the borrow keeps the array alive. Otherwise as for `bytes`.
    unsafe {
        let data = (*array.as_array_ptr()).data as *const u8;
        Some((std::slice::from_raw_parts(data.offset(low), length), low.unsigned_abs() as u64))
    }
}

/// The numbers of a dense `float64` array; none when it is something else or not aligned.
pub fn reals<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Option<&'a [f64]> {
    let dtype = array.dtype();
    if (dtype.kind(), dtype.itemsize(), dtype.is_native_byteorder()) != (b'f', 8, Some(true)) {
        return None;
    }
    let bytes = bytes(array, Order::C)?;
    if bytes.as_ptr().align_offset(align_of::<f64>()) != 0 {
        return None;
    }
    // SAFETY: the bytes are as many as the numbers need, aligned as just checked, and every
    // pattern of bits is an `f64`; the lifetime is that of the borrow.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<f64>(), bytes.len() / 8) })
}

/// Whether an array may be written to.
pub fn writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the pointer of a live array object is valid; `flags` is a plain field.
    let flags = unsafe { (*array.as_array_ptr()).flags };
    flags & NPY_ARRAY_WRITEABLE != 0
}

/// Makes an array read-only whose memory is no longer lent; views of it that were made before stay as they are.
pub fn make_read_only(array: &Bound<'_, PyAny>) {
    if let Ok(array) = array.cast::<PyUntypedArray>() {
        // SAFETY: the pointer of a live array object is valid; `flags` is a plain field, and whoever holds the
        // interpreter, as we do, may clear one, as NumPy's own `PyArray_CLEARFLAGS` does.
        unsafe { (*array.as_array_ptr()).flags &= !NPY_ARRAY_WRITEABLE };
    }
}

/// An array over memory that `owner` keeps alive and in place.
///
/// The memory must hold `meta.bytes()` bytes from `data` on, aligned for the dtype, as long as
/// `owner` lives.
pub fn array_over<'py>(
    meta: &ArrayMeta,
    data: *mut u8,
    owner: Bound<'py, PyAny>,
    writable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let mut extents: Vec<npyffi::npy_intp> =
        meta.shape.extents().iter().map(|e| *e as npyffi::npy_intp).collect();
    let mut flags = if writable { NPY_ARRAY_WRITEABLE } else { 0 };
    if meta.order == Order::F {
        flags |= NPY_ARRAY_F_CONTIGUOUS;
    }
    let descr = descr_of(py, meta.dtype)?;
    // SAFETY: `PyArray_NewFromDescr` takes over the reference to the dtype that
    // `into_dtype_ptr` gives up; extents are as many as it is told; the caller promises the
    // memory, and `PyArray_SetBaseObject` takes over the reference to its owner, so the memory
    // lives as long as the array.
    unsafe {
        let class = npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr.into_dtype_ptr(),
            extents.len() as c_int,
            extents.as_mut_ptr(),
            std::ptr::null_mut(),
            data as *mut c_void,
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let kept = PY_ARRAY_API.PyArray_SetBaseObject(
            py,
            array.as_ptr() as *mut npyffi::PyArrayObject,
            owner.into_ptr(),
        );
        if kept < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}

/// NumPy's dtype of ours. Text and bytes are arrays of `uint8` here; the other half of the
/// package makes strings of them.
fn descr_of(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    // Made once of the type strings: arrays of every call come here.
    static KNOWN: PyOnceLock<Vec<Py<PyArrayDescr>>> = PyOnceLock::new();
    let known = KNOWN.get_or_try_init(py, || {
        let seen_as = |d: DType| if d.is_text() { DType::U8 } else { d };
        let made = DType::all().map(|d| PyArrayDescr::new(py, seen_as(d).numpy()).map(Bound::unbind));
        made.collect::<PyResult<_>>()
    })?;
    Ok(known[dtype as usize - 1].bind(py).clone())
}
