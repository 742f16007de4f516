//! Data sets: arrays under a name and a set number.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use forebay::{
    Array, ArrayMeta, DataSet, Error, Order, PutOptions, Result, Selection, Slice, Strided, View, limits,
};
use serde_json::Map;

use crate::fault::{fb_status, status};
use crate::given::{self, ALL_SETS, Sized0};
use crate::kinds::{fb_dtype, fb_order, fb_run};
use crate::{handle, memory};

/// Longest name with its zero.
pub const NAME: usize = limits::NAME_BYTES + 1;
/// Longest unit with its zero.
pub const UNIT: usize = limits::UNIT_BYTES + 1;

/// What may go with a put. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_put_opts {
    /// sizeof(fb_put_opts).
    pub size: usize,
    /// Unit, such as "V/m"; NULL: none, also where an earlier version had one.
    pub units: *const c_char,
    /// FB_ROW_MAJOR or FB_COLUMN_MAJOR: which index runs fastest in memory.
    pub order: fb_order,
    /// Attributes as a JSON object; NULL: none, also where an earlier version had some.
    pub attrs: *const c_char,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_put_opts {}

/// What a data set is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_info {
    /// Its name.
    pub name: [c_char; NAME],
    /// Its unit, or "".
    pub units: [c_char; UNIT],
    /// Its fb_dtype.
    pub dtype: fb_dtype,
    /// FB_ROW_MAJOR or FB_COLUMN_MAJOR, as it was put.
    pub order: fb_order,
    /// Number of dimensions.
    pub ndim: c_int,
    /// Extents, `ndim` of them.
    pub shape: [i64; limits::RANK],
    /// Its set number; 0 in snapshots.
    pub set: i64,
    /// How often it was put; 0 in snapshots, whose arrays never change.
    pub version: u64,
    /// Bytes of the whole array.
    pub nbytes: i64,
}

/// Describes a data set for C.
pub fn describe(found: &DataSet) -> fb_info {
    let mut shape = [0; limits::RANK];
    let extents = found.meta.shape.extents();
    shape.iter_mut().zip(extents).for_each(|(own, extent)| *own = *extent as i64);
    fb_info {
        name: letters(&found.name),
        units: letters(&found.units),
        dtype: found.meta.dtype as c_int,
        order: found.meta.order as c_int,
        ndim: extents.len() as c_int,
        shape,
        set: found.set,
        version: found.version,
        nbytes: found.nbytes as i64,
    }
}

/// Describes an array that has no name.
pub fn describe_array(meta: &ArrayMeta) -> Result<fb_info> {
    Ok(describe(&DataSet {
        name: String::new(),
        set: 0,
        meta: *meta,
        units: String::new(),
        attrs: Map::new(),
        version: 0,
        nbytes: meta.bytes()?,
    }))
}

/// A text as a C structure holds it.
pub fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    letters[..N - 1].iter_mut().zip(text.bytes()).for_each(|(own, byte)| *own = byte as c_char);
    letters
}

/// An array of C: what it is, and its bytes.
pub fn view<'a>(
    dtype: c_int,
    order: c_int,
    ndim: c_int,
    shape: *const i64,
    data: *const c_void,
) -> Result<View<'a>> {
    let meta = given::meta(dtype, order, ndim, shape, "the shape")?;
    View::new(meta, given::bytes(&meta, data, "data")?)
}

/// All sets, or one.
fn sets(set: i64) -> Option<i64> {
    (set != ALL_SETS).then_some(set)
}

/// Stores or replaces a data set: `ndim` extents in `shape`, dense row-major `data`.
///
/// The data are copied when it returns and may be changed at once; they are durable after fb_flush.
/// A scalar has ndim 0. Text is FB_STR with one extent, its number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn fb_put(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    dtype: fb_dtype,
    ndim: c_int,
    shape: *const i64,
    data: *const c_void,
) -> fb_status {
    fb_put_with(run, name, set, dtype, ndim, shape, data, ptr::null())
}

/// The same with a unit, an order of elements or attributes; `opts` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_put_with(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    dtype: fb_dtype,
    ndim: c_int,
    shape: *const i64,
    data: *const c_void,
    opts: *const fb_put_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let opts = given::options(opts, "fb_put_opts")?;
        let view = view(dtype, opts.order, ndim, shape, data)?;
        let attrs = given::optional_text(opts.attrs, "attrs")?.map(forebay::attributes).transpose()?;
        let units = given::optional_text(opts.units, "units")?.unwrap_or("");
        object.run.put(name, view, PutOptions { set, units, attrs: attrs.as_ref() })
    })
}

/// Stores only if the stored version is still `version` (0: there must be none yet); else
/// FB_CONFLICT. `opts` may be NULL; `new_version` gets the version stored, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_put_if_version(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    dtype: fb_dtype,
    ndim: c_int,
    shape: *const i64,
    data: *const c_void,
    version: u64,
    opts: *const fb_put_opts,
    new_version: *mut u64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let out = given::optional_out(new_version, "new_version")?;
        let opts = given::options(opts, "fb_put_opts")?;
        let view = view(dtype, opts.order, ndim, shape, data)?;
        let attrs = given::optional_text(opts.attrs, "attrs")?.map(forebay::attributes).transpose()?;
        let units = given::optional_text(opts.units, "units")?.unwrap_or("");
        let options = PutOptions { set, units, attrs: attrs.as_ref() };
        out.set(object.run.put_if_version(name, view, options, version)?);
        Ok(())
    })
}

/// Reads a data set into `data`, row-major. Dtype and shape must be those stored (fb_info tells them);
/// otherwise FB_BAD_ARGUMENT, and nothing is written.
#[unsafe(no_mangle)]
pub extern "C" fn fb_get(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    dtype: fb_dtype,
    ndim: c_int,
    shape: *const i64,
    data: *mut c_void,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let target = Target::new(dtype, 0, ndim, shape, data)?;
        target.take(name, &object.run.get(name, set, None)?)
    })
}

/// Reads a part of a data set: of each axis `count` elements from `offset` on, every `step`-th (NULL:
/// every one). `data` gets count[0] x ... x count[ndim-1] elements in `order` (FB_ROW_MAJOR or
/// FB_COLUMN_MAJOR); `ndim` is the rank of the data set.
#[unsafe(no_mangle)]
pub extern "C" fn fb_get_part(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    dtype: fb_dtype,
    order: fb_order,
    ndim: c_int,
    offset: *const i64,
    count: *const i64,
    step: *const i64,
    data: *mut c_void,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let target = Target::new(dtype, order, ndim, count, data)?;
        let selection = selection(ndim, offset, count, step)?;
        target.take(name, &object.run.get(name, set, Some(&selection))?)
    })
}

/// A part of an array as C says it.
pub fn selection(ndim: c_int, offset: *const i64, count: *const i64, step: *const i64) -> Result<Selection> {
    let offset = given::shape(ndim, offset, "the offset")?;
    let count = given::shape(ndim, count, "the count")?;
    let step = if step.is_null() { None } else { Some(given::shape(ndim, step, "the step")?) };
    let slice = |axis| Slice {
        start: offset.extents()[axis],
        count: count.extents()[axis],
        step: step.map_or(1, |step| step.extents()[axis]),
        squeeze: false,
    };
    Ok(Selection((0..count.rank()).map(slice).collect()))
}

/// The caller's array that is read into.
pub struct Target<'a> {
    meta: ArrayMeta,
    bytes: &'a mut [u8],
}

impl Target<'_> {
    /// The same of an array that is known.
    pub fn of<'a>(meta: ArrayMeta, data: *mut c_void) -> Result<Target<'a>> {
        Ok(Target { meta, bytes: given::bytes_mut(&meta, data, "data")? })
    }

    /// Checks what the caller says of it.
    pub fn new<'a>(
        dtype: c_int,
        order: c_int,
        ndim: c_int,
        shape: *const i64,
        data: *mut c_void,
    ) -> Result<Target<'a>> {
        Target::of(given::meta(dtype, order, ndim, shape, "the shape")?, data)
    }

    /// Takes what was read, if it is what the caller expects.
    pub fn take(self, name: &str, found: &Array) -> Result<()> {
        if found.meta.dtype != self.meta.dtype || found.meta.shape != self.meta.shape {
            return Err(Error::bad(format!(
                "{name:?} is {}, and {} was asked for; fb_info tells dtype and shape",
                found.meta, self.meta
            )));
        }
        match found.meta.order == self.meta.order {
            true => self.bytes.copy_from_slice(&found.bytes),
            // Read from column-major, or written to it.
            false if found.meta.order == Order::F => {
                Strided::dense(&found.meta)?.gather(&found.bytes, self.bytes);
            }
            false => Strided::dense(&self.meta)?.scatter(&found.bytes, self.bytes),
        }
        Ok(())
    }
}

/// Describes a data set.
#[unsafe(no_mangle)]
pub extern "C" fn fb_dataset_info(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    info: *mut fb_info,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(info, "info")?;
        out.set(describe(&object.run.dataset(given::text(name, "name")?, set)?));
        Ok(())
    })
}

/// Describes the data sets whose names match a glob such as "field*", of one set or FB_ALL_SETS, by
/// name and set. Free `infos` with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_list(
    run: *mut fb_run,
    pattern: *const c_char,
    set: i64,
    infos: *mut *mut fb_info,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (infos, count) = (given::out(infos, "infos")?, given::out(count, "count")?);
        let found = object.run.list(given::text(pattern, "pattern")?, sets(set))?;
        count.set(found.len() as i64);
        infos.set(memory::give_values(found.iter().map(describe).collect())?);
        Ok(())
    })
}

/// Deletes the data sets whose names match a glob, of one set or FB_ALL_SETS; `count` gets how many,
/// and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_delete(
    run: *mut fb_run,
    pattern: *const c_char,
    set: i64,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let count = given::optional_out(count, "count")?;
        count.set(object.run.delete(given::text(pattern, "pattern")?, sets(set))? as i64);
        Ok(())
    })
}

/// Renames a data set with all its sets; `count` gets how many, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rename(
    run: *mut fb_run,
    from: *const c_char,
    to: *const c_char,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let count = given::optional_out(count, "count")?;
        count.set(object.run.rename(given::text(from, "from")?, given::text(to, "to")?)? as i64);
        Ok(())
    })
}

/// Copies a data set with all its sets; `count` gets how many, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_copy(
    run: *mut fb_run,
    from: *const c_char,
    to: *const c_char,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let count = given::optional_out(count, "count")?;
        count.set(object.run.copy(given::text(from, "from")?, given::text(to, "to")?)? as i64);
        Ok(())
    })
}
