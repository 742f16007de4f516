//! What services printed in calls that have failed.

use std::ffi::{c_char, c_int};

use forebay::call::Printed;
use forebay::{Error, Result};

use crate::{given, memory};

/// Gives one of the two texts, and how many others may have printed some of it.
pub fn give(
    printed: Option<&Printed>,
    stream: c_int,
    words: *mut *mut c_char,
    others: *mut i64,
) -> Result<()> {
    let (out, count) = (given::out(words, "words")?, given::optional_out(others, "others")?);
    let nothing = Printed::default();
    let printed = printed.unwrap_or(&nothing);
    let found = match stream {
        1 => &printed.stdout,
        2 => &printed.stderr,
        _ => {
            let text = format!("{stream} is no stream that is told; give FB_STDOUT or FB_STDERR");
            return Err(Error::bad(text));
        }
    };
    // A zero byte would end the text before its end.
    out.set(memory::give_text(&found.replace('\0', "\u{fffd}"))?);
    count.set(printed.others.into());
    Ok(())
}
