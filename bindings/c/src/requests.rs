//! A call as a service function of C sees it. The handle is good in the thread that runs the function,
//! until it returns: it is the number of the call, kept in the thread beside the call itself.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::serve::{Arg, Call};
use forebay::{ArrayMeta, Code, Error, Result, Scalar};

use crate::arrays::fb_array;
use crate::fault::{self, fb_status, status};
use crate::given;
use crate::kinds::{fb_dtype, fb_order, fb_request};
use crate::memory::c_text;

/// A call being served.
pub struct Request<'a> {
    call: &'a mut Call,
    /// Texts that the function looks at, with their zeros.
    texts: Vec<CString>,
    /// Extents and strides of arrays that it looks at.
    extents: Vec<Box<[i64]>>,
    failure: Option<Error>,
}

thread_local! {
    /// The number of the call that this thread serves, and where it is.
    static CURRENT: Cell<(u64, *mut c_void)> = const { Cell::new((0, ptr::null_mut())) };
}

/// Numbers look like no address, as handles do. A thread takes many at a time.
static NEXT: AtomicU64 = AtomicU64::new(0xFBF << 52 | 1);
const NUMBERS: u64 = 1 << 16;

thread_local! {
    /// Those that this thread has left.
    static LEFT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn next_number() -> u64 {
    let (mut next, mut end) = LEFT.get();
    if next == end {
        next = NEXT.fetch_add(NUMBERS, Ordering::Relaxed);
        end = next + NUMBERS;
    }
    LEFT.set((next + 1, end));
    next
}

impl<'a> Request<'a> {
    /// A call before its function runs.
    pub fn new(call: &'a mut Call) -> Request<'a> {
        Request { call, texts: Vec::new(), extents: Vec::new(), failure: None }
    }

    /// What the function said of it.
    pub fn outcome(self, code: fb_status) -> Result<()> {
        match (self.failure, code) {
            (Some(failure), _) => Err(failure),
            (None, fault::OK) => Ok(()),
            (None, code) => {
                let told = fault::last_of(code).map(|e| e.text().to_owned());
                let told = told.unwrap_or_else(|| format!("the function returned {code}"));
                Err(Error::new(Code::RemoteError, format!("{}: {told}", self.call.signature().name())))
            }
        }
    }

    fn arg(&mut self, index: c_int) -> Result<Arg<'_>> {
        let index = usize::try_from(index)
            .map_err(|_| Error::bad(format!("parameter {index} does not exist; they count from 0")))?;
        self.call.arg(index)
    }

    /// An array in place as C has them; extents and strides are good as long as the request.
    fn described(&mut self, meta: &ArrayMeta, data: *mut c_void) -> fb_array {
        let (array, extents) = fb_array::over(meta, data);
        self.extents.push(extents);
        array
    }

    /// A result that is no array is the function's to set; what only comes in stays as it is.
    fn result(&mut self, index: c_int) -> Result<Arg<'_>> {
        let arg = self.arg(index)?;
        if !arg.param().way.comes() {
            return Err(Error::bad(format!(
                "parameter {} is in; only out and inout can be set",
                arg.param().name
            )));
        }
        Ok(arg)
    }
}

/// Runs a service function, to which the request is known in this thread meanwhile.
pub fn during(request: &mut Request<'_>, run: impl FnOnce(*mut fb_request) -> fb_status) -> fb_status {
    let number = next_number();
    let before = CURRENT.replace((number, ptr::from_mut(request).cast()));
    let code = run(ptr::without_provenance_mut(number as usize));
    CURRENT.set(before);
    code
}

/// Works on the request of a handle.
fn with<T>(handle: *mut fb_request, work: impl FnOnce(&mut Request<'_>) -> Result<T>) -> Result<T> {
    let (number, place) = CURRENT.get();
    let place = NonNull::new(place.cast::<Request<'_>>()).filter(|_| handle.addr() as u64 == number);
    let Some(mut place) = place else {
        return Err(Error::new(
            Code::Closed,
            format!(
                "{handle:p} is not the request that this thread serves; use it in the service function's own thread until it returns"
            ),
        ));
    };
    // SAFETY: `during` keeps the request in its frame while the number is current, and lends it to
    // nobody else; calls of these functions do not nest.
    work(unsafe { place.as_mut() })
}

/// An array parameter in place. `dtype` is what the function expects; otherwise FB_BAD_ARGUMENT. Parameters count
/// from 0. Its elements lie together, with strides only where the first index runs fastest, as the caller has it. It
/// is good until the function returns.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_array(
    request: *mut fb_request,
    index: c_int,
    dtype: fb_dtype,
    array: *mut fb_array,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let out = given::out(array, "array")?;
            let wanted = given::dtype(dtype)?;
            let arg = r.arg(index)?;
            let param = arg.param();
            let (meta, bytes) = arg.array()?;
            if meta.dtype != wanted {
                return Err(Error::bad(format!(
                    "parameter {} is an array of {}, not of {wanted}",
                    param.name, meta.dtype
                )));
            }
            let data: *mut c_void = bytes.as_ptr().cast();
            out.set(r.described(&meta, data));
            Ok(())
        })
    })
}

/// The order of an array parameter: FB_ROW_MAJOR or FB_COLUMN_MAJOR, as the caller has it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_order(
    request: *mut fb_request,
    index: c_int,
    order: *mut fb_order,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let out = given::out(order, "order")?;
            out.set(r.arg(index)?.meta()?.order as fb_order);
            Ok(())
        })
    })
}

/// A scalar parameter as a real number.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_f64(request: *mut fb_request, index: c_int, value: *mut f64) -> fb_status {
    status(|| {
        with(request, |r| {
            let out = given::out(value, "value")?;
            out.set(r.arg(index)?.f64()?);
            Ok(())
        })
    })
}

/// A scalar parameter as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_i64(request: *mut fb_request, index: c_int, value: *mut i64) -> fb_status {
    status(|| {
        with(request, |r| {
            let out = given::out(value, "value")?;
            out.set(r.arg(index)?.i64()?);
            Ok(())
        })
    })
}

/// A scalar parameter of any dtype, converted to the one wanted if its value survives that.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_scalar(
    request: *mut fb_request,
    index: c_int,
    dtype: fb_dtype,
    value: *mut c_void,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let scalar = r.arg(index)?.scalar()?.convert(given::dtype(dtype)?)?;
            let bytes = scalar.bytes();
            given::slice_mut(value.cast::<u8>(), bytes.len() as i64, "value")?.copy_from_slice(bytes);
            Ok(())
        })
    })
}

/// A text parameter, good until the function returns; of a file, its path: the function reads that file, or writes it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_str(
    request: *mut fb_request,
    index: c_int,
    text: *mut *const c_char,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let out = given::out(text, "text")?;
            let found = c_text(r.arg(index)?.str()?)?;
            out.set(found.as_ptr());
            r.texts.push(found);
            Ok(())
        })
    })
}

/// A parameter of bytes, good until the function returns or sets it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_bytes(
    request: *mut fb_request,
    index: c_int,
    bytes: *mut *const c_void,
    count: *mut i64,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let (bytes, count) = (given::out(bytes, "bytes")?, given::out(count, "count")?);
            let arg = r.arg(index)?;
            let found = arg.bytes()?;
            count.set(found.len() as i64);
            bytes.set(found.as_ptr().cast());
            Ok(())
        })
    })
}

/// Gives a scalar result a real number as its value, converted to the dtype of the signature.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_set_f64(request: *mut fb_request, index: c_int, value: f64) -> fb_status {
    status(|| with(request, |r| r.result(index)?.set(value)))
}

/// Gives a scalar result an integer as its value, converted to the dtype of the signature.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_set_i64(request: *mut fb_request, index: c_int, value: i64) -> fb_status {
    status(|| with(request, |r| r.result(index)?.set(value)))
}

/// Gives a scalar result a scalar of any dtype as its value, converted to the dtype of the signature.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_set_scalar(
    request: *mut fb_request,
    index: c_int,
    dtype: fb_dtype,
    value: *const c_void,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let dtype = given::dtype(dtype)?;
            let bytes = given::slice(value.cast::<u8>(), dtype.size() as i64, "value")?;
            r.result(index)?.set(Scalar::from_bytes(dtype, bytes)?)
        })
    })
}

/// Gives a text result its value.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_set_str(
    request: *mut fb_request,
    index: c_int,
    text: *const c_char,
) -> fb_status {
    status(|| with(request, |r| r.result(index)?.set_str(given::text(text, "text")?)))
}

/// Gives a result of bytes its value.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_set_bytes(
    request: *mut fb_request,
    index: c_int,
    bytes: *const c_void,
    count: i64,
) -> fb_status {
    status(|| {
        with(request, |r| {
            let bytes = given::slice(bytes.cast::<u8>(), count, "bytes")?;
            r.result(index)?.set_bytes(bytes)
        })
    })
}

/// Fails the call: the caller gets FB_REMOTE_ERROR with this text. Write
/// `return fb_request_fail(request, "...");`.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_fail(request: *mut fb_request, text: *const c_char) -> fb_status {
    status(|| {
        with(request, |r| {
            let failure = Error::new(Code::RemoteError, given::text(text, "text")?);
            r.failure = Some(failure.clone());
            Err(failure)
        })
    })
}

/// Whether the caller gave up (1 or 0): long services look now and then, and return.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_cancelled(request: *mut fb_request, cancelled: *mut c_int) -> fb_status {
    status(|| {
        with(request, |r| {
            given::out(cancelled, "cancelled")?.set(r.call.cancelled().into());
            Ok(())
        })
    })
}

/// The signature of what was called, good until the function returns.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_signature(request: *mut fb_request, signature: *mut *const c_char) -> fb_status {
    status(|| {
        with(request, |r| {
            let out = given::out(signature, "signature")?;
            let found = c_text(&r.call.signature().to_string())?;
            out.set(found.as_ptr());
            r.texts.push(found);
            Ok(())
        })
    })
}

/// The number of parameters, results included.
#[unsafe(no_mangle)]
pub extern "C" fn fb_request_count(request: *mut fb_request, count: *mut c_int) -> fb_status {
    status(|| {
        with(request, |r| {
            given::out(count, "count")?.set(r.call.len() as c_int);
            Ok(())
        })
    })
}
