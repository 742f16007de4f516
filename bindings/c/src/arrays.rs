//! Arrays of C: what they are and where their elements lie, checked and made into Rust's terms.

use std::ffi::{c_int, c_void};
use std::ptr;

use forebay::{Array, ArrayMeta, DType, Error, MappedArray, Order, Result, Shape, Strided, View};

use crate::kinds::fb_dtype;
use crate::{given, memory};

/// An array of the caller's. What is put is only read; what is got is written.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_array {
    /// Type of the elements.
    pub dtype: fb_dtype,
    /// Number of dimensions, at most FB_MAX_RANK; 0: one number or truth value.
    pub ndim: c_int,
    /// Extents, `ndim` of them. Of FB_STR and FB_BYTES the last one counts bytes.
    pub shape: *const i64,
    /// Bytes from an element to its neighbour along each axis, `ndim` of them, negative ones too; NULL: the
    /// elements lie together, and the last index runs fastest.
    pub strides: *const i64,
    /// The element whose indices are all 0.
    pub data: *mut c_void,
}

impl fb_array {
    /// Describes an array in place; its extents and strides are in what comes with it, which is to be kept as long.
    pub fn over(meta: &ArrayMeta, data: *mut c_void) -> (fb_array, Box<[i64]>) {
        let (rank, is_f) = (meta.shape.rank(), meta.order == Order::F);
        let mut extents = Vec::with_capacity(if is_f { 2 * rank } else { rank });
        extents.extend(meta.shape.extents().iter().map(|extent| *extent as i64));
        if is_f {
            let item = meta.dtype.size() as i64;
            extents.extend(meta.shape.strides(Order::F)[..rank].iter().map(|step| *step as i64 * item));
        }
        let extents = extents.into_boxed_slice();
        let shape = extents.as_ptr();
        let strides = if is_f { shape.wrapping_add(rank) } else { ptr::null() };
        (fb_array { dtype: meta.dtype as fb_dtype, ndim: rank as c_int, shape, strides, data }, extents)
    }
}

/// Gives an array that is mapped to the caller, if it is of the dtype that he expects.
pub fn give_mapped(name: &str, wanted: DType, mapped: MappedArray) -> Result<fb_array> {
    if mapped.meta.dtype != wanted {
        return Err(Error::bad(format!(
            "{name:?} is {}, not of dtype {wanted}; fb_info tells dtype and shape",
            mapped.meta
        )));
    }
    let first = mapped.as_ptr();
    let (array, extents) = fb_array::over(&mapped.meta, first.cast_mut().cast());
    memory::give_kept(first, (mapped, extents));
    Ok(array)
}

/// An array of the caller's, checked.
#[derive(Clone, Copy)]
pub struct Given {
    /// What it is; the order is the one in which its elements lie.
    pub meta: ArrayMeta,
    data: *mut c_void,
    apart: Option<Around>,
}

/// The memory around elements that lie apart.
#[derive(Clone, Copy)]
pub struct Around {
    /// Where they lie in it; the lowest one begins it.
    pub strided: Strided,
    /// Bytes to the end of the highest one.
    bytes: i64,
}

impl Given {
    /// Looks at what the caller says of it; `what` in errors.
    pub fn of(array: *const fb_array, what: &str) -> Result<Given> {
        let array = given::value(array, what)?;
        let shape = given::shape(array.ndim, array.shape, "the shape")?;
        let mut meta = ArrayMeta::new(given::dtype(array.dtype)?, shape);
        meta.bytes()?;
        if array.strides.is_null() {
            return Ok(Given { meta, data: array.data, apart: None });
        }
        let strides = given::slice(array.strides, shape.rank() as i64, "the strides")?;
        meta.order = order_of(&shape, strides);
        let around = Around::of(&meta, strides)?;
        let apart = (!around.strided.is_dense(meta.order)).then_some(around);
        Ok(Given { meta, data: array.data, apart })
    }

    /// Whether no elements are given.
    pub fn is_null(&self) -> bool {
        self.data.is_null()
    }

    /// For what has to be dense: an error otherwise.
    pub fn dense(self) -> Result<ArrayMeta> {
        match self.apart {
            None => Ok(self.meta),
            Some(Around { strided, .. }) => Err(Error::bad(format!(
                "with strides of {:?} bytes its elements lie apart; give none, or those of an array whose first index runs fastest",
                strided.strides()
            ))),
        }
    }

    /// The array's elements, to be read.
    pub fn view<'a>(&self) -> Result<View<'a>> {
        match &self.apart {
            None => View::new(self.meta, given::bytes(&self.meta, self.data, "data")?),
            Some(around) => View::apart(self.meta, around.strided, around.read(self.data)?),
        }
    }

    /// A copy of the array's elements, row-major.
    pub fn row_major(&self) -> Result<Vec<u8>> {
        let (lies, from) = match &self.apart {
            Some(around) => (around.strided, around.read(self.data)?),
            None => (Strided::dense(&self.meta)?, given::bytes(&self.meta, self.data, "data")?),
        };
        let meta = ArrayMeta { order: Order::C, ..self.meta };
        Ok(View::apart(meta, lies, from)?.bytes().into_owned())
    }

    /// Takes what was read, if it is what the caller expects.
    pub fn take(&self, name: &str, found: &Array) -> Result<()> {
        if found.meta.dtype != self.meta.dtype || found.meta.shape != self.meta.shape {
            return Err(Error::bad(format!(
                "{name:?} is {}, and {} was asked for; fb_info tells dtype and shape",
                found.meta, self.meta
            )));
        }
        let (apart, bytes) = self.memory()?;
        if apart.is_none() && found.meta.order == self.meta.order {
            bytes.copy_from_slice(&found.bytes);
        } else {
            let strided = apart.map_or_else(|| Strided::dense(&self.meta), Ok)?;
            strided.as_array(self.meta.dtype, found.meta.order).1.scatter(&found.bytes, bytes);
        }
        Ok(())
    }

    /// The memory that the elements lie in, to be written, and where, if they do not lie together.
    pub fn memory<'a>(&self) -> Result<(Option<Strided>, &'a mut [u8])> {
        match self.apart {
            Some(around) => Ok((Some(around.strided), around.write(self.data)?)),
            None => Ok((None, given::bytes_mut(&self.meta, self.data, "data")?)),
        }
    }
}

/// The order in which elements lie. Axes of one element count: what ranks have of one array lies in one order, however
/// little it is. Strides that are right for both orders, of at most one element, are those of C.
fn order_of(shape: &Shape, strides: &[i64]) -> Order {
    let extents = shape.extents();
    let spans = |axis: usize| i128::from(strides[axis + 1]) * i128::from(extents[axis + 1].max(1));
    if (1..extents.len()).all(|axis| i128::from(strides[axis - 1]) == spans(axis - 1)) {
        return Order::C;
    }
    let grows = |axis: usize| {
        let (here, next) = (strides[axis].unsigned_abs(), strides[axis + 1].unsigned_abs());
        here > 0 && (here < next || (here == next && extents[axis] <= 1))
    };
    match extents.len() > 1 && (0..extents.len() - 1).all(grows) {
        true => Order::F,
        false => Order::C,
    }
}

impl Around {
    /// The memory of elements that lie `strides` bytes apart.
    pub fn of(meta: &ArrayMeta, strides: &[i64]) -> Result<Around> {
        let item = meta.dtype.size();
        let (mut low, mut high) = (0i128, 0i128);
        if !meta.shape.is_empty() {
            high += item as i128;
            for (n, step) in meta.shape.extents().iter().zip(strides) {
                if *n > 1 && *step != 0 && step.unsigned_abs() < item as u64 {
                    return Err(Error::bad(format!(
                        "with strides of {strides:?} bytes elements of {item} bytes share bytes; strides count bytes, not elements"
                    )));
                }
                let reach = i128::from(n - 1) * i128::from(*step);
                low += reach.min(0);
                high += reach.max(0);
            }
        }
        let bytes = i64::try_from(high - low).map_err(|_| leaves(&meta.shape, strides))?;
        Ok(Around { strided: Strided::new(item, -low as u64, meta.shape, strides, bytes as u64)?, bytes })
    }

    /// The memory, to be read; `data` is the element whose indices are all 0.
    pub fn read<'a>(&self, data: *const c_void) -> Result<&'a [u8]> {
        given::slice(self.lowest(data.cast_mut())?.cast_const(), self.bytes, "data")
    }

    /// The memory, to be written; `data` is the element whose indices are all 0. `BadArgument` when
    /// elements share memory.
    pub fn write<'a>(&self, data: *mut c_void) -> Result<&'a mut [u8]> {
        if !self.strided.is_disjoint() {
            return Err(Error::bad(format!(
                "with strides of {:?} bytes elements of an array of shape {} share memory, so it cannot be filled; give each its own",
                self.strided.strides(),
                self.strided.shape()
            )));
        }
        given::slice_mut(self.lowest(data)?, self.bytes, "data")
    }

    /// Bytes from the beginning of the lowest element to the end of the highest one.
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Where the lowest element lies.
    pub fn lowest(&self, data: *mut c_void) -> Result<*mut u8> {
        let below = self.strided.offset() as usize;
        let fits = |first: usize| first.checked_add(self.bytes as usize).is_some();
        match data.addr().checked_sub(below) {
            Some(first) if fits(first) => Ok(data.cast::<u8>().wrapping_sub(below)),
            // Told as what it is by who looks at it.
            _ if data.is_null() => Ok(data.cast()),
            _ => Err(leaves(self.strided.shape(), &self.strided.strides())),
        }
    }
}

fn leaves(shape: &Shape, strides: &[i64]) -> Error {
    Error::bad(format!(
        "an array of shape {shape} with strides of {strides:?} bytes leaves the memory; give the bytes from neighbour to neighbour along each axis"
    ))
}
