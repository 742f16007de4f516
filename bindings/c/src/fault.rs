//! Errors at the boundary: a status for C, its text for `fb_last_error`, and no panic beyond.

use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use forebay::{Code, Error, Result};

/// `FB_OK` or the number of a code; the header writes it as an enumeration.
pub type fb_status = c_int;

/// All went well.
pub const OK: fb_status = 0;

thread_local! {
    static LAST: RefCell<Option<(Code, CString)>> = const { RefCell::new(None) };
}

/// Runs the body of a C function: its error becomes the thread's last one, a panic an internal error.
#[inline]
pub fn status(body: impl FnOnce() -> Result<()>) -> fb_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(e)) => fail(&e),
        Err(panic) => fail(&of_panic(&*panic)),
    }
}

/// Keeps an error as the thread's last one.
#[cold]
pub fn fail(error: &Error) -> fb_status {
    let text: Vec<u8> = error.text().bytes().filter(|b| *b != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // While a thread ends its last error may be gone already.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some((error.code(), text));
        }
    });
    error.code() as fb_status
}

fn of_panic(panic: &(dyn std::any::Any + Send)) -> Error {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words");
    Error::internal(format!("a defect of Forebay: {words}; please report it"))
}

/// The text of the thread's last error, or null when it had none.
pub fn last_text() -> *const std::ffi::c_char {
    let text = LAST.try_with(|last| last.borrow().as_ref().map_or(ptr::null(), |(_, text)| text.as_ptr()));
    text.unwrap_or(ptr::null())
}

/// The last error of this thread, if its code is the status given.
pub fn last_of(status: fb_status) -> Option<Error> {
    let last = LAST.try_with(|last| last.borrow().clone()).ok().flatten();
    last.filter(|(code, _)| *code as fb_status == status)
        .map(|(code, text)| Error::new(code, text.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        let text = last_text();
        assert!(!text.is_null());
        // SAFETY: the text lives until this thread's next error.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_at_the_boundary_as_an_internal_error() {
        let status = status(|| panic!("seven is not {}", 8));
        assert_eq!(status, Code::Internal as fb_status);
        assert!(last().contains("seven is not 8"), "{}", last());
    }

    #[test]
    fn the_last_error_is_of_this_thread_and_stays_when_the_next_call_is_well() {
        assert_eq!(status(|| Err(Error::bad("x is 3; say 4"))), Code::BadArgument as fb_status);
        assert_eq!(status(|| Ok(())), OK);
        assert_eq!(last(), "x is 3; say 4");
        let other = std::thread::spawn(|| last_text().is_null()).join().unwrap();
        assert!(other);
    }
}
