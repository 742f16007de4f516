//! What C hands over, checked and made into Rust's terms while it stays in the caller's memory.
//!
//! Here and in `handle` stands what a C caller must be trusted with: that a pointer that is not
//! null points at as much as the header says, and that nobody else writes there meanwhile. All
//! else is checked: null, alignment, text, ranks, extents, and the sizes of options.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use forebay::call::Transfer;
use forebay::{ArrayMeta, DType, Error, Order, Result, Shape, limits};

/// Set number that stands for all sets, where a function says so.
pub const ALL_SETS: i64 = i64::MIN;
/// Largest options that any later version may have.
const OPTIONS: usize = 4096;

fn null(what: &str) -> Error {
    Error::bad(format!("{what} is NULL; it must be given"))
}

/// Text that must be there.
pub fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    optional_text(text, what)?.ok_or_else(|| null(what))
}

/// Text, or null for none.
pub fn optional_text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and C's texts end with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|e| Error::bad(format!("{what} {text:?} is not UTF-8: {e}")))
}

/// Several texts.
pub fn texts<'a>(texts: *const *const c_char, count: c_int, what: &str) -> Result<Vec<&'a str>> {
    let texts = slice(texts, count.into(), what)?.iter().enumerate();
    texts.map(|(at, t)| text(*t, &format!("{what}[{at}]"))).collect()
}

/// Values one after the other.
pub fn slice<'a, T>(values: *const T, count: i64, what: &str) -> Result<&'a [T]> {
    let count = counted::<T>(count, what)?;
    if count == 0 {
        return Ok(&[]);
    }
    pointed(values, what)?;
    // SAFETY: not null, aligned, below 2^63 bytes, and as many as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(values, count) })
}

/// Values one after the other, to be written.
pub fn slice_mut<'a, T>(values: *mut T, count: i64, what: &str) -> Result<&'a mut [T]> {
    let count = counted::<T>(count, what)?;
    if count == 0 {
        return Ok(&mut []);
    }
    pointed(values, what)?;
    // SAFETY: not null, aligned, below 2^63 bytes, as many as the caller says, and nobody else
    // uses them during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(values, count) })
}

fn counted<T>(count: i64, what: &str) -> Result<usize> {
    let bytes = count.checked_mul(size_of::<T>().max(1) as i64);
    usize::try_from(count)
        .ok()
        .filter(|_| bytes.is_some())
        .ok_or_else(|| Error::bad(format!("{count} is no number of values for {what}; give 0 or more")))
}

fn pointed<T>(pointer: *const T, what: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(null(what));
    }
    if !pointer.is_aligned() {
        let align = align_of::<T>();
        return Err(Error::bad(format!(
            "{what} at {pointer:p} is not aligned to {align} bytes; pass data of its type"
        )));
    }
    Ok(())
}

/// Where a result goes.
pub struct Out<T> {
    place: *mut T,
}

impl<T> Out<T> {
    /// Writes the result.
    pub fn set(self, value: T) {
        if !self.place.is_null() {
            // SAFETY: aligned (checked when made), and the caller's to be written.
            unsafe { self.place.write(value) };
        }
    }
}

/// The place of a result that the caller must give.
pub fn out<T>(place: *mut T, what: &str) -> Result<Out<T>> {
    pointed(place, what)?;
    Ok(Out { place })
}

/// The place of a result that the caller may leave out.
pub fn optional_out<T>(place: *mut T, what: &str) -> Result<Out<T>> {
    if !place.is_null() {
        pointed(place, what)?;
    }
    Ok(Out { place })
}

/// A value that the caller may leave out.
pub fn optional<T: Copy>(value: *const T, what: &str) -> Result<Option<T>> {
    if value.is_null() {
        return Ok(None);
    }
    pointed(value, what)?;
    // SAFETY: not null and aligned, and the caller's value of that type.
    Ok(Some(unsafe { value.read() }))
}

/// A value that must be there.
pub fn value<T: Copy>(value: *const T, what: &str) -> Result<T> {
    optional(value, what)?.ok_or_else(|| null(what))
}

/// Options of C: a structure of plain values that begins with its size; zero is the default of every
/// member.
///
/// # Safety
/// All bits zero must be a value of the type, it is `repr(C)`, and its first member is the `usize`
/// of its size.
pub unsafe trait Sized0: Copy {}

/// Options, or the defaults when there are none. Callers built for an earlier version give fewer
/// members, those built for a later one may give more as long as these are zero.
pub fn options<T: Sized0>(options: *const T, what: &str) -> Result<T> {
    let mut own = MaybeUninit::<T>::zeroed();
    if options.is_null() {
        // SAFETY: all zero is a value of the type (`Sized0`).
        return Ok(unsafe { own.assume_init() });
    }
    let size = value(options.cast::<usize>(), what)?;
    if !(size_of::<usize>()..=OPTIONS).contains(&size) {
        return Err(Error::bad(format!(
            "the size in {what} is {size}; begin with {{ .size = sizeof({what}) }} so that all else is zero"
        )));
    }
    let more = size.saturating_sub(size_of::<T>());
    let beyond = options.cast::<u8>().wrapping_add(size_of::<T>());
    if slice(beyond, more as i64, what)?.iter().any(|byte| *byte != 0) {
        return Err(Error::new(
            forebay::Code::VersionMismatch,
            format!("{what} sets members that this version does not know; install the newer library"),
        ));
    }
    // SAFETY: both have at least so many bytes, and any bits a caller writes into plain members are
    // values of theirs; what he did not give stays zero.
    unsafe {
        std::ptr::copy_nonoverlapping(
            options.cast::<u8>(),
            own.as_mut_ptr().cast::<u8>(),
            size.min(size_of::<T>()),
        );
        Ok(own.assume_init())
    }
}

/// Fills a structure of results that begins with its size, as far as the caller knows it.
pub fn fill<T: Sized0>(place: *mut T, value: T, what: &str) -> Result<()> {
    let size = self::value(place.cast_const().cast::<usize>(), what)?;
    if !(size_of::<usize>()..=OPTIONS).contains(&size) {
        return Err(Error::bad(format!(
            "the size in {what} is {size}; set it to sizeof({what}) before the call"
        )));
    }
    let head = size_of::<usize>();
    let known = size.min(size_of::<T>()) - head;
    // SAFETY: the caller's structure has `size` bytes, ours at least as many as are copied; the size
    // stays the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::from_ref(&value).cast::<u8>().add(head),
            place.cast::<u8>().add(head),
            known,
        );
    }
    Ok(())
}

/// An `fb_dtype`.
pub fn dtype(code: c_int) -> Result<DType> {
    let code = u8::try_from(code).map_err(|_| unknown_dtype(code))?;
    DType::from_code(code).map_err(|_| unknown_dtype(code.into()))
}

#[cold]
fn unknown_dtype(code: c_int) -> Error {
    Error::bad(format!("{code} is no fb_dtype; use FB_F64 and its like"))
}

/// The order of elements: 0 row-major, 1 column-major.
pub fn order(code: c_int) -> Result<Order> {
    match code {
        0 => Ok(Order::C),
        1 => Ok(Order::F),
        _ => Err(Error::bad(format!("{code} is no order; use FB_ROW_MAJOR or FB_COLUMN_MAJOR"))),
    }
}

/// How arguments are handed over.
pub fn transfer(code: c_int) -> Result<Transfer> {
    match code {
        0 => Ok(Transfer::Nowait),
        1 => Ok(Transfer::Wait),
        2 => Ok(Transfer::Copy),
        _ => Err(Error::bad(format!(
            "{code} is no way to hand arguments over; use FB_TRANSFER_NOWAIT, FB_TRANSFER_WAIT or FB_TRANSFER_COPY"
        ))),
    }
}

/// Extents of C as a shape.
pub fn shape(ndim: c_int, extents: *const i64, what: &str) -> Result<Shape> {
    if ndim < 0 || ndim as usize > limits::RANK {
        return Err(Error::bad(format!(
            "{what} has the rank {ndim}; an array has 0 to {} dimensions",
            limits::RANK
        )));
    }
    let given = slice(extents, ndim.into(), what)?;
    let mut own = [0u64; limits::RANK];
    for (axis, (own, extent)) in own.iter_mut().zip(given).enumerate() {
        *own = u64::try_from(*extent).map_err(|_| {
            Error::bad(format!("{what}: axis {axis} is {extent}; extents and offsets are 0 or more"))
        })?;
    }
    Shape::new(&own[..given.len()])
}

/// What an array of C is: type, order, and extents, which are `what` in errors.
pub fn meta(dtype: c_int, order: c_int, ndim: c_int, extents: *const i64, what: &str) -> Result<ArrayMeta> {
    let shape = shape(ndim, extents, what)?;
    Ok(ArrayMeta { dtype: self::dtype(dtype)?, shape, order: self::order(order)? })
}

/// The bytes of an array.
pub fn bytes<'a>(meta: &ArrayMeta, data: *const c_void, what: &str) -> Result<&'a [u8]> {
    slice(data.cast(), meta.bytes()? as i64, what)
}

/// The bytes of an array, to be written.
pub fn bytes_mut<'a>(meta: &ArrayMeta, data: *mut c_void, what: &str) -> Result<&'a mut [u8]> {
    slice_mut(data.cast(), meta.bytes()? as i64, what)
}

/// Seconds; negative ones (and infinity) mean as long as it takes.
pub fn timeout(seconds: f64) -> Result<Option<Duration>> {
    if seconds.is_nan() {
        return Err(Error::bad("the timeout is not a number; give seconds, or FB_FOREVER"));
    }
    Ok(if seconds < 0.0 { None } else { Duration::try_from_secs_f64(seconds).ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Opts {
        size: usize,
        a: i64,
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        size: usize,
        a: i64,
        b: i64,
    }

    // SAFETY: plain numbers, the size first.
    unsafe impl Sized0 for Opts {}

    #[test]
    fn options_of_earlier_and_later_callers_are_read_as_far_as_they_are_known() {
        let read = |o: *const Opts| options(o, "opts").map(|o| o.a);
        assert_eq!(read(std::ptr::null()).unwrap(), 0);
        assert_eq!(read(&Opts { size: 16, a: 5 }).unwrap(), 5);
        assert_eq!(read(&Opts { size: 8, a: 5 }).unwrap(), 0);
        let later = |b| Later { size: 24, a: 5, b };
        assert_eq!(read(std::ptr::from_ref(&later(0)).cast()).unwrap(), 5);
        let refused = read(std::ptr::from_ref(&later(1)).cast()).unwrap_err();
        assert_eq!(refused.code(), forebay::Code::VersionMismatch);
        for size in [0, 7, 1 << 40] {
            assert!(read(&Opts { size, a: 5 }).unwrap_err().text().contains("sizeof(opts)"));
        }
    }

    #[test]
    fn ranks_extents_and_pointers_are_checked_before_they_are_used() {
        let extents = [2i64, 3];
        assert_eq!(shape(2, extents.as_ptr(), "a").unwrap().extents(), [2, 3]);
        assert!(shape(0, std::ptr::null(), "a").unwrap().extents().is_empty());
        assert!(shape(9, extents.as_ptr(), "a").unwrap_err().text().contains("rank 9"));
        assert!(shape(-1, extents.as_ptr(), "a").is_err());
        assert!(shape(2, std::ptr::null(), "a").unwrap_err().text().contains("NULL"));
        assert!(shape(1, [-4i64].as_ptr(), "a").unwrap_err().text().contains("axis 0 is -4"));
        let crooked = extents.as_ptr().cast::<u8>().wrapping_add(1).cast::<i64>();
        assert!(slice(crooked, 1, "a").unwrap_err().text().contains("aligned"));
        assert!(slice::<i64>(extents.as_ptr(), i64::MAX, "a").is_err());
    }

    #[test]
    fn seconds_below_zero_wait_for_ever() {
        assert_eq!(timeout(-1.0).unwrap(), None);
        assert_eq!(timeout(f64::INFINITY).unwrap(), None);
        assert_eq!(timeout(0.5).unwrap(), Some(Duration::from_millis(500)));
        assert!(timeout(f64::NAN).is_err());
    }
}
