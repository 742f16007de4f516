//! Memory that goes to the caller and comes back by `fb_free`: kept in a list, so that a foreign
//! pointer, or one freed before, is recognised.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use forebay::{Error, Result};

static GIVEN: LazyLock<Mutex<HashMap<usize, Box<dyn Any + Send>>>> = LazyLock::new(Mutex::default);

fn given() -> MutexGuard<'static, HashMap<usize, Box<dyn Any + Send>>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A text for C. Zeros in it end it there for C, so there must be none.
pub fn c_text(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::bad(format!("the text {text:?} has a zero byte inside, which C cannot hold")))
}

/// A text.
pub fn give_text(text: &str) -> Result<*mut c_char> {
    give_values(c_text(text)?.into_bytes_with_nul()).map(|p| p.cast())
}

/// Several texts; null when there are none.
pub fn give_texts<T: AsRef<str>>(texts: &[T]) -> Result<*mut *mut c_char> {
    let mut letters = Vec::new();
    let mut starts = Vec::with_capacity(texts.len());
    for text in texts {
        starts.push(letters.len());
        letters.extend_from_slice(c_text(text.as_ref())?.as_bytes_with_nul());
    }
    let base = letters.as_mut_ptr().expose_provenance();
    let mut pointers: Vec<usize> = starts.iter().map(|start| base + start).collect();
    if pointers.is_empty() {
        return Ok(ptr::null_mut());
    }
    let first = pointers.as_mut_ptr();
    given().insert(first.addr(), Box::new((letters, pointers)));
    Ok(first.cast())
}

/// Values; null when there are none.
pub fn give_values<T: Send + 'static>(mut values: Vec<T>) -> Result<*mut T> {
    if values.is_empty() {
        return Ok(ptr::null_mut());
    }
    let first = values.as_mut_ptr();
    given().insert(first.addr(), Box::new(values));
    Ok(first)
}

/// Memory that begins at an address and goes when what keeps it is dropped.
pub fn give_kept(first: *const u8, kept: impl Send + 'static) {
    given().insert(first.addr(), Box::new(kept));
}

/// Takes memory back; null is nothing.
pub fn take_back<T>(memory: *mut T) -> Result<()> {
    if memory.is_null() {
        return Ok(());
    }
    let mut given = given();
    let found = given.remove(&memory.addr());
    if given.is_empty() {
        // Nothing is held for a program that holds nothing: tools that look for leaks find none.
        *given = HashMap::new();
    }
    found.map(drop).ok_or_else(|| {
        Error::bad(format!(
            "{memory:p} is no memory that Forebay gave, or it was freed before; handles have functions of their own"
        ))
    })
}

/// How many pieces are out.
pub fn out() -> usize {
    given().len()
}
