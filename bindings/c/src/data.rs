//! Data sets: arrays under a name and a set number.

use std::ffi::{c_char, c_int};
use std::ptr;

use forebay::{ArrayMeta, DataSet, PutOptions, Result, Selection, Slice, limits};
use serde_json::Map;

use crate::arrays::{Given, fb_array};
use crate::fault::{fb_status, status};
use crate::given::{self, ALL_SETS, Sized0};
use crate::kinds::{fb_dtype, fb_order, fb_run};
use crate::{arrays, handle, memory};

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
        dims: Vec::new(),
        mesh: None,
        species: None,
        version: 0,
        nbytes: meta.bytes()?,
        stats: None,
    }))
}

/// A text as a C structure holds it.
pub fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    letters[..N - 1].iter_mut().zip(text.bytes()).for_each(|(own, byte)| *own = byte as c_char);
    letters
}

/// All sets, or one.
fn sets(set: i64) -> Option<i64> {
    (set != ALL_SETS).then_some(set)
}

/// Stores or replaces a data set.
///
/// The data are copied when it returns and may be changed at once; they are durable after fb_flush. An array whose
/// first index runs fastest, as Fortran has them, is kept so.
#[unsafe(no_mangle)]
pub extern "C" fn fb_put(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    array: *const fb_array,
) -> fb_status {
    fb_put_with(run, name, set, array, ptr::null())
}

/// Stores or replaces a data set, with a unit or attributes; `opts` may be NULL. The data are copied
/// when it returns; they are durable after fb_flush.
#[unsafe(no_mangle)]
pub extern "C" fn fb_put_with(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    array: *const fb_array,
    opts: *const fb_put_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let opts = given::options(opts, "fb_put_opts")?;
        let view = Given::of(array, "array")?.view()?;
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
    array: *const fb_array,
    version: u64,
    opts: *const fb_put_opts,
    new_version: *mut u64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let out = given::optional_out(new_version, "new_version")?;
        let opts = given::options(opts, "fb_put_opts")?;
        let view = Given::of(array, "array")?.view()?;
        let attrs = given::optional_text(opts.attrs, "attrs")?.map(forebay::attributes).transpose()?;
        let units = given::optional_text(opts.units, "units")?.unwrap_or("");
        let options = PutOptions { set, units, attrs: attrs.as_ref() };
        out.set(object.run.put_if_version(name, view, options, version)?);
        Ok(())
    })
}

/// Reads a data set into `array`. Dtype and shape must be those stored (fb_info tells them); otherwise
/// FB_BAD_ARGUMENT, and nothing is written.
#[unsafe(no_mangle)]
pub extern "C" fn fb_get(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    array: *const fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let target = Given::of(array, "array")?;
        target.take(name, &object.run.get(name, set, None)?)
    })
}

/// A data set as memory that is read when it is touched, so it may be larger than what there is of memory; it is not to be
/// written. `dtype` is what the program expects; otherwise FB_BAD_ARGUMENT. `array` gets what it is: `strides` are NULL, or
/// those of an array whose first index runs fastest. It stays as it is when the data set is put again, deleted, or the run
/// closed, until fb_free(array.data), which frees its shape, too. No checksums are compared, and small data sets are copied.
/// FB_BAD_ARGUMENT for a run on another host.
#[unsafe(no_mangle)]
pub extern "C" fn fb_map(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    dtype: fb_dtype,
    array: *mut fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (name, out) = (given::text(name, "name")?, given::out(array, "array")?);
        out.set(arrays::give_mapped(name, given::dtype(dtype)?, object.run.map(name, set)?)?);
        Ok(())
    })
}

/// Reads a part of a data set: from `offset` on, along each axis as many elements as `array` has, every
/// `step`-th (NULL: every one). The rank of `array` is that of the data set.
#[unsafe(no_mangle)]
pub extern "C" fn fb_get_part(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    offset: *const i64,
    step: *const i64,
    array: *const fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let target = Given::of(array, "array")?;
        let selection = selection(&target.meta, offset, step)?;
        target.take(name, &object.run.get(name, set, Some(&selection))?)
    })
}

/// A part of an array as C says it: of the shape of what is put there or read into.
pub fn selection(part: &ArrayMeta, offset: *const i64, step: *const i64) -> Result<Selection> {
    let rank = part.shape.rank() as c_int;
    let offset = given::shape(rank, offset, "the offset")?;
    let step = if step.is_null() { None } else { Some(given::shape(rank, step, "the step")?) };
    let slice = |(axis, count): (usize, &u64)| Slice {
        start: offset.extents()[axis],
        count: *count,
        step: step.map_or(1, |step| step.extents()[axis]),
        squeeze: false,
    };
    Ok(Selection(part.shape.extents().iter().enumerate().map(slice).collect()))
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
