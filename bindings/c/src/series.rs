//! One array over many steps.

use std::ffi::{c_char, c_int, c_void};

use forebay::{Array, ArrayMeta, Error, Selection, SeriesOptions, Shape};

use crate::arrays::{Given, fb_array};
use crate::data::selection;
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle;
use crate::kinds::fb_run;

/// What may go with a series. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_series_opts {
    /// sizeof(fb_series_opts).
    pub size: usize,
    /// The element with which the part of each array begins, one index an axis; NULL: the arrays are wanted whole.
    pub offset: *const i64,
    /// Every how many-th element is taken along each axis; NULL: every one.
    pub step: *const i64,
    /// 1: NaN stands for the array of a step that has none, if it is of floats or complex numbers; 0: that is FB_NOT_FOUND.
    pub missing_nan: c_int,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_series_opts {}

/// Reads one array of the snapshots over time, or the same part of it at each step: the first axis of `array` is that of
/// the steps, the others are those of the part. `steps`: `count` numbers of snapshots, in the order in which they are
/// wanted; NULL: all complete ones, as fb_snapshots lists them. `opts` may be NULL.
/// FB_CONFLICT if the arrays differ in dtype or shape; the text names the first step at which they do.
#[unsafe(no_mangle)]
pub extern "C" fn fb_series(
    run: *mut fb_run,
    name: *const c_char,
    steps: *const i64,
    count: i64,
    array: *const fb_array,
    opts: *const fb_series_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let opts = given::options(opts, "fb_series_opts")?;
        let whole = Given::of(array, "array")?.meta;
        let Some((room, part)) = whole.shape.extents().split_first() else {
            return Err(Error::bad("the array of a series has no axis; its first one is that of the steps"));
        };
        let part = ArrayMeta { shape: Shape::new(part)?, ..whole };
        let selection = match opts.offset.is_null() {
            true => Selection::default(),
            false => selection(&part, opts.offset, opts.step)?,
        };
        let steps = match steps.is_null() {
            true => None,
            false => Some(given::slice(steps, count, "steps")?.to_vec()),
        };
        let found =
            object.run.series(name, &SeriesOptions { selection, steps, fill: opts.missing_nan != 0 })?;
        if found.steps.len() as u64 != *room {
            return Err(Error::bad(format!(
                "{name:?} over {} steps does not fit an array with {room} along its first axis; fb_snapshots tells how many \
                 there are",
                found.steps.len()
            )));
        }
        let each = found.meta.bytes()? as usize;
        let wanted = given::value(array, "array")?;
        let (shape, strides) = (wanted.shape.wrapping_add(1), wanted.strides);
        let (apart, strides) = match strides.is_null() {
            true => (part.bytes()? as i64, strides),
            false => (given::slice(strides, 1, "the strides")?[0], strides.wrapping_add(1)),
        };
        for at in 0..found.steps.len() {
            let data: *mut c_void = wanted.data.wrapping_byte_offset(apart as isize * at as isize);
            let place = fb_array { ndim: wanted.ndim - 1, shape, strides, data, ..wanted };
            let bytes = found.bytes[at * each..(at + 1) * each].to_vec();
            Given::of(&place, "array")?.take(name, &Array { meta: found.meta, bytes })?;
        }
        Ok(())
    })
}
