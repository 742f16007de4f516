//! What belongs to no object: errors, versions, memory.

use std::ffi::{c_char, c_void};
use std::ptr;

use forebay::{CODES, Error};

use crate::fault::{self, fb_status, status};
use crate::{given, handle, memory, notices};

/// The version of the library as text, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn fb_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The text of the last error of this thread: what happened, the value, what to do. Good until the
/// next error of this thread; "" when it had none.
#[unsafe(no_mangle)]
pub extern "C" fn fb_last_error() -> *const c_char {
    let text = fault::last_text();
    if text.is_null() { c"".as_ptr() } else { text }
}

/// The name of a status, such as "NotFound"; "OK" of FB_OK, NULL of a number that is no status.
#[unsafe(no_mangle)]
pub extern "C" fn fb_status_name(code: fb_status) -> *const c_char {
    status_text(code, 0)
}

/// What to do about a status when the text of the error names nothing better; NULL of a number that is
/// no status.
#[unsafe(no_mangle)]
pub extern "C" fn fb_status_remedy(code: fb_status) -> *const c_char {
    status_text(code, 1)
}

/// Name and remedy of each code, each ended with a zero.
static TEXTS: std::sync::LazyLock<Vec<(fb_status, [std::ffi::CString; 2])>> =
    std::sync::LazyLock::new(|| {
        let text = |t: &str| memory::c_text(t).unwrap_or_default();
        let mut all = vec![(fault::OK, [text("OK"), text("Nothing to mend.")])];
        all.extend(CODES.iter().map(|c| (c.code as fb_status, [text(c.name), text(c.remedy)])));
        all
    });

fn status_text(code: fb_status, which: usize) -> *const c_char {
    let row = TEXTS.iter().find(|(number, _)| *number == code);
    row.map_or(ptr::null(), |(_, texts)| texts[which].as_ptr())
}

/// For a function of the program that Forebay calls and that fails by itself: keeps a text as this thread's last error and
/// returns `code`, which is to be returned. Write `return fb_fail(FB_IO, "the file of the mesh is gone");`. FB_BAD_ARGUMENT,
/// with a text that says so, when `code` is FB_OK or no status, or the text is no UTF-8. In a function that is told the end
/// of a call, which returns nothing, the failure is found by fb_failed.
#[unsafe(no_mangle)]
pub extern "C" fn fb_fail(code: fb_status, text: *const c_char) -> fb_status {
    status(|| {
        let known = CODES.iter().find(|c| c.code as fb_status == code);
        let known = known.ok_or_else(|| {
            Error::bad(format!("{code} is no status of a failure; give one such as FB_REMOTE_ERROR"))
        })?;
        let failure = Error::new(known.code, given::text(text, "text")?);
        notices::say(&failure);
        Err(failure)
    })
}

/// Gives back memory that a function of this library allocated for the caller, as its description
/// says. NULL is nothing; what is not such memory, or was freed before, is refused.
#[unsafe(no_mangle)]
pub extern "C" fn fb_free(memory: *mut c_void) -> fb_status {
    status(|| memory::take_back(memory))
}

/// How many handles and pieces of memory the program has and has not given back: 0 at the end of a
/// program without leaks.
#[unsafe(no_mangle)]
pub extern "C" fn fb_in_use(count: *mut i64) -> fb_status {
    status(|| {
        let count = given::out(count, "count")?;
        count.set((handle::open() + memory::out()) as i64);
        Ok(())
    })
}
